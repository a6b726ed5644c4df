"""Report page: facts as one self-contained HTML file that reads like a publication."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, floor, isfinite, log10, prod
from types import MappingProxyType
from typing import Any, Protocol

import discreet
from discreet.core.guarantee import Guarantee
from discreet.core.schema import Bands, Bounds, Column, Dates, PrivateLabels, Schema
from discreet.results.charts import drawn_readings, environment
from discreet.results.display import printable, within
from discreet.results.frames import Reading, by_measure, reliability
from discreet.results.printed import (
    ReadingFacts,
    label_columns,
    label_words,
    listed,
    markdown_table,
    named_quantiles,
    named_reading,
    place_of,
    plain,
    worded,
)
from discreet.results.wording import (
    SHARES,
    WHOLE,
    attacker_words,
    checklist,
    common_decimals,
    guarantee_words,
    measure_words,
    mechanism_words,
    moment,
    pvalue_words,
    reading_words,
    verdict,
)

# ---- Findings: the main result of each release as sentences, from its published numbers alone.


# ---- Grids: released numbers as tables with labels down the side and across, and totals in their place


_FEWEST = 4  # numbers; fewer are as clear in a list
_WIDEST = 12  # labels across; a page shows no more


@dataclass(frozen=True)
class CrossTable:
    """One table.

    Attributes
    ----------
    down, across
        Columns whose labels stand at the side, and the one whose labels stand above.
    heads
        The labels above; None for the total.
    lines
        Labels at the side, None for a total, with the readings beside them; None where nothing was released.
    """

    down: tuple[str, ...]
    across: str
    heads: tuple[Any, ...]
    lines: tuple[tuple[tuple[Any, ...], tuple[ReadingFacts | None, ...]], ...]

    @property
    def name(self) -> str:
        """The columns of the table."""
        return " × ".join((*self.down, self.across))

    def readings(self) -> list[ReadingFacts]:
        """All numbers in the table."""
        return [one for _, cells in self.lines for one in cells if one is not None]

    def same_noise(self) -> str | None:
        """How far noise moves every cell by itself, where that is the same in all of them and no sampling is added."""
        own = [one for one in self.readings() if {*self.down, self.across} <= {*place_of(one)}]
        errors = {one["standard_error"] for one in own}
        widths = [one["noise"]["high"] - one["noise"]["low"] for one in own if one["noise"]]
        if len(errors) > 1 or len(widths) < len(own) or any(one["population"] for one in own):
            return None
        return tick_words(max(widths) / 2, 1.0) if own[0]["measure"] in WHOLE else None


def grids(readings: Sequence[ReadingFacts]) -> list[CrossTable]:
    """The tables that show these numbers of one measure; none where a list is clearer.

    Numbers by two or more columns are a table. Where margins of one another are among them, each largest table shows
    those that belong to it as totals.

    Examples
    --------
    >>> cells = [{"labels": {"a": a, "b": b}, "estimate": 1.0} for a in "xy" for b in "pq"]
    >>> cells += [{"labels": {"a": a}, "estimate": 2.0} for a in "xy"]
    >>> grid, = grids(cells)
    >>> grid.name, grid.heads, [side for side, _ in grid.lines]
    ('a × b', ('p', 'q', None), [('x',), ('y',)])
    """
    placed = {tuple(sorted(place_of(one).items(), key=str)): one for one in readings}
    kinds = list(dict.fromkeys(tuple(place_of(one)) for one in readings))
    largest = [one for one in kinds if not any(set(one) < set(other) for other in kinds)]
    if len(placed) < _FEWEST or any(len(one) < 2 for one in largest):
        return []
    made = [_grid(columns, readings, placed, kinds) for columns in largest]
    return [grid for grid in made if grid is not None] if None not in made else []


def _grid(
    columns: tuple[str, ...],
    readings: Sequence[ReadingFacts],
    placed: Mapping[Any, ReadingFacts],
    kinds: Iterable[Sequence[str]],
) -> CrossTable | None:
    """The table over these columns; None where cells are missing or too many would stand side by side."""
    own = [place for place in map(place_of, readings) if set(place) == set(columns)]
    labels = {name: list(dict.fromkeys(place[name] for place in own)) for name in columns}
    if len(own) != prod(len(found) for found in labels.values()):
        return None
    across = columns[-1] if len(labels[columns[-1]]) <= _WIDEST else min(columns, key=lambda name: len(labels[name]))
    if len(labels[across]) > _WIDEST:
        return None
    down = tuple(name for name in columns if name != across)
    within = [set(kind) for kind in kinds if set(kind) <= set(columns)]
    ends: dict[str, list[Any]] = {
        name: [*labels[name], *([None] if any(name not in kind for kind in within) else [])] for name in columns
    }
    lines = []
    for side in product(*(ends[name] for name in down)):
        cells = tuple(_at(placed, (*zip(down, side, strict=True), (across, head))) for head in ends[across])
        if any(cell is not None for cell in cells):
            lines.append((side, cells))
    return CrossTable(down, across, tuple(ends[across]), tuple(lines))


def _at(placed: Mapping[Any, ReadingFacts], place: Iterable[tuple[str, Any]]) -> ReadingFacts | None:
    return placed.get(tuple(sorted(((name, label) for name, label in place if label is not None), key=str)))


_FEW = 4
_KINDS = ("population", "noise")
"""Kinds of intervals, the wider first."""


def findings(release: Mapping[str, Any]) -> list[str]:
    """The findings of a release, in one to three sentences. Intervals are those of 95 %.

    Examples
    --------
    >>> told = {"labels": {}, "label": "", "measure": "mean", "estimate": 24.6, "standard_error": None,
    ...         "noise": {"low": 23.5, "high": 25.7}, "population": None}
    >>> findings({"test": None, "subject": "age", "readings": [told]})
    ['The mean age is 24.6 (noise interval 23.5 to 25.7).']
    """
    tested = [] if release["test"] is None else [verdict(release["test"])]
    measured = by_measure(release["readings"])
    if not measured:
        return tested or ["There is nothing to show: no label is common enough."]
    measure, first = next(iter(measured.items()))
    if isinstance(first[0]["estimate"], str):
        return [*tested, _chosen(measure, first)]
    words, middle = _middle(measure_words(release, measure), first)
    if len(first) == 1:
        if tested and measure == "difference of means":
            return tested
        return [*tested, f"The {words} is {_with_interval(first[0])}."]
    if tested:
        return tested
    if len({tuple(place_of(reading)) for reading in first}) > 1:
        return _of_margins(words, first)
    return [_compared(words, middle), *_unreliable(first)]


def _kind(readings: Sequence[ReadingFacts]) -> str | None:
    """The widest kind of interval that all of these numbers have."""
    return next((kind for kind in _KINDS if all(reading[kind] is not None for reading in readings)), None)


def _words(reading: ReadingFacts, kind: str | None) -> tuple[str, str]:
    estimate, noise, both = reading_words(reading)
    return estimate, {"noise": noise, "population": both}.get(kind or "", "")


def _with_interval(reading: ReadingFacts) -> str:
    kind = _kind([reading])
    estimate, interval = _words(reading, kind)
    return estimate if kind is None else f"{estimate} ({kind} interval {interval})"


def _chosen(measure: str, readings: Sequence[ReadingFacts]) -> str:
    if measure == "mode":
        return f"The most frequent label is {readings[0]['estimate']}."
    labels = [str(reading["label"]) for reading in readings]
    shown = ", ".join(labels[:_FEW])
    return f"{len(labels):,} labels are common enough to be shown: {shown}{', …' if len(labels) > _FEW else ''}."


def _middle(words: str, readings: Sequence[ReadingFacts]) -> tuple[str, Sequence[ReadingFacts]]:
    """Of quantiles by group, those nearest the middle: numbers of one kind can be compared. A single one is named."""
    shares = {reading["labels"].get("probability") for reading in readings}
    if None in shares or 1 < len(shares) == len(readings):
        return words, readings
    nearest = min(shares, key=lambda share: abs(share - 0.5))
    named = words.replace(
        "quantile of", "median" if nearest == 0.5 else f"{label_words(nearest, 'probability')} quantile of"
    )
    return named, [reading for reading in readings if reading["labels"]["probability"] == nearest]


def _compared(words: str, readings: Sequence[ReadingFacts]) -> str:
    """Up to four numbers one by one; else the least and the greatest, and whether their intervals overlap."""
    kind = _kind(readings)
    if len(readings) <= _FEW:
        each = [(_name(reading), *_words(reading, kind)) for reading in readings]
        told = "; ".join(
            f"{name}{':' if name.endswith('%') else ''} {estimate}{f' ({interval})' if interval else ''}"
            for name, estimate, interval in each
        )
        return f"{words[:1].upper()}{words[1:]}{f', with {kind} intervals' if kind else ''}: {told}."
    known = _reliable(readings)
    if len(known) < 2:
        return f"Nothing can be said of how the {words} differs: noise and sampling hide it."
    least, most = (function(known, key=lambda one: one["estimate"]) for function in (min, max))
    told = (
        f"The {words} ranges from {_words(least, None)[0]} ({_name(least)}) to {_words(most, None)[0]} ({_name(most)})"
    )
    if kind is None:
        return f"{told}."
    overlap = "overlap" if least[kind]["high"] >= most[kind]["low"] else "do not overlap"
    return f"{told}; their {kind} intervals {overlap}."


def _name(reading: ReadingFacts) -> str:
    """Of what a number is; the share of a quantile by group goes without saying where only one is compared."""
    others = [label_words(label) for column, label in place_of(reading).items() if column != "probability"]
    return ", ".join(others) if others and "probability" in reading["labels"] else label_words(reading["label"])


def _reliable(readings: Sequence[ReadingFacts]) -> list[ReadingFacts]:
    """Numbers that may be put in an order: an extreme one that noise made is no range."""
    hidden = {id(one) for one in _hidden(readings)}
    return [one for one in readings if reliability(one) != "unreliable" and id(one) not in hidden]


def _hidden(readings: Sequence[ReadingFacts]) -> list[ReadingFacts]:
    """Numbers whose interval holds all the others, of which there are several: nothing is known of their place."""
    low, high = (end((one["estimate"] for one in readings), default=0.0) for end in (min, max))
    known = [(one, one["noise"] or one["population"]) for one in readings if len(readings) >= _FEW]
    return [one for one, within in known if within is not None and within["low"] <= low and high <= within["high"]]


def _unreliable(readings: Sequence[ReadingFacts]) -> list[str]:
    told = []
    marked = sum(reliability(one) == "unreliable" for one in readings)
    if marked:
        told = [
            f"{marked:,} of {len(readings):,} numbers are unreliable: their standard error exceeds a third of them."
        ]
    hidden = [_name(one) for one in _hidden(readings)]
    if 0 < len(hidden) < len(readings) - 1:
        more = f" and {len(hidden) - _FEW:,} more" if len(hidden) > _FEW else ""
        told.append(
            f"Nothing is known of {', '.join(hidden[:_FEW])}{more}: noise hides all differences from the others."
        )
    return told


def _of_margins(words: str, readings: Sequence[ReadingFacts]) -> list[str]:
    """The total, and the range of each margin by one column."""
    found: dict[str, list[ReadingFacts]] = {}
    for reading in readings:
        place = place_of(reading)
        if len(place) < 2:
            found.setdefault(next(iter(place), ""), []).append(reading)
    total = [f"The {words} is {_with_interval(one)} in all." for one in found.pop("", [])]
    ranges = [_range(column, margin) for column, margin in found.items()]
    return [*total, *ranges, *_unreliable(readings)]


def _range(column: str, readings: Sequence[ReadingFacts]) -> str:
    known = _reliable(readings)
    if len(known) < 2:
        return f"By {column}: nothing can be said of how the numbers differ."
    least, most = (function(known, key=lambda one: one["estimate"]) for function in (min, max))
    return f"By {column}: from {_words(least, None)[0]} ({_name(least)}) to {_words(most, None)[0]} ({_name(most)})."


def with_named_quantiles(release: Mapping[str, Any]) -> Mapping[str, Any]:
    """A release in which quantiles of one share are called by its name."""
    return {**release, "readings": named_quantiles(release["readings"])}


def headline(release: Mapping[str, Any]) -> tuple[str, str] | None:
    """The number that answers a question by itself, with its interval; None where there are several, or none."""
    first = next(iter(by_measure(release["readings"]).values()), [])
    if len(first) != 1 or isinstance(first[0]["estimate"], str) or (kind := _kind(first)) is None:
        return None
    return _words(first[0], kind)


# ---- Report page: facts as one self-contained HTML file that reads like a publication.


_MOST_LABELS = 40


def charted(release: Mapping[str, Any]) -> dict[str, Any] | None:
    """The chart of what a release measures first, as places in per cent; None where there is nothing to compare.

    Numbers by several columns are small charts on one scale. An unreliable number, or one of which nothing is known,
    whose interval leaves the scale of the others is too uncertain to be drawn.

    Examples
    --------
    >>> told = [{"labels": {"arm": arm}, "label": arm, "measure": "mean", "estimate": mean, "standard_error": 0.1,
    ...          "noise": {"low": mean - 0.2, "high": mean + 0.2}, "population": None}
    ...         for arm, mean in (("A", 2), ("B", 3))]
    >>> drawn = charted({"subject": "spend", "readings": told})
    >>> drawn["unit"], [text for _, text, _ in drawn["ticks"]], drawn["panels"][0]["rows"][1]["noise"]
    ('mean spend', ['1.5', '2.0', '2.5', '3.0', '3.5'], (65.0, 85.0))
    """
    readings = drawn_readings(next(iter(by_measure(release["readings"]).values()), []))
    known = any(one[kind] for one in readings for kind in _KINDS)  # no dot without an interval
    fewest = 0 if readings and readings[0]["measure"] == "difference of means" else 1
    if (
        not known
        or not fewest < len(readings) <= _MOST_LABELS
        or any(isinstance(one["estimate"], str) for one in readings)
    ):
        return None
    measure = readings[0]["measure"]
    bars = measure in WHOLE
    ends = [end for one in _reliable(readings) or readings for end in _reach(one)] + [0.0] * (
        bars or measure == "difference of means"
    )
    low, high, step = axis_for(min(ends), max(ends), whole=bars)

    def at(value: float) -> float:
        return round(100 * (min(max(value, low), high) - low) / (high - low), 1)

    decimals = common_decimals(readings)
    panels: dict[str, list[dict[str, Any]]] = {}
    for one in readings:
        place = {} if measure == "difference of means" else place_of(one)
        *of, last = [label_words(label, name) for name, label in place.items()] or [one["label"]]
        panels.setdefault(", ".join(of), []).append(_row(one, last, (low, high), at, bars, decimals))
    if all(len(rows) == 1 for rows in panels.values()):
        lines = [row | {"label": ", ".join(filter(None, [of, row["label"]]))} for of, [row] in panels.items()]
        panels = {"": lines}
    ticks = [low + step * place for place in range(round((high - low) / step) + 1)]
    return {
        "panels": [{"name": name, "rows": rows} for name, rows in panels.items()],
        "ticks": [
            (at(tick), tick_words(tick, step, measure), {low: "start", ticks[-1]: "end"}.get(tick, "middle"))
            for tick in ticks
        ],
        "zero": at(0.0) if low <= 0 <= high else None,
        "cut": low > 0,
        "unit": measure_words(release, measure),
    }


def _reach(reading: ReadingFacts) -> list[float]:
    """The number and the ends of its intervals, as far as they are numbers."""
    known = [reading[kind][end] for kind in _KINDS if reading[kind] for end in ("low", "high")]
    return [float(one) for one in (reading["estimate"], *known) if isfinite(one)]


def _row(
    reading: ReadingFacts,
    label: str,
    axis: tuple[float, float],
    at: Callable[[float], float],
    bars: bool,
    decimals: int | None,
) -> dict[str, Any]:
    estimate, noise, both = reading_words(reading, decimals)
    reach, zero = _reach(reading), at(0.0)
    return {
        "label": label,
        "value": estimate,
        "interval": both if reading["population"] else noise if reading["noise"] else "",
        "unsure": min(reach) < axis[0] or max(reach) > axis[1],
        "bar": (min(zero, at(reading["estimate"])), round(abs(at(reading["estimate"]) - zero), 1)) if bars else None,
        "at": at(reading["estimate"]),
        **{kind: reading[kind] and (at(reading[kind]["low"]), at(reading[kind]["high"])) for kind in _KINDS},
    }


def axis_for(low: float, high: float, *, whole: bool) -> tuple[float, float, float]:
    """Ends and step of an axis that holds both numbers: round ones, about four steps apart."""
    width = (high - low or abs(high) or 1.0) / 4
    unit = 10.0 ** floor(log10(width))
    step = next(unit * times for times in (1, 2, 2.5, 5, 10) if unit * times >= width * 0.999)
    step = max(1.0, round(step)) if whole else step
    return floor(low / step + 1e-9) * step, max(ceil(high / step - 1e-9), floor(low / step) + 1) * step, step


def tick_words(value: float, step: float, measure: str = "") -> str:
    """A tick of an axis, with the digits of its step."""
    times, mark = (100, "\N{NO-BREAK SPACE}%") if measure in SHARES else (1, "")
    digits = next((digits for digits in range(12) if abs(round(times * step, digits) - times * step) < step / 1e3), 12)
    return f"{times * value:,.{digits}f}{mark}".replace("-", "−")


def as_page(facts: Mapping[str, Any]) -> str:
    """The report as HTML."""
    facts = {**facts, "releases": [with_named_quantiles(release) for release in facts["releases"]]}
    return (
        environment()
        .get_template("report.html")
        .render(
            **facts,
            **table_words(),
            charts=[charted(release) for release in facts["releases"]],
            found=[findings(release) for release in facts["releases"]],
            numbers=[headline(release) for release in facts["releases"]],
            share=_share(facts["privacy"]),
            moment=moment,
            mechanism=mechanism_words,
            verdict=verdict,
        )
    )


def table_words() -> dict[str, Any]:
    """The functions with which templates write the numbers of a release."""
    return {
        "words": reading_words,
        "decimals_of": common_decimals,
        "measure_words": measure_words,
        "place_of": place_of,
        "pvalue_words": pvalue_words,
        "by_measure": by_measure,
        "grids": grids,
        "label_columns": label_columns,
        "label_words": label_words,
        "reliability": reliability,
        "flagged": lambda release: any(reliability(reading) for reading in release["readings"]),
        "has": lambda readings, kind: any(reading.get(kind) is not None for reading in readings),
    }


def _share(privacy: Mapping[str, Any]) -> int:
    """Percentage of the budget that is spent, by its first parameter; ledgers may count in another currency."""
    budget, left = privacy["budget"], privacy["remaining"]
    for name in ("epsilon", "rho", "mu"):
        if budget.get(name) and left.get(name) is not None:
            power = 2 if name == "mu" else 1
            used = 1 - float(left[name] / budget[name]) ** power
            return round(100 * used)
    return 100


# ---- Facts: everything a report says, as one dict. What is not in it is not said.


RELEASED = "released privately"
"""The first words of the source of a fact that a profile released."""


class AskedQuestion(Protocol):
    """The part of a question that a report needs."""

    @property
    def ask(self) -> str: ...
    @property
    def leads(self) -> bool: ...
    @property
    def schema(self) -> Schema: ...
    @property
    def omit(self) -> Any: ...
    def columns_read(self) -> tuple[str, ...]: ...
    def meaning_words(self, words: Mapping[str, str]) -> str: ...
    def subject_words(self, words: Mapping[str, str]) -> str | None: ...
    def noun_words(self, words: Mapping[str, str]) -> str: ...
    def counted_words(self) -> str | None: ...


class ReportedLedger(Protocol):
    """The part of a ledger that a report needs."""

    @property
    def budget(self) -> Guarantee: ...
    @property
    def head(self) -> str: ...
    def spent(self) -> Guarantee: ...
    def remaining(self) -> Guarantee: ...


class Answered(Protocol):
    """The part of an answer that a report needs."""

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]: ...
    def margin_readings(self) -> list[Reading]: ...
    def published(self) -> dict[str, Any]: ...
    def verdict(self) -> Mapping[str, Any] | None: ...


@dataclass(frozen=True, kw_only=True)
class ReportedRelease:
    """One release of a report: its key and title, what was asked, and the answer."""

    name: str
    title: str
    question: AskedQuestion
    answer: Answered


def report_facts(
    *,
    title: str,
    plan: str,
    schema: Schema,
    ledger: ReportedLedger,
    entries: Sequence[ReportedRelease],
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
        "assumptions": _assumptions(schema, _of_all_rows(entries), sources, variables),
        "checklist": checklist(
            schema, ledger.budget, [name for name in schema.of_rows.columns if name not in sources], "of this report"
        ),
        "releases": released,
        "variables": dict(variables),
        "plan": plan,
    }


def _privacy(schema: Schema, ledger: ReportedLedger, unit: str) -> dict[str, Any]:
    return {
        "unit": unit,
        "neighbours": schema.neighbours.value,
        "protects": attacker_words(ledger.budget, unit, schema.neighbours),
        "budget": guarantee_words(ledger.budget, unit),
        "spent": guarantee_words(ledger.spent(), unit),
        "remaining": guarantee_words(ledger.remaining(), unit),
        "head": ledger.head,
    }


def _of_all_rows(entries: Sequence[ReportedRelease]) -> bool:
    """True where a release counts all rows of a unit, with weights."""
    return any(getattr(entry.question, "all_rows", False) for entry in entries)


def _assumptions(schema: Schema, all_rows: bool, sources: Mapping[str, str], variables: Mapping[str, str]) -> list[str]:
    unit = schema.unit
    released = [name for name, source in sources.items() if source.startswith(RELEASED)]
    said = [
        _public_facts([variables.get(name, name) for name in released]),
        "Releases of other data about the same people are not counted here.",
    ]
    if unit.column is None:
        said.append("Every row is a different person or thing that is protected.")
    elif schema.made_from is not None:
        said.append(
            f"Rows with the same {unit.column!r} belong to one protected unit, which counts once, with features of all "
            "its rows."
        )
    else:
        limits = (
            "" if unit.contribution is None else f" Limits per {unit.name}: {_limits(unit.contribution.to_dict())}."
        )
        weights = ", or weights all of them where a release says so" if all_rows else ""
        said.append(
            f"Rows with the same {unit.column!r} belong to one protected unit; discreet drops rows beyond "
            f"its limits by a random choice{weights}.{limits}"
        )
    if schema.size is not None:
        said.append(f"The number of units, {schema.size:,}, is public.")
    for name, one in schema.of_rows.related.items():
        chosen = "" if one.where is None else f" for which this is true: {one.where.text}"
        used = f"their number is {one.counted!r}" if one.counted else "each meets each row of the first table"
        said.append(
            f"{name}: another table about the same units, by {one.id!r}. At most {one.rows} rows of a {unit.name} "
            f"count{chosen}; {used}."
        )
    rows = schema.of_rows
    if rows.design is not None:
        said.append(
            f"Numbers are about the population of which the data is {rows.design.words()}. Weights are taken as facts "
            "of each row: that somebody's presence moved the weights of others is not covered."
        )
    if rows.where is not None:
        said.append(f"Only rows for which this is true take part: {rows.where.text}.")
    said += [f"{variables.get(name, name)}: {_column(column)}." for name, column in rows.columns.items()]
    said += [
        f"{name}: {feature.words(unit.name)}, {_column(rows.per_unit().columns[name])}."
        for name, feature in rows.features.items()
    ]
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


def _kept(schema: Schema, entries: Sequence[ReportedRelease]) -> str | None:
    """A sentence on the rows that the numbers are about, where units have limits: said before any of them."""
    unit = schema.unit
    if schema.unit_is_row:
        return None
    kept = "kept, or all rows where a release says so," if _of_all_rows(entries) else "kept"
    said = f"Numbers are about the rows that discreet {kept} of each {unit.name}."
    if any(entry.question.leads for entry in entries):
        return f"{said} What was left out comes first."
    return f'{said} This plan does not say how many rows were left out; ask = "dropped_rows" would.'


def _column(column: Column) -> str:
    if isinstance(column, PrivateLabels):
        return "labels that are not public; only common ones may be shown"
    if isinstance(column, Bounds):
        low, high = (
            column.day(end) if isinstance(column, Dates) else f"{end:,.10g}" for end in (column.low, column.high)
        )
        grid = f"the {column.unit}" if isinstance(column, Dates) else f"{column.grid:g}"
        said = f"clipped to {low} to {high}, rounded to {grid}; missing: {_policy(column.nulls)}"
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


def meaning_of(question: AskedQuestion, words: Mapping[str, str]) -> str:
    """The meaning of an answer, with all columns where the sentence does not name them; ``words`` rename columns."""
    told = question.meaning_words(words)
    read = list(dict.fromkeys(words.get(name, name) for name in question.columns_read()))
    columns = "" if all(name.casefold() in told.casefold() for name in read) else f" Columns: {', '.join(read)}."
    where = "" if question.schema.where is None else f" Of the rows where {question.schema.where.text}."
    kept = "" if question.omit is None else f" Of {question.omit.words()}."
    return f"{told}{columns}{where}{kept}"


def _readings(question: AskedQuestion, answer: Any) -> list[Reading]:
    """Every number of an answer; after a regression's own coefficients those of the smaller models that were named."""
    models: Sequence[str | Sequence[str]] = getattr(question, "models", ())
    named = [(one,) if isinstance(one, str) else one for one in models]
    smaller = [
        replace(reading, measure=f"{reading.measure} in the model on {', '.join(on)}")
        for on in named
        for reading in answer.model(*on).readings()
    ]
    return [*answer.readings(question.columns_read()), *smaller]


