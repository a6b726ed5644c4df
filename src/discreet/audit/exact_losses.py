"""Exact audit: the loss between neighbours, computed from the laws themselves, beside what is claimed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.contract.mechanism import Law, Mechanism
from discreet.core.errors import NoConversion
from discreet.core.guarantee import Guarantee
from discreet.core.privacy_profile import Profile
from discreet.core.sensitivity import Sensitivity
from discreet.display import Facts, number
from discreet.result import Result

__all__ = [
    "Cells",
    "ExactAudit",
    "audit_cells",
    "audit_choices",
    "audit_exactly",
    "audit_laws",
    "exact_loss",
    "joined",
    "law_cells",
]

Array = NDArray[np.float64]
Claim = Guarantee | Profile

EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
_LIGHT = 1e-8
"""Cells lighter than this are left out of log-ratios: their mass is no longer accurate to many digits."""
_JOINT = 1500
"""Cells a coordinate where several are joined."""


@dataclass(frozen=True)
class ExactAudit(Result):
    """Claimed against computed loss.

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

    def heading(self) -> str:
        return "Exact audit"


def audit_exactly(mechanism: Mechanism, sensitivity: Sensitivity, *, truths: Sequence[float] = (0.0,)) -> ExactAudit:
    """Compare a scalar mechanism's claims with the loss between its laws at neighbouring truths.

    Examples
    --------
    >>> from discreet import Laplace, Sensitivity
    >>> audit = audit_exactly(Laplace(1.0), Sensitivity(l1=1.0))
    >>> audit.passed, round(audit.tightness, 3)
    (True, 1.0)
    """
    shift = sensitivity.l1 if sensitivity.l1 is not None else sensitivity.require_l2()
    pairs = [(t, t + s) for t in truths for s in (shift, -shift, shift / 2, -shift / 2)]
    laws = [[(mechanism.law(a), mechanism.law(b))] for a, b in pairs]
    return audit_laws(mechanism.profile(sensitivity), laws)


def audit_laws(claim: Claim, pairs: Iterable[Sequence[tuple[Law, Law]]]) -> ExactAudit:
    """Compare a claim with the loss between neighbours whose outputs are independent scalars.

    Parameters
    ----------
    claim
        A guarantee, or a profile: the composed one for a pipeline.
    pairs
        For each pair of neighbours the laws of every output that they change, on the one and on the other.

    Examples
    --------
    >>> from discreet import Laplace, PureDP
    >>> one = Laplace(2.0).law(0.0), Laplace(2.0).law(1.0)
    >>> round(audit_laws(PureDP(1.0), [[one, one]]).tightness, 3)
    1.0
    """
    return audit_cells(claim, [joined([law_cells(a, b) for a, b in pair]) for pair in pairs])


def audit_choices(claim: Claim, pairs: Iterable[tuple[Array, Array]]) -> ExactAudit:
    """Compare a claim with the loss between two sets of outcome probabilities, both ways round."""
    return audit_cells(claim, [Cells(np.asarray(p, float), np.asarray(q, float), light=0.0) for p, q in pairs])


def audit_cells(claim: Claim, neighbours: Sequence[Cells]) -> ExactAudit:
    """Compare a claim with the worst of some neighbours' losses."""
    claimed = _pure(claim)
    losses = [cells.loss(EPSILONS) for cells in neighbours]
    return ExactAudit(
        claimed_epsilon=claimed,
        found_epsilon=None if claimed is None else max(ratio for ratio, _ in losses),
        claimed_deltas=tuple(float(claim.delta_at(epsilon)) for epsilon in EPSILONS),
        found_deltas=tuple(float(delta) for delta in np.max([deltas for _, deltas in losses], axis=0)),
    )


def _pure(claim: Claim) -> float | None:
    if isinstance(claim, Guarantee):
        epsilon = float(claim.epsilon_at(0.0))
        return epsilon if math.isfinite(epsilon) else None
    try:
        return claim.pure().epsilon
    except NoConversion:
        return None


@dataclass(frozen=True)
class Cells:
    """Probabilities of the same outcomes on two neighbours.

    A cell may hold many outputs: then it is an event, and what is found is a lower bound on the true loss (data
    processing) that converges to it as cells shrink. Cells lighter than ``light`` do not count for log-ratios.
    """

    p: Array
    q: Array
    light: float = _LIGHT

    def ratios(self) -> tuple[float, float]:
        """Largest log-ratio, one way round and the other."""
        p, q = self.p, self.q
        heavy = (p > self.light) & (q > self.light)
        impossible = ((p > self.light) & (q <= 0)) | ((q > self.light) & (p <= 0))
        if impossible.any() or not heavy.any():
            return math.inf, math.inf
        logs = np.log(p[heavy] / q[heavy])
        return float(logs.max()), float(-logs.min())

    def loss(self, epsilons: Sequence[float]) -> tuple[float, Array]:
        """Largest log-ratio and δ(ε), both ways round."""
        p, q = self.p, self.q
        deltas = [max(np.maximum(a - math.exp(e) * b, 0).sum() for a, b in ((p, q), (q, p))) for e in epsilons]
        return max(self.ratios()), np.array(deltas)

    def merged(self, most: int) -> Cells:
        """At most so many cells: those of nearly the same ratio become one."""
        if self.p.size <= most:
            return self
        with np.errstate(divide="ignore", invalid="ignore"):
            order = np.argsort(np.log(self.p) - np.log(self.q), kind="stable")
        p, q = self.p[order], self.q[order]
        place = np.minimum((np.cumsum(p + q) / 2 * most).astype(np.int64), most - 1)
        starts = np.unique(np.concatenate([[0], np.searchsorted(place, np.arange(1, most)), [1, 2, p.size - 2]]))
        return Cells(np.add.reduceat(p, starts), np.add.reduceat(q, starts), self.light)


def joined(parts: Sequence[Cells]) -> Cells:
    """Independent outputs together."""
    joint = parts[0]
    for part in parts[1:]:
        small, other = joint.merged(_JOINT), part.merged(_JOINT)
        p, q = np.outer(small.p, other.p).ravel(), np.outer(small.q, other.q).ravel()
        joint = Cells(p, q, light=min(_LIGHT, 1e-12))
    return joint


def exact_loss(first: Law, second: Law, epsilons: Sequence[float] = EPSILONS) -> tuple[float, Array]:
    """Largest log-ratio and δ(ε) between two scalar laws, from their distribution functions alone."""
    return law_cells(first, second).loss(epsilons)


def law_cells(first: Law, second: Law) -> Cells:
    """The line, cut into cells at quantiles of both laws."""
    edges = _edges(first, second)
    p, q = (np.diff(np.concatenate([[0.0], np.asarray(law.cdf(edges)), [1.0]])) for law in (first, second))
    return Cells(p, q)


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
