"""The report: one dict of facts, a self-contained page, markdown, charts that need no script."""

import json
import re
import shutil
import sys
import tomllib
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet import (
    ApproxDP,
    Bounds,
    Categories,
    Contribution,
    Feature,
    Ledger,
    Neighbours,
    PrivacyUnit,
    PureDP,
    Schema,
    Session,
)
from discreet.plans.profile import plan_profile, run_profile
from discreet.plans.skeleton import skeleton
from discreet.publish.pages import ddi_codebook
from discreet.publish.report import ReportedRelease, as_markdown, as_page, charted, report_facts
from discreet.questions.count import CountQuestion
from discreet.questions.dropped_rows import DroppedRowsQuestion
from discreet.questions.mean import MeanQuestion
from discreet.questions.proportion import ProportionQuestion
from discreet.questions.quantile import QuantileQuestion
from discreet.questions.regression.linear import RegressionQuestion
from discreet.questions.tables.table import TableQuestion
from discreet.questions.tables.tests import GoodnessOfFitQuestion
from discreet.results.display import printable
from discreet.results.wording import reading_words
from tests.processes import output

EVIL = "<script>alert(1)</script> | x"


@pytest.fixture(scope="module")
def facts():
    rng = np.random.default_rng(1)
    rows = pa.table(
        {
            "user": rng.integers(0, 400, 1500),
            "arm": rng.choice(["A", EVIL], 1500),
            "spend": rng.exponential(3, 1500),
        }
    )
    schema = Schema(
        columns={"arm": Categories(["A", EVIL]), "spend": Bounds(0, 20, grid=0.5)},
        unit=PrivacyUnit("user", contribution=Contribution(groups=1, rows=3)),
        features={"spend": Feature(of="spend", take="sum", low=0, high=30), "arm": Feature(of="arm", take="min")},
    )
    session = Session(rows, schema, ledger=":memory:", budget=PureDP(10.0))
    one, once = PureDP(1.0), Contribution(total=1)
    questions = {
        "rows": CountQuestion(schema, guarantee=one),
        f"arms {EVIL}": CountQuestion(schema, guarantee=one, by="arm"),
        "spend": MeanQuestion(schema.per_unit(), "spend", guarantee=one, by="arm", variance=True),
        "median": QuantileQuestion(schema, "spend", [0.5, 0.9], guarantee=one, interval=0.9, rows_at_least=500),
        "quartiles": QuantileQuestion(schema, "spend", [0.25, 0.75], guarantee=one, by="arm"),
        "share": ProportionQuestion(schema, "arm", "A", guarantee=one),
        "fit": GoodnessOfFitQuestion(schema, "arm", [0.5, 0.5], guarantee=one, contribution=once),
    }
    entries = [
        ReportedRelease(name=name, title=name, question=question, answer=session.ask(question))
        for name, question in questions.items()
    ]
    return report_facts(
        title=f"Report {EVIL}", plan="a = 1 # ```", schema=schema, ledger=session.ledger, entries=entries
    )


@pytest.mark.parametrize(("epsilon", "power"), [(0.5, "8 %"), (1.0, "14 %"), (4.0, "98 %")])
def test_reports_say_what_an_attacker_can_tell_at_this_budget(epsilon, power):
    ledger = Ledger(":memory:", budget=PureDP(epsilon))
    for neighbours, size in ((Neighbours.ADD_REMOVE, None), (Neighbours.REPLACE_ONE, 10)):
        schema = Schema(columns={}, neighbours=neighbours, size=size)
        said = report_facts(title="x", plan="", schema=schema, ledger=ledger, entries=[])["privacy"]["protects"]
        assert f"at most {power} of the time." in said
        assert ("hardly stops" in said) == (epsilon == 4.0)
        assert ("at most three times that" in said) == (epsilon <= 1.0)


def test_facts_are_plain_data_and_complete(facts):
    assert json.loads(json.dumps(facts, allow_nan=False)) == json.loads(json.dumps(facts))
    assert facts["releases"][0]["name"] == "rows"
    spend = facts["releases"][2]["readings"]
    assert [(one["label"], one["measure"]) for one in spend] == [
        (label, measure) for label in ("A", EVIL) for measure in ("mean", "standard deviation")
    ]
    assert spend[0]["labels"] == {"arm": "A"}
    for one in spend:  # sampling error only widens
        assert one["population"]["low"] <= one["noise"]["low"] <= one["estimate"]
        assert one["estimate"] <= one["noise"]["high"] <= one["population"]["high"]
    assert facts["privacy"]["spent"]["epsilon"] == 7.0
    assert any("user" in said for said in facts["assumptions"])


