"""Reading: nothing is guessed, every value is read by itself, and what is malformed is refused without quoting it."""

import csv
import decimal
import gzip
import io
import random
import shutil
import sys
from collections import Counter
from pathlib import Path

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet import Bounds, Categories, Contribution, PrivacyUnit, PrivateLabels, PureDP, Schema, Session
from discreet.audit.reading import MalformedCsv, records
from discreet.cli.main import main
from discreet.core.errors import DiscreetError, InvalidParameter, SourceError, WrongType
from discreet.core.rows import Selected, read, take, totals
from discreet.core.rows.read import Dialect, canonical_text, copy_csv, read_names
from discreet.core.rows.snapshot import AT
from discreet.core.rows.source import open_source
from discreet.mechanisms.omission.step import AbsoluteDistance, DiscreteDistance
from discreet.testing.sources import HOSTILE_TEXTS, check_values, hostile_columns, hostile_fields
from tests.processes import output

needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")
ENGINES = ["duckdb", pytest.param("spark", marks=[pytest.mark.spark, needs_java])]
ODD = 'ab"",\n\r#\\ \0é;|\t\ufeff'
OBJECTS = [
    *HOSTILE_TEXTS, 1, 1.0, 1.5, True, False, np.int64(7), np.float32(0.5), np.bool_(True), 10**30, -(2**70), 10**5000,
    2**53 + 1, 1e30, float("inf"), -float("inf"), float("nan"), None, pd.NA, pd.NaT, decimal.Decimal("7.00"), (1, 2),
    decimal.Decimal("1.50"), decimal.Decimal("NaN"), decimal.Decimal("-Infinity"), b"1", b"\xff", "\ud800",
    [1], {"a": 1}, pd.Timestamp("2020-01-01"), np.datetime64("NaT", "ns"), 1j,
]  # fmt: skip


