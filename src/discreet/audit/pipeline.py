"""Pipeline audit: everything between the data and what is published, on every table of a small world.

A pipeline runs as users run it, on each table, while one script decides what its draws give. Then

- what is published, and what the ledger recorded, must be the same for all tables: it may depend on the data through
  the draws alone;
- the loss of all draws together, from the laws that the code set up for neighbouring tables, must be within what the
  ledger was charged;
- the charge must be on record before the first draw, and asking again under one name must draw and spend nothing.

Draws that follow others are compared given the same earlier outcomes, so losses add up as they do in adaptive
composition. Where all draws are choices, every path is gone through and the law of the whole is exact.
"""

from __future__ import annotations

import itertools
import json
import math
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Any, cast
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

import discreet.mechanisms as m
from discreet.audit.exact_losses import Cells, audit_cells, joined, law_cells, loss_audit
from discreet.audit.report import Audit, Refusal
from discreet.core import rows as core_rows
from discreet.core.guarantee import Guarantee, PureDP
from discreet.core.protection import Neighbours
from discreet.mechanisms.bounded.laplace import ClampedLaplaceLaw, TruncatedLaplaceLaw
from discreet.mechanisms.box_noise import BoxLaw
from discreet.mechanisms.choices.quantile import RankClasses
from discreet.mechanisms.choices.selection import flip_probabilities
from discreet.mechanisms.gaussian import GaussianLaw
from discreet.mechanisms.laplace import LaplaceLaw
from discreet.mechanisms.mechanism import Law, LocationLaw
from discreet.mechanisms.omission import step
from discreet.mechanisms.whole_share import WholeShareLaw
from discreet.questions import common_labels
from discreet.results.ledger import Ledger

# ---- Transcript: what a pipeline draws, with the law of every draw, while a script decides the outcomes.
#
# Noise enters through few doors: numbers from a law, choices among candidates, places on a grid, and rows that are
# kept in secret. Inside `scripted` an answer stands in each of them: the code that really runs sets up its laws from
# the data, the script says what came out, and both are written down. Everything else that is random (starting
# centres, partitions, salts) repeats, so that two runs differ in their data only.


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
        """The facts that both neighbours must have in common."""
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
        """The facts that both neighbours must have in common."""
        return "choice", int(self.starts[0]), int(self.starts[-1] + self.widths[-1])


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
        """True where rows were chosen exactly as often as the script foresaw."""
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
                for kind in (m.ExponentialMechanism, m.PermuteAndFlip, m.ReportNoisyMax)
            ),
            (RankClasses, "draw", _placed(script)),
            *((kind, "shown", _listed(script)) for kind in (m.OptimalSelection, m.GaussianThreshold)),
            (common_labels, "unit_counts", _labelled(script)),
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
        return script.choice(Choice.of(logs, exponential=owner is m.ExponentialMechanism))

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


# ---- Worlds: all tables of a few records, and which of them are neighbours.


@dataclass(frozen=True)
class World:
    """Tables with their neighbours.

    Attributes
    ----------
    tables
        Small tables.
    pairs
        Positions of neighbouring tables.
    neighbours, unit
        What neighbours are, and whose data one may differ in.
    """

    tables: tuple[Any, ...]
    pairs: tuple[tuple[int, int], ...]
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    unit: str = "row"

    def rows(self, table: Any) -> int:
        """Number of rows."""
        return len(table)

    def cut(self, pairs: int | None) -> World:
        """The first so many pairs, and the tables they need."""
        kept = self.pairs[:pairs]
        needed = sorted({position for pair in kept for position in pair})
        places = {position: place for place, position in enumerate(needed)}
        return replace(
            self,
            tables=tuple(self.tables[position] for position in needed),
            pairs=tuple((places[a], places[b]) for a, b in kept),
        )


def arrow_table(rows: Sequence[Mapping[str, Any]], kinds: Mapping[str, str]) -> Any:
    """Some columns of rows as a table; they have the same types where it is empty.

    Examples
    --------
    >>> arrow_table([{"x": None}], {"x": "float64"}).num_rows
    1
    """
    import pyarrow

    return pyarrow.table({name: pyarrow.array([row[name] for row in rows], kind) for name, kind in kinds.items()})


