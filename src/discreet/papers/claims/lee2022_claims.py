"""Claims of lee2022 on its figures, decided by the stored runs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from itertools import product
from math import exp, inf, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaln, ndtr, ndtri, xlogy

from discreet.papers.study import MeasuredRange, PaperClaim, Rows, average, compared, least, most, pick, votes

Row = dict[str, Any]
GAUSSIAN = ("M_G", "M_r", "M_JS0", "M_JS", "M_rJS")
_OPEN = "none, as published"
_CUT = "nonnegative, as published"


def _curve(rows: Rows, name: str) -> dict[float, float]:
    return {row["alpha"]: row["type II error"] for row in pick(rows, curve=name)}


def _closest(rows: Rows, name: str) -> MeasuredRange:
    """The smallest distance of a curve from G_1 inside (0, 1)."""
    base, other = _curve(rows, "1-GDP"), _curve(rows, name)
    return MeasuredRange.exact(min(other[alpha] - base[alpha] for alpha in base if 0 < alpha < 1))


def _falling(rows: Rows) -> MeasuredRange:
    """The proportion of points where a curve lies at or below the one with more equal shifts."""
    found = {(row["lambda_2"], row["lambda_1 / lambda_2"], row["alpha"]): row["type II error"] for row in rows}
    shares = sorted({row["lambda_1 / lambda_2"] for row in rows})
    gaps = [
        MeasuredRange.exact(found[total, one, alpha] - value)
        for (total, share, alpha), value in found.items()
        for one in shares[: shares.index(share)][-1:]
    ]
    return votes(gaps, low=-1e-7)


def _order(rows: Rows) -> MeasuredRange:
    right = [row["b from epsilon"] > row["b from Delta_1"] > row["b tight"] for row in rows]
    return MeasuredRange.exact(sum(right) / len(right))


def _cost(row: Row, column: str = _OPEN) -> MeasuredRange:
    """A simulated cost; the stored error is that of the clipped cost, which is no larger by much."""
    return MeasuredRange.of(row[column], 2 * row["standard error"])


def _over(one: MeasuredRange, other: MeasuredRange) -> MeasuredRange:
    return MeasuredRange(one.value / other.value, one.low / other.high, one.high / other.low)


def _steady(rows: Rows) -> MeasuredRange:
    """The largest change of the costs of M_G and M_r from N = 50 to N = 1600."""
    ratios = []
    for late in pick(rows, mechanism=("M_G", "M_r"), n=1600):
        same = {name: late[name] for name in ("model", "p", "mu", "mechanism")}
        ratios.append(_over(_cost(pick(rows, n=50, **same)[0]), _cost(late)))
    return average(ratios)


def _cut_helps(rows: Rows, **where: Any) -> list[MeasuredRange]:
    return [_over(_cost(row, _CUT), _cost(row)) for row in pick(rows, **where)]


def _never_worse(rows: Rows) -> MeasuredRange:
    """Both costs come from the same draws, so their order is exact."""
    return MeasuredRange.exact(sum(row[_CUT] <= row[_OPEN] for row in rows) / len(rows))


def _shrunk_least(rows: Rows) -> MeasuredRange:
    """M_JS's gain by truncation minus M_rJS's."""
    gaps = []
    for row in pick(rows, mechanism="M_JS", n=50):
        same = {name: row[name] for name in ("model", "p", "mu", "n")}
        (other,) = pick(rows, mechanism="M_rJS", **same)
        gaps.append(compared(_over(_cost(row, _CUT), _cost(row)), _over(_cost(other, _CUT), _cost(other))))
    return average(gaps)


def _rate(row: Row, name: str) -> MeasuredRange:
    return MeasuredRange.proportion(row[name], int(row["runs"]))


def _sizes(rows: Rows, **where: Any) -> list[MeasuredRange]:
    return [_rate(row, "size") for row in pick(rows, mechanism=("M_Lap", *GAUSSIAN), **where)]


def _ahead(rows: Rows, name: str, others: Iterable[str], **where: Any) -> list[MeasuredRange]:
    """Power of one mechanism minus that of each of the others, at the same setting."""
    gaps = []
    for row in pick(rows, mechanism=name, **where):
        same = {column: row[column] for column in ("test", "p", "mu", "n")}
        gaps += [
            compared(_rate(row, "power"), _rate(other, "power"))
            for other in pick(rows, mechanism=tuple(others), **same)
        ]
    return gaps


_FIT, _SAME = {"test": "goodness of fit"}, {"test": "homogeneity"}
_HARD = {**_SAME, "mu": 0.1, "p": 18}
_LIMIT = 0.05 + 2 * sqrt(0.05 * 0.95 / 1000)
"""The red line of Figures 9 and 11: 5 % and two standard errors of 1,000 runs."""


_claim = partial(PaperClaim, "lee2022")


def _figure(place: str, part: str, *said: Any) -> PaperClaim:
    return _claim(place, *said, part=part)


FIGURE_CLAIMS: tuple[PaperClaim, ...] = (
    _figure(
        "Figure 2", "figure-2", "The curve of the ε₁-DP Laplace mechanism lies above G₁ without touching it.",
        "smallest distance from G₁", lambda rows: _closest(rows, "Laplace, ε₁-DP"), 1e-3,
    ),
    _figure(
        "Figure 2", "figure-2", "The recalibrated Laplace mechanism touches G₁.",
        "smallest distance from G₁ on a grid of α",
        lambda rows: _closest(rows, "Laplace, 1-GDP"), 0.0, 2e-3,
    ),
    _figure(
        "Figure 3, Lemma 10", "figure-3", "For a fixed λ₂ the curve falls as λ₁ grows.",
        "share of grid points at which it does", _falling, 1.0,
    ),
    _figure(
        "Figure 6", "figure-6", "b^ε > b^Δ₁ > b̃.", "share of the μ on the grid for which it holds", _order, 1.0,
    ),
    _figure(
        "Figure 7", "figure-7-8", "The costs of M_G and M_r remain constant as N varies.",
        "cost at N = 50 over that at N = 1600, averaged", _steady, 0.97, 1.03,
    ),
    _figure(
        "Figure 8", "figure-7-8", "Truncated, they do not remain constant for small N.",
        "cost of M_G with truncation over that without, N = 50, averaged",
        lambda rows: average(_cut_helps(rows, mechanism="M_G", n=50)), 0.0, 0.9,
    ),
    _figure(
        "Figure 8", "figure-7-8", "Truncation changes nothing where N is large enough.",
        "smallest such ratio at N = 1600, μ = 0.25, p = 5, from the same draws",
        lambda rows: MeasuredRange.exact(
            min(row[_CUT] / row[_OPEN] for row in pick(rows, mechanism="M_G", n=1600, mu=0.25, p=5))
        ), 0.99, 1.01,
    ),
    _figure(
        "Proposition 8, Figure 8", "figure-7-8", "Truncated mechanisms dominate.",
        "share of settings and mechanisms in which truncation costs no more", _never_worse, 1.0,
    ),
    _figure(
        "Figure 8", "figure-7-8", "Truncation helps M_JS less than M_rJS.",
        "cost ratio by truncation of M_JS minus that of M_rJS, N = 50", _shrunk_least, 0.0,
    ),
    _figure(
        "Figure 9", "figure-9-12", "Goodness-of-fit tests control the type I error well.",
        "average size over all settings and mechanisms", lambda rows: average(_sizes(rows, **_FIT)), 0.04, 0.055,
    ),
    _figure(
        "Figure 9", "figure-9-12", "… in every setting.", "share of settings whose size may be at most 6.4 %",
        lambda rows: votes(_sizes(rows, **_FIT), high=_LIMIT), 0.95,
    ),
    _figure(
        "Figure 10", "figure-9-12", "M_rJS dominates the other mechanisms in power.",
        "its power minus that of the other Gaussian mechanisms, averaged",
        lambda rows: average(_ahead(rows, "M_rJS", ("M_G", "M_r", "M_JS0", "M_JS"), **_FIT)), 0.0,
    ),
    _figure(
        "Figure 10", "figure-9-12", "… everywhere.", "share of comparisons in which its power is at least as high",
        lambda rows: votes(_ahead(rows, "M_rJS", ("M_G", "M_r", "M_JS0", "M_JS"), **_FIT), low=0.0), 1.0,
    ),
    _figure(
        "Figure 10", "figure-9-12", "The Laplace mechanism performs worse than any Gaussian-type mechanism.",
        "share of comparisons in which its power is no higher",
        lambda rows: votes(_ahead(rows, "M_Lap", GAUSSIAN, **_FIT), high=0.0), 1.0,
    ),
    _figure(
        "Figure 11", "figure-9-12", "Homogeneity tests control the type I error except for μ = 0.1 and p = 18.",
        "share of the other settings whose size may be at most 6.4 %",
        lambda rows: votes([*_sizes(rows, **_SAME, p=9), *_sizes(rows, **_SAME, p=18, mu=0.3)], high=_LIMIT), 0.95,
    ),
    _figure(
        "Figure 11", "figure-9-12", "For μ = 0.1 and p = 18, M_JS does not control it up to N = 1500.",
        "least size of M_JS for N from 500 to 1500",
        lambda rows: least(_rate(row, "size") for row in pick(rows, mechanism="M_JS", n=(500, 1000, 1500), **_HARD)),
        _LIMIT,
    ),
    _figure(
        "Figure 11", "figure-9-12", "… and does so beyond.", "largest size of M_JS for N ≥ 2000",
        lambda rows: most(_rate(row, "size") for row in pick(rows, mechanism="M_JS", n=(2000, 3000), **_HARD)),
        0.0, _LIMIT,
    ),
    _figure(
        "Figure 12", "figure-9-12", "The Laplace mechanism has the lowest power.",
        "share of comparisons in which its power is no higher",
        lambda rows: votes(_ahead(rows, "M_Lap", GAUSSIAN, **_SAME), high=0.0), 1.0,
    ),
    _figure(
        "Figure 12", "figure-9-12", "For μ = 0.1 and p = 18, M_JS still performs better for N > 1500.",
        "share of comparisons at N ≥ 2000 in which its power is at least as high",
        lambda rows: votes(_ahead(rows, "M_JS", ("M_G", "M_r", "M_JS0", "M_rJS"), n=(2000, 3000), **_HARD), low=0.0),
        1.0,
    ),
)  # fmt: skip
"""In the order of the paper."""


# ---- Claims of lee2022 on theorems, formulas and constants, decided by formulas that are written out here again


Array = NDArray[np.float64]
_ALPHA = np.linspace(0.0005, 0.9995, 1999)
_SIZES = (50, 100, 200, 400, 800, 1600)


def _mean_reciprocal(k: int, noncentrality: float) -> float:
    """E[1/χ²_k(λ)] as a Poisson mixture of 1/(k − 2 + 2J): the series of Appendix B."""
    half = noncentrality / 2
    reach = 12 * math.sqrt(half + 1) + 30
    j = np.arange(max(int(half - reach), 0), int(half + reach) + 1)
    weights = np.exp(xlogy(j, half) - half - gammaln(j + 1))
    return float(np.sum(weights / (k - 2 + 2 * j)))


def _shrunk_risk(kept: int, shrunk: int, noncentrality: float) -> float:
    """E‖JS − θ‖²/σ² with ``kept`` unshrunk dimensions and the plain factor; two dimensions or fewer do not shrink."""
    if shrunk < 3:
        return float(kept + shrunk)
    return kept + shrunk - (shrunk - 2) ** 2 * _mean_reciprocal(shrunk, noncentrality)


def _helmert(p: int) -> Array:
    """U_θ of section 4.1."""
    columns = []
    for k in range(2, p + 1):
        column = np.zeros(p)
        column[: k - 1], column[k - 1] = 1.0, 1.0 - k
        columns.append(column / math.sqrt(k * (k - 1)))
    return np.array(columns).T


def _costs(theta: Array, sigma: float) -> dict[str, float]:
    """L₂ costs over σ² by Theorems 1 and 2 and Appendix B."""
    p = len(theta)
    z = _helmert(p).T @ theta
    lengths = {
        "M_JS0": (0, p, theta @ theta),
        "M_JS": (1, p - 1, np.sum((theta - theta.mean()) ** 2)),
        "M_rJS": (1, p - 2, np.sum((z - z.mean()) ** 2)),
    }
    plain = {"M_G": float(p), "M_r": p - 1.0}
    return plain | {n: _shrunk_risk(m, k, float(square) / sigma**2) for n, (m, k, square) in lengths.items()}


def _tables(model: str, p: int, n: int, count: int = 40) -> NDArray[np.int64]:
    weights = np.ones(p) if model == "I" else np.arange(1.0, p + 1)
    return np.random.default_rng([p, n]).multinomial(n, weights / weights.sum(), size=count)


def _difference(model: str, one: str, other: str, p: int, mu: float, n: int) -> MeasuredRange:
    """Exact cost of one mechanism minus that of another, averaged over tables of a model."""
    sigma = math.sqrt(2) / mu
    gaps = np.array([(c := _costs(table, sigma))[one] - c[other] for table in _tables(model, p, n).astype(float)])
    return MeasuredRange.of(float(gaps.mean()), float(gaps.std(ddof=1) / math.sqrt(len(gaps))))


def _cheaper(model: str, one: str, other: str, sizes: tuple[int, ...] = _SIZES) -> MeasuredRange:
    """In which share of the settings of Figure 7 one mechanism is cheaper."""
    settings = list(product((5, 10, 15), (0.1, 0.25), sizes))
    gaps = [_difference(model, one, other, p, mu, n) for p, mu, n in settings]
    lower = {name: sum(getattr(gap, name) < 0 for gap in gaps) / len(gaps) for name in ("value", "low", "high")}
    return MeasuredRange(
        lower["value"], lower["high"], lower["low"]
    )  # surely cheaper where even the upper end is below 0


def _largest_ratio(name: str, over: str, p: int) -> float:
    """The largest cost ratio over tables from flat to steep."""
    shapes = [
        np.full(p, 5.0),
        np.arange(1.0, p + 1),
        np.r_[1000.0, np.zeros(p - 1)],
        np.linspace(0, 60, p),
        np.zeros(p),
    ]
    ratios = [(c := _costs(theta, sigma))[name] / c[over] for theta in shapes for sigma in (0.5, 5.0, 50.0)]
    return max(ratios)


def _laplace(t: float, alpha: Array) -> Array:
    """T(Lap(0, 1), Lap(t, 1)) (proof of Proposition 9)."""
    return np.where(
        alpha >= 0.5, exp(-t) * (1 - alpha), np.where(alpha >= exp(-t) / 2, exp(-t) / (4 * alpha), 1 - exp(t) * alpha)
    )


def _pure(epsilon: float, alpha: Array) -> Array:
    """The trade-off function of ε-DP."""
    return np.maximum(1 - exp(epsilon) * alpha, exp(-epsilon) * (1 - alpha))


def _gaussian(mu: float, alpha: Array) -> Array:
    return np.asarray(ndtr(ndtri(1 - alpha) - mu))


def _reach(mu: float) -> float:
    return -2 * math.log(2 * ndtr(-mu / 2))


def _epsilon(mu: float) -> float:
    return math.log(ndtr(mu / 2) / ndtr(-mu / 2))


def _plane_tradeoff(first: float, second: float, steps: int = 1201) -> tuple[Array, Array]:
    """Trade-off function of two independent Laplace coordinates, by sorting the cells of a fine grid by their ratio."""

    def masses(t: float) -> tuple[Array, Array]:
        edges = np.concatenate([[-inf], np.linspace(-14.0, 14.0 + t, steps), [inf]])
        cdf = [
            np.where(edges < at, np.exp(np.minimum(edges - at, 0)) / 2, 1 - np.exp(-np.maximum(edges - at, 0)) / 2)
            for at in (0.0, t)
        ]
        return np.diff(cdf[0]), np.diff(cdf[1])

    (p1, q1), (p2, q2) = masses(first), masses(second)
    p, q = np.outer(p1, p2).ravel(), np.outer(q1, q2).ravel()
    order = np.argsort(-(np.log(q) - np.log(p)))
    return np.concatenate([[0.0], np.cumsum(p[order])]), 1 - np.concatenate([[0.0], np.cumsum(q[order])])


def _at(curve: tuple[Array, Array], alpha: Array) -> Array:
    return np.interp(alpha, *curve)


def _crossing(ratio: float) -> float:
    return float(brentq(lambda mu: _reach(mu) - math.sqrt(2) * ratio * mu, 0.5, 50.0))


def _one_laplace(epsilon: Array, t: float) -> Array:
    """δ(ε) of one Laplace coordinate that moves by t scales."""
    inside = np.clip(epsilon, -t, t)
    return np.where(epsilon >= t, 0.0, np.where(epsilon <= -t, 1 - np.exp(epsilon), 1 - np.exp((inside - t) / 2)))


def _two_laplaces(epsilon: Array, t: float) -> Array:
    """δ(ε) of two: that of the first at ε less the loss of the second, which is t − 2y for an exponential y up to t."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    y = t * (nodes + 1) / 2
    between = (weights * t / 4 * np.exp(-y) * _one_laplace(epsilon[:, None] - t + 2 * y, t)).sum(axis=1)
    ends = _one_laplace(epsilon - t, t) / 2 + _one_laplace(epsilon + t, t) * exp(-t) / 2
    return np.asarray(between + ends)


