"""Group cases: rules that show which labels of an unlimited set are common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement, product

import numpy as np
from numpy.typing import NDArray

from discreet.audit.case import Case, Draw
from discreet.audit.exact_losses import ExactAudit, audit_choices
from discreet.core.guarantee import ApproxDP
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.choices.gaussian_threshold import GaussianThreshold
from discreet.mechanisms.choices.group_selection import GroupSelection, OptimalSelection

__all__ = ["group_cases"]

Array = NDArray[np.float64]
_ASKED = ApproxDP(1.0, 0.05)
_LARGEST = 12


def _law(rule: GroupSelection, sizes: Sequence[int]) -> Array:
    """Probability of every set of shown groups; a group of nobody is never shown."""
    chances = [float(rule.chance([size])[0]) if size else 0.0 for size in sizes]
    return np.array(
        [
            np.prod([p if one else 1 - p for p, one in zip(chances, shown, strict=True)])
            for shown in product([True, False], repeat=len(sizes))
        ]
    )


def _draws(rule: GroupSelection, sizes: Sequence[int]) -> Draw:
    """Which set was shown, as a number, drawn as releases draw it."""
    held = np.array([size for size in sizes if size], dtype=np.int64)

    def draw(count: int) -> Array:
        shown = rule.shown(np.tile(held, count)).reshape(count, held.size)
        return np.asarray(shown @ (1 << np.arange(held.size)), dtype=float)

    return draw


def group_cases() -> Iterator[Case]:
    """Both rules, for a unit in one group and in two: all small sizes exactly, and a pair near the turn by draws."""
    rules: list[tuple[type[GroupSelection], int]] = [
        (kind, groups) for kind in (OptimalSelection, GaussianThreshold) for groups in (1, 2)
    ]
    for kind, groups in rules:
        sensitivity = Sensitivity(moves=(1.0,) * groups)
        rule = kind.calibrate(_ASKED, sensitivity)

        def exact(
            rule: GroupSelection = rule, groups: int = groups, sensitivity: Sensitivity = sensitivity
        ) -> ExactAudit:
            pairs = []
            for sizes in combinations_with_replacement(range(_LARGEST), groups):
                first, second = _law(rule, sizes), _law(rule, [size + 1 for size in sizes])
                pairs += [(first, second), (second, first)]
            return audit_choices(rule.profile(sensitivity), pairs)

        turn = rule.size_shown(0.5)
        yield Case(
            f"{rule.name.replace('_', ' ')}, {groups} group{'s' if groups > 1 else ''} a unit",
            _ASKED,
            _draws(rule, [turn - 1] * groups),
            _draws(rule, [turn] * groups),
            exact,
            tight=False,
        )
