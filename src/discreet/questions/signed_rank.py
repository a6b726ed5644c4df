"""Signed ranks: whether the differences of pairs lean to one side, from one released balance.

Public: ``session.signed_rank("after", "before", epsilon=1.0)``. A pair is two numbers of one row, or a number and a
public value. It needs no bins, and bounds of the differences have no part in the noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.numbers import decimal
from discreet.core.protection import Neighbours
from discreet.core.rows import Selected, Snapshot, histograms
from discreet.core.schema import Contribution, in_parts
from discreet.core.sensitivity import Sensitivity
from discreet.inference.noise import MonteCarlo, largest_variance
from discreet.inference.ranks import METHODS, PairedDifferences, PairedScores, lean_error
from discreet.inference.tables import ChiSquareResult
from discreet.mechanisms.additive import additive_noise
from discreet.mechanisms.omission.step import Omission, PoissonSample
from discreet.questions import form
from discreet.questions.bounded import Domain
from discreet.questions.question import (
    DEFAULT_ROWS,
    DeclaredColumns,
    Expected,
    Forecast,
    MeasuredQuestion,
    Measurement,
    common_step,
    first_of,
    fractions,
)
from discreet.questions.tables.tests import require_independent_rows
from discreet.results.display import Facts, Interval, number
from discreet.results.frames import Reading
from discreet.results.ledger import Ledger
from discreet.results.plan import DETECTED, Plan
from discreet.results.release import Release, Statistic

_ONE_ROW = Contribution(total=1)
_MOST_STEPS = 2**60
"""Numbers and differences of so many steps, and sums of two of them, fit 64 bits."""


@dataclass(frozen=True, kw_only=True)
class PairedBalance(Statistic):
    """The balance V of signed scores of differences, with the number n of rows where that is private.

    The value is ((n + V)/2, (n − V)/2), two numbers that add up to the rows with a difference; or V alone where the
    number of all rows is public.

    Guarantee
    ---------
    A row moves V by at most 1, so the two numbers both rise by 1 together: ℓ₁ = 1, ℓ₂ ≤ 1. Replacing a row moves them
    by at most 2 and √2, and V of a public number of rows by 2. Proof: ``docs/proofs/tests.md``.

    Parameters
    ----------
    scores
        ``"ranks"`` or ``"signs"``.
    n
        The public number of rows.

    Examples
    --------
    >>> PairedBalance().value([3, -1, 2, 0])
    array([Fraction(35, 18), Fraction(19, 18)], dtype=object)
    >>> PairedBalance(scores="signs").value([3, -1, 2, 0])
    array([2, 1])
    """

    name: ClassVar[str] = "paired_balance"
    scores: str = "ranks"
    n: int | None = None

    def __post_init__(self) -> None:
        requirements.one_of("scores", self.scores, METHODS)
        if self.n is not None:
            object.__setattr__(self, "n", requirements.positive_integer("n", self.n))

    @classmethod
    def release_type(cls) -> type[Release]:
        return SignedRankRelease

    @property
    def how(self) -> PairedScores:
        """The rule by which pairs score."""
        return PairedScores(self.scores == "signs", self.n is not None)

    def domain(self, n: int | None = None) -> Domain:
        """Where the value of so many rows lies."""
        rows = n if self.n is None else self.n
        most = math.inf if rows is None else float(rows)
        return (-most, most) if self.n is not None else (np.zeros(2), np.full(2, most))

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Sensitivity:
        """The distance by which one row moves the value."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        if self.n is not None:
            return Sensitivity(moves=(2.0,))
        if self.scores == "signs":  # a row is in one count of two
            return Sensitivity(moves=(1.0,) * neighbours.sides, dimension=2)
        return in_parts(_ONE_ROW, 1, 2, neighbours)

    def value(self, differences: Sequence[int]) -> Any:
        """The value of differences, in whole steps."""
        return self.of_histogram(*np.unique(np.asarray(differences, dtype=np.int64), return_counts=True))

    def of_histogram(self, steps: NDArray[np.int64], counts: NDArray[np.int64]) -> Any:
        """The same from the different differences and how many rows have each.

        Rows without a difference do not count; of a public number of rows they have the lowest ranks (Pratt 1959).
        """
        if self.n is None:
            steps, counts = steps[steps != 0], counts[steps != 0]
        sizes, place = np.unique(np.abs(steps), return_inverse=True)
        rows, leaning = np.zeros((2, sizes.size), dtype=object)  # sums of 2⁴⁰ ranks of as many rows leave 64 bits
        np.add.at(rows, place, counts.astype(object))
        np.add.at(leaning, place, (np.sign(steps) * counts).astype(object))
        total, count = Fraction(int(leaning.sum())), int(rows.sum())
        if self.scores == "ranks":
            twice = 2 * np.cumsum(rows) - rows + 1  # of the middle rank of equal sizes
            total = Fraction(int((leaning * twice).sum()), 2)
        balance = Fraction(self.how.balance(total, count))
        if self.n is not None:
            return balance if self.scores == "ranks" else int(balance)
        halves = [(count + balance) / 2, (count - balance) / 2]
        return fractions(halves) if self.scores == "ranks" else np.array([int(half) for half in halves])


