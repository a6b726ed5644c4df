"""The settings of comparisons that liu2023 leaves to its user: cut-offs, their placement, inference, sanitizations."""

import itertools
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import optimize, stats

from discreet import Bounds, Categories, Ledger, Neighbours, PrivacyUnit, PureDP, Schema, ZeroConcentratedDP
from discreet.core.errors import InvalidParameter
from discreet.plans.job import Job
from discreet.questions import compare_means
from discreet.questions.comparison.methods import Arms, MeanDifference, PartitionLikelihood, Setting, Spending
from discreet.questions.comparison.paper import Ordered, PaperMethod, Sanitizer, paper_method
from discreet.questions.comparison.question import ComparisonQuestion

CUT = (-0.4, 0.9)
COUNTING = ("6S", "6SDD", "winsorized6", "trimmed6", "naive5")


def arms(differences, low=0.0, high=20.0):
    """Arms whose partition means differ by these; one unit a partition."""
    count = len(differences)
    largest = 2**20
    base = np.full(count, largest // 2)
    sums = np.stack([base, base + np.round(np.asarray(differences) / (high - low) * largest).astype(np.int64)])
    return Arms(low=low, width=high - low, largest=largest, counts=np.ones((2, count), dtype=np.int64), sums=sums,
                squares=tuple(int(np.sum(row**2)) for row in sums))  # fmt: skip


def setting(count, bounds=(0.0, 20.0)):
    statistic = MeanDifference(bounds=bounds, partitions=count, censor=(0.1, 0.1))
    return Setting(statistic, Neighbours.REPLACE_ONE, (count, count))


@pytest.mark.parametrize("inference", ["bayes", "ml"])
def test_declared_cutoffs_give_the_censored_likelihood_of_all_values(inference):
    """Without noise: the maximum of the censored normal likelihood, found by an optimiser on the values themselves."""
    values = np.random.default_rng(1).normal(0.3, 0.7, 400)
    low, high = CUT

    def surprise(x):
        theta, spread = x[0], np.exp(x[1])
        inside = values[(values >= low) & (values < high)]
        return -(
            (values < low).sum() * stats.norm.logcdf((low - theta) / spread)
            + (values >= high).sum() * stats.norm.logsf((high - theta) / spread)
            + stats.norm.logpdf(inside, theta, spread).sum()
        )

    wanted = optimize.minimize(surprise, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-10})
    method = paper_method("6S", cutoffs=CUT, inference=inference, m=1)
    found = method.run(arms(values), Spending(PureDP(1000.0), np.random.default_rng(2)), setting(400))
    assert float(found.contrast.estimate) == pytest.approx(wanted.x[0], abs=2e-3)
    assert method.parameters()["cutoffs"] == CUT
    assert method.placement == "declared"


@pytest.mark.parametrize("name", COUNTING)
def test_nothing_is_spent_on_declared_cutoffs(name):
    """The statistics that are left get the shares of the two quantiles; the sum of what is drawn is the whole."""
    method = paper_method(name, cutoffs=CUT, m=2)
    rest, interval = method.placed_interval(arms(np.zeros(20)), Spending(PureDP(1.0)), setting(20))
    assert rest.guarantee == PureDP(1.0)
    assert [float(end[0, 0]) for end in interval] == list(CUT)
    seen = []

    class Watched(Sanitizer):
        def add(self, values, sensitivity):
            seen.append(self.spending.guarantee.epsilon * np.broadcast_to(values, (1, self.m)).size)
            return super().add(values, sensitivity)

    ordered = Ordered.of(np.random.default_rng(3).normal(0, 1, (1, 20)))
    shares = (method.shares() - 2) * method.m
    part = Spending(PureDP(1.0), np.random.default_rng(4)).split([1.0] * shares)[0]
    placed = tuple(np.repeat(end, method.m, axis=1) for end in interval)
    method.sanitized(ordered, Watched(part, (-20.0, 20.0), method.m, placed=placed), (-20.0, 20.0), (0.1, 0.1))
    assert 1 - 1e-9 < sum(float(one) for one in seen) <= 1


