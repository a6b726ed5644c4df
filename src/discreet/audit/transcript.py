"""Transcript: what a pipeline draws, with the law of every draw, while a script decides the outcomes.

Noise enters through few doors: numbers from a law, choices among candidates, places on a grid, and rows that are kept
in secret. Inside `scripted` an answer stands in each of them: the code that really runs sets up its laws from the data,
the script says what came out, and both are written down. Everything else that is random (starting centres, partitions,
salts) repeats, so that two runs differ in their data only.
"""

from __future__ import annotations

import itertools
import math
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from discreet.contract.mechanism import Law
from discreet.core import rows as core_rows
from discreet.mechanisms.bounded.truncated_laplace_law import ClampedLaplaceLaw, TruncatedLaplaceLaw
from discreet.mechanisms.choices import quantile_interval
from discreet.mechanisms.choices.exponential_mechanism import ExponentialMechanism
from discreet.mechanisms.choices.gaussian_threshold import GaussianThreshold
from discreet.mechanisms.choices.group_selection import OptimalSelection
from discreet.mechanisms.choices.noisy_max import ReportNoisyMax
from discreet.mechanisms.choices.permute_and_flip import PermuteAndFlip, flip_probabilities
from discreet.mechanisms.choices.ranks import RankClasses
from discreet.mechanisms.location_noise import LocationLaw
from discreet.mechanisms.whole_share import WholeShareLaw
from discreet.omission import step
from discreet.questions import groups

__all__ = ["Choice", "Draw", "Kept", "Numbers", "Script", "scripted"]

Array = NDArray[np.float64]
_LAWS = (LocationLaw, TruncatedLaplaceLaw, ClampedLaplaceLaw, WholeShareLaw)
_NAME_BYTES = 8
"""Names of stored tables, which must differ; longer tokens, such as the secret of a ledger, repeat."""


@dataclass(frozen=True)
class Numbers:
    """Independent numbers, one law each."""

    law: Law

    @property
    def shape(self) -> tuple[Any, ...]:
        """What both neighbours must have in common."""
        return type(self.law).__name__, self.law.shape


@dataclass(frozen=True)
class Choice:
    """One of many places: runs of ``widths`` places from ``starts`` on, each place with log-probability ``logs``."""

    starts: NDArray[np.int64]
    widths: NDArray[np.int64]
    logs: Array
    exponential: bool = False
    """Whether weights are exponentials of scores: then it is their change that the proof bounds."""

    @classmethod
    def of(cls, weights: Any, *, exponential: bool = False) -> Choice:
        """Candidates by their log-weights."""
        logs = np.asarray(weights, dtype=float)
        return cls.among(np.arange(logs.size), np.ones(logs.size, np.int64), logs, exponential=exponential)

    @classmethod
    def among(
        cls, starts: NDArray[np.int64], widths: NDArray[np.int64], weights: Array, *, exponential: bool = False
    ) -> Choice:
        """Places by their log-weights."""
        some = widths > 0
        starts, widths, weights = starts[some], widths[some], weights[some]
        top = weights.max()
        whole = top + math.log(float((widths * np.exp(weights - top)).sum()))
        return cls(starts, widths, weights - whole, exponential)

    @property
    def shape(self) -> tuple[Any, ...]:
        """What both neighbours must have in common."""
        return "choice", int(self.starts[0]), int(self.starts[-1] + self.widths[-1])


@dataclass(frozen=True)
class Kept:
    """Rows kept in secret, each with its own probability; the outcome is not published."""

    chances: Array


Draw = Numbers | Choice


