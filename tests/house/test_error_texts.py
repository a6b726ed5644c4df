"""All refusals speak with one voice: rule in lower case without a full stop, fix as a sentence, both short."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "discreet"


def words(node: ast.expr) -> str | None:
    """The literal text, with … for what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    return None


def refusals() -> Iterator[tuple[str, str | None, str | None]]:
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if named and node.func.id in ("InvalidParameter", "WrongType"):
                assert len(node.args) == 4, f"{file}:{node.lineno}: name, value, rule and fix"
                yield f"{file.name}:{node.lineno}", words(node.args[2]), words(node.args[3])


def test_rules_and_fixes_read_alike():
    found = list(refusals())
    assert len(found) > 300
    wrong = []
    for place, rule, fix in found:
        if rule is not None and (rule[:1].isupper() or rule.endswith(".") or len(rule) > 160):
            wrong.append(f"{place}: rule {rule!r}")
        if fix is not None and not ((fix[:1].isupper() or fix[:1] == "…") and fix.endswith((".", "…"))):
            wrong.append(f"{place}: fix {fix!r}")
    assert wrong == []


TOLD = (
    "NoConversion",
    "NotCertified",
    "LedgerError",
    "LedgerMismatch",
    "LedgerCorrupted",
    "LedgerUnavailable",
    "SourceError",
)


def test_other_refusals_are_sentences():
    """They begin in lower case or with a path, and end with what to do, as a sentence."""
    wrong = []
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            text = words(node.args[0]) if named and node.func.id in TOLD and node.args else None
            if text is not None and (
                (text[:1].isupper() and not text.startswith("Gaussian")) or not text.endswith((".", "…"))
            ):
                wrong.append(f"{file.name}:{node.lineno}: {text!r}")
    assert wrong == []


def test_fixes_say_what_to_do():
    """Nothing is told to be checked, matched or chosen without a word on what; lists of names are spelling."""
    empty = (
        "Check it.",
        "Check them.",
        "Match them.",
        "Choose one.",
        "Pass one.",
        "Use fewer.",
        "Name them.",
        "Leave it out.",
    )
    assert [place for place, _, fix in refusals() if fix in empty] == []
    listed = [(place, fix) for place, rule, fix in refusals() if fix and rule and rule.startswith("must be one of …")]
    begin = ("Check the spelling.", "Check the file.", "Name the two arms.", "Leave it out, or choose", "Pass ")
    assert [place for place, fix in listed if not fix.startswith(begin)] == []


def test_printed_hints_name_an_extra_that_a_clone_has():
    """No index knows the package, so nothing may send people there; and what README shows, its own line installs."""
    root = SOURCE.parents[1]
    told = [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.html"), *root.glob("docs/**/*.md"), root / "README.md"]
    hints = {
        hint
        for file in told
        for hint in re.findall(r"pip install [^\n`]*", file.read_text(encoding="utf-8"))
        if "[" in hint
    }
    assert {hint for hint in hints if 'pip install ".[' not in hint} == set()
    extras = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = {name for hint in hints for name in re.search(r"\[(.*?)\]", hint)[1].split(",")}
    assert named - {"{extra}"} <= set(extras)
    readme = (root / "README.md").read_text(encoding="utf-8")
    assert '$ pip install ".[studio]"' in readme.partition("discreet open")[0]
    assert any(one.startswith("discreet[tables,report,cli]") for one in extras["studio"])
