"""The study of liu2023: every part runs, and Table 2 is the paper's."""

from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp

from discreet import PureDP
from discreet.core.errors import InvalidParameter
from discreet.papers import load, load_all
from discreet.papers.claims.liu2023_claims import PRINTED_SE
from discreet.papers.comparisons import LAWS, simulated_contrast
from discreet.papers.liu2023 import STUDY, ClickData, with_data
from discreet.papers.liu2023_simulation import SIZES, simulation_cells
from discreet.questions.comparison.paper import (
    Ordered,
    PaperMethod,
    simulated_quantiles,
)

CELL = {"law": "ZILN", "different": True, "n": 20_000, "P": 100, "guarantee": "ε-DP", "repeats": 4}


def test_the_grid_is_the_papers():
    assert sum(len(values) for values in SIZES.values()) == 17
    assert len(simulation_cells(False)) == 3 * 2 * 2 * 17


@pytest.mark.parametrize("name", ["default", "placement", "simulation", "certified"])
def test_parts_compute(name):
    part = STUDY.part(name)
    rows = list(part.compute(CELL, 3))
    assert rows == list(part.compute(CELL, 3))
    assert len({tuple(row) for row in rows}) == 1  # the same columns everywhere
    assert all(np.isfinite(value) for row in rows for value in row.values() if isinstance(value, float))
    if part.finding:
        assert "%" in part.finding(rows * 2 if name == "placement" else [*rows, rows[0] | {"θ": 0.0}])


def test_table_2_is_the_papers():
    part = STUDY.part("table-2")
    found = [[round(row["ε by (3)"], 3) for row in part.compute(cell, 1)] for cell in part.cells(True)]
    # liu2023 Table 2, "corresponding ε value" for n = 1,000, 100,000 and 1,000,000.
    assert found == [
        [0.377, 0.763, 1.567, 3.294, 7.227],
        [0.485, 0.98, 1.999, 4.159, 8.958],
        [0.531, 1.071, 2.183, 4.525, 9.69],
    ]
    rows = list(part.compute({"n": 1000}, 1))
    assert [round(row["σ/Δ"], 3) for row in rows] == [10.0, 5.0, 2.5, 1.25, 0.625]
    assert [round(row["sd/Δ (Laplace)"], 3) for row in rows] == [2.828, 1.414, 0.707, 0.283, 0.141]
    assert all(row["ε tight"] <= row["ε by (3)"] for row in rows)


@pytest.mark.parametrize("name", list(LAWS))
def test_partition_sums_have_the_moments_of_the_law(name):
    """5 standard errors: wrong once in two million."""
    law = LAWS[name]
    sample = law.sample(20_000, 100, 200, True, np.random.default_rng(1))
    means = sample.differences.mean(axis=1)
    assert abs(means.mean() - law.effect(True)) < 5 * means.std() / np.sqrt(200)
    np.testing.assert_allclose(means, (sample.sums[:, 1] - sample.sums[:, 0]) / sample.n, atol=1e-9)
    variance = (sample.squares - sample.sums**2 / sample.n) / sample.n
    between = sample.differences.var(axis=1) * 200  # n/P units a partition
    assert between.mean() == pytest.approx(variance.sum(axis=1).mean(), rel=0.05)
    assert {"Gaussian": 1.63, "ZILN": 1.64, "ZINB": 0.03}[name] == pytest.approx(law.effect(True), abs=0.005)


def test_the_case_study_has_the_papers_shape():
    part = STUDY.part("table-3")
    rows = list(part.compute({"n": 50_000, "P": 100, "draws": 5}, 1))
    assert len(rows) == 5 * (11 + 9)
    assert {(row["α"], row["β"]) for row in rows} == {(0.1, 0.1), (0.15, 0.05)}  # Table 3's own, not the simulation's
    errors = {(row["method"], row["ε"]): row["SE"] for row in rows if row["α"] == row["β"]}
    assert errors["2S", 0.5] > 10 * errors["4S", 5.0]


