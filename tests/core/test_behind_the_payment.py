"""What one person's value decides costs nothing to nobody: errors, types and words depend on declarations alone."""

from __future__ import annotations

import datetime
import decimal
import gc
import re
import shutil
import time
from contextlib import suppress

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from discreet import (
    ApproxDP,
    Bounds,
    Categories,
    Contribution,
    Dates,
    Formula,
    GaussianDP,
    Ledger,
    PrivacyUnit,
    PrivateLabels,
    PureDP,
    Related,
    Schema,
    Session,
)
from discreet.core.errors import InvalidParameter, ReleaseFailed, SourceError, WrongType
from discreet.core.rows.read import canonical_text
from discreet.mechanisms import PoissonSample
from discreet.publish.files import RunLog, write_anchor
from discreet.questions.count import CountQuestion
from discreet.questions.proportion import ProportionQuestion
from discreet.questions.running_total import RunningTotalQuestion
from discreet.questions.sum import SumQuestion

SHARP = PureDP(50.0)
needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="a local Spark needs Java")


def session(rows, schema, budget=None, **options):
    return Session(rows, schema, ledger=":memory:", budget=budget or PureDP(1000.0), **options)


# ---- one outcome -----------------------------------------------------------------------------------------------------


class Hostile:
    """A value that fails in any way it can."""

    def __str__(self):
        raise RuntimeError("47 years old")

    __repr__ = __str__


def test_rows_that_cannot_be_read_are_paid_for_and_say_the_same_words(tmp_path):
    good, bad = tmp_path / "good.csv", tmp_path / "bad.csv"
    good.write_text("x\n1\n")
    bad.write_text('x\n1\n"never closed\n')
    words = set()
    for path in (bad, tmp_path / "bad2.csv"):
        (tmp_path / "bad2.csv").write_text("x\n1\n2,3\n")
        asked = session(str(path), Schema(columns={"x": Bounds(0, 10, grid=1)}))
        with pytest.raises(ReleaseFailed) as failure:
            asked.mean("x", epsilon=1.0, name="m")
        words.add(str(failure.value))
        assert asked.ledger.spent() == PureDP(1.0)
        with pytest.raises(ReleaseFailed):
            asked.mean("x", epsilon=1.0, name="m")
        assert asked.ledger.spent() == PureDP(1.0)  # an outage is paid for once
        with pytest.raises(SourceError, match=r"line [23] "):
            asked.check_source()
    assert len(words) == 1


@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        ("missing.csv", {}, "no such file"),
        (pa.table({"y": [1]}), {}, "has no column 'x'"),
        (pa.table({"x": [1]}), {"engine": 7}, "is not an engine"),
        (pl.DataFrame({"y": [1]}).lazy(), {}, "has no column 'x'"),
    ],
)
def test_what_headers_and_settings_tell_is_refused_for_nothing(source, options, words):
    asked = session(source, Schema(columns={"x": Bounds(0, 10, grid=1)}), **options)
    with pytest.raises((SourceError, InvalidParameter), match=words):
        asked.mean("x", epsilon=1.0)
    assert asked.ledger.spent() == PureDP(0.0)


def test_types_that_a_catalogue_declares_are_refused_for_nothing(tmp_path):
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table({"x": [datetime.date(2020, 1, 1)]}), path)
    asked = session(str(path), Schema(columns={"x": Bounds(0, 10, grid=1)}))
    with pytest.raises(InvalidParameter, match="is of type date"):
        asked.mean("x", epsilon=1.0)
    assert asked.ledger.spent() == PureDP(0.0)


# ---- running totals --------------------------------------------------------------------------------------------------


def test_running_totals_refuse_what_a_related_table_can_move():
    months = Categories(["a", "b"])
    visits = Related(id="p", rows=1, columns={"month": months, "cost": Bounds(0, 9, grid=1)})
    unit = PrivacyUnit("p", contribution=Contribution(rows=1))
    schema = Schema(columns={"own": months}, unit=unit, related={"visits": visits})
    filtered = Schema(columns={"own": months}, unit=unit, related={"visits": visits}, where=Formula("cost > 1"))
    mu = GaussianDP(1.0)
    for facts, over, column in ((schema, "month", None), (schema, "own", "cost"), (filtered, "own", None)):
        with pytest.raises(InvalidParameter, match="comes from a related table"):
            RunningTotalQuestion(facts, over, guarantee=mu, column=column, period="a")
    RunningTotalQuestion(schema, "own", guarantee=mu, period="a")


