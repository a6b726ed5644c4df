"""Statistics: what is measured, with its public domain and its sensitivity."""

from discreet.statistics.statistic import Statistic, statistic_from_dict

__all__ = ["Statistic", "statistic_from_dict"]
