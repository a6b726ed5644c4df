"""Mechanism: how a value is protected, with everything that plans, inference and stored releases ask of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np

from discreet.contract.registry import Registry
from discreet.core import requirements
from discreet.core.door import Step
from discreet.core.errors import NoConversion
from discreet.core.guarantee import ApproxDP, Guarantee, PureDP
from discreet.core.ledger import Account
from discreet.core.privacy_profile import Profile
from discreet.core.sensitivity import Sensitivity

if TYPE_CHECKING:
    from discreet.contract.law import Law
    from discreet.core.exact import Exact
    from discreet.core.noise.truth import Floats, Truth

__all__ = ["Mechanism", "charged_guarantee", "mechanism_from_dict", "mechanism_of"]

REGISTRY: Registry[Mechanism] = Registry("mechanism", "discreet.mechanisms", "discreet.omission")


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


def mechanism_of(step: Step) -> Mechanism:
    """The mechanism of a step, as whoever made the step knows it: the door asks less of it."""
    return cast(Mechanism, step.mechanism)


def charged_guarantee(
    mechanism: Mechanism, sensitivity: Sensitivity, ledger: Account | None, guarantee: Guarantee | None
) -> Guarantee | None:
    """The guarantee to charge: the caller's, once verified; else the tightest of the ledger's kind.

    The door verifies it in any case.
    """
    if guarantee is None:
        kind = None if ledger is None else ledger.currency
        try:
            return mechanism.guarantee(sensitivity, None if kind is ApproxDP else kind)
        except NoConversion as refusal:
            counts = f"The ledger counts in {kind.__name__}: ask with that kind of guarantee. " if kind else ""
            raise NoConversion(f"{refusal} {counts}Nothing was spent.") from None
    requirements.instance("guarantee", guarantee, Guarantee, "a guarantee such as PureDP(1.0)")
    Step(mechanism, sensitivity, guarantee).verify()
    return guarantee
