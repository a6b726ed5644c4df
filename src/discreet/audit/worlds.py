"""Generated worlds: public facts drawn at random, and neighbours built to be the worst for exactly these facts.

A world is a schema (bounds that are symmetric, one-sided or wholly negative; every policy for what is missing or
unknown; every limit; both relations), a kind of source, a kind of guarantee, and a few tables. Neighbours differ in a
unit that is at every limit at once, at a corner of the domain, alone in the smallest group, over its limits, or full of
gaps. Every value of every factor occurs equally often, so a few dozen worlds hold all of them many times.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import numpy as np

import discreet.mechanisms as m
from discreet.audit.pipeline import (
    Choice,
    Draw,
    Numbers,
    Script,
    arrow_table,
    largest_loss,
    loss_between,
    number_laws,
    scripted,
    shown,
)
from discreet.audit.report import Audit, Refusal
from discreet.audit.session_pipelines import every_question, opened, switched
from discreet.audit.statistical import audit_draws
from discreet.core.errors import InvalidParameter, SourceError
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.protection import Neighbours
from discreet.core.schema import Bounds, Categories, Contribution, Feature, PrivacyUnit, Schema
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.tables.margins import MarginsNoise
from discreet.questions import Question, asked
from discreet.questions.question import MeasuredQuestion
from discreet.results.ledger import Ledger
from discreet.session import Session

Row = dict[str, Any]
ARMS = ("A", "B", "C")
HALVES = ("L", "R")
ID = "person"
_FACTORS: dict[str, tuple[Any, ...]] = {
    "x": ((0, 2), (-10, 1), (-1, 10), (-3, -1), (1, 4), (-2, 2)), "y": ((-1, 1), (0, 3), (-5, 0), (-4, 1)),
    "numbers": ("drop", "replace", "refuse"), "labels": ("drop", "replace", "refuse"), "limits": (None,
    Contribution(groups=2, rows=2), Contribution(total=3), Contribution(rows=2), Contribution(groups=1, rows=3), None,
    Contribution(groups=2, rows=1), Contribution(total=2)), "neighbours": (Neighbours.ADD_REMOVE,
    Neighbours.REPLACE_ONE), "source": ("csv", "pandas", "arrow", "parquet", "duckdb", "polars"), "asks": (0, 1),
    "guarantee": (PureDP(1.0), GaussianDP(1.0), PureDP(1.0), ApproxDP(1.0, 0.01), PureDP(1.0),
    ZeroConcentratedDP(0.5)), "first": ("x", "y"), "turn": (0, 1),
}  # fmt: skip


@dataclass(frozen=True)
class GeneratedWorld:
    """Public facts with tables, and which of the tables are neighbours.

    Attributes
    ----------
    name
        Some of the facts in words.
    schema
        What is public.
    source
        The kind of source that holds the tables.
    guarantee
        What each question may spend.
    tables, pairs
        Small tables, and positions of neighbours among them.
    within
        Positions of tables in which no unit is over a limit, so that every row counts.
    refused
        A table that the schema refuses; None where it refuses nothing.
    asks
        Which questions are asked here: those whose number, divided by two or four, leaves this.
    """

    name: str
    schema: Schema
    source: str
    guarantee: Guarantee
    tables: tuple[tuple[Row, ...], ...]
    pairs: tuple[tuple[int, int], ...]
    within: tuple[int, ...]
    refused: tuple[Row, ...] | None
    asks: int

    @property
    def names(self) -> tuple[str, ...]:
        """All columns of the tables."""
        return ((ID,) if self.schema.unit.column else ()) + ("arm", "half", "x", "y")


def generated_worlds(count: int = 32, seed: int = 1) -> Iterator[GeneratedWorld]:
    """So many worlds, each value of each factor equally often.

    Examples
    --------
    >>> worlds = list(generated_worlds(24))
    >>> sum(world.schema.neighbours is Neighbours.REPLACE_ONE for world in worlds), len({w.source for w in worlds})
    (12, 6)
    """
    rng = np.random.default_rng(seed)
    drawn = {name: _balanced(values, count, rng) for name, values in _FACTORS.items()}
    for number in range(count):
        yield _world(number, **{name: values[number] for name, values in drawn.items()})


def _balanced(values: Sequence[Any], count: int, rng: np.random.Generator) -> list[Any]:
    """Values in random order, each as often as any other."""
    rounds = -(-count // len(values))
    return [values[place] for _ in range(rounds) for place in rng.permutation(len(values))][:count]


def _world(
    number: int,
    *,
    x: tuple[float, float],
    y: tuple[float, float],
    numbers: str,
    labels: str,
    limits: Contribution | None,
    neighbours: Neighbours,
    source: str,
    guarantee: Guarantee,
    asks: int,
    first: str,
    turn: int,
) -> GeneratedWorld:
    replaced = neighbours is Neighbours.REPLACE_ONE
    nulls = {"x": x[0] if numbers == "replace" else numbers, "y": y[1] if numbers == "replace" else numbers}
    measured = {"x": Bounds(*x, grid=0.5, nulls=nulls["x"]), "y": Bounds(*y, grid=1, nulls=nulls["y"])}
    schema = Schema(
        columns={"arm": Categories(ARMS, **_label_policies(labels)),
        "half": Categories(HALVES, **_label_policies(labels, HALVES[0])), first: measured[first], **measured},
        unit=PrivacyUnit() if limits is None else PrivacyUnit(ID, contribution=limits), neighbours=neighbours,
        size=4 if replaced else None, features={} if limits is None else _features(*x),
    )  # fmt: skip
    corners = _Corners(x, y, gaps=numbers != "refuse", unknown=labels != "refuse")
    units = corners.records() if limits is None else corners.units(limits)
    base = [[corners.row("A", 1)], [corners.row("B", 1)], [corners.row("A", 2)]]
    tables, pairs = neighbouring(base, units, replaced)
    refused = None if corners.gaps and corners.unknown else _numbered([*base, [corners.forbidden()]])
    return GeneratedWorld(
        name=_name(number, schema, source),
        schema=schema,
        source=source,
        guarantee=guarantee,
        tables=tuple(_numbered(table) for table in tables),
        pairs=tuple(pairs),
        within=tuple(place for place, table in enumerate(tables) if all(_within(unit, limits) for unit in table)),
        refused=refused,
        asks=asks + 2 * turn,
    )


def _features(low: float, high: float) -> dict[str, Feature]:
    return {
        "total": Feature(of="x", take="sum", low=3 * low - 1, high=2 * high + 2),
        "arm": Feature(of="arm", take="min"),
        "last": Feature(of="half", take="last", order="y", nulls=f"={HALVES[0]}"),
        "mean": Feature(of="y", take="mean"),
    }


def _label_policies(policy: str, label: str = ARMS[0]) -> dict[str, Any]:
    word = f"={label}" if policy == "replace" else policy
    return {"nulls": word, "unknown": word}


def _name(number: int, schema: Schema, source: str) -> str:
    limits = schema.unit.contribution
    unit = "rows" if limits is None else "people, " + " ".join(f"{k} {v}" for k, v in limits.to_dict().items())
    x = schema.bounds("x")
    relation = "added" if schema.neighbours is Neighbours.ADD_REMOVE else "replaced"
    return f"world {number + 1}: {unit}, {relation}, x {x.low:g}…{x.high:g}, {source}"


@dataclass(frozen=True)
class _Corners:
    """Rows at the corners of the domain and beyond."""

    x: tuple[float, float]
    y: tuple[float, float]
    gaps: bool
    unknown: bool

    def row(self, arm: str | None, corner: int, half: str | None = None) -> Row:
        """A row at one of four corners: high and high, low and low, and the two crossed ones; all beyond the bounds."""
        x = self.x[1] + 90.25 if corner in (0, 2) else self.x[0] - 90.25
        y = self.y[1] + 90.25 if corner in (0, 3) else self.y[0] - 90.25
        return {"arm": arm, "half": half or HALVES[corner % 2], "x": x, "y": y}

    def _middle(self, arm: str) -> Row:
        """A row inside the bounds and between two grid points."""
        return {"arm": arm, "half": "R", "x": sum(self.x) / 2 + 0.25, "y": sum(self.y) / 2 + 0.125}

    def _gappy(self) -> list[Row]:
        """Rows with gaps and with a label that nobody declared, as far as the schema lets them pass."""
        found = []
        if self.gaps:
            found += [{**self.row("C", 0), "x": None}, {**self.row("B", 1), "y": None}]
        if self.unknown:
            found += [self.row(None, 0), self.row("Z", 1), {**self.row("B", 0), "half": "?"}]
        return found

    def forbidden(self) -> Row:
        """A row that the schema refuses."""
        return {**self.row("A" if self.unknown else "Z", 0), **({} if self.gaps else {"x": None})}

    def records(self) -> list[list[Row]]:
        """Units of one row."""
        rows = [self.row("A", 0), self.row("C", 1), self.row("B", 2), self.row("A", 3)]
        rows += [self._middle("A"), self._middle("B")]  # between others of their group, where ranks move most
        return [[row] for row in (*rows, *self._gappy())]

    def units(self, limits: Contribution) -> list[list[Row]]:
        """Units at their limits and beyond, at one corner each; alone in a group; with gaps; in one group only."""
        everywhere = [[self.row(arm, corner) for arm in ARMS for _ in range(4)] for corner in (0, 1, 2)]
        groups = ARMS[: limits.groups or (1 if limits.total else len(ARMS))]
        at_limit = [
            [self.row(arm, corner, "L") for arm in groups for _ in range(limits.most_rows_in_a_group())]
            for corner in (0, 1)
        ]
        crowd = [self._middle("B") for _ in range(6)]
        turns = [self.row("A", 0), self.row("B", 1), self.row("A", 1), self.row("B", 0)] * 2
        between = [self._middle("A") for _ in range(limits.most_rows_in_a_group())]
        alone, gaps = [self.row("C", 1)], self._gappy()
        return [*everywhere, *at_limit, crowd, between, turns, alone, *([gaps * 2] if gaps else [])]


def neighbouring(
    base: list[list[Row]], units: list[list[Row]], replaced: bool
) -> tuple[list[list[list[Row]]], list[tuple[int, int]]]:
    """Tables with one unit more each; under replace-one any two of them are neighbours, else each and the base."""
    more = [[*base, unit] for unit in units]
    if replaced:
        return more, list(combinations(range(len(more)), 2))
    tables = [base, *more, [], [units[0]]]
    return tables, [*((0, place) for place in range(1, len(more) + 1)), (len(more) + 1, len(more) + 2)]


def _numbered(units: Sequence[Sequence[Row]]) -> tuple[Row, ...]:
    """Rows that name their unit."""
    return tuple({ID: float(number), **row} for number, unit in enumerate(units) for row in unit)


def _within(unit: Sequence[Row], limits: Contribution | None) -> bool:
    """True where every row of a unit counts, whatever is asked."""
    if limits is None:
        return True
    cells = {(row["arm"], row["half"]) for row in unit}
    return len(unit) <= limits.most_rows_in_a_group() and len(cells) <= (limits.groups or len(cells))


# ---- Reference values: what a question must add up, from the rows as they are, in a few lines of plain Python.
#
# They share no code with the engine: an error in reading, dropping, clipping or adding shows as a difference. They hold
# where no unit is over a limit, so that nobody's rows are left out.


def _label(value: Any, column: Categories) -> Any:
    """The label that counts; None where the row is dropped."""
    policy = column.nulls if value is None else value if value in column.labels else column.unknown
    if policy == "drop":
        return None
    return policy[1:] if isinstance(policy, str) and policy.startswith("=") else policy


def _number(value: Any, column: Bounds) -> Fraction | None:
    """The value on its grid; None where the row is dropped."""
    if value is None:
        return None if column.nulls == "drop" else Fraction(str(column.nulls))
    grid = Fraction(str(column.grid))
    clipped = min(max(Fraction(value), Fraction(str(column.low))), Fraction(str(column.high)))
    return math.floor(clipped / grid + Fraction(1, 2)) * grid


def _taking_part(rows: Sequence[Row], schema: Schema, labels: Sequence[str], numbers: Sequence[str]) -> list[Row]:
    """Rows that have everything the question reads."""
    found = []
    for row in rows:
        read = {name: _label(row[name], schema.categories(name)) for name in labels}
        read |= {name: _number(row[name], schema.bounds(name)) for name in numbers}
        if None not in read.values():
            found.append(read)
    return found


def _totals(rows: Sequence[Row], schema: Schema, by: Sequence[str], number: str | None) -> list[Fraction]:
    """Rows, or the sum of a number, in each cell, the last label fastest."""
    found = dict.fromkeys(product(*(schema.categories(name).labels for name in by)), Fraction(0))
    for row in _taking_part(rows, schema, by, [] if number is None else [number]):
        found[tuple(row[name] for name in by)] += 1 if number is None else row[number]
    return list(found.values())


def _parts_of_mean(rows: Sequence[Row], schema: Schema, by: Sequence[str], number: str) -> list[Fraction]:
    """Each row adds how far it is from the high bound, and from the low one, as shares of their distance."""
    bounds = schema.bounds(number)
    low = Fraction(str(bounds.low))
    high = Fraction(str(bounds.high))
    taking = _taking_part(rows, schema, by, [number])
    found = []
    for cell in product(*(schema.categories(name).labels for name in by)):
        inside = [row[number] for row in taking if tuple(row[name] for name in by) == cell]
        up = sum(((value - low) / (high - low) for value in inside), Fraction(0))
        found += [len(inside) - up, up]
    return found


def _expected(world: GeneratedWorld, question: Question[Any]) -> dict[int, list[Fraction]]:
    """The exact value of a count, sum, table or mean by position of the table, where nobody is over a limit."""
    by, column = (getattr(question, name, None) for name in ("by", "column"))
    cells = [*([] if by is None else [by] if isinstance(by, str) else by), *getattr(question, "columns", ())]
    plain = question.ask in ("count", "sum", "table", "mean") and question.schema == world.schema
    own = getattr(question, "contribution", None) is not None or question.omit is not None  # other rows
    if not plain or own or (question.ask == "mean" and (not cells or getattr(question, "variance", None) is not False)):
        return {}
    value: Callable[..., list[Fraction]] = _parts_of_mean if question.ask == "mean" else _totals
    return {place: value(world.tables[place], world.schema, cells, column) for place in world.within}


# ---- Judging: what neighbours' answers to one question tell apart, beside what was charged and declared.


_SLACK = 1 + 1e-9
"""Exact changes are compared as floats."""


@dataclass(frozen=True)
class AnswerOnTable:
    """A question's answer on one table: what was told, with which draws, what it cost, and what went wrong."""

    told: str
    draws: tuple[Draw, ...]
    charged: Guarantee | None
    sensitivity: Sensitivity | None
    findings: tuple[str, ...]
    rate: tuple[float, int] | None = None
    """Where numbers leave in rounds, each with all rows: the sum of 1/scale over them, as recorded, or of 1/scale², and
    that power."""


