"""Case: one mechanism on one pair of neighbours, as the audits see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.audit.exact_losses import ExactAudit
from discreet.contract.mechanism import Mechanism
from discreet.core.guarantee import Guarantee
from discreet.core.sensitivity import Sensitivity

__all__ = ["PAIR", "UNIT", "Case", "Draw", "one_by_one"]

Draw = Callable[[int], Any]

UNIT = Sensitivity(moves=(1.0,))
PAIR = Sensitivity(moves=(1.0, 1.0))


@dataclass(frozen=True)
class Case:
    """One mechanism on one pair of neighbours.

    Attributes
    ----------
    name
        What is audited.
    claim
        What it claims.
    here, there
        Draw n outputs on either neighbour.
    exact
        Compute the loss from the laws.
    tight
        Whether this pair reaches the claim, so that the audits must come close to it.
    slow
        Whether outputs are made one by one: then fewer are drawn.
    deep_only
        Whether even few outputs take long, so that only the deep run draws them.
    """

    name: str
    claim: Guarantee
    here: Draw
    there: Draw
    exact: Callable[[], ExactAudit] | None = None
    tight: bool = True
    slow: bool = False
    deep_only: bool = False


def one_by_one(mechanism: Mechanism, truth: Any) -> Draw:
    """Outputs made by as many calls of ``draw``."""
    return lambda n: np.array([np.ravel(mechanism.draw(truth)) for _ in range(n)])
