"""The bounded Laplace mechanism: Laplace noise conditioned on the output lying in the domain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from discreet.contract.mechanism import Mechanism
from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee, PureDP
from discreet.core.noise.location import power_of_two
from discreet.core.noise.truth import float_truth
from discreet.core.rounding import decimal, least
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.bounded.bounded_profile import (
    BoundedLaplaceProfile,
    Coordinate,
    assigned_loss,
    common_scale,
    spread_loss,
)
from discreet.mechanisms.bounded.bounded_scale import bounded_laplace_scale, published_scale
from discreet.mechanisms.bounded.domain import Domain, require_covered
from discreet.mechanisms.bounded.truncated_laplace_law import TruncatedLaplaceLaw, truncated_laplace_interval
from discreet.mechanisms.calibration import ImpliedProfile

if TYPE_CHECKING:
    from discreet.core.exact import Exact
    from discreet.core.noise.truth import Floats, Truth
    from discreet.core.privacy_profile import Profile

__all__ = ["BoundedLaplace"]

Changes = Sensitivity | Sequence[Sensitivity]


@dataclass(frozen=True, kw_only=True)
class BoundedLaplace(Mechanism):
    """Laplace noise whose distribution is supported on the domain (holohan2018; liu2019's truncated Laplace).

    A truth outside the domain is clamped into it first.

    Parameters
    ----------
    scale
        Scale b of the underlying Laplace law; one number, or one per coordinate.
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
    >>> from discreet import BoundedLaplace, PureDP, Sensitivity
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
                raise InvalidParameter(
                    "shares", shares, "go with one sensitivity per coordinate", "Pass a list of sensitivities."
                )
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

    def guarantee(
        self, sensitivity: Changes, kind: type[Guarantee] | None = None, *, delta: float | None = None
    ) -> Guarantee:
        """ε = Δ/b + log(C(l+Δ)/C(l)), rounded up, or the tightest guarantee of the kind asked for.

        Examples
        --------
        >>> from discreet import ApproxDP, BoundedLaplace, Sensitivity
        >>> mechanism, unit = BoundedLaplace(scale=0.1, bounds=(0, 1)), Sensitivity(l1=0.1)
        >>> print(mechanism.guarantee(unit), mechanism.guarantee(unit, ApproxDP, delta=0.01))
        PureDP(ε=1.48985) ApproxDP(ε=1.32416, δ=0.01)
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
            raise InvalidParameter(
                "sensitivity",
                exact.sensitivity,
                f"must say how a change spreads over {size} coordinates: spread, it loses more than in one",
                f"Pass Sensitivity(…, dimension={size}) or Sensitivity(moves=…).",
            )

    def confidence_interval(self, value: Floats, level: float) -> tuple[Floats, Floats]:
        """Exact interval for the truth in the domain; valid, and never empty, up to the very bounds."""
        low, high = self._domain.ends
        grid = self.law(np.where(np.isfinite(low), low, high)).grid
        return truncated_laplace_interval(value, level, np.asarray(self.scale), low, high, grid)

    def expected_error(self, level: float = 0.95) -> Floats:
        """How far from the truth the output stays with probability ``level``: most for a truth at an end."""
        low, high = self._domain.ends
        scale = np.asarray(self.scale)
        error = -scale * np.log1p(level * np.expm1((low - high) / scale))
        return float(error) if error.ndim == 0 else error

    def parameters(self) -> dict[str, Any]:
        """The parameters as JSON-ready data."""
        scale = list(self.scale) if isinstance(self.scale, tuple) else self.scale
        known = {
            name: None if values is None else list(values)
            for name, values in (("changes", self.changes), ("shares", self.shares))
        }
        return {"scale": scale, "bounds": self._domain.parameters(), "grid": self.grid, **known}


def _scales(scale: Any, domain: Domain) -> Any:
    try:
        single = np.ndim(scale) == 0
    except ValueError:  # rows of unlike length
        single = False
    if single:
        return requirements.positive("scale", scale)
    scales = tuple(requirements.positive("scale", one) for one in scale)
    if domain.single or len(scales) != len(domain.lows):
        raise InvalidParameter(
            "scale", scale, "must be one number, or one per pair of bounds", "Give one pair of bounds per scale."
        )
    return scales


def _positives(name: str, values: Any, domain: Domain) -> tuple[float, ...]:
    sizes = tuple(requirements.positive(name, value) for value in values)
    if domain.single or len(sizes) != len(domain.lows):
        raise InvalidParameter(name, values, "must be one per pair of bounds", "Give one pair per coordinate.")
    return sizes


def _per_coordinate(domain: Domain, size: int) -> list[tuple[float, float]]:
    pairs = list(zip(domain.lows, domain.highs, strict=True))
    return pairs * size if domain.single else pairs


def _coordinate_changes(sensitivities: Any, domain: Domain) -> list[Fraction]:
    if isinstance(sensitivities, str) or not isinstance(sensitivities, Sequence) or len(sensitivities) == 0:
        raise InvalidParameter(
            "sensitivity",
            sensitivities,
            "must be a Sensitivity or a list of them",
            "Pass Sensitivity(l1=1.0), for example.",
        )
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
        raise InvalidParameter(
            "sensitivity", sensitivity, f"does not fit {size} coordinates", "Match it with the bounds."
        )
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
    raise InvalidParameter(
        "as_published",
        as_published,
        'must be None, "holohan2018" or "liu2019"',
        "Leave it out for the certified scale.",
    )
