"""Statement of account as a page: the facts of a ledger and the list of its releases."""

from __future__ import annotations

import html

from discreet.core.display import as_html
from discreet.core.ledger import Statement

__all__ = ["statement_html"]

_COLUMNS = ("#", "time (UTC)", "release", "partition", "charge")


def statement_html(statement: Statement) -> str:
    """The statement as HTML, everything escaped.

    Examples
    --------
    >>> from discreet import Ledger, PureDP
    >>> "PureDP(ε=1)</td>" in statement_html(Ledger(":memory:", PureDP(1.0)).statement())
    True
    """
    lines = [
        (str(one.seq), one.created[:19], one.title, one.partition or "", str(one.charge)) for one in statement.spends
    ]
    header = "".join(f"<th>{name}</th>" for name in _COLUMNS)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(text)}</td>' for text in line)}</tr>" for line in lines)
    listed = f"<table><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>" if lines else ""
    return f"<div>{as_html(statement.heading(), statement.facts())}{listed}</div>"
