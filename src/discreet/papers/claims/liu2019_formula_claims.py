"""Claims of liu2019 on formulas, decided by quadrature and enumeration.

The formulas are written out here again, apart from the laws of the library, so that neither checks itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import product
from math import exp, inf

import numpy as np
from numpy.typing import NDArray

from discreet.core.guarantee import ApproxDP
from discreet.papers.liu2019_generalized import printed_scale
from discreet.papers.paper_claim import Claim, Measured

__all__ = ["FORMULA_CLAIMS"]

Array = NDArray[np.float64]
_GRID = tuple(product((0.02, 0.1, 0.3, 0.5, 0.62, 0.9, 0.99), (0.03, 0.1, 0.5, 2.0)))
"""True values s and scales λ on the domain [0, 1]."""
_X = np.linspace(0.0, 1.0, 200_001)


def _bulk(s: float, scale: float) -> Array:
    return np.asarray(np.exp(-np.abs(_X - s) / scale) / (2 * scale))


def _normaliser(s: float, scale: float) -> float:
    """The bracket of (4)."""
    return 1 - exp(-(1 - s) / scale) / 2 - exp(-s / scale) / 2


def _tails(s: float, scale: float) -> tuple[float, float]:
    """Mass of Laplace noise below 0 and above 1."""
    return exp(-s / scale) / 2, exp(-(1 - s) / scale) / 2


def _moment(s: float, scale: float, inflated: bool, power: int) -> float:
    """E(s* − s)^power of either law, by the trapezoid rule."""
    inside = float(np.trapezoid((_X - s) ** power * _bulk(s, scale), _X))
    low, high = _tails(s, scale)
    if inflated:
        return inside + low * (0 - s) ** power + high * (1 - s) ** power
    return inside / (1 - low - high)


def _printed_6(s: float, scale: float) -> float:
    low, high = exp((0 - s) / scale), exp((s - 1) / scale)
    return ((scale + s) / 2 * low - (scale + 1 - s) / 2 * high) / (1 - low / 2 - high / 2)


def _printed_7(s: float, scale: float) -> float:
    return scale / 2 * (exp(-s / scale) - exp((s - 1) / scale))


def _largest(gap: Callable[[float, float], float]) -> float:
    return max(abs(gap(s, scale)) for s, scale in _GRID)


def _share(true: Callable[[float, float], bool]) -> float:
    return float(np.mean([true(s, scale) for s, scale in _GRID]))


def _loss_of_truncation() -> float:
    """Loss over ε at the scale Δ/ε, for ε = 1 and Δ = 0.1: normalisers' ratio and distance."""
    return math.log(_normaliser(0.1, 0.1) / _normaliser(0.0, 0.1)) + 1


def _loss_of_inflation() -> float:
    """The same for BIT: densities inside, masses at both ends."""
    worst = 0.0
    for s in np.linspace(0.0, 0.9, 91):
        one, other = float(s), float(s) + 0.1
        ratios = np.log(_bulk(one, 0.1) / _bulk(other, 0.1))
        ends = [math.log(a / b) for a, b in zip(_tails(one, 0.1), _tails(other, 0.1), strict=True)]
        worst = max(worst, float(np.abs(ratios).max()), *map(abs, ends))
    return worst


def _replaced(statistic: Callable[[Array], float], values: Iterable[tuple[float, ...]], n: int) -> float:
    """The largest change of a statistic of n records when one of them is replaced, by enumeration."""
    records = list(values)
    worst = 0.0
    for rows in product(records, repeat=n - 1):
        found = [statistic(np.array([*rows, last], dtype=float)) for last in records]
        worst = max(worst, max(found) - min(found))
    return worst


def _variance(rows: Array) -> float:
    return float(rows[:, 0].var(ddof=1))


def _covariance(rows: Array) -> float:
    return float(np.cov(rows.T)[0, 1])


def _shares_move(n: int, *, replaced: bool) -> float:
    """The largest ℓ₁ change of three proportions when a record is replaced, or left out while n stays public."""
    worst = 0.0
    for rows in product(range(3), repeat=n):
        before = np.bincount(rows, minlength=3) / n
        others = [np.bincount((*rows[1:], new), minlength=3) for new in range(3)] if replaced else []
        others = others or [np.bincount(rows[1:], minlength=3)]
        worst = max(worst, max(float(np.abs(before - other / n).sum()) for other in others))
    return worst


