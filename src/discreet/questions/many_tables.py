"""Many tables: the question of several tables in one release, which add up.

Public: ``session.tables([["region"], ["region", "age"]], guarantee)``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from discreet.core import requirements
from discreet.core.columns import MOST_CELLS
from discreet.core.errors import InvalidParameter, NoConversion, WrongType
from discreet.core.guarantee import Guarantee
from discreet.core.protection import Neighbours
from discreet.core.schema import Bounds, Contribution, Schema
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.tables.direct_margins import MarginsGaussian, MarginsLaplace
from discreet.mechanisms.tables.margins_noise import Accuracy, MarginsNoise, Workload
from discreet.questions.forms import BINS, COLUMN, FLAG, TABLES, WEIGHTS, WHOLE, Form
from discreet.questions.margins import Margins, MarginsRelease, Weights
from discreet.questions.measured_margins import MOST_PRESENTED
from discreet.questions.question import Forecast, MeasuredQuestion, Measurement
from discreet.questions.table_axes import Bins, public_bins

__all__ = ["TablesQuestion"]

_BLOCK_CELLS = 2**14
"""Tables that are counted together may have so many cells."""


@dataclass(frozen=True)
class TablesQuestion(MeasuredQuestion[MarginsRelease]):
    """Several tables in one release: they add up, and so do all of their margins.

    Guarantee
    ---------
    That of `MarginsGaussian`, or of `MarginsLaplace` under a pure guarantee, for the rows that a unit keeps. Proof:
    ``docs/proofs/margins.md``.

    Parameters
    ----------
    tables
        Lists of columns; the empty list is the total.
    weights
        Of the mean squared error of each table: ``"tables"`` (all alike), ``"cells"`` (by size), or numbers.
    accuracy
        Whether the weighted ``"sum"`` or the ``"largest"`` of these errors is made least.
    mean_of
        A number whose mean in every cell is measured with half of the budget.
    public_total
        The number of rows, where it is known without the data.
    impossible
        Cells that cannot have rows (see `hierarchy`).
    bins
        For each number that a table names, the edges of its bins, or how many.
    presented
        Whether counts are to be presented whole and adding up. False allows tables of three columns and more where all
        columns together make too many combinations for that: their counts are then measurements alone.

    Examples
    --------
    >>> from discreet import Bounds, Categories, GaussianDP, Schema
    >>> schema = Schema(columns={"sex": Categories(["f", "m"]), "age": Categories(["young", "old"])})
    >>> round(TablesQuestion(schema, [["sex"], ["sex", "age"]], GaussianDP(1.0)).plan().expected_error, 3)
    2.358
    >>> schema = schema.declaring(age=Bounds(0, 120, grid=1))
    >>> by_age = TablesQuestion(schema, [["sex", "age"]], GaussianDP(1.0), bins={"age": [0, 18, 65, 120]})
    >>> by_age.measurement.statistic.columns["age"]
    ('[0, 18)', '[18, 65)', '[65, 120]')
    """

    ask: ClassVar[str] = "tables"
    meaning: ClassVar[str] = "How many rows fall into each cell of several tables, which add up."
    part: ClassVar[str] = "cell"
    forms: ClassVar[Mapping[str, Form]] = {
        "tables": TABLES,
        "weights": WEIGHTS,
        "accuracy": Form(lambda value: value in ("sum", "largest"), '"sum" or "largest"'),
        "mean_of": COLUMN,
        "public_total": WHOLE,
        "impossible": Form(
            lambda value: isinstance(value, list) and all(isinstance(one, dict) and one for one in value),
            'a list of cells, such as [{ age = "child", status = "married" }]',
        ),
        "bins": BINS,
        "presented": FLAG,
    }
    schema: Schema
    tables: Sequence[str | Sequence[str]]
    guarantee: Guarantee
    _: KW_ONLY
    weights: Weights = "tables"
    accuracy: Accuracy = "sum"
    mean_of: str | None = None
    public_total: int | None = None
    impossible: Sequence[Mapping[str, Any]] = ()
    bins: Mapping[str, int | Sequence[float]] | None = None
    presented: bool = True
    contribution: Contribution | None = None

    def columns_read(self) -> tuple[str, ...]:
        return (*self.measurement.by, *self.measurement.columns)

    def content(self) -> dict[str, Any]:
        weights = self.weights if isinstance(self.weights, str) else list(self.weights)
        edges = {name: list(bins.edges) for name, bins in self._bins().items()}
        return super().content() | {"weights": weights, "accuracy": self.accuracy, "bins": edges}

    def _measured(self) -> Measurement:
        schema, mean_of = self.schema, self.mean_of
        wanted = _lists_of_names(self.tables)
        columns = self._columns(wanted)
        size = self.public_size(*columns, *([] if mean_of is None else [mean_of]))
        statistic = Margins(
            columns=columns,
            tables=wanted,
            total=self.public_total if size is None else size,
            summed=_summed(schema, mean_of),
            impossible=self.impossible,
        )
        cells = math.prod(statistic.sizes)
        self._check_presented(wanted, cells)
        if cells > MOST_CELLS and schema.unit.column is not None:
            raise InvalidParameter(
                "tables", f"{cells:,} combinations of labels",
                f"are too many to limit what one {schema.unit.name} contributes: at most {MOST_CELLS:,}",
                "Ask for tables of fewer columns at a time, or merge labels.",
            )  # fmt: skip
        rows = schema.contribution(self.contribution).most_rows(cells)
        sensitivity = statistic.sensitivity(schema.neighbours, rows_per_unit=rows)
        workload, replaced = (
            statistic.workload(self.weights, self.accuracy),
            schema.neighbours is Neighbours.REPLACE_ONE,
        )
        mechanism = margins_noise(self.guarantee, sensitivity, workload, replaced=replaced)
        errors = [mechanism.standard_error(statistic.axes(table)) for table in statistic.tables]
        return Measurement(
            statistic=statistic,
            sensitivity=sensitivity,
            mechanism=mechanism,
            by=tuple(columns),
            columns=() if mean_of is None else (mean_of,),
            products=() if mean_of is None else ((mean_of,),),
            bands={name: bins.steps(schema.bounds(name)) for name, bins in self._bins().items()},
            contribution=self.contribution,
            public={} if statistic.total is None else {"n": statistic.total},
            blocks=(tuple(columns),) if cells <= MOST_CELLS else _blocks(columns, statistic.tables),
            from_blocks=lambda found: statistic.stacked_from(
                {names: (one.counts, one.sums.get((str(mean_of),))) for names, one in found.items()}
            ),
            read="rows of a cell, worst table",
            forecast=lambda: Forecast(error=lambda level: mechanism.reach(level) * max(errors)),
        )

    def _columns(self, wanted: list[list[str]]) -> dict[str, tuple[Any, ...]]:
        """Labels of every column that a table names, in the order of the schema."""
        used = [name for name in self.schema.columns if any(name in table for table in wanted)]
        unknown = [name for table in wanted for name in table if name not in used]
        bins = self._bins()
        for name in bins:
            if name not in used or name == self.mean_of:
                raise InvalidParameter(
                    "bins", name, "must be a number that a table names, and not the one whose mean is taken",
                    "Leave its bins out, or ask for the mean by itself.",
                )  # fmt: skip
        for name in used:
            if isinstance(self.schema.column(name), Bounds) and name not in bins:
                raise InvalidParameter(
                    "tables",
                    name,
                    "is a number, so it needs bins",
                    f"Pass bins={{{name!r}: [0, 10, 20]}} or bins={{{name!r}: 5}}.",
                )
        columns = {
            name: bins[name].names() if name in bins else self._labels((name,))[name] for name in (*used, *unknown)
        }
        for name, labels in columns.items():
            if len(labels) < 2:
                raise InvalidParameter("tables", name, "has only one label", f"Leave {name!r} out of the tables.")
        return columns

    def _bins(self) -> dict[str, Bins]:
        given = requirements.instance(
            "bins", {} if self.bins is None else self.bins, Mapping, '{"age": [0, 18, 65, 120]}'
        )
        return {name: public_bins(f"bins[{name!r}]", self.schema.bounds(name), edges) for name, edges in given.items()}

    def _check_presented(self, wanted: Sequence[Sequence[str]], cells: int) -> None:
        """Beyond some size, counts that add up are found for tables of at most two columns, all cells possible."""
        requirements.instance("presented", self.presented, bool, "True or False")
        if not self.presented or cells <= MOST_PRESENTED:
            return
        if max(map(len, wanted)) > 2 or self.impossible:
            raise InvalidParameter(
                "tables", f"{cells:,} combinations of labels",
                "are too many to present whole counts that add up, in tables of three columns or with impossible "
                f"cells: at most {MOST_PRESENTED:,}",
                "Ask for fewer columns at a time, for tables of at most two columns, or for measurements alone with "
                "presented=False.",
            )  # fmt: skip


def margins_noise(
    guarantee: Guarantee, sensitivity: Sensitivity, workload: Workload, *, replaced: bool = False
) -> MarginsNoise:
    """The noise that makes the wanted tables most accurate: only Laplace noise meets a pure guarantee.

    Under (ε, δ) the accuracy asked for decides; a guarantee that allows both never gets the worse.
    """
    calibrated: list[MarginsNoise] = []
    for kind in (MarginsGaussian, MarginsLaplace):
        try:
            calibrated.append(kind.calibrate(guarantee, sensitivity, workload=workload, replaced=replaced))
        except NoConversion as refusal:
            last = refusal
    if not calibrated:
        raise last

    def error(noise: MarginsNoise) -> float:
        pairs = zip(workload.weights, workload.tables, strict=True)
        errors = [weight * noise.standard_error(table) ** 2 for weight, table in pairs]
        return sum(errors) if workload.accuracy == "sum" else max(errors)

    return min(calibrated, key=error)


def _blocks(columns: Mapping[str, Any], tables: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """Sets of columns that hold all tables: few, so that rows are passed few times, and of few cells each."""
    left = {frozenset(table) for table in tables}
    blocks = []
    while left:
        widest: frozenset[str] = max(left, key=lambda table: (len(table), sorted(table)))
        block = set(widest)
        while True:
            cells = math.prod(len(columns[name]) for name in block)
            room = [name for name in columns if name not in block and cells * len(columns[name]) <= _BLOCK_CELLS]
            gains = {name: sum(table <= block | {name} and name in table for table in left) for name in room}
            best = max(room, key=lambda name: gains[name], default=None)
            if best is None or gains[best] == 0:
                break
            block.add(best)
        left = {table for table in left if not table <= block}
        blocks.append(tuple(name for name in columns if name in block))
    return tuple(blocks)


def _lists_of_names(tables: Any) -> list[list[str]]:
    listed = isinstance(tables, Sequence) and not isinstance(tables, str)
    wanted: list[Any] = [[table] if isinstance(table, str) else table for table in tables] if listed else [None]
    if not all(isinstance(one, Sequence) and all(isinstance(name, str) for name in one) for one in wanted):
        raise WrongType("tables", tables, "must be a list of tables", 'Pass [["region"], ["region", "age"]].')
    return [list(one) for one in wanted]


def _summed(schema: Schema, column: str | None) -> tuple[str, int, int, str] | None:
    if column is None:
        return None
    bounds = schema.bounds(column)
    return column, bounds.lowest, bounds.highest, str(bounds.step)
