"""HeatMap: a figure of coloured cells, for quantities over two parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from discreet.studies.figure import Figure

__all__ = ["HeatMap"]


@dataclass(frozen=True, kw_only=True)
class HeatMap(Figure):
    """Cells at (x, y), coloured by the number in ``colour``; rows without that number stay blank.

    Parameters
    ----------
    middle
        Where the colours change from orange (below) to blue (above), both darker the further they are; a plain scale
        where it is None.
    label
        Column whose text is written into the cells.
    """

    middle: float | None = None
    label: str | None = None

    def selected(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows that are drawn."""
        return [row for row in super().selected(rows) if row.get(self.colour or "") is not None]

    def chart(self, rows: Sequence[dict[str, Any]]) -> Any:
        """The Altair chart."""
        import altair as alt

        selected = self.selected(rows)
        colour = alt.Color(field=self.colour or "", type="quantitative", title=self.colour)
        if self.middle is None:
            colour = colour.scale(scheme="viridis")
        else:
            reach = max((abs(row[self.colour or ""] - self.middle) for row in selected), default=1.0) or 1.0
            colour = colour.scale(scheme="blueorange", reverse=True, domain=[self.middle - reach, self.middle + reach])
        x = alt.X(field=self.x, type="ordinal", title=self.x)
        y = alt.Y(field=self.y, type="ordinal", title=self.y, sort="descending")
        base = alt.Chart(alt.InlineData(values=selected)).encode(x=x, y=y)
        drawn: Any = base.mark_rect().encode(color=colour)
        if self.label is not None:
            drawn = drawn + base.mark_text(fontSize=7).encode(text=alt.Text(field=self.label, type="nominal"))
        drawn = drawn.properties(width=230, height=200)
        facets = {
            name: alt.Facet(field=field, type="nominal", title=field)
            for name, field in (("column", self.column), ("row", self.row))
            if field is not None
        }
        return (drawn.facet(**facets) if facets else drawn).properties(title=self.title)
