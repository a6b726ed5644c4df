"""Figure: a chart of study rows, described as data and drawn only where the `report` extra is installed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from pathlib import Path
from textwrap import wrap
from typing import Any

_WIDTH = 560
"""Of all panels side by side, in pixels."""
_MOST_ACROSS = 3
_MOST_TICKS = 6
_COLOURS = [
    "#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#8c564b", "#4b0082",
]  # fmt: skip
"""Okabe and Ito's palette: told apart by colour-blind readers; marks and dashes tell lines apart in grey."""
_SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left"]
_DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [1, 3], [10, 4], [3, 1]]
LETTERS = {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "labelLimit": 0}
"""Letters of axes and legends."""
_WORDS = {
    "epsilon": "privacy budget ε",
    "ε": "privacy budget ε",
    "budget": "privacy budget",
    "sensitivity": "sensitivity Δ",
    "n": "number of rows n",
    "N": "number of rows N",
    "P": "number of partitions P",
    "μ": "privacy parameter μ",
    "mu": "privacy parameter μ",
    "rmse": "root mean squared error",
    "RMSE": "root mean squared error",
    "coverage": "coverage of 95 % intervals",
    "accuracy": "share classified correctly",
    "rejected": "share of tests that reject",
    "ratio": "ratio",
    "law": "law of the outcome",
    "lambda_1 / lambda_2": "ratio λ₁/λ₂",
    "lambda_2": "λ₂",
    "m": "smallest probability of suppression m",
    "M": "largest probability of suppression M",
    "maximum": "where the maximum is reached",
    "p2.5": "2.5 % quantile",
    "p97.5": "97.5 % quantile",
    "SE low": "10 % quantile",
    "SE high": "90 % quantile",
    "target": "proportion",
    "p": "number of cells p",
    "q": "sampling rate",
    "rate": "sampling rate",
}
"""The names of columns on axes, in legends and in captions."""
_SYMBOLS = {"epsilon": "ε", "mu": "μ", "delta": "δ", "lambda_2": "λ₂"}
"""The names of columns above a panel."""
_NAMED = {"model": "Model"}
"""Columns whose values need their name above a panel."""
_NOTE_LETTERS = 92
"""Letters per line of a note below a chart."""
_NUMBER = "abs(datum.value) >= 10000 ? format(datum.value, '~s') : format(datum.value, '~g')"


