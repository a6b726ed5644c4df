"""Ledger programs: random sequences of spends, requests, partitions and restarts, beside a model of twenty lines.

The model keeps totals as fractions and nothing else. A ledger must accept what the model accepts, refuse what it
refuses, and never report less than the model's total, whatever came before, and after every restart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy.special import ndtri

from discreet.core.errors import InsufficientBudget, InvalidParameter, NoConversion
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.protection import Protection
from discreet.display import Facts
from discreet.ledgers import Ledger
from discreet.result import Result

__all__ = ["LedgerAudit", "Model", "audit_ledger_programs"]

Amount = tuple[Fraction, ...]
PARTS = ("north", "south", "west")


@dataclass
class Model:
    """What a ledger must add up to: fractions, one total for all, and one for each part of a partition."""

    budget: Amount
    common: Amount
    parts: dict[str, Amount]
    requests: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    def total(self, extra: Amount | None = None, parts: Sequence[str] | None = None) -> Amount:
        """Everything together, with one more cost: parts of disjoint units count by their largest."""
        zero = tuple(Fraction(0) for _ in self.budget)
        more = extra or zero
        common = _plus(self.common, more if parts is None else zero)
        each = [_plus(spent, more if parts and name in parts else zero) for name, spent in self.parts.items()]
        return _plus(common, tuple(map(max, zip(*each, strict=True))))

    def spend(self, cost: Amount, parts: Sequence[str] | None) -> bool:
        """Whether the budget allows it; then it counts."""
        if any(a > b for a, b in zip(self.total(cost, parts), self.budget, strict=True)):
            return False
        if parts is None:
            self.common = _plus(self.common, cost)
        for name in parts or ():
            self.parts[name] = _plus(self.parts[name], cost)
        return True


def _plus(first: Amount, second: Amount) -> Amount:
    return tuple(a + b for a, b in zip(first, second, strict=True))


def _exact(*numbers: float) -> Amount:
    """Numbers as the decimals they print as."""
    return tuple(Fraction(repr(number)) for number in numbers)


def _about(number: float) -> Amount:
    """A number that was computed: a hair less, so that nothing on record may be below it."""
    return (Fraction(number * (1 - 1e-14)),)


Amounts = Mapping[type[Guarantee], Callable[[Any], Amount]]


@dataclass(frozen=True)
class _Kind:
    """A budget, and what each kind of guarantee costs in it; kinds that are not there cannot be charged."""

    budget: Guarantee
    amounts: Amounts
    others: Sequence[Guarantee]

    def amount(self, guarantee: Guarantee) -> Amount:
        return self.amounts[type(guarantee)](guarantee)


_KINDS = {
    "pure": _Kind(
        PureDP(2.0),
        {PureDP: lambda one: _exact(one.epsilon)},
        (ZeroConcentratedDP(0.3), GaussianDP(0.3), ApproxDP(0.3, 0.001)),
    ),
    "approximate": _Kind(
        ApproxDP(2.0, 0.01),
        {
            ApproxDP: lambda one: _exact(one.epsilon, one.delta),
            PureDP: lambda one: _exact(one.epsilon, 0.0),
        },
        (ZeroConcentratedDP(0.3), GaussianDP(0.3)),
    ),
    "concentrated": _Kind(
        ZeroConcentratedDP(2.0),
        {
            ZeroConcentratedDP: lambda one: _exact(one.rho),
            PureDP: lambda one: _about(one.epsilon * math.tanh(one.epsilon / 2)),
            GaussianDP: lambda one: tuple(value**2 / 2 for value in _exact(one.mu)),
        },
        (ApproxDP(0.3, 0.001),),
    ),
    "Gaussian": _Kind(
        GaussianDP(1.0),
        {
            GaussianDP: lambda one: tuple(value**2 for value in _exact(one.mu)),
            PureDP: lambda one: _about((2 * float(ndtri(1 / (1 + math.exp(-one.epsilon))))) ** 2),
        },
        (ApproxDP(0.3, 0.001), ZeroConcentratedDP(0.3)),
    ),
}
"""By budget. Prices of other kinds are those of the literature: ε tanh(ε/2) and μ²/2 in ρ, 2Φ⁻¹(1/(1 + e⁻ᵋ)) in μ."""
_DELTAS = (0.0, 0.0004, 0.003, 0.009)
"""Not in proportion to ε, so that one cannot stand for the other."""


@dataclass(frozen=True)
class LedgerAudit(Result):
    """Programs that were run, their steps, and where ledger and model disagree."""

    programs: int
    steps: int
    refused: int
    findings: tuple[str, ...]

    def heading(self) -> str:
        return "Ledger programs"

    @property
    def passed(self) -> bool:
        """Whether ledger and model always agree."""
        return not self.findings

    def facts(self) -> Facts:
        """What to show."""
        return [
            ("programs", f"{self.programs:,}, {self.steps:,} steps, {self.refused:,} of them refused by both"),
            ("findings", "none" if self.passed else "; ".join(self.findings[:3])),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {**vars(self), "findings": list(self.findings), "passed": self.passed}


def audit_ledger_programs(programs: int = 12, steps: int = 40, *, seed: int = 1) -> LedgerAudit:
    """Run random programs against ledgers on disk and against the model.

    Examples
    --------
    >>> audit_ledger_programs(programs=2, steps=10).passed
    True
    """
    rng = np.random.default_rng(seed)
    findings: dict[str, None] = {}
    refused = 0
    with TemporaryDirectory() as folder:
        for number in range(programs):
            name = list(_KINDS)[number % len(_KINDS)]
            program = _Program(name, Path(folder) / f"{number}.ledger", rng)
            try:
                refused += sum(program.step() for _ in range(steps))
            except Exception as error:
                program.findings.append(f"{name}: {type(error).__name__}: {error}")
            findings |= dict.fromkeys(program.findings)
            program.ledger.close()
    return LedgerAudit(programs, programs * steps, refused, tuple(findings))


class _Program:
    """One ledger and its model, step by step."""

    def __init__(self, name: str, path: Path, rng: np.random.Generator) -> None:
        self.name, self.path, self.rng, self.kind = name, path, rng, _KINDS[name]
        self.findings: list[str] = []
        self.ledger = Ledger(path, self.kind.budget)
        self.ledger.partition("region", PARTS)
        budget = self.kind.amount(self.kind.budget)
        nothing = tuple(Fraction(0) for _ in budget)
        self.model = Model(budget, nothing, dict.fromkeys(PARTS, nothing))

    def step(self) -> bool:
        """One random step; True where both refuse it."""
        kind = int(self.rng.integers(0, 9))
        if kind == 0:
            self.ledger.close()
            self.ledger = Ledger(self.path)
            refused = False
        elif kind == 2:
            self._foreign()
            refused = False
        elif kind == 1 and self.model.requests:
            self._repeat()
            refused = False
        else:
            refused = self._spend()
        self._compare()
        return refused

    def _spend(self) -> bool:
        guarantee = self._some(float(self.rng.choice([0.05, 0.1, 0.3, 0.5, 0.7])))
        parts = [None, None, ["north"], ["south", "west"], list(PARTS)][int(self.rng.integers(0, 5))]
        request = f"r{len(self.model.requests)}" if self.rng.random() < 0.5 else None
        allowed = self.model.spend(self.kind.amount(guarantee), parts)
        if self._reserved(guarantee, parts, request) != allowed:
            self._found(f"{guarantee} was {'refused' if allowed else 'accepted'} against the model")
        elif allowed and request is not None:
            self.model.requests[request] = (guarantee, parts)
        return not allowed

    def _some(self, size: float) -> Guarantee:
        """A guarantee of one of the kinds that the ledger can charge, often with the numbers of another kind."""
        kinds = list(self.kind.amounts)
        kind: Any = kinds[int(self.rng.integers(0, len(kinds)))]
        made: Guarantee = kind(size, float(self.rng.choice(_DELTAS))) if kind is ApproxDP else kind(size)
        return made

    def _foreign(self) -> None:
        """A kind that has no price here is refused, whatever its numbers, and leaves no trace."""
        before = self.ledger.head
        for guarantee in self.kind.others:
            try:
                self._reservation(guarantee, None, None)
                self._found(f"{guarantee} was charged, and has no price")
            except NoConversion:
                pass
        if self.ledger.head != before:
            self._found("a refused spend left a trace")

    def _repeat(self) -> None:
        """The same request again costs nothing; with another guarantee it is refused."""
        request = str(self.rng.choice(list(self.model.requests)))
        guarantee, parts = self.model.requests[request]
        first, second = (self._reservation(guarantee, parts, request) for _ in range(2))
        if first.release_id != second.release_id:
            self._found("a repeated request got another reservation")
        answer = self.ledger.record_answer(first, {"value": float(self.rng.random())})
        if self.ledger.record_answer(second, {"value": -1.0}) != answer:
            self._found("a second answer replaced the first")
        others = [self._some(0.01), *self._alike(guarantee)]
        for other in others:
            try:
                self._reservation(other, parts, request)
                self._found("another question took over a request")
            except InvalidParameter:
                pass

    def _alike(self, guarantee: Guarantee) -> list[Guarantee]:
        """Guarantees of other kinds, or with another δ, and the same first number."""
        size = next(iter(guarantee.parameters().values()))
        kinds: list[Any] = [kind for kind in self.kind.amounts if kind is not ApproxDP]
        found = [kind(size) for kind in kinds] + [ApproxDP(size, delta) for delta in _DELTAS]
        return [one for one in found if one != guarantee and type(one) in self.kind.amounts]

    def _reserved(self, guarantee: Guarantee, parts: list[str] | None, request: str | None) -> bool:
        try:
            self._reservation(guarantee, parts, request)
        except InsufficientBudget:
            return False
        return True

    def _reservation(self, guarantee: Guarantee, parts: list[str] | None, request: str | None) -> Any:
        scope: dict[str, Any] = {} if parts is None else {"partition": "region", "parts": parts}
        return self.ledger.reserve(
            guarantee,
            question={"ask": "count"},
            mechanism={"name": "laplace"},
            sensitivity={"l1": 1.0},
            protection=Protection(),
            request=request,
            **scope,
        )

    def _compare(self) -> None:
        """Never less than the model's total on record, nor more than rounding explains; what is left can be spent."""
        spent, total = self.kind.amount(self.ledger.spent()), self.model.total()
        if self.ledger.spent_in_all() != self.ledger.spent():
            self._found("without windows something else was spent in all")
        if any(a < b for a, b in zip(spent, total, strict=True)):
            self._found("less is on record than was spent")
        if any(float(a) > float(b) + 1e-12 for a, b in zip(spent, total, strict=True)):
            self._found("more is on record than was spent")
        left = _plus(self.kind.amount(self.ledger.remaining()), total)
        if any(a > b for a, b in zip(left, self.model.budget, strict=True)):
            self._found("more is left than the budget has")

    def _found(self, what: str) -> None:
        self.findings.append(f"{self.name}: {what}")
