"""Approved ledger: an account, with the approvals that people sign in its entries."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from discreet.core.errors import LedgerUnavailable
from discreet.core.ledger import claim
from discreet.core.ledger.account import Account, Decision
from discreet.core.ledger.approval import Approvals, Sign, digest_of, signed_text
from discreet.core.ledger.balance import Balance
from discreet.core.ledger.journal import canonical

__all__ = ["ApprovedLedger"]


class ApprovedLedger(Account):
    """An account in which plans are approved, and under one of which the next releases are made."""

    def approve(self, meaning: Mapping[str, Any], *, by: str, sign: Sign) -> str:
        """Record that somebody approves a plan; returns the plan's digest.

        Parameters
        ----------
        meaning
            What the plan means, made of JSON values. ``releases`` says how often each release may be made, by the
            fingerprint of its claim; ``renew`` is a guarantee that is added to the budget.
        by, sign
            Who approves, and what makes their Ed25519 signature.
        """
        digest = digest_of(meaning)
        self._state({"plan": digest, "meaning": dict(meaning), "by": claim.text("by", by), "approves": True}, sign)
        return digest

    def withdraw(self, plan: str, *, by: str, sign: Sign) -> None:
        """Record that somebody no longer approves a plan. Releases that were made remain made."""
        self._state({"plan": plan, "meaning": None, "by": claim.text("by", by), "approves": False}, sign)

    def _state(self, said: dict[str, Any], sign: Sign) -> None:
        """Sign outside of the step, since ``sign`` may take its time, fork or use the ledger; again if others wrote."""
        deadline = time.monotonic() + self._journal.timeout
        while True:
            head = self._look().head
            content = said | {"signature": sign(signed_text(head, said)).hex(), "created": claim.now()}
            if self._step(partial(_stated, head, content)) is not None:
                return
            if time.monotonic() > deadline:
                raise LedgerUnavailable(
                    f"the ledger {self.path} cannot be used: others wrote whenever this was signed. Try "
                    "again. Nothing was approved or withdrawn."
                )

    def under(self, plan: str) -> None:
        """Make the next releases of this object under an approved plan, by its digest."""
        self._plan = claim.text("plan", plan)

    def check_allowed(self, claimed: str) -> None:
        """Refuse a claim, by its identity, that the plan of this object does not allow, or not once more."""
        self._look().consent.check(self._plan, claimed)

    def approving(self, plan: str) -> tuple[str, ...]:
        """Who approves a plan now."""
        return tuple(sorted(self._look().consent.approving.get(plan, ())))

    def agreed(self, plan: str) -> bool:
        """Whether enough people approve a plan; always where the ledger has no rule."""
        return self._look().consent.agreed(plan)

    def approved(self) -> tuple[Mapping[str, Any], ...]:
        """What was ever approved, oldest first."""
        return tuple(self._look().consent.meanings.values())

    @property
    def approvals(self) -> Approvals | None:
        """Who must approve; None where nobody has to."""
        return self._look().consent.rule


def _stated(head: str, content: dict[str, Any], balance: Balance) -> Decision:
    """The entry of a statement; nothing where the head is no longer the one that was signed."""
    if balance.head != head:
        return None
    balance.consent.check_statement(head, content)
    return "approval", canonical("meaning", content)
