"""Source state: whether a file changed since a release was made of it. A run does not say it: it is a fact about rows.

The record lies beside the ledger, on the machine that has the data anyway, and is in no report and no bundle. It holds
a keyed hash of the file's size, time and ends; never a value.
"""

from __future__ import annotations

import hmac
import json
import os
from contextlib import suppress
from pathlib import Path

from discreet.ledgers import Ledger
from discreet.plans.plan_file import PlanFile
from discreet.publish.whole_file import write_whole

__all__ = ["SourceState"]

_END = 1_000_000


class SourceState:
    """What the source of a plan looked like when its releases were made.

    Parameters
    ----------
    file, ledger
        The plan and its open ledger.
    """

    def __init__(self, file: PlanFile, ledger: Ledger) -> None:
        self._period = file.period or ""
        self._record = Path(file.ledger).with_name(f"{Path(file.ledger).name}-sources")
        if "://" in file.ledger:  # a ledger on a server has no place beside it: the record is beside the plan
            self._record = file.path.with_suffix(".sources")
        self._plan = file.path.name
        self._plans = self._recorded()
        self._seen = self._plans.get(self._plan, {})
        self._now = _keyed(file.open_options()["source"], ledger.salt)

    def words(self) -> list[str]:
        """Whether the source is the one of earlier releases: a fact about its rows, for its owner alone."""
        if self._now is None or not self._seen:
            return []
        before = self._seen.get(self._period)
        if before is not None:
            return [
                "The source is the one that the releases were made of."
                if before == self._now
                else "The source changed after these answers were released; they describe it as it was."
            ]
        same = [period for period, state in self._seen.items() if state == self._now]
        return [f"The source is the one of {max(same)}: nothing in it changed since then."] if same else []

    def remember(self, drawn: int) -> None:
        """Note the source of new releases. A record that cannot be written is done without."""
        if self._now is None or not drawn:
            return
        plans = self._plans | {self._plan: self._seen | {self._period: self._now}}
        with suppress(OSError):
            write_whole(self._record, json.dumps(plans, indent=1))

    def _recorded(self) -> dict[str, dict[str, str]]:
        try:
            found = json.loads(self._record.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


def _keyed(source: str, salt: bytes) -> str | None:
    """A keyed hash of a file's size, time and both ends; None where the source is no single file."""
    try:
        told = os.stat(source)
        with open(source, "rb") as file:
            first = file.read(_END)
            file.seek(max(0, told.st_size - _END))
            ends = first + file.read(_END)
    except (OSError, ValueError):
        return None
    return hmac.new(salt, f"{told.st_size} {told.st_mtime_ns} ".encode() + ends, "sha256").hexdigest()
