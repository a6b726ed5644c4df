"""Sweep: many random pairs of neighbours, and how often the auditor itself is right."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.audit.statistical import audit_draws, audit_pair
from discreet.contract.mechanism import Mechanism
from discreet.core.guarantee import GaussianDP, Guarantee, PureDP
from discreet.core.noise.choice import choose
from discreet.core.sensitivity import Sensitivity
from discreet.display import Facts
from discreet.mechanisms.bounded.boundary_inflated import BoundaryInflatedLaplace
from discreet.mechanisms.bounded.bounded_laplace import BoundedLaplace
from discreet.mechanisms.choices.exponential_mechanism import ExponentialMechanism
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace
from discreet.result import Result

__all__ = ["FalseAlarms", "Power", "Sweep", "audit_false_alarms", "audit_power", "audit_sweep"]


@dataclass(frozen=True)
class Sweep(Result):
    """Random pairs of neighbours, audited by draws; all bounds together are right with probability ``confidence``."""

    pairs: int
    draws: int
    violations: tuple[str, ...]
    tightest: float
    confidence: float

    def heading(self) -> str:
        return "Sweep over random neighbours"

    @property
    def passed(self) -> bool:
        """Whether no claim was refuted."""
        return not self.violations

    def facts(self) -> Facts:
        """What to show."""
        return [
            ("pairs", f"{self.pairs:,}, {self.draws:,} draws on each side"),
            ("refuted", "none" if self.passed else "; ".join(self.violations[:3])),
            ("tightest", f"{100 * self.tightest:.1f} % of a claim certified"),
            ("confidence", f"{100 * self.confidence:g} % for all pairs together"),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {
            "pairs": self.pairs,
            "draws": self.draws,
            "violations": list(self.violations),
            "tightest": self.tightest,
            "confidence": self.confidence,
            "passed": self.passed,
        }


def audit_sweep(pairs: int = 10_000, draws: int = 50_000, *, confidence: float = 0.999, seed: int = 1) -> Sweep:
    """Audit random mechanisms at random truths and neighbours.

    Examples
    --------
    >>> audit_sweep(pairs=8, draws=2000).passed
    True
    """
    each = 1 - (1 - confidence) / pairs  # Bonferroni: all bounds hold together
    violations, tightest = [], 0.0
    for name, claim, here, there in _settings(pairs, draws, np.random.default_rng(seed)):
        audit = audit_draws(here, there, claim, confidence=each)
        tightest = max(tightest, audit.reached)
        if not audit.passed:
            violations.append(f"{name}: {audit.symbol} ≥ {audit.certified:.4g} for a claimed {audit.claimed:.4g}")
    return Sweep(pairs, draws, tuple(violations), tightest, confidence)


def _settings(pairs: int, draws: int, rng: np.random.Generator) -> Iterator[tuple[str, Guarantee, Any, Any]]:
    for number in range(pairs):
        epsilon = float(np.round(10 ** rng.uniform(-1, 0.8), 2))
        delta = float(np.round(10 ** rng.uniform(-2, 1), 3))
        kind = number % 6
        if kind == 5:
            yield _choice(epsilon, draws, rng)
            continue
        mechanism, claim, low, high = _mechanism(kind, epsilon, delta, rng)
        truth = float(rng.choice([low, rng.uniform(low, high), high - delta]))
        # Mostly whole changes, from which most is learned, and some smaller ones.
        change = delta if rng.random() < 0.8 else delta * float(rng.random())
        sides = [np.asarray(mechanism.law(value).sample(draws)) for value in (truth, truth + change)]
        yield f"{mechanism.name}, ε {epsilon}, Δ {delta}, truth {truth}", claim, sides[0], sides[1]


def _mechanism(
    kind: int, epsilon: float, delta: float, rng: np.random.Generator
) -> tuple[Mechanism, Guarantee, float, float]:
    move, width = Sensitivity(l1=delta), delta * float(np.round(rng.uniform(1.5, 12), 1))
    pure = PureDP(epsilon)
    if kind in (0, 1):
        return Laplace.calibrate(pure, move), pure, -width, width
    if kind == 2:
        return Gaussian.calibrate(GaussianDP(epsilon), move), GaussianDP(epsilon), -width, width
    bounded = BoundedLaplace if kind == 3 else BoundaryInflatedLaplace
    return bounded.calibrate(pure, move, bounds=(0, width)), pure, 0.0, width


def _choice(epsilon: float, draws: int, rng: np.random.Generator) -> tuple[str, Guarantee, Any, Any]:
    """Counts of a few categories with one record more in one of them."""
    counts = rng.integers(0, 6, int(rng.integers(2, 8)))
    more = counts.copy()
    more[int(rng.integers(0, counts.size))] += 1
    factor = ExponentialMechanism.calibrate(PureDP(epsilon), Sensitivity(moves=(1.0,))).factor
    sides = [choose(side.astype(float), factor, size=draws) for side in (counts, more)]
    return f"exponential, ε {epsilon}, counts {counts.tolist()}", PureDP(epsilon), sides[0], sides[1]


@dataclass(frozen=True)
class Power(Result):
    """How often a true ε a little above its claim is found."""

    audits: int
    found: int
    true_epsilon: float
    draws: int
    seconds: float

    def heading(self) -> str:
        return "Power"

    @property
    def passed(self) -> bool:
        """Whether it is found 99 times in 100, up to three standard errors, and within a minute."""
        slack = 3 * math.sqrt(0.99 * 0.01 * self.audits)
        return self.found >= 0.99 * self.audits - slack - 1e-9 and self.seconds < 60

    def facts(self) -> Facts:
        """What to show."""
        return [
            ("claim", f"ε = 1, true ε = {self.true_epsilon:g}, 99.9 % confidence"),
            ("found", f"{self.found} of {self.audits} times with {self.draws:,} draws on each side"),
            ("time", f"{self.seconds:.2f} s an audit on one core"),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {
            "audits": self.audits,
            "found": self.found,
            "true_epsilon": self.true_epsilon,
            "draws": self.draws,
            "seconds": self.seconds,
            "passed": self.passed,
        }


def audit_power(audits: int = 300, *, true_epsilon: float = 1.05, draws: int = 1_000_000) -> Power:
    """Audit a Laplace mechanism whose true ε is above the claimed 1, again and again."""
    import time

    mechanism = Laplace(1 / true_epsilon)
    here, there = mechanism.law(0.0), mechanism.law(1.0)
    start = time.process_time()
    found = sum(not audit_pair(here.sample, there.sample, PureDP(1.0), draws=draws).passed for _ in range(audits))
    return Power(audits, found, true_epsilon, draws, (time.process_time() - start) / audits)


@dataclass(frozen=True)
class FalseAlarms(Result):
    """How often a right claim is called wrong."""

    audits: int
    alarms: int
    confidence: float

    def heading(self) -> str:
        return "False alarms"

    @property
    def allowed(self) -> int:
        """The expected number plus three times its Monte-Carlo error, rounded up."""
        expected = self.audits * (1 - self.confidence)
        return math.ceil(expected + 3 * math.sqrt(expected))

    @property
    def passed(self) -> bool:
        """Whether there are no more than chance allows."""
        return self.alarms <= self.allowed

    def facts(self) -> Facts:
        """What to show."""
        return [
            ("audits", f"{self.audits:,} of mechanisms whose claims are tight, at {100 * self.confidence:g} %"),
            ("false alarms", f"{self.alarms}, where {self.allowed} are within chance"),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {
            "audits": self.audits,
            "alarms": self.alarms,
            "allowed": self.allowed,
            "confidence": self.confidence,
            "passed": self.passed,
        }


def audit_false_alarms(audits: int = 1000, draws: int = 20_000, *, confidence: float = 0.999) -> FalseAlarms:
    """Audit mechanisms whose claims hold with equality."""
    alarms = 0
    tight: list[tuple[Mechanism, Guarantee]] = [
        (Laplace(1.0), PureDP(1.0)),
        (Gaussian(1.0), GaussianDP(1.0)),
        (Laplace(0.25), PureDP(4.0)),
    ]
    for number in range(audits):
        mechanism, claim = tight[number % len(tight)]
        here, there = mechanism.law(0.0), mechanism.law(1.0)
        alarms += not audit_pair(here.sample, there.sample, claim, draws=draws, confidence=confidence).passed
    return FalseAlarms(audits, alarms, confidence)
