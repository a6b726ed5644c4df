"""Known faults, each a small mutation of something correct, and the audit that must catch it."""

from __future__ import annotations

import itertools
import math
import random
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
from flint import arb
from scipy.special import ndtri

from discreet import ApproxDP, GaussianDP, Ledger, Neighbours, PureDP, release
from discreet.audit.catalogue import _kept_law, _mixed
from discreet.audit.exact_losses import audit_cells, audit_choices, audit_laws, cells_hold, laplace_masses
from discreet.audit.hostile import audit_hostile
from discreet.audit.replay import audit_replay
from discreet.audit.statistical import audit_pair, audit_repetition, audit_timing
from discreet.audit.tampering import audit_spending
from discreet.core.errors import InsufficientBudget
from discreet.core.numbers import precisely
from discreet.core.protection import Protection, Unit
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms import BoundedLaplace, Gaussian, Laplace
from discreet.mechanisms.bounded.laplace import TruncatedLaplaceLaw
from discreet.mechanisms.choices.selection import RangeProfile
from discreet.mechanisms.laplace import LaplaceLaw
from discreet.mechanisms.omission.amplification import poisson_sampling
from discreet.mechanisms.omission.step import AbsoluteDistance, OutlierSuppression
from discreet.testing import check_sampler

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
UNIT = Sensitivity(l1=1.0)


@dataclass(frozen=True)
class Finding:
    """Which audit looked, what was claimed, what it found, and whether that is more than claimed."""

    audit: str
    claimed: str
    found: str
    caught: bool


Attack = Callable[[], Finding]
FAULTS: dict[str, Attack] = {}


def fault(name: str) -> Callable[[Attack], Attack]:
    def add(attack: Attack) -> Attack:
        assert name not in FAULTS
        FAULTS[name] = attack
        return attack

    return add


def everywhere(original: Any, stand_in: Any) -> ExitStack:
    """Replace a function wherever it was imported to."""
    stack = ExitStack()
    for name, module in list(sys.modules.items()):
        if name.startswith("discreet") and module is not None:
            for attribute, value in list(vars(module).items()):
                if value is original:
                    stack.enter_context(patch.object(module, attribute, stand_in))
    return stack


# ---- audits in one line each ----------------------------------------------------------------------------------------


def exact(audit: Any) -> Finding:
    pure = audit["claimed_epsilon"]
    if pure is not None and not audit["found_epsilon"] <= pure * (1 + 1e-6):
        return Finding("exact", f"ε {pure:.4g}", f"ε {audit['found_epsilon']:.4g}", not audit.passed)
    worst = int(np.argmax(np.array(audit["found_deltas"]) - np.array(audit["claimed_deltas"])))
    claimed, found = audit["claimed_deltas"][worst], audit["found_deltas"][worst]
    return Finding("exact", f"δ {claimed:.4g}", f"δ {found:.4g}", not audit.passed)


def laws(claim: Any, *pair: tuple[Any, Any]) -> Finding:
    return exact(audit_laws(claim, [list(pair)]))


def choices(claim: Any, here: Any, there: Any) -> Finding:
    return exact(audit_choices(claim, [(np.asarray(here, float), np.asarray(there, float))]))


def drawn(claim: Any, here: Any, there: Any, draws: int = 20_000) -> Finding:
    audit = audit_pair(here, there, claim, draws=draws)
    return Finding(
        "statistical",
        f"{audit['symbol']} {audit['bound']:.4g}",
        f"{audit['symbol']} ≥ {audit['certified']:.4g}",
        not audit.passed,
    )


def replayed(measure: Callable[[Any], Exact], *pairs: tuple[Any, Any], draw: Any = None) -> Finding:
    audit = audit_replay(measure, pairs, draw=draw)
    found = f"ℓ₁ {audit['measured_l1']:.17g}"
    if not audit["same_public"]:
        found = "public facts differ"
    elif not audit["same_path"]:
        found = "paths differ"
    return Finding("replay", f"ℓ₁ {audit['declared_l1']:.17g}", found, not audit.passed)


def repeated(draw: Callable[[], Any], **options: Any) -> Finding:
    audit = audit_repetition(draw, **options)
    return Finding("repetition", "all new", f"{audit['repeats']} of {audit['draws']} seen before", not audit.passed)


def timed(here: Callable[[], Any], there: Callable[[], Any], repeats: int = 400) -> Finding:
    audit = audit_timing(here, there, repeats=repeats)
    return Finding("timing", "AUC 0.5", f"AUC {audit['auc']:.3f}", not audit.passed)


