"""The share of values beyond the bounds, told beside what is read of clipped values."""

import json
import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from discreet import (
    Bounds,
    Categories,
    Contribution,
    Design,
    Feature,
    GaussianDP,
    Neighbours,
    PrivacyUnit,
    PrivateBounds,
    PureDP,
    Schema,
    Session,
    ZeroConcentratedDP,
)
from discreet.core.errors import InvalidParameter, NoConversion, WrongType
from discreet.core.rows import take
from discreet.core.rows.source import open_source
from discreet.mechanisms import Laplace, PoissonSample
from discreet.publish.report import _released
from discreet.questions import asked
from discreet.questions.clipped import BeyondBounds, _shares
from discreet.results.release import Release

ROWS = 4000
DRAWS = np.random.default_rng(3)
DATA = pa.table(
    {
        "pay": np.concatenate([np.full(400, 250.0), np.full(200, -5.0), DRAWS.uniform(0, 100, ROWS - 600)]),
        "age": DRAWS.integers(20, 60, ROWS),
        "two": DRAWS.integers(0, 2, ROWS),
        "arm": DRAWS.choice(["a", "b"], ROWS),
    }
)
COLUMNS = {
    "pay": Bounds(0, 100, grid=1),
    "age": Bounds(18, 80, grid=1),
    "two": Bounds(0, 1, grid=1),
    "g": Categories(["a", "b"]),
    "arm": Categories(["a", "b"]),
}
SCHEMA = Schema(columns=COLUMNS)
ASKED = {
    "mean": ("mean", ("pay",), {}),
    "mean of a public number": ("mean", ("pay",), {"neighbours": Neighbours.REPLACE_ONE, "size": ROWS}),
    "means by arm": ("mean", ("pay",), {"by": "arm"}),
    "sum": ("sum", ("pay",), {}),
    "regression": ("regression", ("pay", ["arm"]), {}),
    "regression in two steps": ("regression", ("pay", ["age", "two", "arm"]), {}),
    "logistic regression": ("logistic_regression", ("arm", ["pay"]), {}),
    "two arms": ("compare_means", ("pay",), {"by": "arm"}),
    "arms": ("compare_arms", ("pay",), {"by": "arm"}),
}


def opened(budget, schema=SCHEMA, data=DATA):
    return Session(data, schema, ledger=":memory:", budget=budget)


def told_by(answer):
    """The words that an answer prints, and the numbers that it keeps."""
    if isinstance(answer, Release):
        return answer.public["clipped"], answer.public["beyond"]
    one = answer.pairs[0] if hasattr(answer, "pairs") else answer
    return one.noisy["clipped"], one.noisy["beyond"]


@pytest.mark.parametrize(
    ("kind", "whole"),
    [*((one, PureDP(50.0)) for one in ASKED), ("mean", GaussianDP(20.0)), ("regression", GaussianDP(20.0))],
)
def test_every_question_tells_the_share_at_the_price_of_one_claim(kind, whole):
    ask, named, settings = ASKED[kind]
    public = {name: settings[name] for name in settings if name in ("neighbours", "size")}
    settings = {name: settings[name] for name in settings if name not in public}
    session = opened(whole, Schema(columns=COLUMNS, **public))
    answer = getattr(session, ask)(*named, guarantee=whole, beyond=True, name="first", **settings)
    words, kept = told_by(answer)
    assert kept["shares"]["pay"]["above"]["share"] == pytest.approx(0.1, abs=0.01)
    assert kept["shares"]["pay"]["below"]["share"] == pytest.approx(0.05, abs=0.01)
    assert "%) of pay lie above its bounds" in words
    assert "lie above its bounds" in " ".join(str(answer).split())
    pair = answer.pairs[0] if hasattr(answer, "pairs") else answer
    assert pair.guarantee == whole  # of both draws
    assert next(iter(session.ledger.remaining().parameters().values())) == pytest.approx(0.0, abs=1e-6)
    again = getattr(session, ask)(*named, guarantee=whole, beyond=True, name="first", **settings)
    assert told_by(again) == (words, kept)  # stored with the answer, and read back
    json.dumps(kept)
    assert "arm" not in kept["shares"]


