"""Mutation: which functions a guarantee rests on, and the small faults that can be planted in them.

**Scope.** All functions of ``core/``, except those that show things; and in every mechanism, question and step of
omission the functions that carry a sensitivity, a bound, a limit, a scale, a draw or a charge. A function of a slice
belongs to the scope by its name (`CARRIES`), so a new slice is in it without a list. Classes that read what was
released, plans, intervals, tests and other inference are not: no guarantee depends on them, and they have coverage
tests of their own.
"""

from __future__ import annotations

import ast
import copy
import gc
import hashlib
import re
import types
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["SOURCE", "Index", "Mutant", "all_mutants", "index_of_functions", "plant", "sampled"]

SOURCE = Path(__file__).resolve().parent.parent / "src" / "discreet"
ROOMS = ("mechanisms", "questions", "omission")
CARRIES = re.compile(
    r"sensitiv|stabilit|bound|limit|clip|clamp|calibrat|scale|draw|kept|keep|amplif|before|claim|charg|spen[dt]|moves|moved|"
    r"value|exact|measured|measurement|of_sums|of_public_size|codes|reach|domain|middle|half|halves|profile|chance|shown|squared_cost|replacement_cost|^_cost|"
    r"histogram|totals|coordinates|sampling|suppression|content|sampled|delet|__post_init__|check|public_size|grouped|labels|"
    r"products|squares|prepared|cells|grids|widths|sums|count|flags|smaller|choose"
)
"""Parts of names: what a function of a slice must carry to be in the scope."""
READS = re.compile(
    r"interval|expected|error|plan|read|facts|heading|present|simulat|plot|shown_value|population|correlation|debias|"
    r"parameters|to_dict|from_dict|html|repr|str__|advi|published|synthetic|sampling_model|sampling_variance|moment_|mode_error|"
    r"comparison|columns_read|meaning|counted_words|standard|scales$|_reach|^_sampling$|count_weight"
)
"""Parts of names of inference, planning and display, which are not."""
NOT_RELEASING = re.compile(
    r"Release$|Plan$|Answer$|Estimate|Interval$|Law$|Choice$|Option$|Advice$|Comparison|Readable|Profile$"
)
"""Classes of a slice that read what was released, or compute a law that the exact audit integrates."""
FILES_THAT_READ = re.compile(
    r"__init__|advice|table_tests|table_choice|cell_estimates|margin_table|linear_fit|comparison/detection|synthetic|presented|named|shorthands|forms|answer|"
    r"comparison/(comparison_plan|many_arms|mean_comparison|methods|compare|paper|noise_shares)|model\.py|structured_law|shrinkage|"
    r"loss_distribution|composed|envelope|bounded_(curve|touching|concentration|loss|profile)|outlier_bound|_profile|sampled_law|"
    r"measured_margins|histogram_tree|helmert|laplace_curve|positive_semidefinite|_law\.py|responses|implied|inclusion_law|suppression"
)
"""Files of inference, display and of the numerics of profiles, which tests compare with mpmath and other libraries."""
SHOWN = ("errors.py", "postgres_journal.py")
"""Files of ``core/`` that put things into words; and the journal on a server, which tests run on one."""
SKIPPED = {
    "__repr__", "__str__", "facts", "heading", "to_dict", "to_html", "_repr_html_", "parameters", "standard_error",
    "error_95", "noise_interval", "sentence", "_why_not", "mse", "__html__", "_explained",
}  # fmt: skip
"""Functions of ``core/`` that show things, put them into words or plan."""


