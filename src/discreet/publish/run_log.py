"""Run log: what a scheduled run did, one line of JSON per event, appended to a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from json import dumps
from pathlib import Path
from typing import Any

from discreet.core.errors import DiscreetError
from discreet.core.regular_file import reason

__all__ = ["RunLog", "logged"]


class RunLog:
    """Appends events to a file; to nothing where there is none. Events hold names and costs, never a value.

    Examples
    --------
    >>> RunLog(None, "survey.toml").write("released", name="ages")
    """

    def __init__(self, path: Path | None, plan: str) -> None:
        self._path, self._plan = path, plan

    def write(self, event: str, **facts: Any) -> None:
        """Append one event; lines of two runs never mix."""
        if self._path is None:
            return
        told = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "plan": self._plan, "event": event, **facts}
        try:
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                os.write(handle, f"{dumps(told, ensure_ascii=False)}\n".encode())
            finally:
                os.close(handle)
        except OSError as failure:
            raise DiscreetError(f"log = {str(self._path)!r}: cannot be written: {reason(failure)}") from None

    def following(self, shown: Callable[[Any], None] | None) -> Callable[[Any], None]:
        """What notes each release of a run, and then shows it."""

        def note(step: Any) -> None:
            self.write("released" if step.fresh else "repeated", name=step.name)
            if shown is not None:
                shown(step)

        return note

    def end(self, done: Any) -> None:
        """Note the end of a run."""
        told = done.to_dict()
        self.write("done", **{name: told[name] for name in ("drawn", "reused", "spent", "remaining") if name in told})


@contextmanager
def logged(path: Path | None, plan: str, status: Callable[[DiscreetError], int]) -> Iterator[RunLog]:
    """A log of one run; a refusal is noted with its exit status, and raised again."""
    log = RunLog(path, plan)
    log.write("started")  # a log that cannot be written is refused before anything is spent
    try:
        yield log
    except DiscreetError as refusal:
        log.write("refused", status=status(refusal), why=str(refusal))
        raise
