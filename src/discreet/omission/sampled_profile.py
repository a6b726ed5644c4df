"""The whole privacy curve of a mechanism on a Poisson sample."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from discreet.core import requirements
from discreet.core.guarantee import GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.privacy_profile import Profile
from discreet.core.rounding import decimal, down, up
from discreet.mechanisms.curve_profile import CurveProfile
from discreet.omission.amplification import before_poisson_sampling, poisson_sampling, sampling_rate

__all__ = ["SampledProfile"]


class SampledProfile(CurveProfile):
    """A profile, amplified by Poisson sampling: δ_S(ln(1 + p(e^ε − 1))) = p·δ(ε) for every ε.

    Parameters
    ----------
    base
        The profile (or guarantee) of the mechanism, between add/remove neighbours.
    rate
        Sampling rate p; of an array, the largest counts.

    Notes
    -----
    **Guarantee.** Every (ε, δ) pair of the curve holds between add/remove neighbours, and the curve is the best one
    that follows from ``base`` alone (miranda2026 §2.2, ``docs/proofs/amplification.md``). zCDP and GDP parameters
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
