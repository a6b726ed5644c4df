"""Noise-aware inference: the joint law of sanitized partition statistics given (θ, σ), and the posterior from it.

The statistics are (Σa, κΣa(1 − a)) of partition values winsorized to a public interval, and beside them, where there
is one, a noisy estimate of the plain mean difference. Given θ and σ each is a sum over independent partitions, so
jointly normal to the accuracy of the central limit theorem, with a covariance that is known in closed form; the
mechanism adds its own, exactly known covariance. No budget is spent to learn a noise variance (errata T6).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

__all__ = ["CensoredNormal", "LocationEstimate", "NoiseAwarePosterior", "WinsorizedLaw"]


Array = NDArray[np.float64]


@dataclass(frozen=True)
class WinsorizedLaw:
    """Moments of a = (clip(z, l, u) − l)/(u − l) and c = a(1 − a) for z ~ N(θ, σ²).

    Examples
    --------
    >>> law = WinsorizedLaw.of(0.0, 1.0, -1.0, 1.0)
    >>> round(float(law.mean_a), 6), round(float(law.inside), 4)
    (0.5, 0.6827)
    """

    mean_a: Array
    mean_c: Array
    var_a: Array
    var_c: Array
    cov_ac: Array
    inside: Array
    slope: Array
    """E[(1 − 2a); inside], for the covariance of z and c by Stein's lemma."""

    @classmethod
    def of(cls, theta: Any, sigma: Any, low: Any, high: Any) -> WinsorizedLaw:
        """Closed forms from partial moments of the normal up to the fourth."""
        width = high - low
        left, right = (low - theta) / sigma, (high - theta) / sigma
        pdf_l, pdf_r = np.exp(-0.5 * left**2) / np.sqrt(2 * np.pi), np.exp(-0.5 * right**2) / np.sqrt(2 * np.pi)
        inside, above = scipy.special.ndtr(right) - scipy.special.ndtr(left), scipy.special.ndtr(-right)
        partial = [inside, pdf_l - pdf_r]
        for k in range(2, 5):
            partial.append((k - 1) * partial[k - 2] - right ** (k - 1) * pdf_r + left ** (k - 1) * pdf_l)
        shift, scale = (theta - low) / width, sigma / width
        powers = []
        for k in range(1, 5):
            inner = sum(_BINOMIAL[k][j] * shift ** (k - j) * scale**j * partial[j] for j in range(k + 1))
            powers.append(inner + above)
        first, second, third, fourth = powers
        mean_c = first - second
        return cls(
            mean_a=first,
            mean_c=mean_c,
            var_a=np.maximum(second - first**2, 0),
            var_c=np.maximum(second - 2 * third + fourth - mean_c**2, 0),
            cov_ac=second - third - first * mean_c,
            inside=inside,
            slope=inside - 2 * (first - above),
        )


_BINOMIAL = {1: (1, 1), 2: (1, 2, 1), 3: (1, 3, 3, 1), 4: (1, 4, 6, 4, 1)}


