"""The bounded Laplace mechanism: Laplace noise conditioned on the output lying in the domain."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.door import Rng
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.guarantee import Guarantee, Profile, PureDP
from discreet.core.noise.sampler import (
    SYSTEM_ENTROPY,
    Entropy,
    Family,
    Floats,
    Location,
    TruncatedLaplaceFamily,
    Truth,
    default_grid,
    float_truth,
    plain,
    power_of_two,
)
from discreet.core.numbers import decimal, least
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms.bounded.scale import (
    BoundedLaplaceProfile,
    Coordinate,
    assigned_loss,
    bounded_laplace_scale,
    common_scale,
    published_scale,
    spread_loss,
)
from discreet.mechanisms.laplace import LaplaceLaw, LaplaceProfile, laplace_scale
from discreet.mechanisms.loss_distribution import ImpliedProfile
from discreet.mechanisms.mechanism import Kind, LocationLaw, Mechanism, Size, probabilities, spread

# ---- Truncated Laplace law: Laplace noise conditioned on an interval (holohan2018's bounded Laplace).


Array = NDArray[np.float64]


class TruncatedLaplaceLaw(LocationLaw):
    """Laplace noise conditioned on the output lying in [lower, upper].

    The location must lie within the bounds; mechanisms clamp it there first.

    Examples
    --------
    >>> law = TruncatedLaplaceLaw(0.2, 0.1, 0.0, 1.0)
    >>> round(law.mean, 6), round(law.variance, 6), law.support
    (0.221616, 0.013581, (0.0, 1.0))
    """

    def __init__(
        self, location: Truth, scale: ArrayLike, lower: ArrayLike, upper: ArrayLike, *, grid: ArrayLike | None = None
    ) -> None:
        self.lower = np.asarray(lower, dtype=float)
        self.upper = np.asarray(upper, dtype=float)
        if not np.all(self.lower < self.upper):
            raise InvalidParameter("lower", lower, "must be below upper everywhere", "Swap or widen the bounds.")
        super().__init__(location, scale, grid=grid)
        self._shape = np.broadcast_shapes(self._shape, self.lower.shape, self.upper.shape)
        if not np.all((self.location >= self.lower) & (self.location <= self.upper)):
            raise InvalidParameter("location", "…", "must lie within the bounds", "Clamp the truth first.")

    def _default_grid(self) -> Array:
        return np.asarray(default_grid(np.minimum(self.scale, self.upper - self.lower)))

    @property
    def support(self) -> tuple[Floats, Floats]:
        """The bounds."""
        return plain(np.broadcast_to(self.lower, self._shape)), plain(np.broadcast_to(self.upper, self._shape))

    @property
    def _sides(self) -> tuple[Array, Array]:
        """Distances to the bounds, in scales."""
        return (self.location - self.lower) / self.scale, (self.upper - self.location) / self.scale

    @property
    def _mass(self) -> tuple[Array, Array]:
        """1 − exp(−distance) to the left and right; their sum is twice holohan2018's C(q)."""
        left, right = self._sides
        return -np.expm1(-left), -np.expm1(-right)

    @property
    def mean(self) -> Floats:
        """liu2019 (6), in a form that does not cancel."""
        return plain(self.location + self.bias)

    @property
    def bias(self) -> Floats:
        """Expected output minus truth: positive left of the middle, negative right of it."""
        left, right = self._sides
        mass = sum(self._mass)
        return plain(self.scale * (first_moment(right) - first_moment(left)) / mass)

    @property
    def variance(self) -> Floats:
        """Second moment around the truth minus squared bias."""
        left, right = self._sides
        second = self.scale**2 * (_second_moment(left) + _second_moment(right)) / sum(self._mass)
        return plain(second - np.square(self.bias))

    def pdf(self, x: ArrayLike) -> Floats:
        """Density."""
        points = np.asarray(x, dtype=float)
        inside = (points >= self.lower) & (points <= self.upper)
        density = np.exp(-np.abs(self._standardised(points))) / (self.scale * sum(self._mass))
        return plain(np.where(inside, density, 0.0))

    def cdf(self, x: ArrayLike) -> Floats:
        """Distribution function."""
        z = self._standardised(np.clip(x, self.lower, self.upper))
        left, right = self._mass
        # exp(z) − exp(−left), without cancellation where the domain is short beside the scale.
        up_to = np.minimum(z, 0) + self._sides[0]
        below = np.exp(np.minimum(z, 0)) * -np.expm1(-up_to)
        return plain(np.where(z < 0, below, left - np.expm1(-np.maximum(z, 0))) / (left + right))

    def quantile(self, q: ArrayLike) -> Floats:
        """Inverse distribution function."""
        left, right = self._mass
        signed = probabilities(q) * (left + right) - left
        with np.errstate(divide="ignore"):
            noise = -np.sign(signed) * np.log1p(-np.abs(signed))
        return plain(np.clip(self.location + self.scale * noise, self.lower, self.upper))

    def _family(self, location: Location, scale: Array, grid: Array, shape: tuple[int, ...]) -> Family:
        lower, upper = (spread(bound, shape) for bound in (self.lower, self.upper))
        return TruncatedLaplaceFamily(scale, scale / grid, location, lower, upper)

    def _simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return np.asarray(self.quantile(rng.random(shape)))

    def sample(self, size: Size = None, *, rng: Rng = None, entropy: Entropy = SYSTEM_ENTROPY) -> Floats:
        """Draw outputs; a bound that is not on the grid stays a bound."""
        draws = np.asarray(super().sample(size, rng=rng, entropy=entropy))
        return plain(draws if self._on_grid() else np.clip(draws, self.lower, self.upper, out=draws))

    def _on_grid(self) -> bool:
        """True where both bounds are grid points, which rounding cannot pass; False for arrays of bounds."""
        if self.lower.ndim or self.upper.ndim or self.grid.ndim:
            return False
        cells = np.array([self.lower, self.upper]) / self.grid
        return bool(np.all(np.isinf(cells) | (cells == np.floor(cells))))


