"""Private limit: how many rows of a unit count, released before the first question that needs to know."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee, PureDP
from discreet.core.schema import Contribution, Schema
from discreet.questions.profiles.profile_question import ProfileQuestion, undeclared
from discreet.questions.profiles.profile_release import ProfileRelease
from discreet.questions.profiles.unit_limits import UnitSizes
from discreet.questions.question import Question

__all__ = ["PrivateContribution", "limit_question", "private_limit", "released_sizes"]


@dataclass(frozen=True)
class PrivateContribution(Contribution):
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
    >>> PrivateContribution(total=8, epsilon=0.1).to_dict()
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


def limit_question(limits: PrivateContribution, schema: Schema) -> ProfileQuestion:
    """The question that releases how many rows units have: a profile of no column."""
    return ProfileQuestion(undeclared(schema), PureDP(limits.epsilon))


def private_limit(question: Question[Any], schema: Schema) -> PrivateContribution | None:
    """The limit that must be released before a question; None where the question has its own, or needs none."""
    own, declared = getattr(question, "contribution", None), schema.unit.contribution
    if own is not None:
        return own if isinstance(own, PrivateContribution) else None
    if not isinstance(declared, PrivateContribution):
        return None
    try:
        without = replace(schema, unit=replace(schema.unit, contribution=None))
        replace(question, schema=without).claim(None)  # type: ignore[type-var]  # questions are dataclasses
    except InvalidParameter as refusal:
        return declared if refusal.name == "contribution" else None
    return None


def released_sizes(found: ProfileRelease, guarantee: Guarantee) -> UnitSizes:
    """How many rows units have, as a question at this guarantee weighs them."""
    if found.unit_sizes is None:
        raise InvalidParameter("found", found.names, "has no numbers of rows per unit", "Name the id column.")
    return replace(found.unit_sizes, guarantee=guarantee)