@dataclass
class Script:
    """Decides what every draw gives, from public facts alone, and writes down the laws.

    Parameters
    ----------
    seed
        Numbers and choices follow from it.
    size
        Spread of the numbers.
    path
        The first choices, where they are to be gone through one by one.
    kept
        Which rows stay, where some are left out.
    before
        Called before the first draw.
    """

    seed: int = 0
    size: float = 1.0
    path: Sequence[int] = ()
    kept: Sequence[bool] = ()
    before: Callable[[], None] = lambda: None
    draws: list[Draw] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    secret: float = 1.0
    labels: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        self._stream = np.random.default_rng(self.seed)
        self._drew = False
        self._used = 0

    @property
    def as_foreseen(self) -> bool:
        """Whether rows were chosen exactly as often as the script foresaw."""
        return self._used == len(self.kept)

    def numbers(self, law: Law, size: Any) -> Any:
        """Numbers on the law's grid and in its support, which are public."""
        front = () if size is None else (size,) if isinstance(size, int | np.integer) else tuple(size)
        shape = (*front, *law.shape)
        drawn = self._stream.normal(scale=self.size, size=shape)
        on_grid = np.floor(drawn / law.grid + 0.5) * law.grid  # type: ignore[attr-defined]
        value = np.clip(on_grid, *law.support)
        self._note(Numbers(law), value.tolist())
        return float(value) if value.ndim == 0 else value

    def choice(self, draw: Choice) -> int:
        """A place that has a chance."""
        made = sum(isinstance(one, Choice) for one in self.draws)
        if made < len(self.path):
            possible = np.flatnonzero(np.isfinite(draw.logs))
            place = int(draw.starts[possible[self.path[made]]])
        else:
            runs = np.flatnonzero(np.isfinite(draw.logs))
            place = int(self._stream.integers(draw.starts[0], draw.starts[-1] + draw.widths[-1]))
            if not np.isfinite(draw.logs[np.searchsorted(draw.starts, place, side="right") - 1]):
                place = int(draw.starts[runs[0]])
        self._note(draw, place)
        return place

    def keep(self, chances: Array) -> NDArray[np.bool_]:
        """The rows that the script keeps; how likely that was is written down."""
        foreseen = list(self.kept[self._used : self._used + chances.size])
        outcome = np.array([*foreseen, *[True] * (chances.size - len(foreseen))], dtype=bool)
        self._used += chances.size
        self.secret *= float(np.prod(np.where(outcome, chances, 1 - chances)))
        return outcome

    def begin(self, before: Callable[[], None]) -> int:
        """A new question: call ``before`` when it first draws. Returns how many draws there were until now."""
        self.before, self._drew = before, False
        return len(self.draws)

    def _note(self, draw: Draw, answer: Any) -> None:
        if not self._drew:
            self._drew = True
            self.before()
        self.draws.append(draw)
        self.answers.append(answer)


