"""Page style: what all pages share. No script, nothing fetched; for phones, screens at night and paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discreet.core.errors import MissingExtra
from discreet.display import held

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["PALETTE", "environment", "rendered"]

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
h1 { font-size: 1.7rem; line-height: 1.25; margin: .5rem 0; overflow-wrap: anywhere; }
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
