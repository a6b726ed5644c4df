"""Rank-deficient and James-Stein mechanisms: guarantee, law, closed-form cost, domination, clipping."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from discreet import ApproxDP, GaussianDP, Ledger, Neighbours, PureDP, ZeroConcentratedDP, release
from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms import Clipped, Gaussian, JamesSteinGaussian, Laplace, RankDeficientGaussian
from discreet.mechanisms.mechanism import mechanism_from_dict
from discreet.mechanisms.tables.james_stein import from_helmert, james_stein_risk, shrunk, target, to_helmert, trend
from discreet.mechanisms.tables.post_processed import exact_total, onto_simplex, onto_total, rounded
from discreet.questions import ContingencyTable, best_table_mechanism
from discreet.testing import check_calibration

TABLE = Sensitivity(moves=(1, 1))
COUNTS = np.array([40, 30, 20, 10, 30, 20, 40, 10, 25, 25])


def helmert_matrix(p: int) -> np.ndarray:
    """The p × (p − 1) matrix U_θ of lee2022, section 4.1, column by column."""
    columns = []
    for k in range(2, p + 1):
        column = np.zeros(p)
        column[: k - 1], column[k - 1] = 1, 1 - k
        columns.append(column / math.sqrt(k * (k - 1)))
    return np.array(columns).T


@pytest.mark.parametrize("p", [2, 3, 4, 18, 200])
def test_helmert_by_running_sums_is_the_matrix(p):
    matrix, x = helmert_matrix(p), np.random.default_rng(p).normal(size=(3, p))
    assert np.allclose(matrix.T @ matrix, np.eye(p - 1))
    assert np.allclose(to_helmert(x), x @ matrix)
    assert np.allclose(from_helmert(to_helmert(x)), x - x.mean(axis=-1, keepdims=True))
    assert np.allclose(trend(p), matrix @ np.ones(p - 1))
    assert math.isclose(trend(p) @ trend(p), p - 1)


# Guarantee.


def test_the_claim_of_the_rank_deficient_mechanism_is_exact_for_the_worst_neighbours():
    """μ² = δ'(σ²Π)⁺δ over all pairs of cells (lee2022, Lemma A.3), against what the mechanism reports."""
    p, mechanism = 5, RankDeficientGaussian.calibrate(GaussianDP(0.3), TABLE)
    inverse = np.linalg.pinv(mechanism.scale**2 * (np.eye(p) - 1 / p))
    worst = max(
        float(np.sqrt((np.eye(p)[i] - np.eye(p)[j]) @ inverse @ (np.eye(p)[i] - np.eye(p)[j])))
        for i, j in itertools.permutations(range(p), 2)
    )
    claim = mechanism.guarantee(TABLE).mu
    assert 0.9999999 * claim <= worst <= claim * (1 + 1e-12)
    assert claim <= 0.3


@pytest.mark.parametrize("kind", [RankDeficientGaussian, JamesSteinGaussian, Clipped])
@pytest.mark.parametrize("guarantee", [GaussianDP(0.3), ZeroConcentratedDP(0.05), ApproxDP(1.0, 1e-5)])
def test_calibration_is_that_of_the_noise(kind, guarantee):
    mechanism = kind.calibrate(guarantee, TABLE)
    assert mechanism.scale == Gaussian.calibrate(guarantee, TABLE).scale
    assert mechanism.profile(TABLE) == Gaussian(mechanism.scale).profile(TABLE)


def test_calibration_meets_and_uses_the_guarantee():
    guarantees = [GaussianDP(0.3), ZeroConcentratedDP(0.05), ApproxDP(1.0, 1e-5)]
    for kind in (RankDeficientGaussian, JamesSteinGaussian, Clipped):
        check_calibration(kind, guarantees, TABLE)
    check_calibration(Clipped, [*guarantees, PureDP(1.0)], TABLE, kind=Laplace, rank_deficient=True)


def test_pure_dp_leaves_laplace():
    for kind in (RankDeficientGaussian, JamesSteinGaussian):
        with pytest.raises(NoConversion):
            kind.calibrate(PureDP(1.0), TABLE)
    assert Clipped.calibrate(PureDP(1.0), TABLE, kind=Laplace).scale == 2.0


