"""Transforms: filters, computed columns, spellings and dates are total functions of one row, alike on every engine."""

import json
import math
import re
import shutil
from datetime import date, timedelta
from itertools import product
from pathlib import Path

import polars
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet
from discreet import (
    Bands,
    Bounds,
    Categories,
    Contribution,
    Dates,
    Formula,
    PrivacyUnit,
    PrivateLabels,
    PureDP,
    Schema,
    Session,
)
from discreet.core.errors import DiscreetError, InvalidParameter, PlanFileError, SourceError
from discreet.core.protection import Neighbours
from discreet.core.rows import Selected, take, totals
from discreet.core.rows.source import open_source
from discreet.plans.declarations import schema_from_dict  # fmt: skip
from discreet.plans.job import Job
from discreet.questions.comparison.question import ArmsQuestion, ComparisonQuestion
from discreet.testing.sources import HOSTILE_TEXTS

needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")
ENGINES = ["duckdb", pytest.param("spark", marks=[pytest.mark.spark, needs_java])]

COLUMNS = {
    "age": Bounds(0, 120, grid=1),
    "pay": Bounds(-10, 10, grid=0.1),
    "sex": Categories(["men", "women"]),
    "code": Categories([1, 2, 3]),
    "flag": Categories([True, False]),
    "born": Dates("1900-01-01", "2024-12-31"),
    "month": Dates("1900-01-01", "2024-12-01", grid="month"),
    "place": PrivateLabels(),
}


def encoded(rows, schema, **options):
    """Encoded values by declared column, in the order of the column ``id``."""
    data = open_source(rows, **options)
    columns = {"id": Bounds(0, 10_000, grid=1), **schema.columns}
    snapshot = take(data, Schema(columns=columns, where=schema.where))
    found = data.fetch(snapshot.table).to_pylist()
    found.sort(key=lambda row: row[snapshot.names["id"]])
    return {name: [row[encoded] for row in found] for name, encoded in snapshot.names.items()}


# ---- the language ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("age >= 18", "condition"),
        ("18 <= age < 65 and not sex == 'men'", "condition"),
        ("age between 16 and 24 or age is missing", "condition"),
        ("sex not in ('men') and code in [1, 2]", "condition"),
        ("flag and flag == true", "condition"),
        ("born >= 2000-02-29 and month < born", "condition"),
        ("sex is not missing", "condition"),
        ("log1p(pay) - -age / 2 * (pay + 1)", "number"),
        ("year(born) + month(born) + weekday(born) + age(born, 2024-01-01)", "number"),
        ("born - month", "number"),
        ("born", "date"),
        ('"age" <> 3 AND `pay` = 1e-1', "condition"),
    ],
)
def test_formulas_have_kinds(text, kind):
    assert Formula(text).kind(COLUMNS) == kind


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "at most"),
        ("age >", "needs a value at its end"),
        ("age >= 18 18", "makes no sense from '18' on"),
        ("age ; drop", "cannot be read from '; drop' on"),
        ("(age > 1", "needs ')'"),
        ("sum(age) > 1", "has no function sum"),
        ("age not 3", "needs 'in' or 'between'"),
        ("age in 3", "needs a list"),
        ("code in (1, age)", "plain values"),
        ("born > 2023-02-29", "no such day"),
        ("(" * 50 + "age" + ")" * 50 + " > 1", "nested too deeply"),
        ("x" * 3000, "at most"),
        ("age / (" * 8 + "age" + ")" * 8 + " > 1", "takes more than 400 steps"),
        ("age" + " + 1" * 300 + " > 1", "takes more than 400 steps"),
        ("sqrt(" * 9 + "age" + ")" * 9, "takes more than 400 steps"),
    ],
)
def test_what_is_not_a_formula_is_refused(text, words):
    with pytest.raises(InvalidParameter, match="formula = ") as refused:
        Formula(text)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("agee > 1", "Did you mean 'age'"),
        ("sex == 'man'", "Did you mean 'men'"),
        ("sex < 'men'", "Write column == 'label'"),
        ("sex == sex", "no label"),
        ("sex + 1 > 2", "outside a comparison"),
        ("place == 'Oslo'", "labels are not public"),
        ("age > 2020-01-01", "compares a number with a date"),
        ("age and flag", "has a number where it needs a condition"),
        ("year(age) > 1", "has a number where it needs a date"),
        ("age(born) > 1", "gives age 1 values, not 2"),
        ("'men' == 'men'", "no column of labels"),
        ("code == 1.5", "no label"),
        ("flag > age", "labels"),
    ],
)
def test_parts_that_do_not_fit_are_refused(text, words):
    with pytest.raises(InvalidParameter) as refused:
        Schema(columns=COLUMNS, where=Formula(text))
    assert str(refused.value).startswith("where = ")
    assert words.split(" = ")[0] in str(refused.value) or "compares labels" in str(refused.value)


