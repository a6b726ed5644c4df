"""Planning a comparison: error, smallest detectable effect and number of partitions, before any data is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.protection import Neighbours
from discreet.display import number
from discreet.questions.comparison.compare import FEWEST_PARTITIONS, FEWEST_UNITS_A_PARTITION
from discreet.questions.comparison.detection import aware_detection, direct_detection
from discreet.questions.comparison.methods import Direct, Method, NoiseAware, Setting, check_censor, expected_error
from discreet.questions.comparison.noise_shares import Spending
from discreet.questions.mean_difference import MeanDifference, size_is_public
from discreet.result import Result

__all__ = ["ComparisonPlan", "plan_comparison", "plan_methods", "suggested_partitions"]


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