def judged(
    name: str,
    answers: Sequence[AnswerOnTable],
    pairs: Sequence[tuple[int, int]],
    *,
    expected: Mapping[int, Sequence[Fraction]] = MappingProxyType({}),
    draws: int = 0,
    confidence: float = 0.999,
) -> Audit:
    """Everything that tells neighbours apart by more than what was charged.

    Parameters
    ----------
    name
        The question.
    answers
        Its answers, one for each table.
    pairs
        Positions of neighbouring tables.
    expected
        By position: the exact value that the rows of a table give, where it is known.
    draws, confidence
        Real draws on each side of the worst pair, and the level of the bound from them.
    """
    first = answers[0]
    findings = dict.fromkeys(finding for answer in answers for finding in answer.findings)
    findings |= dict.fromkeys(_differences(answers))
    if findings or first.charged is None or first.sensitivity is None:
        return _judgement(name, first.charged, math.inf, None, None, None, findings)
    # What is told beside of values beyond bounds comes last.
    if any(_places(answers[place].draws)[: len(value)] != list(value) for place, value in expected.items()):
        findings["the exact value is not the one that its rows give"] = None
    changes = [_changes(answers[a].draws, answers[b].draws, first.rate) for a, b in pairs]
    squares = first.rate is not None and first.rate[1] == 2  # which say nothing of sums
    wanted = Sensitivity(l2=first.sensitivity.require_l2()) if squares else first.sensitivity
    findings |= dict.fromkeys(_excesses(changes, wanted))
    worst = _worst_pairs(pairs, changes, first.draws, first.charged)
    losses = largest_loss([loss_between(first.charged, answers[a].draws, answers[b].draws) for a, b in worst])
    reached = losses.reached or 0.0
    if not losses.passed:
        findings[f"{100 * reached:.4g} % of the charge is lost"] = None
    # Choices by exponential weights: what their scores move by is lost on some data, if not on these.
    if isinstance(first.charged, PureDP):
        scores = max((_scores(answers[a], answers[b]) for a, b in pairs), default=0.0) / first.charged.epsilon
        reached = max(reached, scores)
        if scores > 1 + 1e-6:
            findings[f"scores move by {100 * scores:.4g} % of the charge"] = None
    certified = None
    if draws and _only_numbers(first.draws):
        a, b = worst[0]
        certified = _certified(first.charged, answers[a].draws, answers[b].draws, draws, confidence)
        if certified > 1:
            findings[f"draws certify {100 * certified:.4g} % of the charge"] = None
    measured = float(max((sum(change) for change in changes), default=Fraction(0))) if changes[0] else None
    declared = first.sensitivity.l1 if measured is not None else None
    return _judgement(name, first.charged, reached, measured, declared, certified, findings)


