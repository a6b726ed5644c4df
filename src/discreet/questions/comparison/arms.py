"""Arms: the private totals of an experiment, per arm and per partition, as whole numbers on the outcome's grid."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.grid import Grid, product_total, total
from discreet.core.noise.truth import generator

__all__ = ["Arms", "arms_from_columns"]

Integers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Arms:
    """What a comparison reads: counts and sums of grid offsets. Its repr shows no value.

    Parameters
    ----------
    low, width, largest
        A unit's outcome is ``low + width · offset/largest`` with a whole offset in {0, …, largest}.
    counts, sums
        Units and sums of offsets, one row per arm (control first) and one column per partition.
    squares
        Sum of squared offsets per arm.
    labels
        Names of the arms.
    """

    low: float
    width: float
    largest: int
    counts: Integers = field(repr=False)
    sums: NDArray[Any] = field(repr=False)
    squares: tuple[int, ...] = field(repr=False)
    labels: tuple[str, ...] = ("control", "treatment")

    @property
    def partitions(self) -> int:
        """Number of partitions."""
        return int(self.counts.shape[1])

    def size(self, arm: int) -> int:
        """Units of an arm."""
        return int(self.counts[arm].sum())

    def total(self, arm: int) -> int:
        """Sum of an arm's offsets."""
        return sum(int(value) for value in self.sums[arm])

    @cached_property
    def means(self) -> NDArray[np.float64]:
        """Partition means per arm; an empty partition has the middle of the bounds, whatever the data is."""
        counts = np.maximum(self.counts, 1)
        share = self.sums.astype(float) / counts / self.largest
        return np.asarray(self.low + self.width * np.where(self.counts > 0, share, 0.5))

    def differences(self, first: int = 1, second: int = 0) -> NDArray[np.float64]:
        """z: partition means of arm ``first`` minus those of arm ``second``, zero where either is empty."""
        both = (self.counts[first] > 0) & (self.counts[second] > 0)
        return np.where(both, self.means[first] - self.means[second], 0.0)


def arms_from_columns(
    columns: dict[str, Any],
    *,
    bounds: tuple[float, float],
    partitions: int,
    equal: bool,
    labels: dict[str, Any] | None = None,
    rng: int | np.random.Generator | None = None,
) -> Arms:
    """Totals of in-memory columns, one outcome per unit.

    Parameters
    ----------
    columns
        Outcomes of each arm's units, by arm; the first is the control.
    bounds
        Public bounds of the outcome.
    partitions
        Number of partitions.
    equal
        Whether partitions are equal in size, which needs public sizes. Otherwise every unit draws its own, so that
        nobody's partition depends on who else takes part.
    labels
        Natural partitions: for each arm the partition number (0 … partitions − 1) of every unit.
    """
    grid = Grid(bounds=bounds)
    source = generator(rng) if rng is not None else np.random.default_rng(secrets.randbits(256))
    counts, sums, squares = [], [], []
    for name, values in columns.items():
        offsets = grid.offsets(name, values)
        if labels is not None:
            parts = _labels(name, labels.get(name), offsets.size, partitions)
        elif equal:
            parts = source.permutation(offsets.size) % partitions
        else:
            parts = source.integers(partitions, size=offsets.size)
        counts.append(np.bincount(parts, minlength=partitions))
        sums.append(_sums(parts, offsets, partitions))
        squares.append(product_total(offsets, offsets))
    return Arms(
        low=float(grid.origin),
        width=float(grid.largest * grid.exact_step),
        largest=grid.largest,
        counts=np.stack(counts),
        sums=np.stack(sums),
        squares=tuple(squares),
        labels=tuple(columns),
    )


def _labels(name: str, values: Any, size: int, partitions: int) -> Integers:
    array = np.asarray(values)
    if array.shape != (size,) or array.dtype.kind not in "iu":
        raise WrongType(
            "partition_labels", type(values).__name__, f"must be one whole number for every unit of {name!r}",
            "Pass an integer array as long as the outcomes.",
        )  # fmt: skip
    if np.any((array < 0) | (array >= partitions)):
        raise InvalidParameter("partition_labels", name, f"must lie in 0 … {partitions - 1}", "Recode the labels.")
    return array.astype(np.int64)


def _sums(parts: Integers, offsets: Integers, partitions: int) -> NDArray[Any]:
    """Exact sums of offsets per partition: floats would round, so upper and lower bits are added apart."""
    upper = np.bincount(parts, weights=(offsets >> 16).astype(float), minlength=partitions)
    lower = np.bincount(parts, weights=(offsets & 0xFFFF).astype(float), minlength=partitions)
    if total(offsets) != (int(upper.sum()) << 16) + int(lower.sum()):
        raise ArithmeticError("sums of partitions do not add up to the sum of all units")
    return (upper.astype(np.int64) << 16) + lower.astype(np.int64)


def check_sizes(arms: Arms, *, public: bool) -> None:
    """Refuse what cannot be compared; sizes are read only where they are public."""
    if public:
        for arm, label in enumerate(arms.labels):
            requirements.positive_integer(f"units of {label}", arms.size(arm), at_least=2)
