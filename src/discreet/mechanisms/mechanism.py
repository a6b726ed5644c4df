"""Mechanism: how a value is protected, with everything that plans, inference and stored releases ask of it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from functools import cached_property
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.door import Rng, Step
from discreet.core.errors import InvalidParameter, NoConversion, WrongType
from discreet.core.guarantee import ApproxDP, Guarantee, Profile, PureDP
from discreet.core.ledger.account import Account
from discreet.core.noise import sampler
from discreet.core.sensitivity import Exact, Sensitivity

# ---- Law: the exact conditional distribution of a mechanism's output given the truth


Size = int | tuple[int, ...] | None
"""How many draws: one, so many, or an array of them."""
Kind = type[Guarantee] | None
"""The kind of guarantee that is asked for; None for the one that says most."""


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
    def support(self) -> tuple[sampler.Floats, sampler.Floats]:
        """Smallest interval that holds all outcomes."""

    @property
    @abstractmethod
    def mean(self) -> sampler.Floats:
        """Expected output."""

    @property
    @abstractmethod
    def variance(self) -> sampler.Floats:
        """Variance of the output."""

    @property
    @abstractmethod
    def bias(self) -> sampler.Floats:
        """Expected output minus truth."""

    @property
    def mse(self) -> sampler.Floats:
        """Mean squared error: variance plus squared bias."""
        return self.variance + self.bias**2

    @abstractmethod
    def pdf(self, x: ArrayLike) -> sampler.Floats:
        """Density at ``x``."""

    @abstractmethod
    def cdf(self, x: ArrayLike) -> sampler.Floats:
        """Probability of an output of at most ``x``."""

    @abstractmethod
    def quantile(self, q: ArrayLike) -> sampler.Floats:
        """The value below which the output falls with probability ``q``."""

    @abstractmethod
    def sample(self, size: Size = None, *, rng: Rng = None) -> sampler.Floats:
        """Draw outputs: one per location, or ``size`` of them in front.

        ``rng=None`` draws exactly, from operating-system entropy. A seed or a numpy generator draws the same
        distribution in floating point, for simulations only.
        """


# ---- Registry: classes by the name under which releases and ledgers store them


Named = TypeVar("Named")


class Registry(Generic[Named]):
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
        self._known: dict[str, type[Named]] = {}
        self._settings: dict[str, tuple[str, Mapping[str, Any]]] = {}

    def add(self, cls: type[Named]) -> None:
        """Remember a class under its own ``name``; one without a name of its own is a base for others.

        A name keeps its meaning: stored releases are read by it. Only the same class may come again, as it does when a
        notebook cell or a module is run once more.
        """
        name = cls.__dict__.get("name")
        if name is None:
            return
        # The library's own names are taken before anybody else's, in whatever order modules are imported.
        own = cls.__module__.startswith("discreet.")
        taken = self._known if own else self.classes()
        # A class with several kinds is stored under the name of each, with the settings that make it that kind.
        for one, settings in cls.__dict__.get("kinds", {name: {}}).items():
            if one in taken and _full_name(taken[one]) != _full_name(cls):
                fix = f"Give {_full_name(cls)} another name."
                raise InvalidParameter("name", one, f"already names the {self.kind} {_full_name(taken[one])}", fix)
            self._known[one] = cls
            self._settings[one] = (one, settings)
        self._settings |= {old: (name, settings) for old, settings in cls.__dict__.get("earlier", {}).items()}

    def classes(self) -> dict[str, type[Named]]:
        """All of them by name."""
        for package in self.packages:
            for module in walk_packages(import_module(package).__path__, f"{package}."):
                import_module(module.name)
        return dict(self._known)

    def read(self, data: Mapping[str, Any]) -> Named:
        """The object that its name and parameters describe; unknown names are refused."""
        parameters = dict(data)
        name = str(parameters.pop("name", None))
        if name not in self._known:
            self.classes()
        name, settings = self._settings.get(name, (name, {}))  # stored releases keep the name that they were given
        found = self._known.get(name)
        if found is None:
            raise InvalidParameter(self.kind, name, f"must be one of {sorted(self._known)}", "Check the file.")
        return found(**settings, **parameters)


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def json_ready(value: Any) -> Any:
    """A parameter as JSON-ready data: fractions as texts, infinite ends as None, what describes itself as it does."""
    if isinstance(value, tuple | list):
        return [json_ready(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value):
        return {field.name: json_ready(getattr(value, field.name)) for field in fields(value)}
    return str(value) if isinstance(value, Fraction) else value


REGISTRY: Registry[Mechanism] = Registry("mechanism", "discreet.mechanisms")


class Mechanism(ABC):
    """Frozen parameters, a distribution for every truth, and a proof for every sensitivity.

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
    def law(self, truth: sampler.Truth) -> Law:
        """The exact distribution of the output given the truth."""

    @abstractmethod
    def profile(self, sensitivity: Sensitivity) -> Profile:
        """The exact privacy curve."""

    def guarantee(self, sensitivity: Sensitivity, kind: Kind = None, *, delta: float | None = None) -> Guarantee:
        """The guarantee for ``sensitivity``, in the mechanism's own kind or in the one asked for: ledgers charge it."""
        return self.profile(sensitivity).guarantee(kind or self.own_kind, delta=delta)

    def parameters(self) -> dict[str, Any]:
        """The parameters as JSON-ready data; by default the fields of the dataclass."""
        return {one.name: json_ready(getattr(self, one.name)) for one in fields(cast(Any, self)) if one.init}

    def check(self, exact: Exact) -> None:  # noqa: B027  (most mechanisms protect any value)
        """Refuse a value that this mechanism must not protect; called before anything is spent."""

    def noise_interval(self, value: sampler.Floats, level: float) -> tuple[sampler.Floats, sampler.Floats]:
        """Interval for the truth behind a released value, from the noise alone.

        The default holds for distributions that only move with the truth; half a grid cell covers the rounding.
        """
        law = self.law(np.zeros(np.shape(value)))
        tail = (1 - level) / 2
        half_cell = np.asarray(getattr(law, "grid", 0.0)) / 2
        low = value - law.quantile(1 - tail) - half_cell
        high = value - law.quantile(tail) + half_cell
        return low, high

    def error(self, level: float = 0.95) -> sampler.Floats:
        """The error that the output stays within with probability ``level``, for the least favourable truth."""
        return self.law(0.0).quantile((1 + level) / 2)

    def draw(self, truth: sampler.Truth, *, rng: Rng = None) -> sampler.Floats:
        """One output. Mechanisms with several steps or with post-processing override this."""
        return self.law(truth).sample(rng=rng)

    def measure(self, truth: sampler.Truth, *, rng: Rng = None) -> sampler.Floats:
        """The noisy measurement behind an output; a mechanism that post-processes it says so in `present`."""
        return self.draw(truth, rng=rng)

    def present(self, measurement: sampler.Floats, *, rng: Rng = None) -> sampler.Floats:
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