def row_world(
    records: Sequence[Any], *, most: int, least: int = 0, neighbours: Neighbours = Neighbours.ADD_REMOVE
) -> World:
    """All tables (lists) of at least ``least`` and at most ``most`` rows; under replace-one, of ``most`` rows.

    The record in which neighbours differ is the last one of each.

    Examples
    --------
    >>> world = row_world(["a", "b"], most=2)
    >>> len(world.tables), len(world.pairs)
    (7, 6)
    >>> len(row_world(["a", "b"], most=2, neighbours=Neighbours.REPLACE_ONE).pairs)
    2
    """
    return _world(records, most, least, neighbours, "row", lambda chosen: list(chosen))


def unit_world(
    units: Sequence[Sequence[dict[str, Any]]],
    *,
    most: int,
    least: int = 0,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    unit: str = "person",
) -> World:
    """All tables of a few units, each with several rows; every row names its unit by its place in the table.

    Examples
    --------
    >>> world = unit_world([[{"x": 1}], [{"x": 2}, {"x": 2}]], most=2)
    >>> world.tables[-1]
    [{'person': 0, 'x': 2}, {'person': 0, 'x': 2}, {'person': 1, 'x': 2}, {'person': 1, 'x': 2}]
    """

    def table(chosen: Sequence[Any]) -> list[dict[str, Any]]:
        return [{unit: place, **row} for place, rows in enumerate(chosen) for row in rows]

    return _world(units, most, least, neighbours, unit, table)


def _world(
    records: Sequence[Any],
    most: int,
    least: int,
    neighbours: Neighbours,
    unit: str,
    table: Callable[[Sequence[Any]], Any],
) -> World:
    """Every multiset of others with each last record (or none)."""
    tables: dict[tuple[int, ...], int] = {}
    pairs: list[tuple[int, int]] = []

    def place(chosen: tuple[int, ...]) -> int:
        return tables.setdefault(chosen, len(tables))

    sizes = range(most - 1, most) if neighbours is Neighbours.REPLACE_ONE else range(least, most)
    for size in sizes:
        for others in combinations_with_replacement(range(len(records)), size):
            lasts = [place((*others, last)) for last in range(len(records))]
            if neighbours is Neighbours.ADD_REMOVE:
                pairs += [(place(others), position) for position in lasts]
            else:
                pairs += [(a, b) for a in lasts for b in lasts if a < b]
    made = tuple(table([records[index] for index in chosen]) for chosen in tables)
    return World(made, tuple(pairs), neighbours, unit)


# ---- Pipeline audit: everything between the data and what is published, on every table of a small world.


# ---- Number laws: the law of every number that is drawn, as data, and what two of them lose between neighbours


NumberLaw = tuple[Any, ...]
"""The law of one number: its class, scale and exact location, and bounds or order where it has them."""


@dataclass(frozen=True)
class _CountOf:
    """The law of the count behind a share: dividing by a public number of rows loses and gains nothing."""

    kind: Callable[..., Law]
    rows: int

    def __call__(self, share: Fraction, scale: float) -> Law:
        return self.kind(share * self.rows, scale)


def number_laws(law: Any) -> list[NumberLaw]:
    """The law of every number of an array."""
    if isinstance(law, WholeShareLaw):
        return [(_CountOf(kind, law.rows), scale, place / law.rows) for kind, scale, place in number_laws(law.counts)]
    shape = law.shape
    exact = getattr(law, "_noise", law)._location.broadcast(shape)
    names = [name for name in ("lower", "upper", "order", "period", "plateau") if hasattr(law, name)]
    more = [getattr(law, name) for name in names]
    scales, *bounds = (np.broadcast_to(values, shape).ravel().tolist() for values in (law.scale, *more))
    places = [exact.exact(index) for index in range(len(scales))]
    return list(zip([type(law)] * len(scales), scales, places, *bounds, strict=True))


def from_zero(a: NumberLaw, b: NumberLaw) -> tuple[NumberLaw, NumberLaw]:
    """Both laws moved so that the first is at zero, where nothing bounds them: only the distance matters."""
    return (a, b) if len(a) > 3 else ((*a[:2], Fraction(0)), (*b[:2], b[2] - a[2]))


@lru_cache(maxsize=4096)
def number_cells(a: NumberLaw, b: NumberLaw) -> Cells:
    """Probabilities of the outputs of two laws, cell by cell."""
    here, there = (kind(place, scale, *bounds) for kind, scale, place, *bounds in (a, b))
    return law_cells(here, there)


_SIZES = (1.0, 30.0, 0.01)
"""Spreads of the numbers that scripts give, in units of the data."""


