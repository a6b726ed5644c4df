"""Conformance kit: the checks that discreet's own mechanisms, statistics and ledgers pass, for anybody's.

Each function raises `NotConformant` with what was found, and returns a small report where all is well. Stochastic
checks state their error rates; they draw from operating-system entropy unless a seed is given.

Examples
--------
>>> from discreet import PureDP
>>> from discreet.core.sensitivity import Sensitivity
>>> from discreet.mechanisms import Laplace
>>> unit = Sensitivity(l1=1.0)
>>> report = check_mechanism(Laplace.calibrate(PureDP(1.0), unit), unit)
>>> report.claimed_epsilon, report.tightness > 0.99
(1.0, True)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.audit.exact_losses import audit_exactly
from discreet.audit.report import Audit
from discreet.core import requirements
from discreet.core.errors import DiscreetError
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.protection import Neighbours
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.mechanism import Law, Mechanism, mechanism_from_dict
from discreet.questions.bounded import BoundedStatistic
from discreet.results.display import Facts, Result, number
from discreet.results.release import statistic_from_dict

# ---- Conformance: how a check says that something does not keep its contract.


class NotConformant(DiscreetError, AssertionError):
    """Raised where something breaks its contract; the text says where. Test runners report it as a failed assertion."""


def require(holds: bool, found: str) -> None:
    """Raise `NotConformant` unless the contract holds: an `assert` that ``python -O`` does not remove."""
    if not holds:
        raise NotConformant(found)


# ---- Conformance kit: the checks that discreet's own mechanisms, statistics and ledgers pass, for anybody's.


Array = NDArray[np.float64]

_REJECT = 5.0
"""Standard errors beyond which a sample is rejected: a false alarm once in 1.7 million."""


@dataclass(frozen=True)
class MechanismReport(Result):
    """The findings about a mechanism that passed.

    Attributes
    ----------
    claimed_epsilon, found_epsilon
        The ε it claims and the largest log-ratio found between neighbours; None where no pure claim is made.
    tightness
        Largest ratio of found to claimed loss, over the pure claim and the δ curve.
    draws
        Number of draws compared with the distribution.
    """

    claimed_epsilon: float | None
    found_epsilon: float | None
    tightness: float
    draws: int

    def heading(self) -> str:
        return "Mechanism that passed"

    def facts(self) -> Facts:
        claimed, found = ("none" if one is None else number(one) for one in (self.claimed_epsilon, self.found_epsilon))
        reached = f"{100 * self.tightness:.1f} % of the claim"
        return [("ε claimed", claimed), ("ε found", found), ("reached", reached), ("draws", f"{self.draws:,}")]

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def check_mechanism(
    mechanism: Mechanism,
    sensitivity: Sensitivity,
    *,
    truths: Sequence[float] = (0.0,),
    tight: bool = True,
    draws: int = 100_000,
    rng: int | None = None,
) -> MechanismReport:
    """Check a scalar mechanism: claims against the exact loss, sampler against the distribution, and its manners.

    Parameters
    ----------
    mechanism, sensitivity
        What to check, and the change of the truth that it must hide.
    truths
        True values from which neighbours are taken, at distance Δ and Δ/2, both ways.
    tight
        Whether the claim must be reached to 99 %.
    draws
        Size of the sample; at 100,000 a scale that is 5 % off is rejected except once in 10²⁰ checks, and a right one
        is rejected less than once in 10⁵ checks.
    """
    _check_manners(mechanism, sensitivity, truths[0])
    audit = _check_claims(mechanism, sensitivity, truths)
    reached = audit.reached or 0.0
    require(not tight or reached >= 0.99, f"{mechanism}: only {reached:.4f} of the claim is reached")
    for truth in truths:
        check_sampler(mechanism.law(truth), draws, rng=rng)
        _check_interval(mechanism, truth, draws // 10, rng)
    return MechanismReport(audit["claimed_epsilon"], audit["found_epsilon"], reached, draws * len(truths))


def _check_manners(mechanism: Mechanism, sensitivity: Sensitivity, truth: float) -> None:
    """Frozen, readable back, repeatable when seeded, and closed to values that are no numbers."""
    name = next(iter(mechanism.parameters()))
    try:
        setattr(mechanism, name, 1.0)
    except dataclasses.FrozenInstanceError:
        pass
    else:
        raise NotConformant(f"{mechanism}: parameters can be changed after construction")
    require(mechanism_from_dict(mechanism.to_dict()) == mechanism, f"{mechanism}: cannot be read back")
    require(mechanism.draw(truth, rng=7) == mechanism.draw(truth, rng=7), f"{mechanism}: a seed does not repeat")
    for refused in (math.nan, math.inf):
        try:
            mechanism.law(refused)
        except DiscreetError:
            continue
        raise NotConformant(f"{mechanism}: accepts {refused} as a truth")
    # Ledgers are charged by the guarantee, the audit compares the profile: the one must follow from the other.
    own = mechanism.guarantee(sensitivity)
    require(mechanism.profile(sensitivity).within(own), f"{mechanism}: claims {own}, which its profile does not give")


def _check_claims(mechanism: Mechanism, sensitivity: Sensitivity, truths: Sequence[float]) -> Audit:
    audit = audit_exactly(mechanism, sensitivity, truths=truths)
    require(audit.passed, f"{mechanism}: more is lost than claimed\n{audit}")
    return audit


def check_sampler(law: Law, draws: int = 100_000, *, rng: int | None = None) -> None:
    """Check that draws follow a scalar distribution: its shape (Kolmogorov–Smirnov) and its scale to within 5 %.

    Where ``draws`` are too few to tell a scale that is 5 % off, more are taken.
    """
    centre, expected, deviation = _spread(law)
    # Five standard errors to accept the right scale and five to reject a wrong one must fit into 5 %.
    needed = math.ceil((2.1 * _REJECT * deviation / (0.05 * expected)) ** 2)
    count = max(draws, needed)
    sample = np.sort(np.asarray(law.sample(count, rng=rng), dtype=float))
    # The distribution function is taken just above and just below each draw, so that mass on a bound counts right.
    above = np.asarray(law.cdf(sample))
    below = np.asarray(law.cdf(np.nextafter(sample, -math.inf)))
    ranks = np.arange(1, count + 1) / count
    distance = max(float((ranks - above).max()), float((below - (ranks - 1 / count)).max()))
    bar = math.sqrt(math.log(2 / 1e-6) / (2 * count))
    require(distance < bar, f"{type(law).__name__}: draws are {distance:.5f} from the law, more than {bar:.5f}")
    found = float(np.abs(sample - centre).mean())
    error = deviation / math.sqrt(count)
    require(abs(found - expected) < _REJECT * error, f"{type(law).__name__}: spread {found:.6g}, not {expected:.6g}")
    for factor in (0.95, 1.05):
        require(
            abs(found - factor * expected) > _REJECT * error,
            f"{count} draws cannot tell a spread of {expected:.6g} from {factor} times it; draw more",
        )


def _spread(law: Law) -> tuple[float, float, float]:
    """The distribution's median, and mean and standard deviation of the distance from it."""
    centre = float(np.asarray(law.quantile(0.5)))
    levels = (np.arange(200_000) + 0.5) / 200_000
    distances = np.abs(np.asarray(law.quantile(levels)) - centre)
    return centre, float(distances.mean()), float(distances.std())


