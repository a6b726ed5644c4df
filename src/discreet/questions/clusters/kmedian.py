"""KMedian: centres from a public universe, by private local search (gupta2010)."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.door import Allowance, Step
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.guarantee import Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.numbers import decimal, greatest, up
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.choices.selection import ExponentialMechanism
from discreet.questions.clusters.model import ClusterModel
from discreet.results.display import Facts, Result

Array = NDArray[np.float64]
_CELLS = 2**30
"""Distances are whole numbers of 2⁻³⁰ of the diameter, so that costs are exact sums."""
_BLOCK = 1 << 16
"""Distances that are worked on at once: 512 kB."""


@dataclass(frozen=True)
class KMedianPlan(Result):
    """The settings and cost of a fit, from public facts only.

    Attributes
    ----------
    swaps
        Number T of private swaps.
    strength
        ε of each of the T + 1 choices.
    guarantee
        What really holds for the whole fit.
    cost_error
        With probability 95 % no choice is worse than the best one by more than this, in diameters.
    """

    swaps: int
    strength: float
    guarantee: Guarantee
    cost_error: float
    mechanism = "exponential"
    scale = None
    standard_error = None
    read = "a choice's cost, in diameters"
    scenario = ""

    @property
    def error_95(self) -> float:
        """As ``cost_error``."""
        return self.cost_error

    def facts(self) -> Facts:
        """The facts to show."""
        return [
            ("swaps", str(self.swaps)),
            ("ε of each choice", f"{self.strength:.4g}"),
            ("guarantee", str(self.guarantee)),
            ("cost error", f"{self.cost_error:.4g} diameters per choice, at 95 %"),
        ]

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON-ready data."""
        return {
            "swaps": self.swaps,
            "strength": self.strength,
            "guarantee": self.guarantee.to_dict(),
            "cost_error": self.cost_error,
        }

    def heading(self) -> str:
        return "Plan of KMedian"


