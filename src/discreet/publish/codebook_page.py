"""Codebook page: one row per column, with a small chart of its released counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from discreet.publish.page_style import rendered

__all__ = ["codebook_page"]

_TEMPLATE = """<h1>{{ title }}</h1>
<p>{{ units }}</p>
{% if sizes %}<p>{{ sizes }}</p>{% endif %}
<div class="wide"><table>
<caption>Columns</caption>
<thead><tr><th class="label" scope="col">column</th><th class="label" scope="col">what it holds</th>
<th class="label" scope="col">released counts</th></tr></thead>
<tbody>{% for one in columns %}<tr><th class="label" scope="row">{{ one.name }}</th><td class="text">{{ one.words }}
{% if one.labels %}<br><span class="soft">{{ one.labels }}</span>{% endif %}
<br><small>{{ one.origin }}</small></td><td>{% if one.bars %}
<svg role="img" aria-label="{{ one.chart }}" width="170" height="36" viewBox="0 0 170 36">
{% for bar in one.bars %}<rect x="{{ bar.x }}" y="{{ bar.y }}" width="{{ bar.width }}" height="{{ bar.height }}"
 fill="#0b5cad"/>{% endfor %}</svg>
<br><small>{{ one.edge_words }}, and beyond</small>{% endif %}</td></tr>{% endfor %}</tbody></table></div>
<div class="card"><h2>How it is protected</h2><dl>
{% for name, text in protection %}<dt>{{ name }}</dt><dd>{{ text }}</dd>{% endfor %}</dl></div>
"""
_WIDTH, _HEIGHT = 170.0, 36.0


def codebook_page(codebook: Mapping[str, Any]) -> str:
    """The page, from what `Codebook.to_dict` returns."""
    columns = [{**one, **_chart(one["histogram"])} for one in codebook["columns"]]
    return rendered(
        _TEMPLATE,
        title=f"Codebook of {codebook['source']}",
        units=codebook["units_words"],
        sizes=codebook["sizes_words"],
        columns=columns,
        protection=codebook["protection_words"],
    )


def _chart(histogram: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Bars of equal width, one per cell; noise below zero is not drawn."""
    counts = [max(float(count), 0.0) for count in histogram["counts"]]
    most = max(counts, default=0.0)
    if not most:
        return {"bars": [], "chart": ""}
    wide = _WIDTH / len(counts)
    bars = [
        {
            "x": f"{place * wide:.1f}",
            "y": f"{_HEIGHT * (1 - count / most):.1f}",
            "width": f"{max(wide - 1, 0.5):.1f}",
            "height": f"{_HEIGHT * count / most:.1f}",
        }
        for place, count in enumerate(counts)
    ]
    return {"bars": bars, "chart": f"Noisy counts in {len(counts)} cells, from the lowest values to the highest"}
