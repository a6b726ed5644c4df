"""Every `>>>` example in the README and in the documentation runs and prints what the page says."""

import doctest
import itertools
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from pygments.lexers import get_lexer_by_name

from discreet import Session
from discreet.questions import asked

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "examples" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if "_build" not in page.parts]
NUMBER = re.compile(r"\b[0-9a-f]{8}(?=, )|\d[\d.,:T+-]*")
"""A number, a time, or the name of a release: drawn anew on every run of a page that shows real output."""
FENCE = re.compile(r"^\s*```.*$", re.MULTILINE)


class InOtherDigits(doctest.OutputChecker):
    """Compares output up to its digits."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(NUMBER.sub("0", want), NUMBER.sub("0", got), optionflags)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))  # a closing fence is no expected output
    examples = doctest.DocTestParser().get_doctest(text, {"__name__": "__main__"}, page.name, str(page), 0)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failures: list[str] = []
    monkeypatch.chdir(tmp_path)  # examples may write files
    (tmp_path / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "survey.csv", tmp_path / "examples")
    checker = InOtherDigits() if page == PAGES[0] else None
    doctest.DocTestRunner(checker, optionflags=flags).run(examples, out=failures.append)
    assert not failures, "".join(failures)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_is_run_and_not_only_shown(page: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert [block for block in blocks if not block.startswith(">>> ")] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'<img src="([^"]+)"', text)
    for link in links:
        if "studies" in page.parts and link.endswith(".svg"):
            continue  # drawn when the site is built, and checked with the stored rows
        if not link.startswith(("http://", "https://", "mailto:", "#")):
            assert (page.parent / link.split("#")[0]).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_site_can_draw_formulas_and_programs(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `make docs` would stumble over, page by page and at once."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    from mathml import mathml_of

    tokens = MarkdownIt().enable("table").use(dollarmath_plugin).parse(page.read_text(encoding="utf-8"))
    for token in itertools.chain(tokens, *(one.children or () for one in tokens)):
        if token.type in ("math_inline", "math_block"):
            assert mathml_of(token.content).startswith("<math"), token.content
        elif token.type == "fence" and token.info and not token.info.startswith("{"):
            assert get_lexer_by_name(token.info.split()[0]), token.info


def test_halves_are_fractions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    from mathml import mathml_of

    assert mathml_of(r"\frac12M+\tfrac1n") == mathml_of(r"\frac{1}{2}M+\tfrac{1}{n}")
    assert mathml_of(r"\frac12M").count("<mfrac>") == 1
    assert mathml_of(r"\frac12M") != mathml_of(r"\frac{12}{M}")


def test_the_readme_lists_every_question() -> None:
    listed = (ROOT / "README.md").read_text(encoding="utf-8").partition("What you can ask")[2].partition("## Your")[0]
    assert set(re.findall(r"`([a-z_]+)`", listed)) == asked().keys()
    assert all(hasattr(Session, name) for name in asked())


def test_the_reference_shows_every_module_once() -> None:
    """The site would warn of everything that is described twice."""
    pages = (ROOT / "docs" / "reference").glob("*.md")
    shown = Counter(name for page in pages for name in re.findall(r"automodule:: (\S+)", page.read_text()))
    assert [name for name, times in shown.items() if times > 1] == []


def test_the_documentation_stays_short() -> None:
    """Results lie in files beside a page, and figures of studies are drawn when the site is built.

    Surveys with weights, slopes by pairs, repeated looks and means of people have pages and proofs of their own.
    """
    docs = [page for page in PAGES if "docs" in page.relative_to(ROOT).parts]
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in docs) <= 104_500
    assert len((ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split()) <= 1_880
    drawn = set((ROOT / "docs" / "studies").glob("*/*.svg")) | {ROOT / "docs" / "studies" / "index.html"}
    files = [path for path in (ROOT / "docs").rglob("*") if path.is_file() and path not in drawn]
    assert sum(path.stat().st_size for path in files if "_build" not in path.parts) <= 8_000_000
