"""Ledger explained: how one charge came about, and how spending went over time."""

from __future__ import annotations

import html
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from discreet.core.display import number
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.ledger import Spend, Statement
from discreet.publish.charts import drawing_library
from discreet.publish.ledger_statement import planned_release, statement_html

__all__ = ["explained", "spending_chart", "spending_page"]


def explained(statement: Statement, release: str) -> str:
    """How the charges of a release came about, in words.

    Parameters
    ----------
    statement
        The statement of a ledger.
    release
        The release's name in its plan, its request, or the first digits of its id.

    Examples
    --------
    >>> from discreet import Exact, Laplace, Ledger, PureDP, Sensitivity
    >>> from discreet import release as publish
    >>> ledger = Ledger(":memory:", PureDP(1.0))
    >>> noisy = publish(Exact(10.0, Sensitivity(l1=1.0)), Laplace(4.0), ledger=ledger, request="visits")
    >>> print(explained(ledger.statement(), "visits").splitlines()[2])
      It is protected by laplace, scale 4; one unit moves the value by at most l1 1, l2 1.
    """
    found = [spend for spend in statement.spends if _is(spend, release)]
    if not found:
        raise InvalidParameter("release", release, "is not in this ledger", "See `discreet ledger show` for the names.")
    return "\n\n".join("\n".join(_lines(spend, statement)) for spend in found)


def _is(spend: Spend, release: str) -> bool:
    planned = planned_release(spend.request)
    named = planned is not None and planned[0] == release
    return named or spend.request == release or (len(release) >= 4 and spend.release_id.startswith(release))


def _lines(spend: Spend, statement: Statement) -> list[str]:
    planned = planned_release(spend.request)
    name, period = planned if planned is not None else (spend.request or spend.release_id[:12], None)
    lines = [
        f"{name}{f', {period}' if period else ''}: entry {spend.seq}, {spend.created[:19].replace('T', ' ')} UTC",
        f"  It protects against {spend.protection}.",
        f"  It is protected by {_numbers(spend.mechanism)}; one unit moves the value by at most "
        f"{_numbers(spend.sensitivity)}.",
        f"  This guarantees {_guaranteed(spend.guarantee)}, verified from the mechanism's exact profile.",
        f"  The ledger counts in {statement.accounting}: it charged {spend.charge}; the total was then {spend.spent} "
        f"of {statement.budget}.",
    ]
    if spend.partition is not None:
        parts = "all parts" if spend.parts is None else ", ".join(spend.parts)
        lines.append(
            f"  It reads {parts} of {spend.partition!r}, which are disjoint: only the rise of the largest part's total "
            "is charged."
        )
    if spend.team is not None:
        lines.append(f"  It was spent on the part of the team {spend.team!r}.")
    if spend.plan is not None:
        lines.append(f"  It was released under the approved plan {spend.plan[:16]}….")
    return [*lines, f"  {'Its answer is stored.' if spend.answered else 'It has no stored answer.'}"]


def _guaranteed(guarantee: Guarantee | dict[str, Guarantee]) -> str:
    if isinstance(guarantee, Guarantee):
        return f"{guarantee} ({guarantee.sentence()})"
    return ", ".join(f"{one} in {part!r}" for part, one in guarantee.items())


def _numbers(facts: Mapping[str, Any]) -> str:
    """The name and the numbers of a description; lists are left out."""
    told = [str(facts["name"])] if "name" in facts else []
    return ", ".join(
        told
        + [f"{key} {number(value)}" for key, value in facts.items()
           if isinstance(value, int | float) and not isinstance(value, bool)]
    )  # fmt: skip


def spending_chart(statement: Statement) -> Any:
    """Altair chart of the part of the budget that was spent, over time."""
    alt = drawing_library()
    whole = _largest(statement.budget)
    rows = [
        {"time": spend.created, "spent": 100 * float(_largest(spend.spent) / whole) if whole else 0.0}
        for spend in statement.spends
    ]
    x = alt.X(field="time", type="temporal", title="time (UTC)")
    y = alt.Y(field="spent", type="quantitative", title="% of the budget", scale=alt.Scale(domain=[0, 100]))
    drawn = alt.Chart(alt.InlineData(values=rows)).mark_line(interpolate="step-after", point=True)
    return drawn.encode(x=x, y=y).properties(width=420, height=180, description="Spending over time")


def _largest(guarantee: Guarantee) -> Fraction:
    """The first number of a guarantee: ε, ρ or μ."""
    return Fraction(next(iter(guarantee.parameters().values())))


def spending_page(statement: Statement) -> str:
    """The statement as a page, with its chart; everything escaped."""
    import vl_convert  # heavy, and needed for pages alone

    picture = vl_convert.vegalite_to_svg(spending_chart(statement).to_json()) if statement.spends else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(statement.heading())}</title>"
        "<style>:root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:60rem;margin:1rem auto;"
        "padding:0 1rem;overflow-wrap:break-word}table{border-collapse:collapse;display:block;overflow-x:auto}"
        "td,th{text-align:left;padding:.25rem .8rem .25rem 0;vertical-align:top}"
        "svg{max-width:100%;height:auto;background:#fff}</style></head><body>"
        f"{statement_html(statement)}<figure>{picture}</figure></body></html>"
    )
