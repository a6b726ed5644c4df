"""Statistic values: values, domains and rules of statistics and mechanisms, beside their definitions in fractions.

A domain must hold every value and end at the largest, rounded away from it: a bounded mechanism adds no noise beyond.
A rule lets the last good argument pass and refuses the first bad one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

import discreet.questions as q
from discreet.audit.report import Audit, Compared, recomputed, refused
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import ApproxDP, GaussianDP, PureDP, ZeroConcentratedDP
from discreet.core.noise.choice import choose
from discreet.core.protection import Neighbours, Protection
from discreet.core.schema import Bounds, Categories, Contribution, PrivacyUnit, Schema
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms.bounded import covariance
from discreet.mechanisms.bounded.covariance import BoundedCovariance
from discreet.mechanisms.bounded.laplace import BoundedLaplace, TruncatedLaplaceLaw
from discreet.mechanisms.bounded.proportions import BoundedProportions, TiedPair
from discreet.mechanisms.choices import selection
from discreet.mechanisms.choices.group_selection import GaussianThreshold
from discreet.mechanisms.choices.quantile import group_histograms, histogram
from discreet.mechanisms.choices.selection import ExponentialMechanism
from discreet.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.mechanisms.gaussian import Gaussian, GaussianLaw
from discreet.mechanisms.generalized_gaussian import GeneralizedGaussian
from discreet.mechanisms.geometric import Geometric
from discreet.mechanisms.laplace import Laplace
from discreet.mechanisms.tables.james_stein import LinearFacts
from discreet.mechanisms.tables.margins import MarginsGaussian
from discreet.mechanisms.tables.post_processed import checked_box, exact_total
from discreet.questions.clusters.lloyd import Box, labels_of
from discreet.questions.comparison.methods import Arms, WinsorizedMoments, check_sizes
from discreet.questions.grouped import Bins, LabelAxis
from discreet.questions.moments import MOST_PARTS, BernsteinMoments
from discreet.questions.signed_rank import PairedBalance
from discreet.questions.tables.margins import Margins
from discreet.questions.usable_values import Usable

ADDED, REPLACED = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE


def audit_statistic_values() -> Audit:
    """Compare statistics with their definitions."""
    parts: tuple[Callable[[], Iterator[Compared]], ...] = (
        _sums, _spreads, _pooled, _pooled_rules, _winsorized, _ranks, _balances, _labels, _boxes, _bounded_rules,
        _noise_rules, _table_rules,
    )  # fmt: skip
    return recomputed("Values of statistics", parts)


def _rounded_up(found: float, exact: Fraction) -> bool:
    """True where a float is the least that is not below a number."""
    return Fraction(found) >= exact > Fraction(math.nextafter(found, -math.inf))


# ---- sums and spreads -----------------------------------------------------------------------------------------------


def _sums() -> Iterator[Compared]:
    """Without a number of rows a sum ends only at zero."""
    for low, high in ((-1, 3), (0, 2), (-3, -1), (1, 2), (-2, 0)):
        ends = (0.0 if low >= 0 else -math.inf, 0.0 if high <= 0 else math.inf)
        yield f"the domain of a sum in {low}…{high}", q.Sum(bounds=(low, high)).domain() == ends
        yield f"the domain of five in {low}…{high}", q.Sum(bounds=(low, high)).domain(5) == (5 * low, 5 * high)
        yield "a declared number of rows", q.Sum(bounds=(low, high), n=4).domain() == (4 * low, 4 * high)
        both = q.NoisyAverage(bounds=(low, high))
        yield "a sum and a count", both.domain() == ((-math.inf, 0.0), (math.inf, math.inf))
        yield "a sum and a count of five", both.domain(5) == ((-5.0, 0.0), (5.0, 5.0))


def _half_and_half(rows: int) -> Fraction:
    """The largest sum of squares around the mean of numbers in [0, 1]: half of them at each end."""
    ones = rows // 2
    return ones - Fraction(ones**2, rows)


def _spreads() -> Iterator[Compared]:
    """Ends of variances and covariances, rounded away from the truth."""
    for (low, high), rows in itertools.product(((0, 1), (-1, 2), (0.25, 7.5), (-3.5, 0.125)), range(2, 12)):
        width = Fraction(high) - Fraction(low)
        found = q.Variance(bounds=(low, high)).domain(rows)
        yield "the domain of a variance", found[0] == 0 and _rounded_up(found[1], width**2 * rows / (4 * (rows - 1)))
        pair = q.Covariance(bounds=((low, high), (0, 3))).domain(rows)
        largest = 3 * width * _half_and_half(rows) / (rows - 1)
        yield "the domain of a covariance", pair[0] == -pair[1] and _rounded_up(pair[1], largest)
    yield "a covariance of two rows", q.Covariance(bounds=((0, 1), (0, 1)), n=2).n == 2
    for n in (1, 0, -2):
        yield f"a covariance of {n} rows", refused(partial(q.Covariance, bounds=((0, 1), (0, 1)), n=n))
    odd: tuple[Any, ...] = ("ab", 3, (), ((0, 1),), ((0, 1), (0, 1), (0, 1)), {(0, 1): 1, (0, 2): 1})
    for bounds in odd:
        yield f"a covariance in {bounds!r}", refused(partial(q.Covariance, bounds=bounds))


Cell = tuple[tuple[Fraction, Fraction], ...]


def _products(cell: Sequence[tuple[Fraction, Fraction]]) -> Fraction:
    """Σ(x − x̄)(y − ȳ) in one cell."""
    first, second = (sum((row[place] for row in cell), Fraction(0)) for place in (0, 1))
    return sum((x * y for x, y in cell), Fraction(0)) - first * second / max(len(cell), 1)


def _pooled() -> Iterator[Compared]:
    """Public sizes of cells: every data set of rows at the corners, and every neighbour of it."""
    for sizes, paired in (*itertools.product(((2, 2), (2, 3), (4,)), (False, True)), ((2,) * 5, False)):
        corners = [(Fraction(x), Fraction(y)) for x in (0, 1) for y in ((0, 1) if paired else (x,))]
        kind: Any = q.PooledCovariance if paired else q.PooledVariance
        bounds: Any = ((0, 1), (0, 1)) if paired else (0, 1)
        made = kind(bounds=bounds, cells=tuple(range(len(sizes))), sizes=sizes, moving=False)
        divisor = sum(sizes) - len(sizes)
        largest = sum(map(_half_and_half, sizes), Fraction(0)) / divisor
        yield "the domain of pooled spreads", _rounded_up(made.domain()[1], largest)
        free = kind(bounds=bounds, cells=tuple(range(len(sizes))), n=sum(sizes))
        yield "their domain without sizes", _rounded_up(free.domain()[1], Fraction(sum(sizes), 4) / divisor)
        worst = {neighbours: Fraction(0) for neighbours in Neighbours}
        for cells in itertools.product(*(itertools.combinations_with_replacement(corners, size) for size in sizes)):
            own = [_products(cell) for cell in cells]
            here = sum(own, Fraction(0)) / divisor
            for place, row in itertools.product(range(len(sizes)), corners):
                rest = sum(own, Fraction(0)) - own[place]
                more = (rest + _products((*cells[place], row))) / (divisor + 1)
                worst[ADDED] = max(worst[ADDED], abs(more - here))
                other = (rest + _products((*cells[place][1:], row))) / divisor
                last = (rest + _products((*cells[place][:-1], row))) / divisor
                worst[REPLACED] = max(worst[REPLACED], abs(other - here), abs(last - here))
                fewer = (rest + _products(cells[place][1:])) / (divisor - 1)
                worst[ADDED] = max(worst[ADDED], abs(fewer - here))
        for neighbours, found in worst.items():
            declared = Fraction(made.sensitivity(neighbours=neighbours).l1)
            name = f"{made.name} of cells of {sizes}, {neighbours.value}"
            yield f"{name}: more than declared", found <= declared
            yield f"{name}: far less than declared", found >= declared * Fraction(6, 10)


def _pooled_rules() -> Iterator[Compared]:
    two = partial(q.PooledVariance, bounds=(0, 1), cells=("a", "b"))
    yield "cells of two", two(sizes=(2, 2), moving=False).n == 4
    yield "sizes with a sum", two(sizes=(2, 2), moving=False, n=4).n == 4
    bad: tuple[dict[str, Any], ...] = (
        {"sizes": (1, 3), "moving": False}, {"sizes": (2, 2)}, {"sizes": (2,), "moving": False},
        {"sizes": (2, 2), "moving": False, "n": 5}, {"n": 2}, {"cells": ()}, {"cells": ("a", "a")},
        {"cells": (float("nan"), 1)}, {"cells": ([], 1)},
    )  # fmt: skip
    for options in bad:
        yield f"pooled with {options}", refused(partial(two, **options))
    yield "one row more than cells", two(n=3).n == 3
    # Where sizes are not public, a neighbour with one row more must be within the bound too.
    for rows, cells in itertools.product(range(4, 12), (1, 2)):
        made = q.PooledCovariance(bounds=((0, 1), (0, 1)), cells=tuple(range(cells)), n=rows)
        larger = q.PooledCovariance(bounds=((0, 1), (0, 1)), cells=tuple(range(cells)), n=rows + 1)
        yield (
            "more rows move it less",
            (
                made.sensitivity(neighbours=ADDED).l1 >= larger.sensitivity(neighbours=ADDED).l1  # type: ignore[operator]
            ),
        )


# ---- other statistics -----------------------------------------------------------------------------------------------


def _winsorized() -> Iterator[Compared]:
    """Shares of an interval in 2⁻³⁰ parts, and their curvature."""
    whole = 2**30
    for norm, weight in (("l1", Fraction(1)), ("l2", Fraction(13, 4))):
        pieces = WinsorizedMoments(interval=(-1, 3), partitions=5, norm=norm)
        values = np.array([-9.0, -1.0, 0.3, 1.0, 2.9999999, 3.0, 50.0])
        shares = [Fraction(round((min(max(v, -1.0), 3.0) + 1) / 4 * whole), whole) for v in values.tolist()]
        found = pieces.value(values)
        yield "shares of an interval", found[0] == sum(shares)
        curved = sum((share * (1 - share) for share in shares), Fraction(0))
        yield "their curvature", found[1] == weight * curved


def _ranks() -> Iterator[Compared]:
    """Histograms over a grid, alone and one after another; sensitivities of ranks."""
    good = np.array([[0, 2, 4], [1, 0, 3]])
    yield "a histogram", histogram(good, 0, 4)[1].tolist() == [1, 0, 3]
    bad: tuple[Any, ...] = (
        [[0, 2, 2, 4], [1, 1, 1, 1]], [[0, 3, 2, 4], [1, 1, 1, 1]], [[1, 4], [1, 1]], [[0, 3], [1, 1]], [[0], [1]],
        [[0, 4], [1, -1]], [[0.0, 4.0], [1.0, 1.0]], [0, 4],
    )  # fmt: skip
    for given in bad:
        yield f"a histogram of {given}", refused(partial(histogram, np.array(given), 0, 4))
    both = np.array([[0, 1, 4, 5, 7, 9], [1, 2, 3, 4, 5, 6]])
    found = [(steps.tolist(), counts.tolist()) for steps, counts in group_histograms(both, 0, 4, 2)]
    scores = [Fraction(1, 3), Fraction(2, 3**40), Fraction(0)]
    given = list[Any]()
    with patch.object(selection, "choose", partial(_noted, given, choose)):
        ExponentialMechanism(1.0).choose(np.array(scores, dtype=object))
    yield "scores that floats do not hold", not given
    yield "two histograms", found == [([0, 1, 4], [1, 2, 3]), ([0, 2, 4], [4, 5, 6])]
    yield "one histogram", len(group_histograms(good, 0, 4, 1)) == 1
    for share, rows, grouped in itertools.product((0.1, 0.5, 0.75), (1, 3), (False, True)):
        made = q.Quantiles(probabilities=share, bounds=Bounds(0, 4, grid=1), interval=None)
        exact = Fraction(repr(share))
        worst = max(exact, 1 - exact) * rows
        moved = {ADDED: worst, REPLACED: 2 * worst if grouped else Fraction(rows)}
        for neighbours, wanted in moved.items():
            declared = made.sensitivity(neighbours=neighbours, rows_per_unit=rows, grouped=grouped)
            yield f"ranks at {share}, {neighbours.value}", _rounded_up(float(declared.l1 or 0), wanted)


def _balances() -> Iterator[Compared]:
    """Signed ranks add up the signs of all sums of two differences, a difference and itself among them."""
    for rows in itertools.combinations_with_replacement(range(-2, 3), 4):
        for scores, public in itertools.product(("ranks", "signs"), (False, True)):
            kept = [one for one in rows if public or one]
            pairs = itertools.combinations_with_replacement(kept, 2)
            terms = kept if scores == "signs" else [one + other for one, other in pairs]
            total = Fraction(sum((one > 0) - (one < 0) for one in terms))
            m = len(kept) + 1
            if scores == "ranks":
                total = total / 4 if public else 2 * m * total / (2 * m * m + abs(total))
            wanted = [total] if public else [(len(kept) + total) / 2, (len(kept) - total) / 2]
            found = PairedBalance(scores=scores, n=4 if public else None).value(rows)
            yield f"{scores} of pairs", np.atleast_1d(found).tolist() == wanted


def _labels() -> Iterator[Compared]:
    """Modes, categories and bins."""
    mode = q.Mode(categories=("x", "y"))
    for data, counts in ((["x", "y", "x", "z"], [2, 1]), ([], [0, 0])):
        yield "counts of a mode", mode.value(data).tolist() == counts
    for neighbours, l1 in ((ADDED, 1.0), (REPLACED, 2.0)):
        yield "one row in a mode", mode.sensitivity(neighbours=neighbours).l1 == l1
    bins = Bins((0, 1, 2.5))
    values = np.array([-0.1, 0.0, 0.99, 1.0, 2.5, 2.6, math.nan])
    yield "bins", bins.codes(values).tolist() == [-1, 0, 0, 1, 1, -1, -1]
    yield "bins of words", bins.codes(np.array(["x", "y"])).tolist() == [-1, -1]
    clamped = Bins((0, 1, 2.5), outside="clamp").codes(values[:-1])
    yield "bins that clamp", clamped.tolist() == [0, 0, 0, 1, 1, 1]
    usable = Usable(columns=("x", "y"), unit="row")
    yield "values that can be used", usable.value(3, [512, 128]).tolist() == [3, 2, Fraction(1, 2)]
    yield "one unit in their numbers", usable.sensitivity(neighbours=ADDED).l1 == 3
    yield "no columns", refused(partial(Usable, columns=(), unit="row"), InvalidParameter)
    yield "one category", len(LabelAxis(("x",))) == 1
    lists: tuple[Any, ...] = ((), ("x", "x"), "xy", 3)
    for labels in lists:
        yield f"categories of {labels!r}", refused(partial(LabelAxis, labels))
    columns = {"a": ["x", "y"], "b": ["u", "v", "w"]}
    for tables in ([], [["a"], ["a"]], [["a", "b"], ["b", "a"]]):
        yield f"margins of {tables}", refused(partial(Margins, columns=columns, tables=tables))
    never: tuple[Any, ...] = ([{}], [{"z": "x"}], [{"a": "z"}])
    for impossible in never:
        no_cell: Any = partial(Margins, columns=columns, tables=[["a"]], impossible=impossible)
        yield f"margins without {impossible}", refused(no_cell)
    yield "margins without a cell", len(Margins(columns=columns, tables=[["a"]], impossible=[{"a": "x"}]).tables) == 1
    for edges in ((0,), (0, 0), (1, 0), (0, math.nan), ()):
        yield f"bins of {edges}", refused(partial(Bins, edges))
    yield "labels", LabelAxis(("a", "b")).codes(np.array(["b", "a", "z"], dtype=object)).tolist() == [1, 0, -1]
    margins = Margins(columns=columns, tables=[["a"]])
    yield "margins without sums", margins.middle == 0 and margins.reaches == (1,)
    for low, high in ((0, 4), (-3, 7), (1, 4)):
        summed = Margins(columns=columns, tables=[["a"]], summed=("x", low, high, "1"))
        middle = (low + high) // 2
        yield "the middle of sums", summed.middle == middle and summed.reaches == (1, max(high - middle, middle - low))
    wide = {f"c{place}": list(range(100)) for place in range(5)}
    yield "a table of too many cells", refused(partial(q.ContingencyTable, wide))
    yield "a table of one cell", refused(partial(q.ContingencyTable, {"a": ["x"]}))
    side = round(MOST_PARTS**0.5) - 1
    pair = ((0, 1), (0, 1))
    yield "the most parts", BernsteinMoments(bounds=pair, degrees=(side, side)).size == MOST_PARTS
    for degrees in ((side, side + 1), (1,), (0, 1)):
        yield f"parts of {degrees}", refused(partial(BernsteinMoments, bounds=pair, degrees=degrees))


def _boxes() -> Iterator[Compared]:
    """Rows as cells of a box that is not around zero, and their nearest centres, in several chunks."""
    box = Box(bounds=((0, 10), (-3, 1)))
    rows = np.array([[0, -3], [10, 1], [5, -1], [2.5, 0], [99, -99]])
    cells = box.cells(rows)
    wanted = [[-1, 1, 0, -0.5, 1], [-1, 1, 0, 0.5, -1]]
    yield "cells of a box", np.array_equal(cells, np.array(wanted) * 2**20)
    for sizes, good in (((2, 2), True), ((1, 9), False), ((9, 1), False), ((0, 0), False)):
        counts = np.array([[size] for size in sizes])
        arms = Arms(low=0.0, width=1.0, largest=4, counts=counts, sums=np.zeros((2, 1)), squares=(0, 0))
        check_sizes(arms, public=False)  # sizes that are private are not read
        yield f"arms of {sizes}", refused(partial(check_sizes, arms, public=True)) != good
    many = np.tile(cells, (1, 20_000))
    centres = np.array([[-1.0, -1.0], [1.0, 1.0], [0.1, 0.1]])
    apart = ((cells.T[:, None, :] / 2**20 - centres[None, :, :]) ** 2).sum(axis=2)
    yield "nearest centres", np.array_equal(labels_of(many, centres), np.tile(apart.argmin(axis=1), 20_000))


# ---- rules of mechanisms --------------------------------------------------------------------------------------------


def _bounded_rules() -> Iterator[Compared]:
    pair = partial(TiedPair, scale=1.0, total=1.0)
    yield "a pair that is tied", pair(bounds=((0, 1), (0, 1))).domain == (0.0, 1.0)
    yield "the narrower of two domains", pair(bounds=((0.25, 5), (-9, 0.5))).domain == (0.5, 5.0)
    yield "the other narrower one", pair(bounds=((-4, 0.75), (0, 1))).domain == (0.0, 0.75)
    for bounds in (((0, 1), (2, 3)), ((1, 2), (0, 1)), ((0, 1),), (0, 1)):
        yield f"a pair in {bounds}", refused(partial(pair, bounds=bounds))
    matrix: dict[str, Any] = {"changes": (1.0, 1.0, 1.0), "variance_bounds": ((0, 4), (0, 9))}
    own = partial(BoundedCovariance.calibrate, sensitivity=Sensitivity(moves=(1.0, 1.0, 1.0)))
    yield "a matrix", own(PureDP(1.0), **matrix).dimension == 2
    yield "a matrix as published", own(PureDP(1.0), as_published=True, **matrix).as_published
    yield "a matrix with δ", not own(ApproxDP(1.0, 0.01), **matrix).as_published
    yield "a published matrix with δ", refused(partial(own, ApproxDP(1.0, 0.01), as_published=True, **matrix))
    for name in matrix:
        yield (
            f"a matrix without {name}",
            refused(
                partial(own, PureDP(1.0), **{key: value for key, value in matrix.items() if key != name}),
                InvalidParameter,
            ),
        )
    published = own(PureDP(1.0), as_published=True, **matrix)
    shown = published.guarantee(Sensitivity(moves=(1.0, 1.0, 1.0))).to_dict()["epsilon"]
    yield "what a published matrix really holds", 1.0 < shown < 2.0
    low = own(PureDP(200.0), repair=False, **matrix)
    drawn = np.array([low.measure([1.0, 4.0, 9.0], rng=seed)[2] for seed in range(40)])
    yield "covariances within their variances", bool((np.abs(drawn) <= 2.7).all() and drawn.max() > 1.2)
    exact = BoundedCovariance(budget=PureDP(200.0), changes=(0.1,) * 3, variance_bounds=((0, 4), (0, 9)))
    truth = [Fraction(1, 3), Fraction(1), Fraction(1, 7)]
    seen = list[Any]()
    with patch.object(covariance, "TruncatedLaplaceLaw", partial(_noted, seen, TruncatedLaplaceLaw)):
        exact.measure(truth)
    yield "a matrix of fractions", list(seen[0]) == truth[:2]
    laplace = BoundedLaplace(scale=1.0, bounds=((0, 1), (0, 2)))
    yield ("changes of coordinates", laplace.profile((Sensitivity(l1=0.5), Sensitivity(l1=0.25))).pure().epsilon > 0)
    shares = BoundedProportions(scale=0.1, categories=3, method="rescale")
    for l1 in (0.1, 0.3, 1.0):
        yield "a sensitivity of proportions", shares._measured(Sensitivity(l1=l1)).l1 == l1
    yield "proportions of nothing", shares.present(np.zeros(3)).tolist() == [1 / 3] * 3


def _noted(seen: list[Any], call: Callable[..., Any], first: Any, *rest: Any) -> Any:
    """Note what a call is given first."""
    seen.append(first)
    return call(first, *rest)


def _noise_rules() -> Iterator[Compared]:
    """Noise of other kinds, beside what it is a special case of."""
    square = GeneralizedGaussian(2.0, order=2).profile(Sensitivity(l2=1.0))
    mu = math.sqrt(2) / 2
    yield "order two is normal noise", abs(square.gaussian().mu - mu) < 1e-12
    whole, parts = Geometric(1.0), Sensitivity(l1=1.0)
    checked = partial(Exact, sensitivity=parts)
    whole.check(checked(0.5))  # one number may be a fraction
    whole.check(checked(np.array([1, 2])))
    yield "several fractions under ℓ₁", refused(partial(whole.check, checked(np.array([0.5, 1.5]))))
    one = Laplace(1.0)
    for kind, delta in ((ApproxDP, None), (PureDP, 0.1), (int, None)):
        stated = partial(one.profile(parts).guarantee, kind, delta=delta)  # type: ignore[arg-type]
        yield f"a guarantee of {kind.__name__} at δ {delta}", refused(stated)
    for budget, within in ((ApproxDP(1.0, 0.0), True), (ApproxDP(0.9, 0.0), False), (ApproxDP(0.9, 0.1), True)):
        yield f"noise within {budget}", one.profile(parts).within(budget) == within
        yield (f"normal noise within {budget}", Gaussian(9.0).profile(parts).within(budget) == (budget.delta > 0))
    rule = GaussianThreshold(scale=2.0, threshold=10.0)
    yield "groups of nobody", rule.shown(np.zeros(0, dtype=np.int64)).size == 0
    bar, grid = rule._bar()
    with patch.object(GaussianLaw, "sample", lambda *_, **__: np.array([bar, bar + grid])):
        yield "a noisy size at the bar", rule.shown(np.array([5, 5])).tolist() == [False, True]
    for size in (5, 10, 12):
        chance = float(rule.chance([size])[0])
        # A noisy size is rounded to a grid that is far finer than the noise.
        plain = 0.5 * math.erfc((10 - size) / 2 / math.sqrt(2))
        yield "the chance of a group", abs(chance - plain) < 1e-3
    small = GaussianThreshold(scale=0.1, threshold=0.5)
    yield "the smallest group that is shown", small.size_shown() == 1 and rule.size_shown() == 14
    for guarantee in (GaussianDP(1.0), PureDP(1.0)):
        right = refused(partial(GaussianThreshold.calibrate, guarantee, Sensitivity(moves=(1.0,))))
        yield f"a threshold at {guarantee}", right


def _table_rules() -> Iterator[Compared]:
    boxes: tuple[tuple[Any, bool, bool], ...] = (
        ((0, 4), True, True), (((0, 2), (1, None)), True, True), ((0.5, 1.5), False, True), ((None, 3), True, True),
        ((0.5, 4), True, False), ((0, 4.5), True, False), ((2, 1), False, False), ((), False, False),
        ((1,), False, False), (3, False, False),
    )  # fmt: skip
    for value, whole, fits in boxes:
        yield f"a box of {value}", refused(partial(checked_box, value, whole)) != fits
    big = np.array([2**62, 2**62, -5])
    yield "totals beyond 64 bits", exact_total(big) == float(2**63 - 5) and exact_total(np.array([3, -1])) == 2.0
    halves = np.array([Fraction(1, 3)] * 3, dtype=object)
    yield "totals of fractions", exact_total(halves) == 1.0
    facts = LinearFacts(rows=((1.0, 1.0, 1.0),), values=(6.0,))
    yield "a basis of its own", len(facts.checked_basis(facts.basis.tolist())) == 3
    bad = (np.eye(3)[:, :2], np.eye(3), facts.basis[:, :1], 2 * facts.basis, facts.basis[:2])
    for basis in bad:
        yield "a basis that does not fit", refused(partial(facts.checked_basis, basis.tolist()))
    large = LinearFacts(rows=((1e6, 1e6, 0.0), (0.0, 0.0, 1.0)), values=(6.0, 0.0))
    rounded = np.array([[0.5**0.5 + 1e-12], [-(0.5**0.5)], [0.0]])
    yield "a basis within rounding of large facts", len(large.checked_basis(rounded.tolist())) == 3
    columns = {"a": ["x", "y"], "b": ["u", "v"]}
    own, other = (Margins(columns=columns, tables=[table]) for table in (["a"], ["a", "b"]))
    noise = MarginsGaussian.calibrate(GaussianDP(1.0), own.sensitivity(ADDED), workload=own.workload())
    counts = np.array([[1, 0], [0, 2]])
    replaced = Protection(neighbours=REPLACED)
    noise.check(own.exact(counts))
    yield "margins of another table", refused(partial(noise.check, other.exact(counts)))
    yield "margins of other neighbours", refused(partial(noise.check, own.exact(counts, protection=replaced)))


# ---- Measurements: what each question adds up and declares, on rows that plain Python adds up, without an engine.
#
# A question turns totals per cell into an exact value, and declares how far one unit moves it. Here every unit that
# the limits allow is added to a few rows, or put in another's place; the largest change must be the declared one.


_ONE = PureDP(1.0)
_BASE = (("a", 1, 0), ("b", 0, 1), ("a", 0, 0))
"""Rows of everybody else: label, and where x and y lie, from 0 for the lower end to 1 for the upper."""
Row = tuple[str, Fraction, Fraction]


def audit_measurements() -> Audit:
    """Move every unit of small data sets, and compare with what questions declare."""
    asked = [partial(_moved, name, schema, question) for schema in _schemas() for name, question in _questions(schema)]
    return recomputed("Measurements of questions", [*asked, _sizes])


def _schemas() -> Iterator[Schema]:
    """Rows and people, added and replaced, with bounds of both signs."""
    limits = (
        None, Contribution(groups=1, rows=2), Contribution(groups=2, rows=1), Contribution(rows=1),
        Contribution(total=2),
    )  # fmt: skip
    for limit, neighbours, (low, high), gaps in itertools.product(limits, Neighbours, ((-6, 2), (1, 5)), (True, False)):
        if gaps and limit is not None:
            continue
        policy: Any = "drop" if gaps else low
        label: Any = {"nulls": "drop"} if gaps else {"nulls": "=a", "unknown": "=a"}
        columns: dict[str, Any] = {
            "arm": Categories(["a", "b"], **label),
            "x": Bounds(low, high, grid=1, nulls=policy),
            "y": Bounds(0, 2, grid=1, nulls="drop" if gaps else 0),
        }
        unit = PrivacyUnit() if limit is None else PrivacyUnit("who", limit)
        size = len(_BASE) + 1 if neighbours is Neighbours.REPLACE_ONE else None
        yield Schema(columns=columns, unit=unit, neighbours=neighbours, size=size)


def _questions(schema: Schema) -> Iterator[tuple[str, Any]]:
    yield "count", q.CountQuestion(schema, guarantee=_ONE)
    yield "count by arm", q.CountQuestion(schema, guarantee=_ONE, by="arm")
    yield "sum", q.SumQuestion(schema, "x", guarantee=_ONE)
    yield "sum by arm", q.SumQuestion(schema, "x", guarantee=_ONE, by="arm")
    yield "mean", q.MeanQuestion(schema, "x", guarantee=_ONE)
    yield "mean by arm", q.MeanQuestion(schema, "x", guarantee=_ONE, by="arm")
    yield "mean with spread", q.MeanQuestion(schema, "x", guarantee=_ONE, variance=True)
    yield "variance by arm", q.VarianceQuestion(schema, "x", guarantee=_ONE, by="arm")
    yield "proportion", q.ProportionQuestion(schema, "arm", "b", guarantee=_ONE)


def _units(limits: Contribution | None, cells: int) -> list[tuple[Row, ...]]:
    """Every unit that the limits allow, with rows at both ends and in the middle; one cell is both labels together."""
    ends = [(label, Fraction(x, 2), Fraction(y)) for label in "ab" for x in (0, 1, 2) for y in (0, 1)]
    if limits is None:
        return [(row,) for row in ends]
    corners = [row for row in ends if row[1] != Fraction(1, 2) and row[2] == 0]
    found: list[tuple[Row, ...]] = [()]
    for size in range(1, limits.most_rows(cells) + 1):
        for rows in itertools.combinations_with_replacement(corners if size > 1 else ends, size):
            held = [sum(row[0] == label for row in rows) for label in "ab"] if cells > 1 else [size]
            if (
                sum(count > 0 for count in held) <= limits.most_groups(cells)
                and max(held) <= limits.most_rows_in_a_group()
            ):
                found.append(rows)
    return found


def _value(schema: Schema, measured: Any, rows: Sequence[Row]) -> Any:
    """The exact value of rows: counts and sums per cell in plain Python, then the question's own step."""
    cells = schema.cells(measured.by)
    counts = np.zeros(cells, dtype=object)
    sums = {product: np.zeros(cells, dtype=object) for product in measured.products}
    for label, x, y in rows:
        steps = {}
        for name, place in (("x", x), ("y", y)):
            bounds = schema.bounds(name)
            step = round(bounds.lowest + place * (bounds.highest - bounds.lowest))
            steps[name] = step - bounds.lowest if measured.from_lowest else step
        cell = "ab".index(label) if measured.by else 0
        counts[cell] += 1
        for product, total in sums.items():
            total[cell] += math.prod(steps[name] for name in product)
    return np.array([float(one) for one in np.atleast_1d(measured.value(counts, sums)).ravel()])


