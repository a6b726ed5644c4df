"""Review as markdown and as a page: what an officer reads and keeps."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from discreet.publish.page_style import environment
from discreet.publish.prose import plain

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["coded", "review_markdown", "review_page"]

_TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Review of {{ title }}</title>
<style>
:root { color-scheme: light dark; --ink: #16191d; --soft: #50565e; --line: #d4d8dd; --page: #fff; --warn: #9a3b00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --soft: #a9b0b8; --line: #3a4048; --page: #15181c;
 --warn: #ffb27a; } }
* { box-sizing: border-box; }
body { margin: 0; font: 1rem/1.55 system-ui, sans-serif; color: var(--ink); background: var(--page); }
main { max-width: 54rem; margin: 0 auto; padding: 1.25rem 1rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: .5rem 0; } h2 { font-size: 1.2rem; margin: 2rem 0 .3rem; }
.soft { color: var(--soft); overflow-wrap: anywhere; } .warn { color: var(--warn); font-weight: 600; }
table { border-collapse: collapse; width: 100%; overflow-wrap: anywhere; } .wide { overflow-x: auto; }
th, td { text-align: left; vertical-align: top; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; }
@media (max-width: 40rem) { thead { display: none; } tr { display: block; padding: .4rem 0; }
 tr { border-bottom: 1px solid var(--line); } td { display: block; border: 0; padding: .1rem 0; }
 td[data-of]::before { content: attr(data-of) ": "; color: var(--soft); } }
@media print { main { max-width: none; padding: 0; } table { break-inside: avoid; } }
</style>
</head>
<body>
<main>
<h1>Review of {{ title }}</h1>
<p class="soft">Plan {{ digest }}<br>Approvals: {{ approvals }}.</p>
<h2>Who is protected</h2>
<ul>{% for line in protected %}<li>{{ line }}</li>{% endfor %}</ul>
<h2>What is taken as public</h2>
<div class="wide"><table>
<thead><tr><th scope="col">fact</th><th scope="col">what the plan says</th><th scope="col">source</th></tr></thead>
<tbody>{% for fact in public %}<tr><td><b>{{ fact.name }}</b></td><td>{{ fact.fact }}</td>
<td data-of="source"{% if not fact.source %} class="warn"{% endif %}>{{ fact.source or "no source given" }}</td></tr>
{% endfor %}</tbody>
</table></div>
<h2>What will be released</h2>
<div class="wide"><table>
<thead><tr><th scope="col">release</th><th scope="col">what it tells</th><th scope="col">how exact</th>
<th scope="col">cost</th></tr></thead>
<tbody>{% for one in releases %}<tr><td><b>{{ one.title }}</b></td><td>{{ one.tells }}</td>
<td data-of="how exact">{{ one.exact }}</td><td data-of="cost">{{ one.cost }}</td></tr>{% endfor %}</tbody>
</table></div>
<p>Together: {{ cost }}. The ledger has {{ left }} left.</p>
<h2>What an attacker could still learn</h2>
<ul>{% for line in attacker %}<li>{{ line }}</li>{% endfor %}</ul>
<h2>What changed</h2>
{% if changes is none %}<p>No earlier version was approved.</p>
{% elif changes %}<ul>{% for line in changes %}<li>{{ line }}</li>{% endfor %}</ul>
{% else %}<p>Nothing, since the version that was approved last.</p>{% endif %}
<h2>Checklist</h2>
<p class="soft">After NIST SP 800-226. What only a person can answer is left open.</p>
<div class="wide"><table>
<tbody>{% for question, answer in checklist %}<tr><td>{{ question }}</td>
<td>{{ answer | coded if answer else "☐" }}</td></tr>{% endfor %}</tbody>
</table></div>
</main>
</body>
</html>
"""


def review_page(facts: Mapping[str, Any]) -> str:
    """The review as one self-contained HTML file, everything escaped."""
    pages = environment()
    pages.filters["coded"] = coded
    return pages.from_string(_TEMPLATE).render(**facts)


def coded(text: str) -> Markup:
    """Escaped text, with what stands between backticks as code."""
    from markupsafe import Markup, escape

    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def review_markdown(facts: Mapping[str, Any], escape: Callable[[str], str] = plain) -> str:
    """The review as markdown, with names escaped; a terminal shows marks as they are, so `printable` will do there."""
    changes = facts["changes"]
    changed = (
        ["No earlier version was approved."]
        if changes is None
        else [f"- {escape(line)}" for line in changes] or ["Nothing, since the version that was approved last."]
    )
    public = [
        f"{escape(one['name'])}: {escape(one['fact'])}. Source: {escape(one['source'] or 'NONE GIVEN')}"
        for one in facts["public"]
    ]
    releases = [
        f"{escape(one['title'])}: {escape(one['tells'])} Exactness: {escape(one['exact'])}. Cost: {one['cost']}."
        for one in facts["releases"]
    ]
    # Answers hold code between backticks, which stay.
    answers = [(question, escape(answer or "").replace("\\`", "`")) for question, answer in facts["checklist"]]
    return "\n".join(
        [
            f"# Review of {escape(facts['title'])}",
            "",
            f"Plan {facts['digest']}",
            f"Approvals: {escape(facts['approvals'])}.",
            "",
            "## Who is protected",
            "",
            *(f"- {escape(line)}" for line in facts["protected"]),
            "",
            "## What is taken as public",
            "",
            *(f"- {line}" for line in public),
            "",
            "## What will be released",
            "",
            *(f"- {line}" for line in releases),
            "",
            f"Together: {facts['cost']}. The ledger has {facts['left']} left.",
            "",
            "## What an attacker could still learn",
            "",
            *(f"- {escape(line)}" for line in facts["attacker"]),
            "",
            "## What changed",
            "",
            *changed,
            "",
            "## Checklist (after NIST SP 800-226)",
            "",
            *(f"- {question} {answer or '[ ]'}" for question, answer in answers),
        ]
    )
