"""Regression on many columns: products of coordinates, squares after the fit, intervals from both, by brute force."""

import importlib
import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.stats

import discreet as d
from discreet import Neighbours, Release
from discreet.core.errors import DiscreetError, NoPopulationInterval
from discreet.core.rows import Selected
from discreet.core.rows.keep import SHARES, squares
from discreet.inference.least_squares import Coordinates, Linear, MeasuredSquares, NoiseAlong, ProductMoments
from discreet.mechanisms import BoxNoise, Gaussian
from discreet.questions.count import CountQuestion
from discreet.questions.regression.linear import RegressionQuestion, exact_squares
from discreet.questions.regression.moments import (
    MomentBoxes,
    MomentProducts,
    first_fit,
    guessed_noise,
    knows_squares,
    read_moments,
    weighed,
)

ROOT = Path(__file__).parents[2]
NUMBERS = ("a", "b", "c", "e")
COLUMNS = {name: d.Bounds(-1, 3, grid=0.01) for name in NUMBERS}
SCHEMA = d.Schema(
    columns={
        **COLUMNS,
        "two": d.Bounds(0, 1, grid=1),
        "sex": d.Categories(["f", "m"]),
        "region": d.Categories(["n", "s", "w"]),
        "y": d.Bounds(0, 10, grid=0.01),
    }
)
ON = [*NUMBERS, "two", "region", "sex"]


