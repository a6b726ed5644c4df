"""Guarantees: what a release promises, as frozen values that compare, convert, split and compose.

Every number here is the decimal it prints as (see `discreet.core.numbers`), and every derived number is rounded
so that the promise still holds. Formulas and their proofs: ``docs/proofs/guarantees.md``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar, Self, TypeGuard, TypeVar, cast, final, overload

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, NoConversion, WrongType
from discreet.core.notebook import facts_html
from discreet.core.numbers import Floats, ball, decimal, down, greatest, least, normal_cdf, plain, precisely, thin, up

__all__ = [
    "Curve", "PrivacyCurve", "gaussian_delta", "gaussian_epsilon", "order_root", "order_slack", "plain", "tightest_mu",
    "type_one", "ApproxDP", "GaussianDP", "Guarantee", "PureDP", "ZeroConcentratedDP", "Profile", "is_pure",
]  # fmt: skip


# ---- Privacy curve: δ as a function of ε, which guarantees imply and profiles know exactly.


Curve = Floats


class PrivacyCurve(ABC):
    """Every (ε, δ)-DP that holds: the smallest δ for an ε, and the smallest ε for a δ; never rounded down."""

    @abstractmethod
    def _delta(self, epsilon: float) -> float:
        """The smallest δ at one ε ≥ 0, rounded up."""

    @abstractmethod
    def _epsilon(self, delta: float) -> float:
        """The smallest ε at one δ, rounded up; infinity where there is none."""

    @overload
    def delta_at(self, epsilon: float) -> float: ...
    @overload
    def delta_at(self, epsilon: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]: ...
    def delta_at(self, epsilon: ArrayLike) -> Curve:
        """The smallest δ of (ε, δ)-DP at each ε ≥ 0; of a profile, the hockey-stick divergence of the worst neighbours.

        Examples
        --------
        >>> from discreet import GaussianDP
        >>> from discreet.mechanisms.laplace import LaplaceProfile
        >>> round(GaussianDP(1.0).delta_at(1.0), 12), LaplaceProfile([1]).delta_at(0.5)
        (0.126936737507, 0.22119921692859515)
        """
        return _pointwise(epsilon, lambda e: self._delta(requirements.non_negative("epsilon", e)))

    @overload
    def epsilon_at(self, delta: float) -> float: ...
    @overload
    def epsilon_at(self, delta: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]: ...
    def epsilon_at(self, delta: ArrayLike) -> Curve:
        """The smallest ε of (ε, δ)-DP at each δ; infinity where no ε will do.

        Examples
        --------
        >>> from discreet.mechanisms.gaussian import GaussianProfile
        >>> GaussianProfile(1).epsilon_at([1e-3, 1e-6]).round(4)
        array([3.1387, 4.8866])
        """
        return _pointwise(delta, lambda d: self._epsilon(requirements.probability("delta", d)))


def _pointwise(values: ArrayLike, function: Callable[[Any], float]) -> Curve:
    """Apply a scalar function to a number or to each element of an array."""
    if isinstance(values, str) or (not isinstance(values, Sequence) and np.ndim(values) == 0):
        return float(function(values.item() if isinstance(values, np.generic | np.ndarray) else values))
    array = _numbers("values", values)
    return np.array([function(float(value)) for value in array.ravel()]).reshape(array.shape)


def _numbers(name: str, values: ArrayLike) -> NDArray[np.float64]:
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise WrongType(name, values, "must be real numbers", "Pass a number or an array of numbers.") from None


def type_one(alpha: ArrayLike) -> NDArray[np.float64]:
    """Type-I error probabilities as an array; refuses what lies outside [0, 1]."""
    array = _numbers("alpha", alpha)
    if not np.all((array >= 0) & (array <= 1)):
        raise InvalidParameter("alpha", alpha, "must lie in [0, 1]", "Pass type-I error probabilities.")
    return array


# ---- Curves: closed forms behind the guarantees, in ball arithmetic, and the starting points of certified searches
#
# Formulas and their proofs: ``docs/proofs/guarantees.md``.


def order_slack(s: arb) -> arb:
    """log of (1 − 1/a)^a / (a − 1) with a = 1 + s (canonne2020, Corollary 13)."""
    return -s * (1 / s).log1p() - s.log1p()


def order_root(increasing: Callable[[float], float]) -> float:
    """The s = e^t at which an increasing function of t vanishes. Any s is valid, so it needs no certificate."""
    from scipy.optimize import brentq

    low, high = -300.0, 350.0
    if increasing(low) >= 0:
        return math.exp(low)
    return math.exp(float(brentq(increasing, low, high, xtol=1e-14))) if increasing(high) > 0 else math.exp(high)


def gaussian_delta(mu: arb, epsilon: Fraction) -> arb:
    """δ of N(0, 1) against N(μ, 1) at ε (balle2018, Theorem 8; dong2022, Corollary 2.13)."""
    e = ball(epsilon)
    return normal_cdf(mu / 2 - e / mu) - e.exp() * normal_cdf(-mu / 2 - e / mu)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """A float solution of δ_μ(ε) = δ; only a starting point for the certified search."""
    from scipy.optimize import brentq
    from scipy.special import log_ndtr

    def excess(u: float) -> float:  # u = ε/μ keeps tiny μ in range
        first = float(log_ndtr(mu / 2 - u))
        second = mu * u + float(log_ndtr(-mu / 2 - u))
        return first + math.log(max(-math.expm1(min(second - first, 0.0)), 1e-300)) - math.log(delta)

    high = 1.0
    while excess(high) > 0:
        high *= 2
    return mu * float(brentq(excess, 0.0, high, xtol=1e-14, rtol=1e-14)) if excess(0.0) > 0 else mu


def tightest_mu(epsilon: arb) -> float:
    """The smallest μ that ε-DP implies: both trade-off curves pass through α = 1/(1 + e^ε) (lee2022 (12) inverted)."""
    target = 1 / (1 + epsilon.exp())
    guess = float((2 * target).erfcinv() * arb(8).sqrt())
    return least(lambda mu: bool(normal_cdf(-ball(decimal(mu)) / 2) <= target), guess)


# ---- Guarantees: what a release promises, as frozen values that compare, convert, split and compose.


HUGE_EPSILON = 1000.0
"""Above this a guarantee protects nobody; it is almost surely a slip (a scale passed as ε)."""

_SYMBOLS = {"epsilon": "ε", "delta": "δ", "rho": "ρ", "mu": "μ"}

Kind = TypeVar("Kind", bound="Guarantee")


def _parameter(name: str, value: Any, largest: float = HUGE_EPSILON) -> float:
    number = requirements.non_negative(name, value)
    if number > largest:
        raise InvalidParameter(name, value, f"must be at most {largest:g}; even 10 protects little", "Pass 1 or less.")
    return number


def _spoken(epsilon: float, delta: float = 0.0) -> str:
    """An (ε, δ) pair in words."""
    factor = f"{float(f'{math.exp(epsilon):.3g}'):,.7g}" if epsilon < 14 else f"e^{epsilon:.4g}"
    unless = f" except with probability at most {delta:g}" if delta else ""
    return f"one unit's data makes no outcome more than {factor} times as likely{unless}"


def _weights(parts: Any) -> list[Fraction]:
    """Shares that add up to one, as exact fractions."""
    if isinstance(parts, Sequence) and not isinstance(parts, str):
        if len(parts) == 0:
            raise InvalidParameter("weights", parts, "must not be empty", "Pass one weight per part.")
        weights = [decimal(requirements.positive("weights", weight)) for weight in parts]
        total = sum(weights, Fraction(0))
        return [weight / total for weight in weights]
    count = requirements.positive_integer("parts", parts)
    return [Fraction(1, count)] * count


@dataclass(frozen=True)
class Guarantee(PrivacyCurve):
    """The questions that every kind of guarantee can answer."""

    kind: ClassVar[str]

    @abstractmethod
    def _convert(self, kind: type[Guarantee]) -> Guarantee | None:
        """The tightest implied guarantee of another kind that needs no δ; None where nothing follows."""

    @abstractmethod
    def tradeoff(self, alpha: ArrayLike) -> Curve:
        """Lower bound on the type-II error of any test between neighbours at type-I error ``alpha``."""

    @abstractmethod
    def sentence(self) -> str:
        """The guarantee in words, for reports."""

    def _repr_html_(self) -> str:
        """For notebooks: the numbers, and what they mean."""
        return facts_html(str(self), [("in words", self.sentence())])

    def parameters(self) -> dict[str, float]:
        """The numbers, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def split(self, parts: int | Sequence[float]) -> tuple[Self, ...]:
        """Guarantees that compose to at most this one: ``parts`` equal ones, or one per weight.

        Their numbers add up (basic composition); those of `GaussianDP` in squares.
        """
        whole = [decimal(value) for value in self.parameters().values()]
        return tuple(type(self)(*(down(value * share) for value in whole)) for share in _weights(parts))

    def to(self, kind: type[Kind], *, delta: float | None = None) -> Kind:
        """The tightest known guarantee of another kind that this one implies.

        Parameters
        ----------
        kind
            `PureDP`, `ApproxDP`, `ZeroConcentratedDP` or `GaussianDP`.
        delta
            Where ``kind`` is `ApproxDP`: the δ at which to state it.

        Raises
        ------
        NoConversion
            Where nothing is implied; the text says why.
        """
        if kind not in _KINDS.values():
            raise WrongType("kind", kind, "must be a guarantee class", "Pass PureDP, ApproxDP, … itself.")
        if issubclass(kind, ApproxDP):
            return cast(Kind, self._to_approximate(delta))
        if delta is not None:
            raise InvalidParameter("delta", delta, f"has no meaning for {kind.__name__}", "Leave delta out.")
        converted = self if isinstance(self, kind) else self._convert(kind)
        if converted is None:
            raise NoConversion(f"{self} cannot be stated as {kind.__name__}: {self._why_not(kind)}.")
        return cast(Kind, converted)

    def _to_approximate(self, delta: float | None) -> ApproxDP:
        if delta is None:
            if isinstance(self, ApproxDP):
                return self
            pure = self if isinstance(self, PureDP) else self._convert(PureDP)
            if not isinstance(pure, PureDP):
                raise InvalidParameter("delta", None, f"is needed to state {self} as ApproxDP", "Pass delta=1e-6.")
            return ApproxDP(pure.epsilon, 0.0)
        epsilon = self.epsilon_at(delta)
        if math.isinf(epsilon):
            raise NoConversion(f"{self} implies no (ε, {delta:g})-DP for any ε: its own δ is larger. Raise delta.")
        return ApproxDP(epsilon, delta)

    def _why_not(self, kind: type[Guarantee]) -> str:
        if isinstance(self, ApproxDP):
            return "with probability δ anything may happen, which no parameter of that kind covers. Keep ApproxDP"
        if kind is PureDP:
            return "its privacy loss is unbounded, so no ε covers every outcome. State it as ApproxDP with a δ"
        rule = "bounds on Rényi divergences do not bound the trade-off curve by √(2ρ)"
        return f"{rule}. Calibrate the mechanism to GaussianDP directly"

    def within(self, budget: Guarantee) -> bool:
        """True where everything that satisfies this guarantee also satisfies ``budget``.

        Examples
        --------
        >>> PureDP(0.5).within(ApproxDP(0.5, 1e-6)), GaussianDP(0.1).within(PureDP(9.0))
        (True, False)
        """
        requirements.instance("budget", budget, Guarantee, "a guarantee such as PureDP(1.0)")
        if isinstance(budget, ApproxDP) and budget.delta > 0:
            return self.delta_at(budget.epsilon) <= budget.delta
        target = PureDP if isinstance(budget, ApproxDP) else type(budget)
        converted = self if isinstance(self, target) else self._convert(target)
        if converted is None:
            return False
        return next(iter(converted.parameters().values())) <= next(iter(budget.parameters().values()))

    def __le__(self, other: object) -> bool:
        return self.within(other) if isinstance(other, Guarantee) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return other.within(self) if isinstance(other, Guarantee) else NotImplemented

    def to_dict(self) -> dict[str, Any]:
        """The guarantee as JSON-ready data; `from_dict` reads it back."""
        return {"kind": self.kind, **self.parameters()}

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Guarantee:
        """Read what `to_dict` wrote; unknown kinds are refused."""
        numbers = dict(data)
        kind = _KINDS.get(str(numbers.pop("kind", None)))
        if kind is None:
            raise InvalidParameter("kind", data.get("kind"), f"must be one of {sorted(_KINDS)}", "Check the file.")
        try:
            return kind(**numbers)
        except TypeError:
            rule = f"has the wrong fields for {kind.__name__}"
            raise InvalidParameter("guarantee", data, rule, "Check the file.") from None

    def __str__(self) -> str:
        # As people write it; `repr` is what Python reads.
        return ", ".join(f"{_SYMBOLS[name]} = {value:.6g}" for name, value in self.parameters().items())


