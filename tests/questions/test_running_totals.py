"""Running totals: what a unit moves in all periods together, what the ledger counts, and what stays as it was."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import comb

from discreet import (
    ApproxDP,
    Bounds,
    Categories,
    Contribution,
    GaussianDP,
    Ledger,
    Neighbours,
    PrivacyUnit,
    PureDP,
    Schema,
    Session,
    ZeroConcentratedDP,
)
from discreet.audit.attack_plan import attack_plan
from discreet.core.errors import DiscreetError, InsufficientBudget, InvalidParameter, NoConversion
from discreet.core.rows import take
from discreet.core.rows.source import open_source
from discreet.inference.noise import column_norm, running_sums, weights
from discreet.plans.job import Job
from discreet.questions.running_total import RunningTotalQuestion

MONTHS = [f"2026-{month:02d}" for month in range(1, 13)]
ONE = GaussianDP(1.0)


def schema(periods=MONTHS, unit=None, **columns):
    return Schema(columns={"month": Categories(list(periods)), **columns}, unit=unit or PrivacyUnit())


def table(rows, periods=MONTHS):
    """Rows of (month, spend, person)."""
    kinds = {"month": pa.string(), "spend": pa.float64(), "person": pa.int64()}
    return pa.table({name: pa.array([row[i] for row in rows], kind) for i, (name, kind) in enumerate(kinds.items())})


def test_the_protection_says_what_is_assumed_of_the_source():
    session = Session(table([("2026-01", 1.0, 1)]), schema(), ledger=":memory:", budget=ONE)
    released = session.running_total("month", guarantee=ONE, period="2026-01")
    assert "that rows are only added and keep their period" in " ".join(str(released).split())
    assert "rows are only added" in str(session.ledger.statement().spends[0].protection)


# ---- the matrix ------------------------------------------------------------------------------------------------------


def test_the_weights_are_the_square_root_of_adding_up():
    count = 60
    known = weights(count)
    assert known == [Fraction(comb(2 * k, k, exact=True), 4**k) for k in range(count)]
    for k in range(count):  # the k-th diagonal of F·F
        assert sum(known[j] * known[k - j] for j in range(k + 1)) == 1
    assert known == sorted(known, reverse=True)


def test_running_sums_undo_the_weights():
    rng = np.random.default_rng(3)
    added = rng.integers(0, 1000, 40)
    known = [float(weight) for weight in weights(40)]
    measured = [sum(known[t - s] * added[s] for s in range(t + 1)) for t in range(40)]
    np.testing.assert_allclose(running_sums(measured), np.cumsum(added), rtol=1e-12)


# ---- sensitivity, by brute force over histories ----------------------------------------------------------------------

PERIODS = ("a", "b", "c")
HISTORIES = [  # what one unit's rows are at each of the three releases: they are only added, or all deleted for good
    history
    for history in itertools.product([(), ("a",), ("b",), ("c",), ("b", "c"), ("a", "b"), ("a", "b", "c")], repeat=3)
    if all(not later or set(earlier) <= set(later) for earlier, later in itertools.pairwise(history))
    and not (history[0] and not history[1] and history[2])
]


OTHERS = [("a", 3.0, 1), ("b", 1.0, 2), ("b", 4.0, 1), ("c", 2.0, 3)]
PEOPLE = schema(PERIODS, PrivacyUnit("person", contribution=Contribution(rows=2)), spend=Bounds(0, 5, grid=1))


@cache
def measured(period, own):
    """The true measurement of a period where a unit has three rows with each label of its own."""
    rows = OTHERS + [(label, 99.0, 7) for label in own for _ in range(3)]
    question = RunningTotalQuestion(PEOPLE, "month", guarantee=ONE, period=period, column="spend")
    return question._exact(take(open_source(table(rows)), PEOPLE, salt="0" * 64))


def test_no_history_of_a_unit_moves_more_than_is_charged():
    """Every history must be covered, release by release, by what one part of the partition was charged for."""
    claims = RunningTotalQuestion(PEOPLE, "month", guarantee=ONE, period="a", column="spend").claims(None)
    charged = [
        [float(claim.parts[part].sensitivity.l2) if part in claim.parts else 0.0 for claim in claims]
        for part in PERIODS
    ]
    largest = 0.0
    for history in HISTORIES:
        moves = [float(abs(measured(p, own) - measured(p, ()))) for p, own in zip(PERIODS, history, strict=True)]
        assert any(all(a <= b for a, b in zip(moves, bounds, strict=True)) for bounds in charged), history
        largest = max(largest, math.hypot(*moves))
    assert largest == pytest.approx(10 * column_norm(3), rel=1e-9)  # two rows of 5 in the first period


def test_a_history_that_loses_rows_would_move_more():
    """Why rows must not be lost one by one: the first period of a unit would become a later one."""
    moves = [float(abs(measured(p, own) - measured(p, ()))) for p, own in zip(PERIODS, ["a", "b", "c"], strict=True)]
    assert math.hypot(*moves) > 1.3 * 10 * column_norm(3)


def test_a_unit_counts_in_its_first_period_alone():
    people = schema(PERIODS, PrivacyUnit("person", contribution=Contribution(rows=9)))
    rows = [("b", 1.0, 1), ("c", 1.0, 1), ("c", 1.0, 2)]
    ledger = Ledger(":memory:", GaussianDP(1000.0))
    session = Session(table(rows), people, ledger=ledger)
    found = [session.running_total("month", mu=1000.0, period=period) for period in PERIODS]
    assert found[-1].totals == {"a": 0.0, "b": 1.0, "c": 2.0}


def test_many_periods_choose_the_first_as_few_do():
    many = [f"p{k:03d}" for k in range(80)]  # more than one number has bits
    people = schema(many, PrivacyUnit("person", contribution=Contribution(rows=9)))
    rows = [(many[k], 1.0, 1) for k in (70, 3, 40)] + [(many[9], 1.0, 2)]
    question = RunningTotalQuestion(people, "month", guarantee=ONE, period=many[9])
    truth = question._exact(take(open_source(table(rows)), people, salt="0" * 64))
    known = weights(10)
    assert truth == known[6] + known[0]


# ---- the ledger ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 24, 60])
@pytest.mark.parametrize("budget", [GaussianDP(1.0), GaussianDP(0.1), ZeroConcentratedDP(0.3)], ids=str)
def test_all_periods_together_cost_the_guarantee_once(count, budget):
    periods = [f"p{k:03d}" for k in range(count)]
    ledger = Ledger(":memory:", budget)
    question = RunningTotalQuestion(schema(periods), "month", guarantee=budget, period=periods[0])
    ledger.partition(question.sequence, periods)
    spent = []
    for claim in question.claims(None):
        claim.verify()
        ledger.pay(claim.record())
        spent.append(ledger.spent())
    assert all(later.within(budget) for later in spent)
    whole = spent[-1].parameters() | {}
    for name, value in budget.parameters().items():
        assert whole[name] == pytest.approx(value, rel=1e-10)  # and nothing was wasted
    assert ledger.verify().spends == count


def test_a_later_period_is_asked_for_what_it_adds():
    ledger = Ledger(":memory:", ONE)
    session = Session(table([("2026-01", 1.0, 1)]), schema(), ledger=ledger)
    for place, month in enumerate(MONTHS):
        planned = session.plan.running_total("month", guarantee=ONE, period=month)
        session.running_total("month", guarantee=ONE, period=month)
        share = float(weights(12)[place]) / column_norm(12)
        assert ledger.events()[-1].charge.mu == pytest.approx(share, rel=1e-6)
        assert planned.remaining_after == ledger.remaining()
    with pytest.raises(InsufficientBudget):
        session.running_total("month", mu=0.1, period="2026-01")


@pytest.mark.parametrize("counted", ["gdp", "zcdp"])
def test_an_epsilon_and_a_delta_count_in_another_currency(counted):
    budget = ApproxDP(1.0, 1e-6)
    ledger = Ledger(":memory:", budget, accounting=counted)
    session = Session(table([("2026-01", 1.0, 1)]), schema(), ledger=ledger)
    half = ApproxDP(0.4, 1e-6)
    found = session.running_total("month", guarantee=half, period="2026-01")
    assert found.guarantee == half
    assert found.mechanism.profile(found.sensitivity).within(half)


def test_a_ledger_that_adds_epsilons_says_which_mu_to_take():
    session = Session(table([]), schema(), ledger=":memory:", budget=ApproxDP(1.0, 1e-6))
    with pytest.raises(NoConversion, match=r"mu = 0\.\d+, which implies ε = .*Nothing was spent") as refusal:
        session.running_total("month", guarantee=ONE, period="2026-01")
    mu = float(str(refusal.value).split("mu = ")[1].split(",")[0])
    assert GaussianDP(mu * 0.999999).within(ApproxDP(1.0, 1e-6))
    assert not GaussianDP(mu * 1.0001).within(ApproxDP(1.0, 1e-6))


def test_windows_begin_with_nothing_and_hold(tmp_path, monkeypatch):
    """In a new window the newest period moves most: the budget of the window must cover it."""
    clock = iter(f"{2026 + place // 3}-{1 + place % 3:02d}-02T00:00:00+00:00" for place in range(1000))
    now = ["2026-01-02T00:00:00+00:00"]
    monkeypatch.setattr("discreet.core.ledger.balance.now", lambda: now[0])
    ledger = Ledger(tmp_path / "w.ledger", ONE, window="year")
    session = Session(table([("2026-01", 1.0, 1)]), schema(MONTHS[:6]), ledger=ledger)
    for month in MONTHS[:6]:
        now[0] = next(clock)
        session.running_total("month", guarantee=ONE, period=month)
        assert ledger.spent().within(ONE)
    charges = [spend.charge.mu for spend in ledger.events()]
    assert charges[3] == pytest.approx(charges[0])  # the first of a new year
    assert ledger.verify().spends == 6


# ---- what is published -----------------------------------------------------------------------------------------------


def released(rows, periods, *, guarantee=ONE, budget=None, facts=None, **settings):
    session = Session(table(rows), facts or schema(periods), ledger=":memory:", budget=budget or guarantee)
    return [session.running_total("month", guarantee=guarantee, period=period, **settings) for period in periods]


def test_what_was_published_stays_and_adds_up():
    rng = np.random.default_rng(11)
    rows = [(str(month), 1.0, 0) for month in rng.choice(MONTHS, 60)]  # few rows: the noise would let totals fall
    found = released(rows, MONTHS, guarantee=GaussianDP(0.05))
    for earlier, later in itertools.pairwise(found):
        assert {**later.totals, **earlier.totals} == later.totals
    last = found[-1]
    values = [*last.totals.values()]
    assert values == sorted(values)
    assert all(value == int(value) >= 0 for value in values)
    assert sum(last.added.values()) == last.value == values[-1]
    assert min(last.added.values()) >= 0
    assert last.noise_interval().low <= last.value <= last.noise_interval().high


def test_totals_that_can_fall_do():
    facts = schema(spend=Bounds(-5, 5, grid=1))
    rows = [("2026-01", 5.0, 0)] * 400 + [("2026-02", -5.0, 0)] * 300
    found = released(rows, MONTHS[:2], facts=facts, guarantee=GaussianDP(5.0), column="spend")[-1]
    assert found.totals["2026-02"] < found.totals["2026-01"] - 1000
    below = schema(spend=Bounds(-5, 0, grid=1))
    falling = released(rows, MONTHS[:2], facts=below, guarantee=GaussianDP(5.0), column="spend")[-1]
    assert falling.totals["2026-01"] <= 0
    assert falling.totals["2026-02"] <= falling.totals["2026-01"]


def test_the_error_is_less_than_half_of_an_even_split():
    """24 periods: the simulated error of all running totals, against 24 releases of a split budget."""
    periods = [f"p{k:02d}" for k in range(24)]
    question = RunningTotalQuestion(schema(periods), "month", guarantee=ONE, period=periods[-1])
    rng = np.random.default_rng(5)
    noise = rng.normal(0, question.mechanism.scale, (4000, 24))
    errors = np.array([running_sums(one) for one in noise])
    even = ONE.split(24)[0]
    alone = 1 / even.mu
    ratio = math.sqrt(np.mean(errors**2)) / alone
    assert ratio == pytest.approx(0.392, abs=0.02)
    assert math.sqrt(np.mean(errors[:, -1] ** 2)) / alone == pytest.approx(0.423, abs=0.02)
    assert question.plan().standard_error == pytest.approx(math.sqrt(np.mean(errors[:, -1] ** 2)), rel=0.05)


def test_intervals_cover_at_their_level():
    periods = MONTHS[:4]
    rows = [(periods[k % 4], 1.0, 0) for k in range(400)]
    truth = dict(zip(periods, (100, 200, 300, 400), strict=True))
    base = released(rows, periods, guarantee=GaussianDP(0.2))[-1]
    exact = [float(sum(weights(t + 1)) * 100) for t in range(4)]
    hits, steps, repeats = 0, 0, 150
    for noise in np.random.default_rng(2).normal(0, base.mechanism.scale, (repeats, 4)):
        *earlier, now = (noise + exact).tolist()
        last = replace(base, measurement=np.asarray(now), public={"earlier": earlier})
        hits += sum(last.total_interval(p, 0.9).low <= truth[p] <= last.total_interval(p, 0.9).high for p in periods)
        steps += sum(last.added_interval(p, 0.9).low <= 100 <= last.added_interval(p, 0.9).high for p in periods)
    for found in (hits, steps):  # correlated within a run: 150 independent ones, four standard errors
        assert abs(found / (4 * repeats) - 0.9) < 4 * 0.3 / math.sqrt(repeats)


def test_asking_again_is_free_and_needs_no_data(tmp_path):
    path = tmp_path / "l.ledger"
    first = Session(table([("2026-01", 1.0, 0)] * 50), schema(), ledger=path, budget=GaussianDP(3.0))
    found = first.running_total("month", guarantee=ONE, period="2026-01")
    spent = first.ledger.spent()
    again = Session("no-such-file.parquet", schema(), ledger=path).running_total(
        "month", guarantee=ONE, period="2026-01"
    )
    assert again.to_dict() == found.to_dict()
    assert first.ledger.spent() == spent
    with pytest.raises(InvalidParameter, match="released before"):
        first.running_total("month", guarantee=ONE, period="2026-01", name="under another name")
    assert first.ledger.spent() == spent


def test_a_crash_after_the_charge_is_made_good():
    """A reservation without an answer: the next call draws under it and pays nothing more."""
    ledger = Ledger(":memory:", ONE)
    session = Session(table([("2026-01", 1.0, 0)] * 50), schema(), ledger=ledger)
    question = RunningTotalQuestion(session.schema, "month", guarantee=ONE, period="2026-01")
    claim = question.claim(ledger)
    ledger.partition(question.sequence, MONTHS)
    ledger.pay(claim.record(), request=claim.request)
    spent = ledger.spent()
    with pytest.raises(InvalidParameter, match="needs '2026-01', which was not released"):
        session.running_total("month", guarantee=ONE, period="2026-02")
    found = session.running_total("month", guarantee=ONE, period="2026-01")
    assert ledger.spent() == spent
    assert session.running_total("month", guarantee=ONE, period="2026-02").totals["2026-01"] == found.value


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"period": "2026-02"}, "needs '2026-01'"),
        ({"period": "2027-01"}, "not one of the periods"),
        ({"period": None}, "is needed"),
        ({"period": np.array([])}, "not one of the periods"),
        ({"period": 1}, "not one of the periods"),
        ({"over": "spend"}, "is numeric, and labels are needed"),
        ({"column": "month"}, "not a number"),
        ({"guarantee": PureDP(1.0)}, "has no ε alone"),
        ({"guarantee": ApproxDP(1.0, 0.0)}, "has no ε alone"),
        ({"contribution": Contribution(rows=2)}, "has one row"),
    ],
)
def test_refusals_spend_nothing(change, says):
    facts = schema(spend=Bounds(0, 5, grid=1))
    session = Session(table([]), facts, ledger=":memory:", budget=ONE)
    with pytest.raises(DiscreetError, match=says):
        session.running_total(**{"over": "month", "guarantee": ONE, "period": "2026-01", **change})
    assert session.ledger.events() == ()


def test_a_replaced_row_is_refused():
    facts = Schema(columns={"month": Categories(MONTHS)}, neighbours=Neighbours.REPLACE_ONE, size=10)
    with pytest.raises(InvalidParameter, match="may move to another period"):
        RunningTotalQuestion(facts, "month", guarantee=ONE, period="2026-01")


def test_two_sequences_add_up():
    ledger = Ledger(":memory:", ONE)
    facts = schema(MONTHS[:3], spend=Bounds(0, 5, grid=1))
    session = Session(table([("2026-01", 1.0, 0)]), facts, ledger=ledger)
    half = ONE.split(2)[0]
    for month in MONTHS[:3]:
        session.running_total("month", guarantee=half, period=month)
        session.running_total("month", guarantee=half, period=month, column="spend")
    assert ledger.spent().mu == pytest.approx(1.0, rel=1e-9)
    assert ledger.spent().within(ONE)


def test_years_may_be_numbers_and_are_named_by_text():
    facts = Schema(columns={"year": Categories([1, 2, 3])})
    rows = pa.table({"year": [1] * 40 + [2] * 20})
    session = Session(rows, facts, ledger=":memory:", budget=ONE)
    assert list(session.running_total("year", guarantee=ONE, period="1").totals) == [1]
    assert list(session.running_total("year", guarantee=ONE, period=2).totals) == [1, 2]
    with pytest.raises(InvalidParameter, match="not one of the periods"):
        session.running_total("year", guarantee=ONE, period=True)


def test_a_plan_with_a_sequence_is_attacked(tmp_path):
    """In its first period, on synthetic data."""
    plan = tmp_path / "p.toml"
    plan.write_text(
        'period = "2026-02"\n[source]\npath = "x.csv"\n[budget]\nmu = 0.5\n[schema.columns.month]\n'
        'categories = ["2026-01", "2026-02"]\n[[release]]\nname = "entries"\nask = "running_total"\nover = "month"\n'
    )
    found = attack_plan(plan)
    assert found.passed, str(found)


def test_a_plan_refuses_what_no_ledger_counts_together(tmp_path):
    plan = tmp_path / "p.toml"
    plan.write_text(
        'period = "2026-01"\n[source]\npath = "x.csv"\n[budget]\nmu = 1.0\n[schema.columns.month]\n'
        'categories = ["2026-01", "2026-02"]\n[schema.columns.city]\nunlisted = true\n'
        '[[release]]\nname = "entries"\nask = "running_total"\nover = "month"\nmu = 0.5\n'
        '[[release]]\nname = "cities"\nask = "common_labels"\ncolumn = "city"\nepsilon = 0.5\ndelta = 1e-7\n'
    )
    with pytest.raises(NoConversion, match="no ledger can be charged both"):
        Job(plan).plan()
