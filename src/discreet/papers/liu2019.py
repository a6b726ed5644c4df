"""Study of liu2019: a sanitized covariance matrix (Figure 1); proportion vectors are in a file of their own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.core.guarantee import PureDP
from discreet.core.protection import Neighbours
from discreet.inference.moments import Binomial, ReleaseLaw
from discreet.mechanisms.bounded.covariance import BoundedCovariance
from discreet.mechanisms.bounded.laplace import BoundaryInflatedLaplace, BoundedLaplace
from discreet.mechanisms.bounded.proportions import BoundedProportions
from discreet.papers.claims.liu2019_claims import FIGURE_CLAIMS, FORMULA_CLAIMS
from discreet.papers.figure import Figure
from discreet.papers.study import Part, Row, Study, grid, with_ends
from discreet.questions.bounded import CovarianceMatrix
from discreet.questions.proportion import ProportionVector

# ---- liu2019, Figures 2 to 7: sanitized proportion vectors, their bias, error and coverage


Array = NDArray[np.float64]
Method = Literal["rescale", "all_but_one", "universal_histogram"]

SHARES = np.array([0.1, 0.2, 0.3, 0.4])
NORMAL = 1.959963984540054
SETS = 5
PROPORTION_VERSIONS = (
    ("truncated", "as published"),
    ("truncated", "certified"),
    ("BIT", "certified"),
    ("original", "not private"),
)
"""liu2019's boundary-inflated mechanism is ε-DP as published; its truncated one is not (errata E1). The original
proportions are the red lines of the paper's figures."""
SUMS = ((0, 1), (1, 2), (1, 3))
"""p1 + p2, a node of the tree, and p2 + p3 and p2 + p4, which are none."""


def _cells(quick: bool) -> list[dict[str, Any]]:
    sizes = (50, 200, 500) if quick else (50, 100, 150, 200, 250, 300, 350, 400, 450, 500)
    repeats = 100 if quick else 2000
    grids = grid(n=sizes, epsilon=(0.1, 0.5, 1.0), procedure=PROPORTION_VERSIONS, repeats=repeats)
    return [_with_version(cell) for cell in grids]


def _with_version(cell: dict[str, Any]) -> dict[str, Any]:
    mechanism, version = cell.pop("procedure")
    return {**cell, "mechanism": mechanism, "version": version}


def _mechanism(parameters: Mapping[str, Any], method: Method, share: float = 1.0) -> BoundedProportions:
    """δ₁ = 1/n, as in the paper: add/remove neighbours with n public; of no use to the original proportions."""
    n, epsilon = parameters["n"], parameters["epsilon"] * share
    statistic = ProportionVector(categories=(1, 2, 3, 4), n=n)
    noise: Literal["bounded", "inflated"] = "inflated" if parameters["mechanism"] == "BIT" else "bounded"
    if parameters["version"] == "as published":
        levels = 2 if method == "universal_histogram" else 1
        return BoundedProportions(
            scale=levels / (n * epsilon), categories=4, method=method, noise=noise, dropped_rows=0
        )
    sensitivity = statistic.sensitivity(neighbours=Neighbours.ADD_REMOVE)
    return BoundedProportions.calibrate(
        PureDP(epsilon), sensitivity, categories=4, method=method, noise=noise, dropped_rows=0
    )


def _scalar(mechanism: BoundedProportions) -> BoundedLaplace | BoundaryInflatedLaplace:
    """The mechanism of one measured proportion."""
    kind = BoundaryInflatedLaplace if mechanism.noise == "inflated" else BoundedLaplace
    return kind(scale=mechanism.scale, bounds=(0, 1))


def _queries(samples: Array, method: Method) -> Array:
    if method == "all_but_one":
        return samples[:, 1:]
    if method == "universal_histogram":
        upper = np.stack([samples[:, 0] + samples[:, 1], samples[:, 2] + samples[:, 3]], axis=1)
        return np.concatenate([upper, samples], axis=1)
    return samples


def _sanitized(
    parameters: Mapping[str, Any], method: Method, samples: Array, rng: np.random.Generator, share: float = 1.0
) -> tuple[Array, Array, BoundedProportions]:
    mechanism = _mechanism(parameters, method, share)
    if parameters["mechanism"] == "original":
        return samples, samples, mechanism
    measured = np.asarray(_scalar(mechanism).law(_queries(samples, method)).sample(rng=rng))
    return mechanism.present(measured), measured, mechanism


