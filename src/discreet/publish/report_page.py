"""Report page: facts as one self-contained HTML file that reads like a publication."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.core.errors import MissingExtra
from discreet.publish.charts import svg
from discreet.publish.findings import findings, grids, label_columns, label_words, place_of
from discreet.publish.page_style import rendered
from discreet.publish.readings import by_measure, reliability
from discreet.publish.wording import measure_words, mechanism_words, moment, pvalue_words, reading_words, verdict

__all__ = ["as_page"]

_TEMPLATE = """
{% macro marked(reading) %}{{ words(reading)[0] }}{% set flag = reliability(reading) %}{% if flag %}<sup
 title="{{ flag }}">{{ "u" if flag == "unreliable" else "c" }}</sup>{% endif %}{% endmacro %}
{% macro list(release, readings) %}
{% set labels = label_columns(readings) %}
<thead><tr>{% for name in labels %}<th scope="col" class="label">{{ variables.get(name, name) }}</th>{% endfor %}
<th scope="col">estimate</th>
{% if has(readings, "noise") %}<th scope="col" class="noise">noise interval</th>{% endif %}
{% if has(readings, "population") %}<th scope="col" class="both">population interval</th>{% endif %}
{% if has(readings, "pvalue") %}<th scope="col">p-value</th>{% endif %}</tr></thead>
<tbody>{% for reading in readings %}{% set _, noise, both = words(reading) %}
<tr>{% for name in labels %}<th scope="row" class="label">{{ label_words(place_of(reading).get(name), name) }}</th>{%
endfor %}
<td>{{ marked(reading) }}</td>
{% if has(readings, "noise") %}<td>{{ noise }}</td>{% endif %}
{% if has(readings, "population") %}<td>{{ both }}</td>{% endif %}
{% if has(readings, "pvalue") %}<td>{{ pvalue_words(reading.pvalue) }}</td>{% endif %}</tr>{% endfor %}
</tbody>
{% endmacro %}
{% macro titled(words) %}
<p class="caption" aria-hidden="true">{{ words[:1] | upper }}{{ words[1:] }}</p>
<div class="wide"><table><caption>{{ words[:1] | upper }}{{ words[1:] }}</caption>{{ caller() }}</table></div>
{% endmacro %}
{% macro grid(table, kind) %}
<thead><tr>{% for _ in table.down %}<td></td>{% endfor %}<th scope="colgroup" colspan="{{ table.heads | length }}"
 style="text-align:center">{{ variables.get(table.across, table.across) }}</th></tr>
