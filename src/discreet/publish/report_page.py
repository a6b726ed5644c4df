"""Page: facts as one self-contained HTML file: no script, nothing fetched, readable on a phone and on paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.core.errors import MissingExtra
from discreet.publish.charts import svg
from discreet.publish.prose import mechanism_words, moment, reading_words, verdict
from discreet.publish.readings import by_measure

__all__ = ["as_page"]

_TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{{ title }}</title>
<style>
:root { color-scheme: light; --ink: #16191d; --soft: #50565e; --line: #d4d8dd; --blue: #0b5cad; --amber: #b4530a; }
* { box-sizing: border-box; }
body { margin: 0; font: 1rem/1.55 system-ui, sans-serif; color: var(--ink); background: #fff; }
main { max-width: 54rem; margin: 0 auto; padding: 1.25rem 1rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .3rem; }
.soft { color: var(--soft); }
.card { border: 1px solid var(--line); border-radius: .5rem; padding: 1rem; margin: 1rem 0; }
.bar { height: .9rem; background: #e6e9ed; border-radius: .45rem; overflow: hidden; }
.bar span { display: block; height: 100%; background: var(--blue); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; margin: .6rem 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .6rem 0; }
.unseen { position: absolute; clip-path: inset(50%); }
.short { gap: .3rem 1.2rem; } .card > :last-child { margin-bottom: 0; }
caption { text-align: left; color: var(--soft); padding-bottom: .3rem; }
th, td { text-align: right; padding: .3rem 1.6rem .3rem .6rem; white-space: nowrap; }
tr { border-bottom: 1px solid var(--line); }
th[scope=row], thead th:first-child { text-align: left; white-space: normal; }
figure { margin: 1rem 0; } figure svg { width: 100%; max-width: 30rem; height: auto; }
figcaption { color: var(--soft); font-size: .9rem; }
.noise { color: var(--blue); font-weight: 600; } .both { color: var(--amber); font-weight: 600; }
pre { overflow-x: auto; background: #f5f6f8; padding: 1rem; border-radius: .5rem; font-size: .85rem; }
@media (max-width: 34rem) { dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; }
 th, td { padding: .3rem .3rem; white-space: normal; font-size: .92rem; } }
@media print { main { max-width: none; padding: 0; } .card, figure, table { break-inside: avoid; }
 pre { white-space: pre-wrap; } details > * { display: block; } }
</style>
</head>
<body>
<main>
<h1>{{ title }}</h1>
<p class="soft">Made with discreet {{ version }}, {{ moment(created) }}.</p>
<section class="card" aria-labelledby="privacy">
<h2 id="privacy" style="margin-top:0">What is protected</h2>
<p>{{ privacy.protects }}</p>
<dl>
<dt>Budget</dt><dd>{{ privacy.budget.symbols }}</dd>
<dt>In words</dt><dd>{{ privacy.budget.words }}</dd>
<dt>Spent</dt><dd>{{ privacy.spent.symbols }}</dd>
<dt>Left</dt><dd>{{ privacy.remaining.symbols }}</dd>
<dt>Ledger head</dt><dd><code>{{ privacy.head }}</code></dd>
</dl>
<div class="bar" role="img" aria-label="{{ share }} percent of the budget is spent">
<span style="width:{{ share }}%"></span></div>
<p class="soft">{{ share }} % of the budget is spent.</p>
</section>
{% if kept %}<p>{{ kept }}</p>{% endif %}
<nav class="card" aria-labelledby="short">
<h2 id="short" style="margin-top:0">In short</h2>
<dl class="short">{% for release in releases %}
<dt><a href="#r{{ loop.index }}">{{ release.title }}</a></dt>
<dd>{% set first = (by_measure(release.readings).values() | list)[0] if release.readings else [] %}
{% if release.test %}{{ verdict(release.test) }}{% elif first | length == 1 %}
{% set estimate, noise, both = words(first[0]) %}<strong>{{ estimate }}</strong> ({{
both if has(release, "population") else noise }}){% elif first | length <= 4 %}
{% for reading in first %}{{ reading.label }} <strong>{{ words(reading)[0] }}</strong>{{
"" if loop.last else "; " }}{% endfor %}{% else %}{{ first | length }} numbers{% endif %}
{% if release.counted %}<span class="soft">{{ release.counted }}</span>{% endif %}</dd>
{% endfor %}</dl>
</nav>
<p>Every number carries noise that protects people, and its law is known. Intervals hold with 95 % confidence:
<span class="noise">noise</span> covers the value in this data, as counted; <span class="both">noise and
sampling</span> covers the value in the population that the data is a random sample of.</p>
{% for release in releases %}
<section aria-labelledby="r{{ loop.index }}">
<h2 id="r{{ loop.index }}">{{ release.title }}</h2>
<p class="soft">{{ release.meaning }}</p>
{% if release.test %}<p><strong>{{ verdict(release.test) }}</strong></p>{% endif %}
{% if charts[loop.index0] %}<figure role="img" aria-label="Chart: {{ release.title }}">{{ charts[loop.index0] }}
<figcaption>Dot: estimate.{% if has(release, "noise") %} Thick blue bar: noise.{% endif %}
{% if has(release, "population") %} Thin amber bar: noise and sampling.{% endif %}</figcaption></figure>{% endif %}
{% for measure, readings in by_measure(release.readings).items() %}
<div class="wide"><table>
<caption>{{ measure | capitalize }}{% if has(release, "noise") or has(release, "population") %}, with 95 % intervals{%
endif %}</caption>
<thead><tr><th scope="col"><span class="unseen">of</span></th><th scope="col">estimate</th>
{% if has(release, "noise") %}<th scope="col" class="noise">noise</th>{% endif %}
{% if has(release, "population") %}<th scope="col" class="both">noise and sampling</th>{% endif %}</tr></thead>
<tbody>{% for reading in readings %}{% set estimate, noise, both = words(reading) %}
<tr><th scope="row">{{ reading.label or "value" }}</th><td>{{ estimate }}</td>
{% if has(release, "noise") %}<td>{{ noise }}</td>{% endif %}
{% if has(release, "population") %}<td>{{ both }}</td>{% endif %}</tr>{% endfor %}
</tbody></table></div>
{% endfor %}
<dl>
{% if release.counted %}<dt>Counted</dt><dd>{{ release.counted }}</dd>{% endif %}
<dt>Guarantee</dt><dd>{{ release.guarantee.symbols if release.guarantee else "none" }}</dd>
<dt>Mechanism</dt><dd>{{ mechanism(release) }}</dd>
<dt>Release</dt><dd><code>{{ release.release_id[:12] }}</code>, {{ moment(release.created) }}</dd>
</dl>
</section>
{% endfor %}
<section aria-labelledby="assumed"><h2 id="assumed">What was assumed</h2>
<ul>{% for said in assumptions %}<li>{{ said }}</li>{% endfor %}</ul></section>
<section aria-labelledby="plan"><h2 id="plan">The plan</h2>
<pre tabindex="0" aria-label="The plan file">{{ plan }}</pre></section>
</main>
</body>
</html>
"""


def as_page(facts: Mapping[str, Any]) -> str:
    """The report as HTML; everything that came from outside is escaped."""
    try:
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup
    except ImportError as missing:
        raise MissingExtra(missing.name or "jinja2", "report") from None
    drawn = [svg(release) for release in facts["releases"]]
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.from_string(_TEMPLATE).render(
        **facts,
        # The chart library writes escaped SVG without scripts; it is the only text that is not escaped again.
        charts=[None if one is None else Markup(one) for one in drawn],
        share=_share(facts["privacy"]),
        words=reading_words,
        moment=moment,
        mechanism=mechanism_words,
        verdict=verdict,
        by_measure=by_measure,
        has=lambda release, kind: any(reading[kind] for reading in release["readings"]),
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
