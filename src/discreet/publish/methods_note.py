"""Methods note: what was protected, how, and what was taken as public; ready to be pasted into a publication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from discreet.publish.page_style import rendered
from discreet.publish.prose import plain, table_lines
from discreet.publish.wording import mechanism_words, moment

__all__ = ["Part", "methods_markdown", "methods_page", "methods_parts"]


@dataclass(frozen=True)
class Part:
    """A heading with paragraphs, a table with its header first, and points below."""

    title: str
    paragraphs: Sequence[str] = ()
    table: Sequence[Sequence[str]] = ()
    points: Sequence[str] = ()


def methods_parts(facts: Mapping[str, Any]) -> list[Part]:
    """The note, part by part, from the facts of a report."""
    return [
        _protected(facts),
        _how(facts),
        Part("What was taken as public", points=facts["assumptions"]),
        _intervals(facts),
        _omitted(facts),
        _cite(facts),
    ]


def _protected(facts: Mapping[str, Any]) -> Part:
    privacy, unit = facts["privacy"], facts["privacy"]["unit"]
    against = sorted({release["protects"] for release in facts["releases"]})
    return Part(
        "What was protected",
        [
            f"All statistics were released under differential privacy. The protected unit is one {unit}. The guarantee "
            f"compares data sets that differ by {'; or '.join(against) or 'one unit'}.",
            f"The releases together satisfy {privacy['spent']['symbols']}: {privacy['spent']['words']}. "
            f"The budget is {privacy['budget']['symbols']}. {privacy['protects']}",
        ],
    )


def _how(facts: Mapping[str, Any]) -> Part:
    rows = [("Release", "Statistic", "Guarantee", "Mechanism")]
    for release in facts["releases"]:
        guarantee = "none" if release["guarantee"] is None else release["guarantee"]["symbols"]
        rows.append((release["title"], release["ask"].replace("_", " "), guarantee, mechanism_words(release)))
    return Part(
        "How it was protected",
        [
            f"The statistics were computed with discreet {facts['version']}. It adds random noise from the operating "
            "system's entropy, calibrated to how far one unit can move each result, and verifies every guarantee "
            "against the exact privacy loss of the mechanism before it draws. A ledger on disk records each release "
            f"before its noise is drawn; its last entry has the checksum {facts['privacy']['head']}.",
        ],
        rows,
    )


def _intervals(facts: Mapping[str, Any]) -> Part:
    readings = [reading for release in facts["releases"] for reading in release["readings"]]
    said = []
    if any(reading["noise"] for reading in readings):
        said.append(
            "Noise intervals (95 %) cover the value in the data, as counted. They follow from the known distribution "
            "of the noise, which is the only uncertainty they include."
        )
    if any(reading["population"] for reading in readings):
        said.append(
            "Population intervals (95 %) cover the value in the population of which the data is a random sample. "
            "They include both the noise and sampling error."
        )
    tests = sorted({release["test"]["test"] for release in facts["releases"] if release["test"]})
    if tests:
        said.append(
            f"Tests ({', '.join(tests)}) use the released numbers alone. Their null distribution includes the noise."
        )
    if any(not (reading["noise"] or reading["population"]) for reading in readings):
        said.append("Some results, such as labels that were chosen, have no interval.")
    together = any(release["test"] and release["test"].get("together") for release in facts["releases"])
    said.append(
        "The intervals of a comparison of several arms hold at once (Bonferroni). Every other interval holds by itself."
        if together
        else "Each interval holds by itself; none of them is adjusted for looking at several."
    )
    return Part("How intervals and tests were made", points=said)


def _omitted(facts: Mapping[str, Any]) -> Part:
    counted = {release["counted"] for release in facts["releases"] if release["counted"]}
    return Part(
        "What was left out",
        [
            "Rows were dropped and values were moved as stated above under what was taken as public. How many rows "
            "this concerned is not known unless a release counts them: their number is private, too.",
        ],
        points=[*(f"Counted: {one}." for one in sorted(counted)), *_unreliable(facts)],
    )


def _unreliable(facts: Mapping[str, Any]) -> list[str]:
    return [
        "Counts are flagged where the standard error of their noise exceeds 16.5 % (caution) or 33.3 % (unreliable) of "
        "the count. No count was suppressed for being small: the noise protects small counts, too."
    ] * any(reading["measure"] == "count" for release in facts["releases"] for reading in release["readings"])


def _cite(facts: Mapping[str, Any]) -> Part:
    version, privacy = facts["version"], facts["privacy"]
    return Part(
        "How to cite",
        [
            f"{facts['title']}. Statistics released under differential privacy ({privacy['spent']['symbols']}, per "
            f"{privacy['unit']}) with discreet {version}, {moment(facts['created'])}. Ledger head "
            f"{privacy['head'][:16]}.",
            f"discreet {version}: statistics and conclusions under differential privacy. Open-source software, "
            "Apache-2.0.",
        ],
    )


def methods_markdown(facts: Mapping[str, Any]) -> str:
    """The note as markdown."""
    lines = [f"# Methods: {plain(facts['title'])}", ""]
    for part in methods_parts(facts):
        lines += [f"## {part.title}", "", *(line for said in part.paragraphs for line in (plain(said), ""))]
        lines += [*table_lines(part.table), ""] if part.table else []
        lines += [*(f"- {plain(said)}" for said in part.points), ""] if part.points else []
    return "\n".join(lines)


_TEMPLATE = """
<h1>Methods: {{ title }}</h1>
<p class="soft">Ready to be pasted into a publication. Made with discreet {{ version }}.</p>
{% for part in parts %}
<section aria-labelledby="p{{ loop.index }}"><h2 id="p{{ loop.index }}">{{ part.title }}</h2>
{% for said in part.paragraphs %}<p>{{ said }}</p>{% endfor %}
{% if part.table %}<div class="wide"><table class="stack"><caption>{{ part.title }}</caption>
<thead><tr>{% for head in part.table[0] %}<th scope="col" class="label">{{ head }}</th>{% endfor %}</tr></thead>
<tbody>{% for row in part.table[1:] %}<tr>{% for text in row %}<td class="text">{{ text }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table></div>{% endif %}
{% if part.points %}<ul>{% for said in part.points %}<li>{{ said }}</li>{% endfor %}</ul>{% endif %}
</section>
{% endfor %}
"""


def methods_page(facts: Mapping[str, Any]) -> str:
    """The note as a self-contained page."""
    return rendered(_TEMPLATE, title=facts["title"], version=facts["version"], parts=methods_parts(facts))
