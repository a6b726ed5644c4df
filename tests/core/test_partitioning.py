"""Comparing means on an engine: the same totals as in plain Python, whoever else takes part."""

import hashlib
import math
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from discreet import Bounds, Categories, Feature, Neighbours, PrivacyUnit, PureDP, Schema, Session
from discreet.core.errors import InvalidParameter
from discreet.core.protection import Unit
from discreet.core.rows import Selected, take
from discreet.core.rows.source import open_source
from discreet.questions.comparison.question import MOST_PARTITIONS, arms_on_engine

ARMS = Categories(["control", "treatment"])
SALT = "ab" * 32


def impressions(devices=400, rows=3000, seed=1):
    rng = np.random.default_rng(seed)
    device = rng.integers(devices, size=rows)
    arm = np.where(device % 2 == 0, "control", "treatment")
    click = rng.integers(0, 4, size=rows)
    return pa.table({"device": device, "arm": arm, "click": click})


def schema(low=0, high=8, **more):
    columns = {"click": Bounds(0, 3, grid=1), "arm": ARMS}
    features = {"clicks": Feature(of="click", take="sum", low=low, high=high), "arm": Feature(of="arm", take="min")}
    return Schema(columns=columns, unit=PrivacyUnit("device"), features=features, **more).per_unit()


def arms_of(table, partitions, low=0, high=8, engine=None):
    snapshot = take(open_source(table, engine=engine), schema(low, high), salt=SALT)
    return arms_on_engine(snapshot, Selected(by=("arm",), columns=("clicks",)), partitions)


def by_hand(table, partitions, high=8):
    """Counts, sums and squares from dictionaries."""
    sums = {}
    for device, arm, click in zip(*(table[name].to_pylist() for name in ("device", "arm", "click")), strict=True):
        sums[device, arm] = sums.get((device, arm), 0) + click
    counts, totals, squares = np.zeros((2, partitions), int), np.zeros((2, partitions), int), [0, 0]
    for (device, arm), value in sums.items():
        digest = hashlib.sha256(f"{SALT[:32]}|p|{device}".encode()).hexdigest()
        part, group, clipped = int(digest[:4], 16) * partitions // 65536, int(arm == "treatment"), min(value, high)
        counts[group, part] += 1
        totals[group, part] += clipped
        squares[group] += clipped**2
    return counts, totals, squares


SPARK = pytest.param(
    16,
    "spark",
    marks=[
        pytest.mark.spark,
        pytest.mark.skipif(shutil.which("java") is None, reason="a local Spark needs Java, and there is none"),
    ],
)


@pytest.mark.parametrize(("partitions", "engine"), [(None, None), (16, None), SPARK])
def test_totals_are_those_of_plain_python(partitions, engine):
    table = impressions()
    arms = arms_of(table, partitions, engine=engine)
    counts, sums, squares = by_hand(table, partitions or 1)
    assert (arms.counts == counts).all()
    assert (arms.sums.astype(int) == sums).all()
    assert list(arms.squares) == squares
    assert (arms.low, arms.width, arms.largest) == (0.0, 8.0, 8)


def test_wide_bounds_use_exact_decimals():
    table = impressions()
    arms = arms_of(table, None, -(2**20), 2**20)
    _, sums, _ = by_hand(table, 1, high=2**20)
    assert [arms.total(i) - 2**20 * arms.size(i) for i in (0, 1)] == sums[:, 0].tolist()


def test_removing_a_unit_changes_one_partition_by_that_unit():
    table = impressions()
    without = table.filter(pa.compute.not_equal(table["device"], 7))
    one, other = (arms_of(rows, 16) for rows in (table, without))
    changed = np.argwhere((one.counts != other.counts) | (one.sums != other.sums))
    assert changed.tolist() == [[1, changed[0][1]]]  # device 7 is in treatment
    assert (one.counts - other.counts).sum() == 1
    assert 0 <= one.total(1) - other.total(1) <= 8


def test_a_unit_in_both_arms_counts_once():
    table = pa.table({"device": [1, 1, 2, 2], "arm": ["control", "treatment"] * 2, "click": [1, 2, 3, 1]})
    arms = arms_of(table, None)
    assert arms.counts.sum() == 2


