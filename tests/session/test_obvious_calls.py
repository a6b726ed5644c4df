"""What people try first works, or is refused with the words to try next."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from discreet import (
    ApproxDP,
    Bounds,
    Categories,
    Formula,
    GaussianDP,
    Neighbours,
    PureDP,
    Schema,
    Session,
    ZeroConcentratedDP,
)
from discreet.core.errors import InvalidParameter, PlanFileError, spelling
from discreet.plans.declarations import narrowed, narrows, schema_from_dict
from discreet.plans.job import Job
from tests.questions.test_every_question import PLAN, SCHEMA, rows


def session(budget=None, data=None):
    return Session(rows() if data is None else data, SCHEMA, ledger=":memory:", budget=budget or PureDP(5.0))


@pytest.mark.parametrize(
    ("given", "guarantee"),
    [
        ({"epsilon": 0.2}, PureDP(0.2)),
        ({"epsilon": 0.2, "delta": 1e-6}, ApproxDP(0.2, 1e-6)),
        ({"rho": 0.1}, ZeroConcentratedDP(0.1)),
        ({"mu": 0.3}, GaussianDP(0.3)),
    ],
)
def test_a_guarantee_by_its_parameters(given, guarantee):
    budgets = {PureDP: PureDP(1.0), ApproxDP: ApproxDP(1.0, 1e-5), ZeroConcentratedDP: ZeroConcentratedDP(1.0)}
    asking = session(budgets.get(type(guarantee), GaussianDP(1.0)))
    planned = asking.plan.mean("age", by="arm", expected_rows=400, **given)
    assert planned == asking.plan.mean("age", guarantee=guarantee, by="arm", expected_rows=400)
    answer = asking.mean("age", by="arm", **given)
    assert answer.guarantee.within(guarantee)
    assert set(answer.mean) == {"old", "new"}


def test_the_charge_is_in_the_kind_of_the_ledger():
    asking = session(ZeroConcentratedDP(1.0))
    asking.count(epsilon=0.2)
    assert 0.018 < asking.ledger.spent().rho <= 0.2**2 / 2  # the tightest ρ of the noise that meets ε = 0.2


@pytest.mark.parametrize("ask", [lambda asked: asked.mean("age"), lambda asked: asked.plan.mean("age")])
def test_a_forgotten_guarantee_says_what_to_pass(ask):
    asking = session()
    with pytest.raises(InvalidParameter, match=r"Pass epsilon=0\.1"):
        ask(asking)
    assert asking.ledger.remaining() == PureDP(5.0)


def test_a_guarantee_is_given_once():
    with pytest.raises(InvalidParameter, match="is given already, beside epsilon"):
        session().mean("age", guarantee=PureDP(1.0), epsilon=1.0)
    with pytest.raises(InvalidParameter, match="epsilon and delta, rho, or mu"):
        session().mean("age", epsilon=1.0, rho=1.0)
    with pytest.raises(InvalidParameter, match="epsilon"):
        session().mean("age", epsilon=-1.0)


def test_a_budget_by_its_parameters():
    assert Session(rows(), SCHEMA, ledger=":memory:", epsilon=1.0).ledger.budget == PureDP(1.0)
    assert Session(rows(), SCHEMA, ledger=":memory:", epsilon=1.0, delta=1e-6).ledger.budget == ApproxDP(1.0, 1e-6)
    with pytest.raises(InvalidParameter, match="is given already, beside mu"):
        Session(rows(), SCHEMA, ledger=":memory:", budget=PureDP(1.0), mu=1.0)


def test_a_condition_stands_by_itself_behind_another():
    """Brackets that close those of the first one would read its rows in one session, and all in another."""
    with pytest.raises(InvalidParameter, match="makes no sense from"):
        session().where("age > 30").where("age > 40) or (age < 20")
    texts = ("age > 30", "(age > 30) and (age > 40) or (age < 20)")
    whole, looks_alike = (replace(SCHEMA, where=Formula(text)) for text in texts)
    assert not narrows(looks_alike, whole)
    assert narrows(narrowed(whole, "age > 40 or age < 20"), whole)


def test_a_condition_and_groups_in_any_order():
    """ε = 100: geometric noise moves a count with probability below e⁻⁹⁹."""
    asking, table = session(PureDP(900.0)), rows()
    kept = [one for one in table.to_pylist() if one["age"] is not None and one["age"] >= 30]
    by_arm = {arm: sum(one["arm"] == arm for one in kept) for arm in ("old", "new")}
    first = asking.where("age >= 30").by("arm").count(epsilon=100.0)
    second = asking.by("arm").where("age >= 30").count(epsilon=100.0)
    for found in (first, second):
        assert dict(zip(("old", "new"), np.asarray(found.value).tolist(), strict=True)) == by_arm
    assert asking.where("age >= 30").count(epsilon=100.0).value == sum(by_arm.values())
    assert set(asking.by("arm").mean("age", epsilon=100.0).mean) == {"old", "new"}
    twice = asking.where("age >= 30").where("arm == 'new'").count(epsilon=100.0, name="both")
    assert twice.value == by_arm["new"]
    assert asking.where("age >= 30").where("arm == 'new'").count(epsilon=100.0, name="both") == twice
    with pytest.raises(InvalidParameter, match="was used for a different release"):
        asking.where("age >= 31").count(epsilon=100.0, name="both")
    with pytest.raises(InvalidParameter, match="mode has no groups"):
        asking.by("arm").mode("band", epsilon=1.0)
    assert asking.by("arm").plan.mean("age", epsilon=1.0) == asking.plan.mean("age", by="arm", epsilon=1.0)


def test_every_named_question_takes_parameters():
    import inspect

    from discreet.questions import asked

    for name in asked():
        signature = inspect.signature(getattr(session(), name))
        assert {"epsilon", "delta", "rho", "mu", "name"} <= set(signature.parameters), name
        assert signature.parameters["guarantee"].default is None, name


def test_misspelt_settings_columns_and_labels_are_answered_with_the_nearest():
    asking = session()
    for planned in (asking, asking.plan):
        with pytest.raises(TypeError, match=r"bye = 'arm': is not a setting of mean\. Did you mean 'by'"):
            planned.mean("age", epsilon=0.1, bye="arm")
        with pytest.raises(InvalidParameter, match=r"column = 'aeg'.*Did you mean 'age'"):
            planned.mean("aeg", epsilon=0.1)
        with pytest.raises(InvalidParameter, match=r"label = 'Old'.*Did you mean 'old'"):
            planned.proportion("band", "Old", epsilon=0.1)
    with pytest.raises(AttributeError, match="Did you mean 'median'"):
        asking.plan.medain  # noqa: B018
    assert asking.ledger.remaining() == PureDP(5.0)


@pytest.mark.parametrize(
    ("wrong", "known", "says"),
    [
        ("Region", ["region", "age"], "Did you mean 'region'?"),
        ("zzz", ["region"], "Use one of: 'region'."),
        ("x", [], "There are none."),
        (3, [1, 2], "Use one of: 1, 2."),
        ("q", list(range(20)), "Use one of: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, …."),
    ],
)
def test_spelling(wrong, known, says):
    assert spelling(wrong, known) == says


def test_median_share_and_standard_deviation():
    """ε = 50: Laplace noise of scale 1/50 on totals of 400 rows moves each by 1 with probability e⁻⁵⁰."""
    data = pa.table(
        {
            "arm": ["old", "new"] * 200,
            "band": ["young"] * 300 + ["old"] * 100,
            "spend": [1.0, 3.0] * 200,
            "age": np.arange(400) % 40 + 20,
            "city": ["Oslo"] * 400,
        }
    )
    asking = Session(data, SCHEMA, ledger=":memory:", budget=PureDP(500.0))
    assert asking.median("age", epsilon=50.0).estimate == pytest.approx(39, abs=1)
    assert set(asking.median("age", by="arm", epsilon=50.0).estimate) == {"old", "new"}
    assert asking.proportion("band", "old", epsilon=50.0).estimate == pytest.approx(0.25, abs=0.01)
    spread = asking.std("age", epsilon=50.0)
    assert spread.estimate == spread.standard_deviation == pytest.approx(np.std(np.arange(40)), rel=0.02)
    low, high = spread.noise_interval()
    assert low <= spread.estimate <= high
    wide = spread.population_interval()
    assert wide.low <= low <= high <= wide.high
    assert spread.to_pandas()["measure"].tolist() == ["standard deviation"]
    assert str(spread).splitlines()[1].split()[:2] == ["standard", "deviation"]
    assert max(map(len, str(spread).splitlines())) <= 80
    again = type(spread).from_json(spread.to_json())
    assert (again.estimate, type(again)) == (spread.estimate, type(spread))
    groups = asking.std("age", by="arm", epsilon=50.0)
    assert groups.estimate["new"] == groups["new"].standard_deviation


def test_shorthands_are_planned_and_written_in_plan_files(tmp_path):
    import pyarrow.parquet as pq

    asking = session()
    assert asking.plan.median("age", epsilon=1.0) == asking.plan.quantile("age", 0.5, epsilon=1.0)
    assert asking.plan.proportion("band", "old", epsilon=1.0) == asking.plan.proportion(
        "band", "old", guarantee=PureDP(1.0)
    )
    assert asking.plan.std("age", epsilon=1.0).read == "the deviation"
    pq.write_table(rows(), tmp_path / "rows.parquet")
    releases = (
        '[[release]]\nname = "m"\nask = "median"\ncolumn = "age"\n'
        '[[release]]\nname = "s"\nask = "proportion"\ncolumn = "band"\nlabel = "old"\n'
        '[[release]]\nname = "d"\nask = "std"\ncolumn = "age"\nby = "arm"\n'
        '[[release]]\nname = "h"\nask = "histogram"\ncolumn = "age"\nbins = 4\n'
    )
    plan = tmp_path / "plan.toml"
    plan.write_text(f"{PLAN}\n{releases}")
    frame = Job(plan).run().to_pandas()
    assert frame["release"].tolist() == ["m", "s", "d", "d", *["h"] * 4]
    assert frame["measure"].tolist()[:4] == ["quantile", "proportion", "standard deviation", "standard deviation"]
    assert Job(plan).run().drawn == 0
    plan.write_text(f"{PLAN}\n{releases}".replace('ask = "median"\n', 'ask = "median"\nprobabilities = 0.5\n'))
    with pytest.raises(PlanFileError, match="'probabilities' is not a setting here"):
        Job(plan).plan()
    plan.write_text(f"{PLAN}\n{releases}".replace('"histogram"', '"histogramm"'))
    with pytest.raises(PlanFileError, match="Did you mean 'histogram'"):
        Job(plan).plan()


def test_bins_of_one_width():
    asking = session(PureDP(300.0))
    answer = asking.histogram("age", bins=10, epsilon=100.0)
    assert answer.table.columns["age"].edges == tuple(float(edge) for edge in range(10, 91, 8))
    assert asking.histogram("band", epsilon=100.0).table.shape == (2,)
    uneven = asking.plan.histogram("age", bins=3, epsilon=1.0).details["statistic"]["columns"]
    assert uneven[0][1]["edges"] == [10.0, 36.0, 63.0, 90.0]
    for wrong in ({}, {"bins": 0}, {"bins": 81}, {"bins": 4, "edges": [10, 90]}):
        with pytest.raises(InvalidParameter, match="bins"):
            asking.histogram("age", epsilon=1.0, **wrong)


@pytest.mark.parametrize(
    ("low", "high", "grid"),
    [
        (70, 230, 0.1),
        (0, 120, 0.1),
        (0, 1, 0.001),
        (0, 1000, 1.0),
        (0, 999, 0.1),
        (0, 250_000, 100.0),
        (-0.5, 0.25, 0.0001),
        (0, 1e9, 1e6),
        (0, 12_345, 1.0),
        (0.001, 5000, 0.001),
        (-1e6, 1e6, 1000.0),
    ],
)
def test_bounds_have_a_grid_of_their_own(low, high, grid):
    bounds = Bounds(low, high)
    assert bounds.grid == grid
    assert bounds == Bounds(low, high, grid=grid)
    assert bounds.cells > 1000
    assert schema_from_dict({"columns": {"x": {"low": low, "high": high}}}).bounds("x") == bounds


def test_a_public_size_has_a_standard_deviation_too():
    schema = Schema(
        columns={"age": Bounds(0, 100, nulls=0), "arm": Categories(["a"])}, neighbours=Neighbours.REPLACE_ONE, size=400
    )
    data = pa.table({"age": np.arange(400) % 100, "arm": ["a"] * 400})
    spread = Session(data, schema, ledger=":memory:", budget=PureDP(200.0)).std("age", epsilon=200.0)
    assert spread.estimate == pytest.approx(np.std(np.arange(100)), rel=0.02)
