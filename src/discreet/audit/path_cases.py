"""Path cases: rows left out, several mechanisms in a row, models and whole sessions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from discreet.audit.case import UNIT, Case, Draw
from discreet.audit.exact import Cells, ExactAudit, audit_cells, law_cells
from discreet.composed_profile import compose_profiles
from discreet.guarantees import ApproxDP, PureDP
from discreet.mechanisms import ExponentialMechanism, Gaussian, Laplace
from discreet.omission import Omission, OutlierSuppression, PoissonSample
from discreet.outliers import AbsoluteDistance, outlier_scores

__all__ = ["omission_cases", "pipeline_case"]

Array = NDArray[np.float64]


def omission_cases() -> Iterator[Case]:
    """A noisy count of the rows that a random step leaves."""
    inner = Laplace(1.0)
    step: Omission
    for name, step, rows in (
        ("Poisson sample, then Laplace", PoissonSample(0.5), [1.0]),
        (
            "outlier suppression, then Laplace",
            OutlierSuppression(0.2, 0.6, AbsoluteDistance((0, 1))),
            [0.0, 0.0, 0.0, 1.0],
        ),
    ):
        claim = step.amplify(PureDP(1.0))
        less = rows[:-1]
        yield Case(
            name,
            claim,
            _counted(step, rows, inner),
            _counted(step, less, inner),
            lambda step=step, rows=rows, less=less, claim=claim: audit_cells(  # type: ignore[misc]
                claim, [_mixed(_kept_law(step, rows), _kept_law(step, less), inner)]
            ),
            tight=isinstance(step, PoissonSample),
            slow=True,
        )


def _counted(step: Omission, rows: list[float], mechanism: Laplace) -> Draw:
    def draw(n: int) -> Array:
        kept = [int(step.kept(rows).sum()) if rows else 0 for _ in range(n)]
        return np.asarray(mechanism.law(np.array(kept)).sample())

    return draw


def _kept_law(step: Omission, rows: list[float]) -> Array:
    """Probability of every number of kept rows."""
    if not rows:
        return np.array([1.0])
    if isinstance(step, PoissonSample):
        keep = np.full(len(rows), step.rate)
    else:
        assert isinstance(step, OutlierSuppression)
        keep = 1 - outlier_scores(rows, step.m, step.M, step.distance)
    law = np.array([1.0])
    for chance in keep:
        law = np.convolve(law, [1 - chance, chance])
    return law


def _mixed(here: Array, there: Array, mechanism: Laplace) -> Cells:
    """Mixtures of one mechanism's laws at 0, 1, …, cut into the same cells."""
    laws = [mechanism.law(float(count)) for count in range(max(here.size, there.size))]
    edges = np.unique(np.concatenate([np.asarray(law.quantile(np.linspace(0.0001, 0.9999, 4001))) for law in laws]))
    masses = [np.diff(np.concatenate([[0.0], np.asarray(law.cdf(edges)), [1.0]])) for law in laws]
    p, q = (
        sum((w * m for w, m in zip(side, masses, strict=False)), np.zeros(edges.size + 1)) for side in (here, there)
    )
    return Cells(np.asarray(p), np.asarray(q))


def pipeline_case() -> Case:
    """A count, a mean and a choice of one data set, through the composed profile."""
    laplace, gaussian, choice = Laplace(2.0), Gaussian(2.0), ExponentialMechanism(0.5)
    claim = compose_profiles([one.profile(UNIT) for one in (laplace, gaussian, choice)])
    stated = ApproxDP(float(claim.epsilon_at(0.01)), 0.01)
    scores = [0, 3, 3], [1, 3, 3]

    def draw(side: int) -> Draw:
        def drawn(n: int) -> Array:
            chosen = np.array([choice.choose(scores[side]) for _ in range(n)], dtype=float)
            first, second = (np.asarray(one.law(float(side)).sample(n)) for one in (laplace, gaussian))
            return np.column_stack([first, second, chosen])

        return drawn

    def exact() -> ExactAudit:
        parts = [law_cells(one.law(0.0), one.law(1.0)).merged(400) for one in (laplace, gaussian)]
        p, q = (np.asarray(choice.probabilities(one)) for one in scores)
        joint = Cells(p, q, light=0.0)
        for part in parts:
            joint = Cells(np.outer(joint.p, part.p).ravel(), np.outer(joint.q, part.q).ravel(), light=1e-15)
        return audit_cells(claim, [joint])

    return Case("pipeline: Laplace, Gaussian, choice", stated, draw(0), draw(1), exact, tight=False, slow=True)
