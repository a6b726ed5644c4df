"""Claims of holohan2018, decided by its own formulas on grids of (ε, Δ), and by the stored runs of its figures.

The formulas are written out here again, apart from the mechanisms of the library, so that neither checks itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from math import exp, log

import numpy as np
from scipy.optimize import minimize_scalar

from discreet.papers.study import MeasuredRange, PaperClaim, Rows, compared

_EPSILONS = (0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
_MOVES = (0.001, 0.01, 0.1, 0.3, 0.5, 0.9, 0.999)
"""ΔQ on the domain [0, 1]; a whole domain is asked about separately."""
_DELTAS = (0.0, 0.01, 0.1)
_GRID = tuple(product(_EPSILONS, _MOVES, _DELTAS))


def _normaliser(q: float, b: float) -> float:
    """C_q of Lemma 3.2 on [0, 1]."""
    return 1 - (exp(-q / b) + exp(-(1 - q) / b)) / 2


def _ratio(move: float, b: float) -> float:
    """ΔC(b) of Definition 3.4."""
    return _normaliser(move, b) / _normaliser(0.0, b)


def _standard(epsilon: float, move: float, delta: float = 0.0) -> float:
    """b₀ of (4.2)."""
    return move / (epsilon - log(1 - delta))


def _operator(b: float, epsilon: float, move: float, delta: float = 0.0) -> float:
    """f of (4.1)."""
    return move / (epsilon - log(_ratio(move, b)) - log(1 - delta))


def _algorithm_1(epsilon: float, move: float, delta: float = 0.0) -> float:
    """Algorithm 1, word for word."""
    left = b = _standard(epsilon, move, delta)
    right = _operator(left, epsilon, move, delta)
    size = (left + right) * 2
    while size > right - left:
        size = right - left
        b = (left + right) / 2
        found = _operator(b, epsilon, move, delta)
        if found >= b:
            left = b
        if found <= b:
            right = b
    return b


def _log_ratio(q: float, other: float, b: float) -> float:
    """Largest log-ratio of the densities located at q and at ``other``: their normalisers', and the distance."""
    return log(_normaliser(other, b) / _normaliser(q, b)) + abs(q - other) / b


def _worst(move: float, b: float, steps: int = 400) -> float:
    """The privacy loss by brute force over pairs at most ``move`` apart."""
    places = np.linspace(0.0, 1.0, steps + 1)
    reach = [min(1.0, one + part * move) for one in places for part in (0.25, 0.5, 0.75, 1.0)]
    pairs = zip(np.repeat(places, 4), reach, strict=True)
    return max(max(_log_ratio(one, other, b), _log_ratio(other, one, b)) for one, other in pairs)


def _divergence(epsilon: float, q: float, other: float, b: float, steps: int = 20_001) -> float:
    """The hockey-stick divergence of the bounded laws at two places, by the trapezoid rule."""
    x = np.linspace(0.0, 1.0, steps)
    one, two = (np.exp(-np.abs(x - at) / b) / (2 * b * _normaliser(at, b)) for at in (q, other))
    return float(np.trapezoid(np.maximum(one - exp(epsilon) * two, 0.0), x))


_claim = partial(PaperClaim, "holohan2018")
_figure_2 = partial(_claim, "Figure 2, Example 1.3", part="figure-2")
_figure_3 = partial(_claim, "Figure 3, section 3.2", part="figure-3")


def _everywhere(place: str, claim: str, statistic: str, true: Callable[[float, float, float], bool]) -> PaperClaim:
    """A claim that is true where ``true`` holds in all of the grid of (ε, ΔQ, δ)."""
    said = f"share of {len(_GRID)} settings (ε, ΔQ, δ) in which {statistic}"
    return _claim(place, claim, said, lambda: float(np.mean([true(*setting) for setting in _GRID])), 1.0)


def _integral(b: float) -> float:
    """Largest gap between Lemma 3.2 and the integral it stands for, over q."""
    x = np.linspace(0.0, 1.0, 200_001)
    gaps = [
        abs(float(np.trapezoid(np.exp(-np.abs(x - q) / b) / (2 * b), x)) - _normaliser(q, b))
        for q in (0.0, 0.1, 0.35, 0.5, 0.8, 1.0)
    ]
    return max(gaps)


def _maximum_is_at_the_end(epsilon: float, move: float, delta: float) -> bool:
    b = _algorithm_1(epsilon, move, delta)
    end = log(_ratio(move, b)) + move / b
    return _worst(move, b, 60) <= end * (1 + 1e-9)


