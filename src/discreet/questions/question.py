"""Question: one thing to release, described from public facts alone.

A question is one file: what to add up, how far a unit moves it, the exact value, the plan, and what can be read from
the answer. Making a question reads no data and refuses what cannot be answered; `Session.ask` answers it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, MISSING, InitVar, dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Generic, Never, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.door import Allowance, Claim, Passed
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.protection import Fact, Neighbours, Protection
from discreet.core.rows import Selected, Snapshot, Totals, histograms, totals
from discreet.core.schema import Contribution, Schema
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.inference.noise import combined_error, largest_variance
from discreet.mechanisms.additive import other_noise
from discreet.mechanisms.mechanism import Mechanism, charged_guarantee
from discreet.mechanisms.omission.behind import BehindOmission
from discreet.mechanisms.omission.step import Omission, PoissonSample
from discreet.questions import form
from discreet.questions.clipped import BeyondBounds, told_beside
from discreet.questions.grouped import Grouped
from discreet.results.display import in_a_row, number, plural, within
from discreet.results.frames import Row
from discreet.results.ledger import Ledger
from discreet.results.plan import DETECTED, EXPECTED_ROWS, Alternatives, Plan, affordable
from discreet.results.release import Release, Statistic, claim_of_one_draw, drawn

# ---- Forecast: what a plan says of an error, and for which data, before any data is read


DEFAULT_ROWS = 1000
"""Rows per group in a plan that is told none."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The facts about an error that are known before any data is read.

    Attributes
    ----------
    weights
        How far one unit of the noise on each number that it is read from moves what is read, in the scenario.
    worst
        The same for the least favourable data; None where the data does not matter or nothing bounds it.
    error, bound
        For what is no weighted sum of noises: its error in the scenario, and for any data, as functions of the level.
    scenario
        What the data is taken to be, in words; empty where the error does not depend on it.
    bias, squares, ends
        For noise that is not added alone: the largest bias, or None where nothing bounds it; the mean squared error,
        on average over the domain and at most; and between which ends what is published lies.
    """

    weights: tuple[float, ...] = (1.0,)
    worst: tuple[float, ...] | None = None
    error: Callable[[float], float] | None = None
    bound: Callable[[float], float] | None = None
    scenario: str = ""
    bias: float | None = None
    squares: tuple[float, float] | None = None
    ends: tuple[float, float] | tuple[None, None] = (None, None)


@dataclass(frozen=True)
class DeclaredColumns:
    """Declared columns by what they hold, as a plan names them: numbers, listed labels, labels that are not public."""

    numbers: list[str]
    listed: list[str]
    unlisted: list[str]
    labels: Mapping[str, list[Any]]

    def with_labels(self, least: int, most: int | None = None) -> str | None:
        """The first column with so many labels."""
        fits = [
            name for name, labels in self.labels.items() if least <= len(labels) <= (most or max(least, len(labels)))
        ]
        return fits[0] if fits else None

    def number(self) -> dict[str, Any]:
        """The first column of numbers."""
        return {"column": first_of(self.numbers)}

    def label(self) -> dict[str, Any]:
        """The first label of the first column of labels."""
        column = first_of(self.listed)
        return {"column": column, "label": first_of(self.labels.get(column, []))}


def first_of(names: Sequence[Any], place: int = 0) -> Any:
    """The name at a place, or None."""
    return names[place] if len(names) > place else None


A = TypeVar("A")
Sums = Mapping[tuple[str, ...], NDArray[Any]]
Histograms = list[tuple[NDArray[np.int64], NDArray[np.int64]]]


ESTIMATED = "It is about the population, as the weights of respondents estimate it."
UNSAID: Any = None
"""The guarantee of a question that is given its parameters instead."""
KINDS: dict[frozenset[str], Any] = {
    frozenset({"epsilon"}): PureDP,
    frozenset({"epsilon", "delta"}): ApproxDP,
    frozenset({"rho"}): ZeroConcentratedDP,
    frozenset({"mu"}): GaussianDP,
}
"""Which parameters make which kind of guarantee."""


def guarantee_of(guarantee: Guarantee | None, **given: float | None) -> Guarantee:
    """The guarantee that a caller gives, whole or by its parameters.

    Examples
    --------
    >>> guarantee_of(None, epsilon=0.2, delta=1e-6)
    ApproxDP(epsilon=0.2, delta=1e-06)
    """
    named = {name: value for name, value in given.items() if value is not None}
    if guarantee is None:
        made = KINDS.get(frozenset(named))
        if made is None:
            raise InvalidParameter(
                "guarantee",
                named or None,
                "must be given: epsilon, epsilon and delta, rho, or mu",
                "Pass epsilon=0.1, or a guarantee such as PureDP(0.1).",
            )
        found: Guarantee = made(**named)
        return found
    if named:
        raise InvalidParameter(
            "guarantee", guarantee, f"is given already, beside {', '.join(named)}", "Pass one of the two."
        )
    requirements.instance("guarantee", guarantee, Guarantee, "a guarantee such as PureDP(1.0)")
    return guarantee


_LEAST = {"epsilon": 1e-9, "delta": 1e-100, "rho": 1e-18, "mu": 1e-9}
"""Below, noise outgrows what is computed of it, and a release could fail after it was paid for."""


def enough(guarantee: Guarantee) -> Guarantee:
    """The guarantee of a question; refuses one that buys nothing but noise, however many rows there are.

    Examples
    --------
    >>> from discreet import PureDP
    >>> enough(PureDP(0.1))
    PureDP(epsilon=0.1)
    """
    small = any(0 < getattr(guarantee, name, 0.0) < least for name, least in _LEAST.items())
    return _refused(guarantee) if small else guarantee


def _refused(guarantee: Guarantee) -> Never:
    least = {name: f"{_LEAST[name]:g}" for name in guarantee.parameters()}
    raise InvalidParameter(
        "guarantee", guarantee, f"must have at least {', '.join(f'{name} = {one}' for name, one in least.items())}: "
        "less buys nothing but noise", "Give the release more. Nothing was spent.",
    )  # fmt: skip


@dataclass(frozen=True)
class Question(ABC, Generic[A]):
    """One thing to release, whose answer is an ``A``.

    A subclass is a frozen dataclass. Its fields are the schema, what is asked about and, by name, the settings.

    Parameters
    ----------
    guarantee
        What the answer may cost; ``epsilon``, ``delta``, ``rho`` and ``mu`` are its parameters, in its place.
    name
        A name for the answer: the same question under the same name returns the stored answer and spends nothing.
    omit
        A step that drops rows before the answer, such as ``PoissonSample(0.5)``. The guarantee is that of the whole:
        the noise is calibrated to what may be spent behind the step.

    Attributes
    ----------
    ask
        What the question is called by a session and in a plan file.
    also
        What else people call it: whoever asks by such a name is told the right one.
    heading, meaning
        What was asked and what the answer says, for readers; ``{subject}`` stands for the column that it is about,
        ``{noun}`` for what is counted, ``{columns}`` and ``{by}`` for the columns that take part and that divide.
    topic, answers
        Under which heading people find the question, and what it answers, in words; without words it is not offered.
    rehearsed
        Whether made-up rows tell more of it than its plan does.
    needs_delta
        Whether ε alone cannot pay for it.
    part
        What the answer is divided into, where it is.
    leads
        Whether a report shows the answer before others: what they leave out.
    continues
        Whether one guarantee covers a release in every period.
    tests
        Whether the answer is a test, whose power a rehearsal counts.
    under_design
        Whether it can be asked where rows were sampled by a design: about the population, or about rows as such.
    instead
        What to ask in its place where it cannot.
    behind
        The steps that may drop rows before the answer. Behind procedures of several steps, which would share one
        choice of rows, nothing is proved.
    detects
        The effect whose smallest size a plan states, noise and sampling counted; empty where it counts noise alone.
    forms
        The settings, and how each is written in a plan file.
    """

    ask: ClassVar[str]
    also: ClassVar[tuple[str, ...]] = ()
    heading: ClassVar[str] = ""
    meaning: ClassVar[str]
    topic: ClassVar[str] = "More"
    answers: ClassVar[str] = ""
    rehearsed: ClassVar[bool] = True
    needs_delta: ClassVar[bool] = False
    part: ClassVar[str] = "group"
    leads: ClassVar[bool] = False
    continues: ClassVar[bool] = False
    tests: ClassVar[bool] = False
    under_design: ClassVar[bool] = False
    instead: ClassVar[str] = "Ask for a mean, proportion, sum or count."
    behind: ClassVar[type[Omission] | None] = None
    detects: ClassVar[str] = ""
    forms: ClassVar[form.Forms]
    schema: Schema
    _: KW_ONLY
    guarantee: Guarantee = UNSAID
    name: str | None = field(default=None, compare=False, repr=False)
    omit: Omission | None = None
    epsilon: InitVar[float | None] = None
    delta: InitVar[float | None] = None
    rho: InitVar[float | None] = None
    mu: InitVar[float | None] = None

    def __post_init__(self, epsilon: float | None, delta: float | None, rho: float | None, mu: float | None) -> None:
        found = guarantee_of(self.guarantee, epsilon=epsilon, delta=delta, rho=rho, mu=mu)
        object.__setattr__(self, "guarantee", enough(found))
        if self.omit is not None:
            self._check_step(self.omit)
        if self.schema.design is not None and not self.under_design:
            raise InvalidParameter(
                "schema.design", self.schema.design.weight, f"gives {self.ask} no design-based form",
                f"{self.instead} Or describe respondents and not the population: declare the data without a design.",
            )  # fmt: skip
        self._validate()

    def _check_step(self, step: Omission) -> None:
        """Refuse a step for which nothing is proved."""
        requirements.instance("omit", step, Omission, "a step such as PoissonSample(0.5)")
        if self.behind is None or not isinstance(step, self.behind):
            raise InvalidParameter(
                "omit", step, f"is not proved for {self.ask}", "Ask this question without omitting rows."
            )
        if self.schema.of_rows.related:
            raise InvalidParameter("omit", step, "is not proved for several tables", "Ask without omitting rows.")
        if self.schema.design is not None:
            raise InvalidParameter("omit", step, "is not proved under a design", "Ask without omitting rows.")
        step.require(self.schema.neighbours, self.schema.unit.unit)
        step.inside(self.schema)

    @abstractmethod
    def _validate(self) -> None:
        """Refuse what cannot be answered, before anything is planned or spent."""

    def changed(self, **settings: Any) -> Self:
        """The same question with other settings."""
        return cast(Self, cast(Any, replace)(self, **settings))

    @cached_property
    def beside(self) -> BeyondBounds | None:
        """What the answer tells of values beyond the bounds, where it does."""
        return told_beside(self)

    @cached_property
    def alone(self) -> Self:
        """The question without that, for what it leaves of the guarantee."""
        return self if self.beside is None else self.changed(guarantee=self.beside.left, beyond=False)

    def _drawn_beside(
        self, told: BeyondBounds, rows: Snapshot, claim: Claim, allowance: Allowance, passed: Passed
    ) -> tuple[A, dict[str, Any]]:
        """The answer alone, and what is told of values beyond the bounds."""
        answer = self.alone.draw(rows, replace(claim, steps=claim.steps[:-1]), allowance, passed)
        return answer, told.draw(rows, claim, allowance)

    def _planned_beside(self, told: BeyondBounds, ledger: Ledger | None) -> Plan:
        """The plan of the question alone, at the price of both."""
        plan, charged = self.alone.plan(), self.claim(ledger).guarantee
        remaining, after = affordable(ledger, charged)
        notes = *plan.notes, told.note(self.rows_planned or self.schema.size or DEFAULT_ROWS)
        return replace(plan, guarantee=charged, remaining=remaining, remaining_after=after, notes=notes)

    @property
    def rows_planned(self) -> int | None:
        """The number of rows that a plan expects the answer to be of: where they are sampled, those of the sample."""
        rows = getattr(self, "expected_rows", None)
        share = 1.0 if self.omit is None else self.omit.sampled or 1.0
        return None if rows is None else max(1, round(rows * share))

    @classmethod
    def settings(cls) -> dict[str, bool]:
        """The settings of a plan file, and whether each is required."""
        given = {field.name: field for field in fields(cls) if field.name in cls.forms}
        return {name: field.default is MISSING for name, field in given.items()}

    @classmethod
    def fields(cls) -> set[str]:
        """Names of everything that a question is made of."""
        return {field.name for field in fields(cls)}

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """All of what is asked, as JSON-ready data. A stored answer belongs to it; what a plan expects is no part."""

    @abstractmethod
    def claim(self, ledger: Ledger | None) -> Claim:
        """The claim that the answer will make."""

    def claims(self, ledger: Ledger | None) -> list[Claim]:
        """Every claim that an approval covers: one, or one for each period of a sequence."""
        return [self.claim(ledger)]

    def first_period(self) -> Self:
        """The question in the first of its periods, where it has several."""
        return self

    def charge_now(self, ledger: Ledger | None) -> Guarantee:
        """The cost that asking now would add to the ledger's total: a sequence does not add all periods at once."""
        return self.guarantee

    @abstractmethod
    def plan(self, ledger: Ledger | None = None) -> Plan:
        """The error and the cost of the answer. Reads no data and spends nothing."""

    def following(self, ledger: Ledger, request: str | None) -> Self:
        """The question with what it takes from earlier answers in the ledger, where it continues them."""
        return self

    @abstractmethod
    def draw(self, rows: Snapshot, claim: Claim, allowance: Allowance, passed: Passed) -> A:
        """The answer, from rows that the door handed over after the claim was paid for.

        Everything about the rows that the answer tells comes from draws of the allowance.
        """

    def write(self, answer: A) -> Any:
        """An answer as the ledger keeps it: JSON-ready data."""
        return cast(Any, answer).to_dict()

    @abstractmethod
    def read(self, stored: Any) -> A:
        """An answer that the ledger kept."""

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        """First settings for the columns at hand; what they lack is None or empty."""
        return {}

    def of_source(self, names: Callable[[], tuple[str, ...]]) -> Self:
        """The question for a source with these columns, where it asks about all of them."""
        return self

    def columns_read(self) -> tuple[str, ...]:
        """Columns of the data that the question reads."""
        given = {name: getattr(self, name, None) for name in ("column", "columns", "by", "partition_by")}
        return tuple(one for name, names in given.items() if names is not None for one in column_names(names, name))

    def source_columns_read(self) -> tuple[str, ...]:
        """Columns of the source that the question reads as they are, whether anything is declared of them or not."""
        return ()

    def titled(self, answer: Any, words: Mapping[str, str]) -> Any:
        """An answer that knows its question; ``words`` rename columns."""
        if isinstance(answer, Release):
            return replace(answer, titled=(self, words, ""))
        if isinstance(getattr(answer, "release", None), Release):
            return replace(answer, release=self.titled(answer.release, words))
        return replace(answer, asked=self.told_words(words)) if hasattr(answer, "asked") else answer

    def told_words(self, words: Mapping[str, str], group: str = "") -> dict[str, Any]:
        """What an answer is printed with: its heading, what a unit and what is counted are called, names of columns."""
        unit, columns = self.schema.unit.name, getattr(self, "columns", ())
        return {
            "heading": self.heading_words(words) + (f": {group}" if group else ""),
            "unit": words.get(unit, unit),
            "columns": [words.get(one, one) for one in columns],
            "subject": self.subject_words(words),
            "noun": self.noun_words(words),
            "names": words,
        }

    def heading_words(self, words: Mapping[str, str]) -> str:
        """The heading of the answer: mean income by education; ``words`` rename columns."""
        inside = {name: within(label) for name, label in words.items()}
        by, columns = (
            in_a_row([inside.get(one, one) for one in ([given] if isinstance(given, str) else given)])
            for given in (getattr(self, name, None) or () for name in ("by", "columns"))
        )
        told = {"subject": self.subject_words(words), "noun": self.noun_words(words), "by": by, "columns": columns}
        divided = f" by {by}" if by and "{by}" not in self.heading else ""
        return f"{self.heading.format(**told)}{divided}" or self.ask

    def meaning_words(self, words: Mapping[str, str]) -> str:
        """The meaning of the answer, for readers of a report; ``words`` rename columns."""
        meaning = self.meaning.format(subject=self.subject_words(words), noun=self.noun_words(words))
        return meaning if self.schema.design is None else f"{meaning} {ESTIMATED}"

    def subject_words(self, words: Mapping[str, str]) -> str | None:
        """The column that the numbers are about, and its label where they are about one; ``words`` rename columns."""
        column = getattr(self, "column", None)
        label = getattr(self, "label", None)
        if column is None:
            return None
        named = within(words[column]) if column in words else column
        return named if label is None else f"{named} = {label}"

    def noun_words(self, words: Mapping[str, str]) -> str:
        """The nouns for what a count counts: rows, or units where each of them counts once."""
        unit = self.schema.unit
        limits = getattr(self, "contribution", None) or unit.contribution
        limited = unit.column is not None and limits is not None and limits.total == 1
        once = limited or self.schema.made_from is not None
        if self.schema.design is not None:
            return f"{plural(words.get('row', 'unit'))} in the population"
        return plural(words.get(unit.name, unit.name) if once else words.get("row", "row"))

    def counted_words(self) -> str | None:
        """The rows that count of one unit, in words, where units are not rows."""
        unit = self.schema.unit
        if unit.column is None:
            return None
        if self.schema.design is not None and type(self).under_design:
            return f"all rows of a {unit.name}, with weights of at most {self.schema.design.weight_high:g} together"
        if self.schema.made_from is not None:
            return f"each {unit.name} once, with features of all its rows"
        own = getattr(self, "contribution", None) or unit.contribution
        limits = {} if own is None else own.to_dict()
        most = limits.get("total", limits.get("rows", 1))
        weighted = f"all rows, with weights of at most {most} in all for each {unit.name}"
        rows = weighted if getattr(self, "all_rows", False) else f"rows kept, at most {most} of each {unit.name}"
        if "total" not in limits and (self.part == "cell" or getattr(self, "by", None)):
            groups = limits.get("groups")
            reached = "" if groups is None else f", in at most {groups} {self.part}{'s' if groups > 1 else ''}"
            rows = f"{rows} in a {self.part}{reached}"
        return rows


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The recipe by which a question with one exact value is measured.

    Attributes
    ----------
    statistic, sensitivity, mechanism, public
        As the release will carry them.
    by, columns, contribution, products, from_lowest
        What has to be added up, and whether grid steps count from the lower bound.
    bands
        For numbers in ``by``, the grid steps at which a new band starts.
    value
        From counts and sums per cell to the exact value; ``from_histograms`` instead where the whole distribution is
        needed, ``from_blocks`` where totals by several sets of columns are, all of the same rows, and ``from_rows``
        where nothing is added up by cell.
    read
        What people read from the release: the error of a plan is its error.
    forecast
        What a plan says of the error, worked out when a plan is asked for.
    trims
        Under a design, the rows of `Alternatives` for several trims of the weights.
    """

    statistic: Statistic
    sensitivity: Sensitivity
    mechanism: Mechanism
    by: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    contribution: Contribution | None = None
    products: tuple[tuple[str, ...], ...] = ()
    from_lowest: bool = False
    bands: Mapping[str, Sequence[int]] = field(default_factory=dict)
    public: Mapping[str, Any]
    value: Callable[[NDArray[Any], Sums], Any] | None = None
    from_histograms: Callable[[Histograms], Any] | None = None
    blocks: tuple[tuple[str, ...], ...] = ()
    from_blocks: Callable[[Mapping[tuple[str, ...], Totals]], Any] | None = None
    from_rows: Callable[[Snapshot], Any] | None = None
    read: str
    forecast: Callable[[], Forecast] = Forecast
    trims: Callable[[], tuple[Row, ...]] | None = None

    @property
    def public_facts(self) -> list[Fact]:
        """The total of a table is public where every unit is in exactly one cell, and none can drop out."""
        return [Fact.TOTAL] if "n" in self.public and self.by else []

    def exact(self, rows: Snapshot) -> Any:
        """The true, still private value."""
        rows = rows.banded(self.bands) if self.bands else rows
        if self.from_rows is not None:
            return self.from_rows(rows)
        selected = Selected(by=self.by, columns=self.columns, contribution=self.contribution)
        if self.from_histograms is not None:
            return self.from_histograms(histograms(rows, selected))
        if self.from_blocks is not None:
            same = replace(selected, whole=self.by)
            return self.from_blocks({by: totals(rows, replace(same, by=by), self.products) for by in self.blocks})
        if self.value is None:
            raise InvalidParameter("value", None, "a measurement needs a value", "Give value or from_histograms.")
        found = totals(rows, selected, self.products, from_lowest=self.from_lowest)
        return self.value(found.counts, found.sums)

    def standard_error(self) -> float | None:
        """Root mean square of the noise in what is read; None for choices."""
        found = self.forecast()
        if found.error is not None:
            return None
        deviation = math.sqrt(largest_variance(self.mechanism))
        return deviation * math.hypot(*found.weights)

    def error(self, level: float = 0.95) -> float:
        """The noise in what is read stays below this with probability ``level``, in the plan's scenario."""
        found = self.forecast()
        return self._reach(found.weights, level) if found.error is None else found.error(level)

    def worst_error(self, level: float = 0.95) -> float | None:
        """The same for any data; None where the expected error is that, or where nothing bounds it."""
        found = self.forecast()
        if found.worst is not None:
            return self._reach(found.worst, level)
        return None if found.bound is None else found.bound(level)

    def _reach(self, weights: tuple[float, ...], level: float) -> float:
        if len(weights) == 1:
            return float(np.max(self.mechanism.error(level))) * abs(weights[0])
        return combined_error(self.mechanism, weights, level)


