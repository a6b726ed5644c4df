"""lee2022: private contingency tables under Gaussian DP, their costs, and χ² tests on them."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr

from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import GaussianDP, PureDP
from discreet.core.sensitivity import Sensitivity
from discreet.inference import tables as chi_square
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace, LaplaceProfile
from discreet.mechanisms.tables.james_stein import JamesSteinGaussian, RankDeficientGaussian
from discreet.mechanisms.tables.post_processed import Clipped, PostProcessed, onto_simplex, onto_total
from discreet.papers.claims.lee2022_claims import FIGURE_CLAIMS, FORMULA_CLAIMS
from discreet.papers.figure import Figure
from discreet.papers.study import Parameters, Part, Row, Study, grid, side_by_side, with_ends

# ---- lee2022, Figures 9 to 12: size and power of χ² tests on private tables, and the size of the defaults.


Array = NDArray[np.float64]
Counts = NDArray[np.int64]

LEVEL = 0.05
REPLACED = Sensitivity(moves=(1.0, 1.0))
ADDED = Sensitivity(moves=(1.0,))
PAPER = ("M_Lap", "M_G", "M_r", "M_JS0", "M_JS", "M_rJS")
_BLOCK = 40
"""Resamples at once: few enough that runs which are already decided take part in no more of them."""

_KOREA = (4.1, 4.5, 4.7, 4.8, 6.0, 6.8, 7.0, 6.8, 7.5, 8.1, 8.1, 7.7, 7.0, 5.6, 4.4, 3.2, 2.1, 1.7)
_STATES = (6.0, 6.1, 6.4, 6.4, 6.6, 7.2, 6.8, 6.6, 6.1, 6.2, 6.2, 6.7, 6.3, 5.3, 4.3, 2.9, 1.9, 2.0)


FILES = ("ages.csv",)
"""The official counts, in the folder of ``--data``: columns ``korea`` and ``states``, one line per five-year group."""


@cache
def _published_ages(folder: str) -> tuple[Array, Array]:
    """Counts by 18 five-year groups, from 0–4 to 85 and over."""
    with (Path(folder) / FILES[0]).open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    try:
        korea, states = (np.array([float(line[name]) for line in lines]) for name in ("korea", "states"))
    except (KeyError, TypeError, ValueError):
        korea = states = np.empty(0)
    if len(korea) != 18 or not np.all(np.minimum(korea, states) >= 0):
        rule = "must have 18 lines of counts in the columns korea and states"
        raise InvalidParameter("data", f"{folder}/{FILES[0]}", rule, "Check the file.")
    return korea, states


def age_shares(p: int, folder: str = "") -> tuple[Array, Array]:
    """Shares of Korea and of the United States by 18 five-year or 9 ten-year age groups.

    Examples
    --------
    >>> [shares.size for shares in age_shares(9)]
    [9, 9]
    """
    both = list(_published_ages(folder)) if folder else [np.array(shares) for shares in (_KOREA, _STATES)]
    if p == 9:
        both = [shares.reshape(9, 2).sum(axis=1) for shares in both]
    first, second = (shares / shares.sum() for shares in both)
    return first, second


def table_mechanisms(mu: float, *, clip: Any, as_published: bool = True) -> dict[str, PostProcessed]:
    """The paper's mechanisms for a table, calibrated to μ-GDP under replace-one neighbours."""
    sigma = Gaussian.calibrate(GaussianDP(mu), REPLACED).scale
    shrunk: dict[str, Any] = {"scale": sigma, "clip": clip, "as_published": as_published}
    return {
        "M_Lap": Clipped(mechanism=Laplace(_tight_scale(mu)), clip=clip),
        "M_G": Clipped(mechanism=Gaussian(sigma), clip=clip),
        "M_r": RankDeficientGaussian(scale=sigma, clip=clip),
        "M_JS0": JamesSteinGaussian(towards="zero", **shrunk),
        "M_JS": JamesSteinGaussian(towards="mean", **shrunk),
        "M_rJS": JamesSteinGaussian(towards="mean", rank_deficient=True, **shrunk),
    }


