"""Profiles: the exact privacy curve of a mechanism for one sensitivity.

A profile knows more than any single guarantee: every (ε, δ) pair, the trade-off function, and the tightest
parameter of each kind of guarantee. Proofs: ``docs/proofs/laplace.md``, ``gaussian.md``, ``laplace_gdp.md``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.curves import Curve, gaussian_delta, plain, type_one
from discreet.core.errors import InvalidParameter, NoConversion, WrongType
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.privacy_curve import PrivacyCurve
from discreet.core.rounding import ball, decimal, least, normal_cdf, precisely, thin, up
from discreet.mechanisms.envelope import dominates, first_certified, gaussian_parameter, supremum
from discreet.mechanisms.laplace_curve import LaplaceCurve, laplace_rho

if TYPE_CHECKING:
    from discreet.mechanisms.loss_distribution import PrivacyLoss

__all__ = ["GaussianProfile", "LaplaceProfile", "Profile"]

_KNOTS = 128


class Profile(PrivacyCurve):
    """The exact privacy curve of a mechanism; what is reported is never rounded down."""

    @abstractmethod
    def gaussian(self) -> GaussianDP:
        """The tightest μ-GDP guarantee."""

    @abstractmethod
    def pure(self) -> PureDP:
        """The tightest ε-DP guarantee; raises `NoConversion` where the privacy loss is unbounded."""

    @abstractmethod
    def concentrated(self) -> ZeroConcentratedDP:
        """The tightest ρ-zCDP guarantee."""

    @abstractmethod
    def _reach(self) -> float:
        """An ε beyond which the curve no longer matters for trade-offs."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The profile as JSON-ready data."""

    def losses(self) -> list[tuple[PrivacyLoss, int]]:
        """Independent privacy losses that add up to this profile's, each with its number of repetitions.

        By default one loss on a few hundred points, made from the curve alone; it dominates the true one.
        """
        from discreet.mechanisms.loss_distribution import curve_loss

        return [(curve_loss(self._delta, self._reach()), 1)]

    def tradeoff(self, alpha: ArrayLike) -> Curve:
        """The smallest type-II error of any test between the worst neighbours at type-I error ``alpha``.

        Examples
        --------
        >>> LaplaceProfile([1]).tradeoff([0.0, 0.25, 1.0]).round(4)
        array([1.    , 0.3679, 0.    ])
        """
        return self._tradeoff(type_one(alpha))

    def guarantee(self, kind: type[Guarantee], *, delta: float | None = None) -> Guarantee:
        """The tightest guarantee of one kind; `ApproxDP` needs the δ at which to state it.

        Examples
        --------
        >>> print(LaplaceProfile([1]).guarantee(ApproxDP, delta=0.01))
        ApproxDP(ε=0.979899, δ=0.01)
        """
        if kind is ApproxDP:
            if delta is None:
                raise InvalidParameter("delta", None, "is needed for ApproxDP", "Pass delta=1e-6.")
            return ApproxDP(self.epsilon_at(delta), delta)
        if delta is not None:
            raise InvalidParameter("delta", delta, "only goes with ApproxDP", "Leave it out.")
        ways: dict[type[Guarantee], Callable[[], Guarantee]] = {
            PureDP: self.pure,
            ZeroConcentratedDP: self.concentrated,
            GaussianDP: self.gaussian,
        }
        if kind not in ways:
            raise WrongType("kind", kind, "must be a guarantee class", "Pass PureDP, ApproxDP, … itself.")
        return ways[kind]()

    def within(self, budget: Guarantee) -> bool:
        """Whether whatever has this profile satisfies ``budget``.

        Examples
        --------
        >>> LaplaceProfile([1]).within(ApproxDP(0.98, 0.01)), GaussianProfile(1).within(PureDP(9.0))
        (True, False)
        """
        if isinstance(budget, ApproxDP) and budget.delta > 0:
            return self.delta_at(budget.epsilon) <= budget.delta
        try:
            return self.guarantee(PureDP if isinstance(budget, ApproxDP) else type(budget)).within(budget)
        except NoConversion:
            return False

    def _tradeoff(self, alpha: NDArray[np.float64]) -> Curve:
        # f(α) is the largest 1 − δ(ε) − e^ε·α and e^{−ε}·(1 − δ(ε) − α) over ε ≥ 0: each is a valid lower
        # bound (dong2022, Proposition 2.12), so the search over ε needs no certificate.
        half = np.linspace(0.0, self._reach(), _KNOTS)
        kept = 1 - np.array([self._delta(float(knot)) for knot in half])
        knots, kept = np.concatenate([-half[:0:-1], half]), np.concatenate([kept[:0:-1], kept])
        return plain(np.array([self._power(a, knots, kept) for a in alpha.ravel().tolist()]).reshape(alpha.shape))

    def _power(self, alpha: float, knots: NDArray[np.float64], kept: NDArray[np.float64]) -> float:
        from scipy.optimize import minimize_scalar

        def height(epsilon: float) -> float:  # below 0: the second of the two bounds, at −ε
            rest = 1 - self._delta(abs(epsilon))
            return rest - math.exp(epsilon) * alpha if epsilon >= 0 else math.exp(epsilon) * (rest - alpha)

        heights = np.where(knots >= 0, kept - np.exp(knots) * alpha, np.exp(np.minimum(knots, 0.0)) * (kept - alpha))
        best = int(np.argmax(heights))
        window = (float(knots[max(best - 1, 0)]), float(knots[min(best + 1, len(knots) - 1)]))
        found = minimize_scalar(lambda e: -height(e), bounds=window, method="bounded", options={"xatol": 1e-9})
        return max(0.0, height(float(knots[best])), -float(found.fun))


