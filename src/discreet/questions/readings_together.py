"""Readings together: the numbers of many groups in parts, with the intervals of all of them worked out at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet.inference.noise_sum import largest_variance
from discreet.inference.part_moments import PartMoments
from discreet.inference.ratio import ratio_interval
from discreet.interval import Interval
from discreet.publish.readings import Reading

if TYPE_CHECKING:
    from discreet.questions.parts import MeanInPartsRelease, Parts

__all__ = ["together"]

LEVEL = 0.95
_AT_ONCE = 200
"""Groups whose intervals are worked out at once: as many as a processor's cache holds with all points of a search."""


def together(parts: Sequence[MeanInPartsRelease]) -> list[list[Reading]]:
    """The readings of each group, as the group alone would give them."""
    return [one for start in range(0, len(parts), _AT_ONCE) for one in _some(parts[start : start + _AT_ONCE])]


def _some(parts: Sequence[MeanInPartsRelease]) -> list[list[Reading]]:
    kind = cast("Parts", parts[0].statistic)
    if kind.degree < 2:
        return [[mean] for mean in _means(parts)]
    spreads = _spreads(parts, "standard deviation")
    if kind.title == "standard deviation":
        return [[spread] for spread in spreads]
    first = _spreads(parts, "variance") if kind.title == "variance" else _means(parts)
    return [list(pair) for pair in zip(first, spreads, strict=True)]


def _stacked(parts: Sequence[MeanInPartsRelease]) -> PartMoments:
    """The moments of all groups, along the first axis."""
    values = np.array([np.asarray(part.value, dtype=float) for part in parts])
    return replace(parts[0].moments, totals=parts[0].divided(values))


def _means(parts: Sequence[MeanInPartsRelease]) -> list[Reading]:
    """The mean of each group, with both intervals."""
    first, moments = parts[0], _stacked(parts)
    (low, high), centre, reach = first.place()
    top, bottom = moments.parts @ cast("Parts", first.statistic).positions, moments.parts.sum(axis=-1)
    noise = ratio_interval((top, bottom), first.mechanism, (low, high), centre, reach, LEVEL, first.noise_weights)
    divided = np.clip(centre + reach * top / np.maximum(bottom, 1.0), low, high)
    shared = np.where(bottom >= 1, divided, np.clip((low + high) / 2, noise.low, noise.high))
    errors = reach * np.linalg.norm(first.noise_weights((shared - centre) / reach), axis=0) / np.maximum(bottom, 1.0)
    deviation = float(np.sqrt(largest_variance(first.mechanism)))
    population = [np.clip(low + (high - low) * np.asarray(end), low, high) for end in moments.mean_interval(LEVEL)]
    return [
        Reading(
            "", mean, _interval(noise, place), _interval(population, place), measure=first.measure,
            standard_error=deviation * error if rows >= 1 else None,
        )
        for place, (mean, error, rows) in enumerate(zip(shared.tolist(), errors.tolist(), bottom.tolist(), strict=True))
    ]  # fmt: skip


def _spreads(parts: Sequence[MeanInPartsRelease], measure: str) -> list[Reading]:
    """The standard deviation of each group, or its variance, with both intervals."""
    moments = _stacked(parts)
    (low, high), _, _ = parts[0].place()
    read = np.sqrt if measure == "standard deviation" else np.asarray

    def scaled(value: Any) -> NDArray[np.float64]:
        return np.asarray(read((high - low) ** 2 * np.maximum(np.asarray(value, dtype=float), 0.0)))

    noise, population = (
        [scaled(end) for end in one.variance_interval(LEVEL)] for one in (replace(moments, rows_per_unit=0), moments)
    )
    return [
        Reading("", value, _interval(noise, place), _interval(population, place), measure=measure)
        for place, value in enumerate(scaled(moments.variance).tolist())
    ]


def _interval(ends: Any, place: int) -> Interval:
    low, high = ends
    return Interval(float(np.asarray(low)[place]), float(np.asarray(high)[place]), LEVEL)
