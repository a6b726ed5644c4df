"""Whole counts: what is shown of a noisy count, and of its interval."""

from __future__ import annotations

import numpy as np

from discreet.core.noise.truth import Floats, plain

__all__ = ["whole_count", "whole_interval"]


def whole_count(measured: Floats) -> Floats:
    """The count nearest to a noisy one: whole, and not below 0."""
    return plain(np.maximum(np.floor(np.asarray(measured, dtype=float) + 0.5), 0.0))


def whole_interval(low: Floats, high: Floats, shown: Floats) -> tuple[Floats, Floats]:
    """The counts within an interval, together with the one that is shown.

    Nothing is lost: the truth is a count, so it lies in an interval if and only if it is one of the counts in it.
    """
    # Ends that are whole but for rounding errors are whole.
    first, last = np.ceil(np.asarray(low) - 1e-9), np.floor(np.asarray(high) + 1e-9)
    return plain(np.minimum(np.maximum(first, 0.0), shown)), plain(np.maximum(last, shown))
