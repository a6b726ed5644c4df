"""Planner: what a session's questions would give and cost, from public facts alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import Any

from discreet.core.errors import spelling
from discreet.core.guarantee import Guarantee
from discreet.core.schema import Schema
from discreet.mechanisms.omission.step import Omission
from discreet.questions import Question, asked
from discreet.questions.omitted import behind
from discreet.questions.shorthands import SHORTHANDS
from discreet.questions.spending import spending
from discreet.results.ledger import Ledger
from discreet.results.plan import Plan

__all__ = ["Planner"]


class Planner:
    """Answers every question of a session with what it would give and cost. Reads no data and spends nothing.

    Examples
    --------
    >>> from discreet import Bounds, PureDP, Schema
    >>> planner = Planner(Schema(columns={"age": Bounds(0, 120, grid=1)}))
    >>> planner.mean("age", PureDP(1.0), expected_rows=10_000).read
    'the mean'
    """

    def __init__(self, schema: Schema, ledger: Ledger | None = None, step: Omission | None = None) -> None:
        self.schema, self.ledger, self.step = schema, ledger, step

    def __call__(self, question: Question[Any]) -> Plan:
        """What a question would give and cost."""
        asked_for = question if self.step is None else behind(question, self.step)
        return asked_for.plan(self.ledger)

    def _plan(self, make: Callable[..., Question[Any]], *settings: Any, **named: Any) -> Plan:
        kind: Any = getattr(make, "kind", make)
        known = {field.name for field in fields(kind)}
        given = {name: named.pop(name) for name in [*named] if name not in known}  # parameters, or misspelt
        if given or not _has_guarantee(settings, named):
            named["guarantee"] = spending(kind, named.pop("guarantee", None), given)
        return self(make(self.schema, *settings, **named))

    def __getattr__(self, name: str) -> Callable[..., Plan]:
        make = (asked() | SHORTHANDS).get(name)
        if make is None:
            raise AttributeError(f"there is no question {name!r}. {spelling(name, self._names())}")
        return partial(self._plan, make)

    def _names(self) -> list[str]:
        return [*asked(), *SHORTHANDS]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._names()]


def _has_guarantee(settings: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
    return named.get("guarantee") is not None or any(isinstance(one, Guarantee) for one in settings)
