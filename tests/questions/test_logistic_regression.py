"""Logistic regression: polynomials by brute force, maximum likelihood as oracle, intervals that cover, refusals."""

import json
import math
from itertools import product
from pathlib import Path

import mpmath
import numpy as np
import pyarrow as pa
import pytest
import scipy.optimize
from scipy.special import expit
from scipy.stats import binom, poisson

import discreet as d
from discreet.core.errors import DiscreetError, NoPopulationInterval
from discreet.core.protection import Neighbours
from discreet.core.rows import take
from discreet.core.rows.source import open_source
from discreet.inference.least_squares import Linear
from discreet.inference.logistic import LogisticFit, ScorePolynomials
from discreet.inference.noise import NoisyTotals
from discreet.questions.regression.logistic import LogisticQuestion
from discreet.results.release import Release


@pytest.mark.parametrize(("middle", "half", "most"), [(0.0, 2.0, 1e-4), (0.0, 3.0, 3e-4), (-3.0, 3.0, 8e-4)])
def test_the_score_has_next_to_no_mean_under_the_model(middle, half, most):
    polynomials = ScorePolynomials(np.array([middle]), np.array([half]), 4)
    places = np.linspace(middle - half, middle + half, 50)
    yes, no = (np.array([polynomials.score(np.array([one]))[side][0] for one in places]) for side in (0, 1))
    means = []
    for place, one, other in zip(places.tolist(), yes.tolist(), no.tolist(), strict=True):
        share = 1 / (1 + mpmath.exp(-place))
        means.append(float(abs(share * one - (1 - share) * other)))
    assert max(means) <= polynomials.bias[0] * 1.01 < most
    # As efficient as maximum likelihood, to a few per cent, for log-odds that are evenly spread over the range.
    share = expit(places)
    spread = share * (1 - share)
    squares = share * yes**2 + (1 - share) * no**2
    assert (spread * (yes + no)).mean() ** 2 / squares.mean() > 0.95 * spread.mean()
    measured = [polynomials.squares(np.array([one])) for one in places]
    replaced = np.array([s * a[0] + (1 - s) * b[0] for s, (a, b) in zip(share, measured, strict=True)])
    assert np.abs(replaced - squares).max() < 0.06 * squares.mean()
    assert replaced.mean() == pytest.approx(squares.mean(), rel=0.01)


def parts_of(rows, degrees):
    """The parts of all rows between 0 and 1, by binomial probabilities."""
    found = np.ones((len(rows), 1))
    for column, degree in zip(rows.T, degrees, strict=True):
        own = binom.pmf(np.arange(degree + 1), degree, column[:, None])
        found = (found[:, :, None] * own[:, None, :]).reshape(len(rows), -1)
    return found


def fitted(rows, cells, yes, degrees, count, *, noise=1e-18, rng=None, scale=0.0, size=None, rows_per_unit=1):
    totals = np.zeros((count, 2, math.prod(degree + 1 for degree in degrees)))
    np.add.at(totals, (cells, yes.astype(int)), parts_of(rows, degrees))
    flat = totals.ravel() + (rng.laplace(0, scale, totals.size) if scale else 0.0)
    moments = NoisyTotals(totals=flat, noise=noise, kurtosis=3.0, size=size, rows_per_unit=rows_per_unit)
    numbers = len(degrees)
    terms = [Linear(np.ones(count), np.zeros(numbers))]
    terms += [Linear(np.zeros(count), one) for one in np.eye(numbers)]
    terms += [Linear((np.arange(count) == cell).astype(float), np.zeros(numbers)) for cell in range(1, count)]
    return LogisticFit(moments, count, degrees, tuple(terms))


def by_rows(rows, cells, count):
    return np.column_stack([np.ones(len(rows)), rows, *(cells == cell for cell in range(1, count))]).astype(float)