@final
@dataclass(frozen=True)
class ApproxDP(Guarantee):
    """(ε, δ)-differential privacy: P(A) ≤ e^ε·Q(A) + δ for neighbours P, Q and every event A.

    Examples
    --------
    >>> ApproxDP(1.0, 1e-6).within(ApproxDP(2.0, 1e-6))
    True
    """

    epsilon: float
    delta: float
    kind: ClassVar[str] = "approx"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _parameter("epsilon", self.epsilon))
        object.__setattr__(self, "delta", requirements.probability("delta", self.delta))

    def _delta(self, epsilon: float) -> float:
        # The worst pair that (ε, δ) allows is randomised response that fails with probability δ (kairouz2015).
        if epsilon >= self.epsilon:
            return self.delta
        with precisely():
            top = ball(decimal(self.epsilon)).exp()
            wanted = ball(decimal(epsilon)).exp()
            own = ball(decimal(self.delta))
            return min(up(own + (1 - own) * (top - wanted) / (1 + top)), 1.0)

    def _epsilon(self, delta: float) -> float:
        if delta < self.delta:
            return math.inf
        with precisely():
            top = ball(decimal(self.epsilon)).exp()
            own = ball(decimal(self.delta))
            inner = top - (ball(decimal(delta)) - own) / (1 - own) * (1 + top)
            return 0.0 if inner <= 1 else max(0.0, min(up(inner.log()), self.epsilon))

    def _convert(self, kind: type[Guarantee]) -> Guarantee | None:
        if self.delta > 0:
            return None
        pure = PureDP(self.epsilon)
        return pure if kind is PureDP else pure._convert(kind)

    def tradeoff(self, alpha: ArrayLike) -> Curve:
        """f(α) = max(0, 1 − δ − e^ε·α, e^{−ε}·(1 − δ − α))."""
        a = type_one(alpha)
        steep = math.exp(min(self.epsilon, 700.0))
        flat = math.exp(-self.epsilon)
        return plain(np.maximum(0.0, np.maximum(1 - self.delta - steep * a, flat * (1 - self.delta - a))))

    def sentence(self) -> str:
        """The guarantee in words."""
        return _spoken(self.epsilon, self.delta)


