"""Asking: the vocabulary that a session and its planner share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.guarantee import Guarantee
from discreet.core.schema import Bounds, Contribution, Schema
from discreet.mechanisms.tables.margin_scales import Accuracy
from discreet.questions import Expected, Question, Questions, Selection
from discreet.questions.margins import Weights, tables_question
from discreet.questions.tested import groups_of, repeatable

if TYPE_CHECKING:
    from discreet.questions.clusters.model import ClusterModel
    from discreet.questions.comparison.column import ColumnComparison
    from discreet.questions.comparison.methods import Method
    from discreet.questions.group_questions import GroupQuestion

__all__ = ["Asking"]


class Asking(ABC):
    """The vocabulary that a session and its planner share; each says what to do with a question."""

    schema: Schema

    @abstractmethod
    def _answer(self, question: Question, request: str | None) -> Any:
        """What is done with a question."""

    @abstractmethod
    def _tested(self, test: Any, answer: Any, *, df: int, cells: int, rows: int | None) -> Any:
        """What is done with a test of a table, and what a plan knows of it: degrees of freedom, cells and rows."""

    @abstractmethod
    def _compared(self, comparison: ColumnComparison, request: str | None) -> Any:
        """What is done with a comparison of two arms."""

    @abstractmethod
    def _selected(self, question: GroupQuestion, request: str | None) -> Any:
        """What is done with a question of groups."""

    @abstractmethod
    def _clustered(self, model: ClusterModel, columns: tuple[str, ...], request: str | None) -> Any:
        """What is done with a cluster model of some columns."""

    def _independent_rows(self, contribution: Contribution | None) -> None:
        """Tests take rows as independent, which several rows of one unit are not."""
        limits = self.schema.contribution(contribution)
        if limits.total != 1 and (limits.groups, limits.rows) != (1, 1):
            raise InvalidParameter(
                "contribution",
                limits,
                "a test needs independent rows, so at most one of each unit",
                "Pass contribution=Contribution(total=1); in a plan file, total = 1.",
            )

    @property
    def _questions(self) -> Questions:
        return Questions(self.schema)

    def count(
        self,
        guarantee: Guarantee,
        *,
        by: str | Sequence[str] = (),
        contribution: Contribution | None = None,
        request: str | None = None,
    ) -> Any:
        """Number of rows, in all or by group."""
        chosen = Selection(by=_names(by), contribution=contribution)
        return self._answer(self._questions.count(guarantee, chosen), request)

    def sum(
        self,
        column: str,
        guarantee: Guarantee,
        *,
        by: str | Sequence[str] = (),
        contribution: Contribution | None = None,
        unit_sum: Bounds | None = None,
        request: str | None = None,
    ) -> Any:
        """Total of a column, in all or by group."""
        chosen = Selection(by=_names(by), contribution=contribution, unit_sum=unit_sum)
        return self._answer(self._questions.sum(column, guarantee, chosen), request)

    def mean(
        self,
        column: str,
        guarantee: Guarantee,
        *,
        by: str | Sequence[str] = (),
        spread: bool = False,
        contribution: Contribution | None = None,
        unit_sum: Bounds | None = None,
        expected_rows: int | None = None,
        expected_mean: float | None = None,
        request: str | None = None,
    ) -> Any:
        """Mean of a column over rows, or over units with ``unit_sum``; in all or by group.

        ``spread`` releases the variance too, so that intervals include sampling error. What is expected serves plans
        only: the number of rows turns noise in sums into noise in the mean, which is the largest for a mean at an end
        of the bounds unless another one is expected.
        """
        requirements.instance("spread", spread, bool, "spread=True or False")
        chosen = Selection(by=_names(by), contribution=contribution, unit_sum=unit_sum)
        expected = Expected(rows=expected_rows, mean=expected_mean)
        return self._answer(self._questions.mean(column, guarantee, chosen, spread=spread, expected=expected), request)

    def proportion(
        self,
        column: str,
        label: Any,
        guarantee: Guarantee,
        *,
        by: str | Sequence[str] = (),
        contribution: Contribution | None = None,
        expected_rows: int | None = None,
        expected_share: float | None = None,
        request: str | None = None,
    ) -> Any:
        """Share of rows with a label, in all or by group; what is expected serves plans only, as in `mean`."""
        chosen = Selection(by=_names(by), contribution=contribution)
        expected = Expected(rows=expected_rows, mean=expected_share)
        return self._answer(self._questions.proportion(column, label, guarantee, chosen, expected), request)

    def variance(
        self,
        column: str,
        guarantee: Guarantee,
        *,
        by: str | Sequence[str] = (),
        contribution: Contribution | None = None,
        unit_sum: Bounds | None = None,
        expected_rows: int | None = None,
        expected_mean: float | None = None,
        request: str | None = None,
    ) -> Any:
        """Variance of a column; where the number of rows is private, together with the mean."""
        chosen = Selection(by=_names(by), contribution=contribution, unit_sum=unit_sum)
        expected = Expected(rows=expected_rows, mean=expected_mean)
        return self._answer(self._questions.variance(column, guarantee, chosen, expected), request)

    def covariance_matrix(
        self,
        columns: Sequence[str],
        guarantee: Guarantee,
        *,
        contribution: Contribution | None = None,
        expected_rows: int | None = None,
        request: str | None = None,
    ) -> Any:
        """Covariance matrix of several columns; where the number of rows is private, together with the means."""
        chosen, expected = Selection(contribution=contribution), Expected(rows=expected_rows)
        return self._answer(self._questions.covariance_matrix(_names(columns), guarantee, chosen, expected), request)

    def quantile(
        self,
        column: str,
        probabilities: float | Sequence[float],
        guarantee: Guarantee,
        *,
        by: str | Sequence[str] = (),
        interval: float | None = None,
        rows_at_least: int | None = None,
        recursive: bool = False,
        contribution: Contribution | None = None,
        unit_sum: Bounds | None = None,
        request: str | None = None,
    ) -> Any:
        """Quantiles of a column, in all or by group, with intervals where a level is given."""
        requirements.instance("recursive", recursive, bool, "recursive=True or False")
        chosen = Selection(by=_names(by), contribution=contribution, unit_sum=unit_sum)
        question = self._questions.quantile(
            column,
            probabilities,
            guarantee,
            chosen,
            interval=interval,
            rows_at_least=rows_at_least,
            recursive=recursive,
        )
        return self._answer(question, request)

    def histogram(
        self,
        column: str,
        guarantee: Guarantee,
        *,
        edges: Sequence[float] | None = None,
        contribution: Contribution | None = None,
        unit_sum: Bounds | None = None,
        request: str | None = None,
    ) -> Any:
        """Counts by the labels of a column, or by public bins of a number."""
        chosen = Selection(contribution=contribution, unit_sum=unit_sum)
        if not isinstance(self.schema.column(column), Bounds):
            return self._answer(self._questions.table((column,), guarantee, chosen), request)
        if edges is None:
            raise InvalidParameter("edges", None, "bins of a number need public edges", "Pass edges=[0, 10, 20].")
        return self._answer(self._questions.histogram(column, edges, guarantee, chosen), request)

    def table(
        self,
        columns: str | Sequence[str],
        guarantee: Guarantee,
        *,
        contribution: Contribution | None = None,
        request: str | None = None,
    ) -> Any:
        """Counts by the labels of one or more columns."""
        chosen = Selection(contribution=contribution)
        return self._answer(self._questions.table(_names(columns), guarantee, chosen), request)

    def tables(
        self,
        tables: Sequence[str | Sequence[str]],
        guarantee: Guarantee,
        *,
        weights: Weights = "tables",
        accuracy: Accuracy = "sum",
        mean_of: str | None = None,
        public_total: int | None = None,
        impossible: Sequence[Mapping[str, Any]] = (),
        contribution: Contribution | None = None,
        request: str | None = None,
    ) -> Any:
        """Several tables in one release: they add up, and so do all of their margins.

        ``weights`` weigh the mean squared error of each table (``"tables"``: all alike; ``"cells"``: by size).
        ``accuracy`` says whether the weighted ``"sum"`` or the ``"largest"`` of these errors is made least. With
        ``mean_of``, half of the budget measures the mean of a number in every cell. ``public_total`` is the number of
        rows where it is known without the data; ``impossible`` lists cells that cannot have rows (see `hierarchy`).
        """
        question = tables_question(
            self.schema, tables, guarantee, weights=weights, accuracy=accuracy, mean_of=mean_of,
            public_total=public_total, impossible=impossible, contribution=contribution,
        )  # fmt: skip
        return self._answer(question, request)

    def mode(
        self,
        column: str,
        guarantee: Guarantee,
        *,
        contribution: Contribution | None = None,
        request: str | None = None,
    ) -> Any:
        """The most frequent label of a column; only the choice is published, no count."""
        chosen = Selection(contribution=contribution)
        return self._answer(self._questions.mode(column, guarantee, chosen), request)

    def groups(
        self,
        column: str,
        guarantee: Guarantee,
        *,
        contribution: Contribution | None = None,
        method: str = "best",
        request: str | None = None,
    ) -> Any:
        """Which labels of an unlisted column are common enough to be shown, at (ε, δ).

        A unit counts once for each of its labels that it keeps. A label that only one unit holds is shown with
        probability δ at most; the plan says from which size on groups are shown. Declare the found list with
        `Session.declaring` to release anything by it.
        """
        from discreet.questions.group_questions import GroupQuestion

        question = GroupQuestion(
            schema=self.schema, column=column, guarantee=guarantee, contribution=contribution, method=method
        )
        return self._selected(question, request)

    def goodness_of_fit(
        self,
        column: str,
        probabilities: Sequence[float],
        guarantee: Guarantee,
        *,
        contribution: Contribution | None = None,
        expected_rows: int | None = None,
        request: str | None = None,
    ) -> Any:
        """Test whether the labels of a column have given shares; releases the table and tests it."""
        from discreet.inference.chi_square import cell_probabilities, goodness_of_fit

        self._independent_rows(contribution)
        cells = self.schema.cells((column,))
        shares = cell_probabilities(probabilities, cells)  # refuse before anything is spent
        answer = self.table(column, guarantee, contribution=contribution, request=request)
        return self._tested(
            lambda table: goodness_of_fit(table, shares, null=repeatable(table)),
            answer,
            df=cells - 1,
            cells=cells,
            rows=expected_rows,
        )

    def homogeneity(
        self,
        column: str,
        by: str,
        guarantee: Guarantee,
        *,
        contribution: Contribution | None = None,
        expected_rows: int | None = None,
        request: str | None = None,
    ) -> Any:
        """Test whether the labels of a column are distributed alike in all groups."""
        from discreet.inference.chi_square import homogeneity

        self._independent_rows(contribution)
        df, cells = self._two_way((by, column))
        answer = self.table((by, column), guarantee, contribution=contribution, request=request)
        return self._tested(
            lambda table: homogeneity(groups_of(table), null=repeatable(table)),
            answer,
            df=df,
            cells=cells,
            rows=expected_rows,
        )

    def independence(
        self,
        columns: Sequence[str],
        guarantee: Guarantee,
        *,
        contribution: Contribution | None = None,
        expected_rows: int | None = None,
        request: str | None = None,
    ) -> Any:
        """Test whether two columns of labels are independent."""
        from discreet.inference.chi_square import independence

        self._independent_rows(contribution)
        df, cells = self._two_way(columns)
        answer = self.table(columns, guarantee, contribution=contribution, request=request)
        return self._tested(
            lambda table: independence(table, null=repeatable(table)), answer, df=df, cells=cells, rows=expected_rows
        )

    def _two_way(self, columns: str | Sequence[str]) -> tuple[int, int]:
        """Degrees of freedom and cells of a two-way table."""
        names = _names(columns)
        sizes = [self.schema.cells((name,)) for name in names]
        if len(sizes) != 2 or min(sizes) < 2:
            raise InvalidParameter(
                "columns", list(names), "must be two columns of at least two labels each", "Name two such columns."
            )
        return math.prod(size - 1 for size in sizes), math.prod(sizes)

    def compare_means(
        self,
        column: str,
        *,
        by: str,
        guarantee: Guarantee,
        partitions: int | None = None,
        partition_by: str | None = None,
        censor: tuple[float, float] = (0.1, 0.1),
        method: str | Method = "best",
        arm: str = "public",
        unit_sum: Bounds | None = None,
        spread: float | None = None,
        expected_rows: int | None = None,
        request: str | None = None,
    ) -> Any:
        """Compare a column's mean between two arms, over units; ``by`` has two labels, control first.

        A unit with an id counts once, in one arm, with its sum clipped to ``unit_sum`` (by default the column's own
        bounds). Its partition is a salted digest of its id, or its label in ``partition_by``. ``expected_rows``, the
        number of units in both arms, serves plans only. The other parameters are those of `discreet.compare_means`.
        """
        from discreet.questions.comparison.column import ColumnComparison

        comparison = ColumnComparison(
            schema=self.schema, column=column, by=by, guarantee=guarantee, partitions=partitions,
            partition_by=partition_by, censor=censor, method=method, arm=arm, unit_sum=unit_sum, spread=spread,
            expected_rows=expected_rows,
        )  # fmt: skip
        return self._compared(comparison, request)

    def clusters(
        self,
        columns: Sequence[str],
        n_clusters: int,
        guarantee: Guarantee,
        *,
        universe: Sequence[Sequence[float]] | None = None,
        iterations: int | None = None,
        expected_rows: int | None = None,
        request: str | None = None,
    ) -> Any:
        """Centres of clusters of numeric columns; rows are the units.

        k-means centres (`DPLloyd`), or with a public ``universe`` of positions the k-median centres
        among them (`KMedian`). ``expected_rows`` sets the number of iterations of k-means where
        ``iterations`` does not.
        """
        from discreet.questions.clusters.of_columns import cluster_model

        names = _names(columns)
        model = cluster_model(
            self.schema, names, n_clusters, guarantee,
            universe=universe, iterations=iterations, expected_rows=expected_rows,
        )  # fmt: skip
        return self._clustered(model, names, request)


def _names(by: str | Sequence[str]) -> tuple[str, ...]:
    names: tuple[Any, ...] = (by,) if isinstance(by, str) or not isinstance(by, Sequence) else tuple(by)
    if not all(isinstance(name, str) for name in names):
        raise WrongType("by", by, "must be names of columns", 'Pass by="region", or by=["region", "sex"].')
    if len(set(names)) != len(names):
        raise InvalidParameter("by", by, "must not repeat a column", "Name each column once.")
    return names
