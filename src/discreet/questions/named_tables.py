"""Named questions about tables: each as a method with its own signature and the type of its answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, Unpack

from discreet.core.guarantee import Guarantee
from discreet.core.schema import Contribution, Schema
from discreet.mechanisms.tables.margins import Accuracy
from discreet.questions.ordered_tests import KolmogorovSmirnovQuestion, RankCorrelationQuestion, RankTestQuestion
from discreet.questions.question import Question
from discreet.questions.signed_rank import SignedRankQuestion, SignedRankRelease
from discreet.questions.spending import Spend, spending
from discreet.questions.tables.margins import MarginsRelease, TablesQuestion, Weights
from discreet.questions.tables.table import TableQuestion, TableRelease
from discreet.questions.tables.tests import (
    GoodnessOfFitQuestion,
    HomogeneityQuestion,
    IndependenceQuestion,
    TestedRelease,
)

__all__ = ["NamedTables"]

A = TypeVar("A")


class NamedTables(ABC):
    """Questions about labels: tables, and tests of tables."""

    schema: Schema

    @abstractmethod
    def ask(self, question: Question[A], request: str | None = None) -> A:
        """Answer a question."""

    def table(
        self, columns: str | Sequence[str], guarantee: Guarantee | None = None, *,
        contribution: Contribution | None = None, request: str | None = None, **spend: Unpack[Spend],
    ) -> TableRelease:  # fmt: skip
        """Counts by the labels of one or more columns."""
        return self.ask(
            TableQuestion(self.schema, columns, spending(TableQuestion, guarantee, spend), contribution=contribution),
            request,
        )

    def tables(
        self, tables: Sequence[str | Sequence[str]], guarantee: Guarantee | None = None, *, weights: Weights = "tables",
        accuracy: Accuracy = "sum", mean_of: str | None = None, public_total: int | None = None,
        impossible: Sequence[Mapping[str, Any]] = (), bins: Mapping[str, int | Sequence[float]] | None = None,
        presented: bool = True, contribution: Contribution | None = None, request: str | None = None,
        **spend: Unpack[Spend],
    ) -> MarginsRelease:  # fmt: skip
        """Several tables in one release: they add up, and so do all of their margins.

        ``weights`` weigh the mean squared error of each table (``"tables"``: all alike; ``"cells"``: by size).
        ``accuracy`` says whether the weighted ``"sum"`` or the ``"largest"`` of these errors is made least. With
        ``mean_of``, half of the budget measures the mean of a number in every cell. ``public_total`` is the number of
        rows where it is known without the data; ``impossible`` lists cells that cannot have rows (see `hierarchy`).
        ``bins`` gives the edges, or the number, of the bins of each number that a table names.
        """
        question = TablesQuestion(
            self.schema,
            tables,
            spending(TablesQuestion, guarantee, spend),
            weights=weights,
            accuracy=accuracy,
            mean_of=mean_of,
            public_total=public_total,
            impossible=impossible,
            bins=bins,
            presented=presented,
            contribution=contribution,
        )
        return self.ask(question, request)

    def goodness_of_fit(
        self, column: str, probabilities: Sequence[float], guarantee: Guarantee | None = None, *,
        contribution: Contribution | None = None, expected_rows: int | None = None, request: str | None = None,
        **spend: Unpack[Spend],
    ) -> TestedRelease:  # fmt: skip
        """Test whether the labels of a column have given shares; releases the table and tests it."""
        question = GoodnessOfFitQuestion(
            self.schema,
            column,
            probabilities,
            spending(GoodnessOfFitQuestion, guarantee, spend),
            contribution=contribution,
            expected_rows=expected_rows,
        )
        return self.ask(question, request)

    def homogeneity(
        self, column: str, by: str, guarantee: Guarantee | None = None, *, contribution: Contribution | None = None,
        expected_rows: int | None = None, request: str | None = None, **spend: Unpack[Spend],
    ) -> TestedRelease:  # fmt: skip
        """Test whether the labels of a column are distributed alike in all groups."""
        question = HomogeneityQuestion(
            self.schema,
            column,
            by,
            spending(HomogeneityQuestion, guarantee, spend),
            contribution=contribution,
            expected_rows=expected_rows,
        )
        return self.ask(question, request)

    def independence(
        self, columns: Sequence[str], guarantee: Guarantee | None = None, *, contribution: Contribution | None = None,
        expected_rows: int | None = None, request: str | None = None, **spend: Unpack[Spend],
    ) -> TestedRelease:  # fmt: skip
        """Test whether two columns of labels are independent."""
        question = IndependenceQuestion(
            self.schema,
            columns,
            spending(IndependenceQuestion, guarantee, spend),
            contribution=contribution,
            expected_rows=expected_rows,
        )
        return self.ask(question, request)

    def rank_test(
        self, column: str, by: str, guarantee: Guarantee | None = None, *, edges: Sequence[float] | None = None,
        bins: int | None = None, contribution: Contribution | None = None, expected_rows: int | None = None,
        request: str | None = None, **spend: Unpack[Spend],
    ) -> TestedRelease:  # fmt: skip
        """Test whether groups differ in the ranks of a column: Mann and Whitney for two, Kruskal and Wallis for more.

        A number needs public ``edges`` of bins, or ``bins`` of one width; labels count in their declared order.
        """
        question = RankTestQuestion(
            self.schema,
            column,
            by,
            spending(RankTestQuestion, guarantee, spend),
            edges=edges,
            bins=bins,
            contribution=contribution,
            expected_rows=expected_rows,
        )
        return self.ask(question, request)

    def kolmogorov_smirnov(
        self, column: str, by: str, guarantee: Guarantee | None = None, *, edges: Sequence[float] | None = None,
        bins: int | None = None, contribution: Contribution | None = None, expected_rows: int | None = None,
        request: str | None = None, **spend: Unpack[Spend],
    ) -> TestedRelease:  # fmt: skip
        """Test whether a column is distributed alike in all groups, by the largest distance of distributions.

        A number needs public ``edges`` of bins, or ``bins`` of one width; labels count in their declared order.
        """
        question = KolmogorovSmirnovQuestion(
            self.schema,
            column,
            by,
            spending(KolmogorovSmirnovQuestion, guarantee, spend),
            edges=edges,
            bins=bins,
            contribution=contribution,
            expected_rows=expected_rows,
        )
        return self.ask(question, request)

    def rank_correlation(
        self, columns: Sequence[str], guarantee: Guarantee | None = None, *,
        bins: Mapping[str, int | Sequence[float]] | None = None, contribution: Contribution | None = None,
        expected_rows: int | None = None, request: str | None = None, **spend: Unpack[Spend],
    ) -> TestedRelease:  # fmt: skip
        """Test whether two ordered columns go together, by Spearman's correlation of their ranks.

        Each number needs ``bins``: public edges, or how many of one width; labels count in their declared order.
        """
        question = RankCorrelationQuestion(
            self.schema,
            columns,
            spending(RankCorrelationQuestion, guarantee, spend),
            bins=bins,
            contribution=contribution,
            expected_rows=expected_rows,
        )
        return self.ask(question, request)

    def signed_rank(
        self, column: str, against: str | float, guarantee: Guarantee | None = None, *, method: str = "ranks",
        contribution: Contribution | None = None, expected_rows: int | None = None, request: str | None = None,
        **spend: Unpack[Spend],
    ) -> SignedRankRelease:  # fmt: skip
        """Test whether two numbers of a row differ one way, such as after and before: Wilcoxon's signed ranks.

        ``against`` is another column, or a public value. ``method="signs"`` tests the signs of the
        differences alone.
        """
        question = SignedRankQuestion(
            self.schema,
            column,
            against,
            spending(SignedRankQuestion, guarantee, spend),
            method=method,
            contribution=contribution,
            expected_rows=expected_rows,
        )
        return self.ask(question, request)
