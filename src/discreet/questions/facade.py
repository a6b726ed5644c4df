"""Facade: every question as a typed method of whatever can ask it.

``session.mean`` has the signature of `MeanQuestion` without its schema. The same line serves sessions, which answer;
sessions by groups, which answer for each group; and planners, which say what an answer would be worth.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from discreet.core.errors import WrongType, spelling
from discreet.core.schema import Schema
from discreet.questions.clusters.question import ClustersQuestion
from discreet.questions.common_labels import GroupsQuestion
from discreet.questions.comparison.many import ArmsQuestion
from discreet.questions.comparison.question import ComparisonQuestion
from discreet.questions.count import CountQuestion
from discreet.questions.covariance_matrix import CovarianceMatrixQuestion
from discreet.questions.distinct import DistinctQuestion
from discreet.questions.dropped_rows import DroppedRowsQuestion
from discreet.questions.grouped import GroupedRelease
from discreet.questions.histogram import HistogramQuestion
from discreet.questions.mean import MeanQuestion
from discreet.questions.mode import ModeQuestion
from discreet.questions.ordered_tests import KolmogorovSmirnovQuestion, RankCorrelationQuestion, RankTestQuestion
from discreet.questions.profile.question import ProfileQuestion
from discreet.questions.proportion import ProportionQuestion
from discreet.questions.quantile import MedianQuestion, QuantileQuestion
from discreet.questions.question import Question
from discreet.questions.regression.linear import RegressionQuestion
from discreet.questions.regression.logistic import LogisticQuestion
from discreet.questions.running_total import RunningTotalQuestion
from discreet.questions.signed_rank import SignedRankQuestion
from discreet.questions.sum import SumQuestion
from discreet.questions.tables.margins import TablesQuestion
from discreet.questions.tables.table import TableQuestion
from discreet.questions.tables.tests import GoodnessOfFitQuestion, HomogeneityQuestion, IndependenceQuestion
from discreet.questions.usable_values import UsableValuesQuestion
from discreet.questions.variance import StandardDeviationQuestion, VarianceQuestion

if TYPE_CHECKING:
    from discreet.plans.planner import Planner
    from discreet.session import Groups, Session

__all__ = ["QUESTIONS", "Asked", "Questions", "asked"]

P = ParamSpec("P")
A = TypeVar("A")


class Asked(Generic[P, A]):
    """A question as a method of whatever can ask it."""

    def __init__(self, question: Callable[Concatenate[Schema, P], Question[A]]) -> None:
        self.question = question

    @overload
    def __get__(self, owner: None, kind: Any = None) -> Asked[P, A]: ...
    @overload
    def __get__(self, owner: Session, kind: Any = None) -> Callable[P, A]: ...
    @overload
    def __get__(self, owner: Groups, kind: Any = None) -> Callable[P, GroupedRelease[Any]]: ...
    @overload
    def __get__(self, owner: Planner, kind: Any = None) -> Callable[P, Any]: ...
    def __get__(self, owner: Any, kind: Any = None) -> Any:
        if owner is None:
            return self

        def ask(*settings: P.args, **named: P.kwargs) -> Any:
            _check_names(self.question, settings, named)
            return owner.ask(self.question(owner.schema, *settings, **named))

        ask.__doc__, vars(ask)["__signature__"] = self.question.__doc__, _signature(self.question)
        return ask


@lru_cache
def _signature(question: Callable[..., Any]) -> inspect.Signature:
    """The signature of a question, without its schema."""
    whole = inspect.signature(question)
    return whole.replace(parameters=[one for one in whole.parameters.values() if one.name != "schema"])


def _check_names(question: Any, settings: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Refuse a setting that the question does not have, with the one that is meant, and one that needs its name."""
    known = _signature(question).parameters
    placed = sum(one.kind is one.POSITIONAL_OR_KEYWORD for one in known.values())
    for value in settings[placed:]:
        fix = "Write epsilon=1.0 (or delta=, rho=, mu=), or guarantee= with an object."
        raise WrongType("guarantee", value, "must be given by name, as every setting", fix)
    for name in named:
        if name not in known:
            raise WrongType(name, named[name], f"is not a setting of {question.ask}", spelling(name, [*known]))


class Questions:
    """Every question, in the order in which people meet them: the only list.

    ``mean("age", epsilon=0.5)`` is short for ``ask(MeanQuestion(schema, "age", epsilon=0.5))``.
    """

    profile = Asked(ProfileQuestion)
    usable_values = Asked(UsableValuesQuestion)
    dropped_rows = Asked(DroppedRowsQuestion)
    count = Asked(CountQuestion)
    sum = Asked(SumQuestion)
    running_total = Asked(RunningTotalQuestion)
    mean = Asked(MeanQuestion)
    proportion = Asked(ProportionQuestion)
    variance = Asked(VarianceQuestion)
    std = Asked(StandardDeviationQuestion)
    covariance_matrix = Asked(CovarianceMatrixQuestion)
    regression = Asked(RegressionQuestion)
    logistic_regression = Asked(LogisticQuestion)
    quantile = Asked(QuantileQuestion)
    median = Asked(MedianQuestion)
    histogram = Asked(HistogramQuestion)
    table = Asked(TableQuestion)
    tables = Asked(TablesQuestion)
    mode = Asked(ModeQuestion)
    common_labels = Asked(GroupsQuestion)
    distinct = Asked(DistinctQuestion)
    goodness_of_fit = Asked(GoodnessOfFitQuestion)
    homogeneity = Asked(HomogeneityQuestion)
    independence = Asked(IndependenceQuestion)
    rank_test = Asked(RankTestQuestion)
    kolmogorov_smirnov = Asked(KolmogorovSmirnovQuestion)
    rank_correlation = Asked(RankCorrelationQuestion)
    signed_rank = Asked(SignedRankQuestion)
    compare_means = Asked(ComparisonQuestion)
    compare_arms = Asked(ArmsQuestion)
    clusters = Asked(ClustersQuestion)


def asked() -> dict[str, Any]:
    """The questions by the names under which sessions and plan files ask them."""
    return {name: one.question for name, one in vars(Questions).items() if isinstance(one, Asked)}


QUESTIONS: list[type[Question[Any]]] = [kind for name, kind in asked().items() if kind.ask == name]
"""Every question, without the other names of some: a median is a quantile."""
