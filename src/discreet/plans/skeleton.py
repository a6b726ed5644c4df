"""Skeleton: a plan file to fill in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from types import MappingProxyType
from typing import Any

from discreet.core.errors import InvalidParameter, SourceError, WrongType
from discreet.core.guarantee import Guarantee
from discreet.core.schema import Bounds, Contribution
from discreet.mechanisms.omission.step import Omission
from discreet.plans.convert import Described, code_text
from discreet.plans.plan_file import PlanFile, PlannedQuestion
from discreet.questions import asked, form
from discreet.questions.question import DeclaredColumns
from discreet.results.display import printable

_TYPED = (".parquet",)
_NUMBERS = ("int", "uint", "float", "double", "halffloat", "decimal")
_UNIT = """\
# Who is protected. If a person can have several rows, uncomment this table and name the column of people; without it
# the guarantee is for single rows.
# [schema.unit]
# column = "…"
# total = …  # at most this many rows per person count; discreet drops others at random

# Only column names {and_types}were read. Bounds and categories are public facts that you know; never take them from the
# data. Uncomment the columns that you will use."""
_LIMITS = [
    "# low = …   # public bounds; values beyond are moved to the nearer one",
    "# high = …",
    "# grid = …  # values are rounded to multiples of it: 1 for years, 0.01 for money",
]


_OTHER_DELIMITERS = {";": ";", "\t": "\\t", "|": "|"}
_OTHER_BYTES = re.compile(r"\\x[89a-f][0-9a-f]")
"""How the reader shows bytes that are no text."""
_DATA = re.compile(r"\s*([+-]?[\d.,]*\d|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}.*|\S+@\S+\.\S+)\s*")
"""A number, a date or an e-mail address: what a column is hardly called, and a first row without a header holds."""


def skeleton(
    source: str,
    types: Mapping[str, str],
    dialect: Mapping[str, Any] = MappingProxyType({}),
    told: Mapping[str, Described] = MappingProxyType({}),
) -> str:
    """A plan file to fill in, from column names and types alone.

    Parameters
    ----------
    source
        The path of the data.
    types
        The names of the columns, with their types.
    dialect
        The settings of a CSV file that differ from the default.
    told
        What the maker of the file wrote about its columns.
    """
    if not types:
        raise InvalidParameter("source", source, "has no columns", "Check the file.")
    typed = source.lower().endswith(_TYPED)  # all columns of a CSV are text
    check_names(source, list(types))
    lines = [
        f'title = "Statistics from {_quoted(Path(source).name)}"',
        "",
        "[source]",
        f'path = "{_quoted(source)}"',
        *(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in dialect.items()),
        "",
        "[budget]",
        "epsilon = 1.0",
        "",
        "[schema]",
        'neighbours = "add_remove"  # or "replace_one" with size = the public number of units',
        "",
        _UNIT.format(and_types="and types " if typed else ""),
    ]
    for name, kind in types.items():
        about = told.get(name, Described())
        lines += ["", f'# [schema.columns."{_quoted(name)}"]{f"  # {kind}" if typed else ""}']
        lines += [f'# label = "{_quoted(about.title)}"  # what readers are told'] if about.title else []
        lines += _column_lines(kind, about)
    lines += ["", *_questions(), "[[release]]", 'name = "rows"', 'ask = "count"', "weight = 1.0", ""]
    return "\n".join(lines)


def check_names(source: str, names: Sequence[str]) -> None:
    """Refuse a header of a CSV file that does not split, is written otherwise, or looks like somebody's record.

    A plan is shown to others.
    """
    if source.lower().endswith(_TYPED):
        return
    if len(names) == 1 and (found := [shown for mark, shown in _OTHER_DELIMITERS.items() if mark in names[0]]):
        raise SourceError(
            f"source = {source!r}: the header is one field with {found[0]!r} inside. If that is the delimiter, add "
            f"--delimiter '{found[0]}', and --decimal ',' if numbers have decimal commas."
        )
    for place, name in enumerate(names, 1):
        if _OTHER_BYTES.search(name):
            raise SourceError(
                f"source = {source!r}: name {place} of the header is not written in this encoding. Add --encoding "
                "cp1252, or the one that the file has."
            )
        if _DATA.fullmatch(name):
            raise SourceError(
                f"source = {source!r}: name {place} of the header looks like data, not like a name. Add a first line "
                "with the names of the columns."
            )


