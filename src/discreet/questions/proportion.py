"""Proportion: the share of rows with a property, over a public or a protected number of rows."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.columns import Label
from discreet.core.errors import InvalidParameter, WrongType, spelling
from discreet.core.noise.sampler import Floats, plain
from discreet.core.numbers import MAX_ROWS, not_below
from discreet.core.protection import Neighbours
from discreet.core.rows import Selected, Snapshot, all_row_totals
from discreet.core.schema import Contribution, in_parts
from discreet.core.sensitivity import Sensitivity
from discreet.inference.moments import Binomial, ReleaseLaw, measured_coordinate
from discreet.mechanisms.additive import additive_noise
from discreet.mechanisms.bounded.proportions import BoundedProportions
from discreet.mechanisms.tables.post_processed import onto_simplex
from discreet.mechanisms.whole_share import share_noise
from discreet.questions import form
from discreet.questions.bounded import (
    OUTPUTS,
    Domain,
    PublicSizeRelease,
    PublicSizeStatistic,
    kept_inside,
    output_notes,
)
from discreet.questions.count import flags, labelled
from discreet.questions.design import design_measurement, no_design_for
from discreet.questions.moments import BernsteinMoments, MomentReading, all_rows_notes, check_all_rows
from discreet.questions.question import (
    DeclaredColumns,
    Expected,
    Forecast,
    MeasuredQuestion,
    Measurement,
    column_names,
    fractions,
)
from discreet.results.display import Facts, Interval
from discreet.results.frames import Reading
from discreet.results.printed import told_numbers
from discreet.results.release import Release


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
    concluded_from_measured: ClassVar[bool] = True
    n: int | None = None

    def shown_value(self, value: Floats) -> Floats:
        return plain(np.clip(value, 0.0, 1.0))

    def shown_interval(self, low: Floats, high: Floats, shown: Floats) -> tuple[Floats, Floats]:
        # The truth is a proportion, so nothing is lost; what is shown stays inside.
        return min(plain(np.clip(low, 0.0, 1.0)), shown), max(plain(np.clip(high, 0.0, 1.0)), shown)

    def sampling_model(self, released: PublicSizeRelease) -> Binomial:  # type: ignore[override]  # nothing is unknown
        """Binomial with the public n."""
        return Binomial(n=released.n)

    def domain(self, n: int | None = None) -> Domain:
        return 0.0, 1.0

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Sensitivity:
        return Sensitivity(moves=(not_below(Fraction(1, self.require_n_between(n, neighbours))),))

    def value(self, data: Any) -> Fraction:
        yes = flags(data)
        rows = requirements.positive_integer("rows", yes.size)
        return Fraction(int(np.count_nonzero(yes)), rows)


# ---- Proportion vector: the shares of public categories.


@dataclass(frozen=True, kw_only=True)
class ProportionVector(PublicSizeStatistic):
    """The share of rows in each of K public categories.

    **Guarantee.** Replace-one: a row moves between two categories, so two coordinates change by 1/n each
    (ℓ₁ = 2/n). Add/remove with n declared public: the counts are divided by the *declared* n, so one coordinate
    changes by 1/n (ℓ₁ = 1/n), whatever the number of rows (liu2019 D).

    Parameters
    ----------
    categories
        Every public category, in the order of the value.
    n
        The public number of rows; needed under add/remove, taken from the data under replace-one.

    Examples
    --------
    >>> shares = ProportionVector(categories=("a", "b", "c"))
    >>> [str(x) for x in shares.value(["a", "c", "c", "a"])]
    ['1/2', '0', '1/2']
    >>> shares.sensitivity(n=100, neighbours=Neighbours.REPLACE_ONE).l1
    0.02
    """

    name: ClassVar[str] = "proportion_vector"
    categories: tuple[Any, ...]
    n: int | None = None

    def __post_init__(self) -> None:
        categories = tuple(requirements.instance("categories", self.categories, (tuple, list), '("a", "b")'))
        if not all(isinstance(category, Hashable) for category in categories):
            raise WrongType("categories", categories, "must be plain labels", 'Pass texts or numbers: ("a", "b").')
        if len(categories) < 2 or len(set(categories)) != len(categories):
            raise InvalidParameter(
                "categories", categories, "must be at least two distinct labels", "List every public category once."
            )
        object.__setattr__(self, "categories", categories)
        super().__post_init__()

    @property
    def dimension(self) -> int:
        """Number of categories K."""
        return len(self.categories)

    @classmethod
    def release_type(cls) -> type[Release]:
        return ProportionVectorRelease

    def domain(self, n: int | None = None) -> Domain:
        return np.zeros(self.dimension), np.ones(self.dimension)

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Sensitivity:
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.REPLACE_ONE")
        share = not_below(Fraction(1, self.require_n(n)))
        moves = (share, share) if neighbours is Neighbours.REPLACE_ONE else (share,)
        return Sensitivity(moves=moves, dimension=self.dimension)

    def value(self, data: Any) -> Any:
        labels = labelled(data)
        if labels.ndim != 1:
            raise WrongType("data", f"shape {labels.shape}", "must have one dimension", "Pass one column.")
        rows = requirements.positive_integer("rows", labels.size)
        if rows > MAX_ROWS:
            raise InvalidParameter("data", f"{rows} rows", "has more than 2³⁰ rows", "Count in parts.")
        counts = [int(np.count_nonzero(labels == category)) for category in self.categories]
        if sum(counts) != rows:
            raise InvalidParameter(
                "data", "…", f"must hold only {list(self.categories)}", "List every category, or recode the rest."
            )
        return fractions([Fraction(count, self.n or rows) for count in counts])


@dataclass(frozen=True)
class ProportionVectorRelease(Release):
    """A released vector of proportions."""

    def _of(self) -> ProportionVector:
        return cast(ProportionVector, self.statistic)

    @property
    def shares(self) -> dict[Any, float]:
        """The released proportions by category."""
        return dict(zip(self._of().categories, np.asarray(self.value, dtype=float).tolist(), strict=True))

    @property
    def projected(self) -> NDArray[np.float64]:
        """The nearest vector of proportions: not negative, with sum 1 (post-processing)."""
        return onto_simplex(np.asarray(self.value, dtype=float), 1.0)

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """The share of every category."""
        head = columns[0] if columns else "category"
        return [
            replace(one, label=str(category), labels={head: category}, measure="proportion")
            for one, category in zip(super().readings(columns), self._of().categories, strict=True)
        ]

    def facts(self) -> Facts:
        """The facts to show: the shares, the number of rows, the protection."""
        told = told_numbers(self.told_readings())
        return [*told, ("rows", f"{self._of().require_n(None):,}"), *self.protection_facts()]

    def population_interval(self, level: float = 0.95, *, category: Any = None) -> Interval:
        """Interval for the population's share of a category, or of each: binomial sampling and the noise together."""
        checked = requirements.level(level)
        categories = self._of().categories
        if category is None:
            ends = [tuple(self.population_interval(level, category=one)) for one in categories]
            low, high = np.array(ends, dtype=float).T
            return Interval(low, high, checked)
        if category not in categories:
            raise InvalidParameter("category", category, f"must be one of {list(categories)}", "Check the spelling.")
        value, mechanism = measured_coordinate(self.mechanism, self.measured, categories.index(category))
        law = ReleaseLaw(model=Binomial(n=self._of().require_n(None)), mechanism=mechanism)
        return law.interval(value, checked)