def first_moment(t: Array) -> Array:
    """∫₀ᵗ z·e⁻ᶻ dz = 1 − (1 + t)·e⁻ᵗ, as an incomplete gamma function: accurate for small and large t."""
    return np.asarray(scipy.special.gammainc(2.0, t))


def _second_moment(t: Array) -> Array:
    """∫₀ᵗ z²·e⁻ᶻ dz = 2 − (2 + 2t + t²)·e⁻ᵗ, likewise."""
    return np.asarray(2 * scipy.special.gammainc(3.0, t))


def truncated_laplace_interval(
    value: ArrayLike, level: float, scale: Array, lower: ArrayLike, upper: ArrayLike, grid: ArrayLike = 0.0
) -> tuple[Floats, Floats]:
    """Interval for a truth in [lower, upper] behind a bounded Laplace output.

    A truth is kept where the value lies in the shortest region that holds it with probability ``level``, the points
    within d(truth) of the truth. The coverage is exactly ``level`` at every truth, the bounds included, and the
    interval always covers the value itself. Proof: ``docs/proofs/population_intervals.md``.
    """
    points = np.asarray(value, dtype=float)
    half = np.asarray(grid, dtype=float) / 2
    low_end = np.asarray(lower, dtype=float)
    high_end = np.asarray(upper, dtype=float)
    right = np.clip(points + half, low_end, high_end)
    left = np.clip(points - half, low_end, high_end)
    above, below = (high_end - right) / scale, (left - low_end) / scale
    upward = _reach((right - low_end) / scale, above, 1 - level)
    downward = _reach((high_end - left) / scale, below, 1 - level)
    # An end that is reached is returned as such: a rounding error must not cut it off.
    high = np.where(upward >= above, high_end, right + scale * upward)
    low = np.where(downward >= below, low_end, left - scale * downward)
    return plain(np.clip(low, low_end, high_end)), plain(np.clip(high, low_end, high_end))


def _reach(behind: Array, ahead: Array, alpha: float) -> Array:
    """The farthest truth ahead of the value, in scales; ``behind`` and ``ahead`` are the distances to the ends.

    The truth at distance d ahead has d(truth) = d. With p = e^d, g = e^{−behind} and M = e^{−ahead} that is quadratic
    in p: (1−α)M·p² + 2α·p + (1−α)g − 2 = 0 where the region is cut by neither end, and α·M·p² − 2α·p + 1 − (1−α)g = 0
    where it is cut by the end ahead.
    """
    near, far = np.exp(-behind), np.exp(-ahead)
    with np.errstate(all="ignore"):
        whole = 2 - (1 - alpha) * near
        free = np.log(whole / (alpha + np.sqrt(alpha**2 + (1 - alpha) * far * whole)))
        rest = 1 - (1 - alpha) * near
        inside = alpha**2 - alpha * far * rest
        cut = np.where(inside > 0, np.log(rest / (alpha + np.sqrt(np.maximum(inside, 0)))), ahead)
    return np.asarray(np.where(2 * free <= ahead, free, np.minimum(cut, ahead)))


# ---- Clamped Laplace law: Laplace noise, then the nearest point of an interval (liu2019's boundary-inflated law)