def worded(column: str) -> str:
    """The name of a column on a chart."""
    return _WORDS.get(column, column.replace("_", " "))


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
    x_words
        What stands on the horizontal axis, in words.
    target
        A value of ``y`` to compare with, drawn as a grey line, such as the level of a test; or the column that holds
        one value for each panel.
    paper
        Values that the paper prints, as rows with the columns of the chart: drawn as hollow red squares.
    cells
        Which cells of the part the figure needs, by parameter; all where it is not given.
    dots
        Whether every value on a line gets a mark.
    note
        What differs from the paper's figure, such as a smaller grid: written below the chart and into the caption.
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
    x_words: str | None = None
    target: float | str | None = None
    paper: tuple[Mapping[str, Any], ...] = ()
    cells: tuple[tuple[str, Any], ...] = ()
    dots: bool = True
    note: str = ""

    def selected(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows that are drawn."""
        return [
            row for row in rows if row.get(self.y) is not None and all(row[name] == value for name, value in self.where)
        ]

    def caption(self) -> str:
        """The caption of the chart: its contents, and the meaning of its lines and panels."""
        told = [f"{self.measure or worded(self.y)} against {self.x_words or worded(self.x)}"]
        lines = "one line" if self.mark == "line" else "marks"
        told += [f"{lines} for each {worded(self.colour)}"] if self.colour else []
        if self.low and self.high:
            ends = f"bars from the {worded(self.low)} to the {worded(self.high)}"
            told += [ends if self.low in _WORDS else "bars: 95 % Monte-Carlo intervals"]
        told += ["hollow red squares: values printed in the paper"] if self.paper else []
        facets = [worded(name) for name in (self.row, self.column) if name is not None]
        told += [f"one panel for each {' and '.join(facets)}"] if facets else []
        return f"{self.title}: {', '.join(told)}.{self._noted()}"

    def _noted(self) -> str:
        return f" {self.note}" if self.note else ""

    def chart(self, rows: Sequence[dict[str, Any]]) -> Any:
        """The Altair chart."""
        import altair as alt

        selected = self.selected(rows)
        encoding: dict[str, Any] = {"x": self._x(selected), "y": self._y(selected)}
        if self.colour is not None:
            encoding |= told_apart(
                selected, self.colour, _WIDTH, plain=self.mark == "bar", lines=self.mark == "line" and not self.dots
            )
        base = alt.Chart().transform_filter("!datum.printed") if self.paper else alt.Chart()
        layers = [base.mark_bar().encode(**encoding)] if self.mark == "bar" else []
        if self.target is not None:
            place: Any = alt.datum(self.target)
            if isinstance(self.target, str):
                place = alt.Y(field=self.target, aggregate="mean", type="quantitative", title=self._measure())
            layers.append(alt.Chart().mark_rule(color="#888888", strokeDash=[4, 3]).encode(y=place))
        if self.low is not None and self.high is not None:
            low, high = self.low.replace(".", "\\."), self.high.replace(".", "\\.")  # a dot would mean a field's part
            ends = {"y": alt.Y(field=low, type="quantitative", title=self._measure()), "y2": alt.Y2(field=high)}
            bars = {name: encoding[name] for name in ("x", "color") if name in encoding}
            layers.append(base.mark_rule(opacity=0.6).encode(**bars, **ends))
        if self.mark == "line":
            layers.append(base.mark_line().encode(**{k: v for k, v in encoding.items() if k != "shape"}))
        if self.mark == "point" or (self.mark == "line" and self.dots):
            dots = base.mark_point(filled=True, size=30, opacity=1)
            layers.append(dots.encode(**{k: v for k, v in encoding.items() if k != "strokeDash"}))
        if self.paper:
            places = {name: encoding[name] for name in ("x", "y")}
            marks = alt.Chart().transform_filter("datum.printed")
            layers.append(marks.mark_point(shape="square", size=90, color="#d00000", strokeWidth=2).encode(**places))
        printed = [{**row, "printed": True} for row in self.paper]
        return noted(panels(alt.layer(*layers), [*selected, *printed], self.column, self.row), self.note)

    def _measure(self) -> str:
        return self.measure or worded(self.y)

    def _x(self, selected: Sequence[dict[str, Any]]) -> Any:
        import altair as alt

        values = _sorted(row[self.x] for row in selected)
        if self.mark == "bar" or not all(isinstance(value, int | float) for value in values):
            return alt.X(field=self.x, type="ordinal", title=self.x_words or worded(self.x))
        axis = alt.Axis(labelExpr=_NUMBER, labelOverlap="greedy", grid=False, **_ticks(values, self.log_x))
        title = self.x_words or worded(self.x)
        return alt.X(field=self.x, type="quantitative", title=title, axis=axis).scale(
            type="log" if self.log_x else "linear", zero=False, nice=False, padding=6
        )

    def _y(self, selected: Sequence[dict[str, Any]]) -> Any:
        import altair as alt

        scale = alt.Scale(type="log" if self.log_y else "linear", zero=self.mark == "bar")
        axis = alt.Axis(labelExpr=_NUMBER, **_ticks([row[self.y] for row in selected], self.log_y))
        return alt.Y(field=self.y, type="quantitative", title=self._measure(), scale=scale, axis=axis)

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
        drawing = convert.vegalite_to_svg(self.chart(rows).to_dict(validate=False))
        svg.write_text(_lean(drawing), encoding="utf-8")
        return svg


def told_apart(
    rows: Sequence[dict[str, Any]], field: str, room: int, plain: bool = False, lines: bool = False
) -> dict[str, Any]:
    """Colour, shape and dash say the same, so that lines stay apart in grey; ``plain`` marks have colour alone.

    The legend shows marks, or ``lines`` where the chart has no marks.
    """
    import altair as alt

    values = _sorted(row[field] for row in rows)
    longest = max(len(str(value)) for value in values)
    legend = alt.Legend(
        columns=max(1, room // (7 * longest + 45)), symbolStrokeWidth=2 if lines else 0, symbolSize=80, symbolOpacity=1
    )
    return {
        name: channel(
            field=field, type="nominal", title=worded(field), legend=legend,
            scale=alt.Scale(domain=values, range=[kinds[place % len(kinds)] for place in range(len(values))]),
        )
        for name, channel, kinds in (
            ("color", alt.Color, _COLOURS), ("shape", alt.Shape, _SHAPES), ("strokeDash", alt.StrokeDash, _DASHES),
        )
        if name == "color" or not plain
    }  # fmt: skip


def _lean(svg: str) -> str:
    """The same picture without names, empty groups and positions beyond hundredths of a pixel: a third as large."""
    svg = re.sub(r' (?:class|role|aria-[a-z]+|pointer-events)="[^"]*"', "", svg)
    svg = re.sub(
        r'<path d="" display="none"/>|<path d="M0,0h[\d.]+v[\d.]+h-[\d.]+Z"/>|<path d="M0,0h0v0h0Z"/>', "", svg
    )
    svg = re.sub(r' transform="translate\(0,0\)"| opacity="1"| font-weight="normal"', "", svg)
    svg = re.sub(r"<[^>]+>", lambda tag: re.sub(r"(\.\d\d)\d+", r"\1", tag.group()), svg)
    before = ""
    while before != svg:
        before = svg
        svg = re.sub(r"<g>((?:(?!</?g[ >]).)*)</g>", r"\1", re.sub(r"<g[^>]*></g>", "", svg), flags=re.DOTALL)
    return svg


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
    drawn = drawn.properties(width=width, height=max(150, min(260, width)))
    if fields:
        header = alt.Header(title=None, labelFontSize=12, labelPadding=3, labelExpr="split(datum.label, ' · ')")
        facet = alt.Facet(field="panel", type="nominal", sort=names, header=header)
        drawn = drawn.facet(facet, data=data, columns=across, spacing=14)
    else:
        drawn = drawn.properties(data=data)
    # The caption tells what is drawn; a label on every mark would make the file several times as large.
    drawn = drawn.properties(padding=4).configure(aria=False)
    return drawn.configure_axis(**LETTERS).configure_legend(orient="bottom", **LETTERS)


def noted(drawn: Any, note: str) -> Any:
    """The chart with a note below it."""
    import altair as alt

    if not note:
        return drawn
    title = alt.TitleParams(
        wrap(note, _NOTE_LETTERS), orient="bottom", anchor="start", fontSize=12, fontWeight="normal", color="#50565e"
    )
    return drawn.properties(title=title)


def _ticks(values: Sequence[float], log: bool) -> dict[str, Any]:
    """Few labels: on a logarithmic axis the values themselves or powers of ten."""
    if not log:
        return {"tickCount": 5}
    if len(set(values)) <= _MOST_TICKS:
        return {"values": sorted(set(values))}
    first = floor(log10(min(values)))
    last = ceil(log10(max(values)))
    return {"values": [10.0**power for power in range(first, last + 1)]}


def _panel(row: dict[str, Any], fields: Sequence[str]) -> str:
    def told(name: str) -> str:
        value = row[name]
        if isinstance(value, str):
            return f"{_NAMED[name]} {value}" if name in _NAMED else value
        return f"{_SYMBOLS.get(name, name)} = {value:g}"

    return " · ".join(told(name) for name in fields)


def _sorted(values: Iterable[Any]) -> list[Any]:
    """Every value once, in order; numbers before words."""
    try:
        return sorted(set(values))
    except TypeError:
        return sorted(set(values), key=lambda value: (isinstance(value, str), str(value)))


# ---- HeatMap: a figure of coloured cells, for quantities over two parameters


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
        """The caption of the chart: the meaning of its cells."""
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
