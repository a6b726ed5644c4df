"""Mutants: small faults in what must be right, and who notices them: the default audit, and the tests.

Every function of ``core/`` and of the sensitivity and bounding parts of the slices is parsed, and one operator,
constant, guard, argument order or rounding direction is changed at a time. A mutant runs in a forked process in which
the function's code is replaced, so everything is imported once. The audit's tasks that execute the function run
first, quickest first, until one notices; where none does, the tests that execute it.

Run ``make mutants`` for all of them, or ``python benchmarks/mutants.py --sample 500`` for a random sample.
"""

from __future__ import annotations

import argparse
import ast
import copy
import gc
import json
import os
import random
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "discreet"
EXPLAINED = ROOT / "docs" / "audit" / "survivors.json"
RESULTS = ROOT / "docs" / "audit" / "mutants.json"
SLICES = (
    "omission/amplification.py",
    "omission/behind_question.py",
    "omission/step.py",
    "questions/bounded.py",
    "questions/count.py",
    "questions/covariance.py",
    "questions/covariance_matrix.py",
    "questions/covariances_in_parts.py",
    "questions/histogram.py",
    "questions/mean.py",
    "questions/means_and_covariances.py",
    "questions/mode.py",
    "questions/parts.py",
    "questions/proportion.py",
    "questions/proportion_vector.py",
    "questions/quantile.py",
    "questions/question.py",
    "questions/sum.py",
    "questions/table.py",
    "questions/tensor_parts.py",
    "questions/variance.py",
)
"""Slices whose sensitivities and bounding are mutated."""
SKIPPED = {
    "__repr__",
    "__str__",
    "facts",
    "heading",
    "to_dict",
    "to_html",
    "_repr_html_",
    "parameters",
    "standard_error",
}
"""Functions that show things; nothing about a guarantee depends on them."""
SHOWN = ("display.py", "errors.py", "interval.py", "result.py", "registry.py")
"""Files of ``core/`` that show things or look up names."""
AUDIT_SECONDS, TEST_SECONDS = 40, 30
UNDECIDED = "undecided: out of time"
KEY = tuple[str, str, int]


@dataclass(frozen=True)
class Mutant:
    """One change: where, what it was and what it is now."""

    file: str
    function: str
    line: int
    was: str
    now: str
    first_line: int = field(repr=False)
    number: int = field(repr=False)

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line} {self.function}: {self.was} → {self.now}"


# ---- making mutants -------------------------------------------------------------------------------------------------

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


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions and methods with their qualified names; those inside others belong to them."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef) and not node.name.endswith("Release"):  # those read what is public
            yield from functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef) and node.name not in SKIPPED:
            yield f"{prefix}{node.name}", node