def likelihood(z, y):
    """Coefficients and robust covariance, by an optimiser that knows nothing of ours."""

    def loss(b):
        return np.logaddexp(0, z @ b).sum() - y @ z @ b

    b = scipy.optimize.minimize(loss, np.zeros(z.shape[1]), jac=lambda b: z.T @ (expit(z @ b) - y), tol=1e-12).x
    share = expit(z @ b)
    inverse = np.linalg.inv((z * (share * (1 - share))[:, None]).T @ z)
    n, k = z.shape
    return b, inverse @ ((z * ((y - share) ** 2)[:, None]).T @ z) @ inverse * n / (n - k)


def sample(rng, n, degrees, count, slopes):
    rows = rng.beta(2.0, 2.0, size=(n, len(degrees)))
    for column, degree in enumerate(degrees):
        if degree == 1:
            rows[:, column] = rows[:, column] < 0.4
    cells = rng.integers(0, count, n)
    z = by_rows(rows, cells, count)
    return rows, cells, z, rng.random(n) < expit(z @ slopes)


@pytest.mark.parametrize(
    ("degrees", "count", "slopes", "close"),
    [((), 3, [-0.5, 1.0, -1.0], 1e-4), ((1,), 2, [0.2, -1.0, 0.5], 1e-4), ((4,), 1, [-2.0, 4.0], 0.1),
     ((4, 4), 2, [0.5, -2.0, 1.5, 0.7], 0.1), ((3, 3, 3), 1, [0.0, 1.0, -1.0, 1.5], 0.2)],
)  # fmt: skip
def test_without_noise_it_is_maximum_likelihood_with_robust_errors(degrees, count, slopes, close):
    rng = np.random.default_rng(1)
    rows, cells, z, y = sample(rng, 4000, degrees, count, np.array(slopes))
    fit, (b, robust) = fitted(rows, cells, y, degrees, count), likelihood(z, y.astype(float))
    errors = np.sqrt(np.diag(robust))
    assert np.abs((fit.coefficients - b) / errors).max() < close
    assert np.allclose([fit.standard_error(one) for one in np.eye(b.size)], errors, rtol=5e-3 if close < 0.1 else 0.05)
    deviances = [np.logaddexp(0, -(2 * y - 1) * one).sum() for one in (z @ b, np.log(y.mean() / (1 - y.mean())))]
    assert fit.likelihood_gain == pytest.approx(1 - deviances[0] / deviances[1], abs=0.01)
    joint = fit.wald(np.eye(b.size)[1:], np.zeros(b.size - 1))
    assert joint.df == b.size - 1
    assert joint.pvalue < 1e-6


def test_an_interval_is_the_set_of_values_that_are_not_rejected():
    rng = np.random.default_rng(2)
    rows, cells, _, y = sample(rng, 1500, (4,), 2, np.array([-1.0, 2.0, 0.5]))
    for noisy in ({}, {"rng": rng, "scale": 1.0, "noise": 2.0}):
        fit = fitted(rows, cells, y, (4,), 2, **noisy)
        for along in (*np.eye(3), np.array([1.0, 0.5, 1.0])):
            low, high = fit.interval(along, 0.9)
            assert low < along @ fit.coefficients < high
            for end in (low, high):
                assert fit.pvalue(along, end) == pytest.approx(0.1, abs=2e-3)
            assert fit.pvalue(along, float(along @ fit.coefficients)) > 0.99


def test_a_public_number_of_rows_takes_noise_away():
    rng = np.random.default_rng(3)
    rows, cells, _, y = sample(rng, 500, (4,), 2, np.array([-1.0, 2.0, 0.5]))
    private, public = (fitted(rows, cells, y, (4,), 2, noise=20.0, size=size) for size in (None, 500))
    along = np.array([1.0, 0.5, 0.0])
    assert public.standard_error(along) < private.standard_error(along)
    assert public.rows == 500