@pytest.mark.parametrize(
    ("columns", "where", "words"),
    [
        ({"a": Bounds(0, 1, value=Formula("a + 1"))}, None, "leads back to itself"),
        ({"a": Bounds(0, 1, value=Formula("b")), "b": Bounds(0, 1, value=Formula("a"))}, None, "leads back"),
        ({"a": Bounds(0, 1)}, Formula("1 < 2"), "reads no column"),
        ({"a": Bounds(0, 1)}, Formula("a"), "gives a number, not a condition"),
        ({"a": Bounds(0, 1), "b": Bounds(0, 1, value=Formula("a > 0"))}, None, "gives a condition, not a number"),
        ({"a": Bounds(0, 1)}, "a > 0", 'Formula("age >= 18")'),
    ],
)
def test_schemas_check_their_formulas(columns, where, words):
    with pytest.raises(DiscreetError) as refused:
        Schema(columns=columns, where=where)
    assert words in str(refused.value)


# ---- values: a plain Python reference -------------------------------------------------------------------------------

FORMULAS = {
    "a >= 1 and c != 'x'": lambda a, b, c: both(ge(a, 1), ne(c, "x")),
    "a >= 1 or b is missing": lambda a, b, c: either(ge(a, 1), b is None),
    "not (a < b)": lambda a, b, c: None if a is None or b is None else not a < b,
    "(a < b) is missing": lambda a, b, c: a is None or b is None,
    "(not a < b) is missing or (a - b) is missing": lambda a, b, c: a is None or b is None,
    "(a >= 1 or c == 'x') is not missing": lambda a, b, c: either(ge(a, 1), eq(c, "x")) is not None,
    "not (not (a - -b >= 1)) and -a <= -1": lambda a, b, c: both(
        None if a is None or b is None else a + b >= 1, ge(a, 1)
    ),
    "a between -1 and 0.3": lambda a, b, c: None if a is None else -1 <= a <= 0.3,
    "c in ('x', 'y') and not c == 'y'": lambda a, b, c: None if c is None else c == "x",
    "a == 0.3": lambda a, b, c: None if a is None else a == 0.3,
    "a / b > 1": lambda a, b, c: None if a is None or not b else a / b > 1,
    "log1p(a) > 0 or sqrt(a) < 1": lambda a, b, c: either(
        None if a is None or a + 1 <= 0 else math.log(a + 1) > 0, None if a is None or a < 0 else math.sqrt(a) < 1
    ),
    # ∞ − ∞ is no number: missing, wherever it is used.
    "a * 1e300 * 1e300 - a * 1e300 * 1e300 >= 0": lambda a, b, c: None if a else eq(a, 0),
    "(a * 1e300 * 1e300 - a * 1e300 * 1e300) is missing": lambda a, b, c: a != 0,
    "sqrt(1 + log1p(a * 1e300 * 1e300 - a * 1e300 * 1e300)) / 2 < 9": lambda a, b, c: None if a else eq(a, 0),
}  # fmt: skip


