"""DPLloyd: k-means by noisy sums and counts of the clusters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.door import Allowance, Step
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.guarantee import ApproxDP, Guarantee, PureDP
from discreet.core.ledger.balance import Accounting
from discreet.core.numbers import decimal, up
from discreet.core.sensitivity import Sensitivity
from discreet.inference.noise import NoiseSum
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace
from discreet.mechanisms.mechanism import AdditiveNoise
from discreet.questions.clusters.model import ClusterModel
from discreet.results.display import Facts, Result
from discreet.results.ledger import accounting_of

# ---- Spread: initial centres that are far from each other and from the edges, and read no data


Array = NDArray[np.float64]
_TRIES = 200
_HALVINGS = 12


def spread_centres(count: int, dimension: int, rng: np.random.Generator) -> Array:
    """Sphere packing in [−1, 1]^d (su2017): the largest radius a for which random points fit that are 2a apart
    and a from the edges, found by bisection.

    Examples
    --------
    >>> spread_centres(3, 2, np.random.default_rng(1)).shape
    (3, 2)
    """
    low, high = 0.0, 1.0
    best = rng.uniform(-1, 1, (count, dimension))
    for _ in range(_HALVINGS):
        radius = (low + high) / 2
        packed = _packed(count, dimension, radius, rng)
        if packed is None:
            high = radius
        else:
            low, best = radius, packed
    return best


def _packed(count: int, dimension: int, radius: float, rng: np.random.Generator) -> Array | None:
    """Random points one after another, each a valid one of many candidates; None where one cannot be placed."""
    points = np.empty((0, dimension))
    for _ in range(count):
        candidates = rng.uniform(-1 + radius, 1 - radius, (_TRIES, dimension))
        gaps = np.linalg.norm(candidates[:, None] - points[None], axis=2)
        fits = np.flatnonzero((gaps >= 2 * radius).all(axis=1))
        if fits.size == 0:
            return None
        points = np.vstack([points, candidates[fits[0]]])
    return points


# ---- Box: rows scaled to [−1, 1]^d by public bounds, as whole numbers of a fine grid
#
# Cluster sums are sums of whole numbers, so they are exact and independent of the order of rows; a row's label is
# computed from that row alone by correctly rounded operations, so it cannot change when other rows come or go.


RESOLUTION = 2.0**20
"""Grid cells per unit of the scaled rows."""
_CHUNK = 16384


class Box:
    """Public bounds of all coordinates.

    Parameters
    ----------
    bounds
        One pair (low, high) per coordinate.
    """

    def __init__(self, bounds: Any) -> None:
        try:
            paired = np.ndim(bounds) == 2 and len(bounds) > 0
        except ValueError:  # rows of unlike length
            paired = False
        if not paired:
            raise WrongType("bounds", bounds, "must hold a pair per coordinate", "Pass bounds=[(0, 125), (0, 100)].")
        pairs = [requirements.ordered_bounds("bounds", tuple(pair)) for pair in bounds]
        if not all(math.isfinite(end) for pair in pairs for end in pair):
            raise InvalidParameter("bounds", bounds, "must be finite", "Give both ends of every coordinate.")
        self.bounds = tuple(pairs)
        low, high = np.array(pairs).T
        self.middle, self.half = (low + high) / 2, (high - low) / 2

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return len(self.bounds)

    def cells(self, rows: ArrayLike) -> Array:
        """Columns of grid cells: whole numbers in ±2²⁰, one row of the result per coordinate."""
        try:
            array = np.asarray(rows, dtype=float)
        except (TypeError, ValueError, OverflowError):
            raise WrongType("X", "…", "must be numbers", "Pass a table of numbers.") from None
        if array.ndim != 2 or array.shape[1] != self.dimension:
            raise InvalidParameter(
                "X", array.shape, f"must have {self.dimension} columns, one per bound", "Select the columns."
            )
        if not np.all(np.isfinite(array)):
            raise InvalidParameter("X", "…", "must be finite", "Remove or replace missing values by a public rule.")
        result = np.empty((self.dimension, len(array)))
        for j in range(self.dimension):
            scaled = (array[:, j] - self.middle[j]) / self.half[j]
            np.clip(scaled, -1.0, 1.0, out=scaled)
            scaled *= RESOLUTION
            np.rint(scaled, out=result[j])
        return result

    def scaled(self, centres: Array) -> Array:
        """Centres in [−1, 1]^d from centres in the units of the data."""
        return np.asarray((centres - self.middle) / self.half)

    def original(self, centres: Array) -> Array:
        """Centres in the units of the data."""
        return np.asarray(centres * self.half + self.middle)


def labels_of(cells: Array, centres: Array) -> NDArray[np.intp]:
    """Nearest centre of every row; ties go to the first."""
    result = np.empty(cells.shape[1], dtype=np.intp)
    for start in range(0, cells.shape[1], _CHUNK):
        part = slice(start, start + _CHUNK)
        result[part] = _nearest(cells[:, part], centres)
    return result


def _nearest(cells: Array, centres: Array) -> NDArray[np.intp]:
    """argmax of x·c − |c|²/2, which orders centres like the distance; no fused or blocked arithmetic."""
    best = np.zeros(cells.shape[1], dtype=np.intp)
    highest = np.full(cells.shape[1], -np.inf)
    score = np.empty(cells.shape[1])
    product = np.empty(cells.shape[1])
    for index, centre in enumerate(centres):
        np.multiply(cells[0], centre[0] / RESOLUTION, out=score)
        score -= float(np.dot(centre, centre)) / 2
        for column, value in zip(cells[1:], centre[1:], strict=True):
            np.multiply(column, value / RESOLUTION, out=product)
            score += product
        closer = score > highest
        np.maximum(score, highest, out=highest)
        best[closer] = index
    return best


def cluster_totals(cells: Array, centres: Array) -> tuple[Array, Array]:
    """Exact sums (k × d, in units of [−1, 1]) and counts of the rows nearest to each centre. Private."""
    count = len(centres)
    which = np.arange(count)[:, None]
    sums, counts = np.zeros((count, len(cells))), np.zeros(count)
    for start in range(0, cells.shape[1], _CHUNK):
        chunk = cells[:, start : start + _CHUNK]
        labels = _nearest(chunk, centres)
        counts += np.bincount(labels, minlength=count)
        sums += (labels == which).astype(float) @ chunk.T  # of whole numbers: exact in any order
    return sums / RESOLUTION, counts


_TYPICAL_OFFSET = 0.225
"""Typical distance of a centroid from the origin per coordinate (su2017 §4.2): it sets the share of the count."""
_FEW, _MANY = 2, 7
"""Fewest and most iterations worth a share of the budget (su2017)."""
_USUAL_ITERATIONS = 5
_PUBLISHED_ITERATIONS = 20
_WEIGHT_STEPS = 256
"""The weight of counts is a whole number of these parts, so that weighted counts are exact."""


@dataclass(frozen=True)
class LloydPlan(Result):
    """The settings, noise and cost of a fit, from public facts only.

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
    scenario = f"clusters of equal size, {_TYPICAL_OFFSET:g} half-widths from the middle"

    @property
    def mechanism(self) -> str:
        """Distribution of the noise."""
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
    def error_95(self) -> float | None:
        """95 % of the errors of a centre's coordinate stay below this."""
        if self.cluster_error is None:
            return None
        weights = np.array([self.sum_scale, _TYPICAL_OFFSET * self.count_scale])
        law = NoiseSum.of((Laplace if self.noise == "laplace" else Gaussian)(1.0).law(0.0), weights)
        return float(law.quantile(0.975)) * self.cluster_error / float(law.standard_deviation)

    @property
    def gain(self) -> float | None:
        """Times less noise than `as_published`, which gives each cluster and coordinate ε/((d·k + 1)·T)."""
        return None if self.published_scale is None else self.published_scale / self.sum_scale

    def facts(self) -> Facts:
        """The facts to show."""
        facts = [
            ("iterations", str(self.iterations)),
            ("noise", f"{self.noise}, scale {self.sum_scale:.4g} on sums and {self.count_scale:.4g} on counts"),
            ("guarantee", str(self.guarantee)),
        ]
        if self.gain is not None:
            facts.append(("gain", f"{self.gain:.3g} times less noise than a split over all sums"))
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


