"""Folder: the plans and the data that the studio may open. Nothing outside of it is listed, read or written.

Two files that a plan or a person names are elsewhere: the ledger, which teams keep together, and the keys of approvals.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet.core.errors import DiscreetError
from discreet.publish.whole_file import why

__all__ = ["DATABASES", "DATA", "Folder"]

DATA = (".csv", ".csv.gz", ".csv.zst", ".tsv", ".parquet")
DATABASES = (".duckdb", ".ddb", ".db")
_DEEP, _MOST = 3, 300
_LONGEST = 120  # bytes of a new file's name, which leaves room for numbers and endings
_PLAIN = re.compile(r"[^\w. -]+")
_FILES = ("duckdb", "sqlite", "file", "csv", "parquet", "polars", "datafusion", "deltalake", "delta", "json")
"""Kinds of addresses that lead to files; others lead to servers."""


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
        if not name or Path(name).is_absolute() or not self._holds(self.root / name):
            raise _outside(name)
        return (self.root / name).resolve()

    def _holds(self, place: Path) -> bool:
        """Whether a path, links followed, is in the folder; one that the system cannot look up is not."""
        try:
            found = place.resolve()
            found.lstat()
        except (FileNotFoundError, NotADirectoryError):
            pass
        except (OSError, ValueError):  # too long, or with a character that no path holds
            return False
        return found.is_relative_to(self.root.resolve())

    def refuse_outside(self, options: Mapping[str, Any]) -> None:
        """Refuse the source of a plan, as a session opens it, where any of its files is not in the folder."""
        source, engine = str(options["source"]), str(options.get("engine") or "")
        for place in (source, *([engine] if "://" in engine else [])):
            kind, address, path = place.partition("://")
            if address and kind not in _FILES:
                continue  # a server
            if not all(map(self._holds, _meant(path if address else place))):
                raise DiscreetError(
                    f"source = {Path(place).name!r}: is outside of the folder that was opened. Open one that holds "
                    "both plan and data, or use the command line. Nothing was read."
                )
        for related in options.get("related", {}).values():
            self.refuse_outside(related)

    def refuse_output(self, directory: Path) -> None:
        """Refuse a plan whose results are not in the folder."""
        if not self._holds(directory):
            raise DiscreetError(
                f"output = {directory.name!r}: is outside of the folder that was opened. Open one that holds both plan "
                "and results, or use the command line."
            )

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
        if len(plain.encode()) > _LONGEST:
            kept = next((one for one in DATA + DATABASES if plain.lower().endswith(one)), f"{dot}{ending}"[:8])
            stem, dot, ending = stem.encode()[: _LONGEST - len(kept)].decode(errors="ignore"), "", kept
            plain = f"{stem}{ending}"
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
            # People are in it, so nobody else reads it, whatever is usual here.
            with open(part, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                async for piece in content:
                    size += len(piece)
                    if size > most:
                        raise DiscreetError(f"file = {name!r}: is larger than {most:,} bytes. Copy it into the folder.")
                    file.write(piece)
            part.rename(place)
        except FileExistsError:
            raise DiscreetError(f"file = {name!r}: is being copied already. Wait, or give it another name.") from None
        except OSError as failure:
            part.unlink(missing_ok=True)
            raise DiscreetError(f"file = {name!r}: cannot be written ({why(failure)}). Copy it here.") from None
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        return place


def _meant(path: str) -> list[Path]:
    """The files that a path stands for: itself and what is in it, or what a pattern matches."""
    found = [Path(path), *map(Path, glob.glob(path) if glob.has_magic(path) else ())]
    return [*found, *(one for folder in found if folder.is_dir() for one in folder.iterdir())]


def _outside(name: str) -> DiscreetError:
    return DiscreetError(f"file = {name!r}: is outside of the folder that was opened. Open its own folder instead.")
