"""Display: text that may leave, and one list of facts as text in a terminal and as a table in a notebook."""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from textwrap import wrap
from typing import Any

import numpy as np

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, NoPopulationInterval
from discreet.core.noise.sampler import Floats
from discreet.core.notebook import facts_html

Facts = Sequence[tuple[str, str]]
"""Pairs of a name and a text; tabs divide the text of a line of a table into cells."""

_SHOWN_ELEMENTS = 6
_COLUMNS = 80
_WHOLE = 1e4
_UNHELD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls: a terminal obeys them; XML, and so charts and workbooks, hold none
    "\u2028\u2029\u202a-\u202e\u2066-\u2069"  # ends of lines, and marks that let text run backwards
    "\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"  # no characters: UTF-8 or XML has none of them
)


def printable(text: str) -> str:
    r"""Text that every format can hold and no reader obeys; labels may be what somebody in the data chose.

    All text that leaves for a chart, a page, markdown, a table, a workbook or a terminal passes here. What cannot stay
    is written as JSON and TOML write it, so that labels which differ still do.

    Examples
    --------
    >>> printable("north\x1b[2J")
    'north\\u001b[2J'
    """
    return _UNHELD.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def held(data: Any) -> Any:
    """Plain data in which all text is `printable`; markup of our own stays as it is."""
    if isinstance(data, Mapping):
        return {held(name): held(value) for name, value in data.items()}
    if isinstance(data, list):
        return [held(one) for one in data]
    return printable(data) if type(data) is str else data


def number(value: Any) -> str:
    """A number or an array, short enough to read: six digits, and the first few elements."""
    array = np.asarray(value)
    if array.ndim == 0:
        return f"{array.item():.6g}"
    shown = ", ".join(f"{element:.6g}" for element in array.ravel()[:_SHOWN_ELEMENTS])
    shape = "×".join(str(length) for length in array.shape)
    return f"[{shown}{', …' if array.size > _SHOWN_ELEMENTS else ''}] ({shape})"


def plural(noun: str) -> str:
    """Several of them.

    Examples
    --------
    >>> plural("row"), plural("person"), plural("company"), plural("class")
    ('rows', 'people', 'companies', 'classes')
    """
    irregular = {"person": "people", "child": "children", "man": "men", "woman": "women"}
    if noun in irregular:
        return irregular[noun]
    if re.search("[^aeiou]y$", noun):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if re.search("(s|x|z|ch|sh)$", noun) else f"{noun}s"


def in_a_row(names: Sequence[str]) -> str:
    """Several names in a sentence.

    Examples
    --------
    >>> in_a_row(["age", "sex", "region"])
    'age, sex and region'
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def within(label: str) -> str:
    """A label in the middle of a sentence: a word there begins with a small letter, an acronym does not.

    Examples
    --------
    >>> within("Yearly income"), within("BMI"), within("X")
    ('yearly income', 'BMI', 'X')
    """
    return label[:1].lower() + label[1:] if label[1:2].islower() else label


def expected(value: float) -> str:
    """An error or an effect that a plan expects: four digits, and whole numbers in full.

    Examples
    --------
    >>> expected(0.00845064), expected(1234567.8)
    ('0.008451', '1,234,568')
    """
    return f"{value:,.4g}" if abs(value) < _WHOLE else f"{value:,.0f}"


def as_text(title: str, facts: Facts) -> str:
    """Title and aligned facts, wrapped at 80 columns between words; tabs divide a fact into cells, set flush right."""
    told = [(printable(name), printable(value).split("\t")) for name, value in facts]
    rows = [(name, cells) for name, cells in told if len(cells) > 1]
    wide = [max(map(len, column)) for column in zip_longest(*(cells for _, cells in rows), fillvalue="")]
    names = max((len(name) for name, _ in rows), default=0)
    fits = 2 + names + sum(2 + one for one in wide) <= _COLUMNS
    width = max(len(name) for name, cells in told if len(cells) == 1 or not fits)
    lines = [printable(title)]
    for name, cells in told:
        if len(cells) > 1 and fits:
            lines.append("  ".join([f"  {name:<{names}}", *map(str.rjust, cells, wide)]).rstrip())
            continue
        whole = "; ".join(cells).replace(" %", "\0%")  # a number stays on the line of its sign
        whole = re.sub("p ([=<]) ", "p\0\\1\0", whole)
        pieces = wrap(whole, max(_COLUMNS - width - 4, 20), break_long_words=False, break_on_hyphens=False) or [""]
        lines += [f"  {label:<{width}}  {piece}".rstrip() for label, piece in zip_longest([name], pieces, fillvalue="")]
    return "\n".join(lines).replace("\0", " ")


def as_html(title: str, facts: Facts) -> str:
    """The same facts as a small table, everything escaped."""
    return facts_html(printable(title), [(printable(name), printable(value)) for name, value in facts])


# ---- Result: what a user is handed, readable in a terminal and in a notebook, and ready to be kept.


class Result(ABC):
    """Everything that discreet reports: text of 80 columns, a table for notebooks, plain data and JSON."""

    @abstractmethod
    def heading(self) -> str:
        """One line above the facts."""

    @abstractmethod
    def facts(self) -> Facts:
        """The facts to show, as pairs of a name and a text."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""

    def to_json(self, *, indent: int | None = None) -> str:
        """JSON text; numbers that are not finite become null."""
        return json.dumps(_finite(self.to_dict()), indent=indent, ensure_ascii=False, allow_nan=False, default=str)

    def __str__(self) -> str:
        return as_text(self.heading(), self.facts())

    def _repr_html_(self) -> str:
        return as_html(self.heading(), self.facts())


