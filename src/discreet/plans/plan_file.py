"""Plan file: source, schema, budget and releases in one TOML file that can be reviewed before anything is read.

Errors name the file and the line.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import discreet
from discreet.core.errors import DiscreetError, InvalidParameter, LedgerMissing, PlanFileError, spelling
from discreet.core.files import read_regular, reason
from discreet.core.guarantee import GaussianDP, Guarantee
from discreet.core.ledger.balance import Approvals
from discreet.core.numbers import decimal, down
from discreet.core.rows.read import Dialect
from discreet.core.rows.source import source_identity
from discreet.core.schema import Contribution, Schema
from discreet.plans.declarations import narrowed, read_column, read_feature, read_omission, schema_from_dict
from discreet.plans.planner import Scenario
from discreet.questions import Question, asked, form
from discreet.questions.dropped_rows import DroppedRowsQuestion
from discreet.questions.facade import meant
from discreet.questions.profile.question import ProfileQuestion
from discreet.questions.profile.released_first import BOUNDS, LIMIT, first_request, released_first
from discreet.questions.question import KINDS
from discreet.questions.usable_values import UNUSABLE, UsableValuesQuestion, UsableValuesRelease
from discreet.results.ledger import Ledger, check_window

# ---- Ledger terms: what a plan file says about its ledger, besides the budget.


_TEXTS = ("path", "dataset", "anchor", "window", "team")


@dataclass(frozen=True, kw_only=True)
class LedgerTerms:
    """The settings of ``[ledger]``.

    Attributes
    ----------
    path, dataset, anchor
        Where the ledger is, what it calls the data, and the file to which heads are copied.
    approvals
        Who must approve the plan.
    window, teams, team
        In which windows the budget is spent anew, how it is divided, and on whose part this plan spends.
    """

    path: str | None = None
    dataset: str | None = None
    anchor: str | None = None
    approvals: Approvals | None = None
    window: str | None = None
    teams: Mapping[str, Guarantee] | None = None
    team: str | None = None

    def place(self, here: Path, source: Mapping[str, Any]) -> str:
        """Where the ledger is: as the plan says, seen from its directory, or beside the data."""
        address = self.path or _named_after(source)
        return address if "://" in address else str(here / address)

    @staticmethod
    def read(table: Any) -> LedgerTerms:
        """Read and check the table; refusals name the setting."""
        if not isinstance(table, dict):
            raise PlanFileError("ledger must be a table. Write [ledger] and its settings below.")
        for key in table:
            if key not in (*_TEXTS, "approvals", "teams"):
                raise PlanFileError(
                    f"{key!r} is not a setting here. Known are {', '.join((*_TEXTS, 'approvals', 'teams'))}."
                )
        texts = {key: _text(key, table[key]) for key in _TEXTS if key in table}
        check_window(texts.get("window"))
        approvals, teams = table.get("approvals"), table.get("teams")
        return LedgerTerms(
            **texts,
            approvals=None if approvals is None else _approvals(approvals),
            teams=None if teams is None else {name: _guarantee(name, part) for name, part in _tables(teams).items()},
        )


def begun(address: str) -> bool:
    """True where there is a ledger; one whose creation was cut short has no entry yet."""
    try:
        Ledger(address, read_only=True).close()
    except LedgerMissing:
        return False
    return True


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise PlanFileError(f"{key} = {value!r} must be text.")
    return value


def _tables(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        raise PlanFileError("teams must be tables. Write [ledger.teams.health] and epsilon = 0.5 below, for example.")
    return value


def _approvals(table: Any) -> Approvals:
    if not isinstance(table, dict) or set(table) != {"need", "keys"}:
        raise PlanFileError(
            "approvals needs need = 2, for example, and a key for each name, in [ledger.approvals.keys]."
        )
    return Approvals(table["need"], table["keys"])


def _guarantee(name: str, table: Any) -> Guarantee:
    kind = KINDS.get(frozenset(table)) if isinstance(table, dict) else None
    if kind is None:
        raise PlanFileError(f"teams.{name}: give epsilon, epsilon and delta, rho, or mu.")
    part: Guarantee = kind(**table)
    return part


def _named_after(source: Mapping[str, Any]) -> str:
    """Where the ledger of a source is by default: beside the data, under its name, whatever the plan is called."""
    address = source.get("address") or source["path"]
    if "://" in address:  # a connection has no place beside it: the ledger is beside the plan
        return f"{_plain_name(source.get('table') or urlsplit(address).path) or 'data'}.ledger"
    return str(Path(address).with_name(f"{_plain_name(address) or 'data'}.ledger"))


def _plain_name(place: str) -> str:
    """The last part of a path, without its endings and what patterns are made of."""
    return re.sub(r"[*?\[\]{}\s]+", "", Path(place).name.partition(".")[0])


# ---- Plan file: source, schema, budget and releases in one TOML file that can be reviewed before anything is read.


# ---- Period: the month, quarter or year that a release is about; the same plan is a new release in each of them


_PATTERNS: dict[str, tuple[Callable[[date], str], str]] = {
    "{date}": (lambda day: day.isoformat(), r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"),
    "{month}": (lambda day: f"{day:%Y-%m}", r"\d{4}-(0[1-9]|1[0-2])"),
    "{quarter}": (lambda day: f"{day:%Y}-Q{(day.month + 2) // 3}", r"\d{4}-Q[1-4]"),
    "{year}": (lambda day: f"{day:%Y}", r"\d{4}"),
}
"""The name of the period that a day is in, and what such names look like."""
_NAME = re.compile(r"[\w.+-]{1,40}")


def period_of(pattern: str, today: date | None = None) -> str:
    """The name of the period that a plan asks for.

    Parameters
    ----------
    pattern
        A name such as ``2026-11``; or ``{date}``, ``{month}``, ``{quarter}`` or ``{year}``, for the current one (UTC).

    Examples
    --------
    >>> period_of("{quarter}", date(2026, 11, 15)), period_of("spring-2026")
    ('2026-Q4', 'spring-2026')
    """
    if pattern in _PATTERNS:
        return _PATTERNS[pattern][0](today or datetime.now(UTC).date())
    if not _NAME.fullmatch(pattern):
        raise InvalidParameter(
            "period", pattern, "must be a short name without spaces", f'Write period = "2026-11", or {list(_PATTERNS)}.'
        )
    return pattern


# ---- Shares: a budget, divided among releases


def divided(budget: Guarantee, shares: list[float]) -> list[Guarantee]:
    """Parts of the budget; the last one takes what rounding left over, so that a finished plan leaves nothing."""
    *parts, last = budget.split(shares)
    if isinstance(budget, GaussianDP):  # its squares add, and are rounded already
        return [*parts, last]
    rest = {
        name: down(decimal(whole) - sum(decimal(part.parameters()[name]) for part in parts))
        for name, whole in budget.parameters().items()
    }
    return [*parts, type(budget)(**rest)]


# ---- Source options: from the ``[source]`` table of a plan to what opens it, and to what tells it from other sources


DIALECT = ("delimiter", "decimal", "encoding", "header", "thousands", "symbols")


def open_options(table: Mapping[str, Any], folder: Path, period: str | None) -> dict[str, Any]:
    """Arguments for a session: source, table, engine, memory, the dialect of a file, and related sources."""
    options = dict(table)
    place = options.pop("path", None)
    if place is not None and period is not None:
        place = str(place).replace("{period}", period)
    if place is not None and "://" not in str(place):
        place = str((folder / place) if not Path(place).is_absolute() else Path(place))
    if "related" in options:
        options["related"] = {name: open_options(one, folder, period) for name, one in options["related"].items()}
    return {"source": options.pop("address", place), **options}


def plan_identity(options: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The identity of a source: its place, as seen from the plan, a table in it, and how it is written."""
    place = options["source"]
    if "://" not in place:  # a folder may move, with the plan and the data in it
        place = os.path.relpath(os.path.realpath(place), os.path.realpath(folder))
    dialect = Dialect(**{key: options[key] for key in DIALECT if key in options})
    others = {name: plan_identity(one, folder) for name, one in options.get("related", {}).items()}
    written = {name: value for name, value in vars(dialect).items() if value != ""}
    return {"place": place, "table": options.get("table"), **written, **({"related": others} if others else {})}


