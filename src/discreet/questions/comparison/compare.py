"""compare_means and compare_arms: a private test in one call. Validate, reserve, draw, conclude, in that order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from discreet.core import requirements
from discreet.core.door import Allowance, Claim, Passed, check_simulation, pass_through
from discreet.core.errors import InvalidParameter, NotCertified
from discreet.core.guarantee import Guarantee
from discreet.core.noise.sampler import generator
from discreet.core.protection import ROW, Fact, Neighbours, Protection, Unit
from discreet.inference.least_squares import JointTest
from discreet.inference.noise import MonteCarlo
from discreet.inference.two_sample import ArmScore, Contrast, contrast, equal_means
from discreet.questions.comparison.methods import (
    Arms,
    Best,
    Direct,
    Finding,
    MeanDifference,
    Method,
    PartitionLikelihood,
    Setting,
    Spending,
    arms_from_columns,
    check_censor,
    check_sizes,
    public_sizes,
    size_is_public,
    unused,
)
from discreet.questions.comparison.paper import paper_method
from discreet.results.answer import Readable, protection_published
from discreet.results.charts import plot_readings
from discreet.results.display import Facts, Interval, expected
from discreet.results.frames import Reading, Row, aligned
from discreet.results.printed import told_numbers
from discreet.results.wording import moment, promise_words, pvalue_equation, reading_line, reading_words

if TYPE_CHECKING:
    from discreet.results.ledger import Ledger


# ---- The result of comparing two arms: estimate, interval, p-value, lift and where the uncertainty comes from


FORMAT = 2


@dataclass(frozen=True, kw_only=True)
class MeanComparison(Readable):
    """The difference of two arms' means, with all uncertainty, made from private outputs only.

    Attributes
    ----------
    estimate, standard_error, df, pvalue
        In scipy's words; the p-value tests that the means are equal.
    method
        How it was done, for example ``"direct"``.
    guarantee
        What holds for the whole comparison; None where nothing does (published methods, simulated only).
    protection
        Between which data sets, whose data counts as one unit, and what is taken as public.
    control
        The control arm's mean as a contrast of its own, where the method estimates it; the lift needs it.
    treatment, against
        Names of the two arms.
    noisy
        The released, noisy statistics and the public settings behind the result.
    notes
        What the reader must know: warnings, and what stands in for what could not be certified.
    asked
        The question in words, for a heading.
    """

    contrast: Contrast
    method: str
    guarantee: Guarantee | None
    protection: Protection
    release_id: str
    created: str
    simulated: bool
    control: Contrast | None = None
    treatment: str = "treatment"
    against: str = "control"
    noisy: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    asked: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    simultaneous: int = 1

    @property
    def estimate(self) -> float:
        """Estimated difference: treatment minus control."""
        return float(self.contrast.estimate)

    @property
    def standard_error(self) -> float:
        """Square root of sampling variance plus noise variance."""
        return float(self.contrast.standard_error)

    @property
    def df(self) -> float:
        """Degrees of freedom of the standard error."""
        return float(self.contrast.df)

    @property
    def pvalue(self) -> float:
        """Two-sided p-value of equal means, times the number of simultaneous comparisons."""
        return min(1.0, self.simultaneous * float(self.contrast.pvalue()))

    @property
    def clipped(self) -> str | None:
        """Which shares of values lie beyond their bounds, where that was told, too."""
        return self.noisy.get("clipped")

    @property
    def privacy_share(self) -> float:
        """Share of the variance that is due to privacy."""
        contrast = self.contrast
        return float(contrast.noise_variance / (contrast.noise_variance + contrast.sampling_variance))

    def population_interval(self, level: float = 0.95) -> Interval:
        """Interval for the difference of means in the populations; simultaneous with the other pairs of its family."""
        checked = requirements.level(level)
        low, high = self.contrast.ends(1 - (1 - checked) / self.simultaneous)
        return Interval(float(low), float(high), checked)

    def lift(self, level: float = 0.95) -> tuple[float, Interval]:
        """Relative difference, treatment/control − 1, with its interval.

        It is made from the intervals of the two means (MOVER for ratios, Donner and Zou 2012), which holds where arms
        are uneven; by Fieller's theorem where a method gives the difference alone.

        Raises
        ------
        InvalidParameter
            Where the method does not estimate the control's mean, or cannot tell it from zero at this level.
        """
        checked = requirements.level(level)
        if self.control is None:
            raise InvalidParameter("method", self.method, "estimates no mean of the control", 'Use method="direct".')
        base, difference = float(self.control.estimate), self.estimate
        if len(self.contrast.arms) == 2:
            control, treatment = self.contrast.arms
            return difference / base, _ratio(treatment, control, checked)
        q = float(self.contrast.half_width(checked)) / self.standard_error
        v_base = float(self.control.standard_error) ** 2
        v_all, v_cross = self.standard_error**2, -v_base  # Cov(treatment − control, control)
        a, b, c = base**2 - q**2 * v_base, base * difference - q**2 * v_cross, difference**2 - q**2 * v_all
        if a <= 0 or b * b < a * c:
            raise InvalidParameter(
                "level", level, "the control's mean cannot be told from zero", "Lower the level, or use more data."
            )
        root = math.sqrt(b * b - a * c)
        return difference / base, Interval((b - root) / a, (b + root) / a, checked)

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """The difference, then the mean of each arm, with noise and sampling in their intervals."""
        return [self.difference(), *self.arm_means()]

    def difference(self) -> Reading:
        """The difference of the means."""
        return Reading(
            f"{self.treatment} − {self.against}",
            self.estimate,
            population=self.population_interval(),
            labels={"treatment": self.treatment, "control": self.against},
            measure="difference of means",
            standard_error=self.standard_error,
            pvalue=self.pvalue,
        )

    def arm_means(self) -> list[Reading]:
        """The mean of control and treatment, where the method measures them."""
        found = []
        for name, arm in zip((self.against, self.treatment), self.contrast.arms, strict=False):
            low, high = arm.ends(0.95)
            within = Interval(float(low), float(high), 0.95)
            found.append(Reading(name, float(arm.estimate), population=within, labels={"arm": name}, measure="mean"))
        return found

    def published(self) -> dict[str, Any]:
        return protection_published(self, {"name": self.method}, None) | {"clipped": self.clipped}

    def verdict(self) -> Mapping[str, Any]:
        return {"test": "equal means", "pvalue": self.pvalue, "said": self.sentences()}

    def sentences(self) -> list[str]:
        """The answer in words, at the 5 % level."""
        difference, _, interval = reading_words(self.difference().to_dict())
        told = f"({interval}; {pvalue_equation(self.pvalue)})"
        if self.pvalue > 0.05:
            return [
                f"No difference between the means of {self.treatment} and {self.against} was found at the 5 % level: "
                f"it is estimated at {difference} {told}."
            ]
        way = "above" if self.estimate >= 0 else "below"
        return [
            f"The mean of {self.treatment} is {way} that of {self.against}: the difference is {difference} {told}. "
            "The difference is significant at the 5 % level."
        ]

    def chart(self) -> Any:
        """Diagnostic plot of private outputs: density of the estimate's error, with and without the privacy noise."""
        import altair as alt

        law = self.contrast.law
        plain = Contrast(0.0, self.contrast.sampling_variance, self.contrast.df)
        reach = 4 * self.standard_error
        edges = np.linspace(-reach, reach, 161)
        rows = []
        for name, one in (("sampling alone", plain.law), ("sampling and privacy noise", law)):
            tails = np.asarray(one.sf(np.abs(edges)))
            cdf = np.where(edges > 0, 1 - tails, tails)
            for x, density in zip((edges[1:] + edges[:-1]) / 2, np.diff(cdf) / np.diff(edges), strict=True):
                rows.append({"difference": self.estimate + float(x), "density": float(density), "error": name})
        lines = alt.Chart(alt.InlineData(values=rows)).mark_line().encode(
            x=alt.X(field="difference", type="quantitative"),
            y=alt.Y(field="density", type="quantitative"),
            color=alt.Color(field="error", type="nominal", scale=alt.Scale(range=["#0b5cad", "#b4530a"])),
            strokeDash=alt.StrokeDash(field="error", type="nominal"),
        )  # fmt: skip
        zero = alt.Chart(alt.InlineData(values=[{"difference": 0.0}])).mark_rule(strokeDash=[4, 4])
        return (lines + zero.encode(x=alt.X(field="difference", type="quantitative"))).properties(
            title=self.heading(), description="Density of the estimate's error, with and without the privacy noise"
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        interval = self.population_interval()
        return {
            "discreet": "mean_comparison",
            "format": FORMAT,
            "treatment": self.treatment,
            "control": self.against,
            "estimate": self.estimate,
            "standard_error": self.standard_error,
            "df": self.df,
            "pvalue": self.pvalue,
            "noise_interval": interval.to_dict(),
            "privacy_share": self.privacy_share,
            "method": self.method,
            "guarantee": None if self.guarantee is None else self.guarantee.to_dict(),
            "protection": self.protection.to_dict(),
            "noisy": self.noisy,
            "notes": list(self.notes),
            "release_id": self.release_id,
            "created": self.created,
            "simulated": self.simulated,
            "simultaneous": self.simultaneous,
            "contrast": self.contrast.to_dict(),
            "control_mean": None if self.control is None else self.control.to_dict(),
        }

    @staticmethod
    def from_dict(data: Any) -> MeanComparison:
        """Read what `to_dict` wrote."""
        if not isinstance(data, dict) or data.get("discreet") != "mean_comparison" or data.get("format") != FORMAT:
            raise InvalidParameter("data", data, f"must be a comparison of format {FORMAT}", "Check the file.")
        same = ("method", "release_id", "created", "simulated", "treatment", "noisy", "simultaneous")
        return MeanComparison(
            contrast=Contrast.from_dict(data["contrast"]),
            guarantee=None if data["guarantee"] is None else Guarantee.from_dict(data["guarantee"]),
            protection=Protection.from_dict(data["protection"]),
            control=None if data["control_mean"] is None else Contrast.from_dict(data["control_mean"]),
            against=data["control"],
            notes=tuple(data["notes"]),
            **{name: data[name] for name in same},
        )

    def facts(self) -> Facts:
        """The facts to show."""
        private = f"{100 * self.privacy_share:.0f} %"
        facts = [
            ("answer", " ".join(self.sentences())),
            *told_numbers([self.difference().to_dict() | {"measure": f"{self.treatment} − {self.against}"}]),
            ("standard error", f"{expected(self.standard_error)}; its square is {private} privacy noise"),
            *((f"mean of {one.label}", reading_line(one.to_dict())) for one in self.arm_means()),
            ("method", self.method),
            *([] if self.clipped is None else [("clipped", self.clipped)]),
            ("guarantee", promise_words(self.guarantee, self.words.get("unit", str(self.protection.unit)))),
            ("protects against", str(self.protection)),
            ("release", f"{self.release_id[:8]}, {moment(self.created)}"),
        ]
        facts += [("note", note) for note in self.notes]
        return [*facts, ("simulated", "yes: protects nobody")] if self.simulated else facts

    def heading(self) -> str:
        return str(self.words.get("heading", f"Mean of {self.treatment} minus {self.against}"))


def _ratio(top: ArmScore, bottom: ArmScore, level: float) -> Interval:
    """Interval for the ratio of two means less 1, from an interval for each (Donner and Zou 2012)."""
    (least, most) = top.ends(level)
    (low, high) = bottom.ends(level)
    above, below = float(top.estimate), float(bottom.estimate)
    if low <= 0 or below <= 0:
        raise InvalidParameter(
            "level", level, "the control's mean cannot be told from zero", "Lower the level, or use more data."
        )

    def end(other: float, base: float, side: float) -> float:
        # The ratio r at which above − r·below lies as far from 0 as the distances of the two ends allow.
        square = (above * below) ** 2 - other * base * (2 * above - other) * (2 * below - base)
        return (above * below + side * math.sqrt(max(square, 0.0))) / (base * (2 * below - base))

    return Interval(end(float(least), float(high), -1.0) - 1, end(float(most), float(low), 1.0) - 1, level)


R = TypeVar("R")
FEWEST_PARTITIONS = 100
FEWEST_UNITS_A_PARTITION = 1000
Rng = int | np.random.Generator | None


def compare_means(
    treatment: Any,
    control: Any,
    *,
    bounds: tuple[float, float],
    guarantee: Guarantee,
    partitions: int | None = None,
    censor: tuple[float, float] = (0.1, 0.1),
    ledger: Ledger | None = None,
    method: str | Method = "best",
    as_published: bool = False,
    neighbours: Neighbours = Neighbours.REPLACE_ONE,
    arm: str = "public",
    unit: Unit = ROW,
    partition_labels: tuple[Any, Any] | None = None,
    expected_sd: float | None = None,
    cutoffs: tuple[float, float] | None = None,
    placement: str | None = None,
    inference: str | None = None,
    m: int | None = None,
    rng: Rng = None,
) -> MeanComparison:
    """Compare the means of two arms, one outcome per unit.

    Parameters
    ----------
    treatment, control
        Outcomes of the units of each arm; one number per unit.
    bounds
        Public bounds of an outcome; values outside are clipped, and the comparison is of clipped means.
    guarantee
        What the whole comparison may spend: the noise is Laplace or Gaussian, whichever is smaller.
    partitions
        Number of partitions of the partition methods.
    censor
        Shares (α, β) of partition differences to censor below and above.
    ledger
        Where the cost is recorded; required unless ``rng`` makes it a simulation.
    method
        ``"best"`` (default), ``"direct"``, ``"noise_aware"``, one of liu2023's names (``"2S"``, ``"4S"``, ``"4SDD"``,
        ``"6S"``, ``"6SDD"``, ``"winsorized"``, ``"trimmed"`` (``"winsorized6"`` and ``"trimmed6"`` with
        sanitized counts, each also with ``"DD"``), ``"naive"``, ``"naiveDD"``, ``"naive5"``,
        ``"naive5DD"``, ``"original"``), or a method object.
    as_published
        Run liu2023's procedure as printed. It has no guarantee (errata E2 to E5), so only with ``rng``.
    neighbours
        Which data sets must be hard to tell apart. Under replace-one the number of units is public.
    arm
        Whether the experiment fixed each unit's arm (``"public"``), or it is part of the record (``"private"``).
    unit
        Whose data one outcome is.
    partition_labels
        Natural partitions: for treatment and control the partition number of every unit. It is public: a replaced
        record keeps its partition.
    expected_sd
        A guess of the outcome's standard deviation, for the choice of ``"best"`` and of budget shares.
    cutoffs
        A public interval (l, u) of differences of partition means, chosen without a look at the data: values outside
        are censored. It costs nothing. For ``"noise_aware"``, and for liu2023's methods that count what is censored.
    placement
        How liu2023's methods find (l, u) otherwise: ``"moments"`` (default) of the arms, or ``"quantile"``.
    inference
        How they read the likelihood: ``"bayes"`` (default) or ``"ml"``.
    m
        How many times they sanitize, with a share of the budget each: 4 by default; the paper advises 3 to 5.
    rng
        A seed or generator simulates.

    Notes
    -----
    **Guarantee.** As asked for, for the neighbours named; proofs in ``docs/proofs/mean_difference.md``.

    Examples
    --------
    >>> from discreet import PureDP
    >>> from discreet.questions import compare_means
    >>> rng = np.random.default_rng(1)
    >>> a, b = rng.poisson(3.0, 20_000), rng.poisson(2.5, 20_000)
    >>> result = compare_means(a, b, bounds=(0, 20), guarantee=PureDP(1.0), rng=2)
    >>> result.method, result.simulated, result.population_interval(0.95).contains(0.5)
    ('direct', True, True)
    """
    requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.REPLACE_ONE")
    statistic = MeanDifference(bounds=bounds, arm=arm, partitions=partitions, censor=censor)
    natural = partition_labels is not None
    protection = Protection(unit, neighbours, public_facts(neighbours, arm, natural=natural))
    named = method_named(
        method, as_published=as_published, expected_sd=expected_sd, cutoffs=cutoffs, placement=placement,
        inference=inference, m=m,
    )  # fmt: skip
    terms = ComparisonTerms.of(guarantee, statistic, protection, method=named, rng=rng)
    check_simulation(ledger, rng)
    if partitions is None and not isinstance(terms.method, Direct | Best):
        raise InvalidParameter("partitions", None, f"is needed by {terms.method.name}", "Pass partitions=….")
    if partition_labels is not None and partitions is None:
        raise InvalidParameter("partitions", None, "is needed with partition_labels", "Pass partitions=….")
    labels = None if partition_labels is None else dict(zip(("treatment", "control"), partition_labels, strict=True))
    compare = partial(compare_totals, natural=natural)
    return terms.run({"control": control, "treatment": treatment}, compare, MeanComparison, ledger, labels)


@dataclass(frozen=True)
class ComparisonTerms:
    """Validated arguments that every comparison shares."""

    guarantee: Guarantee
    statistic: MeanDifference
    method: Method
    protection: Protection
    question: Mapping[str, Any]
    rng: np.random.Generator | None = None

    @classmethod
    def of(
        cls,
        guarantee: Any,
        statistic: MeanDifference,
        protection: Protection,
        *,
        method: str | Method,
        question: Mapping[str, Any] | None = None,
        rng: Rng = None,
    ) -> ComparisonTerms:
        """Check everything that does not need the data."""
        requirements.instance("guarantee", guarantee, Guarantee, "a guarantee such as PureDP(1.0)")
        chosen = method_named(method)
        if rng is None and not chosen.certified:
            raise NotCertified(
                f"{chosen.name} has no proved guarantee, so it may not touch real data. "
                "Leave out as_published, or pass rng=… to simulate."
            )
        check_censor(chosen, statistic)
        source = None if rng is None else generator(rng)
        Spending(guarantee, source)  # refuses a guarantee of nothing
        asked = {"ask": "compare_means", "statistic": statistic.to_dict()} if question is None else question
        return cls(guarantee, statistic, chosen, protection, asked, source)

    def claim(self) -> Claim:
        """The claim of the comparison, by a method that has a proof: nothing else may touch real data."""
        if not self.method.certified:
            raise NotCertified(f"{self.method.name} has no proved guarantee, so it may not touch real data.")
        return Claim(
            guarantee=self.guarantee,
            protection=self.protection,
            question=self.question,
            mechanism=self.method.parameters(),
            sensitivity=self.statistic.sensitivity(neighbours=self.protection.neighbours),
        )

    @property
    def sizes_are_public(self) -> bool:
        """True where the number of units per arm is public."""
        return size_is_public(self.protection.neighbours, self.statistic.arm)

    def run(
        self, columns: dict[str, Any], compare: Callable[..., R], kind: Any, ledger: Ledger | None, labels: Any = None
    ) -> R:
        """Compare columns of outcomes in memory; results are of a kind that the ledger stores."""
        arms = arms_from_columns(
            columns, bounds=self.statistic.bounds, partitions=self.statistic.partitions or 1,
            equal=self.sizes_are_public, labels=labels, rng=self.rng,
        )  # fmt: skip
        claim = self.claim() if self.method.certified else None  # nothing holds for a published method
        found: R = pass_through(
            claim, lambda allowance, passed: compare(arms, self, allowance, passed),
            write=kind.to_dict, read=kind.from_dict, ledger=ledger, rng=self.rng,
        )  # fmt: skip
        return found

    def spending(self, allowance: Allowance) -> Spending:
        """The whole guarantee, to be spent on draws that the door counts."""
        return Spending(self.guarantee, allowance.rng, allowance)


def public_facts(neighbours: Neighbours, arm: str, *, natural: bool = False) -> list[Fact]:
    """The facts that a comparison takes as public besides the number of units.

    Where a unit is replaced by one of the same arm (or natural partition), who is in which arm is not protected.
    """
    if not size_is_public(neighbours, arm):
        return []
    return [Fact.ARM, Fact.PART] if natural else [Fact.ARM]


def method_named(
    method: Any, *, as_published: bool = False, expected_sd: float | None = None, **settings: Any
) -> Method:
    """The method object behind a name, with the settings that are not None."""
    given = {name: value for name, value in settings.items() if value is not None}
    if isinstance(method, Method):
        unused(f"a {type(method).__name__} object", given, ())
        return method
    if requirements.instance("method", method, str, 'method="best"') not in ("best", "direct", "noise_aware"):
        return paper_method(method, as_published=as_published, **given)
    if as_published:
        raise InvalidParameter("as_published", True, f"{method} was not published", "Name one of liu2023's.")
    unused(method, given, ("cutoffs",) if method == "noise_aware" else ())
    if method == "noise_aware":
        return PartitionLikelihood(expected_sd=expected_sd, **given)
    return Direct() if method == "direct" else Best(expected_sd)


def compare_totals(
    arms: Arms, terms: ComparisonTerms, allowance: Allowance, passed: Passed, *, natural: bool = False
) -> MeanComparison:
    """Compare two arms whose totals are at hand."""
    check_sizes(arms, public=terms.sizes_are_public)
    setting = _setting(arms, terms.statistic, terms.protection.neighbours, natural)
    finding = terms.method.run(arms, terms.spending(allowance), setting)
    return MeanComparison(
        contrast=finding.contrast,
        method=finding.method,
        guarantee=terms.guarantee if terms.method.certified else None,
        protection=terms.protection,
        control=finding.control,
        treatment=arms.labels[1],
        against=arms.labels[0],
        noisy=finding.noisy,
        notes=(*finding.notes, *_warnings(setting, finding)),
        **vars(passed),
    )


def _setting(arms: Arms, statistic: MeanDifference, neighbours: Neighbours, natural: bool) -> Setting:
    sizes = public_sizes(arms, neighbours, statistic.arm)
    if not natural or sizes is None:
        return Setting(statistic, neighbours, sizes)
    # liu2023 section 3.8: sizes of natural partitions are known constants, and σⱼ² ∝ 1/nⱼ₁ + 1/nⱼ₀.
    inverse = (1 / np.maximum(arms.counts[:2], 1)).sum(axis=0)
    edges = np.quantile(inverse, np.linspace(0, 1, 9))
    group = np.clip(np.searchsorted(edges, inverse, side="right") - 1, 0, 7)
    present = [index for index in range(8) if (group == index).any()]
    ratios = tuple(float(np.sqrt(inverse[group == index].mean() / inverse.mean())) for index in present)
    shares = tuple(float((group == index).mean()) for index in present)
    return Setting(statistic, neighbours, sizes, ratios, shares)


def _warnings(setting: Setting, finding: Finding) -> tuple[str, ...]:
    """liu2023's advice where it is not followed, with its reason; from public facts only."""
    if finding.method == Direct.name or setting.statistic.partitions is None:
        return ()
    notes = []
    if setting.censor[0] != setting.censor[1]:
        notes.append("α ≠ β: sparse, skewed outcomes bias such a comparison; equal shares do not")
    if setting.partitions < FEWEST_PARTITIONS:
        notes.append(f"P = {setting.partitions} is below {FEWEST_PARTITIONS}: noise on counts of P values is large")
    if setting.sizes is not None and min(setting.sizes[:2]) / setting.partitions < FEWEST_UNITS_A_PARTITION:
        notes.append("fewer than 1,000 units a partition: means of skewed outcomes may not be normal yet")
    return tuple(notes)


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
    asked
        The question in words, for a heading.
    """

    pairs: tuple[MeanComparison, ...]
    arms: tuple[Contrast, ...]
    asked: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

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
        said = [sentence for one in self.pairs for sentence in one.sentences()]
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
        """Every difference, with its simultaneous interval, then the mean of each arm, with one of its own."""
        means = {one.label: one for pair in self.pairs for one in pair.arm_means()}
        return [*(pair.difference() for pair in self.pairs), *means.values()]

    def published(self) -> dict[str, Any]:
        return self.pairs[0].published()

    def verdict(self) -> Mapping[str, Any]:
        smallest = min(pair.pvalue for pair in self.pairs)
        together = len(self.pairs) > 1
        return {"test": "equal means of all arms", "pvalue": smallest, "said": self.sentences(), "together": together}

    def facts(self) -> list[tuple[str, str]]:
        found = told_numbers(one.difference().to_dict() for one in self.pairs)
        together = f"{pvalue_equation(self.joint_test.pvalue)}, by Welch's test of all arms"
        clipped = [("clipped", told) for told in (self.pairs[0].clipped,) if told]
        return [*found, ("equal means", together), ("note", self.correction()), *clipped]

    def rows(self) -> list[Row]:
        rows = [row for one in self.pairs for row in one.rows()]
        means = {row["arm"]: row for row in rows if row["measure"] == "mean"}  # an arm is in several pairs
        return aligned([*(row for row in rows if row["measure"] != "mean"), *means.values()])

    def plot(self) -> Any:
        """Altair chart of every difference with its simultaneous 95 % interval."""
        return plot_readings(self.heading(), [pair.difference().to_dict() for pair in self.pairs], self.words)

    def heading(self) -> str:
        return str(self.words.get("heading", "Differences of means"))


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
