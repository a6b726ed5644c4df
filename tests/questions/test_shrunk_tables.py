"""Tables that are shrunk after noise: less squared error, and the intervals of the noisy cells behind."""

import numpy as np
import pyarrow
import pytest

from discreet import Categories, GaussianDP, PureDP, Schema, Session, ZeroConcentratedDP
from discreet.core.errors import InvalidParameter
from discreet.core.protection import Neighbours
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


def test_epsilon_does_not_pay_for_it():
    mine = Session(ROWS, PRIVATE, ledger=":memory:", budget=PureDP(1.0))
    with pytest.raises(InvalidParameter, match="μ and ρ"):
        mine.table("c", epsilon=1.0, shrink=True)
