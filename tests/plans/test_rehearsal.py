"""Rehearsals: every question answered on rows from a scenario, with the errors, widths and power that runs have."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from discreet import (
    Bounds,
    Categories,
    Contribution,
    ExpectedLabels,
    ExpectedNumbers,
    PrivacyUnit,
    PureDP,
    Scenario,
    Schema,
    Session,
)
from discreet.core.columns import Bands, Dates
from discreet.core.errors import InvalidParameter, PlanFileError
from discreet.core.protection import Neighbours
from discreet.plans.job import Job
from discreet.questions import (
    asked,
    compare_means,  # fmt: skip
)
from discreet.questions.formulas import Formula
from tests.questions.test_every_question import ASKED, SCHEMA, guarantee

ROWS = 4000
EXPECTED = Scenario(
    rows=ROWS,
    columns={
        "spend": ExpectedNumbers(mean=8.0, sd=8.0),
        "age": ExpectedNumbers(mean=40.0, sd=14.0),
        "band": ExpectedLabels(shares=[0.7, 0.3]),
    },
)
TESTS = (
    "goodness_of_fit",
    "homogeneity",
    "independence",
    "rank_test",
    "kolmogorov_smirnov",
    "rank_correlation",
    "signed_rank",
    "compare_means",
    "compare_arms",
)
REHEARSED = [name for name in ASKED if asked()[name].rehearsed]
SETTINGS = {
    name: given | ({"expected_rows": ROWS} if "expected_rows" in given else {}) for name, given in ASKED.items()
}
# Ages are above every spending: such a share is so near to 1 that where the noise fell decides on a width.
SETTINGS["signed_rank"] |= {"against": 40}


def planning(schema=SCHEMA, scenario=EXPECTED, **options):
    return Session("none.csv", schema, ledger=":memory:", budget=PureDP(1.0)).rehearsing(scenario, **options)


def question(name, schema=SCHEMA):
    return asked()[name](schema=schema, guarantee=guarantee(name), **SETTINGS[name])


@pytest.mark.parametrize("name", REHEARSED)
def test_errors_and_widths_are_those_of_runs(name):
    """A rehearsal against releases through the session's own door, on other rows of the same kind."""
    few = name in TESTS or name in ("covariance_matrix", "tables", "logistic_regression")
    repeats = 8 if few else 60
    rehearsed = getattr(planning(repeats=repeats), name)(guarantee=guarantee(name), **SETTINGS[name])
    rng, runs = np.random.default_rng(77), []
    for _ in range(2):
        session = Session(EXPECTED.table(SCHEMA, rng), SCHEMA, ledger=":memory:", budget=PureDP(900.0))
        runs += [session.ask(question(name)).readings() for _ in range(2 if few else 8)]
    for measure in rehearsed.measures:
        own = [one for run in runs for one in run if one.measure == measure.measure]
        for kind, planned in (("noise", measure.noise_width), ("population", measure.population_width)):
            widths = [getattr(one, kind).width for one in own if getattr(one, kind) is not None]
            assert (planned is None) == (not widths)
            if widths:
                # Ends of intervals for counts are whole numbers, and those of quantiles and slopes lie on a grid: a few
                # runs meet only some.
                whole = {"dropped_rows": 1.0, "quantile": 0.5, "slope": 1e-3}.get(name)
                assert np.median(widths) == pytest.approx(planned, rel=0.1, abs=whole), (measure.measure, kind)
    assert (rehearsed.power is not None) == (name in TESTS)
    assert rehearsed.ask in str(rehearsed)


@pytest.mark.deep
def test_rehearsed_errors_are_those_of_an_independent_calculation():
    """Laplace noise on Σ(1 − u) and Σu of 4,000 rows, in numpy: mean, median and 95 % of the errors."""
    rng = np.random.default_rng(5)
    rehearsed = planning(repeats=2500).mean("spend", guarantee=PureDP(1.0))
    n, mean = ROWS, 8.0 / 50
    totals = np.array([n * (1 - mean), n * mean]) + rng.laplace(size=(100_000, 2))
    errors = 50 * np.abs(totals[:, 1] / totals.sum(axis=1) - mean)
    assert rehearsed.measures[0].median_error == pytest.approx(np.quantile(errors, 0.5), rel=0.1)
    assert rehearsed.error == pytest.approx(np.quantile(errors, 0.95), rel=0.1)


def test_the_power_of_a_comparison_is_that_of_independent_runs():
    """Sparse spending: nine in ten spend nothing, and the plan's formula cannot know."""
    schema = Schema(columns={"arm": Categories(["old", "new"]), "spend": Bounds(0, 200, grid=0.01)})
    told = ExpectedNumbers(by="arm", means=[2.0, 2.8], sd=12.0, at_low=0.9)
    rehearsing = planning(schema, Scenario(rows=6000, columns={"spend": told}), repeats=24)
    power = rehearsing.compare_means("spend", by="arm", guarantee=PureDP(1.0)).power
    rng, found = np.random.default_rng(6), 0
    for _ in range(200):
        old, new = (told.draw(3000, (0, 200), rng, mean) for mean in told.means)
        found += compare_means(
            new, old, bounds=(0, 200), guarantee=PureDP(1.0), neighbours=Neighbours.ADD_REMOVE, rng=rng
        ).pvalue <= 0.05  # fmt: skip
    assert power == pytest.approx(found / 200, abs=0.33)  # three standard errors


@pytest.mark.parametrize("mean", [1.0, 20.0, 49.0])
def test_numbers_have_the_mean_and_the_spread(mean):
    drawn = ExpectedNumbers(mean=mean, sd=0.9, at_low=0.0).draw(200_000, (0, 50), np.random.default_rng(1))
    assert drawn.mean() == pytest.approx(mean, abs=0.02)
    assert drawn.std() == pytest.approx(0.9, rel=0.02)


