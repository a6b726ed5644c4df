"""liu2023: private A/B tests on zero-inflated, skewed outcomes, as published, certified, and with the direct method."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import PureDP, ZeroConcentratedDP
from discreet.core.sensitivity import Sensitivity
from discreet.inference.two_sample import CensoredNormal, Contrast, LocationEstimate, contrast
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace
from discreet.papers.claims.liu2023_claims import CLAIMS, PRINTED_SE, PRINTED_SE_ASYMMETRIC
from discreet.papers.comparisons import LAWS, Sample, direct, simulated_contrast, summary
from discreet.papers.figure import Figure
from discreet.papers.liu2023_simulation import (
    EPSILONS,
    MAIN,
    RHOS,
    blocks,
    certified_cells,
    compute,
    drawn,
    joined,
    shown,
    simulation_cells,
    simulation_figures,
    simulation_rows,
)
from discreet.papers.study import Part, Row, Study, grid
from discreet.questions.comparison import paper
from discreet.questions.comparison.methods import Spending, placed

# ---- liu2023 section 6, Table 3: a generated case of the same shape as its click-through data


CENSORS = ((0.1, 0.1), (0.15, 0.05))
"""Table 3's own: the simulation's asymmetric case is the other way round."""
BOUNDS = (0.0, 50_000.0)
"""Public bounds of the clicks of a device; differences of partitions lie in ±50,000."""
OPTIMISTIC = (0.0, 100.0)
"""The bounds that the paper gives 2S instead, "unrealistically optimistic": partition differences in ±100."""
METHODS = ("original", "2S", "6S", "6SDD", "4S", "4SDD", "naive", "direct", "noise_aware")
SYMMETRIC = ("winsorized", "trimmed")


FILES = ("train.csv", "avazu.csv")
"""Names of the paper's own file, 10 days of Avazu's click-through data, one of them in the folder of ``--data``."""
_DEVICES, _PARTITIONS = 3_364_743, 800
"""Devices of an arm, half of the 6,729,486 of the file, and the paper's P."""
_EXTREMES = np.array([45_987, *np.linspace(5_000, 15_000, 11)])
"""Clicks of the most active devices of an arm; the footnote of Table 3 prints the largest."""


def _clicks(n: int, rng: np.random.Generator) -> Any:
    """Clicks per device: 66 % zeros, a long tail, and a few devices with thousands of clicks.

    Chosen so that what section 6 prints is met: 66 % zeros, and, for 3,364,743 devices an arm, a standard error of
    0.0255 without privacy and of 0.0077 where partition differences are censored.
    """
    clicks = np.ceil(rng.lognormal(0.88, 1.4, n)) * (rng.random(n) < 0.34)
    clicks[: _EXTREMES.size] = _EXTREMES
    return rng.permutation(clicks)


def _file_of(folder: str | Path) -> Path | None:
    """The paper's file in a folder; None where it has none."""
    return next((Path(folder) / name for name in FILES if (Path(folder) / name).is_file()), None)


