"""Number laws: the law of every number that is drawn, as data, and what two of them lose between neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from discreet.audit.exact_losses import Cells, law_cells
from discreet.contract.law import Law
from discreet.mechanisms.whole_share import WholeShareLaw

__all__ = ["NumberLaw", "from_zero", "number_cells", "number_laws"]

NumberLaw = tuple[Any, ...]
"""The law of one number: its class, scale and exact location, and bounds or order where it has them."""


@dataclass(frozen=True)
class _CountOf:
    """The law of the count behind a share: dividing by a public number of rows loses and gains nothing."""

    kind: Callable[..., Law]
    rows: int

    def __call__(self, share: Fraction, scale: float) -> Law:
        return self.kind(share * self.rows, scale)


def number_laws(law: Any) -> list[NumberLaw]:
    """The law of every number of an array."""
    if isinstance(law, WholeShareLaw):
        return [(_CountOf(kind, law.rows), scale, place / law.rows) for kind, scale, place in number_laws(law.counts)]
    shape = law.shape
    exact = getattr(law, "_noise", law)._location.broadcast(shape)
    names = [name for name in ("lower", "upper", "order") if hasattr(law, name)]
    more = [getattr(law, name) for name in names]
    scales, *bounds = (np.broadcast_to(values, shape).ravel().tolist() for values in (law.scale, *more))
    places = [exact.exact(index) for index in range(len(scales))]
    return list(zip([type(law)] * len(scales), scales, places, *bounds, strict=True))


def from_zero(a: NumberLaw, b: NumberLaw) -> tuple[NumberLaw, NumberLaw]:
    """Both laws moved so that the first is at zero, where nothing bounds them: only the distance matters."""
    return (a, b) if len(a) > 3 else ((*a[:2], Fraction(0)), (*b[:2], b[2] - a[2]))


@lru_cache(maxsize=4096)
def number_cells(a: NumberLaw, b: NumberLaw) -> Cells:
    """Probabilities of the outputs of two laws, cell by cell."""
    here, there = (kind(place, scale, *bounds) for kind, scale, place, *bounds in (a, b))
    return law_cells(here, there)
