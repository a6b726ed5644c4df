"""Plan: what would be released, with what error and at what cost, before any data is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np

from discreet.core import requirements
from discreet.core.errors import InsufficientBudget, InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.noise.sampler import Floats
from discreet.core.schema import Bounds, Schema
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.mechanism import Mechanism, charged_guarantee
from discreet.results.charts import plot_readings
from discreet.results.display import Facts, expected, number
from discreet.results.frames import Row, Tidy
from discreet.results.ledger import Ledger
from discreet.results.printed import worded

DETECTED = NormalDist().inv_cdf(0.975) + NormalDist().inv_cdf(0.8)
"""Multiple of the standard error that a 5 % test detects with 80 % power."""
EXPECTED_ROWS = "give expected_rows to see the error for your number of rows"


@dataclass(frozen=True, kw_only=True)
class Plan(Tidy):
    """A release that has not happened.

    Attributes
    ----------
    statistic, mechanism, scale
        What would be measured and how it would be protected.
    guarantee
        What it would guarantee, and cost; None where nothing is proved.
    read
        What the error is of: rows, the mean, the share, ranks, …
    error_95
        The error stays below this with probability ``level``, in the scenario; None where too little is known to tell.
    scenario
        What the data is taken to be like; empty where the error does not depend on it.
    worst_error
        The same whatever the data is like; None where the expected error is that, or where nothing bounds it.
    level
        Of both.
    title, names
        What was asked, in words for readers, and what columns are called there.
    standard_error
        Root mean square of the error; None for choices, whose error depends on the data.
    smallest_effect
        What a 5 % test detects with 80 % power: a difference in what is read, from noise alone; for tests of tables
        Cohen's w and for comparisons the difference of means, with sampling.
    remaining, remaining_after
        The ledger's budget before and after; None without a ledger.
    parts
        Tables or coefficients that the answer is made of: the name of each, its error and its smallest effect.
    notes
        What the reader must know besides.
    details
        More of the plan as JSON-ready data.
    others
        Works out `alternatives`; None for a release that is not a question's.
    """

    statistic: str = "value"
    mechanism: str
    scale: Any = None
    guarantee: Guarantee | None
    read: str = "the value"
    error_95: Any
    scenario: str = ""
    worst_error: float | None = None
    level: float = 0.95
    standard_error: float | None = None
    smallest_effect: float | None = None
    remaining: Guarantee | None = None
    remaining_after: Guarantee | None = None
    parts: tuple[tuple[str, float, float | None], ...] = ()
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    title: str = field(default="", compare=False)
    names: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    others: Callable[[], Alternatives] | None = field(default=None, repr=False, compare=False)

    def alternatives(self) -> Alternatives:
        """The mechanisms that could answer at the same guarantee, with error, bias and range. Reads no data."""
        if self.others is None:
            raise InvalidParameter(
                "alternatives", self.mechanism, "are known of questions of one draw", "Ask for a mean, for example."
            )
        return self.others()

    @property
    def told_read(self) -> str:
        """What the error is of, with columns called as readers know them."""
        return worded(self.read, self.names)

    @property
    def told_parts(self) -> list[tuple[str, float, float | None]]:
        """The parts, with columns called as readers know them."""
        return [(worded(name, self.names), error, effect) for name, error, effect in self.parts]

    def facts(self) -> Facts:
        """The facts to show."""
        error, effect = self.error_95, self.smallest_effect
        known = f"{expected(error)}, of {self.told_read}" if error is not None else "–"
        facts = [(f"error, {100 * self.level:g} %", known)]
        if self.scenario:
            facts.append(("scenario", self.scenario))
        if self.worst_error is not None:
            facts.append(("error at worst", f"{expected(self.worst_error)}, for any data"))
        if effect is not None:
            facts.append(("smallest effect", f"{expected(effect)} (5 % test, 80 % power)"))
        if self.parts:
            facts.append(("", "error\tsmallest effect"))
        for one, off, least in self.told_parts:
            facts.append((one, f"{expected(off)}\t{'–' if least is None else expected(least)}"))
        facts.append(("guarantee", "none" if self.guarantee is None else str(self.guarantee)))
        if self.remaining is not None:
            facts += [("ledger now", str(self.remaining)), ("ledger after", str(self.remaining_after))]
        return [*facts, *(("note", note) for note in self.notes)]

    def rows(self) -> list[Row]:
        """One row: what would be read, with what error, and at what cost."""
        return [
            {
                "statistic": self.statistic,
                "mechanism": self.mechanism,
                "measure": self.read,
                "error_95": None if self.error_95 is None else float(np.max(self.error_95)),
                "worst_error": self.worst_error,
                "scenario": self.scenario,
                "standard_error": self.standard_error,
                "smallest_effect": self.smallest_effect,
                "scale": None if self.scale is None else float(np.max(self.scale)),
                "guarantee": None if self.guarantee is None else str(self.guarantee),
            }
        ]

    def error_readings(self, name: str = "error") -> list[dict[str, Any]]:
        """The expected error as an interval around zero, for a chart; none where it is not known."""
        reach = self.rows()[0]["error_95"]
        measure, noise = f"error of {self.read}", {"low": -(reach or 0.0), "high": reach}
        shown = {"label": name, "measure": measure, "estimate": 0.0, "noise": noise, "population": None}
        return [] if reach is None else [shown]

    def plot(self) -> Any:
        """Altair chart of how far the noise would move the result."""
        return plot_readings(self.heading(), self.error_readings())

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        shown = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in ("others", "names")}
        for name in ("guarantee", "remaining", "remaining_after"):
            shown[name] = None if shown[name] is None else shown[name].to_dict()
        for name in ("scale", "error_95"):
            shown[name] = None if shown[name] is None else np.asarray(shown[name]).tolist()
        return shown | {"notes": list(self.notes), "details": dict(self.details)}

    def heading(self) -> str:
        return f"Plan: {self.title[:1].lower()}{self.title[1:]}" if self.title else "Plan"


@dataclass(frozen=True, kw_only=True)
class Alternatives(Tidy):
    """Mechanisms that could release the same number at the same guarantee, the least root mean square error first.

    Attributes
    ----------
    read, guarantee
        What would be read, and what each of them guarantees.
    table
        One row per mechanism: the ``setting`` that chooses it (empty for what a question takes by itself, and for noise
        that no setting chooses), ``mechanism``, ``error_95``, ``rmse``, the largest ``bias`` of what is measured (None
        where it is not known), and between which ends outputs lie (None where there are none). Of an output that keeps
        to its domain, ``rmse`` is the mean over the domain; of shrunk tables, the most that it is for any table.
        Under a design there is a row for each trim of the weights instead: ``bias`` is at most what is trimmed,
        ``rmse`` counts it with noise and sampling, and ``width`` is that of the population interval.
    """

    read: str
    guarantee: Guarantee
    table: tuple[Row, ...]

    def rows(self) -> list[Row]:
        """One row per mechanism."""
        return [dict(row) for row in self.table]

    def heading(self) -> str:
        return f"Mechanisms for {self.read} at {self.guarantee}"

    def facts(self) -> Facts:
        """One line per mechanism."""
        return [(row["setting"] or row["mechanism"], _alternative_words(row)) for row in self.table]

    def plot(self) -> Any:
        """Altair chart of how far each of them would move the result."""
        shown = [
            {"label": name, "measure": f"error of {self.read}", "estimate": 0.0, "population": None,
             "noise": {"low": -row["error_95"], "high": row["error_95"]}}
            for (name, _), row in zip(self.facts(), self.table, strict=True)
        ]  # fmt: skip
        return plot_readings(self.heading(), shown)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {"read": self.read, "guarantee": self.guarantee.to_dict(), "mechanisms": self.rows()}


def _alternative_words(row: Row) -> str:
    bias = "" if row["bias"] is None else f", bias up to {number(row['bias'])}" if row["bias"] else ", no bias"
    ends = "" if row["lowest"] is None else f", between {number(row['lowest'])} and {number(row['highest'])}"
    width = "" if row.get("width") is None else f", width {number(row['width'])}"
    return f"error {expected(row['error_95'])}, rmse {number(row['rmse'])}{bias}{ends}{width}"


def plan(
    sensitivity: Sensitivity,
    mechanism: Mechanism,
    *,
    ledger: Ledger | None = None,
    guarantee: Guarantee | None = None,
    level: float = 0.95,
) -> Plan:
    """The cost of a release and the size of its error. Reads no data and spends nothing.

    Raises
    ------
    InsufficientBudget
        Where the ledger could not pay for it.

    Examples
    --------
    >>> from discreet import PureDP, plan
    >>> from discreet.core.sensitivity import Sensitivity
    >>> from discreet.mechanisms import Laplace
    >>> planned = plan(Sensitivity(l1=1.0), Laplace.calibrate(PureDP(1.0), Sensitivity(l1=1.0)))
    >>> round(planned.error_95, 3), planned.guarantee
    (2.996, PureDP(epsilon=1.0))
    """
    requirements.instance("sensitivity", sensitivity, Sensitivity, "Sensitivity(l1=1.0), for example")
    requirements.instance("mechanism", mechanism, Mechanism, "a mechanism such as Laplace(scale=1.0)")
    checked = requirements.level(level)
    charged = charged_guarantee(mechanism, sensitivity, ledger, guarantee)
    remaining, after = affordable(ledger, charged)
    error: Floats = mechanism.error(checked)
    return Plan(
        mechanism=mechanism.name,
        scale=getattr(mechanism, "scale", None),
        guarantee=charged,
        error_95=error,
        level=checked,
        remaining=remaining,
        remaining_after=after,
        details={"mechanism": mechanism.to_dict(), "sensitivity": sensitivity.to_dict()},
    )


def affordable(
    ledger: Ledger | None, charged: Guarantee | None, request: str | None = None
) -> tuple[Guarantee | None, Guarantee | None]:
    """The ledger's budget before and after a release, or an error where it cannot pay; a paid request costs nothing."""
    if ledger is None or charged is None:
        return None, None
    preview = ledger.preview(charged)
    # Asked after the preview: another thread may pay for the same request at any moment before it.
    if request is not None and ledger.requested(request) is not None:
        return ledger.remaining(), ledger.remaining()
    if preview.after is None:
        raise InsufficientBudget(charged, preview.remaining)
    return preview.remaining, preview.after


