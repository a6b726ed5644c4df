"""Tables that are shrunk after noise: less squared error, and the intervals of the noisy cells behind."""

import math

import numpy as np
import pyarrow
import pytest
from mpmath import mp

from discreet import Categories, GaussianDP, PureDP, Schema, Session, ZeroConcentratedDP
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.protection import Neighbours
from discreet.mechanisms import JamesSteinGaussian
from discreet.plans.job import Job

LABELS = [f"c{number}" for number in range(8)]
COUNTS = np.array([30, 28, 33, 31, 29, 32, 30, 27])
ROWS = pyarrow.table({"c": np.repeat(LABELS, COUNTS)})
COLUMN = {"c": Categories(LABELS, nulls="=c0", unknown="=c0")}
PRIVATE = Schema(columns=COLUMN)
PUBLIC = Schema(columns=COLUMN, neighbours=Neighbours.REPLACE_ONE, size=int(COUNTS.sum()))


def released(schema, shrink, times, guarantee):
    mine = Session(ROWS, schema, ledger=":memory:", budget=type(guarantee)(100.0))
    return [mine.table("c", guarantee=guarantee, shrink=shrink) for _ in range(times)]


@pytest.mark.parametrize("guarantee", [GaussianDP(0.2), ZeroConcentratedDP(0.02)], ids=str)
@pytest.mark.parametrize("schema", [PRIVATE, PUBLIC], ids=["private total", "public total"])
def test_shrunk_cells_are_closer_and_their_intervals_hold(schema, guarantee):
    """By the risk of lee2022 (Theorems 4 to 6) the error is about a third; 320 intervals hold in 95 of 100 cases."""
    shrunk, plain = (released(schema, shrink, 40, guarantee) for shrink in (True, False))
    errors = [np.mean([np.sum((np.asarray(one.value) - COUNTS) ** 2) for one in some]) for some in (shrunk, plain)]
    assert errors[0] < 0.7 * errors[1]
    covered = [one.noise_interval().contains(COUNTS) for one in shrunk]
    assert np.mean(covered) > 0.9
    assert all(one.known_population_interval() is not None for one in shrunk[:3])
    if schema is PUBLIC:
        assert all(abs(np.sum(one.value) - COUNTS.sum()) < 1e-6 for one in shrunk)


def test_a_plan_states_the_risk_and_a_run_keeps_the_answer(tmp_path):
    (tmp_path / "rows.csv").write_text("c\n" + "\n".join(ROWS["c"].to_pylist()))
    text = f"""
[source]
path = "rows.csv"
[budget]
mu = 1.0
[schema.columns.c]
categories = {LABELS}
[[release]]
ask = "table"
columns = "c"
shrink = true
mu = 0.5
"""
    (plan := tmp_path / "plan.toml").write_text(text)
    note = str(Job(plan).plan()).replace("\n", " ")
    # M_JS towards the mean, 8 cells and σ = 2: equal cells cost σ²(8 − 5²·E[…]); any table at most 8σ² = 32
    assert "add up to" in note
    assert "at most 32, on average; without it 32" in note
    assert len(Job(plan).run().rows()) >= 8
    assert Job(plan).finished()
    plan.write_text(text.replace("shrink = true", "shrink = false"))
    assert not Job(plan).finished()


TWO = {"sex": Categories(["f", "m"], nulls="=f", unknown="=f"), **COLUMN}
CELLS = np.array([COUNTS - 10, np.full(8, 10)])
TWO_ROWS = pyarrow.table(
    {"sex": np.repeat(["f", "m"], CELLS.sum(axis=1)), "c": np.concatenate([np.repeat(LABELS, row) for row in CELLS])}
)


@pytest.mark.parametrize("neighbours", list(Neighbours), ids=str)
def test_public_totals_are_kept_and_save_error(neighbours):
    """40 tables: the cells of both columns' public totals agree with them, and are closer than without."""
    size = None if neighbours is Neighbours.ADD_REMOVE else int(CELLS.sum())
    schema = Schema(columns=TWO, neighbours=neighbours, size=size)
    mine = Session(TWO_ROWS, schema, ledger=":memory:", budget=GaussianDP(100.0))
    known = {"sex": dict(zip("fm", CELLS.sum(axis=1).tolist(), strict=True)),
             "c": dict(zip(LABELS, CELLS.sum(axis=0).tolist(), strict=True))}  # fmt: skip
    asked = {"known": known}, {}
    found = [[mine.table(["sex", "c"], mu=0.2, shrink=True, **one) for _ in range(40)] for one in asked]
    for one in found[0]:
        np.testing.assert_allclose(np.asarray(one.value).sum(axis=1), CELLS.sum(axis=1), atol=1e-6)
        np.testing.assert_allclose(np.asarray(one.value).sum(axis=0), CELLS.sum(axis=0), atol=1e-6)
    errors = [np.mean([np.sum((np.asarray(one.value) - CELLS) ** 2) for one in some]) for some in found]
    assert errors[0] < 0.7 * errors[1]
    assert np.mean([one.noise_interval().contains(CELLS) for one in found[0]]) > 0.9
    assert "sex" in str(found[0][0])
    shares = [one.proportions().population_interval() for one in found[0]]
    assert np.mean([one.contains(CELLS / CELLS.sum()) for one in shares]) > 0.9
    note = str(mine.plan.table(["sex", "c"], mu=0.2, shrink=True, known=known)).replace("\n", " ")
    assert "are taken as public, unchecked" in " ".join(note.split())


