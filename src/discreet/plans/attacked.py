"""Attacked: the record that `discreet attack` leaves beside a plan, and what a report says of it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from discreet.plans.plan_file import PlanFile

__all__ = ["attack_words", "plan_digest", "record_attack"]


def plan_digest(text: str) -> str:
    """What tells a plan from an edited one."""
    return hashlib.sha256(text.encode()).hexdigest()


def _beside(plan: Path) -> Path:
    return plan.with_suffix(".attack.json")


def record_attack(plan: Path, found: dict[str, Any]) -> Path:
    """Write down what an attack on a plan found, beside the plan; an earlier record is replaced."""
    place = _beside(plan)
    place.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return place


def attack_words(file: PlanFile) -> str | None:
    """The line of a report about the last attack on exactly this plan; None where there was none."""
    try:
        found = json.loads(_beside(file.path).read_text(encoding="utf-8"))
        if found["plan"] != plan_digest(file.text):
            return None
        verdict = "no release exceeded its guarantee" if found["passed"] else "a release EXCEEDED its guarantee"
        return f"This plan was attacked on {found['created'][:10]} on {found['tables']} synthetic data sets: {verdict}."
    except (OSError, ValueError, KeyError, TypeError):
        return None
