"""Growing pipelines: release, add rows, release again, on one ledger; neighbours differ in all rows of one person.

Rows arrive in waves, some of them late: a period that was released before gets one more. What a person adds later must
not move what was counted of the same person before, in this table or in a related one, by more than all releases
together are charged for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from discreet.audit.pipeline import Pipeline
from discreet.audit.session_pipelines import COLUMNS, PEOPLE, table_of
from discreet.audit.worlds import World
from discreet.core.errors import DiscreetError
from discreet.core.guarantee import GaussianDP, Guarantee, PureDP
from discreet.core.schema import Categories, Contribution, PrivacyUnit, Related, Schema
from discreet.declarations.language import Formula
from discreet.ledgers import Ledger
from discreet.session import Session

__all__ = ["growing_pipelines"]

Row = dict[str, Any]
Ask = Callable[[Session, int, Guarantee], Any]
_PERIODS = ("A", "B", "C")


def _row(wave: int, arm: str, x: float = 99.0, y: float = 9.0) -> Row:
    return {"wave": wave, "arm": arm, "x": x, "y": y, "half": "L", "month": arm}


_UNITS = [
    [_row(0, "A")] * 2 + [_row(1, "B")] * 2 + [_row(2, "C")] * 2,
    [_row(1, "B")] * 3 + [_row(2, "C")] * 3,
    [_row(0, "A", -99.0, -9.0)] * 3 + [_row(2, "B", -99.0, -9.0)],
    [_row(2, "C")],
    [_row(0, "A"), _row(1, "A"), _row(1, "B", -99.0, -9.0), _row(2, "C")],
]
_PEOPLE = ((0, 1), (0, 2), (0, 3), (4, 1), (1, 2), (2, 3), (3, 1), (1, 3), (2, 1), (4, 2))
"""Units and ids: which groups a person keeps follows from the id."""
_ONE_EACH = PrivacyUnit("person", contribution=Contribution(total=1))


def growing_pipelines() -> Iterator[Pipeline]:
    """Running totals and questions that are asked again, each wave on the rows that are there."""
    tables = [[{"person": person, **row} for row in _UNITS[unit]] for unit, person in _PEOPLE]
    world = World(([], *tables), tuple((0, place + 1) for place in range(len(tables))), unit="person")
    gaussian = GaussianDP(1.0)
    one = Schema(columns=COLUMNS, unit=_ONE_EACH)

    def total(session: Session, wave: int, spent: Guarantee) -> Any:
        return session.running_total("arm", spent, period=_PERIODS[wave])

    def total_of_y(session: Session, wave: int, spent: Guarantee) -> Any:
        return session.running_total("arm", spent, period=_PERIODS[wave], column="y")

    def count(session: Session, wave: int, spent: Guarantee) -> Any:
        return session.count(spent.split(3)[wave], by="arm", request=f"r{wave}")

    def quantile(session: Session, wave: int, spent: Guarantee) -> Any:
        return session.quantile("x", 0.5, spent.split(3)[wave], request=f"r{wave}")

    asked: dict[str, tuple[Ask, Schema, Guarantee]] = {
        "running_total": (total, PEOPLE, gaussian),
        "running_total of y": (total_of_y, PEOPLE, gaussian),
        "count": (count, PEOPLE, PureDP(1.0)),
        "quantile": (quantile, one, PureDP(1.0)),
    }
    for name, (ask, schema, spent) in asked.items():
        yield _piped(name, ask, schema, world, spent)
    yield from _joined(world, gaussian)


def _piped(name: str, ask: Ask, schema: Schema, world: World, spent: Guarantee) -> Pipeline:
    def run(rows: Sequence[Row], ledger: Ledger) -> Any:
        waves = [[row for row in rows if row["wave"] <= wave] for wave in range(3)]
        return [ask(Session(table_of(some, schema), schema, ledger=ledger), n, spent) for n, some in enumerate(waves)]

    return Pipeline(f"growing.{name}", run, world, spent, (f"Session.{name.split(',')[0].split(' ')[0]}",), tight=False)


def _joined(world: World, spent: Guarantee) -> Iterator[Pipeline]:
    """Periods, and rows that are chosen, from a table that grows beside the first one."""
    month = Categories(_PERIODS)
    visits = Related(id="who", rows=1, columns={"month": month})
    first = {"arm": COLUMNS["arm"]}
    by_month = Schema(columns=first, unit=_ONE_EACH, related={"visits": visits})
    late = Formula("month != 'A'")
    chosen = Schema(columns=first, unit=_ONE_EACH, related={"visits": visits}, where=late)
    counted = Related(id="who", rows=3, columns={"month": month}, counted="visits")
    often = Schema(columns=first, unit=_ONE_EACH, related={"visits": counted}, where=Formula("visits <= 1"))
    for name, schema, over in (("month", by_month, "month"), ("arm, where", chosen, "arm"), ("visits", often, "arm")):
        run = _joining(schema, over, spent)
        yield Pipeline(f"growing.running_total by {name} of a second table", run, world, spent, tight=False)


def _joining(schema: Schema, over: str, spent: Guarantee) -> Callable[[Sequence[Row], Ledger], Any]:
    def run(rows: Sequence[Row], ledger: Ledger) -> Any:
        import pyarrow

        found = []
        for wave in range(3):
            some = [row for row in rows if row["wave"] <= wave]
            text = {name: pyarrow.array([row[name] for row in some], "string") for name in ("arm", "month")}
            ids = pyarrow.array([row["person"] for row in some], "int64")
            people = pyarrow.table({"person": ids, "arm": text["arm"]})
            seen = pyarrow.table({"who": ids, "month": text["month"]})
            session = Session(people, schema, ledger=ledger, related={"visits": seen})
            try:
                session.plan.running_total(over, spent, period=_PERIODS[wave])
            except DiscreetError:  # what can move later is refused before anything is read, which is as good
                return "refused"
            found.append(session.running_total(over, spent, period=_PERIODS[wave]))
        return found

    return run