class MeasuredQuestion(Question[A]):
    """A question with one exact value that one mechanism protects: most of them.

    A subclass says how it is measured in `_measured`; the rest follows.
    """

    behind: ClassVar[type[Omission] | None] = Omission
    ways: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    """Settings that choose another mechanism for the same number, with the values that do."""

    def _validate(self) -> None:
        self.measurement  # noqa: B018  (refuses what cannot be answered before anything is planned or spent)

    @abstractmethod
    def _measured(self) -> Measurement:
        """The recipe by which the question is measured."""

    @cached_property
    def measurement(self) -> Measurement:
        """The recipe by which the question is measured; worked out once."""
        if self.beside is not None:
            return self.alone.measurement
        return self._measured() if self.omit is None else self._measured_behind(self.omit)

    @cached_property
    def _protection(self) -> Protection:
        return self.schema.protection(*self.measurement.public_facts)

    def _measured_behind(self, step: Omission) -> Measurement:
        """The recipe behind a step: for less inside, in one draw, and for what was asked outside."""
        if step.sampled is None and not isinstance(self.guarantee, PureDP | ApproxDP):
            rule = "must be PureDP or ApproxDP where outliers are dropped"
            raise InvalidParameter("guarantee", self.guarantee, rule, "Pass PureDP(1.0).")
        inside: dict[str, Any] = {"omit": None, "guarantee": step.before(self.guarantee)}
        inside["schema"] = step.inside(self.schema)
        if self.rows_planned is not None:
            inside["expected_rows"] = self.rows_planned
        if getattr(self, "rows_at_least", None) is not None:
            inside["rows_at_least"] = _least_kept(cast(Any, self).rows_at_least, step)
        found = self.changed(**inside).in_one_step().measurement
        public = {**found.public, "omission": step.to_dict()}
        return replace(found, mechanism=BehindOmission(inner=found.mechanism, step=step), public=public)

    @property
    def several_steps(self) -> bool:
        """True where more is drawn than the one value, and depends on it."""
        return False

    def in_one_step(self) -> MeasuredQuestion[A]:
        """The same question, answered by one draw."""
        return self

    @property
    def named_guarantee(self) -> Guarantee | None:
        """The guarantee to charge where it must be named: an (ε, δ) pair is one of many that hold."""
        return self.guarantee if isinstance(self.guarantee, ApproxDP) else None

    def content(self) -> dict[str, Any]:
        found = self.measurement
        return {
            "ask": self.ask,
            "by": list(found.by),
            "columns": list(found.columns),
            "limits": self.schema.contribution(found.contribution).to_dict(),
            "statistic": found.statistic.to_dict(),
            "schema": self.schema.facts_of([*found.by, *found.columns]),
            **({"all_rows": True} if getattr(self, "all_rows", False) else {}),
            **{
                name: value for name in ("output", "shrink", "known", "between") if (value := getattr(self, name, None))
            },
            **({} if self.omit is None else {"omission": self.omit.to_dict()}),
            **({} if self.beside is None else {"beyond": True}),
        }

    def claim(self, ledger: Ledger | None) -> Claim:
        if self.beside is not None:
            return self.beside.claim(self.alone.claim(ledger), self.content(), ledger)
        found = self.measurement
        charged = charged_guarantee(found.mechanism, found.sensitivity, ledger, self.named_guarantee)
        return claim_of_one_draw(found.mechanism, found.sensitivity, charged, self._protection, self.content())

    def exact(self, rows: Snapshot) -> Exact:
        """The true, still private value, with its sensitivity."""
        found = self.measurement
        told = {"counted": self.counted_words(), "per_unit": True if self.schema.made_from is not None else None}
        public = {**found.public, **{name: words for name, words in told.items() if words is not None}}
        return Exact(found.exact(rows), found.sensitivity, self._protection, found.statistic, public)

    def draw(self, rows: Snapshot, claim: Claim, allowance: Allowance, passed: Passed) -> A:
        if self.beside is not None:
            answer, kept = self._drawn_beside(self.beside, rows, claim, allowance, passed)
            release: Any = answer
            return cast(A, replace(release, public={**release.public, **kept}))
        # the statistic says which kind of release its own is
        return self.answer_of(drawn(self.exact(rows), self.measurement.mechanism, claim, allowance, passed))

    def read(self, stored: Any) -> A:
        return self.answer_of(Release.from_dict(stored))

    def answer_of(self, release: Release) -> A:
        """The answer that a release is: itself, unless a question reads more from it."""
        return cast(A, release)

    def plan(self, ledger: Ledger | None = None) -> Plan:
        if self.beside is not None:
            return self._planned_beside(self.beside, ledger)
        found = self.measurement
        charged = self.claim(ledger).guarantee
        remaining, after = affordable(ledger, charged)
        standard, error = found.standard_error(), found.error()
        scale = getattr(found.mechanism, "scale", None)
        return Plan(
            statistic=found.statistic.name,
            mechanism=found.mechanism.name,
            scale=None if scale is None else float(scale),
            guarantee=charged,
            read=found.read,
            error_95=error,
            worst_error=found.worst_error(),
            scenario=found.forecast().scenario,
            standard_error=standard,
            smallest_effect=None if standard is None else DETECTED * standard,
            remaining=remaining,
            remaining_after=after,
            parts=self._plan_parts(found),
            notes=self._notes(found),
            others=self.alternatives,
            details={
                "statistic": found.statistic.to_dict(),
                "mechanism": found.mechanism.to_dict(),
                "sensitivity": found.sensitivity.to_dict(),
            },
        )

    def alternatives(self) -> Alternatives:
        """The mechanisms that could answer at the same guarantee. Reads no data and spends nothing."""
        if self.measurement.trims is not None:
            table = self.measurement.trims()
            return Alternatives(read=self.measurement.read, guarantee=self.guarantee, table=table)
        defaults = {one.name: one.default for one in fields(self) if one.name in self.ways}
        usual = self.changed(**defaults)
        found = usual.measurement
        rows = [_alternative(found, "")]
        # Parts are weighed for Gaussian noise, and would serve Laplace noise ill.
        if not any(getattr(one, "weighed", False) for one in (found.statistic, getattr(found.statistic, "of", None))):
            others = other_noise(found.mechanism, self.alone.guarantee, found.sensitivity)
            rows += [_alternative(replace(found, mechanism=noise), "") for noise in others]
        for name, values in self.ways.items():
            for value in values:
                with suppress(InvalidParameter):  # what the declarations do not allow is no alternative
                    rows.append(_alternative(usual.changed(**{name: value}).measurement, f"{name} = {value!r}"))
        table = tuple(sorted(rows, key=lambda row: row["rmse"]))
        return Alternatives(read=found.read, guarantee=self.guarantee, table=table)

    def _plan_parts(self, found: Measurement) -> tuple[tuple[str, float, float | None], ...]:
        """Tables or coefficients that the answer is made of, with the error and the smallest effect of each."""
        return ()

    def _notes(self, found: Measurement) -> tuple[str, ...]:
        """The notes that a reader of the plan needs to read its error."""
        unsaid = hasattr(self, "expected_rows") and self.expected_rows is None
        omitted = () if self.omit is None else (f"of {self.omit.words()}: the error is that of the noise",)
        return ((EXPECTED_ROWS,) if unsaid and "n" not in found.public else ()) + omitted

    # ---- public facts that several questions need -------------------------------------------------------------------

    def _labels(self, by: Sequence[str]) -> dict[str, tuple[Any, ...]]:
        return {name: tuple(self.schema.categories(name, "by").labels) for name in by}

    def public_size(self, *columns: str) -> int | None:
        """The public number of rows, where neighbours have the same number of them; else None."""
        fixed = self.schema.neighbours is Neighbours.REPLACE_ONE and self.schema.unit_is_row
        fixed = fixed and self.schema.design is None  # rows without a weight take no part
        return self.schema.size if fixed and self.schema.keeps_every_row(columns) else None

    def grouped(self, statistic: Statistic, by: Sequence[str]) -> Statistic:
        return Grouped(of=statistic, by=self._labels(by)) if by else statistic


