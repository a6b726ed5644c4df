"""Attack a plan: worst-case neighbours for a user's own schema and releases, through the whole path of a run.

The user's data is never read. discreet writes synthetic files in the plan's own dialect, runs the plan on each of them
with its own ledger and output folder, and compares neighbours release by release.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from discreet import __version__
from discreet.audit.pipeline import Pipeline, Script, scripted, shown
from discreet.audit.release_pipelines import growing_pipelines, model_pipelines, release_pipelines, wide_pipelines
from discreet.audit.report import Audit, Refusal, about, audit_page
from discreet.audit.session_pipelines import (
    design_pipelines,
    join_pipelines,
    profile_pipelines,
    question_pipelines,
    session_pipelines,
    transform_pipelines,
)
from discreet.audit.worlds import AnswerOnTable, judged, neighbouring, round_rate
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.protection import Neighbours
from discreet.core.rows.read import Dialect
from discreet.core.schema import Bands, Bounds, Categories, Column, Contribution, Dates, Schema
from discreet.core.sensitivity import Sensitivity
from discreet.plans.job import Job, RunProgress, plan_digest
from discreet.plans.plan_file import PlanFile
from discreet.results.display import Facts, Result
from discreet.results.ledger import Ledger

Row = dict[str, Any]
_MOST_ROWS = 200_000
_UNLISTED = ("A", "B", "C")
"""Labels of columns without a public list; the script of outcomes knows these."""
_CONFIDENCE = 0.999999


@dataclass(frozen=True)
class PlanAttack(Result):
    """The findings of an attack on a plan.

    Attributes
    ----------
    title, plan
        Of the plan, and a digest of its text.
    releases
        One audit per release.
    tables, pairs
        Synthetic data sets that were run, and pairs of neighbours among them.
    created, seconds
        When, and how long it took.
    """

    title: str
    plan: str
    releases: tuple[Audit, ...]
    tables: int
    pairs: int
    created: str
    seconds: float

    @property
    def passed(self) -> bool:
        """True where no release loses more than it claims."""
        return all(one.passed for one in self.releases)

    def heading(self) -> str:
        return f"Attack on the plan {self.title!r}"

    def facts(self) -> Facts:
        """The lines to show."""
        told = [(f"{' ' if one.passed else '!'} {one.name}", one.words) for one in self.releases]
        return [
            *told,
            ("synthetic data", f"{self.tables} files, {self.pairs} pairs of neighbours; your data was not read"),
            ("verdict", self._verdict()),
        ]

    def _verdict(self) -> str:
        return "no release exceeds its guarantee" if self.passed else "EXCEEDED: see the lines marked with !"

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        own = vars(self) | {"releases": [one.to_dict() for one in self.releases]}
        return {"discreet": "attack", "version": __version__, "passed": self.passed, **own}

    def to_html(self) -> str:
        """One page that needs nothing else."""
        lines = [one.to_dict() | {"found": one.words} for one in self.releases]
        words = (
            "Each release on synthetic data that was built to be the worst for this schema. Reached is the largest "
            "loss between neighbours as a share of the guarantee: a fault shows once it makes up for the rest."
        )
        section = {"key": "plan", "title": "Releases of the plan", "words": words, "lines": lines}
        told = {"created": self.created, "verdict": self._verdict(), "limits": [], "sections": [section]}
        return audit_page({**about(self), "deep": False, **told})


def attack_plan(
    plan: str | Path, *, draws: int = 20_000, progress: Callable[[RunProgress], None] | None = None
) -> PlanAttack:
    """Attack every release of a plan file on synthetic worst-case neighbours.

    Parameters
    ----------
    plan
        The plan file. Neither its data nor its ledger is read, and nothing is spent.
    draws
        Real draws on each side of the worst pair of a release, for the certified lower bound.
    progress
        Called after each synthetic data set.
    """
    start, file = time.perf_counter(), PlanFile.read(plan)
    tables, pairs = _worst_tables(file.schema.of_rows)
    answers = []
    with TemporaryDirectory() as folder:
        for place, table in enumerate(tables):
            answers.append(_run(file, table, Path(folder) / str(place)))
            if progress is not None:
                progress(RunProgress(f"synthetic data {place + 1}", place + 1, len(tables), True))
    releases = tuple(
        judged(one.name, [answer[place] for answer in answers], pairs, draws=draws, confidence=_CONFIDENCE)
        for place, one in enumerate(file.questions)
    )
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return PlanAttack(
        file.title, plan_digest(file.text), releases, len(tables), len(pairs), created, time.perf_counter() - start
    )


# ---- synthetic data -------------------------------------------------------------------------------------------------


def _worst_tables(schema: Schema) -> tuple[list[list[list[Row]]], list[tuple[int, int]]]:
    """Tables of units, and which are neighbours."""
    if schema.related:
        fix = "Attack a plan of the first table alone."
        raise InvalidParameter("related", [*schema.related], "an attack writes one table", fix)
    replaced, units = schema.neighbours is Neighbours.REPLACE_ONE, list(_units(schema))
    size = schema.size if replaced and schema.size is not None else 4
    if size > _MOST_ROWS:
        fix = "Attack a copy with a smaller size."
        raise InvalidParameter("size", size, f"an attack writes every unit, at most {_MOST_ROWS:,}", fix)
    base = [[_row(schema, place % 2, place)] for place in range(size - 1)]
    return neighbouring(base, units, replaced)


def _units(schema: Schema) -> Iterator[list[Row]]:
    """Units at each corner of the domain, at their limits and beyond, alone in the last group, and with gaps."""
    limits = schema.unit.contribution
    labels = max((_labels(schema, name) for name in _read(schema)), key=len, default=("",))
    if schema.unit.column is None:
        yield from ([_row(schema, corner, place)] for corner in range(4) for place in (0, len(labels) - 1))
    else:
        most = (limits or Contribution(rows=1)).most_rows_in_a_group() + 2
        for corner in range(4):
            yield [_row(schema, corner, place) for place in range(min(len(labels), 6)) for _ in range(most)]
        yield [_row(schema, 0, 0)] * most
        yield [_row(schema, 1, len(labels) - 1)]
    gaps = _gaps(schema)
    if gaps is not None:
        yield [gaps]


def _read(schema: Schema) -> dict[str, Column]:
    """The columns that the source itself has; the others are computed from them."""
    return {name: declared for name, declared in schema.columns.items() if declared.value is None}


def _labels(schema: Schema, name: str) -> Sequence[Any]:
    declared = schema.columns[name]
    if isinstance(declared, Bands):
        return declared.edges
    return declared.labels if isinstance(declared, Categories) else () if isinstance(declared, Bounds) else _UNLISTED


def _row(schema: Schema, corner: int, place: int) -> Row:
    """A row beyond the bounds at one corner: columns high or low together, or taking turns."""
    row: Row = {}
    for number, (name, declared) in enumerate(_read(schema).items()):
        high = (corner + (number if corner >= 2 else 0)) % 2 == 0
        if isinstance(declared, Dates):
            row[name] = _written(declared, declared.high if high else declared.low)
        elif isinstance(declared, Bounds):
            row[name] = declared.high + 7 * declared.grid if high else declared.low - 7 * declared.grid
        else:
            labels = _labels(schema, name)
            row[name] = labels[(place + (corner >= 2) * number) % len(labels)]
    return row


def _gaps(schema: Schema) -> Row | None:
    """A row of gaps, where no column refuses them."""
    policies = {getattr(declared, "nulls", "drop") for declared in schema.columns.values()}
    return None if "refuse" in policies else dict.fromkeys(_read(schema))


def _written(dates: Dates, count: float) -> str:
    """A date as the source writes it."""
    day = dates.day(count)
    parts = {"y": f"{day.year:04}", "m": f"{day.month:02}", "d": f"{day.day:02}"}
    return "-".join(parts[letter] for letter in dates.order)


def _write(file: PlanFile, units: Sequence[Sequence[Row]], folder: Path) -> Path:
    """A file of the kind that the plan reads: Parquet, or CSV in the plan's dialect."""
    schema = file.schema.of_rows
    unit = schema.unit.column
    rows = [{**({} if unit is None else {unit: number}), **row} for number, one in enumerate(units) for row in one]
    names = [*([] if unit is None else [unit]), *_read(schema)]
    place = str(file.source.get("path", "rows.csv")).lower()
    if place.endswith(".parquet"):
        return _write_parquet(schema, rows, names, folder)
    dialect = Dialect(**{key: file.source[key] for key in vars(Dialect()) if key in file.source})
    path = folder / ("rows.tsv" if place.endswith(".tsv") else "rows.csv")
    delimiter = dialect.delimiter_of(str(path))
    lines = [delimiter.join(names)] if dialect.header else []
    lines += [delimiter.join(_text(row[name], dialect.decimal) for name in names) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding=dialect.encoding)
    return path