def _true_delta_at_printed_rule() -> float:
    """δ(0.1) of order-4 noise at the printed scale for (0.1, 0.01) and Δ = 1, by a sum over a fine grid."""
    b = printed_scale(ApproxDP(0.1, 0.01), 1.0, 4)
    x = np.linspace(-6 * b, 6 * b, 400_001)
    one, other = (np.exp(-((np.abs(x - at) / b) ** 4)) for at in (0.0, 1.0))
    mass = one.sum()
    return float(np.maximum(one / mass - exp(0.1) * other / mass, 0.0).sum())


def _exact(place: str, claim: str, statistic: str, value: Callable[[], float], low: float, high: float) -> Claim:
    return Claim(
        paper="liu2019", place=place, claim=claim, statistic=statistic, measure=lambda _: Measured.exact(value()),
        low=low, high=high,
    )  # fmt: skip


FORMULA_CLAIMS: tuple[Claim, ...] = (
    _exact(
        "Section 2.2, (3)", "For p = 2 the generalized Gaussian mechanism draws from N(s, b²/2).",
        "variance of the density of order 2 over b²",
        lambda: float(np.average(_line() ** 2, weights=np.exp(-(_line() ** 2)))), 0.5 - 1e-6, 0.5 + 1e-6,
    ),
    _exact(
        "Section 2.2, (3)", "Pr(Σa_j > b^p − ε·δ_p^p) < δ makes the mechanism (ε, δ)-private.",
        "true δ(0.1) at the scale of that rule for ε = 0.1, δ = 0.01, Δ = 1, p = 4", _true_delta_at_printed_rule,
        0.0, 0.01,
    ),
    _exact(
        "Definition 2 (a)", "The truncated Laplace mechanism with λ = δ₁/ε is of ε-DP.",
        "privacy loss over ε on [0, 1], ε = 1, δ₁ = 0.1", _loss_of_truncation, 0.0, 1 + 1e-9,
    ),
    _exact(
        "Definition 2 (b)", "The BIT Laplace mechanism with λ = δ₁/ε is of ε-DP.",
        "largest log-ratio of densities and masses over ε, ε = 1, δ₁ = 0.1", _loss_of_inflation, 0.0, 1 + 1e-9,
    ),
    _exact(
        "(4)", "The truncated density is normalised by 1 − ½e^(−(c₁−s)/λ) − ½e^((c₀−s)/λ).",
        "largest gap to the integral of Laplace noise over the domain",
        lambda: _largest(lambda s, b: float(np.trapezoid(_bulk(s, b), _X)) - _normaliser(s, b)), -1e-6, 1e-6,
    ),
    _exact(
        "(5)", "The BIT law has mass ½e^(−(s−c₀)/λ) at c₀ and 1 − ½e^(−(c₁−s)/λ) at c₁.",
        "total mass as printed, s = 0.7, λ = 0.3",
        lambda: _normaliser(0.7, 0.3) + _tails(0.7, 0.3)[0] + 1 - _tails(0.7, 0.3)[1], 1 - 1e-9, 1 + 1e-9,
    ),
    _exact(
        "Proposition 1, (6)", "The mean of the truncated law is (6).", "largest gap to quadrature over 28 settings",
        lambda: _largest(lambda s, b: _printed_6(s, b) - _moment(s, b, False, 1)), 0.0, 1e-6,
    ),
    _exact(
        "Proposition 1, (7)", "The mean of the BIT law is (7).", "largest gap to quadrature over 28 settings",
        lambda: _largest(lambda s, b: _printed_7(s, b) - _moment(s, b, True, 1)), 0.0, 1e-6,
    ),
    _exact(
        "Proposition 1 (a)", "Both laws are unbiased if the bounds are symmetric around s.",
        "largest bias of either law at s = ½",
        lambda: max(abs(f(0.5, b)) for f in (_printed_6, _printed_7) for _, b in _GRID), 0.0, 1e-12,
    ),
    _exact(
        "Proposition 1 (a)", "… and only if they are.", "smallest bias of either law elsewhere on the grid",
        lambda: min(abs(f(s, b)) for f in (_printed_6, _printed_7) for s, b in _GRID if s != 0.5), 1e-12, inf,
    ),
    _exact(
        "Proposition 1 (b)", "The direction of the bias is the same between the two.",
        "share of 28 settings with (μ₁ − s)(μ₂ − s) ≥ 0",
        lambda: _share(lambda s, b: _printed_6(s, b) * _printed_7(s, b) >= 0), 1.0, 1.0,
    ),
    _exact(
        "Proposition 1 (c)", "BIT is no more biased than truncation.", "share of 28 settings with |μ₁ − s| ≥ |μ₂ − s|",
        lambda: _share(lambda s, b: abs(_printed_6(s, b)) >= abs(_printed_7(s, b)) - 1e-15), 1.0, 1.0,
    ),
    _exact(
        "Remark 3, (9)", "With c₁ = ∞ the truncated bias is ½(λ − c₀ + s)e^((c₀−s)/λ)/(1 − ½e^((c₀−s)/λ)).",
        "gap to quadrature over [0, 60], s = 0.4, λ = 0.5", lambda: _half_line_bias(0.4, 0.5), -1e-6, 1e-6,
    ),
    _exact(
        "Remark 3", "0 < 1 − ½e^((c₀−s)/λ) < ½.", "1 − ½e^((c₀−s)/λ) at s − c₀ = λ", lambda: 1 - exp(-1) / 2, 0.0, 0.5,
    ),
    _exact(
        "Proposition 2", "The MSE of both laws is at most 2λ².", "largest MSE over 2λ², 28 settings and two laws",
        lambda: max(_moment(s, b, law, 2) / (2 * b * b) for s, b in _GRID for law in (True, False)), 0.0, 1 + 1e-6,
    ),
    _exact(
        "Proposition 2", "The MSE falls as n^(−2k) where δ₁ falls as n^(−k).",
        "slope of log MSE in log λ between λ = 0.01 and 0.02, s = 0.3",
        lambda: math.log(_moment(0.3, 0.02, False, 2) / _moment(0.3, 0.01, False, 2), 2), 1.99, 2.01,
    ),
    _exact(
        "Appendix B", "The MSE of the truncated law is 2λ² minus the printed quotient.",
        "printed MSE over the true one, s = 0.9, λ = 0.05",
        lambda: _printed_mse(0.9, 0.05) / _moment(0.9, 0.05, False, 2), 0.999, 1.001,
    ),
    _exact(
        "Table 1", "The global sensitivity of a variance is (c₁ − c₀)²/n.",
        "largest change by enumeration, n = 5, over that", lambda: 5 * _replaced(_variance, [(0,), (0.5,), (1,)], 5),
        1 - 1e-9, 1 + 1e-9,
    ),
    _exact(
        "Table 1", "The global sensitivity of a covariance is (c_j1 − c_j0)(c_j'1 − c_j'0)/n.",
        "largest change by enumeration, n = 4, over that",
        lambda: 4 * _replaced(_covariance, list(product((0, 1), repeat=2)), 4), 1 - 1e-9, 1 + 1e-9,
    ),
    _exact(
        "Table 1", "A variance is at most n(c₁ − c₀)²/(4(n − 1)).", "largest variance of six values over that",
        lambda: float(max(np.var(rows, ddof=1) for rows in product((0, 0.5, 1), repeat=6))) / (6 / 20), 0.0, 1 + 1e-9,
    ),
    _exact(
        "Section 4.2", "The sensitivity of proportions is 2/n where a record is substituted.",
        "largest ℓ₁ change by enumeration, n = 5, times n",
        lambda: 5 * _shares_move(5, replaced=True), 2 - 1e-9, 2 + 1e-9,
    ),
    _exact(
        "Section 4.2", "… and 1/n where a record is deleted (and n is known).",
        "largest ℓ₁ change of counts over n by enumeration, n = 5, times n",
        lambda: 5 * _shares_move(5, replaced=False), 1 - 1e-9, 1 + 1e-9,
    ),
)  # fmt: skip


def _line() -> Array:
    return np.linspace(-9.0, 9.0, 200_001)


def _half_line_bias(s: float, scale: float) -> float:
    x = np.linspace(0.0, 60.0, 1_200_001)
    density = np.exp(-np.abs(x - s) / scale)
    found = float(np.trapezoid((x - s) * density, x) / np.trapezoid(density, x))
    low = exp(-s / scale)
    return found - (scale + s) / 2 * low / (1 - low / 2)


def _printed_mse(s: float, scale: float) -> float:
    """The last line of the proof in Appendix B, on [0, 1]."""
    low, high = exp(-s / scale), exp((s - 1) / scale)
    first = scale / 2 * (s * low + (1 - s) * high)
    second = (s**2 * low + (0.25 + (0.5 - s) ** 2) * high) / 2
    return 2 * scale**2 - (first + second) / (1 - low / 2 - high / 2)
