"""Question pipelines: every question about people, made from the question itself, on people at every corner.

A question that is listed is audited: nobody has to write a pipeline for it. The people hold more rows and groups than
their limits allow, at every corner of the columns and beyond, alone and beside others.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from discreet.audit.every_question import every_question
from discreet.audit.pipeline import Pipeline
from discreet.audit.session_pipelines import COLUMNS, LIMITS, UNITS, table_of
from discreet.audit.worlds import World
from discreet.core.guarantee import ApproxDP, GaussianDP, PureDP
from discreet.core.schema import PrivacyUnit, Schema, Unlisted
from discreet.ledgers import Ledger
from discreet.questions import Question
from discreet.session import Session

__all__ = ["corner_world", "question_pipelines"]

Row = dict[str, Any]


def _row(arm: Any, x: Any, y: Any, half: Any) -> Row:
    return {"arm": arm, "x": x, "y": y, "half": half}


_CORNERS = [(x, y, half) for half in ("L", "R") for x in (99.0, -99.0) for y in (9.0, -9.0)]
_OVER = [[_row(arm, *corner) for arm in ("A", "B", "C") for _ in range(3)] for corner in _CORNERS[:4]]
_ALONE = [UNITS[0], _OVER[0], _OVER[3]]
_BESIDE = [_OVER[1], UNITS[4], [_row("C", *_CORNERS[6])]]
"""Those whom a short run adds: over all limits at opposite corners, with gaps and unknown labels, alone in a group."""
_BASE = [[_row("A", 2.0, -1.0, "R")], [_row("B", 0.0, 1.0, "L")], [_row("C", 1.0, 0.0, "R")]]


def corner_world() -> World:
    """Each of many people alone, and beside three others."""
    others = [*UNITS, *_OVER, *([_row("C", *corner)] for corner in _CORNERS)]
    tables: list[list[list[Row]]] = [[], _BASE]
    pairs = []
    added = [(0, one) for one in _ALONE] + [(1, one) for one in _BESIDE]
    for place, person in (*added, *((place, one) for one in others for place in (0, 1) if (place, one) not in added)):
        pairs.append((place, len(tables)))
        tables.append([*tables[place], person])
    numbered = tuple([{"person": place, **row} for place, rows in enumerate(table) for row in rows] for table in tables)
    return World(numbered, tuple(pairs), unit="person")


def question_pipelines() -> Iterator[Pipeline]:
    """One of each question, of people where it can be asked about people."""
    schema = Schema(columns=COLUMNS, unit=PrivacyUnit("person", contribution=LIMITS))
    unlisted = replace(schema, columns={**COLUMNS, "arm": Unlisted()})
    world, size = corner_world(), 0.5 + secrets.randbits(53) * 2.0**-53
    # Numbers that nobody chose, with all of their bits: a scale that is rounded is too small half of the time.
    any_of = PureDP(size), GaussianDP(size), ApproxDP(size, 0.01)
    for ask, question in {**every_question(unlisted, any_of), **every_question(schema, any_of)}.items():
        own = world if question.schema.unit.column is not None else _of_rows(world)
        words = "one person" if question.schema.unit.column is not None else "one row"
        covers = (f"Session.{ask}",)
        run = partial(_run, question)
        yield Pipeline(f"question.{ask}, {words}", run, own, question.guarantee, covers, tight=False, repeats=True)


def _run(question: Question[Any], table: Any, ledger: Ledger) -> Any:
    session = Session(table_of(table, question.schema), question.schema, ledger=ledger)
    return session.ask(question, "r")


def _of_rows(world: World) -> World:
    """The same with a row in place of each person."""

    def first_rows(table: list[Row]) -> list[Row]:
        return [*{row["person"]: row for row in table}.values()]

    return replace(world, tables=tuple(map(first_rows, world.tables)), unit="row")
