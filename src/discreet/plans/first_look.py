"""First look: what a plan spends on before the rest, and when it stops there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from discreet.core.errors import DiscreetError
from discreet.core.guarantee import Guarantee
from discreet.core.schema import Schema
from discreet.questions import Question
from discreet.questions.left_out import LeftOutQuestion
from discreet.questions.quality import UNUSABLE, QualityQuestion, QualityRelease

__all__ = ["Unusable", "first_look", "refuse_unusable"]


class Unusable(DiscreetError):
    """A column is all but unusable, so that the rest of a plan would buy nothing."""


def first_look(schema: Schema, guarantee: Guarantee, questions: Sequence[Question[Any]]) -> dict[str, Question[Any]]:
    """The questions of a first look, by name: usable values of what a plan reads, and what limits per unit drop."""
    read = {name for question in questions for name in question.columns_read()}
    names = [name for name in schema.columns_behind(sorted(read)) if name in schema.columns]
    looks: dict[str, Question[Any]] = {}
    limited = schema.unit.column is not None and schema.unit.contribution is not None
    parts = guarantee.split(2) if limited and names else [guarantee]
    if names:
        looks["quality"] = QualityQuestion(schema, parts[0], columns=names)
    if limited:
        looks["left_out"] = LeftOutQuestion(schema, parts[-1])
    return looks


def refuse_unusable(answer: Any, spent: Guarantee) -> None:
    """Stop where a released share says that a column is all but unusable. It reads the noisy answer alone."""
    columns = answer.unusable() if isinstance(answer, QualityRelease) else ()
    if columns:
        named = ", ".join(f"{name!r} ({100 * answer.share(name):.0f} % usable)" for name in columns)
        raise Unusable(
            f"quality: less than {100 * UNUSABLE:.0f} % of the values can be used in {named}, so the run stops. "
            "Check bounds, labels, missing words and, for files, decimal, thousands and delimiter; or remove "
            f"quality from the plan. Only this look was paid for: {spent}."
        )
