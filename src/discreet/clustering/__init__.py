"""Clustering: k-means and k-median under differential privacy."""

from discreet.clustering.kmedian import KMedian
from discreet.clustering.lloyd import DPLloyd

__all__ = ["DPLloyd", "KMedian"]