def _samples(parameters: Mapping[str, Any], rng: np.random.Generator) -> Array:
    counts = rng.multinomial(parameters["n"], SHARES, size=parameters["repeats"])
    return np.asarray(counts / parameters["n"])


def _covers(estimates: Array, n: int, truth: float) -> Array:
    """The paper's interval: the released proportion taken for the sample's."""
    reach = NORMAL * np.sqrt(np.maximum(estimates * (1 - estimates), 0) / n)
    return np.asarray(np.abs(estimates - truth) <= reach)


def _row(
    parameters: Mapping[str, Any], target: str, estimates: Array, truth: float, covered: Array, aware: float | None
) -> Row:
    return {
        **{name: parameters[name] for name in ("epsilon", "n", "mechanism", "version")},
        "target": target,
        "bias": float(np.mean(estimates) - truth),
        "rmse": float(np.sqrt(np.mean((estimates - truth) ** 2))),
        "coverage": float(np.mean(covered)),
        "noise_aware_coverage": aware,
        "repeats": parameters["repeats"],
    }


def _proportions(parameters: Mapping[str, Any], seed: int, method: Method) -> Iterator[Row]:
    rng = np.random.default_rng(seed)
    samples = _samples(parameters, rng)
    released, measured, mechanism = _sanitized(parameters, method, samples, rng)
    law = ReleaseLaw(model=Binomial(n=parameters["n"]), mechanism=_scalar(mechanism))
    for index, truth in enumerate(SHARES):
        column = index - 4 if method != "all_but_one" else index - 1
        aware = None
        measures = method != "all_but_one" or index > 0  # the first proportion is not measured there
        if measures and parameters["mechanism"] != "original":
            aware = float(np.mean(law.accepts(measured[:, column], float(truth))))
        estimates = released[:, index]
        covered = _covers(estimates, parameters["n"], truth)
        yield _row(parameters, f"p{index + 1}", estimates, float(truth), covered, aware)


def _synthesis(parameters: Mapping[str, Any], seed: int) -> Iterator[Row]:
    """Multiple synthesis: five rescaled sets at ε/5, combined (liu2023 (6)–(7))."""
    from scipy.special import stdtrit

    rng = np.random.default_rng(seed)
    samples = _samples(parameters, rng)
    sets = np.stack([_sanitized(parameters, "rescale", samples, rng, 1 / SETS)[0] for _ in range(SETS)])
    if parameters["mechanism"] == "original":  # five equal sets carry no noise to combine
        yield from _proportions(parameters, seed, "rescale")
        return
    for index, truth in enumerate(SHARES):
        estimates = sets[:, :, index]
        centre = estimates.mean(axis=0)
        between = estimates.var(axis=0, ddof=1)
        within = np.mean(estimates * (1 - estimates), axis=0) / parameters["n"]
        df = (SETS - 1) * (1 + SETS * within / np.maximum(between, 1e-300)) ** 2
        reach = stdtrit(np.minimum(df, 1e10), 0.975) * np.sqrt(between / SETS + within)
        covered = np.abs(centre - truth) <= reach
        yield _row(parameters, f"p{index + 1}", centre, float(truth), np.asarray(covered), None)


def _sums(parameters: Mapping[str, Any], seed: int, method: Method) -> Iterator[Row]:
    rng = np.random.default_rng(seed)
    released, _, _ = _sanitized(parameters, method, _samples(parameters, rng), rng)
    for one, other in SUMS:
        truth = float(SHARES[one] + SHARES[other])
        estimates = released[:, one] + released[:, other]
        covered = _covers(estimates, parameters["n"], truth)
        yield _row(parameters, f"p{one + 1} + p{other + 1}", estimates, truth, covered, None)