class _Checker(HTMLParser):
    """Collects what could load or run something, and whether tables and figures are labelled."""

    def __init__(self):
        super().__init__()
        self.found, self.tables, self.captions, self.language = [], 0, 0, None

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tables += tag == "table"
        self.captions += tag == "caption"
        self.language = values.get("lang", self.language) if tag == "html" else self.language
        if tag in ("script", "iframe", "object", "link", "img") or any(name.startswith("on") for name in values):
            self.found.append(tag)
        if tag == "figure":
            assert values["aria-label"]


def test_the_page_is_self_contained_escaped_and_labelled(facts):
    page = as_page(facts)
    checker = _Checker()
    checker.feed(page)
    assert checker.found == []
    assert checker.tables == checker.captions > len(facts["releases"])  # means and standard deviations apart
    assert checker.language == "en"
    assert "<script" not in page
    outside = [url for url in re.findall(r"https?://[^\"'\s<>]+", page) if "www.w3.org" not in url]
    assert outside == []
    for release in facts["releases"]:
        assert reading_words(release["readings"][0])[0] in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


UNIT = PrivacyUnit("user", contribution=Contribution(groups=1, rows=3))
USERS = Schema(columns={"arm": Categories(["A", "B"])}, unit=UNIT)
ONE = PureDP(1.0)


@pytest.mark.parametrize(
    ("question", "counted", "meaning"),
    [
        (CountQuestion(USERS, guarantee=ONE), "rows kept, at most 3 of each user", "How many rows there are"),
        (
            CountQuestion(USERS, guarantee=ONE, by="arm"),
            "rows kept, at most 3 of each user in a group, in at most 1 group",
            "rows",
        ),
        (
            TableQuestion(USERS, "arm", guarantee=ONE),
            "rows kept, at most 3 of each user in a cell, in at most 1 cell",
            "cell",
        ),
        (
            CountQuestion(USERS, guarantee=ONE, contribution=Contribution(total=1)),
            "rows kept, at most 1 of each user",
            "each user counted once",
        ),
        (
            TableQuestion(USERS, "arm", guarantee=ONE, contribution=Contribution(total=2)),
            "rows kept, at most 2 of each user",
            "",
        ),
    ],
)
def test_what_counts_of_a_unit_is_said(question, counted, meaning):
    session = Session(pa.table({"user": [1], "arm": ["A"]}), USERS, ledger=":memory:", budget=ONE)
    entries = [ReportedRelease(name="x", title="x", question=question, answer=session.ask(question))]
    facts = report_facts(title="x", plan="", schema=USERS, ledger=session.ledger, entries=entries)
    [release] = facts["releases"]
    assert release["counted"].startswith(counted)
    assert meaning in release["meaning"]


def test_smaller_models_and_released_bounds_are_told():
    rng = np.random.default_rng(1)
    rows = pa.table({"age": rng.integers(0, 100, 900), "sex": rng.choice(["f", "m"], 900), "pay": rng.random(900)})
    schema = Schema(
        columns={"age": Bounds(0, 100, grid=1), "sex": Categories(["f", "m"]), "pay": Bounds(0, 1, grid=0.01)}
    )
    session = Session(rows, schema, ledger=":memory:", budget=PureDP(1.0))
    question = RegressionQuestion(schema, "pay", ["age", "sex"], epsilon=1.0, models=["sex", ["age"]])
    entry = ReportedRelease(name="pay", title="pay", question=question, answer=session.ask(question))
    sources = {"age": "released privately, release 12345678", "sex": "the questionnaire"}
    told = report_facts(title="R", plan="", schema=schema, ledger=session.ledger, entries=[entry], sources=sources)
    measures = [one["measure"] for one in told["releases"][0]["readings"]]
    smaller = [f"coefficient in the model on {name}" for name in ("sex", "age") for _ in range(2)]
    assert measures == ["coefficient"] * 3 + smaller
    assert told["releases"][0]["meaning"].endswith("Columns: pay, age, sex.")
    assert told["assumptions"][0].startswith("Bounds, labels or limits of age were released privately")
    assert as_markdown(told).count("Coefficient in the model on") == 2