def _exact(name: str, value: Any) -> Fraction:
    """A positive parameter as an exact fraction; a float counts as its binary value."""
    if isinstance(value, float | np.floating):
        return Fraction(requirements.positive(name, float(value)))
    number = requirements.rational(name, value)
    requirements.positive(name, float(number))
    return number


class LaplaceProfile(Profile):
    """Laplace noise of one scale on every coordinate; the worst neighbour moves coordinate i by t_i scales.

    Parameters
    ----------
    shifts
        The t_i = Δ_i / b of the coordinates that move; fractions stay exact. Where only the ℓ₁ sensitivity is
        known, the single shift Δ₁ / b is the worst case in any dimension (lee2022, Conjecture 12, proved in
        ``docs/proofs/laplace_gdp.md``).

    Notes
    -----
    **Guarantee.** With T = Σ t_i the curve is exactly T-DP, Σ (t_i + e^{−t_i} − 1)-zCDP and, for one shift t,
    μ-GDP with μ = −2Φ⁻¹(e^{−t/2}/2) (lee2022, Proposition 9); all of them tight. For more than about a dozen
    *different* shifts the smallest are merged, which gives an upper bound.

    Examples
    --------
    >>> table = LaplaceProfile([0.5, 0.5])  # a record moves between two cells, scale 2
    >>> print(table.pure(), table.gaussian())
    PureDP(ε=1) GaussianDP(μ=0.707552)
    >>> round(LaplaceProfile([1]).gaussian().mu, 5)  # the same ℓ₁ sensitivity in one cell
    1.03006
    """

    def __init__(self, shifts: Sequence[float | Fraction]) -> None:
        requirements.instance("shifts", shifts, (list, tuple, np.ndarray), "shifts=[1.0]")
        exact = tuple(sorted((_exact("shifts", shift) for shift in shifts), reverse=True))
        if not exact:
            raise InvalidParameter("shifts", shifts, "must not be empty", "Pass one shift per moved coordinate.")
        self.shifts = exact

    @cached_property
    def _curve(self) -> LaplaceCurve:
        return LaplaceCurve(self.shifts)

    def _delta(self, epsilon: float) -> float:
        exact = decimal(epsilon)
        if exact >= self._curve.total:
            return 0.0
        return min(up(thin(lambda: self._curve.delta(exact))), 1.0)

    def _epsilon(self, delta: float) -> float:
        if delta == 0:
            return up(self._curve.total)
        if self._delta(0.0) <= delta:
            return 0.0
        with precisely():
            # Exact for one shift; for several, the curve lies below that of the merged one.
            guess = float(ball(self._curve.total) + 2 * (1 - ball(decimal(delta))).log())
        return least(lambda epsilon: self._delta(epsilon) <= delta, max(guess, 1e-9))

    def gaussian(self) -> GaussianDP:
        """The tightest μ: closed form for one shift, a certified search for several."""
        if len(self.shifts) == 1:
            return GaussianDP(_single_mu(self.shifts[0]))
        return GaussianDP(_covering_mu(self._curve))

    def pure(self) -> PureDP:
        return PureDP(up(self._curve.total))

    def concentrated(self) -> ZeroConcentratedDP:
        return ZeroConcentratedDP(up(thin(lambda: laplace_rho(self.shifts))))

    def losses(self) -> list[tuple[PrivacyLoss, int]]:
        from discreet.mechanisms.loss_distribution import laplace_loss

        return [(laplace_loss(shift), times) for shift, times in Counter(self.shifts).items()]

    def _reach(self) -> float:
        return min(float(self._curve.total), 700.0)

    def _tradeoff(self, alpha: NDArray[np.float64]) -> Curve:
        if len(self.shifts) > 1:
            return super()._tradeoff(alpha)
        # lee2022, proof of Proposition 9: T(Lap(0, 1), Lap(t, 1)).
        t = float(self.shifts[0])
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            left, middle, right = 1 - np.exp(t) * alpha, np.exp(-t) / (4 * alpha), np.exp(-t) * (1 - alpha)
        return plain(np.where(alpha >= 0.5, right, np.where(alpha >= math.exp(-t) / 2, middle, left)))

    def to_dict(self) -> dict[str, Any]:
        return {"profile": "laplace", "shifts": [str(shift) for shift in self.shifts]}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LaplaceProfile) and self.shifts == other.shifts

    def __hash__(self) -> int:
        return hash(self.shifts)

    def __repr__(self) -> str:
        return f"LaplaceProfile([{', '.join(str(shift) for shift in self.shifts)}])"

    def __str__(self) -> str:
        shown = ", ".join(f"{float(shift):.6g}" for shift in self.shifts[:4])
        more = f", … ({len(self.shifts)} in all)" if len(self.shifts) > 4 else ""
        return f"Laplace noise, shifted by {shown}{more} scales"