class ClampedLaplaceLaw(TruncatedLaplaceLaw):
    """Laplace noise, then the nearest point of [lower, upper]: a density inside, and mass on both ends.

    Parameters
    ----------
    location
        The truth; it must lie within the bounds.
    scale
        Scale of the noise.
    lower, upper
        The bounds; either may be infinite.
    grid
        Power of two to which draws are rounded before they are clamped.

    Examples
    --------
    >>> law = ClampedLaplaceLaw(0.2, 0.1, 0.0, 1.0)
    >>> round(law.mean, 6), round(law.mse, 6), [round(mass, 6) for mass in law.masses]
    (0.20675, 0.01591, [0.067668, 0.000168])
    """

    def _default_grid(self) -> Array:
        return np.asarray(default_grid(self.scale))

    def __init__(self, location: Truth, scale: ArrayLike, *bounds: ArrayLike, grid: ArrayLike | None = None) -> None:
        super().__init__(location, scale, *bounds, grid=grid)
        self._noise = LaplaceLaw(location, scale, grid=self.grid)

    @property
    def masses(self) -> tuple[Floats, Floats]:
        """Probability of each end: exp(−distance/b)/2 (liu2019 (5), whose mass at the upper end is misprinted)."""
        left, right = self._sides
        return plain(np.exp(-left) / 2), plain(np.exp(-right) / 2)

    @property
    def mean(self) -> Floats:
        """Truth plus bias (liu2019 (7), (9), (10))."""
        return plain(np.clip(self.location + self.bias, self.lower, self.upper))

    @property
    def bias(self) -> Floats:
        """b/2·(e^{−left} − e^{−right}), without cancellation."""
        left, right = self._sides
        near = np.minimum(left, right)
        with np.errstate(invalid="ignore"):
            gap = np.where(np.isinf(left) & np.isinf(right), 0.0, np.abs(right - left))
        size = self.scale / 2 * np.exp(-near) * -np.expm1(-gap)
        return plain(np.where(left <= right, size, -size))

    @property
    def mse(self) -> Floats:
        """E(output − truth)² = b²·(2 − (1 + left)·e^{−left} − (1 + right)·e^{−right}) ≤ 2b²."""
        left, right = self._sides
        return plain(self.scale**2 * (first_moment(left) + first_moment(right)))

    @property
    def variance(self) -> Floats:
        """Mean squared error minus squared bias."""
        return plain(np.asarray(self.mse) - np.square(self.bias))

    def pdf(self, x: ArrayLike) -> Floats:
        """Density strictly between the bounds; the ends carry `masses` instead."""
        points = np.asarray(x, dtype=float)
        inside = (points > self.lower) & (points < self.upper)
        return plain(np.where(inside, self._noise.pdf(points), 0.0))

    def cdf(self, x: ArrayLike) -> Floats:
        """Distribution function; it jumps at the bounds."""
        points = np.asarray(x, dtype=float)
        inner = np.asarray(self._noise.cdf(points))
        return plain(np.where(points < self.lower, 0.0, np.where(points >= self.upper, 1.0, inner)))

    def quantile(self, q: ArrayLike) -> Floats:
        """Inverse distribution function."""
        return plain(np.clip(np.asarray(self._noise.quantile(q)), self.lower, self.upper))

    def sample(self, size: Size = None, *, rng: Rng = None, entropy: Entropy = SYSTEM_ENTROPY) -> Floats:
        """Draw Laplace outputs and clamp them."""
        front = () if size is None else (size,) if isinstance(size, int | np.integer) else tuple(size)
        extra = self._shape[: len(self._shape) - len(self._noise.shape)]
        draws = self._noise.sample((*front, *extra) or None, rng=rng, entropy=entropy)
        return plain(np.clip(draws, self.lower, self.upper))


def clamped_laplace_interval(
    value: ArrayLike, level: float, scale: Array, lower: ArrayLike, upper: ArrayLike, grid: ArrayLike = 0.0
) -> tuple[Floats, Floats]:
    """Interval for a truth in [lower, upper] behind a clamped Laplace output: value ± b·ln(1/(1 − level)), cut.

    Clamping loses nothing here: the atom at an end is a tail event of the Laplace law.
    """
    points = np.asarray(value, dtype=float)
    reach = scale * -math.log(1 - level) + np.asarray(grid) / 2
    return plain(np.clip(points - reach, lower, upper)), plain(np.clip(points + reach, lower, upper))


# ---- Domain: the public interval that a statistic lies in, or one interval per coordinate.


_EXACT_INTEGERS = 2**53


