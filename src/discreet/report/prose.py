"""Prose: facts as markdown, and the few words that pages share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.display import number

__all__ = ["as_markdown", "interval_words", "mechanism_words", "verdict"]


def interval_words(interval: Mapping[str, Any] | None) -> str:
    """An interval as text; a dash where there is none."""
    return "–" if interval is None else f"{number(interval['low'])} to {number(interval['high'])}"


def mechanism_words(release: Mapping[str, Any]) -> str:
    """How a release was protected, on one line."""
    mechanism = release["mechanism"]
    name = mechanism["name"].replace("_", " ")
    scale = mechanism.get("scale", mechanism.get("factor"))
    word = "scale" if "scale" in mechanism else "factor"
    return f"{name}, {word} {number(scale)}; sensitivity {release['sensitivity']}"


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
        f"Made with discreet {facts['version']}, {facts['created']}.",
        "",
        "## Privacy",
        "",
        f"{privacy['protects']}",
        "",
        f"- Budget: {privacy['budget']['symbols']}. {privacy['budget']['words']}",
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
    lines += ["| | estimate | 95 % interval, noise | 95 % interval, noise and sampling |", "|---|---|---|---|"]
    for reading in release["readings"]:
        lines.append(
            f"| {_cell(reading['label'])} | {number(reading['estimate'])} | {interval_words(reading['noise'])} "
            f"| {interval_words(reading['population'])} |"
        )
    guarantee = "none" if release["guarantee"] is None else release["guarantee"]["symbols"]
    if release["counted"] is not None:
        lines += ["", f"Counted: {_cell(release['counted'])}."]
    return [*lines, "", f"{guarantee}; {mechanism_words(release)}.", ""]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