def both(p, q):
    return False if p is False or q is False else None if p is None or q is None else True


def either(p, q):
    return True if p is True or q is True else None if p is None or q is None else False


def ge(a, b):
    return None if a is None else a >= b


def eq(a, b):
    return None if a is None else a == b


def ne(a, b):
    return None if a is None else a != b


@pytest.mark.parametrize("engine", ENGINES)
def test_filters_follow_three_valued_logic(engine):
    """Every combination of values, missing ones included, against the reference."""
    numbers = [None, -2.0, -0.5, 0.0, 0.3, 1.0, 1.5]
    rows = [*product(numbers, numbers, [None, "x", "y", "z"])]
    table = pa.table({
        "id": range(len(rows)),
        "a": [row[0] for row in rows],
        "b": [row[1] for row in rows],
        "c": [row[2] for row in rows],
    })  # fmt: skip
    columns = {"a": Bounds(-2, 2, grid=0.1), "b": Bounds(-2, 2, grid=0.1), "c": Categories(["x", "y", "z"])}
    conditions = {text: Categories([True, False], value=Formula(text)) for text in FORMULAS}
    found = encoded(table, Schema(columns={**columns, **conditions}), engine=engine)
    codes = {True: 0, False: 1, None: None}
    for text, meaning in FORMULAS.items():
        assert found[text] == [codes[meaning(*row)] for row in rows], text
    text, meaning = next(iter(FORMULAS.items()))
    kept = encoded(table, Schema(columns=columns, where=Formula(text)), engine=engine)["id"]
    assert kept == [place for place, row in enumerate(rows) if meaning(*row) is True]


def test_sums_of_many_columns():
    """Each step of arithmetic is written once: a hundred terms are no harder than ten."""
    columns = {f"item{i}": Bounds(0, 3, grid=1) for i in range(20)}
    total = " + ".join(name for name in columns for _ in range(5))
    table = pa.table({"id": [0, 1], **{name: [1, i % 4] for i, name in enumerate(columns)}})
    found = encoded(table, Schema(columns={**columns, "total": Bounds(0, 500, grid=1, value=Formula(total))}))
    assert found["total"] == [100, 150]


DAYS = ["2000-02-29", "1900-02-28", "1900-03-01", "2024-12-31", "1999-12-31", "1970-01-01", "2023-06-15", "1899-12-31"]
NO_DAYS = [
    "2001-02-29",
    "1900-02-29",
    "2020-13-01",
    "2020-00-10",
    "2020-04-31",
    "2020-1",
    "x",
    "0000-01-01",
    "20200101",
]


@pytest.mark.parametrize("engine", ENGINES)
def test_dates_are_those_of_the_calendar(engine):
    """Parts and ages against Python's own calendar; text that is no date is missing."""
    texts = [*DAYS, *NO_DAYS, "2020-2-3", "2020/02/03", " 2020.02.03 ", "2020-02-03T23:59:59Z", *HOSTILE_TEXTS]
    table = pa.table({"id": range(len(texts)), "born": pa.array(texts, pa.string())})
    at = date(2024, 2, 28)
    columns = {
        "born": Dates("1900-01-01", "2024-12-31"),
        "year": Bounds(1900, 2024, grid=1, value=Formula("year(born)")),
        "month": Categories(list(range(1, 13)), value=Formula("month(born)")),
        "day": Categories.coded({n: str(n) for n in range(1, 8)}, value=Formula("weekday(born)")),
        "age": Bounds(-1, 130, grid=1, value=Formula("age(born, 2024-02-28)")),
        "first": Dates("1900-01-01", "2024-12-01", grid="month", value=Formula("born")),
        "since": Bounds(0, 50_000, grid=1, value=Formula("born - first")),
    }
    found = encoded(table, Schema(columns=columns), engine=engine)
    for place, text in enumerate(texts):
        day = read_date(text)
        row = {name: values[place] for name, values in found.items() if name != "id"}
        if day is None:
            assert set(row.values()) == {None}, text
            continue
        age = at.year - day.year - ((at.month, at.day) < (day.month, day.day))
        expected = {
            "born": (day - date(1970, 1, 1)).days, "year": day.year, "month": day.month - 1, "day": day.weekday(),
            "age": age, "first": (day.year - 1970) * 12 + day.month - 1, "since": day.day - 1,
        }  # fmt: skip
        assert row == expected, text


