"""Export: the numbers of a run as files for spreadsheets, databases, statistical offices, R and Stata.

Everything is made from ``results.json``, which holds public numbers only; nothing is read from data and nothing spent.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet.core.errors import DiscreetError, InvalidParameter, MissingExtra
from discreet.core.files import read_regular, reason
from discreet.publish.files import write_whole
from discreet.publish.report import CrossTable, grids, methods_parts
from discreet.results import frames
from discreet.results.display import held, printable
from discreet.results.printed import label_words
from discreet.results.wording import WHOLE, measure_words, mechanism_words, moment

# ---- Workbook: the numbers of a run for a spreadsheet. Notes and methods first, then each release and its tables.


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
    grid: CrossTable

    @property
    def name(self) -> str:
        """The name of the sheet: the columns of the table, or the measure where a release has several."""
        several = len(frames.by_measure(self.release["readings"])) > 1
        return f"{self.measure if several else self.grid.name}, {self.release['name']}"

    @property
    def title(self) -> str:
        """The title of the table: its measure and its columns."""
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
            mark = _MARKS.get(frames.reliability(reading), "") if place < len(cells) else ""
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
        if any(frames.reliability(one) for one in self.grid.readings()):
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
        for measure, readings in frames.by_measure(release["readings"]).items()
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
    ("standard_error", "of the noise; under a design or with a population interval alone, of noise and sampling"),
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
    rows = [{key: value for key, value in row.items() if key != "release"} for row in frames.release_rows(release)]
    sheet.append([_safe(sheet, column) for column in (rows[0] if rows else ("measure", *frames.NUMBERS))])
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


# ---- Export: the numbers of a run as files for spreadsheets, databases, statistical offices, R and Stata.


Facts = Mapping[str, Any]
RESULTS_FORMAT = 3
_LARGEST = 1 << 30
_FORMULA = re.compile(r"[=+\-@\t\r]")
_NOT_APPLICABLE, _TOTAL = "_Z", "_T"  # SDMX codes: a dimension that a release does not have, or sums over


def export(results: str | os.PathLike[str], kind: str, out: str | os.PathLike[str] | None = None) -> tuple[Path, ...]:
    """Write the numbers of a run in another format; returns the files.

    Parameters
    ----------
    results
        ``results.json`` of a run, or the directory that holds it.
    kind
        ``"csv"``, ``"xlsx"``, ``"parquet"``, ``"sdmx-csv"``, ``"r"`` or ``"stata"``. The last two write a CSV file and
        a script that reads it.
    out
        Directory to write to; that of the results by default.
    """
    if kind not in FORMATS:
        raise InvalidParameter("format", kind, f"must be one of {', '.join(FORMATS)}", 'Pass "csv", for example.')
    source = _results_file(results)
    facts = read_facts(source)
    directory = source.parent if out is None else Path(out)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        files = FORMATS[kind](facts, source.stem)
        return tuple(write_whole(directory / name, content) for name, content in files.items())
    except OSError as failure:
        raise DiscreetError(f"out = {str(directory)!r}: cannot be written: {reason(failure)}") from None


def read_facts(results: str | os.PathLike[str]) -> Facts:
    """The facts that a run reported, from its ``results.json``."""
    path = _results_file(results)
    try:
        stored = json.loads(read_regular(path, _LARGEST))
    except (OSError, ValueError, RecursionError) as failure:
        raise InvalidParameter(
            "results", str(path), f"cannot be read: {reason(failure)[:-1]}", "Pass results.json of a run."
        ) from None
    if not isinstance(stored, dict) or (stored.get("discreet"), stored.get("format")) != ("results", RESULTS_FORMAT):
        raise InvalidParameter(
            "results",
            str(path),
            f"is not the results.json of a run, of format {RESULTS_FORMAT}",
            "Run the plan again: stored answers cost nothing.",
        )
    facts: Facts = stored["facts"]
    return facts


def all_rows(facts: Facts) -> list[frames.Row]:
    """One row per number over all releases: the release, every label that any of them has, and the common columns."""
    rows = [row for release in facts["releases"] for row in frames.release_rows(release)]
    return frames.aligned(held(rows))


def _results_file(results: str | os.PathLike[str]) -> Path:
    path = Path(results)
    return path / "results.json" if path.is_dir() else path


def as_csv(rows: Sequence[frames.Row]) -> str:
    """Rows as CSV text; empty where nothing is known.

    A label that a spreadsheet would take for a formula is written behind an apostrophe: released labels may be text
    that somebody in the data chose.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_harmless(name) for name in (rows[0] if rows else ("release", *frames.COLUMNS))])
    writer.writerows([_harmless(value) for value in row.values()] for row in rows)
    return text.getvalue()


def _harmless(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) and not _is_number(value) else value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _csv(facts: Facts, stem: str) -> dict[str, str | bytes]:
    return {f"{stem}.csv": as_csv(all_rows(facts))}


