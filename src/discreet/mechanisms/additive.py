"""Additive noise: the one decision between Laplace and Gaussian noise."""

from __future__ import annotations

import math

from discreet.core import requirements
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace

__all__ = ["additive_noise"]

_SPREAD_OUT = 6.0
"""ℓ₁ over ℓ₂ sensitivity beyond which Gaussian noise is smaller for every δ above 1e-12 and every ρ below 60."""


def additive_noise(guarantee: Guarantee, sensitivity: Sensitivity) -> Laplace | Gaussian:
    """The additive noise of least variance that meets a guarantee.

    Only Laplace noise meets `PureDP`. For every other kind the exactly calibrated variances 2b² and σ² decide: one
    number needs less Laplace noise at the same (ε, δ), a long vector less Gaussian noise. A guarantee that asks for
    less therefore never gets more noise.

    Parameters
    ----------
    guarantee
        What the release must meet, of any kind.
    sensitivity
        Largest change of the statistic; without ``l1`` only Gaussian noise can be calibrated.

    Examples
    --------
    >>> from discreet import ApproxDP, GaussianDP, PureDP, Sensitivity
    >>> additive_noise(PureDP(1.0), Sensitivity(l1=1.0))
    Laplace(scale=1.0, grid=None)
    >>> additive_noise(ApproxDP(1.0, 1e-6), Sensitivity(l1=1.0)).name  # Gaussian noise would need σ = 4.2
    'laplace'
    >>> additive_noise(GaussianDP(0.5), Sensitivity(l1=1.0))
    Gaussian(scale=2.0, grid=None)
    """
    requirements.instance("guarantee", guarantee, Guarantee, "a guarantee such as PureDP(0.5)")
    requirements.instance("sensitivity", sensitivity, Sensitivity, "Sensitivity(l1=1.0), for example")
    if isinstance(guarantee, PureDP) or (isinstance(guarantee, ApproxDP) and guarantee.delta == 0):
        return Laplace.calibrate(guarantee, sensitivity)
    gaussian = Gaussian.calibrate(guarantee, sensitivity)
    if sensitivity.l1 is None or sensitivity.l1 > _SPREAD_OUT * sensitivity.require_l2():
        return gaussian
    if isinstance(guarantee, GaussianDP):
        # μ-GDP implies μ²/2-zCDP, whose calibration is quick: it bounds from below what the search for μ-GDP finds.
        least = Laplace.calibrate(guarantee.to(ZeroConcentratedDP), sensitivity)
        if not _smaller(least, gaussian):
            return gaussian
    laplace = Laplace.calibrate(guarantee, sensitivity)
    return laplace if _smaller(laplace, gaussian) else gaussian


def _smaller(laplace: Laplace, gaussian: Gaussian) -> bool:
    return math.sqrt(2) * laplace.scale <= gaussian.scale
