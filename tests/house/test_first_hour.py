"""The jobs of a newcomer, from made-up data to what is published, as the page on the first hour counts them."""

import random
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from discreet import Bounds, Categories, Schema, Session
from discreet.cli.main import main

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "first_hour.md"
EXAMPLES = Path(__file__).parents[2] / "examples"
PANEL = """
title = "Incomes"
[source]
path = "panel.csv"
delimiter = ";"
decimal = ","
thousands = "."
encoding = "cp1252"
[budget]
epsilon = 1.0
[schema.unit]
column = "Person"
total = 4
[schema.columns."Größe"]
low = 140
high = 210
[schema.columns."Einkommen"]
label = "monthly income"
measured_in = "€"
low = 0
high = 10_000
[[release]]
ask = "mean"
column = "Einkommen"
[[release]]
ask = "mean"
column = "Größe"
"""
SURVEY = """
title = "Pay"
[source]
path = "survey.csv"
[budget]
epsilon = 2.0
[schema]
noun = "person"
[schema.columns.SEX]
label = "Sex"
labels = { 1 = "men", 2 = "women" }
[schema.columns.AGE]
label = "Age"
measured_in = "years"
low = 0
high = 99
grid = 1
missing = [-9]
[schema.columns.band]
label = "Age group"
value = "AGE"
bands = [0, 18, 65, 99]
categories = ["0–17", "18–64", "65+"]
[schema.columns.PAY]
label = "Yearly pay"
measured_in = "dollars"
low = 0
high = 200_000
missing = ["N"]
[[release]]
ask = "tables"
tables = "all margins of SEX, band up to 2"
[[release]]
ask = "regression"
column = "PAY"
on = ["AGE", "SEX"]
"""
ARMS = """
title = "Tutoring"
[source]
path = "school.csv"
[budget]
epsilon = 1.0
[schema]
noun = "pupil"
[schema.columns.arm]
categories = ["control", "tutoring", "app"]
source = "the protocol of the trial"
[schema.columns.score]
low = 0
high = 100
source = "the points of the test"
[[release]]
name = "arms"
ask = "compare_arms"
column = "score"
by = "arm"
epsilon = 1.0
"""
RULE = """
[ledger.approvals]
need = 1
[ledger.approvals.keys]
KEY
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("DISCREET_PASSWORD", "four plain words here")
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def counted(job: str) -> tuple[int, int]:
    """Lines and commands of a job, as the page says."""
    [found] = re.findall(rf"^\| {re.escape(job)} \| (\d+) \| (\d+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return int(found[0]), int(found[1])


def lines(*texts: str) -> int:
    return sum(bool(line.strip()) for text in texts for line in text.splitlines())


def does(capsys: pytest.CaptureFixture[str], *commands: str) -> tuple[str, int]:
    """What commands print, and how many they are."""
    for command in commands:
        main(command.split())
    return capsys.readouterr().out, len(commands)


def test_a_mean_in_python(here: Path) -> None:
    typed = f"""
