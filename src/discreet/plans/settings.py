"""Settings: what each setting of a release looks like in a plan file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["complaint"]


def _number(value: Any) -> bool:
    # Whole numbers of TOML may have any length; beyond 2¹⁰²³ they are no float.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _numbers(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_number, value))


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


_NAMES = (
    lambda value: _text(value) or (isinstance(value, list) and bool(value) and all(map(_text, value))),
    'the name of a column, or a list of them: "region" or ["region", "sex"]',
)
_WHOLE = (_whole, "a whole number above 0, such as 4000")
_FLAG = (lambda value: isinstance(value, bool), "true or false")
_FORMS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "title": (_text, "text"),
    "column": (_text, 'the name of one column, such as "age"'),
    "columns": _NAMES,
    "by": _NAMES,
    "tables": (
        lambda value: isinstance(value, list) and bool(value) and all(one == [] or _NAMES[0](one) for one in value),
        'a list of tables, each a list of columns: [["region"], ["region", "age"]]',
    ),
    "weights": (
        lambda value: value in ("tables", "cells") or _numbers(value),
        '"tables", "cells", or a list with a number for each table',
    ),
    "accuracy": (lambda value: value in ("sum", "largest"), '"sum" or "largest"'),
    "public_total": _WHOLE,
    "impossible": (
        lambda value: isinstance(value, list) and all(isinstance(one, dict) and one for one in value),
        'a list of cells, such as [{ age = "child", status = "married" }]',
    ),
    "mean_of": (_text, 'the name of a column with bounds, such as "income"'),
    "label": (lambda value: isinstance(value, str | int | float), 'one of the categories, such as "yes"'),
    "probabilities": (lambda value: _number(value) or _numbers(value), "a number or a list of them, such as 0.5"),
    "edges": (_numbers, "a list of numbers, such as [0, 10, 20]"),
    "interval": (_number, "a level such as 0.95"),
    "rows_at_least": _WHOLE,
    "expected_rows": _WHOLE,
    "expected_mean": (_number, "a number inside the bounds"),
    "expected_share": (_number, "a share such as 0.2"),
    "n_clusters": _WHOLE,
    "iterations": _WHOLE,
    "universe": (
        lambda value: isinstance(value, list) and bool(value) and all(map(_numbers, value)),
        "a list of positions such as [[0, 10], [5, 20]]",
    ),
    "partitions": _WHOLE,
    "partition_by": (_text, 'the name of one column, such as "site"'),
    "censor": (lambda value: _numbers(value) and len(value) == 2, "two shares such as [0.1, 0.1]"),
    "method": (_text, 'the name of a method, such as "direct"'),
    "arm": (_text, '"public" or "private"'),
    "spread": _FLAG,
    "compare_means.spread": (_number, "a number: the standard deviation to plan for"),
    "recursive": _FLAG,
    "unit_sum": (
        lambda value: isinstance(value, dict) and {"low", "high", "grid"} <= set(value) <= {"low", "high", "grid"},
        "bounds such as { low = 0, high = 60, grid = 1 }",
    ),
}


def complaint(ask: str, name: str, value: Any) -> str | None:
    """What is wrong with the form of a question's setting; None where nothing is, or where the question judges it.

    Examples
    --------
    >>> complaint("mean", "expected_rows", "6,000")
    "expected_rows = '6,000' must be a whole number above 0, such as 4000."
    >>> complaint("mean", "expected_rows", 6000)
    """
    fits, words = _FORMS.get(f"{ask}.{name}", _FORMS.get(name, (lambda _: True, "")))
    return None if fits(value) else f"{name} = {value!r} must be {words}."
