"""Live view: errors, costs and warnings of a draft, ready to be shown. Reads no data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from discreet.core.guarantee import ApproxDP, Guarantee, PureDP
from discreet.display import number
from discreet.plans.plan import Plan
from discreet.plans.plan_file import PlannedQuestion
from discreet.plans.plan_warnings import budget_warnings, privacy_is_free, release_warnings
from discreet.plans.sampling_error import (
    COUNTS,
    SPREAD,
    averaged_bounds,
    expected_share,
    groups_of,
    rows_of,
    sampling_error,
    shares_of,
)
from discreet.publish.facts import meaning_of
from discreet.publish.wording import attacker_words
from discreet.studio.draft import Draft
from discreet.studio.pictures import budget_bar, interval_sketch
from discreet.studio.toml_document import value_at

__all__ = ["live_view"]

_DIGITS = 3
_ROOM = 4
"""A sketch shows so many times the interval to either side, as far as the bounds go."""


def live_view(draft: Draft) -> dict[str, Any]:
    """What the live side of a plan shows."""
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
        "warnings": [*budget_warnings(file.budget), *job.warnings, *_unsourced(draft)],
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


def _card(one: PlannedQuestion, planned: Plan, rows: int | None) -> dict[str, Any]:
    error = planned.rows()[0]["expected_error"]
    chance = sampling_error(one.question, rows=rows)
    free = privacy_is_free(one.question, planned)
    return {
        "title": one.title,
        "problem": None,
        "read": planned.read,
        "error": None if error is None else _told(error, one.question),
        "chance": None if chance is None else _told(chance, one.question),
        "effect": None if planned.smallest_effect is None else _short(planned.smallest_effect),
        "cost": str(planned.guarantee),
        "mechanism": planned.mechanism.replace("_", " "),
        "tells": meaning_of(one.question, {}),
        "sketch": _sketch(one.question, error, chance, rows),
        "notes": [note[:1].upper() + note[1:] for note in (*_data(planned), *planned.notes)],
        "warnings": release_warnings(one.question, planned, rows),
        "free": free,
    }


def _data(planned: Plan) -> list[str]:
    """For which data the error is, and how large it is for any data."""
    worst = "" if planned.worst_error is None else f"; at worst, for any data, {_short(planned.worst_error)}"
    return [f"the error is for {planned.scenario}{worst}"] if planned.scenario else []


def _told(error: float, question: Any) -> str:
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
    size, bounds = rows_of(question, rows), averaged_bounds(question)
    if question.ask == "proportion":
        return 0.0, 1.0, expected_share(question)
    if size is None:
        return None
    if question.ask in COUNTS:
        return 0.0, float(size), size / groups_of(question)
    if question.ask == "quantile":
        return 0.0, size / groups_of(question), shares_of(question)[0] * size / groups_of(question)
    if bounds is None:
        return None
    width = bounds.high - bounds.low
    if question.ask == "mean":
        centre = bounds.low + width / 2 if question.expected_mean is None else question.expected_mean
        return bounds.low, bounds.high, centre
    return {"variance": (0.0, width**2 / 4, (width / SPREAD) ** 2), "std": (0.0, width / 2, width / SPREAD)}.get(
        question.ask
    )
