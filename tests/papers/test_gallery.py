"""The gallery runs every study, counts over all of them, resumes, and shows each figure beside the paper's words."""

from pathlib import Path

import pytest

from discreet.cli.main import main
from discreet.papers import STUDIES, Part, Study
from discreet.papers.figure import Figure
from discreet.papers.gallery import run_gallery


def _cells(quick):
    return [{"n": n} for n in ((1, 2) if quick else (1, 2, 3))]


def _compute(parameters, seed):
    yield {"n": parameters["n"], "version": "certified", "value": parameters["n"] / 2, "p2.5": 0.1, "p97.5": 2.0}


def _study(paper: str) -> Study:
    part = Part(
        name="figure-1",
        title="Figure 1: <b>bold</b>",
        cells=_cells,
        compute=_compute,
        reported="The paper says *so*. <script>alert(1)</script>",
        finding=lambda rows: f"{len(rows)} rows found",
        figures=(
            Figure(name="f", title="F", x="n", y="value", colour="version", low="p2.5", high="p97.5"),
            Figure(name="g", title="G", x="n", y="value", mark="bar"),
        ),
    )
    return Study(paper=paper, title=f"Study {paper}", introduction="Words.", parts=(part,))


def test_one_page_for_all_studies(tmp_path: Path) -> None:
    steps = []
    result = run_gallery([_study("one"), _study("two")], tmp_path, quick=True, progress=steps.append)
    assert [(step.done, step.total) for step in steps] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert steps[-1].part == "two figure-1"
    assert result.page is not None
    page = result.page.read_text(encoding="utf-8")
    for said in ("The paper reports", "2 rows found", 'src="two/f.svg"', 'id="one"', "--quick"):
        assert said in page
    assert "<script" not in page
    assert "<b>bold" not in page
    assert (tmp_path / "two" / "f.svg").is_file()
    index = result.markdown.read_text(encoding="utf-8")
    assert "![F](one/f.svg)" in index
    assert "one/g.svg" not in index
    assert "[The whole study](one/one.md): 2 figures." in index
    assert result.to_dict()["studies"][1]["paper"] == "two"


def test_a_second_run_computes_nothing(tmp_path: Path) -> None:
    run_gallery([_study("one")], tmp_path, quick=True)
    again = run_gallery([_study("one")], tmp_path, quick=True)
    assert "0 cells computed, 2 taken from earlier runs" in str(again)


def test_error_bars_are_drawn_from_columns_with_dots() -> None:
    """A dot in a name means a part of a field to the chart library, and has to be escaped."""
    rows = [{"n": 1, "version": "a", "value": 1.0, "p2.5": 0.5, "p97.5": 2.0}]
    drawn = _study("one").parts[0].figures[0].chart(rows).to_dict()
    fields = [layer["encoding"]["y"]["field"] for layer in drawn["layer"] if layer["mark"]["type"] == "rule"]
    assert fields == ["p2\\.5"]


def test_the_command_runs_all_studies(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("discreet.papers.load", lambda key, data=None: _study(key))
    main(["reproduce", "all", "--quick", "--out", str(tmp_path)])
    assert f"{len(STUDIES)} studies: {2 * len(STUDIES)} cells computed" in capsys.readouterr().out
    monkeypatch.undo()
    with pytest.raises(SystemExit):
        main(["reproduce", "nothing", "--out", str(tmp_path)])
