"""Page: a study's results as markdown, each part beside what the paper reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from discreet.studies.study import Part, Row, Study

__all__ = ["markdown_table", "write_page"]


def write_page(
    study: Study, parts: Sequence[Part], rows: Mapping[str, list[Row]], out: Path, *, quick: bool, seed: int
) -> tuple[Path, tuple[Path, ...]]:
    """Write ``<paper>.md`` and the figures; return their paths."""
    figures: list[Path] = []
    sections = [f"# {study.title}\n", study.introduction.strip() + "\n"]
    size = "the small grid of `--quick`" if quick else "the full grid"
    sections.append(f"Run on {size} with seed {seed}.\n")
    for part in parts:
        table = part.summary(rows[part.name]) if part.summary else rows[part.name]
        sections.append(f"## {part.title}\n")
        for figure in part.figures:
            saved = figure.save(table, out)
            figures.extend(saved)
            if saved:
                sections.append(f"![{figure.title}]({saved[0].name})\n")
        sections.append(f"**The paper reports.** {part.reported.strip()}\n")
        if part.finding is not None:
            sections.append(f"**Found here.** {part.finding(rows[part.name]).strip()}\n")
        sections.append(markdown_table(part.shown(table) if part.shown else table))
        sections.append(f"All rows: `{part.name}.csv`.\n")
    page = out / f"{study.paper}.md"
    page.write_text("\n".join(sections), encoding="utf-8")
    return page, tuple(figures)


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
    return f"{value:.4g}" if isinstance(value, float) else str(value)
