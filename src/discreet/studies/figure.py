"""Figure: a chart of study rows, described as data and drawn only where the `report` extra is installed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Figure"]

_COLOURS = ["#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f"]
"""Okabe and Ito's palette: told apart by colour-blind readers; marks and dashes tell lines apart in grey."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Lines through the summary rows of a part, in panels.

    Parameters
    ----------
    name
        File name, for example ``"figure-2-bias"``.
    title
        Caption.
    x, y
        Columns on the axes.
    colour
        Column that separates the lines.
    column, row
        Columns that separate the panels.
    low, high
        Columns of an error band around ``y``.
    log_x, log_y
        Logarithmic axes.
    mark
        ``"line"``, ``"point"`` or ``"bar"``.
    where
        Only rows in which these columns have these values.
    """

    name: str
    title: str
    x: str
    y: str
    colour: str | None = None
    column: str | None = None
    row: str | None = None
    low: str | None = None
    high: str | None = None
    log_x: bool = False
    log_y: bool = False
    mark: str = "line"
    where: tuple[tuple[str, Any], ...] = ()

    def selected(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows that are drawn."""
        return [
            row for row in rows if row.get(self.y) is not None and all(row[name] == value for name, value in self.where)
        ]

    def chart(self, rows: Sequence[dict[str, Any]]) -> Any:
        """The Altair chart."""
        import altair as alt

        selected = self.selected(rows)
        numeric = self.mark != "bar" and all(isinstance(row[self.x], int | float) for row in selected)
        x = alt.X(field=self.x, type="quantitative" if numeric else "ordinal", title=self.x)
        if numeric:
            x = x.scale(type="log" if self.log_x else "linear", zero=False)
        y = alt.Y(field=self.y, type="quantitative", title=self.y)
        y = y.scale(type="log" if self.log_y else "linear", zero=False)
        encoding: dict[str, Any] = {"x": x, "y": y}
        if self.colour is not None:
            palette = alt.Scale(range=_COLOURS)
            encoding["color"] = alt.Color(field=self.colour, type="nominal", title=self.colour, scale=palette)
            if self.mark != "bar":  # every layer carries all three, so that one legend shows them together
                shape = alt.Shape(field=self.colour, type="nominal", title=self.colour)
                dash = alt.StrokeDash(field=self.colour, type="nominal", title=self.colour)
                barred = self.low is not None  # bars have neither mark nor dash, and would split the legend in three
                encoding["shape"] = shape.legend(None) if barred else shape
                encoding["strokeDash"] = dash.legend(None) if barred else dash
        base = alt.Chart(alt.InlineData(values=selected))
        drawn = self._drawn(base, encoding)
        if self.low is not None and self.high is not None:
            low, high = self.low.replace(".", "\\."), self.high.replace(".", "\\.")  # a dot would mean a field's part
            ends = {"y": alt.Y(field=low, type="quantitative", title=self.y), "y2": alt.Y2(field=high)}
            bars = {name: encoding[name] for name in ("x", "color") if name in encoding}
            drawn = drawn + base.mark_rule(opacity=0.6).encode(**bars, **ends)
        drawn = drawn.properties(width=220, height=170)
        facets = {
            name: alt.Facet(field=field, type="nominal", title=field)
            for name, field in (("column", self.column), ("row", self.row))
            if field is not None
        }
        return (drawn.facet(**facets) if facets else drawn).properties(title=self.title)

    def _drawn(self, base: Any, encoding: dict[str, Any]) -> Any:
        """Marks that stay apart without colour."""
        if self.mark == "bar":
            return base.mark_bar().encode(**encoding)
        points = base.mark_point(filled=True, size=35).encode(**encoding)
        return points if self.mark == "point" else base.mark_line().encode(**encoding) + points

    def save(self, rows: Sequence[dict[str, Any]], out: Path) -> tuple[Path, ...]:
        """Write SVG and a self-contained HTML page; nothing without rows, Altair or vl-convert."""
        if not self.selected(rows):
            return ()
        try:
            import altair  # noqa: F401
            import vl_convert as convert
        except ImportError:
            return ()
        specification = self.chart(rows).to_dict()
        svg, html = out / f"{self.name}.svg", out / f"{self.name}.html"
        svg.write_text(convert.vegalite_to_svg(specification), encoding="utf-8")
        html.write_text(convert.vegalite_to_html(specification, bundle=True), encoding="utf-8")
        return svg, html
