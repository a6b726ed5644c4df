"""Display: text that may leave, and one list of facts as text in a terminal and as a table in a notebook."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from textwrap import wrap
from typing import Any

import numpy as np

__all__ = ["Facts", "as_html", "as_text", "expected", "held", "number", "printable"]

Facts = Sequence[tuple[str, str]]

_SHOWN_ELEMENTS = 6
_COLUMNS = 80
_WHOLE = 1e4
_UNHELD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls: a terminal obeys them; XML, and so charts and workbooks, hold none
    "\u2028\u2029\u202a-\u202e\u2066-\u2069"  # ends of lines, and marks that let text run backwards
    "\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"  # no characters: UTF-8 or XML has none of them
)


def printable(text: str) -> str:
    r"""Text that every format can hold and no reader obeys; labels may be what somebody in the data chose.

    All text that leaves for a chart, a page, markdown, a table, a workbook or a terminal passes here. What cannot stay
    is written as JSON and TOML write it, so that labels which differ still do.

    Examples
    --------
    >>> printable("north\x1b[2J")
    'north\\u001b[2J'
    """
    return _UNHELD.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def held(data: Any) -> Any:
    """Plain data in which all text is `printable`; markup of our own stays as it is."""
    if isinstance(data, Mapping):
        return {held(name): held(value) for name, value in data.items()}
    if isinstance(data, list):
        return [held(one) for one in data]
    return printable(data) if type(data) is str else data


def number(value: Any) -> str:
    """A number or an array, short enough to read: six digits, and the first few elements."""
    array = np.asarray(value)
    if array.ndim == 0:
        return f"{array.item():.6g}"
    shown = ", ".join(f"{element:.6g}" for element in array.ravel()[:_SHOWN_ELEMENTS])
    shape = "×".join(str(length) for length in array.shape)
    return f"[{shown}{', …' if array.size > _SHOWN_ELEMENTS else ''}] ({shape})"


def expected(value: float) -> str:
    """An error or an effect that a plan expects: four digits, and whole numbers in full.

    Examples
    --------
    >>> expected(0.00845064), expected(1234567.8)
    ('0.008451', '1,234,568')
    """
    return f"{value:.4g}" if abs(value) < _WHOLE else f"{value:,.0f}"


def as_text(title: str, facts: Facts) -> str:
    """Title and aligned facts, wrapped at 80 columns between words."""
    facts = [(printable(name), printable(value)) for name, value in facts]
    width = max(len(name) for name, _ in facts)
    lines = [printable(title)]
    for name, value in facts:
        whole = value.replace(" %", "\0%")  # a number stays on the line of its sign
        pieces = wrap(whole, max(_COLUMNS - width - 4, 20), break_long_words=False, break_on_hyphens=False) or [""]
        lines += [f"  {label:<{width}}  {piece}" for label, piece in zip_longest([name], pieces, fillvalue="")]
    return "\n".join(lines).replace("\0%", " %")


def as_html(title: str, facts: Facts) -> str:
    """The same facts as a small table, everything escaped."""
    rows = "".join(
        f'<tr><th scope="row" style="text-align:left">{html.escape(printable(name))}</th>'
        f'<td style="text-align:left">{html.escape(printable(value))}</td></tr>'
        for name, value in facts
    )
    return f"<table><caption><strong>{html.escape(printable(title))}</strong></caption><tbody>{rows}</tbody></table>"
