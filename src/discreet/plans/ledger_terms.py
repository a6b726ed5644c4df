"""Ledger terms: what a plan file says about its ledger, besides the budget."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from discreet.core.errors import LedgerMissing, PlanFileError
from discreet.core.guarantee import Guarantee
from discreet.ledgers import Approvals, Ledger
from discreet.ledgers.terms import check_window
from discreet.questions.spending import KINDS

__all__ = ["LedgerTerms", "begun"]

_TEXTS = ("path", "dataset", "anchor", "window", "team")


@dataclass(frozen=True, kw_only=True)
class LedgerTerms:
    """The settings of ``[ledger]``.

    Attributes
    ----------
    path, dataset, anchor
        Where the ledger is, what it calls the data, and the file to which heads are copied.
    approvals
        Who must approve the plan.
    window, teams, team
        In which windows the budget is spent anew, how it is divided, and on whose part this plan spends.
    """

    path: str | None = None
    dataset: str | None = None
    anchor: str | None = None
    approvals: Approvals | None = None
    window: str | None = None
    teams: Mapping[str, Guarantee] | None = None
    team: str | None = None

    def place(self, here: Path, source: Mapping[str, Any]) -> str:
        """Where the ledger is: as the plan says, seen from its directory, or beside the data."""
        address = self.path or _named_after(source)
        return address if "://" in address else str(here / address)

    @staticmethod
    def read(table: Any) -> LedgerTerms:
        """Read and check the table; refusals name the setting."""
        if not isinstance(table, dict):
            raise PlanFileError("ledger must be a table. Write [ledger] and its settings below.")
        for key in table:
            if key not in (*_TEXTS, "approvals", "teams"):
                raise PlanFileError(
                    f"{key!r} is not a setting here. Known are {', '.join((*_TEXTS, 'approvals', 'teams'))}."
                )
        texts = {key: _text(key, table[key]) for key in _TEXTS if key in table}
        check_window(texts.get("window"))
        approvals, teams = table.get("approvals"), table.get("teams")
        return LedgerTerms(
            **texts,
            approvals=None if approvals is None else _approvals(approvals),
            teams=None if teams is None else {name: _guarantee(name, part) for name, part in _tables(teams).items()},
        )


def begun(address: str) -> bool:
    """Whether there is a ledger; one whose creation was cut short has no entry yet."""
    try:
        Ledger(address, read_only=True).close()
    except LedgerMissing:
        return False
    return True


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise PlanFileError(f"{key} = {value!r} must be text.")
    return value


def _tables(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        raise PlanFileError("teams must be tables. Write [ledger.teams.health] and epsilon = 0.5 below, for example.")
    return value


def _approvals(table: Any) -> Approvals:
    if not isinstance(table, dict) or set(table) != {"need", "keys"}:
        raise PlanFileError(
            "approvals needs need = 2, for example, and a key for each name, in [ledger.approvals.keys]."
        )
    return Approvals(table["need"], table["keys"])


def _guarantee(name: str, table: Any) -> Guarantee:
    kind = KINDS.get(frozenset(table)) if isinstance(table, dict) else None
    if kind is None:
        raise PlanFileError(f"teams.{name}: give epsilon, epsilon and delta, rho, or mu.")
    part: Guarantee = kind(**table)
    return part


def _named_after(source: Mapping[str, Any]) -> str:
    """Where the ledger of a source is by default: beside the data, under its name, whatever the plan is called."""
    address = source.get("address") or source["path"]
    if "://" in address:  # a connection has no place beside it: the ledger is beside the plan
        return f"{_plain_name(source.get('table') or urlsplit(address).path) or 'data'}.ledger"
    return str(Path(address).with_name(f"{_plain_name(address) or 'data'}.ledger"))


def _plain_name(place: str) -> str:
    """The last part of a path, without its endings and what patterns are made of."""
    return re.sub(r"[*?\[\]{}\s]+", "", Path(place).name.partition(".")[0])
