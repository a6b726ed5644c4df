"""Intervals behind omission steps: those about the data count the choice of rows; suppressed rows are no sample."""

import numpy as np
import pandas as pd
import pytest

from discreet import Bounds, Categories, Ledger, PureDP, Schema, Session
from discreet.core.errors import InvalidParameter, NoPopulationInterval
from discreet.mechanisms import OutlierSuppression, PoissonSample
from discreet.mechanisms.omission.step import AbsoluteDistance

ONE = PureDP(1.0)
COLUMNS = {"x": Bounds(0, 100, grid=1), "y": Bounds(0, 10, grid=0.1), "arm": Categories(["A", "B"])}


def rows(size=800):
    rng = np.random.default_rng(3)
    x = rng.gamma(2, 12, size).clip(0, 100).round()
    return pd.DataFrame({"x": x, "y": (x / 20 + rng.random(size)).round(1), "arm": rng.choice(["A", "B"], size)})


ASKED = {
    "mean": (lambda s: s.mean("x", guarantee=ONE, variance=True), lambda t: t.x.mean()),
    "proportion": (lambda s: s.proportion("arm", "A", guarantee=ONE), lambda t: (t.arm == "A").mean()),
    "variance": (lambda s: s.variance("x", guarantee=ONE), lambda t: t.x.var(ddof=0)),
    "std": (lambda s: s.std("x", guarantee=ONE), lambda t: t.x.std(ddof=0)),
    "covariance": (lambda s: s.covariance_matrix(["x", "y"], guarantee=ONE), lambda t: np.cov(t.x, t.y, ddof=0)),
}


@pytest.mark.parametrize("name", ["mean", "proportion", "covariance"])
def test_intervals_about_the_data_count_the_choice_of_rows(name):
    """25 samples of the same data: the truth is the whole data's. Noise alone covered 20 to 70 %."""
    table = rows()
    session = Session(table, Schema(columns=COLUMNS), ledger=Ledger(":memory:", budget=PureDP(100.0)))
    ask, truth = ASKED[name]
    found = [ask(session.omitting(PoissonSample(0.3))) for _ in range(25)]
    inside = [one.noise_interval() for one in found]
    covered = [np.all((np.asarray(one.low) <= truth(table)) & (truth(table) <= np.asarray(one.high))) for one in inside]
    assert np.mean(covered) >= 0.7  # three entries hold together less often
    assert all(
        np.all(np.asarray(one.population_interval().width) >= np.asarray(one.noise_interval().width))
        for one in found[:5]
    )
    assert "describes" in dict(found[0].facts())


SUPPRESSED = OutlierSuppression(0.4, 0.5, AbsoluteDistance((0, 100)), columns=("x",))


@pytest.mark.parametrize("name", [*ASKED, "table", "quantile"])
def test_suppressed_rows_are_no_sample(name):
    session = Session(rows(), Schema(columns=COLUMNS), ledger=Ledger(":memory:", budget=PureDP(100.0)))
    others = {
        "table": lambda s: s.table(["arm"], guarantee=ONE),
        "quantile": lambda s: s.quantile("x", 0.5, guarantee=ONE),
    }
    answer = (others.get(name) or ASKED[name][0])(session.omitting(SUPPRESSED))
    with pytest.raises(NoPopulationInterval, match="Ask"):
        answer.population_interval()
    assert answer.known_population_interval() is None
    assert all(reading.population is None for reading in answer.readings())
    assert str(answer)


def test_a_quantile_counts_on_the_rows_that_are_kept():
    session = Session(rows(), Schema(columns=COLUMNS), ledger=Ledger(":memory:", budget=PureDP(100.0)))
    kept = session.omitting(PoissonSample(0.5)).quantile("x", 0.5, guarantee=ONE, rows_at_least=800)
    assert kept.statistic.rows_at_least == 400 - 85
    with pytest.raises(InvalidParameter, match="rows_at_least"):
        session.omitting(PoissonSample(0.01)).quantile("x", 0.5, guarantee=ONE, rows_at_least=100)
    with pytest.raises(InvalidParameter, match="no sample"):
        session.omitting(SUPPRESSED).quantile("x", 0.5, guarantee=ONE, rows_at_least=100)