class _ByPlace(np.random.Generator):
    """A generator whose arrays start anew: what a row gets depends on its place alone, not on who came before.

    Neighbours differ in the last row of an array, so all others keep what they got.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(np.random.PCG64(seed))
        self._seed = seed

    def integers(self, *arguments: Any, size: Any = None, **options: Any) -> Any:
        if size is None:
            return super().integers(*arguments, **options)
        anew: Any = np.random.Generator(np.random.PCG64(self._seed))
        return anew.integers(*arguments, size=size, **options)


@contextmanager
def scripted(script: Script) -> Iterator[Script]:
    """Let a script stand in every door through which noise enters; what else is random repeats."""
    stream, token_hex = np.random.default_rng(script.seed + 1), secrets.token_hex
    with ExitStack() as stack:
        for owner, name, stand_in in (
            *((law, "sample", _sample(law, script)) for law in _LAWS),
            *(
                (kind, "choose", _chosen(kind, script))
                for kind in (ExponentialMechanism, PermuteAndFlip, ReportNoisyMax)
            ),
            (RankClasses, "draw", _placed(script)),
            (quantile_interval, "rough_pair", _paired(script)),
            (quantile_interval, "picked", _picked(script)),
            *((kind, "shown", _listed(script)) for kind in (OptimalSelection, GaussianThreshold)),
            (groups, "unit_counts", _labelled(script)),
            (step, "exact_events", lambda chances, error, enclose, entropy=None: script.keep(chances)),
            (np.random, "default_rng", lambda seed=None: _ByPlace(script.seed)),
            (secrets, "token_hex", lambda size=32: "5a" * size if size > _NAME_BYTES else token_hex(size)),
            (secrets, "randbits", lambda bits: int(stream.integers(0, 2 ** min(bits, 62)))),
            (secrets, "randbelow", lambda below: int(stream.integers(0, below))),
        ):
            stack.enter_context(patch.object(owner, name, stand_in))
        yield script


def _sample(owner: Any, script: Script) -> Callable[..., Any]:
    original = owner.sample

    def sample(self: Any, size: Any = None, *, rng: Any = None, **options: Any) -> Any:
        if rng is not None:
            return original(self, size, rng=rng, **options)
        return script.numbers(self, size)

    return sample


def _chosen(owner: Any, script: Script) -> Callable[..., Any]:
    original = owner.choose

    def choose(self: Any, scores: Any, *, rng: Any = None) -> Any:
        if rng is not None:
            return original(self, scores, rng=rng)
        with np.errstate(divide="ignore"):
            logs = np.log(self.probabilities(scores))
        return script.choice(Choice.of(logs, exponential=owner is ExponentialMechanism))

    return choose


def _placed(script: Script) -> Callable[..., int]:
    original = RankClasses.draw

    def draw(self: RankClasses, target: Fraction, factor: Fraction, rng: Any, *, flip: bool = False) -> int:
        if rng is not None:  # a plan simulates
            return original(self, target, factor, rng, flip=flip)
        logs = -float(factor / target.denominator) * self.distances(target, target.denominator).astype(np.float64)
        return script.choice(_ranked(self.starts, self.widths, logs, flip))

    return draw


def _ranked(starts: Any, widths: Any, scores: Any, flip: bool) -> Choice:
    """Places by the exponentials of their scores, or by permute and flip, where equal scores have equal chances."""
    if flip:
        some = widths > 0
        starts, widths, scores = starts[some], widths[some], scores[some]
        levels, place = np.unique(scores, return_inverse=True)
        counts = np.bincount(place, weights=widths).astype(np.int64)
        scores = np.log(flip_probabilities(np.exp(levels - levels[-1]), counts))[place]
    return Choice.among(starts, widths, scores, exponential=not flip)


def _paired(script: Script) -> Callable[..., tuple[int, int]]:
    """A pair of grid points, among all pairs: the shells of the sampler differ between neighbours."""
    original = quantile_interval.rough_pair

    def rough_pair(
        part: Any, targets: tuple[Fraction, Fraction], factor: Fraction, rng: Any, *, flip: bool = False
    ) -> tuple[int, int]:
        if rng is not None:
            return original(part, targets, factor, rng, flip=flip)
        classes, common = RankClasses.of(part), math.lcm(*(target.denominator for target in targets))
        first, second = (classes.distances(target, common) for target in targets)
        rows, points = np.repeat(first, classes.widths), int(classes.widths.sum())
        # Pairs with the same first point are runs of classes: points × points of them would not fit into memory.
        starts = points * np.arange(points)[:, None] + (classes.starts - classes.starts[0])
        widths = np.broadcast_to(classes.widths, starts.shape)
        logs = -float(factor / common) * np.maximum.outer(rows, second).astype(float)
        pairs = _ranked(starts.ravel(), widths.ravel(), logs.ravel(), flip)
        ends = divmod(script.choice(pairs), points)
        lowest = int(classes.starts[0])
        return lowest + min(ends), lowest + max(ends)

    return rough_pair


def _picked(script: Script) -> Callable[..., int]:
    original = quantile_interval.picked  # type: ignore[attr-defined]

    def picked(distances: Any, factor: Fraction, multiplicity: Any, rng: Any, *, flip: bool = False) -> int:
        if rng is not None:
            return original(distances, factor, multiplicity, rng, flip=flip)
        places = np.arange(distances.size)
        return script.choice(_ranked(places, np.ones_like(places), -float(factor) * distances, flip))

    return picked


_LABELS = ("A", "B", "C")
"""All labels that worlds hold: a list of groups is one of their subsets."""


def _labelled(script: Script) -> Callable[..., Any]:
    """The counts of labels as they are; the script is told the labels, since a choice sees counts only."""
    original = core_rows.unit_counts

    def unit_counts(*arguments: Any, **options: Any) -> Any:
        labels, counts = original(*arguments, **options)
        script.labels = tuple(labels)
        return labels, counts

    return unit_counts


def _listed(script: Script) -> Callable[..., NDArray[np.bool_]]:
    def shown(self: Any, counts: NDArray[np.int64], *, rng: Any = None) -> NDArray[np.bool_]:
        sizes = dict(zip(script.labels, counts.tolist(), strict=True))
        chances = [float(self.chance([sizes[label]])[0]) if label in sizes else 0.0 for label in _LABELS]
        subsets = list(itertools.product((False, True), repeat=len(_LABELS)))
        weights = [math.prod(p if one else 1 - p for p, one in zip(chances, some, strict=True)) for some in subsets]
        with np.errstate(divide="ignore"):
            place = script.choice(Choice.of(np.log(weights)))
        chosen = {label for label, one in zip(_LABELS, subsets[place], strict=True) if one}
        return np.array([label in chosen for label in script.labels], dtype=bool)

    return shown
