"""Classes of faults that an earlier auditor did not see: each check finds planted ones, and nothing in sound code."""

import sys
import warnings
from dataclasses import replace
from functools import partial
from unittest.mock import PropertyMock, patch

import numpy as np
import pytest

from discreet.audit import identities, session_pipelines, written
from discreet.audit import run as audit_run
from discreet.audit.attack_plan import pipelines
from discreet.audit.ledgers import audit_ledger_programs
from discreet.audit.pipeline import audit_pipeline
from discreet.audit.release_pipelines import growing_pipelines, wide_pipelines
from discreet.audit.report import Audit, AuditReport, recomputed
from discreet.audit.sampling import audit_chosen_words
from discreet.audit.session_pipelines import every_question, made, variants
from discreet.audit.statistical import audit_repetition
from discreet.cli.main import main
from discreet.core.door import Allowance
from discreet.core.guarantee import PureDP
from discreet.core.ledger import balance
from discreet.core.noise import sampler
from discreet.core.protection import Neighbours
from discreet.core.rows import expressions, keep, snapshot
from discreet.core.rows.read import Dataset
from discreet.core.schema import Bounds, Related, Schema
from discreet.mechanisms.laplace import Laplace
from discreet.plans.planner import Planner
from discreet.questions import asked
from discreet.questions.tables.margins import Margins
from tests.planted_faults import everywhere

pytestmark = pytest.mark.xdist_group("pipelines")


def findings(part):
    """What a part of an audit finds."""
    return [name for name, same in part if not same]


# ---- facts outside releases ------------------------------------------------------------------------------------------


@pytest.fixture
def few_questions(monkeypatch):
    original = written.every_question
    monkeypatch.setattr(
        written, "every_question", lambda schema: {name: original(schema)[name] for name in ("sum", "count")}
    )


def counted(then):
    """A read of rows that knows how many there are, and does something about it."""
    original = snapshot.take

    def take(dataset, *arguments, **options):
        taken = original(dataset, *arguments, **options)
        then(int(dataset.fetch(taken.table.aggregate(n=taken.table.count())).column("n")[0].as_py()))
        return taken

    return everywhere(original, take)


def warn(rows):
    if rows < 30:
        warnings.warn("discreet: few rows", stacklevel=2)


def say(rows):
    if rows >= 100:
        print("many rows", file=sys.stderr)


@pytest.mark.usefixtures("few_questions")
@pytest.mark.parametrize(("then", "sizes"), [(warn, (29, 30)), (say, (99, 100))])
def test_words_that_depend_on_the_number_of_rows_are_found(then, sizes):
    with counted(then):
        assert findings(written._sessions("rows", sizes))


@pytest.mark.usefixtures("few_questions")
def test_a_plan_that_has_seen_the_rows_is_found():
    seen = []
    original = Planner.__call__
    planned = lambda self, question: replace(original(self, question), notes=(f"{seen[-1:]}",))  # noqa: E731
    with counted(seen.append), patch.object(Planner, "__call__", planned):
        found = findings(written._sessions("people", (29, 30)))
    assert any("planned again" in one for one in found)


@pytest.mark.usefixtures("few_questions")
def test_sessions_tell_nothing_of_the_rows():
    assert findings(written._sessions("people", (29, 30))) == []


def test_refusals_say_the_same_of_all_data():
    assert findings(written._refusals()) == []


def test_a_report_that_tells_the_number_of_rows_is_found(monkeypatch):
    seen = []
    monkeypatch.setattr(written, "_RELEASES", {"count": 'by = ["arm"]'})
    monkeypatch.setattr(written, "_COMMANDS", written._COMMANDS[:3])
    assert findings(written._runs("rows", (29, 30))) == []
    original = sys.modules["discreet.plans.job"].as_markdown
    told = lambda facts: f"{original(facts)}\n{seen[-1]:,} rows were read.\n"  # noqa: E731
    monkeypatch.setattr("discreet.plans.job.as_markdown", told)
    with counted(seen.append):
        found = findings(written._runs("rows", (29, 30)))
    assert any("rows were read" in one for one in found)


# ---- keys and digests ------------------------------------------------------------------------------------------------


class Forgetful(dict):
    """Keeps rows under a key without its last part."""

    def __contains__(self, key):
        return super().__contains__(key[:-1])

    def __getitem__(self, key):
        return super().__getitem__(key[:-1])

    def __setitem__(self, key, value):
        super().__setitem__(key[:-1], value)


