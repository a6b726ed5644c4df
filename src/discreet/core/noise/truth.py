"""Truth: a true value as it is handed to a mechanism, and the kinds of numbers around it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.errors import InvalidParameter, WrongType

__all__ = ["Floats", "Truth", "float_truth", "generator", "plain"]

Floats = float | NDArray[np.float64]
Truth = float | int | Fraction | Sequence[Any] | NDArray[Any]
"""A true value: numbers are exact as they stand; fractions keep quotients such as means exact."""


def float_truth(truth: Truth) -> NDArray[np.float64]:
    """The truth as floats, for densities and moments; refuses what is not finite and real."""
    try:
        if np.asarray(truth).dtype.kind in "mM":  # times are no numbers, though numpy counts them
            raise TypeError
        array = np.asarray(truth, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise WrongType("truth", "…", "must be a real number or an array of them", "Pass numbers.") from None
    if not np.all(np.isfinite(array)):
        raise InvalidParameter("truth", "…", "must be finite everywhere", "Remove NaN and infinities first.")
    return array


def plain(values: Any) -> Floats:
    """A float for a single number, otherwise an array."""
    return float(values) if np.ndim(values) == 0 else np.asarray(values)


def generator(rng: Any) -> np.random.Generator:
    """The numpy generator behind a seed or a generator, for simulations only."""
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer) or rng < 0:
        raise WrongType("rng", rng, "must be None, a seed ≥ 0 or a numpy Generator", "Pass rng=7 to simulate.")
    return np.random.default_rng(int(rng))
