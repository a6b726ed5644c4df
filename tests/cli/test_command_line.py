"""The command line: help of 80 columns in one voice, completion in three shells, and the documented exit statuses."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from discreet.cli.main import _app, main
from tests.processes import output, started, told

ROOT = Path(__file__).parents[2]
COMMANDS = [
    [], ["describe"], ["plan"], ["run"], ["ledger"], ["ledger", "show"], ["ledger", "verify"],
    ["ledger", "anchor"], ["ledger", "explain"], ["ledger", "renew"], ["advise"], ["attack"], ["audit"], ["reproduce"],
    ["review"], ["approve"], ["withdraw"], ["bundle"], ["verify"], ["keys"], ["keys", "new"],
]  # fmt: skip


def shown(arguments, capsys):
    main([*arguments, "--help"])
    return capsys.readouterr().out


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_help_fits_80_columns_and_names_the_exit_statuses(arguments, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = shown(arguments, capsys)
    assert max(map(len, text.splitlines())) <= 80
    statuses = "0 success; 2 wrong usage or invalid plan; 3 over budget; 4 data"
    rest = "5 ledger; 6 not approved; 130 interrupted; 1 anything else."
    assert f"Exit status: {statuses}; {rest}" in " ".join(text.split())
    assert "--no-" not in text  # switches are off unless they are given
    assert "False" not in text


def test_the_page_names_every_option(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    page = (ROOT / "docs" / "reference" / "command_line.md").read_text(encoding="utf-8")
    for arguments in COMMANDS:
        if arguments not in ([], ["ledger"], ["keys"]):
            options = set(re.findall(r"│ [ *]*(--[a-z]+)", shown(arguments, capsys)))
            [line] = re.findall(rf"^\| `discreet {' '.join(arguments)} .*$", page, re.MULTILINE)
            assert options == set(re.findall(r"--[a-z]+", line)), arguments


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command_and_option(shell, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    main(["--install-completion", "--shell", shell])
    [script] = [file for file in tmp_path.rglob("*discreet*") if file.is_file()]
    text = script.read_text(encoding="utf-8")
    for word in (
        "describe",
        "plan",
        "run",
        "ledger",
        "verify",
        "advise",
        "attack",
        "audit",
        "reproduce",
        "workers",
        "anchor",
    ):
        assert word in text


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("discreet re", {"reproduce", "review"}),
        ("discreet ledger v", {"verify"}),
        ("discreet audit --d", {"--deep", "--details"}),
    ],
)
def test_bash_completes(typed, offered, tmp_path):
    script = tmp_path / "discreet.bash"
    script.write_text(_app().generate_completion(shell="bash"), encoding="utf-8")
    words = " ".join(f"'{word}'" for word in typed.split(" "))
    code = f"source {script}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _discreet; "
    offers = output(["bash", "-c", code + 'echo "${COMPREPLY[@]}"'])
    assert set(offers.split()) == offered


def ended(status, *arguments, cwd):
    """Output and error stream of the real program, which ends with this status."""
    program = started([sys.executable, "-c", "from discreet.cli.main import main; main()", *arguments], cwd=cwd)
    return told(program, status=status)


def test_exit_statuses(tmp_path):
    for name in ("survey.csv", "survey.toml"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    out, err = ended(0, "plan", "survey.toml", cwd=tmp_path)
    assert err == ""
    assert "cost: ε = 1" in out
    out, err = ended(2, "plan", "missing.toml", cwd=tmp_path)
    assert out == ""
    assert err.startswith("discreet: ")
    assert "Traceback" not in err
    out, err = ended(2, "plan", "--nonsense", "survey.toml", cwd=tmp_path)
    assert out == ""
    assert "nonsense" in err


LOST = """
import time
import discreet.cli.main as cli
class Destroyed:
    def __del__(self):
        raise KeyboardInterrupt  # what a signal does that arrives just here
def work(arguments):
    Destroyed()
    Destroyed()
    time.sleep(600)
cli._app = lambda: work
cli.main([])
"""


def test_an_interrupt_in_a_destructor_is_not_lost():
    _, err = told(started([sys.executable, "-c", LOST]), status=130)
    assert err == "discreet: stopped; what was released so far is in the ledger.\n"


def test_being_stopped_says_what_is_kept(monkeypatch, capsys):
    def stopped(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("discreet.cli.main._app", lambda: stopped)
    with pytest.raises(SystemExit) as ended:
        main(["audit"])
    assert ended.value.code == 130
    assert "stopped" in capsys.readouterr().err