@cache
def _tight_scale(mu: float) -> float:
    return Laplace.calibrate(GaussianDP(mu), REPLACED).scale


def noisy(mechanism: PostProcessed, counts: Counts, rng: np.random.Generator) -> Array:
    """Measured values of stacks of tables (last axis), simulated through one mechanism."""
    noise = mechanism.noise
    drawn = rng.laplace(size=counts.shape) if isinstance(noise, Laplace) else rng.standard_normal(counts.shape)
    drawn *= noise.scale
    drawn += counts
    return onto_total(drawn, counts.sum(axis=-1)) if mechanism.keeps_total else drawn


def _shares(values: Array) -> Array:
    total = values.sum(axis=-1, keepdims=True)
    uniform = np.full(values.shape, 1 / values.shape[-1])
    return np.where(total > 0, values / np.where(total > 0, total, 1.0), uniform)


def _draw(rng: np.random.Generator, rows: Any, shares: Array, resamples: int) -> Counts:
    """``resamples`` tables for every run: runs × resamples × cells."""
    sizes = np.broadcast_to(np.asarray(rows), shares.shape[:-1])[:, None]
    return rng.multinomial(sizes, shares[:, None, :], size=(shares.shape[0], resamples))


def _rejections(resampled: Callable[[NDArray[np.intp], int], Array], observed: Array, resamples: int) -> int:
    """The number of runs that reject: fewer than 5 % of ``resamples`` statistics are at or above the observed one.

    A run with too many of them is decided and draws no more, which changes no decision. Where 5 % of B + 1 is a whole
    number, as for 99 and 199, the paper's rule (share < 5 %) and the valid one ((1 + count)/(B + 1) ≤ 5 %) agree.
    """
    allowed = int(np.ceil(LEVEL * resamples)) - 1
    above = np.zeros(len(observed), dtype=np.int64)
    undecided = np.arange(len(observed))
    for start in range(0, resamples, _BLOCK):
        simulated = resampled(undecided, min(_BLOCK, resamples - start))
        above[undecided] += (simulated >= observed[undecided, None]).sum(axis=1)
        undecided = undecided[above[undecided] <= allowed]
        if not undecided.size:
            break
    return int(np.count_nonzero(above <= allowed))


def _paper_rejections(
    test: str, name: str, mu: float, n: int, truth: Array, null: Array, runs: int, resamples: int, seed: int
) -> float:
    """Rejection rate of Algorithm 2 or 3 with one of the paper's mechanisms."""
    rng = np.random.default_rng(seed)
    mechanism = table_mechanisms(mu, clip="nonnegative")[name]

    def published(counts: Counts) -> Array:
        return mechanism.process(noisy(mechanism, counts, rng))

    values = [published(rng.multinomial(n, truth, size=runs))]
    if test == "goodness of fit":
        observed = chi_square.pearson_goodness(values[0], null)
        shares = np.broadcast_to(null, values[0].shape)
    else:
        values.append(published(rng.multinomial(n, null, size=runs)))
        observed = chi_square.pearson_homogeneity(values)
        shares = _shares(values[0] + values[1])
    totals = [np.maximum(np.round(value.sum(axis=-1)), 0).astype(np.int64) for value in values]

    def resampled(index: NDArray[np.intp], count: int) -> Array:
        again = [published(tables) for tables in [_draw(rng, total[index], shares[index], count) for total in totals]]
        if test == "goodness of fit":
            return chi_square.pearson_goodness(again[0], null)
        return chi_square.pearson_homogeneity(again)

    return _rejections(resampled, observed, resamples) / runs


