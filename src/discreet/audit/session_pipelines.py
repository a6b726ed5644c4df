"""Session pipelines: every question of a session, from rows to what is published, on worlds of a few rows or units."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from functools import cache, partial
from itertools import combinations, product
from typing import Any

from discreet.audit.pipeline import Pipeline, World, arrow_table, row_world, unit_world
from discreet.audit.report import refused
from discreet.core.errors import DiscreetError
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.protection import Fact, Neighbours
from discreet.core.rows.engines import SEALED, load_ibis
from discreet.core.schema import (
    Bands,
    Bounds,
    Categories,
    Contribution,
    Design,
    Feature,
    PrivacyUnit,
    PrivateLabels,
    Related,
    Schema,
)
from discreet.mechanisms.omission.step import (
    AbsoluteDistance,
    Omission,
    OutlierSuppression,
    PoissonSample,
    SampleByLabel,
)
from discreet.plans.skeleton import suggested
from discreet.questions import Question, asked
from discreet.questions.formulas import Formula
from discreet.questions.profile.question import ProfileQuestion
from discreet.questions.profile.released_first import PrivateBounds, PrivateLimit
from discreet.results.ledger import Ledger
from discreet.session import Session

Ask = Callable[[Session, Guarantee], Any]
ONE = PureDP(1.0)

COLUMNS: dict[str, Bounds | Categories] = {
    "arm": Categories(["A", "B", "C"], nulls="=A", unknown="=A"),
    "x": Bounds(0, 2, grid=1, nulls=0),
    "y": Bounds(-1, 1, grid=0.5, nulls=0),
    "half": Categories(["L", "R"], nulls="=L", unknown="=L"),
}


def _row(arm: Any, x: Any, y: Any) -> dict[str, Any]:
    return {"arm": arm, "x": x, "y": y, "half": "R" if arm == "A" else "L"}


RECORDS = [_row("A", 2.0, 1.0), _row("B", 0.0, -1.0), _row("C", 99.0, 7.0), _row(None, None, None)]
"""Rows at and beyond the bounds; the first one moves most."""
UNITS = [
    [_row("A", 2.0, 1.0)] * 2 + [_row("B", 2.0, 1.0)] * 2,
    [_row("A", 99.0, 9.0)] * 3,
    [_row(arm, 99.0, 9.0) for arm in ("A", "B", "C") for _ in range(3)],
    [_row("C", 0.0, -1.0)],
    [_row(None, None, None)] * 2 + [_row("Z", 1.0, 0.0)],
]
"""Units up to their limits and beyond; the first two move most."""
LIMITS = Contribution(groups=2, rows=2)

ROWS = Schema(columns=COLUMNS)
PEOPLE = Schema(
    columns=COLUMNS, unit=PrivacyUnit("person", contribution=LIMITS), features={"total": Feature(of="x", take="sum",
    low=0, high=3), "mean": Feature(of="y", take="mean", low=-1, high=1, grid=0.25, nulls=0), "arm": Feature(of="arm",
    take="min"), "half": Feature(of="half", take="last", order="y", nulls="=L")},
)  # fmt: skip


def table_of(rows: Sequence[dict[str, Any]], schema: Schema) -> Any:
    """Rows as a table; its columns have the same types where it is empty."""
    kinds = {name: "string" if isinstance(kind, Categories) else "float64" for name, kind in COLUMNS.items()}
    return arrow_table(rows, kinds if schema.unit.column is None else {schema.unit.column: "int64", **kinds})


def opened(table: Any, schema: Schema, ledger: Ledger, **options: Any) -> Session:
    """A session on the engine that all pipelines share: to start one takes longer than most questions do."""
    return Session(table, schema, ledger=ledger, engine=_engine(os.getpid()), **options)


@cache
def _engine(process: int) -> Any:
    """A process that was forked has its own; with one thread, since a few rows leave nothing to share out."""
    return load_ibis().duckdb.connect(threads=1, **SEALED)


def session_pipelines() -> Iterator[Pipeline]:
    """Pipelines that questions do not suggest: sequences, several questions, lists of labels, steps of omission."""
    rows = row_world(RECORDS, most=2)
    people = unit_world(UNITS, most=2)
    yield from _clusters(rows)
    yield from _groups(rows, people)
    yield from _running_totals(rows, people)
    yield from _regressions(rows, people)
    yield _noise_aware(people)
    yield _several(people)
    yield from _omitting()


def _asked(
    name: str, ask: Ask, schema: Schema, world: World, spent: Guarantee = ONE, *, tight: bool = True, **options: Any
) -> Pipeline:
    def run(table: Any, ledger: Ledger) -> Any:
        return ask(opened(table_of(table, schema), schema, ledger), spent)

    covers = (f"Session.{name.split(',')[0].split(' ')[0]}",)
    return Pipeline(f"session.{name}", run, world, spent, covers, tight=tight, repeats=True, **options)


def _clusters(rows: World) -> Iterator[Pipeline]:
    """Means, and medians among public positions."""

    def means(session: Session, spent: Guarantee) -> Any:
        model: Any = session.clusters(["x", "y"], 2, guarantee=spent, iterations=2, name="r")
        return [model.cluster_centers_, model.counts_]

    def medians(session: Session, spent: Guarantee) -> Any:
        corners = [[0.0, 0.0], [2.0, 1.0], [2.0, -1.0]]
        return session.clusters(
            ["x", "y"], 1, guarantee=spent, universe=corners, iterations=2, name="r"
        ).cluster_centers_

    yield _asked("clusters, one row", means, ROWS, rows)
    yield _asked("clusters among positions, one row", medians, ROWS, rows, tight=False, all_paths=True, quick=False)


def _groups(rows: World, people: World) -> Iterator[Pipeline]:
    """Lists of labels that are not public, of rows and of people with two of them each."""
    spent = ApproxDP(1.0, 0.01)
    for method, rule in (("optimal", "OptimalSelection"), ("gaussian", "GaussianThreshold")):
        for unit, world, name in ((PrivacyUnit(), rows, "row"), (PEOPLE.unit, people, "person")):
            facts = Schema(columns={"arm": PrivateLabels()}, unit=unit)

            def ask(session: Session, spent: Guarantee, method: str = method) -> Any:
                return session.common_labels("arm", guarantee=spent, method=method, name="r")

            asked = _asked(f"groups, {method}, one {name}", ask, facts, world, spent, tight=name == "row")
            yield replace(asked, covers=("Session.common_labels", rule))


def _running_totals(rows: World, people: World) -> Iterator[Pipeline]:
    """Sequences of three releases, in which the arms stand for periods: all of them cost the guarantee once."""

    def counts(session: Session, spent: Guarantee) -> Any:
        return [session.running_total("arm", guarantee=spent, period=arm) for arm in ("A", "B", "C")]

    def sums(session: Session, spent: Guarantee) -> Any:
        return [
            session.running_total("arm", guarantee=spent, period=arm, column="y", name=arm) for arm in ("A", "B", "C")
        ]

    for spent in (GaussianDP(1.0), ZeroConcentratedDP(0.5)):
        kind = type(spent).__name__
        tight = kind == "GaussianDP"  # ρ allows more than the curve of normal noise
        yield _asked(f"running_total, one row, {kind}", counts, ROWS, rows, spent, tight=tight)
        yield _asked(f"running_total, one person, {kind}", sums, PEOPLE, people, spent, tight=tight, quick=False)


def _regressions(rows: World, people: World) -> Iterator[Pipeline]:
    """Moments, then squares around them: in parts, in boxes and under weighed normal noise."""
    texts = {"a": "2 - x", "b": "x * x", "c": "y + 1"}
    more = {name: Bounds(0, 2, grid=1, value=Formula(text)) for name, text in texts.items()}
    columns: dict[str, Any] = {**COLUMNS, **more}
    replaced = Schema(columns=columns, neighbours=Neighbours.REPLACE_ONE, size=3)
    world = row_world(RECORDS, most=3, neighbours=Neighbours.REPLACE_ONE)
    asked: dict[str, Ask] = {
        "parts": lambda s, g: s.regression("y", ["x", "a"], guarantee=g, name="r"),
        "boxes": lambda s, g: s.regression("y", ["x", "a", "b", "c", "arm"], guarantee=g, name="r"),
    }
    for name, ask in asked.items():
        yield _asked(f"regression, {name}, one row", ask, Schema(columns=columns), rows, tight=name == "boxes")
        own = Schema(columns=columns, unit=PEOPLE.unit)
        yield _asked(f"regression, {name}, one person", ask, own, people, tight=False, quick=False)
        for spent in (ONE, GaussianDP(1.0)):
            kind = type(spent).__name__
            yield _asked(f"regression, {name}, a row replaced, {kind}", ask, replaced, world, spent, tight=False)

    def smaller(session: Session, guarantee: Guarantee) -> Any:
        return session.regression("y", ["x", "a"], guarantee=guarantee, models=["x", "a"], name="r")

    yield _asked("regression, smaller models, a row replaced", smaller, replaced, world, tight=False)


def _noise_aware(people: World) -> Pipeline:
    """Means of two arms from partitions of units that an id tells apart; a world has too few for a tight charge."""

    def ask(session: Session, spent: Guarantee) -> Any:
        return session.compare_means("x", by="half", guarantee=spent, method="noise_aware", partitions=10, name="r")

    return _asked("compare_means, noise_aware, one person", ask, PEOPLE, people, tight=False)


def _several(people: World) -> Pipeline:
    """A session that asks several things, each for a share."""

    def ask(session: Session, whole: Guarantee) -> Any:
        shares = whole.split(4)
        return [
            session.count(guarantee=shares[0], name="count"),
            session.sum("y", guarantee=shares[1], by="arm", name="sum"),
            session.quantile("x", 0.5, guarantee=shares[2], name="quantile"),
            session.table(["arm"], guarantee=shares[3], name="table"),
        ]

    asked = _asked("four questions, one person", ask, PEOPLE, people, tight=False, quick=False)
    return replace(asked, covers=("Session", "Ledger"))


def _omitting() -> Iterator[Pipeline]:
    """Questions behind a step that leaves out rows: outputs are mixtures over what is kept."""
    world = row_world(RECORDS[:3], most=2)
    wide = AbsoluteDistance((-8, 8))  # wider than any two rows are apart: a distance must not scale with the data
    steps: dict[str, Omission] = {
        "one in ten": PoissonSample(0.1),
        "eight in ten": PoissonSample(0.8),
        "by label": SampleByLabel("arm", {"A": 0.1, "B": 0.8}),
        "suppressed": OutlierSuppression(0.4, 0.5, AbsoluteDistance((0, 2)), columns=("x",)),
        "suppressed by far": OutlierSuppression(0.3, 0.45, wide, columns=("x",)),
    }
    asked: dict[str, Ask] = {
        "count": lambda s, g: s.count(guarantee=g, name="r"),
        "sum": lambda s, g: s.sum("x", guarantee=g, name="r"),
        "mode": lambda s, g: s.mode("arm", guarantee=g, name="r"),
    }
    for (how, step), (name, ask) in product(steps.items(), asked.items()):
        behind = lambda s, g, step=step, ask=ask: ask(s.omitting(step), g)  # noqa: E731
        tight = isinstance(step, PoissonSample) and name != "mode"
        made = _asked(f"{name}, {how}", behind, ROWS, world, tight=tight, omits=1, quick=name == "count")
        yield replace(made, covers=("Session.omitting", type(step).__name__))
    yield _two_samples()


def _two_samples() -> Pipeline:
    """Two questions to one session behind a step: each must get rows of its own choice."""

    def ask(session: Session, whole: Guarantee) -> Any:
        sampled = session.omitting(PoissonSample(0.3))
        return [sampled.count(guarantee=one, name=f"r{place}") for place, one in enumerate(whole.split(2))]

    made = _asked("count, sampled twice", ask, ROWS, row_world(RECORDS[:2], most=1), tight=False, omits=2)
    return replace(made, covers=("Session.omitting", "PoissonSample"))


# ---- Every question, made from itself: first settings for the columns at hand, and one setting changed at a time.
#
# The list of questions is the package's own, and settings come from the gallery that the studio shows, so a new
# question is audited on the day on which it is listed.


_FIRST_CHOICES: tuple[Guarantee, ...] = (PureDP(1.0), GaussianDP(1.0), ApproxDP(1.0, 0.01))
PLANNED_ONLY = ("expected_rows", "expected_mean", "expected_proportion")
"""Settings that serve plans alone, and so are no part of what is released; for comparisons also ``spread``."""


def every_question(
    schema: Schema, guarantees: Sequence[Guarantee] = _FIRST_CHOICES, *, limits: Sequence[Contribution] = ()
) -> dict[str, Question[Any]]:
    """One of each question for the columns of a schema, by its name.

    Parameters
    ----------
    schema
        The columns; questions that want other limits of a unit, or rows as units, get them.
    guarantees
        The first of them that a question can meet is its own.
    limits
        Further limits to try, before one row in all.

    Examples
    --------
    >>> schema = Schema(columns={"x": Bounds(0, 2, grid=1)})
    >>> sorted(every_question(schema))[:3]
    ['clusters', 'count', 'covariance_matrix']
    """
    found = {ask: made(ask, schema, guarantees, limits) for ask in asked()}
    return {ask: question for ask, question in found.items() if question is not None}


def made(
    ask: str,
    schema: Schema,
    guarantees: Sequence[Guarantee] = _FIRST_CHOICES,
    limits: Sequence[Contribution] = (),
    **settings: Any,
) -> Question[Any] | None:
    """One question with first settings for the columns of a schema; None where these columns give none."""
    given = _settings(ask, schema) | settings
    for unit in _units(schema, limits):
        for guarantee in guarantees:
            try:
                found: Question[Any] = asked()[ask](schema=replace(schema, unit=unit), guarantee=guarantee, **given)
                return found
            except (DiscreetError, TypeError):  # this unit or guarantee is not for it, or a column is missing
                continue
    return None


def _units(schema: Schema, limits: Sequence[Contribution]) -> Iterator[PrivacyUnit]:
    yield schema.unit
    if schema.unit.column is not None:
        yield from (replace(schema.unit, contribution=one) for one in (*limits, Contribution(total=1)))
        yield PrivacyUnit()


def _settings(ask: str, schema: Schema) -> dict[str, Any]:
    """The settings that the gallery suggests, with as many bins as the coarsest grid allows."""
    weight = None if schema.design is None else schema.design.weight  # no question is about it
    found = suggested(ask, {name: one.to_dict() for name, one in schema.columns.items() if name != weight})
    if "bins" in found:
        found["bins"] = dict.fromkeys(found["bins"], 2) if isinstance(found["bins"], dict) else 2
    if "pairs" in asked()[ask].fields():
        found["pairs"] = 1  # a few rows make a few pairs
    if ask in ("profile", "usable_values"):
        found["columns"] = [name for name, one in schema.columns.items() if one.value is None]
    return found


def variants(question: Question[Any]) -> Iterator[tuple[str, Question[Any]]]:
    """The same question with one field changed, for every field and every change that it accepts.

    Examples
    --------
    >>> schema = Schema(columns={"x": Bounds(0, 2, grid=1), "y": Bounds(0, 2, grid=1)})
    >>> [name for name, _ in variants(made("sum", schema))]
    ['guarantee', 'guarantee', 'guarantee', 'guarantee', 'column']
    """
    for one in fields(question):
        if one.name in ("schema", "name") or not one.init:
            continue
        seen = [getattr(question, one.name)]
        for value in _others(one.name, seen[0], question.schema):
            try:
                other = question.changed(**{one.name: value})
            except (DiscreetError, TypeError, ValueError, AttributeError):
                continue
            if getattr(other, one.name) not in seen:  # some settings are brought into one form
                seen.append(getattr(other, one.name))
                yield one.name, other


def _others(name: str, value: Any, schema: Schema) -> Iterator[Any]:
    """Other values of a field, by what it holds now; most of them fit few questions."""
    if isinstance(value, Guarantee):
        yield from (PureDP(0.75), GaussianDP(0.75), ApproxDP(0.75, 0.02), ApproxDP(1.0, 0.003))
    elif isinstance(value, bool):
        yield not value
        yield 0.9
    elif isinstance(value, int):
        yield from (value + 1, max(1, value - 1))
    elif isinstance(value, float):
        yield from (value / 2, value * 1.5)
    elif isinstance(value, str):
        yield from _other_names(value, schema)
    elif isinstance(value, tuple | list) and value:
        yield from _other_lists(list(value), schema)
    elif isinstance(value, dict) and value:
        yield {key: one + 1 if isinstance(one, int) else one for key, one in value.items()}
    else:
        yield from _given(name, schema)


def _other_names(value: str, schema: Schema) -> Iterator[str]:
    yield from (other for other in schema.columns if other != value)
    for declared in schema.columns.values():
        if isinstance(declared, Categories):
            yield from (str(label) for label in declared.labels if label != value)
    yield from ("signs", "gaussian", "optimal", "noise_aware", "public", "private", "dmy", "mdy")


def _other_lists(value: list[Any], schema: Schema) -> Iterator[list[Any]]:
    yield value[::-1]
    yield value[:-1]
    if all(isinstance(one, float) for one in value):
        yield [*value[:-1], value[-1] * 0.9]
        yield [one / 2 for one in value]
        yield [value[0] / 2, value[1] + value[0] / 2, *value[2:]] if len(value) > 1 else value
    names = [name for name in schema.columns if name not in value]
    yield from ([*value[:-1], name] for name in names)
    yield from ([*value, name] for name in names)
    yield from ([*value, [name]] for name in names)


def _given(name: str, schema: Schema) -> Iterator[Any]:
    """Values for a field that is empty."""
    numbers = [one for one, declared in schema.columns.items() if isinstance(declared, Bounds)]
    listed = [one for one, declared in schema.columns.items() if isinstance(declared, Categories)]
    fitting: dict[str, Sequence[Any]] = {
        "contribution": (Contribution(total=1), Contribution(total=2), Contribution(groups=1, rows=3)),
        "by": listed,
        "column": numbers,
        "on": numbers,
        "interval": (0.9, 0.8),
        "rows_at_least": (2,),
        "most_rows": (3, 4),
        "weights": ([1.0, 2.0], [1.0, 2.0, 3.0]),
        "accuracy": ("relative", "equal"),
        "mean_of": numbers,
        "edges": ([0, 1, 2],),
        "bins": (2, {numbers[0]: 2} if numbers else None),
        "models": ([[one] for one in numbers], numbers),
        "partitions": (3, 4),
        "partition_by": listed,
        "censor": ((0.1, 0.1),),
        "method": ("signs", "noise_aware", "gaussian", "direct"),
        "universe": ([[0.0, 0.0], [2.0, 1.0]],),
        "iterations": (2, 3),
        "period": ("B",),
        "public_total": (True,),
        "expected_rows": (77,),
        "expected_mean": (1.0,),
        "expected_proportion": (0.3,),
        "expected_sd": (0.5, True),
    }
    yield from fitting.get(name, ())


# ---- Question pipelines: every question, made from the question itself, about people and rows at every corner.
#
# A question that is listed is audited: nobody has to write a pipeline for it. People hold more rows and groups than
# their limits allow, at every corner of the columns and beyond, alone and beside others; they are added or replaced.
# Each setting that a question leaves off is switched on once. A sensitivity differs by relation and by norm, so both
# relations are asked with pure guarantees (ℓ₁) and with those that normal noise meets (ℓ₂).


Row = dict[str, Any]


def _row_of_half(arm: Any, x: Any, y: Any, half: Any) -> Row:
    return {"arm": arm, "x": x, "y": y, "half": half}


_CORNERS = [(x, y, half) for half in ("L", "R") for x in (99.0, -99.0) for y in (9.0, -9.0)]
_OVER = [[_row_of_half(arm, *corner) for arm in ("A", "B", "C") for _ in range(3)] for corner in _CORNERS]
_ALONE = [UNITS[0], _OVER[0], _OVER[3]]
_BESIDE = [_OVER[1], UNITS[4], [_row_of_half("C", *_CORNERS[6])]]
"""Those whom a short run adds: over all limits at opposite corners, with gaps and unknown labels, alone in a group."""
_BASE = [[_row_of_half("A", 2.0, -1.0, "R")], [_row_of_half("B", 0.0, 1.0, "L")], [_row_of_half("C", 1.0, 0.0, "R")]]
_OPPOSITE = ((0, 7), (5, 2), (8, 9), (0, 3), (10, 6), (8, 11))
"""Who replaces whom in a short run: everything that both have changes, or numbers, labels or gaps alone."""


def corner_world() -> World:
    """Each of many people alone, and beside three others."""
    others = [*UNITS, *_OVER[:4], *([_row_of_half("C", *corner)] for corner in _CORNERS)]
    tables: list[list[list[Row]]] = [[], _BASE]
    pairs = []
    added = [(0, one) for one in _ALONE] + [(1, one) for one in _BESIDE]
    for place, person in (*added, *((place, one) for one in others for place in (0, 1) if (place, one) not in added)):
        pairs.append((place, len(tables)))
        tables.append([*tables[place], person])
    return World(tuple(map(_numbered, tables)), tuple(pairs), unit="person")


def replaced_world() -> World:
    """Three people and a fourth, whom another one replaces."""
    fourth = [*_OVER, UNITS[0], [_row_of_half("C", -99.0, -9.0, "R")], UNITS[4], [_row_of_half("A", 99.0, 9.0, "L")]]
    pairs = [*_OPPOSITE, *(pair for pair in combinations(range(len(fourth)), 2) if pair not in _OPPOSITE)]
    tables = tuple(_numbered([*_BASE, person]) for person in fourth)
    return World(tables, tuple(pairs), Neighbours.REPLACE_ONE, "person")


def _numbered(people: Sequence[Sequence[Row]]) -> list[Row]:
    return [{"person": place, **row} for place, rows in enumerate(people) for row in rows]


_DROPPING: dict[str, Any] = {
    "arm": Categories(["A", "B", "C"], nulls="=A", unknown="drop"), "x": Bounds(0, 2, grid=1),
    "y": Bounds(-1, 1, grid=0.5), "half": Categories(["L", "R"], nulls="drop", unknown="=L"),
}  # fmt: skip
"""Columns that drop some of what they cannot read, so that a row which is replaced may also go."""


def question_pipelines(replaced: bool = False) -> Iterator[Pipeline]:
    """Each question of people and of rows, who are added or replaced, with first settings and with each other one."""
    world = replaced_world() if replaced else corner_world()
    # Numbers that nobody chose, with all of their bits: a scale that is rounded is too small half of the time.
    size = 0.5 + secrets.randbits(53) * 2.0**-53
    pure = PureDP(size)
    normal = GaussianDP(size)
    some = ApproxDP(size, 0.01)
    known: dict[str, Any] = {"neighbours": Neighbours.REPLACE_ONE, "size": 4} if replaced else {}
    people = Schema(columns=COLUMNS, unit=PEOPLE.unit, **known)
    rows = Schema(columns=_DROPPING, **known)
    who = "replaced" if replaced else "added"
    yield from _pipelines_of(people, (pure, normal, some), world, f"a person {who}", first=True, more=True)
    yield from _pipelines_of(people, (normal, some), world, f"a person {who}, other noise")
    kinds = (pure, normal, some) if replaced else (ZeroConcentratedDP(size), some, pure)
    yield from _pipelines_of(rows, kinds, world, f"a row {who}", more=replaced)
    features = replace(PEOPLE, **known).per_unit()
    yield from _pipelines_of(features, (pure, normal, some), world, f"features of a person {who}")


def design_pipelines() -> Iterator[Pipeline]:
    """Estimates under a design, of rows and of clusters in several strata, who are added or replaced.

    Weights are those of ``x``: none, at the trim, and beyond it.
    """
    columns = {name: COLUMNS[name] for name in ("y", "arm", "half", "x")}
    for replaced, world in ((False, corner_world()), (True, replaced_world())):
        known: dict[str, Any] = {"neighbours": Neighbours.REPLACE_ONE, "size": 4} if replaced else {}
        for unit in (PrivacyUnit(), PrivacyUnit("person")):
            strata = None if unit.column is None else "half"
            design = Design(weight="x", weight_high=1, strata=strata, cluster=unit.column)
            schema = Schema(columns=columns, unit=unit, design=design, **known)
            who = f"a {'row' if unit.column is None else 'person'} {'replaced' if replaced else 'added'} under a design"
            yield from _pipelines_of(schema, (PureDP(0.7),), world, who)
            yield from _pipelines_of(schema, (GaussianDP(0.7),), world, f"{who}, normal noise")


def _pipelines_of(
    schema: Schema,
    guarantees: Sequence[Guarantee],
    world: World,
    words: str,
    *,
    first: bool = False,
    more: bool = False,
) -> Iterator[Pipeline]:
    """Questions with their first settings, on many pairs where these are the ``first``; ``more`` switches others on."""
    questions = every_question(schema, guarantees)
    if schema.made_from is None and schema.design is None:
        unlisted = replace(schema, columns={**schema.columns, "arm": PrivateLabels()})
        questions = {**every_question(unlisted, guarantees), **questions}
    for ask, question in questions.items():
        own = world if question.schema.unit.column is not None else _of_rows(world)
        for setting, one in [("", question), *(switched(question) if more else ())]:
            # Features make one row per person; a profile is of the columns that the source itself has.
            made = schema.made_from is None or (one.schema == schema and not isinstance(one, ProfileQuestion))
            if made and _public_alike(one, world):
                name = f"question.{ask}, {f'{setting}, ' if setting else ''}{words}"
                run = partial(_run, one)
                covers = (f"Session.{ask}", *_measured_alone(one))
                covers += () if one.schema.made_from is None else ("Session.per_unit",)
                quick = not setting and (first or own is not world)
                yield Pipeline(name, run, own, one.guarantee, covers, tight=False, repeats=True, quick=quick)


def switched(question: Question[Any]) -> Iterator[tuple[str, Question[Any]]]:
    """The question with one setting more: those that are off are on, and limits or methods are others."""
    names, seen = {*question.schema.columns}, set[str]()
    for name, other in variants(question):
        value = getattr(question, name)
        listed = {value} if isinstance(value, str) else {*map(str, value)} if isinstance(value, tuple | list) else set()
        # A later period needs the earlier ones: `session_pipelines` asks for all of them.
        new = name not in (*seen, *PLANNED_ONLY, "guarantee", "expected_sd") and other.first_period() == other
        if new and not listed & names and not refused(partial(other.claim, None)):
            seen.add(name)
            yield name, other


def _public_alike(question: Question[Any], world: World) -> bool:
    """True where neighbours have the same public facts: a public arm stays, and these people change theirs."""
    protection = question.claim(None).protection
    if protection.unit != question.schema.unit.unit:  # clusters protect rows alone, and a ledger of people refuses them
        return False
    return world.neighbours is Neighbours.ADD_REMOVE or Fact.ARM not in protection.public


def _measured_alone(question: Question[Any]) -> tuple[str, ...]:
    """The statistic that a question measures."""
    measured = getattr(question, "measurement", None)
    return () if measured is None else (type(measured.statistic).__name__,)


def _run(question: Question[Any], table: Any, ledger: Ledger) -> Any:
    rows = question.schema.made_from or question.schema
    session = opened(table_of(table, rows), rows, ledger)
    return (session if rows is question.schema else session.per_unit()).ask(question, "r")


def _of_rows(world: World) -> World:
    """The same with a row in place of each person."""

    def first_rows(table: list[Row]) -> list[Row]:
        return [*{row["person"]: row for row in table}.values()]

    return replace(world, tables=tuple(map(first_rows, world.tables)), unit="row")


# ---- Transform pipelines: questions about rows that a formula chooses and columns that one computes.


_TRANSFORMED = {
    **COLUMNS,
    "band": Bands(edges=[0, 1, 2], value=Formula("x")),
    "gap": Bounds(-1, 3, grid=0.5, nulls=0, value=Formula("x - y")),
}
_WHERE = Formula("x >= 1 and arm != 'B' or y is missing")
_ASKED_OF_FORMULAS: dict[str, Ask] = {
    "usable_values": lambda s, g: s.usable_values(guarantee=g, columns=["x", "arm", "gap"], name="r"),
    "count": lambda s, g: s.count(guarantee=g, name="r"),
    "mean": lambda s, g: s.mean("gap", guarantee=g, name="r"),
    "table": lambda s, g: s.table(["band", "half"], guarantee=g, name="r"),
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
        "a person replaced": (replace(people, neighbours=one, size=2), unit_world(UNITS, most=2, neighbours=one)),
    }
    for words, (schema, world) in worlds.items():
        for name, ask in _ASKED_OF_FORMULAS.items():
            quick = name in ("count", "mean", "usable_values")
            yield _asked(f"{name} of formulas, {words}", ask, schema, world, tight=False, quick=quick)


# ---- Join pipelines: questions about two tables of the same people, on neighbours that differ in both.


_UNIT = PrivacyUnit("person", contribution=Contribution(total=3))
_COST = Bounds(0, 2, grid=1, nulls=0)
_ARMS = {"arm": Categories(["A", "B"], nulls="=A", unknown="=A")}
_JOINED = Schema(columns=_ARMS, unit=_UNIT, related={"visits": Related(id="who", rows=2, columns={"cost": _COST})})
_COUNTED = Schema(
    columns=_ARMS, unit=_UNIT, related={"visits": Related(id="who", rows=2, columns={"cost": _COST},
    where=Formula("cost >= 1"), counted="visits")}, where=Formula("visits >= 1 or arm == 'B'"),
)  # fmt: skip


def _row_of_two(arm: str | None, cost: float | None = None, *, visit: bool = False) -> dict[str, Any]:
    return {"arm": arm, "cost": cost, "visit": visit}


_PEOPLE_OF_TWO = [
    [_row_of_two("A"), _row_of_two("B"), *[_row_of_two(None, 2.0, visit=True)] * 3],
    [_row_of_two("A")],
    [_row_of_two("B"), _row_of_two("B"), _row_of_two(None, 0.0, visit=True), _row_of_two(None, 99.0, visit=True)],
    [_row_of_two(None, 2.0, visit=True)],
]
"""Everybody's rows in both tables: beyond limits, in one of them alone, and with nothing that a filter keeps."""
_ASKED_OF_TWO: dict[str, Ask] = {
    "count": lambda s, g: s.count(guarantee=g, by="arm", name="r"),
    "sum": lambda s, g: s.sum("cost", guarantee=g, name="r"),
}


