"""Law inversion: intervals for the truth behind a released value, from the known law of the noise.

A confidence set holds every truth for which the released value is not extreme. For a law whose distribution function
falls in the truth the set is an interval, and its ends are where a tail probability crosses a threshold. Proofs:
``docs/proofs/law_inversion.md``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.noise.law import Floats

if TYPE_CHECKING:
    from discreet.core.contract import Mechanism

__all__ = ["clamped_laplace_interval", "invert_law", "truncated_laplace_interval"]

Array = NDArray[np.float64]

_HALVINGS = 80
_FARTHEST = 2.0**60
"""How many standard deviations from the value an unbounded search goes at most."""


def _plain(values: Any) -> Floats:
    return float(values) if np.ndim(values) == 0 else np.asarray(values, dtype=float)


def _rise(x: Array) -> Array:
    return np.asarray(-np.expm1(-x))


def invert_law(
    mechanism: Mechanism,
    value: ArrayLike,
    level: float = 0.95,
    domain: tuple[ArrayLike, ArrayLike] | None = None,
) -> tuple[Floats, Floats]:
    """Confidence interval for the truth behind a released value, coordinate by coordinate.

    Parameters
    ----------
    mechanism
        Any mechanism whose law's distribution function falls in the truth. Bounded mechanisms use their closed forms.
    value
        The released value or array of values.
    level
        Confidence level of each coordinate's interval.
    domain
        Public ends of the truth, where they are known; the interval is cut to them.

    Returns
    -------
    low, high
        The interval covers the truth with probability at least ``level``, whatever the truth is.

    Examples
    --------
    >>> from discreet import BoundedLaplace, Laplace
    >>> low, high = invert_law(BoundedLaplace(scale=0.1, bounds=(0, 1)), 0.02)
    >>> round(low, 4), round(high, 4)
    (0.0, 0.2697)
    >>> low, high = invert_law(Laplace(scale=0.1), 0.02, domain=(0, 1))
    >>> round(low, 4), round(high, 4)
    (0.0, 0.3196)
    """
    checked = requirements.level(level)
    closed = getattr(mechanism, "closed_interval", None)
    points = np.asarray(value, dtype=float)
    low, high = closed(points, checked) if closed is not None else _searched(mechanism, points, checked, domain)
    if domain is None:
        return _plain(low), _plain(high)
    start, end = (np.asarray(bound, dtype=float) for bound in domain)
    return _plain(np.clip(low, start, end)), _plain(np.clip(high, start, end))


def _searched(
    mechanism: Mechanism, value: Array, level: float, domain: tuple[ArrayLike, ArrayLike] | None
) -> tuple[Array, Array]:
    """Equal tails by bisection: the truths for which neither tail beyond the value is below (1 − level)/2."""
    tail = (1 - level) / 2
    law = mechanism.law(value)
    cell = np.asarray(getattr(law, "grid", 0.0)) / 2
    step = np.sqrt(np.broadcast_to(np.asarray(law.variance, dtype=float), value.shape))
    bottom, top = (
        np.broadcast_to(np.asarray(end, dtype=float), value.shape) for end in domain or (-math.inf, math.inf)
    )

    def above(truth: Array) -> Array:  # is the upper tail from the value, at this truth, large enough?
        return np.asarray(1 - np.asarray(mechanism.law(truth).cdf(value - cell)) >= tail)

    def below(truth: Array) -> Array:
        return np.asarray(np.asarray(mechanism.law(truth).cdf(value + cell)) >= tail)

    centre = np.clip(value, bottom, top)
    return _edge(above, centre, np.maximum(bottom, -1e300), -step), _edge(below, centre, np.minimum(top, 1e300), step)


def _edge(holds: Any, centre: Array, end: Array, step: Array) -> Array:
    """The farthest truth from ``centre`` towards ``end`` for which ``holds`` is true, rounded outwards."""
    inside, outside = centre.copy(), centre + step
    factor = 1.0
    while factor < _FARTHEST:
        outside = np.where(step < 0, np.maximum(centre + factor * step, end), np.minimum(centre + factor * step, end))
        further = holds(outside) & (outside != end)
        if not np.any(further):
            break
        factor *= 2
    inside = np.where(holds(outside), outside, inside)
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        good = holds(middle)
        inside, outside = np.where(good, middle, inside), np.where(good, outside, middle)
    return np.asarray(outside)


def clamped_laplace_interval(
    value: ArrayLike, level: float, scale: Array, lower: ArrayLike, upper: ArrayLike, grid: ArrayLike = 0.0
) -> tuple[Floats, Floats]:
    """Interval for a truth in [lower, upper] behind a clamped Laplace output: value ± b·ln(1/(1 − level)), cut.

    Clamping loses nothing here: the atom at an end is a tail event of the Laplace law.
    """
    points, reach = np.asarray(value, dtype=float), scale * -math.log(1 - level) + np.asarray(grid) / 2
    return _plain(np.clip(points - reach, lower, upper)), _plain(np.clip(points + reach, lower, upper))


def truncated_laplace_interval(
    value: ArrayLike, level: float, scale: Array, lower: ArrayLike, upper: ArrayLike, grid: ArrayLike = 0.0
) -> tuple[Floats, Floats]:
    """Interval for a truth in [lower, upper] behind a bounded Laplace output.

    A truth is kept where the value lies in the shortest region that holds it with probability ``level``, the points
    within d(truth) of the truth. The coverage is exactly ``level`` at every truth, the bounds included, and the
    interval always holds the value itself.
    """
    points, half = np.asarray(value, dtype=float), np.asarray(grid, dtype=float) / 2
    low_end, high_end = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
    right = np.clip(points + half, low_end, high_end)
    left = np.clip(points - half, low_end, high_end)
    above, below = (high_end - right) / scale, (left - low_end) / scale
    upward = _reach((right - low_end) / scale, above, 1 - level)
    downward = _reach((high_end - left) / scale, below, 1 - level)
    # An end that is reached is returned as such: a rounding error must not cut it off.
    high = np.where(upward >= above, high_end, right + scale * upward)
    low = np.where(downward >= below, low_end, left - scale * downward)
    return _plain(np.clip(low, low_end, high_end)), _plain(np.clip(high, low_end, high_end))


def _reach(behind: Array, ahead: Array, alpha: float) -> Array:
    """How far ahead of the value, in scales, a truth may lie; ``behind`` and ``ahead`` are the distances to the ends.

    The truth at distance d ahead has d(truth) = d. With p = e^d, g = e^{−behind} and M = e^{−ahead} that is quadratic
    in p: (1−α)M·p² + 2α·p + (1−α)g − 2 = 0 where the region is cut by neither end, and α·M·p² − 2α·p + 1 − (1−α)g = 0
    where it is cut by the end ahead.
    """
    near, far = np.exp(-behind), np.exp(-ahead)
    with np.errstate(all="ignore"):
        whole = 2 - (1 - alpha) * near
        free = np.log(whole / (alpha + np.sqrt(alpha**2 + (1 - alpha) * far * whole)))
        rest = 1 - (1 - alpha) * near
        inside = alpha**2 - alpha * far * rest
        cut = np.where(inside > 0, np.log(rest / (alpha + np.sqrt(np.maximum(inside, 0)))), ahead)
    return np.asarray(np.where(2 * free <= ahead, free, np.minimum(cut, ahead)))
