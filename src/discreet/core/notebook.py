"""Notebook: facts as a small table of HTML."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def facts_html(title: str, facts: Iterable[tuple[str, str]]) -> str:
    """Title and facts as a table, everything escaped.

    Examples
    --------
    >>> facts_html("Ages", [("low", "<18")]).count("&lt;18")
    1
    """
    rows = "".join(
        f'<tr><th scope="row" style="text-align:left">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in facts
    )
    return f"<table><caption><strong>{escape(title)}</strong></caption><tbody>{rows}</tbody></table>"
