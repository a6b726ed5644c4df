"""Values: texts that readers are known to trip over, and in plain Python what each of them means."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from discreet.core.rows import take
from discreet.core.rows.frames import canonical_text
from discreet.core.rows.read import Dataset
from discreet.core.schema import Bounds, Categories, Column, Schema, Unlisted

__all__ = ["HOSTILE_TEXTS", "check_values", "documented_readings", "hostile_columns", "hostile_fields"]

HOSTILE_TEXTS: tuple[str | None, ...] = (
    None, "", " ", "\t", "0", "-0", "-0.0", "+0", "00", "1", "+1", "01", "1.", "1.0", "1.00", " 1", "1 ", "\t1\t",
    "1.5", ".5", "5.", "-.5", "+.5e1", "1e0", "1E0", "1e+0", "1e-2", "1e400", "-1e400", "1e-400", "1e", "e1",
    "1e5.0", "--1", "+-1", "1,5", "1.5.0", "1_000", "1 000", "0x10", "1d", "1f", "1L", "inf", "INF", "-inf",
    "+Infinity", "infinite", "nan", "NaN", "NA", "N/A", "null", "None", "true", "True", "TRUE", "tRuE", " true ",
    "false", "FALSE", "fal\u017fe", "yes", "t", "9007199254740993", "9223372036854775807", "9223372036854775808",
    "18446744073709551616", "1" + "0" * 30, "-9223372036854775809", "2.5", "-2.5", "1.23457E+14", "1.5e+00", "#1",
    "#", "'1'", '"1"', '"', '""', "a", "A", "a ", "a,b", "a;b", "a\nb", "a\r\nb", "a\rb", "1\n", "\n1", "\v1",
    "1\f", "\u00a01", "\u0661", "\uff11", "\u2212" "1", "a\0b", "\0", "\u00e9", "e\u0301", "\U0001f600", "\ufeff1",
    "\u200b1", "%", "_", "\\", "\\n", "{}", "(", "a'; DROP TABLE t; --", "2020-01-01", "2020-13-01", "x" * 5000,
    "9" * 5000,
)  # fmt: skip
"""Texts that at least one common reader of files, numbers or labels gets wrong."""

_FLOATS = (
    None, 0.0, -0.0, 1.0, 2.0, 0.5, 1.5, -2.5, 1e30, -1e30, 1e308, 5e-324, float("inf"), float("-inf"), float("nan"),
    2.0**53, 2.0**53 + 2, 123456.0,
)  # fmt: skip
_WHOLE = (None, 0, 1, -1, 2, 2**53 + 1, 2**63 - 1, -(2**63), 123456)
_TRUTHS = (None, True, False)

_NUMBER = Bounds(-2, 10, grid=0.25, nulls=3)
_TEXT = Categories(["1", "a", "true", "1.0", "a,b", "\u00e9", "1.5", "1.5e+00", "a ", '"1"', "NA"], nulls="=NA")
_WHOLES = Categories([0, 1, 2, -1, 9007199254740993, 9223372036854775808, 10**30])
_TRUTH = Categories([False, True], unknown=True)
_USES: dict[str, Column] = {"number": _NUMBER, "text": _TEXT, "whole": _WHOLES, "truth": _TRUTH, "id": Unlisted()}


def hostile_columns() -> dict[str, tuple[Any, ...]]:
    """Columns of one kind each, every value of which is hostile; all are as long as the longest."""
    kinds = {"texts": HOSTILE_TEXTS, "floats": _FLOATS, "wholes": _WHOLE, "truths": _TRUTHS}
    return {name: values + (None,) * (len(HOSTILE_TEXTS) - len(values)) for name, values in kinds.items()}


def hostile_fields(columns: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """A column for every use that each kind of values can be put to; ``place`` tells the rows apart."""
    fields = {f"{kind}_{use}": values for kind, values in columns.items() for use in _USES}
    return {"place": range(len(next(iter(columns.values())))), **fields}


def check_values(data: Dataset, columns: Mapping[str, Sequence[Any]]) -> None:
    """Check that each of `hostile_fields` has its documented reading on an engine.

    Raises
    ------
    NotConformant
        Where a reading differs, with the value, which is public here.
    """
    declared = {f"{kind}_{use}": column for kind in columns for use, column in _USES.items()}
    rows = len(next(iter(columns.values())))
    snapshot = take(data, Schema(columns={"place": Bounds(0, rows, grid=1), **declared}))
    for row in data.fetch(snapshot.table).to_pylist():
        for kind, values in columns.items():
            value = values[row[snapshot.names["place"]]]
            for use, expected in documented_readings(value).items():
                found = row[snapshot.names[f"{kind}_{use}"]]
                if (str(found) if use == "id" and found is not None else found) != expected:
                    raise AssertionError(
                        f"{data.engine}: reads {value!r} of {kind} as {use} {found!r}, not {expected!r}"
                    )


def documented_readings(value: Any) -> dict[str, Any]:
    """What a value means under each use: a grid step, a label's code, or an id; None where its row is dropped."""
    text = canonical_text(value) or None
    lost = text is not None and re.fullmatch(r"[+-]?\d+(\.\d*)?[eE][+-]\d+", text, re.ASCII) is not None
    whole = _whole(text)
    return {
        "number": _step(text),
        "text": _code(_TEXT, text, None if lost else text),
        "whole": _code(_WHOLES, text, whole),
        "truth": _code(_TRUTH, text, bool(whole) if whole in (0, 1) else None),
        "id": None if lost else text,
    }


def _step(text: str | None) -> int | None:
    plain = (text or "").strip(" \t")
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:[+-]?inf(inity)?)", plain, re.ASCII):
        return _NUMBER.index(float(plain))
    word = {"true": 1.0, "false": 0.0}.get(plain.lower()) if plain.isascii() else None
    return _NUMBER.null_index() if word is None else _NUMBER.index(word)


def _whole(text: str | None) -> int | None:
    plain = (text or "").strip(" \t")
    if re.fullmatch(r"[+-]?\d{1,4000}(\.0*)?", plain, re.ASCII):
        return int(plain.split(".")[0])
    return {"true": 1, "false": 0}.get(plain.lower()) if plain.isascii() else None


def _code(declared: Categories, text: str | None, label: Any) -> int | None:
    if text is None:
        return declared.replacement("nulls")
    return declared.labels.index(label) if label in declared.labels else declared.replacement("unknown")