@final
@dataclass(frozen=True)
class PureDP(Guarantee):
    """ε-differential privacy: no event's probability changes by more than a factor e^ε between neighbours.

    The smaller ε, the more privacy and the more noise.

    Examples
    --------
    >>> PureDP(1.0).split(4)[0], PureDP(1.0).to(GaussianDP)
    (PureDP(epsilon=0.25), GaussianDP(mu=1.232035385344901))
    """

    epsilon: float
    kind: ClassVar[str] = "pure"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _parameter("epsilon", self.epsilon))

    def _delta(self, epsilon: float) -> float:
        return ApproxDP(self.epsilon, 0.0)._delta(epsilon)

    def _epsilon(self, delta: float) -> float:
        return ApproxDP(self.epsilon, 0.0)._epsilon(delta)

    def _convert(self, kind: type[Guarantee]) -> Guarantee | None:
        if self.epsilon == 0:
            return _nothing_spent(kind)
        with precisely():
            epsilon = ball(decimal(self.epsilon))
            if kind is ZeroConcentratedDP:
                # Randomised response is the worst ε-DP pair; its tight ρ is its KL divergence (≤ ε²/2).
                return ZeroConcentratedDP(up(epsilon * (epsilon / 2).tanh()))
            if kind is GaussianDP:
                return GaussianDP(tightest_mu(epsilon))
        return None

    def tradeoff(self, alpha: ArrayLike) -> Curve:
        """f(α) = max(0, 1 − e^ε·α, e^{−ε}·(1 − α))."""
        return ApproxDP(self.epsilon, 0.0).tradeoff(alpha)

    def sentence(self) -> str:
        """The guarantee in words."""
        return _spoken(self.epsilon)


