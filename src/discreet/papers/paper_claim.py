"""Claim: a sentence of a paper as data, with the statistic that decides it and the range in which it is true."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from discreet.core.errors import InvalidParameter

__all__ = [
    "Claim", "Decision", "FAILS", "HOLDS", "Measured", "OPEN", "Rows", "VERDICTS", "average", "compared", "least",
    "most", "pick", "size_of", "votes",
]  # fmt: skip


HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot tell at this precision"
VERDICTS = (HOLDS, FAILS, OPEN)
_SURE = 3.0
"""Standard errors of the simulation on either side: a verdict is wrong by chance about once in 700 times."""
_ROUNDING = 1e-12
"""Relative room for floating point where a statistic is exact."""
_ONE_NUMBER = 1e-6
"""A narrower range stands for one number and the rounding around it."""

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Measured:
    """A statistic, and the range in which its true value lies as far as the simulation can tell."""

    value: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> Measured:
        """A statistic without Monte-Carlo error."""
        return cls(float(value), float(value), float(value))

    @classmethod
    def of(cls, value: float, error: float) -> Measured:
        """A statistic with its Monte-Carlo standard error."""
        return cls(float(value), float(value - _SURE * error), float(value + _SURE * error))

    @classmethod
    def proportion(cls, value: float, repeats: int) -> Measured:
        """A proportion of ``repeats`` independent runs, by Wilson's interval."""
        square = _SURE**2
        middle = (value + square / (2 * repeats)) / (1 + square / repeats)
        half = _SURE / (1 + square / repeats) * math.sqrt(value * (1 - value) / repeats + square / (4 * repeats**2))
        low, high = min(middle - half, value), max(middle + half, value)  # rounding must not exclude 0 or 1
        return cls(float(value), max(0.0, low), min(1.0, high))

    def __str__(self) -> str:
        value = _number(self.value)
        if self.low == self.high:
            return value
        return f"{value} ({_number(self.low)} to {_number(self.high)})"


def compared(one: Measured, other: Measured) -> Measured:
    """``one`` minus ``other``, for two measurements from separate or from shared runs: errors are added."""
    return Measured(one.value - other.value, one.low - other.high, one.high - other.low)


def votes(settings: Iterable[Measured], *, low: float = -math.inf, high: float = math.inf) -> Measured:
    """The share of settings whose value lies in [low, high].

    Its range runs from the share of settings that surely do to the share that may.
    """
    all_of_them = list(settings)
    if not all_of_them:
        raise InvalidParameter("settings", [], "must not be empty", "Check which rows the claim selects.")
    inside = sum(low <= one.value <= high for one in all_of_them)
    surely = sum(low <= one.low and one.high <= high for one in all_of_them)
    may = sum(one.high >= low and one.low <= high for one in all_of_them)
    return Measured(inside / len(all_of_them), surely / len(all_of_them), may / len(all_of_them))


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a paper says, and how it is decided.

    Parameters
    ----------
    paper
        The paper's key.
    place
        Section, figure, table or theorem.
    claim
        The paper's words, quoted or fairly shortened.
    statistic
        What is computed, in words.
    measure
        The statistic from the stored rows of ``part``; from nothing where the claim is exact.
    low, high
        The claim is true where the statistic lies in this range: the tolerance.
    part
        The part of the study whose rows decide; None where the claim is computed directly.
    """

    paper: str
    place: str
    claim: str
    statistic: str
    measure: Callable[[Rows], Measured]
    low: float = -math.inf
    high: float = math.inf
    part: str | None = None

    def decide(self, rows: Rows) -> Decision:
        """The verdict from the rows of a full run."""
        return Decision(self, self.measure(rows))

    def needs(self) -> str:
        """The range in which the claim is true, in words."""
        if self.high - self.low < _ONE_NUMBER:
            return f"exactly {_number((self.low + self.high) / 2)}"
        if math.isinf(self.high):
            return f"at least {_number(self.low)}"
        if math.isinf(self.low):
            return f"at most {_number(self.high)}"
        return f"{_number(self.low)} to {_number(self.high)}"


@dataclass(frozen=True)
class Decision:
    """A claim with its measured statistic and the verdict that follows."""

    claim: Claim
    measured: Measured

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`: sure where the whole range of the statistic lies inside, or outside, the claim's."""
        found, room = self.measured, _ROUNDING * abs(self.measured.value)
        if self.claim.low - room <= found.low and found.high <= self.claim.high + room:
            return HOLDS
        if found.high < self.claim.low or found.low > self.claim.high:
            return FAILS
        return OPEN

    def figures(self) -> str:
        """The statistic, what was found and what the claim needs."""
        return f"{self.claim.statistic}: {self.measured}; the claim needs {self.claim.needs()}"

    def to_dict(self) -> dict[str, Any]:
        """The decision as JSON-ready data."""
        return {
            "paper": self.claim.paper,
            "place": self.claim.place,
            "claim": self.claim.claim,
            "verdict": self.verdict,
            "statistic": self.claim.statistic,
            "value": self.measured.value,
            "range": [self.measured.low, self.measured.high],
            "needs": self.claim.needs(),
            "part": self.claim.part,
        }


def _number(value: float) -> str:
    if value and abs(value) < 1e-9:
        return "0"  # what is left of a sum that cancels
    return f"{value:.4g}"


# ---- Stored rows: picking them, and the largest and smallest of what was measured in them


def pick(rows: Rows, **where: Any) -> Rows:
    """Rows whose columns have these values, or one of a tuple of them; there must be some."""

    def fits(row: dict[str, Any]) -> bool:
        return all(row[k] in v if isinstance(v, tuple) else row[k] == v for k, v in where.items())

    found = [row for row in rows if fits(row)]
    if not found:
        raise InvalidParameter("where", where, "selects no stored row", "Check the grid of the study.")
    return found


def most(found: Iterable[Measured]) -> Measured:
    """The largest of some measurements."""
    listed = list(found)
    return Measured(*(max(getattr(one, name) for one in listed) for name in ("value", "low", "high")))


def least(found: Iterable[Measured]) -> Measured:
    """The smallest of some measurements."""
    listed = list(found)
    return Measured(*(min(getattr(one, name) for one in listed) for name in ("value", "low", "high")))


def average(found: Iterable[Measured]) -> Measured:
    """The mean of measurements from separate runs: their errors average out."""
    listed = list(found)
    value = sum(one.value for one in listed) / len(listed)
    below = math.sqrt(sum((one.value - one.low) ** 2 for one in listed)) / len(listed)
    above = math.sqrt(sum((one.high - one.value) ** 2 for one in listed)) / len(listed)
    return Measured(value, value - below, value + above)


def size_of(one: Measured) -> Measured:
    """|x| of a measurement."""
    ends = sorted((abs(one.low), abs(one.high)))
    return Measured(abs(one.value), 0.0 if one.low <= 0 <= one.high else ends[0], ends[1])
