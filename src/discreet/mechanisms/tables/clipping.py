"""Clipping: moving a noisy table to the nearest possible one, which is post-processing and never costs accuracy.

Proof that each of them dominates what it is given: ``docs/proofs/table_noise.md``.
"""

from __future__ import annotations

import secrets
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter

__all__ = ["Box", "Clip", "box_ends", "checked_box", "clip_choice", "clipped", "onto_simplex", "onto_total", "rounded"]

Clip = Literal["none", "nonnegative", "simplex", "box"]
"""What a table may look like: anything; no negative cell; no negative cell and the known total; cells within ends."""

Box = tuple[tuple[float | None, float | None], ...]
"""The smallest and the largest value of every cell, None where there is none; one pair stands for all cells."""

Array = NDArray[np.float64]


def clip_choice(value: Any) -> Clip:
    """Return one of the clipping rules; refuse everything else."""
    if not isinstance(value, str) or value not in get_args(Clip):
        raise InvalidParameter("clip", value, f"must be one of {list(get_args(Clip))}", 'Pass clip="simplex".')
    return cast(Clip, value)


def checked_box(value: Any, whole: bool) -> Box:
    """The ends of a rectangle (lee2022, section 2.4) as floats; whole numbers where cells will be rounded to them."""
    fix = "Pass box=((0, 100), (0, None)): one pair of ends per cell, or one pair for all."
    if not isinstance(value, list | tuple) or not value:
        raise InvalidParameter("box", value, "must be pairs of ends", fix)
    pairs = [value] if not isinstance(value[0], list | tuple) else list(value)
    done = []
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise InvalidParameter("box", value, "must be pairs of ends", fix)
        low, high = (None if end is None else requirements.finite("box", end) for end in pair)
        if low is not None and high is not None and low > high:
            raise InvalidParameter("box", value, "has a lower end above its upper end", fix)
        if whole and any(end is not None and end != round(end) for end in (low, high)):
            raise InvalidParameter("box", value, "must have whole ends where cells are whole", "Leave integers out.")
        done.append((low, high))
    return tuple(done)


def box_ends(box: Box, cells: int) -> tuple[Array, Array]:
    """Lower and upper ends of every cell, infinite where there is none."""
    if len(box) not in (1, cells):
        raise InvalidParameter("box", f"{len(box)} pairs", f"must be one pair, or one for each of {cells} cells",
                               "Give one pair per cell, in the order of the flattened table.")  # fmt: skip
    low = [-np.inf if pair[0] is None else pair[0] for pair in box]
    high = [np.inf if pair[1] is None else pair[1] for pair in box]
    return np.broadcast_to(np.array(low, float), cells), np.broadcast_to(np.array(high, float), cells)


def onto_total(table: Array, total: float | Array) -> Array:
    """The nearest table with this total: every cell moves by the same amount."""
    wanted = np.asarray(total, dtype=float)
    return np.asarray(table + ((wanted - table.sum(axis=-1)) / table.shape[-1])[..., None])


def onto_simplex(table: Array, total: float | Array) -> Array:
    """The nearest table with non-negative cells and this total (held1974), along the last axis.

    Examples
    --------
    >>> onto_simplex(np.array([5.0, -1.0, 3.0]), 6.0)
    array([4., 0., 2.])
    """
    wanted = np.broadcast_to(np.asarray(total, dtype=float), table.shape[:-1])
    # The nearest table is max(x − t, 0) with one threshold t; sorted cells give it by running sums. Centring
    # first keeps the sums small, so that no digits are lost beside a large total.
    centred = onto_total(table, wanted)
    descending = np.sort(centred, axis=-1)[..., ::-1]
    excess = np.cumsum(descending, axis=-1) - wanted[..., None]
    count = np.arange(1, table.shape[-1] + 1)
    kept = np.maximum((descending * count > excess).sum(axis=-1), 1)
    threshold = np.take_along_axis(excess, kept[..., None] - 1, axis=-1) / kept[..., None]
    return np.asarray(np.maximum(centred - threshold, 0.0))


def clipped(table: Array, clip: Clip, total: float | Array | None, box: Box | None = None) -> Array:
    """Apply a clipping rule along the last axis."""
    if clip == "none":
        return table
    if box is not None:
        return np.asarray(np.clip(table, *box_ends(box, table.shape[-1])))
    if clip == "nonnegative":
        return np.asarray(np.maximum(table, 0.0))
    if total is None:
        raise InvalidParameter("total", None, "the simplex needs it", "Pass the public total of the table.")
    return onto_simplex(table, np.maximum(total, 0.0))


def rounded(table: Array, *, rng: np.random.Generator | None = None) -> Array:
    """Whole cells whose expectation is the table and whose total is that of the table (if it is whole).

    Each cell becomes one of its two neighbouring integers. One uniform number decides all cells: cell i goes up
    if a tick of the grid U, U + 1, … falls into its share of the running sum of the fractional parts.

    Examples
    --------
    >>> rounded(np.array([0.5, 0.25, 1.25]), rng=np.random.default_rng(1)).sum()
    np.float64(2.0)
    """
    floor = np.floor(table)
    shares = np.cumsum(table - floor, axis=-1)
    near = np.round(shares[..., -1])
    # Running sums of floats miss a whole total by rounding; snap it so that the total is kept exactly.
    whole = np.abs(shares[..., -1] - near) <= 1e-9 * table.shape[-1]
    shares[..., -1] = np.where(whole, near, shares[..., -1])
    start = _uniform(table.shape[:-1], rng)[..., None]
    ticks = np.floor(np.minimum(shares, shares[..., -1:]) + start)
    return np.asarray(floor + np.diff(ticks, axis=-1, prepend=0.0))


def _uniform(shape: tuple[int, ...], rng: np.random.Generator | None) -> Array:
    if rng is not None:
        return np.asarray(rng.random(shape))
    count = int(np.prod(shape, dtype=int))
    return np.array([secrets.randbits(53) * 2.0**-53 for _ in range(count)]).reshape(shape)
