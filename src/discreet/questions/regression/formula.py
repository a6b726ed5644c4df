"""Formulas of regressions, such as ``income ~ age + C(sex) * educ``: as columns of which each is a function of one row.

The package formulaic reads the text. Nothing of it is evaluated there: every factor becomes a declared column, or one
that is computed of declared columns of the same row, with bounds that follow from theirs. Proof:
``docs/proofs/regression.md``, Claim 9.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from discreet.core import requirements
from discreet.core.columns import LARGEST_INDEX, Bounds, Categories, Column, Dates, Label, Term
from discreet.core.errors import InvalidParameter, MissingExtra
from discreet.core.numbers import decimal
from discreet.core.schema import Schema
from discreet.questions.formulas import Formula
from discreet.questions.profile.released_first import PrivateBounds

Parts = tuple[tuple[str, Any], ...]
"""What an interaction multiplies: numbers, and columns with the label whose indicator counts."""
_MOST_TERMS = 200
"""Terms of a formula, before any is counted twice."""
_MOST_VALUES = 40
"""Values of a number that ``C(…)`` takes for labels."""
_FINE = 10**5
"""Steps that a computed number has at least."""
_ROWWISE = ("log1p", "sqrt", "abs")
_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_COMPARED = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


@dataclass
class RegressionFormula:
    r"""A formula, read against a schema.

    Attributes
    ----------
    text
        As it was written.
    schema
        The declarations, with the computed columns.
    outcome, on
        The columns of the regression.
    made
        For each interaction, what it multiplies.
    computed
        The names of all computed columns.

    Examples
    --------
    >>> columns = {"pay": Bounds(0, 90), "age": Bounds(18, 90, grid=1), "sex": Categories(["f", "m"])}
    >>> read = RegressionFormula("pay ~ age * sex", Schema(columns=columns))
    >>> read.on, read.schema.bounds("age:sex[m]").low, read.schema.bounds("age:sex[m]").value.text
    (('age', 'sex', 'age:sex[m]'), 0.0, '"age" * indicator("sex" == \'m\')')
    """

    text: str
    schema: Schema
    outcome: str = field(init=False)
    on: tuple[str, ...] = field(init=False, default=())
    made: dict[str, Parts] = field(init=False, default_factory=dict)
    computed: dict[str, None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        text = requirements.instance("formula", self.text, str, 'a formula such as "income ~ age + sex"')
        outcome, terms = _read(text)
        self.outcome = self.column(*outcome)
        if not isinstance(self.schema.columns[self.outcome], Bounds | Categories):
            raise self.wrong(f"describes {self.outcome!r}, whose labels are not public", "Use another outcome.")
        found: list[str] = []
        known: dict[frozenset[str], set[frozenset[str]]] = {frozenset(): {frozenset()}}
        for factors in terms:
            columns = list(dict.fromkeys(self.column(*one) for one in factors))
            if self.outcome in columns:
                raise self.wrong(f"has {self.outcome!r} on both sides", "Name other columns on the right-hand side.")
            numbers = [name for name in columns if isinstance(self.schema.columns[name], Bounds)]
            labels = [name for name in columns if name not in numbers]
            spanned = known.setdefault(frozenset(numbers), set())
            for coded in _codings(labels, spanned):
                found += self._columns(numbers, coded)
        if not found:
            raise self.wrong("has nothing on its right-hand side", 'Write "income ~ age + sex".')
        self.on = tuple(dict.fromkeys(found))

    def wrong(self, rule: str, fix: str) -> InvalidParameter:
        return InvalidParameter("formula", self.text, rule, fix)

    # ---- factors ----------------------------------------------------------------------------------------------------

    def column(self, text: str, kind: str) -> str:
        """The column of a factor: a declared one, or one that is computed."""
        if kind == "lookup":
            return self.declared(text)
        if kind != "python":
            raise self.wrong(f"multiplies by {text}, which is no column", 'Write "income ~ age + sex".')
        try:
            tree = ast.parse(text, mode="eval").body
        except SyntaxError:
            raise self.wrong(f"cannot be read at {text!r}", 'Write "income ~ age + sex".') from None
        name = _called(tree)
        arguments = tree.args if isinstance(tree, ast.Call) else []
        if name in ("C", "Q") and (len(arguments) != 1 or getattr(tree, "keywords", None)):
            raise self.wrong(
                f"names contrasts in {text!r}", "Write C(sex): the first declared label is the reference; declare the "
                "labels in another order for another one.",
            )  # fmt: skip
        if name == "Q":
            return self.declared(str(getattr(arguments[0], "value", "")))
        if name == "C":
            inner = self.column(ast.unparse(arguments[0]), "lookup" if isinstance(arguments[0], ast.Name) else "python")
            return self.as_labels(inner)
        return self.from_row(text, arguments[0] if name == "I" and len(arguments) == 1 else tree)

    def declared(self, name: str) -> str:
        column = self.schema.column(name)
        if isinstance(column, Dates):
            raise self.wrong(f"names {name!r}, a date", 'Declare a number of it, such as value = "year(born)".')
        return name

    def as_labels(self, name: str) -> str:
        """A column of labels, or a number with few values as labels."""
        column = self.schema.columns[name]
        if not isinstance(column, Bounds):
            return name
        if isinstance(column, PrivateBounds) or column.step.denominator != 1 or column.cells > _MOST_VALUES:
            raise self.wrong(
                f"takes {name!r} for labels, which is not a number of at most {_MOST_VALUES} whole values",
                "Declare bands of it, such as bands = [0, 18, 65, 120].",
            )
        values = [step * int(column.step) for step in range(column.lowest, column.highest + 1)]
        return self.add(f"C({name})", Categories(values, value=Formula(_quoted(name, self))))

    def from_row(self, text: str, tree: ast.expr) -> str:
        """A number that is computed of the row's own numbers, with the bounds that follow from theirs."""
        formula = Formula(self.written(tree))
        kind = formula.kind(self.schema.columns, "formula")
        if kind == "condition":
            return self.add(text, Bounds(0, 1, grid=1, value=Formula(f"indicator({formula.text})")))
        if kind != "number":
            raise self.wrong(f"takes the {kind} {text!r} for a number", "Name a number.")
        return self.add(text, _bounded(*self.reach(formula.term), value=formula))

    def written(self, tree: ast.expr) -> str:
        """An expression of one row in the words of `Formula`; anything else is refused."""
        if isinstance(tree, ast.Name):
            return _quoted(self.declared(tree.id), self)
        if isinstance(tree, ast.Constant) and isinstance(tree.value, int | float) and not isinstance(tree.value, bool):
            return f"{tree.value:.15g}" if tree.value >= 0 else f"({tree.value:.15g})"
        if isinstance(tree, ast.Constant) and isinstance(tree.value, str):
            return _label(tree.value)
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
            return f"(-{self.written(tree.operand)})"
        if isinstance(tree, ast.BinOp) and type(tree.op) in _SIGNS:
            return f"({self.written(tree.left)} {_SIGNS[type(tree.op)]} {self.written(tree.right)})"
        if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Pow):
            power = getattr(tree.right, "value", None)
            if power in (2, 3):
                return f"({' * '.join([self.written(tree.left)] * int(power))})"
            raise self.wrong(f"has the power {ast.unparse(tree)!r}", "Use a power of 2 or 3.")
        if isinstance(tree, ast.Compare) and len(tree.ops) == 1 and type(tree.ops[0]) in _COMPARED:
            left, right = (self.written(one) for one in (tree.left, tree.comparators[0]))
            return f"{left} {_COMPARED[type(tree.ops[0])]} {right}"
        name = _called(tree)
        if isinstance(tree, ast.Call) and name in _ROWWISE and len(tree.args) == 1 and not tree.keywords:
            return f"{name}({self.written(tree.args[0])})"
        raise self.wrong(
            f"has {ast.unparse(tree)!r}, which is not computed of one row by +, -, *, /, ** 2, a comparison, "
            f"{', '.join(_ROWWISE)}",
            "A mean, a spread or knots of the data are no public fact: use public numbers, as in I(age - 40), "
            "or declare the column.",
        )  # fmt: skip

    def reach(self, term: Term) -> tuple[Fraction, Fraction]:
        """Ends between which a formula's values lie, from the bounds of the columns alone."""
        if term.op == "number":
            return (decimal(term.parts[0]),) * 2
        if term.op == "column":
            return self.ends(term.parts[0])
        parts = [self.reach(part) for part in term.parts if isinstance(part, Term)]
        if term.op == "negative":
            return -parts[0][1], -parts[0][0]
        if term.op == "arithmetic":
            return self.combined(term.parts[0], *parts)
        (low, high), name = parts[0], term.parts[0]
        if name == "abs":
            return (Fraction(0) if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))
        if (name == "log1p" and low <= -1) or (name == "sqrt" and low < 0):
            raise self.wrong(f"takes {name} of numbers from {float(low):g} on", "Declare other bounds.")
        function = math.log1p if name == "log1p" else math.sqrt
        return Fraction(function(low)), Fraction(function(high))

    def combined(
        self, sign: str, left: tuple[Fraction, Fraction], right: tuple[Fraction, Fraction]
    ) -> tuple[Fraction, Fraction]:
        """Ends of a sum, a difference, a product or a quotient."""
        if sign == "/" and right[0] <= 0 <= right[1]:
            raise self.wrong("divides by a number that may be 0", "Declare the quotient as a column with its bounds.")
        operate = {"+": Fraction.__add__, "-": Fraction.__sub__, "*": Fraction.__mul__, "/": Fraction.__truediv__}
        ends = [operate[sign](one, other) for one in left for other in right]
        return min(ends), max(ends)

    def ends(self, name: str) -> tuple[Fraction, Fraction]:
        """The bounds of a column."""
        column = self.schema.bounds(name)
        if isinstance(column, PrivateBounds):
            raise self.wrong(
                f"computes with {name!r}, whose bounds are not public yet", "Declare them, or profile the column first."
            )
        return decimal(column.low), decimal(column.high)

    # ---- columns ----------------------------------------------------------------------------------------------------

    def _columns(self, numbers: Sequence[str], coded: Mapping[str, bool]) -> Iterator[str]:
        """The columns of a product of numbers and labels; ``coded`` says whether a column's first label is left out."""
        if not numbers and len(coded) == 1:
            yield next(iter(coded))  # with a constant, the first label is the reference
            return
        listed = [
            [(name, label) for label in self.schema.categories(name).labels[reduced:]]
            for name, reduced in coded.items()
        ]
        for labels in itertools.product(*listed):
            parts: Parts = (*((name, None) for name in numbers), *labels)
            if len(parts) == 1:
                yield numbers[0]
            else:
                name = ":".join(part if label is None else f"{part}[{label}]" for part, label in parts)
                self.made[name] = parts
                yield self.add(name, self._product(parts))

    def _product(self, parts: Parts) -> Bounds:
        """A product of numbers and of indicators of labels, with the hull of what it can be."""
        ends, step = (Fraction(1), Fraction(1)), Fraction(1)
        written = []
        for name, label in parts:
            if label is None:
                ends = self.combined("*", ends, self.ends(name))
                step *= self.schema.bounds(name).step
                written.append(_quoted(name, self))
            else:
                ends = min(ends[0], Fraction(0)), max(ends[1], Fraction(0))
                written.append(f"indicator({_quoted(name, self)} == {_label(label)})")
        found = _bounded(*ends, step=step, value=Formula(" * ".join(written)))
        # Nothing is missing in a product of what is never missing.
        known = self.schema.keeps_every_row([name for name, _ in parts])
        return replace(found, nulls=found.low) if known else found

    def add(self, name: str, column: Column) -> str:
        """Declare a computed column."""
        if self.schema.made_from is not None:
            raise self.wrong(f"computes {name!r} of features", "Declare a feature of it, or leave it out.")
        if self.schema.columns.get(name, column) != column:
            raise self.wrong(f"computes {name!r}, which is another column's name", "Rename that column.")
        self.computed[name] = None
        self.schema = replace(self.schema, columns={**self.schema.columns, name: column})
        return name


