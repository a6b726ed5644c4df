"""Prose: facts as markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from discreet.display import printable
from discreet.publish.findings import Grid, findings, grids, label_columns, label_words, place_of
from discreet.publish.readings import by_measure, reliability
from discreet.publish.wording import measure_words, mechanism_words, moment, pvalue_words, reading_words

__all__ = ["as_markdown", "plain", "table_lines"]


def as_markdown(facts: Mapping[str, Any]) -> str:
    """The report as markdown."""
    privacy = facts["privacy"]
    lines = [
        f"# {plain(facts['title'])}",
        "",
        f"Made with discreet {facts['version']}, {moment(facts['created'])}.",
        "",
        "## Privacy",
        "",
        plain(privacy["protects"]),
        "",
        f"- Budget: {privacy['budget']['symbols']}: {plain(privacy['budget']['words'])}",
        f"- Spent: {privacy['spent']['symbols']}; left: {privacy['remaining']['symbols']}",
        f"- Ledger head: `{privacy['head']}`",
        "",
        *([] if facts["kept"] is None else [plain(facts["kept"]), ""]),
    ]
    for release in facts["releases"]:
        lines += _release_lines(release, facts["variables"])
    lines += ["## What was assumed", "", *(f"- {plain(said)}" for said in facts["assumptions"]), ""]
    lines += ["## The plan", "", "```toml", printable(facts["plan"]).rstrip().replace("```", "'''"), "```", ""]
    return "\n".join(lines)


def _release_lines(release: Mapping[str, Any], variables: Mapping[str, str]) -> list[str]:
    lines = [f"## {plain(release['title'])}", "", plain(release["meaning"]), ""]
    lines += [line for said in findings(release) for line in (plain(said), "")]
    for measure, readings in by_measure(release["readings"]).items():
        words = measure_words(release, measure)
        for grid in grids([*readings, *(release["margins"] if measure == "count" else [])]):
            lines += [plain(f"{words} by {grid.name}:"), "", *table_lines(_crossed(grid, variables)), ""]
        lines += [plain(f"{words}, with 95 % intervals:"), "", *table_lines(_listed(readings, variables)), ""]
    guarantee = "none" if release["guarantee"] is None else release["guarantee"]["symbols"]
    if release["counted"] is not None:
        lines += [f"Counted: {plain(release['counted'])}.", ""]
    return [*lines, f"{guarantee}; {plain(mechanism_words(release))}.", ""]


def _crossed(grid: Grid, variables: Mapping[str, str]) -> Iterable[Sequence[str]]:
    """Header and lines of a table with labels on both sides."""
    yield [*(variables.get(name, name) for name in grid.down), *(label_words(head, grid.across) for head in grid.heads)]
    for side, cells in grid.lines:
        labels = [label_words(label, name) for name, label in zip(grid.down, side, strict=True)]
        yield [*labels, *("" if cell is None else reading_words(cell)[0] for cell in cells)]


def _listed(readings: Sequence[Mapping[str, Any]], variables: Mapping[str, str]) -> Iterable[Sequence[str]]:
    """Header and lines of a list: one number per line."""
    names, tested = label_columns(readings), any(reading["pvalue"] is not None for reading in readings)
    heads = ["estimate", "noise interval", "population interval", *(["p-value"] if tested else []), "flag"]
    yield [*(variables.get(name, name) for name in names), *heads]
    for reading in readings:
        place = place_of(reading)
        labels = [label_words(place.get(name), name) for name in names]
        pvalue = [] if not tested else ["–" if reading["pvalue"] is None else pvalue_words(reading["pvalue"])]
        yield [*labels, *reading_words(reading), *pvalue, reliability(reading)]


def table_lines(rows: Iterable[Sequence[str]]) -> list[str]:
    """A markdown table; the first row is its header."""
    header, *others = rows
    lines = [f"| {' | '.join(map(plain, row))} |" for row in (header, *others)]
    return [lines[0], f"{'|---' * len(header)}|", *lines[1:]]


_MARKS = str.maketrans(
    {**{mark: f"\\{mark}" for mark in "\\|[]`*_!#~"}, "\n": " ", "&": "&amp;", "<": "&lt;", ">": "&gt;"}
)
"""What would begin a heading, a link, an image, a tag or a table's cell in a name that came from outside."""


def plain(text: str) -> str:
    """Text without marks of its own: names that came from outside are words, not markdown."""
    return printable(text.replace("\r", "\n")).translate(_MARKS)
