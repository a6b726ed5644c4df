"""Calibrations: every mechanism, calibrated to every kind of guarantee, meets it and wastes less than 1 %.

The door verifies each claim against a mechanism's profile, so a search that goes wrong cannot break a guarantee; it
could waste noise or refuse what is possible. Where a closed form exists, the scale must be the very float above it.
Chances of choices are computed a second time from their definitions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from discreet.audit.recomputed import Compared, Recomputed, recomputed, refused
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.bounded.boundary_inflated import BoundaryInflatedLaplace
from discreet.mechanisms.bounded.bounded_laplace import BoundedLaplace
from discreet.mechanisms.box_noise import BoxNoise
from discreet.mechanisms.choices.exponential_mechanism import ExponentialMechanism
from discreet.mechanisms.choices.gaussian_threshold import GaussianThreshold
from discreet.mechanisms.choices.group_selection import OptimalSelection
from discreet.mechanisms.choices.noisy_max import ReportNoisyMax
from discreet.mechanisms.choices.permute_and_flip import PermuteAndFlip
from discreet.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.geometric import Geometric
from discreet.mechanisms.laplace import Laplace
from discreet.mechanisms.tables.clipped import Clipped
from discreet.mechanisms.tables.direct_margins import MarginsGaussian, MarginsLaplace
from discreet.mechanisms.tables.james_stein import JamesSteinGaussian
from discreet.mechanisms.tables.margins_noise import Workload
from discreet.mechanisms.tables.rank_deficient import RankDeficientGaussian
from discreet.testing.mechanisms import check_calibration

__all__ = ["audit_calibrations"]

_PURE, _APPROXIMATE = PureDP(0.7), ApproxDP(0.7, 0.01)
_CONCENTRATED, _GAUSSIAN = ZeroConcentratedDP(0.3), GaussianDP(0.6)
_EVERY: tuple[Guarantee, ...] = (
    _PURE,
    PureDP(0.1),
    PureDP(5.0),
    _APPROXIMATE,
    ApproxDP(2.0, 1e-6),
    _CONCENTRATED,
    _GAUSSIAN,
)
_NORMAL: tuple[Guarantee, ...] = (
    _APPROXIMATE,
    ApproxDP(2.0, 1e-6),
    ApproxDP(0.1, 0.2),
    _CONCENTRATED,
    ZeroConcentratedDP(4.0),
    _GAUSSIAN,
)
_ONE, _TWO, _THREE = Sensitivity(l1=1.0), Sensitivity(moves=(1.0, 1.0)), Sensitivity(moves=(3.0, 0.5))


def audit_calibrations() -> Recomputed:
    """Calibrate every mechanism to every kind of guarantee.

    Examples
    --------
    >>> audit_calibrations().passed
    True
    """
    every = [partial(_calibrated, *case) for case in _cases()]
    return recomputed("Calibrations", [*every, _closed_forms, _weights, _groups, _tables, _refusals])


def _cases() -> Iterator[tuple[Any, tuple[Guarantee, ...], Sensitivity, dict[str, Any]]]:
    for sensitivity in (_ONE, _TWO, _THREE, Sensitivity(l1=0.3)):
        yield Laplace, _EVERY, sensitivity, {}
    for sensitivity in (_ONE, _TWO, Sensitivity(l2=0.3)):
        yield Gaussian, _NORMAL, sensitivity, {}
    for sensitivity in (Sensitivity(linf=0.3, dimension=7), Sensitivity(coordinates=(1.0, 0.5))):
        yield BoxNoise, _EVERY, sensitivity, {}
    yield BoxNoise, _EVERY, Sensitivity(l1=0.3, dimension=2), {"in_boxes_of": 5}
    for sensitivity in (_ONE, Sensitivity(moves=(2.0,)), _TWO):
        yield Geometric, (_PURE, PureDP(2.0), _APPROXIMATE, _CONCENTRATED, _GAUSSIAN), sensitivity, {}
    for sensitivity in (_ONE, Sensitivity(moves=(2.0,)), _TWO, Sensitivity(l1=3.0, l2=2.5, dimension=9)):
        yield DiscreteGaussian, (_CONCENTRATED, ZeroConcentratedDP(3.0)), sensitivity, {}
    yield DiscreteGaussian, (_APPROXIMATE,), _ONE, {}
    for bounds in ((0.0, 2.0), (-1.0, 40.0), (0.0, math.inf)):
        yield BoundedLaplace, (_PURE, PureDP(3.0), _APPROXIMATE), Sensitivity(l1=0.5), {"bounds": bounds}
        yield BoundaryInflatedLaplace, (_PURE, PureDP(3.0)), Sensitivity(l1=0.5), {"bounds": bounds}
    yield BoundedLaplace, (_CONCENTRATED, _GAUSSIAN), Sensitivity(l1=0.5), {"bounds": (0.0, 2.0)}
    for kind in (RankDeficientGaussian, JamesSteinGaussian, Clipped):
        yield kind, _NORMAL, _TWO, {}
    yield Clipped, (_PURE, _APPROXIMATE), _TWO, {"kind": Laplace}


def _calibrated(
    kind: Any, guarantees: tuple[Guarantee, ...], sensitivity: Sensitivity, options: dict[str, Any]
) -> Iterator[Compared]:
    for guarantee in guarantees:
        check_calibration(kind, [guarantee], sensitivity, **options)
        yield f"{kind.__name__} at {guarantee}", True


def _closed_forms() -> Iterator[Compared]:
    """Scales that are quotients are the floats above them, or next to those."""
    for size, parameter in itertools.product((1.0, 0.3, 7.0), (0.1, 1.0, 2.5)):
        exact = Fraction(size) / Fraction(repr(parameter))
        for name, scale in (
            ("Laplace", Laplace.calibrate(PureDP(parameter), Sensitivity(l1=size)).scale),
            ("box noise", BoxNoise.calibrate(PureDP(parameter), Sensitivity(linf=size, dimension=4)).scale),
            ("Gaussian", Gaussian.calibrate(GaussianDP(parameter), Sensitivity(l2=size)).scale),
        ):
            yield f"the scale of {name}", exact <= Fraction(scale) <= exact * (1 + Fraction(1, 2**51))
        rho = Gaussian.calibrate(ZeroConcentratedDP(parameter), Sensitivity(l2=size)).scale
        square = Fraction(size) ** 2 / (2 * Fraction(repr(parameter)))
        yield "the scale at ρ", square <= Fraction(rho) ** 2 <= square * (1 + Fraction(1, 2**50))
        whole_rho = DiscreteGaussian.calibrate(ZeroConcentratedDP(parameter), Sensitivity(moves=(size,))).scale
        square = Fraction(math.ceil(size)) ** 2 / (2 * Fraction(repr(parameter)))
        yield "the scale of whole noise at ρ", square <= Fraction(whole_rho) ** 2 <= square * (1 + Fraction(1, 2**50))
    whole = Geometric.calibrate(PureDP(0.5), Sensitivity(l1=2.0)).scale
    yield "the scale of whole noise", 4.0 <= whole <= 4.0000001
    both = Laplace.calibrate(PureDP(0.5), _TWO).scale
    yield "the scale of two moves", 4.0 <= both <= 4.0000001


def _weights() -> Iterator[Compared]:
    """Chances of choices, from their definitions."""
    for kind, guarantee, moves in itertools.product(
        (ExponentialMechanism, PermuteAndFlip), (_PURE, PureDP(3.0)), ((1.0,), (1.0, 1.0), (2.0, 1.0, 1.0))
    ):
        sensitivity = Sensitivity(moves=moves)
        made: Any = kind.calibrate(guarantee, sensitivity)
        yield f"{kind.__name__} keeps its guarantee", made.profile(sensitivity).within(guarantee)
        scores = np.array([0.0, 1.0, 2.5])
        weights = np.exp(float(made.factor) * (scores - scores.max()))
        if kind is ExponentialMechanism:
            wanted = weights / weights.sum()
        else:
            a, b, c = weights
            wanted = np.array([x * (1 - (y + z) / 2 + y * z / 3) for x, y, z in ((a, b, c), (b, a, c), (c, a, b))])
        yield f"chances of {kind.__name__}", bool(np.allclose(made.probabilities(scores), wanted, rtol=1e-12, atol=0))
    noises: tuple[tuple[str, Guarantee], ...] = (("laplace", _PURE), ("exponential", _PURE), ("gaussian", _GAUSSIAN))
    for noise, wanted_at in noises:
        for moves in ((1.0,), (1.0, 1.0)):
            sensitivity = Sensitivity(moves=moves)
            choice: Any = ReportNoisyMax.calibrate(wanted_at, sensitivity, noise=noise)
            yield f"noisy max, {noise}", choice.profile(sensitivity).within(wanted_at)
            chances = choice.probabilities(np.array([0.0, 1.0, 2.5]))
            yield (
                "chances of a noisy max",
                abs(float(np.sum(chances)) - 1) < 1e-6 and bool(np.all(np.diff(chances) > 0)),
            )
    noisy: Any = ReportNoisyMax(2.0, "laplace", False)
    plain = Laplace(2.0).profile(_TWO)
    yield (
        "the curve of noisy scores",
        abs(float(noisy.profile(_TWO).delta_at(0.3)) - float(plain.delta_at(0.3))) < 1e-12,
    )


def _groups() -> Iterator[Compared]:
    """Groups that are shown: an empty one never, and no size much more likely than the size below."""
    for epsilon, delta, groups in ((1.0, 1e-3, 1), (0.5, 1e-4, 2), (2.0, 1e-6, 3)):
        guarantee, sensitivity = ApproxDP(epsilon, delta), Sensitivity(moves=(1.0,) * groups)
        best: Any = OptimalSelection.calibrate(guarantee, sensitivity)
        noisy: Any = GaussianThreshold.calibrate(guarantee, sensitivity)
        for rule in (best, noisy):
            yield f"{type(rule).__name__} keeps its guarantee", rule.profile(sensitivity).within(guarantee)
            sizes = np.arange(0, rule.size_shown() + 30)
            chances = np.asarray(rule.chance(sizes), dtype=float)
            yield f"{type(rule).__name__}: larger groups", bool(np.all(np.diff(chances) >= 0)) and chances[-1] > 0.95
            e, d = epsilon / groups, delta / groups
            if groups == 1:
                up = chances[1:] <= math.exp(e) * chances[:-1] + d * (1 + 1e-9)
                down = 1 - chances[:-1] <= math.exp(e) * (1 - chances[1:]) + d * (1 + 1e-9)
                yield f"{type(rule).__name__}: one more row", bool(np.all(up & down))
            shown = rule.size_shown()
            yield "a size that is shown", float(rule.chance([shown])[0]) >= 0.95 > float(rule.chance([shown - 1])[0])
        yield "a group of nobody", float(best.chance([0])[0]) == 0.0
        first = float(best.chance([1])[0])
        yield "a group of one", 0 < first <= delta * (1 + 1e-9) and first >= 0.9 * delta / groups
        many = np.array([0] * 50 + [10**6] * 50)
        # Noise lifts an empty group over a threshold now and then; only the optimal rule never shows one.
        yield "what is drawn", best.shown(many).tolist() == [False] * 50 + [True] * 50
        yield "large groups are drawn", bool(np.all(noisy.shown(many[50:])))


def _tables() -> Iterator[Compared]:
    """Margins: the guarantee is kept and spent, for rows that are added and replaced."""
    for reaches, replaced in itertools.product(((1,), (1, 3)), (False, True)):
        work = Workload(sizes=(2, 3), tables=((0,), (0, 1)), weights=(1.0, 2.0), reaches=reaches)
        for rows in (1, 2):
            sensitivity = _row_sensitivity(work, reaches, rows, replaced)
            for kind, guarantee in ((MarginsLaplace, _PURE), (MarginsGaussian, _GAUSSIAN)):
                made: Any = kind.calibrate(guarantee, sensitivity, workload=work, replaced=replaced)
                profile = made.profile(sensitivity)
                yield f"{kind.__name__} keeps its guarantee", profile.within(guarantee)
                spent = profile.pure().epsilon / 0.7 if kind is MarginsLaplace else profile.gaussian().mu / 0.6
                yield f"{kind.__name__} spends its guarantee", spent >= 0.99


def _row_sensitivity(work: Workload, reaches: tuple[int, ...], rows: int, replaced: bool) -> Sensitivity:
    each = [reaches[layer] for layer, _ in work.layout()]
    return Sensitivity(
        l1=float(rows * sum(each) * (2 if replaced else 1)),
        l2=math.sqrt(rows**2 * sum(x * x for x in each) * (4 if replaced else 1)) * (1 + 1e-12),
    )


def _refusals() -> Iterator[Compared]:
    calls: tuple[Callable[[], Any], ...] = (
        partial(Laplace.calibrate, PureDP(0.0), _ONE),
        partial(Gaussian.calibrate, PureDP(1.0), _ONE),
        partial(Laplace.calibrate, PureDP(1.0), Sensitivity(l2=1.0)),
        partial(RankDeficientGaussian.calibrate, PureDP(1.0), _TWO),
        partial(BoundedLaplace.calibrate, PureDP(1.0), _ONE, bounds=(1.0, 0.0)),
        partial(OptimalSelection.calibrate, PureDP(1.0), _ONE),
        partial(BoxNoise.calibrate, PureDP(1.0), _ONE),
        partial(BoxNoise, 1.0, 0),
        partial(BoxNoise(1.0, 5, boxes=2).profile, Sensitivity(linf=1.0, dimension=10)),
        partial(Geometric, 0.0),
        partial(DiscreteGaussian, 0.0),
        partial(DiscreteGaussian, 2000.0),
        partial(DiscreteGaussian.calibrate, PureDP(1.0), _ONE),
        partial(DiscreteGaussian.calibrate, GaussianDP(1.0), _ONE),
        partial(Laplace, -1.0),
        partial(Gaussian, math.nan),
    )
    for call in calls:
        yield f"refused: {call.func} {call.args}", refused(call)  # type: ignore[attr-defined]
