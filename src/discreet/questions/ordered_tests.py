"""Tests of ordered columns: ranks and distributions between groups, and ranks of two columns that go together.

Public: ``session.rank_test("pay", "arm", epsilon=1.0, edges=[…])``. The groups and the bins of the column make one
table, whose release is tested; ties, heavy tails and groups of unequal size are part of the simulated null
distribution.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.schema import Bounds, Contribution, stability
from discreet.inference import ranks
from discreet.inference.noise import MonteCarlo
from discreet.inference.tables import ChiSquareResult
from discreet.mechanisms.additive import additive_noise
from discreet.questions import form
from discreet.questions.grouped import Bins, public_bins
from discreet.questions.question import (
    DEFAULT_ROWS,
    DeclaredColumns,
    MeasuredQuestion,
    Measurement,
    column_names,
    first_of,
)
from discreet.questions.tables.table import ContingencyTable, TableRelease, table_measurement
from discreet.questions.tables.tests import TableTest
from discreet.results.ledger import Ledger
from discreet.results.plan import DETECTED, Plan


@dataclass(frozen=True)
class _BinnedTable(MeasuredQuestion[TableRelease]):
    """Counts by two columns, of which numbers are in bins."""

    ask: ClassVar[str] = "table"
    meaning: ClassVar[str] = "How many {noun} fall into each cell."
    part: ClassVar[str] = "cell"
    forms: ClassVar[form.Forms] = {}
    columns: tuple[str, str]
    bins: Mapping[str, Bins]
    contribution: Contribution | None

    def content(self) -> dict[str, Any]:
        return super().content() | {"bins": {name: list(bins.edges) for name, bins in self.bins.items()}}

    def _measured(self) -> Measurement:
        if not self.bins:
            return table_measurement(self, self.columns, self.contribution)
        axes = {name: self.bins.get(name) or self.schema.categories(name).labels for name in self.columns}
        statistic = ContingencyTable(axes)
        limits = self.schema.contribution(self.contribution)
        sensitivity = stability(limits, cells=statistic.cells, neighbours=self.schema.neighbours)
        size = self.public_size(*self.columns)
        return Measurement(
            statistic=statistic,
            sensitivity=sensitivity,
            mechanism=additive_noise(self.guarantee, sensitivity, whole=True),
            by=self.columns,
            contribution=self.contribution,
            bands={name: bins.steps(self.schema.bounds(name)) for name, bins in self.bins.items()},
            public={} if size is None else {"n": size},
            value=lambda counts, sums: counts.astype(np.int64).reshape(statistic.shape),
            read="rows of a cell",
        )


@dataclass(frozen=True)
class RankTestQuestion(TableTest):
    """Test whether groups differ in the ranks of a column: Mann and Whitney for two, Kruskal and Wallis for more.

    Guarantee
    ---------
    That of the table of groups by bins; the test reads nothing but the release.
    Proof: ``docs/proofs/tests.md``.

    Parameters
    ----------
    column
        A number, or a column whose labels are declared in their order.
    by
        The groups.
    edges, bins
        Public edges of the bins of a number, or how many of one width. Bins of about equal size detect most.
    expected_rows
        Serves plans only.

    Examples
    --------
    >>> from discreet import Bounds, Categories, Schema
    >>> schema = Schema(columns={"arm": Categories(["old", "new"]), "pay": Bounds(0, 200, grid=1)})
    >>> question = RankTestQuestion(schema, "pay", "arm", epsilon=1.0, edges=[0, 20, 50, 200])
    >>> question.table.measurement.statistic.shape, question.df
    ((2, 3), 1)
    """

    topic: ClassVar[str] = "Tests and comparisons"
    answers: ClassVar[str] = "Do groups differ in the ranks of a number? For skewed numbers and outliers."
    ask: ClassVar[str] = "rank_test"
    under_design: ClassVar[bool] = False
    instead: ClassVar[str] = "Ask for homogeneity of Bands by the groups, or for means by the groups."
    also: ClassVar[tuple[str, ...]] = ("mann_whitney", "kruskal_wallis")
    heading: ClassVar[str] = "Do ranks of {subject} differ by {by}?"
    meaning: ClassVar[str] = "Whether the groups differ in the ranks of {subject}."
    detects: ClassVar[str] = "P(a row of one group exceeds one of another) − ½, by ranks"
    forms: ClassVar[form.Forms] = {
        "column": form.COLUMN, "by": form.COLUMN, "edges": form.EDGES, "bins": form.WHOLE, "expected_rows": form.WHOLE,
    }  # fmt: skip
    column: str
    by: str
    _: KW_ONLY
    edges: Sequence[float] | None = None
    bins: int | None = None

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return {**columns.number(), "by": columns.with_labels(2, 2) or first_of(columns.listed), "bins": 10}

    @property
    def cells_by(self) -> tuple[str, str]:
        return (self.by, self.column)

    @cached_property
    def table(self) -> MeasuredQuestion[TableRelease]:
        """The table that is released: groups by bins."""
        for name in ("by", "column"):
            requirements.instance(name, getattr(self, name), str, "the name of one column")
        if self.by == self.column:
            raise InvalidParameter("by", self.by, "must be another column than the one compared", "Name the groups.")
        bins = self._bins()
        binned = {} if bins is None else {self.column: bins}
        return _BinnedTable(
            self.schema, self.cells_by, binned, self.contribution, guarantee=self.guarantee, omit=self.omit
        )

    def _bins(self) -> Bins | None:
        declared = self.schema.column(self.column)
        if not isinstance(declared, Bounds):
            if self.edges is not None or self.bins is not None:
                raise InvalidParameter("bins", self.bins, "labels have an order and no bins", "Leave them out.")
            return None
        if (self.edges is None) == (self.bins is None):
            raise InvalidParameter(
                "edges", self.edges, "a number needs either edges or bins", "Pass edges=[0, 10, 20], or bins=8."
            )
        given = self.edges if self.bins is None else requirements.positive_integer("bins", self.bins)
        return public_bins("bins" if self.edges is None else "edges", declared, given)  # type: ignore[arg-type]

    @property
    def _shape(self) -> tuple[int, int]:
        bins = self._bins()
        return self.schema.cells((self.by,)), self.schema.cells((self.column,)) if bins is None else len(bins)

    def _check(self) -> None:
        if min(self._shape) < 2:
            raise InvalidParameter(
                "column", self.column, "must have two labels or bins, and two groups", "Use more of them."
            )
        if self.expected_rows is not None:
            requirements.positive_integer("expected_rows", self.expected_rows)

    @property
    def df(self) -> int:
        return self._shape[0] - 1

    def test(self, table: TableRelease, null: MonteCarlo) -> ChiSquareResult:
        return ranks.rank_test(table, null)

    def plan(self, ledger: Ledger | None = None) -> Plan:
        planned, rows = self.table.plan(ledger), self.rows_planned or DEFAULT_ROWS
        effect = self._smallest(rows, (planned.standard_error or 0.0) ** 2)
        if self._bins() is not None:  # ranks in bins differ by less than those of the numbers
            effect /= 1 - 1 / self._shape[1] ** 2
        notes = (
            f"the effect is {self.detects}",
            f"for {rows:,} rows in groups and bins of equal size",
            *_impossible(effect, 0.5),
        )
        unsaid = () if self.expected_rows else ("give expected_rows to see the effect for your number of rows",)
        return replace(planned, smallest_effect=effect, notes=notes + unsaid)

    def _smallest(self, rows: float, noise_variance: float) -> float:
        """The difference of ranks, by the labels or bins there are, that the test finds in 80 of 100 tables."""
        return ranks.smallest_rank_difference(rows, *self._shape, noise_variance)


def _impossible(effect: float, largest: float) -> tuple[str, ...]:
    """What is noted of an effect that is larger than any."""
    if effect <= largest:
        return ()
    return (f"no effect is larger than {largest:g}: with these rows and this budget the test finds hardly any",)


@dataclass(frozen=True)
class KolmogorovSmirnovQuestion(RankTestQuestion):
    """Test whether a column is distributed alike in all groups, by the largest distance of distributions.

    Guarantee and parameters are those of `RankTestQuestion`.
    """

    topic: ClassVar[str] = "Tests and comparisons"
    answers: ClassVar[str] = "Is a number distributed alike in all groups, in whatever way it might differ?"
    ask: ClassVar[str] = "kolmogorov_smirnov"
    also: ClassVar[tuple[str, ...]] = ("ks_test",)
    heading: ClassVar[str] = "Is {subject} distributed alike by {by}?"
    meaning: ClassVar[str] = "Whether {subject} is distributed alike in all groups."

    def test(self, table: TableRelease, null: MonteCarlo) -> ChiSquareResult:
        return ranks.kolmogorov_smirnov(table, null)

    def _smallest(self, rows: float, noise_variance: float) -> float:
        return ranks.smallest_distance(rows, *self._shape, noise_variance)


@dataclass(frozen=True)
class RankCorrelationQuestion(TableTest):
    """Test whether two ordered columns go together, by Spearman's correlation of their ranks.

    Guarantee
    ---------
    That of the table of both columns; the test reads nothing but the release. Proof: ``docs/proofs/tests.md``.

    Parameters
    ----------
    columns
        Two columns: numbers, or columns whose labels are declared in their order.
    bins
        For each number, the edges of its bins, or how many of one width. Four to six of about equal size detect most.
    expected_rows
        Serves plans only.

    Examples
    --------
    >>> from discreet import Bounds, Categories, Schema
    >>> schema = Schema(columns={"mood": Categories(["low", "fair", "good"]), "pay": Bounds(0, 200, grid=1)})
    >>> question = RankCorrelationQuestion(schema, ["pay", "mood"], epsilon=1.0, bins={"pay": [0, 20, 50, 200]})
    >>> question.table.measurement.statistic.shape, question.df
    ((3, 3), 1)
    """

    topic: ClassVar[str] = "Tests and comparisons"
    answers: ClassVar[str] = "Do two numbers rise and fall together, by their ranks?"
    ask: ClassVar[str] = "rank_correlation"
    under_design: ClassVar[bool] = False
    instead: ClassVar[str] = "Ask for independence of Bands of both."
    also: ClassVar[tuple[str, ...]] = ("spearman", "kendall")
    heading: ClassVar[str] = "Do {columns} go together?"
    meaning: ClassVar[str] = "Whether the ranks of the two columns go together."
    detects: ClassVar[str] = "Spearman's correlation"
    forms: ClassVar[form.Forms] = {
        "columns": form.COLUMNS,
        "bins": form.BINS,
        "expected_rows": form.WHOLE,
    }
    columns: Sequence[str]
    _: KW_ONLY
    bins: Mapping[str, int | Sequence[float]] | None = None

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return {"columns": columns.numbers[:2], "bins": dict.fromkeys(columns.numbers[:2], 5)}

    @property
    def cells_by(self) -> tuple[str, ...]:
        return column_names(self.columns, "columns")

    @cached_property
    def table(self) -> MeasuredQuestion[TableRelease]:
        """The table that is released: bins by bins."""
        if len(self.cells_by) != 2:
            raise InvalidParameter("columns", list(self.cells_by), "must be two columns", 'Pass ["age", "pay"].')
        first, second = self.cells_by
        return _BinnedTable(
            self.schema, (first, second), self._bins(), self.contribution, guarantee=self.guarantee, omit=self.omit
        )

    def _bins(self) -> dict[str, Bins]:
        given = {} if self.bins is None else self.bins
        requirements.instance("bins", given, Mapping, '{"age": [0, 18, 65, 120]}')
        numbers = [name for name in self.cells_by if isinstance(self.schema.column(name), Bounds)]
        for name in (*given, *numbers):
            if name not in numbers or name not in given:
                raise InvalidParameter(
                    "bins", list(given), f"must have bins for each number of {list(self.cells_by)}, and for no other",
                    'Pass bins={"age": 5} or bins={"age": [0, 18, 65, 120]}.',
                )  # fmt: skip
        return {name: public_bins(f"bins[{name!r}]", self.schema.bounds(name), given[name]) for name in numbers}

    def _check(self) -> None:
        if min(self._shape) < 2:
            raise InvalidParameter(
                "columns", list(self.cells_by), "must have two labels or bins each", "Use more of them."
            )
        if self.expected_rows is not None:
            requirements.positive_integer("expected_rows", self.expected_rows)

    @property
    def _shape(self) -> tuple[int, int]:
        bins = self._bins()
        first, second = (len(bins[name]) if name in bins else self.schema.cells((name,)) for name in self.cells_by)
        return first, second

    @property
    def df(self) -> int:
        return 1

    def test(self, table: TableRelease, null: MonteCarlo) -> ChiSquareResult:
        return ranks.rank_correlation(table, null)

    def plan(self, ledger: Ledger | None = None) -> Plan:
        planned, rows = self.table.plan(ledger), self.rows_planned or DEFAULT_ROWS
        noise = (planned.standard_error or 0.0) ** 2
        error = ranks.rank_correlation_error(rows, self._shape, noise)
        binned = [labels for name, labels in zip(self.cells_by, self._shape, strict=True) if name in self._bins()]
        error /= math.prod(map(ranks.kept_by_bins, binned))
        effect = DETECTED * error
        notes = (
            f"the effect is {self.detects}, for {rows:,} rows in bins of equal size",
            *_impossible(effect, 1.0),
        )
        unsaid = () if self.expected_rows else ("give expected_rows to see the effect for your number of rows",)
        return replace(planned, smallest_effect=effect, notes=notes + unsaid)
