"""Named questions: every question as a method with its own signature and the type of its answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar, overload

from discreet.core.columns import Label
from discreet.core.guarantee import Guarantee
from discreet.core.schema import Bounds, Contribution, Schema
from discreet.mechanisms.tables.margin_scales import Accuracy
from discreet.questions.answer import Answer
from discreet.questions.clusters.clusters_question import ClustersQuestion
from discreet.questions.clusters.kmedian import KMedian
from discreet.questions.clusters.lloyd import DPLloyd
from discreet.questions.comparison.comparison_question import ComparisonQuestion
from discreet.questions.comparison.mean_comparison import MeanComparison
from discreet.questions.comparison.methods import Method
from discreet.questions.count import CountQuestion
from discreet.questions.covariance_matrix import CovarianceMatrixQuestion, CovariancesReading
from discreet.questions.grouped import GroupedRelease
from discreet.questions.groups import GroupsQuestion, ReleasedGroups
from discreet.questions.histogram import HistogramQuestion
from discreet.questions.many_tables import TablesQuestion
from discreet.questions.margins import MarginsRelease, Weights
from discreet.questions.mean import MeanQuestion, MeanReading
from discreet.questions.mode import ModeQuestion, ModeRelease
from discreet.questions.parts import MeanAndVarianceInPartsRelease
from discreet.questions.proportion import ProportionQuestion, ProportionReading
from discreet.questions.quantile import QuantileQuestion, QuantileRelease
from discreet.questions.question import Question
from discreet.questions.sum import SumQuestion
from discreet.questions.table import TableQuestion, TableRelease
from discreet.questions.table_tests import (
    GoodnessOfFitQuestion,
    HomogeneityQuestion,
    IndependenceQuestion,
    TestedRelease,
)
from discreet.questions.variance import VarianceQuestion, VarianceReading

__all__ = ["NamedQuestions"]

A = TypeVar("A")
Names = str | Sequence[str]


class NamedQuestions(ABC):
    """The questions by name: ``mean("age", …)`` is short for ``ask(MeanQuestion(schema, "age", …))``."""

    schema: Schema

    @abstractmethod
    def ask(self, question: Question[A], request: str | None = None) -> A:
        """Answer a question."""

    @overload
    def count(
        self, guarantee: Guarantee, *, contribution: Contribution | None = None, request: str | None = None
    ) -> Answer: ...
    @overload
    def count(
        self, guarantee: Guarantee, *, by: Names, contribution: Contribution | None = None, request: str | None = None
    ) -> TableRelease: ...
    def count(
        self, guarantee: Guarantee, *, by: Names = (), contribution: Contribution | None = None,
        request: str | None = None,
    ) -> Answer | TableRelease:  # fmt: skip
        """Number of rows, in all or by group."""
        return self.ask(CountQuestion(self.schema, guarantee, by=by, contribution=contribution), request)

    @overload
    def sum(
        self, column: str, guarantee: Guarantee, *, contribution: Contribution | None = None,
        unit_sum: Bounds | None = None, request: str | None = None,
    ) -> Answer: ...  # fmt: skip
    @overload
    def sum(
        self, column: str, guarantee: Guarantee, *, by: Names, contribution: Contribution | None = None,
        unit_sum: Bounds | None = None, request: str | None = None,
    ) -> GroupedRelease[Answer]: ...  # fmt: skip
    def sum(
        self, column: str, guarantee: Guarantee, *, by: Names = (), contribution: Contribution | None = None,
        unit_sum: Bounds | None = None, request: str | None = None,
    ) -> Answer | GroupedRelease[Answer]:  # fmt: skip
        """Total of a column, in all or by group."""
        question = SumQuestion(
            self.schema,
            column,
            guarantee,
            by=by,
            contribution=contribution,
            unit_sum=unit_sum,
        )
        return self.ask(question, request)

    @overload
    def mean(
        self, column: str, guarantee: Guarantee, *, spread: Literal[True], contribution: Contribution | None = None,
        unit_sum: Bounds | None = None, expected_rows: int | None = None, expected_mean: float | None = None,
        request: str | None = None,
    ) -> MeanAndVarianceInPartsRelease: ...  # fmt: skip
    @overload
    def mean(
        self, column: str, guarantee: Guarantee, *, by: Names, spread: Literal[True],
        contribution: Contribution | None = None, unit_sum: Bounds | None = None, expected_rows: int | None = None,
        expected_mean: float | None = None, request: str | None = None,
    ) -> GroupedRelease[MeanAndVarianceInPartsRelease]: ...  # fmt: skip
    @overload
    def mean(
        self, column: str, guarantee: Guarantee, *, spread: bool = False, contribution: Contribution | None = None,
        unit_sum: Bounds | None = None, expected_rows: int | None = None, expected_mean: float | None = None,
        request: str | None = None,
    ) -> MeanReading: ...  # fmt: skip
    @overload
    def mean(
        self, column: str, guarantee: Guarantee, *, by: Names, spread: bool = False,
        contribution: Contribution | None = None, unit_sum: Bounds | None = None, expected_rows: int | None = None,
        expected_mean: float | None = None, request: str | None = None,
    ) -> GroupedRelease[MeanReading]: ...  # fmt: skip
    def mean(
        self, column: str, guarantee: Guarantee, *, by: Names = (), spread: bool = False,
        contribution: Contribution | None = None, unit_sum: Bounds | None = None, expected_rows: int | None = None,
        expected_mean: float | None = None, request: str | None = None,
    ) -> MeanReading | GroupedRelease[MeanReading]:  # fmt: skip
        """Mean of a column over rows, or over units with ``unit_sum``; in all or by group.

        ``spread`` releases the variance too, so that the interval for the population is narrower.
        """
        question = MeanQuestion(
            self.schema,
            column,
            guarantee,
            by=by,
            spread=spread,
            contribution=contribution,
            unit_sum=unit_sum,
            expected_rows=expected_rows,
            expected_mean=expected_mean,
        )
        return self.ask(question, request)

    @overload
    def proportion(
        self, column: str, label: Label, guarantee: Guarantee, *, contribution: Contribution | None = None,
        expected_rows: int | None = None, expected_share: float | None = None, request: str | None = None,
    ) -> ProportionReading: ...  # fmt: skip
    @overload
    def proportion(
        self, column: str, label: Label, guarantee: Guarantee, *, by: Names, contribution: Contribution | None = None,
        expected_rows: int | None = None, expected_share: float | None = None, request: str | None = None,
    ) -> GroupedRelease[ProportionReading]: ...  # fmt: skip
    def proportion(
        self, column: str, label: Label, guarantee: Guarantee, *, by: Names = (),
        contribution: Contribution | None = None, expected_rows: int | None = None,
        expected_share: float | None = None, request: str | None = None,
    ) -> ProportionReading | GroupedRelease[ProportionReading]:  # fmt: skip
        """Proportion of rows with a label, in all or by group."""
        question = ProportionQuestion(
            self.schema,
            column,
            label,
            guarantee,
            by=by,
            contribution=contribution,
            expected_rows=expected_rows,
            expected_share=expected_share,
        )
        return self.ask(question, request)

    @overload
    def variance(
        self, column: str, guarantee: Guarantee, *, contribution: Contribution | None = None,
        unit_sum: Bounds | None = None, expected_rows: int | None = None, expected_mean: float | None = None,
        request: str | None = None,
    ) -> VarianceReading: ...  # fmt: skip
    @overload
    def variance(
        self, column: str, guarantee: Guarantee, *, by: Names, contribution: Contribution | None = None,
        unit_sum: Bounds | None = None, expected_rows: int | None = None, expected_mean: float | None = None,
        request: str | None = None,
    ) -> GroupedRelease[VarianceReading]: ...  # fmt: skip
    def variance(
        self, column: str, guarantee: Guarantee, *, by: Names = (), contribution: Contribution | None = None,
        unit_sum: Bounds | None = None, expected_rows: int | None = None, expected_mean: float | None = None,
        request: str | None = None,
    ) -> VarianceReading | GroupedRelease[VarianceReading]:  # fmt: skip
        """Variance of a column, in all or by group; where the number of rows is private, together with the mean."""
        question = VarianceQuestion(
            self.schema,
            column,
            guarantee,
            by=by,
            contribution=contribution,
            unit_sum=unit_sum,
            expected_rows=expected_rows,
            expected_mean=expected_mean,
        )
        return self.ask(question, request)

    def covariance_matrix(
        self, columns: Names, guarantee: Guarantee, *, contribution: Contribution | None = None,
        expected_rows: int | None = None, request: str | None = None,
    ) -> CovariancesReading:  # fmt: skip
        """Covariance matrix of several columns; where the number of rows is private, together with the means."""
        question = CovarianceMatrixQuestion(
            self.schema,
            columns,
            guarantee,
            contribution=contribution,
            expected_rows=expected_rows,
        )
        return self.ask(question, request)

    @overload
    def quantile(
        self, column: str, probabilities: float | Sequence[float], guarantee: Guarantee, *,
        interval: float | None = None, rows_at_least: int | None = None, recursive: bool = False,
        contribution: Contribution | None = None, unit_sum: Bounds | None = None, request: str | None = None,
    ) -> QuantileRelease: ...  # fmt: skip
    @overload
    def quantile(
        self, column: str, probabilities: float | Sequence[float], guarantee: Guarantee, *, by: Names,
        interval: float | None = None, rows_at_least: int | None = None, recursive: bool = False,
        contribution: Contribution | None = None, unit_sum: Bounds | None = None, request: str | None = None,
    ) -> GroupedRelease[QuantileRelease]: ...  # fmt: skip
    def quantile(
        self, column: str, probabilities: float | Sequence[float], guarantee: Guarantee, *, by: Names = (),
        interval: float | None = None, rows_at_least: int | None = None, recursive: bool = False,
        contribution: Contribution | None = None, unit_sum: Bounds | None = None, request: str | None = None,
    ) -> QuantileRelease | GroupedRelease[QuantileRelease]:  # fmt: skip
        """Quantiles of a column, in all or by group, with intervals where a level is given."""
        question = QuantileQuestion(
            self.schema,
            column,
            probabilities,
            guarantee,
            by=by,
            interval=interval,
            rows_at_least=rows_at_least,
            recursive=recursive,
            contribution=contribution,
            unit_sum=unit_sum,
        )
        return self.ask(question, request)

    def histogram(
        self, column: str, guarantee: Guarantee, *, edges: Sequence[float] | None = None,
        contribution: Contribution | None = None, unit_sum: Bounds | None = None, request: str | None = None,
    ) -> TableRelease:  # fmt: skip
        """Counts by the labels of a column, or by public bins of a number."""
        question = HistogramQuestion(
            self.schema,
            column,
            guarantee,
            edges=edges,
            contribution=contribution,
            unit_sum=unit_sum,
        )
        return self.ask(question, request)

    def table(
        self, columns: Names, guarantee: Guarantee, *, contribution: Contribution | None = None,
        request: str | None = None,
    ) -> TableRelease:  # fmt: skip
        """Counts by the labels of one or more columns."""
        return self.ask(TableQuestion(self.schema, columns, guarantee, contribution=contribution), request)

    def tables(
        self, tables: Sequence[str | Sequence[str]], guarantee: Guarantee, *, weights: Weights = "tables",
        accuracy: Accuracy = "sum", mean_of: str | None = None, public_total: int | None = None,
        impossible: Sequence[Mapping[str, Any]] = (), contribution: Contribution | None = None,
        request: str | None = None,
    ) -> MarginsRelease:  # fmt: skip
        """Several tables in one release: they add up, and so do all of their margins.

        ``weights`` weigh the mean squared error of each table (``"tables"``: all alike; ``"cells"``: by size).
        ``accuracy`` says whether the weighted ``"sum"`` or the ``"largest"`` of these errors is made least. With
        ``mean_of``, half of the budget measures the mean of a number in every cell. ``public_total`` is the number of
        rows where it is known without the data; ``impossible`` lists cells that cannot have rows (see `hierarchy`).
        """
        question = TablesQuestion(
            self.schema,
            tables,
            guarantee,
            weights=weights,
            accuracy=accuracy,
            mean_of=mean_of,
            public_total=public_total,
            impossible=impossible,
            contribution=contribution,
        )
        return self.ask(question, request)

    def mode(
        self, column: str, guarantee: Guarantee, *, contribution: Contribution | None = None, request: str | None = None
    ) -> ModeRelease:
        """The most frequent label of a column; only the choice is published, no count."""
        return self.ask(ModeQuestion(self.schema, column, guarantee, contribution=contribution), request)

    def groups(
        self, column: str, guarantee: Guarantee, *, contribution: Contribution | None = None, method: str = "best",
        request: str | None = None,
    ) -> ReleasedGroups:  # fmt: skip
        """Which labels of an unlisted column are common enough to be shown, at (ε, δ).

        A unit counts once for each of its labels that it keeps. A label that only one unit holds is shown with
        probability δ at most; the plan says from which size on groups are shown. Declare the found list with
        `declaring` to release anything by it.
        """
        question = GroupsQuestion(
            self.schema,
            column,
            guarantee,
            contribution=contribution,
            method=method,
        )
        return self.ask(question, request)

    def goodness_of_fit(
        self, column: str, probabilities: Sequence[float], guarantee: Guarantee, *,
        contribution: Contribution | None = None, expected_rows: int | None = None, request: str | None = None,
    ) -> TestedRelease:  # fmt: skip
        """Test whether the labels of a column have given shares; releases the table and tests it."""
        question = GoodnessOfFitQuestion(
            self.schema,
            column,
            probabilities,
            guarantee,
            contribution=contribution,
            expected_rows=expected_rows,
        )
        return self.ask(question, request)

    def homogeneity(
        self, column: str, by: str, guarantee: Guarantee, *, contribution: Contribution | None = None,
        expected_rows: int | None = None, request: str | None = None,
    ) -> TestedRelease:  # fmt: skip
        """Test whether the labels of a column are distributed alike in all groups."""
        question = HomogeneityQuestion(
            self.schema,
            column,
            by,
            guarantee,
            contribution=contribution,
            expected_rows=expected_rows,
        )
        return self.ask(question, request)

    def independence(
        self, columns: Sequence[str], guarantee: Guarantee, *, contribution: Contribution | None = None,
        expected_rows: int | None = None, request: str | None = None,
    ) -> TestedRelease:  # fmt: skip
        """Test whether two columns of labels are independent."""
        question = IndependenceQuestion(
            self.schema,
            columns,
            guarantee,
            contribution=contribution,
            expected_rows=expected_rows,
        )
        return self.ask(question, request)

    def compare_means(
        self, column: str, *, by: str, guarantee: Guarantee, partitions: int | None = None,
        partition_by: str | None = None, censor: tuple[float, float] = (0.1, 0.1), method: str | Method = "best",
        arm: str = "public", unit_sum: Bounds | None = None, spread: float | None = None,
        expected_rows: int | None = None, request: str | None = None,
    ) -> MeanComparison:  # fmt: skip
        """Compare a column's mean between two arms, over units; ``by`` has two labels, control first.

        A unit with an id counts once, in one arm, with its sum clipped to ``unit_sum`` (by default the column's own
        bounds). Its partition is a salted digest of its id, or its label in ``partition_by``. ``expected_rows``, the
        number of units in both arms, serves plans only. The other parameters are those of `discreet.compare_means`.
        """
        question = ComparisonQuestion(
            self.schema,
            column,
            by=by,
            guarantee=guarantee,
            partitions=partitions,
            partition_by=partition_by,
            censor=censor,
            method=method,
            arm=arm,
            unit_sum=unit_sum,
            spread=spread,
            expected_rows=expected_rows,
        )
        return self.ask(question, request)

    @overload
    def clusters(
        self, columns: Names, n_clusters: int, guarantee: Guarantee, *, iterations: int | None = None,
        expected_rows: int | None = None, request: str | None = None,
    ) -> DPLloyd: ...  # fmt: skip
    @overload
    def clusters(
        self, columns: Names, n_clusters: int, guarantee: Guarantee, *, universe: Sequence[Sequence[float]],
        iterations: int | None = None, expected_rows: int | None = None, request: str | None = None,
    ) -> KMedian: ...  # fmt: skip
    def clusters(
        self, columns: Names, n_clusters: int, guarantee: Guarantee, *,
        universe: Sequence[Sequence[float]] | None = None, iterations: int | None = None,
        expected_rows: int | None = None, request: str | None = None,
    ) -> DPLloyd | KMedian:  # fmt: skip
        """Centres of clusters of numeric columns; rows are the units.

        k-means centres (`DPLloyd`), or with a public ``universe`` of positions the k-median centres among them
        (`KMedian`). ``expected_rows`` sets the number of iterations of k-means where ``iterations`` does not.
        """
        question = ClustersQuestion(
            self.schema,
            columns,
            n_clusters,
            guarantee,
            universe=universe,
            iterations=iterations,
            expected_rows=expected_rows,
        )
        return self.ask(question, request)
