"""Spilling: a private directory for what the embedded engine cannot hold in memory.

A process that is killed cannot clean up, so each one removes what dead ones left behind. A directory is alive while
its process holds a lock on it; the system releases that lock however the process ends. Other users of the machine can
put anything beside it under such a name, so only directories of this user are opened.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

__all__ = ["remove_directory", "spill_directory"]

_PREFIX = "discreet-spills-"


def spill_directory() -> tuple[Path, int | None]:
    """Make a directory that only this user can read, with its lock held; `remove_directory` takes both."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if (lock := _locked(left, wait=False)) is not None:
            remove_directory(left, lock)
    while True:
        directory = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        held = _locked(directory, wait=True)
        if directory.exists():  # and not taken for abandoned before it was locked
            return directory, held
        remove_directory(directory, held)


def _locked(directory: Path, *, wait: bool) -> int | None:
    """A handle that holds the lock on a directory of this user; None where others hold it, or no lock can be had."""
    with suppress(OSError):
        # Windows opens no directory, and refuses to remove files in use. What is no directory is not even opened:
        # a pipe would wait for its other end.
        if sys.platform != "win32" and os.lstat(directory).st_uid == os.getuid():
            import fcntl

            handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(handle)
                raise
            return handle
    return None


def remove_directory(directory: Path, held: int | None) -> None:
    """Remove a directory, then release its lock: whoever waits for it must find the directory gone."""
    shutil.rmtree(directory, ignore_errors=True)
    if held is not None:
        os.close(held)
