"""Bundled ledger: the entries of a ledger as a bundle holds them, followed and added up like the ledger's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from discreet.core.errors import LedgerCorrupted
from discreet.core.guarantee import Guarantee
from discreet.core.ledger.approval import Approvals
from discreet.core.ledger.balance import Balance
from discreet.core.ledger.claim import fingerprint
from discreet.core.ledger.journal import Entry, sealed
from discreet.publish.ledger_statement import planned_release

__all__ = ["BundledLedger"]

_WHERE = "the bundle's ledger"


@dataclass(frozen=True, kw_only=True)
class BundledLedger:
    """What a bundle's ledger adds up to, and its state at the head that the report prints.

    Attributes
    ----------
    budget, head
        What a report says of it.
    entries, heads, opening
        How many entries there are, the hash of each, and what the first one fixes.
    """

    budget: Guarantee
    head: str
    entries: int
    heads: frozenset[str]
    opening: Mapping[str, Any]
    _balance: Balance
    _spent: Guarantee
    _left: Guarantee
    _spends: Mapping[int, Mapping[str, Any]]
    _answers: Mapping[int, Any]

    @staticmethod
    def read(records: Sequence[Mapping[str, Any]], head: str) -> BundledLedger:
        """Follow the entries; refuse a broken chain, an overspent budget, a forged approval or an unknown head."""
        balance, heads = Balance(_WHERE), []
        spends: dict[int, Mapping[str, Any]] = {}
        answers: dict[int, Any] = {}
        state = None
        for record in records:
            if "body" in record:
                entry = Entry(record["seq"], record["kind"], record["body"], record["hash"])
                balance.apply(entry)
                if entry.kind == "spend":
                    spends[entry.seq] = entry.content
                elif entry.kind == "answer":
                    answers[entry.content["spend"]] = entry.content["answer"]
            else:
                _follow_sealed(balance, record)
            heads.append(balance.head)
            if balance.head == head:
                counted = balance.accounting
                state = counted.at_least(balance.spent), counted.at_most(balance.left())
        if state is None:
            raise LedgerCorrupted(f"{_WHERE}: the head that the report prints is none of its heads.")
        return BundledLedger(
            budget=balance.accounting.budget,
            head=head,
            entries=balance.seq,
            heads=frozenset(heads),
            opening=balance.opening,
            _balance=balance,
            _spent=state[0],
            _left=state[1],
            _spends=spends,
            _answers=answers,
        )

    def spent(self) -> Guarantee:
        """What was spent when the report was made."""
        return self._spent

    def remaining(self) -> Guarantee:
        """What was left when the report was made."""
        return self._left

    @property
    def rule(self) -> Approvals | None:
        """Who must approve a plan, and their keys."""
        return self._balance.consent.rule

    def approving(self, plan: str) -> frozenset[str]:
        """Who approves a plan at the end of the ledger."""
        return frozenset(self._balance.consent.approving.get(plan, ()))

    def spend(self, name: str, period: str | None, identity: str) -> Mapping[str, Any] | None:
        """The last payment for a release of that name, in that period, with exactly that claim."""
        spends = reversed(list(self._spends.values()))
        made = (one for one in spends if planned_release(one["request"]) == (name, period))
        return next((one for one in made if fingerprint(dict(one)) == identity), None)

    def answers_in(self, partition: str) -> list[Any]:
        """The stored answers of a sequence, in the order of their payments."""
        made = [seq for seq, content in self._spends.items() if content["partition"] == partition]
        return [self._answers[seq] for seq in made if seq in self._answers]

    def answer(self, spend: Mapping[str, Any]) -> Any:
        """The stored answer of a payment; None where there is none, or the bundle keeps it back."""
        seq = next(seq for seq, content in self._spends.items() if content is spend)
        return self._answers.get(seq)


def _follow_sealed(balance: Balance, record: Mapping[str, Any]) -> None:
    """Follow an entry whose body is kept back: the answer of another plan."""
    seq, kind = record["seq"], record["kind"]
    if kind != "answer" or seq != balance.seq + 1:
        raise LedgerCorrupted(f"{_WHERE}, entry {seq}: only answers of other plans may be kept back.")
    if record["hash"] != sealed(balance.head, seq, kind, record["digest"]):
        raise LedgerCorrupted(f"{_WHERE}, entry {seq}: its hash does not fit the entries before it.")
    balance.seq, balance.head = seq, record["hash"]
