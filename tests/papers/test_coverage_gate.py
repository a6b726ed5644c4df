"""The gate of coverage: population intervals hold on populations that nobody tuned to. A short version and a whole."""

from __future__ import annotations

import csv
import datetime
import gzip
import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import generated
from coverage import STUDY
from coverage_cells import columns_of, guarantee_of, released
from discreet import ApproxDP, GaussianDP, Session, ZeroConcentratedDP
from discreet.mechanisms import Gaussian, Laplace
from discreet.papers.figure import Figure
from discreet.papers.study import run
from discreet.questions.variance import VarianceQuestion

LEAST = 0.935
STORED = Path(__file__).parents[2] / "docs" / "studies" / "coverage"
PARTS = [part.name for part in STUDY.parts]
HARD = (
    "yes .001", "yes .03", "yes .02", "hurdle", "Pareto", "lognormal", "t, 3 df", "narrow", "even", "rare",
    "steep number", "3 %, labels", "97 % positive", "1 in 100 large", "1 in 1,000 large",
)  # fmt: skip
"""Populations with the least coverage in the stored run."""
QUANTILES = ("quantile", "population-quantile")


def below(rows, errors):
    """Settings whose coverage is below 93.5 % by so many Monte-Carlo standard errors."""
    return [row for row in rows if float(row["coverage"]) < LEAST - errors * float(row["standard_error"])]


def cells(part, whole):
    if whole:
        return part.cells(False)
    # Quantiles hold on all of them, so none is harder than the others; sparse outcomes are few.
    hard = [cell for cell in part.cells(True) if cell["population"] in HARD or part.name in (*QUANTILES, "censored")]
    found = [cell for cell in hard if cell.get("size") != "public"]
    # Tables, quantiles and regressions are read one by one, and censored comparisons need a quadrature each.
    repeats = 80 if part.name in ("table", "censored", "logistic", *QUANTILES) else 300
    return [cell | {"repeats": repeats} for cell in found[:: 1 if len(found) < 16 else len(found) // 12]]


def test_stored_cells_of_generated_populations_hold():
    cells = generated.stored()
    assert len(cells) >= 300
    assert {one["question"] for one in cells} == {*generated.KINDS}
    assert [one for one in cells if generated.fails(one)] == []


QUICK = [*generated.BY_GROUP, "compare_means", "regression, a rare level", "size of wald_test", "unlisted groups"]


@pytest.mark.parametrize("kind", QUICK)
def test_fresh_populations_hold(kind):
    """Through the public calls, briefly."""
    cycle = generated.CYCLE
    found = generated.cell(90_000 // len(cycle) * len(cycle) + cycle.index(kind), 160)
    assert found["question"] == kind
    assert not generated.fails(found), found


@pytest.mark.deep
@pytest.mark.parametrize("place", range(12))
def test_populations_of_the_day_hold(place):
    found = generated.cell(100_000 + 12 * datetime.date.today().toordinal() + place, 2000)
    assert not generated.fails(found), found


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.deep)], ids=["short", "whole"])
def test_coverage(name, whole):
    """Seeded, so it fails for a changed interval and not by chance; four errors, because there are many settings."""
    part = STUDY.part(name)
    rows = [row for cell in cells(part, whole) for row in part.compute(cell, 7)]
    assert len(rows) >= 8
    assert below(rows, 4) == []


@pytest.mark.parametrize("name", PARTS)
def test_the_stored_run_is_the_whole_grid_and_holds(name):
    """What the page shows: all settings, none of which lies below by four errors."""
    with gzip.open(STORED / f"{name}.csv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(STUDY.part(name).cells(False))
    assert below(rows, 4) == []


def test_the_stored_page_follows_from_the_stored_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(STORED, tmp_path / "coverage", ignore=shutil.ignore_patterns("*.md", "*.svg"))
    drawn = {f"{figure.name}.svg" for part in STUDY.parts for figure in part.figures}
    monkeypatch.setattr(Figure, "save", lambda figure, rows, out: out / f"{figure.name}.svg")  # drawing takes long
    assert run(STUDY, tmp_path / "coverage").computed == 0
    page = (tmp_path / "coverage" / "coverage.md").read_text(encoding="utf-8")
    assert page == (STORED / "coverage.md").read_text(encoding="utf-8")
    assert {Path(one).name for one in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page)} == drawn


@pytest.mark.parametrize(("name", "most"), [("mean", 1.25), ("variance", 1.5)])
def test_intervals_are_about_as_wide_as_they_must_be(name, most):
    """Median over settings with 1,000 rows or more and a budget of at least 1, against known variances."""
    with gzip.open(STORED / f"{name}.csv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if int(row["n"]) >= 1000 and float(row["budget"]) >= 1]
    widths = sorted(float(row["width_ratio"]) for row in rows if row["width_ratio"])
    assert widths[len(widths) // 2] <= most


@pytest.mark.parametrize("size", ["private", "public"])
def test_the_simulation_reads_totals_as_a_release_does(size):
    """The same weights, noise and number of rows: under normal noise inner parts are weighed."""
    cell = {"guarantee": "μ-GDP", "budget": 1.0, "size": size, "n": 4}
    question = VarianceQuestion(columns_of(cell, "x"), "x", guarantee=guarantee_of(cell))
    drawn = released(question.measurement, np.zeros((1, 5)), np.random.default_rng(1))
    rows = pa.table({"x": [0.0, 0.2, 0.5, 1.0]})
    moments = Session(rows, question.schema, ledger=":memory:", budget=question.guarantee).ask(question).moments
    assert len(set(drawn["noise"])) > 1
    assert drawn["noise"] == pytest.approx(moments.noise)
    for fact in ("kurtosis", "size", "rows_per_unit"):
        assert drawn[fact] == getattr(moments, fact)


def test_the_other_guarantees_draw_the_noise_that_was_studied():
    """ρ-zCDP: the normal noise of μ = √(2ρ), with its weights; (ε, δ): Laplace noise, or normal noise with weights."""

    def asked(guarantee):
        return VarianceQuestion(columns_of({"size": "private"}, "x"), "x", guarantee=guarantee).measurement

    same = asked(ZeroConcentratedDP(0.125)), asked(GaussianDP(0.5))
    assert isinstance(same[0].mechanism, Gaussian)
    assert same[0].mechanism.scale == pytest.approx(same[1].mechanism.scale, rel=1e-9)
    assert same[0].statistic == same[1].statistic
    for delta in (1e-12, 1e-2):
        both = asked(ApproxDP(1.0, delta))
        assert isinstance(both.mechanism, Gaussian if both.statistic.weighed else Laplace)
