"""What readers are shown: tables with totals in place, findings as sentences, the methods note and its workbook."""

import io
import re
import sys
from itertools import combinations, product
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet
from discreet import Ledger, PureDP, Release, release
from discreet.cli.main import main
from discreet.core.errors import PlanFileError
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms import Laplace
from discreet.plans.job import Job
from discreet.plans.plan_file import PlanFile
from discreet.publish.export import as_workbook, export, read_facts
from discreet.publish.report import findings, grids, methods_markdown, methods_page
from discreet.results.frames import reliability
from discreet.results.wording import reading_words, verdict
from tests.processes import output

LABELS = {"region": ["north", "south", "Isles"], "band": ["young", "old"], "sex": ["f", "m"]}
PLAN = """\
title = "People | of the north"
[source]
path = "people.parquet"
[budget]
epsilon = 4.0
[schema.unit]
column = "id"
label = "person"
total = 2
[schema.columns]
region = { categories = ["north", "south", "Isles"] }
band = { categories = ["young", "old"] }
sex = { categories = ["f", "m"] }
income = { low = 0, high = 1000, grid = 1, label = "weekly income", measured_in = "€" }
[[release]]
name = "tables"
title = "Region, band and sex"
ask = "tables"
tables = [[], ["region"], ["band"], ["sex"], ["region", "band"], ["region", "band", "sex"]]
[[release]]
name = "cells"
ask = "table"
columns = ["region", "sex"]
[[release]]
name = "income"
ask = "mean"
column = "income"
by = ["region"]
variance = true
[[release]]
name = "young"
ask = "proportion"
column = "band"
label = "young"
"""


def reading(estimate, *, low=None, high=None, measure="count", labels=None, **others):
    noise = None if low is None else {"low": low, "high": high}
    label = " · ".join(map(str, (labels or {}).values()))
    told = {"label": label, "labels": labels or {}, "measure": measure, "estimate": estimate}
    return told | {"noise": noise, "population": None, "standard_error": None} | others


