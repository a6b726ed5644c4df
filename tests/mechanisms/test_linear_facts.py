"""M_rJS under general linear constraints, and truncation to rectangles (lee2022, 2.3 and 2.4)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from discreet import GaussianDP, Ledger, release
from discreet.core.errors import DiscreetError
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms import Clipped, Gaussian, JamesSteinGaussian, Laplace, RankDeficientGaussian
from discreet.mechanisms.mechanism import mechanism_from_dict
from discreet.mechanisms.tables.james_stein import LinearFacts, from_helmert

MARGINS = ((1, 1, 1, 0, 0, 0), (0, 0, 0, 1, 1, 1), (1, 0, 0, 1, 0, 0))
COUNTS = np.array([12.0, 5.0, 9.0, 4.0, 20.0, 7.0])
VALUES = (26.0, 31.0, 16.0)


def by_the_paper(measured, basis, sigma, towards):
    """(10), written out with matrices: coordinates, James-Stein with the plain factor, and back."""
    known = measured - basis @ (basis.T @ measured)
    z = basis.T @ measured
    q = len(z)
    if towards == "zero":
        return known + basis @ ((1 - (q - 2) * sigma**2 / (z @ z)) * z)
    mean = np.full(q, z.mean())
    rest = z - mean
    return known + basis @ (mean + (1 - (q - 3) * sigma**2 / (rest @ rest)) * rest)


@pytest.mark.parametrize("towards", ["zero", "mean"])
def test_the_shrinkage_is_equation_10(towards):
    rows = ((1, 1, 1, 0, 0, 0, 0), (0, 0, 0, 1, 2, 0, 0))
    facts = LinearFacts.of(rows, (10.0, 3.0))
    own = JamesSteinGaussian(
        scale=1.5, towards=towards, rank_deficient=True, as_published=True, constraints=rows, values=(10.0, 3.0)
    )
    measured = facts.projected(np.random.default_rng(5).normal(3, 4, 7))
    assert own.process(measured) == pytest.approx(by_the_paper(measured, facts.basis, 1.5, towards), rel=1e-11)
    turned = facts.basis @ np.linalg.qr(np.random.default_rng(1).normal(size=(5, 5)))[0]
    other = JamesSteinGaussian.calibrate(
        GaussianDP(1.0), Sensitivity(l2=1.5), towards=towards, rank_deficient=True, as_published=True,
        constraints=rows, values=(10.0, 3.0), basis=tuple(map(tuple, turned)),
    )  # fmt: skip
    assert other.process(measured) == pytest.approx(by_the_paper(measured, turned, 1.5, towards), rel=1e-11)


@pytest.mark.parametrize("cells", [2, 3, 5, 9])
def test_the_total_as_a_constraint_has_helmert_columns(cells):
    facts = LinearFacts.of([[1] * cells], [7.0])
    helmert = np.array([from_helmert(row) for row in np.eye(cells - 1)]).T
    assert facts.basis[:, ::-1] == pytest.approx(helmert, abs=1e-12)


@pytest.mark.parametrize("towards", ["zero", "mean"])
def test_the_total_as_a_constraint_is_the_rank_deficient_mechanism(towards):
    plain = JamesSteinGaussian(scale=2.0, towards=towards, rank_deficient=True)
    told = JamesSteinGaussian(
        scale=2.0, towards=towards, rank_deficient=True, constraints=((1,) * 6,), values=(COUNTS.sum(),)
    )
    assert told.l2_cost(COUNTS) == pytest.approx(plain.l2_cost(COUNTS), rel=1e-11)
    measured = COUNTS + np.array([3.0, -2.0, 1.0, 0.5, -2.5, 0.0])
    assert told.process(measured) == pytest.approx(plain.process(measured), rel=1e-11)


@pytest.mark.parametrize("as_published", [True, False])
@pytest.mark.parametrize("towards", ["zero", "mean"])
def test_the_closed_cost_is_the_simulated_one(towards, as_published):
    rows = ((1, 1, 0, 0, 0, 0, 0, 0), (0, 0, 1, 1, 1, 0, 0, 0))
    truth = np.array([3.0, 4.0, 1.0, 2.0, 2.0, 6.0, 1.0, 3.0])
    for values in ((7.0, 5.0), (9.0, 5.0)):  # the second is off by two
        own = JamesSteinGaussian(
            scale=2.0, towards=towards, rank_deficient=True, as_published=as_published, constraints=rows, values=values
        )
        squares = np.sum((own.simulate(truth, 40_000, rng=3) - truth) ** 2, axis=1)
        assert abs(squares.mean() - own.l2_cost(truth)) < 5 * squares.std() / 200
    plain = RankDeficientGaussian(scale=2.0, constraints=rows, values=(7.0, 5.0))
    exact = JamesSteinGaussian(scale=2.0, towards=towards, rank_deficient=True, constraints=rows, values=(7.0, 5.0))
    assert exact.l2_cost(truth) < plain.l2_cost(truth) == pytest.approx(6 * 4.0)  # Theorem 6, for any U_θ


def test_public_margins_are_kept_exactly():
    own = JamesSteinGaussian(scale=3.0, towards="zero", rank_deficient=True, constraints=MARGINS, values=VALUES)
    drawn = own.draw(COUNTS, rng=4)
    assert np.array(MARGINS) @ drawn == pytest.approx(np.array(VALUES), abs=1e-9)
    assert mechanism_from_dict(own.to_dict()) == own
    low, high = own.noise_interval(own.measure(COUNTS, rng=4), 0.95)
    both = RankDeficientGaussian(scale=3.0, constraints=MARGINS, values=VALUES)
    assert (high - low)[0] == pytest.approx((both.noise_interval(COUNTS, 0.95)[1] - COUNTS)[0] * 2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"constraints": ((1, 1), (1, 1)), "values": (1, 1)},
        {"constraints": ((1, 1),), "values": None},
        {"constraints": ((1, 1),), "values": (1,), "rank_deficient": False},
        {"constraints": ((1, 1),), "values": (1,), "total": 3},
        {"values": (1,)},
        {"constraints": ((1, 1),), "values": (1,), "basis": ((1.0,), (0.0,))},
        {"constraints": ((1, 1),), "values": (1,), "basis": ((0.5,), (-0.5,))},
        {"constraints": ((1, float("nan")),), "values": (1,)},
    ],
)
def test_declarations_that_make_no_sense_are_refused(wrong):
    with pytest.raises(DiscreetError, match=r"constraints|values|basis"):
        JamesSteinGaussian(**{"scale": 1.0, "rank_deficient": True, **wrong})


def test_constraints_must_fit_the_table():
    own = JamesSteinGaussian(scale=1.0, rank_deficient=True, constraints=((1, 1, 1),), values=(3,))
    for wrong in (own, RankDeficientGaussian(scale=1.0, constraints=((1, 1, 1),), values=(3,))):
        with pytest.raises(DiscreetError, match="columns"):
            wrong.draw([1, 2], rng=1)
        refused_for_free(wrong, [1, 2])


def test_a_rectangle_brings_no_cell_further_from_the_truth():
    ends = ((0, 10), (2, None), (None, 5))
    box = Clipped(mechanism=Gaussian(4.0), clip="box", box=ends)
    for truth in itertools.product((0.0, 10.0, 3.3), (2.0, 40.0), (-100.0, 5.0)):
        noisy = np.array(truth) + np.random.default_rng(2).normal(0, 4, (500, 3))
        done = box.process(noisy)
        assert np.all(np.abs(done - truth) <= np.abs(noisy - truth))
        assert done.min(axis=0)[0] >= 0
        assert done.max(axis=0)[0] <= 10
        assert done[:, 1].min() >= 2
        assert done[:, 2].max() <= 5


def test_rectangles_of_every_mechanism_cost_less():
    truth = [1, 0, 3, 2, 5, 1]
    for own in (
        Clipped(mechanism=Laplace(3.0), clip="none"),
        RankDeficientGaussian(scale=3.0),
        JamesSteinGaussian(scale=3.0, as_published=True),
    ):
        parameters = {**own.to_dict(), "clip": "box", "box": [[0, 6]]}
        cut = mechanism_from_dict(parameters)
        assert cut.l2_cost(truth) < own.l2_cost(truth)
        assert cut.guarantee(Sensitivity(moves=(1, 1))) == own.guarantee(Sensitivity(moves=(1, 1)))


def test_nonnegative_cells_are_a_rectangle():
    table = np.random.default_rng(1).normal(0, 3, (20, 5))
    one, other = Clipped(mechanism=Gaussian(1.0)), Clipped(mechanism=Gaussian(1.0), clip="box", box=(0, None))
    assert np.array_equal(one.process(table), other.process(table))


@pytest.mark.parametrize(
    "wrong",
    [
        {"clip": "box"},
        {"clip": "nonnegative", "box": ((0, 1),)},
        {"clip": "box", "box": ((2, 1),)},
        {"clip": "box", "box": ((0, float("nan")),)},
        {"clip": "box", "box": "01"},
        {"clip": "box", "box": ((0, 1, 2),)},
        {"clip": "box", "box": ((0, 2.5),), "integers": True},
    ],
)
def test_rectangles_that_make_no_sense_are_refused(wrong):
    with pytest.raises(DiscreetError, match="box"):
        Clipped(mechanism=Gaussian(1.0), **wrong)


def test_a_rectangle_must_fit_the_table():
    box = Clipped(mechanism=Gaussian(1.0), clip="box", box=((0, 1), (0, 1)))
    with pytest.raises(DiscreetError, match="2 pairs"):
        box.draw([1, 2, 3], rng=1)
    refused_for_free(box, [1, 2, 3])


def refused_for_free(mechanism, value):
    ledger = Ledger(":memory:", budget=GaussianDP(9.0))
    with pytest.raises(DiscreetError):
        release(Exact(np.array(value), Sensitivity(l2=1.0)), mechanism, ledger=ledger)
    assert ledger.remaining() == GaussianDP(9.0)