def _verdict(test: Mapping[str, Any] | None, variables: Mapping[str, str]) -> Mapping[str, Any] | None:
    said = test and test.get("said")
    inside = {name: within(words) for name, words in variables.items()}
    told = [worded(one, inside) for one in said or ()]
    return {**test, "said": [f"{one[:1].upper()}{one[1:]}" for one in told]} if test and said else test


def _released(entry: ReportedRelease, variables: Mapping[str, str]) -> dict[str, Any]:
    question, answer = entry.question, entry.answer
    published = answer.published()
    clipped = published.pop("clipped", None)
    counted = [question.counted_words(), clipped and f"of clipped values: {clipped}"]
    return {
        "name": entry.name,
        "title": entry.title,
        "ask": question.ask,
        "meaning": meaning_of(question, variables),
        "subject": question.subject_words(variables),
        "noun": question.noun_words(variables),
        "counted": "; ".join(filter(None, counted)) or None,
        "readings": [named_reading(reading.to_dict(), variables) for reading in _readings(question, answer)],
        "margins": [named_reading(reading.to_dict(), variables) for reading in answer.margin_readings()],
        "test": _verdict(answer.verdict(), variables),
        **published,
    }


# ---- Prose: facts as markdown.


def as_markdown(facts: Mapping[str, Any]) -> str:
    """The report as markdown."""
    privacy = facts["privacy"]
    lines = [
        f"# {plain(facts['title'])}",
        "",
        f"Made with discreet {facts['version']}, {moment(facts['created'])}.",
        "",
        "## Privacy",
        "",
        plain(privacy["protects"]),
        "",
        f"- Budget: {privacy['budget']['symbols']}: {plain(privacy['budget']['words'])}",
        f"- Spent: {privacy['spent']['symbols']}; left: {privacy['remaining']['symbols']}",
        f"- Ledger head: `{privacy['head']}`",
        "",
        *([] if facts["kept"] is None else [plain(facts["kept"]), ""]),
    ]
    for release in facts["releases"]:
        lines += _release_lines(with_named_quantiles(release))
    lines += ["## What was assumed", "", *(f"- {plain(said)}" for said in facts["assumptions"]), ""]
    lines += ["## The plan", "", "```toml", printable(facts["plan"]).rstrip().replace("```", "'''"), "```", ""]
    return "\n".join(lines)