def read_date(text):
    parts = (text or "").strip(" \t").split("T")[0].replace("/", "-").replace(".", "-").split("-")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts) or len(parts[0]) != 4:
        return None
    try:
        day = date(*map(int, parts))
    except ValueError:
        return None
    return min(max(day, date(1900, 1, 1)), date(2024, 12, 31))


def test_days_of_four_centuries():
    """Every day from 1800 to 2200 has Python's number, also as a typed date and in other orders."""
    days = [date(1800, 1, 1) + timedelta(n) for n in range(0, 146_097, 31)]
    declared = {"ymd": Dates("1800-01-01", "2199-12-31"), "dmy": Dates("1800-01-01", "2199-12-31", order="dmy")}
    expected = [(day - date(1970, 1, 1)).days for day in days]
    numbers = range(len(days))
    columns = {
        "ymd": pa.array([day.isoformat() for day in days]),
        "dmy": pa.array([f"{day.day}.{day.month}.{day.year:04}" for day in days]),
        "typed": pa.array(days),
        "stamp": pa.array(days).cast(pa.timestamp("us")),
    }
    schema = Schema(columns={**declared, "typed": declared["ymd"], "stamp": declared["ymd"]})
    data = open_source(pa.table({"id": numbers, **columns}))
    snapshot = take(data, Schema(columns={"id": Bounds(0, 30_000, grid=1), **schema.columns}))
    found = sorted(data.fetch(snapshot.table).to_pylist(), key=lambda row: row[snapshot.names["id"]])
    for name in columns:
        assert [row[snapshot.names[name]] for row in found] == expected


@pytest.mark.parametrize("engine", ENGINES)
def test_spellings_and_missing_words(engine):
    texts = ["1", "01", "1.0", " 1", "2", "men", "MEN ", "Women", "N", "n", "womn", "3", "", None, "m\u0130n", "1e0"]
    labels = {"men": 0, "women": 1}
    sex = Categories.coded({1: "men", 2: "women"}, missing=["N"], aliases={"womn": "women"}, ignore_case=True)
    strict = Categories(["men", "women", "none", "other"], nulls="=none", unknown="=other", missing=["N"])
    table = pa.table({"id": range(len(texts)), "sex": texts, "strict": texts})
    found = encoded(table, Schema(columns={"sex": sex, "strict": strict}), engine=engine)
    read = {"1": "men", "01": "men", "1.0": "men", " 1": "men", "2": "women", "MEN ": "men", "Women": "women",
            "womn": "women", "men": "men"}  # fmt: skip
    assert found["sex"] == [labels.get(read.get(text or "", "")) for text in texts]
    assert found["strict"] == [labels.get(text, 2 if text in ("N", "", None) else 3) for text in texts]


@pytest.mark.parametrize("engine", ENGINES)
def test_codes_are_read_alike_in_every_storage(engine):
    """Texts, whole numbers and floats with gaps."""
    columns = {
        "c": Categories.coded({1: "a", 2: "b", -9: "c"}, missing=["7"]),
        "x": Bounds(0, 9, grid=1, missing=[-9, "8"]),
    }
    for kind in (pa.string(), pa.int64(), pa.float64()):
        values = pa.array([1, 2, -9, 7, 8, None]).cast(kind)
        found = encoded(pa.table({"id": range(6), "c": values, "x": values}), Schema(columns=columns), engine=engine)
        assert found["c"] == [0, 1, 2, None, None, None]
        assert found["x"] == [1, 2, None, 7, None, None]


