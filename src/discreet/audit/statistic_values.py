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

from discreet.audit.recomputed import Compared, Recomputed, recomputed, refused
from discreet.core.errors import InvalidParameter
from discreet.core.exact import Exact
from discreet.core.guarantee import ApproxDP, GaussianDP, PureDP
from discreet.core.noise.choice import choose
from discreet.core.protection import Neighbours, Protection
from discreet.core.schema import Bounds
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.bounded import bounded_covariance
from discreet.mechanisms.bounded.bounded_covariance import BoundedCovariance
from discreet.mechanisms.bounded.bounded_laplace import BoundedLaplace
from discreet.mechanisms.bounded.bounded_proportions import BoundedProportions
from discreet.mechanisms.bounded.tied_pair import TiedPair
from discreet.mechanisms.bounded.truncated_laplace_law import TruncatedLaplaceLaw
from discreet.mechanisms.choices import exponential_mechanism
from discreet.mechanisms.choices.exponential_mechanism import ExponentialMechanism
from discreet.mechanisms.choices.gaussian_threshold import GaussianThreshold
from discreet.mechanisms.choices.ranks import group_histograms, histogram
from discreet.mechanisms.gaussian import Gaussian, GaussianLaw
from discreet.mechanisms.generalized_gaussian import GeneralizedGaussian
from discreet.mechanisms.geometric import Geometric
from discreet.mechanisms.laplace import Laplace
from discreet.mechanisms.tables.clipping import checked_box
from discreet.mechanisms.tables.direct_margins import MarginsGaussian
from discreet.mechanisms.tables.post_processed import exact_total
from discreet.mechanisms.tables.rank_deficient import LinearFacts
from discreet.questions.clusters.lloyd import Box, labels_of
from discreet.questions.comparison.arms import Arms, check_sizes
from discreet.questions.covariance import Covariance
from discreet.questions.margins import Margins
from discreet.questions.mean_difference import WinsorizedMoments
from discreet.questions.mode import Mode
from discreet.questions.pooled import PooledCovariance, PooledVariance
from discreet.questions.quality import Usable
from discreet.questions.quantile import Quantiles
from discreet.questions.signed_rank import PairedBalance
from discreet.questions.sum import Sum, SumAndCount
from discreet.questions.table import ContingencyTable
from discreet.questions.table_axes import Bins, Categories
from discreet.questions.tensor_parts import MOST_PARTS, TensorParts
from discreet.questions.variance import Variance

__all__ = ["audit_statistic_values"]

ADDED, REPLACED = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE


def audit_statistic_values() -> Recomputed:
    """Compare statistics with their definitions.

    Examples
    --------
    >>> audit_statistic_values().passed
    True
    """
    parts: tuple[Callable[[], Iterator[Compared]], ...] = (
        _sums, _spreads, _pooled, _pooled_rules, _winsorized, _ranks, _balances, _labels, _boxes, _bounded_rules,
        _noise_rules, _table_rules,
    )  # fmt: skip
    return recomputed("Values of statistics", parts)


def _rounded_up(found: float, exact: Fraction) -> bool:
    """Whether a float is the least that is not below a number."""
    return Fraction(found) >= exact > Fraction(math.nextafter(found, -math.inf))


# ---- sums and spreads -----------------------------------------------------------------------------------------------


def _sums() -> Iterator[Compared]:
    """Without a number of rows a sum ends only at zero."""
    for low, high in ((-1, 3), (0, 2), (-3, -1), (1, 2), (-2, 0)):
        ends = (0.0 if low >= 0 else -math.inf, 0.0 if high <= 0 else math.inf)
        yield f"the domain of a sum in {low}…{high}", Sum(bounds=(low, high)).domain() == ends
        yield f"the domain of five in {low}…{high}", Sum(bounds=(low, high)).domain(5) == (5 * low, 5 * high)
        yield "a declared number of rows", Sum(bounds=(low, high), n=4).domain() == (4 * low, 4 * high)
        both = SumAndCount(bounds=(low, high))
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
        found = Variance(bounds=(low, high)).domain(rows)
        yield "the domain of a variance", found[0] == 0 and _rounded_up(found[1], width**2 * rows / (4 * (rows - 1)))
        pair = Covariance(bounds=((low, high), (0, 3))).domain(rows)
        largest = 3 * width * _half_and_half(rows) / (rows - 1)
        yield "the domain of a covariance", pair[0] == -pair[1] and _rounded_up(pair[1], largest)
    yield "a covariance of two rows", Covariance(bounds=((0, 1), (0, 1)), n=2).n == 2
    for n in (1, 0, -2):
        yield f"a covariance of {n} rows", refused(partial(Covariance, bounds=((0, 1), (0, 1)), n=n))
    odd: tuple[Any, ...] = ("ab", 3, (), ((0, 1),), ((0, 1), (0, 1), (0, 1)), {(0, 1): 1, (0, 2): 1})
    for bounds in odd:
        yield f"a covariance in {bounds!r}", refused(partial(Covariance, bounds=bounds))


Cell = tuple[tuple[Fraction, Fraction], ...]


