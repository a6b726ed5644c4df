"""Statistical audit: the code that really runs, as a black box.

Draws are taken on two neighbouring inputs. One half of them chooses the event that tells the neighbours apart best; the
other half says how often it happens, and a Clopper–Pearson bound turns that into an ε which the claim must exceed. The
bound is wrong with probability at most ``1 − confidence``, whatever the mechanism is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from discreet.audit.bounds import certified_epsilon, certified_mu, smallest_excess, smallest_mu
from discreet.audit.events import Event, Outputs, View, views_of
from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee
from discreet.core.privacy_profile import Profile
from discreet.display import Facts, number
from discreet.result import Result

__all__ = ["StatisticalAudit", "audit_draws", "audit_pair"]

Draw = Callable[[int], Any]
Claim = Guarantee | Profile

Points = Sequence[tuple[float, float]]

_EPSILONS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_CHOICE_Z = 4.0
"""Caution in choosing the event: large events tell more surely than small ones."""


@dataclass(frozen=True)
class StatisticalAudit(Result):
    """What draws on two neighbours certify.

    Attributes
    ----------
    certified
        A lower bound on ε at the claim's δ for that ε, or on μ where μ-GDP is claimed; compare with ``claimed``.
    claimed
        The ε (or μ) of the claim to which ``certified`` must be compared.
    at_delta
        The δ at which both are stated; None for μ.
    event
        What told the neighbours apart best.
    draws, confidence
        Draws on each side, and the probability with which the bound is right.
    detectable
        The smallest true ε (or μ) that would have been found with 99 % probability by the same event.
    """

    claimed: float
    certified: float
    at_delta: float | None
    event: str
    draws: int
    confidence: float
    detectable: float

    @property
    def passed(self) -> bool:
        """Whether the claim was not refuted."""
        return self.certified <= self.claimed

    @property
    def symbol(self) -> str:
        """What is bounded: ε or μ."""
        return "μ" if self.at_delta is None else "ε"

    @property
    def reached(self) -> float:
        """Share of the claim that is certified to be lost."""
        return self.certified / self.claimed if self.claimed > 0 else 0.0

    def facts(self) -> Facts:
        """What to show."""
        at = "" if self.at_delta is None else f" at δ = {number(self.at_delta)}"
        return [
            ("claim", f"{self.symbol} = {number(self.claimed)}{at}"),
            ("certified", f"{self.symbol} ≥ {number(self.certified)} with {100 * self.confidence:g} % confidence"),
            ("verdict", "not refuted" if self.passed else "REFUTED"),
            ("event", self.event),
            ("draws", f"{self.draws:,} on each side"),
            ("would have found", f"a true {self.symbol} of {number(self.detectable)}, with 99 % probability"),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {
            "symbol": self.symbol,
            "claimed": self.claimed,
            "certified": self.certified if math.isfinite(self.certified) else None,
            "at_delta": self.at_delta,
            "event": self.event,
            "draws": self.draws,
            "confidence": self.confidence,
            "detectable": self.detectable if math.isfinite(self.detectable) else None,
            "passed": self.passed,
        }

    def heading(self) -> str:
        return "Statistical audit"


def audit_pair(
    first: Draw,
    second: Draw,
    claim: Claim,
    *,
    draws: int = 1_000_000,
    confidence: float = 0.999,
) -> StatisticalAudit:
    """Audit any callable: ``first(n)`` and ``second(n)`` return n outputs on two neighbouring inputs.

    Outputs are numbers, rows of numbers, or whole numbers that stand for choices.

    Examples
    --------
    >>> from discreet import Laplace, PureDP
    >>> law = Laplace(1.0).law
    >>> audit_pair(lambda n: law(0.0).sample(n), lambda n: law(1.0).sample(n), PureDP(1.0), draws=20_000).passed
    True
    >>> audit_pair(lambda n: law(0.0).sample(n), lambda n: law(2.0).sample(n), PureDP(1.0), draws=20_000).passed
    False
    """
    count = requirements.positive_integer("draws", draws, at_least=1000)
    return audit_draws(first(count), second(count), claim, confidence=confidence)


def audit_draws(first: Any, second: Any, claim: Claim, *, confidence: float = 0.999) -> StatisticalAudit:
    """The same for draws that were made already."""
    requirements.instance("claim", claim, (Guarantee, Profile), "a guarantee such as PureDP(1.0)")
    level = requirements.level(confidence)
    here, there = _rows("first", first), _rows("second", second)
    if here.shape != there.shape or here.shape[0] < 1000:
        raise InvalidParameter(
            "draws", (here.shape, there.shape), "must be equally many on both sides, at least 1000", "Draw more."
        )
    half = here.shape[0] // 2
    event, swapped = _best_event(here[:half], there[:half], claim)
    if swapped:
        here, there = there, here
    return _tested(event, here[half:], there[half:], claim, level)


def _rows(name: str, draws: Any) -> Outputs:
    array = np.asarray(draws, dtype=float)
    if array.ndim == 0 or array.size == 0 or np.isnan(array).any():
        raise InvalidParameter(name, "…", "must be an array of draws without NaN", "Return one output per draw.")
    return array.reshape(array.shape[0], -1)


def _points(claim: Claim) -> Points:
    """Pairs (ε, δ) of the claim at which it can be refuted."""
    finite = float(claim.epsilon_at(0.0))
    own = {claim.epsilon} if isinstance(claim, ApproxDP) else set()
    below = [epsilon for epsilon in sorted({*_EPSILONS, *own}) if epsilon < finite]
    pure = [(finite, 0.0)] if math.isfinite(finite) else []
    return pure + [(epsilon, float(claim.delta_at(epsilon))) for epsilon in below]


def _best_event(here: Outputs, there: Outputs, claim: Claim) -> tuple[Event, bool]:
    """The event, and the order of the sides, that goes furthest beyond the claim on the choosing half.

    Its first part proposes views and lines up their labels, its second part says how many of them to take: labels that
    only looked suspicious by chance do not look so twice.
    """
    middle = here.shape[0] // 2
    mu = claim.mu if isinstance(claim, GaussianDP) else None
    points = [] if mu is not None else _points(claim)
    best: tuple[float, Event, bool] | None = None
    for view in views_of(here[:middle], there[:middle]):
        labels, counts = _label_counts(view, (here[:middle], there[:middle], here[middle:], there[middle:]))
        for swapped in (False, True):
            proposed, judged = (counts[1::-1], counts[:1:-1]) if swapped else (counts[:2], counts[2:])
            for order in _orders(proposed[0], proposed[1], view.ordered):
                p, q = np.cumsum(judged[:, order], axis=1)
                score, size = _best_prefix(p, q, here.shape[0] - middle, points, mu)
                if best is None or score > best[0]:
                    best = score, Event(view, labels[order[: size + 1]]), swapped
    if best is None:
        raise InvalidParameter("outputs", "none", "there must be something to compare", "Draw outputs on both sides.")
    return best[1], best[2]


def _orders(p: NDArray[Any], q: NDArray[Any], ordered: bool) -> list[NDArray[np.intp]]:
    """Ways to line up labels, so that the best event is a beginning of one: by likelihood ratio, or from either end."""
    by_ratio = np.argsort(-np.log((p + 0.5) / (q + 0.5)), kind="stable")
    upwards = np.arange(p.size)
    return [by_ratio, upwards, upwards[::-1]] if ordered else [by_ratio]


def _label_counts(view: View, parts: Sequence[Outputs]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The labels that occur, and how often each does in every part."""
    labelled = [view.label(part) for part in parts]
    lowest, highest = min(int(part.min()) for part in labelled), max(int(part.max()) for part in labelled)
    counts = np.array([np.bincount(part - lowest, minlength=highest - lowest + 1) for part in labelled])
    found = np.flatnonzero(counts.sum(axis=0))
    return found + lowest, counts[:, found]