def _tight_crossing() -> float:
    """The μ at which two Laplace coordinates of scale 1/μ are exactly μ-GDP."""

    def gap(mu: float) -> float:
        epsilon = np.linspace(0.0, 2 * mu, 20_001)
        normal = ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
        return float(np.max(_two_laplaces(epsilon, mu) - normal))

    return float(brentq(gap, 3.4, 4.2, xtol=1e-9))


def _expected_square(n: int, p: int) -> float:
    """E θᵀΠθ of a multinomial table by enumeration of its 3^n or more outcomes, minus the printed formula."""
    shares = np.arange(1.0, p + 1) / np.arange(1.0, p + 1).sum()
    projection = np.eye(p) - np.ones((p, p)) / p
    found = 0.0
    for outcome in product(range(p), repeat=n):
        theta = np.bincount(outcome, minlength=p)
        found += float(np.prod(shares[list(outcome)]) * (theta @ projection @ theta))
    return found - (n * (1 - 1 / p) + n * (n - 1) * float(shares @ projection @ shares))


def _normal_plane(first: float, second: float, steps: int = 1201) -> tuple[Array, Array]:
    """Trade-off function of two independent normal coordinates that move, cell by cell of a fine grid."""

    def masses(t: float) -> tuple[Array, Array]:
        edges = np.concatenate([[-inf], np.linspace(-8.0, 8.0 + t, steps), [inf]])
        return np.diff(ndtr(edges)), np.diff(ndtr(edges - t))

    (p1, q1), (p2, q2) = masses(first), masses(second)
    p, q = np.outer(p1, p2).ravel(), np.outer(q1, q2).ravel()
    order = np.argsort(-(q / np.maximum(p, 1e-300)))
    return np.concatenate([[0.0], np.cumsum(p[order])]), 1 - np.concatenate([[0.0], np.cumsum(q[order])])


