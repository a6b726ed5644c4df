"""Plan pages: declare public facts, add questions, and see what each would give and cost."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from discreet import Ledger
from discreet.core.errors import DiscreetError
from discreet.core.guarantee import ApproxDP, Guarantee, PureDP
from discreet.plans.job import Job
from discreet.plans.plan_file import PlanFile, PlannedQuestion, open_options
from discreet.plans.profile import ProfilePlan, plan_profile, run_profile
from discreet.plans.skeleton import gallery, needs_delta, suggested
from discreet.publish.report import axis_for, tick_words
from discreet.results import plan as planning
from discreet.results.display import plural, printable
from discreet.results.wording import attacker_words
from discreet.studio import forms
from discreet.studio.desk import Desk, Draft, FormData, form_of, from_script
from discreet.studio.start_pages import TOUR, columns_of
from discreet.studio.toml_document import GONE, Conflict, Place, TomlDocument, digest_of, value_at

# ---- Live view: errors, costs and warnings of a draft, ready to be shown. Reads no data.


def live_view(draft: Draft) -> dict[str, Any]:
    """The contents of the live side of a plan."""
    if draft.file is None or draft.job is None:
        return {"problem": draft.problems.get(()), "cards": _unplanned(draft), "whole": None, "sound": False}
    looks = [one for one in draft.file.questions if one.look]
    asked = [one for one in draft.file.questions if not one.look]
    expected = [getattr(one.question, "expected_rows", None) for one in asked]
    rows = max((one for one in expected if one), default=None)
    cards = [
        _card(one, draft.plans[position], rows, draft.file)
        if position in draft.plans
        else _wrong(draft, position, one.title)
        for position, one in enumerate(asked)
    ]
    return {
        "problem": draft.problems.get(()) or draft.problems.get(("release",)),
        "cards": cards if ("release",) not in draft.problems else [],
        "whole": _whole(draft, asked, looks),
        "sound": draft.sound and draft.job.refusal is None,
    }


def _unplanned(draft: Draft) -> list[dict[str, Any]]:
    releases = draft.data.get("release")
    listed = releases if isinstance(releases, list) else []
    named = [one.get("name", "release") if isinstance(one, Mapping) else "release" for one in listed]
    return [_wrong(draft, position, str(name)) for position, name in enumerate(named)]


def _wrong(draft: Draft, position: int, title: str) -> dict[str, Any]:
    """A question that cannot be planned: it waits for a column, or says what is wrong with it."""
    release = value_at(draft.data, ("release", position))
    given = release if isinstance(release, Mapping) else {}
    column = given.get("column")
    waits = ("schema", "columns", column) in draft.problems
    said = draft.below("release", position) or "It waits for what is missing above."
    if waits:
        said = f"It waits for what is missing about {column}."
    return {
        "title": str(given.get("title", given.get("name", title))),
        "problem": forms.plain_words(said),
        "wrong": not waits,
    }


def _whole(draft: Draft, asked: list[PlannedQuestion], looks: list[PlannedQuestion]) -> dict[str, Any]:
    file, job = draft.file, draft.job
    if file is None or job is None:  # the caller has looked
        return {}
    parts = [(one.title, _part(one.question.guarantee, file.budget)) for one in (*looks, *asked)]
    if ("release",) in draft.problems:
        parts = []
    used = sum(share for _, share in parts)
    words = f"The releases take {100 * used:.0f} % of the budget {file.budget}."
    unit = file.variables.get(file.schema.unit.name, file.schema.unit.name)
    return {
        "parts": parts,
        "used": words,
        "cost": "nothing, as all of it is released already" if job.cost is None else str(job.cost),
        "left": str(job.remaining),
        "refusal": job.refusal,
        "odds": attacker_words(file.budget, unit, file.schema.neighbours),
        "warnings": [*planning.budget_warnings(file.budget), *job.warnings, *_unsourced(draft)],
    }


def _unsourced(draft: Draft) -> list[str]:
    file = draft.file
    if file is None:
        return []
    missing = [name for name in file.schema.columns if name not in file.sources]
    if not missing:
        return []
    return [f"Say where the facts about {', '.join(missing)} are public: the field “known from”. Reviewers need it."]


def _part(guarantee: Guarantee, budget: Guarantee) -> float:
    """The part of the budget that a release takes, by its first parameter; squares add up for μ."""
    name, whole = next(iter(budget.parameters().items()))
    spent = guarantee.parameters().get(name)
    if spent is None:
        converted = isinstance(guarantee, PureDP | ApproxDP) and isinstance(budget, PureDP | ApproxDP)
        return float(guarantee.parameters()["epsilon"]) / whole if converted and whole else 0.0
    power = 2 if name == "mu" else 1
    return float(spent / whole) ** power if whole else 0.0


def _card(one: PlannedQuestion, planned: planning.Plan, rows: int | None, file: PlanFile) -> dict[str, Any]:
    error = planned.rows()[0]["error_95"]
    chance = planning.sampling_error(one.question, rows=rows)
    both = None if chance is None or error is None else (error**2 + chance**2) ** 0.5
    told = {"error": error, "both": both}
    return {
        "title": one.title,
        "problem": None,
        "read": _read(planned.told_read, file),
        **{
            name: None if value is None else _in_words(value, one.question, planned.read)
            for name, value in told.items()
        },
        "effect": None if planned.smallest_effect is None else _short(planned.smallest_effect),
        "cost": str(planned.guarantee),
        "chart": _forecast(told, one.question, planned.read),
        "notes": [note[:1].upper() + note[1:] for note in (*_data(planned), *planned.notes)],
        "warnings": planning.release_warnings(one.question, planned, rows),
        "free": planning.privacy_is_free(one.question, planned),
    }


def _data(planned: planning.Plan) -> list[str]:
    """For which data the error is, and how large it is for any data."""
    worst = "" if planned.worst_error is None else f"; at worst, for any data, {_short(planned.worst_error)}"
    return [f"the error is for {planned.scenario}{worst}"] if planned.scenario else []


_IN_THE_UNIT = ("the mean", "the total", "the deviation", "the difference", "a difference")
"""Numbers that are read in the unit of their column."""


def _read(read: str, file: PlanFile) -> str:
    """What noise moves, in words: plans say rows and ranks."""
    counted = plural(file.schema.noun or "row")
    if read.startswith("ranks"):
        return f"the place among all {counted}"
    known = read.startswith(("the ", "a ", "an ", "each "))
    return read if known else f"the number of {re.sub('^rows', counted, read)}"


def _unit(question: Any, read: str) -> str:
    """The unit of an error, after a blank: that of its column, percentage points for proportions, or none."""
    bounds = planning.averaged_bounds(question) if read in _IN_THE_UNIT else None
    named = "" if bounds is None else bounds.measured_in
    return " percentage points" if question.ask == "proportion" else f" {named}" if named else ""


def _in_words(error: float, question: Any, read: str) -> str:
    """An error in the unit of what is read."""
    return f"{_short(100 * error if question.ask == 'proportion' else error)}{_unit(question, read)}"


def _short(value: float) -> str:
    """Three digits, as people write them: 89,100 and not 8.91e+04."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 1000 else f"{rounded:g}"


