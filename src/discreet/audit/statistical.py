"""Statistical audit: the code that really runs, as a black box.

Draws are taken on two neighbouring inputs. One half of them chooses the event that tells the neighbours apart best; the
other half says how often it happens, and a Clopper–Pearson bound turns that into an ε which the claim must exceed. The
bound is wrong with probability at most ``1 − confidence``, whatever the mechanism is.
"""

from __future__ import annotations

import gc
import math
import os
import pickle
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from statistics import NormalDist
from threading import Thread
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from discreet.audit.report import Audit
from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, Profile, PureDP
from discreet.core.noise import sampler
from discreet.core.noise.sampler import Words
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.bounded.gaussian import BoundedGaussian
from discreet.mechanisms.bounded.laplace import BoundaryInflatedLaplace, BoundedLaplace
from discreet.mechanisms.box_noise import BoxNoise
from discreet.mechanisms.choices.selection import ExponentialMechanism, PermuteAndFlip, ReportNoisyMax
from discreet.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.geometric import Geometric
from discreet.mechanisms.laplace import Laplace
from discreet.mechanisms.mechanism import Mechanism
from discreet.mechanisms.staircase import Staircase
from discreet.mechanisms.tables.james_stein import JamesSteinGaussian, RankDeficientGaussian

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
    low, _ = clopper_pearson(first, trials, alpha)
    _, high = clopper_pearson(second, trials, alpha)
    return ndtri(low) - ndtri(high)


def smallest_excess(p: float, trials: int, alpha: float, epsilon: float, power: float = 0.99) -> float:
    """The smallest true ε above the claim that an event of probability ``p`` reveals with probability ``power``.

    The event has probability p on one neighbour and p·e^(−ε′) on the other; normal approximation of both log
    frequencies, which is accurate for the counts of an audit (thousands).
    """

    def errors(excess: float) -> tuple[float, float]:
        q = p * math.exp(-excess)
        return math.sqrt((1 - p) / (p * trials)), math.sqrt((1 - q) / (q * trials))

    return _beyond(epsilon, 50, errors, alpha, power)


def smallest_mu(p: float, trials: int, alpha: float, mu: float, power: float = 0.99) -> float:
    """As `smallest_excess`, for a claim of μ-GDP."""
    from scipy.special import ndtr

    def errors(excess: float) -> tuple[float, float]:
        places = np.array([float(ndtri(p)), float(ndtri(p)) - excess])
        slopes = np.exp(-(places**2) / 2) / math.sqrt(2 * math.pi)
        shares = ndtr(places)
        here, there = np.sqrt(shares * (1 - shares) / trials) / np.maximum(slopes, 1e-12)
        return float(here), float(there)

    return _beyond(mu, 20, errors, alpha, power)


def _beyond(
    claimed: float, most: float, errors: Callable[[float], tuple[float, float]], alpha: float, power: float
) -> float:
    """The fixed point of what passes both limits; infinite where it is more than ``most`` above the claim."""
    margin = -float(ndtri(alpha))
    luck = float(ndtri(power))
    excess = claimed
    for _ in range(60):
        here, there = errors(excess)
        # Both limits must be passed, so their margins add; chance moves both counts independently.
        excess = claimed + margin * (here + there) + luck * math.hypot(here, there)
        if excess > claimed + most:
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
        """The number of outputs in the event."""
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
    size = _cut(values, np.linspace(0, 1, _BINS + 1)[1:-1])
    tails = _cut(values, np.concatenate([_LEVELS, 1 - _LEVELS]))
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
    """Views of several coordinates together, which one record may move at once."""
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
    size = _cut(values, np.linspace(0, 1, _BINS + 1)[1:-1])
    tails = _cut(values, np.concatenate([_LEVELS, 1 - _LEVELS]))
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


def audit_pair(first: Draw, second: Draw, claim: Claim, *, draws: int = 1_000_000, confidence: float = 0.999) -> Audit:
    """Audit any callable: ``first(n)`` and ``second(n)`` return n outputs on two neighbouring inputs.

    Outputs are numbers, rows of numbers, or whole numbers that stand for choices. The audit holds a ``certified`` lower
    bound on ε at the claim's δ for that ε (``at_delta``), or on μ where μ-GDP is claimed (``symbol`` says which), what
    is ``bound`` to be compared with it, the ``event`` that told the neighbours apart best, and the smallest true ε or
    μ that would have been ``detectable`` with 99 % probability by the same event.

    Examples
    --------
    >>> from discreet import PureDP
    >>> from discreet.mechanisms import Laplace
    >>> law = Laplace(1.0).law
    >>> audit_pair(lambda n: law(0.0).sample(n), lambda n: law(1.0).sample(n), PureDP(1.0), draws=20_000).passed
    True
    >>> audit_pair(lambda n: law(0.0).sample(n), lambda n: law(2.0).sample(n), PureDP(1.0), draws=20_000).passed
    False
    """
    count = requirements.positive_integer("draws", draws, at_least=1000)
    return audit_draws(first(count), second(count), claim, confidence=confidence)


