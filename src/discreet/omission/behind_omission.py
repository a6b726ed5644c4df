"""Behind omission: a mechanism that sees only the rows that a secret omission step left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from discreet.contract.mechanism import Mechanism, mechanism_from_dict
from discreet.core import requirements
from discreet.core.guarantee import Guarantee
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.implied import ImpliedProfile
from discreet.omission import Omission, PoissonSample, omission_from_dict
from discreet.omission.sampled_profile import SampledProfile

if TYPE_CHECKING:
    from discreet.contract.law import Law
    from discreet.core.exact import Exact
    from discreet.core.noise.truth import Floats, Truth
    from discreet.core.privacy_profile import Profile

__all__ = ["BehindOmission"]


@dataclass(frozen=True, kw_only=True)
class BehindOmission(Mechanism):
    """A mechanism whose input was computed from the rows that ``step`` kept.

    The step must have been applied afresh, with secret randomness, for this release alone; a session does that.

    Guarantee
    ---------
    What `amplification` proves for the step, between add/remove neighbours of rows: the whole curve for a
    Poisson sample, ε^S for outlier-score suppression. Proof: ``docs/proofs/amplification.md``.

    Examples
    --------
    >>> from discreet import Laplace, PureDP, Sensitivity
    >>> unit = Sensitivity(l1=1.0)
    >>> sampled = BehindOmission(inner=Laplace(1.0), step=PoissonSample(0.5))
    >>> round(sampled.guarantee(unit).epsilon, 6)
    0.620115
    """

    inner: Mechanism
    step: Omission
    name: ClassVar[str] = "behind_omission"

    def __post_init__(self) -> None:
        if isinstance(self.inner, Mapping):
            object.__setattr__(self, "inner", mechanism_from_dict(dict(self.inner)))
        if isinstance(self.step, Mapping):
            object.__setattr__(self, "step", omission_from_dict(self.step))
        requirements.instance("inner", self.inner, Mechanism, "a mechanism such as Laplace(scale=1.0)")
        requirements.instance("step", self.step, Omission, "a step such as PoissonSample(0.5)")

    @classmethod
    def calibrate(
        cls,
        guarantee: Guarantee,
        sensitivity: Sensitivity,
        *,
        mechanism: type[Mechanism] | None = None,
        step: Omission | None = None,
        **options: Any,
    ) -> Self:
        """The least noise of ``mechanism`` with which it meets ``guarantee`` behind ``step``."""
        chosen = requirements.instance("step", step, Omission, "a step such as PoissonSample(0.5)")
        kind = requirements.instance("mechanism", mechanism, type, "a mechanism class such as Laplace")
        return cls(inner=kind.calibrate(chosen.before(guarantee), sensitivity, **options), step=chosen)

    @property
    def scale(self) -> Any:
        """Scale of the noise."""
        return getattr(self.inner, "scale", None)

    def law(self, truth: Truth) -> Law:
        """The law of the inner mechanism, given the value of the kept rows."""
        return self.inner.law(truth)

    def profile(self, sensitivity: Sensitivity) -> Profile:
        """The amplified privacy curve."""
        if isinstance(self.step, PoissonSample):
            return SampledProfile(self.inner.profile(sensitivity), self.step.rate)
        pure = self.inner.profile(sensitivity).pure()
        return ImpliedProfile(self.step.amplify(pure))

    def check(self, exact: Exact) -> None:
        """Refuse neighbours and units for which the step's theorem does not hold."""
        self.step.require(exact.neighbours, exact.unit)
        self.inner.check(exact)

    def confidence_interval(self, value: Floats, level: float) -> tuple[Floats, Floats]:
        """Interval for the value of the kept rows."""
        return self.inner.confidence_interval(value, level)

    def expected_error(self, level: float = 0.95) -> Floats:
        """Error against the value of the kept rows."""
        return self.inner.expected_error(level)

    def draw(self, truth: Truth, *, rng: int | np.random.Generator | None = None) -> Floats:
        return self.inner.draw(truth, rng=rng)

    def measure(self, truth: Truth, *, rng: int | np.random.Generator | None = None) -> Floats:
        return self.inner.measure(truth, rng=rng)

    def present(self, measurement: Floats, *, rng: int | np.random.Generator | None = None) -> Floats:
        return self.inner.present(measurement, rng=rng)

    def parameters(self) -> dict[str, Any]:
        """Both parts as JSON-ready data."""
        return {"inner": self.inner.to_dict(), "step": self.step.to_dict()}
