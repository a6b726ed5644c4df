"""Journal in a file: one line an entry, appended and flushed under a lock on the file itself.

The lock belongs to the file and not to its name, and there are no other files that must stay together with it: links,
mounts and second names of the file all lead to one ledger. Beside it lies a *witness*, ``<file>-head``: position and
hash of the last entries, which tells when the end of the file was lost or an old copy was put in its place. See
``docs/decisions/ledger-durability.md``.
"""

from __future__ import annotations

import errno
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress

from discreet.core.errors import LedgerCorrupted, LedgerMismatch, LedgerUnavailable
from discreet.core.ledger.journal import Entry, Journal

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["FileJournal"]

_HEADER = b"discreet ledger 2\n"
_BLOCK = 1000
_REASONS = {
    errno.ENOSPC: "the disk is full. Free some space and try again.",
    errno.EDQUOT: "the disk quota is used up. Free some space and try again.",
    errno.EFBIG: "the file may not grow any more. Raise the limit on file sizes.",
    errno.EACCES: "permission denied: the file or its directory is read-only. Check the permissions.",
    errno.EROFS: "the file system is read-only. Use another place.",
}


class FileJournal(Journal):
    """Entries in a file of one host."""

    def __init__(self, path: str, *, timeout: float, read_only: bool) -> None:
        super().__init__(os.path.realpath(path), read_only=read_only)
        self.timeout = timeout
        self._handle: int | None = None
        self._file: tuple[int, int] | None = None
        self._ends = [len(_HEADER)]
        """Where each entry ends that was found so far; the header first."""
        self._flushed = 0
        if not os.path.isdir(os.path.dirname(self.where)):
            raise LedgerUnavailable(f"the directory of {self.where} does not exist. Create it first.")
        if os.path.isdir(self.where):
            raise LedgerUnavailable(f"{self.where} is a directory. Pass the path of a file.")

    # -- the file ------------------------------------------------------------------------------------------

    def handle(self) -> int:
        """The open file of this process."""
        if self._handle is None:
            self._owner = os.getpid()
            self._handle = self._open()
        elif self._owner != os.getpid():  # parent and child would share one lock
            raise LedgerUnavailable(
                "the process was forked in the middle of a ledger's step. Open the ledger again in the child."
            )
        return self._handle

    def _open(self) -> int:
        flags = os.O_RDONLY if self.read_only else os.O_RDWR | os.O_CREAT
        try:
            handle = os.open(self.where, flags | getattr(os, "O_BINARY", 0), 0o666)
        except OSError as error:
            raise self._explained(error) from error
        self._share(handle)
        return handle

    def _share(self, handle: int) -> None:
        """Let the group write where the directory gives its group to all that is in it, whatever the umask says."""
        with suppress(OSError, AttributeError):  # another's file has its mode already, and not every system has groups
            if os.stat(os.path.dirname(self.where)).st_mode & 0o2020 == 0o2020:
                os.fchmod(handle, 0o664)

    def suspend(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def _explained(self, error: OSError) -> LedgerUnavailable:
        reason = _REASONS.get(error.errno or 0, f"{error.strerror}. Check the path, the disk and its permissions.")
        return LedgerUnavailable(f"the ledger {self.where} cannot be used: {reason} Nothing was drawn.")

    def _check_name(self) -> None:
        """Refuse where the name no longer leads to the file that was opened: entries would go nowhere."""
        opened, named = _identity(self.handle()), _identity(self.where)
        self._file = self._file or opened
        if not opened == named == self._file:
            raise LedgerUnavailable(
                f"the ledger {self.where} was moved, deleted or replaced while it was open. Put it back and open it "
                "again; nothing was drawn."
            )

    # -- reading -------------------------------------------------------------------------------------------

    def is_empty(self) -> bool:
        if not os.path.exists(self.where):  # looking creates no file
            return True
        begin = self._bytes(0, len(_HEADER))
        if _HEADER.startswith(begin):  # a header that is cut short is a creation that was
            return b"\n" not in self._bytes(len(_HEADER), 1 << 20)
        found = "a ledger of another version" if begin.startswith((b"discreet", b"SQLite")) else "another kind of file"
        raise LedgerMismatch(f"{self.where} is {found}. Choose another path; the file was not changed.")

    def entries(self, after: int = 0) -> Iterator[Entry]:
        if after == 0:  # from scratch: nothing that was seen before is taken for granted
            self._ends = [len(_HEADER)]
        self._scan()
        for start in range(after, len(self._ends) - 1, _BLOCK):
            yield from self._parsed(start, min(start + _BLOCK, len(self._ends) - 1))

    def entry(self, seq: int) -> Entry | None:
        if seq >= len(self._ends):
            self._scan()
        return self._parsed(seq - 1, seq)[0] if 0 < seq < len(self._ends) else None

    def _parsed(self, after: int, last: int) -> list[Entry]:
        """The entries behind a position, up to another."""
        lines = self._bytes(self._ends[after], self._ends[last]).decode("ascii", "replace").split("\n")
        if len(lines) != last - after + 1 or lines[-1]:  # the bytes were lines when they were found
            raise LedgerCorrupted(f"{self.where}, entry {last}: it is not the one seen before. Restore the ledger.")
        split = ([*line.split(" ", 2), "", ""] for line in lines[:-1])
        return [Entry(seq, kind, body, digest) for seq, (digest, kind, body, *_) in enumerate(split, after + 1)]

    def _bytes(self, start: int, end: int) -> bytes:
        """The bytes from one place to another, or to the end of the file."""
        handle = self.handle()
        parts, missing = [], end - start
        os.lseek(handle, start, os.SEEK_SET)
        while missing > 0 and (part := os.read(handle, missing)):
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def _scan(self) -> bytes:
        """Find the entries that were appended; return what lies behind the last one.

        Usually nothing. What was being written when a process died or the power failed was not flushed, so nothing
        was drawn for it: part of a line, or, where blocks of it did not reach the disk, one with zeros in it.
        """
        rest = b""
        while block := self._bytes(start := self._ends[-1] + len(rest), start + (1 << 20)):
            *lines, rest = (rest + block).split(b"\n")
            for place, line in enumerate(lines):
                if b"\0" in line:
                    return self._torn(lines[place:], rest)
                self._ends.append(self._ends[-1] + len(line) + 1)
        if self._ends[-1] > self._flushed and not self.read_only:
            self._flush()  # its writer may have died before: nobody may act on an entry that is not on the disk
        return rest

    def _flush(self) -> None:
        os.fsync(self.handle())
        self._flushed = self._ends[-1]

    def _torn(self, lines: list[bytes], rest: bytes) -> bytes:
        if len(lines) > 1 or rest:
            raise LedgerCorrupted(
                f"{self.where}, entry {len(self._ends)}: it is damaged. Restore the ledger from a copy that includes "
                "the last release."
            )
        return lines[0] + b"\n"

    # -- writing -------------------------------------------------------------------------------------------

    def create(self, first: Entry) -> None:
        self.write(lambda: first if self.is_empty() else None)  # unless another process was faster
        with suppress(OSError):  # the new name is durable, too, where a directory can be flushed
            directory = os.open(os.path.dirname(self.where), os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)

    def write(self, decide: Callable[[], Entry | None]) -> Entry | None:
        try:
            try:
                return self._written(decide)
            finally:
                self.recover()
        except LedgerUnavailable:  # it is an OSError, too
            raise
        except OSError as error:
            raise self._explained(error) from error
        finally:
            self.recover()  # again, for an interrupt between two lines above: others must not wait for our lock

    def _written(self, decide: Callable[[], Entry | None]) -> Entry | None:
        self._lock()
        self._check_name()
        entry = decide()
        if entry is not None:
            self._append(entry)
            self._check_name()
        return entry

    def _append(self, entry: Entry) -> None:
        """Write one line and flush it, over what a crash may have left behind the last one."""
        torn = self._scan()
        if torn and max(self.witness(), default=0) >= entry.seq:
            raise LedgerCorrupted(f"{self.where}, entry {entry.seq}: it is damaged. Restore the ledger from a copy.")
        place, header = (0, _HEADER) if entry.seq == 1 else (self._ends[-1], b"")
        text = header + f"{entry.hash} {entry.kind} {entry.body}\n".encode("ascii")
        if torn:
            os.truncate(self.handle(), place)
        os.lseek(self.handle(), place, os.SEEK_SET)
        while text:
            text = text[os.write(self.handle(), text) :]
        self._scan()

    def _lock(self) -> None:
        """Keep everybody else out: other processes, other hosts of a cluster file system, other ledger objects."""
        deadline = time.monotonic() + self.timeout
        while not _locked(self.handle()):
            if time.monotonic() > deadline:
                raise LedgerUnavailable(
                    f"the ledger {self.where} cannot be used: another process held its lock for more than "
                    f"{self.timeout:g} s. Try again. Nothing was drawn."
                )
            time.sleep(0.0005)

    def recover(self) -> None:
        super().recover()
        if self._handle is not None and not self.read_only:
            _unlock(self.handle())  # as often as one likes, so an interrupt around here does no harm

    # -- the witness ---------------------------------------------------------------------------------------

    def attest(self, entry: Entry) -> None:
        """Note a flushed entry in the witness.

        Not flushed: the entry itself is, so the witness may lag behind and never runs ahead. A failure is
        ignored for the same reason: an older witness is still true. Each entry has a slot of its own, so that
        two processes need no order among them.
        """
        with suppress(OSError):
            handle = os.open(f"{self.where}-head", _WRITE, 0o666)
            try:
                self._share(handle)
                size = os.fstat(handle).st_size
                os.lseek(handle, entry.seq % _SLOTS * _SLOT, os.SEEK_SET)
                if os.write(handle, _slot(entry.seq, entry.hash)) < _SLOT:
                    os.ftruncate(handle, size)  # no room: half a slot would look like damage
            finally:
                os.close(handle)

    def witness(self) -> dict[int, str]:
        for attempt in range(4):
            try:
                with open(f"{self.where}-head", "rb") as file:
                    return _witnessed(file.read())
            except FileNotFoundError:
                return {}
            except OSError as error:
                raise self._explained(error) from error
            except ValueError:
                time.sleep(0.002 * attempt)  # it may be half written
        raise LedgerCorrupted(
            f"{self.where}-head is damaged. It is a second record of the last entries: compare the ledger's head "
            "with a copy you trust, then delete this file."
        )


_SLOTS, _SLOT = 32, 128
_WRITE = os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0)


