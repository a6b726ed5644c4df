"""Interval: two ends and a confidence level, as inference returns them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.core.noise.truth import Floats
from discreet.display import Facts, number
from discreet.result import Result

__all__ = ["Interval"]


@dataclass(frozen=True)
class Interval(Result):
    """An interval, or an array of them, with its confidence level.

    Examples
    --------
    >>> low, high = Interval(1.0, 2.0, 0.95)
    >>> Interval(1.0, 2.0, 0.95).contains(1.5)
    True
    """

    low: Floats
    high: Floats
    level: float

    def __post_init__(self) -> None:
        for end in ("low", "high"):
            value = getattr(self, end)
            object.__setattr__(self, end, float(value) if np.ndim(value) == 0 else np.asarray(value))

    def __iter__(self) -> Iterator[Floats]:
        return iter((self.low, self.high))

    @property
    def width(self) -> Floats:
        """Upper minus lower end."""
        return self.high - self.low

    def contains(self, value: Any) -> Any:
        """Whether ``value`` lies inside, ends included; element by element for arrays."""
        inside = (np.asarray(value) >= self.low) & (np.asarray(value) <= self.high)
        return bool(inside) if np.ndim(inside) == 0 else inside

    def heading(self) -> str:
        return "Interval"

    def facts(self) -> Facts:
        return [("from", number(self.low)), ("to", number(self.high)), ("level", f"{100 * self.level:g} %")]

    def to_dict(self) -> dict[str, Any]:
        """Ends and level as JSON-ready data."""
        return {"low": np.asarray(self.low).tolist(), "high": np.asarray(self.high).tolist(), "level": self.level}

    def __str__(self) -> str:
        return f"{number(self.low)} to {number(self.high)} ({100 * self.level:g} %)"
