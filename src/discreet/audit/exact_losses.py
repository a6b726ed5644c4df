"""Exact audit: the loss between neighbours, computed from the laws themselves, beside what is claimed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from discreet.audit.report import Audit
from discreet.audit.statistical import audit_draws, audit_pair
from discreet.core.errors import NoConversion
from discreet.core.guarantee import GaussianDP, Guarantee, Profile, PureDP
from discreet.core.noise.choice import choose
from discreet.core.numbers import ball, decimal, precisely
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.bounded.laplace import BoundaryInflatedLaplace, BoundedLaplace
from discreet.mechanisms.choices.selection import ExponentialMechanism, PermuteAndFlip
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace
from discreet.mechanisms.mechanism import Law, Mechanism

Array = NDArray[np.float64]
Claim = Guarantee | Profile

EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
_LIGHT = 1e-8
"""Cells lighter than this are left out of log-ratios: their mass is no longer accurate to many digits."""
_JOINT = 1500
"""Cells a coordinate where several are joined."""


def loss_audit(
    claimed: float | None, found: float | None, claimed_deltas: Sequence[float], found_deltas: Sequence[float]
) -> Audit:
    """A claimed beside a computed loss.

    Parameters
    ----------
    claimed, found
        The pure claim and the largest log-ratio; None where no pure claim is made.
    claimed_deltas, found_deltas
        The claimed and the computed δ at each of `EPSILONS`.
    """
    # Cells are masses in double precision: 1e-9 is far above their rounding, and far below what anybody would notice.
    beyond = [a for a, b in zip(found_deltas, claimed_deltas, strict=True) if a > b + 1e-9]
    pure = claimed is not None and not (found is not None and found <= claimed * (1 + 1e-6) + 1e-9)
    shares = [a / b for a, b in zip(found_deltas, claimed_deltas, strict=True) if b > 1e-6]
    if claimed and found is not None:
        shares.append(found / claimed)
    reached = max(shares, default=0.0)
    words = (f"δ(1) {claimed_deltas[3]:.4g}", f"δ(1) {found_deltas[3]:.4g}") if claimed_deltas else ("", "")
    if claimed is not None and found is not None:
        words = f"ε {claimed:.6g}", f"ε {found:.6g}"
    findings = (f"{100 * reached:.4g} % of the claim is lost",) if beyond or pure else ()
    measured = {
        "claimed_epsilon": claimed, "found_epsilon": found, "epsilons": list(EPSILONS),
        "claimed_deltas": list(claimed_deltas), "found_deltas": list(found_deltas),
    }  # fmt: skip
    return Audit("exact", "loss", *words, findings, reached, measured)


def audit_exactly(mechanism: Mechanism, sensitivity: Sensitivity, *, truths: Sequence[float] = (0.0,)) -> Audit:
    """Compare a scalar mechanism's claims with the loss between its laws at neighbouring truths.

    Examples
    --------
    >>> from discreet.core.sensitivity import Sensitivity
    >>> from discreet.mechanisms import Laplace
    >>> audit = audit_exactly(Laplace(1.0), Sensitivity(l1=1.0))
    >>> audit.passed, round(audit.reached, 3)
    (True, 1.0)
    """
    shift = sensitivity.l1 if sensitivity.l1 is not None else sensitivity.require_l2()
    pairs = [(t, t + s) for t in truths for s in (shift, -shift, shift / 2, -shift / 2)]
    laws = [[(mechanism.law(a), mechanism.law(b))] for a, b in pairs]
    return audit_laws(mechanism.profile(sensitivity), laws)


def audit_laws(claim: Claim, pairs: Iterable[Sequence[tuple[Law, Law]]]) -> Audit:
    """Compare a claim with the loss between neighbours whose outputs are independent scalars.

    Parameters
    ----------
    claim
        A guarantee, or a profile: the composed one for a pipeline.
    pairs
        For each pair of neighbours the laws of every output that they change, on the one and on the other.

    Examples
    --------
    >>> from discreet import PureDP
    >>> from discreet.mechanisms import Laplace
    >>> one = Laplace(2.0).law(0.0), Laplace(2.0).law(1.0)
    >>> round(audit_laws(PureDP(1.0), [[one, one]]).reached, 3)
    1.0
    """
    return audit_cells(claim, [joined([law_cells(a, b) for a, b in pair]) for pair in pairs])


def audit_choices(claim: Claim, pairs: Iterable[tuple[Array, Array]]) -> Audit:
    """Compare a claim with the loss between two sets of outcome probabilities, both ways round."""
    return audit_cells(claim, [Cells(np.asarray(p, float), np.asarray(q, float), light=0.0) for p, q in pairs])


def audit_cells(claim: Claim, neighbours: Sequence[Cells]) -> Audit:
    """Compare a claim with the worst of some neighbours' losses."""
    claimed = _pure(claim)
    losses = [cells.loss(EPSILONS) for cells in neighbours]
    return loss_audit(
        claimed,
        None if claimed is None else max(ratio for ratio, _ in losses),
        tuple(float(claim.delta_at(epsilon)) for epsilon in EPSILONS),
        tuple(float(delta) for delta in np.max([deltas for _, deltas in losses], axis=0)),
    )


