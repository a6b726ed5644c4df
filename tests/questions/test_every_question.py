"""Every question of a session: planned by its twin, asked twice and paid once, and asked by a plan file."""

import inspect
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet import ApproxDP, Bounds, Categories, GaussianDP, PrivateLabels, PureDP, Schema, Session
from discreet.core.errors import InvalidParameter, PlanFileError
from discreet.plans.job import Job
from discreet.questions import asked
from discreet.results.plan import Plan

SCHEMA = Schema(
    columns={
        "arm": Categories(["old", "new"]),
        "band": Categories(["young", "old"]),
        "spend": Bounds(0, 50, grid=0.5),
        "age": Bounds(10, 90, grid=1),
        "city": PrivateLabels(),
        "shop": Categories(["east", "west", "north"]),
    }
)


NOT_PURE = {"common_labels": ApproxDP(1.0, 1e-7), "running_total": GaussianDP(1.0)}
"""What ε alone cannot pay for."""
BUDGETS = {"common_labels": ApproxDP(2.0, 2e-7), "running_total": GaussianDP(2.0)}
SEQUENCES = ("running_total",)
"""What is charged period by period, so that the first of them costs less than the guarantee of all."""


def guarantee(name):
    return NOT_PURE.get(name, PureDP(1.0))


def budget(name):
    return BUDGETS.get(name, PureDP(2.0))


def paid_once(name, left):
    """Whether as much is left as one release leaves."""
    return guarantee(name).within(left) and left != budget(name) if name in SEQUENCES else left == guarantee(name)


ASKED = {
    "profile": {"columns": ["spend", "city"]},
    "usable_values": {"columns": ["age", "arm"]},
    "dropped_rows": {"columns": ["age"], "by": ["arm"]},
    "count": {"by": ["arm"]},
    "sum": {"column": "spend", "by": ["arm"]},
    "running_total": {"over": "shop", "period": "east", "column": "spend"},
    "mean": {"column": "spend", "by": ["arm"], "expected_rows": 400},
    "proportion": {"column": "band", "label": "old", "by": ["arm"], "expected_rows": 400},
    "variance": {"column": "age", "expected_rows": 400},
    "std": {"column": "age", "expected_rows": 400},
    "covariance_matrix": {"columns": ["spend", "age"], "expected_rows": 400},
    "regression": {"column": "spend", "on": ["age", "arm"], "models": [["age"]], "expected_rows": 400},
    "slope": {"column": "spend", "on": "age", "pairs": 2, "expected_rows": 400},
    "logistic_regression": {"column": "band", "on": ["age", "arm"], "expected_rows": 400},
    "quantile": {"column": "age", "probabilities": [0.25, 0.5], "by": ["arm"]},
    "histogram": {"column": "age", "edges": [10, 30, 90]},
    "table": {"columns": ["arm", "band"]},
    "tables": {"tables": [["arm"], ["arm", "band"]]},
    "mode": {"column": "band"},
    "goodness_of_fit": {"column": "band", "probabilities": [0.5, 0.5], "expected_rows": 400},
    "homogeneity": {"column": "band", "by": "arm", "expected_rows": 400},
    "independence": {"columns": ["arm", "band"], "expected_rows": 400},
    "rank_test": {"column": "spend", "by": "shop", "edges": [0, 8, 50], "expected_rows": 400},
    "kolmogorov_smirnov": {"column": "age", "by": "arm", "bins": 5, "expected_rows": 400},
    "rank_correlation": {"columns": ["age", "spend"], "bins": {"age": 4, "spend": 4}, "expected_rows": 400},
    "signed_rank": {"column": "age", "against": "spend", "expected_rows": 400},
    "compare_means": {"column": "spend", "by": "arm", "expected_rows": 400, "expected_sd": 8.0},
    "compare_arms": {"column": "spend", "by": "shop", "expected_rows": 400, "expected_sd": 8.0},
    "clusters": {"columns": ["spend", "age"], "n_clusters": 2, "expected_rows": 400},
    "common_labels": {"column": "city"},
    "distinct": {"column": "band", "by": ["arm"]},
}


def rows(count=400):
    rng = np.random.default_rng(4)
    return pa.table(
        {
            "arm": rng.choice(["old", "new"], count),
            "band": rng.choice(["young", "old"], count, p=[0.7, 0.3]),
            "spend": np.round(rng.exponential(8, count)),
            "age": rng.integers(15, 90, count),
            "shop": np.resize(["east", "west", "north"], count),
            "city": rng.choice(["Oslo", "Bergen", "Trondheim | north"], count, p=[0.6, 0.39, 0.01]),
        }
    )