def _judgement(
    name: str, charged: Guarantee | None, reached: float, change: float | None, declared: float | None,
    certified: float | None, findings: Iterable[str],
) -> Audit:  # fmt: skip
    """An audit of one question: what the ledger recorded, the largest loss as a share of it, the largest ℓ₁ change of
    the exact value beside the sensitivity on record (none for choices), and what draws on the worst pair certify.
    """
    most = "" if declared is None else f" of {declared:.4g} declared"
    moved = "" if change is None else f"moves {change:.4g}{most}; "
    drawn = "" if certified is None else f", {100 * certified:.0f} % certified by draws"
    shows = f"; a fault above {max(0.1, 100 * (1 / reached - 1)):.2g} % would show" if reached else ""
    found = "" if findings else f"{moved}{100 * reached:.1f} % of {charged} lost{drawn}{shows}"
    measured = {"charged": charged, "change": change, "declared": declared, "certified": certified}
    return Audit("plan", name, str(charged), found, tuple(findings), reached, measured)


def _differences(answers: Sequence[AnswerOnTable]) -> Iterator[str]:
    """Differences between tables, though every draw gave the same."""
    if len({answer.told for answer in answers}) > 1:
        yield "published or recorded facts differ"
    if len({tuple(draw.shape for draw in answer.draws) for answer in answers}) > 1:
        yield "draws differ in kind or number"
    elif len({tuple(_scales(answer.draws)) for answer in answers}) > 1:
        yield "the noise depends on the data"