ShareReading = MomentReading | ProportionVectorRelease
"""The measurements that shares are read from: counts, one share, or without a label the shares of all."""

_COUNTS = BernsteinMoments(bounds=((0.0, 1.0),), degrees=(1,), of="proportion")
"""Counts of no and yes: the mean of zeros and ones."""


@dataclass(frozen=True)
class ProportionQuestion(MeasuredQuestion[ShareReading]):
    """Proportion of rows with a label, in all or by group.

    The value per group is (noes, yeses): a row moves one of them by one, as `BernsteinMoments` of 0 and 1. A unit's
    rows are limited in all, whatever their label: a limit per cell would keep labels, not rows, at random.

    Guarantee
    ---------
    Where the number of rows is public, a replaced row moves the proportion by at most 1/n. Else a row moves the two
    counts by one in all: ``docs/proofs/parts.md``. ``output`` is as of `MeanQuestion`. Without a ``label`` the shares
    of all labels are asked for, which add up to one: as `BoundedProportions`, of `ProportionVector`.

    Examples
    --------
    >>> from discreet import Categories, Schema
    >>> schema = Schema(columns={"vote": Categories(["yes", "no"])})
    >>> ProportionQuestion(schema, "vote", "yes", epsilon=0.5).measurement.mechanism.scale
    2.0
    """

    topic: ClassVar[str] = "Counts and shares"
    answers: ClassVar[str] = "What proportion of rows has one label: yes, employed, north?"
    ask: ClassVar[str] = "proportion"
    also: ClassVar[tuple[str, ...]] = ("share", "percentage", "rate")
    heading: ClassVar[str] = "Share of {noun} with {subject}"
    meaning: ClassVar[str] = "The share of {noun} with {subject}."
    forms: ClassVar[form.Forms] = {
        "column": form.COLUMN,
        "label": form.LABEL,
        "by": form.COLUMNS,
        "expected_rows": form.WHOLE,
        "expected_proportion": form.SHARE,
        "all_rows": form.FLAG,
        "output": form.METHOD,
    }
    ways: ClassVar[Mapping[str, tuple[Any, ...]]] = {"output": (*OUTPUTS, "all_but_one", "universal_histogram")}
    under_design: ClassVar[bool] = True
    column: str
    label: Label | None = None
    _: KW_ONLY
    by: str | Sequence[str] = ()
    contribution: Contribution | None = None
    expected_rows: int | None = None
    expected_proportion: float | None = None
    all_rows: bool = False
    output: str | None = None

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return columns.label()

    def _measured(self) -> Measurement:
        by = column_names(self.by)
        if self.all_rows is not False and self.schema.design is None:
            check_all_rows(self)
        label: Any = self.label
        labels: tuple[Any, ...] = tuple(self.schema.categories(self.column).labels)
        if label is None and self.schema.design is None:
            return self._of_every_label(labels, by)
        if label is None or not isinstance(label, str | int) or label not in labels:
            raise InvalidParameter("label", label, "is not a label of the column", spelling(label, labels))
        if self.column in by:
            raise InvalidParameter("by", by, f"must not hold {self.column!r} itself", "Name another column.")
        place = labels.index(label)
        if self.schema.design is not None:
            no_design_for(self, "contribution", "all_rows", "output", "expected_proportion")
            return design_measurement(
                self, "proportion", by, value=self.column, label=place, expected_rows=self.expected_rows,
                read="the share",
            )  # fmt: skip
        expected = Expected(rows=self.expected_rows, mean=self.expected_proportion)
        # Where nothing is expected, labels are equally frequent.
        share = (
            1 / len(labels)
            if self.expected_proportion is None
            else (1 + expected.slope(0.0, 1.0, "expected_proportion")) / 2
        )
        size = self.public_size(self.column)
        alone = None if by else size
        if self.output is not None:
            return kept_inside(self, alone, lambda size: self._of_public_size(place, size))
        if alone is not None:
            return self._of_public_size(place, alone)
        groups = self.schema.cells(by, "by")
        rows = self.schema.contribution(self.contribution).most_rows(groups)
        limits = Contribution(groups=1, rows=rows) if 1 in (rows, groups) else Contribution(total=rows)
        sensitivity = in_parts(limits, groups, 2, self.schema.neighbours)

        def value(counts: Any, sums: Any) -> Any:
            parts: list[Fraction] = []
            for group in np.asarray(counts).reshape(groups, len(labels)):
                yes, total = Fraction(group[place]), Fraction(group.sum())
                parts += [total - yes, yes]
            return fractions(parts)

        all_limits = None if self.schema.unit_is_row else Contribution(total=rows)

        def of_all_rows(snapshot: Snapshot) -> Any:
            selected = Selected(by=(*by, self.column), contribution=all_limits, all_rows=True)
            return value(all_row_totals(snapshot, selected, 0), {})

        return Measurement(
            statistic=self.grouped(_COUNTS, by),
            sensitivity=sensitivity,
            mechanism=additive_noise(self.guarantee, sensitivity),
            by=(*by, self.column),
            contribution=all_limits,
            public={"all_rows": True} if self.all_rows else {},
            value=value,
            from_rows=of_all_rows if self.all_rows else None,
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
        if self.schema.design is not None:
            return super()._notes(found)
        told = () if self.label is None else output_notes(self, found)
        return (*super()._notes(found), *all_rows_notes(self, found), *told)

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

    def _of_every_label(self, labels: tuple[Any, ...], by: Sequence[str]) -> Measurement:
        """The shares of all labels, brought to add up to one (liu2019 section 4.2)."""
        size = None if by else self.public_size(self.column)
        if size is None:
            rule = "is needed, unless the number of rows is public and there are no groups"
            fix = f"Name one of {list(labels)}, or ask for table({self.column!r})."
            raise InvalidParameter("label", None, rule, fix)
        output = "simplex" if self.output is None else requirements.one_of("output", self.output, [*SHARES])
        of = ProportionVector(categories=labels, n=size)
        sensitivity = of.sensitivity(neighbours=Neighbours.REPLACE_ONE)
        mechanism = BoundedProportions.calibrate(self.guarantee, sensitivity, **SHARES[output])
        return Measurement(
            statistic=of,
            sensitivity=sensitivity,
            mechanism=mechanism,
            by=(self.column,),
            public={"n": size},
            value=lambda counts, sums: fractions([Fraction(int(count), size) for count in counts]),
            read="a share",
            forecast=cache(lambda: _forecast_of_shares(mechanism)),
        )

    def content(self) -> dict[str, Any]:
        return super().content() | {"label": self.label}


SHARES: Mapping[str, Mapping[str, Any]] = {
    "simplex": {"method": "simplex"},
    "bounded": {"method": "rescale", "noise": "bounded"},
    "inflated": {"method": "rescale", "noise": "inflated"},
    "all_but_one": {"method": "all_but_one", "noise": "inflated"},
    "universal_histogram": {"method": "universal_histogram", "noise": "inflated"},
}
"""Outputs of the shares of all labels: the nearest ones that add up to one, and the ways of liu2019 section 4.2."""
_DRAWS = 4000


def _forecast_of_shares(mechanism: BoundedProportions) -> Forecast:
    """Bias and mean squared error of a share by draws, where labels are equally frequent and where one has all rows."""
    size = mechanism.categories
    moved = []
    for place, truth in enumerate([np.full(size, 1 / size), *np.eye(size)[[0, -1]]]):
        moved.append(mechanism.simulate(truth, _DRAWS, rng=place) - truth)
    squared = [float((one**2).mean()) for one in moved]
    return Forecast(
        error=lambda level: float(np.max(mechanism.error(level))),
        scenario="of labels that are equally frequent, or of which one has all rows",
        bias=max(float(np.abs(one.mean(axis=0)).max()) for one in moved),
        squares=(float(np.mean(squared)), max(squared)),
        ends=(0.0, 1.0),
    )
