"""Every result leaves as a tidy frame: one row per number, one column per label, then the common columns."""

import math
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from discreet import (
    Bounds,
    Categories,
    Contribution,
    GaussianDP,
    Neighbours,
    PrivacyUnit,
    PureDP,
    Schema,
    Session,
    release,
)
from discreet.core.errors import InvalidParameter, NoPopulationInterval
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms import Laplace
from discreet.questions import Count, NoisyAverage, compare_arms
from discreet.results.frames import COLUMNS, NUMBERS, Tidy, tidy_rows
from discreet.results.plan import plan
from tests.questions.test_every_question import ASKED, SCHEMA, budget, guarantee, rows

LABELS = {
    "profile": ["column"],
    "usable_values": ["column"],
    "dropped_rows": ["why"],
    "count": ["arm"],
    "sum": ["arm"],
    "mean": ["arm"],
    "proportion": ["arm"],
    "variance": [],
    "std": [],
    "covariance_matrix": ["column", "with"],
    "regression": ["term"],
    "slope": [],
    "logistic_regression": ["term"],
    "quantile": ["arm", "probability"],
    "histogram": ["age"],
    "table": ["arm", "band"],
    "tables": ["table", "arm", "band"],
    "mode": ["mode"],
    "goodness_of_fit": ["band"],
    "homogeneity": ["arm", "band"],
    "independence": ["arm", "band"],
    "rank_test": ["shop", "spend"],
    "kolmogorov_smirnov": ["arm", "age"],
    "rank_correlation": ["age", "spend"],
    "signed_rank": [],
    "compare_arms": ["treatment", "control", "arm"],
    "compare_means": ["treatment", "control", "arm"],
    "clusters": ["centre", "column"],
    "common_labels": ["city"],
    "distinct": ["arm"],
    "running_total": ["period"],
}
NOTHING_TO_DRAW = ("mode", "common_labels")
"""Answers that are labels."""


@pytest.fixture(scope="module")
def answers():
    found = {}
    for name, asked in ASKED.items():
        session = Session(rows(), SCHEMA, ledger=":memory:", budget=budget(name))
        found[name] = getattr(session, name)(guarantee=guarantee(name), **asked)
    return found


@pytest.mark.parametrize("name", ASKED)
def test_every_answer_is_a_tidy_frame(answers, name):
    answer = answers[name]
    assert isinstance(answer, Tidy)
    frame, table, other = answer.to_pandas(), answer.to_arrow(), answer.to_polars()
    assert isinstance(frame, pd.DataFrame)
    assert isinstance(table, pa.Table)
    assert isinstance(other, pl.DataFrame)
    assert list(frame.columns) == table.column_names == other.columns == [*LABELS[name], *COLUMNS]
    assert len(frame) == table.num_rows == other.height == len(answer.rows())
    assert all(frame[column].dtype == np.float64 for column in NUMBERS)
    assert set(frame["unit"]) == {"row"}
    assert set(frame["guarantee"]) == {str(answer.published()["guarantee"]["symbols"])}
    known = frame.dropna(subset=["noise_low", "noise_high"])
    assert (known["noise_low"] <= known["noise_high"]).all()
    known = frame.dropna(subset=["population_low", "population_high"])
    assert (known["population_low"] <= known["population_high"]).all()


def test_what_reads_arrow_streams_reads_answers(answers):
    assert pl.DataFrame(answers["table"]).equals(answers["table"].to_polars())
    assert pa.table(answers["table"]).equals(answers["table"].to_arrow())


@pytest.mark.parametrize("name", ASKED)
def test_every_answer_with_numbers_is_drawn(answers, name):
    if name in NOTHING_TO_DRAW:
        with pytest.raises(InvalidParameter, match="no number to draw"):
            answers[name].plot()
        return
    chart = answers[name].plot().to_dict()
    assert "layer" in chart or "vconcat" in chart


def test_numbers_are_those_of_the_answer(answers):
    frame = answers["mean"].to_pandas().query("measure == 'mean'").set_index("arm")
    old = answers["mean"]["old"]
    noise, population = old.noise_interval(), old.population_interval()
    assert frame.loc["old", "estimate"] == old.mean
    assert (frame.loc["old", "noise_low"], frame.loc["old", "noise_high"]) == tuple(noise)
    assert (frame.loc["old", "population_low"], frame.loc["old", "population_high"]) == tuple(population)
    counts = answers["table"].to_pandas().set_index(["arm", "band"])["estimate"]
    assert counts["new", "old"] == np.asarray(answers["table"].value)[1, 1]
    quantiles = answers["quantile"].to_pandas()
    assert quantiles["probability"].tolist() == [0.25, 0.5] * 2
    shares = answers["proportion"].to_pandas()
    assert set(shares["measure"]) == {"proportion"}