def _forecast(errors: Mapping[str, float | None], question: Any, read: str) -> dict[str, Any] | None:
    """A chart of how far noise moves a number, and noise and sampling together; None where that is not known."""
    times = 100 if question.ask == "proportion" else 1
    known = {name: times * reach for name, reach in errors.items() if reach}
    if "error" not in known:
        return None
    _, end, _ = axis_for(0.0, max(known.values()), whole=False)

    def reach(name: str) -> tuple[float, float] | None:
        return (50 - 50 * known[name] / end, 50 + 50 * known[name] / end) if name in known else None

    rows = [
        {"label": label, "value": f"± {_short(known[name])}", "interval": "", "unsure": False, "bar": None, "at": 50,
         "noise": reach("error"), "population": reach("both") if name == "both" else None}
        for name, label in (("error", "Noise"), ("both", "With sampling")) if name in known
    ]  # fmt: skip
    ticks = [(0, "start"), (25, "middle"), (50, "middle"), (75, "middle"), (100, "end")]
    return {
        "panels": [{"name": "", "rows": rows}],
        "ticks": [(place, tick_words(end * (place / 50 - 1), end / 2), anchor) for place, anchor in ticks],
        "zero": 50,
        "cut": False,
        "unit": f"{_unit(question, read)} away from the true value".strip(),
    }