def written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def rows_of(source, **dialect):
    """The rows that a CSV file holds, as lists of texts."""
    copy = Path(source).with_suffix(".parquet")
    copy_csv([source], Dialect(**dialect), copy)
    table = pq.read_table(copy)
    return [list(row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]


def counted(source, labels, **options):
    """Rows per label of the column ``x``."""
    snapshot = take(open_source(source, **options), Schema(columns={"x": labels}))
    return totals(snapshot, Selected(by=("x",))).counts.tolist()


def readings(source, schema, **options):
    """How often each encoded row occurs: a multiset, which is all that later steps see of the data."""
    data = open_source(source, **options)
    table = take(data, schema).table
    found = data.fetch(table.select([name for name in table.columns if name != AT]))
    return Counter(zip(*(map(str, column.to_pylist()) for column in found.columns), strict=True))


# ---- files: strict, and equal to a slow reference ------------------------------------------------


def random_csv(draw):
    """Well-formed rows as often as random characters."""
    width = draw.randint(1, 3)
    alphabet = ODD if draw.random() < 0.5 else 'a",\n'

    def field():
        text = "".join(draw.choice(alphabet) for _ in range(draw.randint(0, 4)))
        quoted = any(one in text for one in '",\n\r') or draw.random() < 0.2
        return '"' + text.replace('"', '""') + '"' if quoted else text

    end = draw.choice(["\n", "\r\n"])
    if draw.random() < 0.4:
        body = end.join(",".join(field() for _ in range(width)) for _ in range(draw.randint(0, 6)))
    else:
        body = "".join(draw.choice(alphabet) for _ in range(draw.randint(0, 25)))
    return ",".join("xyz"[:width]) + "\n" + body + draw.choice(["", end])


@pytest.mark.parametrize("piece", [3, 16, 1 << 24])
def test_files_are_read_as_the_slow_reference_reads_them(piece, tmp_path, monkeypatch):
    monkeypatch.setattr(read, "_PIECE", piece)  # records that straddle pieces must not matter
    draw, path, seen = random.Random(piece), tmp_path / "rows.csv", Counter()
    for _ in range(300):
        text = random_csv(draw)
        source = written(path, text)
        try:
            expected = records(text)[1:]
        except MalformedCsv:
            with pytest.raises(SourceError, match="line"):
                rows_of(source)
            seen["malformed"] += 1
        else:
            assert rows_of(source) == expected, text
            seen["well formed"] += 1
    assert min(seen.values()) > 75


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("a,b\n1,2\n3\n4,5\n", 3),
        ("a,b\n1,2\n3,4,SECRET\n", 3),
        ('a,b\n1,2\n"SECRET,2\n', 3),
        ('a,b\n"SECRET"x,2\n', 2),
        ('a,b\n1,SEC"RET"\n', 2),
        ("a\rb\n1,SECRET\n", 1),
        ('a,b\n"x\ny",2\nSECRET\n', 4),
        ("a,a\n1,SECRET\n", 1),
        ("a,A\n1,SECRET\n", 1),
        ("a,\n1,SECRET\n", 1),
        ('"a,b\n1,SECRET\n', 1),
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_malformed_files_are_refused_by_line_without_quoting_them(content, line, engine, tmp_path, capfd):
    path = written(tmp_path / "rows.csv", content)
    with pytest.raises(SourceError, match=rf"line {line} .*Nothing was spent") as refusal:
        open_source(path, engine=engine)
    printed = capfd.readouterr()
    assert "SECRET" not in str(refusal.value) + printed.out + printed.err


def test_bytes_of_another_encoding_spoil_their_own_field_alone(tmp_path):
    path = written(tmp_path / "rows.csv", b"a,b\n1,2\n3,x\xff\n4,5\n")
    assert rows_of(path) == [["1", "2"], ["3", "x\\xff"], ["4", "5"]]
    asked = Session(path, Schema(columns={"a": Bounds(0, 9, grid=1)}), ledger=":memory:", budget=PureDP(1.0))
    with pytest.raises(SourceError, match="line 3 is not utf-8"):  # its owner can look
        asked.check_source()


def test_empty_files_and_files_without_rows(tmp_path):
    with pytest.raises(SourceError, match="is empty"):
        open_source(written(tmp_path / "none.csv", ""))
    assert counted(written(tmp_path / "header.csv", "x"), Categories(["a"])) == [0]
    assert rows_of(written(tmp_path / "blank.csv", "a,b\n\n1,2\n\n")) == [["1", "2"]]
    assert rows_of(written(tmp_path / "one.csv", "a\n\n1\n")) == [[""], ["1"]]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
def test_the_encoding_is_declared(encoding, tmp_path):
    path = written(tmp_path / "rows.csv", "x,é\nü,\xa01\n".encode(encoding))
    assert rows_of(path, encoding="utf-8" if encoding == "utf-8-sig" else encoding) == [["ü", "\xa01"]]


def test_the_dialect_is_declared(tmp_path):
    text = "x;y\n1,5;a,b\n2,5;c\n"
    path = written(tmp_path / "rows.csv", text)
    schema = Schema(columns={"x": Bounds(0, 5, grid=0.5), "y": Categories(["a,b", "c"])})
    assert readings(path, schema, delimiter=";", decimal=",") == Counter({("3", "0"): 1, ("5", "1"): 1})
    assert rows_of(path, delimiter=";", header=False)[0] == ["x", "y"]
    assert read_names(path, Dialect(delimiter=";", header=False)) == ["column1", "column2"]
    assert rows_of(written(tmp_path / "rows.tsv", text.replace(";", "\t"))) == [["1,5", "a,b"], ["2,5", "c"]]
    packed = tmp_path / "rows.csv.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert rows_of(str(packed), delimiter=";") == [["1,5", "a,b"], ["2,5", "c"]]
    squeezed = tmp_path / "rows.csv.zst"
    squeezed.write_bytes(pa.compress(text.encode(), codec="zstd", asbytes=True))
    assert rows_of(str(squeezed), delimiter=";") == [["1,5", "a,b"], ["2,5", "c"]]


@pytest.mark.parametrize(
    "given",
    [{"delimiter": ";;"}, {"delimiter": '"'}, {"delimiter": "a"}, {"delimiter": 3}, {"decimal": ";"},
     {"encoding": "utf-7"}, {"encoding": "iso2022_jp"}, {"encoding": "rot13"}, {"encoding": "nothing"},
     {"encoding": 8}, {"header": "no"}],
)  # fmt: skip
def test_dialects_that_cannot_be_are_refused(given):
    with pytest.raises(InvalidParameter, match=next(iter(given))):
        Dialect(**given)
    with pytest.raises(InvalidParameter):
        Session("rows.csv", Schema(columns={}), ledger=":memory:", budget=PureDP(1.0), **given)


def test_a_decimal_comma_needs_another_delimiter(tmp_path):
    with pytest.raises(InvalidParameter, match="is the delimiter too"):
        open_source(written(tmp_path / "rows.csv", "x\n1\n"), decimal=",")


# ---- one row never changes how others are read ---------------------------------------------------


def test_a_row_that_begins_like_a_comment_is_a_row(tmp_path):
    body = "".join(f"{i},{i % 7},red#ff0000\n" for i in range(1000))
    labels = Categories(["red#ff0000", "red"])
    for extra, expected in (("", [1000, 0]), ("#1000,3,red\n", [1000, 1])):
        assert counted(written(tmp_path / "rows.csv", "id,n,x\n" + body + extra), labels) == expected


@pytest.mark.parametrize("piece", [8, 1 << 24])
def test_a_row_that_begins_with_a_byte_order_mark_keeps_it_wherever_it_stands(piece, tmp_path, monkeypatch):
    """Arrow drops a mark before what it is given, so whose mark it is must not depend on where a piece begins."""
    monkeypatch.setattr(read, "_PIECE", piece)
    row, other = ["\ufeffann", "1"], ["bob", "2"]
    for rows in ([row], [row, other], [other, row], [row, row, other]):
        text = "id,x\n" + "".join(",".join(one) + "\n" for one in rows)
        assert rows_of(written(tmp_path / "rows.csv", text)) == rows
        assert rows_of(written(tmp_path / "rows.csv", "\ufeff" + text)) == rows


def test_a_row_with_a_field_too_many_never_becomes_the_header(tmp_path):
    body = "".join(f"{i},a\n" for i in range(1000))
    with pytest.raises(SourceError, match="line 1002 has 3 fields, not 2"):
        open_source(written(tmp_path / "rows.csv", "id,x\n" + body + "1,a,b\n"))


@pytest.mark.parametrize(
    ("column", "stranger", "labels", "expected"),
    [
        ([1.0] * 50, "n/a", Categories([1, 2, 3]), [50, 0, 0]),
        ([0, 1] * 25, True, Categories([0, 1]), [25, 25]),
        ([1.5] * 50, "x", Categories(["1.5"]), [0]),
        ([True] * 50, "x", Categories(["true", "false"]), [50, 0]),
        ([2**60] * 50, None, Categories([2**60]), [0]),  # floats, wherever a value is missing
    ],
)
def test_types_are_not_inferred_from_other_rows(column, stranger, labels, expected):
    alone = counted(pd.DataFrame({"x": pd.Series(column)}), labels)
    together = counted(pd.DataFrame({"x": pd.Series([*column, stranger], dtype=object)}), labels)
    own = counted(pd.DataFrame({"x": pd.Series([stranger], dtype=object)}), labels)
    assert alone == expected
    assert together == [one + other for one, other in zip(alone, own, strict=True)]


def test_unlisted_labels_and_ids_keep_their_text_beside_others():
    schema = Schema(columns={"x": PrivateLabels()}, unit=PrivacyUnit("u", contribution=Contribution(rows=1)))
    floats = [7.0, 8.0, 1.5, 1e30]
    alone = readings(pd.DataFrame({"u": floats, "x": floats}), schema)
    assert alone == Counter({("7", "7"): 1, ("8", "8"): 1})
    mixed = readings(pd.DataFrame({"u": [*floats, "n/a"], "x": [*floats, "n/a"]}), schema)
    assert mixed - alone == Counter({("n/a", "n/a"): 1})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e30, 1.5, None])