def people(n=1500, seed=3):
    rng = np.random.default_rng(seed)
    columns = {name: np.round(np.clip(rng.normal(1, 0.8, n), -1, 3), 2) for name in NUMBERS}
    columns |= {"two": rng.integers(0, 2, n).astype(float), "sex": rng.choice(["f", "m"], n)}
    columns |= {"region": rng.choice(["n", "s", "w"], n, p=[0.5, 0.3, 0.2])}
    means = 4 + 0.6 * columns["a"] - 0.4 * columns["b"] + (columns["region"] == "w") + 0.5 * columns["two"]
    columns["y"] = np.round(np.clip(means + rng.normal(0, 1, n) * (0.3 + np.abs(columns["a"])), 0, 10), 2)
    return columns | {"who": np.arange(n) // 3}


def design(rows, on=ON):
    """A constant, numbers, and indicators of all labels but the first."""
    found = [np.ones(len(rows["y"]))]
    for name in on:
        labels = getattr(SCHEMA.columns[name], "labels", None)
        found += [rows[name]] if labels is None else [(rows[name] == label).astype(float) for label in labels[1:]]
    return np.column_stack(found)


def session(budget, rows=None, schema=SCHEMA):
    return d.Session(pa.table(rows or people()), schema, ledger=":memory:", budget=budget)


def product(z, one):
    """A product of coordinates, row by row; of one with itself, 2z² − 1."""
    if len(one) == 2 and one[0] == one[1]:
        return 2 * z[:, one[0]] ** 2 - 1
    return np.prod(z[:, list(one)], axis=1)


def robust(z, y):
    """Coefficients and standard errors that allow for any variances of the errors."""
    inverse = np.linalg.inv(z.T @ z)
    b = inverse @ z.T @ y
    meat = (z * (y - z @ b)[:, None] ** 2).T @ z
    return b, np.sqrt(np.diag(inverse @ meat @ inverse) * len(y) / (len(y) - z.shape[1]))


# ---- moments ------------------------------------------------------------------------------------------------------


def test_products_of_linear_functions_are_weighted_sums_of_totals():
    rng = np.random.default_rng(5)
    every = Coordinates((False, True, False), (3, 2), outcome=2)
    n = 40
    u = np.column_stack([rng.uniform(size=n), rng.integers(0, 2, n), rng.uniform(size=n)])
    codes = np.column_stack([rng.integers(0, 3, n), rng.integers(0, 2, n)])
    z = np.column_stack(
        [2 * u - 1, *(2.0 * (codes[:, [c]] == np.arange(1, k)) - 1 for c, k in enumerate(every.labels))]
    )
    values = [product(z, one) for one in every.products]
    assert np.abs(values).max() <= 1
    totals = np.array([one.sum() for one in values])
    multiplied, eye = rng.uniform(0.5, 2, totals.size), np.eye(totals.size)
    read = {"coordinates": every, "variances": np.full(totals.size, 2.0)}
    measured = ProductMoments(totals=totals * multiplied, products_of=eye / multiplied, **read)
    boxed = ProductMoments(totals=every.in_boxes @ totals, products_of=np.linalg.inv(every.in_boxes), **read)
    public = ProductMoments(
        totals=totals + np.where(np.arange(totals.size) == 0, 9.0, 0.0), products_of=eye, size=n, **read
    )
    cell = codes[:, 0] * 2 + codes[:, 1]
    parts = [rng.normal(size=3), rng.normal(size=2)]
    for slopes in ([1.0, 2.0, 0.0], [0.3, 0.0, 0.0]):
        f = Linear(np.add.outer(*parts).ravel(), np.array(slopes))
        g = Linear(np.full(6, 0.4), np.array([0.2, -0.7, 1.5]))
        (own, other) = (one.constants[cell] + u @ one.slopes for one in (f, g))
        for moments in (measured, boxed, public):
            assert float(moments.total(moments.weights(f, g))) == pytest.approx((own * other).sum())
            assert float(moments.total(moments.weights(f))) == pytest.approx(own.sum())
            assert moments.rows == pytest.approx(n)
        weights = measured.weights(f, g)
        assert float(measured.noise_of(weights)[0]) == pytest.approx(2 * ((weights / multiplied) ** 2).sum())
        assert float(public.noise_of(weights)[0]) == pytest.approx(2 * (weights[1:] ** 2).sum())
        assert np.allclose(measured.gram([f, f]), float(measured.total(measured.weights(f, f))))
    with pytest.raises(DiscreetError):
        measured.weights(g, g)  # the outcome's square is not measured


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("counted", [True, False])
def test_one_row_moves_the_totals_by_no_more_than_stated(neighbours, counted):
    names = {"columns": ("x", "v", "y"), "outcome": "y", "on": ("x", "v"), "two_values": ("v",)}
    plain = MomentProducts(bounds=((0, 2), (0, 1), (-1, 1)), counted=counted, **names)
    universe = [[x, v, y] for x in (0.0, 0.7, 2.0, 5.0) for v in (0.0, 1.0) for y in (-1.0, 0.3, 1.0)]
    for products in (plain, weighed(plain)):
        stated = products.sensitivity(neighbours=neighbours)
        each = [np.array(products.exact([row], neighbours=neighbours).value, dtype=float) for row in universe]
        changes = each if neighbours is Neighbours.ADD_REMOVE else [a - b for a in each for b in each]
        assert max(np.abs(one).max() for one in changes) == pytest.approx(stated.linf)
        assert max(math.sqrt(one @ one) for one in changes) <= stated.l2 * (1 + 1e-12)
        assert max(np.abs(one).sum() for one in changes) <= stated.l1 * (1 + 1e-12)
        if neighbours is Neighbours.ADD_REMOVE:  # at a corner every product is 1 or −1
            assert max(math.sqrt(one @ one) for one in changes) == pytest.approx(stated.l2)
        assert products.sensitivity(neighbours=neighbours, rows=3).linf == pytest.approx(3 * stated.linf)
        assert len(each[0]) == products.size == stated.dimension
    assert weighed(plain).sensitivity(neighbours=Neighbours.ADD_REMOVE).l2 == pytest.approx(1.0)


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_one_row_moves_two_boxes_together_by_no_more_than_one(neighbours):
    names = {"columns": ("x", "v", "y"), "outcome": "y", "on": ("x", "v"), "two_values": ("v",)}
    boxes = MomentBoxes(bounds=((0, 2), (0, 1), (-1, 1)), **names)
    universe = [[x, v, y] for x in (0.0, 0.7, 2.0, 5.0) for v in (0.0, 1.0) for y in (-1.0, 0.3, 1.0)]
    each = [np.array(boxes.exact([row], neighbours=neighbours).value, dtype=float) for row in universe]
    changes = each if neighbours is Neighbours.ADD_REMOVE else [a - b for a in each for b in each]
    sides, k = 1 if neighbours is Neighbours.ADD_REMOVE else 2, boxes.together
    both = [np.abs(one[:k]).max() + np.abs(one[k : 2 * k]).max() for one in changes]
    assert max(both) == pytest.approx(sides)
    assert max(np.abs(one[2 * k :]).max() for one in changes) == pytest.approx(sides)
    stated = boxes.sensitivity(neighbours=neighbours)
    assert max(np.abs(one).sum() for one in changes) <= stated.l1 * (1 + 1e-12)
    assert max(math.sqrt(one @ one) for one in changes) <= stated.l2 * (1 + 1e-12)
    assert max(np.abs(one).max() for one in changes) <= stated.linf * (1 + 1e-12)
    if neighbours is Neighbours.ADD_REMOVE:  # reached at a corner
        assert max(np.abs(one).sum() for one in changes) == pytest.approx(stated.l1)
        assert max(math.sqrt(one @ one) for one in changes) == pytest.approx(stated.l2)
    assert boxes.sensitivity(neighbours=neighbours, rows=3).l1 == pytest.approx(3 * stated.l1)
    assert len(each[0]) == boxes.size == stated.dimension
    assert np.allclose(boxes.products_of @ boxes.coordinates.in_boxes, np.eye(boxes.size))


def test_the_share_of_the_outcome_is_the_best_one():
    """By trying all of them, at the guess that noise is spread for."""
    for count in (2, 4, 8):
        names = [f"x{place}" for place in range(count)]
        boxes = MomentBoxes(bounds=((0, 1),) * (count + 1), columns=(*names, "y"), outcome="y", on=names)
        k, rest = boxes.together, boxes.size - 2 * boxes.together
        noise = {}
        for share in np.arange(1, 64) / 64:
            drawn = [
                (BoxNoise(1 / share, k, boxes=2), np.zeros(2 * k)),
                (BoxNoise(1 / (1 - share), rest), np.zeros(rest)),
            ]
            noise[share] = guessed_noise(boxes, read_moments(boxes, drawn))
        assert boxes.outcome_share == min(noise, key=noise.get)


def test_noise_along_a_line_is_that_of_each_point():
    rng = np.random.default_rng(6)
    start, step, variances = rng.normal(size=(3, 7)), rng.normal(size=(3, 7)), rng.uniform(0.5, 2, 7)
    line = NoiseAlong(start, step, variances, ((3, 0.4, -1.1), (4, 0.2, 3.0)))
    for t in (-2.0, 0.0, 0.3, 50.0):
        v = (start - t * step) ** 2 * variances
        one, other = v[:, :3], v[:, 3:]
        fourth = 0.4 * one.sum(1) ** 2 - 1.1 * (one**2).sum(1) + 0.2 * other.sum(1) ** 2 + 3.0 * (other**2).sum(1)
        variance, cumulant = line(np.full(3, t))
        assert np.allclose(variance, v.sum(1))
        assert np.allclose(cumulant, fourth)


@pytest.mark.parametrize("guarantee", [d.PureDP(1.0), d.GaussianDP(1.0)])
@pytest.mark.parametrize("numbers", [1, 2, 3])
def test_repeats_of_a_simulation_are_read_as_releases_are(coverage, guarantee, numbers):
    """All at once, and one by one: coefficients, errors, intervals and p-values."""
    made = coverage.Simulation((*(False,) * numbers, False), guarantee)
    rows = coverage.drawn("skewed", numbers, 400, 3, np.random.default_rng(numbers))
    every = made.fit(made.totals(rows), rows, np.random.default_rng(1))
    for place in range(3):
        one = replace(every, moments=replace(every.moments, totals=every.moments.totals[place]), squares=None)
        if every.squares is not None:
            one = replace(one, squares=MeasuredSquares(one, every.squares.totals[place], every.squares.noise))
        assert np.allclose(one.coefficients, every.coefficients[place])
        for along in np.eye(numbers + 1):
            assert one.standard_error(along) == pytest.approx(every.standard_error(along)[place])
            assert one.pvalue(along, 0.1) == pytest.approx(every.pvalue(along, 0.1)[place])
            ends = one.interval(along, 0.9)
            assert ends == pytest.approx([end[place] for end in every.interval(along, 0.9)])
            for end in filter(math.isfinite, ends):  # tests and intervals agree, whatever the tails of the noise
                assert one.pvalue(along, end) == pytest.approx(0.1, rel=1e-3)


def test_weights_lower_the_noise_of_slopes():
    """Against equal weights: at the guess that they are made for, and at another one."""
    names = {"columns": (*NUMBERS, "y"), "outcome": "y", "on": NUMBERS}
    plain = MomentProducts(bounds=((0, 1),) * 5, **names)
    u = np.random.default_rng(4).beta(3, 2, size=(4000, 5))
    u[:, 4] = 0.3 * u[:, 0] - 0.2 * u[:, 1] + 0.5 * u[:, 4]
    errors = []
    for products in (plain, weighed(plain)):
        stated = products.sensitivity(neighbours=Neighbours.ADD_REMOVE)
        noise = Gaussian.calibrate(d.GaussianDP(1.0), stated)
        value = np.array(products.exact(u[:300], neighbours=Neighbours.ADD_REMOVE).value, dtype=float)
        fit = first_fit(products, [(noise, value)], None, 0)
        pull = [Linear.combined(row, fit.terms) for row in fit._inverse[1:]]
        left = fit._residual(fit.coefficients)
        errors.append([float(fit.moments.noise_of(fit.moments.weights(one, left))[0]) for one in pull])
    assert (np.array(errors[1]) < 0.75 * np.array(errors[0])).all()


# ---- the second step ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [d.PrivacyUnit(), d.PrivacyUnit("who", contribution=d.Contribution(total=2))])
def test_squares_are_sums_over_the_rows_that_are_kept(unit):
    rows = people(300)
    asked = session(d.PureDP(1000.0), rows, d.Schema(columns=SCHEMA.columns, unit=unit))
    question = RegressionQuestion(asked.schema, "y", ON, epsilon=1000.0)
    products = question.measurement.statistic
    assert isinstance(products, MomentBoxes)
    values = np.split(np.array(asked.exact(question).value, dtype=float), [2 * products.together])
    steps = question.claim(None).steps
    drawn = [(step.mechanism, value) for step, value in zip(steps[:-1], values, strict=True)]
    fit = first_fit(products, drawn, None, 1)
    found = question.measurement
    selected = Selected(by=found.by, columns=found.columns)
    measured = exact_squares(
        asked._rows(CountQuestion(asked.schema, epsilon=1.0)),
        selected,
        fit,
        products.terms(products.on),
        products.explained,
    )
    assert all(-300 <= one <= 300 for one in measured)
    if unit.column is None:
        z = design(rows)
        z[:, 1:6] = (z[:, 1:6] - [-1, -1, -1, -1, 0]) / [4, 4, 4, 4, 1]
        pulls, reaches, cut = MeasuredSquares.pulls(fit)
        left = (rows["y"] / 10 - z @ fit.coefficients) / cut
        assert np.abs(z @ pulls.T / reaches).max() <= 1 + 1e-12
        shares = np.minimum((z @ pulls.T / reaches) ** 2, 1) * 2 - 1
        wanted = (np.minimum(left**2, 1) * 2 - 1) @ shares
        assert np.allclose(np.array(measured, dtype=float), wanted, atol=1e-5)
        # With the squares that the moments know, these are Σ(w·z)²e².
        read = MeasuredSquares(fit, np.array(measured, dtype=float), 1e-18)
        known = ((z @ pulls.T / reaches) ** 2 * np.minimum(left**2, 1)[:, None]).sum(axis=0)
        assert np.allclose(read._shares[0], known, atol=1e-5)


def test_a_row_adds_one_at_most_to_each_square_whatever_the_fit_is():
    """Noise decides the fit, so no slope may be too large: squares are clipped before they are multiplied."""
    row = {"a": [3.0], "two": [1.0], "sex": ["m"], "region": ["s"]}
    sizes = [0.3, 1.0, 7.0, 1e9, 1e200, math.inf]
    functions = [
        {"": [one], "a": [slope * one], "two": [0.1], "sex": [0.0, one], "region": [one, 0.0, one]}
        for one in sizes for slope in (-1.0, 1.0)
    ]  # fmt: skip
    selected = Selected(by=("sex", "region"), columns=("a", "two"))
    asked = session(d.PureDP(1.0), row)
    snapshot = asked._rows(CountQuestion(asked.schema, epsilon=1.0))
    found = [squares(snapshot, selected, functions, first) for first in (functions[0], functions[-1])]
    assert all(abs(one) <= SHARES for own in found for one in own)
    assert found[1][-1] == SHARES


def test_without_noise_it_is_least_squares_with_robust_errors():
    rows = people()
    for guarantee in (d.PureDP(1000.0), d.GaussianDP(1000.0)):
        found = session(guarantee, rows).regression("y", ON, guarantee=guarantee)
        b, errors = robust(design(rows), rows["y"])
        assert np.allclose(list(found.params.values()), b, atol=5e-3)
        assert np.allclose(list(found.bse.values())[1:], errors[1:], rtol=0.02)
        assert found.bse["const"] >= errors[0] * 0.999  # a bound: it was not measured by itself
        left = rows["y"] - design(rows) @ b
        assert found.rsquared == pytest.approx(1 - left.var() / rows["y"].var(), abs=5e-3)
        assert math.sqrt(found.scale) == pytest.approx(math.sqrt((left**2).sum() / (1500 - 9)), rel=5e-3)
        assert np.allclose(np.sqrt(np.diag(found.cov_params()))[1:], errors[1:], rtol=0.02)
        known = found.predict({**dict.fromkeys(NUMBERS, 1.0), "two": 1, "region": "w", "sex": "m"})
        assert known.estimate == pytest.approx(b @ [1, 1, 1, 1, 1, 1, 0, 1, 1], abs=5e-3)
        joint = found.wald_test("region")
        assert joint.df == 2
        assert joint.pvalue < 1e-6
        assert found.wald_test("sex").pvalue == pytest.approx(found.pvalues["sex[m]"], rel=0.05)


def test_models_on_fewer_columns_have_intervals_that_are_wide_enough():
    rows = people()
    found = session(d.PureDP(1000.0), rows).regression("y", ON, epsilon=1000.0)
    for on in (["a"], ["a", "region"], ["b", "sex", "two"]):
        b, errors = robust(design(rows, on), rows["y"])
        part = found.model(*on)
        assert np.allclose(list(part.params.values()), b, atol=5e-3)
        ratio = np.array(list(part.bse.values())) / errors
        assert (ratio > 0.99).all()
        assert (ratio[1:] < 4).all()
        assert part.rsquared == pytest.approx(1 - (rows["y"] - design(rows, on) @ b).var() / rows["y"].var(), abs=5e-3)
    assert found.model(*ON).bse == found.bse


def test_models_that_were_named_have_intervals_of_their_own():
    rows, models, guarantee = people(), [["a"], ["region", "a"], ["b", "sex", "two"]], d.PureDP(1000.0)
    found = session(guarantee, rows).regression("y", ON, guarantee=guarantee, models=models)
    assert len(found.public["centred_squares"]["value"]) == 9 + 2 + 4 + 4
    again = Release.from_json(found.to_json())
    for on in (*models, ["a", "region"], ["two", "b", "sex"]):  # in any order
        b, errors = robust(design(rows, on), rows["y"])
        part = found.model(*on)
        assert np.allclose(list(part.params.values()), b, atol=5e-3)
        assert np.allclose(list(part.bse.values())[1:], errors[1:], rtol=0.02)
        left = rows["y"] - design(rows, on) @ b
        assert math.sqrt(part.scale) == pytest.approx(math.sqrt((left**2).sum() / (1500 - len(b))), rel=5e-3)
        assert again.model(*on).summary() == part.summary()
    b, errors = robust(design(rows), rows["y"])
    assert np.allclose(list(found.bse.values())[1:], errors[1:], rtol=0.02)


def test_named_models_belong_to_the_question():
    asked = session(d.PureDP(2.0))
    asked.regression("y", ON, epsilon=1.0, models=["a"], name="one")
    with pytest.raises(DiscreetError):
        asked.regression("y", ON, epsilon=1.0, models=["b"], name="one")
    assert asked.regression("y", ON, epsilon=1.0, models=[("a",)], name="one").model("a").params
    few = RegressionQuestion(SCHEMA, "y", ["a", "sex"], epsilon=1.0, models=["a"])
    assert not few.several_steps  # everything is measured at once, and every model is as good


@pytest.mark.parametrize(
    ("models", "match"),
    [
        ("a", "list of models"),
        (7, "list of models"),
        ([[]], "some of"),
        ([["y"]], "some of"),
        ([["a", "a"]], "must not repeat"),
        ([["a", "b"], ["b", "a"]], "no model twice"),
        ([ON], "not all"),
        ([list(one) for one in itertools.combinations(ON, 4)], "at most 40"),
    ],
)
def test_models_that_make_no_sense_are_refused(models, match):
    with pytest.raises(DiscreetError, match=match):
        RegressionQuestion(SCHEMA, "y", ON, epsilon=1.0, models=models)


@pytest.mark.parametrize(
    "guarantee", [d.PureDP(1.0), d.GaussianDP(1.0), d.ZeroConcentratedDP(0.2), d.ApproxDP(1, 1e-6)]
)
def test_both_steps_cost_what_was_asked(guarantee):
    asked = session(guarantee)
    found = asked.regression("y", ON, guarantee=guarantee, name="wide")
    assert found.guarantee == guarantee
    assert asked.regression("y", ON, guarantee=guarantee, name="wide").to_dict() == found.to_dict()
    with pytest.raises(DiscreetError):
        asked.count(guarantee=d.PureDP(0.01) if isinstance(guarantee, d.PureDP) else guarantee)
    again = Release.from_json(found.to_json())
    assert again.summary() == found.summary()
    assert again.intervals() == found.intervals()
    question = RegressionQuestion(SCHEMA, "y", ON, guarantee=guarantee, expected_rows=1500)
    claim = question.claim(None)
    claim.verify()
    assert len(claim.steps) == 3  # of ε two for moments; of others one for what lies beyond the bounds
    assert len(question.plan().parts) == 8


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("rows", [1, 3])
def test_every_step_states_how_far_a_unit_moves_it(neighbours, rows):
    unit = d.PrivacyUnit("who", contribution=d.Contribution(total=rows))
    size = 500 if neighbours is Neighbours.REPLACE_ONE else None
    schema = d.Schema(columns=SCHEMA.columns, unit=unit, neighbours=neighbours, size=size)
    asked = RegressionQuestion(schema, "y", ON, epsilon=1.0)
    sides = rows * (2 if neighbours is Neighbours.REPLACE_ONE else 1)
    outcome, others, squares = asked.claim(None).steps
    boxes = asked.measurement.statistic
    assert (outcome.sensitivity.l1, outcome.sensitivity.dimension) == (sides, 2)
    assert (outcome.mechanism.dimension, outcome.mechanism.boxes) == (boxes.together, 2)
    assert (others.sensitivity.linf, others.sensitivity.dimension) == (sides, boxes.size - 2 * boxes.together)
    assert (squares.sensitivity.linf, squares.sensitivity.dimension) == (sides, len(boxes.terms(boxes.on)))
    costs = [step.cost.epsilon for step in (outcome, others, squares)]
    assert sum(costs) <= 1.0
    steps = (outcome, others, squares)
    assert all(step.mechanism.scale >= sides / cost for step, cost in zip(steps, costs, strict=True))


def test_the_noise_is_the_smallest_that_there_is():
    """Tensor parts for up to two numbers, then boxes, and weighed normal noise where it is allowed."""
    chosen = {}
    for count in (1, 2, 3, 5, 8):
        names = [f"x{place}" for place in range(count)]
        schema = d.Schema(columns={name: d.Bounds(0, 1, grid=0.01) for name in (*names, "y")})
        for guarantee in (d.PureDP(1.0), d.GaussianDP(1.0)):
            found = RegressionQuestion(schema, "y", names, guarantee=guarantee).measurement
            chosen[count, type(guarantee).__name__] = found.statistic.name, found.mechanism.name
    parts, boxes = "regression_moments", "moment_boxes"
    assert [chosen[count, "PureDP"][0] for count in (1, 2, 3, 5, 8)] == [parts, parts, boxes, boxes, boxes]
    assert chosen[8, "PureDP"] == (boxes, "box_noise")
    assert chosen[8, "GaussianDP"] == ("moment_products", "gaussian")


def test_behind_a_sample_one_step_measures_everything():
    asked = RegressionQuestion(SCHEMA, "y", list(NUMBERS), epsilon=1.0)
    assert not knows_squares(asked.measurement.statistic)
    assert knows_squares(asked.in_one_step().measurement.statistic)
    with pytest.raises(DiscreetError, match="in one step"):
        RegressionQuestion(SCHEMA, "y", ON, epsilon=1.0).in_one_step()


def test_a_release_without_the_second_step_has_no_interval():
    found = session(d.PureDP(1.0)).regression("y", ON, epsilon=1.0)
    lacking = replace(found, public={})
    with pytest.raises(NoPopulationInterval):
        lacking.conf_int()


def test_public_sizes_and_units():
    columns = {
        name: replace(one, nulls=0)
        if isinstance(one, d.Bounds)
        else replace(one, nulls=f"={one.labels[0]}", unknown=f"={one.labels[0]}")
        for name, one in SCHEMA.columns.items()
    }
    replaced = d.Schema(columns=columns, neighbours=Neighbours.REPLACE_ONE, size=1500)
    found = session(d.PureDP(2.0), schema=replaced).regression("y", ON, epsilon=2.0)
    assert found.nobs == 1500
    assert found.sensitivity.linf == 2.0
    owned = d.Schema(columns=SCHEMA.columns, unit=d.PrivacyUnit("who", contribution=d.Contribution(total=3)))
    units = session(d.PureDP(2.0), schema=owned).regression("y", ON, epsilon=2.0)
    assert units.sensitivity.linf == 3.0
    assert units.design.sampled.moments.rows_per_unit == 3


# ---- coverage -----------------------------------------------------------------------------------------------------


@pytest.fixture
def coverage(monkeypatch):
    """The study of coverage, whose whole grid is stored."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("regression_coverage")


def least(stored):
    """The smallest share of intervals that hold a truth, with three standard deviations for chance."""
    shares = [hits / one["repeats"] for one in stored.values() for hits in one["held"]]
    return min(shares) + 3 * math.sqrt(0.05 * 0.95 / min(one["repeats"] for one in stored.values()))


LAWS = {
    "equal variances": lambda x: scipy.stats.norm(0, 0.12),
    "unequal variances": lambda x: scipy.stats.norm(0, 0.02 + 0.6 * abs(x - 0.5)),
    "skewed": lambda x: scipy.stats.expon(-0.12, 0.12),
    "heavy tails, clipped": lambda x: scipy.stats.t(2.5, scale=0.06),
}


@pytest.mark.parametrize("kind", LAWS)
def test_mean_outcomes_after_clipping_are_those_of_the_law(coverage, kind):
    """The truth of the study rests on them; a Riemann sum over quantiles of the error knows nothing of the formula."""
    x = np.array([[0.0, 1.0], [0.1, 0.9], [0.45, 0.45], [0.5, 0.2], [1.0, 0.0]])
    means = 0.4 + 0.25 * (x[:, 0] - 0.45) - 0.15 * (x[:, 1] - 0.45)
    levels = (np.arange(200_000) + 0.5) / 200_000
    found = [np.clip(m + LAWS[kind](one).ppf(levels), 0, 1).mean() for m, one in zip(means, x[:, 0], strict=True)]
    assert coverage.expected(kind, x) == pytest.approx(found, abs=1e-7)


@pytest.mark.parametrize(("kind", "numbers", "n"), [("skewed", 4, 1000), ("unequal variances", 2, 1000)])
@pytest.mark.parametrize("alone", [False, True])
def test_intervals_cover(coverage, kind, numbers, n, alone):
    stored = {}
    coverage.study(coverage.Setting(kind, numbers, n, alone), 100, stored)
    assert len(stored) == len(coverage.GUARANTEES)
    assert least(stored) > 0.935


@pytest.mark.parametrize(("kind", "numbers"), [("yes or no", 8), ("unequal variances", 2), ("skewed", 4)])
def test_stored_slopes_are_those_of_the_population(coverage, kind, numbers):
    few = coverage.slopes_of(kind, numbers, rows=40_000, chunks=5)
    for stored, name in zip(coverage.truth(kind, numbers), ("slopes", "first alone"), strict=True):
        off = np.abs(stored - few[name])
        assert (off <= 8 * np.array(few[f"{name}, error"]) + 1e-12).all()  # five chunks: Student's law


@pytest.mark.deep
@pytest.mark.parametrize(
    "kind", ["equal variances", "unequal variances", "skewed", "heavy tails, clipped", "yes or no"]
)
@pytest.mark.parametrize(("numbers", "n"), list(itertools.product((1, 2, 4, 8), (300, 1000, 5000, 50_000))))
def test_intervals_cover_on_a_grid(coverage, kind, numbers, n):
    stored = {}
    coverage.study(coverage.Setting(kind, numbers, n), 200, stored)
    assert least(stored) > 0.935


@pytest.mark.parametrize(
    ("guarantee", "on", "name", "n"), [(d.GaussianDP(0.5), ["x"], "x", 300), (d.PureDP(1.0), ["x", "g"], "g[b]", 400)]
)
def test_the_smallest_effect_is_that_of_the_test(guarantee, on, name, n):
    """Multiples of standard errors that releases have: 1.96 of a p-value of 5 %, and 0.84 of the estimate's own.

    Rows are spread evenly. The mean of 40 standard errors is known to a hundredth.
    """
    unit = d.Bounds(0, 1, grid=1 / 1024)
    schema = d.Schema(columns={"x": unit, "y": unit, "g": d.Categories(["a", "b", "c"])})
    planned = RegressionQuestion(schema, "y", on, guarantee=guarantee, expected_rows=n, beyond=False).plan()
    effect = next(parts[2] for parts in planned.parts if parts[0] == name)
    rng, tested, own = np.random.default_rng(12), [], []
    for _ in range(40):
        x, g = np.rint(rng.random(n) * 1024) / 1024, rng.choice(["a", "b", "c"], n)
        moved = x - 0.5 if name == "x" else (g == "b") - 1 / 3
        y = np.clip(0.5 + effect * moved + math.sqrt(1 - effect**2) * (rng.random(n) - 0.5), 0, 1)
        asked = d.Session(pa.table({"x": x, "y": y, "g": g}), schema, ledger=":memory:", budget=guarantee)
        found = asked.regression("y", on, guarantee=guarantee, beyond=False).coefficients[name]
        tested.append(abs(found.estimate) / scipy.stats.norm.isf(found.pvalue() / 2))
        own.append(found.standard_error)  # which is cautious, by some per cent
    assert effect == pytest.approx(1.96 * np.mean(tested) + 0.842 * 0.98 * np.mean(own), rel=0.04)
