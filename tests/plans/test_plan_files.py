"""Plan files and the command line: located refusals, no data for plans, resumed and repeated runs, kills."""

import errno
import fcntl
import io
import json
import os
import random
import re
import sys
import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet import Categories, Schema, Session
from discreet.cli.main import main
from discreet.core.errors import DiscreetError, InsufficientBudget, NoConversion, PlanFileError
from discreet.core.guarantee import ApproxDP, PureDP
from discreet.mechanisms.composition import compose
from discreet.plans.bundle import verify_bundle
from discreet.plans.job import Job, refusal_of
from discreet.plans.plan_file import PlanFile
from discreet.plans.review import review, signer
from discreet.plans.skeleton import skeleton
from discreet.publish import files
from discreet.publish.export import read_facts
from discreet.publish.files import write_anchor, write_whole
from discreet.questions import form
from discreet.questions.facade import Asked, Questions
from discreet.questions.mean import MeanQuestion
from discreet.questions.question import MeasuredQuestion
from discreet.results.ledger import Ledger
from discreet.results.release import Release
from discreet.studio.toml_document import TomlDocument, digest_of
from tests.processes import started, told

PLAN = """\
title = "Visits <b>&</b> spend"

[source]
path = "rows.parquet"

[budget]
epsilon = 2.0

[schema.unit]
column = "user"
groups = 1
rows = 2

[schema.columns.arm]
categories = ["A", "B"]

[schema.columns.spend]
low = 0
high = 20
grid = 0.5

[[release]]
name = "rows"
ask = "count"

[[release]]
name = "spend"
ask = "mean"
column = "spend"
by = ["arm"]
variance = true
per_unit = true

[[release]]
name = "median"
ask = "quantile"
column = "spend"
probabilities = 0.5
interval = 0.9

[[release]]
name = "fit"
ask = "goodness_of_fit"
column = "arm"
probabilities = [0.5, 0.5]
total = 1

[schema.features.spend]
of = "spend"
take = "sum"
low = 0
high = 30

[schema.features.arm]
of = "arm"
take = "min"
"""
NAMES = ["rows", "spend", "median", "fit"]


@pytest.fixture
def plan(tmp_path):
    rng = np.random.default_rng(3)
    table = {"user": rng.integers(0, 300, 1000), "arm": rng.choice(["A", "B"], 1000), "spend": rng.exponential(4, 1000)}
    pq.write_table(pa.table(table), tmp_path / "rows.parquet")
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return path


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("[budget]", "[budgets]", 6, "budgets"),
        ("epsilon = 2.0", "epsilon = -2.0", 7, "epsilon"),
        ("epsilon = 2.0", "epsilon = 2.0\nrho = 1", 6, "give epsilon"),
        ("epsilon = 2.0", 'epsilon = "two"', 7, "epsilon"),
        ('path = "rows.parquet"', 'pth = "rows.parquet"', 4, "pth"),
        ('path = "rows.parquet"', "path = 3", 4, "path"),
        ("high = 20", "high = -20", 17, "bounds"),
        ("grid = 0.5\n\n[[release]]", "grid = 0.3\n\n[[release]]", 19, "grid"),
        ("grid = 0.5\n\n[[release]]", "gird = 0.5\n\n[[release]]", 20, "gird"),
        ('categories = ["A", "B"]', 'categories = ["A", "A"]', 14, "repeat"),
        ("rows = 2", "rows = 0", 12, "rows"),
        ('ask = "mean"', 'ask = "average"', 28, "average"),
        ('column = "spend"\nby', 'colum = "spend"\nby', 29, "colum"),
        ('column = "spend"\nby', 'column = "speed"\nby', 29, "speed"),
        ('name = "median"', 'name = "rows"', 35, "different"),
        ("probabilities = 0.5", "probabilities = 1.5", 38, "probabilities"),
        ("variance = true", 'variance = true\nweight = "much"', 32, "weight"),
        ("variance = true", "variance = true\nepsilon = 1.0", 22, "some releases"),
        ("per_unit = true", "per_unit = 3", 32, "true or false"),
        ("total = 1", "rows = 3", 46, "independent"),
        ("title = ", "title == ", None, "TOML"),
        ("variance = true", 'variance = "yes"', 31, "true or false"),
        ("variance = true", 'expected_rows = "6,000"', 31, "whole number"),
        ("variance = true", "expected_rows = 0", 31, "whole number"),
        ("variance = true", "delta = 1e-6", 22, "some releases"),
        ("total = 1", "total = 1\nepsilon = 1.0\nweight = 2", 48, "not both"),
        ('column = "spend"\nby', 'column = ["spend"]\nby', 29, "one column"),
        ('by = ["arm"]', "by = 1979-05-27", 30, "name of a column"),
    ],
)
def test_errors_point_at_the_line(plan, old, new, line, says):
    assert old in PLAN
    plan.write_text(PLAN.replace(old, new, 1))
    with pytest.raises(PlanFileError) as refusal:
        Job(plan).plan()
    text = str(refusal.value)
    assert says in text
    if line is not None:
        assert text.startswith(f"{plan}:{line}:"), text
    assert sorted(path.name for path in plan.parent.iterdir()) == ["plan.toml", "rows.parquet"]


