"""Table tests: goodness of fit, homogeneity and independence, from one released table."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np

from discreet.core.door import Allowance, Claim, Passed
from discreet.core.errors import InvalidParameter
from discreet.core.rows import Snapshot
from discreet.core.schema import Contribution, Schema
from discreet.inference.design import DesignCells, product_of_margins
from discreet.inference.noise import MonteCarlo
from discreet.inference.tables import (
    ChiSquareResult,
    cell_probabilities,
    goodness_of_fit,
    homogeneity,
    independence,
    smallest_departure,
)
from discreet.mechanisms.omission.step import Omission, PoissonSample
from discreet.questions import form
from discreet.questions.design import cells_of, likely_weights
from discreet.questions.question import (
    DEFAULT_ROWS,
    DeclaredColumns,
    MeasuredQuestion,
    Question,
    column_names,
    first_of,
)
from discreet.questions.tables.table import ContingencyTable, TableQuestion, TableRelease
from discreet.results.answer import Readable
from discreet.results.display import Facts, Interval
from discreet.results.frames import Reading
from discreet.results.ledger import Ledger
from discreet.results.plan import Plan
from discreet.results.wording import verdict


@dataclass(frozen=True)
class TestedRelease(Readable):
    """A test with the release it was computed from; the test is post-processing and costs nothing more."""

    __test__ = False  # not a test case

    result: ChiSquareResult
    release: TableRelease

    @property
    def pvalue(self) -> float:
        """The p-value."""
        return self.result.pvalue

    @property
    def statistic(self) -> float:
        """The test statistic."""
        return self.result.statistic

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """The cells of the table."""
        return self.release.readings(columns)

    def population_interval(self, level: float = 0.95) -> Interval:
        """Intervals for the population's share of every cell of the table: sampling and noise together."""
        return self.release.population_interval(level)

    def margin_readings(self) -> list[Reading]:
        return self.release.margin_readings()

    def published(self) -> dict[str, Any]:
        return self.release.published()

    def verdict(self) -> Mapping[str, Any]:
        return self.result.to_dict()

    def to_dict(self) -> dict[str, Any]:
        """Both as JSON-ready data."""
        return {"result": self.result.to_dict(), "release": self.release.to_dict()}

    def heading(self) -> str:
        return str(self.words.get("heading", self.result.heading()))

    def facts(self) -> Facts:
        return [("answer", verdict(self.verdict())), *self.result.facts(), *self.release.facts()]


def require_independent_rows(schema: Schema, contribution: Contribution | None) -> None:
    """Refuse several rows of a unit: the rows of one of them need not be independent."""
    if schema.design is not None:
        if schema.unit.column is not None:
            rule = (
                "leaves rows of one cluster in several cells, whose errors depend on each other: that is not measured"
            )
            fix = "Compare shares by groups, or declare rows as units where one of each cluster was asked."
            raise InvalidParameter("design.cluster", schema.unit.column, rule, fix)
        return
    limits = schema.contribution(contribution)
    if limits.total != 1 and (limits.groups, limits.rows) != (1, 1):
        raise InvalidParameter(
            "contribution",
            limits,
            "a test needs independent rows, so at most one of each unit",
            "Pass contribution=Contribution(total=1); in a plan file, total = 1.",
        )


@dataclass(frozen=True)
class TableTest(Question[TestedRelease]):
    """A question that releases a table and tests it.

    Guarantee
    ---------
    That of the table; the test reads nothing but the release.
    """

    part: ClassVar[str] = "cell"
    under_design: ClassVar[bool] = True
    detects: ClassVar[str] = "Cohen's w"
    behind: ClassVar[type[Omission] | None] = PoissonSample  # a test needs a sample of the population
    _: KW_ONLY
    contribution: Contribution | None = None
    expected_rows: int | None = None

    def _validate(self) -> None:
        require_independent_rows(self.schema, self.contribution)
        self.table  # noqa: B018  (refuses before anything is planned or spent)
        self._check()

    @property
    @abstractmethod
    def cells_by(self) -> tuple[str, ...]:
        """Columns of the table."""

    @abstractmethod
    def test(self, table: TableRelease, null: MonteCarlo) -> ChiSquareResult:
        """The test of a released table."""

    def test_of_design(self, cells: DesignCells, null: MonteCarlo) -> ChiSquareResult:
        """The test of a table that was estimated under a design: by default, whether rows and columns are related."""
        rows, columns = (self.schema.cells((name,)) for name in self.cells_by)
        return cells.tested(self.ask, product_of_margins((rows, columns)), self.df, null)

    def _check(self) -> None:
        """Refuse what cannot be tested, before anything is spent."""
        sizes = [self.schema.cells((name,)) for name in self.cells_by]
        if len(sizes) != 2 or min(sizes) < 2:
            raise InvalidParameter(
                "columns",
                list(self.cells_by),
                "must be two columns of at least two labels each",
                "Name two such columns.",
            )

    @property
    def df(self) -> int:
        """Degrees of freedom of the hypothesis."""
        return math.prod(self.schema.cells((name,)) - 1 for name in self.cells_by)

    @cached_property
    def table(self) -> MeasuredQuestion[TableRelease]:
        """The table that is released."""
        return TableQuestion(
            self.schema, self.cells_by, guarantee=self.guarantee, omit=self.omit, contribution=self.contribution
        )

    def content(self) -> dict[str, Any]:
        # What is tested is no part of it: the stored table can be tested again, for nothing.
        return self.table.content() | {"ask": self.ask}

    def claim(self, ledger: Ledger | None) -> Claim:
        return replace(self.table.claim(ledger), question=self.content())

    def draw(self, rows: Snapshot, claim: Claim, allowance: Allowance, passed: Passed) -> TestedRelease:
        return self._tested(self.table.draw(rows, claim, allowance, passed))

    def write(self, answer: TestedRelease) -> Any:
        return answer.release.to_dict()

    def read(self, stored: Any) -> TestedRelease:
        return self._tested(self.table.read(stored))

    def _tested(self, table: TableRelease) -> TestedRelease:
        # The release fixes the simulations, so that its test says the same whenever it is asked.
        null = MonteCarlo(rng=int(table.release_id[:12], 16))
        if self.schema.design is not None:
            return TestedRelease(self.test_of_design(cells_of(cast(Any, table)), null), table)
        return TestedRelease(self.test(table, null), table)

    def plan(self, ledger: Ledger | None = None) -> Plan:
        planned = self.table.plan(ledger)
        rows = self.rows_planned or DEFAULT_ROWS
        heavy, share = (1.0, 1.0) if self.schema.design is None else likely_weights(self.schema.design)
        effect = smallest_departure(
            df=self.df,
            cells=self.schema.cells(self.cells_by),
            n=max(round(rows * share), 1),
            noise_variance=((planned.standard_error or 0.0) / heavy) ** 2,
        )
        notes = (f"the effect is {self.detects}, for {rows:,} rows in cells of equal size",)
        unsaid = () if self.expected_rows else ("give expected_rows to see the effect for your number of rows",)
        return replace(planned, smallest_effect=effect, notes=notes + unsaid)


