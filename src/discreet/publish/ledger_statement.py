"""Statement of account: what a ledger was spent on, release by release, as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from textwrap import wrap
from typing import Any, Literal

from discreet.core.errors import InvalidParameter, spelling
from discreet.core.guarantee import Guarantee
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.composition import compose
from discreet.results.charts import drawing, drawing_library, environment, offline
from discreet.results.display import as_text
from discreet.results.ledger import Spend, Statement
from discreet.results.wording import mechanism_words

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
      budget      ε = 1
    """
    lines = [as_text(statement.heading(), statement.facts())]
    for one in statement.spends:
        seq, created, name, title, partition, charge, words = told_of(one, statement)
        lines.append(f"{seq:>5}  {created}  {name or '(unnamed)'}: {title}{f' in {partition}' if partition else ''}")
        lines += wrap(f"{charge}: {words}", _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)
    return "\n".join(lines)


def told_of(spend: Spend, statement: Statement) -> tuple[str, ...]:
    """The cells of a release's line: entry, time, name, question, partition, charge, and the charge in words."""
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


# ---- Ledger explained: how one charge came about


def explained(statement: Statement, release: str) -> str:
    """The origin of a release's charges, in words.

    Parameters
    ----------
    statement
        The statement of a ledger.
    release
        The release's name in its plan, its request, or the first digits of its id.

    Examples
    --------
    >>> from discreet import Ledger, PureDP
    >>> from discreet.core.sensitivity import Exact, Sensitivity
    >>> from discreet.mechanisms import Laplace
    >>> from discreet import release as publish
    >>> ledger = Ledger(":memory:", PureDP(1.0))
    >>> noisy = publish(Exact(10.0, Sensitivity(l1=1.0)), Laplace(4.0), ledger=ledger, name="visits")
    >>> print(explained(ledger.statement(), "visits").splitlines()[2])
      It is protected by Laplace, scale 4; one unit's data moves it by at most 1.
    """
    found = [spend for spend in statement.spends if _is(spend, release)]
    if not found:
        raise InvalidParameter("release", release, "is not in this ledger", "See `discreet ledger show` for the names.")
    return "\n\n".join("\n".join(_wrapped(_lines(spend, statement))) for spend in found)


def _wrapped(lines: Sequence[str]) -> list[str]:
    """Lines of at most 80 columns; what follows is indented further."""
    return [piece for line in lines for piece in wrap(line, 80, subsequent_indent="    ", break_long_words=False)]


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
        f"  It is protected by {_protected(spend)}.",
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


def _protected(spend: Spend) -> str:
    moved = Sensitivity.from_dict(dict(spend.sensitivity)) if spend.sensitivity else None
    return mechanism_words({"mechanism": spend.mechanism, "sensitivity": moved})


def _guaranteed(guarantee: Guarantee | dict[str, Guarantee]) -> str:
    if isinstance(guarantee, Guarantee):
        return f"{guarantee} ({guarantee.sentence()})"
    return ", ".join(f"{one} in {part!r}" for part, one in guarantee.items())


# ---- Spending by release, period or team: the charges of a ledger, added up


Key = Literal["release", "period", "team"]
_UNNAMED = {"release": "(unnamed)", "period": "(no period)", "team": "(no team)"}