def test_rows_are_as_declared():
    unit = PrivacyUnit("person", contribution=Contribution(rows=2))
    columns = {"arm": Categories(["a", "b"]), "y": Bounds(0, 10, grid=1), "z": Categories(["u", "v"])}
    scenario = Scenario(
        rows=20_000,
        rows_per_unit=3.0,
        columns={
            "arm": ExpectedLabels(by="z", shares=[[0.9, 0.1], [0.2, 0.8]]),
            "y": ExpectedNumbers(by="arm", means=[2.0, 5.0], sd=1.0),
        },
    )
    frame = scenario.table(Schema(columns=columns, unit=unit), np.random.default_rng(2)).to_pandas()
    assert len(frame) == 20_000
    assert frame.groupby("person").size().mean() == pytest.approx(3.0, rel=0.1)
    assert (frame[frame.z == "u"].arm == "a").mean() == pytest.approx(0.9, abs=0.02)
    assert frame.groupby("arm").y.mean().to_dict() == pytest.approx({"a": 2.0, "b": 5.0}, abs=0.05)


def test_dates_bands_and_computed_columns_are_drawn_too():
    columns = {
        "born": Dates("1950-01-01", "2010-12-31"),
        "age": Bands(edges=[0, 18, 65, 100]),
        "y": Bounds(0, 10, grid=1),
        "high": Categories([True, False], value=Formula("y > 5")),
    }
    schema = Schema(columns=columns)
    rows = Scenario(rows=900).table(schema, np.random.default_rng(1))
    assert "high" not in rows.column_names
    session = Session(rows, schema, ledger=":memory:", budget=PureDP(100.0))
    counts = session.count(epsilon=50.0, by="age").value
    assert np.asarray(counts) == pytest.approx(300, abs=60)  # four standard deviations
    assert 0.2 < session.proportion("high", True, epsilon=50.0).mean < 0.5
    with pytest.raises(InvalidParameter, match="computed from other columns"):
        Scenario(rows=9, columns={"high": ExpectedLabels(shares=[0.5, 0.5])}).check(schema)


PLAN = """
[source]
path = "later.csv"
[budget]
epsilon = 1.0
[schema.columns.age]
low = 0
high = 100
grid = 1
[[release]]
name = "age"
ask = "mean"
column = "age"
[scenario]
rows = 500
[scenario.columns.age]
mean = 40
sd = 12
"""


def test_a_plan_file_is_rehearsed_and_needs_no_data(tmp_path):
    file = tmp_path / "plan.toml"
    file.write_text(PLAN)
    planned = Job(file).plan()
    [(name, rehearsed)] = planned.rehearsals
    assert name == "age"
    assert 0.2 < rehearsed.error < 2.0
    assert "Rehearsed 200 times" in str(planned)
    assert planned.to_dict()["rehearsals"][0]["measures"][0]["measure"] == "mean"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("sd = 12", "sd = 90", "no numbers in"),
        ("sd = 12", "ds = 12", "ds"),
        ("rows = 500", "rows = 0", "rows"),
        ("[scenario.columns.age]", "[scenario.columns.height]", "height"),
        ("mean = 40\n", "", "mean"),
    ],
)
def test_mistakes_in_a_scenario_are_refused(tmp_path, old, new, says):
    file = tmp_path / "plan.toml"
    file.write_text(PLAN.replace(old, new))
    with pytest.raises((PlanFileError, InvalidParameter), match=says):
        Job(file).plan()


def test_groups_and_clusters_have_exact_plans_instead():
    with pytest.raises(InvalidParameter, match="its plan is exact"):
        planning().clusters(["spend", "age"], 2, epsilon=1.0)


def test_earlier_releases_make_a_scenario():
    rows = EXPECTED.table(SCHEMA, np.random.default_rng(3))
    session = Session(rows, SCHEMA, ledger=":memory:", budget=PureDP(20.0))
    made = Scenario.like(
        9000,
        spend=session.mean("spend", epsilon=9.0, variance=True),
        band=session.table("band", epsilon=9.0),
    )
    assert made.columns["spend"].mean == pytest.approx(8.0, abs=0.6)
    assert made.columns["band"].shares[0] == pytest.approx(0.7, abs=0.03)
    with pytest.raises(InvalidParameter, match="mean with its spread"):
        Scenario.like(9000, spend=session.sum("spend", epsilon=1.0))


@pytest.fixture(scope="module")
def study():
    path = Path(__file__).parents[2] / "benchmarks" / "planned_errors.py"
    return runpy.run_path(str(path))


def holds(row):
    """Errors within 10 % and the error of the simulation; widths within 10 %; power within that error."""
    planned, realised = row["planned"], row["realised"]
    assert abs(planned - realised) <= (0.1 + 2.6 * row["ratio_error"]) * realised, row
    for kind in ("noise_width", "population_width"):
        expected, found = row[kind]
        assert (expected is None) == (found is None)
        assert expected is None or expected == pytest.approx(found, rel=0.1), row
    if row["power"] is not None:
        expected, found = row["power"]
        error = np.sqrt(max(found * (1 - found), 0.05) * 2 / row["repeats"])
        assert expected == pytest.approx(found, abs=0.05 + 3 * error), row


def test_the_stored_study_of_rehearsals_holds(study):
    rows = json.loads(study["STORED"].read_text(encoding="utf-8"))
    assert len({row["ask"] for row in rows}) >= 18
    for row in rows:
        holds(row)


@pytest.mark.deep
@pytest.mark.parametrize("name", REHEARSED)
def test_rehearsals_hold_in_a_new_run(study, name):
    if name in study["ASKED"]:
        for row in study["compared"](name, 400):
            holds(row)
