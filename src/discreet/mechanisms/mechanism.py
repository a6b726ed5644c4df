"""Mechanism: how a value is protected, with everything that plans, inference and stored releases ask of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from pkgutil import walk_packages
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from discreet.core import requirements
from discreet.core.door import Step
from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.guarantee import ApproxDP, Guarantee, Profile, PureDP
from discreet.core.ledger import Account
from discreet.core.noise.truth import Floats
from discreet.core.sensitivity import Sensitivity

if TYPE_CHECKING:
    from discreet.core.exact import Exact
    from discreet.core.noise.truth import Truth

__all__ = ["Law", "Mechanism", "Registry", "charged_guarantee", "mechanism_from_dict", "mechanism_of"]


# ---- Law: the exact conditional distribution of a mechanism's output given the truth


class Law(ABC):
    """A distribution, or an array of independent ones, with everything inference needs.

    Array arguments broadcast against the shape of the location.
    """

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of one draw."""

    @property
    @abstractmethod
    def support(self) -> tuple[Floats, Floats]:
        """Smallest interval that holds all outcomes."""

    @property
    @abstractmethod
    def mean(self) -> Floats:
        """Expected output."""

    @property
    @abstractmethod
    def variance(self) -> Floats:
        """Variance of the output."""

    @property
    @abstractmethod
    def bias(self) -> Floats:
        """Expected output minus truth."""

    @property
    def mse(self) -> Floats:
        """Mean squared error: variance plus squared bias."""
        return self.variance + self.bias**2

    @abstractmethod
    def pdf(self, x: ArrayLike) -> Floats:
        """Density at ``x``."""

    @abstractmethod
    def cdf(self, x: ArrayLike) -> Floats:
        """Probability of an output of at most ``x``."""

    @abstractmethod
    def quantile(self, q: ArrayLike) -> Floats:
        """The value below which the output falls with probability ``q``."""

    @abstractmethod
    def sample(
        self, size: int | tuple[int, ...] | None = None, *, rng: int | np.random.Generator | None = None
    ) -> Floats:
        """Draw outputs: one per location, or ``size`` of them in front.

        ``rng=None`` draws exactly, from operating-system entropy. A seed or a numpy generator draws the same
        law in floating point, for simulations only.
        """


# ---- Registry: classes by the name under which releases and ledgers store them


Kind = TypeVar("Kind")


class Registry(Generic[Kind]):
    """Classes of one kind: those of some packages, which are imported when first asked for, and those that users write.

    Parameters
    ----------
    kind
        What they are, for refusals.
    packages
        Where the library keeps its own, one module each.
    """

    def __init__(self, kind: str, *packages: str) -> None:
        self.kind, self.packages = kind, packages
        self._known: dict[str, type[Kind]] = {}

    def add(self, cls: type[Kind]) -> None:
        """Remember a class under its own ``name``; one without a name of its own is a base for others.

        A name keeps its meaning: stored releases are read by it. Only the same class may come again, as it does when a
        notebook cell or a module is run once more.
        """
        name = cls.__dict__.get("name")
        if name is None:
            return
        # The library's own names are taken before anybody else's, in whatever order modules are imported.
        known = self._known.get(name) if self._owns(cls) else self.classes().get(name)
        if known is not None and _full_name(known) != _full_name(cls):
            raise InvalidParameter(
                "name",
                name,
                f"already names the {self.kind} {_full_name(known)}",
                f"Give {_full_name(cls)} another name.",
            )
        self._known[name] = cls

    def _owns(self, cls: type[Kind]) -> bool:
        return any(cls.__module__.startswith(f"{package}.") for package in self.packages)

    def classes(self) -> dict[str, type[Kind]]:
        """All of them by name."""
        for package in self.packages:
            for module in walk_packages(import_module(package).__path__, f"{package}."):
                import_module(module.name)
        return dict(self._known)

    def read(self, data: Mapping[str, Any]) -> Kind:
        """The object that its name and parameters describe; unknown names are refused."""
        parameters = dict(data)
        name = str(parameters.pop("name", None))
        found = self._known.get(name) or self.classes().get(name)
        if found is None:
            raise InvalidParameter(self.kind, name, f"must be one of {sorted(self._known)}", "Check the file.")
        return found(**parameters)


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


REGISTRY: Registry[Mechanism] = Registry("mechanism", "discreet.mechanisms")


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

    def noise_interval(self, value: Floats, level: float) -> tuple[Floats, Floats]:
        """Interval for the truth behind a released value, from the noise alone.

        The default holds for laws that only move with the truth; half a grid cell covers the rounding.
        """
        law = self.law(np.zeros(np.shape(value)))
        tail = (1 - level) / 2
        half_cell = np.asarray(getattr(law, "grid", 0.0)) / 2
        low = value - law.quantile(1 - tail) - half_cell
        high = value - law.quantile(tail) + half_cell
        return low, high

    def error(self, level: float = 0.95) -> Floats:
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
