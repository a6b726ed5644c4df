"""liu2023 section 6, Table 3: a generated case of the same shape as its click-through data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from discreet.core.guarantee import PureDP
from discreet.papers.comparisons import simulated_contrast
from discreet.papers.figure import Figure
from discreet.papers.liu2023_simulation import EPSILONS
from discreet.papers.outcomes import Sample
from discreet.papers.study import Part, Row

__all__ = ["CASE", "HISTOGRAMS"]

CENSORS = ((0.1, 0.1), (0.15, 0.05))
"""Table 3's own: the simulation's asymmetric case is the other way round."""
BOUNDS = (0.0, 50_000.0)
"""Public bounds of the clicks of a device; differences of partitions lie in ±50,000."""
OPTIMISTIC = (0.0, 100.0)
"""What the paper gives 2S instead, "unrealistically optimistic": partition differences in ±100."""
METHODS = ("original", "2S", "6S", "6SDD", "4S", "4SDD", "naive", "direct", "noise_aware")
SYMMETRIC = ("winsorized", "trimmed")

PAPER_SE = {
    "original": (25.46,) * 5,
    "2S": (2400.0, 2042.0, 921.2, 489.8, 66.31),
    "6S": (98.06, 25.51, 7.853, 10.09, 7.770),
    "6SDD": (60.12, 61.88, 7.852, 8.083, 7.811),
    "4S": (84.36, 21.40, 27.14, 8.905, 7.721),
    "4SDD": (204.3, 22.82, 12.26, 8.422, 7.717),
    "winsorized": (142.6, 52.89, 10.63, 9.523, 7.927),
    "trimmed": (152.1, 59.81, 12.15, 10.44, 7.927),
    "naive": (150.4, 99.29, 10.54, 4.766, 4.687),
}
"""Table 3, α = β = 0.1: standard errors in thousandths at ε = 0.5, 1, 2, 5, 50."""


def _case_cells(quick: bool) -> list[dict[str, Any]]:
    """Table 3 is one data set with one draw each; draws are repeated here, so that their spread shows."""
    return [{"n": 100_000 if quick else 3_364_743, "P": 100 if quick else 800, "draws": 5 if quick else 40}]


def _clicks(n: int, rng: np.random.Generator) -> Any:
    """Clicks per device: two thirds zeros, a long tail, and a few devices with tens of thousands of clicks."""
    clicks = np.floor(rng.lognormal(0.88, 1.4, n)) * (rng.random(n) < 0.34)
    clicks[:12] = rng.uniform(5_000, 46_000, 12)
    return rng.permutation(clicks)


def _case_rows(parameters: Mapping[str, Any], seed: int) -> Iterable[Row]:
    """Every method, budget and censoring on one data set, ``draws`` times."""
    rng = np.random.default_rng(seed)
    n, partitions, draws = parameters["n"], parameters["P"], parameters["draws"]
    size = n // partitions
    arms = [_clicks(size * partitions, rng) for _ in range(2)]
    sums = [clicks.reshape(partitions, size).sum(axis=1) for clicks in arms]
    sample = Sample(
        differences=np.repeat(((sums[1] - sums[0]) / size)[None], draws, axis=0),
        sums=np.repeat(np.array([[clicks.sum() for clicks in arms]]), draws, axis=0),
        squares=np.repeat(np.array([[(clicks**2).sum() for clicks in arms]]), draws, axis=0),
        n=size * partitions,
    )
    for censor in CENSORS:
        for name in (*METHODS, *(SYMMETRIC if censor[0] == censor[1] else ())):
            for budget in EPSILONS:
                bounds = OPTIMISTIC if name == "2S" else BOUNDS
                found = simulated_contrast(
                    name, sample, PureDP(budget), bounds=bounds, censor=censor, rng=rng, as_published=True
                )
                estimate, half = np.ravel(found.estimate), np.ravel(found.half_width(0.95))
                errors = 1000 * np.ravel(found.standard_error)
                low, middle, high = np.quantile(errors, [0.1, 0.5, 0.9])
                yield {
                    "α": censor[0],
                    "β": censor[1],
                    "method": name,
                    "ε": budget,
                    "estimate": float(np.median(estimate)),
                    "SE": float(middle),
                    "SE low": float(low),
                    "SE high": float(high),
                    "holds 0": float((np.abs(estimate) <= half).mean()),
                    "draws": draws,
                }


def _shown(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["ε"] in (0.5, 1.0, 5.0) and row["α"] == row["β"]]


def _figure(name: str, title: str, censor: tuple[float, float]) -> Figure:
    printed = (
        tuple(
            {"ε": budget, "SE": value, "method": method, "α": 0.1}
            for method, values in PAPER_SE.items()
            for budget, value in zip(EPSILONS, values, strict=True)
        )
        if censor == CENSORS[0]
        else ()
    )
    return Figure(
        name=name, title=title, x="ε", y="SE", low="SE low", high="SE high", column="method", log_x=True, log_y=True,
        measure="standard error (10⁻³)", where=(("α", censor[0]),),
        paper=printed,
    )  # fmt: skip


# ---- Figure 2: histograms of the generated case --------------------------------------------------------------------


def _histogram_cells(quick: bool) -> list[dict[str, Any]]:
    return [{"n": 100_000 if quick else 3_364_743, "P": 100 if quick else 800}]


def histogram_rows(parameters: Mapping[str, Any], seed: int) -> Iterable[Row]:
    """Clicks per device in classes that double, and differences of partition means in 25 equal classes."""
    rng = np.random.default_rng(seed)
    size = parameters["n"] // parameters["P"]
    arms = [_clicks(size * parameters["P"], rng) for _ in range(2)]
    edges = np.array([0, 1, *(2**k for k in range(1, 17))])
    counts = np.histogram(np.concatenate(arms), edges)[0]
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        label = f"{low}" if high == low + 1 else f"{low}–{high - 1}"
        if count:  # the axis is logarithmic
            yield {"panel of": "clicks", "class": label, "from": float(low + 1), "count": int(count)}
    sums = [clicks.reshape(parameters["P"], size).sum(axis=1) for clicks in arms]
    differences = (sums[1] - sums[0]) / size
    counts, places = np.histogram(differences, 25)
    for low, count in zip(places[:-1], counts, strict=True):
        yield {"panel of": "differences", "class": f"{low:.2f}", "from": float(low), "count": int(count)}


HISTOGRAMS = Part(
    name="figure-2",
    title="Figure 2: the generated case, before and after partitioning",
    cells=_histogram_cells,
    compute=histogram_rows,
    figures=(
        Figure(
            name="figure-2-clicks", title="Figure 2 (a): clicks per device, classes that double", x="from", y="count",
            log_x=True, log_y=True, measure="devices", x_words="1 + least clicks of the class",
            where=(("panel of", "clicks"),),
        ),
        Figure(
            name="figure-2-differences", title="Figure 2 (b): differences of partition means", x="from", y="count",
            measure="partitions", x_words="difference of means, from", where=(("panel of", "differences"),),
        ),
    ),
)  # fmt: skip


CASE = Part(
    name="table-3",
    title="Table 3: a generated case of the same shape",
    cells=_case_cells,
    compute=_case_rows,
    shown=_shown,
    figures=(
        _figure("table-3-symmetric", "Table 3, α = β = 0.1: median and the middle 80 % of 40 draws", CENSORS[0]),
        _figure(
            "table-3-asymmetric", "Table 3, α = 0.15, β = 0.05: median and the middle 80 % of 40 draws", CENSORS[1]
        ),
    ),
)