@final
@dataclass(frozen=True)
class ZeroConcentratedDP(Guarantee):
    """ρ-zCDP: the Rényi divergence of every order a > 1 between neighbours is at most a·ρ.

    Examples
    --------
    >>> round(ZeroConcentratedDP(0.5).epsilon_at(1e-6), 4)  # the textbook ρ + 2√(ρ log 1/δ) gives 5.7565
    5.2215
    """

    rho: float
    kind: ClassVar[str] = "zero_concentrated"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", _parameter("rho", self.rho, HUGE_EPSILON**2 / 2))

    def _delta(self, epsilon: float) -> float:
        if self.rho == 0:
            return 0.0
        # canonne2020, at the best order a = 1 + s: the exponent is convex in s, and least where
        # ρ(1 + 2s) = ε + log(1 + 1/s). Every order gives a valid bound, so the root needs no certificate.
        s = order_root(lambda t: self.rho * (1 + 2 * math.exp(t)) - epsilon - math.log1p(math.exp(-t)))
        with precisely():
            order, rho = ball(s), ball(decimal(self.rho))
            return min(up((order * ((1 + order) * rho - ball(decimal(epsilon))) + order_slack(order)).exp()), 1.0)

    def _epsilon(self, delta: float) -> float:
        if self.rho == 0:
            return 0.0
        if delta == 0:
            return math.inf
        # The bound on ε is least where ρs² + log(1 + s) = log 1/δ.
        s = order_root(lambda t: self.rho * math.exp(2 * t) + math.log1p(math.exp(t)) + math.log(delta))
        with precisely():
            order, rho = ball(s), ball(decimal(self.rho))
            return max(0.0, up((1 + order) * rho + (order_slack(order) - ball(decimal(delta)).log()) / order))

    def _convert(self, kind: type[Guarantee]) -> Guarantee | None:
        return _nothing_spent(kind) if self.rho == 0 else None

    def tradeoff(self, alpha: ArrayLike) -> Curve:
        """The best (ε, δ) trade-off over a range of ε: a valid lower bound, as each of them is one."""
        a = type_one(alpha)
        spread = self.rho + 12 * math.sqrt(self.rho)
        pairs = [(e, self._delta(e)) for e in np.linspace(0.0, min(spread, HUGE_EPSILON), 128).tolist()]
        curves = [ApproxDP(epsilon, delta).tradeoff(a) for epsilon, delta in pairs if delta < 1]
        return plain(np.maximum.reduce([np.asarray(curve) for curve in curves] + [np.zeros_like(a)]))

    def sentence(self) -> str:
        """The guarantee in words."""
        return f"{_spoken(self.epsilon_at(1e-6), 1e-6)}, among other pairs that ρ = {self.rho:g} implies"


