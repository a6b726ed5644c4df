"""Snapshot: the rows of a data set, read once and encoded as the schema declares.

A source may give other rows at every scan: a view over ``random()``, a file that grows, a Spark plan that is computed
again. So a session reads its source once, at its first question, and answers every question from what was read then.
What is stored is already encoded, so no two questions can read a value in two ways.
"""

from __future__ import annotations

import operator
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import TYPE_CHECKING, Any, cast

from discreet.core.columns import EPOCH, Bounds, Categories, Column, Dates, RowExpression, Term, label_of
from discreet.core.errors import SourceError
from discreet.core.protection import Neighbours
from discreet.core.rows import engines, expressions
from discreet.core.rows.read import LARGEST_WHOLE_FLOAT, Dataset
from discreet.core.schema import Bands, Design, Schema

if TYPE_CHECKING:
    import ibis.expr.types as ir


# ---- Computed: a formula as an expression over the encoded columns of one row
#
# Every operation is total. What has no value (a missing operand, a division by zero, the logarithm of a negative
# number)
# is missing; a comparison with a missing value is neither true nor false, and a row is kept only where a condition is
# true.


_SIGNS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "+": operator.add, "-": operator.sub, "*": operator.mul, "and": operator.and_, "or": operator.or_,
}  # fmt: skip
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def computed(term: Term, encoded: Mapping[str, Any], columns: Mapping[str, Column]) -> Any:
    """The value of a checked formula: a float, a day's number or a truth value.

    Parameters
    ----------
    encoded
        For each column that the formula names, its code or grid step.
    columns
        What is declared of them.
    """
    import ibis

    def value(part: Term) -> Any:
        return computed(part, encoded, columns)

    parts = term.parts
    if term.op == "number":
        return ibis.literal(parts[0], type="float64")
    if term.op == "date":
        return ibis.literal(parts[0].toordinal() - EPOCH.toordinal(), type="int64")
    if term.op == "column":
        return _decoded(encoded[parts[0]], columns[parts[0]])
    if term.op in ("and", "or"):
        return _SIGNS[term.op](value(parts[0]), value(parts[1]))
    if term.op == "not":
        return as_number(value(parts[0])) == 0
    if term.op == "missing":
        plain = encoded[parts[0].parts[0]] if parts[0].op == "column" else as_number(_known(value(parts[0])))
        return plain.isnull()
    if term.op in ("compare", "in"):
        return _compared(term, encoded, columns)
    if term.op == "negative":
        return -value(parts[0])
    if term.op == "arithmetic":
        left, right = (value(part).cast("float64") for part in parts[1:])
        return left / (right == 0).ifelse(None, right) if parts[0] == "/" else _SIGNS[parts[0]](left, right)
    return _called(parts[0], [value(part) for part in parts[1:]])


def as_number(value: Any) -> Any:
    """A truth value as 1 or 0: comparisons and NOT lose their brackets before IS NULL on some engines."""
    return value.cast("int8") if value.type().is_boolean() else value


def _decoded(step: Any, declared: Column) -> Any:
    """A label's text, or the number of a grid step: the double nearest to the decimal, as numbers of formulas are."""
    if isinstance(declared, Dates):
        return expressions.days_of(step.cast("int64"), declared)
    if isinstance(declared, Bounds):
        return _number(step.cast("int64"), declared)
    if isinstance(declared, Categories):
        return step == declared.labels.index(True) if isinstance(declared.labels[0], bool) else _spelled(step, declared)
    return step.cast("string")


def _number(step: Any, declared: Bounds) -> Any:
    """The number of a grid step. Products stay in 64 bits, or in floats, which have no largest whole number."""
    numerator, denominator = declared.step.numerator, declared.step.denominator
    if declared.reach * numerator <= LARGEST_WHOLE_FLOAT and denominator <= LARGEST_WHOLE_FLOAT:
        return (step * numerator).cast("float64") / denominator
    return step.cast("float64") * declared.grid


def _spelled(code: Any, labels: Categories) -> Any:
    """The text of a label's code, from a table: a chain of 20,000 cases takes minutes."""
    import ibis
    import pyarrow as pa

    texts = pa.array([str(label) for label in labels.labels], pa.string())
    known = ibis.memtable(pa.table({"label": texts, "code": pa.array(range(labels.cells), pa.int64())}))
    return known.filter(known.code == code).label.max().as_scalar()


