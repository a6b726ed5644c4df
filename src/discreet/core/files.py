"""Regular file: open what others may have put in its place, without waiting, and say in words what went wrong.

A FIFO, a device or a socket under the name of a file would hang a run or be read without end. A link would let
somebody else choose which file is written.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

_CAREFULLY = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
_REASONS = {
    errno.ENOSPC: "the disk is full. Free some space and try again.",
    errno.EDQUOT: "the disk quota is used up. Free some space and try again.",
    errno.EFBIG: "the file may not grow any more. Raise the limit on file sizes.",
    errno.EACCES: "permission denied: the file or its directory is read-only. Check the permissions.",
    errno.EROFS: "the file system is read-only. Use another place.",
    errno.ENOENT: "there is no such file. Check the path.",
    errno.ELOOP: "it is a symbolic link. Remove the link, or name the file that it leads to.",
    errno.EISDIR: "it is a directory. Pass the path of a file.",
    errno.ENAMETOOLONG: "its name is too long. Choose a shorter one.",
}


class NotRegular(OSError):
    """There is something under this name, but no file that can be used; the text says what."""


def open_regular(path: str | os.PathLike[str], flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
    """Open a regular file; anything else under its name, a link too, raises `OSError` at once."""
    with suppress(FileNotFoundError):  # it may be about to be created
        _check(os.lstat(path))  # before it is opened: to open a device may do something
    handle = os.open(path, flags | _CAREFULLY, mode)
    try:
        _check(os.fstat(handle))  # what was opened, whatever was there before
    except BaseException:
        os.close(handle)
        raise
    return handle


def read_regular(path: str | os.PathLike[str], most: int, *, follow: bool = True) -> bytes:
    """The content of a regular file of at most so many bytes; a link that somebody names is followed, on demand not."""
    handle = open_regular(os.path.realpath(path) if follow else path)
    with open(handle, "rb") as file:
        small = os.fstat(handle).st_size <= most
        content = file.read(most + 1) if small else b""  # it may grow while it is read
    if not small or len(content) > most:
        raise NotRegular(errno.EFBIG, f"it is larger than {most // 1_000_000} MB. Name a smaller file.")
    return content


def _check(status: os.stat_result) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind not in (stat.S_IFREG, stat.S_IFLNK):  # a link is refused when it is opened
        words = "it is a directory" if kind == stat.S_IFDIR else "it is a FIFO, a device or a socket"
        raise NotRegular(errno.EINVAL, f"{words}. Pass the path of a file.")


def reason(error: Exception) -> str:
    """The reason for an error with a file, and its remedy, in words.

    Examples
    --------
    >>> reason(OSError(errno.ENOSPC, "No space left on device"))
    'the disk is full. Free some space and try again.'
    """
    if not isinstance(error, OSError):  # what it says may quote the file
        return f"it is malformed ({type(error).__name__}). Check the file."
    told = error.strerror or type(error).__name__
    if isinstance(error, NotRegular):
        return told
    return _REASONS.get(error.errno or 0, f"{told}. Check the path, the disk and its permissions.")
