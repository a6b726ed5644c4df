"""The methods of liu2023 as objects, each in two forms: certified (default), and as published for simulations.

As published: PrivateQuantile at twice its claim and without end intervals (errata E2, E3), sums of values inside the
raw quantiles with the sensitivities (16), (17) (E4, E5). Certified: PrivateQuantile over all intervals at ε/2, sums
inside the sanitized interval only (the "doubling-down" form), centred in its middle, with sensitivities that hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.sensitivity import Sensitivity
from discreet.inference.two_sample import CensoredNormal, Contrast, LocationEstimate, contrast
from discreet.mechanisms.choices.quantile import QuantileChoice
from discreet.mechanisms.choices.selection import ExponentialMechanism
from discreet.mechanisms.laplace import Laplace
from discreet.questions.comparison.methods import (
    Arms,
    Direct,
    Finding,
    Method,
    Setting,
    Spending,
    cut,
    placed,
    unused,
    within,
)

# ---- Sanitizing one statistic of partition values at a time, as liu2023 does: exactly and singly, or simulated in bulk
#
# Partition values come sorted, one row per experiment; results have one column per sanitization.


Array = NDArray[np.float64]

_GRID_BITS = 30
_NEGLIGIBLE = 60.0
"""Ranks whose weight is below e⁻⁶⁰ of the target's are left out of simulations."""


@dataclass(frozen=True)
class Ordered:
    """Sorted partition values, one row per experiment, with running sums that every method shares."""

    values: Array

    @classmethod
    def of(cls, values: Any) -> Ordered:
        """Sort rows of partition values."""
        return cls(np.sort(np.atleast_2d(np.asarray(values, dtype=float)), axis=1))

    @property
    def count(self) -> int:
        """Number of partitions."""
        return int(self.values.shape[1])

    @cached_property
    def running(self) -> Array:
        """Sums of the first 0, 1, 2, … values."""
        return _running(self.values)

    @cached_property
    def running_squares(self) -> Array:
        """Sums of the squares of the first 0, 1, 2, … values."""
        return _running(self.values**2)


def _running(values: Array) -> Array:
    sums = np.zeros((values.shape[0], values.shape[1] + 1))
    np.cumsum(values, axis=1, out=sums[:, 1:])
    return sums


@dataclass(frozen=True)
class Sanitizer:
    """The protection of one statistic, m times over, by one share of the budget.

    Draws are exact for a single experiment, and of floats, for many experiments at once, where the spending simulates.

    Attributes
    ----------
    spending
        One share, which buys one statistic.
    bounds
        Public bounds of a partition value.
    m
        Number of sanitizations.
    as_published
        In simulations: the quantile leaves the end intervals out (liu2023, errata E3), and spends twice what it claims
        (E2).
    placed
        Both ends of an interval that was placed before, by other means, one row per experiment.
    """

    spending: Spending
    bounds: tuple[float, float]
    m: int
    as_published: bool = False
    placed: tuple[Array, Array] | None = None

    @cached_property
    def _factor(self) -> float:
        """The sharpest choice a share affords: one unit moves one of P values, so rank distances move by at most 1."""
        return ExponentialMechanism.calibrate(self.spending.guarantee, Sensitivity(l1=1.0)).factor

    @cached_property
    def _unit(self) -> float:
        """Scale of the noise for a sensitivity of one."""
        return self.spending.mechanism.calibrate(self.spending.guarantee, Sensitivity(l1=1.0)).scale

    def quantile(self, ordered: Array, q: float) -> Array:
        """Private quantiles of the sorted rows."""
        if self.placed is not None:
            return self.placed[q >= 0.5]
        if self.spending.rng is not None:
            factor, ends = (2 * self._factor, None) if self.as_published else (self._factor, self.bounds)
            return simulated_quantiles(ordered, q, factor, ends, self.m, self.spending.rng)
        low, high = self.bounds
        cells = 2**_GRID_BITS
        grid = (high - low) / cells
        # Values become cells of a public grid over the bounds; the choice is among its points.
        steps = np.clip(np.floor((ordered[0] - low) / grid + 0.5).astype(np.int64), 0, cells)
        seen, counts = np.unique(np.concatenate([[0, cells], steps]), return_counts=True)
        counts[0] -= 1
        counts[-1] -= 1
        choice = QuantileChoice(factor=self._factor, probabilities=(q,), lowest=0, highest=cells, grid=1.0)
        # One unit moves one of the P values, so every rank distance moves by at most one.
        histogram = np.stack([seen, counts])
        moved = Sensitivity(l1=1.0)
        drawn = [float(np.asarray(self.spending.draw(choice, histogram, moved))) for _ in range(self.m)]
        return np.asarray([[low + grid * step for step in drawn]])

    def add(self, values: Array, sensitivity: Any) -> Array:
        """Values plus noise for a given (public) sensitivity, element by element."""
        if self.spending.rng is not None:
            shape = np.broadcast_shapes(np.shape(values), np.shape(sensitivity))
            rng = self.spending.rng
            draw = rng.laplace(size=shape) if self.spending.mechanism is Laplace else rng.standard_normal(shape)
            return np.asarray(values + self._unit * np.asarray(sensitivity) * draw)
        values, scales = np.broadcast_arrays(np.asarray(values, dtype=float), np.asarray(sensitivity, dtype=float))
        noisy = [
            float(np.asarray(self.spending.measure(float(value), Sensitivity(l1=float(scale))).value))
            for value, scale in zip(values.ravel(), scales.ravel(), strict=True)
        ]
        return np.asarray(noisy).reshape(values.shape)