def default_rejections(
    test: str, neighbours: str, mu: float, n: int, truth: Array, null: Array, runs: int, resamples: int, seed: int
) -> float:
    """Rejection rate of the default test (``"shrunken"``) on Gaussian measurements, run by run as shipped."""
    rng = np.random.default_rng(seed)
    known = neighbours == "replace-one"
    sigma = Gaussian.calibrate(GaussianDP(mu), REPLACED if known else ADDED).scale

    def measure(counts: Counts) -> Array:
        drawn = counts + sigma * rng.standard_normal(counts.shape)
        return onto_total(drawn, float(n)) if known else drawn

    first = measure(rng.multinomial(n, truth, size=runs))
    samples, observe = [first], _goodness(null, n if known else None, sigma)
    shares = np.broadcast_to(null, first.shape)
    if test == "homogeneity":
        samples.append(measure(rng.multinomial(n, null, size=runs)))
        observe = _homogeneity(n if known else None, sigma)
        shares = _near_shares(samples[0] + samples[1])
    elif test == "independence":
        observe = _independence(n if known else None, sigma)
        square = first.reshape(runs, 3, -1)
        by_row = _shares(np.maximum(square.sum(-1), 0))
        by_column = _shares(np.maximum(square.sum(-2), 0))
        shares = (by_row[:, :, None] * by_column[:, None, :]).reshape(runs, -1)
    totals = [
        np.full(runs, n) if known else np.maximum(np.round(sample.sum(axis=-1)), 1).astype(np.int64)
        for sample in samples
    ]

    def resampled(index: NDArray[np.intp], count: int) -> Array:
        return observe([measure(_draw(rng, total[index], shares[index], count)) for total in totals])

    return _rejections(resampled, observe(samples), resamples) / runs


Observe = Callable[[Sequence[Array]], Array]


def _goodness(null: Array, n: int | None, sigma: float) -> Observe:
    return lambda samples: chi_square.shrunken_goodness(samples[0], null, n, sigma**2)


def _homogeneity(n: int | None, sigma: float) -> Observe:
    return lambda samples: chi_square.shrunken_homogeneity(samples, [n, n], [sigma**2] * 2)


def _independence(n: int | None, sigma: float) -> Observe:
    def observe(samples: Sequence[Array]) -> Array:
        square = samples[0].reshape(*samples[0].shape[:-1], 3, -1)
        return chi_square.shrunken_independence(square, n, sigma**2)

    return observe


def _near_shares(pooled: Array) -> Array:
    size = np.maximum(pooled.sum(axis=-1), 1.0)
    return _shares(onto_simplex(pooled, size))


_SETTING = ("test", "p", "mu", "n", "runs", "resamples")


def _power_cells(quick: bool) -> Sequence[Parameters]:
    """The paper's settings with its 1,000 runs each, and 199 resamples instead of 5,000."""
    names = ("M_rJS", "default") if quick else (*PAPER, "default")
    repeats: Parameters = {"runs": 40, "resamples": 99} if quick else {"runs": 1000, "resamples": 199}
    return [
        {"test": test, "p": p, "mu": mu, "n": n, "mechanism": name, **repeats}
        for test, p, mu in product(("goodness of fit", "homogeneity"), (9, 18), (0.1, 0.3))
        for n, name in product(_sizes(test, mu, quick), names)
    ]


def _sizes(test: str, mu: float, quick: bool) -> tuple[int, ...]:
    """From 100 to 2,000, and to 3,000 for homogeneity at the smaller μ, as in the paper."""
    if quick:
        return 100, 2000
    most = (3000,) if test == "homogeneity" and mu == 0.1 else ()
    return 100, 500, 1000, 1500, 2000, *most


def _power(parameters: Parameters, seed: int, folder: str = "") -> Iterable[Row]:
    test, p, mu, n, runs, resamples = (parameters[one] for one in _SETTING)
    name = parameters["mechanism"]
    korea, states = age_shares(p, folder)
    rates = []
    for offset, truth in enumerate((korea, states)):
        if name == "default":
            rate = default_rejections(test, "replace-one", mu, n, truth, korea, runs, resamples, seed + offset)
        else:
            rate = _paper_rejections(test, name, mu, n, truth, korea, runs, resamples, seed + offset)
        rates.append(rate)
    setting = {one: parameters[one] for one in ("test", "p", "mu", "n", "mechanism", "runs", "resamples")}
    yield {**setting, "size": rates[0], "power": rates[1]}


