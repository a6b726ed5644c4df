"""The contract: what a profile and a mechanism must be able to answer, whoever wrote them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from discreet.core.errors import InvalidParameter, NoConversion, WrongType
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.privacy_curve import Curve, PrivacyCurve
from discreet.core.registry import Registry
from discreet.core.sensitivity import Sensitivity

if TYPE_CHECKING:
    from discreet.core.exact import Exact
    from discreet.core.noise.law import Floats, Law, Truth

__all__ = ["Mechanism", "Profile", "mechanism_from_dict"]

REGISTRY: Registry[Mechanism] = Registry("mechanism", "discreet.mechanisms", "discreet.omission")


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
        """Whether whatever has this profile satisfies ``budget``: what the door asks before every release."""
        if isinstance(budget, ApproxDP) and budget.delta > 0:
            return self.delta_at(budget.epsilon) <= budget.delta
        try:
            return self.guarantee(PureDP if isinstance(budget, ApproxDP) else type(budget)).within(budget)
        except NoConversion:
            return False


class Mechanism(ABC):
    """Frozen parameters, a law for every truth, and a proof for every sensitivity.

    A subclass is a frozen dataclass with a ``name``; it registers itself under that name so that releases and
    ledgers can be read back.
    """

    name: ClassVar[str]
    own_kind: ClassVar[type[Guarantee]] = PureDP
    """The kind of guarantee that says most about the mechanism."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        REGISTRY.add(cls)

    @classmethod
    @abstractmethod
    def calibrate(cls, guarantee: Guarantee, sensitivity: Sensitivity) -> Self:
        """The mechanism with the least noise that meets ``guarantee`` for ``sensitivity``."""

    @abstractmethod
    def law(self, truth: Truth) -> Law:
        """The exact distribution of the output given the truth."""

    @abstractmethod
    def profile(self, sensitivity: Sensitivity) -> Profile:
        """The exact privacy curve."""

    def guarantee(
        self, sensitivity: Sensitivity, kind: type[Guarantee] | None = None, *, delta: float | None = None
    ) -> Guarantee:
        """What holds for ``sensitivity``, in the mechanism's own kind or in the one asked for: what ledgers charge."""
        return self.profile(sensitivity).guarantee(kind or self.own_kind, delta=delta)

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """The parameters as JSON-ready data."""

    def check(self, exact: Exact) -> None:  # noqa: B027  (most mechanisms protect any value)
        """Refuse a value that this mechanism must not protect; called before anything is spent."""

    def confidence_interval(self, value: Floats, level: float) -> tuple[Floats, Floats]:
        """Interval for the truth behind a released value, from the noise alone.

        The default holds for laws that only move with the truth; half a grid cell covers the rounding.
        """
        law = self.law(np.zeros(np.shape(value)))
        tail = (1 - level) / 2
        half_cell = np.asarray(getattr(law, "grid", 0.0)) / 2
        low = value - law.quantile(1 - tail) - half_cell
        high = value - law.quantile(tail) + half_cell
        return low, high

    def expected_error(self, level: float = 0.95) -> Floats:
        """How far from the truth the output stays with probability ``level``, for the least favourable truth."""
        return self.law(0.0).quantile((1 + level) / 2)

    def draw(self, truth: Truth, *, rng: int | np.random.Generator | None = None) -> Floats:
        """One output. Mechanisms with several steps or with post-processing override this."""
        return self.law(truth).sample(rng=rng)

    def measure(self, truth: Truth, *, rng: int | np.random.Generator | None = None) -> Floats:
        """The noisy measurement behind an output; a mechanism that post-processes it says so in `present`."""
        return self.draw(truth, rng=rng)

    def present(self, measurement: Floats, *, rng: int | np.random.Generator | None = None) -> Floats:
        """The output for a measurement: post-processing, which reads no data. By default nothing is done."""
        return measurement

    def to_dict(self) -> dict[str, Any]:
        """Name and parameters; `mechanism_from_dict` reads them back."""
        return {"name": self.name, **self.parameters()}


def mechanism_from_dict(data: dict[str, Any]) -> Mechanism:
    """Read what `Mechanism.to_dict` wrote; unknown names are refused."""
    return REGISTRY.read(data)
