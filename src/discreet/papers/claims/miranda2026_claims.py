"""Claims of miranda2026: the theorems by enumeration, the experiments by the stored runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from math import exp, inf, log
from typing import Any

import numpy as np

from discreet.papers.study import MeasuredRange, PaperClaim, Rows, average, compared, least, most, pick, votes

Row = dict[str, Any]
_SETTINGS = tuple(
    (e, m, M) for e, m, M in product((0.0, 0.5, 1.0, 2.0), (0.1, 0.3, 0.5, 0.7), (0.2, 0.4, 0.6, 0.9)) if m <= M
)


def _bound(epsilon: float, m: float, M: float) -> float:
    """ε^S of Theorem 5.4, as printed, with p on a grid."""
    p = np.linspace(0.0, 1.0, 2001)
    e = exp(epsilon)
    mixed, other = p * M + (1 - p) * m, ((M + m) - p * M) / (2 - p)
    first = np.log(e - (e - 1) * mixed) + p * M / m + (1 - p) * (1 - m) / (1 - mixed) - 1
    second = np.log(e - (e - 1) * (p * M + (1 - p) * other)) + p * M / m + (1 - p) * (1 - other) / (1 - M) - 1
    third = -log(1 / e + (1 - 1 / e) * M) + 1 - (1 - M) / (1 - m)
    return float(max(first.max(), second.max(), third))


@dataclass(frozen=True)
class _Clusters:
    """A database of two clusters and a new record: distances within each, between them, and to the new record."""

    inside: tuple[float, float]
    between: float
    new: tuple[float, float]

    def is_metric(self) -> bool:
        """True where every triangle closes."""
        b, (x, y) = self.between, self.new
        closed = all(own <= 2 * min(b, one) for own, one in zip(self.inside, self.new, strict=True))
        return closed and b <= x + y and x <= b + y and y <= b + x

    def loss(self, epsilon: float, m: float, M: float, counts: tuple[int, int]) -> float:
        """The larger of both directions of Theorem 5.3, with its logarithm.

        Records are suppressed independently, so the worst subset takes the worse of two outcomes for each record.
        """
        n = sum(counts)
        forward = backward = 0.0
        for own, other, inside, new in zip(counts, counts[::-1], self.inside, self.new, strict=True):
            if own:
                total = (own - 1) * inside + other * self.between
                a, b = m + (M - m) * total / n, m + (M - m) * (total + new) / (n + 1)
                forward += own * max(log(b / a), log((1 - b) / (1 - a)))
                backward += own * max(log(a / b), log((1 - a) / (1 - b)))
        out = m + (M - m) * sum(c * d for c, d in zip(counts, self.new, strict=True)) / (n + 1)
        return max(log(out + exp(epsilon) * (1 - out)) + forward, -log(out + exp(-epsilon) * (1 - out)) + backward)


_SHAPES = [
    one
    for i, j, b, x, y in product((0.0, 1.0), (0.0, 1.0), (0.0, 0.5, 1.0), (0.0, 0.5, 1.0), (0.0, 0.5, 1.0))
    if (one := _Clusters((i, j), b, (x, y))).is_metric()
]


def _largest_found(epsilon: float, m: float, M: float, n: int = 400) -> float:
    """The largest loss over databases of n records in two clusters."""
    counts = [(near, n - near) for near in range(0, n + 1, 40)]
    return max(shape.loss(epsilon, m, M, pair) for pair in counts for shape in _SHAPES)


def _worst_excess() -> float:
    return max(_largest_found(*setting) - _bound(*setting) for setting in _SETTINGS)


def _reached() -> float:
    """The part of the bound reached on the diagonal and where the maximum is at p = 0 or 1: the best of the grid."""
    return max(_largest_found(*s) / _bound(*s) for s in _SETTINGS if s[0] > 0)


def _cut_at_half(n: int) -> int:
    """Records in which S_K of neighbours differs, K = ½: n of one kind against n or n − 1 of another (discrete)."""

    def kept(first: int, second: int) -> tuple[int, int]:
        half = (first + second) / 2
        return (first if second <= half else 0), (second if first <= half else 0)

    one, other = kept(n, n), kept(n - 1, n)
    return sum(abs(a - b) for a, b in zip(one, other, strict=True))


def _cut_farthest_half(n: int) -> int:
    """The same for the rule that deletes the half farthest from all, and all of those that tie with it."""

    def kept(first: int, second: int) -> tuple[int, int]:
        if first == second:
            return 0, 0
        # Records of the smaller group are farther; the half is all of it where the groups differ by one.
        return (first, 0) if first > second else (0, second)

    one, other = kept(n, n), kept(n - 1, n)
    return sum(abs(a - b) for a, b in zip(one, other, strict=True))


def _group_loss(epsilon: float, moved: int) -> float:
    """Largest log-ratio of two-sided geometric noise on a count that moves by some, over the group bound."""
    return max(epsilon * (abs(k) - abs(k - moved)) for k in range(-50, 60)) / (epsilon * moved)


def _above_poisson(epsilon: float, m: float, M: float) -> float:
    """The loss of databases minus the Poisson bound at the largest chance of keeping a record in them.

    Copies of one record keep each other with 1 − m, as n → ∞; a record that all others are copies of does so exactly.
    """
    far = max(shape.loss(epsilon, m, M, (4000, 0)) for shape in _SHAPES)
    return far - _poisson(epsilon, 1 - m)


def _poisson(epsilon: float, rate: float) -> float:
    return math.log1p(rate * math.expm1(epsilon))


def _difference(row: Row) -> MeasuredRange:
    """u(M) − u(M∘S) with its Monte-Carlo error."""
    error = abs(row["difference"] / row["z"]) if row["z"] else 0.0
    return MeasuredRange.of(row["difference"], error)


def _with(row: Row) -> MeasuredRange:
    return MeasuredRange.of(row["with"], (row["high"] - row["low"]) / 3.92)


def _spent(rows: Rows, **where: Any) -> Rows:
    """Settings at equal privacy that have a budget."""
    return [row for row in pick(rows, **{"noise reduction": True}, **where) if row["with"] is not None]


def _rates(rows: Rows, test: Callable[[float], bool], **where: Any) -> Rows:
    return [row for row in _spent(rows, **where) if test(row["rate"])]


def _relative(row: Row) -> MeasuredRange:
    """u(M∘S)/u(M)."""
    found = _with(row)
    return MeasuredRange(*(getattr(found, name) / row["without"] for name in ("value", "low", "high")))


def _differs(row: Row) -> bool:
    """False for a tie: both fail always or never, to the last repeat."""
    return bool(row["difference"])


def _worse_rates(rows: Rows) -> MeasuredRange:
    """The least share of rates at which sampling loses, over columns, mechanisms and budgets."""
    groups: dict[tuple[Any, ...], list[MeasuredRange]] = {}
    for row in _rates(rows, lambda r: r < 1):
        groups.setdefault((row["subject"], row["method"], row["epsilon"]), []).append(_difference(row))
    return least(votes(found, high=0.0) for found in groups.values())


def _even_is_better(rows: Rows) -> MeasuredRange:
    """The share of settings, but ties, in which a Poisson sample of as many records has the better utility."""
    return votes(map(_difference, filter(_differs, rows)), high=0.0)


def _worsens(rows: Rows) -> MeasuredRange:
    """Loss at ε = 2 minus that at ε = 0.25 for the same m and M, averaged."""
    early = {(r["subject"], r["method"], r["m"], r["M"]): r for r in _spent(rows, epsilon=0.25)}
    late = {(r["subject"], r["method"], r["m"], r["M"]): r for r in _spent(rows, epsilon=2.0)}
    return average(compared(_difference(early[key]), _difference(late[key])) for key in early if key in late)


def _split_ratio(rows: Rows, rates: Callable[[float], bool]) -> MeasuredRange:
    """The largest NICV over that at rate 1, with noise of su2017's scale."""

    def nicv(row: Row) -> MeasuredRange:
        return MeasuredRange.of(row["NICV"], row["standard error"])

    whole = {row["epsilon"]: nicv(row) for row in rows if row["rate"] == 1}
    pairs = [(nicv(row), whole[row["epsilon"]]) for row in rows if row["rate"] < 1 and rates(row["rate"])]
    return most(MeasuredRange(one.value / base.value, one.low / base.high, one.high / base.low) for one, base in pairs)


