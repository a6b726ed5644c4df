"""Replay audit: neighbours, the same randomness, and what differs.

A release function runs twice, on neighbouring data, with one and the same stream of random words. Three things must
hold: the exact value moved by no more than the declared sensitivity, everything that is treated as public is the same,
and both runs took the same path through the code.
"""

from __future__ import annotations

import json
import math
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import discreet
import discreet.mechanisms as m
from discreet.audit.pipeline import Script, scripted
from discreet.audit.release_pipelines import LETTERS, NUMBERS, statistics
from discreet.audit.report import Audit
from discreet.audit.statistical import no_collection
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import PureDP
from discreet.core.noise.sampler import SYSTEM_ENTROPY, SystemEntropy
from discreet.core.protection import Neighbours
from discreet.core.schema import Bounds
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms.mechanism import Mechanism
from discreet.mechanisms.omission.step import AbsoluteDistance, DiscreteDistance, Distance, EuclideanDistance
from discreet.questions.clusters.lloyd import Box, cluster_totals
from discreet.questions.mode import Mode
from discreet.questions.quantile import Quantiles
from discreet.results.ledger import Ledger
from discreet.results.release import release

# ---- Neighbour search: inputs on which a statistic moves most.
#
# First from structure: records at the bounds, ties, columns of one value, records just beyond a bound or on either side
# of a censoring boundary, units with the most rows, units alone in their group. Then by random search from the worst of
# these.


Pair = tuple[Any, Any]
Column = list[Any]
Table = dict[str, list[Any]]


def column_pairs(
    candidates: Sequence[Any], rows: int, neighbours: Neighbours, *, random: int = 8, seed: int = 1
) -> Iterator[Pair]:
    """Neighbouring columns of about ``rows`` records, each record one of the candidates.

    Examples
    --------
    >>> len(list(column_pairs([0, 1], 3, Neighbours.ADD_REMOVE, random=0)))
    10
    """
    for column in _columns(candidates, rows, random, np.random.default_rng(seed)):
        for record in candidates:
            if neighbours is Neighbours.ADD_REMOVE:
                yield column, [*column, record]
            elif column[-1] != record:
                yield column, [*column[:-1], record]


