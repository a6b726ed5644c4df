"""Whole shares: whole-number noise on a count that is published as a share of a public number of rows.

Proofs: ``docs/proofs/geometric.md`` and ``docs/proofs/gaussian.md``; dividing by a public number is
post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.door import Rng
from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.guarantee import Guarantee, Profile
from discreet.core.noise.sampler import Floats, Truth, float_truth, plain
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms.additive import additive_noise
from discreet.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.mechanisms.geometric import Geometric
from discreet.mechanisms.mechanism import Law, Mechanism, Size, mechanism_from_dict

Array = NDArray[np.float64]
_WHOLE = (Geometric, DiscreteGaussian)


class WholeShareLaw(Law):
    """(K + truth·n)/n for whole-number noise K: the outputs are the floats next to k/n, for whole k.

    Examples
    --------
    >>> law = WholeShareLaw(Fraction(3, 10), Geometric(1.0), 10)
    >>> law.mean, law.quantile([0.025, 0.975]).tolist(), round(law.cdf(0.3) - law.cdf(0.29), 4)
    (0.3, [0.0, 0.6], 0.4621)
    """

    def __init__(self, truth: Truth, noise: Mechanism, rows: int) -> None:
        self.rows = rows
        self._truth = float_truth(truth)
        self.counts = noise.law(_counts(truth, rows))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one draw."""
        return self.counts.shape

    @property
    def grid(self) -> float:
        """Distance of two shares that can come out."""
        return 1 / self.rows

    @property
    def support(self) -> tuple[Floats, Floats]:
        """The whole line."""
        return -math.inf, math.inf

    @property
    def mean(self) -> Floats:
        """The truth."""
        return plain(np.asarray(self.counts.mean) / self.rows)

    @property
    def variance(self) -> Floats:
        """That of the count over n²."""
        return plain(np.asarray(self.counts.variance) / self.rows**2)

    @property
    def bias(self) -> Floats:
        """Expected output minus truth: none for a truth that is a count over n."""
        return plain(self.mean - self._truth)

    def _last(self, x: ArrayLike) -> Array:
        """The largest whole k whose share k/n, as a float, is at most x."""
        values = np.asarray(x, dtype=float)
        nearest = np.rint(values * self.rows)
        return np.asarray(np.where(nearest / self.rows <= values, nearest, nearest - 1))

    def pdf(self, x: ArrayLike) -> Floats:
        """Probability of ``x``; 0 where it is not a share that a count can have."""
        last = self._last(x)
        return plain(np.where(last / self.rows == np.asarray(x, dtype=float), self.counts.pdf(last), 0.0))

    def cdf(self, x: ArrayLike) -> Floats:
        """Distribution function."""
        return self.counts.cdf(self._last(x))

    def quantile(self, q: ArrayLike) -> Floats:
        """The smallest share x with P(output ≤ x) ≥ q."""
        return plain(np.asarray(self.counts.quantile(q)) / self.rows)

    def sample(self, size: Size = None, *, rng: Rng = None) -> Floats:
        """Draw counts and divide them."""
        return plain(np.asarray(self.counts.sample(size, rng=rng)) / self.rows)


def _counts(truth: Truth, rows: int) -> Truth:
    """The truth as counts: exact where it is a fraction, else the nearest whole numbers."""
    if isinstance(truth, Fraction):
        return truth * rows
    array = np.asarray(truth)
    if array.dtype == object:
        return np.asarray(array * rows, dtype=object)
    with np.errstate(over="ignore"):  # the noise refuses what is not finite
        return np.rint(float_truth(truth) * rows)


