"""Charts: readings with their intervals, drawn offline as SVG that needs no script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from discreet.core.errors import InvalidParameter, MissingExtra
from discreet.results.display import held, printable
from discreet.results.frames import by_measure
from discreet.results.printed import label_words
from discreet.results.wording import WHOLE, measure_words

if TYPE_CHECKING:
    from jinja2 import Environment


# ---- Page style: what all pages share. No script, nothing fetched; for phones, screens at night and paper.


PALETTE = """
:root { color-scheme: light; --page: #fff; --faint: #f4f6f8; --tint: #dbe7f5; --line: #d8dde3; --edge: #747d88;
 --ink: #14181e; --soft: #525b66; --blue: #0b5cad; --amber: #a34e00; --flag: #a3195b; --bad: #b42318; --good: #17693a;
 --on: #fff; --text: -apple-system, BlinkMacSystemFont, "Segoe UI", Roboto, "Noto Sans", "Open Sans", Ubuntu, Cantarell,
 "Liberation Sans", Arial, sans-serif; --mono: ui-monospace, "SF Mono", "Cascadia Mono", "Roboto Mono",
 "Noto Sans Mono", "Liberation Mono", Menlo, Consolas, monospace; }
@media screen and (prefers-color-scheme: dark) { :root { color-scheme: dark; --page: #12151a; --faint: #1b2027;
 --tint: #203a5a; --line: #353c46; --edge: #89929e; --ink: #e9ebee; --soft: #b0b8c2; --blue: #7fb9ff; --amber: #f2a65a;
 --flag: #ff8fc0; --bad: #ff9a92; --good: #7ed3a0; --on: #0d1720; } }
"""
"""Type, and colours by day and by night."""
PAGES = (Path(__file__).parent, Path(__file__).parents[1] / "publish" / "templates")
"""Where the templates of pages are, and the style that the studio shares."""


def rendered(template: str, **told: Any) -> str:
    """A page from the template of its main part; everything that came from outside is escaped."""
    page = '{% extends "page.html" %}{% block main %}' + template + "{% endblock %}"
    return environment().from_string(page).render(**told)


def environment() -> Environment:
    """Where templates are rendered: everything that came from outside is escaped, and holds nothing a page cannot."""
    try:
        from jinja2 import ChoiceLoader, DictLoader, Environment, FileSystemLoader, StrictUndefined
    except ImportError as missing:
        raise MissingExtra(missing.name or "jinja2", "report") from None
    loader = ChoiceLoader([DictLoader({"palette": PALETTE}), FileSystemLoader(PAGES)])
    return Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, loader=loader, finalize=held
    )


# ---- Charts: readings with their intervals, drawn offline as SVG that needs no script.


_NOISE, _BOTH, _DOT, _TINT = "#0b5cad", "#a34e00", "#14181e", "#dbe7f5"
_LABEL = 240  # pixels of a label; longer ones are cut
_WIDTH = 300  # of the panel; with its labels a phone shows it as it is


def plot_readings(
    title: str, readings: Sequence[Mapping[str, Any]], words: Mapping[str, Any] = MappingProxyType({})
) -> Any:
    """The Altair chart of all numbers, with an axis for each thing that is measured; ``words`` name it."""
    numbers = [reading for reading in readings if not isinstance(reading["estimate"], str)]
    if not numbers:
        raise InvalidParameter("plot", title, "has no number to draw", "Print the labels that were chosen.")
    drawn = [
        interval_chart(title, drawn_readings(found), measure_words(words, measure))
        for measure, found in by_measure(numbers).items()
    ]
    if len(drawn) == 1:
        return drawn[0].properties(title=title)
    together = drawing_library().vconcat(*drawn).resolve_scale(x="independent")
    return offline(together.properties(title=title, description=title))


def interval_chart(title: str, readings: Sequence[Mapping[str, Any]], measured: str = "", **axis: Any) -> Any:
    """Dots with intervals, counts with bars: thick for noise, thin for noise and sampling, so that grey tells them.

    Parameters
    ----------
    title
        What is drawn, for readers who do not see it.
    readings
        Each with ``label``, ``measure``, ``estimate``, ``noise`` and ``population``; the last two are None or have
        ``low`` and ``high``.
    measured
        What the numbers measure, in words for the axis.
    axis
        Further settings of the axis of numbers.
    """
    alt = drawing_library()
    rows = [_row(reading) for reading in readings]
    intervals = any(row["low"] is not None or row["wide_low"] is not None for row in rows)
    measured = measured or str(readings[0]["measure"])
    words = f"{measured}, 95 % intervals" if intervals else measured
    data = alt.InlineData(values=rows)
    labels = alt.Axis(labelLimit=_LABEL, labelFontSize=12)
    y = alt.Y(field="label", type="nominal", title=None, sort=[row["label"] for row in rows], axis=labels)
    numbers = alt.Axis(labelFontSize=12, titleFontSize=12, titleFontWeight="normal", tickCount=5, **axis)
    bars = readings[0]["measure"] in WHOLE  # counts begin at 0
    scale = alt.Scale(zero=bars)
    layers = []
    if bars:
        x = alt.X(field="estimate", type="quantitative", title=words, scale=scale, axis=numbers)
        layers.append(alt.Chart(data).mark_bar(color=_TINT, height=16).encode(y=y, x=x))
    for low, high, colour, width in (("wide_low", "wide_high", _BOTH, 3), ("low", "high", _NOISE, 8)):
        if any(row[low] is not None for row in rows):
            mark = alt.Chart(data).mark_rule(color=colour, strokeWidth=width, opacity=0.8)
            x = alt.X(field=low, type="quantitative", title=words, scale=scale, axis=numbers)
            layers.append(mark.encode(y=y, x=x, x2=alt.X2(field=high)))
    dot = alt.Chart(data).mark_point(color=_DOT, filled=True, size=60, opacity=1)
    x = alt.X(field="estimate", type="quantitative", title=words, scale=scale, axis=numbers)
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
            if hasattr(fp, "write"):
                fp.write(self.to_html())
            else:
                Path(fp).write_text(self.to_html(), encoding="utf-8")

        def to_html(self, *given: Any, **settings: Any) -> str:  # what it is given is about scripts
            return _page(self)

        def _repr_mimebundle_(self, *given: Any, **settings: Any) -> Any:
            if drawing_library().renderers.active != "default":  # somebody chose how charts are shown
                return super()._repr_mimebundle_(*given, **settings)
            return {"image/svg+xml": drawing(self), "text/plain": repr(self)}

    Offline.__name__ = Offline.__qualname__ = kind.__name__
    object.__setattr__(drawn, "__class__", Offline)  # the library takes a plain assignment for a setting of the chart
    return drawn


def _page(drawn: Any) -> str:
    from markupsafe import Markup

    given = drawn.to_dict().get("title")
    title = given if isinstance(given, str) else "Chart"
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


def drawn_readings(readings: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Coefficients without the constant, whose size would hide them; other readings as they are."""
    slopes = [one for one in readings if (one["measure"], one["label"]) != ("coefficient", "const")]
    return slopes if slopes else readings


def _row(reading: Mapping[str, Any]) -> dict[str, Any]:
    noise, wide = reading["noise"] or {}, reading["population"] or {}
    return {
        "label": printable(
            label_words(reading["label"] or "value")
        ),  # also where somebody makes another chart of this one
        "estimate": reading["estimate"],
        "low": noise.get("low"),
        "high": noise.get("high"),
        "wide_low": wide.get("low"),
        "wide_high": wide.get("high"),
    }
