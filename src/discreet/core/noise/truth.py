"""Truth: a true value as it is handed to a mechanism, and the kinds of numbers around it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet.core.errors import InvalidParameter, WrongType

__all__ = ["Floats", "Truth", "float_truth", "generator", "plain", "saturated"]

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


def saturated(truth: Truth) -> Truth:
    """The truth, with whole numbers and fractions beyond the largest float moved to it.

    Whether a sum is that large may depend on one row, so it must not decide between an answer and an error. Two truths
    are never further apart afterwards: a sensitivity still holds.

    Examples
    --------
    >>> saturated(10**400) == sys.float_info.max
    True
    """
    try:
        np.asarray(truth, dtype=float)
    except OverflowError:
        largest = int(sys.float_info.max)
        given = np.asarray(truth, dtype=object)
        moved = [min(max(one, -largest), largest) if isinstance(one, int | Fraction) else one for one in given.ravel()]
        return cast(Truth, moved[0] if given.ndim == 0 else np.array(moved, dtype=object).reshape(given.shape))
    except (TypeError, ValueError):  # `float_truth` says what is wrong with it
        pass
    return truth


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
