"""liu2023 section 5: the simulations of Table 1, and Figures 3 to 50 in the paper's layout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import sqrt
from statistics import median
from typing import Any

import numpy as np

from discreet.core.guarantee import Guarantee, PureDP, ZeroConcentratedDP
from discreet.inference.two_sample import Contrast
from discreet.papers.comparisons import LAWS, Sample, simulated_contrast, summary
from discreet.papers.figure import LETTERS, Figure, noted, told_apart, worded
from discreet.papers.study import Row, with_ends

# ---- MetricGrid: one line of panels for each measure, one column for each setting, as papers on simulations draw


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One line of panels.

    Parameters
    ----------
    column
        Where the values stand.
    words
        Label of the axis.
    scale
        ``"linear"``, ``"log"``, or ``"symlog"`` for values of both signs that differ by powers of ten.
    target
        A value to compare with, drawn as a grey line.
    within
        Half the width of a grey band around it: the Monte-Carlo error of a method that meets the target.
    bars
        Whether columns with ``low`` and ``high`` after their name hold two Monte-Carlo standard errors on either side.
    """

    column: str
    words: str
    scale: str = "linear"
    target: float | None = None
    within: float = 0.0
    bars: bool = True


@dataclass(frozen=True, kw_only=True)
class MetricGrid(Figure):
    """Panels of several measures over the same settings; ``column`` separates the settings.

    Parameters
    ----------
    metrics
        The measures, from top to bottom.
    panel
        Width and height of one panel, in pixels.
    """

    metrics: tuple[Metric, ...]
    panel: tuple[int, int] = (130, 120)

    def selected(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows that are drawn."""
        return [row for row in rows if all(row[name] == value for name, value in self.where)]

    def caption(self) -> str:
        """The caption of the panels."""
        measures = ", ".join(metric.words for metric in self.metrics)
        told = f"{self.title}: {measures} against {worded(self.x)}, one line for each {worded(self.colour or '')}"
        bands = any(metric.within for metric in self.metrics)
        grey = "; grey: the target; bars: two standard errors of the simulation on either side." if bands else "."
        return told + grey + self._noted()

    def chart(self, rows: Sequence[dict[str, Any]]) -> Any:
        """The Altair chart."""
        import altair as alt

        selected = self.selected(rows)
        lines = [self._line(metric, selected, place == 0) for place, metric in enumerate(self.metrics)]
        drawn = alt.vconcat(*lines, spacing=8).resolve_scale(color="shared", shape="shared", strokeDash="shared")
        drawn = drawn.properties(padding=4).configure(aria=False)
        return noted(drawn.configure_axis(**LETTERS).configure_legend(orient="bottom", **LETTERS), self.note)

    def _line(self, metric: Metric, rows: Sequence[dict[str, Any]], first: bool) -> Any:
        """One measure over all settings, on one scale."""
        import altair as alt

        name, column = metric.column, self.column or ""
        kept = (self.x, self.colour or "", column)
        ends = (f"{name} low", f"{name} high") if metric.bars else ()
        values = [
            {**{key: row[key] for key in kept}, **{key: row[key] for key in (name, *ends)}}
            for row in rows
            if row[name] is not None
        ]
        if metric.scale == "log":
            values = [row for row in values if row[name] > 0]
        scale: dict[str, Any] = {"type": metric.scale, "zero": False}
        if metric.scale == "symlog":
            scale["constant"] = median(abs(row[name]) for row in values) or 1.0  # half of the values: as they are
        y = alt.Y(field=name, type="quantitative", title=metric.words, scale=alt.Scale(**scale), axis=_axis(metric))
        encoding = {"x": self._x(values), "y": y, **told_apart(values, self.colour or "", 900, lines=not self.dots)}
        layers: list[Any] = []
        if metric.target is not None:
            base = alt.Chart()
            if metric.within:
                low, high = metric.target - metric.within, metric.target + metric.within
                layers.append(base.mark_rect(color="#dddddd").encode(y=alt.datum(low), y2=alt.datum(high)))
            layers.append(base.mark_rule(color="#888888").encode(y=alt.datum(metric.target)))
        base = alt.Chart()
        if ends:
            bars = {key: encoding[key] for key in ("x", "color")}
            bars["y"] = alt.Y(field=ends[0], type="quantitative", title=metric.words)
            layers.append(base.mark_rule(opacity=0.7).encode(**bars, y2=alt.Y2(field=ends[1])))
        layers.append(base.mark_line(strokeWidth=1.2).encode(**{k: v for k, v in encoding.items() if k != "shape"}))
        if self.dots:
            marks = base.mark_point(filled=True, size=18, opacity=1)
            layers.append(marks.encode(**{k: v for k, v in encoding.items() if k != "strokeDash"}))
        order = list(dict.fromkeys(row[column] for row in rows))
        header = alt.Header(title=None, labels=first, labelFontSize=12, labelPadding=3)
        facet = alt.Column(field=column, type="nominal", sort=order, header=header)
        wide, high_ = self.panel
        layered = alt.layer(*layers).properties(width=wide, height=high_)
        return layered.facet(column=facet, data=alt.InlineData(values=values), spacing=8)


def _axis(metric: Metric) -> Any:
    import altair as alt

    number = "abs(datum.value) >= 10000 ? format(datum.value, '~s') : format(datum.value, '~g')"
    return alt.Axis(labelExpr=number, labelOverlap="greedy", tickCount=3 if metric.scale == "log" else 4)


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
    Metric(column="width", words="width of intervals", scale="log", bars=False),
)
_ERROR = Metric(column="rejected", words="type I error", target=0.05, within=2 * sqrt(0.95 * 0.05 / REPEATS))
_POWER = Metric(column="rejected", words="power", target=1.0)


def drawn(rows: list[Row]) -> list[Row]:
    """The rows of the figures, smallest n first, each with the label of its panel."""
    ordered = with_ends(sorted(rows, key=lambda row: (row["n"], row["P"])), _errors)
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


def _errors(row: Row) -> dict[str, float]:
    """Monte-Carlo standard errors of one row: of a mean, of a root mean square of normal errors, of two shares."""
    spread = sqrt(max(row["rmse"] ** 2 - row["bias"] ** 2, 0.0) / REPEATS)
    found = {"bias": spread, "rmse": row["rmse"] / sqrt(2 * REPEATS)}
    return found | {name: sqrt(row[name] * (1 - row[name]) / REPEATS) for name in ("coverage", "rejected")}


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