def test_where_nothing_can_be_said_an_interval_has_no_end():
    rng = np.random.default_rng(4)
    rows, cells, _, y = sample(rng, 60, (4,), 1, np.array([-1.0, 2.0]))
    ends = [fitted(rows, cells, y, (4,), 1, rng=rng, scale=30.0, noise=1800.0).interval(np.array([0.0, 1.0]), 0.95)]
    apart = fitted(rows, cells, rows[:, 0] > 0.5, (4,), 1)  # separated by a number
    ends.append(apart.interval(np.array([0.0, 1.0]), 0.95))
    assert all(not math.isfinite(high - low) for low, high in ends)


def test_outcomes_that_are_separated_have_no_estimate_and_are_still_seen_to_differ():
    """That a column makes no difference can be tested without an estimate of the difference it makes."""
    rng = np.random.default_rng(14)
    rows, cells = rng.random((2000, 1)), rng.integers(0, 3, 2000)
    noisy = {"rng": rng, "scale": 1.0, "noise": 2.0}
    by_number = fitted(rows, cells, rows[:, 0] > 0.5, (4,), 3)
    assert not by_number.found
    assert by_number.pvalue(np.eye(4)[1]) < 1e-6
    assert by_number.wald(np.eye(4)[1:], np.zeros(3)).pvalue < 1e-6
    by_label = fitted(rows, cells, np.where(cells == 2, True, rng.random(2000) < 0.5), (4,), 3, **noisy)
    assert by_label.interval(np.eye(4)[3], 0.95) == (-math.inf, math.inf)
    assert by_label.pvalue(np.eye(4)[3]) < 1e-6
    assert by_label.pvalue(np.eye(4)[3], 0.5) == 1.0  # nothing is known of other values
    assert by_label.wald(np.eye(4)[2:], np.zeros(2)).pvalue < 1e-6
    assert min(by_label.pvalue(one) for one in np.eye(4)[1:3]) > 0.001


def test_labels_that_make_no_difference_seldom_seem_to_where_an_outcome_is_rare():
    """Ten of a hundred rows have the outcome, so that a label often has too few of them for an estimate."""
    rng, alike, scarce = np.random.default_rng(15), 0, 0
    for _ in range(300):
        cells, y = rng.integers(0, 2, 100), rng.random(100) < 0.1
        fit = fitted(np.zeros((100, 0)), cells, y, (), 2, rng=rng, scale=0.3, noise=0.18)
        alike += fit.wald(np.eye(2)[1:], np.zeros(1)).pvalue < 0.05
        scarce += bool(fit._rare.any())
    assert scarce > 75
    assert alike <= 27  # 15 are expected at most, with a standard deviation of 3.8


def test_a_label_without_rows_leaves_the_others_as_they_are():
    rng = np.random.default_rng(8)
    rows, cells, _, y = sample(rng, 3000, (4,), 2, np.array([-1.0, 2.0, 0.5]))
    cells[:6] = 2
    noisy = {"rng": rng, "scale": 1.0, "noise": 2.0}
    fit, without = fitted(rows, cells, y, (4,), 3, **noisy), likelihood(by_rows(rows[6:], cells[6:], 2), y[6:] * 1.0)
    assert np.abs((fit.coefficients[:3] - without[0]) / np.sqrt(np.diag(without[1]))).max() < 1
    assert all(math.isfinite(fit.interval(one, 0.95)[1]) for one in np.eye(4)[:3])
    assert fit.interval(np.eye(4)[3], 0.95) == (-math.inf, math.inf)
    assert fit.pvalue(np.eye(4)[3]) == 1.0
    assert fit.standard_error(np.eye(4)[3]) > 0.5
    assert fit.wald(np.eye(4)[2:], np.zeros(2)).df == 1
    assert fit.wald(np.eye(4)[3:], np.zeros(1)).pvalue == 1.0


