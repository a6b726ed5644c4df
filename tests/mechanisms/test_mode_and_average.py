"""Mode and noisy average: sensitivity by brute force, releases, intervals with exact coverage."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from discreet import GaussianDP, Ledger, Neighbours, PureDP, Release, release
from discreet.core.errors import InvalidParameter
from discreet.inference.noise import NoiseSum
from discreet.mechanisms import ExponentialMechanism, Gaussian, Laplace, ReportNoisyMax
from discreet.questions import Mode, NoisyAverage

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE


def test_counts_and_their_moves_by_brute_force() -> None:
    mode = Mode(categories=(1, 2, 3))
    universe = [1, 2, 3, 9]  # 9 is outside the list
    for data in itertools.combinations_with_replacement(universe, 3):
        before = mode.value(list(data))
        for record in universe:
            moved = np.abs(mode.value([*data, record]) - before)
            assert tuple(sorted(moved[moved > 0])) in ((), (1,))
            for position in range(3):
                changed = [*data[:position], record, *data[position + 1 :]]
                moved = np.abs(mode.value(changed) - before)
                assert tuple(moved[moved > 0]) in ((), (1,), (1, 1))
    assert mode.sensitivity(neighbours=ADD).moves == (1.0,)
    assert mode.sensitivity(neighbours=REPLACE).moves == (1.0, 1.0)


def test_mode_release_round_trip() -> None:
    mode = Mode(categories=("a", "b", "c"))
    exact = mode.exact(np.array(["b"] * 500 + ["a"]), neighbours=ADD)
    for mechanism in (
        ExponentialMechanism.calibrate(PureDP(0.5), exact.sensitivity),
        ReportNoisyMax.calibrate(PureDP(0.5), exact.sensitivity),
    ):
        ledger = Ledger(":memory:", budget=PureDP(1.0))
        noisy = release(exact, mechanism, ledger=ledger)
        assert noisy.mode == "b"
        assert noisy.guarantee == PureDP(0.5)
        assert noisy.count_gap() < 20
        again = Release.from_json(noisy.to_json())
        assert again.mode == "b"
        assert "mode" in str(again)
        assert "500" not in repr(exact)


def test_empty_column_still_has_a_mode_release() -> None:
    exact = Mode(categories=(0, 1)).exact([], neighbours=ADD)
    assert release(exact, ExponentialMechanism(1.0), rng=1).mode in (0, 1)


@pytest.mark.parametrize("categories", ["ab", (), ("a",), ("a", "a"), 3])
def test_bad_categories(categories) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidParameter):
        Mode(categories=categories)


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("bounds", [(0.0, 10.0), (-2.0, 6.0)])
def test_average_moves_by_brute_force(centred: bool, bounds: tuple[float, float]) -> None:
    average = NoisyAverage(bounds=bounds, centred=centred, grid=1.0)
    values = np.linspace(*bounds, 5)
    worst = np.zeros(2)
    swapped = 0.0
    for data in itertools.product(values, repeat=2):
        before = average.value(list(data)).astype(float)
        for record in values:
            worst = np.maximum(worst, np.abs(average.value([*data, record]).astype(float) - before))
            swapped = max(swapped, float(np.abs(average.value([data[0], record]).astype(float) - before)[0]))
    np.testing.assert_allclose(worst, [1.0, 1.0])
    assert average.sensitivity(neighbours=REPLACE).l1 == pytest.approx(swapped)


def test_pair_tail_against_simulation() -> None:
    generator = np.random.default_rng(1)
    x, y = generator.laplace(size=(2, 2_000_000))
    for second in (0.0, 0.3, 1.0):
        for t in (0.5, 2.0, 5.0):
            expected = float((np.abs(x + second * y) > t).mean())
            assert 2 * float(NoiseSum(0.0, math.sqrt(2) * np.array([1.0, second]), 3.0).sf(t)) == pytest.approx(
                expected, abs=6 * math.sqrt(0.25 / 2e6)
            )
    # Two equal ones: P(|X + Y| > t) = (1 + t/2)·e^(−t).
    equal = NoiseSum(0.0, math.sqrt(2) * np.ones(2), 3.0)
    for t in (0.1, 2.0, 9.0):
        assert 2 * float(equal.sf(t)) == pytest.approx((1 + t / 2) * math.exp(-t), rel=1e-6)


@pytest.mark.parametrize(("guarantee", "kind"), [(PureDP(1.0), Laplace), (GaussianDP(0.5), Gaussian)])
@pytest.mark.parametrize("rows", [4, 60])
def test_interval_covers_at_its_level(guarantee, kind, rows: int) -> None:  # type: ignore[no-untyped-def]
    """1,000 repeats: 90 % ± 3.8 % is four standard deviations; small counts may only cover more."""
    data = np.random.default_rng(rows).uniform(0, 60, rows)
    average = NoisyAverage(bounds=(0, 100), grid=2.0**-10)
    exact = average.exact(data, neighbours=ADD)
    truth = float(average.middle + average.half * exact.value[0] / exact.value[1])
    mechanism = kind.calibrate(guarantee, exact.sensitivity)
    generator = np.random.default_rng(7)
    hits = sum(release(exact, mechanism, rng=generator).noise_interval(0.9).contains(truth) for _ in range(1000))
    low, high = (0.862, 0.938) if rows == 60 else (0.862, 1.0)
    assert low <= hits / 1000 <= high


def test_average_needs_less_noise_when_centred() -> None:
    centred = NoisyAverage(bounds=(0, 125)).comparison(PureDP(1.0), 1000, mean=40)
    published = NoisyAverage(bounds=(0, 125), centred=False).comparison(PureDP(1.0), 1000, mean=40)
    assert centred["noisy_n"] < published["noisy_n"]
    assert centred["ratio"] > 1
    # By simulation: the delta method's standard error is right to 3 % at 1,000 rows.
    generator = np.random.default_rng(3)
    z = generator.laplace(scale=2.0, size=(2, 200_000))
    simulated = 62.5 + 62.5 * ((40 - 62.5) / 62.5 * 1000 + z[0]) / (1000 + z[1])
    assert simulated.std() == pytest.approx(centred["noisy_n"], rel=0.03)


def test_average_of_nothing_is_the_middle() -> None:
    average = NoisyAverage(bounds=(0, 10), grid=1.0)
    noisy = release(average.exact([5.0], neighbours=ADD), Laplace(scale=0.01), rng=1)
    assert noisy.mean == pytest.approx(5.0, abs=1.0)
    assert noisy.noise_interval().contains(5.0)
    again = Release.from_json(noisy.to_json())
    assert again.mean == noisy.mean
    assert "rows" in str(again)