@pytest.mark.parametrize(("mu", "scale"), [(0.1, 15.489098), (0.3, 5.006956), (1.0, 1.358905)])
def test_tight_laplace_scale_on_tables(mu, scale):
    """Reference values of b̃_μ, computed independently for lee2022 (17)."""
    assert round(Laplace.calibrate(GaussianDP(mu), TABLE).scale, 6) == scale
    mechanism = Clipped.calibrate(GaussianDP(mu), TABLE, kind=Laplace)
    assert mechanism.profile(TABLE).within(GaussianDP(mu))
    assert not mechanism.profile(TABLE).within(GaussianDP(0.9999 * mu))


KEEPING_TOTAL = [
    RankDeficientGaussian(scale=2.0),
    JamesSteinGaussian(scale=2.0, rank_deficient=True),
    Clipped(mechanism=Laplace(2.0), rank_deficient=True),
]


@pytest.mark.parametrize("mechanism", KEEPING_TOTAL, ids=lambda m: m.name)
def test_exact_total_is_refused_where_it_is_private(mechanism):
    table = ContingencyTable({"x": [0, 1, 2]})
    ledger = Ledger(":memory:", budget=GaussianDP(10.0))
    counts = np.array([3, 4, 5])
    before = ledger.remaining()
    for exact in (
        table.exact_counts(counts),
        table.exact_counts(counts, neighbours=Neighbours.REPLACE_ONE, rows_per_unit=2),
    ):
        with pytest.raises(InvalidParameter, match="total"):
            release(exact, mechanism, ledger=ledger)
    assert ledger.remaining() == before
    public = release(table.exact_counts(counts, neighbours=Neighbours.REPLACE_ONE), mechanism, ledger=ledger)
    assert math.isclose(np.sum(public.measured), 12.0)


def test_a_declared_total_is_a_constant_of_the_mechanism():
    """Under add/remove the output may depend on a declared total only, not on the true one."""
    table = ContingencyTable({"x": [0, 1, 2]})
    mechanism = RankDeficientGaussian(scale=2.0, total=100)
    for counts in (np.array([3, 4, 5]), np.array([3, 4, 6])):
        noisy = release(table.exact_counts(counts), mechanism, rng=1)
        assert math.isclose(np.sum(noisy.value), 100.0)
    assert mechanism.guarantee(table.sensitivity(Neighbours.ADD_REMOVE)).mu == 0.5


