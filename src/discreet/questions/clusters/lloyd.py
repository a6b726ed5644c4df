"""DPLloyd: k-means by noisy sums and counts of the clusters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.display import Facts
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee, PureDP
from discreet.core.noise.law import generator
from discreet.core.result import Result
from discreet.core.rounding import decimal, up
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace
from discreet.questions.clusters.box import Box, cluster_totals, labels_of
from discreet.questions.clusters.model import ClusterModel
from discreet.questions.clusters.spread import spread_centres

if TYPE_CHECKING:
    from discreet.core.ledger import Ledger

__all__ = ["DPLloyd", "LloydPlan"]

Array = NDArray[np.float64]
_TYPICAL_OFFSET = 0.225
"""Typical distance of a centroid from the origin per coordinate (su2017 §4.2): it sets the share of the count."""
_FEW, _MANY = 2, 7
"""Fewest and most iterations worth a share of the budget (su2017)."""
_USUAL_ITERATIONS = 5
_PUBLISHED_ITERATIONS = 20


@dataclass(frozen=True)
class LloydPlan(Result):
    """What a fit would do, from public facts only.

    Attributes
    ----------
    iterations
        Number of noisy iterations.
    noise
        ``"laplace"`` or ``"gaussian"``.
    sum_scale, count_scale
        Scale of the noise on each coordinate sum (rows scaled to [−1, 1]) and on each count.
    guarantee
        What really holds for the whole fit.
    published_scale
        Scale of the sums' noise if the budget were split over clusters and coordinates as published.
    cluster_error
        Standard error that noise adds to a coordinate of a centroid, in half-widths of the bounds, for a cluster of
        ``expected_rows / n_clusters`` rows; None where no ``expected_rows`` is given.
    """

    iterations: int
    noise: str
    sum_scale: float
    count_scale: float
    guarantee: Guarantee
    published_scale: float | None
    cluster_error: float | None

    read = "a centre, in half-widths"

    @property
    def mechanism(self) -> str:
        """Law of the noise."""
        return self.noise

    @property
    def scale(self) -> float:
        """Scale of the noise on sums."""
        return self.sum_scale

    @property
    def standard_error(self) -> float | None:
        """Root mean square of the error of a centre's coordinate."""
        return self.cluster_error

    @property
    def expected_error(self) -> float | None:
        """95 % of the errors of a centre's coordinate stay below this."""
        from discreet.inference.noise_sum import NoiseSum

        if self.cluster_error is None:
            return None
        weights = np.array([self.sum_scale, _TYPICAL_OFFSET * self.count_scale])
        law = NoiseSum.of((Laplace if self.noise == "laplace" else Gaussian)(1.0).law(0.0), weights)
        return float(law.quantile(0.975)) * self.cluster_error / float(law.standard_deviation)

    @property
    def gain(self) -> float | None:
        """How many times less noise than as published, for the same number of iterations."""
        return None if self.published_scale is None else self.published_scale / self.sum_scale

    def facts(self) -> Facts:
        """What to show."""
        facts = [
            ("iterations", str(self.iterations)),
            ("noise", f"{self.noise}, scale {self.sum_scale:.4g} on sums and {self.count_scale:.4g} on counts"),
            ("guarantee", str(self.guarantee)),
        ]
        if self.gain is not None:
            facts.append(("gain", f"{self.gain:.3g} times less noise than the published split"))
        if self.cluster_error is not None:
            facts.append(("centroid error", f"{self.cluster_error:.3g} half-widths per coordinate and iteration"))
        return facts

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON-ready data."""
        return {
            "iterations": self.iterations,
            "noise": self.noise,
            "sum_scale": self.sum_scale,
            "count_scale": self.count_scale,
            "guarantee": self.guarantee.to_dict(),
            "gain": self.gain,
            "cluster_error": self.cluster_error,
        }

    def heading(self) -> str:
        return "Plan of DPLloyd"


class DPLloyd(ClusterModel):
    """k-means clusters under differential privacy (blum2005, su2017).

    Every iteration assigns rows to the nearest public centre and moves each centre to its noisy sum over its noisy
    count.

    Parameters
    ----------
    n_clusters
        Number of clusters k.
    guarantee
        For the whole fit: `PureDP` uses Laplace noise, every other kind Gaussian noise.
    bounds
        Public bounds of the columns; values outside count as the bound.
    iterations
        Number T of iterations; by default from the budget and ``expected_rows`` as in su2017 (2 to 7), or 5.
    expected_rows
        A public guess of the number of rows, for planning only.
    as_published
        The procedure of miranda2026: random initial centres, T = 20, a budget of ε/((d·k + 1)·T) per cluster and
        coordinate, half for a sum and half for a count of its own. Its real cost is smaller, and is what is charged.

    Attributes
    ----------
    cluster_centers_
        Centres in the units of the data.
    n_iter_, counts_, guarantee_
        Iterations done, noisy counts of the last one, and the guarantee of the fit.

    Guarantee
    ---------
    Add/remove neighbours. A row is in one cluster, so in one iteration it moves that cluster's d sums by at most 1 each
    (in half-widths) and its count by 1: noise for ℓ₁ = d + λ (ℓ₂ = √(d + λ²)), with the count weighted by λ, pays for
    all clusters at once, and T iterations compose. Everything else reads public centres only. Proof:
    ``docs/proofs/lloyd.md``.

    Examples
    --------
    >>> rows = np.repeat([[0.0, 0.0], [10.0, 10.0]], 2000, axis=0)
    >>> model = DPLloyd(2, guarantee=PureDP(2.0), bounds=[(-5, 15), (-5, 15)], expected_rows=4000)
    >>> sorted(np.abs(model.fit(rows, rng=1).cluster_centers_.round()).tolist())
    [[0.0, 0.0], [10.0, 10.0]]
    >>> print(model.plan())
    Plan of DPLloyd
      iterations      7
      noise           laplace, scale 9.59 on sums and 12.96 on counts
      guarantee       PureDP(ε=2)
      gain            3.65 times less noise than the published split
      centroid error  0.00709 half-widths per coordinate and iteration
    """

    name = "dp_lloyd"
    _answered = ("cluster_centers_", "counts_")
    counts_: Array

    def __init__(
        self,
        n_clusters: int,
        *,
        guarantee: Guarantee,
        bounds: Any,
        iterations: int | None = None,
        expected_rows: int | None = None,
        as_published: bool = False,
    ) -> None:
        self.n_clusters = requirements.positive_integer("n_clusters", n_clusters)
        requirements.instance("guarantee", guarantee, Guarantee, "PureDP(1.0)")
        self.guarantee = guarantee
        self.box = Box(bounds)
        self.as_published = as_published
        if expected_rows is not None:
            requirements.positive_integer("expected_rows", expected_rows)
        self.expected_rows = expected_rows
        if as_published and not isinstance(guarantee, PureDP):
            raise InvalidParameter("guarantee", guarantee, "must be PureDP as published", "Pass PureDP(1.0).")
        self.iterations = (
            self._iterations() if iterations is None else requirements.positive_integer("iterations", iterations)
        )

    @property
    def _count_weight(self) -> float:
        """λ: how much of a row's budget its count gets, for the least squared error of the quotient (su2017)."""
        return float((4 * self.box.dimension * _TYPICAL_OFFSET**2) ** (1 / 3))

    def _iterations(self) -> int:
        if self.as_published:
            return _PUBLISHED_ITERATIONS
        if self.expected_rows is None or not isinstance(self.guarantee, PureDP):
            return _USUAL_ITERATIONS
        weight = (self.box.dimension + self._count_weight) ** 3
        least = math.sqrt(500 * self.n_clusters**3 * weight) / self.expected_rows
        return int(min(max(self.guarantee.epsilon / least, _FEW), _MANY))

    @property
    def _moves(self) -> tuple[float, ...]:
        """How far one row moves its cluster's vector in one iteration."""
        return (1.0,) * self.box.dimension + (self._count_weight,)

    def plan(self) -> LloydPlan:
        """What `fit` would do; reads no data."""
        d, k, T = self.box.dimension, self.n_clusters, self.iterations
        published = None
        if isinstance(self.guarantee, PureDP):
            requirements.positive("epsilon", self.guarantee.epsilon)
            published = 2 * (d * k + 1) * T / self.guarantee.epsilon
        if self.as_published:
            assert published is not None
            # What really holds: d coordinates of one cluster, ε/((dk + 1)T) each, in T iterations.
            spent = PureDP(up(decimal(self.guarantee.parameters()["epsilon"]) * Fraction(d, d * k + 1)))
            return LloydPlan(T, "laplace", published, published, spent, None, self._error(published, published))
        if isinstance(self.guarantee, PureDP):
            share = self.guarantee.split(T)[0]
            scale, noise = Laplace.calibrate(share, Sensitivity(moves=self._moves)).scale, "laplace"
        else:
            # T Gaussian releases are one with √T times the distance.
            apart = Sensitivity(moves=self._moves * T)
            scale, noise = Gaussian.calibrate(self.guarantee, apart).scale, "gaussian"
        count_scale = scale / self._count_weight
        return LloydPlan(T, noise, scale, count_scale, self.guarantee, published, self._error(scale, count_scale))

    def _error(self, sum_scale: float, count_scale: float) -> float | None:
        if self.expected_rows is None:
            return None
        spread = math.hypot(sum_scale, _TYPICAL_OFFSET * count_scale)
        factor = math.sqrt(2) if isinstance(self.guarantee, PureDP) else 1.0
        return factor * spread * self.n_clusters / self.expected_rows

    def fit(
        self,
        X: ArrayLike,
        *,
        ledger: Ledger | None = None,
        rng: int | np.random.Generator | None = None,
        request: str | None = None,
    ) -> Self:
        """Find the centres; spends the whole budget before anything is drawn.

        Parameters
        ----------
        X
            Rows.
        ledger
            Where the cost is recorded; required unless ``rng`` makes it a simulation.
        rng
            A seed or generator simulates.
        request
            A name that makes the fit repeatable: asking again returns the stored one and spends nothing.
        """
        plan = self.plan()
        cells = self.box.cells(X)
        reservation = self._spend(ledger, rng, request)
        if reservation is not None and reservation.answered:
            return self._restored(reservation.answer)
        public = np.random.default_rng() if rng is None else generator(rng)
        draws = None if rng is None else public
        centres = (
            public.uniform(-1, 1, (self.n_clusters, self.box.dimension))
            if self.as_published
            else spread_centres(self.n_clusters, self.box.dimension, public)
        )
        counts = np.zeros(self.n_clusters)
        for _ in range(plan.iterations):
            sums, totals = cluster_totals(cells, centres)
            noisy_sums, noisy_counts = self._noisy(plan, sums, totals, draws)
            centres, counts = self._moved(plan, centres, noisy_sums, noisy_counts), noisy_counts.mean(axis=1)
        self.cluster_centers_ = self.box.original(centres)
        self.counts_, self.n_iter_ = counts, plan.iterations
        return self._kept(ledger, reservation, request)

    @property
    def sensitivity(self) -> Sensitivity:
        """How far one row moves its cluster's sums and weighted count in one iteration."""
        return Sensitivity(moves=self._moves)

    def description(self) -> dict[str, Any]:
        """Name and public parameters, for the ledger."""
        plan = self.plan()
        return {
            "name": self.name,
            "n_clusters": self.n_clusters,
            "bounds": [list(pair) for pair in self.box.bounds],
            "iterations": plan.iterations,
            "noise": plan.noise,
            "sum_scale": plan.sum_scale,
            "count_scale": plan.count_scale,
        }

    def _noisy(
        self, plan: LloydPlan, sums: Array, totals: Array, rng: np.random.Generator | None
    ) -> tuple[Array, Array]:
        """Noisy sums and, per coordinate, noisy counts: one count for all coordinates, or as published one each."""
        kind = Laplace if plan.noise == "laplace" else Gaussian
        columns = self.box.dimension if self.as_published else 1
        spread = np.repeat(totals[:, None], columns, axis=1)
        noisy_sums = np.asarray(kind(plan.sum_scale).draw(sums, rng=rng))
        return noisy_sums, np.asarray(kind(plan.count_scale).draw(spread, rng=rng))

    def _moved(self, plan: LloydPlan, centres: Array, sums: Array, counts: Array) -> Array:
        """Centres from noisy numbers only; a cluster whose noisy count is no larger than its noise stays."""
        enough = counts > (1.0 if self.as_published else plan.count_scale)
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = np.where(enough, sums / counts, centres)
        return np.clip(moved, -1.0, 1.0)

    def predict(self, X: ArrayLike) -> NDArray[np.intp]:
        """Nearest centre of each row. Labels of private rows are private: do not publish them."""
        self._require_fit()
        return labels_of(self.box.cells(X), self.box.scaled(self.cluster_centers_))

    def __repr__(self) -> str:
        return f"DPLloyd({self.n_clusters}, guarantee={self.guarantee!r}, bounds={list(self.box.bounds)})"
