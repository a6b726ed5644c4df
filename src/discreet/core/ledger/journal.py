"""Journal: an append-only list of entries, each bound to all before it by a hash, durable before it counts.

Where the entries are kept is a journal's own business: in memory, in a file, or on a server that several hosts share
(`postgres_journal`). What they mean is the balance's.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import sys
import tempfile
import threading
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import FrameType
from typing import Any, NamedTuple, TypeVar
from weakref import WeakSet

from discreet.core.errors import InvalidParameter, LedgerCorrupted, LedgerMismatch, LedgerUnavailable, WrongType
from discreet.core.files import open_regular, read_regular, reason

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


ROOT = "0" * 64
"""The hash before the first entry."""


class Entry(NamedTuple):
    """One row: its position, its kind, its content as canonical JSON, and the hash of everything up to it."""

    seq: int
    kind: str
    body: str
    hash: str

    @property
    def content(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)


_SECRET = re.compile('"secret":"([0-9a-f]{64})"')


def canonical(name: str, content: Any) -> str:
    """One text for one content: sorted keys, no spaces, ASCII, no NaN; refuses what is not JSON."""
    try:
        return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, RecursionError):
        raise WrongType(
            name, content, "must be made of JSON values", "Use dict, list, str, int, float, bool and None."
        ) from None
    except ValueError:
        raise InvalidParameter(
            name, content, "must not contain NaN, infinity or a cycle", "Write such values as text."
        ) from None


def chained(previous: str, seq: int, kind: str, body: str) -> str:
    """The hash of an entry. Position and kind hold no line break, so the text is unambiguous."""
    return sealed(previous, seq, kind, digest_of_body(without_secret(body) if kind == "open" else body))


def without_secret(body: str) -> str:
    """The body of a first entry with the hash of its secret in the secret's place: what an excerpt may show."""
    return _SECRET.sub(
        lambda found: f'"secret_hash":"{hashlib.sha256(bytes.fromhex(found[1])).hexdigest()}"', body, count=1
    )


def digest_of_body(body: str) -> str:
    """The hash that stands for a body in the hash of its entry."""
    return hashlib.sha256(body.encode()).hexdigest()


def sealed(previous: str, seq: int, kind: str, digest: str) -> str:
    """The hash of an entry by the digest of its body: an excerpt may keep the body of an entry to itself."""
    return hashlib.sha256(f"{previous}\n{seq}\n{kind}\n{digest}".encode()).hexdigest()


class Journal(ABC):
    """Where entries are kept. One thread at a time uses it; the ledger sees to that, with ``lock``."""

    def __init__(self, where: str, *, timeout: float = 0.0, read_only: bool = False) -> None:
        self.where, self.timeout, self.read_only = where, timeout, read_only
        self.lock = threading.RLock()
        self.user: FrameType | None = None
        """The call that uses the journal now; one that an interrupt ended may still be named."""
        self._owner, self._closed = os.getpid(), False
        _JOURNALS.add(self)

    @abstractmethod
    def is_empty(self) -> bool:
        """True where nothing is there yet; refuses anything but a ledger."""

    @abstractmethod
    def create(self, first: Entry) -> None:
        """Begin with the first entry, unless another process was faster."""

    @abstractmethod
    def write(self, decide: Callable[[], Entry | None]) -> Entry | None:
        """One atomic step: append what ``decide`` returns, which may read, and keep everybody else out meanwhile.

        The entry is durable when this returns. After an error or an interrupt, at whatever line, the step left
        either nothing or a whole entry, and after the next `recover` no lock.
        """

    @abstractmethod
    def entries(self, after: int = 0) -> Iterator[Entry]:
        """The entries behind a position, in order."""

    @abstractmethod
    def entry(self, seq: int) -> Entry | None:
        """The entry at a position."""

    def interrupted(self) -> bool:
        """True where a signal handler makes this call in the middle of a use by its own thread."""
        here = None if self.user is None else sys._getframe()
        while here is not None and here is not self.user:
            here = here.f_back
        return here is not None

    def recover(self) -> None:
        """End what an interrupt left open; called before each use."""
        self.release()
        if self._closed:
            raise LedgerUnavailable("the ledger is closed. Open it again; nothing was spent.")

    def release(self) -> None:  # noqa: B027  (most stores have nothing to do)
        """Give up the lock of a step and what the step has opened; as often as one likes."""

    def witness(self) -> Mapping[int, str]:
        """Positions and hashes of recent entries that are noted a second time, elsewhere."""
        return {}

    def attest(self, entry: Entry) -> None:  # noqa: B027  (most stores have nothing to do)
        """Note a durable entry a second time."""

    def checkpoint(self) -> Any:
        """The state that was kept last, where it belongs to the entries that are there; None where there is none."""
        return None

    def keep(self, state: Mapping[str, Any]) -> None:  # noqa: B027  (most stores have nothing to do)
        """Keep a state of the entries up to one of them, so that opening need not read them all."""

    def check_structure(self) -> None:  # noqa: B027  (most stores have nothing to do)
        """Let the store check itself."""

    def forget(self) -> None:  # noqa: B027  (most stores have nothing to do)
        """Lead nowhere what the parent has opened; called in the child of a fork before anything else."""

    def close(self) -> None:
        """Close for good; a step that a signal handler interrupts ends first."""
        self._closed = True
        if not self.interrupted():
            with self.lock:
                self.release()

    def __del__(self) -> None:
        with suppress(Exception):  # the interpreter may be half gone
            self.close()


