"""Settings of the miranda2026 study: budgets, rates and spans, and the row that each of them gives."""

from __future__ import annotations

from discreet.papers.miranda2026_utility import Estimate, Omit, difference
from discreet.papers.study import Parameters, Row

__all__ = ["CLUSTERING_RATES", "EPSILONS", "FEW_RATES", "FEW_SPANS", "SPANS", "omissions", "utility_row"]

EPSILONS = (0.25, 0.5, 1.0, 2.0)
_RATES = tuple(round(k / 100, 2) for k in range(1, 100))
FEW_RATES = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99)
CLUSTERING_RATES = (0.01, *(round(k / 20, 2) for k in range(1, 20)), 0.99)
_TENTHS = tuple(round(k / 10, 1) for k in range(1, 10))
SPANS = tuple((m, M) for m in _TENTHS for M in _TENTHS if m <= M)
FEW_SPANS = tuple((m, M) for m, M in SPANS if m in (0.1, 0.3, 0.5) and M - m < 0.35)


def omissions(parameters: Parameters) -> list[Omit]:
    """All settings of a cell; one rate or one m only where the cell names it."""
    quick = bool(parameters["quick"])
    if parameters["omission"] == "sampling":
        rates = (parameters["rate"],) if "rate" in parameters else FEW_RATES if quick else _RATES
        return [Omit(rate=float(rate or 0)) for rate in rates]
    spans = FEW_SPANS if quick else SPANS
    return [Omit(m=m, M=M) for m, M in spans if parameters.get("m", m) == m]


def utility_row(
    parameters: Parameters, subject: str, method: str, omit: Omit, plain: Estimate, other: Estimate | None
) -> Row:
    """The utility without and with omission, and their difference; empty where there is no budget."""
    gap, z = (None, None) if other is None else difference(plain, other)
    return {
        "subject": subject,
        "method": method,
        "epsilon": float(parameters["epsilon"] or 0),
        "noise reduction": bool(parameters["reduced"]),
        "rate": omit.rate,
        "m": omit.m,
        "M": omit.M,
        "without": plain.value,
        "with": None if other is None else other.value,
        "low": None if other is None else other.low,
        "high": None if other is None else other.high,
        "difference": gap,
        "label": None if gap is None else f"{gap:.2g}",
        "z": z,
    }
