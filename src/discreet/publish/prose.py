"""Prose: facts as markdown, and the few words that pages share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, floor, inf, isfinite, log10
from typing import Any

from discreet.core.display import number
from discreet.core.guarantee import Guarantee
from discreet.publish.readings import by_measure

__all__ = ["as_markdown", "guarantee_words", "mechanism_words", "moment", "reading_words", "verdict"]


def reading_words(reading: Mapping[str, Any]) -> tuple[str, str, str]:
    """Estimate and intervals as text, with the digits that the noise leaves; a dash where there is no interval."""
    known = reading["noise"] or reading["population"]
    reach = 0.0 if known is None else (known["high"] - known["low"]) / 2
    digits = max(0, 1 - floor(log10(reach))) if 0 < reach < inf else None  # two digits of the half width
    noise, both = (
        "–" if one is None else f"{_shown(one['low'], digits, floor)} to {_shown(one['high'], digits, ceil)}"
        for one in (reading["noise"], reading["population"])
    )
    return _shown(reading["estimate"], digits, round), noise, both


def _shown(value: float | str, digits: int | None, rounded: Callable[[float], int]) -> str:
    """A number with so many decimals; ends of intervals are rounded outwards. Labels as they are."""
    if isinstance(value, str):
        return value
    if digits is None or not isfinite(value):
        return number(value)
    unit = 10.0**digits
    return f"{rounded(value * unit) / unit:,.{digits}f}"


def mechanism_words(release: Mapping[str, Any]) -> str:
    """How a release was protected, on one line."""
    mechanism = release["mechanism"]
    name = mechanism["name"].replace("_", " ")
    sizes = [f"{word} {number(mechanism[word])}" for word in ("scale", "factor") if mechanism.get(word) is not None]
    moved = [] if release["sensitivity"] is None else [f"sensitivity {release['sensitivity']}"]
    return "; ".join([", ".join([name, *sizes]), *moved])


def guarantee_words(guarantee: Guarantee | None, unit: str) -> dict[str, Any] | None:
    """A guarantee in symbols and in words about one unit; None where nothing is guaranteed."""
    if guarantee is None:
        return None
    words = guarantee.sentence().replace("one unit's", f"one {unit}'s")
    return {"symbols": str(guarantee), "words": words, **guarantee.to_dict()}


def moment(stamp: str) -> str:
    """A time stamp to be read: minutes are enough, and UTC is said."""
    return f"{stamp[:10]} {stamp[11:16]} UTC"


def verdict(test: Mapping[str, Any]) -> str:
    """A test in words."""
    strength = "no evidence against" if test["pvalue"] > 0.05 else "evidence against"
    pvalue = "p < 0.001" if test["pvalue"] < 0.001 else f"p = {test['pvalue']:.3f}"
    return f"Test of {test['test']}: {pvalue}; {strength} the hypothesis at the 5 % level (noise accounted for)."


def as_markdown(facts: Mapping[str, Any]) -> str:
    """The report as markdown."""
    privacy = facts["privacy"]
    lines = [
        f"# {_cell(facts['title'])}",
        "",
        f"Made with discreet {facts['version']}, {moment(facts['created'])}.",
        "",
        "## Privacy",
        "",
        f"{privacy['protects']}",
        "",
        f"- Budget: {privacy['budget']['symbols']}: {privacy['budget']['words']}",
        f"- Spent: {privacy['spent']['symbols']}; left: {privacy['remaining']['symbols']}",
        f"- Ledger head: `{privacy['head']}`",
        "",
    ]
    for release in facts["releases"]:
        lines += _release_lines(release)
    lines += ["## What was assumed", "", *(f"- {_cell(said)}" for said in facts["assumptions"]), ""]
    lines += ["## The plan", "", "```toml", facts["plan"].rstrip().replace("```", "'''"), "```", ""]
    return "\n".join(lines)


def _release_lines(release: Mapping[str, Any]) -> list[str]:
    lines = [f"## {_cell(release['title'])}", "", release["meaning"], ""]
    if release["test"] is not None:
        lines += [verdict(release["test"]), ""]
    for measure, readings in by_measure(release["readings"]).items():
        lines += [
            f"| | {_cell(measure)} | 95 % interval, noise | 95 % interval, noise and sampling |",
            "|---|---|---|---|",
        ]
        for reading in readings:
            lines.append(f"| {_cell(reading['label'])} | {' | '.join(map(_cell, reading_words(reading)))} |")
        lines.append("")
    guarantee = "none" if release["guarantee"] is None else release["guarantee"]["symbols"]
    if release["counted"] is not None:
        lines += [f"Counted: {_cell(release['counted'])}.", ""]
    return [*lines, f"{guarantee}; {mechanism_words(release)}.", ""]


_MARKS = str.maketrans({**{mark: f"\\{mark}" for mark in "|[]`*_!"}, "\n": " ", "\r": " ", "<": "&lt;"})
"""What would begin a link, an image, a tag or a table's cell in a name that came from outside."""


def _cell(text: str) -> str:
    return text.translate(_MARKS)
