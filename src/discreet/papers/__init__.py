"""Studies: the papers' experiments, re-run as published and certified.

`STUDIES` names the module of every study; `load` imports one of them.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from discreet.core.errors import InvalidParameter
from discreet.papers.study import Part, Progress, Row, Study, StudyResult, run, run_one

__all__ = ["STUDIES", "Part", "Progress", "Row", "Study", "StudyResult", "load", "load_all", "run", "run_one"]

STUDIES: dict[str, str] = {
    "liu2019": "discreet.papers.liu2019",
    "holohan2018": "discreet.papers.holohan2018",
    "lee2022": "discreet.papers.lee2022",
    "liu2023": "discreet.papers.liu2023",
    "miranda2026": "discreet.papers.miranda2026",
}
"""The module of every study by its key; each has a module-level ``STUDY``."""


def load(key: str, data: Path | None = None) -> Study:
    """The study of that key; on the files of a folder where ``data`` names one and the study can read files."""
    if key not in STUDIES:
        raise InvalidParameter("study", key, f"must be one of {sorted(STUDIES)}", "Check the spelling.")
    module = import_module(STUDIES[key])
    if data is not None and not hasattr(module, "with_data"):
        raise InvalidParameter("data", str(data), f"has no use in {key}, which needs no files", "Leave data out.")
    study = module.STUDY if data is None else module.with_data(data)
    assert isinstance(study, Study)
    return study


def load_all(data: Path | None = None) -> list[Study]:
    """Every study; those that can read files on the files of a folder where ``data`` names one and has theirs."""
    return [load(key, data if data is not None and _reads(key, data) else None) for key in STUDIES]


def _reads(key: str, data: Path) -> bool:
    """True where a study reads that folder: any, or one with the files that it names."""
    module = import_module(STUDIES[key])
    names = getattr(module, "FILES", None)
    return hasattr(module, "with_data") and (names is None or any((data / name).is_file() for name in names))
