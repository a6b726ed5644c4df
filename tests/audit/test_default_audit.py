"""The default audit finds twelve faults that good engineers made, each planted in the code that really runs."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from discreet.audit.ledgers import audit_ledger_programs
from discreet.audit.pipeline import audit_pipeline
from discreet.audit.replay import audit_deletions
from discreet.audit.session_pipelines import session_pipelines
from discreet.audit.worlds import attack_world, generated_worlds
from discreet.core import schema as stable
from discreet.core.ledger import balance
from discreet.core.protection import Neighbours
from discreet.core.rows import expressions, keep
from discreet.core.schema import Contribution
from discreet.mechanisms.omission.step import AbsoluteDistance, PoissonSample
from discreet.questions.quantile import Quantiles
from discreet.session import Session
from tests.planted_faults import everywhere

WORLDS = list(generated_worlds())
"""Those of a short run."""


def found_in_worlds():
    """What the first world that notices anything notices."""
    for world in WORLDS:
        found = [f"{one.name}: {one.findings[0]}" for one in attack_world(world) if not one.passed]
        if found:
            return f"{world.name}: {found[0]}"
    return None


def found_behind_steps():
    for pipeline in session_pipelines():
        if pipeline.omits and pipeline.quick:
            audit = audit_pipeline(pipeline, scripts=1, pairs=6)
            if not audit.passed:
                return f"{pipeline.name}: {audit.findings[:1]}"
    return None


def without_low():
    original = stable.stability
    return everywhere(
        original, lambda limits, *, low=0, high=1, **facts: original(limits, low=0, high=max(high, 1), **facts)
    )


def one_row_more():
    original = Contribution.most_rows_in_a_group
    return patch.object(Contribution, "most_rows_in_a_group", lambda self: original(self) + (self.rows is None))


def cached_sample():
    original = Session._rows
    taken = {}

    def rows(self, *others):
        key = id(self)
        if key not in taken:
            taken[key] = self, original(self, *others)
        return taken[key][1]

    return patch.object(Session, "_rows", rows)


def swapped():
    original = PoissonSample.kept
    return patch.object(PoissonSample, "kept", lambda self, data, **options: ~original(self, data, **options))


def nulls_stay():
    original = keep._without_gaps
    return patch.object(keep, "_without_gaps", lambda snapshot, gaps: original(snapshot, frozenset()))


def parts_not_doubled():
    original = stable.in_parts
    return everywhere(original, lambda *facts: original(*facts[:3], Neighbours.ADD_REMOVE))


def limits_not_doubled():
    original = stable.stability

    def faulty(limits, *, cells, neighbours, **bounds):
        one_way = Neighbours.ADD_REMOVE if cells > 1 else neighbours
        return original(limits, cells=cells, neighbours=one_way, **bounds)

    return everywhere(original, faulty)


def quantiles_not_doubled():
    original = Quantiles.sensitivity

    def faulty(self, *, neighbours, **facts):
        if facts.get("grouped"):
            neighbours = Neighbours.ADD_REMOVE
        return original(self, neighbours=neighbours, **facts)

    return patch.object(Quantiles, "sensitivity", faulty)


def forgetful_partition():
    return patch.object(balance.ParallelSpending, "charge", lambda self, costs: tuple(0 * x for x in self_cost(costs)))


def self_cost(costs):
    return next(iter(costs.values())) if isinstance(costs, dict) else costs


def features_not_clipped():
    return patch.object(expressions, "clipped", lambda value, low, high: value.cast("int64"))


def scaled_by_data():
    original = AbsoluteDistance.mean_distances

    def faulty(self, data):
        values = self.prepare(data)
        spread = float(np.ptp(values)) if values.size else 0.0
        return original(replace(self, bounds=(float(values.min()), float(values.max()))) if spread else self, data)

    return patch.object(AbsoluteDistance, "mean_distances", faulty)


def no_lower_clip():
    original = expressions.grid_step

    def faulty(column, bounds, *rest):
        return original(column, replace(bounds, low=-1e9 * bounds.grid), *rest)

    return everywhere(original, faulty)


FAULTS = {
    "stability ignores |low|": (without_low, found_in_worlds),
    "a limit in all keeps one row more": (one_row_more, found_in_worlds),
    "an omitting session caches its sample": (cached_sample, found_behind_steps),
    "a Poisson sample keeps what it should delete": (swapped, found_behind_steps),
    "nulls are not dropped": (nulls_stay, found_in_worlds),
    "parts are not doubled under replace-one": (parts_not_doubled, found_in_worlds),
    "grouped limits are not doubled under replace-one": (limits_not_doubled, found_in_worlds),
    "grouped quantiles are not doubled under replace-one": (quantiles_not_doubled, found_in_worlds),
    "a partition forgets its spends": (forgetful_partition, lambda: audit_ledger_programs().findings[:1]),
    "features of units are not clipped": (features_not_clipped, found_in_worlds),
    "a distance is scaled by the range of the data": (scaled_by_data, lambda: audit_deletions().findings[:1]),
    "values are not clipped from below": (no_lower_clip, found_in_worlds),
}


SLOW = (
    "stability ignores |low|", "an omitting session caches its sample", "parts are not doubled under replace-one",
    "grouped quantiles are not doubled under replace-one", "nulls are not dropped",
)  # fmt: skip
"""Faults that only the later worlds show."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.deep] if name in SLOW else []) for name in FAULTS]
)
def test_the_default_audit_finds(name):
    plant, look = FAULTS[name]
    with plant():
        found = look()
    print(f"{name}: {found}")
    assert found
