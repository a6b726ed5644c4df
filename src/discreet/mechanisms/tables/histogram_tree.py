"""Histogram tree: nodes above the cells of a histogram, and the consistent values nearest to noisy ones (hay2010)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements

__all__ = ["HistogramTree"]

Array = NDArray[np.float64]


class HistogramTree:
    """A tree of any branching over any number of leaves; the root is the whole and is not measured.

    Parameters
    ----------
    leaves
        Number of cells. Where it is no power of ``branching`` the last node of a level has fewer children.
    branching
        Largest number of children of a node.

    Examples
    --------
    >>> tree = HistogramTree(4, 2)
    >>> tree.levels, tree.nodes
    (2, 6)
    >>> tree.sums(np.array([1, 2, 3, 4])).tolist()
    [3, 7, 1, 2, 3, 4]
    """

    def __init__(self, leaves: int, branching: int) -> None:
        self.branching = requirements.positive_integer("branching", branching, at_least=2)
        sizes = [requirements.positive_integer("leaves", leaves, at_least=2)]
        while sizes[0] > self.branching:
            sizes.insert(0, -(-sizes[0] // self.branching))
        self._sizes = sizes  # from below the root down to the leaves
        self._variances = self._bottom_up_variances()

    @property
    def levels(self) -> int:
        """Measured levels; a record counts once in each."""
        return len(self._sizes)

    @property
    def nodes(self) -> int:
        """Measured nodes, from below the root down to the leaves, level by level."""
        return sum(self._sizes)

    def _parents(self, level: int) -> NDArray[np.intp]:
        """Index of the parent, one level up, of each node; the root for the first level."""
        if level == 0:
            return np.zeros(self._sizes[0], dtype=np.intp)
        return np.arange(self._sizes[level]) // self.branching

    def _gathered(self, values: Any, level: int, parents: int) -> Any:
        """Sums over the children of each parent, along the last axis."""
        starts = np.searchsorted(self._parents(level), np.arange(parents))
        return np.add.reduceat(values, starts, axis=-1)

    def sums(self, cells: NDArray[Any]) -> NDArray[Any]:
        """The value of every node; exact where the cells are integers or fractions."""
        rows = [cells]
        for level in range(self.levels - 1, 0, -1):
            rows.insert(0, self._gathered(rows[0], level, self._sizes[level - 1]))
        return np.concatenate(rows, axis=-1)

    def _bottom_up_variances(self) -> list[Array]:
        """Variance of each node's best estimate from its own subtree, in units of one measurement's."""
        variances = [np.ones(self._sizes[-1])]
        for level in range(self.levels - 1, 0, -1):
            below = self._gathered(variances[0], level, self._sizes[level - 1])
            variances.insert(0, below / (1 + below))
        return variances

    def consistent(self, noisy: Array, total: float = 1.0) -> Array:
        """Cells that add up at every node, given noisy nodes; never negative.

        Bottom up, a node's own measurement and the sum of its children are weighted by their precision; top down, what
        a parent has more than its children is shared among them by their variance. On a full tree these are hay2010's
        formulas. A negative node becomes 0 and its siblings are rescaled to their parent (liu2019, footnote 3).
        """
        rows = self._split(noisy)
        for level in range(self.levels - 1, 0, -1):
            below = self._gathered(self._variances[level], level, self._sizes[level - 1])
            children = self._gathered(rows[level], level, self._sizes[level - 1])
            rows[level - 1] = (below * rows[level - 1] + children) / (1 + below)
        above = np.full((*noisy.shape[:-1], 1), float(total))
        for level in range(self.levels):
            above = self._shared(rows[level], above, level)
        return above

    def _split(self, noisy: Array) -> list[Array]:
        ends = np.cumsum(self._sizes)[:-1]
        return [np.array(row) for row in np.split(noisy, ends, axis=-1)]

    def _shared(self, estimates: Array, above: Array, level: int) -> Array:
        parents, count = self._parents(level), above.shape[-1]
        share = self._variances[level] / self._gathered(self._variances[level], level, count)[parents]
        missing = above - self._gathered(estimates, level, count)
        values = np.maximum(estimates + share * missing[..., parents], 0.0)
        found = self._gathered(values, level, count)
        children = self._gathered(np.ones(self._sizes[level]), level, count)
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(found > 0, above / found, 0.0)
        even = np.where(found > 0, 0.0, above / children)
        return np.asarray(values * factor[..., parents] + even[..., parents])
