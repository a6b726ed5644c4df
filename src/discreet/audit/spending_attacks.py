"""Spending audit: no value leaves before its cost is on record, and no budget is spent twice."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.core.errors import InsufficientBudget
from discreet.core.exact import Exact
from discreet.core.guarantee import Guarantee, PureDP
from discreet.core.noise.truth import Floats, Truth
from discreet.core.sensitivity import Sensitivity
from discreet.display import Facts
from discreet.ledgers import Ledger
from discreet.mechanisms.laplace import Laplace
from discreet.releases import release
from discreet.result import Result

__all__ = ["SpendingAudit", "audit_spending"]

ReleaseFunction = Callable[..., Any]


@dataclass(frozen=True)
class SpendingAudit(Result):
    """What a release function does to a ledger.

    Attributes
    ----------
    spent_first
        Whether the cost was on record when the noise was drawn.
    charged
        Whether the ledger lost what the guarantee says.
    repeated_free
        Whether asking again under one name returned the stored answer and drew and spent nothing.
    racing
        Releases that succeeded when many threads wanted more than the budget holds, and how many it holds.
    """

    spent_first: bool
    charged: bool
    repeated_free: bool
    racing: tuple[int, int]

    @property
    def passed(self) -> bool:
        """Whether all of it is as it must be."""
        return self.spent_first and self.charged and self.repeated_free and self.racing[0] <= self.racing[1]

    def facts(self) -> Facts:
        """What to show."""
        return [
            ("spent before the draw", "yes" if self.spent_first else "NO"),
            ("charged in full", "yes" if self.charged else "NO"),
            ("repeats are free", "yes" if self.repeated_free else "NO"),
            ("race", f"{self.racing[0]} releases where the budget holds {self.racing[1]}"),
            ("verdict", "holds" if self.passed else "BROKEN"),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {
            "spent_first": self.spent_first,
            "charged": self.charged,
            "repeated_free": self.repeated_free,
            "racing": list(self.racing),
            "passed": self.passed,
        }

    def heading(self) -> str:
        return "Spending audit"


def audit_spending(
    release_function: ReleaseFunction = release,
    open_ledger: Callable[[Guarantee], Any] = lambda budget: Ledger(":memory:", budget),
) -> SpendingAudit:
    """Audit a function that is called as `discreet.release` is.

    Examples
    --------
    >>> audit_spending().passed
    True
    """
    ledger = open_ledger(PureDP(10.0))
    witness = _witness(ledger)
    release_function(_EXACT, witness, ledger=ledger)
    spent_first = witness.seen == [PureDP(9.0)]
    charged = ledger.remaining() == PureDP(9.0)
    first = release_function(_EXACT, witness, ledger=ledger, request="again")
    second = release_function(_EXACT, witness, ledger=ledger, request="again")
    repeated = first.value == second.value and len(witness.seen) == 2 and ledger.remaining() == PureDP(8.0)
    return SpendingAudit(spent_first, charged, repeated, _race(release_function, open_ledger))


_EXACT = Exact(0.0, Sensitivity(l1=1.0))


class _Witness(Laplace):
    """Laplace noise that notes what the ledger held when it was asked for."""

    seen: list[Guarantee]
    ledger: Any

    def draw(self, truth: Truth, *, rng: int | np.random.Generator | None = None) -> Floats:
        self.seen.append(self.ledger.remaining())
        return super().draw(truth, rng=rng)


def _witness(ledger: Any) -> _Witness:
    witness = _Witness(1.0)
    object.__setattr__(witness, "seen", [])
    object.__setattr__(witness, "ledger", ledger)
    return witness


def _race(release_function: ReleaseFunction, open_ledger: Callable[[Guarantee], Any]) -> tuple[int, int]:
    ledger, holds = open_ledger(PureDP(4.0)), 4

    def attempt(_: int) -> bool:
        try:
            release_function(_EXACT, Laplace(1.0), ledger=ledger)
        except InsufficientBudget:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        return sum(pool.map(attempt, range(16))), holds
