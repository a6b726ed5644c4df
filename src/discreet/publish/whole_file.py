"""Whole file: write all of a file or nothing of it.

The content is written under a name of its own first, which begins with a dot. A process that is killed meanwhile leaves
that file behind; whoever writes the same file next removes it. One that is being written is locked, and stays.
"""

from __future__ import annotations

import errno
import glob
import os
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

from discreet.core.errors import DiscreetError
from discreet.core.regular_file import reason

if sys.platform != "win32":
    import fcntl

__all__ = ["why", "write_new", "write_whole"]

_FULL = (errno.ENOSPC, errno.EDQUOT)


def why(failure: Exception) -> str:
    """What the system had against reading or writing a file, in words that quote nothing of it.

    Examples
    --------
    >>> why(OSError(errno.ENOSPC, "No space left on device")), why(OSError(errno.ENAMETOOLONG, "File name too long"))
    ('the disk is full', 'file name too long')
    """
    if not isinstance(failure, OSError) or failure.errno is None:
        return type(failure).__name__
    return "the disk is full" if failure.errno in _FULL else os.strerror(failure.errno).lower()


def write_whole(path: Path, content: str | bytes) -> Path:
    """Write a file, flushed, in one step: a reader sees the old content or the new one."""
    try:
        return _written_whole(path, content)
    except OSError as failure:
        raise DiscreetError(f"{path}: cannot be written: {reason(failure)}") from failure


def _written_whole(path: Path, content: str | bytes) -> Path:
    _remove_abandoned(path)
    file, name = _unfinished(path)
    try:
        with file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
            os.chmod(name, _permissions(path))
            if sys.platform != "win32":
                os.replace(name, path)  # with the lock held
        if sys.platform == "win32":
            os.replace(name, path)  # it renames no open file, and has no such locks
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return path


def _permissions(path: Path) -> int:
    with suppress(OSError):
        return stat.S_IMODE(path.stat().st_mode)
    return 0o644


def _unfinished(path: Path) -> tuple[IO[bytes], str]:
    """A new file beside another, locked where the system has locks."""
    while True:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-", suffix=".part")
        if not _locked(handle, wait=True) or os.path.exists(name):
            return os.fdopen(handle, "wb"), name
        os.close(handle)  # it was taken for abandoned before it was locked


def _remove_abandoned(path: Path) -> None:
    """Remove what killed writers of a file left: what nobody holds a lock on."""
    for left in path.parent.glob(f".{glob.escape(path.name)}-*.part"):
        with suppress(OSError):
            if not stat.S_ISREG(left.lstat().st_mode):
                continue  # no file of ours: to open a pipe or a device may wait, or do something
            handle = os.open(left, os.O_RDWR)
            try:
                if _locked(handle, wait=False):
                    left.unlink()
            finally:
                os.close(handle)


def _locked(handle: int, *, wait: bool) -> bool:
    """Lock a file; whether that worked. It is released however the process ends."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def write_new(path: Path, text: str) -> None:
    """Write a file that must not be there yet."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise DiscreetError(f"out = {str(path)!r}: exists already. Choose another name.") from None
    except OSError as failure:
        raise DiscreetError(f"out = {str(path)!r}: cannot be written: {reason(failure)}") from None
