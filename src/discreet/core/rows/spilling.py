"""Spilling: a private directory for what the embedded engine cannot hold in memory.

A process that is killed cannot clean up, so each one removes what dead ones left behind. A directory is alive while
its process holds the lock on the file inside; the system releases that lock however the process ends.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

__all__ = ["remove_directory", "spill_directory"]

_PREFIX = "discreet-spill-"
_LOCK = "alive"
_UNNAMED = "being-made"
"""The lock file before its lock is held: under its own name, another process could find it free and sweep it away."""


def spill_directory() -> tuple[Path, IO[bytes] | None]:
    """Make a directory that only this user can read, with its lock held; `remove_directory` takes both."""
    _sweep(Path(tempfile.gettempdir()))
    directory = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    held = _locked(directory / _UNNAMED)
    with suppress(OSError):  # Windows renames no open file, and removes none either
        os.replace(directory / _UNNAMED, directory / _LOCK)
    return directory, held


def _sweep(parent: Path) -> None:
    """Remove the directories of dead processes. One without a lock file is just being made, or is not ours."""
    for directory in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if (directory / _LOCK).exists() and (held := _locked(directory / _LOCK)) is not None:
                remove_directory(directory, held)


def _locked(path: Path) -> IO[bytes] | None:
    """The open file with its lock held; None where another process holds it, or no lock can be had."""
    try:
        import fcntl
    except ImportError:  # Windows refuses to remove files in use, so it needs no lock
        return path.open("ab")
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


def remove_directory(directory: Path, held: IO[bytes] | None) -> None:
    """Remove a directory and release its lock."""
    if held is not None:
        held.close()
    shutil.rmtree(directory, ignore_errors=True)
