"""Charts: readings with their intervals, drawn offline as SVG that needs no script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.errors import MissingExtra

__all__ = ["chart", "svg"]

_NOISE, _BOTH, _DOT = "#0b5cad", "#b4530a", "#111111"
_MOST_LABELS = 40


def chart(release: Mapping[str, Any]) -> Any:
    """The Altair chart of a release's readings; None where there is nothing to compare."""
    rows = _rows(release)
    if not 1 < len(rows) <= _MOST_LABELS:
        return None
    import altair as alt

    names = [row["label"] for row in rows]
    data = alt.InlineData(values=rows)
    y = alt.Y(field="label", type="nominal", title=None, sort=names, axis=alt.Axis(labelLimit=220))
    title = "estimate with 95 % intervals"
    layers = []
    for low, high, colour, width in (("wide_low", "wide_high", _BOTH, 3), ("low", "high", _NOISE, 7)):
        if any(row[low] is not None for row in rows):
            mark = alt.Chart(data).mark_rule(color=colour, strokeWidth=width, opacity=0.75)
            x = alt.X(field=low, type="quantitative", title=title, scale=alt.Scale(zero=False))
            layers.append(mark.encode(y=y, x=x, x2=alt.X2(field=high)))
    dot = alt.Chart(data).mark_point(color=_DOT, filled=True, size=60)
    x = alt.X(field="estimate", type="quantitative", title=title, scale=alt.Scale(zero=False))
    layers.append(dot.encode(y=y, x=x))
    return alt.layer(*layers).properties(
        width=420, height=max(26 * len(rows), 60), description=f"{release['title']}: estimates with intervals"
    )


def _rows(release: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for reading in release["readings"]:
        noise, wide = reading["noise"] or {}, reading["population"] or {}
        rows.append(
            {
                "label": reading["label"] or "value",
                "estimate": reading["estimate"],
                "low": noise.get("low"),
                "high": noise.get("high"),
                "wide_low": wide.get("low"),
                "wide_high": wide.get("high"),
            }
        )
    return rows


def svg(release: Mapping[str, Any]) -> str | None:
    """The chart as SVG text for a page, or None."""
    try:
        import altair  # noqa: F401
        import vl_convert
    except ImportError as missing:
        raise MissingExtra(missing.name or "altair", "report") from None
    drawn = chart(release)
    if drawn is None:
        return None
    return str(vl_convert.vegalite_to_svg(drawn.to_dict()))
