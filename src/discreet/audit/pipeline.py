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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet.audit.exact_losses import Cells, ExactAudit, audit_cells, joined, law_cells
from discreet.audit.transcript import Choice, Draw, Numbers, Script, scripted
from discreet.audit.worlds import World
from discreet.contract.mechanism import Law
from discreet.core.guarantee import Guarantee, PureDP
from discreet.display import Facts
from discreet.ledgers import Ledger
from discreet.mechanisms.box_noise import BoxLaw
from discreet.mechanisms.gaussian import GaussianLaw
from discreet.mechanisms.laplace import LaplaceLaw
from discreet.mechanisms.whole_share import WholeShareLaw
from discreet.result import Result

__all__ = [
    "NumberLaw", "Pipeline", "PipelineAudit", "Refusal", "audit_pipeline", "from_zero", "largest_loss",
    "loss_between", "number_cells", "number_laws", "shown",
]  # fmt: skip


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
    names = [name for name in ("lower", "upper", "order") if hasattr(law, name)]
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


Array = NDArray[np.float64]
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


@dataclass(frozen=True)
class PipelineAudit(Result):
    """What a pipeline was charged and what it lost.

    Attributes
    ----------
    charged
        What the ledger was charged.
    loss
        The charge against the largest loss between neighbours.
    tables, pairs
        Tables that were run, and pairs of neighbours that were compared.
    recorded
        Names of the statistics and mechanisms that the ledger recorded.
    findings
        What differed between tables besides the outcomes of draws, and what was not paid in time.
    """

    charged: Guarantee
    loss: ExactAudit
    tables: int
    pairs: int
    recorded: frozenset[str]
    findings: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether the loss is within the charge, and there is no finding."""
        return self.loss.passed and not self.findings

    def facts(self) -> Facts:
        """What to show."""
        return [
            ("charged", str(self.charged)),
            ("tables", f"{self.tables:,}, {self.pairs:,} pairs of neighbours"),
            ("reached", f"{100 * self.loss.tightness:.2f} % of the charge"),
            ("findings", "none" if not self.findings else "; ".join(self.findings[:3])),
            ("verdict", "holds" if self.passed else "EXCEEDED"),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {
            "charged": self.charged.to_dict(),
            "loss": self.loss.to_dict(),
            "tables": self.tables,
            "pairs": self.pairs,
            "recorded": sorted(self.recorded),
            "findings": list(self.findings),
            "passed": self.passed,
        }

    def heading(self) -> str:
        return "Pipeline audit"


def audit_pipeline(pipeline: Pipeline, *, scripts: int = 2, pairs: int | None = None) -> PipelineAudit:
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
    >>> from discreet import Exact, Laplace, PureDP, Sensitivity, release
    >>> from discreet.audit.worlds import row_world
    >>> def count(rows, ledger):
    ...     return release(Exact(len(rows), Sensitivity(l1=1.0)), Laplace(1.0), ledger=ledger)
    >>> audit = audit_pipeline(Pipeline("count", count, row_world(["a", "b"], most=2), PureDP(1.0)))
    >>> audit.passed, round(audit.loss.tightness, 6)
    (True, 1.0)
    """
    world = pipeline.world.cut(pairs)
    findings: dict[str, None] = {}
    losses: list[ExactAudit] = []
    for seed in range(1 if pipeline.all_paths or pipeline.omits else scripts):
        runs = [list(_runs(pipeline, table, seed)) for table in world.tables]
        findings |= dict.fromkeys(_differences(runs))
        one = runs[0][0]
        losses.append(_worst(one.charged, runs, world.pairs))
    tables, compared = len(world.tables), len(world.pairs)
    return PipelineAudit(one.charged, largest_loss(losses), tables, compared, one.recorded, tuple(findings))


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
        charged, drawn = ledger.spent(), len(script.draws)
        if isinstance(published, Refusal):
            findings.append(str(published))
        elif pipeline.repeats:
            again = _outcome(pipeline, table, ledger)
            if len(script.draws) > drawn or shown(again) != shown(published):
                findings.append("asking again drew again")
            if ledger.spent() != charged:
                findings.append("asking again was charged again")
        if pipeline.omits and not script.as_foreseen:
            findings.append("rows were not chosen afresh for each question")
    spends = [shown(spend) for spend in ledger.events()]
    told = json.dumps([shown(published), spends], sort_keys=True)
    return _Run(
        script.secret, tuple(script.draws), tuple(script.answers), told, charged, frozenset(_names(spends)),
        tuple(findings),
    )  # fmt: skip


@dataclass(frozen=True)
class Refusal:
    """An error in place of an answer: an outcome like any other, and in an audit a finding by its name."""

    kind: str
    words: str

    @staticmethod
    def of(error: Exception) -> Refusal:
        """What an error says."""
        return Refusal(type(error).__name__, str(error).split("\n")[0][:120])

    def __str__(self) -> str:
        return f"refused: {self.kind}: {self.words}"


def _outcome(pipeline: Pipeline, table: Any, ledger: Ledger) -> Any:
    """What was published, or why nothing was."""
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
    """What was published, as JSON-ready data."""
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
    """What is not the same for all tables, though every draw gave the same."""
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


# ---- losses ---------------------------------------------------------------------------------------------------------


def _worst(claim: Guarantee, runs: Sequence[Sequence[_Run]], pairs: Sequence[tuple[int, int]]) -> ExactAudit:
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


def largest_loss(audits: Sequence[ExactAudit]) -> ExactAudit:
    """All of them in one: the largest loss found anywhere."""
    epsilons = [one.found_epsilon for one in audits if one.found_epsilon is not None]
    return ExactAudit(
        audits[0].claimed_epsilon,
        max(epsilons, default=None),
        audits[0].claimed_deltas,
        tuple(float(delta) for delta in np.max([one.found_deltas for one in audits], axis=0)),
    )


def loss_between(claim: Guarantee, first: Sequence[Draw], second: Sequence[Draw]) -> ExactAudit:
    """Draws one after another: pure losses add up, all others are joined."""
    parts = list(_parts(first, second))
    if isinstance(claim, PureDP):
        ratios = [part.ratios() for part in parts]
        found = max(sum(ratio[way] for ratio in ratios) for way in (0, 1)) if ratios else 0.0
        return replace(audit_cells(claim, [_NOTHING]), found_epsilon=float(found))
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
            pairs, k = list(zip(number_laws(here.law), number_laws(there.law), strict=True)), here.law.dimension
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