def _questions() -> list[str]:
    """The list of questions that can be asked, in comments."""
    lines = [
        "# What can be asked, with its settings; those in brackets are optional. Every question also takes title,",
        "# its weight in the budget (or its own epsilon), and limits per person (total, or groups and rows):",
    ]
    for ask, kind in asked().items():
        words = " ".join(name if required else f"[{name}]" for name, required in kind.settings().items())
        first, *rest = wrap(words, 96)
        lines += [f"#   {ask:<17} {first}", *(f"#   {'':<17} {line}" for line in rest)]
    return lines


def _column_lines(kind: str, about: Described) -> list[str]:
    codes = [*map(code_text, about.missing)]
    words = {code: label for code, label in about.labels.items() if code not in codes}
    number = kind.startswith(_NUMBERS) and not words and not any(isinstance(one, str) for one in about.missing)
    missing = [f"# missing = [{', '.join(codes if number else map(json.dumps, codes))}]"] if codes else []
    if not words:
        return [*_lines_of_kind(kind), *missing]
    pairs = ", ".join(f'"{_quoted(code)}" = "{_quoted(label)}"' for code, label in words.items())
    return [f"# labels = {{ {pairs} }}", *missing]


def _lines_of_kind(kind: str) -> list[str]:
    if kind.lstrip("!").startswith(_NUMBERS):
        return _LIMITS
    if kind.lstrip("!").startswith("bool"):
        return ["# categories = [true, false]"]
    return [
        '# categories = ["…"]  # every label that can occur; or, if that is not public:',
        '# unlisted = true     # only ask = "common_labels" can use it; or, if it holds numbers:',
        *_LIMITS,
    ]


def _quoted(text: str) -> str:
    if not isinstance(text, str):
        raise WrongType("name", text, "must be text", "Rename the column.")
    escaped = printable(json.dumps(text, ensure_ascii=False))
    return escaped[1:-1]


# ---- Gallery: every question in words, its settings, and a first form of it for the columns at hand.


_TOPICS = ("Counts and shares", "Numbers", "Relations", "Tests and comparisons", "Is the data usable?")
"""Headings in the order in which people meet them; those of other questions follow."""
_HELP: Mapping[str, str] = {
    "column": "The column that the question is about.",
    "columns": "The columns that take part.",
    "against": "Another number of the same row, such as the value before, or a public value such as 0.",
    "by": "One answer for each label of these columns.",
    "label": "The label whose proportion you want.",
    "variance": "Also releases the variance, so that the interval covers the population.",
    "expected_sd": "A guess of the standard deviation. It serves the plan only.",
    "all_rows": "Counts all rows of a person, with weights that add up to the limit, instead of some rows by chance.",
    "output": "Noise that keeps a public number's result where it can lie: bounded or inflated; empty for the usual.",
    "shrink": "Under ρ or μ: moves noisy cells towards their mean, for less squared error in all.",
    "expected_rows": "About how many rows you expect. It serves the plan only and changes no release.",
    "expected_mean": "The average that you expect. It serves the plan only.",
    "expected_proportion": "The proportion that you expect. It serves the plan only.",
    "probabilities": "Quantiles such as 0.25, 0.5, 0.75; for a test, the proportion that you expect of each label.",
    "interval": "Level of the interval around each quantile, or false for none.",
    "rows_at_least": "A public lower bound of the number of rows.",
    "recursive": "Find many quantiles one inside the other, which costs less noise and gives no intervals.",
    "edges": "Where bins begin and end: 0, 18, 65, 100.",
    "bins": "How many bins of equal width.",
    "tables": "The tables, each a list of columns.",
    "weights": "Which tables matter more.",
    "method": "How the answer is computed; leave it empty for the usual way.",
    "on": "The columns that explain the first one.",
    "models": "Smaller models, each a list of columns, whose intervals shall be as narrow as those of the whole one.",
    "n_clusters": "How many centres to find.",
    "iterations": "How many rounds; more rounds divide the budget further.",
    "partitions": "Into how many parts the units are divided; leave it empty.",
    "arm": "Whether the size of each group is public.",
    "censor": "Proportions of the smallest and of the largest parts that are set aside.",
    "cutoffs": "Public numbers beyond which differences of partition means are censored; leave it empty.",
    "placement": "How liu2023's methods place the cut-offs: moments or quantile; leave it empty.",
    "inference": "How liu2023's methods read the likelihood: bayes or ml; leave it empty.",
    "m": "How many times liu2023's methods sanitize; leave it empty.",
    "over": "The column of periods, in their order.",
    "period": "The last period that counts.",
    "most_rows": "Rows of one person up to which the count is exact.",
}
_KINDS: Sequence[tuple[form.Form, str]] = (
    (form.COLUMN, "column"),
    (form.COLUMNS, "columns"),
    (form.LABEL, "label"),
    (form.FLAG, "flag"),
    (form.WHOLE, "number"),
    (form.NUMBER, "number"),
    (form.SHARE, "number"),
    (form.LEVEL, "toml"),
    (form.PROBABILITIES, "numbers"),
    (form.SHARES, "numbers"),
    (form.EDGES, "numbers"),
    (form.PAIR, "numbers"),
    (form.INTERVAL, "numbers"),
    (form.TEXT, "text"),
    (form.METHOD, "text"),
)


