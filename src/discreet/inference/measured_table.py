"""Measured table: what a release of a table says, as inference needs it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.inference.noise_sum import moves_with_truth
from discreet.mechanisms.tables.clipping import onto_simplex, onto_total
from discreet.releases import Release

if TYPE_CHECKING:
    from discreet.contract.mechanism import Law, Mechanism

__all__ = ["MeasuredTable", "independent_table", "measured_table"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class MeasuredTable:
    """A noisy table with the law of its noise.

    Attributes
    ----------
    cells
        The measurement, flattened; with the exact total where that is public.
    shape
        Its shape as a table.
    value
        What was published: the measurement after shrinkage, clipping and rounding.
    n
        The public number of rows, or None.
    noise
        The law of the noise on one cell.
    mechanism
        The mechanism of the release.
    rows_per_unit
        At most this many rows are one unit's. Units are independent; the rows of one of them need not be.
    """

    cells: Array
    shape: tuple[int, ...]
    value: Array
    n: int | None
    noise: Law
    mechanism: Mechanism
    rows_per_unit: int = 1

    @property
    def variance(self) -> float:
        """Noise variance of one cell, before the projection on a public total."""
        return float(np.max(self.noise.variance))

    @property
    def size(self) -> float:
        """The number of rows, known or estimated; at least 1, so that a table of pure noise can be treated."""
        return float(self.n) if self.n is not None else max(float(self.cells.sum()), 1.0)

    @property
    def rows(self) -> int:
        """The number of rows as a whole number, for simulations."""
        return self.n if self.n is not None else max(round(float(self.cells.sum())), 1)

    def shares(self, cells: Array | None = None) -> Array:
        """A probability vector near the measurement."""
        wanted = self.cells if cells is None else cells
        projected = onto_simplex(wanted, 1.0 if cells is not None else self.size)
        return np.asarray(projected / projected.sum())

    def remeasured(self, counts: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """Measurements of simulated tables (last axis), with the same noise and the same public facts."""
        noisy = self._noisy(counts, rng)
        return noisy if self.n is None else onto_total(noisy, float(self.n))

    def released(self, counts: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """Published values for simulated tables (last axis): through the same mechanism, to the end."""
        noisy = self._noisy(counts, rng)
        if getattr(self.mechanism, "keeps_total", False):
            noisy = onto_total(noisy, counts.sum(axis=-1))
        process = getattr(self.mechanism, "process", None)
        return noisy if process is None else np.asarray(process(noisy, rng=rng))

    def _noisy(self, counts: NDArray[np.int64], rng: np.random.Generator) -> Array:
        return np.asarray(self.noise.sample(counts.shape, rng=rng) + counts)


def measured_table(release: Release) -> MeasuredTable:
    """What inference may use of a released table; refuses releases whose noise it does not know."""
    requirements.instance("release", release, Release, "a release of a ContingencyTable")
    mechanism = release.mechanism
    noise = getattr(mechanism, "noise", mechanism)  # that of the measurement, where the value was processed further
    if getattr(mechanism, "constraints", None) is not None or not moves_with_truth(noise):
        raise InvalidParameter(
            "release", mechanism.name, "must carry the same unbounded noise on every cell", "Release it with Laplace."
        )
    value = np.asarray(release.value, dtype=float)
    if value.ndim == 0 or value.size < 2:
        raise InvalidParameter("release", f"shape {value.shape}", "must be a table", "Release a ContingencyTable.")
    n = _public_size(release)
    cells = np.asarray(release.measured, dtype=float).ravel()
    if n is not None:
        cells = onto_total(cells, float(n))
    return MeasuredTable(cells, value.shape, value.ravel(), n, noise.law(0.0), mechanism, _rows_per_unit(release))


def independent_table(release: Release) -> MeasuredTable:
    """The same for a test, which takes rows as independent: refuses tables with several rows of a unit."""
    table = measured_table(release)
    if table.rows_per_unit > 1:
        raise InvalidParameter(
            "release",
            f"at most {table.rows_per_unit} rows of each {release.unit}",
            "a test needs independent rows, so at most one of each unit",
            "Release the table with contribution=Contribution(total=1).",
        )
    return table


def _rows_per_unit(release: Release) -> int:
    """The rows of one unit are what it can move in a table: Δ₁, or half of it where a unit is replaced."""
    moved = release.sensitivity.l1 if hasattr(release.statistic, "axes") else None
    if moved is None:
        return 1
    return max(1, math.ceil(moved / release.neighbours.sides))


def _public_size(release: Release) -> int | None:
    declared = getattr(release.mechanism, "total", None)
    public = release.public.get("n")
    size = public if declared is None else declared
    if size is None and getattr(release.mechanism, "keeps_total", False):
        # Exact integer total, kept by the mechanism; floats add up to it within rounding.
        size = round(float(np.sum(release.measured)))
    return None if size is None else int(size)
