"""Omission: leaving out rows before a mechanism, and what that does to its guarantee."""

from discreet.omission.step import Omission, OutlierSuppression, PoissonSample, omission_from_dict

__all__ = ["Omission", "OutlierSuppression", "PoissonSample", "omission_from_dict"]
