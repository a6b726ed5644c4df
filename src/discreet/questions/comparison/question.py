"""Questions of comparisons: a column between two arms or more, described from public facts alone."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.door import Allowance, Claim, Passed
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.protection import Neighbours
from discreet.core.rows import Selected, Snapshot, totals, totals_by_partition
from discreet.core.rows.keep import BUCKETS
from discreet.core.schema import Bounds, Contribution
from discreet.inference.noise import excess_kurtosis, solved
from discreet.inference.two_sample import ArmMean, Contrast, NoiseAwarePosterior, arm_mean, contrast
from discreet.mechanisms.mechanism import Law
from discreet.questions import form
from discreet.questions.comparison.compare import (
    FEWEST_PARTITIONS,
    FEWEST_UNITS_A_PARTITION,
    ArmComparisons,
    ComparisonTerms,
    MeanComparison,
    compare_arm_totals,
    compare_totals,
    method_named,
    public_facts,
)
from discreet.questions.comparison.methods import (
    CURVATURE_WEIGHT,
    Arms,
    Best,
    Direct,
    MeanDifference,
    Method,
    PartitionLikelihood,
    Setting,
    Spending,
    WinsorizedMoments,
    check_censor,
    expected_error,
    fitted,
    normed,
    size_is_public,
)
from discreet.questions.design import DesignComparison, likely_weights, no_design_for
from discreet.questions.mean import MeanQuestion
from discreet.questions.question import DEFAULT_ROWS, DeclaredColumns, Question
from discreet.results.display import Result, number
from discreet.results.ledger import Ledger
from discreet.results.plan import DETECTED, EXPECTED_ROWS, Plan, affordable

# ---- Planning a comparison: error, smallest detectable effect and number of partitions, before any data is read.


# ---- Detection: which difference a comparison finds, from the interval that it will print and not from a formula
#
# A test does not know the sampling variance: it estimates it from noisy moments, and allows for what it does not know.
# Where noise is large against the variance, that costs far more than the standard error says. So the test itself is run
# on noise and sampling errors that public facts and a guessed spread imply.


_RUNS = 1000
_AWARE_RUNS = 500
_HALVINGS = 14
"""A thousand runs tell an effect to about a hundredth; it is then known to a part in ten thousand."""


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
    method: PartitionLikelihood, spending: Spending, setting: Setting, sizes: Sequence[int], spread: float, *,
    power: float, level: float,
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
    low, high = (np.broadcast_to(end, (_AWARE_RUNS,)) for end in method.interval(start, setting))
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

    def found(effect: float) -> float:
        return float(np.mean(runs.shifted(effect).excludes(0.0, level)))

    # No two means of bounded outcomes are farther apart than the bounds; without bounds, all intervals end somewhere.
    most = 2 * runs.arms[0].width if runs.arms else 2 * float(np.max(np.abs(runs.ends(level))))
    return solved(found, power, start=3 * float(np.std(runs.estimate)), most=most, halvings=_HALVINGS)


def _simulated(
    spending: Spending,
    setting: Setting,
    sizes: Sequence[int],
    spread: float,
    differences: NDArray[np.float64] | None = None,
) -> tuple[list[ArmMean], Law]:
    """Two arms with equal means, once per run of noise and of sampling, and the distribution of the noise.

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
                noise_variance=float(np.max(np.asarray(law.variance))), kurtosis=excess_kurtosis(law),
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
    """The errors and detectable effects to expect of a comparison.

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
    expected_sd: float,
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
    expected_sd
        A guess of the outcome's standard deviation.
    power, level
        Of the smallest detectable effect.

    Examples
    --------
    >>> from discreet import PureDP
    >>> plan = plan_comparison((100_000, 100_000), bounds=(0, 500), guarantee=PureDP(1.0), expected_sd=20.0)
    >>> plan.method, round(plan.smallest_effect, 2)
    ('direct', 0.25)
    """
    requirements.instance("units", units, tuple, "units=(1000, 1000)")
    if len(tuple(units)) != 2:
        raise InvalidParameter("units", units, "must be the two arms' numbers of units", "Pass units=(1000, 1000).")
    sizes = tuple(requirements.positive_integer("units", size, at_least=2) for size in tuple(units))
    requirements.instance("guarantee", guarantee, Guarantee, "a guarantee such as PureDP(1.0)")
    guess = requirements.positive("expected_sd", expected_sd)
    count = partitions if partitions is not None else suggested_partitions(min(sizes))
    statistic = MeanDifference(bounds=bounds, arm=arm, partitions=count, censor=censor)
    public = size_is_public(neighbours, arm)
    setting = Setting(statistic, neighbours, sizes if public else None)
    spending = Spending(guarantee)
    low, high = statistic.bounds
    if guess > high - low:
        raise InvalidParameter(
            "expected_sd", expected_sd, "cannot exceed the width of the bounds", "Pass a standard deviation."
        )
    methods = [Direct(), PartitionLikelihood(expected_sd=guess)] if count is not None else [Direct()]
    check_censor(methods[-1], statistic)
    return plan_methods(methods, spending, setting, sizes, guess, power=power, level=level)


