"""Identities: what a session keeps for later, what a ledger takes for the same release, and what both must tell apart.

- *Order*: one session asks every question and every variant of it that differs in one setting; then each of them is
  asked alone, in the opposite order. A cache whose key forgets a setting hands the rows, the price or the noise of one
  to the other, and then the two differ. Each question alone spends a hair more, so that no value is found in a cache
  that outlives a session.
- *Releases*: where a ledger takes two questions for the same release, their draws have the same laws.
- *Facts*: a walk over all fields of schemas, units, limits, columns, related tables and questions changes one at a
  time; each change must give another identity, since a stored answer and an approval belong to it.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np

from discreet.audit.pipeline import Draw, Numbers, Script, arrow_table, number_laws, scripted
from discreet.audit.report import Audit, Compared, Refusal, recomputed, refused
from discreet.audit.session_pipelines import PLANNED_ONLY, every_question, made, variants
from discreet.audit.worlds import SOURCES, as_source
from discreet.core.errors import DiscreetError
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.protection import Neighbours
from discreet.core.rows import Selected, Snapshot, keep, take, totals
from discreet.core.rows.source import open_source
from discreet.core.schema import (
    Bands,
    Bounds,
    Categories,
    Contribution,
    Dates,
    Design,
    Feature,
    PrivacyUnit,
    PrivateLabels,
    Related,
    Schema,
)
from discreet.plans.declarations import narrowed
from discreet.questions import Question, asked
from discreet.questions.formulas import Formula
from discreet.questions.profile.released_first import PrivateBounds, PrivateLimit
from discreet.results.ledger import Ledger
from discreet.session import Session

Laws = list[tuple[Any, ...]]


def audit_orders(deep: bool = False) -> Audit:
    """Ask pairs of questions in one session and in others."""
    people, rows = (partial(_orders, kind, deep) for kind in ("people", "rows"))
    return recomputed("questions, together and alone", [people, *([rows] if deep else [])], "keys")


def audit_identities() -> Audit:
    """Walk over everything that makes a release, in declarations, settings and related tables."""
    return recomputed("what makes a release", [_joined_orders, _kept, _facts, _features, _foreign, _settings], "keys")


# ---- one session, and one for each question --------------------------------------------------------------------------

_COLUMNS: dict[str, Any] = {
    "arm": Categories(["A", "B", "C"], nulls="drop", unknown="drop"), "half": Categories(["L", "R"], nulls="=L",
    unknown="=L"), "x": Bounds(0, 2, grid=1), "y": Bounds(-1, 1, grid=0.5, nulls=0), "city": PrivateLabels(),
}  # fmt: skip
_LIMITS = Contribution(groups=1, rows=2)
"""Those of running totals, so that questions about the same rows meet them in a session."""


def _people() -> list[dict[str, Any]]:
    """People with one to nine rows, who are over some limits and under others, in several groups and with gaps."""
    rng, rows = np.random.default_rng(11), []
    for person in range(23):
        for _ in range(int(rng.choice([1, 2, 3, 9]))):
            row = {"person": person, "arm": rng.choice(["A", "B", "C", "C", "?"]), "half": rng.choice(["L", "R"])}
            numbers = {"x": float(rng.choice([0, 1, 2, 5])), "y": float(rng.choice([-1, 0.5, 1]))}
            gap = rng.random() < 0.2
            rows.append({**row, **numbers, "city": rng.choice(["A", "B", "C"]), **({"x": None} if gap else {})})
    return rows


def _table(rows: Sequence[Mapping[str, Any]]) -> Any:
    texts = dict.fromkeys(("arm", "half", "city"), "string")
    return arrow_table(rows, {"person": "int64", "x": "float64", "y": "float64", **texts})


def _orders(kind: str, deep: bool) -> Iterator[Compared]:
    """Every question with its variants, together and alone."""
    unit = PrivacyUnit("person", contribution=_LIMITS) if kind == "people" else PrivacyUnit()
    schema = Schema(columns=_COLUMNS, unit=unit)
    own = {ask: one for ask, one in every_question(schema).items() if one.schema == schema}
    asked = [*own.items()]
    for ask, question in own.items():
        others = [(name, one) for name, one in variants(question) if name not in PLANNED_ONLY and _claims(one)]
        # One change of each field; but all groupings, since rows are kept by what they are grouped by.
        keyed = {(name, place if name == "by" else 0): (name, one) for place, (name, one) in enumerate(others)}
        some = others if deep else list(keyed.values())
        asked += [(f"{ask}, other {name} ({number})", one) for number, (name, one) in enumerate(some)]
    # What reads the same columns is asked in a row, since a session keeps rows for a few questions alone.
    asked.sort(key=lambda one: sorted({*one[1].columns_read(), *_over(one[1])}))
    table = _table(_people())
    yield from _compared(asked, lambda schema, ledger: Session(table, schema, ledger=ledger))


def _over(question: Question[Any]) -> tuple[str, ...]:
    """The column of periods, where a question has one."""
    over: str | None = getattr(question, "over", None)
    return () if over is None else (over,)


def _claims(question: Question[Any]) -> bool:
    """True where a question says what it would release; some refuse their settings there."""
    return not refused(partial(question.claim, None))


def _joined_orders() -> Iterator[Compared]:
    """The same for two tables, and for sessions of schemas that differ in what they say of the second one."""
    rows = _people()
    costs = [{"who": row["person"], "cost": row["x"]} for row in rows]
    visits = arrow_table(costs, {"who": "int64", "cost": "float64"})

    def session(schema: Schema, ledger: Ledger) -> Session:
        return Session(_table(rows), schema, ledger=ledger, related={"visits": visits})

    base = Related(id="who", rows=2, columns={"cost": Bounds(0, 2, grid=1)})
    schemas = {
        "two visits": base,
        "three visits": replace(base, rows=3),
        "visits that cost": replace(base, where=Formula("cost >= 1")),
        "visits that cost more": replace(base, where=Formula("cost >= 2")),
        "wider costs": replace(base, columns={"cost": Bounds(0, 4, grid=1)}),
    }
    unit = PrivacyUnit("person", contribution=Contribution(total=3))
    columns = {name: _COLUMNS[name] for name in ("arm", "y")}
    asked = []
    for words, related in schemas.items():
        schema = Schema(columns=columns, unit=unit, related={"visits": related})
        some = every_question(schema)
        for ask in ("count", "sum", "mean", "histogram"):
            question = some[ask] if ask == "count" else some[ask].changed(column="cost")
            asked.append((f"{ask}, {words}", question))
    yield from _compared(asked, session)


def _compared(
    asked: Sequence[tuple[str, Question[Any]]], session: Callable[[Schema, Ledger], Session]
) -> Iterator[Compared]:
    size = 1 + secrets.randbelow(1 << 40) * 2.0**-42  # numbers that no cache has seen
    forwards = _laws(asked, session, size)
    alone = _laws(asked[::-1], session, size * (1 + 2.0**-30), alone=True)
    by_identity: dict[str, str] = {}
    for name, question in asked:
        same = _alike(forwards[name], alone[name])
        yield (name if same else f"{name}: depends on what was asked before"), same
        identity = question.claim(None).identity()
        like = by_identity.setdefault(identity, name)
        one = _alike(forwards[name], forwards[like])
        yield (name if one else f"{name}: recorded as the same release as {like!r}"), one


_BUDGETS: dict[type[Guarantee], Guarantee] = {
    PureDP: PureDP(1000.0),
    ApproxDP: ApproxDP(1000.0, 0.999),
    GaussianDP: GaussianDP(100.0),
    ZeroConcentratedDP: ZeroConcentratedDP(1000.0),
}


def _laws(
    asked: Sequence[tuple[str, Question[Any]]],
    session: Callable[[Schema, Ledger], Session],
    size: float,
    *,
    alone: bool = False,
) -> dict[str, Laws]:
    """The draws of each question, in one session for each schema or in a session of its own."""
    sessions = dict[str, Session]()

    def drawn(question: Question[Any], name: str) -> Laws:
        paid = question.changed(guarantee=_scaled(question.guarantee, size))
        key = str(question.schema.to_dict())
        with scripted(Script()) as script:  # a new one, since later draws may depend on earlier outcomes
            if alone or key not in sessions:
                sessions[key] = session(question.schema, _ledger(question.schema, ApproxDP))
            asking, kind = sessions[key], type(paid.guarantee)
            asking.ledger = _ledger(question.schema, kind if kind is not PureDP else ApproxDP)
            try:
                asking.ask(paid.changed(schema=asking.schema), name)
                return [_law(draw) for draw in script.draws]
            except Exception as error:
                return [(str(Refusal.of(error)),)]

    with patch.object(keep, "_MOST_KEPT", 1 << 20):  # rows that were ever chosen stay, so that all keys meet
        return {name: drawn(question, name) for name, question in asked}


def _ledger(schema: Schema, kind: type[Guarantee]) -> Ledger:
    return Ledger(":memory:", _BUDGETS[kind], neighbours=schema.neighbours, unit=schema.unit.unit)


def _scaled(guarantee: Guarantee, size: float) -> Guarantee:
    first, *others = guarantee.parameters().values()
    kind: Any = type(guarantee)
    scaled: Guarantee = kind(first * size, *(one * size / 4 for one in others))
    return scaled


def _law(draw: Draw) -> tuple[Any, ...]:
    """A draw in comparable numbers."""
    if isinstance(draw, Numbers):
        return tuple(number_laws(draw.law))
    return tuple(draw.starts.tolist()), tuple(draw.widths.tolist()), tuple(draw.logs.tolist())


def _alike(first: Any, second: Any) -> bool:
    """True where two laws are the same, but for the hair that the second one spends more."""
    if isinstance(first, tuple | list) and isinstance(second, tuple | list):
        return len(first) == len(second) and all(map(_alike, first, second))
    if isinstance(first, float | Fraction) and isinstance(second, float | Fraction):
        return math.isclose(first, second, rel_tol=1e-6, abs_tol=1e-6) or first == second
    return type(first) is type(second) if callable(first) else bool(first == second)


def _kept() -> Iterator[Compared]:
    """Rows that a snapshot keeps for later: every selection after all others, and on a snapshot of its own.

    Limits that hold the same numbers in other places (two rows in all, two in each group) are different limits.
    """
    schema = Schema(columns=_COLUMNS, unit=PrivacyUnit("person", contribution=_LIMITS))
    data = open_source(_table(_people()))
    limits = [Contribution(rows=1), Contribution(rows=2), Contribution(total=1), Contribution(total=2)]
    limits += [Contribution(groups=groups, rows=2) for groups in (1, 2, 9)]
    selections = [Selected(by=by, contribution=some) for by in ((), ("arm",), ("arm", "half")) for some in limits]
    base = Selected(by=("arm",), columns=("x",), contribution=Contribution(groups=1, rows=2))
    selections += [base, replace(base, columns=("y",)), replace(base, whole=("half",)), replace(base, first=True)]
    shared = take(data, schema, salt=_SALT)
    alone = [_added_up(take(data, schema, salt=_SALT), selected) for selected in selections]
    with patch.object(keep, "_MOST_KEPT", 1 << 20):
        both = [*zip(selections, alone, strict=True)]
        for selected, wanted in [*both, *both[::-1]]:
            same = _added_up(shared, selected) == wanted
            yield (f"rows kept for {selected}{'' if same else ': depend on what was asked before'}"), same


_SALT = "5a" * 32


def _added_up(snapshot: Snapshot, selected: Selected) -> Any:
    found = totals(snapshot, selected)
    return found.counts.tolist(), {name: sums.tolist() for name, sums in found.sums.items()}


def _foreign() -> Iterator[Compared]:
    """A question that was made with other declarations than its session's is refused before anything is paid."""
    columns = {name: _COLUMNS[name] for name in ("arm", "half", "x", "y")}
    schema = Schema(columns=columns, unit=PrivacyUnit("person", contribution=_LIMITS))
    session = Session(_table(_people()), schema, ledger=_ledger(schema, PureDP))
    condition = "x >= 1"
    with scripted(Script()) as script:
        for ask in (session, session.where(condition)):  # what a session keeps for its own questions is there now
            ask.sum("y", epsilon=1.0)
        spent, drawn = session.ledger.spent(), len(script.draws)
        for where, name, other in _changed_schemas(schema):
            for one in (other, _narrower(other, condition)):
                question = None if one is None else made("sum", one, [PureDP(1.0)])
                if one is None or question is None:
                    continue
                # The condition alone may differ: that is a question about fewer of the same rows.
                right = refused(partial(session.ask, question)) or (one.where is not None and name == "where")
                paid = session.ledger.spent() != spent or len(script.draws) != drawn
                same = right and (not paid or name == "where")
                spent, drawn = session.ledger.spent(), len(script.draws)
                words = f"{where}.{name}{' with a condition' if one.where else ''}"
                yield (words if same else f"{words}: a question of another schema was answered"), same