# ---- Plan pages: declare public facts, add questions, and see what each would give and cost.


_EDITED = ("title", "budget", "schema", "release", "scenario")
_WHOLE = ("column", "columns", "ask")
"""Settings after which other fields of the page have other options."""
_DECLARED: Mapping[str, Mapping[str, Any]] = {
    "number": {"low": "", "high": ""},
    "labels": {"categories": []},
    "codes": {"labels": {}},
    "bands": {"bands": []},
    "unlisted": {"unlisted": True},
}
_FIRST_PART = 0.2
"""Part of the budget that a new question takes where so much is free."""


def plan_page(desk: Desk, request: Request) -> Response:
    """The plan: public facts and questions, and what they would give."""
    return _shown(desk, desk.document(request), at=request.query_params.get("at", ""))


def _page_facts(desk: Desk, document: TomlDocument, digest: str, draft: Draft, at: str = "") -> dict[str, Any]:
    """Everything that the plan page shows."""
    columns, refusal = _columns(desk, draft, document)
    declared = value_at(draft.data, ("schema", "columns"))
    known = declared if isinstance(declared, Mapping) else {}
    unit, total = (value_at(draft.data, ("schema", "unit", key)) for key in ("column", "total"))
    live = live_view(draft)
    questions = _questions(draft, live["cards"], at) if isinstance(draft.data.get("release"), list) else []
    kind = at.partition(" ")[0]
    told = {
        "plan": desk.name_of(document),
        "step": "plan",
        "title": draft.data.get("title", document.path.stem),
        "seen": digest,
        "undoable": document.undoable,
        "open": {"column": "columns", "release": "questions"}.get(kind, kind) or ("questions" if known else "columns"),
        "said": _said(draft, columns, known, questions, live),
        "facts": forms.fact_fields(draft),
        "unit": forms.unit_fields(draft, [*columns]),
        "rows_kept": total if isinstance(total, int) else None,
        "grouped": unit is not GONE,
        "columns": _declared(draft, known, at),
        "known": [*columns],
        "tour": TOUR if _on_tour(draft) else {},
        "undeclared": _undeclared(draft, columns),
        "unread": refusal,
        "questions": questions,
        "gallery": [(topic, list(ones)) for topic, ones in groupby(gallery(), lambda one: one.topic)],
        "live": live,
    }
    live["wrong"] = [field for field in _all_fields(told) if field.problem]
    return told


def _on_tour(draft: Draft) -> bool:
    """True for the plan of the tour, whose data is made up."""
    path = value_at(draft.data, ("source", "path"))
    return isinstance(path, str) and path.startswith("tour") and path.endswith(".csv")


def _said(
    draft: Draft, columns: Mapping[str, str], known: Mapping[str, Any], questions: list[Any], live: Mapping[str, Any]
) -> dict[str, str]:
    """What each closed step says."""
    source, unit, total = (
        value_at(draft.data, place)
        for place in (("source",), ("schema", "unit", "column"), ("schema", "unit", "total"))
    )
    place = source.get("path", "a connection") if isinstance(source, Mapping) else "none"
    limit = "" if total is GONE else f"; at most {total} {'row' if total == 1 else 'rows'} of each count"
    whole = live["whole"]
    return {
        "data": f"{place}, {len(columns)} columns",
        "unit": "Each row by itself" if unit is GONE else f"Each person, told by {unit}{limit}",
        "columns": ", ".join(known) or "What your questions are about",
        "questions": "; ".join(one["title"] for one in questions) or "What would you like to know?",
        "price": whole["used"] if whole else "How much privacy it costs, before anything is read",
    }


_LABELS = ("proportion", "table")
_ASKS = {
    "number": ("mean", "median", "histogram"), "labels": _LABELS, "codes": _LABELS, "bands": ("table",),
    "unlisted": ("common_labels",),
}  # fmt: skip
"""Questions that are offered beside a column."""


