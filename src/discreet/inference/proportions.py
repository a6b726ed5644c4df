"""Releases of a proportion vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.interval import Interval
from discreet.inference.coordinates import measured_coordinate
from discreet.inference.population import NoiseAware, ReleaseLaw
from discreet.inference.sampling import Binomial
from discreet.mechanisms.tables.clipping import onto_simplex
from discreet.releases import Release

if TYPE_CHECKING:
    from discreet.questions.proportion_vector import ProportionVector

__all__ = ["ProportionVectorRelease"]


@dataclass(frozen=True)
class ProportionVectorRelease(Release):
    """A released vector of proportions."""

    def _of(self) -> ProportionVector:
        return self.statistic  # type: ignore[return-value]

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