def _narrower(schema: Schema, condition: str) -> Schema | None:
    try:
        return narrowed(schema, condition)
    except DiscreetError:  # it has no such column
        return None


# ---- facts -----------------------------------------------------------------------------------------------------------

_FULL = Schema(
    columns={"arm": Categories(["A", "B"], missing=["n/a"], aliases={"a": "A"}), "x": Bounds(0, 4, grid=1,
    missing=[-9]), "day": Dates("2024-01-01", "2024-12-31"), "band": Bands(edges=[0, 2, 4], value=Formula("x")),
    "gap": Bounds(-4, 4, grid=1, value=Formula("x - 1")), "city": PrivateLabels(), "free": PrivateBounds(0, 8,
    grid=1)}, unit=PrivacyUnit("person", contribution=Contribution(groups=2, rows=2)), where=Formula("x >= 1"),
    related={"visits": Related(id="who", rows=2, columns={"cost": Bounds(0, 2, grid=1)}, where=Formula("cost >= 1"),
    counted="visits")},
)  # fmt: skip
_CHANGED: dict[str, Sequence[Any]] = {
    "labels": (["A", "C"], ["A", "B", "C"], ["B", "A"]), "nulls": ("refuse", "=A", 0, 1), "unknown": ("refuse", "=A"),
    "value": (Formula("x * 1 - 1"), Formula("x * 2")), "missing": (["-"], [-8]), "aliases": ({"b": "B"},),
    "ignore_case": (True,), "low": (-1, "2023-12-01"), "high": (5, 6, "2024-11-30"), "grid": (0.5,), "unit": ("month",
    PrivacyUnit("family", contribution=Contribution(total=1))), "order": ("dmy",), "edges": ([0, 1, 4],),
    "proportion": (0.9,), "epsilon": (0.2,), "groups": (1, 3), "rows": (1, 3), "total": (2,), "column": ("family",),
    "contribution": (Contribution(total=2), PrivateLimit(total=2)), "neighbours": (Neighbours.REPLACE_ONE,
    Neighbours.ADD_REMOVE), "size": (7,), "where": (Formula("x >= 2"), Formula("cost >= 2"), None), "id": ("person",),
    "counted": ("calls", None), "columns": ({"cost": Bounds(0, 3, grid=1)},), "related": ({},),
    "design": (Design(weight="x", weight_high=2, cluster="person"),),
}  # fmt: skip
"""Other values of every field of a declaration, by its name; those that do not fit are refused, and passed over."""


