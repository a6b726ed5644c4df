"""Planning a comparison: error, smallest detectable effect and number of partitions, before any data is read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.contract.mechanism import Law
from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.protection import Neighbours
from discreet.display import number
from discreet.inference.arm_means import ArmMean, Contrast, arm_mean, contrast
from discreet.inference.noise_aware import NoiseAwarePosterior
from discreet.inference.noise_sum import excess_kurtosis
from discreet.questions.comparison.compare import FEWEST_PARTITIONS, FEWEST_UNITS_A_PARTITION
from discreet.questions.comparison.methods import (
    Direct,
    Method,
    NoiseAware,
    Setting,
    Spending,
    check_censor,
    expected_error,
    fitted,
    normed,
    placed,
)
from discreet.questions.mean_difference import CURVATURE_WEIGHT, MeanDifference, WinsorizedMoments, size_is_public
from discreet.result import Result

__all__ = [
    "ComparisonPlan", "aware_detection", "direct_detection", "plan_comparison", "plan_methods",
    "suggested_partitions",
]  # fmt: skip


# ---- Detection: which difference a comparison finds, from the interval that it will print and not from a formula
#
# A test does not know the sampling variance: it estimates it from noisy moments, and allows for what it does not know.
# Where noise is large against the variance, that costs far more than the standard error says. So the test itself is run
# on noise and sampling errors that public facts and a guessed spread imply.


_RUNS = 1000
_AWARE_RUNS = 500
_HALVINGS = 40


def direct_detection(
    spending: Spending, setting: Setting, sizes: Sequence[int], spread: float, *, power: float, level: float
) -> float:
    """Smallest difference that the direct comparison finds with probability ``power`` at level ``level``.

    Outcomes lie near the lower bound, as sparse ones do: one unit in twenty has a height of its own that gives this
    standard deviation.
    """
    arms, law = _simulated(spending, setting, sizes, spread)
    return _smallest(contrast(arms, [-1.0, 1.0], kurtosis=excess_kurtosis(law)), power, level)


def aware_detection(
    method: NoiseAware, spending: Spending, setting: Setting, sizes: Sequence[int], spread: float, *, power: float,
    level: float,
) -> tuple[float, float]:  # fmt: skip
    """Root mean square of the error of the noise-aware comparison, and the smallest difference that it finds.

    The method runs, with its check of misfit, on partition means that are normal.
    """
    share = method.share(spending, setting)
    first, second = spending.split([share, 1 - share])
    rng = np.random.default_rng(2)
    count = setting.partitions
    values = rng.normal(0.0, math.sqrt(count * spread**2 * sum(1 / size for size in sizes[:2])), (_AWARE_RUNS, count))
    arms, law = _simulated(first, setting, sizes, spread, differences=values.mean(axis=1))
    kurtosis = excess_kurtosis(law)
    start = contrast(arms, [-1.0, 1.0], kurtosis=kurtosis)
    low, high = placed(start, count, setting.censor)
    winsorized = (np.clip(values, low[:, None], high[:, None]) - low[:, None]) / (high - low)[:, None]
    weight = float(CURVATURE_WEIGHT[second.norm])
    moved = WinsorizedMoments(interval=(0.0, 1.0), partitions=count, norm=second.norm).sensitivity()
    noise = second.mechanism.calibrate(second.guarantee, moved).law(0.0)
    sums = np.stack([winsorized.sum(axis=1), weight * (winsorized * (1 - winsorized)).sum(axis=1)])
    sums = sums + np.asarray(noise.quantile(rng.random(sums.shape)))
    posterior = NoiseAwarePosterior(
        partitions=count, low=low, high=high, first=sums[0], second=sums[1], weight=weight,
        noise_variance=float(np.max(np.asarray(noise.variance))), plain=start.estimate,
        plain_noise=start.noise_variance, spread=count * sum(arm.variance for arm in arms),
        spread_error=count * np.sqrt(sum(arm.variance_error**2 for arm in arms)), ratios=setting.ratios,
        shares=setting.shares,
    )  # fmt: skip
    found, _ = fitted(posterior, start, kurtosis=kurtosis)
    return float(np.sqrt(np.mean(np.asarray(found.estimate) ** 2))), _smallest(found, power, level)


def _smallest(runs: Contrast, power: float, level: float) -> float:
    """Smallest shift of all runs with which so many of them exclude 0."""
    half, away = runs.half_width(level), np.asarray(runs.estimate)

    def found(effect: float) -> float:
        return float(np.mean(np.abs(away + effect) > half))

    low, high = 0.0, 2 * float(np.max(half) + np.max(np.abs(away)))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if found(middle) >= power else (middle, high)
    return high


def _simulated(
    spending: Spending,
    setting: Setting,
    sizes: Sequence[int],
    spread: float,
    differences: NDArray[np.float64] | None = None,
) -> tuple[list[ArmMean], Law]:
    """Two arms with equal means, once per run of noise and of sampling, and the law of the noise.

    Where the sampled differences are given, all of the sampling error is in them.
    """
    rng = np.random.default_rng(1)  # public facts alone are simulated, so a plan may repeat itself
    low, high = setting.statistic.bounds
    statistic = normed(setting.statistic, spending, setting.statistic.arms)
    mechanism = spending.mechanism.calibrate(spending.guarantee, statistic.sensitivity(neighbours=setting.neighbours))
    law = mechanism.law(0.0)
    weight = float(CURVATURE_WEIGHT[statistic.norm])
    public = setting.sizes is not None
    arms = []
    for place, size in enumerate(sizes[:2]):
        first, second = _sampled_moments(size, spread / (high - low), rng)
        if differences is not None:
            first = np.full(differences.size, first.mean()) + place * size * differences / (high - low)
            second = np.full(differences.size, second.mean())
        curved = first - second
        exact = [first, weight * curved] if public else [size - first - curved, 2 * curved, second]
        noisy = np.stack(exact, axis=-1)
        noisy = noisy + np.asarray(law.quantile(rng.random(noisy.shape)))
        arms.append(
            arm_mean(
                noisy, size=size if public else None, low=low, width=high - low, weight=weight,
                noise_variance=float(np.max(np.asarray(law.variance))),
            )
        )  # fmt: skip
    return arms, law


def _sampled_moments(size: int, spread: float, rng: np.random.Generator) -> tuple[Any, Any]:
    """Σa and Σa² of ``size`` outcomes in [0, 1] with this standard deviation, most of them 0."""
    # One in twenty is above 0, or as many more as the spread needs within the bounds: p(1 − p) ≥ s².
    share = max(0.05, (1 - np.sqrt(max(1 - 4 * spread**2, 0.0))) / 2)
    height = min(spread / np.sqrt(share * (1 - share)), 1.0)
    count: NDArray[np.int64] = rng.binomial(size, share, _RUNS)
    return height * count, height**2 * count


@dataclass(frozen=True, kw_only=True)
class ComparisonPlan(Result):
    """What a comparison would show.

    Attributes
    ----------
    method
        The method with the smaller expected error.
    standard_error
        Expected standard error of the difference, by method.
    smallest_effect
        Smallest true difference that is found with probability ``power`` at level ``level``.
    partitions
        Number of partitions planned with.
    privacy_share
        Share of the variance that is due to privacy.
    notes
        Advice that is not followed, with its reason.
    """

    method: str
    standard_error: dict[str, float]
    smallest_effect: float
    partitions: int | None
    privacy_share: float
    power: float
    level: float
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON-ready data."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__} | {"notes": list(self.notes)}

    def facts(self) -> list[tuple[str, str]]:
        errors = ", ".join(f"{name} {number(value)}" for name, value in self.standard_error.items())
        return [
            ("method", self.method),
            ("standard error", errors),
            ("smallest effect", f"{number(self.smallest_effect)} with {100 * self.power:g} % power"),
            ("privacy", f"{100 * self.privacy_share:.0f} % of the variance"),
            ("partitions", "none needed" if self.partitions is None else str(self.partitions)),
            *(("note", note) for note in self.notes),
        ]

    def heading(self) -> str:
        return "Plan of a comparison"


def suggested_partitions(units: int) -> int | None:
    """The largest P with 1,000 units a partition, at most 1,000; None where that leaves fewer than 100.

    More partitions mean less noise on winsorized moments, and 1,000 units make means of skewed outcomes normal enough
    (liu2023 section 7).

    Examples
    --------
    >>> suggested_partitions(300_000), suggested_partitions(5_000_000), suggested_partitions(50_000)
    (300, 1000, None)
    """
    most = min(units // FEWEST_UNITS_A_PARTITION, 1000)
    return most if most >= FEWEST_PARTITIONS else None


def plan_comparison(
    units: tuple[int, int],
    *,
    bounds: tuple[float, float],
    guarantee: Guarantee,
    spread: float,
    partitions: int | None = None,
    censor: tuple[float, float] = (0.1, 0.1),
    neighbours: Neighbours = Neighbours.REPLACE_ONE,
    arm: str = "public",
    power: float = 0.8,
    level: float = 0.95,
) -> ComparisonPlan:
    """Plan a comparison from public facts.

    Parameters
    ----------
    units
        Number of units in treatment and control.
    bounds, guarantee, partitions, censor, neighbours, arm
        As in `discreet.compare_means`; ``partitions`` is suggested where it is left out.
    spread
        A guess of the outcome's standard deviation.
    power, level
        Of the smallest detectable effect.

    Examples
    --------
    >>> from discreet import PureDP
    >>> plan = plan_comparison((100_000, 100_000), bounds=(0, 500), guarantee=PureDP(1.0), spread=20.0)
    >>> plan.method, round(plan.smallest_effect, 2)
    ('direct', 0.25)
    """
    requirements.instance("units", units, tuple, "units=(1000, 1000)")
    if len(tuple(units)) != 2:
        raise InvalidParameter("units", units, "must be the two arms' numbers of units", "Pass units=(1000, 1000).")
    sizes = tuple(requirements.positive_integer("units", size, at_least=2) for size in tuple(units))
    requirements.instance("guarantee", guarantee, Guarantee, "a guarantee such as PureDP(1.0)")
    guess = requirements.positive("spread", spread)
    count = partitions if partitions is not None else suggested_partitions(min(sizes))
    statistic = MeanDifference(bounds=bounds, arm=arm, partitions=count, censor=censor)
    public = size_is_public(neighbours, arm)
    setting, spending = Setting(statistic, neighbours, sizes if public else None), Spending(guarantee)
    low, high = statistic.bounds
    if guess > high - low:
        raise InvalidParameter("spread", spread, "cannot exceed the width of the bounds", "Pass a standard deviation.")
    methods = [Direct(), NoiseAware(spread=guess)] if count is not None else [Direct()]
    check_censor(methods[-1], statistic)
    return plan_methods(methods, spending, setting, sizes, guess, power=power, level=level)


def plan_methods(
    methods: Sequence[Method],
    spending: Spending,
    setting: Setting,
    sizes: Sequence[int],
    spread: float,
    *,
    power: float = 0.8,
    level: float = 0.95,
) -> ComparisonPlan:
    """The plan of the method with the smallest expected error, for arms of these sizes and this outcome."""
    errors = {method.name: expected_error(method, spending, setting, sizes, spread) for method in methods}
    best = min(errors, key=lambda name: errors[name])
    chosen = next(method for method in methods if method.name == best)
    requirements.level(level)
    wanted = requirements.probability("power", power)
    sampling = spread**2 * sum(1 / size for size in sizes)
    count = setting.statistic.partitions
    if isinstance(chosen, NoiseAware):
        errors[best], effect = aware_detection(chosen, spending, setting, sizes, spread, power=wanted, level=level)
    else:
        effect = direct_detection(spending, setting, sizes, spread, power=wanted, level=level)
    return ComparisonPlan(
        method=best,
        standard_error=errors,
        smallest_effect=effect,
        partitions=count,
        privacy_share=max(0.0, 1 - sampling / errors[best] ** 2),
        power=power,
        level=level,
        notes=_notes(count, min(sizes)),
    )


def _notes(partitions: int | None, units: int) -> tuple[str, ...]:
    if partitions is None:
        return ("too few units for partitions: 100 partitions of 1,000 units each are advised",)
    notes = []
    if partitions < FEWEST_PARTITIONS:
        notes.append(f"P = {partitions} is below {FEWEST_PARTITIONS}: noise on counts of P values is large")
    if units / partitions < FEWEST_UNITS_A_PARTITION:
        notes.append("fewer than 1,000 units a partition: means of skewed outcomes may not be normal yet")
    return tuple(notes)