def _with_errors(rows: list[Row]) -> list[Row]:
    return with_ends(rows, lambda row: {name: _error((row[name], row["runs"])) for name in ("size", "power")})


def _power_summary(rows: list[Row]) -> list[Row]:
    """One line per setting: the size and power of every mechanism."""
    told = lambda row: f"{row['size']:.3f} / {row['power']:.3f}"  # noqa: E731
    return side_by_side(rows, ("test", "p", "mu", "n"), lambda row: str(row["mechanism"]), told)


def _where(row: Row) -> str:
    return f"{row['test']}, p {row['p']}, μ {row['mu']}, N {row['n']}"


def _error(*rates: tuple[float, int]) -> float:
    """Monte-Carlo standard error of a difference of rejection rates."""
    return float(np.sqrt(sum(rate * (1 - rate) / runs for rate, runs in rates)))


def _power_finding(rows: list[Row]) -> str:
    settings: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in rows:
        settings.setdefault((row["test"], row["p"], row["mu"], row["n"]), {})[row["mechanism"]] = row
    gains: list[tuple[float, float, Row]] = []
    for found in settings.values():
        own = found["default"]
        valid = [row for name, row in found.items() if name != "default" and row["size"] <= 0.065]
        if valid:
            best = max(valid, key=lambda row: float(row["power"]))
            error = _error((own["power"], own["runs"]), (best["power"], best["runs"]))
            gains.append((own["power"] - best["power"], error, own))
    largest = max((row for row in rows if row["mechanism"] == "default"), key=lambda row: float(row["size"]))
    rivals = [row for row in rows if row["mechanism"] != "default"]
    failed = [row for row in rivals if row["size"] > 0.065]
    worst_size = max(rivals, key=lambda row: float(row["size"]))
    top = max(gains, key=lambda gain: gain[0])
    bottom = min(gains, key=lambda gain: gain[0])
    above = sum(gain > 3 * error for gain, error, _ in gains)
    below = sum(gain < -3 * error for gain, error, _ in gains)
    mean = float(np.mean([gain for gain, _, _ in gains]))
    return (
        f"The default's largest size is {100 * largest['size']:.1f} % ({_where(largest)}). Its power minus that of the "
        f"best of the paper's mechanisms with a size of at most 6.5 % is {mean:+.3f} on average, {top[0]:+.3f} at best "
        f"({_where(top[2])}) and {bottom[0]:+.3f} at worst ({_where(bottom[2])}, standard error {bottom[1]:.3f}; "
        "taking the best of six adds noise in the rivals' favour). It is higher by more than three standard errors in "
        f"{above} of {len(gains)} settings and lower in {below}. The paper's procedures exceed 6.5 % in {len(failed)} "
        f"of {len(rivals)} settings, at worst {100 * worst_size['size']:.1f} % ({worst_size['mechanism']}, "
        f"{_where(worst_size)}). Table: size / power."
    )


def _size_cells(quick: bool) -> Sequence[Parameters]:
    return grid(
        test=("goodness of fit", "homogeneity", "independence"), neighbours=("replace-one", "add/remove"), p=(9, 18),
        mu=(0.1, 0.3, 1.0), n=(100,) if quick else (100, 500, 2000), runs=100 if quick else 2000,
        resamples=99 if quick else 199,
    )  # fmt: skip


def _size(parameters: Parameters, seed: int, folder: str = "") -> Iterable[Row]:
    test, p, mu, n, runs, resamples = (parameters[one] for one in _SETTING)
    neighbours = parameters["neighbours"]
    null, _ = age_shares(p, folder)
    if test == "independence":
        square = null.reshape(3, -1)
        null = np.outer(square.sum(axis=1), square.sum(axis=0)).ravel()
    rate = default_rejections(test, neighbours, mu, n, null, null, runs, resamples, seed)
    yield {"test": test, "neighbours": neighbours, "p": p, "mu": mu, "n": n, "runs": runs, "size": rate}


def _size_summary(rows: list[Row]) -> list[Row]:
    names = ("test", "neighbours", "p", "mu")
    return side_by_side(rows, names, lambda row: f"N = {row['n']}", lambda row: f"{row['size']:.4f}")