@final
@dataclass(frozen=True)
class GaussianDP(Guarantee):
    """μ-GDP: telling neighbours apart is at least as hard as telling N(0, 1) from N(μ, 1).

    Examples
    --------
    >>> GaussianDP(1.0).split(4)[0], GaussianDP(1.0).to(ZeroConcentratedDP)
    (GaussianDP(mu=0.5), ZeroConcentratedDP(rho=0.5))
    """

    mu: float
    kind: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", _parameter("mu", self.mu))

    def _delta(self, epsilon: float) -> float:
        if self.mu == 0:
            return 0.0
        if epsilon > 1e6 * max(1.0, self.mu) ** 2:
            return math.ulp(0.0)  # δ ≤ Φ(μ/2 − ε/μ) is far below the smallest float
        return min(up(thin(lambda: gaussian_delta(ball(decimal(self.mu)), decimal(epsilon)))), 1.0)

    def _epsilon(self, delta: float) -> float:
        if self._delta(0.0) <= delta:
            return 0.0
        if delta == 0:
            return math.inf
        return least(lambda epsilon: self._delta(epsilon) <= delta, gaussian_epsilon(self.mu, delta))

    def _convert(self, kind: type[Guarantee]) -> Guarantee | None:
        if kind is ZeroConcentratedDP:
            return ZeroConcentratedDP(up(decimal(self.mu) ** 2 / 2))
        return _nothing_spent(kind) if self.mu == 0 else None

    def split(self, parts: int | Sequence[float]) -> tuple[GaussianDP, ...]:
        """μ² adds."""
        shares = _weights(parts)
        values = {share: self._share(share) for share in set(shares)}
        return tuple(GaussianDP(values[share]) for share in shares)

    def _share(self, share: Fraction) -> float:
        """The largest μ whose square is at most that share of this one's."""
        square = decimal(self.mu) ** 2 * share
        guess = self.mu * math.sqrt(share)
        return greatest(lambda mu: decimal(mu) ** 2 <= square, guess) if self.mu > 0 else 0.0

    def tradeoff(self, alpha: ArrayLike) -> Curve:
        """G_μ(α) = Φ(Φ⁻¹(1 − α) − μ)."""
        from scipy.special import ndtr, ndtri

        a = type_one(alpha)
        with np.errstate(divide="ignore"):
            return plain(np.asarray(ndtr(-ndtri(a) - self.mu)))

    def sentence(self) -> str:
        """The guarantee in words."""
        return f"one unit's data is as hard to detect as a shift of a standard normal by {self.mu:g}"


