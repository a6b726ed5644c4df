"""Multiple synthesis and double sanitization: two published ways to account for noise in a conclusion.

Both treat the noise as if its law were not known. The default of this library uses the law itself
(`discreet.inference.sampling`); these stand beside it for comparison and for statistics without a law.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.contract.mechanism import Mechanism
from discreet.core import requirements
from discreet.core.errors import InsufficientBudget, InvalidParameter, WrongType
from discreet.core.exact import Exact
from discreet.core.guarantee import ApproxDP, Guarantee
from discreet.core.noise.truth import generator
from discreet.display import Facts, number
from discreet.interval import Interval
from discreet.ledgers import Ledger
from discreet.releases import Release, release
from discreet.result import Result

__all__ = ["CombinedEstimate", "DoubleSanitization", "MultipleSynthesis"]


@dataclass(frozen=True, kw_only=True)
class CombinedEstimate(Result):
    """An estimate with a total variance and a Student-t (or normal) law.

    Attributes
    ----------
    estimate
        The point estimate.
    within
        Sampling variance.
    between
        Variance of the noise, as estimated.
    variance
        Total variance.
    df
        Degrees of freedom; infinite for a normal law.
    """

    estimate: float
    within: float
    between: float
    variance: float
    df: float

    @property
    def standard_error(self) -> float:
        """Square root of the total variance."""
        return math.sqrt(self.variance)

    def confidence_interval(self, level: float = 0.95) -> Interval:
        """Estimate ± Student-t quantile × standard error."""
        from scipy.special import ndtri, stdtrit

        tail = 0.5 + requirements.level(level) / 2
        quantile = float(ndtri(tail) if math.isinf(self.df) else stdtrit(self.df, tail))
        reach = quantile * self.standard_error
        return Interval(self.estimate - reach, self.estimate + reach, level)

    def pvalue(self, null: float = 0.0) -> float:
        """Two-sided p-value of the hypothesis that the parameter is ``null``."""
        from scipy.special import ndtr, stdtr

        if self.variance == 0:
            return 1.0 if self.estimate == null else 0.0
        statistic = -abs(self.estimate - null) / self.standard_error
        return 2 * float(ndtr(statistic) if math.isinf(self.df) else stdtr(self.df, statistic))

    def to_dict(self) -> dict[str, Any]:
        """The numbers by name."""
        return {
            "estimate": self.estimate,
            "within": self.within,
            "between": self.between,
            "variance": self.variance,
            "df": self.df if math.isfinite(self.df) else None,
        }

    def heading(self) -> str:
        return "Combined estimate"

    def facts(self) -> Facts:
        return [
            ("estimate", number(self.estimate)),
            ("standard error", number(self.standard_error)),
            ("95 % interval", str(self.confidence_interval())),
            ("degrees of freedom", "normal" if math.isinf(self.df) else f"{self.df:.1f}"),
        ]

    def __str__(self) -> str:
        degrees = "normal" if math.isinf(self.df) else f"{self.df:.1f} df"
        return f"{self.estimate:.6g} ± {self.standard_error:.3g} ({degrees})"


@dataclass(frozen=True, kw_only=True)
class MultipleSynthesis:
    """Sanitize m times with a share of the budget each, and combine (liu2019; liu2023 (6)–(7)).

    Parameters
    ----------
    m
        Number of sets; the papers use 3 to 5.

    Notes
    -----
    With estimates θ₁, …, θ_m and sampling variances v₁, …, v_m: the estimate is the mean θ̄, within variance
    w = mean(v), between variance b = Σ(θ_h − θ̄)²/(m − 1), total variance b/m + w, and
    ν = (m − 1)(1 + mw/b)² degrees of freedom. The budget is split only to learn a noise variance that is public
    anyway, so the interval is wider than it need be; and bias near the bounds of a domain stays in.

    Examples
    --------
    >>> combined = MultipleSynthesis(m=3).combine([1.0, 2.0, 3.0], [0.5, 0.5, 0.5])
    >>> combined.estimate, round(combined.variance, 4), round(combined.df, 2)
    (2.0, 0.8333, 12.5)
    """

    m: int = 5

    def __post_init__(self) -> None:
        object.__setattr__(self, "m", requirements.positive_integer("m", self.m, at_least=2))

    def share(self, guarantee: Guarantee) -> Guarantee:
        """What each of the m sets may spend."""
        return guarantee.split(self.m)[0]

    def release(
        self,
        exact: Exact,
        mechanism: type[Mechanism],
        guarantee: Guarantee,
        *,
        ledger: Ledger | None = None,
        rng: int | np.random.Generator | None = None,
        **options: Any,
    ) -> tuple[Release, ...]:
        """Release the same value m times, each with its share of ``guarantee``.

        ``options`` go to the mechanism's `calibrate`, for example ``bounds``.
        """
        requirements.instance("exact", exact, Exact, "an Exact, such as Exact(10.0, Sensitivity(l1=1.0))")
        requirements.instance("guarantee", guarantee, Guarantee, "a guarantee such as PureDP(1.0)")
        kind: Any = mechanism
        if not isinstance(kind, type) or not issubclass(kind, Mechanism):
            raise WrongType("mechanism", mechanism, "must be a kind of mechanism", "Pass Laplace, for example.")
        if ledger is not None and not (preview := ledger.preview(guarantee)).affordable:
            raise InsufficientBudget(guarantee, preview.remaining)  # before the first of m, not half-way
        share = self.share(guarantee)
        chosen = mechanism.calibrate(share, exact.sensitivity, **options)
        named = share if isinstance(share, ApproxDP) else None  # an (ε, δ) pair is one of many that hold
        source = None if rng is None else generator(rng)
        return tuple(release(exact, chosen, ledger=ledger, guarantee=named, rng=source) for _ in range(self.m))

    def population(self, releases: Sequence[Release], **known: Any) -> CombinedEstimate:
        """Combine m releases of a mean, proportion, variance or covariance into an estimate of the population's.

        ``known`` is what is known of the population, as in the releases' ``sampling_model``.
        """
        variances = [release.sampling_variance(**known) for release in releases]  # type: ignore[attr-defined]
        return self.combine([float(release.measured) for release in releases], variances)

    def combine(self, estimates: Sequence[float], variances: Sequence[float]) -> CombinedEstimate:
        """Combine the estimates of the m sets and their sampling variances."""
        theta, sampling = _numbers("estimates", estimates), _numbers("variances", variances)
        if theta.shape != (self.m,) or sampling.shape != (self.m,):
            raise InvalidParameter(
                "estimates",
                theta.shape,
                f"must be {self.m} numbers, with {self.m} variances",
                "Pass one estimate and one variance a set.",
            )
        if not (np.all(np.isfinite(theta)) and np.all(np.isfinite(sampling)) and np.all(sampling >= 0)):
            raise InvalidParameter(
                "variances",
                "…",
                "estimates must be finite and variances finite and not negative",
                "Pass numbers that are.",
            )
        within, between = float(sampling.mean()), float(theta.var(ddof=1))
        df = (self.m - 1) * (1 + self.m * within / between) ** 2 if between > 0 else math.inf
        return CombinedEstimate(
            estimate=float(theta.mean()),
            within=within,
            between=between,
            variance=between / self.m + within,
            df=df,
        )


@dataclass(frozen=True, kw_only=True)
class DoubleSanitization:
    """Sanitize the released value again m times to learn the noise variance (liu2023 section 2.2).

    Costs no privacy: it starts from the release. The total variance is v₁ + v₂(1 + 1/m), with v₁ the sampling
    variance and v₂ the variance of the m doubly sanitized values.

    Parameters
    ----------
    m
        Number of repeats.
    """

    m: int = 1000

    def __post_init__(self) -> None:
        object.__setattr__(self, "m", requirements.positive_integer("m", self.m, at_least=2))

    def combine(
        self,
        value: float,
        mechanism: Mechanism,
        sampling_variance: float,
        *,
        rng: int | np.random.Generator | None = None,
    ) -> CombinedEstimate:
        """The released value with the variance of its noise added to the sampling variance."""
        requirements.instance("mechanism", mechanism, Mechanism, "the mechanism of the release")
        within = requirements.non_negative("sampling_variance", sampling_variance)
        start = requirements.finite("value", value)
        again = np.asarray(mechanism.draw(np.full(self.m, start), rng=rng), dtype=float)
        between = float(again.var(ddof=1))
        if not math.isfinite(between):
            raise InvalidParameter("value", value, "is too large for its noise to be seen", "Use smaller units.")
        return CombinedEstimate(
            estimate=start,
            within=within,
            between=between,
            variance=within + between * (1 + 1 / self.m),
            df=math.inf,
        )


def _numbers(name: str, values: Any) -> NDArray[np.float64]:
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise WrongType(name, values, "must be numbers", "Pass one a set.") from None
