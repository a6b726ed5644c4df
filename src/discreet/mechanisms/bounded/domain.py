"""Domain: the public interval that a statistic lies in, or one interval per coordinate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.noise.truth import Floats, Truth, float_truth
from discreet.core.sensitivity import Sensitivity
from discreet.omission.sampled_law import SampledLaw

__all__ = ["Domain", "StructuredLaw", "require_covered"]


Array = NDArray[np.float64]

_EXACT_INTEGERS = 2**53


@dataclass(frozen=True)
class Domain:
    """Intervals [low, high]; an end may be infinite, but not both ends of one interval.

    Parameters
    ----------
    lows, highs
        One end per coordinate; a single pair serves a scalar and every coordinate of a vector alike.
    single
        Whether the domain was given as one pair.
    """

    lows: tuple[float, ...]
    highs: tuple[float, ...]
    single: bool

    @classmethod
    def of(cls, bounds: Any) -> Domain:
        """Read a pair ``(low, high)`` or a sequence of pairs; None stands for an infinite end.

        Examples
        --------
        >>> Domain.of((0, 1)), Domain.of([(0, None), (-1, 1)]).highs
        (Domain(lows=(0.0,), highs=(1.0,), single=True), (inf, 1.0))
        """
        if isinstance(bounds, Domain):
            return bounds
        if isinstance(bounds, np.ndarray):
            bounds = bounds.tolist()
        if isinstance(bounds, str) or not isinstance(bounds, Sequence) or len(bounds) == 0:
            raise WrongType("bounds", bounds, "must be a pair or a sequence of pairs", "Pass bounds=(0, 1).")
        single = not isinstance(bounds[0], Sequence | np.ndarray)
        pairs = [_pair(pair) for pair in ([bounds] if single else bounds)]
        return cls(tuple(low for low, _ in pairs), tuple(high for _, high in pairs), single)

    def parameters(self) -> Any:
        """The bounds as JSON-ready data."""
        pairs = [
            [low if math.isfinite(low) else None, high if math.isfinite(high) else None]
            for low, high in zip(self.lows, self.highs, strict=True)
        ]
        return pairs[0] if self.single else pairs

    @property
    def ends(self) -> tuple[Array, Array]:
        """Lower and upper ends as arrays; scalars where one pair serves all."""
        low, high = np.asarray(self.lows), np.asarray(self.highs)
        return (low[0], high[0]) if self.single else (low, high)

    @property
    def widths(self) -> tuple[Fraction | None, ...]:
        """Exact lengths; None for a half-line."""
        return tuple(
            Fraction(high) - Fraction(low) if math.isfinite(high - low) else None
            for low, high in zip(self.lows, self.highs, strict=True)
        )

    def require_size(self, truth: Truth) -> None:
        """Refuse a value whose shape is not that of the domain."""
        shape = float_truth(truth).shape
        if not self.single and shape != (len(self.lows),):
            raise InvalidParameter(
                "bounds",
                f"{len(self.lows)} pairs",
                f"does not fit a value of shape {shape}",
                "Give one pair per coordinate, or one pair for all.",
            )

    def clamp(self, truth: Truth) -> Any:
        """The nearest point of the domain: exact, 1-Lipschitz, and never an error that would tell of the data."""
        self.require_size(truth)
        low, high = self.ends
        floats = float_truth(truth)
        array = np.asarray(truth)
        if array.dtype.kind != "f":  # floats are exact as they stand, and may be many
            array = np.asarray(truth, dtype=object)
        if array.dtype == object and any(_beyond_floats(value) for value in array.ravel()):
            clamped = np.frompyfunc(_clamp_exactly, 3, 1)(array, low, high)
            return clamped if array.ndim else Fraction(clamped)
        clipped = np.clip(floats, low, high)
        return float(clipped) if clipped.ndim == 0 else clipped


def _pair(pair: Any) -> tuple[float, float]:
    if isinstance(pair, np.ndarray):
        pair = pair.tolist()
    if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
        raise WrongType("bounds", pair, "must be a pair (low, high)", "Pass bounds=(0, 1), for example.")
    low, high = pair
    return requirements.ordered_bounds(
        "bounds", (-math.inf if low is None else low, math.inf if high is None else high)
    )


def _beyond_floats(value: Any) -> bool:
    if isinstance(value, Fraction):
        return True
    return isinstance(value, int) and abs(value) > _EXACT_INTEGERS


def _clamp_exactly(value: Any, low: float, high: float) -> Fraction:
    exact = Fraction(value)
    if math.isfinite(low) and exact < Fraction(low):
        return Fraction(low)
    if math.isfinite(high) and exact > Fraction(high):
        return Fraction(high)
    return exact


def require_covered(changes: Sequence[float], sensitivity: Sensitivity) -> None:
    """Refuse a sensitivity that may move a coordinate by more than its own declared change.

    Moves are sorted, and norms know no coordinates: the largest change may fall on any coordinate, so without
    ``coordinates`` every declared change must allow for it.
    """
    requirements.instance("sensitivity", sensitivity, Sensitivity, "Sensitivity(coordinates=…), for example")
    bounds = sensitivity.coordinates
    if bounds is None:
        # No single coordinate changes by more than the largest move, or than the ℓ₂ norm of the change.
        largest = max(sensitivity.moves) if sensitivity.moves else sensitivity.require_l2()
        bounds = (largest,) * max(len(changes), len(sensitivity.moves or ()))
    if len(bounds) != len(changes) or any(bound > change for bound, change in zip(bounds, changes, strict=True)):
        raise InvalidParameter(
            "sensitivity",
            sensitivity,
            f"may exceed the changes {tuple(changes)} that this mechanism was calibrated to, coordinate by coordinate",
            "Pass Sensitivity(coordinates=…) with one bound per coordinate, or larger changes.",
        )


# ---- Structured law: the distribution of an output that several steps make, known through draws


class Simulable(Protocol):
    """A mechanism that can draw many outputs at once, in floating point."""

    def simulate(self, truth: Truth, size: int, rng: int | np.random.Generator | None) -> Array:
        """``size`` outputs for one truth."""

    def draw(self, truth: Truth, *, rng: int | np.random.Generator | None = None) -> Floats:
        """One output."""


class StructuredLaw(SampledLaw):
    """The joint distribution of a vector whose coordinates are drawn one after another and repaired together.

    Moments and distribution functions are coordinate by coordinate, from simulated draws with a fixed seed.
    """

    mechanism: Simulable  # type: ignore[assignment]  # anything that simulates will do

    def __init__(self, mechanism: Simulable, truth: Truth, lower: Array, upper: Array) -> None:
        self.mechanism, self.truth = mechanism, truth
        self.location = float_truth(truth)
        self._support = lower, upper

    @property
    def support(self) -> tuple[Floats, Floats]:
        """Public ends of every coordinate."""
        return self._support
