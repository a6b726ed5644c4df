"""The stored full run: its pages are what the code makes of its stored rows, so neither can go stale alone."""

import gzip
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from discreet.papers import STUDIES, load_all
from discreet.papers.figure import Figure
from discreet.papers.gallery import run_gallery

STORED = Path(__file__).parents[2] / "docs" / "studies"


def _undrawn(figure: Figure, rows: list[Any], out: Path) -> Path | None:
    return out / f"{figure.name}.svg" if figure.selected(rows) else None


def test_stored_pages_follow_from_stored_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in STUDIES:
        shutil.copytree(STORED / key, tmp_path / key, ignore=shutil.ignore_patterns("*.md", "*.svg"))
    monkeypatch.setattr(Figure, "save", _undrawn)  # drawing takes long
    result = run_gallery(load_all(tmp_path), tmp_path)
    assert sum(study.computed for study in result.studies) == 0
    figures = {f"{figure.name}.svg" for study in load_all() for part in study.parts for figure in part.figures}
    for page in ("index.md", *(f"{key}/{key}.md" for key in STUDIES)):
        written = (tmp_path / page).read_text(encoding="utf-8")
        assert written == (STORED / page).read_text(encoding="utf-8"), page
        pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", written)
        assert pictures, page
        assert {Path(picture).name for picture in pictures} <= figures, page


def test_stored_rows_are_packed_the_same_way_everywhere() -> None:
    assert not list(STORED.glob("*/*.csv"))
    for path in STORED.glob("*/*.csv.gz"):
        packed = path.read_bytes()
        assert packed[4:8] == bytes(4), f"{path.name}: holds the time at which it was packed"
        assert gzip.decompress(packed).startswith(b"cell,row,rows,")
