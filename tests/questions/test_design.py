"""Weights, strata and clusters: sensitivity by brute force, estimates and standard errors by other formulas."""

import csv
import itertools
import json
import math
import re
import shlex
import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from scipy import stats

from discreet import (
    Bounds,
    Categories,
    Contribution,
    Design,
    Feature,
    GaussianDP,
    Ledger,
    Neighbours,
    PrivacyUnit,
    PureDP,
    Release,
    Schema,
    Session,
    ZeroConcentratedDP,
)
from discreet.cli.main import main
from discreet.core.errors import DiscreetError
from discreet.core.rows import Snapshot, keep
from discreet.inference.design import DesignCells, DesignMoments, measured_moments, product_of_margins
from discreet.inference.least_squares import LeastSquares, LinearMoments
from discreet.inference.noise import MonteCarlo
from discreet.mechanisms import Gaussian, Laplace, PoissonSample
from discreet.plans.declarations import Formula, schema_from_dict
from discreet.plans.plan_file import PlanFile
from discreet.plans.planner import ExpectedNumbers, Scenario
from discreet.questions import (
    CountQuestion,
    HistogramQuestion,
    LogisticQuestion,
    MeanQuestion,
    ProportionQuestion,
    RegressionQuestion,
    StandardDeviationQuestion,
    SumQuestion,
    TableQuestion,
    VarianceQuestion,
)
from discreet.questions import design as room
from discreet.questions.design import DesignParts, trim_steps
from discreet.questions.quantile import DesignQuantiles
from discreet.results.release import statistic_from_dict

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
NAN, INFINITE = float("nan"), float("inf")
WEIGHTS = [None, NAN, -INFINITE, -3.0, 0.0, 0.4, 0.6, 1.0, 25.0, 40.0, 59.0, 60.0, 61.0, 1e9, INFINITE]
VALUES = [None, -5.0, 0.0, 2.0, 5.0, 10.0, 99.0]
MANY = 200
COLUMNS = {
    "k": Categories(range(MANY)),
    "w": Bounds(0, 100, grid=1),
    "y": Bounds(0, 10, grid=1),
    "v": Categories(["no", "yes"]),
    "g": Categories(["a", "b"]),
    "h": Categories(["s", "t"]),
}


def schema_of(*, neighbours=ADD, unit=None, **design):
    size = 1 if neighbours is REPLACE else None
    design = Design(weight="w", **{"weight_high": 60, "cluster": unit} | design)
    return Schema(columns=COLUMNS, neighbours=neighbours, size=size, unit=PrivacyUnit(unit), design=design)


def session_of(rows, schema):
    """Rows of weight, value, and further labels."""
    kinds = {"w": pa.float64(), "y": pa.float64(), "id": pa.int64(), "v": pa.string(), "g": pa.string(),
             "h": pa.string(), "k": pa.int64()}  # fmt: skip
    plain = {"w": 1.0, "y": 0.0, "id": 1, "v": "no", "g": "a", "h": "s", "k": 0}
    full = [plain | row for row in rows]
    table = pa.table({name: pa.array([row[name] for row in full], kind) for name, kind in kinds.items()})
    budget = PureDP(1000.0)
    return Session(
        table, schema, ledger=Ledger(":memory:", budget, neighbours=schema.neighbours, unit=schema.unit.unit)
    )


def exact(rows, question):
    return list(session_of(rows, question.schema).exact(question).value)


def alone(rows, question):
    """What each unit adds: ``k`` is its number, and by it every unit has totals of its own."""
    parts = exact(rows, question)
    size = len(parts) // MANY
    return [parts[start : start + size] for start in range(0, len(parts), size)]


def questions(schema, guarantee, by=()):
    yield MeanQuestion(schema, "y", by=by, guarantee=guarantee)
    yield ProportionQuestion(schema, "v", "yes", by=by, guarantee=guarantee)
    yield SumQuestion(schema, "y", by=by, guarantee=guarantee)
    yield CountQuestion(schema, by=by, guarantee=guarantee)


def moved(parts, others=None):
    change = [a - b for a, b in zip(parts, others or [0] * len(parts), strict=True)]
    return sum(map(abs, change)), sum(one * one for one in change)


@pytest.mark.parametrize("guarantee", [PureDP(1.0), GaussianDP(1.0)], ids=["laplace", "gaussian"])
@pytest.mark.parametrize("strata", [None, "h"])
def test_a_row_moves_the_parts_by_at_most_one(guarantee, strata):
    """Over every kind of weight and value, both relations: what one row adds, and what replacing it changes."""
    pairs = list(itertools.product(WEIGHTS, VALUES))
    rows = [{"w": w, "y": y, "v": "no" if y is None or y < 5 else "yes", "k": k} for k, (w, y) in enumerate(pairs)]
    schema = schema_of(strata=strata)
    for question in [*questions(schema, guarantee, by="k"), VarianceQuestion(schema, "y", by="k", guarantee=guarantee)]:
        used = alone(rows, question)[: len(rows)]
        assert all(part >= 0 for parts in used for part in parts)
        reached = [moved(parts) for parts in used]
        sensitivity = question.measurement.sensitivity
        if guarantee == PureDP(1.0):
            assert {total for total, _ in reached} == {0, 1}
            assert sensitivity.l1 == 1
        assert max(square for _, square in reached) <= 1 == sensitivity.l2
        assert max(moved(a, b)[1] for a, b in itertools.combinations({*map(tuple, used)}, 2)) <= 2
        replaced = question.changed(schema=schema_of(strata=strata, neighbours=REPLACE)).measurement.sensitivity
        assert replaced.l2 == pytest.approx(math.sqrt(2), rel=1e-12)


@pytest.mark.parametrize("guarantee", [PureDP(1.0), GaussianDP(1.0)], ids=["laplace", "gaussian"])
def test_the_bounds_are_attained(guarantee):
    question = MeanQuestion(schema_of(weight_high=100), "y", guarantee=guarantee)
    low, high = (exact([{"w": 100.0, "y": y}], question) for y in (0.0, 10.0))
    assert moved(low) == (1, 1)
    assert moved(low, high) == (2, 2)


@pytest.mark.parametrize("guarantee", [PureDP(1.0), GaussianDP(1.0)], ids=["laplace", "gaussian"])
def test_a_cluster_moves_the_parts_by_at_most_one(guarantee):
    """Households of one to three rows in several strata and groups, with weights far beyond the trim or none."""
    schema = schema_of(unit="id", strata="h")
    kinds = [{"w": w, "y": y, "v": v, "g": g, "h": h} for w, y, v, g, h in [
        (30.0, 10.0, "yes", "a", "s"), (30.0, 0.0, "no", "b", "t"), (7.0, 3.0, "no", "a", "t"),
        (1e9, 10.0, "yes", "b", "s"), (-2.0, 10.0, "yes", "a", "s"), (60.0, 0.0, "no", "a", "s"),
        (None, 1.0, "no", "b", "s"), (1.0, 10.0, "yes", "b", "s"),
    ]]  # fmt: skip
    units = [list(rows) for size in (1, 2, 3) for rows in itertools.combinations_with_replacement(kinds, size)]
    everybody = [row | {"id": number, "k": number} for number, rows in enumerate(units) for row in rows]
    for question in questions(schema, guarantee, by=("k", "g")):
        used = alone(everybody, question)
        assert all(part >= 0 for parts in used for part in parts)
        assert max(total for total, _ in map(moved, used)) <= (1 if guarantee == PureDP(1.0) else 4)
        assert max(square for _, square in map(moved, used)) <= 1
        largest = max(total for total, _ in map(moved, used))
        assert guarantee != PureDP(1.0) or largest == 1


