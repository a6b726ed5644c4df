"""Workbook: the numbers of a run for a spreadsheet. Notes and methods first, then each release and its tables."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from typing import Any

from discreet.core.errors import MissingExtra
from discreet.display import printable
from discreet.publish.methods_note import methods_parts
from discreet.publish.table_sheet import TableSheet, table_sheets
from discreet.publish.tidy import NUMBERS, release_rows
from discreet.publish.wording import mechanism_words, moment

__all__ = ["as_workbook"]

_MOST_ROWS = 1_048_576 - 1  # of a sheet, below its header
_NAME_LENGTH = 31
_WIDEST = 60
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
        sheet.column_dimensions[column[0].column_letter].width = min(width + 2, _WIDEST)
    if header:
        sheet.freeze_panes = "A2"
        sheet.auto_filter.ref = sheet.dimensions
        return
    for row in sheet.iter_rows(min_row=3):
        for cell in row:
            cell.alignment = Alignment(wrap_text=True, vertical="top")


def _shown(value: Any) -> str:
    return f"{value:,.6g}" if isinstance(value, float) else str(value or "")
