"""Claims of liu2019 on its figures, decided by the stored runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from itertools import product
from math import exp, inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.guarantee import ApproxDP
from discreet.papers.study import MeasuredRange, PaperClaim, Rows, average, compared, least, most, pick, size_of, votes

# ---- liu2019 (3): the scale of generalized Gaussian noise by the paper's rule, as printed and as it must be meant.


def _scale(order: int, delta: float, move: float, reach_at: float, least: float) -> float:
    """The b with Pr((|x| + Δ)^p − |x|^p − Δ^p > reach·b^p − least) = δ for one number that moves by Δ."""
    from scipy.optimize import brentq
    from scipy.special import gammaincc

    def excess(b: float) -> float:
        allowed = reach_at * b**order - least
        if allowed <= 0:
            return 1.0

        # a(y) = (y + Δ)^p − y^p − Δ^p increases in y, so the event is |x| > y.
        def over(y: float) -> float:
            return (y + move) ** order - y**order - move**order - allowed

        high = max(b, move)
        while over(high) < 0:
            high *= 2
        edge = brentq(over, 0.0, high, xtol=1e-12, rtol=1e-14)
        return float(gammaincc(1 / order, (edge / b) ** order)) / delta - 1

    low = high = move
    while excess(low) < 0:
        low /= 2
    while excess(high) > 0:
        high *= 2
    return math.exp(brentq(lambda log_b: excess(math.exp(log_b)), math.log(low), math.log(high), xtol=1e-12))


def printed_scale(guarantee: ApproxDP, move: float, order: int) -> float:
    """b by the rule as printed: Pr(Σa_j > b^p − ε·δ_p^p) < δ. Below ε = 1 it does not give (ε, δ)-DP.

    Examples
    --------
    >>> round(printed_scale(ApproxDP(1.0, 0.01), 1.0, 4), 4)
    8.9094
    """
    return _scale(order, guarantee.delta, move, 1.0, guarantee.epsilon * move**order)


def meant_scale(guarantee: ApproxDP, move: float, order: int) -> float:
    """b by the rule that bounds the loss: Pr(Σa_j > ε·b^p − δ_p^p) < δ.

    Examples
    --------
    >>> round(meant_scale(ApproxDP(0.5, 0.01), 1.0, 4), 4)
    16.7431
    """
    return _scale(order, guarantee.delta, move, guarantee.epsilon, move**order)


# ---- Claims of liu2019 on its figures, decided by the stored runs.


Row = dict[str, Any]
_SMALL, _LARGE = (50, 100, 150), (450, 500)


def _bias(row: Row) -> MeasuredRange:
    return MeasuredRange.of(row["bias"], math.sqrt(max(row["rmse"] ** 2 - row["bias"] ** 2, 0.0) / row["repeats"]))


def _rmse(row: Row) -> MeasuredRange:
    return MeasuredRange.of(row["rmse"], row["rmse"] / math.sqrt(2 * row["repeats"]))


def _covered(row: Row) -> MeasuredRange:
    return MeasuredRange.proportion(row["coverage"], int(row["repeats"]))


_PUBLISHED = {"truncated": "as published", "BIT": "certified"}


def _both(rows: Rows, **where: Any) -> Rows:
    """The paper's two procedures."""
    return [row for name, version in _PUBLISHED.items() for row in pick(rows, mechanism=name, version=version, **where)]


def _pairs(rows: Rows, one: dict[str, Any], other: dict[str, Any], **where: Any) -> list[tuple[Row, Row]]:
    """Rows of two procedures at the same ε, n and target."""
    second = {(row["epsilon"], row["n"], row["target"]): row for row in pick(rows, **other)}
    return [(row, second[row["epsilon"], row["n"], row["target"]]) for row in pick(rows, **one, **where)]


_CUT: dict[str, Any] = {"mechanism": "truncated", "version": "as published"}
_BIT: dict[str, Any] = {"mechanism": "BIT", "version": "certified"}
_RAW: dict[str, Any] = {"mechanism": "original"}


