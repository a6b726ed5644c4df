"""Outputs that lie where the statistic can lie, as a setting of means, variances, deviations and proportions."""

import re

import numpy as np
import pyarrow
import pytest

from discreet import ApproxDP, Bounds, Categories, GaussianDP, PureDP, Schema, Session, ZeroConcentratedDP, release
from discreet.core.errors import InvalidParameter
from discreet.core.protection import Neighbours
from discreet.plans.job import Job
from discreet.plans.plan_file import PlanFile
from discreet.questions.covariance_matrix import CovarianceMatrixQuestion
from discreet.questions.mean import MeanQuestion
from discreet.questions.proportion import ProportionQuestion
from discreet.questions.variance import VarianceQuestion

N = 200
SCHEMA = Schema(
    columns={"x": Bounds(0, 20, grid=1, nulls=0), "v": Categories(["yes", "no"], nulls="=no", unknown="=no")},
    neighbours=Neighbours.REPLACE_ONE,
    size=N,
)
ASKED = {
    "mean": (lambda s, **how: s.mean("x", **how), (0, 20), lambda x, v: x.mean()),
    "variance": (lambda s, **how: s.variance("x", **how), (0, 100 * N / (N - 1)), lambda x, v: x.var(ddof=1)),
    "std": (lambda s, **how: s.std("x", **how), (0, 10.1), lambda x, v: x.std(ddof=1)),
    "proportion": (lambda s, **how: s.proportion("v", "yes", **how), (0, 1), lambda x, v: (v == "yes").mean()),
}
OUTPUTS = ["bounded", "inflated"]
POPULATIONS = {
    "few yeses": lambda rng, n: np.where(rng.random(n) < 0.02, 20.0, 0.0),
    "lognormal": lambda rng, n: np.round(rng.lognormal(1, 1, n).clip(0, 20)),
    "two modes": lambda rng, n: rng.choice([0.0, 1.0, 19.0, 20.0], n),
}


def session(x, v=None, budget=900.0):
    yes = np.where(x > 9, "yes", "no") if v is None else v
    return Session(pyarrow.table({"x": x, "v": yes}), SCHEMA, ledger=":memory:", budget=PureDP(budget))


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("name", ASKED)
def test_what_is_published_lies_where_the_statistic_can_lie(name, output):
    ask, (low, high), _ = ASKED[name]
    mine = session(np.zeros(N))  # every truth is at its lower end
    found = [ask(mine, epsilon=0.1, output=output) for _ in range(30)]
    values = [one.readings()[0].estimate for one in found]
    assert low <= min(values) <= max(values) <= high
    assert (min(values) == low) == (output == "inflated")  # conditioned noise never publishes an end
    assert all(one.guarantee.epsilon <= 0.1 for one in found)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("name", ["mean", "variance", "proportion"])
def test_a_plan_states_bias_and_error_as_the_law_has_them(name, output):
    ask, _, _ = ASKED[name]
    mine = session(np.zeros(N))
    planned, usual = ask(mine.plan, epsilon=0.5, output=output), ask(mine.plan, epsilon=0.5)
    mechanism = ask(mine, epsilon=0.5, output=output).mechanism
    low, high = mechanism.bounds
    law = mechanism.law(np.linspace(low, high, 21))
    (note,) = (note for note in planned.notes if note.startswith("output"))
    told = [float(word.rstrip(",;")) for word in note.split() if word[0].isdigit()]
    wanted = [np.abs(law.bias).max(), np.mean(law.mse), np.max(law.mse), usual.standard_error**2]
    assert told == pytest.approx(wanted, rel=0.01)


@pytest.mark.parametrize("kind", [ApproxDP(0.5, 1e-6), GaussianDP(0.5), ZeroConcentratedDP(0.1)], ids=str)
@pytest.mark.parametrize("output", OUTPUTS)
def test_every_kind_of_guarantee_pays_for_it(kind, output):
    mine = Session(pyarrow.table({"x": np.zeros(N), "v": ["no"] * N}), SCHEMA, ledger=":memory:", budget=kind)
    found = mine.mean("x", guarantee=kind, output=output)
    assert 0 <= found.mean <= 20
    with pytest.raises(Exception, match="left"):
        mine.mean("x", guarantee=kind, output=output)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("population", POPULATIONS)
