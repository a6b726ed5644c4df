"""Gallery: every study in one run, a page with each figure beside what its paper reports, and an index for the site."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from discreet.core.errors import InvalidParameter
from discreet.papers.figure import Figure
from discreet.papers.study import (
    HOLDS,
    VERDICTS,
    Decision,
    PaperClaim,
    Part,
    Progress,
    Row,
    Study,
    StudyResult,
    decide,
    run,
    stored_rows,
)
from discreet.results.charts import PALETTE
from discreet.results.display import Facts, Result

# ---- Verdicts: every claim of the papers decided from stored runs, as a list, as JSON and as tables of a page.


@dataclass(frozen=True)
class ClaimList(Result):
    """Claims with their verdicts: `to_dict` lists paper, place, claim, verdict and figures."""

    claims: tuple[Mapping[str, Any], ...]

    def heading(self) -> str:
        tally = ", ".join(f"{sum(one['verdict'] == verdict for one in self.claims)} {verdict}" for verdict in VERDICTS)
        return f"{len(self.claims)} claims: {tally}"

    def facts(self) -> Facts:
        return [(f"{one['paper']} {one['place']}", f"{one['verdict']}: {one['claim']}") for one in self.claims]

    def to_dict(self) -> dict[str, Any]:
        """The claims as JSON-ready data."""
        return {"claims": [dict(one) for one in self.claims]}


def shipped() -> ClaimList:
    """The verdicts of the full run that comes with discreet."""
    text = files("discreet.papers").joinpath("data/claims.json").read_text(encoding="utf-8")
    return ClaimList(tuple(json.loads(text)["claims"]))


def decided_in(studies: Sequence[Study], folder: Path) -> ClaimList:
    """Decide the claims of every study from a full run in ``folder``, as `run_gallery` stores it."""
    decisions = [
        one for study in studies if study.claims for one in decide(study.claims, _needed(study, folder / study.paper))
    ]
    return ClaimList(tuple(one.to_dict() for one in decisions))


def _needed(study: Study, folder: Path) -> dict[str, list[Row]]:
    parts = {name for claim in study.claims for name in claim.parts}
    rows = {}
    for part in study.parts:
        if part.name in parts:
            found = stored_rows(study, part, folder)
            if found is None:
                fix = f"Run `discreet reproduce {study.paper} --out {folder}`."
                raise InvalidParameter("out", str(folder), f"holds no full run of {study.paper} {part.name}", fix)
            rows[part.name] = found
    return rows


_MOST_CLAIMS = 3
"""A longer table of claims is cut on a page; the command lists all of them."""


def claims_table(decisions: Sequence[Decision]) -> str:
    """The number of claims that hold, and the first of the others beside what was found, as markdown."""
    others = [one for one in decisions if one.verdict != HOLDS]
    tally = f"Claims that hold: {len(decisions) - len(others)} of {len(decisions)}."
    if len(others) > _MOST_CLAIMS:
        tally += f" The first {_MOST_CLAIMS} of the others:"
    if not others:
        return f"{tally}\n"
    lines = [f"{tally}\n", "| place | the paper says | found here | verdict |", "|---|---|---|---|"]
    for one in others[:_MOST_CLAIMS]:
        cells = (one.claim.place, one.claim.claim, one.figures(), f"**{one.verdict}**")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def count_table(decisions: Mapping[str, Sequence[Decision]], *, of: str = "paper") -> str:
    """The number of claims of each paper, or part of one, with each verdict, as a markdown table."""
    lines = [f"| {of} | claims | {' | '.join(VERDICTS)} |", "|" + "---|" * (len(VERDICTS) + 2)]
    for paper, found in decisions.items():
        tally = [sum(one.verdict == verdict for one in found) for verdict in VERDICTS]
        lines.append("| " + " | ".join([paper, str(len(found)), *map(str, tally)]) + " |")
    return "\n".join(lines) + "\n"


# ---- Page: a study's figures and verdicts as markdown, each part beside what the paper reports; rows stay in files.


EXACT = "Theorems, formulas and constants"
"""The heading of claims that need no run."""

_MOST_ROWS = 12
"""A longer table is thinned on the page; the CSV file has every result."""
_NOTHING = 1e-12
"""The size of the remainder of a sum that cancels."""


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
        name, words = tables[part.name].name, ""
        if len(parts) == 1:
            shown, told_of = shown_rows(part, part_rows(part, rows[part.name]))
            words = f"{told_of} "
            sections.append(markdown_table(shown))
        sections.append(f"{words}[`{name}`]({name})\n")
    sections += exact_claims(decisions, "##")
    page.write_text("\n".join(sections), encoding="utf-8")
    return tuple(figures)


def save_figures(part: Part, rows: list[Row], folder: Path) -> dict[str, Path]:
    """Draw a part's figures from its rows; those that were drawn, by name."""
    table = part_rows(part, rows) if part.figures else []
    saved = {figure.name: figure.save(table, folder) for figure in part.figures}
    return {name: path for name, path in saved.items() if path is not None}


