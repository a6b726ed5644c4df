"""Claims of lee2022 on its figures, decided by the stored runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf, sqrt
from typing import Any

from discreet.papers.claims.stored_rows import average, most, pick
from discreet.papers.paper_claim import Claim, Measured, Rows, compared, votes

__all__ = ["FIGURE_CLAIMS"]

Row = dict[str, Any]
GAUSSIAN = ("M_G", "M_r", "M_JS0", "M_JS", "M_rJS")
_OPEN = "none, as published"
_CUT = "nonnegative, as published"


def _curve(rows: Rows, name: str) -> dict[float, float]:
    return {row["alpha"]: row["type II error"] for row in pick(rows, curve=name)}


def _closest(rows: Rows, name: str) -> Measured:
    """The smallest distance of a curve from G_1 inside (0, 1)."""
    base, other = _curve(rows, "1-GDP"), _curve(rows, name)
    return Measured.exact(min(other[alpha] - base[alpha] for alpha in base if 0 < alpha < 1))


def _falling(rows: Rows) -> Measured:
    """How often a curve lies at or below the one with more equal shifts."""
    found = {(row["lambda_2"], row["lambda_1 / lambda_2"], row["alpha"]): row["type II error"] for row in rows}
    shares = sorted({row["lambda_1 / lambda_2"] for row in rows})
    gaps = [
        Measured.exact(found[total, one, alpha] - value)
        for (total, share, alpha), value in found.items()
        for one in shares[: shares.index(share)][-1:]
    ]
    return votes(gaps, low=-1e-7)


def _order(rows: Rows) -> Measured:
    right = [row["b from epsilon"] > row["b from Delta_1"] > row["b tight"] for row in rows]
    return Measured.exact(sum(right) / len(right))


def _cost(row: Row, column: str = _OPEN) -> Measured:
    """A simulated cost; the stored error is that of the clipped cost, which is no larger by much."""
    return Measured.of(row[column], 2 * row["standard error"])


def _over(one: Measured, other: Measured) -> Measured:
    return Measured(one.value / other.value, one.low / other.high, one.high / other.low)


def _steady(rows: Rows) -> Measured:
    """The largest change of the costs of M_G and M_r from N = 50 to N = 1600."""
    ratios = []
    for late in pick(rows, mechanism=("M_G", "M_r"), n=1600):
        same = {name: late[name] for name in ("model", "p", "mu", "mechanism")}
        ratios.append(_over(_cost(pick(rows, n=50, **same)[0]), _cost(late)))
    return average(ratios)


def _cut_helps(rows: Rows, **where: Any) -> list[Measured]:
    return [_over(_cost(row, _CUT), _cost(row)) for row in pick(rows, **where)]


def _never_worse(rows: Rows) -> Measured:
    """Both costs come from the same draws, so their order is exact."""
    return Measured.exact(sum(row[_CUT] <= row[_OPEN] for row in rows) / len(rows))


def _shrunk_least(rows: Rows) -> Measured:
    """M_JS's gain by truncation minus M_rJS's."""
    gaps = []
    for row in pick(rows, mechanism="M_JS", n=50):
        same = {name: row[name] for name in ("model", "p", "mu", "n")}
        (other,) = pick(rows, mechanism="M_rJS", **same)
        gaps.append(compared(_over(_cost(row, _CUT), _cost(row)), _over(_cost(other, _CUT), _cost(other))))
    return average(gaps)


def _rate(row: Row, name: str) -> Measured:
    return Measured.proportion(row[name], int(row["runs"]))


def _sizes(rows: Rows, **where: Any) -> list[Measured]:
    return [_rate(row, "size") for row in pick(rows, mechanism=("M_Lap", *GAUSSIAN), **where)]


def _ahead(rows: Rows, name: str, others: Iterable[str], **where: Any) -> list[Measured]:
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


def _figure(
    place: str, part: str, claim: str, statistic: str, measure: Callable[[Rows], Measured], low: float = -inf,
    high: float = inf,
) -> Claim:  # fmt: skip
    return Claim(
        paper="lee2022", place=place, claim=claim, statistic=statistic, measure=measure, low=low, high=high, part=part
    )  # fmt: skip


FIGURE_CLAIMS: tuple[Claim, ...] = (
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
        lambda rows: Measured.exact(
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
        "its power minus theirs, averaged", lambda rows: average(_ahead(rows, "M_Lap", GAUSSIAN, **_FIT)), -inf, 0.0,
    ),
    _figure(
        "Figure 11", "figure-9-12", "Homogeneity tests control the type I error except for μ = 0.1 and p = 18.",
        "average size elsewhere",
        lambda rows: average([*_sizes(rows, **_SAME, p=9), *_sizes(rows, **_SAME, p=18, mu=0.3)]), 0.04, 0.06,
    ),
    _figure(
        "Figure 11", "figure-9-12", "For μ = 0.1 and p = 18, M_JS does not control it up to N = 1500.",
        "average size of M_JS for N from 500 to 1500",
        lambda rows: average(_rate(row, "size") for row in pick(rows, mechanism="M_JS", n=(500, 1000, 1500), **_HARD)),
        0.05,
    ),
    _figure(
        "Figure 11", "figure-9-12", "… and does so beyond.", "largest size of M_JS for N ≥ 2000",
        lambda rows: most(_rate(row, "size") for row in pick(rows, mechanism="M_JS", n=(2000, 3000), **_HARD)),
        0.0, _LIMIT,
    ),
    _figure(
        "Figure 12", "figure-9-12", "The Laplace mechanism has the lowest power.",
        "its power minus the others', averaged",
        lambda rows: average(_ahead(rows, "M_Lap", GAUSSIAN, **_SAME)), -inf, 0.0,
    ),
    _figure(
        "Figure 12", "figure-9-12", "For μ = 0.1 and p = 18, M_JS still performs better for N > 1500.",
        "its power minus the others', N ≥ 2000, averaged",
        lambda rows: average(_ahead(rows, "M_JS", ("M_G", "M_r", "M_JS0", "M_rJS"), n=(2000, 3000), **_HARD)), 0.0,
    ),
)  # fmt: skip
"""In the order of the paper."""
