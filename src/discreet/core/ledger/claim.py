"""Claim: what a release asks of a ledger, checked and in the form in which it is written down."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.guarantee import Guarantee
from discreet.core.ledger.journal import canonical

__all__ = ["Guarantees", "fingerprint", "identified", "now", "scope", "text", "written"]

Guarantees = Guarantee | Mapping[str, Guarantee]
"""One guarantee, or one for each part of a partition."""
_CONTENT = ("question", "mechanism", "sensitivity", "protection", "guarantee", "partition", "parts")


def now() -> str:
    """The time, as entries and releases record it: to the minute, so that no bundle tells how long a release took."""
    return datetime.now(UTC).replace(second=0, microsecond=0).isoformat(timespec="seconds")


def text(name: str, value: Any) -> str:
    """Return ``value`` if it is non-empty text."""
    if not isinstance(value, str):
        raise WrongType(name, value, "must be text", f"Pass {name} as a string.")
    if not value.strip():
        raise InvalidParameter(name, value, "must not be empty", f"Pass {name} as a non-empty string.")
    return value


def identified(release_id: str | None, request: str | None) -> dict[str, Any]:
    """The fields that tell it from other releases."""
    return {
        "release_id": uuid.uuid4().hex if release_id is None else text("release_id", release_id),
        "request": None if request is None else text("request", request),
        "created": now(),
    }


def scope(guarantee: Guarantees, partition: str | None) -> dict[str, Any]:
    """The fields that say what is promised, and to which groups."""
    if not isinstance(guarantee, Mapping):
        return {"guarantee": guarantee.to_dict(), "partition": partition, "parts": None}
    return {
        "guarantee": None,
        "partition": partition,
        "parts": {part: one.to_dict() for part, one in guarantee.items()},
    }


def fingerprint(content: Mapping[str, Any]) -> str:
    """What makes two spends the same request: everything that is said of the release, and nothing else."""
    said = {name: content[name] for name in _CONTENT}
    return hashlib.sha256(canonical("request", said).encode()).hexdigest()


def written(content: dict[str, Any]) -> str:
    """The claim in canonical form; a part that is not made of JSON values is named."""
    try:
        return canonical("release", content)
    except InvalidParameter:
        for name in ("question", "mechanism", "sensitivity"):
            canonical(name, content[name])
        raise
