"""Conformance: how a check says that something does not keep its contract."""

from __future__ import annotations

from discreet.core.errors import DiscreetError

__all__ = ["NotConformant", "require"]


class NotConformant(DiscreetError, AssertionError):
    """What was checked breaks its contract; the text says where. Test runners report it as a failed assertion."""


def require(holds: bool, found: str) -> None:
    """Raise `NotConformant` unless the contract holds: an `assert` that ``python -O`` does not remove."""
    if not holds:
        raise NotConformant(found)