def _facts() -> Iterator[Compared]:
    """Every field of every declaration enters the identity of what reads it."""
    asks, seen = _asking(_FULL), set()
    for full in (_FULL, replace(_FULL, columns=_own_columns(_FULL), neighbours=Neighbours.REPLACE_ONE, size=6)):
        before = {name: ask(full) for name, ask in asks.items()}
        for where, name, schema in _changed_schemas(full):
            everywhere = where in ("schema", "unit", "limits", "related")
            for ask in (one for one in asks if one == where or (everywhere and one != "free")):
                try:
                    after = asks[ask](schema)
                except (DiscreetError, KeyError, TypeError, ValueError):
                    continue
                seen.add((where, name))
                differs = after != before[ask]
                words = f"{where}.{name}"
                yield (words if differs else f"{words}: {ask} has the same identity without it"), differs
    wanted = {
        (where, one.name)
        for where, declared in _declared(_FULL)
        for one in fields(declared)
        if one.init and one.compare
    }  # names for readers are compared nowhere
    for where, name in sorted(wanted - seen - _FIXED):
        yield f"{where}.{name}: nothing changed it, so nothing is known of it", False


_FIXED = {
    ("schema", "columns"), ("band", "labels"), ("band", "aliases"), ("band", "ignore_case"), ("band", "missing"),
    ("x", "value"), ("day", "value"), ("day", "grid"), ("schema", "features"), ("schema", "made_from"),
}  # fmt: skip
"""Fields that others stand for: columns are changed one by one, and the labels of bands follow from their edges."""


