"""Stored studies: draw their figures for the site, and compress their rows.

`make docs` draws what is missing or older than its rows. `python docs/stored_studies.py` compresses the tables that a
full run (`discreet reproduce all --out docs/studies`) left in `docs/studies`.
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from coverage import STUDY as COVERAGE
from discreet.papers import STUDIES, load_all
from discreet.papers.gallery import part_rows
from discreet.papers.study import Row, pack, stored_rows

STORED = Path(__file__).parent / "studies"
PARTS = [(STORED / study.paper, study, part) for study in (*load_all(STORED), COVERAGE) for part in study.parts]


def draw() -> None:
    """Draw the figures that are missing or older than their rows, on all cores."""
    figures = [(at, name) for at, (_, _, part) in enumerate(PARTS) for name in range(len(part.figures))]
    with ProcessPoolExecutor() as pool:
        list(pool.map(_save, *zip(*figures, strict=True)))


def _save(at: int, name: int) -> None:
    """Draw a figure if it is due. Parts hold functions, which cannot be sent to a process: it knows them by place."""
    folder, _, part = PARTS[at]
    figure = part.figures[name]
    picture = folder / f"{figure.name}.svg"
    newest = max(path.stat().st_mtime for path in folder.glob(f"{part.name}.csv*"))
    if not picture.exists() or picture.stat().st_mtime <= newest:
        figure.save(_table(at), folder)


@cache
def _table(at: int) -> list[Row]:
    """The rows that a part's figures are drawn from."""
    folder, study, part = PARTS[at]
    rows = stored_rows(study, part, folder)
    if rows is None:
        raise ValueError(f"{folder}: has not all rows of {part.name}. Run the study again.")
    return part_rows(part, rows)


if __name__ == "__main__":
    for key in (*STUDIES, COVERAGE.paper):
        pack(STORED / key)