def join_pipelines() -> Iterator[Pipeline]:
    """Joined rows and counted events; people added, removed and replaced in both tables at once."""
    one = Neighbours.REPLACE_ONE
    known = [[*rows, _row_of_two("A")] for rows in _PEOPLE_OF_TWO]  # the public size counts people of the first table
    worlds: dict[str, tuple[World, dict[str, Any]]] = {
        "one person": (unit_world(_PEOPLE_OF_TWO, most=2), {}),
        "a person replaced": (unit_world(known, most=2, neighbours=one), {"neighbours": one, "size": 2}),
    }
    for words, (world, facts) in worlds.items():
        for name, ask in _ASKED_OF_TWO.items():
            schema = replace(_JOINED, **facts)
            yield _joined_pipeline(f"{name} of joined rows, {words}", name, ask, schema, world, quick=name == "sum")
        schema = replace(_COUNTED, **facts)
        yield _joined_pipeline(
            f"count of people with an event, {words}", "count", _ASKED_OF_TWO["count"], schema, world, quick=True
        )


def _joined_pipeline(title: str, name: str, ask: Ask, schema: Schema, world: World, *, quick: bool) -> Pipeline:
    def run(rows: Sequence[dict[str, Any]], ledger: Ledger) -> Any:
        visits = [{"who": row["person"], **row} for row in rows if row["visit"]]
        others = [row for row in rows if not row["visit"]]
        first = arrow_table(others, {"person": "int64", "arm": "string"})
        second = arrow_table(visits, {"who": "int64", "cost": "float64"})
        return ask(opened(first, schema, ledger, related={"visits": second}), ONE)

    return Pipeline(f"joined.{title}", run, world, ONE, (f"Session.{name}",), tight=False, repeats=True, quick=quick)


