"""Stored studies: draw their figures for the site, and compress their rows.

`make docs` draws what is missing or older than its rows. `python docs/stored_studies.py` compresses the tables that a
full run (`discreet reproduce all --out docs/studies`) left in `docs/studies`.
"""

from __future__ import annotations

from pathlib import Path

from discreet.papers.study_page import save_figures

from discreet.papers import STUDIES, load_all
from discreet.papers.study import pack, stored_rows

STORED = Path(__file__).parent / "studies"


def draw() -> None:
    """Draw the figures of every stored part whose pictures are missing or older than its rows."""
    for study in load_all(STORED):
        folder = STORED / study.paper
        for part in study.parts:
            stored = max(path.stat().st_mtime for path in folder.glob(f"{part.name}.csv*"))
            pictures = [folder / f"{figure.name}.svg" for figure in part.figures]
            if all(path.exists() and path.stat().st_mtime > stored for path in pictures):
                continue
            rows = stored_rows(study, part, folder)
            if rows is None:
                raise ValueError(f"{folder}: has not all rows of {part.name}. Run discreet reproduce {study.paper}.")
            save_figures(part, rows, folder)


if __name__ == "__main__":
    for key in STUDIES:
        pack(STORED / key)