@dataclass(frozen=True, kw_only=True)
class SpendingRow:
    """The charges of one release, period or team.

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
    >>> from discreet import Ledger, PureDP, release
    >>> from discreet.core.sensitivity import Exact, Sensitivity
    >>> from discreet.mechanisms import Laplace
    >>> ledger = Ledger(":memory:", PureDP(1.0))
    >>> for period in ("2026-01", "2026-02"):
    ...     value = Exact(10.0, Sensitivity(l1=1.0))
    ...     noisy = release(value, Laplace(4.0), ledger=ledger, name=f"plan:0:{period}:1:visits")
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


# ---- Ledger page: what was spent on what, with charts, for a browser, a phone or paper


_PAGE_WIDTH = 300
"""Of a chart, in pixels: fits a phone; pages scale it."""
_KEYS: tuple[Key, ...] = ("release", "period", "team")


def ledger_page(statement: Statement) -> str:
    """The statement as a page that needs no script and no network; everything from outside is escaped.

    Examples
    --------
    >>> from discreet import Ledger, PureDP, release
    >>> from discreet.core.sensitivity import Exact, Sensitivity
    >>> from discreet.mechanisms import Laplace
    >>> ledger = Ledger(":memory:", PureDP(1.0))
    >>> noisy = release(Exact(1.0, Sensitivity(l1=1.0)), Laplace(4.0), ledger=ledger, name="<visits>")
    >>> page = ledger_page(ledger.statement())
    >>> "&lt;visits&gt;" in page, "<visits>" in page, "By release" in page
    (True, False, True)
    """
    grouped = [(key, spending_by(statement, key)) for key in _KEYS]
    shown = [(key, rows, _bars(statement, rows)) for key, rows in grouped if _tells(key, rows)]
    return (
        environment()
        .get_template("ledger_page.html")
        .render(
            title=statement.heading() if "://" in statement.path else f"Ledger {Path(statement.path).name}",
            share=round(_percent(statement.spent, statement.budget), 1),
            facts=statement.facts(),
            chart=drawing(spending_chart(statement)) if statement.spends else "",
            groups=shown,
            spends=[told_of(one, statement) for one in statement.spends],
        )
    )


def _tells(key: Key, rows: list[Any]) -> bool:
    """True where a table by this key says anything: not where no release has one."""
    return bool(rows) and (key == "release" or any(not row.name.startswith("(no ") for row in rows))


def spending_chart(statement: Statement) -> Any:
    """Altair chart of the part of the budget that was spent, over time."""
    alt = drawing_library()
    rows = [
        {"time": spend.created, "spent": _percent(spend.spent, statement.budget), "release": spend.title}
        for spend in statement.spends
    ]
    first, last = (datetime.fromisoformat(spend.created) for spend in (statement.spends[0], statement.spends[-1]))
    within_a_day = alt.Axis(format="%H:%M:%S", tickCount=3) if last - first < timedelta(days=1) else alt.Undefined
    x = alt.X(field="time", type="temporal", title="time (UTC)", axis=within_a_day)
    y = alt.Y(field="spent", type="quantitative", title="% of the budget", scale=alt.Scale(domain=[0, 100]))
    drawn = alt.Chart(alt.InlineData(values=rows)).mark_line(interpolate="step-after", point=True)
    return offline(
        drawn.encode(x=x, y=y).properties(
            width=_PAGE_WIDTH, height=160, description="Spending over time", background="transparent"
        )
    )


def _bars(statement: Statement, rows: list[Any]) -> str:
    """A bar for each row; none where one row is all there is."""
    if len(rows) < 2:
        return ""
    alt = drawing_library()
    told = [{"name": row.name, "share": _percent(row.charge, statement.budget)} for row in rows]
    x = alt.X(field="share", type="quantitative", title="% of the budget")
    y = alt.Y(field="name", type="nominal", title=None, sort=None, axis=alt.Axis(labelLimit=120))
    drawn = alt.Chart(alt.InlineData(values=told)).mark_bar(color="#0b5cad").encode(x=x, y=y)
    shape = {"width": _PAGE_WIDTH - 110, "description": "Spending by name", "background": "transparent"}
    return drawing(offline(drawn.properties(**shape)))


def _percent(part: Guarantee, whole: Guarantee) -> float:
    """The part of a budget, in what adds up: ε, ρ, or the square of μ."""
    name, value = next(iter(part.parameters().items()))
    most = next(iter(whole.parameters().items()))
    if most[0] != name or not most[1]:  # a budget in ε and δ that is counted in ρ or μ
        return 0.0
    share = Fraction(value) / Fraction(most[1])
    return float(100 * (share**2 if name == "mu" else share))
