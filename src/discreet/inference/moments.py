"""Releases of a proportion, mean, variance, standard deviation or covariance, and what follows from one."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.core import requirements
from discreet.core.display import Facts, number
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.interval import Interval
from discreet.inference.multiple_synthesis import DoubleSanitization
from discreet.inference.population import NoiseAware, ReleaseLaw, debiased
from discreet.inference.sampling import (
    BetaMean,
    Binomial,
    GammaVariance,
    NormalCovariance,
    SamplingModel,
    largest_fourth,
)
from discreet.releases import Release

if TYPE_CHECKING:
    from discreet.questions.covariance import Covariance
    from discreet.questions.mean import Mean
    from discreet.questions.variance import Variance

__all__ = [
    "CovarianceRelease",
    "MeanRelease",
    "PooledCovarianceRelease",
    "PooledVarianceRelease",
    "ProportionRelease",
    "StandardDeviationRelease",
    "VarianceRelease",
]

Method = NoiseAware | DoubleSanitization

_LEAST_SHARE = 1e-6


@dataclass(frozen=True)
class MomentRelease(Release):
    """What releases of one bounded number share."""

    @property
    def n(self) -> int:
        """The public number of rows."""
        return requirements.positive_integer("n", getattr(self.statistic, "n", None))

    @property
    def domain(self) -> tuple[float, float]:
        """The public domain of the statistic."""
        low, high = self.statistic.domain()  # type: ignore[union-attr]
        return float(low), float(high)

    @property
    def debiased(self) -> float:
        """The value corrected for the bias of bounded noise, inside the domain."""
        return debiased(self.mechanism, self._number(), self.domain)

    def _number(self) -> float:
        if np.ndim(self.value) != 0:
            raise WrongType("value", self.value, "must be one number", "Release one statistic at a time.")
        return float(self.value)

    @abstractmethod
    def sampling_model(self, **known: Any) -> SamplingModel:
        """How the statistic varies between samples, with what is ``known`` of the population."""

    def sampling_variance(self, **known: Any) -> float:
        """Sampling variance of the statistic, at the debiased value."""
        return self.sampling_model(**known).variance(self.debiased)

    def population_interval(self, level: float = 0.95, *, method: Method | None = None, **known: Any) -> Interval:
        """Interval for the population's parameter: sampling error and noise together.

        Parameters
        ----------
        level
            Confidence level.
        method
            `NoiseAware()` by default; `DoubleSanitization(m=…)` adds the variance of repeated noise.
        known
            What is known of the population; see `sampling_model`.
        """
        checked = requirements.level(level)
        if isinstance(method, DoubleSanitization):
            combined = method.combine(self._number(), self.mechanism, self.sampling_variance(**known))
            return combined.confidence_interval(checked)
        chosen = NoiseAware() if method is None else method
        requirements.instance("method", chosen, NoiseAware, "NoiseAware() or DoubleSanitization(m=1000)")
        law = ReleaseLaw(model=self.sampling_model(**known), mechanism=self.mechanism)
        return chosen.interval(law, self._number(), checked)

    def facts(self) -> Facts:
        """What to show, with the interval for the population."""
        interval = self.population_interval()
        shown = list(super().facts())
        return [*shown[:2], ("population, 95 %", f"{number(interval.low)} to {number(interval.high)}"), *shown[2:]]


@dataclass(frozen=True)
class ProportionRelease(MomentRelease):
    """A released proportion; the population's interval is exact (binomial sampling, known noise)."""

    def sampling_model(self) -> Binomial:  # type: ignore[override]  # nothing else need be known
        """Binomial with the public n."""
        return Binomial(n=self.n)


@dataclass(frozen=True)
class VarianceRelease(MomentRelease):
    """A released variance."""

    def _of(self) -> Variance:
        return self.statistic  # type: ignore[return-value]

    def sampling_model(  # type: ignore[override]  # each statistic names what may be known
        self, *, kurtosis: float | None = None
    ) -> GammaVariance:
        """Gamma law of a sample variance.

        Parameters
        ----------
        kurtosis
            The population's μ₄/σ⁴, where it is known; by default the worst that the bounds allow.
        """
        low, high = self._of().bounds
        return GammaVariance(n=self.n, width=high - low, largest=self.domain[1], kurtosis=kurtosis)


