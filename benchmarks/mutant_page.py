"""Mutant page: the results of `mutants.py` as a page of the documentation."""

from __future__ import annotations

from collections import Counter
from typing import Any

__all__ = ["page"]

_PAGE = """# Mutants

A mutant is the package with one small fault: another operator, a constant one larger, a doubling or a guard that
is gone, swapped arguments, the wrong direction of rounding. `make mutants` plants them one at a time and asks who
notices: first the parts of the default audit that execute the changed line, then the tests that do.

**What is mutated.** Every function of `core/`, except those that show things; and in every mechanism, question and
step of omission the functions that carry a sensitivity, a bound, a limit, a scale, a draw or a charge, by their
names (`benchmarks/mutation.py`). Plans, intervals, tests and other inference are not: no guarantee depends on
them, and they have coverage tests of their own. Words of errors are not mutated, nor defaults, nor the journal on
a server. Functions that left `core/` since keep the verdicts that they had there.

**What is equivalent.** A mutant that changes no answer and no guarantee: it starts a certified search elsewhere,
makes an error bound looser so that exact arithmetic decides more often, or changes the size of a pass. Each has
its reason.

| | |
|---|---|
{rows}

The sample is random (seed {seed}): the mutants whose names hash lowest, so it stays what it is where other code
changes. Each mutant had up to {audit:g} seconds of processor time in the audit and {tests:g} in the tests. Of the
generated worlds, which take the most time, only a few were asked, so the whole audit notices at least as many. A
verdict belongs to the code of its function: what changes later is judged again.

## By room

| room | mutants | killed | by the audit | survived | equivalent | undecided |
|---|---|---|---|---|---|---|
{rooms}

## Not killed

| mutant | | why |
|---|---|---|
{rest}
"""


def page(found: dict[str, Any], limits: tuple[float, float]) -> str:
    """The results as a page of the documentation."""
    shown = {
        "mutants in scope": f"{found['mutants']:,}",
        "sampled and judged": f"{found['sampled']:,}",
        "killed": f"{found['killed']:,} ({100 * (found['rate'] or 0):.1f} % of those that are not equivalent)",
        "killed by the audit alone": f"{found['killed_by_audit']:,} ({100 * (found['audit_rate'] or 0):.1f} %)",
        "survived": found["survived"],
        "undecided: not noticed within the time, and tests not asked or out of time": found["undecided"],
        "equivalent": found["equivalent"],
        "controls, with nothing changed": f"{found['controls']}, {found['controls_noticed']} noticed",
    }
    rooms: dict[str, Counter[str]] = {}
    for one in found["list"]:
        rooms.setdefault("/".join(one["name"].split(" ")[0].split("/")[:2]).removesuffix(".py"), Counter())[
            one["state"]
        ] += 1
    rest = [one for one in found["list"] if not one["state"].startswith("killed")]
    return _PAGE.format(
        rows="\n".join(f"| {name} | {value} |" for name, value in shown.items()),
        seed=found["seed"],
        audit=limits[0],
        tests=limits[1],
        rooms="\n".join(_room(name, states) for name, states in sorted(rooms.items())),
        rest="\n".join(f"| `{_plain(one['name'])}` | {one['state']} | {one['reason'] or ''} |" for one in rest),
    )


def _room(name: str, states: Counter[str]) -> str:
    audit, tests = states["killed by the audit"], states["killed by tests"]
    rest = (states[state] for state in ("survived", "equivalent", "undecided"))
    return f"| {name} | {states.total()} | {audit + tests} | {audit} | {' | '.join(map(str, rest))} |"


def _plain(name: str) -> str:
    return name.replace("|", "\\|").replace("`", "'")
