"""The study of miranda2026: its vectorised simulation against a direct one, its cells, its data."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from discreet import ApproxDP, PureDP
from discreet.core.errors import InvalidParameter
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms import Gaussian
from discreet.mechanisms.omission.amplification import outlier_epsilon
from discreet.mechanisms.omission.step import AbsoluteDistance, DiscreteDistance
from discreet.papers import STUDIES, load, load_all, miranda2026
from discreet.papers.claims.miranda2026_claims import CLAIMS
from discreet.papers.figure import HeatMap
from discreet.papers.miranda2026 import clustering_cells, clustering_rows, largest_term, with_data
from discreet.papers.miranda2026_data import (
    COLUMNS,
    Column,
    Omit,
    adult_table,
    column,
    difference,
    estimate_mean,
    estimate_share,
    four_groups,
    gaussian_scale,
    kept_counts,
    mean_distances,
    mean_errors,
    mode_failures,
    spendable,
)
from discreet.questions.clusters import DPLloyd


def small_column() -> Column:
    return Column("small", np.array([1.0, 3.0, 7.0]), np.array([5, 40, 15]), (0.0, 10.0))


def records(data: Column) -> np.ndarray:
    return np.repeat(data.values, data.counts)


def test_distances_of_values_are_those_of_records() -> None:
    data = small_column()
    first = np.searchsorted(records(data), data.values)
    absolute = AbsoluteDistance((0, 10)).mean_distances(records(data))[first]
    np.testing.assert_allclose(mean_distances(data, "absolute"), absolute, rtol=1e-13)
    discrete = DiscreteDistance().mean_distances(records(data))[first]
    np.testing.assert_allclose(mean_distances(data, "discrete"), discrete, rtol=1e-13)


@pytest.mark.parametrize("omit", [Omit(rate=0.3), Omit(m=0.2, M=0.7)])
def test_kept_counts_have_the_law_of_kept_records(omit: Omit) -> None:
    """Means and variances of 20,000 repeats within five standard errors."""
    data, repeats = small_column(), 20_000
    counts = kept_counts(data, omit, "absolute", repeats, np.random.default_rng(1))
    chances = omit.keep(mean_distances(data, "absolute"))
    np.testing.assert_allclose(counts.mean(axis=0), data.counts * chances, atol=5 * math.sqrt(40 / 4 / repeats) + 1e-9)
    np.testing.assert_allclose(counts.var(axis=0), data.counts * chances * (1 - chances), rtol=0.08)


def test_fast_mean_agrees_with_a_loop_over_records() -> None:
    data, generator = small_column(), np.random.default_rng(2)
    budget = spendable(1.0, 0.0, Omit(rate=0.5))
    assert budget is not None
    fast = mean_errors(
        data, "laplace", budget, kept_counts(data, Omit(rate=0.5), "absolute", 4000, generator), generator
    )
    slow = []
    for _ in range(4000):
        kept = records(data)[generator.random(data.size) < 0.5]
        noisy = (kept.sum() + generator.laplace(scale=2 * 10 / budget[0])) / (
            len(kept) + generator.laplace(scale=2 / budget[0])
        )
        slow.append(100 * abs(noisy - data.mean) / data.mean)
    assert np.median(fast) == pytest.approx(np.median(slow), rel=0.12)


def test_mode_without_noise_is_right_and_with_much_noise_a_guess() -> None:
    data, generator = small_column(), np.random.default_rng(3)
    counts = kept_counts(data, Omit(), "discrete", 3000, generator)
    for mechanism in ("noisy max, Laplace", "noisy max, exponential", "exponential mechanism"):
        assert not mode_failures(data, mechanism, (100.0, 0.0), counts, generator).any()
        share = mode_failures(data, mechanism, (1e-4, 0.0), counts, generator).mean()
        assert share == pytest.approx(10 / 11, abs=0.03)
    assert mode_failures(data, "noisy max, Gaussian", (1e-4, 1e-9), counts, generator).mean() > 0.8


def test_budgets() -> None:
    assert spendable(1.0, 0.0, Omit()) == (1.0, 0.0)
    assert spendable(0.25, 0.0, Omit(m=0.1, M=0.9)) is None
    epsilon, delta = spendable(1.0, 1e-9, Omit(rate=0.5)) or (0.0, 0.0)
    assert epsilon == pytest.approx(1.48988, abs=1e-5)
    assert delta == pytest.approx(2e-9)


def test_estimates() -> None:
    one, other = estimate_mean(np.array([1.0, 2.0, 3.0])), estimate_mean(np.array([2.0, 3.0, 4.0]))
    gap, z = difference(other, one)
    assert gap == 1.0
    assert z == pytest.approx(1 / math.hypot(one.error, other.error))
    share = estimate_share(np.array([False] * 100))
    assert share.low == pytest.approx(0, abs=1e-12)
    assert 0.03 < share.high < 0.05


def test_stand_ins_have_the_shape_of_the_originals() -> None:
    sizes = {"adult": 32_561, "census": 1080, "irish": 66_666}
    for name in COLUMNS:
        data = column(name)
        assert data.size == sizes[name.split()[0]]
        assert data.bounds[0] <= data.values.min()
        assert data.values.max() <= data.bounds[1]
    hours = column("adult hours-per-week")
    assert hours.counts.max() > 0.4 * hours.size
    assert adult_table().shape == (32_561, 6)
    assert adult_table().min() == -1
    assert four_groups(1).shape == (100, 2)


def test_folder_of_files(tmp_path: Path) -> None:
    (tmp_path / "adult.csv").write_text("age,fnlwgt,education-num,capital-gain,capital-loss,hours-per-week\n"
                                        "39,1,2,3,4,40\n50,2,3,4,5,13\n")  # fmt: skip
    assert column("adult age", str(tmp_path)).values.tolist() == [39.0, 50.0]
    assert adult_table(str(tmp_path)).tolist() == [[-1, -1, -1, -1, -1, 1], [1, 1, 1, 1, 1, -1]]
    with pytest.raises(InvalidParameter, match="casc_census"):
        column("census FICA", str(tmp_path))
    (tmp_path / "irish.csv").write_text("Nothing\n1\n")
    with pytest.raises(InvalidParameter, match="no column Age"):
        column("irish Age", str(tmp_path))
    with pytest.raises(InvalidParameter, match="not a folder"):
        with_data(tmp_path / "missing")


def test_every_part_computes_a_cell() -> None:
    study = load("miranda2026")
    assert next(part.name for part in study.parts) == "figure-2"
    for part in study.parts:
        cell = dict(part.cells(True)[0])
        if "repeats" in cell:
            cell["repeats"] = 2
        if cell.get("clustering") == "DPLloyd" and cell["omission"] != "sampling":
            continue
        rows = list(part.compute(cell, 1))
        assert rows
        assert len({tuple(row) for row in rows}) == 1
        assert part.finding is not None
        assert part.finding(rows)
        full = part.cells(False)
        assert len(full) > len(part.cells(True)) or part.name == "figure-2"


def test_grid_covers_the_paper() -> None:
    study = load("miranda2026")
    cells = study.part("sampling-mode").cells(False)
    assert {cell["epsilon"] for cell in cells} == {0.25, 0.5, 1.0, 2.0}
    assert {cell["repeats"] for cell in cells} == {2000}
    rows = list(study.part("sampling-mean").compute({**study.part("sampling-mean").cells(False)[0], "repeats": 2}, 1))
    laplace = [row["rate"] for row in rows if row["method"] == "laplace"]
    assert laplace == [round(k / 100, 2) for k in range(1, 100)]
    suppressed = study.part("suppression-mean")
    assert len(list(suppressed.compute({**suppressed.cells(False)[0], "repeats": 2}, 1))) == 2 * 45


@pytest.mark.parametrize(("epsilon", "delta"), [(0.125, 1e-9), (1.0, 1e-6), (5.0, 1e-10), (0.01, 1e-3)])
def test_gaussian_scale_is_the_certified_one(epsilon: float, delta: float) -> None:
    certified = Gaussian.calibrate(ApproxDP(epsilon, delta), Sensitivity(moves=(1.0,))).scale
    assert gaussian_scale(epsilon, delta) == pytest.approx(certified, rel=1e-8)


def test_all_studies_take_the_folder_that_one_of_them_reads(tmp_path: Path) -> None:
    loaded = {study.paper: study for study in load_all(tmp_path)}
    assert list(loaded) == list(STUDIES)
    assert "files of the given folder" in loaded["miranda2026"].introduction
    assert loaded["liu2019"] is load("liu2019")
    with pytest.raises(InvalidParameter, match="is not a folder"):
        load_all(tmp_path / "missing")


def test_clustering_cells_share_their_baseline() -> None:
    cells = [
        cell for cell in clustering_cells("suppression", "stand-ins", quick=True) if cell["clustering"] == "k-median"
    ][:2]
    rows = [row for cell in cells for row in clustering_rows(cell, seed=3)]
    assert len({row["without"] for row in rows}) == 1
    assert {row["m"] for row in rows} == {cell["m"] for cell in cells}


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_term_of_figure_75_is_the_bound(epsilon: float) -> None:
    """At the named end of p the terms of Theorem 5.4 give ε^S itself."""
    for m, M in ((0.2, 0.6), (0.4, 0.4), (0.1, 0.15), (0.6, 0.9)):
        name, bound = largest_term(epsilon, m, M), float(outlier_epsilon(epsilon, m, M))
        e = math.exp(epsilon)
        ends = {
            "p = 0": max(
                math.log(e - (e - 1) * m), math.log(e - (e - 1) * (M + m) / 2) + (1 - (M + m) / 2) / (1 - M) - 1
            ),
            "p = 1": math.log(e - (e - 1) * M) + M / m - 1,
            "l₃": -math.log(1 / e + (1 - 1 / e) * M) + 1 - (1 - M) / (1 - m),
        }
        if name in ends:
            assert ends[name] == pytest.approx(bound, abs=1e-9)
        assert bound >= max(ends.values()) - 1e-9


def test_k_median_is_random_without_strength_and_searches_with_it() -> None:
    generator = np.random.default_rng(3)
    strong = miranda2026._searched(1000.0, 1.0, generator)
    bottom = miranda2026._descended(generator)
    assert strong == pytest.approx(bottom, rel=0.1)
    rows = [next(iter(miranda2026._rows({"reading": "random centres", "repeats": 300}, 1)))]
    assert rows[0]["cost"] > 2 * bottom
    assert miranda2026._before_sampling(1.0, 0.5) == pytest.approx(math.log(1 + (math.e - 1) / 0.5))
    assert miranda2026._before_sampling(600.0, 0.5) == pytest.approx(600 + math.log(2))


def test_heat_maps_write_values_and_frame_cells() -> None:
    rows = [{"m": 0.1, "M": 0.1, "d": -0.5, "words": "-0.5", "inside": True, "epsilon": 1.0}]
    drawn = HeatMap(name="x", title="x", x="m", y="M", colour="d", middle=0.0, label="words", outlined="inside")
    text = str(drawn.chart(rows).to_dict())
    assert "words" in text
    assert "inside" in text
    assert "blue frame" in drawn.caption()


def test_suppression_is_compared_with_a_sample_of_as_many_records() -> None:
    """The omitted share by a loop over records, with the definition of the score, and both sides at equal privacy."""
    study = load("miranda2026")
    cell = {
        **study.part("similar-mean").cells(True)[0],
        "column": "census FICA",
        "epsilon": 2.0,
        "repeats": 3,
        "quick": False,
    }
    data = column("census FICA")
    everyone = records(data)
    width = data.bounds[1] - data.bounds[0]
    scores = np.array([np.abs(everyone - one).mean() / width for one in everyone])
    rows = list(study.part("similar-mean").compute(cell, 1))
    assert len(rows) > 20
    for row in rows:
        assert row["m"] < row["M"]
        assert row["omitted"] == pytest.approx(float((row["m"] + (row["M"] - row["m"]) * scores).mean()), rel=1e-9)
        assert row["difference"] == row["uniform"] - row["by score"]


def test_noise_of_su2017_has_the_scale_d_plus_one() -> None:
    """As published at 2(dk + 1)/(d + 1) times the ε, every sum and count of the fit has noise of scale (d + 1)T/ε."""
    d, k, epsilon = 6, 5, 0.7
    plan = DPLloyd(
        k, guarantee=PureDP(2 * (d * k + 1) / (d + 1) * epsilon), bounds=[(-1, 1)] * d, as_published=True
    ).plan()  # fmt: skip
    assert plan.iterations == 20
    assert plan.sum_scale == pytest.approx((d + 1) * 20 / epsilon, rel=1e-9)
    assert plan.count_scale == pytest.approx((d + 1) * 20 / epsilon, rel=1e-9)


def test_ties_decide_no_claim() -> None:
    rows = [
        {"difference": gap, "z": gap * 5, "rate": 0.5, "with": 0.5, "noise reduction": True} for gap in (-1.0, 0.0, 0.0)
    ]
    (claim,) = (one for one in CLAIMS if one.claim == "Sampling is worse for modes too.")
    assert claim.decide(rows).measured.value == 1.0
    assert claim.decide([*rows, {**rows[0], "difference": 1.0, "z": 5.0}]).measured.value == 0.5
