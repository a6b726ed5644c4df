"""Anchors: heads of a ledger that are kept in a second place, so that rolling the ledger back shows.

A head stands for everything before it. Whoever can rewrite a ledger, hashes included, or put an old copy of it in its
place, cannot rewrite what was copied elsewhere: another disk, a repository, an archive.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path

from discreet.core.errors import InvalidParameter, LedgerUnavailable
from discreet.ledgers import Ledger
from discreet.publish.whole_file import why

__all__ = ["anchored_heads", "write_anchor"]

_HEAD = re.compile(r"[0-9a-f]{64}")


def write_anchor(ledger: Ledger, place: str | os.PathLike[str]) -> str:
    """Append the ledger's head to a file, flushed; the ledger remembers the file. Returns the head.

    Examples
    --------
    >>> import tempfile
    >>> from discreet import Ledger, PureDP
    >>> with tempfile.TemporaryDirectory() as folder, Ledger(f"{folder}/survey.ledger", PureDP(1.0)) as ledger:
    ...     head = write_anchor(ledger, f"{folder}/heads.txt")
    ...     anchored_heads(ledger) == [head], ledger.verify(anchor=head).anchored
    (True, True)
    """
    target = os.path.realpath(place)
    ledger.note(anchors=[target])  # before the head is read, since a note is an entry, too
    head = ledger.head
    line = f"{datetime.now(UTC).isoformat(timespec='seconds')} {_identity(ledger)} {head}\n"
    try:
        with open(target, "a", encoding="utf-8") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    except OSError as failure:
        raise LedgerUnavailable(f"anchor = {target!r}: cannot be written ({why(failure)}).") from None
    return head


def anchored_heads(ledger: Ledger, given: str | None = None) -> list[str]:
    """The heads to verify against: a head itself, those in a file, or those in every file that the ledger remembers.

    Parameters
    ----------
    given
        A head, a file that `write_anchor` wrote, or the ``results.json`` of a run. Left out: all files that the ledger
        remembers and that exist.
    """
    if given is not None and _HEAD.fullmatch(given):
        return [given]
    if given is not None:
        return _heads_of(ledger, Path(given))
    return [head for place in ledger.anchors if os.path.exists(place) for head in _heads_of(ledger, Path(place))]


def _heads_of(ledger: Ledger, place: Path) -> list[str]:
    try:
        text = place.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as failure:
        raise InvalidParameter(
            "anchor", str(place), f"cannot be read ({why(failure)})", "Pass a head, or a file with heads."
        ) from None
    if text.startswith("{"):
        return [json.loads(text)["facts"]["privacy"]["head"]]
    lines = [line.split() for line in text.splitlines()]
    return [line[2] for line in lines if len(line) == 3 and line[1] == _identity(ledger)]


def _identity(ledger: Ledger) -> str:
    """Tells the lines of several ledgers in one file apart; says nothing about the data."""
    return hashlib.sha256(b"identity" + ledger.salt).hexdigest()[:16]
