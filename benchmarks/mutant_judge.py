"""Mutant judge: which lines a check executes, and which check is the first to notice a mutant.

A mutant runs in a forked process in which the function's code is replaced, so everything is imported once. Checks that
execute the changed line run one after another, those that noticed other mutants of the function before the others and
the quickest before the slow, until one notices. Limits are processor time, so that a busy machine decides nothing.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from mutation import SOURCE, Mutant

__all__ = ["OPEN", "UNDECIDED", "Item", "Judge", "Map", "share_out"]

UNDECIDED = "out of time"
OPEN = (None, UNDECIDED)
Place = tuple[str, int]


@dataclass
class Item:
    """Something that can notice a mutant: what it runs, how long that takes, and which lines it executes.

    Its version changes where its own code does, so that its lines are looked for again.
    """

    name: str
    check: Callable[[], bool]
    seconds: float = 0.0
    reaches: frozenset[Place] = frozenset()
    version: str = ""

    @property
    def key(self) -> str:
        """Its name in the map."""
        return f"{self.name} {self.version}".strip()


# ---- processes ------------------------------------------------------------------------------------------------------


def quietly(check: Callable[[], bool]) -> bool:
    """Run a check without its words; an error is a finding."""
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        try:
            return check()
        except BaseException:
            return False


def forked(work: Callable[[], Any]) -> Any:
    """What a function returns in a process of its own; None where it is ended by a limit or dies."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(reading)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_DATA, (2**34, 2**34))  # charts reserve more addresses than that
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


def limit(seconds: float) -> None:
    """End this process after so much more processor time; or where it only waits, and does so for very long."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(int(60 + 20 * seconds))


def share_out(work: Callable[[Any], None], tasks: list[Any], workers: int) -> None:
    """Do all tasks in several processes: each takes the next that waits."""
    for start in range(0, len(tasks), _IN_A_PIPE):
        _share_out(work, tasks[start : start + _IN_A_PIPE], workers)


_IN_A_PIPE = 10_000
"""How many numbers of four bytes a pipe holds for sure before somebody reads them."""


def _share_out(work: Callable[[Any], None], tasks: list[Any], workers: int) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"".join(number.to_bytes(4, "big") for number in range(len(tasks))))
    os.close(writing)
    children = []
    for _ in range(workers):
        child = os.fork()
        if child == 0:
            while number := os.read(reading, 4):
                work(tasks[int.from_bytes(number, "big")])
            os._exit(0)
        children.append(child)
    os.close(reading)
    for child in children:
        os.waitpid(child, 0)


# ---- what an item executes ------------------------------------------------------------------------------------------


@dataclass
class Trace:
    """Notes which lines of some functions are executed; what is of no interest any more is not followed."""

    wanted: dict[str, list[tuple[int, int, str]]]
    """File to first line, last line and name of the functions of interest."""
    seen: dict[Any, set[int]] = field(default_factory=dict)
    whole: dict[Any, int] = field(default_factory=dict)

    def __call__(self, frame: Any, event: str, argument: Any) -> Any:
        """Follow a call where it can show anything new."""
        code = frame.f_code
        if code not in self.whole:
            self.whole[code] = len({line for *_, line in code.co_lines() if line}) if self.owner(code) else 0
            self.seen[code] = set()
        seen = self.seen[code]
        if len(seen) >= self.whole[code]:
            return None
        seen.add(frame.f_lineno)

        def lines(frame: Any, event: str, argument: Any) -> Any:
            seen.add(frame.f_lineno)
            return lines

        return lines

    def owner(self, code: Any) -> tuple[int, str] | None:
        """First line and name of the function of interest that code belongs to."""
        for first, last, name in self.wanted.get(code.co_filename, ()):
            if first <= code.co_firstlineno <= last:
                return first, name
        return None

    def found(self) -> list[Place]:
        """Every line that was executed, counted from the first of its function."""
        places = set()
        for code, lines in self.seen.items():
            if owner := self.owner(code):
                places |= {(owner[1], line - owner[0]) for line in lines}
        return sorted(places)


def traced(item: Item, wanted: dict[str, list[tuple[int, int, str]]]) -> tuple[float, list[Place], bool]:
    """Run an item once: its processor time, what it executes, and whether it passes."""
    limit(300)
    trace, start = Trace(wanted), time.process_time()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        passed = quietly(item.check)
    finally:
        sys.settrace(None)
    return time.process_time() - start, trace.found(), passed


class Map:
    """What each item executes, kept in a file: only functions that are new or changed are looked for again.

    An item that executes more than is known is asked of too few mutants, never of too many.
    """

    def __init__(self, file: Path, mutants: list[Mutant], workers: int) -> None:
        self.file, self.workers = file, workers
        self.functions = {one.owner: one for one in mutants}
        self.read()

    def read(self) -> None:
        """Read what is known: an item's name, its seconds, whether it passes, what was looked for, what it executes."""
        self.known: dict[str, tuple[float, bool]] = {}
        self.sought: dict[str, set[str]] = {}
        self.reached: dict[str, set[Place]] = {}
        for line in self.file.read_text().splitlines() if self.file.exists() else ():
            name, seconds, passed, sought, reached = json.loads(line)
            self.known[name] = seconds, passed
            if passed:  # what failed may have been mended since
                self.sought.setdefault(name, set()).update(sought)
            self.reached.setdefault(name, set()).update(map(tuple, reached))

    def of(self, items: list[Item], longest: float, end: float) -> list[Item]:
        """Items with their times and lines; without those that fail by themselves or take too long."""
        missing = [item for item in items if self._missing(item)]
        print(f"{len(missing)} of {len(items)} items to trace", flush=True)
        share_out(partial(self._trace, end), missing, self.workers)
        self.read()
        kept = []
        for item in items:
            seconds, passed = self.known.get(item.key, (0.0, False))
            if passed and seconds <= longest:
                kept.append(Item(item.name, item.check, seconds, frozenset(self.reached[item.key])))
            elif item.key in self.known:
                print(f"left out: {item.name} ({f'{seconds:.0f} s' if passed else 'fails or hangs'})", flush=True)
        return sorted(kept, key=lambda item: item.seconds)

    def complete(self, items: list[Item]) -> bool:
        """Whether nothing has to be looked for."""
        return not any(self._missing(item) for item in items)

    def _missing(self, item: Item) -> list[str]:
        return [one for one in self.functions if one not in self.sought.get(item.key, ())]

    def _trace(self, end: float, item: Item) -> None:
        if time.monotonic() > end:
            return
        wanted: dict[str, list[tuple[int, int, str]]] = {}
        missing = self._missing(item)
        for owner in missing:
            one = self.functions[owner]
            wanted.setdefault(str(SOURCE / one.file), []).append((one.first_line, one.end_line, owner))
        seconds, reached, passed = forked(partial(traced, item, wanted)) or (0.0, [], False)
        with self.file.open("a") as file:
            file.write(json.dumps([item.key, seconds, passed, missing, reached]) + "\n")