def sampled(law: Any) -> Finding:
    try:
        check_sampler(law, 20_000)
    except AssertionError as error:
        return Finding("law", "draws follow the law", str(error)[:40], True)
    return Finding("law", "draws follow the law", "they do", False)


def measured(value: Callable[[Any], Any], l1: float, **facts: Any) -> Callable[[Any], Exact]:
    return lambda rows: Exact(value(rows), Sensitivity(l1=l1), **facts)


def normal_laws(scale: float, shift: float = 1.0) -> tuple[Any, Any]:
    return Gaussian(scale).law(0.0), Gaussian(scale).law(shift)


# ---- scales and sensitivities ---------------------------------------------------------------------------------------


@fault("truncated Laplace with liu2019's scale (E1)")
def _() -> Finding:
    return laws(PureDP(1.0), (TruncatedLaplaceLaw(0.0, 0.1, 0, 1), TruncatedLaplaceLaw(0.1, 0.1, 0, 1)))


@fault("the same, by draws")
def _() -> Finding:
    here, there = (TruncatedLaplaceLaw(truth, 0.1, 0, 1) for truth in (0.0, 0.1))
    return drawn(PureDP(1.0), here.sample, there.sample, 100_000)


@fault("Laplace scale × 0.9")
def _() -> Finding:
    return laws(PureDP(1.0), (Laplace(0.9).law(0.0), Laplace(0.9).law(1.0)))


@fault("Laplace scale × 0.9, by draws")
def _() -> Finding:
    return drawn(PureDP(1.0), Laplace(0.9).law(0.0).sample, Laplace(0.9).law(1.0).sample, 200_000)


@fault("Gaussian scale × 0.9")
def _() -> Finding:
    return laws(GaussianDP(1.0), normal_laws(0.9))


@fault("Gaussian scale × 0.9, by draws")
def _() -> Finding:
    return drawn(GaussianDP(1.0), *(Gaussian(0.9).law(truth).sample for truth in (0.0, 1.0)), 100_000)


@fault("bounded Laplace scale × 0.95")
def _() -> Finding:
    scale = 0.95 * BoundedLaplace.calibrate(PureDP(1.0), Sensitivity(l1=0.1), bounds=(0, 1)).scale
    return laws(PureDP(1.0), (TruncatedLaplaceLaw(0.0, scale, 0, 1), TruncatedLaplaceLaw(0.1, scale, 0, 1)))


@fault("bounded law without its normaliser in the calibration")
def _() -> Finding:
    return laws(PureDP(0.25), (TruncatedLaplaceLaw(0.0, 4.0, 0, 3), TruncatedLaplaceLaw(1.0, 4.0, 0, 3)))


@fault("bisection that stops just below the right scale")
def _() -> Finding:
    scale = BoundedLaplace.calibrate(PureDP(1.0), Sensitivity(l1=0.1), bounds=(0, 1)).scale * (1 - 1e-13)
    edges = [Fraction(0), Fraction(1, 2**80), Fraction(1, 2), Fraction(1)]
    with precisely(2048):
        here, there = (laplace_masses(truth, scale, edges, inside=True) for truth in (Fraction(0), Fraction(0.1)))
        held, _ = cells_hold(here, there, arb(1).exp())
    return Finding("exhaustive", "ε 1", "ε > 1 by about 1e-13", not held)


@fault("classical Gaussian scale at ε = 8")
def _() -> Finding:
    return laws(ApproxDP(8.0, 0.01), normal_laws(math.sqrt(2 * math.log(1.25 / 0.01)) / 8))


@fault("ℓ₂ instead of ℓ₁ for Laplace noise on two cells")
def _() -> Finding:
    scale = math.sqrt(2)
    one = Laplace(scale).law(0.0), Laplace(scale).law(1.0)
    return laws(PureDP(1.0), one, one)


@fault("a replaced row counted as one move of a table")
def _() -> Finding:
    def counts(rows: Any) -> Exact:
        return Exact(np.bincount(rows, minlength=3), Sensitivity(moves=(1.0,)), Protection(neighbours=REPLACE))

    return replayed(counts, ([0, 1, 2], [0, 1, 1]))


@fault("variance with n − 1 and the sensitivity of n")
def _() -> Finding:
    n = 5

    def variance(rows: Any) -> Fraction:
        values = [Fraction(row) for row in rows]
        mean = sum(values) / n
        return sum((value - mean) ** 2 for value in values) / (n - 1)

    return replayed(
        measured(variance, (n - 1) / n**2, protection=Protection(neighbours=REPLACE)),
        ([0, 0, 0, 0, 0], [0, 0, 0, 0, 1]),
    )


