"""Chosen words: draws from known random words, beside the definition of their laws in 400 bits.

A sampler is right where every draw is the inverse distribution function of its uniform, rounded to the grid. Here
the words are chosen: random ones, and the extremes that random ones never reach. Each draw is computed a second time
from the law's definition; nothing is shared with the sampler but which bit of a word is the sign. The doubles of the
fast path must also be as good as the error bound that they claim, whatever the bits that were not drawn yet.
"""

from __future__ import annotations

import itertools
import math
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np
from flint import arb, ctx, fmpq, fmpz

import discreet.mechanisms as m
from discreet.audit.report import Audit, Compared, recomputed, refused
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.noise.choice import choose, exact_events, noisy_argmax
from discreet.core.noise.sampler import (
    ExponentialFamily,
    GaussianFamily,
    GumbelFamily,
    LaplaceFamily,
    LargestExponentialFamily,
    Location,
    default_grid,
    exact_draws,
)
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.bounded.gaussian import TruncatedGaussianLaw
from discreet.mechanisms.bounded.laplace import TruncatedLaplaceLaw
from discreet.mechanisms.discrete_gaussian import DiscreteGaussianLaw
from discreet.mechanisms.gaussian import GaussianLaw
from discreet.mechanisms.geometric import GeometricLaw
from discreet.mechanisms.laplace import LaplaceLaw
from discreet.mechanisms.staircase import StaircaseLaw, best_plateau
from discreet.mechanisms.tables.margins import MarginsGaussian, MarginsLaplace, Workload
from discreet.testing.mechanisms import check_calibration

_BITS = 400
_FURTHER = 0x9E3779B97F4A7C15
_EXTREME = (0, 1, 2, 3, 2**20, 2**46 - 1, 2**46, 2**47 - 2, 2**47 - 1, 2**47, 2**47 + 1, 2**48 + 1, 2**62,
        2**62 + 1, 2**63 - 2,
            2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2**46 - 1, 2**64 - 2**46, 2**64 - 2**20, 2**64 - 2,
            2**64 - 1)  # fmt: skip
"""Words with few leading bits, at both ends, in the middle, and around the point where doubles give up."""


class ChosenWords:
    """Entropy that hands out known words first and, to draws that ask for more, the same further words."""

    def __init__(self, first: Sequence[int], further: Sequence[int] = (_FURTHER,)) -> None:
        self.first = np.array(first, dtype=np.uint64)
        self.further = list(further)
        self.place = 0

    def words(self, count: int) -> Any:
        """The next of the first words, or the further ones."""
        if (self.place < self.first.size and count != 1) or (self.first.size == 1 and self.place == 0):
            self.place += count
            return self.first[self.place - count : self.place].copy()
        return np.array([self.further[k % len(self.further)] for k in range(count)], dtype=np.uint64)


def audit_chosen_words(draws: int = 150, *, seed: int = 1) -> Audit:
    """Compute draws of every family, race and event a second time."""
    words = [*_EXTREME, *(int(word) for word in np.random.default_rng(seed).integers(0, 2**64, draws, dtype=np.uint64))]
    laws = [partial(_drawn, name, law, oracle, words) for name, law, oracle in _laws()]
    with ctx.workprec(_BITS):
        return recomputed(
            "Noise from chosen words", [*laws, partial(_enclosed, words), partial(_long, seed), partial(_races, seed),
            partial(_choices, seed), _events],
        )  # fmt: skip


# ---- laws from their definitions ------------------------------------------------------------------------------------


def _exact(number: float | Fraction) -> arb:
    ratio = Fraction(number)
    return arb(fmpq(ratio.numerator, ratio.denominator))


def _uniform(word: int, bits: int = 64, further: int = _FURTHER) -> arb:
    """The leading bits of a word and then the further words, as a number between 0 and 1."""
    tail = int("".join(f"{further:064b}" for _ in range(4)), 2)
    return arb(fmpz(((word >> (64 - bits)) << 256) | tail)) * arb(2) ** -(bits + 256)


def _sign(word: int) -> int:
    return -1 if word & 1 else 1


def _laplace(word: int, scale: float, **_: Any) -> arb:
    return -_sign(word) * _exact(scale) * _uniform(word, 63).log()