def _size_finding(rows: list[Row]) -> str:
    largest = max(rows, key=lambda row: float(row["size"]))
    runs = int(largest["runs"])
    where = ", ".join(f"{name} {largest[name]}" for name in ("test", "neighbours", "p", "mu", "n"))
    return (
        f"The largest size over {len(rows)} settings is {100 * largest['size']:.2f} % ({where}); the standard error "
        f"of a size of 5 % in {runs:,} runs is {100 * _error((LEVEL, runs)):.2f} %."
    )


_NOTE = (
    "Full grid, reduced: 199 resamples per test where the paper takes 5,000, and five or six sizes N. "
    "Runs per setting: 1,000, as in the paper. Age shares are approximate ones around 2020."
)


def _test_figure(figure: str, test: str, y: str) -> Figure:
    return Figure(
        name=f"lee2022-{figure}", title=f"{figure.capitalize().replace('-', ' ')}: {y}, {test}", x="n", y=y,
        low=f"{y} low", high=f"{y} high", measure=f"share of tests that reject ({y})",
        target=LEVEL if y == "size" else None, colour="mechanism", column="mu", row="p", where=(("test", test),),
        note=_NOTE,
    )  # fmt: skip


_TEST_FIGURES = (
    _test_figure("figure-9", "goodness of fit", "size"), _test_figure("figure-10", "goodness of fit", "power"),
    _test_figure("figure-11", "homogeneity", "size"), _test_figure("figure-12", "homogeneity", "power"),
)  # fmt: skip


# ---- lee2022: private contingency tables under Gaussian DP, their costs, and χ² tests on them.


def _epsilon_of(mu: float) -> float:
    """The largest ε such that every ε-DP mechanism is μ-GDP (12)."""
    return float(log_ndtr(mu / 2) - log_ndtr(-mu / 2))


def _single_reach(mu: float) -> float:
    """−2 log 2Φ(−μ/2): Δ₁/b of the Laplace mechanism that is exactly μ-GDP (Proposition 9)."""
    return -2 * (math.log(2) + float(log_ndtr(-mu / 2)))


def crossing_by_ratio(ratio: float) -> float:
    """The μ at which Laplace noise calibrated to Δ₁ becomes cheaper than Gaussian noise, for Δ₁/Δ₂ = ``ratio``.

    Examples
    --------
    >>> round(crossing_by_ratio(1.0), 4), round(crossing_by_ratio(math.sqrt(2)), 4)
    (3.3608, 6.1301)
    """
    return float(brentq(lambda mu: _single_reach(mu) - math.sqrt(2) * ratio * mu, 0.5, 1e3, xtol=1e-10))


def crossing_on_tables() -> float:
    """The μ at which tightly calibrated Laplace noise becomes cheaper than Gaussian noise on tables."""
    return float(brentq(lambda mu: mu * _tight_scale(round(mu, 9)) - 1, 3.0, 4.5, xtol=1e-7))


# Figures 2, 3, 4 and 6: trade-off functions, scales and crossings.


def _one(quick: bool) -> Sequence[Parameters]:
    return [{"points": 11 if quick else 41}]


def _figure_2(parameters: Parameters, seed: int) -> Iterable[Row]:
    mu = 1.0
    curves: dict[str, Any] = {
        "1-GDP": GaussianDP(mu),
        "ε₁-DP": PureDP(round(_epsilon_of(mu), 12)),
        "Laplace, ε₁-DP": LaplaceProfile([_epsilon_of(mu)]),
        "Laplace, 1-GDP": LaplaceProfile([_single_reach(mu)]),
    }
    alpha = np.linspace(0, 1, parameters["points"])
    for name, curve in curves.items():
        for a, value in zip(alpha, curve.tradeoff(alpha), strict=True):
            yield {"curve": name, "alpha": float(a), "type II error": float(value)}


