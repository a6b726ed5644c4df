"""Start view: from a data file to a plan, with nothing but its header read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit

from discreet.core.errors import DiscreetError
from discreet.publish.whole_file import write_new
from discreet.source_header import source_columns, source_tables
from discreet.studio.folder import DATABASES, Folder
from discreet.studio.toml_document import GONE
from discreet.studio.typed_text import typed_value

__all__ = ["DIALECT", "columns_of", "new_plan", "new_source", "usual_dialect"]

DIALECT = {
    "delimiter": ("character between fields", (",", ";", "\t", "|")),
    "decimal": ("decimal mark", (".", ",")),
    "thousands": ("mark between thousands", ("", ",", ".", "'")),
    "symbols": ("signs around numbers", ("", "$", "€", "£", "%", "$ %", "€ %", "£ %")),
    "encoding": ("encoding", ("utf-8", "cp1252", "latin-1", "utf-16")),
}
_DEFAULTS = {"delimiter": ",", "decimal": ".", "thousands": "", "symbols": "", "encoding": "utf-8"}


def usual_dialect(place: Path) -> dict[str, str]:
    """How a file is written unless somebody says otherwise."""
    return _DEFAULTS | ({"delimiter": "\t"} if place.suffix.lower() == ".tsv" else {})


def _options(place: Path | None, given: Mapping[str, str]) -> dict[str, Any]:
    """What a plan's [source] says, from the fields of the page."""
    if place is None:
        return {"address": given["address"], **({"table": given["table"]} if given.get("table") else {})}
    if place.name.lower().endswith(DATABASES):
        return {"address": f"duckdb://{place}", **({"table": given["table"]} if given.get("table") else {})}
    usual = usual_dialect(place)
    chosen = {key: given[key] for key in DIALECT if given.get(key) and given[key] != usual[key]}
    return {"path": str(place), **({} if place.suffix.lower() == ".parquet" else chosen)}


def new_source(place: Path | None, given: Mapping[str, str]) -> dict[str, Any]:
    """What can be told of a source before a plan exists: its columns or its tables, or why it cannot be opened."""
    options = _options(place, given)
    told: dict[str, Any] = {"columns": {}, "tables": [], "problem": None, "hint": None}
    try:
        if "address" in options and "table" not in options:
            told["tables"] = source_tables(options["address"])
            return told
        columns = source_columns({"source": options.pop("address", None) or options.pop("path"), **options})
    except DiscreetError as refusal:
        return told | {"problem": str(refusal)}
    told["columns"] = dict(columns)
    marks = [mark for mark in ";\t|," if len(columns) == 1 and mark in next(iter(columns))]
    if marks:
        shown = "a tab" if marks[0] == "\t" else f"“{marks[0]}”"
        told["hint"] = (
            f"The header is one field with {shown} inside. If that is the character between fields, choose it."
        )
    return told


def columns_of(options: Mapping[str, Any], folder: Folder) -> tuple[dict[str, str], str | None]:
    """Names and types of the columns of a plan's source, and why they cannot be told where they cannot."""
    try:
        folder.refuse_outside(options)
        return dict(source_columns(options)), None
    except DiscreetError as refusal:
        return {}, str(refusal)


def new_plan(folder: Folder, place: Path | None, given: Mapping[str, str]) -> Path:
    """Write a plan that asks one question, how many rows there are, and return its path."""
    told = new_source(place, given)
    if told["problem"] is not None:
        raise DiscreetError(told["problem"])
    if not told["columns"]:
        raise DiscreetError("table: choose one of the tables.")
    options = _options(place, given)
    stem = given.get("table") or ("plan" if place is None else place.name.split(".")[0])
    path = folder.new(f"{stem}.toml")
    if "path" in options:
        options["path"] = os.path.relpath(options["path"], path.parent)
    document = tomlkit.document()
    document["title"] = f"Releases from {place.name if place is not None else stem}"
    document["source"] = options
    budget = typed_value("number", given.get("epsilon", ""))
    epsilon = 1.0 if budget is GONE else budget
    document["budget"] = {"epsilon": epsilon}
    document["schema"] = {"neighbours": "add_remove"}
    if given.get("unit"):
        total = typed_value("number", given.get("total", ""))
        document["schema"]["unit"] = {"column": given["unit"], "total": 1 if total is GONE else total}
    release = tomlkit.table()
    release.update({"name": "rows", "title": "Number of rows", "ask": "count", "epsilon": _tenth(epsilon)})
    if given.get("unit"):
        release.update({"name": "people", "title": "Number of people", "total": 1})
    document["release"] = tomlkit.aot()
    document["release"].append(release)
    write_new(path, tomlkit.dumps(document))
    return path


def _tenth(epsilon: Any) -> Any:
    return float(f"{epsilon / 10:.2g}") if isinstance(epsilon, int | float) and epsilon > 0 else 0.1