def _gaussian(word: int, scale: float, **_: Any) -> arb:
    return _sign(word) * _exact(scale) * arb(2).sqrt() * _uniform(word, 63).erfcinv()


def _exponential(word: int, scale: float, **_: Any) -> arb:
    return -_exact(scale) * _uniform(word).log()


def _gumbel(word: int, scale: float, **_: Any) -> arb:
    return -_exact(scale) * (-(1 - _uniform(word)).log()).log()


def _truncated(word: int, scale: float, truth: Any, lower: float, upper: float) -> arb:
    """From the distribution function of the law itself: F(x) = U, with exponentials of the two sides."""
    left = arb(0) if math.isinf(lower) else ((_exact(lower) - _exact(truth)) / _exact(scale)).exp()
    right = arb(0) if math.isinf(upper) else ((_exact(truth) - _exact(upper)) / _exact(scale)).exp()
    height = _uniform(word) * (2 - left - right) + left
    return _exact(scale) * (height.log() if height < 1 else -(2 - height).log())


def _truncated_normal(word: int, scale: float, truth: Any, lower: float, upper: float) -> arb:
    """From the nearer tail: with Q the upper tail of the normal law, Q((x − c)/σ) = Q(a) − U·(Q(a) − Q(b))."""
    width = _exact(scale) * arb(2).sqrt()
    first, last = (
        arb(1 - sign) if math.isinf(end) else ((_exact(end) - _exact(truth)) / width).erfc()
        for end, sign in ((lower, -1), (upper, 1))
    )
    return width * (first - _uniform(word) * (first - last)).erfcinv()


def _geometric(word: int, scale: float, **_: Any) -> arb:
    """The whole number m with P(≥ m + 1) < U ≤ P(≥ m), where P(≥ m) = 2e^{−m/b}/(1 + e^{−1/b}) for m ≥ 1."""
    b, u = _exact(scale), _uniform(word, 63)
    size = (-b * (u * (1 + (-1 / b).exp()) / 2).log()).floor()
    return _sign(word) * (size if size > 0 else arb(0))


@cache
def _discrete_tails(scale: float) -> list[arb]:
    """P(≥ m) of the size of a draw, for m = 1, 2, …: sums of e^{−k²/2σ²}, term by term."""
    weights = [(-_exact(Fraction(k * k) / (2 * Fraction(scale) ** 2))).exp() for k in range(math.ceil(60 * scale) + 1)]
    total = weights[0] + 2 * sum(weights[1:], arb(0))
    return list(itertools.accumulate(2 * weight / total for weight in weights[:0:-1]))[::-1]


def _staircase(word: int, scale: float, period: float, plateau: float, **_: Any) -> arb:
    """The distance beyond which U of the mass lies, step by step from the middle."""
    b = (-_exact(Fraction(period) / Fraction(scale))).exp()
    width, least = _exact(period), _uniform(word, 63)
    height = 1 / (width * (_exact(plateau) + b / (1 - b)))  # of both sides together
    edge, beyond = _exact(plateau) * width, 1 - _exact(plateau) * width * height
    while not least > beyond:
        height *= b
        edge, beyond = edge + width, beyond - width * height
    return _sign(word) * (edge - (least - beyond) / height)


def _discrete_gaussian(word: int, scale: float, **_: Any) -> arb:
    """The whole number m with P(≥ m + 1) ≤ U < P(≥ m)."""
    u = _uniform(word, 63)
    return _sign(word) * arb(sum(1 for _ in itertools.takewhile(lambda tail: u < tail, _discrete_tails(scale))))


_Oracle = Callable[..., arb]
_TRUTHS: tuple[Any, ...] = (
    0.0, -2.0, 0.3, 1e-9, 123456789.123, Fraction(1, 3), 2**53 + 1, Fraction(10**20, 7), -(2.0**70),
)  # fmt: skip