@pytest.mark.parametrize("y", [np.zeros(500, dtype=bool), np.arange(500) < 1])
def test_an_outcome_without_rows_is_no_result(y):
    rng = np.random.default_rng(9)
    for degrees, rows in (((4,), rng.random((500, 1))), ((), np.zeros((500, 0)))):
        for noisy in ({}, {"rng": rng, "scale": 1.0, "noise": 2.0}):
            fit = fitted(rows, rng.integers(0, 2, 500), y, degrees, 2, **noisy)
            assert not fit.found
            assert fit.likelihood_gain == 0
            along = np.eye(len(fit.terms))[-1]
            assert fit.interval(along, 0.95) == (-math.inf, math.inf)
            assert fit.standard_error(along) > 1


POPULATIONS = {
    "middle": lambda rng, n: rng.beta(2.6, 2.6, n),
    "ends": lambda rng, n: rng.beta(0.4, 0.4, n),
    "long tail": lambda rng, n: np.clip(rng.lognormal(-2.5, 0.9, n), 0, 1),
    "few values": lambda rng, n: rng.integers(0, 4, n) / 3,
}


def covered(kind, n, epsilon, slope, start, repeats, seed):
    """How often the test of the true coefficients does not reject them, for each of them."""
    rng, truth, hits = np.random.default_rng(seed), np.array([start, slope, 0.5]), np.zeros(3)
    for _ in range(repeats):
        rows = POPULATIONS[kind](rng, n)[:, None]
        cells = rng.integers(0, 2, n)
        y = rng.random(n) < expit(by_rows(rows, cells, 2) @ truth)
        fit = fitted(rows, cells, y, (4,), 2, rng=rng, scale=1 / epsilon, noise=2 / epsilon**2)
        hits += [fit.pvalue(one, float(value)) >= 0.05 for one, value in zip(np.eye(3), truth, strict=True)]
    return hits / repeats


@pytest.mark.parametrize("kind", POPULATIONS)
def test_intervals_cover(kind):
    # Seeded; 95 % expected, with a standard deviation of 3.1 %.
    assert covered(kind, 1500, 1.0, 3.0, -2.0, 50, seed=5).min() > 0.85


def test_steep_slopes_far_from_the_middle_are_found():
    rng, along = np.random.default_rng(10), np.array([0.0, 1.0])
    for _ in range(5):
        rows = POPULATIONS["long tail"](rng, 5000)[:, None]
        y = rng.random(5000) < expit(-3 + 6 * rows[:, 0])
        fit = fitted(rows, np.zeros(5000, dtype=int), y, (4,), 1, rng=rng, scale=1.0, noise=2.0)
        assert fit.found
        assert fit.standard_error(along) < 1


@pytest.mark.parametrize("squared", [True, False])
def test_where_log_odds_are_not_linear_the_same_score_is_estimated(squared):
    """The interval is for the root of the same polynomials over the population; that is near maximum likelihood."""
    rng = np.random.default_rng(7)

    def drawn(n):
        rows = rng.beta(2.0, 2.0, (n, 1))
        bent = 6 * (rows[:, 0] - 0.5) ** 2 if squared else 0.5 * (rows[:, 0] > 0.6)
        return rows, np.zeros(n, dtype=int), rng.random(n) < expit(-2 + 2 * rows[:, 0] + bent)

    many = drawn(100_000)
    truth = fitted(*many, (4,), 1).coefficients
    b, robust = likelihood(by_rows(many[0], many[1], 1), many[2].astype(float))
    assert np.abs((truth - b) / np.sqrt(np.diag(robust) * 25)).max() < 0.3  # in standard errors of 4,000 rows
    hits = 0
    for _ in range(40):
        fit = fitted(*drawn(4000), (4,), 1, rng=rng, scale=1.0, noise=2.0)
        hits += fit.pvalue(np.array([0.0, 1.0]), float(truth[1])) >= 0.05
    assert hits >= 34


SCHEMA = d.Schema(
    columns={
        "age": d.Bounds(18, 90, grid=1),
        "own": d.Bounds(0, 1, grid=1),
        "sex": d.Categories(["f", "m"]),
        "paid": d.Categories(["no", "yes"]),
    }
)


