"""Covariance matrices, proportion vectors and tied pairs: budgets, repairs, clamps, intervals."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from discreet import ApproxDP, GaussianDP, Ledger, PureDP, ZeroConcentratedDP, plan, release
from discreet.core.errors import DiscreetError, InvalidParameter
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms import BoundedCovariance, BoundedLaplace, BoundedProportions, TiedPair
from discreet.mechanisms.bounded.covariance import nearest_covariance
from discreet.mechanisms.bounded.laplace import TruncatedLaplaceLaw
from discreet.mechanisms.bounded.proportions import HistogramTree
from discreet.mechanisms.mechanism import mechanism_from_dict
from discreet.testing import exact_loss

CHANGES = (0.36, 0.81, 0.54)
DOMAINS = ((0.0, 9.1), (0.0, 20.5))
MOVES = Sensitivity(coordinates=CHANGES)
TRUTH = np.array([1.0, 2.0, 0.99])
SHARES = [Fraction(1, 10), Fraction(1, 5), Fraction(3, 10), Fraction(2, 5)]
ONE, TWO = Sensitivity(moves=(0.01,), dimension=4), Sensitivity(moves=(0.01, 0.01), dimension=4)
METHODS = ("rescale", "all_but_one", "universal_histogram", "simplex")


def _matrix(vector, d):
    matrix = np.diag(vector[:d])
    matrix[np.triu_indices(d, 1)] = vector[d:]
    return matrix + np.triu(matrix, 1).T


@pytest.mark.parametrize("inflated", [False, True])
@pytest.mark.parametrize("d", [1, 2, 4])
def test_covariances_are_possible(d, inflated):
    size = d * (d + 1) // 2
    made = BoundedCovariance(
        budget=PureDP(1.0), changes=(0.05,) * size, variance_bounds=((0, 1),) * d, inflated=inflated
    )
    truth = np.concatenate([np.full(d, 0.3), np.full(size - d, 0.2)])
    for seed in range(60):
        noisy = made.draw(truth, rng=seed)
        matrix = _matrix(noisy, d)
        assert np.all((np.diag(matrix) >= 0) & (np.diag(matrix) <= 1))
        assert np.linalg.eigvalsh(matrix).min() >= -1e-11
        deviations = np.sqrt(np.diag(matrix))
        assert np.all(np.abs(matrix) <= np.outer(deviations, deviations) * (1 + 1e-9) + 1e-12)


@pytest.mark.parametrize(
    "guarantee", [PureDP(1.0), ApproxDP(1.0, 0.01), GaussianDP(1.0), ZeroConcentratedDP(0.5)], ids=str
)
def test_covariance_spends_its_budget(guarantee):
    made = BoundedCovariance.calibrate(guarantee, MOVES, changes=CHANGES, variance_bounds=DOMAINS, weights=(1, 1, 2))
    assert made.guarantee(MOVES) == guarantee
    assert made.profile(MOVES).within(guarantee)
    assert made.draw(TRUTH, rng=1).shape == (3,)
    assert mechanism_from_dict(json.loads(json.dumps(made.to_dict()))) == made


@pytest.mark.parametrize(
    "sensitivity",
    [
        Sensitivity(moves=(0.85, 0.85, 0.01)),
        Sensitivity(l1=1.0),
        Sensitivity(coordinates=(0.85, 0.85, 0.01)),
        Sensitivity(coordinates=(0.01, 0.85)),
    ],
    ids=str,
)
def test_changes_are_compared_entry_by_entry(sensitivity):
    """An entry that is calibrated to a change of 0.01 and moves by 0.85 would lose 15.3 where 1 is claimed."""
    options = {"changes": (0.01, 0.85, 0.85), "variance_bounds": DOMAINS}
    with pytest.raises(InvalidParameter, match="coordinate by coordinate"):
        BoundedCovariance.calibrate(PureDP(1.0), sensitivity, **options)
    with pytest.raises(InvalidParameter, match="coordinate by coordinate"):
        BoundedCovariance(budget=PureDP(1.0), **options).guarantee(sensitivity)
    for covered in (Sensitivity(coordinates=(0.01, 0.85, 0.85)), Sensitivity(moves=(0.01, 0.01)), Sensitivity(l1=0.01)):
        assert BoundedCovariance.calibrate(PureDP(1.0), covered, **options).guarantee(covered) == PureDP(1.0)


def test_every_step_stays_within_its_share():
    """For random released variances: the exact loss of the covariance's step is within a third of ε."""
    made = BoundedCovariance(budget=PureDP(1.0), changes=CHANGES, variance_bounds=DOMAINS)
    part = made._parts()[2]
    rng = np.random.default_rng(3)
    losses = []
    for reach in np.exp(rng.uniform(-4, 2.5, 40)):
        scale = float(made._scales([part], (0.54,), np.asarray([2 * reach]))[0])
        truth = rng.uniform(-1.2, 1.2) * reach
        laws = [TruncatedLaplaceLaw(np.clip(t, -reach, reach), scale, -reach, reach) for t in (truth, truth + 0.54)]
        ends = [TruncatedLaplaceLaw(np.clip(t, -reach, reach), scale, -reach, reach) for t in (-reach, 0.54 - reach)]
        losses += [exact_loss(*laws)[0], exact_loss(*ends)[0]]
    assert max(losses) <= 1 / 3 + 1e-6
    assert max(losses) >= 0.99 / 3