def _finding(rows: list[Row]) -> str:
    lines = []
    noisy = [row for row in rows if row["mechanism"] != "original"]
    for epsilon in sorted({row["epsilon"] for row in noisy}):
        chosen = [row for row in noisy if row["epsilon"] == epsilon]
        paper = [row["coverage"] for row in chosen]
        text = f"ε = {epsilon:g}: the paper's interval covers {100 * min(paper):.0f}–{100 * max(paper):.0f} %"
        aware = [row["noise_aware_coverage"] for row in chosen if row["noise_aware_coverage"] is not None]
        if aware:
            text += f", the noise-aware one {100 * min(aware):.1f}–{100 * max(aware):.1f} %"
        worst = max(chosen, key=lambda row: abs(row["bias"]))
        lines.append(f"{text}; largest bias {worst['bias']:+.3f} ({worst['target']}, n = {worst['n']}).")
    error = {
        version: float(np.mean([row["rmse"] for row in noisy if (row["mechanism"], row["version"]) == version]))
        for version in PROPORTION_VERSIONS[:3]
    }
    lines.append(
        f"Mean RMSE: truncated as published {error[PROPORTION_VERSIONS[0]]:.4f} (not ε-DP), truncated and certified "
        f"{error[PROPORTION_VERSIONS[1]]:.4f}, BIT {error[PROPORTION_VERSIONS[2]]:.4f}."
    )
    return " ".join(lines)