def _inflation(rows: Rows, **where: Any) -> list[MeasuredRange]:
    """RMSE over that of the original proportions."""
    ratios = []
    for one in (_CUT, _BIT):
        for row, raw in _pairs(rows, one, _RAW, **where):
            found, base = _rmse(row), _rmse(raw)
            ratios.append(MeasuredRange(found.value / base.value, found.low / base.high, found.high / base.low))
    return ratios


def _entry(row: Row) -> MeasuredRange:
    """Bias of an entry of the covariance matrix; its error from the percentiles of 500 draws."""
    return MeasuredRange.of(row["mean"] - row["truth"], (row["p97.5"] - row["p2.5"]) / (3.92 * math.sqrt(500)))


def _more_biased(rows: Rows) -> MeasuredRange:
    chosen = {"entry": ("S11", "S22"), "n": (50, 100, 150, 200)}
    bit = {(row["correlation"], row["n"], row["entry"]): row for row in pick(rows, **_BIT, **chosen)}
    gaps = [
        compared(size_of(_entry(row)), size_of(_entry(bit[row["correlation"], row["n"], row["entry"]])))
        for row in pick(rows, **_CUT, **chosen)
    ]
    return average(gaps)


def _spread_left(rows: Rows) -> MeasuredRange:
    """The widest 95 % range at n = 800 over that at n = 50."""
    chosen = pick(rows, entry=("S11", "S22", "S12"), n=(50, 800))
    width = {
        (row["correlation"], row["entry"], row["mechanism"], row["version"], row["n"]): row["p97.5"] - row["p2.5"]
        for row in chosen
    }
    return MeasuredRange.exact(max(width[(*key[:4], 800)] / width[(*key[:4], 50)] for key in width if key[4] == 50))


def _changed(rows: Rows, measure: Callable[[Row], MeasuredRange], **where: Any) -> list[MeasuredRange]:
    """BIT minus truncation."""
    return [compared(measure(bit), measure(cut)) for bit, cut in _pairs(rows, _BIT, _CUT, **where)]


def _targets(rows: Rows, better: str, others: tuple[str, ...]) -> MeasuredRange:
    """Coverage of one target minus that of the others at the same setting, averaged."""
    gaps = []
    for row in _both(rows, target=better, epsilon=(0.1, 0.5)):
        same = {"mechanism": row["mechanism"], "version": row["version"], "epsilon": row["epsilon"], "n": row["n"]}
        gaps += [compared(_covered(row), _covered(other)) for other in pick(rows, target=others, **same)]
    return average(gaps)


def _beside(
    rows: Rows, rescaled: Rows, measure: Callable[[Row], MeasuredRange], over: tuple[float, ...], **where: Any
) -> MeasuredRange:
    """What a method has more of than rescaling at the same ε, n and target; of several ε the least average."""
    base = {(row["mechanism"], row["version"], row["epsilon"], row["n"], row["target"]): row for row in _both(rescaled)}
    gaps = [
        [
            compared(measure(row), measure(base[row["mechanism"], row["version"], epsilon, row["n"], row["target"]]))
            for row in _both(rows, epsilon=epsilon, **where)
        ]
        for epsilon in over
    ]
    return min((average(found) for found in gaps), key=lambda one: one.value)


def _bias_size(row: Row) -> MeasuredRange:
    return size_of(_bias(row))


def _missed(row: Row) -> MeasuredRange:
    """The share of runs in which the interval does not cover."""
    found = _covered(row)
    return MeasuredRange(1 - found.value, 1 - found.high, 1 - found.low)


_claim = partial(PaperClaim, "liu2019")


def _figure(number: int, *said: Any, beside: str | None = None) -> PaperClaim:
    place = f"Figure {number}, section 4.{1 if number == 1 else 2}"
    return _claim(place, *said, part=f"figure-{number}", beside=beside)


