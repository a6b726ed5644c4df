"""Arithmetic: rounding, searches, grids and sensitivities, beside fractions.

Every number that a guarantee rests on is rounded in one direction only, and no further than to the next float. Here
each of them is computed a second time, from its definition: it may never be better than the truth, and never worse
by more than a float.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from flint import arb, ctx, fmpq

from discreet.audit.recomputed import Compared, Recomputed, recomputed, refused
from discreet.core.grid import Grid, product_total, total
from discreet.core.rounding import decimal, down, greatest, least, not_below, thin, up
from discreet.core.sensitivity import Sensitivity, root_up

__all__ = ["audit_arithmetic", "exact_ball", "printed", "printed_ball"]

_BITS = 1000


def audit_arithmetic(*, seed: int = 1) -> Recomputed:
    """Compute directed roundings, searches, grids and sensitivities a second time.

    Examples
    --------
    >>> audit_arithmetic().passed
    True
    """
    parts: tuple[Callable[..., Iterator[Compared]], ...] = (_roundings, _cancelled, _searches, _grids, _sums, _norms)
    with ctx.workprec(_BITS):
        return recomputed("Arithmetic", [partial(part, np.random.default_rng(seed)) for part in parts])


def printed(number: float) -> Fraction:
    """The decimal that a float prints as, which is what it claims."""
    return Fraction(repr(float(number)))


def exact_ball(ratio: float | Fraction) -> arb:
    """A fraction, or the binary value of a float, as a ball."""
    exact = Fraction(ratio)
    return arb(fmpq(exact.numerator, exact.denominator))


def printed_ball(number: float) -> arb:
    """The decimal that a float prints as, as a ball."""
    return exact_ball(printed(number))


# ---- rounding -------------------------------------------------------------------------------------------------------


def _some_fractions(rng: np.random.Generator) -> Iterator[Fraction]:
    yield from (
        Fraction(0),
        Fraction(1),
        Fraction(1, 10),
        Fraction(3, 10),
        Fraction(1, 3),
        Fraction(2) ** -1074,
        Fraction(10) ** 300,
    )
    for _ in range(150):
        size = Fraction(10) ** int(rng.integers(-40, 40))
        yield Fraction(int(rng.integers(1, 2**62)), int(rng.integers(1, 2**62))) * size
        yield Fraction(float(rng.random() * 10 ** float(rng.uniform(-5, 5))))


def _roundings(rng: np.random.Generator) -> Iterator[Compared]:
    for size in _some_fractions(rng):
        for ratio in (size, -size):
            above, below, binary = up(ratio), down(ratio), not_below(ratio)
            near = math.nextafter(above, -math.inf), math.nextafter(below, math.inf), math.nextafter(binary, -math.inf)
            yield "up is too small", printed(above) >= ratio
            yield "up is not the next float", printed(near[0]) < ratio
            yield "down is too large", printed(below) <= ratio
            yield "down is not the next float", printed(near[1]) > ratio
            yield "not_below is too small", Fraction(binary) >= ratio
            yield "not_below is not the next float", Fraction(near[2]) < ratio
        if 0 < size < Fraction(10) ** 150:
            root = root_up(size)
            yield "a root is too small", Fraction(root) ** 2 >= size
            yield "a root is not the next float", Fraction(math.nextafter(root, 0.0)) ** 2 < size
            ball = exact_ball(size).sqrt()
            yield "the upper end of a ball is passed", bool(printed_ball(up(ball)) >= ball)
            yield "a ball is rounded up too far", bool(printed_ball(math.nextafter(up(ball), 0.0)) < ball)
    yield "a wide ball", printed(up(arb(1, 0.5))) >= Fraction(3, 2) and up(arb(1, 0.5)) < 1.5001
    yield "beyond the floats", up(Fraction(10) ** 400) == math.inf and up(arb(2) ** 5000) == math.inf
    yield "far below the floats", up(-(Fraction(10) ** 400)) < -1e308 and 0 < up(arb(2) ** -5000) < 1e-300
    yield "no finite ball", up(arb("nan")) == math.inf


def _cancelled(rng: np.random.Generator) -> Iterator[Compared]:
    """Differences that need far more bits than their terms."""
    for power in (100, 300, 900):
        found = thin(lambda power=power: arb(1) + arb(2) ** -power - 1)  # type: ignore[misc]
        yield "a difference of close numbers", bool(found.overlaps(arb(2) ** -power)) and found.rel_accuracy_bits() > 60


def _searches(rng: np.random.Generator) -> Iterator[Compared]:
    for _ in range(60):
        bar = float(10 ** rng.uniform(-300, 300))
        for guess in (
            bar,
            bar * 1.1,
            bar * 0.9,
            math.nextafter(bar, 0.0),
            math.nextafter(bar, math.inf),
            1.0,
            0.0,
            1e300,
        ):
            yield "least", least(partial(operator.le, bar), guess) == bar
            yield "greatest", greatest(partial(operator.ge, bar), guess) == bar
    yield "nothing is greatest but zero", greatest(lambda x: x <= 0, 1.0) == 0.0
    yield "a search without end", refused(lambda: least(lambda x: False, 1.0), ArithmeticError)
    yield "the last float is found", least(lambda x: x >= 1.7976931348623157e308, 1.0) == 1.7976931348623157e308


# ---- grids and sensitivities ----------------------------------------------------------------------------------------


def _grids(rng: np.random.Generator) -> Iterator[Compared]:
    cases: list[tuple[float, float]] = [
        (0.0, 1.0),
        (-3.0, -1.0),
        (0.1, 0.7),
        (-1e9, 3.0),
        (1e6, 1e6 + 1),
        (0.0, 3e5),
        (-0.3, 1e-4),
        (0.0, 1e-300),
    ]
    for low, high in cases:
        for step in (None, 2.0 ** math.floor(math.log2(high - low) - 3)):
            grid = Grid(bounds=(low, high), step=step)
            size, first, last = grid.exact_step, Fraction(low), Fraction(high)
            width = last - first
            if step is None:
                most = max(abs(first), abs(last))
                fine, coarse = width / size, most / size
                yield (
                    "the default step",
                    (2**29 <= fine <= 2**30 or 2**50 <= coarse <= 2**51 or size == Fraction(2) ** -1022),
                )
            yield (
                "a grid point outside",
                first <= grid.origin < first + size
                and grid.origin + grid.largest * size <= last < grid.origin + (grid.largest + 1) * size,
            )
            yield "the width", grid.width == width
            values = [low, high, low - 1, high + 1, (low + high) / 2, *(low + (high - low) * rng.random(20)).tolist()]
            values += [float((int(rng.integers(0, 9)) + Fraction(1, 2)) * size + grid.origin) for _ in range(4)]
            found = grid.values(grid.offsets("x", values))
            for value, on_grid in zip(values, found, strict=True):
                clipped = min(max(Fraction(value), first), last)
                wanted = math.floor(clipped / size + Fraction(1, 2)) * size
                wanted = min(max(wanted, grid.origin), grid.origin + grid.largest * size)
                yield "a value on the grid", on_grid == wanted
    for arguments in ({"bounds": (0.0, 1.0), "step": 0.3}, {"bounds": (0.0, 1.0), "step": 2.0**-31},
            {"bounds": (0.0, 1.0), "step": 2.0},
                      {"bounds": (1e15, 1e15 + 8), "step": 0.25}, {"bounds": (0.0, math.inf)},
                      {"bounds": (-1.7e308, 1.7e308)}):  # fmt: skip
        yield f"a grid of {arguments}", refused(lambda arguments=arguments: Grid(**arguments))  # type: ignore[misc]
    yield "the finest grid", Grid(bounds=(0.0, 2.0 - 2.0**-30), step=2.0**-30).largest == 2**31 - 1
    grid = Grid(bounds=(0.0, 1.0))
    for column in ([[1.0]], ["a"], [math.nan], [math.inf], [None]):
        yield f"a column of {column}", refused(lambda column=column: grid.offsets("x", column))  # type: ignore[misc]
    yield "an empty column", grid.offsets("x", []).size == 0


def _sums(rng: np.random.Generator) -> Iterator[Compared]:
    for most in (2, 2**16, 2**31):
        first, second = (rng.integers(0, most, 300) for _ in range(2))
        first[0], second[0] = most - 1, most - 1
        yield "a sum", total(first) == sum(first.tolist())
        products = sum(a * b for a, b in zip(first.tolist(), second.tolist(), strict=True))
        yield "a sum of products", product_total(first, second) == products


def _norms(rng: np.random.Generator) -> Iterator[Compared]:
    several: tuple[Any, ...] = ((1.0,), (1.0, 1.0), (3, Fraction(1, 3), 0.1), tuple((rng.random(9) + 0.1).tolist()))
    for moves in several:
        exact = [Fraction(move) for move in moves]
        found = Sensitivity(moves=moves)
        l1, l2 = Fraction(found.l1 or 0), Fraction(found.l2 or 0)
        near = 1 + Fraction(1, 2**50)
        yield "ℓ₁ of moves", sum(exact) <= l1 <= sum(exact) * near
        yield "ℓ₂ of moves", sum(x * x for x in exact) <= l2**2 <= sum(x * x for x in exact) * near**2
        yield "moves are sorted", list(found.moves or ()) == sorted(found.moves or (), reverse=True)
        yield (
            "moves are too small",
            all(Fraction(a) >= b for a, b in zip(found.moves or (), sorted(exact, reverse=True), strict=True)),
        )
        ordered = Sensitivity(coordinates=moves)
        yield (
            "coordinates keep their order",
            len(ordered.coordinates or ()) == ordered.dimension == len(moves) and ordered.l1 == found.l1,
        )
        yield "coordinates", all(Fraction(a) >= b for a, b in zip(ordered.coordinates or (), exact, strict=True))
    yield (
        "ℓ₂ from ℓ₁",
        Sensitivity(l1=3.0).l2 == 3.0 == Sensitivity(l1=3.0).require_l2() and Sensitivity(l2=2.0).l1 is None,
    )
    found = Sensitivity(l2=2.0, dimension=3)
    yield "ℓ₁ from ℓ₂", Fraction(found.l1 or 0) ** 2 >= 12 and (found.l1 or 0) < 3.4642
    third = Sensitivity(l1=Fraction(1, 3)).l1  # type: ignore[arg-type]
    yield "a third is rounded up", Fraction(third or 0) > Fraction(1, 3) and (third or 0) < 0.3334
    yield "a whole number that no float is", Fraction(Sensitivity(l1=2**53 + 1).l1 or 0) > 2**53
    for arguments in ({}, {"l1": 0.0}, {"l1": -1.0}, {"l1": math.nan}, {"l1": 1.0, "l2": 2.0}, {"moves": ()},
            {"moves": (1,), "l1": 1.0}, {"moves": "1"},
                      {"moves": (1,), "l2": 1.0}, {"moves": (1, 1), "dimension": 1}, {"coordinates": (1,),
                      "l1": 1.0}, {"coordinates": (1,), "dimension": 1},
                      {"coordinates": (1, 0)}, {"dimension": 0, "l1": 1.0}, {"coordinates": (1,), "moves": (1,)},
                      {"coordinates": (1,), "l2": 1.0}):  # fmt: skip
        yield f"a sensitivity of {arguments}", refused(lambda arguments=arguments: Sensitivity(**arguments))  # type: ignore[misc]
    for sensitivity in (
        Sensitivity(l1=2.0),
        Sensitivity(moves=(1, 2), dimension=3),
        Sensitivity(coordinates=(1, 3)),
        Sensitivity(l2=1.5),
    ):
        yield "a sensitivity read back", Sensitivity.from_dict(sensitivity.to_dict()) == sensitivity
    yield "as many moves as coordinates", Sensitivity(moves=(1, 1), dimension=2).dimension == 2
    yield "ℓ₁ is missing", refused(lambda: Sensitivity(l2=1.0).require_l1()) and Sensitivity(l1=1.0, l2=1.0).l2 == 1
    yield "a float counts as what it prints", decimal(0.1) == Fraction(1, 10)
