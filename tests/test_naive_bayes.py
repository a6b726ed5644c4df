"""Gaussian naive Bayes: private by proof, scikit-learn compatible by protocol."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import GaussianNB

from discreet import BoundaryInflatedLaplace, GaussianNaiveBayes, Ledger, Neighbours, PureDP, ZeroConcentratedDP
from discreet.core.errors import InsufficientBudget, InvalidParameter
from discreet.core.grid import Grid
from discreet.papers.holohan2018 import BOUNDS, iris
from discreet.questions import naive_bayes

X, Y = iris()
CLASSES = ("setosa", "versicolor", "virginica")


def _model(epsilon: float = 1.0, **options: Any) -> GaussianNaiveBayes:
    settings: dict[str, Any] = {"guarantee": PureDP(epsilon), "bounds": BOUNDS, "classes": CLASSES, "rng": 1}
    return GaussianNaiveBayes(**{**settings, **options})


def test_shipped_iris_is_fishers() -> None:
    data = load_iris()
    assert np.array_equal(X, data.data)
    assert np.array_equal(Y, data.target_names[data.target])


def test_with_little_noise_it_is_the_ordinary_estimator() -> None:
    many, labels = np.tile(X, (100, 1)), np.tile(Y, 100)
    ours, theirs = _model(900.0).fit(many, labels), GaussianNB().fit(X, Y)
    inside = np.clip(X, *np.array(BOUNDS).T)
    reference = GaussianNB().fit(inside, Y)
    assert np.allclose(ours.theta_, reference.theta_, atol=1e-3)
    assert np.allclose(ours.var_, reference.var_, atol=1e-3)
    assert np.allclose(ours.class_prior_, reference.class_prior_, atol=1e-4)
    assert ours.score(X, Y) == pytest.approx(theirs.score(X, Y), abs=0.02)
    assert np.allclose(ours.predict_proba(X).sum(axis=1), 1)


def test_scikit_learn_accepts_it() -> None:
    model = _model(50.0)
    assert is_classifier(model)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy is not model
    assert cross_val_score(model, X, Y, cv=3).mean() > 0.8
    assert model.set_params(rng=3).rng == 3
    assert "GaussianNaiveBayes(guarantee=" in repr(model)


def test_bounded_variances_never_vanish() -> None:
    variances = np.array([_model(1.0, rng=seed).fit(X, Y).var_ for seed in range(8)])
    clamped = np.array(
        [_model(1.0, rng=seed, variance_mechanism=BoundaryInflatedLaplace).fit(X, Y).var_ for seed in range(8)]
    )
    widths = np.array([high - low for low, high in BOUNDS]) ** 2
    assert np.min(variances / widths) > 1e-6
    assert np.min(clamped / widths) == pytest.approx(1e-9)


@pytest.mark.parametrize("guarantee", [PureDP(1.0), ZeroConcentratedDP(0.5)])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_the_ledger_pays_no_more_than_the_guarantee(guarantee: Any, neighbours: Neighbours) -> None:
    ledger = Ledger(":memory:", budget=guarantee)
    model = _model(guarantee=guarantee, neighbours=neighbours, rng=None).fit(X, Y, ledger=ledger)
    assert len(model.releases_) == 1 + 2 * 4
    assert not any(one.simulated for one in model.releases_)
    spent, budget = (next(iter(one.parameters().values())) for one in (ledger.spent(), guarantee))
    assert 0.99 * budget <= spent <= budget


def test_a_ledger_that_cannot_pay_is_not_touched() -> None:
    ledger = Ledger(":memory:", budget=PureDP(0.5))
    with pytest.raises(InsufficientBudget):
        _model(1.0, rng=None).fit(X, Y, ledger=ledger)
    assert ledger.events() == ()


def test_units_of_the_releases_move_as_declared() -> None:
    """Counts, centred sums and scaled squares over two classes, by brute force over small data sets."""
    grid = Grid(bounds=(0, 1))
    records = list(product((0.0, 0.5, 1.0), (0, 1)))
    means = np.array([0.3, 0.6])

    def released(rows: tuple[Any, ...]) -> list[np.ndarray]:
        cells = [
            grid.offsets("x", [x for x, label in rows if label == c]) if any(label == c for _, label in rows)
            else np.zeros(0, dtype=np.int64)
            for c in (0, 1)
        ]  # fmt: skip
        sums = np.array([float(naive_bayes._centred_sum(cell, grid)) for cell in cells])
        squares = naive_bayes._squares(cells, means, grid)[0].astype(float)
        return [np.array([len(cell) for cell in cells], dtype=float), sums, squares]

    worst_add, worst_replace = np.zeros(3), np.zeros(3)
    for rest in product(records, repeat=2):
        base = released(rest)
        grown = [released((*rest, record)) for record in records]
        for one in grown:
            change = [np.abs(a - b).sum() for a, b in zip(one, base, strict=True)]
            worst_add = np.maximum(worst_add, change)
        for one, two in product(grown, repeat=2):
            change = [np.abs(a - b).sum() for a, b in zip(one, two, strict=True)]
            worst_replace = np.maximum(worst_replace, change)
    for neighbours, worst in ((Neighbours.ADD_REMOVE, worst_add), (Neighbours.REPLACE_ONE, worst_replace)):
        declared = _model(neighbours=neighbours)._sensitivities(2)
        limits = np.array([declared[name].l1 for name in ("counts", "sums", "squares")])
        assert np.allclose(worst, limits)


@pytest.mark.parametrize(
    "make",
    [
        lambda: _model(guarantee=1.0).fit(X, Y),
        lambda: _model(bounds=[(0, 1)]).fit(X, Y),
        lambda: _model(bounds=()).fit(X, Y),
        lambda: _model(classes=["setosa"]).fit(X, Y),
        lambda: _model(classes=["setosa", "versicolor"]).fit(X, Y),
        lambda: _model(weights=(1.0, 1.0)).fit(X, Y),
        lambda: _model(least_variance=0.0).fit(X, Y),
        lambda: _model().fit(np.full((3, 4), np.nan), Y[:3]),
        lambda: _model().fit(X, Y[:-1]),
        lambda: _model(rng=None).fit(X, Y),
        lambda: _model().predict(X),
        lambda: _model().fit(X, Y).predict(X[:, :2]),
        lambda: _model().set_params(epsilon=1.0),
    ],
)
def test_refusals(make: Any) -> None:
    with pytest.raises((InvalidParameter, TypeError)):
        make()