def _compared(term: Term, encoded: Mapping[str, Any], columns: Mapping[str, Column]) -> Any:
    sign, *parts = term.parts if term.op == "compare" else ("==", *term.parts)
    if parts[0].op != "column" and parts[1].op == "column":
        parts[:2], sign = [parts[1], parts[0]], _FLIPPED.get(sign, sign)
    declared = columns[parts[0].parts[0]] if parts[0].op == "column" else None
    if isinstance(declared, Categories):
        labels = list(declared.labels)
        left = encoded[parts[0].parts[0]]
        rights = [labels.index(label_of(part)) for part in parts[1:]]
    else:
        left, *rights = (_known(computed(part, encoded, columns)) for part in parts)
    found = _SIGNS[sign](left, rights[0])
    for right in rights[1:]:
        found = found | (left == right)
    return found


def _known(value: Any) -> Any:
    """Without NaN, which arithmetic passes on: an engine repeats what is asked twice, at every step twice as much."""
    return value.isnan().ifelse(None, value) if value.type().is_floating() else value


def _called(name: str, values: list[Any]) -> Any:
    first = values[0]
    if name == "indicator":
        return as_number(first)
    if name == "abs":
        return first.abs()
    if name == "log1p":
        return (first + 1 > 0).ifelse(first + 1, None).ln()
    if name == "sqrt":
        return (first >= 0).ifelse(first, None).sqrt()
    if name == "weekday":  # 1970-01-01 was a Thursday; Monday is 1
        return ((first + 3) % 7 + 7) % 7 + 1
    year, month, day = expressions.civil(first)
    if name == "age":
        later, its_month, its_day = expressions.civil(values[1])
        return later - year - (its_month * 100 + its_day < month * 100 + day).cast("int64")
    return year if name == "year" else month


