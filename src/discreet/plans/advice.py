"""Advice: would sampling or suppressing records help, at equal privacy? Numbers from public facts only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.guarantee import ApproxDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.choices.selection import ReportNoisyMax
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace
from discreet.mechanisms.omission.amplification import before_outlier_suppression, before_poisson_sampling
from discreet.questions.clusters.lloyd import DPLloyd
from discreet.questions.question import whole_bounds
from discreet.results.display import Facts, Result

_RATES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9)
_SPANS = ((0.1, 0.1), (0.1, 0.15), (0.3, 0.4), (0.5, 0.5), (0.5, 0.7), (0.8, 0.9))
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(41)


@dataclass(frozen=True)
class Option:
    """One way to proceed: what the mechanism may spend, and the error that follows.

    Attributes
    ----------
    name
        For example ``"sample 0.5"``.
    spends
        What the mechanism may spend; None where no budget meets the target, or none is proved.
    omission_error, noise_error, error
        What leaving out records adds, what noise adds, and both together.
    """

    name: str
    spends: Guarantee | None
    omission_error: float | None
    noise_error: float | None
    error: float | None

    def to_dict(self) -> dict[str, Any]:
        """The option as JSON-ready data."""
        return {**vars(self), "spends": None if self.spends is None else self.spends.to_dict()}


@dataclass(frozen=True)
class Advice(Result):
    """All options, the best one, and the answer in words."""

    statistic: str
    measure: str
    options: tuple[Option, ...]

    @property
    def plain(self) -> Option:
        """The option without omission."""
        return self.options[0]

    @property
    def best(self) -> Option:
        """The option with the smallest error."""
        return min((option for option in self.options if option.error is not None), key=lambda o: o.error or 0.0)

    @property
    def omission_helps(self) -> bool:
        """True where some way of omitting records lowers the error by more than a thousandth of it."""
        return (self.best.error or 0.0) < (self.plain.error or 0.0) * (1 - 1e-3)

    def sentence(self) -> str:
        """The answer in words."""
        if self.omission_helps:
            return f"Omitting records helps here: {self.best.name} has the smallest error."
        others = [option.error for option in self.options[1:] if option.error is not None]
        factor = min(others, default=math.inf) / max(self.plain.error or 0.0, 1e-300)
        cost = (
            f"the best way of omitting has {factor:.3g} times the error"
            if math.isfinite(factor)
            else "none has a budget"
        )
        return f"Use all records: {cost}."

    def facts(self) -> Facts:
        """The facts to show."""
        shown = [(option.name, _shown(option)) for option in self.options]
        return [("answer", self.sentence()), ("error is", self.measure), *shown]

    def to_dict(self) -> dict[str, Any]:
        """The advice as JSON-ready data."""
        return {
            "statistic": self.statistic,
            "measure": self.measure,
            "omission_helps": self.omission_helps,
            "answer": self.sentence(),
            "options": [option.to_dict() for option in self.options],
        }

    def __str__(self) -> str:
        lines = [f"{self.sentence()}", f"Error is the {self.measure}.", ""]
        lines.append(f"  {'option':<18}{'mechanism spends':>18}{'omission':>12}{'noise':>12}{'together':>12}")
        for option in self.options:
            numbers = (option.omission_error, option.noise_error, option.error)
            cells = "".join(f"{'–' if value is None else f'{value:.4g}':>12}" for value in numbers)
            spends = "no budget" if option.spends is None else _spent(option.spends)
            lines.append(f"  {option.name:<18}{spends:>18}{cells}")
        return "\n".join(lines)

    def heading(self) -> str:
        return f"Omitting records for a {self.statistic}"


def _spent(guarantee: Guarantee) -> str:
    """The main parameter, in short: δ is the target's over the rate."""
    sign, _ = str(guarantee).split(" = ", 1)
    return f"{sign} = {next(iter(guarantee.parameters().values())):.4g}"


def _shown(option: Option) -> str:
    if option.error is None:
        return "no budget meets the target"
    return f"{option.error:.4g} (omission {option.omission_error:.4g}, noise {option.noise_error:.4g})"


