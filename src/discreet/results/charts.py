"""Charts: readings with their intervals, drawn offline as SVG that needs no script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.core.errors import InvalidParameter, MissingExtra
from discreet.results.display import held, printable
from discreet.results.frames import by_measure
from discreet.results.wording import SHARES, measure_words

if TYPE_CHECKING:
    from jinja2 import Environment


# ---- Page style: what all pages share. No script, nothing fetched; for phones, screens at night and paper.


PALETTE = """
:root { color-scheme: light; --ink: #16191d; --soft: #50565e; --line: #d4d8dd; --faint: #f3f4f6; --page: #fff;
 --blue: #0b5cad; --amber: #b4530a; }
@media screen and (prefers-color-scheme: dark) { :root { color-scheme: dark; --ink: #e8eaed; --soft: #a9b0b8;
 --line: #3b4148; --faint: #20242a; --page: #14171a; --blue: #7db8ff; --amber: #f0a35e; } }
"""
"""Colours by day and by night."""

_FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{{ title }}</title>
<style>
{% include "palette" %}
* { box-sizing: border-box; }
body { margin: 0; font: 1rem/1.55 system-ui, sans-serif; color: var(--ink); background: var(--page); }
main { max-width: 54rem; margin: 0 auto; padding: 1.25rem 1rem 4rem; }
h1, h2, h3 { overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1.25rem; margin: 2.4rem 0 .4rem; line-height: 1.3; }
h3 { font-size: 1.05rem; margin: 1.4rem 0 .2rem; }
a { color: var(--blue); }
p, ul { margin: .5rem 0; overflow-wrap: anywhere; } li { margin: .25rem 0; }
.soft { color: var(--soft); }
.card { border: 1px solid var(--line); border-radius: .5rem; padding: .9rem 1.1rem; margin: 1rem 0; }
.card > h2 { margin-top: 0; } .card > :last-child { margin-bottom: 0; }
.bar { height: .7rem; background: var(--line); border-radius: .35rem; overflow: hidden; }
.bar span { display: block; height: 100%; background: var(--blue); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; margin: .6rem 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.small { font-size: .9rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .2rem 0 .6rem; min-width: min(100%, 20rem);
 font-variant-numeric: tabular-nums; }
caption { position: absolute; clip-path: inset(50%); }
.caption { color: var(--soft); margin: 1.1rem 0 .1rem; }
th, td { text-align: right; padding: .3rem 1rem .3rem .4rem; white-space: nowrap; vertical-align: top; }
thead th { border-bottom: 2px solid var(--line); vertical-align: bottom; }
tr { border-bottom: 1px solid var(--line); }
th.label { text-align: left; white-space: normal; font-weight: 500; }
td.text, td.text + td.text { text-align: left; white-space: normal; }
th.again { color: transparent; }
.total { background: var(--faint); }
td small { display: block; color: var(--soft); font-size: .78rem; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; }
figcaption { color: var(--soft); font-size: .9rem; }
figure svg text { fill: var(--ink); } figure svg [stroke="#888"], figure svg [stroke="#ddd"] { stroke: var(--line); }
figure svg [stroke="#0b5cad"] { stroke: var(--blue); } figure svg [stroke="#b4530a"] { stroke: var(--amber); }
figure svg [fill="#111111"] { fill: var(--ink); }
.hist { fill: var(--blue); }
.noise { color: var(--blue); font-weight: 600; } .both { color: var(--amber); font-weight: 600; }
pre { overflow-x: auto; background: var(--faint); padding: 1rem; border-radius: .5rem; font-size: .85rem; }
details { margin: .6rem 0; } summary { cursor: pointer; color: var(--soft); }
@media (max-width: 34rem) { dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; }
 th, td { padding: .3rem .55rem .3rem .2rem; font-size: .9rem; } h1 { font-size: 1.45rem; }
 ul { padding-left: 1.2rem; } .card { padding: .8rem; } thead th { white-space: normal; }
 .stack, .stack tbody, .stack tr, .stack th, .stack td { display: block; text-align: left; padding-right: 0; }
 .stack thead { position: absolute; clip-path: inset(50%); } .stack th { padding-top: .6rem; } }
@media print { main { max-width: none; padding: 0; } body { font-size: 10pt; } a { color: inherit; }
 section.card, figure, tr, dl { break-inside: avoid; } thead, h2, h3, .caption { break-after: avoid; }
 pre { white-space: pre-wrap; }
 details::details-content { content-visibility: visible; block-size: auto; } .wide { overflow: visible; } }
</style>
</head>
<body>
<main>
{% block main %}{% endblock %}
</main>
</body>
</html>
"""


def rendered(template: str, **told: Any) -> str:
    """A page from the template of its main part; everything that came from outside is escaped."""
    page = '{% extends "frame" %}{% block main %}' + template + "{% endblock %}"
    return environment(frame=_FRAME, palette=PALETTE, page=page).get_template("page").render(**told)


def environment(**templates: str) -> Environment:
    """Where templates are rendered: everything that came from outside is escaped, and holds nothing a page cannot."""
    try:
        from jinja2 import DictLoader, Environment, StrictUndefined
    except ImportError as missing:
        raise MissingExtra(missing.name or "jinja2", "report") from None
    return Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, loader=DictLoader(templates), finalize=held
    )


# ---- Charts: readings with their intervals, drawn offline as SVG that needs no script.


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