def people(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    age, own, sex = rng.integers(18, 91, n), rng.integers(0, 2, n), rng.choice(["f", "m"], n)
    paid = rng.random(n) < expit(-3 + 0.05 * age + 0.4 * own - 0.8 * (sex == "m"))
    who = np.arange(n) // 3
    return pa.table({"age": age, "own": own, "sex": sex, "paid": np.where(paid, "yes", "no"), "who": who})


def session(budget=1000.0, schema=SCHEMA, rows=None):
    return d.Session(people() if rows is None else rows, schema, ledger=":memory:", budget=d.PureDP(budget))


def test_totals_of_a_session_are_those_of_the_rows():
    rows = people(60)
    question = LogisticQuestion(SCHEMA, "paid", ["sex", "age", "own"], epsilon=1.0)
    found = np.array(question.measurement.exact(take(open_source(rows), SCHEMA)), dtype=float).reshape(2, 2, -1)
    parts = parts_of(np.column_stack([(rows["age"].to_numpy() - 18) / 72, rows["own"].to_numpy()]), (4, 1))
    for (i, sex), (j, paid) in product(enumerate(["f", "m"]), enumerate(["no", "yes"])):
        chosen = (np.array(rows["sex"]) == sex) & (np.array(rows["paid"]) == paid)
        assert np.allclose(found[i, j], parts[chosen].sum(axis=0), atol=1e-9)


@pytest.mark.parametrize("on", [["sex", "age", "own"], ["sex"]])
def test_a_session_fits_in_the_units_of_the_data(on):
    found, rows = session().logistic_regression("paid", on, epsilon=900.0), people()
    each = {"sex": np.array(rows["sex"]) == "m", "age": np.array(rows["age"]), "own": np.array(rows["own"])}
    z = np.column_stack([np.ones(3000), *(each[name] for name in on)]).astype(float)
    y = (np.array(rows["paid"]) == "yes").astype(float)
    scaled = z / np.abs(z).max(axis=0)
    b, robust = likelihood(scaled, y)
    b, errors = b / np.abs(z).max(axis=0), np.sqrt(np.diag(robust)) / np.abs(z).max(axis=0)
    assert np.abs((np.array(list(found.params.values())) - b) / errors).max() < 0.1
    assert np.allclose(list(found.bse.values()), errors, rtol=0.05)
    at = {"sex": "m", "age": 40, "own": 1}
    predicted = found.predict({name: at[name] for name in on})
    along = np.array([1.0, *({"sex": 1.0, "age": 40.0, "own": 1.0}[name] for name in on)])
    assert predicted.estimate == pytest.approx(float(expit(along @ b)), abs=0.01)
    assert predicted.population_interval().contains(float(expit(along @ b)))
    assert found.odds_ratios["sex[m]"] == pytest.approx(math.exp(found.params["sex[m]"]))
    assert found.odds_ratio_int().loc["sex[m]", "low"] < math.exp(-0.8) < found.odds_ratio_int().loc["sex[m]", "high"]
    alone = found.model("sex")
    rates = [y[each["sex"] == one].mean() for one in (False, True)]
    gap = math.log(rates[1] / (1 - rates[1])) - math.log(rates[0] / (1 - rates[0]))
    assert alone.params["sex[m]"] == pytest.approx(gap, rel=0.02)
    assert "nothing" not in str(alone)
    assert Release.from_json(found.to_json()).params == found.params


def test_a_session_with_noise_prints_a_table():
    asked = session(2.0)
    found = asked.logistic_regression("paid", ["age", "sex"], epsilon=1.0, name="paid")
    assert asked.ledger.remaining() == d.PureDP(1.0)
    assert Release.from_json(found.to_json()).summary() == found.summary()
    assert all(name in found.summary() for name in ("paid = yes", "age", "sex[m]", "P>|z|", "[0.025"))
    assert max(map(len, found.summary().splitlines())) <= 80
    together, each = found.verdict()["said"]
    assert together.startswith("There is evidence that age and sex go with paid (p < 0.001; pseudo R² 0.")
    assert each.startswith("Coefficients, with population intervals: age 0.0")
    assert "const" not in each
    intervals, narrower, pvalues = found.intervals(), found.noise_intervals(), found.pvalues
    for name, interval in intervals.items():
        assert interval.low < found.params[name] < interval.high
        assert narrower[name].width < interval.width
        assert 0 <= pvalues[name] <= 1
    assert [one.label for one in found.readings()] == list(found.params)
    assert 0 <= found.prsquared <= 1
    assert intervals["age"].contains(0.05)
    again = asked.logistic_regression("paid", ["age", "sex"], epsilon=1.0, name="paid")
    assert again.value.tolist() == found.value.tolist()


def test_nothing_is_said_where_nothing_can_be():
    found = session(1.0, rows=people(40)).logistic_regression("paid", ["age", "sex"], epsilon=0.02)
    assert "nothing can" in found.summary()
    with pytest.raises(NoPopulationInterval, match="nothing can be said"):
        found.coefficients["age"].population_interval()
    assert None in [one.population for one in found.readings()]
    together, each = found.verdict()["said"]
    assert together.startswith("There is no evidence that age and sex go with paid (p = ")
    assert each.endswith("age: nothing can be said; sex[m]: nothing can be said.")
    json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.parametrize("guarantee", [d.GaussianDP(1.0), d.ZeroConcentratedDP(0.5), d.ApproxDP(1.0, 1e-6)])
@pytest.mark.parametrize("on", ["age", "sex"])
def test_other_guarantees_and_units(guarantee, on):
    unit = d.PrivacyUnit("who", contribution=d.Contribution(total=3))
    own = d.Session(people(), d.Schema(columns=SCHEMA.columns, unit=unit), ledger=":memory:", budget=guarantee)
    found = own.logistic_regression("paid", on, guarantee=guarantee)
    assert found.design.sampled.moments.rows_per_unit == 3
    public = d.Schema(columns=SCHEMA.columns, neighbours=Neighbours.REPLACE_ONE, size=3000)
    replaced = d.Session(people(), public, ledger=":memory:", budget=guarantee).logistic_regression(
        "paid", on, guarantee=guarantee
    )
    assert replaced.nobs == pytest.approx(3000, abs=60)
    assert replaced.design.sampled.moments.rows_per_unit == 1


@pytest.mark.parametrize(
    ("column", "on", "match"),
    [
        ("many", ["age"], "must have two labels"),
        ("age", ["sex"], "must have two labels"),
        ("paid", ["paid"], "other columns"),
        ("paid", [], "other columns"),
        ("paid", ["age", "age"], "must not repeat"),
        ("paid", ["nothing"], "not declared"),
        ("paid", ["a", "b", "c", "e", "age"], "at most 4,096"),
        ("paid", ["many", "age"], "at most 4,096"),
        ("paid", ["one"], "only one label"),
    ],
)
def test_regressions_that_make_no_sense_are_refused(column, on, match):
    more = {name: d.Bounds(0, 9, grid=1) for name in "abce"}
    labels = {"many": d.Categories(list(range(2000))), "one": d.Categories(["x"])}
    schema = d.Schema(columns={**SCHEMA.columns, **more, **labels})
    with pytest.raises(DiscreetError, match=match):
        LogisticQuestion(schema, column, on, epsilon=1.0)


def test_names_that_are_not_there_are_refused():
    found = session().logistic_regression("paid", ["age", "sex"], epsilon=10.0)
    for call in (
        lambda: found.model("own"),
        lambda: found.wald_test("own"),
        lambda: found.predict({"age": 40}),
        lambda: found.predict({"age": 40, "sex": "x"}),
        lambda: found.predict({"age": math.nan, "sex": "m"}),
    ):
        with pytest.raises(DiscreetError):
            call()


def test_a_plan_states_the_errors_that_are_found():
    rng, n = np.random.default_rng(12), 3000
    age = rng.integers(18, 91, n)
    rows = pa.table({"age": age, "sex": rng.choice(["f", "m"], n), "paid": rng.choice(["no", "yes"], n)})
    planned = LogisticQuestion(SCHEMA, "paid", ["age", "sex"], epsilon=1.0, expected_rows=n).plan()
    found = session(rows=rows).logistic_regression("paid", ["age", "sex"], epsilon=1.0)
    slope = found.noise_intervals()["age"]
    assert planned.error_95 == pytest.approx((slope.high - slope.low) / 2, rel=0.25)
    assert planned.smallest_effect == pytest.approx(2.8016 * found.bse["age"], rel=0.1)
    assert [name for name, *_ in planned.parts] == ["age", "sex[m]"]
    for name, _, effect in planned.parts:
        assert effect == pytest.approx(2.8016 * found.bse[name], rel=0.1)


def information(mean, epsilon):
    """Fisher information about the mean of a Poisson count with geometric noise, by summation."""
    share, reach = math.exp(-epsilon), int(40 / epsilon)
    noise = (1 - share) / (1 + share) * share ** np.abs(np.arange(-reach, reach + 1))
    counts = poisson.pmf(np.arange(int(mean + 12 * math.sqrt(mean) + 20)), mean)
    seen, moved = (np.convolve(one, noise) for one in (counts, np.diff(counts, prepend=0.0) * -1))
    return float((moved[seen > 1e-250] ** 2 / seen[seen > 1e-250]).sum())


def possible_gain(shares, truth, rows, epsilon):
    """By how much the largest standard error could shrink if the likelihood of the noisy table were used."""
    cells = list(product(*(range(len(one)) for one in shares)))
    z = np.array([[1.0, *(cell[j] == k for j, one in enumerate(shares) for k in range(1, len(one)))] for cell in cells])
    sizes = rows * np.array([math.prod(one[k] for one, k in zip(shares, cell, strict=True)) for cell in cells])
    yes, noise = expit(z @ truth), 2 * math.exp(-epsilon) / math.expm1(-epsilon) ** 2
    inverse = np.linalg.inv((z.T * (sizes * yes * (1 - yes))) @ z)
    means = np.stack([sizes * yes, sizes * (1 - yes)])
    score = (z.T * ((1 - yes) ** 2 * (means[0] + noise) + yes**2 * (means[1] + noise))) @ z
    bound = np.zeros((len(truth) + len(cells),) * 2)
    for c, (mean, side) in product(range(len(cells)), enumerate((1 - yes, -yes))):
        along = np.concatenate([side[c] * z[c], np.arange(len(cells)) == c]) * means[mean, c]
        bound += information(means[mean, c], epsilon) * np.outer(along, along)
    ours, least = np.diag(inverse @ score @ inverse), np.diag(np.linalg.inv(bound))[: len(truth)]
    place = int(np.argmax(ours))
    return 1 - math.sqrt(least[place] / ours[place])


def test_what_the_likelihood_of_a_noisy_table_could_gain_is_as_decided():
    """The information bound beside the variance of the score, in the settings that docs/decisions names."""
    three, two = (3 / 7, 3 / 7, 1 / 7), (0.5, 0.5)
    six = [-0.5, 1.0, -1.0, 0.5, -0.5, 0.5]
    tables = ((three, two), six[:4]), ((three, (0.4, 0.4, 0.2), two), six)
    gains = [
        round(100 * possible_gain(shares, np.array(truth), rows, epsilon))
        for shares, truth in tables
        for rows in (1000, 5000)
        for epsilon in (0.3, 1.0)
    ]
    assert gains == [3, 0, 0, 0, 14, 1, 3, 0]


def test_stored_figures_are_better_than_published_ways():
    root = Path(__file__).parents[2]
    stored = json.loads((root / "benchmarks" / "results" / "logistic_regression.json").read_text(encoding="utf-8"))
    for one in stored["methods"]:
        assert one["moments"] < min(one["objective perturbation"], one["noisy steps"]) / 4
    assert all(one["covered"] > 0.92 for one in stored["intervals"])