def _scales(draws: Sequence[Draw]) -> Iterator[tuple[Any, ...]]:
    for draw in draws:
        if isinstance(draw, Numbers):
            yield from ((kind, scale, *bounds) for kind, scale, _, *bounds in number_laws(draw.law))


def _places(draws: Sequence[Draw]) -> list[Fraction]:
    """Exact values, one by one."""
    return [law[2] for draw in draws if isinstance(draw, Numbers) for law in number_laws(draw.law)]


def _changes(first: Sequence[Draw], second: Sequence[Draw], rate: tuple[float, int] | None) -> list[Fraction]:
    """The move of each number between neighbours, largest first; in rounds, times its part of the recorded rate.

    A declared sensitivity is that of one round. Outcomes are scripted, so earlier rounds said the same of both tables:
    the moves of all rounds, each by what its noise spends, add up to a mean that must not exceed it.
    """
    moves = [abs(a - b) for a, b in zip(_places(first), _places(second), strict=True)]
    if rate is not None:
        scales, part = [Fraction(one[1]) for one in _scales(first)], Fraction(rate[0] ** (1 / rate[1]))
        moves = [move / (scale * part) for move, scale in zip(moves, scales, strict=True)]
    return sorted(moves, reverse=True)


def _excesses(changes: Sequence[Sequence[Fraction]], declared: Sensitivity) -> Iterator[str]:
    """Changes that the declared sensitivity does not cover."""
    for change in changes:
        l1 = float(sum(change))
        l2 = math.sqrt(float(sum(one**2 for one in change)))
        if declared.l1 is not None and l1 > declared.l1 * _SLACK:
            yield f"ℓ₁ moves by {l1:.6g}, declared {declared.l1:.6g}"
        if declared.l2 is not None and l2 > declared.l2 * _SLACK:
            yield f"ℓ₂ moves by {l2:.6g}, declared {declared.l2:.6g}"
        if declared.moves is not None:
            moves = [*declared.moves, *[0.0] * (len(change) - len(declared.moves))]
            if any(float(one) > most * _SLACK for one, most in zip(change, moves, strict=False)):
                yield "a number moves further than declared"


