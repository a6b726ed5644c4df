"""Results leave a run as CSV and as a workbook, and `discreet export` writes other formats from results.json."""

import csv
import io
import json
import math
import re

import openpyxl
import pandas as pd
import pyarrow.parquet as pq
import pytest

from discreet.cli.main import main
from discreet.core.errors import InvalidParameter
from discreet.plans.job import Job, JobPlan
from discreet.publish.export import FORMATS, all_rows, as_csv, as_workbook, export, read_facts
from discreet.results.frames import COLUMNS
from tests.questions.test_every_question import ASKED, plan_of

ASKS = ("count", "mean", "quantile", "table", "mode", "independence", "compare_means")


def read_csv(path):
    """Numbers to the last digit: pandas 3 reads them so by itself, and earlier ones when told."""
    exact = {"float_precision": "round_trip"} if int(pd.__version__.split(".")[0]) < 3 else {}
    return pd.read_csv(path, **exact)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return Job(plan_of({name: ASKED[name] for name in ASKS}, folder)).run()


def test_a_run_writes_a_table_of_every_number(run):
    frame = read_csv(run.table)
    assert run.table.name == "results.csv"
    assert frame["release"].drop_duplicates().tolist() == [*ASKS, "medians"]
    assert list(frame.columns)[-len(COLUMNS) :] == list(COLUMNS)
    stored = json.loads(run.results.read_text())
    means = frame[(frame["release"] == "mean") & (frame["measure"] == "mean")].set_index("arm")
    told = {one["label"]: one for one in stored["facts"]["releases"][1]["readings"] if one["measure"] == "mean"}
    assert means.loc["new", "estimate"] == told["new"]["estimate"]
    assert means.loc["new", "noise_high"] == told["new"]["noise"]["high"]
    assert means.loc["new", "population_low"] == told["new"]["population"]["low"]
    test = frame[(frame["release"] == "independence") & (frame["measure"] == "p-value")]
    assert 0 < test["estimate"].item() <= 1


def test_a_run_is_a_frame_and_a_plot(run):
    frame = run.to_pandas()
    again = read_csv(run.table)
    assert list(frame.columns) == list(again.columns)
    pd.testing.assert_series_equal(frame["estimate"], again["estimate"], check_exact=True)
    assert len(run.plot().to_dict()["vconcat"]) >= len(ASKS) - 1
    assert {"table", "workbook"} <= dict(run.facts()).keys()


def test_a_planned_run_is_a_frame_and_a_plot(run):
    plan = Job(next(run.results.parent.parent.glob("*.toml"))).plan()
    assert isinstance(plan, JobPlan)
    assert plan.to_pandas()["release"].tolist() == [*ASKS, "medians"]
    assert plan.to_pandas()["error_95"].notna().all()
    assert "vconcat" in plan.plot().to_dict()


def test_the_workbook_holds_notes_and_one_sheet_per_release(run):
    book = openpyxl.load_workbook(run.workbook)
    tables = [
        "arm × probability, quantile",
        "arm × band, table",
        "arm × band, independence",
        "centre × column, medians",
    ]
    assert [name for name in book.sheetnames if name not in tables] == ["Notes", *ASKS, "medians"]
    assert [name for name in book.sheetnames if name in tables] == tables
    notes = [[cell.value for cell in row] for row in book["Notes"]]
    text = "\n".join(str(value) for row in notes for value in row if value is not None)
    facts = read_facts(run.results)
    assert notes[0][0] == "Everything"
    assert facts["privacy"]["budget"]["words"] in text
    assert facts["privacy"]["spent"]["symbols"] in text
    assert facts["privacy"]["head"] in text
    assert all(said in text for said in facts["assumptions"])
    header, *cells = book["table"].values
    assert header == ("arm", "band", *COLUMNS)
    assert len(cells) == 4
    assert isinstance(cells[0][3], int | float)
    assert book["table"].freeze_panes == "A2"


def test_the_workbook_takes_any_name_and_label(run):
    facts = json.loads(run.results.read_text())["facts"]
    for release, name in zip(
        facts["releases"], ("a/b*[c]:?", "A b  c", "notes", "x" * 40, "X" * 40, "'", ""), strict=False
    ):
        release["name"] = name
    for reading in facts["releases"][0]["readings"]:
        reading["labels"] = {"=1+1": "=cmd|' /C calc'!A0", "odd": "bell\x07"}
    book = openpyxl.load_workbook(io.BytesIO(as_workbook(facts)))
    assert all(len(name) <= 31 for name in book.sheetnames)
    assert len({name.lower() for name in book.sheetnames}) == len(book.sheetnames) > len(facts["releases"])
    sheet = book[book.sheetnames[1]]
    assert (sheet["A1"].value, sheet["A1"].data_type) == ("=1+1", "s")
    assert (sheet["A2"].value, sheet["A2"].data_type) == ("=cmd|' /C calc'!A0", "s")
    assert sheet["B2"].value == "bell\\u0007"


