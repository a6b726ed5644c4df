"""Plan pages: declare public facts, add questions, and see what each would give and cost."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from discreet.core.errors import DiscreetError
from discreet.display import printable
from discreet.plans.plan_file import open_options
from discreet.plans.question_gallery import gallery, suggested
from discreet.studio.desk import Desk, FormData, form_of, from_script
from discreet.studio.draft import Draft
from discreet.studio.form_fields import (
    Field,
    column_fields,
    fact_fields,
    kind_at,
    place_of_name,
    question_fields,
    unit_fields,
)
from discreet.studio.live_view import live_view
from discreet.studio.pictures import unit_picture
from discreet.studio.start_pages import columns_of
from discreet.studio.toml_document import GONE, Conflict, Place, TomlDocument, digest_of, value_at
from discreet.studio.typed_text import shown_text, typed_value

__all__ = [
    "add_question",
    "change",
    "declare",
    "plan_page",
    "pulse",
    "remove",
    "show_text",
    "undeclared_columns",
    "undo",
    "write_text",
]

_EDITED = ("title", "budget", "schema", "release")
_WHOLE = ("column", "columns", "ask")
"""Settings after which other fields of the page have other options."""
_DECLARED: Mapping[str, Mapping[str, Any]] = {
    "number": {"low": "", "high": ""},
    "labels": {"categories": []},
    "unlisted": {"unlisted": True},
}
_NEEDS_DELTA = ("groups", "running_total")
_FIRST_PART = 0.2
"""Part of the budget that a new question takes where so much is free."""


def plan_page(desk: Desk, request: Request) -> Response:
    """The plan: public facts and questions, and what they would give."""
    return _shown(desk, desk.document(request), at=request.query_params.get("at"))


def _shown(desk: Desk, document: TomlDocument, *, at: str | None = None, **headers: str) -> Response:
    digest, draft = desk.draft(document)
    return desk.page("plan.html", headers=headers, **_told(desk, document, digest, draft), at=at)


def _told(desk: Desk, document: TomlDocument, digest: str, draft: Draft) -> dict[str, Any]:
    """Everything that the plan page shows."""
    columns, refusal = _columns(desk, draft, document)
    declared = value_at(draft.data, ("schema", "columns"))
    names = [*declared] if isinstance(declared, Mapping) else []
    unit, total = (value_at(draft.data, ("schema", "unit", key)) for key in ("column", "total"))
    releases = draft.data.get("release")
    return {
        "plan": desk.name_of(document),
        "step": "plan",
        "title": draft.data.get("title", document.path.stem),
        "seen": digest,
        "undoable": document.undoable,
        "facts": fact_fields(draft),
        "unit": unit_fields(draft, [*columns]),
        "unit_picture": Markup(unit_picture(total if isinstance(total, int) else None, unit is not GONE)),
        "columns": [
            (name, column_fields(draft, name), draft.problems.get(("schema", "columns", name))) for name in names
        ],
        "undeclared": _undeclared(draft, columns),
        "unread": refusal,
        "questions": _questions(draft) if isinstance(releases, list) else [],
        "gallery": [(topic, list(ones)) for topic, ones in groupby(gallery(), lambda one: one.topic)],
        "live": live_view(draft),
    }


def undeclared_columns(desk: Desk, draft: Draft, document: TomlDocument) -> list[str]:
    """The columns of the source of which the plan says nothing."""
    columns, refusal = _columns(desk, draft, document)
    if refusal is not None:
        raise DiscreetError(refusal)
    return _undeclared(draft, columns)


def _undeclared(draft: Draft, columns: Mapping[str, str]) -> list[str]:
    declared = value_at(draft.data, ("schema", "columns"))
    known = {*(declared if isinstance(declared, Mapping) else ()), value_at(draft.data, ("schema", "unit", "column"))}
    return [name for name in columns if name not in known]


def _columns(desk: Desk, draft: Draft, document: TomlDocument) -> tuple[dict[str, str], str | None]:
    """The columns of the source, from its header alone."""
    source = draft.data.get("source")
    if not isinstance(source, Mapping) or not isinstance(source.get("address", source.get("path")), str):
        return {}, "The plan names no source."
    period = None if draft.file is None else draft.file.period
    options = {key: one for key, one in source.items() if key != "related"}
    return columns_of(open_options(options, document.path.parent, period), desk.folder)


def _questions(draft: Draft) -> list[dict[str, Any]]:
    told = []
    words = {one.ask: one.answers for one in gallery()}
    for position, release in enumerate(draft.data["release"]):
        table = release if isinstance(release, Mapping) else {}
        main, more = question_fields(draft, position)
        ask = str(table.get("ask", "?"))
        known = {field.place for field in (*main, *more)}
        where = next((place for place in draft.problems if place[:2] == ("release", position)), None)
        told.append(
            {
                "position": position,
                "name": str(table.get("name", f"{ask}-{position + 1}")),
                "title": str(table.get("title", table.get("name", ask))),
                "ask": ask,
                "answers": words.get(ask, ""),
                "main": main,
                "more": more,
                "problem": draft.problems[where] if where is not None and where not in known else None,
            }
        )
    return told


def change(desk: Desk, request: Request) -> Response:
    """Write what was typed into the fields of a form; a script gets back what follows from it."""
    document, form = desk.document(request), form_of(request)
    data = document.data()
    edits, was = _edits(form, data)
    before = digest_of(document.text())
    problem = None
    if edits:
        try:
            document.change(
                edits, was=lambda place, now: printable(shown_text(kind_at(place, data), now)) == was[place]
            )
        except Conflict as conflict:
            problem = str(conflict)
    if not from_script(request):
        if problem is not None:
            raise DiscreetError(problem)
        return desk.go_to("plan", document)
    if problem is None and any(place[-1] in _WHOLE for place in edits):
        return _shown(desk, document, **_WHOLE_PAGE)
    digest, draft = desk.draft(document)
    told = _told(desk, document, digest, draft)
    kept = form.get("seen") == before  # else somebody else wrote, too, and the page must still notice
    known = [field for field in _all_fields(told) if problem is None and field.place in edits]
    return desk.page("changed.html", **{**told, "notice": problem}, written=known, fields=_all_fields(told), kept=kept)


_WHOLE_PAGE = {"hx-retarget": "#main", "hx-reselect": "#main", "hx-reswap": "outerHTML show:none"}


def _all_fields(told: Mapping[str, Any]) -> list[Field]:
    columns = [field for _, fields, _ in told["columns"] for field in fields]
    asked = [field for one in told["questions"] for field in (*one["main"], *one["more"])]
    return [*told["facts"], *told["unit"], *columns, *asked]


def _edits(form: FormData, data: Mapping[str, Any]) -> tuple[dict[Place, Any], dict[Place, str]]:
    """What a form changes: fields whose text differs from what the page showed, so that stale pages change no more."""
    edits, shown = {}, {}
    for name in form.names():
        place = place_of_name(name)
        if place is None or place[0] not in _EDITED:
            continue
        text, was = "\n".join(form.all(name)), form.get(f"was:{name}").replace("\r\n", "\n")
        if text != was:
            edits[place], shown[place] = typed_value(kind_at(place, data), text), was
    return edits, shown


def declare(desk: Desk, request: Request) -> Response:
    """Declare a column as numbers, labels, or labels that are not public; or declare it no more."""
    document, form = desk.document(request), form_of(request)
    name, kind = form.get("column"), form.get("as")
    place: Place = ("schema", "columns", name)
    if kind == "none":
        document.change({place: GONE})
        return desk.go_to("plan", document)
    if kind not in _DECLARED or not name:
        raise DiscreetError(f"as = {kind!r}: must be number, labels or unlisted.")
    if value_at(document.data(), place) is GONE:
        document.change({place: {key: one for key, one in _DECLARED[kind].items() if one != ""}})
    return desk.go_to("plan", document, fragment="columns", at=f"column {name}")


def add_question(desk: Desk, request: Request) -> Response:
    """Add a question of the gallery, with first settings for the declared columns."""
    document, form = desk.document(request), form_of(request)
    ask = form.get("ask")
    if ask not in {one.ask for one in gallery()}:
        raise DiscreetError(f"ask = {ask!r}: is not a question of the gallery.")
    data = document.data()
    listed = data.get("release", [])
    if not isinstance(listed, list):
        raise DiscreetError(f"release = {listed!r}: write each release as [[release]]. Mend it in the text view.")
    releases = [one for one in listed if isinstance(one, Mapping)]
    columns = value_at(data, ("schema", "columns"))
    settings = suggested(ask, columns if isinstance(columns, Mapping) else {})
    settings |= _expected(ask, releases)
    entry = {"name": _new_name(ask, releases), "ask": ask, **settings, **_spending(data, releases, ask)}
    position = len(listed)
    document.change({("release", position): entry})
    return desk.go_to("plan", document, fragment=f"release-{position}", at=f"release {position}")


def _expected(ask: str, releases: list[Mapping[str, Any]]) -> dict[str, Any]:
    """The number of rows that another release expects, where this question takes one."""
    takes = any(one.name == "expected_rows" for entry in gallery() if entry.ask == ask for one in entry.settings)
    known = [one["expected_rows"] for one in releases if "expected_rows" in one]
    return {"expected_rows": known[-1]} if takes and known else {}


def _new_name(ask: str, releases: list[Mapping[str, Any]]) -> str:
    taken, number, plain = {one.get("name") for one in releases}, 1, ask.replace("_", "-")
    name = plain
    while name in taken:
        number += 1
        name = f"{plain}-{number}"
    return name


def _spending(data: Mapping[str, Any], releases: list[Mapping[str, Any]], ask: str) -> dict[str, Any]:
    """A share where the plan divides by shares; else a part of what is free, so that other releases keep theirs."""
    budget = data.get("budget")
    table = budget if isinstance(budget, Mapping) else {}
    key = next((one for one in ("epsilon", "rho", "mu") if one in table), None)
    whole = table.get(key) if key is not None else None
    own = all(one in release for release in releases for one in ([key] if key else ["share"]))
    if key is None or not isinstance(whole, int | float) or isinstance(whole, bool) or not own:
        return {"share": 1.0}
    spent = sum(one[key] for one in releases if isinstance(one[key], int | float))
    free = max(whole - spent, 0.0)
    part = _FIRST_PART * whole if free < 0.05 * whole else min(_FIRST_PART * whole, free)
    extra = (
        {"delta": float(f"{table['delta'] / 10:.2g}")} if ask in _NEEDS_DELTA and _positive(table.get("delta")) else {}
    )
    return {key: float(f"{part:.3g}"), **extra}


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def remove(desk: Desk, request: Request) -> Response:
    """Remove a release; it is told by its name as well, since another tab may have moved it."""
    document, form = desk.document(request), form_of(request)
    position = form.get("position")
    place = int(position) if position.isdecimal() and len(position) < 9 else -1
    release = value_at(document.data(), ("release", place))
    if place < 0 or not isinstance(release, Mapping) or release.get("name", "") != form.get("name"):
        raise Conflict("The release was moved or removed elsewhere meanwhile. Nothing was changed.")
    document.change({("release", place): GONE})
    return desk.go_to("plan", document, fragment="questions")


def undo(desk: Desk, request: Request) -> Response:
    """Bring the version before the last step back."""
    document = desk.document(request)
    document.undo()
    return desk.go_to("plan", document)


def pulse(desk: Desk, request: Request) -> Response:
    """Whether the file is still the one that the page shows."""
    document = desk.document(request)
    same = digest_of(document.text()) == request.query_params.get("seen")
    return Response(status_code=204, headers={} if same else {"hx-trigger": "plan-changed"})


def show_text(desk: Desk, request: Request) -> Response:
    """The file itself, to be read and edited."""
    document = desk.document(request)
    text = document.text()
    return _text(desk, document, text, digest_of(text))


def _text(desk: Desk, document: TomlDocument, text: str, seen: str, notice: str | None = None) -> Response:
    _, draft = desk.draft(document)
    problems = [f"{'.'.join(map(str, place)) or 'The file'}: {said}" for place, said in draft.problems.items()]
    return desk.page(
        "text.html", plan=desk.name_of(document), step="text", title=document.path.name, text=text, seen=seen,
        notice=notice, problems=problems, undoable=document.undoable,
    )  # fmt: skip


def write_text(desk: Desk, request: Request) -> Response:
    """Write the file as it was typed, unless it was changed elsewhere meanwhile; then both are kept."""
    document, form = desk.document(request), form_of(request)
    try:
        document.replace(form.get("text"), form.get("seen"))
    except Conflict as conflict:
        return _text(desk, document, form.get("text"), form.get("seen"), str(conflict))
    return desk.go_to("text", document)