def _falls(epsilon: float, move: float, delta: float) -> bool:
    first = _standard(epsilon, move, delta)
    values = [_operator(b, epsilon, move, delta) for b in np.geomspace(first, 4 * first, 60)]
    return bool(np.all(np.diff(values) <= 1e-9 * values[0]))


def _one_crossing(epsilon: float, move: float, delta: float) -> bool:
    first = _standard(epsilon, move, delta)
    grid = np.linspace(first, _operator(first, epsilon, move, delta), 400)
    signs = np.sign([_operator(b, epsilon, move, delta) - b for b in grid])
    return int(np.sum(np.abs(np.diff(signs[signs != 0])) > 0)) <= 1 and signs[0] >= 0 >= signs[-1]


def _is_fixed(epsilon: float, move: float, delta: float) -> bool:
    b = _algorithm_1(epsilon, move, delta)
    return abs(_operator(b, epsilon, move, delta) / b - 1) < 1e-9


def _private(epsilon: float, move: float, delta: float) -> bool:
    """(ε, δ) at b*: by the worst log-ratio where δ = 0, by the divergence over positions otherwise."""
    b = _algorithm_1(epsilon, move, delta)
    if delta == 0:
        return _worst(move, b, 60) <= epsilon * (1 + 1e-9)
    places = np.linspace(0.0, 1.0 - move, 12)
    return all(
        max(_divergence(epsilon, q, q + move, b), _divergence(epsilon, q + move, q, b)) <= delta + 1e-4 for q in places
    )


def _smaller_scale_suffices() -> float:
    """b* of Theorem 3.5 over a smaller scale that is still (1, 0.01)-DP for ΔQ = 0.1, by bisection."""
    epsilon, delta, move = 1.0, 0.01, 0.1

    def held(b: float) -> float:
        """The divergence at the worst place, which lies inside the domain: a grid of places would understate it."""
        at = minimize_scalar(lambda q: -_divergence(epsilon, q, q + move, b), bounds=(0.0, 0.1), method="bounded")
        return max(-float(at.fun), _divergence(epsilon, 1.0 - at.x, 1.0 - at.x - move, b))

    low, high = 0.05, _algorithm_1(epsilon, move, delta)
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if held(middle) > delta else (low, middle)
    return _algorithm_1(epsilon, move, delta) / high


def _accuracy(rows: Rows, mechanism: str) -> dict[float, MeasuredRange]:
    return {
        row["epsilon"]: MeasuredRange.of(row["accuracy"], row["standard_error"])
        for row in rows
        if row["mechanism"] == mechanism and row["version"] == "as published"
    }


def _gain(rows: Rows) -> dict[float, MeasuredRange]:
    ours = _accuracy(rows, "bounded")
    theirs = _accuracy(rows, "truncated")
    return {epsilon: compared(ours[epsilon], theirs[epsilon]) for epsilon in ours}


def _ahead(rows: Rows, low: float, high: float) -> MeasuredRange:
    """The least gain over a range of ε, where the curves are apart."""
    gains = [gain for epsilon, gain in _gain(rows).items() if low <= epsilon <= high]
    return min(gains, key=lambda gain: gain.value)


def _at(rows: Rows, epsilon: float, sensitivity: float) -> float:
    """ε/ε′ at the grid point nearest to the wanted one."""
    near = min(rows, key=lambda row: abs(log(row["epsilon"] / epsilon)) + abs(log(row["sensitivity"] / sensitivity)))
    return float(near["ratio"])


