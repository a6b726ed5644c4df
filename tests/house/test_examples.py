"""Every example runs; the README's path from a CSV to a checked ledger works as written."""

import re
import shutil
import sys
from pathlib import Path

from discreet.cli.main import main
from tests import processes
from tests.processes import ROOT

EXAMPLES = ROOT / "examples"
README = (ROOT / "README.md").read_text(encoding="utf-8")


def output(script: str, *options: str) -> str:
    return processes.output([sys.executable, EXAMPLES / script, *options])


def test_first_release():
    assert "population interval, 95 %" in output("first_release.py")


def test_table_and_test():
    assert "p-value" in output("table_and_test.py")


def test_ab_test():
    assert "p-value" in output("ab_test.py")


def test_bounds_and_epsilon_are_chosen_without_data():
    printed = output("choose_bounds_and_epsilon.py")
    assert "up to 250,000" in printed
    assert "Use all records" in printed


def test_a_budget_is_kept():
    printed = output("keep_a_budget.py")
    assert "answered alike: True" in printed
    assert "refused: the release costs ε = 0.5" in printed
    assert "anchored   yes" in printed


def test_other_libraries_are_audited_where_they_are_installed():
    printed = output("audit_other_libraries.py")
    for library in ("diffprivlib", "OpenDP", "PipelineDP"):
        rows = [line for line in printed.splitlines() if line.startswith(f"| {library} ")]
        assert f"{library.lower()} is not installed" in printed or len(rows) >= 7
        assert all(" = " in row.split("|")[4] for row in rows)  # the claim


def test_every_example_is_listed_and_run():
    here = Path(__file__).read_text(encoding="utf-8")
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for script in EXAMPLES.glob("*.py"):
        assert f'"{script.name}"' in here, script
        assert f"({script.name})" in page, script


def test_own_mechanism_is_found_out():
    """A mechanism that claims half of its loss does not pass the conformance kit."""
    assert "found out: Careless" in output("own_mechanism.py")


def test_demonstration_on_few_rows(tmp_path):
    assert "9 released now" in output("demo.py", "--rows", "3000", "--directory", str(tmp_path))


def test_the_survey_is_what_its_script_writes(tmp_path):
    shutil.copy(EXAMPLES / "survey.py", tmp_path)
    processes.output([sys.executable, tmp_path / "survey.py"])
    assert (tmp_path / "survey.csv").read_bytes() == (EXAMPLES / "survey.csv").read_bytes()


def test_the_readme_path_from_a_csv_to_a_checked_ledger(tmp_path, monkeypatch, capsys):
    """Each command as it stands there; the skeleton is filled in as the example is."""
    shutil.copy(EXAMPLES / "survey.csv", tmp_path / "people.csv")
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^\$ discreet (.*?) *#", README, flags=re.MULTILINE)
    told = {}
    for command in commands:
        main(command.split())
        told[command] = capsys.readouterr().out
        if command.startswith("describe"):
            plan = (EXAMPLES / "survey.toml").read_text(encoding="utf-8")
            (tmp_path / "people.toml").write_text(plan.replace('"survey.csv"', '"people.csv"'), encoding="utf-8")
    assert list(told)[-1] == "ledger verify people.ledger"
    assert "cost: ε = 1" in told["plan people.toml"]
    assert "3 released now" in told["run people.toml"]
    assert (tmp_path / "people-report" / "report.html").is_file()
    assert "releases    3" in told["ledger show people.ledger"]
    assert "intact" in told["ledger verify people.ledger"]


def test_the_page_on_a_first_csv_works_as_written(tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs" / "howto" / "first_csv.md").read_text(encoding="utf-8")
    [plan] = re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    rows = [f"{i % 700},{('north', 'West')[i % 2]},{('employed', '')[i % 3 == 0]},{i * 20}" for i in range(1500)]
    Path("made-up.csv").write_text("\n".join(["person,region,status,income", *rows]), encoding="utf-8")
    main(["describe", "made-up.csv", "--out", "made-up.toml"])
    main(["plan", "made-up.toml"])
    capsys.readouterr()
    Path("made-up.toml").write_text(plan, encoding="utf-8")
    main(["plan", "made-up.toml"])
    assert capsys.readouterr().out in page
    main(["run", "made-up.toml"])
    told = capsys.readouterr()
    assert told.out in page
    assert told.err in page
    main(["ledger", "verify", "made-up.ledger"])
    assert "\n".join(capsys.readouterr().out.splitlines()[1:3]) in page
