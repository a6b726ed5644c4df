"""Source options: from the ``[source]`` table of a plan to what opens it, and to what tells it from other sources."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from discreet.core.dialect import Dialect

__all__ = ["DIALECT", "open_options", "plan_identity"]

DIALECT = ("delimiter", "decimal", "encoding", "header", "thousands", "symbols")


def open_options(table: Mapping[str, Any], folder: Path, period: str | None) -> dict[str, Any]:
    """Arguments for a session: source, table, engine, memory, the dialect of a file, and related sources."""
    options = dict(table)
    place = options.pop("path", None)
    if place is not None and period is not None:
        place = str(place).replace("{period}", period)
    if place is not None and "://" not in str(place):
        place = str((folder / place) if not Path(place).is_absolute() else Path(place))
    if "related" in options:
        options["related"] = {name: open_options(one, folder, period) for name, one in options["related"].items()}
    return {"source": options.pop("address", place), **options}


def plan_identity(options: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """What tells a source from others: its place, as seen from the plan, a table in it, and how it is written."""
    place = options["source"]
    if "://" not in place:  # a folder may move, with the plan and the data in it
        place = os.path.relpath(os.path.realpath(place), os.path.realpath(folder))
    dialect = Dialect(**{key: options[key] for key in DIALECT if key in options})
    others = {name: plan_identity(one, folder) for name, one in options.get("related", {}).items()}
    written = {name: value for name, value in vars(dialect).items() if value != ""}
    return {"place": place, "table": options.get("table"), **written, **({"related": others} if others else {})}
