"""Path cases: rows left out, several mechanisms in a row, models and whole sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet.audit.case import UNIT, Case, Draw
from discreet.audit.exact_losses import Cells, ExactAudit, audit_cells, law_cells
from discreet.audit.neighbours import unit_pairs
from discreet.core.guarantee import ApproxDP, Guarantee, PureDP
from discreet.core.schema import Bounds, Categories, Contribution, PrivacyUnit, Schema
from discreet.ledgers import Ledger
from discreet.mechanisms.choices.exponential_mechanism import ExponentialMechanism
from discreet.mechanisms.composed import compose_profiles
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace
from discreet.omission import Omission, OutlierSuppression, PoissonSample
from discreet.omission.outliers import AbsoluteDistance, outlier_scores
from discreet.questions import MeasuredQuestion
from discreet.questions.clusters.kmedian import KMedian
from discreet.questions.clusters.lloyd import DPLloyd
from discreet.questions.comparison.compare import compare_means
from discreet.questions.count import CountQuestion
from discreet.questions.naive_bayes import GaussianNaiveBayes
from discreet.questions.quantile import QuantileQuestion
from discreet.questions.sum import SumQuestion
from discreet.questions.table import TableQuestion
from discreet.releases import release
from discreet.session import Session

__all__ = ["as_table", "model_cases", "omission_cases", "pipeline_case", "session_case"]

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
        step = cast(OutlierSuppression, step)
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


# ---- models, comparisons, sessions --------------------------------------------------------------------------------


def _plenty(guarantee: Guarantee) -> Ledger:
    """A ledger that pays for one release after another."""
    return Ledger(":memory:", guarantee)


def model_cases() -> Iterator[Case]:
    """Fits and comparisons of a few rows, with and without one of them."""
    rows = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]])
    more = np.array([*rows, [1.0, 1.0]])

    def lloyd(data: Array) -> Array:
        model = DPLloyd(2, guarantee=PureDP(1.0), bounds=((0, 1), (0, 1)), iterations=1)
        model.fit(data, ledger=_plenty(PureDP(1.0)))
        return np.ravel([model.counts_, *model.cluster_centers_.T])

    def median(data: Array) -> Array:
        model = KMedian(1, guarantee=PureDP(1.0), universe=[[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]], swaps=1)
        return np.asarray(model.fit(data, ledger=_plenty(PureDP(1.0))).center_indices_, dtype=float)

    def bayes(data: Array) -> Array:
        labels = ["a", "b", "a", "b"][: len(data)]
        model = GaussianNaiveBayes(guarantee=PureDP(1.0), bounds=((0, 1), (0, 1)), classes=("a", "b"))
        model.fit(data, labels, ledger=_plenty(PureDP(1.0)))
        return np.ravel([model.class_count_, *model.theta_.T])

    def difference(data: Array) -> Array:
        found = compare_means(data[:, 0], rows[:, 1], bounds=(0, 1), guarantee=PureDP(1.0), ledger=_plenty(PureDP(1.0)))
        return np.ravel(found.noisy["moments"])

    replaced = np.array([*rows[:-1], [0.0, 0.0]])
    for name, fit, here, there in (
        ("DPLloyd", lloyd, rows, more),
        ("KMedian", median, rows, more),
        ("naive Bayes", bayes, rows, more),
        ("difference of means", difference, rows, replaced),
    ):
        yield Case(
            name, PureDP(1.0), _fitted(fit, here), _fitted(fit, there), None, tight=False, slow=True, deep_only=True
        )


def _fitted(fit: Callable[[Array], Array], data: Array) -> Draw:
    return lambda n: np.array([fit(data) for _ in range(n)])


SCHEMA_COLUMNS: dict[str, Bounds | Categories] = {
    "arm": Categories(["A", "B", "C"], nulls="=A", unknown="=A"),
    "spend": Bounds(0, 10, grid=0.5, nulls=0),
}
UNIT_SCHEMA = Schema(columns=SCHEMA_COLUMNS, unit=PrivacyUnit("person", contribution=Contribution(groups=2, rows=2)))
UNIT_TABLE: dict[str, list[Any]] = {
    "person": [1, 1, 1, 1, 2, 2, 3, 4, 5],
    "arm": ["A", "A", "B", "B", "A", "B", "A", "C", "B"],
    "spend": [10.0, 10.0, 0.0, 3.0, 5.0, 10.0, 0.0, 9.5, 2.0],
}
UNIT_EXTREMES: dict[str, list[Any]] = {"arm": ["A", "B", "C"], "spend": [10.0, 0.0, 99.0]}


def session_case() -> Case:
    """A session of four questions at the level of units: all their outputs together, against the whole budget."""
    share = PureDP(0.25)

    asked: list[MeasuredQuestion[Any]] = [
        CountQuestion(UNIT_SCHEMA, share),
        SumQuestion(UNIT_SCHEMA, "spend", share),
        TableQuestion(UNIT_SCHEMA, "arm", share),
        QuantileQuestion(UNIT_SCHEMA, "spend", 0.5, share),
    ]

    def draw(table: dict[str, list[Any]]) -> Draw:
        def drawn(n: int) -> Array:
            ledger = Ledger(":memory:", PureDP(1000.0), unit="person")
            session = Session(as_table(table), UNIT_SCHEMA, ledger=ledger)
            exacts = [(session.exact(question), question.measurement.mechanism) for question in asked]
            outputs = []
            for number in range(n):
                if number % 900 == 899:  # its budget is spent
                    ledger = Ledger(":memory:", PureDP(1000.0), unit="person")
                values = [np.ravel(release(exact, how, ledger=ledger).value) for exact, how in exacts]
                outputs.append(np.concatenate(values))
            return np.array(outputs)

        return drawn

    # The unit with the most rows, and a newcomer with rows at the extremes: the first of the proposals.
    pair = next(iter(unit_pairs(UNIT_TABLE, "person", UNIT_EXTREMES)))
    return Case("session, one person removed", PureDP(1.0), draw(pair[0]), draw(pair[1]), None, False, True, True)


def as_table(table: dict[str, list[Any]]) -> Any:
    """Columns as a table that sessions read."""
    import pyarrow

    return pyarrow.table(table)