def plan_methods(
    methods: Sequence[Method],
    spending: Spending,
    setting: Setting,
    sizes: Sequence[int],
    expected_sd: float,
    *,
    power: float = 0.8,
    level: float = 0.95,
) -> ComparisonPlan:
    """The plan of the method with the smallest expected error, for arms of these sizes and this outcome."""
    errors = {method.name: expected_error(method, spending, setting, sizes, expected_sd) for method in methods}
    best = min(errors, key=lambda name: errors[name])
    chosen = next(method for method in methods if method.name == best)
    requirements.level(level)
    wanted = requirements.probability("power", power)
    sampling = expected_sd**2 * sum(1 / size for size in sizes)
    count = setting.statistic.partitions
    if isinstance(chosen, PartitionLikelihood):
        errors[best], effect = aware_detection(chosen, spending, setting, sizes, expected_sd, power=wanted, level=level)
    else:
        effect = direct_detection(spending, setting, sizes, expected_sd, power=wanted, level=level)
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


# ---- The question of a comparison: an A/B test of a column between two arms, described from public facts alone.


# ---- Partitioning: the arms of a comparison from the totals of a data set, per arm and partition


MOST_PARTITIONS = BUCKETS // 8
"""Beyond this, folding buckets would make partitions unequal."""


def arms_by_column(snapshot: Snapshot, selected: Selected) -> Arms:
    """Totals by arm and natural partition: two columns of labels, of which a unit keeps one combination."""
    name = selected.columns[0]
    outcome = snapshot.schema.bounds(name)
    found = totals(snapshot, selected, [(name,), (name, name)])
    counts, sums, squares = found.counts, found.sums[(name,)], found.sums[name, name]
    low = outcome.lowest
    offsets = (counts, sums - low * counts, squares - 2 * low * sums + low**2 * counts)
    return _arms(snapshot, selected, *offsets)


def arms_on_engine(snapshot: Snapshot, selected: Selected, partitions: int | None) -> Arms:
    """Totals of the units of every arm: the cells of ``selected``, whose single column is the outcome."""
    if len(selected.by) != 1 or len(selected.columns) != 1:
        raise InvalidParameter("by", selected.by, "must be one column of arms, with one outcome", "Name one of each.")
    if snapshot.schema.unit.column is not None:
        return _arms(snapshot, selected, *totals_by_partition(snapshot, selected, partitions))
    return arms_by_column(snapshot, selected)


def _arms(
    snapshot: Snapshot, selected: Selected, counts: NDArray[Any], sums: NDArray[Any], squares: NDArray[Any]
) -> Arms:
    """Arms from counts, sums and squares of offsets from the lower bound, one row per arm."""
    labels = tuple(str(label) for label in snapshot.schema.categories(selected.by[0]).labels)
    outcome = snapshot.schema.bounds(selected.columns[0])
    shape = (len(labels), -1)
    largest = outcome.highest - outcome.lowest
    return Arms(
        low=float(outcome.lowest * outcome.step),
        width=float(largest * outcome.step),
        largest=largest,
        counts=counts.reshape(shape).astype(np.int64),
        sums=sums.reshape(shape),
        squares=tuple(int(value) for value in squares.reshape(shape).sum(axis=1)),
        labels=labels,
    )


# ---- Outcomes of arms: what questions about two arms and about several have in common


A = TypeVar("A")


