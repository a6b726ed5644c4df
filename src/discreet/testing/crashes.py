"""Crashes: kill releases, starve and tear their ledger on purpose, and count those that have no durable spend.

For tests, and for a new kind of disk, file system or server: ``crash_trials(directory)`` and ``server_trials(address)``
must report ``lost == 0``. POSIX only.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import resource
import select
import shutil
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import discreet.core.ledger as account_package
import discreet.results.ledger as ledger_package
from discreet.core import door
from discreet.core.door import Claim, Rng
from discreet.core.errors import InsufficientBudget, LedgerError
from discreet.core.guarantee import PureDP
from discreet.core.ledger.account import Reservation
from discreet.core.noise.sampler import Floats, Truth
from discreet.core.protection import Protection
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms.laplace import Laplace
from discreet.plans.job import Job
from discreet.results.display import Facts, Result
from discreet.results.ledger import Ledger
from discreet.results.release import release

_DRAWN, _PUBLISHED, _LINES, _HANDLED, _FORKED = b"d", b"p", b"l", b"h", b"f"
_RECORD = struct.Struct("=cd32s")
_LONGEST_WAIT = 60.0  # seconds for a first draw
_RENEWED_AFTER = 64  # spends; a short ledger keeps the trials quick
_SMALL, _LARGE = PureDP(0.05), PureDP(1000.0)  # writers race for the last of one, and never end the other
_WATCHED = (os.path.dirname(account_package.__file__), os.path.dirname(ledger_package.__file__), door.__file__)


@dataclass
class CrashReport(Result):
    """The number of trials of each sort, and the faults found.

    Attributes
    ----------
    lines
        Kills at a line of `release` or of the ledger's code, each line in turn.
    moments
        Kills at random moments, while several processes write.
    torn
        Files cut at a random place or with a flipped bit, after a kill.
    starved
        Writers whose disk ended after a random number of bytes.
    dropped
        Connections that the server ended, and servers that were killed.
    handled
        Signals whose handler looked at the ledger or spent from it, in the middle of a use by the same thread or not.
    forked
        Signals whose handler forked: a child that spends, or one that goes on with what the signal interrupted.
    drawn, published
        Draws made and answers published by all of them.
    refused
        Torn ledgers that were refused; the others had lost nothing.
    lost
        Draws without a durable spend, published answers that are not the stored ones, overspent budgets, ledgers
        refused after a mere crash, and torn ones accepted although entries were gone. Must be zero.
    """

    lines: int = 0
    moments: int = 0
    torn: int = 0
    starved: int = 0
    dropped: int = 0
    handled: int = 0
    forked: int = 0
    drawn: int = 0
    published: int = 0
    refused: int = 0
    lost: int = 0
    findings: list[str] = field(default_factory=list)

    @property
    def trials(self) -> int:
        """All of them."""
        return self.lines + self.moments + self.torn + self.starved + self.dropped + self.handled + self.forked

    def heading(self) -> str:
        return f"{self.trials:,} crashes of a ledger"

    def facts(self) -> Facts:
        shown = [(one.name, f"{getattr(self, one.name):,}") for one in fields(self) if one.name != "findings"]
        return [*shown, ("findings", "; ".join(self.findings) or "none")]

    def to_dict(self) -> dict[str, Any]:
        return {"trials": self.trials, **asdict(self)}


def crash_trials(
    directory: str | os.PathLike[str], trials: int = 1000, *, seed: int = 0, writers: int | None = None
) -> CrashReport:
    """Run about ``trials`` trials in a directory on the disk in question.

    With ``writers``, so many write at the same time, all of them with signal handlers that look, spend and fork in the
    middle of payments, until they are killed.
    """
    random_ = random.Random(seed)
    laboratory = _Laboratory(Path(directory), random_, CrashReport())
    if writers is not None:
        while laboratory.report.trials < trials:
            laboratory.kill_at_moment(writers, 0.2, laboratory.disturbed)
            laboratory.check_often()
        laboratory.check()
        return laboratory.report
    # A release takes more lines where the ledger exists, and where it has a request: some of these do.
    lines = list(range(1, max(laboratory.count_lines() for _ in range(4)) + 1))
    random_.shuffle(lines)
    while laboratory.report.trials < trials:
        laboratory.kill_at_line(lines[laboratory.report.lines % len(lines)])
        laboratory.check_often()
        laboratory.kill_at_moment(random_.choice((1, 1, 2, 3)), 0.012)
        laboratory.check_often()
        laboratory.tear()
        if random_.random() < 0.4:
            laboratory.starve()
            laboratory.check_often()
    laboratory.check()
    return laboratory.report


Tell = Callable[[bytes, str, float], None]
"""The record by which a writer tells what it does: what, for which spend, which value."""


class _WatchedLedger(Ledger):
    """Remembers the last reservation, so that the draw can tell for which spend it is."""

    last: Reservation
    before: Callable[[], object] = staticmethod(lambda: None)
    after: Callable[[], object] = staticmethod(lambda: None)

    def pay(self, content: Mapping[str, Any], **options: Any) -> Reservation:
        self.before()
        self.last = super().pay(content, **options)
        self.after()  # a payment is good for one draw: in a child that a fork left behind, for none
        return self.last


@dataclass(frozen=True)
class _TellingLaplace(Laplace):
    """Tells that it draws before it does."""

    tell: Callable[[], None] = lambda: None

    def draw(self, truth: Truth, *, rng: Rng = None) -> Floats:
        self.tell()
        return super().draw(truth, rng=rng)

    def parameters(self) -> dict[str, Any]:
        return Laplace(self.scale).parameters()


def _release(ledger: _WatchedLedger, tell: Tell, request: str | None) -> None:
    mechanism = _TellingLaplace(scale=100.0, tell=lambda: tell(_DRAWN, ledger.last.hash, 0.0))
    published = release(Exact(0.0, Sensitivity(l1=1.0)), mechanism, ledger=ledger, name=request)
    if request is not None:  # only then is the answer stored
        tell(_PUBLISHED, ledger.last.hash, float(published.value))


class _Handler:
    """Signals in the middle of a writer's payments, whose handler looks at the ledger, spends from it, or forks."""

    def __init__(self, ledger: _WatchedLedger, tell: Tell) -> None:
        self.ledger, self.tell, self.random = ledger, tell, random.Random(os.getpid())
        self.content = Claim(
            guarantee=PureDP(0.01), protection=Protection(), question={"ask": "handler"}, mechanism={},
            sensitivity=Sensitivity(l1=1.0),
        ).record()  # fmt: skip
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are nobody's to wait for
        signal.signal(signal.SIGALRM, self.handle)

    def arm(self) -> None:
        """Send one signal, a moment from now."""
        signal.setitimer(signal.ITIMER_REAL, self.random.uniform(1e-5, 2e-3))

    def handle(self, *_: object) -> None:
        """Do one of the things that handlers do; the ledger may refuse, in words."""
        choice = self.random.randrange(4)
        self.tell(_HANDLED if choice < 2 else _FORKED, "00" * 32, 0.0)
        if choice < 2 or os.fork() == 0:
            with suppress(LedgerError, InsufficientBudget):
                if choice == 0:
                    self.ledger.remaining()
                elif choice < 3:
                    self.tell(_DRAWN, Ledger.pay(self.ledger, self.content).hash, 0.0)
            if choice == 2:
                os._exit(0)


