"""The studies of liu2019 and holohan2018: cells agree with what the papers report, and runs make pages."""

from __future__ import annotations

import pytest

from discreet.papers import STUDIES, holohan2018, liu2019, load


@pytest.mark.parametrize("key", ["liu2019", "holohan2018"])
def test_studies_load_and_have_cells(key: str) -> None:
    study = load(key)
    assert study.paper == key
    for part in study.parts:
        small, full = part.cells(True), part.cells(False)
        assert len(small) < len(full) or (len(small) == len(full) and small != full)


def test_registry_names_modules_that_exist() -> None:
    assert {"liu2019", "holohan2018"} <= set(STUDIES)


def test_figure_3_of_holohan2018_runs_from_one_to_two() -> None:
    rows = [next(iter(holohan2018.figure_3({"epsilon": 0.01, "sensitivity": c}, 0))) for c in (1e-3, 1.0)]
    assert rows[0]["ratio"] == pytest.approx(2, abs=0.02)
    assert rows[1]["ratio"] == pytest.approx(1)
    assert rows[0]["held_over_claimed"] == pytest.approx(2, abs=0.02)
    part = holohan2018.STUDY.part("figure-3")
    assert part.finding is not None
    assert "from 1.0000" in part.finding(rows)


def test_findings_are_computed_from_rows() -> None:
    for name, parameters in (
        ("figure-1", {"setting": 0, "n": 50, "draws": 20}),
        ("figure-2", {"n": 50, "epsilon": 1.0, "repeats": 50}),
    ):
        part = liu2019.STUDY.part(name)
        rows = [
            row
            for mechanism, version in liu2019.VERSIONS
            for row in part.compute({**parameters, "mechanism": mechanism, "version": version}, 1)
        ]
        assert part.finding is not None
        assert "as published" in part.finding(rows)


def test_bounding_beats_truncation_on_iris() -> None:
    """holohan2018 Figure 2, at ε = 30 with 20 simulations: about 95 % against 45 %."""
    accuracy = {}
    for mechanism in ("bounded", "truncated"):
        parameters = {"epsilon": 30.0, "mechanism": mechanism, "version": "as published", "simulations": 20}
        accuracy[mechanism] = next(iter(holohan2018.figure_2(parameters, 1)))["accuracy"]
    assert accuracy["bounded"] > 0.85
    assert accuracy["truncated"] < 0.75


def test_published_truncation_spends_more_than_it_claims() -> None:
    parameters = {"setting": 0, "n": 50, "mechanism": "truncated", "version": "as published", "draws": 20}
    published = next(iter(liu2019.figure_1(parameters, 1)))
    certified = next(iter(liu2019.figure_1({**parameters, "version": "certified"}, 1)))
    assert published["epsilon_held"] > 1.5
    assert certified["epsilon_held"] == 1.0


@pytest.mark.parametrize("figure", ["figure-2", "figure-4", "figure-5"])
def test_ignoring_the_noise_undercovers_and_knowing_it_does_not(figure: str) -> None:
    """liu2019: 50–80 % at ε = 0.1. 2,000 repeats: standard error 0.5 %."""
    for mechanism in ("truncated", "BIT"):
        parameters = {"n": 100, "epsilon": 0.1, "mechanism": mechanism, "version": "certified", "repeats": 2000}
        for row in liu2019.STUDY.part(figure).compute(parameters, 3):
            assert row["coverage"] < 0.85
            if row["noise_aware_coverage"] is not None:
                assert 0.93 <= row["noise_aware_coverage"] <= 0.97


def test_multiple_synthesis_covers_better_than_one_set() -> None:
    parameters = {"n": 200, "epsilon": 0.5, "mechanism": "BIT", "version": "certified", "repeats": 500}
    one = [row["coverage"] for row in liu2019.STUDY.part("figure-2").compute(parameters, 1)]
    five = [row["coverage"] for row in liu2019.STUDY.part("figure-3").compute(parameters, 1)]
    assert min(five) > min(one)


@pytest.mark.parametrize("figure", ["figure-6", "figure-7"])
def test_pairwise_sums(figure: str) -> None:
    parameters = {"n": 500, "epsilon": 1.0, "mechanism": "BIT", "version": "certified", "repeats": 200}
    rows = list(liu2019.STUDY.part(figure).compute(parameters, 1))
    assert [row["target"] for row in rows] == ["p1 + p2", "p2 + p3", "p2 + p4"]
    assert max(abs(row["bias"]) for row in rows) < 0.02