@pytest.mark.parametrize("name", COUNTING)
def test_sums_between_declared_cutoffs_move_by_no_more_than_declared(name):
    """Brute force: one of five partition values takes every place of a small universe."""
    places = (-20.0, -0.41, -0.4, -0.1, 0.3, 0.8999, 0.9, 20.0)
    method = paper_method(name, cutoffs=CUT, m=1)
    logs = []

    class Still:
        def __init__(self):
            self.log = []

        def quantile(self, ordered, q):
            return np.array([[CUT[q >= 0.5]]])

        def add(self, values, sensitivity):
            self.log.append((float(np.squeeze(values)), float(np.squeeze(sensitivity))))
            return np.asarray(values, dtype=float)

    for moved in places:
        still = Still()
        method.sanitized(Ordered.of(np.array([[-3.0, -0.2, 0.1, 0.85, moved]])), still, (-20.0, 20.0), (0.1, 0.1))
        logs.append(still.log)
    tight = 0.0
    for first, second in itertools.product(logs, logs):
        for (one, most), (other, declared) in zip(first, second, strict=True):
            assert most == declared
            assert abs(one - other) <= most
            tight = max(tight, abs(one - other) / most)
    assert tight > 0.9


def test_cutoffs_that_are_known_beat_cutoffs_that_are_measured():
    """Root mean squared errors of 6S over the same 60 data sets at ε = 2: a third less, at least."""
    rng = np.random.default_rng(5)
    errors = {None: [], (-1.2, 1.2): []}
    for _ in range(60):
        values = arms(rng.normal(0.0, 1.0, 200))
        for cutoffs, found in errors.items():
            method = paper_method("6S", **({} if cutoffs is None else {"cutoffs": cutoffs}))
            found.append(method.run(values, Spending(PureDP(2.0), rng), setting(200)).contrast.estimate)
    measured, known = (float(np.sqrt(np.mean(np.square(found)))) for found in errors.values())
    assert known < 0.67 * measured


@pytest.mark.parametrize("guarantee", [PureDP(1.5), ZeroConcentratedDP(0.2)])
@pytest.mark.parametrize("name", ["noise_aware", *COUNTING])
def test_every_method_with_cutoffs_spends_what_was_asked_and_finds_the_effect(name, guarantee):
    rng = np.random.default_rng(6)
    columns = rng.poisson(3.0, 20_000), rng.poisson(2.5, 20_000)
    ledger = Ledger(":memory:", budget=guarantee)
    found = compare_means(
        *columns, bounds=(0, 20), guarantee=guarantee, partitions=100, ledger=ledger, method=name, cutoffs=(0.1, 0.9)
    )
    assert ledger.remaining() == type(guarantee)(0.0)
    assert not found.simulated
    if name != "naive5":
        assert abs(found.estimate - 0.5) < 0.25


REFUSED = [
    ({"method": "4S", "cutoffs": (-1, 1)}, "leave open how much 4S censors"),
    ({"method": "2S", "cutoffs": (-1, 1)}, "is no setting of 2S"),
    ({"method": "direct", "cutoffs": (-1, 1)}, "is no setting of direct"),
    ({"method": "best", "m": 3}, "is no setting of best"),
    ({"method": "noise_aware", "m": 3}, "is no setting of noise_aware, which takes one of cutoffs"),
    ({"method": "2S", "inference": "ml"}, "is no setting of 2S, which takes one of m"),
    ({"method": "winsorized", "inference": "ml"}, "is no setting of winsorized"),
    ({"method": "original", "m": 2}, "is no setting of original"),
    ({"method": "6S", "cutoffs": (1, -1)}, "cutoffs"),
    ({"method": "6S", "cutoffs": (21, 22)}, "leave out all differences of means"),
    ({"method": "noise_aware", "cutoffs": (-22, -21)}, "leave out all differences of means"),
    ({"method": "6S", "cutoffs": (-1, 1), "placement": "moments"}, '"declared" goes with cutoffs'),
    ({"method": "6S", "placement": "declared"}, '"declared" goes with cutoffs'),
    ({"method": "6S", "placement": "guess"}, "placement"),
    ({"method": "6S", "inference": "mle"}, "inference"),
    ({"method": "6S", "m": 0}, "m = 0"),
    ({"method": PaperMethod(), "m": 3}, "is no setting of a PaperMethod object"),
]


@pytest.mark.parametrize(("settings", "words"), REFUSED, ids=lambda one: str(one)[:40])
def test_settings_that_cannot_be_met_are_refused_before_anything_is_spent(settings, words):
    ledger = Ledger(":memory:", budget=PureDP(1.0))
    with pytest.raises(InvalidParameter, match=words):
        compare_means(
            [1.0] * 20, [2.0] * 20, bounds=(0, 20), guarantee=PureDP(1.0), partitions=10, ledger=ledger, **settings
        )
    assert ledger.remaining() == PureDP(1.0)