# ---- Location noise: a truth plus independent noise of one law and one scale on every coordinate.
#
# Densities and moments describe the real-valued output. `sample` returns that output rounded to the law's grid, which
# by default is 2⁻²⁰ of the scale or finer; halving a grid cell therefore bounds the difference.


Array = NDArray[np.float64]


class LocationLaw(Law):
    """A distribution that is a location plus scaled noise of one family.

    Parameters
    ----------
    location
        The truth: numbers or fractions, exact as they stand.
    scale
        Scale of the noise, broadcast against the location.
    grid
        Power of two to which draws are rounded; by default 2⁻²⁰ of the scale.
    """

    def __init__(self, location: sampler.Truth, scale: ArrayLike, *, grid: ArrayLike | None = None) -> None:
        self._location = sampler.Location(location)
        self.scale = _positive_array("scale", scale)
        self._shape = np.broadcast_shapes(self._location.floats.shape, self.scale.shape)
        if grid is None:
            self.grid = self._default_grid()
        elif np.ndim(grid) == 0:  # a law is set up for every parameter that an interval tries
            self.grid = np.asarray(sampler.power_of_two("grid", grid))  # type: ignore[arg-type]
        else:
            self.grid = np.vectorize(lambda value: sampler.power_of_two("grid", value), otypes=[float])(grid)

    def _default_grid(self) -> Array:
        return np.asarray(sampler.default_grid(self.scale))

    @property
    def location(self) -> Array:
        """The truth, as floats."""
        return self._location.floats

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one draw."""
        return self._shape

    @property
    def support(self) -> tuple[sampler.Floats, sampler.Floats]:
        """The whole line, unless a distribution says otherwise."""
        return -math.inf, math.inf

    @property
    def mean(self) -> sampler.Floats:
        """The truth, around which noise is symmetric, unless a distribution says otherwise."""
        return sampler.plain(np.broadcast_to(self.location, self._shape))

    @property
    def bias(self) -> sampler.Floats:
        """Expected output minus truth."""
        return sampler.plain(self.mean - self.location)

    def _standardised(self, x: ArrayLike) -> Array:
        return np.asarray((np.asarray(x, dtype=float) - self.location) / self.scale)

    @abstractmethod
    def _family(self, location: sampler.Location, scale: Array, grid: Array, shape: tuple[int, ...]) -> sampler.Family:
        """The exact sampler's family for flattened parameters."""

    @abstractmethod
    def _simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draws by numpy's generators, before rounding."""

    def sample(
        self, size: Size = None, *, rng: Rng = None, entropy: sampler.Entropy = sampler.SYSTEM_ENTROPY
    ) -> sampler.Floats:
        """Draw outputs, exactly; or, with ``rng``, simulate them in floating point."""
        front = () if size is None else (size,) if isinstance(size, int | np.integer) else tuple(size)
        shape = (*front, *self._shape)
        if rng is not None:
            draws = self._simulate(shape, sampler.generator(rng))
            return sampler.plain(np.floor(draws / self.grid + 0.5) * self.grid)
        # Scalars stay scalars, so that samplers multiply by one number and not by an array of equal ones.
        scale, grid = (spread(values, shape) for values in (self.scale, self.grid))
        location = self._location.broadcast(shape)
        draws = sampler.exact_draws(self._family(location, scale, grid, shape), location, grid, entropy)
        return sampler.plain(draws.reshape(shape))


