"""A private A/B test: plan it, run it, read the result. The outcomes are made up: most people spend nothing."""

from __future__ import annotations

import numpy as np

from discreet import Ledger, PureDP
from discreet.questions import compare_means, plan_comparison

PEOPLE = 20_000
LIMIT = (0, 500)


def outcomes(rng: np.random.Generator, buyers: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Spend of one arm: a few buyers with a heavy right tail."""
    return np.where(rng.random(PEOPLE) < buyers, rng.lognormal(3.5, 1.0, PEOPLE), 0.0)


def main() -> None:
    """Plan without data, then compare."""
    print(plan_comparison((PEOPLE, PEOPLE), bounds=LIMIT, guarantee=PureDP(1.0), expected_sd=15.0))
    rng = np.random.default_rng(5)
    treatment, control = outcomes(rng, 0.06), outcomes(rng, 0.04)
    ledger = Ledger(":memory:", budget=PureDP(1.0))
    print(compare_means(treatment, control, bounds=LIMIT, guarantee=PureDP(1.0), ledger=ledger))


if __name__ == "__main__":
    main()
