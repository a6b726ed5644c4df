"""Bounding: no unit contributes more than was declared, and every value lies on its public grid."""

from discreet.core.rows.bounded import Bounded, Totals

__all__ = ["Bounded", "Totals"]