def _positive_array(name: str, values: ArrayLike) -> Array:
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise WrongType(name, values, "must be a number or an array of numbers", "Pass numbers.") from None
    if not np.all(np.isfinite(array) & (array > 0)):
        raise InvalidParameter(name, values, "must be finite and positive everywhere", f"Pass {name} > 0.")
    return array


def probabilities(q: ArrayLike) -> Array:
    """Probabilities as an array; refuses what lies outside [0, 1]."""
    array = np.asarray(q, dtype=float)
    if not np.all((array >= 0) & (array <= 1)):
        raise InvalidParameter("q", q, "must lie in [0, 1]", "Pass probabilities.")
    return array


def spread(values: Array, shape: tuple[int, ...]) -> Array:
    """Arrays, spread over the draws; a scalar as it is."""
    return values if values.ndim == 0 else np.broadcast_to(values, shape).ravel()


@dataclass(frozen=True)
class AdditiveNoise(Mechanism):
    """Noise of one distribution and one scale on every coordinate.

    Parameters
    ----------
    scale
        Scale of the noise, in units of the statistic.
    grid
        Power of two to which outputs are rounded; by default 2⁻²⁰ of the scale. Rounding is post-processing.
    """

    scale: float
    grid: float | None = None
    _law: ClassVar[type[LocationLaw]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", requirements.positive("scale", self.scale))
        if self.grid is not None:
            object.__setattr__(self, "grid", sampler.power_of_two("grid", self.grid))

    def law(self, truth: sampler.Truth) -> LocationLaw:
        """The exact distribution of the output given the truth."""
        return self._law(truth, self.scale, grid=self.grid)

    def l2_cost(self, truth: sampler.Truth) -> float:
        """Expected squared distance between output and truth, summed over coordinates (lee2022 (5), Lemma 13)."""
        return float(np.sum(self.law(truth).variance))


# ---- Whole noise: what mechanisms share that add whole numbers to whole numbers


def whole_truth(truth: sampler.Truth) -> sampler.Truth:
    """The truth, each number rounded to the next whole one, halves up: ⌊x + ½⌋, exactly.

    Numbers at most m apart, m whole, are at most m apart afterwards. (Rounding halves to even would not do: 0.5 and 1.5
    would be two apart.)
    """
    location = sampler.Location(truth)
    if location.fractions is not None:
        exact = np.vectorize(lambda value: math.floor(value + Fraction(1, 2)), otypes=[object])(location.fractions)
        return np.asarray(exact, dtype=object)
    below = np.floor(location.floats)
    return below + (location.floats - below >= 0.5)  # the difference is exact, a sum with ½ would not be


@dataclass(frozen=True)
class WholeNoise(Mechanism):
    """Whole-number noise of one distribution and one scale on every coordinate."""

    words: ClassVar[str]
    """The name of the noise."""
    scale: float

    def _need_moves(self, exact: Exact, *, several: bool) -> None:
        """Refuse several numbers that need not be whole, where only a norm is known: rounding could move each."""
        known = exact.sensitivity
        if known.moves is None and several and np.asarray(exact.value).dtype.kind not in "iu":
            rule = f"{self.words} on several numbers needs moves, or an array of integers"
            raise InvalidParameter("sensitivity", known, rule, "Pass Sensitivity(moves=(1, 1)), for example.")

    def noise_interval(self, value: sampler.Floats, level: float) -> tuple[sampler.Floats, sampler.Floats]:
        """Whole ends: the truth, as a whole number, lies between them with probability at least ``level``."""
        reach = self.law(0).quantile((1 + level) / 2)
        return value - reach, value + reach


# ---- Sampled law: the distribution of a post-processed output, known through draws.


_DRAWS = 20_000
_CELLS = 4_000_000


class SampledLaw(Law):
    """The joint distribution of numbers that a mechanism draws in several steps or repairs together.

    `sample` draws exactly. Moments and distribution functions are number by number, from simulated draws with a fixed
    seed, so they repeat: 20,000 draws, or as many as four million numbers allow.

    Parameters
    ----------
    mechanism
        Has ``draw`` and, for many outputs at once in floating point, ``simulate``.
    truth
        The exact value.
    support
        Public ends of every number, or one pair for all.
    """

    def __init__(self, mechanism: Any, truth: sampler.Truth, support: tuple[ArrayLike, ArrayLike]) -> None:
        self.mechanism, self.truth = mechanism, truth
        self.location = sampler.float_truth(truth)
        self._ends = support

    @cached_property
    def _draws(self) -> Array:
        size = min(_DRAWS, max(_CELLS // max(self.location.size, 1), 16))
        return np.asarray(self.mechanism.simulate(self.truth, size, rng=0)).reshape(size, *self.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one draw."""
        return self.location.shape

    @property
    def support(self) -> tuple[sampler.Floats, sampler.Floats]:
        """Public ends of every number."""
        low, high = (np.broadcast_to(np.asarray(end, dtype=float), self.shape) for end in self._ends)
        return low, high

    @property
    def mean(self) -> sampler.Floats:
        """Expected output."""
        return np.asarray(self._draws.mean(axis=0))

    @property
    def variance(self) -> sampler.Floats:
        """Variance of the output."""
        return np.asarray(self._draws.var(axis=0))

    @property
    def bias(self) -> sampler.Floats:
        """Expected output minus truth."""
        return np.asarray(self.mean - self.location)

    def pdf(self, x: ArrayLike) -> sampler.Floats:
        """Refused: a post-processed cell has atoms, and so no density."""
        raise InvalidParameter("x", x, "a post-processed output has no density", "Use cdf, quantile or sample.")

    def cdf(self, x: ArrayLike) -> sampler.Floats:
        """Share of draws of at most ``x``."""
        return np.asarray((self._draws <= np.asarray(x, dtype=float)).mean(axis=0))

    def quantile(self, q: ArrayLike) -> sampler.Floats:
        """Quantile of the draws; ``q`` is one probability."""
        return np.asarray(np.quantile(self._draws, float(np.asarray(q)), axis=0))

    def sample(self, size: Size = None, *, rng: Rng = None) -> sampler.Floats:
        """Draw outputs, exactly; or, with ``rng``, simulate them in floating point."""
        source = None if rng is None else sampler.generator(rng)
        if size is None:
            return np.asarray(self.mechanism.draw(self.truth, rng=source))
        front = (size,) if isinstance(size, int | np.integer) else tuple(size)
        rows = [self.mechanism.draw(self.truth, rng=source) for _ in range(int(np.prod(front, dtype=int)))]
        return np.asarray(rows).reshape(*front, *self.shape)