# ---- formulas and sums -----------------------------------------------------------------------------------------------


WIDE = {"wei": Bounds(0, 1e24, grid=1e15), "age": Bounds(0, 120, grid=1)}


@pytest.mark.parametrize("more", [0.0, 1e23, 1e24, 1e30, float("inf")])
def test_filters_and_formulas_over_wide_columns_answer_for_every_row(more):
    rows = pa.table({"wei": [1e3] * 89 + [more], "age": [30.0] * 89 + [47.0]})
    spike = Formula("1e20 / (1 + 1e6 * abs(age - 47))")
    schema = Schema(columns={**WIDE, "spike": Bounds(0, 1e24, grid=1e15, value=spike)}, where=Formula("wei >= 0"))
    asked = session(rows, schema)
    assert asked.count(guarantee=SHARP).value == 90
    assert np.isfinite(asked.sum("spike", guarantee=SHARP).value)


def test_wide_columns_are_compared_by_their_numbers():
    rows = pa.table({"wei": [0.0, 1e15, 5e23, 1e24]})
    for text, count in (("wei > 0", 3), ("wei >= 5e23", 2), ("wei == 1e24", 1)):
        schema = Schema(columns={"wei": WIDE["wei"]}, where=Formula(text))
        assert session(rows, schema).count(guarantee=SHARP).value == count


def test_bounds_whose_powers_are_no_floats_are_refused_where_they_are_declared():
    for low, high, grid in ((0, 1e61, 1e50), (-1e300, 0, 1e290), (0, 1e-61, 1e-62)):
        with pytest.raises(InvalidParameter, match="must lie within"):
            Bounds(low, high, grid=grid)


def test_a_sum_beyond_the_largest_float_is_saturated():
    from discreet import release
    from discreet.core.sensitivity import Exact, Sensitivity
    from discreet.mechanisms import Laplace

    ledger = Ledger(":memory:", budget=PureDP(10.0))
    for value in (10**308 * 17, 10**308 * 18, -(10**400)):
        found = release(Exact(value, Sensitivity(l1=1e300)), Laplace(1e300), ledger=ledger)
        assert np.isfinite(found.value)
    both = Exact(np.array([10**400, 3], dtype=object), Sensitivity(l1=1.0))
    assert float(both.value[0]) == np.finfo(float).max
    assert both.value[1] == 3


# ---- types -----------------------------------------------------------------------------------------------------------


CITIES = [1] * 500 + [2] * 400


@pytest.mark.parametrize("make", [pd.DataFrame, lambda rows: pl.DataFrame(rows, strict=False), pa.table])
def test_released_labels_are_text_whatever_others_hold(make):
    found = []
    for more in ([], ["n/a"]):
        values = [*CITIES, *more] if make is pd.DataFrame or not more else [*map(str, CITIES), *more]
        asked = session(make({"city": values}), Schema(columns={"city": PrivateLabels()}), ApproxDP(10.0, 1e-3))
        found.append(asked.common_labels("city", epsilon=5.0, delta=1e-4).labels)
    assert found == [("1", "2"), ("1", "2")]


def test_released_labels_declare_a_column_of_numbers():
    asked = session(pd.DataFrame({"city": CITIES}), Schema(columns={"city": PrivateLabels()}), ApproxDP(100.0, 1e-3))
    found = asked.common_labels("city", epsilon=5.0, delta=1e-4)
    counts = asked.declaring(city=found.categories()).count(epsilon=50.0, delta=1e-4, by="city")
    assert counts.value.tolist() == [500, 400]


DAYS = {"day": Dates("2020-01-01", "2020-12-31")}
STAMPS = [np.datetime64("2020-03-01T10:00:00", "ns"), np.datetime64("2020-05-02T23:30:00", "ns")]