@dataclass(frozen=True)
class ClickData:
    """Clicks per device of two arms of equal size: of the paper's file, or generated."""

    folder: str = ""

    def cells(self, settings: Mapping[str, Any], quick: bool) -> list[dict[str, Any]]:
        """The one cell of a part; it says which data it takes, as a file and a stand-in give different rows."""
        files = {"data": "file"} if self.folder else {}
        small = {"n": 100_000, "P": 100} if quick else {"n": _DEVICES, "P": _PARTITIONS}
        return [{**small, **settings, **files}]

    def case_cells(self, quick: bool) -> list[dict[str, Any]]:
        """Table 3 is one data set with one draw each; draws are repeated here, so that their spread shows."""
        return self.cells({"draws": 5 if quick else 40}, quick)

    def histogram_cells(self, quick: bool) -> list[dict[str, Any]]:
        return self.cells({}, quick)

    def arms(self, n: int, partitions: int, rng: np.random.Generator) -> tuple[Any, Any, int]:
        """Clicks of two arms of at most n devices each in random order, in whole partitions, and their size."""
        if self.folder:
            everyone = rng.permutation(_read_clicks(self.folder))[: 2 * n]
            size = len(everyone) // (2 * partitions)
            both = everyone[: 2 * size * partitions].reshape(2, -1)
            return both[0], both[1], size
        size = n // partitions
        return _clicks(size * partitions, rng), _clicks(size * partitions, rng), size

    def case_rows(self, parameters: Mapping[str, Any], seed: int) -> Iterable[Row]:
        """Every method, budget and censoring on one data set, ``draws`` times."""
        rng = np.random.default_rng(seed)
        partitions, draws = parameters["P"], parameters["draws"]
        *arms, size = self.arms(parameters["n"], partitions, rng)
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
                    below, above = (np.ravel(end) for end in found.ends(0.95))
                    errors = 1000 * np.ravel(found.standard_error)
                    low, middle, high = np.quantile(errors, [0.1, 0.5, 0.9])
                    estimates = np.ravel(found.estimate)
                    yield {
                        "α": censor[0],
                        "β": censor[1],
                        "method": name,
                        "ε": budget,
                        "estimate": float(np.median(estimates)),
                        "estimate low": float(np.quantile(estimates, 0.1)),
                        "estimate high": float(np.quantile(estimates, 0.9)),
                        "SE": float(middle),
                        "SE low": float(low),
                        "SE high": float(high),
                        "holds 0": float(((below <= 0) & (above >= 0)).mean()),
                        "draws": draws,
                    }

    def histogram_rows(self, parameters: Mapping[str, Any], seed: int) -> Iterable[Row]:
        """Clicks per device in classes that double, and differences of partition means in 25 equal classes."""
        rng = np.random.default_rng(seed)
        *arms, size = self.arms(parameters["n"], parameters["P"], rng)
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


def _read_clicks(folder: str) -> Array:
    """Clicks of every device of the file: the sum of ``click`` by ``device_ip``, as in section 6."""
    from pyarrow import csv, int64, string

    types = {"click": int64(), "device_ip": string()}
    table = csv.read_csv(
        _file_of(folder), convert_options=csv.ConvertOptions(include_columns=list(types), column_types=types)
    )
    clicks = table.group_by("device_ip").aggregate([("click", "sum")])["click_sum"].to_numpy()
    # Groups come in any order; the split of a seed is to be the same everywhere.
    return np.sort(np.asarray(clicks, dtype=float))


def _shown(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["ε"] in (0.5, 1.0, 5.0) and row["α"] == row["β"]]


def _figure(name: str, words: str, censor: tuple[float, float], table: Mapping[str, Sequence[float | None]]) -> Figure:
    printed = tuple(
        {"ε": budget, "SE": value, "method": method, "α": censor[0]}
        for method, values in table.items()
        for budget, value in zip(EPSILONS, values, strict=True)
        if value is not None
    )
    return Figure(
        name=name, title=f"Table 3, {words}: median and the middle 80 % of 40 draws", x="ε", y="SE", low="SE low",
        high="SE high", column="method", log_x=True, log_y=True, measure="standard error (10⁻³)",
        where=(("α", censor[0]),), paper=printed,
    )  # fmt: skip


# ---- liu2023: how fast a private quantile converges (Theorem 4), and readings of the doubling-down forms
#
# The paper reports that 4SDD and 6SDD under-cover where the means differ. Algorithm 2 as printed does not show it for
# 6SDD. What it leaves open is tried here: whether the m sanitizations share one pair (l*, u*), whether the counts are
# taken at the sanitized or at the raw quantiles, and what happens to ends in the wrong order.


Array = NDArray[np.float64]
M = 4


# ---- Theorem 4 and Corollary 5 ------------------------------------------------------------------------------------


def _quantile_cells(quick: bool) -> list[dict[str, Any]]:
    repeats = 1_000 if quick else 20_000
    return [{"P": p, "ε": 1.0, "q": 0.1, "repeats": repeats} for p in (50, 100, 200, 400, 800, 1600)]


