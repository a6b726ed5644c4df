"""The question of several arms: each against the control, described from public facts alone."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from discreet.core import requirements
from discreet.core.door import Allowance, Claim, Passed, check_simulation
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.protection import ROW, Neighbours, Protection, Unit
from discreet.core.rows import Snapshot
from discreet.inference.least_squares import JointTest
from discreet.inference.noise import MonteCarlo
from discreet.inference.two_sample import Contrast, contrast, equal_means
from discreet.questions.comparison.compare import ComparisonTerms, MeanComparison, Rng, public_facts
from discreet.questions.comparison.methods import (
    Arms,
    Direct,
    MeanDifference,
    Method,
    PartitionLikelihood,
    Setting,
    Spending,
    check_sizes,
    public_sizes,
)
from discreet.questions.comparison.question import ComparisonPlan, OutcomesOfArms, arms_on_engine
from discreet.questions.question import DeclaredColumns
from discreet.results.answer import Readable
from discreet.results.charts import plot_readings
from discreet.results.display import Interval
from discreet.results.frames import Reading, Row, aligned
from discreet.results.ledger import Ledger
from discreet.results.wording import pvalue_equation, reading_line, reading_words

if TYPE_CHECKING:
    from discreet.results.ledger import Ledger


# ---- compare_arms: any number of arms, all pairs or all against the control, at the price of one.


@dataclass(frozen=True)
class ArmComparisons(Readable):
    """Pairs of arms, with intervals and p-values that are valid for all of these pairs at once (Bonferroni).

    ``comparisons["b", "a"]`` is the comparison of b with a, for arms in the order in which they were given.

    Attributes
    ----------
    pairs
        One comparison for every pair.
    arms
        Every arm's own mean.
    """

    pairs: tuple[MeanComparison, ...]
    arms: tuple[Contrast, ...]

    def __getitem__(self, pair: tuple[str, str]) -> MeanComparison:
        for one in self.pairs:
            if (one.treatment, one.against) == tuple(pair):
                return one
        names = [(one.treatment, one.against) for one in self.pairs]
        raise InvalidParameter("pair", pair, f"must be one of {names}", "Name the two arms.")

    @cached_property
    def joint_test(self) -> JointTest:
        """Welch's test that all arms have one mean, simulated through the noise; it costs nothing more."""
        # One seed for all: the p-value follows from the noisy means alone, so the same means always give the same.
        return equal_means(self.arms, MonteCarlo(rng=1))

    def population_interval(self, level: float = 0.95) -> Interval:
        """Intervals for the differences of means, in the order of the pairs; they hold together."""
        found = [one.population_interval(level) for one in self.pairs]
        low, high = (np.array([float(getattr(one, end)) for one in found]) for end in ("low", "high"))
        return Interval(low, high, level)

    def to_dict(self) -> dict[str, Any]:
        """Every pair and every arm's mean as JSON-ready data."""
        pairs, arms = ([one.to_dict() for one in each] for each in (self.pairs, self.arms))
        return {"discreet": "arm_comparisons", "pairs": pairs, "arms": arms, "joint_test": asdict(self.joint_test)}

    @staticmethod
    def from_dict(data: Any) -> ArmComparisons:
        """Read what `to_dict` wrote."""
        if not isinstance(data, dict) or data.get("discreet") != "arm_comparisons" or "arms" not in data:
            raise InvalidParameter("data", data, "must be comparisons with the means of arms", "Ask again.")
        arms = tuple(Contrast.from_dict(one) for one in data["arms"])
        return ArmComparisons(tuple(MeanComparison.from_dict(pair) for pair in data["pairs"]), arms)

    def sentences(self) -> list[str]:
        """One sentence per pair, one about all arms together, and one that says what was corrected for."""
        said = []
        for one in self.pairs:
            difference, _, interval = reading_words(one.readings()[0].to_dict())
            told = f"({interval}; {pvalue_equation(one.pvalue)})"
            if one.pvalue <= 0.05:
                way = "above" if one.estimate >= 0 else "below"
                said.append(
                    f"The mean of {one.treatment} is {way} that of {one.against}: the difference is {difference} "
                    f"{told}. The difference is significant at the 5 % level."
                )
            else:
                said.append(
                    f"No difference between the means of {one.treatment} and {one.against} was found at the 5 % level: "
                    f"it is estimated at {difference} {told}."
                )
        return [*said, self._together(), self.correction()]

    def _together(self) -> str:
        found = "finds that the means differ" if self.joint_test.pvalue <= 0.05 else "finds no difference"
        return f"Welch's test of all {len(self.arms)} arms {found} ({pvalue_equation(self.joint_test.pvalue)})."

    def correction(self) -> str:
        """The correction of intervals and p-values, in words."""
        pairs = len(self.pairs)
        if pairs == 1:
            return "There is one comparison, so nothing is corrected."
        return f"Intervals and p-values are corrected for {pairs} comparisons (Bonferroni): they hold all at once."

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """Every difference, with its simultaneous interval."""
        return [reading for pair in self.pairs for reading in pair.readings(columns)]

    def published(self) -> dict[str, Any]:
        return self.pairs[0].published()

    def verdict(self) -> Mapping[str, Any]:
        smallest = min(pair.pvalue for pair in self.pairs)
        together = len(self.pairs) > 1
        return {"test": "equal means of all arms", "pvalue": smallest, "said": self.sentences(), "together": together}

    def facts(self) -> list[tuple[str, str]]:
        found = [
            (
                f"{one.treatment} − {one.against}",
                f"{reading_line(one.readings()[0].to_dict())}, {pvalue_equation(one.pvalue)}",
            )
            for one in self.pairs
        ]
        found.append(("intervals", "95 %, for the population: noise and sampling together"))
        together = f"{pvalue_equation(self.joint_test.pvalue)}, by Welch's test of all arms"
        return [*found, ("equal means", together), ("note", self.correction())]

    def rows(self) -> list[Row]:
        return aligned([row for one in self.pairs for row in one.rows()])

    def plot(self) -> Any:
        """Altair chart of every difference with its simultaneous 95 % interval."""
        return plot_readings(self.heading(), [one.to_dict() for pair in self.pairs for one in pair.readings()])

    def heading(self) -> str:
        return "Differences of means"


