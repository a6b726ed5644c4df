"""The censored normal likelihood of partition differences (liu2023 section 3), by maximum and by quadrature.

Everything is vectorised: the statistics may be arrays of any one shape, one likelihood per element. The parameters
are θ and τ = log σ. The Jeffreys prior f(θ, σ²) ∝ σ⁻² is flat in (θ, τ), so mode and quadrature share one surface.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # whose submodules load when first used
from numpy.typing import NDArray

__all__ = ["CensoredNormal", "LocationEstimate"]

Array = NDArray[np.float64]

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
