"""The study harness: seeded, resumable, whole cells only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from discreet.core.errors import InvalidParameter
from discreet.papers import Part, Progress, Study, load, run
from discreet.papers.figure import Figure
from discreet.papers.gallery import markdown_table
from discreet.papers.study import pack, stored_rows


def _cells(quick: bool) -> list[dict[str, object]]:
    return [{"n": n, "repeats": 2 if quick else 5} for n in (10, 20, 30)]


def _compute(parameters, seed):
    rng = np.random.default_rng(seed)
    for repeat in range(parameters["repeats"]):
        value = float(rng.normal())
        yield {"n": parameters["n"], "repeat": repeat, "note": "a,b", "none": None, "value": value}


def _broken(parameters, seed):
    if parameters["n"] == 30:
        raise RuntimeError("stopped")
    yield from _compute(parameters, seed)


def _study(compute=_compute) -> Study:
    part = Part(
        name="table-1",
        title="Table 1",
        cells=_cells,
        compute=compute,
        reported="nothing",
        finding=lambda rows: f"{len(rows)} rows",
        figures=(Figure(name="f", title="F", x="n", y="value", colour="note"),),
    )
    return Study(paper="toy", title="Toy", introduction="A toy.", parts=(part,))


def test_a_run_writes_rows_page_and_progress(tmp_path: Path) -> None:
    seen: list[Progress] = []
    result = run(_study(), tmp_path, quick=True, seed=3, progress=seen.append)
    assert (result.computed, result.skipped) == (3, 0)
    assert [one.done for one in seen] == [1, 2, 3]
    assert seen[-1].total == 3
    text = result.page.read_text()
    assert "6 rows" in text
    assert "**The paper reports.** nothing" in text
    assert "table-1.csv" in str(result)


def test_resumed_results_equal_uninterrupted_ones(tmp_path: Path) -> None:
    whole = run(_study(), tmp_path / "whole", seed=3).tables["table-1"].read_text()
    with pytest.raises(RuntimeError):
        run(_study(_broken), tmp_path / "cut", seed=3)
    again = run(_study(), tmp_path / "cut", seed=3)
    assert (again.computed, again.skipped) == (1, 2)
    assert again.tables["table-1"].read_text() == whole


@pytest.mark.parametrize("lost", [1, 7, 30, 120])
def test_a_cell_cut_off_by_a_crash_is_computed_again(tmp_path: Path, lost: int) -> None:
    table = run(_study(), tmp_path, seed=3).tables["table-1"]
    whole = table.read_text()
    table.write_text(whole[:-lost])
    again = run(_study(), tmp_path, seed=3)
    assert again.computed >= 1
    assert sorted(table.read_text().splitlines()) == sorted(whole.splitlines())


def test_order_and_workers_do_not_matter(tmp_path: Path) -> None:
    one = run(_study(), tmp_path / "1", seed=3).tables["table-1"].read_text()
    two = run(_study(), tmp_path / "2", seed=3, workers=2).tables["table-1"].read_text()
    assert sorted(one.splitlines()) == sorted(two.splitlines())
    other = run(_study(), tmp_path / "3", seed=4).tables["table-1"].read_text()
    assert one != other


def test_quick_and_full_results_share_a_directory(tmp_path: Path) -> None:
    run(_study(), tmp_path, quick=True)
    assert run(_study(), tmp_path).computed == 3
    assert run(_study(), tmp_path, quick=True).skipped == 3


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="part"):
        run(_study(), tmp_path, parts=["figure-9"])
    with pytest.raises(InvalidParameter, match="study"):
        load("nobody")
    (tmp_path / "table-1.csv").write_text("something,else\n1,2\n")
    with pytest.raises(InvalidParameter, match="out"):
        run(_study(), tmp_path)


def test_markdown_table() -> None:
    assert markdown_table([{"a": 1.23456, "b": None}]) == "| a | b |\n|---|---|\n| 1.235 |  |\n"
    assert markdown_table([]) == ""


def test_compressed_rows_are_read_and_added_to(tmp_path: Path) -> None:
    whole = run(_study(), tmp_path, seed=3).tables["table-1"].read_text()
    pack(tmp_path)
    packed = tmp_path / "table-1.csv.gz"
    before = packed.read_bytes()
    assert [path.name for path in tmp_path.glob("*.csv*")] == [packed.name]
    assert stored_rows(_study(), _study().parts[0], tmp_path, seed=3) is not None
    again = run(_study(), tmp_path, seed=3)
    assert (again.computed, again.skipped) == (0, 3)
    assert again.tables["table-1"] == packed
    assert "[`table-1.csv.gz`](table-1.csv.gz)" in again.page.read_text()
    more = run(_study(), tmp_path, quick=True, seed=3)
    assert more.computed == 3
    assert more.tables["table-1"].read_text().startswith(whole)
    assert packed.read_bytes() == before


def test_a_page_of_several_parts_links_its_rows_and_one_of_a_part_shows_twelve(tmp_path: Path) -> None:
    part = _study().parts[0]
    both = replace(_study(), parts=(part, replace(part, name="table-2", title="Table 2", figures=())))
    assert "| n |" not in run(both, tmp_path / "both").page.read_text()
    alone = run(both, tmp_path / "both", parts=["table-1"]).page.read_text()
    assert 2 < alone.count("\n| ") <= 13