Attach = Callable[[Any, Mapping[str, str], bool], Any]
"""From encoded rows, the names of their columns and whether values are marked, to rows with more columns."""
UNIT = "u"
"""Column of unit ids in a snapshot."""
MARK = "ok_"
"""Before the name of a column in a marked snapshot: whether its values can be used."""
AT = "place"
"""Column of the places of rows, where they are stored in the order of units and values."""
_NARROWS = "narrows"
"""Where a snapshot keeps the one that it has fewer rows of."""
_WHOLE = "w"
"""Column of unit ids as whole numbers, while a snapshot is taken."""
_FORBIDDEN = -1
"""Code of a label that the schema refuses."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Snapshot:
    """Encoded rows on the engine, still private.

    Attributes
    ----------
    dataset, schema
        Where the rows came from, and the public facts about them.
    salt
        Secret of the data set that makes the choice of rows unpredictable and lasting.
    table
        One row per row of the source: the id of its unit, where ids are the units, and the code or grid step of every
        declared column that the source has, in the order of the schema. Null drops the row from questions that use
        the column.
    names
        For every declared column that the source has, its column in ``table``.
    gaps
        Those in which there is a null. Where there is none, questions about different columns keep the same rows.
    kept
        What units keep, by limits; filled by `discreet.core.rows.keep`.
    lock
        Held while ``kept`` is filled, so that threads that ask at once do the work once.
    attach
        Adds the columns of related tables, where there are any.
    """

    dataset: Dataset
    schema: Schema
    salt: str = field(repr=False)
    table: ir.Table = field(repr=False)
    names: Mapping[str, str]
    gaps: frozenset[str] = field(repr=False)
    kept: dict[Any, Any] = field(default_factory=dict, repr=False)
    lock: Any = field(default_factory=RLock, repr=False)
    attach: Attach | None = field(default=None, repr=False)

    def banded(self, bands: Mapping[str, Sequence[int]]) -> Snapshot:
        """The same rows, where bands of some numbers take the place of their values.

        A band is told by how many of the given grid steps a value reaches: a fact of its own row alone.
        """
        declared, codes = {}, {}
        for name, steps in bands.items():
            self.require(name)
            value = self.table[self.names[name]]
            codes[self.names[name]] = sum(((value >= step).cast("int32") for step in steps), (value * 0).cast("int32"))
            declared[name] = Categories(range(len(steps) + 1))
        known = self.schema.computed_already()
        schema = replace(known, columns={**known.columns, **declared})
        return replace(self, table=self.table.mutate(**codes), schema=schema, kept={})

    def narrowed(self, schema: Schema) -> Snapshot:
        """Those of the same rows that a schema with a condition more leaves; nothing is read or encoded again."""
        table = _where(schema, self.names, self.table)
        return replace(self, table=table, schema=schema, kept={_NARROWS: self})

    def with_marks(self) -> Snapshot:
        """The same rows with their marks, read once for all questions and conditions."""
        with self.lock:
            if MARK not in self.kept:
                whole = self.kept.get(_NARROWS)
                self.kept[MARK] = (
                    take(self.dataset, self.schema, salt=self.salt, marked=True, attach=self.attach)
                    if whole is None
                    else whole.with_marks().narrowed(self.schema)
                )
            found: Snapshot = self.kept[MARK]
            return found

    def weighed(self) -> Snapshot:
        """The rows that have a weight, which is moved down to the trim where it is larger: facts of each row alone."""
        design = cast(Design, self.schema.design)
        name, bounds = self.names[design.weight], self.schema.bounds(design.weight)
        trimmed = replace(bounds, low=0, high=design.weight_high, nulls="drop")
        schema = replace(self.schema, columns={**self.schema.columns, design.weight: trimmed})
        steps = self.table[name]
        table = self.table.filter(steps > 0).mutate(**{name: steps.clip(upper=trimmed.highest)})
        return replace(self, table=table, schema=schema, kept={})

    def require(self, *names: str) -> None:
        """Refuse declared columns that cannot be made of the columns that the source has."""
        lacking = [name for name in names if name not in self.names]
        self.dataset.require(*self.schema.source_columns(lacking))

    def column(self, rows: ir.Table, name: str) -> Any:
        """Code or grid step of a declared column in ``rows``, wide enough to be multiplied."""
        self.require(name)
        return rows[self.names[name]].cast("int64")


def take(
    dataset: Dataset, schema: Schema, *, salt: str = "", marked: bool = False, attach: Attach | None = None
) -> Snapshot:
    """Read and encode the rows once, and check what the schema says of the whole data set.

    Where ``marked``, a column `MARK` + its name in the table says of each value whether it can be used. ``attach`` adds
    the columns of related tables: see `discreet.core.rows.keep`.
    """
    if schema.made_from is not None:
        rows = take(dataset, schema.made_from, salt=salt, marked=marked, attach=attach)
        return _of_units(rows, schema, marked)
    if schema.related and attach is None:
        tables = ", ".join(schema.related)
        raise SourceError(f"related = {tables}: the schema names tables that were not given. Nothing was spent.")
    dataset.require(schema.unit.column, *schema.source_columns(()))
    names = _encoded_names(schema, dataset.table.columns)
    plain = {name: names[name] for name in schema.source_columns([*names])}

    def settled(expression: ir.Table) -> ir.Table:
        """Computed once; in the order in which units choose, once all columns are there."""
        complete = {*names.values()} <= {*expression.columns} and schema.unit.column is not None and not marked
        return in_order(dataset, expression, names.values()) if complete else stored(dataset, expression)

    table = settled(_encoded(dataset, schema, plain, marked))
    if schema.unit.column is not None:
        table = _with_one_id(dataset, table, schema.unit.nulls, settled)
    if attach is not None:
        table = settled(attach(table, names, marked))
    while len(found := {*table.columns}.intersection(names.values())) < len(names):
        table = settled(_with_computed(dataset, schema, names, table, found, marked))
    gaps = _checked(dataset, schema, names, table)
    table = _where(schema, names, table)  # after the checks: the public size is that of the whole data set
    return Snapshot(dataset=dataset, schema=schema, salt=salt, table=table, names=names, gaps=gaps, attach=attach)


def _where(schema: Schema, names: Mapping[str, str], table: ir.Table) -> ir.Table:
    """The rows for which the schema's condition holds."""
    return table if schema.where is None else table.filter(_computed(schema, names, table, schema.where))


def _of_units(rows: Snapshot, schema: Schema, marked: bool) -> Snapshot:
    """One row per unit, with its features in the place of its rows."""
    features = rows.schema.features
    made = [name for name in schema.columns if {*rows.names}.issuperset(features[name].names())]
    names = {name: f"x{position}" for position, name in enumerate(made)}
    units = expressions.features_of(rows.table, UNIT, schema, made, rows.names)
    fields: dict[str, Any] = {}
    for name, encoded in names.items():
        fields |= _feature_fields(encoded, units[encoded], schema.columns[name], marked)
    table = stored(rows.dataset, units.select(UNIT, **fields))
    nulls = {encoded: table[encoded].isnull().any() for encoded in names.values()}
    found = rows.dataset.fetch(table.aggregate(**nulls)).to_pylist()[0] if nulls else {}
    table = _where(schema, names, table)
    gaps = frozenset(name for name, encoded in names.items() if found[encoded])
    return replace(rows, schema=schema, table=table, names=names, gaps=gaps, kept={})