def _alternative(found: Measurement, setting: str) -> Row:
    """One way to measure, as a row of `Alternatives`; a choice, which has no standard error, is told by its error."""
    told, error = found.forecast(), found.error()
    spread = found.standard_error() if told.squares is None else math.sqrt(told.squares[0])
    # Added noise has mean zero; a ratio of noisy totals has a bias that depends on the data, and so has a choice.
    bias = 0.0 if told.error is None and len(told.weights) == 1 else told.bias
    low, high = told.ends
    return {
        "setting": setting, "mechanism": found.mechanism.name, "error_95": error,
        "rmse": error if spread is None else spread, "bias": bias, "lowest": low, "highest": high,
    }  # fmt: skip


_OF_OUTPUTS = ("output", "shrink", "known", "between")
"""Settings that say how noisy values are changed before they are published."""


def _least_kept(least: int, step: Omission) -> int:
    """A Poisson sample of so many rows keeps at least this many, but for a chance of 1e-9: six standard deviations."""
    if not isinstance(step, PoissonSample):
        rule = "rows kept by a suppression are no sample"
        raise InvalidParameter("rows_at_least", least, rule, "Leave rows_at_least out.")
    kept = math.floor(step.rate * least - 6 * math.sqrt(step.rate * (1 - step.rate) * least))
    if kept < 1:
        raise InvalidParameter("rows_at_least", least, f"{step} may keep none of them", "Raise it or leave it out.")
    return kept


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The data that a plan is told to expect, in all groups together. It serves plans only and changes no release.

    Attributes
    ----------
    rows
        Number of rows (or of units, where they count once) that take part; by default 1,000 in each group.
    mean
        Value of the mean (or share); by default that of rows spread evenly over the bounds.
    """

    rows: int | None = None
    mean: float | None = None

    def __post_init__(self) -> None:
        if self.rows is not None:
            requirements.positive_integer("expected_rows", self.rows)

    def slope(self, low: float, high: float, name: str = "expected_mean") -> float:
        """Where the mean lies between the bounds, from −1 to 1; in the middle where nothing is expected."""
        if self.mean is None:
            return 0.0
        mean = requirements.finite(name, self.mean)
        if not low <= mean <= high:
            raise InvalidParameter(name, mean, f"must lie within the bounds {low:g} to {high:g}", "Check the value.")
        return (2 * mean - low - high) / (high - low)

    def rows_per_group(self, groups: int = 1) -> float:
        """Rows in each of some groups of equal size."""
        return DEFAULT_ROWS if self.rows is None else self.rows / groups

    def per_group(self, groups: int, moves: Sequence[float]) -> tuple[float, ...]:
        """The moves per row where totals move by ``moves``, in groups of equal size."""
        return tuple(float(move) / self.rows_per_group(groups) for move in moves)

    def words(self, groups: int = 1, like: str = "spread evenly over the bounds") -> str:
        """The scenario: how many rows, and what they are like."""
        told = like if self.mean is None else f"with mean {number(self.mean)}"
        return f"{self.rows_per_group(groups):,.0f} rows{' per group' if groups > 1 else ''} {told}"


def column_names(by: str | Sequence[str], name: str = "by") -> tuple[str, ...]:
    """Names of columns, from one of them or from several."""
    names: tuple[Any, ...] = (by,) if isinstance(by, str) or not isinstance(by, Sequence) else tuple(by)
    if not all(isinstance(one, str) for one in names):
        raise WrongType(name, by, "must be names of columns", 'Pass by="region", or by=["region", "sex"].')
    if len(set(names)) != len(names):
        raise InvalidParameter(name, by, "must not repeat a column", "Name each column once.")
    return names


# ---- Common step: the grid that several numbers lie on together.


def common_step(*numbers: Fraction) -> Fraction:
    """The largest step of which all numbers are multiples.

    Examples
    --------
    >>> common_step(Fraction(1, 2), Fraction(-3, 4), Fraction(0))
    Fraction(1, 4)
    """
    whole = math.lcm(*(number.denominator for number in numbers))
    return Fraction(math.gcd(*(int(number * whole) for number in numbers)), whole)


# ---- Bounds of columns, and exact values


def whole_bounds(name: str, value: Any) -> tuple[float, float]:
    """Two finite ends."""
    low, high = requirements.ordered_bounds(name, tuple(value) if isinstance(value, list) else value)
    if math.isinf(low) or math.isinf(high):
        raise InvalidParameter(name, value, "must be finite", "Give both ends; they must be public knowledge.")
    return low, high


def bounds_of_columns(name: str, value: Any, count: int | None = None) -> tuple[tuple[float, float], ...]:
    """One pair of finite bounds per column."""
    if isinstance(value, str) or not isinstance(value, list | tuple) or len(value) == 0:
        raise WrongType(name, value, "must be one pair of bounds per column", f"Pass {name}=((0, 1), (0, 5)).")
    if count is not None and len(value) != count:
        raise InvalidParameter(name, value, f"must be {count} pairs of bounds", f"Pass {name}=((0, 1), (0, 5)).")
    return tuple(whole_bounds(name, pair) for pair in value)


def fractions(values: list[Fraction]) -> np.ndarray[Any, np.dtype[np.object_]]:
    """An object array of fractions."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
