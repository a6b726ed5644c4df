"""Sessions that leave out rows, modes and clusters of a session."""

import numpy as np
import pyarrow
import pytest

from discreet import ApproxDP, Bounds, Categories, GaussianDP, Neighbours, PrivacyUnit, PureDP, Release, Schema, Session
from discreet.core.errors import InsufficientBudget, InvalidParameter, WrongType
from discreet.mechanisms import FixedSample, OutlierSuppression, PoissonSample, SampleByLabel
from discreet.mechanisms.omission.amplification import before_outlier_suppression, before_poisson_sampling
from discreet.mechanisms.omission.step import AbsoluteDistance
from discreet.plans.declarations import read_omission
from discreet.questions.form import OMIT

ROWS = pyarrow.table({"age": np.arange(4000) % 100, "colour": ["red"] * 3000 + ["blue"] * 1000})
SCHEMA = Schema(columns={"age": Bounds(0, 120, grid=1), "colour": Categories(["red", "blue"])})


def session(schema=SCHEMA, budget=100.0):
    return Session(ROWS, schema, ledger=":memory:", budget=PureDP(budget))


def test_the_charge_is_what_was_asked_and_the_noise_what_is_left_behind_the_step():
    mine = session()
    sampled = mine.omitting(PoissonSample(0.25)).count(epsilon=1.0)
    assert sampled.guarantee.epsilon <= 1.0
    assert sampled.guarantee.epsilon == pytest.approx(1.0, rel=1e-9)
    inner = before_poisson_sampling(PureDP(1.0), 0.25).epsilon
    assert sampled.mechanism.scale == pytest.approx(1 / inner, rel=1e-12)
    assert mine.ledger.spent().epsilon <= 1.0


def test_each_question_makes_its_own_choice_of_rows():
    """Counts of fresh samples vary as binomials: standard deviation 27 for 4,000 rows at rate 0.25."""
    sampled = session(budget=900.0).omitting(PoissonSample(0.25))
    counts = np.array([sampled.count(epsilon=20.0).value for _ in range(40)])
    assert abs(counts.mean() - 1000) < 5 * 27.4 / np.sqrt(40)
    assert 15 < counts.std() < 45  # five standard errors of a standard deviation from 40 draws


def test_suppression_keeps_between_its_two_rates():
    step = OutlierSuppression(0.4, 0.5, AbsoluteDistance((0, 120)), columns=("age",))
    kept = session().omitting(step).count(epsilon=3.0)
    assert 4000 * 0.5 - 300 < kept.value < 4000 * 0.6 + 300
    assert kept.guarantee.epsilon <= 3.0
    assert kept.mechanism.inner.guarantee(kept.sensitivity).epsilon == pytest.approx(
        before_outlier_suppression(PureDP(3.0), 0.4, 0.5).epsilon, rel=1e-9
    )


def test_plans_and_answers_agree_and_can_be_read_back():
    sampled = session().omitting(PoissonSample(0.5))
    planned = sampled.plan.mean("age", epsilon=1.0)
    released = sampled.mean("age", epsilon=1.0, name="mean")
    assert released.guarantee == planned.guarantee
    assert released.public["omission"] == {"name": "poisson_sample", "rate": 0.5}
    assert Release.from_json(released.to_json()).mechanism == released.mechanism
    spent = sampled.ledger.spent()
    assert sampled.mean("age", epsilon=1.0, name="mean").to_json() == released.to_json()
    assert sampled.ledger.spent() == spent


def of_size(rows):
    """Whatever a row holds, it counts: so the number of rows that a mean divides by is public."""
    columns = {
        "age": Bounds(0, 120, grid=1, nulls=0),
        "colour": Categories(["red", "blue"], nulls="=red", unknown="=red"),
    }
    return Schema(columns=columns, neighbours=Neighbours.REPLACE_ONE, size=rows)


SIZE = of_size(4000)