@pytest.mark.parametrize("stranger", [None, "n/a", "2020-07-01", datetime.date(2020, 7, 1), [1, 2], Hostile(), 7])
def test_dates_mean_the_same_beside_any_other_value(stranger):
    schema = Schema(columns=DAYS)

    def usable(values):
        return round(
            session(pd.DataFrame({"day": pd.Series(values, dtype=object)}), schema).count(guarantee=SHARP, by=()).value
        )

    def days(values):
        frame = pd.DataFrame({"day": pd.Series(values, dtype=object)})
        bins = Schema(columns={**DAYS, "m": Categories(list(range(1, 13)), value=Formula("month(day)"))})
        return session(frame, bins).count(guarantee=SHARP, by="m").value

    together, own = days([*STAMPS, stranger]), days([stranger])
    assert together.tolist() == (days(STAMPS) + own).tolist()
    typed = session(
        pd.DataFrame({"day": pd.Series(STAMPS)}),
        Schema(columns={**DAYS, "m": Categories(list(range(1, 13)), value=Formula("month(day)"))}),
    )
    assert typed.count(guarantee=SHARP, by="m").value.tolist() == days(STAMPS).tolist()
    assert usable([*STAMPS, stranger]) == 3


def test_an_empty_column_of_dates_is_answered_as_one_with_dates_is():
    schema = Schema(columns=DAYS)
    for values in ([np.nan, np.nan], [np.nan, "2020-05-01"], [1.0, 2.0]):
        asked = session(pd.DataFrame({"day": values}), schema)
        assert np.isfinite(asked.quantile("day", 0.5, epsilon=1.0).value).all()


NESTED = [[1, 2], np.array([1, 2]), {"a": 1}, (1,), Hostile(), 2**2000, decimal.Decimal("1E+5000"), pd.Timestamp.max]


@pytest.mark.parametrize("place", range(len(NESTED)))
def test_cells_that_are_no_single_value_cost_nobody_else(place):
    one = NESTED[place]
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "odd": pd.Series([1, 1, one], dtype=object)})
    undeclared = session(frame, Schema(columns={"x": Bounds(0, 10, grid=1)}))
    assert undeclared.sum("x", guarantee=SHARP).value == pytest.approx(6)
    declared = session(frame, Schema(columns={"odd": Categories([1, 2])}))
    assert declared.count(guarantee=SHARP, by="odd").value.tolist() == [2, 0]


def test_undeclared_columns_are_not_converted(monkeypatch):
    frame = pd.DataFrame({"x": [1.0], "odd": [Hostile()]})
    seen = []
    monkeypatch.setattr(Hostile, "__str__", lambda self: seen.append(1) or "s")
    session(frame, Schema(columns={"x": Bounds(0, 10, grid=1)})).sum("x", guarantee=SHARP)
    assert seen == []


def test_far_and_nested_timestamps_are_missing():
    far = pa.array([[2**62], [0]], pa.list_(pa.timestamp("us")))
    table = pa.table({"t": far, "u": pa.array([2**62, 0], pa.timestamp("us")), "x": [1.0, 2.0]})
    columns = {"x": Bounds(0, 10, grid=1), "u": Dates("1970-01-01", "1970-12-31")}
    for schema in (Schema(columns=columns), Schema(columns={**columns, "t": Categories(["a"])})):
        assert session(table, schema).sum("x", guarantee=SHARP).value == pytest.approx(3)


IDS = [2**53 + 1 + 2 * place for place in range(999)]


def test_ids_count_alike_whether_somebody_has_none():
    unit = PrivacyUnit("id", contribution=Contribution(total=1))
    schema = Schema(columns={}, unit=unit)
    for ids, counts in ((IDS, [0, 0]), (list(range(999)), [999, 999]), ([str(one) for one in IDS], [999, 999])):
        found = [
            session(pd.DataFrame({"id": values}), schema).count(guarantee=SHARP).value for values in (ids, [*ids, None])
        ]
        assert found == counts
    for frame in (pd.DataFrame({"id": pd.array(IDS, dtype="Int64")}), pa.table({"id": IDS}), pl.DataFrame({"id": IDS})):
        assert session(frame, schema).count(guarantee=SHARP).value == 999  # these hold gaps by themselves


def test_a_reader_that_can_be_read_once_is_read_once():
    rows = pa.table({"x": [40.0] * 2000, "p": list(range(2000))})
    unit = PrivacyUnit("p", contribution=Contribution(rows=1))
    schema = Schema(columns={"x": Bounds(0, 100, grid=1)}, unit=unit)
    asked = session(pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches()), schema)
    asked.profile(epsilon=6.0, columns=["x"])
    assert asked.sum("x", guarantee=SHARP).value == pytest.approx(80_000, abs=50)
    assert asked.declaring(x=Bounds(0, 50, grid=1)).sum("x", guarantee=SHARP).value == pytest.approx(80_000, abs=50)