def is_pure(guarantee: Guarantee) -> TypeGuard[PureDP | ApproxDP]:
    """True where the guarantee is ε alone, which normal noise never meets."""
    return isinstance(guarantee, PureDP) or (isinstance(guarantee, ApproxDP) and guarantee.delta == 0)


def _nothing_spent(kind: type[Guarantee]) -> Guarantee:
    """The guarantee of a constant, which satisfies every kind with parameters zero."""
    return kind(*(0.0 for _ in fields(kind)))


_KINDS: dict[str, type[Guarantee]] = {kind.kind: kind for kind in (PureDP, ApproxDP, ZeroConcentratedDP, GaussianDP)}


# ---- Profile: the privacy curve that a mechanism states, whoever wrote it, and that the door compares with a claim.


class Profile(PrivacyCurve):
    """The exact privacy curve of a mechanism for one sensitivity; what is reported is never rounded down.

    A profile knows more than any single guarantee: every (ε, δ) pair, the trade-off function, and the tightest
    parameter of each kind of guarantee.
    """

    @abstractmethod
    def pure(self) -> PureDP:
        """The tightest ε-DP guarantee; raises `NoConversion` where the privacy loss is unbounded."""

    @abstractmethod
    def concentrated(self) -> ZeroConcentratedDP:
        """The tightest ρ-zCDP guarantee."""

    @abstractmethod
    def gaussian(self) -> GaussianDP:
        """The tightest μ-GDP guarantee."""

    @abstractmethod
    def tradeoff(self, alpha: ArrayLike) -> Curve:
        """The smallest type-II error of any test between the worst neighbours at type-I error ``alpha``."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The profile as JSON-ready data."""

    def guarantee(self, kind: type[Guarantee], *, delta: float | None = None) -> Guarantee:
        """The tightest guarantee of one kind; `ApproxDP` needs the δ at which to state it."""
        if kind is ApproxDP:
            if delta is None:
                raise InvalidParameter("delta", None, "is needed for ApproxDP", "Pass delta=1e-6.")
            return ApproxDP(self.epsilon_at(delta), delta)
        if delta is not None:
            raise InvalidParameter("delta", delta, "only goes with ApproxDP", "Leave delta out.")
        ways: dict[type[Guarantee], Callable[[], Guarantee]] = {
            PureDP: self.pure,
            ZeroConcentratedDP: self.concentrated,
            GaussianDP: self.gaussian,
        }
        if kind not in ways:
            raise WrongType("kind", kind, "must be a guarantee class", "Pass PureDP, ApproxDP, … itself.")
        return ways[kind]()

    def within(self, budget: Guarantee) -> bool:
        """True where everything with this profile satisfies ``budget``: checked before every release."""
        if isinstance(budget, ApproxDP) and budget.delta > 0:
            return self.delta_at(budget.epsilon) <= budget.delta
        try:
            return self.guarantee(PureDP if isinstance(budget, ApproxDP) else type(budget)).within(budget)
        except NoConversion:
            return False