def _text(value: Any, decimal: str) -> str:
    """A field; quotes protect every character that a dialect may give a meaning."""
    if value is None:
        return ""
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    return str(value).replace(".", decimal)


def _write_parquet(schema: Schema, rows: Sequence[Row], names: Sequence[str], folder: Path) -> Path:
    import pyarrow
    from pyarrow import parquet

    def kind(name: str) -> Any:
        if name == schema.unit.column:
            return pyarrow.int64()
        declared = schema.columns[name]
        if isinstance(declared, Bands) or (isinstance(declared, Bounds) and not isinstance(declared, Dates)):
            return pyarrow.float64()
        if isinstance(declared, Dates):
            return pyarrow.string()
        first = _labels(schema, name)[0]
        return {bool: pyarrow.bool_(), int: pyarrow.int64()}.get(type(first), pyarrow.string())

    path = folder / "rows.parquet"
    columns = {name: pyarrow.array([row[name] for row in rows], kind(name)) for name in names}
    parquet.write_table(pyarrow.table(columns), path)
    return path


# ---- running --------------------------------------------------------------------------------------------------------


def _run(file: PlanFile, units: Sequence[Sequence[Row]], folder: Path) -> list[AnswerOnTable]:
    """The plan on one synthetic data set: answers in the order of its releases."""
    folder.mkdir()
    source = {key: value for key, value in file.source.items() if key in vars(Dialect())}
    path, ledger = _write(file, units, folder), folder / "attack.ledger"
    # A first look may stop a run by what it published; the attack looks at all releases.
    # A sequence is attacked in its first period, which has no earlier ones to be released before it.
    questions = tuple(replace(one, look=False, question=one.question.first_period()) for one in file.questions)
    copy = replace(
        file, source={"path": str(path), **source}, ledger=str(ledger), anchor=None, output=folder / "report",
        questions=questions, period=None,
    )  # fmt: skip
    script = Script()
    ends = [0]
    findings = list[str]()
    with scripted(script):
        try:
            Job(copy).run(progress=lambda step: ends.append(len(script.draws)))
        except Exception as error:
            findings.append(str(Refusal.of(error)))
    if findings:
        return [AnswerOnTable(findings[0], (), None, None, tuple(findings)) for _ in file.questions]
    released = json.loads((folder / "report" / "results.json").read_text(encoding="utf-8"))["releases"]
    with Ledger(ledger, read_only=True) as book:
        spends = book.events()
    answers = []
    for place, (question, spend) in enumerate(zip(file.questions, spends, strict=True)):
        told = json.dumps([shown(released[question.name]), shown(spend)], sort_keys=True)
        charged = spend.guarantee if isinstance(spend.guarantee, Guarantee) else spend.charge
        draws = tuple(script.draws[ends[place] : ends[place + 1]])
        moved = Sensitivity.from_dict(spend.sensitivity)
        rate = round_rate(spend.mechanism)
        answers.append(AnswerOnTable(told, draws, charged, moved, (), rate))
    return answers


# ---- Coverage: which public names are audited by what, and why the others need not be.
#
# Pipelines say which methods they stand for; which statistics and mechanisms they use is read from the ledger.


PIPELINES: dict[str, Callable[[], Iterator[Pipeline]]] = {
    "releases": release_pipelines, "sessions": session_pipelines, "models": model_pipelines,
    "questions": question_pipelines, "questions, replaced": partial(question_pipelines, replaced=True),
    "formulas": transform_pipelines, "joins": join_pipelines, "profiles": profile_pipelines,
    "designs": design_pipelines, "growing data": growing_pipelines, "widest declarations": wide_pipelines,
}  # fmt: skip
"""Every pipeline, by what it is about. The audit runs all of them, and has no other list."""


def pipelines() -> Iterator[Pipeline]:
    """Every pipeline."""
    for source in PIPELINES.values():
        yield from source()


def audited_names() -> dict[str, list[str]]:
    """By public name or method: the pipelines that stand for it.

    Examples
    --------
    >>> "question.mean, a person added" in audited_names()["Session.mean"]
    True
    """
    found: dict[str, list[str]] = {}
    for pipeline in pipelines():
        for name in pipeline.covers:
            found.setdefault(name, []).append(pipeline.name)
    return found