@pytest.mark.parametrize("name", ["mean", "variance"])
def test_intervals_hold_for_populations_that_nobody_tuned_to(name, population, output):
    """Of 24 intervals, 95 % hold: fewer than 18 have a chance of 0.013 %."""
    _, _, truth = ASKED[name]
    rng = np.random.default_rng(5)
    everybody = POPULATIONS[population](rng, 400_000)
    wanted, covered, noise = truth(everybody, None), 0, 0
    question = {"mean": MeanQuestion, "variance": VarianceQuestion}[name](SCHEMA, "x", epsilon=0.5, output=output)
    statistic = question.measurement.statistic
    for _ in range(24):
        x = POPULATIONS[population](rng, N)
        answer = release(statistic.exact(x, neighbours=Neighbours.REPLACE_ONE), question.measurement.mechanism, rng=rng)
        covered += bool(answer.population_interval().contains(wanted))
        noise += bool(answer.noise_interval().contains(truth(x, None)))
    assert covered >= 18
    assert noise >= 18


def test_a_variance_moves_by_no_more_than_is_stated():
    """Replace any row by any other, over all columns of four rows on a small grid."""
    columns = {"x": Bounds(0, 2, grid=1, nulls=0)}
    schema = Schema(columns=columns, neighbours=Neighbours.REPLACE_ONE, size=4)
    question = VarianceQuestion(schema, "x", epsilon=1.0, output="bounded")
    largest = 0.0
    for rows in np.ndindex(3, 3, 3):
        values = []
        for last in range(3):
            table = pyarrow.table({"x": [float(one) for one in (*rows, last)]})
            mine = Session(table, schema, ledger=":memory:", budget=PureDP(1.0))
            values.append(float(mine.exact(question).value))
            assert values[-1] == pytest.approx(np.var([*rows, last], ddof=1))
        largest = max(largest, max(values) - min(values))
    assert 0.99 * question.measurement.sensitivity.l1 <= largest <= question.measurement.sensitivity.l1 == 1.0


@pytest.mark.parametrize(
    ("schema", "how", "says"),
    [
        (SCHEMA, {"output": "truncated"}, "exceeds the guarantee"),
        (SCHEMA, {"output": "clipped"}, "must be one of 'bounded', 'inflated'"),
        (SCHEMA, {"output": "bounded", "by": "v"}, "public number of rows"),
        (SCHEMA, {"output": "bounded", "variance": True}, "public number of rows"),
        (Schema(columns=SCHEMA.columns), {"output": "inflated"}, "lies within the bounds anyway"),
    ],
)
def test_what_has_no_such_output_is_refused_in_words(schema, how, says):
    table = pyarrow.table({"x": np.zeros(N), "v": ["no"] * N})
    with pytest.raises(InvalidParameter, match=says):
        Session(table, schema, ledger=":memory:", budget=PureDP(1.0)).mean("x", epsilon=1.0, **how)


