"""What statistics of one bounded column share: public bounds, a grid and, where it is public, the number of rows."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from discreet.core import requirements
from discreet.core.grid import Grid
from discreet.questions.bounded import BoundedStatistic, whole_bounds

__all__ = ["OneColumn", "SizedColumn"]


@dataclass(frozen=True, kw_only=True)
class OneColumn(BoundedStatistic):
    """A statistic of one column, clipped to public bounds.

    Parameters
    ----------
    bounds
        Public bounds (c₀, c₁) of a row; values outside are clipped.
    grid
        Resolution, a power of two; 1 for a column of whole numbers.
    """

    bounds: tuple[float, float]
    grid: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", whole_bounds("bounds", self.bounds))
        self._grid  # noqa: B018  (refuses a bad grid at construction)

    @cached_property
    def _grid(self) -> Grid:
        return Grid(bounds=self.bounds, step=self.grid)

    def parameters(self) -> dict[str, Any]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**values, "bounds": list(self.bounds)}


@dataclass(frozen=True, kw_only=True)
class SizedColumn(OneColumn):
    """As `OneColumn`, where the number of rows may be public.

    Parameters
    ----------
    n
        The public number of rows.
    """

    n: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n is not None:
            object.__setattr__(self, "n", requirements.positive_integer("n", self.n, at_least=self.least_rows))
