"""Means of units with several rows: totals beside fractions, how far a unit moves them, and intervals that hold."""

import itertools
import math
import shutil
from collections import Counter, defaultdict
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from discreet import ApproxDP, Formula, GaussianDP, Neighbours, PureDP, Session, ZeroConcentratedDP
from discreet.core.errors import DiscreetError, InvalidParameter, SourceError
from discreet.core.rows import Selected, choice, keep, take, unit_totals
from discreet.core.rows.source import open_source
from discreet.core.schema import Bounds, Categories, Contribution, PrivacyUnit, Schema
from discreet.inference.noise import excess_kurtosis
from discreet.inference.unit_means import UnitMoments, unit_moments
from discreet.mechanisms.laplace import Laplace
from discreet.questions.grouped import Grouped
from discreet.questions.mean import MeanQuestion
from discreet.questions.moments import BernsteinMoments
from discreet.questions.unit_means import UnitParts
from discreet.results.release import Release, statistic_from_dict
from tests.core.test_all_rows import LARGEST, NUMBERS, SALT, row_parts, rows_of, schema_of, snapshot

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
ONE = Contribution(groups=1, rows=4)
FOUR = Contribution(total=4)


def schema(limits=FOUR, grid=1 / 8, **kwargs):
    columns = {"y": Bounds(0, 1, grid=grid), "g": Categories(["a", "b", "c"])}
    return Schema(columns=columns, unit=PrivacyUnit("who", contribution=limits), **kwargs)


def one_group(question):
    """The statistic of a question, or that of each of its groups."""
    found = question.measurement.statistic
    return found.of if isinstance(found, Grouped) else found


# ---- totals