CLAIMS: tuple[PaperClaim, ...] = (
    _claim(
        "Example 1.1", "“On average 50 % of the outputs will be negative” where the count is 0.",
        "P(Laplace noise < 0)", lambda: float(np.exp(-0.0) / 2), 0.5, 0.5,
    ),
    _figure_2(
        "“Bounding outperforms truncation over a large range of ε.”",
        "least gain in accuracy of bounding over truncating for 1 ≤ ε ≤ 30", partial(_ahead, low=1.0, high=30.0), 0.0,
    ),
    _claim(
        "Section 1", "Bounding with the scale of the Laplace mechanism “does not typically satisfy differential "
        "privacy”.", "loss over ε at the scale ΔQ/ε, for ε = 1, ΔQ = 0.1", lambda: _worst(0.1, 0.1), 1 + 1e-6,
    ),
    _claim(
        "Section 1, Corollary 4.5", "… except when the sensitivity spans the domain, ΔQ = u − l.",
        "loss over ε at the scale ΔQ/ε, for ε = 1, ΔQ = 1", lambda: _worst(1.0, 1.0), 1 - 1e-9, 1 + 1e-9,
    ),
    _claim(
        "Lemma 3.2", "C_q = 1 − ½(e^(−(q−l)/b) + e^(−(u−q)/b)).",
        "largest gap to the integral of the density, b = 0.3", lambda: _integral(0.3), 0.0, 1e-8,
    ),
    _everywhere(
        "Lemma 3.3", "The ratio C_q′/C_q·e^(|q′−q|/b) is largest at q = l, q′ = l + ΔQ.",
        "no pair on a grid exceeds it", _maximum_is_at_the_end,
    ),
    _everywhere(
        "Theorem 3.5", "The mechanism is (ε, δ)-DP whenever b is at least (3.1).",
        "the loss at b*, or the divergence for δ > 0, is at most what is claimed", _private,
    ),
    _everywhere(
        "Section 3.2", "ΔC(b) ≥ 1: the variance is never less than that of the standard mechanism.",
        "ΔC(b*) ≥ 1", lambda e, m, d: _ratio(m, _algorithm_1(e, m, d)) >= 1,
    ),
    _figure_3(
        "The impact on ε′ is most pronounced when ΔQ and ε are small.",
        "ε/ε′ at the smallest ΔQ and ε, minus the largest of the grid",
        lambda rows: _at(rows, 0.01, 0.001) - max(row["ratio"] for row in rows), -1e-9, 1e-9,
    ),
    _figure_3(
        "2ε′ = ε in the limiting case.", "ε/ε′ at ε = 0.01, ΔQ = 0.001",
        lambda rows: _at(rows, 0.01, 0.001), 1.98, 2.0,
    ),
    _figure_3(
        "ε/ε′ is 1 where ΔQ = u − l.", "largest distance of ε/ε′ from 1 at ΔQ = 1",
        lambda rows: max(abs(row["ratio"] - 1) for row in rows if row["sensitivity"] == 1.0), 0.0, 1e-9,
    ),
    _everywhere(
        "Lemma 4.2", "f(b₀) ≥ b₀.", "f(b₀) ≥ b₀",
        lambda e, m, d: _operator(_standard(e, m, d), e, m, d) >= _standard(e, m, d) * (1 - 1e-12),
    ),
    _claim(
        "Lemma 4.2", "f(b₀) = b₀ if ΔQ = u − l.", "largest |f(b₀)/b₀ − 1| over ε at ΔQ = 1",
        lambda: max(abs(_operator(_standard(e, 1.0), e, 1.0) / _standard(e, 1.0) - 1) for e in _EPSILONS), 0.0, 1e-9,
    ),
    _everywhere("Lemma 4.3", "f′(b) ≤ 0.", "f falls on [b₀, 4b₀]", _falls),
    _everywhere(
        "Theorem 4.4", "f has a unique fixed point in [b₀, f(b₀)].",
        "f(b) − b changes its sign once, from plus to minus", _one_crossing,
    ),
    _everywhere("Algorithm 1", "Bisection converges to b* within machine precision.", "|f(b)/b − 1| < 10⁻⁹", _is_fixed),
    _everywhere(
        "Corollary 4.5", "b* = b₀ only if ΔQ = u − l.", "b* > b₀ where ΔQ < u − l",
        lambda e, m, d: _algorithm_1(e, m, d) > _standard(e, m, d),
    ),
    _claim(
        "Corollary 4.6", "The fixed point is the lower bound of all b that satisfy ε-DP (δ = 0).",
        "loss over ε at 0.999·b*, for ε = 1, ΔQ = 0.1", lambda: _worst(0.1, 0.999 * _algorithm_1(1.0, 0.1)), 1 + 1e-9,
    ),
    _claim(
        "Corollary 4.6", "The fixed point is the lower bound of all b that satisfy (ε, δ)-DP, δ > 0 too.",
        "b* over a scale that satisfies (1, 0.01)-DP for ΔQ = 0.1", _smaller_scale_suffices, 1 - 1e-3, 1 + 1e-3,
    ),
    _claim(
        "Section 5", "ε = 2ε′ means “a doubling of the noise variance”.",
        "variance of the noise at ε/2 over that at ε", lambda: (2 / 0.5**2) / (2 / 1.0**2), 2.0, 2.0,
    ),
    _claim(
        "Section 5", "The doubling that earlier work required is “excessive” (Figure 3).",
        "b*/b₀ for ε = 1, ΔQ = 0.5", lambda: _algorithm_1(1.0, 0.5) / _standard(1.0, 0.5), 1.0, 2 - 1e-9,
    ),
    _claim(
        "Section 5", "Redrawing Laplace noise until a standard deviation is positive is not differentially private.",
        "loss over ε at the scale ΔQ/ε, for ε = 1, ΔQ = 0.001", lambda: _worst(0.001, 0.001), 1 + 1e-6,
    ),
)  # fmt: skip