# ---- who notices a mutant -------------------------------------------------------------------------------------------


@dataclass
class Judge:
    """Runs items on mutants, and remembers which items noticed others in the same function or file.

    Where it is not known of all items what they execute, a mutant that nobody noticed is undecided.
    """

    items: list[Item]
    seconds: float
    broad: frozenset[str] = frozenset()
    complete: bool = True
    noticed: Counter[tuple[str, str]] = field(default_factory=Counter)

    def of(self, mutant: Mutant, change: Callable[[], bool]) -> str | None:
        """The first item that notices; one that hangs or dies is noticed too. None where all of them passed."""
        reaching = [item for item in self.items if item.reaches & mutant.places]
        if not reaching:
            return None if self.complete else UNDECIDED
        reaching.sort(key=lambda item: self._promise(mutant, item))
        answer = forked(partial(self._run, reaching, change))
        found = "hangs or dies" if answer is None else str(answer)
        if found and found != UNDECIDED:
            self.remember(mutant, found)
        return found or None

    def remember(self, mutant: Mutant, item: str) -> None:
        """Ask an item sooner where it noticed a mutant that is close."""
        self.noticed[mutant.file, item] += 1
        self.noticed[f"{mutant.file} {mutant.function}", item] += 4

    def _promise(self, mutant: Mutant, item: Item) -> float:
        before = self.noticed[mutant.file, item.name] + self.noticed[f"{mutant.file} {mutant.function}", item.name]
        broad = 6 if item.name in self.broad else 1  # what computes everything twice notices most
        return (item.seconds + 0.05) / (broad + before)

    def _run(self, reaching: list[Item], change: Callable[[], bool]) -> str:
        try:
            planted = change()
        except (LookupError, StopIteration, SyntaxError):  # the file was changed meanwhile
            return UNDECIDED
        if not planted:
            return ""
        start, skipped = time.process_time(), not self.complete
        for item in reaching:
            if time.process_time() - start + item.seconds > self.seconds:
                skipped = True
                continue
            limit(10 + 5 * item.seconds)  # a loop without end is noticed too
            if not quietly(item.check):
                return item.name
        return UNDECIDED if skipped else ""