<tr>{% for name in table.down %}<th scope="col" class="label">{{ variables.get(name, name) }}</th>{% endfor %}
{% for head in table.heads %}<th scope="col"{% if head is none %} class="total"{% endif %}>{{
label_words(head, table.across) }}</th>{% endfor %}</tr></thead>
<tbody>{% for side, cells in table.lines %}{% set before = () if loop.first else table.lines[loop.index0 - 1][0] %}
<tr{% if none in side %} class="total"{% endif %}>{% for label in side %}<th scope="row" class="label{{
" again" if before[:loop.index] == side[:loop.index] }}">{{ label_words(label, table.down[loop.index0]) }}</th>
{% endfor %}
{% for cell in cells %}<td{% if table.heads[loop.index0] is none %} class="total"{% endif %}>{% if cell %}{{
marked(cell) }}{% if cell[kind] %}<small>{{ words(cell)[1 if kind == "noise" else 2] }}</small>{% endif
%}{% endif %}</td>{% endfor %}</tr>{% endfor %}
</tbody>
{% endmacro %}
<h1>{{ title }}</h1>
<p class="soft">Made with discreet {{ version }}, {{ moment(created) }}.</p>
<p>All numbers are protected by differential privacy, {{ privacy.budget.symbols }}: {{ privacy.budget.words }}.
<a href="#privacy">What that means</a>, and <a href="#assumed">what was assumed</a>.</p>
{% if kept %}<p>{{ kept }}</p>{% endif %}
<nav class="card" aria-labelledby="short">
<h2 id="short">Main findings</h2>
<ul>{% for release in releases %}
<li><a href="#r{{ loop.index }}">{{ release.title }}</a>: {{ found[loop.index0] | join(" ") }}{% if release.counted %}
 <span class="soft">Counted: {{ release.counted }}.</span>{% endif %}</li>
{% endfor %}</ul>
</nav>
<p>Every number carries noise that protects people, and its law is known. All intervals hold with 95 % confidence, each
by itself unless a finding says that several hold at once. The <span class="noise">noise interval</span> covers the
value in this data, as counted. The <span class="both">population interval</span> adds sampling error: it covers the
value in the population that the data is a random sample of.</p>
{% for release in releases %}
<section aria-labelledby="r{{ loop.index }}">
<h2 id="r{{ loop.index }}">{{ release.title }}</h2>
<p class="soft">{{ release.meaning }}</p>
{% if release.test %}<p><strong>{{ verdict(release.test) }}</strong></p>{% endif %}
{% if charts[loop.index0] %}<figure role="img" aria-label="Chart: {{ release.title }}">{{ charts[loop.index0] }}
<figcaption>Dot: estimate.{% if has(release.readings, "noise") %} Thick blue bar: noise interval.{% endif %}
{% if has(release.readings, "population") %} Thin amber bar: population interval.{% endif %}</figcaption></figure>
{% endif %}
{% for measure, readings in by_measure(release.readings).items() %}
{% set named = measure_words(release, measure) %}
{% set tables = grids(readings + (release.margins if measure == "count" else [])) %}
{% set kind = "population" if has(readings, "population") else "noise" %}
{% for table in tables %}
{% call titled(named ~ " by " ~ table.name ~ (", with 95 % " ~ kind ~ " intervals" if has(readings, kind) else "")) %}
{{ grid(table, kind) }}{% endcall %}
{% endfor %}
{% if tables and has(readings, "population") and has(readings, "noise") %}
<details><summary>Both intervals of every number</summary>
{% call titled(named ~ ", with 95 % intervals") %}{{ list(release, readings) }}{% endcall %}
</details>
{% elif not tables %}
{% set known = has(readings, "noise") or has(readings, "population") %}
{% call titled(named ~ (", with 95 % intervals" if known else "")) %}{{ list(release, readings) }}{% endcall %}
{% endif %}
{% endfor %}
{% if flagged(release) %}<p class="small soft"><sup>c</sup> Use with caution: the standard error is more than 16.5 % of
the number. <sup>u</sup> Unreliable: more than 33.3 %.</p>{% endif %}
<dl class="small">
{% if release.counted %}<dt>Counted</dt><dd>{{ release.counted }}</dd>{% endif %}
<dt>Guarantee</dt><dd>{{ release.guarantee.symbols if release.guarantee else "none" }}</dd>
<dt>Mechanism</dt><dd>{{ mechanism(release) }}</dd>
<dt>Release</dt><dd><code>{{ release.release_id[:12] }}</code>, {{ moment(release.created) }}</dd>
</dl>
</section>
{% endfor %}
<section class="card" aria-labelledby="privacy">
<h2 id="privacy">What is protected</h2>
<p>{{ privacy.protects }}</p>
<dl>
<dt>Budget</dt><dd>{{ privacy.budget.symbols }}: {{ privacy.budget.words }}</dd>
<dt>Spent</dt><dd>{{ privacy.spent.symbols }}</dd>
<dt>Left</dt><dd>{{ privacy.remaining.symbols }}</dd>
<dt>Ledger head</dt><dd><code>{{ privacy.head }}</code></dd>
</dl>
<div class="bar" role="img" aria-label="{{ share }} percent of the budget is spent">
<span style="width:{{ share }}%"></span></div>
<p class="soft">{{ share }} % of the budget is spent.</p>
</section>
<section aria-labelledby="assumed"><h2 id="assumed">What was assumed</h2>
<ul>{% for said in assumptions %}<li>{{ said }}</li>{% endfor %}</ul></section>
<section aria-labelledby="plan"><h2 id="plan">The plan</h2>
<pre tabindex="0" aria-label="The plan file">{{ plan }}</pre></section>
"""


def as_page(facts: Mapping[str, Any]) -> str:
    """The report as HTML."""
    try:
        from markupsafe import Markup
    except ImportError as missing:
        raise MissingExtra(missing.name or "markupsafe", "report") from None
    drawn = [svg(release) for release in facts["releases"]]
    return rendered(
        _TEMPLATE,
        **facts,
        # The chart library writes escaped SVG without scripts; it is the only text that is not escaped again.
        charts=[None if one is None else Markup(one) for one in drawn],
        found=[findings(release) for release in facts["releases"]],
        share=_share(facts["privacy"]),
        words=reading_words,
        moment=moment,
        mechanism=mechanism_words,
        measure_words=measure_words,
        place_of=place_of,
        verdict=verdict,
        pvalue_words=pvalue_words,
        by_measure=by_measure,
        grids=grids,
        label_columns=label_columns,
        label_words=label_words,
        reliability=reliability,
        flagged=lambda release: any(reliability(reading) for reading in release["readings"]),
        has=lambda readings, kind: any(reading.get(kind) is not None for reading in readings),
    )


def _share(privacy: Mapping[str, Any]) -> int:
    """Percentage of the budget that is spent, by its first parameter; ledgers may count in another currency."""
    budget, left = privacy["budget"], privacy["remaining"]
    for name in ("epsilon", "rho", "mu"):
        if budget.get(name) and left.get(name) is not None:
            power = 2 if name == "mu" else 1
            used = 1 - float(left[name] / budget[name]) ** power
            return round(100 * used)
    return 100
