"""The bounded covariance mechanism: variances first, then covariances that fit them, then a matrix that can exist."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.door import Rng
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import ApproxDP, Guarantee, Profile, PureDP
from discreet.core.noise.sampler import Truth, float_truth, generator
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms.bounded.laplace import (
    BoundaryInflatedLaplace,
    BoundedLaplace,
    ClampedLaplaceLaw,
    Domain,
    TruncatedLaplaceLaw,
    clamped_laplace_interval,
    require_covered,
    truncated_laplace_interval,
)
from discreet.mechanisms.bounded.scale import BoundedLaplaceProfile, bounded_laplace_scale, bounded_laplace_scales
from discreet.mechanisms.laplace import laplace_scale
from discreet.mechanisms.loss_distribution import ImpliedProfile
from discreet.mechanisms.mechanism import Kind, Mechanism, SampledLaw

# ---- Positive semidefinite: the nearest covariance matrix with its variances inside their bounds (higham2002)


Array = NDArray[np.float64]

_MOST_ROUNDS = 2000
_CLOSE = 1e-12


def _onto_cone(matrix: Array) -> Array:
    """The nearest positive-semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def nearest_covariance(matrix: Array, lower: Array, upper: Array) -> Array:
    """The nearest positive-semidefinite matrix whose diagonal lies within bounds, in the Frobenius norm.

    Alternating projections with Dykstra's correction, as in higham2002 for correlation matrices: onto the cone, and
    onto the matrices whose diagonal lies within the bounds. The last step scales rows and columns alike, which keeps
    the matrix in the cone and puts the diagonal exactly where it must be.

    Parameters
    ----------
    matrix
        A symmetric matrix; returned itself where it already is what is asked for.
    lower, upper
        Bounds of the diagonal.

    Examples
    --------
    >>> bad = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    >>> good = nearest_covariance(bad, np.zeros(3), np.full(3, 2.0))
    >>> bool(np.linalg.eigvalsh(good).min() > -1e-12), bool(np.diag(good).max() <= 2.0)
    (True, True)
    """
    diagonal = np.diag(matrix)
    scale = max(float(np.abs(matrix).max()), 1e-300)
    inside = bool(np.all((diagonal >= lower) & (diagonal <= upper)))
    if inside and float(np.linalg.eigvalsh(matrix)[0]) >= -_CLOSE * scale:
        return matrix
    current, correction = matrix, np.zeros_like(matrix)
    for _ in range(_MOST_ROUNDS):
        shifted = current - correction
        cone = _onto_cone(shifted)
        correction = cone - shifted
        following = cone.copy()
        np.fill_diagonal(following, np.clip(np.diag(cone), lower, upper))
        if np.abs(following - cone).max() <= _CLOSE * scale and np.abs(following - current).max() <= _CLOSE * scale:
            break
        current = following
    return _within_bounds(cone, lower, upper)


def _within_bounds(matrix: Array, lower: Array, upper: Array) -> Array:
    diagonal = np.diag(matrix).copy()
    wanted = np.clip(diagonal, lower, upper)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(diagonal > 0, np.sqrt(wanted / diagonal), 0.0)
    scaled = factor[:, None] * matrix * factor[None, :]
    np.fill_diagonal(scaled, wanted)
    return np.asarray((scaled + scaled.T) / 2)