_WITHIN = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class OutcomesOfArms(Question[A]):
    """A column, the column of its arms, and how outcomes are bounded, protected and added up."""

    topic: ClassVar[str] = "Tests and comparisons"
    detects: ClassVar[str] = "a difference of means"
    heading: ClassVar[str] = "Does mean {subject} differ by {by}?"
    forms: ClassVar[form.Forms] = {
        "column": form.COLUMN,
        "by": form.COLUMN,
        "partitions": form.WHOLE,
        "censor": form.PAIR,
        "method": form.METHOD,
        "arm": form.METHOD,
        "expected_sd": form.NUMBER,
        "expected_rows": form.WHOLE,
        "beyond": form.FLAG,
    }
    read_as: ClassVar[str]
    """What a plan gives the error of."""
    column: str
    _: KW_ONLY
    by: str
    partitions: int | None = None
    censor: tuple[float, float] = (0.1, 0.1)
    method: str | Method = "best"
    arm: str = "public"
    expected_sd: float | None = None
    expected_rows: int | None = None
    beyond: bool | None = None

    def _validate(self) -> None:
        self.beside  # noqa: B018  (refuses what nothing can be told of)
        self._check_arms()
        if self.expected_rows is not None:
            requirements.positive_integer("expected_rows", self.expected_rows, at_least=2 * self._arms)
        if self.expected_sd is not None:
            requirements.positive("expected_sd", self.expected_sd)
        # The statistic refuses what cannot be answered, before anything is planned or spent.
        if self.statistic.partitions is None and not isinstance(self._method, Direct | Best):
            raise InvalidParameter("partitions", None, f"is needed by {self._method.name}", "Pass partitions=….")

    @abstractmethod
    def _check_arms(self) -> None:
        """Refuse a number of arms, or a method, that the question is not for."""

    @property
    def _arms(self) -> int:
        return self.schema.categories(self.by).cells

    @cached_property
    def statistic(self) -> MeanDifference:
        """The statistic that is measured. Sizes of arms are public only where rows are units and none can drop out."""
        self.schema.bounds(self.column)  # refuses labels
        fixed = self.schema.unit_is_row and self.schema.keeps_every_row([self.by, self.column])
        replaced = self.schema.neighbours is Neighbours.REPLACE_ONE
        return MeanDifference(
            bounds=(self.outcome.low, self.outcome.high),
            arms=self._arms,
            partitions=self._partitions(),
            censor=requirements.listed("censor", self.censor, "censor=(0.1, 0.1)"),
            arm="private" if replaced and not fixed else self.arm,
        )

    def _partitions(self) -> int | None:
        """The number of partitions by a digest of units' ids; whether they can be made is known from declarations."""
        if self.partitions is not None and self.schema.unit.column is None:
            raise InvalidParameter(
                "partitions", self.partitions, "needs an id column as privacy unit, to tell units apart",
                'Declare PrivacyUnit("id"), or use method="direct".',
            )  # fmt: skip
        if self.partitions is not None and self.partitions > MOST_PARTITIONS:
            rule = f"must be at most {MOST_PARTITIONS}"
            raise InvalidParameter("partitions", self.partitions, rule, "Use fewer partitions.")
        return self.partitions

    @property
    def outcome(self) -> Bounds:
        """Bounds of one unit's outcome."""
        return self.schema.bounds(self.column)

    @property
    def _method(self) -> Method:
        return method_named(self.method, expected_sd=self.expected_sd)

    def _selected(self, *within: str) -> Selected:
        """The totals to add up, by arm and by the columns ``within`` them."""
        return Selected(
            by=(self.by, *within),
            columns=(self.column,),
            contribution=None if self.schema.unit_is_row else Contribution(groups=1, rows=1),
        )

    def _terms(self) -> ComparisonTerms:
        """Validated arguments of the comparison itself."""
        facts = public_facts(self.schema.neighbours, self.statistic.arm)
        return ComparisonTerms.of(
            self.guarantee, self.statistic, self.schema.protection(*facts), method=self._method,
            question=self.content(),
        )  # fmt: skip

    def content(self) -> dict[str, Any]:
        """All of what is asked, as JSON-ready data."""
        return {
            "ask": self.ask,
            "column": self.column,
            "by": self.by,
            "statistic": self.statistic.to_dict(),
            "method": self._method.parameters(),
            "schema": self.schema.facts_of([self.column, self.by]),
            **({} if self.beside is None else {"beyond": True}),
        }

    def claim(self, ledger: Ledger | None) -> Claim:
        if self.beside is not None:
            return self.beside.claim(self.alone.claim(ledger), self.content(), ledger)
        return self._terms().claim()

    def draw(self, rows: Snapshot, claim: Claim, allowance: Allowance, passed: Passed) -> A:
        if self.beside is None:
            return self._compared(rows, allowance, passed)
        answer, kept = self._drawn_beside(self.beside, rows, claim, allowance, passed)
        return cast(A, told_of(answer, self.guarantee, kept))

    @abstractmethod
    def _compared(self, rows: Snapshot, allowance: Allowance, passed: Passed) -> A:
        """The comparison alone."""

    # ---- plans: arms of equal sizes, as many rows each as were said or are usual -----------------------------------

    def _sizes(self) -> tuple[int, int]:
        """Numbers of units of two arms."""
        rows = self.expected_rows or DEFAULT_ROWS * self._arms
        each = rows // self._arms
        return rows - each if self._arms == 2 else each, each

    def _setting(self) -> Setting:
        public = size_is_public(self.schema.neighbours, self.statistic.arm)
        return Setting(self.statistic, self.schema.neighbours, self._sizes() if public else None)

    def _single(self) -> Method:
        """The method that a plan expects to run."""
        chosen = self._method
        return chosen.chosen(Spending(self.guarantee), self._setting()) if isinstance(chosen, Best) else chosen

    def methods_plan(self) -> ComparisonPlan | None:
        """The plan of one difference, after a correction for their number; None where no formula gives its error."""
        single = self._single()
        if not isinstance(single, Direct | PartitionLikelihood):
            return None
        level = 1 - 0.05 / (self._arms - 1)
        spending, setting = Spending(self.guarantee), self._setting()
        return plan_methods([single], spending, setting, self._sizes(), self._guess, level=level)

    @property
    def _guess(self) -> float:
        """The standard deviation that a plan expects."""
        return (self.outcome.high - self.outcome.low) / 100 if self.expected_sd is None else self.expected_sd

    def _scenario(self) -> str:
        """The data that a plan assumes, in words."""
        guessed = "" if self.expected_sd is not None else ", a hundredth of the bounds' width"
        typical = f"a standard deviation of {number(self._guess)}{guessed}"
        return f"{self._sizes()[1]:,} rows per arm, most at the lower bound, with {typical}"

    @abstractmethod
    def _plan_notes(self, planned: ComparisonPlan | None, unsaid: tuple[str, ...]) -> tuple[str, ...]:
        """The notes of a plan, with what was left unsaid."""

    def noise_scale(self) -> float | None:
        """Scale of the noise on an arm's total, where arms are measured directly with the whole budget."""
        return None

    def plan(self, ledger: Ledger | None = None) -> Plan:
        if self.beside is not None:
            return self._planned_beside(self.beside, ledger)
        remaining, after = affordable(ledger, self.claim(ledger).guarantee)
        planned = self.methods_plan()
        unsaid = () if self.expected_rows else (EXPECTED_ROWS,)
        error = None if planned is None else planned.standard_error[planned.method]
        return Plan(
            statistic=self.statistic.name,
            mechanism=self._method.name if planned is None else planned.method,
            scale=self.noise_scale(),
            guarantee=self.guarantee,
            read=self.read_as,
            error_95=None if error is None else _WITHIN * error,
            scenario="" if planned is None else self._scenario(),
            standard_error=error,
            smallest_effect=None if planned is None else planned.smallest_effect,
            remaining=remaining,
            remaining_after=after,
            notes=self._plan_notes(planned, unsaid),
            details={"statistic": self.statistic.to_dict()},
        )


