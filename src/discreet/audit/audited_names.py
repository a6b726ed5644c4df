"""Coverage: which public names are audited by what, and why the others need not be.

Pipelines say which methods they stand for; which statistics and mechanisms they use is read from the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from discreet.audit.growing_pipelines import growing_pipelines
from discreet.audit.join_pipelines import join_pipelines
from discreet.audit.model_pipelines import model_pipelines
from discreet.audit.pipeline import Pipeline
from discreet.audit.profile_pipelines import profile_pipelines
from discreet.audit.question_pipelines import question_pipelines
from discreet.audit.release_pipelines import release_pipelines
from discreet.audit.session_pipelines import session_pipelines
from discreet.audit.transform_pipelines import transform_pipelines
from discreet.audit.wide_pipelines import wide_pipelines

__all__ = ["PIPELINES", "RELEASES_NOTHING", "audited_names", "pipelines"]

PIPELINES: dict[str, Callable[[], Iterator[Pipeline]]] = {
    "releases": release_pipelines,
    "sessions": session_pipelines,
    "models": model_pipelines,
    "questions": question_pipelines,
    "formulas": transform_pipelines,
    "joins": join_pipelines,
    "profiles": profile_pipelines,
    "growing data": growing_pipelines,
    "widest declarations": wide_pipelines,
}
"""Every pipeline, by what it is about. The audit runs all of them, and has no other list."""

_DECLARED = "declares public facts; reads no data"
_READS_RELEASES = "reads releases, which are public; an import rule keeps it from data"

RELEASES_NOTHING: dict[str, str] = {
    **dict.fromkeys(("PureDP", "ApproxDP", "ZeroConcentratedDP", "GaussianDP", "Neighbours", "Sensitivity"), _DECLARED),
    **dict.fromkeys(("Bounds", "Categories", "Contribution", "PrivacyUnit", "Schema", "Bins", "Unlisted"), _DECLARED),
    **dict.fromkeys(("PrivateBounds", "PrivateContribution"), _DECLARED),
    **dict.fromkeys(
        ("compose", "compose_profiles", "bounded_laplace_scales", "compare_laws"), "computes from guarantees alone"
    ),
    **dict.fromkeys(("Bands", "Dates", "Formula", "Related", "schema_from_dict"), _DECLARED),
    **dict.fromkeys(("Plan", "plan", "plan_comparison", "Session.plan"), "plans from public facts"),
    **dict.fromkeys(("Scenario", "ExpectedNumbers", "ExpectedLabels", "Session.rehearsing"), "draws rows from guesses"),
    **dict.fromkeys(("NoiseAware", "DoubleSanitization", "Interval", "MonteCarlo", "Asymptotic"), _READS_RELEASES),
    **dict.fromkeys(("goodness_of_fit", "homogeneity", "independence", "Release"), _READS_RELEASES),
    **dict.fromkeys(("all_margins", "hierarchy"), "lists names of columns and labels"),
    "Session.declaring": "declares public facts; reads no data",
    "Session.dataset": "the data itself, for its owner",
    "Session.check_source": "reads the rows for their owner, and tells nobody else",
    "Session.exact": "stays private: its repr shows no value",
    "Session.ask": "what every named question calls",
    "Session.require": "looks at the names of columns alone",
    "Session.source_names": "looks at the names of columns alone",
}
"""Public names that release nothing, each with the reason."""


def pipelines() -> Iterator[Pipeline]:
    """Every pipeline."""
    for source in PIPELINES.values():
        yield from source()


def audited_names() -> dict[str, list[str]]:
    """By public name or method: the pipelines that stand for it.

    Examples
    --------
    >>> "session.mean, one row" in audited_names()["Session.mean"]
    True
    """
    found: dict[str, list[str]] = {}
    for pipeline in pipelines():
        for name in pipeline.covers:
            found.setdefault(name, []).append(pipeline.name)
    return found
