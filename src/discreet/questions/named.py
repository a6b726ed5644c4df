"""Named questions: every question as a method with its own signature and the type of its answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Unpack, overload

from discreet.core.columns import Label
from discreet.core.guarantee import Guarantee
from discreet.core.schema import Bounds, Contribution
from discreet.questions.clusters.kmedian import KMedian
from discreet.questions.clusters.lloyd import DPLloyd
from discreet.questions.clusters.question import ClustersQuestion
from discreet.questions.comparison.compare import MeanComparison
from discreet.questions.comparison.methods import Method
from discreet.questions.comparison.question import ComparisonQuestion
from discreet.questions.count import CountQuestion
from discreet.questions.covariance_matrix import CovarianceMatrixQuestion, CovariancesReading
from discreet.questions.grouped import GroupedRelease
from discreet.questions.groups import GroupsQuestion, ReleasedGroups
from discreet.questions.histogram import HistogramQuestion
from discreet.questions.mean import MeanQuestion, MeanReading
from discreet.questions.mode import ModeQuestion, ModeRelease
from discreet.questions.named_tables import NamedTables
from discreet.questions.parts import MeanAndVarianceInPartsRelease
from discreet.questions.proportion import ProportionQuestion, ProportionReading
from discreet.questions.quantile import QuantileQuestion, QuantileRelease
from discreet.questions.regression.linear import RegressionQuestion, RegressionRelease
from discreet.questions.regression.logistic import LogisticQuestion, LogisticRelease
from discreet.questions.running_total import RunningTotalQuestion, RunningTotalRelease
from discreet.questions.spending import Spend, spending
from discreet.questions.sum import SumQuestion
from discreet.questions.tables.table import TableRelease
from discreet.questions.variance import VarianceQuestion, VarianceReading
from discreet.results.answer import Answer

__all__ = ["NamedQuestions"]

Names = str | Sequence[str]


class NamedQuestions(NamedTables):
    """The questions by name: ``mean("age", …)`` is short for ``ask(MeanQuestion(schema, "age", …))``."""

    @overload
    def count(
        self, guarantee: Guarantee | None = None, *, contribution: Contribution | None = None,
        request: str | None = None, **spend: Unpack[Spend],
    ) -> Answer: ...  # fmt: skip
    @overload
    def count(
        self, guarantee: Guarantee | None = None, *, by: Names, contribution: Contribution | None = None,
        request: str | None = None, **spend: Unpack[Spend],
    ) -> TableRelease: ...  # fmt: skip
    def count(
        self, guarantee: Guarantee | None = None, *, by: Names = (), contribution: Contribution | None = None,
        request: str | None = None, **spend: Unpack[Spend],
    ) -> Answer | TableRelease:  # fmt: skip
        """Number of rows, in all or by group."""
        return self.ask(
            CountQuestion(self.schema, spending(CountQuestion, guarantee, spend), by=by, contribution=contribution),
            request,
        )

    @overload
    def sum(
        self, column: str, guarantee: Guarantee | None = None, *, contribution: Contribution | None = None,
        unit_sum: Bounds | None = None, request: str | None = None, **spend: Unpack[Spend],
    ) -> Answer: ...  # fmt: skip
    @overload
    def sum(
        self, column: str, guarantee: Guarantee | None = None, *, by: Names, contribution: Contribution | None = None,
        unit_sum: Bounds | None = None, request: str | None = None, **spend: Unpack[Spend],
    ) -> GroupedRelease[Answer]: ...  # fmt: skip
    def sum(
        self, column: str, guarantee: Guarantee | None = None, *, by: Names = (),
        contribution: Contribution | None = None, unit_sum: Bounds | None = None, request: str | None = None,
        **spend: Unpack[Spend],
    ) -> Answer | GroupedRelease[Answer]:  # fmt: skip
        """Total of a column, in all or by group."""
        question = SumQuestion(
            self.schema,
            column,
            spending(SumQuestion, guarantee, spend),
            by=by,
            contribution=contribution,
            unit_sum=unit_sum,
        )
        return self.ask(question, request)

    def running_total(
        self, over: str, guarantee: Guarantee | None = None, *, period: Label | None = None, column: str | None = None,
        contribution: Contribution | None = None, unit_sum: Bounds | None = None, request: str | None = None,
        **spend: Unpack[Spend],
    ) -> RunningTotalRelease:  # fmt: skip
        """Rows, or the total of a column, up to a period; the guarantee is that of all periods together."""
        question = RunningTotalQuestion(
            self.schema,
            over,
            spending(RunningTotalQuestion, guarantee, spend),
            period=period,
            column=column,
            contribution=contribution,
            unit_sum=unit_sum,
        )
        return self.ask(question, request)

    @overload
    def mean(
        self, column: str, guarantee: Guarantee | None = None, *, spread: Literal[True],
        contribution: Contribution | None = None, unit_sum: Bounds | None = None, expected_rows: int | None = None,
        expected_mean: float | None = None, weighted: bool = False, request: str | None = None, **spend: Unpack[Spend],
    ) -> MeanAndVarianceInPartsRelease: ...  # fmt: skip
    @overload
    def mean(
        self, column: str, guarantee: Guarantee | None = None, *, by: Names, spread: Literal[True],
        contribution: Contribution | None = None, unit_sum: Bounds | None = None, expected_rows: int | None = None,
        expected_mean: float | None = None, weighted: bool = False, request: str | None = None, **spend: Unpack[Spend],
    ) -> GroupedRelease[MeanAndVarianceInPartsRelease]: ...  # fmt: skip
    @overload
    def mean(
        self, column: str, guarantee: Guarantee | None = None, *, spread: bool = False,
        contribution: Contribution | None = None, unit_sum: Bounds | None = None, expected_rows: int | None = None,
        expected_mean: float | None = None, weighted: bool = False, request: str | None = None, **spend: Unpack[Spend],
    ) -> MeanReading: ...  # fmt: skip
    @overload
    def mean(
        self, column: str, guarantee: Guarantee | None = None, *, by: Names, spread: bool = False,
        contribution: Contribution | None = None, unit_sum: Bounds | None = None, expected_rows: int | None = None,
        expected_mean: float | None = None, weighted: bool = False, request: str | None = None, **spend: Unpack[Spend],
    ) -> GroupedRelease[MeanReading]: ...  # fmt: skip
    def mean(
        self, column: str, guarantee: Guarantee | None = None, *, by: Names = (), spread: bool = False,
        contribution: Contribution | None = None, unit_sum: Bounds | None = None, expected_rows: int | None = None,
        expected_mean: float | None = None, weighted: bool = False, request: str | None = None, **spend: Unpack[Spend],
    ) -> MeanReading | GroupedRelease[MeanReading]:  # fmt: skip
        """Mean of a column over rows, or over units with ``unit_sum``; in all or by group.

        ``spread`` releases the variance too, so that the interval for the population is narrower. ``weighted``
        counts all rows of a unit, with weights that add up to its limit, instead of some rows that it keeps.
        """
        question = MeanQuestion(
            self.schema,
            column,
            spending(MeanQuestion, guarantee, spend),
            by=by,
            spread=spread,
            contribution=contribution,
            unit_sum=unit_sum,
            weighted=weighted,
            expected_rows=expected_rows,
            expected_mean=expected_mean,
        )
        return self.ask(question, request)

    @overload
    def proportion(
        self, column: str, label: Label, guarantee: Guarantee | None = None, *,
        contribution: Contribution | None = None, expected_rows: int | None = None, expected_share: float | None = None,
        weighted: bool = False, request: str | None = None, **spend: Unpack[Spend],
    ) -> ProportionReading: ...  # fmt: skip
    @overload
    def proportion(
        self, column: str, label: Label, guarantee: Guarantee | None = None, *, by: Names,
        contribution: Contribution | None = None, expected_rows: int | None = None, expected_share: float | None = None,
        weighted: bool = False, request: str | None = None, **spend: Unpack[Spend],
    ) -> GroupedRelease[ProportionReading]: ...  # fmt: skip
    def proportion(
        self, column: str, label: Label, guarantee: Guarantee | None = None, *, by: Names = (),
        contribution: Contribution | None = None, expected_rows: int | None = None, expected_share: float | None = None,
        weighted: bool = False, request: str | None = None, **spend: Unpack[Spend],
    ) -> ProportionReading | GroupedRelease[ProportionReading]:  # fmt: skip
        """Proportion of rows with a label, in all or by group; ``weighted`` is that of `mean`."""
        question = ProportionQuestion(
            self.schema,
            column,
            label,
            spending(ProportionQuestion, guarantee, spend),
            by=by,
            contribution=contribution,
            weighted=weighted,
            expected_rows=expected_rows,
            expected_share=expected_share,
        )
        return self.ask(question, request)

    @overload
    def variance(
        self, column: str, guarantee: Guarantee | None = None, *, contribution: Contribution | None = None,
        unit_sum: Bounds | None = None, expected_rows: int | None = None, expected_mean: float | None = None,
        request: str | None = None, **spend: Unpack[Spend],
    ) -> VarianceReading: ...  # fmt: skip
    @overload
    def variance(
        self, column: str, guarantee: Guarantee | None = None, *, by: Names, contribution: Contribution | None = None,
        unit_sum: Bounds | None = None, expected_rows: int | None = None, expected_mean: float | None = None,
        request: str | None = None, **spend: Unpack[Spend],
    ) -> GroupedRelease[VarianceReading]: ...  # fmt: skip
    def variance(
        self, column: str, guarantee: Guarantee | None = None, *, by: Names = (),
        contribution: Contribution | None = None, unit_sum: Bounds | None = None, expected_rows: int | None = None,
        expected_mean: float | None = None, request: str | None = None, **spend: Unpack[Spend],
    ) -> VarianceReading | GroupedRelease[VarianceReading]:  # fmt: skip
        """Variance of a column, in all or by group; where the number of rows is private, together with the mean."""
        question = VarianceQuestion(
            self.schema,
            column,
            spending(VarianceQuestion, guarantee, spend),
            by=by,
            contribution=contribution,
            unit_sum=unit_sum,
            expected_rows=expected_rows,
            expected_mean=expected_mean,
        )
        return self.ask(question, request)

    def covariance_matrix(
        self, columns: Names, guarantee: Guarantee | None = None, *, contribution: Contribution | None = None,
        expected_rows: int | None = None, request: str | None = None, **spend: Unpack[Spend],
    ) -> CovariancesReading:  # fmt: skip
        """Covariance matrix of several columns; where the number of rows is private, together with the means."""
        question = CovarianceMatrixQuestion(
            self.schema,
            columns,
            spending(CovarianceMatrixQuestion, guarantee, spend),
            contribution=contribution,
            expected_rows=expected_rows,
        )
        return self.ask(question, request)

    @overload
    def quantile(
        self, column: str, probabilities: float | Sequence[float], guarantee: Guarantee | None = None, *,
        interval: float | None = 0.95, rows_at_least: int | None = None, recursive: bool = False,
        contribution: Contribution | None = None, unit_sum: Bounds | None = None, request: str | None = None,
        **spend: Unpack[Spend],
    ) -> QuantileRelease: ...  # fmt: skip
    @overload
    def quantile(
        self, column: str, probabilities: float | Sequence[float], guarantee: Guarantee | None = None, *, by: Names,
        interval: float | None = 0.95, rows_at_least: int | None = None, recursive: bool = False,
        contribution: Contribution | None = None, unit_sum: Bounds | None = None, request: str | None = None,
        **spend: Unpack[Spend],
    ) -> GroupedRelease[QuantileRelease]: ...  # fmt: skip
    def quantile(
        self, column: str, probabilities: float | Sequence[float], guarantee: Guarantee | None = None, *,
        by: Names = (), interval: float | None = 0.95, rows_at_least: int | None = None, recursive: bool = False,
        contribution: Contribution | None = None, unit_sum: Bounds | None = None, request: str | None = None,
        **spend: Unpack[Spend],
    ) -> QuantileRelease | GroupedRelease[QuantileRelease]:  # fmt: skip
        """Quantiles of a column, in all or by group, each with an interval of the given level.

        With an interval the estimate is its middle. ``interval=None`` spends everything on the quantiles themselves,
        which are then about twice as accurate; so does ``recursive``, which is for many quantiles.
        """
        question = QuantileQuestion(
            self.schema,
            column,
            probabilities,
            spending(QuantileQuestion, guarantee, spend),
            by=by,
            interval=interval,
            rows_at_least=rows_at_least,
            recursive=recursive,
            contribution=contribution,
            unit_sum=unit_sum,
        )
        return self.ask(question, request)

    def histogram(
        self, column: str, guarantee: Guarantee | None = None, *, edges: Sequence[float] | None = None,
        bins: int | None = None, contribution: Contribution | None = None, unit_sum: Bounds | None = None,
        request: str | None = None, **spend: Unpack[Spend],
    ) -> TableRelease:  # fmt: skip
        """Counts by the labels of a column, or by bins of a number: with public ``edges``, or ``bins`` of one width."""
        question = HistogramQuestion(
            self.schema,
            column,
            spending(HistogramQuestion, guarantee, spend),
            edges=edges,
            bins=bins,
            contribution=contribution,
            unit_sum=unit_sum,
        )
        return self.ask(question, request)

    def mode(
        self, column: str, guarantee: Guarantee | None = None, *, contribution: Contribution | None = None,
        request: str | None = None, **spend: Unpack[Spend],
    ) -> ModeRelease:  # fmt: skip
        """The most frequent label of a column; only the choice is published, no count."""
        return self.ask(
            ModeQuestion(self.schema, column, spending(ModeQuestion, guarantee, spend), contribution=contribution),
            request,
        )

    def groups(
        self, column: str, guarantee: Guarantee | None = None, *, contribution: Contribution | None = None,
        method: str = "best", request: str | None = None, **spend: Unpack[Spend],
    ) -> ReleasedGroups:  # fmt: skip
        """Which labels of an unlisted column are common enough to be shown, at (ε, δ).

        A unit counts once for each of its labels that it keeps. A label that only one unit holds is shown with
        probability δ at most; the plan says from which size on groups are shown. Declare the found list with
        `declaring` to release anything by it.
        """
        question = GroupsQuestion(
            self.schema,
            column,
            spending(GroupsQuestion, guarantee, spend),
            contribution=contribution,
            method=method,
        )
        return self.ask(question, request)

    def compare_means(
        self, column: str, *, by: str, guarantee: Guarantee | None = None, partitions: int | None = None,
        partition_by: str | None = None, censor: tuple[float, float] = (0.1, 0.1), method: str | Method = "best",
        arm: str = "public", unit_sum: Bounds | None = None, spread: float | None = None,
        expected_rows: int | None = None, request: str | None = None, **spend: Unpack[Spend],
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
            guarantee=spending(ComparisonQuestion, guarantee, spend),
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

    def regression(
        self, column: str, on: Names, guarantee: Guarantee | None = None, *, contribution: Contribution | None = None,
        expected_rows: int | None = None, models: Sequence[Names] = (), request: str | None = None,
        **spend: Unpack[Spend],
    ) -> RegressionRelease:  # fmt: skip
        """Least squares of a number on other numbers and labels, and on any of them, from one release.

        Intervals and tests count noise and sampling, for errors of any law. Those of the smaller ``models`` are as
        narrow as those of the whole; all others can be read as well. ``expected_rows`` serves plans only.
        """
        question = RegressionQuestion(
            self.schema,
            column,
            on,
            spending(RegressionQuestion, guarantee, spend),
            contribution=contribution,
            expected_rows=expected_rows,
            models=models,
        )
        return self.ask(question, request)

    def logistic_regression(
        self, column: str, on: Names, guarantee: Guarantee | None = None, *, contribution: Contribution | None = None,
        expected_rows: int | None = None, request: str | None = None, **spend: Unpack[Spend],
    ) -> LogisticRelease:  # fmt: skip
        """Logistic regression of a column of two labels on numbers and other labels, and on any of them.

        The second label counts as 1. Intervals and tests count noise and sampling. ``expected_rows`` serves plans only.
        """
        question = LogisticQuestion(
            self.schema,
            column,
            on,
            spending(LogisticQuestion, guarantee, spend),
            contribution=contribution,
            expected_rows=expected_rows,
        )
        return self.ask(question, request)

    @overload
    def clusters(
        self, columns: Names, n_clusters: int, guarantee: Guarantee | None = None, *, iterations: int | None = None,
        expected_rows: int | None = None, request: str | None = None, **spend: Unpack[Spend],
    ) -> DPLloyd: ...  # fmt: skip
    @overload
    def clusters(
        self, columns: Names, n_clusters: int, guarantee: Guarantee | None = None, *,
        universe: Sequence[Sequence[float]], iterations: int | None = None, expected_rows: int | None = None,
        request: str | None = None, **spend: Unpack[Spend],
    ) -> KMedian: ...  # fmt: skip
    def clusters(
        self, columns: Names, n_clusters: int, guarantee: Guarantee | None = None, *,
        universe: Sequence[Sequence[float]] | None = None, iterations: int | None = None,
        expected_rows: int | None = None, request: str | None = None, **spend: Unpack[Spend],
    ) -> DPLloyd | KMedian:  # fmt: skip
        """Centres of clusters of numeric columns; rows are the units.

        k-means centres (`DPLloyd`), or with a public ``universe`` of positions the k-median centres among them
        (`KMedian`). ``expected_rows`` sets the number of iterations of k-means where ``iterations`` does not.
        """
        question = ClustersQuestion(
            self.schema,
            columns,
            n_clusters,
            spending(ClustersQuestion, guarantee, spend),
            universe=universe,
            iterations=iterations,
            expected_rows=expected_rows,
        )
        return self.ask(question, request)