# ---- Sampling error beside noise: how far chance alone would move an answer, so that one sees what privacy adds.


SPREAD = 6
"""Without a better guess, the standard deviation of a column is a sixth of the width of its bounds, as in scenarios."""
COUNTS = ("count", "table")
"""Questions whose answers are counts of rows, in as many groups as `groups_of` says."""
_OF_SPREAD: dict[str, Callable[[float], float]] = {
    "mean": lambda deviation: deviation,
    "variance": lambda deviation: sqrt(2) * deviation**2,
    "std": lambda deviation: deviation / sqrt(2),
}
"""√n times the standard error of what is read, from the standard deviation of a normal population."""


def groups_of(question: Any) -> int:
    """Into how many groups a question divides the rows."""
    by = getattr(question, "by", ())
    names = (by,) if isinstance(by, str) else tuple(by or ())
    columns = getattr(question, "columns", ()) if question.ask in ("table", "independence") else ()
    return prod(
        _cells(question.schema, name) for name in (*names, *([columns] if isinstance(columns, str) else columns))
    )


def _cells(schema: Schema, name: str) -> int:
    column = schema.columns.get(name)
    labels = getattr(column, "labels", None)
    return len(labels) if labels else 1


def sampling_error(question: Any, *, rows: int | None = None, level: float = 0.95) -> float | None:
    """The sampling error that an answer stays within with probability ``level``, in the unit of its plan.

    Parameters
    ----------
    question
        A mean, proportion, variance, standard deviation, quantile (in ranks), or counts by group. None for others.
    rows
        How large the sample is, where the question has no ``expected_rows`` of its own; None where that is not known.
    level
        How often chance moves it no further.

    The spread of a number is taken as a sixth of its bounds' width, the proportion as the expected one or a half, and
    groups as equally large.

    Examples
    --------
    >>> from discreet import Bounds, Schema
    >>> from discreet.questions.mean import MeanQuestion
    >>> schema = Schema(columns={"age": Bounds(0, 120, grid=1)})
    >>> round(sampling_error(MeanQuestion(schema, "age", epsilon=1.0, expected_rows=10_000)), 3)
    0.392
    """
    size = rows_of(question, rows)
    if size is None:
        return None
    groups = groups_of(question)
    within, reach = size / groups, NormalDist().inv_cdf((1 + level) / 2)
    if question.ask in COUNTS:
        return reach * sqrt(within * (1 - 1 / groups)) if groups > 1 else None
    if question.ask == "proportion":
        share = expected_proportion(question)
        return reach * sqrt(share * (1 - share) / within)
    if question.ask == "quantile":
        return max(reach * sqrt(within * share * (1 - share)) for share in shares_of(question))
    bounds = averaged_bounds(question)
    if question.ask not in _OF_SPREAD or bounds is None:
        return None
    return reach * _OF_SPREAD[question.ask]((bounds.high - bounds.low) / SPREAD) / sqrt(within)