@dataclass(frozen=True)
class PooledVarianceRelease(VarianceRelease):
    """A released pooled variance: as a variance of n − J + 1 rows, which has the same degrees of freedom."""

    @property
    def n(self) -> int:
        """Degrees of freedom plus one."""
        return super().n - len(self.statistic.cells) + 1  # type: ignore[union-attr]


@dataclass(frozen=True)
class StandardDeviationRelease(VarianceRelease):
    """A released variance, read as a standard deviation.

    ``value`` is the protected variance; ``standard_deviation`` its root. The intervals are for the standard
    deviation: the root is monotone, so they are the variance's, transformed.
    """

    @property
    def standard_deviation(self) -> float:
        """Root of the released variance."""
        return self._of().transform(self._number())  # type: ignore[attr-defined,no-any-return]

    def confidence_interval(self, level: float = 0.95) -> Interval:
        """Interval for the data's standard deviation."""
        return _root(super().confidence_interval(level))

    def population_interval(self, level: float = 0.95, *, method: Method | None = None, **known: Any) -> Interval:
        """Interval for the population's standard deviation; see `MomentRelease.population_interval`."""
        return _root(super().population_interval(level, method=method, **known))

    def facts(self) -> Facts:
        """What to show, with the standard deviation first."""
        return [("standard deviation", number(self.standard_deviation)), *super().facts()]


def _root(interval: Interval) -> Interval:
    low, high = (math.sqrt(max(float(end), 0.0)) for end in interval)
    return Interval(low, high, interval.level)


@dataclass(frozen=True)
class MeanRelease(MomentRelease):
    """A released mean."""

    def _of(self) -> Mean:
        return self.statistic  # type: ignore[return-value]

    def sampling_model(  # type: ignore[override]  # each statistic names what may be known
        self, *, variance: float | VarianceRelease | None = None
    ) -> BetaMean:
        """Beta law of a mean in bounds.

        Parameters
        ----------
        variance
            The population's variance, if public, or a private release of it, whose upper end at 98 % is used. Without
            it the largest possible variance (μ − c₀)(c₁ − μ) is assumed, which is valid for every population in the
            bounds and wide for most.
        """
        low, high = bounds = self._of().bounds
        largest = (self.debiased - low) * (high - self.debiased)
        if variance is None or largest <= 0:
            return BetaMean(n=self.n, bounds=bounds)
        spread = _largest_variance(variance, 0.98)
        return BetaMean(n=self.n, bounds=bounds, dispersion=min(1.0, max(spread / largest, _LEAST_SHARE)))


@dataclass(frozen=True)
class CovarianceRelease(MomentRelease):
    """A released covariance."""

    def _of(self) -> Covariance:
        return self.statistic  # type: ignore[return-value]

    def sampling_model(  # type: ignore[override]  # each statistic names what may be known
        self, *, variances: Sequence[float | VarianceRelease] | None = None
    ) -> NormalCovariance:
        """Normal law of a sample covariance.

        Parameters
        ----------
        variances
            The two population variances, public or as private releases, whose upper ends at 99 % are used. Without
            them the largest possible fourth moments are assumed.
        """
        widths = [high - low for low, high in self._of().bounds]
        if variances is not None and len(variances) != 2:
            raise InvalidParameter("variances", len(variances), "must be two", "Pass one per column.")
        spreads = [width**2 / 4 for width in widths]
        fourths = [width**4 / 12 for width in widths]
        for place, given in enumerate(variances or ()):
            spreads[place] = min(_largest_variance(given, 0.99), spreads[place])
            fourths[place] = largest_fourth(spreads[place], widths[place])
        return NormalCovariance(
            n=self.n,
            mixed=math.sqrt(math.prod(fourths)),
            largest=self.domain[1],
            reach=min(math.sqrt(math.prod(spreads)), self.domain[1]),
        )


@dataclass(frozen=True)
class PooledCovarianceRelease(CovarianceRelease):
    """A released pooled covariance: as a covariance of n − J + 1 rows."""

    @property
    def n(self) -> int:
        """Degrees of freedom plus one."""
        return super().n - len(self.statistic.cells) + 1  # type: ignore[union-attr]


def _largest_variance(value: float | VarianceRelease, level: float) -> float:
    """A known variance, or the largest one that a release leaves possible."""
    if isinstance(value, VarianceRelease):
        return float(VarianceRelease.population_interval(value, level).high)
    return requirements.non_negative("variance", value)