def quantile_rows(parameters: Mapping[str, Any], seed: int) -> Iterable[Row]:
    """Mean and mean square of l* − l for normal values, as published: no end intervals, weights exp(−ε|j − qP|)."""
    rng = np.random.default_rng(seed)
    p, epsilon, q, repeats = (parameters[name] for name in ("P", "ε", "q", "repeats"))
    found: list[Array] = []
    away: list[Array] = []
    for _ in range(20):
        ordered = np.sort(rng.standard_normal((repeats // 20, p)), axis=1)
        drawn = paper.simulated_quantiles(ordered, q, epsilon, None, 1, rng)[:, 0]
        found.append(drawn - ordered[:, int(q * p + 1e-9) - 1])
        away.append(drawn - stats.norm.ppf(q))
    gap, total = np.concatenate(found), np.concatenate(away)
    density = float(stats.norm.pdf(stats.norm.ppf(q)))
    yield {
        "P": p,
        "mean": float(gap.mean()),
        "mean error": float(gap.std() / sqrt(gap.size)),
        "square": float((gap**2).mean()),
        "square error": float((gap**2).std() / sqrt(gap.size)),
        "P²·square": float(p**2 * (gap**2).mean()),
        "total": float((total**2).mean()),
        "total error": float((total**2).std() / sqrt(gap.size)),
        "log claimed": float(np.log(2 / 3) - 2 * p * epsilon - 2 * np.log(p * density)),
    }


# ---- readings of the doubling-down forms ---------------------------------------------------------------------------

_VARIANTS: dict[str, tuple[bool, bool, bool]] = {
    "as printed": (False, False, True),
    "counts at the raw quantiles": (False, True, True),
    "one pair (l*, u*) for all m": (True, False, True),
    "one pair, raw counts": (True, True, True),
    "ends in the wrong order are kept": (False, False, False),
}
"""True where the m rounds share (l*, u*), where counts are raw, and where crossed ends are put in order."""


def _reading_cells(quick: bool) -> list[dict[str, Any]]:
    grids = (("Gaussian", 100),) if quick else (("Gaussian", 100), ("Gaussian", 1_000), ("ZINB", 100))
    repeats = 50 if quick else 500
    return [
        {"law": law, "P": p, **cell} for law, p in grids
        for cell in grid(n=1_000_000, ε=(0.5, 2.0, 5.0), different=(False, True), repeats=repeats)
    ]  # fmt: skip


def reading_rows(parameters: Mapping[str, Any], seed: int) -> Iterable[Row]:
    """Coverage of 4SDD and 6SDD under each reading, α = 0.05 and β = 0.15."""
    law, rng = LAWS[parameters["law"]], np.random.default_rng(seed)
    sample = law.sample(parameters["n"], parameters["P"], parameters["repeats"], parameters["different"], rng)
    for name, reading in _VARIANTS.items():
        for counts in (False, True):
            found = _estimates(sample.ordered, PureDP(parameters["ε"]), law.bounds, counts, reading, rng)
            values = summary(paper.combined(found), law.effect(parameters["different"]))
            yield {
                "reading": name, "method": "6SDD" if counts else "4SDD", "law": law.name, "P": parameters["P"],
                "ε": parameters["ε"], "θ": law.effect(parameters["different"]),
                "case": "means differ" if parameters["different"] else "no effect",
                **{column: values[column] for column in ("coverage", "bias", "width")},
                "repeats": parameters["repeats"],
            }  # fmt: skip


def _estimates(
    ordered: paper.Ordered, guarantee: PureDP, bounds: tuple[float, float], counts: bool,
    reading: tuple[bool, bool, bool], rng: np.random.Generator,
) -> LocationEstimate:  # fmt: skip
    """m estimates for every row of partition values."""
    shared, raw, sorts = reading
    alpha, beta, p, width = 0.05, 0.15, ordered.count, bounds[1] - bounds[0]
    spending = Spending(guarantee, rng).split([1.0] * ((6 if counts else 4) * M))[0]
    sanitizer = paper.Sanitizer(spending, (-width, width), M, as_published=True)
    low, high = (sanitizer.quantile(ordered.values, q) for q in (alpha, 1 - beta))
    if shared:
        low, high = (np.repeat(end[:, :1], M, axis=1) for end in (low, high))
    if sorts:
        low, high = np.minimum(low, high), np.maximum(low, high)
    rows = range(len(low))
    first, last = (np.stack([np.searchsorted(ordered.values[i], end[i]) for i in rows]) for end in (low, high))
    at = [int(p * alpha + 1e-9), p - int(p * beta + 1e-9)]
    sums = [
        np.where(last > first, _between(run, first, last), 0.0) for run in (ordered.running, ordered.running_squares)
    ]
    total = sanitizer.add(sums[0], np.abs(high - low))
    squares = sanitizer.add(sums[1], np.maximum(low**2, high**2))
    if counts:
        begin, end = (np.full(low.shape, at[0]), np.full(low.shape, at[1])) if raw else (first, last)
        below = np.clip(sanitizer.add(begin.astype(float), 1.0), 0, p)
        above = np.clip(sanitizer.add((p - end).astype(float), 1.0), 0, p)
        inside = np.maximum(p - below - above, 1.0)
    else:
        below = np.full(low.shape, float(at[0]))
        above = np.full(low.shape, float(p - at[1]))
        inside = np.full(low.shape, float(at[1] - at[0]))
    found = CensoredNormal(
        below=below, inside=inside, above=above, lower=low, upper=high, total=total, squares=squares
    ).posterior(17)  # fmt: skip
    return LocationEstimate(np.clip(found.estimate, -width, width), np.minimum(found.variance, width**2))


def _between(running: Array, first: Any, last: Any) -> Array:
    return np.asarray(np.take_along_axis(running, last, axis=1) - np.take_along_axis(running, first, axis=1))


def _finding(rows: list[Row]) -> str:
    def mean(reading: str, method: str, case: str) -> str:
        found = [row for row in rows if (row["reading"], row["method"], row["case"]) == (reading, method, case)]
        return f"{np.mean([row['coverage'] for row in found]):.0%}"

    printed, shared, both = "as printed", "one pair (l*, u*) for all m", "one pair, raw counts"
    return (
        f"As printed, 6SDD covers in {mean(printed, '6SDD', 'means differ')} of runs where the means differ: its noisy "
        f"counts make its intervals wide. 4SDD covers in {mean(printed, '4SDD', 'means differ')}, because sums inside "
        "(l*, u*) are divided by a number of values that belongs to (l, u), an error that grows with θ. Only two "
        "readings bring more under-coverage, both with one pair (l*, u*) for all m sanitizations: 4SDD then covers in "
        f"{mean(shared, '4SDD', 'means differ')}, and 6SDD, if its counts are those of the raw quantiles too, in "
        f"{mean(both, '6SDD', 'means differ')}. Without an effect they under-cover as well "
        f"({mean(shared, '4SDD', 'no effect')} and {mean(both, '6SDD', 'no effect')}), which the paper does not "
        "report. So no reading tried here gives all that the paper reports; the code behind its figures would decide."
    )


_READING_FIGURES = tuple(
    Figure(
        name=f"readings-{method.lower()}-{law.lower()}", title=f"Coverage of {method}, {law}", x="ε", y="coverage",
        colour="reading", column="case", row="P", log_x=True, target=0.95, where=(("method", method), ("law", law)),
    )
    for law in ("Gaussian", "ZINB") for method in ("4SDD", "6SDD")
)  # fmt: skip


# ---- the default method against the published ones ---------------------------------------------------------------


def _default_cells(quick: bool) -> list[dict[str, Any]]:
    pairs, repeats = (MAIN[:1], 100) if quick else (MAIN, 2000)
    return [
        {"law": law, "different": different, "n": n, "P": p, "guarantee": "ε-DP", "repeats": repeats}
        for law in LAWS for n, p in pairs for different in (False, True)
    ]  # fmt: skip


def _default_rows(parameters: Mapping[str, Any], seed: int) -> Iterable[Row]:
    names = (("direct", False), ("noise_aware", False), ("4S", True), ("winsorized", True))
    jobs = [(name, published, (0.1, 0.1), budget) for name, published in names for budget in EPSILONS[:4]]
    results = compute(parameters, seed, jobs)
    repeats = parameters["repeats"]
    for budget in EPSILONS[:4]:
        ours, aware, four, wins = (results[name, published, (0.1, 0.1), budget] for name, published in names)
        error = 3 * np.sqrt(0.95 * 0.05 / repeats)  # three standard errors of a coverage
        reasons = []
        if not 0.935 - error <= ours["coverage"] <= 0.97 + error:
            reasons.append("coverage")
        if not parameters["different"] and ours["rejected"] > 0.065 + error:
            reasons.append("size")
        if ours["rmse"] > min(four["rmse"], wins["rmse"]):
            reasons.append("RMSE: censoring discards tails")
        if ours["width"] > min(four["width"], wins["width"]):
            reasons.append("width: censoring discards tails")
        yield {
            "law": parameters["law"],
            "θ": LAWS[parameters["law"]].effect(parameters["different"]),
            "n": parameters["n"],
            "P": parameters["P"],
            "ε": budget,
            "coverage": ours["coverage"],
            "rejected": ours["rejected"],
            "RMSE": ours["rmse"],
            "RMSE 4S": four["rmse"],
            "RMSE winsorized": wins["rmse"],
            "width": ours["width"],
            "width 4S": four["width"],
            "width winsorized": wins["width"],
            "RMSE noise_aware": aware["rmse"],
            "width noise_aware": aware["width"],
            "coverage noise_aware": aware["coverage"],
            "reached": not reasons,
            "why not": "; ".join(reasons),
        }


def _default_finding(rows: list[Row]) -> str:
    reached = sum(bool(row["reached"]) for row in rows)
    low = min(row["coverage"] for row in rows)
    high = max(row["coverage"] for row in rows)
    sizes = [row["rejected"] for row in rows if row["θ"] == 0]
    gain = np.median([min(row["RMSE 4S"], row["RMSE winsorized"]) / row["RMSE"] for row in rows])
    return (
        f"The default (direct) reaches {reached} of {len(rows)} cells: coverage in 93.5 to 97 %, size at most 6.5 %, "
        "each within three standard errors of the simulation; RMSE and mean width at most those of 4S and of the "
        f"winsorized mean. Its coverage is {low:.1%} to {high:.1%}, its size at most "
        f"{max(sizes):.1%}; the better of 4S and the winsorized mean has {gain:.2f} times its RMSE in the median, "
        "although both spend more privacy than they claim. Cells that are not reached are those in which censoring "
        "itself helps: with heavy tails and almost no noise, a censored mean varies a little less than the mean it "
        "estimates, and is biased for it where the arms differ."
    )


# ---- placing the censoring interval -------------------------------------------------------------------------------


def _placement_cells(quick: bool) -> list[dict[str, Any]]:
    pairs, repeats = (MAIN[:1], 100) if quick else (MAIN, 500)
    return [
        {"law": law, "different": True, "n": n, "P": p, "guarantee": "ε-DP", "repeats": repeats}
        for law in LAWS for n, p in pairs
    ]  # fmt: skip


def _placement_rows(parameters: Mapping[str, Any], seed: int) -> Iterable[Row]:
    law = LAWS[parameters["law"]]
    censor = (0.1, 0.1)
    method = paper.PaperMethod(double_down=True)
    width = law.bounds[1] - law.bounds[0]
    bounds = (-width, width)
    for budget in EPSILONS[:4]:
        ratios: dict[str, list[Any]] = {"quantile": [], "moments": []}
        found: dict[str, list[Contrast]] = {"quantile": [], "moments": []}
        for sample, rng in blocks(parameters, seed):
            true = np.quantile(sample.differences, [censor[0], 1 - censor[1]], axis=1)
            spending = Spending(PureDP(budget), rng)
            quantiles = paper.Sanitizer(spending.split([1.0] * 4)[0], bounds, 1, as_published=False)
            ends = [quantiles.quantile(sample.ordered.values, q)[:, 0] for q in (censor[0], 1 - censor[1])]
            ratios["quantile"].append(_reach(ends, true))
            found["quantile"].append(method.contrasts(sample.ordered, spending, bounds, censor))
            first, rest = spending.split([1.0, 1.0])
            start = contrast(direct(sample, first, law.bounds), [-1.0, 1.0], kurtosis=3.0)
            interval = placed(start, parameters["P"], censor)
            ratios["moments"].append(_reach(interval, true))
            columns = (interval[0][:, None], interval[1][:, None])
            found["moments"].append(method.contrasts(sample.ordered, rest, bounds, censor, columns))
        row: Row = {"law": law.name, "n": parameters["n"], "P": parameters["P"], "ε": budget}
        for name, values in ratios.items():
            spread = np.concatenate(values)
            row[f"{name}: median width"] = float(np.median(spread))
            row[f"{name}: within twice"] = float((spread <= 2).mean())
            row[f"{name}: RMSE of 4SDD"] = summary(joined(found[name]), law.effect(True))["rmse"]
        yield row


def _reach(ends: Any, true: Any) -> Any:
    """Width of an interval that covers both the placed and the true one, in units of the true width."""
    low = np.minimum(ends[0], ends[1])
    high = np.maximum(ends[0], ends[1])
    return (np.maximum(high, true[1]) - np.minimum(low, true[0])) / (true[1] - true[0])


def _placement_finding(rows: list[Row]) -> str:
    old, new = (np.mean([row[f"{name}: within twice"] for row in rows]) for name in ("quantile", "moments"))
    gain = np.median([row["quantile: RMSE of 4SDD"] / row["moments: RMSE of 4SDD"] for row in rows])
    return (
        "With the same half of the budget the certified quantile, even if drawn once, lands within twice the right "
        f"width in {old:.0%} of runs, the placement from bounded moments in {new:.0%}: it uses n units instead of P "
        "partition values, and its error depends on the outcome's bounds over n, not on the logarithm of the bounds "
        "over the spread. "
        f"The RMSE of the certified 4SDD falls by a factor of {gain:.3g} in the median."
    )


# ---- Table 2 ------------------------------------------------------------------------------------------------------


def _table2_cells(quick: bool) -> list[dict[str, Any]]:
    return [{"n": n} for n in (1_000, 100_000, 1_000_000)]


def _table2_rows(parameters: Mapping[str, Any], seed: int) -> Iterable[Row]:
    one = Sensitivity(l1=1.0)
    for rho, epsilon in zip(RHOS, (*EPSILONS[:4], 10.0), strict=True):
        concentrated = ZeroConcentratedDP(rho)
        delta = 1 / parameters["n"]
        yield {
            "n": parameters["n"],
            "ρ": rho,
            "σ/Δ": Gaussian.calibrate(concentrated, one).scale,
            "ε by (3)": rho + 2 * float(np.sqrt(rho * np.log(1 / delta))),
            "ε tight": concentrated.epsilon_at(delta),
            "ε (Laplace)": epsilon,
            "sd/Δ (Laplace)": float(np.sqrt(2)) * Laplace.calibrate(PureDP(epsilon), one).scale,
        }


def with_data(folder: str | Path) -> Study:
    """The study, with the case of section 6 on the paper's own file where the folder has it."""
    if _file_of(folder) is None:
        raise InvalidParameter(
            "data", str(folder), f"has none of the files {', '.join(FILES)}", "Put Avazu's training data there."
        )  # fmt: skip
    return _study(ClickData(str(folder)))


def _study(case: ClickData) -> Study:
    return Study.read(
        "liu2023",
        (
            Part("default", _default_cells, _default_rows, finding=_default_finding),
            Part("placement", _placement_cells, _placement_rows, finding=_placement_finding),
            Part(
                "simulation", simulation_cells, simulation_rows, summary=drawn, shown=shown,
                figures=simulation_figures(),
            ),
            Part("certified", certified_cells, partial(simulation_rows, published=False), summary=drawn, shown=shown),
            Part("table-2", _table2_cells, _table2_rows),
            Part("figure-2", case.histogram_cells, case.histogram_rows),
            Part(
                "table-3", case.case_cells, case.case_rows, shown=_shown, figures=(
                    _figure("table-3-symmetric", "α = β = 0.1", CENSORS[0], PRINTED_SE),
                    _figure("table-3-asymmetric", "α = 0.15, β = 0.05", CENSORS[1], PRINTED_SE_ASYMMETRIC),
                ),
            ),
            Part("private-quantile", _quantile_cells, quantile_rows),
            Part(
                "readings", _reading_cells, reading_rows, finding=_finding, figures=_READING_FIGURES, shown=lambda rows:
                [row for row in rows if row["law"] == "Gaussian" and row["P"] == 100 and row["θ"] != 0],
            ),
        ),
        CLAIMS,
        source="the file of the given folder" if case.folder else _STAND_IN,
    )  # fmt: skip


_STAND_IN = (
    "generated clicks, as the paper's file is not part of discreet: 66 % of the devices have none, and the standard "
    "errors without privacy, 0.0255, and of 4S at ε = 50, 0.0077, are the printed ones. With `--data FOLDER` the study "
    "reads Avazu's training data (`train.csv`) instead"
)
STUDY = _study(ClickData())
