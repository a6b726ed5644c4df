"""Ledger programs: random sequences of spends, requests, partitions and restarts, beside a model of twenty lines.

The model keeps totals as fractions and nothing else. A ledger must accept what the model accepts, refuse what it
refuses, and never report less than the model's total, whatever came before, and after every restart.
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy.special import ndtri

from discreet.audit.report import Audit, Compared, recomputed, refused
from discreet.core import errors
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.ledger import account, balance
from discreet.core.ledger.balance import Approvals, digest_of, signed_text, window_of
from discreet.core.protection import Protection
from discreet.results.ledger import Ledger

Amount = tuple[Fraction, ...]
PARTS = ("north", "south", "west")


@dataclass
class Model:
    """The totals that a ledger must reach: fractions, one for all, and one for each part of a partition."""

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
        """Spend, and return True, where the budget allows it."""
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
        {ApproxDP: lambda one: _exact(one.epsilon, one.delta), PureDP: lambda one: _exact(one.epsilon, 0.0)},
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
_DELTAS = (0.0, 3e-14, 0.0004, 0.003, 0.009)
"""Not in proportion to ε, so that one cannot stand for the other; and one that somebody may take for nothing."""


def audit_ledger_programs(programs: int = 12, steps: int = 40, *, seed: int = 1) -> Audit:
    """Run random programs against ledgers on disk and against the model.

    Examples
    --------
    >>> audit_ledger_programs(programs=2, steps=10).passed
    True
    """
    rng = np.random.default_rng(seed)
    findings: dict[str, None] = {}
    refused = 0
    # A checkpoint every few entries, so that restarts begin from one.
    with TemporaryDirectory() as folder, patch.object(account, "EVERY", 3):
        for number in range(programs):
            name = list(_KINDS)[number % len(_KINDS)]
            program = _Program(name, Path(folder) / f"{number}.ledger", rng)
            try:
                refused += sum(program.step() for _ in range(steps))
            except Exception as error:
                program.findings.append(f"{name}: {type(error).__name__}: {error}")
            findings |= dict.fromkeys(program.findings)
            program.ledger.close()
    name, found = f"{programs * steps:,} steps", "disagree" if findings else "agree"
    return Audit("ledger", name, "as the model", found, tuple(findings), measured={"refused": refused})


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
            except errors.NoConversion:
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
            except errors.InvalidParameter:
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
        except errors.InsufficientBudget:
            return False
        return True

    def _reservation(self, guarantee: Guarantee, parts: list[str] | None, request: str | None) -> Any:
        scope: dict[str, Any] = {} if parts is None else {"partition": "region", "parts": parts}
        return self.ledger.reserve(
            guarantee, question={"ask": "count"}, mechanism={"name": "laplace"}, sensitivity={"l1": 1.0},
            protection=Protection(), request=request, **scope,
        )  # fmt: skip

    def _compare(self) -> None:
        """Never less than the model's total on record, nor more than rounding explains; what is left can be spent."""
        spent = self.kind.amount(self.ledger.spent())
        total = self.model.total()
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


# ---- Governed ledgers: random approvals, withdrawals, windows, teams and forged signatures, beside a model of
# fractions.
#
# A ledger with rules must pay exactly for what its rules allow. The model knows who approved which plan, what a team
# and a window have left, and how often a plan's release was made. Signatures of others, of another place or of
# another text must change nothing.


_PEOPLE = {name: Ed25519PrivateKey.from_private_bytes(bytes([place]) * 32) for place, name in enumerate("abc", 1)}
_KEYS = {name: key.public_key().public_bytes_raw().hex() for name, key in _PEOPLE.items()}
_TEAMS = {"red": PureDP(0.6), "blue": PureDP(0.4)}
_REGIONS = ("north", "south")


def audit_governed_ledgers(programs: int = 8, steps: int = 60) -> Audit:
    """Run random programs on ledgers with rules, and on the model."""
    with TemporaryDirectory() as folder:
        runs = [partial(_program, Path(folder) / f"{number}.ledger", number, steps) for number in range(programs)]
        return recomputed("Ledgers with rules", [*runs, _rules, partial(_terms, Path(folder)), _windows])


def _claim(ask: str) -> dict[str, Any]:
    return {
        "question": {"ask": ask},
        "mechanism": {"name": "laplace"},
        "sensitivity": {"l1": 1.0},
        "protection": Protection(),
    }


