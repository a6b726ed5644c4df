"""HeatMap: a figure of coloured cells, for quantities over two parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from discreet.papers.figure import Figure, panels

__all__ = ["HeatMap"]

_AXIS: dict[str, Any] = {"labelOverlap": "greedy", "labelAngle": 0}
_LEGEND: dict[str, Any] = {"gradientLength": 220, "tickCount": 4}


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
        Column of booleans: cells in which it is true get a blue frame.
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
        x = alt.X(field=self.x, type="ordinal", title=self.x, axis=_AXIS)
        y = alt.Y(field=self.y, type="ordinal", title=self.y, sort="descending", axis=_AXIS)
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
                drawn = drawn + base.mark_text(fontSize=6).encode(text=f"{self.label}:N", color=dark)
            else:
                for sign, test in (("+", ">"), ("−", "<")):  # both ends of the scale are dark in grey
                    there = base.transform_filter(f"{above} {test} 0")
                    drawn = drawn + there.mark_text(text=sign, fontSize=12, fontWeight="bold").encode(color=dark)
        if self.outlined is not None:
            inside = base.transform_filter(f"datum[{self.outlined!r}]")
            drawn = drawn + inside.mark_rect(filled=False, stroke="#0b5cad", strokeWidth=1.5)
        return panels(drawn, selected, self.column, self.row)

    def caption(self) -> str:
        """What the cells show."""
        facets = [name for name in (self.row, self.column) if name is not None]
        told = f"{self.title}: {self.measure or self.colour} by {self.x} and {self.y}"
        told += f", one panel for each {' and '.join(facets)}" if facets else ""
        signs = f"; + above {self.middle:g}, − below" if self.middle is not None and self.label is None else ""
        return told + signs + (f"; cells with a blue frame: {self.outlined}." if self.outlined else ".")