@dataclass(frozen=True)
class WholeShare(Mechanism):
    """Whole-number noise on a count, published as a share of a public number of rows.

    Parameters
    ----------
    noise
        `Geometric` or `DiscreteGaussian` noise of the count.
    rows
        The public number of rows n.

    Guarantee
    ---------
    That of the noise for the count: a share that moves by at most Δ is a count that moves by at most ⌊Δn⌋, because
    counts are whole. Dividing by n is post-processing.

    Examples
    --------
    >>> from discreet import PureDP
    >>> share = WholeShare.calibrate(PureDP(1.0), Sensitivity(moves=(0.001,)), rows=1000)
    >>> share.noise, share.noise_interval(0.25, 0.95)
    (Geometric(scale=1.0), (0.247, 0.253))
    """

    name: ClassVar[str] = "whole_share"
    noise: Geometric | DiscreteGaussian
    rows: int

    def __post_init__(self) -> None:
        inner: Any = self.noise
        if isinstance(inner, dict):
            inner = mechanism_from_dict(inner)
        object.__setattr__(self, "noise", requirements.instance("noise", inner, _WHOLE, "Geometric(scale=1.0)"))
        object.__setattr__(self, "rows", requirements.positive_integer("rows", self.rows))

    @classmethod
    def calibrate(cls, guarantee: Guarantee, sensitivity: Sensitivity, *, rows: int | None = None) -> Self:
        """The least whole-number noise that meets ``guarantee``; refused where other noise is needed."""
        size = requirements.positive_integer("rows", rows)
        noise: Any = additive_noise(guarantee, _moves(sensitivity, size), whole=True)
        if not isinstance(noise, _WHOLE):
            raise NoConversion(f"{guarantee} asks for noise that is not whole. Use {type(noise).__name__} noise.")
        return cls(noise, size)

    @property
    def own_kind(self) -> type[Guarantee]:  # type: ignore[override]  # that of the noise inside
        """The kind of guarantee that says most about the noise."""
        return self.noise.own_kind

    @property
    def scale(self) -> float:
        """Scale of the noise, as a share."""
        return self.noise.scale / self.rows

    def law(self, truth: Truth) -> WholeShareLaw:
        """The exact distribution of the output given the truth."""
        return WholeShareLaw(truth, self.noise, self.rows)

    def profile(self, sensitivity: Sensitivity) -> Profile:
        """The privacy curve of the count."""
        return self.noise.profile(_moves(sensitivity, self.rows))

    def check(self, exact: Exact) -> None:
        """Refuse what is not a count over the public number of rows."""
        value: Any = exact.value
        if not isinstance(value, Fraction | int) or Fraction(value * self.rows).denominator != 1:
            fix = "Protect Proportion(n=…).exact(…), or use Laplace noise."
            raise InvalidParameter("value", "…", f"must be a fraction of {self.rows} rows", fix)

    def noise_interval(self, value: Floats, level: float) -> tuple[Floats, Floats]:
        """Shares of whole counts: the true share lies between them with probability at least ``level``."""
        counts = np.rint(np.asarray(value, dtype=float) * self.rows)
        low, high = self.noise.noise_interval(counts, level)
        return plain(np.asarray(low) / self.rows), plain(np.asarray(high) / self.rows)


def _moves(sensitivity: Sensitivity, rows: int) -> Sensitivity:
    """The moves of counts where shares move by at most so much; a count that moves at all moves by one."""
    requirements.instance("sensitivity", sensitivity, Sensitivity, "Sensitivity(moves=(0.01,))")
    sizes = (sensitivity.require_l1(),) if sensitivity.moves is None else sensitivity.moves
    return Sensitivity(moves=tuple(max(math.floor(Fraction(size) * rows), 1) for size in sizes))


def share_noise(guarantee: Guarantee, sensitivity: Sensitivity, rows: int) -> Mechanism:
    """The least noise for a share of a public number of rows: that of its count where it is whole, else of the share.

    Examples
    --------
    >>> from discreet import GaussianDP, PureDP
    >>> moved = Sensitivity(moves=(0.001,))
    >>> share_noise(PureDP(1.0), moved, 1000).name, share_noise(GaussianDP(1.0), moved, 1000).name
    ('whole_share', 'gaussian')
    """
    counted = additive_noise(guarantee, _moves(sensitivity, rows), whole=True)
    return WholeShare(counted, rows) if isinstance(counted, _WHOLE) else additive_noise(guarantee, sensitivity)
