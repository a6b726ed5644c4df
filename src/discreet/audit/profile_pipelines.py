"""Profile pipelines: profiles of undeclared columns, and distinct labels, on worlds of a few rows or units."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from discreet.audit.pipeline import Pipeline
from discreet.audit.session_pipelines import LIMITS, ONE, RECORDS, UNITS, table_of
from discreet.audit.worlds import World, row_world, unit_world
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, ZeroConcentratedDP
from discreet.core.protection import Neighbours
from discreet.core.schema import Categories, PrivacyUnit, Schema, Unlisted
from discreet.ledgers import Ledger
from discreet.questions.profiles.released_first import PrivateBounds, PrivateContribution
from discreet.session import Session

__all__ = ["profile_pipelines"]

_COLUMNS: dict[str, Any] = {"arm": Unlisted(), "half": Categories(["L", "R"], nulls="=L", unknown="=L")}
_ROWS = Schema(columns=_COLUMNS)
_PEOPLE = Schema(columns=_COLUMNS, unit=PrivacyUnit("person", contribution=LIMITS))


def profile_pipelines() -> Iterator[Pipeline]:
    """One row, one person with several, and both replaced, in every currency."""
    rows, people = row_world(RECORDS, most=2), unit_world(UNITS, most=2)
    yield _piped("profile, a first row", _profile, _ROWS, row_world(RECORDS, most=1), quick=True)
    yield _piped("profile, one row", _profile, _ROWS, rows)
    yield _piped("profile, one person", _profile, _PEOPLE, people)
    for spent in (GaussianDP(1.0), ApproxDP(1.0, 0.01), ZeroConcentratedDP(0.5)):
        yield _piped(f"profile, one person, {type(spent).__name__}", _profile, _PEOPLE, people, spent)
    for name, ask in (("distinct", _distinct), ("distinct by half", _by_half), ("distinct people", _units)):
        if ask is not _units:
            yield _piped(f"{name}, one row", ask, _ROWS, rows, quick=True)
        yield _piped(f"{name}, one person", ask, _PEOPLE, people)
    private = Schema(columns={"x": PrivateBounds(0, 2, grid=1, epsilon=0.5)})
    yield _piped("mean with private bounds, one row", _mean, private, rows)
    limit = PrivateContribution(total=2, epsilon=0.5)
    limited = Schema(columns={}, unit=PrivacyUnit("person", contribution=limit))
    yield _piped("count with a private limit, one person", _count, limited, people)
    one = Neighbours.REPLACE_ONE
    replaced = replace(limited, neighbours=one, size=2)
    yield _piped(
        "count with a private limit, a person replaced", _count, replaced, unit_world(UNITS, most=2, neighbours=one)
    )
    known = replace(_ROWS, neighbours=one, size=3), row_world(RECORDS, most=3, neighbours=one)
    others = replace(_PEOPLE, neighbours=one, size=2), unit_world(UNITS, most=2, neighbours=one)
    for schema, world in (known, others):
        whose = "a row" if schema.unit.column is None else "a person"
        yield _piped(f"profile, {whose} replaced", _profile, schema, world)
        yield _piped(f"distinct by half, {whose} replaced", _by_half, schema, world)


def _profile(session: Session, spent: Guarantee) -> Any:
    return session.profile(spent, columns=["x", "arm"], request="r")


def _mean(session: Session, spent: Guarantee) -> Any:
    """Bounds for half of the budget, and a mean with them for the other half."""
    return session.mean("x", spent.split(2)[0], request="r").measured


def _count(session: Session, spent: Guarantee) -> Any:
    """How many rows people have for half of the budget, and a count with the limit that follows for the other half."""
    return session.count(spent.split(2)[0], request="r").measured


def _distinct(session: Session, spent: Guarantee) -> Any:
    return session.distinct("arm", spent, request="r")


def _by_half(session: Session, spent: Guarantee) -> Any:
    return session.distinct("arm", spent, by="half", request="r")


def _units(session: Session, spent: Guarantee) -> Any:
    return session.distinct("person", spent, request="r")


def _piped(
    name: str,
    ask: Callable[[Session, Guarantee], Any],
    schema: Schema,
    world: World,
    spent: Guarantee = ONE,
    *,
    quick: bool = False,
) -> Pipeline:
    def run(table: Any, ledger: Ledger) -> Any:
        return ask(Session(table_of(table, schema), schema, ledger=ledger), spent)

    method = name.split(",")[0].split(" ")[0]
    return Pipeline(
        f"session.{name}", run, world, spent, (f"Session.{method}",), tight=False, repeats=True, quick=quick
    )
