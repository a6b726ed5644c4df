"""NoisyAverage: a mean whose number of rows is protected too, as a noisy sum over a noisy count."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, cast

import numpy as np
import scipy  # whose submodules load when first used
from numpy.typing import NDArray

from discreet.answers import Answer
from discreet.core import requirements
from discreet.core.grid import total
from discreet.core.guarantee import Guarantee, PureDP
from discreet.core.protection import Neighbours
from discreet.core.sensitivity import Sensitivity
from discreet.display import Facts, number
from discreet.inference.noise_sum import combined_error, largest_variance, ratio_interval
from discreet.interval import Interval
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace
from discreet.publish.readings import Reading
from discreet.questions.bounded import fractions
from discreet.questions.sum import SumAndCount
from discreet.releases import Release
from discreet.result import Result

__all__ = ["AverageComparison", "NoisyAverage", "NoisyAverageRelease"]

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class NoisyAverage(SumAndCount):
    """The mean of a column as sum over count, both noisy (miranda2026 §3.1).

    The value is the pair (Σ(x − centre)/reach, number of rows); one scale of noise serves both coordinates. Centred at
    the middle of the bounds a row moves the sum by at most half their width, so the noise is the least; with
    ``centred=False`` the sum is that of the column itself, as published.

    Guarantee
    ---------
    Add/remove: both coordinates move by at most 1 (ℓ₁ = 2, ℓ₂ = √2). Under replace-one the number of rows is public:
    use `Mean`.

    Parameters
    ----------
    bounds
        Public bounds of a row; values outside are clipped.
    grid
        Resolution, a power of two.
    centred
        Whether the sum is taken around the middle of the bounds.

    Examples
    --------
    >>> from discreet import Laplace, Ledger, PureDP, release
    >>> age = NoisyAverage(bounds=(0, 125))
    >>> exact = age.exact([38] * 5000, neighbours=Neighbours.ADD_REMOVE)
    >>> mechanism = Laplace.calibrate(PureDP(1.0), exact.sensitivity)
    >>> noisy = release(exact, mechanism, ledger=Ledger(":memory:", budget=PureDP(1.0)))
    >>> abs(noisy.mean - 38) < 2, noisy.confidence_interval(0.999999).contains(38)
    (True, True)
    """

    name: ClassVar[str] = "noisy_average"
    centred: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        requirements.instance("centred", self.centred, bool, "centred=True or False")

    @property
    def centre(self) -> Fraction:
        """Where the sum is taken from."""
        return self.middle if self.centred else Fraction(0)

    @property
    def reach(self) -> Fraction:
        """How far a row can be from the centre."""
        low, high = (Fraction(end) - self.centre for end in self.bounds)
        return max(abs(low), abs(high))

    @classmethod
    def release_type(cls) -> type[Release]:
        return NoisyAverageRelease

    def parameters(self) -> dict[str, Any]:
        return {**super().parameters(), "centred": self.centred}

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Sensitivity:
        """One in each coordinate."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        if neighbours is Neighbours.ADD_REMOVE:
            return Sensitivity(moves=(1.0, 1.0))
        low, high = (Fraction(end) for end in self.bounds)
        return Sensitivity(moves=(math.nextafter(float((high - low) / self.reach), math.inf),))

    def value(self, data: Any) -> Any:
        """Scaled sum and count. Private."""
        grid = self._grid
        offsets = grid.offsets("data", data)
        summed = offsets.size * (grid.origin - self.centre) + total(offsets) * grid.exact_step
        return fractions([summed / self.reach, Fraction(offsets.size)])

    def comparison(self, guarantee: Guarantee, n: int, mean: float | None = None) -> AverageComparison:
        """The noise of this average beside that of a mean with a public n, at equal privacy. Reads no data.

        Parameters
        ----------
        guarantee
            For both; `PureDP` compares Laplace noise, other kinds Gaussian.
        n
            Number of rows to plan for.
        mean
            Value to plan for; by default the worst.

        Examples
        --------
        >>> print(NoisyAverage(bounds=(0, 125)).comparison(PureDP(1.0), n=1000, mean=40))
        Standard error of the noise
          public n  0.176777
          noisy n   0.187883
          ratio     1.06
        """
        rows = requirements.positive_integer("n", n)
        spread = _noise_deviation(guarantee, Sensitivity(moves=(1.0, 1.0)))
        target = max(self.bounds, key=lambda end: abs(end - float(self.centre))) if mean is None else mean
        slope = (requirements.finite("mean", target) - float(self.centre)) / float(self.reach)
        noisy = float(self.reach) * spread * math.sqrt(1 + slope**2) / rows
        width = self.bounds[1] - self.bounds[0]
        known = _noise_deviation(guarantee, Sensitivity(moves=(width / rows,)))
        return AverageComparison(known, noisy)