def told(study: Study, part: Part, rows: list[Row], decisions: Sequence[Decision], *, quick: bool) -> list[str]:
    """The paper's words on a part and what was found, as markdown; verdicts need a full run."""
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


def _listed(claims: Sequence[PaperClaim]) -> str:
    lines = ["The small grid decides no claim. The paper says:\n"]
    return "\n".join([*lines, *(f"- {claim.place}: {claim.claim}" for claim in claims)]) + "\n"


def _figures(part: Part, saved: Mapping[str, Path], before: set[str]) -> list[str]:
    """Figures as markdown, below the part's title.

    What the title says, or a caption ``before`` of axes, lines and panels, is not said again on the page.
    """
    sections: list[str] = []
    for figure in part.figures:
        if figure.name in saved:
            caption = figure.caption()
            drawn, _, how = caption.removeprefix(figure.title).partition(" against ")
            if drawn + how in before:
                caption = f"{figure.title}."
            elif how and how in before:
                caption = f"{figure.title}{drawn}."
            caption = re.sub(rf"(\.?) ?{re.escape(part.title)}[:.] ?", lambda one: ": " * bool(one[1]), caption)
            words = f"\n\n*{caption[:1].upper()}{caption[1:]}*" if caption else ""
            sections.append(f"![]({saved[figure.name].name}){words}\n")
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
    return few, "Every result:" if len(few) == len(rows) else f"{len(few)} of {len(rows)} lines. Every result:"


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


# ---- Gallery: every study in one run, a page with each figure beside what its paper reports, and an index for the
# site.


_LEAD = """Every experiment of the five papers, run again: *as published* keeps a paper's procedure and says what it
really guarantees, *certified* is what discreet does by default. Each study's page has its figures, what they show, and
the claims of the paper that do not hold. Every result lies beside it as CSV.

Run it again with `discreet reproduce all` (`--quick` for small grids, in minutes). A stopped run resumes where it left
off, and results depend neither on the order nor on the number of processes: a cell's seed comes from its parameters."""

_COUNTS = """What the papers say is decided by the machine: each claim has a place, a statistic, a range in which it is
true, and a verdict from the stored rows with their Monte-Carlo error. `discreet reproduce claims` lists them."""