@dataclass(frozen=True)
class Domain:
    """Intervals [low, high]; an end may be infinite, but not both ends of one interval.

    Parameters
    ----------
    lows, highs
        One end per coordinate; a single pair serves a scalar and every coordinate of a vector alike.
    single
        Whether the domain was given as one pair.
    """

    lows: tuple[float, ...]
    highs: tuple[float, ...]
    single: bool

    @classmethod
    def of(cls, bounds: Any) -> Domain:
        """Read a pair ``(low, high)`` or a sequence of pairs; None stands for an infinite end.

        Examples
        --------
        >>> Domain.of((0, 1)), Domain.of([(0, None), (-1, 1)]).highs
        (Domain(lows=(0.0,), highs=(1.0,), single=True), (inf, 1.0))
        """
        if isinstance(bounds, Domain):
            return bounds
        if isinstance(bounds, np.ndarray):
            bounds = bounds.tolist()
        if isinstance(bounds, str) or not isinstance(bounds, Sequence) or len(bounds) == 0:
            raise WrongType("bounds", bounds, "must be a pair or a sequence of pairs", "Pass bounds=(0, 1).")
        single = not isinstance(bounds[0], Sequence | np.ndarray)
        pairs = [_pair(pair) for pair in ([bounds] if single else bounds)]
        return cls(tuple(low for low, _ in pairs), tuple(high for _, high in pairs), single)

    @property
    def ends(self) -> tuple[Array, Array]:
        """Lower and upper ends as arrays; scalars where one pair serves all."""
        low, high = np.asarray(self.lows), np.asarray(self.highs)
        return (low[0], high[0]) if self.single else (low, high)

    @property
    def widths(self) -> tuple[Fraction | None, ...]:
        """Exact lengths; None for a half-line."""
        return tuple(
            Fraction(high) - Fraction(low) if math.isfinite(high - low) else None
            for low, high in zip(self.lows, self.highs, strict=True)
        )

    def require_size(self, truth: Truth) -> None:
        """Refuse a value whose shape is not that of the domain."""
        shape = float_truth(truth).shape
        if not self.single and shape != (len(self.lows),):
            fix = "Give one pair per coordinate, or one pair for all."
            raise InvalidParameter("bounds", f"{len(self.lows)} pairs", f"does not fit a value of shape {shape}", fix)

    def clamp(self, truth: Truth) -> Any:
        """The nearest point of the domain: exact, 1-Lipschitz, and never an error that would tell of the data."""
        self.require_size(truth)
        low, high = self.ends
        floats = float_truth(truth)
        array = np.asarray(truth)
        if array.dtype.kind != "f":  # floats are exact as they stand, and may be many
            array = np.asarray(truth, dtype=object)
        if array.dtype == object and any(_beyond_floats(value) for value in array.ravel()):
            clamped = np.frompyfunc(_clamp_exactly, 3, 1)(array, low, high)
            return clamped if array.ndim else Fraction(clamped)
        clipped = np.clip(floats, low, high)
        return float(clipped) if clipped.ndim == 0 else clipped


def _pair(pair: Any) -> tuple[float, float]:
    if isinstance(pair, np.ndarray):
        pair = pair.tolist()
    if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
        raise WrongType("bounds", pair, "must be a pair (low, high)", "Pass bounds=(0, 1), for example.")
    low, high = pair
    return requirements.ordered_bounds(
        "bounds", (-math.inf if low is None else low, math.inf if high is None else high)
    )


def _beyond_floats(value: Any) -> bool:
    if isinstance(value, Fraction):
        return True
    return isinstance(value, int) and abs(value) > _EXACT_INTEGERS


def _clamp_exactly(value: Any, low: float, high: float) -> Fraction:
    exact = Fraction(value)
    if math.isfinite(low) and exact < Fraction(low):
        return Fraction(low)
    if math.isfinite(high) and exact > Fraction(high):
        return Fraction(high)
    return exact


def require_covered(changes: Sequence[float], sensitivity: Sensitivity) -> None:
    """Refuse a sensitivity that may move a coordinate by more than its own declared change.

    Moves are sorted, and norms know no coordinates: the largest change may fall on any coordinate, so without
    ``coordinates`` every declared change must allow for it.
    """
    requirements.instance("sensitivity", sensitivity, Sensitivity, "Sensitivity(coordinates=…), for example")
    bounds = sensitivity.coordinates
    if bounds is None:
        # No single coordinate changes by more than the largest move, or than the ℓ₂ norm of the change.
        largest = max(sensitivity.moves) if sensitivity.moves else sensitivity.require_l2()
        bounds = (largest,) * max(len(changes), len(sensitivity.moves or ()))
    if len(bounds) != len(changes) or any(bound > change for bound, change in zip(bounds, changes, strict=True)):
        raise InvalidParameter(
            "sensitivity",
            sensitivity,
            f"may exceed the changes {tuple(changes)} that this mechanism was calibrated to, coordinate by coordinate",
            "Pass Sensitivity(coordinates=…) with one bound per coordinate, or larger changes.",
        )


# ---- The bounded Laplace mechanism: Laplace noise conditioned on the output lying in the domain.


Changes = Sensitivity | Sequence[Sensitivity]


