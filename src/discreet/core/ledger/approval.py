"""Approval: who must agree to a plan before a ledger pays for it, and the proof that they did.

A person signs, with Ed25519, the digest of what a plan means and the head of the ledger at that moment. The signature
therefore belongs to one plan, one ledger and one position in it: it can be neither moved nor used twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.ledger.journal import canonical

__all__ = ["Approvals", "digest_of", "key_of", "signed_text"]

_KEY_BYTES = 32


@dataclass(frozen=True)
class Approvals:
    """How many of which people must approve a plan.

    Parameters
    ----------
    need
        How many of them.
    keys
        Name and public key (64 hexadecimal digits, as `discreet keys new` prints it) of everyone who may approve.

    Examples
    --------
    >>> Approvals(1, {"officer": "00" * 32}).need
    1
    """

    need: int
    keys: Mapping[str, str]

    def __post_init__(self) -> None:
        given = requirements.instance("keys", self.keys, Mapping, "names and keys")
        keys = {name: found for name, text in given.items() if (found := key_of(text)) is not None}
        if len(keys) < len(given):
            raise WrongType(
                "keys", self.keys, "must give a public key of 64 hexadecimal digits for each name",
                "Copy the keys that `discreet keys new` printed.",
            )  # fmt: skip
        if requirements.positive_integer("need", self.need) > len(self.keys):
            raise InvalidParameter("need", self.need, f"is more than {len(self.keys)} people", "Name enough people.")
        if len(set(keys.values())) < len(keys):
            raise InvalidParameter("keys", self.keys, "give one key to two names", "Everyone needs a key of their own.")
        object.__setattr__(self, "keys", keys)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {"need": self.need, "keys": dict(self.keys)}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Approvals:
        """Read what `to_dict` wrote."""
        return Approvals(data["need"], data["keys"])

    def check(self, head: str, content: Mapping[str, Any]) -> None:
        """Refuse a statement that nobody of them signed at that head."""
        name = content["by"]
        if name not in self.keys:
            raise InvalidParameter("by", name, f"is none of {sorted(self.keys)}", "Sign as one of them.")
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.keys[name]))
        try:
            key.verify(bytes.fromhex(content["signature"]), signed_text(head, content))
        except (InvalidSignature, ValueError):
            raise InvalidParameter(
                "signature", content["signature"][:16], f"was not made with the key of {name!r}",
                "Sign with the key whose public part the ledger holds.",
            ) from None  # fmt: skip


def key_of(text: Any) -> str | None:
    """A public key in its one spelling: case and blanks do not make another key. None where it is no key.

    Examples
    --------
    >>> key_of("AB " * 32) == key_of("ab" * 32), key_of("ab")
    (True, None)
    """
    try:
        key = bytes.fromhex(text) if isinstance(text, str) else b""
    except ValueError:
        return None
    return key.hex() if len(key) == _KEY_BYTES else None


Sign = Callable[[bytes], bytes]
"""Makes the signature of a text."""


def signed_text(head: str, content: Mapping[str, Any]) -> bytes:
    """What a statement signs: everything in it, at this place of this ledger."""
    said = {name: content[name] for name in ("plan", "by", "approves")}
    return b"discreet approval\n" + canonical("approval", {"head": head, **said}).encode()


def digest_of(meaning: Any) -> str:
    """One text for one meaning of a plan."""
    return hashlib.sha256(canonical("meaning", meaning).encode()).hexdigest()