from discreet import Bounds, Schema, Session
schema = Schema(columns={{"age": Bounds(18, 100, grid=1)}})
survey = Session({str(EXAMPLES / "survey.csv")!r}, schema, ledger="survey.ledger", epsilon=1.0)
print(survey.mean("age", epsilon=0.5, name="age"))
"""
    exec(typed, {})
    assert counted("a mean, in Python") == (lines(typed), 0)


def test_a_csv_becomes_a_report(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("people.csv").write_text("age,region\n" + "".join(f"{20 + k % 50},north\n" for k in range(600)))
    does(capsys, "describe people.csv --out people.toml")
    typed = '[schema.columns.age]\nlow = 0\nhigh = 120\ngrid = 1\n[[release]]\nask = "mean"\ncolumn = "age"\n'
    Path("people.toml").write_text(Path("people.toml").read_text() + typed)
    told, more = does(capsys, "plan people.toml", "run people.toml")
    assert "report" in told
    assert "The mean age is" in Path("people-report/report.md").read_text(encoding="utf-8")
    assert counted("a report of a CSV file") == (lines(typed), 1 + more)


def test_a_panel_with_decimal_commas(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(1)
    rows = [f"{p};{rng.uniform(150, 200):.1f};{rng.randint(1, 5)}.{rng.randint(100, 999)},50".replace(".", ",", 1)
            for p in range(500) for _ in range(rng.randint(1, 4))]  # fmt: skip
    Path("panel.csv").write_text("Person;Größe;Einkommen\n" + "\n".join(rows) + "\n", encoding="cp1252")
    with pytest.raises(SystemExit):
        main(["describe", "panel.csv"])
    assert "--delimiter ';'" in capsys.readouterr().err
    Path("panel.toml").write_text(PANEL, encoding="utf-8")
    _, commands = does(capsys, "plan panel.toml", "run panel.toml")
    report = Path("panel-report/report.md").read_text(encoding="utf-8")
    assert "Mean monthly income in €" in report
    assert float(re.search(r"The mean Größe is ([\d.]+)", report)[1]) == pytest.approx(175, abs=12)
    assert counted("a panel with decimal commas and several rows per person") == (lines(PANEL), commands)


def test_bounds_that_nobody_knows(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    Path("pay.csv").write_text("pay,sex\n" + "".join(f"{p:.0f},{s}\n" for p, s in zip(
        rng.lognormal(10, 0.4, 20_000), rng.integers(1, 3, 20_000), strict=True)))  # fmt: skip
    _, commands = does(
        capsys, "profile pay.csv --epsilon 1 --budget 2 --out pay.toml --yes", "plan pay.toml", "run pay.toml"
    )
    plan = Path("pay.toml").read_text(encoding="utf-8")
    assert re.search(r"labels = .*1|categories = \[1, 2\]", plan)  # codes come back as labels
    assert counted("bounds that nobody knows") == (0, commands)


def test_a_survey_with_codes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    Path("survey.csv").write_text("SEX,AGE,PAY\n" + "".join(
        f"{s},{a if k % 50 else -9},{'N' if a < 18 else 900 * a}\n"
        for k, (s, a) in enumerate(zip(rng.integers(1, 3, 4000), rng.integers(0, 99, 4000), strict=True))))  # fmt: skip
    Path("survey.toml").write_text(SURVEY, encoding="utf-8")
    _, commands = does(capsys, "plan survey.toml", "run survey.toml")
    report = Path("survey-report/report.md").read_text(encoding="utf-8")
    assert "Number of people" in report
    assert "yearly pay in dollars" in report
    assert re.search(r"\| women \|.*65", report.replace("\n", " "))
    assert not re.search(r"\bPAY\b|\bSEX\b", report.partition("## The plan")[0])  # no code reaches a reader
    assert counted("a survey with codes, margins and a regression") == (lines(SURVEY), commands)


def test_a_file_of_spss(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    import pandas as pd

    frame = pd.DataFrame({"age": [30.0, 45.0, -9.0, 61.0] * 200, "sex": [1.0, 2.0] * 400})
    pyreadstat.write_sav(
        frame, "s.sav", variable_value_labels={"sex": {1: "men", 2: "women"}}, missing_ranges={"age": [-9]},
        column_labels=["Age", "Sex"],
    )  # fmt: skip
    does(capsys, "convert s.sav", "describe s.parquet --out s.toml")
    plan = Path("s.toml").read_text(encoding="utf-8")
    assert 'labels = { "1" = "men", "2" = "women" }' in plan
    assert "missing = [-9]" in plan
    assert '# label = "Age"' in plan  # the title that the file gives the column
    own = '\n[schema.columns.sex]\nlabels = { "1" = "men", "2" = "women" }\n'
    typed = '[[release]]\nask = "table"\ncolumns = ["sex"]\n'
    Path("s.toml").write_text(plan + own + typed, encoding="utf-8")
    does(capsys, "run s.toml")
    assert "| women |" in Path("s-report/report.md").read_text(encoding="utf-8")
    assert counted("a file of SPSS") == (lines(own, typed), 3)


def test_an_experiment_from_its_size_to_its_answer(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = Schema(columns={"arm": Categories(["control", "tutoring"]), "score": Bounds(0, 100)})
    rng = np.random.default_rng(1)
    arm = rng.choice(["control", "tutoring"], 3000)
    rows = pa.table({"arm": arm, "score": np.clip(rng.normal(50, 15, 3000), 0, 100)})
    typed = """
trial = Session(rows, schema, ledger="trial.ledger", epsilon=1.0)
print(trial.plan.sample_size("compare_means", "score", by="arm", effect=5, expected_sd=15, epsilon=1.0))
found = trial.compare_means("score", by="arm", epsilon=1.0, name="trial")
print(found)
"""
    told: dict[str, object] = {"Session": Session, "rows": rows, "schema": schema}
    exec(typed, told)
    assert 200 < int(re.search(r"rows +(\d+)", capsys.readouterr().out)[1]) < 800
    assert "mean of tutoring" in str(told["found"])
    assert counted("an experiment: how many rows, then the answer") == (lines(typed) + 2, 0)


def test_a_plan_is_approved_and_verified(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    arms = rng.choice(["control", "tutoring", "app"], 900)
    scores = rng.normal(50, 10, 900)
    Path("school.csv").write_text("arm,score\n" + "".join(f"{a},{s:.0f}\n" for a, s in zip(arms, scores, strict=True)))
    told, _ = does(capsys, "keys new officer")
    key = re.search(r'officer="[0-9a-f]{64}"', told)[0]  # one line, to be copied
    plan = ARMS + RULE.replace("KEY", key)
    Path("school.toml").write_text(plan, encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["run", "school.toml"])
    assert "discreet approve" in capsys.readouterr().err
    told, more = does(
        capsys, "review school.toml", "approve school.toml --as officer", "run school.toml",
        "bundle school.toml --as officer", "verify school.bundle",
    )  # fmt: skip
    assert "Every row counts as one pupil" in told
    assert "REFUSED" not in told
    assert counted("a plan that an officer approves and a reader verifies") == (lines(plan), 1 + more)
    Path("school.toml").write_text(plan + '[[release]]\nask = "count"\nepsilon = 0.1\n', encoding="utf-8")
    with pytest.raises(SystemExit) as refused:  # nothing is left, and the plan is another one
        main(["run", "school.toml"])
    assert refused.value.code == 6
    assert "0 of the 1 people needed approve this plan" in capsys.readouterr().err


def test_the_page_counts_nine_jobs() -> None:
    table = re.findall(r"^\| (.+?) \| (\d+) \| (\d+) \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(table) == 9
    assert all(stumble.endswith(".") for *_, stumble in table)
