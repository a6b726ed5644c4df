"""DDI-Codebook: a codebook as the XML that statistical offices and data archives exchange.

Offices read DDI-Codebook 2.5 in their catalogues (NADA, Nesstar, CESSDA). A CSVW or Frictionless schema describes the
cells of one file to programs, and has no place for quartiles, proportions or who is protected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

from discreet.display import printable

__all__ = ["ddi_codebook"]

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
