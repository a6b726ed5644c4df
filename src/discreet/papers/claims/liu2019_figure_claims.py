"""Claims of liu2019 on its figures, decided by the stored runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from math import inf
from typing import Any

from discreet.papers.claims.stored_rows import average, least, most, pick, size_of
from discreet.papers.paper_claim import Claim, Measured, Rows, compared

__all__ = ["FIGURE_CLAIMS"]

Row = dict[str, Any]
_SMALL, _LARGE = (50, 100, 150), (450, 500)


def _bias(row: Row) -> Measured:
    return Measured.of(row["bias"], math.sqrt(max(row["rmse"] ** 2 - row["bias"] ** 2, 0.0) / row["repeats"]))


def _rmse(row: Row) -> Measured:
    return Measured.of(row["rmse"], row["rmse"] / math.sqrt(2 * row["repeats"]))


def _covered(row: Row) -> Measured:
    return Measured.proportion(row["coverage"], int(row["repeats"]))


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


def _inflation(rows: Rows, **where: Any) -> list[Measured]:
    """RMSE over that of the original proportions."""
    ratios = []
    for one in (_CUT, _BIT):
        for row, raw in _pairs(rows, one, _RAW, **where):
            found, base = _rmse(row), _rmse(raw)
            ratios.append(Measured(found.value / base.value, found.low / base.high, found.high / base.low))
    return ratios


def _entry(row: Row) -> Measured:
    """Bias of an entry of the covariance matrix; its error from the percentiles of 500 draws."""
    return Measured.of(row["mean"] - row["truth"], (row["p97.5"] - row["p2.5"]) / (3.92 * math.sqrt(500)))


def _more_biased(rows: Rows) -> Measured:
    chosen = {"entry": ("S11", "S22"), "n": (50, 100, 150, 200)}
    bit = {(row["correlation"], row["n"], row["entry"]): row for row in pick(rows, **_BIT, **chosen)}
    gaps = [
        compared(size_of(_entry(row)), size_of(_entry(bit[row["correlation"], row["n"], row["entry"]])))
        for row in pick(rows, **_CUT, **chosen)
    ]
    return average(gaps)


def _spread_left(rows: Rows) -> Measured:
    """The widest 95 % range at n = 800 over that at n = 50."""
    chosen = pick(rows, entry=("S11", "S22", "S12"), n=(50, 800))
    width = {
        (row["correlation"], row["entry"], row["mechanism"], row["version"], row["n"]): row["p97.5"] - row["p2.5"]
        for row in chosen
    }
    return Measured.exact(max(width[(*key[:4], 800)] / width[(*key[:4], 50)] for key in width if key[4] == 50))


def _changed(rows: Rows, measure: Callable[[Row], Measured], **where: Any) -> list[Measured]:
    """BIT minus truncation."""
    return [compared(measure(bit), measure(cut)) for bit, cut in _pairs(rows, _BIT, _CUT, **where)]


def _targets(rows: Rows, better: str, others: tuple[str, ...]) -> Measured:
    """Coverage of one target minus that of the others at the same setting, averaged."""
    gaps = []
    for row in _both(rows, target=better, epsilon=(0.1, 0.5)):
        same = {"mechanism": row["mechanism"], "version": row["version"], "epsilon": row["epsilon"], "n": row["n"]}
        gaps += [compared(_covered(row), _covered(other)) for other in pick(rows, target=others, **same)]
    return average(gaps)


def _figure(
    number: int, claim: str, statistic: str, measure: Callable[[Rows], Measured], low: float = -inf, high: float = inf
) -> Claim:
    place = f"Figure {number}, section 4.{1 if number == 1 else 2}"
    return Claim(
        paper="liu2019", place=place, claim=claim, statistic=statistic, measure=measure, low=low, high=high,
        part=f"figure-{number}",
    )  # fmt: skip


FIGURE_CLAIMS: tuple[Claim, ...] = (
    _figure(
        1, "When n was small there was noticeable bias.", "largest bias of a variance at n = 50 over the truth",
        lambda rows: most(
            Measured(*(getattr(size_of(_entry(row)), name) / row["truth"] for name in ("value", "low", "high")))
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
        "average inflation at ε = 1, n ≥ 450", lambda rows: average(_inflation(rows, epsilon=1.0, n=_LARGE)), 0.0, 1.1,
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
        2, "Coverage of 85 % to 92 % for n in [50, 300] when ε = 0.5.", "average coverage over these settings",
        lambda rows: average(_covered(row) for row in _both(rows, epsilon=0.5, n=(50, 100, 150, 200, 250, 300))),
        0.85, 0.92,
    ),
    _figure(
        2, "Coverage of 50 % to 80 % for all n when ε = 0.1.", "average coverage at ε = 0.1",
        lambda rows: average(_covered(row) for row in _both(rows, epsilon=0.1)), 0.5, 0.8,
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
        5, "Universal histogram: worst at ε = 0.1 and small n.", "largest bias at ε = 0.1, n = 50",
        lambda rows: most(size_of(_bias(row)) for row in _both(rows, epsilon=0.1, n=50)), 0.05,
    ),
    _figure(
        7, "p1 + p2, a node, was better than p2 + p3 and p2 + p4.", "its coverage minus theirs, averaged over ε ≤ 0.5",
        lambda rows: _targets(rows, "p1 + p2", ("p2 + p3", "p2 + p4")), 0.0,
    ),
)  # fmt: skip
"""In the order of the paper."""
