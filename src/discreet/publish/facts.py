"""Facts: everything a report says, as one dict. What is not in it is not said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Protocol

import discreet
from discreet.core.guarantee import Guarantee
from discreet.core.schema import Bands, Bounds, Column, Dates, Schema, Unlisted
from discreet.publish.readings import Reading
from discreet.publish.wording import attacker_words, guarantee_words

__all__ = ["RELEASED", "Entry", "meaning_of", "report_facts"]

RELEASED = "released privately"
"""How the source of a fact begins that a profile released."""


class Asked(Protocol):
    """What a report needs of a question."""

    @property
    def ask(self) -> str: ...
    @property
    def leads(self) -> bool: ...
    def columns_read(self) -> tuple[str, ...]: ...
    def meaning_words(self, words: Mapping[str, str]) -> str: ...
    def subject_words(self, words: Mapping[str, str]) -> str | None: ...
    def noun_words(self, words: Mapping[str, str]) -> str: ...
    def counted_words(self) -> str | None: ...


class Account(Protocol):
    """What a report needs of a ledger."""

    @property
    def budget(self) -> Guarantee: ...
    @property
    def head(self) -> str: ...
    def spent(self) -> Guarantee: ...
    def remaining(self) -> Guarantee: ...


class Answered(Protocol):
    """What a report needs of an answer."""

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]: ...
    def margin_readings(self) -> list[Reading]: ...
    def published(self) -> dict[str, Any]: ...
    def verdict(self) -> Mapping[str, Any] | None: ...


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One release of a report: its key and title, what was asked, and the answer."""

    name: str
    title: str
    question: Asked
    answer: Answered