def test_no_question_is_forgotten():
    """Every question has its named method, with its own signature, and a form for each setting."""
    assert {kind.ask for kind in asked().values()} == set(ASKED)
    session = Session("no-such-file.parquet", SCHEMA, ledger=":memory:", budget=PureDP(1.0))
    told = {"guarantee", "contribution", "name", "omit", "epsilon", "delta", "rho", "mu"}
    for name, kind in asked().items():
        own = [one for one in inspect.signature(kind).parameters.values() if one.name != "schema"]
        for asking in (session, session.plan, session.by("arm")):
            assert [*inspect.signature(getattr(asking, name)).parameters.values()] == own, name
        assert set(kind.forms) == {one.name for one in own} - told, name
        assert name not in ASKED or set(ASKED[name]) <= set(kind.forms), name


@pytest.mark.parametrize("name", ASKED)
def test_a_plan_costs_nothing_and_says_what_is_read(name):
    session = Session("no-such-file.parquet", SCHEMA, ledger=":memory:", budget=budget(name))
    planned = getattr(session.plan, name)(guarantee=guarantee(name), **ASKED[name])
    assert isinstance(planned, Plan)
    assert planned.guarantee.within(guarantee(name))
    assert planned.error_95 > (-1 if name == "mode" else 0)  # the right label, in 95 of 100 runs
    assert paid_once(name, planned.remaining_after)
    assert planned.read in str(planned)
    json.dumps(planned.to_dict(), allow_nan=False)
    assert session.ledger.remaining() == budget(name)


TINY = [PureDP(1e-300), PureDP(1e-20), ApproxDP(1.0, 5e-324), GaussianDP(1e-300)]


@pytest.mark.parametrize("name", ASKED)
def test_what_buys_nothing_but_noise_is_refused_before_it_is_paid_for(name):
    """The noise would outgrow what is computed of it: errors without words, after the payment."""
    for given in TINY:
        if name not in NOT_PURE or isinstance(given, type(NOT_PURE[name])):
            whole = {PureDP: PureDP(1.0), ApproxDP: ApproxDP(1.0, 0.1), GaussianDP: GaussianDP(1.0)}[type(given)]
            session = Session(rows(50), SCHEMA, ledger=":memory:", budget=whole)
            for ask in (getattr(session.plan, name), getattr(session, name)):
                with pytest.raises(InvalidParameter, match=r"less buys nothing but noise\. Give the release more"):
                    ask(guarantee=given, **ASKED[name])
            assert session.ledger.remaining() == whole


@pytest.mark.parametrize("name", ASKED)
def test_asked_twice_and_paid_once(name, tmp_path):
    ledger = tmp_path / "ledger.sqlite"
    first = Session(rows(), SCHEMA, ledger=ledger, budget=budget(name))
    answer = getattr(first, name)(guarantee=guarantee(name), name="mine", **ASKED[name])
    again = Session("no-such-file.parquet", SCHEMA, ledger=ledger)  # a stored answer needs no data
    repeated = getattr(again, name)(guarantee=guarantee(name), name="mine", **ASKED[name])
    assert json.dumps(repeated.to_dict()) == json.dumps(answer.to_dict())
    assert paid_once(name, again.ledger.remaining())
    assert str(repeated) == str(answer)
    with pytest.raises(InvalidParameter, match="different release"):
        getattr(first, name)(guarantee=guarantee(name).split(2)[0], name="mine", **ASKED[name])
    assert paid_once(name, again.ledger.remaining())


def toml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {toml(one)}" for name, one in value.items()) + "}"
    return json.dumps(value)  # TOML's strings, numbers and lists are written as JSON's here


PLAN = """\
title = "Everything"

[source]
path = "rows.parquet"

[budget]
epsilon = 32.0

[schema.columns.arm]
categories = ["old", "new"]

[schema.columns.band]
categories = ["young", "old"]

[schema.columns.shop]
categories = ["east", "west", "north"]

[schema.columns.spend]
low = 0
high = 50
grid = 0.5

[schema.columns.age]
low = 10
high = 90
grid = 1
"""
MEDIANS = {"ask": "clusters", "columns": ["spend", "age"], "n_clusters": 2, "universe": [[5, 20], [5, 60], [9, 40]]}