@pytest.mark.parametrize("ask", ["mean", "compare_means"])
def test_a_report_says_it(ask):
    question = asked()[ask](SCHEMA, "pay", by="arm", epsilon=50.0, beyond=True)
    answer = opened(PureDP(50.0)).ask(question)
    told = _released(SimpleNamespace(name="pay", title="Pay", question=question, answer=answer), {})
    assert told["counted"] == f"of clipped values: {told_by(answer)[0]}"
    alone = question.changed(beyond=False)
    answer = opened(PureDP(50.0)).ask(alone)
    assert _released(SimpleNamespace(name="pay", title="Pay", question=alone, answer=answer), {})["counted"] is None


def test_the_price_is_what_is_said():
    for whole, price in ((PureDP(1.1), 1.1), (GaussianDP(1.0), 1.02), (ZeroConcentratedDP(0.5), 1.02)):
        session = opened(whole)
        alone, both = (session.plan.sum("age", guarantee=whole, beyond=one) for one in (False, True))
        assert both.error_95 / alone.error_95 == pytest.approx(price, rel=0.003)  # whole numbers have rounded noise
        assert both.guarantee == whole
        assert f"and {100 * (price - 1):.0f} % more noise" in both.notes[-1]


def test_by_default_it_is_told_where_it_costs_little_or_bounds_are_private():
    plan = opened(GaussianDP(9.0)).plan
    assert not any("beyond" in note for note in plan.mean("pay", epsilon=1.0).notes)
    assert not any("beyond" in note for note in plan.mean("two", mu=1.0).notes)  # a number of two values
    assert any("beyond" in note for note in plan.mean("pay", mu=1.0).notes)
    assert any("beyond" in note for note in plan.sum("pay", rho=1.0).notes)
    assert not any("beyond" in note for note in plan.mean("pay", rho=1.0, beyond=False).notes)
    assert not any("beyond" in note for note in plan.mean("pay", rho=1.0, omit=PoissonSample(0.5)).notes)
    private = Schema(columns={"pay": PrivateBounds(0, 100, proportion=0.9, epsilon=5.0)})
    session = opened(PureDP(100.0), private)
    assert any("beyond" in note for note in session.plan.mean("pay", epsilon=1.0).notes)
    found = session.mean("pay", epsilon=50.0, name="pay")
    assert "lie above its bounds" in found.public["clipped"]
    assert "released privately" in found.public["bounds"]
    assert session.ledger.remaining().epsilon == pytest.approx(45.0)
    assert session.mean("pay", epsilon=50.0, name="pay").value.tolist() == found.value.tolist()
    assert "clipped" not in session.mean("pay", epsilon=5.0, beyond=False).public


def test_the_ledger_counts_both_in_its_own_kind():
    session = opened(GaussianDP(1.0))
    found = session.mean("pay", rho=0.1)
    assert "clipped" in found.public
    spent = math.sqrt(1 - session.ledger.remaining().mu ** 2)
    assert found.guarantee.mu == pytest.approx(spent, rel=1e-6)
    assert spent == pytest.approx(math.sqrt(2 * 0.1), rel=1e-3)
    with pytest.raises(NoConversion, match="ask with that kind"):
        opened(PureDP(1.0)).mean("pay", rho=0.1)
    session = opened(ZeroConcentratedDP(1.0))
    session.sum("pay", epsilon=0.5, beyond=True)
    assert session.ledger.remaining().rho > 1 - 0.5**2 / 2


def test_bounds_that_are_found_with_two_values_have_an_answer_too():
    """What was found must not decide between an answer and an error."""
    private = Schema(columns={"pay": PrivateBounds(0, 100, epsilon=5.0)})
    rows = pa.table({"pay": np.full(2000, 7.0)})
    found = opened(PureDP(100.0), private, rows).mean("pay", epsilon=50.0)
    assert "pay lie above its bounds" in found.public["clipped"]


def test_what_nothing_can_be_told_of_is_refused():
    plan = opened(PureDP(1.0)).plan
    for wrong in (0, "no", 1.0):
        with pytest.raises(WrongType, match="beyond"):
            plan.mean("pay", epsilon=1.0, beyond=wrong)
    with pytest.raises(InvalidParameter, match="needs a number"):
        plan.logistic_regression("arm", ["g"], epsilon=1.0, beyond=True)
    with pytest.raises(InvalidParameter, match="omit"):
        plan.sum("pay", epsilon=1.0, beyond=True, omit=PoissonSample(0.5))
    design = Schema(columns={**COLUMNS, "w": Bounds(1, 5, grid=0.5)}, design=Design(weight="w", weight_high=5))
    for ask, by in (("mean", {}), ("compare_means", {"by": "arm"})):
        with pytest.raises(InvalidParameter, match="design"):
            getattr(opened(PureDP(1.0), design).plan, ask)("pay", epsilon=1.0, beyond=True, **by)


