"""Hostile audit: whatever is passed, a function refuses it in words or answers with finite numbers.

Every argument of a call is replaced, one at a time, by values that break careless code. A refusal must be one of
`discreet.core.errors`; an answer must hold no NaN. Anything else is a finding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from discreet.core.errors import DiscreetError
from discreet.display import Facts
from discreet.result import Result

__all__ = ["HOSTILE", "HostileAudit", "audit_hostile"]

HOSTILE: tuple[Any, ...] = (
    math.nan, math.inf, -math.inf, -1, -1.5, 0, 10**400, 1e308, 5e-324, True, None, "", "text", b"bytes", 1j,
    (), [], [math.nan], [math.inf, 1.0], [1.0, "a"], [[1.0], [2.0, 3.0]], {}, set(), object(), float, len,
    np.array([]), np.array(math.nan), np.array([1.0, math.nan, 2.0]), np.array(["a", None], dtype=object),
    np.array([10**400], dtype=object), np.zeros((2, 0)), np.datetime64("2020-01-01"),
)  # fmt: skip
"""Values that break careless code."""


@dataclass(frozen=True)
class HostileAudit(Result):
    """What hostile arguments did.

    Attributes
    ----------
    calls, refused
        Calls made, and how many of them were refused in words.
    findings
        Calls that crashed, or answered with NaN.
    """

    calls: int
    refused: int
    findings: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether there is no finding."""
        return not self.findings

    def facts(self) -> Facts:
        """What to show."""
        return [
            ("calls", f"{self.calls:,}, of which {self.refused:,} were refused in words"),
            ("findings", "none" if self.passed else f"{len(self.findings)}: " + "; ".join(self.findings[:3])),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {"calls": self.calls, "refused": self.refused, "findings": list(self.findings), "passed": self.passed}

    def heading(self) -> str:
        return "Hostile audit"


def audit_hostile(
    calls: Mapping[str, tuple[Callable[..., Any], Mapping[str, Any]]], values: Sequence[Any] = HOSTILE
) -> HostileAudit:
    """Call functions with each of their arguments replaced by each hostile value.

    Parameters
    ----------
    calls
        By name: a function and arguments with which it works.
    values
        What to pass instead.

    Examples
    --------
    >>> from discreet import Laplace
    >>> audit_hostile({"Laplace": (Laplace, {"scale": 1.0})}).passed
    True
    """
    made, refused, findings = 0, 0, []
    for name, (function, arguments) in calls.items():
        works = _outcome(function, arguments)
        if works != _ANSWERED:
            findings.append(f"{name} as it is meant: {works}")
        for argument in arguments:
            for value in values:
                made += 1
                outcome = _outcome(function, {**arguments, argument: value})
                refused += outcome == _REFUSED
                if outcome not in (_REFUSED, _ANSWERED):
                    findings.append(f"{name}({argument}={_shown(value)}): {outcome}")
    return HostileAudit(made, refused, tuple(findings))


_REFUSED, _ANSWERED = "refused", "answered"


def _outcome(function: Callable[..., Any], arguments: Mapping[str, Any]) -> str:
    try:
        result = function(**arguments)
    except DiscreetError:
        return _REFUSED
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:60]}"
    return "NaN out" if _has_nan(result, 0) else _ANSWERED


def _has_nan(result: Any, depth: int) -> bool:
    if isinstance(result, float | np.ndarray | np.generic | list | tuple):
        try:
            return bool(np.isnan(np.asarray(result, dtype=float)).any())
        except (TypeError, ValueError, OverflowError):
            return False
    if is_dataclass(result) and depth < 2:
        return any(_has_nan(getattr(result, field.name, None), depth + 1) for field in fields(result))
    return False


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 24 else f"{text[:23]}…"