def advise(
    statistic: str,
    n: int,
    guarantee: Guarantee,
    *,
    bounds: tuple[float, float] = (0.0, 1.0),
    expected_sd: float | None = None,
    shares: tuple[float, float] = (0.3, 0.25),
    candidates: int = 10,
    probability: float = 0.5,
    clusters: int = 3,
) -> Advice:
    """Advice on sampling or suppressing records: the errors with and without, at equal privacy. Reads no data.

    Parameters
    ----------
    statistic
        ``"count"``, ``"sum"``, ``"mean"``, ``"proportion"``, ``"table"`` or ``"histogram"`` (of one of its cells),
        ``"quantile"``, ``"mode"`` or ``"clusters"`` (a coordinate of a centre).
    n
        Number of rows to plan for; of a table or histogram, those of the cell.
    guarantee
        What the result must satisfy between add/remove neighbours; for a mode ε. ρ and μ are not amplified by a sample,
        and nothing is proved for them behind a suppression.
    bounds
        Public bounds of a column, for sums, means and clusters.
    expected_sd
        Standard deviation to plan for, of clusters inside each; by default that of a uniform column, and ½ for a
        proportion.
    shares, candidates
        For a mode: the shares of the two most frequent categories, and the number of categories.
    probability
        For a quantile: which one.
    clusters
        The number of clusters.

    Examples
    --------
    >>> print(advise("mean", 30_000, PureDP(1.0), bounds=(0, 125), expected_sd=14).sentence())
    Use all records: the best way of omitting has 4.69 times the error.
    """
    requirements.instance("guarantee", guarantee, Guarantee, "PureDP(1.0)")
    requirements.positive(*next(iter(guarantee.parameters().items())))
    rows = requirements.positive_integer("n", n, at_least=2)
    low, high = whole_bounds("bounds", (0.0, 1.0) if statistic == "proportion" else bounds)
    usual = 0.5 if statistic == "proportion" else (high - low) / math.sqrt(12)
    deviation = usual if expected_sd is None else requirements.positive("expected_sd", expected_sd)
    if statistic == "mode":
        requirements.instance("guarantee", guarantee, PureDP, "PureDP(1.0): the mode is computed for ε")
        error, measure = _mode_error(rows, shares, candidates), "probability of a wrong mode"
    elif statistic == "quantile":
        share = requirements.probability("probability", probability)
        error, measure = _rank_error(rows, share), "standard error of the quantile, in rows"
    elif statistic == "clusters":
        error, measure = (
            _centre_error(rows, (low, high), deviation, clusters),
            "standard error of a centre's coordinate",
        )
    elif statistic in ("count", "sum", "mean", "proportion", "table", "histogram"):
        # A proportion is the mean of zeros and ones; a record is in one cell of a table, which is a count.
        kind = {"proportion": "mean", "table": "count", "histogram": "count"}.get(statistic, statistic)
        error = _moment_error(kind, rows, (low, high), deviation)
        measure = "standard error of " + ("a cell" if kind != statistic == "table" else f"the {statistic}")
    else:
        rule = "must be count, sum, mean, proportion, table, histogram, quantile, mode or clusters"
        raise InvalidParameter("statistic", statistic, rule, "Check the spelling.")
    distance = min(1.128 * deviation / (high - low), 1.0) if statistic != "mode" else 1 - sum(s * s for s in shares)
    options = [Option("all records", guarantee, *error(1.0, guarantee))]
    for rate in _RATES:
        inner = before_poisson_sampling(guarantee, rate)
        options.append(Option(f"sample {rate:g}", inner, *error(rate, inner)))
    for m, M in _SPANS:
        name = f"suppress {m:g}–{M:g}"
        try:
            inner = before_outlier_suppression(guarantee, m, M)
        except NoConversion:
            options.append(Option(name, None, None, None, None))
        else:
            options.append(Option(name, inner, *error(1 - m - (M - m) * distance, inner)))
    return Advice(statistic, measure, tuple(options))


def _noise(guarantee: Guarantee) -> float:
    """The standard deviation of the better of Laplace and Gaussian noise on a number that one record moves by one."""
    unit = Sensitivity(l1=1.0, l2=1.0)
    deviations = []
    if isinstance(guarantee, PureDP | ApproxDP):
        deviations.append(math.sqrt(2) * Laplace.calibrate(guarantee, unit).scale)
    if not isinstance(guarantee, PureDP):
        deviations.append(Gaussian.calibrate(guarantee, unit).scale)
    return min(deviations)


