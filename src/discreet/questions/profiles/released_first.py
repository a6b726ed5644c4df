"""Released first: the private bounds and limits that a question needs, and the question that follows from them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from discreet.core.columns import Bounds
from discreet.core.errors import InvalidParameter
from discreet.core.rounding import decimal
from discreet.core.schema import Contribution, PrivacyUnit, Schema
from discreet.ledgers import Ledger
from discreet.questions.common_step import common_step
from discreet.questions.profiles.cell_edges import UNIT_SIZES
from discreet.questions.profiles.private_bounds import PrivateBounds, bounds_questions, declared_by
from discreet.questions.profiles.private_limit import (
    PrivateContribution,
    limit_question,
    private_limit,
    released_sizes,
)
from discreet.questions.profiles.profile_question import ProfileQuestion
from discreet.questions.profiles.profile_release import ProfileRelease
from discreet.questions.question import Question
from discreet.releases import Release

__all__ = [
    "BOUNDS", "LIMIT", "Settled", "between_edges", "check_approvable", "first_request", "has_private_facts",
    "released_first", "settled",
]  # fmt: skip

A = TypeVar("A")
BOUNDS, LIMIT = "bounds-", "limit-"
"""How releases that come first are called, before the name of a column or of the unit."""
_LARGEST = Contribution(total=UNIT_SIZES[-1] - 1)
"""The largest limit that may be found."""


def has_private_facts(schema: Schema) -> bool:
    """Whether a schema has bounds or limits that are not known."""
    private = isinstance(schema.unit.contribution, PrivateContribution)
    return private or any(isinstance(one, PrivateBounds) for one in schema.columns.values())


def released_first(question: Question[Any], schema: Schema) -> dict[str, ProfileQuestion]:
    """What must be released before a question, by name: nothing where its bounds and limits are declared."""
    _check_unit_sum(question, schema)
    known = schema.declaring(**between_edges(question, schema))
    found = {f"{BOUNDS}{name}": one for name, one in bounds_questions(known, question.columns_read()).items()}
    limits = private_limit(question, schema)
    if limits is None:
        return found
    _limited(question, schema, _LARGEST).claim(None)  # refuses what not every limit allows, before one is paid for
    return {**found, f"{LIMIT}{schema.unit.name}": limit_question(limits, schema)}


def _limited(question: Question[A], schema: Schema, limit: Contribution) -> Question[A]:
    """The question with a limit in the place of the private one: its own, or that of the schema."""
    if getattr(question, "contribution", None) is not None:
        return replace(question, schema=schema, contribution=limit)  # type: ignore[type-var]
    return replace(question, schema=replace(schema, unit=replace(schema.unit, contribution=limit)))  # type: ignore[type-var]


def check_approvable(first: Iterable[str], ledger: Ledger) -> None:
    """Refuse what must be released first where people approve each release: they cannot know the noise after it."""
    names = ", ".join(first)
    if names and ledger.approvals is not None:
        raise InvalidParameter(
            "private", names, "would decide the noise of other releases, which nobody can approve beforehand",
            'Release ask = "profile" in a plan of its own, and declare what it found. Nothing was spent.',
        )  # fmt: skip


def _binned(question: Question[Any], name: str) -> int | Sequence[float] | None:
    """How a question divides a number into bins, where it does: so many of one width, or between public edges."""
    edges, bins = (getattr(question, one, None) for one in ("edges", "bins"))
    if isinstance(bins, Mapping):
        given = bins.get(name)
    else:
        given = (bins if edges is None else edges) if name == getattr(question, "column", None) else None
    return given if given is None or isinstance(given, int) else tuple(given)


def between_edges(question: Question[Any], schema: Schema) -> dict[str, Bounds]:
    """Bounds where public edges are enough for a column whose own are private: the end bins hold what lies beyond."""
    found = {}
    for name in question.columns_read():
        expected, edges = schema.columns.get(name), _binned(question, name)
        if isinstance(expected, PrivateBounds) and isinstance(edges, Sequence):
            ends = float(edges[0]), float(edges[-1])
            grid = float(common_step(expected.step, *map(decimal, ends)))
            found[name] = Bounds(*ends, grid, nulls=expected.nulls, missing=expected.missing)
    return found


def _check_unit_sum(question: Question[Any], schema: Schema) -> None:
    """Refuse sums of units where the grid that they must be on is not known, before anything is spent."""
    name: Any = getattr(question, "column", None)
    if getattr(question, "unit_sum", None) is not None and isinstance(schema.columns.get(name), PrivateBounds):
        raise InvalidParameter(
            "unit_sum", name, "is on the grid of a column whose bounds are not known",
            f"Declare Bounds for {name!r}, or leave unit_sum out. Nothing was spent.",
        )  # fmt: skip


def first_request(question: ProfileQuestion) -> str:
    """The name of such a release in a ledger: the same for all questions and plans that need it."""
    told = {"question": question.content(), "guarantee": question.guarantee.to_dict()}
    return f"first:{hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class Settled(Generic[A]):
    """A question in which what was private is declared, and what to tell of it.

    Attributes
    ----------
    question
        The question, with a schema of its own.
    bounds, unit
        What tells its schema from others of the same session.
    notes
        What the intervals of the answer do not account for.
    """

    question: Question[A]
    bounds: tuple[tuple[str, Bounds], ...]
    unit: PrivacyUnit
    notes: Mapping[str, str]

    def noted(self, answer: A) -> A:
        """The answer with the notes, where it can carry them."""
        if not isinstance(answer, Release):
            return answer
        return replace(answer, public={**answer.public, **self.notes})


def settled(question: Question[A], schema: Schema, found: Mapping[str, ProfileRelease]) -> Settled[A]:
    """The question that follows from what was released: a function of public facts and of those outputs."""
    bounds, notes = between_edges(question, schema), {}
    # What a plan expects need not lie within the bounds that are found.
    changed: dict[str, Any] = {"expected_mean": None} if hasattr(question, "expected_mean") else {}
    released = {
        name: _divisible(declared_by(one, name, schema.bounds(name)), _binned(question, name))
        for name, one in ((key.removeprefix(BOUNDS), one) for key, one in found.items() if key.startswith(BOUNDS))
    }
    if released:
        told = ", ".join(f"{name} {one.low:g} to {one.high:g}" for name, one in released.items())
        notes["bounds"] = f"{told}, released privately; intervals do not account for values beyond"
    bounds |= released
    known = schema.declaring(**bounds)
    release = found.get(f"{LIMIT}{schema.unit.name}")
    if release is not None:
        sizes = released_sizes(release, question.guarantee)
        limit = Contribution(total=sizes.best_limit)
        notes["limit"] = f"at most {limit.total} rows of each {schema.unit.name}, released privately"
        if not _counts_all(question):
            beyond = f"{100 * sizes.dropped(sizes.best_limit):.1f} %"
            notes["limit"] += f"; intervals do not account for rows beyond, about {beyond}"
    asked: Question[A] = replace(question, schema=known, **changed)  # type: ignore[type-var]  # all are dataclasses
    asked = asked if release is None else _limited(asked, known, limit)
    return Settled(asked, tuple(bounds.items()), asked.schema.unit, notes)


def _divisible(bounds: Bounds, bins: int | Sequence[float] | None) -> Bounds:
    """The bounds, on a grid with as many steps as there are bins of one width: a narrow column has an answer, too."""
    steps, finer = bounds.highest - bounds.lowest, 1
    while isinstance(bins, int) and steps * finer < bins:
        finer *= 10
    return bounds if finer == 1 else replace(bounds, grid=float(bounds.step / finer))


def _counts_all(question: Question[Any]) -> bool:
    """Whether no row is lost to a limit: all of a unit's rows have a weight, are added up, or are what is asked for."""
    return bool(getattr(question, "weighted", False) or getattr(question, "unit_sum", None) or question.leads)