def _feature_fields(encoded: str, value: Any, declared: Column, marked: bool) -> dict[str, Any]:
    """A feature's grid step or code, clipped, and whether it can be used."""
    if isinstance(declared, Bounds):
        low = declared.lowest
        high = declared.highest
        missing = declared.null_index()
        reach = declared.reach
    elif isinstance(declared, Categories):
        low = 0
        high = declared.cells - 1
        missing = declared.replacement("nulls")
        reach = declared.cells
    else:
        raise SourceError(f"column {encoded!r}: a feature has bounds or a list of labels. Nothing was spent.")
    mark = {MARK + encoded: expressions.placed(value, value < low, value > high)} if marked else {}
    value = expressions.clipped(value, low, high)
    value = value if missing is None else value.fill_null(missing)
    return {encoded: value.cast(_narrowest(reach)), **mark}


def check_types(dataset: Dataset, schema: Schema) -> None:
    """Refuse columns whose type on the engine cannot hold what is declared of them; no row is looked at."""
    schema = schema.of_rows
    names = _encoded_names(schema, dataset.table.columns)
    _encoded(dataset, schema, {name: names[name] for name in schema.source_columns([*names])}, False)


def _encoded_names(schema: Schema, known: Sequence[str]) -> dict[str, str]:
    """For the declared columns that can be made of those that a source has, their columns in a snapshot."""
    declared = [name for name in schema.columns if {*known}.issuperset(schema.source_columns([name]))]
    return {name: f"x{position}" for position, name in enumerate(declared)}


def _with_computed(
    dataset: Dataset, schema: Schema, names: Mapping[str, str], table: ir.Table, found: set[str], marked: bool
) -> ir.Table:
    """The table with the columns whose formulas name only columns that are there."""
    fields: dict[str, Any] = {}
    for name, encoded in names.items():
        formula = schema.columns[name].value
        if encoded not in found and formula and found.issuperset(names[one] for one in formula.names()):
            value = as_number(_computed(schema, names, table, formula))
            fields |= _fields(encoded, value, schema.columns[name], name, dataset, marked)
    return table.mutate(**fields)


def _computed(schema: Schema, names: Mapping[str, str], table: ir.Table, formula: RowExpression) -> Any:
    """A formula's value on the encoded rows."""
    return computed(formula.term, {name: table[names[name]] for name in formula.names()}, schema.columns)


def _fields(encoded: str, column: Any, declared: Any, name: str, dataset: Dataset, marked: bool) -> dict[str, Any]:
    """An encoded column, and whether each value can be used."""
    if isinstance(declared, Bands):  # its text is a number, written with the marks of the source
        column = expressions.number_of(column, name, dataset.written)
    mark = {MARK + encoded: expressions.usable(column, declared, name, dataset.written)} if marked else {}
    return {encoded: _value(column, declared, name, dataset), **mark}


def _encoded(dataset: Dataset, schema: Schema, names: Mapping[str, str], marked: bool) -> ir.Table:
    table, unit = dataset.table, schema.unit.column
    fields: dict[str, Any] = {} if unit is None else _ids(table[unit], unit)
    for name, encoded in names.items():
        fields |= _fields(encoded, table[name], schema.columns[name], name, dataset, marked)
    if not fields:  # nothing is declared: rows can still be counted
        import ibis

        fields = {"row": ibis.literal(0, type="int8")}
    return table.select(**fields)


def _ids(column: Any, name: str) -> dict[str, Any]:
    """A unit's id. Texts that are the digits of a whole number stand apart, as numbers."""
    own = expressions.identifier(column, name)
    if not column.type().is_string():
        return {UNIT: own}
    number = column.try_cast("int64")
    whole = (number.cast("string") == column).ifelse(number, None)
    return {UNIT: whole.isnull().ifelse(own, None), _WHOLE: whole}


