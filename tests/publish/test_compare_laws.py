"""compare_laws: numbers are those of the laws and curves, and nothing that misses the guarantee is compared."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet import ApproxDP, GaussianDP, PureDP
from discreet.core.errors import DiscreetError, InvalidParameter
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms import (
    BoundaryInflatedLaplace,
    BoundedLaplace,
    Gaussian,
    GeneralizedGaussian,
    JamesSteinGaussian,
    Laplace,
    RankDeficientGaussian,
)
from discreet.publish.compare_laws import compare_laws

TENTH = Sensitivity(l1=0.1)


def value(found, mechanism, measure, at):
    (one,) = (r["value"] for r in found.rows() if (r["mechanism"], r["measure"], r["at"]) == (mechanism, measure, at))
    return one


def test_numbers_against_quadrature_of_the_densities():
    found = compare_laws([BoundedLaplace], guarantee=PureDP(1.0), sensitivity=TENTH, bounds=(0, 1), truths=[0.0, 0.3])
    b = found.mechanisms["BoundedLaplace"].scale
    x = np.linspace(0, 1, 400_001)
    for truth in (0.0, 0.3):
        density = np.exp(-np.abs(x - truth) / b)
        density /= np.trapezoid(density, x)
        mean = np.trapezoid(x * density, x)
        assert value(found, "BoundedLaplace", "bias", truth) == pytest.approx(mean - truth, abs=1e-8)
        spread = np.trapezoid((x - mean) ** 2 * density, x)
        assert value(found, "BoundedLaplace", "variance", truth) == pytest.approx(spread, rel=1e-6)
        error = np.trapezoid((x - truth) ** 2 * density, x)
        assert value(found, "BoundedLaplace", "mse", truth) == pytest.approx(error, rel=1e-6)
    both = [value(found, "BoundedLaplace", "mse", truth) for truth in (0.0, 0.3)]
    assert found.cost("BoundedLaplace") == pytest.approx(np.mean(both))


def test_every_mechanism_meets_the_guarantee_and_the_curves_are_theirs():
    guarantee = ApproxDP(1.0, 0.01)
    kinds = {
        "Laplace": Laplace,
        "Gaussian": Gaussian,
        "flat": lambda g, s: GeneralizedGaussian.calibrate(g, s, order=3),
    }
    found = compare_laws(kinds, guarantee=guarantee, sensitivity=TENTH, epsilons=[0.0, 1.0])
    for name, one in found.mechanisms.items():
        assert value(found, name, "delta", 1.0) == one.profile(TENTH).delta_at(1.0) <= 0.01
        assert value(found, name, "delta", 1.0) > 0.0099
    laplace = found.mechanisms["Laplace"].scale
    assert value(found, "Laplace", "delta", 0.0) == pytest.approx(1 - math.exp(-0.05 / laplace), rel=1e-12)


def test_tables_add_up_their_cells():
    mu, table = GaussianDP(0.25), [40, 30, 20, 10, 30]
    moves = Sensitivity(moves=(1, 1))
    kinds = {
        "M_G": Gaussian,
        "M_r": RankDeficientGaussian,
        "M_rJS": lambda g, s: JamesSteinGaussian.calibrate(g, s, rank_deficient=True, as_published=True),
    }
    found = compare_laws(kinds, guarantee=mu, sensitivity=moves, truths=[table])
    assert found.cost("M_G") == pytest.approx(5 * 2 / 0.25**2)
    assert found.cost("M_r") == pytest.approx(4 * 2 / 0.25**2)
    assert found.cost("M_rJS") < found.cost("M_r")
    assert [name for name, _ in found.facts()] == ["M_rJS", "M_r", "M_G"]


def test_a_mechanism_that_misses_the_guarantee_is_refused():
    with pytest.raises(InvalidParameter, match="does not meet"):
        compare_laws({"weak": Laplace(0.05)}, guarantee=PureDP(1.0), sensitivity=TENTH)
    with pytest.raises(DiscreetError):
        compare_laws([Gaussian], guarantee=PureDP(1.0), sensitivity=TENTH)


@pytest.mark.parametrize(
    "wrong", [[], {}, None, "Laplace", [Laplace, Laplace], [3], {"x": object()}, {"x": lambda g, s: 3}]
)
def test_what_is_no_mechanism_is_refused(wrong):
    with pytest.raises(DiscreetError, match="mechanisms"):
        compare_laws(wrong, guarantee=PureDP(1.0), sensitivity=TENTH)


@pytest.mark.parametrize(
    "wrong",
    [
        {"truths": []},
        {"truths": 3},
        {"epsilons": [-1.0]},
        {"truths": [math.nan]},
        {"bounds": (0, None)},
        {"bounds": (1, 0)},
        {"bounds": 3},
        {"bounds": (0, math.inf)},
    ],
)
def test_places_that_make_no_sense_are_refused(wrong):
    with pytest.raises(DiscreetError):
        compare_laws([Laplace], guarantee=PureDP(1.0), sensitivity=TENTH, **wrong)


def test_the_frame_is_tidy_and_the_plot_draws_every_measure():
    kinds = [Laplace, BoundaryInflatedLaplace]
    found = compare_laws(kinds, guarantee=PureDP(1.0), sensitivity=TENTH, bounds=(0, 1))
    frame = found.to_pandas()
    assert list(frame.columns) == ["mechanism", "measure", "at", "value"]
    assert len(frame) == 2 * (3 * 21 + 25 + 2)
    drawn = str(found.plot().to_dict())
    for words in ("bias", "variance", "mean squared error", "δ(ε)", "true value"):
        assert words in drawn
    assert found.to_dict()["mechanisms"]["Laplace"]["scale"] == 0.1
    one = compare_laws(kinds[:1], guarantee=PureDP(1.0), sensitivity=TENTH)  # no bounds: one place, bars
    assert "bar" in str(one.plot().to_dict())
    with pytest.raises(InvalidParameter, match="must be one of"):
        found.cost("Gaussian")
