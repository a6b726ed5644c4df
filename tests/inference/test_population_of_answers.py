"""Every answer of a session has an interval for the population, or says what to ask instead."""

from math import comb

import numpy as np
import pandas as pd
import pytest
from benchmarks.populations import POPULATIONS

from discreet import Bounds, Categories, Neighbours, PureDP, Schema, Session
from discreet.core.errors import NoPopulationInterval
from discreet.inference.moments import PartMoments
from discreet.questions import MeanQuestion
from tests.questions.test_every_question import ASKED, SCHEMA, budget, guarantee
from tests.questions.test_every_question import rows as many

COLUMNS = {"arm": Categories(["A", "B"]), "age": Bounds(18, 100, grid=1), "pay": Bounds(0, 50, grid=0.5)}
ONE = PureDP(1.0)
ANSWERS = {
    "mean": lambda s: s.mean("age", guarantee=ONE),
    "mean alone": lambda s: s.mean("age", guarantee=ONE, variance=False),
    "mean by group": lambda s: s.mean("age", guarantee=ONE, by="arm")["A"],
    "variance": lambda s: s.variance("age", guarantee=ONE),
    "proportion": lambda s: s.proportion("arm", "A", guarantee=ONE),
    "covariance matrix": lambda s: s.covariance_matrix(["age", "pay"], guarantee=ONE),
    "table": lambda s: s.table(["arm"], guarantee=ONE),
    "comparison": lambda s: s.compare_means("pay", by="arm", guarantee=ONE),
}
REFUSED = {
    "count": lambda s: s.count(guarantee=ONE),
    "sum": lambda s: s.sum("pay", guarantee=ONE),
    "quantile": lambda s: s.quantile("age", 0.5, guarantee=ONE),
}


@pytest.fixture(scope="module", params=["private", "public"])
def session(request):
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(
        {
            "arm": rng.choice(["A", "B"], 2000),
            "age": rng.integers(18, 80, 2000),
            "pay": np.where(rng.random(2000) < 0.8, 0.0, rng.gamma(2, 5, 2000)).round(),
        }
    )
    public = request.param == "public"
    neighbours = Neighbours.REPLACE_ONE if public else Neighbours.ADD_REMOVE
    schema = Schema(columns=COLUMNS, neighbours=neighbours, size=2000 if public else None)
    return Session(rows, schema, ledger=":memory:", budget=PureDP(100.0))


@pytest.mark.parametrize("name", ANSWERS)
def test_every_answer_has_an_interval_for_the_population(session, name):
    answer = ANSWERS[name](session)
    wide, narrow = answer.population_interval(0.99), answer.population_interval(0.9)
    assert np.all(np.asarray(wide.low) <= np.asarray(narrow.low))
    assert np.all(np.asarray(narrow.high) <= np.asarray(wide.high))
    assert np.all(np.asarray(narrow.low) <= np.asarray(narrow.high))


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_says_what_to_ask(session, name):
    with pytest.raises(NoPopulationInterval, match=r"Ask|Use"):
        REFUSED[name](session).population_interval()


NONE = {
    "profile",
    "distinct",
    "dropped_rows",
    "usable_values",
    "sum",
    "running_total",
    "quantile",
    "slope",
    "mode",
    "clusters",
    "common_labels",
}
"""Questions of which an answer says nothing about a population, as they are asked here."""


@pytest.mark.parametrize("name", ASKED)
def test_every_question_has_an_interval_or_a_typed_refusal(name):
    """All questions there are: a new one must say which of both it has."""
    session = Session(many(), SCHEMA, ledger=":memory:", budget=budget(name))
    answer = getattr(session, name)(guarantee=guarantee(name), **ASKED[name])
    if name in NONE:
        with pytest.raises(NoPopulationInterval, match="Ask"):
            answer.population_interval()
    else:
        found = answer.population_interval(0.9)
        assert found.level == 0.9
        assert np.all(np.asarray(found.low, dtype=float) <= np.asarray(found.high, dtype=float))


def test_a_default_mean_has_a_narrow_interval_for_the_population(capsys):
    """Widths beside those of an interval that knows all variances: by default, and with ``variance=False``."""
    schema, rng, rows = Schema(columns={"x": Bounds(0, 1, grid=0.001)}), np.random.default_rng(4), 3000
    ratios = {True: [], False: []}
    for population in POPULATIONS.values():
        data = population.samples(rows, 40, rng)
        for variance, found in ratios.items():
            asked = MeanQuestion(schema, "x", guarantee=ONE, variance=variance).measurement
            degree = asked.statistic.degrees[0]
            parts = np.array([comb(degree, k) * population.points**k * (1 - population.points) ** (degree - k)
                              for k in range(degree + 1)])  # fmt: skip
            noise = 2 * asked.mechanism.scale**2
            totals = data @ parts.T + rng.laplace(0, asked.mechanism.scale, (40, degree + 1))
            low, high = PartMoments(totals=totals, noise=noise, kurtosis=3.0).mean_interval(0.95)
            alone = noise * (population.mean**2 + (1 - population.mean) ** 2) / rows**2
            ideal = np.sqrt(alone + population.variance / rows)
            found.append(float(np.median(np.asarray(high) - np.asarray(low)) / (2 * 1.96 * ideal)))
    with capsys.disabled():
        for variance, found in ratios.items():
            print(
                f"\nmean, {variance=}: width over the oracle's {np.median(found):.2f}, worst {max(found):.2f}", end=""
            )
    assert np.median(ratios[True]) < 1.3 < 1.5 < np.median(ratios[False])
    assert 3 * max(ratios[True]) < max(ratios[False])
