"""Shares of whole counts: their law and interval against the count's own, and the question that asks for them."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import ApproxDP, Categories, GaussianDP, Neighbours, PureDP, Schema, Session, ZeroConcentratedDP, release
from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.numbers import not_below
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace, WholeShare
from discreet.mechanisms.whole_share import WholeShareLaw, share_noise
from discreet.questions import Proportion
from discreet.testing import check_calibration, check_mechanism


@given(st.integers(1, 10**9), st.integers(-60, 60), st.floats(0, 1))
def test_the_law_is_that_of_the_count(rows, steps, share):
    """At the float of every share, just below it and just above it."""
    count = round(share * rows)
    law, counts = WholeShareLaw(Fraction(count, rows), Geometric(2.0), rows), Geometric(2.0).law(count)
    at = (count + steps) / rows
    assert law.cdf(at) == law.cdf(np.nextafter(at, np.inf)) == counts.cdf(count + steps)
    assert law.cdf(np.nextafter(at, -np.inf)) == counts.cdf(count + steps - 1)
    assert law.pdf(at) == counts.pdf(count + steps)
    assert law.pdf(np.nextafter(at, np.inf)) == 0
    assert law.quantile(0.9) == counts.quantile(0.9) / rows


@pytest.mark.parametrize("noise", [Geometric(1.0), DiscreteGaussian(0.7)])
@pytest.mark.parametrize("rows", [10, 49, 1000])
def test_conformance(noise, rows):
    """Claims reached to 99 %, sampler right to 5 % of the scale."""
    moved = Sensitivity(moves=(not_below(Fraction(1, rows)),))
    check_mechanism(WholeShare(noise, rows), moved, truths=(0.0, 1.0), draws=20_000)


@pytest.mark.parametrize("rows", [3, 10, 49, 1000, 999_983])
def test_one_row_moves_the_count_by_one(rows):
    """1/n is rounded up to a float, which must not make it two."""
    moved = Proportion(n=rows).sensitivity(neighbours=Neighbours.REPLACE_ONE)
    assert WholeShare(Geometric(1.0), rows).profile(moved).pure() == PureDP(1.0)
    assert WholeShare.calibrate(PureDP(0.5), moved, rows=rows).noise == Geometric(2.0)
    check_calibration(WholeShare, [PureDP(1.0), ApproxDP(1.0, 1e-6), ZeroConcentratedDP(0.5)], moved, rows=rows)


def test_the_noise_by_guarantee():
    moved = Sensitivity(moves=(0.001,))
    assert share_noise(PureDP(2.0), moved, 1000) == WholeShare(Geometric(0.5), 1000)
    assert isinstance(share_noise(ZeroConcentratedDP(0.5), moved, 1000).noise, DiscreteGaussian)
    assert isinstance(share_noise(GaussianDP(1.0), moved, 1000), Gaussian)
    assert isinstance(share_noise(PureDP(1e-7), moved, 1000), Laplace)
    with pytest.raises(NoConversion, match="Use Gaussian noise"):
        WholeShare.calibrate(GaussianDP(1.0), moved, rows=1000)


def test_what_is_no_count_is_refused():
    for value in (0.25, Fraction(1, 3)):
        with pytest.raises(InvalidParameter, match="fraction of 10 rows"):
            release(Exact(value, Sensitivity(l1=0.1)), WholeShare(Geometric(1.0), 10), rng=1)


@pytest.mark.parametrize(("yes", "rows"), [(0, 40), (1, 40), (20, 40), (40, 40)])
def test_shown_shares_are_possible_and_lie_in_their_intervals(yes, rows):
    column = [True] * yes + [False] * (rows - yes)
    exact = Proportion().exact(column, neighbours=Neighbours.REPLACE_ONE)
    held = population = 0
    for seed in range(300):
        found = release(exact, share_noise(PureDP(1.0), exact.sensitivity, rows), rng=seed)
        interval = found.noise_interval()
        assert 0 <= interval.low <= found.value <= interval.high <= 1
        assert found.value * rows == pytest.approx(round(found.value * rows), abs=1e-9)
        held += interval.low - 1e-12 <= yes / rows <= interval.high + 1e-12
        if seed < 40:
            population += found.population_interval().contains(yes / rows)
    assert held >= 0.93 * 300
    assert population >= 37


def test_a_session_asks_for_it():
    import pyarrow

    vote = Categories(["yes", "no"], nulls="=no", unknown="=no")
    schema = Schema(columns={"vote": vote}, neighbours=Neighbours.REPLACE_ONE, size=40)
    rows = pyarrow.table({"vote": ["yes"] * 10 + ["no"] * 30})
    session = Session(rows, schema, ledger=":memory:", budget=PureDP(60.0))
    found = session.proportion("vote", "yes", epsilon=50.0)
    assert found.mechanism == WholeShare(Geometric(0.02), 40)
    assert (found.value, tuple(found.noise_interval())) == (0.25, (0.25, 0.25))
    assert type(found).from_json(found.to_json()) == found