@fault("sum under add/remove with the width as sensitivity")
def _() -> Finding:
    return replayed(measured(lambda rows: Fraction(sum(rows)), 1.0), ([5, 6], [5, 6, 6]))


@fault("uncentred sums of uncensored values (E4)")
def _() -> Finding:
    low, high = 1.0, 1.2

    def inside(rows: Any) -> Fraction:
        return sum((Fraction(row) for row in rows if low < row < high), Fraction(0))

    return replayed(measured(inside, 0.2, protection=Protection(neighbours=REPLACE)), ([1.1, 1.19], [1.1, 1.3]))


@fault("sums between raw quantiles (E5)")
def _() -> Finding:
    def inside(rows: Any) -> Fraction:
        ordered = sorted(rows)
        low, high = ordered[1], ordered[-2]
        return sum((Fraction(row) for row in rows if low <= row <= high), Fraction(0))

    return replayed(measured(inside, 1.0, protection=Protection(neighbours=REPLACE)), ([0, 0, 1, 50], [0, 50, 1, 50]))


@fault("sensitivity of clipped data, sum of raw data")
def _() -> Finding:
    return replayed(measured(lambda rows: Fraction(sum(rows)), 1.0), ([0.5], [0.5, 80.0]))


@fault("a bound read from the data")
def _() -> Finding:
    def total(rows: Any) -> Exact:
        return Exact(Fraction(sum(rows)), Sensitivity(l1=float(max(rows))))

    return replayed(total, ([1, 2], [1, 2, 90]))


@fault("domain inferred from the data")
def _() -> Finding:
    def counts(rows: Any) -> Exact:
        return Exact(np.unique(rows, return_counts=True)[1], Sensitivity(moves=(1.0,)))

    return replayed(counts, (["a", "b"], ["a", "b", "c"]))


@fault("the number of rows leaks as a public fact")
def _() -> Finding:
    def mean(rows: Any) -> Exact:
        return Exact(Fraction(sum(rows), 100), Sensitivity(l1=0.01), public={"n": len(rows)})

    return replayed(mean, ([0, 1], [0, 1, 1]))


@fault("float sum in the order of the rows")
def _() -> Finding:
    def total(rows: Any) -> Fraction:
        summed = 0.0
        for row in rows:
            summed += row
        return Fraction(summed)

    return replayed(measured(total, 2.0**60), ([1.0] * 129, [*[1.0] * 129, 2.0**60]))


@fault("integer sum that wraps")
def _() -> Finding:
    def total(rows: Any) -> int:
        return int(np.sum(np.array(rows, dtype=np.int32), dtype=np.int32))

    return replayed(measured(total, 100.0), ([2**31 - 50], [2**31 - 50, 100]))


@fault("contribution bounding that keeps one row too many")
def _() -> Finding:
    def count(table: Any) -> int:
        kept: dict[int, int] = {}
        for unit in table:
            kept[unit] = min(kept.get(unit, 0) + 1, 3)
        return sum(kept.values())

    return replayed(measured(count, 2.0, protection=Protection(Unit("person"))), ([1, 2, 2], [1, 2, 2, 7, 7, 7, 7]))


@fault("a unit of several rows charged as a row")
def _() -> Finding:
    return replayed(measured(len, 1.0, protection=Protection(Unit("person"))), ([1, 1, 2], [1, 1, 2, 2, 2, 2]))


@fault("a threshold on the exact count")
def _() -> Finding:
    def draw(value: Exact) -> Any:
        from discreet.mechanisms.gaussian import GaussianLaw

        number = float(np.asarray(value.value))
        return LaplaceLaw(number, 1.0).sample() if number >= 5 else GaussianLaw(0.0, 1e-9).sample()

    return replayed(measured(len, 1.0), ([1] * 4, [1] * 5), draw=draw)


# ---- the noise that is really drawn -------------------------------------------------------------------------------


def _naive_laplace(truth: float) -> Callable[[int], Any]:
    rng = np.random.default_rng()
    return lambda n: truth + np.sign(rng.random(n) - 0.5) * np.log(1 - rng.random(n))


@fault("Laplace noise in floating point")
def _() -> Finding:
    return drawn(PureDP(1.0), _naive_laplace(0.0), _naive_laplace(1.0), 200_000)