def test_a_fixed_sample_of_a_public_number_of_rows():
    """The mean of 2,000 of 4,000 ages: within five standard errors of sampling, and noise of so many rows."""
    found = session(SIZE).mean("age", epsilon=1.0, omit=FixedSample(2000, 4000))
    assert abs(found.value - 49.5) < 5 * 28.9 * np.sqrt(0.5 / 2000) + 1
    inner = FixedSample(2000, 4000).before(PureDP(1.0))
    assert found.mechanism.scale == session(of_size(2000)).plan.mean("age", guarantee=inner).scale
    assert found.guarantee.epsilon == pytest.approx(1.0, rel=1e-9)
    assert found.public["omission"] == {"name": "fixed_sample", "size": 2000, "population": 4000}
    for step, schema in ((FixedSample(50, 100), SIZE), (FixedSample(50, 4000), SCHEMA)):
        with pytest.raises(InvalidParameter):
            session(schema).omitting(step)
        with pytest.raises(InvalidParameter):
            session(schema).count(epsilon=1.0, omit=step)


def test_a_sample_by_label_thins_the_groups_that_are_named():
    step = SampleByLabel("colour", {"red": 0.1, "blue": 0.5})
    counts = session().omitting(step).table("colour", epsilon=20.0).value
    assert abs(counts[0] - 300) < 6 * np.sqrt(270) + 2
    assert abs(counts[1] - 500) < 6 * np.sqrt(250) + 2


def test_samples_are_charged_in_full_under_rho_and_mu():
    mine = Session(ROWS, SCHEMA, ledger=":memory:", budget=GaussianDP(3.0)).omitting(PoissonSample(0.5))
    found = mine.table("colour", mu=1.0)
    assert found.guarantee == GaussianDP(1.0)
    assert found.mechanism.scale == mine.plan.table("colour", mu=1.0).scale
    with pytest.raises(InvalidParameter, match="outliers are dropped"):
        mine.table("colour", mu=1.0, omit=SUPPRESSION)


def test_plan_files_name_every_step():
    read = {
        FixedSample(500, 4000): ({"sample": 500}, SIZE),
        SampleByLabel("colour", {"red": 0.1}): ({"rates": {"red": 0.1}, "column": "colour"}, SCHEMA),
        PoissonSample(0.2): ({"poisson": 0.2}, SCHEMA),
        SUPPRESSION: ({"outliers": [0.4, 0.5], "column": "age"}, SCHEMA),
    }
    for step, (written, schema) in read.items():
        assert OMIT.complaint("omit", written) is None
        assert read_omission(written, schema) == step
    for wrong in ({"sample": 0.5}, {"rates": {}, "column": "colour"}, {"rates": {"red": 0.1}}, {"half": 1}, 0.5):
        assert OMIT.complaint("omit", wrong) is not None
    for wrong in (
        {"sample": 500},
        {"rates": {"green": 0.1}, "column": "colour"},
        {"rates": {"1": 0.1}, "column": "age"},
    ):
        with pytest.raises(InvalidParameter):
            read_omission(wrong, SCHEMA)


def by_id():
    unit = PrivacyUnit(column="id")
    return Schema(unit=unit, columns={"age": Bounds(0, 120, grid=1)})


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: session().omitting("half"), WrongType),
        (lambda: session(by_id()).omitting(PoissonSample(0.5)), InvalidParameter),
        (
            lambda: session(Schema(columns=SCHEMA.columns, neighbours=Neighbours.REPLACE_ONE, size=4000)).omitting(
                PoissonSample(0.5)
            ),
            InvalidParameter,
        ),
        (
            lambda: session().omitting(PoissonSample(0.5)).compare_means("age", by="colour", guarantee=PureDP(1.0)),
            InvalidParameter,
        ),
        (lambda: session().omitting(PoissonSample(0.5)).clusters(["age"], 2, epsilon=1.0), InvalidParameter),
        (lambda: session().omitting(PoissonSample(0.5)).plan.clusters(["age"], 2, epsilon=1.0), InvalidParameter),
    ],
)
def test_what_is_not_proved_is_refused(make, error):
    with pytest.raises(error):
        make()


def test_the_mode_publishes_a_label_only():
    mine = session()
    assert mine.mode("colour", epsilon=1.0).mode == "red"
    assert mine.plan.mode("colour", epsilon=1.0).guarantee.epsilon <= 1.0
    assert mine.ledger.spent().epsilon <= 1.0
    assert "red" in str(mine.omitting(PoissonSample(0.5)).mode("colour", epsilon=1.0))


