"""Plan pages: declare public facts, add questions, and see what each would give and cost."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from discreet import Ledger
from discreet.core.errors import DiscreetError
from discreet.core.guarantee import ApproxDP, Guarantee, PureDP
from discreet.plans.job import Job
from discreet.plans.plan_file import PlanFile, PlannedQuestion, open_options
from discreet.plans.profile import ProfilePlan, plan_profile, run_profile
from discreet.plans.skeleton import gallery, needs_delta, suggested
from discreet.publish.report import meaning_of
from discreet.results import plan as planning
from discreet.results.display import number, printable
from discreet.results.wording import attacker_words
from discreet.studio.desk import Desk, Draft, FormData, form_of, from_script
from discreet.studio.forms import (
    Field,
    column_fields,
    fact_fields,
    kind_at,
    place_of_name,
    question_fields,
    shown_text,
    typed_value,
    unit_fields,
)
from discreet.studio.start_pages import budget_bar, columns_of, interval_sketch, unit_picture
from discreet.studio.toml_document import GONE, Conflict, Place, TomlDocument, digest_of, value_at

# ---- Live view: errors, costs and warnings of a draft, ready to be shown. Reads no data.


_DIGITS = 3
_ROOM = 4
"""A sketch shows so many times the interval to either side, as far as the bounds go."""


def live_view(draft: Draft) -> dict[str, Any]:
    """The contents of the live side of a plan."""
    if draft.file is None or draft.job is None:
        return {"problem": draft.problems.get(()), "cards": _unplanned(draft), "whole": None, "sound": False}
    looks = [one for one in draft.file.questions if one.look]
    asked = [one for one in draft.file.questions if not one.look]
    expected = [getattr(one.question, "expected_rows", None) for one in asked]
    rows = max((one for one in expected if one), default=None)
    cards = [
        _card(one, draft.plans[position], rows) if position in draft.plans else _wrong(draft, position, one.title)
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
    release = value_at(draft.data, ("release", position))
    named = release.get("title", release.get("name", title)) if isinstance(release, Mapping) else title
    said = draft.below("release", position) or "It cannot be planned before the mistakes above are mended."
    return {"title": str(named), "problem": said, "position": position}


def _whole(draft: Draft, asked: list[PlannedQuestion], looks: list[PlannedQuestion]) -> dict[str, Any]:
    file, job = draft.file, draft.job
    if file is None or job is None:  # the caller has looked
        return {}
    parts = [(one.title, _part(one.question.guarantee, file.budget)) for one in (*looks, *asked)]
    if ("release",) in draft.problems:
        parts = []
    used = sum(share for _, share in parts)
    words = f"The releases take {100 * used:.0f} % of the budget {file.budget}."
    unit = file.schema.unit.name
    return {
        "bar": Markup(budget_bar(parts, words)),  # drawn by us; names in it are escaped
        "used": words,
        "cost": "nothing: all of it is released" if job.cost is None else str(job.cost),
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


def _card(one: PlannedQuestion, planned: planning.Plan, rows: int | None) -> dict[str, Any]:
    error = planned.rows()[0]["error_95"]
    chance = planning.sampling_error(one.question, rows=rows)
    free = planning.privacy_is_free(one.question, planned)
    return {
        "title": one.title,
        "problem": None,
        "read": planned.read,
        "error": None if error is None else _in_words(error, one.question),
        "chance": None if chance is None else _in_words(chance, one.question),
        "effect": None if planned.smallest_effect is None else _short(planned.smallest_effect),
        "cost": str(planned.guarantee),
        "mechanism": planned.mechanism.replace("_", " "),
        "tells": meaning_of(one.question, {}),
        "sketch": _sketch(one.question, error, chance, rows),
        "notes": [note[:1].upper() + note[1:] for note in (*_data(planned), *planned.notes)],
        "warnings": planning.release_warnings(one.question, planned, rows),
        "free": free,
    }


def _data(planned: planning.Plan) -> list[str]:
    """For which data the error is, and how large it is for any data."""
    worst = "" if planned.worst_error is None else f"; at worst, for any data, {_short(planned.worst_error)}"
    return [f"the error is for {planned.scenario}{worst}"] if planned.scenario else []


def _in_words(error: float, question: Any) -> str:
    """An error in the unit of what is read: proportions in percentage points."""
    if question.ask == "proportion":
        return f"{_short(100 * error)} percentage points"
    return _short(error)


def _short(value: float) -> str:
    return number(float(f"{value:.{_DIGITS}g}"))


def _sketch(question: Any, error: float | None, chance: float | None, rows: int | None) -> Any:
    """The interval around an expected value, on the scale of what is read; None where there is no such scale."""
    place = None if error is None else _scale(question, rows)
    if error is None or place is None:
        return None
    low, high, centre = place
    both = None if chance is None else (error**2 + chance**2) ** 0.5
    reach = _ROOM * max(error, both or 0.0)
    low, high = max(low, centre - reach), min(high, centre + reach)
    words = f"Sketch around {_short(centre)}: noise reaches {_short(error)} to either side"
    words += "." if both is None else f", noise and chance together {_short(both)}."
    return Markup(interval_sketch(low, high, centre, error, both, words))  # numbers alone


def _scale(question: Any, rows: int | None) -> tuple[float, float, float] | None:
    """Least, greatest and expected value of what a question reads."""
    size, bounds = planning.rows_of(question, rows), planning.averaged_bounds(question)
    if question.ask == "proportion":
        return 0.0, 1.0, planning.expected_proportion(question)
    if size is None:
        return None
    if question.ask in planning.COUNTS:
        return 0.0, float(size), size / planning.groups_of(question)
    if question.ask == "quantile":
        of_one = size / planning.groups_of(question)
        return 0.0, of_one, planning.shares_of(question)[0] * of_one
    if bounds is None:
        return None
    width = bounds.high - bounds.low
    if question.ask == "mean":
        centre = bounds.low + width / 2 if question.expected_mean is None else question.expected_mean
        return bounds.low, bounds.high, centre
    spread = width / planning.SPREAD
    return {"variance": (0.0, width**2 / 4, spread**2), "std": (0.0, width / 2, spread)}.get(question.ask)


# ---- Plan pages: declare public facts, add questions, and see what each would give and cost.


_EDITED = ("title", "budget", "schema", "release")
_WHOLE = ("column", "columns", "ask")
"""Settings after which other fields of the page have other options."""
_DECLARED: Mapping[str, Mapping[str, Any]] = {
    "number": {"low": "", "high": ""},
    "labels": {"categories": []},
    "unlisted": {"unlisted": True},
}
_FIRST_PART = 0.2
"""Part of the budget that a new question takes where so much is free."""


def plan_page(desk: Desk, request: Request) -> Response:
    """The plan: public facts and questions, and what they would give."""
    return _shown(desk, desk.document(request), at=request.query_params.get("at"))


def _page_facts(desk: Desk, document: TomlDocument, digest: str, draft: Draft) -> dict[str, Any]:
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


def _shown(desk: Desk, document: TomlDocument, *, at: str | None = None, **headers: str) -> Response:
    digest, draft = desk.draft(document)
    return desk.page("plan.html", headers=headers, **_page_facts(desk, document, digest, draft), at=at)


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
    told = _page_facts(desk, document, digest, draft)
    kept = form.get("seen") == before  # else somebody else wrote, too, and the page must still notice
    known = [field for field in _all_fields(told) if problem is None and field.place in edits]
    return desk.page("changed.html", **{**told, "notice": problem}, written=known, fields=_all_fields(told), kept=kept)


_WHOLE_PAGE = {"hx-retarget": "#main", "hx-reselect": "#main", "hx-reswap": "outerHTML show:none"}


def _all_fields(told: Mapping[str, Any]) -> list[Field]:
    columns = [field for _, fields, _ in told["columns"] for field in fields]
    asked = [field for one in told["questions"] for field in (*one["main"], *one["more"])]
    return [*told["facts"], *told["unit"], *columns, *asked]


def _edits(form: FormData, data: Mapping[str, Any]) -> tuple[dict[Place, Any], dict[Place, str]]:
    """The changes by a form: fields whose text differs from what the page showed, so stale pages change no more."""
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
    return desk.go_to("plan", document, fragment="questions")


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
    return desk.go_to("plan", document, fragment="columns")


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
    unit, found = value_at(document.data(), ("schema", "unit")), written["schema"].get("unit", {})
    if isinstance(unit, Mapping) and not {"total", "rows", "groups"} & set(unit) and "total" in found:
        edits[("schema", "unit", "total")] = found["total"]
    return edits
