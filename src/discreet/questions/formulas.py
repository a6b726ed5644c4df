"""Formula: a small language for conditions and derived values, such as ``age >= 18 and region != 'Islands'``.

The guarantee does not depend on this file: whatever tree it makes, the core computes it from one row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from discreet.core import requirements
from discreet.core.columns import Categories, Column, Dates, PrivateLabels, RowExpression, Term, label_of
from discreet.core.errors import InvalidParameter, spelling

# ---- Kinds: what a formula gives, a number, a date or a condition, and whether its parts fit together


FUNCTIONS = {
    "log1p": ("number",),
    "abs": ("number",),
    "sqrt": ("number",),
    "year": ("date",),
    "month": ("date",),
    "weekday": ("date",),
    "age": ("date", "date"),
    "indicator": ("condition",),
}
"""Names of the functions, with the kinds of their arguments; every function returns a number."""


def kind_of(term: Term, text: str, columns: Mapping[str, Column], name: str) -> str:
    """The kind of a formula's value; refused under this name where its parts do not fit."""
    alone = columns.get(term.parts[0]) if term.op == "column" else None
    if isinstance(alone, PrivateLabels) or (isinstance(alone, Categories) and not isinstance(alone.labels[0], bool)):
        return "label"
    return _Checker(text, columns, name).kind(term)


@dataclass(frozen=True)
class _Checker:
    text: str
    columns: Mapping[str, Column]
    name: str

    def wrong(self, rule: str, fix: str) -> InvalidParameter:
        return InvalidParameter(self.name, self.text, rule, fix)

    def kind(self, term: Term) -> str:
        if term.op in ("number", "date"):
            return term.op
        if term.op in ("text", "truth"):
            raise self.wrong(f"compares {term.parts[0]!r} with no column of labels", "Write column == 'label'.")
        if term.op == "column":
            return self.column(term.parts[0])
        if term.op in ("and", "or", "not"):
            for part in term.parts:
                self.need(part, "condition")
            return "condition"
        if term.op == "missing":
            self.known(term.parts[0])
            return "condition"
        if term.op in ("compare", "in"):
            return self.comparison(term)
        if term.op == "arithmetic":
            return self.arithmetic(*term.parts)
        name, *parts = term.parts if term.op == "call" else ("-", *term.parts)
        kinds = FUNCTIONS.get(name, ("number",))
        if len(parts) != len(kinds):
            raise self.wrong(f"gives {name} {len(parts)} values, not {len(kinds)}", f"Write {_written(name, kinds)}.")
        for part, kind in zip(parts, kinds, strict=True):
            self.need(part, kind)
        return "number"

    def need(self, term: Term, kind: str) -> None:
        self.same(self.kind(term), kind)

    def same(self, found: str, kind: str) -> None:
        if found != kind:
            raise self.wrong(f"has a {found} where it needs a {kind}", "See the how-to page on transforms.")

    def known(self, term: Term) -> str:
        """The kind of an operand; ``"labels"`` for a column of labels, which only comparisons understand."""
        labels = term.op == "column" and isinstance(self.columns.get(term.parts[0]), Categories)
        return "labels" if labels else self.kind(term)

    def column(self, name: str) -> str:
        declared = self.columns.get(name)
        if declared is None:
            listed = [one for one in self.columns.values() if isinstance(one, Categories) and name in one.labels]
            fix = f"{spelling(name, self.columns)} Or declare it."
            raise self.wrong(
                f"names {name!r}, which is not declared", f"A label stands in quotes: '{name}'." if listed else fix
            )
        if isinstance(declared, PrivateLabels):
            raise self.wrong(f"names {name!r}, whose labels are not public", "List the labels that the formula names.")
        if isinstance(declared, Categories):
            if set(declared.labels) <= {True, False} and isinstance(declared.labels[0], bool):
                return "condition"
            raise self.wrong(f"names {name!r} outside a comparison", f"Write {name} == 'label'.")
        return "date" if isinstance(declared, Dates) else "number"

    def comparison(self, term: Term) -> str:
        sign, *parts = term.parts if term.op == "compare" else ("==", *term.parts)
        kinds = [self.known(part) if part.op not in ("text", "truth") else "labels" for part in parts]
        if "labels" in kinds:
            return self.labelled(sign, parts)
        if len(set(kinds)) != 1 or kinds[0] == "condition":
            raise self.wrong(f"compares a {kinds[0]} with a {kinds[1]}", "Compare values of one kind.")
        return "condition"

    def labelled(self, sign: str, parts: list[Term]) -> str:
        column, *literals = sorted(parts[:2], key=lambda part: part.op != "column") + parts[2:]
        declared = self.columns.get(column.parts[0]) if column.op == "column" else None
        if not isinstance(declared, Categories) or sign not in ("==", "!="):
            raise self.wrong("compares labels with what is none", "Write column == 'label', != or in.")
        for literal in literals:
            label = label_of(literal)
            if literal.op == "column" or not any(label == one and type(label) is type(one) for one in declared.labels):
                fix = spelling(label, declared.labels)
                raise self.wrong(f"names {label!r}, which is no label of {column.parts[0]!r}", fix)
        return "condition"

    def arithmetic(self, sign: str, left: Term, right: Term) -> str:
        kinds = (self.kind(left), self.kind(right))
        if kinds == ("date", "date") and sign == "-":
            return "number"
        for found in kinds:
            self.same(found, "number")
        return "number"


