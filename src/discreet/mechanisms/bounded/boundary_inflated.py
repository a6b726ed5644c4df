"""The boundary-inflated Laplace mechanism: Laplace noise, clamped to the domain."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from discreet.contract.mechanism import Mechanism
from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.noise.location import power_of_two
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.bounded.domain import Domain
from discreet.mechanisms.bounded.truncated_laplace_law import ClampedLaplaceLaw, clamped_laplace_interval
from discreet.mechanisms.laplace import LaplaceProfile, laplace_scale

if TYPE_CHECKING:
    from discreet.core.exact import Exact
    from discreet.core.noise.truth import Floats, Truth

__all__ = ["BoundaryInflatedLaplace"]


@dataclass(frozen=True, kw_only=True)
class BoundaryInflatedLaplace(Mechanism):
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
    >>> from discreet import BoundaryInflatedLaplace, PureDP, Sensitivity
    >>> mechanism = BoundaryInflatedLaplace.calibrate(PureDP(1.0), Sensitivity(l1=0.1), bounds=(0, 1))
    >>> mechanism.scale
    0.1
    >>> law = mechanism.law(0.2)
    >>> round(law.bias, 6), round(law.mse, 6)
    (0.00675, 0.01591)
    """

    name: ClassVar[str] = "boundary_inflated_laplace"
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
    def calibrate(
        cls, guarantee: Guarantee, sensitivity: Sensitivity, *, bounds: Any = None, grid: float | None = None
    ) -> Self:
        """The least noise that meets ``guarantee``: the scale of the Laplace mechanism."""
        if bounds is None:
            raise InvalidParameter("bounds", None, "the public domain is needed", "Pass bounds=(low, high).")
        moves = _moves(sensitivity, Domain.of(bounds))
        return cls(scale=laplace_scale(guarantee, Sensitivity(moves=moves)), bounds=bounds, grid=grid)

    def law(self, truth: Truth) -> ClampedLaplaceLaw:
        """The exact distribution of the output; a truth outside the domain counts as its nearest point."""
        low, high = self._domain.ends
        return ClampedLaplaceLaw(self._domain.clamp(truth), self.scale, low, high, grid=self.grid)

    def profile(self, sensitivity: Sensitivity) -> LaplaceProfile:
        """The exact privacy curve: that of Laplace noise."""
        moves = _moves(sensitivity, self._domain)
        return LaplaceProfile([Fraction(move) / Fraction(self.scale) for move in moves])

    def check(self, exact: Exact) -> None:
        """The domain must fit the value."""
        self._domain.require_size(exact.value)

    def confidence_interval(self, value: Floats, level: float) -> tuple[Floats, Floats]:
        """Exact interval for the truth in the domain: value ± b·ln(1/(1 − level)), cut to it."""
        low, high = self._domain.ends
        grid = self.law(np.where(np.isfinite(low), low, high)).grid
        return clamped_laplace_interval(value, level, np.asarray(self.scale), low, high, grid)

    def expected_error(self, level: float = 0.95) -> Floats:
        """How far from the truth the output stays with probability ``level``; never beyond the domain's length."""
        low, high = self._domain.ends
        error = np.minimum(-self.scale * np.log1p(-level), high - low)
        return float(error) if error.ndim == 0 else np.asarray(error)

    def parameters(self) -> dict[str, Any]:
        """The parameters as JSON-ready data."""
        return {"scale": self.scale, "bounds": self._domain.parameters(), "grid": self.grid}


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