def test_zoned_timestamps_have_the_day_of_utc_in_frames_and_files(tmp_path, monkeypatch):
    times = pd.date_range("2020-03-01 00:30", periods=3, freq="D", tz="Europe/Oslo")  # the evening before, at UTC
    frame = pd.DataFrame({"day": times})
    frame.to_parquet(tmp_path / "rows.parquet")
    values = [pd.DataFrame({"day": pd.Series(list(times), dtype=object)}), pl.from_pandas(frame), frame]
    months = Schema(columns={**DAYS, "m": Categories([2, 3], value=Formula("month(day)"))})
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'Asia/Tokyo'")
    connection.execute(f"CREATE TABLE t AS FROM '{tmp_path}/rows.parquet'")
    sources = [*((one, {}) for one in [*values, str(tmp_path / "rows.parquet")]), (connection, {"table": "t"})]
    for source, options in sources:
        assert session(source, months, **options).count(guarantee=SHARP, by="m").value.tolist() == [1, 2]
    assert connection.execute("SELECT current_setting('TimeZone')").fetchall() == [("Asia/Tokyo",)]


@pytest.mark.parametrize(
    ("kind", "ids", "more"), [("varchar COLLATE nocase", "Ann bob cy", "ann"), ("kinds", "ann bob", "zoe")]
)
@pytest.mark.parametrize("by_ibis", [False, True])
def test_ids_have_the_order_of_their_bytes_whatever_their_type(kind, ids, more, by_ibis):
    """An ENUM has an order of its own; a collation takes two ids for one."""
    unit = PrivacyUnit("who", contribution=Contribution(total=2))
    schema = Schema(columns={"g": Categories(["a", *(f"b{at}" for at in range(40))])}, unit=unit)
    counts = []
    for people in (ids.split(), [*ids.split(), more]):
        connection = duckdb.connect()
        connection.execute("CREATE TYPE kinds AS ENUM ('zoe', 'ann', 'bob')")
        connection.execute(f"CREATE TABLE t (who {kind}, g varchar COLLATE nocase)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(who, g) for who in people for g in "aaa"])
        source = ibis.duckdb.from_connection(connection).table("t") if by_ibis else connection
        asked = session(source, schema, **({} if by_ibis else {"table": "t"}))
        counts.append(asked.count(guarantee=SHARP, by="g").value[0])
    assert np.diff(counts) == pytest.approx(2, abs=0.9)


def test_labels_are_told_apart_by_their_bytes():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (g varchar COLLATE nocase)")
    connection.execute("INSERT INTO t VALUES ('A'), ('a')")
    for more in (1, 40):
        schema = Schema(columns={"g": Categories(["a", *(f"b{at}" for at in range(more))])})
        counts = session(connection, schema, table="t").count(guarantee=SHARP, by="g").value
        assert counts[:2].tolist() == [1, 0]


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_names_that_no_engine_can_write_are_refused_for_nothing(name):
    asked = session(pa.table({name: [1.0], "x": [1.0]}), Schema(columns={"x": Bounds(0, 9, grid=1)}))
    with pytest.raises(InvalidParameter, match="without a name, or with a zero byte"):
        asked.sum("x", guarantee=SHARP)
    assert asked.ledger.remaining() == PureDP(1000.0)


def test_rows_are_gone_from_a_callers_engine_with_their_session():
    connection = duckdb.connect()
    unit = PrivacyUnit("who", contribution=Contribution(total=1))
    rows = pa.table({"who": [1, 1, 2], "x": [1.0, 2.0, 3.0]})
    asked = session(rows, Schema(columns={"x": Bounds(0, 9, grid=1)}, unit=unit), engine=connection)
    asked.mean("x", guarantee=SHARP)
    assert connection.sql("FROM duckdb_tables()").fetchall()
    del asked
    gc.collect()
    assert connection.sql("FROM duckdb_tables()").fetchall() == []
    assert connection.sql("FROM duckdb_views() WHERE NOT internal").fetchall() == []


# ---- questions of other schemas --------------------------------------------------------------------------------------


def test_a_question_belongs_to_the_declarations_of_its_session():
    rows = pa.table({"x": [1000.0] * 5, "p": [1] * 5})
    asked = session(rows, Schema(columns={"x": Bounds(0, 1000, grid=1)}))
    narrow = SumQuestion(Schema(columns={"x": Bounds(0, 1, grid=1)}), "x", epsilon=10.0)
    unit = PrivacyUnit("p", contribution=Contribution(total=1))
    by_person = CountQuestion(Schema(columns={"x": Bounds(0, 1000, grid=1)}, unit=unit), epsilon=10.0)
    for question in (narrow, by_person):
        for way in (asked.ask, asked.exact):
            with pytest.raises(InvalidParameter, match="was made for other declarations"):
                way(question)
    same = SumQuestion(
        Schema(columns={"x": Bounds(0, 1000, grid=1)}), "x", guarantee=SHARP
    )  # another object, the same facts
    assert asked.ask(same).value == pytest.approx(5000, abs=200)
    assert asked.ledger.spent() == SHARP


def test_a_schema_cannot_be_changed_after_a_question_was_made():
    schema = Schema(columns={"x": Bounds(0, 1, grid=1), "g": Categories(["a"], aliases={"b": "a"})})
    with pytest.raises(TypeError):
        schema.columns["x"] = Bounds(0, 1000, grid=1)
    with pytest.raises(TypeError):
        schema.columns["g"].aliases["c"] = "a"
    with pytest.raises(TypeError):
        schema.related["visits"] = None


# ---- engines ---------------------------------------------------------------------------------------------------------


def test_a_connection_that_takes_ids_for_one_another_is_refused():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT unnest(['A', 'a']) AS p, 10.0 AS x")
    unit = PrivacyUnit("p", contribution=Contribution(rows=1))
    schema = Schema(columns={"x": Bounds(0, 10, grid=1)}, unit=unit)
    assert session(connection, schema, table="t").sum("x", guarantee=SHARP).value == pytest.approx(20)
    connection.execute("SET default_collation = 'nocase'")
    asked = session(connection, schema, table="t")
    with pytest.raises(InvalidParameter, match="default_collation"):
        asked.sum("x", guarantee=SHARP)
    assert asked.ledger.spent() == PureDP(0.0)


def test_engines_that_were_never_checked_are_refused_before_a_row_reaches_them(monkeypatch):
    import ibis

    engine = ibis.sqlite.connect()
    monkeypatch.setattr(type(engine), "create_table", lambda *_, **__: pytest.fail("the rows were uploaded"))
    asked = session(pa.table({"x": [1.0]}), Schema(columns={"x": Bounds(0, 1, grid=1)}), engine=engine)
    with pytest.raises(InvalidParameter, match="Use DuckDB or Spark"):
        asked.sum("x", guarantee=SHARP)


@pytest.mark.parametrize("bad", [b"\xff\xfe", b"ok\xc3"])
def test_bytes_that_are_not_text_are_a_label_like_others(bad):
    texts = pa.array([b"a", b"a", bad]).view(pa.string())
    table = pa.table({"g": texts, "x": [1.0, 1.0, 5.0]})
    schema = Schema(columns={"g": Categories(["a", "b"]), "x": Bounds(0, 10, grid=1)})
    assert session(table, schema).count(guarantee=SHARP, by="g").value.tolist() == [2, 0]
    kept = session(table, schema).omitting(PoissonSample(0.999999)).count(epsilon=50.0).value
    assert kept == pytest.approx(3, abs=2)


def test_a_proportion_of_text_and_of_numbers_is_the_same():
    for values in ([1, 1, 2], ["1", "1", "2"], [1.0, 1.0, 2.0]):
        asked = session(pd.DataFrame({"g": values}), Schema(columns={"g": Categories([1, 2])}))
        question = ProportionQuestion(asked.schema, "g", 1, guarantee=SHARP)
        assert asked.ask(question).estimate == pytest.approx(2 / 3, abs=0.1)


# ---- Spark -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.log.level": "OFF"}
    return SparkSession.builder.master("local[2]").appName("discreet").config(map=settings).getOrCreate()


@pytest.mark.spark
@needs_java
def test_spark_answers_for_texts_that_are_no_text_and_for_long_ones(spark, tmp_path):
    texts = pa.array([b"a", b"a", b"\xff\xfe", b"0" * 200_000]).view(pa.string())
    parquet.write_table(pa.table({"g": texts, "age": [48, 48, 47, 47]}), tmp_path / "rows.parquet")
    for age in (47, 48):
        schema = Schema(columns={"g": Categories([1, 2]), "age": Bounds(0, 99, grid=1)}, where=Formula(f"age == {age}"))
        asked = session(str(tmp_path / "rows.parquet"), schema, engine=spark)
        assert asked.count(guarantee=SHARP).value == 2
        assert asked.count(guarantee=SHARP, by="g").value.tolist() == [0, 0]
    unlisted = Schema(columns={"g": PrivateLabels()})
    asked = session(str(tmp_path / "rows.parquet"), unlisted, ApproxDP(10.0, 1e-3), engine=spark)
    with suppress(ReleaseFailed):  # paid for, and without a word of the text
        asked.common_labels("g", epsilon=5.0, delta=1e-4)
    assert asked.ledger.spent().epsilon == 5.0


@pytest.mark.spark
@needs_java
def test_spark_keeps_the_callers_settings_and_forgets_its_views(spark):
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        asked = session(spark.createDataFrame([(1.0,)], "x double"), Schema(columns={"x": Bounds(0, 9, grid=1)}))
        assert asked.sum("x", guarantee=SHARP).value == pytest.approx(1, abs=2)
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
        del asked
        gc.collect()
        assert [one.name for one in spark.catalog.listTables() if one.name.startswith("discreet_source")] == []
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.spark
@needs_java
def test_spark_is_refused_where_it_would_read_otherwise(spark, tmp_path):
    table = pa.table({"x": [1.0, 2.0]})
    for name in ("a.parquet", "_b.parquet"):
        parquet.write_table(table, tmp_path / name)
    schema = Schema(columns={"x": Bounds(0, 9, grid=1)})
    asked = session(f"{tmp_path}/*.parquet", schema, engine=spark)
    with pytest.raises(SourceError, match="names begin with _ or a dot"):
        asked.count(guarantee=SHARP)
    spark.conf.set("spark.sql.parser.escapedStringLiterals", "true")
    try:
        other = session(table, schema, engine=spark)
        with pytest.raises(InvalidParameter, match="escapedStringLiterals"):
            other.count(guarantee=SHARP)
    finally:
        spark.conf.set("spark.sql.parser.escapedStringLiterals", "false")
    alike = session(spark.sql("SELECT 'a' COLLATE UTF8_LCASE AS who, 1.0 AS x"), schema)
    with pytest.raises(WrongType, match="has the collation UTF8_LCASE"):
        alike.count(guarantee=SHARP)
    assert asked.ledger.spent() == other.ledger.spent() == alike.ledger.spent() == PureDP(0.0)


# ---- the first row of a file without a header ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("1,a\n", 1), ("1,a\rb\n2,b\n", 2), ("\n1,a\n", 1), ("1,a\n2,b\n", 2)],
    ids=["no row", "one row", "a carriage return", "a blank line", "two rows"],
)
def test_the_first_row_of_a_file_without_a_header_is_read_after_the_payment(tmp_path, text, count):
    (tmp_path / "rows.csv").write_text(text, newline="")
    rows = session(
        str(tmp_path / "rows.csv"), Schema(columns={"column1": Bounds(0, 9, grid=1)}), header=False, budget=PureDP(50)
    )
    rows.require("column1")
    assert rows.count(guarantee=SHARP).value == pytest.approx(count, abs=0.5)


