"""Questions: what can be asked of a data set, described from public facts alone.

The list below is the only one. Sessions, planners, plan files, skeletons and the help of the command line follow it.
"""

from typing import Any

from discreet.questions.clusters.question import ClustersQuestion
from discreet.questions.comparison.many import ArmsQuestion
from discreet.questions.comparison.question import ComparisonQuestion
from discreet.questions.count import CountQuestion
from discreet.questions.covariance_matrix import CovarianceMatrixQuestion
from discreet.questions.distinct import DistinctQuestion
from discreet.questions.groups import GroupsQuestion
from discreet.questions.histogram import HistogramQuestion
from discreet.questions.left_out import LeftOutQuestion
from discreet.questions.mean import MeanQuestion
from discreet.questions.mode import ModeQuestion
from discreet.questions.ordered_tests import KolmogorovSmirnovQuestion, RankCorrelationQuestion, RankTestQuestion
from discreet.questions.profile.question import ProfileQuestion
from discreet.questions.proportion import ProportionQuestion
from discreet.questions.quality import QualityQuestion
from discreet.questions.quantile import QuantileQuestion
from discreet.questions.question import MeasuredQuestion, Question
from discreet.questions.regression.linear import RegressionQuestion
from discreet.questions.regression.logistic import LogisticQuestion
from discreet.questions.running_total import RunningTotalQuestion
from discreet.questions.signed_rank import SignedRankQuestion
from discreet.questions.sum import SumQuestion
from discreet.questions.tables.margins import TablesQuestion
from discreet.questions.tables.table import TableQuestion
from discreet.questions.tables.tests import GoodnessOfFitQuestion, HomogeneityQuestion, IndependenceQuestion
from discreet.questions.variance import StandardDeviationQuestion, VarianceQuestion

__all__ = ["QUESTIONS", "MeasuredQuestion", "Question", "asked"]

QUESTIONS: list[type[Question[Any]]] = [
    ProfileQuestion,
    QualityQuestion,
    LeftOutQuestion,
    CountQuestion,
    SumQuestion,
    RunningTotalQuestion,
    MeanQuestion,
    ProportionQuestion,
    VarianceQuestion,
    StandardDeviationQuestion,
    CovarianceMatrixQuestion,
    RegressionQuestion,
    LogisticQuestion,
    QuantileQuestion,
    HistogramQuestion,
    TableQuestion,
    TablesQuestion,
    ModeQuestion,
    GroupsQuestion,
    DistinctQuestion,
    GoodnessOfFitQuestion,
    HomogeneityQuestion,
    IndependenceQuestion,
    RankTestQuestion,
    KolmogorovSmirnovQuestion,
    RankCorrelationQuestion,
    SignedRankQuestion,
    ComparisonQuestion,
    ArmsQuestion,
    ClustersQuestion,
]
"""Every question, in the order in which people meet them."""


def asked() -> dict[str, type[Question[Any]]]:
    """The questions by the names under which sessions and plan files ask them."""
    return {kind.ask: kind for kind in QUESTIONS}