def simulated_quantiles(
    ordered: Array, q: float, factor: float, ends: tuple[float, float] | None, size: int, rng: np.random.Generator
) -> Array:
    """liu2023 Algorithm 1 on sorted rows: interval j by gap · exp(−factor·|j − qP|), then uniform inside it."""
    rows, count = ordered.shape
    if ends is None:
        points, first = ordered, 1
    else:
        points = np.column_stack([np.full(rows, ends[0]), ordered, np.full(rows, ends[1])])
        first = 0
    ranks = np.arange(first, first + points.shape[1] - 1)
    reach = _NEGLIGIBLE / factor
    kept = np.flatnonzero(np.abs(ranks - q * count) <= reach)
    points = points[:, kept[0] : kept[-1] + 2]
    weights = np.diff(points, axis=1)
    weights *= np.exp(-factor * np.abs(ranks[kept] - q * count))
    running = np.cumsum(weights, axis=1)
    running += 1e-300 * np.arange(1, running.shape[1] + 1)  # where all gaps are zero, any will do
    targets = rng.random((rows, size)) * running[:, -1:]
    chosen = np.stack([np.searchsorted(row, target) for row, target in zip(running, targets, strict=True)])
    chosen = np.minimum(chosen, running.shape[1] - 1)
    low = np.take_along_axis(points, chosen, axis=1)
    high = np.take_along_axis(points, chosen + 1, axis=1)
    return np.asarray(low + rng.random(chosen.shape) * (high - low))


Ends = tuple[float, float]

_STANDS_IN = "sums are taken inside the sanitized interval and centred: inside raw quantiles nothing can be certified"


@dataclass(frozen=True)
class Pieces:
    """Sanitized statistics of the censored likelihood, in coordinates centred at ``centre``."""

    low: Array
    high: Array
    centre: Array
    total: Array
    squares: Array
    below: Array
    above: Array
    inside: Array


READINGS = ("all", "likelihood", "winsorized", "trimmed", "naive")


