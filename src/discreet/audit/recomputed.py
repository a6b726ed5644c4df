"""Recomputed: what an audit finds that compares the package with a second, slower computation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from discreet.audit.pipeline import Refusal
from discreet.core.errors import DiscreetError
from discreet.display import Facts
from discreet.result import Result

__all__ = ["Compared", "Recomputed", "missing_package", "recomputed", "refused"]

Compared = tuple[str, bool]
"""What was compared, and whether both computations agree."""


@dataclass(frozen=True)
class Recomputed(Result):
    """How many results were computed twice, where the two differ, and what could not run without a package."""

    title: str
    checks: int
    findings: tuple[str, ...]
    skipped: tuple[str, ...] = ()

    def heading(self) -> str:
        return self.title

    @property
    def passed(self) -> bool:
        """Whether both computations always agree."""
        return not self.findings

    def facts(self) -> Facts:
        """What to show."""
        return [("checks", f"{self.checks:,}"), ("findings", "none" if self.passed else "; ".join(self.findings[:3]))]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        told = {"checks": self.checks, "findings": list(self.findings), "passed": self.passed}
        return told | ({"skipped": list(self.skipped)} if self.skipped else {})


def recomputed(title: str, parts: Iterable[Callable[[], Iterator[Compared]]]) -> Recomputed:
    """Run comparisons; one that refuses or fails is a finding by its name."""
    checks, findings, skipped = 0, dict[str, None](), dict[str, None]()
    for part in parts:
        try:
            for name, same in part():
                checks += 1
                if not same:
                    findings[name] = None
        except Exception as error:
            package = missing_package(error)
            if package is None:
                findings[f"{getattr(part, '__name__', title)}: {Refusal.of(error)}"] = None
            else:
                skipped[package] = None
    return Recomputed(title, checks, tuple(findings), tuple(skipped))


def missing_package(error: Exception) -> str | None:
    """The package without which something cannot run here; None for every other error."""
    if not isinstance(error, ImportError) or (error.name or "").startswith("discreet"):
        return None
    return error.name or str(error)


def refused(call: Callable[[], Any], kind: type[Exception] = DiscreetError) -> bool:
    """Whether a call ends in words that say what is wrong."""
    try:
        call()
    except kind:
        return True
    return False