def _written(name: str, kinds: tuple[str, ...]) -> str:
    return f"{name}({', '.join(kinds)})"


_LONGEST = 2000
_DEEPEST = 40
_MOST_STEPS = 400
"""Steps of one value, written out as an engine reads them: it takes seconds to read more."""
_COMPARED = ("==", "!=", "<=", ">=", "<", ">", "=")
_TOKEN = re.compile(
    r"\s*(?:(?P<date>\d{4}-\d\d-\d\d)|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<text>'(?:[^']|'')*')"
    r'|(?P<quoted>"[^"]+"|`[^`]+`)|(?P<name>[^\W\d]\w*)|(?P<sign>==|!=|<=|>=|<>|[-+*/()<>=,\[\]]))'
)


@dataclass(frozen=True)
class Formula(RowExpression):
    """A condition, or a value derived from declared columns of the same row.

    Conditions: ``==``, ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``between … and …``, ``in (…)`` and ``is missing``, joined
    with ``and``, ``or`` and ``not``. Numbers: ``+``, ``-``, ``*``, ``/``, ``log1p``, ``sqrt`` and ``abs``. Dates:
    ``year``, ``month``, ``weekday`` (Monday is 1) and ``age``. Of a condition ``indicator`` makes 1 or 0. Labels
    stand in single quotes, names of columns that are not one word in double quotes or backticks. A comparison with a
    missing value is neither true nor false.

    Parameters
    ----------
    text
        The formula.

    Examples
    --------
    >>> sorted(Formula("age >= 18 and region != 'Islands'").names())
    ['age', 'region']
    """

    text: str
    term: Term = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        text = requirements.instance("formula", self.text, str, "a formula as text")
        if not text.strip() or len(text) > _LONGEST:
            fix = "Write \"age >= 18 and region != 'Islands'\"."
            raise InvalidParameter("formula", text, f"must be text of at most {_LONGEST:,} characters", fix)
        parser = _Parser(text)
        object.__setattr__(self, "term", parser.whole())
        if _steps(self.term) > _MOST_STEPS:
            raise parser.wrong(f"takes more than {_MOST_STEPS} steps", "Declare parts of it as columns of their own.")

    def kind(self, columns: Mapping[str, Any], name: str = "formula") -> str:
        """The kind of value that the formula gives."""
        return kind_of(self.term, self.text, columns, name)

    def check(self, columns: Mapping[str, Any], name: str, kinds: tuple[str, ...]) -> None:
        """Refuse, under this name, what does not fit the declared columns or gives none of these kinds of values."""
        found = self.kind(columns, name)
        if found not in kinds:
            raise InvalidParameter(name, self.text, f"gives a {found}, not a {kinds[0]}", "Declare it otherwise.")
        if not self.names():
            raise InvalidParameter(name, self.text, "reads no column", "Name a column of the schema.")

    def __str__(self) -> str:
        return self.text


def _steps(whole: Term) -> int:
    """Steps of the longest value in a formula; what a division or a function asks of its operand is written twice."""
    known: dict[int, int] = {}
    waiting = [whole]
    while waiting:  # not by recursion: a sum of a thousand terms is a thousand deep
        term = waiting[-1]
        parts = [part for part in term.parts if isinstance(part, Term)]
        if unknown := [part for part in parts if id(part) not in known]:
            waiting += unknown
            continue
        waiting.pop()
        steps = [known[id(part)] for part in parts]
        if term.op in ("arithmetic", "negative", "call"):
            twice = steps[-1] if term.op == "call" or term.parts[0] == "/" else 0
            known[id(term)] = 1 + sum(steps) + twice
        else:
            known[id(term)] = max(steps, default=1)
    return known[id(whole)]