def _worst_pairs(
    pairs: Sequence[tuple[int, int]], changes: Sequence[Sequence[Fraction]], draws: Sequence[Draw], charged: Guarantee
) -> list[tuple[int, int]]:
    """Those that move numbers most, in either norm; all of them where there are choices.

    An (ε, δ) claim costs a convolution per number, so one pair has to do.
    """
    if not _only_numbers(draws):
        return list(pairs)
    by_l1 = max(range(len(pairs)), key=lambda place: sum(changes[place]))
    by_l2 = max(range(len(pairs)), key=lambda place: sum(one**2 for one in changes[place]))
    return [pairs[by_l1]] if isinstance(charged, ApproxDP) else list(dict.fromkeys([pairs[by_l1], pairs[by_l2]]))


def _only_numbers(draws: Sequence[Draw]) -> bool:
    return all(isinstance(draw, Numbers) for draw in draws)


def _scores(first: AnswerOnTable, second: AnswerOnTable) -> float:
    """Exponential choices lose up to the range of their scores' change, on some data if not on these."""
    both = zip(first.draws, second.draws, strict=True)
    return sum(_range(here, there) for here, there in both if isinstance(here, Choice) and isinstance(there, Choice))


def _range(first: Choice, second: Choice) -> float:
    if not first.exponential:
        return 0.0
    starts = np.union1d(first.starts, second.starts)
    here, there = (one.logs[np.searchsorted(one.starts, starts, side="right") - 1] for one in (first, second))
    return float(np.ptp(here - there))