def test_missing_and_unreadable_plans(tmp_path):
    (tmp_path / "rows.csv").write_text("person,age\n1,2\n")
    with pytest.raises(PlanFileError, match=r"discreet describe rows\.csv"):
        PlanFile.read(tmp_path / "rows.csv")
    with pytest.raises(PlanFileError):
        PlanFile.read(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PlanFileError):
        PlanFile.read(tmp_path / "binary.toml")


def test_planning_reads_no_data_and_leaves_nothing(plan, capsys):
    (plan.parent / "rows.parquet").unlink()
    planned = Job(plan).plan()
    assert planned.cost == PureDP(2.0)
    assert [name for name, _ in planned.releases] == NAMES
    assert max(len(line) for line in str(planned).splitlines()) <= 80
    main(["plan", str(plan)])
    assert "No data was read" in capsys.readouterr().out
    main(["plan", str(plan), "--json"])
    assert json.loads(capsys.readouterr().out)["cost"]["epsilon"] == 2.0
    assert [path.name for path in plan.parent.iterdir()] == ["plan.toml"]


def test_a_run_writes_results_once_and_repeats_them_for_nothing(plan, capsys, monkeypatch):
    steps = []
    first = Job(plan).run(progress=steps.append)
    assert (first.drawn, first.reused, first.spent) == (4, 0, PureDP(2.0))
    assert [(step.name, step.fresh) for step in steps] == [(name, True) for name in NAMES]
    results = json.loads(first.results.read_text())
    assert list(results["releases"]) == NAMES
    assert Release.from_dict(results["releases"]["rows"]).guarantee == PureDP(0.5)
    (plan.parent / "rows.parquet").unlink()  # stored answers need no data
    again = Job(plan).run()
    assert (again.drawn, again.reused) == (0, 4)
    assert json.loads(again.results.read_text())["releases"] == results["releases"]
    assert Job(plan).plan().cost is None
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    main(["run", str(plan)])
    assert "nothing is spent" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["run", str(plan), "--again"])
    assert "--yes" in capsys.readouterr().err
    with pytest.raises(InsufficientBudget):
        Job(plan).run(again=True)


def test_running_again_spends_again_when_told_to(plan):
    plan.write_text(PLAN.replace("epsilon = 2.0", "epsilon = 4.0").replace('ask = "', 'epsilon = 0.5\nask = "'))
    first = Job(plan).run()
    second = Job(plan).run(again=True)
    assert (second.drawn, second.spent) == (4, PureDP(4.0))
    assert first.page == second.page


def test_only_changed_releases_are_paid_for(plan):
    text = PLAN.replace('ask = "', 'epsilon = 0.25\nask = "')
    plan.write_text(text)
    Job(plan).run()
    plan.write_text(text.replace("probabilities = 0.5\n", "probabilities = 0.6\n"))
    result = Job(plan).run()
    assert (result.drawn, result.reused, result.spent) == (1, 3, PureDP(1.25))


def test_nothing_is_spent_where_results_cannot_be_kept(plan):
    blocked = plan.parent / "blocked"
    blocked.write_text("a file, not a directory")
    with pytest.raises(DiscreetError, match="cannot be written"):
        Job(plan).run(output=blocked / "report")
    assert not (plan.parent / "rows.ledger").exists()


