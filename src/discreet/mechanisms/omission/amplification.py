"""Amplification: what leaving records out before a mechanism does to its guarantee, and the inverse.

Each function takes the guarantee of the mechanism M and returns that of M∘S, where S omits records with secret
randomness; its inverse (``before_…``) takes the guarantee that M∘S must meet and returns what M may spend.
Proofs: ``docs/proofs/amplification.md``. General suppression algorithms are evaluated in
`discreet.mechanisms.omission.step`.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeVar, cast

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, NoConversion, WrongType
from discreet.core.guarantee import HUGE_EPSILON, ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.numbers import ball, decimal, down, greatest, precisely, up
from discreet.core.protection import Neighbours

# ---- The ε of outlier-score suppression: miranda2026, Theorem 5.4, in a form that is concave and so easy to certify
#
# With w = M − m, κ = 1 − m, μ = 1 − M, E = e^ε and s the mean excess distance of the neighbour's record, the two
# families of the theorem are (l₁ at p = s/w, l₂ at p = 2 − w/s)
#
#     l₁(s) = ln(E − (E − 1)(m + s)) + s/m + (1 − s/w)·s/(κ − s)            0 ≤ s ≤ w
#     l₂(s) = ln(E − (E − 1)(m + s)) + (w − s)/μ + 2w/m − w²/(m·s)        w/2 ≤ s ≤ w
#
# Both are concave in s, so a tangent at any point bounds the maximum: no search needs to be trusted. The reverse
# direction adds three closed forms. ``docs/proofs/amplification.md`` has the derivation.


Array = NDArray[np.float64]
Concave = Callable[[arb], tuple[arb, arb]]


def _log_slope(e: Array, m: Array, s: Array) -> Array:
    """Derivative of ln(E − (E − 1)(m + s)), without overflow for large ε."""
    shrink = np.exp(-e)
    return -(1 - shrink) / (1 - (1 - shrink) * (m + s))


def _slope_one(e: Array, m: Array, M: Array, s: Array) -> Array:
    w, k = M - m, 1 - m
    return _log_slope(e, m, s) + 1 / m + ((1 - 2 * s / w) * (k - s) + (1 - s / w) * s) / (k - s) ** 2


def _slope_two(e: Array, m: Array, M: Array, s: Array) -> Array:
    w = M - m
    return _log_slope(e, m, s) - 1 / (1 - M) + w**2 / (m * s**2)


def _stationary(slope: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Where a decreasing slope changes sign, clipped to [low, high]."""
    left, right = low.copy(), high.copy()
    for _ in range(60):
        middle = (left + right) / 2
        rising = slope(middle) > 0
        left, right = np.where(rising, middle, left), np.where(rising, right, middle)
    return np.where(slope(low) <= 0, low, np.where(slope(high) >= 0, high, (left + right) / 2))


def _peaks(e: Array, m: Array, M: Array) -> tuple[Array, Array]:
    """Maximisers of l₁ and l₂."""
    w = M - m
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        one = _stationary(lambda s: _slope_one(e, m, M, s), np.zeros_like(w), w)
        two = _stationary(lambda s: _slope_two(e, m, M, s), w / 2, w)
    return one, two


def outlier_epsilon(epsilon: ArrayLike, m: ArrayLike, M: ArrayLike) -> float | Array:
    """ε^S(ε, m, M) in floating point, element by element, for plots and plans.

    Examples
    --------
    >>> outlier_epsilon(1.0, [0.1, 0.4], [0.3, 0.5]).round(6).tolist()
    [2.789728, 0.871989]
    """
    e, low, high = np.broadcast_arrays(*(np.asarray(value, dtype=float) for value in (epsilon, m, M)))
    w, k, mu = high - low, 1 - low, 1 - high
    s, t = _peaks(e, low, high)
    apart = w > 0
    safe = np.where(apart, w, 1.0)
    shrink = np.exp(-e)

    def keep(a: Array) -> Array:
        return np.asarray(e + np.log1p(-(1 - shrink) * a))

    def lose(a: Array) -> Array:
        return np.asarray(-np.log(shrink + (1 - shrink) * a))

    one = keep(low + s) + s / low + (1 - s / safe) * s / (k - s)
    two = keep(low + t) + (w - t) / mu + 2 * w / low - np.where(apart, w**2 / (low * np.where(apart, t, 1.0)), 0.0)
    b = w / k
    back = np.maximum.reduce([lose(high) + b, lose(low) + w / high, lose((low + high) / 2) + b * (1 + b) / 2])
    values = np.where(apart, np.maximum.reduce([one, two, back]), keep(low))
    return float(values) if values.ndim == 0 else values


