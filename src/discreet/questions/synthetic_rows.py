"""Synthetic rows: data sets drawn from the model of maximum entropy that fits released margins.

Everything here is post-processing of a release. Rows repeat what the released tables say and nothing else: columns that
no released table has together are independent given the others. Each data set is fitted to margins with fresh noise of
the release's own law, so that what differs between the data sets measures noise and sampling together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # whose submodules load when first used
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.display import Facts, number
from discreet.interval import Interval
from discreet.mechanisms.tables.components import Axes
from discreet.result import Result

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["SyntheticEstimate", "SyntheticRows", "maximum_entropy"]

Array = NDArray[np.float64]
_ROUNDS = 200
_FITTED = 1e-6
"""Largest share of rows by which a margin may still be off when the fit ends."""


def maximum_entropy(table: Array, margins: Sequence[Axes], possible: NDArray[np.bool_] | None = None) -> Array:
    """The distribution of maximum entropy that has the given margins of a table without negative cells.

    Iterative proportional fitting from the uniform distribution (Deming and Stephan 1940): each step scales the table
    to one of its margins, and the limit is the log-linear model with these margins.
    """
    wanted = table / max(float(table.sum()), 1e-300)
    fitted = np.ones(table.shape) if possible is None else possible.astype(float)
    fitted = fitted / fitted.sum()
    largest = [axes for axes in margins if not any(set(axes) < set(other) for other in margins)]
    for _ in range(_ROUNDS):
        off = 0.0
        for axes in largest:
            others = tuple(axis for axis in range(table.ndim) if axis not in axes)
            has, should = fitted.sum(axis=others, keepdims=True), wanted.sum(axis=others, keepdims=True)
            off = max(off, float(np.abs(has - should).max()))
            fitted = fitted * np.divide(should, has, out=np.zeros_like(has), where=has > 0)
        if off < _FITTED:
            break
    return np.asarray(fitted / fitted.sum())


@dataclass(frozen=True)
class SyntheticEstimate(Result):
    """A number computed on every synthetic data set, and combined.

    Attributes
    ----------
    estimate, standard_error
        The mean of the results, and √((1 + 1/m)·B) with B their variance over m data sets.
    results
        One per data set.
    """

    estimate: float
    standard_error: float
    results: tuple[float, ...] = field(repr=False)

    def confidence_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population: Student's t with m − 1 degrees of freedom."""
        tail = (1 + requirements.level(level)) / 2
        reach = float(scipy.special.stdtrit(len(self.results) - 1, tail)) * self.standard_error
        return Interval(self.estimate - reach, self.estimate + reach, level)

    def heading(self) -> str:
        return "Estimate from synthetic rows"

    def facts(self) -> Facts:
        """What to show."""
        return [
            ("estimate", number(self.estimate)),
            ("standard error", number(self.standard_error)),
            ("95 % interval", str(self.confidence_interval())),
            ("data sets", str(len(self.results))),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {
            "estimate": self.estimate,
            "standard_error": self.standard_error,
            "confidence_interval": self.confidence_interval().to_dict(),
            "results": list(self.results),
        }


@dataclass(frozen=True)
class SyntheticRows:
    """Several synthetic data sets, each as counts over the table of all columns.

    Attributes
    ----------
    columns
        The labels of every column.
    counts
        One table per data set.
    """

    columns: Mapping[str, Sequence[Any]]
    counts: tuple[NDArray[np.int64], ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.counts)

    def table(self, position: int) -> pa.Table:
        """One data set as an Arrow table, one row per synthetic row."""
        import pyarrow as pa

        counts = self.counts[position]
        places = np.repeat(np.arange(counts.size), counts.ravel())
        codes = np.unravel_index(places, counts.shape)
        return pa.table(
            {
                name: pa.array([labels[code] for code in column.tolist()])
                for (name, labels), column in zip(self.columns.items(), codes, strict=True)
            }
        )

    def estimate(self, analysis: Callable[[pa.Table], float]) -> SyntheticEstimate:
        """Run an analysis on every data set and combine the results.

        Each result differs from the population by sampling and noise, once in the data and once more in the synthetic
        rows, so the variance of the mean of m results is (1 + 1/m) times their variance.
        """
        results = np.array([float(analysis(self.table(position))) for position in range(len(self))])
        between = float(results.var(ddof=1))
        error = math.sqrt((1 + 1 / results.size) * between)
        return SyntheticEstimate(float(results.mean()), error, tuple(results.tolist()))