@dataclass(frozen=True)
class Pipeline:
    """Something that reads data, spends a budget and publishes.

    Attributes
    ----------
    name
        What is audited.
    run
        From a table and a ledger to what is published.
    world
        Small tables, and which of them are neighbours.
    budget
        The budget of the ledger, which the run spends in whole or in part.
    covers
        Public names that this pipeline stands for.
    tight
        Whether the world holds neighbours that reach the charge.
    all_paths
        Whether all draws are choices, to be gone through one by one.
    omits
        How often rows are left out in secret, so that the first output is a mixture over what is kept.
    repeats
        Whether running again on the same ledger must draw and spend nothing.
    quick
        Whether short audits run it too.
    """

    name: str
    run: Callable[[Any, Ledger], Any]
    world: World
    budget: Guarantee
    covers: tuple[str, ...] = ()
    tight: bool = True
    all_paths: bool = False
    omits: int = 0
    repeats: bool = False
    quick: bool = True


def audit_pipeline(pipeline: Pipeline, *, scripts: int = 2, pairs: int | None = None) -> Audit:
    """Run a pipeline on a small world and compare what neighbours lose with what was charged.

    Parameters
    ----------
    pipeline
        What to run, and where.
    scripts
        How many scripts of outcomes to try; more matter only where draws depend on earlier ones.
    pairs
        The first so many pairs of neighbours; by default all.

    Examples
    --------
    >>> from discreet import PureDP, release
    >>> from discreet.core.sensitivity import Exact, Sensitivity
    >>> from discreet.mechanisms import Laplace
    >>> from discreet.audit.pipeline import row_world
    >>> def count(rows, ledger):
    ...     return release(Exact(len(rows), Sensitivity(l1=1.0)), Laplace(1.0), ledger=ledger)
    >>> audit = audit_pipeline(Pipeline("count", count, row_world(["a", "b"], most=2), PureDP(1.0)))
    >>> audit.passed, round(audit.reached, 6)
    (True, 1.0)
    """
    world = pipeline.world.cut(pairs)
    findings: dict[str, None] = {}
    losses: list[Audit] = []
    for seed in range(1 if pipeline.all_paths or pipeline.omits else scripts):
        runs = [list(_runs(pipeline, table, seed)) for table in world.tables]
        findings |= dict.fromkeys(_differences(runs))
        if pipeline.omits > 1:
            findings |= dict.fromkeys(_shared(runs, pipeline.omits))
        one = runs[0][0]
        losses.append(_worst(one.charged, runs, world.pairs))
    tables, compared = len(world.tables), len(world.pairs)
    loss = largest_loss(losses)
    measured = {
        "charged": one.charged, "tables": tables, "pairs": compared, "recorded": one.recorded, **loss.measured,
    }  # fmt: skip
    findings |= dict.fromkeys(loss.findings)
    found = f"{100 * (loss.reached or 0.0):.1f} % of charge"
    return Audit("pipeline", pipeline.name, str(one.charged), found, tuple(findings), loss.reached, measured)


# ---- running --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Run:
    """One run: how likely its secret part was, its draws, what it published and recorded, and what it cost."""

    secret: float
    draws: tuple[Draw, ...]
    answers: tuple[Any, ...]
    told: str
    charged: Guarantee
    recorded: frozenset[str]
    findings: tuple[str, ...]
    kept: tuple[bool, ...]


def _runs(pipeline: Pipeline, table: Any, seed: int) -> Iterator[_Run]:
    """One run; or one for every set of rows that may be kept; or one for every path of choices."""
    if pipeline.omits:
        for kept in itertools.product((False, True), repeat=pipeline.omits * pipeline.world.rows(table)):
            yield _run(pipeline, table, Script(seed, kept=kept))
    elif pipeline.all_paths:
        first = _run(pipeline, table, Script(seed))
        ways = [range(int(np.isfinite(draw.logs).sum())) for draw in first.draws if isinstance(draw, Choice)]
        for path in itertools.product(*ways):
            yield _run(pipeline, table, Script(seed, path=path))
    else:
        yield _run(pipeline, table, Script(seed, _SIZES[seed % len(_SIZES)]))


