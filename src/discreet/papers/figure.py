"""Figure: a chart of study rows, described as data and drawn only where the `report` extra is installed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from pathlib import Path
from typing import Any

__all__ = ["Figure", "panels"]

_WIDTH = 400
"""Of all panels side by side, in pixels: a phone shows the figure as it is, a desk shows it larger."""
_MOST_ACROSS = 3
_MOST_TICKS = 6
_COLOURS = ["#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f"]
"""Okabe and Ito's palette: told apart by colour-blind readers; marks and dashes tell lines apart in grey."""
_SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "stroke"]
_DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [1, 3], [10, 4], [3, 1]]
_NUMBER = "abs(datum.value) >= 10000 ? format(datum.value, '~s') : format(datum.value, '~g')"


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
    measure
        What is drawn, in words; the name of its column where it is not given.
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
    measure: str | None = None

    def selected(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows that are drawn."""
        return [
            row for row in rows if row.get(self.y) is not None and all(row[name] == value for name, value in self.where)
        ]

    def caption(self) -> str:
        """What the chart shows, and what its lines and panels stand for."""
        told = [f"{self.measure or self.y} against {self.x}"]
        told += [f"{'one line' if self.mark == 'line' else 'marks'} for each {self.colour}"] if self.colour else []
        told += [f"bars from {self.low} to {self.high}"] if self.low else []
        facets = [name for name in (self.row, self.column) if name is not None]
        told += [f"one panel for each {' and '.join(facets)}"] if facets else []
        return f"{self.title}: {', '.join(told)}."

    def chart(self, rows: Sequence[dict[str, Any]]) -> Any:
        """The Altair chart."""
        import altair as alt

        selected = self.selected(rows)
        encoding: dict[str, Any] = {"x": self._x(selected), "y": self._y(selected)}
        encoding |= self._told_apart(selected)
        base = alt.Chart()
        layers = [base.mark_bar().encode(**encoding)] if self.mark == "bar" else []
        if self.low is not None and self.high is not None:
            low, high = self.low.replace(".", "\\."), self.high.replace(".", "\\.")  # a dot would mean a field's part
            ends = {"y": alt.Y(field=low, type="quantitative", title=self.measure or self.y), "y2": alt.Y2(field=high)}
            bars = {name: encoding[name] for name in ("x", "color") if name in encoding}
            layers.append(base.mark_rule(opacity=0.6).encode(**bars, **ends))
        if self.mark == "line":
            layers.append(base.mark_line().encode(**{k: v for k, v in encoding.items() if k != "shape"}))
        if self.mark in ("line", "point"):
            dots = base.mark_point(filled=True, size=30, opacity=1)
            layers.append(dots.encode(**{k: v for k, v in encoding.items() if k != "strokeDash"}))
        return panels(alt.layer(*layers), selected, self.column, self.row)

    def _x(self, selected: Sequence[dict[str, Any]]) -> Any:
        import altair as alt

        values = _sorted(row[self.x] for row in selected)
        if self.mark == "bar" or not all(isinstance(value, int | float) for value in values):
            return alt.X(field=self.x, type="ordinal", title=self.x)
        axis = alt.Axis(labelExpr=_NUMBER, labelOverlap="greedy", grid=False, **_ticks(values, self.log_x))
        return alt.X(field=self.x, type="quantitative", title=self.x, axis=axis).scale(
            type="log" if self.log_x else "linear", zero=False, nice=False, padding=6
        )

    def _y(self, selected: Sequence[dict[str, Any]]) -> Any:
        import altair as alt

        scale = alt.Scale(type="log" if self.log_y else "linear", zero=self.mark == "bar")
        axis = alt.Axis(labelExpr=_NUMBER, **_ticks([row[self.y] for row in selected], self.log_y))
        return alt.Y(field=self.y, type="quantitative", title=self.measure or self.y, scale=scale, axis=axis)

    def _told_apart(self, selected: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Colour, shape and dash say the same, so that lines stay apart in grey."""
        import altair as alt

        if self.colour is None:
            return {}
        values = _sorted(row[self.colour] for row in selected)
        longest = max(len(str(value)) for value in values)
        across = max(1, _WIDTH // (7 * longest + 45))
        legend = alt.Legend(columns=across, symbolStrokeWidth=0, symbolSize=80, symbolOpacity=1)
        return {
            name: channel(
                field=self.colour, type="nominal", title=self.colour, legend=legend,
                scale=alt.Scale(domain=values, range=[kinds[place % len(kinds)] for place in range(len(values))]),
            )
            for name, channel, kinds in (
                ("color", alt.Color, _COLOURS), ("shape", alt.Shape, _SHAPES), ("strokeDash", alt.StrokeDash, _DASHES),
            )
            if name == "color" or self.mark != "bar"
        }  # fmt: skip

    def save(self, rows: Sequence[dict[str, Any]], out: Path) -> Path | None:
        """Write the SVG file; nothing without rows, Altair or vl-convert."""
        if not self.selected(rows):
            return None
        try:
            import altair  # noqa: F401
            import vl_convert as convert
        except ImportError:
            return None
        svg = out / f"{self.name}.svg"
        drawing = convert.vegalite_to_svg(self.chart(rows).to_dict())
        svg.write_text(re.sub(r"<[^>]+>", _short_tag, drawing), encoding="utf-8")
        return svg


def _short_tag(tag: re.Match[str]) -> str:
    """A tag with positions to hundredths of a pixel: files a third as large."""
    return re.sub(r"(\.\d\d)\d+", r"\1", tag.group())


def panels(drawn: Any, rows: Sequence[dict[str, Any]], column: str | None, row: str | None) -> Any:
    """One panel for every pair of values, at most three side by side, with letters that a phone can show."""
    import altair as alt

    fields = [name for name in (row, column) if name is not None]
    kinds = _sorted(tuple(one[name] for name in fields) for one in rows)
    names = [_panel(dict(zip(fields, kind, strict=True)), fields) for kind in kinds]
    data = alt.InlineData(values=[{**one, "panel": _panel(one, fields)} for one in rows])
    wide = len({one[column] for one in rows}) if column is not None else 1
    across = wide if wide <= _MOST_ACROSS else 2 if wide == 4 else _MOST_ACROSS
    width = (_WIDTH - 20 * (across - 1)) // across
    drawn = drawn.properties(width=width, height=max(130, min(220, width)))
    if fields:
        header = alt.Header(title=None, labelFontSize=12, labelPadding=3, labelExpr="split(datum.label, ' · ')")
        facet = alt.Facet(field="panel", type="nominal", sort=names, header=header)
        drawn = drawn.facet(facet, data=data, columns=across, spacing=14)
    else:
        drawn = drawn.properties(data=data)
    letters = {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "labelLimit": 0}
    # The caption tells what is drawn; a label on every mark would make the file several times as large.
    drawn = drawn.properties(padding=4).configure(aria=False)
    return drawn.configure_axis(**letters).configure_legend(orient="bottom", **letters)


def _ticks(values: Sequence[float], log: bool) -> dict[str, Any]:
    """Few labels: on a logarithmic axis the values themselves or powers of ten."""
    if not log:
        return {"tickCount": 5}
    if len(set(values)) <= _MOST_TICKS:
        return {"values": sorted(set(values))}
    first, last = floor(log10(min(values))), ceil(log10(max(values)))
    return {"values": [10.0**power for power in range(first, last + 1)]}


def _panel(row: dict[str, Any], fields: Sequence[str]) -> str:
    return " · ".join(value if isinstance(value := row[name], str) else f"{name} {value:g}" for name in fields)


def _sorted(values: Iterable[Any]) -> list[Any]:
    """Every value once, in order; numbers before words."""
    try:
        return sorted(set(values))
    except TypeError:
        return sorted(set(values), key=lambda value: (isinstance(value, str), str(value)))