def _distance_from_unshrunk(k: int, n: int) -> float:
    """E‖JS − G‖²/σ² = (k − 2)²·E[1/χ²_k(λ)] for a table of n rows in the shares 1 : 2 : … : 10, μ = 0.25."""
    shares = np.arange(1.0, 11.0) / 55
    apart = n * (shares if k == 10 else shares - 0.1)
    return (k - 2) ** 2 * _mean_reciprocal(k, float(apart @ apart) / 32)


FORMULA_CLAIMS: tuple[PaperClaim, ...] = (
    _claim(
        "Theorem 1", "M_G is μ-GDP, and tightly so.",
        "largest |T − G_μ| over α where two cells move by Δ₂/√2 each, μ = 1, on a fine grid",
        lambda: float(np.max(np.abs(_at(_normal_plane(0.5**0.5, 0.5**0.5), _ALPHA) - _gaussian(1.0, _ALPHA)))),
        0.0, 2e-3,
    ),
    _claim(
        "Theorem 2", "The cost of M_r is q·Δ₂²/μ², below that of M_G.",
        "trace of U_θU_θᵀ for Helmert's columns, p = 9, over p − 1",
        lambda: float(np.trace(_helmert(9) @ _helmert(9).T)) / 8, 1 - 1e-9, 1 + 1e-9,
    ),
    _claim(
        "Theorem 4", "For p ≥ 3, M_JS0 strictly dominates M_G.",
        "largest cost ratio, p = 3 to 9, 15 tables and scales each",
        lambda: max(_largest_ratio("M_JS0", "M_G", p) for p in range(3, 10)), 0.0, 1 - 1e-12,
    ),
    _claim(
        "Theorem 5", "For p ≥ 4, M_JS strictly dominates M_G.", "largest cost ratio, p = 4 to 9",
        lambda: max(_largest_ratio("M_JS", "M_G", p) for p in range(4, 10)), 0.0, 1 - 1e-12,
    ),
    _claim(
        "Theorem 6", "For p ≥ 5, M_rJS strictly dominates M_r.", "largest cost ratio, p = 5 to 9",
        lambda: max(_largest_ratio("M_rJS", "M_r", p) for p in range(5, 10)), 0.0, 1 - 1e-12,
    ),
    _claim(
        "Theorem 7 (1)", "M_JS0 converges to M_G as N grows.",
        "E‖M_JS0 − M_G‖²/σ², Model II, p = 10, μ = 0.25, N = 10⁴", lambda: _distance_from_unshrunk(10, 10**4),
        0.0, 1e-3,
    ),
    _claim(
        "Theorem 7 (2)", "M_JS converges to M_G as N grows.",
        "E‖M_JS − M_G‖²/σ², Model II, p = 10, μ = 0.25, N = 10⁴", lambda: _distance_from_unshrunk(9, 10**4), 0.0, 1e-3,
    ),
    _claim(
        "Theorem 7", "M_rJS converges to M_r as N grows.",
        "1 − cost of M_rJS over M_r, Model II, p = 10, μ = 0.25, N = 10⁴",
        lambda: 1 - (c := _costs(_tables("II", 10, 10**4, 1)[0].astype(float), math.sqrt(32)))["M_rJS"] / c["M_r"],
        0.0, 1e-3,
    ),
    _claim(
        "(12)", "ε-DP with ε = log(Φ(μ/2)/(1 − Φ(μ/2))) implies μ-GDP.",
        "smallest T_ε − G_μ over α, μ = 1",
        lambda: float(np.min(_pure(_epsilon(1.0), _ALPHA) - _gaussian(1.0, _ALPHA))), -1e-9,
    ),
    _claim(
        "Section 3.1, T_ε-DP", "T_ε(α) = max(0, 1 − e^(−εα), e^(−ε)(1 − α)), as printed.",
        "printed first case at α = 0, where every trade-off function is 1", lambda: 1 - exp(0.0), 1.0, 1.0,
    ),
    _claim(
        "Proposition 9", "Laplace noise with b = Δ/(−2 log 2Φ(−μ/2)) is μ-GDP.", "smallest T − G_μ, μ = 0.3, 1 and 3",
        lambda: min(float(np.min(_laplace(_reach(mu), _ALPHA) - _gaussian(mu, _ALPHA))) for mu in (0.3, 1.0, 3.0)),
        -1e-9,
    ),
    _claim(
        "Proposition 9", "… and for no smaller μ.", "T − G_μ at α = Φ(−μ/2), μ = 1",
        lambda: float((_laplace(_reach(1.0), np.array([ndtr(-0.5)])) - _gaussian(1.0, np.array([ndtr(-0.5)])))[0]),
        -1e-12, 1e-12,
    ),
    _claim(
        "Lemma 10", "For a fixed sum of shifts, the curve of two coordinates falls as they become more unequal.",
        "smallest drop from shifts (1, 1) to (1.5, 0.5) to (1.9, 0.1) over α",
        lambda: float(np.min([
            _at(_plane_tradeoff(1, 1), _ALPHA) - _at(_plane_tradeoff(1.5, 0.5), _ALPHA),
            _at(_plane_tradeoff(1.5, 0.5), _ALPHA) - _at(_plane_tradeoff(1.9, 0.1), _ALPHA),
        ])), -2e-4,
    ),
    _claim(
        "Theorem 11", "Two coordinates with shifts that add up to t are at least as private as one shifted by t.",
        "smallest T(½, ½) − T(1) over α",
        lambda: float(np.min(_at(_plane_tradeoff(0.5, 0.5), _ALPHA) - _laplace(1.0, _ALPHA))), -2e-4,
    ),
    _claim(
        "Conjecture 12", "The same scale is μ-GDP in every dimension (open in the paper for p ≥ 3).",
        "smallest f_⅔ ⊗ f_⅓ − f_1, the step of the induction", lambda: float(
            np.min(_at(_plane_tradeoff(2 / 3, 1 / 3), _ALPHA) - _laplace(1.0, _ALPHA))), -2e-4,
    ),
    _claim(
        "Section 3.2, Figure 4", "Laplace noise calibrated to Δ₁ is cheaper than Gaussian noise from μ = 3.36 on, for "
        "Δ₁/Δ₂ = 1.",
        "crossing", lambda: _crossing(1.0), 3.355, 3.365,
    ),
    _claim(
        "Figures 4 and 6", "… and from μ = 6.13 on for tables.", "crossing at √2",
        lambda: _crossing(math.sqrt(2)), 6.125, 6.135,
    ),
    _claim(
        "Figure 6", "At μ = 3.67 the costs of M_G and of the tight Laplace mechanism are equal.", "crossing",
        _tight_crossing, 3.665, 3.675,
    ),
    _claim(
        "Section 4.2.1", "Gaussian noise is cheaper than tight Laplace noise for μ ≤ 3.9xx.", "crossing",
        _tight_crossing, 3.9,
    ),
    _claim(
        "Section 4.2.2", "E θᵀΠθ = N(1 − 1/p) + N(N − 1)π′Ππ.", "gap to enumeration, N = 6, p = 3",
        lambda: _expected_square(6, 3), -1e-9, 1e-9,
    ),
    _claim(
        "Section 4.2.2, Figure 7", "In Model I the cost of M_JS is lower than that of M_rJS for many N, generally.",
        "share of 36 settings in which M_JS is cheaper, by exact costs averaged over 40 tables each",
        lambda: _cheaper("I", "M_JS", "M_rJS"), 0.5,
    ),
    _claim(
        "Section 4.2.2, Figure 7", "M_rJS dominates M_JS except for small N in Model II.",
        "share of settings with N ≥ 200 in which M_rJS is cheaper",
        lambda: _cheaper("II", "M_rJS", "M_JS", (200, 400, 800, 1600)), 1.0,
    ),
    _claim(
        "Section 2.3", "M_JS empirically dominates M_JS0.", "share of 72 settings of Figure 7 in which M_JS is cheaper",
        lambda: average([_cheaper("I", "M_JS", "M_JS0"), _cheaper("II", "M_JS", "M_JS0")]), 1.0,
    ),
)  # fmt: skip
"""In the order of the paper."""
