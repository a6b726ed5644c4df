"""Formulas of regressions: the designs of formulaic, interactions by hand, sensitivities by brute force, refusals."""

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest

from discreet import Bounds, Categories, Dates, Feature, Formula, PrivacyUnit, Schema, Session
from discreet.core.errors import DiscreetError, InvalidParameter, WrongType
from discreet.core.protection import Neighbours
from discreet.mechanisms import Laplace
from discreet.plans.job import Job
from discreet.questions.regression.fit import FittedModel
from discreet.questions.regression.linear import RegressionQuestion
from discreet.questions.regression.logistic import LogisticQuestion
from discreet.questions.regression.moments import RegressionMoments, first_fit, knows_squares
from discreet.results.release import Release

pytest.importorskip("formulaic", reason="needs the extra formulas")
COLUMNS = {
    "age": Bounds(18, 90, grid=1),
    "educ": Bounds(0, 5, grid=1),
    "sex": Categories(["f", "m"]),
    "region": Categories(["north", "o'south", "west"]),
    "pay": Bounds(0, 100, grid=1),
    "owner": Categories([False, True]),
}
SCHEMA = Schema(columns=COLUMNS)


def people(size):
    rng = np.random.default_rng(5)
    age, educ = rng.integers(18, 91, size), rng.integers(0, 6, size)
    sex, region = rng.integers(2, size=size), rng.integers(3, size=size)
    pay = 20 + 0.3 * age + 2 * educ * (sex + 1) + 0.2 * age * (region == 1) + 5 * sex * (region == 2)
    return pa.table({
        "age": age, "educ": educ, "sex": np.array(["f", "m"])[sex],
        "region": np.array(["north", "o'south", "west"])[region],
        "pay": np.clip(np.round(pay + rng.normal(0, 8, size)), 0, 100).astype(int), "owner": rng.random(size) < 0.4,
    })  # fmt: skip


def without_noise(session, question):
    """The fit of the exact totals, in the units of the data, with its covariance."""
    moments = question.measurement.statistic
    own = session._own(question)
    exact = question.measurement.exact(own._rows(question, *own._check(question)))
    assert isinstance(moments, RegressionMoments)
    assert knows_squares(moments)
    fit = first_fit(moments, [(Laplace(scale=1e-9), exact)], None, 1)
    design = FittedModel(moments.explained, moments.terms(moments.on), moments.labels, fit, fit)
    return design.units @ fit.coefficients + design.shifts, design.units @ fit.covariance() @ design.units.T, design


def by_hand(formula, table):
    """Least squares by the design matrix that formulaic makes of the rows, with robust covariances (HC1)."""
    from formulaic import model_matrix

    frame = table.to_pandas()
    frame["region"] = frame["region"].astype("category")
    y, z = (np.asarray(one, dtype=float) for one in model_matrix(formula, frame, context={"log1p": np.log1p}))
    inverse = np.linalg.inv(z.T @ z)
    b = inverse @ z.T @ y[:, 0]
    left = y[:, 0] - z @ b
    meat = (z * left[:, None] ** 2).T @ z
    return b, inverse @ meat @ inverse * len(z) / (len(z) - z.shape[1])


@pytest.mark.parametrize(
    "formula",
    ["pay ~ age * sex", "pay ~ age:sex", "pay ~ age + C(sex) * region", "pay ~ sex:region + age",
     "pay ~ age * region * sex", "pay ~ (age + sex)**2", "pay ~ age / sex", "pay ~ age + I(age > 40)",
     "pay ~ age + age:region", "pay ~ educ + educ:sex:region"],
)  # fmt: skip
def test_designs_are_those_of_formulaic(formula):
    table = people(600)
    session = Session(table, SCHEMA, ledger=":memory:", epsilon=1.0)
    question = RegressionQuestion(SCHEMA, formula=formula, epsilon=1.0)
    found, covariance, _ = without_noise(session, question)
    expected, by_rows = by_hand(formula, table)
    assert len(found) == len(expected)
    # The columns of another order and coding span the same: sort by value where names differ.
    assert np.allclose(np.sort(found), np.sort(expected), rtol=1e-5, atol=1e-7)
    assert np.allclose(np.sort(np.diag(covariance)), np.sort(np.diag(by_rows)), rtol=1e-4)