@dataclass(frozen=True)
class ComparisonQuestion(OutcomesOfArms[MeanComparison]):
    """Two arms of a data set that a schema describes, and how to compare the mean of a column between them.

    A unit counts once: with one of its rows, or with its features (`Schema.per_unit`). Under replace-one the sizes of
    arms count as public only where each unit has one row and none can drop out.

    Guarantee
    ---------
    As asked for, for the schema's units and neighbours. Proof: ``docs/proofs/mean_difference.md``.

    Attributes
    ----------
    column, by
        The outcome, and the column of arms: two labels, control first.
    partition_by
        Column of natural partitions; by default a unit's partition is a salted digest of its id.
    expected_rows
        Number of units in both arms together, for plans only.

    The others are those of `discreet.compare_means`.
    """

    answers: ClassVar[str] = "Do two groups differ in their average? For A/B tests."
    ask: ClassVar[str] = "compare_means"
    under_design: ClassVar[bool] = True
    also: ClassVar[tuple[str, ...]] = ("t_test", "ttest", "ab_test")
    meaning: ClassVar[str] = "Whether the means of the two arms differ, and by how much."
    read_as: ClassVar[str] = "the difference"
    forms: ClassVar[form.Forms] = {
        **OutcomesOfArms.forms,
        "partition_by": form.COLUMN,
        "cutoffs": form.INTERVAL,
        "placement": form.METHOD,
        "inference": form.METHOD,
        "m": form.WHOLE,
    }
    _: KW_ONLY
    partition_by: str | None = None
    cutoffs: tuple[float, float] | None = None
    placement: str | None = None
    inference: str | None = None
    m: int | None = None

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return {**columns.number(), "by": columns.with_labels(2, 2)}

    def _validate(self) -> None:
        super()._validate()
        if self.schema.design is not None:
            self._means  # noqa: B018  (refuses before anything is planned or spent)

    @cached_property
    def _means(self) -> MeanQuestion:
        """Under a design, the means by arm that the comparison is read from."""
        no_design_for(
            self, partitions=None, censor=(0.1, 0.1), method="best", arm="public", partition_by=None, expected_sd=None,
            cutoffs=None, placement=None, inference=None, m=None,
        )  # fmt: skip
        return MeanQuestion(
            self.schema, self.column, by=self.by, guarantee=self.guarantee, expected_rows=self.expected_rows
        )

    @property
    def _method(self) -> Method:
        return method_named(
            self.method, expected_sd=self.expected_sd, cutoffs=self.cutoffs, placement=self.placement,
            inference=self.inference, m=self.m,
        )  # fmt: skip

    def _check_arms(self) -> None:
        if self._arms != 2:
            raise InvalidParameter(
                "by",
                self.by,
                "must have two labels, control first",
                "For more of them ask compare_arms; or list two labels, so that rows with others are dropped.",
            )

    def _partitions(self) -> int | None:
        """The number of partitions; of natural ones it refuses what the proof does not cover."""
        if self.partition_by is None:
            return super()._partitions()
        column = self.partition_by
        count = self.schema.categories(column).cells
        if self.partitions is not None and self.partitions != count:
            raise InvalidParameter(
                "partitions", self.partitions, f"column {column!r} has {count} labels", "Leave partitions out."
            )
        if self.schema.neighbours is Neighbours.REPLACE_ONE:
            raise InvalidParameter(
                "partition_by", column, "a replaced record could change its partition, and move two of them",
                "Use add/remove neighbours, or partitions by digest.",
            )  # fmt: skip
        return count

    def noise_scale(self) -> float | None:
        """Scale of the noise on an arm's total, where arms are measured directly with the whole budget."""
        if not isinstance(self._single(), Direct):
            return None
        spending = Spending(self.guarantee)
        moved = replace(self.statistic, norm=spending.norm).sensitivity(neighbours=self.schema.neighbours)
        return spending.mechanism.calibrate(self.guarantee, moved).scale * (self.outcome.high - self.outcome.low)

    def content(self) -> dict[str, Any]:
        if self.schema.design is not None:
            return self._means.content() | {"ask": self.ask}
        columns = [self.column, self.by, *([] if self.partition_by is None else [self.partition_by])]
        return super().content() | {"partition_by": self.partition_by, "schema": self.schema.facts_of(columns)}

    def claim(self, ledger: Ledger | None) -> Claim:
        if self.schema.design is not None:
            return replace(self._means.claim(ledger), question=self.content())
        return super().claim(ledger)

    def draw(self, rows: Snapshot, claim: Claim, allowance: Allowance, passed: Passed) -> MeanComparison:
        if self.schema.design is not None:
            return _of_design(self._means.draw(rows, claim, allowance, passed))
        return super().draw(rows, claim, allowance, passed)

    def _compared(self, rows: Snapshot, allowance: Allowance, passed: Passed) -> MeanComparison:
        if self.partition_by is None:
            arms = arms_on_engine(rows, self._selected(), self.statistic.partitions)
        else:
            arms = arms_by_column(rows, self._selected(self.partition_by))
        return compare_totals(arms, self._terms(), allowance, passed)

    def read(self, stored: Any) -> MeanComparison:
        if self.schema.design is not None:
            return _of_design(self._means.read(stored))
        return MeanComparison.from_dict(stored)

    def plan(self, ledger: Ledger | None = None) -> Plan:
        if self.schema.design is None:
            return super().plan(ledger)
        arm = self._means.plan(ledger)
        both = math.sqrt(2) * (arm.standard_error or 0.0)
        _, share = likely_weights(self.schema.design)
        rows = (self.expected_rows or 2 * DEFAULT_ROWS) * share / 2
        sampling = (self.outcome.high - self.outcome.low) * math.sqrt(2 / 12 / rows)
        return replace(
            arm, read="the difference", error_95=_WITHIN * both, standard_error=both,
            smallest_effect=DETECTED * math.hypot(both, sampling),
            worst_error=None if arm.worst_error is None else math.sqrt(2) * arm.worst_error,
        )  # fmt: skip

    def _plan_notes(self, planned: ComparisonPlan | None, unsaid: tuple[str, ...]) -> tuple[str, ...]:
        if planned is None or planned.method != PartitionLikelihood.name:  # its notes are about partitions
            return unsaid
        return (*unsaid, *planned.notes)


