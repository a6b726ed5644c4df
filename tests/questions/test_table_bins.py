"""Bins of numbers as axes of tables: counted exactly, limited per unit, refused before spending."""

import math

import numpy as np
import pyarrow as pa
import pytest

import discreet as d
from discreet.core.errors import DiscreetError
from discreet.core.rows import take
from discreet.core.rows.source import open_source
from discreet.questions.tables.margins import TablesQuestion, all_margins

ONE = d.GaussianDP(1.0)


def binned_rows(rng, size):
    return pa.table(
        {
            "who": rng.integers(0, size // 3, size),
            "sex": rng.choice(["f", "m"], size),
            "age": pa.array([None if rng.random() < 0.1 else float(one) for one in rng.integers(-5, 130, size)]),
            "pay": rng.choice([-1.0, 0.05, 0.1, 0.15, 0.2, 0.3, 7.0, float("nan")], size),
        }
    )


@pytest.mark.parametrize("nulls", ["drop", 40])
def test_numbers_in_bins_are_counted_exactly(nulls):
    rows = binned_rows(np.random.default_rng(3), 600)
    schema = d.Schema(
        columns={
            "sex": d.Categories(["f", "m"]),
            "age": d.Bounds(0, 120, grid=1, nulls=nulls),
            "pay": d.Bounds(0, 0.3, grid=0.05),
        }
    )
    bins = {"age": [0, 18, 40.5, 120], "pay": [0, 0.1, 0.3]}
    question = TablesQuestion(schema, [["sex", "age"], ["age", "pay"], ["pay"]], guarantee=ONE, bins=bins)
    margins = question.measurement.statistic
    joint = np.zeros((2, 3, 2), dtype=int)
    for row in rows.to_pylist():
        age = nulls if row["age"] is None else row["age"]
        if age == "drop" or math.isnan(row["pay"]):
            continue
        age, pay = min(max(age, 0), 120), min(max(row["pay"], 0), 0.3)
        joint["fm".index(row["sex"]), int(age >= 18) + int(age > 40.5), int(round(pay, 9) >= 0.1)] += 1
    found = question.measurement.exact(take(open_source(rows), schema))
    assert (found == margins.stacked(joint)).all()
    assert question.plan().error_95 > 0
    release = d.Session(rows, schema, ledger=":memory:", budget=d.GaussianDP(200.0)).tables(
        [["age"], ["age", "pay"]], mu=100.0, bins=bins | {"age": 4}
    )
    assert release.table("age").labels == (("[0, 30)", "[30, 60)", "[60, 90)", "[90, 120]"),)
    assert release.table("age", "pay").presented.sum() == release.table().presented


def test_one_unit_moves_binned_tables_by_no_more_than_its_limit():
    rng = np.random.default_rng(9)
    columns = {"sex": d.Categories(["f", "m"]), "age": d.Bounds(0, 120, grid=1)}
    for limit in (d.Contribution(total=2), d.Contribution(groups=1, rows=2), d.Contribution(groups=2, rows=1)):
        schema = d.Schema(columns=columns, unit=d.PrivacyUnit("who", contribution=limit))
        question = TablesQuestion(schema, [["sex", "age"]], guarantee=ONE, bins={"age": 3})
        rows = binned_rows(rng, 21)
        counted = question.measurement.exact(take(open_source(rows), schema, salt="s"))
        for who in set(rows.column("who").to_pylist()):
            others = rows.filter(pa.array([one != who for one in rows.column("who").to_pylist()]))
            moved = np.abs(counted - question.measurement.exact(take(open_source(others), schema, salt="s")))
            assert moved.sum() <= question.measurement.sensitivity.l1
            assert moved[-6:].sum() <= 2  # the rows of a unit in the table itself


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({}, "is a number, so it needs bins"),
        ({"bins": {"age": 1}}, "only one label"),
        ({"bins": {"age": [0, 18]}}, "must cover the bounds"),
        ({"bins": {"age": 500}}, "one per grid step"),
        ({"bins": {"age": 3, "pay": 2}}, "a number that a table names"),
        ({"bins": {"age": 3}, "mean_of": "age"}, "a number that a table names"),
        ({"bins": {"sex": 3}}, "not a number"),
        ({"bins": [3]}, "bins"),
        ({"bins": {"age": True}}, "bins"),
    ],
)
def test_bins_that_make_no_sense_are_refused(options, match):
    columns = {"sex": d.Categories(["f", "m"]), "age": d.Bounds(0, 120, grid=1), "pay": d.Bounds(0, 1, grid=0.5)}
    with pytest.raises(DiscreetError, match=match):
        TablesQuestion(d.Schema(columns=columns), [["sex", "age"]], guarantee=ONE, **options)


def test_counts_that_cannot_be_presented_are_refused_before_spending():
    names = [f"c{place}" for place in range(6)]
    schema = d.Schema(columns={name: d.Categories(list(range(8))) for name in names})
    pairs, triples = all_margins(names, 2), all_margins(names, 3)
    assert TablesQuestion(schema, pairs, guarantee=ONE).measurement
    with pytest.raises(DiscreetError, match="too many to present whole counts"):
        TablesQuestion(schema, triples, guarantee=ONE)
    with pytest.raises(DiscreetError, match="too many to present whole counts"):
        TablesQuestion(schema, pairs, guarantee=ONE, impossible=[{"c0": 0, "c1": 1}])
    assert TablesQuestion(schema, triples, guarantee=ONE, presented=False).measurement
