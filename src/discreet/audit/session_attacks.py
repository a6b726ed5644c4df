"""Session attacks: every question of a session, one after another on one ledger, in a generated world.

All tables of a world get the same questions and the same script of outcomes. Then, question by question:

- *exact*: between worst neighbours the exact value moves by no more than the sensitivity on record, in ℓ₁, in ℓ₂ and
  move by move; scores of choices move by no more than the charge allows; the loss of the recorded laws is within the
  charge; and where no unit is over a limit, the value is the one that plain Python finds;
- *by draws*: real noise of the recorded laws on the worst pair does not certify more than the charge;
- *replay*: what is published and recorded, the kind of outcome and the draws are the same on all tables. An error is an
  outcome; every question here has an answer, so it is a finding too.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from discreet.audit.generated_worlds import GeneratedWorld
from discreet.audit.judging import Answer, QuestionAudit, judged
from discreet.audit.pipeline import Refusal, shown
from discreet.audit.reference_values import REFERENCES
from discreet.audit.transcript import Script, scripted
from discreet.core.errors import InvalidParameter, SourceError
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.schema import Bounds, Contribution
from discreet.core.sensitivity import Sensitivity
from discreet.ledgers import Ledger
from discreet.session import Session

if TYPE_CHECKING:
    import pyarrow

__all__ = ["SOURCES", "Source", "as_source", "attack_world", "world_questions"]


# ---- Source kinds: the same few rows as a file, a frame or a table of a database, as users have them


Row = Mapping[str, Any]
Source = tuple[Any, dict[str, Any]]
"""What a session reads, and how it is told to."""


def as_source(kind: str, rows: Sequence[Row], texts: Sequence[str], names: Sequence[str], folder: Path) -> Source:
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
    return SOURCES[kind](rows, texts, names, folder)


def _arrow(rows: Sequence[Row], texts: Sequence[str], names: Sequence[str]) -> pyarrow.Table:
    import pyarrow

    kinds = {name: pyarrow.string() if name in texts else pyarrow.float64() for name in names}
    return pyarrow.table({name: pyarrow.array([row[name] for row in rows], kind) for name, kind in kinds.items()})


def _as_arrow(rows: Sequence[Row], texts: Sequence[str], names: Sequence[str], folder: Path) -> Source:
    return _arrow(rows, texts, names), {}


def _as_pandas(rows: Sequence[Row], texts: Sequence[str], names: Sequence[str], folder: Path) -> Source:
    return _arrow(rows, texts, names).to_pandas(), {}  # gaps of numbers become NaN there


def _as_polars(rows: Sequence[Row], texts: Sequence[str], names: Sequence[str], folder: Path) -> Source:
    import polars

    return polars.from_arrow(_arrow(rows, texts, names)), {}


def _as_csv(rows: Sequence[Row], texts: Sequence[str], names: Sequence[str], folder: Path) -> Source:
    path = folder / "rows.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(["" if row[name] is None else row[name] for name in names] for row in rows)
    return str(path), {}


def _as_parquet(rows: Sequence[Row], texts: Sequence[str], names: Sequence[str], folder: Path) -> Source:
    from pyarrow import parquet

    path = folder / "rows.parquet"
    parquet.write_table(_arrow(rows, texts, names), path)
    return str(path), {}


def _as_database(rows: Sequence[Row], texts: Sequence[str], names: Sequence[str], folder: Path) -> Source:
    import duckdb

    connection = duckdb.connect()
    connection.register("arrived", _arrow(rows, texts, names))
    connection.execute("CREATE TABLE people AS SELECT * FROM arrived")
    return connection, {"table": "people"}


SOURCES: dict[str, Callable[[Sequence[Row], Sequence[str], Sequence[str], Path], Source]] = {
    "arrow": _as_arrow,
    "pandas": _as_pandas,
    "polars": _as_polars,
    "csv": _as_csv,
    "parquet": _as_parquet,
    "duckdb": _as_database,
}
"""By name. Spark starts too slowly for an audit; `discreet.testing.check_source` compares it with the others."""


Ask = Callable[[Session, Guarantee, str], Any]
_ENOUGH: dict[type[Guarantee], Guarantee] = {
    PureDP: PureDP(1000.0),
    GaussianDP: GaussianDP(100.0),
    ZeroConcentratedDP: ZeroConcentratedDP(1000.0),
    ApproxDP: ApproxDP(1000.0, 0.9),
}
"""Budgets that pay for all questions of a world."""


def attack_world(
    world: GeneratedWorld, *, draws: int = 0, confidence: float = 0.999, every: int = 1
) -> Iterator[QuestionAudit]:
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
    for place, name in enumerate(questions):
        own, some = [answer[name] for answer in answers], draws if (place + len(world.name)) % every == 0 else 0
        yield judged(name, own, world.pairs, expected=_expected(world, name), draws=some, confidence=confidence)
    if refused is not None:
        yield QuestionAudit("a row that the schema refuses", None, 0.0, None, None, None, refused)


def _expected(world: GeneratedWorld, name: str) -> dict[int, list[Fraction]]:
    """Exact values in plain Python, where nobody is over a limit."""
    if name not in REFERENCES:
        return {}
    return {place: REFERENCES[name](world.tables[place], world.schema) for place in world.within}


# ---- questions ------------------------------------------------------------------------------------------------------


def world_questions(world: GeneratedWorld) -> dict[str, Ask]:
    """What is asked in a world, by name: every other question that can be, and some always."""
    asked = {**_additive(world), **_choices(world)}
    limits = world.schema.unit.contribution
    if limits is not None:
        asked |= _of_units(world)
    if limits is None or limits.total == 1:
        asked |= {
            "goodness of fit": lambda s, g, r: s.goodness_of_fit("arm", [0.2, 0.3, 0.5], g, request=r),
            "independence": lambda s, g, r: s.independence(["arm", "half"], g, request=r),
        }
    return {name: ask for place, (name, ask) in enumerate(asked.items()) if name in _ALWAYS or place % 2 == world.asks}


_ALWAYS = ("count", "tenth of x by arm")


def _additive(world: GeneratedWorld) -> dict[str, Ask]:
    low, high = (world.schema.bounds("x").low, world.schema.bounds("x").high)
    edges = [low, (low + high) / 2, high]
    return {
        "count": lambda s, g, r: s.count(g, request=r),
        "count by arm": lambda s, g, r: s.count(g, by="arm", request=r),
        "sum of x": lambda s, g, r: s.sum("x", g, request=r),
        "sum of y": lambda s, g, r: s.sum("y", g, request=r),
        "sum of x by arm": lambda s, g, r: s.sum("x", g, by="arm", request=r),
        "sum of y by arm": lambda s, g, r: s.sum("y", g, by="arm", request=r),
        "sum of x by arm and half": lambda s, g, r: s.sum("x", g, by=["arm", "half"], request=r),
        "mean of x": lambda s, g, r: s.mean("x", g, request=r),
        "mean of x with spread": lambda s, g, r: s.mean("x", g, spread=True, request=r),
        "mean of x by arm": lambda s, g, r: s.mean("x", g, by="arm", request=r),
        "mean of y by half": lambda s, g, r: s.mean("y", g, by="half", request=r),
        "mean of y by arm with spread": lambda s, g, r: s.mean("y", g, by="arm", spread=True, request=r),
        "proportion of arm": lambda s, g, r: s.proportion("arm", "A", g, request=r),
        "proportion of arm by half": lambda s, g, r: s.proportion("arm", "A", g, by="half", request=r),
        "variance of y": lambda s, g, r: s.variance("y", g, request=r),
        "variance of x by arm": lambda s, g, r: s.variance("x", g, by="arm", request=r),
        "covariance matrix": lambda s, g, r: s.covariance_matrix(["x", "y"], g, request=r),
        "histogram of x": lambda s, g, r: s.histogram("x", g, edges=edges, request=r),
        "table of arm and half": lambda s, g, r: s.table(["arm", "half"], g, request=r),
    }


def _choices(world: GeneratedWorld) -> dict[str, Ask]:
    asked: dict[str, Ask] = {"mode of arm": lambda s, g, r: s.mode("arm", g, request=r)}
    return asked | {
        "median of x": lambda s, g, r: s.quantile("x", 0.5, g, request=r),
        "tenth of x by arm": lambda s, g, r: s.quantile("x", 0.1, g, by="arm", request=r),
        "quantiles of y, recursive": lambda s, g, r: s.quantile("y", [0.2, 0.5, 0.8], g, recursive=True, request=r),
    }


def _of_units(world: GeneratedWorld) -> dict[str, Ask]:
    """Clipped sums per unit in place of rows, and limits for one question alone."""
    low, high = (world.schema.bounds("x").low, world.schema.bounds("x").high)
    sums = Bounds(3 * low - 1, 2 * high + 2, grid=0.5)
    one = Contribution(total=1)
    return {
        "sum of units": lambda s, g, r: s.sum("x", g, unit_sum=sums, request=r),
        "sum of units by arm": lambda s, g, r: s.sum("x", g, by="arm", unit_sum=sums, request=r),
        "mean of units": lambda s, g, r: s.mean("x", g, unit_sum=sums, request=r),
        "tenth of units": lambda s, g, r: s.quantile("x", 0.1, g, unit_sum=sums, request=r),
        "tenth of units by arm": lambda s, g, r: s.quantile("x", 0.1, g, by="arm", unit_sum=sums, request=r),
        "count by arm, one row each": lambda s, g, r: s.count(g, by="arm", contribution=one, request=r),
    }


# ---- asking ---------------------------------------------------------------------------------------------------------


def _asked(world: GeneratedWorld, questions: dict[str, Ask], table: Sequence[Any], folder: Path) -> dict[str, Answer]:
    """All questions on one table, in one session, on one ledger; then some of them again."""
    script = Script()
    with scripted(script):
        session = _session(world, table, folder)
        found = {name: _answered(session, script, world.guarantee, name, ask) for name, ask in questions.items()}
        found["count"] = _again(session, script, world.guarantee, questions["count"], found["count"])
    return found


def _session(world: GeneratedWorld, table: Sequence[Any], folder: Path) -> Session:
    source, options = as_source(world.source, table, _TEXTS, world.names, folder)
    schema = world.schema
    ledger = Ledger(":memory:", _ENOUGH[type(world.guarantee)], neighbours=schema.neighbours, unit=schema.unit.unit)
    return Session(source, schema, ledger=ledger, **options)


_TEXTS = ("arm", "half")


def _answered(session: Session, script: Script, guarantee: Guarantee, name: str, ask: Ask) -> Answer:
    findings: list[str] = []
    before = session.ledger.spent()

    def paid() -> None:
        if session.ledger.spent() == before:
            findings.append("nothing was on record at the first draw")

    start = script.begin(paid)
    try:
        told = shown(ask(session, guarantee, name))
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
    return Answer(json.dumps([told, record], sort_keys=True), draws, charged, moved, tuple(findings))


def _again(session: Session, script: Script, guarantee: Guarantee, ask: Ask, first: Answer) -> Answer:
    """The same request again gets the stored answer; another question under its name is refused."""
    findings = list(first.findings)
    drawn, spent = len(script.draws), session.ledger.spent()
    try:
        told = shown(ask(session, guarantee, "count"))
        if json.dumps(told, sort_keys=True) != json.dumps(json.loads(first.told)[0], sort_keys=True):
            findings.append("asking again gave another answer")
        session.sum("x", guarantee, request="count")
        findings.append("another question got the answer of a request")
    except InvalidParameter:
        pass
    except Exception as error:
        findings.append(f"asking again: {Refusal.of(error)}")
    if len(script.draws) > drawn or session.ledger.spent() != spent:
        findings.append("asking again drew or was charged again")
    return Answer(first.told, first.draws, first.charged, first.sensitivity, tuple(findings))


def _refusal_findings(world: GeneratedWorld, folder: Path) -> Iterator[str]:
    """A schema may refuse data: after the payment, before anything is drawn, and in the same words for any data."""
    script = Script()
    with scripted(script):
        session = _session(world, world.refused or (), folder)
        nothing = session.ledger.spent()
        try:
            session.count(world.guarantee, by="arm")
            yield "the schema refuses this row, and the session answered"
        except SourceError:
            pass
        if script.draws:
            yield "something was drawn on data that the schema refuses"
        if session.ledger.spent() == nothing:  # whether a row is refused is a fact about the row
            yield "a refusal that depends on a row was free"
