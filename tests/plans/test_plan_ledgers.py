"""A ledger belongs to the data, not to the plan: copies of plans, second ledgers, anchors, and exit statuses."""

import fcntl
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet import ApproxDP, GaussianDP, Ledger, PureDP
from discreet.cli.main import main
from discreet.core.errors import DiscreetError, InsufficientBudget, LedgerCorrupted, PlanFileError
from discreet.core.guarantee import Guarantee, ZeroConcentratedDP
from discreet.core.protection import Protection
from discreet.plans.bundle import write_bundle
from discreet.plans.job import Job, RunProgress, refusal_of
from discreet.plans.plan_file import PlanFile, divided
from tests.processes import ROOT, output, started, told

PLAN = """
[source]
path = "{source}"
[budget]
epsilon = 1.0
[schema.columns.age]
low = 18
high = 100
grid = 1
[[release]]
name = "people"
ask = "count"
{extra}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "examples" / "survey.csv", tmp_path)
    return tmp_path


def plan(folder: Path, name: str = "survey.toml", *, source: str = "survey.csv", extra: str = "") -> Path:
    file = folder / name
    file.write_text(PLAN.format(source=source, extra=extra), encoding="utf-8")
    return file


def status(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(one) for one in arguments])
    return int(ended.value.code or 0)


# -- one ledger for the data -------------------------------------------------------------------------------------


def test_copied_plan_spends_from_the_same_ledger(folder: Path) -> None:
    assert Job(plan(folder)).run().drawn == 1
    again = Job(plan(folder, "other.toml"))
    assert again.run().drawn == 0  # the same question to the same data was answered before
    with pytest.raises(InsufficientBudget):
        Job(plan(folder, "third.toml", extra='[[release]]\nname = "mean"\nask = "mean"\ncolumn = "age"')).run()
    assert sorted(file.name for file in folder.glob("*.ledger")) == ["survey.ledger"]


@pytest.mark.parametrize("source", ["./survey.csv", "../{folder}/survey.csv"])
def test_other_words_for_the_same_place_spend_nothing_again(folder: Path, source: str) -> None:
    Job(plan(folder)).run()
    assert Job(plan(folder, source=source.format(folder=folder.name))).run().drawn == 0
    with_memory = plan(folder)
    with_memory.write_text(with_memory.read_text().replace("[budget]", 'memory = "1GB"\n[budget]'))
    assert Job(with_memory).run().drawn == 0


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ('path = "rows/data.csv.gz"', "rows/data.ledger"),
        ('path = "rows/part-*.csv"', "rows/part-.ledger"),
        ('path = "rows/*.csv"', "rows/data.ledger"),
        ('address = "postgresql://me@host/sales"\ntable = "people"', "people.ledger"),
        ('address = "duckdb://sales.db"', "data.ledger"),
    ],
)
def test_default_ledger_is_named_after_the_source(tmp_path: Path, source: str, name: str) -> None:
    file = plan(tmp_path)
    file.write_text(file.read_text().replace('path = "survey.csv"', source))
    assert PlanFile.read(file).ledger == str(tmp_path / name)


def test_another_ledger_of_the_same_data_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Job(plan(folder)).run()
    other = plan(folder, "other.toml", extra='[ledger]\npath = "other.ledger"')
    planned = Job(other).plan()
    assert len(planned.warnings) == 1
    assert "survey.ledger already counts releases of this data" in planned.warnings[0]
    assert "already counts releases" in str(planned).replace("\n", " ")
    assert planned.to_dict()["warnings"]
    done = Job(other).run()
    assert done.warnings == planned.warnings
    assert Job(plan(folder)).plan().warnings  # and the other way round


def test_ledger_of_a_session_is_told(folder: Path) -> None:
    from discreet import Bounds, Schema, Session

    schema = Schema(columns={"age": Bounds(18, 100, grid=1)})
    Session(folder / "survey.csv", schema, ledger=folder / "mine.ledger", budget=PureDP(1.0)).ledger.close()
    assert "mine.ledger already counts" in Job(plan(folder)).plan().warnings[0]


def test_data_set_is_known_by_its_declared_name(folder: Path) -> None:
    named = '[ledger]\npath = "{path}"\ndataset = "survey 2026"'
    Job(plan(folder, extra=named.format(path="one.ledger"))).run()
    shutil.copy(folder / "survey.csv", folder / "copy.csv")
    copied = plan(folder, "copy.toml", source="copy.csv", extra=named.format(path="two.ledger"))
    assert "one.ledger already counts" in Job(copied).plan().warnings[0]


def test_ledger_says_nothing_about_where_the_data_is(folder: Path) -> None:
    Job(plan(folder)).run()
    assert b"survey.csv" not in (folder / "survey.ledger").read_bytes()
    with Ledger(folder / "survey.ledger", read_only=True) as ledger:
        assert not ledger.counts("survey.csv")


def test_session_may_use_any_request(folder: Path) -> None:
    job = Job(plan(folder))
    with job.ledger(write=True) as ledger:
        from discreet.core.protection import Protection

        described = {"question": "q", "mechanism": {}, "sensitivity": {}, "protection": Protection()}
        ledger.reserve(PureDP(0.5), request="plan:x", **described)
    assert "cost ε = 1 but the ledger has ε = 0.5 left" in str(job.plan().refusal)


# -- anchors -----------------------------------------------------------------------------------------------------


def test_rolling_a_ledger_back_shows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "elsewhere").mkdir()
    anchored = plan(folder, extra='[ledger]\nanchor = "elsewhere/heads.txt"\n')
    anchored.write_text(anchored.read_text().replace('ask = "count"', 'ask = "count"\nepsilon = 0.25'))
    Job(anchored).run()
    for suffix in ("", "-head"):
        shutil.copy(folder / f"survey.ledger{suffix}", folder / f"old{suffix}")
    Job(anchored).run(again=True)
    main(["ledger", "verify", str(folder / "survey.ledger")])
    assert "anchored   yes" in capsys.readouterr().out
    for suffix in ("", "-head"):
        shutil.copy(folder / f"old{suffix}", folder / f"survey.ledger{suffix}")
    assert status("ledger", "verify", folder / "survey.ledger") == 5
    assert "an older copy was put in the ledger's place" in capsys.readouterr().err


def test_anchors_by_hand(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Job(plan(folder)).run()
    ledger, results = folder / "survey.ledger", folder / "survey-report" / "results.json"
    main(["ledger", "anchor", str(ledger)])
    head = capsys.readouterr().out.strip()
    assert head in results.read_text()
    assert head in (folder / "survey-report" / "report.md").read_text()
    main(["ledger", "anchor", str(ledger), "--to", str(folder / "heads.txt")])
    for anchor in (head, results, folder / "heads.txt"):
        main(["ledger", "verify", str(ledger), "--anchor", str(anchor)])
        assert "anchored   yes" in capsys.readouterr().out
    assert status("ledger", "verify", ledger, "--anchor", "0" * 64) == 5
    assert status("ledger", "verify", ledger, "--anchor", folder / "none.txt") == 2
    os.unlink(folder / "heads.txt")
    main(["ledger", "verify", str(ledger)])
    assert "heads.txt are gone" in capsys.readouterr().err


# -- results -----------------------------------------------------------------------------------------------------


def test_results_of_other_releases_are_kept(folder: Path) -> None:
    file = plan(folder)
    file.write_text(file.read_text().replace('ask = "count"', 'ask = "count"\nepsilon = 0.25'))
    Job(file).run()
    same = Job(file).run()
    assert same.kept is None  # the same releases: nothing is lost
    before = same.results.read_text()
    again = Job(file).run(again=True)
    assert again.kept is not None
    assert again.kept.read_text() == before
    (folder / "survey-report" / "results.json").write_text("my own notes")
    other = Job(file).run()
    assert other.kept is not None
    assert other.kept.read_text() == "my own notes"


RUN = "from discreet.cli.main import main; main()"


def test_simultaneous_runs_count_each_release_once(folder: Path) -> None:
    more = "".join(f'\n[[release]]\nname = "{number}"\nask = "count"' for number in range(3))
    file = plan(folder, extra=more)
    command = [sys.executable, "-c", RUN, "run", str(file)]
    runs = [started(command) for _ in range(2)]
    released = [told(run)[0].split(" released now")[0] for run in runs]
    assert sorted(released) == ["0", "4"]


def test_a_lock_that_somebody_holds_for_ever_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any user who may read the directory can lock it."""
    file, report = plan(folder), folder / "survey-report"
    report.mkdir()
    monkeypatch.setattr("discreet.plans.job._PATIENCE", 0.1)
    theirs = os.open(report, os.O_RDONLY)
    fcntl.flock(theirs, fcntl.LOCK_EX)
    with pytest.raises(DiscreetError, match=r"another process has it locked, for more than 0\.1 s\."):
        Job(file).run()
    os.close(theirs)
    assert Job(file).run().drawn == 1