@pytest.mark.parametrize("engine", ENGINES)
def test_bands_hold_their_lower_edge(engine):
    numbers = ["-1", "0", "15", "15.9", "16", "24", "25", "64", "65", "120", "121", "x", None, "inf", "1e400"]
    table = pa.table({"id": range(len(numbers)), "age": numbers})
    columns = {
        "age": Bands(edges=[0, 16, 25, 65, 120]),
        "other": Bands(edges=[0, 50, 120], unknown="=0–49", nulls="=50–120", value=Formula("number")),
        "number": Bounds(0, 120, grid=1, nulls="drop"),
    }
    table = table.append_column("number", pa.array(numbers))
    found = encoded(table, Schema(columns=columns), engine=engine)
    assert found["age"] == [None, 0, 0, 0, 1, 1, 2, 2, 3, 3, None, None, None, None, None]
    assert found["other"] == [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("engine", ENGINES)
def test_thousands(engine):
    texts = [
        "1.234,5",
        "1234,5",
        "1.234.567",
        "12.34",
        "1.5",
        "-1.000",
        "1.000.00",
        ".5",
        ",5",
        "1,5e2",
        "1.2345",
        "1234.567",
    ]
    table = pa.table({"id": range(len(texts)), "x": texts})
    schema = Schema(columns={"x": Bounds(-10_000_000, 10_000_000, grid=0.5)})
    found = encoded(table, schema, engine=engine, decimal=",", thousands=".")["x"]
    expected = [1234.5, 1234.5, 1234567, None, None, -1000, None, None, 0.5, 150, None, None]
    assert found == [None if value is None else round(2 * value) for value in expected]
    bands = Schema(columns={"x": Bands(edges=[-2000, 0.25, 1234.25, 2_000_000])})
    found = encoded(table, bands, engine=engine, decimal=",", thousands=".")["x"]
    assert found == [None if value is None else (value >= 0.25) + (value >= 1234.25) for value in expected]
    with pytest.raises(InvalidParameter, match="thousands"):
        open_source(table, thousands=".")


@pytest.mark.parametrize("engine", ENGINES)
def test_declared_symbols_stand_around_numbers(engine):
    """A symbol is no part of the number before or after which it stands; anywhere else it makes text of it."""
    said = {
        "$1,234.50": 1234.5, "-$5": -5, "$-5": -5, "- 5": None, "-$ 5": -5, "12.5%": 12.5, "12.5 %": 12.5, "US$7": 7,
        "EUR 8": 8, "1e2 EUR": 100, "1$2": None, "$": None, "%%": None, "$$5": 5, "5 kr": None, "6": 6, "": None,
        "£5": None, "$1,23": None, "1,000 $": 1000, "true": 1,
    }  # fmt: skip
    table = pa.table({"id": range(len(said)), "x": list(said)})
    schema = Schema(columns={"x": Bounds(-10_000, 10_000, grid=0.5)})
    found = encoded(table, schema, engine=engine, thousands=",", symbols="$ % US$ EUR")["x"]
    assert found == [None if value is None else round(2 * value) for value in said.values()]


@pytest.mark.parametrize("symbols", ["5", "-", "e", ".", None, ["$"]])
def test_symbols_are_not_parts_of_numbers(symbols):
    with pytest.raises(InvalidParameter, match="symbols"):
        open_source(pa.table({"x": ["1"]}), symbols=symbols)


def test_frames_agree():
    """pandas, polars and Arrow give the same encoded rows."""
    schema = Schema(
        columns={
            "born": Dates("1990-01-01", "2020-12-31"),
            "x": Bounds(0, 5, grid=1),
            "up": Bounds(0, 6, value=Formula("x + 1")),
        },
        where=Formula("x > 1 and born >= 2000-01-01"),
    )  # fmt: skip
    arrow = pa.table({"id": [0, 1, 2], "born": [date(2001, 1, 1), date(1995, 1, 1), None], "x": [2.0, 3.0, None]})
    found = [encoded(frame, schema) for frame in (arrow, arrow.to_pandas(), polars.from_arrow(arrow))]
    assert found[0] == found[1] == found[2]
    assert found[0]["up"] == [3000]


@given(data=st.data())
@settings(max_examples=4, deadline=None)
def test_one_row_never_changes_another(data):
    """Encoded rows of a table are those of its rows one by one."""
    texts = st.sampled_from([text for text in HOSTILE_TEXTS if text is None or len(text) < 100])
    rows = data.draw(st.lists(st.tuples(texts, texts), min_size=1, max_size=4))
    schema = Schema(
        columns={
            "a": Bounds(-5, 5, grid=0.5, missing=["NA"]), "l": Categories.coded({1: "one"}, ignore_case=True),
            "r": Bounds(-9, 9, grid=0.1, value=Formula("a / (a - 1)")),
        },
        where=Formula("not (a > 1) or l == 'one' or a is missing"),
    )  # fmt: skip

    def kept(some):
        table = pa.table(
            {"a": pa.array([a for a, _ in some], pa.string()), "l": pa.array([b for _, b in some], pa.string())}
        )
        dataset = open_source(table)
        found = dataset.fetch(take(dataset, schema).table).to_pylist()
        return sorted(json.dumps(row) for row in found)

    assert kept(rows) == sorted(one for row in rows for one in kept([row]))


# ---- neighbours -----------------------------------------------------------------------------------------------------


def test_a_filter_makes_the_number_of_rows_private():
    """Under replace-one a replaced row may leave what a filter chooses, so nobody may take size for its rows."""
    plain = {"x": Bounds(0, 4, grid=1, nulls=0), "arm": Categories(["a", "b"], nulls="=a", unknown="=a")}
    whole = Schema(columns=plain, neighbours=Neighbours.REPLACE_ONE, size=3)
    chosen = Schema(columns=plain, neighbours=Neighbours.REPLACE_ONE, size=3, where=Formula("x >= 2"))
    assert (whole.keeps_every_row(["x"]), chosen.keeps_every_row(["x"])) == (True, False)
    for schema, public in ((whole, True), (chosen, False)):
        session = Session(pa.table({"x": [0, 2, 4], "arm": ["a"] * 3}), schema, ledger=":memory:", budget=PureDP(20.0))
        questions = [
            session.mean("x", epsilon=1.0),
            session.table("arm", epsilon=1.0),
            session.proportion("arm", "a", epsilon=1.0),
        ]
        assert ["n" in released.public for released in questions] == [public] * 3
    values = (0, 2, 4)
    schema = Schema(columns=plain, neighbours=Neighbours.REPLACE_ONE, size=2, where=Formula("x >= 2"))
    counts, sums = {}, {}
    for pair in product(values, values):
        snapshot = take(open_source(pa.table({"x": pair, "arm": ["a", "b"]})), schema)
        found = totals(snapshot, Selected(columns=("x",)), [("x",)])
        counts[pair], sums[pair] = found.counts[0], found.sums["x",][0]
    apart = [(p, q) for p in counts for q in counts if sum(a != b for a, b in zip(p, q, strict=True)) == 1]
    session = Session(pa.table({"x": [0, 4], "arm": ["a", "b"]}), schema, ledger=":memory:", budget=PureDP(9.0))
    assert max(abs(counts[p] - counts[q]) for p, q in apart) == 1 == session.count(epsilon=1.0).sensitivity.l1
    assert max(abs(sums[p] - sums[q]) for p, q in apart) == 4 == session.sum("x", epsilon=1.0).sensitivity.l1


def test_arms_are_private_where_a_filter_may_drop_a_replaced_row():
    arms = {"x": Bounds(0, 4, grid=1, nulls=0), "arm": Categories(["a", "b", "c"], nulls="=a", unknown="=a")}
    for where, arm in ((None, "public"), (Formula("x >= 2"), "private")):
        schema = Schema(columns=arms, neighbours=Neighbours.REPLACE_ONE, size=9, where=where)
        assert ArmsQuestion(schema, "x", by="arm", guarantee=PureDP(1.0)).statistic.arm == arm
        two = schema.declaring(arm=Categories(["a", "b"], nulls="=a", unknown="=a"))
        assert ComparisonQuestion(two, "x", by="arm", guarantee=PureDP(1.0)).statistic.arm == arm


def test_nobody_asks_a_column_alone_whether_rows_can_drop_out():
    """Only the schema knows of its filter."""
    source = Path(discreet.__file__).parent
    asking = {
        str(file.relative_to(source))
        for file in source.rglob("*.py")
        if "core" not in file.relative_to(source).parts
        and re.search(r"(?<!schema)\.keeps_every_row", file.read_text(encoding="utf-8"))
    }
    assert asking == set()


def test_the_public_size_counts_rows_that_a_filter_drops():
    schema = Schema(
        columns={"x": Bounds(0, 4, grid=1)}, neighbours=Neighbours.REPLACE_ONE, size=3, where=Formula("x > 3")
    )
    data = open_source(pa.table({"x": [0, 1, 4]}))
    assert data.fetch(take(data, schema).table).num_rows == 1
    with pytest.raises(SourceError, match="size = 3"):
        take(open_source(pa.table({"x": [4, 4]})), schema)


def test_filters_apply_before_limits():
    """A unit's limit is filled from the rows that pass."""
    rows = pa.table({"who": [1] * 10 + [2], "x": [0] * 9 + [5, 5]})
    unit = PrivacyUnit("who", contribution=None)
    schema = Schema(columns={"x": Bounds(0, 9, grid=1)}, unit=unit, where=Formula("x > 4"))
    session = Session(rows, schema, ledger=":memory:", budget=PureDP(60.0))
    assert session.count(epsilon=50.0, contribution=Contribution(total=1)).value == 2


# ---- end to end -----------------------------------------------------------------------------------------------------

PLAN = """
title = "A coded file"

[source]
path = "acs.csv"
delimiter = ";"
decimal = ","
thousands = "."
encoding = "latin-1"

[budget]
epsilon = 40.0

[schema]
where = "AGEP >= 16 and state != 'Guam'"

[schema.columns.SEX]
labels = { 1 = "men", 2 = "women" }
missing = ["N"]

[schema.columns.state]
value = "ST"
labels = { 1 = "Alabama", 2 = "C\u00f4te", 66 = "Guam" }

[schema.columns.ST]
low = 1
high = 99
grid = 1

[schema.columns.AGEP]
low = 0
high = 99
grid = 1
missing = ["N"]

[schema.columns.group]
value = "AGEP"
bands = [0, 16, 65, 99]

[schema.columns.PINCP]
low = 0
high = 100000
grid = 1

[schema.columns.log_income]
value = "log1p(PINCP)"
low = 0
high = 12
grid = 0.01

[[release]]
name = "table"
ask = "table"
columns = ["SEX", "group", "state"]

[[release]]
name = "income"
ask = "mean"
column = "log_income"
by = ["SEX"]
"""


def test_a_coded_file_is_published_in_words(tmp_path):
    lines = ["ST;SEX;AGEP;PINCP", *["1;1;20;1.000,00"] * 30, *["2;2;70;N"] * 20, *["2;N;70;5"] * 7, *["66;1;30;9"] * 5]
    lines += ["1;2;N;1.000", "1;2;15;2.000,5"] * 4
    (tmp_path / "acs.csv").write_text("\n".join(lines) + "\n", encoding="latin-1")
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    planned = str(Job(tmp_path / "plan.toml").plan())
    assert "Only rows with AGEP >= 16 and state != 'Guam' take part." in planned
    assert "log_income is log1p(PINCP)." in planned
    result = Job(tmp_path / "plan.toml").run()
    released = json.loads(result.results.read_text(encoding="utf-8"))
    counts = dict(zip(["men", "women"], released["releases"]["table"]["value"], strict=True))
    assert counts["men"] == [[0, 0, 0], [30, 0, 0], [0, 0, 0]]
    assert counts["women"] == [[0, 0, 0], [0, 0, 0], [0, 20, 0]]
    said = " ".join(released["facts"]["assumptions"])
    assert all(words in said for words in ("AGEP >= 16 and state != 'Guam'", "log1p(PINCP)", "1 = men"))
    text = result.markdown.read_text(encoding="utf-8")
    assert all(words in text for words in ("women", "65–99"))
    again = Job(tmp_path / "plan.toml").run()
    assert again.drawn == 0
    changed = PLAN.replace("AGEP >= 16", "AGEP >= 17")
    (tmp_path / "other.toml").write_text(changed.replace("40.0", "40.0"), encoding="utf-8")
    assert not Job(tmp_path / "other.toml").finished()


@pytest.mark.parametrize(
    ("line", "wrong", "words"),
    [
        ("where = \"AGEP >= 16 and state != 'Guam'\"", 'where = "AGEPP >= 16"', "names 'AGEPP'"),
        ("where = \"AGEP >= 16 and state != 'Guam'\"", 'where = "AGEP >="', "where = 'AGEP >='"),
        ('value = "log1p(PINCP)"', 'value = "log2(PINCP)"', "has no function log2"),
        ('value = "log1p(PINCP)"', 'value = "PINC"', "names 'PINC'"),
        ("bands = [0, 16, 65, 99]", "bands = [0, 16, 16]", "increasing"),
        ('missing = ["N"]', 'missing = "N"', "must be a list"),
    ],
)
def test_mistakes_are_located(tmp_path, line, wrong, words):
    text = PLAN.replace(line, wrong, 1)
    (tmp_path / "plan.toml").write_text(text, encoding="utf-8")
    with pytest.raises(PlanFileError) as refused:
        Job(tmp_path / "plan.toml")
    number = next(n for n, one in enumerate(text.splitlines(), start=1) if one == wrong)
    assert f"plan.toml:{number}: " in str(refused.value)
    assert words in str(refused.value)


def test_schemas_survive_a_round_trip():
    schema = Schema(
        columns={
            "born": Dates("1900-01-01", "2024-12-31", nulls="1950-01-01", order="dmy"),
            "month": Dates("2020-01-01", "2024-12-01", grid="month", value=Formula("born")),
            "age": Bounds(0, 120, grid=1, value=Formula("age(born, 2024-06-30)"), missing=[-9, "N"]),
            "band": Bands(edges=[0, 16, 120], labels=["young", "old"], value=Formula("age"), unknown="refuse"),
            "sex": Categories.coded({1: "men", 2: "women"}, missing=["N"], ignore_case=True),
        },
        where=Formula("age >= 18"),
    )
    stored = json.loads(json.dumps(schema.to_dict()))
    assert schema_from_dict(stored) == schema
    assert schema_from_dict(stored).to_dict() == schema.to_dict()


def test_answers_belong_to_their_formulas():
    """A stored answer is not repeated for another filter, nor for another column behind a formula."""
    rows = pa.table({"x": [1.0, 2.0, 3.0]})

    def session(high, where, ledger):
        columns = {"x": Bounds(0, high, grid=1), "double": Bounds(0, 20, grid=1, value=Formula("x * 2"))}
        return Session(rows, Schema(columns=columns, where=where), ledger=ledger)

    first = Session(rows, Schema(columns={"x": Bounds(0, 9, grid=1)}), ledger=":memory:", budget=PureDP(9.0))
    ledger = first.ledger
    session(9, None, ledger).sum("double", epsilon=1.0, name="r")
    for other in (session(8, None, ledger), session(9, Formula("x > 1"), ledger)):
        with pytest.raises(DiscreetError):
            other.sum("double", epsilon=1.0, name="r")