def table(columns, margins=()):
    """Counts by these columns, and their sums by fewer."""
    cells = {place: float(1 + number) for number, place in enumerate(product(*(LABELS[name] for name in columns)))}
    found = []
    for kept in (tuple(columns), *margins):
        sums = {}
        for place, count in cells.items():
            key = tuple(label for name, label in zip(columns, place, strict=True) if name in kept)
            sums[key] = sums.get(key, 0.0) + count
        found += [reading(count, labels=dict(zip(kept, key, strict=True))) for key, count in sums.items()]
    return found


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    folder, rng, rows = tmp_path_factory.mktemp("publication"), np.random.default_rng(2), 3000
    people = {name: rng.choice(labels, rows) for name, labels in LABELS.items()}
    people |= {"id": np.arange(rows) // 2, "income": rng.exponential(300, rows)}
    pq.write_table(pa.table(people), folder / "people.parquet")
    (folder / "plan.toml").write_text(PLAN, encoding="utf-8")
    result = Job(folder / "plan.toml").run()
    return read_facts(result.results), result


@pytest.mark.parametrize("columns", [("region", "sex"), ("region", "band", "sex")])
def test_every_number_of_a_table_with_all_margins_stands_once_and_adds_up(columns):
    margins = [some for size in range(len(columns)) for some in combinations(columns, size)]
    numbers = table(columns, margins)
    [grid] = grids(numbers)
    assert sorted(one["estimate"] for one in grid.readings()) == sorted(one["estimate"] for one in numbers)
    assert grid.heads[-1] is None
    for _, cells in grid.lines:
        *parts, total = (cell["estimate"] for cell in cells)
        assert sum(parts) == total
    below = [cells for side, cells in grid.lines if side[-1] is None]
    assert len(below) == len(LABELS["region"]) + 1 if len(columns) == 3 else 1


def test_tables_that_do_not_hold_each_other_stand_apart():
    found = grids([*table(("region", "sex")), *table(("region", "band"), [("region",)])])
    assert [grid.name for grid in found] == ["region × sex", "region × band"]
    assert [grid.heads[-1] for grid in found] == [None, None]  # both have the margin by region
    assert all(cells[-1] is not None for grid in found for _, cells in grid.lines)


def test_what_is_clearer_as_a_list_is_no_table():
    assert grids(table(("region",))) == []
    assert grids(table(("region",), [()])) == []
    assert grids(table(("region", "sex"))[:-1]) == []  # a cell is missing
    wide = [reading(1.0, labels={"a": a, "b": b}) for a in range(20) for b in range(30)]
    assert grids(wide) == []


def test_long_labels_stand_at_the_side():
    [grid] = grids([reading(1.0, labels={"sex": sex, "age": age}) for sex in "fm" for age in range(30)])
    assert (grid.down, grid.across, len(grid.lines)) == (("age",), "sex", 30)


def test_findings_say_least_and_greatest_and_whether_they_differ():
    told = {"test": None, "subject": "income", "margins": []}
    far = [reading(10.0 * k, low=10.0 * k - 2, high=10.0 * k + 2, measure="mean", labels={"r": k}) for k in range(1, 7)]
    [said] = findings(told | {"readings": far})
    assert said == "The mean income ranges from 10.0 (1) to 60.0 (6); their noise intervals do not overlap."
    near = [{**one, "noise": {"low": one["estimate"] - 30, "high": one["estimate"] + 30}} for one in far]
    assert "intervals overlap" in findings(told | {"readings": near})[0]


def test_findings_of_quantiles_by_group_compare_medians():
    readings = [
        reading(value, measure="quantile", labels={"r": group, "probability": share})
        for group, value in (("a", 1.0), ("b", 5.0))
        for share in (0.25, 0.5)
    ]
    [said] = findings({"test": None, "subject": "age", "readings": readings})
    assert said == "Median age: a 1; b 5."


@pytest.mark.parametrize(
    ("pvalue", "said"), [(0.0004, "evidence that"), (0.05, "evidence that"), (0.051, "no evidence")]
)
def test_verdicts_keep_to_the_level(pvalue, said):
    assert verdict({"test": "independence", "pvalue": pvalue}).startswith(f"There is {said}")


def test_numbers_have_the_digits_that_the_noise_leaves():
    assert reading_words(reading(25054.03, low=24935.2, high=25172.9, measure="mean"))[0] == "25,054"
    assert reading_words(reading(0.1006, low=0.0983, high=0.103, measure="proportion")) == (
        "10.06\N{NO-BREAK SPACE}%", "9.83 to 10.30\N{NO-BREAK SPACE}%", "–",
    )  # fmt: skip
    large = reading(182100898.0, low=102638760.0, high=260051624.0, measure="covariance")
    assert reading_words(large)[:2] == ("182,100,000", "102,600,000 to 260,100,000")
    assert reading_words(reading("employed", measure="mode")) == ("employed", "–", "–")


def test_only_numbers_that_cannot_be_negative_are_called_unreliable():
    assert reliability(reading(50.0, low=0.0, high=100.0, measure="quantile")) == "unreliable"
    assert reliability(reading(0.5, low=-10.0, high=11.0, measure="mean")) == ""
    assert reliability(reading(0.5, low=0.0, high=11.0, measure="difference of means")) == ""
    assert reliability(reading(0.0, low=0.0, high=0.0, standard_error=3.0)) == ""  # declared to be impossible


def test_margins_of_a_single_table_are_shown_and_not_counted_as_results(facts):
    told, result = facts
    cells = told["releases"][1]
    [grid] = grids([*cells["readings"], *cells["margins"]])
    assert (len(cells["readings"]), len(grid.readings())) == (6, 12)
    *parts, total = (cell["estimate"] for cell in grid.lines[0][1])
    assert sum(parts) == total
    assert len(result.to_pandas().query("release == 'cells'")) == 6


def test_words_for_columns_reach_readers_and_spend_nothing_again(facts, tmp_path):
    told, result = facts
    page = result.page.read_text(encoding="utf-8")
    assert "mean weekly income in €" in page
    assert "any one person" in page
    meaning = "The mean of weekly income in €. Columns: weekly income in €, region."
    assert told["releases"][2]["meaning"] == meaning
    plan = result.results.parent.parent / "plan.toml"
    plan.write_text(PLAN.replace('"weekly income"', '"Income"'), encoding="utf-8")
    assert Job(plan).run(output=tmp_path).drawn == 0
    assert "## Mean income in €" in (tmp_path / "report.md").read_text(encoding="utf-8")
    wrong = {"lable": "lable = 'weekly income': is not a setting", "label = 3 #": "label = 3: must be text"}
    for key, words in wrong.items():
        text = PLAN.replace('label = "weekly', f'{key} = "weekly').replace("3 # =", "3 } #")
        plan.write_text(text, encoding="utf-8")
        with pytest.raises(PlanFileError, match=words):
            Job(plan)


def test_a_noun_says_what_a_row_is(tmp_path):
    (tmp_path / "a.csv").write_text("age\n30\n")
    text = '[source]\npath = "a.csv"\n[budget]\nepsilon = 1.0\n[schema]\nnoun = "person"\n[[release]]\nask = "count"\n'
    (tmp_path / "a.toml").write_text(text)
    report = Job(tmp_path / "a.toml").run().markdown.read_text(encoding="utf-8")
    assert "Number of people" in report
    assert "one person" in report


def test_the_methods_note_says_what_a_reader_must_know(facts):
    told, result = facts
    text = result.methods.read_text(encoding="utf-8")
    assert text == methods_markdown(told)
    page = (result.methods.parent / "methods.html").read_text(encoding="utf-8")
    assert page == methods_page(told)
    for said in (*told["assumptions"], told["privacy"]["head"], told["privacy"]["spent"]["symbols"]):
        assert said in text.replace("\\", "")
    for one in told["releases"]:
        assert one["guarantee"]["symbols"] in text
        assert one["counted"] in text
    assert "People \\| of the north" in text
    assert "<script" not in page


def test_the_workbook_has_each_table_with_totals_intervals_flags_and_footnotes(facts):
    told, _ = facts
    book = openpyxl.load_workbook(io.BytesIO(as_workbook(told)))
    rows = [list(row) for row in book["region × band × sex, tables"].values]
    assert rows[0][0] == "Region, band and sex: number of rows by region × band × sex"
    assert rows[4][:5] == ["region", "band", "f", "m", "total"]
    numbers = [one["estimate"] for one in told["releases"][0]["readings"]]
    end = next(place for place, row in enumerate(rows[5:]) if row[0] is None) + 5
    assert sorted(cell for row in rows[5:end] for cell in row[2:5] if cell is not None) == sorted(numbers)
    assert rows[3][5:12:3] == ["noise interval, low", "noise interval, high", "population interval, low"]
    cells = [cell for row in rows[5:end] for cell in zip(row[2:5], row[5:8], row[8:11], strict=True)]
    assert all(low <= count <= high for count, low, high in cells if count is not None)
    footnotes = "\n".join(str(row[0]) for row in rows[end + 1 :])
    assert told["releases"][0]["guarantee"]["symbols"] in footnotes
    assert "Empty: not released." in footnotes  # region × sex was not asked for
    notes = "\n".join(str(cell) for row in book["Notes"].values for cell in row if cell)
    assert "Methods: How to cite" in notes
    marked = openpyxl.load_workbook(io.BytesIO(as_workbook(told)))["region × sex, cells"]
    assert marked["B6"].number_format.startswith("#,##0")


def test_sdmx_tells_totals_from_dimensions_that_do_not_apply(facts, tmp_path):
    _, result = facts
    (path,) = export(result.results, "sdmx-csv", tmp_path)
    frame = pd.read_csv(path, keep_default_na=False)
    tables = frame[frame["RELEASE"] == "tables"]
    assert tables.loc[tables["TABLE"] == "total", ["REGION", "BAND", "SEX"]].values.tolist() == [["_T"] * 3]
    assert set(tables.loc[tables["TABLE"] == "region", "SEX"]) == {"_T"}
    assert set(frame.loc[frame["RELEASE"] == "income", "SEX"]) == {"_Z"}


def test_a_limit_where_it_has_no_meaning_is_refused_with_words(facts):
    _, result = facts
    plan = result.results.parent.parent / "limits.toml"
    asked = '[[release]]\nask = "compare_means"\ncolumn = "income"\nby = "sex"\ntotal = 1\n'
    plan.write_text(f"{PLAN.partition('[[release]]')[0]}{asked}", encoding="utf-8")
    with pytest.raises(PlanFileError, match=r"limits.toml:19: total = 1: compare_means has its own rule"):
        Job(plan)


def test_a_value_by_hand_is_a_frame_and_a_chart_as_any_answer():
    ledger = Ledger(":memory:", budget=PureDP(2.0))
    noisy = release(Exact([10.0, 20.0], Sensitivity(l1=1.0)), Laplace(scale=1.0), ledger=ledger)
    assert noisy.to_pandas()["estimate"].tolist() == noisy.value.tolist()
    assert noisy.to_pandas()["noise_low"].tolist() == noisy.noise_interval().low.tolist()
    assert noisy.plot().to_dict()
    again = Release.from_json(noisy.to_json())
    assert (type(again), again.to_pandas().equals(noisy.to_pandas())) == (type(noisy), True)


def test_a_ledger_is_shown_with_names_and_words(facts, capsys):
    _, result = facts
    main(["ledger", "show", str(result.results.parent.parent / "people.ledger")])
    shown = capsys.readouterr().out
    assert "  tables: tables by margins" in shown
    assert "ε = 1: one id's data makes no outcome more than 2.72 times as likely" in " ".join(shown.split())


def test_the_package_is_a_command():
    assert output([sys.executable, "-m", "discreet", "--version"]).strip() == discreet.__version__


NAMED = """
title = "Households"
[source]
path = "rows.csv"
[budget]
epsilon = 20.0
[schema.columns.PUMA]
label = "area"
categories = ["n", "s"]
[schema.columns.SEX]
label = "sex"
categories = ["f", "m"]
[schema.columns.PINCP]
label = "yearly income"
low = 0
high = 100
[[release]]
ask = "table"
columns = ["PUMA", "SEX"]
[[release]]
ask = "tables"
tables = [["PUMA"], ["PUMA", "SEX"]]
[[release]]
ask = "mean"
column = "PINCP"
by = "SEX"
[[release]]
ask = "regression"
column = "PINCP"
on = ["SEX"]
[[release]]
ask = "usable_values"
"""


def test_columns_are_called_as_readers_know_them_everywhere(tmp_path):
    (tmp_path / "rows.csv").write_text("PUMA,SEX,PINCP\n" + "n,f,10\ns,m,30\nn,m,50\n" * 90)
    (tmp_path / "plan.toml").write_text(NAMED)
    out = Job(PlanFile.read(tmp_path / "plan.toml")).run().results.parent
    book = openpyxl.load_workbook(out / "results.xlsx")
    cells = " ".join(str(cell) for sheet in book for row in sheet.values for cell in row)
    report, note = ((out / name).read_text(encoding="utf-8") for name in ("report.html", "report.md"))
    for text in (report.split('id="plan"')[0], note.split("## The plan")[0], cells, " ".join(book.sheetnames)):
        assert not re.search("PUMA|SEX|PINCP", text), re.findall(".{40}(?:PUMA|SEX|PINCP).{40}", text)
    assert "Mean yearly income by sex" in report
    assert "Number of rows by area and sex" in report
    written = (out / "results.csv").read_text(encoding="utf-8")
    assert not re.search("PUMA|SEX|PINCP", written)
    assert {"area", "sex"} <= set(written.splitlines()[0].split(","))


def test_a_number_of_which_nothing_is_known_is_no_end_of_a_range() -> None:
    """A lower bound below zero takes away the flag; the interval that reaches from bound to bound tells it, too."""

    def told(label: str, estimate: float, low: float, high: float) -> dict[str, Any]:
        reading = {"labels": {"level": label}, "label": label, "measure": "mean", "estimate": estimate, "pvalue": None}
        return {**reading, "standard_error": None, "noise": {"low": low, "high": high}, "population": None}

    known = [told(name, 1000.0 * place, 1000.0 * place - 50, 1000.0 * place + 50) for place, name in enumerate("abcde")]
    hidden = told("z", -20_000.0, -20_000.0, 200_000.0)
    said = findings({"test": None, "subject": "pay", "readings": [*known, hidden]})
    assert said[0].startswith("The mean pay ranges from 0 (a) to 4,000 (e)")
    assert said[1:] == ["Nothing is known of z: noise hides all differences from the others."]
    assert len(findings({"test": None, "subject": "pay", "readings": known})) == 1
    alike = [told(name, 1000.0 + place, 900.0, 1100.0) for place, name in enumerate("abcde")]
    assert findings({"test": None, "subject": "pay", "readings": alike}) == [
        "Nothing can be said of how the mean pay differs: noise and sampling hide it."
    ]


def test_a_report_answers_first_and_speaks_in_the_words_of_its_reader(tmp_path) -> None:
    """One number stands beside its finding; one quantile is called by its name; bins, terms and columns are words."""
    rng = np.random.default_rng(3)
    frame = {"S": rng.choice(["1", "2"], 2000), "R": rng.choice(["n", "s"], 2000), "P": rng.uniform(0, 99, 2000)}
    pq.write_table(pa.table(frame), tmp_path / "people.parquet")
    (tmp_path / "plan.toml").write_text(
        """title = "Pay"
[source]
path = "people.parquet"
[budget]
epsilon = 100.0
[schema]
noun = "person"
[schema.columns]
S = { labels = { 1 = "men", 2 = "women" }, label = "Sex" }
R = { categories = ["n", "s"], label = "Region" }
P = { low = 0, high = 100, label = "Pay", measured_in = "€" }
"""
        + "".join(
            f'[[release]]\nask = "{ask}"\n{settings}\n'
            for ask, settings in (
                ("count", ""),
                ("median", 'column = "P"\nby = ["R", "S"]'),
                ("quantile", 'column = "P"\nprobabilities = 0.9'),
                ("histogram", 'column = "P"\nedges = [0, 50, 100]'),
                ("compare_means", 'column = "P"\nby = "S"'),
                ("regression", 'column = "P"\non = ["S", "R"]'),
                ("table", 'columns = ["S", "R"]'),
                ("tables", 'tables = "all margins of S, R up to 2"'),
                ("mode", 'column = "S"'),
            )
        ),
        encoding="utf-8",
    )
    page = Job(tmp_path / "plan.toml").run().page.read_text(encoding="utf-8")
    shown, _, plan = page.partition("The plan</h2>")
    assert "[schema.columns]" in plan
    assert len(re.findall('<span class="key">', shown)) == 3  # of the count, the one quantile and the one difference
    assert re.search(r'<span class="key">(1,9|2,0)\d\d<small>', shown)
    assert "How many people there are." in shown
    assert "Median pay in € by Region × Sex" in shown
    assert "The 90 % quantile of pay in € is" in shown
    assert "probability" not in shown
    assert "0 to under 50" in shown
    assert "Sex: women" in shown
    assert not re.search(r"[SRP]\[|\[0, 50|>[SRP]<", shown)
    assert (
        "Columns:" not in shown.partition("by Region × Sex")[0].partition("Median pay in € by region and sex</h2>")[0]
    )
    assert len(re.findall(r'aria-label="Chart: Does mean pay in € differ by sex\?"', shown)) == 1
    drawn = shown.partition('aria-label="Chart: Does mean')[2].partition("</figure>")[0]
    assert drawn.count('class="zero"') == 1  # where there is no difference
    text = (tmp_path / "plan-report" / "report.md").read_text(encoding="utf-8").partition("## The plan")[0]
    assert "The 90 % quantile of pay in € is" in text
    assert not re.search(r"probability|\[0, 50", text)
    boxes = dict(
        re.findall(r'type="checkbox"( checked)?> Show the interval.*?<caption>(.*?)</caption>', shown, re.DOTALL)
    )
    assert re.fullmatch("Number of people by Sex × Region: ±\xa0\\d for noise in each cell .*", boxes[""])
    assert boxes[" checked"] == "Number of people by Sex × Region, with 95 % population intervals"
    assert "<script" not in page
    assert "The most frequent label is" in shown
    assert "Mode" not in text
    assert "one unit's data moves it by at most 1" in text
    assert not re.search("ℓ₁|ℓ₂|sensitivity", text)
