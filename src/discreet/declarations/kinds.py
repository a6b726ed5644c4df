"""Kinds: what a formula gives, a number, a date or a condition, and whether its parts fit together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from discreet.core.columns import Categories, Column, Unlisted
from discreet.core.dates import Dates
from discreet.core.errors import InvalidParameter, spelling
from discreet.core.row_expression import Term, label_of

__all__ = ["FUNCTIONS", "kind_of"]

FUNCTIONS = {
    "log1p": ("number",),
    "abs": ("number",),
    "sqrt": ("number",),
    "year": ("date",),
    "month": ("date",),
    "weekday": ("date",),
    "age": ("date", "date"),
}
"""Names of the functions, with the kinds of their arguments; every function returns a number."""


def kind_of(term: Term, text: str, columns: Mapping[str, Column], name: str) -> str:
    """The kind of a formula's value; refused under this name where its parts do not fit."""
    alone = columns.get(term.parts[0]) if term.op == "column" else None
    if isinstance(alone, Unlisted) or (isinstance(alone, Categories) and not isinstance(alone.labels[0], bool)):
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
            raise self.wrong(f"names {name!r}, which is not declared", f"{spelling(name, self.columns)} Or declare it.")
        if isinstance(declared, Unlisted):
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
