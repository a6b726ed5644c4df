"""Outcomes: whether a question is answered, or how it is refused, is the same on neighbours, whatever a value is.

An error that one row can cause tells for certain that the row is there. So every question is asked of a data set and
of its neighbour with a hostile row or unit, and both must end alike: with an answer of one type and shape, or with one
type of refusal.
"""

import datetime
import decimal
import math
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from discreet import (
    ApproxDP,
    Bounds,
    Categories,
    Contribution,
    Feature,
    Neighbours,
    PrivacyUnit,
    PrivateLabels,
    PureDP,
    Schema,
    Session,
)
from discreet.core.errors import DiscreetError

ONE, SOME, BUDGET = PureDP(1.0), ApproxDP(1.0, 1e-8), ApproxDP(1e3, 1e-3)
COLUMNS = {
    "arm": Categories(["A", "B"]),
    "stage": Categories([1, 2, 3]),
    "flag": Categories([True, False]),
    "x": Bounds(0, 8, grid=1),
    "y": Bounds(-4, 4, grid=0.5, nulls=0),
    "place": PrivateLabels(),
}
FEATURES = {
    "total": Feature(of="x", take="sum", low=0, high=20),
    "mean": Feature(of="y", take="mean"),
    "arm": Feature(of="arm", take="first", order="x"),
    "flag": Feature(of="flag", take="any"),
}
BY_PERSON = Schema(columns=COLUMNS, unit=PrivacyUnit("person", contribution=Contribution(total=1)), features=FEATURES)
BY_ROW = Schema(columns=COLUMNS)
HOSTILE = [
    None, math.nan, math.inf, -math.inf, 1e30, -1e308, 5e-324, -0.0, 2**63, -(2**63) - 1, 10**30, 2**53 + 1, 0.1, True,
    "", " ", "n/a", "nan", "inf", "-Infinity", "1e400", "1.0", "0x10", "١", "A\x00B", "#comment",
    'quo"te', "new\nline", "a,b;c\td", "\\", "é" * 300,
    decimal.Decimal("1e-30"), datetime.date(1, 1, 1), b"\xff\xfe", "' OR 1=1 --",
]  # fmt: skip


def ordinary(rows=60):
    rng = np.random.default_rng(4)
    return {
        "person": [f"p{i // 2}" for i in range(rows)],
        "arm": rng.choice(["A", "B"], rows).tolist(),
        "stage": rng.integers(1, 4, rows).tolist(),
        "flag": rng.choice([True, False], rows).tolist(),
        "x": rng.integers(0, 9, rows).tolist(),
        "y": (rng.integers(-8, 9, rows) / 2).tolist(),
        "place": rng.choice(["north", "south"], rows).tolist(),
    }


def with_rows(columns, rows):
    return {name: values + [row[name] for row in rows] for name, values in columns.items()}


def row(**values):
    return {"person": "new", "arm": "A", "stage": 1, "flag": True, "x": 3, "y": 0.5, "place": "north", **values}


QUESTIONS = {
    "count": lambda s: s.count(guarantee=ONE),
    "count by": lambda s: s.count(guarantee=ONE, by=("arm", "stage")),
    "sum": lambda s: s.sum("x", guarantee=ONE),
    "mean": lambda s: s.mean("x", guarantee=ONE, by="flag"),
    "mean with spread": lambda s: s.mean("y", guarantee=ONE, variance=True),
    "proportion": lambda s: s.proportion("arm", "A", guarantee=ONE),
    "variance": lambda s: s.variance("y", guarantee=ONE),
    "covariances": lambda s: s.covariance_matrix(("x", "y"), guarantee=ONE),
    "quantile": lambda s: s.quantile("x", [0.25, 0.5], guarantee=ONE),
    "histogram": lambda s: s.histogram("x", guarantee=ONE, edges=[0, 2, 4, 8]),
    "table": lambda s: s.table(("arm", "flag"), guarantee=ONE),
    "mode": lambda s: s.mode("stage", guarantee=ONE),
    "goodness of fit": lambda s: s.goodness_of_fit("arm", [0.5, 0.5], guarantee=ONE),
    "homogeneity": lambda s: s.homogeneity("stage", "arm", guarantee=ONE),
    "rank test": lambda s: s.rank_test("x", "arm", guarantee=ONE, edges=[0, 2, 4, 8]),
    "signed ranks": lambda s: s.signed_rank("x", "y", guarantee=ONE),
    "logistic regression": lambda s: s.logistic_regression("flag", ("x", "arm"), guarantee=ONE),
    "independence": lambda s: s.independence(("arm", "flag"), guarantee=ONE),
    "clusters": lambda s: s.clusters(("x", "y"), 2, guarantee=ONE, iterations=1),
    "comparison": lambda s: s.compare_means("y", by="arm", guarantee=ONE),
    "comparison in partitions": lambda s: s.per_unit().compare_means("total", by="arm", guarantee=ONE, partitions=10),
    "sums of units": lambda s: s.per_unit().sum("total", guarantee=ONE),
    "means of units": lambda s: s.per_unit().mean("mean", guarantee=ONE, by="flag"),
    "common_labels": lambda s: s.common_labels("place", guarantee=SOME),
}