def _moved(name: str, schema: Schema, question: Any) -> Iterator[Compared]:
    measured = question.measurement
    if measured.value is None:
        return
    limits = None if schema.unit.column is None else measured.contribution or schema.unit.contribution
    base: list[Row] = [(label, Fraction(x), Fraction(y)) for label, x, y in _BASE]
    values = [_value(schema, measured, [*base, *unit]) for unit in _units(limits, schema.cells(measured.by))]
    nobody = [_value(schema, measured, base)] if "n" not in measured.public else []
    others = nobody
    if schema.neighbours is Neighbours.REPLACE_ONE:  # a row that is replaced by one with a gap drops out
        others = [*values, *(nobody if _may_drop(schema) else [])]
    gaps = [np.abs(one - other) for one in values for other in others]
    l1 = max(float(gap.sum()) for gap in gaps)
    l2 = max(float(np.sqrt((gap**2).sum())) for gap in gaps)
    declared, near, what = measured.sensitivity, 1 + 1e-9, f"{name}, {schema.unit.name}, {schema.neighbours.value}"
    within = l1 <= (declared.l1 or math.inf) * near and l2 <= (declared.l2 or math.inf) * near
    yield f"{what}: more than declared", within
    reached = max(l1 / (declared.l1 or math.inf), l2 / (declared.l2 or math.inf))
    if l1 > 0:  # a count of rows that are replaced does not move
        # Totals in one cell under a limit in all: the bound is that of two units apart, and they lie on one side.
        loose = limits is not None and limits.total is not None and not measured.by and name in ("count", "sum")
        yield f"{what}: far less than declared", reached >= (0.49 if loose else 0.99)


