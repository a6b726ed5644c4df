"""Sensitivity: how far one privacy unit can move a statistic."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, cast

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.noise.sampler import Truth, float_truth, saturated
from discreet.core.numbers import least
from discreet.core.protection import Neighbours, Protection, Unit


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """The largest change of a statistic between neighbours.

    Parameters
    ----------
    l1, l2
        Largest ℓ₁ and ℓ₂ change. Where only one is given the other is taken from it if it follows: ℓ₂ ≤ ℓ₁
        always; ℓ₁ ≤ √p·ℓ₂ only where ``dimension`` is given (it is 1 for a scalar).
    linf
        Largest change of any one coordinate, where that is known to be less than ℓ₂; with ``dimension`` it may be
        given alone, and ℓ₁ and ℓ₂ follow.
    dimension
        Number of coordinates of the statistic, where it is fixed.
    moves
        Where the worst change is known coordinate by coordinate: the absolute changes, in any order, of the
        worst neighbour. A record that moves between two cells of a table has ``moves=(1, 1)``. Every possible
        change must be dominated by it: at most that many coordinates move, the largest by at most the
        largest, and so on. Then ``l1`` and ``l2`` follow.
    coordinates
        Where each coordinate has a largest change of its own: these, in the order of the coordinates. Then
        ``moves``, ``l1``, ``l2`` and ``dimension`` follow. Mechanisms that spend a part of the budget on each
        coordinate need it: which coordinate moves by how much cannot be told from ``moves``.

    Examples
    --------
    >>> table = Sensitivity(moves=(1, 1))
    >>> table.l1, round(table.l2, 4)
    (2.0, 1.4142)
    >>> Sensitivity(l1=3.0).l2
    3.0
    """

    l1: float | None = None
    l2: float | None = None
    dimension: int | None = None
    moves: tuple[float, ...] | None = None
    coordinates: tuple[float, ...] | None = field(default=None, repr=False)
    linf: float | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.coordinates is not None:
            self._from_coordinates(self.coordinates)
        if self.dimension is not None:
            object.__setattr__(self, "dimension", requirements.positive_integer("dimension", self.dimension))
        if self.moves is not None:
            self._from_moves(self.moves)
        if self.linf is not None and self.l1 is None and self.l2 is None and self.dimension is not None:
            largest = Fraction(_float_above("linf", self.linf))
            object.__setattr__(self, "l1", self.dimension * largest)
            object.__setattr__(self, "l2", root_up(self.dimension * largest**2))
        if self.l1 is None and self.l2 is None:
            raise InvalidParameter(
                "l1", None, "needs l1, l2, moves, or linf and dimension", "Pass Sensitivity(l1=1.0), for example."
            )
        for name in ("l1", "l2", "linf"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _float_above(name, getattr(self, name)))
        if self.l2 is None:
            object.__setattr__(self, "l2", self.l1)
        elif self.l1 is None and self.dimension is not None:
            object.__setattr__(self, "l1", root_up(self.dimension * Fraction(self.l2) ** 2))
        if self.linf is None:
            object.__setattr__(self, "linf", self.l2)
        self._check_order()

    def _from_coordinates(self, coordinates: Any) -> None:
        if any(one is not None for one in (self.moves, self.l1, self.l2, self.linf, self.dimension)):
            raise InvalidParameter("coordinates", coordinates, "already fixes the rest", "Give coordinates alone.")
        # The k-th largest change is at most the k-th largest bound, so the bounds dominate every change.
        bounds = _sizes("coordinates", coordinates)
        object.__setattr__(self, "coordinates", bounds)
        object.__setattr__(self, "moves", bounds)
        object.__setattr__(self, "dimension", len(bounds))

    def _from_moves(self, moves: Any) -> None:
        if any(one is not None for one in (self.l1, self.l2, self.linf)):
            raise InvalidParameter("moves", moves, "already fixes l1, l2 and linf", "Leave them out.")
        sizes = sorted(_sizes("moves", moves), reverse=True)
        if self.dimension is not None and len(sizes) > self.dimension:
            raise InvalidParameter(
                "moves", moves, f"has more entries than dimension = {self.dimension}", "Check the two values."
            )
        object.__setattr__(self, "moves", tuple(sizes))
        object.__setattr__(self, "linf", sizes[0])
        total = sum((Fraction(size) for size in sizes), Fraction(0))
        object.__setattr__(self, "l1", _float_above("moves", total))
        object.__setattr__(self, "l2", root_up(sum((Fraction(size) ** 2 for size in sizes), Fraction(0))))

    def _check_order(self) -> None:
        if self.l1 is not None and self.l2 is not None and self.l2 > self.l1:
            raise InvalidParameter("l2", self.l2, f"cannot exceed l1 = {self.l1:g}", "Check the two values.")
        if self.require_linf() > self.require_l2():
            raise InvalidParameter("linf", self.linf, f"cannot exceed l2 = {self.l2:g}", "Check the two values.")

    def require_l1(self) -> float:
        """ℓ₁, or an error that says how to give it."""
        if self.l1 is None:
            raise InvalidParameter("l1", None, "this mechanism needs it", "Pass Sensitivity(l1=…).")
        return self.l1

    def require_l2(self) -> float:
        """ℓ₂; it always follows from ℓ₁ where it is not given."""
        return cast(float, self.l2)

    def require_linf(self) -> float:
        """ℓ∞; it always follows from ℓ₂ where it is not given."""
        return cast(float, self.linf)

    def to_dict(self) -> dict[str, Any]:
        """The sensitivity as JSON-ready data; `from_dict` reads it back."""
        if self.coordinates is not None:
            return {"coordinates": list(self.coordinates)}
        if self.moves is not None:
            return {"moves": list(self.moves), "dimension": self.dimension}
        names = ("l1", "l2", "dimension") if self.linf == self.l2 else ("l1", "l2", "linf", "dimension")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Sensitivity:
        """Read what `to_dict` wrote."""
        lists = {name: tuple(value) for name, value in data.items() if isinstance(value, list)}
        return cls(**{**data, **lists})

    def __str__(self) -> str:
        return ", ".join(f"{name} = {one:.6g}" for name, one in (("ℓ₁", self.l1), ("ℓ₂", self.l2)) if one is not None)


def _sizes(name: str, values: Any) -> tuple[float, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence) or len(values) == 0:
        raise InvalidParameter(name, values, "must be a non-empty sequence", f"Pass {name}=(1, 1).")
    return tuple(_float_above(name, value) for value in values)


def _float_above(name: str, value: Any) -> float:
    """The value as a positive float; a fraction that no float equals is rounded up."""
    number = requirements.positive(name, value)
    if isinstance(value, Fraction | int) and Fraction(number) < value:
        number = requirements.positive(name, math.nextafter(number, math.inf))
    return number


def root_up(square: Fraction) -> float:
    """The smallest float whose square is at least ``square``."""
    # Fractions reach further than floats do: halve the exponent before taking the root.
    half = (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    guess = math.ldexp(math.sqrt(square / Fraction(4) ** half), half)
    return least(lambda x: Fraction(x) ** 2 >= square, guess)


def exact_moves(sensitivity: Sensitivity) -> tuple[Fraction, ...]:
    """The exact move of each coordinate; the single shift Δ₁ is the worst case where only ℓ₁ is known."""
    requirements.instance("sensitivity", sensitivity, Sensitivity, "Sensitivity(l1=1.0)")
    if sensitivity.moves is not None:
        return tuple(Fraction(move) for move in sensitivity.moves)
    return (Fraction(sensitivity.require_l1()),)


# ---- Exact: a true, still private value with what is known of it.


@dataclass(frozen=True)
class Exact:
    """A true, still private value with what is known of it. Its repr never shows the value.

    Parameters
    ----------
    value
        A number, a `fractions.Fraction`, or an array of them; exact as it stands.
    sensitivity
        How far one unit can move it.
    protection
        Between which data sets, whose data counts as one unit, and what is taken as public.
    statistic
        The public description of what was measured; the core only hands it on.
    public
        Public facts that inference needs, such as n under replace-one neighbours.

    Examples
    --------
    >>> Exact(10.0, Sensitivity(l1=1.0))
    Exact(value=‹private›, sensitivity=ℓ₁ = 1, ℓ₂ = 1, protects against adding or removing one row)
    """

    value: Truth = field(repr=False)
    sensitivity: Sensitivity
    protection: Protection = field(default_factory=Protection)
    statistic: Any = None
    public: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        requirements.instance("sensitivity", self.sensitivity, Sensitivity, "Sensitivity(l1=1.0), for example")
        requirements.instance("protection", self.protection, Protection, "Protection(), for example")
        object.__setattr__(self, "value", saturated(self.value))
        if float_truth(self.value).size == 0:
            raise InvalidParameter("value", "…", "must not be empty", "Pass a number or a non-empty array.")

    @property
    def neighbours(self) -> Neighbours:
        """Which data sets must be hard to tell apart."""
        return self.protection.neighbours

    @property
    def unit(self) -> Unit:
        """Whose data counts as one."""
        return self.protection.unit

    def __repr__(self) -> str:
        return f"Exact(value=‹private›, sensitivity={self.sensitivity}, protects against {self.protection})"
