"""The study of lee2022: crossings, curves and costs."""

import math

import numpy as np
import pytest
from scipy.special import lambertw, ndtr, ndtri

from discreet.core.errors import InvalidParameter
from discreet.mechanisms.laplace import LaplaceProfile
from discreet.papers import lee2022, load, load_all, run
from discreet.papers.lee2022 import age_shares, crossing_by_ratio, crossing_on_tables


def test_the_three_crossings():
    """Four decimals; the paper prints 3.9xx and 3.67 for the first (errata)."""
    assert round(crossing_on_tables(), 4) == 3.6871
    assert round(crossing_by_ratio(math.sqrt(2)), 4) == 6.1301
    assert round(crossing_by_ratio(1.0), 4) == 3.3608


def corrected_16(alpha: float, b: float, *, slip: bool = False) -> float:
    """lee2022 (16) by its formula; ``slip`` prints the second case as the paper does."""
    first, second = math.exp(-2 / b) / 4, math.exp(-1 / b) * (1 + 1 / b) / 4
    if alpha < first:
        return 1 - math.exp(2 / b) * alpha
    if alpha >= second:
        return -alpha + math.exp(-1 / b) * (2 + 1 / b) / 2
    # α = ¼·exp(−1/b − K/2)·(1 + 1/b − K/2): with y = 1 + 1/b − K/2 this is y·eʸ = 4α·e^{1+2/b}.
    y = float(lambertw(4 * alpha * math.exp(1 + 2 / b)).real)
    half = 1 + 1 / b - y
    return math.exp((-1 if slip else -1 / b) + half) * (3 + 1 / b - half) / 4


@pytest.mark.parametrize("b", [0.7, 2.0, 5.006956])
def test_corrected_formula_16_is_the_exact_curve(b):
    profile = LaplaceProfile([1 / b, 1 / b])
    ends = math.exp(-2 / b) / 4, math.exp(-1 / b) * (1 + 1 / b) / 4
    for alpha in (ends[0] * 0.5, 0.7 * ends[0] + 0.3 * ends[1], 0.2 * ends[0] + 0.8 * ends[1], ends[1] * 1.05):
        assert profile.tradeoff(alpha) == pytest.approx(corrected_16(alpha, b), abs=1e-7)
    middle = sum(ends) / 2
    if abs(b - 1) > 0.1:
        assert abs(corrected_16(middle, b, slip=True) - profile.tradeoff(middle)) > 1e-3


def test_tradeoff_of_pure_dp_and_its_slip():
    """T_ε(α) = max(0, 1 − e^ε·α, e^{−ε}(1 − α)); the printed first case has e^{−ε·α}."""
    from discreet import PureDP

    epsilon, alpha = 0.8, 0.1
    assert PureDP(epsilon).tradeoff(alpha) == pytest.approx(1 - math.exp(epsilon) * alpha)
    assert PureDP(epsilon).tradeoff(0.9) == pytest.approx(math.exp(-epsilon) * 0.1)


def test_gaussian_curve_lies_below_the_tight_laplace_curve_and_touches_it():
    mu, b = 0.3, 5.006956
    alpha = np.linspace(0.001, 0.999, 199)
    gap = np.asarray(LaplaceProfile([1 / b, 1 / b]).tradeoff(alpha)) - ndtr(-ndtri(alpha) - mu)
    assert gap.min() > -1e-6
    assert gap.min() < 1e-5


def test_quick_study_runs_and_simplex_never_costs_more(tmp_path):
    study = load("lee2022")
    result = run(study, tmp_path, quick=True, parts=["figure-4", "figure-7-8"])
    page = result.page.read_text()
    assert "costs more than clipping negative cells in 0 of" in page
    assert "6.13" in page
    again = run(study, tmp_path, quick=True, parts=["figure-4", "figure-7-8"])
    assert again.computed == 0


def test_quick_tests_of_the_study(tmp_path):
    result = run(load("lee2022"), tmp_path, quick=True, parts=["figure-9-12", "default-size"])
    page = result.page.read_text()
    assert "default" in page
    assert "The largest size over 36 settings" in page


def test_decided_runs_draw_no_more_and_decide_the_same():
    """Curtailed resampling against all resamples at once, on the same statistics."""
    rng = np.random.default_rng(5)
    null, observed = rng.random((60, 199)), np.sort(rng.random(60)) ** 0.2
    used = np.zeros(60, dtype=int)

    def resampled(index, count):
        out = np.stack([null[i, used[i] : used[i] + count] for i in index])
        used[index] += count
        return out

    found = lee2022._rejections(resampled, observed, 199)
    above = (null >= observed[:, None]).sum(axis=1)
    assert found == np.count_nonzero(above / 199 < 0.05) == np.count_nonzero((1 + above) / 200 <= 0.05)
    assert 0 < found < 60
    assert used.min() < 199


def test_figure_6_has_four_curves_and_tables_show_every_mechanism():
    study = load("lee2022")
    rows = study.part("figure-6").summary([{"mu": 2.0, "Gaussian 1/mu": 0.5, "b tight": 0.6, "b from Delta_1": 0.7,
                                            "b from epsilon": 0.8}])  # fmt: skip
    assert [row["cost over Gaussian"] for row in rows] == pytest.approx([1.0, 1.44, 1.96, 2.56])
    cells = study.part("figure-7-8").compute({"model": "I", "p": 10, "mu": 0.25, "n": 50, "draws": 20}, 1)
    (line,) = study.part("figure-7-8").shown(study.part("figure-7-8").summary(list(cells)))
    assert {"M_Lap", "M_G", "M_r", "M_JS0", "M_JS", "M_rJS"} <= line.keys()


def test_the_tests_run_on_official_age_tables(tmp_path) -> None:
    """Counts become shares, ten-year groups add pairs, and a wrong file is told before anything runs."""
    with pytest.raises(InvalidParameter, match=r"no file ages\.csv"):
        load("lee2022", tmp_path)
    assert {one.paper: one for one in load_all(tmp_path)}["lee2022"] is load("lee2022")
    korea, states = [100 + 3 * k for k in range(18)], [7 * k + 1 for k in range(18)]
    lines = [f"{a},{b}" for a, b in zip(korea, states, strict=True)]
    (tmp_path / "ages.csv").write_text("korea,states\n" + "\n".join(lines) + "\n")
    first, second = age_shares(9, str(tmp_path))
    assert first[0] == (korea[0] + korea[1]) / sum(korea)
    assert second[8] == pytest.approx((states[16] + states[17]) / sum(states), rel=1e-15)
    study = load("lee2022", tmp_path)
    assert "file of the given folder" in study.introduction
    cell = dict(study.part("default-size").cells(True)[0], runs=20)
    assert cell["data"] == "file"
    (row,) = study.part("default-size").compute(cell, 1)
    assert 0 <= row["size"] <= 1
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "ages.csv").write_text("korea,states\n1,2\n")
    with pytest.raises(InvalidParameter, match="18 lines"):
        age_shares(18, str(broken))