# ---- Planned question: one release of a plan file, and the line that a refusal of it is about


LIMITS_OF_A_UNIT = ("groups", "rows", "total")


@dataclass(frozen=True, kw_only=True)
class PlannedQuestion:
    """One release of a plan.

    Attributes
    ----------
    name, title
        Its key in the results, and what a reader is shown.
    question, settings
        What is asked, and the settings of the file that say so.
    lines
        Where it begins in the file, under the empty name, and where its settings are.
    look
        Whether it belongs to a first look, after which a run may stop.
    """

    name: str
    title: str
    question: Question[Any]
    settings: Mapping[str, Any]
    lines: Mapping[str, int]
    look: bool = False

    def line(self, failure: Exception) -> int:
        """Line of the setting that a refusal is about; else of the release."""
        return line_of(self.settings, self.lines, failure)


def _spelled(text: str, failure: str) -> str:
    """How to write what the line of a failure holds, where people write it otherwise."""
    line = re.search(r"at line (\d+)", failure)
    lines = text.splitlines()
    found = lines[int(line[1]) - 1] if line and int(line[1]) <= len(lines) else ""
    if comma := re.search(r"=\s*(\d{1,3}(?:,\d{3})+)\b", found):
        return f" Write {comma[1].replace(',', '_')} for {comma[1]}."
    if point := re.search(r"=\s*(\.\d+)", found):
        return f" Write 0{point[1]} for {point[1]}."
    if word := re.search(r"=\s*([^\W\d][\w .-]*)$", found):
        return f' Write "{word[1].strip()}" in quotes.'
    return ""


