"""Period: the month, quarter or year that a release is about; the same plan is a new release in each of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime

from discreet.core.errors import InvalidParameter

__all__ = ["period_of"]

_PATTERNS: dict[str, Callable[[date], str]] = {
    "{date}": lambda day: day.isoformat(),
    "{month}": lambda day: f"{day:%Y-%m}",
    "{quarter}": lambda day: f"{day:%Y}-Q{(day.month + 2) // 3}",
    "{year}": lambda day: f"{day:%Y}",
}
_NAME = re.compile(r"[\w.+-]{1,40}")


def period_of(pattern: str, today: date | None = None) -> str:
    """The name of the period that a plan asks for.

    Parameters
    ----------
    pattern
        A name such as ``2026-11``; or ``{date}``, ``{month}``, ``{quarter}`` or ``{year}``, for the current one (UTC).

    Examples
    --------
    >>> period_of("{quarter}", date(2026, 11, 15)), period_of("spring-2026")
    ('2026-Q4', 'spring-2026')
    """
    if pattern in _PATTERNS:
        return _PATTERNS[pattern](today or datetime.now(UTC).date())
    if not _NAME.fullmatch(pattern):
        raise InvalidParameter(
            "period", pattern, "must be a short name without spaces", f'Write period = "2026-11", or {list(_PATTERNS)}.'
        )
    return pattern