def _pure(claim: Claim) -> float | None:
    if isinstance(claim, Guarantee):
        epsilon = float(claim.epsilon_at(0.0))
        return epsilon if math.isfinite(epsilon) else None
    try:
        return claim.pure().epsilon
    except NoConversion:
        return None


@dataclass(frozen=True)
class Cells:
    """Probabilities of the same outcomes on two neighbours.

    A cell may hold many outputs: then it is an event, and what is found is a lower bound on the true loss (data
    processing) that converges to it as cells shrink. Cells lighter than ``light`` do not count for log-ratios.
    """

    p: Array
    q: Array
    light: float = _LIGHT

    def ratios(self) -> tuple[float, float]:
        """Largest log-ratio, one way round and the other."""
        p, q = self.p, self.q
        heavy = (p > self.light) & (q > self.light)
        impossible = ((p > self.light) & (q <= 0)) | ((q > self.light) & (p <= 0))
        if impossible.any() or not heavy.any():
            return math.inf, math.inf
        logs = np.log(p[heavy] / q[heavy])
        return float(logs.max()), float(-logs.min())

    def loss(self, epsilons: Sequence[float]) -> tuple[float, Array]:
        """Largest log-ratio and δ(ε) for every ε ≥ 0, both ways round."""
        # Other cells than those that are likelier add nothing, at any ε.
        ways = [(a[~(a <= b)], b[~(a <= b)]) for a, b in ((self.p, self.q), (self.q, self.p))]
        deltas = [max(np.maximum(a - math.exp(e) * b, 0).sum() for a, b in ways) for e in epsilons]
        return max(self.ratios()), np.array(deltas)

    def merged(self, most: int) -> Cells:
        """At most so many cells: those of nearly the same ratio become one."""
        if self.p.size <= most:
            return self
        with np.errstate(divide="ignore", invalid="ignore"):
            order = np.argsort(np.log(self.p) - np.log(self.q), kind="stable")
        p, q = self.p[order], self.q[order]
        place = np.minimum((np.cumsum(p + q) / 2 * most).astype(np.int64), most - 1)
        starts = np.unique(np.concatenate([[0], np.searchsorted(place, np.arange(1, most)), [1, 2, p.size - 2]]))
        return Cells(np.add.reduceat(p, starts), np.add.reduceat(q, starts), self.light)


def joined(parts: Sequence[Cells]) -> Cells:
    """Independent outputs together."""
    joint = parts[0]
    for part in parts[1:]:
        small, other = joint.merged(_JOINT), part.merged(_JOINT)
        p = np.outer(small.p, other.p).ravel()
        q = np.outer(small.q, other.q).ravel()
        joint = Cells(p, q, light=min(_LIGHT, 1e-12))
    return joint


def exact_loss(first: Law, second: Law, epsilons: Sequence[float] = EPSILONS) -> tuple[float, Array]:
    """Largest log-ratio and δ(ε) between two scalar laws, from their distribution functions alone."""
    return law_cells(first, second).loss(epsilons)


