"""TOML document: a plan file that is changed place by place, comments kept, written whole, and undone step by step."""

from __future__ import annotations

import hashlib
import io
import re
import threading
import time
import tomllib
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.container import Container, OutOfOrderTableProxy
from tomlkit.items import Item

from discreet.core.errors import DiscreetError
from discreet.core.files import read_regular, reason
from discreet.publish.files import write_whole

Place = tuple[str | int, ...]
"""Where a setting stands: ``("release", 0, "column")``."""

GONE = object()
"""The value of a setting that is not there, or that is to be removed."""
_KEPT = (Item, Container, OutOfOrderTableProxy)
"""Parts of a document that keep comments and layout."""
_HEADING = re.compile(r"\[[^=,]*\]\s*(#.*)?$")
_STEPS = 200
_LARGEST = 16_000_000
_TOGETHER = 2.0
"""Changes of one place within so many seconds are one step to undo: a slider makes dozens."""


class Conflict(DiscreetError):
    """Two people, or two tabs, changed the same place."""


def digest_of(text: str) -> str:
    """A hash that tells one version of the file from another."""
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def value_at(data: Any, place: Place) -> Any:
    """The value at a place of plain data; `GONE` where there is none."""
    for key in place:
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            return GONE
    return data


@dataclass
class TomlDocument:
    """A plan file as the state of the studio. It is read again for every request, so edits made beside are seen.

    Parameters
    ----------
    path
        The file.
    """

    path: Path
    _undo: list[str] = field(default_factory=list)
    _last: tuple[Place, float] = ((), 0.0)
    _written: str | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def text(self) -> str:
        """The file as it is now."""
        try:
            content = io.BytesIO(read_regular(self.path, _LARGEST))
            return io.TextIOWrapper(content, "utf-8-sig").read()
        except (OSError, UnicodeDecodeError) as failure:
            raise DiscreetError(f"{self.path.name}: cannot be read: {reason(failure)}") from None

    def data(self) -> dict[str, Any]:
        """The file as plain data, or an error that says where it is no TOML."""
        try:
            return tomllib.loads(self.text())
        except (ValueError, RecursionError) as failure:
            raise DiscreetError(f"{self.path.name}: is not valid TOML: {failure}. Mend it in the text view.") from None

    @property
    def undoable(self) -> bool:
        """True where there is a step to undo."""
        return bool(self._undo)

    def change(self, edits: Mapping[Place, Any], was: Callable[[Place, Any], bool] | None = None) -> str:
        """Set or remove places, and write the file; returns the new text.

        Parameters
        ----------
        edits
            New values by place; `GONE` removes. A number at the end of a place that is as long as its list appends.
        was
            Says for a place and its value now whether that is what the editor saw. Where it is not, nothing is
            written.
        """
        with self._lock:
            before, data = self.text(), self.data()
            if was is not None:
                _refuse_conflicts(data, edits, was)
            document = tomlkit.parse(before)
            try:
                for place, value in edits.items():
                    _set(document, place, value)
                    _set(data, place, value)
                after = _aired(before, tomlkit.dumps(document))
            except (LookupError, TypeError, ValueError):  # no such place: the file has something else on the way to it
                after = None
            if after is None or not _says(after, data):  # an edit that did more or less than was asked for
                raise DiscreetError(
                    f"{self.path.name}: is laid out in a way that cannot be edited here. Use the text view."
                )
            self._write(before, after, next(iter(edits), ()))
            return after

    def replace(self, text: str, seen: str) -> None:
        """Write a new text, unless the file is no longer the one that was seen (a digest)."""
        with self._lock:
            before = self.text()
            if digest_of(before) != seen and before != text:
                raise Conflict(
                    "The file was changed elsewhere meanwhile. Yours is below; the file keeps the other one."
                )
            self._write(before, text, ())

    def undo(self) -> bool:
        """Bring the version before the last step back; False where there is none. It never undoes what others wrote."""
        with self._lock:
            if not self._undo:
                return False
            if self.text() != self._written:
                self._undo = []
                raise Conflict(
                    "The file was changed elsewhere since. Undo that where it was done. Nothing was changed."
                )
            text = self._undo.pop()
            self._last, self._written = ((), 0.0), text
            self._put(text)
            return True

    def _write(self, before: str, after: str, place: Place) -> None:
        if before == after:
            return
        now = time.monotonic()
        if before != self._written:
            self._undo = []  # somebody else wrote in between; steps before that would undo it
        same = self._undo and place and place == self._last[0] and now - self._last[1] < _TOGETHER
        if not same:
            self._undo = [*self._undo[1 - _STEPS :], before]
        self._put(after)
        self._last, self._written = (place, now), after

    def _put(self, text: str) -> None:
        write_whole(self.path, text)


def _says(text: str, data: Mapping[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == data
    except ValueError:
        return False


def _refuse_conflicts(data: Any, edits: Mapping[Place, Any], was: Callable[[Place, Any], bool]) -> None:
    for place, value in edits.items():
        now = value_at(data, place)
        if not was(place, now) and now != value:
            shown = "nothing" if now is GONE else repr(now)
            raise Conflict(f"{place[-1]} was changed elsewhere meanwhile, to {shown}. Yours was not written.")


def _set(data: Any, place: Place, value: Any) -> None:
    """Set or remove a place, making the tables on the way; in plain data and in tomlkit's alike."""
    *way, last = place
    owner: Any = None
    for key, following in zip(way, place[1:], strict=True):
        if isinstance(data, MutableMapping) and key not in data:
            if value is GONE:
                return
            data[key] = _way(data, following)
        owner, data = data, data[key]
    if value is GONE:
        if isinstance(data, MutableMapping):
            data.pop(last, None)
        elif isinstance(data, list) and isinstance(last, int) and last < len(data):
            del data[last]
        if not data and owner is not None:
            del owner[way[-1]]  # tomlkit writes empty tables and lists of tables in ways that take nothing new
    elif isinstance(data, list) and isinstance(last, int) and last >= len(data):
        data.append(_item(data, value))
    else:
        data[last] = _item(data, value, inline=bool(way) and isinstance(way[-1], int))


def _way(owner: Any, following: str | int) -> Any:
    """The value of a new place on the way: a list of tables, or a table whose own heading is not written."""
    if isinstance(owner, _KEPT):
        return tomlkit.aot() if isinstance(following, int) else tomlkit.table(is_super_table=True)
    return [] if isinstance(following, int) else {}


def _item(owner: Any, value: Any, inline: bool = False) -> Any:
    """A table with its own heading, where it goes into a document that keeps comments; else the value itself."""
    if not isinstance(owner, _KEPT) or not isinstance(value, Mapping):
        return value
    table: Any = tomlkit.inline_table() if inline else tomlkit.table()
    for key, one in value.items():
        table[key] = _item(table, one, inline=True)
    return table


def _aired(before: str, after: str) -> str:
    """A blank line before headings that are new, as people write them."""
    known = set(pairwise(before.splitlines()))
    lines = after.splitlines(keepends=True)

    def crowded(above: str, line: str) -> bool:
        new = (above.rstrip("\r\n"), line.rstrip("\r\n")) not in known
        return new and bool(above.strip()) and not above.lstrip().startswith("#") and bool(_HEADING.match(line))

    return "".join(f"\n{line}" if crowded(above, line) else line for above, line in pairwise(["", *lines]))
