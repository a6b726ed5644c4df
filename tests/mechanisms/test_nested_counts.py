"""Nested counts: the law of their noise, their sensitivity by brute force, intervals that cover and are narrow."""

from itertools import product

import numpy as np
import pyarrow
import pytest

from discreet import Bounds, Categories, Neighbours, PureDP, Schema, Session, ZeroConcentratedDP
from discreet.core.errors import DiscreetError
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.choices.nested_counts import _Counted, _sums, noise_beyond
from discreet.mechanisms.geometric import GeometricLaw
from discreet.questions import QuantileQuestion, Quantiles

ADD, ONE = Neighbours.ADD_REMOVE, PureDP(1.0)


@pytest.mark.parametrize(("share", "scale"), [(0.5, 0.7), (0.9, 1.5), (0.99, 3.0)])
def test_the_law_of_the_noise_is_that_of_a_sum(share, scale):
    """Two cells of three lie below: all outcomes of the three noises one by one."""
    reach = np.arange(-round(22 * scale), round(22 * scale) + 1)
    chance = GeometricLaw(0, scale).pdf(reach)
    for reached in (-3.2, 0.0, 2.5, 6.0):
        moved = (1 - share) * (reach[:, None, None] + reach[None, :, None]) - share * reach[None, None, :]
        weights = chance[:, None, None] * chance[None, :, None] * chance[None, None, :]
        exact = float(weights[moved >= reached - 1e-9].sum())
        assert noise_beyond(share, np.array([0.0, reached]), scale)[1] == pytest.approx(exact, abs=2e-6)


def test_a_coarser_lattice_has_the_same_law():
    """Noise of scale 80 on a lattice of tens, beside the same on whole numbers."""
    masses, below = _sums(2, 80.0)
    middle = masses.shape[1] // 2
    for reached in (0.0, 50.0, 150.0, 300.0):
        # (1 − q)·a − q·b ≥ reached for one cell on each side
        steps = np.arange(masses.shape[1]) - middle
        places = np.clip(np.floor((0.1 * steps - reached) / 0.9) + middle, -1, masses.shape[1] - 1).astype(int)
        exact = float(np.sum(masses[1] * np.where(places < 0, 0.0, below[1, places])))
        assert noise_beyond(0.9, np.array([reached]), 80.0)[0] == pytest.approx(exact, rel=0.03, abs=1e-5)


def test_a_row_moves_the_counts_by_one_whatever_the_cells():
    """All histograms with up to two rows on four steps, and all lists of cells: what `sensitivity` states, attained."""
    bounds, steps = Bounds(0, 3, grid=1), np.arange(4)
    statistic = Quantiles(probabilities=0.9, bounds=bounds, interval=0.95, method="counts")
    worst = 0.0
    for inner in product((False, True), repeat=3):
        starts = np.array([0, *(step for step, used in zip((1, 2, 3), inner, strict=True) if used)])
        for rows in product(range(3), repeat=4):
            for step in range(4):
                more = np.array(rows) + (steps == step)
                counted = [
                    np.bincount(np.searchsorted(starts, steps, side="right") - 1, weights=one, minlength=starts.size)
                    for one in (np.array(rows), more)
                ]
                worst = max(worst, float(np.abs(counted[1] - counted[0]).sum()))
    assert worst == statistic.sensitivity(neighbours=ADD).l1 == 1.0
    assert statistic.sensitivity(neighbours=Neighbours.REPLACE_ONE, rows_per_unit=3).l1 == 6.0


def test_both_rounds_are_charged():
    statistic = Quantiles(probabilities=(0.5, 0.9), bounds=Bounds(0, 100, grid=1), interval=0.95, method="counts")
    for moved in (1.0, 2.0, 6.0):
        sensitivity = Sensitivity(l1=moved)
        mechanism = statistic.mechanism(ONE, sensitivity)
        spent = moved / mechanism.first + moved / mechanism.second
        assert 0.999 < spent <= 1 + 1e-12
        assert mechanism.guarantee(sensitivity).epsilon == pytest.approx(spent, rel=1e-9)
        assert mechanism.profile(sensitivity).delta_at(0.9 * spent) > 0


def incomes(rows, rng):
    """Seven in ten have none, the others lognormal ones."""
    return np.where(rng.random(rows) < 0.7, 0.0, rng.lognormal(3, 1.2, rows))


def heavy(rows, rng):
    return rng.pareto(1.1, rows) + 1


def around(rows, rng):
    return 500 + 15 * rng.standard_t(2, rows)


CASES = {
    "incomes, .9": (incomes, 1000, 0.1, 300, 0.9, 90, 30),
    "incomes, .99": (incomes, 1000, 0.1, 3000, 0.99, 180, 50),
    "Pareto, .9": (heavy, 10_000, 1.0, 300, 0.9, 330, 300),
    "t, 2 df, .9": (around, 1000, 0.1, 300, 0.9, 50, 12),
}


