"""Exact audit: the loss between neighbours, computed from the laws themselves, beside what is claimed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.display import Facts, as_html, as_text, number
from discreet.errors import NoConversion
from discreet.mechanisms.mechanism import Mechanism
from discreet.noise.law import Law
from discreet.sensitivity import Sensitivity

__all__ = ["ExactAudit", "audit_exactly", "exact_loss"]

Array = NDArray[np.float64]

EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0)
_LIGHT = 1e-8
"""Cells lighter than this are left out of log-ratios: their mass is no longer accurate to many digits."""


@dataclass(frozen=True)
class ExactAudit:
    """Claimed against computed loss of a scalar mechanism.

    Attributes
    ----------
    claimed_epsilon, found_epsilon
        The pure claim and the largest log-ratio found; None where no pure claim is made.
    claimed_deltas, found_deltas
        The claimed and the computed δ at each of `EPSILONS`.
    """

    claimed_epsilon: float | None
    found_epsilon: float | None
    claimed_deltas: tuple[float, ...]
    found_deltas: tuple[float, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing that was found exceeds its claim (up to the accuracy of the computation)."""
        pure = self.claimed_epsilon is None or (
            self.found_epsilon is not None and self.found_epsilon <= self.claimed_epsilon * (1 + 1e-6) + 1e-9
        )
        pairs = zip(self.found_deltas, self.claimed_deltas, strict=True)
        return pure and all(found <= claimed + 1e-9 for found, claimed in pairs)

    @property
    def tightness(self) -> float:
        """Largest share of a claim that is reached."""
        pairs = zip(self.found_deltas, self.claimed_deltas, strict=True)
        shares = [found / claimed for found, claimed in pairs if claimed > 1e-6]
        if self.claimed_epsilon and self.found_epsilon is not None:
            shares.append(self.found_epsilon / self.claimed_epsilon)
        return max(shares, default=0.0)

    def facts(self) -> Facts:
        """What to show."""
        pure = "no pure claim" if self.claimed_epsilon is None else f"ε = {number(self.claimed_epsilon)}"
        found = "unbounded" if self.found_epsilon is None else number(self.found_epsilon)
        return [
            ("claim", pure),
            ("computed", found),
            ("δ claimed", ", ".join(number(delta) for delta in self.claimed_deltas)),
            ("δ computed", ", ".join(number(delta) for delta in self.found_deltas)),
            ("reached", f"{100 * self.tightness:.2f} % of the claim"),
            ("verdict", "holds" if self.passed else "EXCEEDED"),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {
            "claimed_epsilon": self.claimed_epsilon,
            "found_epsilon": self.found_epsilon,
            "epsilons": list(EPSILONS),
            "claimed_deltas": list(self.claimed_deltas),
            "found_deltas": list(self.found_deltas),
            "tightness": self.tightness,
            "passed": self.passed,
        }

    def __str__(self) -> str:
        return as_text("Exact audit", self.facts())

    def _repr_html_(self) -> str:
        return as_html("Exact audit", self.facts())


def audit_exactly(mechanism: Mechanism, sensitivity: Sensitivity, *, truths: Sequence[float] = (0.0,)) -> ExactAudit:
    """Compare a scalar mechanism's claims with the loss between its laws at neighbouring truths.

    Examples
    --------
    >>> from discreet import Laplace, Sensitivity
    >>> audit = audit_exactly(Laplace(1.0), Sensitivity(l1=1.0))
    >>> audit.passed, round(audit.tightness, 3)
    (True, 1.0)
    """
    profile = mechanism.profile(sensitivity)
    shift = sensitivity.l1 if sensitivity.l1 is not None else sensitivity.require_l2()
    pairs = [(t, t + s) for t in truths for s in (shift, -shift, shift / 2, -shift / 2)]
    losses = [exact_loss(mechanism.law(a), mechanism.law(b)) for a, b in pairs]
    try:
        claimed: float | None = profile.pure().epsilon
    except NoConversion:
        claimed = None
    return ExactAudit(
        claimed_epsilon=claimed,
        found_epsilon=None if claimed is None else max(ratio for ratio, _ in losses),
        claimed_deltas=tuple(float(delta) for delta in np.asarray(profile.delta_at(np.array(EPSILONS)))),
        found_deltas=tuple(float(delta) for delta in np.max([deltas for _, deltas in losses], axis=0)),
    )


def exact_loss(first: Law, second: Law, epsilons: Sequence[float] = EPSILONS) -> tuple[float, Array]:
    """Largest log-ratio and δ(ε) between two scalar laws, from their distribution functions alone.

    The line is cut into cells at quantiles of both laws. A cell is an event, so every number is a lower bound on the
    true loss (data processing), and converges to it as cells shrink.
    """
    edges = _edges(first, second)
    p, q = (np.diff(np.concatenate([[0.0], np.asarray(law.cdf(edges)), [1.0]])) for law in (first, second))
    heavy = (p > _LIGHT) & (q > _LIGHT)
    impossible = ((p > _LIGHT) & (q <= 0)) | ((q > _LIGHT) & (p <= 0))
    ratio = math.inf if impossible.any() else float(np.abs(np.log(p[heavy] / q[heavy])).max())
    deltas = [max(np.maximum(a - math.exp(e) * b, 0).sum() for a, b in ((p, q), (q, p))) for e in epsilons]
    return ratio, np.array(deltas)


def _edges(first: Law, second: Law) -> Array:
    levels = np.linspace(0.0, 1.0, 20_001)[1:-1]
    tails = np.logspace(-7, -4, 200)
    spread = np.concatenate([levels, tails, 1 - tails])
    parts = [np.asarray(law.quantile(spread)) for law in (first, second)]
    for law in (first, second):
        bounds = [float(np.asarray(end)) for end in law.support if np.isfinite(end)]
        # Mass may sit on a bound itself, so each finite bound gets a cell of its own.
        parts.append(np.array([edge for end in bounds for edge in (math.nextafter(end, -math.inf), end)]))
    return np.unique(np.concatenate(parts))