def _read(text: str) -> tuple[tuple[str, str], list[list[tuple[str, str]]]]:
    """The factor on the left-hand side, and those of every term on the right, by text and kind."""
    try:
        from formulaic.errors import FormulaicError
        from formulaic.parser import DefaultFormulaParser
    except ImportError as missing:
        raise MissingExtra(missing.name or "formulaic", "formulas") from None
    example = 'Write "income ~ age + C(sex) * education".'

    def wrong(rule: str) -> InvalidParameter:
        return InvalidParameter("formula", text, rule, example)

    if text.count("~") != 1 or len(text) > 2000:
        raise wrong("must have an outcome and columns, with one ~ between them")
    parser = DefaultFormulaParser()
    try:
        sides = parser.get_terms(text) if _size(parser.get_ast(text)) <= _MOST_TERMS else None
        left, right = (
            [[(one.expr, one.eval_method.value) for one in term.factors] for term in getattr(sides, side, ())]
            for side in ("lhs", "rhs")
        )
    except FormulaicError as failure:
        raise wrong(f"cannot be read: {str(failure).partition('. ')[0].rstrip('.')}") from None
    except (AttributeError, RecursionError, SyntaxError, TypeError, ValueError):
        raise wrong("cannot be read") from None
    if sides is None:
        raise wrong(f"makes more than {_MOST_TERMS} terms")
    if len(left) != 1 or len(left[0]) != 1 or left[0][0][1] == "literal":
        raise wrong("must have one outcome before the ~")
    constant = [("1", "literal")]
    if constant not in right:
        raise wrong("leaves the constant out, which every regression here has")
    return left[0][0], [term for term in right if term != constant]


