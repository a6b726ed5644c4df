"""Questions: what can be asked of a data set, described from public facts alone."""

from discreet.questions.counts import CountQuestions
from discreet.questions.moments import MomentQuestions
from discreet.questions.quantiles import QuantileQuestions
from discreet.questions.question import Expected, Question, Selection

__all__ = ["Expected", "Question", "Questions", "Selection"]


class Questions(CountQuestions, MomentQuestions, QuantileQuestions):
    """Makes questions about data that a schema describes."""
