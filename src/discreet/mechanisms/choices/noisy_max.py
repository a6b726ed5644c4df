"""Report noisy max: add independent noise to every score and publish only which is largest."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
import scipy  # whose submodules load when first used
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP
from discreet.core.noise.choice import noisy_argmax
from discreet.core.noise.families import ExponentialFamily, GaussianFamily, LaplaceFamily
from discreet.core.noise.truth import Truth, float_truth, generator
from discreet.core.privacy_profile import Profile
from discreet.core.rounding import up
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.calibration import ImpliedProfile
from discreet.mechanisms.choices.permute_and_flip import flip_probabilities
from discreet.mechanisms.choices.selection import Selection, exact_scores, largest_move, moves_one_way, whole_gaps
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace, LaplaceProfile

__all__ = ["ReportNoisyMax"]

Array = NDArray[np.float64]
_FAMILIES: dict[str, Any] = {"laplace": LaplaceFamily, "exponential": ExponentialFamily, "gaussian": GaussianFamily}
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_REACH = {"laplace": 40.0, "gaussian": 9.0}


@dataclass(frozen=True)
class ReportNoisyMax(Selection):
    """Which score is largest after noise is added to each.

    Parameters
    ----------
    scale
        Scale of the noise: b of Laplace and exponential noise, σ of Gaussian noise.
    noise
        ``"laplace"``, ``"exponential"`` or ``"gaussian"``.
    monotone
        Whether all scores move in the same direction between neighbours.

    Guarantee
    ---------
    With Δ the largest change of a single score: ε = Δ/b where scores are monotone and 2Δ/b otherwise; with Laplace
    noise also never more than Δ₁/b. Gaussian noise is proved as post-processing of the Gaussian mechanism on all
    scores, μ = Δ₂/σ, which is good only where few scores move, as for counts of disjoint groups
    (miranda2026 §3.1); there is no pure ε. Exponential noise has the law of `PermuteAndFlip`.

    Examples
    --------
    >>> from discreet import PureDP, Sensitivity
    >>> counts = Sensitivity(moves=(1,))
    >>> mechanism = ReportNoisyMax.calibrate(PureDP(1.0), counts)
    >>> mechanism.scale, mechanism.probabilities([0, 1, 2]).round(4).tolist()
    (1.0, [0.0825, 0.2462, 0.6713])
    """

    scale: float
    noise: str = "laplace"
    monotone: bool = False
    name: ClassVar[str] = "report_noisy_max"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", requirements.positive("scale", self.scale))
        requirements.instance("monotone", self.monotone, bool, "monotone=True or False")
        requirements.instance("noise", self.noise, str, 'noise="laplace"')
        if self.noise not in _FAMILIES:
            raise InvalidParameter("noise", self.noise, f"must be one of {sorted(_FAMILIES)}", "Check the spelling.")

    @classmethod
    def calibrate(
        cls, guarantee: Guarantee, sensitivity: Sensitivity, *, monotone: bool = False, noise: str | None = None
    ) -> Self:
        """The least noise that meets ``guarantee``: Laplace for `PureDP`, Gaussian for the other kinds."""
        pure = isinstance(guarantee, PureDP) or (isinstance(guarantee, ApproxDP) and guarantee.delta == 0)
        kind = noise or ("laplace" if pure else "gaussian")
        if kind == "gaussian":
            return cls(Gaussian.calibrate(guarantee, sensitivity).scale, kind, monotone)
        apart = largest_move(sensitivity) * (1 if monotone or moves_one_way(sensitivity) else 2)
        if kind == "laplace" and sensitivity.l1 is not None and _total(sensitivity) <= apart:
            return cls(Laplace.calibrate(guarantee, sensitivity).scale, kind, monotone)
        return cls(super().calibrate(guarantee, sensitivity, monotone=monotone).scale, kind, monotone)

    @classmethod
    def _from_strength(cls, strength: float, monotone: bool) -> Self:
        scale = 1 / strength
        while Fraction(scale) * Fraction(strength) < 1:
            scale = math.nextafter(scale, math.inf)
        return cls(scale, "exponential", monotone)

    def span(self, sensitivity: Sensitivity) -> Fraction:
        """The pure ε, exactly."""
        if self.noise == "gaussian":
            raise InvalidParameter("noise", self.noise, "has no pure guarantee", "Use Laplace or exponential noise.")
        apart = self._spread(sensitivity)
        if self.noise == "laplace" and sensitivity.l1 is not None:
            apart = min(apart, _total(sensitivity))
        return apart / Fraction(self.scale)

    def profile(self, sensitivity: Sensitivity) -> Profile:
        """The curve of the noisy scores where that is at least as good, else what ε-DP implies."""
        if self.noise == "gaussian":
            return Gaussian(self.scale).profile(sensitivity)
        span = self.span(sensitivity)
        if self.noise == "laplace" and span == _total(sensitivity) / Fraction(self.scale):
            moves = sensitivity.moves or (sensitivity.require_l1(),)
            return LaplaceProfile(tuple(Fraction(move) / Fraction(self.scale) for move in moves))
        return ImpliedProfile(PureDP(up(span)))

    def guarantee(
        self, sensitivity: Sensitivity, kind: type[Guarantee] | None = None, *, delta: float | None = None
    ) -> Guarantee:
        """Pure ε, μ-GDP for Gaussian noise, or the tightest guarantee of the kind asked for."""
        own: type[Guarantee] = GaussianDP if self.noise == "gaussian" else PureDP
        return super().guarantee(sensitivity, kind or own, delta=delta)

    def probabilities(self, scores: Truth) -> Array:
        """P(i is largest) = ∫ f(x − s_i)·Π_{j≠i} F(x − s_j) dx, by Gauss–Legendre between the kinks."""
        values = float_truth(scores)
        gaps = (values - values.max()) / self.scale
        if self.noise == "exponential":
            return flip_probabilities(np.exp(gaps))
        reach = _REACH[self.noise]
        # A score two reaches behind wins with a probability below 1e-16: its kink needs no piece of its own.
        points, weights = _mesh(gaps[gaps > -2 * reach], reach)
        log_density, log_below = _LOGS[self.noise]
        z = points - gaps[:, None]
        below = log_below(z)
        # Sums of logarithms: a product of thousands of distribution functions would underflow.
        densities = np.exp(log_density(z) + below.sum(axis=0) - below)
        result = densities @ weights
        return np.asarray(result / result.sum())

    def choose(self, scores: Truth, *, rng: int | np.random.Generator | None = None) -> int:
        """One choice."""
        if rng is None:
            exact, family = exact_scores(scores), _FAMILIES[self.noise]
            return noisy_argmax(exact, family, self.scale, behind=whole_gaps(scores))
        values, source = float_truth(scores), generator(rng)
        draw = {"laplace": source.laplace, "gaussian": source.normal}
        if self.noise == "exponential":
            return int(np.argmax(values + source.exponential(self.scale, values.size)))
        return int(np.argmax(values + draw[self.noise](0.0, self.scale, values.size)))

    def score_loss(self, candidates: int, level: float = 0.95) -> float:
        """A union bound over the noise of all candidates."""
        count = requirements.positive_integer("candidates", candidates)
        tail = (1 - requirements.level(level)) / count
        if self.noise == "exponential":
            return -self.scale * math.log(tail)
        if self.noise == "laplace":
            return -2 * self.scale * math.log(tail)
        from scipy.special import ndtri

        return float(-2 * self.scale * ndtri(tail / 2))


def _total(sensitivity: Sensitivity) -> Fraction:
    """ℓ₁, exactly where the moves are known."""
    if sensitivity.moves:
        return sum((Fraction(move) for move in sensitivity.moves), Fraction(0))
    return Fraction(sensitivity.require_l1())


def _mesh(gaps: Array, reach: float) -> tuple[Array, Array]:
    """Quadrature points around the best score; pieces end at the scores, where a Laplace density has kinks."""
    ends = np.unique(np.concatenate([np.arange(-reach, reach + 0.5), gaps[np.abs(gaps) < reach]]))
    left, width = ends[:-1], np.diff(ends)
    points = left[:, None] + width[:, None] * (_NODES + 1) / 2
    return points.ravel(), (width[:, None] * _WEIGHTS / 2).ravel()


def _laplace_log_below(z: Array) -> Array:
    tail = np.exp(-np.abs(z)) / 2
    return np.where(z < 0, -np.abs(z) - math.log(2), np.log1p(-tail))


def _laplace_log_density(z: Array) -> Array:
    return -np.abs(z) - math.log(2)


def _normal_log_density(z: Array) -> Array:
    return np.asarray(-z * z / 2 - math.log(2 * math.pi) / 2)


def _normal_log_below(z: Array) -> Array:
    return np.asarray(scipy.special.log_ndtr(z))


_LOGS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "laplace": (_laplace_log_density, _laplace_log_below),
    "gaussian": (_normal_log_density, _normal_log_below),
}