def test_the_total_is_read_exactly():
    """Neighbours with the same total give bit-identical totals, whatever the order and size of cells."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=1000) * 10.0 ** rng.integers(-8, 8, size=1000)
    assert len({exact_total(rng.permutation(values)) for _ in range(20)}) == 1
    assert exact_total(values) == float(sum((Fraction(v) for v in values), Fraction(0)))
    assert exact_total(np.array([2**62, 2**62, 2**62])) == 3.0 * 2**62
    assert exact_total(np.array([Fraction(1, 3)] * 3, dtype=object)) == 1.0


def test_any_subspace():
    """Two public margins of a 2 × 3 table: the measurement agrees with them, the others carry the noise."""
    rows = ((1.0, 1.0, 1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0, 1.0, 1.0))
    mechanism = RankDeficientGaussian(scale=3.0, constraints=rows, values=(30.0, 60.0))
    truth = np.array([5.0, 10.0, 15.0, 10.0, 20.0, 30.0])
    assert mechanism.l2_cost(truth) == pytest.approx(4 * 9.0)
    draws = mechanism.simulate(truth, 40_000, rng=3)
    assert np.allclose(draws @ np.array(rows).T, [30.0, 60.0])
    cost = np.sum((draws - truth) ** 2, axis=1)
    assert abs(cost.mean() - 36.0) < 4.5 * cost.std() / 200  # false alarm 7e-6
    low, high = mechanism.noise_interval(mechanism.draw(truth, rng=1), 0.95)
    assert np.allclose(high - low, 2 * 1.959964 * 3 * math.sqrt(2 / 3), rtol=1e-4)
    assert mechanism_from_dict(mechanism.to_dict()) == mechanism


# Law.


@pytest.mark.parametrize("factor", [0.95, 1.0, 1.05])
def test_exact_draws_have_the_declared_scale(factor):
    """‖y − θ‖²/σ² is χ²_{p−1}. False alarm 7e-6; a scale off by 5 % shifts the score by more than 20."""
    p, sigma = 100_001, 3.0
    truth = np.arange(p)
    drawn = RankDeficientGaussian(scale=sigma).draw(truth)
    score = (np.sum((drawn - truth) ** 2) / (factor * sigma) ** 2 - (p - 1)) / math.sqrt(2 * (p - 1))
    assert (abs(score) < 4.5) == (factor == 1.0)
    assert math.isclose(drawn.sum(), truth.sum(), rel_tol=1e-12)


def test_exact_draws_are_correlated_as_declared():
    draws = np.array([RankDeficientGaussian(scale=1.0).draw([10, 20, 30, 40]) for _ in range(4000)])
    covariance = np.cov(draws.T)
    assert np.abs(covariance - (np.eye(4) - 0.25)).max() < 6 * 1.1 / math.sqrt(4000)


@pytest.mark.parametrize("as_published", [False, True])
@pytest.mark.parametrize("rank_deficient", [False, True])
@pytest.mark.parametrize("towards", ["zero", "mean"])
def test_the_value_is_a_function_of_the_measurement(towards, rank_deficient, as_published):
    """Against the paper's formulas (8), (9) and (10), written with the Helmert matrix."""
    mechanism = JamesSteinGaussian(
        scale=10.0, towards=towards, rank_deficient=rank_deficient, as_published=as_published
    )
    x = mechanism.measure(COUNTS)
    p, variance = COUNTS.size, 100.0

    def factor(constant, square):
        plain = 1 - constant * variance / square
        return plain if as_published else max(plain, 0.0)

    if not rank_deficient and towards == "zero":
        expected = factor(p - 2, x @ x) * x
    elif not rank_deficient:
        rest = x - x.mean()
        expected = x.mean() + factor(p - 3, rest @ rest) * rest
    else:
        matrix = helmert_matrix(p)
        z, q = matrix.T @ x, p - 1
        centre = np.full(q, z.mean() if towards == "mean" else 0.0)
        constant = q - 3 if towards == "mean" else q - 2
        shrunken = centre + factor(constant, (z - centre) @ (z - centre)) * (z - centre)
        expected = COUNTS.mean() + matrix @ shrunken
    assert np.allclose(mechanism.present(x), expected)


# Cost.


def reference_risk(k: int, noncentrality: float, positive_part: bool) -> float:
    """Risk of the James-Stein estimator by mpmath quadrature over its radial law."""
    c, lam = k - 2, mpmath.mpf(noncentrality)

    def density(w, df):
        if lam == 0:
            return (
                w ** (mpmath.mpf(df) / 2 - 1) * mpmath.exp(-w / 2) / (2 ** (mpmath.mpf(df) / 2) * mpmath.gamma(df / 2))
            )
        order = mpmath.mpf(df) / 2 - 1
        return mpmath.exp(-(w + lam) / 2) * (w / lam) ** (order / 2) * mpmath.besseli(order, mpmath.sqrt(lam * w)) / 2

    def factor(w):
        plain = 1 - c / w
        return max(plain, mpmath.mpf(0)) if positive_part else plain

    spread = 12 * mpmath.sqrt(2 * (k + 2 * lam)) + 60
    points = [0, c, k + lam, k + lam + spread / 4, k + lam + spread]
    own = mpmath.quad(lambda w: factor(w) ** 2 * w * density(w, k), points)
    cross = mpmath.quad(lambda w: factor(w) * density(w, k + 2), points)
    return float(own - 2 * lam * cross + lam)


@pytest.mark.parametrize("positive_part", [False, True])
@pytest.mark.parametrize(("k", "noncentrality"), [(3, 0.0), (3, 2.0), (5, 0.5), (8, 10.0), (17, 3.0), (17, 60.0)])
def test_closed_form_cost_against_quadrature(k, noncentrality, positive_part):
    goal = target(k, "zero", rank_deficient=False)
    truth = np.zeros(k)
    truth[0] = math.sqrt(noncentrality)
    found = james_stein_risk(truth, 1.0, goal, positive_part=positive_part)
    assert found == pytest.approx(reference_risk(k, noncentrality, positive_part), rel=1e-7)


