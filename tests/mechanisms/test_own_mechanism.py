"""A mechanism that discreet has never seen: conclusions come from its law alone."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.special import expit, logit

from discreet import PureDP, release
from discreet.core.guarantee import Guarantee
from discreet.core.noise.sampler import Floats, Truth, float_truth, generator, plain
from discreet.core.protection import Neighbours
from discreet.core.sensitivity import Sensitivity
from discreet.inference import MonteCarlo, goodness_of_fit, homogeneity, independence
from discreet.inference.noise import NoiseSum, excess_kurtosis, moves_with_truth
from discreet.mechanisms.loss_distribution import ImpliedProfile
from discreet.mechanisms.mechanism import Law, Mechanism
from discreet.questions import ContingencyTable, NoisyAverage
from discreet.questions.moments import BernsteinMoments

REPEATS = 2000


class LogisticLaw(Law):
    """Logistic noise around a truth; simulated draws only."""

    def __init__(self, truth: Truth, scale: float) -> None:
        self.location, self.scale = float_truth(truth), scale

    @property
    def shape(self) -> tuple[int, ...]:
        return self.location.shape

    @property
    def support(self) -> tuple[Floats, Floats]:
        return -math.inf, math.inf

    @property
    def mean(self) -> Floats:
        return plain(self.location)

    @property
    def variance(self) -> Floats:
        return plain(np.full(self.shape, (math.pi * self.scale) ** 2 / 3))

    @property
    def bias(self) -> Floats:
        return plain(np.zeros(self.shape))

    def pdf(self, x: ArrayLike) -> Floats:
        z = (np.asarray(x) - self.location) / self.scale
        return plain(expit(z) * expit(-z) / self.scale)

    def cdf(self, x: ArrayLike) -> Floats:
        return plain(expit((np.asarray(x) - self.location) / self.scale))

    def quantile(self, q: ArrayLike) -> Floats:
        return plain(self.location + self.scale * logit(q))

    def sample(self, size: Any = None, *, rng: Any = None) -> Floats:
        front = () if size is None else (size,) if isinstance(size, int) else tuple(size)
        draws = generator(rng).logistic(self.location, self.scale, size=(*front, *self.shape))
        return plain(draws)


@dataclass(frozen=True)
class Logistic(Mechanism):
    """Logistic noise of one scale on every coordinate: ε = Δ₁/b, as |d log density| ≤ 1/b."""

    scale: float
    name: ClassVar[str] = "logistic_of_a_test"

    @classmethod
    def calibrate(cls, guarantee: Guarantee, sensitivity: Sensitivity) -> Self:
        return cls(sensitivity.require_l1() / guarantee.parameters()["epsilon"])

    def law(self, truth: Truth) -> LogisticLaw:
        return LogisticLaw(truth, self.scale)

    def profile(self, sensitivity: Sensitivity) -> ImpliedProfile:
        return ImpliedProfile(self.guarantee(sensitivity))

    def guarantee(
        self, sensitivity: Sensitivity, kind: type[Guarantee] | None = None, *, delta: float | None = None
    ) -> Guarantee:
        return PureDP(float(Fraction(sensitivity.require_l1()) / Fraction(self.scale)))

    def parameters(self) -> dict[str, Any]:
        return {"scale": self.scale}


def sampling_noise(share: float) -> float:
    """Three standard errors of a simulated share."""
    return 3 * math.sqrt(share * (1 - share) / REPEATS)


def test_the_law_tells_kurtosis_and_whether_it_shifts():
    assert excess_kurtosis(Logistic(2.0).law(0.0)) == pytest.approx(1.2, abs=1e-6)
    assert moves_with_truth(Logistic(2.0))


@pytest.mark.parametrize("weights", [(1.0, 1.0), (1.0, 0.3), (1.0, 0.5, 0.25)])
def test_sums_of_noise_against_the_characteristic_function(weights):
    """Oracle: Gil-Pelaez on the exact characteristic function πt/sinh(πt) of each logistic noise."""
    t = np.linspace(1e-6, 40, 400_001)
    product = np.prod([math.pi * w * t / np.sinh(np.minimum(math.pi * w * t, 700)) for w in weights], axis=0)
    law = NoiseSum.of(Logistic(1.0).law(0.0), weights)
    for level in (0.9, 0.95, 0.99):
        x = float(law.quantile((1 + level) / 2))
        tail = 1 - 2 * float(np.trapezoid(np.sin(t * x) / t * product, t)) / math.pi
        assert tail == pytest.approx(1 - level, abs=1.2e-3)


def covers(interval: Any, truth: float) -> bool:
    return bool(interval.contains(truth))


@pytest.mark.parametrize(
    "statistic", [NoisyAverage(bounds=(0, 100)), BernsteinMoments(bounds=((0, 100),), degrees=(1,))]
)
def test_intervals_of_means_cover_what_they_say(statistic):
    rows = np.random.default_rng(1).uniform(10, 60, 80).round(1)
    exact = statistic.exact(rows.tolist(), neighbours=Neighbours.ADD_REMOVE)
    rng = np.random.default_rng(2)
    noise = Logistic(2.0)
    found = [covers(release(exact, noise, rng=rng).noise_interval(), rows.mean()) for _ in range(REPEATS // 4)]
    assert np.mean(found) == pytest.approx(0.95, abs=2 * sampling_noise(0.95))


def test_intervals_of_variances_cover_at_least_what_they_say():
    statistic = BernsteinMoments(bounds=((0, 100),), degrees=(4,))
    rows = np.random.default_rng(1).uniform(10, 60, 80).round(1)
    exact = statistic.exact(rows.tolist(), neighbours=Neighbours.ADD_REMOVE)
    rng = np.random.default_rng(2)
    found = [
        covers(release(exact, Logistic(2.0), rng=rng).variance_interval(), rows.var()) for _ in range(REPEATS // 10)
    ]
    assert np.mean(found) > 0.95  # three totals by Bonferroni: near 1


SHARES = np.array([0.4, 0.3, 0.2, 0.1])
TABLE = ContingencyTable({"answer": ["a", "b", "c", "d"]})
SQUARE = ContingencyTable({"arm": ["x", "y"], "answer": ["n", "y"]})


def released(table: ContingencyTable, counts: NDArray[Any], rng: Any, neighbours: Neighbours) -> Any:
    return release(table.exact_counts(counts, neighbours=neighbours), Logistic(6.0), rng=rng)


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_cells_margins_and_shares(neighbours):
    rng, inside = np.random.default_rng(3), []
    for _ in range(REPEATS // 4):
        counts = rng.multinomial(500, [0.3, 0.2, 0.4, 0.1]).reshape(2, 2)
        table = released(SQUARE, counts, rng, neighbours)
        inside.append(
            [
                table.counts().noise_interval().contains(counts).mean(),
                table.margin("arm").noise_interval().contains(counts.sum(axis=1)).mean(),
                table.proportions().population_interval().contains([[0.3, 0.2], [0.4, 0.1]]).mean(),
            ]
        )
    # Two or four cells per table that move against each other: at least REPEATS / 4 independent outcomes.
    assert np.mean(inside, axis=0) == pytest.approx([0.95] * 3, abs=2 * sampling_noise(0.95))


@pytest.mark.parametrize("test", ["goodness", "homogeneity", "independence"])
def test_a_five_percent_test_rejects_five_percent(test):
    rng, rejected = np.random.default_rng(4), 0
    repeats = REPEATS // 2
    for _ in range(repeats):
        null = MonteCarlo(n_resamples=199, rng=rng)
        counts = rng.multinomial(300, SHARES)
        if test == "goodness":
            found = goodness_of_fit(released(TABLE, counts, rng, Neighbours.REPLACE_ONE), SHARES, null=null)
        elif test == "homogeneity":
            other = rng.multinomial(200, SHARES)
            both = [released(TABLE, one, rng, Neighbours.ADD_REMOVE) for one in (counts, other)]
            found = homogeneity(both, null=null)
        else:
            square = rng.multinomial(300, np.outer([0.5, 0.5], [0.7, 0.3]).ravel()).reshape(2, 2)
            found = independence(released(SQUARE, square, rng, Neighbours.ADD_REMOVE), null=null)
        rejected += found.pvalue <= 0.05
    assert rejected / repeats == pytest.approx(0.05, abs=1.5 * sampling_noise(0.05))


def test_cramers_v_and_odds_ratio_are_read_from_the_law():
    counts = np.array([[60, 40], [35, 65]])
    table = released(SQUARE, counts, 1, Neighbours.REPLACE_ONE)
    assert covers(table.odds_ratio().population_interval(), 60 * 65 / 40 / 35)
    assert 0 < table.cramers_v(MonteCarlo(n_resamples=499, rng=1)).estimate < 1


def test_the_law_is_the_one_it_says():
    draws = np.asarray(Logistic(2.0).law(np.zeros(4000)).sample(rng=5))
    assert stats.kstest(draws, Logistic(2.0).law(0.0).cdf).pvalue > 1e-3
