"""The exact privacy curve of Laplace noise in any number of coordinates.

With unit scale and shifts t₁, …, t_k (total T) the hockey-stick divergence has a closed form: e^{(ε−T)/2}
times a polynomial on each interval between the points ±t₁ ± … ± t_k (``docs/proofs/laplace.md``, section 3):

    δ(ε) = 1 + e^{(ε−T)/2} · 2^{−k} · Σ_{c > ε} P_p(c − ε)        for 0 ≤ ε < T,

one term for each choice of signs, p of them positive and c their sum. Equal shifts share their terms, so a
record that moves k cells by the same amount costs k + 1 terms and not 2^k.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from math import comb, prod
from typing import ClassVar

from flint import arb, fmpq, fmpq_poly

from discreet.core.rounding import ball

__all__ = ["LaplaceCurve", "laplace_rho"]


@lru_cache(maxsize=256)
def _polynomials(count: int) -> tuple[fmpq_poly, ...]:
    """P_p for p = 1, …, k positive signs; there is none for p = 0, whose point −T lies below every ε ≥ 0.

    P_p is the inverse Laplace transform of (s+½)^{p−1}·(s−½)^{k−p−1} / s^k; for p = k that of its pole at 0.
    """
    half = fmpq(1, 2)
    plus, minus = fmpq_poly([half, 1]), fmpq_poly([-half, 1])
    numerators = [plus ** (p - 1) * minus ** (count - p - 1) for p in range(1, count)]
    geometric = fmpq_poly([fmpq(-2) * fmpq(2) ** j for j in range(count)])  # 1/(s − ½) around 0
    numerators.append(plus ** (count - 1) * geometric)
    return tuple(_inverse(numerator, count) for numerator in numerators)


def _inverse(numerator: fmpq_poly, count: int) -> fmpq_poly:
    """Σ a_m s^{m−k} becomes Σ a_m x^{k−1−m} / (k−1−m)!, for the powers m < k."""
    coefficients, factorial = [], 1
    for power in range(count):
        factorial *= max(power, 1)
        coefficients.append(numerator[count - 1 - power] / factorial)
    return fmpq_poly(coefficients)


def _value(polynomial: fmpq_poly, x: arb) -> arb:
    total = arb(0)
    for coefficient in reversed(polynomial.coeffs()):
        total = total * x + arb(coefficient)
    return total


def _merged(shifts: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    """Add up the smallest shifts until the curve has few enough terms.

    f_s ⊗ f_t ≥ f_{s+t} (``docs/proofs/laplace_gdp.md``), so the merged curve lies above the exact one.
    """
    parts = sorted(shifts, reverse=True)
    while LaplaceCurve.size(parts) > LaplaceCurve.largest_size:
        parts = sorted([*parts[:-2], parts[-2] + parts[-1]], reverse=True)
    return tuple(parts)


class LaplaceCurve:
    """δ(ε) of Lap(0, 1)^k against Lap(t₁, 1) ⊗ … ⊗ Lap(t_k, 1), in ball arithmetic.

    Parameters
    ----------
    shifts
        The t_i, all positive.
    """

    largest_size: ClassVar[int] = 4096
    """Most terms of one curve; beyond it the smallest shifts are merged, which can only raise the curve."""

    @staticmethod
    def size(shifts: Iterable[Fraction]) -> int:
        """Number of terms of the curve."""
        return prod(times + 1 for times in Counter(shifts).values())

    def __init__(self, shifts: tuple[Fraction, ...]) -> None:
        merged = _merged(shifts)
        self.count = len(merged)
        self.total = sum(merged, Fraction(0))
        points: dict[tuple[Fraction, int], int] = {(Fraction(0), 0): 1}
        for shift, times in Counter(merged).items():
            grown: Counter[tuple[Fraction, int]] = Counter()
            for (point, positive), ways in points.items():
                for p in range(times + 1):
                    grown[point + (2 * p - times) * shift, positive + p] += ways * comb(times, p)
            points = dict(grown)
        self._points = sorted(((c, p, ways) for (c, p), ways in points.items() if c > 0), reverse=True)

    def delta(self, epsilon: Fraction) -> arb:
        """δ(ε) for ε ≥ 0, at the working precision."""
        if epsilon >= self.total:
            return arb(0)
        polynomials = _polynomials(self.count)
        total = arb(0)
        for point, positive, ways in self._points:
            if point <= epsilon:
                break
            total += ways * _value(polynomials[positive - 1], ball(point - epsilon))
        return 1 + (ball(epsilon - self.total) / 2).exp() * total / arb(2) ** self.count


def laplace_rho(shifts: Iterable[Fraction]) -> arb:
    """Σ (t + e^{−t} − 1): the tight zCDP parameter (``docs/proofs/laplace.md``, section 4)."""
    total = arb(0)
    for shift in shifts:
        t = ball(shift)
        total += t + (-t).expm1()
    return total