def in_fractions(factors, shares, y, left, degree, inner, *, trimmed):
    """Squared length of what a unit adds, with factors: written anew, for any division into cells."""
    seconds, firsts = (
        [math.comb(d, j) * y**j * (1 - y) ** (d - j) for j in range(d + 1)] for d in (degree, (degree + 1) // 2)
    )
    total = Fraction(0)
    for u, part in zip(shares, left, strict=True):
        parts = [u * u * one for one in seconds] + [inner * u * (1 - u) * one for one in firsts]
        parts += [0, part] if trimmed else [part, 0]
        total += sum((factor * one) ** 2 for factor, one in zip(factors, parts, strict=False))
    return total


@pytest.mark.parametrize("inner", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("of", ["mean", "proportion", "variance", "estimated count"])
def test_factors_for_gaussian_noise_leave_the_length_at_one(of, inner):
    """Theorem 3 in fractions; factors a tenth larger break it."""
    bounds = () if of == "estimated count" else (0.0, 1.0)
    top = 200.0 if inner == 2 else 210.0
    parts = DesignParts(of=of, bounds=bounds, weight_high=200.0, top=top, weighed=True, inner=inner)
    grid = [Fraction(k, 24) for k in range(25)]
    trim, times = Fraction(20, 21), Fraction(inner)

    def worst(factors):
        found = Fraction(0)
        for whole, y in itertools.product([*grid, trim], [Fraction(k, 8) for k in range(9)]):
            for cells in (1, 2, 3) if inner == 1 else (1,):
                own = [whole / cells] * cells
                rest = [(1 - whole) * (1 - (times - 1) * whole) / cells] * cells
                for trimmed in {False, whole == trim and inner < 2}:
                    found = max(found, in_fractions(factors, own, y, rest, parts.degree, times, trimmed=trimmed))
        return found

    assert worst(parts.multiplied) <= 1
    for place in range(parts.degree + 1 if of != "variance" else 1):
        assert worst([one * (Fraction(11, 10) if place == at else 1) for at, one in enumerate(parts.multiplied)]) > 1
    first = parts.degree + 1
    if inner > 1 and of == "estimated count":  # of larger degrees no row is at the end of both
        assert worst([one * (Fraction(21, 20) if at == first else 1) for at, one in enumerate(parts.multiplied)]) > 1
    fine = [Fraction(k, 1000) for k in range(1001)]
    assert all(u**4 + Fraction(25, 4) * u**2 * (1 - u) ** 2 <= u for u in fine)
    assert any(u**4 + Fraction(27, 10) ** 2 * u**2 * (1 - u) ** 2 > u for u in fine)


@pytest.mark.parametrize("inner", [1.0, 1.5])
@pytest.mark.parametrize("trim", [1, 20, 21, 44, 60, 1000, 1001])
def test_trimmed_weights_have_a_larger_factor_only_where_they_may(trim, inner):
    steps, top = trim_steps(Schema(columns={"w": Bounds(0, 4000, grid=1)}, design=Design(weight="w", weight_high=trim)))
    parts = DesignParts(of="mean", bounds=(0, 1), weight_high=float(trim), top=float(top), weighed=True, inner=inner)
    assert steps == trim
    assert 20 * (top - trim) >= trim
    u, factor = Fraction(trim, top), parts.multiplied[-1]
    assert factor == (1 if trim in (1, 21) or (inner == 1 and trim == 44) else 4 if inner == 1 else 12)
    rest = (1 - u) * (1 - (Fraction(inner) - 1) * u)
    if inner == 1:
        assert factor**2 * (1 - u) <= 1
    else:
        assert in_fractions(parts.multiplied, [u], Fraction(0), [rest], 2, Fraction(inner), trimmed=True) <= 1


# ---- Mutants: what would break the guarantee is seen by the tests above


def mutants():
    steps = room.trim_steps
    yield "an inner factor that is too large", "_FACTORS", {1.5: (Fraction(4), Fraction(1))}
    yield "a top below the trim", "trim_steps", lambda schema: (steps(schema)[0], steps(schema)[0] // 2)
    yield "a sensitivity of one half", "in_parts", lambda *given: replace(real(*given), l1=0.5, l2=0.5, moves=None)


real = room.in_parts


@pytest.mark.parametrize(("name", "planted"), [one[1:] for one in mutants()], ids=[one[0] for one in mutants()])
def test_planted_faults_are_found(monkeypatch, name, planted):
    monkeypatch.setattr(room, name, planted)
    with pytest.raises((AssertionError, DiscreetError)):
        everything_about_the_parts()


def everything_about_the_parts():
    test_a_row_moves_the_parts_by_at_most_one(PureDP(1.0), None)
    test_factors_for_gaussian_noise_leave_the_length_at_one("mean", 1.5)


@pytest.mark.parametrize("wrong", [lambda units, whole: whole, lambda units, whole: whole * 0 - 1])
def test_an_engine_that_divides_a_cluster_wrongly_is_not_believed(monkeypatch, wrong):
    monkeypatch.setattr(keep, "_divided", wrong)
    rows = [{"w": 50.0, "g": "a"}, {"w": 40.0, "g": "b"}]
    refused("kept more of a unit", lambda: exact(rows, CountQuestion(schema_of(unit="id"), by="g", epsilon=1.0)))


# ---- Outcomes


@pytest.mark.parametrize(
    ("weight", "counted", "trimmed"),
    [(None, 0, 0), (NAN, 0, 0), (-3.0, 0, 0), (0.0, 0, 0), (0.4, 0, 0), (0.6, 1, 0), (1.0, 1, 0), (60.0, 60, 0),
     (60.4, 60, 0), (61.0, 60, 1), (1e300, 60, 1), (INFINITE, 60, 1), (-INFINITE, 0, 0)],
)  # fmt: skip
@pytest.mark.parametrize("unit", [None, "id"])
def test_every_weight_has_an_outcome(weight, counted, trimmed, unit):
    question = CountQuestion(schema_of(unit=unit), epsilon=1.0)
    found = noiseless(session_of([{"w": weight}], question.schema), question)
    assert found.estimate == pytest.approx(counted)
    assert found.respondents == pytest.approx(float(counted > 0))
    assert found.trimmed == pytest.approx(trimmed)


@pytest.mark.parametrize("ask", [RegressionQuestion, LogisticQuestion])
def test_every_weight_has_an_outcome_in_regressions(ask):
    question = ask(schema_of(), "v", ["y"], epsilon=1.0)
    found = noiseless(session_of([{"w": one} for one in WEIGHTS], question.schema), question)
    kept = [1.0, 1.0, 25.0, 40.0, 59.0, 60.0, 60.0, 60.0, 60.0]
    assert found.nobs == pytest.approx(len(kept))
    assert found.effective_respondents == pytest.approx(sum(kept) ** 2 / sum(one**2 for one in kept), rel=1e-9)


@pytest.mark.parametrize("text", ["", "NA", "abc", "1e999", "0x10", "-"])
def test_weights_that_are_texts_have_one_too(text):
    schema = schema_of()
    table = pa.table({"w": ["5", text]})
    session = Session(table, schema, ledger=":memory:", budget=PureDP(9.0))
    assert noiseless(session, CountQuestion(schema, epsilon=1.0)).estimate == pytest.approx(65 if "999" in text else 5)


# ---- Estimates and standard errors without noise: the formulas of survey sampling, written anew


def noiseless(session, question):
    """What the question would release without noise."""
    found = session.exact(question)
    mechanism = Gaussian(1e-12)
    kind = question.measurement.statistic.release_type()
    return kind(
        value=np.array([float(one) for one in found.value]), mechanism=mechanism, sensitivity=found.sensitivity,
        guarantee=None, protection=found.protection, statistic=found.statistic, public=found.public, release_id="",
        created="", simulated=True,
    )  # fmt: skip


def linearised(w, residual, strata, *, people=None):
    """Standard error of Σ w·residual for units drawn with replacement within strata."""
    total = 0.0
    for h in np.unique(strata):
        z = (w * residual)[strata == h]
        n = len(z)
        share = 1.0 if people is None else 1 - n / people[h]
        total += share * n / (n - 1) * ((z - z.mean()) ** 2).sum()
    return math.sqrt(total)


@pytest.fixture
def sample():
    rng = np.random.default_rng(35)
    n = 400
    return {
        "w": np.clip(np.round(rng.lognormal(3, 0.5, n)), 1, 60), "y": np.round(rng.beta(1, 3, n) * 10),
        "v": rng.choice(["no", "yes"], n, p=[0.7, 0.3]), "g": rng.choice(["a", "b"], n),
        "h": rng.choice(["s", "t"], n, p=[0.2, 0.8]), "id": rng.integers(0, 150, n),
    }  # fmt: skip


def rows_of(sample):
    return [dict(zip(sample, (one.item() for one in row), strict=True)) for row in zip(*sample.values(), strict=True)]


@pytest.mark.parametrize("strata", [None, "h"])
def test_estimates_and_errors_are_those_of_survey_formulas(sample, strata):
    session = session_of(rows_of(sample), schema_of(strata=strata))
    w, y = sample["w"], sample["y"]
    h = sample["h"] if strata else np.zeros(len(w))
    mean = noiseless(session, MeanQuestion(session.schema, "y", epsilon=1.0))
    hajek = (w * y).sum() / w.sum()
    assert mean.estimate == pytest.approx(hajek, rel=1e-9)
    assert mean.standard_error == pytest.approx(linearised(w, y - hajek, h) / w.sum(), rel=1e-9)
    assert mean.effective_respondents == pytest.approx(w.sum() ** 2 / (w * w).sum(), rel=1e-9)
    yes = (sample["v"] == "yes").astype(float)
    share = noiseless(session, ProportionQuestion(session.schema, "v", "yes", epsilon=1.0))
    p = (w * yes).sum() / w.sum()
    assert share.estimate == pytest.approx(p, rel=1e-9)
    assert share.standard_error == pytest.approx(linearised(w, yes - p, h) / w.sum(), rel=1e-9)
    total = noiseless(session, SumQuestion(session.schema, "y", epsilon=1.0))
    assert total.estimate == pytest.approx((w * y).sum(), rel=1e-9)
    assert total.standard_error == pytest.approx(linearised(w, y, h), rel=1e-9)
    count = noiseless(session, CountQuestion(session.schema, epsilon=1.0))
    assert count.estimate == pytest.approx(w.sum(), rel=1e-9)
    assert count.standard_error == pytest.approx(linearised(w, np.ones(len(w)), h), rel=1e-9)


@pytest.mark.parametrize("strata", [None, "h"])
def test_variances_are_those_of_survey_packages(sample, strata):
    """The mean of squared distances over n − 1, and its linearised error, which takes the mean as known."""
    session = session_of(rows_of(sample), schema_of(strata=strata))
    w, y = sample["w"], sample["y"]
    h = sample["h"] if strata else np.zeros(len(w))
    square = (y - (w * y).sum() / w.sum()) ** 2 * len(w) / (len(w) - 1)
    found = noiseless(session, VarianceQuestion(session.schema, "y", epsilon=1.0))
    assert found.estimate == pytest.approx((w * square).sum() / w.sum(), rel=1e-9)
    assert found.standard_error == pytest.approx(linearised(w, square - found.estimate, h) / w.sum(), rel=1e-9)
    assert found.mean == pytest.approx((w * y).sum() / w.sum(), rel=1e-9)
    root = noiseless(session, StandardDeviationQuestion(session.schema, "y", epsilon=1.0))
    assert root.estimate == pytest.approx(math.sqrt(found.estimate), rel=1e-9)
    assert root.standard_error == pytest.approx(found.standard_error / 2 / root.estimate, rel=1e-9)
    by_group = noiseless(session, VarianceQuestion(session.schema, "y", by="g", epsilon=1.0))
    own = sample["g"] == "a"
    centre = np.average(y[own], weights=w[own])
    wanted = np.average((y[own] - centre) ** 2, weights=w[own]) * own.sum() / (own.sum() - 1)
    assert by_group["a"].estimate == pytest.approx(wanted, rel=1e-9)
    refused("has no interval here", lambda: by_group["a"].difference_interval(by_group["b"]))
    refused("variance is another", lambda: VarianceQuestion(schema_of(unit="id"), "y", epsilon=1.0))


@pytest.mark.parametrize("of", ["variance", "standard deviation"])
def test_variances_are_covered(of):
    """Skewed values that grow with the probability: 300 samples of 500, noise of ε = 1."""
    rng = np.random.default_rng(8)
    size = rng.lognormal(0, 0.5, 40_000)
    values = np.clip(rng.gamma(1.5, 1, size.size) * size / 8, 0, 1)
    truth = values.var() if of == "variance" else values.std()
    chance = 500 * size**0.8 / (size**0.8).sum()
    high = float(np.quantile(1 / chance[rng.random(size.size) < chance], 0.98))
    parts = DesignParts(of=of, bounds=(0, 1), weight_high=high, top=1.05 * high)
    sensitivity = parts.sensitivity(neighbours=ADD)
    held = []
    for _ in range(300):
        drawn = rng.random(size.size) < chance
        u, y, over = np.minimum(1 / chance[drawn], high) / parts.top, values[drawn], 1 / chance[drawn] > high
        seconds = [(u**2 * math.comb(4, j) * y**j * (1 - y) ** (4 - j)).sum() for j in range(5)]
        firsts = [(u * (1 - u) * math.comb(2, j) * y**j * (1 - y) ** (2 - j)).sum() for j in range(3)]
        noisy = np.array([*seconds, *firsts, (1 - u)[~over].sum(), (1 - u)[over].sum()]) + rng.laplace(size=10)
        found = room.DesignRelease(
            value=noisy, mechanism=Laplace(1.0), sensitivity=sensitivity, guarantee=None, statistic=parts,
            protection=schema_of().protection(), public={}, release_id="r", created="", simulated=True,
        )  # fmt: skip
        interval = found.population_interval()
        held.append(interval.low <= truth <= interval.high)
    assert np.mean(held) > 0.935


@pytest.mark.parametrize("strata", [None, "h"])
def test_domains_are_those_of_survey_formulas(sample, strata):
    session = session_of(rows_of(sample), schema_of(strata=strata))
    w, y = sample["w"], sample["y"]
    h = sample["h"] if strata else np.zeros(len(w))
    for question in questions(session.schema, PureDP(1.0), by="g"):
        for label in ("a", "b"):
            inside = (sample["g"] == label).astype(float)
            x = {"proportion": sample["v"] == "yes", "count": np.ones(len(w))}.get(question.ask, y).astype(float)
            found = noiseless(session, question)[label]
            if question.ask in ("mean", "proportion"):
                estimate = (w * x * inside).sum() / (w * inside).sum()
                error = linearised(w, inside * (x - estimate), h) / (w * inside).sum()
            else:
                estimate, error = (w * x * inside).sum(), linearised(w, inside * x, h)
            assert found.estimate == pytest.approx(estimate, rel=1e-9)
            assert found.standard_error == pytest.approx(error, rel=1e-9)


@pytest.mark.parametrize("by", [(), "g"])
def test_public_strata_are_weighted_to_their_population(sample, by):
    people = {"s": 4000.0, "t": 9000.0}
    session = session_of(rows_of(sample), schema_of(strata="h", population=people))
    w, y, h = sample["w"], sample["y"], sample["h"]
    scaled = w * np.array([people[one] / w[h == one].sum() for one in h])
    for label in ("a", "b") if by else (None,):
        inside = np.ones(len(w)) if label is None else (sample["g"] == label).astype(float)
        mean = (scaled * inside * y).sum() / (scaled * inside).sum()

        def error(residual):
            """Residuals from their weighted mean in the stratum: of a post-stratified estimate."""
            means = {one: np.average(residual[h == one], weights=w[h == one]) for one in people}
            return linearised(scaled, residual - np.array([means[one] for one in h]), h, people=people)

        cases = {
            MeanQuestion: (mean, error(inside * (y - mean)) / (scaled * inside).sum()),
            SumQuestion: ((scaled * inside * y).sum(), error(inside * y)),
        }
        for kind, (estimate, deviation) in cases.items():
            found = noiseless(session, kind(session.schema, "y", by=by, epsilon=1.0))
            found = found if label is None else found[label]
            assert found.estimate == pytest.approx(estimate, rel=1e-9)
            assert found.standard_error == pytest.approx(deviation, rel=1e-9)


def test_clusters_are_ultimate_clusters(sample):
    design = Design(weight="w", weight_high=1000, cluster="id")
    schema = Schema(columns={**COLUMNS, "w": Bounds(0, 1000, grid=1)}, unit=PrivacyUnit("id"), design=design)
    session = session_of(rows_of(sample), schema)
    w, y, ids = sample["w"], sample["y"], sample["id"]
    mean = noiseless(session, MeanQuestion(schema, "y", epsilon=1.0))
    hajek = (w * y).sum() / w.sum()
    z = np.array([(w * (y - hajek))[ids == one].sum() for one in np.unique(ids)])
    error = math.sqrt(len(z) / (len(z) - 1) * (z**2).sum()) / w.sum()
    assert mean.estimate == pytest.approx(hajek, rel=1e-9)  # means of a household are rounded to 2⁻³⁰ of the bounds
    assert mean.standard_error == pytest.approx(error, rel=1e-9)
    assert mean.respondents == pytest.approx(len(z))


def test_groups_that_divide_clusters_have_the_variance_between_clusters(sample):
    """A household with rows in both groups and strata counts once in each; its part of 1 − u is rounded to the grid."""
    design = Design(weight="w", weight_high=1000, cluster="id")
    schema = Schema(columns={**COLUMNS, "w": Bounds(0, 1000, grid=1)}, unit=PrivacyUnit("id"), design=design)
    session = session_of(rows_of(sample), schema)
    w, y, ids = sample["w"], sample["y"], sample["id"]
    n = len(np.unique(ids))
    for label in ("a", "b"):
        inside = (sample["g"] == label).astype(float)
        estimate = (w * inside * y).sum() / (w * inside).sum()
        z = np.array([(w * inside * (y - estimate))[ids == one].sum() for one in np.unique(ids)])
        found = noiseless(session, MeanQuestion(schema, "y", by="g", epsilon=1.0))[label]
        assert found.estimate == pytest.approx(estimate, rel=1e-9)
        error = math.sqrt(n / (n - 1) * (z**2).sum()) / (w * inside).sum()
        assert found.standard_error == pytest.approx(error, rel=1e-5)
        total = np.array([(w * inside * y)[ids == one].sum() for one in np.unique(ids)])
        summed = noiseless(session, SumQuestion(schema, "y", by="g", epsilon=1.0))[label]
        deviation = math.sqrt(n / (n - 1) * ((total - total.mean()) ** 2).sum())
        assert summed.standard_error == pytest.approx(deviation, rel=1e-3)


SAMPLICS = {
    ("plain", "mean"): (4.314285714285714, 0.412001465273722),
    ("plain", "sum"): (3624.0, 441.2475380446994),
    ("plain", "proportion"): (0.35833333333333334, 0.06978639674660907),
    ("strata", "mean"): (4.314285714285714, 0.41474849314271395),
    ("strata", "sum"): (3624.0, 442.5940837622735),
    ("strata", "proportion"): (0.35833333333333334, 0.07035464209523785),
    ("clusters", "mean"): (4.314285714285714, 0.42954511775383997),
    ("clusters", "sum"): (3624.0, 457.900471833414),
    ("clusters", "proportion"): (0.35833333333333334, 0.03377066772365546),
}
"""Estimates and standard errors of ``TaylorEstimator`` of samplics 0.6.0, for the rows below."""


@pytest.mark.parametrize(("kind", "ask"), SAMPLICS)
def test_another_library_has_the_same_estimates_and_errors(kind, ask):
    i = np.arange(60)
    rows = rows_of({
        "w": (7 * i % 23 + 3).astype(float), "y": (i * i % 11).astype(float), "v": np.where(i % 3 == 0, "yes", "no"),
        "h": np.where(i % 5 < 2, "s", "t"), "id": i // 3,
    })  # fmt: skip
    design = {"plain": {}, "strata": {"strata": "h"}, "clusters": {"unit": "id", "weight_high": 100}}[kind]
    session = session_of(rows, schema_of(**design))
    question = {each.ask: each for each in questions(session.schema, PureDP(1.0))}[ask]
    found = noiseless(session, question)
    assert (found.estimate, found.standard_error) == pytest.approx(SAMPLICS[kind, ask], rel=1e-9)


def test_a_stratified_mean_worked_by_hand():
    """The variance of a stratified mean with finite populations, to the last digit."""
    values = {"s": [1.0, 3.0, 5.0, 7.0], "t": [2.0, 2.0, 8.0]}
    people = {"s": 40.0, "t": 60.0}
    rows = [{"w": people[h] / len(own), "y": y, "h": h} for h, own in values.items() for y in own]
    schema = schema_of(strata="h", population=people)
    found = noiseless(session_of(rows, schema), MeanQuestion(schema, "y", epsilon=1.0))
    # ȳ = .4·4 + .6·4 = 4; s² = 20/3 and 12; v = .16·(1 − 4/40)·(20/3)/4 + .36·(1 − 3/60)·12/3
    assert found.estimate == pytest.approx(4.0, rel=1e-9)
    assert found.standard_error**2 == pytest.approx(0.16 * 0.9 * (20 / 3) / 4 + 0.36 * 0.95 * 4, rel=1e-9)


@pytest.mark.spark
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
@pytest.mark.parametrize("unit", [None, "id"])
def test_spark_adds_the_same_parts(sample, tmp_path, unit):
    weights = sample["w"] * 2.5 - 20  # some beyond the bounds, and some of none
    parquet.write_table(pa.table({**sample, "w": weights, "k": sample["id"]}), tmp_path / "rows.parquet")
    schema = schema_of(unit=unit, strata="h")
    asked = [MeanQuestion(schema, "y", by="g", epsilon=1.0)]
    asked += [] if unit else [RegressionQuestion(schema, "v", ["y"], epsilon=1.0)]
    found = []
    for engine in (None, "spark"):
        ledger = Ledger(":memory:", PureDP(1.0), unit=schema.unit.unit)
        session = Session(str(tmp_path / "rows.parquet"), schema, ledger=ledger, engine=engine)
        found.append([part for question in asked for part in session.exact(question).value])
    assert found[0] == found[1]
    assert len(set(found[0])) > 20


# ---- Answers


def test_an_answer_is_kept_and_told(sample):
    session = session_of(rows_of(sample), schema_of(weight_high=50))
    for question in questions(session.schema, ZeroConcentratedDP(0.5), by="g"):
        again = Release.from_json(session_of(rows_of(sample), session.schema).ask(
            question.changed(guarantee=PureDP(2.0))).to_json())  # fmt: skip
        assert {one.measure for one in again.readings()} >= {"respondents", "design effect", "trimmed weights"}
        assert statistic_from_dict(again.statistic.to_dict()) == again.statistic
        assert "the weight of each row depends on no other row" in str(again.protection)
        assert type(question.measurement.mechanism) is Gaussian
    assert type(MeanQuestion(session.schema, "y", epsilon=1.0).measurement.mechanism) is Laplace


def test_intervals_hold_the_estimate_and_noise_is_part_of_them(sample):
    session = session_of(rows_of(sample), schema_of(strata="h"))
    for question in questions(session.schema, PureDP(5.0)):
        found = session.ask(question)
        noise, population = found.noise_interval(), found.population_interval()
        assert population.low <= noise.low <= found.estimate <= noise.high <= population.high
        assert found.standard_error > 0


def test_coverage_where_units_are_drawn_with_unequal_probabilities():
    """Few respondents, skewed values that grow with the probability: 600 samples, noise of ε = 1."""
    rng = np.random.default_rng(7)
    size = rng.lognormal(0, 0.5, 40_000)
    values = np.clip(rng.gamma(1.5, 1, size.size) * size / 8, 0, 1)
    chance = 400 * size / size.sum()
    parts = DesignParts(of="mean", bounds=(0, 1), weight_high=250.0, top=262.5)
    held = []
    for _ in range(600):
        drawn = rng.random(size.size) < chance
        w, y = 1 / chance[drawn], values[drawn]
        u = np.minimum(w, 250) / 262.5
        seconds = [(u**2 * b).sum() for b in ((1 - y) ** 2, 2 * y * (1 - y), y**2)]
        firsts = [(u * (1 - u) * a).sum() for a in (1 - y, y)]
        z = np.array([[*seconds, *firsts, (1 - u)[w <= 250].sum(), (1 - u)[w > 250].sum()]])
        noisy = z + rng.laplace(size=z.shape)
        found = DesignMoments(
            parts=noisy, everybody=noisy, groups=1, moments=parts.moments, noise=np.full(7, 2.0), kurtosis=3.0
        ).interval()
        held.append(found.low <= values.mean() <= found.high)
    assert np.mean(held) > 0.935


def test_differences_of_groups_are_covered():
    """Uneven groups of a stratified sample, one of them with a rare yes: 500 samples, noise of ε = 1."""
    rng = np.random.default_rng(11)
    number = 40_000
    group, stratum = rng.random(number) < 0.15, rng.random(number) < 0.3
    y = (rng.random(number) < np.where(group, 0.03, 0.2)).astype(float)
    truth = y[group].mean() - y[~group].mean()
    chance = np.where(stratum, 0.08, 0.02)
    parts = DesignParts(of="proportion", bounds=(0, 1), weight_high=50.0, top=52.5, strata=("s", "t"))
    shape = {"mechanism": Laplace(1.0), "sensitivity": parts.sensitivity(neighbours=ADD), "guarantee": None}
    plain = {"protection": schema_of().protection(), "statistic": parts, "release_id": "r", "created": ""}
    held, widths = [], []
    for _ in range(500):
        drawn = rng.random(number) < chance
        cells = []
        for own in (group, ~group):
            for here in (stratum, ~stratum):
                inside = drawn & own & here
                u, v = 1 / chance[inside] / 52.5, y[inside]
                cells += [(u**2 * (1 - v)).sum(), (u**2 * v).sum(), (u * (1 - u) * (1 - v)).sum(),
                          (u * (1 - u) * v).sum(), (1 - u).sum(), 0.0]  # fmt: skip
        noisy = np.array(cells) + rng.laplace(size=len(cells))
        both = parts.shared(noisy)
        released = [
            room.DesignRelease(value=noisy[place : place + 12], public=both, simulated=True, **shape, **plain)
            for place in (0, 12)
        ]
        found = released[0].difference_interval(released[1])
        held.append(found.low <= truth <= found.high)
        widths.append(found.high - found.low)
    assert np.mean(held) > 0.935
    assert np.mean(widths) < 0.25
    whole = replace(released[0], release_id="other")
    refused("no group of the same release", lambda: whole.difference_interval(released[1]))


# ---- Tables, their tests, and comparisons


def test_tables_and_histograms_add_up_weights(sample):
    session = session_of(rows_of(sample), schema_of(strata="h"))
    w, y = sample["w"], sample["y"]
    table = noiseless(session, TableQuestion(session.schema, ["g", "v"], epsilon=1.0))
    for g, v in itertools.product("ab", ["no", "yes"]):
        inside = (sample["g"] == g) & (sample["v"] == v)
        assert table[g, v].estimate == pytest.approx(w[inside].sum(), rel=1e-9)
    question = HistogramQuestion(session.schema, "y", edges=[0, 3, 7, 10], epsilon=1.0)
    bins = noiseless(session, question)
    wanted = [w[y < 3].sum(), w[(y >= 3) & (y < 7)].sum(), w[y >= 7].sum()]
    assert list(bins.estimate) == ["[0, 3)", "[3, 7)", "[7, 10]"]
    assert list(bins.estimate.values()) == pytest.approx(wanted, rel=1e-9)
    assert question.changed(guarantee=PureDP(2.0)).schema == question.schema
    asked = session.histogram("y", bins=5, epsilon=5.0, name="bins")
    assert session.histogram("y", bins=5, epsilon=5.0, name="bins").estimate == asked.estimate
    assert session.histogram("g", epsilon=5.0).labels() == ("a", "b")


@pytest.mark.parametrize("strata", [None, "h"])
def test_tables_are_margins_of_one(sample, strata):
    """Estimates add up, and every margin has the error and the noise that a count by it has."""
    population = {"population": {"s": 4e3, "t": 9e3}} if strata else {}
    schema = schema_of(strata=strata, **population)
    session = session_of(rows_of(sample), schema)
    joint = noiseless(session, TableQuestion(schema, ["g", "v"], epsilon=1.0))
    found = room.DesignTables(joint, (("g",), ("v", "g")))
    for name, labels in (("g", "ab"), ("v", ["no", "yes"])):
        alone, margin = noiseless(session, CountQuestion(schema, by=name, epsilon=1.0)), found.table(name)
        for label in labels:
            assert margin[label].estimate == pytest.approx(alone[label].estimate, rel=1e-9)
            assert margin[label].standard_error == pytest.approx(alone[label].standard_error, rel=1e-6)
            assert margin[label].respondents == pytest.approx(alone[label].respondents, rel=1e-9)
    assert found.table("v", "g")["yes", "a"].estimate == pytest.approx(joint["a", "yes"].estimate, rel=1e-12)
    asked = session.tables([["g"], ["g", "v"]], epsilon=3.0, name="tables")
    sums = [sum(asked.table("g", "v")[g, v].estimate for v in ("no", "yes")) for g in "ab"]
    if not strata:
        assert [asked.table("g")[g].estimate for g in "ab"] == pytest.approx(sums, rel=1e-9)
        noise = [one.moments.noise_error for one in (asked.table("g")["a"], asked.table("g", "v")["a", "no"])]
        assert noise[0] == pytest.approx(math.sqrt(2) * noise[1], rel=1e-9)
        reach = [
            asked.table(*names)[label].noise_interval() for names, label in ((["g"], "a"), (["g", "v"], ("a", "no")))
        ]
        assert 1.2 < reach[0].width / reach[1].width < 1.6
    assert len(asked.readings()) == 2 * len(asked.table("g", "v")["a", "no"].readings()) * 3
    again = session.tables([["g"], ["g", "v"]], epsilon=3.0, name="tables")
    assert again.table("g").estimate == asked.table("g").estimate
    assert asked.table(["v", "g"]).estimate == asked.table("v", "g").estimate
    refused("must be some of", lambda: asked.table("y"))
    refused("must be names", lambda: asked.table(3))


@pytest.mark.parametrize("strata", [None, "h"])
def test_quantiles_are_those_of_weights(sample, strata):
    population = {"population": {"s": 2e3, "t": 9e3}} if strata else {}
    session = session_of(rows_of(sample), schema_of(strata=strata, **population))
    w = sample["w"].copy()
    if strata:  # to the population of each stratum
        for label, people in population["population"].items():
            w[sample["h"] == label] *= people / w[sample["h"] == label].sum()
    order = np.argsort(sample["y"])
    upto = np.cumsum(w[order]) / w.sum()
    shares = [0.1, 0.5, 0.9]
    wanted = sample["y"][order][np.searchsorted(upto, shares)]
    found = session.quantile("y", shares, epsilon=300.0, name="quantiles")
    noise, population = found.noise_interval(), found.population_interval()
    for ends in (noise, population):
        assert (ends.low <= wanted).all()
        assert (wanted <= ends.high).all()
    assert (noise.high - noise.low <= 2).all()  # of bins as wide as a grid step, the one it is in and a neighbour
    assert (population.low <= noise.low).all()
    assert (population.high - population.low).max() > 1
    assert session.quantile("y", shares, epsilon=300.0, name="quantiles").estimate.tolist() == found.estimate.tolist()
    one = session.median("y", epsilon=300.0)
    assert one.population_interval().contains(one.estimate)
    groups = session.quantile("y", shares, by="g", epsilon=300.0, name="by group")
    low, high = groups.population_interval()
    for place, label in enumerate(groups.labels()):
        own = sample["g"][order] == label
        upto = np.cumsum(w[order][own]) / w[order][own].sum()
        wanted = sample["y"][order][own][np.searchsorted(upto, shares)]
        noise = groups[label].noise_interval()
        assert (noise.low <= wanted).all()
        assert (wanted <= noise.high).all()
        assert (noise.high - noise.low <= 2).all()
        assert groups.estimate[label].tolist() == groups[label].estimate.tolist()
        assert np.array([low[place], high[place]]).tolist() == np.array([*groups[label].population_interval()]).tolist()
    assert [(one.labels["g"], one.measure) for one in groups.readings()][3] == ("a", "respondents")
    again = session.quantile("y", shares, by="g", epsilon=300.0, name="by group")
    assert again.rows() == groups.rows()
    if strata:
        by_stratum = session.median("y", by="h", epsilon=90.0)
        assert by_stratum["t"].population_interval().contains(by_stratum["t"].estimate)
    assert [row["measure"] for row in one.rows()] == [
        "quantile",
        "respondents",
        "effective respondents",
        "design effect",
    ]


@pytest.mark.parametrize(("share", "rows"), [(0.5, 400), (0.9, 1500)])
def test_quantiles_are_covered(share, rows):
    """Skewed values that grow with the probability, in 32 bins: 300 samples, noise of ε = 1."""
    rng = np.random.default_rng(9)
    size = rng.lognormal(0, 0.5, 100 * rows)
    values = np.clip(rng.gamma(1.5, 1, size.size) * size / 8, 0, 1)
    truth = np.quantile(values, share, method="inverted_cdf")
    chance = rows * size**0.8 / (size**0.8).sum()
    high = float(np.quantile(1 / chance[rng.random(size.size) < chance], 0.98))
    bins, moments = 32, measured_moments(0, 1.5)
    held, near = [], []
    for _ in range(300):
        drawn = rng.random(size.size) < chance
        u, over = np.minimum(1 / chance[drawn], high) / (1.05 * high), 1 / chance[drawn] > high
        place = np.minimum((values[drawn] * bins).astype(int), bins - 1)
        rest = 1 - u * u - 1.5 * u * (1 - u)
        each = [u * u, 1.5 * u * (1 - u), rest * ~over, rest * over]
        noisy = np.array([np.bincount(place, one, bins) for one in each]).T + rng.laplace(size=(bins, 4))
        cells = [
            DesignMoments(
                parts=one[None], everybody=noisy.sum(axis=0)[None], groups=bins, moments=moments, noise=np.full(4, 2.0),
                kurtosis=3.0,
            )
            for one in noisy
        ]  # fmt: skip
        release = SimpleNamespace(part=lambda place, cells=cells: SimpleNamespace(moments=cells[place]))
        found = DesignQuantiles(release, tuple(np.linspace(0, 1, bins + 1)), share)
        held.append(found.population_interval().contains(truth))
        near.append(found.estimate - truth)
    assert np.mean(held) > 0.935
    assert abs(np.mean(near)) < 1 / bins


def rao_scott(cell, w, shape):
    """The second-order test of Rao and Scott with F, as survey packages make it, of units drawn with replacement."""
    rows, columns = shape
    n, size = len(w), rows * columns
    inside = np.eye(size)[cell]
    p = w @ inside / w.sum()
    r, c = p.reshape(shape).sum(axis=1), p.reshape(shape).sum(axis=0)
    expected = np.outer(r, c).ravel()
    linear = w[:, None] * (inside - p) / w.sum()
    covariance = n / (n - 1) * linear.T @ linear
    jacobian = np.eye(size)
    for i, j, a, b in itertools.product(range(rows), range(columns), range(rows), range(columns)):
        jacobian[i * columns + j, a * columns + b] -= (i == a) * c[j] + (j == b) * r[i]
    root = np.diag(expected**-0.5)
    effects = np.linalg.eigvalsh(n * root @ jacobian @ covariance @ jacobian.T @ root)
    effects = effects[effects > 1e-9]
    df = effects.sum() ** 2 / (effects**2).sum()
    square = n * ((p - expected) ** 2 / expected).sum()
    return stats.f.sf(square / effects.sum(), df, df * (n - 1))


@pytest.mark.parametrize("related", [0.0, 0.12, 0.3])
def test_a_test_of_independence_is_that_of_rao_and_scott(sample, related):
    rng = np.random.default_rng(3)
    yes = rng.random(len(sample["w"])) < 0.3 + related * (sample["g"] == "a")
    sample = {**sample, "v": np.where(yes, "yes", "no")}
    session = session_of(rows_of(sample), schema_of())
    cell = 2 * (sample["g"] == "b") + (sample["v"] == "yes")
    wanted = rao_scott(cell, sample["w"], (2, 2))
    for found in (
        session.independence(["g", "v"], epsilon=200.0), session.homogeneity("v", by="g", epsilon=200.0),
    ):  # fmt: skip
        assert found.pvalue == pytest.approx(wanted, abs=0.04)
    assert found.verdict()["method"] == "design-based"
    unweighted = stats.chi2_contingency(np.bincount(cell, minlength=4).reshape(2, 2), correction=False).pvalue
    if related == 0.12:  # taking respondents for alike says too much
        assert unweighted < wanted / 2


def simulated_tests(draw, shape, epsilon, repeats, rng):
    """P-values of tables whose noise is added here, two parts in each weight as without a value."""
    size, scale = shape[0] * shape[1], 1 / epsilon
    for _ in range(repeats):
        cell, u = draw()
        first, second = rng.laplace(0, scale, (2, size))
        cells = DesignCells(
            weights=np.bincount(cell, u, size) + first + second, squares=np.bincount(cell, u * u, size) + first,
            deviations=(2 * scale, math.sqrt(2) * scale), respondents=float(len(u)),
            noise=lambda many, own: own.laplace(0, scale, (2, many, size)).sum(axis=0),
        )  # fmt: skip
        null = MonteCarlo(n_resamples=199, rng=1)
        yield cells.tested("independence", product_of_margins(shape), 1, null).pvalue


@pytest.mark.parametrize("kind", ["three weights", "by row", "rare"])
@pytest.mark.parametrize("epsilon", [0.5, 50.0])
def test_the_size_of_a_test_under_a_design(kind, epsilon):
    rng = np.random.default_rng(17)
    rows = [0.02, 0.98] if kind == "rare" else [0.5, 0.5]

    def draw():
        i, j = rng.choice(2, 400, p=rows), rng.choice(3, 400, p=[0.1, 0.3, 0.6])
        u = (
            np.where(i == 0, 0.1, 1.0) * rng.uniform(0.5, 1, 400)
            if kind == "by row"
            else rng.choice([0.05, 0.3, 1.0], 400)
        )
        return 3 * i + j, u

    found = np.array(list(simulated_tests(draw, (2, 3), epsilon, 400, rng)))
    assert np.mean(found <= 0.05) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)


# ---- Regressions


ROWS_K = Categories(range(60))


def regressions(schema, guarantee):
    for ask, outcome, on in (
        (RegressionQuestion, "v", "y"),
        (RegressionQuestion, "y", "v"),
        (LogisticQuestion, "v", "y"),
    ):
        yield ask(schema, outcome, ["k", on], guarantee=guarantee)


@pytest.mark.parametrize("guarantee", [PureDP(1.0), GaussianDP(1.0)], ids=["laplace", "gaussian"])
def test_a_row_moves_what_regressions_are_read_from_by_at_most_one(guarantee):
    """What one row adds, for every kind of weight and value, and what replacing it changes."""
    pairs = list(itertools.product([None, -3.0, 0.4, 0.6, 25.0, 59.0, 60.0, 61.0, INFINITE], [None, -5.0, 5.0, 10.0]))
    rows = [{"w": w, "y": y, "v": "no" if y is None or y < 5 else "yes", "k": k} for k, (w, y) in enumerate(pairs)]
    for neighbours, most in ((ADD, (1, 1)), (REPLACE, (2, 2))):
        schema = replace(schema_of(neighbours=neighbours), columns=COLUMNS | {"k": ROWS_K})
        for question in regressions(schema, guarantee):
            sensitivity = question.measurement.sensitivity
            assert (sensitivity.l1, sensitivity.l2**2) == pytest.approx(most)
            if neighbours is REPLACE:
                continue
            parts = np.array(exact(rows, question)).reshape(60, -1)[: len(rows)]
            assert parts.min() >= 0
            found = {tuple(one) for one in parts.tolist()}
            assert {sum(one) for one in found} == {0, 1}
            for one, (w, _) in zip(parts, pairs, strict=True):
                assert w not in (None, -3.0, 0.4) or not any(one)
            assert max(moved(one)[1] for one in found) == 1
            assert max(moved(*two)[1] for two in itertools.combinations(found, 2)) <= 2


@pytest.mark.parametrize(
    ("name", "planted"), [("_NUDGE", -1.0), (None, lambda self: self)],
    ids=["parts that are rounded too far", "weights that are not trimmed"],
)  # fmt: skip
def test_faults_of_weighed_rows_are_found(monkeypatch, name, planted):
    monkeypatch.setattr(*((Snapshot, "weighed", planted) if name is None else (keep, name, planted)))
    with pytest.raises((AssertionError, DiscreetError)):
        test_a_row_moves_what_regressions_are_read_from_by_at_most_one(PureDP(1.0))


def sandwich(x, y, w, *, logistic=False):
    """Weighted coefficients with the standard errors of the sandwich, n/(n − k) included: by their formulas."""
    b = np.zeros(x.shape[1])
    for _ in range(60 if logistic else 1):
        mean = 1 / (1 + np.exp(-x @ b)) if logistic else x @ b
        inverse = np.linalg.inv((x * (w * (mean * (1 - mean) if logistic else 1))[:, None]).T @ x)
        b = b + inverse @ (x.T @ (w * (y - mean)))
    score = (w * (y - (1 / (1 + np.exp(-x @ b)) if logistic else x @ b)))[:, None] * x
    return b, np.sqrt(np.diag(inverse @ score.T @ score @ inverse) * len(y) / (len(y) - x.shape[1]))


@pytest.mark.parametrize("population", [{}, {"s": 2e3, "t": 9e3}])
def test_regressions_are_those_of_weighted_rows(sample, population):
    session = session_of(rows_of(sample), schema_of(strata="h", population=population))
    w, y, given = sample["w"].copy(), sample["y"], sample["w"]
    for label, people in population.items():
        w[sample["h"] == label] *= people / w[sample["h"] == label].sum()
    v, g = (sample["v"] == "yes").astype(float), (sample["g"] == "b").astype(float)
    asked = (("y ~ v + g", y, (v, g)), ("v ~ y + h", v, (y, sample["h"] == "t")), ("y ~ v * g", y, (v, g, v * g)))
    for formula, values, x in asked:
        question = RegressionQuestion(session.schema, formula=formula, epsilon=1.0)
        found = noiseless(session, question)
        design = np.column_stack([np.ones(len(w)), *x])
        b, errors = sandwich(design, values, w)
        assert list(found.params.values()) == pytest.approx(b, rel=1e-9)
        assert list(found.bse.values()) == pytest.approx(errors, rel=1e-9)
        left = (w * (values - design @ b) ** 2).sum() / w.sum()
        assert found.scale == pytest.approx(left * len(w) / (len(w) - len(b)), rel=1e-9)
        mean = (w * values).sum() / w.sum()
        assert found.rsquared == pytest.approx(1 - left / ((w * (values - mean) ** 2).sum() / w.sum()), rel=1e-9)
        assert found.nobs == pytest.approx(len(w))
        assert found.effective_respondents == pytest.approx(given.sum() ** 2 / (given * given).sum(), rel=1e-9)
    labels = noiseless(session, LogisticQuestion(session.schema, "v", ["g"], epsilon=1.0))
    b, errors = sandwich(np.column_stack([np.ones(len(w)), g]), v, w, logistic=True)
    assert list(labels.params.values()) == pytest.approx(b, rel=1e-5)
    assert list(labels.bse.values()) == pytest.approx(errors, rel=0.02)  # the variance is that of the model
    number = noiseless(session, LogisticQuestion(session.schema, "v", ["y"], epsilon=1.0))
    b, errors = sandwich(np.column_stack([np.ones(len(w)), y]), v, w, logistic=True)
    assert list(number.params.values()) == pytest.approx(b, rel=0.02)
    assert list(number.bse.values()) == pytest.approx(errors, rel=0.05)


def test_regressions_of_samples_hold_the_coefficients_of_the_population():
    """Weights grow with the outcome's size: intervals hold the slope, and without weights they do not."""
    rng = np.random.default_rng(35)
    size = rng.lognormal(0, 0.5, 50_000)
    x = np.round(np.clip(rng.beta(2, 3, size.size) + 0.1 * np.log(size), 0, 1), 2)
    y = np.clip(0.2 + 0.5 * x / size + rng.exponential(0.1, size.size), 0, 1)
    chance = np.minimum(1500 * size / size.sum(), 1)
    trim = float(np.ceil(np.quantile(1 / chance, 0.999)))
    columns = {"x": Bounds(0, 1), "y": Bounds(0, 1)}
    schema = Schema(columns=columns, design=Design(weight="w", weight_high=trim))
    question = RegressionQuestion(schema, "y", ["x"], epsilon=2.0)
    of = question.measurement.statistic
    totals = []
    for _ in range(200):
        drawn = np.flatnonzero(rng.random(size.size) < chance)
        each = [(x[drawn], 4), (y[drawn], 2), (np.minimum(1 / chance[drawn], trim) / trim, 2)]
        parts = [[math.comb(d, k) * u**k * (1 - u) ** (d - k) for k in range(d + 1)] for u, d in each]
        totals.append(np.einsum("ai,bi,ci->abc", *map(np.array, parts)).ravel())
    noisy = np.array(totals) + rng.laplace(0, 0.5, (200, 45))
    read = LinearMoments(totals=noisy, noise=0.5, kurtosis=3.0, cells=1, degrees=of.degrees)
    fit = LeastSquares(read, tuple(map(of.linear, of.terms(of.on))), of.linear(of.explained), weights=of.weighing)
    slope = np.array([0.0, 1.0])
    truth = np.polyfit(x, y, 1)[0]
    assert np.mean(fit.pvalue(slope, truth) >= 0.05) >= 0.93
    assert np.mean(replace(fit, weights=()).pvalue(slope, truth) >= 0.05) <= 0.7


def test_a_regression_under_a_design_is_kept_told_and_planned(sample):
    session = session_of(rows_of(sample), schema_of())
    found = session.regression("y", ["v", "g"], epsilon=5.0)
    stored = Release.from_json(found.to_json())
    assert stored.params == found.params
    assert stored.model("g").bse == found.model("g").bse
    assert {"respondents", "effective respondents", "design effect"} <= {one.measure for one in found.readings()}
    assert "rows (" in str(found.summary())
    assert [one.label for one in found.readings()[:3]] == ["const", "v[yes]", "g[b]"]
    assert "the weight of each row depends on no other row" in str(found.protection)
    even = [{"w": 30.0, "y": float(y), "v": v} for y, v in itertools.product(range(11), ["no", "yes"])] * 50
    for ask in ("regression", "logistic_regression"):
        planned = getattr(session.plan, ask)("v", ["y"], epsilon=5.0, expected_rows=len(even))
        released = getattr(session_of(even, schema_of()), ask)("v", ["y"], epsilon=5.0)
        low, high = released.noise_int().loc["y"]
        assert (high - low) / 2 == pytest.approx(planned.error_95, rel=0.25)


def test_a_comparison_is_the_difference_of_groups(sample):
    session = session_of(rows_of(sample), schema_of(strata="h"))
    found = session.compare_means("y", by="g", epsilon=20.0, name="compared")
    a, b = found.release["a"], found.release["b"]
    assert found.estimate == b.estimate - a.estimate
    assert tuple(found.population_interval()) == tuple(b.difference_interval(a))
    # where errors depend on each other, distances add up
    for schema in (schema_of(strata="h", population={"s": 4e3, "t": 9e3}), schema_of(unit="id")):
        means = session_of(rows_of(sample), schema).mean("y", by="g", epsilon=20.0)
        a_, b_ = means["a"].population_interval(), means["b"].population_interval()
        both = means["b"].difference_interval(means["a"])
        assert both.low == pytest.approx(b_.low - a_.high, abs=1e-9)
        assert both.high == pytest.approx(b_.high - a_.low, abs=1e-9)
    edge = found.population_interval(1 - found.pvalue)
    assert min(abs(edge.low), abs(edge.high)) < 1e-6 < abs(edge.high - edge.low)
    again = session.compare_means("y", by="g", epsilon=20.0, name="compared")
    assert (again.estimate, again.pvalue) == (found.estimate, found.pvalue)
    first = found.to_arrow().to_pylist()[0]
    assert (first["measure"], first["pvalue"]) == ("difference of means", found.pvalue)
    planned = session.plan.compare_means("y", by="g", epsilon=20.0, expected_rows=400)
    assert planned.standard_error < found.standard_error < planned.smallest_effect
    assert session.plan.independence(["g", "v"], epsilon=1.0, expected_rows=400).smallest_effect > 0.14


@pytest.mark.parametrize("rows", [[{"w": None}], [{"w": 60.0, "y": 10.0}]])
@pytest.mark.parametrize("strata", [{}, {"strata": "h"}, {"strata": "h", "population": {"s": 5.0, "t": 9.0}}])
def test_answers_of_hardly_any_rows_are_numbers(rows, strata):
    """With the noise of ε = 0.2 every estimate, error, p-value and end can be written down."""
    session = session_of(rows, schema_of(**strata))
    asked = [
        lambda: session.variance("y", epsilon=0.2), lambda: session.std("y", by="g", epsilon=0.2),
        lambda: session.quantile("y", [0.01, 0.5, 0.99], epsilon=0.2), lambda: session.table(["g", "v"], epsilon=0.2),
        lambda: session.histogram("y", bins=3, epsilon=0.2), lambda: session.compare_means("y", by="g", epsilon=0.2),
        lambda: session.independence(["g", "v"], epsilon=0.2), lambda: session.tables([["g"], ["v"]], epsilon=0.2),
        lambda: session.goodness_of_fit("v", probabilities=[0.0, 1.0], epsilon=0.2),
        lambda: session.median("y", by="g", epsilon=0.2), lambda: session.regression("y", ["v"], epsilon=0.2),
        lambda: session.logistic_regression("v", ["y", "g"], epsilon=0.2),
    ]  # fmt: skip
    for question in asked:
        found = question()
        json.dumps([found.to_dict(), found.rows()], allow_nan=False, default=str)


# ---- Refusals: before anything is spent, in words that say what to do


def refused(words, make):
    with pytest.raises(DiscreetError) as failure:
        make()
    assert words in str(failure.value)


def test_designs_that_do_not_fit_are_refused():
    refused("design.weight_high", lambda: schema_of(weight_high=101))
    refused("multiple of 1", lambda: schema_of(weight_high=2.5))
    refused("no declared column of labels", lambda: schema_of(strata="y"))
    refused("every stratum", lambda: schema_of(strata="h", population={"s": 1.0}))
    refused("needs strata", lambda: schema_of(population={"s": 1.0}))
    refused("id column of the privacy unit", lambda: schema_of(cluster="household"))
    refused(
        "no column of numbers with public bounds",
        lambda: Schema(columns=COLUMNS, design=Design(weight="v", weight_high=2)),
    )
    refused(
        "have no design",
        lambda: Schema(
            columns=COLUMNS, unit=PrivacyUnit("id"), design=Design(weight="w", weight_high=60, cluster="id"),
            features={"total": Feature(of="y", take="sum", low=0, high=20)},
        ),
    )  # fmt: skip
    told = {"weight": "w", "weight_high": 60}
    refused("linearised", lambda: schema_from_dict({"design": told | {"replicates": ["w1", "w2"]}}))
    refused("is missing", lambda: schema_from_dict({"design": {"weight": "w"}}))


def test_questions_without_a_design_based_form_are_refused():
    schema = schema_of(strata="h")
    session = session_of([{}], schema)
    refused("has no form under a design", lambda: session.mean("y", all_rows=True, epsilon=1.0))
    refused("has no form under a design", lambda: session.count(contribution=Contribution(rows=1), epsilon=1.0))
    refused("not proved under a design", lambda: session.omitting(PoissonSample(0.5)).count(epsilon=1.0))
    refused("what the design is made of", lambda: session.mean("w", epsilon=1.0))
    public = session_of([{}], schema_of(strata="h", population={"s": 10.0, "t": 20.0}))
    refused("multiply it with", lambda: public.sum("y", by="h", epsilon=1.0))
    refused("says already how many", lambda: public.count(epsilon=1.0))
    refused("whose total is not known", lambda: public.where("y > 2").mean("y", epsilon=1.0))
    for question in [
        lambda: session.mode("g", epsilon=1.0), lambda: session.slope("y", on="y", epsilon=1.0),
        lambda: session.compare_arms("y", by="g", epsilon=1.0),
        lambda: session.rank_test("y", by="g", bins=5, epsilon=1.0),
    ]:  # fmt: skip
        refused("no design-based form", question)
    refused("Leave mean_of out", lambda: session.tables([["g"]], mean_of="y", epsilon=1.0))
    refused("Ask count() for it", lambda: session.tables([["g"], []], epsilon=1.0))
    refused("homogeneity", lambda: session.rank_test("y", by="g", bins=5, epsilon=1.0))
    refused("Leave rows_at_least out", lambda: session.median("y", rows_at_least=5, epsilon=1.0))
    refused("Leave interval out", lambda: session.median("y", interval=None, epsilon=1.0))
    refused("Leave shrink out", lambda: session.table("g", shrink=True, mu=1.0))
    refused("Leave method out", lambda: session.compare_means("y", by="g", method="direct", epsilon=1.0))
    refused("Ask about other columns", lambda: session.regression("y", ["w"], epsilon=1.0))
    refused("Ask about other columns", lambda: session.logistic_regression("v", ["w", "y"], epsilon=1.0))
    refused(
        "Leave contribution out", lambda: session.regression("y", "v", contribution=Contribution(rows=1), epsilon=1.0)
    )
    refused("Leave population out", lambda: public.where("y > 2").regression("y", ["v"], epsilon=1.0))
    refused("Leave population out", lambda: public.logistic_regression("h", ["y"], epsilon=1.0))
    clusters = session_of([{}], schema_of(unit="id"))
    refused("rows of a cluster", lambda: clusters.regression("y", ["v"], epsilon=1.0))
    refused("rows of a cluster", lambda: clusters.logistic_regression("v", ["y"], epsilon=1.0))
    refused("whose sum varies by more", lambda: clusters.tables([["g"], ["v"]], epsilon=1.0))
    refused("rows of one cluster", lambda: clusters.independence(["g", "v"], epsilon=1.0))
    assert clusters.ledger.spent() == PureDP(0.0)
    assert session.ledger.spent() == PureDP(0.0) == public.ledger.spent()


def test_a_plan_compares_trims_and_its_errors_are_those_of_draws():
    """What expected weights lose by a trim bounds the bias; noise and sampling are those of samples like them."""
    schema = Schema(
        columns={"y": Bounds(0, 10)},
        design=Design(weight="w", weight_high=60, expected=[1, 5, 10, 20, 80]),
    )
    session = Session("none.csv", schema, ledger=":memory:", budget=PureDP(9.0))
    refused("quantiles of the weights", session_of([{}], schema_of()).plan.mean("y", epsilon=1.0).alternatives)
    rng = np.random.default_rng(4)
    shares = rng.uniform(0, 1, (400, 1000))
    weights = np.interp(shares, np.linspace(0, 1, 5), [1, 5, 10, 20, 80])
    y = rng.uniform(0, 10, weights.shape)
    for planned, value in ((session.plan.mean("y", epsilon=1.0, expected_rows=1000), None),
                           (session.plan.sum("y", epsilon=1.0), y), (session.plan.count(epsilon=1.0), 1)):  # fmt: skip
        rows = planned.alternatives().rows()
        assert [row["rmse"] for row in rows] == sorted(row["rmse"] for row in rows)
        assert "weight_high = 60" in {row["setting"] for row in rows}
        for row in rows:
            trim = float(row["setting"].rpartition(" ")[2])
            kept = np.minimum(weights, trim)
            found, whole = ((w * y).sum(1) / w.sum(1) if value is None else (w * value).sum(1) for w in (kept, weights))
            assert np.abs(found - whole).mean() <= row["bias"] * 1.02 + 1e-3 * whole.mean()  # beyond 99.95 % of weights
            noise = row["error_95"] / 1.96
            assert row["width"] / 3.92 == pytest.approx(math.hypot(found.std(), noise), rel=0.12)


def test_a_design_is_read_back_from_plain_data():
    schema = schema_of(strata="h", population={"s": 10.0, "t": 20.0})
    assert schema_from_dict(schema.to_dict()) == schema
    whole = replace(schema, columns={**COLUMNS, "h": Categories([1, 2])}, design=replace(
        schema.design, population={1: 10.0, 2: 20.0}))  # fmt: skip
    text = {**whole.to_dict(), "design": {**whole.to_dict()["design"], "population": {"1": 10.0, "2": 20.0}}}
    assert schema_from_dict(text) == whole
    free = Schema(columns={}, design=Design(weight="pw", weight_high=30))
    assert free.bounds("pw") == Bounds(0, 60, grid=0.01)
    assert schema_from_dict(free.to_dict()) == free


def test_rehearsals_tell_what_is_read():
    """Quantiles from their bins, and groups of which some are empty, on rows with weights."""
    columns = {"y": ExpectedNumbers(mean=4.0, sd=2.0), "w": ExpectedNumbers(mean=20.0, sd=10.0)}
    session = session_of([{}], replace(schema_of(), columns=COLUMNS | {"k": Categories(range(3))}))
    rehearsing = session.rehearsing(Scenario(rows=40, columns=columns), repeats=3)
    assert rehearsing.median("y", by="g", epsilon=5.0).measures[0].measure == "quantile"
    assert rehearsing.count(by="k", epsilon=0.1).measures[0].measure == "estimated count"


def test_a_filter_leaves_the_number_of_sampled_rows_open(sample):
    session = session_of(rows_of(sample), schema_of()).where("y >= 2")
    w, y = sample["w"], sample["y"]
    found = noiseless(session, SumQuestion(session.schema, "y", epsilon=1.0))
    inside = y >= 2
    assert found.estimate == pytest.approx((w * y)[inside].sum(), rel=1e-9)
    n = inside.sum()
    assert found.standard_error == pytest.approx(math.sqrt(n / (n - 1) * ((w * y)[inside] ** 2).sum()), rel=1e-9)
    assert isinstance(session.schema.where, Formula)


def test_a_plan_says_where_the_design_is_known_from(tmp_path):
    text = """
        source = { path = "rows.csv" }
        budget = { epsilon = 1.0 }
        [schema.design]
        weight = "w"
        weight_high = 60
        label = "survey weight"
        source = "the methods report"
        [[release]]
        ask = "count"
        """
    plan = PlanFile.parse(text, tmp_path / "survey.toml")
    assert plan.sources == {"design": "the methods report", "w": "the methods report"}
    assert plan.schema.design == Design(weight="w", weight_high=60)
    assert plan.variables["w"] == "survey weight"
    with pytest.raises(DiscreetError, match=r"survey.toml:\d+"):
        PlanFile.parse(text.replace("60", "-60"), tmp_path / "survey.toml")


def test_the_guide_quotes_what_was_measured():
    root = Path(__file__).parents[2]
    page = (root / "docs" / "howto" / "weighted_survey.md").read_text(encoding="utf-8")
    rows = json.loads((root / "benchmarks" / "results" / "weights.json").read_text(encoding="utf-8"))
    lowest = min(row["coverage"] for row in rows)
    wide = [row["width over that without noise"] for row in rows if (row["n"], row["guarantee"]) == (5_000, "ε = 1")]
    off = max(abs(row["unweighted: bias, %"]) for row in rows)
    assert lowest > 0.935
    assert f"{100 * lowest:.1f} % or more of 1,000 samples in each of {len(rows)} cells" in page
    assert f"{min(wide):.2f} to {max(wide):.2f} times as wide" in page
    assert f"off by up to {off:.0f} %" in page
    others = json.loads((root / "benchmarks" / "results" / "weighted_answers.json").read_text(encoding="utf-8"))
    lowest = min(row["coverage"] for row in others)
    assert lowest > 0.935
    assert f"{100 * lowest:.1f} % or more of {others[0]['repeats']} (`benchmarks/weighted_answers.py`)" in page


def test_the_guide_runs_from_declaration_to_publication(tmp_path, monkeypatch):
    """The page's own rows, plan file and commands; what is published tells the design and the quality."""
    page = (Path(__file__).parents[2] / "docs" / "howto" / "weighted_survey.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    made = "\n".join(re.findall(r"^(?:>>>|\.\.\.) ?(.*)$", page.partition("## Declare")[0], flags=re.MULTILINE))
    exec(made, {})
    Path("survey.toml").write_text(re.search(r"```toml\n(.*?)```", page, flags=re.DOTALL)[1], encoding="utf-8")
    for line in re.findall(r"^\$ discreet (.*)$", page, flags=re.MULTILINE):
        main(shlex.split(line))
    told = (tmp_path / "survey-report" / "report.html").read_text(encoding="utf-8")
    assert "a sample with weights" in told
    assert "moved the weights of others is not covered" in told
    published = (tmp_path / "survey-report" / "results.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(published.splitlines())
    found = {(row["release"], row["region"], row["measure"]): float(row["estimate"]) for row in rows}
    assert 28 < found["income", "", "mean"] < 45
    assert {measure for _, _, measure in found} >= {"respondents", "effective respondents", "design effect"}
    assert 0.001 < found["income", "", "coefficient of variation"] < 0.05
    assert 0.6 < found["employment", "south", "proportion"] < 0.8
