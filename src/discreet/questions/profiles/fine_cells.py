"""Fine cells: where the values of a column lie, counted once, so that any coarser grid follows without another look.

A fine cell of numbers is what one sign, exponent and first binary digits have in common: 256 of them divide an octave.
A day is a fine cell of dates. A value's fine cell depends on that value alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.rows import Snapshot
from discreet.core.rows.typed_values import EXACT_DIGITS, OTHER
from discreet.questions.profiles.unit_rows import UnitRows, unit_sizes

__all__ = ["FineCounts", "Grid", "fine_counts", "sizes_between"]

_LOWEST, _HIGHEST = -16, 48
"""Octaves that are told apart. Smaller numbers are zero or the largest negative ones, larger ones are alike."""
_FIRST = (1023 + _LOWEST) << EXACT_DIGITS
_CELLS = ((_HIGHEST - _LOWEST) << EXACT_DIGITS) + 1
"""Fine cells of positive numbers. Negative ones have one more, for what lies below all of them."""
_EARLIEST, _LATEST = -40_000, 40_000
"""Days that are told apart; others count with the last of them, or below the first."""
_NUMBERS = 2
_DATES = _NUMBERS + 2 * (2 * _CELLS + 2)
_CODES = _DATES + _LATEST - _EARLIEST + 2
"""Codes: missing, other text, two for each fine cell of numbers (without decimals, and with), then days."""

Codes = NDArray[np.int64]


def number_cells(values: NDArray[np.float64]) -> Codes:
    """Fine cells of numbers, in their order; zero is 0.

    The bits of a float are its sign, its exponent and its digits, so the first of them number its cell. Negative
    numbers are rounded down too: a cell holds its lower edge.

    Examples
    --------
    >>> cells = number_cells(np.array([-1.0, -0.0, 0.0, 1.0, 1.001, 1.004]))
    >>> (cells - cells[2]).tolist()
    [-4097, 0, 0, 4097, 4097, 4098]
    """
    bits = np.asarray(values, dtype=np.float64).view(np.int64)
    sign = bits >> 63
    place = bits & (2**63 - 1)
    place ^= sign
    place -= sign
    place >>= 52 - EXACT_DIGITS
    cells = np.clip(place - (_FIRST - 1), 0, _CELLS)
    cells += place >> 63
    place += _FIRST
    return np.asarray(cells + np.clip(place, -_CELLS, 0))


def _lower_edges() -> NDArray[np.float64]:
    """The least number of each fine cell, from the lowest one on."""
    positive = ((np.arange(_CELLS) + _FIRST) << (52 - EXACT_DIGITS)).view(np.float64)
    return np.concatenate([[-np.inf], -positive[::-1], [0.0], positive])


_LEAST = _lower_edges()


@dataclass(frozen=True)
class Grid:
    """The cells of a column: missing is 0, other text 1; then numbers between edges, and dates between edges.

    A cell holds its lower edge and not its upper one; the first and the last are open. Where they are ``split``, each
    cell of numbers is two: of whole numbers, and of others. Edges of numbers move down to those of fine cells.

    Examples
    --------
    >>> Grid((0.0, 1.0, 1.001, 1000.5)).numbers
    (0.0, 1.0, 1000.0)
    """

    numbers: tuple[float, ...] = ()
    dates: tuple[float, ...] = ()
    split: bool = False

    def __post_init__(self) -> None:
        fine = np.unique(_LEAST[number_cells(np.asarray(self.numbers, dtype=np.float64)) + _CELLS + 1])
        object.__setattr__(self, "numbers", tuple(fine.tolist()))

    @property
    def first_date(self) -> int:
        """Number of the first cell of dates."""
        return 2 + (len(self.numbers) + 1) * (1 + self.split)

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.first_date + len(self.dates) + 1


@dataclass(frozen=True, eq=False)
class FineCounts:
    """How many values of a column lie in each fine cell. Private."""

    counts: Codes

    def __repr__(self) -> str:
        return "FineCounts(…)"

    def add(self, codes: Codes, times: Any) -> None:
        """Count values by their codes, each so many times."""
        found = np.bincount(codes, None if np.isscalar(times) else times)
        self.counts[: found.size] += found.astype(np.int64, copy=False)

    def cells(self, grid: Grid) -> list[int]:
        """How many values lie in each cell of a grid."""
        codes = np.flatnonzero(self.counts)
        place, decimals = np.divmod(np.clip(codes, _NUMBERS, _DATES - 1) - _NUMBERS, 2)
        number = 2 + np.searchsorted(grid.numbers, _LEAST[place], "right") * (1 + grid.split) + decimals * grid.split
        days = np.where(codes > _DATES, codes - _DATES + _EARLIEST - 1.0, -np.inf)
        date = grid.first_date + np.searchsorted(grid.dates, days, "right")
        cells = np.where(codes < _NUMBERS, codes, np.where(codes < _DATES, number, date))
        counts = np.zeros(grid.size, np.int64)
        np.add.at(counts, cells, self.counts[codes])
        return [int(count) for count in counts]


def _codes(numbers: Any, decimals: Any, days: Any) -> Codes:
    """The codes of values: of their number, or of their day where there is none."""
    codes = number_cells(numbers)
    codes *= 2
    codes += decimals
    codes += _NUMBERS + 2 * (_CELLS + 1)
    date = np.clip(days, _EARLIEST - 1, _LATEST) - (_EARLIEST - 1) + _DATES
    other = np.where(np.asarray(days) > OTHER, date, np.asarray(days) == OTHER)
    return np.asarray(np.where(np.isnan(numbers), other, codes))


@dataclass(frozen=True)
class _FineCells:
    """Counts the values that it is shown."""

    found: Sequence[FineCounts]

    def add(self, place: int, numbers: Any, decimals: Any, days: Any, times: Any) -> None:
        self.found[place].add(_codes(numbers, decimals, days), times)

    def forget(self, place: int) -> None:
        self.found[place].counts[:] = 0


def fine_counts(rows: UnitRows, columns: Sequence[str]) -> dict[str, FineCounts]:
    """Of each column, how many values lie in each fine cell, one row of each unit. Private."""
    found = [FineCounts(np.zeros(_CODES, np.int64)) for _ in columns]
    rows.visit(_FineCells(found))
    return dict(zip(columns, found, strict=True))


def sizes_between(snapshot: Snapshot, edges: Sequence[float]) -> list[int]:
    """How many units have so many rows, between edges. Private."""
    found = unit_sizes(snapshot).to_pydict()
    counts = np.zeros(len(edges) + 1, np.int64)
    np.add.at(counts, np.searchsorted(edges, found["held"], "right"), found["n"])
    return [int(count) for count in counts]