def _laws() -> Iterator[tuple[str, Callable[[int], Any], _Oracle]]:
    """Names, laws of n draws (with their parameters), and oracles."""
    kinds = (
        (LaplaceLaw, _laplace, 1000.0),
        (GaussianLaw, _gaussian, 1000.0),
        (GeometricLaw, _geometric, 1000.0),
        (DiscreteGaussianLaw, _discrete_gaussian, 70.0),
    )
    for number, truth in enumerate(_TRUTHS):
        for kind, oracle, largest in kinds:
            scale = (1.7, 0.01, 12.0, largest, 0.5)[number % 5]
            yield f"{kind.__name__} around {truth}", partial(_law, kind, truth, scale), oracle
    for kind, oracle, largest in kinds:  # and at parameters that nobody chose, with all of their 53 bits
        for truth, scale in zip(_any_numbers(2, 1e6), _any_numbers(2, min(largest, 20.0)), strict=True):
            yield f"{kind.__name__} around {truth}, scale {scale}", partial(_law, kind, truth, scale), oracle
    for truth, scale, period in ((0.0, 0.2, 1.0), (Fraction(1, 3), 40.0, 100.0), (123456789.123, 7.0, 3.0)):
        made = partial(_law, StaircaseLaw, truth, scale, period=period, plateau=best_plateau(period / scale))
        yield f"StaircaseLaw around {truth}, scale {scale}", made, _staircase
    for truth, scale, lower, upper in (
        *zip(_any_numbers(2, 1.0), _any_numbers(2, 3.0), (0.0, -1.0), (1.0, 1.5), strict=True),
        (0.3, 0.1, 0.0, 1.0), (0.01, 4000.0, 0.0, 1.0), (2.0, 0.7, 2.0, 5.0), (5.0, 0.02, 2.0, 5.0),
        (Fraction(1, 3), 0.5, 0.0, 0.7),
        (Fraction(2, 3), 90.0, -0.1, 1.0), (1.5, 0.25, -math.inf, 2.0), (1.5, 3.0, 1.0, math.inf),
        (40.0, 1.0, 0.0, 63.9),
        (40.0, 1.0, 0.0, 300.0), (Fraction(7, 3), 1.0, 0.0, math.inf),
    ):  # fmt: skip
        law = partial(_law, TruncatedLaplaceLaw, truth, scale, lower=lower, upper=upper)
        yield f"TruncatedLaplaceLaw around {truth} in [{lower}, {upper}]", law, _truncated
        law = partial(_law, TruncatedGaussianLaw, truth, scale, lower=lower, upper=upper)
        yield f"TruncatedGaussianLaw around {truth} in [{lower}, {upper}]", law, _truncated_normal
    for family, oracle in ((ExponentialFamily, _exponential), (GumbelFamily, _gumbel)):
        for truth, scale in (
            (-2.0, 3.3),
            (Fraction(1, 7), 0.5),
            *zip(_any_numbers(1, 9.0), _any_numbers(1, 9.0), strict=True),
        ):
            yield f"{family.__name__} around {truth}", partial(_raced, family, truth, scale), oracle


def _any_numbers(count: int, largest: float) -> list[float]:
    """Positive numbers of 53 bits, other ones in every run: a parameter that is rounded anywhere changes a draw."""
    return [largest * (1 + secrets.randbits(53)) * 2.0**-53 for _ in range(count)]


def _law(kind: Any, truth: Any, scale: float, count: int, **bounds: float) -> Any:
    dtype = float if isinstance(truth, float) else object
    return kind(np.full(count, truth, dtype=dtype), scale, **bounds), {"truth": truth, "scale": scale, **bounds}


class _RacedLaw:
    """Draws of a family that only races use: around a location, rounded to a grid."""

    def __init__(self, family: Any, location: Location, scale: float) -> None:
        self.grid = default_grid(np.asarray(scale))
        self.family = family(np.asarray(scale), np.asarray(scale) / self.grid)
        self.at = location

    def sample(self, *, entropy: Any) -> Any:
        return exact_draws(self.family, self.at, self.grid, entropy)


def _raced(family: Any, truth: Any, scale: float, count: int) -> Any:
    return _RacedLaw(family, Location(np.full(count, truth, dtype=object)), scale), {"truth": truth, "scale": scale}


# ---- comparisons ----------------------------------------------------------------------------------------------------


