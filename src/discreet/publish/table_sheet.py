"""Table sheet: a released table on a sheet of a workbook, with totals in place, intervals beside it and footnotes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from discreet.publish.grids import Grid, grids, label_words
from discreet.publish.readings import by_measure, reliability
from discreet.publish.wording import WHOLE, measure_words

__all__ = ["TableSheet", "table_sheets"]

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
