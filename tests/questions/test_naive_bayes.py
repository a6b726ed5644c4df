"""Gaussian naive Bayes: private by proof, scikit-learn compatible by protocol."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpmath import mp
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import GaussianNB

from discreet import ApproxDP, GaussianDP, Ledger, Neighbours, PureDP, ZeroConcentratedDP
from discreet.core.errors import InsufficientBudget, InvalidParameter
from discreet.core.numbers import Grid
from discreet.mechanisms import BoundaryInflatedLaplace, BoundedLaplace, BoxNoise, Gaussian
from discreet.papers.holohan2018 import BOUNDS, iris
from discreet.questions import GaussianNaiveBayes, naive_bayes
from discreet.questions.naive_bayes import ClassMoments, centred_sum, mean_within

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
    widths = np.array([high - low for low, high in BOUNDS]) ** 2

    def least(mechanism: Any, fits: int) -> float:
        models = [_model(1.0, rng=seed, variance_mechanism=mechanism).fit(X, Y) for seed in range(fits)]
        return float(np.min([model.var_ / widths for model in models]))

    assert least(BoundedLaplace, 8) > 1e-6
    assert least(BoundaryInflatedLaplace, 8) == pytest.approx(1e-9)
    assert least(None, 100) > 1e-3


@pytest.mark.parametrize("guarantee", [PureDP(1.0), ZeroConcentratedDP(0.5), ApproxDP(1.0, 1e-5)])
@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize(("mechanism", "releases"), [(None, 1), (BoundedLaplace, 1 + 2 * 4)])
def test_the_ledger_pays_no_more_than_the_guarantee(
    guarantee: Any, neighbours: Neighbours, mechanism: Any, releases: int
) -> None:
    ledger = Ledger(":memory:", budget=guarantee)
    options = {"guarantee": guarantee, "neighbours": neighbours, "variance_mechanism": mechanism}
    model = _model(**options, rng=None).fit(X, Y, ledger=ledger)
    assert len(model.releases_) == releases
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
        sums = np.array([float(centred_sum(cell, grid)) for cell in cells])
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


@pytest.mark.parametrize("features", [1, 2])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_totals_of_classes_move_as_declared(features: int, neighbours: Neighbours) -> None:
    """Boxes and all totals, by brute force over all rows of a few values, of which the worst is one."""
    moments = ClassMoments(classes=2, features=features, neighbours=neighbours)
    grids = [Grid(bounds=(0, 1))] * features
    worst = (1 + (1 - (6 - math.sqrt(2)) / 4)) / 2  # z' = 1 − a, where a²(1 + 4(2 − a)²) is the largest
    rows = list(product(product((0.0, 0.5, 1.0, worst), repeat=features), (0, 1)))

    def totals(data: list[Any]) -> Any:
        cells = [
            [grid.offsets("x", [row[j] for row, label in data if label == c]) for j, grid in enumerate(grids)]
            for c in (0, 1)
        ]
        return moments.of(cells, grids)

    each = np.array([totals([row]) for row in rows])
    assert np.array_equal(totals(rows[::5]), each[::5].sum(axis=0))  # exactly, as fractions
    single = each.astype(float)
    changes = single if neighbours is Neighbours.ADD_REMOVE else (single[:, None] - single).reshape(-1, single.shape[1])
    boxes, every = moments.sensitivities()
    in_boxes = np.abs(changes).reshape(len(changes), 2, -1).max(axis=2).sum(axis=1)
    assert in_boxes.max() == boxes.l1
    assert every.dimension == single.shape[1]
    l2 = np.linalg.norm(changes, axis=1).max()
    assert 0.9999 * every.require_l2() < l2 <= every.require_l2()
    assert np.abs(changes).sum(axis=1).max() <= every.require_l1()


def test_the_noise_is_the_least() -> None:
    for features, neighbours in product((1, 2, 4, 8), Neighbours):
        moments = ClassMoments(classes=3, features=features, neighbours=neighbours)
        for guarantee, kind in (
            (PureDP(1.0), BoxNoise),
            (ZeroConcentratedDP(0.5), Gaussian),
            (GaussianDP(1.0), Gaussian),
        ):
            mechanism, sensitivity = moments.noise(guarantee)
            assert isinstance(mechanism, kind)
            assert list(mechanism.guarantee(sensitivity).parameters().values()) == pytest.approx([1.0])  # ε, or μ
            box = BoxNoise.calibrate(guarantee, moments.sensitivities()[0], in_boxes_of=moments.together)
            assert mechanism.law(0.0).variance <= box.law(0.0).variance


@pytest.mark.parametrize(
    ("estimate", "error", "low", "high"),
    [(0.3, 0.1, 0.0, 1.0), (-0.3, 0.1, 0.0, 1.0), (1.3, 0.1, 0.0, 1.0), (0.2, 1e-3, 0.0, 0.25), (5.0, 40.0, -1.0, 1.0)],
)
def test_means_within_an_interval(estimate: float, error: float, low: float, high: float) -> None:
    def weight(x: Any) -> Any:
        return mp.exp(-(((x - estimate) / error) ** 2) / 2)

    ends = [low, *([estimate] if low < estimate < high else []), high]
    wanted = mp.quad(lambda x: x * weight(x), ends) / mp.quad(weight, ends)
    assert float(mean_within(estimate, error, low, high)) == pytest.approx(float(wanted), rel=1e-6)


def test_means_within_an_interval_at_its_limits() -> None:
    found = mean_within([-1e300, 1e300, 0.5, 0.5], [1.0, 1e-300, 1e300, 1e-300], 0.0, 1.0)
    assert np.all((found >= 0) & (found <= 1))
    assert found[1:].tolist() == pytest.approx([1.0, 0.5, 0.5])
    assert mean_within(3.0, 1.0, 0.5, 0.5) == 0.5


def test_noise_of_what_is_read_is_as_stated() -> None:
    """Errors of means and variances of large classes, against the first-order formula of the proof."""
    moments = ClassMoments(classes=2, features=2, neighbours=Neighbours.ADD_REMOVE)
    mechanism = moments.noise(PureDP(1.0))[0]
    rows, mean, variance = 20_000.0, np.array([0.4, -0.7]), np.array([0.2, 0.05])
    truth = rows * np.tile([1.0, *mean, *(2 * (variance + mean**2) - 1)], 2)
    rng = np.random.default_rng(5)
    found = [moments.read(mechanism.law(truth).sample(rng=rng), mechanism) for _ in range(4000)]
    one = math.sqrt(6 * 7 / 3) / rows
    assert np.std([each[0] for each in found]) == pytest.approx(one * rows, rel=0.05)
    assert np.std([each[1] for each in found], axis=0)[0] == pytest.approx(one * np.sqrt(1 + mean**2), rel=0.05)
    spread = one * np.sqrt(0.25 + (0.5 - variance + mean**2) ** 2 + 4 * mean**2)
    assert np.std([each[2] for each in found], axis=0)[1] == pytest.approx(spread, rel=0.05)
    assert np.mean([each[2] for each in found], axis=0)[0] == pytest.approx(variance, rel=1e-3)


def test_few_rows_are_read_with_the_noise_that_they_have() -> None:
    """20 rows, and noise of a quarter of their number: the formula that the test above holds against draws."""
    moments = ClassMoments(classes=2, features=1, neighbours=Neighbours.ADD_REMOVE)
    mechanism = moments.noise(PureDP(0.5))[0]
    error = math.sqrt(4 * 5 / 3) / 0.5 / 20
    rows, means, variances = moments.read(np.tile([20.0, 6.0, -10.0], 2), mechanism)
    assert rows.tolist() == [20.0, 20.0]
    mean = float(mean_within(0.3, error * math.sqrt(1.09), -1.0, 1.0))
    assert means[:, 0] == pytest.approx([mean, mean])
    spread = error * math.sqrt(0.25 + (0.5 - 0.16 + 0.09) ** 2 + 4 * 0.09)
    assert variances[0, 0] == pytest.approx(float(mean_within(0.16, spread, 0.0, 1 - mean**2)))


def test_everything_at_once_classifies_better() -> None:
    at_once = np.mean([_model(1.0, rng=seed).fit(X, Y).score(X, Y) for seed in range(40)])
    published = [_model(1.0, rng=seed, variance_mechanism=BoundedLaplace).fit(X, Y).score(X, Y) for seed in range(8)]
    assert at_once > 0.87
    assert at_once > np.mean(published) + 0.1


def test_everything_at_once_was_measured_to_be_better() -> None:
    root = Path(__file__).parents[2]
    stored = json.loads((root / "benchmarks" / "results" / "naive_bayes.json").read_text(encoding="utf-8"))
    assert len(stored["cells"]) == 12
    for cell in stored["cells"]:
        ways = [cell["at_once"], cell["one_by_one"]]
        assert all(ways[0][name] < ways[1][name] for name in ("mean", "variance"))
        assert ways[0]["right"] > ways[1]["right"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: _model(guarantee=1.0).fit(X, Y),
        lambda: _model(bounds=[(0, 1)]).fit(X, Y),
        lambda: _model(bounds=()).fit(X, Y),
        lambda: _model(classes=["setosa"]).fit(X, Y),
        lambda: _model(classes=["setosa", "versicolor"]).fit(X, Y),
        lambda: _model(weights=(1.0, 1.0), variance_mechanism=BoundedLaplace).fit(X, Y),
        lambda: _model(weights=(1.0, 2.0, 2.0)).fit(X, Y),
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
