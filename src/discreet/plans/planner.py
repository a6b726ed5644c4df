"""Planner: what a session's questions would give and cost, from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # whose submodules load when first used
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.columns import Bands, Dates
from discreet.core.errors import InvalidParameter, WrongType, spelling
from discreet.core.guarantee import Guarantee, PureDP
from discreet.core.schema import Bounds, Categories, Feature, Schema
from discreet.mechanisms.omission.step import Omission
from discreet.questions import MeasuredQuestion, Question, asked
from discreet.questions.facade import Questions, meant
from discreet.results.display import Facts, Result, expected, number
from discreet.results.frames import Reading, by_measure
from discreet.results.ledger import Ledger
from discreet.results.release import release

if TYPE_CHECKING:
    import pyarrow as pa


class Planner(Questions):
    """Answers every question of a session with what it would give and cost. Reads no data and spends nothing.

    Examples
    --------
    >>> from discreet import Bounds, Schema
    >>> planner = Planner(Schema(columns={"age": Bounds(0, 120, grid=1)}))
    >>> planner.mean("age", epsilon=1.0, expected_rows=10_000).read
    'the mean'
    """

    def __init__(
        self, schema: Schema, ledger: Ledger | None = None, step: Omission | None = None, *, by: Sequence[str] = ()
    ) -> None:
        self.schema, self.ledger, self.step, self.groups_by = schema, ledger, step, tuple(by)

    def ask(self, question: Question[Any]) -> Any:
        """The plan of a question: its error and cost."""
        question = grouped(question, self.groups_by) if self.groups_by else question
        plan = (question if self.step is None else question.changed(omit=self.step)).plan(self.ledger)
        names = self.schema.names_for_readers()
        return replace(plan, title=question.heading_words(names), names=names)

    def __call__(self, question: Question[Any]) -> Any:
        """The plan of a question: its error and cost."""
        return self.ask(question)

    def sample_size(self, ask: str, *settings: Any, effect: float, **named: Any) -> SampleSize:
        """The fewest rows with which a test detects ``effect`` in 80 of 100 cases, by the plan of the test.

        Parameters
        ----------
        ask
            Name of a test, a comparison or a regression; its settings follow as when it is asked.
        effect
            The effect to detect: a difference of means, a coefficient, Cohen's w, ….

        Examples
        --------
        >>> from discreet import Bounds, Categories, Schema
        >>> schema = Schema(columns={"arm": Categories(["old", "new"]), "score": Bounds(0, 100, grid=1)})
        >>> outcome = {"by": "arm", "expected_sd": 15, "epsilon": 1.0}
        >>> print(Planner(schema).sample_size("compare_means", "score", effect=5, **outcome))
        Rows for compare_means
          rows             478
          in each group    239
          detects          a difference of means of 5 (5 % test, 80 % power)
          smallest effect  5
        """
        wanted = requirements.positive("effect", effect)
        known = asked()
        if ask not in known or not known[ask].detects:
            kinds = {name: kind for name, kind in known.items() if kind.detects}
            raise InvalidParameter("ask", ask, "must be a test, a comparison or a regression", meant(ask, kinds))
        question = known[ask](self.schema, *settings, **named)
        if self.schema.size is not None:
            raise InvalidParameter(
                "size", self.schema.size, "is the public number of rows", "Leave it out of the schema."
            )

        def reached(rows: float) -> float:
            return float(self.ask(question.changed(expected_rows=math.ceil(rows))).smallest_effect or math.inf)

        def excess(log_rows: float) -> float:
            return math.log(min(reached(math.exp(log_rows)) / wanted, 1e300))

        few, most = math.log(_FEWEST_ROWS), math.log(_MOST_ROWS)
        if excess(most) > 0:
            fix = "Ask for a larger effect, or with a larger budget."
            raise InvalidParameter("effect", effect, f"is not detected with {_MOST_ROWS:,} rows", fix)
        # Plans are no more precise than half a per cent.
        rows = few if excess(few) <= 0 else scipy.optimize.brentq(excess, few, most, xtol=0.005)
        groups = self.schema.cells((named["by"],)) if isinstance(named.get("by"), str) else 1
        each = math.ceil(math.exp(rows) / groups)
        return SampleSize(ask, each * groups, groups, f"{question.detects} of {wanted:g}", reached(each * groups))


_FEWEST_ROWS, _MOST_ROWS = 16, 10**12


@dataclass(frozen=True)
class SampleSize(Result):
    """The number of rows that a test needs.

    Attributes
    ----------
    rows, groups
        In all, and in how many groups of equal size.
    detects
        The effect, in words.
    smallest_effect
        What the test detects with these rows.
    """

    ask: str
    rows: int
    groups: int
    detects: str
    smallest_effect: float

    def heading(self) -> str:
        return f"Rows for {self.ask}"

    def facts(self) -> Facts:
        each = [("in each group", f"{self.rows // self.groups:,}")] if self.groups > 1 else []
        told = f"{self.detects} (5 % test, 80 % power)"
        return [
            ("rows", f"{self.rows:,}"),
            *each,
            ("detects", told),
            ("smallest effect", expected(self.smallest_effect)),
        ]

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def grouped(question: Question[Any], by: Sequence[str]) -> Any:
    """The question for each group, where it has groups."""
    if "by" not in question.fields():
        raise InvalidParameter("by", list(by), f"{question.ask} has no groups", "Ask without by(…).")
    return question.changed(by=tuple(by))


# ---- Rehearsal: a plan that runs. The question is answered again and again on rows drawn from a public scenario.


# ---- Scenario: what a data set is expected to look like, declared without looking at it, and rows drawn from that.


Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class ExpectedNumbers:
    """Numbers with a mean and a spread between the bounds: a beta distribution, part of it at the lower bound.

    Parameters
    ----------
    mean, sd
        Mean and standard deviation of all rows.
    at_low
        Share of the rows that are at the lower bound itself: people who spent nothing.
    by, means
        A column of labels, and the mean for each of its labels in their order, in place of ``mean``.

    Examples
    --------
    >>> spend = ExpectedNumbers(mean=2.0, sd=8.0, at_low=0.9)
    >>> drawn = spend.draw(100_000, (0.0, 200.0), np.random.default_rng(1))
    >>> bool(abs(drawn.mean() - 2.0) < 0.1), bool(abs(drawn.std() - 8.0) < 0.3), round(float((drawn == 0).mean()), 1)
    (True, True, 0.9)
    """

    mean: float | None = None
    sd: float
    at_low: float = 0.0
    by: str | None = None
    means: Sequence[float] | None = None

    def __post_init__(self) -> None:
        requirements.positive("sd", self.sd)
        if not 0 <= requirements.finite("at_low", self.at_low) < 1:
            raise InvalidParameter("at_low", self.at_low, "must be a share from 0 to below 1", "Pass 0.9.")
        if self.mean is not None:
            requirements.finite("mean", self.mean)
        if self.by is not None:
            requirements.instance("by", self.by, str, 'the name of a column, such as "arm"')
        if self.means is not None:
            for mean in requirements.instance("means", self.means, (list, tuple), "means=[2.0, 2.4]"):
                requirements.finite("means", mean)
        if (self.mean is None) == (self.means is None) or (self.by is None) != (self.means is None):
            raise InvalidParameter("mean", self.mean, "give mean, or by and means", 'Pass mean=2.0, or by="arm".')

    def draw(
        self, count: int, bounds: tuple[float, float], rng: np.random.Generator, mean: float | None = None
    ) -> Array:
        """Independent numbers between the bounds."""
        low, high = bounds
        width, centre = high - low, self.mean if mean is None else mean
        share = 1 - self.at_low
        # Of those above the lower bound: their mean and variance follow from those of all.
        first = ((centre or 0.0) - low) / width / share
        variance = (self.sd / width) ** 2 / share + first**2 * (share - 1)
        concentration = first * (1 - first) / variance - 1 if 0 < first < 1 and variance > 0 else -1.0
        if concentration <= 0:
            raise InvalidParameter(
                "sd", self.sd, f"no numbers in {low:g} … {high:g} have this mean, sd and at_low",
                "Check the three values.",
            )  # fmt: skip
        drawn = low + width * rng.beta(first * concentration, (1 - first) * concentration, count)
        return np.where(rng.random(count) < self.at_low, low, drawn)


@dataclass(frozen=True, kw_only=True)
class ExpectedLabels:
    """Labels with their shares, in the order of the schema.

    Parameters
    ----------
    shares
        One share per label; or one list of them per label of ``by``.
    by
        Another column of labels.
    """

    shares: Sequence[Any]
    by: str | None = None

    def __post_init__(self) -> None:
        if self.by is not None:
            requirements.instance("by", self.by, str, 'the name of a column, such as "arm"')
        for one in requirements.instance("shares", self.shares, (list, tuple), "shares=[0.7, 0.3]"):
            for share in one if isinstance(one, list | tuple) else (one,):
                requirements.finite("shares", share)

    def table(self, labels: int, rows: int) -> Array:
        """Shares by label of ``by`` (rows) and label."""
        try:
            table = np.atleast_2d(np.asarray(self.shares, dtype=float))
        except (TypeError, ValueError):
            raise WrongType("shares", self.shares, "must be numbers", "Pass shares=[0.7, 0.3].") from None
        if table.shape != (rows, labels) or (table < 0).any() or not np.allclose(table.sum(axis=1), 1, atol=1e-6):
            expected = f"must be {labels} shares that add up to 1" + (f", for each of {rows} labels" if self.by else "")
            raise InvalidParameter("shares", self.shares, expected, "Check the shares.")
        return np.asarray(table / table.sum(axis=1, keepdims=True))


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """An expected data set. It is public: a guess, or an earlier release.

    Parameters
    ----------
    rows
        Number of rows.
    columns
        `ExpectedNumbers` or `ExpectedLabels` by column. Of other columns, numbers are spread evenly over their bounds,
        and labels are equally likely: so do plans take the data to be that have no scenario.
    rows_per_unit
        Mean number of rows of a unit with an id; geometric, so that some have many.

    Examples
    --------
    >>> schema = Schema(columns={"arm": Categories(["A", "B"]), "spend": Bounds(0, 50, grid=0.5)})
    >>> expected = Scenario(rows=1000, columns={"spend": ExpectedNumbers(mean=5.0, sd=6.0)})
    >>> expected.table(schema, np.random.default_rng(1)).num_rows
    1000
    """

    rows: int
    columns: Mapping[str, ExpectedNumbers | ExpectedLabels] = field(default_factory=dict)
    rows_per_unit: float = 1.0

    def __post_init__(self) -> None:
        requirements.positive_integer("rows", self.rows)
        requirements.instance("columns", self.columns, Mapping, '{"age": ExpectedNumbers(mean=41.0, sd=12.0)}')
        if requirements.finite("rows_per_unit", self.rows_per_unit) < 1:
            raise InvalidParameter("rows_per_unit", self.rows_per_unit, "must be at least 1", "Pass 3.5.")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Scenario:
        """Read the ``[scenario]`` part of a plan file; unknown keys are refused."""
        _known("scenario", data, ("rows", "rows_per_unit", "columns"))
        columns = {}
        for name, told in _known("scenario.columns", data.get("columns", {}), None).items():
            kind: Any = ExpectedLabels if "shares" in told else ExpectedNumbers
            given = _known(f"scenario.columns.{name}", told, tuple(kind.__dataclass_fields__))
            if missing := [key for key in ("mean", "sd") if kind is ExpectedNumbers and key not in given]:
                fix = f"Write {missing[0]} = 10, for example."
                raise InvalidParameter(f"scenario.columns.{name}.{missing[0]}", None, "is missing", fix)
            columns[name] = kind(**given)
        return cls(rows=data.get("rows", 0), columns=columns, rows_per_unit=data.get("rows_per_unit", 1.0))

    @classmethod
    def like(cls, rows: int, **releases: Any) -> Scenario:
        """A scenario from public, earlier releases by column: a mean with its spread, or a table of one column.

        Examples
        --------
        >>> import pyarrow
        >>> from discreet import Categories, PureDP, Schema, Session
        >>> schema = Schema(columns={"arm": Categories(["A", "B"])})
        >>> data = pyarrow.table({"arm": ["A"] * 800 + ["B"] * 200})
        >>> earlier = Session(data, schema, ledger=":memory:", budget=PureDP(1.0)).table("arm", epsilon=1.0)
        >>> [round(share, 1) for share in Scenario.like(5000, arm=earlier).columns["arm"].shares]
        [0.8, 0.2]
        """
        return cls(rows=rows, columns={name: _from_release(name, release) for name, release in releases.items()})

    def check(self, schema: Schema) -> None:
        """Refuse columns that the schema does not declare, or declares as another kind; and several tables."""
        if schema.of_rows.related:
            raise InvalidParameter(
                "scenario", [*schema.of_rows.related], "describes one table", "Rehearse a plan without them."
            )
        for name, told in self.columns.items():
            kind = ExpectedLabels if isinstance(schema.column(name), Categories) else ExpectedNumbers
            requirements.instance(f"scenario.columns.{name}", told, kind, f"{kind.__name__}(…)")
            if told.by is not None:
                schema.categories(told.by)
            if schema.column(name).value is not None:
                raise InvalidParameter(
                    f"scenario.columns.{name}", name, "is computed from other columns", "Describe those instead."
                )

    def table(self, schema: Schema, rng: np.random.Generator) -> pa.Table:
        """Rows drawn from the scenario, with the columns of the schema."""
        import pyarrow as pa

        self.check(schema)
        codes: dict[str, Array] = {}
        for name in sorted(schema.columns, key=lambda one: getattr(self.columns.get(one), "by", None) is not None):
            if isinstance(schema.columns[name], Categories):
                codes[name] = self._codes(schema, name, codes, rng)
        found: dict[str, Any] = {}
        for name, declared in schema.columns.items():
            if declared.value is not None:
                continue  # the session computes it
            if isinstance(declared, Categories):
                values = declared.edges if isinstance(declared, Bands) else declared.labels
                found[name] = pa.array([values[code] for code in codes[name]])
            elif isinstance(declared, Bounds):
                numbers = self._numbers(name, declared, codes, rng)
                found[name] = [declared.day(one) for one in numbers] if isinstance(declared, Dates) else numbers
            else:
                found[name] = pa.array([f"label {code}" for code in np.minimum(rng.zipf(2.0, self.rows), 1000)])
        if schema.unit.column is not None:
            found = {schema.unit.column: self._units(schema, rng), **found}
        return pa.table(found)

    def _codes(self, schema: Schema, name: str, codes: Mapping[str, Array], rng: np.random.Generator) -> Array:
        labels = schema.categories(name).cells
        told = self.columns.get(name)
        if not isinstance(told, ExpectedLabels):
            return rng.integers(labels, size=self.rows)
        others = 1 if told.by is None else schema.categories(told.by).cells
        cumulated = np.cumsum(told.table(labels, others), axis=1)
        place = np.zeros(self.rows, dtype=int) if told.by is None else codes[told.by]
        drawn = (rng.random(self.rows)[:, None] > cumulated[place]).sum(axis=1)
        return np.asarray(np.minimum(drawn, labels - 1))

    def _numbers(self, name: str, declared: Bounds, codes: Mapping[str, Array], rng: np.random.Generator) -> Array:
        low, high = declared.low, declared.high
        told = self.columns.get(name)
        if told is None:
            return rng.uniform(low, high, self.rows)
        if not isinstance(told, ExpectedNumbers):
            raise WrongType(f"scenario.columns.{name}", told, "must be numbers", "Pass mean and sd.")
        if told.by is None or told.means is None:
            return told.draw(self.rows, (low, high), rng)
        drawn = np.empty(self.rows)
        for code, mean in enumerate(told.means):
            own = codes[told.by] == code
            drawn[own] = told.draw(int(own.sum()), (low, high), rng, mean)
        return drawn

    def _units(self, schema: Schema, rng: np.random.Generator) -> Array:
        if schema.size is not None:  # a public number of units: each of them has a row
            return np.resize(np.arange(schema.size), self.rows)
        units = math.ceil(self.rows / self.rows_per_unit)
        ids = np.repeat(np.arange(units), rng.geometric(1 / self.rows_per_unit, units))
        return np.resize(ids, self.rows)


def _known(name: str, data: Any, allowed: Sequence[str] | None) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise WrongType(name, data, "must be a table of settings", f"Write [{name}] and its keys below.")
    for key in data:
        if allowed is not None and key not in allowed:
            raise InvalidParameter(f"{name}.{key}", data[key], "is not a setting", spelling(key, allowed))
    return dict(data)


def _from_release(name: str, release: Any) -> ExpectedNumbers | ExpectedLabels:
    mean = getattr(release, "mean", None)
    spread = getattr(release, "standard_deviation", None)
    if isinstance(mean, float) and isinstance(spread, float):
        return ExpectedNumbers(mean=mean, sd=max(spread, 1e-9))
    counts = np.ravel(np.asarray(getattr(release, "value", ()), dtype=float))
    if counts.size < 2 or counts.sum() <= 0:
        raise InvalidParameter(
            name, type(release).__name__, "must be a mean with its spread, or a table of one column",
            "Pass session.mean(…), or session.table(…).",
        )  # fmt: skip
    shares = np.maximum(counts, 0.0)
    return ExpectedLabels(shares=tuple(float(share) for share in shares / shares.sum()))


# ---- Rehearsal: a plan that runs. The question is answered again and again on rows drawn from a public scenario.


_SHARP = PureDP(200.0)
"""Next to no noise: what an answer would be without privacy."""
_DATA_SETS = 5
"""Sets of rows that a question is answered on: errors of quantiles depend on how rows happen to lie."""


@dataclass(frozen=True, kw_only=True)
class Rehearsed:
    """One measure of a rehearsed question, over all its groups or cells.

    Attributes
    ----------
    measure
        What is read.
    median_error, error
        Half of the errors, and 95 % of them, are at most this. Of labels: the share of wrong ones.
    noise_width, population_width
        Median width of the 95 % intervals; None where there is none.
    """

    measure: str
    median_error: float
    error: float
    noise_width: float | None
    population_width: float | None


@dataclass(frozen=True, kw_only=True)
class Rehearsal(Result):
    """The results of answering a question many times on rows from a scenario. Nothing here is about real data.

    Attributes
    ----------
    ask, repeats
        What was asked, and how often.
    measures
        Errors and widths by measure. Errors are against the answer without noise on the same rows; for comparisons,
        which are about a population, against the scenario's own difference.
    power
        Share of tests with p ≤ 5 %; None where nothing is tested.
    """

    ask: str
    repeats: int
    measures: tuple[Rehearsed, ...]
    power: float | None = None

    @property
    def error(self) -> float:
        """95 % of the errors of the first measure are at most this."""
        return self.measures[0].error

    def to_dict(self) -> dict[str, Any]:
        """The rehearsal as JSON-ready data."""
        return {
            "ask": self.ask,
            "repeats": self.repeats,
            "measures": [vars(one) for one in self.measures],
            "power": self.power,
        }

    def facts(self) -> Facts:
        lines: list[tuple[str, str]] = []
        for one in self.measures:
            widths = [
                f"{name} interval {number(width)} wide"
                for name, width in (("noise", one.noise_width), ("population", one.population_width))
                if width is not None
            ]
            errors = f"error at most {number(one.error)} (95 %), {number(one.median_error)} (50 %)"
            lines.append((one.measure, "; ".join([errors, *widths])))
        tested = [] if self.power is None else [("power", f"{100 * self.power:.0f} % of the tests find it (5 % level)")]
        return [*lines, *tested, ("rehearsed", f"{self.repeats} times on rows from the scenario; no data was read")]

    def heading(self) -> str:
        return f"Rehearsal of {self.ask}"


def _rehearsable(schema: Schema) -> Schema:
    """The same features, of units with one row each: a scenario describes features, and not what they are made of."""
    if schema.made_from is None:
        return schema
    features = {
        name: Feature(of=name, take="max", nulls=getattr(one, "nulls", "drop")) for name, one in schema.columns.items()
    }
    rows = Schema(
        columns=schema.columns, unit=schema.unit, neighbours=schema.neighbours, size=schema.size, features=features
    )
    return replace(rows.per_unit(), where=schema.where)


class Rehearsing(Planner):
    """Answers every question of a session by rehearsing it: ``rehearsing.mean("age", epsilon=1.0)``.

    Parameters
    ----------
    schema, scenario
        The public facts, and what the data is expected to look like.
    opened
        Makes a session of rows, a schema, a ledger and a budget.
    repeats
        Answers per question: with 400, a 95 % error is known to about 6 %.
    seed
        Rows and noise repeat for the same seed.
    """

    def __init__(
        self, schema: Schema, scenario: Scenario, opened: Callable[..., Any], *, repeats: int = 200, seed: int = 1
    ) -> None:
        super().__init__(_rehearsable(schema))
        self.scenario: Scenario = requirements.instance("scenario", scenario, Scenario, "Scenario(rows=1000)")
        self.scenario.check(self.schema)
        self.opened, self.seed = opened, seed
        self.repeats = requirements.positive_integer("repeats", repeats)

    def ask(self, question: Question[Any]) -> Any:
        """Rehearse a question."""
        question = question.changed(schema=_rehearsable(question.schema)).alone
        if question.omit is not None:
            raise InvalidParameter("omit", question.omit, "is not rehearsed", "Rehearse the question without omit.")
        if not question.rehearsed:
            raise InvalidParameter("ask", question.ask, "is not rehearsed: its plan is exact", "Use session.plan.")
        rng = np.random.default_rng(self.seed)
        if isinstance(question, MeasuredQuestion) and not (question.several_steps or question.tests):
            return _rehearsal(question, *self._measured(question, rng))
        return self._tested(question, rng)

    def _session(self, rows: Any, guarantee: Guarantee) -> Any:
        return self.opened(rows, self.schema, ledger=":memory:", budget=guarantee)

    def _measured(
        self, question: MeasuredQuestion[Any], rng: np.random.Generator
    ) -> tuple[list[list[Reading]], list[list[Reading]]]:
        """Readings of every answer, and of the answer without noise on the same rows; on a few sets of rows in turn."""
        columns = question.columns_read()
        sharp = question.changed(guarantee=_SHARP)
        answers: list[list[Reading]] = []
        truths: list[list[Reading]] = []
        sets = min(_DATA_SETS, self.repeats)
        for place in range(sets):
            session = self._session(self.scenario.table(self.schema.of_rows, rng), question.guarantee)
            exact, count = session.exact(question), (self.repeats + place) // sets
            mechanism = question.measurement.mechanism
            drawn: list[Any] = [question.answer_of(release(exact, mechanism, rng=rng)) for _ in range(count)]
            truth: Any = question.answer_of(release(session.exact(sharp), sharp.measurement.mechanism, rng=rng))
            answers += [one.readings(columns) for one in drawn]
            truths += [truth.readings(columns)] * count
        return answers, truths

    def _tested(self, question: Question[Any], rng: np.random.Generator) -> Rehearsal:
        """Comparisons and tests, on new rows every time: their power and errors are about the population."""
        columns, pvalues, answers, truths = question.columns_read(), [], [], []
        for _ in range(self.repeats):
            rows = self.scenario.table(self.schema.of_rows, rng)
            answer = self._session(rows, question.guarantee).ask(question)
            verdict = answer.verdict()
            pvalues.append(float("nan") if verdict is None else float(verdict["pvalue"]))
            answers.append(answer.readings(columns))
            sharp = question.changed(guarantee=_SHARP)
            truths.append(self._session(rows, _SHARP).ask(sharp).readings(columns))
        if any(reading.noise is None for reading in truths[0]):  # about a population: its own value, not the sample's
            means = [np.mean([float(one[place].estimate) for one in truths]) for place in range(len(truths[0]))]
            shared = [replace(one, estimate=float(mean)) for one, mean in zip(truths[0], means, strict=True)]
            truths = [shared] * len(truths)
        found = _rehearsal(question, answers, truths)
        return replace(found, power=float(np.mean(np.array(pvalues) <= 0.05)))


def _rehearsal(
    question: Question[Any], answers: Sequence[Sequence[Reading]], truths: Sequence[Sequence[Reading]]
) -> Rehearsal:
    """Errors and widths of many answers, by measure."""
    measures = list(by_measure([one.to_dict() for one in answers[0]]))
    found = []
    for measure in measures:
        pairs = [
            (own, known[_place(own)])
            for answer, truth in zip(answers, truths, strict=True)
            for known in [{_place(one): one for one in truth if one.measure == measure}]
            for own in answer
            if own.measure == measure and _place(own) in known  # an estimate of 0 has no variation relative to it
        ]
        if not pairs:
            continue
        errors = np.array([_error(own, true) for own, true in pairs])
        chosen = isinstance(pairs[0][0].estimate, str)
        found.append(
            Rehearsed(
                measure=measure,
                median_error=float(errors.mean() if chosen else np.quantile(errors, 0.5)),
                error=float(errors.mean() if chosen else np.quantile(errors, 0.95, method="higher")),
                noise_width=_width([own.noise for own, _ in pairs]),
                population_width=_width([own.population for own, _ in pairs]),
            )
        )
    return Rehearsal(ask=question.ask, repeats=len(answers), measures=tuple(found))


def _place(one: Reading) -> tuple[Any, ...]:
    """What tells a number from others of its measure."""
    return one.label, *one.labels.items()


def _error(own: Reading, true: Reading) -> float:
    if isinstance(own.estimate, str) or isinstance(true.estimate, str):
        return float(own.estimate != true.estimate)
    return abs(own.estimate - true.estimate)


def _width(intervals: Sequence[Any]) -> float | None:
    widths: NDArray[np.float64] = np.array([one.high - one.low for one in intervals if one is not None], dtype=float)
    return float(np.median(widths)) if widths.size else None  # one that is unbounded is no typical one
