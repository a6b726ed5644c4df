"""Workbook: the numbers of a run for a spreadsheet. Notes and methods first, then each release and its tables."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from discreet.core.errors import MissingExtra
from discreet.display import printable
from discreet.publish.findings import Grid, grids, label_words
from discreet.publish.methods_note import methods_parts
from discreet.publish.readings import by_measure, reliability
from discreet.publish.tidy import NUMBERS, release_rows
from discreet.publish.wording import WHOLE, measure_words, mechanism_words, moment

__all__ = ["TableSheet", "as_workbook", "table_sheets"]


# ---- Table sheet: a released table on a sheet of a workbook, with totals in place, intervals beside it and footnotes


_WHOLE, _DECIMAL, _SHARE = "#,##0", "#,##0.0###", "0.00%"
_NARROWEST, _WIDEST = 10, 40  # characters of a column
_MARKS = {"caution": "c", "unreliable": "u"}


@dataclass(frozen=True)
class TableSheet:
    """One table of a release.

    Attributes
    ----------
    release
        The release, as in the facts of a report.
    measure, grid
        What the numbers are, and where each of them stands.
    """

    release: Mapping[str, Any]
    measure: str
    grid: Grid

    @property
    def name(self) -> str:
        """What the sheet is called: the columns of the table, or what it measures where a release has several."""
        several = len(by_measure(self.release["readings"])) > 1
        return f"{self.measure if several else self.grid.name}, {self.release['name']}"

    @property
    def title(self) -> str:
        """What the table shows."""
        words = measure_words(self.release, self.measure)
        return f"{self.release['title']}: {words} by {self.grid.name}"

    @property
    def kinds(self) -> list[str]:
        """The kinds of intervals that its numbers have."""
        return [kind for kind in ("noise", "population") if any(one[kind] for one in self.grid.readings())]

    def write(self, sheet: Any, safe: Any) -> None:
        """Fill a sheet; ``safe`` makes a cell of text that is never a formula."""
        from openpyxl.styles import Font

        side = len(self.grid.down)
        blocks = self._blocks()
        width = len(self.grid.heads)
        sheet.append([safe(sheet, self.title)])
        sheet.append([safe(sheet, self.release["meaning"])])
        sheet.append([])
        sheet.append(
            [None] * side + [cell for name, _ in blocks for cell in [safe(sheet, name), *[None] * (width - 1)]]
        )
        heads = [label_words(head, self.grid.across) for head in self.grid.heads] * len(blocks)
        sheet.append([safe(sheet, name) for name in (*self.grid.down, *heads)])
        for labels, cells in self.grid.lines:
            words = [label_words(label, name) for name, label in zip(self.grid.down, labels, strict=True)]
            sheet.append(
                [*(safe(sheet, word) for word in words), *(part(cell) for _, part in blocks for cell in cells)]
            )
            self._dress_line(sheet[sheet.max_row], labels, cells)
        for row in (1, 4, 5):
            for cell in sheet[row]:
                cell.font = Font(bold=True)
        for column in sheet.columns:
            width = max(len(str(cell.value or "")[:_WIDEST]) for cell in column[4:])
            sheet.column_dimensions[column[0].column_letter].width = max(width + 2, _NARROWEST)
        sheet.freeze_panes = sheet.cell(row=6, column=side + 1)
        sheet.append([])
        for note in self._footnotes():
            sheet.append([safe(sheet, note)])

    def _blocks(self) -> list[tuple[str, Any]]:
        """The estimates, then both ends of each interval: their names, and how to find them in a reading."""
        blocks: list[tuple[str, Any]] = [(measure_words(self.release, self.measure), _estimate)]
        for kind in self.kinds:
            for end in ("low", "high"):
                blocks.append((f"{kind} interval, {end}", _End(kind, end)))
        return blocks

    def _dress_line(self, row: Any, labels: Any, cells: Any) -> None:
        from openpyxl.styles import Font

        total, side = None in labels, len(labels)
        for place, cell in enumerate(row[side:]):
            reading = cells[place % len(cells)]
            if reading is None:
                continue
            mark = _MARKS.get(reliability(reading), "") if place < len(cells) else ""
            shape = _SHARE if self.measure in ("proportion", "share") else _WHOLE if self._whole else _DECIMAL
            cell.number_format = f'{shape}" {mark}"' if mark else shape
            if total or self.grid.heads[place % len(cells)] is None:
                cell.font = Font(bold=True)

    @property
    def _whole(self) -> bool:
        return self.measure in WHOLE or all(abs(one["estimate"]) >= 1000 for one in self.grid.readings())

    def _footnotes(self) -> Iterator[str]:
        release = self.release
        guarantee = "none" if release["guarantee"] is None else release["guarantee"]["symbols"]
        yield f"Guarantee: {guarantee}; {release['protects']}."
        if release["counted"]:
            yield f"Counted: {release['counted']}."
        if "noise" in self.kinds:
            yield "Noise interval (95 %): covers the value in this data."
        if "population" in self.kinds:
            yield "Population interval (95 %): covers the value in the population; noise and sampling."
        if any(reliability(one) for one in self.grid.readings()):
            yield "c: use with caution, the standard error exceeds 16.5 % of the number. u: unreliable, over 33.3 %."
        if any(cell is None for _, cells in self.grid.lines for cell in cells):
            yield "Empty: not released."


@dataclass(frozen=True)
class _End:
    """One end of one kind of interval of a reading."""

    kind: str
    end: str

    def __call__(self, reading: Mapping[str, Any] | None) -> float | None:
        return None if reading is None or reading[self.kind] is None else reading[self.kind][self.end]


def _estimate(reading: Mapping[str, Any] | None) -> float | None:
    return None if reading is None else reading["estimate"]


def table_sheets(release: Mapping[str, Any]) -> list[TableSheet]:
    """The tables of a release; none where its numbers are a list."""
    return [
        TableSheet(release, measure, grid)
        for measure, readings in by_measure(release["readings"]).items()
        for grid in grids([*readings, *(release["margins"] if measure == "count" else [])])
    ]


_MOST_ROWS = 1_048_576 - 1  # of a sheet, below its header
_NAME_LENGTH = 31
_WORKBOOK_WIDEST = 60
_FORBIDDEN = re.compile(r"[\[\]:*?/\\\t\n']")
_COLUMNS = (
    ("measure", "what the number is"),
    ("estimate", "the number, with noise that protects people"),
    ("noise_low, noise_high", "95 % interval for the value in this data; covers privacy noise"),
    ("population_low, population_high", "95 % interval for the value in the population; covers noise and sampling"),
    ("standard_error", "of the noise; where only a population interval is known, of noise and sampling"),
    ("pvalue", "of the hypothesis that the number is 0 in the population, where it was tested"),
    ("unit", "whose data is protected"),
    ("guarantee", "what the release guarantees"),
)


def as_workbook(facts: Mapping[str, Any]) -> bytes:
    """The facts of a report as an Excel workbook."""
    try:
        from openpyxl import Workbook
    except ImportError as missing:
        raise MissingExtra(missing.name or "openpyxl", "report") from None
    book = Workbook()
    notes = book.active
    notes.title = "Notes"
    tables = {id(release): table_sheets(release) for release in facts["releases"]}
    wanted = [(release, table) for release in facts["releases"] for table in (*tables[id(release)], None)]
    names = _sheet_names([_sheet_name(release, table) for release, table in wanted])
    for line in _notes(facts, list(zip(names, wanted, strict=True))):
        notes.append([_safe(notes, text) for text in line])
    _dress(notes, header=False)
    for name, (release, table) in zip(names, wanted, strict=True):
        sheet = book.create_sheet(name)
        if table is None:
            _list_numbers(sheet, release)
        else:
            table.write(sheet, _safe)
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


def _sheet_name(release: Mapping[str, Any], table: TableSheet | None) -> str:
    return str(release["name"] if table is None else table.name)


def _list_numbers(sheet: Any, release: Mapping[str, Any]) -> None:
    """One row per number, as in the CSV file."""
    rows = [{key: value for key, value in row.items() if key != "release"} for row in release_rows(release)]
    sheet.append([_safe(sheet, column) for column in (rows[0] if rows else ("measure", *NUMBERS))])
    for row in rows[:_MOST_ROWS]:
        sheet.append([_safe(sheet, value) for value in row.values()])
    _dress(sheet, header=True)


def _notes(
    facts: Mapping[str, Any], sheets: list[tuple[str, tuple[Mapping[str, Any], TableSheet | None]]]
) -> Iterator[tuple[str, ...]]:
    privacy = facts["privacy"]
    yield (facts["title"],)
    yield (f"Made with discreet {facts['version']}, {moment(facts['created'])}.",)
    yield ()
    yield ("Who is protected", privacy["protects"])
    yield ("Budget", privacy["budget"]["symbols"])
    yield ("In words", privacy["budget"]["words"])
    yield ("Spent", privacy["spent"]["symbols"])
    yield ("Left", privacy["remaining"]["symbols"])
    yield ("Ledger head", privacy["head"])
    yield ()
    yield ("Sheet", "Release", "What it says", "Guarantee", "Mechanism", "Numbers")
    for name, (release, table) in sheets:
        guarantee = "none" if release["guarantee"] is None else release["guarantee"]["symbols"]
        numbers = len(release["readings"]) if table is None else len(table.grid.readings())
        shown = (
            f"{numbers:,}" if numbers <= _MOST_ROWS else f"first {_MOST_ROWS:,} of {numbers:,}; all are in the CSV file"
        )
        says = release["meaning"] if table is None else f"Table: {table.title}"
        yield name, release["title"], says, guarantee, mechanism_words(release), shown
    yield ()
    yield ("Column", "Meaning")
    yield from _COLUMNS
    yield ()
    for part in methods_parts(facts):
        yield (f"Methods: {part.title}",)
        yield from (("", said) for said in (*part.paragraphs, *part.points))


def _sheet_names(names: list[str]) -> list[str]:
    """Names that a spreadsheet allows: short, without special characters, different from each other."""
    found = ["Notes"]
    for name in names:
        plain = _FORBIDDEN.sub(" ", printable(name)).strip()[:_NAME_LENGTH] or "release"
        number, one = 1, plain
        while one.lower() in (taken.lower() for taken in found):
            number += 1
            one = f"{plain[: _NAME_LENGTH - len(str(number)) - 1]} {number}"
        found.append(one)
    return found[1:]


def _safe(sheet: Any, value: Any) -> Any:
    """A cell that is never a formula, without characters that a workbook cannot hold."""
    if not isinstance(value, str):
        return value
    from openpyxl.cell import WriteOnlyCell

    cell = WriteOnlyCell(sheet, printable(value))
    cell.data_type = "s"
    return cell


def _dress(sheet: Any, *, header: bool) -> None:
    """Bold headings, columns as wide as their text, and a header that stays."""
    from openpyxl.styles import Alignment, Font

    for cell in sheet[1]:
        cell.font = Font(bold=True)
    for column in sheet.columns:
        width = max(len(_shown(cell.value)) for cell in column[:200])
        sheet.column_dimensions[column[0].column_letter].width = min(width + 2, _WORKBOOK_WIDEST)
    if header:
        sheet.freeze_panes = "A2"
        sheet.auto_filter.ref = sheet.dimensions
        return
    for row in sheet.iter_rows(min_row=3):
        for cell in row:
            cell.alignment = Alignment(wrap_text=True, vertical="top")


def _shown(value: Any) -> str:
    return f"{value:,.6g}" if isinstance(value, float) else str(value or "")