def documented(rows, column, by, limits):
    """Σb, Σa, Σb², Σab, Σa² and what is left over units, all rows of which count."""
    bounds, labels = NUMBERS[column], ["a", "b", "c"]
    own, sizes = defaultdict(Counter), Counter()
    for row in rows:
        value = 0 if row[column] is None and column == "fine" else row[column]
        if row["who"] is None or value is None or (by and row["g"] not in labels):
            continue
        cell = labels.index(row["g"]) if by else 0
        scope = row["who"] if limits.rows is None else (row["who"], cell)
        whole, parts = row_parts(bounds, value, 1)
        sizes[scope] += 1
        for place, part in enumerate(parts):
            own[scope][cell, place] += part
    totals = np.full((3 if by else 1, 6), Fraction(0))
    for scope, sums in own.items():
        most, held = limits.rows or limits.total, sizes[scope]
        kept = {key: part if held <= most else part * most // held for key, part in sums.items()}
        limit, used = most * whole, sum(kept.values())
        for cell in {cell for cell, _ in kept}:
            p0, p1 = kept.get((cell, 0), 0), kept.get((cell, 1), 0)
            share = Fraction(p0 + p1, used) * (limit - used)
            left = share if p0 + p1 == used else max(math.floor(share - Fraction(1, 1024)), 0)
            b, a = Fraction(p0, limit), Fraction(p1, limit)
            totals[cell] += np.array([b, a, b * b, a * b, a * a, Fraction(left) / limit])
    return totals


@pytest.mark.parametrize("limits", [FOUR, Contribution(rows=3), Contribution(total=1000)], ids=str)
@pytest.mark.parametrize("column", NUMBERS)
def test_totals_are_those_of_fractions(limits, column):
    rows, read = rows_of(), snapshot(rows_of(), schema_of(limits))
    for by in (("g",), ()):
        found = unit_totals(read, Selected(by=by, columns=(column,), all_rows=True))
        wanted = documented(rows, column, by, limits)
        assert (found[:, :5] == wanted[:, :5]).all(), (column, by)
        # a share in floating point may fall on the other side of a whole number
        assert (abs(found[:, 5] - wanted[:, 5]) <= Fraction(60, LARGEST)).all()


MANY = pa.table(
    {
        "who": [f"unit {(at * at + at // 7) % 2_500}" for at in range(10_000)],
        "g": ["abc"[at * 5 % 7 % 3] for at in range(10_000)],
        "y": [at * 31 % 101 / 100 if at % 50 else None for at in range(10_000)],
    }
)


@pytest.mark.parametrize("where", [None, "g != 'b' and y > 0.2", "y > 0.99", "y < 0"])
@pytest.mark.parametrize(
    ("limits", "by"),
    [(FOUR, ()), (ONE, ("g",)), (Contribution(groups=2, rows=2), ("g",)), (Contribution(rows=10**5), ("g",))],
    ids=str,
)
def test_units_that_lie_side_by_side_are_added_up_alike(limits, by, where, monkeypatch):
    """In ten pieces; by a query; and with fractions, from the rows that are kept."""
    more = {} if where is None else {"where": Formula(where)}
    read = take(open_source(MANY, engine="duckdb"), schema(limits, **more), salt=SALT)
    asked = Selected(by=by, columns=("y",))
    monkeypatch.setattr(choice, "_PIECE", 1_000)
    in_order = unit_totals(read, asked)
    monkeypatch.setattr(keep, "_IN_ORDER", 0)
    by_query = unit_totals(read, asked)
    kept = read.dataset.fetch(keep.kept_rows(read, asked)).to_pylist()
    most, own = limits.rows or limits.total, defaultdict(lambda: np.full(2, Fraction(0)))
    for row in kept:
        y = Fraction(row[read.names["y"]], 8)
        own[row["u"], row["c"]] += np.array([1 - y, y]) / most
    wanted = np.full((3 if by else 1, 6), Fraction(0))
    for (_, cell), (b, a) in own.items():
        wanted[cell] += np.array([b, a, b * b, a * b, a * a, 1 - b - a])
    assert (in_order == wanted).all()
    assert (by_query == wanted).all()


def test_an_engine_that_keeps_too_much_is_not_believed():
    read = take(open_source(MANY, engine="duckdb"), schema(FOUR), salt=SALT)
    rows = keep.kept_rows(read, Selected(columns=("y",)))
    rows = rows.mutate(s=rows[read.names["y"]].cast("int64"))
    units = read.dataset.fetch(rows).column("u").to_pylist()
    told = keep._sums_in_order(read, rows, 1, 4, 8)
    assert [part[0] for part in told[:2]] == [len({*units}), len(units)]
    beyond = {
        "more rows": (rows, 3, 8),
        "more steps": (rows, 4, 7),
        "less than none": (rows.mutate(s=rows.s - 9), 4, 8),
    }
    for words, (wrong, most, across) in beyond.items():
        with pytest.raises(SourceError, match="kept more of a unit"):
            raise AssertionError(words, keep._sums_in_order(read, wrong, 1, most, across))


@pytest.mark.spark
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
def test_spark_adds_alike():
    rows, limits = rows_of(units=20), Contribution(total=3)
    asked = Selected(by=("g",), columns=("vast",), all_rows=True)
    found = [unit_totals(snapshot(rows, schema_of(limits), engine), asked) for engine in ("duckdb", "spark")]
    assert (found[0][:, :5] == found[1][:, :5]).all()


def test_so_many_rows_that_they_are_split_less_finely():
    """A limit beyond any unit: its weight is tiny, nothing overflows, and the rows are those there are."""
    rows = rows_of()
    for limits in (Contribution(total=2**40), Contribution(total=2**20)):
        read = snapshot(rows, schema_of(limits))
        b, a, *_, left = unit_totals(read, Selected(columns=("vast",)))[0]
        held = [row for row in rows if row["who"] is not None and row["vast"] is not None]
        most = min(limits.total, 2**31)
        assert float((b + a) * most) == pytest.approx(len(held), rel=5e-3)
        assert float(left + b + a) == pytest.approx(len({row["who"] for row in held}))


# ---- sensitivity


def parts_of(used, cells):
    """The parts of a unit with these (zeros, ones) of `used.rows` rows in each cell."""
    k, total = used.rows, sum(map(sum, cells))
    found = []
    for zeros, ones in cells:
        b, a = Fraction(zeros, k), Fraction(ones, k)
        share = Fraction(zeros + ones, total) if total else Fraction(0)
        left = 1 - a - b if used.inner == 2 else share * (1 - Fraction(total, k))
        found += used.of_totals([b, a, b * b, a * b, a * a, left if zeros + ones else Fraction(0)])
    return found


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("inner", [1.0, 2.0])
def test_no_unit_moves_the_totals_by_more_than_one_and_some_do(inner, weighed):
    """All units of up to 6 rows of which 6 are whole, over one cell (c = 2) or three (c = 1), and all pairs of some."""
    used = UnitParts(bounds=(0, 1), rows=6, inner=inner, weighed=weighed)
    pairs = [(z, o) for z in range(7) for o in range(7 - z)]
    units = [cells for cells in itertools.product(pairs, repeat=1 if inner == 2 else 3) if sum(map(sum, cells)) <= 6]
    vectors = np.array([[float(part) for part in parts_of(used, cells)] for cells in units])
    assert (vectors >= 0).all()
    told = used.sensitivity(neighbours=ADD)
    lengths, sums = np.linalg.norm(vectors, axis=1), vectors.sum(axis=1)
    assert lengths.max() == pytest.approx(told.l2 == 1.0 and 1.0, abs=1e-12)
    assert sums.max() <= told.l1 + 1e-12
    if not weighed:
        assert {sum(parts_of(used, cells)) for cells in units if sum(map(sum, cells))} == {1}
    some = vectors[:: max(1, len(vectors) // 400)]
    apart = np.linalg.norm(some[:, None] - some[None], axis=2).max()
    replaced = used.sensitivity(neighbours=REPLACE)
    assert apart <= replaced.l2 + 1e-12
    ends = [parts_of(used, [one] + [(0, 0)] * (len(units[0]) - 1)) for one in ((6, 0), (0, 6))]
    far = np.abs(np.array(ends[0], dtype=float) - np.array(ends[1], dtype=float))
    assert np.linalg.norm(far) == pytest.approx(math.sqrt(2))
    assert far.sum() == pytest.approx(2)
    assert replaced.l1 >= 2


def test_parts_tell_what_they_are_made_of():
    """Σu, Σuy, Σu², Σu²y and Σu²y² from the parts, in fractions, for both forms."""
    for inner, cells in itertools.product((1.0, 2.0), ([(1, 2)], [(0, 5)], [(3, 0)])):
        used = UnitParts(bounds=(0, 1), rows=6, inner=inner)
        b, a = (Fraction(one, 6) for one in cells[0])
        u = a + b
        wanted = {"n": 1, "u": u, "uy": a, "uu": u * u, "uuy": u * a, "uuyy": a * a}
        parts = parts_of(used, cells)
        for name, weights in unit_moments(inner).items():
            assert sum(Fraction(w) * part for w, part in zip(weights, parts, strict=True)) == wanted[name], name


@pytest.mark.parametrize(
    ("limits", "by"),
    [(FOUR, ()), (FOUR, "g"), (Contribution(groups=2, rows=2), "g"), (Contribution(total=1), "g")],
)
@pytest.mark.parametrize("all_rows", [False, True])
def test_declared_sensitivity_covers_replayed_neighbours(limits, by, all_rows):
    """The exact values of a question with and without one unit of up to 9 rows, or with another in its place."""
    asked = MeanQuestion(schema(limits), "y", by=by, mu=1.0, all_rows=all_rows)
    assert isinstance(one_group(asked), UnitParts) == (all_rows or limits != Contribution(total=1))
    base = [("p", 0.5, "a"), ("p", 1.0, "b"), ("q", 0.25, "a")]
    rng = np.random.default_rng(4)
    worlds = [base]
    for held in (1, 2, 4, 9):
        for value in (0.0, 1.0, None):
            ys = rng.integers(0, 9, held) / 8 if value is None else [value] * held
            worlds.append(base + [("r", float(y), g) for y, g in zip(ys, itertools.cycle("abc"), strict=False)])
    tables = [
        pa.table({name: [row[place] for row in rows] for place, name in enumerate(("who", "y", "g"))})
        for rows in worlds
    ]
    reads = [take(open_source(table), schema(limits), salt=SALT) for table in tables]
    values = [np.array(asked.measurement.exact(read), dtype=float) for read in reads]
    replaced = MeanQuestion(schema(limits, neighbours=REPLACE, size=3), "y", by=by, mu=1.0, all_rows=all_rows)
    for against, question in ((values[:1], asked), (values[1:], replaced)):
        told = question.measurement.sensitivity
        moved = [one - other for one in against for other in values[1:]]
        assert max(np.abs(one).sum() for one in moved) <= told.l1 + 1e-9
        assert 0.7 * told.l2 <= max(np.linalg.norm(one) for one in moved) <= told.l2 + 1e-9


# ---- answers


def people(rng, count, mean_of):
    """A table of people with 1 to 4 rows each, and what ``mean_of`` makes of the number of rows."""
    held = rng.integers(1, 5, count)
    who = np.repeat(np.arange(count), held)
    return pa.table({"who": who, "y": mean_of(held, who), "g": np.array(["a", "b", "c"])[who % 3]})


def test_an_answer_says_what_totals_of_rows_say_and_reads_back():
    rng = np.random.default_rng(3)
    table = people(rng, 3000, lambda held, who: rng.integers(0, 9, who.size) / 8)
    truth = float(np.mean(table["y"].to_numpy()))
    asked = Session(table, schema(), ledger=":memory:", budget=PureDP(30.0))
    found = asked.mean("y", epsilon=3.0)
    assert isinstance(found.statistic, UnitParts)
    assert found.noise_interval(0.999999).contains(truth)
    assert found.count == pytest.approx(len(table), abs=60)
    assert found.count_error(0.95) > 0
    assert Release.from_json(found.to_json()).population_interval() == found.population_interval()
    assert statistic_from_dict(found.statistic.to_dict()) == found.statistic
    assert [one.measure for one in found.readings()] == ["mean"]
    with pytest.raises(AttributeError, match="variance=True"):
        _ = found.standard_deviation
    rows = asked.mean("y", epsilon=3.0, variance=True)
    assert isinstance(rows.statistic, BernsteinMoments)
    # rows of a person are independent here: 2 times the variance that there is, at k = 4, is not counted any more
    assert 1.4 < rows.population_interval().width / found.population_interval().width < 2
    lost = asked.dropped_rows(epsilon=1.0, columns="y")
    assert lost.mean_interval(found).contains(truth)


def test_which_means_are_measured_by_units():
    def of(limits=FOUR, **asked):
        return one_group(MeanQuestion(schema(limits), "y", **asked))

    assert of(epsilon=1.0) == UnitParts(bounds=(0, 1), rows=4)
    assert of(mu=1.0) == UnitParts(bounds=(0, 1), rows=4, weighed=True)
    assert of(mu=1.0, by="g") == UnitParts(bounds=(0, 1), rows=4, inner=1.0, weighed=True)
    assert of(ONE, epsilon=1.0, by="g") == UnitParts(bounds=(0, 1), rows=4)
    assert of(Contribution(total=1), mu=1.0, by="g", all_rows=True).inner == 1  # all rows may lie in all groups
    for rows in (of(epsilon=1.0, by="g"), of(epsilon=1.0, delta=1e-6, by="g"), of(Contribution(rows=1), epsilon=1.0)):
        assert isinstance(rows, BernsteinMoments)
    assert of(Contribution(rows=1), epsilon=1.0, all_rows=True).rows == 1
    assert isinstance(of(epsilon=1.0, variance=True), BernsteinMoments)
    assert isinstance(of(epsilon=1.0, variance=False), BernsteinMoments)
    (note,) = MeanQuestion(schema(), "y", epsilon=0.01, expected_rows=1000).plan().notes
    assert note.startswith("variance=False leaves out the variance")


@pytest.mark.parametrize("bad", [{"inner": 1.5}, {"rows": 0}, {"bounds": (1, 1)}, {"weighed": 1}])
def test_what_makes_no_parts_is_refused(bad):
    with pytest.raises(DiscreetError):
        UnitParts(**({"bounds": (0, 1), "rows": 4} | bad))
    with pytest.raises(InvalidParameter):
        MeanQuestion(Schema(columns={"y": Bounds(0, 1, grid=0.5)}, unit=PrivacyUnit("who")), "y", epsilon=1.0)


@pytest.mark.parametrize(
    "guarantee", [PureDP(1.0), GaussianDP(1.0), ZeroConcentratedDP(0.5), ApproxDP(1.0, 1e-6)], ids=str
)
@pytest.mark.parametrize("by", [(), "g"])
def test_plans_foresee_the_error(guarantee, by):
    rng = np.random.default_rng(8)
    table = people(rng, 900, lambda held, who: rng.integers(0, 9, who.size) / 8)
    limits = ONE if by else FOUR
    session = Session(table, schema(limits), ledger=":memory:", budget=guarantee)
    planned = session.plan.mean("y", by=by, guarantee=guarantee, expected_rows=len(table))
    asked = MeanQuestion(schema(limits), "y", by=by, guarantee=guarantee, expected_rows=len(table))
    exact = np.array(asked.measurement.exact(session._rows(asked)), dtype=float).reshape(-1, 6)[0]
    statistic = one_group(asked)
    noisy = exact + np.asarray(asked.measurement.mechanism.law(0.0).sample((4000, 6), rng=rng))
    noisy, true = noisy / statistic.factors, exact / statistic.factors
    found = (noisy @ statistic.positions) / (noisy @ statistic.counts) / 2
    truth = (true @ statistic.positions) / (true @ statistic.counts) / 2
    assert np.std(found - truth) == pytest.approx(planned.standard_error, rel=0.1)


# ---- coverage


def heavy(rng, shape):
    """Only people with four rows say yes."""
    yes = rng.random(shape) < 0.03
    held = np.where(yes, 4, 1)
    return np.where(yes, 4.0, 0.0), held, 0.12 / (0.12 + 0.97)


def alike(rng, shape):
    held = rng.integers(1, 5, shape)
    return held * (rng.random(shape) < 0.1), held, 0.1


def apart(rng, shape):
    held = rng.integers(1, 5, shape)
    return rng.binomial(held, 0.3).astype(float), held, 0.3


def skewed(rng, shape):
    """Lognormal values up to 20 times the median, alike in half of the people."""
    held = rng.integers(1, 5, shape)
    values = np.clip(rng.lognormal(0, 1, (*shape, 4)), 0, 20) / 20
    values = np.where(rng.random((*shape, 1)) < 0.5, values[..., :1], values)
    edges = (np.arange(100_000) + 0.5) / 100_000
    mean = float(np.clip(np.exp(_normal(edges)), 0, 20).mean() / 20)
    return (values * (np.arange(4) < held[..., None])).sum(-1), held, mean


def _normal(shares):
    from scipy.special import ndtri

    return ndtri(shares)


@pytest.mark.parametrize("units", [40, 250])
@pytest.mark.parametrize("epsilon", [1.0, 10.0])
@pytest.mark.parametrize("kind", [heavy, alike, apart, skewed])
def test_population_intervals_hold_however_alike_the_rows_of_a_unit_are(kind, epsilon, units):
    rng, repeats = np.random.default_rng(units), 1000
    sums, held, mean = kind(rng, (repeats, units))
    a, b = sums / 4, (held - sums) / 4
    u = a + b
    parts = np.stack([b * b, 2 * a * b, a * a, 2 * b * (1 - u), 2 * a * (1 - u), (1 - u) ** 2], -1).sum(1)
    law = Laplace(1 / epsilon).law(0.0)
    noisy = parts + np.asarray(law.sample(parts.shape, rng=rng))
    found = UnitMoments(totals=noisy, noise=float(law.variance), kurtosis=excess_kurtosis(law), inner=2.0)
    covered = float(np.mean(found.accepts_mean(np.full(repeats, mean))))
    assert covered > 0.945 - 3 * math.sqrt(0.05 * 0.95 / repeats)
    if units == 250 and epsilon == 10 and kind in (alike, apart):  # and are not much wider than without privacy
        low, high = found.mean_interval()
        ideal = np.std(sums - mean * held) / math.sqrt(units) / np.mean(held)
        assert np.median(high - low) < 1.3 * 2 * 1.96 * ideal


def test_rows_taken_for_independent_would_not_do():
    """The same test without what rows of a person share rejects the true mean too often: it can tell."""
    from discreet.inference.moments import PartMoments

    rng, repeats, units = np.random.default_rng(2), 1500, 250
    sums, held, mean = alike(rng, (repeats, units))
    y = np.where(sums > 0, 1.0, 0.0)
    totals = np.stack([(held * math.comb(4, j) * y**j * (1 - y) ** (4 - j)).sum(1) for j in range(5)], -1)
    found = PartMoments(totals=totals, noise=1e-6, kurtosis=3.0, rows_per_unit=1)
    assert float(np.mean(found.accepts_mean(np.full(repeats, mean)))) < 0.85
