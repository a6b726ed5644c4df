"""Proportion: the share of rows with a property, over a public or a protected number of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from discreet.core import requirements
from discreet.core.columns import Label
from discreet.core.errors import InvalidParameter, spelling
from discreet.core.guarantee import Guarantee
from discreet.core.noise.truth import Floats, plain
from discreet.core.protection import Neighbours
from discreet.core.rounding import not_below
from discreet.core.rows import Selected, Snapshot, weighted_totals
from discreet.core.schema import Contribution, Schema
from discreet.core.sensitivity import Sensitivity
from discreet.core.stability import in_parts
from discreet.inference.sampling import Binomial
from discreet.interval import Interval
from discreet.mechanisms.additive import additive_noise
from discreet.mechanisms.whole_share import share_noise
from discreet.questions.bounded import Domain, MomentRelease, PublicSizeStatistic, fractions
from discreet.questions.count import flags
from discreet.questions.forms import COLUMN, COLUMNS, FLAG, LABEL, SHARE, WHOLE, Form
from discreet.questions.grouped import GroupedRelease
from discreet.questions.parts import MeanInParts, MeanInPartsRelease
from discreet.questions.question import Expected, Forecast, MeasuredQuestion, Measurement, column_names
from discreet.questions.weighted import check_weighted, weighting_notes
from discreet.releases import Release

__all__ = ["Proportion", "ProportionInParts", "ProportionQuestion", "ProportionReading", "ProportionRelease"]


@dataclass(frozen=True, kw_only=True)
class Proportion(PublicSizeStatistic):
    """The share of rows for which the data is true.

    **Guarantee.** One row changes it by at most 1/n, under replace-one and, with n declared public, under
    add/remove (liu2019 D).

    Parameters
    ----------
    n
        The public number of rows; needed under add/remove, taken from the data under replace-one.

    Examples
    --------
    >>> Proportion().sensitivity(n=100, neighbours=Neighbours.REPLACE_ONE).l1
    0.01
    >>> Proportion().value([True, False, True])
    Fraction(2, 3)
    """

    name: ClassVar[str] = "proportion"
    n: int | None = None

    def __post_init__(self) -> None:
        if self.n is not None:
            object.__setattr__(self, "n", requirements.positive_integer("n", self.n))

    @classmethod
    def release_type(cls) -> type[Release]:
        return ProportionRelease

    def parameters(self) -> dict[str, Any]:
        return {"n": self.n}

    def domain(self, n: int | None = None) -> Domain:
        return 0.0, 1.0

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Sensitivity:
        return Sensitivity(moves=(not_below(Fraction(1, self.require_n_between(n, neighbours))),))

    def value(self, data: Any) -> Fraction:
        yes = flags(data)
        rows = requirements.positive_integer("rows", yes.size)
        return Fraction(int(np.count_nonzero(yes)), rows)


@dataclass(frozen=True)
class ProportionRelease(MomentRelease):
    """A released proportion, between 0 and 1; `measured` is the noisy measurement behind it.

    The population's interval is exact (binomial sampling, known noise).
    """

    @classmethod
    def shown_value(cls, value: Floats) -> Floats:
        return plain(np.clip(value, 0.0, 1.0))

    def _number(self) -> float:
        return float(self.measured)

    def confidence_interval(self, level: float = 0.95) -> Interval:
        """Interval for the true proportion, from the known law of the noise; its ends are proportions too."""
        interval = super().confidence_interval(level)
        # The truth is a proportion, so nothing is lost; what is shown stays inside.
        low, high = (plain(np.clip(end, 0.0, 1.0)) for end in interval)
        return Interval(min(low, self.value), max(high, self.value), interval.level)

    def sampling_model(self) -> Binomial:  # type: ignore[override]  # nothing else need be known
        """Binomial with the public n."""
        return Binomial(n=self.n)


@dataclass(frozen=True, kw_only=True)
class ProportionInParts(MeanInParts):
    """A proportion where the number of rows is protected too: counts of no and yes, the mean of zeros and ones.

    Guarantee
    ---------
    Add/remove: ℓ₁ = ℓ₂ = 1. Replace-one: 2 and √2.

    Examples
    --------
    >>> ProportionInParts().title
    'proportion'
    """

    name: ClassVar[str] = "proportion_in_parts"
    bounds: tuple[float, float] = (0.0, 1.0)


ProportionReading = ProportionRelease | MeanInPartsRelease
"""What a proportion is read from: one number where the number of rows is public, else counts of no and yes."""


@dataclass(frozen=True)
class ProportionQuestion(MeasuredQuestion[ProportionReading | GroupedRelease[ProportionReading]]):
    """Proportion of rows with a label, in all or by group.

    The value per group is (noes, yeses): a row moves one of them by one, `MeanInParts` on (0, 1). A unit's rows are
    limited in all, whatever their label: a limit per cell would keep labels, not rows, at random.

    Guarantee
    ---------
    Where the number of rows is public, a replaced row moves the proportion by at most 1/n. Else a row moves the two
    counts by one in all: ``docs/proofs/parts.md``.

    Examples
    --------
    >>> from discreet import Categories, PureDP
    >>> schema = Schema(columns={"vote": Categories(["yes", "no"])})
    >>> ProportionQuestion(schema, "vote", "yes", PureDP(0.5)).measurement.mechanism.scale
    2.0
    """

    ask: ClassVar[str] = "proportion"
    meaning: ClassVar[str] = "The share of rows with {subject}."
    forms: ClassVar[Mapping[str, Form]] = {
        "column": COLUMN,
        "label": LABEL,
        "by": COLUMNS,
        "expected_rows": WHOLE,
        "expected_share": SHARE,
        "weighted": FLAG,
    }
    schema: Schema
    column: str
    label: Label
    guarantee: Guarantee
    _: KW_ONLY
    by: str | Sequence[str] = ()
    contribution: Contribution | None = None
    expected_rows: int | None = None
    expected_share: float | None = None
    weighted: bool = False

    def _measured(self) -> Measurement:
        by = column_names(self.by)
        if self.weighted is not False:
            check_weighted(self)
        label: Any = self.label
        labels: tuple[Any, ...] = tuple(self.schema.categories(self.column).labels)
        if not isinstance(label, str | int) or label not in labels:
            raise InvalidParameter("label", label, "is not a label of the column", spelling(label, labels))
        if self.column in by:
            raise InvalidParameter("by", by, f"must not hold {self.column!r} itself", "Name another column.")
        expected = Expected(rows=self.expected_rows, mean=self.expected_share)
        # Where nothing is expected, labels are equally frequent.
        share = 1 / len(labels) if self.expected_share is None else (1 + expected.slope(0.0, 1.0, "expected_share")) / 2
        size, place = self.public_size(self.column), labels.index(label)
        if not by and size is not None:
            return self._of_public_size(place, size)
        groups = self.schema.cells(by)
        rows = self.limits(self.contribution).most_rows(groups)
        limits = Contribution(groups=1, rows=rows) if 1 in (rows, groups) else Contribution(total=rows)
        sensitivity = in_parts(limits, groups, 2, self.schema.neighbours)

        def value(counts: Any, sums: Any) -> Any:
            parts: list[Fraction] = []
            for group in np.asarray(counts).reshape(groups, len(labels)):
                yes, total = Fraction(group[place]), Fraction(group.sum())
                parts += [total - yes, yes]
            return fractions(parts)

        all_limits = None if self.schema.unit.column is None else Contribution(total=rows)

        def of_all_rows(snapshot: Snapshot) -> Any:
            selected = Selected(by=(*by, self.column), contribution=all_limits, weighted=True)
            return value(weighted_totals(snapshot, selected, 0), {})

        return Measurement(
            statistic=self.grouped(ProportionInParts(), by),
            sensitivity=sensitivity,
            mechanism=additive_noise(self.guarantee, sensitivity),
            by=(*by, self.column),
            contribution=all_limits,
            public={"weighted": True} if self.weighted else {},
            value=value,
            from_rows=of_all_rows if self.weighted else None,
            read="the share",
            forecast=lambda: Forecast(
                weights=expected.per_group(groups, (share, 1 - share)),
                worst=expected.per_group(groups, (1.0,)),
                scenario=Expected(rows=self.expected_rows).words(
                    groups, f"of which {100 * share:.3g} % have the label"
                ),
            ),
        )

    def _notes(self, found: Measurement) -> tuple[str, ...]:
        return (*super()._notes(found), *weighting_notes(self, found))

    def _of_public_size(self, place: int, size: int) -> Measurement:
        sensitivity = Sensitivity(moves=(not_below(Fraction(1, size)),))
        return Measurement(
            statistic=Proportion(n=size),
            sensitivity=sensitivity,
            mechanism=share_noise(self.guarantee, sensitivity, size),
            by=(self.column,),
            public={"n": size},
            value=lambda counts, sums: Fraction(int(counts[place]), size),
            read="the share",
        )

    def content(self) -> dict[str, Any]:
        return super().content() | {"label": self.label}