@dataclass(frozen=True)
class Mutant:
    """One change: where, what it was, what it is now, and which of several such places in the function it is."""

    file: str
    function: str
    was: str
    now: str
    occurrence: int
    line: int = field(compare=False)
    last_line: int = field(compare=False)
    first_line: int = field(repr=False, compare=False)
    end_line: int = field(repr=False, compare=False)
    number: int = field(repr=False, compare=False)
    code: str = field(compare=False)
    """A hash of the function: what was found for other code does not count."""

    @property
    def name(self) -> str:
        """The same on other days, whatever else is in the file."""
        nth = f" ({self.occurrence})" if self.occurrence > 1 else ""
        return f"{self.file} {self.function}: {self.was} → {self.now}{nth}"

    @property
    def owner(self) -> str:
        """The function that it is in, as it stands now."""
        return f"{self.file} {self.function} {self.code}"

    @property
    def places(self) -> frozenset[tuple[str, int]]:
        """Its function and lines in it, wherever that function stands in its file."""
        lines = range(self.line, self.last_line + 1)
        return frozenset((self.owner, line - self.first_line) for line in lines)


# ---- what may stand in a node's place -------------------------------------------------------------------------------

_COMPARED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
             ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In}  # fmt: skip
_COUNTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
            ast.Pow: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift}  # fmt: skip
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "floor": "ceil", "ceil": "floor", "up": "down",
          "down": "up", "least": "greatest", "greatest": "least", "at_least": "at_most", "at_most": "at_least",
          "not_below": "float", "root_up": "float", "most_groups": "most_rows"}  # fmt: skip


def variants(node: Any) -> Iterator[ast.AST]:
    """What may stand in a node's place."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARED:
        changed: Any = copy.deepcopy(node)
        changed.ops[0] = _COMPARED[type(node.ops[0])]()
        yield changed
    elif isinstance(node, ast.BinOp) and type(node.op) in _COUNTED:
        changed = copy.deepcopy(node)
        changed.op = _COUNTED[type(node.op)]()
        yield changed
        yield copy.deepcopy(node.left)  # a dropped term
    elif isinstance(node, ast.Constant) and not isinstance(node.value, bool) and isinstance(node.value, int | float):
        yield ast.Constant(node.value + 1)
        if node.value == 2:
            yield ast.Constant(1)  # a doubling that is forgotten
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.BoolOp):
        changed = copy.deepcopy(node)
        changed.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield changed
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield copy.deepcopy(node.operand)
    elif isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], ast.Raise | ast.Return):
        yield ast.copy_location(ast.If(ast.Constant(False), node.body, []), node)  # a guard that is gone
    elif isinstance(node, ast.Call):
        yield from _calls(node)


def _calls(node: ast.Call) -> Iterator[ast.AST]:
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
    if called in _NAMES:
        changed = copy.deepcopy(node)
        if isinstance(changed.func, ast.Attribute):
            changed.func.attr = _NAMES[called]
        else:
            changed.func = ast.Name(_NAMES[called], ast.Load())
        yield changed
    if called in ("min", "max") and len(node.args) == 2:
        yield copy.deepcopy(node.args[0])
    if len(node.args) == 2 and not node.keywords and called not in ("min", "max", "isinstance", "getattr", "hasattr"):
        changed = copy.deepcopy(node)
        changed.args.reverse()
        yield changed


# ---- where ----------------------------------------------------------------------------------------------------------


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions and methods with their qualified names; those inside others belong to them."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            yield f"{prefix}{node.name}", node


def in_scope(file: str, function: str) -> bool:
    """Whether a guarantee rests on a function."""
    *owners, name = function.split(".")
    if file.startswith("core/"):
        return Path(file).name not in SHOWN and name not in SKIPPED
    if FILES_THAT_READ.search(file) or any(NOT_RELEASING.search(owner) for owner in owners):
        return False
    return bool(CARRIES.search(name)) and not READS.search(name)


def places(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Nodes of a body that may change: no default, no annotation, no words of an error."""
    waiting: list[ast.AST] = [*function.body]
    while waiting:
        node = waiting.pop()
        yield node
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list") or isinstance(node, ast.Raise | ast.JoinedStr):
                continue
            several = value if isinstance(value, list) else [value]
            waiting += [one for one in several if isinstance(one, ast.AST)]


def _first(function: ast.FunctionDef) -> int:
    return min([function.lineno, *(one.lineno for one in function.decorator_list)])