def test_every_figure_of_the_simulations_has_its_place_in_the_paper():
    """Figures 3 to 50: by law, censoring, effect and guarantee; first the five pairs, then the other twelve."""
    part = STUDY.part("simulation")
    titles = {figure.name: figure.title for figure in part.figures}
    assert list(titles) == [f"figure-{number}" for number in range(3, 51)]
    assert titles["figure-9"] == "Figure 9, ε-DP, Gaussian data, α = 0.05, β = 0.15, θ ≠ 0"
    assert titles["figure-24"] == "Figure 24, ρ-zCDP, ZILN data, α = 0.05, β = 0.15, θ = 0"
    assert titles["figure-37"] == "Figure 37, ε-DP, ZINB data, α = β = 0.1, θ ≠ 0"
    first = part.figures[0]
    cells = [cell for cell in part.cells(False) if all(cell[name] == value for name, value in first.cells)]
    assert len(cells) == 17


def test_readings_of_doubling_down():
    """One pair of ends for all m rounds loses coverage; as printed, 6SDD does not."""
    part = STUDY.part("readings")
    cell = {"law": "Gaussian", "n": 1_000_000, "P": 100, "ε": 5.0, "different": True, "repeats": 200}
    found = {(row["reading"], row["method"]): row["coverage"] for row in part.compute(cell, 1)}
    assert found["as printed", "6SDD"] > 0.92
    assert found["one pair (l*, u*) for all m", "4SDD"] < 0.8
    assert found["one pair, raw counts", "6SDD"] < 0.9


@pytest.mark.parametrize("trimmed", [False, True])
def test_six_statistics_are_the_winsorized_and_trimmed_means_of_a_textbook(trimmed):
    """Without noise the form with counts is (22) or (24), by hand."""
    values = np.sort(np.random.default_rng(2).normal(3, 1, 50))
    low, high = 2.0, 4.2

    class Still(_Recorded):
        def quantile(self, ordered, q):
            return np.full((1, 1), low if q < 0.5 else high)

    method = PaperMethod(reading="trimmed" if trimmed else "winsorized", counts=True, m=1)
    found = method.sanitized(Ordered.of(values[None]), Still(low), (-10.0, 10.0), (0.1, 0.1))
    inside = values[(values >= low) & (values < high)]
    wanted = inside.mean() if trimmed else np.clip(values, low, high).mean()
    assert found.estimate[0, 0] == pytest.approx(wanted, rel=1e-9)
    clipped = np.clip(values, low, high)
    spread = ((clipped - clipped.mean()) ** 2).sum() / 50
    if not trimmed:
        assert found.variance[0, 0] == pytest.approx(49 / (inside.size - 1) ** 2 * spread, rel=0.2)  # (23)


class _Recorded:
    """Both quantiles at one place, and nothing added: shows each statistic beside its declared sensitivity."""

    def __init__(self, place: float) -> None:
        self.place, self.added = place, []

    def quantile(self, ordered, q):
        return np.array([[self.place]])

    def add(self, values, sensitivity):
        self.added.append((float(np.squeeze(values)), float(np.squeeze(sensitivity))))
        return np.asarray(values, dtype=float)


@pytest.mark.parametrize("place", [0.0, 0.1, -0.3, 1 / 3, 7.7, -123.456])
def test_pieces_of_an_empty_interval_move_by_no_more_than_declared(place):
    """With l* = u* the interval is a few floats long, and its centre is rounded by a large part of it."""
    method = PaperMethod(counts=True)
    width = 2e-12 * abs(place) + 1e-150
    inside = [place, np.nextafter(place, np.inf), place + width / 2, np.nextafter(place + width, -np.inf)]
    rest = [place - 1.0, place + 1.0, inside[1]]
    seen = []
    for moved in (*inside, place - 2.0, place + 2.0):
        recorder = _Recorded(place)
        method.pieces(Ordered.of(np.array([[*rest, moved]])), recorder, (0.1, 0.1))
        seen.append(recorder.added)
    for statistic in zip(*seen, strict=True):
        values, declared = zip(*statistic, strict=True)
        assert declared[0] > 0
        assert len(set(declared)) == 1
        assert Fraction(max(values)) - Fraction(min(values)) <= Fraction(declared[0])


def test_the_error_of_a_private_quantile_falls_like_one_over_p_squared():
    """Theorem 4 and Corollary 5 claim e^(−2Pε)·P⁻² (errata E12); seeded, so it cannot fail by chance."""
    rng = np.random.default_rng(5)
    scaled = []
    for count in (50, 200, 800):
        values = np.sort(rng.standard_normal((3000, count)), axis=1)
        published = simulated_quantiles(values, 0.1, 1.0, None, 1, rng)[:, 0]
        raw = values[:, int(0.1 * count) - 1]
        scaled.append(count**2 * float(np.mean((published - raw) ** 2)))
    assert all(100 < value < 220 for value in scaled)