def test_a_computed_interaction_is_measured_between_the_hull_of_its_products():
    question = RegressionQuestion(SCHEMA, formula="pay ~ age * educ + age:sex", epsilon=1.0)
    assert question.schema.bounds("age:educ") == Bounds(0, 450, grid=1, value=Formula('"age" * "educ"'))
    assert question.schema.bounds("age:sex[m]").low == 0  # the indicator may be 0
    negative = Schema(columns={**COLUMNS, "t": Bounds(-3, -1, grid=0.5)})
    column = RegressionQuestion(negative, formula="pay ~ t:age + t:sex", epsilon=1.0).schema.bounds("t:age")
    assert (column.low, column.high, column.grid) == (-270.0, -18.0, 0.5)
    table = people(4000)
    session = Session(table, SCHEMA, ledger=":memory:", epsilon=1000.0)
    answer = session.regression(formula="pay ~ age * educ", epsilon=900.0)
    expected, by_rows = by_hand("pay ~ age * educ", table)
    assert list(answer.params) == ["const", "age", "educ", "age:educ"]
    assert np.allclose(answer.estimate, expected, atol=0.5 * np.sqrt(np.diag(by_rows)))


@pytest.mark.parametrize(
    "formula",
    ["pay ~ age * educ", "pay ~ age * sex", "pay ~ educ + sex * region", "pay ~ I(age * (educ - 2)) + log1p(age)"],
)
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_no_row_moves_the_totals_by_more_than_declared(formula, neighbours):
    values = {
        "age": [18, 90, 54, -1000, None], "educ": [0, 5, 99], "sex": ["f", "m", None], "region": ["west", "nowhere"],
        "pay": [0, 100, None], "owner": [True],
    }  # fmt: skip
    universe = [dict(zip(values, one, strict=True)) for one in itertools.product(*values.values())]
    universe = universe[:: max(1, len(universe) // 9)]
    replaced = neighbours is Neighbours.REPLACE_ONE
    schema = Schema(columns=COLUMNS, neighbours=neighbours, size=2 if replaced else None)
    question = RegressionQuestion(schema, formula=formula, epsilon=1.0)
    found, base = question.measurement, dict.fromkeys(values)

    def exact(*rows):
        table = pa.Table.from_pylist([base | {"age": 30, "educ": 1, "sex": "m", "region": "west", "pay": 9}, *rows])
        session = Session(table, schema, ledger=":memory:", epsilon=1.0)
        return np.array([float(one) for one in np.ravel(session.exact(question).value)])

    totals = [exact(row) for row in universe]
    others = totals if replaced else [exact()]
    moves = [one - other for one in totals for other in others]
    declared = found.sensitivity
    assert max(np.abs(one).sum() for one in moves) <= (declared.l1 or math.inf) + 1e-9
    assert max(np.abs(one).max() for one in moves) <= (declared.linf or math.inf) + 1e-9
    assert max(np.linalg.norm(one) for one in moves) <= (declared.l2 or math.inf) + 1e-9
    assert max(np.abs(one).sum() for one in moves) > 0


def test_interactions_with_labels_cost_no_more_noise_than_their_columns():
    alone = RegressionQuestion(SCHEMA, "pay", ["age", "sex"], epsilon=1.0).measurement
    both = RegressionQuestion(SCHEMA, formula="pay ~ age * sex", epsilon=1.0).measurement
    assert both.mechanism == alone.mechanism
    assert both.statistic.size == alone.statistic.size


def test_sessions_plans_and_stored_answers_read_formulas():
    table = people(3000)
    session = Session(table, SCHEMA, ledger=":memory:", epsilon=100.0)
    planned = session.plan.regression(formula="pay ~ age * C(sex)", epsilon=20.0, expected_rows=3000)
    assert [name for name, _, _ in planned.parts] == ["age", "sex[m]", "age:sex[m]"]
    assert planned.parts[0][1:] == pytest.approx((planned.error_95, planned.smallest_effect))
    answer = session.regression(formula="pay ~ age * C(sex)", epsilon=20.0, name="pay")
    again = session.regression(formula="pay ~ age + sex + sex:age", epsilon=20.0, name="pay")
    assert again.to_dict() == answer.to_dict()  # the same question
    assert "age:sex[m]" in str(answer.summary())
    stored = Release.from_dict(answer.to_dict())
    assert stored.predict({"age": 40, "sex": "m"}).estimate == answer.predict({"age": 40, "sex": "m"}).estimate
    by_hand_at = sum(value * term for value, term in zip(answer.params.values(), (1, 40, 1, 40), strict=True))
    assert answer.predict({"age": 40, "sex": "m"}).estimate == pytest.approx(by_hand_at)
    assert answer.wald_test("age:sex").df == 1
    assert list(answer.model("age", "age:sex").params) == ["const", "age", "age:sex[m]"]
    narrowed = session.where("region == 'west'").regression(formula="pay ~ age * sex", epsilon=20.0)
    assert 500 < narrowed.nobs < 1500
    with pytest.raises(InvalidParameter, match="must have a value for each of"):
        answer.predict({"age": 40})


def test_computed_interactions_are_read_once_and_beside_the_declared_columns():
    session = Session(people(500), SCHEMA, ledger=":memory:", epsilon=100.0)
    first, second = (
        RegressionQuestion(SCHEMA, formula=f"pay ~ age * educ{more}", epsilon=9.0) for more in ("", " + sex")
    )
    assert session._own(first) is session._own(second) is not session
    changed = Schema(columns={**COLUMNS, "age": Bounds(0, 60, grid=1)})
    with pytest.raises(InvalidParameter, match="other declarations"):
        session.ask(RegressionQuestion(changed, formula="pay ~ age * educ", epsilon=1.0))
    more = Schema(columns={**COLUMNS, "extra": Bounds(0, 60, grid=1)})
    with pytest.raises(InvalidParameter, match="other declarations"):
        session.ask(RegressionQuestion(more, "pay", "age", epsilon=1.0))


def test_models_named_before_the_release_may_name_interactions():
    question = RegressionQuestion(SCHEMA, formula="pay ~ age * educ + sex", models=[["age", "age:educ"]], epsilon=1.0)
    assert question.smaller == (("age", "age:educ"),)


def test_logistic_regressions_read_formulas():
    question = LogisticQuestion(SCHEMA, formula="owner ~ age + sex * region", epsilon=1.0)
    plain = LogisticQuestion(SCHEMA, "owner", ["age", "sex", "region"], epsilon=1.0)
    assert question.measurement.mechanism == plain.measurement.mechanism
    session = Session(people(6000), SCHEMA, ledger=":memory:", epsilon=100.0)
    found = session.logistic_regression(formula="owner ~ age + sex * region", epsilon=50.0)
    assert list(found.params)[-2:] == ["sex[m]:region[o'south]", "sex[m]:region[west]"]
    assert all(abs(value) < 6 * found.bse[name] for name, value in list(found.params.items())[1:])  # nothing goes along
    assert (
        "age:sex[m]" in LogisticQuestion(SCHEMA, formula="owner ~ age * sex", epsilon=1.0).measurement.statistic.columns
    )


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("pay ~ center(age)", "not computed of one row"),
        ("pay ~ scale(age)", "not computed of one row"),
        ("pay ~ poly(age, 2)", "not computed of one row"),
        ("pay ~ bs(age, df=3)", "not computed of one row"),
        ("pay ~ age.mean()", "not computed of one row"),
        ("pay ~ __import__('os').getcwd()", "cannot be read"),
        ("pay ~ I(__import__('os').getcwd())", "not computed of one row"),
        ("pay ~ I(age ** 9)", "power of 2 or 3"),
        ("pay ~ I(age / educ)", "may be 0"),
        ("pay ~ sqrt(age - 50)", "takes sqrt of numbers from -32 on"),
        ("pay ~ age - 1", "leaves the constant out"),
        ("pay ~ 0 + age", "leaves the constant out"),
        ("pay ~ 1", "nothing on its right-hand side"),
        ("pay ~ pay:age", "both sides"),
        ("pay + age ~ educ", "one outcome before the ~"),
        ("age + educ", "one ~ between them"),
        ("pay ~ age | sex", "cannot be read"),
        ("pay ~ .", "cannot be read"),
        ("pay ~ age +", "cannot be read"),
        ("pay ~ (age + sex + educ + region)**30", "more than 200 terms"),
        ("pay ~ " + "*".join("abcdefghijklmnop"), "more than 200 terms"),
        ("pay ~ C(sex, contr.treatment('m'))", "first declared label is the reference"),
        ("pay ~ C(pay2)", "is not declared"),
        ("pay ~ agee", "is not declared"),
        ("pay ~ C(age)", "at most 40 whole values"),
        ("pay ~ I(sex)", "takes the label"),
        ("pay ~ born", "a date"),
    ],
)
def test_what_is_not_row_by_row_is_refused_in_words(formula, words):
    schema = Schema(columns={**COLUMNS, "born": Dates("1900-01-01", "2020-12-31")})
    with pytest.raises((InvalidParameter, WrongType), match=words):
        RegressionQuestion(schema, formula=formula, epsilon=1.0)


