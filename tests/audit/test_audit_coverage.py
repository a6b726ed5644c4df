"""Everything public that releases is audited by a named pipeline, or listed with the reason why it need not be."""

import inspect
import re
from functools import cache

import pytest

import discreet
import discreet.inference
import discreet.mechanisms
import discreet.questions.clusters
import discreet.questions.naive_bayes
from discreet.audit.attack_plan import audited_names, pipelines
from discreet.audit.hostile import hostile_calls, hostile_questions
from discreet.audit.pipeline import audit_pipeline
from discreet.core.errors import InvalidParameter
from discreet.mechanisms.mechanism import REGISTRY as MECHANISMS
from discreet.questions import asked
from discreet.questions.comparison.compare import method_named
from discreet.results.release import REGISTRY as STATISTICS
from discreet.session import Session

PUBLIC = {
    *discreet.__all__,
    *discreet.inference.__all__,
    *discreet.mechanisms.__all__,
    *(
        name
        for name in discreet.questions.__all__
        if name != "asked" and not name.endswith("Question")  # those are audited as they are asked
    ),
}
_DECLARED = "declares public facts; reads no data"
_READS_RELEASES = "reads releases, which are public; an import rule keeps it from data"

RELEASES_NOTHING: dict[str, str] = {
    **dict.fromkeys(("PureDP", "ApproxDP", "ZeroConcentratedDP", "GaussianDP", "Neighbours", "Sensitivity"),
    _DECLARED), **dict.fromkeys(("Bounds", "Categories", "Contribution", "PrivacyUnit", "Schema", "Bins",
    "PrivateLabels"), _DECLARED), **dict.fromkeys(("PrivateBounds", "PrivateLimit"), _DECLARED),
    **dict.fromkeys(("compose", "compose_curves", "bounded_laplace_scales", "compare_laws"),
    "computes from guarantees alone"), **dict.fromkeys(("Bands", "Dates", "Design", "Feature", "Formula", "Related",
    "schema_from_dict"), _DECLARED), **dict.fromkeys(("Plan", "plan", "plan_comparison", "Session.plan"),
    "plans from public facts"), **dict.fromkeys(("Session.by", "Session.where"),
    "ask the same questions, by groups or of fewer rows"), **dict.fromkeys(("Scenario", "ExpectedNumbers",
    "ExpectedLabels", "Session.rehearsing"), "draws rows from guesses"),
    **dict.fromkeys(("DoubleSanitization", "Interval", "MonteCarlo", "Asymptotic"), _READS_RELEASES),
    **dict.fromkeys(("goodness_of_fit", "homogeneity", "independence", "Release"), _READS_RELEASES),
    **dict.fromkeys(("all_margins", "hierarchy"), "lists names of columns and labels"),
    "FixedSample": "SampleByLabel in sessions; its choice and its loss are enumerated in tests of omission",
    "Session.declaring": "declares public facts; reads no data", "Session.dataset": "the data itself, for its owner",
    "Session.check_source": "reads the rows for their owner, and tells nobody else",
    "Session.exact": "stays private: its repr shows no value", "Session.ask": "what every named question calls",
    "Session.require": "looks at the names of columns alone",
    "Session.source_names": "looks at the names of columns alone",
}  # fmt: skip
"""Public names that release nothing, each with the reason."""
AUDITED = audited_names()
pytestmark = pytest.mark.xdist_group("pipelines")
"""On one worker, so that each pipeline is audited once."""
PIPELINES = {pipeline.name: pipeline for pipeline in pipelines()}
ONLY_INSIDE = {
    "grouped": "recorded by grouped questions of sessions",
    "winsorized_moments": "measured inside compare_means by noise_aware, which records the whole comparison",
}
"""Statistics that only others use, with where they are audited."""