def places(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Nodes of a body that may change: no docstring, no annotation, no words of an error."""
    waiting: list[ast.AST] = [*function.body, *function.args.defaults, *(d for d in function.args.kw_defaults if d)]
    while waiting:
        node = waiting.pop()
        yield node
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list") or isinstance(node, ast.Raise | ast.JoinedStr):
                continue
            several = value if isinstance(value, list) else [value]
            waiting += [one for one in several if isinstance(one, ast.AST)]


def mutants_of(path: Path) -> Iterator[Mutant]:
    """All mutants of a file."""
    tree = ast.parse(path.read_text())
    for name, function in functions(tree):
        number = 0
        for node in places(function):
            for changed in variants(node):
                first = min([function.lineno, *(d.lineno for d in function.decorator_list)])
                was, now = (
                    " ".join(ast.unparse(one).split())[:80] for one in (node, ast.fix_missing_locations(changed))
                )
                yield Mutant(
                    str(path.relative_to(SOURCE)), name, getattr(node, "lineno", first), was, now, first, number
                )
                number += 1


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


def _first(function: ast.FunctionDef) -> int:
    return min([function.lineno, *(one.lineno for one in function.decorator_list)])


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


def plant(mutant: Mutant) -> bool:
    """Replace the function's code wherever it lives; False where it is not loaded."""
    code, path, planted = mutated(mutant), str(SOURCE / mutant.file), False
    for one in gc.get_objects():
        if isinstance(one, types.FunctionType):
            had = one.__code__
            if had.co_filename == path and had.co_qualname == mutant.function and had.co_freevars == code.co_freevars:
                one.__code__, planted = code, True
    return planted


# ---- the default audit, in tasks ------------------------------------------------------------------------------------


def loaded() -> None:
    """Import what the package imports late, so that no forked process has to."""
    for name in (
        "duckdb",
        "ibis.backends.duckdb",
        "pandas",
        "polars",
        "pyarrow.parquet",
        "scipy.special",
        "scipy.stats",
    ):
        import_module(name)


def audit_tasks(worlds: int) -> dict[str, Callable[[], bool]]:
    """Parts of the default audit, as small as they can be run alone; each tells whether it passes."""
    from discreet.audit import run
    from discreet.audit.catalogue import cases
    from discreet.audit.generated_worlds import generated_worlds
    from discreet.audit.model_pipelines import model_pipelines
    from discreet.audit.pipeline import audit_pipeline
    from discreet.audit.release_pipelines import release_pipelines
    from discreet.audit.replay_cases import replay_cases
    from discreet.audit.session_attacks import attack_world
    from discreet.audit.session_pipelines import session_pipelines

    def piped(pipeline: Any) -> bool:
        audit = audit_pipeline(pipeline, scripts=1, pairs=6)
        return audit.passed and (audit.loss.tightness >= 0.99 or not pipeline.tight)

    def exact(case: Any) -> bool:
        audit = case.exact()
        return bool(audit.passed and (audit.tightness >= 0.99 or not case.tight))

    def replayed(case: Any) -> bool:
        return bool(case.audit(6).passed)

    def attacked(world: Any) -> bool:
        return all(one.passed for one in attack_world(world))

    def lines(part: str) -> bool:
        return all(line.passed for line in run._part(part, False)[1])

    tasks: dict[str, Callable[[], bool]] = {}
    for source in (release_pipelines, session_pipelines, model_pipelines):
        tasks |= {f"pipeline {one.name}": partial(piped, one) for one in source() if one.quick}
    tasks |= {f"exact {one.name}": partial(exact, one) for one in cases() if one.exact is not None}
    tasks |= {f"replay {one.name}": partial(replayed, one) for one in replay_cases()}
    tasks |= {world.name: partial(attacked, world) for world in list(generated_worlds())[:worlds]}
    wholes = (
        "exhaustive",
        "ledger programs",
        "statistical, many draws",
        "sweep 1",
        "randomness",
        "omission",
        "hostile",
    )
    return tasks | {part: partial(lines, part) for part in wholes if part in run._PARTS}


# ---- running --------------------------------------------------------------------------------------------------------


@dataclass
class Item:
    """Something that can notice a mutant: what it runs, how long it takes, and which functions it executes."""

    name: str
    check: Callable[[], bool]
    seconds: float = 0.0
    reaches: frozenset[KEY] = frozenset()


def traced(item: Item) -> tuple[float, list[KEY], bool]:
    """Run an item once and note every function of the package that it enters."""
    seen: set[KEY] = set()
    base = str(SOURCE)

    def profile(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(base):
            seen.add((code.co_filename, code.co_qualname.split(".<locals>")[0], 0))

    start = time.perf_counter()
    sys.setprofile(profile)
    try:
        passed = quietly(item.check)
    finally:
        sys.setprofile(None)
    return time.perf_counter() - start, sorted(seen), passed


def quietly(check: Callable[[], bool]) -> bool:
    """Run a check without its words; an error is a finding."""
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        try:
            return check()
        except BaseException:
            return False


def forked(work: Callable[[], Any], seconds: float) -> Any:
    """What a function returns in a process of its own; None where it takes too long or dies."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(reading)
        signal.alarm(int(seconds))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        try:
            answer = json.dumps(work())
        except BaseException:
            answer = "null"
        with os.fdopen(writing, "w") as pipe:
            pipe.write(answer)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else None


def mapped(items: list[Item], longest: float, workers: int) -> list[Item]:
    """Items with their times and what they reach; those that fail by themselves or take too long are left out."""
    shares = [range(number, len(items), workers) for number in range(workers)]
    with TemporaryDirectory() as folder:
        files = [Path(folder) / f"{number}.json" for number in range(workers)]
        share_out([partial(_map, items, share, file) for share, file in zip(shares, files, strict=True)])
        found = {int(place): one for file in files for place, one in json.loads(file.read_text()).items()}
    kept = []
    for place, item in enumerate(items):
        seconds, reaches, passed = found[place] or (0.0, [], False)
        if passed and seconds <= longest:
            kept.append(Item(item.name, item.check, seconds, frozenset(map(tuple, reaches))))
        else:
            print(f"left out: {item.name} ({f'{seconds:.0f} s' if passed else 'fails or hangs'})", flush=True)
    return sorted(kept, key=lambda item: item.seconds)


def _map(items: list[Item], share: range, file: Path) -> None:
    file.write_text(json.dumps({place: forked(partial(traced, items[place]), 120) for place in share}))


def share_out(tasks: list[Callable[[], None]]) -> None:
    """Each task in a process of its own, all at once."""
    children = []
    for task in tasks:
        child = os.fork()
        if child == 0:
            task()
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def noticed(mutant: Mutant, items: list[Item], seconds: float) -> str | None:
    """The first item that notices a mutant; one that hangs or dies is noticed too. None where all of them passed."""
    key = (str(SOURCE / mutant.file), mutant.function, 0)
    reaching = [item for item in items if key in item.reaches]
    if not reaching:
        return None

    def run() -> str:
        if not plant(mutant):
            return ""
        start = time.perf_counter()
        for item in reaching:
            if time.perf_counter() - start > seconds:
                return UNDECIDED
            if not quietly(item.check):
                return item.name
        return ""

    found = forked(run, 3 * seconds)  # a busy machine is no finding, a loop without end is
    return "hangs or dies" if found is None else found or None


def test_items(files: list[str], workers: int) -> list[Item]:
    """Collected tests, as items that run one test each."""
    import pytest

    collected: list[Any] = []

    class Collect:
        def pytest_collection_modifyitems(self, items: list[Any]) -> None:
            collected.extend(items)

        def pytest_runtestloop(self, session: Any) -> bool:
            session.config.option.verbose = -2
            MAPPED.extend(mapped([Item(one.nodeid, _test(one)) for one in collected], 6.0, workers))
            AFTER()
            return True

    pytest.main(
        ["-q", "--continue-on-collection-errors", "-p", "no:cacheprovider", "-m", "not deep and not optimised", *files],
        [Collect()],
    )
    return MAPPED


MAPPED: list[Item] = []
AFTER: Callable[[], None] = lambda: None  # noqa: E731


def _test(one: Any) -> Callable[[], bool]:
    from _pytest.runner import runtestprotocol

    return lambda: all(report.passed for report in runtestprotocol(one, log=False, nextitem=None))


# ---- the whole ------------------------------------------------------------------------------------------------------


def chosen(sample: int | None, seed: int) -> list[Mutant]:
    """All mutants, or a random sample of them."""
    core = [path for path in sorted((SOURCE / "core").rglob("*.py")) if path.name not in SHOWN]
    files = [*core, *(SOURCE / name for name in SLICES)]
    every = [mutant for path in files if path.exists() for mutant in mutants_of(path)]
    print(f"{len(every):,} mutants in {len(files)} files")
    return every if sample is None or sample >= len(every) else random.Random(seed).sample(every, sample)


def report(found: list[dict[str, Any]], total: int) -> dict[str, Any]:
    """Counts and the list; survivors that are explained have their reason."""
    reasons = json.loads(EXPLAINED.read_text()) if EXPLAINED.exists() else {}
    for one in found:
        one["reason"] = reasons.get(one["name"])
    by_audit = [one for one in found if one["audit"] not in (None, UNDECIDED)]
    by_tests = [one for one in found if one not in by_audit and one["tests"] not in (None, UNDECIDED)]
    rest = [one for one in found if one not in by_audit and one not in by_tests]
    undecided = [one for one in rest if UNDECIDED in (one["audit"], one["tests"])]
    equivalent = [one for one in rest if one not in undecided and one["reason"]]
    killed, judged = len(by_audit) + len(by_tests), len(found) - len(undecided) - len(equivalent)
    return {
        "mutants": total,
        "run": len(found),
        "killed": killed,
        "survived": judged - killed,
        "equivalent": len(equivalent),
        "undecided": len(undecided),
        "killed_by_audit": len(by_audit),
        "rate": round(killed / judged, 4) if judged else None,
        "audit_rate": round(len(by_audit) / judged, 4) if judged else None,
        "list": found,
    }


def judged(mutants: list[Mutant], tasks: list[Item], end: float, out: Path) -> None:
    """Each mutant with who notices it, written down one by one."""
    with out.open("w") as file:
        for place, mutant in enumerate(mutants):
            if time.monotonic() > end:
                break
            audit = noticed(mutant, tasks, AUDIT_SECONDS)
            known = audit not in (None, UNDECIDED)
            tests = noticed(mutant, MAPPED, TEST_SECONDS) if MAPPED and not known else None
            file.write(json.dumps({"name": mutant.name, **asdict(mutant), "audit": audit, "tests": tests}) + "\n")
            file.flush()
            print(f"[{place + 1}/{len(mutants)}] {mutant.name}: {audit or tests or 'SURVIVES'}", flush=True)


def shared(mutants: list[Mutant], tasks: list[Item], end: float, workers: int, folder: Path) -> list[dict[str, Any]]:
    """The work of `judged`, shared between processes."""
    files = [folder / f"mutants-{number}.jsonl" for number in range(workers)]
    share_out([partial(judged, mutants[number::workers], tasks, end, file) for number, file in enumerate(files)])
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sample", type=int, help="a random sample instead of all mutants")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--minutes", type=float, default=600.0, help="stop after so long")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--worlds", type=int, default=32, help="generated worlds of the audit; 32 are all of them")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--tests", nargs="*", default=[], help="files of tests to ask where the audit notices nothing")
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    mutants, total = chosen(options.sample, options.seed), len(chosen(None, 0))
    loaded()
    tasks = mapped([Item(name, check) for name, check in audit_tasks(options.worlds).items()], 60.0, options.workers)
    print(f"{len(tasks)} tasks of the audit", flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)

    def judge() -> None:
        print(f"{len(MAPPED)} tests", flush=True)
        with TemporaryDirectory() as folder:
            found = report(shared(mutants, tasks, end, options.workers, Path(folder)), total)
        options.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
        print(json.dumps({name: value for name, value in found.items() if name != "list"}))

    if options.tests:
        global AFTER
        AFTER = judge
        test_items(options.tests, options.workers)
    else:
        judge()


if __name__ == "__main__":
    main()
