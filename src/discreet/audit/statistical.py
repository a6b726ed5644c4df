"""Statistical audit: the code that really runs, as a black box.

Draws are taken on two neighbouring inputs. One half of them chooses the event that tells the neighbours apart best; the
other half says how often it happens, and a Clopper–Pearson bound turns that into an ε which the claim must exceed. The
bound is wrong with probability at most ``1 − confidence``, whatever the mechanism is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee
from discreet.core.privacy_profile import Profile
from discreet.display import Facts, number
from discreet.result import Result

__all__ = [
    "Event", "StatisticalAudit", "View", "audit_draws", "audit_pair", "certified_epsilon", "certified_mu",
    "clopper_pearson", "smallest_excess", "smallest_mu", "views_of",
]  # fmt: skip


# ---- Bounds: what two counts certify about a privacy loss


Array = NDArray[np.float64]


def clopper_pearson(successes: ArrayLike, trials: int, alpha: float) -> tuple[Array, Array]:
    """One-sided lower and upper confidence limits of a binomial probability, each at level 1 − ``alpha``."""
    from scipy.special import betaincinv

    k = np.asarray(successes, dtype=float)
    low = np.where(k > 0, betaincinv(np.maximum(k, 1), trials - k + 1, alpha), 0.0)
    high = np.where(k < trials, betaincinv(k + 1, np.maximum(trials - k, 1), 1 - alpha), 1.0)
    return low, high


def certified_epsilon(first: ArrayLike, second: ArrayLike, trials: int, alpha: float, delta: float = 0.0) -> Any:
    """The ε that any (ε, δ) claim must exceed, given how often an event happened on two neighbours.

    Valid with probability 1 − 2·``alpha`` for an event that was fixed before these draws were looked at.
    """
    low, _ = clopper_pearson(first, trials, alpha)
    _, high = clopper_pearson(second, trials, alpha)
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(low - delta, 0.0)) - np.log(high)


def certified_mu(first: ArrayLike, second: ArrayLike, trials: int, alpha: float) -> Any:
    """The μ that any μ-GDP claim must exceed: a test that errs with α and β has Φ⁻¹(1−β) − Φ⁻¹(α) ≤ μ."""
    from scipy.special import ndtri

    low, _ = clopper_pearson(first, trials, alpha)
    _, high = clopper_pearson(second, trials, alpha)
    return ndtri(low) - ndtri(high)


def smallest_excess(p: float, trials: int, alpha: float, epsilon: float, power: float = 0.99) -> float:
    """The smallest true ε above the claim that an event of probability ``p`` reveals with probability ``power``.

    The event has probability p on one neighbour and p·e^(−ε′) on the other; normal approximation of both log
    frequencies, which is accurate for the counts of an audit (thousands).
    """
    from scipy.special import ndtri

    margin, luck = -float(ndtri(alpha)), float(ndtri(power))
    excess = epsilon
    for _ in range(60):
        q = p * math.exp(-excess)
        here, there = math.sqrt((1 - p) / (p * trials)), math.sqrt((1 - q) / (q * trials))
        # Both limits must be passed, so their margins add; chance moves both counts independently.
        excess = epsilon + margin * (here + there) + luck * math.hypot(here, there)
        if excess > epsilon + 50:
            return math.inf
    return excess


def smallest_mu(p: float, trials: int, alpha: float, mu: float, power: float = 0.99) -> float:
    """As `smallest_excess`, for a claim of μ-GDP."""
    from scipy.special import ndtr, ndtri

    margin, luck = -float(ndtri(alpha)), float(ndtri(power))
    excess = mu
    for _ in range(60):
        places = float(ndtri(p)), float(ndtri(p)) - excess
        slopes = [math.exp(-z * z / 2) / math.sqrt(2 * math.pi) for z in places]
        shares = [float(ndtr(z)) for z in places]
        here, there = (
            math.sqrt(share * (1 - share) / trials) / max(slope, 1e-12)
            for share, slope in zip(shares, slopes, strict=True)
        )
        excess = mu + margin * (here + there) + luck * math.hypot(here, there)
        if excess > mu + 20:
            return math.inf
    return excess


# ---- Events: what an attacker may look for in a released number
#
# A *view* turns outputs into labels: their size, their bits, their place on grids, the pattern of their trailing zeros,
# and for rows of numbers what tells two neighbours apart jointly. An *event* is a set of labels of one view. Views and
# events are learned from one half of the draws and tested on the other.


Outputs = NDArray[np.float64]
Labels = NDArray[np.int64]

_BINS = 64
_COARSE = 12
_LOW_BITS = 8
_FEW_COLUMNS = 4
_ATOMS = 256
_LEVELS = np.array([1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2])


@dataclass(frozen=True)
class View:
    """A named function from outputs to small whole numbers; ``ordered`` where these have a natural order."""

    name: str
    label: Callable[[Outputs], Labels]
    ordered: bool = False


@dataclass(frozen=True)
class Event:
    """A set of labels of one view."""

    view: View
    labels: NDArray[np.int64]

    def count(self, outputs: Outputs) -> int:
        """How many outputs fall into the event."""
        return int(np.isin(self.view.label(outputs), self.labels).sum())

    def __str__(self) -> str:
        return f"{self.view.name}: {self.labels.size} of its labels"


def views_of(here: Outputs, there: Outputs) -> list[View]:
    """Views that suit outputs such as these (draws in rows, coordinates in columns)."""
    both = np.concatenate([here, there])
    columns = both.shape[1]
    views: list[View] = []
    for column in range(columns):
        suffix = f" of coordinate {column}" if columns > 1 else ""
        views += _scalar_views(both[:, column], column, suffix)
    if columns > 1:
        views += _joint_views(here, there)
    return views


def _scalar_views(values: Outputs, column: int, suffix: str) -> list[View]:
    if np.unique(values[:: max(1, values.size // 4096)]).size <= _ATOMS:
        atoms = np.unique(values)
        if atoms.size <= 4096:
            return [View(f"value{suffix}", lambda x: _position(x[:, column], atoms), ordered=True)]
    size, tails = _cut(values, np.linspace(0, 1, _BINS + 1)[1:-1]), _cut(values, np.concatenate([_LEVELS, 1 - _LEVELS]))
    return [
        View(f"size{suffix}", lambda x: size(x[:, column]), ordered=True),
        View(f"tails{suffix}", lambda x: tails(x[:, column]), ordered=True),
        View(f"low bits{suffix}", lambda x: _low_bits(x[:, column])),
        View(f"trailing zeros{suffix}", lambda x: _trailing_zeros(x[:, column]), ordered=True),
        View(f"exponent{suffix}", lambda x: np.frexp(x[:, column])[1].astype(np.int64), ordered=True),
    ]


def _cut(values: Outputs, shares: NDArray[np.float64]) -> Callable[[Outputs], Labels]:
    """Places between the quantiles of some values."""
    edges = np.unique(np.quantile(values, shares))
    return lambda x: np.searchsorted(edges, x, side="right").astype(np.int64)


def _position(values: Outputs, atoms: Outputs) -> Labels:
    """Index among known values; values that were never seen share the label −1."""
    index = np.searchsorted(atoms, values)
    known = (index < atoms.size) & (atoms[np.minimum(index, atoms.size - 1)] == values)
    return np.where(known, index, -1).astype(np.int64)


def _mantissa(values: Outputs) -> NDArray[np.uint64]:
    return np.ascontiguousarray(values).view(np.uint64) & np.uint64(2**52 - 1)


def _low_bits(values: Outputs) -> Labels:
    return (_mantissa(values) & np.uint64(2**_LOW_BITS - 1)).astype(np.int64)


def _trailing_zeros(values: Outputs) -> Labels:
    """Power of the largest power of two that divides the number: on which grid it lies."""
    mantissa = _mantissa(values) | np.uint64(2**52)
    lowest = mantissa & (~mantissa + np.uint64(1))
    zeros = np.frexp(lowest.astype(float))[1] - 1
    return np.asarray(np.frexp(values)[1] - 53 + zeros, dtype=np.int64)


# ---- rows of numbers ----------------------------------------------------------------------------------------------


def _joint_views(here: Outputs, there: Outputs) -> list[View]:
    """What one record that moves several coordinates shifts together."""
    both = np.concatenate([here, there])
    views = [
        *_scored("total", lambda x: x.sum(axis=1), both),
        *_scored("linear discriminant", _discriminant(here, there), both),
        *_scored("likelihood ratio", _likelihood_ratio(here, there), both),
        View("place of the largest", lambda x: np.argmax(x, axis=1).astype(np.int64)),
    ]
    if both.shape[1] <= 2 * _FEW_COLUMNS:
        medians = np.median(both, axis=0)
        weights = 2 ** np.arange(both.shape[1])
        views.append(View("above the medians", lambda x: ((x > medians) @ weights).astype(np.int64)))
    if both.shape[1] <= _FEW_COLUMNS:
        views += list(_pairs(both))
    return views


def _scored(name: str, score: Callable[[Outputs], Outputs], both: Outputs) -> list[View]:
    """A number made of all coordinates, cut into equal shares and into tails."""
    values = score(both)
    size, tails = _cut(values, np.linspace(0, 1, _BINS + 1)[1:-1]), _cut(values, np.concatenate([_LEVELS, 1 - _LEVELS]))
    return [
        View(name, lambda x: size(score(x)), ordered=True),
        View(f"tails of the {name}", lambda x: tails(score(x)), ordered=True),
    ]


def _discriminant(here: Outputs, there: Outputs) -> Callable[[Outputs], Outputs]:
    """Fisher's direction. A hair of ridge keeps directions without noise, where all is told, in play."""
    spread = np.cov(np.concatenate([here - here.mean(axis=0), there - there.mean(axis=0)]), rowvar=False)
    spread = np.atleast_2d(spread) + 1e-12 * (np.trace(np.atleast_2d(spread)) + 1e-300) * np.eye(here.shape[1])
    direction = np.linalg.lstsq(spread, there.mean(axis=0) - here.mean(axis=0), rcond=None)[0]
    largest = float(np.abs(direction).max())
    unit = direction / largest if largest > 0 else direction
    return lambda x: np.asarray(x @ unit)


def _likelihood_ratio(here: Outputs, there: Outputs) -> Callable[[Outputs], Outputs]:
    """Sum of the coordinates' own log-ratios, from histograms: the best score where coordinates are independent."""
    parts = []
    for column in range(here.shape[1]):
        cut = _cut(np.concatenate([here[:, column], there[:, column]]), np.linspace(0, 1, _BINS + 1)[1:-1])
        counts = [np.bincount(cut(side[:, column]), minlength=_BINS) + 1.0 for side in (here, there)]
        parts.append((column, cut, np.log(counts[1] / counts[0])))
    return lambda x: np.sum([ratios[cut(x[:, column])] for column, cut, ratios in parts], axis=0)


def _pairs(both: Outputs) -> Iterator[View]:
    """Joint histograms of two coordinates."""
    cuts = [_cut(column, np.linspace(0, 1, _COARSE + 1)[1:-1]) for column in both.T]
    for i, j in combinations(range(len(cuts)), 2):

        def label(x: Outputs, i: int = i, j: int = j) -> Labels:
            return cuts[i](x[:, i]) * _COARSE + cuts[j](x[:, j])

        yield View(f"coordinates {i} and {j}", label)


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