@pytest.mark.parametrize("as_published", [False, True])
@pytest.mark.parametrize("rank_deficient", [False, True])
@pytest.mark.parametrize("towards", ["zero", "mean"])
@pytest.mark.parametrize("scale", [2.0, 14.0, 60.0])
def test_closed_form_cost_against_simulation(towards, rank_deficient, as_published, scale):
    """50,000 draws; false alarm 7e-6 a case, detects a difference of about 2 %."""
    mechanism = JamesSteinGaussian(
        scale=scale, towards=towards, rank_deficient=rank_deficient, as_published=as_published
    )
    costs = np.sum((mechanism.simulate(COUNTS, 50_000, rng=11) - COUNTS) ** 2, axis=1)
    assert abs(costs.mean() - mechanism.l2_cost(COUNTS)) < 4.5 * costs.std() / math.sqrt(50_000)


def test_cost_of_large_tables_and_large_counts():
    mechanism = JamesSteinGaussian(scale=1.0, towards="mean")
    assert mechanism.l2_cost(np.arange(100_000) % 7) < 100_000
    spread = np.tile([0.0, 1e9], 50)
    assert 99.9999 < mechanism.l2_cost(spread) <= 100.0
    goal, sizes = target(10, "zero", rank_deficient=False), (0.99e8, 1.01e8)
    edge = [james_stein_risk(np.r_[math.sqrt(size), np.zeros(9)], 1.0, goal) for size in sizes]
    assert edge[0] == pytest.approx(edge[1], rel=1e-8)


tables = arrays(np.int64, st.integers(5, 12), elements=st.integers(0, 500))


@settings(max_examples=60)
@given(tables, st.floats(0.5, 200.0))
def test_domination_chains_of_figure_1(counts, scale):
    def js(**options):
        return JamesSteinGaussian(scale=scale, **options).l2_cost(counts)

    p, slack = counts.size, 1 + 1e-9
    plain = p * scale**2
    kept = RankDeficientGaussian(scale=scale).l2_cost(counts)
    assert kept == pytest.approx((p - 1) * scale**2)
    assert kept < plain
    for positive_part in (False, True):
        published = {"as_published": not positive_part}
        assert js(towards="zero", **published) <= plain * slack
        assert js(towards="mean", **published) <= plain * slack
        assert js(towards="mean", rank_deficient=True, **published) <= kept * slack
    for options in ({"towards": "zero"}, {"towards": "mean"}, {"towards": "mean", "rank_deficient": True}):
        assert js(**options) <= js(**options, as_published=True) * slack


def test_plain_noise_costs_one_variance_a_cell():
    assert Gaussian(3.0).l2_cost(COUNTS) == pytest.approx(90.0)
    assert Laplace(3.0).l2_cost(COUNTS.reshape(2, 5)) == pytest.approx(180.0)
    assert Clipped(mechanism=Laplace(3.0), clip="none").l2_cost(COUNTS) == pytest.approx(180.0)
    assert Clipped(mechanism=Laplace(3.0), clip="none", rank_deficient=True).l2_cost(COUNTS) == pytest.approx(162.0)


def test_few_cells_are_not_shrunk():
    for p, options in ((2, {"towards": "zero"}), (3, {"towards": "mean"}), (4, {"rank_deficient": True})):
        mechanism = JamesSteinGaussian(scale=5.0, **options)
        x = mechanism.measure(np.arange(p) * 10)
        assert mechanism.present(x) is x


def test_shrinking_a_table_at_its_target_gives_the_target():
    assert np.array_equal(shrunk(np.full(6, 7.0), 4.0, target(6, "mean", False)), np.full(6, 7.0))


# Clipping and rounding.

points = arrays(np.float64, st.integers(2, 9), elements=st.floats(-100, 100))


@given(points, st.floats(0, 1000))
def test_simplex_projection_satisfies_its_optimality_conditions(x, total):
    """y is the projection iff y ≥ 0, Σy = total and x − y = t on the support, ≤ t elsewhere."""
    y = onto_simplex(x, total)
    assert y.min() >= 0
    assert math.isclose(y.sum(), total, rel_tol=1e-9, abs_tol=1e-9)
    gap = x - y
    if y.max() > 0:
        threshold = gap[y > 1e-9].max(initial=-math.inf)
        if np.isfinite(threshold):
            assert np.allclose(gap[y > 1e-9], threshold, atol=1e-7)
            assert np.all(gap <= threshold + 1e-7)