def _release_lines(release: Mapping[str, Any]) -> list[str]:
    lines = [f"## {plain(release['title'])}", "", plain(release["meaning"]), ""]
    lines += [line for said in findings(release) for line in (plain(said), "")]
    for measure, readings in by_measure(release["readings"]).items():
        if measure == "mode":
            continue  # the finding says it
        words = measure_words(release, measure)
        words = f"{words[:1].upper()}{words[1:]}"
        for grid in grids([*readings, *(release["margins"] if measure == "count" else [])]):
            lines += [plain(f"{words} by {grid.name}:"), "", *markdown_table(_crossed(grid)), ""]
        known = ", with 95 % intervals" if any(one[kind] for one in readings for kind in _KINDS) else ""
        lines += [plain(f"{words}{known}:"), "", *markdown_table(listed(readings)), ""]
    guarantee = "none" if release["guarantee"] is None else release["guarantee"]["symbols"]
    if release["counted"] is not None:
        lines += [f"Counted: {plain(release['counted'])}.", ""]
    return [*lines, f"{guarantee}; {plain(mechanism_words(release))}.", ""]


def _crossed(grid: CrossTable) -> Iterable[Sequence[str]]:
    """Header and lines of a table with labels on both sides."""
    yield [*grid.down, *(label_words(head, grid.across) for head in grid.heads)]
    decimals = common_decimals(grid.readings())
    for side, cells in grid.lines:
        labels = [label_words(label, name) for name, label in zip(grid.down, side, strict=True)]
        yield [
            *labels,
            *("" if cell is None else f"{marked(cell)}{reading_words(cell, decimals)[0]}" for cell in cells),
        ]