_JOURNALS: WeakSet[Journal] = WeakSet()


def forked() -> LedgerUnavailable:
    """The refusal of a step that goes on in the child of a fork."""
    return LedgerUnavailable(
        "the process was forked in the middle of a ledger's step, which goes on in the parent alone. Spend after the "
        "fork in the child. Nothing was drawn here."
    )


def _after_fork() -> None:
    """In the child: let go of what the parent has open, and of locks whose threads are no more."""
    for journal in list(_JOURNALS):
        journal.forget()
        if journal.lock.acquire(blocking=False):
            journal.lock.release()
        else:
            journal.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class MemoryJournal(Journal):
    """Entries of one process, for studies."""

    def __init__(self, entries: list[Entry] | None = None) -> None:
        super().__init__(":memory:")
        self.kept: list[Entry] = [] if entries is None else entries

    def is_empty(self) -> bool:
        return not self.kept

    def create(self, first: Entry) -> None:
        self.kept.append(first)

    def recover(self) -> None:
        super().recover()
        if self._owner != os.getpid():
            raise LedgerUnavailable(
                "an in-memory ledger cannot be used in a forked process: both copies would spend the same "
                "budget. Use a ledger in a file; nothing was spent."
            )

    def write(self, decide: Callable[[], Entry | None]) -> Entry | None:
        entry = decide()
        if entry is not None:
            self.kept.append(entry)
        return entry

    def entries(self, after: int = 0) -> Iterator[Entry]:
        return iter(self.kept[after:])

    def entry(self, seq: int) -> Entry | None:
        return self.kept[seq - 1] if 0 < seq <= len(self.kept) else None


# ---- Journal in a file: one line an entry, appended and flushed under a lock on the file itself.
#
# The lock belongs to the file and not to its name, and there are no other files that must stay together with it: links,
# mounts and second names of the file all lead to one ledger. Beside it lies a *witness*, ``<file>-head``: position and
# hash of the last entries, which tells when the end of the file was lost or an old copy was put in its place. See
# ``docs/decisions/ledger-durability.md``.


T = TypeVar("T")
_HEADER = b"discreet ledger 2\n"
_BLOCK = 1000
_PART = 1 << 24
_LONGEST = 1 << 27
"""Bytes of an entry. More in one line is no entry: nobody has to read it to its end."""


class _Step(NamedTuple):
    """The file of a step: open, locked, and of one process."""

    handle: int
    process: int


