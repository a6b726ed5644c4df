"""liu2023 section 5: the simulations of Table 1, and Figures 3 to 50 in the paper's layout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import sqrt
from typing import Any

import numpy as np

from discreet.core.guarantee import Guarantee, PureDP, ZeroConcentratedDP
from discreet.inference.arm_means import Contrast
from discreet.papers.comparisons import simulated_contrast, summary
from discreet.papers.metric_grid import Metric, MetricGrid
from discreet.papers.outcomes import LAWS, Sample
from discreet.papers.study import Row

__all__ = [
    "CENSORS", "EPSILONS", "MAIN", "RHOS", "SIZES", "blocks", "certified_cells", "compute", "drawn", "joined", "shown",
    "simulation_cells", "simulation_figures", "simulation_rows",
]  # fmt: skip

SIZES: dict[int, tuple[int, ...]] = {
    1_000: (100,),
    10_000: (100, 500, 1_000),
    100_000: (100, 500, 1_000, 5_000, 10_000),
    1_000_000: (100, 300, 700, 1_000, 5_000, 10_000, 50_000, 100_000),
}
"""Table 1: the 17 pairs of n (units per arm) and P."""
MAIN = ((100_000, 100), (1_000_000, 100), (1_000_000, 300), (1_000_000, 700), (1_000_000, 1_000))
"""The pairs of the paper's main text."""
EPSILONS = (0.5, 1.0, 2.0, 5.0, 50.0)
RHOS = (0.005, 0.02, 0.08, 0.32, 1.28)
CENSORS = ((0.1, 0.1), (0.05, 0.15))
LIKELIHOOD = ("2S", "6S", "6SDD", "4S", "4SDD", "naive", "naiveDD", "naive5", "naive5DD")
SYMMETRIC = ("winsorized", "trimmed")
REPEATS = 500
_BLOCK = 4_000_000
"""Partition values held at once."""


def _guarantee(kind: str, budget: float) -> Guarantee:
    return PureDP(budget) if kind == "ε-DP" else ZeroConcentratedDP(budget)


