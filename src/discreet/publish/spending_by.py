"""Spending by release, period or team: the charges of a ledger, added up."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from discreet.core.errors import InvalidParameter, spelling
from discreet.core.guarantee import Guarantee
from discreet.display import as_text
from discreet.ledgers import Spend, Statement
from discreet.mechanisms.composition import compose
from discreet.publish.ledger_statement import planned_release

__all__ = ["Key", "SpendingRow", "grouped_text", "spending_by"]

Key = Literal["release", "period", "team"]
_UNNAMED = {"release": "(unnamed)", "period": "(no period)", "team": "(no team)"}


@dataclass(frozen=True, kw_only=True)
class SpendingRow:
    """What was charged to one release, period or team.

    Attributes
    ----------
    name, releases
        Of what, and how many releases it had.
    charge
        What they added to the total together, in the ledger's currency.
    first, last
        When the first and the last of them was reserved (UTC).
    """

    name: str
    releases: int
    charge: Guarantee
    first: str
    last: str

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready data."""
        return asdict(self) | {"charge": self.charge.to_dict()}


def spending_by(statement: Statement, key: Key) -> list[SpendingRow]:
    """The charges of a statement, added up by release name, period or team.

    Examples
    --------
    >>> from discreet import Exact, Laplace, Ledger, PureDP, Sensitivity, release
    >>> ledger = Ledger(":memory:", PureDP(1.0))
    >>> for period in ("2026-01", "2026-02"):
    ...     value = Exact(10.0, Sensitivity(l1=1.0))
    ...     noisy = release(value, Laplace(4.0), ledger=ledger, request=f"plan:0:{period}:1:visits")
    >>> [(row.name, row.releases, row.charge.epsilon) for row in spending_by(ledger.statement(), "release")]
    [('visits', 2, 0.5)]
    >>> [row.name for row in spending_by(ledger.statement(), "period")]
    ['2026-01', '2026-02']
    """
    if key not in _UNNAMED:
        raise InvalidParameter("by", key, "is not what spending adds up by", spelling(key, _UNNAMED))
    groups: dict[str, list[Spend]] = {}
    for spend in statement.spends:
        groups.setdefault(_named(spend, key) or _UNNAMED[key], []).append(spend)
    return [
        SpendingRow(
            name=name,
            releases=len(spends),
            charge=compose(*(spend.charge for spend in spends)),
            first=spends[0].created[:19],
            last=spends[-1].created[:19],
        )
        for name, spends in groups.items()
    ]


def _named(spend: Spend, key: Key) -> str | None:
    if key == "team":
        return spend.team
    planned = planned_release(spend.request)
    if planned is None:
        return spend.request if key == "release" else None
    return planned[0] if key == "release" else planned[1]


def grouped_text(statement: Statement, key: Key) -> str:
    """The statement as text, with one line per release, period or team."""
    rows = spending_by(statement, key)
    width = max((len(row.name) for row in rows), default=0)
    lines = [
        f"  {row.name:<{width}}  {row.releases:>4} release{' ' if row.releases == 1 else 's'}  {row.charge}  "
        f"{row.charge.sentence()}"
        for row in rows
    ]
    return "\n".join([as_text(statement.heading(), statement.facts()), f"By {key}:", *lines])
