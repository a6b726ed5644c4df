"""Clipped: which share of a column's values lies beyond its bounds, told beside what is read of clipped values.

A question that clips values spends a little of its guarantee on the numbers of values below, within and above the
bounds of each of its columns. Proof: ``docs/proofs/sensitivities.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from discreet.core import requirements
from discreet.core.door import Allowance, Claim, Step
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import ApproxDP, Guarantee, PureDP
from discreet.core.ledger.account import Account
from discreet.core.numbers import not_below
from discreet.core.protection import Neighbours
from discreet.core.rows import Snapshot, usable_totals
from discreet.core.rows.keep import WHOLE
from discreet.core.schema import Bounds, Contribution, in_parts
from discreet.core.sensitivity import Sensitivity, root_up
from discreet.inference.noise import combined_error, ratio_interval
from discreet.mechanisms.additive import additive_noise
from discreet.mechanisms.composition import compose
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace
from discreet.mechanisms.mechanism import mechanism_of
from discreet.results.display import in_a_row

_TOLD: Mapping[bool, tuple[float, tuple[float, float]]] = {True: (1.1, (10.0, 1.0)), False: (1.02, (1.0, 0.0404))}
"""Under ε, and under ρ and μ, where less is enough: how much larger other noise becomes, and the split of a guarantee.
Noise falls with ε, and with the root of what adds up for ρ and μ."""


def percent(given: Any) -> str:
    """A share in per cent, to two digits where it is small."""
    share = float(given)
    return f"{100 * share:.0f}" if share > 0.1 or share == 0 else f"{100 * share:.2g}"


@dataclass(frozen=True)
class BeyondBounds:
    """The numbers of values below, within and above the bounds of some columns, beside a question.

    Guarantee
    ---------
    A unit adds to a column's three numbers the shares of its rows, rounded down: not negative, and 1 at most in all.

    Examples
    --------
    >>> beside = BeyondBounds(("income",), PureDP(1.1), Neighbours.ADD_REMOVE)
    >>> beside.left, beside.mechanism.scale
    (PureDP(epsilon=1.0), 10.0)
    """

    columns: tuple[str, ...]
    guarantee: Guarantee
    neighbours: Neighbours

    @property
    def _told(self) -> tuple[float, tuple[float, float]]:
        return _TOLD[isinstance(self.guarantee, PureDP | ApproxDP)]

    @cached_property
    def _parts(self) -> tuple[Guarantee, ...]:
        return self.guarantee.split(self._told[1])

    @property
    def left(self) -> Guarantee:
        """The guarantee that is left for the question."""
        return self._parts[0]

    @property
    def sensitivity(self) -> Sensitivity:
        """Of all numbers: a column's three are one group of parts."""
        count = len(self.columns)
        return in_parts(Contribution(groups=count, rows=1), count, 3, self.neighbours)

    @cached_property
    def mechanism(self) -> Laplace | Gaussian:
        """The noise on every number."""
        return additive_noise(self._parts[1], self.sensitivity)

    def claim(self, alone: Claim, question: Mapping[str, Any], ledger: Account | None) -> Claim:
        """The claim of both, from that of the question alone; of two draws in the kind that the ledger counts in."""
        steps, last = [*alone.steps], Step(self.mechanism, self.sensitivity, self._parts[1])
        whole = self.guarantee
        if len(steps) == 1:
            steps = [replace(steps[0], cost=self.left)]
            if ledger is not None and ledger.currency not in (type(whole), ApproxDP) and type(whole) is not ApproxDP:
                costs = [mechanism_of(one).guarantee(one.sensitivity, ledger.currency) for one in (*steps, last)]
                steps, last = [replace(steps[0], cost=costs[0])], replace(last, cost=costs[1])
                whole = compose(*costs)
        told = {"name": "steps", "steps": [dict(alone.mechanism), self.mechanism.to_dict()]}
        return replace(
            alone, guarantee=whole, question=question, mechanism=told, sensitivity=_both(alone.sensitivity, last),
            steps=[*steps, last],
        )  # fmt: skip

    def draw(self, rows: Snapshot, claim: Claim, allowance: Allowance) -> dict[str, Any]:
        """What is told of the rows: shares with 95 % intervals, the numbers below, within and above, and words."""
        _, found = usable_totals(rows, self.columns, self.columns)
        count = len(self.columns)
        places = [place for j in range(count) for place in (count + 2 * j, j, count + 2 * j + 1)]
        exact = np.array([Fraction(found[place], WHOLE) for place in places], dtype=object)
        drawn = np.ravel(allowance.draw(claim.steps[-1], exact)).tolist()
        each = {name: drawn[3 * j : 3 * j + 3] for j, name in enumerate(self.columns)}
        shares = {
            name: {side: _shares(three, self.mechanism, at) for side, at in (("below", 0), ("above", 2))}
            for name, three in each.items()
        }
        kept = {"shares": shares, "value": drawn, "mechanism": self.mechanism.to_dict()}
        return {"beyond": kept, "clipped": _words(shares)}

    def note(self, rows: float) -> str:
        """What a plan says of it, for so many rows."""
        error, price = percent(combined_error(self.mechanism, [1.0], 0.95) / rows), percent(self._told[0] - 1)
        told = f"which share of {in_a_row(self.columns)} lies beyond the bounds (± {error} % of {rows:,.0f} rows)"
        return f"beyond=False leaves out {told}, and {price} % more noise"