def _cost(rows: Rows, reading: str, epsilon: float, rate: float) -> MeasuredRange:
    (row,) = pick(rows, reading=reading, epsilon=epsilon, rate=rate)
    return MeasuredRange.of(row["cost"], row["standard error"])


_AGE = {"subject": "adult age"}
_SIMILAR = "share of settings with M > m, but ties, that lose more than Poisson sampling of as many records"


_claim = partial(PaperClaim, "miranda2026")


def _run(place: str, part: str, *said: Any, depends: str = "") -> PaperClaim:
    return _claim(place, *said, part=part, depends=depends)


CLAIMS: tuple[PaperClaim, ...] = (
    _claim(
        "Theorem 5.3", "ε^S is the largest ratio, and the bound is tight for Poisson sampling.",
        "printed ratio 1 − r + r·e^ε over the tight ε^S, ε = 1, rate r = ½",
        lambda: (0.5 + 0.5 * exp(1)) / _poisson(1.0, 0.5), 1 - 1e-9, 1 + 1e-9,
    ),
    _claim(
        "Theorem 5.4", "M∘S is (ε^S, δ^S)-DP with the printed ε^S.",
        "largest loss of databases of 400 records minus ε^S, 40 settings", _worst_excess, -inf, 2e-7,
    ),
    _claim(
        "Theorem 5.4, Proposition B.12", "The result is tight where the maximum is at p = 0 or p = 1.",
        "largest share of ε^S that such a database reaches", _reached, 0.99, 1 + 1e-6,
    ),
    _claim(
        "Section 5.3", "M − m = 0 provides uniform Poisson sampling.",
        "largest gap between ε^S and the Poisson bound on the diagonal",
        lambda: max(abs(_bound(e, m, m) - _poisson(e, 1 - m)) for e in (0.5, 1.0, 2.0) for m in (0.1, 0.5, 0.9)),
        0.0, 1e-9,
    ),
    _claim(
        "Section 5.3", "ε^S increases as m → 0.", "ε^S at m = 0.001, M = ½, ε = 1",
        lambda: _bound(1.0, 0.001, 0.5), 100.0,
    ),
    _claim(
        "Section 5.3", "ε^S increases as M → 1.", "ε^S at m = ½, M = 0.999, ε = 1",
        lambda: _bound(1.0, 0.5, 0.999), 100.0,
    ),
    _claim(
        "Section 5.3", "The ratio ε^S/ε converges to 1 when ε → ∞.", "ratio at ε = 700, m = 0.3, M = 0.6",
        lambda: _bound(700.0, 0.3, 0.6) / 700, 0.99, 1.01,
    ),
    _claim(
        "Corollary B.13", "Outlier-score suppression amplifies no more than Poisson sampling at rate 1 − m.",
        "smallest ε^S minus the Poisson bound, 40 settings",
        lambda: min(_bound(e, m, M) - _poisson(e, 1 - m) for e, m, M in _SETTINGS), -1e-9,
    ),
    _claim(
        "Proposition B.1", "The group bound ε·ΔS of deterministic suppression is tight.",
        "loss of geometric noise where three records move, over 3ε", lambda: _group_loss(0.7, 3), 1 - 1e-9, 1 + 1e-9,
    ),
    _claim(
        "Proposition B.2", "Deleting records farther than K from all has an infinite sensitivity.",
        "records that change with one of 2,000, K = ½", lambda: float(_cut_at_half(1000)), 999.0,
    ),
    _claim(
        "Proposition B.3", "So has deleting the share p of the farthest records.",
        "records that change with one of 2,000, p = ½", lambda: float(_cut_farthest_half(1000)), 999.0,
    ),
    _claim(
        "Proposition B.8", "No suppression amplifies more than Poisson sampling at its largest chance of keeping.",
        "least loss of databases of 4,000 records minus that bound, 40 settings",
        lambda: min(_above_poisson(*setting) for setting in _SETTINGS), -1e-3,
    ),
    _run(
        "Figure 2", "figure-2", "Values increase as M − m increases.",
        "share of grid points at which ε^S does not fall from M to the next M",
        lambda rows: _monotone(rows), 1.0,
    ),
    _run(
        "Figure 2", "figure-2", "Amplification happens near the diagonal.",
        "share of the diagonal that amplifies, ε > 0",
        lambda rows: votes(
            (
                MeasuredRange.exact(float(row["amplifies"]))
                for row in rows if row["m"] == row["M"] and row["epsilon"] > 0
            ), low=1.0,
        ), 1.0,
    ),
    _run(
        "Figure 1, section 3", "sampling-mean",
        "The error of the mean stays below 0.25 % for sampling rates above 0.4.",
        "largest percent error, Adult age, Laplace, rates above 0.4",
        lambda rows: most(_with(row) for row in _rates(rows, lambda r: r > 0.4, method="laplace", **_AGE)), 0.0, 0.25,
    ),
    _run(
        "Figure 1, section 3", "sampling-mean", "… and below 2 % near 0.", "largest percent error over all rates",
        lambda rows: most(_with(row) for row in _rates(rows, lambda r: True, method="laplace", **_AGE)), 0.0, 2.0,
    ),
    _run(
        "Section 3", "sampling-mean", "It always increases with respect to no sampling.",
        "share of rates up to 0.8 with a larger error, Adult age",
        lambda rows: votes((_difference(row) for row in _rates(rows, lambda r: r <= 0.8, **_AGE)), high=0.0), 1.0,
    ),
    _run(
        "Section 3, Figures 4–9", "sampling-mean", "Sampling is worse for all databases, ε and almost all rates.",
        "share of rates at which it is worse, least over columns, mechanisms and ε",
        lambda rows: _worse_rates(rows), 0.85,
    ),
    _run(
        "Section 3, Figures 10–13", "sampling-mode", "Sampling is worse for modes too.",
        "share of settings with rates up to 0.9, but ties, in which it is worse",
        lambda rows: votes(
            (_difference(row) for row in _rates(rows, lambda r: r <= 0.9) if _differs(row)), high=0.0
        ), 0.9,
    ),
    _run(
        "Section 3", "sampling-mode", "On hours-per-week both provide a failure probability of 0.",
        "largest failure rate for rates from 0.1 on",
        lambda rows: most(
            MeasuredRange.proportion(row["with"], 2000)
            for row in _rates(rows, lambda r: r >= 0.1, subject="adult hours-per-week")
        ), 0.0, 0.005,
    ),
    _run(
        "Section 3", "sampling-mode", "On age noisy max (Laplace) fails with less than 18 % without sampling.",
        "largest failure rate without sampling",
        lambda rows: MeasuredRange.proportion(
            max(row["without"] for row in _spent(rows, method="noisy max, Laplace", **_AGE)), 2000
        ), 0.0, 0.18,
    ),
    _run(
        "Section 3", "sampling-mode", "… and with over 60 % for most sampling rates.",
        "share of rates and ε with more than 60 %",
        lambda rows: votes((_with(row) for row in _spent(rows, method="noisy max, Laplace", **_AGE)), low=0.6), 0.5,
    ),
    _run(
        "Section 3, Figure 14", "sampling-clustering", "DPLloyd stays close to its utility without sampling …",
        "largest NICV over that without sampling, rates from 0.2 on",
        lambda rows: most(_relative(row) for row in _rates(rows, lambda r: r >= 0.2, method="DPLloyd")), 0.0, 1.25,
        depends="The paper prints no split of ε and refers to su2017, whose noise the next claim takes",
    ),
    _run(
        "Section 3, Figure 14", "lloyd-su2017", "… with noise of scale (d + 1)T/ε, as su2017 has it.",
        "largest NICV over that without sampling, rates from 0.2 on",
        lambda rows: _split_ratio(rows, lambda r: r >= 0.2), 0.0, 1.25,
    ),
    _run(
        "Section 3, Figure 14", "lloyd-su2017", "… and with that noise it spikes at around rate 0.1.",
        "largest NICV over that without sampling, rates up to 0.1",
        lambda rows: _split_ratio(rows, lambda r: r <= 0.1), 1.25,
    ),
    _run(
        "Section 3, Figure 14", "sampling-clustering", "… until spiking at around rate 0.1.",
        "largest NICV over that without sampling, rates up to 0.1",
        lambda rows: most(_relative(row) for row in _rates(rows, lambda r: r <= 0.1, method="DPLloyd")), 1.25,
    ),
    _run(
        "Section 3, Figure 14", "sampling-clustering",
        "k-median shows a utility degradation similar to the previous plots.",
        "average cost with sampling over that without",
        lambda rows: average(_relative(row) for row in _rates(rows, lambda r: True, method="k-median")), 1.1,
        depends="The paper does not say how ε is divided among the choices, and shows one data set: the next claim "
        "tries another division",
    ),
    _run(
        "Section 3, Figure 14", "k-median", "… if every choice spends the whole ε (a reading that this page tries).",
        "cost at rate 0.1 minus that without sampling, averaged over the paper's ε",
        lambda rows: average(
            compared(_cost(rows, "ε for each choice", e, 0.1), _cost(rows, "ε for each choice", e, 1.0))
            for e in (0.25, 0.5, 1.0, 2.0)
        ), 0.0,
    ),
    _run(
        "Section 6, Figure 3", "suppression-mean", "The difference in percent errors remains below 0.6 points.",
        "largest loss, Adult age, Laplace",
        lambda rows: most(
            MeasuredRange(-d.value, -d.high, -d.low) for d in map(_difference, _spent(rows, method="laplace", **_AGE))
        ), 0.0, 0.6,
    ),
    _run(
        "Section 6", "suppression-mean", "There are almost no points where suppression improves utility.",
        "share of settings in which it does not",
        lambda rows: votes(map(_difference, _spent(rows)), high=0.0), 0.9,
    ),
    _run(
        "Section 6, Figure 3", "suppression-mode", "Up to 87.9 points more failures of noisy max (Laplace) on age.",
        "largest loss",
        lambda rows: most(
            MeasuredRange(-d.value, -d.high, -d.low)
            for d in map(_difference, _spent(rows, method="noisy max, Laplace", **_AGE))
        ), 0.85, 0.91,
    ),
    _run(
        "Section 6", "similar-mode",
        "In the great majority of cases the diagonal shows the least utility loss (at similar proportions).",
        _SIMILAR, _even_is_better, 0.8,
    ),
    _run(
        "Section 6", "similar-mean", "… also for means.", _SIMILAR, _even_is_better, 0.8,
    ),
    _run(
        "Section 6", "suppression-mode", "The utility difference worsens as ε increases.",
        "loss at ε = 2 minus that at ε = 0.25 for the same m and M, averaged", _worsens, 0.0,
    ),
    _run(
        "Section 6, Figure 3", "suppression-clustering", "DPLloyd: the difference remains small all throughout.",
        "average NICV over that without suppression",
        lambda rows: average(_relative(row) for row in _spent(rows, method="DPLloyd")), 0.0, 1.5,
    ),
    _run(
        "Section 6", "suppression-clustering", "k-median: M∘S provides worse utility than M.",
        "average of u(M) − u(M∘S)",
        lambda rows: average(_difference(row) for row in _spent(rows, method="k-median")), -inf, 0.0,
    ),
    _run(
        "Section 6, Figures 43 and 73", "suppression-clustering", "k-median: the difference remains small.",
        "average cost over that without suppression",
        lambda rows: average(_relative(row) for row in _spent(rows, method="k-median")), 0.0, 1.5,
    ),
    _run(
        "Section 6", "suppression-clustering", "DPLloyd improves a little at m = M = 0.1 for ε = 0.25 and 0.5.",
        "smaller of the two gains",
        lambda rows: least(
            _difference(row) for row in _spent(rows, method="DPLloyd", m=0.1, M=0.1, epsilon=(0.25, 0.5))
        ), 0.0,
    ),
)  # fmt: skip
"""In the order of the paper."""


def _monotone(rows: Rows) -> MeasuredRange:
    found = {(row["epsilon"], row["m"], row["M"]): row["bound"] for row in rows}
    uppers = sorted({row["M"] for row in rows})
    later = dict(pairwise(uppers))
    steps = [found[e, m, later[M]] >= value - 1e-9 for (e, m, M), value in found.items() if M in later]
    return MeasuredRange.exact(sum(steps) / len(steps))