@dataclass(frozen=True)
class SettingHelp:
    """One setting of a question: its name, whether it must be given, how it is typed, and what it means.

    ``kind`` is ``column``, ``columns``, ``label``, ``flag``, ``number``, ``numbers``, ``text``, or ``toml`` for what
    is written as in a plan file.
    """

    name: str
    required: bool
    kind: str
    words: str


@dataclass(frozen=True)
class GalleryEntry:
    """One question of the gallery: its name in a plan file, its heading, topic, what it answers, and its settings."""

    ask: str
    heading: str
    topic: str
    answers: str
    settings: tuple[SettingHelp, ...]


def gallery() -> tuple[GalleryEntry, ...]:
    """Every question, by topic.

    Examples
    --------
    >>> {one.ask: one.answers for one in gallery()}["mean"]
    'What is the average, in all or in each group?'
    """
    questions = asked()
    topics = dict.fromkeys((*_TOPICS, *(kind.topic for kind in questions.values())))
    return tuple(
        _entry(ask, kind) for topic in topics for ask, kind in questions.items() if kind.topic == topic and kind.answers
    )


def _entry(ask: str, kind: Any) -> GalleryEntry:
    settings = tuple(
        SettingHelp(name, required, _kind(kind.forms[name]), _HELP.get(name, f"{kind.forms[name].words}.".capitalize()))
        for name, required in kind.settings().items()
        if name in kind.forms
    )
    return GalleryEntry(ask, kind.heading, kind.topic, kind.answers, settings)


def _kind(of: form.Form) -> str:
    return next((kind for known, kind in _KINDS if known is of), "toml")


def needs_delta(ask: str) -> bool:
    """True where ε alone cannot pay for a question."""
    return bool(asked()[ask].needs_delta)


