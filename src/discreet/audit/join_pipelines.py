"""Join pipelines: questions about two tables of the same people, on neighbours that differ in both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from discreet.audit.pipeline import Pipeline
from discreet.audit.session_pipelines import ONE
from discreet.audit.worlds import World, unit_world
from discreet.core.guarantee import Guarantee
from discreet.core.protection import Neighbours
from discreet.core.schema import Bounds, Categories, Contribution, PrivacyUnit, Related, Schema
from discreet.declarations.language import Formula
from discreet.ledgers import Ledger
from discreet.session import Session

__all__ = ["join_pipelines"]

Ask = Callable[[Session, Guarantee], Any]

_UNIT = PrivacyUnit("person", contribution=Contribution(total=3))
_COST = Bounds(0, 2, grid=1, nulls=0)
_ARMS = {"arm": Categories(["A", "B"], nulls="=A", unknown="=A")}
_JOINED = Schema(columns=_ARMS, unit=_UNIT, related={"visits": Related(id="who", rows=2, columns={"cost": _COST})})
_COUNTED = Schema(
    columns=_ARMS,
    unit=_UNIT,
    related={
        "visits": Related(id="who", rows=2, columns={"cost": _COST}, where=Formula("cost >= 1"), counted="visits")
    },
    where=Formula("visits >= 1 or arm == 'B'"),
)


def _row(arm: str | None, cost: float | None = None, *, visit: bool = False) -> dict[str, Any]:
    return {"arm": arm, "cost": cost, "visit": visit}


_PEOPLE = [
    [_row("A"), _row("B"), *[_row(None, 2.0, visit=True)] * 3],
    [_row("A")],
    [_row("B"), _row("B"), _row(None, 0.0, visit=True), _row(None, 99.0, visit=True)],
    [_row(None, 2.0, visit=True)],
]
"""Everybody's rows in both tables: beyond limits, in one of them alone, and with nothing that a filter keeps."""
_ASKED: dict[str, Ask] = {
    "count": lambda s, g: s.count(g, by="arm", request="r"),
    "sum": lambda s, g: s.sum("cost", g, request="r"),
}


def join_pipelines() -> Iterator[Pipeline]:
    """Joined rows and counted events; people added, removed and replaced in both tables at once."""
    one = Neighbours.REPLACE_ONE
    known = [[*rows, _row("A")] for rows in _PEOPLE]  # the public size counts people of the first table
    worlds: dict[str, tuple[World, dict[str, Any]]] = {
        "one person": (unit_world(_PEOPLE, most=2), {}),
        "a person replaced": (unit_world(known, most=2, neighbours=one), {"neighbours": one, "size": 2}),
    }
    for words, (world, facts) in worlds.items():
        for name, ask in _ASKED.items():
            schema = replace(_JOINED, **facts)
            yield _piped(f"{name} of joined rows, {words}", name, ask, schema, world, quick=name == "sum")
        schema = replace(_COUNTED, **facts)
        yield _piped(f"count of people with an event, {words}", "count", _ASKED["count"], schema, world, quick=True)


def _piped(title: str, name: str, ask: Ask, schema: Schema, world: World, *, quick: bool) -> Pipeline:
    def run(rows: Sequence[dict[str, Any]], ledger: Ledger) -> Any:
        import pyarrow

        visits = [row for row in rows if row["visit"]]
        others = [row for row in rows if not row["visit"]]
        ids, costs = ([row[key] for row in visits] for key in ("person", "cost"))
        people, arms = ([row[key] for row in others] for key in ("person", "arm"))
        first = pyarrow.table({"person": pyarrow.array(people, "int64"), "arm": pyarrow.array(arms, "string")})
        second = pyarrow.table({"who": pyarrow.array(ids, "int64"), "cost": pyarrow.array(costs, "float64")})
        return ask(Session(first, schema, ledger=ledger, related={"visits": second}), ONE)

    return Pipeline(f"joined.{title}", run, world, ONE, (f"Session.{name}",), tight=False, repeats=True, quick=quick)