def _single_mu(shift: Fraction) -> float:
    """The smallest μ with Φ(−μ/2) ≤ e^{−t/2}/2 (lee2022, Proposition 9)."""
    with precisely():
        target = (-ball(shift) / 2).exp() / 2
        guess = float((2 * target).erfcinv() * arb(8).sqrt())
        return least(lambda mu: bool(normal_cdf(-ball(decimal(mu)) / 2) <= target), guess)


def _covering_mu(curve: LaplaceCurve) -> float:
    """The smallest μ whose Gaussian curve lies above ``curve`` everywhere, up to about 1e-12 of it."""
    with precisely():

        def mu_at(epsilon: float) -> float:
            return gaussian_parameter(epsilon, float(curve.delta(Fraction(epsilon))))

        guess = supremum(mu_at, 0.0, float(curve.total) * 0.999)
        # A scale that was calibrated to 0.3 must report 0.3, not the next float: try the short decimal first.
        short = float(f"{guess:.12g}")
        if short > 0 and dominates(ball(decimal(short)), curve):
            return short
    return first_certified(guess, lambda mu: dominates(ball(decimal(mu)), curve))


class GaussianProfile(Profile):
    """Gaussian noise: telling the worst neighbours apart is telling N(0, 1) from N(μ, 1).

    Parameters
    ----------
    mu
        Δ₂ / σ; fractions stay exact.

    Notes
    -----
    **Guarantee.** Exactly μ-GDP and μ²/2-zCDP (lee2022, Theorem 1); never ε-DP.

    Examples
    --------
    >>> print(GaussianProfile(Fraction(1, 2)).gaussian(), GaussianProfile(1).concentrated())
    GaussianDP(μ=0.5) ZeroConcentratedDP(ρ=0.5)
    """

    def __init__(self, mu: float | Fraction) -> None:
        self.mu = _exact("mu", mu)

    def _delta(self, epsilon: float) -> float:
        return min(up(thin(lambda: gaussian_delta(ball(self.mu), decimal(epsilon)))), 1.0)

    def _epsilon(self, delta: float) -> float:
        if self._delta(0.0) <= delta:
            return 0.0
        if delta == 0:
            return math.inf
        guess = self.gaussian().epsilon_at(delta)
        return least(lambda epsilon: self._delta(epsilon) <= delta, guess)

    def gaussian(self) -> GaussianDP:
        return GaussianDP(up(self.mu))

    def pure(self) -> PureDP:
        raise NoConversion(
            "Gaussian noise has no PureDP guarantee: its privacy loss is unbounded. "
            "Use Laplace noise, or state an ApproxDP guarantee with epsilon_at(delta)."
        )

    def concentrated(self) -> ZeroConcentratedDP:
        return ZeroConcentratedDP(up(self.mu**2 / 2))

    def losses(self) -> list[tuple[PrivacyLoss, int]]:
        from discreet.mechanisms.loss_distribution import gaussian_loss

        return [(gaussian_loss(self.mu**2), 1)]

    def _reach(self) -> float:
        mu = float(self.mu)
        return min(mu**2 / 2 + 9 * mu, 700.0)

    def _tradeoff(self, alpha: NDArray[np.float64]) -> Curve:
        return GaussianDP(up(self.mu)).tradeoff(alpha)

    def to_dict(self) -> dict[str, Any]:
        return {"profile": "gaussian", "mu": str(self.mu)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GaussianProfile) and self.mu == other.mu

    def __hash__(self) -> int:
        return hash(self.mu)

    def __repr__(self) -> str:
        return f"GaussianProfile({self.mu})"

    def __str__(self) -> str:
        return f"Gaussian noise, shifted by {float(self.mu):.6g} standard deviations"