def _noise_deviation(guarantee: Guarantee, sensitivity: Sensitivity) -> float:
    if isinstance(guarantee, PureDP):
        return math.sqrt(2) * Laplace.calibrate(guarantee, sensitivity).scale
    return Gaussian.calibrate(guarantee, sensitivity).scale


@dataclass(frozen=True)
class AverageComparison(Result):
    """Standard errors from the noise alone: with a public and with a protected number of rows."""

    public_n: float
    noisy_n: float

    @property
    def ratio(self) -> float:
        """How much protecting the number of rows costs."""
        return self.noisy_n / self.public_n

    def facts(self) -> Facts:
        """What to show."""
        return [
            ("public n", f"{self.public_n:.6g}"),
            ("noisy n", f"{self.noisy_n:.6g}"),
            ("ratio", f"{self.ratio:.3g}"),
        ]

    def to_dict(self) -> dict[str, float]:
        """The numbers."""
        return {"public_n": self.public_n, "noisy_n": self.noisy_n, "ratio": self.ratio}

    def heading(self) -> str:
        return "Standard error of the noise"


@dataclass(frozen=True)
class NoisyAverageRelease(Answer):
    """A released sum and count, with the mean that follows from them."""

    def _totals(self) -> tuple[float, float]:
        """The noisy sum of positions and the noisy count."""
        top, bottom = (float(part) for part in np.asarray(self.value))
        return top, bottom

    def place(self) -> tuple[tuple[float, float], float, float]:
        """Bounds, centre and reach: the mean is centre + reach·sum/count."""
        average = cast(NoisyAverage, self.statistic)
        return average.bounds, float(average.centre), float(average.reach)

    def noise_weights(self, theta: Any) -> Array:
        """Weights of the noises in sum − θ·count: Z₁ − θZ₂."""
        return np.array([np.ones_like(theta), -theta])

    @property
    def count(self) -> float:
        """The noisy number of rows."""
        return self._totals()[1]

    @property
    def mean(self) -> float:
        """Noisy sum over noisy count, within the bounds.

        Where the count is below one their ratio says nothing: it is the value of the interval nearest to the middle.
        """
        (low, high), centre, reach = self.place()
        top, bottom = self._totals()
        if bottom < 1:
            held = self.confidence_interval()
            return min(max((low + high) / 2, float(held.low)), float(held.high))
        return min(max(centre + reach * top / bottom, low), high)

    @property
    def estimate(self) -> float:
        """What was asked for: the mean."""
        return self.mean

    @property
    def standard_error(self) -> float | None:
        """Of the noise in the mean, to first order in it; None where the count is below one."""
        _, centre, reach = self.place()
        _, rows = self._totals()
        if rows < 1:
            return None
        deviation = math.sqrt(largest_variance(self.mechanism))
        weights = self.noise_weights(np.asarray((self.mean - centre) / reach))
        return reach * deviation * float(np.linalg.norm(weights)) / rows

    def confidence_interval(self, level: float = 0.95) -> Interval:
        """Interval for the mean of the data; noise only. It is exact: see `ratio_interval`."""
        return ratio_interval(self._totals(), self.mechanism, *self.place(), level, self.noise_weights)

    def population_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population's mean, for any population on the bounds.

        The noise and the sampling error each get half of 1 − level; the latter is the worst that the bounds allow.
        """
        share = (1 + requirements.level(level)) / 2
        data = self.confidence_interval(share)
        low, high = self.place()[0]
        fewest = max(float(self.count) - combined_error(self.mechanism, [1.0], share), 1.0)
        reach = float(scipy.special.ndtri((1 + share) / 2)) * (high - low) / 2 / math.sqrt(fewest)
        return Interval(max(float(data.low) - reach, low), min(float(data.high) + reach, high), level)

    def facts(self) -> Facts:
        """What to show."""
        rows = (self.rows_name, number(round(self.count)))
        return [(self.measure, number(self.mean)), *self.interval_facts(), rows, *self.protection_facts()]

    @property
    def rows_name(self) -> str:
        """What the noisy count is a count of."""
        return "sum of weights" if self.public.get("weighted") else "rows"

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """The mean, with both intervals."""
        return [
            Reading(
                "",
                self.estimate,
                self.confidence_interval(),
                self.known_population_interval(),
                measure=self.measure,
                standard_error=self.standard_error,
            )
        ]

    @property
    def measure(self) -> str:
        """What was asked for, in a word."""
        return "mean"
