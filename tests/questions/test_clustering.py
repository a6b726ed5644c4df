"""DPLloyd and KMedian: sensitivity by brute force, accounting, costs, data-free choices, refusals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from discreet import GaussianDP, Ledger, PureDP
from discreet.core.errors import InsufficientBudget, InvalidParameter
from discreet.core.guarantee import ApproxDP, ZeroConcentratedDP
from discreet.questions.clusters import DPLloyd, KMedian
from discreet.questions.clusters.kmedian import _CELLS, LocalSearch
from discreet.questions.clusters.lloyd import RESOLUTION, Box, cluster_totals, labels_of, spread_centres

BOUNDS = [(-5.0, 15.0), (-5.0, 15.0)]


def two_groups(rows: int = 3000) -> np.ndarray:
    generator = np.random.default_rng(1)
    return np.vstack([generator.normal(0, 1, (rows, 2)), generator.normal(10, 1, (rows, 2))])


def test_one_row_moves_one_cluster_by_at_most_one() -> None:
    box = Box([(0, 4), (-1, 1), (2, 3)])
    generator = np.random.default_rng(2)
    corners = np.array(list(itertools.product((0, 4), (-1, 1), (2, 3)))) + 0.0
    centres = generator.uniform(-1, 1, (4, 3))
    for _ in range(50):
        rows = box.original(generator.uniform(-1.5, 1.5, (20, 3)))
        base_sums, base_counts = cluster_totals(box.cells(rows), centres)
        for extra in corners:
            sums, counts = cluster_totals(box.cells(np.vstack([extra, rows])), centres)
            moved = np.flatnonzero(np.abs(counts - base_counts) + np.abs(sums - base_sums).sum(axis=1))
            assert moved.size == 1
            assert counts[moved[0]] - base_counts[moved[0]] == 1
            assert np.all(np.abs(sums - base_sums)[moved[0]] <= 1)
    assert np.abs(box.cells(corners)).max() == RESOLUTION


def test_sums_are_exact_and_labels_do_not_depend_on_position() -> None:
    box = Box(BOUNDS)
    rows = two_groups(20_000)
    centres = np.array([[-0.5, -0.5], [0.5, 0.5], [0.0, 0.1]])
    cells = box.cells(rows)
    sums, counts = cluster_totals(cells, centres)
    order = np.random.default_rng(3).permutation(len(rows))
    again, counts_again = cluster_totals(cells[:, order], centres)
    np.testing.assert_array_equal(sums, again)
    np.testing.assert_array_equal(counts, counts_again)
    labels = labels_of(cells, centres)
    for start in (1, 7, 4097):
        np.testing.assert_array_equal(labels_of(cells[:, start:], centres), labels[start:])
    brute = np.argmin(cdist(cells.T / RESOLUTION, centres), axis=1)
    assert (brute == labels).mean() > 0.9999


@pytest.mark.parametrize("guarantee", [PureDP(1.0), GaussianDP(0.5), ApproxDP(1.0, 1e-6), ZeroConcentratedDP(0.1)])
def test_the_fit_finds_the_groups_and_spends_once(guarantee) -> None:  # type: ignore[no-untyped-def]
    ledger = Ledger(":memory:", budget=guarantee)
    model = DPLloyd(2, guarantee=guarantee, bounds=BOUNDS, expected_rows=6000).fit(two_groups(), ledger=ledger)
    centres = np.sort(model.cluster_centers_[:, 0])
    np.testing.assert_allclose(centres, [0, 10], atol=1.0)
    assert len(ledger.events()) == 1
    assert model.guarantee_ == guarantee
    assert set(np.bincount(model.predict(two_groups())).tolist()) == {3000}
    with pytest.raises(InsufficientBudget):
        DPLloyd(2, guarantee=guarantee, bounds=BOUNDS).fit(two_groups(), ledger=ledger)


def test_noise_scales_add_up_to_the_budget() -> None:
    """T·(d/b + 1/b_count) = ε for Laplace; T·(d/σ² + 1/σ_count²) = μ² for Gaussian noise."""
    plan = DPLloyd(5, guarantee=PureDP(1.0), bounds=[(0, 1)] * 6, iterations=4).plan()
    assert 4 * (6 / plan.sum_scale + 1 / plan.count_scale) == pytest.approx(1.0, rel=1e-12)
    plan = DPLloyd(5, guarantee=GaussianDP(0.7), bounds=[(0, 1)] * 6, iterations=4).plan()
    assert 4 * (6 / plan.sum_scale**2 + 1 / plan.count_scale**2) == pytest.approx(0.49, rel=1e-12)


def test_published_accounting_costs_less_than_it_says() -> None:
    """d coordinates of one cluster × T iterations × ε/((dk + 1)T) = d/(dk + 1)·ε: for d = 6, k = 5 only 6/31 of ε."""
    model = DPLloyd(5, guarantee=PureDP(1.0), bounds=[(0, 1)] * 6, as_published=True)
    plan = model.plan()
    assert plan.iterations == 20
    assert plan.sum_scale == pytest.approx(2 * 31 * 20)
    assert plan.guarantee.epsilon == pytest.approx(6 / 31, rel=1e-12)
    tight = DPLloyd(5, guarantee=PureDP(1.0), bounds=[(0, 1)] * 6, iterations=20).plan()
    weight = round((24 * 0.225**2) ** (1 / 3) * 256) / 256  # of the count, in exact parts
    assert tight.gain == pytest.approx(62 / (6 + weight), rel=1e-9)
    assert "gain" in str(tight)


def test_iterations_follow_the_budget() -> None:
    def chosen(epsilon: float, rows: int) -> int:
        return DPLloyd(5, guarantee=PureDP(epsilon), bounds=[(0, 1)] * 6, expected_rows=rows).iterations

    assert chosen(0.01, 1000) == 2
    assert chosen(1.0, 32_561) in range(2, 8)
    assert chosen(10.0, 10**6) == 7


def test_empty_data_gives_public_centres() -> None:
    model = DPLloyd(3, guarantee=PureDP(1.0), bounds=BOUNDS).fit(np.zeros((0, 2)), rng=1)
    assert model.cluster_centers_.shape == (3, 2)
    assert np.all((model.cluster_centers_ >= -5) & (model.cluster_centers_ <= 15))


def test_spread_centres_are_apart() -> None:
    generator = np.random.default_rng(4)
    spread, plain = [], []
    for _ in range(20):
        for points, found in ((spread_centres(5, 3, generator), spread), (generator.uniform(-1, 1, (5, 3)), plain)):
            distances = cdist(points, points)[np.triu_indices(5, 1)]
            found.append(distances.min())
    assert np.mean(spread) > 1.2 * np.mean(plain)
    assert np.std(spread) < np.std(plain) / 2


def test_swap_costs_by_brute_force() -> None:
    generator = np.random.default_rng(5)
    universe = generator.uniform(0, 10, (40, 2))
    weights = generator.integers(0, 4, 40).astype(float)
    diameter = float(np.linalg.norm(np.ptp(universe, axis=0)))
    search = LocalSearch(universe, weights, diameter, np.array([3, 17, 29]))
    cells = np.rint(cdist(universe, universe) / diameter * _CELLS)
    for step in range(25):
        costs = search.swap_costs()
        assert search.cost() == weights @ cells[:, search.centres].min(axis=1)
        for out, new in itertools.product(range(3), range(40)):
            if new in search.centres:
                assert math.isinf(costs[out, new])
                continue
            centres = search.centres.copy()
            centres[out] = new
            assert costs[out, new] == weights @ cells[:, centres].min(axis=1)
        free = np.setdiff1d(np.arange(40), search.centres)
        search.swap(step % 3, int(generator.choice(free)))


def test_one_row_raises_every_cost_by_at_most_the_diameter() -> None:
    generator = np.random.default_rng(6)
    universe = generator.uniform(0, 10, (30, 2))
    diameter = float(np.linalg.norm(np.ptp(universe, axis=0)))
    weights = generator.integers(0, 3, 30).astype(float)
    start = np.array([0, 5])
    before = LocalSearch(universe, weights, diameter, start).swap_costs()
    for position in range(30):
        more = weights.copy()
        more[position] += 1
        change = (
            LocalSearch(universe, more, diameter, start).swap_costs()[np.isfinite(before)] - before[np.isfinite(before)]
        )
        assert np.all((change >= 0) & (change <= _CELLS))


def test_kmedian_finds_the_groups_and_spends_once() -> None:
    grid = list(itertools.product(range(0, 21, 2), repeat=2))
    rows = np.repeat([[2, 2], [18, 18]], 4000, axis=0)
    for guarantee in (PureDP(4.0), ZeroConcentratedDP(0.5)):
        ledger = Ledger(":memory:", budget=guarantee)
        model = KMedian(2, guarantee=guarantee, universe=grid, swaps=30).fit(rows, ledger=ledger)
        assert sorted(model.cluster_centers_.tolist()) == [[2.0, 2.0], [18.0, 18.0]]
        assert len(ledger.events()) == 1
        assert set(np.bincount(model.predict(rows)).tolist()) == {4000}


def test_kmedian_accounting() -> None:
    universe = np.arange(50.0)[:, None]
    plain = KMedian(2, guarantee=PureDP(1.0), universe=universe, swaps=9).plan()
    assert plain.strength == pytest.approx(0.1)
    published = KMedian(2, guarantee=PureDP(1.0), universe=universe, swaps=9, as_published=True).plan()
    assert published.strength == pytest.approx(0.05)
    assert published.guarantee == PureDP(0.5)
    concentrated = KMedian(2, guarantee=ZeroConcentratedDP(0.1), universe=universe, swaps=9).plan()
    assert 10 * concentrated.strength**2 / 8 == pytest.approx(0.1)
    assert KMedian(3, guarantee=PureDP(1.0), universe=universe).swaps == math.ceil(18 * math.log(50))
    assert "swaps" in str(plain)


def test_kmedian_of_nothing() -> None:
    model = KMedian(2, guarantee=PureDP(1.0), universe=np.arange(9.0)[:, None], swaps=3)
    assert model.fit(np.zeros((0, 1)), rng=1).cluster_centers_.shape == (2, 1)


@pytest.mark.parametrize(
    "call",
    [
        lambda: DPLloyd(0, guarantee=PureDP(1.0), bounds=BOUNDS),
        lambda: DPLloyd(2, guarantee=1.0, bounds=BOUNDS),  # type: ignore[arg-type]
        lambda: DPLloyd(2, guarantee=PureDP(1.0), bounds=[(0, math.inf)]),
        lambda: DPLloyd(2, guarantee=PureDP(1.0), bounds=[(1, 0)]),
        lambda: DPLloyd(2, guarantee=GaussianDP(1.0), bounds=BOUNDS, as_published=True),
        lambda: DPLloyd(2, guarantee=PureDP(0.0), bounds=BOUNDS).plan(),
        lambda: DPLloyd(2, guarantee=PureDP(1.0), bounds=BOUNDS).fit([[0.0, math.nan]], rng=1),
        lambda: DPLloyd(2, guarantee=PureDP(1.0), bounds=BOUNDS).fit([[0.0]], rng=1),
        lambda: DPLloyd(2, guarantee=PureDP(1.0), bounds=BOUNDS).fit([[0.0, 1.0]]),
        lambda: DPLloyd(2, guarantee=PureDP(1.0), bounds=BOUNDS).predict([[0.0, 1.0]]),
        lambda: KMedian(5, guarantee=PureDP(1.0), universe=[[0.0], [1.0]]),
        lambda: KMedian(1, guarantee=GaussianDP(1.0), universe=[[0.0], [1.0]]),
        lambda: KMedian(1, guarantee=PureDP(1.0), universe=[["a"], ["b"]]),
        lambda: KMedian(1, guarantee=PureDP(1.0), universe=[[0.0], [1.0]]).fit([[0.0]]),
        lambda: KMedian(1, guarantee=PureDP(1.0), universe=[[0.0], [1.0]]).fit([[math.nan]], rng=1),
    ],
)
def test_refusals(call) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidParameter):
        call()
