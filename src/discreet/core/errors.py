"""Every exception of the library.

A refusal names the parameter, the value it got, the rule that was broken and what to do about it, in that
order, so that the text can be acted on without opening the documentation.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

_SHOWN = 80
_LISTED = 12


def _shown(value: Any) -> str:
    """A short repr: error texts must stay readable, and must not print whole data sets."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def spelling(value: Any, known: Iterable[Any]) -> str:
    """A fix for a name that is not known: the nearest one that is, or some of those there are.

    Examples
    --------
    >>> spelling("regoin", ["age", "region"])
    "Did you mean 'region'?"
    >>> spelling("sex", ["age", "region"])
    "Use one of: 'age', 'region'."
    """
    names = list(known)
    texts = {str(name).lower(): name for name in names}
    near = get_close_matches(str(value).lower(), texts, n=1)
    if near:
        return f"Did you mean {texts[near[0]]!r}?"
    listed = ", ".join(repr(name) for name in names[:_LISTED])
    return f"Use one of: {listed}{', …' if len(names) > _LISTED else ''}." if names else "There are none."


class DiscreetError(Exception):
    """Base class of every error raised on purpose by discreet."""


class InvalidParameter(DiscreetError, ValueError):
    """A parameter has a value that its rule forbids.

    Parameters
    ----------
    name
        The parameter as the caller wrote it, for example ``"epsilon"``.
    value
        What was passed; shown shortened.
    rule
        What must hold, for example ``"must be finite and positive"``.
    fix
        What the caller can do.
    """

    def __init__(self, name: str, value: Any, rule: str, fix: str) -> None:
        self.name, self.value, self.rule, self.fix = name, value, rule, fix
        super().__init__(f"{name} = {_shown(value)}: {rule}. {fix}")


class WrongType(InvalidParameter, TypeError):
    """A parameter has the wrong type."""


class NoConversion(DiscreetError, ValueError):
    """One kind of guarantee does not imply the other."""


class NotCertified(DiscreetError):
    """The procedure has no proved guarantee, so it may not touch real data."""


class InsufficientBudget(DiscreetError):
    """A release would spend more than the ledger has left.

    Attributes
    ----------
    requested, remaining
        Guarantees: what the release costs and what is left.
    """

    def __init__(self, requested: Any, remaining: Any, *, what: str = "the release costs", fix: str = "") -> None:
        self.requested, self.remaining = requested, remaining
        super().__init__(
            f"{what} {requested} but the ledger has {remaining} left. "
            f"{fix or 'Ask for less; a larger budget is for the owner of the data to decide.'} Nothing was spent."
        )


class NoPopulationInterval(InvalidParameter):
    """A release does not hold enough for an interval for the population; the text says what to ask instead."""


class LedgerError(DiscreetError):
    """The ledger cannot be used as asked."""


class LedgerMismatch(LedgerError):
    """The ledger on disk was opened with another budget, data set, unit or neighbour relation."""


class LedgerCorrupted(LedgerError):
    """The ledger's hash chain or structure is broken."""


class NotApproved(LedgerError):
    """The ledger pays for approved plans only, and this release is in none."""


class LedgerUnavailable(LedgerError, OSError):
    """The ledger's file cannot be read or written; nothing was spent and nothing drawn."""


class LedgerMissing(LedgerUnavailable):
    """There is no ledger at this place yet."""


class SourceError(DiscreetError):
    """The data cannot be read as the schema declares it; nothing was spent. The text never shows a data value."""


class ReleaseFailed(SourceError):
    """A release was paid for and gave no answer. The text is the same whatever the reason, which may be a value."""

    def __init__(self) -> None:
        super().__init__(
            "the release was paid for and gave no answer. The reason is held back because it may depend on "
            "somebody's data. Asking again under the same name costs nothing more, unless noise was drawn already. "
            "The owner of the data can look for the reason: Session.check_source(), or discreet run --check-source."
        )


class PlanFileError(DiscreetError):
    """A plan file cannot be used as it stands; the text begins with file and line."""


class MissingExtra(DiscreetError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        self.package, self.extra = package, extra
        # It comes from a clone: an index knows nothing of it, or something else under its name.
        super().__init__(f'{package} is not installed. In the folder of the clone, run: pip install ".[{extra}]"')