def test_what_was_left_out_comes_first():
    counted, lost = CountQuestion(USERS, epsilon=0.5), DroppedRowsQuestion(USERS, epsilon=0.5)
    session = Session(pa.table({"user": [1] * 9, "arm": ["A"] * 9}), USERS, ledger=":memory:", budget=ONE)
    asked = {"how many": counted, "the lost": lost}
    entries = [
        ReportedRelease(name=key, title=key, question=one, answer=session.ask(one)) for key, one in asked.items()
    ]
    facts = report_facts(title="x", plan="", schema=USERS, ledger=session.ledger, entries=entries)
    assert [release["ask"] for release in facts["releases"]] == ["dropped_rows", "count"]
    for text in (as_markdown(facts), as_page(facts)):
        assert text.index("What was left out comes first") < text.index("the lost") < text.index("how many")
    alone = report_facts(title="x", plan="", schema=USERS, ledger=session.ledger, entries=entries[:1])
    assert "does not say how many rows were left out" in as_markdown(alone)
    assert "rows kept, at most 3 of each user" in str(entries[0].answer)


def test_markdown_says_the_same(facts):
    text = as_markdown(facts)
    assert "<script" not in text
    assert text.count("```") == 2
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    columns = [len(re.findall(r"(?<!\\)\|", row)) for row in rows]
    tables = [row for row in text.splitlines() if row.startswith("|---")]
    assert set(columns) == {row.count("|") for row in tables}  # no label adds a column


UNHELD = "".join(map(chr, (*range(1, 9), *range(11, 32), *range(127, 160), 0x2028, 0x2029, 0x202E, 0x2066, 0xFFFE)))
"""What labels may hold and no file may: the chart library ends the process over most of them."""
LABEL = f"a</script><script>alert(1)</script>{UNHELD}\\| [b](http://c) `d`"
QUOTED = json.dumps(LABEL).replace("\x7f", "\\u007f")
HOSTILE_PLAN = f"""
title = {QUOTED}
[source]
path = "rows.csv"
[budget]
epsilon = 2.0
[schema.columns.arm]
categories = [{QUOTED}, "b"]
source = {QUOTED}
[[release]]
name = {QUOTED}
ask = "count"
by = "arm"
[[release]]
name = "table"
ask = "table"
columns = ["arm"]
"""


def test_labels_that_no_file_can_hold_end_no_run(tmp_path):
    """In a process of its own, which the chart library would abort after the budget was spent."""
    (tmp_path / "rows.csv").write_text("arm\nb\nb\n")
    (tmp_path / "plan.toml").write_text(HOSTILE_PLAN, encoding="utf-8")
    code = "import sys; from discreet.cli.main import main\nfor one in sys.argv[1:]: main(one.split())"
    commands = (
        "run plan.toml", "review plan.toml", "review plan.toml --out review.md", "review plan.toml --out review.html",
        "export plan-report --format parquet", "ledger show rows.ledger --out ledger.html",
    )  # fmt: skip
    said = output([sys.executable, "-c", code, *commands], cwd=tmp_path)
    written = [one for one in tmp_path.rglob("*") if one.suffix in (".md", ".html", ".csv")]
    assert len(written) == 9
    for text in (said, *(one.read_text(encoding="utf-8") for one in written)):
        assert set(text) & set(UNHELD) == set()
    for one in written:
        if one.suffix != ".csv":
            assert "<script" not in one.read_text(encoding="utf-8").split("## The plan")[0]
    book = openpyxl.load_workbook(tmp_path / "plan-report" / "results.xlsx")
    assert any("\\u001b" in str(cell) for sheet in book for row in sheet.values for cell in row)
    stored = json.loads((tmp_path / "plan-report" / "results.json").read_text(encoding="utf-8"))
    assert stored["facts"]["releases"][0]["readings"][0]["labels"]["arm"] == LABEL  # programs get what it is