def audit_draws(first: Any, second: Any, claim: Claim, *, confidence: float = 0.999) -> Audit:
    """The same for draws that were made already."""
    requirements.instance("claim", claim, (Guarantee, Profile), "a guarantee such as PureDP(1.0)")
    level = requirements.level(confidence)
    here, there = _rows("first", first), _rows("second", second)
    if here.shape != there.shape or here.shape[0] < 1000:
        rule = "must be equally many on both sides, at least 1000"
        raise InvalidParameter("draws", (here.shape, there.shape), rule, "Draw more.")
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
    lowest = min(int(part.min()) for part in labelled)
    highest = max(int(part.max()) for part in labelled)
    counts = np.array([np.bincount(part - lowest, minlength=highest - lowest + 1) for part in labelled])
    found = np.flatnonzero(counts.sum(axis=0))
    return found + lowest, counts[:, found]


def _best_prefix(p: NDArray[Any], q: NDArray[Any], trials: int, points: Points, mu: float | None) -> tuple[float, int]:
    """The distance by which the most suspicious labels together exceed the claim; bounds are approximate here."""
    low = np.maximum(_wilson(p, trials, -_CHOICE_Z), 0.0)
    high = np.minimum(_wilson(q, trials, _CHOICE_Z), 1 - 1e-16)
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


def _tested(event: Event, here: Outputs, there: Outputs, claim: Claim, confidence: float) -> Audit:
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
    symbol, at = ("μ", "") if delta is None else ("ε", f", δ {delta:.2g}" if delta else "")
    certain = f"{symbol} ≥ {bound:.4f}" if bound > 0 else "nothing certified"
    findings = () if bound <= claimed else (f"refuted by {event}",)
    measured = {
        "symbol": symbol, "bound": claimed, "certified": bound, "at_delta": delta, "event": str(event),
        "draws": 2 * trials, "confidence": confidence, "detectable": detectable,
    }  # fmt: skip
    reached = bound / claimed if claimed > 0 else 0.0
    return Audit("statistical", "draws", f"{symbol} {claimed:.4g}{at}", certain, findings, reached, measured)


# ---- Repetition audit: noise that comes twice protects nobody.
#
# A release is made many times: one after another, after the global random generators were set to a fixed state, in two
# threads of which one runs at every line of the other, and in forked processes. Single values of a continuous mechanism
# on a fine grid do coincide now and then: among 456 draws on a grid of 2⁻²⁰ of the scale in 2 of 100 audits. So *three
# values in a row* are compared. With N values in all, of which any two are equal with probability c, sound noise is
# suspected with probability N²c³/2 at most: 2e-13 for N = 5,000 and c = 2.4e-7, the Laplace mechanism's, and below 1e-9
# wherever c is below 1e-5.


_BYTES = 1 << 20
_ROW = 3
_NOISE = str(Path(sampler.__file__).parent)
_MOST_LINES = 400
_PATIENCE = 0.1
"""Seconds to wait for a thread that a lock may hold; a sound lock makes the audit slower, and no worse."""


def audit_repetition(draw: Callable[[], Any], *, times: int = 50, forks: int = 8) -> Audit:
    """Call ``draw`` in a row, with reset global generators, in threads and in forks; look for noise seen before.

    Parameters
    ----------
    draw
        Draws noise on a fine grid: one number or an array.

    Examples
    --------
    >>> from discreet.mechanisms import Laplace
    >>> audit_repetition(lambda: Laplace(1.0).draw([0.0] * 8), forks=2).passed
    True
    """
    seen: set[tuple[float, ...]] = set()
    repeats, draws, where = 0, 0, None
    for source, values in _sources(draw, times, forks):
        draws += len(values)
        for start in range(len(values) - _ROW + 1):
            row = tuple(values[start : start + _ROW])
            if row in seen:
                repeats, where = repeats + 1, where or source
            seen.add(row)
    findings = (f"noise repeats {where}",) if where else ()
    measured = {"repeats": repeats, "draws": draws, "where": where}
    return Audit("randomness", "noise", "all new", f"{repeats} of {draws} repeat", findings, measured=measured)


