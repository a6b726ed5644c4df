"""Mode: the most frequent of a public list of categories."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.exact import Exact
from discreet.core.protection import ROW, Neighbours, Protection, Unit
from discreet.core.sensitivity import Sensitivity
from discreet.core.statistic import Statistic
from discreet.questions.count import labelled
from discreet.releases import Release

__all__ = ["Mode"]


@dataclass(frozen=True, kw_only=True)
class Mode(Statistic):
    """Which category most rows have; protect it with a mechanism that chooses.

    The exact value is the count of every category. Rows outside the list count nowhere.

    Guarantee
    ---------
    Add/remove: one row moves one count by 1. Replace-one: one count up and another down by 1, so the same choice costs
    twice the ε.

    Parameters
    ----------
    categories
        The public list of categories; numbers or texts.

    Examples
    --------
    >>> from discreet import ExponentialMechanism, Ledger, PureDP, release
    >>> mode = Mode(categories=("red", "green", "blue"))
    >>> colours = ["red"] * 90 + ["green"] * 10
    >>> exact = mode.exact(colours, neighbours=Neighbours.ADD_REMOVE)
    >>> mechanism = ExponentialMechanism.calibrate(PureDP(1.0), exact.sensitivity)
    >>> release(exact, mechanism, ledger=Ledger(":memory:", budget=PureDP(1.0))).mode
    'red'
    """

    name: ClassVar[str] = "mode"
    categories: tuple[Any, ...]

    def __post_init__(self) -> None:
        if np.ndim(np.asarray(self.categories, dtype=object)) != 1:
            raise WrongType("categories", self.categories, "must be a list", 'Pass categories=("a", "b").')
        clean = tuple(value.item() if isinstance(value, np.generic) else value for value in self.categories)
        if not all(isinstance(value, Hashable) and value == value for value in clean):
            raise WrongType("categories", clean, "must be plain labels", 'Pass texts or numbers: ("a", "b").')
        if len(clean) < 2 or len(set(clean)) != len(clean):
            raise InvalidParameter(
                "categories", clean, "must hold at least two different values", "List each public category once."
            )
        object.__setattr__(self, "categories", clean)

    @classmethod
    def release_type(cls) -> type[Release]:
        from discreet.inference.choice_release import ModeRelease

        return ModeRelease

    def parameters(self) -> dict[str, Any]:
        return {"categories": list(self.categories)}

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Sensitivity:
        """One count by one, or two of them."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        return Sensitivity(moves=(1.0,) if neighbours is Neighbours.ADD_REMOVE else (1.0, 1.0))

    def value(self, data: Any) -> NDArray[np.int64]:
        """Counts of the categories. Private."""
        array = labelled(data)
        if array.ndim != 1:
            raise InvalidParameter("data", array.shape, "must be one column", "Select the column.")
        if array.size == 0:
            return np.zeros(len(self.categories), dtype=np.int64)
        found, counts = np.unique(array if array.dtype != object else array.astype(str), return_counts=True)
        known = {
            str(value) if array.dtype == object else value: count for value, count in zip(found, counts, strict=True)
        }
        keys = (str(value) if array.dtype == object else value for value in self.categories)
        return np.array([known.get(key, 0) for key in keys], dtype=np.int64)

    def exact(self, data: Any, *, neighbours: Neighbours, unit: Unit = ROW) -> Exact:
        """The counts, still private, ready for `discreet.release`."""
        return Exact(
            self.value(data),
            self.sensitivity(neighbours=neighbours),
            Protection(unit, neighbours),
            statistic=self,
        )