def _figure_3(parameters: Parameters, seed: int) -> Iterable[Row]:
    alpha = np.linspace(0, 1, parameters["points"])
    for total, share in product((0.5, 1.0, 2.0), (0.0, 0.5, 0.9)):
        shifts = [total * (1 + share) / 2, total * (1 - share) / 2]
        for a, value in zip(alpha, np.asarray(LaplaceProfile(shifts).tradeoff(alpha)), strict=True):
            yield {"lambda_2": total, "lambda_1 / lambda_2": share, "alpha": float(a), "type II error": float(value)}


def _figure_4(parameters: Parameters, seed: int) -> Iterable[Row]:
    for ratio in (1.0, 1.1, 1.2, 1.3, math.sqrt(2), 1.5, 1.75, 2.0, 2.5, 3.0):
        yield {"sensitivity ratio": round(ratio, 6), "crossing mu": crossing_by_ratio(ratio)}


def _figure_6(parameters: Parameters, seed: int) -> Iterable[Row]:
    crossing = crossing_on_tables()
    grid = np.geomspace(0.1, 8.0, 8 if parameters["points"] < 20 else 24)
    for mu in sorted({0.1, 0.3, 1.0, round(crossing, 6), *(round(float(m), 4) for m in grid)}):
        reach = _single_reach(mu)
        yield {
            "mu": mu,
            "Gaussian 1/mu": 1 / mu,
            "b tight": _tight_scale(mu),
            "b from Delta_1": 2 / reach,
            "b from epsilon": 2 / _epsilon_of(mu),
            "tight Laplace / Gaussian": (_tight_scale(mu) * mu) ** 2,
        }


def _figure_2_finding(rows: list[Row]) -> str:
    alpha = {row["alpha"] for row in rows if 0 < row["alpha"] < 1}
    curves = {
        name: {row["alpha"]: row["type II error"] for row in rows if row["curve"] == name}
        for name in {row["curve"] for row in rows}
    }
    gaps = {name: min(curve[a] - curves["1-GDP"][a] for a in alpha) for name, curve in curves.items()}
    return (
        f"On {len(alpha)} values of α the ε₁-DP Laplace mechanism stays {gaps['Laplace, ε₁-DP']:.4f} above G₁, the "
        f"recalibrated one comes within {gaps['Laplace, 1-GDP']:.4f} of it. ε₁ is {_epsilon_of(1.0):.4f}, and the "
        f"recalibrated mechanism spends ε = {_single_reach(1.0):.4f} in pure terms: a scale smaller by "
        f"{100 * (1 - _epsilon_of(1.0) / _single_reach(1.0)):.0f} %."
    )


def _figure_3_finding(rows: list[Row]) -> str:
    middle = [row for row in rows if abs(row["alpha"] - 0.2) < 0.03]
    alpha = middle[0]["alpha"]
    told = []
    for total in sorted({row["lambda_2"] for row in rows}):
        values = [f"{row['type II error']:.3f}" for row in middle if (row["lambda_2"], row["alpha"]) == (total, alpha)]
        told.append(f"{', '.join(values)} for λ₂ = {total:g}")
    return f"Type II errors at α = {alpha:g} as λ₁/λ₂ grows: {'; '.join(told)}. Every curve falls (Lemma 10)."


def _figure_4_finding(rows: list[Row]) -> str:
    first, last = rows[0], rows[-1]
    return (
        f"Laplace noise becomes cheaper at μ = {first['crossing mu']:.4f} where Δ₁ = Δ₂, at "
        f"{crossing_by_ratio(math.sqrt(2)):.4f} on tables, and only at {last['crossing mu']:.1f} where "
        f"Δ₁ = {last['sensitivity ratio']:g}·Δ₂."
    )


def _figure_6_curves(rows: list[Row]) -> list[Row]:
    """One line per μ and curve: its scale, and its cost over that of Gaussian noise, (18)."""
    names = {
        "Gaussian, 1/μ": "Gaussian 1/mu", "Laplace, b̃ (tight)": "b tight",
        "Laplace, b from Δ₁": "b from Delta_1", "Laplace, b from ε": "b from epsilon",
    }  # fmt: skip
    return [
        {"mu": row["mu"], "curve": name, "scale": row[column], "cost over Gaussian": (row[column] * row["mu"]) ** 2}
        for row in rows
        for name, column in names.items()
    ]


