"""Folder: the plans and the data that the studio may open. Nothing outside of it is listed, read or written."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from discreet.core.errors import DiscreetError

__all__ = ["DATABASES", "DATA", "Folder"]

DATA = (".csv", ".csv.gz", ".csv.zst", ".tsv", ".parquet")
DATABASES = (".duckdb", ".ddb", ".db")
_DEEP, _MOST = 3, 300
_PLAIN = re.compile(r"[^\w. -]+")


@dataclass(frozen=True)
class Folder:
    """The folder that the studio serves.

    Parameters
    ----------
    root
        The folder. Paths that lead out of it, also by links, are refused.
    """

    root: Path

    def inside(self, name: str) -> Path:
        """A path in the folder, from its name as seen from there."""
        if not name or "\0" in name or Path(name).is_absolute():
            raise _outside(name)
        place = (self.root / name).resolve()
        if not place.is_relative_to(self.root.resolve()):
            raise _outside(name)
        return place

    def plan(self, name: str) -> Path:
        """A plan file in the folder."""
        place = self.inside(name)
        if place.suffix.lower() != ".toml" or not place.is_file():
            raise DiscreetError(f"plan = {name!r}: there is no such plan here. Choose one from the list.")
        return place

    def data(self, name: str) -> Path:
        """A data file or a database in the folder."""
        place = self.inside(name)
        if not place.name.lower().endswith(DATA + DATABASES) or not place.exists():
            raise DiscreetError(f"file = {name!r}: there is no such data here. Choose a file from the list.")
        return place

    def plans(self) -> list[str]:
        """The plans in the folder."""
        return self._listed((".toml",))

    def sources(self) -> list[str]:
        """The data files and databases in the folder."""
        return self._listed(DATA + DATABASES)

    def _listed(self, endings: tuple[str, ...]) -> list[str]:
        found: list[str] = []
        for here, folders, files in os.walk(self.root):
            place = Path(here).relative_to(self.root)
            hidden = len(place.parts) >= _DEEP
            folders[:] = [] if hidden else sorted(one for one in folders if not one.startswith((".", "node_modules")))
            own = sorted(one for one in files if one.lower().endswith(endings) and not one.startswith("."))
            found += [str(place / one) for one in own if one != "pyproject.toml"]
            if len(found) > _MOST:
                break
        return found[:_MOST]

    def new(self, name: str) -> Path:
        """A path for a new file: plain letters, and a number where the name is taken."""
        plain = _PLAIN.sub("-", Path(name.replace("\\", "/")).name).strip(" .-") or "file"
        stem, dot, ending = plain.partition(".")
        number, place = 1, self.root / plain
        while place.exists():
            number += 1
            place = self.root / f"{stem}-{number}{dot}{ending}"
        return place

    async def keep(self, name: str, content: AsyncIterator[bytes], most: int) -> Path:
        """Store an uploaded data file; a part of one is never left behind."""
        if not name.lower().endswith(DATA + DATABASES):
            raise DiscreetError(f"file = {name!r}: must end in {', '.join(DATA + DATABASES)}.")
        place, size = self.new(name), 0
        part = place.with_name(f".{place.name}.part")
        try:
            with part.open("xb") as file:
                async for piece in content:
                    size += len(piece)
                    if size > most:
                        raise DiscreetError(f"file = {name!r}: is larger than {most:,} bytes. Copy it into the folder.")
                    file.write(piece)
            part.rename(place)
        finally:
            part.unlink(missing_ok=True)
        return place


def _outside(name: str) -> DiscreetError:
    return DiscreetError(f"file = {name!r}: is outside of the folder that was opened. Open its own folder instead.")
