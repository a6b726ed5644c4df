"""Questions: what can be asked of a data set, described from public facts alone.

The list is `discreet.questions.facade.Questions`. Sessions, planners, plan files, skeletons and the help of the command
line follow it.
"""

from typing import Any

from discreet.questions.facade import Asked, Questions
from discreet.questions.question import MeasuredQuestion, Question

__all__ = ["QUESTIONS", "MeasuredQuestion", "Question", "asked"]


def asked() -> dict[str, Any]:
    """The questions by the names under which sessions and plan files ask them."""
    return {name: one.question for name, one in vars(Questions).items() if isinstance(one, Asked)}


QUESTIONS: list[type[Question[Any]]] = [kind for name, kind in asked().items() if kind.ask == name]
"""Every question, without the other names of some: a median is a quantile."""