def _merged_ranks() -> Iterator[Compared]:
    """In a domain of 2²⁴ points ten become one: a value belongs to the nearest, halves up."""
    wide = Schema(columns={"x": Bounds(0, 2**24, grid=1)})
    ranks: Any = q.QuantileQuestion(wide, "x", 0.5, guarantee=_ONE, interval=None).measurement.from_histograms

    def told(step: int) -> list[Any]:
        return np.asarray(ranks([(np.array([step]), np.array([1]))])).tolist()  # type: ignore[no-any-return]

    yield "points that merge", told(0) == told(4) != told(5) == told(14) != told(15)


def _six_columns(measured: Any) -> Iterator[Compared]:
    """More columns than go into parts: sums of products of grid steps, as numbers in the units of the data."""
    steps = np.random.default_rng(4).integers(-2, 5, (7, 6)).astype(object)
    sums = {
        product: [sum(math.prod(row[int(name[1:])] + 2 for name in product) for row in steps)]  # from the lowest
        for product in measured.products
    }
    wanted = measured.statistic.exact(steps.astype(float) / 2, neighbours=Neighbours.ADD_REMOVE).value
    yield "totals of six columns", list(measured.value(np.array([7]), sums)) == list(wanted)


def _may_drop(schema: Schema) -> bool:
    return not schema.keeps_every_row(list(schema.columns))