def test_a_covariance_outside_the_noisy_range_is_clamped_first():
    """Tiny variances leave ±√(S₁₁S₂₂) without the true covariance: the draw must stay inside all the same."""
    made = BoundedCovariance(budget=PureDP(300.0), changes=(1e-6,) * 3, variance_bounds=((0, 1), (0, 1)), repair=False)
    noisy = made.measure([0.01, 0.01, 5.0], rng=4)
    end = math.sqrt(noisy[0] * noisy[1])
    assert noisy[2] == pytest.approx(end, rel=1e-3)
    assert noisy[2] <= end


def test_published_covariance_reports_what_holds():
    made = BoundedCovariance(budget=PureDP(1.0), changes=CHANGES, variance_bounds=DOMAINS, as_published=True)
    assert 1.5 < made.guarantee(MOVES).epsilon < 2.0
    inflated = BoundedCovariance(
        budget=PureDP(1.0), changes=CHANGES, variance_bounds=DOMAINS, as_published=True, inflated=True
    )
    assert inflated.guarantee(MOVES) == PureDP(1.0)


def test_published_scales_are_one_per_entry():
    made = BoundedCovariance(
        budget=PureDP(1.0), changes=(0.1, 0.2, 0.3, 0.4, 0.5, 0.6), variance_bounds=((0, 1),) * 3, as_published=True
    )
    parts = made._parts()
    assert made._scales(parts[:3], made.changes[:3], np.ones(3)) == pytest.approx([0.6, 1.2, 1.8])
    assert made._scales(parts[3:], made.changes[3:], np.ones(3)) == pytest.approx([2.4, 3.0, 3.6])


def test_a_variance_of_zero_leaves_no_covariance():
    made = BoundedCovariance(budget=PureDP(0.01), changes=CHANGES, variance_bounds=DOMAINS, inflated=True)
    draws = made.simulate(TRUTH, 400, rng=1)
    closed = (draws[:, 0] == 0) | (draws[:, 1] == 0)
    assert closed.any()
    assert np.all(draws[closed, 2] == 0)


def test_covariance_intervals_cover():
    made = BoundedCovariance(budget=PureDP(1.0), changes=CHANGES, variance_bounds=DOMAINS)
    covered = np.zeros(3)
    for seed in range(600):
        low, high = made.noise_interval(made.measure(TRUTH, rng=seed), 0.9)
        covered += (low <= TRUTH) & (high >= TRUTH)
    assert np.all(covered / 600 >= 0.9 - 4 * math.sqrt(0.09 / 600))


def test_covariance_release_with_fractions():
    ledger = Ledger(":memory:", budget=PureDP(1.0))
    made = BoundedCovariance(budget=PureDP(1.0), changes=CHANGES, variance_bounds=DOMAINS)
    exact = Exact(np.array([Fraction(1), Fraction(2), Fraction(99, 100)], dtype=object), MOVES)
    noisy = release(exact, made, ledger=ledger)
    assert noisy.value.shape == (3,)
    assert noisy.guarantee == PureDP(1.0)
    assert noisy.noise_interval().low.shape == (3,)
    with pytest.raises(DiscreetError):
        release(Exact(np.array([1.0, 2.0]), MOVES), made, ledger=Ledger(":memory:", budget=PureDP(1.0)))


