"""Review as markdown and as a page: what an officer reads and keeps."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from discreet.results.charts import environment
from discreet.results.display import printable
from discreet.results.printed import plain

if TYPE_CHECKING:
    from markupsafe import Markup


def review_page(facts: Mapping[str, Any]) -> str:
    """The review as one self-contained HTML file, everything escaped."""
    pages = environment()
    pages.filters["coded"] = coded
    return pages.get_template("review.html").render(**facts)


def coded(text: str) -> Markup:
    """Escaped text, with what stands between backticks as code."""
    from markupsafe import Markup, escape

    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def review_markdown(facts: Mapping[str, Any], escape: Callable[[str], str] = plain) -> str:
    """The review as markdown, with names escaped; a terminal shows marks as they are, so `printable` will do there."""
    changes = facts["changes"]
    changed = (
        ["No earlier version was approved."]
        if changes is None
        else [f"- {escape(line)}" for line in changes] or ["Nothing, since the version that was approved last."]
    )
    public = [
        f"{escape(one['name'])}: {escape(one['fact'])}. Source: {escape(one['source'] or 'NONE GIVEN')}"
        for one in facts["public"]
    ]
    releases = [
        f"{escape(one['title'])}: {escape(one['tells'])} Likely error: {escape(one['exact'])}. Cost: {one['cost']}."
        for one in facts["releases"]
    ]
    # Answers hold code between backticks, which stay.
    answers = [(question, escape(answer or "").replace("\\`", "`")) for question, answer in facts["checklist"]]
    return "\n".join(
        [
            f"# Review of {escape(facts['title'])}",
            "",
            f"Plan {facts['digest']}",
            f"Approvals: {escape(facts['approvals'])}.",
            "",
            "## Who is protected",
            "",
            *(f"- {escape(line)}" for line in facts["protected"]),
            "",
            "## What is taken as public",
            "",
            *(f"- {line}" for line in public),
            "",
            "## What will be released",
            "",
            *(f"- {line}" for line in releases),
            "",
            f"Together: {facts['cost']}. The ledger has {facts['left']} left.",
            "",
            "## What an attacker could still learn",
            "",
            *(f"- {escape(line)}" for line in facts["attacker"]),
            "",
            "## What changed",
            "",
            *changed,
            "",
            "## Checklist (after NIST SP 800-226)",
            "",
            *(f"- {question} {answer or '[ ]'}" for question, answer in answers),
        ]
    )


# ---- Codebook page: one row per column, with a small chart of its released counts.


_WIDTH, _HEIGHT = 170.0, 36.0
_NARROWEST = 1 / 40
"""Part of the range; narrower cells are drawn with their neighbour."""


def codebook_page(codebook: Mapping[str, Any]) -> str:
    """The page, from what `Codebook.to_dict` returns."""
    columns = [{**one, **_chart(one)} for one in codebook["columns"]]
    return (
        environment()
        .get_template("codebook.html")
        .render(
            title=f"Codebook of {codebook['source']}",
            units=codebook["units_words"],
            sizes=codebook["sizes_words"],
            columns=columns,
            protection=codebook["protection_words"],
        )
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


# ---- DDI-Codebook: a codebook as the XML that statistical offices and data archives exchange
#
# Offices read DDI-Codebook 2.5 in their catalogues (NADA, Nesstar, CESSDA). A CSVW or Frictionless schema describes the
# cells of one file to programs, and has no place for quartiles, proportions or who is protected.


_NAMESPACE = "ddi:codebook:2_5"
_NUMBERS = {"number": "contin", "whole number": "discrete", "date": "contin"}
_QUARTILES = ("25 % quantile", "median", "75 % quantile")


def ddi_codebook(codebook: Mapping[str, Any]) -> str:
    """The XML text, from what `Codebook.to_dict` returns."""
    root = ElementTree.Element("codeBook", {"xmlns": _NAMESPACE, "version": "2.5"})
    study = ElementTree.SubElement(root, "stdyDscr")
    citation = ElementTree.SubElement(ElementTree.SubElement(study, "citation"), "titlStmt")
    ElementTree.SubElement(citation, "titl").text = f"Codebook of {codebook['source']}"
    access = ElementTree.SubElement(ElementTree.SubElement(study, "dataAccs"), "useStmt")
    ElementTree.SubElement(access, "confDec").text = "; ".join(
        f"{name}: {text}" for name, text in codebook["protection_words"]
    )
    data = ElementTree.SubElement(root, "dataDscr")
    for place, one in enumerate(codebook["columns"], 1):
        _variable(data, place, one)
    for one in root.iter():
        one.attrib = {name: printable(value) for name, value in one.attrib.items()}
        one.text = None if one.text is None else printable(one.text)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _variable(data: ElementTree.Element, place: int, one: Mapping[str, Any]) -> None:
    """One variable: range, proportions and quartiles, labels, and where the facts come from."""
    kind = _NUMBERS.get(one["kind"])
    found = ElementTree.SubElement(data, "var", {"ID": f"V{place}", "name": one["name"]})
    if kind is not None:
        found.set("intrvl", kind)
    if one["low"] is not None:
        valid = ElementTree.SubElement(found, "valrng")
        units = "INT" if kind == "discrete" else "REAL"
        ElementTree.SubElement(valid, "range", {"UNITS": units, "min": one["low_words"], "max": one["high_words"]})
    for name, value in zip(_QUARTILES, one["quartile_words"], strict=False):
        kinds = {"type": "medn"} if name == "median" else {"type": "other", "otherType": name}
        ElementTree.SubElement(found, "sumStat", kinds).text = value
    missing = {"type": "other", "otherType": "proportion missing"}
    ElementTree.SubElement(found, "sumStat", missing).text = f"{one['missing']['value']:.4f}"
    for label in one.get("label_list") or ():
        ElementTree.SubElement(ElementTree.SubElement(found, "catgry"), "catValu").text = str(label)
    date = {"category": "date"} if one["kind"] == "date" else {}
    ElementTree.SubElement(found, "varFormat", {"type": "character" if date or kind is None else "numeric", **date})
    ElementTree.SubElement(found, "notes").text = f"{one['words']}. {one['origin']}."