def test_a_session_compares_means():
    rng = np.random.default_rng(2)
    device = np.repeat(np.arange(20_000), 2)
    treated = device % 2 == 1
    click = rng.poisson(np.where(treated, 1.5, 1.0))
    table = pa.table({"device": device, "arm": np.where(treated, "treatment", "control"), "click": click})
    session = Session(table, schema(high=20), ledger=":memory:", budget=PureDP(2.0))
    result = session.compare_means("clicks", by="arm", guarantee=PureDP(0.5), partitions=100)
    true = click[treated].clip(0, 3).sum() / 10_000 - click[~treated].clip(0, 3).sum() / 10_000
    assert result.population_interval(0.9999).contains(true)
    assert result.protection.unit == Unit("device")
    assert session.ledger.remaining() == PureDP(1.5)
    aware = session.compare_means("clicks", by="arm", guarantee=PureDP(1.5), partitions=100, method="noise_aware")
    assert aware.method == "noise_aware"
    assert math.isfinite(aware.estimate)
    assert session.ledger.remaining() == PureDP(0.0)


@pytest.mark.parametrize("nulls", ["drop", 0])
def test_rows_as_units_under_replace_one(nulls):
    rng = np.random.default_rng(3)
    arm = np.repeat(["control", "treatment"], 5000)
    click = rng.integers(0, 3, 10_000) + (arm == "treatment")
    columns = {
        "click": Bounds(0, 3, grid=1, nulls=nulls),
        "arm": Categories(["control", "treatment"], "=control", "=control"),
    }
    rows = Schema(columns=columns, neighbours=Neighbours.REPLACE_ONE, size=10_000)
    session = Session(pa.table({"arm": arm, "click": click}), rows, ledger=":memory:", budget=PureDP(1.0))
    result = session.compare_means("click", by="arm", guarantee=PureDP(1.0))
    # Where rows may drop out the sizes are private, and the comparison has three moments per arm instead of two.
    assert len(result.noisy["moments"]) == (6 if nulls == "drop" else 4)
    assert result.population_interval(0.9999).contains(1.0)


def test_natural_partitions_from_a_column():
    rng = np.random.default_rng(4)
    rows = 12_000
    device = np.arange(rows) // 2
    treated = device % 2 == 1
    server = device // 2 % 12
    click = rng.poisson(np.where(treated, 1.5, 1.0))
    table = pa.table(
        {"device": device, "arm": np.where(treated, "treatment", "control"), "click": click, "server": server}
    )
    columns = {"click": Bounds(0, 3, grid=1), "arm": ARMS, "server": Categories(list(range(12)))}
    unit = PrivacyUnit("device")
    features = {name: Feature(of=name, take="max") for name in ("arm", "server")}
    features["click"] = Feature(of="click", take="sum", low=0, high=6)
    asked = {"by": "arm", "partition_by": "server", "method": "noise_aware"}
    devices = Schema(columns=columns, unit=unit, features=features)
    session = Session(table, devices.per_unit(), ledger=":memory:", budget=PureDP(9.0))
    result = session.compare_means("click", guarantee=PureDP(5.0), **asked)
    sums = np.bincount(device, np.minimum(click, 3))
    true = sums[1::2].mean() - sums[0::2].mean()
    assert result.population_interval(0.9999).contains(true)
    with pytest.raises(InvalidParameter, match="12 labels"):
        session.compare_means("click", guarantee=PureDP(1.0), partitions=100, **asked)
    replaced = replace(devices, neighbours=Neighbours.REPLACE_ONE, size=rows // 2)
    session = Session(table, replaced.per_unit(), ledger=":memory:", budget=PureDP(9.0))
    with pytest.raises(InvalidParameter, match="change its partition"):
        session.compare_means("click", guarantee=PureDP(1.0), **asked)


def test_refusals():
    asked = {"by": "arm", "guarantee": PureDP(0.5), "method": "noise_aware"}
    devices = Session(impressions(), schema(), ledger=":memory:", budget=PureDP(1.0))
    with pytest.raises(InvalidParameter, match="must be at most"):
        devices.compare_means("clicks", partitions=MOST_PARTITIONS + 1, **asked)
    alone = Schema(columns={"click": Bounds(0, 3, grid=1), "arm": ARMS})
    rows = Session(impressions(), alone, ledger=":memory:", budget=PureDP(1.0))
    with pytest.raises(InvalidParameter, match="needs an id column"):
        rows.compare_means("click", partitions=10, **asked)
    assert devices.ledger.remaining() == rows.ledger.remaining() == PureDP(1.0)
    session = Session(
        pa.table({"arm": ["a", "b", "c"], "y": [1, 2, 3]}),
        Schema(columns={"y": Bounds(0, 3, grid=1), "arm": Categories(["a", "b", "c"])}),
        ledger=":memory:", budget=PureDP(1.0),
    )  # fmt: skip
    with pytest.raises(InvalidParameter, match="two labels"):
        session.compare_means("y", by="arm", guarantee=PureDP(0.5))
    assert session.ledger.remaining() == PureDP(1.0)
