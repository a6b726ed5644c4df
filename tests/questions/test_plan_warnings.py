"""What a plan says beside its errors: chance, and what to change. Against simulation and against plans themselves."""

from dataclasses import replace

import numpy as np
import pytest

from discreet import Bounds, Categories, PureDP, Schema
from discreet.questions.count import CountQuestion
from discreet.questions.mean import MeanQuestion
from discreet.questions.proportion import ProportionQuestion
from discreet.questions.quantile import QuantileQuestion
from discreet.questions.tables.table import TableQuestion
from discreet.questions.variance import StandardDeviationQuestion, VarianceQuestion
from discreet.results.plan import budget_warnings, groups_of, privacy_is_free, release_warnings, sampling_error

SCHEMA = Schema(
    columns={
        "age": Bounds(0, 120, grid=1),
        "sex": Categories(["f", "m"]),
        "region": Categories(["north", "south", "west"]),
    }
)


def mean(epsilon=1.0, **settings):
    return MeanQuestion(SCHEMA, "age", epsilon=epsilon, **settings)


def test_chance_is_what_samples_do():
    rng = np.random.default_rng(1)
    means = rng.normal(0, 120 / 6, (20_000, 400)).mean(axis=1)
    assert sampling_error(mean(expected_rows=400)) == pytest.approx(np.quantile(np.abs(means), 0.95), rel=0.03)
    shares = rng.binomial(400, 0.3, 50_000) / 400 - 0.3
    asked = ProportionQuestion(
        SCHEMA, "sex", "f", epsilon=1.0, expected_rows=1200, expected_proportion=0.3, by=["region"]
    )
    assert sampling_error(asked) == pytest.approx(np.quantile(np.abs(shares), 0.95), rel=0.05)
    assert groups_of(asked) == 3


def test_chance_moves_counts_ranks_and_spreads_as_samples_do():
    rng = np.random.default_rng(2)
    by_region = CountQuestion(SCHEMA, epsilon=1.0, by=["region"])
    counts = np.abs(rng.binomial(900, 1 / 3, 50_000) - 300)
    assert sampling_error(by_region, rows=900) == pytest.approx(np.quantile(counts, 0.95), rel=0.05)
    ranks = np.abs(rng.binomial(900, 0.9, 50_000) - 810)  # rows below the population's quantile
    decile = QuantileQuestion(SCHEMA, "age", 0.9, epsilon=1.0)
    assert sampling_error(decile, rows=900) == pytest.approx(np.quantile(ranks, 0.95), rel=0.05)
    drawn = rng.normal(0, 120 / 6, (20_000, 400))
    for question, read in ((VarianceQuestion, np.var), (StandardDeviationQuestion, np.std)):
        moved = np.abs(read(drawn, axis=1) - read(drawn))
        asked = question(SCHEMA, "age", epsilon=1.0)
        assert sampling_error(asked, rows=400) == pytest.approx(np.quantile(moved, 0.95), rel=0.05)


def test_chance_is_unknown_without_a_number_of_rows():
    assert sampling_error(mean()) is None
    assert sampling_error(CountQuestion(SCHEMA, epsilon=1.0)) is None
    assert sampling_error(CountQuestion(SCHEMA, epsilon=1.0), rows=100) is None  # all of them


def test_bounds_that_cost_too_much_are_named_and_the_fix_is_true():
    wide = mean(0.03, expected_rows=2000)
    (said,) = release_warnings(wide, wide.plan(None))
    assert "Bounds half as wide would halve it" in said
    narrow = replace(wide, schema=Schema(columns={"age": Bounds(0, 60, grid=1)}))
    assert narrow.plan(None).error_95 == pytest.approx(wide.plan(None).error_95 / 2, rel=0.05)


def test_too_little_data_is_told_before_anything_is_spent():
    asked = mean(0.01, expected_rows=100, by=["region"])
    (said,) = release_warnings(asked, asked.plan(None))
    assert "Too little data" in said
    assert "Merge groups" in said


def test_small_cells_are_told_where_another_release_knows_the_rows():
    table = TableQuestion(SCHEMA, ["sex", "region"], epsilon=0.1)
    assert release_warnings(table, table.plan(None), None) == []
    assert release_warnings(table, table.plan(None), 100_000) == []
    (said,) = release_warnings(table, table.plan(None), 300)
    assert "Cells of about 50 rows" in said


def test_privacy_is_free_where_chance_is_five_times_the_noise():
    much, little = mean(5.0, expected_rows=10_000), mean(0.01, expected_rows=10_000)
    assert privacy_is_free(much, much.plan(None)) is not None
    assert privacy_is_free(little, little.plan(None)) is None


def test_a_budget_that_protects_nobody_is_told():
    assert budget_warnings(PureDP(1.0)) == []
    (said,) = budget_warnings(PureDP(10.0))
    assert "Set epsilon to 1 or less" in said
