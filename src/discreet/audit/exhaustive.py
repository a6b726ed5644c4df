"""Exhaustive audit: every pair of neighbours on a finite grid, in interval arithmetic.

The laws are written down here again, from their formulas, in balls of 2048 bits: nothing is shared with the code under
audit but the scale (or factor) that it calibrated. For every pair of truths within Δ of each other and every cell of
outputs the check is p ≤ e^ε·q. A ball decides for certain; only exact equality stays undecided, and counts as held
where the difference is certainly below 2⁻²⁰⁰ of the probability.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
from flint import arb

from discreet.core.guarantee import GaussianDP, PureDP
from discreet.core.rounding import ball, decimal, precisely
from discreet.core.sensitivity import Sensitivity
from discreet.display import Facts
from discreet.mechanisms.bounded.boundary_inflated import BoundaryInflatedLaplace
from discreet.mechanisms.bounded.bounded_laplace import BoundedLaplace
from discreet.mechanisms.choices.exponential_mechanism import ExponentialMechanism
from discreet.mechanisms.choices.permute_and_flip import PermuteAndFlip
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace
from discreet.result import Result

__all__ = ["ExhaustiveAudit", "audit_exhaustively", "cells_hold", "laplace_masses"]

_BITS = 2048
_EQUAL = 200
_CELLS = 24

Masses = list[arb]


@dataclass(frozen=True)
class ExhaustiveAudit(Result):
    """What the exhaustive check found.

    Attributes
    ----------
    sets
        Parameter sets, by kind of mechanism.
    comparisons
        Pairs of neighbours times cells.
    violations
        Pairs for which p ≤ e^ε·q (or δ within the claimed one) is not certain.
    tightest
        Largest share of a claimed ε that was reached.
    """

    sets: dict[str, int]
    comparisons: int
    violations: tuple[str, ...]
    tightest: float

    @property
    def passed(self) -> bool:
        """Whether no violation was found."""
        return not self.violations

    def facts(self) -> Facts:
        """What to show."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.sets.items())
        return [
            ("parameter sets", f"{sum(self.sets.values()):,} ({kinds})"),
            ("comparisons", f"{self.comparisons:,}, each decided in balls of {_BITS} bits"),
            ("violations", "none" if self.passed else "; ".join(self.violations[:3])),
            ("tightest", f"{100 * self.tightest:.4f} % of a claim"),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {
            "sets": dict(self.sets),
            "comparisons": self.comparisons,
            "violations": list(self.violations),
            "tightest": self.tightest,
            "passed": self.passed,
        }

    def heading(self) -> str:
        return "Exhaustive audit"


@dataclass
class _Tally:
    comparisons: int = 0
    tightest: float = 0.0


def audit_exhaustively(sets: int = 1200, *, seed: int = 1) -> ExhaustiveAudit:
    """Check random parameter sets of every mechanism whose law has a closed form.

    Examples
    --------
    >>> audit_exhaustively(20).passed
    True
    """
    rng = np.random.default_rng(seed)
    tally, counted, violations = _Tally(), dict.fromkeys(_CHECKS, 0), []
    shares = {"laplace": 8, "bounded": 8, "inflated": 3, "gaussian": 2, "exponential": 2, "permute_and_flip": 1}
    kinds = [kind for kind, share in shares.items() for _ in range(share)]
    with precisely(_BITS):
        for number in range(sets):
            kind = kinds[number % len(kinds)]
            epsilon = float(np.round(10 ** rng.uniform(-2, 1.2), 3))
            delta = float(np.round(10 ** rng.uniform(-3, 2), 4))
            width = delta * float(np.round(10 ** rng.uniform(0.05, 2), 2))
            found = _CHECKS[kind](epsilon, delta, width, tally)
            violations += [f"{kind}, ε {epsilon}, Δ {delta}: {what}" for what in found]
            counted[kind] += 1
    return ExhaustiveAudit(counted, tally.comparisons, tuple(violations), tally.tightest)


def cells_hold(p: Masses, q: Masses, factor: arb) -> tuple[bool, float]:
    """Whether p ≤ factor·q for certain in every cell, but for exact equality; and the largest log-ratio."""
    largest = 0.0
    for a, b in zip(p, q, strict=True):
        excess, equal = a - factor * b, abs(a) * arb(2) ** -_EQUAL
        if not excess <= equal:  # certain, or too close to tell: neither may pass
            return False, math.inf
        ratio = float((a / b).log().mid()) if a > 0 and b > 0 else 0.0
        largest = max(largest, ratio)
    return True, largest


def _compared(
    masses: Sequence[Masses], near: Callable[[int, int], bool], epsilon: float, tally: _Tally
) -> Iterator[str]:
    factor = ball(decimal(epsilon)).exp()
    for i, j in product(range(len(masses)), repeat=2):
        if i == j or not near(i, j):
            continue
        held, reached = cells_hold(masses[i], masses[j], factor)
        tally.comparisons += len(masses[i])
        tally.tightest = max(tally.tightest, reached / epsilon)
        if not held:
            yield f"truths {i} and {j}"


# ---- laws of one number -------------------------------------------------------------------------------------------


def _below(x: arb, truth: arb, scale: arb) -> arb:
    """Laplace distribution function."""
    if x <= truth:
        return ((x - truth) / scale).exp() / 2
    return 1 - ((truth - x) / scale).exp() / 2


def laplace_masses(truth: Fraction, scale: float, edges: Sequence[Fraction], *, inside: bool) -> Masses:
    """Masses of a Laplace law between edges; with both tails, or ``inside`` the outer edges and normalised."""
    centre, spread = ball(truth), ball(Fraction(scale))
    below = [_below(ball(edge), centre, spread) for edge in edges]
    between = [b - a for a, b in pairwise(below)]
    if not inside:
        return [below[0], *between, 1 - below[-1]]
    whole = below[-1] - below[0]
    return [mass / whole for mass in between]


def _laplace(epsilon: float, delta: float, width: float, tally: _Tally) -> Iterator[str]:
    scale = Laplace.calibrate(PureDP(epsilon), Sensitivity(l1=delta)).scale
    step, spread = Fraction(delta) / 2, Fraction(scale)
    truths = [k * step for k in range(5)]
    edges = [truths[2] + (k - _CELLS // 2) * spread / 3 for k in range(_CELLS + 1)]
    masses = [laplace_masses(truth, scale, edges, inside=False) for truth in truths]
    yield from _compared(masses, lambda i, j: abs(i - j) <= 2, epsilon, tally)


def _bounded_setting(delta: float, width: float) -> tuple[list[Fraction], list[Fraction]]:
    """Truths half a Δ apart from end to end of [0, width], and edges with a hair's breadth at both ends."""
    step, end = Fraction(delta) / 2, Fraction(width)
    truths = [k * step for k in range(min(6, int(end / step)))] + [end - k * step for k in range(3)]
    hair = end / 2**60
    edges = sorted({Fraction(0), hair, end - hair, end, *(end * k / _CELLS for k in range(_CELLS + 1))})
    return sorted({truth for truth in truths if truth >= 0}), edges


def _bounded(epsilon: float, delta: float, width: float, tally: _Tally) -> Iterator[str]:
    mechanism = BoundedLaplace.calibrate(PureDP(epsilon), Sensitivity(l1=delta), bounds=(0, width))
    truths, edges = _bounded_setting(delta, width)
    masses = [laplace_masses(truth, mechanism.scale, edges, inside=True) for truth in truths]
    yield from _compared(masses, lambda i, j: abs(truths[i] - truths[j]) <= Fraction(delta), epsilon, tally)


def _inflated(epsilon: float, delta: float, width: float, tally: _Tally) -> Iterator[str]:
    mechanism = BoundaryInflatedLaplace.calibrate(PureDP(epsilon), Sensitivity(l1=delta), bounds=(0, width))
    truths, edges = _bounded_setting(delta, width)
    masses = [laplace_masses(truth, mechanism.scale, edges[1:-1], inside=False) for truth in truths]
    yield from _compared(masses, lambda i, j: abs(truths[i] - truths[j]) <= Fraction(delta), epsilon, tally)


def _gaussian(epsilon: float, delta: float, width: float, tally: _Tally) -> Iterator[str]:
    """δ(ε) of μ-GDP against the sum of what cells exceed e^ε times their neighbour by."""
    mu = epsilon / 2
    scale = Gaussian.calibrate(GaussianDP(mu), Sensitivity(l2=delta)).scale
    spread, shift = ball(Fraction(scale)), ball(Fraction(delta))
    edges = [shift / 2 + spread * ball(Fraction(k - _CELLS, 4)) for k in range(2 * _CELLS + 1)]
    here, there = (_normal_masses([(edge - centre) / spread for edge in edges]) for centre in (arb(0), shift))
    for level in (0.0, mu / 2, mu, 2 * mu):
        factor = ball(decimal(level)).exp()
        excess = sum((a - factor * b for a, b in zip(here, there, strict=True) if a > factor * b), arb(0))
        tally.comparisons += len(here)
        if not excess <= ball(decimal(float(GaussianDP(mu).delta_at(level)))):
            yield f"δ at ε = {level}"


def _normal_masses(edges: Sequence[arb]) -> Masses:
    root = arb(2).sqrt()
    below = [(-edge / root).erfc() / 2 for edge in edges]
    return [below[0], *(b - a for a, b in pairwise(below)), 1 - below[-1]]


# ---- choices ------------------------------------------------------------------------------------------------------

_SCORES = tuple(product(range(3), repeat=3))


def _adjacent(i: int, j: int) -> bool:
    return max(abs(a - b) for a, b in zip(_SCORES[i], _SCORES[j], strict=True)) <= 1


def _weights(scores: Sequence[int], factor: arb) -> Masses:
    return [(factor * (score - max(scores))).exp() for score in scores]


def _softmax(scores: Sequence[int], factor: arb) -> Masses:
    weights = _weights(scores, factor)
    whole = sum(weights, arb(0))
    return [weight / whole for weight in weights]


def _flipped(scores: Sequence[int], factor: arb) -> Masses:
    """mckenna2020 for three candidates: p_i·(1 − (p_j + p_k)/2 + p_j·p_k/3)."""
    a, b, c = _weights(scores, factor)
    return [x * (1 - (y + z) / 2 + y * z / 3) for x, y, z in ((a, b, c), (b, a, c), (c, a, b))]


def _chosen(kind: Any, law: Callable[[Sequence[int], arb], Masses]) -> Callable[..., Iterator[str]]:
    def check(epsilon: float, delta: float, width: float, tally: _Tally) -> Iterator[str]:
        mechanism = kind.calibrate(PureDP(epsilon), Sensitivity(moves=(delta,) * 3))
        factor = ball(Fraction(mechanism.factor) * Fraction(delta))
        yield from _compared([law(scores, factor) for scores in _SCORES], _adjacent, epsilon, tally)

    return check


_CHECKS: dict[str, Callable[[float, float, float, _Tally], Iterator[str]]] = {
    "laplace": _laplace,
    "bounded": _bounded,
    "inflated": _inflated,
    "gaussian": _gaussian,
    "exponential": _chosen(ExponentialMechanism, _softmax),
    "permute_and_flip": _chosen(PermuteAndFlip, _flipped),
}