def _features() -> Iterator[Compared]:
    """Every field of a feature, and of the rows that it is made of, enters the identity of what asks about units."""
    mean = Feature(of="x", take="mean", low=0, high=4, grid=1, nulls=0)
    unit = PrivacyUnit("person", contribution=Contribution(rows=2))
    rows = Schema(
        columns={"x": Bounds(0, 4, grid=1), "y": Bounds(0, 4, grid=1), "day": Dates("2024-01-01", "2024-12-31")},
        unit=unit,
        features={"spend": mean},
    )
    first = replace(mean, take="first", grid=None, order="day")

    def identity(schema: Schema) -> str:
        found: str = (
            asked()["sum"](schema=schema.per_unit(), column="spend", guarantee=PureDP(1.0)).claim(None).identity()
        )
        return found

    features = [
        mean, replace(mean, of="y"), replace(mean, low=1, nulls=1), replace(mean, high=3), replace(mean, grid=0.5),
        replace(mean, nulls=1), replace(mean, nulls="drop"), first, replace(first, take="last"),
        *(replace(mean, take=take, grid=None) for take in ("sum", "min", "max")),
    ]  # fmt: skip
    schemas = [replace(rows, features={"spend": feature}) for feature in features]
    schemas += [
        replace(rows, columns={**rows.columns, "x": Bounds(0, 5, grid=1)}),
        replace(rows, where=Formula("y > 1")),
    ]
    identities = [identity(schema) for schema in schemas]
    for place, schema in enumerate(schemas):
        own = identities.count(identities[place]) == 1
        yield f"a feature {schema.features['spend']} has the identity of another", own


