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
import scipy  # whose submodules load when first used
from numpy.typing import NDArray

__all__ = ["ScorePolynomials"]

Array = NDArray[np.float64]
_POINTS = np.cos((2 * np.arange(24) + 1) * np.pi / 48)
_CLOSER = np.linspace(-1.0, 1.0, 97)
"""Places in a range at which a polynomial is fitted (those of Chebyshev), and at which its bias is measured."""
_UNBIASED = 300.0
"""How much more the bias counts than the distance to the efficient score: 1e-4 at a loss of 1 to 3 % in variance."""
_FAITHFUL = 100.0
"""The same for squares: their mean under the model counts more than each of them."""


@cache
def _basis(degree: int) -> tuple[Array, Array]:
    """All powers of the points up to a degree, and squares of two such polynomials added up over the points."""
    basis = np.vander(_POINTS, degree + 1, increasing=True)
    return np.asarray(basis), np.asarray(np.kron(np.eye(2), basis.T @ basis))


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
        """σ at places from −1 to 1 of every range, along the last axis."""
        return np.asarray(scipy.special.expit(self.middle[..., None] + self.half[..., None] * places))

    @cached_property
    def _share(self) -> Array:
        return self._shares(_POINTS)

    def _fitted(self, degree: int, weight: float, sign: int, yes: Array, no: Array) -> Array:
        """Coefficients of two polynomials near ``yes`` and ``no``, whose mean under the model counts most."""
        basis, near = _basis(degree)
        of_no = sign * (1 - self._share)
        both = np.concatenate([self._share[..., None] * basis, of_no[..., None] * basis], axis=-1)
        transposed = weight**2 * np.swapaxes(both, -1, -2)
        mean = self._share * yes + of_no * no
        right = transposed @ mean[..., None] + np.concatenate([yes @ basis, no @ basis], axis=-1)[..., None]
        found = np.linalg.solve(transposed @ both + near, right)
        return np.moveaxis(found.reshape(*found.shape[:-2], 2, degree + 1), (-1, -2), (0, 1))

    @cached_property
    def _score(self) -> Array:
        return self._fitted(max(self.degree - 1, 0), _UNBIASED, -1, 1 - self._share, self._share)

    @cached_property
    def _sides(self) -> Array:
        """D and N at the points of every range."""
        return _polynomials(self._score[..., None], _POINTS)

    def score(self, log_odds: Array) -> Array:
        """D and N at log-odds that broadcast against the ranges."""
        return self._at(self._score, log_odds)

    def squares(self, log_odds: Array) -> Array:
        """What stands for D² and N², so that a square of terms can be a factor of it."""
        return self._at(self._fitted(max(self.degree - 2, 0), _FAITHFUL, 1, *self._sides**2), log_odds)

    def slopes(self, log_odds: Array) -> Array:
        """How fast the score falls with the log-odds, in rows with y = 1 and y = 0."""
        # As D·σ is N·(1 − σ), the mean of the score falls with the log-odds at the rate D·σ, half of it from each side.
        return self._at(self._fitted(max(self.degree - 2, 0), _FAITHFUL, 1, *self._sides / 2), log_odds)

    @cached_property
    def bias(self) -> Array:
        """The largest distance of D·σ − N·(1 − σ) from 0, in every range."""
        (yes, no), share = _polynomials(self._score[..., None], _CLOSER), self._shares(_CLOSER)
        return np.asarray(np.abs(yes * share - no * (1 - share)).max(axis=-1))

    def _at(self, coefficients: Array, log_odds: Array) -> Array:
        return _polynomials(coefficients, (log_odds - self.middle) / np.where(self.half > 0, self.half, 1.0))


def _polynomials(coefficients: Array, places: Array) -> Array:
    """Polynomials at places, from the coefficients of all powers, the lowest first along the first axis."""
    found = coefficients[-1] + 0.0 * places
    for one in coefficients[-2::-1]:
        found = found * places + one
    return np.asarray(found)