def test_links_in_names_are_text(folder: Path) -> None:
    file = plan(folder)
    file.write_text(file.read_text().replace('name = "people"', 'name = "people"\ntitle = "[x](javascript:alert(1))"'))
    report = Job(file).run().markdown.read_text()
    assert "## \\[x\\](javascript:alert(1))" in report


# -- exit statuses -----------------------------------------------------------------------------------------------


def test_statuses(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = plan(folder)
    main(["run", str(file)])
    dear = plan(folder, "dear.toml", extra='[[release]]\nname = "mean"\nask = "mean"\ncolumn = "age"')
    assert status("plan", dear) == 3
    assert "A run would be refused" in capsys.readouterr().out
    assert status("run", dear) == 3
    wrong = plan(folder, "wrong.toml")
    wrong.write_text(wrong.read_text().replace("count", "counts"))
    assert status("plan", wrong) == 2
    assert status("plan", folder / "none.toml") == 2
    assert status("ledger", "show", folder / "none.ledger") == 5
    missing = plan(folder, "missing.toml", source="missing.csv")
    assert status("run", missing) == 4
    (folder / "survey.ledger").write_text("no ledger")
    assert status("plan", file) == 5
    assert "Traceback" not in capsys.readouterr().err


def test_stopped_run_says_so(folder: Path) -> None:
    more = "".join(f'\n[[release]]\nname = "{number}"\nask = "count"' for number in range(1500))
    command = [sys.executable, "-c", RUN, "run", str(plan(folder, extra=more))]
    run = started(command)
    assert run.stderr is not None
    for line in run.stderr:  # to its end, where the run fails before
        if "released" in line:
            run.send_signal(signal.SIGINT)
            break
    assert "stopped; what was released so far is in the ledger" in told(run, status=130)[1]


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_terminals_that_cannot_show_epsilon(folder: Path, encoding: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    for command in ("plan", "run"):
        assert "? = 1" in output([sys.executable, "-c", RUN, command, str(plan(folder))], env=environment)


def test_names_cannot_command_a_terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = plan(folder)
    file.write_text(file.read_text().replace('name = "people"', 'name = "a\\u001b[2Jb\\u009bc"'))
    main(["plan", str(file)])
    main(["run", str(file), "--log", str(folder / "log.jsonl")])
    told, log = capsys.readouterr(), (folder / "log.jsonl").read_text(encoding="utf-8")
    assert "\x1b" not in told.out + told.err + log
    assert "\x9b" not in told.out + told.err + log
    assert json.loads(log.splitlines()[1])["name"] == "a\x1b[2Jb\x9bc"
    assert "a\\u001b[2Jb" in told.out


# -- plans that are wrong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ("[budget]", 'memory = "lots"\n[budget]', "memory = 'lots' must be an amount"),
        ("[budget]", "[ledger]\npath = 5\n[budget]", "path = 5 must be text"),
        ("[budget]", '[ledger]\ndataset = ""\n[budget]', "dataset = '' must be text"),
        ("[budget]", "[output]\ndirectory = 5\n[budget]", "directory = 5 must be text"),
        ("[budget]", '[output]\ndirectory = "a\\u0000b"\n[budget]', "must be text"),
        (
            "[schema.columns.age]\nlow = 18\nhigh = 100\ngrid = 1\n",
            "[schema]\ncolumns = [1]\n",
            "columns must be tables",
        ),
        ('[[release]]\nname = "people"\nask = "count"', "", "[release] is missing"),
        ('ask = "count"', f'ask = "count"\nweight = {10**400}', "weight must be a positive number"),
        ('ask = "count"', f'ask = "count"\nexpected_rows = {10**400}', "expected_rows"),
        ('ask = "count"', f"x = {'[' * 5000}{']' * 5000}", "nested too deeply"),
    ],
)
def test_wrong_plans_are_refused_with_words(folder: Path, before: str, after: str, text: str) -> None:
    file = plan(folder)
    content = file.read_text()
    assert before in content
    file.write_text(content.replace(before, after))
    with pytest.raises(PlanFileError, match=r"survey\.toml") as refusal:
        Job(file).plan()
    assert text in str(refusal.value)


