"""Reading: random and hostile files, beside a slow reader of one character at a time; hostile values, beside their
documented meaning.

A reader that lets one row change how another is read, or that takes a malformed file for a well-formed one, breaks
every sensitivity behind it.
"""

from __future__ import annotations

import csv
import hashlib
import itertools
import math
import operator
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np

from discreet.audit.report import Audit, Compared, recomputed, refused
from discreet.core.columns import Dates, Term
from discreet.core.errors import SourceError, WrongType
from discreet.core.rows import (
    Selected,
    Snapshot,
    all_row_totals,
    coarsening,
    dropped_rows,
    histograms,
    matrix,
    read,
    take,
    totals,
    totals_by_partition,
    unit_counts,
    usable_totals,
)
from discreet.core.rows.keep import take_joined
from discreet.core.rows.read import Dialect, canonical_text, copy_csv, distinct_names, read_names
from discreet.core.rows.source import column_types, open_source
from discreet.core.schema import (
    Bands,
    Bounds,
    Categories,
    Column,
    Contribution,
    Feature,
    PrivacyUnit,
    PrivateLabels,
    Related,
    Schema,
)
from discreet.questions.formulas import Formula
from discreet.testing.sources import check_source, check_values, documented_choice, hostile_columns, hostile_fields

# ---- A slow reader of strict CSV, one character at a time: the oracle for `discreet.core.rows.read`


class MalformedCsv(Exception):
    """The text is not CSV of the declared dialect."""


def records(text: str, delimiter: str = ",") -> list[list[str]]:
    """Records of fields, as many in each as in the first; a blank line is a record only where that is one."""
    found: list[list[str]] = []
    blank = True
    fields: list[str] = []
    field: list[str] = []
    state = "start"  # of a field; or "plain", "quoted", "closing" (behind a quote inside quotes), "return"
    for character in text if text.endswith("\n") else text + "\n":
        if state in ("return", "closed return") and character != "\n":
            if state == "closed return":
                raise MalformedCsv("text after a closing quote")
            field.append(" ")
            state, blank = "plain", False
        if state == "quoted":
            if character == '"':
                state = "closing"
            else:
                field.append(character)
        elif state == "closing" and character == '"':
            field.append('"')
            state = "quoted"
        elif character == '"':
            if state != "start":
                raise MalformedCsv("a quote inside a field")
            state = "quoted"
        elif character == delimiter:
            fields.append("".join(field))
            field, state = [], "start"
        elif character == "\r":
            state = "closed return" if state == "closing" else "return"
        elif character == "\n":
            if not blank or not found or len(found[0]) == 1:
                found.append([*fields, "".join(field)])
            fields, field, state, blank = [], [], "start", True
            continue
        elif state == "closing":
            raise MalformedCsv("text after a closing quote")
        else:
            field.append(character)
            state = "plain"
        blank = blank and character == "\r"
    if state in ("quoted", "closing") or fields or field:
        raise MalformedCsv("a quote that is never closed")
    if any(len(record) != len(found[0]) for record in found):
        raise MalformedCsv("another number of fields")
    return found


_ODD = 'ab"",\n\r#\\ \0é;|\t'