def told_of(answer: Any, guarantee: Guarantee, kept: Mapping[str, Any]) -> Any:
    """A comparison, or several, with what was told of values beyond the bounds, for the guarantee of both."""
    if isinstance(answer, ArmComparisons):
        return replace(answer, pairs=tuple(told_of(one, guarantee, kept) for one in answer.pairs))
    return replace(answer, guarantee=guarantee, noisy=answer.noisy | kept)


def _of_design(means: Any) -> MeanComparison:
    """The comparison of two groups' means that were estimated under a design."""
    return cast(MeanComparison, DesignComparison(means))


@dataclass(frozen=True)
class ArmsQuestion(OutcomesOfArms[ArmComparisons]):
    """Several arms of a data set, and how the mean of a column differs between each of them and the control.

    All arms are measured at once: a unit is in one arm, so they cost what one of them costs. Intervals and p-values are
    corrected for the number of comparisons (Bonferroni).

    Guarantee
    ---------
    As asked for, for the schema's units and neighbours. Proof: ``docs/proofs/mean_difference.md``.

    Attributes
    ----------
    column, by
        The outcome, and the column of arms: two labels or more, control first.
    method
        ``"direct"``, or ``"noise_aware"`` for winsorized partition means of every arm.
    expected_rows
        Number of units in all arms together, for plans only.

    The others are those of `discreet.compare_means`.
    """

    answers: ClassVar[str] = "Which of several groups differs from the first in its average?"
    ask: ClassVar[str] = "compare_arms"
    instead: ClassVar[str] = "Ask for the mean by the arms, and for difference_interval of two of its groups."
    meaning: ClassVar[str] = "Whether the means of the arms differ from that of the control, and by how much."
    read_as: ClassVar[str] = "a difference"
    _: KW_ONLY
    method: str | Method = "direct"

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return {**columns.number(), "by": columns.with_labels(3)}

    def _check_arms(self) -> None:
        requirements.one_of("method", self.method, ("direct", "noise_aware"))
        if self._arms < 2:
            raise InvalidParameter("by", self.by, "must have two labels or more, control first", "Declare two labels.")

    def _compared(self, rows: Snapshot, allowance: Allowance, passed: Passed) -> ArmComparisons:
        arms = arms_on_engine(rows, self._selected(), self.statistic.partitions)
        return compare_arm_totals(arms, self._terms(), allowance, passed, against_control=True)

    def read(self, stored: Any) -> ArmComparisons:
        return ArmComparisons.from_dict(stored)

    def _plan_notes(self, planned: ComparisonPlan | None, unsaid: tuple[str, ...]) -> tuple[str, ...]:
        return (f"corrected for {self.statistic.arms - 1} comparisons with the control", *unsaid)
