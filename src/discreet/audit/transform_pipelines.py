"""Transform pipelines: questions about rows that a formula chooses and columns that one computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from discreet.audit.pipeline import Pipeline
from discreet.audit.session_pipelines import COLUMNS, ONE, PEOPLE, RECORDS, UNITS, table_of
from discreet.audit.worlds import World, row_world, unit_world
from discreet.core.guarantee import Guarantee
from discreet.core.protection import Neighbours
from discreet.core.schema import Bands, Bounds, Schema
from discreet.declarations.language import Formula
from discreet.ledgers import Ledger
from discreet.session import Session

__all__ = ["transform_pipelines"]

Ask = Callable[[Session, Guarantee], Any]

_TRANSFORMED = {
    **COLUMNS,
    "band": Bands(edges=[0, 1, 2], value=Formula("x")),
    "gap": Bounds(-1, 3, grid=0.5, nulls=0, value=Formula("x - y")),
}
_WHERE = Formula("x >= 1 and arm != 'B' or y is missing")
_ASKED: dict[str, Ask] = {
    "quality": lambda s, g: s.quality(g, columns=["x", "arm", "gap"], request="r"),
    "count": lambda s, g: s.count(g, request="r"),
    "mean": lambda s, g: s.mean("gap", g, request="r"),
    "table": lambda s, g: s.table(["band", "half"], g, request="r"),
}


def transform_pipelines() -> Iterator[Pipeline]:
    """Rows and people, added, removed and replaced: a replaced row may leave what a formula chooses, or enter it."""
    rows = Schema(columns=_TRANSFORMED, where=_WHERE)
    people = replace(rows, unit=PEOPLE.unit)
    one = Neighbours.REPLACE_ONE
    worlds: dict[str, tuple[Schema, World]] = {
        "one row": (rows, row_world(RECORDS, most=2)),
        "a row replaced": (replace(rows, neighbours=one, size=3), row_world(RECORDS, most=3, neighbours=one)),
        "one person": (people, unit_world(UNITS, most=2)),
        "a person replaced": (
            replace(people, neighbours=one, size=2),
            unit_world(UNITS, most=2, neighbours=one),
        ),
    }
    for words, (schema, world) in worlds.items():
        for name, ask in _ASKED.items():
            yield _piped(f"{name}, {words}", ask, schema, world, quick=name in ("count", "mean", "quality"))


def _piped(name: str, ask: Ask, schema: Schema, world: World, *, quick: bool) -> Pipeline:
    def run(table: Any, ledger: Ledger) -> Any:
        return ask(Session(table_of(table, schema), schema, ledger=ledger), ONE)

    covers = (f"Session.{name.split(',')[0]}",)
    return Pipeline(f"transformed.{name}", run, world, ONE, covers, tight=False, repeats=True, quick=quick)