def _rounded(value: arb, truth: Any, grid: float) -> float:
    """Truth plus noise on the grid, halves up, as the nearest float."""
    cell = (value / _exact(grid) + _exact(Fraction(truth) / Fraction(grid)) + arb(1) / 2).floor().unique_fmpz()
    if cell is None:
        raise ArithmeticError("the oracle needs more bits")
    return float(int(cell) * Fraction(grid))


def _drawn(name: str, law: Callable[[int], Any], oracle: _Oracle, words: Sequence[int]) -> Iterator[Compared]:
    made, facts = law(len(words))
    grid = float(made.grid)
    drawn = np.asarray(made.sample(entropy=ChosenWords(words))).tolist()
    for word, draw in zip(words, drawn, strict=True):
        wanted = _rounded(oracle(word, **facts), facts["truth"], grid)
        wanted = min(max(wanted, facts.get("lower", -math.inf)), facts.get("upper", math.inf))
        yield f"{name}: a draw is not the law's", draw == wanted


def _long(seed: int) -> Iterator[Compared]:
    """More draws than one pass takes, with a scale and a grid for each of them."""
    count = 8192 + 40
    words = np.random.default_rng(seed).integers(0, 2**64, count, dtype=np.uint64).tolist()
    truths = np.linspace(-3, 3, count)
    scales = np.linspace(0.1, 40, count)
    for truth in (truths, np.array([Fraction(float(one)) for one in truths], dtype=object)):
        law = LaplaceLaw(truth, scales)
        entropy = ChosenWords(words, [_FURTHER])
        drawn = np.asarray(law.sample(entropy=entropy))
        yield "draws of one pass use the words of another", entropy.place == count
        for place in (0, 1, 8190, 8191, 8192, 8193, count - 1):
            wanted = _rounded(_laplace(words[place], float(scales[place])), truth[place], float(law.grid[place]))
            yield "a long row of draws differs from single ones", drawn[place] == wanted


def _enclosed(words: Sequence[int]) -> Iterator[Compared]:
    """The doubles are within their own error bound of everything that the bits beyond the first 64 can make of them."""
    count = len(words)
    array, cells = np.array(words, dtype=np.uint64), 2.0**20
    truths = Location(np.full(count, 0.3))
    bounds = (np.asarray(0.0), np.asarray(1.0))
    # The last has a scale for each draw, small where words are extreme: the bound of a chunk must be that of its worst.
    for scale in (np.asarray(1.0), np.asarray(0.3), np.asarray(700.0), np.geomspace(0.01, 900.0, count)):
        sizes = scale, scale * cells
        made: dict[str, Any] = {
            kind.__name__: kind(*sizes) for kind in (LaplaceFamily, GaussianFamily, ExponentialFamily, GumbelFamily)
        }
        made["TruncatedLaplaceFamily"] = TruncatedLaplaceLaw(
            np.full(count, 0.3), scale, *map(float, bounds), grid=2.0**-20
        )._family(truths, sizes[0], np.asarray(2.0**-20), (count,))
        made["TruncatedGaussianFamily"] = TruncatedGaussianLaw(
            np.full(count, 0.3), scale, *map(float, bounds), grid=2.0**-20
        )._family(truths, sizes[0], np.asarray(2.0**-20), (count,))
        made["GeometricFamily"] = GeometricLaw(np.zeros(count), scale)._family(
            truths, sizes[0], np.asarray(1.0), (count,)
        )
        made["LargestExponentialFamily"] = LargestExponentialFamily(np.geomspace(1, 2.0**40, count).round())
        for name, family in made.items():
            per_unit = 1.0 if name in ("GeometricFamily", "LargestExponentialFamily") else cells
            with np.errstate(all="ignore"):
                fast, error = family.fast(array, slice(0, count))
            for place, (noise, doubt) in enumerate(
                zip(fast.tolist(), np.broadcast_to(error, count).tolist(), strict=True)
            ):
                if math.isfinite(noise) and math.isfinite(doubt):
                    gap = abs(family.enclose(place, words[place], 64) * _exact(per_unit) - _exact(noise))
                    # Where 64 bits leave the noise without an end, the bound must make the draw take more of them.
                    held = gap <= _exact(doubt) if gap.is_finite() else doubt > 1
                    yield f"{name}: doubles are further off than their bound", bool(held)
    yield from _largest(words)


