"""Reading: random and hostile files, beside a slow reader of one character at a time; hostile values, beside their
documented meaning.

A reader that lets one row change how another is read, or that takes a malformed file for a well-formed one, breaks
every sensitivity behind it.
"""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np

from discreet.audit.recomputed import Compared, Recomputed, recomputed, refused
from discreet.core.dialect import Dialect
from discreet.core.errors import SourceError
from discreet.core.rows import Selected, csv_file, take, totals
from discreet.core.rows.csv_file import copy_csv, read_names
from discreet.core.rows.frames import canonical_text, distinct_names
from discreet.core.schema import Bounds, Schema
from discreet.opening import column_types, open_source
from discreet.testing.sources import check_source, check_values, hostile_columns, hostile_fields

__all__ = ["MalformedCsv", "audit_engine", "audit_reading", "random_csv", "records"]


# ---- A slow reader of strict CSV, one character at a time: the oracle for `discreet.core.rows.csv_file`


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


def audit_reading(files: int = 240, *, seed: int = 1) -> Recomputed:
    """Read files and values twice.

    Examples
    --------
    >>> audit_reading(files=6).passed
    True
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        parts = [partial(part, path) for part in (_malformed, _dialects, _several_files, _marks)]
        return recomputed("Reading", [partial(_files, path, files, seed), *parts, _texts, partial(_values, path)])


def audit_engine() -> Recomputed:
    """Compare every reading, limit and total of the embedded engine with plain Python.

    Examples
    --------
    >>> audit_engine().passed
    True
    """
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
        with patch.object(csv_file, "_PIECE", (3, 16, 1 << 24)[number % 3]):
            found = _rows(path, delimiter=delimiter)
        try:
            wanted: list[list[str]] = records(text, delimiter)[1:]
        except MalformedCsv:
            yield (
                "a malformed file was read",
                isinstance(found, str) and "line" in found and "Nothing was spent" in found,
            )
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
            with patch.object(csv_file, "_PIECE", size):
                found = _rows(path)
            yield (
                f"line {line} of a malformed file",
                isinstance(found, str) and f"line {line} " in found and "SECRET" not in found,
            )


def _dialects(path: Path) -> Iterator[Compared]:
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"):
        path.write_bytes("x,é\nü,\xa01\n".encode(encoding))
        declared = "utf-8" if encoding == "utf-8-sig" else encoding
        yield f"a file in {encoding}", _rows(path, encoding=declared) == [["ü", "\xa01"]]
    text = "x;y\n1,5;a,b\n2,5;c\n"
    path.write_bytes(text.encode())
    yield "another delimiter", _rows(path, delimiter=";", decimal=",") == [["1,5", "a,b"], ["2,5", "c"]]
    yield "no header", _rows(path, delimiter=";", header=False) == [["x", "y"], ["1,5", "a,b"], ["2,5", "c"]]
    yield (
        "names without a header",
        read_names(str(path), Dialect(delimiter=";", header=False)) == ["column1", "column2"],
    )
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

    other, copy = path.with_name("other.csv"), path.with_suffix(".parquet")
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