class FileJournal(Journal):
    """Entries in a file of one host."""

    def __init__(self, path: str, *, timeout: float, read_only: bool) -> None:
        self._step: _Step | None = None
        """The open step, which can be written to; None outside a step."""
        super().__init__(os.path.realpath(path), timeout=timeout, read_only=read_only)
        self._file: tuple[int, int] | None = None
        self._ends = [len(_HEADER)]
        """Where each entry ends that was found so far; the header first."""
        self._flushed = 0
        if not os.path.isdir(os.path.dirname(self.where)):
            raise LedgerUnavailable(f"the directory of {self.where} does not exist. Create it first.")

    # -- the file ------------------------------------------------------------------------------------------

    def _opened(self, flags: int = 0) -> int:
        """The file, opened once more; refuses another one than before."""
        try:
            handle = open_regular(self.where, flags | (os.O_RDONLY if self.read_only else os.O_RDWR))
        except OSError as error:
            gone = self._file is not None and isinstance(error, FileNotFoundError)
            raise self._moved() if gone else self._explained(error) from error
        found = _identity(handle)
        self._file = self._file or found
        if found != self._file:
            os.close(handle)
            raise self._moved()
        return handle

    def _with_file(self, work: Callable[[int], T]) -> T:
        """Do something with the file that the step has locked; outside of steps with one opened for this alone."""
        if self._step is not None:
            return work(self._step.handle)
        handle = self._opened()
        try:
            return work(handle)
        except OSError as error:
            raise self._explained(error) from error
        finally:
            os.close(handle)

    def forget(self) -> None:
        if self._step is not None:
            # The number stays taken and leads nowhere, whatever instruction the fork has hit.
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, self._step.handle, inheritable=False)
            os.close(nothing)

    def _share(self, handle: int) -> None:
        """Let the group write where the directory gives its group to all that is in it, whatever the umask says."""
        with suppress(OSError, AttributeError):  # another's file has its mode already, and not every system has groups
            if os.stat(os.path.dirname(self.where)).st_mode & 0o2020 == 0o2020:
                os.fchmod(handle, 0o664)

    def _explained(self, error: OSError) -> LedgerUnavailable:
        return LedgerUnavailable(f"the ledger {self.where} cannot be used: {reason(error)} Nothing was drawn.")

    def _moved(self) -> LedgerUnavailable:
        return LedgerUnavailable(
            f"the ledger {self.where} was moved, deleted or replaced while it was open. Put it back and open it "
            "again; nothing was drawn."
        )

    def _check_name(self) -> None:
        """Refuse where the name no longer leads to the file of the step: entries would go nowhere."""
        if self._step is None or self._step.process != os.getpid():
            raise forked()
        if not _identity(self._step.handle) == _identity(self.where) == self._file:
            raise self._moved()

    # -- reading -------------------------------------------------------------------------------------------

    def is_empty(self) -> bool:
        if not os.path.exists(self.where):  # looking creates no file
            return True
        begin = self._bytes(0, len(_HEADER))
        if not _HEADER.startswith(begin):  # a header that is cut short is a creation that was
            ours = begin.startswith((b"discreet", b"SQLite"))
            other = "a ledger of another version" if ours else "another kind of file"
            raise LedgerMismatch(f"{self.where} is {other}. Choose another path; the file was not changed.")
        place = len(_HEADER)
        while block := self._bytes(place, place + (1 << 20)):
            if b"\n" in block:
                return False
            place += len(block)
            self._check_length(place)
        return True

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
        return self._with_file(lambda handle: _read(handle, start, end))

    def _scan(self) -> bytes:
        """Find the entries that were appended; return what lies behind the last one.

        Usually nothing. What was being written when a process died or the power failed was not flushed, so nothing
        was drawn for it: part of a line, or, where blocks of it did not reach the disk, one with zeros in it.
        """
        rest = b""
        while block := self._bytes(start := self._ends[-1] + len(rest), start + max(len(rest), 1 << 20)):
            *lines, rest = (rest + block).split(b"\n")
            for place, line in enumerate(lines):
                if b"\0" in line:
                    return self._torn(lines[place:], rest)
                self._ends.append(self._ends[-1] + len(line) + 1)
            self._check_length(len(rest))
        if self._ends[-1] > self._flushed and not self.read_only:
            self._flush()  # its writer may have died before: nobody may act on an entry that is not on the disk
        return rest

    def _check_length(self, length: int) -> None:
        if length > _LONGEST:
            raise LedgerCorrupted(
                f"{self.where}, entry {len(self._ends)}: it has more than {_LONGEST >> 20} MiB, which no entry has. "
                "Restore the ledger from a copy."
            )

    def _flush(self) -> None:
        self._with_file(_flush)
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
        self.write(lambda: first if self.is_empty() else None, os.O_CREAT)  # unless another process was faster
        with suppress(OSError):  # the new name is durable, too, where a directory can be flushed
            directory = os.open(os.path.dirname(self.where), os.O_RDONLY)
            try:
                _flush(directory)
            finally:
                os.close(directory)

    def write(self, decide: Callable[[], Entry | None], flags: int = 0) -> Entry | None:
        try:
            try:
                return self._written(decide, flags)
            finally:
                self.release()
        except LedgerUnavailable:  # it is an OSError, too
            raise
        except OSError as error:
            raise self._explained(error) from error
        finally:
            self.release()  # again, for an interrupt between two lines above: others must not wait for our lock

    def _written(self, decide: Callable[[], Entry | None], flags: int) -> Entry | None:
        process = os.getpid()  # before the file is opened: a fork from here on leaves the child a step of its parent
        self._step = _Step(self._opened(flags), process)
        self._lock(self._step)
        self._check_name()
        if flags:
            self._share(self._step.handle)
        entry = decide()
        if entry is not None:
            self._append(self._step.handle, entry)
            self._check_name()
        return entry

    def _append(self, handle: int, entry: Entry) -> None:
        """Write one line and flush it, over what a crash may have left behind the last one."""
        torn = self._scan()
        if torn and max(self.witness(), default=0) >= entry.seq:
            raise LedgerCorrupted(f"{self.where}, entry {entry.seq}: it is damaged. Restore the ledger from a copy.")
        place, header = (0, _HEADER) if entry.seq == 1 else (self._ends[-1], b"")
        text = header + f"{entry.hash} {entry.kind} {entry.body}\n".encode("ascii")
        if len(text) > _LONGEST:
            raise LedgerUnavailable(
                f"the ledger {self.where} holds at most {_LONGEST >> 20} MiB in one entry, and this one has more. Ask "
                "for less at once. Nothing was drawn."
            )
        if torn:
            os.truncate(handle, place)
        while text:
            written = _put(handle, text, place)
            text, place = text[written:], place + written
        self._scan()

    def _lock(self, step: _Step) -> None:
        """Keep everybody else out: other processes, other hosts of a cluster file system, other ledger objects."""
        deadline = time.monotonic() + self.timeout
        while step.process == os.getpid() and not _locked(step.handle):
            if time.monotonic() > deadline:
                raise LedgerUnavailable(
                    f"the ledger {self.where} cannot be used: another process held its lock for more than "
                    f"{self.timeout:g} s. Try again. Nothing was drawn."
                )
            time.sleep(0.0005)

    def release(self) -> None:
        step = self._step
        if step is not None:
            if step.process == os.getpid():  # a child would give up the lock of its parent
                _unlock(step.handle)  # as often as one likes, so an interrupt around here does no harm
            self._step = None
            os.close(step.handle)

    # -- the checkpoint ------------------------------------------------------------------------------------

    def checkpoint(self) -> Any:
        with suppress(OSError, LookupError, TypeError, ValueError):
            with open(open_regular(f"{self.where}-state"), "rb") as file:
                own = sys.platform == "win32" or os.fstat(file.fileno()).st_uid == os.geteuid()
                digest, _, text = file.read(_LONGEST).partition(b"\n") if own else (b"", b"", b"")
            if hashlib.sha256(text).hexdigest() == digest.decode():
                kept = json.loads(text)
                return kept["state"] if kept["digest"] == self._digest(kept["end"]) else None
        return None

    def keep(self, state: Mapping[str, Any]) -> None:
        end = self._ends[state["seq"]]
        text = json.dumps({"end": end, "digest": self._digest(end), "state": state}).encode()
        with suppress(OSError):  # a ledger opens without one, too
            handle, name = tempfile.mkstemp(prefix=f".{os.path.basename(self.where)}-", dir=os.path.dirname(self.where))
            with open(handle, "wb") as file:
                file.write(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)
            os.replace(name, f"{self.where}-state")

    def _digest(self, end: int) -> str:
        """The hash of all bytes up to a place."""
        found = hashlib.sha256()
        for start in range(0, end, _PART):
            found.update(self._bytes(start, min(start + _PART, end)))
        return found.hexdigest()

    # -- the witness ---------------------------------------------------------------------------------------

    def attest(self, entry: Entry) -> None:
        """Note a flushed entry in the witness.

        Not flushed: the entry itself is, so the witness may lag behind and never runs ahead. A failure is
        ignored for the same reason: an older witness is still true. Each entry has a slot of its own, so that
        two processes need no order among them.
        """
        name = f"{self.where}-head"
        with suppress(OSError), open(open_regular(name, os.O_RDWR | os.O_CREAT), "rb+", buffering=0) as file:
            self._share(handle := file.fileno())
            size, before = os.fstat(handle).st_size, _part(handle, _SLOT, place := entry.seq % _SLOTS * _SLOT)
            # Half a slot would look like damage: where there is no room, already its last byte is refused.
            _put(handle, before[_SLOT - 1 :] or b"\0", place + _SLOT - 1)
            if _put(handle, _slot(entry.seq, entry.hash), place) < _SLOT:
                _put(handle, before, place)
                os.ftruncate(handle, size)

    def witness(self) -> dict[int, str]:
        for attempt in range(4):
            try:
                return _witnessed(read_regular(f"{self.where}-head", _SLOTS * _SLOT, follow=False))
            except FileNotFoundError:
                return {}
            except OSError as error:
                raise LedgerUnavailable(
                    f"{self.where}-head, a second record of the last entries, cannot be used: {reason(error)} "
                    "Nothing was drawn."
                ) from error
            except ValueError:
                time.sleep(0.002 * attempt)  # it may be half written
        raise LedgerCorrupted(
            f"{self.where}-head is damaged. It is a second record of the last entries: compare the ledger's head "
            "with a copy you trust, then delete this file."
        )


