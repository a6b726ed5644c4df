"""Codebook page: one row per column, with a small chart of its released counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.publish.page_style import rendered

__all__ = ["codebook_page"]

_TEMPLATE = """<h1>{{ title }}</h1>
<p>{{ units }}</p>
{% if sizes %}<p>{{ sizes }}</p>{% endif %}
<div class="wide"><table class="stack">
<caption>Columns</caption>
<thead><tr><th class="label" scope="col">column</th><th class="label" scope="col">what it holds</th>
<th class="label" scope="col">distribution</th></tr></thead>
<tbody>{% for one in columns %}<tr><th class="label" scope="row"><strong>{{ one.name }}</strong></th>
<td class="text">{{ one.words }}
{% if one.labels %}<br><span class="soft">{{ one.labels }}</span>{% endif %}
<br><small>{{ one.origin }}</small></td><td class="text">{% if one.bars %}
<svg class="hist" role="img" aria-label="{{ one.chart }}" width="170" height="36" viewBox="0 0 170 36">
{% for bar in one.bars %}<rect x="{{ bar.x }}" y="{{ bar.y }}" width="{{ bar.width }}" height="{{ bar.height }}"/>
{% endfor %}</svg><small>{{ one.range_words }}</small>{% endif %}</td></tr>{% endfor %}</tbody></table></div>
<p class="soft small">The area of a bar is a noisy count of the values there; the drawing ends at the bounds.</p>
<div class="card"><h2>How it is protected</h2><dl>
{% for name, text in protection %}<dt>{{ name }}</dt><dd>{{ text }}</dd>{% endfor %}</dl></div>
"""
_WIDTH, _HEIGHT = 170.0, 36.0
_NARROWEST = 1 / 40
"""Part of the range; narrower cells are drawn with their neighbour."""


def codebook_page(codebook: Mapping[str, Any]) -> str:
    """The page, from what `Codebook.to_dict` returns."""
    columns = [{**one, **_chart(one)} for one in codebook["columns"]]
    return rendered(
        _TEMPLATE,
        title=f"Codebook of {codebook['source']}",
        units=codebook["units_words"],
        sizes=codebook["sizes_words"],
        columns=columns,
        protection=codebook["protection_words"],
    )


def _chart(column: Mapping[str, Any]) -> dict[str, Any]:
    """Bars between the bounds of a column, whose areas are counts; noise below zero is not drawn."""
    low, high, edges = column["low"], column["high"], column["histogram"]["edges"]
    if low is None:
        return {"bars": [], "chart": ""}
    end = high + 1 if column["kind"] in ("whole number", "date") else high
    narrowest = (end - low) * _NARROWEST
    cells: list[list[float]] = []
    for start, stop, count in zip(edges, edges[1:], column["histogram"]["counts"][1:], strict=False):
        if stop <= low or start >= end:
            continue
        if cells and cells[-1][1] - cells[-1][0] < narrowest:  # noise over a narrow cell would tower above the rest
            cells[-1][1:] = [stop, cells[-1][2] + count]
        else:
            cells.append([start, stop, count])
    heights = [max(count, 0.0) / (stop - start) for start, stop, count in cells]
    most = max(heights, default=0.0)
    if not most:
        return {"bars": [], "chart": ""}
    bars = []
    for (start, stop, _), height in zip(cells, heights, strict=True):
        left, right = (_WIDTH * (min(max(place, low), end) - low) / (end - low) for place in (start, stop))
        tall = _HEIGHT * height / most
        bars.append({
            "x": f"{left:.1f}", "y": f"{_HEIGHT - tall:.1f}", "width": f"{max(right - left - 0.5, 0.5):.1f}",
            "height": f"{tall:.1f}",
        })  # fmt: skip
    return {"bars": bars, "chart": f"Histogram of noisy counts from {column['range_words']}"}