def _crossing_finding(rows: list[Row]) -> str:
    return (
        f"The crossings are at μ = {crossing_on_tables():.4f} (tight, tables), {crossing_by_ratio(math.sqrt(2)):.4f} "
        f"(Δ₁-calibrated, ratio √2) and {crossing_by_ratio(1.0):.4f} (ratio 1). The paper prints 3.9xx and 3.67 "
        "for the first."
    )


# Figures 7 and 8: costs.


def _cost_cells(quick: bool) -> Sequence[Parameters]:
    sizes = (50, 500) if quick else (50, 100, 200, 400, 800, 1600)
    return grid(model=("I", "II"), p=(5, 10, 15), mu=(0.1, 0.25), n=sizes, draws=400 if quick else 4000)


def _cell_shares(model: str, p: int) -> Array:
    weights = np.ones(p) if model == "I" else np.arange(1.0, p + 1)
    return np.asarray(weights / weights.sum())


def _costs(parameters: Parameters, seed: int) -> Iterable[Row]:
    model, p, mu, n, draws = (parameters[name] for name in ("model", "p", "mu", "n", "draws"))
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(n, _cell_shares(model, p), size=draws)
    tables = {
        (kind, clip): mechanisms
        for kind, published in (("as published", True), ("certified", False))
        for clip in ("none", "nonnegative")
        for mechanisms in [table_mechanisms(mu, clip=clip, as_published=published)]
    }
    for name in ("M_Lap", "M_G", "M_r", "M_JS0", "M_JS", "M_rJS"):
        measured = noisy(tables["as published", "none"][name], counts, rng)
        row: Row = {"model": model, "p": p, "mu": mu, "n": n, "mechanism": name}
        for (kind, clip), mechanisms in tables.items():
            squares = np.sum((mechanisms[name].process(measured) - counts) ** 2, axis=-1)
            row[f"{clip}, {kind}"] = float(squares.mean())
        simplex = _onto_known(tables["certified", "none"][name], measured, counts)
        row["simplex, certified"] = simplex
        row["standard error"] = float(squares.std() / math.sqrt(draws))
        row["closed form"] = float(np.mean([_closed(tables, name, table) for table in counts[:100]]))
        yield row


def _onto_known(mechanism: PostProcessed, measured: Array, counts: NDArray[np.int64]) -> float:
    done = onto_simplex(mechanism.process(measured), counts.sum(axis=-1).astype(float))
    return float(np.mean(np.sum((done - counts) ** 2, axis=-1)))


def _closed(tables: Any, name: str, table: NDArray[np.int64]) -> float:
    return float(tables["as published", "none"][name].l2_cost(table))


def _cost_finding(rows: list[Row]) -> str:
    kept = [row for row in rows if row["mechanism"] in ("M_r", "M_rJS")]
    worse = [row for row in kept if row["simplex, certified"] > row["nonnegative, certified"] * (1 + 1e-12)]
    ratio = [row["simplex, certified"] / row["nonnegative, as published"] for row in kept]
    off = [abs(row["none, as published"] - row["closed form"]) / row["closed form"] for row in rows]
    return (
        f"Projection on the simplex costs more than clipping negative cells in {len(worse)} of {len(kept)} settings of "
        f"M_r and M_rJS, and {100 * (1 - float(np.mean(ratio))):.1f} % less than the paper's truncation on average "
        f"(at best {100 * (1 - min(ratio)):.1f} %). Simulated and closed-form costs differ by "
        f"{100 * float(np.mean(off)):.2f} % on average."
    )


def _cost_summary(rows: list[Row]) -> list[Row]:
    """Every cost with two Monte-Carlo standard errors on either side."""
    columns = [f"{clip}, as published" for clip in ("none", "nonnegative")]
    return with_ends(rows, lambda row: dict.fromkeys(columns, float(row["standard error"])))