def _sources(draw: Callable[[], Any], times: int, forks: int) -> Iterator[tuple[str, Sequence[float]]]:
    yield "between calls", [value for _ in range(times) for value in _values(draw())]
    for _ in range(min(times, 5)):
        yield "after the global generators were reset", _reset_values(draw)
    for values in _interleaved_values(draw):
        yield "between threads", values
    if hasattr(os, "fork"):
        for values in _forked_values(draw, forks):
            yield "between forked processes", values


def _interleaved_values(draw: Callable[[], Any]) -> Iterator[Sequence[float]]:
    """The draws of two threads, the second of which draws while the first stands at a line of the noise's own code.

    Every line has its turn, so what a pool without a lock hands out twice is seen in every run and not by luck.
    """
    for stop in range(_MOST_LINES):
        found, passed = interleaved(lambda: _row_of_values(draw), stop, _NOISE)
        yield from found
        if not passed:  # there are no more lines
            return


def interleaved(call: Callable[[], Any], stop: int, place: str) -> tuple[list[Any], bool]:
    """The results of one call in two threads; the second calls while the first stands at line number ``stop``.

    Lines are those of files whose paths begin with ``place``; also whether there are so many.
    """
    lines, found = 0, list[Any]()
    second = Thread(target=lambda: found.append(call()))

    def at_line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        if event == "line":
            if lines == stop:
                second.start()
                second.join(_PATIENCE)  # it waits where a lock is held, as it should
            lines += 1
        return at_line

    def entered(frame: FrameType, event: str, argument: Any) -> Any:
        return at_line if frame.f_code.co_filename.startswith(place) else None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        found.append(call())
    finally:
        sys.settrace(before)
    if lines <= stop:
        second.start()
    second.join()
    return found, lines > stop


def _row_of_values(draw: Callable[[], Any]) -> list[float]:
    """The draws of one call, or of as many calls as make a row."""
    values = _values(draw())
    while len(values) < _ROW:
        values += _values(draw())
    return values


def _values(output: Any) -> list[float]:
    return [float(value) for value in np.asarray(output, dtype=float).ravel()]


def _reset_values(draw: Callable[[], Any]) -> list[float]:
    states = random.getstate(), np.random.get_state()  # noqa: NPY002  (the global state is what is audited)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    try:
        return _row_of_values(draw)
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002


def _forked_values(draw: Callable[[], Any], forks: int) -> list[Sequence[float]]:
    """The draws of as many children; every child ends at once, without running anything of the parent's."""
    readers: list[tuple[int, int]] = []
    for _ in range(forks):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            _send(draw, write)
        os.close(write)
        readers.append((read, child))
    return [_received(read, child) for read, child in readers]


def _send(draw: Callable[[], Any], write: int) -> None:
    try:
        os.write(write, pickle.dumps(_row_of_values(draw)))
    finally:
        os._exit(0)


def _received(read: int, child: int) -> Sequence[float]:
    parts = []
    while part := os.read(read, _BYTES):
        parts.append(part)
    os.close(read)
    os.waitpid(child, 0)
    values: Sequence[float] = pickle.loads(b"".join(parts)) if parts else []
    return values


# ---- Garbage collection: put off while a call is traced, interrupted or timed.