def test_nearest_covariance_against_known_cases():
    """Two matrices with known answers: a projection without active bounds, and higham2002's example with diagonal 1."""
    indefinite = np.array([[1.0, 2.0], [2.0, 1.0]])
    assert nearest_covariance(indefinite, np.zeros(2), np.full(2, 9.0)) == pytest.approx(np.full((2, 2), 1.5))
    higham = np.array([[2.0, -1, 0, 0], [-1, 2, -1, 0], [0, -1, 2, -1], [0, 0, -1, 2]])
    found = nearest_covariance(higham, np.ones(4), np.ones(4))
    wanted = [[1, -0.8084, 0.1916, 0.1068], [-0.8084, 1, -0.6562, 0.1916]]
    assert found[:2] == pytest.approx(np.array(wanted), abs=1e-4)
    fine = np.eye(3)
    assert nearest_covariance(fine, np.zeros(3), np.ones(3)) is fine


@pytest.mark.parametrize("sensitivity", [ONE, TWO], ids=["add_remove", "replace_one"])
@pytest.mark.parametrize("noise", ["bounded", "inflated"])
@pytest.mark.parametrize("method", METHODS)
def test_proportions_are_possible_and_spend_their_budget(method, noise, sensitivity):
    made = BoundedProportions.calibrate(PureDP(0.5), sensitivity, method=method, noise=noise)
    assert 0.499 < made.guarantee(sensitivity).epsilon <= 0.5
    draws = made.simulate(SHARES, 500, rng=1)
    assert draws.shape == (500, 4)
    assert draws.min() >= 0
    assert draws.sum(axis=1) == pytest.approx(np.ones(500))
    single = made.draw(np.array(SHARES, dtype=object))
    assert single.sum() == pytest.approx(1.0)
    low, high = made.noise_interval(made.measure(SHARES, rng=1), 0.95)
    assert low.shape == high.shape == (4,)
    assert mechanism_from_dict(json.loads(json.dumps(made.to_dict()))) == made


def test_proportion_scales_follow_the_moves():
    """Boundary-inflated: 1/(nε), 2/(nε) when two shares move, and twice that over two levels (liu2019 step 2)."""

    def scale(s, **options):
        return BoundedProportions.calibrate(PureDP(1.0), s, noise="inflated", **options).scale

    assert scale(ONE) == pytest.approx(0.01)
    assert scale(TWO) == pytest.approx(0.02)
    assert scale(ONE, method="universal_histogram") == pytest.approx(0.02)
    assert scale(TWO, method="universal_histogram") == pytest.approx(0.04)
    assert scale(TWO, method="universal_histogram", branching=4) == pytest.approx(0.02)
    two_of_two = Sensitivity(moves=(0.01, 0.01), dimension=2)
    assert scale(two_of_two, method="all_but_one") == pytest.approx(0.01)


def test_joint_loss_of_a_record_that_moves_between_two_shares():
    """All K measured shares together: the exact loss of the product law is Σ of the coordinates' losses, within ε."""
    made = BoundedProportions.calibrate(PureDP(1.0), TWO)
    noise = BoundedLaplace(scale=made.scale, bounds=(0, 1))
    up, _ = exact_loss(noise.law(0.0), noise.law(0.01))
    down, _ = exact_loss(noise.law(1.0), noise.law(0.99))
    assert 0.99 <= up + down <= 1 + 1e-6


def test_tree_reproduces_liu2019():
    """Steps 3 and 4 of section 4.2, by hand, for four leaves in three layers."""
    h1, h2, leaves = 0.4, 0.55, [0.2, 0.1, 0.3, 0.35]
    z1, z2 = 2 / 3 * h1 + 1 / 3 * sum(leaves[:2]), 2 / 3 * h2 + 1 / 3 * sum(leaves[2:])
    top1, top2 = z1 + (1 - z1 - z2) / 2, z2 + (1 - z1 - z2) / 2
    first, second = (top1 - sum(leaves[:2])) / 2, (top2 - sum(leaves[2:])) / 2
    wanted = [leaves[0] + first, leaves[1] + first, leaves[2] + second, leaves[3] + second]
    assert HistogramTree(4, 2).consistent(np.array([h1, h2, *leaves])) == pytest.approx(wanted)


