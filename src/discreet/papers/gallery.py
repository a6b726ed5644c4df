"""Gallery: every study in one run, a page with each figure beside what its paper reports, and an index for the site."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from discreet.display import Facts
from discreet.papers.figure import Figure
from discreet.papers.study import Part, Progress, Study, StudyResult, run
from discreet.papers.study_page import exact_claims, markdown_table, part_rows, shown_rows, told
from discreet.papers.verdicts import count_table
from discreet.publish.page_style import PALETTE
from discreet.result import Result

__all__ = ["GalleryResult", "run_gallery"]

_LEAD = """Every experiment of the five papers, run again: *as published* keeps a paper's procedure and says what it
really guarantees, *certified* is what discreet does by default. Each study's page has its figures, what they show, and
the claims of the paper that do not hold. Every result lies beside it as CSV.

Run it again with `discreet reproduce all` (`--quick` for small grids, in minutes). A stopped run resumes where it left
off, and results depend neither on the order nor on the number of processes: a cell's seed comes from its parameters."""

_COUNTS = """What the papers say is decided by the machine: each claim has a place, a statistic, a range in which it is
true, and a verdict from the stored rows with their Monte-Carlo error. `discreet reproduce claims` lists them."""


@dataclass(frozen=True)
class GalleryResult(Result):
    """What a run of all studies left behind: one page, an index as markdown, and the result of every study."""

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


_STYLE = """
@media screen and (prefers-color-scheme: dark) { img { filter: invert(.92) hue-rotate(180deg); } }
body { margin: 0; font: 1rem/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); }
a { color: var(--blue); }
main { max-width: 76rem; margin: 0 auto; padding: 1rem 1rem 4rem; }
nav { columns: 16rem; padding: 0; } nav a { display: block; }
h2 { margin-top: 3rem; border-top: 2px solid var(--ink); padding-top: .6rem; }
.part { display: grid; grid-template-columns: minmax(0, 3fr) minmax(0, 2fr); gap: 1rem 2rem; margin: 1.5rem 0; }
.part > h3 { grid-column: 1 / -1; margin: 0; }
figure { margin: 0 0 1.5rem; } img { background: #fff; width: 100%; max-width: 40rem; height: auto; }
figcaption, .soft { color: var(--soft); font-size: .9rem; } .soft a { overflow-wrap: anywhere; }
.told { border-left: 4px solid var(--line); padding-left: 1rem; }
.told.here { border-color: var(--blue); margin-top: 1rem; }
.told > strong:first-child { display: block; }
.told td, .told th { white-space: normal; vertical-align: top; } .told { overflow-x: auto; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .85rem; }
th, td { padding: .15rem .5rem; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap; }
@media (max-width: 50rem) { .part { grid-template-columns: minmax(0, 1fr); } }
"""


def _page(lead: str, studies: Sequence[tuple[Study, StudyResult]], quick: bool) -> str | None:
    """The gallery as HTML; None where the library that reads markdown is not installed."""
    try:
        from markdown_it import MarkdownIt
    except ImportError:
        return None
    render = MarkdownIt("commonmark", {"html": False}).enable("table").render
    links, sections = [], []
    for study, result in studies:
        links.append(f'<a href="#{escape(study.paper)}">{escape(study.title)}</a>')
        heading = f'<h2 id="{escape(study.paper)}">{escape(study.title)}</h2>{render(study.introduction)}'
        sections.append(heading + "".join(_part(study, part, result, render, quick) for part in study.parts))
        sections.append(f'<div class="wide">{render(chr(10).join(exact_claims(result.decisions, "###")))}</div>')
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Reproduction gallery</title><style>{PALETTE}{_STYLE}</style></head>"
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