@cache
def audit(name):
    """A short audit of one pipeline: the first pairs of its world, and more of them where the worst comes later."""
    one = PIPELINES[name]
    own = one.name.startswith("question.")  # whose worlds are larger, and whose first pair is the worst
    pairs = 4 if one.quick and not one.tight and not own else 2 if one.quick or not own else 1
    found = audit_pipeline(one, scripts=1, pairs=pairs)
    # Where the first pair is a person alone, a question about pairs of rows has nothing to lose yet.
    more = found.reached < 0.99 if one.tight else own and found.reached <= 0.2
    return audit_pipeline(one, scripts=1, pairs=8) if more else found


@pytest.mark.parametrize("name", PIPELINES)
def test_pipeline_loses_no_more_than_it_is_charged(name):
    found = audit(name)
    assert found.passed, str(found)
    if PIPELINES[name].tight:
        assert found.reached >= 0.99, str(found)


@pytest.mark.parametrize("name", [name for name in PIPELINES if re.fullmatch(r"question\.\w+, a person added", name)])
def test_a_fivefold_loss_of_any_question_would_show(name):
    assert audit(name).reached > 0.2


def test_every_question_has_a_pipeline_of_its_own():
    assert {name.split(".")[1].split(",")[0] for name in PIPELINES if name.startswith("question.")} == asked().keys()


def test_names_of_pipelines_are_their_own():
    assert len(PIPELINES) == sum(1 for _ in pipelines()) >= 200


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_public_names(name):
    assert (name in AUDITED) != (name in RELEASES_NOTHING), name


def test_methods_of_sessions():
    methods = {f"Session.{name}" for name in dir(Session) if not name.startswith("_")}
    assert methods == {name for name in (*AUDITED, *RELEASES_NOTHING) if name.startswith("Session.")}


def test_methods_of_comparisons():
    with pytest.raises(InvalidParameter) as refusal:
        method_named("?")
    names = re.findall(r"'(\w+)'", str(refusal.value).split("one of")[1])
    assert len(names) == 21
    assert {f"method {name}" for name in names} - {"method original"} <= set(AUDITED)  # that one is not private


def test_everything_that_fits():
    rooms = (discreet.questions.clusters, discreet.questions.naive_bayes)
    models = {
        name for room in rooms for name, kind in vars(room).items() if inspect.isclass(kind) and hasattr(kind, "fit")
    }
    assert models == {"DPLloyd", "KMedian", "GaussianNaiveBayes"} <= set(AUDITED)


def test_every_registered_statistic_and_mechanism_was_measured_or_used():
    """By what the ledger recorded, not by what a pipeline says of itself."""
    own = {name for name, kind in MECHANISMS.classes().items() if kind.__module__.startswith("discreet.")}
    measured = {name for name, kind in STATISTICS.classes().items() if kind.__module__.startswith("discreet.")}
    wanted = {*own, *(measured - set(ONLY_INSIDE))}
    for name in PIPELINES:
        wanted -= audit(name)["recorded"]
        if not wanted:
            return
    assert not wanted, f"in no pipeline: {sorted(wanted)}"


def test_hostile_arguments_reach_everything_that_is_called():
    reached = {name.split(" ")[0] for name in (*hostile_calls(), *hostile_questions())}
    whole = {name.split(".")[0] for name in reached}
    enums = {"Neighbours"}
    unvalidated = {"Plan", "Asymptotic", "Interval"}  # made by others, or without arguments
    unvalidated |= {"bounded_laplace_scales"}  # arrays for studies: refuses some of them in numpy's words
    assert PUBLIC - whole - enums - unvalidated == set()
    session = {f"Session.{name}" for name, _ in inspect.getmembers(Session, inspect.isfunction) if name[0] != "_"}
    inner = {"Session.ask", "Session.exact", "Session.require", "Session.source_names"}  # called by the others
    inner |= {"Session.check_source", "Session.by", "Session.where", "Session.per_unit"}  # none that are wrong yet
    assert session - reached == inner
