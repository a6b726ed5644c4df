"""Proportion vector: the shares of public categories."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from discreet.answers import Answer
from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.grid import MAX_ROWS
from discreet.core.protection import Neighbours
from discreet.core.rounding import not_below
from discreet.core.sensitivity import Sensitivity
from discreet.inference.sampling import Binomial, NoiseAware, ReleaseLaw, measured_coordinate
from discreet.interval import Interval
from discreet.mechanisms.tables.clipping import onto_simplex
from discreet.questions.bounded import Domain, PublicSizeStatistic, fractions
from discreet.questions.count import labelled
from discreet.releases import Release

__all__ = ["ProportionVector", "ProportionVectorRelease"]


@dataclass(frozen=True, kw_only=True)
class ProportionVector(PublicSizeStatistic):
    """The share of rows in each of K public categories.

    **Guarantee.** Replace-one: a row moves between two categories, so two coordinates change by 1/n each
    (ℓ₁ = 2/n). Add/remove with n declared public: the counts are divided by the *declared* n, so one coordinate
    changes by 1/n (ℓ₁ = 1/n), whatever the number of rows (liu2019 D).

    Parameters
    ----------
    categories
        Every public category, in the order of the value.
    n
        The public number of rows; needed under add/remove, taken from the data under replace-one.

    Examples
    --------
    >>> shares = ProportionVector(categories=("a", "b", "c"))
    >>> [str(x) for x in shares.value(["a", "c", "c", "a"])]
    ['1/2', '0', '1/2']
    >>> shares.sensitivity(n=100, neighbours=Neighbours.REPLACE_ONE).l1
    0.02
    """

    name: ClassVar[str] = "proportion_vector"
    categories: tuple[Any, ...]
    n: int | None = None

    def __post_init__(self) -> None:
        categories = tuple(requirements.instance("categories", self.categories, (tuple, list), '("a", "b")'))
        if not all(isinstance(category, Hashable) for category in categories):
            raise WrongType("categories", categories, "must be plain labels", 'Pass texts or numbers: ("a", "b").')
        if len(categories) < 2 or len(set(categories)) != len(categories):
            raise InvalidParameter(
                "categories", categories, "must be at least two distinct labels", "List every public category once."
            )
        object.__setattr__(self, "categories", categories)
        if self.n is not None:
            object.__setattr__(self, "n", requirements.positive_integer("n", self.n))

    @property
    def dimension(self) -> int:
        """Number of categories K."""
        return len(self.categories)

    @classmethod
    def release_type(cls) -> type[Release]:
        return ProportionVectorRelease

    def parameters(self) -> dict[str, Any]:
        return {"categories": list(self.categories), "n": self.n}

    def domain(self, n: int | None = None) -> Domain:
        return np.zeros(self.dimension), np.ones(self.dimension)

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Sensitivity:
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.REPLACE_ONE")
        share = not_below(Fraction(1, self.require_n(n)))
        moves = (share, share) if neighbours is Neighbours.REPLACE_ONE else (share,)
        return Sensitivity(moves=moves, dimension=self.dimension)

    def value(self, data: Any) -> Any:
        labels = labelled(data)
        if labels.ndim != 1:
            raise WrongType("data", f"shape {labels.shape}", "must have one dimension", "Pass one column.")
        rows = requirements.positive_integer("rows", labels.size)
        if rows > MAX_ROWS:
            raise InvalidParameter("data", f"{rows} rows", "has more than 2³⁰ rows", "Count in parts.")
        counts = [int(np.count_nonzero(labels == category)) for category in self.categories]
        if sum(counts) != rows:
            raise InvalidParameter(
                "data", "…", f"must hold only {list(self.categories)}", "List every category, or recode the rest."
            )
        return fractions([Fraction(count, self.n or rows) for count in counts])


@dataclass(frozen=True)
class ProportionVectorRelease(Answer):
    """A released vector of proportions."""

    def _of(self) -> ProportionVector:
        return cast(ProportionVector, self.statistic)

    @property
    def shares(self) -> dict[Any, float]:
        """The released proportions by category."""
        return dict(zip(self._of().categories, np.asarray(self.value, dtype=float).tolist(), strict=True))

    @property
    def projected(self) -> NDArray[np.float64]:
        """The nearest vector of proportions: not negative, with sum 1 (post-processing)."""
        return onto_simplex(np.asarray(self.value, dtype=float), 1.0)

    def population_interval(self, level: float = 0.95, *, category: Any = None) -> Interval:
        """Interval for the population's share of a category, or of each: binomial sampling and the noise together."""
        checked = requirements.level(level)
        categories = self._of().categories
        if category is None:
            ends = [tuple(self.population_interval(level, category=one)) for one in categories]
            low, high = np.array(ends, dtype=float).T
            return Interval(low, high, checked)
        if category not in categories:
            raise InvalidParameter("category", category, f"must be one of {list(categories)}", "Check the spelling.")
        value, mechanism = measured_coordinate(self.mechanism, self.measured, categories.index(category))
        law = ReleaseLaw(model=Binomial(n=self._of().require_n(None)), mechanism=mechanism)
        return NoiseAware().interval(law, value, checked)
