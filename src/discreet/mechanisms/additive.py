"""Additive noise: the one decision between Laplace, geometric, staircase, Gaussian and discrete Gaussian noise."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import overload

from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, ZeroConcentratedDP, is_pure
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.geometric import Geometric
from discreet.mechanisms.laplace import Laplace
from discreet.mechanisms.mechanism import Mechanism
from discreet.mechanisms.staircase import Staircase

_SPREAD_OUT = 6.0
"""ℓ₁ over ℓ₂ sensitivity beyond which Gaussian noise is smaller for every δ above 1e-12 and every ρ below 60."""


_WHOLE_ANYWAY = 2.0**20
"""From this scale on the default grid of Laplace noise is 1 or coarser: whole numbers stay whole without more ado."""

_FINE = 64.0
"""From this scale on rounded Gaussian noise is as good as discrete noise: 1/12 in 4,096 of variance."""

_ROUND_ENOUGH = 16.0
"""From this scale on Laplace noise rounded to whole numbers is as good as geometric noise: 1/12 in 512 of variance."""

_OUT_OF_REACH = 1.3
"""Where Laplace noise has 1.3 times the variance of Gaussian noise, geometric noise has more than either."""

_WORTH_FRACTIONS = 0.05
"""Under ρ whole noise stays unless Laplace noise has less variance by this share: where only ℓ₁ is known, it may."""

_WORTH_STEPS = 0.05
"""Staircase noise is taken where it has less variance by this share, which begins at ε = 1.1."""

Normal = Gaussian | DiscreteGaussian
Noise = Laplace | Geometric | Staircase | Normal


@overload
def additive_noise(guarantee: Guarantee, sensitivity: Sensitivity) -> Laplace | Gaussian: ...
@overload
def additive_noise(guarantee: Guarantee, sensitivity: Sensitivity, *, whole: bool, single: bool = False) -> Noise: ...
def additive_noise(
    guarantee: Guarantee, sensitivity: Sensitivity, *, whole: bool = False, single: bool = False
) -> Noise:
    """The additive noise of least variance that meets a guarantee.

    Only Laplace, geometric and staircase noise meet `PureDP`. For every other kind the exactly calibrated variances
    decide: one number needs less Laplace noise at the same (ε, δ), a long vector less Gaussian noise. A guarantee that
    asks for less therefore never gets more noise.

    Parameters
    ----------
    guarantee
        What the release must meet, of any kind.
    sensitivity
        Largest change of the statistic; without ``l1`` only Gaussian noise can be calibrated.
    whole
        Whether the statistic is made of whole numbers: then geometric noise competes under ε, (ε, δ) and ρ, and wins
        against Laplace noise under ε. Under ρ the discrete Gaussian takes the place of the Gaussian, which has the same
        ρ and no less variance. Under μ and (ε, δ) the Gaussian stays: the discrete one is not stated in μ, and at the
        same (ε, δ) its standard deviation is less by 0.02 % for vectors where it would be chosen.
    single
        Whether a unit moves one number, and nothing but an interval of the noise is read from it: then staircase noise
        competes under ε. A mean's interval is worked out for noise whose distribution is smooth.

    Examples
    --------
    >>> from discreet import ApproxDP, GaussianDP, PureDP, ZeroConcentratedDP
    >>> from discreet.core.sensitivity import Sensitivity
    >>> additive_noise(PureDP(1.0), Sensitivity(l1=1.0))
    Laplace(scale=1.0, grid=None)
    >>> additive_noise(PureDP(1.0), Sensitivity(moves=(1,)), whole=True)
    Geometric(scale=1.0)
    >>> additive_noise(ApproxDP(1.0, 1e-6), Sensitivity(l1=1.0)).name  # Gaussian noise would need σ = 4.2
    'laplace'
    >>> additive_noise(ZeroConcentratedDP(0.125), Sensitivity(moves=(1,)), whole=True)
    DiscreteGaussian(scale=2.0)
    >>> additive_noise(GaussianDP(0.5), Sensitivity(l1=1.0))
    Gaussian(scale=2.0, grid=None)
    >>> additive_noise(PureDP(5.0), Sensitivity(moves=(100.0,)), whole=True, single=True).name
    'staircase'
    """
    return _least(guarantee, sensitivity, whole, single)


@lru_cache(maxsize=1024)
def _least(guarantee: Guarantee, sensitivity: Sensitivity, whole: bool, single: bool) -> Noise:
    """The decision, which takes milliseconds and is the same for the same values."""
    if is_pure(guarantee):
        laplace = Laplace.calibrate(guarantee, sensitivity)
        usual = _geometric(guarantee, sensitivity, laplace) if whole else laplace
        return _in_steps(guarantee, sensitivity, usual, whole) if single else usual
    gaussian = _normal(guarantee, sensitivity, whole)
    if sensitivity.l1 is None or sensitivity.l1 > _SPREAD_OUT * sensitivity.require_l2():
        return gaussian
    if isinstance(guarantee, GaussianDP):
        # μ-GDP implies μ²/2-zCDP, whose calibration is quick: it bounds from below what the search for μ-GDP finds.
        least = Laplace.calibrate(guarantee.to(ZeroConcentratedDP), sensitivity)
        if _smaller(least, gaussian) is gaussian:
            return gaussian
    laplace = Laplace.calibrate(guarantee, sensitivity)
    if not whole or isinstance(guarantee, GaussianDP):
        return _smaller(laplace, gaussian)
    if isinstance(guarantee, ApproxDP):
        return _smaller(_smaller(_geometric(guarantee, sensitivity, laplace), laplace), gaussian)
    return _whole_under_rho(guarantee, sensitivity, laplace, gaussian)


def other_noise(chosen: Mechanism, guarantee: Guarantee, sensitivity: Sensitivity) -> list[Noise]:
    """Laplace and Gaussian noise at the same guarantee, where they meet it and `additive_noise` chose another.

    Examples
    --------
    >>> from discreet import GaussianDP, PureDP
    >>> one = Sensitivity(moves=(1,))
    >>> other_noise(additive_noise(PureDP(1.0), one, whole=True), PureDP(1.0), one)
    [Laplace(scale=1.0, grid=None)]
    >>> [noise.name for noise in other_noise(additive_noise(GaussianDP(0.5), one), GaussianDP(0.5), one)]
    ['laplace']
    """
    found: list[Noise] = []
    for kind in (Laplace, Gaussian):
        if isinstance(chosen, Noise) and not isinstance(chosen, kind):
            with suppress(InvalidParameter, NoConversion):  # Gaussian noise has no ε
                found.append(kind.calibrate(guarantee, sensitivity))
    return found


def _whole_under_rho(guarantee: Guarantee, sensitivity: Sensitivity, laplace: Laplace, gaussian: Normal) -> Noise:
    """Whole noise of the least variance; geometric noise is calibrated where it can win, because that takes a while."""
    if laplace.scale >= _ROUND_ENOUGH:
        rounded = laplace if laplace.scale >= _WHOLE_ANYWAY else Laplace(laplace.scale, grid=1.0)
        return _smaller(gaussian, rounded)
    # At a small ρ geometric noise needs more variance than Laplace noise, at a large one less.
    if 2 * laplace.scale**2 > _OUT_OF_REACH * gaussian.scale**2:
        return gaussian
    geometric = Geometric.calibrate(guarantee, sensitivity)
    return _smaller(_smaller(geometric, gaussian), laplace, less_by=_WORTH_FRACTIONS)


def _normal(guarantee: Guarantee, sensitivity: Sensitivity, whole: bool) -> Normal:
    """Gaussian noise; of whole numbers under ρ the discrete one, or where they hardly differ the rounded one."""
    gaussian = Gaussian.calibrate(guarantee, sensitivity)
    if not (whole and isinstance(guarantee, ZeroConcentratedDP)) or gaussian.scale >= _WHOLE_ANYWAY:
        return gaussian
    if gaussian.scale < _FINE:
        return DiscreteGaussian.calibrate(guarantee, sensitivity)
    return Gaussian(gaussian.scale, grid=1.0)


def _geometric(guarantee: Guarantee, sensitivity: Sensitivity, laplace: Laplace) -> Noise:
    """Geometric noise, where it differs from Laplace noise on its default grid."""
    return laplace if laplace.scale >= _WHOLE_ANYWAY else Geometric.calibrate(guarantee, sensitivity)


def _in_steps(guarantee: Guarantee, sensitivity: Sensitivity, usual: Noise, whole: bool) -> Noise:
    """Staircase noise, where it has clearly less variance than the usual noise."""
    rounded = whole and float(usual.scale) < _WHOLE_ANYWAY
    steps = Staircase.calibrate(guarantee, sensitivity, grid=1.0 if rounded else None)
    rounding = 1 / 12 if rounded else 0.0
    less = steps.law(0.0).variance + rounding < (1 - _WORTH_STEPS) * usual.law(0.0).variance
    return steps if less else usual


def _smaller(first: Noise, second: Noise, *, less_by: float = 0.0) -> Noise:
    """The noise of less variance: the second where it has less by such a share."""
    return first if (1 - less_by) * first.law(0.0).variance <= second.law(0.0).variance else second