def test_tests_and_comparisons_bring_their_pvalues(answers):
    for name in ("goodness_of_fit", "homogeneity", "independence", "compare_means"):
        frame = answers[name].to_pandas()
        assert frame.loc[frame["measure"] == "p-value", "estimate"].tolist() == [answers[name].pvalue]
    arms = {name: np.random.default_rng(1).normal(10, 2, 500) for name in "abc"}
    compared = compare_arms(arms, bounds=(0, 20), guarantee=PureDP(1.0), rng=2)
    frame = compared.to_pandas()
    pvalues = frame[frame["measure"] == "p-value"].set_index(["treatment", "control"])["estimate"]
    assert pvalues["b", "a"] == compared["b", "a"].pvalue
    assert len(frame) == 9
    assert frame.loc[frame["measure"] == "mean", "arm"].tolist() == ["a", "b", "c"]
    assert "layer" in compared.plot().to_dict()


def test_chosen_labels_stand_among_the_labels(answers):
    assert answers["mode"].to_pandas()["mode"].tolist() == [answers["mode"].mode]
    groups = answers["common_labels"].to_pandas()
    assert groups["city"].tolist() == list(answers["common_labels"].labels)
    assert groups["estimate"].isna().all()


def test_margins_of_a_table_keep_their_protection(answers):
    frame = answers["table"].margin("band").to_pandas()
    assert frame["band"].tolist() == ["young", "old"]
    assert set(frame["guarantee"]) == {"ε = 1"}
    shares = answers["table"].proportions("band").to_pandas()
    assert shares["population_low"].notna().all()
    assert shares["noise_low"].isna().all()


def test_standard_errors_are_those_of_the_noise():
    """Against 4,000 simulated releases of the same totals, with seeds that are fixed."""
    exact = NoisyAverage(bounds=(0, 10)).exact(np.linspace(0, 10, 400), neighbours=Neighbours.ADD_REMOVE)
    noise = Laplace.calibrate(PureDP(1.0), exact.sensitivity)
    drawn = [release(exact, noise, rng=seed) for seed in range(4000)]
    spread = float(np.std([one.mean for one in drawn]))
    assert np.median([one.standard_error for one in drawn]) == pytest.approx(spread, rel=0.1)


def test_a_plain_value_has_the_standard_error_of_its_law():
    exact = Count().exact([True] * 9, neighbours=Neighbours.ADD_REMOVE)
    answer = release(exact, Laplace(scale=3.0), rng=1)
    (row,) = answer.rows()
    assert row["standard_error"] == pytest.approx(3 * math.sqrt(2), rel=1e-6)


def test_groups_answer_as_one_does():
    session = Session(rows(), SCHEMA, ledger=":memory:", budget=PureDP(9.0))
    answer = session.mean("spend", epsilon=3.0, by="arm", variance=True)
    assert answer.mean == {"old": answer["old"].mean, "new": answer["new"].mean}
    assert answer.standard_deviation["new"] == answer["new"].standard_deviation
    assert answer.variance["new"] == answer["new"].variance
    assert answer.count["new"] == answer["new"].count
    for intervals, one in (
        (answer.noise_interval(), answer["new"].noise_interval()),
        (answer.population_interval(0.9), answer["new"].population_interval(0.9)),
    ):
        assert tuple(intervals["new"]) == tuple(one)
        assert intervals["new"].level == one.level
        assert np.shape(intervals.low) == (2,)
    assert "population" in str(answer)
    assert re.search(r"standard deviation\n  old .*\n  new ", str(answer))
    assert max(map(len, str(answer).splitlines())) <= 80
    with pytest.raises(InvalidParameter, match="Did you mean 'new'"):
        answer["New"]
    with pytest.raises(InvalidParameter, match="Did you mean 'new'"):
        answer.noise_interval()["nwe"]
    sums = session.sum("spend", epsilon=3.0, by="arm")
    assert set(sums.estimate) == {"old", "new"}
    with pytest.raises(NoPopulationInterval):
        sums.population_interval()
    with pytest.raises(AttributeError):
        sums.mean  # noqa: B018


def test_many_groups_are_shown_in_part(monkeypatch):
    labels = [f"g{place}" for place in range(60)]
    schema = Schema(columns={"g": Categories(labels), "x": Bounds(0, 1)})
    data = pa.table({"g": labels * 2, "x": [0.5] * 120})
    answer = Session(data, schema, ledger=":memory:", budget=PureDP(1.0)).mean("x", by="g", epsilon=1.0)
    asked = []
    one = type(answer["g0"])
    together = one.readings_together
    monkeypatch.setattr(one, "readings_together", lambda parts: asked.append(len(parts)) or together(parts))
    assert re.search(r"^  … +20 more$", str(answer), re.MULTILINE)
    assert asked == [40]  # intervals of the others are not worked out


