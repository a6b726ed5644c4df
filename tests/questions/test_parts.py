"""Totals in parts: exact sensitivity, loss, intervals, and the error against the totals they replace."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from discreet import (
    Bounds,
    Categories,
    Contribution,
    Feature,
    GaussianDP,
    Ledger,
    Neighbours,
    PrivacyUnit,
    PureDP,
    Release,
    Schema,
    Session,
    release,
)
from discreet.core.errors import DiscreetError, InvalidParameter
from discreet.core.schema import in_parts
from discreet.mechanisms import Gaussian, Laplace
from discreet.questions.grouped import Grouped
from discreet.questions.mean import MeanQuestion
from discreet.questions.moments import BernsteinMoments
from discreet.questions.sum import NoisyAverage
from discreet.results.release import statistic_from_dict

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
MEAN, MEAN_AND_VARIANCE = (partial(BernsteinMoments, degrees=(degree,)) for degree in (1, 4))
KINDS = [MEAN, MEAN_AND_VARIANCE, partial(MEAN_AND_VARIANCE, of="variance")]
ENDS = (-2.0, 6.0)


def norms(change):
    return sum(abs(part) for part in change), sum(part * part for part in change)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_in_parts_adds_up_to_one(kind):
    of = kind(bounds=ENDS)
    for x in [-2, -1.5, 0, 0.1, 2, 3.25, 6, 99, -99]:
        parts = of.exact([x], neighbours=ADD).value
        assert all(part >= 0 for part in parts)
        assert sum(parts) == 1
        clipped = (Fraction(min(max(x, -2), 6)) - of.middle) / of.half
        assert sum(Fraction(place) * part for place, part in zip(of.positions, parts, strict=True)) == clipped
        for power in range(2, of.degrees[0] + 1):
            # z = 2u − 1 = Σ over the parts: each power from (k over i)/(d over i) of the parts, in fractions
            raised = [
                sum(Fraction(math.comb(k, i), math.comb(of.degrees[0], i)) * part for k, part in enumerate(parts))
                for i in range(power + 1)
            ]
            found = sum(math.comb(power, i) * 2**i * (-1) ** (power - i) * raised[i] for i in range(power + 1))
            assert found == clipped**power


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
@pytest.mark.parametrize(("groups", "rows"), [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2)])
def test_sensitivity_by_brute_force(kind, neighbours, groups, rows):
    """All units of up to ``rows`` rows in each of ``groups`` groups, with values on a few points; in fractions."""
    of = kind(bounds=ENDS)
    points = [-2, 0, 2, 4, 6] if groups == 1 else [-2, 2, 6]
    one_group = [
        of.exact(list(data), neighbours=ADD).value
        for size in range(rows + 1)
        for data in itertools.combinations_with_replacement(points, size)
    ]
    units = [np.concatenate(parts) for parts in itertools.product(one_group, repeat=groups)]
    others = units if neighbours is REPLACE else [0 * units[0]]
    found = [norms(unit - other) for unit in units for other in others]
    declared = in_parts(Contribution(groups=groups, rows=rows), groups, of.degrees[0] + 1, neighbours)
    assert max(l1 for l1, _ in found) == Fraction(declared.l1)  # attained, and never exceeded
    assert max(squares for _, squares in found) <= Fraction(declared.l2) ** 2
    assert math.sqrt(max(squares for _, squares in found)) == pytest.approx(declared.l2, rel=1e-12)
    if rows == groups == 1:
        assert of.sensitivity(neighbours=neighbours) == declared


def test_sensitivity_with_a_limit_in_all():
    """Three rows anywhere in two groups: both norms 3, attained in one group."""
    declared = in_parts(Contribution(total=3), 2, 2, ADD)
    assert (declared.l1, declared.l2, declared.dimension) == (3.0, 3.0, 4)
    replaced = in_parts(Contribution(total=3), 2, 2, REPLACE)
    assert replaced.l1 == 6.0
    assert replaced.l2 == pytest.approx(3 * math.sqrt(2))
    rows = [np.array(row) for row in itertools.product([0, 1], [0, 1])]  # group and label
    cells = [2 * group + label for group, label in rows]
    vectors = [np.bincount(list(chosen), minlength=4) for chosen in itertools.product(cells, repeat=3)]
    assert max(np.abs(a - b).sum() for a in vectors for b in vectors) == 6
    assert max(((a - b) ** 2).sum() for a in vectors for b in vectors) == 18


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("x", [-2.0, 0.5, 2.0, 6.0])
def test_exact_loss_is_the_claim(kind, x):
    """ℓ₁ is 1 for every row, so the largest log ratio of densities is ε whatever the row is."""
    of = kind(bounds=ENDS)
    exact = of.exact([x], neighbours=ADD)
    mechanism = Laplace.calibrate(PureDP(0.7), exact.sensitivity)
    shift = np.array([float(part) for part in exact.value])
    far = 100.0 * np.ones(shift.size)  # beyond both truths in every coordinate: the loss is at its largest
    loss = (np.abs(far) - np.abs(far - shift)).sum() / mechanism.scale
    assert 0.99 * 0.7 <= loss <= 0.7 * (1 + 1e-12)
    grid = np.stack(np.meshgrid(*[np.linspace(-3, 3, 13)] * shift.size), axis=-1).reshape(-1, shift.size)
    losses = (np.abs(grid) - np.abs(grid - shift)).sum(axis=1) / mechanism.scale
    assert np.abs(losses).max() <= 0.7 * (1 + 1e-12)
    assert float(mechanism.guarantee(exact.sensitivity).epsilon) == pytest.approx(0.7, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS[:2])
@pytest.mark.parametrize(("guarantee", "noise"), [(PureDP(1.0), Laplace), (GaussianDP(0.5), Gaussian)])
@pytest.mark.parametrize("mean", [2.0, pytest.param(30.0, marks=pytest.mark.deep), 50.0])
def test_noise_interval_covers_at_its_level(kind, guarantee, noise, mean):
    """600 repeats: 95 % ± 3.5 points is four standard errors; a mean at a bound may be covered more often."""
    data = np.clip(np.random.default_rng(2).normal(mean, mean / 3, 80), 0, 100).round(1)
    exact = kind(bounds=(0, 100)).exact(data, neighbours=ADD)
    mechanism = noise.calibrate(guarantee, exact.sensitivity)
    truth = float(np.mean(data))
    rng = np.random.default_rng(5)
    hits = [release(exact, mechanism, rng=rng).noise_interval().contains(truth) for _ in range(600)]
    assert 0.915 <= np.mean(hits) <= (0.985 if mean > 10 else 1.0)


@pytest.mark.parametrize(("guarantee", "noise"), [(PureDP(1.0), Laplace), (GaussianDP(0.5), Gaussian)])
def test_variance_interval_covers(guarantee, noise):
    data = np.random.default_rng(2).normal(40, 12, 300).clip(0, 100).round(1)
    exact = MEAN_AND_VARIANCE(bounds=(0, 100)).exact(data, neighbours=ADD)
    mechanism = noise.calibrate(guarantee, exact.sensitivity)
    rng = np.random.default_rng(5)
    drawn = [release(exact, mechanism, rng=rng) for _ in range(400)]
    assert np.mean([one.variance_interval().contains(float(np.var(data))) for one in drawn]) >= 0.92
    assert np.mean([one.population_interval().contains(40.0) for one in drawn[:100]]) >= 0.9
    assert all(one.variance_interval(0.5).contains(one.variance) for one in drawn)


def test_error_falls_at_equal_privacy():
    """1,000 ages, ε = 1; 1,500 draws know each root mean square to 3 %."""
    ages = np.random.default_rng(1).normal(45, 16, 1000).clip(0, 100).round()
    errors = []
    for of in (MEAN(bounds=(0, 100)), NoisyAverage(bounds=(0, 100))):
        exact = of.exact(ages, neighbours=ADD)
        mechanism = Laplace.calibrate(PureDP(1.0), exact.sensitivity)
        rng = np.random.default_rng(9)
        found = np.array([release(exact, mechanism, rng=rng).mean for _ in range(1500)])
        errors.append(np.sqrt(np.mean((found - np.mean(ages)) ** 2)))
    assert errors[1] / errors[0] >= 0.9 * math.sqrt(2)


def people(rows):
    columns = {"arm": Categories(["A", "B"]), "spend": Bounds(0, 50, grid=0.5)}
    limits = PrivacyUnit("person", contribution=Contribution(groups=2, rows=rows))
    return Schema(columns=columns, unit=limits)


@pytest.mark.parametrize("rows", [1, 3])
def test_scales_and_rows_of_a_unit(rows):
    schema = people(rows)
    one = MeanQuestion(schema, "spend", epsilon=1.0, variance=True).measurement
    by = MeanQuestion(schema, "spend", epsilon=1.0, by="arm", variance=True).measurement
    features = {"spend": Feature(of="spend", take="sum", low=0, high=60), "arm": Feature(of="arm", take="min")}
    clipped = MeanQuestion(replace(schema, features=features).per_unit(), "spend", epsilon=1.0, by="arm").measurement
    assert (one.mechanism.scale, by.mechanism.scale, clipped.mechanism.scale) == (rows, 2 * rows, 1)
    frame = pd.DataFrame({"person": range(40), "arm": ["A", "B"] * 20, "spend": [10.0] * 40})
    session = Session(frame, people(rows), ledger=":memory:", budget=PureDP(2.0))
    answer = session.mean("spend", epsilon=1.0, by="arm", variance=True)
    assert answer["A"].moments.rows_per_unit == rows
    assert Release.from_json(answer.to_json())["B"].mean == answer["B"].mean


def test_earlier_releases_are_read_and_not_taken_for_new_answers(tmp_path):
    """A ledger that holds an answer in the earlier totals: it loads, and asking again under its name is refused."""
    path, before = tmp_path / "ledger.sqlite", NoisyAverage(bounds=(0, 50))
    ledger = Ledger(path, budget=PureDP(2.0))
    exact = before.exact([10.0] * 50, neighbours=ADD)
    made = release(exact, Laplace.calibrate(PureDP(1.0), exact.sensitivity), ledger=ledger, name="spend")
    stored = Release.from_dict(ledger.requested("spend").answer)
    assert stored.statistic == before
    assert stored.mean == made.mean
    assert stored.noise_interval() == made.noise_interval()
    schema = Schema(columns={"spend": Bounds(0, 50, grid=0.5)})
    session = Session(pd.DataFrame({"spend": [10.0] * 50}), schema, ledger=ledger)
    with pytest.raises(DiscreetError):
        session.mean("spend", epsilon=1.0, name="spend")
    assert ledger.remaining() == PureDP(1.0)
    assert session.mean("spend", epsilon=0.5, name="again").statistic != before


def test_the_mean_of_nothing_is_as_near_to_the_middle_as_its_interval_allows():
    others = 0
    for kind, seed in itertools.product(KINDS, range(60)):
        noisy = release(kind(bounds=(0, 10)).exact([], neighbours=ADD), Laplace(scale=0.01), rng=seed)
        held = noisy.noise_interval()
        assert noisy.mean == min(max(5.0, held.low), held.high)
        others += noisy.mean != 5.0
    assert 0 < others < 30


@pytest.mark.parametrize("of", ["variance", "standard deviation"])
def test_the_mean_beside_a_spread_of_nothing_lies_within_its_bounds(of):
    statistic = BernsteinMoments(bounds=((10_000, 10_010),), degrees=(4,), of=of)
    noisy = release(statistic.exact([10_005.0], neighbours=ADD), Laplace(3.0), rng=5)
    assert noisy.count < 1
    assert 10_000 <= noisy.mean <= 10_010


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bounds", [(1, 0), (0, math.inf), (0, 0), "ab"])
def test_bad_bounds(kind, bounds):
    with pytest.raises(InvalidParameter):
        kind(bounds=bounds)


def test_parts_are_read_back_by_name():
    of = Grouped(of=MEAN_AND_VARIANCE(bounds=(0, 10)), by={"arm": ("A", "B")})
    assert Grouped(**of.parameters()) == of


@pytest.mark.parametrize("asked", ["mean", "share", "spread", "variance", "std"])
@pytest.mark.parametrize("guarantee", [PureDP(0.5), GaussianDP(0.5)], ids=["laplace", "gaussian"])
def test_groups_are_read_together_as_they_are_alone(asked, guarantee):
    """Intervals of all groups at once equal those of each; groups of 0, 1, 3, 40 and 400 rows."""
    sizes = [0, 1, 3, 40, 400]
    rng = np.random.default_rng(3)
    labels = np.repeat(list("abcde"), sizes)
    table = pa.table({"g": labels, "x": rng.exponential(2, labels.size), "s": rng.choice(["y", "n"], labels.size)})
    columns = {"g": Categories(list("abcde")), "x": Bounds(0, 10, grid=0.5), "s": Categories(["y", "n"])}
    session = Session(table, Schema(columns=columns), ledger=":memory:", budget=guarantee)
    calls = {
        "mean": lambda: session.mean("x", guarantee=guarantee, by="g"),
        "share": lambda: session.proportion("s", "y", guarantee=guarantee, by="g"),
        "spread": lambda: session.mean("x", guarantee=guarantee, by="g", variance=True),
        "variance": lambda: session.variance("x", guarantee=guarantee, by="g"),
        "std": lambda: session.std("x", guarantee=guarantee, by="g"),
    }
    answer = calls[asked]()
    alone = [one for _, part in answer.items() for one in part.readings()]
    for one, other in zip(alone, answer.readings(), strict=True):
        assert one.measure == other.measure
        assert other.standard_error == pytest.approx(one.standard_error)
        assert other.estimate == pytest.approx(one.estimate, abs=1e-12)
        for known in ("noise", "population"):
            assert tuple(getattr(other, known)) == pytest.approx(tuple(getattr(one, known)), abs=1e-9)
        assert other.noise.low <= other.estimate <= other.noise.high


@pytest.mark.parametrize(
    ("name", "degree", "of"),
    [
        ("mean_in_parts", 1, "mean"),
        ("proportion_in_parts", 1, "proportion"),
        ("mean_and_variance_in_parts", 4, "mean"),
        ("variance_in_parts", 4, "variance"),
        ("standard_deviation_in_parts", 4, "standard deviation"),
    ],
)
def test_releases_with_an_earlier_name_are_read(name, degree, of):
    statistic = BernsteinMoments(bounds=((0, 1),), degrees=(degree,), of=of)
    made = release(statistic.exact([0, 0.5, 1, 1], neighbours=ADD), Laplace(scale=0.1), rng=1)
    stored = made.to_dict() | {"statistic": {"name": name, "bounds": [0.0, 1.0], "weighed": False}}
    assert Release.from_dict(stored).to_dict() == made.to_dict()
    assert statistic_from_dict(stored["statistic"]) == statistic