def _largest(words: Sequence[int]) -> Iterator[Compared]:
    """The largest of m exponentials, from the m-th root of its distribution function: in the ball, which is thin."""
    counts = np.geomspace(1, 2.0**40, len(words)).round()
    family = LargestExponentialFamily(counts)
    for place, (word, count) in enumerate(zip(words, counts.tolist(), strict=True)):
        for further in (0, 2**63, 2**64 - 1):
            uniform = arb(fmpz(((word << 64) | further) * 2 + 1)) * arb(2) ** -129
            wanted = -(1 - (1 - uniform) ** (1 / arb(int(count)))).log()
            found = family.enclose(place, (word << 64) | further, 128)
            thin = not 2**20 < word < 2**64 - 2**20 or bool(found.rad() < arb(2) ** -30)
            yield "the largest of several exponentials", bool(found.overlaps(wanted)) and thin


def _close_races(oracles: Mapping[Any, _Oracle]) -> Iterator[Compared]:
    """Two candidates that a millionth of the scale sets apart, at scales of 53 bits: one that is rounded loses some."""
    for family, oracle in oracles.items():
        for scale in _any_numbers(6, 20.0):
            words = [secrets.randbits(64) for _ in range(2)]
            first, second = (oracle(word, scale) for word in words)
            for winner, lead in ((0, -scale), (1, scale)):
                behind = Fraction(float((first - second).mid())) + Fraction(lead) / 10**6
                found = noisy_argmax([Fraction(0), behind], family, scale, entropy=ChosenWords(words))
                yield f"{family.__name__}: another candidate won by little", found == winner


def _races(seed: int) -> Iterator[Compared]:
    """The candidate whose score plus noise is largest, with ties that only further words decide."""
    rng = np.random.default_rng(seed)
    oracles: dict[Any, _Oracle] = {
        LaplaceFamily: _laplace, GumbelFamily: _gumbel, ExponentialFamily: _exponential, GaussianFamily: _gaussian,
    }  # fmt: skip
    for number in range(240):
        family, oracle = list(oracles.items())[number % 4]
        scale = float(rng.choice([0.25, 1.0, 3.0]))
        scores = [Fraction(int(rng.integers(-3, 4)), int(rng.choice([1, 3]))) for _ in range(int(rng.integers(2, 6)))]
        words = [int(word) for word in rng.integers(0, 2**64, len(scores), dtype=np.uint64)]
        if number % 3 == 0:
            words[0] = int(rng.choice(_EXTREME[2:-2]))
        totals = [_exact(score) + oracle(word, scale) for score, word in zip(scores, words, strict=True)]
        best = max(range(len(scores)), key=lambda place: float(totals[place].mid()))
        found = noisy_argmax(scores, family, scale, entropy=ChosenWords(words))
        yield f"{family.__name__}: another candidate won", found == best
    yield from _close_races(oracles)
    ties: tuple[tuple[Any, list[int], int], ...] = (
        (GumbelFamily, [5, 2**63, 7], 0),
        (LaplaceFamily, [2**63, 5, 2**62], 1),
        (GaussianFamily, [9, 8, 2**62], 1),
    )
    for family, further, best in ties:
        found = noisy_argmax([Fraction(1)] * 3, family, 1.0, entropy=ChosenWords([2**61, 2**61, 2**61], further))
        yield f"{family.__name__}: a tie was not decided by further words", found == best


