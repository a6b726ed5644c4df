"""Everything that a user is handed reads well in a terminal and a notebook, and can be kept as JSON.

The types are found, not listed: whatever a public or documented function returns is a `Result`, or stands below among
the things that are no result. A new result type therefore cannot be forgotten.
"""

import dataclasses
import importlib
import inspect
import json
import pkgutil
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import discreet
from discreet import ApproxDP, Interval, Ledger, Neighbours, PureDP, Schema, Session, plan, release
from discreet.audit.exact_losses import audit_exactly
from discreet.audit.report import Audit, AuditReport
from discreet.core.guarantee import Guarantee
from discreet.core.sensitivity import Sensitivity
from discreet.inference import goodness_of_fit
from discreet.mechanisms import BoundedLaplace, Laplace
from discreet.papers.gallery import GalleryResult
from discreet.papers.study import StudyResult
from discreet.plans.advice import advise
from discreet.questions import ContingencyTable, Count, Mean, best_table_mechanism
from discreet.results.display import Result
from discreet.results.frames import Tidy
from discreet.results.printed import Printed

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
NO_RESULTS = {
    "what is protected": "Guarantee PureDP ApproxDP GaussianDP ZeroConcentratedDP Sensitivity Accounting",
    "what is claimed": "Claim Protection ComparisonTerms Terms Unit ProfileQuestion MeasuredQuestion Question",
    "public facts": (
        "Bounds Categories Column Contribution Domain Feature Design Schema Partition PlanFile Approvals Bins "
        "LedgerTerms Scenario Study Part Target PrivateLabels Grid ColumnCells PrivateLimit Settled"
    ),
    "still private": "Exact Dataset Arms Totals Spending Snapshot FineCounts UnitRows DesignTotals",
    "parts of a result": (
        "Entry Reading Reservation Contrast ArmMean MeasuredTable NoisyVector MeasuredRange "
        "NotePart CrossTable Finding Cells View TestDesign "
        "ProfiledNumber Stage Located CellCounts FineCounts FoundBounds ColumnProfile UnitSizes "
        "BundledLedger Decision Term Coefficient FittedModel DesignMoments DesignCells"
    ),
    "how it is protected": (
        "BeyondBounds NestedCounts Gaussian Laplace Measurement Forecast Component MarginsNoise Shares Workload "
        "RankClasses LinearFacts"
    ),
    "what an attack goes through": (
        "Answer Choice GeneratedWorld Pipeline Refusal ReplayCase Script SpendingRow World"
    ),
    "rows made up from tables, and sheets of them": "SyntheticRows TableSheet",
    "fits, and how they are measured": "LeastSquares MeasuredSquares MomentProducts RegressionQuestion Step",
    "laws and losses": (
        "MonteCarlo PrivacyLoss BetaMean Binomial GammaVariance NormalCovariance NoiseSum "
        "Linear LinearMoments NoiseAlong PairMoments PartMoments ProductMoments Lattice LocationEstimate "
        "MeanDifference WinsorizedLaw"
    ),
}


def modules():
    return [importlib.import_module(found.name) for found in pkgutil.walk_packages(discreet.__path__, "discreet.")]


def defined():
    """Every public dataclass of the package, by name."""
    return {
        name: value
        for module in modules()
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and not name.startswith("_")
    }


def documented():
    """Public names, and the public members of every module that the reference shows."""
    yield from (getattr(discreet, name) for name in discreet.__all__)
    for page in REFERENCE.glob("*.md"):
        for name in re.findall(r"automodule:: (\S+)", page.read_text(encoding="utf-8")):
            module = importlib.import_module(name)
            yield from (value for key, value in vars(module).items() if not key.startswith("_"))


def returned():
    """Names in the return annotations of all that is documented."""
    for value in documented():
        methods = [one for key, one in vars(value).items() if not key.startswith("_")] if inspect.isclass(value) else []
        for method in (value, *methods):
            method = getattr(method, "__func__", method)
            if inspect.isfunction(method) and method.__module__.startswith("discreet"):
                yield from re.findall(r"\w+", str(method.__annotations__.get("return", "")))