def _check_interval(mechanism: Mechanism, truth: float, draws: int, rng: int | None) -> None:
    """The 90 % interval covers the truth at least as often as it says, up to five standard errors."""
    values = np.asarray(mechanism.law(truth).sample(draws, rng=rng))
    low, high = mechanism.noise_interval(values, 0.9)
    covered = float(np.mean((low <= truth) & (truth <= high)))
    slack = _REJECT * math.sqrt(0.9 * 0.1 / draws)
    require(covered > 0.9 - slack, f"{mechanism}: a 90 % interval held the truth in {covered:.4f} of {draws} draws")


def check_calibration(
    mechanism: Any, guarantees: Sequence[Guarantee], sensitivity: Sensitivity, **options: Any
) -> list[Mechanism]:
    """Check that a mechanism class calibrated to a guarantee really meets it, and wastes less than 1 %."""
    calibrated = []
    for guarantee in guarantees:
        made: Mechanism = mechanism.calibrate(guarantee, sensitivity, **options)
        profile = made.profile(sensitivity)
        require(profile.within(guarantee), f"{made} does not meet {guarantee}")
        reached, wanted = _parameter_pair(made, guarantee, sensitivity)
        require(reached >= 0.99 * wanted, f"{made} spends only {reached:.6g} of {wanted:.6g}")
        calibrated.append(made)
    return calibrated


