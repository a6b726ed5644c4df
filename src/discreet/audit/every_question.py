"""Every question, made from itself: first settings for the columns at hand, and one setting changed at a time.

The list of questions is the package's own, and settings come from the gallery that the studio shows, so a new question
is audited on the day on which it is listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

from discreet.core.errors import DiscreetError
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP
from discreet.core.schema import Bounds, Categories, Contribution, PrivacyUnit, Schema
from discreet.plans.question_gallery import suggested
from discreet.questions import Question, asked

__all__ = ["PLANNED_ONLY", "every_question", "made", "variants"]

_FIRST_CHOICES: tuple[Guarantee, ...] = (PureDP(1.0), GaussianDP(1.0), ApproxDP(1.0, 0.01))
PLANNED_ONLY = ("expected_rows", "expected_mean", "expected_share")
"""Settings that serve plans alone, and so are no part of what is released; for comparisons also ``spread``."""


def every_question(
    schema: Schema, guarantees: Sequence[Guarantee] = _FIRST_CHOICES, *, limits: Sequence[Contribution] = ()
) -> dict[str, Question[Any]]:
    """One of each question for the columns of a schema, by its name.

    Parameters
    ----------
    schema
        The columns; questions that want other limits of a unit, or rows as units, get them.
    guarantees
        The first of them that a question can meet is its own.
    limits
        Further limits to try, before one row in all.

    Examples
    --------
    >>> schema = Schema(columns={"x": Bounds(0, 2, grid=1)})
    >>> sorted(every_question(schema))[:3]
    ['count', 'covariance_matrix', 'histogram']
    """
    found = {ask: made(ask, schema, guarantees, limits) for ask in asked()}
    return {ask: question for ask, question in found.items() if question is not None}


def made(
    ask: str,
    schema: Schema,
    guarantees: Sequence[Guarantee] = _FIRST_CHOICES,
    limits: Sequence[Contribution] = (),
    **settings: Any,
) -> Question[Any] | None:
    """One question with first settings for the columns of a schema; None where these columns give none."""
    given = _settings(ask, schema) | settings
    for unit in _units(schema, limits):
        for guarantee in guarantees:
            try:
                return asked()[ask](schema=replace(schema, unit=unit), guarantee=guarantee, **given)  # type: ignore[call-arg]
            except (DiscreetError, TypeError):  # this unit or guarantee is not for it, or a column is missing
                continue
    return None


def _units(schema: Schema, limits: Sequence[Contribution]) -> Iterator[PrivacyUnit]:
    yield schema.unit
    if schema.unit.column is not None:
        yield from (replace(schema.unit, contribution=one) for one in (*limits, Contribution(total=1)))
        yield PrivacyUnit()


def _settings(ask: str, schema: Schema) -> dict[str, Any]:
    """What the gallery suggests, with as many bins as the coarsest grid allows."""
    found = suggested(ask, {name: declared.to_dict() for name, declared in schema.columns.items()})
    if "bins" in found:
        found["bins"] = dict.fromkeys(found["bins"], 2) if isinstance(found["bins"], dict) else 2
    if ask in ("profile", "quality"):
        found["columns"] = [name for name, one in schema.columns.items() if one.value is None]
    return found


def variants(question: Question[Any]) -> Iterator[tuple[str, Question[Any]]]:
    """The same question with one field changed, for every field and every change that it accepts.

    Examples
    --------
    >>> schema = Schema(columns={"x": Bounds(0, 2, grid=1), "y": Bounds(0, 2, grid=1)})
    >>> [name for name, _ in variants(made("sum", schema))]
    ['column', 'guarantee', 'guarantee', 'guarantee']
    """
    for one in fields(question):  # type: ignore[arg-type]
        if one.name == "schema" or not one.init:
            continue
        seen = [getattr(question, one.name)]
        for value in _others(one.name, seen[0], question.schema):
            try:
                other = replace(question, **{one.name: value})  # type: ignore[type-var]
            except (DiscreetError, TypeError, ValueError, AttributeError):
                continue
            if getattr(other, one.name) not in seen:  # some settings are brought into one form
                seen.append(getattr(other, one.name))
                yield one.name, other


def _others(name: str, value: Any, schema: Schema) -> Iterator[Any]:
    """Other values of a field, by what it holds now; most of them fit few questions."""
    if isinstance(value, Guarantee):
        yield from (PureDP(0.75), GaussianDP(0.75), ApproxDP(0.75, 0.02), ApproxDP(1.0, 0.003))
    elif isinstance(value, bool):
        yield not value
        yield 0.9
    elif isinstance(value, int):
        yield from (value + 1, max(1, value - 1))
    elif isinstance(value, float):
        yield from (value / 2, value * 1.5)
    elif isinstance(value, str):
        yield from _other_names(value, schema)
    elif isinstance(value, tuple | list) and value:
        yield from _other_lists(list(value), schema)
    elif isinstance(value, dict) and value:
        yield {key: one + 1 if isinstance(one, int) else one for key, one in value.items()}
    else:
        yield from _given(name, schema)


def _other_names(value: str, schema: Schema) -> Iterator[str]:
    yield from (other for other in schema.columns if other != value)
    for declared in schema.columns.values():
        if isinstance(declared, Categories):
            yield from (str(label) for label in declared.labels if label != value)
    yield from ("signs", "gaussian", "optimal", "noise_aware", "public", "private", "dmy", "mdy")


def _other_lists(value: list[Any], schema: Schema) -> Iterator[list[Any]]:
    yield value[::-1]
    yield value[:-1]
    if all(isinstance(one, float) for one in value):
        yield [*value[:-1], value[-1] * 0.9]
        yield [one / 2 for one in value]
        yield [value[0] / 2, value[1] + value[0] / 2, *value[2:]] if len(value) > 1 else value
    names = [name for name in schema.columns if name not in value]
    yield from ([*value[:-1], name] for name in names)
    yield from ([*value, name] for name in names)
    yield from ([*value, [name]] for name in names)


def _given(name: str, schema: Schema) -> Iterator[Any]:
    """Values for a field that is empty."""
    numbers = [one for one, declared in schema.columns.items() if isinstance(declared, Bounds)]
    listed = [one for one, declared in schema.columns.items() if isinstance(declared, Categories)]
    fitting: dict[str, Sequence[Any]] = {
        "contribution": (Contribution(total=1), Contribution(total=2), Contribution(groups=1, rows=3)),
        "unit_sum": (Bounds(0, 3, grid=1), Bounds(-2, 5, grid=1)),
        "by": listed,
        "column": numbers,
        "on": numbers,
        "interval": (0.9, 0.8),
        "rows_at_least": (2,),
        "most_rows": (3, 4),
        "weights": ([1.0, 2.0], [1.0, 2.0, 3.0]),
        "accuracy": ("relative", "equal"),
        "mean_of": numbers,
        "edges": ([0, 1, 2],),
        "bins": (2, {numbers[0]: 2} if numbers else None),
        "models": ([[one] for one in numbers], numbers),
        "partitions": (3, 4),
        "partition_by": listed,
        "censor": ((0.1, 0.1),),
        "method": ("signs", "noise_aware", "gaussian", "direct"),
        "universe": ([[0.0, 0.0], [2.0, 1.0]],),
        "iterations": (2, 3),
        "period": ("B",),
        "public_total": (True,),
        "expected_rows": (77,),
        "expected_mean": (1.0,),
        "expected_share": (0.3,),
        "spread": (0.5, True),
    }
    yield from fitting.get(name, ())
