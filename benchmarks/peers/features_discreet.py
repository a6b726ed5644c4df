"""What discreet does, by running it."""

import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow

import probing
from discreet import (
    ApproxDP,
    Bounds,
    Categories,
    Contribution,
    GaussianDP,
    Ledger,
    PrivacyUnit,
    PrivateLabels,
    PureDP,
    Related,
    Schema,
    Session,
    ZeroConcentratedDP,
    __version__,
    compose,
)
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms import BoundedLaplace, Gaussian, Laplace, PermuteAndFlip
from discreet.questions import compare_means
from discreet.questions.clusters import DPLloyd
from discreet.questions.naive_bayes import GaussianNaiveBayes
from probing import absent, no, number, refused, yes

one = PureDP(1.0)
move = Sensitivity(moves=(1,))
people = pyarrow.table(
    {
        "age": [18 + i % 83 for i in range(3000)],
        "place": [f"place {i % 3}" for i in range(3000)],
        "old": [["no", "yes"][i % 2] for i in range(3000)],
        "person": [str(i // 3) for i in range(3000)],
    }
)
COLUMNS = {
    "age": Bounds(18, 100, grid=1, nulls=59),
    "place": Categories([f"place {i}" for i in range(3)]),
    "old": Categories(["no", "yes"]),
}


def session(data=people, *, budget=one, low=18, high=100, **facts):
    """A session about some rows."""
    columns = COLUMNS | {"age": Bounds(low, high, grid=1, nulls=59)}
    return Session(data, Schema(columns=columns, **facts), ledger=":memory:", budget=budget)


def mean(data=people, *, guarantee=one, **facts):
    """The mean of everybody."""
    return session(data, **facts).mean("age", guarantee=guarantee).mean


def missing(pattern):
    """Nothing public has such a name."""
    return lambda: absent("discreet", pattern, "Laplace")


def quantiles():
    """A median with an interval."""
    assert session().quantile("age", 0.5, guarantee=one, interval=0.95).value is not None
    return yes("with intervals")


def variance():
    """A variance, with a private count behind it."""
    assert session().variance("age", guarantee=one).variance >= 0
    return yes()


def covariance():
    """A matrix of two columns, with a private count behind it, and an interval of a correlation."""
    rows = pyarrow.table({"a": list(range(1000)), "b": list(range(1000))})
    bounds = Bounds(0, 1000, grid=1, nulls=0)
    asked = Session(rows, Schema(columns={"a": bounds, "b": bounds}), ledger=":memory:", budget=one)
    found = asked.covariance_matrix(["a", "b"], guarantee=one)
    assert found.correlation_interval(j=0, k=1).high > 0.9
    return yes("with correlations and intervals")


def distinct():
    """The number of places."""
    assert 0 <= session().distinct("place", guarantee=one).value <= 1000
    return yes()


def joins():
    """People and their visits, joined by the person's id."""
    visits = pyarrow.table({"who": [str(i // 2) for i in range(2000)], "cost": [50.0] * 2000})
    unit = PrivacyUnit("person", contribution=Contribution(total=2))
    related = {"visits": Related(id="who", rows=2, columns={"cost": Bounds(0, 100, grid=1)})}
    schema = Schema(columns=COLUMNS, unit=unit, related=related)
    asked = Session(people, schema, ledger=":memory:", budget=one, related={"visits": visits})
    assert abs(asked.mean("cost", guarantee=one).mean - 50) < 20
    return yes("by the id of a person")


def bounds():
    """Bounds of a column of which nothing is declared."""
    asked = Session(people.select(["age"]), Schema(columns={}), ledger=":memory:", budget=one)
    found = asked.profile(one).columns["age"]
    assert found.low < 59 < found.high
    return yes("and labels, limits, quartiles")


def synthetic():
    """Rows drawn from a model of released tables."""
    release = session().tables([["old", "place"]], guarantee=one)
    assert release.synthetic_rows(2, rng=1)
    return yes("from released tables")


def running():
    """A count that grows with its periods."""
    months = Categories([f"2026-{month:02}" for month in range(1, 13)])
    rows = pyarrow.table({"month": ["2026-01"] * 500})
    budget = GaussianDP(1.0)
    asked = Session(rows, Schema(columns={"month": months}), ledger=":memory:", budget=budget)
    assert abs(asked.running_total("month", guarantee=budget, period="2026-01").value - 500) < 100
    return yes("one guarantee for all periods")


def regression():
    """Least squares with a standard error."""
    asked = session(budget=PureDP(2.0))
    assert len(asked.regression("age", ["old"], guarantee=one).bse) == 2
    assert len(asked.logistic_regression("old", ["age"], guarantee=one).bse) == 2
    return yes("linear and logistic, with intervals and tests")


def number_tests():
    """Ranks, pairs, distributions, means."""
    asked = session(budget=PureDP(3.0))
    assert 0 <= asked.rank_test("age", "place", guarantee=one, bins=8).pvalue <= 1
    assert 0 <= asked.kolmogorov_smirnov("age", "old", guarantee=one, bins=8).pvalue <= 1
    assert 0 <= asked.signed_rank("age", 50, guarantee=one).pvalue <= 1
    return yes("ranks, pairs, Kolmogorov–Smirnov, means")


def choice():
    """Permute-and-flip."""
    assert PermuteAndFlip.calibrate(PureDP(50.0), move).choose([1, 99]) == 1
    return yes()


def bounded():
    """Noise conditioned on its domain."""
    mechanism = BoundedLaplace.calibrate(one, Sensitivity(moves=(1.0,)), bounds=(0.0, 1.0))
    assert 0 <= min(mechanism.draw(0.9) for _ in range(50)) <= max(mechanism.draw(0.9) for _ in range(50)) <= 1
    return yes("conditioned law, or clamped")


def models():
    """Regressions (a probe of their own), naive Bayes and clusters."""
    assert GaussianNaiveBayes
    assert DPLloyd
    return yes("regressions, naive Bayes, clusters")


def many_rows():
    """Two of each person's three rows."""
    unit = PrivacyUnit("person", contribution=Contribution(rows=2))
    assert abs(session(unit=unit).count(guarantee=one).value - 2000) < 100
    return yes()


def groups():
    """Labels that nobody declared: the common one is shown, the rare one is not."""
    words = pyarrow.table({"word": ["common"] * 500 + ["rare"]})
    budget = ApproxDP(1.0, 1e-6)
    asked = Session(words, Schema(columns={"word": PrivateLabels()}), ledger=":memory:", budget=budget)
    assert asked.common_labels("word", guarantee=budget).labels == ("common",)
    return yes()


def planned():
    """The error of a mean, without any data."""
    nothing = Session(None, Schema(columns=COLUMNS), ledger=":memory:", budget=one)
    assert nothing.plan.mean("age", guarantee=one, expected_rows=3000).error_95 > 0
    return yes("every release")


def noise_interval():
    """An interval from the release itself."""
    assert session().mean("age", guarantee=one).noise_interval(0.95).contains(59.5) in (True, False)
    return yes("all but choices")


def population():
    """Noise and sampling together."""
    found = session().mean("age", guarantee=one, variance=True)
    assert found.population_interval(0.95).low < found.population_interval(0.95).high
    return yes("of every answer, or refused with words")


def tests():
    """Fit, homogeneity and independence."""
    asked = session(budget=PureDP(3.0))
    found = [
        asked.goodness_of_fit("old", [0.5, 0.5], guarantee=one),
        asked.homogeneity("old", "place", guarantee=one),
        asked.independence(["old", "place"], guarantee=one),
    ]
    assert all(0 <= result.pvalue <= 1 for result in found)
    return yes("three")


def experiments():
    """Two arms."""
    found = compare_means(
        np.ones(500), np.zeros(500), bounds=(0, 1), guarantee=one, ledger=Ledger(":memory:", budget=one)
    )
    assert 0 <= found.pvalue <= 1
    return yes("with planning")


def guarantees():
    """Noise for each kind."""
    for kind in (one, ApproxDP(1.0, 1e-6), ZeroConcentratedDP(0.5), GaussianDP(1.0)):
        mechanism = (Laplace if kind is one else Gaussian).calibrate(kind, Sensitivity(moves=(1.0,)))
        mechanism.draw(0.0)
    return "ε, (ε, δ), ρ, μ", ""


def composed():
    """Exact composition of Gaussian releases."""
    each = Gaussian(scale=10.0).guarantee(Sensitivity(moves=(1.0,)))
    return number(compose(*[each] * 100).epsilon_at(1e-6))


def bounded_scale():
    """The smallest scale."""
    return number(BoundedLaplace.calibrate(ApproxDP(1.0, 0.01), Sensitivity(moves=(0.1,)), bounds=(0.0, 1.0)).scale)


def impossible():
    """Laplace noise on a float, all draws at once."""
    draws = {truth: iter(Laplace(scale=1.0).law(np.full(20_000, truth)).sample().tolist()) for truth in (0.0, 1.0)}
    return probing.impossible(lambda truth: next(draws[truth]))


def awkward():
    """A mean of awkward inputs."""
    nobody = people.slice(0, 0)
    gap = pyarrow.table({"age": [18.0, math.nan, 50.0] * 100})
    return probing.awkward(
        [
            lambda: Session(people, Schema(columns={}), ledger=":memory:", budget=one).mean("age", guarantee=one).mean,
            lambda: mean(low=100, high=18),
            lambda: mean(nobody),
            lambda: mean(gap),
            lambda: mean(guarantee=PureDP(0.0)),
            lambda: mean(guarantee=PureDP(-1.0)),
            lambda: mean(guarantee=PureDP(math.nan)),
        ],
        fine=("no rows", "a missing value"),
    )


def overspending():
    """A third release of 0.4 under a budget of 1."""
    asked = session()
    for _ in range(2):
        asked.count(epsilon=0.4)
    assert refused(lambda: asked.count(epsilon=0.4)) == "InsufficientBudget"
    return yes()


def outliving():
    """A process spends half and is killed; another finds the other half."""
    program = """
import os, signal, sys
from discreet import Ledger, PureDP, release
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms import Laplace
one = Sensitivity(l1=1.0)
ledger = Ledger(sys.argv[1], budget=PureDP(1.0))
release(Exact(1000, one), Laplace.calibrate(PureDP(0.5), one), ledger=ledger)
os.kill(os.getpid(), signal.SIGKILL)
"""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.sqlite"
        done = subprocess.run([sys.executable, "-c", program, path], env=os.environ, check=False)
        assert done.returncode != 0
        assert Ledger(path).remaining() == PureDP(0.5)
    return yes("on disk before the draw")


def audit():
    """A command that attacks the installation."""
    import discreet.audit

    assert discreet.audit.__all__
    return yes("`discreet audit`")


probing.tell(
    __version__,
    {
        "quantiles": quantiles,
        "variance": variance,
        "covariance": covariance,
        "distinct": distinct,
        "choice": choice,
        "bounded": bounded,
        "responses": missing("randomi[sz]ed_?response"),
        "models": models,
        "running": running,
        "synthetic": synthetic,
        "many rows": many_rows,
        "groups": groups,
        "bounds": bounds,
        "joins": joins,
        "engines": lambda: ("DuckDB, Spark", "") if mean() else no(),
        "planning": planned,
        "noise interval": noise_interval,
        "population interval": population,
        "regression": regression,
        "tests": tests,
        "number tests": number_tests,
        "experiments": experiments,
        "guarantees": guarantees,
        "composition": composed,
        "bounded scale": bounded_scale,
        "impossible": impossible,
        "awkward": awkward,
        "overspending": overspending,
        "ledger": outliving,
        "audit": audit,
    },
)
