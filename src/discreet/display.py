"""Display: one list of facts, shown as text in a terminal and as a table in a notebook."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["Facts", "as_html", "as_text", "number"]

Facts = Sequence[tuple[str, str]]

_SHOWN_ELEMENTS = 6


def number(value: Any) -> str:
    """A number or an array, short enough to read: six digits, and the first few elements."""
    array = np.asarray(value)
    if array.ndim == 0:
        return f"{array.item():.6g}"
    shown = ", ".join(f"{element:.6g}" for element in array.ravel()[:_SHOWN_ELEMENTS])
    shape = "×".join(str(length) for length in array.shape)
    return f"[{shown}{', …' if array.size > _SHOWN_ELEMENTS else ''}] ({shape})"


def as_text(title: str, facts: Facts) -> str:
    """Title and aligned facts; fits 80 columns where the facts do."""
    width = max(len(name) for name, _ in facts)
    return "\n".join([title, *(f"  {name:<{width}}  {value}" for name, value in facts)])


def as_html(title: str, facts: Facts) -> str:
    """The same facts as a small table, everything escaped."""
    rows = "".join(
        f'<tr><th scope="row" style="text-align:left">{html.escape(name)}</th>'
        f'<td style="text-align:left">{html.escape(value)}</td></tr>'
        for name, value in facts
    )
    return f"<table><caption><strong>{html.escape(title)}</strong></caption><tbody>{rows}</tbody></table>"