_SLOTS, _SLOT = 32, 128


def _slot(seq: int, digest: str) -> bytes:
    text = f"{seq:020d} {digest}".encode("latin-1")
    return (text + b" %08x" % zlib.crc32(text)).ljust(_SLOT - 1) + b"\n"


def _witnessed(record: bytes) -> dict[int, str]:
    """The digests in the slots by number; ValueError where a slot is damaged. An empty slot has none."""
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
    with suppress(OSError):
        status = os.stat(file)
        return status.st_dev, status.st_ino
    return None


def _read(handle: int, start: int, end: int) -> bytes:
    """The bytes of a file from one place to another, or to its end."""
    parts = []
    while start < end and (part := _part(handle, min(end - start, 1 << 30), start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def _part(handle: int, length: int, place: int) -> bytes:
    if sys.platform == "win32":
        os.lseek(handle, place, os.SEEK_SET)
        return os.read(handle, length)
    return os.pread(handle, length, place)  # a child of a fork shares where a file is read or written


def _put(handle: int, text: bytes, place: int) -> int:
    """Write to a place of a file; how many bytes there was room for."""
    if sys.platform == "win32":
        os.lseek(handle, place, os.SEEK_SET)
        return os.write(handle, text)
    return os.pwrite(handle, text, place)


def _flush(handle: int) -> None:
    """Return when a file is on the disk; on macOS ``fsync`` alone leaves it in the memory of the drive."""
    os.fsync(handle)
    if sys.platform == "darwin":
        try:
            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):  # a file system without it has fsync
                raise


def _locked(handle: int) -> bool:
    """Try to lock the file; whether that worked."""
    with suppress(BlockingIOError, PermissionError):
        if sys.platform == "win32":
            os.lseek(handle, _FAR, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _unlock(handle: int) -> None:
    if sys.platform == "win32":
        with suppress(OSError):
            os.lseek(handle, _FAR, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)
    else:
        fcntl.flock(handle, fcntl.LOCK_UN)


_FAR = 1 << 40
"""Windows locks bytes, and forbids others to read them: one that no ledger reaches."""