def test_a_label_is_never_a_formula_in_a_table():
    written = as_csv([{"city": label, "estimate": -1.5} for label in ("=1+1", "@x", "-5", "- none", 'Oslo, "N"')])
    labels = [row["city"] for row in csv.DictReader(io.StringIO(written))]
    assert labels == ["'=1+1", "'@x", "-5", "'- none", 'Oslo, "N"']
    assert all(row["estimate"] == "-1.5" for row in csv.DictReader(io.StringIO(written)))


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_holds_every_number(run, kind, tmp_path):
    first, *others = export(run.results.parent, kind, tmp_path / kind)
    wanted = [row["estimate"] for row in all_rows(read_facts(run.results))]
    if kind == "xlsx":
        sheets = [sheet for sheet in list(openpyxl.load_workbook(first))[1:] if "×" not in sheet.title]
        found = [row[sheet_column(sheet, "estimate")] for sheet in sheets for row in list(sheet.values)[1:]]
    elif kind == "parquet":
        found = pq.read_table(first)["estimate"].to_pylist()
        assert pq.read_schema(first).metadata[b"title"] == b"Everything"
    else:
        column = "OBS_VALUE" if kind == "sdmx-csv" else "estimate"
        found = [None if math.isnan(one) else one for one in read_csv(first)[column]]
    digits = 1e-15 if kind == "xlsx" else 0  # a workbook keeps sixteen digits
    assert found == [None if one is None else pytest.approx(one, rel=digits, abs=0) for one in wanted]
    assert [path.name for path in others] == {"r": ["read.R"], "stata": ["read.do"]}.get(kind, [])


def sheet_column(sheet, name):
    return [cell.value for cell in sheet[1]].index(name)


def test_sdmx_has_structure_dimensions_value_and_attributes(run, tmp_path):
    (path,) = export(run.results, "sdmx-csv", tmp_path)
    frame = pd.read_csv(path, keep_default_na=False)
    assert list(frame.columns[:4]) == ["STRUCTURE", "STRUCTURE_ID", "ACTION", "RELEASE"]
    assert set(frame["STRUCTURE_ID"]) == {"DISCREET:EVERYTHING(1.0)"}
    assert all(re.fullmatch(r"[A-Z0-9_]+", name) for name in frame.columns)
    assert frame.loc[frame["RELEASE"] == "count", "BAND"].tolist() == ["_Z", "_Z"]
    assert set(frame["ARM"]) == {"_Z", "old", "new"}
    assert {"NOISE_LOW", "PRIVACY_UNIT", "GUARANTEE"} <= set(frame.columns[frame.columns.get_loc("OBS_VALUE") :])


def test_scripts_name_every_column(run, tmp_path):
    _, r = export(run.results, "r", tmp_path)
    _, stata = export(run.results, "stata", tmp_path)
    header = next(csv.reader(io.StringIO((tmp_path / "results.csv").read_text())))
    assert re.findall(r'"(\w+)" = "', r.read_text()) == header
    places = re.search(r"stringcols\(([\d ]+)\) numericcols\(([\d ]+)\)", stata.read_text())
    assert sorted(int(one) for group in places.groups() for one in group.split()) == list(range(1, len(header) + 1))
    assert header[int(places[2].split()[1]) - 1] in ("estimate", "centre", "probability")


def test_the_command_line_exports(run, tmp_path, capsys):
    main(["export", str(run.results), "--format", "stata", "--out", str(tmp_path)])
    assert capsys.readouterr().out.split() == [str(tmp_path / "results.csv"), str(tmp_path / "read.do")]
    with pytest.raises(SystemExit) as status:
        main(["export", str(run.results), "--format", "spss"])
    assert status.value.code == 2
    assert "must be one of csv, xlsx" in capsys.readouterr().err


def test_other_files_are_refused(run, tmp_path):
    old = json.loads(run.results.read_text())
    del old["format"]
    (tmp_path / "old.json").write_text(json.dumps(old))
    (tmp_path / "text.json").write_text("no")
    for name, says in (("old.json", "format 3"), ("text.json", "cannot be read"), ("none.json", "no such file")):
        with pytest.raises(InvalidParameter, match=says):
            export(tmp_path / name, "csv")


def test_without_openpyxl_a_run_still_writes_the_rest(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "openpyxl", None)
    result = Job(plan_of({"count": ASKED["count"]}, tmp_path)).run()
    assert result.workbook is None
    assert result.table.exists()
