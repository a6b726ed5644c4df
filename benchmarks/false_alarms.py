"""False alarms: the statistics of the default audit, again and again on laws whose claims hold with equality.

Every check by draws or by times of a short run has a level of 10⁻⁹, so that a run of fewer than 1,000 of them is
wrong less than once in a million runs (Bonferroni). A count of zero at that level says little by itself. The same
draws are therefore also judged at 99 %, where one alarm in a hundred is allowed: that shows whether the level is
kept, and by how much.

Run ``python benchmarks/false_alarms.py``; it writes ``docs/audit/false_alarms.json``.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from discreet import ApproxDP, GaussianDP, PureDP
from discreet.audit.exact_losses import _settings
from discreet.audit.statistical import audit_draws, audit_repetition, audit_timing
from discreet.core.guarantee import Guarantee
from discreet.core.noise.choice import choose
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms import Gaussian, Laplace
from discreet.mechanisms.choices.selection import ExponentialMechanism

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "audit" / "false_alarms.json"
ALPHA = 1e-9
LOOSE = 0.01
DRAWS = 2_000
Alarms = Iterator[tuple[bool, bool]]
"""Whether there was an alarm at the level of a short run, and at 99 %."""


def by_draws(here: Callable[[], Any], there: Callable[[], Any], claim: Guarantee, times: int) -> Alarms:
    """Audits of draws on two neighbours."""
    for _ in range(times):
        sides = here(), there()
        yield tuple(not audit_draws(*sides, claim, confidence=1 - level).passed for level in (ALPHA, LOOSE))  # type: ignore[misc]


def cells(mechanism: Any, truth: list[float]) -> Any:
    """Draws of several numbers at once."""
    return np.column_stack([mechanism.law(value).sample(DRAWS) for value in truth])


def swept(times: int) -> Alarms:
    """Random mechanisms, truths and neighbours."""
    for _, claim, here, there in _settings(times, DRAWS, np.random.default_rng(2)):
        yield from by_draws(lambda side=here: side, lambda side=there: side, claim, 1)  # type: ignore[misc]


def timed(times: int) -> Alarms:
    """Times of the same call against itself."""
    for _ in range(times):
        for_short = audit_timing(_work, _work, repeats=400, confidence=1 - ALPHA)
        loose = audit_timing(_work, _work, repeats=400, confidence=1 - LOOSE, effect=0.0)
        yield not for_short.passed, not loose.passed


def _work() -> int:
    return sum(range(200))


def repeated(times: int) -> Alarms:
    """Noise that is seen twice; every tenth audit forks."""
    for number in range(times):
        audit = audit_repetition(partial(Laplace(1.0).draw, [0.0] * 4), times=50, forks=2 if number % 10 == 0 else 0)
        yield not audit.passed, not audit.passed


def families(times: int) -> Iterator[tuple[str, Alarms]]:
    """Every kind of statistic of the default audit."""
    laplace, gaussian = Laplace(1.0), Gaussian(1.0)
    approximate = Gaussian.calibrate(ApproxDP(1.0, 0.01), Sensitivity(l2=1.0))
    factor = ExponentialMechanism.calibrate(PureDP(1.0), Sensitivity(moves=(1.0,))).factor
    sides: tuple[tuple[str, Any, Any, Guarantee], ...] = (
        ("Laplace, ε 1", partial(laplace.law(0.0).sample, DRAWS), partial(laplace.law(1.0).sample, DRAWS), PureDP(1.0)),
        (
            "Gaussian, μ 1",
            partial(gaussian.law(0.0).sample, DRAWS),
            partial(gaussian.law(1.0).sample, DRAWS),
            GaussianDP(1.0),
        ),
        (
            "Gaussian, (ε 1, δ 0.01)",
            partial(approximate.law(0.0).sample, DRAWS),
            partial(approximate.law(1.0).sample, DRAWS),
            ApproxDP(1.0, 0.01),
        ),
        (
            "Laplace, two cells",
            partial(cells, Laplace(2.0), [0.0, 0.0]),
            partial(cells, Laplace(2.0), [1.0, 1.0]),
            PureDP(1.0),
        ),
        (
            "choice of three",
            partial(choose, [2.0, 1.0, 0.0], factor, size=DRAWS),
            partial(choose, [1.0, 1.0, 0.0], factor, size=DRAWS),
            PureDP(1.0),
        ),
        ("coin, ε 1", partial(_coins, 1.0), partial(_coins, -1.0), PureDP(1.0)),
    )
    for name, here, there, claim in sides:
        yield name, by_draws(here, there, claim, times)
    yield "random neighbours", swept(times)
    yield "times", timed(times)
    yield "repetition", repeated(times)


def _coins(epsilon: float) -> Any:
    """Randomised response, the worst pair that ε allows."""
    return (np.random.default_rng().random(DRAWS) < 1 / (1 + math.exp(-epsilon))).astype(float)


def main() -> None:
    """Count the alarms of each family, and print them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--times", type=int, default=1_000)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    found = []
    for name, alarms in families(options.times):
        both = list(alarms)
        row: dict[str, Any] = {
            "family": name,
            "audits": len(both),
            "alarms": sum(one for one, _ in both),
            "at_99_percent": sum(two for _, two in both),
        }
        print(row, flush=True)
        found.append(row)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    told = {"level": ALPHA, "alarms": sum(row["alarms"] for row in found), "families": found}
    options.out.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    print(f"{told['alarms']} false alarms in {options.times:,} audits of each of {len(found)} families")


if __name__ == "__main__":
    main()
