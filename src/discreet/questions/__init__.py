"""Questions: what can be asked of a data set, described from public facts alone."""

from discreet.questions.count_questions import CountQuestions
from discreet.questions.moment_questions import MomentQuestions
from discreet.questions.quantile_questions import QuantileQuestions
from discreet.questions.question import Expected, Question, Selection

__all__ = ["Expected", "Question", "Questions", "Selection"]


class Questions(CountQuestions, MomentQuestions, QuantileQuestions):
    """Makes questions about data that a schema describes."""