class _Parser:
    """Recursive descent, one method per level of precedence."""

    def __init__(self, text: str) -> None:
        self.text, self.depth = text, 0
        self.tokens = list(self._split())
        self.place = 0

    def _split(self) -> Iterator[tuple[str, str]]:
        place, end = 0, len(self.text.rstrip())
        while place < end:
            found = _TOKEN.match(self.text, place)
            if found is None:
                raise self.wrong(f"cannot be read from {self.text[place:].strip()[:20]!r} on")
            yield str(found.lastgroup), found[str(found.lastgroup)]
            place = found.end()

    def wrong(self, rule: str, fix: str = "See the how-to page on transforms.") -> InvalidParameter:
        return InvalidParameter("formula", self.text, rule, fix)

    def take(self, *words: str) -> str | None:
        """The next token, where it is one of these words or signs."""
        kind, word = self.tokens[self.place] if self.place < len(self.tokens) else ("end", "")
        found = word.lower() if kind == "name" else word
        if kind not in ("name", "sign") or found not in words:
            return None
        self.place += 1
        return found

    def need(self, word: str) -> None:
        if self.take(word) is None:
            raise self.wrong(f"needs {word!r} {self._where()}")

    def _where(self) -> str:
        return f"before {self.tokens[self.place][1]!r}" if self.place < len(self.tokens) else "at its end"

    def whole(self) -> Term:
        term = self.either()
        if self.place < len(self.tokens):
            raise self.wrong(f"makes no sense from {self.tokens[self.place][1]!r} on")
        return term

    def either(self) -> Term:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.wrong("is nested too deeply", "Declare parts of it as columns of their own.")
        term = self.both()
        while self.take("or"):
            term = Term("or", (term, self.both()))
        self.depth -= 1
        return term

    def both(self) -> Term:
        term = self.denied()
        while self.take("and"):
            term = Term("and", (term, self.denied()))
        return term

    def denied(self) -> Term:
        flips = 0
        while self.take("not"):
            flips += 1
        term = self.test()
        return Term("not", (term,)) if flips % 2 else term

    def test(self) -> Term:
        left = self.sum()
        if self.take("is"):
            denied = self.take("not")
            self.need("missing")
            term = Term("missing", (left,))
            return Term("not", (term,)) if denied else term
        denied = self.take("not")
        if self.take("between"):
            low = self.sum()
            self.need("and")
            term = Term("and", (Term("compare", (">=", left, low)), Term("compare", ("<=", left, self.sum()))))
        elif self.take("in"):
            term = Term("in", (left, *self.listed()))
        elif denied:
            raise self.wrong(f"needs 'in' or 'between' {self._where()}")
        else:
            return self.compared(left)
        return Term("not", (term,)) if denied else term

    def compared(self, left: Term) -> Term:
        """``a < b``, or ``a <= b < c``, which means both."""
        terms = []
        while sign := self.take(*_COMPARED, "<>"):
            right = self.sum()
            terms.append(Term("compare", ({"=": "==", "<>": "!="}.get(sign, sign), left, right)))
            left = right
        for term in terms[1:]:
            terms[0] = Term("and", (terms[0], term))
        return terms[0] if terms else left

    def listed(self) -> list[Term]:
        close = {"(": ")", "[": "]"}.get(self.take("(", "[") or "")
        if close is None:
            raise self.wrong(f"needs a list {self._where()}", "Write region in ('north', 'south').")
        terms = [self.factor()]
        while self.take(","):
            terms.append(self.factor())
        self.need(close)
        if any(term.op not in ("number", "text", "date", "truth") for term in terms):
            raise self.wrong("has a list of more than plain values", "List numbers, dates or 'labels'.")
        return terms

    def sum(self) -> Term:
        term = self.product()
        while sign := self.take("+", "-"):
            term = Term("arithmetic", (sign, term, self.product()))
        return term

    def product(self) -> Term:
        term = self.factor()
        while sign := self.take("*", "/"):
            term = Term("arithmetic", (sign, term, self.factor()))
        return term

    def factor(self) -> Term:
        negative = False
        while sign := self.take("-", "+"):
            negative ^= sign == "-"
        term = self.atom()
        if not negative:
            return term
        return Term("number", (-term.parts[0],)) if term.op == "number" else Term("negative", (term,))

    def atom(self) -> Term:
        if self.take("("):
            term = self.either()
            self.need(")")
            return term
        kind, word = self.tokens[self.place] if self.place < len(self.tokens) else ("end", "")
        self.place += 1
        if kind == "number":
            return Term("number", (float(word),))
        if kind == "date":
            try:
                return Term("date", (date.fromisoformat(word),))
            except ValueError:
                raise self.wrong(f"has no such day as {word}", "Write dates as 2024-01-31.") from None
        if kind == "text":
            return Term("text", (word[1:-1].replace("''", "'"),))
        if kind == "quoted":
            return Term("column", (word[1:-1],))
        if kind == "name" and word.lower() in ("true", "false"):
            return Term("truth", (word.lower() == "true",))
        if kind != "name":
            self.place -= 1
            raise self.wrong(f"needs a value {self._where()}")
        if not self.take("("):
            return Term("column", (word,))
        if word not in FUNCTIONS:
            raise self.wrong(f"has no function {word}", spelling(word, FUNCTIONS))
        parts = [self.either()]
        while self.take(","):
            parts.append(self.either())
        self.need(")")
        return Term("call", (word, *parts))