def _certified(charged: Guarantee, here: Sequence[Draw], there: Sequence[Draw], draws: int, confidence: float) -> float:
    """The loss that real noise of the two tables' laws certifies, as a share of the charge."""
    sides = []
    for side in (here, there):
        columns = [np.asarray(draw.law.sample(draws)).reshape(draws, -1) for draw in side if isinstance(draw, Numbers)]
        sides.append(np.concatenate(columns, axis=1))
    audit = audit_draws(sides[0], sides[1], charged, confidence=confidence)
    reached = audit.reached or 0.0
    return reached if audit.passed else max(reached, 1 + 1e-9)


# ---- Session attacks: every question of a session, one after another on one ledger, in a generated world.
#
# All tables of a world get the same questions and the same script of outcomes. Then, question by question:
#
# - *exact*: between worst neighbours the exact value moves by no more than the sensitivity on record, in ℓ₁, in ℓ₂ and
#   move by move; scores of choices move by no more than the charge allows; the loss of the recorded laws is within the
#   charge; and where no unit is over a limit, the value is the one that plain Python finds;
# - *by draws*: real noise of the recorded laws on the worst pair does not certify more than the charge;
# - *replay*: what is published and recorded, the kind of outcome and the draws are the same on all tables. An error is
#   an outcome; every question here has an answer, so it is a finding too.


# ---- Source kinds: the same few rows as a file, a frame or a table of a database, as users have them


AnyRow = Mapping[str, Any]
Source = tuple[Any, dict[str, Any]]
"""What a session reads, and how it is told to."""


def as_source(kind: str, rows: Sequence[AnyRow], texts: Sequence[str], names: Sequence[str], folder: Path) -> Source:
    """Rows as one kind of source; an empty table has the same columns and types as any other.

    Parameters
    ----------
    kind
        One of `SOURCES`.
    rows
        The data; None is a gap.
    texts, names
        Which columns hold text, and all columns in order; the others hold numbers.
    folder
        Where files go.
    """
    table = arrow_table(rows, {name: "string" if name in texts else "float64" for name in names})
    return (_as_spark if kind == "spark" else SOURCES[kind])(table, folder)


def _as_polars(table: Any, folder: Path) -> Source:
    import polars

    return polars.from_arrow(table), {}


def _as_csv(table: Any, folder: Path) -> Source:
    path = folder / "rows.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(table.column_names)
        writer.writerows(["" if value is None else value for value in row.values()] for row in table.to_pylist())
    return str(path), {}


def _as_parquet(table: Any, folder: Path) -> Source:
    from pyarrow import parquet

    parquet.write_table(table, folder / "rows.parquet")
    return str(folder / "rows.parquet"), {}


def _as_database(table: Any, folder: Path) -> Source:
    import duckdb

    connection = duckdb.connect()
    connection.register("arrived", table)
    connection.execute("CREATE TABLE people AS SELECT * FROM arrived")
    return connection, {"table": "people"}