def _run(pipeline: Pipeline, table: Any, script: Script) -> _Run:
    findings = []

    def paid() -> None:
        if ledger.spent() == nothing:
            findings.append("nothing was on record at the first draw")

    script.begin(paid)
    with scripted(script):
        ledger = Ledger(":memory:", pipeline.budget, neighbours=pipeline.world.neighbours, unit=pipeline.world.unit)
        nothing = ledger.spent()
        published = _outcome(pipeline, table, ledger)
        charged, drawn, told = ledger.spent(), len(script.draws), shown(published)
        if isinstance(published, Refusal):
            findings.append(str(published))
        elif pipeline.repeats:
            again = _outcome(pipeline, table, ledger)
            if len(script.draws) > drawn or shown(again) != told:
                findings.append("asking again drew again")
            if ledger.spent() != charged:
                findings.append("asking again was charged again")
        if pipeline.omits and not script.as_foreseen:
            findings.append("rows were not chosen afresh for each question")
    spends = [shown(spend) for spend in ledger.events()]
    return _Run(
        script.secret, tuple(script.draws), tuple(script.answers), json.dumps([told, spends], sort_keys=True), charged,
        frozenset(_names(spends)), tuple(findings), tuple(script.kept),
    )  # fmt: skip


def _outcome(pipeline: Pipeline, table: Any, ledger: Ledger) -> Any:
    """The published value, or the refusal."""
    try:
        return pipeline.run(table, ledger)
    except Exception as error:
        return Refusal.of(error)


def _names(recorded: Any) -> Iterator[str]:
    """Names of statistics and mechanisms, of those inside others too."""
    if isinstance(recorded, list):
        for one in recorded:
            yield from _names(one)
    elif isinstance(recorded, dict):
        yield from (value for key, value in recorded.items() if key == "name" and isinstance(value, str))
        yield from _names(list(recorded.values()))


_OWN = {"release_id", "created", "request", "hash"}
"""Facts of a release that are random or about time, and what follows from them."""


def shown(published: Any) -> Any:
    """A published value as JSON-ready data."""
    if hasattr(published, "to_dict"):
        return shown(published.to_dict())
    if isinstance(published, Mapping):
        return {str(key): shown(value) for key, value in published.items() if key not in _OWN}
    if isinstance(published, np.ndarray | np.generic):
        return shown(published.tolist())
    if isinstance(published, list | tuple):
        return [shown(one) for one in published]
    return published if isinstance(published, str | int | float | None) else str(published)


def _differences(runs: Sequence[Sequence[_Run]]) -> Iterator[str]:
    """Differences between tables, though every draw gave the same."""
    every = [one for several in runs for one in several]
    first: dict[tuple[str, ...], _Run] = {}
    for one in every:
        yield from one.findings
        like = first.setdefault(tuple(map(str, one.answers)), one)
        if [draw.shape for draw in one.draws] != [draw.shape for draw in like.draws]:
            yield "draws differ in kind or number"
        elif one.told != like.told:
            yield "published or recorded facts differ"
    if len({one.charged for one in every}) > 1:
        yield "charges differ"
    if len({len(one.draws) for one in every}) > 1:
        yield "draws differ in kind or number"


def _shared(runs: Sequence[Sequence[_Run]], questions: int) -> Iterator[str]:
    """Questions that read rows which were kept for another: their charges would not add up.

    The law of what a question draws may depend on the rows that were chosen for it, and on no other choice.
    """
    for several in runs:
        laws: dict[tuple[int, tuple[bool, ...]], list[NumberLaw]] = {}
        for one in (run for run in several if len(run.draws) == questions):
            size = len(one.kept) // questions
            for place, draw in enumerate(one.draws):
                own = place, one.kept[place * size : (place + 1) * size]
                found = number_laws(draw.law) if isinstance(draw, Numbers) else []
                if laws.setdefault(own, found) != found:
                    yield "a question reads rows that were kept for another"


# ---- losses ---------------------------------------------------------------------------------------------------------


def _worst(claim: Guarantee, runs: Sequence[Sequence[_Run]], pairs: Sequence[tuple[int, int]]) -> Audit:
    """The charge against the largest loss between neighbours."""
    found = [audit_cells(claim, [_NOTHING])]
    for here, there in pairs:
        first, second = runs[here], runs[there]
        if any(one.findings for one in (*first, *second)):  # an error, or a draw too many, is a finding already
            continue
        if len(first) > 1 or len(second) > 1:
            found.append(audit_cells(claim, [_mixtures(first, second)]))
        elif [draw.shape for draw in first[0].draws] == [draw.shape for draw in second[0].draws]:
            found.append(loss_between(claim, first[0].draws, second[0].draws))
        else:  # the draws themselves tell the two apart
            found.append(audit_cells(claim, [Cells(np.array([1.0, 0.0]), np.array([0.0, 1.0]))]))
    return largest_loss(found)


def largest_loss(audits: Sequence[Audit]) -> Audit:
    """All of them in one: the largest loss found anywhere."""
    epsilons = [one["found_epsilon"] for one in audits if one["found_epsilon"] is not None]
    deltas = np.max([one["found_deltas"] for one in audits], axis=0).tolist()
    first = audits[0]
    return loss_audit(first["claimed_epsilon"], max(epsilons, default=None), first["claimed_deltas"], deltas)