@contextmanager
def no_collection() -> Iterator[None]:
    """Collect no garbage meanwhile: the finalizers of whatever is due would be taken for a part of the call."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


# ---- Timing audit: whether the time a release takes tells anything about the secret value.


def audit_timing(
    first: Callable[[], Any],
    second: Callable[[], Any],
    *,
    repeats: int = 5000,
    effect: float = 0.02,
    confidence: float = 0.999,
) -> Audit:
    """Time two calls that differ in the secret only, in pairs, and count which of the two took longer.

    The two calls of a pair follow each other at once, in random order, so that what else the machine does slows both
    alike: load widens the interval, but cannot pass for a difference. Only the order of the two times counts, so
    that single interruptions do not matter either: the AUC is the probability that a run on the second input takes
    longer than the one beside it, and 0.5 ± ``effect`` counts as alike.
    """
    count = requirements.positive_integer("repeats", repeats, at_least=100)
    width = requirements.probability("effect", effect)
    swapped = np.random.default_rng().integers(0, 2, count).astype(bool)
    for call in (first, second):
        call()
    with no_collection():
        times = np.array([_pair(second, first) if swap else _pair(first, second) for swap in swapped])
    slower = np.sign(times[:, 1] - times[:, 0]) * np.where(swapped, -1, 1)  # 1 where the second input took longer
    auc = float((slower.mean() + 1) / 2)
    deviations = NormalDist().inv_cdf((1 + requirements.level(confidence)) / 2)
    spread = deviations * float(slower.std()) / 2 / math.sqrt(count)
    low, high = auc - spread, auc + spread
    alike = low <= 0.5 + width and high >= 0.5 - width
    found = f"{auc:.3f} ({low:.3f}–{high:.3f})"
    findings = () if alike else ("the time depends on the secret",)
    measured = {"auc": auc, "low": low, "high": high, "repeats": count, "confidence": confidence}
    claimed = f"{0.5 - width:.2f} to {0.5 + width:.2f}"
    return Audit("timing", "AUC of running times", claimed, found, findings, measured=measured)


def _pair(first: Callable[[], Any], second: Callable[[], Any]) -> tuple[int, int]:
    start = time.perf_counter_ns()
    first()
    middle = time.perf_counter_ns()
    second()
    return middle - start, time.perf_counter_ns() - middle


# ---- Timing cases: calls that differ in the secret only


Call = Callable[[], Any]


def timing_cases() -> Iterator[tuple[str, Call, Call]]:
    """Small against large truths, centres at the edge against the middle, clear against close winners."""
    bounded = BoundedLaplace.calibrate(PureDP(1.0), Sensitivity(l1=0.1), bounds=(0, 1))
    inflated = BoundaryInflatedLaplace.calibrate(PureDP(1.0), Sensitivity(l1=0.1), bounds=(0, 1))
    pairs: list[tuple[str, Mechanism, Any, Any]] = [
        ("Laplace: small, large", Laplace(1.0), 0.0, 1e6), ("Laplace: a float, a third", Laplace(1.0), Fraction(1, 2),
        Fraction(1, 3)), ("geometric: small, large", Geometric(1.0), 0, 10**6), ("staircase: small, large",
        Staircase.calibrate(PureDP(3.0), Sensitivity(l1=1.0)), 0.0, 1e6), ("Gaussian: small, large",
        Gaussian(1.0), 0.0, 1e6), ("box noise: small, large", BoxNoise(1.0, 2), [0.0, 0.0], [1e6, 1e6]),
        ("discrete Gaussian: small, large", DiscreteGaussian(1.0), 0, 10**6), ("bounded Laplace: edge, middle",
        bounded, 0.0, 0.5), ("boundary-inflated: edge, middle", inflated, 0.0, 0.5), ("bounded Gaussian: edge, middle",
        BoundedGaussian(scale=0.1, bounds=(0, 1)), 0.0, 0.5), ("exponential: close, clear",
        ExponentialMechanism(1.0), [5, 5, 5, 5], [0, 0, 0, 9]), ("permute-and-flip: close, clear",
        PermuteAndFlip(1.0), [5, 5, 5, 5], [0, 0, 0, 9]), ("noisy max: close, clear", ReportNoisyMax(1.0), [5, 5, 5,
        5], [0, 0, 0, 9]), ("rank-deficient: flat, uneven", RankDeficientGaussian(scale=1.0), [5, 5, 5, 5], [0, 0, 0,
        20]), ("James-Stein: flat, uneven", JamesSteinGaussian(scale=1.0), [5, 5, 5, 5], [0, 0, 0, 20]),
    ]  # fmt: skip
    for name, mechanism, here, there in pairs:
        yield name, _draw(mechanism, here), _draw(mechanism, there)
    yield "Laplace: small, large noise", *_by_noise(Laplace(1.0))
    yield "bounded Laplace: small, large noise", *_by_noise(bounded)


def _draw(mechanism: Mechanism, truth: Any) -> Call:
    return lambda: mechanism.draw(truth)


def _by_noise(mechanism: Mechanism) -> tuple[Call, Call]:
    """Draws whose words make the noise small, and draws whose words make it large."""
    law: Any = mechanism.law(0.5)
    random = np.random.default_rng()

    class Chosen:
        """Words near the middle of the distribution, or in its tails."""

        def __init__(self, low: float, high: float) -> None:
            self.ends = int(low * 2**63), int(high * 2**63)

        def words(self, count: int) -> Words:
            return random.integers(*self.ends, count, dtype=np.uint64)

    small, large = Chosen(0.4, 0.6), Chosen(0.001, 0.01)
    return lambda: law.sample(entropy=small), lambda: law.sample(entropy=large)
