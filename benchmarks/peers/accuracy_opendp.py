"""Many releases of the same statistics with OpenDP: its polars queries, and vectors where those have no call."""

import json
import math
import sys
import warnings
from importlib.metadata import version

import opendp.prelude as dp
import polars as pl

warnings.simplefilter("ignore", FutureWarning)
dp.enable_features("contrib")
data = json.load(sys.stdin)
low, high = data["bounds"]
repeats, ages = data["repeats"], data["ages"]
size = len(ages)
middle = (low + high) // 2
age = pl.col.x.cast(int).fill_null(middle)
# The sum of a column around zero moves less: a mean is most exact when the middle of the bounds is taken off before.
centred = (pl.col.x.cast(int) - middle).fill_null(0)
income = pl.col.x.cast(int).fill_null(0)
candidates = list(range(0, data["richest"] + 1, data["step"]))


def each(people, expression, epsilon=1.0):
    """A statistic of the same people once for each repeat; every repeat is a group with its own people."""
    return each_of([people] * repeats, expression, dp.loss_of(epsilon=epsilon))


def each_of(samples, expression, loss):
    """A statistic of each sample, a group each."""
    frame = pl.LazyFrame(
        {
            "copy": [copy for copy, people in enumerate(samples) for _ in people],
            "x": [value for people in samples for value in people],
        },
        schema={"copy": pl.Int64, "x": pl.Int64},
    )
    context = dp.Context.compositor(
        data=frame,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=loss,
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=["copy"], max_length=2 * size, invariant="keys")],
    )
    released = context.query().group_by("copy").agg(expression).release().collect()
    return [float(value) for value in released.sort("copy")[released.columns[-1]]]


def by_row(times):
    """Median incomes of four groups of people, several times over."""
    groups = [data["incomes"][row::4] for row in range(4)] * times
    found = each_of(groups, income.dp.median(candidates=candidates), dp.loss_of(epsilon=1.0))
    return [found[place : place + 4] for place in range(0, len(found), 4)]


def means(people):
    """Means of ages, from a column around zero."""
    return [middle + value for value in each(people, centred.dp.mean((low - middle, high - middle)))]


def cells(labels, times):
    """The counts of twenty cells, several times over."""
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    counts = space >> dp.t.then_count_by_categories(list(range(20)), null_category=False)
    noisy = dp.binary_search_chain(lambda scale: counts >> dp.m.then_laplace(scale), d_in=1, d_out=1.0)
    return [[float(count) for count in noisy(labels)] for _ in range(times)]


def answers(times):
    """Totals of twenty answers of each person: Gaussian noise, and the conversion from ρ to (ε, δ)."""
    space = dp.vector_domain(dp.atom_domain(T=int), size=20), dp.l2_distance(T=float)

    def guaranteed(scale):
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(space >> dp.m.then_gaussian(scale)), delta=1e-6)

    scale = dp.binary_search_param(guaranteed, d_in=math.nextafter(math.sqrt(20), 5), d_out=(1.0, 1e-6))
    noisy = guaranteed(scale)
    totals = [sum(column) for column in zip(*data["answers"], strict=True)]
    return [[float(total) for total in noisy(totals)] for _ in range(times)]


def share():
    """The percentage of the old: a whole sum of a public number of people, which a replaced one moves by one."""
    domain = dp.vector_domain(dp.atom_domain(bounds=(0, 1)), size=size)
    exact = (domain, dp.symmetric_distance()) >> dp.t.then_sum()
    noisy = dp.binary_search_chain(lambda scale: exact >> dp.m.then_laplace(scale), d_in=2, d_out=1.0)
    return [100 * noisy([int(age >= 65) for age in ages]) / size for _ in range(repeats)]


def sized(statistic):
    """A statistic of a public number of people; replacing one is a symmetric distance of two."""
    domain = dp.vector_domain(dp.atom_domain(bounds=(float(low), float(high))), size=size)
    exact = (domain, dp.symmetric_distance()) >> statistic
    noisy = dp.binary_search_chain(lambda scale: exact >> dp.m.then_laplace(scale), d_in=2, d_out=1.0)
    return [noisy([float(age) for age in ages]) for _ in range(repeats)]


edges = data["edges"]
bins = [max(place for place in range(20) if edges[place] <= age) for age in ages]
crossed = [5 * row + column for row, column in zip(data["rows"], data["columns"], strict=True)]
found = {
    "count": {"call": "dp.len", "values": each([age for age in ages if age >= 65], dp.len())},
    "sharp count": {"call": "dp.len", "values": each([age for age in ages if age >= 65], dp.len(), 2.0)},
    "concentrated count": {
        "call": "dp.len",
        "values": each_of([[age for age in ages if age >= 65]] * repeats, dp.len(), dp.loss_of(rho=2.0)),
    },
    "share": {"call": "make_sum, make_laplace", "values": share()},
    "sum": {"call": "dp.sum", "values": each(ages, age.dp.sum((low, high)))},
    "mean": {"call": "dp.mean, centred", "values": means(ages)},
    "difference": {
        "call": "dp.mean, centred, by arm",
        "values": [b - a for a, b in zip(means(ages[::2]), means(ages[1::2]), strict=True)],
    },
    "tied median": {"call": "dp.median", "values": each(ages, age.dp.median(candidates=list(range(low, high + 1))))},
    "sampled median": {
        "call": "dp.median",
        "values": each_of(data["samples"], income.dp.median(candidates=candidates), dp.loss_of(epsilon=1.0)),
    },
    "median": {"call": "dp.median", "values": each(data["incomes"], income.dp.median(candidates=candidates))},
    "heaped median": {"call": "dp.median", "values": each(data["heaped"], income.dp.median(candidates=candidates))},
    "grouped median": {"call": "dp.median", "values": by_row(repeats // 5)},
    "histogram": {"call": "make_count_by_categories, make_laplace", "values": cells(bins, repeats // 5)},
    "table": {"call": "make_count_by_categories, make_laplace", "values": cells(crossed, repeats // 5)},
    "answers": {"call": "make_gaussian, make_zCDP_to_approxDP", "values": answers(repeats // 5)},
    "public mean": {"call": "make_mean, make_laplace", "values": sized(dp.t.then_mean())},
    "public variance": {"call": "make_variance, make_laplace", "values": sized(dp.t.then_variance())},
}
print(json.dumps({"version": version("opendp"), "answers": found}))