SOURCES: dict[str, Callable[[Any, Path], Source]] = {
    "arrow": lambda table, _: (table, {}),
    "pandas": lambda table, _: (table.to_pandas(), {}),  # gaps of numbers become NaN there
    "polars": _as_polars, "csv": _as_csv, "parquet": _as_parquet, "duckdb": _as_database,
}  # fmt: skip
"""By name."""


def _as_spark(table: Any, folder: Path) -> Source:
    if which("java") is None:
        raise ImportError("Spark needs Java", name="Java")
    return _as_parquet(table, folder)[0], {"engine": "spark"}


def spark_worlds() -> Iterator[GeneratedWorld]:
    """Some of the worlds on Spark, which starts too slowly for a short run: rows and people, added and replaced."""
    found: dict[Any, GeneratedWorld] = {}
    for world in generated_worlds():
        found.setdefault((world.schema.unit.column, world.schema.neighbours), world)
    for world in found.values():
        few = 6  # a session on Spark takes seconds
        yield replace(
            world,
            name=f"{world.name.rpartition(',')[0]}, spark",
            source="spark",
            tables=world.tables[:few],
            pairs=tuple(pair for pair in world.pairs if max(pair) < few),
            within=tuple(place for place in world.within if place < few),
        )


_ENOUGH: dict[type[Guarantee], Guarantee] = {
    PureDP: PureDP(1000.0),
    GaussianDP: GaussianDP(100.0),
    ZeroConcentratedDP: ZeroConcentratedDP(1000.0),
    ApproxDP: ApproxDP(1000.0, 0.9),
}
"""Budgets that pay for all questions of a world."""


def attack_world(
    world: GeneratedWorld, *, draws: int = 0, confidence: float = 0.999, every: int = 1
) -> Iterator[Audit]:
    """Ask every question on every table of a world, and compare neighbours.

    Parameters
    ----------
    world
        Public facts and tables.
    draws
        Real draws on each side of the worst pair of every question; none by default.
    confidence
        Of each bound from draws.
    every
        Draw for every so many questions alone; other ones in other worlds.
    """
    questions = world_questions(world)
    with TemporaryDirectory() as folder:
        answers = [_asked(world, questions, table, Path(folder)) for table in world.tables]
        refused = None if world.refused is None else tuple(_refusal_findings(world, Path(folder)))
    for place, (name, question) in enumerate(questions.items()):
        own = [answer[name] for answer in answers]
        some = draws if (place + len(world.name)) % every == 0 else 0
        yield judged(name, own, world.pairs, expected=_expected(world, question), draws=some, confidence=confidence)
    if refused is not None:
        yield _judgement("a row that the schema refuses", None, 0.0, None, None, None, refused)


# ---- questions ------------------------------------------------------------------------------------------------------


def world_questions(world: GeneratedWorld) -> dict[str, Question[Any]]:
    """The questions of a world, by name: every other one that a measurement answers, and a count.

    They are made from the questions that the package lists, with first settings, by groups, and with each other
    setting; about rows, and about features of units.
    """
    found: dict[str, Question[Any]] = {}
    for schema in (world.schema, *([world.schema.per_unit()] if world.schema.features else [])):
        for ask, question in every_question(schema, (world.guarantee,)).items():
            if question.schema == schema and _is_measured(question):
                name = ask if schema is world.schema else f"{ask} of units"
                found |= {name: question} | {f"{name}, {setting}": one for setting, one in switched(question)}
    return {
        name: one for place, (name, one) in enumerate(found.items()) if name == "count" or _turn(world, place, name)
    }


def _turn(world: GeneratedWorld, place: int, name: str) -> bool:
    """True where it is a question's turn in this world: every second one's, and every fourth with other settings."""
    often = ("," not in name or name.endswith(", by")) and " of units" not in name
    return place % 2 == world.asks % 2 if often else place % 4 == world.asks


def _is_measured(question: Question[Any]) -> bool:
    """True where what is measured is drawn once, and no other question measures it in the same way.

    Components of margins move more than their tables do, a regression draws again, and a median is a quantile.
    """
    measured: Any = getattr(question, "table", question)  # which a test of a table reads
    once = isinstance(measured, MeasuredQuestion) and type(measured).draw is MeasuredQuestion.draw
    if not once or isinstance(measured.measurement.mechanism, MarginsNoise):
        return False
    return not any(isinstance(question, kind) and type(question) is not kind for kind in asked().values())


