"""Statement of account: what a ledger was spent on, release by release, as text."""

from __future__ import annotations

from textwrap import wrap

from discreet.display import as_text
from discreet.ledgers import Spend, Statement

__all__ = ["planned_release", "statement_text", "told_of"]

_WIDTH, _INDENT = 80, " " * 7


def planned_release(request: str | None) -> tuple[str, str | None] | None:
    """Name and period of a release, from its request; None where no plan made it: sessions may use any text.

    Examples
    --------
    >>> planned_release("plan:0123456789abcdef:2026-11:1:mean age")
    ('mean age', '2026-11')
    """
    parts = (request or "").split(":", 4)
    return (parts[4], parts[2] or None) if len(parts) == 5 and parts[0] == "plan" else None


def statement_text(statement: Statement) -> str:
    """The statement as text: each release with its name and its guarantee in words.

    Examples
    --------
    >>> from discreet import Ledger, PureDP
    >>> print(statement_text(Ledger(":memory:", PureDP(1.0)).statement()).splitlines()[1])
      budget      PureDP(ε=1)
    """
    lines = [as_text(statement.heading(), statement.facts())]
    for one in statement.spends:
        seq, created, name, title, partition, charge, words = told_of(one, statement)
        lines.append(f"{seq:>5}  {created}  {name or '(unnamed)'}: {title}{f' in {partition}' if partition else ''}")
        lines += wrap(f"{charge}: {words}", _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)
    return "\n".join(lines)


def told_of(spend: Spend, statement: Statement) -> tuple[str, ...]:
    """What is told of a release: entry, time, name, question, partition, charge, and the charge in words."""
    unit = "unit" if statement.unit is None else str(statement.unit)
    return (
        str(spend.seq),
        spend.created[:19].replace("T", " "),
        _name(spend.request),
        spend.title,
        spend.partition or "",
        str(spend.charge),
        spend.charge.sentence().replace("one unit's", f"one {unit}'s"),
    )


def _name(request: str | None) -> str:
    """The release's name, and its period where it has one."""
    planned = planned_release(request)
    if planned is None:
        return request or ""
    name, period = planned
    return name if period is None else f"{name}, {period}"
