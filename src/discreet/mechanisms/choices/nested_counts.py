"""Nested counts: quantiles and their intervals from noisy counts, on a public ladder and then inside what is left.

Proofs: ``docs/proofs/quantile.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.door import Rng
from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.guarantee import Guarantee, Profile, PureDP
from discreet.core.noise.sampler import Floats, Truth, generator
from discreet.core.numbers import decimal, greatest, not_below, up
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms.choices import quantile
from discreet.mechanisms.geometric import Geometric
from discreet.mechanisms.loss_distribution import ImpliedProfile
from discreet.mechanisms.mechanism import Law, Mechanism

Array = NDArray[np.float64]
_SHARE = Fraction(1, 5)
"""Part of what is left of the rate that each round takes, but the last, which takes all."""
_ROUNDS = 6
_GAIN = 0.95
"""A further round must promise an interval that is so much narrower."""
_ROUGH, _FINE = 2.6, 1.96
"""Standard errors around a quantile that the next round looks at, and that an interval has."""
_LADDER = 17
"""Rungs to each side, by factors of 10^(1/4): four decades."""
_FEWEST, _MOST = 8, 200
"""Cells that a round cuts what is left of a quantile into."""
_LATTICE = 8.0
"""Scale of noise on the lattice on which sums of it are worked out: larger noise takes a coarser lattice."""


# ---- The law of the noise that decides which cells a quantile may lie in


def _variance(scale: float) -> float:
    """Of two-sided geometric noise: 2a/(1 − a)² with a = e^(−1/scale)."""
    return 0.5 / math.sinh(min(0.5 / scale, 300.0)) ** 2


def _sums(terms: quantile.Integers, most: int, variance: float) -> Array:
    """P(S = s) of sums of so many two-sided geometric noises of a variance, at most ``most``, for s from −N/2 on."""
    shrink = math.exp(-2 * math.asinh(math.sqrt(0.5 / variance)))
    reach = math.sqrt(variance) * (10 * math.sqrt(most) + 28)
    size = 2 ** math.ceil(math.log2(2 * reach + 64))
    turned = 1 - 2 * shrink * np.cos(2 * np.pi * np.arange(size // 2 + 1) / size) + shrink**2
    chances = np.fft.irfft(((1 - shrink) ** 2 / turned) ** terms[:, None], size, axis=1)
    return np.maximum(np.fft.fftshift(chances, axes=1), 0.0)


def noise_beyond(share: float, reached: Array, lower: quantile.Integers, cells: int, scale: float) -> Array:
    """P((1 − q)·(noise of j cells) − q·(noise of the others) ≥ reached), for the numbers j in ``lower``.

    Examples
    --------
    >>> noise_beyond(0.5, np.array([0.0, 4.0, 9.0]), np.array([1, 2, 3]), 4, 2.0).round(3).tolist()
    [0.54, 0.084, 0.003]
    """
    step = max(scale / _LATTICE, 1.0)
    # Given the side with the smaller weight the other has to make up for it; either sum is symmetric.
    light, heavy = (lower, cells - lower) if share >= 0.5 else (cells - lower, lower)
    variance = max(_variance(scale), 1e-300) / step**2
    masses = _sums(light, cells, variance)
    below = np.cumsum(_sums(heavy, cells, variance), axis=1)
    middle, weights = masses.shape[1] // 2, sorted((share, 1 - share))
    steps = np.arange(masses.shape[1]) - middle
    most = np.floor((weights[0] * steps - reached[:, None] / step) / weights[1] + 1e-9)
    places = np.clip(most + middle, -1, masses.shape[1] - 1).astype(np.int64)
    chances = np.where(places < 0, 0.0, np.take_along_axis(below, np.maximum(places, 0), axis=1))
    return np.asarray(np.sum(masses * chances, axis=1))


def _possible(share: float, reached: Array, scale: float, chance: float) -> NDArray[np.bool_]:
    """For j = 1 … m − 1: whether noise reaches so far with at least a chance, which is at most a half."""
    lower, cells = np.arange(1, reached.size + 1), reached.size + 1
    squares = 2 * scale**2 * ((1 - share) ** 2 * lower + share**2 * (cells - lower))
    # Noise is symmetric, and beyond Bernstein's bound it is too unlikely: its law decides in between.
    bound = np.maximum(reached, 0.0) ** 2 / (2 * (squares + max(share, 1 - share) * scale * np.maximum(reached, 0.0)))
    found = bound <= -math.log(chance)
    open_ = np.flatnonzero(found & (reached > 0))
    found[open_] = noise_beyond(share, reached[open_], lower[open_], cells, scale) >= chance
    return found


# ---- A round: noisy counts of cells, what they leave of a quantile, and the cells of the next round


@dataclass(frozen=True)
class _Counted:
    """Cells of grid steps, each from its start to before the next, with noisy counts of rows."""

    edges: quantile.Integers
    counts: Array
    scale: float

    @classmethod
    def of(
        cls, part: quantile.Histogram, edges: quantile.Integers, scale: float, rng: np.random.Generator | None
    ) -> _Counted:
        steps, rows = part
        totals = np.bincount(np.searchsorted(edges, steps, side="right") - 1, weights=rows, minlength=edges.size - 1)
        return cls(edges, np.asarray(Geometric(scale).draw(totals.astype(np.int64), rng=rng)), scale)

    def over(self, share: float) -> Array:
        """Noisy rows below each edge, less those below the quantile."""
        upto = np.append(0.0, np.cumsum(self.counts))
        return np.asarray(upto - share * upto[-1])

    def left(self, share: float, miss: float | None = None) -> tuple[int, int, int]:
        """The first and the last cell that the quantile may lie in, and the one that it seems to lie in.

        Roughly where nothing is said of the chance to miss it, else by the law of the noise.
        """
        apart = self.over(share)[1:-1]
        if miss is None:
            lower = np.arange(1, self.counts.size)
            terms = (1 - share) ** 2 * lower + share**2 * (self.counts.size - lower)
            reach = _ROUGH * np.sqrt(_variance(self.scale) * terms)
            above, below = apart <= reach, apart >= -reach
        else:
            above, below = (_possible(share, side, self.scale, miss / 2) for side in (apart, -apart))
        seems = int(np.argmax(np.append(apart, math.inf) >= 0))
        kept = np.append(np.flatnonzero(np.append(True, above) & np.append(below, True)), seems)
        return int(kept.min()), int(kept.max()), seems

    def interval(self, share: float, miss: float) -> tuple[int, int, int]:
        """Lower end, estimate and upper end, in steps."""
        first, last, seems = self.left(share, miss)
        over = self.over(share)
        before = min(float(over[: seems + 1].max()), 0.0)
        after = max(float(over[seems + 1]), 0.0)
        within = -before / (after - before) if after > before else 0.5
        start = int(self.edges[seems])
        end = int(self.edges[seems + 1]) - 1
        return int(self.edges[first]), start + round(within * (end - start)), int(self.edges[last + 1]) - 1

    def cut(self, first: int, last: int, cells: int) -> quantile.Integers:
        """Edges inside some cells: a third each by their number, by their widths and by the rows that seem there."""
        edges = self.edges[first : last + 2]
        rows = np.maximum(self.counts[first : last + 1], 0.0)
        parts = 1 / rows.size + np.diff(edges) / (edges[-1] - edges[0]) + rows / max(rows.sum(), 1.0)
        places = np.append(0.0, np.cumsum(parts))
        wanted = np.linspace(0.0, places[-1], min(cells, int(edges[-1] - edges[0])) + 1)
        return np.asarray(np.rint(np.interp(wanted, places, edges - edges[0])).astype(np.int64) + edges[0])


def _best(rows: float, noise: float) -> tuple[float, int]:
    """The fewest rows inside an interval, noise·√m for the noise of m cells and rows/m for their size, and that m."""
    cells = min(max((2 * rows / noise) ** (2 / 3), _FEWEST), _MOST)
    return noise * math.sqrt(cells) + rows / cells, round(cells)


@dataclass(frozen=True, kw_only=True)
class NestedCounts(Mechanism):
    """Publish for each quantile a lower end, an estimate and an upper end, all read from rounds of noisy counts.

    The truth is that of `QuantileChoice`. All quantiles are read from the same counts.

    Parameters
    ----------
    rate
        Privacy loss per row that is added: the sum of 1/scale over all rounds.
    shares
        Which quantiles.
    miss
        Probability, at most, that an interval does not hold its quantile.
    lowest, highest, grid, groups
        The public grid and the number of disjoint groups of rows, as in `QuantileChoice`.

    Notes
    -----
    **Guarantee.** A row is in one cell of each round, so a unit with m rows moves the counts of a round by at most
    Δ₁ = m under add/remove and 2m under replace-one: ε = Δ₁·rate.

    Examples
    --------
    >>> counts = NestedCounts(rate=1.0, shares=(0.9,), miss=0.05, lowest=0, highest=1000, grid=1.0)
    >>> steps = np.arange(1001)
    >>> low, estimate, high = counts.draw(np.array([steps, np.ones_like(steps)]), rng=3).tolist()
    >>> low <= 900 <= high, low <= estimate <= high, high - low < 100
    (True, True, True)
    """

    name: ClassVar[str] = "nested_counts"
    rate: float
    shares: tuple[float, ...]
    miss: float
    lowest: int
    highest: int
    grid: float
    groups: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", requirements.positive("rate", self.rate))
        quantile.require_grid(self)
        if not requirements.probability("miss", self.miss, below_one=False) > 0:
            raise InvalidParameter("miss", self.miss, "must be above 0 and at most 1", "Pass miss=0.05.")
        listed = requirements.listed("shares", self.shares, "shares=(0.5,)")
        shares = tuple(requirements.probability("shares", share, below_one=False) for share in listed)
        if not shares:
            raise InvalidParameter("shares", self.shares, "must not be empty", "Pass (0.5,).")
        object.__setattr__(self, "shares", shares)

    @classmethod
    def calibrate(
        cls,
        guarantee: Guarantee,
        sensitivity: Sensitivity,
        *,
        statistic: quantile.RankStatistic | None = None,
        groups: int = 1,
    ) -> Self:
        """The least noise that meets ``guarantee``, a pure ε, for the intervals of ``statistic``."""
        described: quantile.RankStatistic = requirements.instance(
            "statistic", statistic, quantile.RankStatistic, "statistic=Quantiles(interval=0.95, counts=True, …)"
        )
        target = decimal(guarantee.to(PureDP).epsilon)
        moved = Fraction(sensitivity.require_l1())
        if target == 0:
            raise InvalidParameter("guarantee", guarantee, "leaves nothing to count with", "Pass epsilon > 0.")
        rate = greatest(lambda rate: Fraction(rate) * moved <= target, float(target / moved))
        wanted = described.intervals()
        shares = tuple(low for low, _ in wanted.pop("shares"))
        return cls(rate=rate, shares=shares, miss=described.noise_miss(rate), groups=groups, **wanted)

    def profile(self, sensitivity: Sensitivity) -> Profile:
        """That of a pure ε."""
        return ImpliedProfile(PureDP(up(Fraction(self.rate) * Fraction(sensitivity.require_l1()))))

    def check(self, exact: Exact) -> None:
        """Refuse what is not a histogram on this grid."""
        quantile.group_histograms(exact.value, self.lowest, self.highest, self.groups)

    def law(self, truth: Truth) -> Law:
        """There is none for numbers that come in threes."""
        raise NoConversion("a quantile with its interval has no law of one number. Use QuantileChoice for one value.")

    def error(self, level: float = 0.95) -> Floats:
        """Ranks by which the noise moves the worst of the quantiles, with twice the fewest cells around it."""
        from scipy import special  # heavy, and only needed here

        reach = -float(special.ndtri((1 - requirements.level(level)) / 2))
        return reach * self._noise(float(1 - _SHARE) ** 2 * self.rate) * math.sqrt(2 * _FEWEST)

    def noise_interval(self, value: Floats, level: float) -> tuple[Floats, Floats]:
        """The ends that were published; they hold at the level they were planned for."""
        parts = np.asarray(value, dtype=float).reshape(-1, 3)
        return parts[:, 0], parts[:, 2]

    def draw(self, truth: Truth, *, rng: Rng = None) -> Floats:
        """Lower end, estimate and upper end of each quantile, group by group."""
        random = None if rng is None else generator(rng)
        parts = quantile.group_histograms(truth, self.lowest, self.highest, self.groups)
        steps = [step for part in parts for one in self._intervals(part, random) for step in one]
        return np.array([step * self.grid for step in steps])

    @cached_property
    def ladder(self) -> quantile.Integers:
        """Edges of the first round: closer and closer to zero, or to the end that is next to it."""
        centre = min(max(0, self.lowest), self.highest)
        away = (self.highest - self.lowest) * 10 ** (-np.arange(_LADDER) / 4)
        return self._edges([centre, centre + 1], centre + np.rint(away), centre - np.rint(away))

    def _edges(self, *lists: ArrayLike) -> quantile.Integers:
        """Edges in order, each once, from the lowest point of the grid to after the highest."""
        inside = np.concatenate([np.asarray(one, dtype=np.int64) for one in lists])
        ends = [self.lowest, self.highest + 1]
        return np.unique(np.concatenate([ends, inside[(inside > ends[0]) & (inside < ends[1])]]))

    def _noise(self, rate: float) -> float:
        """Standard error, in rows and for one cell per quantile, of what decides on the worst of them."""
        worst = max((1 - share) ** 2 + share**2 for share in self.shares)
        return math.sqrt(_variance(1 / rate) * worst * len(self.shares) / 2)

    def _intervals(self, part: quantile.Histogram, rng: np.random.Generator | None) -> list[tuple[int, int, int]]:
        """Rounds until another one would not narrow the intervals; what decides are noisy counts alone."""
        shares = [float(quantile.share_of(share)) for share in self.shares]
        left = Fraction(self.rate)
        last, hulls = self.highest - self.lowest < 2 * _FEWEST, []
        edges = np.arange(self.lowest, self.highest + 2) if last else self.ladder
        for more in range(_ROUNDS - 1, -1, -1):
            scale = not_below(1 / (left if last else _SHARE * left))
            counted = _Counted.of(part, edges, scale, rng)
            if last:
                break
            left -= 1 / Fraction(scale)
            found = [counted.left(share)[:2] for share in shares]
            cells, last = self._next(counted, found, float(left))
            last = last or more == 1
            hulls += [edge for first, end in found for edge in (counted.edges[first], counted.edges[end + 1])]
            beside = [counted.edges[max(first - 1, 0)] for first, _ in found]
            beside += [counted.edges[min(end + 2, counted.counts.size)] for _, end in found]
            edges = self._edges(hulls, beside, *(counted.cut(*hull, cells) for hull in found))
        return [counted.interval(share, self.miss) for share in shares]

    def _next(self, counted: _Counted, found: list[tuple[int, int]], rate: float) -> tuple[int, bool]:
        """Cells for each quantile in the next round, and whether it should be the last."""
        rows = max(max(float(counted.counts[first : end + 1].sum()) for first, end in found), 4 * counted.scale)
        stop, cells = _best(rows, 2 * _FINE * self._noise(rate))
        share = float(_SHARE)
        fewer, finer = _best(1.5 * rows, 2 * _ROUGH * self._noise(share * rate))
        on = _best(fewer, 2 * _FINE * self._noise((1 - share) * rate))[0]
        wide = any(int(counted.edges[end + 1] - counted.edges[first]) > _FEWEST for first, end in found)
        return (finer, False) if wide and on < _GAIN * stop else (cells, True)