def outlier_epsilon_up(epsilon: float, m: float, M: float) -> float:
    """ε^S(ε, m, M), never rounded down."""
    peaks = [float(peak) for peak in _peaks(*(np.asarray(float(value)) for value in (epsilon, m, M)))]
    with precisely():
        e, low, high = (ball(decimal(value)) for value in (epsilon, m, M))
        E = e.exp()
        if decimal(m) == decimal(M):
            return max(0.0, up((E - (E - 1) * low).log()))
        w, k, mu = high - low, 1 - low, 1 - high
        bounds = [
            _tangent(_one(E, low, w, k), peaks[0], arb(0), w),
            _tangent(_two(E, low, w, mu), peaks[1], w / 2, w),
            *_reverse(E, low, high, w, k),
        ]
        return max(up(bound) for bound in bounds)


def _one(E: arb, m: arb, w: arb, k: arb) -> Concave:
    """l₁ and its derivative."""

    def value(s: arb) -> tuple[arb, arb]:
        inner = E - (E - 1) * (m + s)
        height = inner.log() + s / m + (1 - s / w) * s / (k - s)
        slope = -(E - 1) / inner + 1 / m + ((1 - 2 * s / w) * (k - s) + (1 - s / w) * s) / (k - s) ** 2
        return height, slope

    return value


def _two(E: arb, m: arb, w: arb, mu: arb) -> Concave:
    """l₂ and its derivative."""

    def value(s: arb) -> tuple[arb, arb]:
        inner = E - (E - 1) * (m + s)
        height = inner.log() + (w - s) / mu + 2 * w / m - w**2 / (m * s)
        return height, -(E - 1) / inner - 1 / mu + w**2 / (m * s**2)

    return value


def _tangent(value: Concave, peak: float, low: arb, high: arb) -> arb:
    """Upper bound of a concave function on [low, high] by its tangent at (about) ``peak``."""
    at = ball(peak)
    at = low if not at > low else high if not at < high else at
    height, slope = value(at)
    return height + (slope * (high - at)).max(slope * (low - at)).max(arb(0))


def _reverse(E: arb, m: arb, M: arb, w: arb, k: arb) -> list[arb]:
    """Bounds for the direction in which the record is absent first: l₃, its twin at m, and one for small data."""
    b = w / k

    def lose(a: arb) -> arb:
        return -(1 / E + (1 - 1 / E) * a).log()

    return [lose(M) + b, lose(m) + w / M, lose((m + M) / 2) + b * (1 + b) / 2]


G = TypeVar("G", bound=Guarantee)
Curve = float | NDArray[np.float64]


def _own_parameters(guarantee: Any, procedure: str) -> tuple[float, float]:
    """(ε, δ) of a pure or approximate guarantee; other kinds have no known tight answer."""
    requirements.instance("guarantee", guarantee, Guarantee, "PureDP(1.0) or ApproxDP(1.0, 1e-6)")
    if isinstance(guarantee, PureDP):
        return guarantee.epsilon, 0.0
    if isinstance(guarantee, ApproxDP):
        return guarantee.epsilon, guarantee.delta
    raise NoConversion(
        f"{procedure} does not turn {guarantee} into another {type(guarantee).__name__}. "
        "State it as ApproxDP with guarantee.to(ApproxDP, delta=…), or amplify the whole privacy curve "
        "with discreet.mechanisms."
    )


def _rebuilt(guarantee: G, epsilon: float, delta: float) -> G:
    if isinstance(guarantee, PureDP):
        return cast(G, PureDP(min(epsilon, HUGE_EPSILON)))
    return cast(G, ApproxDP(min(epsilon, HUGE_EPSILON), delta))


def _only(neighbours: Neighbours, wanted: Neighbours, why: str) -> None:
    requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
    if neighbours is not wanted:
        raise InvalidParameter("neighbours", neighbours, f"must be {wanted.name}: {why}", "Do not omit records here.")


