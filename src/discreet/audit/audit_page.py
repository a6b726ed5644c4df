"""Page: the facts of an audit as one self-contained HTML file, and as markdown for the documentation."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from discreet.publish.page_style import PALETTE

__all__ = ["audit_markdown", "audit_page"]

_STYLE = """
body { margin: 0; font: 1rem/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); }
main { max-width: 60rem; margin: 0 auto; padding: 1.25rem 1rem 4rem; }
h1 { font-size: 1.7rem; margin: .5rem 0; } h2 { font-size: 1.2rem; margin: 2rem 0 .3rem; }
.soft { color: var(--soft); } .wide { overflow-x: auto; }
.verdict { border: 1px solid var(--line); border-radius: .5rem; padding: .8rem 1rem; font-weight: 600; }
.good { color: var(--blue); } .bad { color: var(--amber); font-weight: 700; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th[scope=row], thead th:first-child { text-align: left; font-weight: 400; }
@media (max-width: 42rem) {
 tr { display: grid; grid-template-columns: 1fr 1fr 4.2rem 5.6rem; padding: .3rem 0; }
 tr { border-bottom: 1px solid var(--line); }
 th, td { border: 0; padding: 0 .2rem; white-space: normal; font-size: .85rem; overflow-wrap: anywhere; }
 th[scope=row], thead th:first-child { grid-column: 1 / -1; font-weight: 600; font-size: .95rem; }
}
@media print { main { max-width: none; padding: 0; } table { break-inside: avoid; } }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def audit_page(facts: Mapping[str, Any]) -> str:
    """HTML: no script, nothing fetched, everything escaped."""
    sections = "".join(_section(section) for section in facts["sections"])
    title = html.escape(facts["title"])
    kind = "Deep run" if facts["deep"] else "Short run"
    about = html.escape(f"{kind} of discreet {facts['version']}, {facts['created']}, {facts['machine']}.")
    mark = "good" if facts["passed"] else "bad"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><style>{PALETTE}{_STYLE}</style></head>'
        f'<body><main><h1>{title}</h1><p class="soft">{about}</p>'
        f'<p class="verdict {mark}">{html.escape(facts["verdict"])}</p>'
        f"{_limits(facts)}{sections}</main></body></html>\n"
    )


def _limits(facts: Mapping[str, Any]) -> str:
    """What the run could not have found."""
    items = "".join(f"<li>{html.escape(one)}</li>" for one in facts["limits"])
    return f"<h2>What this run could not have found</h2><ul>{items}</ul>" if items else ""


def _section(section: Mapping[str, Any]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{html.escape(line["name"])}</th><td>{html.escape(line["claimed"])}</td>'
        f"<td>{html.escape(line['found'])}</td><td>{_share(line)}</td>{_verdict(line)}</tr>"
        for line in section["lines"]
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in ("audited", "claimed", "found", "reached", "verdict"))
    title, key = html.escape(section["title"]), html.escape(section["key"])
    return (
        f'<section aria-labelledby="{key}"><h2 id="{key}">{title}</h2>'
        f'<p class="soft">{html.escape(section["words"])}</p><div class="wide">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></section>"
    )


def _share(line: Mapping[str, Any]) -> str:
    reached = line["reached"]
    return "" if reached is None or reached <= 0 else f"{100 * reached:.1f} %"


def _verdict(line: Mapping[str, Any]) -> str:
    if line.get("skipped"):
        return '<td class="soft">skipped</td>'
    return '<td class="good">holds</td>' if line["passed"] else '<td class="bad">EXCEEDED</td>'


def audit_markdown(facts: Mapping[str, Any]) -> str:
    """The same tables in markdown."""
    parts = [facts["verdict"], "", "What this run could not have found:", ""]
    parts += [*(f"- {one}" for one in facts["limits"]), ""]
    for section in facts["sections"]:
        parts += [
            f"## {section['title']}",
            "",
            section["words"],
            "",
            "| audited | claimed | found | reached | |",
            "|---|---|---|---|---|",
        ]
        parts += [
            f"| {line['name']} | {line['claimed']} | {line['found']} | {_share(line)} "
            f"| {'skipped' if line.get('skipped') else 'holds' if line['passed'] else '**exceeded**'} |"
            for line in section["lines"]
        ]
        parts.append("")
    return "\n".join(parts)
