"""Amplified: what leaving records out does to a guarantee, in 400 bits, and which records chosen words keep."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from flint import arb, ctx

from discreet.audit.chosen_words import ChosenWords
from discreet.audit.recomputed import Compared, Recomputed, recomputed, refused
from discreet.core.guarantee import ApproxDP, GaussianDP, PureDP, ZeroConcentratedDP
from discreet.core.protection import Neighbours
from discreet.omission import OutlierSuppression, PoissonSample
from discreet.omission.amplification import (
    before_outlier_epsilon,
    before_outlier_suppression,
    before_poisson_sampling,
    deterministic_suppression,
    outlier_epsilon,
    outlier_suppression,
    poisson_sampling,
    sampling_without_replacement,
)
from discreet.omission.outliers import AbsoluteDistance

__all__ = ["audit_amplified"]

_EPSILONS = (0.01, 0.3, 1.0, 7.0)


def audit_amplified() -> Recomputed:
    """Compute amplification by sampling and suppression a second time.

    Examples
    --------
    >>> audit_amplified().passed
    True
    """
    return recomputed("Amplification", [_sampled, _sampling_rules, _grouped, _suppressed, _kept])


def _exact(number: float) -> Fraction:
    return Fraction(repr(number))


def _ball(value: Fraction) -> arb:
    return arb(value.numerator) / arb(value.denominator)


def _log_of_share(epsilon: float, share: Fraction) -> Fraction:
    """ln(1 + p(e^ε − 1)) to far more digits than a float has."""
    before = ctx.prec
    try:
        ctx.prec = 400
        found = (1 + _ball(share) * (_ball(_exact(epsilon)).exp() - 1)).log()
        mantissa, exponent = found.mid().man_exp()
        return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
    finally:
        ctx.prec = before


def _just_above(found: float, exact: Fraction) -> bool:
    """Whether a float, as the decimal it prints as, is not below a number, and the second one below it is."""
    lower = math.nextafter(math.nextafter(found, -math.inf), -math.inf)
    return _exact(found) >= exact > _exact(lower)


def _sampled() -> Iterator[Compared]:
    """Poisson samples and samples of a fixed size; and their inverses, which must never give back too much."""
    for epsilon, rate in itertools.product(_EPSILONS, (0.1, 0.25, 0.5, 0.9, 1.0)):
        wanted = _log_of_share(epsilon, _exact(rate))
        yield "a Poisson sample", _just_above(poisson_sampling(PureDP(epsilon), rate).epsilon, wanted)
        both = poisson_sampling(ApproxDP(epsilon, 0.003), rate)
        yield "a Poisson sample with δ", _just_above(both.epsilon, wanted)
        yield "δ of a Poisson sample", _just_above(both.delta, _exact(rate) * _exact(0.003))
        inner = before_poisson_sampling(ApproxDP(epsilon, 0.003), rate)
        again = poisson_sampling(inner, rate)
        yield "before a Poisson sample", again.epsilon <= epsilon and again.delta <= 0.003
        yield "far before a Poisson sample", again.epsilon > epsilon * (1 - 1e-9) and again.delta > 0.003 * (1 - 1e-9)
    for epsilon, (size, population) in itertools.product(_EPSILONS, ((1, 10), (3, 7), (50, 100), (4, 4))):
        share = Fraction(size, population)
        found = sampling_without_replacement(ApproxDP(epsilon, 0.003), size, population)
        yield "a sample of fixed size", _just_above(found.epsilon, _log_of_share(epsilon, share))
        yield "δ of a sample of fixed size", _just_above(found.delta, share * _exact(0.003))


def _sampling_rules() -> Iterator[Compared]:
    one = PureDP(1.0)
    for size, population in ((5, 4), (0, 4), (1, 0), (1.5, 4)):
        call = partial(sampling_without_replacement, one, size, population)  # type: ignore[arg-type]
        yield f"{size} of {population}", refused(call)
    wrong = {"neighbours": Neighbours.ADD_REMOVE}
    yield "a fixed size of unknown data", refused(partial(sampling_without_replacement, one, 1, 2, **wrong))
    other: dict[str, Any] = {"neighbours": Neighbours.REPLACE_ONE}
    yield "a Poisson sample of replaced rows", refused(partial(poisson_sampling, one, 0.5, **other))
    yield "suppression of replaced rows", refused(partial(outlier_suppression, one, 0.4, 0.5, **other))
    for rate in (0, 0.0, -0.1, 1.1, "x", [], True, math.nan, [0.5, 2.0]):
        yield f"a rate of {rate!r}", refused(partial(poisson_sampling, one, rate))
    yield "the largest of several rates", poisson_sampling(one, [0.1, 0.5, 0.2]) == poisson_sampling(one, 0.5)
    yield "δ that pays for a record", refused(partial(before_poisson_sampling, ApproxDP(1.0, 0.1), 0.1))
    for kind in (GaussianDP(1.0), ZeroConcentratedDP(1.0)):
        yield f"a sample under {kind}", refused(partial(poisson_sampling, kind, 0.5))  # type: ignore[type-var]
    for low, high in ((0, 0.5), (0.5, 0.4), (0.5, 1.0), (1.0, 1.0), (-0.1, 0.5)):
        yield f"deletion of {low}…{high}", refused(partial(outlier_suppression, one, low, high))


def _grouped() -> Iterator[Compared]:
    """Groups of several records behind a rule that always deletes the same ones."""
    for number, count in itertools.product((0.1, 0.3, 0.7, 0.12345678901234567), (1, 2, 3, 5)):
        exact = _exact(number)
        pure = deterministic_suppression(PureDP(number), count).to_dict()["epsilon"]
        yield "ε of a group", _just_above(pure, exact * count)
        normal = deterministic_suppression(GaussianDP(number), count).to_dict()["mu"]
        yield "μ of a group", _just_above(normal, exact * count)
        concentrated = deterministic_suppression(ZeroConcentratedDP(number), count).to_dict()["rho"]
        yield "ρ of a group", _just_above(concentrated, exact * count**2)
        both = deterministic_suppression(ApproxDP(number, 0.001), count).to_dict()
        total = sum(math.exp(number * place) for place in range(count)) * 0.001
        yield "δ of a group", both["epsilon"] == pure and abs(both["delta"] / total - 1) < 1e-12
    yield "a group whose δ is certain", refused(partial(deterministic_suppression, ApproxDP(5.0, 0.01), 3))
    odd: tuple[Any, ...] = (0, -1, 1.5, True)
    for count in odd:
        yield f"a group of {count}", refused(partial(deterministic_suppression, PureDP(1.0), count))


def _suppressed() -> Iterator[Compared]:
    """Suppression that deletes everybody alike is a sample; otherwise the inverse must give back what was asked."""
    for epsilon, chance in itertools.product(_EPSILONS, (0.2, 0.5, 0.9)):
        found = outlier_suppression(ApproxDP(epsilon, 0.003), chance, chance)
        kept = 1 - _exact(chance)
        yield "uniform deletion", abs(found.epsilon - float(_log_of_share(epsilon, kept))) < 1e-9
        yield "δ of uniform deletion", _just_above(found.delta, kept * _exact(0.003))
    for epsilon, (low, high) in itertools.product((1.0, 2.0), ((0.4, 0.5), (0.45, 0.5), (0.6, 0.62))):
        inner = before_outlier_suppression(ApproxDP(epsilon, 0.003), low, high)
        again = outlier_suppression(inner, low, high)
        yield "before suppression", again.epsilon <= epsilon and again.delta <= 0.003
        yield "far before suppression", again.epsilon > epsilon * (1 - 1e-6) and again.delta > 0.003 * (1 - 1e-9)
        plain = before_outlier_epsilon(epsilon, low, high)
        yield "one number for one", isinstance(plain, float) and abs(plain / inner.epsilon - 1) < 1e-6
        several = before_outlier_epsilon(np.array([epsilon, epsilon]), low, high)
        yield "several for several", isinstance(several, np.ndarray) and bool((several == plain).all())
        yield "there and back", abs(float(outlier_epsilon(plain, low, high)) / epsilon - 1) < 1e-9
    yield (
        "suppression that costs more than there is",
        refused(partial(before_outlier_suppression, PureDP(0.1), 0.1, 0.3)),
    )


def _kept() -> Iterator[Compared]:
    """Words at the probability itself: fractions decide, for every record by its own distance."""
    rows = [0.0, 1.0, 4.0, 10.0, 3.0]
    low, high = Fraction(3, 10), Fraction(6, 10)
    scores = [
        low + (high - low) * sum((abs(Fraction(x) - Fraction(y)) for y in rows), Fraction(0)) / (10 * len(rows))
        for x in rows
    ]
    step = OutlierSuppression(0.3, 0.6, AbsoluteDistance((0, 10)))
    sample = PoissonSample(0.3)
    for move in (-(2**30), -1, 0, 1, 2**30):
        words = [math.floor(score * 2**64) + move for score in scores]
        deleted = [
            Fraction(word, 2**64) + Fraction(1, 2**65) < score for word, score in zip(words, scores, strict=True)
        ]
        for further in (0, 2**64 - 1):
            if move == 0:  # the next word decides
                ends = [(Fraction(word) + Fraction(2 * further + 1, 2**65)) / 2**64 for word in words]
                deleted = [end < score for end, score in zip(ends, scores, strict=True)]
            found = step.kept(rows, entropy=ChosenWords(words, [further, 2**63]))
            yield "records that suppression keeps", found.tolist() == [not one for one in deleted]
        at = math.floor(Fraction(3, 10) * 2**64) + move
        if move:
            kept = sample.kept([0, 0], entropy=ChosenWords([at, at], [2**63]))
            yield "records that a sample keeps", kept.tolist() == [move < 0] * 2
