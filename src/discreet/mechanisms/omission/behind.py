"""Behind an omission step: a mechanism that sees only the rows that a secret step left, and its privacy curve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from discreet.core import requirements
from discreet.core.guarantee import GaussianDP, Guarantee, Profile, PureDP, ZeroConcentratedDP
from discreet.core.numbers import decimal, down, up
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.loss_distribution import CurveProfile, ImpliedProfile
from discreet.mechanisms.mechanism import Mechanism, mechanism_from_dict
from discreet.mechanisms.omission.amplification import before_poisson_sampling, poisson_sampling, sampling_rate
from discreet.mechanisms.omission.step import Omission, omission_from_dict

if TYPE_CHECKING:
    from discreet.core.noise.sampler import Floats, Truth
    from discreet.core.sensitivity import Exact
    from discreet.mechanisms.mechanism import Law


# ---- The whole privacy curve of a mechanism on a Poisson sample


class SampledProfile(CurveProfile):
    """A profile, amplified by sampling: δ_S(ln(1 + p(e^ε − 1))) = p·δ(ε) for every ε.

    Parameters
    ----------
    base
        The profile (or guarantee) of the mechanism, between add/remove neighbours.
    rate
        Sampling rate p; of an array, the largest counts.

    Notes
    -----
    **Guarantee.** Every (ε, δ) pair of the curve holds between the neighbours of the sample (added and removed rows;
    replaced ones for a sample of fixed size), and the curve is the best one that follows from ``base`` alone
    (miranda2026 §2.2, ``docs/proofs/amplification.md``). zCDP and GDP parameters
    are those of ``base``: sampling cannot raise them, and nothing smaller is claimed.

    Examples
    --------
    >>> from discreet.mechanisms.gaussian import GaussianProfile
    >>> base = GaussianProfile(1)
    >>> round(base.epsilon_at(1e-6), 4), round(SampledProfile(base, 0.01).epsilon_at(1e-6), 4)
    (4.8866, 0.3639)
    """

    def __init__(self, base: Profile | Guarantee, rate: ArrayLike) -> None:
        requirements.instance("base", base, (Profile, Guarantee), "a profile such as GaussianProfile(1)")
        self.base, self.rate = base, sampling_rate(rate)

    def _delta(self, epsilon: float) -> float:
        inner = before_poisson_sampling(PureDP(min(epsilon, 1000.0)), self.rate).epsilon
        return min(up(decimal(self.rate) * decimal(self.base.delta_at(inner))), 1.0)

    def _epsilon(self, delta: float) -> float:
        inner = self.base.epsilon_at(min(down(decimal(delta) / decimal(self.rate)), 1 - 2**-53))
        return poisson_sampling(PureDP(inner), self.rate).epsilon if inner <= 1000 else inner

    def gaussian(self) -> GaussianDP:
        return self.base.gaussian() if isinstance(self.base, Profile) else self.base.to(GaussianDP)

    def pure(self) -> PureDP:
        pure = self.base.pure() if isinstance(self.base, Profile) else self.base.to(PureDP)
        return poisson_sampling(pure, self.rate)

    def concentrated(self) -> ZeroConcentratedDP:
        return self.base.concentrated() if isinstance(self.base, Profile) else self.base.to(ZeroConcentratedDP)

    def _reach(self) -> float:
        return min(self._epsilon(1e-12), 700.0)

    def to_dict(self) -> dict[str, Any]:
        return {"profile": "sampled", "rate": self.rate, "base": self.base.to_dict()}


# ---- Behind omission: a mechanism that sees only the rows that a secret omission step left


@dataclass(frozen=True, kw_only=True)
class BehindOmission(Mechanism):
    """A mechanism whose input was computed from the rows that ``step`` kept.

    The step must have been applied afresh, with secret randomness, for this release alone; a session does that for a
    question with ``omit``.

    Guarantee
    ---------
    What `amplification` proves for the step, between its neighbours of rows: the whole curve for a
    sample, ε^S for outlier-score suppression. Proof: ``docs/proofs/amplification.md``.

    Examples
    --------
    >>> from discreet import PureDP
    >>> from discreet.core.sensitivity import Sensitivity
    >>> from discreet.mechanisms import Laplace
    >>> unit = Sensitivity(l1=1.0)
    >>> from discreet.mechanisms import PoissonSample
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
        """The distribution of the inner mechanism, given the value of the kept rows."""
        return self.inner.law(truth)

    def profile(self, sensitivity: Sensitivity) -> Profile:
        """The amplified privacy curve."""
        if self.step.sampled is not None:
            return SampledProfile(self.inner.profile(sensitivity), self.step.sampled)
        pure = self.inner.profile(sensitivity).pure()
        return ImpliedProfile(self.step.amplify(pure))

    def check(self, exact: Exact) -> None:
        """Refuse neighbours and units for which the step's theorem does not hold."""
        self.step.require(exact.neighbours, exact.unit)
        self.inner.check(exact)

    def noise_interval(self, value: Floats, level: float) -> tuple[Floats, Floats]:
        """Interval for the value of the kept rows."""
        return self.inner.noise_interval(value, level)

    def error(self, level: float = 0.95) -> Floats:
        """Error against the value of the kept rows."""
        return self.inner.error(level)

    def draw(self, truth: Truth, *, rng: int | np.random.Generator | None = None) -> Floats:
        return self.inner.draw(truth, rng=rng)

    def measure(self, truth: Truth, *, rng: int | np.random.Generator | None = None) -> Floats:
        return self.inner.measure(truth, rng=rng)

    def present(self, measurement: Floats, *, rng: int | np.random.Generator | None = None) -> Floats:
        return self.inner.present(measurement, rng=rng)

    def parameters(self) -> dict[str, Any]:
        """Both parts as JSON-ready data."""
        return {"inner": self.inner.to_dict(), "step": self.step.to_dict()}