@dataclass(frozen=True)
class SignedRankRelease(Release):
    """A released balance of differences: a test, a share and its intervals. All of them are post-processing."""

    @property
    def _of(self) -> PairedBalance:
        return cast(PairedBalance, self.statistic)

    @cached_property
    def differences(self) -> PairedDifferences:
        """The differences as the release measured them."""
        measured, of = np.atleast_1d(np.asarray(self.measured, dtype=float)), self._of
        noise = self.mechanism.law(0.0)
        if of.n is not None:
            return PairedDifferences(float(measured[0]), float(of.n), True, noise, of.how)
        return PairedDifferences(float(measured[0] - measured[1]), float(measured.sum()), False, noise, of.how)

    @property
    def _simulated(self) -> MonteCarlo:
        # The release fixes the simulations, so that its test says the same whenever it is asked.
        return MonteCarlo(rng=int(self.release_id[:12], 16))

    @cached_property
    def result(self) -> ChiSquareResult:
        """The test: of symmetric differences by ranks, of balanced signs by signs."""
        return self.differences.test(self._simulated)

    @property
    def pvalue(self) -> float:
        """The p-value."""
        return self.result.pvalue

    @property
    def estimate(self) -> float:
        """By ranks, how often two rows' differences add up to more than zero; by signs, how often one row's is."""
        return self.differences.share

    def share_interval(self, level: float = 0.95) -> Interval:
        """Interval for the share in the data: noise alone."""
        return self.differences.interval(level, self._simulated, sampled=False)

    def population_interval(self, level: float = 0.95) -> Interval:
        """Interval for the share in the population: noise and sampling."""
        self.require_sample()
        return self.differences.interval(level, self._simulated, sampled=True)

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """The share, with both intervals."""
        population = None if self.sampled is None else self.population_interval()
        return [
            Reading(
                "", self.estimate, self.share_interval(), population, measure="share",
                standard_error=self.differences.standard_error,
            )
        ]  # fmt: skip

    def verdict(self) -> Mapping[str, Any]:
        return self.result.to_dict()

    def heading(self) -> str:
        return str(self.words.get("heading", self.result.heading()))

    def facts(self) -> Facts:
        noise = "noise interval, 95 %"  # that of the share, and not those of the two numbers behind it
        low, high = self.share_interval()
        shown = [("share above zero", f"{self.estimate:.4f}"), (noise, f"{low:.4f} to {high:.4f}")]
        return [*self.result.facts(), *shown, *(fact for fact in super().facts() if fact[0] not in ("value", noise))]


