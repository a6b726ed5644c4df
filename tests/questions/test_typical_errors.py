"""A plan that is told nothing states its scenario, and its error is the one that answers have on rows of that scenario.

Six data sets of the scenario and some 1,200 answers for each question, with fixed seeds: a share of 95 % is then known
to 0.6 points and a root mean square to 3 %, so a plan that is off by 15 % fails. Ranks depend on where rows lie on the
grid, so quantiles have thirty data sets.
"""

from dataclasses import replace

import numpy as np
import pytest

from discreet import PureDP, Scenario, Session, ZeroConcentratedDP, release
from discreet.core.sensitivity import Exact
from discreet.questions import MeasuredQuestion, asked
from discreet.questions.tables.tests import TableTest

from .test_every_question import ASKED, SCHEMA, guarantee

DATA_SETS, ANSWERS = 6, 1200
MEASURED = (MeasuredQuestion, TableTest)
ELSEWHERE = ("common_labels", "clusters", "compare_means", "compare_arms", "running_total", "slope")
"""Their plans are checked by runs in tests of their own."""


def values(answer):
    return np.ravel(np.asarray(answer.value, dtype=float))


def each(answer, name):
    parts = [one for _, one in answer.items()] if hasattr(answer, "items") else [answer]
    return np.array([getattr(one, name) for one in parts])


READ = {
    "mean": lambda answer: each(answer, "mean"),
    "proportion": lambda answer: each(answer, "mean"),
    "variance": lambda answer: each(answer, "variance"),
    "std": lambda answer: each(answer, "standard_deviation"),
    "covariance_matrix": lambda answer: answer.matrix[[0, 0, 1], [0, 1, 1]],
    "regression": lambda answer: np.array([answer.params["age"]]),
    "logistic_regression": lambda answer: np.array([answer.params["age"]]),
    "signed_rank": lambda answer: np.array([answer.estimate]),
    "dropped_rows": lambda answer: answer.most * values(answer),
}


def question(name, of):
    told = {key: value for key, value in ASKED[name].items() if key not in ("expected_rows", "expected_sd")}
    return asked()[name](schema=SCHEMA, guarantee=of, **told)


def noise(name, exact, mechanism, count, rng):
    """Errors of answers that are read from noisy numbers."""
    read = READ.get(name, values)
    drawn = [release(exact, mechanism, rng=rng) for _ in range(count)]
    truth = read(replace(drawn[0], value=np.asarray(exact.value, dtype=float)[()]))
    return [read(answer) - truth for answer in drawn]


def ranks(exact, mechanism, count, rng):
    """How far the ends of an interval reach, in ranks: of the quarter and the median of two groups."""
    ages_of_both = np.repeat(*exact.value)  # 10 to 90 of the first group, 91 to 171 of the second
    halves, found = [ages_of_both[ages_of_both <= 90], ages_of_both[ages_of_both > 90] - 81], []
    for _ in range(count):
        for ages, ends in zip(halves, np.reshape(mechanism.draw(exact.value, rng=rng), (2, 2, 3)), strict=True):
            targets = 0.25 * ages.size, 0.5 * ages.size
            found.append(
                [
                    max(target - (ages <= low).sum(), (ages < high).sum() - target, 0.0)
                    for target, (low, _, high) in zip(targets, ends, strict=True)
                ]
            )
    return found


def chosen(mechanism, of, rng):
    """Rows that the chosen label is behind."""
    found = []
    for _ in range(300):
        band = Scenario(rows=1000).table(SCHEMA, rng)["band"].to_numpy()
        counts = np.array([(band == label).sum() for label in ("young", "old")])
        found += [[counts.max() - counts[int(mechanism.draw(counts, rng=rng))]] for _ in range(4)]
    return found


def margins(exact, mechanism, count, rng):
    """Both tables: the counts are 1,000, those of each column, and those of both."""
    truth = exact.value[[1, 2, 5, 6, 7, 8]]
    drawn = [release(exact, mechanism, rng=rng) for _ in range(count)]
    return [np.concatenate([one.counts((0,)), np.ravel(one.counts((0, 1)))]) - truth for one in drawn]


def errors(name, of, groups):
    """Errors of answers on rows of the scenario, along the first axis."""
    one = question(name, of)
    measured = one.table if isinstance(one, TableTest) else one
    rng, found = np.random.default_rng(5), []
    data_sets = 5 * DATA_SETS if name == "quantile" else DATA_SETS
    mechanism, count = measured.measurement.mechanism, ANSWERS // data_sets
    if name == "mode":
        return np.array(chosen(mechanism, of, rng))
    for _ in range(data_sets):
        rows = Scenario(rows=1000 * groups).table(SCHEMA, rng)
        exact = Session(rows, SCHEMA, ledger=":memory:", budget=of).exact(measured)
        if name == "signed_rank":  # its scenario: as much above zero as below
            exact = Exact(np.full(2, 500.0), exact.sensitivity, exact.protection, exact.statistic)
        if name == "quantile":
            found += ranks(exact, mechanism, count // 2, rng)
        elif name == "tables":
            found += margins(exact, mechanism, count // 2, rng)
        else:
            slow = name in ("covariance_matrix", "regression", "logistic_regression")
            found += noise(
                name, exact, mechanism, count // (6 if name == "logistic_regression" else 3) if slow else count, rng
            )
    return np.array(found, dtype=float)


CASES = [(name, PureDP(1.0)) for name in ASKED if name not in ELSEWHERE and issubclass(asked()[name], MEASURED)]
CASES += [(name, ZeroConcentratedDP(0.05)) for name in ("mean", "std", "mode")]


@pytest.mark.parametrize(("name", "of"), CASES, ids=lambda one: one if isinstance(one, str) else one.kind)
def test_the_planned_error_is_that_of_answers(name, of):
    planned = question(name, of).plan()
    size = np.abs(errors(name, of, 2 if "per group" in planned.scenario else 1))
    reach = planned.error_95
    # Of several numbers, the plan is about the one with the largest error. Fewer whole numbers stay below than within.
    below, within = (np.mean(size < reach * (1 - 1e-9), axis=0), np.mean(size <= reach * (1 + 1e-9), axis=0))
    assert np.min(below) <= 0.95 + 0.02, np.quantile(size, 0.95, axis=0)
    assert np.min(within) >= 0.95 - 0.02, np.quantile(size, 0.95, axis=0)
    assert planned.worst_error is None or planned.worst_error >= reach
    if planned.standard_error is not None:
        assert np.sqrt(np.max(np.mean(size**2, axis=0))) == pytest.approx(planned.standard_error, rel=0.1)


DEPENDS = (
    "mean", "proportion", "variance", "std", "covariance_matrix", "regression", "logistic_regression", "quantile",
    "mode", "compare_means", "compare_arms", "signed_rank", "slope",
)  # fmt: skip
"""Questions whose error depends on the data."""


@pytest.mark.parametrize("name", ASKED)
def test_the_scenario_is_said(name):
    """Where the data decides, a plan says for which data."""
    planned = question(name, guarantee(name)).plan()
    assert planned.scenario[:40] in str(planned)
    assert ("1,000 rows" in planned.scenario) == (name in DEPENDS)
