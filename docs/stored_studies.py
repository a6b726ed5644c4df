"""Stored studies: draw their figures for the site, and compress their rows.

`make docs` draws what is missing or older than its rows. `python docs/stored_studies.py` compresses the tables that a
full run (`discreet reproduce all --out docs/studies`) left in `docs/studies`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from coverage import STUDY as COVERAGE
from discreet.papers import STUDIES, load_all
from discreet.papers.gallery import save_figures
from discreet.papers.study import pack, stored_rows

STORED = Path(__file__).parent / "studies"


def draw() -> None:
    """Draw the figures of every stored part whose pictures are missing or older than its rows."""
    for study in (*load_all(STORED), COVERAGE):
        folder = STORED / study.paper
        for part in study.parts:
            stored = max(path.stat().st_mtime for path in folder.glob(f"{part.name}.csv*"))
            pictures = [folder / f"{figure.name}.svg" for figure in part.figures]
            if all(path.exists() and path.stat().st_mtime > stored for path in pictures):
                continue
            rows = stored_rows(study, part, folder)
            if rows is None:
                raise ValueError(f"{folder}: has not all rows of {part.name}. Run the study again.")
            save_figures(part, rows, folder)


if __name__ == "__main__":
    for key in (*STUDIES, COVERAGE.paper):
        pack(STORED / key)
