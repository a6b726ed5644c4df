"""Page: a study's figures and verdicts as markdown, each part beside what the paper reports; rows stay in its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from discreet.papers.paper_claim import Claim, Decision
from discreet.papers.study import Part, Row, Study
from discreet.papers.verdicts import claims_table

__all__ = ["EXACT", "exact_claims", "markdown_table", "part_rows", "save_figures", "shown_rows", "told", "write_page"]

EXACT = "Theorems, formulas and constants"
"""The heading of claims that need no run."""

_MOST_ROWS = 12
"""A longer table is thinned on the page; the CSV file has every result."""
_NOTHING = 1e-12
"""What is left of a sum that cancels."""


def write_page(
    study: Study, parts: Sequence[Part], rows: Mapping[str, list[Row]], decisions: Sequence[Decision],
    tables: Mapping[str, Path], page: Path, *, quick: bool, seed: int,
) -> tuple[Path, ...]:  # fmt: skip
    """Write the page, and the figures beside it; return the paths of the figures.

    A page of one part shows a table of its rows. A longer page has figures and verdicts, and links the rows.
    """
    figures: list[Path] = []
    captions: set[str] = set()
    sections = [f"# {study.title}\n", study.introduction.strip() + "\n"]
    size = "the small grid of `--quick`" if quick else "the full grid"
    lists = " `discreet reproduce claims` lists every claim of the paper, with its verdict." if decisions else ""
    sections.append(f"Run on {size} with seed {seed}.{lists}\n")
    for part in parts:
        saved = save_figures(part, rows[part.name], page.parent)
        figures += saved.values()
        sections += [f"## {part.title}\n", *_figures(part, saved, captions)]
        sections += told(study, part, rows[part.name], decisions, quick=quick)
        name, words = tables[part.name].name, "Every result:"
        if len(parts) == 1:
            shown, words = shown_rows(part, part_rows(part, rows[part.name]))
            sections.append(markdown_table(shown))
        sections.append(f"{words} [`{name}`]({name})\n")
    sections += exact_claims(decisions, "##")
    page.write_text("\n".join(sections), encoding="utf-8")
    return tuple(figures)


def save_figures(part: Part, rows: list[Row], folder: Path) -> dict[str, Path]:
    """Draw a part's figures from its rows; those that were drawn, by name."""
    table = part_rows(part, rows) if part.figures else []
    saved = {figure.name: figure.save(table, folder) for figure in part.figures}
    return {name: path for name, path in saved.items() if path is not None}


def told(study: Study, part: Part, rows: list[Row], decisions: Sequence[Decision], *, quick: bool) -> list[str]:
    """What the paper says of a part and what was found, as markdown; verdicts need a full run."""
    claims = [claim for claim in study.claims if claim.part == part.name]
    sections = [f"**The paper reports.** {part.reported.strip()}\n"] if part.reported else []
    if claims:
        decided = [one for one in decisions if one.claim.part == part.name]
        sections.append(_listed(claims) if quick else claims_table(decided))
    if part.finding is not None:
        sections.append(f"**Found here.** {part.finding(rows).strip()}\n")
    return sections


def exact_claims(decisions: Sequence[Decision], mark: str) -> list[str]:
    """Claims that need no run, as markdown below a heading of that rank."""
    exact = [one for one in decisions if one.claim.part is None]
    return [f"{mark} {EXACT}\n", claims_table(exact)] if exact else []


def _listed(claims: Sequence[Claim]) -> str:
    lines = ["The small grid decides no claim. The paper says:\n"]
    return "\n".join([*lines, *(f"- {claim.place}: {claim.claim}" for claim in claims)]) + "\n"


def _figures(part: Part, saved: Mapping[str, Path], before: set[str]) -> list[str]:
    """Figures as markdown. What a caption ``before`` says of axes, lines and panels is not said again on the page."""
    sections: list[str] = []
    for figure in part.figures:
        if figure.name in saved:
            caption = figure.caption()
            drawn, _, how = caption.removeprefix(figure.title).partition(" against ")
            if drawn + how in before:
                caption = f"{figure.title}."
            elif how and how in before:
                caption = f"{figure.title}{drawn}."
            sections.append(f"![]({saved[figure.name].name})\n\n*{caption}*\n")
            before |= {drawn + how, how}
    return sections


def part_rows(part: Part, rows: list[Row]) -> list[Row]:
    """The rows behind a part's figures and table."""
    return part.summary(rows) if part.summary else rows


def shown_rows(part: Part, rows: list[Row]) -> tuple[list[Row], str]:
    """The rows of a part's table on a page, few and evenly spaced, and a sentence on where the others are."""
    chosen = part.shown(rows) if part.shown else rows
    step = -(-len(chosen) // _MOST_ROWS)
    few = chosen[:: max(step, 1)]
    return few, "Every result:" if len(few) == len(rows) else f"{len(few)} lines shown. Every result:"


def markdown_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as a markdown table; numbers to four significant digits."""
    if not rows:
        return ""
    columns = list(rows[0])
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(_shown(row[name]) for name in columns) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    return "0" if abs(value) < _NOTHING else f"{value:.4g}"