def _has_gaussian(guarantee: Guarantee) -> bool:
    """True where Gaussian noise can meet the guarantee."""
    return not isinstance(guarantee, PureDP) and not (isinstance(guarantee, ApproxDP) and guarantee.delta == 0)


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
    ``docs/proofs/clustering.md``.

    Examples
    --------
    >>> rows = np.repeat([[0.0, 0.0], [10.0, 10.0]], 2000, axis=0)
    >>> model = DPLloyd(2, guarantee=PureDP(2.0), bounds=[(-5, 15), (-5, 15)], expected_rows=4000)
    >>> sorted(np.abs(model.fit(rows, rng=1).cluster_centers_.round()).tolist())
    [[0.0, 0.0], [10.0, 10.0]]
    >>> print(model.plan())
    Plan of DPLloyd
      iterations      7
      noise           laplace, scale 9.584 on sums and 12.98 on counts
      guarantee       ε = 2
      gain            3.65 times less noise than a split over all sums
      centroid error  0.00708 half-widths per coordinate and iteration
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
        if self.as_published:
            return 1.0
        best = (4 * self.box.dimension * _TYPICAL_OFFSET**2) ** (1 / 3)
        return float(max(round(best * _WEIGHT_STEPS), 1)) / _WEIGHT_STEPS

    def _iterations(self) -> int:
        if self.as_published:
            return _PUBLISHED_ITERATIONS
        if self.expected_rows is None or not isinstance(self.guarantee, PureDP):
            return _USUAL_ITERATIONS
        weight = (self.box.dimension + self._count_weight) ** 3
        least = math.sqrt(500 * self.n_clusters**3 * weight) / self.expected_rows
        return int(min(max(self.guarantee.epsilon / least, _FEW), _MANY))

    @property
    def _counts(self) -> int:
        """Noisy counts per cluster: one for all coordinates; as published one for each."""
        return self.box.dimension if self.as_published else 1

    @property
    def sensitivity(self) -> Sensitivity:
        """The distance by which one row moves its cluster's sums and weighted counts in one iteration."""
        return Sensitivity(moves=(1.0,) * self.box.dimension + (self._count_weight,) * self._counts)

    def counting(self) -> Accounting | None:
        """Gaussian iterations under (ε, δ) add up as μ², which allows more of them than adding ε and δ."""
        squares = self._noise()[0] is Gaussian and isinstance(self.guarantee, ApproxDP)
        return accounting_of(self.guarantee, "gdp") if squares else None

    def _spent(self) -> Guarantee:
        """The guarantee that really holds for the fit."""
        if not self.as_published:
            return self.guarantee
        d, k = self.box.dimension, self.n_clusters
        # d coordinates of one cluster, ε/((dk + 1)T) each, in T iterations.
        return PureDP(up(decimal(self.guarantee.parameters()["epsilon"]) * Fraction(d, d * k + 1)))

    def _noise(self) -> tuple[type[AdditiveNoise], Guarantee, float]:
        """Distribution, cost and scale of one iteration, whichever distribution needs less noise."""
        T = self.iterations
        if self.as_published:
            share = self._spent().split(T)[0]
            return Laplace, share, Laplace.calibrate(share, self.sensitivity).scale
        shares: list[tuple[type[AdditiveNoise], Guarantee]] = []
        if _has_gaussian(self.guarantee):
            shares.append((Gaussian, self._gaussian().split(T)[0]))
        if isinstance(self.guarantee, PureDP | ApproxDP):
            shares.append((Laplace, self.guarantee.split(T)[0]))
        scaled = [(law, cost, law.calibrate(cost, self.sensitivity).scale) for law, cost in shares]
        return min(scaled, key=lambda one: one[2] * (math.sqrt(2) if one[0] is Laplace else 1.0))

    def _gaussian(self) -> Guarantee:
        """The guarantee that Gaussian iterations share: its own kind, or the largest μ that implies (ε, δ)."""
        if not isinstance(self.guarantee, ApproxDP):
            return self.guarantee
        accounting = accounting_of(self.guarantee, "gdp")
        return accounting.at_most(accounting.allowance)

    def _published_scale(self) -> float:
        d, k = self.box.dimension, self.n_clusters
        epsilon = requirements.positive("epsilon", self.guarantee.parameters()["epsilon"])
        return 2 * (d * k + 1) * self.iterations / epsilon

    def plan(self) -> LloydPlan:
        """The settings, noise and cost of `fit`; reads no data."""
        published = self._published_scale() if isinstance(self.guarantee, PureDP) else None
        law, _, scale = self._noise()
        count_scale = scale / self._count_weight
        gain = None if self.as_published else published
        error = self._error(scale, count_scale, law)
        return LloydPlan(self.iterations, law.name, scale, count_scale, self._spent(), gain, error)

    @property
    def steps(self) -> list[Step]:
        """One draw per iteration: the sums and weighted counts of all clusters, of which a row is in one."""
        law, cost, scale = self._noise()
        return [Step(law(scale), self.sensitivity, cost) for _ in range(self.iterations)]

    def _error(self, sum_scale: float, count_scale: float, law: type[AdditiveNoise]) -> float | None:
        if self.expected_rows is None:
            return None
        spread = math.hypot(sum_scale, _TYPICAL_OFFSET * count_scale)
        factor = math.sqrt(2) if law is Laplace else 1.0
        return factor * spread * self.n_clusters / self.expected_rows

    def prepared(self, X: ArrayLike) -> Any:
        return self.box.cells(X)

    def _fitted(self, data: Any, allowance: Allowance, steps: list[Step]) -> None:
        plan = self.plan()
        public = np.random.default_rng() if allowance.rng is None else allowance.rng
        centres = (
            public.uniform(-1, 1, (self.n_clusters, self.box.dimension))
            if self.as_published
            else spread_centres(self.n_clusters, self.box.dimension, public)
        )
        counts = np.zeros(self.n_clusters)
        for step in steps:
            sums, totals = cluster_totals(data, centres)
            # The weight is a multiple of 2⁻⁸, so a weighted count is exact and moves by exactly the weight.
            weighted = np.repeat(totals[:, None], self._counts, axis=1) * self._count_weight
            noisy = np.asarray(allowance.draw(step, np.column_stack([sums, weighted])))
            noisy_sums, noisy_counts = noisy[:, : -self._counts], noisy[:, -self._counts :] / self._count_weight
            centres, counts = self._moved(plan, centres, noisy_sums, noisy_counts), noisy_counts.mean(axis=1)
        self.cluster_centers_ = self.box.original(centres)
        self.counts_, self.n_iter_ = counts, plan.iterations

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