def compare_arms(
    columns: Mapping[str, Any],
    *,
    bounds: tuple[float, float],
    guarantee: Guarantee,
    partitions: int | None = None,
    censor: tuple[float, float] = (0.1, 0.1),
    method: str = "direct",
    ledger: Ledger | None = None,
    neighbours: Neighbours = Neighbours.REPLACE_ONE,
    arm: str = "public",
    unit: Unit = ROW,
    rng: Rng = None,
) -> ArmComparisons:
    """Compare any number of arms, all pairs at once, from one measurement of every arm's mean.

    A unit is in one arm, so all arms together cost what one of them costs.

    Parameters
    ----------
    columns
        Outcomes of each arm's units, by the arm's name; two arms or more.
    method
        ``"direct"``, or ``"noise_aware"`` for winsorized partition means of every arm.
    bounds, guarantee, partitions, censor, ledger, neighbours, arm, unit, rng
        As in `discreet.compare_means`.

    Examples
    --------
    >>> from discreet import PureDP
    >>> from discreet.questions import compare_arms
    >>> draws = np.random.default_rng(1)
    >>> arms = {name: draws.poisson(mean, 20_000) for name, mean in (("a", 2.0), ("b", 2.5), ("c", 2.0))}
    >>> found = compare_arms(arms, bounds=(0, 20), guarantee=PureDP(1.0), rng=2)
    >>> found["b", "a"].pvalue < 0.001, found["c", "a"].population_interval(0.999).contains(0.0)
    (True, True)
    """
    requirements.instance("columns", columns, Mapping, 'outcomes by arm, such as {"a": …, "b": …}')
    requirements.positive_integer("number of arms", len(columns), at_least=2)
    requirements.one_of("method", method, ("direct", "noise_aware"))
    if method == "noise_aware" and partitions is None:
        raise InvalidParameter("partitions", None, "is needed by noise_aware", "Pass partitions=….")
    requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.REPLACE_ONE")
    statistic = MeanDifference(bounds=bounds, arm=arm, arms=len(columns), partitions=partitions, censor=censor)
    protection = Protection(unit, neighbours, public_facts(neighbours, arm))
    asked = {"ask": "compare_arms", "statistic": statistic.to_dict()}
    terms = ComparisonTerms.of(guarantee, statistic, protection, method=method, question=asked, rng=rng)
    check_simulation(ledger, rng)
    named = {str(name): values for name, values in columns.items()}
    return terms.run(named, compare_arm_totals, ArmComparisons, ledger)