def _both(first: Sensitivity, last: Step) -> Sensitivity:
    """How far a unit moves what both draws are of."""
    more = last.sensitivity
    l1 = None if first.l1 is None else not_below(Fraction(first.l1) + Fraction(more.require_l1()))
    return Sensitivity(l1=l1, l2=root_up(Fraction(first.require_l2()) ** 2 + Fraction(more.require_l2()) ** 2))


def told_beside(question: Any) -> BeyondBounds | None:
    """What a question tells of values beyond bounds: by default where that costs little, or the bounds are private."""
    asked = getattr(question, "beyond", False)
    if asked is not None and not requirements.instance("beyond", asked, bool, "beyond=True or False"):
        return None
    schema, pure = question.schema, isinstance(question.guarantee, PureDP | ApproxDP)
    named = {name: schema.columns.get(name) for name in question.columns_read()}
    numbers = {name: one for name, one in named.items() if isinstance(one, Bounds) and (asked or one.cells > 2)}
    able = bool(numbers) and question.omit is None and schema.design is None
    if asked and not able:
        rule = "needs a number, without omit and without a design"
        raise InvalidParameter("beyond", True, rule, "Leave beyond out, or ask for usable_values(sides=True).")
    if asked is None and (not able or (pure and not any(one.private for one in numbers.values()))):
        return None
    return BeyondBounds(tuple(numbers), question.guarantee, schema.neighbours)


def _shares(numbers: Any, mechanism: Laplace | Gaussian, at: int, level: float = 0.95) -> dict[str, float]:
    """The share of one of three numbers in their sum, with the ends of an interval for the data."""

    def weights(theta: Any) -> Any:
        return np.stack([float(place == at) - np.asarray(theta) for place in range(3)])

    # No number of values is below 0: to say so brings it nearer to what any share would be, and widens the interval.
    total, found = float(np.sum(numbers)), max(numbers[at], 0.0)
    low, high = ratio_interval((found, total), mechanism, (0.0, 1.0), 0.0, 1.0, level, weights)
    return {"share": min(max(found / max(total, 1.0), low), high), "low": float(low), "high": float(high)}


def _words(shares: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    def told(one: Mapping[str, float]) -> str:
        return f"{percent(one['share'])} % ({percent(one['low'])} to {percent(one['high'])} %)"

    return "; ".join(
        f"{told(one['above'])} of {name} lie above its bounds, {told(one['below'])} below"
        for name, one in shares.items()
    )