def audit_reading(files: int = 240, *, seed: int = 1) -> Audit:
    """Read files and values twice."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        parts = [partial(part, path) for part in (_malformed, _dialects, _several_files, _marks)]
        return recomputed("Reading", [partial(_files, path, files, seed), *parts, _texts, partial(_values, path)])


def audit_engine() -> Audit:
    """Compare every reading, limit and total of the embedded engine with plain Python."""
    return recomputed("The embedded engine", [_engine])


def random_csv(draw: random.Random, delimiter: str = ",") -> str:
    """Well-formed rows as often as random characters."""
    width = draw.randint(1, 3)
    alphabet = _ODD if draw.random() < 0.5 else f'a"{delimiter}\n'

    def field() -> str:
        text = "".join(draw.choice(alphabet) for _ in range(draw.randint(0, 4)))
        quoted = any(one in text for one in ('"', delimiter, "\n", "\r")) or draw.random() < 0.2
        return '"' + text.replace('"', '""') + '"' if quoted else text

    end = draw.choice(["\n", "\r\n"])
    if draw.random() < 0.4:
        body = end.join(delimiter.join(field() for _ in range(width)) for _ in range(draw.randint(0, 6)))
    else:
        body = "".join(draw.choice(alphabet) for _ in range(draw.randint(0, 25)))
    return delimiter.join("xyz"[:width]) + "\n" + body + draw.choice(["", end])


def _rows(path: Path, **dialect: Any) -> list[list[str]] | str:
    """The rows of a file as lists of texts, or the words with which it was refused."""
    import pyarrow.parquet as pq

    copy = path.with_suffix(".parquet")
    try:
        copy_csv([str(path)], Dialect(**dialect), copy)
    except SourceError as refusal:
        return str(refusal)
    table = pq.read_table(copy)
    return [list(row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]


def _files(path: Path, files: int, seed: int) -> Iterator[Compared]:
    """Random files, whole and in pieces so small that every record straddles some."""
    draw = random.Random(seed)
    for number in range(files):
        delimiter = ",;|\t"[number % 4]
        text = random_csv(draw, delimiter)
        path.write_bytes(text.encode())
        with patch.object(read, "_PIECE", (3, 16, 1 << 24)[number % 3]):
            found = _rows(path, delimiter=delimiter)
        try:
            wanted: list[list[str]] = records(text, delimiter)[1:]
        except MalformedCsv:
            right = isinstance(found, str) and "line" in found and "Nothing was spent" in found
            yield "a malformed file was read", right
        else:
            yield "a file was read otherwise than by the reference", found == wanted


_MALFORMED: tuple[tuple[str | bytes, int], ...] = (
    ("a,b\n1,2\n3\n4,5\n", 3), ("a,b\n1,2\n3,4,SECRET\n", 3), ('a,b\n1,2\n"SECRET,2\n', 3), ('a,b\n"SECRET"x,2\n', 2),
    ('a,b\n1,SEC"RET"\n', 2), ("a\rb\n1,SECRET\n", 1), ('a,b\n"x\ny",2\nSECRET\n', 4),
    ("a,a\n1,SECRET\n", 1), ("a,A\n1,SECRET\n", 1), ("a,\n1,SECRET\n", 1), ('"a,b\n1,SECRET\n', 1),
    ('a,b\n1,2\n\n\n3,SECRET,4\n', 5), ("a,b\n\n1,2\nSECRET\n", 4),
    ('a,b\n"x\n\ny",2\n1,SEC"RET\n', 5), ('a,b\n1,2\r\n\r\n"x""y",3\n3\n', 5),
    ("a,b\n" + "1,2\n" * 40 + "SECRET\n", 42),
)  # fmt: skip


def _malformed(path: Path) -> Iterator[Compared]:
    """Malformed files are refused by their line, and nothing of them is quoted."""
    for size in (5, 64, 1 << 24):
        for content, line in _MALFORMED:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            with patch.object(read, "_PIECE", size):
                found = _rows(path)
            right = isinstance(found, str) and f"line {line} " in found and "SECRET" not in found
            yield f"line {line} of a malformed file", right


def _dialects(path: Path) -> Iterator[Compared]:
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"):
        path.write_bytes("x,é\nü,\xa01\n".encode(encoding))
        declared = "utf-8" if encoding == "utf-8-sig" else encoding
        yield f"a file in {encoding}", _rows(path, encoding=declared) == [["ü", "\xa01"]]
    text = "x;y\n1,5;a,b\n2,5;c\n"
    path.write_bytes(text.encode())
    yield "another delimiter", _rows(path, delimiter=";", decimal=",") == [["1,5", "a,b"], ["2,5", "c"]]
    yield "no header", _rows(path, delimiter=";", header=False) == [["x", "y"], ["1,5", "a,b"], ["2,5", "c"]]
    right = read_names(str(path), Dialect(delimiter=";", header=False)) == ["column1", "column2"]
    yield "names without a header", right
    yield "names", read_names(str(path), Dialect(delimiter=";")) == ["x", "y"]
    tabbed = path.with_suffix(".tsv")
    tabbed.write_bytes(text.replace(";", "\t").encode())
    yield "tabs", _rows(tabbed) == [["1,5", "a,b"], ["2,5", "c"]]
    for content, wanted in (
        ("a,b\n\n1,2\n\n", [["1", "2"]]),
        ("a\n\n1\n", [[""], ["1"]]),
        ("x", []),
        ("a,b\n1,2", [["1", "2"]]),
    ):
        path.write_bytes(content.encode())
        yield f"a file of {content!r}", _rows(path) == wanted
    path.write_bytes(b"")
    yield "an empty file", "is empty" in str(_rows(path))
    for given in ({"delimiter": ";;"}, {"delimiter": '"'}, {"delimiter": "a"}, {"delimiter": 3},
            {"delimiter": "é"}, {"decimal": ";"},
                  {"encoding": "utf-7"}, {"encoding": "rot13"}, {"encoding": "nothing"}, {"encoding": 8},
                  {"header": "no"}):  # fmt: skip
        yield f"a dialect of {given}", refused(partial(Dialect, **given))
    yield "what a dialect declares", Dialect(delimiter=";").declared() == {"delimiter": ";"}
    yield "one mark for two things", refused(partial(Dialect(decimal=",").delimiter_of, "rows.csv"))


def _several_files(path: Path) -> Iterator[Compared]:
    import pyarrow
    import pyarrow.parquet as pq

    other = path.with_name("other.csv")
    copy = path.with_suffix(".parquet")
    path.write_bytes(b"x,y\n1,2\n")
    other.write_bytes(b"y,x\n4,3\n")
    copy_csv([str(path), str(other)], Dialect(), copy)
    yield "columns in another order", pq.read_table(copy).to_pylist() == [{"x": "1", "y": "2"}, {"x": "3", "y": "4"}]
    numbers = path.with_name("numbers.parquet")
    pq.write_table(pyarrow.table({"n": [1, 2], "t": ["a", "b"]}), numbers)
    yield "types of a Parquet file", column_types(str(numbers), Dialect()) == {"n": "int64", "t": "string"}
    yield "types of a text file", column_types(str(path), Dialect()) == {"x": "string", "y": "string"}
    other.write_bytes(b"y,z\n4,3\n")
    try:
        copy_csv([str(path), str(other)], Dialect(), copy)
    except SourceError:
        yield "other columns", True
    else:
        yield "other columns", False


def _marks(path: Path) -> Iterator[Compared]:
    """Numbers with a decimal comma and points between thousands; a point anywhere else makes it no number."""
    path.write_bytes(b"x;y\n1.234,5;a\n2,5;a\n1234;a\n-1,234;a\n1.5;a\n12.34,5;a\n")
    data = open_source(str(path), delimiter=";", decimal=",", thousands=".")
    found = totals(take(data, Schema(columns={"x": Bounds(-10, 10_000, grid=0.5)})), Selected(columns=("x",)), [("x",)])
    yield "numbers with other marks", (found.counts[0], found.sums["x",][0]) == (4, 2469 + 5 + 2468 - 2)


def _texts() -> Iterator[Compared]:
    """Values of Python and numpy, each as the text that means the same."""

    class Odd:
        item = "not a method"

        def __str__(self) -> str:
            return "odd"

    texts: tuple[tuple[Any, str | None], ...] = (
        (Decimal("1.50"), "1.50"), (Decimal("2.0"), "2"), (Decimal("-7"), "-7"), (np.int64(3), "3"),
        (np.float64(2), "2"), (Odd(), "odd"), (b"x", "x"), (True, "true"), (np.bool_(False), "false"), (0.1, "0.1e+00"),
        (2**70, str(2**70)),
        (-math.inf, "-1e+999"), (math.nan, None), (None, None),
    )  # fmt: skip
    for value, text in texts:
        yield f"the text of {value!r}", canonical_text(value) == text
    # A text in somebody else's row makes objects of all numbers of a column, and must change none of them.
    draw = random.Random(1)
    for value in (draw.uniform(-1, 1) * 10.0 ** draw.randint(-30, 30) for _ in range(100)):
        yield f"the text of {value!r}", float(canonical_text(value) or "nan") == value
    for names in (["a", "A"], ["a", "a"], ["ß", "ss"]):
        yield f"columns {names}", refused(partial(distinct_names, names))
    distinct_names(["a", "b"])


def _values(path: Path) -> Iterator[Compared]:
    """Hostile texts in a file, each with its documented meaning."""
    texts = {"texts": hostile_columns()["texts"]}
    fields = hostile_fields(texts)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(
            [fields, *zip(*fields.values(), strict=True)]
        )
    check_values(open_source(str(path)), texts)
    yield "hostile texts", True


def _engine() -> Iterator[Compared]:
    """Every reading, limit and total of the engine, beside plain Python."""
    yield "the engine", check_source(open_source).rows > 0


# ---- Adding up: totals of the engine beside plain Python, where bounds are wide, units have shares and tables are
# joined.
#
# `check_source` compares ordinary totals of any engine. Here are those that take other paths: products that 64 bits
# cannot hold, sums of more than four factors, clipped sums of units by partition, rows with weights, what limits leave
# out, how many values can be used, and rows of two tables.


_SALT = "5a" * 32


def audit_adding_up() -> Audit:
    """Add up hostile rows on the engine and in plain Python."""
    checks = [_cells, _products, _merged, _units, _weighed, _left_out, _labels, _usable, _joins]
    return recomputed("Totals of the engine", checks)


def _snapshot(rows: Sequence[dict[str, Any]], schema: Schema) -> Snapshot:
    import pyarrow

    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return take(open_source(pyarrow.table(columns)), schema, salt=_SALT)


# ---- products -------------------------------------------------------------------------------------------------------

_WIDE = {
    "tiny": Bounds(-3, 5, grid=1), "short": Bounds(-(2**15), 2**15, grid=1), "long": Bounds(-(2**31), 2**31 - 2,
    grid=1), "half": Bounds(-9.5, 2**33, grid=0.5), "vast": Bounds(-(2**39), 2**39 - 1, grid=1),
    "deep": Bounds(-(2**17), 10, grid=1), "steep": Bounds(-3, 2**22 + 5, grid=1), "widest": Bounds(-(2**40), 2**40,
    grid=1),
}  # fmt: skip
"""Numbers at the ends of the types that hold them."""


def _wide_rows(count: int = 9) -> list[dict[str, float]]:
    draw = random.Random(7)
    ends: list[dict[str, float]] = [{name: one.high for name, one in _WIDE.items()}]
    ends.append({name: one.low for name, one in _WIDE.items()})
    ends += [{name: float(draw.randrange(int(b.low), int(b.high))) for name, b in _WIDE.items()} for _ in range(count)]
    return ends


def _products() -> Iterator[Compared]:
    """One to four factors; nothing overflows and nothing is rounded."""
    rows, schema = _wide_rows(), Schema(columns=_WIDE)
    snapshot = _snapshot(rows, schema)
    products = [p for size in (1, 2, 3, 4) for p in itertools.combinations_with_replacement(_WIDE, size)]
    asked = [product for place, product in enumerate(products) if len(product) < 3 or place % 3 == 0]
    asked += [("vast",) * 4, ("half", "vast", "vast", "long"), ("tiny", "tiny", "vast"), ("short",) * 4]
    steps = [{name: schema.bounds(name).index(value) for name, value in row.items()} for row in rows]
    for batch in _batches(list(dict.fromkeys(asked))):
        found = totals(snapshot, Selected(columns=tuple(_WIDE)), batch)
        for product, total in found.sums.items():
            wanted = sum(math.prod(one[name] for name in product) for one in steps)
            yield f"a sum of products of {', '.join(product)}", total[0] == wanted
    values = matrix(snapshot, list(_WIDE))
    exact = [[float(schema.bounds(n).index(v) * schema.bounds(n).step) for n, v in row.items()] for row in rows]
    yield "rows one by one", sorted(values.tolist()) == sorted(exact)


def _batches(products: list[tuple[str, ...]], size: int = 8) -> Iterator[list[tuple[str, ...]]]:
    """A few at a time: a sum of four wide factors is sixteen sums on the engine."""
    for start in range(0, len(products), size):
        yield products[start : start + size]


def _merged() -> Iterator[Compared]:
    """More than four factors: steps merge into the fewest that 38 digits hold."""
    rows, schema = _wide_rows(), Schema(columns=_WIDE)
    snapshot = _snapshot(rows, schema)
    for factors in (1, 2, 4, 5, 6, 8):
        steps = {}
        for name, bounds in _WIDE.items():
            merged, reach = coarsening(bounds, factors)
            across = bounds.highest - bounds.lowest
            yield "steps merge by powers of two", merged.bit_count() == 1 and reach == (across + merged // 2) // merged
            if factors > 4:  # below, nothing merges: limbs hold the product
                room = 86 // factors  # bits of one factor in a product of 86
                least = max(0, across.bit_length() - room)
                yield "no more merge than must", merged == 2**least
            else:
                yield "few factors are exact", merged == 1
            steps[name] = [(bounds.index(row[name]) - bounds.lowest + merged // 2) // merged for row in rows]
        names = tuple(_WIDE) * 2
        product = names[:factors]
        used = tuple(dict.fromkeys(product))
        found = totals(snapshot, Selected(columns=used), [product], from_lowest=True).sums[product]
        wanted = sum(math.prod(steps[name][place] for name in product) for place in range(len(rows)))
        yield f"products of {factors} factors", found[0] == wanted


def _cells() -> Iterator[Compared]:
    """Cells whose numbers need more than 16 bits."""
    draw = random.Random(5)
    labels = [f"l{place}" for place in range(200)]
    rows = [{"a": draw.choice(labels), "b": draw.choice(labels[-3:])} for _ in range(20)]
    rows.append({"a": labels[-1], "b": labels[-1]})
    schema = Schema(columns={"a": Categories(labels), "b": Categories(labels)})
    found = totals(_snapshot(rows, schema), Selected(by=("a", "b"))).counts
    wanted = Counter(200 * labels.index(row["a"]) + labels.index(row["b"]) for row in rows)
    yield "many cells", {place: int(found[place]) for place in np.flatnonzero(found)} == dict(wanted)


# ---- units ----------------------------------------------------------------------------------------------------------

_LIMITS = (Contribution(groups=1, rows=2), Contribution(rows=2), Contribution(total=3), Contribution(groups=2, rows=9))


def _unit_schema(limits: Contribution) -> Schema:
    columns: dict[str, Column] = {"arm": Categories(["a", "b", "c"]), "x": Bounds(-4, 3, grid=0.5)}
    return Schema(columns=columns, unit=PrivacyUnit("who", contribution=limits))


def _unit_rows(count: int = 160) -> list[dict[str, Any]]:
    draw = random.Random(11)
    values = (None, -9.0, -4.0, -1.25, 0.0, 0.5, 3.0, 7.0)
    return [
        {"who": f"p{min(draw.randrange(25), 20)}", "arm": draw.choice(("a", "b", "c", "?")), "x": draw.choice(values)}
        for _ in range(count)
    ]


def _encoded(rows: Sequence[dict[str, Any]], schema: Schema) -> list[tuple[Any, ...]]:
    """Unit, cell, code and grid step of the rows that take part."""
    labels = list(schema.categories("arm").labels)
    bounds = schema.bounds("x")
    return [
        (row["who"], labels.index(row["arm"]), labels.index(row["arm"]), bounds.index(row["x"]))
        for row in rows
        if row["arm"] in labels and row["x"] is not None
    ]


def _digits(count: int, *parts: str) -> int:
    return int(hashlib.sha256("|".join((_SALT[:32], *parts)).encode()).hexdigest()[:count], 16)


def _units() -> Iterator[Compared]:
    """Features of units: clipped sums by first arm and by partition, and their histograms."""
    rows = _unit_rows()
    selected = Selected(by=("arm",), columns=("x",))
    features = {"x": Feature(of="x", take="sum", low=-6, high=4), "arm": Feature(of="arm", take="min")}
    schema = replace(_unit_schema(_LIMITS[0]), features=features)
    snapshot = _snapshot(rows, schema.per_unit())
    sums = schema.per_unit().bounds("x")
    labels = list(schema.categories("arm").labels)
    bounds = schema.bounds("x")
    steps = defaultdict[str, list[int]](list)
    arms = defaultdict[str, list[int]](list)
    for row in rows:
        if row["x"] is not None:
            steps[row["who"]].append(bounds.index(row["x"]))
        if row["arm"] in labels:
            arms[row["who"]].append(labels.index(row["arm"]))
    own = {(who, min(arms[who])): sum(held) for who, held in steps.items() if arms[who]}
    for partitions in (None, 7):
        found = totals_by_partition(snapshot, selected, partitions)
        wanted = np.zeros((3, 3, partitions or 1), dtype=object)
        for (who, cell), total in own.items():
            above = min(max(total, sums.lowest), sums.highest) - sums.lowest
            wanted[:, cell, _digits(4, "p", who) * (partitions or 1) // 16**4] += np.array([1, above, above**2])
        yield "sums of units by partition", bool((np.array(found) == wanted).all())
        if partitions is None:
            counted = [Counter[int]() for _ in range(3)]
            for (_, cell), total in own.items():
                counted[cell][min(max(total, sums.lowest), sums.highest)] += 1
            shown = histograms(snapshot, selected)
            right = [dict(zip(a.tolist(), b.tolist(), strict=True)) for a, b in shown] == list(map(dict, counted))
            yield "histograms of units", right


def _weighed() -> Iterator[Compared]:
    """All rows of units, with weights that add up to their limits: whole parts of a row, then k/m of their sums."""
    rows = _unit_rows()
    for limits, degree in itertools.product((Contribution(rows=2), Contribution(total=3)), (0, 1, 4)):
        schema = _unit_schema(limits)
        taking, bounds = _encoded(rows, schema), schema.bounds("x")
        across, most = bounds.highest - bounds.lowest, limits.rows or limits.total or 0
        whole = across**degree * (2**30 // across**degree)
        held = Counter(row[: 2 if limits.rows else 1] for row in taking)
        sums = Counter[tuple[str, int, int]]()
        for who, cell, _, step in taking:
            u = Fraction(step - bounds.lowest, across)
            for j in range(degree + 1):
                sums[who, cell, j] += int(whole * math.comb(degree, j) * u**j * (1 - u) ** (degree - j))
        wanted = np.full((3, degree + 1), Fraction(0))
        for (who, cell, j), part in sums.items():
            n = held[(who, cell) if limits.rows else (who,)]
            wanted[cell, j] += Fraction(part if n <= most else part * most // n, whole)
        read = "x" if degree else None
        selected = Selected(by=("arm",), columns=(read,) if read else (), whole=("x",), all_rows=True)
        found = all_row_totals(_snapshot(rows, schema), selected, degree)
        yield f"all rows of degree {degree}", bool((found == wanted).all())


def _left_out() -> Iterator[Compared]:
    """Rows beyond limits and without a value, at most so many of each unit, those beyond limits first."""
    rows = _unit_rows()
    snapshots = {limits: _snapshot(rows, _unit_schema(limits)) for limits in _LIMITS}
    for (limits, snapshot), most in itertools.product(snapshots.items(), (1, 4)):
        schema = snapshot.schema
        taking = _encoded(rows, schema)
        kept = Counter(row[0] for row in documented_choice(taking, limits, _SALT))
        part = Counter(row[0] for row in taking)
        held = Counter(row["who"] for row in rows)
        over = {who: min(part[who] - kept[who], most) for who in held}
        missing = {who: min(held[who] - part[who], most - over[who]) for who in held}
        some = sum(over[who] + missing[who] > 0 for who in held)
        found = dropped_rows(snapshot, Selected(by=("arm",), columns=("x",)), most)
        yield "rows that are left out", found == (some, sum(over.values()), sum(missing.values()))
    schema = Schema(columns=_unit_schema(_LIMITS[0]).columns)
    lost = len(rows) - len(_encoded(rows, schema))
    found = dropped_rows(_snapshot(rows, schema), Selected(by=("arm",), columns=("x",)), 1)
    yield "rows that are units and left out", found == (lost, 0, lost)


def _labels() -> Iterator[Compared]:
    """Labels without a public list: a unit keeps some of its own, at even distances."""
    draw = random.Random(13)
    rows: list[dict[str, Any]] = [
        {"who": draw.randrange(12), "word": draw.choice(("x", "y", "z", "w", None))} for _ in range(60)
    ]
    schema = Schema(columns={"word": PrivateLabels()}, unit=PrivacyUnit("who", contribution=Contribution(rows=1)))
    snapshot = _snapshot(rows, schema)
    for limit in (1, 2, 3):
        found = dict(zip(*unit_counts(snapshot, "word", groups=limit), strict=True))
        wanted = Counter[str]()
        for who in range(12):
            own = sorted({row["word"] for row in rows if row["who"] == who and row["word"] is not None})
            start = _digits(12, "g", str(who))
            wanted.update(
                one
                for place, one in enumerate(own)
                if len(own) <= limit or (place + start) % len(own) * limit % len(own) < limit
            )
        yield "labels that units keep", {name: int(count) for name, count in found.items()} == dict(wanted)
    found = dict(
        zip(*unit_counts(_snapshot(rows, Schema(columns={"word": PrivateLabels()})), "word", groups=1), strict=True)
    )
    plain = Counter(row["word"] for row in rows if row["word"] is not None)
    yield "labels of rows", {name: int(count) for name, count in found.items()} == dict(plain)


def _usable() -> Iterator[Compared]:
    """A value can be used where it is on the list or inside its bounds; a unit counts for the share of its rows."""
    rows = _unit_rows()
    good: dict[str, Callable[[Any], bool]] = {
        "arm": lambda one: one in ("a", "b", "c"),
        "x": lambda one: one is not None and -4 <= one <= 3,
    }
    for limits in (None, _LIMITS[0]):
        whole = _unit_schema(limits or _LIMITS[0])
        schema = whole if limits else Schema(columns=whole.columns)
        units: dict[Any, list[dict[str, Any]]] = defaultdict(list)
        for place, row in enumerate(rows):
            units[row["who"] if limits else place].append(row)
        wanted = [
            sum(256 * sum(map(good[name], (row[name] for row in own))) // len(own) for own in units.values())
            for name in ("arm", "x")
        ]
        found = usable_totals(_snapshot(rows, schema), ["arm", "x"])
        yield "values that can be used", (found[0], list(found[1])) == (len(units), wanted)


# ---- tables ---------------------------------------------------------------------------------------------------------


def _joins() -> Iterator[Compared]:
    """Each row meets the rows that its unit keeps in another table, or their number; a unit without one has a gap."""
    import pyarrow

    draw = random.Random(17)
    people: list[dict[str, Any]] = [{"who": draw.randrange(14), "arm": draw.choice(("a", "b", "c"))} for _ in range(40)]
    visits: list[dict[str, Any]] = [
        {"id": draw.randrange(3, 16), "cost": draw.choice((0.0, 1.0, 2.0, 5.0))} for _ in range(60)
    ]
    cost = Bounds(0, 3, grid=1, nulls=0)
    for counted, most, filtered in itertools.product((None, "visits"), (1, 3), (False, True)):
        where = Formula("cost >= 1") if filtered else None
        one = Related(id="id", rows=most, columns={"cost": cost}, where=where, counted=counted)
        unit = PrivacyUnit("who", contribution=Contribution(total=1000))
        schema = Schema(columns={"arm": Categories(["a", "b", "c"])}, unit=unit, related={"visits": one})
        tables = [
            open_source(pyarrow.table({name: [row[name] for row in rows] for name in rows[0]}))
            for rows in (people, visits)
        ]
        snapshot = take_joined(tables[0], schema, {"visits": tables[1]}, salt=_SALT)
        name = counted or "cost"
        found = totals(snapshot, Selected(by=("arm",), columns=(name,)), [(name,)])
        counts = np.zeros(3, dtype=object)
        sums = np.zeros(3, dtype=object)
        for row in people:
            own = sorted(
                min(v["cost"], 3) for v in visits if v["id"] == row["who"] and (v["cost"] >= 1 or not filtered)
            )
            start = _digits(12, "j", str(row["who"]))
            kept = [c for i, c in enumerate(own) if len(own) <= most or (i + start) % len(own) * most % len(own) < most]
            met = [float(len(kept))] if counted else kept or [0.0]
            counts["abc".index(row["arm"])] += len(met)
            sums["abc".index(row["arm"])] += int(sum(met))
        same = bool((found.counts == counts).all() and (found.sums[name,] == sums).all())
        yield f"rows of two tables, {name}, at most {most}", same


# ---- Formulas: every operation of a row's formula on the engine, beside plain Python; and dates as they are written.
#
# A formula is a tree. The reference walks it with values that may be missing: a comparison with a missing value is
# neither true nor false, and what has no value is missing.


Row = Mapping[str, Any]
_COLUMNS: dict[str, Column] = {
    "id": Bounds(0, 1000, grid=1), "a": Bounds(-2, 2, grid=0.5), "b": Bounds(-2, 2, grid=0.25), "c": Categories(["x",
    "y"]), "k": Categories([3, 1, 2]), "f": Categories([False, True]), "d": Dates("1950-01-01", "2030-12-31"),
    "e": Dates("1950-01-01", "2030-12-31"), "m": Dates("1950-01-01", "2030-12-01", grid="month"),
    "y": Dates("1950-01-01", "2030-01-01", grid="year"),
}  # fmt: skip
_CONDITIONS = (
    "a >= 1", "a > b", "1 >= a", "0.5 < a", "a == 0.5 or b != 0.5", "a <= b and c == 'y'", "c != 'x'", "not (a < b)",
    "not f", "f and a > 0", "f == true", "f != true", "c in ('x', 'y')", "k in (1, 2)", "k == 3", "k not in (3)",
    "a between -1 and 0.5", "a is missing", "(a < b) is missing", "not (a is missing or c is missing)",
    "(a / b) is missing", "-a > b", "a - -b >= 1", "d < e", "d >= 2000-02-29", "m <= d", "y < d", "m == y",
    "year(d) > 1990 or month(d) == 2", "weekday(d) in (6, 7)", "age(d, 2020-06-15) >= 18",
)  # fmt: skip
_NUMBERS = (
    "a + b", "a - b", "a * b", "a / b", "-a", "a - b - 1", "a / b / 2", "abs(a - b)", "log1p(a)", "sqrt(b)", "d - e",
    "d - m", "d - y", "year(d)", "month(d)", "weekday(d)", "year(m) * 100 + month(m)", "year(y)", "age(d, e)",
    "age(d, 2001-03-01)", "age(d, 2001-02-28)", "indicator(a > b) * a",
)  # fmt: skip


def audit_formulas() -> Audit:
    """Compute formulas of random rows, with gaps, on the engine and in plain Python."""
    return recomputed("Formulas and dates", [_formulas, _filters, _written, _bands])


# ---- plain Python ---------------------------------------------------------------------------------------------------

_SIGNS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip


def _reference(term: Term, row: Row) -> Any:
    """The value of a formula for a row; None where it has none."""
    if term.op == "column":
        return row[term.parts[0]]
    if term.op in ("number", "text", "truth", "date"):
        return term.parts[0]
    if term.op in ("and", "or"):
        return _joined(term.op, *(_reference(part, row) for part in term.parts))
    if term.op == "missing":
        return _reference(term.parts[0], row) is None
    signs = [part for part in term.parts if not isinstance(part, Term)]
    parts = list(term.parts)
    values = [_reference(part, row) for part in parts if isinstance(part, Term)]
    if None in values:
        return None
    if term.op == "not":
        return not values[0]
    if term.op == "in":
        return values[0] in values[1:]
    if term.op == "negative":
        return -values[0]
    return _called(signs[0], values) if term.op == "call" else _signed(signs[0], *values)


def _joined(op: str, first: bool | None, second: bool | None) -> bool | None:
    certain = op == "or"  # what decides alone, whatever the other is
    if certain in (first, second):
        return certain
    return None if None in (first, second) else not certain


def _signed(sign: str, left: Any, right: Any) -> Any:
    if sign == "/" and right == 0:
        return None
    found = _SIGNS[sign](left, right)
    return found.days if hasattr(found, "days") else found


def _called(name: str, values: list[Any]) -> Any:
    first = values[0]
    if name == "age":
        return values[1].year - first.year - ((values[1].month, values[1].day) < (first.month, first.day))
    if name == "weekday":
        return first.isoweekday()
    if name in ("year", "month"):
        return getattr(first, name)
    if name == "indicator":
        return int(first)
    if name == "abs":
        return abs(first)
    if name == "log1p":
        return math.log(first + 1) if first > -1 else None
    return math.sqrt(first) if first >= 0 else None


# ---- rows -----------------------------------------------------------------------------------------------------------


def _gapped_rows() -> list[dict[str, Any]]:
    """Values on their grids and at the ends of months and years, with gaps."""
    draw = random.Random(3)
    days = [date(*day) for day in ((1969, 12, 31), (1970, 1, 1), (2000, 2, 29), (2001, 3, 1), (1999, 12, 31),
                                   (2024, 2, 28), (1955, 7, 4), (2030, 12, 31))]  # fmt: skip
    choices: dict[str, Any] = {
        "a": [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0], "b": [-1.0, 0.0, 0.25, 0.5, 1.0], "c": ["x", "y"], "k": [1, 2,
        3], "f": [True, False], "d": days, "e": days, "m": [date(1969, 12, 1), date(1970, 1, 1), date(2000, 2, 1),
        date(2024, 11, 1)], "y": [date(1960, 1, 1), date(1970, 1, 1), date(2000, 1, 1)],
    }  # fmt: skip
    found = []
    for number in range(120):
        row = {name: draw.choice(values) if draw.random() > 0.08 else None for name, values in choices.items()}
        found.append({"id": number, **row})
    return found


def _table(rows: list[dict[str, Any]]) -> Any:
    import pyarrow

    return pyarrow.table({name: pyarrow.array([row[name] for row in rows]) for name in rows[0]})


def _encoded_by_name(rows: list[dict[str, Any]], schema: Schema) -> dict[str, list[Any]]:
    """Codes and grid steps by declared column, for the rows that a filter leaves, in order."""
    data = open_source(_table(rows))
    snapshot = take(data, schema)
    found = data.fetch(snapshot.table).to_pylist()
    found.sort(key=lambda row: row[snapshot.names["id"]])
    return {name: [row[encoded] for row in found] for name, encoded in snapshot.names.items()}


# ---- comparisons ----------------------------------------------------------------------------------------------------


def _formulas() -> Iterator[Compared]:
    """All formulas at once, as computed columns."""
    truth = Categories([False, True])
    number = Bounds(-400_000, 400_000, grid=2.0**-6)
    columns = dict(_COLUMNS)
    for kind, texts in ((truth, _CONDITIONS), (number, _NUMBERS)):
        for text in texts:
            columns[text] = type(kind)(**{**_said(kind), "value": Formula(text)})
    rows = _gapped_rows()
    found = _encoded_by_name(rows, Schema(columns=columns))
    for text in _CONDITIONS:
        wanted = [_reference(Formula(text).term, row) for row in rows]
        yield text, found[text] == [None if one is None else int(one) for one in wanted]
    for text in _NUMBERS:
        for step, row in zip(found[text], rows, strict=True):
            value = _reference(Formula(text).term, row)
            close = step is None if value is None else step is not None and abs(step - 64 * value) <= 0.5 + 1e-9
            yield text, close


def _said(kind: Any) -> dict[str, Any]:
    return {"labels": kind.labels} if isinstance(kind, Categories) else {"low": kind.low, "high": kind.high,
                                                                         "grid": kind.grid}  # fmt: skip


def _filters() -> Iterator[Compared]:
    """Rows whose condition is true, and no others."""
    rows = _gapped_rows()
    for text in ("a >= 1 and c != 'x'", "not (a < b)", "(c == 'x') is missing or f", "age(d, e) >= 18"):
        formula = Formula(text)
        found = _encoded_by_name(rows, Schema(columns=_COLUMNS, where=formula))
        yield f"where {text}", found["id"] == [row["id"] for row in rows if _reference(formula.term, row) is True]


def _written() -> Iterator[Compared]:
    """Dates in text, in three orders, and text that is no date."""
    days = ("2024-01-31", "31.01.2024", "01/31/2024", "2023-02-29", "2024-1-5 10:30", "0000-01-01", "x", "",
            "1900-01-01", "2030-12-31", " 1969-12-31 ", "05.04.2003")  # fmt: skip
    rows = [{"id": number, "written": text} for number, text in enumerate(days)]
    for order in ("ymd", "dmy", "mdy"):
        for unit in ("day", "month", "year"):
            written = Dates("1900-01-01", "2030-12-31", grid=unit, order=order)
            found = _encoded_by_name(rows, Schema(columns={"id": _COLUMNS["id"], "written": written}))["written"]
            for text, step in zip(days, found, strict=True):
                wanted = _read(text, order)
                yield f"{text!r} as {order}", step == (None if wanted is None else _count(wanted, unit))
                if wanted is not None:
                    first = wanted.replace(day=wanted.day if unit == "day" else 1)
                    first = first.replace(month=1) if unit == "year" else first
                    yield "the day of a count", written.day(step) == first

    numbers = Schema(columns={"id": Dates("1900-01-01", "2030-12-31")})
    yield "numbers as dates", refused(lambda: _encoded_by_name(rows, numbers), WrongType)

    yield "a formula of no column", refused(lambda: Schema(columns=_COLUMNS, where=Formula("1 < 2")))
    yield from _spelled()


def _spelled() -> Iterator[Compared]:
    """Labels under other spellings; a code that is a whole number may be written as 01 or 1.0."""
    answer = Categories(["no", "yes"], aliases={"0": "no", "1": "yes", "Y": "yes"})
    codes = {"yes": 1, "no": 0, "1": 1, "01": 1, "1.0": 1, "0": 0, "00": 0, "Y": 1, "y": None, "2": None, "": None}
    rows: list[dict[str, Any]] = [{"id": number, "answer": text} for number, text in enumerate(codes)]
    found = _encoded_by_name(rows, Schema(columns={"id": _COLUMNS["id"], "answer": answer}))["answer"]
    for text, code in zip(codes, found, strict=True):
        yield f"the label {text!r}", code == codes[text]


def _read(text: str, order: str) -> date | None:
    """A day as `datetime` reads it, from three numbers in the declared order."""
    parts = text.strip().split(" ")[0].replace(".", "-").replace("/", "-").split("-")
    if len(parts) != 3:
        return None
    named = dict(zip(order, parts, strict=True))
    if len(named["y"]) != 4:
        return None
    try:
        return date(int(named["y"]), int(named["m"]), int(named["d"]))
    except ValueError:
        return None


def _count(day: date, unit: str) -> int:
    months = (day.year - 1970) * 12 + day.month - 1
    return {"day": (day - date(1970, 1, 1)).days, "month": months, "year": day.year}[unit]


def _bands() -> Iterator[Compared]:
    """A band holds its lower edge; the last holds both of its edges; what is outside is unknown."""
    edges = [0, 16, 25, 26, 65]
    named = {"0–15": (0, 15), "16–24": (16, 24), "25": (25, 25), "26–65": (26, 65)}
    banded = Bands(edges=edges)
    yield "names of bands", banded.labels == tuple(named)
    yield "names of bands between fractions", Bands(edges=[0, 0.5, 1]).labels == ("0–<0.5", "0.5–1")
    rows = [{"id": place, "age": float(age)} for place, age in enumerate((-1, 0, 15, 16, 24, 25, 26, 64, 65, 66))]
    found = _encoded_by_name(rows, Schema(columns={"id": _COLUMNS["id"], "age": banded}))["age"]
    places = list(named.values())
    for row, code in zip(rows, found, strict=True):
        wanted = [place for place, (low, high) in enumerate(places) if low <= row["age"] <= high]
        yield f"band of {row['age']}", code == (wanted[0] if wanted else None)