def loss_between(claim: Guarantee, first: Sequence[Draw], second: Sequence[Draw]) -> Audit:
    """Draws one after another: pure losses add up, all others are joined."""
    parts = list(_parts(first, second))
    if isinstance(claim, PureDP):
        ratios = [part.ratios() for part in parts]
        found = max(sum(ratio[way] for ratio in ratios) for way in (0, 1)) if ratios else 0.0
        nothing = audit_cells(claim, [_NOTHING])
        return loss_audit(claim.epsilon, float(found), nothing["claimed_deltas"], nothing["found_deltas"])
    return audit_cells(claim, [joined(parts) if parts else _NOTHING])


_NOTHING = Cells(np.ones(1), np.ones(1))
"""Neighbours that nothing tells apart."""


def _parts(first: Sequence[Draw], second: Sequence[Draw]) -> Iterator[Cells]:
    """Cells of every number or choice whose law the neighbours change; normal numbers are turned into one."""
    square = 0.0
    for here, there in zip(first, second, strict=True):
        if isinstance(here, Choice) and isinstance(there, Choice):
            yield _choice_cells(here, there)
        elif isinstance(here, Numbers) and isinstance(here.law, BoxLaw) and isinstance(there, Numbers):
            pairs = list(zip(number_laws(here.law), number_laws(there.law), strict=True))
            k = here.law.dimension
            for box in (pairs[start : start + k] for start in range(0, len(pairs), k)):
                # The largest move alone counts, as for Laplace noise on one number (docs/proofs/box_noise.md).
                far, scale = max(abs(a[2] - b[2]) for a, b in box), box[0][0][1]
                if far:
                    yield number_cells((LaplaceLaw, scale, Fraction(0)), (LaplaceLaw, scale, far))
        elif isinstance(here, Numbers) and isinstance(there, Numbers):
            for a, b in zip(number_laws(here.law), number_laws(there.law), strict=True):
                if a[:2] == b[:2] and a[0] is GaussianLaw:
                    square += float((a[2] - b[2]) / Fraction(a[1])) ** 2
                elif a != b:
                    yield number_cells(*from_zero(a, b))
    if square:
        yield number_cells((GaussianLaw, 1.0, Fraction(0)), (GaussianLaw, 1.0, Fraction(math.sqrt(square))))


def _choice_cells(first: Choice, second: Choice) -> Cells:
    """Places that both choices weigh evenly, together."""
    starts = np.union1d(first.starts, second.starts)
    end = int(max(one.starts[-1] + one.widths[-1] for one in (first, second)))
    widths = np.diff(np.append(starts, end))
    p, q = (widths * np.exp(one.logs[np.searchsorted(one.starts, starts, side="right") - 1]) for one in (first, second))
    return Cells(p, q, light=0.0)


def _mixtures(first: Sequence[_Run], second: Sequence[_Run]) -> Cells:
    """Outputs of neighbours where the run itself was one of many: by secret rows, or by the path of choices."""
    runs = (*first, *second)
    if all(one.secret == 1.0 for one in runs):
        masses = np.array([_path_chance(one) for one in runs])
        return Cells(masses[: len(first)], masses[len(first) :], light=0.0)
    draws = [one.draws[0] for one in runs]
    laws = [draw.law for draw in draws if isinstance(draw, Numbers)]
    if laws:
        edges = np.unique(np.concatenate([np.asarray(law.quantile(_LEVELS)) for law in laws]))
        cells = [np.diff(np.concatenate([[0.0], np.asarray(law.cdf(edges)), [1.0]])) for law in laws]
    else:
        cells = [np.exp(draw.logs) for draw in draws if isinstance(draw, Choice)]
    weighed = np.array([one.secret * cell for one, cell in zip(runs, cells, strict=True)])
    return Cells(weighed[: len(first)].sum(axis=0), weighed[len(first) :].sum(axis=0), light=_LIGHT if laws else 0.0)


_LIGHT = 1e-8
_LEVELS = np.linspace(0.0001, 0.9999, 2001)


def _path_chance(run: _Run) -> float:
    """Probability of the whole path."""
    total = 0.0
    for draw, place in zip(run.draws, run.answers, strict=True):
        choice = cast(Choice, draw)
        total += float(choice.logs[np.searchsorted(choice.starts, place, side="right") - 1])
    return math.exp(total)
