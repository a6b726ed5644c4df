"""Arithmetic of guarantees: curves, conversions, shares and budgets, beside formulas that are written down again.

A guarantee that is reported may never be better than the one that holds, and not noticeably worse. Each number is
computed a second time here, in balls of 1,000 bits or in fractions.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from flint import arb, ctx, fmpq

from discreet.audit.report import Audit, Compared, recomputed, refused
from discreet.audit.sampling import ChosenWords
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.numbers import Grid, decimal, down, greatest, least, not_below, product_total, thin, total, up
from discreet.core.protection import Neighbours
from discreet.core.sensitivity import Sensitivity, root_up
from discreet.mechanisms.composition import Responses, compose
from discreet.mechanisms.discrete_gaussian import DiscreteGaussianProfile
from discreet.mechanisms.geometric import GeometricProfile
from discreet.mechanisms.omission.amplification import (
    before_outlier_epsilon,
    before_outlier_suppression,
    before_poisson_sampling,
    deterministic_suppression,
    outlier_epsilon,
    outlier_suppression,
    poisson_sampling,
    sampling_without_replacement,
)
from discreet.mechanisms.omission.step import AbsoluteDistance, OutlierSuppression, PoissonSample
from discreet.results.ledger import accounting_of

# ---- Arithmetic: rounding, searches, grids and sensitivities, beside fractions
#
# Every number that a guarantee rests on is rounded in one direction only, and no further than to the next float. Here
# each of them is computed a second time, from its definition: it may never be better than the truth, and never worse
# by more than a float.


_BITS = 1000


def audit_arithmetic(*, seed: int = 1) -> Audit:
    """Compute directed roundings, searches, grids and sensitivities a second time."""
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
        Fraction(0), Fraction(1), Fraction(1, 10), Fraction(3, 10), Fraction(1, 3), Fraction(2) ** -1074,
        Fraction(10) ** 300,
    )  # fmt: skip
    for _ in range(150):
        size = Fraction(10) ** int(rng.integers(-40, 40))
        yield Fraction(int(rng.integers(1, 2**62)), int(rng.integers(1, 2**62))) * size
        yield Fraction(float(rng.random() * 10 ** float(rng.uniform(-5, 5))))


def _roundings(rng: np.random.Generator) -> Iterator[Compared]:
    for size in _some_fractions(rng):
        for ratio in (size, -size):
            above = up(ratio)
            below = down(ratio)
            binary = not_below(ratio)
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
        (0.0, 1.0), (-3.0, -1.0), (0.1, 0.7), (-1e9, 3.0), (1e6, 1e6 + 1), (0.0, 3e5), (-0.3, 1e-4), (0.0, 1e-300),
    ]  # fmt: skip
    for low, high in cases:
        for step in (None, 2.0 ** math.floor(math.log2(high - low) - 3)):
            grid = Grid(bounds=(low, high), step=step)
            size = grid.exact_step
            first = Fraction(low)
            last = Fraction(high)
            width = last - first
            if step is None:
                most = max(abs(first), abs(last))
                fine, coarse = width / size, most / size
                right = 2**29 <= fine <= 2**30 or 2**50 <= coarse <= 2**51 or size == Fraction(2) ** -1022
                yield "the default step", right
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
        right = all(Fraction(a) >= b for a, b in zip(found.moves or (), sorted(exact, reverse=True), strict=True))
        yield "moves are too small", right
        ordered = Sensitivity(coordinates=moves)
        right = len(ordered.coordinates or ()) == ordered.dimension == len(moves) and ordered.l1 == found.l1
        yield "coordinates keep their order", right
        yield "coordinates", all(Fraction(a) >= b for a, b in zip(ordered.coordinates or (), exact, strict=True))
    right = Sensitivity(l1=3.0).l2 == 3.0 == Sensitivity(l1=3.0).require_l2() and Sensitivity(l2=2.0).l1 is None
    yield "ℓ₂ from ℓ₁", right
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


_KINDS: tuple[Any, ...] = (PureDP, ApproxDP, ZeroConcentratedDP, GaussianDP)


def audit_guarantees() -> Audit:
    """Compute curves, conversions, shares and budgets a second time."""
    parts: tuple[Callable[[], Iterator[Compared]], ...] = (
        _curves, _inverses, _conversions, _within, _tradeoffs, _splits, _stored, _accounts, _losses, _composed
    )  # fmt: skip
    with ctx.workprec(1000):
        return recomputed("Arithmetic of guarantees", parts)


def _phi(x: arb) -> arb:
    return (-x / arb(2).sqrt()).erfc() / 2


def _gaussian_delta(mu: arb, epsilon: arb) -> arb:
    return _phi(mu / 2 - epsilon / mu) - epsilon.exp() * _phi(-mu / 2 - epsilon / mu)


def _approximate_delta(top: arb, own: arb, epsilon: arb) -> arb:
    """Randomised response that fails with probability δ: what its outcomes exceed e^ε times their neighbours by."""
    heads = 1 / (1 + (-top).exp())
    excess = heads - epsilon.exp() * (1 - heads)
    return own + (1 - own) * (excess if excess > 0 else arb(0))


def _next_above(found: float, truth: arb) -> bool:
    """True where a float is not below the truth and the one below the float before it is."""
    lower = math.nextafter(math.nextafter(found, 0.0), 0.0)
    return _not_below(printed_ball(found), truth) and (lower <= 0 or bool(printed_ball(lower) <= truth))


def _not_below(first: arb, second: arb) -> bool:
    """True where a number is at least another; balls alone cannot tell where they are equal."""
    return bool(first >= second - abs(second) * arb(2) ** -300)


def _concentrated(rho: float, epsilon: float) -> float:
    """log of the smallest δ over many orders (canonne2020, Corollary 13), in doubles."""
    orders = 1 + np.logspace(-6, 6, 6001)
    with np.errstate(divide="ignore"):
        logs = (orders - 1) * (orders * rho - epsilon) + orders * np.log1p(-1 / orders) - np.log(orders - 1)
    return float(logs.min())


def _curves() -> Iterator[Compared]:
    for top, epsilon in product((0.1, 1.0, 3.7, 30.0), (0.0, 0.05, 0.3, 1.0, 2.5, 5.0)):
        e = printed_ball(epsilon)
        found = GaussianDP(top).delta_at(epsilon)
        yield "δ of μ-GDP", found == 1.0 or _next_above(found, _gaussian_delta(printed_ball(top), e))
        for own in (0.0, 1e-6, 0.25):
            truth = _approximate_delta(printed_ball(top), printed_ball(own), e)
            yield "δ of (ε, δ)-DP", _close(ApproxDP(top, own).delta_at(epsilon), truth)
        yield "δ of ε-DP", _close(PureDP(top).delta_at(epsilon), _approximate_delta(printed_ball(top), arb(0), e))
        bound = ZeroConcentratedDP(top).delta_at(epsilon)
        logarithm = _concentrated(top, epsilon)
        yield "δ of ρ-zCDP", abs(math.log(bound) - min(logarithm, 0.0)) <= 1e-4 * (1 + abs(logarithm))
        order = 1 + math.exp(_best_order(top, epsilon))
        right = bound == 1.0 or bool(printed_ball(bound) >= _order_bound(top, epsilon, order) * (1 - arb(10) ** -9))
        yield "δ of ρ-zCDP is too small", right
    yield "δ far out", GaussianDP(1.0).delta_at(1e9) == math.ulp(0.0) and GaussianDP(50.0).delta_at(1.0) <= 1.0
    yield "δ where epsilon is tiny", 0 < GaussianDP(1e-5).delta_at(1e-9) < 1e-5
    right = all(_nothing(kind).delta_at(0.5) == 0 and _nothing(kind).epsilon_at(0.1) == 0 for kind in _KINDS)
    yield "nothing is spent", right
    yield "refused", all(refused(partial(kind, -0.1)) for kind in _KINDS if kind is not ApproxDP)
    yield "far too large", all(refused(partial(kind, 1000.1)) for kind in (PureDP, GaussianDP))
    yield "large but possible", PureDP(1000.0).epsilon == 1000 and ZeroConcentratedDP(500_000.0).rho == 500_000
    yield "too large for ρ", refused(lambda: ZeroConcentratedDP(500_000.1)) and refused(lambda: ApproxDP(1000.1, 0.1))


def _nothing(kind: Any) -> Any:
    return ApproxDP(0.0, 0.0) if kind is ApproxDP else kind(0.0)


def _close(found: float, truth: arb) -> bool:
    """Not below the truth, and no further above it than a float is apart."""
    return found == 1.0 or (
        _not_below(printed_ball(found), truth)
        and bool(printed_ball(found) <= truth * (1 + arb(2) ** -51) + arb(2) ** -1070)
    )


def _best_order(rho: float, epsilon: float) -> float:
    from scipy.optimize import minimize_scalar

    def exponent(t: float) -> float:
        s = math.exp(t)
        return s * ((1 + s) * rho - epsilon) - s * math.log1p(1 / s) - math.log1p(s)

    return float(minimize_scalar(exponent, bounds=(-40, 12), method="bounded", options={"xatol": 1e-10}).x)


def _order_bound(rho: float, epsilon: float, order: float) -> arb:
    a = exact_ball(order)
    r = printed_ball(rho)
    e = printed_ball(epsilon)
    return ((a - 1) * (a * r - e)).exp() * (1 - 1 / a) ** a / (a - 1)


def _inverses() -> Iterator[Compared]:
    """ε at δ is enough, and nothing noticeably smaller is."""
    every: list[Guarantee] = [
        PureDP(1.3), ApproxDP(1.3, 1e-3), ZeroConcentratedDP(0.7), GaussianDP(0.7), GaussianDP(9.0), PureDP(40.0),
    ]  # fmt: skip
    for guarantee, delta in product(every, (0.4, 0.01, 1e-3, 1e-6, 1e-12)):
        found = float(guarantee.epsilon_at(delta))
        if math.isinf(found):
            yield "no ε where there is one", isinstance(guarantee, ApproxDP) and delta < guarantee.delta
            continue
        slack = 1e-3 if isinstance(guarantee, ZeroConcentratedDP) else 1e-12
        at = guarantee.delta_at(found * (1 + slack) if found else 0.0)
        yield "ε is too small", at <= delta * (1 + (1e-2 if slack == 1e-3 else 1e-9))
        yield "ε is too large", found == 0 or guarantee.delta_at(found * (1 - 2 * slack)) >= delta * (1 - 1e-9)
        if isinstance(guarantee, PureDP | ApproxDP):
            own = printed_ball(guarantee.delta) if isinstance(guarantee, ApproxDP) else arb(0)
            truth = _approximate_delta(printed_ball(guarantee.epsilon), own, printed_ball(found))
            yield "ε does not keep its δ", _not_below(printed_ball(delta), truth)
        if isinstance(guarantee, GaussianDP):
            yield (
                "μ does not keep its δ",
                bool(_gaussian_delta(printed_ball(guarantee.mu), printed_ball(found)) <= printed_ball(delta))
                or found == 0,
            )
    right = math.isinf(GaussianDP(1.0).epsilon_at(0.0)) and math.isinf(ZeroConcentratedDP(1.0).epsilon_at(0.0))
    yield "no ε covers everything", right
    yield "ε itself at δ = 0", PureDP(1.3).epsilon_at(0.0) == 1.3 == ApproxDP(1.3, 1e-3).epsilon_at(1e-3)
    several = GaussianDP(1.0).epsilon_at([0.1, 0.01])
    yield "arrays", several.tolist() == [GaussianDP(1.0).epsilon_at(0.1), GaussianDP(1.0).epsilon_at(0.01)]


def _conversions() -> Iterator[Compared]:
    for size in (1e-3, 0.1, 0.5, 1.0, 2.0, 7.5, 40.0):
        epsilon = printed_ball(size)
        rho = PureDP(size).to(ZeroConcentratedDP).rho
        mu = PureDP(size).to(GaussianDP).mu
        yield "ρ of ε-DP", _next_above(rho, epsilon * (epsilon / 2).tanh())
        yield "μ of ε-DP", bool(_phi(-printed_ball(mu) / 2) <= 1 / (1 + epsilon.exp()))
        yield "μ of ε-DP is too large", bool(_phi(-printed_ball(mu * (1 - 2**-50)) / 2) > 1 / (1 + epsilon.exp()))
        yield "ρ of μ-GDP", _next_above(GaussianDP(size).to(ZeroConcentratedDP).rho, epsilon**2 / 2)
        yield "δ = 0 is pure", ApproxDP(size, 0.0).to(PureDP) == PureDP(size) == PureDP(size).to(PureDP)
        yield "pure is δ = 0", PureDP(size).to(ApproxDP) == ApproxDP(size, 0.0)
        yield "stated at δ", GaussianDP(size).to(ApproxDP, delta=1e-6).epsilon == GaussianDP(size).epsilon_at(1e-6)
        yield "as itself", ApproxDP(size, 0.1).to(ApproxDP) == ApproxDP(size, 0.1)
        for guarantee, kind in ((ApproxDP(size, 0.1), PureDP), (ApproxDP(size, 0.1), GaussianDP),
                (GaussianDP(size), PureDP),
                                (ZeroConcentratedDP(size), GaussianDP), (ZeroConcentratedDP(size),
                                PureDP)):  # fmt: skip
            yield f"{type(guarantee).__name__} as {kind.__name__}", refused(lambda g=guarantee, k=kind: g.to(k))  # type: ignore[misc]
        yield "δ below its own", refused(lambda size=size: ApproxDP(size, 0.1).to(ApproxDP, delta=0.01))  # type: ignore[misc]
        yield "δ without meaning", refused(lambda size=size: PureDP(size).to(GaussianDP, delta=0.01))  # type: ignore[misc]
        yield "δ is missing", refused(lambda size=size: GaussianDP(size).to(ApproxDP))  # type: ignore[misc]
    yield "nothing is nothing of every kind", all(_nothing(a).to(b) == _nothing(b) for a, b in product(_KINDS, _KINDS))
    yield "no class of guarantees", refused(lambda: PureDP(1.0).to(float))  # type: ignore[type-var]


def _within() -> Iterator[Compared]:
    yes = [(PureDP(1.0), PureDP(1.0)), (PureDP(0.5), ApproxDP(0.5, 1e-6)), (ApproxDP(1.0, 1e-6), ApproxDP(1.1, 1e-6)),
           (GaussianDP(1.0), ZeroConcentratedDP(0.5)), (PureDP(1.0), GaussianDP(1.24)), (PureDP(1.0),
           ZeroConcentratedDP(0.47)),
           (ApproxDP(1.0, 0.0), PureDP(1.0)), (PureDP(1.0), ApproxDP(1.0, 0.0)), (GaussianDP(1.0),
           ApproxDP(1.0, 0.127)),
           (ZeroConcentratedDP(0.5), ApproxDP(5.3, 1e-6)), (GaussianDP(0.0), PureDP(0.0)), (PureDP(1.0),
           ApproxDP(0.9, 0.2))]  # fmt: skip
    no = [(PureDP(1.01), PureDP(1.0)), (PureDP(0.51), ApproxDP(0.5, 1e-6)), (ApproxDP(1.0, 1e-5), ApproxDP(1.1, 1e-6)),
          (GaussianDP(1.01), ZeroConcentratedDP(0.5)), (PureDP(1.0), GaussianDP(1.23)), (PureDP(1.0),
          ZeroConcentratedDP(0.46)),
          (ApproxDP(1.0, 1e-9), PureDP(2.0)), (GaussianDP(0.1), PureDP(900.0)), (GaussianDP(1.0), ApproxDP(1.0, 0.126)),
          (ZeroConcentratedDP(0.5), ApproxDP(5.2, 1e-6)), (ZeroConcentratedDP(0.1), GaussianDP(9.0)),
          (GaussianDP(0.1), ApproxDP(9.0, 0.0))]  # fmt: skip
    for first, second in yes:
        yield f"{first} within {second}", first.within(second) and first <= second and second >= first
    for first, second in no:
        yield f"{first} not within {second}", not first.within(second) and not first <= second and not second >= first


def _tradeoffs() -> Iterator[Compared]:
    from scipy.stats import norm

    alpha = np.linspace(0, 1, 41)
    for epsilon, delta in ((0.7, 0.0), (0.7, 0.05), (3.0, 0.2)):
        lines = np.maximum(1 - delta - math.exp(epsilon) * alpha, math.exp(-epsilon) * (1 - delta - alpha))
        curve = ApproxDP(epsilon, delta).tradeoff(alpha)
        yield "trade-off of (ε, δ)-DP", bool(np.allclose(curve, np.maximum(lines, 0.0), atol=1e-14))
    right = bool(np.allclose(PureDP(0.7).tradeoff(alpha), ApproxDP(0.7, 0.0).tradeoff(alpha), atol=0))
    yield "trade-off of ε-DP", right
    for mu in (0.3, 2.0):
        right = bool(np.allclose(GaussianDP(mu).tradeoff(alpha), norm.cdf(norm.ppf(1 - alpha) - mu), atol=1e-12))
        yield "trade-off of μ-GDP", right
    for rho in (0.05, 1.0):
        curve, gaussian = (
            np.asarray(g.tradeoff(alpha)) for g in (ZeroConcentratedDP(rho), GaussianDP(math.sqrt(2 * rho)))
        )
        yield "trade-off of ρ-zCDP is no bound", bool(np.all(curve <= gaussian + 1e-12))
        right = bool(np.all(curve >= 0.2 * gaussian - 0.02)) and bool(curve[1] > 0.5 * gaussian[1])
        yield "trade-off of ρ-zCDP is loose", right
    yield "one α", ApproxDP(0.7, 0.0).tradeoff(0.0) == 1.0
    yield "no α", refused(lambda: PureDP(1.0).tradeoff(1.1)) and refused(lambda: PureDP(1.0).tradeoff(-0.1))


def _splits() -> Iterator[Compared]:
    weights: tuple[Any, ...] = (1, 2, 3, 7, [1, 2, 3], [0.1, 0.7], (5, 5, 1))
    for guarantee, shares in product(
        (PureDP(1.0), ApproxDP(0.7, 1e-3), ZeroConcentratedDP(0.3), GaussianDP(1.1)), weights
    ):
        power = 2 if isinstance(guarantee, GaussianDP) else 1
        parts = guarantee.split(shares)
        each = [1] * shares if isinstance(shares, int) else list(shares)
        whole = sum(printed(weight) for weight in each)
        yield "as many as asked for", len(parts) == len(each)
        for name, value in guarantee.parameters().items():
            found = [printed(getattr(part, name)) ** power for part in parts]
            wanted = [printed(value) ** power * printed(weight) / whole for weight in each]
            yield "parts are more than the whole", sum(found) <= printed(value) ** power
            right = all(w * (1 - Fraction(1, 2**50)) <= f <= w for f, w in zip(found, wanted, strict=True))
            yield "a part is not its share", right
    yield "nothing in parts", GaussianDP(0.0).split(2) == (GaussianDP(0.0),) * 2
    yield (
        "no parts",
        refused(lambda: PureDP(1.0).split(0))
        and refused(lambda: PureDP(1.0).split([]))
        and refused(lambda: PureDP(1.0).split([1, 0])),
    )


def _stored() -> Iterator[Compared]:
    for guarantee in (PureDP(0.1), ApproxDP(0.1, 1e-7), ZeroConcentratedDP(0.3), GaussianDP(1.7)):
        yield "a guarantee read back", Guarantee.from_dict(guarantee.to_dict()) == guarantee
    for data in (
        {"kind": "pure"},
        {"kind": "pure", "epsilon": 1.0, "delta": 0.1},
        {"kind": "no such", "epsilon": 1.0},
        {},
    ):
        yield "a guarantee that is none", refused(lambda data=data: Guarantee.from_dict(data))  # type: ignore[misc]


def _accounts() -> Iterator[Compared]:
    """Allowances are the largest that keep the budget; what was spent is rounded up and what is left down."""
    for budget in (ApproxDP(1.0, 1e-6), ApproxDP(3.0, 0.01), ApproxDP(0.2, 1e-9)):
        for name, kind, power in (("zcdp", ZeroConcentratedDP, 1), ("gdp", GaussianDP, 2)):
            account = accounting_of(budget, name)
            yield "the allowance exceeds the budget", account.kept()
            more: Any = kind(float(account.allowance[0]) ** (1 / power) * (1 + 1e-6))
            yield "the allowance is not all of the budget", not more.within(budget)
    for name, one, amount in (("pure", PureDP(2.0), (printed(2.0),)), ("gdp", GaussianDP(1.5), (printed(1.5) ** 2,)),
                              ("basic", ApproxDP(2.0, 0.1), (printed(2.0), printed(0.1))),
                              ("zcdp", ZeroConcentratedDP(0.3), (printed(0.3),))):  # fmt: skip
        account = accounting_of(one)
        power = 2 if name == "gdp" else 1
        yield "allowance", account.name == name and account.allowance == amount and account.cost(one) == amount
        third = tuple(part / 3 for part in amount)
        spent, left = (tuple(printed(value) ** power for value in stated.parameters().values())
                       for stated in (account.at_least(third), account.at_most(third)))  # fmt: skip
        yield "what was spent is rounded down", all(a >= b for a, b in zip(spent, third, strict=True))
        yield "what is left is rounded up", all(a <= b for a, b in zip(left, third, strict=True))
        near = Fraction(1, 2**48)
        right = all(abs(a - b) <= near * b for pair in (spent, left) for a, b in zip(pair, third, strict=True))
        yield "rounded too far", right
        yield (
            "a crumb",
            name == "gdp"
            or set(account.at_most(tuple(part / 10**13 for part in amount)).parameters().values()) == {0.0},
        )
        right = name == "gdp" or min(account.at_most(tuple(part / 10**11 for part in amount)).parameters().values()) > 0
        yield "no crumb", right
        yield "nothing left", set(account.at_most(account.nothing).parameters().values()) == {0.0}
        yield "another kind", refused(partial(account.cost, ApproxDP(0.1, 1e-9))) or name == "basic"
        yield ("another accounting", refused(partial(accounting_of, one, "pure" if name != "pure" else "gdp")))
    yield "no budget", refused(lambda: accounting_of(PureDP(0.0)))
    yield "no δ to convert", refused(lambda: accounting_of(ApproxDP(1.0, 0.0), "gdp"))


# ---- Losses of whole noise, and what guarantees add up to, beside events that somebody could look at


def _losses() -> Iterator[Compared]:
    """Curves of whole noise, and the losses that compositions add up, beside sums over the noise itself."""
    for unit, moves in (("1/3", (1,)), ("1/7", (2, 3)), ("2", (4,)), ("1/5000", (3000, 2500)), ("1/9000", (9001,))):
        profile = GeometricProfile(Fraction(unit), moves)
        step = arb(_fraction(unit))
        total = sum(moves)
        alone = (1 / (1 + (-step).exp())) ** len(moves)  # no coordinate is above its smaller truth: all lose most
        for share in ("0", "1/3", "9/10"):
            epsilon = float(Fraction(share) * total * Fraction(unit))
            least_delta = alone * (1 - (exact_ball(epsilon) - total * step).exp())
            yield "δ of geometric noise", not exact_ball(profile.delta_at(epsilon)) < least_delta * _NEARLY
        yield "ε of geometric noise", Fraction(profile.pure().epsilon) >= total * Fraction(unit)
    profiles: list[Any] = [GeometricProfile(Fraction(1, 3), (5, 2)), GeometricProfile(Fraction(2), (1, 1))]
    profiles += [
        DiscreteGaussianProfile(Fraction(9, 4), moves=(1,)),
        DiscreteGaussianProfile(Fraction(400), moves=(7,)),
    ]
    for profile in profiles:
        for loss, _ in (several := profile.losses()):
            mass = math.fsum(one for _, one in loss.atoms) + loss.infinite
            yield "losses of whole noise are not all there", mass >= 1 - 1e-12
        if len(several) == 1 and several[0][1] == 1:
            loss = several[0][0]
            for epsilon in (0.0, 0.5, 1.0, 2.0, 3.0, 4.0):
                found = math.fsum(one * -math.expm1(epsilon - at) for at, one in loss.atoms if at > epsilon)
                enough = found + loss.infinite >= profile.delta_at(epsilon) * (1 - 1e-9) - 1e-290
                yield "losses of whole noise lose less than its curve", enough


def _composed() -> Iterator[Compared]:
    """Compositions: δ at the ε that is stated, and the event that the first part fails or answers truly."""
    for epsilon, delta, times in ((0.5, 1e-6, 3), (1.0, 1e-7, 10), (0.1, 0.0, 20)):
        responses = Responses([ApproxDP(epsilon, delta)] * times)
        for wanted in (times * delta * 1.01 + 1e-9, 1e-4):
            yield "δ of a composition", responses.delta_at(responses.epsilon_at(wanted)) <= wanted * (1 + 1e-9)
    for other in (GaussianDP(0.5), ZeroConcentratedDP(0.125)):
        for first, wanted in ((ApproxDP(1.0, 9e-6), 1e-5), (ApproxDP(2.0, 1e-6), 1e-5)):
            stated = compose(first, other, delta=wanted).parameters()["epsilon"]
            truly = 1 / (1 + math.exp(-first.epsilon))
            rest = GaussianDP(0.5).delta_at(max(stated - first.epsilon, 0.0))  # which is ρ-zCDP with ρ = μ²/2
            yield "parts of several kinds", first.delta + (1 - first.delta) * truly * float(rest) <= wanted * (1 + 1e-9)


_NEARLY = arb(1) - arb(2) ** -40


def _fraction(text: str) -> fmpq:
    one = Fraction(text)
    return fmpq(one.numerator, one.denominator)


# ---- Amplified: what leaving records out does to a guarantee, in 400 bits, and which records chosen words keep.


_EPSILONS = (0.01, 0.3, 1.0, 7.0)


def audit_amplified() -> Audit:
    """Compute amplification by sampling and suppression a second time."""
    return recomputed("Amplification", [_sampled, _sampling_rules, _grouped, _suppressed, _kept])


def _exact(number: float) -> Fraction:
    return Fraction(repr(number))


def _ball(value: Fraction) -> arb:
    return arb(value.numerator) / arb(value.denominator)


def _log_of_share(epsilon: float, share: Fraction) -> Fraction:
    """ln(1 + p(e^ε − 1)) to far more digits than a float has."""
    before = ctx.prec
    try:
        ctx.prec = 400
        found = (1 + _ball(share) * (_ball(_exact(epsilon)).exp() - 1)).log()
        mantissa, exponent = found.mid().man_exp()
        return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
    finally:
        ctx.prec = before


def _just_above(found: float, exact: Fraction) -> bool:
    """True where a float, as the decimal it prints as, is not below a number and the second one below it is."""
    lower = math.nextafter(math.nextafter(found, -math.inf), -math.inf)
    return _exact(found) >= exact > _exact(lower)


def _sampled() -> Iterator[Compared]:
    """Poisson samples and samples of a fixed size; and their inverses, which must never give back too much."""
    for epsilon, rate in itertools.product(_EPSILONS, (0.1, 0.25, 0.5, 0.9, 1.0)):
        wanted = _log_of_share(epsilon, _exact(rate))
        yield "a Poisson sample", _just_above(poisson_sampling(PureDP(epsilon), rate).epsilon, wanted)
        both = poisson_sampling(ApproxDP(epsilon, 0.003), rate)
        yield "a Poisson sample with δ", _just_above(both.epsilon, wanted)
        yield "δ of a Poisson sample", _just_above(both.delta, _exact(rate) * _exact(0.003))
        inner = before_poisson_sampling(ApproxDP(epsilon, 0.003), rate)
        again = poisson_sampling(inner, rate)
        yield "before a Poisson sample", again.epsilon <= epsilon and again.delta <= 0.003
        yield "far before a Poisson sample", again.epsilon > epsilon * (1 - 1e-9) and again.delta > 0.003 * (1 - 1e-9)
    for epsilon, (size, population) in itertools.product(_EPSILONS, ((1, 10), (3, 7), (50, 100), (4, 4))):
        share = Fraction(size, population)
        found = sampling_without_replacement(ApproxDP(epsilon, 0.003), size, population)
        yield "a sample of fixed size", _just_above(found.epsilon, _log_of_share(epsilon, share))
        yield "δ of a sample of fixed size", _just_above(found.delta, share * _exact(0.003))


def _sampling_rules() -> Iterator[Compared]:
    one = PureDP(1.0)
    for size, population in ((5, 4), (0, 4), (1, 0), (1.5, 4)):
        call = partial(sampling_without_replacement, one, size, population)  # type: ignore[arg-type]
        yield f"{size} of {population}", refused(call)
    wrong = {"neighbours": Neighbours.ADD_REMOVE}
    yield "a fixed size of unknown data", refused(partial(sampling_without_replacement, one, 1, 2, **wrong))
    other: dict[str, Any] = {"neighbours": Neighbours.REPLACE_ONE}
    yield "a Poisson sample of replaced rows", refused(partial(poisson_sampling, one, 0.5, **other))
    yield "suppression of replaced rows", refused(partial(outlier_suppression, one, 0.4, 0.5, **other))
    for rate in (0, 0.0, -0.1, 1.1, "x", [], True, math.nan, [0.5, 2.0]):
        yield f"a rate of {rate!r}", refused(partial(poisson_sampling, one, rate))
    yield "the largest of several rates", poisson_sampling(one, [0.1, 0.5, 0.2]) == poisson_sampling(one, 0.5)
    yield "δ that pays for a record", refused(partial(before_poisson_sampling, ApproxDP(1.0, 0.1), 0.1))
    for kind in (GaussianDP(1.0), ZeroConcentratedDP(1.0)):
        yield f"a sample under {kind}", poisson_sampling(kind, 0.5) == kind == before_poisson_sampling(kind, 0.5)
    for low, high in ((0, 0.5), (0.5, 0.4), (0.5, 1.0), (1.0, 1.0), (-0.1, 0.5)):
        yield f"deletion of {low}…{high}", refused(partial(outlier_suppression, one, low, high))


def _grouped() -> Iterator[Compared]:
    """Groups of several records behind a rule that always deletes the same ones."""
    for number, count in itertools.product((0.1, 0.3, 0.7, 0.12345678901234567), (1, 2, 3, 5)):
        exact = _exact(number)
        pure = deterministic_suppression(PureDP(number), count).to_dict()["epsilon"]
        yield "ε of a group", _just_above(pure, exact * count)
        normal = deterministic_suppression(GaussianDP(number), count).to_dict()["mu"]
        yield "μ of a group", _just_above(normal, exact * count)
        concentrated = deterministic_suppression(ZeroConcentratedDP(number), count).to_dict()["rho"]
        yield "ρ of a group", _just_above(concentrated, exact * count**2)
        both = deterministic_suppression(ApproxDP(number, 0.001), count).to_dict()
        total = sum(math.exp(number * place) for place in range(count)) * 0.001
        yield "δ of a group", both["epsilon"] == pure and abs(both["delta"] / total - 1) < 1e-12
    yield "a group whose δ is certain", refused(partial(deterministic_suppression, ApproxDP(5.0, 0.01), 3))
    odd: tuple[Any, ...] = (0, -1, 1.5, True)
    for count in odd:
        yield f"a group of {count}", refused(partial(deterministic_suppression, PureDP(1.0), count))


def _suppressed() -> Iterator[Compared]:
    """Suppression that deletes everybody alike is a sample; otherwise the inverse must give back what was asked."""
    for epsilon, chance in itertools.product(_EPSILONS, (0.2, 0.5, 0.9)):
        found = outlier_suppression(ApproxDP(epsilon, 0.003), chance, chance)
        kept = 1 - _exact(chance)
        yield "uniform deletion", abs(found.epsilon - float(_log_of_share(epsilon, kept))) < 1e-9
        yield "δ of uniform deletion", _just_above(found.delta, kept * _exact(0.003))
    for epsilon, (low, high) in itertools.product((1.0, 2.0), ((0.4, 0.5), (0.45, 0.5), (0.6, 0.62))):
        inner = before_outlier_suppression(ApproxDP(epsilon, 0.003), low, high)
        again = outlier_suppression(inner, low, high)
        yield "before suppression", again.epsilon <= epsilon and again.delta <= 0.003
        yield "far before suppression", again.epsilon > epsilon * (1 - 1e-6) and again.delta > 0.003 * (1 - 1e-9)
        plain = before_outlier_epsilon(epsilon, low, high)
        yield "one number for one", isinstance(plain, float) and abs(plain / inner.epsilon - 1) < 1e-6
        several = before_outlier_epsilon(np.array([epsilon, epsilon]), low, high)
        yield "several for several", isinstance(several, np.ndarray) and bool((several == plain).all())
        yield "there and back", abs(float(outlier_epsilon(plain, low, high)) / epsilon - 1) < 1e-9
    right = refused(partial(before_outlier_suppression, PureDP(0.1), 0.1, 0.3))
    yield "suppression that costs more than there is", right


def _kept() -> Iterator[Compared]:
    """Words at the probability itself: fractions decide, for every record by its own distance."""
    rows = [0.0, 1.0, 4.0, 10.0, 3.0]
    low, high = Fraction(3, 10), Fraction(6, 10)
    scores = [
        low + (high - low) * sum((abs(Fraction(x) - Fraction(y)) for y in rows), Fraction(0)) / (10 * len(rows))
        for x in rows
    ]
    step = OutlierSuppression(0.3, 0.6, AbsoluteDistance((0, 10)))
    sample = PoissonSample(0.3)
    for move in (-(2**30), -1, 0, 1, 2**30):
        words = [math.floor(score * 2**64) + move for score in scores]
        deleted = [
            Fraction(word, 2**64) + Fraction(1, 2**65) < score for word, score in zip(words, scores, strict=True)
        ]
        for further in (0, 2**64 - 1):
            if move == 0:  # the next word decides
                ends = [(Fraction(word) + Fraction(2 * further + 1, 2**65)) / 2**64 for word in words]
                deleted = [end < score for end, score in zip(ends, scores, strict=True)]
            found = step.kept(rows, entropy=ChosenWords(words, [further, 2**63]))
            yield "records that suppression keeps", found.tolist() == [not one for one in deleted]
        at = math.floor(Fraction(3, 10) * 2**64) + move
        if move:
            kept = sample.kept([0, 0], entropy=ChosenWords([at, at], [2**63]))
            yield "records that a sample keeps", kept.tolist() == [move < 0] * 2