def test_clusters_find_two_groups_and_are_charged_once():
    rng = np.random.default_rng(3)
    low, high = rng.normal([20, 20], 3, (3000, 2)), rng.normal([80, 80], 3, (3000, 2))
    rows = np.round(np.concatenate([low, high]))
    schema = Schema(columns={"x": Bounds(0, 100, grid=1), "y": Bounds(0, 100, grid=1)})
    mine = Session(pyarrow.table({"x": rows[:, 0], "y": rows[:, 1]}), schema, ledger=":memory:", budget=PureDP(2.0))
    centres = mine.clusters(["x", "y"], 2, epsilon=2.0, expected_rows=6000).cluster_centers_
    assert np.abs(np.sort(centres[:, 0]) - [20, 80]).max() < 10
    assert mine.ledger.remaining().epsilon < 1e-9
    with pytest.raises(InsufficientBudget):
        mine.clusters(["x", "y"], 2, epsilon=1.0)


SUPPRESSION = OutlierSuppression(0.4, 0.5, AbsoluteDistance((0, 120)), columns=("age",))
SIZES = Schema(columns={**SCHEMA.columns, "size": Categories(["s", "l"])})
SIZED = ROWS.append_column("size", pyarrow.array(["s", "l"] * 2000))
TESTS = {
    "independence": lambda asked: asked.independence(["colour", "size"], epsilon=1.0),
    "homogeneity": lambda asked: asked.homogeneity("colour", "size", epsilon=1.0),
    "rank_test": lambda asked: asked.rank_test("age", "size", epsilon=1.0, bins=4),
    "rank_correlation": lambda asked: asked.rank_correlation(["age", "size"], epsilon=1.0, bins={"age": 4}),
    "signed_rank": lambda asked: asked.signed_rank("age", 40, epsilon=1.0),
    "goodness_of_fit": lambda asked: asked.goodness_of_fit("colour", [0.75, 0.25], epsilon=1.0),
}


@pytest.mark.parametrize("name", TESTS)
def test_tests_behind_a_sample_are_answered_and_behind_a_suppression_refused_before_spending(name):
    mine = Session(SIZED, SIZES, ledger=":memory:", budget=PureDP(100.0))
    sampled, suppressed = mine.omitting(PoissonSample(0.5)), mine.omitting(SUPPRESSION)
    assert TESTS[name](sampled.plan).guarantee.epsilon == pytest.approx(1.0, rel=1e-9)
    answer = TESTS[name](sampled)
    assert 0 < answer.pvalue <= 1
    assert getattr(answer, "release", answer).public["omission"] == {"name": "poisson_sample", "rate": 0.5}
    spent = mine.ledger.spent()
    for asked in (suppressed.plan, suppressed):
        with pytest.raises(InvalidParameter, match="not proved"):
            TESTS[name](asked)
    assert mine.ledger.spent() == spent


@pytest.mark.parametrize("step", [PoissonSample(0.5), SUPPRESSION], ids=["sample", "suppression"])
def test_whatever_is_answered_behind_a_step_can_be_read(step):
    mine = Session(SIZED, SIZES, ledger=":memory:", budget=PureDP(200.0)).omitting(step)
    one = PureDP(2.0)
    answers = [
        mine.count(guarantee=one),
        mine.count(guarantee=one, by="size"),
        mine.sum("age", guarantee=one),
        mine.mean("age", guarantee=one, by="size", variance=True),
        mine.proportion("colour", "red", guarantee=one),
        mine.variance("age", guarantee=one),
        mine.covariance_matrix(["age"], guarantee=one),
        mine.quantile("age", 1 / 3, guarantee=one, interval=0.9),
        mine.histogram("age", guarantee=one, edges=[0, 50, 120]),
        mine.table(["colour", "size"], guarantee=one),
        mine.mode("colour", guarantee=one),
    ]
    for answer in answers:
        assert answer.readings()
        assert str(answer)
    assert answers[-2].proportions().population_interval().contains(np.full((2, 2), 0.25)).shape == (2, 2)


def test_tables_behind_a_sample_can_be_read():
    mine = Session(SIZED, SIZES, ledger=":memory:", budget=ApproxDP(2.0, 1e-5))
    answer = mine.omitting(PoissonSample(0.5)).tables([["colour"], ["colour", "size"]], epsilon=1.0, delta=1e-6)
    assert len(answer.readings()) == 6
    assert answer.table("colour").estimate.shape == (2,)
