"""MetricGrid: one line of panels for each measure, one column for each setting, as papers on simulations draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from discreet.papers.figure import LETTERS, Figure, noted, told_apart, worded

__all__ = ["Metric", "MetricGrid"]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One line of panels.

    Parameters
    ----------
    column
        Where the values stand.
    words
        Label of the axis.
    scale
        ``"linear"``, ``"log"``, or ``"symlog"`` for values of both signs that differ by powers of ten.
    target
        A value to compare with, drawn as a grey line.
    within
        Half the width of a grey band around it: the Monte-Carlo error of a method that meets the target.
    """

    column: str
    words: str
    scale: str = "linear"
    target: float | None = None
    within: float = 0.0


@dataclass(frozen=True, kw_only=True)
class MetricGrid(Figure):
    """Panels of several measures over the same settings; ``column`` separates the settings.

    Parameters
    ----------
    metrics
        The measures, from top to bottom.
    panel
        Width and height of one panel, in pixels.
    """

    metrics: tuple[Metric, ...]
    panel: tuple[int, int] = (130, 120)

    def selected(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows that are drawn."""
        return [row for row in rows if all(row[name] == value for name, value in self.where)]

    def caption(self) -> str:
        """What the panels show."""
        measures = ", ".join(metric.words for metric in self.metrics)
        told = f"{self.title}: {measures} against {worded(self.x)}, one line for each {worded(self.colour or '')}"
        bands = any(metric.within for metric in self.metrics)
        grey = "; grey: the target, with two standard errors of the simulation on either side." if bands else "."
        return told + grey + self._noted()

    def chart(self, rows: Sequence[dict[str, Any]]) -> Any:
        """The Altair chart."""
        import altair as alt

        selected = self.selected(rows)
        lines = [self._line(metric, selected, place == 0) for place, metric in enumerate(self.metrics)]
        drawn = alt.vconcat(*lines, spacing=8).resolve_scale(color="shared", shape="shared", strokeDash="shared")
        drawn = drawn.properties(padding=4).configure(aria=False)
        return noted(drawn.configure_axis(**LETTERS).configure_legend(orient="bottom", **LETTERS), self.note)

    def _line(self, metric: Metric, rows: Sequence[dict[str, Any]], first: bool) -> Any:
        """One measure over all settings, on one scale."""
        import altair as alt

        name, column = metric.column, self.column or ""
        kept = (self.x, self.colour or "", column)
        values = [{**{key: row[key] for key in kept}, name: row[name]} for row in rows if row[name] is not None]
        if metric.scale == "log":
            values = [row for row in values if row[name] > 0]
        scale: dict[str, Any] = {"type": metric.scale, "zero": False}
        if metric.scale == "symlog":
            scale["constant"] = median(abs(row[name]) for row in values) or 1.0  # half of the values: as they are
        y = alt.Y(field=name, type="quantitative", title=metric.words, scale=alt.Scale(**scale), axis=_axis(metric))
        encoding = {"x": self._x(values), "y": y, **told_apart(values, self.colour or "", 900, lines=not self.dots)}
        layers: list[Any] = []
        if metric.target is not None:
            base = alt.Chart()
            if metric.within:
                low, high = metric.target - metric.within, metric.target + metric.within
                layers.append(base.mark_rect(color="#dddddd").encode(y=alt.datum(low), y2=alt.datum(high)))
            layers.append(base.mark_rule(color="#888888").encode(y=alt.datum(metric.target)))
        base = alt.Chart()
        layers.append(base.mark_line(strokeWidth=1.2).encode(**{k: v for k, v in encoding.items() if k != "shape"}))
        if self.dots:
            marks = base.mark_point(filled=True, size=18, opacity=1)
            layers.append(marks.encode(**{k: v for k, v in encoding.items() if k != "strokeDash"}))
        order = list(dict.fromkeys(row[column] for row in rows))
        header = alt.Header(title=None, labels=first, labelFontSize=12, labelPadding=3)
        facet = alt.Column(field=column, type="nominal", sort=order, header=header)
        wide, high_ = self.panel
        layered = alt.layer(*layers).properties(width=wide, height=high_)
        return layered.facet(column=facet, data=alt.InlineData(values=values), spacing=8)


def _axis(metric: Metric) -> Any:
    import altair as alt

    number = "abs(datum.value) >= 10000 ? format(datum.value, '~s') : format(datum.value, '~g')"
    return alt.Axis(labelExpr=number, labelOverlap="greedy", tickCount=3 if metric.scale == "log" else 4)
