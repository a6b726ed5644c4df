"""Export: the numbers of a run as files for spreadsheets, databases, statistical offices, R and Stata.

Everything is made from ``results.json``, which holds public numbers only; nothing is read from data and nothing spent.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from discreet.core.errors import DiscreetError, InvalidParameter
from discreet.core.regular_file import reason
from discreet.display import held
from discreet.publish.tidy import COLUMNS, Row, aligned, as_arrow, column_kinds, release_rows
from discreet.publish.whole_file import why, write_whole
from discreet.publish.workbook import as_workbook

__all__ = ["FORMATS", "RESULTS_FORMAT", "all_rows", "export", "read_facts"]

Facts = Mapping[str, Any]
RESULTS_FORMAT = 3
_FORMULA = re.compile(r"[=+\-@\t\r]")
_NOT_APPLICABLE, _TOTAL = "_Z", "_T"  # SDMX codes: a dimension that a release does not have, or sums over


def export(results: str | os.PathLike[str], kind: str, out: str | os.PathLike[str] | None = None) -> tuple[Path, ...]:
    """Write the numbers of a run in another format; returns the files.

    Parameters
    ----------
    results
        ``results.json`` of a run, or the directory that holds it.
    kind
        ``"csv"``, ``"xlsx"``, ``"parquet"``, ``"sdmx-csv"``, ``"r"`` or ``"stata"``. The last two write a CSV file and
        a script that reads it.
    out
        Directory to write to; that of the results by default.
    """
    if kind not in FORMATS:
        raise InvalidParameter("format", kind, f"must be one of {', '.join(FORMATS)}", 'Pass "csv", for example.')
    source = _results_file(results)
    facts = read_facts(source)
    directory = source.parent if out is None else Path(out)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        files = FORMATS[kind](facts, source.stem)
        return tuple(write_whole(directory / name, content) for name, content in files.items())
    except OSError as failure:
        raise DiscreetError(f"out = {str(directory)!r}: cannot be written: {reason(failure)}") from None


def read_facts(results: str | os.PathLike[str]) -> Facts:
    """What a run reported, from its ``results.json``."""
    path = _results_file(results)
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as failure:
        raise InvalidParameter(
            "results", str(path), f"cannot be read ({why(failure)})", "Pass results.json of a run."
        ) from None
    if not isinstance(stored, dict) or (stored.get("discreet"), stored.get("format")) != ("results", RESULTS_FORMAT):
        raise InvalidParameter(
            "results",
            str(path),
            f"is not the results.json of a run, of format {RESULTS_FORMAT}",
            "Run the plan again: stored answers cost nothing.",
        )
    facts: Facts = stored["facts"]
    return facts


def all_rows(facts: Facts) -> list[Row]:
    """One row per number over all releases: the release, every label that any of them has, and the common columns."""
    rows = [row for release in facts["releases"] for row in release_rows(release)]
    return aligned(held(rows))


def _results_file(results: str | os.PathLike[str]) -> Path:
    path = Path(results)
    return path / "results.json" if path.is_dir() else path


def as_csv(rows: Sequence[Row]) -> str:
    """Rows as CSV text; empty where nothing is known.

    A label that a spreadsheet would take for a formula is written behind an apostrophe: released labels may be text
    that somebody in the data chose.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_harmless(name) for name in (rows[0] if rows else ("release", *COLUMNS))])
    writer.writerows([_harmless(value) for value in row.values()] for row in rows)
    return text.getvalue()


def _harmless(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) and not _is_number(value) else value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _csv(facts: Facts, stem: str) -> dict[str, str | bytes]:
    return {f"{stem}.csv": as_csv(all_rows(facts))}


def _xlsx(facts: Facts, stem: str) -> dict[str, str | bytes]:
    return {f"{stem}.xlsx": as_workbook(facts)}


def _parquet(facts: Facts, stem: str) -> dict[str, str | bytes]:
    table = as_arrow(all_rows(facts))
    import pyarrow.parquet as parquet

    told = {"title": facts["title"], "created": facts["created"], "guarantee": facts["privacy"]["spent"]["symbols"]}
    content = io.BytesIO()
    parquet.write_table(table.replace_schema_metadata(told), content)
    return {f"{stem}.parquet": content.getvalue()}