@pytest.mark.parametrize("column", ["spend", "arm", "user"])
def test_data_that_does_not_fit_the_schema_spends_nothing(plan, column):
    table = pq.read_table(plan.parent / "rows.parquet").drop_columns([column])
    pq.write_table(table, plan.parent / "rows.parquet")
    plan.write_text(PLAN.replace('ask = "count"', 'ask = "count"\nby = ["arm"]') if column == "arm" else PLAN)
    with pytest.raises(PlanFileError, match=column):
        Job(plan).run()
    with Ledger(plan.parent / "rows.ledger", read_only=True) as ledger:
        assert ledger.spent() == PureDP(0.0)


def test_a_misspelt_column_is_told_before_the_first_release(plan):
    plan.write_text(
        PLAN.replace("columns.spend]", "columns.spnd]")
        .replace(' = "spend"\nprob', ' = "spnd"\nprob')
        .replace('of = "spend"', 'of = "spnd"')
    )
    with pytest.raises(PlanFileError, match=r"release 'spend'.*Did you mean 'spend'.*Nothing was spent"):
        Job(plan).run()
    with Ledger(plan.parent / "rows.ledger", read_only=True) as ledger:
        assert ledger.spent() == PureDP(0.0)


@pytest.mark.parametrize(
    ("budget", "own", "says"),
    [("epsilon = 2.0", "epsilon = 0.7", "ε = 2.8"), ("epsilon = 2.0", "rho = 0.1", "the same kind")],
)
def test_a_plan_tells_that_its_run_would_be_refused(plan, budget, own, says):
    plan.write_text(re.sub(r"(ask = .*)", rf"\1\n{own}", PLAN))
    planned = Job(plan).plan()
    assert planned.refusal is not None
    assert says in " ".join(str(planned).split())
    assert max(map(len, str(planned).splitlines())) <= 80
    with pytest.raises(DiscreetError, match=re.escape(planned.refusal)):
        Job(plan).run()
    assert Job(plan).plan().remaining == PureDP(2.0)


def test_a_plan_after_a_profile_is_refused_for_its_cost_and_not_for_its_kind():
    session = Session(pa.table({"a": [1]}), Schema(columns={}), ledger=":memory:", budget=ApproxDP(2.0, 2e-6))
    session.count(epsilon=1.0, delta=1e-6)
    ledger = session.ledger
    refused = refusal_of(ledger, 0, [ApproxDP(2.0, 2e-6)])
    assert isinstance(refused, InsufficientBudget)
    assert "A part of the budget is spent" in str(refused)
    assert refusal_of(ledger, 0, [ApproxDP(1.0, 1e-6)]) is None
    assert refusal_of(ledger, 0, [PureDP(1.0)]) is None
    assert isinstance(refusal_of(Ledger(":memory:", PureDP(1.0)), 0, [ApproxDP(1.0, 1e-6)]), NoConversion)


def test_a_release_more_changes_all_shares(plan):
    Job(plan).run()
    plan.write_text(PLAN + '\n[[release]]\nname = "more"\nask = "count"\n')
    with pytest.raises(InsufficientBudget, match="4 of them were released before"):
        Job(plan).run()


def test_shares_leave_nothing_over(plan):
    for weights in [(1, 1, 1), (1, 2, 4), (3, 1, 1)]:
        text = PLAN.split('[[release]]\nname = "fit"')[0]
        for weight in weights:
            text = text.replace("ask = ", f"weight = {weight}\nask_ = ", 1)
        plan.write_text(text.replace("ask_ = ", "ask = ") + PLAN[PLAN.index("[schema.features") :])
        parts = [planned.question.guarantee for planned in PlanFile.read(plan).questions]
        assert compose(*parts) == PureDP(2.0)


def test_killed_runs_resume_and_never_under_count(plan):
    # 6 kills, at random moments after so many releases; each that reached the results is in the ledger exactly once.
    command = [sys.executable, "-c", "from discreet.cli.main import main; main()", "run", str(plan)]
    chance = random.Random(5)
    for releases in (0, 1, 2, 4, 4, 4):  # after the fourth, reports are written
        program = started(command)
        for _ in range(releases):
            program.stderr.readline()  # nothing, where it has ended
        time.sleep(chance.uniform(0.0, 0.4))
        program.kill()
        program.communicate()
    result = Job(plan).run()
    with Ledger(plan.parent / "rows.ledger", read_only=True) as ledger:
        assert ledger.verify().spent == PureDP(2.0)
        spends = ledger.events()
        assert len({spend.request for spend in spends}) == len(spends) == 4
    stored = json.loads(result.results.read_text())["releases"]
    assert {one["release_id"] for one in stored.values()} == {spend.release_id for spend in spends}
    assert not [path for path in result.results.parent.iterdir() if path.name.startswith(".")]