FIGURE_CLAIMS: tuple[PaperClaim, ...] = (
    _figure(
        1, "When n was small there was noticeable bias.", "largest bias of a variance at n = 50 over the truth",
        lambda rows: most(
            MeasuredRange(*(getattr(size_of(_entry(row)), name) / row["truth"] for name in ("value", "low", "high")))
            for row in _both(rows, entry=("S11", "S22"), n=50)
        ), 0.1,
    ),
    _figure(
        1, "… except for S12 and r when r = 0.", "average bias of r at r = 0, n ≤ 150, both procedures",
        lambda rows: average(_entry(row) for row in _both(rows, entry="r", correlation=0.0, n=_SMALL)), -0.05, 0.05,
    ),
    _figure(
        1, "Truncated results were more biased than BIT's.",
        "their bias of variances minus BIT's, averaged over n ≤ 200", _more_biased, 0.0,
    ),
    _figure(
        1, "As n increased the dispersion approached 0.", "largest 95 % range at n = 800 over that at n = 50",
        _spread_left, 0.0, 0.5,
    ),
    _figure(
        2, "Minimal bias when ε = 1 and ε = 0.5, across all n.", "largest bias at ε ≥ 0.5",
        lambda rows: most(size_of(_bias(row)) for row in _both(rows, epsilon=(0.5, 1.0))), 0.0, 0.02,
    ),
    _figure(
        2, "Some positive bias of p1 at small n when ε = 0.1.", "bias of p1 at n = 50, both procedures",
        lambda rows: average(_bias(row) for row in _both(rows, epsilon=0.1, target="p1", n=50)), 0.005,
    ),
    _figure(
        2, "… and negative bias of p4.", "bias of p4 at n = 50, both procedures",
        lambda rows: average(_bias(row) for row in _both(rows, epsilon=0.1, target="p4", n=50)), -inf, -0.005,
    ),
    _figure(
        2, "BIT yielded less bias than truncation.", "truncation's bias minus BIT's, p1 and p4, ε = 0.1, n ≤ 150",
        lambda rows: average(
            compared(size_of(_bias(cut)), size_of(_bias(bit)))
            for bit, cut in _pairs(rows, _BIT, _CUT, epsilon=0.1, n=_SMALL, target=("p1", "p4"))
        ), 0.0,
    ),
    _figure(
        2, "The RMSE was inflated compared to the original RMSE.", "smallest inflation at ε = 0.1",
        lambda rows: least(_inflation(rows, epsilon=0.1)), 1.0,
    ),
    _figure(
        2, "The larger n was, the smaller the inflation.", "inflation at n = 50 minus that at n = 500, ε = 0.1",
        lambda rows: compared(
            average(_inflation(rows, epsilon=0.1, n=50)), average(_inflation(rows, epsilon=0.1, n=500))
        ), 0.0,
    ),
    _figure(
        2, "When ε = 1 the sanitized and the original RMSE were basically the same.",
        "largest inflation at ε = 1, n ≥ 450", lambda rows: most(_inflation(rows, epsilon=1.0, n=_LARGE)), 0.0, 1.1,
    ),
    _figure(
        2, "… also at small n.", "average inflation at ε = 1, n = 50",
        lambda rows: average(_inflation(rows, epsilon=1.0, n=50)), 0.0, 1.1,
    ),
    _figure(
        2, "For small n and ε = 0.1 the RMSE of BIT was larger.", "BIT's RMSE minus truncation's, n ≤ 150",
        lambda rows: average(_changed(rows, _rmse, epsilon=0.1, n=_SMALL)), 0.0,
    ),
    _figure(
        2, "Coverage around 95 % at all n when ε = 1.", "lowest coverage at ε = 1",
        lambda rows: least(_covered(row) for row in _both(rows, epsilon=1.0)), 0.92,
    ),
    _figure(
        2, "Coverage of 85 % to 92 % for n in [50, 300] when ε = 0.5.", "share of these settings in which it is",
        lambda rows: votes(
            (_covered(row) for row in _both(rows, epsilon=0.5, n=(50, 100, 150, 200, 250, 300))), low=0.85, high=0.92
        ), 0.9,
    ),
    _figure(
        2, "Coverage of 50 % to 80 % for all n when ε = 0.1.", "share of the settings in which it is",
        lambda rows: votes((_covered(row) for row in _both(rows, epsilon=0.1)), low=0.5, high=0.8), 0.9,
    ),
    _figure(
        2, "BIT had worse under-coverage at small n for ε = 0.1.", "BIT's coverage minus truncation's, n ≤ 150",
        lambda rows: average(_changed(rows, _covered, epsilon=0.1, n=_SMALL)), -inf, 0.0,
    ),
    _figure(
        2, "… and similar coverage in other cases.", "BIT's coverage minus truncation's, ε ≥ 0.5",
        lambda rows: average(_changed(rows, _covered, epsilon=(0.5, 1.0))), -0.01, 0.01,
    ),
    _figure(
        3, "Multiple synthesis: coverage improved significantly, especially for BIT.",
        "lowest coverage of BIT at ε ≥ 0.5",
        lambda rows: least(_covered(row) for row in pick(rows, **_BIT, epsilon=(0.5, 1.0))), 0.9,
    ),
    _figure(
        3, "There was noticeable bias at ε = 0.1.", "largest bias at ε = 0.1",
        lambda rows: most(size_of(_bias(row)) for row in _both(rows, epsilon=0.1)), 0.05,
    ),
    _figure(
        3, "At ε = 0.1 the RMSE did not approach the original RMSE within the examined n.",
        "smallest inflation at ε = 0.1, n = 500", lambda rows: least(_inflation(rows, epsilon=0.1, n=500)), 1.5,
    ),
    _figure(
        4, "All but one: coverage was much worse for p1.",
        "lowest coverage of p2 to p4 minus that of p1, ε = 0.5, n = 50",
        lambda rows: compared(
            least(_covered(row) for row in _both(rows, epsilon=0.5, n=50, target=("p2", "p3", "p4"))),
            least(_covered(row) for row in _both(rows, epsilon=0.5, n=50, target="p1")),
        ), 0.1,
    ),
    _figure(
        4, "All but one: similar bias as rescaling for ε = 0.5 and 1.", "largest bias at ε ≥ 0.5",
        lambda rows: most(size_of(_bias(row)) for row in _both(rows, epsilon=(0.5, 1.0))), 0.0, 0.03,
    ),
    _figure(
        4, "All but one: at ε = 0.1 the bias was smaller at small n than that of re-scaling.",
        "its |bias| minus that of re-scaling, n ≤ 150, averaged",
        lambda rows, other: _beside(rows, other, _bias_size, (0.1,), n=_SMALL), -inf, 0.0, beside="figure-2",
    ),
    _figure(
        4, "… but the RMSE was noticeably larger.", "its RMSE minus that of re-scaling, n ≤ 150, averaged",
        lambda rows, other: _beside(rows, other, _rmse, (0.1,), n=_SMALL), 0.0, beside="figure-2",
    ),
    _figure(
        4, "All but one: similar RMSE as re-scaling for ε = 0.5 and 1.",
        "its RMSE minus that of re-scaling at ε = 1, averaged over n ≥ 100",
        lambda rows, other: _beside(rows, other, _rmse, (1.0,), n=(100, 150, 200, 250, 300)), -0.01, 0.01,
        beside="figure-2",
    ),
    *(
        _figure(
            5, f"Universal histogram: worse than re-scaling in {words} at all ε when n was small.",
            f"its {more} minus that of re-scaling, n ≤ 150, averaged, least over ε",
            lambda rows, other, measure=measure: _beside(rows, other, measure, (0.1, 0.5, 1.0), n=_SMALL), 0.0,
            beside="figure-2",
        )
        for words, more, measure in (
            ("bias", "|bias|", _bias_size), ("RMSE", "RMSE", _rmse),
            ("coverage", "share of intervals that miss", _missed),
        )
    ),
    _figure(
        5, "Universal histogram: worst at ε = 0.1 and small n.", "largest bias at ε = 0.1, n = 50",
        lambda rows: most(size_of(_bias(row)) for row in _both(rows, epsilon=0.1, n=50)), 0.05,
    ),
    _figure(
        7, "p1 + p2, a node, was better than p2 + p3 and p2 + p4.", "its coverage minus theirs, averaged over ε ≤ 0.5",
        lambda rows: _targets(rows, "p1 + p2", ("p2 + p3", "p2 + p4")), 0.0,
    ),
    _figure(
        7, "Compared to re-scaling, p1 + p2 did not appear to be more accurate.",
        "its RMSE minus that of re-scaling, averaged, least over ε",
        lambda rows, other: _beside(rows, other, _rmse, (0.1, 0.5, 1.0), target="p1 + p2"), 0.0, beside="figure-6",
    ),
    _figure(
        7, "… and p2 + p3 and p2 + p4 were worse.", "their RMSE minus that of re-scaling, averaged, least over ε",
        lambda rows, other: _beside(rows, other, _rmse, (0.1, 0.5, 1.0), target=("p2 + p3", "p2 + p4")), 0.0,
        beside="figure-6",
    ),
)  # fmt: skip
"""In the order of the paper."""


