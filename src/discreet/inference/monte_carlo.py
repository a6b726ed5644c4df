"""Null distributions: by simulation through the mechanism, or by asymptotic theory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.noise.truth import generator

__all__ = ["Asymptotic", "MonteCarlo"]

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class MonteCarlo:
    """Simulate the null distribution: draw tables, pass them through the release's own mechanism.

    A p-value is post-processing of a release, so ordinary pseudo-random numbers do.

    Parameters
    ----------
    n_resamples
        Number of simulated releases.
    rng
        Seed or generator; by default fresh.
    as_published
        Report the share of simulated statistics at or above the observed one, as lee2022 does, instead of the valid
        (1 + count)/(1 + n_resamples). It can be 0, and rejects too often.

    Examples
    --------
    >>> MonteCarlo(n_resamples=4).pvalue(2.5, np.array([1.0, 2.0, 3.0, 4.0]))
    0.6
    """

    n_resamples: int = 4999
    rng: int | np.random.Generator | None = None
    as_published: bool = False

    def __post_init__(self) -> None:
        checked = requirements.positive_integer("n_resamples", self.n_resamples)
        object.__setattr__(self, "n_resamples", checked)
        requirements.instance("as_published", self.as_published, bool, "as_published=True or False")
        if self.rng is not None:
            generator(self.rng)

    def generator(self) -> np.random.Generator:
        """The source of simulated tables."""
        return np.random.default_rng() if self.rng is None else generator(self.rng)

    def pvalue(self, observed: float, null: Array) -> float:
        """The share of the null distribution that is at least as extreme, the observation itself included."""
        above = int(np.count_nonzero(null >= observed))
        if self.as_published:
            return above / null.size
        return (1 + above) / (1 + null.size)

    def to_dict(self) -> dict[str, Any]:
        """The method as JSON-ready data."""
        return {"null": "monte_carlo", "n_resamples": self.n_resamples, "as_published": self.as_published}


@dataclass(frozen=True, kw_only=True)
class Asymptotic:
    """The limiting χ² distribution of the quadratic form; exact for Gaussian noise that dwarfs sampling error."""

    def to_dict(self) -> dict[str, Any]:
        """The method as JSON-ready data."""
        return {"null": "asymptotic"}
