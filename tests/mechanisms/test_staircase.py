"""Staircase noise: its law against mpmath, its guarantee against brute force, its sampler against the law."""

import math

import mpmath
import numpy as np
import pytest
from scipy import optimize, stats

from discreet import ApproxDP, Bounds, Categories, GaussianDP, Neighbours, PureDP, Schema, ZeroConcentratedDP
from discreet.core.errors import InvalidParameter
from discreet.core.noise.sampler import Location
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms import Geometric, Laplace, Staircase
from discreet.mechanisms.staircase import Steps, best_plateau
from discreet.questions import SumQuestion
from discreet.testing import check_calibration, check_mechanism

ONE = Sensitivity(moves=(1.0,))
EVERY_KIND = [PureDP(0.005), PureDP(1.0), PureDP(6.0), ApproxDP(1.0, 0.01), ZeroConcentratedDP(0.5), GaussianDP(1.0)]


def steps_of(noise, count=400):
    """Edges and heights of the steps of |X| in mpmath, from the definition."""
    period, plateau = mpmath.mpf(noise.period), mpmath.mpf(noise.plateau)
    b = mpmath.exp(-period / mpmath.mpf(noise.scale))
    a = 1 / (2 * period * (plateau + b / (1 - b)))
    edges = [mpmath.mpf(0)] + [(k + plateau) * period for k in range(count)]
    return edges, [a * b**k for k in range(count)]


@pytest.mark.parametrize("noise", [Staircase.calibrate(PureDP(e), Sensitivity(l1=d)) for e, d in [(1, 3), (6, 0.1)]])
def test_law_against_mpmath(noise):
    with mpmath.workdps(40):
        edges, heights = steps_of(noise)
        masses = [(high - low) * h for low, high, h in zip(edges, edges[1:], heights, strict=False)]
        assert float(2 * sum(masses)) == pytest.approx(1, rel=1e-12)
        parts = zip(edges, edges[1:], heights, strict=False)
        second = 2 * sum((high**3 - low**3) / 3 * h for low, high, h in parts)
        law = noise.law(7.0)
        assert law.variance == pytest.approx(float(second), rel=1e-12)
        for share in (0.0, 0.03, 0.7, 1.2, 2.5, 9.1):
            x = mpmath.mpf(noise.period) * share
            k = next(k for k in range(400) if edges[k + 1] > x)
            inside = sum(masses[:k]) + (x - edges[k]) * heights[k]
            assert law.pdf(7.0 + float(x)) == pytest.approx(float(heights[k]), rel=1e-9)
            assert law.cdf(7.0 + float(x)) == pytest.approx(float(0.5 + inside), rel=1e-12)
            assert law.cdf(7.0 - float(x)) == pytest.approx(float(0.5 - inside), rel=1e-9)
    chances = np.linspace(0.001, 0.999, 41)
    assert np.allclose(law.cdf(law.quantile(chances)), chances, rtol=1e-10)
    assert law.quantile([0.0, 1.0]).tolist() == [-math.inf, math.inf]