def _size(node: Any) -> int:
    """At most so many terms follow from a part of a formula."""
    if not hasattr(node, "operator"):
        return 1
    sizes = [_size(one) for one in node.args]
    sign = str(node.operator.symbol)
    if sign in ("**", "^"):
        power = str(node.args[-1])
        return min((sizes[0] + 1) ** min(int(power), 20) if power.isdigit() else _MOST_TERMS + 1, _MOST_TERMS + 1)
    product = math.prod(size + 1 for size in sizes)
    return min(sum(sizes) if sign in ("+", "-", "~", ",") else product, _MOST_TERMS + 1)


def _codings(labels: Sequence[str], spanned: set[frozenset[str]]) -> list[dict[str, bool]]:
    """How columns of labels are coded in a term, so that no column of the design is a sum of others.

    Each coding names columns, and whether their first label is left out. A term spans the products of all its subsets;
    those that earlier terms span are left out, and two that differ by one column are one with all of its labels.
    """
    subsets = [frozenset(one) for size in range(len(labels) + 1) for one in itertools.combinations(labels, size)]
    codings = [dict.fromkeys(sorted(one, key=labels.index), True) for one in subsets if one not in spanned]
    spanned.update(subsets)
    while pair := next(filter(None, itertools.starmap(_merged, itertools.permutations(codings, 2))), None):
        smaller, larger, both = pair
        codings[codings.index(larger)] = both
        codings.remove(smaller)
    return codings