def law_cells(first: Law, second: Law) -> Cells:
    """The line, cut into cells at quantiles of both laws."""
    edges = _edges(first, second)
    p, q = (np.diff(np.concatenate([[0.0], np.asarray(law.cdf(edges)), [1.0]])) for law in (first, second))
    return Cells(p, q)


def _edges(first: Law, second: Law) -> Array:
    levels = np.linspace(0.0, 1.0, 20_001)[1:-1]
    tails = np.logspace(-7, -4, 200)
    spread = np.concatenate([levels, tails, 1 - tails])
    parts = [np.asarray(law.quantile(spread)) for law in (first, second)]
    for law in (first, second):
        bounds = [float(np.asarray(end)) for end in law.support if np.isfinite(end)]
        # Mass may sit on a bound itself, so each finite bound gets a cell of its own.
        parts.append(np.array([edge for end in bounds for edge in (math.nextafter(end, -math.inf), end)]))
    return np.unique(np.concatenate(parts))


# ---- Exhaustive audit: every pair of neighbours on a finite grid, in interval arithmetic.
#
# The laws are written down here again, from their formulas, in balls of 2048 bits: nothing is shared with the code
# under audit but the scale (or factor) that it calibrated. For every pair of truths within Δ of each other and every
# cell of outputs the check is p ≤ e^ε·q. A ball decides for certain; only exact equality stays undecided, and counts
# as held where the difference is certainly below 2⁻²⁰⁰ of the probability.


_BITS = 2048
_EQUAL = 200
_CELLS = 24

Masses = list[arb]
_Tally = dict[str, float]
"""How many comparisons were made, and the largest share of a claimed ε that was reached."""


def audit_exhaustively(sets: int = 1200, *, seed: int = 1) -> Audit:
    """Check random parameter sets of every mechanism whose law has a closed form.

    Examples
    --------
    >>> audit_exhaustively(20).passed
    True
    """
    rng = np.random.default_rng(seed)
    tally = {"comparisons": 0.0, "tightest": 0.0}
    counted = dict.fromkeys(_CHECKS, 0)
    violations = list[str]()
    shares = {"laplace": 8, "bounded": 8, "inflated": 3, "gaussian": 2, "exponential": 2, "permute_and_flip": 1}
    kinds = [kind for kind, share in shares.items() for _ in range(share)]
    with precisely(_BITS):
        for number in range(sets):
            kind = kinds[number % len(kinds)]
            epsilon = float(np.round(10 ** rng.uniform(-2, 1.2), 3))
            delta = float(np.round(10 ** rng.uniform(-3, 2), 4))
            width = delta * float(np.round(10 ** rng.uniform(0.05, 2), 2))
            found = _CHECKS[kind](epsilon, delta, width, tally)
            violations += [f"{kind}, ε {epsilon}, Δ {delta}: {what}" for what in found]
            counted[kind] += 1
    compared = f"{tally['comparisons']:,.0f} comparisons"
    measured = {"sets": counted, "comparisons": tally["comparisons"]}
    name = f"{sets:,} parameter sets"
    return Audit("exhaustive", name, "p ≤ e^ε·q", compared, tuple(violations), tally["tightest"], measured)


def cells_hold(p: Masses, q: Masses, factor: arb) -> tuple[bool, float]:
    """True where p ≤ factor·q for certain in every cell, but for exact equality; and the largest log-ratio."""
    largest = 0.0
    for a, b in zip(p, q, strict=True):
        excess, equal = a - factor * b, abs(a) * arb(2) ** -_EQUAL
        if not excess <= equal:  # certain, or too close to tell: neither may pass
            return False, math.inf
        ratio = float((a / b).log().mid()) if a > 0 and b > 0 else 0.0
        largest = max(largest, ratio)
    return True, largest


def _compared(
    masses: Sequence[Masses], near: Callable[[int, int], bool], epsilon: float, tally: _Tally
) -> Iterator[str]:
    factor = ball(decimal(epsilon)).exp()
    for i, j in product(range(len(masses)), repeat=2):
        if i == j or not near(i, j):
            continue
        held, reached = cells_hold(masses[i], masses[j], factor)
        tally["comparisons"] += len(masses[i])
        tally["tightest"] = max(tally["tightest"], reached / epsilon)
        if not held:
            yield f"truths {i} and {j}"