def test_a_number_with_few_values_may_be_labels():
    question = RegressionQuestion(SCHEMA, formula="pay ~ C(educ)", epsilon=1.0)
    assert question.on == ("C(educ)",)
    assert question.measurement.statistic.labels["C(educ)"] == (0, 1, 2, 3, 4, 5)
    assert question.columns_read() == ("pay", "educ")


def test_column_and_formula_exclude_each_other():
    with pytest.raises(InvalidParameter, match="beside the formula"):
        RegressionQuestion(SCHEMA, "age", ["pay"], formula="pay ~ age", epsilon=1.0)
    with pytest.raises(InvalidParameter, match="formula="):
        RegressionQuestion(SCHEMA, epsilon=1.0)


def test_interactions_of_features_are_refused():
    unit = PrivacyUnit("person")
    features = {name: Feature(of=name, take="max") for name in ("age", "pay")}
    schema = Schema(columns=COLUMNS, unit=unit, features=features).per_unit()
    assert RegressionQuestion(schema, formula="pay ~ age", epsilon=1.0).on == ("age",)
    with pytest.raises(InvalidParameter, match="features"):
        RegressionQuestion(schema, formula="pay ~ I(age * age)", epsilon=1.0)


def test_plan_files_hold_formulas(tmp_path):
    import pyarrow.csv

    pyarrow.csv.write_csv(people(800), tmp_path / "people.csv")
    text = """
title = "Pay"
[source]
path = "people.csv"
[budget]
epsilon = 9.0
[schema.columns]
age = { low = 18, high = 90, grid = 1 }
educ = { low = 0, high = 5, grid = 1 }
sex = { categories = ["f", "m"] }
pay = { low = 0, high = 100, grid = 1 }
[[release]]
name = "pay"
ask = "regression"
formula = "pay ~ age * sex"
[[release]]
name = "both"
ask = "regression"
formula = "pay ~ age * educ"
"""
    (tmp_path / "pay.toml").write_text(text)
    planned = Job(tmp_path / "pay.toml").plan()
    assert planned.refusal is None
    result = Job(tmp_path / "pay.toml").run()
    assert result.drawn == 2
    assert "pay,age × sex: m,coefficient" in result.table.read_text()
    (tmp_path / "pay.toml").write_text(text.replace("age * sex", "center(age)"))
    with pytest.raises(DiscreetError, match=r"pay.toml:15: .*not computed of one row"):
        Job(tmp_path / "pay.toml").plan()