def marked(reading: ReadingFacts) -> str:
    """The mark before a number that is not reliable, as official statistics have it."""
    return {"unreliable": "[u] ", "caution": "[c] "}.get(reliability(reading), "")


# ---- Methods note: what was protected, how, and what was taken as public; ready to be pasted into a publication.


@dataclass(frozen=True)
class NotePart:
    """A heading with paragraphs, a table with its header first, and points below."""

    title: str
    paragraphs: Sequence[str] = ()
    table: Sequence[Sequence[str]] = ()
    points: Sequence[str] = ()


def methods_parts(facts: Mapping[str, Any]) -> list[NotePart]:
    """The note, part by part, from the facts of a report."""
    return [
        _protected(facts),
        _how(facts),
        NotePart("What was taken as public", points=facts["assumptions"]),
        _intervals(facts),
        _omitted(facts),
        _standard(facts),
        _cite(facts),
    ]


def _protected(facts: Mapping[str, Any]) -> NotePart:
    privacy, unit = facts["privacy"], facts["privacy"]["unit"]
    against = sorted({release["protects"] for release in facts["releases"]})
    return NotePart(
        "What was protected",
        [
            f"All statistics were released under differential privacy. The protected unit is one {unit}. The guarantee "
            f"compares data sets that differ by {'; or '.join(against) or 'one unit'}.",
            f"The releases together satisfy {privacy['spent']['symbols']}: {privacy['spent']['words']}. "
            f"The budget is {privacy['budget']['symbols']}. {privacy['protects']}",
        ],
    )