@dataclass(frozen=True, kw_only=True)
class PaperMethod(Method):
    """A method of liu2023: m sanitizations with equal shares, combined by (6) and (7).

    **Guarantee.** One unit moves one partition value. 2S: of values in [L, U], the sum moves by at most U − L, its
    squares by max(L², U²) (13). The others sanitize (l, u) and sums between them.

    Parameters
    ----------
    reading
        ``"all"``: sum and sum of squares of all partition values (3.2), 2S. ``"likelihood"``: the censored normal
        likelihood (14), 4S to 6SDD. ``"winsorized"``, ``"trimmed"``: the means (26) and (27), for equal shares on both
        sides. ``"naive"``: the negative control, a normal likelihood for the values inside, as if nothing had been
        censored (32) to (34).
    counts
        Whether the censored counts are sanitized too (6S), and not taken from the shares (4S).
    m
        Number of sanitizations; the paper advises 3 to 5.
    as_published
        As printed, for simulations.
    double_down
        Whether sums and counts are computed inside the sanitized interval (DD).
    placement
        ``"quantile"`` places the interval by private quantiles, as the paper does. ``"moments"`` spends the same shares
        on bounded moments of the arms, which is far more exact where there are many more units than partitions: the
        default of the certified form. ``"declared"`` takes ``cutoffs``.
    cutoffs
        A public interval (l, u) between which partition values are not censored. It costs nothing, so the whole budget
        is for the other statistics. The censored shares are then unknown, so the counts must be sanitized (6S).
    inference
        Of the likelihood, ``"bayes"``: posterior mean and variance under the Jeffreys prior, by quadrature; ``"ml"``:
        maximum likelihood.
    """

    name: ClassVar[str] = "paper"
    reading: str = "likelihood"
    counts: bool = False
    m: int = 4
    as_published: bool = False
    double_down: bool = False
    placement: str | None = None
    inference: str = "bayes"
    cutoffs: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        requirements.positive_integer("m", self.m)
        requirements.one_of("reading", self.reading, READINGS, 'Pass "likelihood".')
        requirements.one_of("inference", self.inference, ("bayes", "ml"))
        object.__setattr__(self, "name", _paper_name(self.reading, self.counts, self.double_down))
        usual = "quantile" if self.as_published else "moments"
        if self.cutoffs is not None:
            usual = "declared"
            object.__setattr__(self, "cutoffs", cut(self.cutoffs))
            if not self.counts:
                raise InvalidParameter(
                    "cutoffs", self.cutoffs, f"leave open how much {self.name} censors",
                    'Use a method that counts it, such as method="6S", or "noise_aware".',
                )  # fmt: skip
        if self.placement is None:
            object.__setattr__(self, "placement", usual)
        places = ("quantile", "declared") if self.as_published else ("quantile", "moments", "declared")
        requirements.one_of("placement", self.placement, places)
        if (self.placement == "declared") != (self.cutoffs is not None):
            raise InvalidParameter(
                "placement",
                self.placement,
                '"declared" goes with cutoffs, and with nothing else',
                "Pass cutoffs=(l, u).",
            )

    @property
    def certified(self) -> bool:  # type: ignore[override]
        """Only the certified form has a guarantee."""
        return not self.as_published

    def parameters(self) -> dict[str, Any]:
        found = {name: getattr(self, name) for name in ("name", "as_published", *_settings(self.reading))}
        return {name: value for name, value in found.items() if name != "cutoffs" or value is not None}

    def contrasts(
        self,
        values: Array | Ordered,
        spending: Spending,
        bounds: Ends,
        censor: Ends,
        interval: tuple[Array, Array] | None = None,
    ) -> Contrast:
        """Rows of partition values to combined estimates.

        ``bounds`` are those of a partition value. Where ``interval`` is given, one column per end, it was paid for
        before, and the spending buys the other statistics only.
        """
        shares = self.shares() if interval is None else self.shares() - 2
        part = spending.split([1.0] * (shares * self.m))[0]
        placed = None
        if interval is not None:
            placed = np.repeat(interval[0], self.m, axis=1), np.repeat(interval[1], self.m, axis=1)
        sanitizer = Sanitizer(part, bounds, self.m, self.as_published, placed)
        ordered = values if isinstance(values, Ordered) else Ordered.of(values)
        found = self.sanitized(ordered, sanitizer, bounds, censor)
        # θ lies in the bounds, whatever noise made of a likelihood.
        most = ((bounds[1] - bounds[0]) / 2) ** 2
        return combined(LocationEstimate(np.clip(found.estimate, *bounds), np.minimum(found.variance, most)))

    def run(self, arms: Arms, spending: Spending, setting: Setting) -> Finding:
        low, high = setting.statistic.bounds
        rest, interval = self.placed_interval(arms, spending, setting)
        found = self.contrasts(arms.differences(), rest, (low - high, high - low), setting.censor, interval)
        single = Contrast(
            estimate=found.estimate[0], sampling_variance=found.sampling_variance[0],
            df=found.df[0], noise=np.asarray(found.noise)[:, 0], kurtosis=found.kurtosis,
        )  # fmt: skip
        return Finding(single, self.name, noisy={"m": self.m}, notes=self.notes())

    def placed_interval(self, arms: Arms, spending: Spending, setting: Setting) -> tuple[Spending, Any]:
        """The spending that is left, and the interval where it is not placed by quantiles."""
        if self.placement == "quantile" or self.reading == "all":
            return spending, None
        if self.cutoffs is not None:
            low, high = within(self.cutoffs, (-arms.width, arms.width))
            return spending, (np.array([[low]]), np.array([[high]]))
        first, rest = spending.split([2.0, self.shares() - 2.0])
        means, measured = Direct().means(arms, first, setting)
        start = contrast(means, [-1.0, 1.0], kurtosis=measured.kurtosis)
        low, high = within(placed(start, setting.partitions, setting.censor), (-arms.width, arms.width))
        return rest, (np.array([[low]]), np.array([[high]]))

    def counted(self) -> int:
        """The number of counts that are sanitized: 0 (the shares α, β are used), 1 (inside), or 2 (below, above)."""
        return self.counts * (1 if self.reading == "naive" else 2)

    def shares(self) -> int:
        """Number of statistics sanitized in one round."""
        return 2 if self.reading == "all" else 4 + self.counted()

    def notes(self) -> tuple[str, ...]:
        """The notes that the reader must know."""
        own = ("as published in liu2023: no guarantee holds (errata E2 to E5)",) if self.as_published else ()
        if not self.as_published and not self.double_down and self.reading != "all":
            own = (_STANDS_IN,)
        control = ("a negative control: it ignores the censoring, so its intervals are wrong",)
        return (*own, *control) if self.reading == "naive" else own

    def sanitized(self, ordered: Ordered, sanitizer: Sanitizer, bounds: Ends, censor: Ends) -> LocationEstimate:
        """Estimates of θ and their variances for sorted rows of partition values, one column per sanitization."""
        if self.reading == "all":
            return self._of_all(ordered, sanitizer, bounds)
        if self.reading in ("winsorized", "trimmed"):
            return self._winsorized(ordered, sanitizer, censor)
        pieces = self.pieces(ordered, sanitizer, censor)
        if self.reading == "naive":
            inside = np.maximum(pieces.inside, 2.0)
            spread = np.maximum(pieces.squares - pieces.total**2 / inside, 0.0)
            # (34) prints the variance of one value; that of the mean has one more division, as in (11).
            return LocationEstimate(pieces.centre + pieces.total / inside, spread / (inside * (inside - 1)))
        likelihood = CensoredNormal(
            below=pieces.below, inside=pieces.inside, above=pieces.above, lower=pieces.low, upper=pieces.high,
            total=pieces.total, squares=pieces.squares,
        )  # fmt: skip
        found = likelihood.posterior(17) if self.inference == "bayes" else likelihood.maximum()
        return LocationEstimate(pieces.centre + found.estimate, found.variance)

    def _of_all(self, ordered: Ordered, sanitizer: Sanitizer, bounds: Ends) -> LocationEstimate:
        low, high = bounds
        rows, count = np.ones((1, self.m)), ordered.count
        # Bounds of a difference of means are −W and W, so (13) has its sums centred already.
        reach = _rounded_up(high - low, count), _rounded_up(max(low**2, high**2), count)
        total = sanitizer.add(ordered.running[:, -1:] * rows, reach[0])
        squares = sanitizer.add(ordered.running_squares[:, -1:] * rows, reach[1])
        return LocationEstimate(total / count, (squares - total**2 / count) / (count * (count - 1)))

    def _winsorized(self, ordered: Ordered, sanitizer: Sanitizer, censor: Ends) -> LocationEstimate:
        if censor[0] != censor[1]:
            raise InvalidParameter("censor", censor, f"{self.name} needs α = β", "Pass censor=(0.1, 0.1).")
        count, pieces = ordered.count, self.pieces(ordered, sanitizer, censor)
        if self.counts:
            inside = np.maximum(pieces.inside, 2.0)
            alpha, beta, rest = pieces.below / count, pieces.above / count, inside / count
        else:
            alpha, beta, rest = (np.full(pieces.low.shape, share) for share in (*censor, 1 - sum(censor)))
        if self.reading == "trimmed":
            theta = pieces.total / (count * rest)
            factor = 1 / (rest * (count * rest - 1))
        else:
            theta = alpha * pieces.low + beta * pieces.high + pieces.total / count
            factor = (count - 1) / (count * rest - 1) ** 2
        spread = alpha * (pieces.low - theta) ** 2 + beta * (pieces.high - theta) ** 2
        # Σ(z − θ)² over the values inside; (23) prints it for a sum that is θ times their number.
        spread = spread + pieces.squares / count - rest * theta**2
        return LocationEstimate(pieces.centre + theta, factor * spread)

    def pieces(self, ordered: Ordered, sanitizer: Sanitizer, censor: Ends) -> Pieces:
        """Sanitize everything the method needs."""
        count = ordered.count
        shares = [int(count * share + 1e-9) for share in censor]
        ends = np.stack([sanitizer.quantile(ordered.values, q) for q in (censor[0], 1 - censor[1])])
        low, high = ends.min(axis=0), ends.max(axis=0)
        # An interval of no width gets one whose square is still a positive float.
        high = np.maximum(high, low + 1e-12 * (np.abs(low) + np.abs(high)) + 1e-150)
        if self.double_down or not self.as_published:
            first = _positions(ordered.values, low)
            last = _positions(ordered.values, high)
        else:
            first = np.full(low.shape, shares[0])
            last = np.full(low.shape, count - shares[1])
        inside = (last - first).astype(float)
        if self.as_published:
            centre = np.zeros_like(low)
            reach = (high - low, np.maximum(low**2, high**2))
            sums = _between(ordered.running, first, last), _between(ordered.running_squares, first, last)
        else:
            centre = (low + high) / 2
            # Not half the width: a centre that was rounded lies off the middle, by much of an interval that is a few
            # floats long. Subtraction rounds monotonely, so no term below is larger than the larger of its ends.
            half = np.maximum(high - centre, centre - low)
            reach = _rounded_up(2 * half, count), _rounded_up(half**2, count)
            sums = _centred(ordered.values, first, last, centre)
        total, squares = (sanitizer.add(value, most) for value, most in zip(sums, reach, strict=True))
        below, above = (np.full(low.shape, float(share)) for share in shares)
        between = np.full(low.shape, float(int(count * (1 - sum(censor)) + 1e-9)))
        if self.counted() == 2:
            below = np.clip(sanitizer.add(first.astype(float), 1.0), 0, count)
            above = np.clip(sanitizer.add((count - last).astype(float), 1.0), 0, count)
            between = np.maximum(count - below - above, 1.0)
        elif self.counted() == 1:
            between = np.clip(sanitizer.add(inside, 1.0), 2, count)
        return Pieces(low - centre, high - centre, centre, total, squares, below, above, between)