class KMedian(ClusterModel):
    """k-median clusters whose centres are points of a public universe.

    From a random set of k points, T swaps of one centre are chosen by the exponential mechanism with the negative
    cost (sum of the distances of all rows to their nearest centre) as score; then one of the T sets is chosen in the
    same way.

    Parameters
    ----------
    n_clusters
        Number of centres k.
    guarantee
        For the whole fit: `PureDP`, or `ZeroConcentratedDP`, under which the choices' bounded range composes better.
    universe
        Possible positions, one row each; rows of the data count as their nearest position.
    swaps
        Number T of swaps; by default 6·k·ln(size of the universe), as published.
    as_published
        ε/(2(T + 1)) per choice, as if costs could move in opposite directions. They cannot, so only ε/2 is spent, and
        that is what is charged.

    Attributes
    ----------
    cluster_centers_, center_indices_
        The centres, and their positions in the universe.
    n_iter_, guarantee_
        Swaps done and the guarantee of the fit.

    Guarantee
    ---------
    Add/remove neighbours. One row changes every cost by between 0 and the diameter, in the same direction: each
    choice is a monotone exponential mechanism of strength ε/(T + 1) (η²/8-zCDP for strength η). Proof:
    ``docs/proofs/clustering.md``.

    Examples
    --------
    >>> grid = [(x, y) for x in range(11) for y in range(11)]
    >>> rows = np.repeat([[1, 1], [9, 9]], 5000, axis=0)
    >>> model = KMedian(2, guarantee=PureDP(5.0), universe=grid, swaps=20).fit(rows, rng=3)
    >>> sorted(model.cluster_centers_.tolist())
    [[1.0, 1.0], [9.0, 9.0]]
    """

    name = "k_median"
    _answered = ("cluster_centers_", "center_indices_")
    center_indices_: NDArray[np.intp]

    def __init__(
        self,
        n_clusters: int,
        *,
        guarantee: Guarantee,
        universe: ArrayLike,
        swaps: int | None = None,
        as_published: bool = False,
    ) -> None:
        self.n_clusters = requirements.positive_integer("n_clusters", n_clusters)
        self.guarantee = requirements.instance(
            "guarantee", guarantee, (PureDP, ZeroConcentratedDP), "PureDP(1.0) or ZeroConcentratedDP(0.1)"
        )
        try:
            points = np.asarray(universe, dtype=float)
        except (TypeError, ValueError, OverflowError):
            raise WrongType("universe", universe, "must be a table of numbers", "Pass one row per position.") from None
        if points.ndim != 2 or len(points) <= self.n_clusters or not np.all(np.isfinite(points)):
            raise InvalidParameter(
                "universe", points.shape, f"must hold more than {self.n_clusters} finite positions", "Add positions."
            )
        self.universe = points
        self.as_published = as_published
        if as_published and not isinstance(guarantee, PureDP):
            raise InvalidParameter("guarantee", guarantee, "must be PureDP as published", "Pass PureDP(1.0).")
        usual = math.ceil(6 * self.n_clusters * math.log(len(points)))
        self.swaps = usual if swaps is None else requirements.positive_integer("swaps", swaps)

    @property
    def diameter(self) -> float:
        """Of the box around the universe: at least the largest distance."""
        return float(np.linalg.norm(np.ptp(self.universe, axis=0)))

    def _share(self) -> Guarantee:
        """The cost that one choice may have. As published only half of the claim is needed, and only that is spent."""
        whole: Guarantee = self.guarantee
        if isinstance(self.guarantee, PureDP) and self.as_published:
            whole = PureDP(up(decimal(self.guarantee.epsilon) / 2))
        return whole.split(self.swaps + 1)[0]

    def plan(self) -> KMedianPlan:
        """The settings and cost of `fit`; reads no data."""
        requirements.positive(*next(iter(self.guarantee.parameters().items())))
        share, spent = self._share(), self.guarantee
        if isinstance(share, PureDP):
            target = decimal(share.epsilon)
            strength = greatest(lambda value: Fraction(value) <= target, float(target))
            if self.as_published:
                spent = PureDP(up(decimal(self.guarantee.parameters()["epsilon"]) / 2))
        else:
            square = 8 * decimal(share.parameters()["rho"])
            strength = greatest(lambda value: Fraction(value) ** 2 <= square, math.sqrt(square))
        candidates = self.n_clusters * (len(self.universe) - self.n_clusters)
        return KMedianPlan(self.swaps, strength, spent, math.log(candidates * (self.swaps + 1) / 0.05) / strength)

    @property
    def steps(self) -> list[Step]:
        """T swaps and one last choice. Costs are whole numbers of cells, so the factor is per cell, exactly."""
        choice = ExponentialMechanism(self.plan().strength / _CELLS, monotone=True)
        return [Step(choice, self.sensitivity, self._share()) for _ in range(self.swaps + 1)]

    def prepared(self, X: ArrayLike) -> Array:
        return self._weights(X)

    def _fitted(self, data: Array, allowance: Allowance, steps: list[Step]) -> None:
        public = np.random.default_rng() if allowance.rng is None else allowance.rng
        start = public.choice(len(self.universe), self.n_clusters, replace=False)
        search = LocalSearch(self.universe, data, self.diameter, start)
        visited, costs = [], []
        for step in steps[:-1]:
            scores = search.swap_costs()
            free = np.flatnonzero(np.isfinite(scores.ravel()))  # which positions are in use is public
            chosen = int(free[int(allowance.draw(step, -scores.ravel()[free].astype(np.int64)))])
            search.swap(chosen // scores.shape[1], chosen % scores.shape[1])
            visited.append(search.centres.copy())
            costs.append(search.cost())
        best = int(allowance.draw(steps[-1], -np.array(costs, dtype=np.int64)))
        self.center_indices_ = np.sort(visited[best])
        self.cluster_centers_ = self.universe[self.center_indices_]
        self.n_iter_ = self.swaps

    @property
    def sensitivity(self) -> Sensitivity:
        """One row moves every cost one way, by at most one diameter."""
        return Sensitivity(moves=(float(_CELLS),))

    def description(self) -> dict[str, Any]:
        """Name and public parameters, for the ledger."""
        universe = hashlib.sha256(np.ascontiguousarray(self.universe).tobytes()).hexdigest()
        return {"name": self.name, "n_clusters": self.n_clusters, "universe": universe, **self.plan().to_dict()}

    def _weights(self, X: ArrayLike) -> Array:
        """The number of rows at each position. Private."""
        try:
            rows = np.asarray(X, dtype=float)
        except (TypeError, ValueError, OverflowError):
            raise WrongType("X", "…", "must be numbers", "Pass a table of numbers.") from None
        if rows.ndim != 2 or rows.shape[1] != self.universe.shape[1] or not np.all(np.isfinite(rows)):
            raise InvalidParameter(
                "X", rows.shape, f"must hold finite rows of {self.universe.shape[1]} numbers", "Check the data."
            )
        from scipy.spatial import cKDTree

        if len(rows) == 0:
            return np.zeros(len(self.universe))
        nearest = cKDTree(self.universe).query(rows)[1]
        return np.bincount(nearest, minlength=len(self.universe)).astype(float)

    def predict(self, X: ArrayLike) -> NDArray[np.intp]:
        """Nearest centre of each row. Labels of private rows are private: do not publish them."""
        self._require_fit()
        rows = np.asarray(X, dtype=float)
        return np.asarray(np.argmin(np.linalg.norm(rows[:, None] - self.cluster_centers_[None], axis=2), axis=1))

    def __repr__(self) -> str:
        return f"KMedian({self.n_clusters}, guarantee={self.guarantee!r}, universe=<{len(self.universe)} positions>)"


class LocalSearch:
    """Centres with, for every demand, the nearest and second nearest of them, so that all swaps are priced at once.

    Demand p costs min(d(p, y), d₁(p)) after centre x gives way to position y, or min(d(p, y), d₂(p)) if x was its
    nearest. `staying` and `leaving` hold the two sums over the demands nearest to each x, for every y:

    cost(F − x + y) = Σ_{x' ≠ x} staying[x', y] + leaving[x, y].

    A swap changes d₁ or d₂ of some demands only, and only their terms are computed again. All numbers are whole, so the
    updated sums stay exact.
    """

    def __init__(self, universe: Array, weights: Array, diameter: float, start: NDArray[np.intp]) -> None:
        from scipy.spatial.distance import cdist

        occupied = np.flatnonzero(weights)
        self.weights = weights[occupied]
        # Whole numbers: sums are exact in any order, and one row moves a cost by at most the declared diameter.
        self.distances = np.rint(cdist(universe[occupied], universe) / diameter * _CELLS)
        np.minimum(self.distances, _CELLS, out=self.distances)
        self.centres = np.asarray(start)
        self.first = np.zeros(len(occupied), dtype=np.intp)
        self.nearest = np.zeros(len(occupied))  # at distance 0 a demand adds nothing
        self.second = np.zeros(len(occupied))
        self.staying = np.zeros((len(start), len(universe)))
        self.leaving = np.zeros((len(start), len(universe)))
        self._settle()

    def _two_nearest(self) -> tuple[NDArray[np.intp], Array, Array]:
        to_centres = self.distances[:, self.centres]
        first = np.argmin(to_centres, axis=1)
        rows = np.arange(len(first))
        nearest = to_centres[rows, first]
        to_centres[rows, first] = np.inf
        second = to_centres.min(axis=1) if len(self.centres) > 1 else np.full(len(first), float(_CELLS))
        return first, nearest, second

    def _settle(self) -> None:
        """Bring the sums up to date with the centres."""
        first, nearest, second = self._two_nearest()
        for sums, before, after in ((self.staying, self.nearest, nearest), (self.leaving, self.second, second)):
            changed = np.flatnonzero((first != self.first) | (before != after))
            if changed.size:
                self._replace(sums, changed, (self.first, before), (first, after))
        self.first, self.nearest, self.second = first, nearest, second

    def _replace(
        self, sums: Array, rows: NDArray[np.intp], before: tuple[Any, Array], after: tuple[Any, Array]
    ) -> None:
        """Exchange the terms of some demands, each with its nearest centre and cap; in blocks that stay in cache."""
        numbers = np.arange(len(self.centres))[:, None]
        # One row of weights per centre: the demands that are nearest to it.
        old, new = (np.where(owner[rows] == numbers, self.weights[rows], 0.0) for owner, _ in (before, after))
        old_cap, new_cap = before[1][rows, None], after[1][rows, None]
        block = max(1, _BLOCK // rows.size)
        for start in range(0, sums.shape[1], block):
            part = slice(start, start + block)
            distances = self.distances[rows, part]
            sums[:, part] += new @ np.minimum(distances, new_cap)
            np.minimum(distances, old_cap, out=distances)
            sums[:, part] -= old @ distances

    def cost(self) -> float:
        """Sum of distances, in grid cells."""
        return float(self.weights @ self.nearest)

    def swap_costs(self) -> Array:
        """Costs of replacing each centre (rows) by each position (columns); positions in use cost infinity."""
        costs = self.staying.sum(axis=0) - self.staying + self.leaving
        costs[:, self.centres] = np.inf
        return np.asarray(costs)

    def swap(self, out: int, new: int) -> None:
        """Replace centre number ``out`` by position ``new``."""
        self.centres = self.centres.copy()
        self.centres[out] = new
        self._settle()