@pytest.mark.parametrize("case", CASES)
def test_intervals_hold_the_quantile_and_are_narrow(case):
    """2,000 releases each. Chosen by rank they are 848, 783, 8,600 and 335 wide, and the estimate is their middle."""
    draw, high, grid, rows, share, widest, largest = CASES[case]
    rng, repeats = np.random.default_rng(7), 2000
    question = QuantileQuestion(Schema(columns={"x": Bounds(0, high, grid=grid)}), "x", share, guarantee=ONE)
    statistic, mechanism = question.measurement.statistic, question.measurement.mechanism
    assert mechanism.name == "nested_counts"
    held, widths, errors = [], [], []
    for _ in range(repeats):
        data = np.rint(np.clip(draw(rows, rng), 0, high) / grid) * grid
        truth = np.sort(data)[int(np.ceil(share * rows - 1e-9)) - 1]
        low, estimate, top = np.asarray(mechanism.draw(statistic.exact(data, neighbours=ADD).value, rng=rng))
        assert low <= estimate <= top
        held.append(low - 1e-9 <= truth <= top + 1e-9)
        widths.append(top - low)
        errors.append(estimate - truth)
    assert np.mean(held) > 0.95 - 3 * np.sqrt(0.05 * 0.95 / repeats)
    assert np.mean(widths) < widest
    assert np.sqrt(np.mean(np.square(errors))) < largest


def test_the_interval_covers_with_the_chance_that_was_asked():
    """Cells that cut at the quantile: no more than the level, or the noise would be larger than it must be."""
    rng, repeats, held = np.random.default_rng(8), 4000, 0
    part = (np.arange(100), np.full(100, 5))
    starts = np.arange(100)
    for _ in range(repeats):
        first, last, _ = _Counted.of(part, starts, 99, 1.5, rng).around(0.9, 0.4)
        held += first <= 89 <= last
    assert 0.6 - 0.03 < held / repeats < 0.9


def test_what_is_public_decides():
    def named(share, rows=None, guarantee=ONE, **settings):
        facts = {} if rows is None else {"size": rows, "neighbours": Neighbours.REPLACE_ONE}
        schema = Schema(columns={"x": Bounds(0, 1000, grid=1)}, **facts)
        return QuantileQuestion(schema, "x", share, guarantee=guarantee, **settings).measurement.mechanism.name

    assert (named(0.5), named(0.9), named([0.25, 0.5, 0.75])) == ("quantile_interval", "nested_counts", "nested_counts")
    assert (named(0.9, rows=300), named(0.9, rows=100_000)) == ("nested_counts", "quantile_interval")
    assert named(0.9, guarantee=PureDP(20.0)) == named(0.9, guarantee=ZeroConcentratedDP(0.1)) == "quantile_interval"
    assert named(0.9, rows_at_least=300) == named(0.9, method="choice") == "quantile_interval"
    assert named(0.5, method="counts") == "nested_counts"
    assert named(0.9, interval=None) == "quantile_choice"
    assert named(0.9, expected_rows=10**6) == "nested_counts"  # what is expected serves the plan alone
    for refused in ({"interval": None}, {"rows_at_least": 50}, {"recursive": True}):
        with pytest.raises(DiscreetError):
            named(0.5, method="counts", **refused)
    with pytest.raises(DiscreetError, match="method"):
        named(0.5, method="best")


def test_a_stored_choice_says_what_it_said():
    asked = Quantiles(probabilities=0.5, bounds=Bounds(0, 9, grid=1), interval=0.95)
    assert "method" not in asked.to_dict()
    assert Quantiles(probabilities=0.5, bounds=Bounds(0, 9, grid=1), interval=0.95, method="counts").to_dict()["method"]


def test_many_quantiles_of_groups_from_one_release():
    rng = np.random.default_rng(3)
    rows = pyarrow.table({"x": rng.integers(0, 1001, 6000).astype(float), "g": ["a", "b"] * 3000})
    schema = Schema(columns={"x": Bounds(0, 1000, grid=1), "g": Categories(["a", "b"])})
    session = Session(rows, schema, ledger=":memory:", budget=PureDP(30.0))
    found = session.quantile("x", [0.1, 0.9], by="g", epsilon=20.0, method="counts", name="x")
    for group in ("a", "b"):
        inside = found[group].noise_interval()
        own = np.sort(rows["x"].to_numpy()[np.array(rows["g"].to_pylist()) == group])
        truth = own[[299, 2699]]
        assert (inside.low <= truth).all()
        assert (inside.high >= truth).all()
        assert found[group].estimate == pytest.approx(truth, abs=10)
    again = session.quantile("x", [0.1, 0.9], by="g", epsilon=20.0, method="counts", name="x")
    assert again.to_json() == found.to_json()