def _xlsx(facts: Facts, stem: str) -> dict[str, str | bytes]:
    return {f"{stem}.xlsx": as_workbook(facts)}


def _parquet(facts: Facts, stem: str) -> dict[str, str | bytes]:
    table = frames.as_arrow(all_rows(facts))
    import pyarrow.parquet as parquet

    told = {"title": facts["title"], "created": facts["created"], "guarantee": facts["privacy"]["spent"]["symbols"]}
    content = io.BytesIO()
    parquet.write_table(table.replace_schema_metadata(told), content)
    return {f"{stem}.parquet": content.getvalue()}


def _sdmx(facts: Facts, stem: str) -> dict[str, str | bytes]:
    """SDMX-CSV 2.0: structure, action, dimensions, the observed value, then attributes.

    Where a release has a dimension for some of its numbers of one measure, the others are totals over it.
    """
    rows = all_rows(facts)
    had = {(row["release"], row["measure"], name) for row in rows for name, label in row.items() if label is not None}
    dimensions = [name for name in (rows[0] if rows else ("release", "measure")) if name not in frames.COLUMNS[1:]]
    attributes = [name for name in frames.COLUMNS if name not in ("measure", "estimate")]
    words = {"estimate": "OBS_VALUE", "unit": "PRIVACY_UNIT"}
    names = _identifiers([words.get(name, name) for name in (*dimensions, "estimate", *attributes)])
    flow = f"DISCREET:{_identifier(facts['title'])}(1.0)"
    coded = [
        {"STRUCTURE": "dataflow", "STRUCTURE_ID": flow, "ACTION": "I"}
        | dict(zip(names, [*(_code(row, name, had) for name in dimensions), row["estimate"]], strict=False))
        | dict(zip(names[len(dimensions) + 1 :], [row[name] for name in attributes], strict=True))
        for row in rows
    ]
    return {f"{stem}.sdmx.csv": as_csv(coded)}


def _code(row: frames.Row, name: str, had: set[tuple[str, str, str]]) -> Any:
    if row[name] is not None:
        return row[name]
    return _TOTAL if (row["release"], row["measure"], name) in had else _NOT_APPLICABLE


def _identifier(text: str) -> str:
    return re.sub(r"[^A-Z0-9_]", "_", text.upper()) or "_"


def _identifiers(names: Sequence[str]) -> list[str]:
    """Names as SDMX identifiers, all different."""
    found: list[str] = []
    for name in map(_identifier, names):
        found.append(name if name not in found else f"{name}_{len(found)}")
    return found


_R = """\
# Reads {file} into the data frame `results`: one row per number.
results <- read.csv(
  "{file}", encoding = "UTF-8", na.strings = "", check.names = FALSE,
  colClasses = c({classes})
)
"""
_STATA = """\
* Reads {file}: one row per number.
import delimited using "{file}", varnames(1) encoding("UTF-8") stringcols({text}) numericcols({numbers}) clear
{labels}
"""
_MEANINGS = {
    "estimate": "Estimate",
    "noise_low": "95 % interval for the data (privacy noise), lower end",
    "noise_high": "95 % interval for the data (privacy noise), upper end",
    "population_low": "95 % interval for the population (noise and sampling), lower end",
    "population_high": "95 % interval for the population (noise and sampling), upper end",
    "standard_error": "Standard error",
    "pvalue": "p-value of the hypothesis that the estimated number is 0",
    "unit": "Privacy unit that is protected",
    "guarantee": "Guarantee of the release",
}


def _r(facts: Facts, stem: str) -> dict[str, str | bytes]:
    words = {bool: "logical", int: "integer", float: "numeric", str: "character"}
    kinds = frames.column_kinds(all_rows(facts))
    # R reads True and False as logical only in upper case or as text; text keeps them as they are.
    classes = ", ".join(
        f'{json.dumps(_harmless(name), ensure_ascii=False)} = "{"character" if kind is bool else words[kind]}"'
        for name, kind in kinds.items()
    )
    return {**_csv(facts, stem), "read.R": _R.format(file=f"{stem}.csv", classes=classes)}


def _stata(facts: Facts, stem: str) -> dict[str, str | bytes]:
    kinds = frames.column_kinds(all_rows(facts))
    places: dict[bool, list[str]] = {True: [], False: []}
    for place, kind in enumerate(kinds.values(), start=1):
        places[kind in (int, float)].append(str(place))
    labels = "\n".join(f'label variable {name} "{words}"' for name, words in _MEANINGS.items())
    script = _STATA.format(
        file=f"{stem}.csv", text=" ".join(places[False]), numbers=" ".join(places[True]), labels=labels
    )
    return {**_csv(facts, stem), "read.do": script}


FORMATS: dict[str, Callable[[Facts, str], dict[str, str | bytes]]] = {
    "csv": _csv,
    "xlsx": _xlsx,
    "parquet": _parquet,
    "sdmx-csv": _sdmx,
    "r": _r,
    "stata": _stata,
}
"""The writer of each format: names of files with their content."""
