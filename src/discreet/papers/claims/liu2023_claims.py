"""Claims of liu2023 outside its simulations: definitions, theorems, privacy of the algorithms, Tables 2 and 3."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, inf, log, sqrt

from discreet.papers.claims.liu2023_simulation_claims import SIMULATION_CLAIMS
from discreet.papers.paper_claim import Claim, Measured, Rows, votes

__all__ = ["CLAIMS"]

_PRINTED_ASYMMETRIC = {
    "2S": ((-12.95, 7.201), (-5.112, 4.072), (-0.566, 0.452), (-0.114, 0.130)),
    "6S": ((-0.263, 0.034), (-0.081, 0.136), (-0.013, 0.036), (-0.002, 0.031)),
    "6SDD": ((-0.163, 0.345), (-0.238, 0.099), (-0.012, 0.034), (-0.003, 0.031)),
    "4S": ((-0.086, 0.025), (-0.042, 0.078), (-0.005, 0.029), (-0.004, 0.030)),
    "4SDD": ((-0.115, 0.040), (-0.066, 0.214), (-0.004, 0.031), (-0.003, 0.030)),
    "naive": ((-0.553, 0.457), (-0.473, 0.501), (0.030, 0.053), (0.031, 0.051)),
}
"""Table 3, α = 0.15, β = 0.05: intervals at ε = 0.5, 1, 5, 50; the line of ε = 2 has lost its columns in print."""
_PRINTED_SE = {
    "6S": (98.06, 25.51, 7.853, 10.09, 7.770),
    "6SDD": (60.12, 61.88, 7.852, 8.083, 7.811),
    "4S": (84.36, 21.40, 27.14, 8.905, 7.721),
    "4SDD": (204.3, 22.82, 12.26, 8.422, 7.717),
    "winsorized": (142.6, 52.89, 10.63, 9.523, 7.927),
    "trimmed": (152.1, 59.81, 12.15, 10.44, 7.927),
}
"""Table 3, α = β = 0.1: standard errors of the PAC-based methods at ε = 0.5, 1, 2, 5, 50."""
_TABLE_2 = {
    1_000: (0.377, 0.763, 1.567, 3.294, 7.227),
    100_000: (0.485, 0.980, 1.999, 4.159, 8.958),
    1_000_000: (0.531, 1.071, 2.183, 4.525, 9.690),
}
_RHOS = (0.005, 0.02, 0.08, 0.32, 1.28)


def _claim(
    place: str, claim: str, statistic: str, measure: Callable[[Rows], Measured], *, low: float = -inf,
    high: float = inf, part: str | None = None,
) -> Claim:  # fmt: skip
    return Claim(
        paper="liu2023", place=place, claim=claim, statistic=statistic, measure=measure, low=low, high=high, part=part
    )


def _exactly(value: Callable[[], float]) -> Callable[[Rows], Measured]:
    return lambda _: Measured.exact(value())


# ---- Algorithm 1, as printed --------------------------------------------------------------------------------------


def _density(points: Sequence[float], q: float, epsilon: float, x: float) -> float:
    """The density of PrivateQuantile (Algorithm 1) at x, for sorted values; end intervals left out as in line 3."""
    p = len(points)
    gaps = {j: points[j] - points[j - 1] for j in range(1, p)}
    weights = {j: gap * exp(-epsilon * abs(j - q * p)) for j, gap in gaps.items()}
    inside = [j for j in gaps if points[j - 1] < x < points[j]]
    return sum(weights[j] / gaps[j] for j in inside) / sum(weights.values())


def _quantile_loss() -> float:
    """Log-ratio at ε = 1 for two data sets that differ in one record, moved from the far left to the far right."""
    tiny = 1e-6
    before, after = (-tiny, 0.0, 1.0, 1.0 + tiny), (0.0, 1.0, 1.0 + tiny, 1.0 + 2 * tiny)
    x = 1.0 + tiny / 2
    return log(_density(after, 0.5, 1.0, x) / _density(before, 0.5, 1.0, x))


def _impossible_outputs() -> float:
    """Mass that one data set puts where its neighbour puts none, at ε = 1."""
    before, after = (-2.0, 0.0, 1.0, 2.0), (0.0, 1.0, 2.0, 3.0)
    return 2.0 * _density(before, 0.5, 1.0, -1.0) if _density(after, 0.5, 1.0, -1.0) == 0 else 0.0


def _sum_moves() -> float:
    """A record that leaves (l*, u*) = (1, 1.2) takes its value with it: change of s′₁ over u* − l*."""
    low, high = 1.0, 1.2
    before, after = [1.1, 1.19], [1.1, 5.0]
    inside = [sum(z for z in values if low < z < high) for values in (before, after)]
    return abs(inside[0] - inside[1]) / (high - low)


def _raw_quantiles_move() -> float:
    """Change of s′₁ inside the raw 10 % and 90 % quantiles over a sanitized width of 0.8, when one of ten moves."""
    values = [-100.0, *(1 + j / 10 for j in range(9))]
    moved = sorted([*values[:-1], -200.0])
    return abs(sum(sorted(values)[1:9]) - sum(moved[1:9])) / 0.8


# ---- Theorems -----------------------------------------------------------------------------------------------------


def _slope(rows: Rows, column: str, error: str) -> Measured:
    """Power of P at which a mean square falls, from the smallest to the largest P."""
    first, last = rows[0], rows[-1]
    span = log(last["P"] / first["P"])
    value = log(last[column] / first[column]) / span
    return Measured.of(value, sqrt(sum((row[error] / row[column]) ** 2 for row in (first, last))) / span)


def _over_the_claim(rows: Rows) -> Measured:
    """Logarithm of E(l* − l)² at the largest P, minus the logarithm that Corollary 5 gives."""
    last = rows[-1]
    return Measured.of(log(last["square"]) - last["log claimed"], last["square error"] / last["square"])


def _mean_over_the_claim(rows: Rows) -> Measured:
    """Logarithm of |E(l* − l)| at the largest P, minus the logarithm of 1/(2e^(Pε)P f)."""
    last = rows[-1]
    claimed = (last["log claimed"] - log(2 / 3)) / 2 - log(2)
    return Measured.of(log(abs(last["mean"])) - claimed, last["mean error"] / abs(last["mean"]))


def _reading(rows: Rows, reading: str, method: str, different: bool) -> Measured:
    """Mean coverage of a method under a reading."""
    found = [
        row for row in rows
        if row["reading"] == reading and row["method"] == method and (row["θ"] != 0) == different
    ]  # fmt: skip
    repeats = found[0]["repeats"]
    value = sum(row["coverage"] for row in found) / len(found)
    error = sqrt(sum(row["coverage"] * (1 - row["coverage"]) for row in found) / repeats) / len(found)
    return Measured.of(value, error)


# ---- Tables -------------------------------------------------------------------------------------------------------


def _table_2() -> float:
    pairs = (
        (rho + 2 * sqrt(rho * log(n)), printed)
        for n, values in _TABLE_2.items()
        for rho, printed in zip(_RHOS, values, strict=True)
    )
    return max(abs(value - printed) for value, printed in pairs)


def _laplace_over_gaussian(shares: int) -> float:
    """Least ratio of variances, Laplace over Gaussian, for a statistic that gets 1/shares of the budget of Table 2."""
    laplace = [2 * (shares / epsilon) ** 2 for epsilon in (0.5, 1.0, 2.0, 5.0)]
    gaussian = [shares / (2 * rho) for rho in _RHOS[:4]]
    return max(one / other for one, other in zip(laplace, gaussian, strict=True))


def _outside() -> float:
    ends = [pair for pairs in _PRINTED_ASYMMETRIC.values() for pair in pairs]
    return float(sum(not low <= 0 <= high for low, high in ends))


def _printed_best() -> float:
    """At how many of five ε the printed SE of 4S is the least of the PAC-based methods."""
    return float(sum(_PRINTED_SE["4S"][place] == min(row[place] for row in _PRINTED_SE.values()) for place in range(5)))


def _case(rows: Rows, method: str, epsilon: float, column: str = "SE", alpha: float = 0.1) -> float:
    [row] = [one for one in rows if one["method"] == method and one["ε"] == epsilon and one["α"] == alpha]
    return float(row[column])


def _spread(rows: Rows, method: str, epsilon: float) -> Measured:
    """A standard error of one draw: median, and where 80 % of draws lie."""
    return Measured(*(_case(rows, method, epsilon, column) for column in ("SE", "SE low", "SE high")))


def _hold_zero(rows: Rows) -> Measured:
    """The least share of draws whose interval holds 0, over methods, budgets and both censorings."""
    least = min((row for row in rows if row["method"] != "original"), key=lambda row: row["holds 0"])
    return Measured.proportion(least["holds 0"], least["draws"])


def _smaller_than_original(rows: Rows) -> Measured:
    original = _case(rows, "original", 50.0)
    names = ("6S", "6SDD", "4S", "4SDD", "winsorized", "trimmed")
    return votes([_spread(rows, name, 50.0) for name in names], high=original)


_TABLE_3 = "Table 3, section 6"

CLAIMS: tuple[Claim, ...] = (
    _claim(
        "Algorithm 1", "PrivateQuantile with weights exp(−ε|j − qP|) is ε-DP.",
        "largest log-ratio of two neighbours over ε, found by hand (four values, ε = 1)",
        _exactly(_quantile_loss), high=1.0,
    ),
    _claim(
        "Algorithm 1, line 3", "j* is drawn from {1, …, P − 1}: still ε-DP.",
        "mass of outputs that a neighbour cannot give (four values, ε = 1)", _exactly(_impossible_outputs), high=0.0,
    ),
    _claim(
        "Equations (16), (17)", "Δ₁(s′₁) = u* − l*.",
        "change of s′₁ over u* − l* when one value leaves (1, 1.2)", _exactly(_sum_moves), high=1.0,
    ),
    _claim(
        "Section 3.4", "In 4S and 6S, s′₁ inside the raw quantiles may use the sensitivity of the sanitized ones.",
        "change of s′₁ over a width of 0.8, for ten values of which one moves", _exactly(_raw_quantiles_move), high=1.0,
    ),
    _claim(
        "Section 2.1 (3)", "ρ-zCDP gives (ρ + 2√(ρ log 1/δ), δ)-DP; Table 2 lists it for δ = 1/n.",
        "largest distance from the fifteen printed values", _exactly(_table_2), high=0.0006, part="table-2",
    ),
    _claim(
        "Table 2, section 5.1", "The variance of the Laplace mechanism is notably smaller than that of the Gaussian.",
        "largest ratio of variances for one statistic with the whole budget",
        _exactly(lambda: _laplace_over_gaussian(1)), high=0.75, part="table-2",
    ),
    _claim(
        "Table 2, section 5.1", "… “in the examined simulation scenarios”, such as 4S with m = 4.",
        "largest ratio of variances for one statistic with 1/16 of the budget",
        _exactly(lambda: _laplace_over_gaussian(16)), high=0.75, part="table-2",
    ),
    _claim(
        "Section 5.1", "The parameters of ZILN lead to θ = 1.64.", "0.01·exp(4.6 + 1/2)",
        _exactly(lambda: 0.01 * exp(5.1)), low=1.635, high=1.645,
    ),
    _claim(
        "Section 5.1", "The parameters of ZINB lead to θ = 0.03.", "(0.03 − 0.02)·3", _exactly(lambda: 0.01 * 3),
        low=0.03 - 1e-12, high=0.03 + 1e-12,
    ),
    _claim(
        "Theorem 1", "O(P⁻²) = o(n⁻¹) if P = o(√n).", "P⁻² over n⁻¹ at n = 10⁶, P = 100",
        _exactly(lambda: 100.0**-2 / 1e-6), high=1.0,
    ),
    _claim(
        "Theorem 4 (30)", "The sanitized quantile converges to the population quantile: mean square O(P⁻¹).",
        "power of P, from P = 50 to 1600", lambda rows: _slope(rows, "total", "total error"), high=-0.9,
        part="private-quantile",
    ),
    _claim(
        "Theorem 4 (48)", "The sanitized quantile converges to the sample quantile at the rate e^(−2Pε)P⁻².",
        "logarithm of E(l* − l)² at P = 1600, minus that of the claim", _over_the_claim, high=1.0,
        part="private-quantile",
    ),
    _claim(
        "Section 4.2", "It converges faster in P than the sample quantile to the population quantile.",
        "power of P at which E(l* − l)² falls", lambda rows: _slope(rows, "square", "square error"), high=-1.5,
        part="private-quantile",
    ),
    _claim(
        "Corollary 5 (1)", "E(l* − l) → 1/(2e^(Pε)P f).",
        "logarithm of |E(l* − l)| at P = 1600, minus that of the claim",
        _mean_over_the_claim, high=1.0, part="private-quantile",
    ),
    _claim(
        "Algorithm 2, 5.2.4 to 5.2.12", "6SDD under-covers where the means differ (Algorithm 2 as printed).",
        "mean coverage of 6SDD, means differ", lambda rows: _reading(rows, "as printed", "6SDD", True), high=0.93,
        part="readings",
    ),
    _claim(
        "Algorithm 2, 5.2.4 to 5.2.12", "4SDD under-covers where the means differ (Algorithm 2 as printed).",
        "mean coverage of 4SDD, means differ", lambda rows: _reading(rows, "as printed", "4SDD", True), high=0.93,
        part="readings",
    ),
    _claim(
        _TABLE_3, "“In all cases, regardless of α, β, ε, the 95 % CIs in all methods contain 0.”",
        "printed intervals of the asymmetric block that do not hold 0 (naïve, ε = 5 and 50)", _exactly(_outside),
        high=0.0, part="table-3",
    ),
    _claim(
        _TABLE_3, "“In all cases … the 95 % CIs in all methods contain 0”, on the generated case.",
        "least share of draws whose interval holds 0, over methods and budgets", _hold_zero, low=0.9, part="table-3",
    ),
    _claim(
        _TABLE_3, "“In general, 4S is the best performer”, by the printed standard errors for α = β.",
        "number of the five ε at which its printed SE is the least of the PAC-based methods", _exactly(_printed_best),
        low=3.0, part="table-3",
    ),
    _claim(
        _TABLE_3, "“The 2S method, even in an overly optimistically unachievable setting, performs the worst.”",
        "SE of 2S over that of 4S at ε = 1, generated case",
        lambda rows: Measured.exact(_case(rows, "2S", 1.0, "SE low") / _case(rows, "4S", 1.0, "SE high")), low=1.0,
        part="table-3",
    ),
    _claim(
        _TABLE_3, "At large ε the SEs of the PAC-based methods are even smaller than that of the original data.",
        "share of six methods whose SE at ε = 50 is below the original's", _smaller_than_original, low=1.0,
        part="table-3",
    ),
    *SIMULATION_CLAIMS,
)  # fmt: skip