def test_one_odd_float_is_dropped_and_no_error(value):
    schema = Schema(columns={"x": Categories([1, 2])}, unit=PrivacyUnit("u", contribution=Contribution(rows=1)))
    rows = pa.table({"u": [1.0, 2.0, value], "x": [1.0, 2.0, value]})
    assert totals(take(open_source(rows), schema), Selected(by=("x",))).counts.tolist() == [1, 1]


@pytest.mark.parametrize("value", [2**63, 2**64 - 1, 10**30, 10**5000, -(10**400)], ids=lambda one: one.bit_length())
def test_huge_whole_numbers_are_clipped(value):
    schema = Schema(columns={"x": Bounds(-1, 5, grid=1)})
    frame = pd.DataFrame({"x": pd.Series([1, value], dtype=object)})
    assert readings(frame, schema) == Counter({("1",): 1, ("5" if value > 0 else "-1",): 1})


def test_unsigned_and_decimal_columns_of_frames_are_exact():
    big = 2**64 - 1
    assert counted(pa.table({"x": pa.array([big, 1], pa.uint64())}), Categories([big, 1])) == [1, 1]
    wide = pa.array([decimal.Decimal(10) ** 40, decimal.Decimal("7.00")], pa.decimal256(60, 2))
    assert counted(pa.table({"x": wide}), Categories([10**40, 7])) == [1, 1]
    for narrow in (pa.array([decimal.Decimal("7.00")], pa.decimal128(10, 2)), pa.array([7], pa.uint8())):
        assert counted(pa.table({"x": narrow}), Categories(["7"])) == [1]


