"""Start pages: choose a plan or a data file of the folder, say how it is written and who is protected."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import tomlkit
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from discreet.core.errors import DiscreetError
from discreet.core.rows.source import source_columns, source_tables
from discreet.publish.files import write_new
from discreet.studio.desk import DATABASES, Desk, Folder, form_of
from discreet.studio.forms import typed_value
from discreet.studio.toml_document import GONE

# ---- Start pages: choose a plan or a data file of the folder, say how it is written and who is protected.


# ---- Start view: from a data file to a plan, with nothing but its header read


DIALECT = {
    "delimiter": ("character between fields", (",", ";", "\t", "|")),
    "decimal": ("decimal mark", (".", ",")),
    "thousands": ("mark between thousands", ("", ",", ".", "'")),
    "symbols": ("signs around numbers", ("", "$", "€", "£", "%", "$ %", "€ %", "£ %")),
    "encoding": ("encoding", ("utf-8", "cp1252", "latin-1", "utf-16")),
}
_DEFAULTS = {"delimiter": ",", "decimal": ".", "thousands": "", "symbols": "", "encoding": "utf-8"}


def usual_dialect(place: Path) -> dict[str, str]:
    """The dialect of a file unless somebody says otherwise."""
    return _DEFAULTS | ({"delimiter": "\t"} if place.suffix.lower() == ".tsv" else {})


def _options(place: Path | None, given: Mapping[str, str]) -> dict[str, Any]:
    """The settings of a plan's [source], from the fields of the page."""
    if place is None:
        return {"address": given["address"], **({"table": given["table"]} if given.get("table") else {})}
    if place.name.lower().endswith(DATABASES):
        return {"address": f"duckdb://{place}", **({"table": given["table"]} if given.get("table") else {})}
    usual = usual_dialect(place)
    chosen = {key: given[key] for key in DIALECT if given.get(key) and given[key] != usual[key]}
    return {"path": str(place), **({} if place.suffix.lower() == ".parquet" else chosen)}


def new_source(place: Path | None, given: Mapping[str, str]) -> dict[str, Any]:
    """The facts about a source before a plan exists: its columns or tables, or why it cannot be opened."""
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
    document["title"] = f"Statistics from {place.name if place is not None else stem}"
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


TOUR = {
    "data": "This is a made-up survey of 1,500 people, written into your folder as tour.csv. Nobody is in it.",
    "unit": "In the tour, each row is one person. With several rows of a person you would choose the column that tells "
    "people apart.",
    "columns": "Income is declared already. Try age: add it, and say the lowest and the highest age that can occur, as "
    "everybody knows them: 0 and 120.",
    "questions": "A first question waits here. Open it: the picture shows how far noise will move the answer, and how "
    "far chance moves it anyway. Then add another, such as a table of region.",
    "price": "Move ε. Half of it is twice as private and twice as noisy; the column at the side follows.",
}
"""What the tour says at each step."""


def make_tour(desk: Desk, request: Request) -> Response:
    """Write made-up people and a plan about them, and show it with a word at each step."""
    data = desk.folder.new("tour.csv")
    write_new(data, _made_up())
    path = desk.folder.new("tour.toml")
    document = tomlkit.document()
    document["title"] = "A tour on made-up people"
    document["source"] = {"path": data.name}
    document["budget"] = {"epsilon": 1.0}
    income = {"low": 0, "high": 100_000, "label": "yearly income", "measured_in": "€"}
    document["schema"] = {"noun": "person", "columns": {"income": income}}
    release = tomlkit.table()
    release.update({"name": "income", "ask": "mean", "column": "income", "expected_rows": 1500, "epsilon": 0.4})
    document["release"] = tomlkit.aot()
    document["release"].append(release)
    write_new(path, tomlkit.dumps(document))
    return RedirectResponse(f"/plan?plan={quote(path.name, safe='')}&at=data", status_code=303)


