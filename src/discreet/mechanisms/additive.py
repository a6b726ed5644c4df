"""Additive noise: the one decision between Laplace, geometric and Gaussian noise."""

from __future__ import annotations

from typing import overload

from discreet.core import requirements
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.geometric import Geometric
from discreet.mechanisms.laplace import Laplace

__all__ = ["additive_noise"]

_SPREAD_OUT = 6.0
"""ℓ₁ over ℓ₂ sensitivity beyond which Gaussian noise is smaller for every δ above 1e-12 and every ρ below 60."""


_WHOLE_ANYWAY = 2.0**20
"""From this scale on the default grid of Laplace noise is 1 or coarser: whole numbers stay whole without more ado."""

Noise = Laplace | Geometric | Gaussian


@overload
def additive_noise(guarantee: Guarantee, sensitivity: Sensitivity) -> Laplace | Gaussian: ...
@overload
def additive_noise(guarantee: Guarantee, sensitivity: Sensitivity, *, whole: bool) -> Noise: ...
def additive_noise(guarantee: Guarantee, sensitivity: Sensitivity, *, whole: bool = False) -> Noise:
    """The additive noise of least variance that meets a guarantee.

    Only Laplace and geometric noise meet `PureDP`. For every other kind the exactly calibrated variances decide: one
    number needs less Laplace noise at the same (ε, δ), a long vector less Gaussian noise. A guarantee that asks for
    less therefore never gets more noise.

    Parameters
    ----------
    guarantee
        What the release must meet, of any kind.
    sensitivity
        Largest change of the statistic; without ``l1`` only Gaussian noise can be calibrated.
    whole
        Whether the statistic is made of whole numbers: then geometric noise competes under ε and (ε, δ), and wins
        against Laplace noise under ε. Under ρ and μ it would always lose against Gaussian noise.

    Examples
    --------
    >>> from discreet import ApproxDP, GaussianDP, PureDP, Sensitivity
    >>> additive_noise(PureDP(1.0), Sensitivity(l1=1.0))
    Laplace(scale=1.0, grid=None)
    >>> additive_noise(PureDP(1.0), Sensitivity(moves=(1,)), whole=True)
    Geometric(scale=1.0)
    >>> additive_noise(ApproxDP(1.0, 1e-6), Sensitivity(l1=1.0)).name  # Gaussian noise would need σ = 4.2
    'laplace'
    >>> additive_noise(GaussianDP(0.5), Sensitivity(l1=1.0))
    Gaussian(scale=2.0, grid=None)
    """
    requirements.instance("guarantee", guarantee, Guarantee, "a guarantee such as PureDP(0.5)")
    requirements.instance("sensitivity", sensitivity, Sensitivity, "Sensitivity(l1=1.0), for example")
    if isinstance(guarantee, PureDP) or (isinstance(guarantee, ApproxDP) and guarantee.delta == 0):
        laplace = Laplace.calibrate(guarantee, sensitivity)
        return _geometric(guarantee, sensitivity, laplace) if whole else laplace
    gaussian = Gaussian.calibrate(guarantee, sensitivity)
    if sensitivity.l1 is None or sensitivity.l1 > _SPREAD_OUT * sensitivity.require_l2():
        return gaussian
    if isinstance(guarantee, GaussianDP):
        # μ-GDP implies μ²/2-zCDP, whose calibration is quick: it bounds from below what the search for μ-GDP finds.
        least = Laplace.calibrate(guarantee.to(ZeroConcentratedDP), sensitivity)
        if _smaller(least, gaussian) is gaussian:
            return gaussian
    laplace = Laplace.calibrate(guarantee, sensitivity)
    if whole and isinstance(guarantee, ApproxDP):
        return _smaller(_smaller(_geometric(guarantee, sensitivity, laplace), laplace), gaussian)
    return _smaller(laplace, gaussian)


def _geometric(guarantee: Guarantee, sensitivity: Sensitivity, laplace: Laplace) -> Noise:
    """Geometric noise, where it differs from Laplace noise on its default grid."""
    return laplace if laplace.scale >= _WHOLE_ANYWAY else Geometric.calibrate(guarantee, sensitivity)


def _smaller(first: Noise, second: Noise) -> Noise:
    return first if first.law(0.0).variance <= second.law(0.0).variance else second
