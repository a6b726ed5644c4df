"""Nested counts: quantiles and their intervals from noisy counts, on a public ladder and then inside what is left.

Proofs: ``docs/proofs/quantile.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.door import Rng
from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, Profile, PureDP
from discreet.core.noise.sampler import Floats, Truth, generator
from discreet.core.numbers import decimal, greatest, least, not_below, up
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms.choices import quantile
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.geometric import Geometric
from discreet.mechanisms.loss_distribution import ImpliedProfile
from discreet.mechanisms.mechanism import Kind, Law, Mechanism

Array = NDArray[np.float64]
_SHARE = Fraction(1, 5)
"""Part of what is left of the rate that each round takes, but the last, which takes all."""
_ROUNDS = 6
_GAIN = 0.95
"""A further round must promise an interval that is so much narrower."""
_ROUGH, _FINE = 2.6, 1.96
"""Standard errors around a quantile that the next round looks at, and that an interval has."""
_SAMPLED, _BESIDE = 2.35, 3.4
"""Standard errors of sampling that it looks at besides, for the quantile of a population; and, beside these, of noise
in an interval, whose fewer cells then have less of it."""
_DECADES = 4, 7
"""Of the ladder to each side, by factors of 10^(1/4): at least, and at most on grids that are wider by four more."""
_FEWEST, _MOST = 8, 200
"""Cells that a round cuts what is left of a quantile into."""
_ROUNDED = 2.0**-20
_LATTICE = 8.0
"""Scale of noise on the lattice on which sums of it are worked out: larger noise takes a coarser lattice."""


# ---- The law of the noise that decides which cells a quantile may lie in


def _variance(scale: float, normal: bool = False) -> float:
    """Of two-sided geometric noise: 2a/(1 − a)² with a = e^(−1/scale); or of normal noise."""
    if normal:
        return scale**2
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


@lru_cache(maxsize=1024)
def _all_beyond(cells: int, scale: float, chance: float) -> float:
    """What the noise of so many cells together reaches with this chance at most."""
    step = max(scale / _LATTICE, 1.0)
    masses = _sums(np.array([cells]), cells, max(_variance(scale), 1e-300) / step**2)[0]
    beyond = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
    return float(np.argmax(beyond <= chance) - masses.size // 2) * step


def _possible(
    share: float,
    reached: Array,
    lower: quantile.Integers,
    cells: quantile.Integers,
    scale: float,
    chance: float,
    exact: bool = True,
    normal: bool = False,
) -> NDArray[np.bool_]:
    """For ``lower`` of so many cells: whether noise reaches so far with at least a chance, which is at most a half.

    Where ``exact`` is False, as for plans, by the first four cumulants of the noise in place of its law.
    """
    terms = (1 - share) ** 2 * lower + share**2 * (cells - lower)
    if normal:  # each count is rounded to 2⁻²⁰ of the scale or less
        rounded = reached - cells * (_ROUNDED * scale)
        return np.asarray(rounded <= NormalDist().inv_cdf(1 - chance) * scale * np.sqrt(terms))
    squares = 2 * scale**2 * terms
    # Noise is symmetric, and beyond Bernstein's bound it is too unlikely: its law decides in between.
    bound = np.maximum(reached, 0.0) ** 2 / (2 * (squares + max(share, 1 - share) * scale * np.maximum(reached, 0.0)))
    found = np.asarray(bound <= -math.log(chance))
    open_ = np.flatnonzero(found & (reached > 0))
    if exact or scale < 1:  # whole numbers of small noise are too coarse for cumulants, and their law is quick
        for many in np.unique(cells[open_]).tolist():
            some = open_[cells[open_] == many]
            found[some] = noise_beyond(share, reached[some], lower[some], many, scale) >= chance
        return found
    spread = _variance(scale) * squares / (2 * scale**2)
    # Cornish and Fisher; each noise has a fourth cumulant of 3·variance² + variance
    fourth = (1 - share) ** 4 * lower + share**4 * (cells - lower)
    excess = fourth * (3 * _variance(scale) ** 2 + _variance(scale)) / np.maximum(spread, 1e-300) ** 2
    far = NormalDist().inv_cdf(1 - chance)
    found[open_] = (reached <= np.sqrt(spread) * (far + (far**3 - 3 * far) / 24 * excess))[open_]
    return found


# ---- Sampling: how far the rows below the population's quantile are from its share of all rows


_FARTHER = 3.0
"""Noise by so many more standard deviations is left out of what stays."""
_STEPS, _WIDER = 40, 1.7
"""Along what may be missed, and a margin for more noise than is likely."""
_NUMBER = 0.02
"""Part of the chance to miss a quantile that is left to the number of rows, which is noisy, too."""
_HALVINGS = 50
_UPPER = 20.0
"""Standard errors beyond which a binomial number hardly comes."""


@lru_cache(maxsize=64)
def convex_steps(miss: float, widest: float) -> tuple[Array, Array]:
    """Pairs (x, y) such that noise beyond y and sampling beyond x, of one of them, has the chance ``miss`` at most.

    In standard deviations of two normal numbers: steps around a part of a disc, up to the angle ``widest``, and along
    its tangent from there. Any angle is right; that of the ratio of noise to sampling is sharp.

    Examples
    --------
    >>> sampled, noise = convex_steps(0.025, 0.5)
    >>> float(sampled[0].round(3)), float(noise[-1].round(3)), len(noise)
    (2.127, 4.437, 40)
    >>> float(convex_steps(0.025, 0.1)[0][0].round(3))
    1.998
    """
    tail = NormalDist().cdf
    slope = math.sin(widest)

    def top(far: float) -> float:
        return min(far / slope, far + _FARTHER)

    def outside(far: float) -> float:
        above = tail(-top(far)) * (0.5 if far / slope < far + _FARTHER else 1.0)
        return tail(-far) + widest / (2 * math.pi) * math.exp(-far * far / 2) + above

    far = least(lambda z: outside(z) <= miss, 2.0)
    arc, straight = far * widest, (top(far) - far * slope) / math.cos(widest)
    along = np.linspace(0.0, arc + straight, _STEPS + 1)
    turn, rest = np.minimum(along, arc) / far, np.maximum(along - arc, 0.0)
    x, y = far * np.cos(turn) - rest * np.sin(turn), far * np.sin(turn) + rest * np.cos(turn)
    return np.maximum(x[:-1], 0.0), y[1:]


def sampled_beyond(share: float, rows: Array, far: Array) -> Array:
    """Rows by which a binomial number exceeds ``share`` of so many draws, but for the chance of ``far`` deviations.

    For each number of rows, along the first axis, and each distance: by the inequality of zubkov2013.

    Examples
    --------
    >>> sampled_beyond(0.5, np.array([400.0]), np.array([1.96])).round(1).tolist()
    [[20.6]]
    """
    from scipy.special import rel_entr  # heavy, and only needed here

    many = rows[:, None]
    low, high = np.full((rows.size, far.size), share), np.ones((rows.size, far.size))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        short = rel_entr(middle, share) + rel_entr(1 - middle, 1 - share) <= far**2 / (2 * many)
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return np.asarray(np.minimum(many * (high - share) + 1, many * (1 - share)))


@dataclass(frozen=True)
class Matchings:
    """Pairs of rows that are counted: every row with each of the next ``pairs`` of at least ``rows``, in random order.

    Their share on one side of the population's median is an average over matchings (docs/proofs/slope.md, section 3).
    """

    pairs: int
    rows: int

    def counted(self, rows: int) -> int:
        """Pairs of so many rows."""
        apart = min(self.pairs, rows - 1)
        return apart * rows - apart * (apart + 1) // 2

    def disjoint(self, rows: int) -> int:
        """Pairs in a matching, at least."""
        return max((rows - 3 * self.pairs) // 2, 1)

    @cached_property
    def alike(self) -> float:
        """The most counted pairs for one of a matching: with more rows there are fewer."""
        least = max(self.rows, 2)
        rows = range(least, max(least, 3 * self.pairs + 4) + 2)
        return float(max(up(Fraction(self.counted(each), self.disjoint(each))) for each in rows))

    def beyond(self, counted: float, chances: Array) -> Array:
        """Pairs by which those on one side exceed a half, but for these chances, where at most so many are counted.

        Examples
        --------
        >>> Matchings(4, 300).beyond(1190.0, np.array([0.02])).round(1).tolist()
        [120.1]
        """
        rows = max(math.floor((counted + self.pairs * (self.pairs + 1) / 2) / self.pairs), 2 * self.pairs + 2)
        return np.asarray(self.alike * (1 + 1e-9) * _upper_mean(self.disjoint(rows), chances))


def _upper_mean(many: int, chances: Array) -> Array:
    """The mean of the upper part of a number of heads, less its own mean, for parts of such sizes."""
    from scipy import stats  # heavy, and only needed here

    far = min(math.ceil(_UPPER * math.sqrt(many) / 2) + 1, many // 2 + 1)
    counts = np.arange(max(many // 2 - 1, 0), min(many // 2 + far, many) + 1)
    beyond = stats.binom.sf(counts, many, 0.5)  # P(B > count), which falls from a half or more
    # Σ over counts of min(P(B > count), part): of the upper part its share of numbers above each count.
    own = np.minimum(beyond, chances[:, None]).sum(axis=1) / chances
    return np.asarray(np.maximum(own + counts[0] - many / 2, 0.0))


# ---- A round: noisy counts of cells, what they leave of a quantile, and the cells of the next round
#
# All groups go through a round at once, as one list of edges, group after group. An edge is told by its distance from
# the lowest point of the grid. A group's last edge begins no cell; its count is 0.


Sample = tuple[int | Matchings, float]
"""How many rows of a sample may be alike, or the pairs that are counted; and the angle of `convex_steps`."""


def _alike(together: int | Matchings) -> float:
    return together.alike if isinstance(together, Matchings) else float(together)


@dataclass(frozen=True)
class _Counted:
    """Cells of several groups, each from its edge to before the next, with noisy counts of rows."""

    edges: quantile.Integers
    first: quantile.Integers
    """The place of each group's first edge; after them, the number of edges."""
    counts: Array
    scale: float
    normal: bool = False

    @classmethod
    def of(
        cls,
        rows: quantile.Histogram,
        edges: quantile.Integers,
        span: int,
        scale: float,
        rng: np.random.Generator | None,
        normal: bool = False,
    ) -> _Counted:
        """Counts of rows between edges, both told by their place in their group and ``span`` times the group."""
        keys, weights = rows
        totals = np.bincount(np.searchsorted(edges, keys, side="right") - 1, weights=weights, minlength=edges.size)
        inside = np.append(np.diff(edges // span) == 0, False)
        counts = np.zeros(edges.size)
        noise = Gaussian(scale) if normal else Geometric(scale)
        counts[inside] = noise.draw(totals[inside].astype(np.int64), rng=rng)
        return cls(edges % span, np.append(0, np.flatnonzero(~inside) + 1), counts, scale, normal)

    @cached_property
    def upto(self) -> Array:
        """Noisy rows before each edge, groups before its own included."""
        return np.asarray(np.append(0.0, np.cumsum(self.counts)[:-1]))

    def each(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of groups, for each of their edges."""
        return np.repeat(values, np.diff(self.first))

    def over(self, share: float) -> Array:
        """Noisy rows below each edge, less those below the quantile."""
        before = self.upto[self.first[:-1]]
        total = self.upto[self.first[1:] - 1] - before
        return np.asarray(self.upto - self.each(before) - share * self.each(total))

    def rows(self, chance: float) -> Array:
        """For each group a number of rows that the true one exceeds with this chance at most."""
        cells = np.diff(self.first) - 1
        found = self.upto[self.first[1:] - 1] - self.upto[self.first[:-1]]
        if self.normal:
            reach = NormalDist().inv_cdf(1 - chance) * self.scale * np.sqrt(cells) + cells * (_ROUNDED * self.scale)
        else:
            reach = np.array([_all_beyond(many, self.scale, chance) for many in cells.tolist()])
        return np.asarray(np.maximum(found + reach, 1.0))

    def left(
        self, share: float, miss: float | None = None, *, exact: bool = True, sample: Sample | None = None
    ) -> tuple[quantile.Integers, quantile.Integers, quantile.Integers]:
        """For each group the first and the last cell that the quantile may lie in, and the one that it seems to lie in.

        Roughly where nothing is said of the chance to miss it, else by the law of the noise. Of the quantile of the
        population where ``sample`` says how many rows of it may be alike, and the angle of `convex_steps`.
        """
        over = self.over(share)
        cells = self.each(np.diff(self.first) - 1)
        lower = np.arange(over.size) - self.each(self.first[:-1])
        begins, ends = lower == 0, lower == cells
        inner = ~(begins | ends)
        above, below = ~inner, ~inner
        if miss is None:
            terms = (1 - share) ** 2 * lower + share**2 * (cells - lower)
            sampled = self.each(self.rows(0.5)) * share * (1 - share) * (0.0 if sample is None else _alike(sample[0]))
            reach = _ROUGH * np.sqrt(_variance(self.scale, self.normal) * terms) + _SAMPLED * np.sqrt(sampled)
            above, below = above | (over <= reach), below | (over >= -reach)
        else:
            for found, side, q in ((above, over, share), (below, -over, 1 - share)):
                found[inner] = self._possible(share, side, q, lower, cells, inner, miss, exact, sample)
        reached = np.flatnonzero(ends | (inner & (over >= 0)))
        seems = reached[np.searchsorted(reached, self.first[:-1], side="right")] - 1
        kept = above & np.append(below[1:], False) & ~ends
        kept[seems] = True
        places = np.flatnonzero(kept)
        start, end = (np.searchsorted(places, self.first[one]) for one in (slice(None, -1), slice(1, None)))
        return places[start], places[end - 1], seems

    def _possible(
        self,
        share: float,
        side: Array,
        q: float,
        lower: quantile.Integers,
        cells: quantile.Integers,
        inner: NDArray[np.bool_],
        miss: float,
        exact: bool,
        sample: Sample | None,
    ) -> NDArray[np.bool_]:
        """Whether noise, or noise and sampling together, reach so far."""
        of = lower[inner], cells[inner], self.scale
        if sample is None:
            return _possible(share, side[inner], *of, miss / 2, exact, self.normal)
        rows, (together, widest) = self.rows(_NUMBER * miss), sample
        away, noise = convex_steps((1 - _NUMBER) * miss / 2, widest)
        if isinstance(together, Matchings):
            chances = np.array([NormalDist().cdf(-far) for far in away.tolist()])
            sampled = np.array([together.beyond(float(one), chances) for one in rows])
        else:
            sampled = together * sampled_beyond(q, rows / together, away)
        found = np.zeros(int(inner.sum()), dtype=bool)
        for turn, reach in enumerate(noise.tolist()):
            open_ = np.flatnonzero(~found)
            beyond = (side - self.each(sampled[:, turn]))[inner][open_]
            chance = NormalDist().cdf(-reach)
            found[open_] = _possible(share, beyond, of[0][open_], of[1][open_], self.scale, chance, exact, self.normal)
        return found

    def interval(self, share: float, miss: float, *, exact: bool, sample: Sample | None) -> quantile.Integers:
        """Lower end, estimate and upper end of each group, in steps above the lowest point."""
        first, last, seems = self.left(share, miss, exact=exact, sample=sample)
        over = self.over(share)
        highest = np.maximum.reduceat(over, np.column_stack([self.first[:-1], seems + 1]).ravel())[::2]
        before, after = np.minimum(highest, 0.0), np.maximum(over[seems + 1], 0.0)
        within = np.where(after > before, -before / np.where(after > before, after - before, 1.0), 0.5)
        start = self.edges[seems]
        estimate = start + np.rint(within * (self.edges[seems + 1] - 1 - start)).astype(np.int64)
        return np.column_stack([self.edges[first], estimate, self.edges[last + 1] - 1])

    def cut(
        self, first: quantile.Integers, last: quantile.Integers, cells: quantile.Integers
    ) -> tuple[quantile.Integers, quantile.Integers]:
        """Edges inside some cells, after their groups: a third each by number, width and the rows that seem there."""
        sizes = last - first + 1
        place = _ranges(first, sizes + 1)  # of the edges of these cells; the last one begins none of them
        begins = np.append(0, np.cumsum(sizes + 1)[:-1])
        rows, widths = np.maximum(self.counts[place], 0.0), np.append(np.diff(self.edges[place]), 0)
        rows[begins + sizes] = widths[begins + sizes] = 0
        reach = self.edges[last + 1] - self.edges[first]
        parts = 1 / np.repeat(sizes, sizes + 1) + widths / np.repeat(reach, sizes + 1)
        parts += rows / np.repeat(np.maximum(np.add.reduceat(rows, begins), 1.0), sizes + 1)
        places = np.append(0.0, np.cumsum(parts)[:-1])  # a group's last edge adds a gap to the next one
        pieces = np.minimum(cells, reach)
        step = (places[begins + sizes] - places[begins]) / pieces
        turn = _ranges(np.zeros_like(pieces), pieces + 1)
        wanted = np.repeat(places[begins], pieces + 1) + turn * np.repeat(step, pieces + 1)
        wanted[np.cumsum(pieces + 1) - 1] = places[begins + sizes]
        along = np.interp(wanted, places, self.edges[place] - np.repeat(self.edges[first], sizes + 1))
        groups = np.repeat(np.arange(sizes.size), pieces + 1)
        return groups, np.rint(along).astype(np.int64) + self.edges[first][groups]


def _ranges(starts: quantile.Integers, sizes: quantile.Integers) -> quantile.Integers:
    """start, start + 1, … of such sizes, one after another."""
    ends = np.cumsum(sizes)
    return np.arange(ends[-1]) + np.repeat(starts - ends + sizes, sizes)


def _root_not_below(square: Fraction) -> float:
    """The smallest float whose square is at least this."""
    return least(lambda scale: Fraction(scale) ** 2 >= square, math.sqrt(square))


def _best(rows: Array, noise: float, sampled: Array) -> tuple[Array, quantile.Integers]:
    """The fewest rows inside an interval, √(noise²·m + sampled²) with m cells and rows/m for their size, and that m."""
    cells = (2 * rows / noise) ** (2 / 3)
    for _ in range(4):  # the point where one more cell gains nothing; at once where nothing is sampled
        cells = np.clip(np.sqrt(2 * rows * np.sqrt(noise**2 * cells + sampled**2)) / noise, _FEWEST, _MOST)
    return np.sqrt(noise**2 * cells + sampled**2) + rows / cells, np.rint(cells).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class NestedCounts(Mechanism):
    """Publish for each quantile a lower end, an estimate and an upper end, all read from rounds of noisy counts.

    The truth is that of `QuantileChoice`. All quantiles are read from the same counts.

    Parameters
    ----------
    rate
        Privacy loss per row that is added: the sum of 1/scale over all rounds, of 1/scale² where noise is normal.
    shares
        Which quantiles.
    miss
        Probability, at most, that an interval does not hold its quantile.
    lowest, highest, grid, groups
        The public grid and the number of disjoint groups of rows, as in `QuantileChoice`.
    normal
        Whether the noise is normal, for μ and ρ, and not geometric, for ε.
    together
        How many rows of one unit may be alike, where the intervals are for the population that units are a sample of;
        0 where they are for the data.
    rows
        At least so many rows: intervals for the population are then the narrowest, and right for any number.
    pairs
        With how many later rows each row makes one of the pairs that are counted, where it is pairs of a sample, whose
        median is asked for; 0 where rows are counted.
    first
        Edges of the first round between both ends, where fewer than those of `ladder` serve: each costs noise.

    Notes
    -----
    **Guarantee.** A row is in one cell of each round, so a unit with m rows moves the counts of a round by at most
    Δ₁ = m under add/remove and 2m under replace-one: ε = Δ₁·rate. With normal noise μ² = Δ₂²·rate; Δ₂ is m and √2·m.

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
    normal: bool = False
    together: int = 0
    rows: int = 1
    pairs: int = 0
    first: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if requirements.instance("together", self.together, int, "together=0, or 1"):
            requirements.positive_integer("together", self.together)
        requirements.positive_integer("rows", self.rows)
        if requirements.instance("pairs", self.pairs, int, "pairs=0, or 16"):
            requirements.positive_integer("pairs", self.pairs)
            if tuple(self.shares) != (0.5,) or self.together != 1 or self.groups != 1:
                raise InvalidParameter("pairs", self.pairs, "have a median alone", "Pass shares=(0.5,), together=1.")
        requirements.instance("normal", self.normal, bool, "normal=True or False")
        object.__setattr__(self, "rate", requirements.positive("rate", self.rate))
        quantile.require_grid(self)
        first = tuple(requirements.instance("first", one, int, "first=(-100, 100)") for one in self.first)
        if list(first) != sorted({one for one in first if self.lowest < one <= self.highest}):
            raise InvalidParameter("first", first, "must increase between both ends", "Pass first=(-100, 100).")
        object.__setattr__(self, "first", first)
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
        """The least noise that meets ``guarantee`` for intervals of ``statistic``: geometric under ε, also with a δ."""
        described: quantile.RankStatistic = requirements.instance(
            "statistic", statistic, quantile.RankStatistic, "statistic=Quantiles(interval=0.95, …)"
        )
        normal = not isinstance(guarantee, PureDP | ApproxDP)
        if normal:
            square = Fraction(Gaussian.calibrate(guarantee, sensitivity).scale) ** 2
            rate = greatest(lambda rate: Fraction(rate) * square <= 1, float(1 / square))
        else:
            target = decimal(guarantee.epsilon if isinstance(guarantee, ApproxDP) else guarantee.to(PureDP).epsilon)
            moved = Fraction(sensitivity.require_l1())
            if target == 0:
                raise InvalidParameter("guarantee", guarantee, "leaves nothing to count with", "Pass epsilon > 0.")
            rate = greatest(lambda rate: Fraction(rate) * moved <= target, float(target / moved))
        return cls(rate=rate, groups=groups, normal=normal, **described.intervals())

    def profile(self, sensitivity: Sensitivity) -> Profile:
        """That of a pure ε, or of one normal noise with the same sum of squares."""
        if self.normal:
            scale = greatest(lambda scale: Fraction(scale) ** 2 * Fraction(self.rate) <= 1, self.rate**-0.5)
            return Gaussian(scale).profile(sensitivity)
        return ImpliedProfile(PureDP(up(Fraction(self.rate) * Fraction(sensitivity.require_l1()))))

    def guarantee(self, sensitivity: Sensitivity, kind: Kind = None, *, delta: float | None = None) -> Guarantee:
        """Pure ε by default, and μ with normal noise."""
        return super().guarantee(sensitivity, kind or (GaussianDP if self.normal else PureDP), delta=delta)

    def parameters(self) -> dict[str, Any]:
        """The fields; what was stored before there was normal noise, or sampling, says nothing of them."""
        usual = {"normal": False, "together": 0, "rows": 1, "pairs": 0, "first": []}
        return {name: told for name, told in super().parameters().items() if told != usual.get(name)}

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
        return np.asarray(np.ravel(self._rounds(parts, random, exact=True)) * self.grid)

    def simulated(self, parts: Sequence[quantile.Histogram], rng: np.random.Generator) -> quantile.Integers:
        """Runs on many histograms at once, for plans: groups × quantiles × lower end, estimate and upper end, in steps.

        What an interval must hold is decided by the cumulants of the noise, and not by its law.
        """
        return self._rounds(parts, rng, exact=False)

    @cached_property
    def ladder(self) -> quantile.Integers:
        """Edges of the first round: closer and closer to zero, or to the end that is next to it; or those given."""
        if self.first:
            return np.array([self.lowest, *self.first, self.highest + 1], dtype=np.int64)
        centre = min(max(0, self.lowest), self.highest)
        reach, (fewest, most) = self.highest - self.lowest, _DECADES
        decades = min(max(math.ceil(math.log10(max(reach, 1))) - 4, fewest), most)
        away = reach * 10 ** (-np.arange(4 * decades + 1) / 4)
        inside = np.concatenate([[centre, centre + 1], centre + np.rint(away), centre - np.rint(away)]).astype(np.int64)
        ends = [self.lowest, self.highest + 1]
        return np.unique(np.concatenate([ends, inside[(inside > ends[0]) & (inside < ends[1])]]))

    def _noise(self, rate: float) -> float:
        """Standard error, in rows and for one cell per quantile, of what decides on the worst of them."""
        worst = max((1 - share) ** 2 + share**2 for share in self.shares)
        return math.sqrt(_variance(self._scale(rate), self.normal) * worst * len(self.shares) / 2)

    @cached_property
    def _sampled_as(self) -> int | Matchings:
        return Matchings(self.pairs, self.rows) if self.pairs else self.together

    def _sample(self, share: float) -> Sample | None:
        """How many rows of a sample may be alike, and the widest angle of noise beside sampling that is likely."""
        if not self.together:
            return None
        counted = self._sampled_as.counted(self.rows) if isinstance(self._sampled_as, Matchings) else self.rows
        sampled = math.sqrt(_alike(self._sampled_as) * counted * share * (1 - share))
        noise = self._noise((1 - float(_SHARE)) * self.rate)
        inside = 2 * _SAMPLED * sampled + 4 * _ROUGH * self._noise(float(_SHARE) * self.rate) * math.sqrt(_FEWEST)
        _, cells = _best(np.array(inside), 2 * _BESIDE * noise, np.array(2 * _SAMPLED * sampled))
        widest = min(max(math.atan2(_WIDER * noise * math.sqrt(cells), sampled), 0.05), 1.5)
        return self._sampled_as, widest

    def _scale(self, rate: float) -> float:
        """The scale of noise that takes so much of the rate."""
        return rate**-0.5 if self.normal else 1 / rate

    def _rounds(
        self, parts: Sequence[quantile.Histogram], rng: np.random.Generator | None, *, exact: bool
    ) -> quantile.Integers:
        """Rounds until another one would not narrow the intervals; what decides are noisy counts alone."""
        groups, points = len(parts), self.highest + 1 - self.lowest
        span = points + 1
        keys = np.concatenate([steps - self.lowest + group * span for group, (steps, _) in enumerate(parts)])
        weights = np.concatenate([counts for _, counts in parts])
        shares = [float(quantile.share_of(share)) for share in self.shares]
        found = np.zeros((groups, len(shares), 3), dtype=np.int64)
        left = Fraction(self.rate)
        going, last = np.ones(groups, dtype=bool), np.full(groups, points <= 2 * _FEWEST)
        begin = np.arange(points + 1) if points <= 2 * _FEWEST else self.ladder - self.lowest
        edges = np.ravel(np.arange(groups)[:, None] * span + begin)
        hulls = np.zeros(0, dtype=np.int64)
        for more in range(_ROUNDS - 1, -1, -1):
            for ending in (True, False):
                here = going & (last == ending)
                asked = np.flatnonzero(here)
                if not asked.size:
                    continue
                part = left if ending else _SHARE * left
                scale = not_below(1 / part)
                if self.normal:
                    scale = _root_not_below(1 / part)
                some = here[keys // span]
                counted = _Counted.of(
                    (keys[some], weights[some]), edges[here[edges // span]], span, scale, rng, self.normal
                )
                if ending:
                    own = [
                        counted.interval(share, self.miss, exact=exact, sample=self._sample(share)) for share in shares
                    ]
                    found[asked] = np.stack(own, axis=1) + self.lowest
                    going[asked] = False
                    continue
                left -= 1 / Fraction(scale) ** (2 if self.normal else 1)
                kept = [counted.left(share, sample=self._sample(share))[:2] for share in shares]
                cells, stops = self._next(counted, kept, float(left))
                last[asked] = stops | (more == 1)
                hull = [counted.edges[one] for first, end in kept for one in (first, end + 1)]
                beside = [counted.edges[np.maximum(first - 1, counted.first[:-1])] for first, _ in kept]
                beside += [counted.edges[np.minimum(end + 2, counted.first[1:] - 1)] for _, end in kept]
                cuts = [counted.cut(first, end, cells) for first, end in kept]
                hulls = np.concatenate([hulls[here[hulls // span]], *(asked * span + one for one in hull)])
                ends = [asked * span, asked * span + points]
                finer = [asked[own] * span + one for own, one in cuts]
                edges = np.unique(np.concatenate([*ends, hulls, *(asked * span + one for one in beside), *finer]))
        return found

    def _next(
        self, counted: _Counted, found: list[tuple[quantile.Integers, quantile.Integers]], rate: float
    ) -> tuple[quantile.Integers, NDArray[np.bool_]]:
        """For each group, cells for each quantile in the next round, and whether it should be the last."""
        inside = [counted.upto[end + 1] - counted.upto[first] for first, end in found]
        rows = np.maximum(np.max(inside, axis=0), 4 * counted.scale)
        worst = max(share * (1 - share) for share in self.shares)
        sampled = 2 * _SAMPLED * np.sqrt(np.maximum(counted.rows(0.5), 1.0) * worst * _alike(self._sampled_as))
        errors = 2 * (_BESIDE if self.together else _FINE)
        stop, cells = _best(rows, errors * self._noise(rate), sampled)
        share = float(_SHARE)
        fewer, finer = _best(1.5 * rows, 2 * _ROUGH * self._noise(share * rate), sampled)
        on = _best(fewer, errors * self._noise((1 - share) * rate), sampled)[0]
        widths = [counted.edges[end + 1] - counted.edges[first] for first, end in found]
        goes_on = (np.max(widths, axis=0) > _FEWEST) & (on < _GAIN * stop)
        return np.where(goes_on, finer, cells), ~goes_on