def line_of(settings: Mapping[str, Any], lines: Mapping[str, int], failure: Exception) -> int:
    """Line of the setting that a refusal names, or of the one that holds the refused value; else of the release."""
    named = str(getattr(failure, "name", "")).split("[")[0]
    value = getattr(failure, "value", None)
    holding = [key for key, given in settings.items() if value is not None and _holds(given, value)]
    keys = [named] if named in holding or not holding else holding
    found = [one for key in keys for one in (LIMITS_OF_A_UNIT if key == "contribution" else (key,))]
    return min((lines[one] for one in found if one in lines), default=lines[""])


def _holds(given: Any, value: Any) -> bool:
    """True where a setting is the value, or a list with it."""
    return bool(given == value) or (isinstance(given, list) and value in given)


# ---- First look: what a plan spends on before the rest, and when it stops there


class Unusable(DiscreetError):
    """A column is all but unusable, so that the rest of a plan would buy nothing."""


def first_look(schema: Schema, guarantee: Guarantee, questions: Sequence[Question[Any]]) -> dict[str, Question[Any]]:
    """The questions of a first look, by name: usable values of what a plan reads, and what limits per unit drop."""
    read = {name for one in questions if one.schema.made_from == schema.made_from for name in one.columns_read()}
    names = [name for name in schema.columns_behind(sorted(read)) if name in schema.columns]
    looks: dict[str, Question[Any]] = {}
    limited = schema.unit.column is not None and schema.unit.contribution is not None
    parts = guarantee.split(2) if limited and names else [guarantee]
    if names:
        looks["usable_values"] = UsableValuesQuestion(schema, guarantee=parts[0], columns=names)
    if limited:
        looks["dropped_rows"] = DroppedRowsQuestion(schema, guarantee=parts[-1])
    return looks


def refuse_unusable(answer: Any, spent: Guarantee) -> None:
    """Stop where a released share says that a column is all but unusable. It reads the noisy answer alone."""
    columns = answer.unusable() if isinstance(answer, UsableValuesRelease) else ()
    if columns:
        named = ", ".join(f"{name!r} ({100 * answer.share(name):.0f} % usable)" for name in columns)
        raise Unusable(
            f"first_look: less than {100 * UNUSABLE:.0f} % of the values can be used in {named}, so the run stops. "
            "Check bounds, labels, missing words and, for files, decimal, thousands and delimiter; or remove "
            f"first_look from the plan. Only this look was paid for: {spent}."
        )


# ---- TOML lines: where every table and setting of a plan file stands, so that refusals can name the line


def lines_of(text: str) -> Iterator[tuple[str, int]]:
    """Line of every table and key, by its dotted path; releases by their number."""
    prefix, seen = "", -1
    for position, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped.startswith("[[release]]"):
            seen += 1
            prefix = f"release.{seen}"
            yield prefix, position
        elif stripped.startswith("[") and "=" not in stripped.split("]")[0]:
            prefix = ".".join(_path(stripped.split("#")[0].strip()))
            yield prefix, position
        elif "=" in stripped and not stripped.startswith("#"):
            keys = _path(f"{stripped.split('=')[0].strip()} = 0")
            if keys:
                yield ".".join([prefix, *keys] if prefix else keys), position


def _path(line: str) -> list[str]:
    """Keys that one line of TOML opens, outermost first."""
    try:
        table: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return []
    keys = []
    while isinstance(table, dict) and len(table) == 1:
        key, table = next(iter(table.items()))
        keys.append(key)
    return keys


_LARGEST = 16_000_000
_LARGEST_SHARE = 1e9
_MEMORY = re.compile(r"\d+(\.\d+)?\s*[KMGT]i?B", re.IGNORECASE)
_LOOKS = {"usable_values": "Usable values", "dropped_rows": "What the limits leave out"}
_OF_ALL = {"title": form.TEXT, "where": form.TEXT, "per_unit": form.FLAG, "omit": form.OMIT}
_COMMON = ("name", "ask", *_OF_ALL, *LIMITS_OF_A_UNIT, "weight", "epsilon", "delta", "rho", "mu")


