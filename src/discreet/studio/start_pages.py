"""Start pages: choose a plan or a data file of the folder, say how it is written and who is protected."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from discreet.core.errors import DiscreetError
from discreet.studio.desk import Desk, form_of
from discreet.studio.pictures import unit_picture
from discreet.studio.start_view import DIALECT, new_plan, new_source, usual_dialect

__all__ = ["make_plan", "new_page", "start_page", "upload"]

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
        raise DiscreetError(
            f"address = {address!r}: must be one such as postgresql://host/base. Files are in the list."
        )
    return None


def new_page(desk: Desk, request: Request, problem: str | None = None) -> Response:
    """What the header of a source says, how it is written, and who is protected.

    The address of a database may hold a password, so it is posted: what a page is asked for by is in the history.
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