def _with_one_id(dataset: Dataset, table: ir.Table, nulls: str, settled: Callable[[ir.Table], ir.Table]) -> ir.Table:
    """The rows with one id each: a number where all ids are, because numbers are joined and sorted faster."""
    if _WHOLE in table.columns:
        facts = {name: table[name].notnull().any() for name in (UNIT, _WHOLE)}
        found = dataset.fetch(table.aggregate(**facts)).to_pylist()[0]
        own = table[UNIT].coalesce(table[_WHOLE].cast("string")) if found[UNIT] else table[_WHOLE]
        table = table.mutate(**{UNIT: own}).drop(_WHOLE)
        if found[UNIT] and found[_WHOLE]:  # texts and numbers were put in order apart
            table = settled(table.drop(AT) if AT in table.columns else table)
    return table.filter(table[UNIT].notnull()) if nulls == "drop" else table


def _value(column: Any, declared: Any, name: str, dataset: Dataset) -> Any:
    """Grid step, code or label of a value, in the narrowest type that holds the declared ones."""
    if isinstance(declared, Bounds):
        return expressions.grid_step(column, declared, name, dataset.written).cast(_narrowest(declared.reach))
    if not isinstance(declared, Categories):
        return expressions.identifier(column, name).cast(
            "string"
        )  # whatever the column's type is, which others decide in a frame
    code = expressions.label_code(column, declared, name)
    if "refuse" in (declared.nulls, declared.unknown):
        code = expressions.forbidden_label(column, declared, name).ifelse(_FORBIDDEN, code)
    return code.cast(_narrowest(declared.cells))


def _narrowest(reach: int) -> str:
    """Short columns are read, grouped and joined faster."""
    return next((f"int{bits}" for bits in (16, 32) if reach < 2 ** (bits - 1)), "int64")


def _checked(dataset: Dataset, schema: Schema, names: Mapping[str, str], table: ir.Table) -> frozenset[str]:
    """Refuse what the schema says never to happen; return the columns that hold a null. One pass."""
    facts = {f"gap_{encoded}": table[encoded].isnull().any() for encoded in names.values()}
    unit = schema.unit.column
    if schema.neighbours is Neighbours.REPLACE_ONE:
        facts["units"] = table.count() if unit is None else table[UNIT].nunique()
    if unit is not None and schema.unit.nulls == "refuse":
        facts[f"gap_{UNIT}"] = table[UNIT].isnull().any()
    for name, encoded in names.items():
        if isinstance(schema.columns[name], Categories):
            facts[f"forbidden_{encoded}"] = (table[encoded] == _FORBIDDEN).any()
    found = dataset.fetch(table.aggregate(**facts)).to_pylist()[0] if facts else {}
    if unit is not None and found.get(f"gap_{UNIT}"):
        raise _refused(unit)
    for name, encoded in names.items():
        declared = schema.columns[name]
        missing = isinstance(declared, Bounds) and declared.nulls == "refuse" and found[f"gap_{encoded}"]
        if missing or found.get(f"forbidden_{encoded}"):
            raise _refused(name)
    if found.get("units", schema.size) != schema.size:
        raise SourceError(
            f"size = {schema.size}: the data has {found['units']} units. Correct the schema's size. Nothing was spent."
        )
    return frozenset(name for name, encoded in names.items() if found[f"gap_{encoded}"])


def _refused(name: str) -> SourceError:
    return SourceError(
        f"column {name!r}: holds values that are missing or not on the list, which the schema refuses. "
        'Clean the data, or set its policy to "drop" or to a replacement. Nothing was spent.'
    )


def stored(dataset: Dataset, expression: ir.Table, together: Sequence[str] = ()) -> ir.Table:
    """Compute a table once, on the engine. It is dropped when the last expression over it is gone."""
    name = f"discreet_{secrets.token_hex(8)}"
    return engines.passing(dataset.connection, dataset.store(name, expression, together), name)


def marked(dataset: Dataset, table: Any, bits: Any) -> Any:
    """In the place of a stored table, its rows whose bit is set. Dropped when the last expression over it is gone."""
    name = engines.MARKED + secrets.token_hex(8)
    return engines.passing(dataset.connection, dataset.marked(name, table.name, bits), name, table).op()


def in_order(dataset: Dataset, expression: ir.Table, values: Iterable[str]) -> ir.Table:
    """Compute rows once, and store them in the order of units and values; their places are a column, where they last.

    A unit's rows then lie side by side, in the order that choices are made in.
    """
    own = [name for name in (_WHOLE, UNIT) if name in expression.columns]
    if dataset.engine != "duckdb":
        return stored(dataset, expression, own)
    table = stored(dataset, expression.order_by([*own, *values]))
    return table.mutate(**{AT: table.rowid()})
