"""Private bounds: a column whose bounds are released before the first question that reads it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from discreet.core import requirements
from discreet.core.columns import Bounds
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import PureDP
from discreet.core.schema import Schema
from discreet.questions.profiles.profile_question import ProfileQuestion, check_proportion, undeclared
from discreet.questions.profiles.profile_release import ProfileRelease

__all__ = ["PrivateBounds", "bounds_questions", "declared_by"]


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
        name: ProfileQuestion(undeclared(schema), PureDP(one.epsilon), columns=[name], proportion=one.proportion)
        for name, one in private.items()
        if isinstance(one, PrivateBounds)
    }


def declared_by(found: ProfileRelease, name: str, expected: Bounds) -> Bounds:
    """The released bounds of a column; the expected ones where no number stood out."""
    released = found.columns[name].declared()
    if not isinstance(released, Bounds) or found.columns[name].kind == "date":
        return Bounds(expected.low, expected.high, expected.grid, nulls=expected.nulls, missing=expected.missing)
    return replace(released, nulls=expected.nulls, missing=expected.missing)