def test_releases_that_are_no_tables(folder: Path) -> None:
    file = plan(folder)
    lines = file.read_text().split("[[release]]")[0]
    file.write_text(f"release = [1, 2]\n{lines}")
    with pytest.raises(PlanFileError, match=r"write each release as \[\[release\]\]"):
        Job(file).plan()


def test_byte_order_mark_is_no_mistake(folder: Path) -> None:
    file = plan(folder)
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert Job(file).plan().refusal is None


def test_damaged_ledgers_nearby_are_not_judged(folder: Path) -> None:
    (folder / "broken.ledger").write_text("discreet ledger 2\nx y z\n")
    assert Job(plan(folder)).plan().warnings == ()
    with pytest.raises(LedgerCorrupted):
        Ledger(folder / "broken.ledger")
    with pytest.raises(DiscreetError):
        Ledger(folder / "broken.ledger", read_only=True)


def test_results_hold_the_head(folder: Path) -> None:
    done = Job(plan(folder)).run()
    assert json.loads(done.results.read_text())["facts"]["privacy"]["head"] == done.head


# -- a restored backup -------------------------------------------------------------------------------------------


def backed_up(folder: Path, extra: str) -> tuple[Path, Path]:
    """A plan that was run, and whose ledger was then restored from a copy made before the run, witness included."""
    file = plan(folder, extra=extra)
    file.write_text(file.read_text().replace('ask = "count"', 'ask = "count"\nepsilon = 0.25'))
    Job(file).ledger(write=True).close()
    backup = folder / "backup"
    backup.mkdir()
    for name in ("survey.ledger", "survey.ledger-head"):
        shutil.copy(folder / name, backup)
    assert Job(file).run().drawn == 1
    return file, backup