def rows_of(question: Any, rows: int | None) -> int | None:
    """The number of rows that a question expects, or else ``rows``."""
    return getattr(question, "expected_rows", None) or rows


def expected_proportion(question: Any) -> float:
    """The proportion that a question expects, or a half."""
    return 0.5 if question.expected_proportion is None else float(question.expected_proportion)


def shares_of(question: Any) -> tuple[float, ...]:
    """The shares of a quantile question."""
    given = question.probabilities
    return (float(given),) if isinstance(given, float | int) else tuple(map(float, given))


def averaged_bounds(question: Any) -> Bounds | None:
    """The bounds of what is averaged; None where there are none."""
    bounds = question.schema.columns.get(getattr(question, "column", None))
    return bounds if isinstance(bounds, Bounds) else None


# ---- Plan warnings: what would disappoint in a plan that is valid, each with what to change. Reads no data.


_WEAK = 0.9
"""An attacker who succeeds that often at 5 % false alarms is hardly held back."""
_WIDE, _MUCH, _FREE = 0.1, 1 / 3, 0.2
"""Errors of a tenth of the bounds, or of a third of a cell, are too large to use; noise of a fifth of the sampling
error is next to nothing."""


def budget_warnings(budget: Guarantee) -> list[str]:
    """Warnings about the budget.

    Examples
    --------
    >>> from discreet import PureDP
    >>> budget_warnings(PureDP(1.0))
    []
    """
    power = 1 - float(budget.tradeoff(0.05))
    if power <= _WEAK:
        return []
    return [
        f"{budget} hardly protects anybody: an attacker who accepts 5 % false alarms succeeds {100 * power:.0f} % of "
        "the time. Set epsilon to 1 or less, or say why the data is not sensitive."
    ]