def report_facts(
    *,
    title: str,
    plan: str,
    schema: Schema,
    ledger: Account,
    entries: Sequence[Entry],
    variables: Mapping[str, str] = MappingProxyType({}),
    sources: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Collect what a report says.

    Parameters
    ----------
    title, plan
        What the report is called, and the text of the plan.
    schema, ledger
        The public facts and the record of what was spent.
    entries
        What was released.
    variables
        What readers are told instead of the name of a column: "yearly income in €".
    sources
        Where the plan says that each public fact is known from.
    """
    released = [_released(entry, variables) for entry in sorted(entries, key=lambda entry: not entry.question.leads)]
    return {
        "discreet": "report",
        "version": discreet.__version__,
        "title": title,
        "created": max((str(one["created"]) for one in released), default=""),  # of the newest answer, not of the print
        "privacy": _privacy(schema, ledger, variables.get(schema.unit.name, schema.unit.name)),
        "kept": _kept(schema, entries),
        "assumptions": _assumptions(schema, _weighted(entries), sources),
        "releases": released,
        "variables": dict(variables),
        "plan": plan,
    }


def _privacy(schema: Schema, ledger: Account, unit: str) -> dict[str, Any]:
    return {
        "unit": unit,
        "neighbours": schema.neighbours.value,
        "protects": attacker_words(ledger.budget, unit, schema.neighbours),
        "budget": guarantee_words(ledger.budget, unit),
        "spent": guarantee_words(ledger.spent(), unit),
        "remaining": guarantee_words(ledger.remaining(), unit),
        "head": ledger.head,
    }


def _weighted(entries: Sequence[Entry]) -> bool:
    """Whether a release counts all rows of a unit, with weights."""
    return any(getattr(entry.question, "weighted", False) for entry in entries)


def _assumptions(schema: Schema, weighted: bool, sources: Mapping[str, str]) -> list[str]:
    unit = schema.unit
    said = [
        _public_facts([name for name, source in sources.items() if source.startswith(RELEASED)]),
        "Releases of other data about the same people are not counted here.",
    ]
    if unit.column is None:
        said.append("Every row is a different person or thing that is protected.")
    else:
        limits = (
            "" if unit.contribution is None else f" Limits per {unit.name}: {_limits(unit.contribution.to_dict())}."
        )
        weights = ", or weights all of them where a release says so" if weighted else ""
        said.append(
            f"Rows with the same {unit.column!r} belong to one protected unit; discreet drops rows beyond "
            f"its limits by a random choice{weights}.{limits}"
        )
    if schema.size is not None:
        said.append(f"The number of units, {schema.size:,}, is public.")
    for name, one in schema.related.items():
        chosen = "" if one.where is None else f" for which this is true: {one.where.text}"
        used = f"their number is {one.counted!r}" if one.counted else "each meets each row of the first table"
        said.append(
            f"{name}: another table about the same units, by {one.id!r}. At most {one.rows} rows of a {unit.name} "
            f"count{chosen}; {used}."
        )
    if schema.where is not None:
        said.append(f"Only rows for which this is true take part: {schema.where.text}.")
    said += [f"{name}: {_column(column)}." for name, column in schema.columns.items()]
    return said


def _public_facts(released: Sequence[str]) -> str:
    """Where the schema comes from, except for what a profile released before."""
    if not released:
        return "Everything in the schema (bounds, categories, units) is public and was not taken from the data."
    return (
        f"Bounds, labels or limits of {', '.join(released)} were released privately before, as the plan says, and no "
        "interval accounts for values beyond them. Everything else in the schema is public and was not taken from the "
        "data."
    )


def _kept(schema: Schema, entries: Sequence[Entry]) -> str | None:
    """What the numbers are about, where units have limits: said before any of them."""
    unit = schema.unit
    if unit.column is None:
        return None
    kept = "kept, or all rows where they are weighted," if _weighted(entries) else "kept"
    said = f"Numbers are about the rows that discreet {kept} of each {unit.name}."
    if any(entry.question.leads for entry in entries):
        return f"{said} What was left out comes first."
    return f'{said} This plan does not say how many rows were left out; ask = "left_out" would.'


def _column(column: Column) -> str:
    if isinstance(column, Unlisted):
        return "labels that are not public; only common ones may be shown"
    if isinstance(column, Bounds):
        low, high = (column.day(end) if isinstance(column, Dates) else f"{end:g}" for end in (column.low, column.high))
        grid = f"the {column.unit}" if isinstance(column, Dates) else f"{column.grid:g}"
        said = f"clipped to {low} … {high}, rounded to {grid}; missing: {_policy(column.nulls)}"
    else:
        words = "bands" if isinstance(column, Bands) else "public categories"
        said = f"{column.cells} {words}; missing: {_policy(column.nulls)}; others: {_policy(column.unknown)}"
        if column.aliases:
            said += "; read as labels: " + ", ".join(f"{code} = {label}" for code, label in column.aliases.items())
    if column.missing:
        said += f"; counted as missing: {', '.join(map(str, column.missing))}"
    return said if column.value is None else f"{column.value.text}, {said}"


def _limits(limits: Mapping[str, Any]) -> str:
    if "private" in limits:
        return "released privately for each question, which notes them"
    words = {"groups": ("group", ""), "rows": ("row", " per group"), "total": ("row", " in all")}
    return ", ".join(
        f"{value} {words[name][0]}{'' if value == 1 else 's'}{words[name][1]}" for name, value in limits.items()
    )


def _policy(policy: Any) -> str:
    words = {"drop": "dropped", "refuse": "refused"}
    return words.get(policy, f"counted as {str(policy).removeprefix('=')}")


def meaning_of(question: Asked, words: Mapping[str, str]) -> str:
    """What an answer says, with all its columns where the sentence does not name them; ``words`` rename columns."""
    told = question.meaning_words(words)
    read = list(dict.fromkeys(words.get(name, name) for name in question.columns_read()))
    return told if all(name in told for name in read) else f"{told} Columns: {', '.join(read)}."


def _readings(question: Asked, answer: Any) -> list[Reading]:
    """Every number of an answer; after a regression's own coefficients those of the smaller models that were named."""
    models: Sequence[str | Sequence[str]] = getattr(question, "models", ())
    named = [(one,) if isinstance(one, str) else one for one in models]
    smaller = [
        replace(reading, measure=f"{reading.measure} in the model on {', '.join(on)}")
        for on in named
        for reading in answer.model(*on).coefficient_readings()
    ]
    return [*answer.readings(question.columns_read()), *smaller]


def _released(entry: Entry, variables: Mapping[str, str]) -> dict[str, Any]:
    question, answer = entry.question, entry.answer
    return {
        "name": entry.name,
        "title": entry.title,
        "ask": question.ask,
        "meaning": meaning_of(question, variables),
        "subject": question.subject_words(variables),
        "noun": question.noun_words(variables),
        "counted": question.counted_words(),
        "readings": [reading.to_dict() for reading in _readings(question, answer)],
        "margins": [reading.to_dict() for reading in answer.margin_readings()],
        "test": answer.verdict(),
        **answer.published(),
    }
