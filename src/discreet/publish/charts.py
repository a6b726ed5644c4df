"""Charts: readings with their intervals, drawn offline as SVG that needs no script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from discreet.core.errors import InvalidParameter, MissingExtra
from discreet.display import held, printable
from discreet.publish.page_style import rendered
from discreet.publish.readings import by_measure
from discreet.publish.wording import SHARES, measure_words

__all__ = ["chart", "drawing", "drawing_library", "interval_chart", "offline", "plot_readings", "svg"]

_NOISE, _BOTH, _DOT = "#0b5cad", "#b4530a", "#111111"
_MOST_LABELS = 40
_LABEL = 240  # pixels of a label; longer ones are cut
_WIDTH = 300  # of the panel; with its labels a phone shows it as it is


def chart(release: Mapping[str, Any]) -> Any:
    """The Altair chart of what a release measures first; None where there is nothing to compare."""
    readings = _drawn(next(iter(by_measure(release["readings"]).values()), []))
    if not 1 < len(readings) <= _MOST_LABELS or isinstance(readings[0]["estimate"], str):
        return None
    words = measure_words(release, readings[0]["measure"])
    shape = {"format": "~%"} if readings[0]["measure"] in SHARES else {}
    drawn = interval_chart(release["title"], [{**one, "measure": words} for one in readings], **shape)
    return drawn.properties(padding=4, background="transparent")


def plot_readings(title: str, readings: Sequence[Mapping[str, Any]]) -> Any:
    """The Altair chart of all numbers, with an axis for each thing that is measured."""
    numbers = [reading for reading in readings if not isinstance(reading["estimate"], str)]
    if not numbers:
        raise InvalidParameter("plot", title, "has no number to draw", "Print the labels that were chosen.")
    drawn = [interval_chart(title, _drawn(of_one_kind)) for of_one_kind in by_measure(numbers).values()]
    if len(drawn) == 1:
        return drawn[0].properties(title=title)
    together = drawing_library().vconcat(*drawn).resolve_scale(x="independent")
    return offline(together.properties(title=title, description=title))


def interval_chart(title: str, readings: Sequence[Mapping[str, Any]], **axis: Any) -> Any:
    """Dots with intervals: thick for noise, thin for noise and sampling, so that they differ in grey too.

    Parameters
    ----------
    title
        What is drawn, for readers who do not see it.
    readings
        Each with ``label``, ``measure``, ``estimate``, ``noise`` and ``population``; the last two are None or have
        ``low`` and ``high``.
    axis
        Further settings of the axis of numbers.
    """
    alt = drawing_library()
    rows = [_row(reading) for reading in readings]
    intervals = any(row["low"] is not None or row["wide_low"] is not None for row in rows)
    words = f"{readings[0]['measure']}, 95 % intervals" if intervals else str(readings[0]["measure"])
    data = alt.InlineData(values=rows)
    labels = alt.Axis(labelLimit=_LABEL, labelFontSize=12)
    y = alt.Y(field="label", type="nominal", title=None, sort=[row["label"] for row in rows], axis=labels)
    numbers = alt.Axis(labelFontSize=12, titleFontSize=12, titleFontWeight="normal", tickCount=5, **axis)
    layers = []
    for low, high, colour, width in (("wide_low", "wide_high", _BOTH, 3), ("low", "high", _NOISE, 8)):
        if any(row[low] is not None for row in rows):
            mark = alt.Chart(data).mark_rule(color=colour, strokeWidth=width, opacity=0.8)
            x = alt.X(field=low, type="quantitative", title=words, scale=alt.Scale(zero=False), axis=numbers)
            layers.append(mark.encode(y=y, x=x, x2=alt.X2(field=high)))
    dot = alt.Chart(data).mark_point(color=_DOT, filled=True, size=60, opacity=1)
    x = alt.X(field="estimate", type="quantitative", title=words, scale=alt.Scale(zero=False), axis=numbers)
    layers.append(dot.encode(y=y, x=x))
    drawn = alt.layer(*layers).properties(width=_WIDTH, height=max(24 * len(rows), 40))
    return offline(drawn.properties(description=f"{title}: {words}"))


def offline(drawn: Any) -> Any:
    """A chart that is shown and saved without scripts and without a network, whatever its labels hold.

    The library aborts the whole process over some characters, and its pages take a label that looks like a script for
    one, and load theirs from a server. So pages and notebooks get the drawing itself.
    """
    kind = type(drawn)

    class Offline(kind):  # type: ignore[misc, valid-type]
        def to_dict(self, *given: Any, **settings: Any) -> Any:
            return held(super().to_dict(*given, **settings))

        def save(self, fp: Any, format: str | None = None, **settings: Any) -> None:
            if format != "html" and (format is not None or not str(fp).endswith(".html")):
                super().save(fp, format, **settings)
                return
            page = _page(self)
            if hasattr(fp, "write"):
                fp.write(page)
            else:
                Path(fp).write_text(page, encoding="utf-8")

        def _repr_mimebundle_(self, *given: Any, **settings: Any) -> Any:
            if drawing_library().renderers.active != "default":  # somebody chose how charts are shown
                return super()._repr_mimebundle_(*given, **settings)
            return {"image/svg+xml": drawing(self), "text/plain": repr(self)}

    Offline.__name__ = Offline.__qualname__ = kind.__name__
    object.__setattr__(drawn, "__class__", Offline)  # the library takes a plain assignment for a setting of the chart
    return drawn


def _page(drawn: Any) -> str:
    from markupsafe import Markup

    title = drawn.to_dict().get("title") or "Chart"
    # The library writes escaped SVG without scripts.
    figure = Markup(drawing(drawn.properties(background="transparent")))
    return rendered("<figure>{{ figure }}</figure>", title=title, figure=figure)


def drawing(drawn: Any) -> str:
    """A chart as SVG text."""
    try:
        import vl_convert
    except ImportError as missing:
        raise MissingExtra(missing.name or "vl_convert", "report") from None
    return str(vl_convert.vegalite_to_svg(drawn.to_dict()))


def drawing_library() -> Any:
    """The library that draws, which discreet itself does not need."""
    try:
        import altair
    except ImportError as missing:
        raise MissingExtra(missing.name or "altair", "report") from None
    return altair


def _drawn(readings: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Coefficients without the constant, whose size would hide them; other readings as they are."""
    slopes = [one for one in readings if (one["measure"], one["label"]) != ("coefficient", "const")]
    return slopes if slopes else readings


def _row(reading: Mapping[str, Any]) -> dict[str, Any]:
    noise, wide = reading["noise"] or {}, reading["population"] or {}
    return {
        "label": printable(reading["label"] or "value"),  # also where somebody makes another chart of this one
        "estimate": reading["estimate"],
        "low": noise.get("low"),
        "high": noise.get("high"),
        "wide_low": wide.get("low"),
        "wide_high": wide.get("high"),
    }


def svg(release: Mapping[str, Any]) -> str | None:
    """The chart of a release as SVG text for a page, or None."""
    drawn = chart(release)
    return None if drawn is None else drawing(drawn)