def _sdmx(facts: Facts, stem: str) -> dict[str, str | bytes]:
    """SDMX-CSV 2.0: structure, action, dimensions, the observed value, then attributes.

    Where a release has a dimension for some of its numbers of one measure, the others are totals over it.
    """
    rows = all_rows(facts)
    had = {(row["release"], row["measure"], name) for row in rows for name, label in row.items() if label is not None}
    dimensions = [name for name in (rows[0] if rows else ("release", "measure")) if name not in COLUMNS[1:]]
    attributes = [name for name in COLUMNS if name not in ("measure", "estimate")]
    words = {"estimate": "OBS_VALUE", "unit": "PRIVACY_UNIT"}
    names = _identifiers([words.get(name, name) for name in (*dimensions, "estimate", *attributes)])
    flow = f"DISCREET:{_identifier(facts['title'])}(1.0)"
    coded = [
        {"STRUCTURE": "dataflow", "STRUCTURE_ID": flow, "ACTION": "I"}
        | dict(zip(names, [*(_code(row, name, had) for name in dimensions), row["estimate"]], strict=False))
        | dict(zip(names[len(dimensions) + 1 :], [row[name] for name in attributes], strict=True))
        for row in rows
    ]
    return {f"{stem}.sdmx.csv": as_csv(coded)}


def _code(row: Row, name: str, had: set[tuple[str, str, str]]) -> Any:
    if row[name] is not None:
        return row[name]
    return _TOTAL if (row["release"], row["measure"], name) in had else _NOT_APPLICABLE


def _identifier(text: str) -> str:
    return re.sub(r"[^A-Z0-9_]", "_", text.upper()) or "_"


def _identifiers(names: Sequence[str]) -> list[str]:
    """Names as SDMX identifiers, all different."""
    found: list[str] = []
    for name in map(_identifier, names):
        found.append(name if name not in found else f"{name}_{len(found)}")
    return found


_R = """\
# Reads {file} into the data frame `results`: one row per number.
results <- read.csv(
  "{file}", encoding = "UTF-8", na.strings = "", check.names = FALSE,
  colClasses = c({classes})
)
"""
_STATA = """\
* Reads {file}: one row per number.
import delimited using "{file}", varnames(1) encoding("UTF-8") stringcols({text}) numericcols({numbers}) clear
{labels}
"""
_MEANINGS = {
    "estimate": "Estimate",
    "noise_low": "95 % interval for the data (privacy noise), lower end",
    "noise_high": "95 % interval for the data (privacy noise), upper end",
    "population_low": "95 % interval for the population (noise and sampling), lower end",
    "population_high": "95 % interval for the population (noise and sampling), upper end",
    "standard_error": "Standard error",
    "pvalue": "p-value of the hypothesis that the estimated number is 0",
    "unit": "Privacy unit that is protected",
    "guarantee": "Guarantee of the release",
}


def _r(facts: Facts, stem: str) -> dict[str, str | bytes]:
    words = {bool: "logical", int: "integer", float: "numeric", str: "character"}
    kinds = column_kinds(all_rows(facts))
    # R reads True and False as logical only in upper case or as text; text keeps them as they are.
    classes = ", ".join(
        f'{json.dumps(_harmless(name), ensure_ascii=False)} = "{"character" if kind is bool else words[kind]}"'
        for name, kind in kinds.items()
    )
    return {**_csv(facts, stem), "read.R": _R.format(file=f"{stem}.csv", classes=classes)}


def _stata(facts: Facts, stem: str) -> dict[str, str | bytes]:
    kinds = column_kinds(all_rows(facts))
    places: dict[bool, list[str]] = {True: [], False: []}
    for place, kind in enumerate(kinds.values(), start=1):
        places[kind in (int, float)].append(str(place))
    labels = "\n".join(f'label variable {name} "{words}"' for name, words in _MEANINGS.items())
    script = _STATA.format(
        file=f"{stem}.csv", text=" ".join(places[False]), numbers=" ".join(places[True]), labels=labels
    )
    return {**_csv(facts, stem), "read.do": script}


FORMATS: dict[str, Callable[[Facts, str], dict[str, str | bytes]]] = {
    "csv": _csv,
    "xlsx": _xlsx,
    "parquet": _parquet,
    "sdmx-csv": _sdmx,
    "r": _r,
    "stata": _stata,
}
"""What to write for each format: names of files with their content."""
