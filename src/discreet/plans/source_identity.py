"""Source identity: the text by which a ledger knows a source again; where the data is, and never what is in it."""

from __future__ import annotations

import json
import os

__all__ = ["source_identity"]


def source_identity(place: str | os.PathLike[str], table: str | None = None) -> str:
    """One text for one place, however its path is written.

    Examples
    --------
    >>> source_identity("survey.csv") == source_identity("./survey.csv")
    True
    """
    name = os.fspath(place)
    return json.dumps({"place": name if "://" in name else os.path.realpath(name), "table": table}, sort_keys=True)
