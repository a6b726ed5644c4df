"""NoisyAverage: a mean whose number of rows is protected too, as a noisy sum over a noisy count."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from discreet.core import requirements
from discreet.core.display import Facts
from discreet.core.grid import total
from discreet.core.guarantee import Guarantee, PureDP
from discreet.core.protection import Neighbours
from discreet.core.result import Result
from discreet.core.sensitivity import Sensitivity
from discreet.questions.bounded import fractions
from discreet.questions.sum import SumAndCount
from discreet.releases import Release

__all__ = ["AverageComparison", "NoisyAverage"]


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
        from discreet.inference.noisy_average_release import NoisyAverageRelease

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
    from discreet.mechanisms.gaussian import Gaussian
    from discreet.mechanisms.laplace import Laplace

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