def _choices(seed: int) -> Iterator[Compared]:
    """The winner of ``factor·score + ln multiplicity − ln(−ln U)``."""
    rng = np.random.default_rng(seed)
    for number in range(200):
        size = int(rng.integers(2, 7))
        scores = rng.integers(-4, 5, size).astype(float) * (1.0 if number % 2 else 0.37)
        if number % 5 == 0:
            scores[int(rng.integers(0, size))] = -math.inf
            scores[0] = 1.0
        factor = Fraction(int(rng.integers(1, 9)), 3)
        counts = [int(count) for count in rng.integers(0, 5, size)] if number % 3 == 0 else None
        if counts is not None:
            counts[0] = 2
        runs = [
            place for place in range(size) if math.isfinite(scores[place]) and (counts is None or counts[place] > 0)
        ]
        words = [int(word) for word in rng.integers(0, 2**64, max(len(runs), 2), dtype=np.uint64)][: len(runs)]
        if number % 4 == 0 and len(runs) > 1:
            words[0] = int(rng.choice(_EXTREME[2:-2]))
        totals = {
            place: _exact(factor * Fraction(float(scores[place])))
            + (arb(0) if counts is None else arb(counts[place]).log())
            - (-_uniform(word).log()).log()
            for place, word in zip(runs, words, strict=True)
        }
        best = max(totals, key=lambda place: float(totals[place].mid()))
        found = choose(scores, factor, multiplicity=counts, entropy=ChosenWords(words))
        yield "another candidate was chosen", found == best
    # A word of three: what its further bits say decides, though doubles see a clear winner.
    for further, winner in ((1, 1), (2**64 - 2, 0)):
        found = choose([0.0, -4.13], entropy=ChosenWords([3, 2**63], [further]))
        yield "a candidate with few bits was decided without further words", found == winner
    tied = choose([0.0, 0.0, 0.0], entropy=ChosenWords([2**61] * 3, [5, 2**63, 7]))
    yield "a tied choice was not decided by further words", tied == 1
    many = choose(
        [0.0, 1.0, -1.0], size=50_000, entropy=ChosenWords(rng.integers(0, 2**64, 150_100, dtype=np.uint64).tolist())
    )
    yield "many choices are not as many as asked for", np.shape(many) == (50_000,)


def _chance(chance: Fraction, _: int) -> arb:
    return _exact(chance)


def _events() -> Iterator[Compared]:
    """Events with U below, at and above their probability, down to the last bit of the first word and beyond."""
    for chance in (Fraction(1, 3), Fraction(1, 2), Fraction(1, 1000), Fraction(999, 1000)):
        middle = math.floor(chance * 2**64)
        words = [max(middle + move, 0) for move in (-(2**40), -4096, -1, 0, 1, 4096, 2**40)]
        for further in (1, _FURTHER, 2**64 - 2):
            entropy = ChosenWords(words, [further])
            found = exact_events(
                np.full(len(words), float(chance)), 2.0**-50, partial(_chance, chance), entropy=entropy
            )
            wanted = [bool(_uniform(word, further=further) < _exact(chance)) for word in words]
            yield "an event happened against its probability", found.tolist() == wanted
    sure = exact_events(np.array([0.0, 1.0]), 0.0, lambda index: arb(index), entropy=ChosenWords([0, 2**64 - 1]))
    yield "a certain event did not happen, or an impossible one did", sure.tolist() == [False, True]


# ---- Calibrations: every mechanism, calibrated to every kind of guarantee, meets it and wastes less than 1 %.
#
# The door verifies each claim against a mechanism's profile, so a search that goes wrong cannot break a guarantee; it
# could waste noise or refuse what is possible. Where a closed form exists, the scale must be the very float above it.
# Chances of choices are computed a second time from their definitions.


_PURE, _APPROXIMATE = PureDP(0.7), ApproxDP(0.7, 0.01)
_CONCENTRATED = ZeroConcentratedDP(0.3)
_GAUSSIAN = GaussianDP(0.6)
_EVERY: tuple[Guarantee, ...] = (
    _PURE, PureDP(0.1), PureDP(5.0), _APPROXIMATE, ApproxDP(2.0, 1e-6), _CONCENTRATED, _GAUSSIAN,
)  # fmt: skip
_NORMAL: tuple[Guarantee, ...] = (
    _APPROXIMATE, ApproxDP(2.0, 1e-6), ApproxDP(0.1, 0.2), _CONCENTRATED, ZeroConcentratedDP(4.0), _GAUSSIAN,
)  # fmt: skip
_ONE = Sensitivity(l1=1.0)
_TWO = Sensitivity(moves=(1.0, 1.0))
_THREE = Sensitivity(moves=(3.0, 0.5))


def audit_calibrations() -> Audit:
    """Calibrate every mechanism to every kind of guarantee."""
    every = [partial(_calibrated, *case) for case in _cases()]
    return recomputed("Calibrations", [*every, _closed_forms, _weights, _groups, _tables, _refusals])