@dataclass(frozen=True, kw_only=True)
class BoundedLaplace(Mechanism):
    """Laplace noise whose distribution is supported on the domain (holohan2018; liu2019's truncated Laplace).

    A truth outside the domain is clamped into it first.

    Parameters
    ----------
    scale
        Scale b of the underlying Laplace distribution; one number, or one per coordinate.
    bounds
        Public domain: a pair ``(low, high)`` for a scalar or for every coordinate, or one pair per coordinate. One end
        of a pair may be infinite (or None).
    grid
        Power of two to which outputs are rounded; by default 2⁻²⁰ of the scale. Rounding is post-processing.
    changes
        For a vector: the largest change of each coordinate, where known coordinate by coordinate.
    shares
        With ``changes``: the weights by which the guarantee was split over the coordinates.

    Guarantee
    ---------
    For a scalar with sensitivity Δ ≤ u − l it is ε-DP with ε = Δ/b + log(C(l+Δ)/C(l)), C(q) the mass that the Laplace
    law around q has in the domain (holohan2018, Lemma 3.3): more than Δ/b unless Δ = u − l, and less than 2Δ/b. Its
    (ε, δ) curve is the exact hockey-stick divergence, maximised over all pairs of neighbours. Both are tight and hold
    for the neighbour relation of Δ. Proof: ``docs/proofs/bounded_laplace.md``.

    Examples
    --------
    >>> from discreet import PureDP
    >>> from discreet.core.sensitivity import Sensitivity
    >>> from discreet.mechanisms import BoundedLaplace
    >>> mechanism = BoundedLaplace.calibrate(PureDP(1.0), Sensitivity(l1=0.1), bounds=(0, 1))
    >>> round(mechanism.scale, 12)
    0.161156010442
    >>> law = mechanism.law(0.2)
    >>> round(law.mean, 6), round(law.mse, 6)
    (0.257333, 0.03054)
    """

    name: ClassVar[str] = "bounded_laplace"
    scale: Any
    bounds: Any
    grid: float | None = None
    changes: tuple[float, ...] | None = None
    shares: tuple[float, ...] | None = None
    _domain: Domain = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        domain = Domain.of(self.bounds)
        object.__setattr__(self, "_domain", domain)
        ends = [tuple(pair) for pair in zip(domain.lows, domain.highs, strict=True)]
        object.__setattr__(self, "bounds", ends[0] if domain.single else tuple(ends))
        object.__setattr__(self, "scale", _scales(self.scale, domain))
        if self.grid is not None:
            object.__setattr__(self, "grid", power_of_two("grid", self.grid))
        if self.changes is not None:
            object.__setattr__(self, "changes", _positives("changes", self.changes, domain))
        if self.shares is not None:
            object.__setattr__(self, "shares", _positives("shares", self.shares, domain))

    @classmethod
    def calibrate(
        cls,
        guarantee: Guarantee,
        sensitivity: Changes,
        *,
        bounds: Any = None,
        shares: Sequence[float] | None = None,
        as_published: str | None = None,
        grid: float | None = None,
    ) -> Self:
        """The least noise that meets ``guarantee``; scales are rounded up and certified.

        Parameters
        ----------
        guarantee
            What the release must satisfy.
        sensitivity
            One sensitivity, or one per coordinate: then the guarantee is split over the coordinates.
        bounds
            The public domain, as in the constructor; required.
        shares
            With one sensitivity per coordinate: the weights of the split; by default proportional to the
            sensitivities (liu2019 (8)).
        as_published
            ``"holohan2018"``: the paper's (ε, δ) scale, which is larger than it need be for δ > 0. ``"liu2019"``:
            scale Δ/ε, which is *not* ε-DP; `guarantee` reports what really holds.
        grid
            As in the constructor.
        """
        requirements.instance("guarantee", guarantee, Guarantee, "a guarantee such as PureDP(1.0)")
        if bounds is None:
            raise InvalidParameter("bounds", None, "the public domain is needed", "Pass bounds=(low, high).")
        domain = Domain.of(bounds)
        if isinstance(sensitivity, Sensitivity):
            if shares is not None:
                fix = "Pass a list of sensitivities."
                raise InvalidParameter("shares", shares, "go with one sensitivity per coordinate", fix)
            scale: Any = _common_scale(guarantee, sensitivity, domain, as_published)
            return cls(scale=scale, bounds=bounds, grid=grid)
        changes = _coordinate_changes(sensitivity, domain)
        weights = [float(change) for change in changes] if shares is None else list(shares)
        if len(weights) != len(changes):
            raise InvalidParameter("shares", shares, f"must have {len(changes)} entries", "Give one per coordinate.")
        parts = guarantee.split(weights)
        widths = domain.widths * (len(changes) if domain.single else 1)
        scales = tuple(
            _scale(part, change, width, as_published)
            for part, change, width in zip(parts, changes, widths, strict=True)
        )
        return cls(
            scale=scales,
            bounds=_per_coordinate(domain, len(changes)),
            grid=grid,
            changes=tuple(float(change) for change in changes),
            shares=tuple(weights),
        )

    def law(self, truth: Truth) -> TruncatedLaplaceLaw:
        """The exact distribution of the output; a truth outside the domain counts as its nearest point."""
        low, high = self._domain.ends
        return TruncatedLaplaceLaw(self._domain.clamp(truth), np.asarray(self.scale), low, high, grid=self.grid)

    def profile(self, sensitivity: Changes) -> Profile:
        """The exact privacy curve for a scalar; for a vector, what follows coordinate by coordinate."""
        if not isinstance(sensitivity, Sensitivity):
            return self._known_changes(_coordinate_changes(sensitivity, self._domain))
        if self.changes is not None:
            require_covered(self.changes, sensitivity)
            return self._known_changes([Fraction(change) for change in self.changes])
        coordinates = self._coordinates(_dimension(sensitivity, self._domain))
        if sensitivity.moves is None:
            change = Fraction(sensitivity.require_l1())
            if len(coordinates) == 1:
                return BoundedLaplaceProfile([coordinates[0].move(change)])
            return ImpliedProfile(PureDP(spread_loss(coordinates, change)))
        moves = [Fraction(move) for move in sensitivity.moves]
        if len(set(coordinates)) == 1:
            return BoundedLaplaceProfile([coordinates[0].move(move) for move in moves])
        return ImpliedProfile(PureDP(assigned_loss(coordinates, moves)))

    def _known_changes(self, changes: Sequence[Fraction]) -> Profile:
        coordinates = self._coordinates(len(changes))
        moves = [coordinate.move(change) for coordinate, change in zip(coordinates, changes, strict=True)]
        if self.shares is None:
            return BoundedLaplaceProfile(moves)
        weights = [decimal(share) for share in self.shares]
        return BoundedLaplaceProfile(moves, [weight / sum(weights, Fraction(0)) for weight in weights])

    def _coordinates(self, dimension: int) -> list[Coordinate]:
        scales = self.scale if isinstance(self.scale, tuple) else (self.scale,) * dimension
        widths = self._domain.widths * (dimension if self._domain.single else 1)
        return [Coordinate(Fraction(scale), width) for scale, width in zip(scales, widths, strict=True)]

    def guarantee(self, sensitivity: Changes, kind: Kind = None, *, delta: float | None = None) -> Guarantee:
        """ε = Δ/b + log(C(l+Δ)/C(l)), rounded up, or the tightest guarantee of the kind asked for.

        Examples
        --------
        >>> from discreet import ApproxDP
        >>> from discreet.core.sensitivity import Sensitivity
        >>> from discreet.mechanisms import BoundedLaplace
        >>> mechanism, unit = BoundedLaplace(scale=0.1, bounds=(0, 1)), Sensitivity(l1=0.1)
        >>> print(mechanism.guarantee(unit), mechanism.guarantee(unit, ApproxDP, delta=0.01))
        ε = 1.48985 ε = 1.32416, δ = 0.01
        """
        return self.profile(sensitivity).guarantee(kind or self.own_kind, delta=delta)

    def check(self, exact: Exact) -> None:
        """A vector needs a sensitivity that says how its change may spread over the coordinates."""
        self._domain.require_size(exact.value)
        size = float_truth(exact.value).size
        known = exact.sensitivity.dimension or (len(self.changes) if self.changes else None)
        if isinstance(self.scale, tuple) and len(self.scale) != size:
            raise InvalidParameter(
                "scale", self.scale, f"does not fit a value of {size} coordinates", "Give one scale per coordinate."
            )
        if size > 1 and exact.sensitivity.moves is None and known != size:
            rule = f"does not say how a change is divided among {size} coordinates"
            fix = f"Write Sensitivity(l1={exact.sensitivity.l1 or 1.0}, dimension={size})."
            raise InvalidParameter("sensitivity", exact.sensitivity, rule, fix)

    def noise_interval(self, value: Floats, level: float) -> tuple[Floats, Floats]:
        """Exact interval for the truth in the domain; valid, and never empty, up to the very bounds."""
        low, high = self._domain.ends
        grid = self.law(np.where(np.isfinite(low), low, high)).grid
        return truncated_laplace_interval(value, level, np.asarray(self.scale), low, high, grid)

    def error(self, level: float = 0.95) -> Floats:
        """The error that the output stays within with probability ``level``: largest for a truth at an end."""
        low, high = self._domain.ends
        scale = np.asarray(self.scale)
        error = -scale * np.log1p(level * np.expm1((low - high) / scale))
        return float(error) if error.ndim == 0 else error