def test_a_file_without_a_header_tells_nothing_of_its_first_row_for_nothing(tmp_path):
    refusals = set()
    for place, text in enumerate(("", "1,a\n", '1,a"b\n', "1\n")):
        (tmp_path / f"{place}.csv").write_text(text)
        asked = session(str(tmp_path / f"{place}.csv"), Schema(columns={"column2": PrivateLabels()}), header=False)
        for refused in (asked.profile, lambda asked=asked: asked.require("age")):
            with pytest.raises((InvalidParameter, SourceError)) as found:
                refused()
            refusals.add(str(found.value).replace(f"{place}.csv", "rows.csv"))
        asked.require("column2")
        assert asked.ledger.spent().epsilon == 0
    assert len(refusals) == 2


# ---- types that follow from values -----------------------------------------------------------------------------------


NUMBERS = Schema(columns={"x": Bounds(0, 9, grid=1)})


@pytest.mark.parametrize("other", ["n/a", [3], datetime.datetime(2020, 1, 1), None])
def test_a_frame_inside_an_ibis_table_is_read_value_by_value(other):
    frame = pd.DataFrame({"x": pd.Series([1, 2, other], dtype=None if other is None else object)})
    assert session(ibis.memtable(frame), NUMBERS).sum("x", guarantee=SHARP).value >= 2


