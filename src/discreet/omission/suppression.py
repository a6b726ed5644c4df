"""The suppression theorem, evaluated on finite universes for any suppression algorithm.

miranda2026 bounds the guarantee of M∘S for an arbitrary algorithm S that deletes records, by a maximum over all
neighbouring data sets and all subsets that S may leave (Theorem 5.3, whose statement misses a logarithm, and
B.6). The maximum is taken here by enumeration with exact probabilities, so keep universes small: the work grows
like (number of data sets) × 2^(records).

A data set is a tuple of records; an algorithm maps it to the probability of each set of *kept positions*, so that
equal records stay distinct.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement

from flint import arb

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.guarantee import ApproxDP, Guarantee, PureDP
from discreet.core.rounding import ball, decimal, precisely, up

__all__ = [
    "Algorithm",
    "independent_deletion",
    "suppression",
    "suppressor_sensitivity",
]

Database = tuple[Hashable, ...]
Kept = frozenset[int]
Algorithm = Callable[[Database], Mapping[Kept, Fraction | float]]
"""Data set → probability of each set of kept positions."""


def independent_deletion(deletion: Callable[[Database], Sequence[Fraction | float]]) -> Algorithm:
    """The algorithm that deletes each record independently, with the probabilities ``deletion(data)`` gives."""

    def algorithm(data: Database) -> dict[Kept, Fraction]:
        law: dict[Kept, Fraction] = {frozenset(): Fraction(1)}
        for position, probability in enumerate(deletion(data)):
            gone = Fraction(probability)
            law = {
                kept | extra: weight * share
                for kept, weight in law.items()
                for extra, share in ((frozenset[int](), gone), (frozenset({position}), 1 - gone))
                if share > 0
            }
        return law

    return algorithm


def suppression(guarantee: Guarantee, algorithm: Algorithm, universe: Iterable[Hashable], largest: int) -> Guarantee:
    """The guarantee of M∘S over all data sets of at most ``largest`` records (Theorems 5.3 and B.6).

    Parameters
    ----------
    guarantee
        `PureDP` or `ApproxDP` of the mechanism, between add/remove neighbours.
    algorithm
        The suppression algorithm.
    universe
        Possible records.
    largest
        Largest number of records.

    Guarantee
    ---------
    (ε^S, δ^S)-DP between add/remove neighbours **within the enumerated data sets**, for every mechanism M with
    the given guarantee. Where an output is possible on one side only, it is assigned to the nearest subset that
    both sides can leave (Theorem B.6), at the price of group privacy.

    Examples
    --------
    >>> half = independent_deletion(lambda data: [Fraction(1, 2)] * len(data))
    >>> round(suppression(PureDP(1.0), half, universe=["a", "b"], largest=3).epsilon, 6)
    0.620115
    """
    stated: PureDP | ApproxDP = requirements.instance("guarantee", guarantee, (PureDP, ApproxDP), "PureDP(1.0)")
    delta = stated.delta if isinstance(stated, ApproxDP) else 0.0
    with precisely():
        step = ball(decimal(stated.epsilon))
        worst_ratio, worst_delta = arb(1), arb(0)
        for data, record in _pairs(universe, largest):
            pair = _Pair(algorithm, data, record, step)
            for ratio, share in (pair.forward(), pair.backward()):
                worst_ratio, worst_delta = worst_ratio.max(ratio), worst_delta.max(share)
        epsilon = max(0.0, up(worst_ratio.log()))
        raised = up(worst_delta * ball(decimal(delta)))
    if isinstance(guarantee, PureDP):
        return PureDP(epsilon)
    if raised >= 1:
        raise NoConversion(f"{guarantee} gives no guarantee behind this algorithm: δ would reach 1. Lower epsilon.")
    return ApproxDP(epsilon, raised)


def _pairs(universe: Iterable[Hashable], largest: int) -> Iterator[tuple[Database, Hashable]]:
    records = tuple(dict.fromkeys(universe))
    if not records:
        raise InvalidParameter("universe", records, "must not be empty", "Pass the possible records.")
    for size in range(requirements.positive_integer("largest", largest)):
        for data in combinations_with_replacement(records, size):
            for record in records:
                yield data, record


def _geometric(step: arb, terms: int) -> arb:
    """Σ_{k < terms} e^{kε}: the factor of δ for a group of that many records."""
    return sum(((step * k).exp() for k in range(terms)), arb(0))


class _Pair:
    """One pair D, D + y: the two directions of the theorem."""

    def __init__(self, algorithm: Algorithm, data: Database, record: Hashable, step: arb) -> None:
        self.step = step
        self.small = _checked(algorithm(data), len(data))
        large = _checked(algorithm((*data, record)), len(data) + 1)
        last = len(data)
        self.without = {kept: weight for kept, weight in large.items() if last not in kept}
        self.with_record = {kept - {last}: weight for kept, weight in large.items() if last in kept}
        self.reachable = sorted({*self.without, *self.with_record}, key=sorted)

    def _assign(self, source: Iterable[Kept], target: Sequence[Kept]) -> dict[Kept, list[Kept]]:
        """Identity where possible, else the nearest subset: fibres of the assignment."""
        fibres: dict[Kept, list[Kept]] = {kept: [] for kept in target}
        for kept in source:
            image = kept if kept in fibres else min(target, key=lambda other: (len(other ^ kept), sorted(other)))
            fibres[image].append(kept)
        return fibres

    def forward(self) -> tuple[arb, arb]:
        """(e^ε, δ/δ_M) that bound M(S(D)) by M(S(D + y))."""
        ratio, share = arb(0), arb(0)
        for kept, fibre in self._assign(self.small, self.reachable).items():
            added = ball(self.with_record.get(kept, Fraction(0))) * (-self.step).exp()
            base = ball(self.without.get(kept, Fraction(0))) + added
            weight, group = arb(0), arb(0)
            for other in fibre:
                distance = len(kept ^ other)
                weight += (self.step * distance).exp() * ball(self.small[other])
                group += ball(self.small[other]) * _geometric(self.step, distance)
            ratio = ratio.max(weight / base)
            share += added / base * weight + group
        return ratio, share

    def backward(self) -> tuple[arb, arb]:
        """(e^ε, δ/δ_M) that bound M(S(D + y)) by M(S(D))."""
        ratio, share = arb(0), arb(0)
        for kept, fibre in self._assign(self.reachable, sorted(self.small, key=sorted)).items():
            weight = arb(0)
            for other in fibre:
                distance = len(kept ^ other)
                absent = ball(self.without.get(other, Fraction(0)))
                present = ball(self.with_record.get(other, Fraction(0)))
                weight += (self.step * distance).exp() * (absent + self.step.exp() * present)
                share += absent * _geometric(self.step, distance) + present * _geometric(self.step, distance + 1)
            ratio = ratio.max(weight / ball(self.small[kept]))
        return ratio, share


def _checked(law: Mapping[Kept, Fraction | float], size: int) -> dict[Kept, Fraction]:
    """Exact probabilities of the possible outcomes; refuses laws that are not laws on subsets."""
    exact = {frozenset(kept): Fraction(weight) for kept, weight in law.items() if weight > 0}
    total = sum(exact.values(), Fraction(0))
    if abs(total - 1) > Fraction(1, 10**9) or any(weight < 0 for weight in law.values()):
        raise InvalidParameter(
            "algorithm", float(total), "must return probabilities that add up to 1", "Divide by their sum."
        )
    if any(not 0 <= position < size for kept in exact for position in kept):
        raise InvalidParameter(
            "algorithm", sorted(map(sorted, exact)), "keeps positions beyond the data", "Count from 0."
        )
    return exact


def suppressor_sensitivity(
    suppressor: Callable[[Database], Iterable[int]], universe: Iterable[Hashable], largest: int
) -> int:
    """The sensitivity of a deterministic suppressor on small data sets (miranda2026, Theorem 5.1).

    Parameters
    ----------
    suppressor
        Maps a data set to the kept positions.
    universe, largest
        Possible records and the largest number of them.

    Returns
    -------
    int
        The largest number of neighbouring steps between S(D) and S(D + y), walking only through data sets that
        are contained in some output of S. It is a lower bound of the sensitivity over larger data sets: one
        that grows with ``largest`` points to an unbounded one.

    Examples
    --------
    >>> below_two = lambda data: [i for i, x in enumerate(data) if x < 2]
    >>> suppressor_sensitivity(below_two, universe=[0, 1, 2, 3], largest=4)
    1
    """
    records = tuple(dict.fromkeys(universe))
    results: dict[Database, Database] = {}
    for size in range(requirements.positive_integer("largest", largest) + 1):
        for data in combinations_with_replacement(records, size):
            kept = sorted(set(suppressor(data)))
            results[data] = tuple(sorted((data[i] for i in kept), key=records.index))
    allowed = _closed_downwards(set(results.values()))
    worst = 0
    for data, record in _pairs(records, largest):
        grown = tuple(sorted((*data, record), key=records.index))
        worst = max(worst, _steps(results[data], results[grown], allowed, records))
    return worst


def _closed_downwards(databases: set[Database]) -> set[Database]:
    waiting, closed = list(databases), set(databases)
    while waiting:
        data = waiting.pop()
        for position in range(len(data)):
            smaller = data[:position] + data[position + 1 :]
            if smaller not in closed:
                closed.add(smaller)
                waiting.append(smaller)
    return closed


def _steps(start: Database, goal: Database, allowed: set[Database], records: Sequence[Hashable]) -> int:
    """Length of the shortest walk by adding and removing single records."""
    queue, seen = deque([(start, 0)]), {start}
    while queue:
        data, steps = queue.popleft()
        if data == goal:
            return steps
        smaller = (data[:position] + data[position + 1 :] for position in range(len(data)))
        larger = (tuple(sorted((*data, record), key=records.index)) for record in records)
        for other in (*smaller, *larger):
            if other in allowed and other not in seen:
                seen.add(other)
                queue.append((other, steps + 1))
    raise InvalidParameter("suppressor", start, "leaves data sets that are not connected", "Allow steps of one record.")