def _declared(draft: Draft, known: Mapping[str, Any], at: str) -> list[dict[str, Any]]:
    """The columns of the plan: what is known of each, what is missing, and what may be asked about it."""
    told = []
    for name, given in known.items():
        note, wrong = forms.column_note(draft, name)
        kind = forms.kind_of(given)
        fit = [one for ask in _ASKS[kind] for one in gallery() if one.ask == ask]
        main, more = forms.column_fields(draft, name)
        asks = [(one.ask, one.heading.format(subject=name, noun="rows", columns=name)) for one in fit]
        told.append(
            {
                "name": name,
                "kind": kind,
                "said": note or forms.column_summary(given),
                "note": note,
                "wrong": wrong,
                "open": at == f"column {name}" or (bool(note) and not at.startswith("column ")),
                "main": main,
                "more": more,
                "asks": asks,
            }
        )
    return told


def _shown(desk: Desk, document: TomlDocument, *, at: str = "", **headers: str) -> Response:
    digest, draft = desk.draft(document)
    return desk.page("plan.html", headers=headers, **_page_facts(desk, document, digest, draft, at), at=at)


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


def _questions(draft: Draft, cards: list[Any], at: str) -> list[dict[str, Any]]:
    told = []
    words = {one.ask: one.answers for one in gallery()}
    row = value_at(draft.data, ("schema", "noun"))
    noun = plural(row if isinstance(row, str) else "row")
    for position, release in enumerate(draft.data["release"]):
        table = release if isinstance(release, Mapping) else {}
        main, more = forms.question_fields(draft, position)
        said = forms.sentence(draft, position, main, noun)
        ask = str(table.get("ask", "?"))
        known = {field.place for field in (*main, *more) if field.problem}
        where = next((place for place in draft.problems if place[:2] == ("release", position)), None)
        card = cards[position] if position < len(cards) else {"title": ask, "problem": "", "wrong": False}
        shown = card["problem"] if where is not None and where not in known and card.get("wrong") else None
        told.append(
            {
                "position": position,
                "name": str(table.get("name", f"{ask}-{position + 1}")),
                "title": card["title"],
                "line": card["problem"] if card["problem"] is not None else f"± {card['error']}, for {card['cost']}",
                "card": card,
                "open": at == f"release {position}",
                "answers": words.get(ask, ""),
                "said": said,
                "kinds": [one for one in said if isinstance(one, forms.Field) and one not in main],
                "main": main,
                "more": more,
                "problem": shown,
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
                edits, was=lambda place, now: printable(forms.shown_text(forms.kind_at(place, data), now)) == was[place]
            )
        except Conflict as conflict:
            problem = str(conflict)
    if not from_script(request):
        if problem is not None:
            raise DiscreetError(problem)
        if request.query_params.get("to") == "preview":
            return desk.go_to("preview", document)
        return desk.go_to(
            "plan", document, at="data" if [*edits] == [("title",)] else _at(next(iter(edits), ("budget",)))
        )
    if problem is None and any(place[-1] in _WHOLE for place in edits):
        return _shown(desk, document, at=_at(next(iter(edits))), **_WHOLE_PAGE)
    digest, draft = desk.draft(document)
    told = _page_facts(desk, document, digest, draft)
    kept = form.get("seen") == before  # else somebody else wrote, too, and the page must still notice
    known = [field for field in _all_fields(told) if problem is None and field.place in edits]
    return desk.page("changed.html", **{**told, "notice": problem}, written=known, fields=_all_fields(told), kept=kept)


def _at(place: Place) -> str:
    """The step that a place of the file is in, and the part of it that is open."""
    if place[0] == "release":
        return f"release {place[1]}"
    if place[:2] == ("schema", "columns"):
        return f"column {place[2]}"
    return {"schema": "unit", "title": "data"}.get(str(place[0]), "price")


_WHOLE_PAGE = {"hx-retarget": "#main", "hx-reselect": "#main", "hx-reswap": "outerHTML show:none"}


def _all_fields(told: Mapping[str, Any]) -> list[forms.Field]:
    columns = [field for one in told["columns"] for field in (*one["main"], *one["more"])]
    asked = [field for one in told["questions"] for field in (*one["kinds"], *one["main"], *one["more"])]
    return [*told["facts"], *told["unit"], *columns, *asked]


def _edits(form: FormData, data: Mapping[str, Any]) -> tuple[dict[Place, Any], dict[Place, str]]:
    """The changes by a form: fields whose text differs from what the page showed, so stale pages change no more."""
    edits, shown = {}, {}
    for name in form.names():
        place = forms.place_of_name(name)
        if place is None or place[0] not in _EDITED:
            continue
        text = "\n".join(form.all(name))
        was = form.get(f"was:{name}").replace("\r\n", "\n")
        if text != was:
            edits[place], shown[place] = forms.typed_value(forms.kind_at(place, data), text), was
        release = value_at(data, place[:2])
        if text != was and place[2:] == ("ask",) and isinstance(release, Mapping):
            for key in forms.unfit(text, release):
                other = (*place[:2], key)
                edits[other], shown[other] = GONE, printable(forms.shown_text(forms.kind_at(other, data), release[key]))
    rows: Place = ("scenario", "rows")
    if any(place[0] == "scenario" for place in edits) and rows not in edits and value_at(data, rows) is GONE:
        edits[rows], shown[rows] = 1000, ""
    return edits, shown


def declare(desk: Desk, request: Request) -> Response:
    """Declare a column as numbers, labels, or labels that are not public; or declare it no more."""
    document, form = desk.document(request), form_of(request)
    name, kind = form.get("column"), form.get("as")
    place: Place = ("schema", "columns", name)
    if kind == "none":
        document.change({place: GONE})
        return desk.go_to("plan", document, at="columns")
    if kind == "grouped":
        name, value = f"{name} group", f'"{name}"'
        if value_at(document.data(), ("schema", "columns", name)) is GONE:
            document.change({("schema", "columns", name): {"value": value, "bands": []}})
        return desk.go_to("plan", document, fragment="at", at=f"column {name}")
    if kind == "usual":
        kind = _usual_kind(desk, document, name)
    if kind not in _DECLARED or not name:
        raise DiscreetError(f"as = {kind!r}: must be one of {', '.join(_DECLARED)}.")
    now = value_at(document.data(), place)
    if now is GONE or forms.kind_of(now) != kind:
        kept = {key: now[key] for key in ("source", "label") if isinstance(now, Mapping) and key in now}
        document.change({place: {**{key: one for key, one in _DECLARED[kind].items() if one != ""}, **kept}})
    return desk.go_to("plan", document, fragment="at", at=f"column {name}")


def _usual_kind(desk: Desk, document: TomlDocument, name: str) -> str:
    """Numbers, unless the source itself says that a column holds text; all columns of a CSV file are text."""
    _, draft = desk.draft(document)
    types = _columns(desk, draft, document)[0]
    source = draft.data.get("source")
    typed = isinstance(source, Mapping) and not str(source.get("path", "")).lower().endswith(
        (".csv", ".tsv", ".gz", ".zst")
    )
    return "labels" if typed and types.get(name, "").lstrip("!").startswith(("string", "bool")) else "number"


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
    weight = value_at(data, ("schema", "design", "weight"))  # says how much a row counts, and is asked about by none
    known = {name: one for name, one in columns.items() if name != weight} if isinstance(columns, Mapping) else {}
    about = {name: known[name] for name in [form.get("column")] if name in known}  # what a question is asked beside
    settings = suggested(ask, {**about, **known})
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
    taken = {one.get("name") for one in releases}
    number = 1
    plain = ask.replace("_", "-")
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
    own = all(one in release for release in releases for one in ([key] if key else ["weight"]))
    if key is None or not isinstance(whole, int | float) or isinstance(whole, bool) or not own:
        return {"weight": 1.0}
    spent = sum(one[key] for one in releases if isinstance(one[key], int | float))
    free = max(whole - spent, 0.0)
    part = _FIRST_PART * whole if free < 0.05 * whole else min(_FIRST_PART * whole, free)
    extra = {"delta": float(f"{table['delta'] / 10:.2g}")} if needs_delta(ask) and _positive(table.get("delta")) else {}
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
    return desk.go_to("plan", document, at="questions")


def undo(desk: Desk, request: Request) -> Response:
    """Bring the version before the last step back."""
    document = desk.document(request)
    document.undo()
    return desk.go_to("plan", document)


def pulse(desk: Desk, request: Request) -> Response:
    """Tell the page if the file is no longer the one that it shows."""
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


# ---- Profile pages: learn bounds and labels that nobody knows, privately and for a price that is shown first.


_PART = 0.2
"""Part of the budget that a profile takes unless somebody says otherwise."""


def profile_page(desk: Desk, request: Request) -> Response:
    """The cost of a profile of the columns that are not declared, as a page. Reads no rows."""
    document, file, names = _asked(desk, request)
    amount = _amount(file, request.query_params.get("amount", ""))
    with Job(file).ledger(write=False) as ledger:
        planned = _planned(file, names, amount, ledger)
        told = planned.facts()
        affordable = ledger.preview(planned.cost).after is not None
    return desk.page(
        "profile.html", plan=desk.name_of(document), step="plan", title="Profile", seen=digest_of(document.text()),
        amount=repr(amount), symbol=_symbol(file.budget), told=told, names=names, affordable=affordable,
    )  # fmt: skip


def run_profile_page(desk: Desk, request: Request) -> Response:
    """Read the data, spend, and write what was released into the plan."""
    document, file, names = _asked(desk, request)
    form = form_of(request)
    if form.get("seen") != digest_of(document.text()):
        raise DiscreetError("The plan was changed meanwhile. Go back and look at the price again. Nothing was spent.")
    with Job(file).ledger(write=True) as ledger:
        found = run_profile(_planned(file, names, _amount(file, form.get("amount")), ledger))
    document.change(_declarations(tomllib.loads(found.plan_text()), document, names))
    return desk.go_to("plan", document, at="columns")


def _asked(desk: Desk, request: Request) -> tuple[TomlDocument, PlanFile, list[str]]:
    document = desk.document(request)
    _, draft = desk.draft(document)
    if draft.file is None:
        raise DiscreetError(draft.problems.get((), "The plan has mistakes. Mend them first."))
    desk.folder.refuse_outside(draft.file.open_options())
    names = undeclared_columns(desk, draft, document)
    if not names:
        raise DiscreetError("Every column is declared already. There is nothing to profile.")
    return document, draft.file, names


def _symbol(budget: Guarantee) -> str:
    return {"epsilon": "ε", "rho": "ρ", "mu": "μ"}[next(iter(budget.parameters()))]


def _amount(file: PlanFile, typed: str) -> float:
    whole = float(next(iter(file.budget.parameters().values())))
    try:
        return float(typed) if typed.strip() else float(f"{_PART * whole:.2g}")
    except ValueError:
        raise DiscreetError(
            f"amount = {typed!r}: must be a number. Type 0.2, for example. Nothing was spent."
        ) from None


def _planned(file: PlanFile, names: list[str], amount: float, ledger: Ledger) -> ProfilePlan:
    """A profile that spends the given amount of the budget's currency, and as large a part of its δ."""
    (first, whole), *others = file.budget.parameters().items()
    given = {first: amount, **{name: value * amount / whole for name, value in others}}
    options = file.open_options()
    return plan_profile(
        options.pop("source"), type(file.budget)(**given), schema=file.schema, columns=names, ledger=ledger, **options
    )


def _declarations(written: Mapping[str, Any], document: TomlDocument, names: list[str]) -> dict[Place, Any]:
    """A codebook's declarations of the columns that were asked for, and the limit of rows where there was none."""
    columns = written["schema"].get("columns", {})
    edits: dict[Place, Any] = {("schema", "columns", name): columns[name] for name in names if name in columns}
    unit = value_at(document.data(), ("schema", "unit"))
    found = written["schema"].get("unit", {})
    if isinstance(unit, Mapping) and not {"total", "rows", "groups"} & set(unit) and "total" in found:
        edits[("schema", "unit", "total")] = found["total"]
    return edits
