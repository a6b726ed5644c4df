"""Tables of other programs: types follow from their dictionaries, and what they say about columns reaches the plan."""

import json
import stat
import tomllib
from datetime import date, datetime
from pathlib import Path

import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyreadstat
import pytest

from discreet.cli.main import main
from discreet.core.errors import InvalidParameter, SourceError
from discreet.plans.convert import convert, described
from discreet.plans.job import Job
from discreet.plans.skeleton import skeleton

ROWS = pd.DataFrame({"sex": [1.0, 2.0, 9.0, 1.0], "age": [30.0, 41.5, None, 99.0], "town": ["Ulm", "", "Köln", "Bonn"]})
BORN = [date(1990, 5, 17), date(1582, 10, 15), None, date(2026, 11, 18)]
LABELS = {"sex": {1: "men", 2: "women", 9: "refused"}}


def converted(folder: Path, file: Path, **settings: str) -> Path:
    out = folder / "table.parquet"
    out.write_bytes(convert(file, **settings))
    return out


@pytest.fixture
def spss(tmp_path: Path) -> Path:
    file = tmp_path / "survey.sav"
    frame = ROWS.assign(born=pd.Series(BORN, dtype=object))
    pyreadstat.write_sav(
        frame, file, column_labels={"age": "Age in years"}, variable_value_labels=LABELS,
        missing_ranges={"sex": [9], "age": [{"lo": 97, "hi": 99}]}, variable_format={"born": "DATE11"},
    )  # fmt: skip
    return file


def test_spss_says_what_codes_mean(spss: Path, tmp_path: Path) -> None:
    out = converted(tmp_path, spss)
    table = pq.read_table(out)
    assert {one.name: str(one.type) for one in table.schema} == {
        "sex": "double", "age": "double", "town": "string", "born": "date32[day]",
    }  # fmt: skip
    assert table["sex"].to_pylist() == [1.0, 2.0, 9.0, 1.0]  # a code of a missing value stays for the plan to declare
    assert table["born"].to_pylist() == BORN
    told = described(str(out))
    assert told["age"].title == "Age in years"
    assert told["sex"].labels == {"1": "men", "2": "women", "9": "refused"}
    assert (told["sex"].missing, told["age"].missing) == ([9.0], [97.0, 98.0, 99.0])


@pytest.mark.parametrize("values", [[None, None], [date(2020, 2, 29), None]])
def test_no_value_decides_on_a_type(tmp_path: Path, values: list[date | None]) -> None:
    frame = pd.DataFrame({"n": [1.0, 2.0], "born": pd.Series(values, dtype=object)})
    if values[0] is None:
        frame["born"] = frame["born"].astype(float)
    pyreadstat.write_sav(frame, tmp_path / "a.sav", variable_format={"born": "DATE11"})
    schema = pq.read_schema(converted(tmp_path, tmp_path / "a.sav"))
    assert str(schema.field("born").type) == "date32[day]"


def test_stata_and_sas_are_read(tmp_path: Path) -> None:
    frame = ROWS.assign(born=pd.Series([datetime(1990, 5, 17), datetime(1960, 1, 1), None, datetime(2026, 11, 18)]))
    frame.to_stata(tmp_path / "a.dta", write_index=False, convert_dates={"born": "td"}, version=118)
    table = pq.read_table(converted(tmp_path, tmp_path / "a.dta"))
    assert table["born"].to_pylist() == [date(1990, 5, 17), date(1960, 1, 1), None, date(2026, 11, 18)]
    assert table["town"].to_pylist()[2] == "Köln"
    pyreadstat.write_xport(ROWS, tmp_path / "a.xpt", file_format_version=5)
    assert pq.read_table(converted(tmp_path, tmp_path / "a.xpt")).num_rows == 4