def _cases() -> Iterator[tuple[Any, tuple[Guarantee, ...], Sensitivity, dict[str, Any]]]:
    for sensitivity in (_ONE, _TWO, _THREE, Sensitivity(l1=0.3)):
        yield m.Laplace, _EVERY, sensitivity, {}
    for sensitivity in (_ONE, _TWO, Sensitivity(l2=0.3)):
        yield m.Gaussian, _NORMAL, sensitivity, {}
    for sensitivity in (Sensitivity(linf=0.3, dimension=7), Sensitivity(coordinates=(1.0, 0.5))):
        yield m.BoxNoise, _EVERY, sensitivity, {}
    yield m.BoxNoise, _EVERY, Sensitivity(l1=0.3, dimension=2), {"in_boxes_of": 5}
    for sensitivity in (_ONE, Sensitivity(moves=(2.0,)), _TWO):
        yield m.Geometric, (_PURE, PureDP(2.0), _APPROXIMATE, _CONCENTRATED, _GAUSSIAN), sensitivity, {}
    for sensitivity in (_ONE, Sensitivity(moves=(2.0,)), _TWO, Sensitivity(l1=3.0, l2=2.5, dimension=9)):
        yield m.DiscreteGaussian, (_CONCENTRATED, ZeroConcentratedDP(3.0)), sensitivity, {}
    yield m.DiscreteGaussian, (_APPROXIMATE,), _ONE, {}
    for sensitivity in (_ONE, Sensitivity(moves=(2.0,)), Sensitivity(l1=0.3)):
        yield m.Staircase, (_PURE, PureDP(6.0), _APPROXIMATE, _CONCENTRATED, _GAUSSIAN), sensitivity, {}
    for bounds in ((0.0, 2.0), (-1.0, 40.0), (0.0, math.inf)):
        yield m.BoundedLaplace, (_PURE, PureDP(3.0), _APPROXIMATE), Sensitivity(l1=0.5), {"bounds": bounds}
        yield m.BoundaryInflatedLaplace, (_PURE, PureDP(3.0)), Sensitivity(l1=0.5), {"bounds": bounds}
        yield m.BoundedGaussian, (_CONCENTRATED, _GAUSSIAN, _APPROXIMATE), Sensitivity(l2=0.5), {"bounds": bounds}
    yield m.BoundedLaplace, (_CONCENTRATED, _GAUSSIAN), Sensitivity(l1=0.5), {"bounds": (0.0, 2.0)}
    for kind in (m.RankDeficientGaussian, m.JamesSteinGaussian, m.Clipped):
        yield kind, _NORMAL, _TWO, {}
    yield m.Clipped, (_PURE, _APPROXIMATE), _TWO, {"kind": m.Laplace}


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
            ("Laplace", m.Laplace.calibrate(PureDP(parameter), Sensitivity(l1=size)).scale),
            ("box noise", m.BoxNoise.calibrate(PureDP(parameter), Sensitivity(linf=size, dimension=4)).scale),
            ("Gaussian", m.Gaussian.calibrate(GaussianDP(parameter), Sensitivity(l2=size)).scale),
        ):
            yield f"the scale of {name}", exact <= Fraction(scale) <= exact * (1 + Fraction(1, 2**51))
        rho = m.Gaussian.calibrate(ZeroConcentratedDP(parameter), Sensitivity(l2=size)).scale
        square = Fraction(size) ** 2 / (2 * Fraction(repr(parameter)))
        yield "the scale at ρ", square <= Fraction(rho) ** 2 <= square * (1 + Fraction(1, 2**50))
        whole_rho = m.DiscreteGaussian.calibrate(ZeroConcentratedDP(parameter), Sensitivity(moves=(size,))).scale
        square = Fraction(math.ceil(size)) ** 2 / (2 * Fraction(repr(parameter)))
        yield "the scale of whole noise at ρ", square <= Fraction(whole_rho) ** 2 <= square * (1 + Fraction(1, 2**50))
    whole = m.Geometric.calibrate(PureDP(0.5), Sensitivity(l1=2.0)).scale
    yield "the scale of whole noise", 4.0 <= whole <= 4.0000001
    both = m.Laplace.calibrate(PureDP(0.5), _TWO).scale
    yield "the scale of two moves", 4.0 <= both <= 4.0000001