@dataclass(frozen=True)
class SignedRankQuestion(MeasuredQuestion[SignedRankRelease]):
    """Test whether the differences of pairs lean to one side: Wilcoxon's signed ranks, or signs.

    By ranks the hypothesis is that differences are symmetric about zero; by signs, that they are as often positive as
    negative.

    Guarantee
    ---------
    As `PairedBalance`, for at most one row of each unit.

    Parameters
    ----------
    column
        A number.
    against
        Another number of the same row, or a public value.
    method
        ``"ranks"`` or ``"signs"``.
    expected_rows
        Serves plans only.

    Examples
    --------
    >>> from discreet import Bounds, Schema
    >>> schema = Schema(columns={"before": Bounds(0, 100, grid=1), "after": Bounds(0, 100, grid=1)})
    >>> question = SignedRankQuestion(schema, "after", "before", epsilon=1.0)
    >>> question.measurement.mechanism, round(question.plan().smallest_effect, 3)
    (Laplace(scale=1.0, grid=None), 0.051)
    """

    topic: ClassVar[str] = "Tests and comparisons"
    answers: ClassVar[str] = "Do two numbers of a row differ one way, such as after and before?"
    ask: ClassVar[str] = "signed_rank"
    also: ClassVar[tuple[str, ...]] = ("wilcoxon", "paired_test")
    heading: ClassVar[str] = "Does {subject} tend to be above or below zero?"
    meaning: ClassVar[str] = "Whether {subject} tends to be above or below zero."
    tests: ClassVar[bool] = True
    detects: ClassVar[str] = "P(above zero) − ½"
    behind: ClassVar[type[Omission] | None] = PoissonSample  # a test needs a sample of the population
    forms: ClassVar[form.Forms] = {
        "column": form.COLUMN, "against": form.COLUMN_OR_NUMBER, "method": form.METHOD, "expected_rows": form.WHOLE,
    }  # fmt: skip
    column: str
    against: str | float
    _: KW_ONLY
    method: str = "ranks"
    contribution: Contribution | None = None
    expected_rows: int | None = None

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return {**columns.number(), "against": first_of(columns.numbers, 1)}

    def _validate(self) -> None:
        require_independent_rows(self.schema, self.contribution)
        super()._validate()

    @property
    def _pair(self) -> tuple[str, ...]:
        return (self.column, self.against) if isinstance(self.against, str) else (self.column,)

    def _measured(self) -> Measurement:
        requirements.one_of("method", self.method, METHODS)
        expected = Expected(rows=self.expected_rows)
        self._factors()  # refuses what cannot be compared
        size = self.public_size(*self._pair)
        statistic = PairedBalance(scores=self.method, n=size)
        sensitivity = statistic.sensitivity(neighbours=self.schema.neighbours)
        count = expected.rows_per_group() if size is None else size
        return Measurement(
            statistic=statistic,
            sensitivity=sensitivity,
            mechanism=additive_noise(self.guarantee, sensitivity, whole=self.method == "signs"),
            columns=self._pair,
            contribution=self.contribution,
            public={} if size is None else {"n": size},
            from_rows=lambda rows: statistic.of_histogram(*self._differences(rows)),
            read="the share",
            forecast=lambda: Forecast(
                weights=(statistic.how.share_moved / count,) * (2 if size is None else 1),
                scenario=f"{count:,.0f} rows whose differences are balanced",
            ),
        )

    def _factors(self) -> tuple[int, int]:
        """The two grids, or the grid and the public value, in steps of which both are multiples."""
        bounds = self.schema.bounds(requirements.instance("column", self.column, str, "the name of one column"))
        if isinstance(self.against, str):
            other = self.schema.bounds(self.against)
            step, ends = other.step, (bounds.low - other.high, bounds.high - other.low)
        else:
            step = decimal(requirements.finite("against", self.against))
            ends = (bounds.low - self.against, bounds.high - self.against)
        if self.against == self.column or not ends[0] < 0 < ends[1]:
            raise InvalidParameter(
                "against", self.against, f"every difference from {self.column!r} has one sign by the declared bounds",
                "Name the column that is measured in the same way, or a value inside the bounds.",
            )  # fmt: skip
        common = common_step(bounds.step, step)
        if max(map(abs, (bounds.low, bounds.high, *ends))) / common > _MOST_STEPS:
            raise InvalidParameter(
                "against", self.against, f"has too fine a grid beside {self.column!r}", "Declare one grid for both."
            )
        return int(bounds.step / common), int(step / common)

    def _differences(self, rows: Snapshot) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The different differences in whole steps, and how many rows have each."""
        own, other = self._factors()
        if isinstance(self.against, str):  # the difference takes the place of the first number, in each row alone
            values = rows.column(rows.table, self.column) * own - rows.column(rows.table, self.against) * other
            gaps = rows.gaps | ({self.column} if self.against in rows.gaps else set())
            rows = replace(rows, table=rows.table.mutate(**{rows.names[self.column]: values}), gaps=gaps, kept={})
        selected = Selected(columns=(self.column,), contribution=self.contribution)
        ((steps, counts),) = histograms(rows, selected)
        return (steps, counts) if isinstance(self.against, str) else (steps * own - other, counts)

    def columns_read(self) -> tuple[str, ...]:
        return self._pair

    def content(self) -> dict[str, Any]:
        return super().content() | {"against": self.against}

    def subject_words(self, words: Mapping[str, str]) -> str:
        against = words.get(self.against, self.against) if isinstance(self.against, str) else number(self.against)
        return f"{words.get(self.column, self.column)} − {against}"

    def plan(self, ledger: Ledger | None = None) -> Plan:
        planned, size = super().plan(ledger), self.measurement.statistic.n  # type: ignore[attr-defined]
        rows = size or self.rows_planned or DEFAULT_ROWS
        noise = (1 if size else 2) * largest_variance(self.measurement.mechanism)
        error = lean_error(PairedScores(self.method == "signs", bool(size)), rows, noise)
        of = "two rows' differences add up to" if self.method == "ranks" else "a row's difference is"
        notes = (f"the effect is P({of} more than zero) − ½, for {rows:,} rows that differ",)
        return replace(planned, smallest_effect=DETECTED * error, notes=notes + planned.notes)