def test_what_a_killed_writer_left_is_removed_and_what_is_being_written_is_not(tmp_path):
    abandoned, written = tmp_path / ".plan[1].md-abandoned.part", tmp_path / ".plan[1].md-written.part"
    abandoned.touch()
    with written.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for content in ("once", "again"):
            write_whole(tmp_path / "plan[1].md", content)
    assert sorted(one.name for one in tmp_path.iterdir()) == [written.name, "plan[1].md"]
    assert (tmp_path / "plan[1].md").read_text() == "again"


def test_what_is_no_file_of_ours_is_not_opened_and_permissions_stay(tmp_path):
    private, secret = tmp_path / "plan.toml", tmp_path / "secret"
    private.write_text("old")
    private.chmod(0o600)
    secret.write_text("kept")
    os.mkfifo(tmp_path / ".plan.toml-pipe.part")
    (tmp_path / ".plan.toml-link.part").symlink_to(secret)
    write_whole(private, "new")
    assert private.read_text() == "new"
    assert private.stat().st_mode & 0o777 == 0o600
    assert {".plan.toml-pipe.part", ".plan.toml-link.part"} < {one.name for one in tmp_path.iterdir()}


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    file = tmp_path / "plan.toml"
    file.write_text("")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiscreetError, match=r"plan.toml: cannot be written: the disk is full\."):
        TomlDocument(file).replace("a = 1", digest_of(""))
    assert [one.name for one in tmp_path.iterdir()] == ["plan.toml"]


def test_an_unfinished_file_that_another_writer_takes_for_abandoned_is_made_again(tmp_path, monkeypatch):
    lock, taken = files._locked, []

    def late(handle, *, wait):
        if wait and not taken:
            taken.append(True)
            files._remove_abandoned(tmp_path / "plan.md")
            assert list(tmp_path.iterdir()) == []
        return lock(handle, wait=wait)

    monkeypatch.setattr(files, "_locked", late)
    write_whole(tmp_path / "plan.md", "text")
    assert [one.read_text() for one in tmp_path.iterdir()] == ["text"]


def test_a_ledger_whose_creation_was_cut_short_is_started_again(plan):
    (plan.parent / "rows.ledger").touch()
    assert Job(plan).plan().remaining == PureDP(2.0)
    assert not Job(plan).finished()
    assert Job(plan).run().drawn == 4


def test_ledger_commands(plan, capsys):
    Job(plan).run()
    ledger = str(plan.parent / "rows.ledger")
    main(["ledger", "show", ledger])
    assert "releases    4" in capsys.readouterr().out
    main(["ledger", "show", ledger, "--json"])
    assert json.loads(capsys.readouterr().out)
    main(["ledger", "verify", ledger])
    assert "intact" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["ledger", "show", str(plan.parent / "none.sqlite")])
    told = capsys.readouterr().err
    assert "Traceback" not in told
    assert "Check the path" in told


def test_a_reader_that_stops_reading_is_no_failure(plan):
    command = [sys.executable, "-c", "from discreet.cli.main import main; main()", "plan", str(plan), "--json"]
    program = started(command)
    program.stdout.close()
    program.stdout = None  # nobody reads it
    assert told(program)[1] == ""


def test_describe_writes_names_and_types_only(plan, capsys):
    main(["describe", str(plan.parent / "rows.parquet")])
    text = capsys.readouterr().out
    assert '[schema.columns."spend"]  # double' in text
    table = pq.read_table(plan.parent / "rows.parquet").to_pydict()
    assert str(table["spend"][0]) not in text
    out = plan.parent / "new.toml"
    main(["describe", str(plan.parent / "rows.parquet"), "--out", str(out)])
    with pytest.raises(SystemExit):
        main(["describe", str(plan.parent / "rows.parquet"), "--out", str(out)])
    assert "exists" in capsys.readouterr().err
    text = skeleton("x.csv", {'odd "name" [x]': "string"})
    out.write_text(text)
    assert len(PlanFile.read(out).questions) == 1  # usable as it stands, for a count
    filled = text.replace("# [schema.columns", "[schema.columns").replace('# categories = ["…"]', 'categories = ["a"]')
    out.write_text(filled)
    assert list(PlanFile.read(out).schema.columns) == ['odd "name" [x]']


