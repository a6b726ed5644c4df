"""Bands: a number that is published in classes, such as ages 0–15, 16–24 and 25–64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from discreet.core import requirements
from discreet.core.columns import Categories, Label
from discreet.core.errors import InvalidParameter

__all__ = ["Bands"]


@dataclass(frozen=True, kw_only=True)
class Bands(Categories):
    """A column of numbers, read as the band that each falls into.

    A band holds its lower edge and not its upper one; the last band holds both. Numbers outside all bands are
    ``unknown``.

    Parameters
    ----------
    edges
        The edges of the bands, in order.
    labels
        What the bands are called; by default what they hold.
    nulls, unknown, value
        As for `Categories`.

    Examples
    --------
    >>> Bands(edges=[0, 16, 25, 65, 120]).labels
    ('0–15', '16–24', '25–64', '65–120')
    >>> Bands(edges=[0, 0.5, 1]).labels
    ('0–<0.5', '0.5–1')
    """

    labels: Sequence[Label] = ()
    edges: Sequence[float]
    computed_kinds: ClassVar[tuple[str, ...]] = ("number",)

    def __post_init__(self) -> None:
        edges: Any = self.edges
        listed = isinstance(edges, list | tuple) and len(edges) > 2
        numbers = [requirements.finite("bands", edge) for edge in edges] if listed else []
        if not listed or any(low >= high for low, high in pairwise(numbers)):
            raise InvalidParameter("bands", edges, "must be three or more increasing numbers", "Pass [0, 16, 25, 65].")
        object.__setattr__(self, "edges", tuple(numbers))
        labels: Any = self.labels
        if isinstance(labels, list | tuple) and not labels:
            object.__setattr__(self, "labels", _labels(numbers))
        super().__post_init__()
        if self.cells != len(numbers) - 1:
            raise InvalidParameter(
                "labels", self.labels, f"must be {len(numbers) - 1}, one per band", "Name each band."
            )
        if self.aliases or self.ignore_case or self.missing:
            raise InvalidParameter(
                "bands", edges, "have no other spellings or missing words", "Set them on the number."
            )

    def to_dict(self) -> dict[str, Any]:
        """The declaration as plain data."""
        return {"bands": list(self.edges), **super().to_dict()}


def _labels(edges: Sequence[float]) -> tuple[str, ...]:
    """What each band holds; bands between whole numbers are named as ages are."""
    whole = all(edge.is_integer() for edge in edges)
    named = []
    for place, (low, high) in enumerate(pairwise(edges), start=2):
        last, before = place == len(edges), "" if whole else "<"
        high = high if last or not whole else high - 1
        named.append(f"{low:.15g}" if high == low else f"{low:.15g}–{'' if last else before}{high:.15g}")
    return tuple(named)
