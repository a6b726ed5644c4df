"""Arithmetic of guarantees: curves, conversions, shares and budgets, beside formulas that are written down again.

A guarantee that is reported may never be better than the one that holds, and not noticeably worse. Each number is
computed a second time here, in balls of 1,000 bits or in fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from flint import arb, ctx

from discreet.audit.arithmetic import exact_ball, printed, printed_ball
from discreet.audit.recomputed import Compared, Recomputed, recomputed, refused
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.ledgers.counting import accounting_of

__all__ = ["audit_guarantees"]

_KINDS: tuple[Any, ...] = (PureDP, ApproxDP, ZeroConcentratedDP, GaussianDP)


def audit_guarantees() -> Recomputed:
    """Compute curves, conversions, shares and budgets a second time.

    Examples
    --------
    >>> audit_guarantees().passed
    True
    """
    parts: tuple[Callable[[], Iterator[Compared]], ...] = (
        _curves, _inverses, _conversions, _within, _tradeoffs, _splits, _stored, _accounts
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
    """Whether a float is not below the truth, and the one below the float before it is."""
    lower = math.nextafter(math.nextafter(found, 0.0), 0.0)
    return _not_below(printed_ball(found), truth) and (lower <= 0 or bool(printed_ball(lower) <= truth))


def _not_below(first: arb, second: arb) -> bool:
    """Whether a number is at least another; balls alone cannot tell where they are equal."""
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
        bound, logarithm = ZeroConcentratedDP(top).delta_at(epsilon), _concentrated(top, epsilon)
        yield "δ of ρ-zCDP", abs(math.log(bound) - min(logarithm, 0.0)) <= 1e-4 * (1 + abs(logarithm))
        order = 1 + math.exp(_best_order(top, epsilon))
        yield (
            "δ of ρ-zCDP is too small",
            bound == 1.0 or bool(printed_ball(bound) >= _order_bound(top, epsilon, order) * (1 - arb(10) ** -9)),
        )
    yield "δ far out", GaussianDP(1.0).delta_at(1e9) == math.ulp(0.0) and GaussianDP(50.0).delta_at(1.0) <= 1.0
    yield "δ where epsilon is tiny", 0 < GaussianDP(1e-5).delta_at(1e-9) < 1e-5
    yield (
        "nothing is spent",
        all(_nothing(kind).delta_at(0.5) == 0 and _nothing(kind).epsilon_at(0.1) == 0 for kind in _KINDS),
    )
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
    a, r, e = exact_ball(order), printed_ball(rho), printed_ball(epsilon)
    return ((a - 1) * (a * r - e)).exp() * (1 - 1 / a) ** a / (a - 1)


def _inverses() -> Iterator[Compared]:
    """ε at δ is enough, and nothing noticeably smaller is."""
    every: list[Guarantee] = [
        PureDP(1.3),
        ApproxDP(1.3, 1e-3),
        ZeroConcentratedDP(0.7),
        GaussianDP(0.7),
        GaussianDP(9.0),
        PureDP(40.0),
    ]
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
    yield (
        "no ε covers everything",
        math.isinf(GaussianDP(1.0).epsilon_at(0.0)) and math.isinf(ZeroConcentratedDP(1.0).epsilon_at(0.0)),
    )
    yield "ε itself at δ = 0", PureDP(1.3).epsilon_at(0.0) == 1.3 == ApproxDP(1.3, 1e-3).epsilon_at(1e-3)
    several = GaussianDP(1.0).epsilon_at([0.1, 0.01])
    yield "arrays", several.tolist() == [GaussianDP(1.0).epsilon_at(0.1), GaussianDP(1.0).epsilon_at(0.01)]


def _conversions() -> Iterator[Compared]:
    for size in (1e-3, 0.1, 0.5, 1.0, 2.0, 7.5, 40.0):
        epsilon = printed_ball(size)
        rho, mu = PureDP(size).to(ZeroConcentratedDP).rho, PureDP(size).to(GaussianDP).mu
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
    yield (
        "trade-off of ε-DP",
        bool(np.allclose(PureDP(0.7).tradeoff(alpha), ApproxDP(0.7, 0.0).tradeoff(alpha), atol=0)),
    )
    for mu in (0.3, 2.0):
        yield (
            "trade-off of μ-GDP",
            bool(np.allclose(GaussianDP(mu).tradeoff(alpha), norm.cdf(norm.ppf(1 - alpha) - mu), atol=1e-12)),
        )
    for rho in (0.05, 1.0):
        curve, gaussian = (
            np.asarray(g.tradeoff(alpha)) for g in (ZeroConcentratedDP(rho), GaussianDP(math.sqrt(2 * rho)))
        )
        yield "trade-off of ρ-zCDP is no bound", bool(np.all(curve <= gaussian + 1e-12))
        yield (
            "trade-off of ρ-zCDP is loose",
            bool(np.all(curve >= 0.2 * gaussian - 0.02)) and bool(curve[1] > 0.5 * gaussian[1]),
        )
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
            yield (
                "a part is not its share",
                all(w * (1 - Fraction(1, 2**50)) <= f <= w for f, w in zip(found, wanted, strict=True)),
            )
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
        yield (
            "rounded too far",
            all(abs(a - b) <= near * b for pair in (spent, left) for a, b in zip(pair, third, strict=True)),
        )
        yield (
            "a crumb",
            name == "gdp"
            or set(account.at_most(tuple(part / 10**13 for part in amount)).parameters().values()) == {0.0},
        )
        yield (
            "no crumb",
            name == "gdp" or min(account.at_most(tuple(part / 10**11 for part in amount)).parameters().values()) > 0,
        )
        yield "nothing left", set(account.at_most(account.nothing).parameters().values()) == {0.0}
        yield "another kind", refused(partial(account.cost, ApproxDP(0.1, 1e-9))) or name == "basic"
        yield (
            "another accounting",
            refused(partial(accounting_of, one, "pure" if name != "pure" else "gdp")),
        )
    yield "no budget", refused(lambda: accounting_of(PureDP(0.0)))
    yield "no δ to convert", refused(lambda: accounting_of(ApproxDP(1.0, 0.0), "gdp"))
