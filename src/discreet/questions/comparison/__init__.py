"""Comparing: private comparisons of arms' means. The rooms in the order of the data flow: arms, spending, methods."""

from discreet.questions.comparison.compare import compare_means
from discreet.questions.comparison.many import compare_arms

__all__ = ["compare_arms", "compare_means"]