def _products(cell: Sequence[tuple[Fraction, Fraction]]) -> Fraction:
    """Σ(x − x̄)(y − ȳ) in one cell."""
    first, second = (sum((row[place] for row in cell), Fraction(0)) for place in (0, 1))
    return sum((x * y for x, y in cell), Fraction(0)) - first * second / max(len(cell), 1)


def _pooled() -> Iterator[Compared]:
    """Public sizes of cells: every data set of rows at the corners, and every neighbour of it."""
    for sizes, paired in (*itertools.product(((2, 2), (2, 3), (4,)), (False, True)), ((2,) * 5, False)):
        corners = [(Fraction(x), Fraction(y)) for x in (0, 1) for y in ((0, 1) if paired else (x,))]
        kind: Any = PooledCovariance if paired else PooledVariance
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
    two = partial(PooledVariance, bounds=(0, 1), cells=("a", "b"))
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
        made = PooledCovariance(bounds=((0, 1), (0, 1)), cells=tuple(range(cells)), n=rows)
        larger = PooledCovariance(bounds=((0, 1), (0, 1)), cells=tuple(range(cells)), n=rows + 1)
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
    with patch.object(exponential_mechanism, "choose", partial(_noted, given, choose)):
        ExponentialMechanism(1.0).choose(np.array(scores, dtype=object))
    yield "scores that floats do not hold", not given
    yield "two histograms", found == [([0, 1, 4], [1, 2, 3]), ([0, 2, 4], [4, 5, 6])]
    yield "one histogram", len(group_histograms(good, 0, 4, 1)) == 1
    for share, rows, grouped in itertools.product((0.1, 0.5, 0.75), (1, 3), (False, True)):
        made = Quantiles(probabilities=share, bounds=Bounds(0, 4, grid=1), interval=None)
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
            total, m = Fraction(sum((one > 0) - (one < 0) for one in terms)), len(kept) + 1
            if scores == "ranks":
                total = total / 4 if public else 2 * m * total / (2 * m * m + abs(total))
            wanted = [total] if public else [(len(kept) + total) / 2, (len(kept) - total) / 2]
            found = PairedBalance(scores=scores, n=4 if public else None).value(rows)
            yield f"{scores} of pairs", np.atleast_1d(found).tolist() == wanted


def _labels() -> Iterator[Compared]:
    """Modes, categories and bins."""
    mode = Mode(categories=("x", "y"))
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
    yield "one category", len(Categories(("x",))) == 1
    lists: tuple[Any, ...] = ((), ("x", "x"), "xy", 3)
    for labels in lists:
        yield f"categories of {labels!r}", refused(partial(Categories, labels))
    columns = {"a": ["x", "y"], "b": ["u", "v", "w"]}
    for tables in ([], [["a"], ["a"]], [["a", "b"], ["b", "a"]]):
        yield f"margins of {tables}", refused(partial(Margins, columns=columns, tables=tables))
    margins = Margins(columns=columns, tables=[["a"]])
    yield "margins without sums", margins.middle == 0 and margins.reaches == (1,)
    for low, high in ((0, 4), (-3, 7), (1, 4)):
        summed = Margins(columns=columns, tables=[["a"]], summed=("x", low, high, "1"))
        middle = (low + high) // 2
        yield "the middle of sums", summed.middle == middle and summed.reaches == (1, max(high - middle, middle - low))
    wide = {f"c{place}": list(range(100)) for place in range(5)}
    yield "a table of too many cells", refused(partial(ContingencyTable, wide))
    yield "a table of one cell", refused(partial(ContingencyTable, {"a": ["x"]}))
    side = round(MOST_PARTS**0.5) - 1
    pair = ((0, 1), (0, 1))
    yield "the most parts", TensorParts(bounds=pair, degrees=(side, side)).size == MOST_PARTS
    for degrees in ((side, side + 1), (1,), (0, 1)):
        yield f"parts of {degrees}", refused(partial(TensorParts, bounds=pair, degrees=degrees))


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
    truth, seen = [Fraction(1, 3), Fraction(1), Fraction(1, 7)], list[Any]()
    with patch.object(bounded_covariance, "TruncatedLaplaceLaw", partial(_noted, seen, TruncatedLaplaceLaw)):
        exact.measure(truth)
    yield "a matrix of fractions", list(seen[0]) == truth[:2]
    laplace = BoundedLaplace(scale=1.0, bounds=((0, 1), (0, 2)))
    yield (
        "changes of coordinates",
        laplace.profile((Sensitivity(l1=0.5), Sensitivity(l1=0.25))).pure().epsilon > 0,
    )
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
        yield f"normal noise within {budget}", Gaussian(9.0).profile(parts).within(budget) == (budget.delta > 0)
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
        yield (
            f"a threshold at {guarantee}",
            refused(partial(GaussianThreshold.calibrate, guarantee, Sensitivity(moves=(1.0,)))),
        )


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
    counts, replaced = np.array([[1, 0], [0, 2]]), Protection(neighbours=REPLACED)
    noise.check(own.exact(counts))
    yield "margins of another table", refused(partial(noise.check, other.exact(counts)))
    yield "margins of other neighbours", refused(partial(noise.check, own.exact(counts, protection=replaced)))