def restored(folder: Path, backup: Path) -> None:
    for name in ("survey.ledger", "survey.ledger-head"):
        shutil.copy(backup / name, folder)


@pytest.mark.parametrize("where", ["results", "anchor", "bundle"])
def test_a_run_with_a_restored_ledger_is_refused(
    folder: Path, where: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, backup = backed_up(folder, '[ledger]\nanchor = "heads.txt"\n' if where == "anchor" else "")
    results = folder / "survey-report" / "results.json"
    place = {"results": results, "anchor": folder / "heads.txt", "bundle": folder / "survey.bundle"}[where]
    if where == "bundle":
        monkeypatch.setenv("DISCREET_PASSWORD", "correct horse")
        main(["keys", "new", "officer", "--out", str(folder / "keys")])
        main(["bundle", str(file), "--as", "officer", "--key", str(folder / "keys" / "officer.key")])
    restored(folder, backup)
    if where != "results":
        results.unlink()
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for arguments in (["--dry-run"], []):
        assert status("run", file, *arguments) == 5
        told = " ".join(capsys.readouterr().err.split())
        assert str(place) in told
        assert "prove that: take the head out of" in told
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    place.unlink()  # the proof that it is meant
    assert Job(file).run().drawn == 1


def signed_bundle(folder: Path, file: Path, out: str) -> None:
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw().hex()
    write_bundle(file, folder / out, by="officer", public=public, sign=key.sign)


@pytest.mark.parametrize("where", ["elsewhere", "moved aside", "bundle of another name"])
def test_a_restored_ledger_shows_in_whatever_the_plan_published(folder: Path, where: str) -> None:
    file, backup = backed_up(folder, "")
    report, out = folder / "survey-report", None
    if where == "elsewhere":
        out = folder / "other"
    elif where == "moved aside":
        (report / "results.json").rename(report / "results-1.json")
    else:
        signed_bundle(folder, file, "2026.bundle")
        shutil.rmtree(report)
    restored(folder, backup)
    with pytest.raises(LedgerCorrupted, match="The ledger is older than what was published"):
        Job(file).run(output=out)


def test_a_restored_ledger_shows_in_results_of_other_periods(folder: Path) -> None:
    file, backup = backed_up(folder, "")
    file.write_text('period = "2026-10"\n' + file.read_text())
    Job(file).run()
    shutil.rmtree(folder / "survey-report" / "2026-10")
    Job(file, period="2026-09").run()
    restored(folder, backup)
    for result in (folder / "survey-report").glob("results*.json"):
        result.unlink()
    with pytest.raises(LedgerCorrupted, match=r"2026-09/results\.json"):
        Job(file).run()


def test_a_bundle_tells_what_others_spent_before_it_was_made(folder: Path) -> None:
    file, backup = backed_up(folder, "")
    for name in ("survey.ledger", "survey.ledger-head"):
        shutil.copy(folder / name, backup)  # after the plan's own release
    other = plan(folder, "other.toml", extra='epsilon = 0.5\ncolumn = "age"')
    other.write_text(other.read_text().replace('ask = "count"', 'ask = "mean"'))
    Job(other).run()
    signed_bundle(folder, file, "survey.bundle")
    restored(folder, backup)
    with pytest.raises(LedgerCorrupted, match=r"survey\.bundle holds"):
        Job(file).run(again=True)


def test_a_new_ledger_beside_old_results_is_refused(folder: Path) -> None:
    file, _ = backed_up(folder, "")
    for name in ("survey.ledger", "survey.ledger-head"):
        (folder / name).unlink()
    with pytest.raises(LedgerCorrupted, match="the new ledger: no entry has the head"):
        Job(file).run()
    assert not (folder / "survey.ledger").exists()


HEADS = [b'{"facts": 1}', *(b'{"facts": {"privacy": {"head": %s}}}' % one for one in (b"5", b"[1]", b"{}", b'"x"'))]


@pytest.mark.parametrize("content", [b"my own notes", b"{", b"{}", b"[" * 100_000, b"\xff", *HEADS])
def test_other_files_under_the_name_of_results_say_nothing(folder: Path, content: bytes) -> None:
    file = plan(folder)
    (folder / "survey-report").mkdir()
    (folder / "survey-report" / "results.json").write_bytes(content)
    (folder / "survey.bundle").write_bytes(content)
    assert Job(file).run().drawn == 1


# -- shares, counted as the ledger counts ------------------------------------------------------------------------

SHARES: dict[str, Callable[[int], list[float]]] = {
    "equal": lambda number: [1.0] * number,
    "rising": lambda number: [place + 1.0 for place in range(number)],
    "one large": lambda number: [3.0, *[1.0] * (number - 1)],
    "tenths": lambda number: [0.1 * (place + 1) for place in range(number)],
}
BUDGETS = [PureDP(1.0), PureDP(0.3), ApproxDP(1.0, 1e-6), ZeroConcentratedDP(0.7), GaussianDP(0.9)]


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("shares", SHARES)
def test_whatever_was_paid_of_its_shares_the_rest_can_be(budget: Guarantee, shares: str) -> None:
    """Every plan of 2 to 12 releases, stopped after each of them."""
    for number in range(2, 13):
        parts = divided(budget, SHARES[shares](number))
        ledger = Ledger(":memory:", budget)
        for stop, part in enumerate(parts):
            assert refusal_of(ledger, 0, parts[stop:]) is None, (number, stop)
            ledger.reserve(part, question="count", mechanism={}, sensitivity={}, protection=Protection())
        assert not ledger.affords(parts[:1])


def test_a_stopped_plan_of_equal_shares_is_resumed(folder: Path) -> None:
    more = "".join(f'[[release]]\nname = "again {number}"\nask = "count"\n' for number in range(6))
    file = plan(folder, extra=more)

    def stop(_: RunProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Job(file).run(progress=stop)
    done = Job(file).run()
    assert (done.drawn, done.reused) == (6, 1)
