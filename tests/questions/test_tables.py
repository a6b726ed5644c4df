"""Contingency tables: counting, refusals that reveal nothing, and sensitivity over all neighbours."""

import itertools
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from discreet import Bins, Neighbours, Release, release
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.sensitivity import Exact
from discreet.mechanisms import RankDeficientGaussian
from discreet.questions import ContingencyTable
from discreet.results.release import statistic_from_dict
from tests.processes import output

ROWS = {"arm": ["a", "a", "b", "b", "b"], "outcome": ["no", "yes", "no", "no", "yes"]}
TABLE = ContingencyTable({"arm": ["a", "b"], "outcome": ["no", "yes"]})
COUNTS = [[1, 1], [2, 1]]


@pytest.mark.parametrize(
    "frame",
    [
        ROWS,
        {name: np.array(values) for name, values in ROWS.items()},
        {name: np.array(values, dtype=object) for name, values in ROWS.items()},
        pd.DataFrame(ROWS),
        pd.DataFrame(ROWS).astype("category"),
        pd.DataFrame(ROWS).astype("string"),
        pl.DataFrame(ROWS),
        pl.DataFrame(ROWS).with_columns(pl.col("arm").cast(pl.Categorical)),
        pa.table(ROWS),
    ],
    ids=["dict", "numpy", "object", "pandas", "categories", "strings", "polars", "polars-categories", "pyarrow"],
)
def test_every_frame_gives_the_same_counts(frame):
    assert TABLE.counts(frame).tolist() == COUNTS


def test_frame_libraries_are_not_imported():
    code = (
        "import sys; from discreet.questions import ContingencyTable as C; C({'a': [0, 1]}).counts({'a': [0, 1, 1]});"
        "print([m for m in ('pandas', 'polars', 'pyarrow', 'ibis') if m in sys.modules])"
    )
    assert output([sys.executable, "-c", code]).strip() == "[]"


@pytest.mark.parametrize(
    ("labels", "values", "counts"),
    [
        ([1, 2], np.array([1, 2, 2]), [1, 2]),
        ([2, 1], np.array([1.0, 2.0, 2.0]), [2, 1]),
        ([False, True], np.array([True, False, True]), [1, 2]),
        (["1", "2"], ["1", "2", "2"], [1, 2]),
        ([1, "a"], [1, "a", "a"], [1, 2]),
        ([0.5, 1.5], np.array([0.5, 0.5], dtype=np.float32), [2, 0]),
    ],
)
def test_categories_keep_their_types(labels, values, counts):
    assert ContingencyTable({"x": labels}).counts({"x": values}).tolist() == counts


OUTSIDE = [None, float("nan"), "secret-value", 1, pd.NA, ["a"], b"a"]


@pytest.mark.parametrize("value", OUTSIDE, ids=repr)
def test_values_outside_are_refused_without_being_shown(value):
    with pytest.raises(InvalidParameter) as caught:
        TABLE.counts({"arm": ["a", value], "outcome": ["no", "no"]})
    assert "arm" in str(caught.value)
    for leaked in ("secret", "nan", "None", "NA", "2 rows", "1 row"):
        assert leaked not in str(caught.value)


@pytest.mark.parametrize("value", OUTSIDE, ids=repr)
def test_values_outside_are_counted_in_other_on_request(value):
    table = ContingencyTable({"arm": ["a", "b"], "outcome": ["no", "yes"]}, other=("arm",))
    counts = table.counts({"arm": ["a", value], "outcome": ["no", "no"]})
    assert table.labels("arm") == ("a", "b", "other")
    assert counts.tolist() == [[1, 0], [0, 0], [1, 0]]


def test_no_row_is_ever_dropped():
    rng = np.random.default_rng(5)
    table = ContingencyTable({"x": [0, 1, 2], "y": Bins([0, 1, 2], outside="clamp")}, other=True)
    for size in (0, 1, 1000):
        frame = {"x": rng.integers(-2, 6, size), "y": rng.normal(1, 2, size)}
        assert table.counts(frame).sum() == size


def test_bins_are_half_open_and_the_last_one_closed():
    table = ContingencyTable({"age": Bins([0, 18, 65, 120])})
    assert table.counts({"age": [0, 17.9, 18, 64, 65, 120]}).tolist() == [2, 2, 2]
    for value in (-0.1, 120.5, float("nan"), float("inf"), None, "old"):
        with pytest.raises(InvalidParameter):
            table.counts({"age": [1.0, value]})
    clamped = ContingencyTable({"age": Bins([0, 18, 65, 120], outside="clamp")})
    assert clamped.counts({"age": [-5.0, 500.0, np.inf]}).tolist() == [1, 0, 2]
    with pytest.raises(InvalidParameter):
        clamped.counts({"age": [float("nan")]})