def test_a_plan_file_names_the_output_and_another_one_is_another_question(tmp_path):
    text = """
[source]
path = "rows.csv"
[budget]
epsilon = 4.0
[schema]
neighbours = "replace_one"
size = 200
[schema.columns.x]
low = 0
high = 20
grid = 1
nulls = 0
[[release]]
ask = "std"
column = "x"
output = "bounded"
epsilon = 1.0
"""
    (tmp_path / "rows.csv").write_text("x\n" + "3\n5\n" * (N // 2))
    plan = tmp_path / "plan.toml"
    plan.write_text(text)
    assert "bias of up to" in str(Job(plan).plan()).replace("\n", " ")
    (row,) = Job(plan).run().rows()
    assert 0 < row["estimate"] < 10.1
    assert Job(plan).finished()
    plan.write_text(text.replace("bounded", "inflated"))
    assert not Job(plan).finished()
    assert PlanFile.read(plan).questions[0].question.content()["output"] == "inflated"


@pytest.mark.parametrize("name", ASKED)
def test_a_plan_lists_what_else_could_answer_at_the_same_guarantee(name):
    """Bias and error of each row, against draws; and what the declarations do not allow is not listed."""
    ask, (low, high), _ = ASKED[name]
    mine = session(np.zeros(N))
    found = {row["setting"] or row["mechanism"]: row for row in ask(mine.plan, epsilon=0.3).alternatives().rows()}
    assert {"output = 'bounded'", "output = 'inflated'"} < found.keys()
    assert found == {
        row["setting"] or row["mechanism"]: row
        for row in ask(mine.plan, epsilon=0.3, output="bounded").alternatives().rows()
    }
    rng = np.random.default_rng(3)
    for output in OUTPUTS:
        row, mechanism = found[f"output = {output!r}"], ask(mine, epsilon=0.3, output=output).mechanism
        assert low == row["lowest"] < row["highest"] <= high
        read = np.sqrt if name == "std" else np.asarray
        truths = np.linspace(*mechanism.bounds, 21)
        errors = np.array([read(mechanism.law(one).quantile(rng.random(20_000))) - read(one) for one in truths])
        assert row["bias"] == pytest.approx(np.abs(errors.mean(axis=1)).max(), rel=0.05)
        assert row["rmse"] == pytest.approx(np.sqrt((errors**2).mean()), rel=0.05)
    rmse = [row["rmse"] for row in ask(mine.plan, epsilon=0.3).alternatives().rows()]
    assert rmse == sorted(rmse)


def test_alternatives_know_the_other_noise_and_print_well():
    schema = Schema(columns={"x": Bounds(0, 20, grid=1), "v": Categories(["yes", "no"])})
    mine = Session(pyarrow.table({"x": [1.0], "v": ["yes"]}), schema, ledger=":memory:", budget=GaussianDP(1.0))
    count = mine.plan.count(mu=0.5).alternatives()
    assert {row["mechanism"]: row["bias"] for row in count.rows()} == {"gaussian": 0.0, "laplace": 0.0}
    for ratio in (
        mine.plan.mean("x", mu=0.5),
        mine.plan.proportion("v", "yes", mu=0.5),
        mine.plan.quantile("x", 0.5, mu=0.5),
    ):
        assert {row["bias"] for row in ratio.alternatives().rows()} == {None}
    shrunk = mine.plan.table(["v"], mu=0.5).alternatives()
    assert [row["setting"] for row in shrunk.rows() if row["setting"]] == ["shrink = True"]
    assert all("error" in words for _, words in shrunk.facts())
    assert count.to_dict()["mechanisms"] == count.rows()
    assert len(count.to_pandas()) == 2
    assert "others" not in mine.plan.count(mu=0.5).to_dict()
    assert mine.ledger.remaining() == GaussianDP(1.0)


PAIR = Schema(
    columns={"x": Bounds(0, 20, grid=1, nulls=0), "y": Bounds(-1, 1, grid=0.25, nulls=0)},
    neighbours=Neighbours.REPLACE_ONE,
    size=N,
)


@pytest.mark.parametrize("output", OUTPUTS)
def test_a_covariance_matrix_that_is_published_can_exist(output):
    """Its variances lie in their domains, it has no negative eigenvalue, and the value behind it is numpy's."""
    rng = np.random.default_rng(8)
    table = pyarrow.table({"x": rng.integers(0, 21, N).astype(float), "y": rng.integers(-4, 5, N) / 4})
    mine = Session(table, PAIR, ledger=":memory:", budget=PureDP(100.0))
    question = CovarianceMatrixQuestion(PAIR, ["x", "y"], epsilon=1.0, output=output)
    wanted = np.cov(table["x"].to_numpy(), table["y"].to_numpy())
    exact = mine.exact(question)
    assert [float(one) for one in exact.value] == pytest.approx([wanted[0, 0], wanted[1, 1], wanted[0, 1]])
    # The widths are 20 and 2, so one row moves the entries by 400/n, 4/n and 40/n.
    assert exact.sensitivity.l1 == pytest.approx(444 / N)
    for _ in range(20):
        found = mine.covariance_matrix(["x", "y"], epsilon=0.5, output=output)
        assert np.linalg.eigvalsh(found.matrix).min() >= -1e-9
        assert np.all(np.diag(found.matrix) <= np.array([100, 1]) * N / (N - 1))
    assert [one.labels for one in found.readings(["x", "y"])][2] == {"column": "x", "with": "y"}
    assert found.guarantee == PureDP(0.5)


@pytest.mark.parametrize("output", OUTPUTS)
def test_intervals_of_a_matrix_that_can_exist_hold(output):
    """Of 40 intervals of a covariance, 95 % hold: fewer than 33 have a chance of 0.06 %."""
    rng = np.random.default_rng(9)
    question = CovarianceMatrixQuestion(PAIR, ["x", "y"], epsilon=1.0, output=output)
    statistic, noise, population = question.measurement.statistic, 0, 0
    wanted = 40 / 12 * 0.8  # of y = x/10 − 1 for four rows of five, and an independent y otherwise
    for _ in range(40):
        x = rng.uniform(0, 20, N)
        y = np.where(rng.random(N) < 0.8, x / 10 - 1, rng.uniform(-1, 1, N))
        exact = statistic.exact((x, y), neighbours=Neighbours.REPLACE_ONE)
        answer = release(exact, question.measurement.mechanism, rng=rng)
        noise += bool(answer.noise_interval().low[2] <= np.cov(x, y)[0, 1] <= answer.noise_interval().high[2])
        population += bool(answer.population_interval(j=0, k=1).contains(wanted))
    assert noise >= 33
    assert population >= 33


def test_a_plan_of_a_matrix_states_bias_and_error_as_draws_have_them():
    mine = Session(pyarrow.table({"x": np.zeros(N), "y": np.zeros(N)}), PAIR, ledger=":memory:", budget=GaussianDP(1.0))
    found = {row["setting"]: row for row in mine.plan.covariance_matrix(["x", "y"], mu=0.5).alternatives().rows()}
    bounded, inflated = (found[f"output = {output!r}"] for output in OUTPUTS)
    assert bounded["bias"] is None  # its scale is searched for at each draw
    mechanism = mine.covariance_matrix(["x", "y"], mu=0.5, output="inflated").mechanism
    errors = mechanism.simulate(np.zeros(3), 4000, rng=3)  # at the lower ends, where clamped noise is biased most
    assert inflated["bias"] == pytest.approx(np.abs(errors.mean(axis=0)).max(), rel=0.15)
    assert inflated["rmse"] > 0.5 * np.sqrt((errors**2).mean(axis=0)).max()
    assert (inflated["lowest"], inflated["highest"]) == pytest.approx((-10 * N / (N - 1), 100 * N / (N - 1)))


def test_a_variance_that_came_out_as_zero_leaves_a_covariance_its_whole_range():
    question = CovarianceMatrixQuestion(PAIR, ["x", "y"], epsilon=0.01, output="inflated")
    exact = question.measurement.statistic.exact((np.zeros(N), np.zeros(N)), neighbours=Neighbours.REPLACE_ONE)
    found = [release(exact, question.measurement.mechanism, rng=seed) for seed in range(8)]
    assert any(0 in one.measured[:2] for one in found)
    for one in found:
        low, high = one.population_interval(j=0, k=1)
        assert low <= 0 <= high


@pytest.mark.parametrize("output", [None, "bounded", "inflated", "all_but_one", "universal_histogram"])
def test_shares_of_all_labels_add_up_to_one(output):
    labels = ["a", "b", "c", "d"]
    schema = Schema(
        columns={"v": Categories(labels, nulls="=a", unknown="=a")}, neighbours=Neighbours.REPLACE_ONE, size=N
    )
    mine = Session(pyarrow.table({"v": ["b"] * 150 + ["c"] * 50}), schema, ledger=":memory:", budget=PureDP(99.0))
    question = ProportionQuestion(schema, "v", epsilon=0.5, output=output)
    exact = mine.exact(question)
    assert [float(share) for share in exact.value] == [0, 0.75, 0.25, 0]
    assert exact.sensitivity.l1 == 2 / N
    held = 0
    for _ in range(20):
        found = mine.proportion("v", epsilon=0.5, output=output)
        assert sum(found.shares.values()) == pytest.approx(1)
        assert min(found.shares.values()) >= 0
        held += bool(found.readings()[1].noise.contains(0.75))
    assert held >= 15  # of 20 intervals at 95 %: fewer have a chance of 0.03 %
    assert found.guarantee.epsilon <= 0.5
    assert re.search(r"^  b +[67]\d", str(found), re.MULTILINE)


def test_shares_of_all_labels_need_a_public_number_of_rows():
    mine = Session(
        pyarrow.table({"v": ["a"]}),
        Schema(columns={"v": Categories(["a", "b"])}),
        ledger=":memory:",
        budget=PureDP(1.0),
    )
    with pytest.raises(InvalidParameter, match="label = None: is needed"):
        mine.proportion("v", epsilon=1.0)