def suggested(ask: str, columns: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """First settings of a question from the declared columns, as in a plan file; what cannot be told is left out.

    Parameters
    ----------
    ask
        The question.
    columns
        The ``[schema.columns]`` of a plan: declarations by name.

    Examples
    --------
    >>> suggested("proportion", {"age": {"low": 0, "high": 120}, "sex": {"categories": ["f", "m"]}})
    {'column': 'sex', 'label': 'f'}
    """
    made = asked()[ask].suggested(_sorted(columns)) if ask in asked() else {}
    return {name: value for name, value in made.items() if value not in (None, [])}


def _sorted(columns: Mapping[str, Mapping[str, Any]]) -> DeclaredColumns:
    held = {name: _held(one) for name, one in columns.items()}
    numbers, listed, unlisted = (
        [name for name, what in held.items() if what == wanted] for wanted in ("number", "listed", "unlisted")
    )
    return DeclaredColumns(numbers, listed, unlisted, {name: _labels(columns[name]) for name in listed})


def _held(column: Any) -> str:
    """The kind of a declaration: of numbers, of listed labels, or of labels that are not public."""
    if not isinstance(column, Mapping):
        return "unknown"
    if "unlisted" in column:
        return "unlisted"
    return "listed" if {"categories", "labels", "bands"} & set(column) else "number"


def _labels(column: Mapping[str, Any]) -> list[Any]:
    listed = column.get("categories", [])
    return list(listed) if isinstance(listed, list) else []


# ---- As Python: the script and the notebook that say what a plan file says, and return its stored answers for free.


def python_script(file: PlanFile) -> str:
    """A script that asks the same questions of the same data under the same names.

    After the plan was run, the script returns the stored answers and spends nothing.
    """
    return "\n\n".join(_parts(file)) + "\n"


def notebook(file: PlanFile) -> str:
    """The same as a Jupyter notebook."""
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "metadata": {}, "source": f"# {file.title}"},
        *(
            {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], "source": part}
            for part in _parts(file)
        ),
    ]
    for place, cell in enumerate(cells):
        cell["id"] = f"cell-{place}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return json.dumps(
        {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5},
        indent=1,
        ensure_ascii=False,
    )


def command_lines(file: PlanFile) -> list[str]:
    """The commands that plan, review and run the file."""
    name = _shell(file.path.name)
    return [f"discreet {command} {name}" for command in ("plan", "review", "run")]


def _shell(word: str) -> str:
    plain = all(one.isalnum() or one in "._-/" for one in word)
    return word if plain and word and not word.startswith("-") else "'" + word.replace("'", "'\\''") + "'"


def _parts(file: PlanFile) -> list[str]:
    options = file.open_options()
    source = options.pop("source")
    opened = "".join(f",\n    {name}={value!r}" for name, value in options.items())
    session = (
        f"session = Session(\n    {source!r},\n    schema,\n    ledger={file.ledger!r},\n"
        f"    budget={_guarantee(file.budget)}{opened},\n)"
    )
    asked = [_question(file, one) for one in file.questions]
    names = sorted({word for word in _NAMES if any(f"{word}(" in text for text in (session, *asked))} | {"Session"})
    steps = any(one.question.omit for one in file.questions)
    step = "from discreet.mechanisms.omission.step import omission_from_dict\n" if steps else ""
    return [
        f"from discreet import {', '.join(names)}\n{step}from discreet.plans.declarations import schema_from_dict",
        f"schema = schema_from_dict({file.schema.to_dict()!r})",
        session,
        *asked,
    ]


_NAMES = ("ApproxDP", "Bounds", "Contribution", "GaussianDP", "PureDP", "ZeroConcentratedDP")


def _guarantee(guarantee: Guarantee) -> str:
    given = ", ".join(f"{name}={value!r}" for name, value in guarantee.parameters().items())
    return f"{type(guarantee).__name__}({given})"


def _question(file: PlanFile, planned: PlannedQuestion) -> str:
    settings = {name: _value(value) for name, value in planned.settings.items()}
    request = file.request(planned, 1)
    fixed = {"probabilities": "0.5"} if "probabilities" not in settings and planned.question.ask == "quantile" else {}
    settings |= fixed | {"guarantee": _guarantee(planned.question.guarantee), "name": repr(request)}
    lines = "".join(f"    {name}={value},\n" for name, value in settings.items())
    return f"# {_one_line(planned.title)}\nprint(session.{planned.question.ask}(\n{lines}))"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _value(value: Any) -> str:
    if isinstance(value, Bounds):
        return f"Bounds({value.low!r}, {value.high!r}, grid={value.grid!r})"
    if isinstance(value, Contribution):
        return f"Contribution({', '.join(f'{key}={one!r}' for key, one in value.to_dict().items())})"
    return f"omission_from_dict({value.to_dict()!r})" if isinstance(value, Omission) else repr(value)