class _Writers:
    """Writers that are killed, what they told before they died, and what the ledger holds of it."""

    def __init__(self, random_: random.Random, report: CrashReport) -> None:
        self.random, self.report = random_, report
        self.address, self.budget = "", PureDP(1.0)
        self.drawn: set[bytes] = set()
        self.published: dict[bytes, float] = {}
        with _WatchedLedger(":memory:", PureDP(1.0)) as ledger:  # import here what the writers would import each
            _release(ledger, lambda *_: None, "warm")

    def renew(self, address: str) -> None:
        """Go on with another ledger."""
        self.address, self.budget = address, self.random.choice((_SMALL, _LARGE))
        self.drawn, self.published = set(), {}
        if self.random.random() < 0.7:  # else the writers race to create it
            Ledger(self.address, budget=self.budget).close()

    def writer(self, work: Callable[[Tell], None]) -> tuple[int, int]:
        """Fork a writer; return its process id and the end of the pipe through which it tells."""
        inlet, outlet = os.pipe()
        process = os.fork()
        if process:
            os.close(outlet)
            return process, inlet
        try:
            # One write of a few bytes is atomic and outlives the process.
            work(lambda what, digest, value: _tell(outlet, what, digest, value))
        except (LedgerError, InsufficientBudget):
            os._exit(3)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(4)
        os._exit(0)

    def buried(self, process: int, inlet: int) -> None:
        """Wait for a writer's end and note what it told."""
        _, status = os.waitpid(process, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 4:
            self.found("a writer failed with an error that is none of the library's")
        told = b""
        while block := os.read(inlet, 65536):
            told += block
        os.close(inlet)
        for what, value, digest in _RECORD.iter_unpack(told):
            if what in (_HANDLED, _FORKED):
                self.report.handled += what == _HANDLED
                self.report.forked += what == _FORKED
            elif what == _DRAWN:
                self.drawn.add(digest)
                self.report.drawn += 1
            else:
                self.report.published += 1
                if self.published.setdefault(digest, value) != value:
                    self.found("one reservation, two published answers")

    def work(self, tell: Tell, releases: int) -> None:
        """Make releases as a writer does, under some requests and without."""
        with _WatchedLedger(self.address, budget=self.budget) as ledger:
            for _ in range(releases):
                number = int.from_bytes(os.urandom(2))
                _release(ledger, tell, f"request {number % 8}" if number % 2 else None)

    def disturbed(self, tell: Tell, releases: int) -> None:
        """The same, with signals in the middle of its payments."""
        process = os.getpid()
        with _WatchedLedger(self.address, budget=self.budget) as ledger:
            handler = _Handler(ledger, tell)
            for number in range(releases):
                ledger.before = handler.arm
                ledger.after = lambda: os.getpid() == process or os._exit(0)
                _release(ledger, tell, f"request {number % 8}" if number % 2 else None)

    def kill_at_moment(self, writers: int, longest: float, work: Callable[[Tell, int], None] | None = None) -> None:
        """Writers that release without end until they are killed, one after another.

        In half of the trials one of them draws first, however slow the machine is; in the others they may be opening.
        """
        alive = [self.writer(lambda tell: (work or self.work)(tell, 10_000)) for _ in range(writers)]
        if self.random.random() < 0.5:
            select.select([inlet for _, inlet in alive], [], [], _LONGEST_WAIT)
        time.sleep(self.random.uniform(0.0, longest))
        for process, inlet in alive:
            os.kill(process, signal.SIGKILL)
            self.buried(process, inlet)
            self.report.moments += 1

    def found(self, what: str) -> None:
        """Note what must not be."""
        self.report.lost += 1
        self.report.findings.append(what)

    def compare(self, rows: list[tuple[int, str, str, str]]) -> None:
        """Compare what the writers told with what the ledger holds, read without the library."""
        spends = {bytes.fromhex(digest): seq for seq, kind, _, digest in rows if kind == "spend"}
        stored = [json.loads(body) for _, kind, body, _ in rows if kind == "answer"]
        answers = {content["spend"]: content["answer"]["value"] for content in stored}
        for digest in self.drawn - spends.keys():
            self.found(f"drawn without a spend: {digest.hex()}")
        for digest, answer in self.published.items():
            if answers.get(spends.get(digest, -1)) != answer:
                self.found(f"published but not stored: {digest.hex()}")
        if len(answers) != len(stored):
            self.found("one spend, two stored answers")
        if len(spends) * 0.01 > self.budget.epsilon + 1e-9:
            self.found("overspent")
        if rows:
            try:
                with Ledger(self.address, budget=self.budget) as ledger:
                    ledger.verify()
            except LedgerError as error:
                self.found(f"refused after a crash: {error}")


class _Laboratory(_Writers):
    """One ledger in a file after another."""

    def __init__(self, directory: Path, random_: random.Random, report: CrashReport) -> None:
        super().__init__(random_, report)
        self.directory, self._number = directory, 0
        self._renew()

    def _renew(self) -> None:
        self._number += 1
        for old in self.directory.glob("crash-*"):
            old.unlink()
        self.path = self.directory / f"crash-{self._number}"
        self.renew(str(self.path))

    # -- trials ----------------------------------------------------------------------------------------------

    def count_lines(self) -> int:
        """The number of lines of the ledger's code that one release takes, from opening the file to closing it."""
        counter = _LineCounter(None)

        def work(tell: Tell) -> None:
            sys.settrace(counter.trace)
            try:
                self.work(lambda *_: None, 1)
            finally:  # a ledger that is refused has taken some lines, too
                sys.settrace(None)
                tell(_LINES, "00" * 32, counter.count)

        process, inlet = self.writer(work)
        os.waitpid(process, 0)
        with open(inlet, "rb") as told:
            ((_, count, _),) = _RECORD.iter_unpack(told.read())
        return int(count)

    def kill_at_line(self, line: int) -> None:
        """One writer that dies at the given line."""

        def work(tell: Tell) -> None:
            sys.settrace(_LineCounter(line).trace)
            self.work(tell, 2)

        self.buried(*self.writer(work))
        self.report.lines += 1

    def starve(self) -> None:
        """A writer whose files may not grow beyond a random size."""
        size = sum(file.stat().st_size for file in self.directory.glob(f"{self.path.name}*"))
        limit = self.random.randrange(1, max(size, 4096) + 4096)

        def work(tell: Tell) -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            self.work(tell, 15)

        self.buried(*self.writer(work))
        self.report.starved += 1

    def tear(self) -> None:
        """Damage a copy of the file; the ledger must be refused or complete."""
        if not self.path.exists() or self.path.stat().st_size == 0:
            return
        copy = self.directory / "crash-torn"
        content = bytearray(self.path.read_bytes())
        place = self.random.randrange(len(content))
        if self.random.random() < 0.5:
            del content[place:]
        else:
            content[place] ^= 1 << self.random.randrange(8)
        copy.write_bytes(bytes(content))
        if Path(f"{self.path}-head").exists():
            shutil.copyfile(f"{self.path}-head", f"{copy}-head")
        try:
            with Ledger(copy) as ledger:
                ledger.verify()
                spends = {bytes.fromhex(spend.hash) for spend in ledger.events()}
            if not self.drawn <= spends:
                self.found("a torn file was accepted although spends were gone")
        except LedgerError:
            self.report.refused += 1
        self.report.torn += 1
        for file in self.directory.glob("crash-torn*"):
            file.unlink()

    # -- what must hold --------------------------------------------------------------------------------------

    def check_often(self) -> None:
        """Check now and then, and when the ledger gets long; one with a small budget soon has nothing left to draw."""
        seldom = 0.02 if self.budget == _LARGE else 0.3
        if len(self.drawn) > _RENEWED_AFTER or self.random.random() < seldom:
            self.check()
            self._renew()

    def check(self) -> None:
        """Compare with the file."""
        if not self.path.exists():
            if self.drawn:
                self.found("drawn without a ledger")
            return
        *lines, _ = self.path.read_bytes().decode().split("\n")  # what follows the last line break was not finished
        split = [line.split(" ", 2) for line in lines[1:]]
        self.compare([(seq, kind, body, digest) for seq, (digest, kind, body) in enumerate(split, start=1)])


_PLAN = """
[source]
path = "rows.csv"
[ledger]
anchor = "heads.txt"
[budget]
epsilon = 1.0
[schema.columns.age]
low = 18
high = 100
grid = 1
"""
_RELEASE = """
[[release]]
name = "{name}"
ask = "count"
weight = {share}
"""


def run_trials(directory: str | os.PathLike[str], trials: int = 1000, *, seed: int = 0) -> CrashReport:
    """Kill whole runs of plans at random moments, ``trials`` times, and resume each until it is done."""
    random_ = random.Random(seed)
    laboratory = _Writers(random_, CrashReport())
    _import_what_a_run_does(Path(directory))
    while laboratory.report.trials < trials:
        with tempfile.TemporaryDirectory(dir=directory) as folder:
            _run_until_done(laboratory, Path(folder))
    return laboratory.report


def _plan_in(folder: Path, shares: Sequence[int]) -> Path:
    releases = (_RELEASE.format(name=f"count {place}", share=share) for place, share in enumerate(shares))
    (folder / "rows.csv").write_text("age\n" + "".join(f"{18 + row % 80}\n" for row in range(200)))
    (folder / "plan.toml").write_text(_PLAN + "".join(releases))
    return folder / "plan.toml"


def _import_what_a_run_does(directory: Path) -> None:
    """Import here what the runs would import each; a run itself happens in a child, as engines have threads."""
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        plan = _plan_in(Path(folder), [1])
        names = Path(folder) / "names"
        process = os.fork()
        if process == 0:
            Job(plan).run()
            names.write_text("\n".join(sys.modules))
            os._exit(0)
        os.waitpid(process, 0)
        for name in names.read_text().splitlines():
            with suppress(Exception):
                importlib.import_module(name)


def _run_until_done(laboratory: _Writers, folder: Path) -> None:
    """Run a plan, kill it, resume it; then compare what was published with the ledger."""
    shares = [laboratory.random.randint(1, 9) for _ in range(laboratory.random.randint(2, 6))]
    plan = _plan_in(folder, shares)
    longest = laboratory.random.uniform(0.02, 1.0)
    status = 9
    while status == 9:
        process = os.fork()
        if process == 0:
            try:
                Job(plan).run()
            except BaseException:
                sys.excepthook(*sys.exc_info())
                os._exit(4)
            os._exit(0)
        deadline = time.monotonic() + laboratory.random.uniform(0.0, longest)
        longest *= 1.1  # at last it is done
        while time.monotonic() < deadline and not os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            time.sleep(0.002)
        os.kill(process, signal.SIGKILL)
        status = os.waitpid(process, 0)[1]
        laboratory.report.moments += status == 9
    if status:
        laboratory.found("a run that was killed could not be resumed")
        return
    results = json.loads((folder / "plan-report" / "results.json").read_text())
    with Ledger(folder / "rows.ledger", read_only=True) as ledger:
        stored = {spend.release_id: ledger.answer(spend.release_id) for spend in ledger.events()}
        heads = {line.split()[2] for line in (folder / "heads.txt").read_text().splitlines()}
        missing = ledger.missing(heads)
        spends = ledger.verify().spends
    laboratory.report.drawn += spends
    laboratory.report.published += len(results["releases"])
    if spends != len(shares) or missing:
        laboratory.found("a run that was resumed paid twice, or its ledger lacks a head")
    for made in results["releases"].values():
        if (stored.get(made["release_id"]) or {}).get("value") != made["value"]:
            laboratory.found("published but not stored")


def server_trials(
    address: str, trials: int = 1000, *, seed: int = 0, writers: int = 8, crash: Callable[[], None] | None = None
) -> CrashReport:
    """Kill writers of ledgers on a PostgreSQL server, drop their connections and crash the server, ``trials`` times.

    Parameters
    ----------
    address
        The server, ``postgresql://…``; schemas named ``crash_…`` are made in it and removed.
    writers
        How many write at the same time.
    crash
        Kills the server and starts it again; left out where that is not wanted.
    """
    import psycopg

    random_ = random.Random(seed)
    laboratory, number = _Writers(random_, CrashReport()), 0
    while laboratory.report.trials < trials:
        schema = f"crash_{number}"
        number += 1
        laboratory.renew(f"{address}#{schema}")
        for _ in range(3):
            if crash is not None and random_.random() < 0.1:
                _with_writers(laboratory, writers, crash)
            elif random_.random() < 0.2:
                _with_writers(laboratory, writers, lambda: _drop_connections(address))
            disturbed = laboratory.disturbed if random_.random() < 0.3 else None
            laboratory.kill_at_moment(random_.randint(1, writers), 0.15, disturbed)
        with psycopg.connect(address) as connection:
            if connection.execute("SELECT to_regclass(%s)", (f"{schema}.entries",)).fetchone() != (None,):
                query = f"SELECT seq, kind, body, hash FROM {schema}.entries ORDER BY seq"
                laboratory.compare(connection.execute(query).fetchall())
            elif laboratory.drawn:
                laboratory.found("drawn without a ledger")
        with psycopg.connect(address) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    return laboratory.report


def _with_writers(laboratory: _Writers, writers: int, disturb: Callable[[], None]) -> None:
    """Disturb the server while writers release; then end them."""
    alive = [laboratory.writer(lambda tell: laboratory.work(tell, 10_000)) for _ in range(writers)]
    time.sleep(laboratory.random.uniform(0.02, 0.2))
    disturb()
    laboratory.report.dropped += writers
    for process, inlet in alive:
        os.kill(process, signal.SIGKILL)
        laboratory.buried(process, inlet)


def _drop_connections(address: str) -> None:
    """End every connection of a ledger, wherever it is."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'discreet' AND pid <> pg_backend_pid()"
        )


def _tell(outlet: int, what: bytes, digest: str, value: float) -> None:
    os.write(outlet, _RECORD.pack(what, value, bytes.fromhex(digest)))


class _LineCounter:
    """Counts lines of the ledger's code, and kills its own process at one of them."""

    def __init__(self, last: int | None) -> None:
        self.count, self.last = 0, last

    def trace(self, frame: Any, event: str, argument: Any) -> Any:
        """Follow the code of releases and ledgers only."""
        if not frame.f_code.co_filename.startswith(_WATCHED):
            return None
        if event == "line":
            self.count += 1
            if self.count == self.last:
                os.kill(os.getpid(), signal.SIGKILL)
        return self.trace
