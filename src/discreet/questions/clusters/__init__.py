"""Clustering: k-means and k-median under differential privacy."""

from discreet.questions.clusters.kmedian import KMedian
from discreet.questions.clusters.lloyd import DPLloyd

__all__ = ["DPLloyd", "KMedian"]