def test_labels_never_hide_a_column_of_ours():
    schema = Schema(columns={"unit": Categories(["a", "b"]), "x": Bounds(0, 1, grid=0.5)})
    data = pa.table({"unit": ["a", "b"] * 20, "x": [0.0, 1.0] * 20})
    answer = Session(data, schema, ledger=":memory:", budget=PureDP(1.0)).count(epsilon=1.0, by="unit")
    frame = answer.to_pandas()
    assert frame["unit_label"].tolist() == ["a", "b"]
    assert set(frame["unit"]) == {"row"}


def test_labels_keep_their_kind():
    reading = {"measure": "count", "estimate": 1.0, "noise": None, "population": None, "standard_error": None}
    made = tidy_rows([reading | {"labels": {"year": 2024}}, reading | {"labels": {}}], unit="row", guarantee=None)
    assert [row["year"] for row in made] == [2024, None]

    class Made(Tidy):
        rows = lambda self: made  # noqa: E731
        plot = heading = facts = to_dict = None

    assert str(Made().to_pandas()["year"].dtype) == "Int64"
    assert Made().to_arrow()["year"].type == pa.int64()


def test_open_ends_are_empty():
    reading = {"labels": {}, "measure": "ratio", "estimate": 1.0, "population": None, "standard_error": math.inf}
    (row,) = tidy_rows([reading | {"noise": {"low": 0.0, "high": math.inf}}], unit="row", guarantee=None)
    assert (row["noise_low"], row["noise_high"], row["standard_error"]) == (0.0, None, None)


def test_the_unit_is_who_is_protected():
    schema = Schema(
        columns={"x": Bounds(0, 1, grid=0.5)}, unit=PrivacyUnit("person", contribution=Contribution(rows=2))
    )
    data = pa.table({"person": [1, 1, 2, 3], "x": [0.0, 1.0, 1.0, 0.5]})
    answer = Session(data, schema, ledger=":memory:", budget=PureDP(1.0)).sum("x", epsilon=1.0)
    assert answer.to_pandas()["unit"].tolist() == ["person"]


def test_a_plan_is_a_row():
    planned = plan(Sensitivity(l1=1.0), Laplace(scale=2.0))
    frame = planned.to_pandas()
    assert frame["error_95"].tolist() == [planned.error_95]
    assert frame["guarantee"].tolist() == ["ε = 0.5"]
    assert "layer" in planned.plot().to_dict()


def test_a_table_of_many_is_the_same_frame():
    rows = pa.table({"arm": ["A", "B"] * 300, "half": ["L", "L", "R"] * 200, "x": [float(k % 9) for k in range(600)]})
    columns = {"arm": Categories(["A", "B"]), "half": Categories(["L", "R"]), "x": Bounds(0, 8, grid=1)}
    session = Session(rows, Schema(columns=columns), ledger=":memory:", budget=GaussianDP(1.0))
    found = session.tables([["arm"], ["arm", "half"]], mu=1.0, mean_of="x")
    table = found.table("half", "arm")
    frame = table.to_pandas()
    assert list(frame.columns) == ["half", "arm", *COLUMNS]
    assert frame["measure"].tolist() == ["count", "mean of x"] * 4
    assert set(frame["unit"]) == {"row"}
    assert set(frame["guarantee"]) == {str(found.guarantee)}
    assert [cell["count"] for cell in table.cells()] == frame["estimate"].tolist()[::2]
    assert table.to_arrow().column_names == list(frame.columns)


def test_intervals_of_coefficients_are_a_frame_by_term():
    rows = pa.table({"x": [float(k % 9) for k in range(600)], "y": [float(k % 9 + k % 2) for k in range(600)]})
    columns = {"x": Bounds(0, 8, grid=1), "y": Bounds(0, 9, grid=1)}
    session = Session(rows, Schema(columns=columns), ledger=":memory:", budget=PureDP(4.0))
    found = session.regression("y", ["x"], epsilon=4.0)
    for frame, own in ((found.conf_int(), found.intervals()), (found.noise_int(0.2), found.noise_intervals(0.2))):
        assert (list(frame.columns), list(frame.index), frame.index.name) == (["low", "high"], ["const", "x"], "term")
        assert frame.loc["x"].tolist() == [own["x"].low, own["x"].high]
    assert found.summary().startswith("Least squares of y on x")
