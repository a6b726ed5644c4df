"""Comparing: private comparisons of arms' means. The rooms in the order of the data flow: arms, spending, methods."""

from discreet.questions.comparison.compare import compare_arms, compare_means

__all__ = ["compare_arms", "compare_means"]