@fault("Gaussian noise in floating point")
def _() -> Finding:
    rng = np.random.default_rng()

    def noise(n: int) -> Any:
        return np.sqrt(-2 * np.log(1 - rng.random(n))) * np.cos(2 * np.pi * rng.random(n))

    return drawn(GaussianDP(0.5), lambda n: 2 * noise(n), lambda n: 1 + 2 * noise(n), 200_000)


@fault("a grid that follows the secret value")
def _() -> Finding:
    def draw(truth: float) -> Callable[[int], Any]:
        grid = 2.0 ** (math.frexp(truth)[1] - 10)
        return lambda n: np.floor(np.asarray(Laplace(1.0).law(truth).sample(n)) / grid + 0.5) * grid

    return drawn(PureDP(1.0), draw(7.5), draw(8.5), 50_000)


@fault("clamped draws behind a truncated law")
def _() -> Finding:
    law = TruncatedLaplaceLaw(0.2, 0.5, 0, 1)
    law.sample = lambda size, rng=None: np.clip(LaplaceLaw(0.2, 0.5).sample(size), 0, 1)  # type: ignore[method-assign]
    return sampled(law)


@fault("a biased integer sampler")
def _() -> Finding:
    """Integer Laplace noise of scale 3, whose sign is negative in three draws of ten."""
    rng = np.random.default_rng()

    def draw(truth: int) -> Callable[[int], Any]:
        def noisy(n: int) -> Any:
            sizes = rng.geometric(1 - math.exp(-1 / 3), n) - 1
            return truth + np.where(rng.random(n) < 0.3, -sizes - 1, sizes)

        return noisy

    return drawn(PureDP(1 / 3), draw(0), draw(1), 100_000)


@fault("noise drawn again until the count is plausible")
def _() -> Finding:
    def draw(truth: float) -> Callable[[int], Any]:
        def noisy(n: int) -> Any:
            values = np.asarray(Laplace(1.0).law(truth).sample(4 * n))
            return values[values > 0][:n]

        return noisy

    return drawn(PureDP(1.0), draw(0.0), draw(1.0), 100_000)


@fault("one noise for two cells")
def _() -> Finding:
    def draw(first: float) -> Callable[[int], Any]:
        return lambda n: np.asarray(Laplace(1.0).law(0.0).sample(n))[:, None] + np.array([first, 0.0])

    return drawn(PureDP(1.0), draw(0.0), draw(1.0), 10_000)


@fault("the last bit of a vector is never randomised")
def _() -> Finding:
    flip = 1 / (1 + math.e)

    def draw(bits: list[int]) -> Callable[[int], Any]:
        def answered(n: int) -> Any:
            flips = np.random.default_rng().random((n, len(bits))) < flip
            flips[:, -1] = False
            return np.array(bits) ^ flips

        return answered

    return drawn(PureDP(2.0), draw([0, 1, 0]), draw([0, 1, 1]), 10_000)


@fault("discrete Gaussian claimed as μ-GDP")
def _() -> Finding:
    support = np.arange(-40, 42)
    here, there = (np.exp(-((support - shift) ** 2) / 2) for shift in (0, 1))
    p, q = here / here.sum(), there / there.sum()
    claimed = GaussianDP(1.0).delta_at(3.252)
    found = float(np.maximum(p - math.exp(3.252) * q, 0).sum())
    found = max(found, float(np.maximum(q - math.exp(3.252) * p, 0).sum()))
    return Finding("exact", f"δ {claimed:.4g}", f"δ {found:.4g}", found > claimed)


@fault("James-Stein centred on the true mean")
def _() -> Finding:
    def draw(cells: list[int]) -> Callable[[int], Any]:
        centre, truth = float(np.mean(cells)), np.array(cells, dtype=float)

        def shrunk(n: int) -> Any:
            noisy = np.asarray(Gaussian(2.0).law(truth).sample(n)) - centre
            factor = 1 - (len(cells) - 2) * 4.0 / (noisy**2).sum(axis=1, keepdims=True)
            return centre + np.maximum(factor, 0) * noisy

        return shrunk

    return drawn(GaussianDP(0.5), draw([5, 5, 5, 5]), draw([5, 5, 5, 6]), 10_000)


@fault("the exact total kept under add/remove")
def _() -> Finding:
    def draw(cells: list[int]) -> Callable[[int], Any]:
        truth = np.array(cells, dtype=float)

        def kept(n: int) -> Any:
            noisy = np.asarray(Gaussian(1.0).law(truth).sample(n))
            return noisy + ((truth.sum() - noisy.sum(axis=1)) / truth.size)[:, None]

        return kept

    return drawn(GaussianDP(1.0), draw([5, 3, 8]), draw([5, 3, 9]), 10_000)