@pytest.mark.parametrize(
    ("columns", "other"),
    [
        ({}, False),
        ([1, 2], False),
        ({"a": []}, False),
        ({"a": ["x"]}, False),
        ({"a": ["x", "x"]}, False),
        ({"a": [1, True]}, False),
        ({"a": "xy"}, False),
        ({"a": 3}, False),
        ({"a": [[1], [2]]}, False),
        ({"a": [float("nan"), 1.0]}, False),
        ({1: ["x", "y"]}, False),
        ({"a": ["x", "y"]}, ("b",)),
        ({"a": ["x", "other"]}, True),
        ({"a": {"edges": [1, 0]}}, False),
        ({"a": {"edges": [0, 1], "typo": 1}}, False),
        ({"a": {"edges": [0, float("inf")]}}, False),
        ({"a": list(range(10**4)), "b": list(range(10**4)), "c": [1, 2]}, False),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_bad_descriptions_are_refused(columns, other):
    with pytest.raises(InvalidParameter):
        ContingencyTable(columns, other)


@pytest.mark.parametrize(
    "frame",
    [
        None,
        3,
        "rows",
        {"arm": ["a"]},
        {"arm": ["a"], "outcome": ["no", "yes"]},
        {"arm": [["a"]], "outcome": ["no"]},
        {"arm": np.zeros((2, 2)), "outcome": ["no", "no"]},
        pd.DataFrame({"arm": ["a"]}),
        pl.DataFrame({"arm": ["a"]}),
        pa.table({"arm": ["a"]}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_bad_frames_are_refused(frame):
    with pytest.raises(InvalidParameter):
        TABLE.counts(frame)


def test_counts_from_elsewhere_are_checked():
    assert TABLE.exact_counts(COUNTS).sensitivity.l1 == 1
    for counts in ([[1, 2]], [[1.0, 2.0], [3.0, 4.0]], [[1, -1], [0, 0]]):
        with pytest.raises((InvalidParameter, WrongType)):
            TABLE.exact_counts(counts)
    with pytest.raises(InvalidParameter):
        TABLE.exact_counts([[0, 0], [0, 0]], neighbours=Neighbours.REPLACE_ONE)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("rows_per_unit", [1, 2, 3])
def test_sensitivity_is_the_largest_change_over_all_neighbours(neighbours, rows_per_unit):
    """Brute force: every unit that could be added, removed or replaced, in a table of four cells."""
    cells = list(range(4))
    units = [u for size in range(rows_per_unit + 1) for u in itertools.combinations_with_replacement(cells, size)]
    changes = [np.bincount(unit, minlength=4) for unit in units]
    if neighbours is Neighbours.REPLACE_ONE:
        if rows_per_unit == 1:  # one row a unit: a replaced unit still has its row
            changes = [change for change in changes if change.sum() == 1]
        changes = [first - second for first in changes for second in changes]
    s = TABLE.sensitivity(neighbours, rows_per_unit=rows_per_unit)
    assert s.l1 == max(np.abs(change).sum() for change in changes)
    largest = max(float(np.sqrt(np.sum(change**2))) for change in changes)
    assert largest <= s.l2 <= largest * (1 + 1e-15)
    if s.moves is not None:
        for change in changes:
            moved = sorted(np.abs(change[change != 0]).tolist(), reverse=True)
            assert len(moved) <= len(s.moves)
            assert all(size <= bound for size, bound in zip(moved, s.moves, strict=False))


def test_description_and_release_survive_json():
    table = ContingencyTable({"arm": ["a", 1, 2.5], "age": Bins([0, 10, 20])}, other=("arm",))
    assert statistic_from_dict(table.to_dict()) == table
    assert hash(statistic_from_dict(table.to_dict())) == hash(table)
    exact = table.exact({"arm": ["a", "?"], "age": [3, 20]}, neighbours=Neighbours.REPLACE_ONE)
    assert isinstance(exact, Exact)
    assert "2" not in repr(exact.value) or "‹private›" in repr(exact)
    noisy = release(exact, RankDeficientGaussian(scale=1.0, clip="simplex"), rng=1)
    again = Release.from_json(noisy.to_json())
    assert type(again) is type(noisy)
    assert np.array_equal(again.value, noisy.value)
    assert np.array_equal(again.measured, noisy.measured)
    assert again.statistic == table
    assert again.margin("age").shape == (2,)
