"""Private bounds: whatever bounds are found, the question that needed them has an answer, or spends nothing."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet import (
    Bounds,
    Categories,
    Formula,
    Ledger,
    PrivacyUnit,
    PrivateBounds,
    PrivateLimit,
    PureDP,
    Schema,
    Session,
)
from discreet.core.errors import InvalidParameter
from discreet.core.ledger.balance import Approvals
from discreet.mechanisms import PoissonSample
from discreet.plans.job import Job
from discreet.plans.review import approve_plan
from discreet.questions.histogram import HistogramQuestion
from discreet.questions.profile.released_first import released_first, settled

GUESS = PrivateBounds(0, 1000, grid=0.5, epsilon=0.5)
ROWS = Schema(columns={"x": GUESS})
HALF = PureDP(0.5)


def session(values, schema=ROWS, ledger=None):
    table = pa.table({"x": np.asarray(values, dtype=float), "person": np.arange(len(values)) // 2})
    return Session(table, schema, ledger=ledger or Ledger(":memory:", PureDP(2.0)))


@pytest.mark.parametrize("values", [np.full(2000, 7.0), np.linspace(-5e12, -4e12, 2000)], ids=["one value", "far away"])
def test_settings_that_suit_the_expected_bounds_suit_all_that_are_found(values):
    """A plan's expectation, and bins of one width, need not fit bounds that nobody knew."""
    asked = session(values)
    released = asked.mean("x", guarantee=HALF, expected_mean=500.0, expected_rows=2000)
    assert "released privately" in released.public["bounds"]
    assert asked.histogram("x", guarantee=HALF, bins=10).value.size == 10
    assert asked.ledger.remaining() == PureDP(0.5)


def test_public_edges_need_no_bounds():
    """What lies beyond the edges is in the bins at the ends."""
    asked = session(np.r_[np.full(500, -4e6), np.full(300, 7e9)], ROWS)
    assert released_first(HistogramQuestion(ROWS, "x", guarantee=HALF, edges=[0, 10, 1000]), ROWS) == {}
    low, high = asked.histogram("x", guarantee=HALF, edges=[0, 10, 1000]).value
    assert abs(low - 500) < 80
    assert abs(high - 300) < 80
    assert asked.ledger.spent() == HALF


def test_bins_beyond_the_expected_bounds_hold_their_own_values():
    """Expected bounds serve plans: they move no value where public edges say more."""
    values = np.r_[np.full(500, 7.0), np.full(300, 1250.5), np.full(200, 9e9)]
    asked = session(values)
    found = asked.histogram("x", guarantee=HALF, edges=[0, 1000, 1200, 1500.25, 2000])
    assert np.all(np.abs(found.value - [500, 0, 300, 200]) < 80)
    assert "bounds" not in found.public
    assert asked.ledger.spent() == HALF


def test_a_filter_on_a_column_with_public_edges_pays_for_no_bounds():
    """Nor may bounds that were paid for turn out not to lie between the edges."""
    filtered = Schema(columns={"x": GUESS}, where=Formula("x > 5"))
    asked = session(np.r_[np.full(500, 2.0), np.full(300, 70.0), np.full(200, 9e9)], filtered)
    found = asked.histogram("x", guarantee=HALF, edges=[0, 10, 1000])
    assert np.all(np.abs(found.value - [0, 500]) < 80)
    assert asked.ledger.spent() == HALF


def test_a_grid_is_finer_where_bins_need_it():
    question = HistogramQuestion(ROWS, "x", guarantee=HALF, bins=25)
    (key, first), *_ = released_first(question, ROWS).items()
    found = session(np.full(2000, 7.0)).ask(first)
    own = settled(question, ROWS, {key: found}).question.schema.bounds("x")
    assert (own.low, own.high, own.grid) == (7.0, 8.0, 0.01)


def test_a_name_that_was_used_is_refused_before_bounds_are_paid_for():
    ledger = Ledger(":memory:", PureDP(2.0))
    session(np.arange(2000.0), Schema(columns={"x": Bounds(0, 1000, grid=0.5)}), ledger).mean(
        "x", guarantee=HALF, name="r"
    )
    with pytest.raises(InvalidParameter, match=r"different release.*Nothing was spent"):
        session(np.arange(2000.0), ROWS, ledger).mean("x", guarantee=HALF, name="r")
    assert ledger.spent() == HALF
    answer = session(np.arange(2000.0), ROWS, ledger).mean("x", guarantee=HALF, name="other")
    assert session([], ROWS, ledger).mean("x", guarantee=HALF, name="other").to_dict() == answer.to_dict()
    assert ledger.remaining() == PureDP(0.5)


def test_sessions_with_and_without_a_step_do_not_share_what_follows_from_bounds():
    whole = session(np.arange(2000.0))
    plain = whole.mean("x", guarantee=HALF)
    sampled = whole.omitting(PoissonSample(0.5)).mean("x", guarantee=HALF)
    assert "omission" in sampled.public
    assert "omission" not in plain.public
    assert sampled.mechanism.scale < plain.mechanism.scale
    assert sampled.public["bounds"] == plain.public["bounds"]


def test_a_test_of_one_row_per_unit_is_refused_before_a_limit_is_paid_for():
    """The limit that is found may be larger than the one that is expected."""
    unit = PrivacyUnit("person", contribution=PrivateLimit(total=1, epsilon=0.5))
    schema = Schema(columns={"x": Bounds(0, 2000, grid=1), "half": Categories(["L", "R"])}, unit=unit)
    asked = session(np.arange(2000.0), schema)
    with pytest.raises(InvalidParameter, match="a test needs independent rows"):
        asked.rank_test("x", "half", guarantee=HALF, bins=4)
    assert asked.ledger.spent() == PureDP(0.0)


PLAN = """\
title = "Pay"
[source]
path = "rows.parquet"
[budget]
epsilon = 2.0
[ledger.approvals]
need = 1
[ledger.approvals.keys]
officer = "{key}"
[schema.columns.x]
low = 0
high = 1000
grid = 0.5
source = "a law"
private = {{ epsilon = 0.5 }}
[[release]]
name = "pay"
ask = "mean"
column = "x"
epsilon = 0.5
"""


def test_where_people_approve_every_release_nothing_is_released_that_would_decide_another(tmp_path):
    """Its noise would follow from bounds that nobody knows yet: it was refused, after the bounds were paid for."""
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw().hex()
    ledger = Ledger(":memory:", PureDP(2.0), approvals=Approvals(1, {"officer": public}))
    with pytest.raises(InvalidParameter, match=r"nobody can approve.*Nothing was spent"):
        session(np.arange(2000.0), ROWS, ledger).mean("x", guarantee=HALF)
    assert ledger.spent() == PureDP(0.0)
    pq.write_table(pa.table({"x": np.arange(2000.0)}), tmp_path / "rows.parquet")
    (tmp_path / "plan.toml").write_text(PLAN.format(key=public))
    job = Job(tmp_path / "plan.toml")
    for refused in (lambda: approve_plan(job, by="officer", sign=lambda: key.sign), job.run, job.check):
        with pytest.raises(InvalidParameter, match=r"nobody can approve.*Nothing was spent"):
            refused()
    with job.ledger(write=False) as opened:
        assert opened.spent() == PureDP(0.0)
