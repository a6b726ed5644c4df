"""Rehearsal: a plan that runs. The question is answered again and again on rows drawn from a public scenario."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee, PureDP
from discreet.core.schema import Schema
from discreet.display import Facts, number
from discreet.plans.planner import Planner
from discreet.plans.scenario import Scenario
from discreet.publish.readings import Reading, by_measure
from discreet.questions import MeasuredQuestion, Question
from discreet.releases import release
from discreet.result import Result

__all__ = ["NOT_REHEARSED", "Rehearsal", "Rehearsed", "Rehearsing"]

_SHARP = PureDP(200.0)
"""Next to no noise: what an answer would be without privacy."""
_DATA_SETS = 5
"""Sets of rows that a question is answered on: errors of quantiles depend on how rows happen to lie."""
NOT_REHEARSED = ("profile", "groups", "clusters", "running_total")
"""Their plans are exact already, and no number of theirs has one truth to be compared with."""


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
        Mean width of the 95 % intervals; None where there is none.
    """

    measure: str
    median_error: float
    error: float
    noise_width: float | None
    population_width: float | None


@dataclass(frozen=True, kw_only=True)
class Rehearsal(Result):
    """What happened when a question was answered many times on rows from a scenario. Nothing here is about real data.

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


class Rehearsing(Planner):
    """Answers every question of a session by rehearsing it: ``rehearsing.mean("age", PureDP(1.0))``.

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
        super().__init__(schema)
        self.scenario: Scenario = requirements.instance("scenario", scenario, Scenario, "Scenario(rows=1000)")
        self.scenario.check(schema)
        self.opened, self.seed = opened, seed
        self.repeats = requirements.positive_integer("repeats", repeats)

    def __call__(self, question: Question[Any]) -> Any:
        """Rehearse a question."""
        if question.ask in NOT_REHEARSED:
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
        columns, sharp = question.columns_read(), replace(question, guarantee=_SHARP)  # type: ignore[type-var]
        answers: list[list[Reading]] = []
        truths: list[list[Reading]] = []
        sets = min(_DATA_SETS, self.repeats)
        for place in range(sets):
            session = self._session(self.scenario.table(self.schema, rng), question.guarantee)
            exact, count = session.exact(question), (self.repeats + place) // sets
            drawn: list[Any] = [release(exact, question.measurement.mechanism, rng=rng) for _ in range(count)]
            truth: Any = release(session.exact(sharp), sharp.measurement.mechanism, rng=rng)
            answers += [one.readings(columns) for one in drawn]
            truths += [truth.readings(columns)] * count
        return answers, truths

    def _tested(self, question: Question[Any], rng: np.random.Generator) -> Rehearsal:
        """Comparisons and tests, on new rows every time: their power and errors are about the population."""
        columns, pvalues, answers, truths = question.columns_read(), [], [], []
        for _ in range(self.repeats):
            rows = self.scenario.table(self.schema, rng)
            answer = self._session(rows, question.guarantee).ask(question)
            verdict = answer.verdict()
            pvalues.append(float("nan") if verdict is None else float(verdict["pvalue"]))
            answers.append(answer.readings(columns))
            sharp = replace(question, guarantee=_SHARP)  # type: ignore[type-var]
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
            (own, true)
            for answer, truth in zip(answers, truths, strict=True)
            for own, true in zip(answer, truth, strict=True)
            if own.measure == measure
        ]
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


def _error(own: Reading, true: Reading) -> float:
    if isinstance(own.estimate, str) or isinstance(true.estimate, str):
        return float(own.estimate != true.estimate)
    return abs(own.estimate - true.estimate)


def _width(intervals: Sequence[Any]) -> float | None:
    widths: NDArray[np.float64] = np.array([one.high - one.low for one in intervals if one is not None], dtype=float)
    return float(widths.mean()) if widths.size else None
