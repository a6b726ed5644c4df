"""Calibration: the least noise that meets a guarantee, rounded up and certified in ball arithmetic.

The scale is a float that the sampler uses as it stands, so its binary value counts; the guarantee is the decimal
it prints as. Each function returns a float b for which the true parameter of noise at scale b is *proved* not to
exceed the guarantee. Proofs: ``docs/proofs/laplace.md`` and ``docs/proofs/gaussian.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from flint import arb

from discreet import requirements
from discreet.envelope import dominates, supremum
from discreet.errors import InvalidParameter, NoConversion
from discreet.guarantees import (
    ApproxDP,
    GaussianDP,
    Guarantee,
    PureDP,
    ZeroConcentratedDP,
    gaussian_delta,
)
from discreet.laplace_curve import LaplaceCurve
from discreet.profiles import LaplaceProfile, first_certified, laplace_rho
from discreet.rounding import ball, decimal, least, normal_cdf, precisely, thin
from discreet.sensitivity import Sensitivity

__all__ = ["gaussian_scale", "laplace_profile", "laplace_scale", "gaussian_scale"]