def _scales(scale: Any, domain: Domain) -> Any:
    try:
        single = np.ndim(scale) == 0
    except ValueError:  # rows of unlike length
        single = False
    if single:
        return requirements.positive("scale", scale)
    scales = tuple(requirements.positive("scale", one) for one in scale)
    if domain.single or len(scales) != len(domain.lows):
        fix = "Give one pair of bounds per scale."
        raise InvalidParameter("scale", scale, "must be one number, or one per pair of bounds", fix)
    return scales


def _positives(name: str, values: Any, domain: Domain) -> tuple[float, ...]:
    given = requirements.listed(name, values, f"{name}=(1, 2)")
    sizes = tuple(requirements.positive(name, value) for value in given)
    if domain.single or len(sizes) != len(domain.lows):
        raise InvalidParameter(name, values, "must be one per pair of bounds", "Give one pair per coordinate.")
    return sizes


def _per_coordinate(domain: Domain, size: int) -> list[tuple[float, float]]:
    pairs = list(zip(domain.lows, domain.highs, strict=True))
    return pairs * size if domain.single else pairs


def _coordinate_changes(sensitivities: Any, domain: Domain) -> list[Fraction]:
    if isinstance(sensitivities, str) or not isinstance(sensitivities, Sequence) or len(sensitivities) == 0:
        fix = "Pass Sensitivity(l1=1.0), for example."
        raise InvalidParameter("sensitivity", sensitivities, "must be a Sensitivity or a list of them", fix)
    for one in sensitivities:
        requirements.instance("sensitivity", one, Sensitivity, "Sensitivity(l1=1.0), for example")
    if not domain.single and len(sensitivities) != len(domain.lows):
        raise InvalidParameter(
            "sensitivity", sensitivities, f"must have {len(domain.lows)} entries", "Give one per pair of bounds."
        )
    return [Fraction(one.require_l1()) for one in sensitivities]


