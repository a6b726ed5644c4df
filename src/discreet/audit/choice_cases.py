"""Choice cases: mechanisms that publish which candidate, or which grid point."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.audit.case import UNIT, Case, Draw, one_by_one
from discreet.audit.exact_losses import ExactAudit, audit_choices
from discreet.core.guarantee import GaussianDP, Guarantee, PureDP
from discreet.core.protection import Neighbours
from discreet.core.schema import Bounds
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.choices.exponential_mechanism import ExponentialMechanism
from discreet.mechanisms.choices.noisy_max import ReportNoisyMax
from discreet.mechanisms.choices.permute_and_flip import PermuteAndFlip
from discreet.mechanisms.choices.quantile_choice import QuantileChoice
from discreet.mechanisms.choices.selection import Selection
from discreet.questions.quantile import Quantiles

__all__ = ["choice_cases", "quantile_cases"]

Array = NDArray[np.float64]

_REACHABLE = {"counts": ([0, 3, 0], [1, 3, 0]), "scores": ([0, 3, 3], [1, 2, 2])}
"""Pairs close to the worst ones, whose telling outcome is drawn often."""


def _chosen(mechanism: Selection, scores: Sequence[int]) -> Draw:
    return lambda n: np.array([mechanism.choose(list(scores)) for _ in range(n)])


def _score_pairs(largest: int, moves: Callable[[tuple[int, ...]], bool]) -> Iterator[tuple[list[int], list[int]]]:
    """All scores of three candidates up to a limit, with all allowed moves."""
    for scores in product(range(largest + 1), repeat=3):
        for move in product((-1, 0, 1), repeat=3):
            if any(move) and moves(move):
                yield list(scores), [score + step for score, step in zip(scores, move, strict=True)]


def choice_cases() -> Iterator[Case]:
    """Selections: all small scores and all moves exactly; by draws a pair close to the worst that is not too rare."""
    three = Sensitivity(moves=(1.0, 1.0, 1.0))
    selections: list[tuple[str, Any, dict[str, Any]]] = [
        ("exponential mechanism", ExponentialMechanism, {}),
        ("permute-and-flip", PermuteAndFlip, {}),
        ("report noisy max, Laplace", ReportNoisyMax, {"noise": "laplace"}),
        ("report noisy max, exponential", ReportNoisyMax, {"noise": "exponential"}),
        ("report noisy max, Gaussian", ReportNoisyMax, {"noise": "gaussian"}),
    ]
    settings: list[tuple[str, Sensitivity, Callable[[tuple[int, ...]], bool], tuple[list[int], list[int]]]] = [
        ("counts", UNIT, lambda move: sum(map(abs, move)) == 1, ([0, 20, 0], [1, 20, 0])),
        ("scores", three, lambda move: True, ([0, 20, 20], [1, 19, 19])),
    ]
    for (name, kind, options), (setting, sensitivity, allowed, pair) in product(selections, settings):
        gaussian = options.get("noise") == "gaussian"
        target: Guarantee = GaussianDP(1.0) if gaussian else PureDP(1.0)
        mechanism = kind.calibrate(target, sensitivity, **options)
        claim = mechanism.profile(sensitivity)
        largest = 3 if not isinstance(mechanism, ReportNoisyMax) or options["noise"] == "exponential" else 2
        worst = _REACHABLE[setting]

        def exact(
            mechanism: Any = mechanism,
            claim: Any = claim,
            allowed: Any = allowed,
            largest: int = largest,
            pair: Any = pair,
        ) -> ExactAudit:
            pairs = [*_score_pairs(largest, allowed), pair]
            known: dict[tuple[int, ...], Array] = {}

            def law(scores: list[int]) -> Array:
                if tuple(scores) not in known:
                    known[tuple(scores)] = np.asarray(mechanism.probabilities(scores))
                return known[tuple(scores)]

            return audit_choices(claim, [(law(a), law(b)) for a, b in pairs])

        yield Case(
            f"{name}, {setting}", target, _chosen(mechanism, worst[0]), _chosen(mechanism, worst[1]), exact, False, True
        )


def quantile_cases() -> Iterator[Case]:
    """Quantiles on a small grid: all data sets of up to four rows exactly."""
    bounds = Bounds(0, 6, grid=1)
    for neighbours in Neighbours:
        median = Quantiles(probabilities=0.5, bounds=bounds)
        sensitivity = median.sensitivity(neighbours=neighbours)
        mechanism = QuantileChoice.calibrate(PureDP(1.0), sensitivity, statistic=median)

        def exact(
            median: Any = median,
            mechanism: Any = mechanism,
            neighbours: Any = neighbours,
            sensitivity: Any = sensitivity,
        ) -> ExactAudit:
            law = {
                rows: mechanism.chances(median.exact(list(rows), neighbours=neighbours).value)
                for size in range(5)
                for rows in combinations_with_replacement(range(0, 7, 2), size)
            }
            return audit_choices(
                mechanism.profile(sensitivity), [(law[a], law[b]) for a, b in _adjacent(law, neighbours)]
            )

        rows = [0, 0, 0, 6, 6], [0, 0, 0, 0, 6] if neighbours is Neighbours.REPLACE_ONE else [0, 0, 0, 6]
        truths = [median.exact(side, neighbours=neighbours).value for side in rows]
        yield Case(
            f"median, {neighbours.value.replace('_', '/')}",
            mechanism.guarantee(sensitivity),
            lambda n, truth=truths[0], m=mechanism: np.array([m.draw(truth) for _ in range(n)]),  # type: ignore[misc]
            lambda n, truth=truths[1], m=mechanism: np.array([m.draw(truth) for _ in range(n)]),  # type: ignore[misc]
            exact,
            tight=False,
            slow=True,
        )
    quartiles = Quantiles(probabilities=(0.25, 0.5, 0.75), bounds=bounds, recursive=True)
    moved = quartiles.sensitivity(neighbours=Neighbours.ADD_REMOVE)
    split = QuantileChoice.calibrate(PureDP(1.0), moved, statistic=quartiles)
    here, there = (quartiles.exact(rows, neighbours=Neighbours.ADD_REMOVE).value for rows in ([0, 0, 6], [0, 6]))
    yield Case(
        "quartiles, recursive", PureDP(1.0), one_by_one(split, here), one_by_one(split, there), None, False, True
    )


def _adjacent(law: Any, neighbours: Neighbours) -> Iterator[tuple[Any, Any]]:
    for rows in law:
        for place in range(len(rows)):
            rest = rows[:place] + rows[place + 1 :]
            if neighbours is Neighbours.ADD_REMOVE:
                yield rows, rest
            else:
                yield from ((rows, tuple(sorted((*rest, other)))) for other in range(0, 7, 2))