@dataclass(frozen=True, kw_only=True)
class NoiseAwarePosterior:
    """Posterior of θ under the Jeffreys prior, given sanitized statistics; arrays are independent problems.

    Parameters
    ----------
    partitions
        P.
    low, high
        Public interval.
    first, second
        Noisy Σa and κΣa(1 − a).
    weight
        κ.
    noise_variance
        Variance of the noise on each of the two.
    plain, plain_noise
        A noisy estimate of the mean difference itself and the variance of its noise.
    spread, spread_error
        A noisy estimate of σ² (variance of z) and its standard deviation.
    ratios, shares
        Where partitions are unequal: values of σⱼ/σ, and the share of partitions that has each.
    """

    partitions: int
    low: Any
    high: Any
    first: Any
    second: Any
    weight: float
    noise_variance: Any
    plain: Any
    plain_noise: Any
    spread: Any
    spread_error: Any
    ratios: tuple[float, ...] = (1.0,)
    shares: tuple[float, ...] = (1.0,)

    def log_likelihood(self, theta: Any, sigma: Any) -> Array:
        """Log-density of all statistics at (θ, σ)."""
        distance, determinant = self._fit(theta, sigma)
        return np.asarray(-0.5 * (distance + determinant))

    def misfit(self, theta: Any, sigma: Any) -> Array:
        """Squared distance of the four statistics from what (θ, σ) expects of them, in their own covariance.

        Two numbers are fitted to four, so at the best fit it is about χ² with two degrees of freedom where partition
        values are normal. It grows where the direct and the censored moments tell two stories.
        """
        return self._fit(theta, sigma)[0]

    def _fit(self, theta: Any, sigma: Any) -> tuple[Array, Array]:
        """Squared distance and log-determinant of the normal law of all statistics at (θ, σ)."""
        count, weight = self.partitions, self.weight
        width = np.asarray(self.high - self.low)
        zero = np.zeros(np.broadcast_shapes(np.shape(theta), np.shape(sigma), width.shape))
        mean_a, mean_c, v_aa, v_cc, v_ac, v_za, v_zc, v_zz = (zero.copy() for _ in range(8))
        for ratio, share in zip(self.ratios, self.shares, strict=True):
            own = np.asarray(sigma) * ratio
            law, n = WinsorizedLaw.of(theta, own, self.low, self.high), count * share
            mean_a += n * law.mean_a
            mean_c += n * law.mean_c
            v_aa += n * law.var_a
            v_cc += n * law.var_c
            v_ac += n * law.cov_ac
            v_za += share * own**2 * law.inside / width
            v_zc += share * own**2 * law.slope / width
            v_zz += share * own**2 / count
        mean_c, v_cc, v_ac, v_zc = weight * mean_c, weight**2 * v_cc, weight * v_ac, weight * v_zc
        v_aa, v_cc, v_zz = v_aa + self.noise_variance, v_cc + self.noise_variance, v_zz + self.plain_noise
        d_a, d_c, d_z = self.first - mean_a, self.second - mean_c, self.plain - theta
        distance, determinant = _normal_distance((d_a, d_c, d_z), (v_aa, v_ac, v_za, v_cc, v_zc, v_zz))
        variance = np.asarray(sigma) ** 2 * sum(s * r**2 for r, s in zip(self.ratios, self.shares, strict=True))
        return np.asarray(distance + ((self.spread - variance) / self.spread_error) ** 2), determinant

    def moments(self, nodes: int = 25, passes: int = 4) -> tuple[Array, Array, Array]:
        """Posterior mean and variance of θ, and posterior mean of σ, by quadrature on a box that closes in."""
        base = np.maximum(np.sqrt(np.maximum(self.spread, 0.0)), 0.2 * np.sqrt(self.spread_error))
        base = np.maximum(base, 0.05 * (self.high - self.low))
        center_t = np.broadcast_to(np.asarray(self.plain, dtype=float), np.shape(base)).copy()
        half_t = 6 * np.sqrt(self.plain_noise + base**2 / self.partitions)
        center_s, half_s = np.log(base), np.full(np.shape(base), 2.5)
        axis = np.linspace(-1, 1, nodes)
        x = axis.reshape((nodes, 1) + (1,) * np.ndim(base))
        y = axis.reshape((1, nodes) + (1,) * np.ndim(base))
        for step in range(passes):
            theta, tau = center_t + half_t * x, center_s + half_s * y
            log_weight = self.log_likelihood(theta, np.exp(tau))
            weight = np.exp(log_weight - log_weight.max(axis=(0, 1), keepdims=True))
            mass = weight.sum(axis=(0, 1))
            center_t, center_s = (weight * theta).sum(axis=(0, 1)) / mass, (weight * tau).sum(axis=(0, 1)) / mass
            var_t = (weight * (theta - center_t) ** 2).sum(axis=(0, 1)) / mass
            var_s = (weight * (tau - center_s) ** 2).sum(axis=(0, 1)) / mass
            if step < passes - 1:
                cell_t, cell_s = 2 * half_t / (nodes - 1), 2 * half_s / (nodes - 1)
                half_t = np.minimum(half_t, 6 * np.sqrt(var_t) + cell_t)
                half_s = np.minimum(half_s, 6 * np.sqrt(var_s) + cell_s)
        return center_t, var_t, np.exp(center_s)


def _normal_distance(d: tuple[Array, Array, Array], v: tuple[Array, ...]) -> tuple[Array, Array]:
    """Squared distance and log-determinant of a three-dimensional normal, by its Cholesky factors."""
    v11, v12, v13, v22, v23, v33 = v
    l21, l31 = v12 / v11, v13 / v11
    r22 = np.maximum(v22 - l21 * v12, 1e-12 * v22)
    l32 = (v23 - l31 * v12) / r22
    r33 = np.maximum(v33 - l31 * v13 - l32**2 * r22, 1e-12 * v33)
    e2 = d[1] - l21 * d[0]
    e3 = d[2] - l31 * d[0] - l32 * e2
    distance = d[0] ** 2 / v11 + e2**2 / r22 + e3**2 / r33
    return np.asarray(distance), np.asarray(np.log(v11) + np.log(r22) + np.log(r33))