def _asking(schema: Schema) -> dict[str, Callable[[Schema], str]]:
    """By column: the identity of a question that reads it."""
    one = PureDP(1.0)

    def identity(ask: str, **settings: Any) -> Callable[[Schema], str]:
        guarantee = ApproxDP(1.0, 0.01) if ask == "common_labels" else one
        return lambda schema: asked()[ask](schema=schema, guarantee=guarantee, **settings).claim(None).identity()

    found = {name: identity("sum", column=name) for name, it in schema.columns.items() if isinstance(it, Bounds)}
    found |= {name: identity("count", by=[name]) for name, it in schema.columns.items() if isinstance(it, Categories)}
    found |= {
        name: identity("common_labels", column=name)
        for name, it in schema.columns.items()
        if isinstance(it, PrivateLabels)
    }
    alone = identity("profile", columns=["free"])  # a profile is of one table
    return found | {"free": lambda schema: alone(replace(schema, where=None, related={}))}


def _declared(schema: Schema) -> Iterator[tuple[str, Any]]:
    """Everything that a schema is made of, by where it stands."""
    yield "schema", schema
    yield "unit", schema.unit
    yield "limits", schema.unit.contribution
    yield from (("related", one) for one in schema.related.values())
    yield from ((name, one) for name, one in schema.columns.items() if name not in ("visits", "free"))