# ---- Claims of liu2019 on formulas, decided by quadrature and enumeration
#
# The formulas are written out here again, apart from the laws of the library, so that neither checks itself.


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


FORMULA_CLAIMS: tuple[PaperClaim, ...] = (
    _claim(
        "Section 2.2, (3)", "For p = 2 the generalized Gaussian mechanism draws from N(s, b²/2).",
        "variance of the density of order 2 over b²",
        lambda: float(np.average(_line() ** 2, weights=np.exp(-(_line() ** 2)))), 0.5 - 1e-6, 0.5 + 1e-6,
    ),
    _claim(
        "Section 2.2, (3)", "Pr(Σa_j > b^p − ε·δ_p^p) < δ makes the mechanism (ε, δ)-private.",
        "true δ(0.1) at the scale of that rule for ε = 0.1, δ = 0.01, Δ = 1, p = 4", _true_delta_at_printed_rule,
        0.0, 0.01,
    ),
    _claim(
        "Definition 2 (a)", "The truncated Laplace mechanism with λ = δ₁/ε is of ε-DP.",
        "privacy loss over ε on [0, 1], ε = 1, δ₁ = 0.1", _loss_of_truncation, 0.0, 1 + 1e-9,
    ),
    _claim(
        "Definition 2 (b)", "The BIT Laplace mechanism with λ = δ₁/ε is of ε-DP.",
        "largest log-ratio of densities and masses over ε, ε = 1, δ₁ = 0.1", _loss_of_inflation, 0.0, 1 + 1e-9,
    ),
    _claim(
        "(4)", "The truncated density is normalised by 1 − ½e^(−(c₁−s)/λ) − ½e^((c₀−s)/λ).",
        "largest gap to the integral of Laplace noise over the domain",
        lambda: _largest(lambda s, b: float(np.trapezoid(_bulk(s, b), _X)) - _normaliser(s, b)), -1e-6, 1e-6,
    ),
    _claim(
        "(5)", "The BIT law has mass ½e^(−(s−c₀)/λ) at c₀ and 1 − ½e^(−(c₁−s)/λ) at c₁.",
        "total mass as printed, s = 0.7, λ = 0.3",
        lambda: _normaliser(0.7, 0.3) + _tails(0.7, 0.3)[0] + 1 - _tails(0.7, 0.3)[1], 1 - 1e-9, 1 + 1e-9,
    ),
    _claim(
        "Proposition 1, (6)", "The mean of the truncated law is (6).", "largest gap to quadrature over 28 settings",
        lambda: _largest(lambda s, b: _printed_6(s, b) - _moment(s, b, False, 1)), 0.0, 1e-6,
    ),
    _claim(
        "Proposition 1, (7)", "The mean of the BIT law is (7).", "largest gap to quadrature over 28 settings",
        lambda: _largest(lambda s, b: _printed_7(s, b) - _moment(s, b, True, 1)), 0.0, 1e-6,
    ),
    _claim(
        "Proposition 1 (a)", "Both laws are unbiased if the bounds are symmetric around s.",
        "largest bias of either law at s = ½",
        lambda: max(abs(f(0.5, b)) for f in (_printed_6, _printed_7) for _, b in _GRID), 0.0, 1e-12,
    ),
    _claim(
        "Proposition 1 (a)", "… and only if they are.", "smallest bias of either law elsewhere on the grid",
        lambda: min(abs(f(s, b)) for f in (_printed_6, _printed_7) for s, b in _GRID if s != 0.5), 1e-12, inf,
    ),
    _claim(
        "Proposition 1 (b)", "The direction of the bias is the same between the two.",
        "share of 28 settings with (μ₁ − s)(μ₂ − s) ≥ 0",
        lambda: _share(lambda s, b: _printed_6(s, b) * _printed_7(s, b) >= 0), 1.0, 1.0,
    ),
    _claim(
        "Proposition 1 (c)", "BIT is no more biased than truncation.", "share of 28 settings with |μ₁ − s| ≥ |μ₂ − s|",
        lambda: _share(lambda s, b: abs(_printed_6(s, b)) >= abs(_printed_7(s, b)) - 1e-15), 1.0, 1.0,
    ),
    _claim(
        "Remark 3, (9)", "With c₁ = ∞ the truncated bias is ½(λ − c₀ + s)e^((c₀−s)/λ)/(1 − ½e^((c₀−s)/λ)).",
        "gap to quadrature over [0, 60], s = 0.4, λ = 0.5", lambda: _half_line_bias(0.4, 0.5), -1e-6, 1e-6,
    ),
    _claim(
        "Remark 3", "0 < 1 − ½e^((c₀−s)/λ) < ½.", "1 − ½e^((c₀−s)/λ) at s − c₀ = λ", lambda: 1 - exp(-1) / 2, 0.0, 0.5,
    ),
    _claim(
        "Proposition 2", "The MSE of both laws is at most 2λ².", "largest MSE over 2λ², 28 settings and two laws",
        lambda: max(_moment(s, b, law, 2) / (2 * b * b) for s, b in _GRID for law in (True, False)), 0.0, 1 + 1e-6,
    ),
    _claim(
        "Proposition 2", "The MSE falls as n^(−2k) where δ₁ falls as n^(−k).",
        "slope of log MSE in log λ between λ = 0.01 and 0.02, s = 0.3",
        lambda: math.log(_moment(0.3, 0.02, False, 2) / _moment(0.3, 0.01, False, 2), 2), 1.99, 2.01,
    ),
    _claim(
        "Appendix B", "The MSE of the truncated law is 2λ² minus the printed quotient.",
        "printed MSE over the true one, s = 0.9, λ = 0.05",
        lambda: _printed_mse(0.9, 0.05) / _moment(0.9, 0.05, False, 2), 0.999, 1.001,
    ),
    _claim(
        "Table 1", "The global sensitivity of a variance is (c₁ − c₀)²/n.",
        "largest change by enumeration, n = 5, over that", lambda: 5 * _replaced(_variance, [(0,), (0.5,), (1,)], 5),
        1 - 1e-9, 1 + 1e-9,
    ),
    _claim(
        "Table 1", "The global sensitivity of a covariance is (c_j1 − c_j0)(c_j'1 − c_j'0)/n.",
        "largest change by enumeration, n = 4, over that",
        lambda: 4 * _replaced(_covariance, list(product((0, 1), repeat=2)), 4), 1 - 1e-9, 1 + 1e-9,
    ),
    _claim(
        "Table 1", "A variance is at most n(c₁ − c₀)²/(4(n − 1)).", "largest variance of six values over that",
        lambda: float(max(np.var(rows, ddof=1) for rows in product((0, 0.5, 1), repeat=6))) / (6 / 20), 0.0, 1 + 1e-9,
    ),
    _claim(
        "Section 4.2", "The sensitivity of proportions is 2/n where a record is substituted.",
        "largest ℓ₁ change by enumeration, n = 5, times n",
        lambda: 5 * _shares_move(5, replaced=True), 2 - 1e-9, 2 + 1e-9,
    ),
    _claim(
        "Section 4.2", "… and 1/n where a record is deleted (and n is known).",
        "largest ℓ₁ change of counts over n by enumeration, n = 5, times n",
        lambda: 5 * _shares_move(5, replaced=False), 1 - 1e-9, 1 + 1e-9,
    ),
    _claim(
        "Supplement D, Def 2", "Where a record is deleted, δ₁ of the vector of proportions is 1/n.",
        "largest ℓ₁ change of shares among each data set's own rows by enumeration, n = 5, times n",
        lambda: 5 * _own_shares_move(5), 1 - 1e-9, 1 + 1e-9,
    ),
    _claim(
        "Supplement G, Def 1", "The sensitivity of a pooled variance is W²(1 − 1/n_max)/(n − J).",
        "largest change by enumeration, cells of 2 and 4, over that", lambda: _pooled((2, 4), False) / (3 / 4 / 4),
        1 - 1e-9, 1 + 1e-9,
    ),
    _claim(
        "Supplement G, Def 2", "… also where a record is deleted, for n > 2J.",
        "largest change by enumeration, cells of 2 and 4, over that", lambda: _pooled((2, 4), True) / (3 / 4 / 4),
        1 - 1e-9, 1 + 1e-9,
    ),
    _claim(
        "Supplement G, Def 2", "For n = 2J it is W²(n − 1)/(n(n − 2)).",
        "largest change by enumeration, three cells of 2, over that", lambda: _pooled((2, 2, 2), True) / (5 / 24),
        1 - 1e-9, 1 + 1e-9,
    ),
    _claim(
        "Supplement H, Def 1", "The sensitivity of a pooled covariance is W₁W₂(1 − 1/n_max)/(n − J).",
        "largest change by enumeration, cells of 2 and 3 whose rows keep their cell, over that",
        lambda: _pooled((2, 3), False, columns=2) / (2 / 3 / 3), 1 - 1e-9, 1 + 1e-9,
    ),
)  # fmt: skip


