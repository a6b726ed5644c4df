"""Self attack: a made-up person in and out of made-up data, and how often an attacker tells which, at this budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet import Gaussian, Geometric, PureDP, Sensitivity
from discreet.core.guarantee import Guarantee

__all__ = ["SelfAttack", "attack_oneself"]

_OTHERS = 100
"""Made-up people whom the attacker knows everything about."""
_ALPHAS = np.linspace(0.0, 1.0, 2001)


@dataclass(frozen=True)
class SelfAttack:
    """What an attacker made of many releases.

    Attributes
    ----------
    tries, right
        How often the attacker guessed, and in which proportion rightly.
    most
        The proportion that no attacker exceeds on average, whatever is released, by the guarantee alone.
    shown
        The first releases: whether the person was in, the published count, and whether the guess was right.
    """

    tries: int
    right: float
    most: float
    shown: tuple[tuple[bool, float, bool], ...]


def attack_oneself(budget: Guarantee, *, tries: int = 2000, seed: int | None = None) -> SelfAttack:
    """Release a count of made-up people again and again, with and without one of them, and guess which it was.

    Parameters
    ----------
    budget
        What each release may spend: the whole budget at once, the best case for the attacker.
    tries
        How many releases.
    seed
        The draws repeat for the same seed; new ones by default. No real data takes part.

    Examples
    --------
    >>> attack = attack_oneself(PureDP(1.0), seed=1)
    >>> 0.5 < attack.right < attack.most + 0.05, round(attack.most, 3)
    (True, 0.731)
    """
    rng = np.random.default_rng(seed)
    present = rng.random(tries) < 0.5
    mechanism: Any = (Geometric if isinstance(budget, PureDP) else Gaussian).calibrate(budget, Sensitivity(l1=1.0))
    published = mechanism.law(float(_OTHERS)).sample(tries, rng=rng) + present
    middle = _OTHERS + 0.5
    guesses = np.where(published == middle, rng.random(tries) < 0.5, published > middle)
    right = guesses == present
    shown = tuple(
        (bool(one), round(float(value), 1), bool(hit))
        for one, value, hit in zip(present[:8], published[:8], right[:8], strict=True)
    )
    return SelfAttack(tries, float(right.mean()), most_right(budget), shown)


def most_right(guarantee: Guarantee) -> float:
    """How often a guess with even odds is right at most: one minus half of the smallest sum of both errors."""
    errors = np.asarray(guarantee.tradeoff(_ALPHAS), dtype=float) + _ALPHAS
    return float(1 - errors.min() / 2)