def test_a_null_in_a_categorical_is_missing():
    frame = pd.DataFrame({"x": pd.Categorical(["a", None, "b", "a"])})
    assert counted(frame, Categories(["a", "b", "none"], nulls="=none")) == [2, 1, 1]
    arrow = pa.table({"x": pa.array(["a", None, "b"]).dictionary_encode()})
    assert counted(arrow, Categories(["a", "b", "none"], nulls="=none", unknown="=a")) == [1, 1, 1]


def test_labels_match_what_pandas_writes():
    frame = pd.DataFrame({"x": [1.0, None, 2.0]})
    assert counted(frame, Categories([1, 2])) == [1, 1]
    text = io.StringIO(frame.to_csv(index=False))
    assert counted(pd.read_csv(text, dtype=str), Categories([1, 2])) == [1, 1]


# ---- parse(D + row) = parse(D) + parse(row) ------------------------------------------------------

USES = Schema(
    columns={"number": Bounds(-2, 10, grid=0.25), "label": Categories(["a", "1", "é"], unknown="=é"),
             "whole": Categories([0, 1, 2]), "truth": Categories([True, False]), "id": PrivateLabels()}
)  # fmt: skip


def csv_of(rows):
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([list(USES.columns), *rows])
    return text.getvalue()


def random_field(draw):
    """A text from the list, a random text, or (rarely) one longer than DuckDB's own limit for a whole line."""
    if draw.random() < 0.0002:
        return draw.choice(["9", "x", '"']) * 2_200_000
    if draw.random() < 0.5:
        return draw.choice(HOSTILE_TEXTS) or ""
    return "".join(draw.choice(ODD + "0123456789.e-") for _ in range(draw.randint(0, 6)))


def test_a_row_of_a_file_is_read_by_itself(tmp_path):
    draw, encoding = random.Random(7), "utf-16"
    rows = [[random_field(draw) for _ in USES.columns] for _ in range(16_000)]
    half = readings(written(tmp_path / "a.csv", csv_of(rows[:8_000])), USES)
    rest = readings(written(tmp_path / "b.csv", csv_of(rows[8_000:])), USES)
    whole = readings(written(tmp_path / "whole.csv", csv_of(rows).encode(encoding)), USES, encoding=encoding)
    assert whole == half + rest
    assert whole.total() == 16_000
    for row in rows[:6]:  # and one row at a time
        alone = readings(written(tmp_path / "row.csv", csv_of([row])), USES)
        assert readings(written(tmp_path / "more.csv", csv_of([*rows[:200], row])), USES) == alone + readings(
            written(tmp_path / "less.csv", csv_of(rows[:200])), USES
        )


