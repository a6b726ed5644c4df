"""Wide pipelines: questions in schemas that are as wide, as fine and as tiny as a schema may be.

Numbers reach to the ends of the grid, sums leave 64 bits and doubles, limits allow more rows than there are, and
formulas compute with all of it. Every question must have an answer on every table, and lose no more than it is charged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from discreet.audit.pipeline import Pipeline
from discreet.audit.recomputed import refused
from discreet.audit.worlds import World, unit_world
from discreet.core.errors import DiscreetError
from discreet.core.guarantee import GaussianDP, Guarantee, PureDP
from discreet.core.schema import Bands, Bounds, Categories, Contribution, PrivacyUnit, Schema
from discreet.declarations.language import Formula
from discreet.ledgers import Ledger
from discreet.questions import Question, asked
from discreet.session import Session

__all__ = ["wide_pipelines"]

_STEPS = 2.0**40
_POWERS = (308, 300, 200, 100, 60, 50, 40, 30, 20)
_RANGES: dict[str, list[tuple[float, float, float]]] = {
    "widest": [(-_STEPS, _STEPS, 1.0)],
    "wei": [(0.0, 1e24, 1e15)],
    "largest": [(-float(f"1e{power}"), float(f"1e{power}"), float(f"1e{power - 9}")) for power in _POWERS],
    "coarsest": [(0.0, float(f"1e{power}"), float(f"1e{power}")) for power in _POWERS],
    "finest": [(-1e-3, 1e-3, 1e-14)],
    "tiniest": [(0.0, float(f"1e{5 - power}"), float(f"1e-{power}")) for power in _POWERS],
}
"""Low, high and grid, the widest first: 2⁴⁰ steps, beyond 2⁶³, and as large and small as a schema accepts."""
_LIMITS = Contribution(total=2**53)
_FEW = Contribution(groups=2, rows=2**20)


def _world(low: float, high: float) -> World:
    """People at both ends, beyond them, between them, and with values that are no numbers."""

    def row(x: Any, arm: str = "A") -> dict[str, Any]:
        return {"x": x, "arm": arm}

    beyond = [min(2 * high, 1.7e308), max(-2 * abs(low) - 1, -1.7e308)]
    people = [
        [row(high)] * 2,
        [row(low), row(high, "B")],
        [row(one, arm) for one in beyond for arm in ("A", "B")],
        [row(float("inf")), row(float("-inf")), row(float("nan")), row(None)],
        [row((low + high) / 3)] * 3,
    ]
    return unit_world(people, most=1)


def wide_pipelines() -> Iterator[Pipeline]:
    """Sums, spreads, filters and formulas of each kind of number."""
    one, settings = PureDP(1.0), {"column": "x"}
    for name, candidates in _RANGES.items():
        low, high, grid = next(one for one in candidates if not refused(partial(_columns, *one)))
        world = _world(low, high)
        limits = _FEW if name in ("widest", "wei", "coarsest") else Contribution(total=2)
        for words, schema in _schemas(low, high, grid, limits):
            for ask in ("sum", "variance") if words == "plain" else ("sum",) if words == "where" else ("count",):
                question = _question(ask, schema, one, **(settings if ask != "count" else {}))
                if question is not None:
                    yield _piped(f"wide.{ask}, {name}, {words}", question, world)
    many = Schema(columns=_columns(0, 4, 1), unit=PrivacyUnit("person", contribution=_LIMITS))
    question = _question("sum", many, GaussianDP(1.0), column="x")
    if question is not None:
        yield _piped("wide.sum, as many rows as can be declared", question, _world(0, 4))


def _columns(low: float, high: float, grid: float) -> dict[str, Any]:
    return {"arm": Categories(["A", "B"]), "x": Bounds(low, high, grid=grid)}


def _schemas(low: float, high: float, grid: float, limits: Contribution) -> Iterator[tuple[str, Schema]]:
    """Plain columns, filters, and columns that formulas compute; those that a schema refuses are as wide as none."""
    unit, columns = PrivacyUnit("person", contribution=limits), _columns(low, high, grid)
    middle = f"{(low + high) / 2 + grid:.17g}"
    made: dict[str, Callable[[], Schema]] = {
        "plain": lambda: Schema(columns=columns, unit=unit),
        "where": lambda: Schema(columns=columns, unit=unit, where=Formula(f"x > {middle} or x * 2 < 0")),
        "computed": lambda: Schema(
            columns={**columns, "x2": Bounds(0, 1, grid=0.25, value=Formula(f"{high:.17g} / (1 + abs(x - {middle}))"))},
            unit=unit,
            where=Formula("x2 < 2"),
        ),
        "bands": lambda: Schema(
            columns={**columns, "band": Bands(edges=[low, float(middle), high], value=Formula("x * 1"))}, unit=unit
        ),
    }
    for words, schema in made.items():
        try:
            yield words, schema()
        except DiscreetError:
            continue


def _question(ask: str, schema: Schema, guarantee: Guarantee, **settings: Any) -> Question[Any] | Exception | None:
    """The question, unless it refuses what is declared, before anything is read."""
    if "band" in schema.columns and ask == "count":
        settings = {"by": ["band"]}
    try:
        question = asked()[ask](schema=schema, guarantee=guarantee, **settings)  # type: ignore[call-arg]
        question.claim(None)
    except DiscreetError:
        return None
    except Exception as error:  # a refusal must be in words
        return error
    return question


def _piped(name: str, question: Question[Any] | Exception, world: World) -> Pipeline:
    if isinstance(question, Exception):
        return Pipeline(name, partial(_fail, question), world, PureDP(1.0), tight=False)
    return Pipeline(name, partial(_run, question), world, question.guarantee, tight=False, repeats=True)


def _fail(error: Exception, rows: Any, ledger: Ledger) -> Any:
    raise error


def _run(question: Question[Any], rows: Any, ledger: Ledger) -> Any:
    import pyarrow

    kinds = {"person": "int64", "arm": "string", "x": "float64"}
    table = pyarrow.table({name: pyarrow.array([row[name] for row in rows], kind) for name, kind in kinds.items()})
    return Session(table, question.schema, ledger=ledger).ask(question, "r")