def counted(rows, schema):
    """The exact numbers that would be drawn from."""
    beside = BeyondBounds(("x", "y"), PureDP(1.0), schema.neighbours)
    seen = []
    allowance = SimpleNamespace(draw=lambda step, exact: seen.append(exact) or np.array(exact, dtype=float))
    beside.draw(take(open_source(rows), schema), SimpleNamespace(steps=[None]), allowance)
    return seen[0]


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("column", [None, "who"])
def test_no_unit_moves_the_numbers_by_more_than_is_declared(neighbours, column):
    """Brute force over pairs of tables of two units, whose rows lie on all sides, or nowhere."""
    unit = PrivacyUnit() if column is None else PrivacyUnit(column, contribution=Contribution(total=1))
    replaced = neighbours is Neighbours.REPLACE_ONE
    bounds = {"x": Bounds(0, 10, grid=1), "y": Bounds(-1, 1, grid=0.5)}
    schema = Schema(columns=bounds, unit=unit, neighbours=neighbours, size=2 if replaced else None)
    kinds = [(-1, -5), (5, 0), (11, 7), (math.nan, 0)]
    units = [[one] for one in kinds] if column is None else [kinds[:3], kinds[2:], kinds[:1], kinds[1:2] * 7]

    def table(of):
        rows = [(place, *row) for place, own in enumerate(of) for row in own]
        found = {"who": pa.array([row[0] for row in rows], pa.int64())} if column else {}
        return pa.table(found | {n: pa.array([row[k] for row in rows], pa.float64()) for n, k in (("x", 1), ("y", 2))})

    values = [counted(table([units[0], one]), schema) for one in units]
    pairs = (
        [(p, q) for p in values for q in values]
        if replaced
        else [(counted(table([units[0]]), schema), q) for q in values]
    )
    declared = BeyondBounds(("x", "y"), PureDP(1.0), neighbours).sensitivity
    moved = [np.array([float(part) for part in p - q]) for p, q in pairs]
    assert max(np.abs(one).sum() for one in moved) == declared.l1 == 2.0 * (1 + replaced)
    assert max(float(np.linalg.norm(one)) for one in moved) == pytest.approx(declared.l2)
    assert all((value >= 0).all() and value.sum() <= Fraction(4) for value in values)


def test_features_of_units_have_sides_too():
    rows = pa.table({"who": [1, 1, 2, 3], "x": [8.0, 9.0, 1.0, -4.0]})
    spent = Feature(take="sum", of="x", low=0, high=10)
    each = Schema(columns={"x": Bounds(-10, 10, grid=1)}, unit=PrivacyUnit("who"), features={"spent": spent}).per_unit()
    beside = BeyondBounds(("spent",), PureDP(1.0), each.neighbours)
    seen = []
    allowance = SimpleNamespace(draw=lambda step, exact: seen.append(exact) or np.array(exact, dtype=float))
    beside.draw(take(open_source(rows), each), SimpleNamespace(steps=[None]), allowance)
    assert seen[0].tolist() == [1, 1, 1]


def test_intervals_hold_at_their_level():
    law, rng = Laplace(11.0), np.random.default_rng(5)
    for truth in ((0, 900, 100), (3, 290, 7), (0, 100, 0)):
        noisy = np.array(truth) + rng.laplace(0, 11.0, (150, 3))
        for at in (0, 2):
            found = [_shares(one, law, at) for one in noisy]
            share = truth[at] / sum(truth)
            held = np.mean([one["low"] - 1e-9 <= share <= one["high"] for one in found])
            assert held > 0.9, (truth, at, held)
            assert all(one["low"] <= one["share"] <= one["high"] for one in found)
    assert held < 0.999 or truth[2] == 0


def test_a_number_that_noise_made_negative_is_told_as_near_zero():
    """Noise of −60 where 10 is usual: of no share is that likely, and the share is small all the same."""
    below = _shares([-60.0, 1000.0, 30.0], Laplace(10.0), 0)
    assert below["share"] == below["low"] == 0.0
    assert below["high"] == pytest.approx(10 * math.log(20) / 970, rel=0.05)  # of one Laplace number, about
