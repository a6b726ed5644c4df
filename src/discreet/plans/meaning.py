"""Meaning: what a plan says, without its words; what people approve, and how one version differs from the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import discreet
from discreet.core.guarantee import Guarantee
from discreet.plans.plan_file import PlanFile
from discreet.results.ledger import Ledger

__all__ = ["differences", "meaning"]

_TOLD = ("mechanism.", "question.schema.", "question.statistic.")
"""The entries that follow from the schema and the guarantee, whose changes are told by themselves."""


def meaning(file: PlanFile, ledger: Ledger | None = None) -> dict[str, Any]:
    """Everything in a plan that has a bearing on people, as JSON-ready data. Titles and comments have none.

    ``releases`` says how often each release may be made, by the identity of its claim, which covers question,
    mechanism, sensitivity, protection and guarantee. A sequence makes a release of its own in every period, and is
    told by its first.
    """
    every = {one.name: one.question.claims(ledger) for one in file.questions}
    claims = {name: found[0] for name, found in every.items()}
    allowed: Counter[str] = Counter()
    for claim in (claim for found in every.values() for claim in found):
        allowed[claim.identity()] += 1 if claim.parts else file.times
    return {
        "discreet": "plan",
        "software": discreet.__version__,
        "source": file.identity(),
        "dataset": file.dataset,
        "budget": file.budget.to_dict(),
        "window": file.terms.window,
        "schema": file.schema.to_dict(),
        "sources": dict(file.sources),
        "period": file.period_pattern,
        "questions": {
            name: {
                "question": dict(claim.question),
                "guarantee": claim.guarantee.to_dict(),
                "mechanism": dict(claim.mechanism),
            }
            for name, claim in claims.items()
        },
        "releases": dict(allowed),
    }


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The changes from one meaning to another, a sentence each; empty where nothing changed.

    Examples
    --------
    >>> differences({"budget": {"kind": "pure", "epsilon": 1.0}}, {"budget": {"kind": "pure", "epsilon": 2.0}})
    ['budget: ε = 1 is now ε = 2.']
    """
    skipped = ("releases", "questions")  # the first follows from the rest, the second is told by name
    then, now = (dict(_leaves("", {k: v for k, v in one.items() if k not in skipped})) for one in (before, after))
    said = [_changed(place, then.get(place), now.get(place)) for place in sorted(then.keys() | now.keys())
            if then.get(place) != now.get(place)]  # fmt: skip
    asked, asks = before.get("questions", {}), after.get("questions", {})
    said += [f"release {name!r} is new: {_asked(asks[name])}." for name in asks if name not in asked]
    said += [f"release {name!r} is gone." for name in asked if name not in asks]
    return said + [line for name in asks if name in asked for line in _question(name, asked[name], asks[name])]


def _question(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    then, now = dict(_leaves("", before)), dict(_leaves("", after))
    places = sorted(place for place in then.keys() | now.keys() if then.get(place) != now.get(place))
    told = [place for place in places if not place.startswith(_TOLD)]
    return [_changed(f"release {name!r}, {place}", then.get(place), now.get(place)) for place in told]


def _asked(question: Mapping[str, Any]) -> str:
    return f"{question['question'].get('ask', 'a release')} for {Guarantee.from_dict(question['guarantee'])}"


def _leaves(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Every value by its dotted place; a guarantee is one value."""
    if isinstance(value, Mapping) and value and not _is_guarantee(value):
        for key, one in value.items():
            yield from _leaves(f"{place}.{key}" if place else str(key), one)
    else:
        yield place, value


def _is_guarantee(value: Mapping[str, Any]) -> bool:
    return "kind" in value and not {"epsilon", "rho", "mu"}.isdisjoint(value)


def _changed(place: str, before: Any, after: Any) -> str:
    if before is None:
        return f"{place}: {_shown(after)} is new."
    if after is None:
        return f"{place}: {_shown(before)} is gone."
    return f"{place}: {_shown(before)} is now {_shown(after)}."


def _shown(value: Any) -> str:
    if isinstance(value, Mapping) and _is_guarantee(value):
        return str(Guarantee.from_dict(dict(value)))
    return repr(value) if isinstance(value, str) else str(value)
