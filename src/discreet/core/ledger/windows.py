"""Windows: calendar years, quarters and months (UTC) in which a budget is spent anew."""

from __future__ import annotations

from discreet.core.errors import InvalidParameter

__all__ = ["check_window", "window_of"]

_LENGTHS = {"year": 4, "quarter": 7, "month": 7}
"""How much of a time stamp tells the window; quarters are counted from the month."""


def check_window(length: str | None) -> None:
    """Refuse a length that is none of the calendar's."""
    if length is not None and length not in _LENGTHS:
        raise InvalidParameter("window", length, f"must be one of {list(_LENGTHS)}", "Leave it out, or choose one.")


def window_of(length: str | None, created: str) -> str:
    """The window of a time stamp; later windows compare as larger. Empty where the budget has none.

    Examples
    --------
    >>> window_of("quarter", "2026-11-15T10:00:00+00:00")
    '2026-Q4'
    """
    if length is None:
        return ""
    start = created[: _LENGTHS[length]]
    return start if length != "quarter" else f"{start[:4]}-Q{(int(start[5:7]) + 2) // 3}"
