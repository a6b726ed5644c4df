"""Terminal: print text that holds nothing a terminal would obey."""

from __future__ import annotations

import sys
from json import dumps
from typing import Any, TextIO

from discreet.display import printable

__all__ = ["progress_line", "say", "tell"]


def say(text: object, file: TextIO | None = None) -> None:
    """Print at once."""
    print(printable(str(text)), file=file or sys.stdout, flush=True)


def tell(found: Any, json: bool) -> None:
    """Print a result for people, or for programs."""
    say(dumps(found.to_dict(), indent=1, ensure_ascii=False) if json else found)


def progress_line(verb: str) -> Any:
    """A progress line on a terminal; plain lines elsewhere."""
    live = sys.stderr.isatty()

    def shown(step: Any) -> None:
        name = getattr(step, "name", None) or getattr(step, "part", "")
        known = "" if getattr(step, "fresh", True) else " (from the ledger)"
        left = getattr(step, "left", None)
        rest = "" if not left else f", about {_duration(left)} left"
        text = f"[{step.done}/{step.total}] {verb} {name}{known}{rest}"
        end = "\n" if not live or step.done == step.total else ""
        print(f"\r\x1b[K{printable(text)}" if live else printable(text), end=end, file=sys.stderr, flush=True)

    return shown


def _duration(seconds: float) -> str:
    for most, unit, size in ((100, "s", 1), (6000, "min", 60)):
        if seconds < most:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 3600:.1f} h"