def _how(facts: Mapping[str, Any]) -> NotePart:
    rows = [("Release", "Statistic", "Guarantee", "Mechanism")]
    for release in facts["releases"]:
        guarantee = "none" if release["guarantee"] is None else release["guarantee"]["symbols"]
        rows.append((release["title"], release["ask"].replace("_", " "), guarantee, mechanism_words(release)))
    return NotePart(
        "How it was protected",
        [
            f"The statistics were computed with discreet {facts['version']}. It adds random noise from the operating "
            "system's entropy, calibrated to how far one unit can move each result, and verifies every guarantee "
            "against the exact privacy loss of the mechanism before it draws. A ledger on disk records each release "
            f"before its noise is drawn; its last entry has the checksum {facts['privacy']['head']}."
        ],
        rows,
    )


def _intervals(facts: Mapping[str, Any]) -> NotePart:
    readings = [reading for release in facts["releases"] for reading in release["readings"]]
    said = []
    if any(reading["noise"] for reading in readings):
        said.append(
            "Noise intervals (95 %) cover the value in the data, as counted. They follow from the known distribution "
            "of the noise, which is the only uncertainty they include."
        )
    if any(reading["population"] for reading in readings):
        designed = any(reading["measure"] == "design effect" for reading in readings)
        drawn = "was sampled by the declared design" if designed else "is a random sample"
        said.append(
            f"Population intervals (95 %) cover the value in the population of which the data {drawn}. "
            "They include both the noise and sampling error."
        )
        if designed:
            said.append(
                "Sampling errors are linearised from the weights, for units drawn with replacement within strata. "
                "Standard errors count sampling and noise. Above 16.5 % of an estimate they ask for caution, and above "
                "33.3 % it is unreliable. A weight above the largest counts as the largest, and no interval counts the "
                "bias of that. Effective respondents and the design effect of weights are Kish's."
            )
    tests = sorted({release["test"]["test"] for release in facts["releases"] if release["test"]})
    if tests:
        said.append(
            f"Tests ({', '.join(tests)}) use the released numbers alone. Their null distribution includes the noise."
        )
    if any(not (reading["noise"] or reading["population"]) for reading in readings):
        said.append("Some results, such as labels that were chosen, have no interval.")
    together = any(release["test"] and release["test"].get("together") for release in facts["releases"])
    said.append(
        "The intervals of a comparison of several arms hold at once (Bonferroni). Every other interval holds by itself."
        if together
        else "Each interval holds by itself; none of them is adjusted for looking at several."
    )
    return NotePart("How intervals and tests were made", points=said)


