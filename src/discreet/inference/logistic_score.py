"""Polynomials in the log-odds that stand for the score of a logistic regression.

The score of a row is z·(y − σ(η)), with η = β·z. Noisy moments know polynomials only. So a row with y = 1 counts
z·D(η) and one with y = 0 counts −z·N(η), where D is near 1 − σ and N near σ, and D·σ − N·(1 − σ) is next to nothing:
that is the mean of a row under the model, hence the bias. N/D is a rational approximation of exp, which converges much
faster than any polynomial does to σ. Derivation and figures: ``docs/proofs/logistic_regression.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

__all__ = ["ScorePolynomials"]

Array = NDArray[np.float64]
_POINTS = 24
_UNBIASED = 300.0
"""How much more the bias counts than the distance to the efficient score: 1e-4 at a loss of 1 to 3 % in variance."""
_FAITHFUL = 100.0
"""The same for squares: their mean under the model counts more than each of them."""


@cache
def _basis(degree: int) -> tuple[Array, Array]:
    """Chebyshev points from −1 to 1, and Chebyshev polynomials at them."""
    points = np.cos((2 * np.arange(_POINTS) + 1) * np.pi / (2 * _POINTS))
    return points, np.asarray(np.polynomial.chebyshev.chebvander(points, degree), dtype=float)


@dataclass(frozen=True)
class ScorePolynomials:
    """Polynomials for ranges of log-odds, each from ``middle − half`` to ``middle + half``.

    Parameters
    ----------
    middle, half
        The ranges, in arrays of one shape.
    degree
        Highest power of z·D(η) in a row, so that of D is one less; squares (w·z)²·D² stay within it too.

    Examples
    --------
    >>> score = ScorePolynomials(np.array([0.0]), np.array([2.0]), 4)
    >>> bool(score.bias[0] < 2e-4)
    True
    """

    middle: Array
    half: Array
    degree: int

    def _shares(self, places: Array) -> Array:
        """σ at places from −1 to 1 of every range."""
        return np.asarray(expit(self.middle[..., None] + self.half[..., None] * places))

    def _fitted(self, degree: int, weight: float, sign: int, yes: Array, no: Array) -> Array:
        """Coefficients of two polynomials near ``yes`` and ``no``, whose mean under the model counts most."""
        points, basis = _basis(degree)
        share = self._shares(points)
        both = np.concatenate([share[..., None] * basis, sign * (1 - share)[..., None] * basis], axis=-1)
        mean = share * yes + sign * (1 - share) * no
        left = weight**2 * np.swapaxes(both, -1, -2) @ both + np.kron(np.eye(2), basis.T @ basis)
        near = np.concatenate([yes @ basis, no @ basis], axis=-1)
        right = weight**2 * np.einsum("...sk,...s->...k", both, mean) + near
        found = np.linalg.solve(left, right[..., None])[..., 0]
        return np.asarray(found.reshape(*found.shape[:-1], 2, degree + 1))

    @cached_property
    def _score(self) -> Array:
        share = self._shares(_basis(0)[0])
        return self._fitted(max(self.degree - 1, 0), _UNBIASED, -1, 1 - share, share)

    @cached_property
    def _beside_squares(self) -> tuple[Array, Array]:
        """Polynomials that leave room for a square of terms: near D² and N², and near D/2 and N/2."""
        _, basis = _basis(self._score.shape[-1] - 1)
        yes, no = (self._score[..., side, :] @ basis.T for side in (0, 1))
        degree = max(self.degree - 2, 0)
        # As D·σ is N·(1 − σ), the mean of the score falls with the log-odds at the rate D·σ, half of it from each side.
        both = ((yes**2, no**2), (yes / 2, no / 2))
        squares, slopes = (self._fitted(degree, _FAITHFUL, 1, *one) for one in both)
        return squares, slopes

    def score(self, log_odds: Array) -> tuple[Array, Array]:
        """D and N at log-odds that broadcast against the ranges."""
        return self._at(self._score, log_odds)

    def squares(self, log_odds: Array) -> tuple[Array, Array]:
        """What stands for D² and N², so that a square of terms can be a factor of it."""
        return self._at(self._beside_squares[0], log_odds)

    def slopes(self, log_odds: Array) -> tuple[Array, Array]:
        """How fast the score falls with the log-odds, in rows with y = 1 and y = 0."""
        return self._at(self._beside_squares[1], log_odds)

    @cached_property
    def bias(self) -> Array:
        """The largest distance of D·σ − N·(1 − σ) from 0, in every range."""
        places = np.linspace(-1.0, 1.0, 4 * _POINTS + 1)
        basis = np.polynomial.chebyshev.chebvander(places, self._score.shape[-1] - 1)
        yes, no = (self._score[..., side, :] @ basis.T for side in (0, 1))
        share = self._shares(places)
        return np.asarray(np.abs(yes * share - no * (1 - share)).max(axis=-1))

    def _at(self, coefficients: Array, log_odds: Array) -> tuple[Array, Array]:
        places = (log_odds - self.middle) / np.where(self.half > 0, self.half, 1.0)
        basis = np.polynomial.chebyshev.chebvander(places, coefficients.shape[-1] - 1)
        yes, no = (np.einsum("...k,...k->...", basis, coefficients[..., side, :]) for side in (0, 1))
        return yes, no
