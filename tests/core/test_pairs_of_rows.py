"""Pairs of a session's rows: gaps, units of several rows, public numbers of rows and grids, beside plain Python."""

from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import discreet as d
from discreet.core.errors import InvalidParameter
from discreet.core.rows import Selected, histograms, take
from discreet.core.rows.source import open_source
from discreet.questions.signed_rank import PairedBalance, SignedRankQuestion

ONE = d.PureDP(1.0)
POLICIES = [*product(["drop", 4], repeat=2)]
ROWS = [(1, 7, 2), (2, 3, 3), (3, None, 5), (4, 9, None), (5, 1, 4), (6, None, None), (7, 0, 10), (8, 6, 2)]
"""A person, after, before."""


def snapshot(rows, schema):
    columns = zip(*rows, strict=True)
    table = pa.table(
        {name: pa.array(one, pa.int64()) for name, one in zip(("who", "after", "before"), columns, strict=True)}
    )
    return take(open_source(table), schema, salt="5a" * 32)


def schema(after="drop", before="drop", **facts):
    kinds = {name: d.Bounds(0, 10, grid=1, nulls=nulls) for name, nulls in (("after", after), ("before", before))}
    return d.Schema(columns=kinds, **facts)


def value(rows, known, against="before", method="ranks"):
    question = SignedRankQuestion(known, "after", against, guarantee=ONE, method=method)
    found = np.atleast_1d(np.array(question.exact(snapshot(rows, known)).value, dtype=object))
    return [Fraction(one) for one in found], question.measurement


@pytest.mark.parametrize(("after", "before"), POLICIES)
def test_a_pair_with_a_gap_is_dropped_or_completed_as_each_column_says(after, before):
    filled = [(a if a is not None else after, b if b is not None else before) for _, a, b in ROWS]
    differences = [a - b for a, b in filled if "drop" not in (a, b)]
    for method in ("ranks", "signs"):
        expected = PairedBalance(scores=method).value(differences)
        assert value(ROWS, schema(after, before), method=method)[0] == list(expected)


@pytest.mark.parametrize("against", ["before", 3])
@pytest.mark.parametrize(("after", "before"), POLICIES)
def test_the_number_of_rows_is_public_only_where_no_pair_can_drop_out(after, before, against):
    known = schema(after, before, neighbours=d.Neighbours.REPLACE_ONE, size=len(ROWS))
    found, measured = value(ROWS, known, against)
    drops = "drop" in ((after, before) if against == "before" else (after,))
    assert measured.statistic.n == (None if drops else len(ROWS))
    assert len(found) == 1 + drops


def test_differences_choose_their_own_rows_of_a_unit():
    """What other questions kept of the same rows before must not stand in for the differences."""
    unit = d.PrivacyUnit("who", contribution=d.Contribution(total=1))
    known = schema(unit=unit)
    rows = [(1, 9, 2), (1, 9, 2), (2, 3, 8), (2, 3, 8)]
    held = snapshot(rows, known)
    histograms(held, Selected(columns=("after",)))
    question = SignedRankQuestion(known, "after", "before", guarantee=ONE)
    assert list(question.exact(held).value) == list(PairedBalance().value([7, -5]))


def test_numbers_too_far_from_zero_for_the_grid_that_both_share_are_refused_before_any_row_is_read():
    """Multiplied to a common grid they would leave 64 bits: an error, but only where there is a row."""
    columns = {
        "after": d.Bounds(1_000_000_000, 1_001_000_000, grid=0.001),
        "before": d.Bounds(1_000_000_001, 1_001_000_001.001, grid=0.001000000001),
    }
    with pytest.raises(InvalidParameter, match="too fine a grid"):
        SignedRankQuestion(d.Schema(columns=columns), "after", "before", guarantee=ONE)