IDENTITY = """\
[source]
path = "rows.csv"

[budget]
epsilon = 4.0

[schema.columns.x]
low = 0
high = 10
grid = 1

[[release]]
name = "mean"
ask = "mean"
column = "x"
epsilon = 1.0
"""


@pytest.mark.parametrize(
    ("old", "new", "drawn"),
    [
        ('path = "rows.csv"', 'path = "./rows.csv"', 0),
        ('path = "rows.csv"', 'path = "rows.csv"\nmemory = "1GB"', 0),
        ('path = "rows.csv"', 'path = "rows.csv"\ndecimal = "."', 0),
        ('path = "rows.csv"', 'path = "rows.csv"\nengine = "duckdb"', 0),
        ('column = "x"', 'by = []\ncolumn = "x"', None),
        ('column = "x"', 'variance = true\ncolumn = "x"', 0),
        ('column = "x"', 'expected_rows = 400\ncolumn = "x"', 0),
        ("epsilon = 1.0", "epsilon = 2.0", 1),
        ('column = "x"', 'variance = false\ncolumn = "x"', 1),
        ("high = 10", "high = 20", 1),
        ('name = "mean"', 'title = "The mean"\nname = "mean"', 0),
    ],
)
def test_a_release_is_the_same_where_the_same_is_asked_of_the_same_data(tmp_path, old, new, drawn):
    """The words of the file and how the data is read do not matter; what is asked does."""
    (tmp_path / "rows.csv").write_text("x\n" + "5\n" * 50)
    path = tmp_path / "plan.toml"
    path.write_text(IDENTITY)
    assert Job(path).run().drawn == 1
    assert old in IDENTITY
    path.write_text(IDENTITY.replace(old, new))
    if drawn is None:
        with pytest.raises(PlanFileError, match="by"):
            Job(path).run()
    else:
        assert Job(path).run().drawn == drawn


def test_a_moved_folder_and_a_renamed_parameter_release_nothing_again(tmp_path, monkeypatch):
    first = tmp_path / "first"
    first.mkdir()
    (first / "rows.csv").write_text("x\n" + "5\n" * 50)
    (first / "plan.toml").write_text(IDENTITY)
    assert Job(first / "plan.toml").run().drawn == 1
    second = first.rename(tmp_path / "second")
    assert Job(second / "plan.toml").run().drawn == 0

    @dataclass(frozen=True)
    class Renamed(MeasuredQuestion[Any]):
        ask: ClassVar[str] = "mean"
        meaning: ClassVar[str] = "The mean."
        forms: ClassVar[dict[str, Any]] = {"variable": form.COLUMN}
        variable: str

        def _measured(self):
            return MeanQuestion(self.schema, self.variable, guarantee=self.guarantee).measurement

    monkeypatch.setattr(Questions, "mean", Asked(lambda: Renamed))
    path = second / "plan.toml"
    path.write_text(path.read_text().replace('column = "x"', 'variable = "x"'))
    assert Job(path).run().drawn == 0


def test_another_label_is_another_question(tmp_path):
    schema = Schema(columns={"vote": Categories(["yes", "no"])})
    session = Session(pa.table({"vote": ["yes", "no"] * 50}), schema, ledger=":memory:", budget=PureDP(2.0))
    session.proportion("vote", "yes", epsilon=1.0, name="r")
    with pytest.raises(DiscreetError, match="different release"):
        session.proportion("vote", "no", epsilon=1.0, name="r")


# -- files that are none -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["9" * 5000, "-" + "1" * 4301, "0x" + "f" * 9000, "0b" + "1" * 40_000])
def test_endless_integers_are_refused_in_words(plan, number):
    for setting in ("epsilon = 2.0", "rows = 2", "low = 0"):
        text = plan.read_text()
        plan.write_text(text.replace(setting, f"{setting.split(' = ')[0]} = {number}"))
        with pytest.raises(PlanFileError, match=r"has an integer of more than 1,000 digits\."):
            Job(plan)
        plan.write_text(text)


