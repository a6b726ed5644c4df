"""Wording: numbers, intervals, tests and mechanisms as a reader is told them, on every page alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil, floor, inf, isfinite, log10
from typing import Any

from discreet.core.guarantee import Guarantee
from discreet.core.protection import Neighbours
from discreet.core.schema import Schema
from discreet.results.display import number

_LARGE = 1e4
"""Half widths from here on are shown to three digits, and numbers no finer than that."""
_OF = {
    "mean": "mean {}",
    "sum": "total {}",
    "quantile": "quantile of {}",
    "median": "median {}",
    "variance": "variance of {}",
    "standard deviation": "standard deviation of {}",
    "difference of means": "difference of mean {}",
    "proportion": "share of {noun} with {}",
    "count": "number of {noun}",
    "rows so far": "number of {noun} so far",
    "rows added": "number of {noun} added",
    "total so far": "total {} so far",
    "total added": "total {} added",
    "distinct labels": "number of different values of {}",
}
"""The quantity that a number measures, by the measure of its reading and the column that it is about."""
SHARES = ("proportion", "share", "share of usable values")
"""Measures that are told as percentages."""
_UNLIKE = ("coefficient", "covariance", "centre")
"""Measures whose numbers have units of their own."""
WHOLE = ("count", "rows so far", "rows added", "distinct labels", "number of rows left out")
"""Measures that are whole numbers."""
_FOUND = {
    "homogeneity": "the groups differ",
    "independence": "the two columns are related",
    "goodness of fit": "the shares are not those expected",
    "equal means": "the means differ",
    "equal ranks": "the groups differ in their ranks",
    "equal distributions": "the distributions differ",
    "unrelated ranks": "the two columns go together",
    "symmetric differences": "the differences lean to one side",
    "balanced signs": "more differences are on one side of zero",
}
"""The conclusion that a small p-value supports."""
_ATTACKS = (
    (0.15, "Guessing succeeds 5 % of the time: the guarantee keeps this attacker to at most three times that."),
    (0.5, "Guessing succeeds 5 % of the time: the guarantee limits this attacker, and still leaves a real advantage."),
    (0.9, "Guessing succeeds 5 % of the time: against this attacker the guarantee is weak."),
    (
        inf,
        "Guessing succeeds 5 % of the time: the guarantee hardly stops an attacker who knows everything else about "
        "the data, and privacy rests on attackers knowing less.",
    ),
)
"""The meaning of the power of a test at the 5 % level, up to each power."""


def reading_line(reading: Mapping[str, Any]) -> str:
    """Estimate and intervals on one line, the interval for the noise first.

    Examples
    --------
    >>> told = {"measure": "mean", "estimate": 5.0, "noise": {"low": 4.0, "high": 6.0}, "population": None}
    >>> reading_line(told | {"population": {"low": 3.0, "high": 7.0}})
    '5.0 (4.0 to 6.0; population 3.0 to 7.0)'
    """
    estimate, noise, population = reading_words(reading)
    told = ((noise, reading["noise"]), (f"population {population}", reading["population"]))
    known = [text for text, ends in told if ends is not None]
    return f"{estimate} ({'; '.join(known)})" if known else estimate


def reading_words(reading: Mapping[str, Any], decimals: int | None = None) -> tuple[str, str, str]:
    """Estimate and intervals as text, with the digits that the noise leaves; a dash where there is no interval.

    Counts are whole numbers, whatever the noise, and shares are percentages. Numbers below each other have the same
    ``decimals``, where they are given.

    Examples
    --------
    >>> told = {"measure": "count", "estimate": 674.0, "noise": {"low": 665.6, "high": 682.7}, "population": None}
    >>> reading_words(told)
    ('674', '665 to 683', '–')
    """
    times, mark = (100, "\N{NO-BREAK SPACE}%") if reading["measure"] in SHARES else (1, "")
    digits, estimate = decimals_of(reading) if decimals is None else decimals, reading["estimate"]

    def shown(one: Mapping[str, Any] | None) -> str:
        if one is None:
            return "–"
        return f"{_shown(times * one['low'], digits, floor)} to {_shown(times * one['high'], digits, ceil)}{mark}"

    if isinstance(estimate, str):
        return estimate, shown(reading["noise"]), shown(reading["population"])
    return f"{_shown(times * estimate, digits, round)}{mark}", shown(reading["noise"]), shown(reading["population"])


def decimals_of(reading: Mapping[str, Any]) -> int | None:
    """The decimals that the noise leaves to a number and its intervals, below 0 for large ones; None where none are."""
    known, estimate = reading["noise"] or reading["population"], reading["estimate"]
    if known is None or isinstance(estimate, str):
        return None
    ends = (estimate, known["low"], known["high"])
    if reading["measure"] in WHOLE and float(estimate).is_integer():
        return 0
    if reading["measure"].endswith(("quantile", "median")) and all(float(one).is_integer() for one in ends):
        return 0  # values that the column has
    return _digits((100 if reading["measure"] in SHARES else 1) * (known["high"] - known["low"]) / 2)


def common_decimals(readings: Iterable[Mapping[str, Any]]) -> int | None:
    """The decimals of numbers that stand below each other; None where their units differ."""
    found = [None if one["measure"] in _UNLIKE else decimals_of(one) for one in readings]
    return max((one for one in found if one is not None), default=None)


def _digits(reach: float) -> int | None:
    """Decimals that show two digits of a half width; large ones are shown to three, which makes decimals negative."""
    if not 0 < reach < inf:
        return None
    return min(0, 2 - floor(log10(reach))) if reach >= _LARGE else max(0, 1 - floor(log10(reach)))


def _shown(value: float, digits: int | None, rounded: Callable[[float], int]) -> str:
    """A number with so many decimals; ends of intervals are rounded outwards."""
    if digits is None or not isfinite(value):
        return number(value)
    unit = 10.0**digits
    return f"{rounded(value * unit) / unit:,.{max(digits, 0)}f}".replace("-", "−")


def measure_words(release: Mapping[str, Any], measure: str) -> str:
    """The quantity that a number of a release measures, with its column: mean income, number of rows."""
    words = f"{measure} of {{}}" if measure.endswith(" quantile") else _OF.get(measure)
    subject = release.get("subject")
    if words is None or (subject is None and "{}" in words):
        return measure
    return words.format(subject, noun=release.get("noun", "rows"))


def mechanism_words(release: Mapping[str, Any]) -> str:
    """The protection of a release, on one line."""
    mechanism = release["mechanism"]
    name = re.sub("laplace|gaussian", lambda one: one[0].capitalize(), mechanism["name"].replace("_", " "))
    sizes = [f"{word} {number(mechanism[word])}" for word in ("scale", "factor") if mechanism.get(word) is not None]
    # In sum (ℓ₁), and as a distance (ℓ₂) where that is less.
    by = dict.fromkeys(one.partition(" = ")[2] for one in str(release["sensitivity"] or "").split(", ") if one)
    moved = [f"one unit's data moves it by at most {' in sum, and as a distance by '.join(by)}"] if by else []
    return "; ".join([", ".join([name, *sizes]), *moved])


def guarantee_words(guarantee: Guarantee | None, unit: str) -> dict[str, Any] | None:
    """A guarantee in symbols and in words about one unit; None where nothing is guaranteed."""
    if guarantee is None:
        return None
    words = guarantee.sentence().replace("one unit's", f"one {unit}'s")
    return {"symbols": str(guarantee), "words": words, **guarantee.to_dict()}


def promise_words(guarantee: Guarantee | None, unit: str) -> str:
    """A guarantee on one line, about one unit."""
    words = guarantee_words(guarantee, unit)
    return "none" if words is None else f"{words['symbols']}: {words['words']}"


def attacker_words(guarantee: Guarantee, unit: str, neighbours: Neighbours) -> str:
    """The power of an attacker's test at the 5 % level that a guarantee allows, in words, with a judgement of it."""
    power = 1 - float(guarantee.tradeoff(0.05))
    does = {
        Neighbours.ADD_REMOVE: f"recognises any one {unit} that is in the data",
        Neighbours.REPLACE_ONE: f"tells the data of any one {unit} (how many there are is public) from other data",
    }[neighbours]
    judged = next(words for most, words in _ATTACKS if power <= most)
    return (
        f"An attacker who sees everything here and accepts 5 % false alarms {does} at most "
        f"{100 * power:.0f} % of the time. {judged}"
    )