def test_one_long_whole_number_in_polars_leaves_the_others_as_they_are():
    frame = pl.DataFrame({"x": [1, 2, 2**64]}, strict=False)
    assert session(frame, NUMBERS).sum("x", guarantee=SHARP).value == pytest.approx(12, abs=4)
    people = Schema(columns={}, unit=PrivacyUnit("x", Contribution(total=1)))
    assert session(frame, people).count(guarantee=SHARP).value == pytest.approx(3, abs=0.5)


def test_tables_whose_types_follow_from_values_are_refused_whatever_they_hold(tmp_path):
    words = set()
    for place, rows in enumerate(([1, 2], [1, "n/a"], [1, [3]], [datetime.date(2020, 1, 1)], [])):
        frame, path = pd.DataFrame({"x": pd.Series(rows, dtype=object)}), tmp_path / f"{place}.csv"
        frame.to_csv(path, index=False)
        connection = duckdb.connect()
        connection.register("registered", frame)
        connection.execute("CREATE VIEW above AS SELECT * FROM Registered")
        connection.execute(f"CREATE VIEW guessed AS SELECT * FROM read_csv('{path}')")
        connection.execute(f"CREATE VIEW short AS FROM '{path}'")
        backend = ibis.duckdb.from_connection(connection)
        sources = [(connection, {"table": name}) for name in ("registered", "above", "guessed", "short")]
        sources += [(backend.table("above"), {}), (ibis.memtable(frame).mutate(y=1), {})]
        for source, options in sources:
            asked = session(source, NUMBERS, **options)
            with pytest.raises(WrongType, match="Nothing was spent") as refused:
                asked.sum("x", guarantee=SHARP)
            assert asked.ledger.spent().epsilon == 0
            words.add(str(refused.value))
    assert len(words) == 4


