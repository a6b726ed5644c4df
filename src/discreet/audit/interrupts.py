"""Interrupt audit: Ctrl-C at any instruction of a spend leaves a ledger that goes on counting.

A signal may stop Python between any two instructions. The audit raises `KeyboardInterrupt` at instructions spread over
a whole spend, keeps every traceback as a notebook does, and then spends again: from the same ledger, and from another
object on the same file, which must not wait for a lock that nobody gives back.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from types import FrameType
from typing import Any

import discreet.core.ledger as account_package
import discreet.ledgers as ledger_package
from discreet.audit.collection import no_collection
from discreet.core.errors import LedgerError
from discreet.core.guarantee import PureDP
from discreet.core.protection import Protection
from discreet.display import Facts
from discreet.ledgers import Ledger
from discreet.result import Result

__all__ = ["InterruptAudit", "audit_interrupts", "interrupted"]

_CODE = (os.path.dirname(account_package.__file__), os.path.dirname(ledger_package.__file__))
_SPEND: dict[str, Any] = {"question": "count", "mechanism": {}, "sensitivity": {}, "protection": Protection()}


@dataclass(frozen=True)
class InterruptAudit(Result):
    """What interrupts did to a ledger.

    Attributes
    ----------
    interrupts
        Spends that were interrupted.
    reserved, counted
        Spends that were told to have succeeded, and those in the ledger. An interrupted spend may be counted.
    failure
        What the ledger said where it did not go on.
    """

    interrupts: int
    reserved: int
    counted: int
    failure: str | None

    @property
    def passed(self) -> bool:
        """Whether the ledger went on, and counted every spend that was told to have succeeded."""
        return self.failure is None and self.reserved <= self.counted <= self.reserved + self.interrupts

    def heading(self) -> str:
        return "Interrupt audit"

    def facts(self) -> Facts:
        """What to show."""
        return [
            ("interrupts", f"{self.interrupts:,}"),
            ("spends", f"{self.reserved:,} told, {self.counted:,} counted"),
            ("verdict", "goes on" if self.passed else f"BROKEN: {self.failure or 'miscounted'}"),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {**asdict(self), "passed": self.passed}


def audit_interrupts(interrupts: int = 40) -> InterruptAudit:
    """Interrupt spends from a ledger in a file, each at another instruction.

    Examples
    --------
    >>> audit_interrupts(10).passed
    True
    """
    reserved, kept, failure = 0, [], None
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/audit.ledger"
        with Ledger(path, PureDP(1000.0)) as ledger, Ledger(path, timeout=5.0) as other:
            total, _ = interrupted(lambda: _spend(ledger), None)
            reserved += 1
            try:
                for place in range(interrupts):
                    stopped = interrupted(lambda: _spend(ledger), 1 + place * total // interrupts)[1]
                    kept.append(stopped)
                    _spend(other)
                    _spend(ledger)
                    reserved += 2 + (stopped is None)
            except LedgerError as error:
                failure = str(error)
            counted = ledger.verify().spends if failure is None else 0
    return InterruptAudit(sum(stopped is not None for stopped in kept), reserved, counted, failure)


def _spend(ledger: Ledger) -> None:
    ledger.reserve(PureDP(0.001), **_SPEND)


def _ctrl_c() -> None:
    raise KeyboardInterrupt


class _Interrupt:
    """Counts instructions of the ledger's code and does something at one of them, as a signal handler would."""

    def __init__(self, at: int | None, handler: Callable[[], object]) -> None:
        self.at, self.handler, self.count = at, handler, 0

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Follow the ledger's code only."""
        if not frame.f_code.co_filename.startswith(_CODE):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.count += 1
            if self.count == self.at:
                self.handler()
        return self.trace


def interrupted(
    call: Callable[[], object], at: int | None, handler: Callable[[], object] = _ctrl_c
) -> tuple[int, BaseException | None]:
    """How many instructions of the ledger's code a call takes, and the interrupt that hit it at one of them.

    ``handler`` runs there: Ctrl-C by default, or what another signal's handler would do.
    """
    interrupt, before = _Interrupt(at, handler), sys.gettrace()
    with no_collection():
        sys.settrace(interrupt.trace)
        try:
            call()
        except KeyboardInterrupt as stopped:
            return interrupt.count, stopped
        finally:
            sys.settrace(before)
    return interrupt.count, None