SCHEMA = Schema(columns={"arm": Categories(["old", "new"]), "y": Bounds(0, 20, grid=1)}, unit=PrivacyUnit("id"))


def test_a_question_takes_the_settings_and_tells_them_in_what_it_asks():
    asked = {"by": "arm", "partitions": 100, "guarantee": PureDP(1.0)}
    six = ComparisonQuestion(SCHEMA, "y", **asked, method="6S", cutoffs=[-1, 1], inference="ml", m=2)
    assert six.content()["method"] == {
        "name": "6S", "as_published": False, "m": 2, "placement": "declared", "cutoffs": (-1.0, 1.0), "inference": "ml",
    }  # fmt: skip
    four = ComparisonQuestion(SCHEMA, "y", **asked, method="4S", placement="quantile")
    assert four.content()["method"]["placement"] == "quantile"
    assert four.content() != ComparisonQuestion(SCHEMA, "y", **asked, method="4S").content()


def test_a_plan_with_cutoffs_is_sharper_and_realised():
    """The planned error of noise_aware with declared cut-offs, against 200 simulated comparisons."""
    asked = {"by": "arm", "partitions": 100, "guarantee": PureDP(0.1), "method": "noise_aware"}
    said = {"expected_rows": 40_000, "expected_sd": 1.6}
    usual, sharp = (
        ComparisonQuestion(SCHEMA, "y", **asked, **said, **more).plan() for more in ({}, {"cutoffs": (-0.2, 0.2)})
    )
    assert sharp.standard_error < usual.standard_error
    rng = np.random.default_rng(7)
    found = [
        compare_means(
            *(rng.poisson(2.56, 20_000) for _ in range(2)), bounds=(0, 20), guarantee=PureDP(0.1), partitions=100,
            method="noise_aware", expected_sd=1.6, cutoffs=(-0.2, 0.2), neighbours=Neighbours.ADD_REMOVE, rng=rng,
        ).estimate
        for _ in range(60)
    ]  # fmt: skip
    assert float(np.sqrt(np.mean(np.square(found)))) == pytest.approx(sharp.standard_error, rel=0.3)


def test_a_plan_file_takes_them(tmp_path):
    rng = np.random.default_rng(8)
    rows = pa.table({"arm": ["old"] * 2000 + ["new"] * 2000, "id": range(4000), "y": rng.poisson(3, 4000)})
    pq.write_table(rows, tmp_path / "rows.parquet")
    (tmp_path / "plan.toml").write_text(
        'title = "Layouts"\n[source]\npath = "rows.parquet"\n[budget]\nepsilon = 2.0\n'
        '[schema.unit]\ncolumn = "id"\n'
        '[schema.columns.arm]\ncategories = ["old", "new"]\n[schema.columns.y]\nlow = 0\nhigh = 20\ngrid = 1\n'
        '[[release]]\nname = "layouts"\nask = "compare_means"\ncolumn = "y"\nby = "arm"\nweight = 1\npartitions = 20\n'
        'method = "6S"\ncutoffs = [-2, 2]\ninference = "ml"\nm = 3\n'
        '[[release]]\nname = "placed"\nask = "compare_means"\ncolumn = "y"\nby = "arm"\nweight = 1\npartitions = 20\n'
        'method = "4S"\nplacement = "quantile"\n'
    )
    job = Job(tmp_path / "plan.toml")
    job.run()
    report = (tmp_path / job.file.output / "report.md").read_text()
    assert "6S" in report
    assert "4S" in report


def test_a_declared_interval_stays_in_the_likelihood_of_noise_aware():
    """The same noise: only the interval differs, and it is the declared one, as far as differences can reach."""
    values = arms(np.random.default_rng(9).normal(0.2, 1.0, 400))
    method = PartitionLikelihood(cutoffs=(-1.0, 900.0))
    found = method.run(values, Spending(PureDP(5.0), np.random.default_rng(10)), setting(400))
    assert found.noisy["interval"] == [-1.0, 20.0]
    assert replace(method, cutoffs=None).run(
        values, Spending(PureDP(5.0), np.random.default_rng(10)), setting(400)
    ).noisy["interval"] != [-1.0, 20.0]  # fmt: skip
