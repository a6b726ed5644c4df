"""Forms: what a setting of a question looks like in a plan file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Form:
    """The form of a setting: what fits, and the words for it.

    Examples
    --------
    >>> WHOLE.complaint("expected_rows", "6,000")
    "expected_rows = '6,000' must be a whole number above 0, such as 4000."
    >>> WHOLE.complaint("expected_rows", 6000)
    """

    fits: Callable[[Any], bool]
    words: str

    def complaint(self, name: str, value: Any) -> str | None:
        """The fault in the form of a value, in words; None where there is none, and the question judges the rest."""
        return None if self.fits(value) else f"{name} = {value!r} must be {self.words}."


Forms = Mapping[str, Form]
"""The settings of a question, and how each is written in a plan file."""


def _number(value: Any) -> bool:
    # Whole numbers of TOML may have any length; beyond 2¹⁰²³ they are no float.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _list(value: Any, each: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and bool(value) and all(map(each, value))


def _numbers(value: Any) -> bool:
    return _list(value, _number)


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


TEXT = Form(_text, "text")
COLUMN = Form(_text, 'the name of one column, such as "age"')
COLUMN_OR_NUMBER = Form(
    lambda value: _text(value) or _number(value), 'the name of one column, such as "before", or a number, such as 0'
)
COLUMNS = Form(
    lambda value: _text(value) or _list(value, _text),
    'the name of a column, or a list of them: "region" or ["region", "sex"]',
)
LABEL = Form(lambda value: isinstance(value, str | int | float), 'one of the categories, such as "yes"')
FORMULA = Form(_text, 'a formula such as "income ~ age + C(sex) * education"')
PROBABILITIES = Form(lambda value: _number(value) or _numbers(value), "a number or a list of them, such as 0.5")
SHARES = Form(_numbers, "a list of shares such as [0.5, 0.5]")
EDGES = Form(_numbers, "a list of numbers, such as [0, 10, 20]")
BINS = Form(
    lambda value: isinstance(value, dict) and all(_numbers(one) or _whole(one) for one in value.values()),
    "edges, or how many, for each number: { age = [0, 18, 65, 120] } or { age = 5 }",
)
LEVEL = Form(lambda value: value is False or _number(value), "a level such as 0.95, or false for none")
WHOLE = Form(_whole, "a whole number above 0, such as 4000")
NUMBER = Form(_number, "a number")
SHARE = Form(_number, "a share such as 0.2")
PAIR = Form(lambda value: _numbers(value) and len(value) == 2, "two shares such as [0.1, 0.1]")
INTERVAL = Form(PAIR.fits, "two numbers such as [-1, 1]")
POSITIONS = Form(lambda value: _list(value, _numbers), "a list of positions such as [[0, 10], [5, 20]]")
METHOD = Form(_text, 'the name of a method, such as "best"')
RATES = Form(
    lambda value: isinstance(value, dict) and bool(value) and all(map(_number, value.values())),
    "a share for each label, such as { north = 0.1, south = 0.5 }",
)
TOTALS = Form(
    lambda value: isinstance(value, dict) and bool(value) and all(map(RATES.fits, value.values())),
    "public totals by column and label: { region = { north = 1200, south = 800 } }",
)
FLAG = Form(lambda value: isinstance(value, bool), "true or false")
_OMIT: Mapping[frozenset[str], Forms] = {
    frozenset({"poisson"}): {"poisson": NUMBER},
    frozenset({"sample"}): {"sample": WHOLE},
    frozenset({"rates", "column"}): {"rates": RATES, "column": COLUMN},
    frozenset({"rates", "column", "others"}): {"rates": RATES, "column": COLUMN, "others": NUMBER},
    frozenset({"outliers", "column"}): {"outliers": PAIR, "column": COLUMN},
}
OMIT = Form(
    lambda value: (
        isinstance(value, dict)
        and (forms := _OMIT.get(frozenset(value))) is not None
        and all(form.fits(value[name]) for name, form in forms.items())
    ),
    "a step that drops rows: { poisson = 0.2 } keeps a fifth of them, { sample = 500 } as many of a public number, "
    '{ rates = { north = 0.1 }, column = "region" } some of each label, { outliers = [0.4, 0.5], column = "age" } '
    "drops outliers",
)
TABLES = Form(
    lambda value: _text(value) or _list(value, lambda one: one == [] or COLUMNS.fits(one)),
    'a list of tables, each of columns: [["region"], ["region", "age"]]; or "all margins of region, age up to 2"',
)
MODELS = Form(
    lambda value: isinstance(value, list) and all(COLUMNS.fits(one) for one in value),
    'a list of models, each a list of columns: [["age"], ["age", "sex"]]',
)
WEIGHTS = Form(
    lambda value: value in ("tables", "cells") or _numbers(value),
    '"tables", "cells", or a list with a number for each table',
)
