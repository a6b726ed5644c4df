"""Tested release: a table that was released, with the test that was made of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from discreet.core.display import Facts
from discreet.core.result import Result
from discreet.questions.tables import ContingencyTable
from discreet.releases import Release

if TYPE_CHECKING:
    from discreet.inference.chi_square import ChiSquareResult
    from discreet.inference.monte_carlo import MonteCarlo

__all__ = ["TestedRelease", "groups_of", "repeatable"]


@dataclass(frozen=True)
class TestedRelease(Result):
    """A test with the release it was computed from; the test is post-processing and costs nothing more."""

    __test__ = False  # not a test case

    result: ChiSquareResult
    release: Release

    @property
    def pvalue(self) -> float:
        """The p-value."""
        return self.result.pvalue

    @property
    def statistic(self) -> float:
        """The test statistic."""
        return self.result.statistic

    def to_dict(self) -> dict[str, Any]:
        """Both as JSON-ready data."""
        return {"result": self.result.to_dict(), "release": self.release.to_dict()}

    def heading(self) -> str:
        return self.result.heading()

    def facts(self) -> Facts:
        return [*self.result.facts(), *self.release.facts()]

    def __str__(self) -> str:
        return f"{self.result}\n{self.release}"


def repeatable(table: Release) -> MonteCarlo:
    """Simulations that a release fixes, so that its test says the same whenever it is asked."""
    from discreet.inference.monte_carlo import MonteCarlo

    return MonteCarlo(rng=int(table.release_id[:12], 16))


def groups_of(table: Release) -> list[Release]:
    """One release per row of a two-way table: the groups of a test of homogeneity."""
    whole = cast(ContingencyTable, table.statistic)
    column = whole.axes[1]
    one = ContingencyTable({column: whole.columns[column]})
    values = np.asarray(table.value)
    parts = [None] * len(values) if table.measurement is None else list(np.asarray(table.measurement))
    return [
        replace(table, value=value, measurement=part, statistic=one, public={})
        for value, part in zip(values, parts, strict=True)
    ]