def _made_up() -> str:
    """People that nobody is: the same ones every time."""
    chance, lines = random.Random(1), ["age,region,income"]
    for _ in range(1500):
        age = chance.randint(18, 90)
        income = min(100_000, round(chance.lognormvariate(10.2, 0.5) + 150 * min(age, 60)))
        lines.append(f"{age},{chance.choice(['north', 'south', 'west'])},{income}")
    return "\n".join(lines) + "\n"


def _tenth(epsilon: Any) -> Any:
    return float(f"{epsilon / 10:.2g}") if isinstance(epsilon, int | float) and epsilon > 0 else 0.1


_FIELDS = ("file", "address", "table", "unit", "total", "epsilon", *DIALECT)


def start_page(desk: Desk, request: Request) -> Response:
    """The plans and the data of the folder."""
    return desk.page(
        "start.html", title="Start", folder=desk.folder.root.name or str(desk.folder.root), plans=desk.folder.plans(),
        sources=desk.folder.sources(), most=f"{desk.most_upload // 1_000_000:,} MB",
    )  # fmt: skip


def _place(desk: Desk, given: Mapping[str, str]) -> Path | None:
    """The data file that is meant; None for the address of a connection."""
    address = given.get("address", "").strip()
    if not address:
        return desk.folder.data(given.get("file", ""))
    if "://" not in address or address.startswith(("duckdb://", "sqlite://", "file://")):
        raise DiscreetError(f"address = {address!r}: must be one such as spark://host:7077. Files are in the list.")
    return None


def new_page(desk: Desk, request: Request, problem: str | None = None) -> Response:
    """The page on a new source: its header, how it is written, and who is protected.

    The address of a connection may hold a password, so it is posted: what a page is asked for by is in the history.
    """
    typed = form_of(request).given() if request.method == "POST" else {**request.query_params, "address": ""}
    given = {**dict.fromkeys(_FIELDS, ""), **typed}
    place = _place(desk, given)
    told = new_source(place, given)
    names = [*told["columns"]]
    units = (("", "each row is a different person"), *((one, f"a person is told by {one}") for one in names))
    return desk.page(
        "new.html", status=400 if problem else 200, title=place.name if place is not None else "A connection",
        given=given, told=told, dialect=_dialect(place, given), units=units, problem=problem,
    )  # fmt: skip


def _dialect(place: Path | None, given: Mapping[str, str]) -> list[dict[str, Any]]:
    """The fields on how a file of text is written; none for others."""
    if place is None or not place.name.lower().endswith((".csv", ".csv.gz", ".csv.zst", ".tsv")):
        return []
    usual = usual_dialect(place)
    shown = {
        "": "none",
        "\t": "tab",
        ",": "comma ,",
        ";": "semicolon ;",
        "|": "bar |",
        ".": "point .",
        "'": "apostrophe '",
    }
    return [
        {
            "name": name,
            "label": label,
            "options": [(one, shown.get(one, one)) for one in options],
            "chosen": given.get(name) or usual[name],
        }
        for name, (label, options) in DIALECT.items()
    ]


def make_plan(desk: Desk, request: Request) -> Response:
    """Write a plan for a source, and show it."""
    given = form_of(request).given()
    try:
        path = new_plan(desk.folder, _place(desk, given), given)
    except DiscreetError as refusal:
        return new_page(desk, request, str(refusal))
    return RedirectResponse(f"/plan?plan={quote(path.name, safe='')}", status_code=303)


async def upload(desk: Desk, request: Request) -> Response:
    """Store a dropped file in the folder; browsers do not tell where it was."""
    name = request.query_params.get("name", "")
    try:
        place = await desk.folder.keep(name, request.stream(), desk.most_upload)
    except DiscreetError as refusal:
        return PlainTextResponse(str(refusal), status_code=400)
    except ClientDisconnect:
        headers = {"connection": "close"}
        return PlainTextResponse("The file did not come whole. Drop it again.", status_code=408, headers=headers)
    return PlainTextResponse(f"/new?file={quote(place.name, safe='')}")
