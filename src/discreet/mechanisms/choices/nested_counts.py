"""Nested counts: quantiles and their intervals from noisy counts, on a public ladder and then inside what it leaves.

Proofs: ``docs/proofs/quantile.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.door import Rng
from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.guarantee import Guarantee, Profile
from discreet.core.noise.sampler import Floats, Truth, generator
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms.choices.quantile import Histogram, Integers, RankStatistic, group_histograms, share_of
from discreet.mechanisms.composition import compose, compose_curves
from discreet.mechanisms.geometric import Geometric
from discreet.mechanisms.mechanism import Kind, Law, Mechanism

Array = NDArray[np.float64]
_FIRST_SHARE = 1 / 3
_ROUGH = 0.002
"""Chance that the ladder leads away from a quantile. The interval then still holds it, and is wide."""
_LADDER = 17
"""Rungs to each side, by factors of 10^(1/4): four decades."""
_FEWEST, _MOST = 16, 256
"""Cells of the second stage: so many that those of even rows lie as far apart as their noise reaches."""
_LATTICE = 8.0
"""Scale of noise on the lattice on which sums of it are worked out: larger noise takes a coarser lattice."""


@lru_cache(maxsize=16)
def _sums(terms: int, scale: float) -> tuple[Array, Array]:
    """P(S = s) and P(S ≤ s) of the sum of 0, 1 … two-sided geometric noises, for s from −N/2 on."""
    size = 2 ** math.ceil(math.log2(2 * scale * (10 * math.sqrt(2 * terms) + 40) + 64))
    shrink = math.exp(-1 / scale)
    turned = 1 - 2 * shrink * np.cos(2 * np.pi * np.arange(size // 2 + 1) / size) + shrink**2
    chances = np.fft.irfft(((1 - shrink) ** 2 / turned) ** np.arange(terms + 1)[:, None], size, axis=1)
    masses = np.maximum(np.fft.fftshift(chances, axes=1), 0.0)
    return masses, np.cumsum(masses, axis=1)


def noise_beyond(share: float, reached: Array, scale: float) -> Array:
    """P((1 − q)·(noise of j cells) − q·(noise of the others) ≥ reached), for j = 1 … m − 1.

    Examples
    --------
    >>> noise_beyond(0.5, np.array([0.0, 4.0, 9.0]), 2.0).round(3).tolist()
    [0.54, 0.084, 0.003]
    """
    cells, step = reached.size + 1, max(scale / _LATTICE, 1.0)
    masses, below = _sums(cells, scale / step)
    middle, inner = masses.shape[1] // 2, np.arange(1, cells)[:, None]
    steps = np.arange(masses.shape[1]) - middle
    # The others are at most so much: rounded up, as is everything that makes an interval wider.
    gap = (1 - share) * steps - reached[:, None] / step
    all_of_them = masses.shape[1]  # of a quantile at 0 the others have no part
    most = np.floor(gap / share + 1e-9) if share > 0 else np.where(gap >= -1e-9, all_of_them, -all_of_them)
    places = np.clip(most + middle, -1, masses.shape[1] - 1).astype(np.int64)
    return np.asarray(np.sum(masses[1:-1] * np.where(places < 0, 0.0, below[cells - inner, places]), axis=1))


@dataclass(frozen=True)
class _Counted:
    """Cells of grid steps, each from its start to before the next, with noisy counts of rows."""

    starts: Integers
    highest: int
    counts: Array
    scale: float

    @classmethod
    def of(cls, part: Histogram, starts: Integers, highest: int, scale: float, rng: Rng) -> _Counted:
        steps, rows = part
        totals = np.bincount(np.searchsorted(starts, steps, side="right") - 1, weights=rows, minlength=starts.size)
        return cls(starts, highest, np.asarray(Geometric(scale).draw(totals.astype(np.int64), rng=rng)), scale)

    def around(self, share: float, miss: float) -> tuple[int, int, int]:
        """The first and the last cell that the quantile may lie in, and the one that it seems to lie in."""
        over = self._over(share)
        apart, side = over[1:-1], miss / 2
        low = np.append(True, noise_beyond(share, apart, self.scale) >= side)
        high = np.append(noise_beyond(share, -apart, self.scale) >= side, True)
        seems = int(np.argmax(np.maximum.accumulate(np.append(over[1:-1], math.inf)) >= 0))
        kept = np.append(np.flatnonzero(low & high), seems)
        return int(kept.min()), int(kept.max()), seems

    def _over(self, share: float) -> Array:
        """Noisy rows below the end of each cell, less those below the quantile; first those below all cells."""
        upto = np.append(0.0, np.cumsum(self.counts))
        return np.asarray(upto - share * upto[-1])

    def interval(self, share: float, miss: float) -> tuple[int, int, int]:
        """Lower end, estimate and upper end, in steps."""
        first, last, seems = self.around(share, miss)
        ends = np.append(self.starts[1:], self.highest + 1) - 1
        running = np.maximum.accumulate(self._over(share))
        before, after = min(running[seems], 0.0), max(running[seems + 1], 0.0)
        within = -before / (after - before) if after > before else 0.5
        estimate = self.starts[seems] + round(within * int(ends[seems] - self.starts[seems]))
        return int(self.starts[first]), int(estimate), int(ends[last])

    def finer(self, share: float, scale: float, most: int) -> Integers:
        """Starts of even cells inside what the quantile may lie in, the more the more rows seem to be there."""
        first, last, _ = self.around(share, _ROUGH)
        low, high = int(self.starts[first]), int(np.append(self.starts, self.highest + 1)[last + 1])
        rows = max(float(self.counts[first : last + 1].sum()), 0.0)
        cells = int(min(max((rows / scale) ** (2 / 3), _FEWEST), most))
        return np.rint(np.linspace(low, high, cells + 1)).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class NestedCounts(Mechanism):
    """Publish for each quantile a lower end, an estimate and an upper end, all read from two rounds of noisy counts.

    The truth is that of `QuantileChoice`. All quantiles are read from the same counts.

    Parameters
    ----------
    first, second
        Scales of the geometric noise on the counts of the two rounds.
    shares
        Which quantiles.
    miss
        Probability, at most, that an interval does not hold its quantile.
    lowest, highest, grid, groups
        The public grid and the number of disjoint groups of rows, as in `QuantileChoice`.

    Notes
    -----
    **Guarantee.** A row is in one cell of each round, so a unit with m rows moves the counts of a round by at most
    Δ₁ = m under add/remove and 2m under replace-one: ε = Δ₁/first + Δ₁/second.

    Examples
    --------
    >>> counts = NestedCounts(
    ...     first=3.0, second=1.5, shares=(0.9,), miss=0.05, lowest=0, highest=1000, grid=1.0
    ... )
    >>> steps = np.arange(1001)
    >>> low, estimate, high = counts.draw(np.array([steps, np.ones_like(steps)]), rng=3).tolist()
    >>> low <= 900 <= high, low <= estimate <= high, high - low < 150
    (True, True, True)
    """

    name: ClassVar[str] = "nested_counts"
    first: float
    second: float
    shares: tuple[float, ...]
    miss: float
    lowest: int
    highest: int
    grid: float
    groups: int = 1

    def __post_init__(self) -> None:
        for name in ("first", "second", "grid"):
            object.__setattr__(self, name, requirements.positive(name, getattr(self, name)))
        for name in ("lowest", "highest"):
            requirements.instance(name, getattr(self, name), (int, np.integer), f"{name}=0, a grid step")
        if not requirements.probability("miss", self.miss, below_one=False) > 0:
            raise InvalidParameter("miss", self.miss, "must be above 0 and at most 1", "Pass miss=0.05.")
        listed = requirements.listed("shares", self.shares, "shares=(0.5,)")
        shares = tuple(requirements.probability("shares", share) for share in listed)
        if not shares or 0 in shares:
            raise InvalidParameter("shares", self.shares, "must be strictly between 0 and 1", "Pass (0.5,).")
        object.__setattr__(self, "shares", shares)
        requirements.positive_integer("groups", self.groups)
        if not self.lowest < self.highest:
            raise InvalidParameter("lowest", self.lowest, "must be below highest", "Swap the two.")

    @classmethod
    def calibrate(
        cls, guarantee: Guarantee, sensitivity: Sensitivity, *, statistic: RankStatistic | None = None, groups: int = 1
    ) -> Self:
        """The least noise that meets ``guarantee`` for the intervals of ``statistic``."""
        described: RankStatistic = requirements.instance(
            "statistic", statistic, RankStatistic, 'statistic=Quantiles(interval=0.95, method="counts", …)'
        )
        wanted = described.intervals()
        rounds = guarantee.split([_FIRST_SHARE, 1 - _FIRST_SHARE])
        first, second = (Geometric.calibrate(part, sensitivity).scale for part in rounds)
        given: dict[str, Any] = wanted | {"shares": tuple(low for low, _ in wanted["shares"])}
        return cls(first=first, second=second, miss=described.noise_miss(1 / second), groups=groups, **given)

    def profile(self, sensitivity: Sensitivity) -> Profile:
        """That of geometric noise, once per round."""
        return compose_curves([Geometric(scale).profile(sensitivity) for scale in (self.first, self.second)])

    def guarantee(self, sensitivity: Sensitivity, kind: Kind = None, *, delta: float | None = None) -> Guarantee:
        """Pure ε by default."""
        if kind is None or delta is None:
            return compose(*(Geometric(scale).guarantee(sensitivity, kind) for scale in (self.first, self.second)))
        return self.profile(sensitivity).guarantee(kind, delta=delta)

    def check(self, exact: Exact) -> None:
        """Refuse what is not a histogram on this grid."""
        group_histograms(exact.value, self.lowest, self.highest, self.groups)

    def law(self, truth: Truth) -> Law:
        """There is none for numbers that come in threes."""
        raise NoConversion("a quantile with its interval has no law of one number. Use QuantileChoice for one value.")

    def error(self, level: float = 0.95) -> Floats:
        """Ranks by which the noise moves the worst of the quantiles, with the fewest cells around it."""
        half, beyond = _FEWEST // 2, (1 - requirements.level(level)) / 2
        ranks = np.arange(1.0, 200.0)
        found = [noise_beyond(q, np.full(2 * half - 1, rank), 1.0)[half] for q in self.shares for rank in ranks]
        chances = np.reshape(found, (-1, ranks.size))
        return float(ranks[np.argmax(chances <= beyond, axis=1)].max()) * self.second

    def noise_interval(self, value: Floats, level: float) -> tuple[Floats, Floats]:
        """The ends that were published; they hold at the level they were planned for."""
        parts = np.asarray(value, dtype=float).reshape(-1, 3)
        return parts[:, 0], parts[:, 2]

    @cached_property
    def ladder(self) -> Integers:
        """Starts of the cells of the first round: closer and closer to zero, or to the end that is next to it."""
        centre = min(max(0, self.lowest), self.highest)
        away = (self.highest - self.lowest) * 10 ** (-np.arange(_LADDER) / 4)
        rungs = np.rint(np.concatenate([[self.lowest, centre, centre + 1], centre + away, centre - away]))
        inside = rungs[(rungs >= self.lowest) & (rungs <= self.highest)]
        return np.unique(inside).astype(np.int64)

    def draw(self, truth: Truth, *, rng: Rng = None) -> Floats:
        """Lower end, estimate and upper end of each quantile, group by group."""
        random = None if rng is None else generator(rng)
        parts = group_histograms(truth, self.lowest, self.highest, self.groups)
        steps = [step for part in parts for one in self._intervals(part, random) for step in one]
        return np.array([step * self.grid for step in steps])

    def _intervals(self, part: Histogram, rng: np.random.Generator | None) -> list[tuple[int, int, int]]:
        shares = [float(share_of(share)) for share in self.shares]
        rough = _Counted.of(part, self.ladder, self.highest, self.first, rng)
        most = max(_MOST // len(shares), _FEWEST)
        inside = [rough.finer(share, self.second, most) for share in shares]
        starts = np.unique(np.concatenate([[self.lowest], *inside]))
        fine = _Counted.of(part, starts[starts <= self.highest], self.highest, self.second, rng)
        return [fine.interval(share, self.miss) for share in shares]