def _dimension(sensitivity: Sensitivity, domain: Domain) -> int:
    requirements.instance("sensitivity", sensitivity, Sensitivity, "Sensitivity(l1=1.0), for example")
    moved = len(sensitivity.moves or (0,))
    if domain.single:
        return max(sensitivity.dimension or 1, moved)
    size = len(domain.lows)
    if sensitivity.dimension not in (None, size) or moved > size:
        fix = "Match it with the bounds."
        raise InvalidParameter("sensitivity", sensitivity, f"does not fit {size} coordinates", fix)
    return size


def _common_scale(guarantee: Guarantee, sensitivity: Sensitivity, domain: Domain, as_published: str | None) -> float:
    """One scale for all coordinates."""
    widths = domain.widths
    dimension = _dimension(sensitivity, domain)
    if dimension == 1 or as_published is not None:
        return _scale(guarantee, Fraction(sensitivity.require_l1()), widths[0], as_published)
    coordinates = widths * (dimension if domain.single else 1)
    return common_scale(guarantee, sensitivity, coordinates)


def _scale(guarantee: Guarantee, change: Fraction, width: Fraction | None, as_published: str | None) -> float:
    if as_published is None:
        return bounded_laplace_scale(guarantee, change, width)
    if as_published == "holohan2018":
        return published_scale(guarantee, change, width)
    if as_published == "liu2019":
        if not isinstance(guarantee, PureDP) or guarantee.epsilon == 0:
            raise InvalidParameter("guarantee", guarantee, "liu2019 knows ε > 0 only", "Pass PureDP(epsilon).")
        epsilon = decimal(guarantee.epsilon)
        return least(lambda b: change <= epsilon * Fraction(b), float(change / epsilon))
    fix = "Leave it out for the certified scale."
    raise InvalidParameter("as_published", as_published, 'must be None, "holohan2018" or "liu2019"', fix)


# ---- Noise of one scale on a domain


@dataclass(frozen=True, kw_only=True)
class OnDomain(Mechanism):
    """Noise of one scale whose outputs stay within a public domain; its kinds say how."""

    scale: float
    bounds: Any
    grid: float | None = None
    _domain: Domain = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        domain = Domain.of(self.bounds)
        object.__setattr__(self, "_domain", domain)
        ends = tuple(zip(domain.lows, domain.highs, strict=True))
        object.__setattr__(self, "bounds", ends[0] if domain.single else ends)
        object.__setattr__(self, "scale", requirements.positive("scale", self.scale))
        if self.grid is not None:
            object.__setattr__(self, "grid", power_of_two("grid", self.grid))

    @classmethod
    @abstractmethod
    def _least_scale(cls, guarantee: Guarantee, sensitivity: Sensitivity, domain: Domain) -> float:
        """The least scale that meets a guarantee."""

    @classmethod
    def calibrate(
        cls, guarantee: Guarantee, sensitivity: Sensitivity, *, bounds: Any = None, grid: float | None = None
    ) -> Self:
        """The least noise that meets ``guarantee``: the scale of the noise without a domain."""
        if bounds is None:
            raise InvalidParameter("bounds", None, "the public domain is needed", "Pass bounds=(low, high).")
        return cls(scale=cls._least_scale(guarantee, sensitivity, Domain.of(bounds)), bounds=bounds, grid=grid)

    def check(self, exact: Exact) -> None:
        """The domain must fit the value, and the value the number of coordinates whose moves were shortened."""
        self._domain.require_size(exact.value)
        require_one_number(exact, self._domain)


