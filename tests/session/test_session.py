"""Sessions: exact values, declared sensitivities that hold, plans without data, repeats without cost."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from discreet import (
    ApproxDP,
    Bounds,
    Categories,
    Contribution,
    Feature,
    GaussianDP,
    Ledger,
    Neighbours,
    PrivacyUnit,
    PureDP,
    Schema,
    Session,
    ZeroConcentratedDP,
)
from discreet.core.errors import DiscreetError, InsufficientBudget
from discreet.inference import goodness_of_fit, independence
from discreet.questions.count import CountQuestion
from discreet.questions.covariance_matrix import CovarianceMatrixQuestion
from discreet.questions.histogram import HistogramQuestion
from discreet.questions.mean import MeanQuestion
from discreet.questions.proportion import ProportionQuestion
from discreet.questions.sum import SumQuestion
from discreet.questions.tables.table import TableQuestion
from discreet.questions.variance import VarianceQuestion
from discreet.results.release import Release

ARMS = ["A", "B"]
BANDS = ["young", "old"]
COLUMNS = {
    "arm": Categories(ARMS, nulls="=A", unknown="=A"),
    "band": Categories(BANDS, nulls="=old", unknown="=old"),
    "spend": Bounds(0, 50, grid=0.5, nulls=0),
    "age": Bounds(10, 90, grid=1, nulls=40),
}
SHARP = PureDP(500.0)
ONCE = Contribution(total=1)
UNITS = PrivacyUnit("device", contribution=Contribution(groups=2, rows=2))


def make_rows(rows=400, devices=150, seed=2):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "device": rng.integers(0, devices, rows),
            "arm": rng.choice(ARMS, rows),
            "band": rng.choice(BANDS, rows, p=[0.7, 0.3]),
            "spend": np.round(rng.exponential(8, rows) * 2) / 2,
            "age": rng.integers(15, 95, rows),
        }
    )


def by_row(neighbours=Neighbours.ADD_REMOVE, size=None):
    return Schema(columns=COLUMNS, neighbours=neighbours, size=size)


PLENTY = PureDP(1000.0)


def session(rows, schema, budget=PLENTY):
    return Session(rows, schema, ledger=":memory:", budget=budget)


def test_sharp_answers_agree_with_pandas():
    rows = make_rows()
    asked = session(rows, by_row(), PureDP(10_000.0 / 10))
    spend = rows["spend"].clip(0, 50)
    assert asked.count(epsilon=50.0).value == pytest.approx(400, abs=1)
    assert asked.sum("spend", epsilon=50.0).value == pytest.approx(spend.sum(), abs=20)
    assert asked.mean("spend", epsilon=50.0).mean == pytest.approx(spend.mean(), abs=0.1)
    both = asked.mean("spend", epsilon=50.0, variance=True)
    assert both.mean == pytest.approx(spend.mean(), abs=0.1)
    assert both.standard_deviation == pytest.approx(spend.std(), abs=0.3)
    assert both.noise_interval(1 - 1e-9).contains(spend.mean())
    assert both.variance_interval(1 - 1e-9).contains(spend.var(ddof=0))
    assert asked.proportion("band", "young", epsilon=50.0).mean == pytest.approx(
        (rows["band"] == "young").mean(), abs=0.02
    )
    median = asked.quantile("age", 0.5, epsilon=50.0)
    assert median.estimate == pytest.approx(np.median(rows["age"].clip(10, 90)), abs=1)
    table = asked.table(["arm", "band"], epsilon=50.0)
    np.testing.assert_allclose(table.value, pd.crosstab(rows["arm"], rows["band"]).loc[ARMS, BANDS].to_numpy(), atol=1)
    bins = asked.histogram("age", epsilon=50.0, edges=[10, 30, 60, 90])
    np.testing.assert_allclose(bins.value, np.histogram(rows["age"].clip(10, 90), [10, 30, 60, 90.5])[0], atol=1)
    labels = asked.histogram("arm", epsilon=50.0)
    assert labels.value[0] == pytest.approx((rows["arm"] == "A").sum(), abs=1)


def test_groups_agree_with_pandas():
    rows = make_rows()
    asked = session(rows, by_row())
    spend = rows.assign(spend=rows["spend"].clip(0, 50)).groupby("arm")["spend"]
    means = asked.mean("spend", epsilon=50.0, by="arm")
    totals = asked.sum("spend", epsilon=50.0, by="arm")
    medians = asked.quantile("spend", 0.5, epsilon=50.0, by="arm")
    shares = asked.proportion("band", "young", epsilon=50.0, by="arm")
    for arm in ARMS:
        young = rows.loc[rows["arm"] == arm, "band"] == "young"
        assert shares[arm].mean == pytest.approx(young.mean(), abs=0.02)
        assert shares[arm].noise_interval(1 - 1e-9).contains(young.mean())
        assert means[arm].mean == pytest.approx(spend.mean()[arm], abs=0.2)
        assert totals[arm].value == pytest.approx(spend.sum()[arm], abs=20)
        assert medians[arm].estimate == pytest.approx(spend.median()[arm], abs=1)
    assert list(means) == ARMS
    restored = Release.from_json(means.to_json())
    assert restored["B"].mean == means["B"].mean
    assert "A" in str(means)
    with pytest.raises(DiscreetError):
        means["C"]


def test_public_sizes_give_plain_means_variances_and_covariances():
    rows = make_rows()
    asked = session(rows, by_row(Neighbours.REPLACE_ONE, size=400))
    spend, age = rows["spend"].clip(0, 50), rows["age"].clip(10, 90)
    assert asked.mean("spend", epsilon=50.0, variance=False).value == pytest.approx(spend.mean(), abs=0.05)
    assert asked.proportion("band", "young", epsilon=50.0).value == pytest.approx(
        (rows["band"] == "young").mean(), abs=0.01
    )
    assert asked.variance("spend", epsilon=50.0).variance == pytest.approx(spend.var(), abs=2)
    matrix = asked.covariance_matrix(["spend", "age"], epsilon=300.0)
    np.testing.assert_allclose(matrix.matrix, np.cov(spend, age), atol=5)
    with pytest.raises(DiscreetError, match="size"):
        session(rows, by_row(Neighbours.REPLACE_ONE, size=399)).check_source()


def test_private_sizes_give_covariances_from_totals():
    rows = make_rows()
    spend, age = rows["spend"].clip(0, 50), rows["age"].clip(10, 90)
    found = session(rows, by_row()).covariance_matrix(["spend", "age"], epsilon=300.0)
    expected = np.cov(spend, age, ddof=0)
    np.testing.assert_allclose(found.matrix, expected, atol=9)
    np.testing.assert_allclose(found.means, [spend.mean(), age.mean()], atol=0.5)
    assert found.correlation[0, 1] == pytest.approx(np.corrcoef(spend, age)[0, 1], abs=0.05)
    interval = found.noise_interval(1 - 1e-9)
    assert (np.asarray(interval.low) <= expected).all()
    assert (expected <= np.asarray(interval.high)).all()
    restored = Release.from_json(found.to_json())
    np.testing.assert_array_equal(restored.matrix, found.matrix)
    assert str(restored).startswith("Covariances")
    with pytest.raises(DiscreetError):
        session(rows, by_row()).covariance_matrix(["spend", "spend"], epsilon=1.0)


def test_tests_are_run_on_released_tables():
    rows = make_rows(rows=2000)
    asked = session(rows, by_row())
    fit = asked.goodness_of_fit("band", [0.3, 0.7], epsilon=1.0)
    assert fit.pvalue < 0.01
    assert 0 <= asked.independence(["arm", "band"], epsilon=1.0).pvalue <= 1
    assert 0 <= asked.homogeneity("band", "arm", epsilon=1.0).pvalue <= 1
    assert asked.ledger.remaining() == PureDP(997.0)
    assert "p" in str(fit)


QUESTIONS = {
    "count": lambda schema: CountQuestion(schema, epsilon=1.0),
    "table": lambda schema: TableQuestion(schema, ("arm", "band"), epsilon=1.0),
    "sum": lambda schema: SumQuestion(schema, "spend", epsilon=1.0),
    "sum by": lambda schema: SumQuestion(schema, "spend", epsilon=1.0, by="arm"),
    "mean": lambda schema: MeanQuestion(schema, "spend", epsilon=1.0),
    "mean by": lambda schema: MeanQuestion(schema, "age", epsilon=1.0, by=("arm", "band"), variance=True),
    "proportion": lambda schema: ProportionQuestion(schema, "band", "old", epsilon=1.0),
    "proportion by": lambda schema: ProportionQuestion(schema, "band", "old", epsilon=1.0, by="arm"),
    "covariances": lambda schema: CovarianceMatrixQuestion(schema, ("spend", "age"), epsilon=1.0),
    "variance": lambda schema: VarianceQuestion(schema, "age", epsilon=1.0),
    "histogram": lambda schema: HistogramQuestion(schema, "age", epsilon=1.0, edges=[10, 20, 50, 90]),
}
FEATURES = {"sums": Feature(of="spend", take="sum", low=0, high=30), "arm": Feature(of="arm", take="min")}
PER_UNIT = {
    "unit sum": lambda schema: SumQuestion(schema.per_unit(), "sums", epsilon=1.0),
    "unit mean by": lambda schema: MeanQuestion(schema.per_unit(), "sums", epsilon=1.0, by="arm", variance=True),
}


def value(rows, schema, make, ledger):
    asked = Session(rows, schema, ledger=ledger)
    return np.ravel(np.asarray(asked.exact(make(schema)).value, dtype=object))


@pytest.mark.parametrize("name", [*QUESTIONS, *PER_UNIT])
@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("unit", [None, "device"])
def test_declared_sensitivity_covers_replayed_neighbours(name, neighbours, unit):
    """Random neighbours, extreme and ordinary; the same salt, as in one ledger."""
    if unit is None and name in PER_UNIT:
        return
    make = {**QUESTIONS, **PER_UNIT}[name]
    rng = np.random.default_rng(11)
    rows = make_rows(60, 15)
    removed = rows[rows["device"] != 3] if unit else rows.iloc[1:]
    extreme = pd.DataFrame(
        {
            "device": 3,
            "arm": rng.choice(ARMS, 8),
            "band": rng.choice(BANDS, 8),
            "spend": rng.choice([0.0, 50.0], 8),
            "age": rng.choice([10, 90], 8),
        }
    )
    replacements = [extreme if unit else extreme.iloc[[i]] for i in range(1 if unit else 4)]
    replaced = [pd.concat([removed, one], ignore_index=True) for one in replacements]
    size = None if neighbours is Neighbours.ADD_REMOVE else (rows["device"].nunique() if unit else 60)
    schema = Schema(columns=COLUMNS, neighbours=neighbours, size=size, unit=UNITS if unit else PrivacyUnit())
    schema = replace(schema, features=FEATURES) if unit else schema
    budget = PureDP(10.0)
    ledger = Ledger(":memory:", budget)
    declared = make(schema).measurement.sensitivity
    base = value(rows, schema, make, ledger)
    others = replaced if neighbours is Neighbours.REPLACE_ONE else [removed]
    pairs = [(base, value(one, schema, make, ledger)) for one in others]
    if neighbours is Neighbours.ADD_REMOVE:
        left = value(removed, schema, make, ledger)
        pairs += [(left, value(one, schema, make, ledger)) for one in replaced]
    for first, second in pairs:
        gap = np.array([abs(a - b) for a, b in zip(first, second, strict=True)], dtype=object)
        assert sum(gap) <= declared.l1
        assert float(sum(gap**2)) <= declared.l2**2 * (1 + 1e-12)


@pytest.mark.parametrize("budget", [PureDP(2.0), ApproxDP(2.0, 1e-6), ZeroConcentratedDP(0.5), GaussianDP(2.0)])
def test_every_kind_of_budget(budget):
    schema = Schema(columns=COLUMNS, unit=UNITS, features=FEATURES)
    asked = session(make_rows(), schema, budget)
    parts = budget.split(4)
    asked.count(guarantee=parts[0], by="arm")
    asked.per_unit().mean("sums", guarantee=parts[1], by="arm", variance=True)
    asked.quantile("age", [0.25, 0.75], guarantee=parts[2], by="band", recursive=True)
    asked.quantile("spend", 0.9, guarantee=parts[3], interval=0.9)
    assert asked.ledger.spent().within(budget)
    with pytest.raises(InsufficientBudget):
        asked.count(guarantee=parts[0])


def test_plans_read_no_data_and_spend_nothing():
    schema = Schema(columns=COLUMNS, unit=UNITS)
    asked = Session("there-is-no-such-file.csv", schema, ledger=":memory:", budget=PureDP(1.0))
    planned = [
        asked.plan.count(epsilon=0.1),
        asked.plan.mean("spend", epsilon=0.1, by="arm", expected_rows=10_000),
        asked.plan.quantile("age", 0.5, epsilon=0.1),
        asked.plan.independence(["arm", "band"], epsilon=0.1, contribution=Contribution(total=1)),
    ]
    assert all(one.error_95 > 0 and one.to_dict() and str(one) for one in planned)
    assert planned[1].smallest_effect < 3
    assert asked.ledger.remaining() == PureDP(1.0)
    with pytest.raises(InsufficientBudget):
        asked.plan.count(epsilon=2.0)
    with pytest.raises(DiscreetError, match="no such file"):
        asked.count(epsilon=0.1)
    assert asked.ledger.remaining() == PureDP(1.0)


def test_a_repeated_request_costs_nothing_and_says_the_same(tmp_path):
    rows, schema = make_rows(), Schema(columns=COLUMNS, unit=UNITS)
    first = Session(rows, schema, ledger=tmp_path / "l.sqlite", budget=PureDP(1.0))
    answer = first.count(epsilon=1.0, by="arm", name="arms")
    again = Session(rows, schema, ledger=tmp_path / "l.sqlite")
    repeated = again.count(epsilon=1.0, by="arm", name="arms")
    np.testing.assert_array_equal(repeated.value, answer.value)
    assert repeated.release_id == answer.release_id
    with pytest.raises(InsufficientBudget):
        again.count(epsilon=0.1)


@pytest.mark.parametrize(
    "reach",
    [
        lambda s, rows: s.mean("spend", guarantee=SHARP, variance=True).population_interval(),
        lambda s, rows: s.table(["arm", "band"], guarantee=SHARP).proportions("arm").population_interval(),
        lambda s, rows: s.quantile("spend", 0.5, guarantee=SHARP, interval=0.9, rows_at_least=rows).noise_interval(),
    ],
    ids=["mean", "shares", "median"],
)
def test_copies_of_rows_say_no_more_about_the_population(reach):
    once = make_rows(400).assign(device=range(400))
    copies = pd.concat([once] * 4)
    single = reach(session(once, Schema(columns=COLUMNS, unit=PrivacyUnit("device", contribution=ONCE))), 400)
    unit = PrivacyUnit("device", contribution=Contribution(total=4))
    several = reach(session(copies, Schema(columns=COLUMNS, unit=unit)), 1600)
    np.testing.assert_allclose(several.width, single.width, rtol=0.1)


def test_tests_of_released_tables_ask_for_one_row_of_each_unit():
    asked = session(make_rows(), Schema(columns=COLUMNS, unit=UNITS))
    several = asked.table(["arm", "band"], epsilon=100.0)
    for test in (independence, lambda table: goodness_of_fit(table, [0.25] * 4), lambda table: table.odds_ratio()):
        with pytest.raises(DiscreetError, match="independent rows"):
            test(several)
    assert 0 < independence(asked.table(["arm", "band"], epsilon=100.0, contribution=ONCE)).pvalue <= 1


@pytest.mark.parametrize(
    ("ask", "truth"),
    [
        (lambda s, r: s.table(["size", "arm"], guarantee=SHARP, name=r), "count"),
        (lambda s, r: s.count(guarantee=SHARP, by=["size", "arm"], name=r), "count"),
        (lambda s, r: s.independence(["size", "arm"], guarantee=SHARP, name=r).release, "count"),
        (lambda s, r: s.homogeneity("arm", "size", guarantee=SHARP, name=r).release, "count"),
        (lambda s, r: s.mean("spend", guarantee=SHARP, by=["size", "arm"], variance=True, name=r), "mean"),
        (lambda s, r: s.sum("spend", guarantee=SHARP, by=["size", "arm"], name=r), "sum"),
    ],
    ids=["table", "count", "independence", "homogeneity", "mean", "sum"],
)
def test_cells_keep_their_labels_in_the_ledger(tmp_path, ask, truth):
    sizes = ["s", "m", "l"]  # neither columns nor labels are in the alphabet's order
    rows = make_rows(600).assign(size=np.random.default_rng(5).choice(sizes, 600, p=[0.6, 0.3, 0.1]))
    schema = Schema(columns={**COLUMNS, "size": Categories(sizes)})
    expected = rows.assign(spend=rows.spend.clip(0, 50)).groupby(["size", "arm"]).spend.agg(truth)

    def check(answer):
        found = {tuple(one.label.split(" · ")): one.estimate for one in answer.readings()}
        assert found == pytest.approx({cell: float(value) for cell, value in expected.items()}, abs=2)

    ledger = tmp_path / "l.sqlite"
    first = ask(Session(rows, schema, ledger=ledger, budget=PLENTY), "cells")
    again = ask(Session(rows, schema, ledger=ledger), "cells")
    assert again.release_id == first.release_id
    for answer in (ask(session(rows, schema), None), first, again, Release.from_json(again.to_json())):
        check(answer)
    with pytest.raises(DiscreetError):  # another order is another question
        Session(rows, schema, ledger=ledger).table(["arm", "size"], guarantee=SHARP, name="cells")


@pytest.mark.parametrize(
    "ask",
    [
        lambda s: s.count(1.0),
        lambda s: s.sum("arm", guarantee=SHARP),
        lambda s: s.sum("missing", guarantee=SHARP),
        lambda s: s.mean("spend", guarantee=SHARP, by="spend"),
        lambda s: s.count(guarantee=SHARP, by=["arm", "arm"]),
        lambda s: s.proportion("arm", "C", guarantee=SHARP),
        lambda s: s.histogram("age", guarantee=SHARP),
        lambda s: s.histogram("age", guarantee=SHARP, edges=[20, 90]),
        lambda s: s.quantile("age", 2.0, guarantee=SHARP),
        lambda s: s.per_unit().sum("spend", guarantee=SHARP),
        lambda s: s.sum("spend", guarantee=SHARP, contribution=3),
        lambda s: s.independence(["arm", "band"], guarantee=SHARP),  # several rows of a device are not independent
        lambda s: s.independence("arm", guarantee=SHARP, contribution=ONCE),
        lambda s: s.homogeneity("arm", ["band"], guarantee=SHARP, contribution=ONCE),
        lambda s: s.goodness_of_fit("arm", [0.5, 0.7], guarantee=SHARP, contribution=ONCE),
        lambda s: s.goodness_of_fit("arm", [1.0], guarantee=SHARP, contribution=ONCE),
        lambda s: s.mean("spend", guarantee=SHARP, by=3),
        lambda s: s.mean(["spend"], guarantee=SHARP),
        lambda s: s.count(rho=0.1),
        lambda s: s.count(epsilon=0.1, delta=1e-6),
    ],
)
def test_bad_questions_are_refused_before_anything_is_spent(ask):
    asked = session(make_rows(), Schema(columns=COLUMNS, unit=UNITS))
    with pytest.raises(DiscreetError):
        ask(asked)
    assert asked.ledger.remaining() == PureDP(1000.0)


def test_tables_and_groups_show_their_labels():
    asked = session(make_rows(), by_row())
    table, means = asked.table(["arm", "band"], epsilon=10.0), asked.mean("spend", epsilon=10.0, by="arm")
    for shown, labels in ((str(table), ["A · young", "B · old"]), (str(means), ["by arm", "  A ", "  B "])):
        assert all(label in shown for label in [*labels, "noise interval"])
        assert max(map(len, shown.splitlines())) <= 80
    assert "probabilities" not in str(asked.quantile("age", [0.25, 0.5], epsilon=10.0, interval=0.9))