# ---- choices ------------------------------------------------------------------------------------------------------


def softmax(scores: Any, factor: float) -> Any:
    weights = np.exp(factor * (np.asarray(scores, dtype=float) - max(scores)))
    return weights / weights.sum()


@fault("exponential mechanism without the 2")
def _() -> Finding:
    return choices(PureDP(1.0), softmax([0, 9, 9], 1.0), softmax([1, 8, 8], 1.0))


@fault("mode under replace-one at the price of add/remove")
def _() -> Finding:
    return choices(PureDP(1.0), softmax([0, 9], 1.0), softmax([1, 8], 1.0))


@fault("PrivateQuantile at 2ε (E2)")
def _() -> Finding:
    """Weights exp(−ε|j − qP|) over ranks of P rows; a removed row moves both the ranks and the target."""

    def chances(below: list[int], rows: int) -> Any:
        distances = [abs(rank - 0.0 * rows) for rank in below]
        return softmax([-distance for distance in distances], 1.0)

    return choices(PureDP(1.0), chances([0] + [40] * 6, 41), chances([1] + [39] * 6, 40))


@fault("PrivateQuantile without its end intervals (E3)")
def _() -> Finding:
    rng = np.random.default_rng()

    def draw(rows: list[float]) -> Callable[[int], Any]:
        ordered = np.sort(rows)
        widths = np.diff(ordered)
        weights = widths * np.exp(-0.5 * np.abs(np.arange(1, len(rows)) - len(rows) / 2))
        chances = weights / weights.sum()

        def quantile(n: int) -> Any:
            chosen = rng.choice(widths.size, n, p=chances)
            return ordered[chosen] + widths[chosen] * rng.random(n)

        return quantile

    return drawn(PureDP(1.0), draw([0.0, 1.0, 2.0, 3.0]), draw([0.0, 1.0, 2.0, 9.0]), 10_000)


@fault("two quantiles, each with the whole ε")
def _() -> Finding:
    one, other = softmax([0, 9], 1.0), softmax([1, 9], 1.0)
    return choices(PureDP(1.0), np.outer(one, one).ravel(), np.outer(other, other).ravel())


@fault("noisy max that returns the value too")
def _() -> Finding:
    def draw(scores: list[float]) -> Callable[[int], Any]:
        def chosen(n: int) -> Any:
            noisy = np.asarray(Laplace(2.0).law(scores).sample(n))
            return np.column_stack([noisy.argmax(axis=1), noisy.max(axis=1)])

        return chosen

    return drawn(PureDP(1.0), draw([0.0] * 6), draw([1.0] * 6), 100_000)


@fault("a max that returns the min")
def _() -> Finding:
    """No loss of privacy: the draws do not follow the law."""
    scores, draws = [0, 1, 2], 5000
    noisy = np.asarray(Laplace(1.0).law(np.zeros((draws, 3)) + scores).sample())
    from discreet.mechanisms import ReportNoisyMax

    expected = np.asarray(ReportNoisyMax(1.0).probabilities(scores)) * draws
    found = np.bincount(noisy.argmin(axis=1), minlength=3)
    distance = float(((found - expected) ** 2 / expected).sum())
    return Finding("law", "χ² below 30", f"χ² {distance:.0f}", distance > 30)


@fault("permute-and-flip charged as bounded range")
def _() -> Finding:
    from discreet.mechanisms import PermuteAndFlip

    mechanism = PermuteAndFlip(2.0)
    pairs = [
        (mechanism.probabilities(here), mechanism.probabilities(there))
        for here in itertools.product(range(4), repeat=2)
        for there in ([here[0] + a, here[1] + b] for a in (-1, 0, 1) for b in (-1, 0, 1))
    ]
    return exact(audit_choices(RangeProfile(Fraction(4)), pairs))


# ---- sampling, suppression, composition -----------------------------------------------------------------------------


@fault("Poisson amplification with a straight line")
def _() -> Finding:
    return exact(audit_cells(PureDP(0.5), [_mixed(np.array([0.5, 0.5]), np.array([1.0]), Laplace(1.0))]))


@fault("Poisson sampling with a public sample")
def _() -> Finding:
    rng = np.random.default_rng()

    def draw(rows: int) -> Callable[[int], Any]:
        def shown(n: int) -> Any:
            kept = rng.binomial(rows, 0.5, n)
            return np.column_stack([kept, np.asarray(Laplace(1.0).law(kept).sample())])

        return shown

    return drawn(poisson_sampling(PureDP(1.0), 0.5), draw(2), draw(3), 10_000)