@pytest.mark.parametrize("epsilon", [0.02, 0.5, 2.0, 5.0, 20.0])
def test_no_plateau_has_less_variance(epsilon):
    found = optimize.minimize_scalar(
        lambda plateau: Steps(epsilon, 1.0, plateau).variance,
        bounds=(1e-9, 1),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert Steps(epsilon, 1.0, best_plateau(epsilon)).variance <= found.fun * (1 + 1e-9)


@pytest.mark.parametrize("move", [1.0, 0.6, 0.05])
@pytest.mark.parametrize("epsilon", [0.3, 2.0, 5.0])
def test_no_outcome_loses_more_than_is_claimed(epsilon, move):
    """The largest ratio of densities on a fine grid: reached at a whole move, never exceeded."""
    law = Staircase.calibrate(PureDP(epsilon), ONE).law
    x = np.linspace(-6, 7, 20_001) + 1e-7  # off the edges, where doubles cannot say which step
    ratio = np.log(law(0.0).pdf(x) / law(move).pdf(x))
    assert np.abs(ratio).max() <= epsilon * (1 + 1e-12)
    if move == 1.0:
        assert np.abs(ratio).max() >= epsilon * (1 - 1e-12)


def test_a_move_of_two_periods_costs_twice_and_of_two_numbers_is_refused():
    noise = Staircase.calibrate(PureDP(2.0), ONE)
    assert noise.guarantee(Sensitivity(moves=(2.0,))) == PureDP(4.0)
    assert noise.guarantee(Sensitivity(moves=(1.1,))) == PureDP(4.0)
    with pytest.raises(InvalidParameter, match="one number at a time"):
        noise.guarantee(Sensitivity(moves=(0.5, 0.5)))


@pytest.mark.parametrize("guarantee", EVERY_KIND)
def test_calibrations_meet_every_kind_of_guarantee(guarantee):
    check_calibration(Staircase, [guarantee], Sensitivity(l1=3.0))


def test_the_contract_of_mechanisms():
    check_mechanism(Staircase.calibrate(PureDP(3.0), ONE), ONE, truths=[0.0, 1.0])


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 5.0, 30.0])
def test_draws_follow_the_law(epsilon):
    law = Staircase.calibrate(PureDP(epsilon), ONE).law(np.full(20_000, 0.3))
    for draws in (law.sample(), law.sample(rng=4)):
        places = Staircase.calibrate(PureDP(epsilon), ONE).law(0.3).cdf(np.asarray(draws))
        assert stats.kstest(places, "uniform").pvalue > 1e-4


@pytest.mark.parametrize(("epsilon", "fine"), [(0.01, 2.0**-20), (3.0, 2.0**-30), (40.0, 2.0**-40)])
def test_doubles_are_within_their_error_of_the_balls(epsilon, fine):
    noise = Staircase.calibrate(PureDP(epsilon), ONE)
    family = noise.law(0.0)._family(Location(0.0), np.asarray(noise.scale), np.asarray(fine), (1,))
    words = np.random.default_rng(3).integers(0, 2**64, 2000, dtype=np.uint64)
    cells, error = family.fast(words, slice(0, words.size))
    for word, cell in zip(words.tolist(), cells.tolist(), strict=True):
        exact = float((family.enclose(0, word, 64) / fine).mid())
        assert abs(cell - exact) <= error + 2.0**-40 * abs(exact) or math.isnan(cell)


def test_a_sum_gets_the_steps_where_they_have_less_variance():
    columns = {"age": Bounds(0, 100, grid=1), "pay": Bounds(-5, 7.5, grid=0.01), "one": Bounds(0, 1, grid=1)}
    schema = Schema(columns={**columns, "g": Categories(["a", "b"])})

    def noise(column, epsilon, **more):
        return SumQuestion(schema, column, epsilon=epsilon, **more).measurement.mechanism

    assert noise("age", 5.0) == Staircase.calibrate(PureDP(5.0), Sensitivity(moves=(100.0,)), grid=1.0)
    assert isinstance(noise("pay", 5.0, by="g"), Staircase)
    assert isinstance(noise("age", 0.5), Geometric)
    assert isinstance(noise("pay", 0.5), Laplace)
    assert isinstance(noise("one", 5.0), Geometric)  # the best there is for whole numbers that move by one
    moved = Schema(columns=schema.columns, neighbours=Neighbours.REPLACE_ONE, size=9)
    assert not isinstance(SumQuestion(moved, "pay", by="g", epsilon=5.0).measurement.mechanism, Staircase)


def test_a_sum_at_epsilon_5_is_over_one_and_a_half_times_as_sharp_as_with_laplace_noise():
    """Published: least variance over all noise that is ε-DP (geng2016), here from draws."""
    noise = Staircase.calibrate(PureDP(5.0), ONE)
    draws = np.asarray(noise.law(np.zeros(200_000)).sample())
    assert math.sqrt(Laplace(0.2).law(0.0).variance / np.mean(draws**2)) == pytest.approx(1.6409, rel=0.03)
