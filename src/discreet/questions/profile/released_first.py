"""Released first: the private bounds and limits that a question needs, and the question that follows from them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

from discreet.core import requirements
from discreet.core.columns import Bounds
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.numbers import decimal
from discreet.core.schema import Contribution, PrivacyUnit, Schema
from discreet.questions.profile.columns import UNIT_SIZES
from discreet.questions.profile.question import ProfileQuestion, ProfileRelease, UnitSizes, check_proportion, undeclared
from discreet.questions.question import Question, common_step
from discreet.results.ledger import Ledger
from discreet.results.release import Release

__all__ = [
    "BOUNDS", "LIMIT", "PrivateBounds", "PrivateLimit", "Settled", "between_edges", "bounds_questions",
    "check_approvable", "declared_by", "first_request", "has_private_facts", "limit_question", "private_limit",
    "released_first", "released_sizes", "settled",
]  # fmt: skip


# ---- Private bounds: a column whose bounds are released before the first question that reads it


@dataclass(frozen=True)
class PrivateBounds(Bounds):
    """A numeric column whose bounds nobody knows. The first question that reads it pays for them.

    A session asks `ProfileQuestion` for the column, for ``epsilon`` of its own, and stores the answer in the ledger
    under a name that follows from what is asked: later questions use it for free. Questions then read the column with
    the released bounds. Intervals account for noise, and not for values that the bounds move.

    Parameters
    ----------
    low, high
        Bounds that are expected: plans state errors for them, and they hold where no number stands out from the noise.
    proportion
        Proportion of the values that the released bounds are to hold. For sums and means use 0.999: what lies beyond
        is lost.
    epsilon
        What finding them costs.

    Examples
    --------
    >>> income = PrivateBounds(0, 100_000, proportion=0.999, epsilon=0.1)
    >>> income.to_dict()["private"]
    {'proportion': 0.999, 'epsilon': 0.1}
    """

    private: ClassVar[bool] = True
    proportion: float = 0.95
    epsilon: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "proportion", check_proportion(self.proportion))
        object.__setattr__(self, "epsilon", requirements.positive("epsilon", self.epsilon))
        if not isinstance(self.nulls, str):
            raise InvalidParameter(
                "nulls", self.nulls, "may lie outside bounds that are not known", 'Pass "drop", or declare bounds.'
            )
        if self.value is not None:
            raise InvalidParameter(
                "value", self.value.text, "has no column in the source to find bounds of", "Declare its bounds."
            )

    def to_dict(self) -> dict[str, Any]:
        """The declaration as plain data."""
        return super().to_dict() | {"private": {"proportion": self.proportion, "epsilon": self.epsilon}}


def bounds_questions(schema: Schema, names: Any) -> dict[str, ProfileQuestion]:
    """The questions that release the private bounds of some columns, and of those that their formulas name."""
    known = [name for name in names if name in schema.columns]
    private = {name: schema.columns[name] for name in schema.columns_behind(known)}
    return {
        name: ProfileQuestion(undeclared(schema), epsilon=one.epsilon, columns=[name], proportion=one.proportion)
        for name, one in private.items()
        if isinstance(one, PrivateBounds)
    }


def declared_by(found: ProfileRelease, name: str, expected: Bounds) -> Bounds:
    """The released bounds of a column; the expected ones where no number stood out."""
    released = found.columns[name].declared()
    if not isinstance(released, Bounds) or found.columns[name].kind == "date":
        return Bounds(expected.low, expected.high, expected.grid, nulls=expected.nulls, missing=expected.missing)
    return replace(released, nulls=expected.nulls, missing=expected.missing)


# ---- Private limit: how many rows of a unit count, released before the first question that needs to know


@dataclass(frozen=True)
class PrivateLimit(Contribution):
    """A limit on rows per unit that nobody knows. The first question that needs it pays for it.

    A session releases how many rows units have, for ``epsilon`` of its own, and stores the answer in the ledger: later
    questions use it for free. Each question then gets the limit at which dropped rows and noise together move a count
    of all rows least, at the question's own guarantee. Intervals do not account for the rows that are dropped.

    Parameters
    ----------
    total
        The limit that is expected: plans state errors for it.
    epsilon
        What finding the limit costs.

    Examples
    --------
    >>> PrivateLimit(total=8, epsilon=0.1).to_dict()
    {'total': 8, 'private': {'epsilon': 0.1}}
    """

    epsilon: float = 0.1

    def __post_init__(self) -> None:
        if self.total is None or self.rows is not None or self.groups is not None:
            raise InvalidParameter(
                "total", self.total, "a limit that is released is on all rows of a unit", "Pass total=8, for example."
            )
        super().__post_init__()
        object.__setattr__(self, "epsilon", requirements.positive("epsilon", self.epsilon))

    def to_dict(self) -> dict[str, Any]:
        """The declaration as plain data."""
        return super().to_dict() | {"private": {"epsilon": self.epsilon}}


def limit_question(limits: PrivateLimit, schema: Schema) -> ProfileQuestion:
    """The question that releases how many rows units have: a profile of no column."""
    return ProfileQuestion(undeclared(schema), epsilon=limits.epsilon, columns=())


def private_limit(question: Question[Any], schema: Schema) -> PrivateLimit | None:
    """The limit that must be released before a question; None where the question has its own, or needs none."""
    own, declared = getattr(question, "contribution", None), schema.unit.contribution
    if own is not None:
        return own if isinstance(own, PrivateLimit) else None
    if not isinstance(declared, PrivateLimit):
        return None
    try:
        without = replace(schema, unit=replace(schema.unit, contribution=None))
        question.changed(schema=without).claim(None)
    except InvalidParameter as refusal:
        return declared if refusal.name == "contribution" else None
    return None


def released_sizes(found: ProfileRelease, guarantee: Guarantee) -> UnitSizes:
    """The numbers of rows that units have, as a question at this guarantee weighs them."""
    if found.unit_sizes is None:
        raise InvalidParameter("found", found.names, "has no numbers of rows per unit", "Name the id column.")
    return replace(found.unit_sizes, guarantee=guarantee)


A = TypeVar("A")
BOUNDS, LIMIT = "bounds-", "limit-"
"""The names of releases that come first, before the name of a column or of the unit."""
_LARGEST = Contribution(total=UNIT_SIZES[-1] - 1)
"""The largest limit that may be found."""


def has_private_facts(schema: Schema) -> bool:
    """True where a schema has bounds or limits that are not known."""
    private = isinstance(schema.unit.contribution, PrivateLimit)
    return private or any(isinstance(one, PrivateBounds) for one in schema.columns.values())


def released_first(question: Question[Any], schema: Schema) -> dict[str, ProfileQuestion]:
    """The questions to release before a question, by name: none where its bounds and limits are declared."""
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
        return question.changed(schema=schema, contribution=limit)
    return question.changed(schema=replace(schema, unit=replace(schema.unit, contribution=limit)))


def check_approvable(first: Iterable[str], ledger: Ledger) -> None:
    """Refuse what must be released first where people approve each release: they cannot know the noise after it."""
    names = ", ".join(first)
    if names and ledger.approvals is not None:
        raise InvalidParameter(
            "private", names, "would decide the noise of other releases, which nobody can approve beforehand",
            'Release ask = "profile" in a plan of its own, and declare what it found. Nothing was spent.',
        )  # fmt: skip


def _binned(question: Question[Any], name: str) -> int | Sequence[float] | None:
    """The bins into which a question divides a number, where it does: so many of one width, or public edges."""
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
        expected = schema.columns.get(name)
        edges = _binned(question, name)
        if isinstance(expected, PrivateBounds) and isinstance(edges, Sequence):
            ends = float(edges[0]), float(edges[-1])
            grid = float(common_step(expected.step, *map(decimal, ends)))
            found[name] = Bounds(*ends, grid, nulls=expected.nulls, missing=expected.missing)
    return found


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
    if question.beside is not None:  # by default, because the bounds were private
        changed["beyond"] = True
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
    asked = question.changed(schema=known, **changed)
    asked = asked if release is None else _limited(asked, known, limit)
    return Settled(asked, tuple(bounds.items()), asked.schema.unit, notes)


def _divisible(bounds: Bounds, bins: int | Sequence[float] | None) -> Bounds:
    """The bounds, on a grid with as many steps as there are bins of one width: a narrow column has an answer, too."""
    steps, finer = bounds.highest - bounds.lowest, 1
    while isinstance(bins, int) and steps * finer < bins:
        finer *= 10
    return bounds if finer == 1 else replace(bounds, grid=float(bounds.step / finer))


def _counts_all(question: Question[Any]) -> bool:
    """True where no row is lost to a limit: all of a unit's rows have a weight, or are what is asked for."""
    return bool(getattr(question, "all_rows", False) or question.leads)