# ---- The boundary-inflated Laplace mechanism: Laplace noise, clamped to the domain.


@dataclass(frozen=True, kw_only=True)
class BoundaryInflatedLaplace(OnDomain):
    """Laplace noise whose out-of-domain outputs become the nearest end (liu2019's BIT; holohan2018's truncated).

    Parameters
    ----------
    scale
        Scale b of the Laplace noise.
    bounds
        Public domain: a pair for a scalar or for every coordinate, or one pair per coordinate. One end of a pair may
        be infinite (or None).
    grid
        Power of two to which outputs are rounded; by default 2⁻²⁰ of the scale.

    Guarantee
    ---------
    That of Laplace noise of the same scale, by post-processing; for a scalar it is tight with Δ replaced by
    min(Δ, u − l), since a clamped output tells as much about a truth inside the domain as the unclamped one. Any
    neighbour relation that Δ has. Proof: ``docs/proofs/bounded_laplace.md``.

    Examples
    --------
    >>> from discreet import PureDP
    >>> from discreet.core.sensitivity import Sensitivity
    >>> from discreet.mechanisms import BoundaryInflatedLaplace
    >>> mechanism = BoundaryInflatedLaplace.calibrate(PureDP(1.0), Sensitivity(l1=0.1), bounds=(0, 1))
    >>> mechanism.scale
    0.1
    >>> law = mechanism.law(0.2)
    >>> round(law.bias, 6), round(law.mse, 6)
    (0.00675, 0.01591)
    """

    name: ClassVar[str] = "boundary_inflated_laplace"

    @classmethod
    def _least_scale(cls, guarantee: Guarantee, sensitivity: Sensitivity, domain: Domain) -> float:
        return laplace_scale(guarantee, Sensitivity(moves=_moves(sensitivity, domain)))

    def law(self, truth: Truth) -> ClampedLaplaceLaw:
        """The exact distribution of the output; a truth outside the domain counts as its nearest point."""
        low, high = self._domain.ends
        return ClampedLaplaceLaw(self._domain.clamp(truth), self.scale, low, high, grid=self.grid)

    def profile(self, sensitivity: Sensitivity) -> LaplaceProfile:
        """The exact privacy curve: that of Laplace noise."""
        moves = _moves(sensitivity, self._domain)
        return LaplaceProfile([Fraction(move) / Fraction(self.scale) for move in moves])

    def noise_interval(self, value: Floats, level: float) -> tuple[Floats, Floats]:
        """Exact interval for the truth in the domain: value ± b·ln(1/(1 − level)), cut to it."""
        low, high = self._domain.ends
        grid = self.law(np.where(np.isfinite(low), low, high)).grid
        return clamped_laplace_interval(value, level, np.asarray(self.scale), low, high, grid)

    def error(self, level: float = 0.95) -> Floats:
        """The error that the output stays within with probability ``level``; at most the domain's length."""
        low, high = self._domain.ends
        error = np.minimum(-self.scale * np.log1p(-level), high - low)
        return float(error) if error.ndim == 0 else np.asarray(error)


def require_one_number(exact: Exact, domain: Domain) -> None:
    """Refuse several numbers in one interval where nothing says that: as one number they cannot move beyond its length.

    Without ``dimension`` a norm is taken to be that of one number, and a norm longer than the interval is shortened.
    """
    sensitivity, size = exact.sensitivity, float_truth(exact.value).size
    unsaid = sensitivity.moves is None and sensitivity.dimension is None
    width = domain.widths[0]
    norm = sensitivity.l1 or sensitivity.l2
    if domain.single and size > 1 and unsaid and width is not None and norm is not None and norm > width:
        rule = f"does not say how a change is divided among {size} coordinates"
        fix = f"Write Sensitivity(l1={sensitivity.l1 or 1.0}, dimension={size})."
        raise InvalidParameter("sensitivity", sensitivity, rule, fix)


def _moves(sensitivity: Sensitivity, domain: Domain) -> tuple[float, ...]:
    """The worst move of each coordinate, none longer than the longest domain."""
    requirements.instance("sensitivity", sensitivity, Sensitivity, "Sensitivity(l1=1.0), for example")
    widths = [width for width in domain.widths if width is not None]
    longest = max(widths) if len(widths) == len(domain.widths) else None
    if sensitivity.moves is not None:
        moves = sensitivity.moves
    else:
        moves = (sensitivity.require_l1(),)
        if not (domain.single and sensitivity.dimension in (None, 1)):
            return moves  # the change may spread over coordinates: only its total is bounded
    return moves if longest is None else tuple(_shorter(move, longest) for move in moves)


def _shorter(move: float, longest: Fraction) -> float:
    """The move, or the length of the domain rounded up."""
    if Fraction(move) <= longest:
        return move
    number = float(longest)
    return number if Fraction(number) >= longest else float(np.nextafter(number, np.inf))