def _moment_error(statistic: str, n: int, bounds: tuple[float, float], deviation: float) -> Any:
    """Standard errors of a scaled-up count or sum, or of a noisy average, when each row stays with probability q."""
    reach = max(abs(end) for end in bounds)
    half = (bounds[1] - bounds[0]) / 2

    def errors(q: float, guarantee: Guarantee) -> tuple[float, float, float]:
        noise = _noise(guarantee)
        if statistic == "count":
            omission, added = math.sqrt(n * (1 - q) / q), noise / q
        elif statistic == "sum":
            centre = (bounds[0] + bounds[1]) / 2
            omission = math.sqrt(n * (1 - q) / q * (deviation**2 + centre**2))
            added = reach * noise / q
        else:
            omission = deviation * math.sqrt((1 - q) / (q * n))
            added = 2 * half * noise / (q * n)
        return omission, added, math.hypot(omission, added)

    return errors


def _rank_error(n: int, probability: float) -> Any:
    """Errors of a quantile in rows of the whole, where rows lie close: a choice with weights e^(−f·rank distance)."""
    step = max(probability, 1 - probability)

    def errors(q: float, guarantee: Guarantee) -> tuple[float, float, float]:
        # A choice of ε has a bounded range of losses, and so costs ρ = ε²/8.
        if isinstance(guarantee, PureDP | ApproxDP):
            epsilon = guarantee.epsilon
        else:
            epsilon = math.sqrt(8 * guarantee.to(ZeroConcentratedDP).rho)
        omission = math.sqrt(n * probability * (1 - probability) * (1 - q) / q)
        noise = math.sqrt(2) * 2 * step / epsilon / q
        return omission, noise, math.hypot(omission, noise)

    return errors


def _centre_error(n: int, bounds: tuple[float, float], deviation: float, clusters: int) -> Any:
    """Errors of a centre of clusters of equal size, found by `DPLloyd`."""
    half = (bounds[1] - bounds[0]) / 2

    def errors(q: float, guarantee: Guarantee) -> tuple[float, float, float]:
        model = DPLloyd(clusters, guarantee=guarantee, bounds=[bounds], expected_rows=max(1, round(q * n)))
        noise = half * (model.plan().cluster_error or 0.0)
        omission = deviation * math.sqrt(clusters * (1 - q) / (q * n))
        return omission, noise, math.hypot(omission, noise)

    return errors


def _mode_error(n: int, shares: tuple[float, float], candidates: int) -> Any:
    """Probability of a wrong mode by Laplace noisy max, over the counts of a thinned sample."""
    first, second = (requirements.probability("shares", share) for share in shares)
    if not first > second:
        raise InvalidParameter("shares", shares, "must be decreasing", "Pass the larger share first.")
    count = requirements.positive_integer("candidates", candidates, at_least=2)
    rest = (1 - first - second) / max(count - 2, 1)

    def wrong(top: float, next_one: float, others: float, epsilon: float) -> float:
        scores = np.array([top, next_one] + [others] * (count - 2))
        return 1 - float(ReportNoisyMax(1 / epsilon).probabilities(scores)[0])

    def errors(q: float, guarantee: PureDP) -> tuple[float, float, float]:
        epsilon = guarantee.epsilon
        gap, spread = n * q * (first - second), math.sqrt(n * q * (1 - q) * (first + second))
        omission = float(scipy.special.ndtr(-gap / spread)) if spread > 0 else 0.0
        noise = wrong(n * q * first, n * q * second, n * q * rest, epsilon)
        points = gap + spread * _NODES if spread > 0 else np.array([gap])
        weights = _WEIGHTS / _WEIGHTS.sum() if spread > 0 else np.array([1.0])
        middle = n * q * (first + second) / 2
        both = sum(
            weight * wrong(middle + point / 2, middle - point / 2, n * q * rest, epsilon)
            for point, weight in zip(points, weights, strict=True)
        )
        return omission, noise, max(float(both), noise)

    return errors