@dataclass(frozen=True, kw_only=True)
class PlanFile:
    """A plan that was read and checked; no data was touched."""

    path: Path
    text: str
    title: str
    source: Mapping[str, Any]
    ledger: str
    anchor: Path | None
    dataset: str | None
    budget: Guarantee
    schema: Schema
    questions: tuple[PlannedQuestion, ...]
    output: Path
    terms: LedgerTerms
    sources: Mapping[str, str]
    """Where each public fact comes from, by the column's name; of the unit under ``unit``."""
    period: str | None
    period_pattern: str | None
    times: int
    """In how many periods the plan may run under one approval."""
    scenario: Scenario | None = None

    @classmethod
    def read(cls, path: str | Path, *, period: str | None = None) -> PlanFile:
        """Read and check a plan file.

        Parameters
        ----------
        path
            The file.
        period
            The period to release, instead of the one that the plan names.

        Raises
        ------
        PlanFileError
            With file and line, what is wrong and how to put it right.
        """
        file = Path(path)
        try:
            content = io.BytesIO(read_regular(file, _LARGEST))
            text = io.TextIOWrapper(content, "utf-8-sig").read()  # some editors begin with a byte order mark
        except OSError as failure:
            raise PlanFileError(f"{file}: cannot be read: {reason(failure)}") from None
        except UnicodeDecodeError:
            raise PlanFileError(f"{file}: is not text in UTF-8. Save it as UTF-8.{_not_a_plan(file)}") from None
        return cls.parse(text, file, period=period)

    @classmethod
    def parse(cls, text: str, file: Path, *, period: str | None = None) -> PlanFile:
        """Read the text of a plan; ``file`` is where it is, or was."""
        try:
            data = tomllib.loads(text)
            _check_integers(data)
        except tomllib.TOMLDecodeError as failure:
            said = f"{_spelled(text, str(failure))}{_not_a_plan(file)}"
            raise PlanFileError(f"{file}: is not valid TOML: {failure}.{said}") from None
        except ValueError:  # of numbers that nobody writes by hand
            raise PlanFileError(f"{file}: has an integer of more than 1,000 digits. Write a smaller one.") from None
        except RecursionError:
            raise PlanFileError(
                f"{file}: has brackets nested too deeply. Write it as `discreet describe` does."
            ) from None
        return _Reader(file, text, data).plan(period)

    @property
    def ledger_name(self) -> str:
        """The ledger's file without its folders; of a database only its kind, since addresses may hold passwords."""
        return Path(self.ledger).name if "://" not in self.ledger else self.ledger.partition("://")[0]

    @property
    def variables(self) -> Mapping[str, str]:
        """What readers are told in the place of names."""
        return self.schema.names_for_readers()

    def request(self, planned: PlannedQuestion, run: int) -> str:
        """Name of a release in the ledger: the same question to the same data has the same name.

        It follows from what is asked, of which data and for how much; neither from the words of the file nor from how
        the data is read (engine, memory, the spelling of a path).
        """
        comes_first = planned.look and planned.name.startswith((BOUNDS, LIMIT))
        if comes_first and isinstance(planned.question, ProfileQuestion):
            return first_request(planned.question)  # as every session that needs it names it
        content = {
            "question": planned.question.content(),
            "guarantee": planned.question.guarantee.to_dict(),
            "source": self.identity(),
        }
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
        return f"plan:{digest}:{self.period or ''}:{run}:{planned.name}"

    def identity(self) -> dict[str, Any]:
        """The identity of the source: its place, as seen from the plan, a table in it, and how it is written."""
        return plan_identity(self.open_options(), self.path.parent)

    def identities(self) -> tuple[str, ...]:
        """Texts by which a ledger knows this source again: its place, and the declared name of the data set."""
        known = source_identity(self.open_options()["source"], self.source.get("table"))
        return (known,) if self.dataset is None else (known, json.dumps({"dataset": self.dataset}))

    def open_options(self) -> dict[str, Any]:
        """Arguments for a session: source, table, engine, memory and the dialect of a file."""
        return open_options(self.source, self.path.parent, self.period)


