"""HeatMap: a figure of coloured cells, for quantities over two parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from discreet.papers.figure import Figure, noted, panels, worded

__all__ = ["HeatMap"]

_AXIS: dict[str, Any] = {"labelOverlap": "greedy", "labelAngle": 0}
_LEGEND: dict[str, Any] = {"gradientLength": 220, "tickCount": 4}
_MOST_FRAMES = 12
"""Frames around the cells of a finer grid would hide their colours: a line along the edge takes their place."""


@dataclass(frozen=True, kw_only=True)
class HeatMap(Figure):
    """Cells at (x, y), coloured by the number in ``colour``; rows without that number stay blank.

    Parameters
    ----------
    middle
        Where the colours change from orange (below, also marked −) to blue (above, also marked +), both darker the
        further they are; a plain scale where it is None.
    label
        Column of short texts to write into the cells, instead of + and −.
    outlined
        Column of booleans: cells in which it is true get a blue frame; on a fine grid they lie right of a red line.
    """

    middle: float | None = None
    label: str | None = None
    outlined: str | None = None

    def selected(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows that are drawn."""
        return [row for row in super().selected(rows) if row.get(self.colour or "") is not None]

    def chart(self, rows: Sequence[dict[str, Any]]) -> Any:
        """The Altair chart."""
        import altair as alt

        selected, name = self.selected(rows), self.colour or ""
        colour = alt.Color(field=name, type="quantitative", title=self.measure or name).legend(**_LEGEND)
        x = alt.X(field=self.x, type="ordinal", title=worded(self.x), axis=_axis(selected, self.x))
        y = alt.Y(field=self.y, type="ordinal", title=worded(self.y), sort="descending", axis=_axis(selected, self.y))
        base = alt.Chart().encode(x=x, y=y)
        if self.middle is None:
            drawn: Any = base.mark_rect().encode(color=colour.scale(scheme="viridis"))
        else:
            reach = max((abs(row[name] - self.middle) for row in selected), default=1.0) or 1.0
            ends = [self.middle - reach, self.middle + reach]
            drawn = base.mark_rect().encode(color=colour.scale(scheme="blueorange", reverse=True, domain=ends))
            above = f"datum[{name!r}] - {self.middle}"
            dark = alt.condition(f"abs({above}) > {0.6 * reach}", alt.value("white"), alt.value("black"))
            if self.label is not None:
                drawn = drawn + base.mark_text(fontSize=8).encode(text=f"{self.label}:N", color=dark)
            else:
                for sign, test in (("+", ">"), ("−", "<")):  # both ends of the scale are dark in grey
                    there = base.transform_filter(f"{above} {test} 0")
                    drawn = drawn + there.mark_text(text=sign, fontSize=12, fontWeight="bold").encode(color=dark)
        if self.outlined is not None and self._fine(selected):
            edge = base.transform_filter("datum.edge").mark_line(color="#ff5050", strokeWidth=2.5)
            drawn = drawn + edge.encode(order=alt.Order(field=self.y, type="quantitative"))
            selected = self._with_edge(selected)
        elif self.outlined is not None:
            inside = base.transform_filter(f"datum[{self.outlined!r}]")
            drawn = drawn + inside.mark_rect(filled=False, stroke="#0b5cad", strokeWidth=1.5)
        return noted(panels(drawn, selected, self.column, self.row), self.note)

    def _fine(self, rows: Sequence[dict[str, Any]]) -> bool:
        return len({row[self.x] for row in rows}) > _MOST_FRAMES

    def _with_edge(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows, and for the leftmost outlined cell of every line of every panel that it is the edge."""
        fields = [name for name in (self.column, self.row, self.y) if name is not None]
        leftmost: dict[tuple[Any, ...], float] = {}
        for row in rows:
            if row[self.outlined or ""]:
                key = tuple(row[name] for name in fields)
                leftmost[key] = min(row[self.x], leftmost.get(key, row[self.x]))
        return [{**row, "edge": leftmost.get(tuple(row[name] for name in fields)) == row[self.x]} for row in rows]

    def caption(self) -> str:
        """What the cells show."""
        facets = [worded(name) for name in (self.row, self.column) if name is not None]
        told = f"{self.title}: {self.measure or self.colour} by {worded(self.x)} and {worded(self.y)}"
        told += f", one panel for each {' and '.join(facets)}" if facets else ""
        signs = f"; + above {self.middle:g}, − below" if self.middle is not None and self.label is None else ""
        framed = f"; cells with a blue frame, or right of the red line: {self.outlined}." if self.outlined else "."
        return told + signs + framed + self._noted()


def _axis(rows: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    """Labels of all cells, or of the values in tenths on a fine grid."""
    values = sorted({row[name] for row in rows})
    tenths = [value for value in values if round(value, 1) == value]
    return {**_AXIS, "values": tenths} if len(values) > _MOST_FRAMES and len(tenths) > 1 else _AXIS