def few_sizes(rows: list[Row]) -> list[Row]:
    """The smallest, a middle and the largest n."""
    sizes = sorted({row["n"] for row in rows})
    kept = {sizes[0], sizes[len(sizes) // 2], sizes[-1]}
    return [row for row in rows if row["n"] in kept]


def _with_errors(rows: list[Row]) -> list[Row]:
    """Names of procedures as on the figures, and two Monte-Carlo standard errors on either side of every number."""
    return with_ends([{**row, "procedure": _procedure(row)} for row in rows], _errors)


def _procedure(row: Row) -> str:
    return "original data" if row["mechanism"] == "original" else f"{row['mechanism']}, {row['version']}"


def _errors(row: Row) -> dict[str, float]:
    n = row["repeats"]
    return {
        "bias": math.sqrt(max(row["rmse"] ** 2 - row["bias"] ** 2, 0.0) / n),
        "rmse": row["rmse"] / math.sqrt(2 * n),  # as for normal errors
        "coverage": math.sqrt(row["coverage"] * (1 - row["coverage"]) / n),
    }


def _shown(rows: list[Row]) -> list[Row]:
    names = ("epsilon", "n", "procedure", "target", "bias", "rmse", "coverage", "noise_aware_coverage")
    return [{name: row[name] for name in names} for row in few_sizes(rows)]


_MEASURES = (
    ("bias", "bias", "bias", 0.0),
    ("rmse", "root mean squared error", "root mean squared error", None),
    ("coverage", "coverage of the paper's interval", "coverage of 95 % intervals", 0.95),
)
_COMPUTED: dict[str, Any] = {
    "figure-2": partial(_proportions, method="rescale"),
    "figure-3": _synthesis,
    "figure-4": partial(_proportions, method="all_but_one"),  # the first proportion takes the rest
    "figure-5": partial(_proportions, method="universal_histogram"),
    "figure-6": partial(_sums, method="rescale"),
    "figure-7": partial(_sums, method="universal_histogram"),
}


def _part(name: str, compute: Any) -> Part:
    figures = tuple(
        Figure(
            name=f"{name}-{y}", title=f"{name.capitalize().replace('-', ' ')}: {title}", x="n", y=y, low=f"{y} low",
            high=f"{y} high", colour="target", column="epsilon", row="procedure", measure=words, target=target,
        )
        for y, title, words, target in _MEASURES
    )  # fmt: skip
    return Part(name, _cells, compute, summary=_with_errors, finding=_finding, figures=figures, shown=_shown)


BOUNDS = ((-3.0, 3.0), (-4.5, 4.5))
SETTINGS = ((1.0, 2.0, 0.0), (1.0, 2.0, -0.4), (1.0, 2.0, 0.7))
VERSIONS = (("truncated", "as published"), ("truncated", "certified"), ("BIT", "certified"))
"""liu2019's boundary-inflated mechanism is ε-DP as published; its truncated one is not (errata E1)."""


# ---- Figure 1 --------------------------------------------------------------------------------------------------


def _figure_1_cells(quick: bool) -> list[dict[str, Any]]:
    sizes = (50, 200, 800) if quick else (50, 100, 150, 200, 300, 400, 500, 600, 700, 800)
    grids = grid(setting=(0, 1, 2), n=sizes, procedure=VERSIONS, draws=50 if quick else 500)
    return [_with_version(cell) for cell in grids]


def figure_1(parameters: Mapping[str, Any], seed: int) -> Iterator[Row]:
    """Mean and percentiles of 500 sanitizations of one covariance matrix, ε = 1 split equally."""
    first, second, correlation = SETTINGS[parameters["setting"]]
    truth = np.array([first, second, correlation * math.sqrt(first * second)])
    statistic = CovarianceMatrix(bounds=BOUNDS, n=parameters["n"])
    low, high = statistic.domain()
    mechanism = BoundedCovariance(
        budget=PureDP(1.0),
        changes=tuple(statistic.coordinate_sensitivities(neighbours=Neighbours.REPLACE_ONE)),
        variance_bounds=tuple(zip(low[:2], high[:2], strict=True)),
        inflated=parameters["mechanism"] == "BIT",
        as_published=parameters["version"] == "as published",
    )
    drawn = mechanism.simulate(truth, parameters["draws"], np.random.default_rng(seed))
    product = drawn[:, 0] * drawn[:, 1]
    possible = product > 0
    ratios = drawn[possible, 2] / np.sqrt(product[possible])
    held = mechanism.guarantee(statistic.sensitivity(neighbours=Neighbours.REPLACE_ONE)).parameters()["epsilon"]
    columns = {"S11": drawn[:, 0], "S22": drawn[:, 1], "S12": drawn[:, 2], "r": ratios}
    for (name, values), true in zip(columns.items(), (*truth, correlation), strict=True):
        points = np.percentile(values, [2.5, 25, 75, 97.5]) if values.size else [math.nan] * 4
        yield {
            "correlation": correlation,
            **{fact: parameters[fact] for fact in ("n", "mechanism", "version")},
            "entry": name,
            "truth": true,
            "mean": float(np.mean(values)) if values.size else math.nan,
            "p2.5": float(points[0]),
            "p25": float(points[1]),
            "p75": float(points[2]),
            "p97.5": float(points[3]),
            "epsilon_held": held,
        }


def _figure_1_finding(rows: list[Row]) -> str:
    def bias(mechanism: str, version: str) -> float:
        chosen = [row for row in rows if row["mechanism"] == mechanism and row["version"] == version]
        variances = [row for row in chosen if row["entry"] in ("S11", "S22")]
        smallest = min(row["n"] for row in variances)
        return float(np.mean([row["mean"] - row["truth"] for row in variances if row["n"] == smallest]))

    held = max(row["epsilon_held"] for row in rows)
    return (
        f"At the smallest n the variances' bias is {bias('truncated', 'as published'):.2f} truncated as published, "
        f"{bias('truncated', 'certified'):.2f} truncated and certified, and {bias('BIT', 'certified'):.2f} for BIT: "
        "truncation is the more biased, as Proposition 1 says, and both shrink with n. What changes: as published, "
        f"the truncated mechanism spends up to ε = {held:.3f} where 1 is claimed; with the scale that is really "
        "ε-DP its bias at small n grows. Covariances are clamped into their domain first."
    )


_ENTRIES = {"S11": "variance S₁₁", "S22": "variance S₂₂", "S12": "covariance S₁₂", "r": "correlation r"}

STUDY = Study.read(
    "liu2019",
    (
        Part(
            "figure-1", _figure_1_cells, figure_1, finding=_figure_1_finding, shown=few_sizes,
            figures=tuple(
                Figure(
                    name=f"figure-1-{entry}", title=f"Figure 1, {words}: mean and 95 % range of the sanitized value",
                    x="n", y="mean", measure=f"sanitized {words}", low="p2.5", high="p97.5", colour="version",
                    column="correlation", row="mechanism", where=(("entry", entry),),
                    note="Full grid: 500 sanitizations, as in the paper. Its quartiles are in the CSV file alone.",
                )
                for entry, words in _ENTRIES.items()
            ),
        ),
        *(_part(name, compute) for name, compute in _COMPUTED.items()),
    ),
    (*FORMULA_CLAIMS, *FIGURE_CLAIMS),
)  # fmt: skip