def object_frame(rows):
    return pd.DataFrame(
        {name: pd.Series(values, dtype=object) for name, values in zip(USES.columns, rows, strict=True)}
    )


def stored_alone(value):
    """A column of one value, of the type that pandas gives it."""
    huge = isinstance(value, int) and abs(value) > 2**1000  # which pandas itself cannot store
    broken = isinstance(value, str) and not value.isascii() and value != value.encode("utf-8", "replace").decode()
    return pd.Series([value], dtype=object if huge or broken else None)


def test_a_value_of_a_frame_is_read_by_itself():
    draw = random.Random(8)
    columns = [[draw.choice(OBJECTS) for _ in range(6_000)] for _ in USES.columns]
    whole = readings(object_frame(columns), USES)
    parts = [readings(object_frame([values[i::4] for values in columns]), USES) for i in range(4)]
    assert whole == sum(parts, Counter())
    assert whole.total() == 6_000
    for position in range(12):  # a frame of one row, whose columns pandas may store as numbers
        values = [column[position] for column in columns]
        frame = pd.DataFrame({name: stored_alone(value) for name, value in zip(USES.columns, values, strict=True)})
        expected = readings(object_frame([[value] for value in values]), USES)
        assert readings(frame, USES) == expected, values


@pytest.mark.spark
@needs_java
def test_spark_reads_the_same_rows_as_duckdb(tmp_path):
    draw = random.Random(9)
    rows = [[random_field(draw) for _ in USES.columns] for _ in range(2_000)]
    rows.append(["1", 'a "quoted" record\n' * 1_000, "x" * 2_200_000, "true", "#1"])
    path = written(tmp_path / "rows.csv", csv_of(rows))
    assert readings(path, USES, engine="spark") == readings(path, USES)


# ---- the same meaning from every kind of source --------------------------------------------------


def texts_alone():
    return {"texts": HOSTILE_TEXTS}


def test_hostile_values_in_a_csv_file(tmp_path):
    fields = hostile_fields(texts_alone())
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerows([fields, *zip(*fields.values(), strict=True)])
    check_values(open_source(written(tmp_path / "rows.csv", text.getvalue())), texts_alone())


@pytest.mark.parametrize("kind", ["arrow", "batch", "parquet", "polars", "lazy", "duckdb", "ibis", "views"])
def test_hostile_values_in_typed_columns(kind, tmp_path):
    columns = hostile_columns()
    table = pa.table({name: pa.array(values) for name, values in hostile_fields(columns).items()})
    if kind == "parquet":
        pq.write_table(table, tmp_path / "rows.parquet")
        data = open_source(tmp_path / "rows.parquet")
    elif kind in ("duckdb", "ibis"):
        connection = duckdb.connect()
        connection.register("rows", table)
        connection.execute("CREATE TABLE hostile AS SELECT * FROM rows")
        backend = ibis.duckdb.from_connection(connection)
        data = open_source(connection, table="hostile") if kind == "duckdb" else open_source(backend.table("hostile"))
    elif kind == "views":
        views = [
            column.cast(pa.string_view()) if pa.types.is_string(column.type) else column for column in table.columns
        ]
        data = open_source(pa.table(views, names=table.column_names))
    else:
        frame = pl.from_arrow(table)
        data = open_source(
            {"arrow": table, "batch": table.to_batches()[0], "polars": frame, "lazy": frame.lazy()}[kind]
        )
    check_values(data, columns)


@pytest.mark.parametrize("kind", ["objects", "typed", "categorical"])
def test_hostile_values_in_pandas(kind):
    if kind == "objects":
        frame = pd.DataFrame(
            {name: pd.Series(list(values), dtype=object) for name, values in hostile_fields({"mixed": OBJECTS}).items()}
        )
        columns = {"mixed": [float(one) if type(one) is int and 2**53 <= abs(one) < 2**64 else one for one in OBJECTS]}
    else:
        columns = hostile_columns()
        kinds = {"texts": object, "floats": float, "wholes": "Int64", "truths": "boolean", "place": int}
        frame = pd.DataFrame({
            name: pd.Series(list(values), dtype=kinds[name.split("_")[0]])
            for name, values in hostile_fields(columns).items()
        })  # fmt: skip
        if kind == "categorical":
            frame = frame.astype(dict.fromkeys([name for name in frame if name != "place"], "category"))
    check_values(open_source(frame), columns)