# ---- laws of one number -------------------------------------------------------------------------------------------


def _below(x: arb, truth: arb, scale: arb) -> arb:
    """Laplace distribution function."""
    if x <= truth:
        return ((x - truth) / scale).exp() / 2
    return 1 - ((truth - x) / scale).exp() / 2


def laplace_masses(truth: Fraction, scale: float, edges: Sequence[Fraction], *, inside: bool) -> Masses:
    """Masses of a Laplace law between edges; with both tails, or ``inside`` the outer edges and normalised."""
    centre, spread = ball(truth), ball(Fraction(scale))
    below = [_below(ball(edge), centre, spread) for edge in edges]
    between = [b - a for a, b in pairwise(below)]
    if not inside:
        return [below[0], *between, 1 - below[-1]]
    whole = below[-1] - below[0]
    return [mass / whole for mass in between]


def _laplace(epsilon: float, delta: float, width: float, tally: _Tally) -> Iterator[str]:
    scale = Laplace.calibrate(PureDP(epsilon), Sensitivity(l1=delta)).scale
    step, spread = Fraction(delta) / 2, Fraction(scale)
    truths = [k * step for k in range(5)]
    edges = [truths[2] + (k - _CELLS // 2) * spread / 3 for k in range(_CELLS + 1)]
    masses = [laplace_masses(truth, scale, edges, inside=False) for truth in truths]
    yield from _compared(masses, lambda i, j: abs(i - j) <= 2, epsilon, tally)


def _bounded_setting(delta: float, width: float) -> tuple[list[Fraction], list[Fraction]]:
    """Truths half a Δ apart from end to end of [0, width], and edges with a hair's breadth at both ends."""
    step, end = Fraction(delta) / 2, Fraction(width)
    truths = [k * step for k in range(min(6, int(end / step)))] + [end - k * step for k in range(3)]
    hair = end / 2**60
    edges = sorted({Fraction(0), hair, end - hair, end, *(end * k / _CELLS for k in range(_CELLS + 1))})
    return sorted({truth for truth in truths if truth >= 0}), edges


def _bounded(epsilon: float, delta: float, width: float, tally: _Tally) -> Iterator[str]:
    mechanism = BoundedLaplace.calibrate(PureDP(epsilon), Sensitivity(l1=delta), bounds=(0, width))
    truths, edges = _bounded_setting(delta, width)
    masses = [laplace_masses(truth, mechanism.scale, edges, inside=True) for truth in truths]
    yield from _compared(masses, lambda i, j: abs(truths[i] - truths[j]) <= Fraction(delta), epsilon, tally)


def _inflated(epsilon: float, delta: float, width: float, tally: _Tally) -> Iterator[str]:
    mechanism = BoundaryInflatedLaplace.calibrate(PureDP(epsilon), Sensitivity(l1=delta), bounds=(0, width))
    truths, edges = _bounded_setting(delta, width)
    masses = [laplace_masses(truth, mechanism.scale, edges[1:-1], inside=False) for truth in truths]
    yield from _compared(masses, lambda i, j: abs(truths[i] - truths[j]) <= Fraction(delta), epsilon, tally)


def _gaussian(epsilon: float, delta: float, width: float, tally: _Tally) -> Iterator[str]:
    """δ(ε) of μ-GDP against the sum of what cells exceed e^ε times their neighbour by."""
    mu = epsilon / 2
    scale = Gaussian.calibrate(GaussianDP(mu), Sensitivity(l2=delta)).scale
    spread, shift = ball(Fraction(scale)), ball(Fraction(delta))
    edges = [shift / 2 + spread * ball(Fraction(k - _CELLS, 4)) for k in range(2 * _CELLS + 1)]
    here, there = (_normal_masses([(edge - centre) / spread for edge in edges]) for centre in (arb(0), shift))
    for level in (0.0, mu / 2, mu, 2 * mu):
        factor = ball(decimal(level)).exp()
        excess = sum((a - factor * b for a, b in zip(here, there, strict=True) if a > factor * b), arb(0))
        tally["comparisons"] += len(here)
        if not excess <= ball(decimal(float(GaussianDP(mu).delta_at(level)))):
            yield f"δ at ε = {level}"


def _normal_masses(edges: Sequence[arb]) -> Masses:
    root = arb(2).sqrt()
    below = [(-edge / root).erfc() / 2 for edge in edges]
    return [below[0], *(b - a for a, b in pairwise(below)), 1 - below[-1]]


# ---- choices ------------------------------------------------------------------------------------------------------

_SCORES = tuple(product(range(3), repeat=3))


def _adjacent(i: int, j: int) -> bool:
    return max(abs(a - b) for a, b in zip(_SCORES[i], _SCORES[j], strict=True)) <= 1


def _weights(scores: Sequence[int], factor: arb) -> Masses:
    return [(factor * (score - max(scores))).exp() for score in scores]


def _softmax(scores: Sequence[int], factor: arb) -> Masses:
    weights = _weights(scores, factor)
    whole = sum(weights, arb(0))
    return [weight / whole for weight in weights]


def _flipped(scores: Sequence[int], factor: arb) -> Masses:
    """mckenna2020 for three candidates: p_i·(1 − (p_j + p_k)/2 + p_j·p_k/3)."""
    a, b, c = _weights(scores, factor)
    return [x * (1 - (y + z) / 2 + y * z / 3) for x, y, z in ((a, b, c), (b, a, c), (c, a, b))]


def _chosen(kind: Any, law: Callable[[Sequence[int], arb], Masses]) -> Callable[..., Iterator[str]]:
    def check(epsilon: float, delta: float, width: float, tally: _Tally) -> Iterator[str]:
        mechanism = kind.calibrate(PureDP(epsilon), Sensitivity(moves=(delta,) * 3))
        factor = ball(Fraction(mechanism.factor) * Fraction(delta))
        yield from _compared([law(scores, factor) for scores in _SCORES], _adjacent, epsilon, tally)

    return check


_CHECKS: dict[str, Callable[[float, float, float, _Tally], Iterator[str]]] = {
    "laplace": _laplace, "bounded": _bounded, "inflated": _inflated, "gaussian": _gaussian,
    "exponential": _chosen(ExponentialMechanism, _softmax), "permute_and_flip": _chosen(PermuteAndFlip, _flipped),
}  # fmt: skip


# ---- Sweep: many random pairs of neighbours, and how often the auditor itself is right.


def audit_sweep(pairs: int = 10_000, draws: int = 50_000, *, confidence: float = 0.999, seed: int = 1) -> Audit:
    """Audit random mechanisms at random truths and neighbours.

    Examples
    --------
    >>> audit_sweep(pairs=8, draws=2000).passed
    True
    """
    each = 1 - (1 - confidence) / pairs  # Bonferroni: all bounds hold together
    violations, tightest = [], 0.0
    for name, claim, here, there in _settings(pairs, draws, np.random.default_rng(seed)):
        audit = audit_draws(here, there, claim, confidence=each)
        tightest = max(tightest, audit.reached or 0.0)
        if not audit.passed:
            violations.append(f"{name}: {audit.found} for a claimed {audit.claimed}")
    name, found = f"{pairs:,} pairs × {draws:,} draws", f"{len(violations)} violations"
    return Audit("sweep", name, "none certified", found, tuple(violations), tightest, {"confidence": confidence})


def _settings(pairs: int, draws: int, rng: np.random.Generator) -> Iterator[tuple[str, Guarantee, Any, Any]]:
    for place in range(pairs):
        epsilon = float(np.round(10 ** rng.uniform(-1, 0.8), 2))
        delta = float(np.round(10 ** rng.uniform(-2, 1), 3))
        kind = place % 6
        if kind == 5:
            yield _choice(epsilon, draws, rng)
            continue
        mechanism, claim, low, high = _mechanism(kind, epsilon, delta, rng)
        truth = float(rng.choice([low, rng.uniform(low, high), high - delta]))
        # Mostly whole changes, from which most is learned, and some smaller ones.
        change = delta if rng.random() < 0.8 else delta * float(rng.random())
        sides = [np.asarray(mechanism.law(value).sample(draws)) for value in (truth, truth + change)]
        yield f"{mechanism.name}, ε {epsilon}, Δ {delta}, truth {truth}", claim, sides[0], sides[1]


def _mechanism(
    kind: int, epsilon: float, delta: float, rng: np.random.Generator
) -> tuple[Mechanism, Guarantee, float, float]:
    move = Sensitivity(l1=delta)
    width = delta * float(np.round(rng.uniform(1.5, 12), 1))
    pure = PureDP(epsilon)
    if kind in (0, 1):
        return Laplace.calibrate(pure, move), pure, -width, width
    if kind == 2:
        return Gaussian.calibrate(GaussianDP(epsilon), move), GaussianDP(epsilon), -width, width
    bounded = BoundedLaplace if kind == 3 else BoundaryInflatedLaplace
    return bounded.calibrate(pure, move, bounds=(0, width)), pure, 0.0, width


def _choice(epsilon: float, draws: int, rng: np.random.Generator) -> tuple[str, Guarantee, Any, Any]:
    """Counts of a few categories with one record more in one of them."""
    counts = rng.integers(0, 6, int(rng.integers(2, 8)))
    more = counts.copy()
    more[int(rng.integers(0, counts.size))] += 1
    factor = ExponentialMechanism.calibrate(PureDP(epsilon), Sensitivity(moves=(1.0,))).factor
    sides = [choose(side.astype(float), factor, size=draws) for side in (counts, more)]
    return f"exponential, ε {epsilon}, counts {counts.tolist()}", PureDP(epsilon), sides[0], sides[1]


def audit_power(audits: int = 300, *, true_epsilon: float = 1.05, draws: int = 1_000_000) -> Audit:
    """Audit a Laplace mechanism whose true ε is above the claimed 1, again and again."""
    mechanism = Laplace(1 / true_epsilon)
    here, there = mechanism.law(0.0), mechanism.law(1.0)
    start = time.process_time()
    found = sum(not audit_pair(here.sample, there.sample, PureDP(1.0), draws=draws).passed for _ in range(audits))
    seconds = (time.process_time() - start) / audits
    # 99 times in 100, up to three standard errors of a binomial count, and within a minute.
    enough = found >= 0.99 * audits - 3 * math.sqrt(0.99 * 0.01 * audits) - 1e-9 and seconds < 60
    name, told = f"true ε {true_epsilon:g}, claimed 1", f"{found} of {audits}"
    findings = () if enough else (f"found {told} times, in {seconds:.2f} s each",)
    measured = {"audits": audits, "found": found, "draws": draws, "seconds": seconds}
    return Audit("calibration", name, "≥ 99 % found", told, findings, measured=measured)


def audit_false_alarms(audits: int = 1000, draws: int = 20_000, *, confidence: float = 0.999) -> Audit:
    """Audit mechanisms whose claims hold with equality."""
    alarms = 0
    tight: list[tuple[Mechanism, Guarantee]] = [
        (Laplace(1.0), PureDP(1.0)),
        (Gaussian(1.0), GaussianDP(1.0)),
        (Laplace(0.25), PureDP(4.0)),
    ]
    for place in range(audits):
        mechanism, claim = tight[place % len(tight)]
        here, there = mechanism.law(0.0), mechanism.law(1.0)
        alarms += not audit_pair(here.sample, there.sample, claim, draws=draws, confidence=confidence).passed
    # The expected number, and three times the Monte-Carlo error of a Poisson count.
    expected = audits * (1 - confidence)
    allowed = math.ceil(expected + 3 * math.sqrt(expected))
    name, told = f"false alarms at {100 * confidence:g} %", f"{alarms} of {audits:,}"
    findings = () if alarms <= allowed else ("more alarms than chance allows",)
    return Audit("calibration", name, f"≤ {allowed}", told, findings, measured={"alarms": alarms, "allowed": allowed})