def some_orders(monkeypatch, asks):
    original = identities.every_question
    some = lambda schema, *more: {name: one for name, one in original(schema, *more).items() if name in asks}  # noqa: E731
    monkeypatch.setattr(identities, "every_question", some)
    return findings(identities._orders("people", False))


def test_rows_that_are_kept_under_too_short_a_key_are_found(monkeypatch):
    original = snapshot.take
    forgetful = lambda *given, **more: replace(original(*given, **more), kept=Forgetful())  # noqa: E731
    with everywhere(original, forgetful):
        assert some_orders(monkeypatch, ("count", "running_total"))


def test_the_order_of_questions_changes_nothing(monkeypatch):
    assert some_orders(monkeypatch, ("count", "running_total")) == []


def test_a_digest_without_a_filter_is_found():
    original = Related.to_dict
    without = lambda self: {name: one for name, one in original(self).items() if name != "where"}  # noqa: E731
    assert findings(identities._facts()) == []
    with patch.object(Related, "to_dict", without):
        assert any("related.where" in one for one in findings(identities._facts()))


def test_a_price_without_the_kind_of_guarantee_is_found():
    seen = {}

    def converted(guarantee, kind):
        return seen.setdefault((*guarantee.parameters().values(), kind), guarantee.to(kind))

    with patch.object(balance, "_converted", converted):
        assert not audit_ledger_programs().passed


def test_every_setting_of_every_question_is_walked_over():
    schema = Schema(columns=identities._COLUMNS, unit=identities._FULL.unit)
    questions = every_question(schema)
    assert questions.keys() == asked().keys()
    for ask, question in questions.items():
        changed = {name for name, _ in variants(question)}
        assert "guarantee" in changed, ask
        assert len(changed) >= min(2, len(question.fields()) - 1), ask


# ---- every question --------------------------------------------------------------------------------------------------


def test_every_pipeline_is_in_a_report(monkeypatch):
    one = next(iter(session_pipelines.question_pipelines()))
    nothing = audit_pipeline(one, scripts=1, pairs=1)
    monkeypatch.setattr(audit_run, "audit_pipeline", lambda pipeline, **_: nothing)
    parts = [part for part in audit_run.part_names() if part.startswith("pipelines of")]
    lines = [line.name for part in parts for line in audit_run._part(part, False)[1]]
    assert sorted(lines) == sorted(pipeline.name for pipeline in pipelines())


def test_margins_of_a_replaced_row_at_the_price_of_an_added_one_are_found():
    """For any question: what a replaced unit takes away counts beside what it brings."""
    original = Margins.sensitivity
    cheap = lambda self, neighbours, **facts: original(self, Neighbours.ADD_REMOVE, **facts)  # noqa: E731
    names = ("question.tables, a person replaced", "question.tables, mean_of, a row replaced")
    asked = [one for one in session_pipelines.question_pipelines(replaced=True) if one.name in names]
    assert [audit_pipeline(one, scripts=1, pairs=2).passed for one in asked] == [True, True]
    with patch.object(Margins, "sensitivity", cheap):
        asked = [one for one in session_pipelines.question_pipelines(replaced=True) if one.name in names]
        assert [audit_pipeline(one, scripts=1, pairs=2).passed for one in asked] == [False, False]


# ---- failures, ids, parameters, threads, growing data, wide declarations ---------------------------------------------


def test_noise_for_nothing_after_an_error_is_found():
    with patch.object(Allowance, "used", PropertyMock(return_value=False)):
        found = written.audit_failures(asks=("mean",)).findings
    assert any("other noise for the same money" in one for one in found)


def test_errors_that_tell_a_value_are_found():
    asking = Dataset.fetch
    assert written.audit_failures(asks=("sum",)).findings == ()
    assert asking is Dataset.fetch  # nothing is left behind


def test_ids_that_are_made_alike_are_found():
    original = expressions.identifier

    def lower(column, name):
        found = original(column, name)
        return found.lower() if found.type().is_string() else found

    assert findings(identities._limited("arrow")) == []
    assert findings(identities._met("parquet")) == []
    with everywhere(original, lower):
        assert findings(identities._limited("arrow"))


def test_a_scale_that_is_rounded_is_found():
    original = sampler.LaplaceFamily.__init__
    rounded = lambda self, scale, cells: original(self, np.round(scale, 2), cells * np.round(scale, 2) / scale)  # noqa: E731
    with patch.object(sampler.LaplaceFamily, "__init__", rounded):
        assert any("53" not in one for one in audit_chosen_words(20).findings)


