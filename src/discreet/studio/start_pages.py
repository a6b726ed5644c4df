"""Start pages: choose a plan or a data file of the folder, say how it is written and who is protected."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import tomlkit
from markupsafe import Markup
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from discreet.core.errors import DiscreetError
from discreet.core.rows.source import source_columns, source_tables
from discreet.publish.files import write_new
from discreet.results.display import printable
from discreet.studio.desk import DATABASES, Desk, Folder, form_of
from discreet.studio.forms import typed_value
from discreet.studio.toml_document import GONE

# ---- Pictures: small drawings as SVG. Colours are classes of the style sheet, so that they follow light and dark.


_WIDTH = 320


def _svg(width: int, height: int, words: str, body: str) -> str:
    told = html.escape(printable(words))
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{told}" preserveAspectRatio="xMidYMid meet">'
        f"<title>{told}</title>{body}</svg>"
    )


def interval_sketch(low: float, high: float, centre: float, noise: float, both: float | None, words: str) -> str:
    """A number line with an expected value, the reach of the noise, and that of noise and chance together."""

    def at(value: float) -> float:
        share = (min(max(value, low), high) - low) / (high - low)
        return round(10 + share * (_WIDTH - 20), 2)

    def bar(reach: float, kind: str, thick: int) -> str:
        left, right = at(centre - reach), at(centre + reach)
        width = max(right - left, 1.5)
        return f'<rect class="{kind}" x="{left:g}" y="{16 - thick / 2:g}" width="{width:g}" height="{thick}" rx="1.5"/>'

    body = f'<line class="axis" x1="10" y1="16" x2="{_WIDTH - 10}" y2="16"/>'
    body += "" if both is None else bar(both, "both-bar", 6)
    body += bar(noise, "noise-bar", 12)
    body += f'<circle class="dot" cx="{at(centre):g}" cy="16" r="3.5"/>'
    for value, anchor in ((low, "start"), (high, "end")):
        body += f'<text x="{at(value):g}" y="38" text-anchor="{anchor}">{html.escape(f"{value:,.4g}")}</text>'
    return _svg(_WIDTH, 42, words, body)


def budget_bar(parts: Sequence[tuple[str, float]], words: str) -> str:
    """The budget as a bar: what each release takes of it; a part beyond the whole is marked."""
    body, place = f'<rect class="rest" x="0" y="2" width="{_WIDTH}" height="20" rx="4"/>', 0.0
    whole = max(1.0, sum(share for _, share in parts))
    for number, (name, share) in enumerate(parts):
        width = share / whole * _WIDTH
        told = html.escape(f"{printable(name)}: {100 * share:.0f} % of the budget")
        over = " over" if place + share > 1 + 1e-9 else ""
        body += (
            f'<rect class="part part{number % 2}{over}" x="{place / whole * _WIDTH:g}" y="2" height="20" '
            f'width="{max(width - 1, 0.5):g}"><title>{told}</title></rect>'
        )
        place += share
    return _svg(_WIDTH, 24, words, body)


def unit_picture(rows_kept: int | None, of_a_column: bool) -> str:
    """Who is protected: single rows, or all rows of one person, of which some count."""
    body = ""
    people = [3, 1, 4] if of_a_column else [1] * 8
    place = 8.0
    for person, count in enumerate(people):
        wide = 26 * count
        if of_a_column or person == 2:
            chosen = " chosen" if person == 2 else ""
            body += f'<rect class="frame{chosen}" x="{place - 3:g}" y="5" width="{wide + 2:g}" height="40" rx="5"/>'
        for row in range(count):
            kept = not of_a_column or rows_kept is None or row < rows_kept
            kind = "row" if kept else "row dropped"
            body += f'<rect class="{kind}" x="{place + 26 * row:g}" y="10" width="20" height="30" rx="3"/>'
        place += wide + (14 if of_a_column else 8)
    words = (
        f"Each frame is one person with all their rows. At most {rows_kept} rows of each count; the others are dropped."
        if of_a_column and rows_kept is not None
        else "Each frame is one person with all their rows."
        if of_a_column
        else "Each row is protected by itself. Somebody with several rows is protected row by row only."
    )
    return _svg(290, 50, words, body)


def odds_picture(guessed: float, most: float, words: str) -> str:
    """A picture of an attacker's success, beside pure guessing and beside the most that the guarantee allows."""
    body = ""
    for line, (name, share, kind) in enumerate(
        (("guessing", 0.5, "rest"), ("this attacker", guessed, "noise-bar"), ("at most", most, "both-bar"))
    ):
        y = 4 + 26 * line
        body += f'<text x="0" y="{y + 14}">{name}</text>'
        body += f'<rect class="{kind}" x="96" y="{y}" width="{share * 170:g}" height="18" rx="2"/>'
        body += f'<text x="{102 + share * 170:g}" y="{y + 14}">{100 * share:.0f} %</text>'
    return _svg(_WIDTH, 82, words, body)


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
        pictures=[Markup(unit_picture(None, False)), Markup(unit_picture(2, True))],
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