def test_whatever_is_returned_is_a_result():
    classes = {name: kind for name, kind in defined().items() if dataclasses.is_dataclass(kind)}
    others = set(" ".join(NO_RESULTS.values()).split())
    found = {name for name in returned() if name in classes}
    assert len(found) > 30
    forgotten = sorted(name for name in found if not issubclass(classes[name], Result) and name not in others)
    assert forgotten == [], forgotten


def test_nothing_shows_itself_in_a_way_of_its_own():
    """Who prints facts or draws a table for notebooks is a `Result`, and so has all of it.

    What a user makes and is not handed, a session, a schema and a budget, is a table in notebooks alone.
    """
    made = (Ledger, Printed, Session, Schema, Guarantee)
    shown = [kind for kind in defined().values() if hasattr(kind, "facts") or hasattr(kind, "_repr_html_")]
    assert [kind.__name__ for kind in shown if not issubclass(kind, (Result, *made))] == []
    assert len(shown) > 40


class _Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        if tag not in ("meta", "br", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def examples():
    return list(_examples())


def _examples():
    cells = ContingencyTable({"arm": ["old", "<new>"]})
    exact = cells.exact({"arm": ["old"] * 30 + ["<new>"] * 20}, neighbours=Neighbours.ADD_REMOVE)
    table = release(exact, Laplace.calibrate(PureDP(1.0), exact.sensitivity), rng=1)
    share = Mean(bounds=(0, 1), n=50).exact(np.linspace(0, 1, 50), neighbours=Neighbours.REPLACE_ONE)
    mean = release(share, BoundedLaplace.calibrate(PureDP(1.0), share.sensitivity, bounds=(0, 1)), rng=1)
    ledger = Ledger(":memory:", ApproxDP(1.0, 1e-6))
    count = Count().exact([True] * 9, neighbours=Neighbours.ADD_REMOVE)
    noise = Laplace.calibrate(PureDP(0.5), count.sensitivity)
    released = release(count, noise, ledger=ledger)
    line = Audit("exact", "a name that is longer than the thirty-eight columns", "ε 1", "ε 1", (), 1.0)
    study = StudyResult("toy", Path("toy/toy.md"), {"a": Path("toy/a.csv")}, (Path("toy/a.svg"),), 3, 0, {})
    yield from (table, mean, released, table.counts(), goodness_of_fit(table, [0.5, 0.5]))
    yield from (Interval(-np.inf, 2.0, 0.95), mean.noise_interval(), plan(count.sensitivity, noise, ledger=ledger))
    yield from (ledger.statement(), ledger.statement().spends[0], ledger.verify())
    yield best_table_mechanism(PureDP(1.0), cells, n=50, neighbours=Neighbours.REPLACE_ONE)
    yield advise("mean", 1000, PureDP(1.0), bounds=(0, 10))
    yield audit_exactly(noise, Sensitivity(l1=1.0))
    yield AuditReport((line, line), False, "2026-01-01T00:00:00+00:00", 1.0, 0.5)
    yield from (study, GalleryResult(Path("index.html"), Path("index.md"), (study,)))


def test_results_show_themselves(examples):
    for result in examples:
        _shows_itself(result)


def _shows_itself(result):
    assert isinstance(result, Result)
    assert max(map(len, str(result).splitlines())) <= 80
    page = result._repr_html_()
    tags = _Tags()
    tags.feed(page)
    assert tags.open == []
    assert "table" in tags.seen
    assert "<new>" not in page
    assert json.loads(result.to_json()).keys() == result.to_dict().keys()
    assert dataclasses.is_dataclass(result)


def test_charts_of_results_are_drawn(examples):
    drawn = [result.plot().to_dict() for result in examples if isinstance(result, Tidy)]
    assert len(drawn) == 5
    assert all("layer" in chart and "description" in chart for chart in drawn)
