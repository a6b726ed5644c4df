"""Page: a study's results as markdown, each part beside what the paper reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from discreet.papers.figure import Figure
from discreet.papers.paper_claim import Claim, Decision
from discreet.papers.study import Part, Row, Study
from discreet.papers.verdicts import claims_table

__all__ = ["EXACT", "exact_claims", "markdown_table", "part_rows", "shown_rows", "told", "write_page"]

EXACT = "Theorems, formulas and constants"
"""The heading of claims that need no run."""

_MOST_ROWS = 25
"""A longer table is thinned on the page; the CSV file has every result."""
_NOTHING = 1e-12
"""What is left of a sum that cancels."""


def write_page(
    study: Study, parts: Sequence[Part], rows: Mapping[str, list[Row]], decisions: Sequence[Decision], page: Path,
    *, quick: bool, seed: int,
) -> tuple[Path, ...]:  # fmt: skip
    """Write the page, and the figures beside it; return the paths of the figures."""
    figures: list[Path] = []
    sections = [f"# {study.title}\n", study.introduction.strip() + "\n"]
    size = "the small grid of `--quick`" if quick else "the full grid"
    sections.append(f"Run on {size} with seed {seed}.\n")
    for part in parts:
        table = part_rows(part, rows[part.name])
        sections.append(f"## {part.title}\n")
        for figure in part.figures:
            saved = figure.save(table, page.parent)
            if saved is not None:
                figures.append(saved)
                sections.append(_figure(figure, saved.name))
        sections += told(study, part, rows[part.name], decisions, quick=quick)
        shown, words = shown_rows(part, table)
        sections += [markdown_table(shown), f"{words} [`{part.name}.csv`]({part.name}.csv)\n"]
    sections += exact_claims(decisions, "##")
    page.write_text("\n".join(sections), encoding="utf-8")
    return tuple(figures)


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


def _figure(figure: Figure, path: str) -> str:
    """A figure and its caption as markdown."""
    return f"![{figure.title}]({path})\n\n*{figure.caption()}*\n"


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