@pytest.mark.spark
@needs_java
def test_hostile_values_on_spark(tmp_path):
    columns = hostile_columns()
    table = pa.table({name: pa.array(values) for name, values in hostile_fields(columns).items()})
    check_values(open_source(table, engine="spark"), columns)
    pq.write_table(table, tmp_path / "rows.parquet")
    check_values(open_source(str(tmp_path / "rows.parquet"), engine="spark"), columns)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1, "1"), (1.0, "1"), (-0.0, "0"), (True, "true"), (2.0**53 - 1, "9007199254740991"),
     (2.0**53, "9007199254740992.0e+00"),
     (2.0**60, "1.152921504606847e+18"), (1.5, "1.5e+00"), (float("-inf"), "-1e+999"), (decimal.Decimal("7.00"), "7"),
     (decimal.Decimal("1.50"), "1.50"), (b"a\xff", "a\\xff"), ("\ud800", "\\ud800"), (None, None),
     (pd.NaT, None), (float("nan"), None)],
)  # fmt: skip
def test_canonical_texts(value, text):
    assert canonical_text(value) == text


class Stubborn:
    def __str__(self):
        raise RuntimeError("no text")


def test_an_object_that_cannot_be_shown_is_missing():
    assert canonical_text(Stubborn()) is None


# ---- the right files, and nothing else -----------------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_path_that_exists_is_never_a_pattern(suffix, engine, tmp_path):
    for name, value in (("g[1]", "a"), ("g1", "b")):
        table = pa.table({"x": [value]})
        target = tmp_path / f"{name}.{suffix}"
        pq.write_table(table, target) if suffix == "parquet" else written(target, f"x\n{value}\n")
    labels = Categories(["a", "b"])
    assert counted(str(tmp_path / f"g[1].{suffix}"), labels, engine=engine) == [1, 0]
    assert counted(str(tmp_path / f"g*.{suffix}"), labels, engine=engine) == [1, 1]
    folder = tmp_path / "x=b"
    folder.mkdir()
    (tmp_path / f"g[1].{suffix}").rename(folder / f"g.{suffix}")
    assert counted(str(folder / f"g.{suffix}"), labels, engine=engine) == [1, 0]
    assert counted(str(tmp_path / "*" / f"g.{suffix}"), labels, engine=engine) == [1, 0]


def test_columns_of_several_files_are_matched_by_name(tmp_path):
    written(tmp_path / "a1.csv", "x,y\na,b\n")
    written(tmp_path / "a2.csv", "y,x\nb,a\n")
    assert counted(str(tmp_path / "a*.csv"), Categories(["a", "b"])) == [2, 0]
    written(tmp_path / "a3.csv", "x,z\nSECRET,b\n")
    with pytest.raises(SourceError, match=r"a3.csv.*names other columns"):
        open_source(str(tmp_path / "a*.csv"))
    for name, table in (("1", {"x": ["a"], "y": ["b"]}), ("2", {"y": ["b"], "x": ["a"]})):
        pq.write_table(pa.table(table), tmp_path / f"{name}.parquet")
    assert counted(str(tmp_path / "*.parquet"), Categories(["a", "b"])) == [2, 0]
    pq.write_table(pa.table({"x": [1], "y": ["b"]}), tmp_path / "3.parquet")
    with pytest.raises(SourceError, match="other columns"):
        open_source(str(tmp_path / "*.parquet"))


def test_a_folder_of_files_is_read_whole(tmp_path):
    folder = tmp_path / "rows.parquet"
    folder.mkdir()
    for part in ("a", "b"):
        pq.write_table(pa.table({"x": [part]}), folder / f"part-{part}.parquet")
    (folder / "_SUCCESS").touch()
    assert counted(str(folder), Categories(["a", "b"])) == [1, 1]