def _merged(smaller: dict[str, bool], larger: dict[str, bool]) -> tuple[dict[str, bool], ...] | None:
    """Two codings and the one that spans both, where the larger one has a reduced column more."""
    more = [name for name in larger if name not in smaller]
    if len(more) != 1 or not larger[more[0]] or any(larger.get(name) != coded for name, coded in smaller.items()):
        return None
    return smaller, larger, {**larger, more[0]: False}


def _bounded(low: Fraction, high: Fraction, *, value: Formula, step: Fraction | None = None) -> Bounds:
    """Bounds on that step, where ends and step are decimals of a float; else somewhat wider, on a fine power of ten."""
    ends = (low, high, step)
    exact = step is not None and all(decimal(float(one)) == one for one in ends if one is not None)
    if step is None or not exact or max(abs(low), abs(high)) / step > LARGEST_INDEX:
        step = Fraction(10) ** math.floor(math.log10((high - low) / _FINE)) if high > low else Fraction(1)
        low, high = math.floor(low / step) * step, math.ceil(high / step) * step
    return Bounds(float(low), float(high), grid=float(step), value=value)


def _called(tree: ast.expr) -> str:
    """The name of the function that is called, without its module; empty where none is."""
    function = tree.func if isinstance(tree, ast.Call) else None
    return getattr(function, "id", "") or (getattr(function, "attr", "") if _numpy(function) else "")


def _numpy(function: Any) -> bool:
    return getattr(getattr(function, "value", None), "id", None) in ("np", "numpy")


def _quoted(name: str, formula: RegressionFormula) -> str:
    """A column's name as `Formula` reads it."""
    for mark in '"`':
        if mark not in name:
            return f"{mark}{name}{mark}"
    raise formula.wrong(f"names {name!r}, which has both quotes and backticks", "Rename the column.")


def _label(label: Label) -> str:
    """A label as `Formula` reads it."""
    if isinstance(label, bool):
        return "true" if label else "false"
    return f"{label}" if isinstance(label, int) else "'" + label.replace("'", "''") + "'"