def moment(stamp: str) -> str:
    """A time stamp to be read: minutes are enough, and UTC is said."""
    return f"{stamp[:10]} {stamp[11:16]} UTC"


def pvalue_words(pvalue: float) -> str:
    """A p-value with three decimals."""
    return "< 0.001" if pvalue < 0.001 else f"{pvalue:.3f}"


def pvalue_equation(pvalue: float) -> str:
    """The same as an equation: p = 0.013, or p < 0.001."""
    shown = pvalue_words(pvalue)
    return f"p {shown}" if shown.startswith("<") else f"p = {shown}"


def verdict(test: Mapping[str, Any]) -> str:
    """A test in words, at the 5 % level.

    Examples
    --------
    >>> verdict({"test": "homogeneity", "pvalue": 0.0132})
    'There is evidence that the groups differ (p = 0.013). The test of homogeneity accounts for the noise.'
    """
    if "said" in test:  # a result that says in its own words what it found
        return " ".join(test["said"])
    found = _FOUND.get(test["test"], "the hypothesis does not hold")
    evidence = "evidence" if test["pvalue"] <= 0.05 else "no evidence"
    shown = pvalue_equation(test["pvalue"])
    if test["test"] == "unrelated ranks":  # its method says how strongly, and in which direction
        shown = f"{shown}; {test['method']}"
    return f"There is {evidence} that {found} ({shown}). The test of {test['test']} accounts for the noise."