# ---- Profile pipelines: profiles of undeclared columns, and distinct labels, on worlds of a few rows or units.


def profile_pipelines() -> Iterator[Pipeline]:
    """Bounds and limits that are released first, and how many people there are."""
    rows = row_world(RECORDS, most=2)
    people = unit_world(UNITS, most=2)
    private = Schema(columns={"x": PrivateBounds(0, 2, grid=1, epsilon=0.5)})
    limited = Schema(columns={}, unit=PrivacyUnit("person", contribution=PrivateLimit(total=2, epsilon=0.5)))
    one = Neighbours.REPLACE_ONE
    replaced = replace(limited, neighbours=one, size=2)
    others = unit_world(UNITS, most=2, neighbours=one)
    for name, ask, schema, world in (
        ("mean with private bounds, one row", _mean, private, rows),
        ("count with a private limit, one person", _count, limited, people),
        ("count with a private limit, a person replaced", _count, replaced, others),
        ("distinct people, one person", _distinct_units, PEOPLE, people),
        ("profile of two columns, one row", _profile, ROWS, rows),
        ("profile of two columns, one person", _profile, PEOPLE, people),
    ):
        yield _asked(name, ask, schema, world, tight=False)


def _mean(session: Session, spent: Guarantee) -> Any:
    """Bounds for half of the budget, and a mean with them for the other half."""
    return session.mean("x", guarantee=spent.split(2)[0], name="r").measured


def _count(session: Session, spent: Guarantee) -> Any:
    """A limit of rows for half of the budget, and a count with it for the other half."""
    return session.count(guarantee=spent.split(2)[0], name="r").measured


def _profile(session: Session, spent: Guarantee) -> Any:
    """Few columns, so that the first draw of several weighs most."""
    return session.profile(guarantee=spent, columns=["x", "arm"], name="r")


def _distinct_units(session: Session, spent: Guarantee) -> Any:
    return session.distinct("person", guarantee=spent, name="r")
