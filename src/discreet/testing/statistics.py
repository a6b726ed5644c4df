"""Conformance of a statistic: its declared sensitivity and domain against every small data set."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from discreet.contract.statistic import statistic_from_dict
from discreet.core import requirements
from discreet.core.protection import Neighbours
from discreet.questions.bounded import BoundedStatistic
from discreet.testing.conformance import NotConformant

__all__ = ["check_statistic", "worst_change"]

Value = Callable[[tuple[Any, ...]], Any]


def _coordinates(value: Any) -> list[Fraction]:
    return [Fraction(one) for one in np.atleast_1d(np.asarray(value, dtype=object))]


def _distance(first: Any, second: Any) -> Fraction:
    pairs = zip(_coordinates(first), _coordinates(second), strict=True)
    return sum((abs(a - b) for a, b in pairs), Fraction(0))


def worst_change(value: Value, records: Iterable[Any], *, n: int, neighbours: Neighbours) -> Fraction:
    """The largest ℓ₁ change of ``value`` over all data sets of n records and their neighbours, exactly.

    Data sets are multisets: ``value`` must not depend on the order of the records. Under add/remove the neighbours of
    n records have n − 1 and n + 1.
    """
    universe = list(records)
    known: dict[tuple[int, ...], Any] = {}

    def of(indices: tuple[int, ...]) -> Any:
        key = tuple(sorted(indices))
        if key not in known:
            known[key] = value(tuple(universe[index] for index in key))
        return known[key]

    worst = Fraction(0)
    every = range(len(universe))
    for rest in combinations_with_replacement(every, requirements.positive_integer("n", n) - 1):
        values = [of((*rest, index)) for index in every]
        if neighbours is Neighbours.REPLACE_ONE:
            worst = max(worst, *(_distance(a, b) for a in values for b in values))
            continue
        worst = max(worst, *(_distance(a, of(rest)) for a in values))
        for index, a in zip(every, values, strict=True):
            worst = max(worst, *(_distance(a, of((*rest, index, more))) for more in every))
    return worst


def check_statistic(
    statistic: BoundedStatistic,
    records: Iterable[Any],
    *,
    n: int,
    neighbours: Neighbours,
    data: Value | None = None,
    tight: float | None = 0.99,
) -> float:
    """Check a statistic against brute force over a small universe of records.

    Parameters
    ----------
    statistic
        What to check.
    records
        The universe: every record that a row may be. Its extremes should be in it.
    n
        Number of rows of the data sets.
    neighbours
        The neighbour relation.
    data
        How the statistic takes a tuple of records; a list of them by default.
    tight
        Least share of the declared sensitivity that some neighbours must reach; None does not ask for it.

    Returns
    -------
    float
        The worst change as a share of the declared sensitivity.

    Raises
    ------
    NotConformant
        If neighbours differ by more than declared, a value leaves its domain, the claim is not tight, or the
        description is not read back.

    Examples
    --------
    >>> from discreet import Mean
    >>> check_statistic(Mean(bounds=(0, 1)), [0.0, 0.5, 1.0], n=4, neighbours=Neighbours.REPLACE_ONE)
    1.0
    """
    form: Value = list if data is None else data
    universe = list(records)
    if statistic_from_dict(statistic.to_dict()) != statistic:
        raise NotConformant(f"{statistic.name} is not read back from its own description")
    low, high = (np.atleast_1d(np.asarray(end, dtype=float)) for end in statistic.domain(n))
    for rows in combinations_with_replacement(universe, n):
        value = np.array([float(one) for one in _coordinates(statistic.value(form(rows)))])
        if not (np.all(value >= low - 1e-12) and np.all(value <= high + 1e-12)):
            raise NotConformant(f"{statistic.name} leaves its domain")
    declared = Fraction(statistic.sensitivity(n=n, neighbours=neighbours).require_l1())
    worst = worst_change(lambda rows: statistic.value(form(rows)), universe, n=n, neighbours=neighbours)
    if worst > declared:
        raise NotConformant(f"{statistic.name} moves by {float(worst)}, more than the declared {float(declared)}")
    share = float(worst / declared)
    if tight is not None and share < tight:
        raise NotConformant(f"{statistic.name} reaches only {share:.3f} of its declared sensitivity")
    return share