def _fingerprint(ask: str, size: float) -> str:
    said = {**_claim(ask), "protection": Protection().to_dict(), "guarantee": PureDP(size).to_dict()}
    return balance.fingerprint({**said, "partition": None, "parts": None})


def _fraction(size: float) -> Fraction:
    return Fraction(repr(size))


# ---- programs -------------------------------------------------------------------------------------------------------

_PLANS: tuple[dict[str, Any], ...] = (
    {"releases": {_fingerprint("count", 0.1): 2, _fingerprint("sum", 0.2): 1}},
    {"releases": {_fingerprint("count", 0.1): 50}, "renew": PureDP(0.5).to_dict()},
    {"releases": {_fingerprint("sum", 0.2): 50, _fingerprint("count", 0.1): 50}},
)
_SPENDS = (("count", 0.1), ("sum", 0.2), ("sum", 0.1))


@dataclass
class _Model:
    """The amount that may be spent, by the rules alone."""

    need: int | None
    windows: bool
    teams: bool
    approving: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    known: set[int] = field(default_factory=set)
    made: Counter[tuple[int, str]] = field(default_factory=Counter)
    renewed: set[int] = field(default_factory=set)
    window: str = ""
    common: Fraction = Fraction(0)
    parts: dict[str, Fraction] = field(default_factory=dict)
    by_team: dict[str, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    ever: Fraction = Fraction(0)

    def at(self, month: str) -> _Model:
        """A new month begins with nothing spent; one that is past is not entered again."""
        if not self.windows or month <= self.window:
            return self
        return replace(self, window=month, common=Fraction(0), parts={}, by_team=defaultdict(Fraction))

    def approve(self, plan: int, who: str, agrees: bool) -> None:
        """One more who agrees, or one less; enough of them renew the budget once."""
        self.known.add(plan)
        (self.approving[plan].add if agrees else self.approving[plan].discard)(who)
        if "renew" in _PLANS[plan] and len(self.approving[plan]) >= (self.need or 0):
            self.renewed.add(plan)

    def refuses(self, plan: int | None, ask: str, size: float) -> bool:
        """True where no approved plan holds one release more."""
        if self.need is None:
            return False
        if plan is None or len(self.approving[plan]) < self.need:
            return True
        mark = _fingerprint(ask, size)
        return self.made[plan, mark] >= int(_PLANS[plan]["releases"].get(mark, 0))

    def spent(self) -> Fraction:
        """In this window: what counts for all, and the largest of the parts."""
        return self.common + max(self.parts.values(), default=Fraction(0))

    def charge(self, cost: Fraction, part: str | None) -> Fraction:
        """The amount that a cost adds to the total."""
        if part is None:
            return cost
        largest = max(self.parts.values(), default=Fraction(0))
        return max(largest, self.parts.get(part, Fraction(0)) + cost) - largest

    def left(self, team: str | None) -> Fraction:
        """The amount that may still be spent, by all and by a team."""
        left = 1 + Fraction(1, 2) * len(self.renewed) - self.spent()
        return min(left, _fraction(_TEAMS[team].epsilon) - self.by_team[team]) if team else left


class _GovernedRun:
    """One ledger and its model."""

    def __init__(self, path: Path, number: int) -> None:
        self.path, self.draw = path, random.Random(number)
        self.model = _Model(need=(None, 1, 2)[number % 3], windows=number % 2 == 1, teams=number % 4 > 1)
        self.time = datetime(2025, 11, 20, tzinfo=UTC)
        self.signed: list[bytes] = []
        self.team: str | None = None
        self.ledger = self._opened(PureDP(1.0))
        if self.model.need is None:
            self.ledger.partition("region", _REGIONS)

    def _opened(self, budget: PureDP | None = None) -> Ledger:
        self.team = self.draw.choice(list(_TEAMS)) if self.model.teams else None
        rule = None if self.model.need is None else Approvals(self.model.need, _KEYS)
        return Ledger(
            self.path, budget, approvals=rule, window="month" if self.model.windows else None,
            teams=_TEAMS if self.model.teams else None, team=self.team,
        )  # fmt: skip

    def step(self) -> Iterator[Compared]:
        """One random step, and what the ledger says of it."""
        kind = self.draw.randrange(10)
        if kind == 0:
            self.time += timedelta(days=self.draw.choice((-40, 1, 9, 35)))
        elif kind == 1:
            self.ledger.close()
            self.ledger = self._opened()
        elif kind < 5 and self.model.need is not None:
            yield from self._states()
        else:
            yield from self._spends()
        yield "what rules leave is something else", self.ledger.remaining() == _pure(self._now().left(self.team))
        yield "what was spent in all is something else", self.ledger.spent_in_all() == _pure(self.model.ever)

    def _now(self) -> _Model:
        return self.model.at(self.time.isoformat()[:7])

    def _states(self) -> Iterator[Compared]:
        """An approval, a withdrawal, or a forged one."""
        plan = self.draw.randrange(len(_PLANS))
        who = self.draw.choice(list(_PEOPLE))
        how = self.draw.choice(("honest", "honest", "honest", "other", "stranger", "replayed", "nothing"))
        agrees = self.draw.random() < 0.7
        by = "stranger" if how == "stranger" else who
        other = next(name for name in _PEOPLE if name != who)
        signs: dict[str, Callable[[bytes], bytes]] = {
            "honest": lambda text: self._keep(_PEOPLE[who].sign(text)),
            "other": _PEOPLE[other].sign,
            "stranger": _PEOPLE[who].sign,
            "replayed": lambda text: self.draw.choice(self.signed) if self.signed else b"",
            "nothing": lambda text: b"",
        }
        valid = how == "honest" and (agrees or plan in self.model.known)
        before = self.ledger.head
        try:
            if agrees:
                digest = self.ledger.approve(_PLANS[plan], by=by, sign=signs[how])
                yield "a plan has another digest", digest == digest_of(_PLANS[plan])
            else:
                self.ledger.withdraw(digest_of(_PLANS[plan]), by=by, sign=signs[how])
        except errors.InvalidParameter:
            yield f"a statement was refused: {how}", not valid and self.ledger.head == before
        else:
            yield f"a statement was accepted: {how}", valid and self.ledger.head != before
            self.model.approve(plan, who, agrees)
        approving = tuple(sorted(self.model.approving[plan]))
        yield "who approves a plan", self.ledger.approving(digest_of(_PLANS[plan])) == approving
        right = self.ledger.agreed(digest_of(_PLANS[plan])) == (len(approving) >= (self.model.need or 0))
        yield "whether enough do", right

    def _keep(self, signature: bytes) -> bytes:
        self.signed.append(signature)
        return signature

    def _spends(self) -> Iterator[Compared]:
        now = self._now()
        plan = self.draw.choice((None, 0, 1, 2)) if self.model.need is not None else None
        part = self.draw.choice((None, *_REGIONS)) if self.model.need is None else None
        ask, size = self.draw.choice(_SPENDS)
        if plan is not None:
            self.ledger.under(digest_of(_PLANS[plan]))
        else:
            self.ledger._plan = None
        cost = now.charge(_fraction(size), part)
        expected: type[Exception] | None = None
        if now.refuses(plan, ask, size):
            expected = errors.NotApproved
        elif cost > now.left(self.team):
            expected = errors.InsufficientBudget
        scope: dict[str, Any] = {} if part is None else {"partition": "region", "parts": part}
        try:
            self.ledger.reserve(PureDP(size), **_claim(ask), **scope)
        except (errors.NotApproved, errors.InsufficientBudget) as error:
            yield "a spend was refused against the rules", expected is type(error)
            return
        yield "a spend was accepted against the rules", expected is None
        self.model = now
        self.model.ever += cost
        self.model.by_team[self.team or ""] += cost
        if part is None:
            self.model.common += cost
        else:
            self.model.parts[part] = self.model.parts.get(part, Fraction(0)) + _fraction(size)
        if plan is not None:
            self.model.made[plan, _fingerprint(ask, size)] += 1


def _pure(amount: Fraction) -> PureDP:
    return PureDP(float(amount))


def _program(path: Path, number: int, steps: int) -> Iterator[Compared]:
    run = _GovernedRun(path, number)
    with patch.object(balance, "now", lambda: run.time.isoformat(timespec="microseconds")):
        for _ in range(steps):
            yield from run.step()
        for told in (run.ledger.statement(), *run.ledger.events()):
            yield "a record is not made of plain values", json.loads(json.dumps(told.to_dict())) == told.to_dict()
        yield "entries do not add up again", run.ledger.verify().spends == len(run.ledger.events())
        run.ledger.close()


# ---- rules and terms ------------------------------------------------------------------------------------------------


def _rules() -> Iterator[Compared]:
    """Keys that are none, people that are too few, and one key under two names."""
    key = _KEYS["a"]
    for keys in ({"a": key[:-2]}, {"a": key + "00"}, {"a": "zz" * 32}, {"a": 7}, {"a": b"0" * 32}, ["a"], "a"):
        yield f"keys of {keys!r}", refused(partial(Approvals, 1, keys), errors.WrongType)  # type: ignore[arg-type]
    yield "more people than there are", refused(partial(Approvals, 4, _KEYS), errors.InvalidParameter)
    yield "nobody", refused(partial(Approvals, 0, _KEYS))
    yield "one key for two", refused(partial(Approvals, 1, {"a": key, "b": key}), errors.InvalidParameter)
    yield "all of them", Approvals(3, _KEYS).need == 3 and Approvals.from_dict(Approvals(2, _KEYS).to_dict()).need == 2
    plain = Ledger(":memory:", PureDP(1.0))
    yield "an approval without a rule", refused(partial(plain.approve, _PLANS[0], by="a", sign=_PEOPLE["a"].sign))
    ruled = Ledger(":memory:", PureDP(1.0), approvals=Approvals(1, _KEYS))
    content = {"plan": "0" * 64, "meaning": _PLANS[0], "by": "a", "approves": True}
    content["signature"] = _PEOPLE["a"].sign(signed_text(ruled.head, content)).hex()
    check = ruled._look().consent.check_statement
    yield "a digest of something else", refused(partial(check, ruled.head, content), errors.InvalidParameter)


def _terms(folder: Path) -> Iterator[Compared]:
    """A ledger keeps what it was opened with."""
    path, rule = folder / "terms.ledger", Approvals(2, _KEYS)
    opened: dict[str, Any] = {"approvals": rule, "window": "month", "teams": _TEAMS, "dataset": "d", "unit": "person"}
    Ledger(path, PureDP(1.0), **opened).close()
    others: dict[str, Any] = {
        "approvals": Approvals(1, _KEYS), "window": "year", "teams": {"red": PureDP(0.6)}, "dataset": "e",
        "unit": "house",
    }  # fmt: skip
    for name, value in others.items():
        yield f"another {name}", refused(partial(Ledger, path, **{name: value}), errors.LedgerMismatch)
        with Ledger(path, **{name: opened[name]}) as again:
            yield f"the same {name}", again.budget == PureDP(1.0)
    yield "another budget", refused(partial(Ledger, path, PureDP(2.0)), errors.LedgerMismatch)
    for teams in ({"red": PureDP(0.7), "blue": PureDP(0.4)}, {"": PureDP(0.1)}, {3: PureDP(0.1)}, {"red": 0.1}):
        yield f"teams of {teams}", refused(partial(Ledger, ":memory:", PureDP(1.0), teams=teams))  # type: ignore[arg-type]
    for place in ("", "a\0b", b"x", 3, None):
        yield f"a ledger at {place!r}", refused(partial(Ledger, place, PureDP(1.0)))  # type: ignore[arg-type]
    parted = Ledger(":memory:", PureDP(1.0))
    parted.reserve({"a": PureDP(0.1), "b": PureDP(0.2)}, **_claim("sum"), partition=parted.partition("p", ["a", "b"]))
    right = json.loads(json.dumps(parted.events()[0].to_dict()))["guarantee"]["b"] == (PureDP(0.2).to_dict())
    yield "a guarantee for each part", right
    for team in (None, "green"):
        ledger = Ledger(":memory:", PureDP(1.0), teams=_TEAMS, team=team)
        yield f"team {team}", refused(partial(ledger.reserve, PureDP(0.1), **_claim("count")), errors.InvalidParameter)


def _windows() -> Iterator[Compared]:
    """Calendar windows of every month, and lengths that are none."""
    for month in range(1, 13):
        stamp = f"2026-{month:02d}-28T23:59:59.999999+00:00"
        quarter = f"2026-Q{1 + (month - 1) // 3}"
        found = [window_of(length, stamp) for length in (None, "year", "quarter", "month")]
        yield f"windows of month {month}", found == ["", "2026", quarter, f"2026-{month:02d}"]
    for length in ("week", "", 3):
        yield f"a window of {length!r}", refused(partial(Ledger, ":memory:", PureDP(1.0), window=length))  # type: ignore[arg-type]