def plan_of(asked, folder):
    asked = {name: settings for name, settings in asked.items() if name not in NOT_PURE}
    releases = [{"name": name, "ask": name, **settings} for name, settings in asked.items()]
    releases.append({"name": "medians", **MEDIANS})
    lines = [line for one in releases for line in ("[[release]]", *(f"{k} = {toml(v)}" for k, v in one.items()), "")]
    pq.write_table(rows(), folder / "rows.parquet")
    (folder / "plan.toml").write_text(PLAN + "\n".join(["", *lines]))
    return folder / "plan.toml"


def test_a_plan_file_asks_everything(tmp_path):
    path = plan_of(ASKED, tmp_path)
    planned = Job(path).plan()
    asked = [name for name in ASKED if name not in NOT_PURE]
    assert [name for name, _ in planned.releases] == [*asked, "medians"]
    text = str(planned)
    assert max(map(len, text.splitlines())) <= 80
    assert all(name[:10] in text for name in asked)
    shown = dict(planned.releases)
    assert all(shown[name].smallest_effect > 0 for name in ("compare_means", "independence", "goodness_of_fit"))
    result = Job(path).run()
    assert (result.drawn, result.reused) == (len(asked) + 1, 0)
    kept = json.loads(result.results.read_text())
    assert list(kept["releases"]) == [*asked, "medians"]
    page = result.markdown.read_text()
    assert "No difference between the means of" in page or "The difference is significant" in page
    assert "centre 2 · age" in page
    (tmp_path / "rows.parquet").unlink()
    assert Job(path).run().drawn == 0


def test_what_only_plans_expect_is_no_new_release(tmp_path):
    path = plan_of(ASKED, tmp_path)
    path.write_text(path.read_text().replace("ask =", "epsilon = 1.0\nask ="))
    Job(path).run()
    path.write_text(path.read_text().replace("expected_rows = 400", "expected_rows = 500"))
    assert Job(path).run().drawn == 0
    path.write_text(path.read_text().replace("expected_rows = 500", "expected_rows = 50000"))
    assert Job(path).run().drawn == 1  # clusters alone: there the number of rows sets the number of iterations


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("compare_means", 'by = "arm"', 'by = "colour"', "colour"),
        ("compare_means", "expected_sd = 8.0", "expected_sd = -1", "expected_sd"),
        ("compare_means", "expected_sd = 8.0", 'method = "9S"', "method"),
        ("clusters", "n_clusters = 2", "n_clusters = 0", "n_clusters"),
        ("mode", 'column = "band"', 'column = "bend"', "bend"),
        ("proportion", 'label = "old"', 'label = "ancient"', "ancient"),
        ("histogram", "edges = [10, 30, 90]", "edges = [20, 40, 90]", "edges"),
        ("mean", "expected_rows = 400", "expected_rows = -4", "expected_rows"),
    ],
)
def test_errors_point_at_the_setting(tmp_path, name, old, new, says):
    path = plan_of({name: ASKED[name]}, tmp_path)
    text = path.read_text()
    assert old in text
    changed = text.replace(old, new)
    path.write_text(changed)
    line = changed.splitlines().index(new) + 1
    with pytest.raises(PlanFileError, match=says) as refusal:
        Job(path).plan()
    assert str(refusal.value).startswith(f"{path}:{line}:"), refusal.value


def test_a_plan_file_asks_for_groups(tmp_path):
    pq.write_table(rows(), tmp_path / "rows.parquet")
    head = PLAN.replace("epsilon = 32.0", "epsilon = 2.0\ndelta = 2e-7")
    text = (
        head
        + "\n[schema.columns.city]\nunlisted = true\n"
        + '\n[[release]]\nname = "cities"\nask = "common_labels"\ncolumn = "city"\n'
    )
    path = tmp_path / "plan.toml"
    path.write_text(text)
    assert "hidden units" in str(Job(path).plan())
    result = Job(path).run()
    assert json.loads(result.results.read_text())["releases"]["cities"]["labels"] == ["Bergen", "Oslo"]
    assert "| Bergen | shown |" in result.markdown.read_text()
    assert Job(path).run().reused == 1
    path.write_text(text.replace("unlisted = true", "unlisted = 1"))
    with pytest.raises(PlanFileError, match="unlisted"):
        Job(path).plan()
    pure = tmp_path / "pure.toml"
    pure.write_text(text.replace("\ndelta = 2e-7", ""))
    with pytest.raises(PlanFileError, match="δ"):
        Job(pure).plan()
