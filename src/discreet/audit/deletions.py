"""Deletions: the probability with which outlier suppression deletes a row, beside its definition in plain Python.

The theorem behind suppression is far from tight, so a distance that is scaled by the data, and not by public bounds,
may lose less than what is charged on every small table. It is wrong all the same, and shows here at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.audit.transcript import Script, scripted
from discreet.display import Facts
from discreet.omission import OutlierSuppression
from discreet.omission.outliers import AbsoluteDistance, DiscreteDistance, Distance, EuclideanDistance
from discreet.result import Result

__all__ = ["DeletionAudit", "audit_deletions"]

Apart = Callable[[Any, Any], float]


@dataclass(frozen=True)
class DeletionAudit(Result):
    """Rows whose probability of deletion was checked, and where it is not the definition's."""

    rows: int
    findings: tuple[str, ...]

    def heading(self) -> str:
        return "Probabilities of deletion"

    @property
    def passed(self) -> bool:
        """Whether every row is deleted with the probability that the definition gives."""
        return not self.findings

    def facts(self) -> Facts:
        """What to show."""
        return [("rows", f"{self.rows:,}"), ("findings", "none" if self.passed else "; ".join(self.findings))]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {"rows": self.rows, "findings": list(self.findings), "passed": self.passed}


def audit_deletions(tables: int = 30, *, seed: int = 1) -> DeletionAudit:
    """Compare m + (M − m)·(mean distance to all rows) with the probabilities that the step really uses.

    Examples
    --------
    >>> audit_deletions(tables=3).passed
    True
    """
    rng, rows, findings = np.random.default_rng(seed), 0, dict[str, None]()
    for distance, apart, made in _distances():
        for _ in range(tables):
            data = made(rng, int(rng.integers(1, 7)))
            step = OutlierSuppression(0.3, 0.6, distance)
            found = _chances(step, data)
            wanted = [1 - 0.3 - 0.3 * math.fsum(apart(one, other) for other in data) / len(data) for one in data]
            rows += len(data)
            if not np.allclose(found, wanted, rtol=0, atol=1e-9):
                findings[f"{distance.name}: rows are kept with another probability than the definition's"] = None
    return DeletionAudit(rows, tuple(findings))


def _chances(step: OutlierSuppression, data: Sequence[Any]) -> list[float]:
    """The probabilities of keeping that reach the door through which rows are chosen."""
    seen: list[float] = []

    class Seen(Script):
        def keep(self, chances: Any) -> Any:
            seen.extend(1 - np.asarray(chances))
            return np.ones(len(chances), dtype=bool)

    with scripted(Seen()):
        step.kept(data)
    return seen


def _distances() -> Iterator[tuple[Distance, Apart, Callable[[np.random.Generator, int], Sequence[Any]]]]:
    low, high = -3.0, 7.0

    def clamped(value: float) -> float:
        return min(max(value, low), high)

    yield (
        AbsoluteDistance((low, high)),
        lambda one, other: abs(clamped(one) - clamped(other)) / (high - low),
        lambda rng, n: rng.choice([-9.0, -3.0, 0.0, 1.0, 6.5, 99.0], n).tolist(),
    )
    yield (
        DiscreteDistance(),
        lambda one, other: float(one != other),
        lambda rng, n: rng.choice(["a", "b", "c"], n).tolist(),
    )
    yield (
        EuclideanDistance(((0.0, 2.0), (0.0, 2.0))),
        lambda one, other: math.dist(one, other) / math.dist((0.0, 0.0), (2.0, 2.0)),
        lambda rng, n: rng.choice([0.0, 0.5, 2.0], (n, 2)).tolist(),
    )