def _finite(data: Any) -> Any:
    """The same data with null for what JSON cannot say."""
    if isinstance(data, Mapping):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


# ---- Interval: two ends and a confidence level, as inference returns them.


@dataclass(frozen=True)
class Interval(Result):
    """An interval, or an array of them, with its confidence level.

    Examples
    --------
    >>> low, high = Interval(1.0, 2.0, 0.95)
    >>> Interval(1.0, 2.0, 0.95).contains(1.5)
    True
    """

    low: Floats
    high: Floats
    level: float

    def __post_init__(self) -> None:
        for end in ("low", "high"):
            value = getattr(self, end)
            object.__setattr__(self, end, float(value) if np.ndim(value) == 0 else np.asarray(value))

    def __iter__(self) -> Iterator[Floats]:
        return iter((self.low, self.high))

    @property
    def width(self) -> Floats:
        """Upper minus lower end."""
        return self.high - self.low

    def contains(self, value: Any) -> Any:
        """True where ``value`` lies inside, ends included; element by element for arrays."""
        inside = (np.asarray(value) >= self.low) & (np.asarray(value) <= self.high)
        return bool(inside) if np.ndim(inside) == 0 else inside

    def heading(self) -> str:
        return "Interval"

    def facts(self) -> Facts:
        return [("from", number(self.low)), ("to", number(self.high)), ("level", f"{100 * self.level:g} %")]

    def to_dict(self) -> dict[str, Any]:
        """Ends and level as JSON-ready data."""
        return {"low": np.asarray(self.low).tolist(), "high": np.asarray(self.high).tolist(), "level": self.level}

    def __str__(self) -> str:
        return f"{number(self.low)} to {number(self.high)} ({100 * self.level:g} %)"


@dataclass(frozen=True)
class DerivedNumber(Result):
    """A number that follows from released ones, with its interval.

    Attributes
    ----------
    title
        What it is.
    estimate, standard_error
        The number, and its standard error where one is known.
    ends
        The ends of its interval, by level.
    of_data
        Whether it describes the data, so that only the noise is uncertain; otherwise the population.

    Examples
    --------
    >>> print(DerivedNumber("Gap", 4.0, lambda level: (2.0, 6.0), standard_error=1.0, of_data=True))
    Gap
      estimate        4
      standard error  1
      interval        2 to 6 (95 %)
    """

    title: str
    estimate: float
    ends: Callable[[float], tuple[float, float]] = field(repr=False, compare=False)
    standard_error: float | None = None
    of_data: bool = False

    def noise_interval(self, level: float = 0.95) -> Interval:
        """Interval for the number in the data, from the known distribution of the noise."""
        if not self.of_data:
            raise InvalidParameter("number", self.title, "is about the population", "Use population_interval().")
        return self._interval(level)

    def population_interval(self, level: float = 0.95) -> Interval:
        """Interval for the number in the population: sampling and noise together."""
        if self.of_data:
            raise NoPopulationInterval("number", self.title, "describes the data alone", "Use noise_interval().")
        return self._interval(level)

    def _interval(self, level: float = 0.95) -> Interval:
        return Interval(*self.ends(requirements.level(level)), level)

    def heading(self) -> str:
        return self.title

    def facts(self) -> Facts:
        error = [] if self.standard_error is None else [("standard error", number(self.standard_error))]
        return [("estimate", number(self.estimate)), *error, ("interval", str(self._interval()))]

    def to_dict(self) -> dict[str, Any]:
        """Estimate, standard error and 95 % interval as JSON-ready data."""
        error = {} if self.standard_error is None else {"standard_error": self.standard_error}
        kind = "noise_interval" if self.of_data else "population_interval"
        return {"estimate": self.estimate, **error, kind: self._interval().to_dict()}
