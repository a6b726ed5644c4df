"""The auditor: what it certifies is right, it finds small excesses, and everything shipped passes it."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from discreet import ApproxDP, GaussianDP, Neighbours, PureDP
from discreet import audit as public_audit
from discreet.audit import run as audit_run
from discreet.audit.attack_plan import PIPELINES
from discreet.audit.catalogue import cases
from discreet.audit.exact_losses import Cells, audit_choices, audit_laws
from discreet.audit.hostile import audit_hostile, hostile_calls
from discreet.audit.replay import (
    audit_replay,
    path_taken,
    replay_cases,
    same_randomness,
    unit_pairs,
)
from discreet.audit.report import Audit, AuditReport
from discreet.audit.run import RECOMPUTING, run_audit
from discreet.audit.statistical import (
    audit_draws,
    audit_pair,
    audit_repetition,
    certified_epsilon,
    certified_mu,
    clopper_pearson,
    smallest_excess,
)
from discreet.audit.tampering import audit_spending
from discreet.core.errors import DiscreetError
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms import Laplace
from discreet.questions import Sum

CASES = {case.name: case for case in cases()}
REPLAYS = {case.name: case for case in replay_cases()}


def test_every_public_name_is_there():
    assert all(callable(getattr(public_audit, name)) for name in public_audit.__all__)


WORLDS = 4
"""An eighth of the worlds that `discreet audit` generates."""
ELSEWHERE = {"replay", *(f"pipelines of {about}" for about in PIPELINES), *RECOMPUTING}
"""Parts that have tests of their own: below, in test_audit_coverage and in test_recomputed_audits."""
DEEP = {"worlds on Spark"}
"""Parts of deep runs alone."""
PARTS = {*audit_run._PARTS} - ELSEWHERE - DEEP - {f"sessions {share}" for share in range(WORLDS + 1, 9)}


@pytest.mark.parametrize("part", sorted(PARTS))
def test_a_short_run_finds_nothing(part, monkeypatch):
    """On reproducible noise."""
    monkeypatch.setitem(audit_run.WORLDS, False, WORLDS)
    _, lines, _ = audit_run._part(part, False)
    assert lines
    assert all(line.passed for line in lines), [line.to_dict() for line in lines if not line.passed]


def test_a_run_reports_all_of_its_parts(monkeypatch):
    few = {name: audit_run._PARTS[name] for name in ("pipelines of releases", "replay", "randomness", "tampering")}
    monkeypatch.setattr(audit_run, "_PARTS", few)
    told = []
    report = run_audit(workers=1, progress=told.append)
    print(report)
    assert report.passed, [line.to_dict() for line in report.lines if not line.passed]
    assert [(step.name, step.done, step.total) for step in told] == [(name, n + 1, 4) for n, name in enumerate(few)]
    assert told[-1].left == 0
    assert len(report.lines) > 100
    assert all(len(line) <= 80 for line in str(report).splitlines())
    assert "Nothing was found" in report.to_html()
    assert "What this run could not have found" in report.to_html()


@pytest.mark.deep
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.deep_only])
def test_whole_fits_and_sessions_are_not_refuted_by_draws(name):
    case = CASES[name]
    audit = audit_pair(case.here, case.there, case.claim, draws=1_000, confidence=0.99999)
    assert audit.passed, str(audit)


@pytest.mark.parametrize("name", REPLAYS)
def test_replayed_neighbours_stay_within_the_declaration(name):
    audit = REPLAYS[name].audit(60)
    assert audit.passed, str(audit)


def test_small_excess_is_found_with_the_probability_stated():
    """Detectable excess at power 99 %: found in at least 90 of 100 audits, missed by chance once in 10¹¹."""
    audit = audit_pair(Laplace(1.0).law(0.0).sample, Laplace(1.0).law(1.0).sample, PureDP(1.0), draws=200_000)
    assert 1.0 < audit["detectable"] < 1.2
    worse = Laplace(1 / (audit["detectable"] + 0.02))
    draws = (worse.law(0.0).sample, worse.law(1.0).sample)
    assert sum(not audit_pair(*draws, PureDP(1.0), draws=200_000).passed for _ in range(20)) >= 16


def test_every_hostile_argument_is_refused_in_words_or_answered():
    audit = audit_hostile(hostile_calls())
    assert audit.passed, "\n".join(audit.findings)
    assert audit["refused"] > 2000


def test_noise_is_new_and_paid_for():
    assert audit_repetition(lambda: Laplace(1.0).draw([0.0] * 4), times=10, forks=3).passed
    assert audit_spending().passed


def test_clopper_pearson_against_the_binomial():
    from scipy.stats import binom

    low, high = clopper_pearson(30, 100, 0.01)
    assert binom.sf(29, 100, low) == pytest.approx(0.01)
    assert binom.cdf(30, 100, high) == pytest.approx(0.01)
    assert clopper_pearson(0, 10, 0.01)[0] == 0
    assert clopper_pearson(10, 10, 0.01)[1] == 1


def test_certified_bounds_agree_with_each_other():
    epsilon = certified_epsilon(600, 200, 1000, 0.001)
    assert 0 < epsilon < math.log(3)
    assert certified_epsilon(600, 200, 1000, 0.001, delta=0.1) < epsilon
    assert certified_mu(600, 200, 1000, 0.001) > 0
    assert smallest_excess(0.5, 10**6, 0.0005, 1.0) < smallest_excess(0.5, 10**4, 0.0005, 1.0)


def test_vectors_and_pipelines_multiply():
    one = Laplace(1.0).law(0.0), Laplace(1.0).law(1.0)
    assert not audit_laws(PureDP(1.5), [[one, one]]).passed
    assert audit_laws(PureDP(2.0), [[one, one]]).passed
    assert not audit_choices(PureDP(1.0), [(np.array([1.0, 0.0]), np.array([0.5, 0.5]))]).passed
    cells = Cells(np.full(10_000, 1e-4), np.full(10_000, 1e-4)).merged(50)
    assert cells.p.sum() == pytest.approx(1)
    assert cells.p.size <= 60


def test_claims_of_every_kind_are_refuted_where_wrong():
    here, there = (Laplace(0.2).law(truth).sample for truth in (0.0, 1.0))
    for claim in (PureDP(1.0), ApproxDP(1.0, 0.01), GaussianDP(1.0)):
        assert not audit_pair(here, there, claim, draws=20_000).passed


def test_draws_that_cannot_be_audited_are_refused():
    for first, second in (
        ([1.0] * 10, [1.0] * 10),
        (np.full(2000, np.nan), np.zeros(2000)),
        (np.zeros(2000), np.zeros(3000)),
    ):
        with pytest.raises(DiscreetError):
            audit_draws(first, second, PureDP(1.0))
    with pytest.raises(DiscreetError):
        audit_draws(np.zeros(2000), np.zeros(2000), 1.0)


def test_units_are_added_and_removed_whole():
    table = {"who": [1, 1, 2], "x": ["a", "b", "a"]}
    pairs = list(unit_pairs(table, "who", {"x": ["a", "z"]}))
    assert all(set(there["who"]) ^ set(here["who"]) for here, there in pairs)
    assert any(len(there["who"]) == 15 for _, there in pairs)


def test_replay_sees_paths_shapes_and_declarations():
    total = Sum(bounds=(0, 10))
    measure = lambda rows: total.exact(rows, neighbours=Neighbours.ADD_REMOVE)  # noqa: E731
    assert audit_replay(measure, [([1], [1, 10])], draw=lambda exact: Laplace(1.0).draw(exact.value))["same_path"]
    shapes = audit_replay(lambda rows: Exact(rows, Sensitivity(l1=1.0)), [([1.0], [1.0, 2.0])])
    assert not shapes["within"]
    assert shapes.to_dict()["measured"]["measured_l1"] is None
    moved = audit_replay(lambda rows: Exact(rows, Sensitivity(moves=(1.0, 1.0))), [([0.0, 0.0], [0.0, 1.5])])
    assert not moved["within"]
    with same_randomness(1):
        first = Laplace(1.0).draw(Fraction(1, 3))
    with same_randomness(1):
        assert Laplace(1.0).draw(Fraction(1, 3)) == first
    assert Laplace(1.0).draw(Fraction(1, 3)) != first
    assert path_taken(lambda: None) == frozenset()


def test_report_in_all_forms():
    lines = (
        Audit("exact", "a <b>", "ε 1", "ε 0.9", (), 0.9),
        Audit("replay", "c", "ℓ₁ 1", "ℓ₁ 2", ("moves too far",), 2.0, {"x": 1}),
    )
    report = AuditReport(lines, False, "2026-01-01T00:00:00+00:00", 1.0, 0.5)
    assert not report.passed
    assert json.loads(report.to_json())["failed"] == ["c"]
    assert "<script" not in report.to_html()
    assert "a &lt;b&gt;" in report.to_html()
    assert "| c | ℓ₁ 1 | ℓ₁ 2: moves too far |" in report.written(".md")
    assert all(len(line) <= 80 for line in str(report).splitlines())
    with pytest.raises(DiscreetError):
        report.written(".txt")
