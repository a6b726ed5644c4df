"""Plain texts: what is read here means what the engine's rules say, whatever stands beside it; units keep their row."""

import itertools
import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from discreet import PrivacyUnit, Schema
from discreet.core.rows import take
from discreet.core.rows.keep import OTHER, typed
from discreet.core.rows.read import Dialect
from discreet.core.rows.source import open_source
from discreet.questions.profile import columns as module
from discreet.questions.profile.columns import FIRST, fine_counts, plain_values, unit_rows
from discreet.testing.sources import HOSTILE_TEXTS

DATES = [
    "2020-02-29", "2021-02-29", "0000-01-01", "0001-01-01", "9999-12-31", "1969-12-31 23:59:59", "2020-01-05T10",
    "2020-01-05T10:00:00Z", "2020-01-05T10:00:00+02:00", "2020-01-05 10:00:00.123456789", "2020-01-05T24:00:00",
    "2020-1-5", "2020/01/05", "05.01.2020", "31.12.1999", "12/31/1999", "2020-01-05 ", " 2020-01-05", "20200105",
    "2020-01-05T23:59:60", "2020-01-05t10:00", "-001-01-01", "1.2.3", "2020-01-05x",
]  # fmt: skip
NUMBERS = [
    "1e308", "1.8e308", "4.9e-324", "1.7976931348623159e308", "2.2250738585072011e-308", "0.1", "1.234,5", "1,234.5",
    "1'234", "$5", "5 $", "-5%", "$ -5", "nan(12)", "-nan", "1e+", "1e5e5", "+", ".", ",", "-.", "fals", "tru", "in",
    "t", "infinite", "+inf", "- 1", "123456789012345678901234567890", "0" * 400, "1" * 400, "0." + "3" * 400,
]  # fmt: skip
DIALECTS = [
    ({}, "ymd"),
    ({"decimal": ","}, "dmy"),
    ({"decimal": ",", "thousands": "."}, "mdy"),
    ({"thousands": ","}, "ymd"),
    ({"symbols": "$ % n t"}, "ymd"),
]


def hostile(seed):
    draw = random.Random(seed)
    made = ["".join(draw.choices("0123456789+-.,eE \t:/TZinfatrue$%ſé\n", k=draw.randint(1, 7))) for _ in range(400)]
    return [*HOSTILE_TEXTS, *DATES, *NUMBERS, *made]


class Seen:
    """All values that a pass shows, as the counts of a profile tell them apart."""

    def __init__(self):
        self.columns = {}

    def add(self, place, numbers, decimals, days, times):
        parts = (np.atleast_1d(one).tolist() for one in np.broadcast_arrays(numbers, decimals, days, times))
        seen = self.columns.setdefault(place, Counter())
        for number, decimal, day, count in zip(*parts, strict=True):
            seen[("day", day) if number != number else (number.hex(), bool(decimal))] += count

    def forget(self, place):
        self.columns[place] = Counter()


def by_the_rules(texts, written, order):
    """Each text as the engine types it."""
    data = open_source(pa.table({"t0": pa.array(texts, pa.string()), "held": range(len(texts))}))
    found = data.fetch(typed(data.table, written, order)).sort_by("held").to_pydict()
    return list(zip((np.nan if one is None else one for one in found["n0"]), found["d0"], strict=True))


def counted(values):
    seen = Seen()
    for number, day in values:
        seen.add(0, number, number != np.floor(number), day, 1)
    return seen.columns.get(0, Counter())


@pytest.mark.parametrize(("dialect", "order"), DIALECTS)
def test_texts_mean_what_the_rules_say_alone_and_in_company(dialect, order, monkeypatch):
    texts, written = hostile(len(dialect)), Dialect(**dialect)
    rules, plain = by_the_rules(texts, written, order), 0
    for text, meant in zip(texts, rules, strict=True):
        numbers, days, others = plain_values(pa.array([text], pa.string()), written=written, order=order)
        if not len(others):
            seen = Seen()
            seen.add(0, numbers, numbers != np.floor(numbers), days, 1)
            assert seen.columns[0] == counted([meant]), text
            plain += 1
    assert plain > 50
    beside = [["1", "2.5"], ["2020-01-01"], ["x"], ["", None]]
    columns = [[*more * (40 // len(more)), *texts] for more in beside]
    table = pa.table({f"c{k}": pa.array(column, pa.string()) for k, column in enumerate(columns)})
    expected = {k: counted(by_the_rules(column, written, order)) for k, column in enumerate(columns)}
    for room in (2**28, 0):
        monkeypatch.setattr(module, "_ROOM", room)
        seen = Seen()
        unit_rows(take(open_source(table, **dialect), Schema(columns={})), table.column_names, order).visit(seen)
        assert seen.columns == expected


def test_plain_columns_stay_off_the_engine():
    """Numbers, dates and words need no rule of the engine; what must be asked is not lost."""
    texts = pa.array(["north", "12", "", "2020-01-01", "south", "true"])
    _, days, others = plain_values(texts, written=Dialect())
    assert np.count_nonzero(days == OTHER) == 2
    assert others.to_pylist() == ["2020-01-01", "true"]


def test_each_unit_keeps_a_row_that_its_own_rows_decide():
    """Cells of all units together are the sum of each one's alone, in whatever order the rows stand."""
    draw = random.Random(7)
    rows = [(unit, draw.choice(["", "1", "2.5", "x"]), float(draw.randint(0, 3))) for unit in "aabbbbcdddd" * 3]
    rows += [("a", "1", 1.0)] * 5 + [(None, "9", 9.0)] * 3

    def cells(chosen):
        units, texts, numbers = zip(*chosen, strict=True)
        table = pa.table({"u": pa.array(units, pa.string()), "x": pa.array(texts), "y": pa.array(numbers)})
        snapshot = take(open_source(table), Schema(columns={}, unit=PrivacyUnit("u")), salt="s" * 64)
        found = fine_counts(unit_rows(snapshot, ["x", "y"], "ymd"), ["x", "y"])
        return np.array([found[name].cells(FIRST) for name in "xy"])

    alone = [cells([row for row in rows if row[0] == unit]) for unit in "abcd"]
    assert all(one.sum() == 2 for one in alone)
    for _ in range(3):
        draw.shuffle(rows)
        assert (cells(rows) == sum(alone)).all()
    for chosen in itertools.combinations("abcd", 3):
        part = [row for row in rows if row[0] in chosen]
        assert (cells(part) == sum(alone[ord(unit) - ord("a")] for unit in chosen)).all()


def test_a_row_is_chosen_as_often_as_it_occurs():
    """A unit with nine rows alike and another one keeps the other in a tenth of the units."""
    units = np.repeat(np.arange(4000), 10)
    texts = np.where(np.arange(40_000) % 10 == 0, "x", "7")
    table = pa.table({"u": pa.array(units), "x": pa.array(texts.tolist())})
    snapshot = take(open_source(table), Schema(columns={}, unit=PrivacyUnit("u")), salt="s" * 64)
    found = unit_rows(snapshot, ["x"], "ymd")
    others = fine_counts(found, ["x"])["x"].cells(FIRST)[1]
    assert abs(others - 400) < 5 * np.sqrt(4000 * 0.09)  # the salt is fixed, so this never changes
    assert found.distinct([0]) == [2]