@pytest.mark.parametrize("kind", ["fifo", "device", "directory", "huge"])
def test_plans_bundles_keys_and_anchors_are_regular_files(tmp_path, kind):
    """A FIFO would be waited for without end, and a device be read without end."""
    place = tmp_path / "it.toml"
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "directory":
        place.mkdir()
    elif kind == "huge":
        with place.open("wb") as file:
            file.truncate(1 << 40)
    else:
        place.symlink_to("/dev/zero")
    words = {"directory": "is a directory", "huge": "it is larger than"}.get(kind, "is a FIFO, a device or a socket")
    with pytest.raises(PlanFileError, match=words):
        PlanFile.read(place)
    assert words in str(verify_bundle(place))
    with pytest.raises(DiscreetError, match=words):
        signer(place, "a password")
    if kind != "huge":
        with pytest.raises(DiscreetError, match=words), Ledger(":memory:", PureDP(1.0)) as ledger:
            write_anchor(ledger, place)


PIPES = """
import os, sys
from discreet.cli.main import main
for name, command in {
    "log.jsonl": "run plan.toml --log log.jsonl",
    "rows.parquet": "run plan.toml",
    "rows.ledger-sources": "run plan.toml",
    "plan.attack.json": "run plan.toml",
    "plan.bundle": "run plan.toml",
    "plan-report/results.json": "export plan-report",
    "pipe": "export pipe",
    "rows.csv": "describe rows.csv",
    "heads.txt": "ledger verify rows.ledger --anchor heads.txt",
    "other.ledger": "run plan.toml",
}.items():
    if os.path.exists(name):
        os.rename(name, "aside")
    os.mkfifo(name)
    try:
        main(command.split())
        status = 0
    except SystemExit as ended:
        status = ended.code
    print(name, status)
    if os.path.exists(name):  # results are moved aside
        os.unlink(name)
    if os.path.exists("aside"):
        os.rename("aside", name)
"""


def test_no_command_waits_for_a_pipe(plan):
    """Named on the command line or in the plan, or beside it under a name that is looked for."""
    Job(plan).run()
    out, err = told(started([sys.executable, "-c", PIPES], cwd=plan.parent))
    ended = dict(line.split() for line in out.splitlines() if re.fullmatch(r"\S+ \d", line))
    assert ended == {
        "log.jsonl": "1", "rows.parquet": "0", "rows.ledger-sources": "0", "plan.attack.json": "0", "plan.bundle": "0",
        "plan-report/results.json": "2", "pipe": "2", "rows.csv": "4", "heads.txt": "2", "other.ledger": "0",
    }  # fmt: skip
    assert "log = 'log.jsonl': cannot be written: it is a FIFO that nobody reads" in err


@pytest.mark.parametrize("content", ["[" * 100_000, '{"plan.toml": 3}', '{"plan.toml": {"": []}}', "9" * 5000, "\0"])
def test_records_of_a_plan_may_hold_anything(plan, content):
    for record in ("rows.ledger-sources", "plan.attack.json"):
        plan.with_name(record).write_text(content)
    assert Job(plan).run().drawn == 4
    plan.with_name("rows.ledger-sources").write_text(content)
    assert "The rows can be read as the plan declares them." in Job(plan).check_source()
    results = plan.parent / "plan-report" / "results.json"
    results.write_text(content)
    with pytest.raises(DiscreetError, match="results"):
        read_facts(results)


def test_a_full_disk_is_told_in_words(plan, tmp_path, monkeypatch):
    """Wherever a run writes: what was released is in the ledger, and the next run writes it down."""
    Job(plan).run()

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("discreet.publish.files._unfinished", full)
        with pytest.raises(DiscreetError, match=r"results\.json: cannot be written: the disk is full\."):
            Job(plan).run(output=tmp_path / "other")
    with monkeypatch.context() as patch:
        patch.setattr("discreet.plans.job.tempfile.TemporaryFile", lambda **_: full())
        with pytest.raises(DiscreetError, match=r"cannot be written: the disk is full\."):
            Job(plan).run()