def _best_prefix(p: NDArray[Any], q: NDArray[Any], trials: int, points: Points, mu: float | None) -> tuple[float, int]:
    """How far the most suspicious labels, taken together, go beyond the claim; bounds are approximate here."""
    low, high = np.maximum(_wilson(p, trials, -_CHOICE_Z), 0.0), np.minimum(_wilson(q, trials, _CHOICE_Z), 1 - 1e-16)
    margins = [] if mu is None else [ndtri(low) - ndtri(high) - mu]
    for epsilon, delta in points:
        margins.append(np.log(np.maximum(low - delta, 1e-300)) - np.log(high) - epsilon)
    stacked = np.max(np.array(margins), axis=0)
    index = int(np.argmax(stacked))
    return float(stacked[index]), index


def _wilson(count: NDArray[Any], trials: int, z: float) -> NDArray[np.float64]:
    """Wilson's limit of a probability: the lower one where z is negative."""
    share = count / trials
    spread = np.sqrt(np.maximum(share * (1 - share), 0) / trials + (z / (2 * trials)) ** 2)
    return np.asarray((share + z * z / (2 * trials) + z * spread) / (1 + z * z / trials))


def _tested(event: Event, here: Outputs, there: Outputs, claim: Claim, confidence: float) -> StatisticalAudit:
    trials = here.shape[0]
    k, m = event.count(here), event.count(there)
    alpha = (1 - confidence) / 2
    share = min(max(k / trials, 1 / trials), 1 - 1 / trials)
    if isinstance(claim, GaussianDP):
        claimed, delta, bound = claim.mu, None, float(certified_mu(k, m, trials, alpha))
        detectable = smallest_mu(share, trials, alpha, claimed)
    else:
        points = _points(claim)
        bounds = [float(certified_epsilon(k, m, trials, alpha, delta)) for _, delta in points]
        worst = int(np.argmax([bound - epsilon for bound, (epsilon, _) in zip(bounds, points, strict=True)]))
        (claimed, delta), bound = points[worst], bounds[worst]
        detectable = smallest_excess(share, trials, alpha, claimed)
    return StatisticalAudit(
        claimed=claimed,
        certified=bound,
        at_delta=delta,
        event=str(event),
        draws=2 * trials,
        confidence=confidence,
        detectable=detectable,
    )