# ---- asking ---------------------------------------------------------------------------------------------------------


def _asked(
    world: GeneratedWorld, questions: dict[str, Question[Any]], table: Sequence[Any], folder: Path
) -> dict[str, AnswerOnTable]:
    """All questions on one table, in one session, on one ledger; then some of them again."""
    script = Script()
    with scripted(script):
        session = _session(world, table, folder)
        found = {name: _answered(session, script, name, question) for name, question in questions.items()}
        found["count"] = _again(session, script, questions["count"], found["count"])
    return found


def _session(world: GeneratedWorld, table: Sequence[Any], folder: Path) -> Session:
    source, options = as_source(world.source, table, _TEXTS, world.names, folder)
    schema = world.schema
    ledger = Ledger(":memory:", _ENOUGH[type(world.guarantee)], neighbours=schema.neighbours, unit=schema.unit.unit)
    return (opened if world.source in _FRAMES else Session)(source, schema, ledger=ledger, **options)


_TEXTS = ("arm", "half")
_FRAMES = ("arrow", "pandas", "polars")
"""They are read by the engine that pipelines share; files have one of their own each, and a database is one."""


def _ask(session: Session, name: str, question: Question[Any]) -> Any:
    own = question.schema.made_from is None
    return shown((session if own else session.per_unit()).ask(question, name))


def _answered(session: Session, script: Script, name: str, question: Question[Any]) -> AnswerOnTable:
    findings: list[str] = []
    before = session.ledger.spent()

    def paid() -> None:
        if session.ledger.spent() == before:
            findings.append("nothing was on record at the first draw")

    start = script.begin(paid)
    try:
        told = _ask(session, name, question)
    except Exception as error:
        told = str(Refusal.of(error))
        findings.append(told)
    new = [spend for spend in session.ledger.events() if spend.request == name]
    record = [shown(spend) for spend in new]
    charged = new[0].guarantee if len(new) == 1 and isinstance(new[0].guarantee, Guarantee) else None
    moved = Sensitivity.from_dict(new[0].sensitivity) if len(new) == 1 else None
    if len(new) != 1 and not findings:
        findings.append(f"{len(new)} entries in the ledger for one request")
    draws = tuple(script.draws[start:])
    rate = round_rate(new[0].mechanism) if new else None
    return AnswerOnTable(json.dumps([told, record], sort_keys=True), draws, charged, moved, tuple(findings), rate)


def round_rate(recorded: Mapping[str, Any]) -> tuple[float, int] | None:
    """The rate of a mechanism on record that counts in rounds, and the power of scales that it is a sum of."""
    if recorded["name"] != m.NestedCounts.name:
        return None
    return recorded["rate"], 2 if recorded.get("normal") else 1


def _again(session: Session, script: Script, question: Question[Any], first: AnswerOnTable) -> AnswerOnTable:
    """The same request again gets the stored answer; another question under its name is refused."""
    findings = list(first.findings)
    drawn, spent = len(script.draws), session.ledger.spent()
    try:
        told = _ask(session, "count", question)
        if json.dumps(told, sort_keys=True) != json.dumps(json.loads(first.told)[0], sort_keys=True):
            findings.append("asking again gave another answer")
        session.sum("x", guarantee=question.guarantee, name="count")
        findings.append("another question got the answer of a request")
    except InvalidParameter:
        pass
    except Exception as error:
        findings.append(f"asking again: {Refusal.of(error)}")
    if len(script.draws) > drawn or session.ledger.spent() != spent:
        findings.append("asking again drew or was charged again")
    return replace(first, findings=tuple(findings))


def _refusal_findings(world: GeneratedWorld, folder: Path) -> Iterator[str]:
    """A schema may refuse data: after the payment, before anything is drawn, and in the same words for any data."""
    script = Script()
    with scripted(script):
        session = _session(world, world.refused or (), folder)
        nothing = session.ledger.spent()
        try:
            session.count(guarantee=world.guarantee, by="arm")
            yield "the schema refuses this row, and the session answered"
        except SourceError:
            pass
        if script.draws:
            yield "something was drawn on data that the schema refuses"
        if session.ledger.spent() == nothing:  # whether a row is refused is a fact about the row
            yield "a refusal that depends on a row was free"