def test_two_columns_of_one_name_are_refused(tmp_path):
    pq.write_table(pa.table([["a"], ["b"]], names=["x", "X"]), tmp_path / "rows.parquet")
    for source in (
        str(tmp_path / "rows.parquet"),
        pa.table([["a"], ["b"]], names=["x", "x"]),
        pd.DataFrame([["a", "b"]], columns=[1, "1"]),
    ):
        with pytest.raises(InvalidParameter, match="two columns of one name"):
            open_source(source)


def test_decimals_too_wide_for_engines_are_refused_in_parquet(tmp_path):
    pq.write_table(
        pa.table({"x": pa.array([decimal.Decimal(10) ** 40], pa.decimal256(60, 2))}), tmp_path / "rows.parquet"
    )
    with pytest.raises(WrongType, match="more than 38 digits"):
        open_source(tmp_path / "rows.parquet")


def test_the_embedded_engine_reads_nothing_but_its_files(tmp_path):
    other = written(tmp_path / "other.csv", "x\nSECRET\n")
    data = open_source(written(tmp_path / "rows.csv", "x\na\n"))
    for statement in (
        f"SELECT * FROM read_csv('{other}')",
        f"COPY (SELECT 1) TO '{tmp_path / 'out.csv'}'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
    ):
        with pytest.raises(duckdb.Error):
            data.connection.con.execute(statement)


NOTEBOOK = """
import sys, types
sys.modules["ipywidgets"] = None
sys.modules["IPython"] = types.ModuleType("IPython")
sys.modules["IPython"].get_ipython = lambda: types.SimpleNamespace(config={"IPKernelApp": {}})
import duckdb
try:
    duckdb.connect().execute("SET enable_progress_bar = false")
except duckdb.InvalidInputException:
    print("refused")
from discreet import *
session = Session("rows.csv", Schema(columns={"x": Categories(["a", "b"])}), ledger=":memory:", budget=PureDP(2.0))
print(session.count(epsilon=1.0, by="x").value.shape)
"""
"""What DuckDB looks at to know a Jupyter kernel; the first line printed says that it took this for one."""


def test_questions_are_answered_in_a_notebook_without_widgets(tmp_path):
    written(tmp_path / "rows.csv", "x\na\n")
    assert output([sys.executable, "-c", NOTEBOOK], cwd=tmp_path).splitlines() == ["refused", "(2,)"]


def test_an_expression_over_a_table_is_a_source():
    backend = ibis.duckdb.connect()
    table = backend.create_table("t", pa.table({"x": ["a", "b", "b"]}))
    assert counted(table.filter(table.x == "b"), Categories(["a", "b"])) == [0, 2]
    session = Session(table.filter(table.x == "b"), Schema(columns={}), ledger=":memory:", budget=PureDP(1000.0))
    # Laplace noise of scale 0.001 is beyond 0.5 with probability exp(-500).
    assert abs(session.count(epsilon=1000.0).value - 2) < 0.5


def test_engines_that_were_never_checked_are_refused():
    backend = ibis.sqlite.connect()
    backend.create_table("t", pa.table({"x": [1]}))
    with pytest.raises(
        InvalidParameter, match=r"engine = 'sqlite': is not one that discreet reads rows on. Use DuckDB"
    ):
        open_source(backend, table="t")


STOPPED = """
import os, signal, threading
from discreet.core.rows.engines import embedded, guarded
connection = embedded(None, [])
query = "SELECT sum(sqrt(range)) FROM range(1000000000000)"  # hours
try:
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    guarded("people.csv", lambda: connection.con.execute(query).fetchall())
except KeyboardInterrupt:
    print("stopped")
"""


def test_stopping_the_program_in_a_query_is_no_fault_of_the_source():
    assert output([sys.executable, "-W", "error", "-c", STOPPED]) == "stopped\n"


# ---- many labels ---------------------------------------------------------------------------------


def test_twenty_thousand_labels_are_joined():
    labels = [f"label {i}" for i in range(20_000)]
    rows = pa.table({"x": [labels[i * 7 % 20_100 % 20_000] for i in range(60_000)] + ["unknown"] * 5})
    found = counted(rows, Categories(labels))
    expected = Counter(rows["x"].to_pylist())
    assert found == [expected[label] for label in labels]