@dataclass(frozen=True, kw_only=True)
class BoundedCovariance(Mechanism):
    """A covariance matrix by bounded Laplace noise, entry by entry (liu2019 section 4.1).

    The value is the vector of the d variances, then the d(d − 1)/2 covariances above the diagonal, row by row. Each
    variance is protected inside its public domain. Then each covariance is protected inside ±√(S*ⱼⱼ·S*ₖₖ), the range
    that the *released* variances leave it, after it has been clamped into that range. Last, a matrix that is not
    positive semidefinite is replaced by the nearest one that is and whose diagonal stays in its domain.

    Parameters
    ----------
    budget
        The guarantee that all entries together satisfy.
    changes
        Largest change of each entry, in the order of the value.
    variance_bounds
        Public domain of each variance.
    weights
        Shares of the budget, in the order of the value; equal by default.
    inflated
        Clamp Laplace noise (boundary-inflated) instead of conditioning it on the domain.
    repair
        Whether to make the matrix positive semidefinite.
    as_published
        liu2019's scale Δ/ε for conditioned noise, which costs up to twice the budget; the guarantee says so.

    Guarantee
    ---------
    The ``budget``: it is split over the entries, each release meets its share whatever the earlier ones were (adaptive
    composition), and clamping is 1-Lipschitz, so the changes stay the changes. The repair is post-processing. Proof:
    ``docs/proofs/bounded_laplace.md``.

    Examples
    --------
    >>> from discreet import PureDP
    >>> mechanism = BoundedCovariance(
    ...     budget=PureDP(1.0), changes=(0.36, 0.81, 0.54), variance_bounds=((0, 9.1), (0, 20.5))
    ... )
    >>> noisy = mechanism.draw([1.0, 2.0, 0.9], rng=1)
    >>> bool(abs(noisy[2]) <= (noisy[0] * noisy[1]) ** 0.5)
    True
    """

    name: ClassVar[str] = "bounded_covariance"
    budget: Any
    changes: Any
    variance_bounds: Any
    weights: Any = None
    inflated: bool = False
    repair: bool = True
    as_published: bool = False
    _domain: Domain = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        stated = Guarantee.from_dict(self.budget) if isinstance(self.budget, dict) else self.budget
        requirements.instance("budget", stated, Guarantee, "a guarantee such as PureDP(1.0)")
        if not any(stated.parameters().values()):
            raise InvalidParameter("budget", stated, "allows no information at all", "Raise it above 0.")
        domain = Domain.of(self.variance_bounds)
        if domain.single or any(low < 0 for low in domain.lows) or not all(map(math.isfinite, domain.highs)):
            rule = "must be one finite pair of non-negative ends per variance"
            fix = "Pass ((0, 9), (0, 20)), for example."
            raise InvalidParameter("variance_bounds", self.variance_bounds, rule, fix)
        size = len(domain.lows) * (len(domain.lows) + 1) // 2
        for name in ("inflated", "repair", "as_published"):
            requirements.instance(name, getattr(self, name), bool, f"{name}=True or False")
        if self.as_published and not isinstance(stated, PureDP):
            raise InvalidParameter("as_published", True, "liu2019 knows ε only", "Pass a PureDP budget.")
        ends = tuple(zip(domain.lows, domain.highs, strict=True))
        object.__setattr__(self, "budget", stated)
        object.__setattr__(self, "_domain", domain)
        object.__setattr__(self, "variance_bounds", ends)
        object.__setattr__(self, "changes", _positives("changes", self.changes, size))
        if self.weights is not None:
            object.__setattr__(self, "weights", _positives("weights", self.weights, size))

    @classmethod
    def calibrate(cls, guarantee: Guarantee, sensitivity: Sensitivity, **settings: Any) -> Self:
        """The mechanism that spends ``guarantee``; ``settings`` are its other fields: changes, variance_bounds, …."""
        if settings.get("changes") is None or settings.get("variance_bounds") is None:
            fix = "Pass changes and variance_bounds."
            raise InvalidParameter("changes", settings.get("changes"), "each entry's change and domain are needed", fix)
        made = cls(budget=guarantee, **settings)
        require_covered(made.changes, sensitivity)
        return made

    @property
    def dimension(self) -> int:
        """Number of variances d."""
        return len(self._domain.lows)

    @property
    def _pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        rows, columns = np.triu_indices(self.dimension, k=1)
        return rows, columns

    def _parts(self) -> tuple[Guarantee, ...]:
        shares: Any = len(self.changes) if self.weights is None else list(self.weights)
        parts: tuple[Guarantee, ...] = self.budget.split(shares)
        return parts

    def profile(self, sensitivity: Sensitivity) -> Profile:
        """The privacy curve that the budget implies; with ``as_published``, the one that really holds."""
        require_covered(self.changes, sensitivity)
        if not self.as_published or self.inflated:
            return ImpliedProfile(self.budget)
        # A covariance's domain is random; a half-line is the worst of all domains at a given scale.
        widths = (*self._domain.widths, *((None,) * len(self._pairs[0])))
        scales = _laplace_scales(self._parts(), self.changes).tolist()
        moves = [
            (Fraction(change) / Fraction(scale), None if width is None else width / Fraction(scale))
            for change, scale, width in zip(self.changes, scales, widths, strict=True)
        ]
        return ImpliedProfile(BoundedLaplaceProfile(moves).pure())

    def guarantee(self, sensitivity: Sensitivity, kind: Kind = None, *, delta: float | None = None) -> Guarantee:
        """The budget, or what follows from it."""
        return super().guarantee(sensitivity, kind or type(self.budget), delta=delta)

    def check(self, exact: Exact) -> None:
        """The value must be the vector of variances and covariances."""
        if float_truth(exact.value).shape != (len(self.changes),):
            fix = "Use the CovarianceMatrix statistic."
            raise InvalidParameter("value", "…", f"must be a vector of {len(self.changes)} entries", fix)

    def law(self, truth: Truth) -> SampledLaw:
        """The distribution of the output, known through draws."""
        high = np.asarray(self._domain.highs)
        rows, columns = self._pairs
        ends = np.sqrt(high[rows] * high[columns])
        lower = np.concatenate([self._domain.lows, -ends])
        upper = np.concatenate([high, ends])
        return SampledLaw(self, truth, (lower, upper))

    def measure(self, truth: Truth, *, rng: Rng = None) -> Array:
        """Noisy variances, then noisy covariances in the range these leave them."""
        if float_truth(truth).shape != (len(self.changes),):
            raise InvalidParameter("truth", "…", f"must be {len(self.changes)} numbers", "Use CovarianceMatrix.exact.")
        return self._measurements(truth, (), None if rng is None else generator(rng))

    def present(self, measurement: Any, *, rng: Rng = None) -> Any:
        """The nearest positive-semidefinite matrix, as a vector; nothing where it is one, or ``repair`` is off."""
        if not self.repair:
            return measurement
        vector = np.asarray(measurement, dtype=float)
        matrix = _matrix(vector, self.dimension)
        repaired = nearest_covariance(matrix, np.asarray(self._domain.lows), np.asarray(self._domain.highs))
        return measurement if repaired is matrix else _vector(repaired)

    def draw(self, truth: Truth, *, rng: Rng = None) -> Array:
        """One output."""
        return np.asarray(self.present(self.measure(truth, rng=rng)))

    def simulate(self, truth: Truth, size: int, rng: Rng) -> Array:
        """``size`` outputs for one truth, in floating point, for studies: an array of size × entries."""
        measured = self._measurements(float_truth(truth), (size,), generator(0 if rng is None else rng))
        return np.array([self.present(row) for row in measured])

    def _measurements(self, truth: Truth, front: tuple[int, ...], rng: np.random.Generator | None) -> Array:
        values = np.asarray(truth, dtype=object) if front == () else np.asarray(truth, dtype=float)
        d, parts = self.dimension, self._parts()
        low, high = self._domain.ends
        scales = self._scales(parts[:d], self.changes[:d], high - low)
        clamped = self._domain.clamp(values[:d])
        variances = np.asarray(self._law(clamped, scales, low, high).sample(front or None, rng=rng))
        rows, columns = self._pairs
        if rows.size == 0:
            return variances
        ends = np.sqrt(variances[..., rows] * variances[..., columns])
        covariances = self._covariances(values[d:], ends, parts[d:], rng)
        return np.concatenate([variances, covariances], axis=-1)

    def _covariances(
        self, truth: NDArray[Any], ends: Array, parts: Sequence[Guarantee], rng: np.random.Generator | None
    ) -> Array:
        """Covariances inside ±ends; where a variance came out as 0 there is nothing left to draw."""
        open_ = ends > 0
        reach = np.where(open_, ends, 1.0)
        # The truth may lie outside what the noisy variances allow: it is clamped first.
        clamped = np.where(open_, np.minimum(np.maximum(truth, -reach), reach), 0.0 * truth)
        scales = self._scales(parts, self.changes[self.dimension :], 2 * reach)
        drawn = self._law(clamped, scales, -reach, reach).sample(rng=rng)
        return np.where(open_, drawn, 0.0)

    def _law(self, truth: Any, scales: Array, low: Array, high: Array) -> TruncatedLaplaceLaw | ClampedLaplaceLaw:
        kind = ClampedLaplaceLaw if self.inflated else TruncatedLaplaceLaw
        return kind(truth, scales, low, high)

    @property
    def quickly_scaled(self) -> bool:
        """True where a scale is a closed form or a short search, so that many draws can be simulated."""
        return self.inflated or self.as_published or isinstance(self.budget, PureDP | ApproxDP)

    def _scales(self, parts: Sequence[Guarantee], changes: Sequence[float], widths: Array) -> Array:
        """Scales for domains of these lengths (entries along the last axis); certified as `BoundedLaplace` does."""
        if self.inflated or self.as_published:
            return np.broadcast_to(_laplace_scales(parts, changes), np.shape(widths))
        first = parts[0]
        if isinstance(first, PureDP | ApproxDP):
            epsilon = np.array([part.parameters()["epsilon"] for part in parts])
            delta = np.array([part.parameters().get("delta", 0.0) for part in parts])
            return bounded_laplace_scales(epsilon, delta, np.asarray(changes), 0.0, widths)
        spread = np.broadcast_to(widths, np.shape(widths)).reshape(-1, len(changes))
        scales = [
            [bounded_laplace_scale(p, Fraction(c), Fraction(w)) for p, c, w in zip(parts, changes, row, strict=True)]
            for row in spread.tolist()
        ]
        return np.array(scales).reshape(np.shape(widths))

    def noise_interval(self, value: Any, level: float) -> tuple[Array, Array]:
        """Intervals for the true entries behind a *measurement*, one by one.

        A covariance's interval that reaches an end of its range goes on to the public one, for the truth may have been
        clamped.
        """
        measured = np.asarray(value, dtype=float)
        d = self.dimension
        parts = self._parts()
        low, high = self._domain.ends
        rows, columns = self._pairs
        interval = clamped_laplace_interval if self.inflated else truncated_laplace_interval
        scales = self._scales(parts[:d], self.changes[:d], high - low)
        first = interval(measured[:d], level, scales, low, high, self._law(low, scales, low, high).grid)
        ends = np.sqrt(measured[rows] * measured[columns])
        reach = np.where(ends > 0, ends, 1.0)
        far = np.sqrt(high[rows] * high[columns])
        if rows.size == 0:
            return np.asarray(first[0]), np.asarray(first[1])
        scales = self._scales(parts[d:], self.changes[d:], 2 * reach)
        grid = self._law(0 * reach, scales, -reach, reach).grid
        below, above = interval(measured[d:], level, scales, -reach, reach, grid)
        below = np.where((below <= -reach) | (ends == 0), -far, below)
        above = np.where((above >= reach) | (ends == 0), far, above)
        return np.concatenate([first[0], below]), np.concatenate([first[1], above])

    def coordinate(self, measured: Array, index: int) -> tuple[float, Mechanism]:
        """One measured entry, and what protected it: a variance in its public domain, a covariance in what is left."""
        bounds = self.variance_bounds[index] if index < self.dimension else self._left(measured, index)
        part = self._parts()[index]
        change = Sensitivity(l1=self.changes[index])
        if self.inflated:
            return float(measured[index]), BoundaryInflatedLaplace.calibrate(part, change, bounds=bounds)
        width = bounds[1] - bounds[0]
        if index >= self.dimension and self.changes[index] > width:  # no change is larger than the domain
            change = Sensitivity(l1=width)
        published = "liu2019" if self.as_published else None
        inner = BoundedLaplace.calibrate(part, change, bounds=bounds, as_published=published)
        return float(measured[index]), inner

    def _left(self, measured: Array, index: int) -> tuple[float, float]:
        """The range that the released variances leave a covariance."""
        place = index - self.dimension
        j, k = (int(side[place]) for side in self._pairs)
        reach = math.sqrt(max(float(measured[j] * measured[k]), 0.0))
        if reach == 0:
            fix = "Release with bounded noise."
            raise InvalidParameter("value", 0.0, "a released variance of 0 leaves the covariance no range", fix)
        return -reach, reach

    def error(self, level: float = 0.95) -> Array:
        """The error that each measured entry stays within with probability ``level``, at the worst truth.

        A covariance is drawn in the range that the released variances leave it; the public range bounds its error.
        """
        low, high = self._domain.ends
        rows, columns = self._pairs
        lengths = np.concatenate([high - low, 2 * np.sqrt(high[rows] * high[columns])])
        scales = self._scales(self._parts(), self.changes, lengths)
        if self.inflated:
            return np.asarray(np.minimum(-scales * np.log1p(-level), lengths))
        return np.asarray(-scales * np.log1p(level * np.expm1(-lengths / scales)))


def _positives(name: str, values: Any, size: int) -> tuple[float, ...]:
    sizes = tuple(requirements.positive(name, value) for value in requirements.listed(name, values, "(0.1, 0.2, 0.1)"))
    if len(sizes) != size:
        raise InvalidParameter(name, values, f"must have {size} entries", "Give one per variance and covariance.")
    return sizes


def _laplace_scales(parts: Sequence[Guarantee], changes: Sequence[float]) -> Array:
    return np.array([laplace_scale(p, Sensitivity(l1=c)) for p, c in zip(parts, changes, strict=True)])


def _matrix(vector: Array, dimension: int) -> Array:
    matrix = np.diag(vector[:dimension])
    rows, columns = np.triu_indices(dimension, k=1)
    matrix[rows, columns] = matrix[columns, rows] = vector[dimension:]
    return matrix


def _vector(matrix: Array) -> Array:
    rows, columns = np.triu_indices(len(matrix), k=1)
    return np.concatenate([np.diag(matrix), matrix[rows, columns]])
