"""Guarantees: what a release promises, as frozen values that compare, convert, split and compose.

Every number here is the decimal it prints as (see `discreet.core.rounding`), and every derived number is rounded
so that the promise still holds. Formulas and their proofs: ``docs/proofs/guarantees.md``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar, Self, TypeVar, cast, final

import numpy as np
from numpy.typing import ArrayLike

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, NoConversion, WrongType
from discreet.core.privacy_curve import (
    Curve,
    PrivacyCurve,
    gaussian_delta,
    gaussian_epsilon,
    order_root,
    order_slack,
    plain,
    tightest_mu,
    type_one,
)
from discreet.core.rounding import ball, decimal, down, greatest, least, precisely, thin, up

__all__ = ["ApproxDP", "GaussianDP", "Guarantee", "PureDP", "ZeroConcentratedDP"]

HUGE_EPSILON = 1000.0
"""Above this a guarantee protects nobody; it is almost surely a slip (a scale passed as ε)."""

_SYMBOLS = {"epsilon": "ε", "delta": "δ", "rho": "ρ", "mu": "μ"}

Kind = TypeVar("Kind", bound="Guarantee")


def _parameter(name: str, value: Any, largest: float = HUGE_EPSILON) -> float:
    number = requirements.non_negative(name, value)
    if number > largest:
        raise InvalidParameter(name, value, f"must be at most {largest:g}: beyond it nobody is protected", "Lower it.")
    return number


def _spoken(epsilon: float, delta: float = 0.0) -> str:
    """An (ε, δ) pair in words."""
    factor = f"{math.exp(epsilon):.3g}" if epsilon < 700 else f"e^{epsilon:.4g}"  # which no float holds
    unless = f" except with probability at most {delta:g}" if delta else ""
    return f"no outcome becomes more than {factor} times as likely by one unit's data{unless}"


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
    """What every kind of guarantee can answer."""

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
        """Whether everything that satisfies this guarantee also satisfies ``budget``.

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
        shown = ", ".join(f"{_SYMBOLS[name]}={value:.6g}" for name, value in self.parameters().items())
        return f"{type(self).__name__}({shown})"


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
            top, wanted = ball(decimal(self.epsilon)).exp(), ball(decimal(epsilon)).exp()
            own = ball(decimal(self.delta))
            return min(up(own + (1 - own) * (top - wanted) / (1 + top)), 1.0)

    def _epsilon(self, delta: float) -> float:
        if delta < self.delta:
            return math.inf
        with precisely():
            top, own = ball(decimal(self.epsilon)).exp(), ball(decimal(self.delta))
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
        steep, flat = math.exp(min(self.epsilon, 700.0)), math.exp(-self.epsilon)
        return plain(np.maximum(0.0, np.maximum(1 - self.delta - steep * a, flat * (1 - self.delta - a))))

    def sentence(self) -> str:
        """The guarantee in words."""
        return _spoken(self.epsilon, self.delta)


@final
@dataclass(frozen=True)
class PureDP(Guarantee):
    """ε-differential privacy: no event's probability changes by more than a factor e^ε between neighbours.

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


def _nothing_spent(kind: type[Guarantee]) -> Guarantee:
    """The guarantee of a constant, which satisfies every kind with parameters zero."""
    return kind(*(0.0 for _ in fields(kind)))


_KINDS: dict[str, type[Guarantee]] = {kind.kind: kind for kind in (PureDP, ApproxDP, ZeroConcentratedDP, GaussianDP)}