def sampling_rate(rate: Any) -> float:
    """The largest of the records' sampling rates, each in (0, 1]."""
    try:
        rates = np.asarray(rate, dtype=float)
        if isinstance(rate, str) or rates.size == 0:
            raise TypeError
    except (TypeError, ValueError, OverflowError):
        raise WrongType("rate", rate, "must be a probability or an array of them", "Pass rate=0.5.") from None
    if np.asarray(rate).dtype == bool or not np.all((rates >= 0) & (rates <= 1)) or rates.max() == 0:
        raise InvalidParameter("rate", rate, "must lie in (0, 1]", "Pass the probability of keeping a record.")
    return float(rates.max())


def _sampled_up(epsilon: float, rate: Fraction) -> float:
    with precisely():
        return max(0.0, up((1 + ball(rate) * ball(decimal(epsilon)).expm1()).log()))


def _unsampled_down(epsilon: float, rate: Fraction) -> float:
    """Largest float whose amplification is certainly at most ε."""
    if epsilon == 0:
        return 0.0
    with precisely():
        return min(down((1 + ball(decimal(epsilon)).expm1() / ball(rate)).log()), HUGE_EPSILON)


def poisson_sampling(guarantee: G, rate: ArrayLike, *, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> G:
    """The guarantee of a mechanism that sees a Poisson sample of the records.

    Parameters
    ----------
    guarantee
        What the mechanism itself satisfies, between data sets that differ by one added or removed record.
    rate
        Probability with which each record is kept, independently; an array holds one rate per possible
        record, and the largest counts. Rates must not depend on the other records.
    neighbours
        Must be `Neighbours.ADD_REMOVE`.

    Guarantee
    ---------
    (ln(1 + p(e^ε − 1)), p·δ)-DP between add/remove neighbours, for the largest rate p; no smaller pair holds
    for all mechanisms (miranda2026 §2.2). ρ and μ stay as they are.

    Examples
    --------
    >>> round(poisson_sampling(PureDP(1.0), rate=0.5).epsilon, 6)
    0.620115
    """
    _only(neighbours, Neighbours.ADD_REMOVE, "a replaced record is sampled on both sides, which the theorem excludes")
    return _amplified(guarantee, decimal(sampling_rate(rate)))


def _amplified(guarantee: G, p: Fraction) -> G:
    """The guarantee on a sample that a record is in with probability at most p."""
    if isinstance(guarantee, GaussianDP | ZeroConcentratedDP):
        return guarantee  # a mixture is no easier to tell apart than its worst part; nothing smaller is claimed
    epsilon, delta = _own_parameters(guarantee, "sampling")
    return _rebuilt(guarantee, _sampled_up(epsilon, p), up(p * decimal(delta)))


def _before(guarantee: G, p: Fraction) -> G:
    if isinstance(guarantee, GaussianDP | ZeroConcentratedDP):
        return guarantee
    epsilon, delta = _own_parameters(guarantee, "sampling")
    return _rebuilt(guarantee, _unsampled_down(epsilon, p), _delta_before(delta, p))


def before_poisson_sampling(guarantee: G, rate: ArrayLike, *, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> G:
    """The guarantee that a mechanism may spend so that, on a Poisson sample, it meets ``guarantee``.

    Examples
    --------
    >>> round(before_poisson_sampling(PureDP(1.0), rate=0.5).epsilon, 6)
    1.48988
    """
    _only(neighbours, Neighbours.ADD_REMOVE, "a replaced record is sampled on both sides, which the theorem excludes")
    return _before(guarantee, decimal(sampling_rate(rate)))


def _delta_before(delta: float, share: Fraction) -> float:
    if decimal(delta) >= share:
        raise NoConversion(
            f"no budget exists: a record is kept with probability at most {float(share):g}, and δ = {delta:g} alone "
            "would pay for publishing it. Lower delta."
        )
    return down(decimal(delta) / share)


def sampled_share(size: int, population: int) -> float:
    """The share of the records that a sample of a fixed size keeps, rounded up."""
    size = requirements.positive_integer("size", size)
    population = requirements.positive_integer("population", population)
    if size > population:
        raise InvalidParameter("size", size, f"cannot exceed the population of {population}", "Sample fewer.")
    return up(Fraction(size, population))


def sampling_without_replacement(
    guarantee: G, size: int, population: int, *, neighbours: Neighbours = Neighbours.REPLACE_ONE
) -> G:
    """The guarantee of a mechanism that sees ``size`` of ``population`` records, all subsets equally likely.

    Guarantee
    ---------
    (ln(1 + p(e^ε − 1)), p·δ)-DP with p = size/population, between data sets that differ in one replaced
    record; the mechanism's own guarantee must be for replaced records too (miranda2026 §2.2).

    Examples
    --------
    >>> round(sampling_without_replacement(PureDP(1.0), 50, 100).epsilon, 6)
    0.620115
    """
    _only(neighbours, Neighbours.REPLACE_ONE, "a fixed sample size is public only where the number of records is")
    return _amplified(guarantee, decimal(sampled_share(size, population)))


def before_sampling_without_replacement(
    guarantee: G, size: int, population: int, *, neighbours: Neighbours = Neighbours.REPLACE_ONE
) -> G:
    """The guarantee that a mechanism may spend so that, on ``size`` of ``population`` records, it meets ``guarantee``.

    Examples
    --------
    >>> round(before_sampling_without_replacement(PureDP(1.0), 50, 100).epsilon, 6)
    1.48988
    """
    _only(neighbours, Neighbours.REPLACE_ONE, "a fixed sample size is public only where the number of records is")
    return _before(guarantee, decimal(sampled_share(size, population)))


def _group_delta(epsilon: float, delta: float, sensitivity: int) -> arb:
    """δ·Σ_{k<Δ} e^{kε}."""
    step = ball(decimal(epsilon))
    total: arb = sum(((step * k).exp() for k in range(sensitivity)), arb(0))
    return ball(decimal(delta)) * total


def deterministic_suppression(guarantee: Guarantee, sensitivity: int) -> Guarantee:
    """The guarantee of a mechanism behind a deterministic suppressor (miranda2026, Theorem 5.1).

    Parameters
    ----------
    guarantee
        What the mechanism satisfies **on the data sets the suppressor can leave**: where the suppressor
        narrows the domain, calibrate to the narrower one and pass that guarantee.
    sensitivity
        How many records the suppressor's output can change by when its input changes by one: 1 for rules that
        look at each record alone (``discreet.mechanisms.omission.step.suppressor_sensitivity`` finds it on small
        universes). Rules that compare records, such as "the 5 % furthest from the rest", have none.

    Guarantee
    ---------
    (Δ·ε, δ·Σ_{k<Δ} e^{kε})-DP; Δ²·ρ-zCDP; Δ·μ-GDP: group privacy for Δ records.

    Examples
    --------
    >>> deterministic_suppression(PureDP(0.5), sensitivity=2)
    PureDP(epsilon=1.0)
    """
    requirements.instance("guarantee", guarantee, Guarantee, "PureDP(1.0)")
    count = requirements.positive_integer("sensitivity", sensitivity)
    if isinstance(guarantee, ZeroConcentratedDP):
        return ZeroConcentratedDP(up(decimal(guarantee.rho) * count**2))
    if isinstance(guarantee, GaussianDP):
        return GaussianDP(up(decimal(guarantee.mu) * count))
    epsilon, delta = _own_parameters(guarantee, "deterministic suppression")
    total = up(decimal(epsilon) * count)
    if isinstance(guarantee, PureDP):
        return PureDP(total)
    with precisely():
        raised = up(_group_delta(epsilon, delta, count))
    if raised >= 1:
        raise NoConversion(f"{guarantee} gives no guarantee for groups of {count}: δ would reach 1. Lower epsilon.")
    return ApproxDP(total, raised)


def _deletion_range(m: Any, M: Any) -> tuple[float, float]:
    low = requirements.finite("m", m)
    high = requirements.finite("M", M)
    if not 0 < low < 1:
        raise InvalidParameter("m", m, "must lie strictly between 0 and 1", "At 0 and 1 no guarantee is left.")
    if not low <= high < 1:
        raise InvalidParameter("M", M, f"must lie in [m, 1) with m = {low:g}", "Pass 0 < m ≤ M < 1.")
    return low, high


def outlier_suppression(guarantee: G, m: float, M: float, *, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> G:
    """The guarantee of a mechanism that sees what outlier-score suppression leaves.

    Each record x is deleted independently with probability out_D(x) = m + (M − m)·(its mean distance to all
    records), for a distance normalised to [0, 1] (see `discreet.mechanisms.omission.step`).

    Parameters
    ----------
    guarantee
        What the mechanism itself satisfies, between add/remove neighbours.
    m, M
        Smallest and largest probability of deletion, 0 < m ≤ M < 1.
    neighbours
        Must be `Neighbours.ADD_REMOVE`.

    Guarantee
    ---------
    (ε^S, (1 − m)·δ)-DP with the ε^S of miranda2026, Theorem 5.4. The paper verifies it numerically on a grid of
    (ε, m, M); ``docs/proofs/amplification.md`` proves it for all of them. ε^S may be above ε: outliers make
    neighbours easier to tell apart.

    Examples
    --------
    >>> round(outlier_suppression(PureDP(1.0), m=0.1, M=0.3).epsilon, 6)
    2.789728
    >>> round(outlier_suppression(PureDP(1.0), m=0.5, M=0.5).epsilon, 6)  # deletes uniformly: a Poisson sample
    0.620115
    """
    _only(neighbours, Neighbours.ADD_REMOVE, "the theorem is for added and removed records")
    epsilon, delta = _own_parameters(guarantee, "outlier-score suppression")
    low, high = _deletion_range(m, M)
    raised = outlier_epsilon_up(epsilon, low, high)
    if raised > HUGE_EPSILON:
        raise InvalidParameter("M", M, f"gives ε above {HUGE_EPSILON:g} with m = {low:g}", "Bring m and M closer.")
    return _rebuilt(guarantee, raised, up((1 - decimal(low)) * decimal(delta)))


def before_outlier_suppression(
    guarantee: G, m: float, M: float, *, neighbours: Neighbours = Neighbours.ADD_REMOVE
) -> G:
    """The guarantee that a mechanism may spend so that, behind outlier-score suppression, it meets ``guarantee``.

    Raises
    ------
    NoConversion
        Where suppression alone already costs more than the target.

    Examples
    --------
    >>> round(before_outlier_suppression(PureDP(1.0), m=0.4, M=0.5).epsilon, 6)
    1.169559
    """
    _only(neighbours, Neighbours.ADD_REMOVE, "the theorem is for added and removed records")
    epsilon, delta = _own_parameters(guarantee, "outlier-score suppression")
    low, high = _deletion_range(m, M)
    floor = outlier_epsilon_up(0.0, low, high)
    if floor > epsilon:
        raise NoConversion(
            f"no budget exists: suppression with m = {low:g} and M = {high:g} costs ε = {floor:.6g} by itself, "
            f"more than the target of {epsilon:g}. Bring m and M closer, or do not suppress."
        )
    return _rebuilt(guarantee, _outlier_inner(epsilon, low, high), _delta_before(delta, 1 - decimal(low)))


def before_outlier_epsilon(epsilon: ArrayLike, m: ArrayLike, M: ArrayLike) -> Curve:
    """The inverse of `outlier_epsilon` in floating point; NaN where no budget exists.

    Examples
    --------
    >>> before_outlier_epsilon(1.0, [0.4, 0.1], [0.5, 0.3]).round(6).tolist()
    [1.169559, nan]
    """
    target, low, high = np.broadcast_arrays(*(np.asarray(value, dtype=float) for value in (epsilon, m, M)))
    left = np.zeros(target.shape)
    right = target - np.log1p(-high) + 1.0
    for _ in range(60):
        middle = (left + right) / 2
        fits = np.asarray(outlier_epsilon(middle, low, high)) <= target
        left, right = np.where(fits, middle, left), np.where(fits, right, middle)
    values = np.where(np.asarray(outlier_epsilon(0.0, low, high)) <= target, left, np.nan)
    return float(values) if values.ndim == 0 else values


@lru_cache(maxsize=256)  # a session asks for the same one at every question
def _outlier_inner(target: float, low: float, high: float) -> float:
    """Largest ε whose ε^S is within the target; ε^S grows with ε, so bisection in floats gives the guess."""

    def fits(value: float) -> bool:
        return outlier_epsilon_up(value, low, high) <= target

    if fits(HUGE_EPSILON):
        return HUGE_EPSILON
    guess = float(before_outlier_epsilon(target, low, high))
    return greatest(fits, guess) if guess > 0 else 0.0