def _own_shares_move(n: int) -> float:
    """Largest ℓ₁ change when one of n rows of three categories leaves, each data set divided by its own size."""
    moves = []
    for rows in product(range(3), repeat=n):
        counts = np.bincount(rows, minlength=3)
        for label in set(rows):
            fewer = counts - (np.arange(3) == label)
            moves.append(float(np.abs(counts / n - fewer / (n - 1)).sum()))
    return max(moves)


def _pooled(sizes: tuple[int, ...], deleted: bool, columns: int = 1) -> float:
    """Largest change of a pooled variance, or covariance, of values 0 and 1 when a row is replaced or deleted."""
    cells = np.repeat(np.arange(len(sizes)), sizes)

    def spread(rows: Array, kept: Any) -> float:
        total = 0.0
        for cell in range(len(sizes)):
            own = rows[kept & (cells == cell)]
            apart = own - own.mean(axis=0)
            total += float((apart[:, 0] * apart[:, -1]).sum())
        return total / (int(kept.sum()) - len(sizes))

    everyone, most = np.ones(cells.size, dtype=bool), 0.0
    values = list(product((0.0, 1.0), repeat=columns))
    firsts = np.cumsum((0, *sizes[:-1]))  # rows of a cell are alike, so the first of each may be the one that moves
    for chosen in product(values, repeat=cells.size):
        rows = np.array(chosen)
        before = spread(rows, everyone)
        for place in firsts:
            if deleted:
                most = max(most, abs(before - spread(rows, np.arange(cells.size) != place)))
                continue
            for other in values:
                moved = rows.copy()
                moved[place] = other
                most = max(most, abs(before - spread(moved, everyone)))
    return most


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
