"""One file is one ledger, whatever its names: links, mounts and removed companions cannot make two of it."""

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from discreet.core.errors import LedgerUnavailable
from discreet.core.guarantee import PureDP
from discreet.results.ledger import Ledger
from tests.core.test_ledger_faults import spend
from tests.processes import output, started, told

SPEND = """
import sys
from discreet.core.errors import DiscreetError
from discreet.results.ledger import Ledger
from tests.core.test_ledger_faults import spend
try:
    with Ledger(sys.argv[1]) as ledger:
        spend(ledger, 0.6)
    print("spent")
except DiscreetError as refusal:
    print(refusal)
"""


def other_process(path: Path, *before: str) -> str:
    """What another process says that spends 0.6 of the ledger."""
    return output([*before, sys.executable, "-c", SPEND, str(path)])


def mounting(source: Path, target: Path) -> list[str]:
    """A command that runs another where ``source`` is mounted at ``target``, as containers do."""
    command = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" "$1" && shift 1 && exec "$@"', str(source)]
    command.append(str(target))
    tried = [*command, "true"]
    if shutil.which("unshare") is None or subprocess.run(tried, capture_output=True, timeout=60).returncode:
        pytest.skip("mounts need unshare(1) and the right to mount")
    return command


def test_hard_link_is_the_same_ledger(tmp_path: Path) -> None:
    path, second = tmp_path / "ledger", tmp_path / "second"
    with Ledger(path, PureDP(1.0)) as ledger:
        os.link(path, second)
        spend(ledger, 0.6)
        assert "has ε = 0.4 left" in other_process(second)
        with Ledger(second) as other:
            spend(other, 0.3)
        assert ledger.remaining() == PureDP(0.1)
        assert ledger.verify().spends == 2


@pytest.mark.parametrize("whole_directory", [False, True])
def test_mount_is_the_same_ledger(tmp_path: Path, whole_directory: bool) -> None:
    host, inside = tmp_path / "host", tmp_path / "inside"
    host.mkdir()
    inside.mkdir()
    (inside / "ledger").touch()
    with Ledger(host / "ledger", PureDP(1.0)) as ledger:
        spend(ledger, 0.6)
        places = (host, inside) if whole_directory else (host / "ledger", inside / "ledger")
        assert "has ε = 0.4 left" in other_process(inside / "ledger", *mounting(*places))


def test_symbolic_link_is_the_same_ledger(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    path, link = tmp_path / "elsewhere" / "ledger", tmp_path / "link"
    link.symlink_to(path)
    with Ledger(link, PureDP(1.0)) as ledger, Ledger(path) as direct:
        for one in (ledger, direct, ledger, direct):
            spend(one)
        assert ledger.path == direct.path == str(path)
        assert ledger.remaining() == PureDP(0.6)
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", "link"]


def test_removed_witness_lets_nobody_overspend(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with Ledger(path, PureDP(1.0)) as ledger:
        spend(ledger, 0.6)
        assert sorted(os.listdir(tmp_path)) == ["ledger", "ledger-head"]
        os.unlink(f"{path}-head")
        assert "has ε = 0.4 left" in other_process(path)
        spend(ledger, 0.4)


STORM = """
import sys
from discreet.core.errors import DiscreetError
from discreet.results.ledger import Ledger
from tests.core.test_ledger_faults import spend
drawn = 0
for _ in range(20):
    with Ledger(sys.argv[1], timeout=60) as ledger:
        for _ in range(5):
            spend(ledger, 0.01)
            drawn += 1
print(drawn)
"""


def test_companions_that_vanish_all_the_time_lose_no_spend(tmp_path: Path) -> None:
    """Three writers under two names, and somebody who removes every other file again and again."""
    path, second = tmp_path / "ledger", tmp_path / "second"
    Ledger(path, PureDP(3.0)).close()
    os.link(path, second)
    writers = [started([sys.executable, "-c", STORM, str(name)]) for name in (path, second, path)]
    while any(writer.poll() is None for writer in writers):
        for other in set(os.listdir(tmp_path)) - {"ledger", "second"}:
            (tmp_path / other).unlink(missing_ok=True)
    assert [int(told(writer)[0]) for writer in writers] == [100] * 3
    with Ledger(path) as ledger:
        assert ledger.verify().spends == 300
        assert ledger.remaining() == PureDP(0.0)


def test_renamed_ledger_is_refused_and_the_name_is_not_reused(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with Ledger(path, PureDP(1.0)) as ledger:
        spend(ledger, 0.6)
        path.rename(tmp_path / "moved")
        with pytest.raises(LedgerUnavailable, match="moved, deleted or replaced"):
            spend(ledger, 0.1)
        assert "there is no ledger" in other_process(path) or "was written" in other_process(path)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_pickled_ledger_stays_what_it_was(tmp_path: Path, read_only: bool) -> None:
    path, teams = tmp_path / "ledger", {"health": PureDP(0.5), "trade": PureDP(0.5)}
    Ledger(path, PureDP(1.0), teams=teams).close()
    with Ledger(path, team="trade", timeout=7.0, read_only=read_only) as ledger:
        ledger.under("a plan")
        with pickle.loads(pickle.dumps(ledger)) as other:
            kept = (other._team, other._plan, other._journal.timeout, other._journal.read_only)
            assert kept == ("trade", "a plan", 7.0, read_only)
            if read_only:
                with pytest.raises(LedgerUnavailable, match="read_only=True"):
                    spend(other)