@given(points, st.data())
def test_simplex_is_never_farther_than_nonnegative(x, data):
    truth = np.array(data.draw(st.lists(st.integers(0, 60), min_size=x.size, max_size=x.size)), dtype=float)
    measured = onto_total(x, truth.sum())
    near = onto_simplex(measured, truth.sum())
    clipped = np.maximum(measured, 0)
    slack = 1e-7
    assert np.linalg.norm(near - truth) <= np.linalg.norm(clipped - truth) + slack
    assert np.linalg.norm(clipped - truth) <= np.linalg.norm(measured - truth) + slack


@given(arrays(np.float64, st.integers(2, 30), elements=st.floats(0, 1e6)), st.integers(0, 2**32))
def test_rounding_keeps_the_total_and_moves_no_cell_by_one(x, seed):
    whole = onto_simplex(x, round(float(x.sum())) + 1.0)
    y = rounded(whole, rng=np.random.default_rng(seed))
    assert np.all(y == np.floor(y))
    assert y.min() >= 0
    assert np.all(np.abs(y - whole) <= 1 + 1e-9)
    assert y.sum() == pytest.approx(round(float(x.sum())) + 1, abs=1e-6)


def test_rounding_is_unbiased():
    """Each cell is a Bernoulli variable; false alarm below 1e-5 over all cells."""
    x = np.array([0.1, 2.9, 0.5, 3.25, 0.25])
    draws = rounded(np.broadcast_to(x, (100_000, 5)).copy(), rng=np.random.default_rng(2))
    spread = np.sqrt((x % 1) * (1 - x % 1) / 100_000)
    assert np.all(np.abs(draws.mean(axis=0) - x) < 5 * spread)
    assert np.all(draws.sum(axis=1) == 7)
    assert np.array_equal(rounded(np.array([1.0, 2.0])), [1.0, 2.0])


@pytest.mark.parametrize("clip", ["nonnegative", "simplex"])
def test_whole_released_tables(clip):
    mechanism = JamesSteinGaussian(scale=20.0, rank_deficient=True, clip=clip, integers=True)
    value = mechanism.draw(COUNTS.reshape(2, 5))
    assert value.shape == (2, 5)
    assert np.all(value == np.round(value))
    assert value.min() >= 0
    if clip == "simplex":
        assert value.sum() == COUNTS.sum()


def test_simplex_costs_least():
    costs = [
        RankDeficientGaussian(scale=20.0, clip=clip).l2_cost(COUNTS) for clip in ("simplex", "nonnegative", "none")
    ]
    assert costs == sorted(costs)


# Choice, refusals, round trips.


def test_best_mechanism_follows_the_crossing():
    table = ContingencyTable({"x": list(range(10))})

    def chosen(mu, **options):
        return best_table_mechanism(GaussianDP(mu), table, **options).mechanism

    replaced = {"neighbours": Neighbours.REPLACE_ONE}
    assert isinstance(chosen(3.68, **replaced), JamesSteinGaussian)
    assert isinstance(chosen(3.70, **replaced), Clipped)
    assert chosen(0.3, **replaced).rank_deficient
    assert chosen(0.3).clip == "nonnegative"
    assert not chosen(0.3).rank_deficient
    assert chosen(0.3, n=100).total == 100
    assert best_table_mechanism(PureDP(1.0), table).mechanism.noise == Laplace(1.0)
    choice = best_table_mechanism(GaussianDP(0.3), table, n=100, **replaced)
    assert "Laplace" in choice.reason
    assert choice.reason in str(choice.plan())
    assert [choice.to_dict()["reason"]] == choice.plan().to_dict()["notes"]


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (RankDeficientGaussian, {"scale": 0.0}),
        (RankDeficientGaussian, {"scale": math.nan}),
        (RankDeficientGaussian, {"scale": 1.0, "total": -1}),
        (RankDeficientGaussian, {"scale": 1.0, "total": 2.5}),
        (RankDeficientGaussian, {"scale": 1.0, "clip": "sphere"}),
        (RankDeficientGaussian, {"scale": 1.0, "integers": "yes"}),
        (RankDeficientGaussian, {"scale": 1.0, "values": (1.0,)}),
        (RankDeficientGaussian, {"scale": 1.0, "constraints": ((1.0, 1.0),)}),
        (RankDeficientGaussian, {"scale": 1.0, "constraints": ((1.0,), (1.0, 2.0)), "values": (1.0, 2.0)}),
        (RankDeficientGaussian, {"scale": 1.0, "constraints": ((1.0, 1.0), (2.0, 2.0)), "values": (1.0, 2.0)}),
        (RankDeficientGaussian, {"scale": 1.0, "constraints": ((1.0, 1.0),), "values": (1.0,), "total": 3}),
        (JamesSteinGaussian, {"scale": -1.0}),
        (JamesSteinGaussian, {"scale": 1.0, "towards": "median"}),
        (JamesSteinGaussian, {"scale": 1.0, "rank_deficient": 1}),
        (JamesSteinGaussian, {"scale": 1.0, "clip": "simplex"}),
        (Clipped, {"mechanism": Laplace(1.0), "clip": "simplex"}),
        (Clipped, {"mechanism": RankDeficientGaussian(scale=1.0)}),
    ],
    ids=lambda value: repr(value)[:50],
)
def test_bad_parameters_are_refused(kind, options):
    with pytest.raises(InvalidParameter):
        kind(**options)