def test_views_over_tables_of_the_database_are_read():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people (x INTEGER)")
    connection.execute("INSERT INTO people VALUES (1), (2)")
    connection.execute("CREATE VIEW grown AS SELECT x + 1 AS x FROM people")
    assert session(connection, NUMBERS, table="grown").sum("x", guarantee=SHARP).value == pytest.approx(5, abs=4)


# ---- times and lengths -----------------------------------------------------------------------------------------------


def test_a_tiny_decimal_takes_no_longer_than_others():
    assert canonical_text(decimal.Decimal("1.50")) == "1.50"
    assert canonical_text(decimal.Decimal("1e-500")) == "1e-500"
    start = time.process_time()
    assert canonical_text(decimal.Decimal("3e-99999999")) == "3e-99999999"
    assert time.process_time() - start < 0.1


def test_logs_and_anchors_tell_times_to_the_minute(tmp_path):
    RunLog(tmp_path / "run.log", "survey.toml").write("released", name="ages")
    with Ledger(tmp_path / "survey.ledger", PureDP(1.0)) as ledger:
        write_anchor(ledger, tmp_path / "heads.txt")
    for name in ("run.log", "heads.txt"):
        assert re.search(r"T\d\d:\d\d:00\+00:00", (tmp_path / name).read_text()), name


def test_an_answer_that_no_ledger_can_hold_is_stored_as_failed(monkeypatch):
    monkeypatch.setattr("discreet.core.door._LONGEST", 100)
    asked = session(pa.table({"x": [1, 2]}), NUMBERS)
    with pytest.raises(ReleaseFailed):
        asked.sum("x", guarantee=SHARP, name="long")
    with pytest.raises(InvalidParameter, match="failed after its noise was drawn"):
        asked.sum("x", guarantee=SHARP, name="long")
    assert asked.ledger.spent().epsilon == 50