@dataclass(frozen=True)
class GalleryResult(Result):
    """The files of a run of all studies: one page, an index as markdown, and the result of every study."""

    page: Path | None
    markdown: Path
    studies: tuple[StudyResult, ...]

    def heading(self) -> str:
        computed = sum(study.computed for study in self.studies)
        skipped = sum(study.skipped for study in self.studies)
        return f"{len(self.studies)} studies: {computed} cells computed, {skipped} taken from earlier runs"

    def facts(self) -> Facts:
        page = [("page", str(self.page))] if self.page else []
        return [*page, ("text", str(self.markdown)), *(("study", str(study.page)) for study in self.studies)]

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON-ready data."""
        return {
            "page": None if self.page is None else str(self.page),
            "markdown": str(self.markdown),
            "studies": [study.to_dict() for study in self.studies],
        }


def run_gallery(
    studies: Sequence[Study],
    out: Path,
    *,
    quick: bool = False,
    seed: int = 1,
    workers: int = 1,
    progress: Callable[[Progress], None] | None = None,
) -> GalleryResult:
    """Compute what is missing of every study, then write ``index.md`` and, with the extras, ``index.html``.

    Parameters
    ----------
    studies
        What to run, in the order of the page.
    out
        Directory of the results: one folder a study. Finished cells found there are not computed again.
    quick
        Run the small grids.
    seed
        Seed of the simulations.
    workers
        Number of processes.
    progress
        Called after every finished cell; counts the cells of all studies.
    """
    total = sum(len(part.cells(quick)) for study in studies for part in study.parts)
    results: list[StudyResult] = []
    before = 0
    for study in studies:
        shown = None if progress is None else _overall(progress, study.paper, before, total)
        target = out / study.paper
        results.append(run(study, target, quick=quick, seed=seed, workers=workers, progress=shown))
        before += sum(len(part.cells(quick)) for part in study.parts)
    size = "the small grids of `--quick`" if quick else "the full grids"
    lead = f"{_LEAD}\n\nRun on {size} with seed {seed}."
    shown_studies = list(zip(studies, results, strict=True))
    if not quick and any(study.claims for study in studies):
        lead += f"\n\n{_COUNTS}\n\n{_tally(shown_studies)}"
    markdown = out / "index.md"
    markdown.write_text(_markdown(lead, shown_studies), encoding="utf-8")
    text = _page(lead, shown_studies, quick)
    page = None if text is None else out / "index.html"
    if page is not None and text is not None:
        page.write_text(text, encoding="utf-8")
    return GalleryResult(page, markdown, tuple(results))


def _tally(studies: Sequence[tuple[Study, StudyResult]]) -> str:
    """Verdicts by paper."""
    return count_table({study.paper: result.decisions for study, result in studies if study.claims})


def _overall(progress: Callable[[Progress], None], paper: str, before: int, total: int) -> Callable[[Progress], None]:
    def shown(step: Progress) -> None:
        rest = step.total - step.done
        left = None if step.left is None or not rest else step.left / rest * (total - before - step.done)
        progress(Progress(f"{paper} {step.part}", step.cell, before + step.done, total, left))

    return shown


def _drawn(part: Part, result: StudyResult) -> list[tuple[Figure, Path]]:
    """The figures that were drawn, with their SVG files."""
    files = {path.name: path for path in result.figures}
    return [(figure, files[f"{figure.name}.svg"]) for figure in part.figures if f"{figure.name}.svg" in files]


def _markdown(lead: str, studies: Sequence[tuple[Study, StudyResult]]) -> str:
    """An index: the first figure of every study, and its page."""
    sections = ["# Reproduction gallery\n", f"{lead}\n"]
    for study, result in studies:
        page = f"{study.paper}/{result.page.name}"
        sections.append(f"## {study.title}\n")
        drawn = [one for part in study.parts for one in _drawn(part, result)]
        sections += [f"![{figure.title}]({study.paper}/{path.name})\n" for figure, path in drawn[:1]]
        sections.append(f"[The whole study]({page}): {len(drawn)} figures.\n")
    return "\n".join(sections)


def _page(lead: str, studies: Sequence[tuple[Study, StudyResult]], quick: bool) -> str | None:
    """The gallery as HTML; None where the library that reads markdown is not installed."""
    try:
        from markdown_it import MarkdownIt
    except ImportError:
        return None
    render = MarkdownIt("commonmark", {"html": False}).enable("table").render
    style = files("discreet.papers").joinpath("data/gallery.css").read_text(encoding="utf-8")
    links, sections = [], []
    for study, result in studies:
        links.append(f'<a href="#{escape(study.paper)}">{escape(study.title)}</a>')
        heading = f'<h2 id="{escape(study.paper)}">{escape(study.title)}</h2>{render(study.introduction)}'
        sections.append(heading + "".join(_part(study, part, result, render, quick) for part in study.parts))
        sections.append(f'<div class="wide">{render(chr(10).join(exact_claims(result.decisions, "###")))}</div>')
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Reproduction gallery</title><style>{PALETTE}\n{style}</style></head>"
        "<body><main><h1>Reproduction gallery</h1>"
        f"{render(lead)}<nav>{''.join(links)}</nav>{''.join(sections)}</main></body></html>\n"
    )


def _part(study: Study, part: Part, result: StudyResult, render: Callable[[str], str], quick: bool) -> str:
    rows, folder = result.rows[part.name], study.paper
    figures = "".join(
        f'<figure><img src="{escape(folder)}/{escape(path.name)}" alt="{escape(figure.title)}" loading="lazy">'
        f"<figcaption>{escape(figure.caption())}</figcaption></figure>"
        for figure, path in _drawn(part, result)
    )
    words_of = f'<div class="told">{render(chr(10).join(told(study, part, rows, result.decisions, quick=quick)))}</div>'
    shown, words = shown_rows(part, part_rows(part, rows))
    source = escape(f"{folder}/{result.tables[part.name].name}")
    table = (
        f'<details><summary>Table</summary><div class="wide">{render(markdown_table(shown))}</div></details>'
        f'<p class="soft">{words} <a href="{source}">{source}</a></p>'
    )
    return (
        f'<section class="part"><h3>{escape(part.title)}</h3><div>{figures}</div><div>{words_of}{table}</div></section>'
    )