@fault("suppression charged as uniform sampling")
def _() -> Finding:
    step = OutlierSuppression(0.05, 0.95, AbsoluteDistance((0, 1)))
    rows = [0.0] * 12
    claim = poisson_sampling(PureDP(1.0), 0.05)
    return exact(audit_cells(claim, [_mixed(_kept_law(step, rows), _kept_law(step, [*rows, 1.0]), Laplace(1.0))]))


@fault("overlapping groups charged in parallel")
def _() -> Finding:
    one = Laplace(1.0).law(0.0), Laplace(1.0).law(1.0)
    return laws(PureDP(1.0), one, one)


# ---- randomness -----------------------------------------------------------------------------------------------------


@fault("a seed used for every release")
def _() -> Finding:
    return repeated(lambda: Laplace(1.0).draw(0.0, rng=7), times=5, forks=0)


@fault("entropy shared after a fork")
def _() -> Finding:
    state = np.random.default_rng()
    return repeated(lambda: state.laplace(), times=2, forks=4)


@fault("the global random state")
def _() -> Finding:
    return repeated(lambda: np.random.laplace() + random.random(), times=3, forks=0)  # noqa: NPY002


@fault("one batch of words for all calls")
def _() -> Finding:
    words = np.random.default_rng().random(64)
    return repeated(lambda: ndtri(words[:3]), times=3, forks=0)


# ---- time -----------------------------------------------------------------------------------------------------------


@fault("bounded noise by rejection")
def _() -> Finding:
    rng = np.random.default_rng()

    def rejected(centre: float) -> Callable[[], float]:
        def draw() -> float:
            while True:
                value = centre + float(rng.laplace(scale=0.1))
                if 0 <= value <= 1:
                    return value

        return draw

    return timed(rejected(0.0), rejected(0.5), repeats=4000)


@fault("work that grows with the count")
def _() -> Finding:
    return timed(lambda: sum(range(200)), lambda: sum(range(2000)))


# ---- spending -------------------------------------------------------------------------------------------------------


def spending(function: Any) -> Finding:
    audit = audit_spending(function)
    wrong = [name for name in ("spent_first", "charged", "repeated_free") if not audit[name]]
    if not audit["raced"]:
        wrong.append("race")
    return Finding("spending", "spent once, before the draw", ", ".join(wrong) or "as claimed", not audit.passed)


@fault("budget spent after the draw")
def _() -> Finding:
    def late(exact: Exact, mechanism: Any, *, ledger: Ledger, name: str | None = None) -> Any:
        value = mechanism.draw(exact.value)
        release(exact, Laplace(mechanism.scale), ledger=ledger, name=name)
        return SimpleNamespace(value=value)

    return spending(late)


@fault("a budget checked, then spent")
def _() -> Finding:
    class Wallet:
        def __init__(self, budget: PureDP) -> None:
            self.left = budget.epsilon

        def remaining(self) -> PureDP:
            return PureDP(self.left)

    def careless(exact: Exact, mechanism: Any, *, ledger: Any, name: str | None = None) -> Any:
        if ledger.left < 1:
            raise InsufficientBudget(PureDP(1.0), ledger.remaining())
        left = ledger.left
        time.sleep(0.05)
        ledger.left = left - 1
        return SimpleNamespace(value=mechanism.draw(exact.value))

    audit = audit_spending(careless, Wallet)
    return Finding("spending", "spent once, before the draw", audit.found, not audit["raced"])


@fault("a repeated request draws again")
def _() -> Finding:
    def forgetful(exact: Exact, mechanism: Any, *, ledger: Ledger, name: str | None = None) -> Any:
        return release(exact, mechanism, ledger=ledger)

    return spending(forgetful)


# ---- hostile input --------------------------------------------------------------------------------------------------


def hostile(function: Any, **arguments: Any) -> Finding:
    audit = audit_hostile({"f": (function, arguments)})
    return Finding("hostile", "refused or finite", (audit.findings or ("nothing",))[0][:40], not audit.passed)


@fault("NaN passes a clamp")
def _() -> Finding:
    return hostile(lambda data: float(np.clip(data, 0, 1)), data=0.5)


@fault("a quantile that crashes on an empty column")
def _() -> Finding:
    return hostile(lambda data: sorted(data)[len(data) // 2], data=[1.0, 2.0])