def combined(estimates: LocationEstimate) -> Contrast:
    """liu2023 (6) and (7), for every row."""
    theta = np.asarray(estimates.estimate)
    variance = np.maximum(np.asarray(estimates.variance), 0.0)
    m = theta.shape[1]
    within = variance.mean(axis=1)
    if m == 1:
        return Contrast(theta[:, 0], within, np.full(within.shape, 1e9), np.zeros_like(within)[None])
    between = np.maximum(theta.var(axis=1, ddof=1), 1e-12 * within + 1e-300)
    df = (m - 1) * (1 + m * within / between) ** 2
    return Contrast(theta.mean(axis=1), within, np.minimum(df, 1e9), np.sqrt(between / m)[None])


@dataclass(frozen=True, kw_only=True)
class Original(Method):
    """Not private: Student's t on the partition values, for studies only."""

    name: ClassVar[str] = "original"
    certified: ClassVar[bool] = False

    def run(self, arms: Arms, spending: Spending, setting: Setting) -> Finding:
        z = arms.differences()
        found = Contrast(float(z.mean()), float(z.var(ddof=1)) / z.size, float(z.size - 1))
        return Finding(found, self.name, notes=("not private",))


def _rounded_up(sensitivity: Any, count: int) -> Any:
    """A sensitivity with room for the rounding of a float sum of ``count`` terms, in both data sets.

    A sum of P terms of size at most h is off by at most P²·2⁻⁵³·h, in any order.
    """
    return sensitivity * (1 + count**2 * 2.0**-49)


