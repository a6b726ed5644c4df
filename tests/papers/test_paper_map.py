"""The paper map and the errata name things that exist, and the map leaves out no numbered result."""

import csv
import inspect
import re
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest

from discreet import Bounds, Categories, Neighbours, PrivacyUnit, Schema
from discreet.papers import STUDIES, load
from discreet.plans.declarations import read_omission
from discreet.questions import asked

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
        assert test in defined_in(next((ROOT / "tests").rglob(f"{file}.py"), Path(file))), name
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
        for path, test in re.findall(r"`(?:(tests/[\w/]+\.py))?::(\w+)`", section):
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


# ---- Every system of a paper is a setting of a question, or this says why it is for programs only.


COLUMNS = {
    "x": Bounds(0, 20, grid=1, nulls=0),
    "y": Bounds(0, 20, grid=1, nulls=0),
    "v": Categories(["yes", "no", "perhaps", "never"], nulls="=no", unknown="=no"),
    "arm": Categories(["A", "B"], nulls="=A", unknown="=A"),
}
PUBLIC_SIZE = Schema(columns=COLUMNS, neighbours=Neighbours.REPLACE_ONE, size=200)
FREE = Schema(columns=COLUMNS)
PEOPLE = Schema(columns=COLUMNS, unit=PrivacyUnit("id"))
OUTLIERS = read_omission({"outliers": [0.4, 0.5], "column": "x"}, FREE)
BY_LABEL, FIXED = {"rates": {"yes": 0.1}, "column": "v"}, {"sample": 50}
PAPER = {"column": "x", "by": "arm", "partitions": 20, "epsilon": 1.0}
MATRIX = {"columns": ["x", "y"], "epsilon": 1.0, "output": "bounded"}
REACHED = {
    "Laplace": ("mean", PUBLIC_SIZE, {"column": "x", "epsilon": 1.0}),
    "Gaussian": ("table", FREE, {"columns": "v", "mu": 0.5}),
    "BoundedLaplace": ("mean", PUBLIC_SIZE, {"column": "x", "epsilon": 1.0, "output": "bounded"}),
    "BoundedGaussian": ("mean", PUBLIC_SIZE, {"column": "x", "rho": 0.1, "output": "bounded"}),
    "BoundaryInflatedLaplace": ("variance", PUBLIC_SIZE, {"column": "x", "epsilon": 1.0, "output": "inflated"}),
    "JamesSteinGaussian": ("table", FREE, {"columns": "v", "mu": 0.5, "shrink": True}),
    "RankDeficientGaussian": ("table", PUBLIC_SIZE, {"columns": "v", "mu": 0.5, "shrink": True}),
    "PostProcessed": ("table", PUBLIC_SIZE, {"columns": "v", "rho": 0.5, "shrink": True}),
    "QuantileChoice": ("quantile", FREE, {"column": "x", "probabilities": 0.5, "epsilon": 1.0, "interval": False}),
    "PoissonSample": ("count", FREE, {"epsilon": 1.0, "omit": read_omission({"poisson": 0.2}, FREE)}),
    "SampleByLabel": ("count", FREE, {"epsilon": 1.0, "omit": read_omission(BY_LABEL, FREE)}),
    "FixedSample": ("mean", PUBLIC_SIZE, {"column": "x", "epsilon": 1.0, "omit": read_omission(FIXED, PUBLIC_SIZE)}),
    "OutlierSuppression": ("count", FREE, {"epsilon": 3.0, "omit": OUTLIERS}),
    "Mean": ("mean", PUBLIC_SIZE, {"column": "x", "variance": False, "epsilon": 1.0}),
    "Proportion": ("proportion", PUBLIC_SIZE, {"column": "v", "label": "yes", "epsilon": 1.0}),
    "Variance": ("variance", PUBLIC_SIZE, {"column": "x", "epsilon": 1.0, "output": "bounded"}),
    "BoundedCovariance": ("covariance_matrix", PUBLIC_SIZE, MATRIX),
    "CovarianceMatrix": ("covariance_matrix", PUBLIC_SIZE, MATRIX),
    "BoundedProportions": ("proportion", PUBLIC_SIZE, {"column": "v", "epsilon": 1.0}),
    "ProportionVector": ("proportion", PUBLIC_SIZE, {"column": "v", "epsilon": 1.0, "output": "all_but_one"}),
    "DPLloyd": ("clusters", FREE, {"columns": ["x", "y"], "n_clusters": 2, "epsilon": 1.0}),
    "KMedian": ("clusters", FREE, {"columns": "x", "n_clusters": 2, "epsilon": 1.0, "universe": [[0], [10], [20]]}),
    "PaperMethod": ("compare_means", PEOPLE, PAPER | {"method": "4S"}),
}
PROGRAMS_ONLY = {
    "HistogramTree": "a way to build BoundedProportions: output = universal_histogram",
    "TiedPair": "a part of BoundedProportions",
    "ExponentialMechanism": "mode uses permute and flip in its place",
    "ReportNoisyMax": "mode uses permute and flip in its place",
    "GeneralizedGaussian": "sessions calibrate Laplace and Gaussian noise, which lie at its ends",
    "LinearFacts": "the totals that table takes as known are read by JamesSteinGaussian",
    "Clipped": "table with between= clips inside JamesSteinGaussian",
    "WinsorizedMoments": "a statistic inside the methods of compare_means",
    "Covariance": "covariance_matrix of two columns asks for it",
    "PooledCovariance": "covariance_matrix by groups is not pooled: groups need not have one covariance",
    "PooledVariance": "variance by groups is not pooled: groups need not have one variance",
    "NoisyAverage": "mean of a private number of rows measures totals in parts instead",
    "GaussianNaiveBayes": "a classifier with the methods of scikit-learn, which is fitted and not asked",
}
INSIDE = ("Law", "Profile", "Domain")
"""Parts of a system: distributions, privacy curves, domains."""


def systems():
    """Classes of mechanisms and questions in the map."""
    for paper in NUMBERED:
        for name in names(paper):
            if re.match(r"(mechanisms|questions)\.[\w.]+$", name):
                module, _, attribute = name.rpartition(".")
                found = getattr(import_module(f"discreet.{module}"), attribute)
                if inspect.isclass(found) or isinstance(found, partial):  # a kind of a statistic
                    yield attribute


def test_every_system_is_a_setting_of_a_question_or_for_programs_in_words():
    found = {name for name in systems() if not name.endswith(INSIDE)}
    assert found == REACHED.keys() | PROGRAMS_ONLY.keys()
    assert not REACHED.keys() & PROGRAMS_ONLY.keys()


@pytest.mark.parametrize("name", REACHED)
def test_the_setting_reaches_the_system(name):
    ask, schema, settings = REACHED[name]
    question = asked()[ask](schema, **settings)
    used = getattr(question, "measurement", None)
    if used is not None:
        kinds = [*type(used.mechanism).__mro__, *type(used.statistic).__mro__, type(question.omit)]
        assert name in {used.statistic.name.title().replace("_", ""), *(kind.__name__ for kind in kinds)}
    else:
        wanted = {"DPLloyd": "lloyd", "KMedian": "median"}.get(name, settings.get("method"))
        assert wanted in str(question.claim(None).mechanism).lower() or wanted in str(question.claim(None).mechanism)