def test_a_pool_without_a_lock_is_found():
    pool = [np.zeros(0, np.uint64)]

    def words(self, count):
        if pool[0].size < count:
            pool[0] = np.random.default_rng().integers(0, 2**64, 512, dtype=np.uint64)
        taken = pool[0][:count]
        return hand_over(pool, taken)

    # The lines of the pool count as the noise's own.
    source = "def hand_over(pool, taken):\n    rest = pool[0][len(taken):]\n    pool[0] = rest\n    return taken\n"
    space = {}
    exec(compile(source, sampler.__file__, "exec"), space)
    hand_over = space["hand_over"]
    with patch.object(sampler.SystemEntropy, "words", words):
        found = audit_repetition(lambda: Laplace(1.0).draw([0.0] * 4), times=5, forks=0)
    assert found["where"] == "between threads"


def test_periods_that_move_as_rows_are_added_are_found():
    original = keep.chosen
    total = next(one for one in growing_pipelines() if one.name == "growing.running_total")
    assert audit_pipeline(total, scripts=1, pairs=3).passed
    with patch.object(keep, "chosen", lambda *asked: original(*asked[:-1], replace(asked[-1], first=False))):
        assert not audit_pipeline(total, scripts=1, pairs=3).passed


def test_the_widest_declarations_have_answers():
    plain = [one for one in wide_pipelines() if one.name.endswith("plain")]
    assert len(plain) >= 8
    for pipeline in plain:
        audit = audit_pipeline(pipeline, scripts=1, pairs=4)
        assert audit.passed, (pipeline.name, audit.findings)


# ---- the report ------------------------------------------------------------------------------------------------------


def test_a_missing_package_skips_what_needs_it_by_name(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "polars", None)
    found = recomputed("ids", [partial(identities._limited, "polars"), partial(identities._limited, "arrow")])
    assert (found.findings, found["lacking"], found["checks"]) == ((), ["polars"], 2)
    world = next(one for one in audit_run.generated_worlds() if one.source == "polars")
    monkeypatch.setattr(audit_run, "generated_worlds", lambda count: [world])
    main(["audit", "--part", "sessions 1", "--workers", "1"])
    told = capsys.readouterr().out
    assert all(len(line) <= 80 for line in told.splitlines())
    words = " ".join(told.split())
    assert "1 skipped" in words
    assert "needs polars, which is not installed" in words
    assert "every check was skipped" in words
    assert "NOT SAFE" not in words


def test_a_module_of_ours_that_is_missing_is_a_finding(monkeypatch):
    def broken(deep):
        raise ImportError(name="discreet.core.gone")
        yield

    monkeypatch.setitem(audit_run._PARTS, "exhaustive", broken)
    _, [line], _ = audit_run._part("exhaustive", False)
    assert (line.section, line.passed, line.skipped) == ("aborted", False, False)


def test_parts_are_listed_and_chosen_by_name(capsys):
    main(["audit", "--list"])
    listed = capsys.readouterr().out.splitlines()
    assert tuple(listed) == audit_run.part_names()
    assert audit_run._chosen(["sessions"], False) == [f"sessions {share}" for share in range(1, 9)]
    assert set(audit_run._chosen([], True)) < set(listed)
    with pytest.raises(SystemExit):
        main(["audit", "--part", "nothing"])
    assert "discreet audit --list" in capsys.readouterr().err


def test_the_verdict_speaks_plainly():
    line = Audit("exact", "laplace", "ε 1", "ε 1", (), 1.0)
    right = AuditReport((line,), False, "2026-01-01T00:00:00+00:00", 1.0, 0.5, ("exact",), ("timing",))
    wrong = replace(right, lines=(line, replace(line, name="x" * 90, found="y " * 90, findings=("wrong",))))
    assert "1 of 2 parts" in str(right)
    assert "Nothing was found" in str(right)
    assert "timing" in str(right).split("could not have found")[1]
    assert "NOT SAFE" in str(wrong)
    assert "% lost" not in right.in_full()
    for report in (right, wrong):
        lines = [*str(report).splitlines(), *report.in_full().splitlines()]
        assert all(len(one) <= 80 or "x" * 60 in one for one in lines)


def test_questions_are_made_from_themselves():
    schema = Schema(columns={"x": Bounds(0, 2, grid=1)})
    assert made("sum", schema).column == "x"
    assert made("sum", schema, [PureDP(0.25)]).guarantee == PureDP(0.25)
    assert made("mode", schema) is None