@dataclass(frozen=True)
class GoodnessOfFitQuestion(TableTest):
    """Test whether the labels of a column have given shares; releases the table and tests it."""

    topic: ClassVar[str] = "Tests and comparisons"
    answers: ClassVar[str] = "Do labels occur in the proportions that you expect?"
    ask: ClassVar[str] = "goodness_of_fit"
    heading: ClassVar[str] = "Is {subject} distributed as expected?"
    meaning: ClassVar[str] = "Whether the shares are those expected."
    forms: ClassVar[form.Forms] = {
        "column": form.COLUMN,
        "probabilities": form.SHARES,
        "expected_rows": form.WHOLE,
    }
    column: str
    probabilities: Sequence[float]

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        found = columns.label()["column"]
        cells = len(columns.labels.get(found, []))
        each = round(1 / cells, 3) if cells else 0.0  # three digits; the last one makes them add up to one
        even = [each] * (cells - 1) + [round(1 - each * (cells - 1), 3)] if cells else []
        return {"column": found, "probabilities": even}

    @property
    def cells_by(self) -> tuple[str, ...]:
        return (self.column,)

    def _check(self) -> None:
        cell_probabilities(self.probabilities, self.schema.cells(self.cells_by))

    def test(self, table: TableRelease, null: MonteCarlo) -> ChiSquareResult:
        return goodness_of_fit(table, self.probabilities, null=null)

    def test_of_design(self, cells: DesignCells, null: MonteCarlo) -> ChiSquareResult:
        shares = cell_probabilities(self.probabilities, cells.weights.size)
        return cells.tested("goodness of fit", lambda tables: tables.sum(axis=-1)[..., None] * shares, self.df, null)


@dataclass(frozen=True)
class HomogeneityQuestion(TableTest):
    """Test whether the labels of a column are distributed alike in all groups."""

    topic: ClassVar[str] = "Tests and comparisons"
    answers: ClassVar[str] = "Are labels distributed alike in all groups?"
    ask: ClassVar[str] = "homogeneity"
    also: ClassVar[tuple[str, ...]] = ("chi_square", "chi2")
    heading: ClassVar[str] = "Does {subject} differ by {by}?"
    meaning: ClassVar[str] = "Whether the groups are alike."
    forms: ClassVar[form.Forms] = {
        "column": form.COLUMN,
        "by": form.COLUMN,
        "expected_rows": form.WHOLE,
    }
    column: str
    by: str

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return {"column": first_of(columns.listed), "by": first_of(columns.listed, 1)}

    @property
    def cells_by(self) -> tuple[str, ...]:
        return column_names((self.by, self.column))

    def test(self, table: TableRelease, null: MonteCarlo) -> ChiSquareResult:
        return homogeneity(_groups(table), null=null)


@dataclass(frozen=True)
class IndependenceQuestion(TableTest):
    """Test whether two columns of labels are independent."""

    topic: ClassVar[str] = "Tests and comparisons"
    answers: ClassVar[str] = "Are two columns of labels related?"
    ask: ClassVar[str] = "independence"
    heading: ClassVar[str] = "Are {columns} related?"
    meaning: ClassVar[str] = "Whether the two columns are independent."
    forms: ClassVar[form.Forms] = {"columns": form.COLUMNS, "expected_rows": form.WHOLE}
    columns: Sequence[str]

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return {"columns": columns.listed[:2]}

    @property
    def cells_by(self) -> tuple[str, ...]:
        return column_names(self.columns, "columns")

    def test(self, table: TableRelease, null: MonteCarlo) -> ChiSquareResult:
        return independence(table, null=null)


def _groups(table: TableRelease) -> list[TableRelease]:
    """One release per row of a two-way table: the groups of a test of homogeneity."""
    column = table.table.axes[1]
    one = ContingencyTable({column: table.table.columns[column]})
    values = np.asarray(table.value)
    parts = [None] * len(values) if table.measurement is None else list(np.asarray(table.measurement))
    return [
        replace(table, value=value, measurement=part, statistic=one, public={})
        for value, part in zip(values, parts, strict=True)
    ]