class _Reader:
    """Turns the tables of a plan file into objects; every refusal is located in the text."""

    def __init__(self, path: Path, text: str, data: dict[str, Any]) -> None:
        self.path, self.text, self.data = path, text, data
        self.lines = dict(lines_of(text))
        self.period: str | None = None

    def error(self, where: str, message: str) -> PlanFileError:
        parts = where.split(".")
        while parts and ".".join(parts) not in self.lines:
            parts.pop()
        line = self.lines.get(".".join(parts), 1)
        return PlanFileError(f"{self.path}:{line}: {message}")

    def located(self, where: str, failure: DiscreetError) -> PlanFileError:
        name = getattr(failure, "name", "")
        own = where if name.startswith(f"{where}.") or not name else f"{where}.{name}"
        return self.error(name if name in self.lines else own, str(failure))

    def plan(self, period: str | None) -> PlanFile:
        tables = ("source", "ledger", "budget", "schema", "scenario", "release", "output")
        self._known("", self.data, ("title", "period", "times", "first_look", *tables))
        for name in ("source", "budget", "schema", "release"):
            if name not in self.data:
                raise self.error("", f"[{name}] is missing. See `discreet describe` for a skeleton.")
        budget = self._guarantee("budget", self._table("budget"))
        sources = self._sources()
        schema = self._schema()
        terms = self._terms()
        output = self._texts("output", ("directory",))
        here, source = self.path.parent, self._source()
        self.period = self._period(period)
        return PlanFile(
            path=self.path,
            text=self.text,
            title=str(self.data.get("title", self.path.stem)),
            source=source,
            ledger=terms.place(here, source),
            anchor=None if terms.anchor is None else here / terms.anchor,
            dataset=terms.dataset,
            budget=budget,
            schema=schema,
            questions=self._all_questions(budget, schema),
            output=here / output.get("directory", f"{self.path.stem}-report"),
            terms=terms,
            sources=sources,
            period=self.period,
            period_pattern=self.data.get("period"),
            times=self._times(),
            scenario=self._scenario(schema) if "scenario" in self.data else None,
        )

    def _period(self, given: str | None) -> str | None:
        """The period to release: the one that is given in place of the plan's own, or that one."""
        own = self.data.get("period")
        if own is not None and not isinstance(own, str):
            raise self.error("period", f'period = {own!r} must be text. Write period = "2026-11", or "{{month}}".')
        if given is not None:
            if own is None:
                raise self.error("", f'--period {given} needs a plan with a period. Write period = "{{month}}" in it.')
            if own in _PATTERNS and not re.fullmatch(_PATTERNS[own][1], given):
                fix = f"Give one such as {period_of(own)}."
                raise self.error("period", f"--period {given} is no {own[1:-1]}, and the plan asks for one. {fix}")
        wanted = given or own
        if wanted is None:
            return None
        try:
            return period_of(wanted)
        except DiscreetError as failure:
            raise self.located("period", failure) from None

    def _times(self) -> int:
        times = self.data.get("times", 1)
        if isinstance(times, bool) or not isinstance(times, int) or times < 1:
            raise self.error("times", f"times = {times!r} must be the number of periods that are approved together.")
        if times > 1 and "period" not in self.data:
            raise self.error("times", 'times needs a period. Write period = "{month}", for example.')
        return times

    def _terms(self) -> LedgerTerms:
        try:
            return LedgerTerms.read(self.data.get("ledger", {}))
        except DiscreetError as failure:
            raise self.located("ledger", failure) from None

    def _sources(self) -> dict[str, str]:
        """Take the sentences on where facts come from out of the schema: they describe it and are no part of it."""
        found = {}
        for where, name, table in self._facts():
            if "source" in table:
                said = self._taken(table, where, "source", "must say where the fact comes from")
                found[where.removeprefix("schema.").removeprefix("columns.")] = said
                if where == "schema.design":
                    found.setdefault(name, said)
        return found

    def _facts(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """What describes a column, the unit or a row: its place in the file, the name it is known by, its table."""
        schema = self._table("schema")
        related = schema.get("related")
        parts = {"schema.columns": schema.get("columns"), "schema.features": schema.get("features")}
        for table, one in related.items() if isinstance(related, dict) else ():
            parts[f"schema.related.{table}.columns"] = one.get("columns") if isinstance(one, dict) else None
        for part, named in parts.items():
            for name, one in named.items() if isinstance(named, dict) else ():
                if isinstance(one, dict):
                    yield f"{part}.{name}", name, one
        unit = schema.get("unit")
        if isinstance(unit, dict):
            yield "schema.unit", str(unit.get("column")), unit
        design = schema.get("design")
        if isinstance(design, dict):  # whose weights need no declaration of their own
            yield "schema.design", str(design.get("weight")), design
        yield "schema", "row", schema

    def _taken(self, table: dict[str, Any], where: str, key: str, rule: str) -> str:
        """A text that describes the schema and is no part of it, taken out."""
        said = table.pop(key)
        if not isinstance(said, str) or not said.strip() or "\0" in said:
            raise self.error(f"{where}.{key}", f"{key} = {said!r} {rule}.")
        return said

    def _table(self, name: str) -> dict[str, Any]:
        table = self.data[name]
        if not isinstance(table, dict):
            raise self.error(name, f"{name} must be a table. Write [{name}] and its settings below.")
        return table

    def _texts(self, name: str, allowed: tuple[str, ...]) -> dict[str, str]:
        """A table that may be missing, of settings that are text."""
        table = self._table(name) if name in self.data else {}
        self._known(name, table, allowed)
        for key, value in table.items():
            if not isinstance(value, str) or not value or "\0" in value:
                raise self.error(f"{name}.{key}", f"{key} = {value!r} must be text.")
        return table

    def _known(self, where: str, table: Mapping[str, Any], allowed: tuple[str, ...]) -> None:
        for key in table:
            if key not in allowed:
                place = f"{where}.{key}" if where else key
                raise self.error(place, f"{key!r} is not a setting here. {spelling(key, allowed)}")

    def _source(self) -> dict[str, Any]:
        source = self._table("source")
        related = source.get("related", {})
        if not isinstance(related, dict) or not all(isinstance(one, dict) for one in related.values()):
            raise self.error("source.related", "related must be tables. Write [source.related.visits] and its path.")
        for name, one in related.items():
            self._one_source(f"source.related.{name}", one)
        self._one_source("source", {key: value for key, value in source.items() if key != "related"})
        return source

    def _one_source(self, where: str, source: Mapping[str, Any]) -> None:
        self._known(where, source, ("path", "address", "table", "engine", "memory", *DIALECT))
        if ("path" in source) == ("address" in source):
            raise self.error(where, "the source needs either path (files) or address (a connection).")
        if "{period}" in str(source.get("path")) and "period" not in self.data:
            raise self.error(f"{where}.path", 'path names a {period}, and the plan has none. Write period = "{month}".')
        for key, value in source.items():
            if key != "header" and (not isinstance(value, str) or not value or "\0" in value):
                raise self.error(f"{where}.{key}", f"{key} must be text.")
        if not _MEMORY.fullmatch(source.get("memory", "1GB")):
            raise self.error(f"{where}.memory", f'memory = {source["memory"]!r} must be an amount such as "4GB".')
        try:
            Dialect(**{key: source[key] for key in DIALECT if key in source})
        except DiscreetError as failure:
            raise self.located(where, failure) from None

    def _schema(self) -> Schema:
        table = self._table("schema")
        columns = table.get("columns")
        if columns is not None and not isinstance(columns, dict):
            raise self.error("schema.columns", "columns must be tables. Write [schema.columns.age], for example.")
        parts: dict[str, Callable[[], Any]] = {
            f"schema.columns.{name}": partial(read_column, f"schema.columns.{name}", one)
            for name, one in (columns or {}).items()
        }
        features = table.get("features", {})
        for name, one in features.items() if isinstance(features, dict) else ():
            parts[f"schema.features.{name}"] = partial(read_feature, f"schema.features.{name}", one)
        parts["schema.unit"] = partial(schema_from_dict, {"unit": table.get("unit", {})})
        parts["schema"] = partial(schema_from_dict, table)
        for where, part in parts.items():
            try:
                schema: Schema = part()
            except (DiscreetError, TypeError) as failure:
                raise self._failed(where, failure) from None
        return schema

    def _scenario(self, schema: Schema) -> Scenario:
        try:
            scenario = Scenario.from_dict(self._table("scenario"))
            scenario.check(schema)
        except (DiscreetError, TypeError) as failure:
            raise self._failed("scenario", failure) from None
        return scenario

    def _failed(self, where: str, failure: Exception) -> PlanFileError:
        if isinstance(failure, DiscreetError):
            return self.located(where, failure)
        return self.error(where, f"{failure}.")

    def _guarantee(self, where: str, table: Mapping[str, Any]) -> Guarantee:
        given = {key: table[key] for key in ("epsilon", "delta", "rho", "mu") if key in table}
        kind = KINDS.get(frozenset(given))
        if where == "budget":
            self._known(where, table, ("epsilon", "delta", "rho", "mu"))
        if kind is None:
            raise self.error(where, "give epsilon, epsilon and delta, rho, or mu.")
        try:
            guarantee: Guarantee = kind(**given)
        except DiscreetError as failure:
            raise self.located(where, failure) from None
        return guarantee

    def _all_questions(self, budget: Guarantee, schema: Schema) -> tuple[PlannedQuestion, ...]:
        """The questions of the file, and before them those of a first look."""
        share = self.data.get("first_look")
        if share is None:
            return self._after_private(schema, tuple(self._questions(budget, schema)))
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
            raise self.error("first_look", f"first_look = {share!r} must be a share of the budget, such as 0.05.")
        look, rest = divided(budget, [float(share), 1.0 - share])
        questions = tuple(self._questions(rest, schema))
        looks = first_look(schema, look, [one.question for one in questions])
        for one in questions:
            if one.name in looks:
                raise self.error(
                    "first_look", f"first_look makes a release called {one.name!r}. Give yours another name."
                )
        lines = {"": self.lines.get("first_look", 1)}
        first = [
            PlannedQuestion(name=name, title=_LOOKS[name], question=question, settings={}, lines=lines, look=True)
            for name, question in looks.items()
        ]
        return self._after_private(schema, (*first, *questions))

    def _after_private(self, schema: Schema, questions: tuple[PlannedQuestion, ...]) -> tuple[PlannedQuestion, ...]:
        """The questions, after those that release the private bounds and limits they need."""
        of_rows = [asked for asked in questions if asked.question.schema.made_from is None]  # features are declared
        needed = {name: one for asked in of_rows for name, one in released_first(asked.question, schema).items()}
        titles = {BOUNDS: ("Bounds of {}", "schema.columns.{}"), LIMIT: ("Rows per {}", "schema.unit")}
        first = []
        for name, question in needed.items():
            kind = BOUNDS if name.startswith(BOUNDS) else LIMIT
            title, where = (words.format(name.removeprefix(kind)) for words in titles[kind])
            lines = {"": self.lines.get(where, 1)}
            first.append(
                PlannedQuestion(name=name, title=title, question=question, settings={}, look=True, lines=lines)
            )
        return (*first, *questions)

    def _questions(self, budget: Guarantee, schema: Schema) -> Iterator[PlannedQuestion]:
        entries = self.data["release"]
        if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
            raise self.error("release", "write each release as [[release]].")
        guarantees = self._guarantees(entries, budget)
        names: set[str] = set()
        for position, (entry, guarantee) in enumerate(zip(entries, guarantees, strict=True)):
            where = f"release.{position}"
            ask, questions = entry.get("ask"), asked()
            if not isinstance(ask, str) or ask not in questions:
                raise self.error(f"{where}.ask", f"ask = {ask!r} is not a question. {meant(ask)}")
            allowed, forms = questions[ask].settings(), {**_OF_ALL, **questions[ask].forms}
            self._known(where, entry, (*_COMMON, *allowed))
            for key, required in allowed.items():
                if required and key not in entry:
                    raise self.error(where, f"{ask} needs {key} = ….")
            for key, value in entry.items():
                if key in forms and (wrong := forms[key].complaint(key, value)) is not None:
                    raise self.error(f"{where}.{key}", wrong)
            limit = next((key for key in LIMITS_OF_A_UNIT if key in entry), None)
            if limit is not None and "contribution" not in questions[ask].fields():
                raise self.error(
                    f"{where}.{limit}",
                    f"{limit} = {entry[limit]!r}: {ask} has its own rule for what counts of a unit. Leave {limit} out, "
                    "or set it in [schema.unit]. Nothing was spent.",
                )
            name = entry.get("name", f"{ask}-{position + 1}")
            if not isinstance(name, str) or name in names:
                raise self.error(f"{where}.name", f"name = {name!r} must be text, and different for every release.")
            names.add(name)
            settings = self._arguments(where, entry, allowed, schema)
            lines = {key: self.lines.get(f"{where}.{key}" if key else where, 1) for key in ("", *entry)}
            make: Callable[..., Question[Any]] = questions[ask]  # each question has fields of its own
            try:
                rows = schema.per_unit() if entry.get("per_unit") else schema
                rows = narrowed(rows, entry["where"]) if "where" in entry else rows
                question = make(rows, guarantee=guarantee, **settings)
            except (DiscreetError, TypeError) as failure:
                line = line_of(settings, lines, failure)
                raise PlanFileError(f"{self.path}:{line}: release {name!r}: {failure}") from failure
            title = str(entry.get("title") or question.heading_words(schema.names_for_readers()))
            yield PlannedQuestion(name=name, title=title, question=question, settings=settings, lines=lines)

    def _arguments(
        self, where: str, entry: Mapping[str, Any], allowed: Mapping[str, bool], schema: Schema
    ) -> dict[str, Any]:
        arguments = {key: entry[key] for key in allowed if key in entry}
        if "period" in allowed and self.period is not None:
            arguments.setdefault("period", self.period)
        if "omit" in entry:
            try:
                arguments["omit"] = read_omission(entry["omit"], schema)
            except DiscreetError as failure:
                raise self.located(f"{where}.omit", failure) from None
        try:
            limits = {key: entry[key] for key in LIMITS_OF_A_UNIT if key in entry}
            if limits:
                arguments["contribution"] = Contribution(**limits)
        except (DiscreetError, TypeError) as failure:
            raise self._failed(where, failure) from None
        return arguments

    def _guarantees(self, entries: list[Any], budget: Guarantee) -> list[Guarantee]:
        """Each release's own guarantee, or its part of the budget."""
        own = [any(key in entry for key in ("epsilon", "delta", "rho", "mu")) for entry in entries]
        for position, entry in enumerate(entries):
            if own[position] and "weight" in entry:
                raise self.error(f"release.{position}.weight", "give weight or the release's own guarantee, not both.")
        if all(own):
            return [self._guarantee(f"release.{i}", entry) for i, entry in enumerate(entries)]
        if any(own):
            position = own.index(False)
            raise self.error(
                f"release.{position}", "some releases give their own epsilon, rho or mu and this one does not. Give "
                "it, or give weight = … to all."
            )  # fmt: skip
        shares = [entry.get("weight", 1.0) for entry in entries]
        for position, share in enumerate(shares):
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < _LARGEST_SHARE:
                raise self.error(f"release.{position}.weight", "weight must be a positive number such as 2.")
        return divided(budget, [float(share) for share in shares])


def _check_integers(value: Any) -> None:
    """Refuse integers that are too long to be shown, and so to be refused in words."""
    if isinstance(value, int) and abs(value) >= 10**1000:
        raise ValueError("too long")
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_integers(one)


def _not_a_plan(file: Path) -> str:
    """A sentence on the use of data that was given for a plan; empty for a TOML file."""
    if file.suffix.lower() == ".toml":
        return ""
    return f" A plan file is TOML; `discreet describe {file.name}` writes one to fill in."


# ---- Meaning: what a plan says, without its words; what people approve, and how one version differs from the next.


_TOLD = ("mechanism.", "question.schema.", "question.statistic.")
"""The entries that follow from the schema and the guarantee, whose changes are told by themselves."""


def meaning(file: PlanFile, ledger: Ledger | None = None) -> dict[str, Any]:
    """Everything in a plan that has a bearing on people, as JSON-ready data. Titles and comments have none.

    ``releases`` says how often each release may be made, by the identity of its claim, which covers question,
    mechanism, sensitivity, protection and guarantee. A sequence makes a release of its own in every period, and is
    told by its first.
    """
    every = {one.name: one.question.claims(ledger) for one in file.questions}
    claims = {name: found[0] for name, found in every.items()}
    allowed: Counter[str] = Counter()
    for claim in (claim for found in every.values() for claim in found):
        allowed[claim.identity()] += 1 if claim.parts else file.times
    return {
        "discreet": "plan",
        "software": discreet.__version__,
        "source": file.identity(),
        "dataset": file.dataset,
        "budget": file.budget.to_dict(),
        "window": file.terms.window,
        "schema": file.schema.to_dict(named=False),
        "sources": dict(file.sources),
        "period": file.period_pattern,
        "questions": {
            name: {
                "question": dict(claim.question),
                "guarantee": claim.guarantee.to_dict(),
                "mechanism": dict(claim.mechanism),
            }
            for name, claim in claims.items()
        },
        "releases": dict(allowed),
    }


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The changes from one meaning to another, a sentence each; empty where nothing changed.

    Examples
    --------
    >>> differences({"budget": {"kind": "pure", "epsilon": 1.0}}, {"budget": {"kind": "pure", "epsilon": 2.0}})
    ['budget: ε = 1 is now ε = 2.']
    """
    skipped = ("releases", "questions")  # the first follows from the rest, the second is told by name
    then, now = (dict(_leaves("", {k: v for k, v in one.items() if k not in skipped})) for one in (before, after))
    said = [_changed(place, then.get(place), now.get(place)) for place in sorted(then.keys() | now.keys())
            if then.get(place) != now.get(place)]  # fmt: skip
    asked = before.get("questions", {})
    asks = after.get("questions", {})
    said += [f"release {name!r} is new: {_asked(asks[name])}." for name in asks if name not in asked]
    said += [f"release {name!r} is gone." for name in asked if name not in asks]
    return said + [line for name in asks if name in asked for line in _question(name, asked[name], asks[name])]


def _question(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    then = dict(_leaves("", before))
    now = dict(_leaves("", after))
    places = sorted(place for place in then.keys() | now.keys() if then.get(place) != now.get(place))
    told = [place for place in places if not place.startswith(_TOLD)]
    return [_changed(f"release {name!r}, {place}", then.get(place), now.get(place)) for place in told]


def _asked(question: Mapping[str, Any]) -> str:
    return f"{question['question'].get('ask', 'a release')} for {Guarantee.from_dict(question['guarantee'])}"


def _leaves(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Every value by its dotted place; a guarantee is one value."""
    if isinstance(value, Mapping) and value and not _is_guarantee(value):
        for key, one in value.items():
            yield from _leaves(f"{place}.{key}" if place else str(key), one)
    else:
        yield place, value


def _is_guarantee(value: Mapping[str, Any]) -> bool:
    return "kind" in value and not {"epsilon", "rho", "mu"}.isdisjoint(value)


def _changed(place: str, before: Any, after: Any) -> str:
    if before is None:
        return f"{place}: {_shown(after)} is new."
    if after is None:
        return f"{place}: {_shown(before)} is gone."
    return f"{place}: {_shown(before)} is now {_shown(after)}."


def _shown(value: Any) -> str:
    if isinstance(value, Mapping) and _is_guarantee(value):
        return str(Guarantee.from_dict(dict(value)))
    return repr(value) if isinstance(value, str) else str(value)
