"""Commands and settings shown in the documentation are ones that exist."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from discreet.cli.main import _app
from discreet.questions import asked

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if "_build" not in page.parts]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, kind: str) -> list[str]:
    return [text for found, text in BLOCK.findall(page.read_text(encoding="utf-8")) if found == kind]


def commands(page: Path) -> list[list[str]]:
    lines = [line for text in blocks(page, "console") for line in text.splitlines() if line.startswith("$ ")]
    return [shlex.split(line[2:], comments=True) for line in lines]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for program, *words in commands(page):
        if program == "discreet":
            _app().parse_args(words, exit_on_error=False, print_error=False)
        elif program == "make":
            targets = [word for word in words if "=" not in word]
            assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets), words
        elif program == "python":
            assert (ROOT / words[0]).is_file() or words[0] == "-m", words
        else:
            assert program in ("pip", "git", "cd"), program


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_settings_are_toml(page: Path) -> None:
    for text in blocks(page, "toml"):
        tomllib.loads(text)


def test_the_table_of_commands_is_complete() -> None:
    table = (ROOT / "docs" / "reference" / "command_line.md").read_text(encoding="utf-8")
    app = _app()
    shown = set(re.findall(r"^\| `discreet ([a-z]+(?: [a-z]+)?)", table, re.MULTILINE))
    known = set()
    for name in app:
        if not name.startswith("-"):
            inner = [one for one in app[name] if not one.startswith("-")]
            known |= {f"{name} {one}" for one in inner} or {name}
    assert shown == known


def test_the_page_on_plans_lists_every_question() -> None:
    page = (ROOT / "docs" / "reference" / "plan_file.md").read_text(encoding="utf-8")
    for ask, settings in ((kind.ask, kind.settings()) for name, kind in asked().items() if kind.ask == name):
        needs, may = ([f"`{name}`" for name, one in settings.items() if one is required] for required in (True, False))
        assert f"| `{ask}` | {', '.join(needs)} | {', '.join(may)} |" in page, ask