def outcome(ask, session):
    """Type and shape of an answer, or type of a refusal. Anything but a typed refusal fails the test."""
    try:
        answer = ask(session)
    except DiscreetError as refusal:
        return ("refused", type(refusal).__name__)
    return ("answered", type(answer).__name__, np.shape(getattr(answer, "value", None)))


def outcomes(source, schema, questions=QUESTIONS, **options):
    session = Session(source, schema, ledger=":memory:", budget=BUDGET, **options)
    return {name: outcome(ask, session) for name, ask in questions.items()}


def frame(columns):
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})


def texts(columns):
    return pa.table(
        {name: pa.array([None if one is None else str(one) for one in values]) for name, values in columns.items()}
    )


def numbers(columns):
    """Typed columns; what does not fit its type stays out, as it cannot be in such a file."""
    kinds = {"x": pa.float64(), "y": pa.float64(), "stage": pa.float64(), "person": pa.float64()}
    built = {}
    for name, values in columns.items():
        plain = [float(hash(one) % 97) if name == "person" and isinstance(one, str) else one for one in values]
        built[name] = pa.array([_fitting(one, kinds.get(name)) for one in plain], kinds.get(name, pa.string()))
    return pa.table(built)


def _fitting(value, kind):
    if kind is None:
        return None if value is None else str(value)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def csv_file(columns, directory):
    path = directory / f"{len(list(directory.iterdir()))}.csv"
    frame(columns).to_csv(path, index=False, lineterminator="\n")
    return path


SOURCES = {
    "pandas": lambda columns, _: frame(columns),
    "texts": lambda columns, _: texts(columns),
    "floats": lambda columns, _: numbers(columns),
    "csv": csv_file,
}


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    """Outcomes on ordinary data, by source and schema."""
    directory = tmp_path_factory.mktemp("usual")
    return {
        (kind, schema.unit.column): outcomes(make(ordinary(), directory), schema)
        for kind, make in SOURCES.items()
        for schema in (BY_PERSON, BY_ROW)
    }


def test_ordinary_data_is_answered(usual):
    needs_rows, needs_ids = {"clusters", "covariances"}, {"comparison in partitions", "sums of units", "means of units"}
    for (_, unit), found in usual.items():
        refused = {name for name, how in found.items() if how[0] == "refused"}
        assert refused <= (needs_ids if unit is None else needs_rows)


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("column", ["person", *COLUMNS])
def test_a_person_with_every_hostile_value_changes_no_outcome(usual, kind, column, tmp_path):
    """One more person, with a row per hostile value; for the id itself, one more person per value."""
    rows = with_rows(ordinary(), [row(**{column: value}) for value in HOSTILE])
    assert outcomes(SOURCES[kind](rows, tmp_path), BY_PERSON) == usual[kind, "person"]


@pytest.mark.parametrize(
    ("kind", "place"),
    [("pandas", place) for place in range(len(HOSTILE))] + [("csv", place) for place in range(0, len(HOSTILE), 3)],
)
def test_one_hostile_row_changes_no_outcome(usual, kind, place, tmp_path):
    """One more row, hostile in every column at once."""
    rows = with_rows(ordinary(), [row(**dict.fromkeys(COLUMNS, HOSTILE[place]))])
    assert outcomes(SOURCES[kind](rows, tmp_path), BY_ROW) == usual[kind, None]


@pytest.mark.parametrize("kind", ["pandas", "csv"])
def test_a_replaced_row_changes_no_outcome(kind, tmp_path):
    schema = Schema(columns=COLUMNS, neighbours=Neighbours.REPLACE_ONE, size=60)
    usual = outcomes(SOURCES[kind](ordinary(), tmp_path), schema)
    for value in HOSTILE[::4]:
        rows = with_rows(
            {name: values[1:] for name, values in ordinary().items()}, [row(**dict.fromkeys(COLUMNS, value))]
        )
        assert outcomes(SOURCES[kind](rows, tmp_path), schema) == usual


def test_an_empty_data_set_has_the_outcomes_of_one_row():
    empty = {name: values[:0] for name, values in ordinary().items()}
    for schema in (BY_PERSON, BY_ROW):
        assert outcomes(texts(empty), schema) == outcomes(texts(with_rows(empty, [row()])), schema)


@pytest.mark.spark
@pytest.mark.skipif(shutil.which("java") is None, reason="a local Spark needs Java, and there is none")
def test_hostile_values_change_no_outcome_on_spark(tmp_path):
    some = {
        name: QUESTIONS[name] for name in ("count by", "mean", "quantile", "comparison in partitions", "common_labels")
    }
    rows = [row(**dict.fromkeys(COLUMNS, value)) for value in HOSTILE]
    usual = outcomes(SOURCES["csv"](ordinary(), tmp_path), BY_PERSON, some, engine="spark")
    hostile = outcomes(SOURCES["csv"](with_rows(ordinary(), rows), tmp_path), BY_PERSON, some, engine="spark")
    assert hostile == usual
