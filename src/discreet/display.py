"""Display: one list of facts, shown as text in a terminal and as a table in a notebook."""

from __future__ import annotations

import html
from collections.abc import Sequence
from itertools import zip_longest
from textwrap import wrap
from typing import Any

import numpy as np

__all__ = ["Facts", "as_html", "as_text", "expected", "number"]

Facts = Sequence[tuple[str, str]]

_SHOWN_ELEMENTS = 6
_COLUMNS = 80
_WHOLE = 1e4


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
    width = max(len(name) for name, _ in facts)
    lines = [title]
    for name, value in facts:
        whole = value.replace(" %", "\0%")  # a number stays on the line of its sign
        pieces = wrap(whole, max(_COLUMNS - width - 4, 20), break_long_words=False, break_on_hyphens=False) or [""]
        lines += [f"  {label:<{width}}  {piece}" for label, piece in zip_longest([name], pieces, fillvalue="")]
    return "\n".join(lines).replace("\0%", " %")


def as_html(title: str, facts: Facts) -> str:
    """The same facts as a small table, everything escaped."""
    rows = "".join(
        f'<tr><th scope="row" style="text-align:left">{html.escape(name)}</th>'
        f'<td style="text-align:left">{html.escape(value)}</td></tr>'
        for name, value in facts
    )
    return f"<table><caption><strong>{html.escape(title)}</strong></caption><tbody>{rows}</tbody></table>"