# ---- Questions that a reviewer asks


_CHANGES = {Neighbours.ADD_REMOVE: "adding or removing one", Neighbours.REPLACE_ONE: "replacing the data of one"}


def checklist(schema: Schema, budget: Guarantee, unsourced: Sequence[str], ledger: str) -> list[tuple[str, str | None]]:
    """Questions after NIST SP 800-226, from the guarantee at the top of its pyramid to the collection at its base.

    Each has an answer from what discreet knows; None where only a person can answer.
    """
    unit = schema.unit
    limits = "every row is a unit" if unit.column is None else f"rows are bounded for each {unit.name}"
    if schema.made_from is not None:
        limits = f"each {unit.name} counts once, with features of all its rows"
    return [
        ("How strong is the guarantee, and of which kind?", f"{budget}: {budget.sentence()}."),
        ("How was it chosen?", None),
        ("Who is the unit of privacy?", f"One {unit.name}; {limits}."),
        ("Between which data sets does it hold?", f"Those that differ by {_CHANGES[schema.neighbours]} {unit.name}."),
        ("Whom must people trust?",
         "Whoever runs discreet: rows are read where it runs, and noise is added there (the central model)."),
        ("Are bounds and labels fixed without looking at the data?",
         "Each has a source." if not unsourced else f"No source is given for: {', '.join(unsourced)}."),
        ("Do all releases about the same people count in one budget?",
         f"In the ledger {ledger}, which adds up every spend and refuses what does not fit."),
        ("What bias do bounds and missing values bring?",
         "Numbers beyond their bounds are moved to the nearer one, and rows without a usable value are dropped, as the "
         "assumptions say. How many is not known unless `dropped_rows` or `usable_values` is asked."),
        ("Is the noise safe from floating-point attacks?",
         "Noise is exact, on a public step, from the system's generator; `discreet audit` attacks it."),
        ("What can be seen from outside?",
         "After the payment one error stands for all, whatever a row holds. How long a query takes is not hidden: "
         "nobody who is not trusted may time it."),
        ("Where does data lie at rest?",
         "The source is not changed. What does not fit in memory is spilled to a folder that this user alone can read, "
         "and removed. The ledger holds releases and no rows."),
        ("Was the plan itself attacked?", "`discreet attack` tries; the report of a run says what it found."),
        ("Is the unit the right one: can one person have several?", None),
        ("Is everybody in the data there lawfully, and with what they were told?", None),
        ("Who else holds data about the same people, and what did they release?", None),
        ("Who can read the data and the ledger before they are released?", None),
        ("Is the expected error small enough for the use, also for small groups?", None),
    ]  # fmt: skip