def _parameter_pair(made: Mechanism, guarantee: Guarantee, sensitivity: Sensitivity) -> tuple[float, float]:
    profile = made.profile(sensitivity)
    if isinstance(guarantee, ApproxDP):
        return profile.epsilon_at(guarantee.delta), guarantee.epsilon
    if isinstance(guarantee, PureDP):
        return profile.pure().epsilon, guarantee.epsilon
    if isinstance(guarantee, ZeroConcentratedDP):
        return profile.concentrated().rho, guarantee.rho
    wanted = requirements.instance("guarantee", guarantee, GaussianDP, "one of the four kinds of guarantee")
    return profile.gaussian().mu, wanted.mu


# ---- Conformance of a statistic: its declared sensitivity and domain against every small data set.


Value = Callable[[tuple[Any, ...]], Any]


def _coordinates(value: Any) -> list[Fraction]:
    return [Fraction(one) for one in np.atleast_1d(np.asarray(value, dtype=object))]


def _distance(first: Any, second: Any) -> Fraction:
    pairs = zip(_coordinates(first), _coordinates(second), strict=True)
    return sum((abs(a - b) for a, b in pairs), Fraction(0))


def worst_change(value: Value, records: Iterable[Any], *, n: int, neighbours: Neighbours) -> Fraction:
    """The largest ℓ₁ change of ``value`` over all data sets of n records and their neighbours, exactly.

    Data sets are multisets: ``value`` must not depend on the order of the records. Under add/remove the neighbours of
    n records have n − 1 and n + 1.
    """
    universe = list(records)
    known: dict[tuple[int, ...], Any] = {}

    def of(indices: tuple[int, ...]) -> Any:
        key = tuple(sorted(indices))
        if key not in known:
            known[key] = value(tuple(universe[index] for index in key))
        return known[key]

    worst = Fraction(0)
    every = range(len(universe))
    for rest in combinations_with_replacement(every, requirements.positive_integer("n", n) - 1):
        values = [of((*rest, index)) for index in every]
        if neighbours is Neighbours.REPLACE_ONE:
            worst = max(worst, *(_distance(a, b) for a in values for b in values))
            continue
        worst = max(worst, *(_distance(a, of(rest)) for a in values))
        for index, a in zip(every, values, strict=True):
            worst = max(worst, *(_distance(a, of((*rest, index, more))) for more in every))
    return worst


def check_statistic(
    statistic: BoundedStatistic,
    records: Iterable[Any],
    *,
    n: int,
    neighbours: Neighbours,
    data: Value | None = None,
    tight: float | None = 0.99,
) -> float:
    """Check a statistic against brute force over a small universe of records.

    Parameters
    ----------
    statistic
        What to check.
    records
        The universe: every record that a row may be. Its extremes should be in it.
    n
        Number of rows of the data sets.
    neighbours
        The neighbour relation.
    data
        How the statistic takes a tuple of records; a list of them by default.
    tight
        Least share of the declared sensitivity that some neighbours must reach; None does not ask for it.

    Returns
    -------
    float
        The worst change as a share of the declared sensitivity.

    Raises
    ------
    NotConformant
        If neighbours differ by more than declared, a value leaves its domain, the claim is not tight, or the
        description is not read back.

    Examples
    --------
    >>> from discreet.questions import Mean
    >>> check_statistic(Mean(bounds=(0, 1)), [0.0, 0.5, 1.0], n=4, neighbours=Neighbours.REPLACE_ONE)
    1.0
    """
    form: Value = list if data is None else data
    universe = list(records)
    if statistic_from_dict(statistic.to_dict()) != statistic:
        raise NotConformant(f"{statistic.name} is not read back from its own description")
    low, high = (np.atleast_1d(np.asarray(end, dtype=float)) for end in statistic.domain(n))
    for rows in combinations_with_replacement(universe, n):
        value = np.array([float(one) for one in _coordinates(statistic.value(form(rows)))])
        if not (np.all(value >= low - 1e-12) and np.all(value <= high + 1e-12)):
            raise NotConformant(f"{statistic.name} leaves its domain")
    declared = Fraction(statistic.sensitivity(n=n, neighbours=neighbours).require_l1())
    worst = worst_change(lambda rows: statistic.value(form(rows)), universe, n=n, neighbours=neighbours)
    if worst > declared:
        raise NotConformant(f"{statistic.name} moves by {float(worst)}, more than the declared {float(declared)}")
    share = float(worst / declared)
    if tight is not None and share < tight:
        raise NotConformant(f"{statistic.name} reaches only {share:.3f} of its declared sensitivity")
    return share