def blocks(parameters: Mapping[str, Any], seed: int) -> Iterable[tuple[Sample, np.random.Generator]]:
    """Samples in blocks of repeats that fit the memory."""
    rng = np.random.default_rng(seed)
    law, repeats, partitions = LAWS[parameters["law"]], parameters["repeats"], parameters["P"]
    rows = max(1, _BLOCK // max(partitions, parameters["n"] // 20))
    for start in range(0, repeats, rows):
        count = min(rows, repeats - start)
        yield law.sample(parameters["n"], partitions, count, parameters["different"], rng), rng


def joined(parts: Sequence[Contrast]) -> Contrast:
    """Contrasts of several blocks as one."""
    if len(parts) == 1:
        return parts[0]
    deviations = [np.asarray(part.noise) for part in parts]
    return Contrast(
        estimate=np.concatenate([part.estimate for part in parts]),
        sampling_variance=np.concatenate([part.sampling_variance for part in parts]),
        df=np.concatenate([part.df for part in parts]),
        noise=_wide(deviations, [part.estimate.shape[0] for part in parts]),
        kurtosis=parts[0].kurtosis,
    )


def _wide(deviations: Sequence[Any], rows: Sequence[int]) -> Any:
    pairs = zip(deviations, rows, strict=True)
    wide = [one if one.ndim == 2 else np.broadcast_to(one[:, None], (len(one), n)) for one, n in pairs]
    return np.concatenate(wide, axis=1)


Job = tuple[str, bool, tuple[float, float], float]
"""Method, whether as published, censoring, budget."""


def compute(parameters: Mapping[str, Any], seed: int, jobs: Sequence[Job]) -> dict[Job, dict[str, Any]]:
    """Run all jobs on the same samples and summarise each."""
    law = LAWS[parameters["law"]]
    found: dict[Job, list[Contrast]] = {job: [] for job in jobs}
    for sample, rng in blocks(parameters, seed):
        for job in jobs:
            name, published, censor, budget = job
            guarantee = _guarantee(parameters["guarantee"], budget)
            found[job].append(
                simulated_contrast(
                    name, sample, guarantee, bounds=law.bounds, censor=censor, rng=rng, as_published=published
                )
            )
    truth = law.effect(parameters["different"])
    return {job: summary(joined(parts), truth) for job, parts in found.items()}


def simulation_cells(quick: bool) -> list[dict[str, Any]]:
    """The 17 pairs of Table 1, three laws, two effects and two guarantees."""
    pairs = MAIN[:1] if quick else tuple((n, p) for n, all_p in SIZES.items() for p in all_p)
    repeats = 40 if quick else REPEATS
    return [
        {"law": law, "different": different, "n": n, "P": p, "guarantee": kind, "repeats": repeats}
        for n, p in pairs for law in LAWS for different in (False, True) for kind in ("ε-DP", "ρ-zCDP")
    ]  # fmt: skip


def simulation_rows(parameters: Mapping[str, Any], seed: int, published: bool = True) -> Iterable[Row]:
    """Every method at every budget and censoring, on the same samples."""
    budgets = EPSILONS if parameters["guarantee"] == "ε-DP" else RHOS
    jobs = []
    for budget in budgets:
        for censor in CENSORS:
            names = (*LIKELIHOOD, *(SYMMETRIC if censor[0] == censor[1] else ()))
            jobs += [(name, published, censor, budget) for name in names]
        jobs += [(name, False, CENSORS[0], budget) for name in ("original", "direct", "noise_aware")]
    for (name, _, censor, budget), values in compute(parameters, seed, jobs).items():
        yield {
            "law": parameters["law"],
            "θ": LAWS[parameters["law"]].effect(parameters["different"]),
            "n": parameters["n"],
            "P": parameters["P"],
            "guarantee": parameters["guarantee"],
            "budget": budget,
            "α": censor[0],
            "β": censor[1],
            "method": name,
            **values,
        }


def shown(rows: list[Row]) -> list[Row]:
    """The pairs of the main text at ε = 1 or ρ = 0.02, symmetric censoring, without effect; the file has all."""
    return [
        {name: value for name, value in row.items() if name not in (_PAIR, "different", "main")}
        for row in rows
        if row["budget"] in (1.0, 0.02) and row["α"] == row["β"] and row["θ"] == 0 and (row["n"], row["P"]) in MAIN
    ]


def certified_cells(quick: bool) -> list[dict[str, Any]]:
    """The pairs of the main text, without effect."""
    pairs, repeats = (MAIN[:1], 50) if quick else (MAIN, 500)
    return [
        {"law": law, "different": False, "n": n, "P": p, "guarantee": "ε-DP", "repeats": repeats}
        for n, p in pairs for law in LAWS
    ]  # fmt: skip


# ---- Figures 3 to 50 ----------------------------------------------------------------------------------------------

_PAIR = "pair"
_DRAWN = ("original", "direct", "2S", "4S", "4SDD", "6S", "6SDD", "winsorized", "trimmed", "naive")
"""The methods of the paper's figures, and the library's default."""
_METRICS = (
    Metric(column="bias", words="bias", scale="symlog", target=0.0),
    Metric(column="rmse", words="RMSE", scale="log"),
    Metric(column="coverage", words="coverage", target=0.95, within=2 * sqrt(0.95 * 0.05 / REPEATS)),
    Metric(column="width", words="width of intervals", scale="log"),
)
_ERROR = Metric(column="rejected", words="type I error", target=0.05, within=2 * sqrt(0.95 * 0.05 / REPEATS))
_POWER = Metric(column="rejected", words="power", target=1.0)


def drawn(rows: list[Row]) -> list[Row]:
    """The rows of the figures, smallest n first, each with the label of its panel."""
    ordered = sorted(rows, key=lambda row: (row["n"], row["P"]))
    return [
        {
            **row,
            _PAIR: f"n={_short(row['n'])}, P={_short(row['P'])}",
            "different": row["θ"] != 0,
            "main": (row["n"], row["P"]) in MAIN,
        }
        for row in ordered
        if row["method"] in _DRAWN
    ]


def _short(number: int) -> str:
    return f"{number // 10**6}m" if number >= 10**6 else f"{number // 1000}k" if number >= 1000 else str(number)


def simulation_figures() -> tuple[MetricGrid, ...]:
    """Figures 3 to 26 on the five pairs of the main text, and 27 to 50 on the other twelve."""
    laws, guarantees = ("Gaussian", "ZINB", "ZILN"), ("ε-DP", "ρ-zCDP")
    settings = list(product(laws, CENSORS, (False, True), guarantees))
    return tuple(
        _figure(first + place, *setting, main=main) for first, main in ((3, True), (27, False))
        for place, setting in enumerate(settings)
    )  # fmt: skip


def _figure(
    number: int, law: str, censor: tuple[float, float], different: bool, guarantee: str, *, main: bool
) -> MetricGrid:
    alike = "α = β = 0.1" if censor[0] == censor[1] else "α = 0.05, β = 0.15"
    effect = "θ ≠ 0" if different else "θ = 0"
    return MetricGrid(
        name=f"figure-{number}",
        title=f"Figure {number}, {guarantee}, {law} data, {alike}, {effect}",
        x="budget",
        y="rmse",
        x_words="ε" if guarantee == "ε-DP" else "ρ",
        colour="method",
        column=_PAIR,
        log_x=True,
        where=(
            ("law", law), ("guarantee", guarantee), ("α", censor[0]), ("different", different), ("main", main),
        ),
        cells=(("law", law), ("different", different), ("guarantee", guarantee)),
        metrics=(*_METRICS, _POWER if different else _ERROR),
        panel=(130, 120) if main else (90, 90),
        dots=main,
    )  # fmt: skip
