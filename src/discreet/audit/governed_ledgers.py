"""Governed ledgers: random approvals, withdrawals, windows, teams and forged signatures, beside a model of fractions.

A ledger with rules must pay exactly for what its rules allow. The model knows who approved which plan, what a team and
a window have left, and how often a plan's release was made. Signatures of others, of another place or of another text
must change nothing.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.audit.recomputed import Compared, Recomputed, recomputed, refused
from discreet.core.errors import InsufficientBudget, InvalidParameter, LedgerMismatch, NotApproved, WrongType
from discreet.core.guarantee import PureDP
from discreet.core.ledger import claim
from discreet.core.ledger.approval import digest_of, signed_text
from discreet.core.ledger.balance import window_of
from discreet.core.protection import Protection
from discreet.ledgers import Approvals, Ledger

__all__ = ["audit_governed_ledgers"]

_PEOPLE = {name: Ed25519PrivateKey.from_private_bytes(bytes([place]) * 32) for place, name in enumerate("abc", 1)}
_KEYS = {name: key.public_key().public_bytes_raw().hex() for name, key in _PEOPLE.items()}
_TEAMS = {"red": PureDP(0.6), "blue": PureDP(0.4)}
_REGIONS = ("north", "south")


def audit_governed_ledgers(programs: int = 8, steps: int = 60) -> Recomputed:
    """Run random programs on ledgers with rules, and on the model.

    Examples
    --------
    >>> audit_governed_ledgers(programs=2, steps=10).passed
    True
    """
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
    return claim.fingerprint({**said, "partition": None, "parts": None})


def _exact(size: float) -> Fraction:
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
    """What may be spent, by the rules alone."""

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
        """Whether no approved plan holds one release more."""
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
        """What a cost adds to the total."""
        if part is None:
            return cost
        largest = max(self.parts.values(), default=Fraction(0))
        return max(largest, self.parts.get(part, Fraction(0)) + cost) - largest

    def left(self, team: str | None) -> Fraction:
        """What may still be spent, by all and by a team."""
        left = 1 + Fraction(1, 2) * len(self.renewed) - self.spent()
        return min(left, _exact(_TEAMS[team].epsilon) - self.by_team[team]) if team else left


class _Run:
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
            self.path,
            budget,
            approvals=rule,
            window="month" if self.model.windows else None,
            teams=_TEAMS if self.model.teams else None,
            team=self.team,
        )

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
        plan, who = self.draw.randrange(len(_PLANS)), self.draw.choice(list(_PEOPLE))
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
        except InvalidParameter:
            yield f"a statement was refused: {how}", not valid and self.ledger.head == before
        else:
            yield f"a statement was accepted: {how}", valid and self.ledger.head != before
            self.model.approve(plan, who, agrees)
        approving = tuple(sorted(self.model.approving[plan]))
        yield "who approves a plan", self.ledger.approving(digest_of(_PLANS[plan])) == approving
        yield (
            "whether enough do",
            self.ledger.agreed(digest_of(_PLANS[plan])) == (len(approving) >= (self.model.need or 0)),
        )

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
        cost = now.charge(_exact(size), part)
        expected: type[Exception] | None = None
        if now.refuses(plan, ask, size):
            expected = NotApproved
        elif cost > now.left(self.team):
            expected = InsufficientBudget
        scope: dict[str, Any] = {} if part is None else {"partition": "region", "parts": part}
        try:
            self.ledger.reserve(PureDP(size), **_claim(ask), **scope)
        except (NotApproved, InsufficientBudget) as error:
            yield "a spend was refused against the rules", expected is type(error)
            return
        yield "a spend was accepted against the rules", expected is None
        self.model = now
        self.model.ever += cost
        self.model.by_team[self.team or ""] += cost
        if part is None:
            self.model.common += cost
        else:
            self.model.parts[part] = self.model.parts.get(part, Fraction(0)) + _exact(size)
        if plan is not None:
            self.model.made[plan, _fingerprint(ask, size)] += 1


def _pure(amount: Fraction) -> PureDP:
    return PureDP(float(amount))


def _program(path: Path, number: int, steps: int) -> Iterator[Compared]:
    run = _Run(path, number)
    with patch.object(claim, "now", lambda: run.time.isoformat(timespec="microseconds")):
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
        yield f"keys of {keys!r}", refused(partial(Approvals, 1, keys), WrongType)  # type: ignore[arg-type]
    yield "more people than there are", refused(partial(Approvals, 4, _KEYS), InvalidParameter)
    yield "nobody", refused(partial(Approvals, 0, _KEYS))
    yield "one key for two", refused(partial(Approvals, 1, {"a": key, "b": key}), InvalidParameter)
    yield "all of them", Approvals(3, _KEYS).need == 3 and Approvals.from_dict(Approvals(2, _KEYS).to_dict()).need == 2
    plain = Ledger(":memory:", PureDP(1.0))
    yield "an approval without a rule", refused(partial(plain.approve, _PLANS[0], by="a", sign=_PEOPLE["a"].sign))
    ruled = Ledger(":memory:", PureDP(1.0), approvals=Approvals(1, _KEYS))
    content = {"plan": "0" * 64, "meaning": _PLANS[0], "by": "a", "approves": True}
    content["signature"] = _PEOPLE["a"].sign(signed_text(ruled.head, content)).hex()
    check = ruled._look().consent.check_statement
    yield "a digest of something else", refused(partial(check, ruled.head, content), InvalidParameter)


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
        yield f"another {name}", refused(partial(Ledger, path, **{name: value}), LedgerMismatch)
        with Ledger(path, **{name: opened[name]}) as again:
            yield f"the same {name}", again.budget == PureDP(1.0)
    yield "another budget", refused(partial(Ledger, path, PureDP(2.0)), LedgerMismatch)
    for teams in ({"red": PureDP(0.7), "blue": PureDP(0.4)}, {"": PureDP(0.1)}, {3: PureDP(0.1)}, {"red": 0.1}):
        yield f"teams of {teams}", refused(partial(Ledger, ":memory:", PureDP(1.0), teams=teams))  # type: ignore[arg-type]
    for place in ("", "a\0b", b"x", 3, None):
        yield f"a ledger at {place!r}", refused(partial(Ledger, place, PureDP(1.0)))  # type: ignore[arg-type]
    parted = Ledger(":memory:", PureDP(1.0))
    parted.reserve({"a": PureDP(0.1), "b": PureDP(0.2)}, **_claim("sum"), partition=parted.partition("p", ["a", "b"]))
    yield (
        "a guarantee for each part",
        json.loads(json.dumps(parted.events()[0].to_dict()))["guarantee"]["b"] == (PureDP(0.2).to_dict()),
    )
    for team in (None, "green"):
        ledger = Ledger(":memory:", PureDP(1.0), teams=_TEAMS, team=team)
        yield f"team {team}", refused(partial(ledger.reserve, PureDP(0.1), **_claim("count")), InvalidParameter)


def _windows() -> Iterator[Compared]:
    """Calendar windows of every month, and lengths that are none."""
    for month in range(1, 13):
        stamp = f"2026-{month:02d}-28T23:59:59.999999+00:00"
        quarter = f"2026-Q{1 + (month - 1) // 3}"
        found = [window_of(length, stamp) for length in (None, "year", "quarter", "month")]
        yield f"windows of month {month}", found == ["", "2026", quarter, f"2026-{month:02d}"]
    for length in ("week", "", 3):
        yield f"a window of {length!r}", refused(partial(Ledger, ":memory:", PureDP(1.0), window=length))  # type: ignore[arg-type]
