"""Ledger page: what was spent on what, with charts, for a browser, a phone or paper."""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

from discreet.core.guarantee import Guarantee
from discreet.ledgers import Statement
from discreet.publish.charts import drawing, drawing_library, offline
from discreet.publish.ledger_statement import told_of
from discreet.publish.page_style import rendered
from discreet.publish.spending_by import Key, spending_by

__all__ = ["ledger_page", "spending_chart"]

_WIDTH = 300
"""Of a chart, in pixels: fits a phone; pages scale it."""
_KEYS: tuple[Key, ...] = ("release", "period", "team")

_TEMPLATE = """
<h1>{{ title }}</h1>
<section class="card">
<div class="bar" role="img" aria-label="{{ share }} % of the budget is spent">
<span style="width: {{ share }}%"></span></div>
<dl>{% for name, value in facts %}<dt>{{ name }}</dt><dd>{{ value }}</dd>{% endfor %}</dl>
</section>
{% if chart %}
<figure>{{ chart|safe }}<figcaption>What was spent, in % of the budget, over time (UTC).</figcaption></figure>
{% endif %}
{% for key, rows, picture in groups %}
<h2>By {{ key }}</h2>
{% if picture %}<figure>{{ picture|safe }}</figure>{% endif %}
<div class="wide"><table><caption>Charges by {{ key }}</caption>
<thead><tr><th class="label" scope="col">{{ key }}</th><th scope="col">releases</th>
<th scope="col">charge</th></tr></thead>
<tbody>{% for row in rows %}<tr>
<th class="label" scope="row"{% if key == "period" %} style="white-space: nowrap"{% endif %}>{{ row.name }}</th>
<td>{{ row.releases }}</td><td>{{ row.charge }}</td></tr>{% endfor %}</tbody></table></div>
{% endfor %}
{% if spends %}
<h2>Every release</h2>
{% for seq, created, name, title, partition, charge, words in spends %}
<details><summary>{{ name or "(unnamed)" }}: {{ charge }}</summary>
<dl><dt>entry</dt><dd>{{ seq }}, {{ created }} UTC</dd><dt>release</dt><dd>{{ title }}</dd>
{% if partition %}<dt>partition</dt><dd>{{ partition }}</dd>{% endif %}
<dt>in words</dt><dd>{{ words }}</dd></dl></details>
{% endfor %}
{% endif %}
"""


def ledger_page(statement: Statement) -> str:
    """The statement as a page that needs no script and no network; everything from outside is escaped.

    Examples
    --------
    >>> from discreet import Exact, Laplace, Ledger, PureDP, Sensitivity, release
    >>> ledger = Ledger(":memory:", PureDP(1.0))
    >>> noisy = release(Exact(1.0, Sensitivity(l1=1.0)), Laplace(4.0), ledger=ledger, request="<visits>")
    >>> page = ledger_page(ledger.statement())
    >>> "&lt;visits&gt;" in page, "<visits>" in page, "By release" in page
    (True, False, True)
    """
    grouped = [(key, spending_by(statement, key)) for key in _KEYS]
    shown = [(key, rows, _bars(statement, rows)) for key, rows in grouped if _tells(key, rows)]
    return rendered(
        _TEMPLATE,
        title=statement.heading() if "://" in statement.path else f"Ledger {Path(statement.path).name}",
        share=round(_percent(statement.spent, statement.budget), 1),
        facts=statement.facts(),
        chart=drawing(spending_chart(statement)) if statement.spends else "",
        groups=shown,
        spends=[told_of(one, statement) for one in statement.spends],
    )


def _tells(key: Key, rows: list[Any]) -> bool:
    """Whether a table by this key says anything: not where no release has one."""
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
            width=_WIDTH, height=160, description="Spending over time", background="transparent"
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
    shape = {"width": _WIDTH - 110, "description": "Spending by name", "background": "transparent"}
    return drawing(offline(drawn.properties(**shape)))


def _percent(part: Guarantee, whole: Guarantee) -> float:
    """The part of a budget, in what adds up: ε, ρ, or the square of μ."""
    name, value = next(iter(part.parameters().items()))
    most = next(iter(whole.parameters().items()))
    if most[0] != name or not most[1]:  # a budget in ε and δ that is counted in ρ or μ
        return 0.0
    share = Fraction(value) / Fraction(most[1])
    return float(100 * (share**2 if name == "mu" else share))
