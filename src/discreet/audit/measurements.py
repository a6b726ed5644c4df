"""Measurements: what each question adds up and declares, on rows that plain Python adds up, without an engine.

A question turns totals per cell into an exact value, and declares how far one unit moves it. Here every unit that
the limits allow is added to a few rows, or put in another's place; the largest change must be the declared one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from discreet.audit.recomputed import Compared, Recomputed, recomputed, refused
from discreet.core.guarantee import GaussianDP, PureDP, ZeroConcentratedDP
from discreet.core.protection import Neighbours
from discreet.core.schema import Bounds, Categories, Contribution, PrivacyUnit, Schema
from discreet.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.mechanisms.geometric import Geometric
from discreet.mechanisms.laplace import Laplace
from discreet.questions.count import CountQuestion
from discreet.questions.covariance_matrix import CovarianceMatrixQuestion
from discreet.questions.covariances_in_parts import CovariancesInParts
from discreet.questions.mean import MeanQuestion
from discreet.questions.means_and_covariances import MeansAndCovariances
from discreet.questions.proportion import ProportionQuestion
from discreet.questions.quantile import QuantileQuestion
from discreet.questions.sum import SumQuestion
from discreet.questions.variance import VarianceQuestion

__all__ = ["audit_measurements"]

_ONE = PureDP(1.0)
_BASE = (("a", 1, 0), ("b", 0, 1), ("a", 0, 0))
"""Rows of everybody else: label, and where x and y lie, from 0 for the lower end to 1 for the upper."""
Row = tuple[str, Fraction, Fraction]


def audit_measurements() -> Recomputed:
    """Move every unit of small data sets, and compare with what questions declare.

    Examples
    --------
    >>> audit_measurements().passed
    True
    """
    asked = [partial(_moved, name, schema, question) for schema in _schemas() for name, question in _questions(schema)]
    return recomputed("Measurements of questions", [*asked, _sizes])


def _schemas() -> Iterator[Schema]:
    """Rows and people, added and replaced, with bounds of both signs."""
    limits = (
        None,
        Contribution(groups=1, rows=2),
        Contribution(groups=2, rows=1),
        Contribution(rows=1),
        Contribution(total=2),
    )
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
    yield "count", CountQuestion(schema, _ONE)
    yield "count by arm", CountQuestion(schema, _ONE, by="arm")
    yield "sum", SumQuestion(schema, "x", _ONE)
    yield "sum by arm", SumQuestion(schema, "x", _ONE, by="arm")
    yield "mean", MeanQuestion(schema, "x", _ONE)
    yield "mean by arm", MeanQuestion(schema, "x", _ONE, by="arm")
    yield "mean with spread", MeanQuestion(schema, "x", _ONE, spread=True)
    yield "variance by arm", VarianceQuestion(schema, "x", _ONE, by="arm")
    yield "proportion", ProportionQuestion(schema, "arm", "b", _ONE)


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
    l1, l2 = max(float(gap.sum()) for gap in gaps), max(float(np.sqrt((gap**2).sum())) for gap in gaps)
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
    ranks: Any = QuantileQuestion(wide, "x", 0.5, _ONE).measurement.from_histograms

    def told(step: int) -> list[Any]:
        return np.asarray(ranks([(np.array([step]), np.array([1]))])).tolist()  # type: ignore[no-any-return]

    yield "points that merge", told(0) == told(4) != told(5) == told(14) != told(15)


def _six_columns(measured: Any) -> Iterator[Compared]:
    """More columns than go into parts: sums of products of grid steps, as numbers in the units of the data."""
    steps = np.random.default_rng(4).integers(-2, 5, (7, 6)).astype(object)
    sums = {
        product: [sum(math.prod(row[int(name[1:])] for name in product) for row in steps)]
        for product in measured.products
    }
    wanted = measured.statistic.exact(steps.astype(float) / 2, neighbours=Neighbours.ADD_REMOVE).value
    yield "totals of six columns", list(measured.value(np.array([7]), sums)) == list(wanted)


def _may_drop(schema: Schema) -> bool:
    return not schema.keeps_every_row(list(schema.columns))


def _sizes() -> Iterator[Compared]:
    """The number of rows is public only where no row can drop out, of any column that a question reads."""
    whole, gaps = Bounds(0, 1, grid=1, nulls=0), Bounds(0, 1, grid=1)
    for first, second in itertools.product((whole, gaps), repeat=2):
        for neighbours, unit in itertools.product(
            Neighbours, (PrivacyUnit(), PrivacyUnit("who", Contribution(rows=1)))
        ):
            size = 4 if neighbours is Neighbours.REPLACE_ONE else None
            schema = Schema(columns={"x": first, "y": second}, neighbours=neighbours, unit=unit, size=size)
            public = CountQuestion(schema, _ONE).public_size("x", "y")
            fixed = neighbours is Neighbours.REPLACE_ONE and unit.column is None and first is whole and second is whole
            yield "a public number of rows", public == (4 if fixed else None)
    schema = Schema(columns={"x": whole, "y": whole, "arm": Categories(["a", "b"]), "z": Bounds(0, 1, grid=0.1)})
    for column, by, kind in (("x", (), Geometric), ("z", (), Laplace), ("x", "arm", Geometric), ("z", "arm", Laplace)):
        mechanism = SumQuestion(schema, column, _ONE, by=by).measurement.mechanism
        yield f"noise on sums of {column} by {by}", isinstance(mechanism, kind)
    concentrated = ZeroConcentratedDP(0.5)
    for question in (CountQuestion(schema, concentrated), SumQuestion(schema, "x", concentrated, by="arm")):
        yield "whole noise under ρ", isinstance(question.measurement.mechanism, DiscreteGaussian)
    for one in _schemas():
        fixed = one.neighbours is Neighbours.REPLACE_ONE and one.unit.column is None and not _may_drop(one)
        for name, question in (two for two in _questions(one) if not two[0].startswith("count")):
            public = question.measurement.public.get("n") == one.size if fixed and " by " not in name else None
            yield f"what is public about the {name}", public or "n" not in question.measurement.public
    names = [f"c{place}" for place in range(6)]
    six = Schema(columns={name: Bounds(-1, 2, grid=0.5) for name in names})
    mean = MeanQuestion(six, "c0", _ONE, spread=True).measurement
    powers = {product: [3 ** len(product) + 1] for product in mean.products}  # steps of 3 and 1
    above = {product: [5 ** len(product) + 3 ** len(product)] for product in mean.products}  # counted from the lowest
    parts = mean.statistic.exact([1.5, 0.5], neighbours=Neighbours.ADD_REMOVE).value  # type: ignore[attr-defined]
    yield "totals in parts", list(mean.value(np.array([2]), above if mean.from_lowest else powers)) == list(parts)  # type: ignore[misc,arg-type]
    for guarantee, wanted in ((_ONE, CovariancesInParts), (GaussianDP(1.0), MeansAndCovariances)):
        five = CovarianceMatrixQuestion(six, names[:5], guarantee).measurement.statistic
        yield f"what measures five columns at {guarantee}", isinstance(five, wanted)
    for one in _schemas():
        fixed = one.neighbours is Neighbours.REPLACE_ONE and one.unit.column is None and not _may_drop(one)
        pair = CovarianceMatrixQuestion(one, ("x", "y"), _ONE).measurement.public
        yield "what is public about a covariance", dict(pair) == ({"n": one.size} if fixed else {})
    yield from _merged_ranks()
    yield from _six_columns(CovarianceMatrixQuestion(six, names, _ONE).measurement)
    labels = [f"l{place}" for place in range(100)]
    limits = PrivacyUnit("who", Contribution(groups=70, rows=1))
    wide = Schema(columns={"x": whole, "arm": Categories(labels)}, unit=limits)
    many = SumQuestion(wide, "x", _ONE, by="arm").measurement
    yield "noise on sums in more groups than moves are kept of", isinstance(many.mechanism, Laplace)
    yield "two columns", CovarianceMatrixQuestion(schema, ("x", "y"), _ONE).measurement.sensitivity.l1 is not None
    yield "a label that is none", refused(lambda: ProportionQuestion(schema, "arm", "z", _ONE).measurement)
    yield (
        "shares by their own column",
        refused(lambda: ProportionQuestion(schema, "arm", "a", _ONE, by="arm").measurement),
    )
    yield "a sum of labels", refused(lambda: SumQuestion(schema, "arm", _ONE).measurement)