@pytest.mark.parametrize(
    "mechanism",
    [
        *KEEPING_TOTAL,
        JamesSteinGaussian(scale=2.0, towards="zero", as_published=True, clip="nonnegative", integers=True),
        Clipped(mechanism=Gaussian(2.0), total=7, clip="simplex"),
    ],
    ids=lambda m: m.name,
)
def test_mechanisms_survive_json_and_have_a_law(mechanism):
    assert mechanism_from_dict(mechanism.to_dict()) == mechanism
    law = mechanism.law([3, 4, 0])
    assert law.shape == (3,)
    assert np.asarray(law.sample(5)).shape == (5, 3)
    assert np.all(law.quantile(0.9) >= law.quantile(0.1))
    assert np.all(np.abs(law.cdf(law.quantile(0.5)) - 0.5) <= 0.5)
    assert np.sum(law.mse) == pytest.approx(mechanism.l2_cost([3, 4, 0]), rel=0.1)
    with pytest.raises(InvalidParameter):
        law.pdf(0.0)


@pytest.mark.parametrize("cells", [4, 5, 7, 12, 40])
def test_rank_deficient_shrinkage_never_costs_more(cells):
    """lee2022 leaves open whether M_rJS beats M_JS on every table; ``docs/proofs/table_noise.md`` proves it."""
    rng = np.random.default_rng(cells)
    full, deficient = (target(cells, "mean", rank_deficient=one) for one in (False, True))
    tables = [rng.standard_exponential(cells) ** 2 * size for size in (0.0, 0.1, 1.0, 3.0, 30.0) for _ in range(40)]
    tables += [size * np.eye(cells)[place] for size in (1.0, 20.0) for place in range(cells)]
    costs = np.array(
        [[james_stein_risk(one, 1.0, goal, positive_part=False) for goal in (full, deficient)] for one in tables]
    )
    assert np.all(costs[:, 1] <= costs[:, 0] * (1 + 1e-12))
    assert np.any(costs[:, 1] < 0.95 * costs[:, 0])


def test_the_cost_of_shrinkage_rises_with_the_dimension_and_the_distance():
    """The two steps of the proof, against a series in mpmath: the derivative in k, and the order in λ."""

    def risk(k, distance):
        weight = lambda j: mpmath.exp(-distance / 2) * (distance / 2) ** j / mpmath.factorial(j)  # noqa: E731
        mean = mpmath.nsum(lambda j: weight(j) / (k - 2 + 2 * j), [0, mpmath.inf])
        slope = mpmath.nsum(lambda j: weight(j) * 4 * j**2 / (k - 2 + 2 * j) ** 2, [0, mpmath.inf])
        return k - (k - 2) ** 2 * mean, slope

    for k in (3.0, 4.5, 9.0):
        found = [risk(mpmath.mpf(k), mpmath.mpf(distance)) for distance in (0.5, 2.0, 11.0)]
        assert all(below[0] < above[0] for below, above in itertools.pairwise(found))
        for (_, slope), distance in zip(found, (0.5, 2.0, 11.0), strict=True):
            assert slope >= 0
            by_difference = mpmath.diff(lambda one, d=distance: risk(one, mpmath.mpf(d))[0], k)
            assert abs(slope - by_difference) < 1e-8
