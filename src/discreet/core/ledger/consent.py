"""Consent: which plans were approved in a ledger, by whom, and how often their releases may still be made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from discreet.core.errors import InvalidParameter, NotApproved
from discreet.core.ledger.approval import Approvals, digest_of

__all__ = ["Consent"]


class Consent:
    """The approvals of a ledger, added up. Without a rule everything is allowed."""

    def __init__(self, rule: Approvals | None) -> None:
        self.rule = rule
        self.meanings: dict[str, Mapping[str, Any]] = {}
        self.approving: dict[str, set[str]] = {}
        """By digest of a plan: what it means, and who approves it."""
        self.made: Counter[tuple[str, str]] = Counter()

    def check_statement(self, head: str, content: Mapping[str, Any]) -> None:
        """Refuse an approval or a withdrawal that nobody of the rule signed, or that is about no plan."""
        if self.rule is None:
            raise InvalidParameter(
                "approvals", None, "this ledger was opened without a rule", "Open a ledger with approvals=Approvals(…)."
            )
        self.rule.check(head, content)
        plan, meaning = content["plan"], content["meaning"]
        if meaning is not None and digest_of(meaning) != plan:
            raise InvalidParameter("plan", plan, "is not the digest of its meaning", "Approve the plan again.")
        if meaning is None and plan not in self.meanings:
            raise InvalidParameter("plan", plan, "was never approved", "Nothing has to be withdrawn.")

    def state(self, head: str, content: Mapping[str, Any]) -> None:
        """Count an approval or its withdrawal."""
        self.check_statement(head, content)
        plan = content["plan"]
        self.meanings.setdefault(plan, content["meaning"])
        agreed = self.approving.setdefault(plan, set())
        (agreed.add if content["approves"] else agreed.discard)(content["by"])

    def agreed(self, plan: str) -> bool:
        """Whether enough people approve a plan now."""
        return self.rule is None or len(self.approving.get(plan, ())) >= self.rule.need

    def check(self, plan: str | None, fingerprint: str) -> None:
        """Refuse a release that is not in an approved plan, or was made as often as the plan says."""
        if self.rule is None:
            return
        if plan is None or not self.agreed(plan):
            missing = self.rule.need - len(self.approving.get(plan or "", ()))
            raise NotApproved(
                f"this ledger pays for approved plans only; {missing} more of {sorted(self.rule.keys)} must approve "
                "this one. Run `discreet review` and `discreet approve`. Nothing was spent."
            )
        times = self.meanings[plan].get("releases", {}).get(fingerprint, 0)
        if self.made[plan, fingerprint] >= times:
            raise NotApproved(
                f"the approved plan allows this release {times} times, and it was made as often. Raise times in the "
                "plan and have it approved again. Nothing was spent."
            )

    def make(self, plan: str, fingerprint: str) -> None:
        """Count a release."""
        self.made[plan, fingerprint] += 1