def _end(function: ast.FunctionDef) -> int:
    return function.end_lineno or function.lineno


def _lines(node: Any) -> tuple[int, int]:
    """Lines of which one must run for a change to matter."""
    where: Any = node.test if isinstance(node, ast.If) else node
    return where.lineno, where.end_lineno


def mutants_of(path: Path) -> Iterator[Mutant]:
    """All mutants of a file that are in the scope."""
    file = str(path.relative_to(SOURCE))
    for name, function in functions(ast.parse(path.read_text())):
        if not in_scope(file, name):
            continue
        number, seen, code = 0, Counter[tuple[str, str]](), _hash(function)
        for node in places(function):
            for changed in variants(node):
                was, now = (
                    " ".join(ast.unparse(one).split())[:80] for one in (node, ast.fix_missing_locations(changed))
                )
                seen[was, now] += 1
                lines = _lines(node)
                yield Mutant(
                    file, name, was, now, seen[was, now], *lines, _first(function), _end(function), number, code
                )
                number += 1


def _hash(function: ast.FunctionDef) -> str:
    """The same wherever the function stands, however it is laid out and whatever its docstring says."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    text = "\n".join([ast.unparse(function.args), *map(ast.unparse, body)])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def all_mutants() -> list[Mutant]:
    """Every mutant in the scope."""
    files = [path for room in ("core", *ROOMS) for path in sorted((SOURCE / room).rglob("*.py"))]
    return [mutant for path in files for mutant in mutants_of(path)]


def sampled(every: list[Mutant], size: int | None, seed: int) -> list[Mutant]:
    """A random sample that stays what it is where other code changes: the mutants whose names hash lowest."""
    by_hash = sorted(every, key=lambda one: hashlib.sha256(f"{seed} {one.name}".encode()).digest())
    return by_hash[:size]


# ---- planting -------------------------------------------------------------------------------------------------------


def mutated(mutant: Mutant) -> types.CodeType:
    """The code of the mutated function."""
    path = SOURCE / mutant.file
    tree = ast.parse(path.read_text())
    function = next(
        one for name, one in functions(tree) if name == mutant.function and _first(one) == mutant.first_line
    )
    number = 0
    for node in places(function):
        for changed in variants(node):
            if number == mutant.number:
                _put(function, node, ast.copy_location(changed, node))
                whole = compile(ast.fix_missing_locations(tree), str(path), "exec", dont_inherit=True)
                return _inside(whole, mutant)
            number += 1
    raise LookupError(mutant.name)


def _put(function: ast.FunctionDef, old: ast.AST, new: ast.AST) -> None:
    for parent in ast.walk(function):
        for name, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, name, new)
                return
            if isinstance(value, list) and any(one is old for one in value):
                setattr(parent, name, [new if one is old else one for one in value])
                return


def _inside(code: types.CodeType, mutant: Mutant) -> types.CodeType:
    waiting = [code]
    while waiting:
        one = waiting.pop()
        if one.co_qualname == mutant.function and one.co_firstlineno == mutant.first_line:
            return one
        waiting += [inner for inner in one.co_consts if isinstance(inner, types.CodeType)]
    raise LookupError(mutant.name)


Index = dict[tuple[str, str, int], list[types.FunctionType]]


def index_of_functions() -> Index:
    """Every loaded function of the package, by file, name and first line."""
    found: Index = {}
    for one in gc.get_objects():
        if isinstance(one, types.FunctionType) and one.__code__.co_filename.startswith(str(SOURCE)):
            code = one.__code__
            found.setdefault((code.co_filename, code.co_qualname, code.co_firstlineno), []).append(one)
    return found


def plant(mutant: Mutant, index: Index) -> bool:
    """Replace the function's code wherever it lives; False where it is not loaded."""
    code = mutated(mutant)
    found = index.get((str(SOURCE / mutant.file), mutant.function, mutant.first_line), [])
    for one in found:
        if one.__code__.co_freevars == code.co_freevars:
            one.__code__ = code
    return bool(found)