def test_the_second_derivative_of_a_censored_likelihood() -> None:
    """E13: −(A² + xA)/σ² with A = φ(x)/Φ(x) and x = (l − θ)/σ, by differences of log Φ; (66) prints −(A² − A)/σ²."""
    theta, sigma, low, step = mp.mpf("0.3"), mp.mpf("1.4"), mp.mpf("-0.5"), mp.mpf("1e-12")
    with mp.workdps(60):
        x = (low - theta) / sigma
        ratio = mp.npdf(x) / mp.ncdf(x)
        found = mp.diff(lambda t: mp.log(mp.ncdf((low - t) / sigma)), theta, 2)
        assert abs(found + (ratio**2 + x * ratio) / sigma**2) < step
        assert abs(found + (ratio**2 - ratio) / sigma**2) > 0.1


def test_generated_clicks_are_what_section_6_prints():
    """66 % zeros, the largest count 45,987, and the standard errors without privacy and of censored differences."""
    arms = ClickData().arms(3_364_743, 800, np.random.default_rng(4))
    size = arms[2]
    assert max(clicks.max() for clicks in arms[:2]) == 45_987
    for clicks in arms[:2]:
        assert (clicks == 0).mean() == pytest.approx(0.66, abs=0.002)
    error = np.sqrt(sum(clicks.var() / clicks.size for clicks in arms[:2]))
    assert 1000 * error == pytest.approx(PRINTED_SE["original"][0], rel=0.03)
    differences = np.subtract(*(clicks.reshape(800, size).mean(axis=1) for clicks in arms[1::-1]))
    low, high = np.quantile(differences, [0.1, 0.9])
    spread = (high - low) / (2 * 1.2815515655446004)  # of a normal law with these quantiles
    assert 1000 * spread / np.sqrt(800) == pytest.approx(PRINTED_SE["4S"][-1], rel=0.1)


def test_the_case_study_reads_the_papers_file(tmp_path):
    """Clicks add up per device, as in section 6; a folder without the file is refused."""
    rng = np.random.default_rng(6)
    devices = rng.integers(0, 400, 6000)
    clicks = (rng.random(6000) < 0.2).astype(int)
    lines = [
        f"{i},{click},14102100,dev{device:x}" for i, (click, device) in enumerate(zip(clicks, devices, strict=True))
    ]
    (tmp_path / "train.csv").write_text("id,click,hour,device_ip\n" + "\n".join(lines))
    first, second, size = ClickData(str(tmp_path)).arms(10**7, 20, np.random.default_rng(1))
    found = np.bincount(devices, weights=clicks)[np.unique(devices)]
    assert size == len(found) // 40
    assert len(first) == len(second) == 20 * size
    kept = np.concatenate([first, second])
    assert kept.sum() <= found.sum()
    assert len(found) - len(kept) < 40
    assert set(kept) <= set(found)
    study = with_data(tmp_path)
    cell = {**study.part("table-3").cells(True)[0], "P": 20, "draws": 2}
    assert cell["data"] == "file"
    assert len(list(study.part("table-3").compute(cell, 1))) == 5 * (11 + 9)
    assert "file of the given folder" in study.introduction
    assert "file of the given folder" in {one.paper: one for one in load_all(tmp_path)}["liu2023"].introduction
    (tmp_path / "train.csv").unlink()
    with pytest.raises(InvalidParameter, match=r"none of the files train\.csv"):
        load("liu2023", tmp_path)
    assert {one.paper: one for one in load_all(tmp_path)}["liu2023"] is STUDY


def test_six_sanitized_statistics_depend_on_bounds_that_the_paper_does_not_state():
    """As published too, estimates are clipped to the bounds: ten times the width, about ten times the error."""
    law = LAWS["ZILN"]
    sample = law.sample(100_000, 100, 300, False, np.random.default_rng(3))
    errors = {}
    for factor in (0.1, 1.0, 10.0):
        found = simulated_contrast(
            "6S", sample, PureDP(0.5), bounds=(0.0, factor * law.bounds[1]), censor=(0.1, 0.1),
            rng=np.random.default_rng(5), as_published=True,
        )  # fmt: skip
        errors[factor] = float(np.sqrt(np.mean(np.asarray(found.estimate) ** 2)))
    assert errors[10.0] / errors[1.0] > 4
    assert errors[1.0] / errors[0.1] > 4
