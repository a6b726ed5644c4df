"""Tables for print: numbers with their intervals, and any other lines of text, as markdown, LaTeX and HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from discreet.results.display import printable
from discreet.results.frames import reliability
from discreet.results.wording import common_decimals, pvalue_words, reading_words

ReadingFacts = Mapping[str, Any]
Lines = Iterable[Sequence[str]]
"""Header and lines of a table, cell by cell."""
TOTAL = "total"


def place_of(reading: ReadingFacts) -> dict[str, Any]:
    """Where a number belongs: columns with their labels; a margin lacks the columns that it is summed over."""
    labels = dict(reading["labels"])
    rest = {name: label for name, label in labels.items() if name != "table"}
    return rest if labels.get("table") == (" × ".join(rest) or TOTAL) else labels


def label_columns(readings: Iterable[ReadingFacts]) -> list[str]:
    """The columns whose labels tell these numbers apart, for a list of them."""
    return list(dict.fromkeys(name for reading in readings for name in place_of(reading)))


_BIN = re.compile(r"\[(-?[\d.]+(?:e[+-]?\d+)?), (-?[\d.]+(?:e[+-]?\d+)?)([)\]])")


def label_words(label: Any, column: str = "") -> str:
    """A label as readers see it: bins in words; the total where there is none.

    Examples
    --------
    >>> label_words("[0, 18)"), label_words("men · [65, 10000]"), label_words(0.25, "probability")
    ('0 to under 18', 'men · 65 to 10,000', '25 %')
    """
    if label is None:
        return TOTAL
    if column == "probability":
        return f"{100 * label:g} %"
    return _BIN.sub(lambda one: f"{_edge(one[1])} to {'under ' if one[3] == ')' else ''}{_edge(one[2])}", str(label))


def _edge(text: str) -> str:
    return f"{int(text):,}" if re.fullmatch(r"-?\d{5,}", text) else text


_OF_COLUMNS = ("table", "term", "column", "with")
"""Labels that are names of columns themselves: a table's, a coefficient's, and those of facts about columns."""


def named_reading(reading: dict[str, Any], variables: Mapping[str, str]) -> dict[str, Any]:
    """A number whose columns are called as readers know them, wherever it is shown."""
    labels = {
        variables.get(name, name): worded(label, variables) if name in _OF_COLUMNS else label
        for name, label in reading["labels"].items()
    }
    of_a_column = any(reading["labels"].get(name) == reading["label"] for name in _OF_COLUMNS) or (
        "column" in reading["labels"]  # of which there may be several, or a centre's number before it
    )
    label = worded(reading["label"], variables) if of_a_column else reading["label"]
    return {**reading, "labels": labels, "label": label}


def worded(text: str, variables: Mapping[str, str]) -> str:
    """Text about columns, such as ``sex[m]`` or ``area × sex``, with the words for them.

    Examples
    --------
    >>> worded("sex[m]", {"sex": "Sex"}), worded("age:start[12:30]", {})
    ('Sex: m', 'age × start: 12:30')
    """
    known = "|".join(re.escape(name) for name in sorted(variables, key=len, reverse=True))
    told = re.sub(rf"(?<!\w)(?:{known})(?!\w)", lambda one: variables[one[0]], text) if known else text
    told = re.sub(r"(\[[^\[\]]*\])|(?<! ):(?! )", lambda one: one[1] or " × ", told)  # interactions; no label's colons
    return re.sub(r"(\w)\[([^\[\]]+)\]", r"\1: \2", told)


def named_quantiles(readings: Sequence[ReadingFacts]) -> Sequence[ReadingFacts]:
    """Numbers of which quantiles of one share are called by its name: their share is no label."""
    shares = {one["labels"].get("probability") for one in readings}
    if len(shares) != 1 or shares == {None}:
        return readings
    [share] = shares
    named = "median" if share == 0.5 else f"{label_words(share, 'probability')} quantile"
    return [
        {**one, "measure": named, "label": one["label"].removesuffix(label_words(share, "probability")).rstrip(" ·"),
         "labels": {name: label for name, label in one["labels"].items() if name != "probability"}}
        for one in readings
    ]  # fmt: skip


def listed(readings: Sequence[ReadingFacts]) -> Lines:
    """Header and lines of a list: one number per line."""
    names = label_columns(readings)
    tested = any(reading["pvalue"] is not None for reading in readings)
    flags = [reliability(reading) for reading in readings]
    kinds = [kind for kind in ("noise", "population") if any(reading[kind] for reading in readings)]
    heads = ["estimate", *(f"{kind} interval" for kind in kinds), *(["p-value"] if tested else [])]
    decimals = common_decimals(readings)
    yield [*names, *heads, *(["flag"] if any(flags) else [])]
    for reading, flag in zip(readings, flags, strict=True):
        place = place_of(reading)
        labels = [label_words(place.get(name), name) for name in names]
        pvalue = [_pvalue(reading)] if tested else []
        estimate, noise, population = reading_words(reading, decimals)
        ends = [words for kind, words in (("noise", noise), ("population", population)) if kind in kinds]
        yield [*labels, estimate, *ends, *pvalue, *([flag] if any(flags) else [])]


MOST_SHOWN = 40
"""Numbers that are printed of an answer; frames and files have all."""


def told_numbers(readings: Iterable[ReadingFacts], under: str = "", hidden: int = 0) -> list[tuple[str, str]]:
    """Numbers as facts: a line for each part of a single one, else one line per number.

    Lines stand under what they measure, or under their label of the column ``under``; ``hidden`` counts numbers that
    are left out.

    Examples
    --------
    >>> told = {"label": "f", "measure": "count", "noise": {"low": 39.2, "high": 45.1, "level": 0.95}, "pvalue": None}
    >>> told_numbers([told | {"estimate": 42.0, "population": None}])
    [('count', '42'), ('noise interval, 95 %', '39 to 46')]
    """
    every = list(readings)
    kinds = [kind for kind in ("noise", "population") if any(one[kind] for one in every)]
    levels = ", ".join({f"{100 * one[kind]['level']:g} %": None for one in every for kind in kinds if one[kind]})
    heads = [f"{kind} interval" for kind in kinds]
    tested = ["p-value"] if any(one["pvalue"] is not None for one in every) else []

    def cells(one: ReadingFacts, decimals: int | None = None) -> list[str]:
        estimate, noise, population = reading_words(one, decimals)
        ends = {"noise": noise, "population": population}
        return [estimate, *(ends[kind] for kind in kinds), *(_pvalue(one) for _ in tested)]

    if len(every) == 1:
        names = [every[0]["measure"], *(f"{head}, {levels}" for head in heads), *tested]
        return list(zip(names, cells(every[0]), strict=True))
    parts: dict[str, list[ReadingFacts]] = {}
    for one in every:
        parts.setdefault(one["labels"][under] if under else one["measure"], []).append(one)
    lines = [("", "\t".join(["estimate", *heads, *tested]))]
    for part, found in parts.items():
        lines += [] if part == every[0]["measure"] else [(part, "")]
        decimals = common_decimals(found[:MOST_SHOWN])
        for one in found[:MOST_SHOWN]:
            label = one["label"].removesuffix(f", {one['measure']}") or one["measure"]
            lines.append((label_words(label), "\t".join(cells(one, decimals))))
        hidden += len(found[MOST_SHOWN:])
    return [*lines, *([("…", f"{hidden} more")] if hidden else []), *([("intervals", levels)] if kinds else [])]


def _pvalue(reading: ReadingFacts) -> str:
    return "–" if reading["pvalue"] is None else pvalue_words(reading["pvalue"])


_MARKS = str.maketrans(
    {**{mark: f"\\{mark}" for mark in "\\|[]`*_!#~"}, "\n": " ", "&": "&amp;", "<": "&lt;", ">": "&gt;"}
)
"""The marks that would begin a heading, link, image, tag or table cell in a name that came from outside."""
_TEX = str.maketrans(
    {
        **{mark: f"\\{mark}" for mark in "&%$#_{}"},
        "[": "{[}", "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\n": " ",
        "−": "$-$", "–": "--", "≤": r"$\leq$", "≥": r"$\geq$", "×": r"$\times$", "²": "$^2$", "∞": r"$\infty$",
        "<": "$<$", ">": "$>$", "|": "$|$", "ε": r"$\varepsilon$", "δ": r"$\delta$", "μ": r"$\mu$", "ρ": r"$\rho$",
        "\N{NO-BREAK SPACE}": "~",
    }
)  # fmt: skip
"""The marks that LaTeX obeys (a bracket at the start of a line, too), and those of ours that its fonts lack."""


def plain(text: str) -> str:
    """Text without marks of its own: names that came from outside are words, not markdown."""
    return printable(text.replace("\r", "\n")).translate(_MARKS)


def markdown_table(rows: Lines) -> list[str]:
    """A markdown table; the first row is its header."""
    header, *others = rows
    lines = [f"| {' | '.join(map(plain, row))} |" for row in (header, *others)]
    return [lines[0], f"{'|---' * len(header)}|", *lines[1:]]


def latex_table(rows: Lines, caption: str) -> str:
    """A table for LaTeX with the package booktabs; columns after the first are set flush right."""
    header, *others = ([printable(cell).translate(_TEX) for cell in row] for row in rows)
    return "\n".join(
        [
            r"\begin{table}", rf"\caption{{{printable(caption).translate(_TEX)}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}", r"\toprule", rf"{' & '.join(header)} \\", r"\midrule",
            *(rf"{' & '.join(row)} \\" for row in others), r"\bottomrule", r"\end{tabular}", r"\end{table}",
        ]
    )  # fmt: skip


class Printed(str):
    """A table as text, which a notebook shows as a table and which can be had as markdown and LaTeX.

    Examples
    --------
    >>> table = Printed.of("Pay", [["", "coef"], ["age", "0.52"]], note="95 % intervals.")
    >>> print(table)
    Pay
         coef
    age  0.52
    95 % intervals.
    >>> print(table.to_markdown())
    |  | coef |
    |---|---|
    | age | 0.52 |
    """

    caption: str
    lines: Sequence[Sequence[str]]
    notes: Sequence[str]

    @classmethod
    def of(cls, caption: str, lines: Lines, *facts: str, note: str) -> Self:
        """A table with its caption, the facts below that, and a note at its foot."""
        every = [list(map(printable, line)) for line in lines]
        widths = [max(map(len, column)) for column in zip(*every, strict=True)]
        aligned = [
            "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in every
        ]
        found = cls("\n".join([printable(caption), *facts, *aligned, note]))
        found.caption = caption
        found.lines = every
        found.notes = (*facts, note)
        return found

    def to_markdown(self) -> str:
        """The table as markdown."""
        return "\n".join(markdown_table(self.lines))

    def to_latex(self) -> str:
        """The table for LaTeX, with the package booktabs."""
        return latex_table(self.lines, ". ".join((self.caption, *self.notes)))

    def _repr_html_(self) -> str:
        head, *body = (
            "".join(f"<{kind}>{html.escape(cell)}</{kind}>" for cell in line)
            for kind, line in zip(["th", *["td"] * len(self.lines)], self.lines, strict=False)
        )
        rows = "".join(f"<tr>{line}</tr>" for line in body)
        notes = "<br>".join(html.escape(printable(note)) for note in self.notes)
        caption = f"<caption><strong>{html.escape(printable(self.caption))}</strong></caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table><p>{notes}</p>"
