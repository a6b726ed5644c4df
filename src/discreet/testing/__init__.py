"""Conformance kit: the checks that discreet's own mechanisms, statistics and ledgers pass, for anybody's.

A check raises `NotConformant` with what it found, also under ``python -O``.

Examples
--------
>>> from discreet import PureDP
>>> from discreet.core.sensitivity import Sensitivity
>>> from discreet.mechanisms import Laplace
>>> unit = Sensitivity(l1=1.0)
>>> report = check_mechanism(Laplace.calibrate(PureDP(1.0), unit), unit)
>>> report.claimed_epsilon, report.tightness > 0.99
(1.0, True)
"""

from discreet.audit.exact_losses import exact_loss
from discreet.testing.ledgers import check_ledger
from discreet.testing.mechanisms import (
    MechanismReport,
    NotConformant,
    check_calibration,
    check_mechanism,
    check_sampler,
    check_statistic,
)
from discreet.testing.sources import check_source

__all__ = [
    "MechanismReport", "NotConformant", "check_calibration", "check_ledger", "check_mechanism", "check_sampler",
    "check_source", "check_statistic", "exact_loss",
]  # fmt: skip
