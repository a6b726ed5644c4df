"""Catalogue: every shipped mechanism on its worst pair of neighbours, with what it claims.

A case says what is claimed, how to draw on either neighbour with the code that really runs, and, where the laws are
known, how to compute the loss exactly. The same list serves the exact and the statistical audit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.audit.case import PAIR, UNIT, Case, Draw, one_by_one
from discreet.audit.choice_cases import choice_cases, quantile_cases
from discreet.audit.exact_losses import (
    Cells,
    ExactAudit,
    audit_cells,
    audit_exactly,
    audit_laws,
)
from discreet.audit.group_cases import group_cases
from discreet.audit.path_cases import model_cases, omission_cases, pipeline_case, session_case
from discreet.contract.mechanism import Mechanism
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.bounded.boundary_inflated import BoundaryInflatedLaplace
from discreet.mechanisms.bounded.bounded_covariance import BoundedCovariance
from discreet.mechanisms.bounded.bounded_laplace import BoundedLaplace
from discreet.mechanisms.bounded.bounded_proportions import BoundedProportions
from discreet.mechanisms.bounded.tied_pair import TiedPair
from discreet.mechanisms.box_noise import BoxNoise
from discreet.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.generalized_gaussian import GeneralizedGaussian
from discreet.mechanisms.geometric import Geometric
from discreet.mechanisms.laplace import Laplace
from discreet.mechanisms.tables.clipped import Clipped
from discreet.mechanisms.tables.james_stein import JamesSteinGaussian
from discreet.mechanisms.tables.rank_deficient import RankDeficientGaussian
from discreet.mechanisms.whole_share import WholeShare

__all__ = ["cases"]

Array = NDArray[np.float64]


def cases() -> list[Case]:
    """Every case."""
    return [
        *_scalars(),
        *_vectors(),
        *_tables(),
        *_structured(),
        *choice_cases(),
        *group_cases(),
        *quantile_cases(),
        *omission_cases(),
        pipeline_case(),
        *model_cases(),
        session_case(),
    ]


# ---- one number ---------------------------------------------------------------------------------------------------


def _sampled(mechanism: Mechanism, truth: Any) -> Draw:
    return lambda n: mechanism.law(truth).sample(n)


def _scalar(
    name: str, mechanism: Mechanism, sensitivity: Sensitivity, pair: tuple[Any, Any], stated: Guarantee | None = None
) -> Case:
    return Case(
        name,
        stated or mechanism.guarantee(sensitivity),
        _sampled(mechanism, pair[0]),
        _sampled(mechanism, pair[1]),
        lambda: audit_laws(mechanism.profile(sensitivity), [[(mechanism.law(pair[0]), mechanism.law(pair[1]))]]),
    )


def _scalars() -> Iterator[Case]:
    third, tenth = Fraction(1, 3), Sensitivity(l1=0.1)
    yield _scalar("Laplace, ε 1", Laplace.calibrate(PureDP(1.0), UNIT), UNIT, (0.0, 1.0))
    yield _scalar("Laplace, ε 3, a mean of thirds", Laplace.calibrate(PureDP(3.0), UNIT), UNIT, (third, third + 1))
    yield _scalar("geometric, ε 1", Geometric.calibrate(PureDP(1.0), UNIT), UNIT, (0, 1))
    two = Sensitivity(moves=(2,))
    yield _scalar("geometric, ε 2, two rows a unit", Geometric.calibrate(PureDP(2.0), two), two, (0, 2))
    yield _scalar("Gaussian, μ 1", Gaussian.calibrate(GaussianDP(1.0), UNIT), UNIT, (0.0, 1.0))
    concentrated = ZeroConcentratedDP(0.5)
    yield _scalar("discrete Gaussian, ρ 0.5", DiscreteGaussian.calibrate(concentrated, UNIT), UNIT, (0, 1))
    yield _scalar(
        "discrete Gaussian, ρ 0.5, two rows a unit", DiscreteGaussian.calibrate(concentrated, two), two, (0, 2)
    )
    tenth_of_rows, share = Sensitivity(moves=(0.1,)), WholeShare(Geometric(1.0), 10)
    yield _scalar("a whole share of ten rows, ε 1", share, tenth_of_rows, (Fraction(1, 10), Fraction(2, 10)))
    approximate = ApproxDP(1.0, 0.01)
    yield _scalar("Gaussian, (ε 1, δ 0.01)", Gaussian.calibrate(approximate, UNIT), UNIT, (0.0, 1.0), approximate)
    flat = GeneralizedGaussian.calibrate(approximate, UNIT, order=4)
    yield _scalar("generalized Gaussian of order 4, (ε 1, δ 0.01)", flat, UNIT, (0.0, 1.0), approximate)
    bounded = BoundedLaplace.calibrate(PureDP(1.0), tenth, bounds=(0, 1))
    yield _scalar("bounded Laplace, ε 1", bounded, tenth, (0.0, 0.1))
    failing = BoundedLaplace.calibrate(approximate, tenth, bounds=(0, 1))
    yield _scalar("bounded Laplace, (ε 1, δ 0.01)", failing, tenth, (0.0139, 0.1139), approximate)
    half_line = BoundedLaplace.calibrate(PureDP(1.0), UNIT, bounds=(0, None))
    yield _scalar("bounded Laplace on a half-line", half_line, UNIT, (0.0, 1.0))
    inflated = BoundaryInflatedLaplace.calibrate(PureDP(1.0), tenth, bounds=(0, 1))
    yield _scalar("boundary-inflated Laplace, ε 1", inflated, tenth, (0.0, 0.1))
    every: tuple[tuple[str, Mechanism], ...]
    every = (
        ("Laplace", Laplace(1.0)),
        ("geometric", Geometric(1.0)),
        ("Gaussian", Gaussian(1.0)),
        ("discrete Gaussian", DiscreteGaussian(1.0)),
    )
    for name, mechanism in every:
        yield Case(
            f"{name}, every distance up to Δ",
            mechanism.guarantee(UNIT),
            _sampled(mechanism, 0.5),
            _sampled(mechanism, 0.0),
            lambda mechanism=mechanism: audit_exactly(mechanism, UNIT, truths=(0.0, 0.3)),  # type: ignore[misc]
            tight=False,
        )


# ---- several numbers ----------------------------------------------------------------------------------------------


def _product(
    name: str,
    mechanism: Mechanism,
    sensitivity: Sensitivity,
    here: Sequence[Any],
    there: Sequence[Any],
) -> Case:
    """Independent coordinates: only those that move count."""
    claim = mechanism.profile(sensitivity)

    def exact() -> ExactAudit:
        moved = [(a, b) for a, b in zip(here, there, strict=True) if a != b]
        return audit_laws(claim, [[(mechanism.law(a), mechanism.law(b)) for a, b in moved]])

    stated = mechanism.guarantee(sensitivity)
    return Case(name, stated, _sampled(mechanism, list(here)), _sampled(mechanism, list(there)), exact)


def _vectors() -> Iterator[Case]:
    yield _product("Laplace, two cells", Laplace.calibrate(PureDP(1.0), PAIR), PAIR, [5, 3, 8, 1], [4, 4, 8, 1])
    yield _product("geometric, two cells", Geometric.calibrate(PureDP(1.0), PAIR), PAIR, [5, 3, 8, 1], [4, 4, 8, 1])
    yield _product("Gaussian, two cells", Gaussian.calibrate(GaussianDP(1.0), PAIR), PAIR, [5, 3, 8, 1], [4, 4, 8, 1])
    yield _box()
    whole = DiscreteGaussian.calibrate(ZeroConcentratedDP(0.5), PAIR)
    yield _product("discrete Gaussian, two cells", whole, PAIR, [5, 3, 8, 1], [4, 4, 8, 1])
    changes = (Sensitivity(l1=0.1), Sensitivity(l1=0.4))
    mechanism = BoundedLaplace.calibrate(PureDP(1.0), changes, bounds=((0, 1), (0, 2)))
    claim = mechanism.profile(Sensitivity(coordinates=(0.1, 0.4)))
    parts = [
        BoundedLaplace(scale=scale, bounds=bounds)
        for scale, bounds in zip(mechanism.scale, mechanism.bounds, strict=True)
    ]
    pairs = [(part.law(0.0), part.law(change)) for part, change in zip(parts, (0.1, 0.4), strict=True)]
    yield Case(
        "bounded Laplace, two coordinates",
        PureDP(1.0),
        _sampled(mechanism, [0.0, 0.0]),
        _sampled(mechanism, [0.1, 0.4]),
        lambda: audit_laws(claim, [pairs]),
    )


def _box() -> Case:
    """Two numbers that both move by one, which box noise protects together."""
    both = Sensitivity(linf=1.0, dimension=2)
    mechanism = BoxNoise.calibrate(PureDP(1.0), both)
    return Case(
        "box noise, two numbers, ε 1",
        mechanism.guarantee(both),
        _sampled(mechanism, [0.0, 0.0]),
        _sampled(mechanism, [1.0, 1.0]),
        lambda: audit_cells(mechanism.profile(both), [_box_cells(mechanism.scale)]),
    )


def _box_cells(scale: float, steps: int = 20, reach: int = 24) -> Cells:
    """The plane, cut into squares of a side of 1/steps: probabilities around (0, 0) and around (1, 1)."""
    side = 1 / (steps * scale)
    ring = np.arange(-reach * steps, reach * steps)
    ring = np.where(ring < 0, -ring - 1, ring)  # how many squares lie between a coordinate and 0
    outer = np.exp(-side * np.maximum.outer(ring, ring))
    # The larger coordinate alone counts, but in the squares on the diagonals, where it may be either.
    p = outer * side * -np.expm1(-side) / 8
    p[np.equal.outer(ring, ring)] *= 2 * (1 - (1 + side) * math.exp(-side)) / (side * -math.expm1(-side))
    return Cells(p[steps:, steps:].ravel(), p[:-steps, :-steps].ravel())


def _tables() -> Iterator[Case]:
    """Post-processed tables: the loss is that of the measurement, along the line between the two truths."""
    here, there = [2, 6, 1, 4, 3], [1, 7, 1, 4, 3]
    shift = math.sqrt(2)
    scale = Gaussian.calibrate(GaussianDP(1.0), PAIR).scale
    claim = Gaussian(scale).profile(PAIR)
    tables: dict[str, Mechanism] = {
        "rank-deficient Gaussian": RankDeficientGaussian(scale=scale),
        "James-Stein towards zero": JamesSteinGaussian(scale=scale, towards="zero"),
        "James-Stein towards the mean": JamesSteinGaussian(scale=scale),
        "James-Stein, rank-deficient": JamesSteinGaussian(scale=scale, rank_deficient=True),
        "James-Stein under two public totals": JamesSteinGaussian(
            scale=scale, rank_deficient=True, constraints=((1, 1, 0, 0, 0), (0, 0, 1, 1, 1)), values=(8, 8)
        ),
        "clipped Gaussian": Clipped(mechanism=Gaussian(scale)),
        "Gaussian truncated to a rectangle": Clipped(mechanism=Gaussian(scale), clip="box", box=((0, 5),)),
        "Gaussian on the simplex, whole numbers": Clipped(
            mechanism=Gaussian(scale), clip="simplex", rank_deficient=True, integers=True
        ),
    }
    for name, mechanism in tables.items():
        yield Case(
            name,
            GaussianDP(1.0),
            one_by_one(mechanism, here),
            one_by_one(mechanism, there),
            lambda: audit_laws(claim, [[(Gaussian(scale).law(0.0), Gaussian(scale).law(shift))]]),
            tight=False,
            slow=True,
        )
    laplace = Clipped.calibrate(PureDP(1.0), PAIR, kind=Laplace)
    yield Case(
        "clipped Laplace",
        laplace.guarantee(PAIR),
        one_by_one(laplace, here),
        one_by_one(laplace, there),
        lambda: audit_laws(
            laplace.profile(PAIR),
            [[(Laplace(laplace.scale).law(a), Laplace(laplace.scale).law(a + 1)) for a in (0, 1)]],
        ),
        tight=False,
        slow=True,
    )


def _structured() -> Iterator[Case]:
    moves = Sensitivity(moves=(0.1, 0.1), dimension=3)
    here, there = [Fraction(0), Fraction(1, 10), Fraction(9, 10)], [Fraction(1, 10), Fraction(0), Fraction(9, 10)]
    for method in ("rescale", "all_but_one", "universal_histogram", "simplex"):
        mechanism = BoundedProportions.calibrate(PureDP(1.0), moves, method=method)
        yield Case(
            f"bounded proportions, {method}",
            mechanism.guarantee(moves),
            one_by_one(mechanism, here),
            one_by_one(mechanism, there),
            lambda mechanism=mechanism: _measured_exactly(mechanism, moves, here, there),  # type: ignore[misc]
            tight=False,
            slow=True,
        )
    tied = Sensitivity(l1=0.4)
    pair = TiedPair.calibrate(PureDP(1.0), tied, bounds=((0, 1), (0.2, 1)), total=1.0)
    yield Case(
        "tied pair",
        pair.guarantee(tied),
        lambda n: pair.first_law([0.0, 1.0]).sample(n),
        lambda n: pair.first_law([0.2, 0.8]).sample(n),
        lambda: audit_laws(pair.profile(tied), [[(pair.first_law([0.0, 1.0]), pair.first_law([0.2, 0.8]))]]),
    )
    yield _covariance()


def _measured_exactly(mechanism: BoundedProportions, moves: Sensitivity, here: Any, there: Any) -> ExactAudit:
    """The numbers that are measured are independent; the rest reads no data."""
    law: Any = {"bounded": BoundedLaplace, "inflated": BoundaryInflatedLaplace}.get(mechanism.noise)
    one = Laplace(mechanism.scale) if law is None else law(scale=mechanism.scale, bounds=(0, 1))
    queries = [mechanism._queries(truth) for truth in (here, there)]
    moved = [(a, b) for a, b in zip(*queries, strict=True) if a != b]
    return audit_laws(mechanism.profile(moves), [[(one.law(a), one.law(b)) for a, b in moved]])


def _covariance() -> Case:
    """Variances, then a covariance whose domain the noisy variances fix: densities multiply."""
    changes, bounds = (0.36, 0.81, 0.54), ((0.0, 9.1), (0.0, 20.5))
    mechanism = BoundedCovariance(budget=PureDP(1.0), changes=changes, variance_bounds=bounds)
    here, there = [0.0, 0.0, 0.0], [0.36, 0.81, 0.54]
    part = PureDP(1.0).split(3)[0]

    def logs(entry: int, outputs: Array, domain: tuple[float, float]) -> Array:
        own = Sensitivity(l1=min(changes[entry], domain[1] - domain[0]))
        laws = BoundedLaplace.calibrate(part, own, bounds=domain)
        clamped = [min(max(truth[entry], domain[0]), domain[1]) for truth in (here, there)]
        a, b = (np.asarray(laws.law(truth).pdf(outputs)) for truth in clamped)
        return np.asarray(np.abs(np.log(a / b)))

    def exact() -> ExactAudit:
        variances = [logs(entry, np.linspace(0, bounds[entry][1], 201), bounds[entry]).max() for entry in (0, 1)]
        reaches = [0.01, 0.1, 0.5, 2.0, 10.0]
        covariances = [logs(2, np.linspace(-reach, reach, 201), (-reach, reach)).max() for reach in reaches]
        found = float(sum(variances) + max(covariances))
        return ExactAudit(1.0, found, (), ())

    return Case(
        "bounded covariance matrix",
        PureDP(1.0),
        one_by_one(mechanism, here),
        one_by_one(mechanism, there),
        exact,
        tight=False,
        slow=True,
        deep_only=True,
    )