def release_warnings(question: Any, planned: Plan, rows: int | None = None) -> list[str]:
    """Warnings about one release: too little data, bounds that cost too much.

    Parameters
    ----------
    question, planned
        The question, and its plan.
    rows
        About how many rows there are, where another release says so.
    """
    error = planned.rows()[0]["error_95"]
    if error is None:
        return []
    return [*_of_bounds(question, error), *_of_cells(question, error, rows_of(question, rows))]


def _of_bounds(question: Any, error: float) -> list[str]:
    bounds = averaged_bounds(question)
    if question.ask != "mean" or bounds is None or question.expected_rows is None:
        return []
    width, chance = bounds.high - bounds.low, sampling_error(question) or 0.0
    if error > _WIDE * width:
        many = " Merge groups," if groups_of(question) > 1 else ""
        return [
            f"Too little data for this budget: the error is {100 * error / width:.0f} % of the range of "
            f"{question.column}.{many} Raise its epsilon or share, or release it for more rows."
        ]
    if error > chance:
        return [
            f"The bounds {number(bounds.low)} to {number(bounds.high)} cost an error of {error:.2g}, more than "
            f"chance does. Bounds half as wide would halve it."
        ]
    return []


def _of_cells(question: Any, error: float, rows: int | None) -> list[str]:
    cells = groups_of(question)
    if question.ask not in ("count", "table", "independence", "homogeneity") or rows is None or cells < 2:
        return []
    each = rows / cells
    if error <= _MUCH * each:
        return []
    return [
        f"Cells of about {number(round(each))} rows get noise of up to {number(error)}. Merge labels, drop a column, "
        "or raise its epsilon or share."
    ]


def privacy_is_free(question: Any, planned: Plan) -> str | None:
    """A sentence where noise is small beside sampling error; None elsewhere."""
    error = planned.rows()[0]["error_95"]
    chance = sampling_error(question)
    if error is None or chance is None or error > _FREE * chance:
        return None
    return "Privacy costs next to nothing here: chance moves the answer far more than the noise does."