def compare_arm_totals(
    arms: Arms, terms: ComparisonTerms, allowance: Allowance, passed: Passed, *, against_control: bool = False
) -> ArmComparisons:
    """Compare arms whose totals are at hand: all pairs, or all others with the first."""
    statistic, neighbours, method = terms.statistic, terms.protection.neighbours, terms.method.name
    check_sizes(arms, public=terms.sizes_are_public)
    setting = Setting(statistic, neighbours, public_sizes(arms, neighbours, statistic.arm))
    singles, noisy = _singles(method, arms, terms.spending(allowance), setting)
    every = list(itertools.combinations(range(len(singles)), 2))
    every = [pair for pair in every if pair[0] == 0] if against_control else every
    return ArmComparisons(
        tuple(
            MeanComparison(
                contrast=difference(singles[j], singles[i]),
                method=method,
                guarantee=terms.guarantee,
                protection=terms.protection,
                control=singles[i],
                treatment=arms.labels[j],
                against=arms.labels[i],
                simultaneous=len(every),
                noisy=noisy,
                **vars(passed),
            )
            for i, j in every
        ),
        tuple(singles),
    )


def _singles(method: str, arms: Arms, spending: Spending, setting: Setting) -> tuple[list[Contrast], dict[str, Any]]:
    """Every arm's own mean, and the noisy statistics behind them."""
    if method == "noise_aware":
        return PartitionLikelihood().arm_means(arms, spending, setting)
    means, measured = Direct().means(arms, spending, setting)
    singles = [contrast([mean], [1.0], kurtosis=measured.kurtosis) for mean in means]
    return singles, {"moments": np.asarray(measured.value).tolist(), "noise_scale": measured.scale}


def difference(first: Contrast, second: Contrast) -> Contrast:
    """Difference of two independent estimates; degrees of freedom by Welch and Satterthwaite."""
    variances = [float(one.standard_error) ** 2 for one in (first, second)]
    df = sum(variances) ** 2 / sum(v**2 / float(one.df) for v, one in zip(variances, (first, second), strict=True))
    return Contrast(
        estimate=float(first.estimate) - float(second.estimate),
        sampling_variance=float(first.sampling_variance) + float(second.sampling_variance),
        df=df,
        noise=[*np.ravel(first.noise), *np.ravel(second.noise)],
        kurtosis=max(first.kurtosis, second.kurtosis),
        arms=(*second.arms, *first.arms),
    )


# ---- The question of several arms: each against the control, described from public facts alone.


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

    def draw(self, rows: Snapshot, claim: Claim, allowance: Allowance, passed: Passed) -> ArmComparisons:
        arms = arms_on_engine(rows, self._selected(), self.statistic.partitions)
        return compare_arm_totals(arms, self._terms(), allowance, passed, against_control=True)

    def read(self, stored: Any) -> ArmComparisons:
        return ArmComparisons.from_dict(stored)

    def _plan_notes(self, planned: ComparisonPlan | None, unsaid: tuple[str, ...]) -> tuple[str, ...]:
        return (f"corrected for {self.statistic.arms - 1} comparisons with the control", *unsaid)