# ---- The censored normal likelihood of partition differences (liu2023 section 3), by maximum and by quadrature
#
# Everything is vectorised: the statistics may be arrays of any one shape, one likelihood per element. The parameters
# are θ and τ = log σ. The Jeffreys prior f(θ, σ²) ∝ σ⁻² is flat in (θ, τ), so mode and quadrature share one surface.


_ROOT = np.sqrt(2 / np.pi)
_STEPS = 60
_CONVERGED = 1e-9
_REACH = 6.5
"""The quadrature covers this many standard deviations of the posterior around its mode, on every side."""


@dataclass(frozen=True)
class LocationEstimate:
    """An estimate of θ with the variance that the likelihood gives it; arrays where the statistics are arrays."""

    estimate: Any
    variance: Any


@dataclass(frozen=True)
class CensoredNormal:
    """Log-likelihood of P normal values of which some are only known to lie below or above (liu2023 (14), (19)).

    Parameters
    ----------
    below, inside, above
        Number of values below ``lower``, between, and above ``upper``; they need not be whole numbers.
    lower, upper
        Where censoring begins.
    total, squares
        Sum and sum of squares of the values inside.

    Notes
    -----
    Noise can make the sum of squares smaller than the square of the sum allows, and the likelihood unbounded. It is
    raised to ``total²/inside`` plus a millionth of the squared censoring width, the nearest value that data can have.

    Examples
    --------
    >>> fit = CensoredNormal(below=1.0, inside=8.0, above=1.0, lower=-1.3, upper=1.3, total=0.0, squares=4.0).maximum()
    >>> round(float(fit.estimate), 9)
    0.0
    """

    below: Any
    inside: Any
    above: Any
    lower: Any
    upper: Any
    total: Any
    squares: Any

    def __post_init__(self) -> None:
        names = ("below", "inside", "above", "lower", "upper", "total", "squares")
        below, inside, above, lower, upper, total, squares = np.broadcast_arrays(
            *(np.asarray(getattr(self, name), dtype=float) for name in names)
        )
        low, high = np.minimum(lower, upper), np.maximum(lower, upper)
        width = np.maximum(high - low, 1e-300)
        inside = np.maximum(inside, 1.0)
        # Values inside cannot have a mean outside, however noisy their sum is.
        total = np.clip(total, inside * low, inside * high)
        squares = np.maximum(squares, total**2 / inside + 1e-6 * inside * width**2)
        clean = (np.maximum(below, 0.0), inside, np.maximum(above, 0.0), low, high, total, squares)
        for name, value in zip(names, clean, strict=True):
            object.__setattr__(self, name, value)

    def _start(self) -> tuple[Array, Array]:
        """Mean and spread of the values with the censored ones put at the ends."""
        count = self.below + self.inside + self.above
        mean = (self.below * self.lower + self.total + self.above * self.upper) / count
        square = (self.below * self.lower**2 + self.squares + self.above * self.upper**2) / count
        return mean, 0.5 * np.log(np.maximum(square - mean**2, 1e-12 * (self.upper - self.lower) ** 2) + 1e-300)

    def log_likelihood(self, theta: Any, tau: Any) -> Array:
        """ll(θ, log σ) up to a constant; θ and τ broadcast against the statistics."""
        scale = np.exp(-tau)
        quadratic = self.squares - 2 * theta * self.total + self.inside * theta**2
        value = -self.inside * tau - 0.5 * quadratic * scale**2
        value = value + self.below * scipy.special.log_ndtr((self.lower - theta) * scale)
        return np.asarray(value + self.above * scipy.special.log_ndtr((theta - self.upper) * scale))

    def _derivatives(self, theta: Array, tau: Array) -> tuple[Array, ...]:
        """Gradient and Hessian in (θ, τ)."""
        scale = np.exp(-tau)
        left, right = (self.lower - theta) * scale, (theta - self.upper) * scale
        mills_l, mills_r = _mills(left), _mills(right)
        curve_l, curve_r = -mills_l * (left + mills_l), -mills_r * (right + mills_r)
        deviation = (self.total - self.inside * theta) * scale
        square = (self.squares - 2 * theta * self.total + self.inside * theta**2) * scale**2
        g_theta = (deviation - self.below * mills_l + self.above * mills_r) * scale
        g_tau = -self.inside + square - self.below * mills_l * left - self.above * mills_r * right
        h_tt = (-self.inside + self.below * curve_l + self.above * curve_r) * scale**2
        bent_l, bent_r = self.below * (mills_l + left * curve_l), self.above * (mills_r + right * curve_r)
        h_ts = (-2 * deviation + bent_l - bent_r) * scale
        h_ss = -2 * square + left * bent_l + right * bent_r
        return g_theta, g_tau, h_tt, h_ts, h_ss

    def mode(self) -> tuple[Array, Array, tuple[Array, Array, Array]]:
        """Maximum (θ, τ) by damped Newton steps, and the negative Hessian there."""
        theta, tau = self._start()
        value = self.log_likelihood(theta, tau)
        damping = np.full(theta.shape, 1e-3)
        for _ in range(_STEPS):
            g_theta, g_tau, h_tt, h_ts, h_ss = self._derivatives(theta, tau)
            size = np.exp(-2 * tau) * np.maximum(self.inside, 1.0)  # scale of the θ curvature
            a, b, c = -h_tt + damping * size, -h_ts, -h_ss + damping * self.inside
            determinant = a * c - b * b
            bad = (determinant <= 0) | (a <= 0)
            a, c = np.where(bad, np.abs(a) + np.abs(b) + size, a), np.where(bad, np.abs(c) + np.abs(b) + self.inside, c)
            b, determinant = np.where(bad, 0.0, b), np.where(bad, a * c, determinant)
            step_theta = (c * g_theta - b * g_tau) / determinant
            step_tau = np.clip((a * g_tau - b * g_theta) / determinant, -1.0, 1.0)
            trial = self.log_likelihood(theta + step_theta, tau + step_tau)
            better = trial >= value
            theta, tau = np.where(better, theta + step_theta, theta), np.where(better, tau + step_tau, tau)
            value = np.where(better, trial, value)
            damping = np.where(better, damping * 0.1, np.minimum(damping * 20 + 1e-6, 1e12))
            small = np.abs(step_theta) * np.exp(-tau) + np.abs(step_tau) < _CONVERGED
            if np.all(small | (damping > 1e10)):
                break
        _, _, h_tt, h_ts, h_ss = self._derivatives(theta, tau)
        return theta, tau, (-h_tt, -h_ts, -h_ss)

    def maximum(self) -> LocationEstimate:
        """Maximum likelihood: θ̂ and its variance from the inverse of the observed information."""
        theta, _, information = self.mode()
        return LocationEstimate(theta, _inverse(information)[0])

    def posterior(self, nodes: int = 25) -> LocationEstimate:
        """Posterior mean and variance of θ under the Jeffreys prior (20), (21), by quadrature over (θ, τ).

        The trapezoid rule on a box of ±6.5 standard deviations around the mode, in coordinates that decorrelate the
        two parameters there; for a smooth surface that vanishes at the edges its error falls exponentially.
        """
        theta, tau, information = self.mode()
        v_theta, v_cross, v_tau = _inverse(information)
        root_tau = np.sqrt(v_tau)
        slope = v_cross / root_tau
        root_rest = np.sqrt(np.maximum(v_theta - slope**2, 1e-12 * v_theta))
        axis = np.linspace(-_REACH, _REACH, nodes)
        x = axis.reshape((nodes, 1) + (1,) * theta.ndim)
        y = axis.reshape((1, nodes) + (1,) * theta.ndim)
        # σ has a heavier upper tail than a normal: stretch that side.
        tau_nodes = tau + root_tau * (y + 0.15 * np.maximum(y, 0.0) ** 2 / 2)
        weight_y = 1 + 0.15 * np.maximum(y, 0.0)
        spread = np.exp(tau_nodes - tau)  # θ spreads with σ
        theta_nodes = theta + slope * y + root_rest * spread * x
        log_weight = self.log_likelihood(theta_nodes, tau_nodes)
        log_weight -= log_weight.max(axis=(0, 1), keepdims=True)
        weight = np.exp(log_weight) * weight_y * spread
        mass = weight.sum(axis=(0, 1))
        mean = (weight * (theta_nodes - theta)).sum(axis=(0, 1)) / mass
        variance = (weight * (theta_nodes - theta - mean) ** 2).sum(axis=(0, 1)) / mass
        return LocationEstimate(theta + mean, variance)


def _mills(x: Array) -> Array:
    """φ(x)/Φ(x), stable in both tails."""
    return np.asarray(np.exp(-0.5 * x * x - scipy.special.log_ndtr(x)) * (_ROOT / 2))


def _inverse(information: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    """Inverse of a symmetric 2×2 matrix; where it is not positive definite, that of its diagonal."""
    a, b, c = information
    a, c = np.maximum(a, 1e-300), np.maximum(c, 1e-300)
    determinant = a * c - b * b
    b = np.where(determinant <= 1e-12 * a * c, 0.0, b)
    determinant = a * c - b * b
    return c / determinant, -b / determinant, a / determinant
