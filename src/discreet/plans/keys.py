"""Keys: Ed25519 key pairs with which people approve plans and sign bundles.

The private key is encrypted with a password and stays with its owner. Only the public key goes into a plan.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.core.errors import DiscreetError, InvalidParameter
from discreet.core.regular_file import read_regular, reason
from discreet.display import Facts
from discreet.result import Result

__all__ = ["KeyPair", "default_directory", "new_key", "public_key", "signer"]

_SHORTEST = 8
_LARGEST = 1_000_000


@dataclass(frozen=True)
class KeyPair(Result):
    """Where a new private key is, and the public key that belongs to it."""

    name: str
    public: str
    path: Path

    def heading(self) -> str:
        return f"Key of {self.name}"

    def facts(self) -> Facts:
        return [
            ("public key", self.public),
            ("private key", f"{self.path}; keep it, and its password, to yourself"),
            ("in the plan", f'{self.name} = "{self.public}", below [ledger.approvals.keys]'),
        ]

    def to_dict(self) -> dict[str, str]:
        """JSON-ready data; never the private key."""
        return {"name": self.name, "public": self.public, "path": str(self.path)}


def default_directory() -> Path:
    """Where keys are kept: in the user's own settings, never beside a plan."""
    settings = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(settings) / "discreet" / "keys"


def new_key(name: str, password: str, directory: Path | None = None) -> KeyPair:
    """Make a key pair and keep the private key, encrypted, where only its owner can read it.

    Parameters
    ----------
    name
        Whose key it is: a name, not a path.
    password
        Encrypts the private key; at least eight characters.
    directory
        Where to keep it; the user's settings by default. A directory under version control is refused.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as home:
    ...     made = new_key("officer", "correct horse", Path(home))
    ...     signature = signer(made.path, "correct horse")(b"a text")
    >>> len(bytes.fromhex(made.public)), len(signature)
    (32, 64)
    """
    if not name.isidentifier():
        raise InvalidParameter("name", name, "must be letters, digits and underscores", "Pass a name like officer.")
    if len(password) < _SHORTEST:
        raise DiscreetError(f"the password must have at least {_SHORTEST} characters.")
    place = directory or default_directory()
    _refuse_versioned(place)
    key = Ed25519PrivateKey.generate()
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password.encode()),
    )
    path = place / f"{name}.key"
    _write_private(path, text)
    return KeyPair(name, key.public_key().public_bytes_raw().hex(), path)


def _refuse_versioned(place: Path) -> None:
    """A private key in a repository is one commit away from everybody."""
    for folder in (place.absolute(), *place.absolute().parents):
        if (folder / ".git").exists():
            raise InvalidParameter(
                "directory", str(place), "is under version control", "Keep private keys outside of the project."
            )


def _write_private(path: Path, text: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise DiscreetError(f"{path}: there is a key of this name already. Choose another name.") from None
    except OSError as failure:
        raise DiscreetError(f"{path}: cannot be written: {reason(failure)}") from None
    with os.fdopen(handle, "wb") as file:
        file.write(text)


def signer(path: str | Path, password: str) -> Callable[[bytes], bytes]:
    """What signs with a private key."""
    return _private(path, password).sign


def public_key(path: str | Path, password: str) -> str:
    """The public key that belongs to a private one."""
    return _private(path, password).public_key().public_bytes_raw().hex()


def _private(path: str | Path, password: str) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(read_regular(path, _LARGEST), password.encode())
    except OSError as failure:
        raise DiscreetError(f"{path}: there is no key to read: {reason(failure)}") from None
    except (TypeError, ValueError):
        raise DiscreetError(f"{path}: wrong password, or not a private key of discreet.") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise DiscreetError(f"{path}: is another kind of key. Make one with `discreet keys new`.")
    return key