def _omitted(facts: Mapping[str, Any]) -> NotePart:
    counted = {release["counted"] for release in facts["releases"] if release["counted"]}
    return NotePart(
        "What was left out",
        [
            "Rows were dropped and values were moved as stated above under what was taken as public. How many rows "
            "this concerned is not known unless a release counts them: their number is private, too."
        ],
        points=[*(f"Counted: {one}." for one in sorted(counted)), *_flags(facts)],
    )


def _flags(facts: Mapping[str, Any]) -> list[str]:
    return [
        "Counts are flagged where the standard error of their noise exceeds 16.5 % (caution) or 33.3 % (unreliable) of "
        "the count. No count was suppressed for being small: the noise protects small counts, too."
    ] * any(reading["measure"] == "count" for release in facts["releases"] for reading in release["readings"])


def _standard(facts: Mapping[str, Any]) -> NotePart:
    """The questions of NIST SP 800-226; what discreet does not know says so."""
    rows = [(question, answer or "not known to discreet") for question, answer in facts.get("checklist", ())]
    return NotePart("Questions after NIST SP 800-226", table=[("Question", "Answer"), *rows])


def _cite(facts: Mapping[str, Any]) -> NotePart:
    version, privacy = facts["version"], facts["privacy"]
    return NotePart(
        "How to cite",
        [
            f"{facts['title']}. Statistics released under differential privacy ({privacy['spent']['symbols']}, per "
            f"{privacy['unit']}) with discreet {version}, {moment(facts['created'])}. Ledger head "
            f"{privacy['head'][:16]}.",
            f"discreet {version}: statistics and conclusions under differential privacy. Open-source software, "
            "Apache-2.0.",
        ],
    )


def methods_markdown(facts: Mapping[str, Any]) -> str:
    """The note as markdown."""
    lines = [f"# Methods: {plain(facts['title'])}", ""]
    for part in methods_parts(facts):
        lines += [f"## {part.title}", "", *(line for said in part.paragraphs for line in (plain(said), ""))]
        lines += [*markdown_table(part.table), ""] if part.table else []
        lines += [*(f"- {plain(said)}" for said in part.points), ""] if part.points else []
    return "\n".join(lines)


def methods_page(facts: Mapping[str, Any]) -> str:
    """The note as a self-contained page."""
    page = environment().get_template("methods.html")
    return page.render(title=facts["title"], version=facts["version"], parts=methods_parts(facts))