def test_profiles_of_labels_that_no_file_can_hold(tmp_path):
    """Labels come from the data: no control character reaches a file, and no spreadsheet computes them."""
    label = LABEL + "\x7f\x9b"
    rows = pa.table({"city": [label] * 400 + ["=1+1"] * 400, "age": [30.0] * 800})
    pq.write_table(rows, tmp_path / "rows.parquet")
    planned = plan_profile(str(tmp_path / "rows.parquet"), ApproxDP(20.0, 1e-6))
    found = run_profile(planned)
    plan, table = found.plan_text(), found.csv()
    for text in (plan, table, found.html(), found.ddi()):
        assert set(text) & set(UNHELD) == set()
    assert "\n'=1+1" in table or ",'=1+1" in table
    assert set(tomllib.loads(plan)["schema"]["columns"]["city"]["categories"]) == {label, "=1+1"}
    assert tomllib.loads(skeleton("rows.csv", {"a\x7fb": "string"}, {}))


def test_codebooks_are_xml_whatever_the_labels_hold():
    column = {"name": LABEL, "kind": "label", "low": None, "quartile_words": [], "missing": {"value": 0.1}}
    column |= {"label_list": [LABEL], "words": LABEL, "origin": LABEL}
    text = ddi_codebook({"source": LABEL, "protection_words": [(LABEL, LABEL)], "columns": [column]})
    assert set(text) & set(UNHELD) == set()
    assert ElementTree.fromstring(text).find(".//{*}catValu").text == printable(LABEL)


CHART = """
import json, sys
import pyarrow
from discreet import *
label = json.loads(sys.argv[1])
schema = Schema(columns={"arm": Categories([label, "b"])})
session = Session(pyarrow.table({"arm": ["b"]}), schema, ledger=":memory:", budget=PureDP(2.0))
chart = session.count(epsilon=1.0, by="arm").plot()
for name in ("chart.html", "chart.svg", "chart.png", "chart.json"):
    chart.save(name)
(chart | chart).properties(title=label[:1]).save("both.svg")
assert "<script" not in chart.to_html() + chart.properties(title={"text": label}).to_html()
print(*chart._repr_mimebundle_())
"""


def test_charts_are_saved_and_shown_without_scripts_or_a_network(tmp_path):
    shown = output([sys.executable, "-c", CHART, json.dumps(LABEL)], cwd=tmp_path)
    assert shown.split() == ["image/svg+xml", "text/plain"]
    page = (tmp_path / "chart.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "<svg" in page
    assert {url for url in re.findall(r"https?://[^\"'\s<>]+", page) if "www.w3.org" not in url} == {
        "http://c)"
    }  # a word
    assert (tmp_path / "chart.png").read_bytes()[:4] == b"\x89PNG"
    for name in ("chart.html", "chart.svg", "chart.json", "both.svg"):
        assert set((tmp_path / name).read_text(encoding="utf-8")) & set(UNHELD) == set()


def test_charts_are_data(facts):
    drawn = charted(facts["releases"][2])
    (panel,) = drawn["panels"]
    assert [row["label"] for row in panel["rows"]] == ["A", EVIL]
    for row in panel["rows"]:  # both intervals are inside, the wider around the other
        assert 0 <= row["population"][0] <= row["noise"][0] <= row["at"] <= row["noise"][1] <= row["population"][1]
        assert row["population"][1] <= 100
    assert charted(facts["releases"][0]) is None


def test_readings_of_public_sizes():
    schema = Schema(columns={"x": Bounds(0, 1, grid=0.01, nulls=0)}, neighbours=Neighbours.REPLACE_ONE, size=200)
    session = Session(pa.table({"x": np.linspace(0, 1, 200)}), schema, ledger=":memory:", budget=PureDP(10.0))
    [mean] = session.mean("x", epsilon=5.0, variance=False).readings()
    assert mean.noise.contains(mean.estimate)
    assert mean.population.width > mean.noise.width


@pytest.mark.skipif(shutil.which("chromium") is None, reason="headless Chromium is not installed")
def test_the_page_renders_in_a_browser_on_a_phone(facts, tmp_path):
    page, picture = tmp_path / "report.html", tmp_path / "report.png"
    page.write_text(as_page(facts), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    options.append(f"--user-data-dir={tmp_path / 'profile'}")
    output(["chromium", *options, "--window-size=500,900", f"--screenshot={picture}", page.as_uri()])
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert picture.stat().st_size > 20_000
    assert "What is protected" in output(["chromium", *options, "--dump-dom", page.as_uri()])