def _weights() -> Iterator[Compared]:
    """Chances of choices, from their definitions."""
    for kind, guarantee, moves in itertools.product(
        (m.ExponentialMechanism, m.PermuteAndFlip), (_PURE, PureDP(3.0)), ((1.0,), (1.0, 1.0), (2.0, 1.0, 1.0))
    ):
        sensitivity = Sensitivity(moves=moves)
        made: Any = kind.calibrate(guarantee, sensitivity)
        yield f"{kind.__name__} keeps its guarantee", made.profile(sensitivity).within(guarantee)
        scores = np.array([0.0, 1.0, 2.5])
        weights = np.exp(float(made.factor) * (scores - scores.max()))
        if kind is m.ExponentialMechanism:
            wanted = weights / weights.sum()
        else:
            a, b, c = weights
            wanted = np.array([x * (1 - (y + z) / 2 + y * z / 3) for x, y, z in ((a, b, c), (b, a, c), (c, a, b))])
        yield f"chances of {kind.__name__}", bool(np.allclose(made.probabilities(scores), wanted, rtol=1e-12, atol=0))
    noises: tuple[tuple[str, Guarantee], ...] = (("laplace", _PURE), ("exponential", _PURE), ("gaussian", _GAUSSIAN))
    for noise, wanted_at in noises:
        for moves in ((1.0,), (1.0, 1.0)):
            sensitivity = Sensitivity(moves=moves)
            choice: Any = m.ReportNoisyMax.calibrate(wanted_at, sensitivity, noise=noise)
            yield f"noisy max, {noise}", choice.profile(sensitivity).within(wanted_at)
            chances = choice.probabilities(np.array([0.0, 1.0, 2.5]))
            right = abs(float(np.sum(chances)) - 1) < 1e-6 and bool(np.all(np.diff(chances) > 0))
            yield "chances of a noisy max", right
    noisy: Any = m.ReportNoisyMax(2.0, "laplace", False)
    plain = m.Laplace(2.0).profile(_TWO)
    right = abs(float(noisy.profile(_TWO).delta_at(0.3)) - float(plain.delta_at(0.3))) < 1e-12
    yield "the curve of noisy scores", right


def _groups() -> Iterator[Compared]:
    """Groups that are shown: an empty one never, and no size much more likely than the size below."""
    for epsilon, delta, groups in ((1.0, 1e-3, 1), (0.5, 1e-4, 2), (2.0, 1e-6, 3)):
        guarantee = ApproxDP(epsilon, delta)
        sensitivity = Sensitivity(moves=(1.0,) * groups)
        best: Any = m.OptimalSelection.calibrate(guarantee, sensitivity)
        noisy: Any = m.GaussianThreshold.calibrate(guarantee, sensitivity)
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
        partial(m.Laplace.calibrate, PureDP(0.0), _ONE), partial(m.Gaussian.calibrate, PureDP(1.0), _ONE),
        partial(m.Laplace.calibrate, PureDP(1.0), Sensitivity(l2=1.0)), partial(m.RankDeficientGaussian.calibrate,
        PureDP(1.0), _TWO), partial(m.BoundedLaplace.calibrate, PureDP(1.0), _ONE, bounds=(1.0, 0.0)),
        partial(m.OptimalSelection.calibrate, PureDP(1.0), _ONE), partial(m.BoxNoise.calibrate, PureDP(1.0), _ONE),
        partial(m.BoxNoise, 1.0, 0), partial(m.BoxNoise(1.0, 5, boxes=2).profile, Sensitivity(linf=1.0, dimension=10)),
        partial(m.Geometric, 0.0), partial(m.DiscreteGaussian, 0.0), partial(m.DiscreteGaussian, 2000.0),
        partial(m.DiscreteGaussian.calibrate, PureDP(1.0), _ONE), partial(m.DiscreteGaussian.calibrate, GaussianDP(1.0),
        _ONE), partial(m.Laplace, -1.0), partial(m.Gaussian, math.nan),
    )  # fmt: skip
    for call in calls:
        yield f"refused: {call.func} {call.args}", refused(call)  # type: ignore[attr-defined]