def test_cells_of_a_workbook_become_text(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["age", "born", "member", "note", None])
    book.active.append([41, datetime(1990, 5, 17), True, "a"])
    book.active.append([41.5, date(2026, 11, 18), False])
    book.active.append(["forty", None, None, None, "beyond the names"])
    book.create_sheet("second").append(["x"])
    book.save(tmp_path / "a.xlsx")
    table = pq.read_table(converted(tmp_path, tmp_path / "a.xlsx"))
    assert {str(one.type) for one in table.schema} == {"string"}
    assert table.to_pydict() == {
        "age": ["41", "41.5", "forty"], "born": ["1990-05-17", "2026-11-18", None],
        "member": ["true", "false", None], "note": ["a", None, None],
    }  # fmt: skip
    assert pq.read_table(converted(tmp_path, tmp_path / "a.xlsx", sheet="second")).column_names == ["x"]
    with pytest.raises(InvalidParameter, match="must be one of"):
        convert(tmp_path / "a.xlsx", "third")


@pytest.mark.parametrize("name", ["a.sav", "a.dta", "a.sas7bdat", "a.xpt", "a.por", "a.xlsx"])
@pytest.mark.parametrize("content", [b"", b"no table at all", None])
def test_damaged_files_are_refused_in_words(tmp_path: Path, name: str, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=r"cannot be read|no whole workbook"):
        convert(tmp_path / name)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="Use CSV and Parquet files as they are"):
        convert(tmp_path / "a.csv")
    with pytest.raises(InvalidParameter, match="is of a workbook"):
        convert(tmp_path / "a.sav", "first")


def test_from_a_file_of_spss_to_a_release(
    spss: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(spss.parent)
    with pytest.raises(SystemExit, match="2"):
        main(["describe", "survey.sav"])
    assert "`discreet convert` makes Parquet" in capsys.readouterr().err
    main(["convert", "survey.sav"])
    out = spss.parent / "survey.parquet"
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    with pytest.raises(SystemExit):
        main(["convert", "survey.sav"])  # nothing is overwritten
    main(["describe", "survey.parquet"])
    plan = capsys.readouterr().out
    assert '# labels = { "1" = "men", "2" = "women" }\n# missing = ["9"]' in plan
    assert "# missing = [97, 98, 99]" in plan
    assert '# [schema.columns."age"]  # double\n# label = "Age in years"  # what readers are told' in plan
    text = plan[plan.index("title =") :]
    for line in ('[schema.columns."sex"]  # double', 'labels = { "1" = "men", "2" = "women" }', 'missing = ["9"]'):
        text = text.replace(f"# {line}", line)
    text = text.replace('ask = "count"', 'ask = "table"\ncolumns = "sex"')
    (spss.parent / "plan.toml").write_text(text)
    Job(spss.parent / "plan.toml").run()
    assert "men" in (spss.parent / "plan-report" / "report.md").read_text()


@pytest.mark.parametrize(
    "stored",
    [
        b"", b"{", b"[]", b'{"other": 1}', b'{"title": 1}', b'{"labels": ["a"]}', b'{"labels": {"1": 2}}',
        b'{"missing": "9"}', b'{"missing": [null]}', b"[" * 100_000,
    ],
)  # fmt: skip
def test_what_others_wrote_into_a_file_is_left_alone(tmp_path: Path, stored: bytes) -> None:
    field = pa.field("x", pa.float64(), metadata={b"discreet": stored})
    pq.write_table(pa.Table.from_arrays([pa.array([1.0])], schema=pa.schema([field])), tmp_path / "a.parquet")
    assert described(str(tmp_path / "a.parquet")) == {}


def test_no_title_or_code_leaves_its_comment(tmp_path: Path) -> None:
    told = {"title": "a\n[budget]\nepsilon = 9", "labels": {}, "missing": ["1]\n[budget]\nepsilon = 9"]}
    field = pa.field("x", pa.float64(), metadata={b"discreet": json.dumps(told).encode()})
    pq.write_table(pa.Table.from_arrays([pa.array([1.0])], schema=pa.schema([field])), tmp_path / "a.parquet")
    text = skeleton("a.parquet", {"x": "double"}, told=described(str(tmp_path / "a.parquet")))
    assert tomllib.loads(text)["budget"] == {"epsilon": 1.0}
