"""Facade: every question as a typed method of whatever can ask it.

``session.mean`` has the signature of `MeanQuestion` without its schema. The same line serves sessions, which answer;
sessions by groups, which answer for each group; and planners, which say what an answer would be worth.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from threading import RLock
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from discreet import questions
from discreet.core.errors import WrongType, spelling
from discreet.core.schema import Schema
from discreet.questions.grouped import GroupedRelease
from discreet.questions.question import Question

if TYPE_CHECKING:
    from discreet.plans.planner import Planner
    from discreet.session import Groups, Session


P = ParamSpec("P")
A = TypeVar("A")

_IMPORTING = RLock()
# A child that is forked in the middle of an import would wait for that module forever: fork waits for it instead.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_IMPORTING.acquire, after_in_parent=_IMPORTING.release, after_in_child=_IMPORTING.release
    )


class Asked(Generic[P, A]):
    """A question as a method of whatever can ask it; ``named`` says which, when it is first asked.

    So a session imports the questions that it is asked, and no others.
    """

    def __init__(self, named: Callable[[], Callable[Concatenate[Schema, P], Question[A]]]) -> None:
        self._named = named
        self._found: Callable[Concatenate[Schema, P], Question[A]] | None = None

    @property
    def question(self) -> Callable[Concatenate[Schema, P], Question[A]]:
        """The class of the question."""
        if self._found is None:  # no cached property: before Python 3.12 it has a lock that a fork may leave held
            with _IMPORTING:
                self._found = self._named()
        return self._found

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
            with owner._use:  # making the question takes locks already
                _check_names(self.question, settings, named)
                return owner.ask(self.question(owner.schema, *settings, **named))

        ask.__doc__ = self.question.__doc__
        vars(ask)["__signature__"] = _signature(self.question)
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
        fix = f"Write epsilon=1.0 (or delta=, rho=, mu=); by name go {', '.join(question.settings())}, too."
        raise WrongType("setting", value, "must be given by name", fix)
    for name in named:
        if name not in known:
            raise WrongType(name, named[name], f"is not a setting of {question.ask}", spelling(name, [*known]))


class Questions:
    """Every question, in the order in which people meet them: the only list.

    ``mean("age", epsilon=0.5)`` is short for ``ask(MeanQuestion(schema, "age", epsilon=0.5))``.
    """

    _use: AbstractContextManager[None] = nullcontext()
    """The context in which a question is made and asked."""

    profile = Asked(lambda: questions.ProfileQuestion)
    usable_values = Asked(lambda: questions.UsableValuesQuestion)
    dropped_rows = Asked(lambda: questions.DroppedRowsQuestion)
    count = Asked(lambda: questions.CountQuestion)
    sum = Asked(lambda: questions.SumQuestion)
    running_total = Asked(lambda: questions.RunningTotalQuestion)
    mean = Asked(lambda: questions.MeanQuestion)
    proportion = Asked(lambda: questions.ProportionQuestion)
    variance = Asked(lambda: questions.VarianceQuestion)
    std = Asked(lambda: questions.StandardDeviationQuestion)
    covariance_matrix = Asked(lambda: questions.CovarianceMatrixQuestion)
    regression = Asked(lambda: questions.RegressionQuestion)
    slope = Asked(lambda: questions.SlopeQuestion)
    logistic_regression = Asked(lambda: questions.LogisticQuestion)
    quantile = Asked(lambda: questions.QuantileQuestion)
    median = Asked(lambda: questions.MedianQuestion)
    histogram = Asked(lambda: questions.HistogramQuestion)
    table = Asked(lambda: questions.TableQuestion)
    tables = Asked(lambda: questions.TablesQuestion)
    mode = Asked(lambda: questions.ModeQuestion)
    common_labels = Asked(lambda: questions.GroupsQuestion)
    distinct = Asked(lambda: questions.DistinctQuestion)
    goodness_of_fit = Asked(lambda: questions.GoodnessOfFitQuestion)
    homogeneity = Asked(lambda: questions.HomogeneityQuestion)
    independence = Asked(lambda: questions.IndependenceQuestion)
    rank_test = Asked(lambda: questions.RankTestQuestion)
    kolmogorov_smirnov = Asked(lambda: questions.KolmogorovSmirnovQuestion)
    rank_correlation = Asked(lambda: questions.RankCorrelationQuestion)
    signed_rank = Asked(lambda: questions.SignedRankQuestion)
    compare_means = Asked(lambda: questions.ComparisonQuestion)
    compare_arms = Asked(lambda: questions.ArmsQuestion)
    clusters = Asked(lambda: questions.ClustersQuestion)

    if not TYPE_CHECKING:  # to a type checker, what is not listed is not there

        def __getattr__(self, name: str) -> Any:
            found = repr(name) if name.startswith("_") else f"there is no question {name!r}. {meant(name)}"
            raise AttributeError(found, name=name, obj=self)


class _Listed(Mapping[str, Any]):
    """The questions by name; each is imported when it is looked up."""

    def __init__(self) -> None:
        self._asked = {name: one for name, one in vars(Questions).items() if isinstance(one, Asked)}

    def __getitem__(self, name: str) -> Any:
        return self._asked[name].question

    def __iter__(self) -> Iterator[str]:
        return iter(self._asked)

    def __len__(self) -> int:
        return len(self._asked)


def asked() -> Mapping[str, Any]:
    """The questions by the names under which sessions and plan files ask them."""
    return _Listed()


def meant(name: Any, among: Mapping[str, Any] | None = None) -> str:
    """A fix for a question that is not there, or not among some: what it is called here, or the nearest name.

    Examples
    --------
    >>> meant("average"), meant("cuont")
    ("Here it is 'mean'.", "Did you mean 'count'?")
    """
    known = among or asked()
    here = next((ask for ask, one in known.items() if str(name).lower() in one.also), None)
    return f"Here it is {here!r}." if here else spelling(name, known)