def _slot(seq: int, digest: str) -> bytes:
    text = f"{seq:020d} {digest}".encode("latin-1")
    return (text + b" %08x" % zlib.crc32(text)).ljust(_SLOT - 1) + b"\n"


def _witnessed(record: bytes) -> dict[int, str]:
    """What the slots say; ValueError where one of them is damaged. An empty slot says nothing."""
    found: dict[int, str] = {}
    for start in range(0, len(record), _SLOT):
        slot = record[start : start + _SLOT]
        if slot.strip(b"\0"):
            seq, digest = int(slot[:20]), slot[21:85].decode("latin-1")
            if slot != _slot(seq, digest) or seq % _SLOTS != start // _SLOT:
                raise ValueError("damaged")
            found[seq] = digest
    return found


def _identity(file: int | str) -> tuple[int, int] | None:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _locked(handle: int) -> bool:
    """Try to lock the file; whether that worked."""
    try:
        if sys.platform == "win32":
            os.lseek(handle, _FAR, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _unlock(handle: int) -> None:
    if sys.platform == "win32":
        with suppress(OSError):
            os.lseek(handle, _FAR, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)
    else:
        fcntl.flock(handle, fcntl.LOCK_UN)


_FAR = 1 << 40
"""Windows locks bytes, and forbids others to read them: one that no ledger reaches."""
