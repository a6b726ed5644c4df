"""Claim: what a release asks of a ledger, checked and in the form in which it is written down."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.guarantee import Guarantee
from discreet.core.ledger.journal import canonical
from discreet.core.ledger.partition import Partition
from discreet.core.protection import Protection

__all__ = ["Guarantees", "described", "fingerprint", "identified", "names", "now", "scope", "text", "written"]

Guarantees = Guarantee | Mapping[str, Guarantee]
"""One guarantee, or one for each part of a partition."""
_CONTENT = ("question", "mechanism", "sensitivity", "protection", "guarantee", "partition", "parts")


def now() -> str:
    """The time, as entries record it."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def text(name: str, value: Any) -> str:
    """Return ``value`` if it is non-empty text."""
    if not isinstance(value, str):
        raise WrongType(name, value, "must be text", f"Pass {name} as a string.")
    if not value.strip():
        raise InvalidParameter(name, value, "must not be empty", f"Pass {name} as a non-empty string.")
    return value


def names(parts: Iterable[Any]) -> list[str]:
    """Return the names of parts, which must be distinct."""
    if not isinstance(parts, Iterable):
        raise WrongType("parts", parts, "must be a collection of names", 'Pass ["north", "south"].')
    listed = [text("parts", part) for part in parts]
    if not listed:
        raise InvalidParameter("parts", listed, "must not be empty", "Name at least one part.")
    if len(set(listed)) != len(listed):
        raise InvalidParameter("parts", listed, "must be distinct", "Name each part once.")
    return listed


def described(
    question: Any, mechanism: Mapping[str, Any], sensitivity: Mapping[str, Any], protection: Protection
) -> dict[str, Any]:
    """The fields that describe the release."""
    for name, value in (("mechanism", mechanism), ("sensitivity", sensitivity)):
        requirements.instance(name, value, dict, f"{name}.to_dict()")
    requirements.instance("protection", protection, Protection, "Protection()")
    return {
        "question": question,
        "mechanism": mechanism,
        "sensitivity": sensitivity,
        "protection": protection.to_dict(),
    }


def identified(release_id: str | None, request: str | None) -> dict[str, Any]:
    """The fields that tell it from other releases."""
    return {
        "release_id": uuid.uuid4().hex if release_id is None else text("release_id", release_id),
        "request": None if request is None else text("request", request),
        "created": now(),
    }


def scope(
    guarantee: Guarantees, partition: str | Partition | None, parts: str | Iterable[str] | None
) -> dict[str, Any]:
    """The fields that say what is promised, and to which groups."""
    for one in guarantee.values() if isinstance(guarantee, Mapping) else (guarantee,):
        requirements.instance("guarantee", one, Guarantee, "a guarantee such as PureDP(0.1)")
    name = partition.name if isinstance(partition, Partition) else partition
    if name is not None:
        text("partition", name)
    if isinstance(guarantee, Mapping):
        if parts is not None:
            raise InvalidParameter("parts", parts, "already follow from the guarantees", "Leave parts out.")
        own = {part: guarantee[part].to_dict() for part in names(guarantee)}
        return {"guarantee": None, "partition": name, "parts": own}
    chosen = None if parts is None else names((parts,) if isinstance(parts, str) else parts)
    return {"guarantee": guarantee.to_dict(), "partition": name, "parts": chosen}


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
