"""Near ids: people whose ids are almost the same, in limits and in joins, on every kind of source.

Ids that differ in case, blanks, leading zeros, accents or how a number is written are different people. Each of them
keeps rows of their own, and none meets the rows of another: plain Python counts both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from discreet.audit.pipeline import number_laws
from discreet.audit.recomputed import Compared, Recomputed, recomputed
from discreet.audit.session_attacks import SOURCES, as_source
from discreet.audit.transcript import Numbers, Script, scripted
from discreet.core.errors import DiscreetError
from discreet.core.guarantee import PureDP
from discreet.core.schema import Bounds, Contribution, PrivacyUnit, Related, Schema
from discreet.session import Session

__all__ = ["audit_near_ids"]

_IDS = (
    "a", "A", " a", "a ", "aa", "á", "a\u0301", "ß", "ss", "SS", "1", "01", "001", " 1", "1 ", "+1", "1_0", "10", "١",
    "i", "I", "ı", "İ", "\uff41", "a\u200b", "a-1", "a_1", "a%1", "null", "NULL", "nan", "None", "true", "True",
)  # fmt: skip
"""Different texts, whatever a collation, a normal form or a reader of numbers makes of them."""
_NUMBERS = (0.0, 1.0, -1.0, 10.0, 2.0**31, 2.0**32, 2.0**53 - 1)
_OWN = Schema(columns={"x": Bounds(0, 2, grid=1)}, unit=PrivacyUnit("person", contribution=Contribution(total=1)))
_JOINED = Schema(
    columns={"x": Bounds(0, 2, grid=1)},
    unit=PrivacyUnit("person", contribution=Contribution(total=1)),
    related={"visits": Related(id="who", rows=3, counted="visits")},
)
_COLLATED = "duckdb, nocase"


def audit_near_ids() -> Recomputed:
    """Count people who are almost the same, and join them."""
    kinds = [*(kind for kind in SOURCES), _COLLATED]
    parts = [partial(_limited, kind) for kind in kinds] + [partial(_met, kind) for kind in kinds]
    return recomputed("people with nearly the same id", parts)


def _limited(kind: str) -> Iterator[Compared]:
    """One row of each person counts, so the count is the number of ids, however many rows each has."""
    for words, ids in (("texts", _IDS), ("numbers", _NUMBERS)):
        rows = [{"person": one, "x": 1.0} for one in ids for _ in range(2)]
        found = _truth(kind, _OWN, rows, {})
        right = found in (len(ids), None)
        yield (f"{kind}: {words} of ids" if right else f"{kind}: {found:g} of {len(ids)} {words} of ids count"), right


def _met(kind: str) -> Iterator[Compared]:
    """Every other person has one visit, so the sum of visits is their number."""
    rows = [{"person": one, "x": 1.0} for one in _IDS]
    for first in (0, 1):
        some = _IDS[first::2]
        found = _truth(kind, _JOINED, rows, {"visits": [{"who": one, "x": 1.0} for one in some]})
        right = found in (len(some), None)
        yield (f"{kind}: visits" if right else f"{kind}: {found:g} visits of {len(some)} people"), right


def _truth(
    kind: str, schema: Schema, rows: Sequence[Mapping[str, Any]], others: Mapping[str, Sequence[Mapping[str, Any]]]
) -> float | None:
    """The exact value behind the answer; None where the source is refused before anything is paid."""
    with TemporaryDirectory() as folder, scripted(Script()) as script:
        related = {name: _source(kind, some, "who", Path(folder), name) for name, some in others.items()}
        source, options = _source(kind, rows, "person", Path(folder), "rows")
        opened = {name: {"source": one, **more} for name, (one, more) in related.items()}
        given: dict[str, Any] = {"related": opened} if others else {}
        session = Session(source, schema, ledger=":memory:", budget=PureDP(9.0), **options, **given)
        try:
            if others:
                session.sum("visits", PureDP(1.0), request="r")
            else:
                session.count(PureDP(1.0), request="r")
        except DiscreetError:
            if session.ledger.spent() == PureDP(0.0):
                return None
            raise
        draw = script.draws[0]
        return float(number_laws(draw.law)[0][2]) if isinstance(draw, Numbers) else None


def _source(kind: str, rows: Sequence[Mapping[str, Any]], unit: str, folder: Path, name: str) -> Any:
    place = folder / name
    place.mkdir()
    texts = [unit] if isinstance(rows[0][unit], str) else []
    if kind != _COLLATED:
        return as_source(kind, rows, texts, [unit, "x"], place)
    connection, options = as_source("duckdb", rows, texts, [unit, "x"], place)
    connection.execute("SET default_collation = 'nocase'")
    return connection, options