def _centred(ordered: Array, first: Any, last: Any, centre: Array) -> tuple[Array, Array]:
    """Σ(z − c) and Σ(z − c)² between two positions, term by term: no term is larger than half the interval."""
    place = np.arange(ordered.shape[1])
    totals, squares = [], []
    for column in range(centre.shape[1]):
        chosen = (place >= first[:, column, None]) & (place < last[:, column, None])
        apart = np.where(chosen, ordered - centre[:, column, None], 0.0)
        totals.append(apart.sum(axis=1))
        squares.append((apart**2).sum(axis=1))
    return np.stack(totals, axis=1), np.stack(squares, axis=1)


def _positions(ordered: Array, cuts: Array) -> NDArray[np.int64]:
    """Number of values below each cut, row by row."""
    return np.stack([np.searchsorted(row, cut) for row, cut in zip(ordered, cuts, strict=True)])


def _between(running: Array, first: Any, last: Any) -> Array:
    """Sums of the values from position ``first`` to before ``last``, row by row, from running sums."""
    return np.asarray(np.take_along_axis(running, last, axis=1) - np.take_along_axis(running, first, axis=1))


def _paper_name(reading: str, counts: bool, double_down: bool) -> str:
    """The name of a method in liu2023."""
    known = {"all": ("2S", "2S"), "likelihood": ("4S", "6S"), "naive": ("naive", "naive5")}
    plain, counted = known.get(reading, (reading, f"{reading}6"))
    return (counted if counts else plain) + ("DD" if double_down else "")


def _settings(reading: str) -> tuple[str, ...]:
    """The settings that a reading looks at."""
    placed = () if reading == "all" else ("placement", "cutoffs")
    return ("m", *placed, "inference") if reading == "likelihood" else ("m", *placed)


def paper_method(name: Any, *, as_published: bool = False, **settings: Any) -> Method:
    """One of liu2023's methods by its name there; settings are those of `PaperMethod` that the method looks at."""
    known: dict[str, Any] = {"2S": {"reading": "all"}}
    for reading, counts, double in product(READINGS[1:], (False, True), (False, True)):
        own = {"reading": reading, "counts": counts, "double_down": double}
        known[_paper_name(reading, counts, double)] = own
    if name == Original.name:
        unused(name, settings, ())
        return Original()
    if not isinstance(name, str) or name not in known:
        names = sorted(["best", "direct", "noise_aware", Original.name, *known])
        raise InvalidParameter("method", name, f"must be a method or one of {names}", "Check the spelling.")
    unused(name, settings, _settings(known[name]["reading"]))
    return PaperMethod(as_published=as_published, **known[name], **settings)