@pytest.mark.parametrize(("leaves", "branching"), [(8, 2), (27, 3), (11, 3), (5, 2), (9, 4), (3, 5)])
def test_tree_is_the_least_squares_solution(leaves, branching):
    """Any branching and depth: the nearest consistent tree, by solving the constrained normal equations."""
    tree = HistogramTree(leaves, branching)
    design = np.stack([tree.sums(row) for row in np.eye(leaves)], axis=1)
    rng = np.random.default_rng(leaves)
    truth = rng.dirichlet(np.full(leaves, 20.0))
    noisy = design @ truth + rng.normal(0, 0.001, tree.nodes)
    system = np.block([[design.T @ design, np.ones((leaves, 1))], [np.ones((1, leaves)), np.zeros((1, 1))]])
    wanted = np.linalg.solve(system, np.append(design.T @ noisy, 1.0))[:leaves]
    assert wanted.min() > 0
    assert tree.consistent(noisy) == pytest.approx(wanted, abs=1e-12)


def test_tree_repairs_negative_nodes_by_family():
    """Footnote 3: a negative node becomes 0 and its siblings add up to their parent."""
    found = HistogramTree(4, 2).consistent(np.array([0.5, 0.5, 0.9, -0.4, 0.25, 0.25]))
    assert found[1] == 0.0
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1.0)
    assert HistogramTree(4, 2).consistent(np.zeros(6)).sum() == pytest.approx(1.0)


def test_all_but_one_takes_the_rest():
    made = BoundedProportions(scale=1e-6, categories=3, method="all_but_one", dropped_rows=0)
    assert made.draw([0.2, 0.3, 0.5]) == pytest.approx([0.2, 0.3, 0.5], abs=1e-4)
    assert made.present(np.array([0.8, 0.7])) == pytest.approx([0.0, 0.8 / 1.5, 0.7 / 1.5])


def test_rescaling_nothing_gives_the_uniform_vector():
    made = BoundedProportions(scale=1.0, categories=4, noise="inflated")
    assert made.present(np.zeros(4)) == pytest.approx(np.full(4, 0.25))


def test_proportion_intervals_cover():
    for method in METHODS:
        made = BoundedProportions.calibrate(PureDP(1.0), TWO, method=method, noise="bounded")
        truth = np.array(SHARES, dtype=float)
        covered = np.zeros(4)
        for seed in range(600):
            low, high = made.noise_interval(made.measure(SHARES, rng=seed), 0.9)
            covered += (low <= truth) & (truth <= high)
        assert np.all(covered / 600 >= 0.9 - 4 * math.sqrt(0.09 / 600)), method


def test_proportion_release():
    ledger = Ledger(":memory:", budget=PureDP(1.0))
    made = BoundedProportions.calibrate(PureDP(1.0), TWO, method="universal_histogram")
    noisy = release(Exact(np.array(SHARES, dtype=object), TWO), made, ledger=ledger)
    assert noisy.value.sum() == pytest.approx(1.0)
    assert noisy.guarantee.epsilon <= 1.0
    assert type(noisy).from_json(noisy.to_json()).mechanism == made


def test_tied_pair_of_liu2019_remark_1():
    """s₁ + s₂ = c: s₁ is bounded by [max(c − u₂, l₁), min(c − l₂, u₁)]; s₂ follows and lies in its own domain."""
    pair = TiedPair.calibrate(PureDP(1.0), Sensitivity(moves=(0.1, 0.1)), bounds=((0, 1), (0.2, 0.9)), total=1.0)
    assert pair.domain == pytest.approx((0.1, 0.8))
    alone = BoundedLaplace.calibrate(PureDP(1.0), Sensitivity(l1=0.1), bounds=pair.domain)
    assert pair.scale == alone.scale
    draws = pair.simulate([0.3, 0.7], 2000, rng=1)
    assert draws.sum(axis=1) == pytest.approx(np.ones(2000))
    assert draws[:, 1].min() >= 0.2 - 1e-12
    assert draws[:, 1].max() <= 0.9 + 1e-12
    weighted = TiedPair(scale=0.1, bounds=((0, 1), (0, 1)), total=2.0, coefficients=(2.0, 4.0), inflated=True)
    first, second = weighted.draw([0.4, 0.3])
    assert 2 * first + 4 * second == pytest.approx(2.0)
    low, high = weighted.noise_interval(weighted.draw([0.4, 0.3]), 0.95)
    assert np.all(low <= high)
    assert mechanism_from_dict(json.loads(json.dumps(weighted.to_dict()))) == weighted
    ledger = Ledger(":memory:", budget=PureDP(1.0))
    noisy = release(Exact(np.array([0.3, 0.7]), Sensitivity(moves=(0.1, 0.1))), pair, ledger=ledger)
    assert noisy.guarantee.epsilon <= 1.0


