"""Behind a question: the same question, asked of the rows that a secret omission step leaves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, Profile, PureDP, ZeroConcentratedDP
from discreet.core.numbers import decimal, down, up
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.loss_distribution import CurveProfile, ImpliedProfile
from discreet.mechanisms.mechanism import Mechanism, mechanism_from_dict
from discreet.mechanisms.omission.amplification import before_poisson_sampling, poisson_sampling, sampling_rate
from discreet.mechanisms.omission.step import Omission, PoissonSample, omission_from_dict
from discreet.questions.question import MeasuredQuestion, Measurement, Question

if TYPE_CHECKING:
    from discreet.core.noise.sampler import Floats, Truth
    from discreet.core.sensitivity import Exact
    from discreet.mechanisms.mechanism import Law


# ---- The whole privacy curve of a mechanism on a Poisson sample


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


# ---- Behind omission: a mechanism that sees only the rows that a secret omission step left


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
    >>> from discreet import PureDP
    >>> from discreet.core.sensitivity import Sensitivity
    >>> from discreet.mechanisms import Laplace
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
        """The distribution of the inner mechanism, given the value of the kept rows."""
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


A = TypeVar("A")


def behind(question: Question[A], step: Omission) -> Question[A]:
    """The question asked behind a step: for less inside, and for what was asked outside.

    A test needs rows that are a sample of the population, so only a Poisson sample may stand before one. Nothing is
    proved for procedures of several steps, which would share one choice of rows.
    """
    if isinstance(question, MeasuredQuestion) and (isinstance(step, PoissonSample) or not question.tests):
        return _behind(question.in_one_step(), step)
    test: Any = question  # of a table: it is the table that stands behind the step
    if hasattr(test, "of_table") and isinstance(step, PoissonSample):
        return cast(Question[A], _kept(test, step).of_table(_behind(test.table, step)))
    raise InvalidParameter(
        "step", step, f"is not proved for {question.ask}", "Ask this question without omitting rows."
    )


def _behind(question: MeasuredQuestion[A], step: Omission) -> MeasuredQuestion[A]:
    inside = _before(step, question.guarantee)
    return _BehindStep(question.schema, _kept(question, step, guarantee=inside), step, guarantee=question.guarantee)


def _before(step: Omission, asked: Guarantee) -> Guarantee:
    if isinstance(asked, PureDP):
        return step.before(asked)
    if isinstance(asked, ApproxDP):
        return step.before(asked)
    raise InvalidParameter("guarantee", asked, "must be PureDP or ApproxDP behind a step", "Pass PureDP(1.0).")


Q = TypeVar("Q", bound=Question[Any])


def _kept(question: Q, step: Omission, **changed: Any) -> Q:
    """The question with what a plan expects of the rows that a Poisson sample keeps."""
    rows, rate = getattr(question, "expected_rows", None), getattr(step, "rate", None)
    if rows is not None and rate is not None:
        changed["expected_rows"] = max(1, round(rows * rate))
    least = getattr(question, "rows_at_least", None)
    if least is not None:
        changed["rows_at_least"] = _least_kept(least, step)
    return cast(Q, replace(cast(Any, question), **changed))


def _least_kept(least: int, step: Omission) -> int:
    """A Poisson sample of so many rows keeps at least this many, but for a chance of 1e-9: six standard deviations."""
    if not isinstance(step, PoissonSample):
        rule = "rows kept by a suppression are no sample"
        raise InvalidParameter("rows_at_least", least, rule, "Leave rows_at_least out.")
    kept = math.floor(step.rate * least - 6 * math.sqrt(step.rate * (1 - step.rate) * least))
    if kept < 1:
        raise InvalidParameter("rows_at_least", least, f"{step} may keep none of them", "Raise it or leave it out.")
    return kept


@dataclass(frozen=True)
class _BehindStep(MeasuredQuestion[A]):
    """A question whose mechanism sees the kept rows alone."""

    ask: ClassVar[str] = "behind"
    meaning: ClassVar[str] = ""
    forms: ClassVar[dict[str, Any]] = {}
    inner: MeasuredQuestion[A]
    step: Omission

    def _measured(self) -> Measurement:
        found = self.inner.measurement
        return replace(
            found,
            mechanism=BehindOmission(inner=found.mechanism, step=self.step),
            public={**found.public, "omission": self.step.to_dict()},
        )

    def content(self) -> dict[str, Any]:
        return self.inner.content() | {"omission": self.step.to_dict()}
