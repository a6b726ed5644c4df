"""Least squares from noisy moments: coefficients, intervals and tests that account for noise and for any errors.

With ŝ and Ŝ the noisy moments of z·y and z·zᵀ, the coefficients solve Ŝb = ŝ. For the true β of the population,
ŝ − Ŝβ = Σ z·e + noise, where e = y − β·z: a sum of mean zero whose variance is known up to Σ(w·z)²e², which the totals
hold too. An interval holds every value under which that sum lies within its quantiles, as Fieller's does for a ratio.
So errors may be skewed and have any variance, and where noise leaves nothing to divide by, the interval has no end.
Proof: ``docs/proofs/regression.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
import scipy  # whose submodules load when first used
from numpy.typing import NDArray

from discreet.core.errors import InvalidParameter
from discreet.core.noise.truth import Floats, plain
from discreet.display import Facts
from discreet.inference.linear_moments import Linear, LinearMoments
from discreet.inference.noise_along import polynomial
from discreet.inference.product_moments import ProductMoments
from discreet.result import Result

__all__ = ["JointTest", "LeastSquares", "MeasuredSquares"]

Array = NDArray[np.float64]
_FURTHEST = 2.0**20
"""An interval that reaches so many standard errors has no end."""
_ROUNDS, _POINTS, _NEWTON = 4, 33, 12
_CAUTION = 0.5
"""How many standard deviations of its noise are added to a measured fourth moment."""


@dataclass(frozen=True)
class JointTest(Result):
    """A test of several restrictions at once.

    Attributes
    ----------
    statistic, df, pvalue
        A quadratic form, the number of restrictions, and how likely it is to be that large under the hypothesis.
    """

    statistic: float
    df: int
    pvalue: float

    def heading(self) -> str:
        return "Joint test"

    def facts(self) -> Facts:
        return [("statistic", f"{self.statistic:.4g}"), ("df", str(self.df)), ("p-value", f"{self.pvalue:.3g}")]

    def to_dict(self) -> dict[str, Any]:
        """The test as JSON-ready data."""
        return asdict(self)


@dataclass(frozen=True)
class LeastSquares:
    """The best linear description of an outcome by some terms.

    Leading axes of the totals are repeats of a simulation: coefficients, errors, intervals and p-values have them too.

    Attributes
    ----------
    moments
        What was released.
    terms, outcome
        Linear functions of a row. The first term is the constant.
    squares
        What was measured of Σ(w·z)²e² after a fit on at least these terms; None where ``moments`` hold it.
    places
        Of the terms, among those of that fit.
    """

    moments: LinearMoments | ProductMoments
    terms: tuple[Linear, ...]
    outcome: Linear
    squares: MeasuredSquares | None = None
    places: tuple[int, ...] = ()

    @cached_property
    def _matrix(self) -> Array:
        return self.moments.gram(self.terms)

    @cached_property
    def _inverse(self) -> Array:
        try:
            return np.asarray(np.linalg.inv(self._matrix))
        except np.linalg.LinAlgError:  # a label without rows, and next to no noise
            return np.asarray(np.linalg.pinv(self._matrix, hermitian=True))

    @cached_property
    def coefficients(self) -> Array:
        """One per term."""
        products = [self.moments.total(self.moments.weights(one, self.outcome)) for one in self.terms]
        return np.asarray((self._inverse @ np.stack(products, axis=-1)[..., None])[..., 0])

    @property
    def rows(self) -> Floats:
        """Number of rows, known or estimated."""
        return plain(self.moments.rows if self.moments.size is None else self.moments.size)

    @cached_property
    def residual_variance(self) -> float:
        """Σe²/(n − k), at least 0."""
        return float(max(self._left, 0.0) / self._free)

    @cached_property
    def _left(self) -> float:
        """Σe²."""
        if self.squares is not None:
            more = self.squares.fit._described - self._described
            return self.squares.left + more
        residual = self._residual(self.coefficients)
        return float(self.moments.total(self.moments.weights(residual, residual)))

    @cached_property
    def _described(self) -> float:
        """Σ(b·z − mean)²: what the terms describe of the outcome's squares."""
        mean = np.eye(len(self.terms))[0] * float(self.coefficients @ self._matrix[0]) / self._matrix[0, 0]
        centred = self.coefficients - mean
        return float(centred @ self._matrix @ centred)

    @cached_property
    def r_squared(self) -> float:
        """The share of the outcome's variance that the terms describe, from 0 to 1; 0 where noise leaves none."""
        if self.squares is not None:
            described = max(self._described, 0.0)
            return described / max(described + max(self._left, 0.0), 1e-300)
        mean = float(self.moments.total(self.moments.weights(self.outcome))) / self.rows
        centred = self.outcome - Linear(np.full_like(self.outcome.constants, mean), np.zeros_like(self.outcome.slopes))
        spread = float(self.moments.total(self.moments.weights(centred, centred)))
        return min(max(1 - self._left / spread, 0.0), 1.0) if spread > 0 else 0.0

    def _residual(self, coefficients: Array) -> Linear:
        return self.outcome - Linear.combined(coefficients, self.terms)

    def _cautious(self, weights: Array) -> Array:
        """A total of squares, at least 0, plus a part of the standard deviation of its noise."""
        noise, _ = self.moments.noise_of(weights)
        return np.asarray(np.maximum(self.moments.total(weights), 0.0) + _CAUTION * np.sqrt(noise))

    @property
    def _free(self) -> Floats:
        """Rows less terms, at least 1."""
        return plain(np.maximum(self.rows - len(self.terms), 1.0))

    @property
    def _sampled(self) -> Floats:
        """What a measured square stands for: the rows of a unit may move together, and k terms were fitted."""
        return self.moments.rows_per_unit * self.rows / self._free

    def _spread(self, along: Array) -> Callable[[Array], tuple[Array, Array]]:
        """Variance, and fourth cumulant, of the estimate of ``along``·β where the truth is off it by so much."""
        pulled = self._inverse @ along
        reach = pulled @ along
        pull, left = Linear.combined(pulled, self.terms), self._residual(self.coefficients)
        moment = self.moments.weights
        noise = self.moments.noise_along(moment(pull, left), moment(pull, pull) / reach[..., None])
        sampled = self._squares(pulled, pull, left)

        def spread(off: Array) -> tuple[Array, Array]:
            variance, fourth = noise(off)
            # Tails that are lighter than those of a normal law count as if they were not.
            return np.maximum(variance, 0.0) + self._sampled * sampled(off / reach), np.maximum(fourth, 0.0)

        return spread

    def _squares(self, pulled: Array, pull: Linear, left: Linear) -> Callable[[Array], Array]:
        """Σ(w·z)²e² where the residuals are off by a multiple of w·z."""
        if self.squares is not None:
            known = self.squares.root(pulled, self) ** 2
            return lambda further: np.full(np.shape(further), known)
        if isinstance(self.moments, ProductMoments):
            raise InvalidParameter("squares", None, "were not measured", "Measure them after the fit.")
        square = self.moments.weights_above
        each = [square(pull, pull, left, left), -2 * square(pull, pull, pull, left), square(pull, pull, pull, pull)]
        totals, noise = [self.moments.total(one) for one in each], self.moments.noise_of_parabola(*each)
        return lambda further: np.asarray(
            np.maximum(polynomial(totals, further), 0.0)
            + _CAUTION * np.sqrt(np.maximum(polynomial(noise, further), 0.0))
        )

    def standard_error(self, along: Array) -> Floats:
        """Of the estimate of ``along``·β: noise and sampling together."""
        return plain(np.sqrt(self._spread(along)(np.zeros(()))[0]))

    def interval(self, along: Array, level: float) -> tuple[Floats, Floats]:
        """All values of ``along``·β that are not rejected; without an end where noise leaves nothing to divide by."""
        estimate, spread = self.coefficients @ along, self._spread(along)
        z = NormalDist().inv_cdf((1 + level) / 2)

        def rejected(off: Array) -> NDArray[np.bool_]:
            variance, fourth = spread(off)
            tails = max(z**3 - 3 * z, 0.0) / 24 * fourth / variance**2
            return np.asarray(np.abs(off) > (z + tails) * np.sqrt(variance))

        unit = np.sqrt(spread(np.zeros(()))[0])
        below, above = _end(rejected, np.stack([-unit, unit]))
        return plain(estimate - below), plain(estimate + above)

    def pvalue(self, along: Array, value: float = 0.0) -> Floats:
        """Of the hypothesis that ``along``·β has this value; below 1 − level exactly where the interval excludes it."""
        off = value - self.coefficients @ along
        variance, fourth = self._spread(along)(off)
        tails, ratio = fourth / variance**2 / 24, np.abs(off) / np.sqrt(variance)
        # The z of a ratio beyond √3 solves z + tails·(z³ − 3z) = ratio, which is convex there; p is 0 beyond 40.
        z = np.clip(ratio, math.sqrt(3), 40.0)
        for _ in range(_NEWTON):
            z = z - (z + tails * (z**3 - 3 * z) - ratio) / (1 + 3 * tails * (z**2 - 1))
        z = np.where(ratio > math.sqrt(3), z, ratio)
        return plain(2 * scipy.special.ndtr(-z))

    def covariance(self) -> Array:
        """Covariance matrix of the coefficients: noise and sampling together.

        Where only the variances of the sampling part were measured, its correlations are those of equal variances.
        """
        found = self._joint(self._inverse, self.coefficients)
        if self.squares is None:
            return found
        roots = np.array([self.squares.root(row, self) for row in self._inverse])
        spreads = np.sqrt(np.abs(np.diag(self._inverse)))
        alike = np.clip(self._inverse / np.outer(spreads, spreads), -1.0, 1.0)
        np.fill_diagonal(alike, 1.0)
        bound = self._joint_squares(self._inverse, [], self.outcome)
        return np.asarray(found + self._sampled * (np.outer(roots, roots) * alike - bound))

    def _joint(self, pulled: Array, coefficients: Array) -> Array:
        """Covariance of linear functions of ŝ − Ŝβ, each row of ``pulled`` one of them."""
        pulls, left = [Linear.combined(row, self.terms) for row in pulled], self._residual(coefficients)
        used = np.array([self.moments.weights(pull, left) for pull in pulls])
        found = self._sampled * self._joint_squares(pulled, pulls, left)
        for j in range(len(pulls)):
            for k in range(len(pulls)):
                both, difference = (self.moments.noise_of(used[j] + sign * used[k])[0] for sign in (1, -1))
                found[j, k] += float(both - difference) / 4
        return found

    def _joint_squares(self, pulled: Array, pulls: list[Linear], left: Linear) -> Array:
        """Σ(v·z)(w·z)e² for all pairs; a bound of that matrix where only its diagonal was measured."""
        if self.squares is not None:
            roots = np.array([self.squares.root(row, self) for row in pulled])
            # No covariance matrix of m numbers exceeds m times its diagonal.
            return np.diag(roots**2) * len(pulled)
        if isinstance(self.moments, ProductMoments):
            raise InvalidParameter("squares", None, "were not measured", "Measure them after the fit.")
        found = np.zeros((len(pulls), len(pulls)))
        for j, one in enumerate(pulls):
            for k, other in enumerate(pulls[: j + 1]):
                square = self.moments.weights_above(one, other, left, left)
                sampled = float(self._cautious(square) if j == k else self.moments.total(square))
                found[j, k] = found[k, j] = sampled
        return found

    def wald(self, restrictions: Array, values: Array) -> JointTest:
        """Whether several combinations of coefficients have given values, from what is left under the hypothesis."""
        off = restrictions @ self.coefficients - values
        pulled = restrictions @ self._inverse
        fitted = self.coefficients - pulled.T @ np.linalg.solve(pulled @ restrictions.T, off)
        covariance = self._joint(pulled, fitted)
        # Off-diagonal moments are measured with noise: at worst nothing but the diagonal is used.
        least = float(np.linalg.eigvalsh(covariance).min())
        if least <= 0:
            return JointTest(0.0, off.size, 1.0)
        statistic = float(off @ np.linalg.solve(covariance, off))
        return JointTest(statistic, off.size, float(scipy.special.chdtrc(off.size, statistic)))