def _own_columns(schema: Schema) -> dict[str, Any]:
    """The columns without those that related tables add again."""
    return {name: one for name, one in schema.columns.items() if name != "visits"}


def _changed_schemas(schema: Schema) -> Iterator[tuple[str, str, Schema]]:
    for where, declared in _declared(schema):
        for one in fields(declared):
            for value in _CHANGED.get(one.name, ()):
                try:
                    changed = _changed(schema, declared, one.name, value)
                    if getattr(changed, one.name) != getattr(declared, one.name):
                        yield where, one.name, _with(schema, where, changed)
                except (DiscreetError, TypeError, ValueError, KeyError):
                    continue


def _changed(schema: Schema, declared: Any, name: str, value: Any) -> Any:
    """One declaration with another value, and what has to change with it."""
    with_it: dict[str, Any] = {}
    if name == "total":
        with_it = {"groups": None, "rows": None}
    elif name == "neighbours" and value is not declared.neighbours:
        with_it = {"size": 7 if value is Neighbours.REPLACE_ONE else None}
    elif isinstance(declared, Dates) and name in ("low", "high", "unit"):
        with_it = {"low": "2024-01-01", "high": "2024-12-31", "grid": "day"}
        if name == "unit":  # which follows from the grid
            return replace(declared, **{**with_it, "grid": value})
    if isinstance(declared, Schema):
        with_it["columns"] = _own_columns(schema)
    return replace(declared, **{**with_it, name: value})


def _with(schema: Schema, where: str, changed: Any) -> Schema:
    """The schema with one declaration changed."""
    if where == "schema":
        return changed  # type: ignore[no-any-return]
    given = _own_columns(schema)
    facts: dict[str, Any] = {"columns": given}
    if where == "unit":
        facts["unit"] = changed
    elif where == "limits":
        facts["unit"] = replace(schema.unit, contribution=changed)
    elif where == "related":
        facts["related"] = {"visits": changed}
    else:
        facts["columns"] = {**given, where: changed}
    return replace(schema, **facts)


# ---- settings --------------------------------------------------------------------------------------------------------


def _settings() -> Iterator[Compared]:
    """A request keeps its question: one that is recorded otherwise is refused under its name, and pays nothing."""
    schema = Schema(columns=_COLUMNS, unit=PrivacyUnit("person", contribution=_LIMITS))
    table = _table(_people())
    for ask, question in every_question(schema).items():
        kind = type(question.guarantee)
        if question.schema != schema:
            continue
        with scripted(Script()) as script:
            session = Session(table, schema, ledger=_ledger(schema, kind))
            session.ask(question.changed(schema=session.schema), "r")
            own = question.claim(session.ledger).identity()
            spent = session.ledger.spent()
            drawn = len(script.draws)
            for name, other in dict(variants(question)).items():
                try:
                    differs = other.claim(session.ledger).identity() != own
                except DiscreetError:  # of a kind that this ledger does not count
                    continue
                try:
                    session.ask(other.changed(schema=session.schema), "r")
                    right = not differs
                except Exception:
                    right = differs
                words = f"{ask}, other {name}"
                yield (words if right else f"{words}: got the answer of another question"), right
                paid = session.ledger.spent() == spent and len(script.draws) == drawn
                yield (words if paid else f"{words}: drew or paid under a request that has an answer"), paid


# ---- Near ids: people whose ids are almost the same, in limits and in joins, on every kind of source.
#
# Ids that differ in case, blanks, leading zeros, accents or how a number is written are different people. Each of them
# keeps rows of their own, and none meets the rows of another: plain Python counts both.


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


def audit_near_ids() -> Audit:
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
                session.sum("visits", epsilon=1.0, name="r")
            else:
                session.count(epsilon=1.0, name="r")
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