def _columns(candidates: Sequence[Any], rows: int, random: int, rng: np.random.Generator) -> Iterator[Column]:
    first, last = candidates[0], candidates[-1]
    yield from ([one] * rows for one in candidates)  # ties
    yield [first] * (rows // 2) + [last] * (rows - rows // 2)
    yield [first] * (rows - 1) + [last]
    yield [last] * (rows - 1) + [first]
    for _ in range(random):
        yield [candidates[i] for i in rng.integers(0, len(candidates), rows)]


def numeric_candidates(low: float, high: float, boundaries: Sequence[float] = ()) -> list[float]:
    """Ends, middle, and values just on either side of every end and boundary."""
    places = [low, *boundaries, high]
    around = [
        side for place in places for side in (math.nextafter(place, -math.inf), place, math.nextafter(place, math.inf))
    ]
    beyond = [low - (high - low), high + (high - low)]
    return [low, *sorted({(low + high) / 2, *around, *beyond} - {low, high}), high]


def unit_pairs(table: Mapping[str, Sequence[Any]], unit: str, extremes: Mapping[str, Sequence[Any]]) -> Iterator[Pair]:
    """Tables with and without one unit.

    Parameters
    ----------
    table
        Columns of the data.
    unit
        The column that names units.
    extremes
        For the other columns: values at the ends of what is allowed, and beyond.
    """
    rows: Table = {name: list(values) for name, values in table.items()}
    sizes = Counter(rows[unit]).most_common()
    for name in {sizes[0][0], sizes[-1][0], *_alone(rows, unit)}:
        yield rows, _without(rows, unit, name)
    newcomer = "newcomer" if isinstance(rows[unit][0], str) else max(rows[unit]) + 1
    for count in (1, 3, 12):
        for place in (*range(max(len(values) for values in extremes.values())), None):
            yield rows, _with(rows, unit, newcomer, extremes, count, place)


def _alone(rows: Table, unit: str) -> list[Any]:
    """A unit that has some value of another column to itself: without it that group is empty."""
    for name, values in rows.items():
        if name == unit:
            continue
        owners: dict[Any, set[Any]] = {}
        for value, owner in zip(values, rows[unit], strict=True):
            owners.setdefault(value, set()).add(owner)
        single = [next(iter(who)) for who in owners.values() if len(who) == 1]
        if single:
            return single[:1]
    return []


def _without(rows: Table, unit: str, name: Any) -> Table:
    keep = [place for place, owner in enumerate(rows[unit]) if owner != name]
    return {column: [values[place] for place in keep] for column, values in rows.items()}


def _with(
    rows: Table, unit: str, name: Any, extremes: Mapping[str, Sequence[Any]], count: int, place: int | None
) -> Table:
    """A unit more, with so many rows: all alike, or (None) taking turns through the extremes."""
    turns = [row if place is None else place for row in range(count)]
    added = {column: [values[turn % len(values)] for turn in turns] for column, values in extremes.items()}
    return {
        column: [*values, *(added[column] if column != unit else [name] * count)] for column, values in rows.items()
    }


# ---- Replay audit: neighbours, the same randomness, and what differs.


_ROOM = str(Path(discreet.__file__).parent)

Changes = Callable[[Exact, Exact], list[Fraction] | None]


def coordinate_changes(first: Exact, second: Exact) -> list[Fraction] | None:
    """Absolute change of every coordinate, exactly; None where the two values have unlike shapes."""
    here, there = (np.asarray(exact.value, dtype=object) for exact in (first, second))
    if here.shape != there.shape:
        return None
    return [abs(Fraction(a) - Fraction(b)) for a, b in zip(here.ravel(), there.ravel(), strict=True)]


def audit_replay(
    measure: Callable[[Any], Exact],
    pairs: Iterable[tuple[Any, Any]],
    *,
    draw: Callable[[Exact], Any] | None = None,
    changes: Changes = coordinate_changes,
    traced: int = 3,
) -> Audit:
    """Measure neighbours and compare.

    Parameters
    ----------
    measure
        From data to `Exact`.
    pairs
        Neighbouring data sets.
    draw
        From `Exact` to an output. It is traced on both sides with the same random words; its path must be the same.
    changes
        How far apart two exact values are, where that is not the change of their coordinates.
    traced
        How many of the pairs to draw from; tracing is slow.

    Examples
    --------
    >>> from discreet import Neighbours
    >>> from discreet.questions import Sum
    >>> total = Sum(bounds=(0, 10))
    >>> audit_replay(lambda rows: total.exact(rows, neighbours=Neighbours.ADD_REMOVE), [([1, 10], [1])]).passed
    True
    """
    l1 = l2 = 0.0
    sensitivity: Sensitivity | None = None
    within, public, path, count = True, True, True, 0
    for here, there in pairs:
        first, second = measure(here), measure(there)
        moved = changes(first, second)
        sensitivity = first.sensitivity
        public = public and moved is not None and _public_facts(first) == _public_facts(second)
        if moved is None:
            within, l1, l2 = False, np.inf, np.inf
        else:
            squares = sum((change**2 for change in moved), Fraction(0))
            l1, l2 = max(l1, float(sum(moved, Fraction(0)))), max(l2, float(squares) ** 0.5)
            within = within and _within(moved, squares, sensitivity)
        if draw is not None and count < traced:
            path = path and _same_path(draw, first, second, count)
        count += 1
    if sensitivity is None:
        raise InvalidParameter("pairs", "none", "there must be one at least", "Pass pairs of neighbours.")
    wrong = {
        "an exact value moves further than declared": within,
        "public facts differ between neighbours": public,
        "neighbours take different paths": path,
    }
    declared = sensitivity.l1, sensitivity.require_l2()
    reached = l2 / declared[1] if declared[0] is None else l1 / declared[0]
    claimed = f"ℓ₂ {declared[1]:.6g}" if declared[0] is None else f"ℓ₁ {declared[0]:.6g}"
    found = f"ℓ₂ {l2:.6g}" if declared[0] is None else f"ℓ₁ {l1:.6g}"
    measured = {
        "declared_l1": declared[0], "measured_l1": l1, "declared_l2": declared[1], "measured_l2": l2, "within": within,
        "same_public": public, "same_path": path, "pairs": count,
    }  # fmt: skip
    findings = tuple(words for words, right in wrong.items() if not right)
    return Audit("replay", "neighbours", claimed, found, findings, reached, measured)


def _within(moved: list[Fraction], squares: Fraction, declared: Sensitivity) -> bool:
    """True where a change is no more than declared, without any rounding."""
    if declared.l1 is not None and sum(moved, Fraction(0)) > Fraction(declared.l1):
        return False
    if squares > Fraction(declared.require_l2()) ** 2:
        return False
    if declared.moves is None:
        return True
    largest = sorted((change for change in moved if change), reverse=True)
    fits = zip(largest, declared.moves, strict=False)
    return len(largest) <= len(declared.moves) and all(change <= Fraction(move) for change, move in fits)


def _public_facts(exact: Exact) -> str:
    """The facts that a release of this value would show besides the value."""
    statistic = None if exact.statistic is None else exact.statistic.to_dict()
    facts = [exact.sensitivity.to_dict(), exact.neighbours.value, exact.unit, statistic, dict(exact.public)]
    return json.dumps(facts, sort_keys=True, default=str)


def _same_path(draw: Callable[[Exact], Any], first: Exact, second: Exact, seed: int) -> bool:
    paths = []
    draw(first)  # what is imported or computed once per process is no part of the path
    for exact in (first, second):
        with same_randomness(seed):
            paths.append(path_taken(lambda: draw(exact)))  # noqa: B023
    return paths[0] == paths[1]


@contextmanager
def same_randomness(seed: int) -> Iterator[None]:
    """Let this thread's exact samplers read a repeatable stream of words; other threads keep real entropy."""
    stream = np.random.default_rng(seed)
    audited = threading.get_ident()

    def words(count: int) -> Any:
        if threading.get_ident() != audited:
            return SystemEntropy.words(SYSTEM_ENTROPY, count)
        return stream.integers(0, 2**64, count, dtype=np.uint64)

    SYSTEM_ENTROPY.words = words  # type: ignore[method-assign]
    try:
        yield
    finally:
        del SYSTEM_ENTROPY.words


def path_taken(call: Callable[[], Any]) -> frozenset[tuple[str, int, int]]:
    """The steps from line to line of discreet that a call takes; how often a loop runs does not count."""
    steps: set[tuple[str, int, int]] = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(_ROOM):
            return None
        previous = 0

        def line(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal previous
            if event == "line" and previous != frame.f_lineno:
                steps.add((frame.f_code.co_filename, previous, frame.f_lineno))
                previous = frame.f_lineno
            return line

        return line

    before = sys.gettrace()
    with no_collection():
        sys.settrace(trace)
        try:
            call()
        finally:
            sys.settrace(before)
    return frozenset(steps)


# ---- Replay cases: every public way to measure, on neighbours proposed from its structure and by random search


ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
_ROWS = 5


@dataclass(frozen=True)
class ReplayCase:
    """A way to measure, with neighbours.

    Attributes
    ----------
    name
        What is measured, under which neighbours.
    measure
        From data to `Exact`.
    pairs
        Makes neighbouring data sets.
    mechanism
        Protects the value, so that the path of a whole release can be compared.
    changes
        How far apart two values are, where that is not the change of their coordinates.
    """

    name: str
    measure: Callable[[Any], Exact]
    pairs: Callable[[], Iterator[Pair]]
    mechanism: Callable[[Exact], Mechanism]
    changes: Callable[[Exact, Exact], list[Fraction] | None] = coordinate_changes

    def audit(self, pairs: int) -> Audit:
        """Replay at most so many pairs."""

        def draw(exact: Exact) -> Any:
            budget = PureDP(100.0)
            ledger = Ledger(":memory:", budget, neighbours=exact.neighbours, unit=exact.unit)
            return release(exact, self.mechanism(exact), ledger=ledger)

        found = audit_replay(self.measure, islice(self.pairs(), pairs), draw=draw, changes=self.changes)
        return found.called(self.name)


def replay_cases() -> Iterator[ReplayCase]:
    """Every statistic under both neighbour relations where it has both, and a step of clustering; the pipeline audit
    replays sessions, models and comparisons.
    """
    for neighbours in (ADD, REPLACE):
        for statistic, records, prepare in statistics(neighbours):
            yield _case(statistic, neighbours, records, prepare)
        yield _case(Mode(categories=LETTERS), neighbours, list(LETTERS), lambda rows: rows)
        yield _quantile(neighbours)
    yield _lloyd()


def _laplace(exact: Exact) -> Mechanism:
    return m.Laplace.calibrate(PureDP(1.0), exact.sensitivity)


def _case(statistic: Any, neighbours: Neighbours, records: list[Any], prepare: Callable[[Any], Any]) -> ReplayCase:
    mechanism: Callable[[Exact], Mechanism] = _laplace
    if isinstance(statistic, Mode):
        mechanism = lambda exact: m.ExponentialMechanism.calibrate(PureDP(1.0), exact.sensitivity)  # noqa: E731
    # Numbers just on either side of each bound, where rounding decides what is clipped.
    candidates = numeric_candidates(1.0, 3.0, (2.5,)) if records is NUMBERS else records

    def measure(rows: Any) -> Exact:
        exact: Exact = statistic.exact(prepare(rows), neighbours=neighbours)
        return exact

    name = f"{statistic.name}, {neighbours.value.replace('_', '/')}"
    return ReplayCase(name, measure, lambda: column_pairs(candidates, _ROWS, neighbours), mechanism)


def _quantile(neighbours: Neighbours) -> ReplayCase:
    """The rank distance of every grid point, which must not move by more than declared."""
    statistic = Quantiles(probabilities=0.3, bounds=Bounds(0, 6, grid=1))
    declared = statistic.sensitivity(neighbours=neighbours)
    unit = m.QuantileChoice.calibrate(PureDP(1.0), declared, statistic=statistic)

    def changes(first: Exact, second: Exact) -> list[Fraction] | None:
        here, there = (_ranks_apart(np.asarray(exact.value), 0, 6, Fraction(3, 10)) for exact in (first, second))
        return [max(abs(a - b) for a, b in zip(here, there, strict=True))]

    return ReplayCase(
        f"quantiles, {neighbours.value.replace('_', '/')}",
        lambda rows: statistic.exact(rows, neighbours=neighbours),
        lambda: column_pairs([0, 2, 3, 6, 9, -1], _ROWS, neighbours),
        lambda exact: unit,
        changes,
    )


def _ranks_apart(histogram: Any, lowest: int, highest: int, share: Fraction) -> list[Fraction]:
    """The ranks between every grid point and the target: written down again from the definition."""
    steps, counts = histogram
    target = share * int(counts.sum())
    found = []
    for point in range(lowest, highest + 1):
        below = int(counts[steps < point].sum()) if point > lowest else min(0, int(target))
        upto = int(counts[steps <= point].sum()) if point < highest else max(int(counts.sum()), int(target) + 1)
        found.append(max(Fraction(0), below - target, target - upto))
    return found


def _lloyd() -> ReplayCase:
    """One iteration of DPLloyd: sums and counts of all clusters around public centres."""
    box = Box(((0, 1), (0, 1)))
    centres = np.array([[-0.5, -0.5], [0.5, 0.5]])

    def measure(rows: Any) -> Exact:
        sums, counts = cluster_totals(box.cells(np.array(rows)), centres)
        value = np.concatenate([np.ravel(sums), np.ravel(counts)])
        return Exact(value, Sensitivity(moves=(1.0, 1.0, 1.0)))

    corners = [(a, b) for a in (0.0, 0.5, 1.0, 7.0) for b in (0.0, 0.4999, 1.0)]
    return ReplayCase("one step of DPLloyd", measure, lambda: column_pairs(corners, _ROWS, ADD), _laplace)


# ---- Deletions: the probability with which outlier suppression deletes a row, beside its definition in plain Python.
#
# The theorem behind suppression is far from tight, so a distance that is scaled by the data, and not by public bounds,
# may lose less than what is charged on every small table. It is wrong all the same, and shows here at once.


Apart = Callable[[Any, Any], float]


def audit_deletions(tables: int = 30, *, seed: int = 1) -> Audit:
    """Compare m + (M − m)·(mean distance to all rows) with the probabilities that the step really uses.

    Examples
    --------
    >>> audit_deletions(tables=3).passed
    True
    """
    rng = np.random.default_rng(seed)
    rows = 0
    findings = dict[str, None]()
    for distance, apart, made in _distances():
        for _ in range(tables):
            data = made(rng, int(rng.integers(1, 7)))
            step = m.OutlierSuppression(0.3, 0.6, distance)
            found = _chances(step, data)
            wanted = [1 - 0.3 - 0.3 * math.fsum(apart(one, other) for other in data) / len(data) for one in data]
            rows += len(data)
            if not np.allclose(found, wanted, rtol=0, atol=1e-9):
                findings[f"{distance.name}: rows are kept with another probability than the definition's"] = None
    words = "differs" if findings else "the same"
    return Audit("replay", f"deletion of {rows:,} rows", "the definition", words, tuple(findings))


def _chances(step: m.OutlierSuppression, data: Sequence[Any]) -> list[float]:
    """The probabilities of keeping that reach the door through which rows are chosen."""
    seen: list[float] = []

    class Seen(Script):
        def keep(self, chances: Any) -> Any:
            seen.extend(1 - np.asarray(chances))
            return np.ones(len(chances), dtype=bool)

    with scripted(Seen()):
        step.kept(data)
    return seen


def _distances() -> Iterator[tuple[Distance, Apart, Callable[[np.random.Generator, int], Sequence[Any]]]]:
    low, high = -3.0, 7.0

    def clamped(value: float) -> float:
        return min(max(value, low), high)

    yield (
        AbsoluteDistance((low, high)),
        lambda one, other: abs(clamped(one) - clamped(other)) / (high - low),
        lambda rng, n: rng.choice([-9.0, -3.0, 0.0, 1.0, 6.5, 99.0], n).tolist(),
    )
    yield (
        DiscreteDistance(),
        lambda one, other: float(one != other),
        lambda rng, n: rng.choice(["a", "b", "c"], n).tolist(),
    )
    yield (
        EuclideanDistance(((0.0, 2.0), (0.0, 2.0))),
        lambda one, other: math.dist(one, other) / math.dist((0.0, 0.0), (2.0, 2.0)),
        lambda rng, n: rng.choice([0.0, 0.5, 2.0], (n, 2)).tolist(),
    )