def test_cells_are_kept_between_public_ends():
    mine = Session(ROWS, PRIVATE, ledger=":memory:", budget=GaussianDP(100.0))
    for _ in range(10):
        found = np.asarray(mine.table("c", mu=0.2, shrink=True, between=[25, 35]).value)
        assert found.min() >= 25
        assert found.max() <= 35


@pytest.mark.parametrize(
    "settings",
    [
        {"known": {"c": {"c0": 30}}},
        {"between": [0, 50]},
        {"shrink": True, "known": {"d": {"c0": 30}}},
        {"shrink": True, "known": {"c": {"none": 30}}},
        {"shrink": True, "known": {"c": {}}},
        {"shrink": True, "known": {"c": dict.fromkeys(LABELS, 31)}},
        {"shrink": True, "known": {}},
        {"shrink": True, "between": [50, 0]},
        {"shrink": True, "between": [1, 2, 3]},
        {"shrink": True, "between": (float("nan"), 5)},
        {"shrink": True, "between": 5},
        {"shrink": True, "between": (0, math.inf)},
        {"shrink": True, "known": 5},
        {"shrink": True, "known": {"c": 5}},
    ],
)
def test_facts_that_cannot_be_are_refused_before_anything_is_spent(settings):
    mine = Session(ROWS, PUBLIC, ledger=":memory:", budget=GaussianDP(1.0))
    with pytest.raises((InvalidParameter, WrongType)):
        mine.table("c", mu=0.5, **settings)
    assert mine.ledger.remaining() == GaussianDP(1.0)


def test_epsilon_does_not_pay_for_it():
    mine = Session(ROWS, PRIVATE, ledger=":memory:", budget=PureDP(1.0))
    with pytest.raises(InvalidParameter, match="μ and ρ"):
        mine.table("c", epsilon=1.0, shrink=True)


@pytest.mark.parametrize("k", [3, 7, 39])
def test_the_bias_of_shrinkage_is_bounded_for_every_table(k):
    """t·E[min(1, c/W')] with W' ~ χ²_{k+2}(t²), as a Poisson mixture in 30 digits, never exceeds √(k − 2)/2."""
    c, found = k - 2, []
    with mp.workdps(30):
        for t in (0.1, 0.5, 1.0, math.sqrt(c), 2 * math.sqrt(c), 10.0):
            total = mp.mpf(0)
            for j in range(int(t * t / 2 + 12 * t + 40)):
                nu = mp.mpf(k + 2 + 2 * j)
                weight = mp.exp(-(mp.mpf(t) ** 2) / 2) * (mp.mpf(t) ** 2 / 2) ** j / mp.factorial(j)
                below = mp.gammainc(nu / 2, 0, mp.mpf(c) / 2, regularized=True)
                above = mp.gammainc(nu / 2 - 1, mp.mpf(c) / 2, mp.inf, regularized=True) / (nu - 2)
                total += weight * (below + c * above)
            found.append(float(t * total))
    assert max(found) <= math.sqrt(c) / 2
    assert max(found) > 0.6 * math.sqrt(c) / 2  # and is not far below it


def test_draws_and_plans_keep_to_the_bound():
    for rank_deficient in (False, True):
        shrunk = JamesSteinGaussian(scale=5.0, rank_deficient=rank_deficient)
        bound = shrunk.largest_bias(12)
        assert bound == 5.0 * math.sqrt((10 if rank_deficient else 11) - 2) / 2
        for spread in (0.0, 3.0, 8.0, 40.0):
            truth = 100 + spread * np.arange(12.0)
            bias = shrunk.simulate(truth, 20_000, rng=1).mean(axis=0) - truth
            assert np.linalg.norm(bias) <= bound + 5 * 5.0 / math.sqrt(20_000) * math.sqrt(12)
    mine = Session(ROWS, PRIVATE, ledger=":memory:", budget=GaussianDP(1.0))
    plan = mine.plan.table("c", mu=0.5, shrink=True)
    told = {row["setting"]: row["bias"] for row in plan.alternatives().rows()}
    assert told["shrink = True"] == pytest.approx(2.0 * math.sqrt(7 - 2) / 2)
    assert "No cell has a bias above 2.24" in " ".join(str(plan).split())