def _sizes() -> Iterator[Compared]:
    """The number of rows is public only where no row can drop out, of any column that a question reads."""
    whole = Bounds(0, 1, grid=1, nulls=0)
    gaps = Bounds(0, 1, grid=1)
    for first, second in itertools.product((whole, gaps), repeat=2):
        for neighbours, unit in itertools.product(
            Neighbours, (PrivacyUnit(), PrivacyUnit("who", Contribution(rows=1)))
        ):
            size = 4 if neighbours is Neighbours.REPLACE_ONE else None
            schema = Schema(columns={"x": first, "y": second}, neighbours=neighbours, unit=unit, size=size)
            public = q.CountQuestion(schema, guarantee=_ONE).public_size("x", "y")
            fixed = neighbours is Neighbours.REPLACE_ONE and unit.column is None and first is whole and second is whole
            yield "a public number of rows", public == (4 if fixed else None)
    schema = Schema(columns={"x": whole, "y": whole, "arm": Categories(["a", "b"]), "z": Bounds(0, 1, grid=0.1)})
    for column, by, kind in (("x", (), Geometric), ("z", (), Laplace), ("x", "arm", Geometric), ("z", "arm", Laplace)):
        mechanism = q.SumQuestion(schema, column, guarantee=_ONE, by=by).measurement.mechanism
        yield f"noise on sums of {column} by {by}", isinstance(mechanism, kind)
    concentrated = ZeroConcentratedDP(0.5)
    for question in (
        q.CountQuestion(schema, guarantee=concentrated),
        q.SumQuestion(schema, "x", guarantee=concentrated, by="arm"),
    ):
        yield "whole noise under ρ", isinstance(question.measurement.mechanism, DiscreteGaussian)
    for one in _schemas():
        fixed = one.neighbours is Neighbours.REPLACE_ONE and one.unit.column is None and not _may_drop(one)
        for name, question in (two for two in _questions(one) if not two[0].startswith("count")):
            public = question.measurement.public.get("n") == one.size if fixed and " by " not in name else None
            yield f"what is public about the {name}", public or "n" not in question.measurement.public
    names = [f"c{place}" for place in range(6)]
    six = Schema(columns={name: Bounds(-1, 2, grid=0.5) for name in names})
    mean = q.MeanQuestion(six, "c0", guarantee=_ONE, variance=True).measurement
    powers = {product: [3 ** len(product) + 1] for product in mean.products}  # steps of 3 and 1
    above = {product: [5 ** len(product) + 3 ** len(product)] for product in mean.products}  # counted from the lowest
    parts = mean.statistic.exact([1.5, 0.5], neighbours=Neighbours.ADD_REMOVE).value  # type: ignore[attr-defined]
    yield "totals in parts", list(mean.value(np.array([2]), above if mean.from_lowest else powers)) == list(parts)  # type: ignore[misc,arg-type]
    for guarantee, wanted in ((_ONE, "covariances_in_parts"), (GaussianDP(1.0), "covariances_in_products")):
        five = q.CovarianceMatrixQuestion(six, names[:5], guarantee=guarantee).measurement.statistic
        yield f"what measures five columns at {guarantee}", five.name == wanted
    for one in _schemas():
        fixed = one.neighbours is Neighbours.REPLACE_ONE and one.unit.column is None and not _may_drop(one)
        pair = q.CovarianceMatrixQuestion(one, ("x", "y"), guarantee=_ONE).measurement.public
        yield "what is public about a covariance", dict(pair) == ({"n": one.size} if fixed else {})
    yield from _merged_ranks()
    yield from _six_columns(q.CovarianceMatrixQuestion(six, names, guarantee=_ONE).measurement)
    labels = [f"l{place}" for place in range(100)]
    limits = PrivacyUnit("who", Contribution(groups=70, rows=1))
    wide = Schema(columns={"x": whole, "arm": Categories(labels)}, unit=limits)
    many = q.SumQuestion(wide, "x", guarantee=_ONE, by="arm").measurement
    yield "noise on sums in more groups than moves are kept of", isinstance(many.mechanism, Laplace)
    right = q.CovarianceMatrixQuestion(schema, ("x", "y"), guarantee=_ONE).measurement.sensitivity.l1 is not None
    yield "two columns", right
    yield "a label that is none", refused(lambda: q.ProportionQuestion(schema, "arm", "z", guarantee=_ONE).measurement)
    right = refused(lambda: q.ProportionQuestion(schema, "arm", "a", guarantee=_ONE, by="arm").measurement)
    yield "shares by their own column", right
    yield "a sum of labels", refused(lambda: q.SumQuestion(schema, "arm", guarantee=_ONE).measurement)