def test_plans_know_the_error_before_data():
    covariance = BoundedCovariance(budget=PureDP(1.0), changes=CHANGES, variance_bounds=DOMAINS)
    planned = plan(MOVES, covariance)
    assert planned.error_95.shape == (3,)
    errors = np.abs(np.array([covariance.measure(TRUTH, rng=seed) for seed in range(400)]) - TRUTH)
    assert np.all(np.mean(errors <= planned.error_95, axis=0) >= 0.95 - 4 * math.sqrt(0.05 * 0.95 / 400))
    assert plan(TWO, BoundedProportions.calibrate(PureDP(1.0), TWO)).error_95 > 0
    pair = TiedPair(scale=0.1, bounds=((0, 1), (0, 1)), total=1.0, coefficients=(1.0, 2.0))
    assert plan(Sensitivity(l1=0.1), pair).error_95.shape == (2,)


@pytest.mark.parametrize(
    "build",
    [
        lambda: BoundedCovariance(budget=PureDP(0.0), changes=CHANGES, variance_bounds=DOMAINS),
        lambda: BoundedCovariance(budget=1.0, changes=CHANGES, variance_bounds=DOMAINS),
        lambda: BoundedCovariance(budget=PureDP(1.0), changes=(1.0, 2.0), variance_bounds=DOMAINS),
        lambda: BoundedCovariance(budget=PureDP(1.0), changes=CHANGES, variance_bounds=(0, 1)),
        lambda: BoundedCovariance(budget=PureDP(1.0), changes=CHANGES, variance_bounds=((0, None), (0, 1))),
        lambda: BoundedCovariance(budget=PureDP(1.0), changes=CHANGES, variance_bounds=((-1, 1), (0, 1))),
        lambda: BoundedCovariance(budget=PureDP(1.0), changes=(1, 1, -1), variance_bounds=DOMAINS),
        lambda: BoundedCovariance(budget=PureDP(1.0), changes=CHANGES, variance_bounds=DOMAINS, weights=(1, 1)),
        lambda: BoundedCovariance(budget=GaussianDP(1.0), changes=CHANGES, variance_bounds=DOMAINS, as_published=True),
        lambda: BoundedCovariance.calibrate(PureDP(1.0), MOVES),
        lambda: BoundedCovariance.calibrate(PureDP(1.0), Sensitivity(l1=9.0), changes=CHANGES, variance_bounds=DOMAINS),
        lambda: BoundedProportions(scale=1.0, categories=1),
        lambda: BoundedProportions(scale=-1.0, categories=3),
        lambda: BoundedProportions(scale=1.0, categories=3, method="magic"),
        lambda: BoundedProportions(scale=1.0, categories=3, noise="laplace"),
        lambda: BoundedProportions(scale=1.0, categories=3, method="universal_histogram", branching=1),
        lambda: BoundedProportions(scale=1.0, categories=3, dropped_rows=3),
        lambda: BoundedProportions.calibrate(PureDP(1.0), Sensitivity(moves=(1.0,))),
        lambda: TiedPair(scale=1.0, bounds=(0, 1), total=1.0),
        lambda: TiedPair(scale=1.0, bounds=((0, 1), (5, 6)), total=1.0),
        lambda: TiedPair(scale=1.0, bounds=((0, 1), (0, 1)), total=1.0, coefficients=(0.0, 1.0)),
        lambda: TiedPair(scale=1.0, bounds=((0, 1), (0, 1)), total=math.nan),
    ],
)
def test_refusals(build):
    with pytest.raises(DiscreetError):
        build()
