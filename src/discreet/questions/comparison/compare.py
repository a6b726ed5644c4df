"""compare_means: a private A/B test in one call. Validate, reserve in the ledger, draw, conclude, in that order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.core import requirements
from discreet.core.door import Allowance, Claim, Passed, check_simulation, pass_through
from discreet.core.errors import InvalidParameter, NotCertified
from discreet.core.guarantee import Guarantee
from discreet.core.noise.truth import generator
from discreet.core.protection import ROW, Fact, Neighbours, Protection, Unit
from discreet.questions.comparison.arms import Arms, arms_from_columns, check_sizes
from discreet.questions.comparison.mean_comparison import MeanComparison
from discreet.questions.comparison.methods import (
    Best,
    Direct,
    Finding,
    Method,
    NoiseAware,
    Setting,
    check_censor,
    public_sizes,
)
from discreet.questions.comparison.noise_shares import Spending
from discreet.questions.comparison.paper import paper_method
from discreet.questions.mean_difference import MeanDifference, size_is_public

if TYPE_CHECKING:
    from discreet.ledgers import Ledger

__all__ = ["Terms", "compare_means", "compare_totals"]

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
    spread: float | None = None,
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
    spread
        A guess of the outcome's standard deviation, for the choice of ``"best"`` and of budget shares.
    rng
        A seed or generator simulates.

    Notes
    -----
    **Guarantee.** As asked for, for the neighbours named; proofs in ``docs/proofs/mean_difference.md``.

    Examples
    --------
    >>> from discreet import PureDP, compare_means
    >>> rng = np.random.default_rng(1)
    >>> a, b = rng.poisson(3.0, 20_000), rng.poisson(2.5, 20_000)
    >>> result = compare_means(a, b, bounds=(0, 20), guarantee=PureDP(1.0), rng=2)
    >>> result.method, result.simulated, result.confidence_interval(0.95).contains(0.5)
    ('direct', True, True)
    """
    requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.REPLACE_ONE")
    statistic = MeanDifference(bounds=bounds, arm=arm, partitions=partitions, censor=censor)
    natural = partition_labels is not None
    protection = Protection(unit, neighbours, public_facts(neighbours, arm, natural=natural))
    terms = Terms.of(guarantee, statistic, protection, method=method, as_published=as_published, spread=spread, rng=rng)
    check_simulation(ledger, rng)
    if partitions is None and not isinstance(terms.method, Direct | Best):
        raise InvalidParameter("partitions", None, f"is needed by {terms.method.name}", "Pass partitions=….")
    if partition_labels is not None and partitions is None:
        raise InvalidParameter("partitions", None, "is needed with partition_labels", "Pass partitions=….")
    labels = None if partition_labels is None else dict(zip(("treatment", "control"), partition_labels, strict=True))
    arms = arms_from_columns(
        {"control": control, "treatment": treatment}, bounds=statistic.bounds, partitions=partitions or 1,
        equal=size_is_public(neighbours, arm), labels=labels, rng=terms.rng,
    )  # fmt: skip
    return pass_through(
        terms.claim(statistic),
        lambda allowance, passed: compare_totals(arms, statistic, terms, allowance, passed, natural=natural),
        write=MeanComparison.to_dict, read=MeanComparison.from_dict, ledger=ledger, rng=terms.rng,
    )  # fmt: skip


@dataclass(frozen=True)
class Terms:
    """Validated arguments that every comparison shares."""

    guarantee: Guarantee
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
        as_published: bool = False,
        spread: float | None = None,
        question: Mapping[str, Any] | None = None,
        rng: Rng = None,
    ) -> Terms:
        """Check everything that does not need the data."""
        requirements.instance("guarantee", guarantee, Guarantee, "a guarantee such as PureDP(1.0)")
        chosen = method_named(method, as_published=as_published, spread=spread)
        if rng is None and not chosen.certified:
            raise NotCertified(
                f"{chosen.name} has no proved guarantee, so it may not touch real data. "
                "Leave out as_published, or pass rng=… to simulate."
            )
        check_censor(chosen, statistic)
        source = None if rng is None else generator(rng)
        Spending(guarantee, source)  # refuses a guarantee of nothing
        asked = {"ask": "compare_means", "statistic": statistic.to_dict()} if question is None else question
        return cls(guarantee, chosen, protection, asked, source)

    def claim(self, statistic: MeanDifference) -> Claim | None:
        """What the comparison says of itself; None for a published method, for which nothing holds."""
        if not self.method.certified:
            return None
        return Claim(
            guarantee=self.guarantee,
            protection=self.protection,
            question=self.question,
            mechanism=self.method.parameters(),
            sensitivity=statistic.sensitivity(neighbours=self.protection.neighbours),
        )

    def certified_claim(self, statistic: MeanDifference) -> Claim:
        """The same, for a method that has a proof: nothing else may touch real data."""
        claim = self.claim(statistic)
        if claim is None:
            raise NotCertified(f"{self.method.name} has no proved guarantee, so it may not touch real data.")
        return claim

    def spending(self, allowance: Allowance) -> Spending:
        """The whole guarantee, to be spent on draws that the door counts."""
        return Spending(self.guarantee, allowance.rng, allowance)


def public_facts(neighbours: Neighbours, arm: str, *, natural: bool = False) -> list[Fact]:
    """What a comparison takes as public besides the number of units.

    Where a unit is replaced by one of the same arm (or natural partition), who is in which arm is not protected.
    """
    if not size_is_public(neighbours, arm):
        return []
    return [Fact.ARM, Fact.PART] if natural else [Fact.ARM]


def method_named(method: Any, *, as_published: bool = False, spread: float | None = None) -> Method:
    """The method object behind a name."""
    if isinstance(method, Method):
        return method
    own: dict[str, Method] = {"best": Best(spread), "direct": Direct(), "noise_aware": NoiseAware(spread=spread)}
    if isinstance(method, str) and method in own:
        if as_published:
            raise InvalidParameter("as_published", True, f"{method} was not published", "Name one of liu2023's.")
        return own[method]
    return paper_method(method, as_published=as_published)


def compare_totals(
    arms: Arms,
    statistic: MeanDifference,
    terms: Terms,
    allowance: Allowance,
    passed: Passed,
    *,
    natural: bool = False,
) -> MeanComparison:
    """Compare two arms whose totals are at hand."""
    neighbours = terms.protection.neighbours
    check_sizes(arms, public=size_is_public(neighbours, statistic.arm))
    setting = _setting(arms, statistic, neighbours, natural)
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