# ---- no private value in an error ----------------------------------------------------------------


@pytest.mark.parametrize("values", [["41", "52", "SECRET"], [41.0, None, float("nan")], ["", "41", None]])
@pytest.mark.parametrize("distance", [AbsoluteDistance((0, 125)), DiscreteDistance()])
def test_distances_take_any_value(values, distance):
    scores = distance.mean_distances(pa.array(values, from_pandas=False).to_pylist())
    assert scores.shape == (3,)
    assert ((scores >= 0) & (scores <= 1)).all()


def test_describe_shows_names_only(tmp_path, capsys):
    path = written(tmp_path / "a.csv", "name;diagnosis;fee\np1;d1;34,50\np2;d2;1,5\n")
    for arguments in ([path], [path, "--delimiter", "|"]):
        with pytest.raises(SystemExit):
            main(["describe", *arguments])
        printed = capsys.readouterr()
        assert "delimiter" in printed.err
        assert "p1" not in printed.out + printed.err
    main(["describe", path, "--delimiter", ";", "--decimal", ","])
    printed = capsys.readouterr().out
    assert 'delimiter = ";"' in printed
    assert '[schema.columns."diagnosis"]' in printed
    assert "p1" not in printed


@pytest.mark.parametrize(
    "content",
    [
        "p1,34,d1\np2,35,d2\n",
        "p1,2020-01-31\n",
        "p1,p1@example.org\n",
        "p1,\n",
        "p1,p1\n",
        "p1\t34\n",
    ],
)
def test_describe_refuses_what_looks_like_data(content, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["describe", written(tmp_path / "rows.csv", content)])
    printed = capsys.readouterr()
    assert "p1" not in printed.out + printed.err


def test_reading_needs_no_slow_imports(tmp_path):
    path = written(tmp_path / "rows.csv", "u,x\n1,a\n1,b\n2,a\n")
    code = (
        "import sys; from discreet import *; unit = PrivacyUnit('u', contribution=Contribution(total=1)); "
        f"s = Session({path!r}, Schema(columns={{'x': Categories(['a', 'b'])}}, unit=unit), "
        "ledger=':memory:', budget=PureDP(2.0)); s.count(epsilon=1.0, by='x'); print('scipy.special' in sys.modules); "
        "s.profile(epsilon=1.0); print('pandas' in sys.modules)"
    )
    assert output([sys.executable, "-c", code]).split() == ["False", "False"]


def test_messages_of_refused_sources_name_a_fix():
    with pytest.raises(DiscreetError, match=r"Pass a frame, a path"):
        open_source(object())


def test_a_long_record_is_one_of_missing_values_wherever_it_stands(tmp_path, monkeypatch):
    """Its own length decides, and not the lengths of the records before it, which say where a piece ends."""
    draw = random.Random(1)
    for _ in range(100):
        fields = [draw.choice(["x" * 40, "x", '"' + "y\n," * 9 + '"""', '"z"', '"' + "z" * 26 + '"']) for _ in range(5)]
        path = written(tmp_path / "rows.csv", "a,b\n" + "".join(f"{field},1\n" for field in fields))
        plain = [field.strip('"').replace('""', '"') for field in fields]
        wanted = [
            ("", "") if len(f"{field},1") >= 30 else (value, "1") for field, value in zip(fields, plain, strict=True)
        ]
        monkeypatch.setattr(read, "_LONGEST", 30)
        for size in (7, 16, 64, 1000):
            monkeypatch.setattr(read, "_PIECE", size)
            parts = read._CsvFile(str(path), Dialect()).parts(["a", "b"])
            assert [tuple(row.values()) for part in parts for row in part.to_pylist()] == wanted


def test_a_header_may_not_be_that_long(tmp_path, monkeypatch):
    monkeypatch.setattr(read, "_LONGEST", 30)
    with pytest.raises(SourceError, match="more than 30 bytes"):
        read_names(str(written(tmp_path / "rows.csv", "a" * 40 + ",b\n1,2\n")), Dialect())
