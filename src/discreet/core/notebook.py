"""Notebook: facts as a small table of HTML."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def facts_html(title: str, facts: Iterable[tuple[str, str]]) -> str:
    """Title and facts as a table, everything escaped; tabs divide a fact into cells.

    Examples
    --------
    >>> facts_html("Ages", [("low", "<18")]).count("&lt;18")
    1
    """
    told = [(name, escape(value).split("\t")) for name, value in facts]
    most = max((len(cells) for _, cells in told), default=1)
    rows = "".join(
        f'<tr><th scope="row" style="text-align:left">{escape(name)}</th>'
        + (f'<td style="text-align:left" colspan="{most}">{cells[0]}</td>' if len(cells) == 1 else
           "".join(f'<td style="text-align:right">{cell}</td>' for cell in cells))
        + "</tr>"
        for name, cells in told
    )  # fmt: skip
    return f"<table><caption><strong>{escape(title)}</strong></caption><tbody>{rows}</tbody></table>"