@dataclass(frozen=True)
class MeasuredSquares:
    """Σ(w·z)²e² for the coefficients of a fit, measured after it.

    Attributes
    ----------
    fit
        The fit on all terms. `pulls` of it says what was measured.
    totals, noise
        Noisy totals of (2(w·z)² − 1)(2e² − 1), both squares over the largest values that the bounds allow, and the
        variance of their noise.
    """

    fit: LeastSquares
    totals: Array
    noise: float

    @staticmethod
    def pulls(fit: LeastSquares) -> tuple[Array, Array, Floats]:
        """The w, the largest |w·z| of each, and the largest |e|, or the width of the bounds where that is less.

        The first w is 1/n at the constant, so that its square is Σe²; the others are those of the coefficients.
        """
        found = np.moveaxis(fit._inverse, -2, 0).copy()
        found[0] = np.eye(len(fit.terms))[0] / np.asarray(fit.rows)[..., None]
        reaches, cut = _reach(Linear.combined(found, fit.terms)), _reach(fit._residual(fit.coefficients))
        return found, np.maximum(reaches, 1e-300), plain(np.clip(cut, 1e-300, 1.0))

    @cached_property
    def _pulls(self) -> tuple[Array, Array, Floats]:
        return self.pulls(self.fit)

    @cached_property
    def _in_pulls(self) -> Array:
        """Takes a v to its multiples of the w."""
        return np.asarray(np.linalg.pinv(np.moveaxis(self._pulls[0], 0, -1)))

    @cached_property
    def _shares(self) -> tuple[Array, Array]:
        """Σ(w·z)²e² over its largest value, and the variance of its noise.

        With h = 2(w·z)² − 1 and g = 2e² − 1 it is ½Σ(w·z)² + ¼(Σg + Σgh); the first w·z is 1, so that its h is too.
        """
        found, reaches, _ = self._pulls
        pulled = Linear.combined(found / reaches[..., None], self.fit.terms)
        weights = self.fit.moments.weights(pulled, pulled)
        squares, noise = self.fit.moments.total(weights), self.fit.moments.noise_of(weights)[0]
        most = np.clip(squares, 0.0, self.fit.rows)
        totals = np.moveaxis(self.totals, -1, 0)
        noise = noise / 4 + self.noise / 8
        noise[0] += self.noise / 8
        return np.clip(most / 2 + (totals[0] + totals) / 4, 0.0, most), noise

    @cached_property
    def _roots(self) -> Array:
        """√Σ(w·z)²e², with a part of the standard deviation of the noise."""
        _, reaches, cut = self._pulls
        shares, noise = self._shares
        return np.asarray(reaches * cut * np.sqrt(shares + _CAUTION * np.sqrt(noise)))

    @property
    def left(self) -> float:
        """Σe² of the fit."""
        return float(self._shares[0][0] * self._pulls[2] ** 2)

    def root(self, pulled: Array, fit: LeastSquares) -> Array:
        """√Σ(v·z)²e², or a bound of it, for a v of a fit on these terms or on some of them.

        v is a sum of multiples of the w, and such roots are norms, so that their sum is a bound. Residuals on fewer
        terms are off by d·z, which is at most its largest value.
        """
        places = list(fit.places or range(len(fit.terms)))
        whole, own = (np.zeros_like(self.fit.coefficients) for _ in range(2))
        whole[..., places], own[..., places] = pulled, fit.coefficients
        shares = np.abs(self._in_pulls @ whole[..., None])[..., 0]
        found = (shares * np.moveaxis(self._roots, 0, -1)).sum(-1)
        if fit is self.fit or len(places) == len(self.fit.terms):
            return np.asarray(found)
        gap = _reach(Linear.combined(self.fit.coefficients - own, self.fit.terms))
        squares = (whole * (self.fit._matrix @ whole[..., None])[..., 0]).sum(-1)
        return np.asarray(found + gap * np.sqrt(np.maximum(squares, 0.0)))


def _reach(function: Linear) -> Array:
    """The largest size that a linear function has between the bounds."""
    high = function.constants.max(-1) + np.maximum(function.slopes, 0).sum(-1)
    low = function.constants.min(-1) + np.minimum(function.slopes, 0).sum(-1)
    return np.asarray(np.maximum(np.abs(high), np.abs(low)))


def _end(rejected: Callable[[Array], NDArray[Any]], unit: Array) -> Array:
    """How far from the estimate the first rejected value lies, in the direction and size of ``unit``."""
    steps = np.concatenate([[0.0], np.geomspace(0.25, _FURTHEST, 89)]).reshape(-1, *(1,) * np.ndim(unit))
    endless = np.asarray(False)
    for _ in range(_ROUNDS):
        out = rejected(steps * unit)
        endless = endless | ~out.any(axis=0)
        first = np.maximum(np.argmax(out, axis=0), 1)
        near, far = (
            np.take_along_axis(np.broadcast_to(steps, out.shape), at[None], axis=0)[0] for at in (first - 1, first)
        )
        steps = np.linspace(near, far, _POINTS)
    return np.where(endless, np.inf, steps[-1] * np.abs(unit))
