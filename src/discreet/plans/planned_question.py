"""Planned question: one release of a plan file, and the line that a refusal of it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discreet.questions import Question

__all__ = ["LIMITS_OF_A_UNIT", "PlannedQuestion", "line_of"]

LIMITS_OF_A_UNIT = ("groups", "rows", "total")


@dataclass(frozen=True, kw_only=True)
class PlannedQuestion:
    """One release of a plan.

    Attributes
    ----------
    name, title
        Its key in the results, and what a reader is shown.
    question, settings
        What is asked, and the settings of the file that say so.
    lines
        Where it begins in the file, under the empty name, and where its settings are.
    look
        Whether it belongs to a first look, after which a run may stop.
    """

    name: str
    title: str
    question: Question[Any]
    settings: Mapping[str, Any]
    lines: Mapping[str, int]
    look: bool = False

    def line(self, failure: Exception) -> int:
        """Line of the setting that a refusal is about; else of the release."""
        return line_of(self.settings, self.lines, failure)


def line_of(settings: Mapping[str, Any], lines: Mapping[str, int], failure: Exception) -> int:
    """Line of the setting that a refusal names, or of the one that holds the refused value; else of the release."""
    named, value = str(getattr(failure, "name", "")).split("[")[0], getattr(failure, "value", None)
    holding = [key for key, given in settings.items() if value is not None and _holds(given, value)]
    keys = [named] if named in holding or not holding else holding
    found = [one for key in keys for one in (LIMITS_OF_A_UNIT if key == "contribution" else (key,))]
    return min((lines[one] for one in found if one in lines), default=lines[""])


def _holds(given: Any, value: Any) -> bool:
    """Whether a setting is the value, or a list with it."""
    return bool(given == value) or (isinstance(given, list) and value in given)
