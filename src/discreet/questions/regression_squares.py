"""Squares after a fit: what the intervals of a regression on many columns need, measured in a second step.

The coefficients are public once the first step is. So each row's (w·z)² and e², over the largest values that the bounds
allow, are numbers between 0 and 1 that its own columns decide. What is added up is (2(w·z)² − 1)(2e² − 1), which a row
moves by at most 1: with Σ(w·z)², which the first step holds, it gives Σ(w·z)²e². All steps pass the door as one
release. Proof: ``docs/proofs/regression.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.contract.mechanism import Mechanism, mechanism_from_dict
from discreet.core.door import Step
from discreet.core.guarantee import Guarantee
from discreet.core.protection import Neighbours
from discreet.core.rows import Selected, Snapshot
from discreet.core.rows.totals import SHARES, squares
from discreet.core.schema import Schema
from discreet.core.sensitivity import Sensitivity
from discreet.inference.least_squares import LeastSquares, MeasuredSquares
from discreet.inference.noise_sum import largest_variance
from discreet.mechanisms.box_noise import BoxNoise
from discreet.mechanisms.gaussian import Gaussian, is_pure
from discreet.questions.bounded import fractions
from discreet.questions.linear_fit import Term

__all__ = ["SHARE", "exact_squares", "measured_squares", "squares_step"]

SHARE = 0.05
"""Of the guarantee, for the squares. With 1,000 to 5,000 people a tenth would narrow intervals by 2 to 10 %, and give
the slopes themselves 5 % more noise."""


def squares_step(guarantee: Guarantee, terms: int, rows: int, neighbours: Neighbours) -> Step:
    """The last step: one total per term, of which a row moves each by at most 1, or by 2 where it is replaced."""
    sides = neighbours.sides
    sensitivity = Sensitivity(linf=float(rows * sides), dimension=terms)
    choices: list[Mechanism] = [BoxNoise.calibrate(guarantee, sensitivity)]
    if not is_pure(guarantee):
        choices.append(Gaussian.calibrate(guarantee, sensitivity))
    best = min(choices, key=largest_variance)
    return Step(best, sensitivity, guarantee)


def exact_squares(
    rows: Snapshot, selected: Selected, fit: LeastSquares, terms: Sequence[Term], outcome: Term
) -> NDArray[Any]:
    """Totals of (2(w·z)² − 1)(2e² − 1), each square over its largest value, still private."""
    pulls, reaches, cut = MeasuredSquares.pulls(fit)
    schema, every = rows.schema, [*zip((-fit.coefficients).tolist(), terms, strict=True), (1.0, outcome)]
    residual = _linear(schema, selected, [(value / cut, term) for value, term in every])
    along = [
        _linear(schema, selected, list(zip((pull / reach).tolist(), terms, strict=True)))
        for pull, reach in zip(pulls, reaches, strict=True)
    ]
    return fractions([Fraction(total, SHARES) for total in squares(rows, selected, along, residual)])


def measured_squares(fit: LeastSquares, stored: dict[str, Any], before: int = 0) -> MeasuredSquares:
    """What the last step measured of a fit, as a release keeps it behind so many numbers of other fits."""
    variance = largest_variance(mechanism_from_dict(stored["mechanism"]))
    own = stored["value"][before : before + len(fit.terms)]
    return MeasuredSquares(fit, np.array(own, dtype=float), variance)


def _linear(schema: Schema, selected: Selected, parts: Sequence[tuple[float, Term]]) -> dict[str, list[float]]:
    """Σ value·term as a function of grid steps and labels."""
    found = {"": [0.0], **{name: [0.0] for name in selected.columns}}
    found |= {name: [0.0] * len(schema.categories(name).labels) for name in selected.by}
    for value, term in parts:
        if not term.column:
            found[""][0] += value
        elif term.label is not None:
            found[term.column][list(schema.categories(term.column).labels).index(term.label)] += value
        else:
            found[""][0] -= value * term.low / term.width
            found[term.column][0] += value * float(schema.bounds(term.column).step) / term.width
    return found
