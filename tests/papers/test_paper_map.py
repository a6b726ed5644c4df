"""The paper map and the errata name things that exist, and the map leaves out no numbered result."""

import csv
import re
from importlib import import_module
from pathlib import Path

import pytest

from discreet.papers import STUDIES, load

ROOT = Path(__file__).parents[2]
MAP = ROOT / "docs" / "papers" / "map.csv"
TESTED = re.compile(r"^def (test_\w+)", re.MULTILINE)
KINDS = "Definition|Theorem|Lemma|Corollary|Proposition|Algorithm|Conjecture|Example|Remark|Table|Figure"
RESULT = re.compile(rf"({KINDS}) ([A-Z]?\.?\d+(?:\.\d+)?)(?: to \1 ([A-Z]?\.?\d+(?:\.\d+)?))?")

# Every numbered result, from the papers' own headings and captions.
NUMBERED = {
    "liu2019": {
        "Definition": "1 2 3",
        "Proposition": "1 2 3",
        "Remark": "1 2 3",
        "Lemma": "A.1",
        "Table": "1",
        "Figure": [1, 7],
    },
    "holohan2018": {
        "Definition": "3.1 3.4 4.1 A.1 A.2 A.3",
        "Theorem": "3.5 4.4",
        "Lemma": "3.2 3.3 4.2 4.3 A.4 A.5",
        "Corollary": "4.5 4.6",
        "Algorithm": "1",
        "Example": "1.1 1.2 1.3",
        "Remark": "1 2",
        "Figure": [1, 4],
    },
    "lee2022": {
        "Definition": "1 2",
        "Theorem": "1 2 4 5 6 7 11",
        "Lemma": "3 10 13 A.1 A.2 A.3 B.1 B.2 B.3",
        "Proposition": "8 9",
        "Conjecture": "12",
        "Algorithm": "1 2 3",
        "Example": "1 2",
        "Figure": [1, 13],
    },
    "liu2023": {
        "Definition": "1 2 3",
        "Theorem": "1 4 6 7",
        "Lemma": "3",
        "Corollary": "5",
        "Algorithm": "1 2",
        "Table": "1 2 3",
        "Figure": [1, 50],
    },
    "miranda2026": {
        "Definition": "2.1 B.5",
        "Theorem": "5.1 5.3 5.4 B.6 B.21 B.23",
        "Example": "5.2",
        "Proposition": "B.1 B.2 B.3 B.8 B.9 B.10 B.12",
        "Corollary": "B.13",
        "Remark": "B.4 B.7 B.11 B.22 B.24",
        "Table": "1 2",
        "Figure": [1, 75],
    },
}


def entries(paper: str) -> list[dict[str, str]]:
    with MAP.open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if row["paper"] == paper]


def listed(text: str) -> set[str]:
    found = set()
    for kind, first, last in RESULT.findall(text):
        found.add(f"{kind} {first}")
        if last and first.isdigit():
            found |= {f"{kind} {number}" for number in range(int(first), int(last) + 1)}
    return found


@pytest.mark.parametrize("paper", NUMBERED)
def test_no_numbered_result_is_missing(paper):
    wanted = set()
    for kind, numbers in NUMBERED[paper].items():
        names = numbers.split() if isinstance(numbers, str) else range(numbers[0], numbers[1] + 1)
        wanted |= {f"{kind} {number}" for number in names}
    found = "; ".join(row["result"] for row in entries(paper))
    assert wanted - listed(found) == set()


def names(paper: str) -> set[str]:
    return {name for row in entries(paper) for text in row.values() for name in re.findall(r"`([^`]+)`", text)}


def defined_in(file: Path) -> set[str]:
    assert file.is_file(), file
    return set(TESTED.findall(file.read_text(encoding="utf-8")))


def resolve(name: str) -> None:
    if "::" in name:
        file, test = name.split("::")
        assert test in defined_in(ROOT / "tests" / f"{file}.py"), name
    elif name.endswith(".md"):
        assert (ROOT / "docs" / name).is_file(), name
    elif ":" in name:
        study, part = name.split(":")
        assert study in STUDIES, name
        load(study).part(part)
    else:
        module, _, attribute = name.rpartition(".")
        assert hasattr(import_module(f"discreet.{module}"), attribute), name


ATTRIBUTES = {"bias", "mse", "moves"}


@pytest.mark.parametrize("paper", NUMBERED)
def test_every_name_exists(paper):
    found = names(paper) - ATTRIBUTES
    assert len(found) > 20
    for name in found:
        resolve(name)


def test_every_test_behind_the_errata_exists():
    """Each section names a test; a name that begins with `::` belongs to the file named before it."""
    text = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
    checked = 0
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        file = None
        found = 0
        for path, test in re.findall(r"`(?:(tests/\w+\.py))?::(\w+)`", section):
            file = ROOT / path if path else file
            assert file is not None, section.splitlines()[0]
            assert test in defined_in(file), f"{section.splitlines()[0]}: {test}"
            found += 1
        assert found or section.startswith("Slips"), f"no test behind {section.splitlines()[0]}"
        checked += found
    assert checked > 30


def test_every_cited_paper_is_listed():
    """Keys such as lee2022 in code and pages stand in the list of references."""
    listed = set(
        re.findall(r"^@misc\{(\w+),", (ROOT / "docs" / "papers" / "references.bib").read_text("utf-8"), re.MULTILINE)
    )
    texts = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
    cited = set()
    for file in texts:
        if "_build" not in file.parts:
            cited |= set(
                re.findall(r"(?<![\w-])[a-z]{2,}(?:19|20)\d\d[a-z]?(?![\w-])", file.read_text(encoding="utf-8"))
            )
    assert cited <= listed