def _cost_table(rows: list[Row]) -> list[Row]:
    """One line per setting with ten cells: the cost of every mechanism, untruncated / truncated as published."""
    told = lambda row: f"{row['none, as published']:.0f} / {row['nonnegative, as published']:.0f}"  # noqa: E731
    ten = [row for row in rows if row["p"] == 10]
    return side_by_side(ten, ("model", "mu", "n"), lambda row: str(row["mechanism"]), told)


_COSTS_DRAWN = ((7, "none", "no clipping"), (8, "nonnegative", "negative cells clipped"))


def _cost_figure(number: int, clip: str, words: str, p: int) -> Figure:
    """The panels of one table size, as published: models below each other, μ side by side."""
    return Figure(
        name=f"lee2022-figure-{number}" + ("" if p == 10 else f"-{p}-cells"),
        title=f"Figure {number}, p = {p}: {words}, as published",
        x="n",
        y=f"{clip}, as published",
        low=f"{clip}, as published low",
        high=f"{clip}, as published high",
        measure="L₂ cost",
        colour="mechanism",
        column="mu",
        row="model",
        log_x=True,
        log_y=True,
        where=(("p", p),),
        cells=(("p", p),),
        note="The full grid has six sizes n, with 4,000 simulated tables each.",
    )


def _few_alphas(rows: list[Row]) -> list[Row]:
    return [row for row in rows if round(row["alpha"] * 10, 6) % 2 == 0]


@dataclass(frozen=True)
class _Of:
    """Cells and rows of one part that reads ages, from a folder or built in; picklable, as it may run elsewhere."""

    folder: str
    grid: Callable[[bool], Sequence[Parameters]]
    rows: Callable[..., Iterable[Row]]

    def cells(self, quick: bool) -> Sequence[Parameters]:
        more = {"data": "file"} if self.folder else {}
        return [{**cell, **more} for cell in self.grid(quick)]

    def compute(self, parameters: Parameters, seed: int) -> Iterable[Row]:
        return self.rows(parameters, seed, self.folder)


def with_data(folder: str | Path) -> Study:
    """The study, with the tests on the official age tables where the folder has them."""
    if not (Path(folder) / FILES[0]).is_file():
        raise InvalidParameter("data", str(folder), f"has no file {FILES[0]}", "Put the age tables there.")
    return _study(str(folder))


def _study(folder: str = "") -> Study:
    powers, sizes = _Of(folder, _power_cells, _power), _Of(folder, _size_cells, _size)
    return Study.read(
        "lee2022",
        (
            Part("figure-2", _one, _figure_2, shown=_few_alphas, finding=_figure_2_finding),
            Part(
                "figure-3", _one, _figure_3, finding=_figure_3_finding,
                shown=lambda rows: [row for row in rows if row["alpha"] in (0.2, 0.5)],
            ),
            Part("figure-4", _one, _figure_4, finding=_figure_4_finding),
            Part(
                "figure-6", _one, _figure_6, summary=_figure_6_curves, finding=_crossing_finding,
                shown=lambda rows: [row for row in rows if row["mu"] in (0.1, 0.3, 1.0, rows[-1]["mu"])],
            ),
            Part(
                "figure-7-8", _cost_cells, _costs, summary=_cost_summary, shown=_cost_table, finding=_cost_finding,
                figures=tuple(_cost_figure(*which, p) for which in _COSTS_DRAWN for p in (5, 10, 15)),
            ),
            Part(
                "figure-9-12", powers.cells, powers.compute, summary=_with_errors, shown=_power_summary,
                finding=_power_finding, figures=_TEST_FIGURES,
            ),
            Part("default-size", sizes.cells, sizes.compute, summary=_size_summary, finding=_size_finding),
        ),
        (*FORMULA_CLAIMS, *FIGURE_CLAIMS),
        source="the file of the given folder" if folder else _AROUND_2020,
    )  # fmt: skip


_AROUND_2020 = (
    "approximate ones around 2020; with `--data FOLDER` those of `ages.csv`, columns `korea` and `states` with the "
    "official counts of 18 five-year groups"
)
STUDY = _study()