def test_a_condition_of_one_release(tmp_path):
    plan, table = tmp_path / "plan.toml", pa.table({"age": [12, 30, 47, 66] * 50})
    pq.write_table(table, tmp_path / "rows.parquet")
    plan.write_text(
        '[source]\npath = "rows.parquet"\n[budget]\nepsilon = 200.0\n'
        "[schema.columns.age]\nlow = 0\nhigh = 120\ngrid = 1\n"
        '[[release]]\nname = "all"\nask = "count"\n'
        '[[release]]\nname = "adults"\nask = "count"\nwhere = "age >= 18"\n'
    )
    result = Job(plan).run()
    assert result.to_pandas()["estimate"].tolist() == [200, 150]
    assert "Of the rows where age &gt;= 18." in result.page.read_text()
    assert Job(plan).run().drawn == 0
    plan.write_text(plan.read_text().replace("age >= 18", "aeg >= 18"))
    with pytest.raises(PlanFileError, match=r"plan\.toml:15: release 'adults'.*Did you mean 'age'"):
        Job(plan).plan()


OMITTING = """
[[release]]
name = "{name}"
ask = "{ask}"
omit = {omit}
"""
BY_ROW = PLAN[: PLAN.index("[schema.unit]")] + PLAN[PLAN.index("[schema.columns.arm]") : PLAN.index("[[release]]")]
SAMPLED = "{ poisson = 0.25 }"
SUPPRESSED = '{ outliers = [0.4, 0.5], column = "spend" }'


def test_a_plan_omits_rows_says_so_and_stores_the_answer_for_that(plan):
    """1,000 rows at rate 0.25: 250 kept, with standard deviation 14; suppression keeps between 500 and 600."""
    text = BY_ROW.replace("epsilon = 2.0", "epsilon = 20.0")
    text += OMITTING.format(name="sampled", ask="count", omit=SAMPLED)
    text += OMITTING.format(name="left", ask="count", omit=SUPPRESSED)
    plan.write_text(text)
    job = Job(plan)
    planned = dict(job.plan().releases)
    assert planned["sampled"].mechanism == "behind_omission"
    assert "keeps each row with probability 0.25" in " ".join(planned["sampled"].notes)
    sampled, left = (one["tells"] for one in review(plan).releases)
    assert "keeps each row with probability 0.25" in sampled
    assert "probability 0.4 to 0.5, outliers in spend more often" in left
    result = job.run()
    values = {row["release"]: row["estimate"] for row in result.rows()}
    assert abs(values["sampled"] - 250) < 90
    assert 420 < values["left"] < 680
    assert "keeps each row with probability 0.25" in result.markdown.read_text()
    released = json.loads(result.results.read_text())["releases"]["sampled"]
    assert released["guarantee"]["epsilon"] <= 10.0
    assert Job(plan).run().drawn == 0
    plan.write_text(text.replace("poisson = 0.25", "poisson = 0.5"))
    assert [one.name for one in PlanFile.read(plan).questions if one.question.omit.to_dict().get("rate") == 0.5]
    assert not Job(plan).finished()  # another rate is another question


@pytest.mark.parametrize(
    ("omit", "ask", "says"),
    [
        ("0.2", "count", "must be a step that drops rows"),
        ("{ poisson = 0 }", "count", "must be positive"),
        ("{ poisson = 0.5, seed = 1 }", "count", "must be a step that drops rows"),
        ('{ outliers = [0.4, 0.5], column = "arm" }', "count", "number of the source"),
        ('{ outliers = [0.5, 0.4], column = "spend" }', "count", "m"),
        (SUPPRESSED, 'goodness_of_fit"\ncolumn = "arm"\nprobabilities = [0.5, 0.5]\ntitle = "fit', "not proved"),
        (SAMPLED, 'clusters"\ncolumns = ["spend"]\nn_clusters = 2\ntitle = "two', "not proved"),
    ],
)
def test_steps_that_are_not_proved_are_refused_with_their_line(plan, omit, ask, says):
    plan.write_text(text := BY_ROW + OMITTING.format(name="kept", ask=ask, omit=omit))
    line = next(number for number, one in enumerate(text.splitlines(), start=1) if one.startswith("omit"))
    with pytest.raises(PlanFileError, match=re.escape(says)) as refusal:
        Job(plan).plan()
    assert str(refusal.value).startswith(f"{plan}:{line}:"), refusal.value


def test_units_with_several_rows_are_not_sampled_by_rows(plan):
    plan.write_text(PLAN.replace('ask = "count"', f'ask = "count"\nomit = {SAMPLED}'))
    with pytest.raises(PlanFileError, match="protects no unit with several rows"):
        Job(plan).plan()
