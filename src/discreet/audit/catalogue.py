"""Catalogue: every shipped mechanism on its worst pair of neighbours, with what it claims.

A case says what is claimed, how to draw on either neighbour with the code that really runs, and, where the laws are
known, how to compute the loss exactly. The same list serves the exact and the statistical audit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import combinations, combinations_with_replacement, permutations, product
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

import discreet.mechanisms as m
from discreet.audit.exact_losses import (
    Cells,
    audit_cells,
    audit_choices,
    audit_exactly,
    audit_laws,
    law_cells,
    loss_audit,
)
from discreet.audit.pipeline import Numbers, loss_between
from discreet.audit.replay import unit_pairs
from discreet.audit.report import Audit, Compared, recomputed
from discreet.core.errors import DiscreetError
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.protection import Neighbours
from discreet.core.schema import Bounds, Categories, Contribution, PrivacyUnit, Schema
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.choices.group_selection import GroupSelection
from discreet.mechanisms.choices.selection import Selection
from discreet.mechanisms.mechanism import Mechanism
from discreet.mechanisms.omission.step import AbsoluteDistance, Omission, outlier_scores
from discreet.questions import MeasuredQuestion
from discreet.questions.clusters.kmedian import KMedian
from discreet.questions.clusters.lloyd import DPLloyd
from discreet.questions.comparison.compare import compare_means
from discreet.questions.count import CountQuestion
from discreet.questions.naive_bayes import GaussianNaiveBayes
from discreet.questions.quantile import QuantileQuestion, Quantiles
from discreet.questions.sum import SumQuestion
from discreet.questions.tables.table import TableQuestion
from discreet.results.ledger import Ledger
from discreet.results.release import release
from discreet.session import Session

# ---- Case: one mechanism on one pair of neighbours, as the audits see it


Draw = Callable[[int], Any]

UNIT = Sensitivity(moves=(1.0,))
PAIR = Sensitivity(moves=(1.0, 1.0))


@dataclass(frozen=True)
class Case:
    """One mechanism on one pair of neighbours.

    Attributes
    ----------
    name
        What is audited.
    claim
        What it claims.
    here, there
        Draw n outputs on either neighbour.
    exact
        Compute the loss from the laws.
    tight
        Whether this pair reaches the claim, so that the audits must come close to it.
    slow
        Whether outputs are made one by one: then fewer are drawn.
    deep_only
        Whether even few outputs take long, so that only the deep run draws them.
    """

    name: str
    claim: Guarantee
    here: Draw
    there: Draw
    exact: Callable[[], Audit] | None = None
    tight: bool = True
    slow: bool = False
    deep_only: bool = False


def one_by_one(mechanism: Mechanism, truth: Any) -> Draw:
    """Outputs made by as many calls of ``draw``."""
    return lambda n: np.array([np.ravel(mechanism.draw(truth)) for _ in range(n)])


def _sampled(mechanism: Mechanism, truth: Any) -> Draw:
    return lambda n: mechanism.law(truth).sample(n)


_LOOSE = {"tight": False, "slow": True}


def _case(name: str, claim: Guarantee, mechanism: Mechanism, pair: tuple[Any, Any], exact: Any, **how: Any) -> Case:
    """A mechanism on two truths, drawn from its distribution, or one by one where that is slow."""
    draw = one_by_one if how.get("slow") else _sampled
    return Case(name, claim, draw(mechanism, pair[0]), draw(mechanism, pair[1]), exact, **how)


# ---- Choice cases: mechanisms that publish which candidate, or which grid point


Array = NDArray[np.float64]

_REACHABLE = {"counts": ([0, 3, 0], [1, 3, 0]), "scores": ([0, 3, 3], [1, 2, 2])}
"""Pairs close to the worst ones, whose telling outcome is drawn often."""


def _chosen(mechanism: Selection, scores: Sequence[int]) -> Draw:
    return lambda n: np.array([mechanism.choose(list(scores)) for _ in range(n)])


def _score_pairs(largest: int, moves: Callable[[tuple[int, ...]], bool]) -> Iterator[tuple[list[int], list[int]]]:
    """All scores of three candidates up to a limit, with all allowed moves."""
    for scores in product(range(largest + 1), repeat=3):
        for move in product((-1, 0, 1), repeat=3):
            if any(move) and moves(move):
                yield list(scores), [score + step for score, step in zip(scores, move, strict=True)]


def choice_cases() -> Iterator[Case]:
    """Selections: all small scores and all moves exactly; by draws a pair close to the worst that is not too rare."""
    three = Sensitivity(moves=(1.0, 1.0, 1.0))
    selections: list[tuple[str, Any, dict[str, Any]]] = [
        ("exponential mechanism", m.ExponentialMechanism, {}),
        ("permute-and-flip", m.PermuteAndFlip, {}),
        ("report noisy max, Laplace", m.ReportNoisyMax, {"noise": "laplace"}),
        ("report noisy max, exponential", m.ReportNoisyMax, {"noise": "exponential"}),
        ("report noisy max, Gaussian", m.ReportNoisyMax, {"noise": "gaussian"}),
    ]
    settings: list[tuple[str, Sensitivity, Callable[[tuple[int, ...]], bool], tuple[list[int], list[int]]]] = [
        ("counts", UNIT, lambda move: sum(map(abs, move)) == 1, ([0, 20, 0], [1, 20, 0])),
        ("scores", three, lambda move: True, ([0, 20, 20], [1, 19, 19])),
    ]
    for (name, kind, options), (setting, sensitivity, allowed, pair) in product(selections, settings):
        gaussian = options.get("noise") == "gaussian"
        target: Guarantee = GaussianDP(1.0) if gaussian else PureDP(1.0)
        mechanism = kind.calibrate(target, sensitivity, **options)
        claim = mechanism.profile(sensitivity)
        largest = 3 if not isinstance(mechanism, m.ReportNoisyMax) or options["noise"] == "exponential" else 2
        worst = _REACHABLE[setting]

        def exact(
            mechanism: Any = mechanism,
            claim: Any = claim,
            allowed: Any = allowed,
            largest: int = largest,
            pair: Any = pair,
        ) -> Audit:
            pairs = [*_score_pairs(largest, allowed), pair]
            known: dict[tuple[int, ...], Array] = {}

            def law(scores: list[int]) -> Array:
                if tuple(scores) not in known:
                    known[tuple(scores)] = np.asarray(mechanism.probabilities(scores))
                return known[tuple(scores)]

            return audit_choices(claim, [(law(a), law(b)) for a, b in pairs])

        yield Case(
            f"{name}, {setting}", target, _chosen(mechanism, worst[0]), _chosen(mechanism, worst[1]), exact, False, True
        )


def quantile_cases() -> Iterator[Case]:
    """Quantiles on a small grid: all data sets of up to four rows exactly."""
    bounds = Bounds(0, 6, grid=1)
    for neighbours in Neighbours:
        median = Quantiles(probabilities=0.5, bounds=bounds)
        sensitivity = median.sensitivity(neighbours=neighbours)
        mechanism = m.QuantileChoice.calibrate(PureDP(1.0), sensitivity, statistic=median)

        def exact(
            median: Any = median,
            mechanism: Any = mechanism,
            neighbours: Any = neighbours,
            sensitivity: Any = sensitivity,
        ) -> Audit:
            law = {
                rows: mechanism.chances(median.exact(list(rows), neighbours=neighbours).value)
                for size in range(5)
                for rows in combinations_with_replacement(range(0, 7, 2), size)
            }
            return audit_choices(
                mechanism.profile(sensitivity), [(law[a], law[b]) for a, b in _adjacent(law, neighbours)]
            )

        rows = [0, 0, 0, 6, 6], [0, 0, 0, 0, 6] if neighbours is Neighbours.REPLACE_ONE else [0, 0, 0, 6]
        truths = [median.exact(side, neighbours=neighbours).value for side in rows]
        name = f"median, {neighbours.value.replace('_', '/')}"
        yield _case(name, mechanism.guarantee(sensitivity), mechanism, (truths[0], truths[1]), exact, **_LOOSE)
    quartiles = Quantiles(probabilities=(0.25, 0.5, 0.75), bounds=bounds, recursive=True)
    moved = quartiles.sensitivity(neighbours=Neighbours.ADD_REMOVE)
    split = m.QuantileChoice.calibrate(PureDP(1.0), moved, statistic=quartiles)
    here, there = (quartiles.exact(rows, neighbours=Neighbours.ADD_REMOVE).value for rows in ([0, 0, 6], [0, 6]))
    yield _case("quartiles, recursive", PureDP(1.0), split, (here, there), None, **_LOOSE)


def _adjacent(law: Any, neighbours: Neighbours) -> Iterator[tuple[Any, Any]]:
    for rows in law:
        for place in range(len(rows)):
            rest = rows[:place] + rows[place + 1 :]
            if neighbours is Neighbours.ADD_REMOVE:
                yield rows, rest
            else:
                yield from ((rows, tuple(sorted((*rest, other)))) for other in range(0, 7, 2))


# ---- Group cases: rules that show which labels of an unlimited set are common


_ASKED = ApproxDP(1.0, 0.05)
_LARGEST = 12


def _law(rule: GroupSelection, sizes: Sequence[int]) -> Array:
    """Probability of every set of shown groups; a group of nobody is never shown."""
    chances = [float(rule.chance([size])[0]) if size else 0.0 for size in sizes]
    return np.array(
        [
            np.prod([p if one else 1 - p for p, one in zip(chances, shown, strict=True)])
            for shown in product([True, False], repeat=len(sizes))
        ]
    )


def _draws(rule: GroupSelection, sizes: Sequence[int]) -> Draw:
    """Which set was shown, as a number, drawn as releases draw it."""
    held = np.array([size for size in sizes if size], dtype=np.int64)

    def draw(count: int) -> Array:
        shown = rule.shown(np.tile(held, count)).reshape(count, held.size)
        return np.asarray(shown @ (1 << np.arange(held.size)), dtype=float)

    return draw


def group_cases() -> Iterator[Case]:
    """Both rules, for a unit in one group and in two: all small sizes exactly, and a pair near the turn by draws."""
    rules: list[tuple[type[GroupSelection], int]] = [
        (kind, groups) for kind in (m.OptimalSelection, m.GaussianThreshold) for groups in (1, 2)
    ]
    for kind, groups in rules:
        sensitivity = Sensitivity(moves=(1.0,) * groups)
        rule = kind.calibrate(_ASKED, sensitivity)

        def exact(rule: GroupSelection = rule, groups: int = groups, sensitivity: Sensitivity = sensitivity) -> Audit:
            pairs = []
            for sizes in combinations_with_replacement(range(_LARGEST), groups):
                first = _law(rule, sizes)
                second = _law(rule, [size + 1 for size in sizes])
                pairs += [(first, second), (second, first)]
            return audit_choices(rule.profile(sensitivity), pairs)

        turn = rule.size_shown(0.5)
        name = f"{rule.name.replace('_', ' ')}, {groups} group{'s' if groups > 1 else ''} a unit"
        here = _draws(rule, [turn - 1] * groups)
        there = _draws(rule, [turn] * groups)
        yield Case(name, _ASKED, here, there, exact, tight=False)


# ---- Path cases: rows left out, several mechanisms in a row, models and whole sessions


def omission_cases() -> Iterator[Case]:
    """A noisy count of the rows that a random step leaves."""
    inner = m.Laplace(1.0)
    step: Omission
    for name, step, rows in (
        ("Poisson sample, then Laplace", m.PoissonSample(0.5), [1.0]),
        (
            "outlier suppression, then Laplace",
            m.OutlierSuppression(0.2, 0.6, AbsoluteDistance((0, 1))),
            [0.0, 0.0, 0.0, 1.0],
        ),
    ):
        claim = step.amplify(PureDP(1.0))
        less = rows[:-1]
        exact = partial(audit_cells, claim, [_mixed(_kept_law(step, rows), _kept_law(step, less), inner)])
        here = _counted(step, rows, inner)
        there = _counted(step, less, inner)
        yield Case(name, claim, here, there, exact, tight=isinstance(step, m.PoissonSample), slow=True)


def _counted(step: Omission, rows: list[float], mechanism: m.Laplace) -> Draw:
    def draw(n: int) -> Array:
        kept = [int(step.kept(rows).sum()) if rows else 0 for _ in range(n)]
        return np.asarray(mechanism.law(np.array(kept)).sample())

    return draw


def _kept_law(step: Omission, rows: list[float]) -> Array:
    """Probability of every number of kept rows."""
    if not rows:
        return np.array([1.0])
    if isinstance(step, m.PoissonSample):
        keep = np.full(len(rows), step.rate)
    else:
        step = cast(m.OutlierSuppression, step)
        keep = 1 - outlier_scores(rows, step.m, step.M, step.distance)
    law = np.array([1.0])
    for chance in keep:
        law = np.convolve(law, [1 - chance, chance])
    return law


def _mixed(here: Array, there: Array, mechanism: m.Laplace) -> Cells:
    """Mixtures of one mechanism's laws at 0, 1, …, cut into the same cells."""
    laws = [mechanism.law(float(count)) for count in range(max(here.size, there.size))]
    edges = np.unique(np.concatenate([np.asarray(law.quantile(np.linspace(0.0001, 0.9999, 4001))) for law in laws]))
    masses = [np.diff(np.concatenate([[0.0], np.asarray(law.cdf(edges)), [1.0]])) for law in laws]
    p, q = (
        sum((w * one for w, one in zip(side, masses, strict=False)), np.zeros(edges.size + 1)) for side in (here, there)
    )
    return Cells(np.asarray(p), np.asarray(q))


def pipeline_case() -> Case:
    """A count, a mean and a choice of one data set, through the composed profile."""
    laplace = m.Laplace(2.0)
    gaussian = m.Gaussian(2.0)
    choice = m.ExponentialMechanism(0.5)
    claim = m.compose_curves([one.profile(UNIT) for one in (laplace, gaussian, choice)])
    stated = ApproxDP(float(claim.epsilon_at(0.01)), 0.01)
    scores = [0, 3, 3], [1, 3, 3]

    def draw(side: int) -> Draw:
        def drawn(n: int) -> Array:
            chosen = np.array([choice.choose(scores[side]) for _ in range(n)], dtype=float)
            first, second = (np.asarray(one.law(float(side)).sample(n)) for one in (laplace, gaussian))
            return np.column_stack([first, second, chosen])

        return drawn

    def exact() -> Audit:
        parts = [law_cells(one.law(0.0), one.law(1.0)).merged(400) for one in (laplace, gaussian)]
        p, q = (np.asarray(choice.probabilities(one)) for one in scores)
        joint = Cells(p, q, light=0.0)
        for part in parts:
            joint = Cells(np.outer(joint.p, part.p).ravel(), np.outer(joint.q, part.q).ravel(), light=1e-15)
        return audit_cells(claim, [joint])

    return Case("pipeline: Laplace, Gaussian, choice", stated, draw(0), draw(1), exact, tight=False, slow=True)


# ---- models, comparisons, sessions --------------------------------------------------------------------------------


def _plenty(guarantee: Guarantee) -> Ledger:
    """A ledger that pays for one release after another."""
    return Ledger(":memory:", guarantee)


def model_cases() -> Iterator[Case]:
    """Fits and comparisons of a few rows, with and without one of them."""
    rows = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]])
    more = np.array([*rows, [1.0, 1.0]])

    def lloyd(data: Array) -> Array:
        model = DPLloyd(2, guarantee=PureDP(1.0), bounds=((0, 1), (0, 1)), iterations=1)
        model.fit(data, ledger=_plenty(PureDP(1.0)))
        return np.ravel([model.counts_, *model.cluster_centers_.T])

    def median(data: Array) -> Array:
        model = KMedian(1, guarantee=PureDP(1.0), universe=[[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]], swaps=1)
        return np.asarray(model.fit(data, ledger=_plenty(PureDP(1.0))).center_indices_, dtype=float)

    def bayes(data: Array) -> Array:
        labels = ["a", "b", "a", "b"][: len(data)]
        model = GaussianNaiveBayes(guarantee=PureDP(1.0), bounds=((0, 1), (0, 1)), classes=("a", "b"))
        model.fit(data, labels, ledger=_plenty(PureDP(1.0)))
        return np.ravel([model.class_count_, *model.theta_.T])

    def difference(data: Array) -> Array:
        found = compare_means(data[:, 0], rows[:, 1], bounds=(0, 1), guarantee=PureDP(1.0), ledger=_plenty(PureDP(1.0)))
        return np.ravel(found.noisy["moments"])

    replaced = np.array([*rows[:-1], [0.0, 0.0]])
    for name, fit, here, there in (
        ("DPLloyd", lloyd, rows, more),
        ("KMedian", median, rows, more),
        ("naive Bayes", bayes, rows, more),
        ("difference of means", difference, rows, replaced),
    ):
        yield Case(
            name, PureDP(1.0), _fitted(fit, here), _fitted(fit, there), None, tight=False, slow=True, deep_only=True
        )


def _fitted(fit: Callable[[Array], Array], data: Array) -> Draw:
    return lambda n: np.array([fit(data) for _ in range(n)])


SCHEMA_COLUMNS: dict[str, Bounds | Categories] = {
    "arm": Categories(["A", "B", "C"], nulls="=A", unknown="=A"),
    "spend": Bounds(0, 10, grid=0.5, nulls=0),
}
UNIT_SCHEMA = Schema(columns=SCHEMA_COLUMNS, unit=PrivacyUnit("person", contribution=Contribution(groups=2, rows=2)))
UNIT_TABLE: dict[str, list[Any]] = {
    "person": [1, 1, 1, 1, 2, 2, 3, 4, 5],
    "arm": ["A", "A", "B", "B", "A", "B", "A", "C", "B"],
    "spend": [10.0, 10.0, 0.0, 3.0, 5.0, 10.0, 0.0, 9.5, 2.0],
}
UNIT_EXTREMES: dict[str, list[Any]] = {"arm": ["A", "B", "C"], "spend": [10.0, 0.0, 99.0]}


def session_case() -> Case:
    """A session of four questions at the level of units: all their outputs together, against the whole budget."""
    share = PureDP(0.25)

    asked: list[MeasuredQuestion[Any]] = [
        CountQuestion(UNIT_SCHEMA, guarantee=share),
        SumQuestion(UNIT_SCHEMA, "spend", guarantee=share),
        TableQuestion(UNIT_SCHEMA, "arm", guarantee=share),
        QuantileQuestion(UNIT_SCHEMA, "spend", 0.5, guarantee=share),
    ]

    def draw(table: dict[str, list[Any]]) -> Draw:
        def drawn(n: int) -> Array:
            ledger = Ledger(":memory:", PureDP(1000.0), unit="person")
            session = Session(as_table(table), UNIT_SCHEMA, ledger=ledger)
            exacts = [(session.exact(question), question.measurement.mechanism) for question in asked]
            outputs = []
            for number in range(n):
                if number % 900 == 899:  # its budget is spent
                    ledger = Ledger(":memory:", PureDP(1000.0), unit="person")
                values = [np.ravel(release(exact, how, ledger=ledger).value) for exact, how in exacts]
                outputs.append(np.concatenate(values))
            return np.array(outputs)

        return drawn

    # The unit with the most rows, and a newcomer with rows at the extremes: the first of the proposals.
    pair = next(iter(unit_pairs(UNIT_TABLE, "person", UNIT_EXTREMES)))
    return Case("session, one person removed", PureDP(1.0), draw(pair[0]), draw(pair[1]), None, False, True, True)


def as_table(table: dict[str, list[Any]]) -> Any:
    """Columns as a table that sessions read."""
    import pyarrow

    return pyarrow.table(table)


def cases() -> list[Case]:
    """Every case."""
    return [
        *_scalars(), *_vectors(), *_tables(), *_structured(), *choice_cases(), *group_cases(), *quantile_cases(),
        *omission_cases(), pipeline_case(), *model_cases(), session_case(),
    ]  # fmt: skip


# ---- one number ---------------------------------------------------------------------------------------------------


def _scalar(
    name: str, mechanism: Mechanism, sensitivity: Sensitivity, pair: tuple[Any, Any], stated: Guarantee | None = None
) -> Case:
    def exact() -> Audit:
        return audit_laws(mechanism.profile(sensitivity), [[(mechanism.law(pair[0]), mechanism.law(pair[1]))]])

    return _case(name, stated or mechanism.guarantee(sensitivity), mechanism, pair, exact)


def _scalars() -> Iterator[Case]:
    third, tenth = Fraction(1, 3), Sensitivity(l1=0.1)
    yield _scalar("Laplace, ε 1", m.Laplace.calibrate(PureDP(1.0), UNIT), UNIT, (0.0, 1.0))
    yield _scalar("Laplace, ε 3, a mean of thirds", m.Laplace.calibrate(PureDP(3.0), UNIT), UNIT, (third, third + 1))
    yield _scalar("geometric, ε 1", m.Geometric.calibrate(PureDP(1.0), UNIT), UNIT, (0, 1))
    two = Sensitivity(moves=(2,))
    yield _scalar("geometric, ε 2, two rows a unit", m.Geometric.calibrate(PureDP(2.0), two), two, (0, 2))
    steps = m.Staircase.calibrate(PureDP(3.0), UNIT)
    yield _scalar("staircase, ε 3", steps, UNIT, (0.0, 1.0), PureDP(3.0))
    yield _scalar("Gaussian, μ 1", m.Gaussian.calibrate(GaussianDP(1.0), UNIT), UNIT, (0.0, 1.0))
    concentrated = ZeroConcentratedDP(0.5)
    yield _scalar("discrete Gaussian, ρ 0.5", m.DiscreteGaussian.calibrate(concentrated, UNIT), UNIT, (0, 1))
    yield _scalar(
        "discrete Gaussian, ρ 0.5, two rows a unit", m.DiscreteGaussian.calibrate(concentrated, two), two, (0, 2)
    )
    tenth_of_rows = Sensitivity(moves=(0.1,))
    share = m.WholeShare(m.Geometric(1.0), 10)
    yield _scalar("a whole share of ten rows, ε 1", share, tenth_of_rows, (Fraction(1, 10), Fraction(2, 10)))
    approximate = ApproxDP(1.0, 0.01)
    yield _scalar("Gaussian, (ε 1, δ 0.01)", m.Gaussian.calibrate(approximate, UNIT), UNIT, (0.0, 1.0), approximate)
    flat = m.GeneralizedGaussian.calibrate(approximate, UNIT, order=4)
    yield _scalar("generalized Gaussian of order 4, (ε 1, δ 0.01)", flat, UNIT, (0.0, 1.0), approximate)
    bounded = m.BoundedLaplace.calibrate(PureDP(1.0), tenth, bounds=(0, 1))
    yield _scalar("bounded Laplace, ε 1", bounded, tenth, (0.0, 0.1))
    failing = m.BoundedLaplace.calibrate(approximate, tenth, bounds=(0, 1))
    yield _scalar("bounded Laplace, (ε 1, δ 0.01)", failing, tenth, (0.0139, 0.1139), approximate)
    half_line = m.BoundedLaplace.calibrate(PureDP(1.0), UNIT, bounds=(0, None))
    yield _scalar("bounded Laplace on a half-line", half_line, UNIT, (0.0, 1.0))
    inflated = m.BoundaryInflatedLaplace.calibrate(PureDP(1.0), tenth, bounds=(0, 1))
    yield _scalar("boundary-inflated Laplace, ε 1", inflated, tenth, (0.0, 0.1))
    kept = m.BoundedGaussian.calibrate(GaussianDP(1.0), UNIT, bounds=(-9, 10))
    yield _scalar("bounded Gaussian, μ 1", kept, UNIT, (0.0, 1.0))
    every: tuple[tuple[str, Mechanism], ...]
    every = (
        ("Laplace", m.Laplace(1.0)),
        ("geometric", m.Geometric(1.0)),
        ("staircase", m.Staircase.calibrate(PureDP(1.0), UNIT)),
        ("Gaussian", m.Gaussian(1.0)),
        ("discrete Gaussian", m.DiscreteGaussian(1.0)),
    )
    for name, mechanism in every:
        exact = partial(audit_exactly, mechanism, UNIT, truths=(0.0, 0.3))
        yield _case(
            f"{name}, every distance up to Δ", mechanism.guarantee(UNIT), mechanism, (0.5, 0.0), exact, tight=False
        )


# ---- several numbers ----------------------------------------------------------------------------------------------


def _product(
    name: str, mechanism: Mechanism, sensitivity: Sensitivity, here: Sequence[Any], there: Sequence[Any]
) -> Case:
    """Independent coordinates: only those that move count."""
    claim = mechanism.profile(sensitivity)

    def exact() -> Audit:
        moved = [(a, b) for a, b in zip(here, there, strict=True) if a != b]
        return audit_laws(claim, [[(mechanism.law(a), mechanism.law(b)) for a, b in moved]])

    return _case(name, mechanism.guarantee(sensitivity), mechanism, (list(here), list(there)), exact)


def _vectors() -> Iterator[Case]:
    yield _product("Laplace, two cells", m.Laplace.calibrate(PureDP(1.0), PAIR), PAIR, [5, 3, 8, 1], [4, 4, 8, 1])
    yield _product("geometric, two cells", m.Geometric.calibrate(PureDP(1.0), PAIR), PAIR, [5, 3, 8, 1], [4, 4, 8, 1])
    yield _product("Gaussian, two cells", m.Gaussian.calibrate(GaussianDP(1.0), PAIR), PAIR, [5, 3, 8, 1], [4, 4, 8, 1])
    yield _box()
    whole = m.DiscreteGaussian.calibrate(ZeroConcentratedDP(0.5), PAIR)
    yield _product("discrete Gaussian, two cells", whole, PAIR, [5, 3, 8, 1], [4, 4, 8, 1])
    changes = (Sensitivity(l1=0.1), Sensitivity(l1=0.4))
    mechanism = m.BoundedLaplace.calibrate(PureDP(1.0), changes, bounds=((0, 1), (0, 2)))
    claim = mechanism.profile(Sensitivity(coordinates=(0.1, 0.4)))
    parts = [
        m.BoundedLaplace(scale=scale, bounds=bounds)
        for scale, bounds in zip(mechanism.scale, mechanism.bounds, strict=True)
    ]
    pairs = [(part.law(0.0), part.law(change)) for part, change in zip(parts, (0.1, 0.4), strict=True)]
    ends, exact = ([0.0, 0.0], [0.1, 0.4]), partial(audit_laws, claim, [pairs])
    yield _case("bounded Laplace, two coordinates", PureDP(1.0), mechanism, ends, exact)


def _box() -> Case:
    """Two numbers that both move by one, which box noise protects together."""
    both = Sensitivity(linf=1.0, dimension=2)
    mechanism = m.BoxNoise.calibrate(PureDP(1.0), both)
    ends = [0.0, 0.0], [1.0, 1.0]

    def exact() -> Audit:
        return audit_cells(mechanism.profile(both), [_box_cells(mechanism.scale)])

    return _case("box noise, two numbers, ε 1", mechanism.guarantee(both), mechanism, ends, exact)


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
    scale = m.Gaussian.calibrate(GaussianDP(1.0), PAIR).scale
    claim = m.Gaussian(scale).profile(PAIR)
    tables: dict[str, Mechanism] = {
        "rank-deficient Gaussian": m.RankDeficientGaussian(scale=scale),
        "James-Stein towards zero": m.JamesSteinGaussian(scale=scale, towards="zero"),
        "James-Stein towards the mean": m.JamesSteinGaussian(scale=scale),
        "James-Stein, rank-deficient": m.JamesSteinGaussian(scale=scale, rank_deficient=True),
        "James-Stein under two public totals": m.JamesSteinGaussian(scale=scale, rank_deficient=True, constraints=((1,
        1, 0, 0, 0), (0, 0, 1, 1, 1)), values=(8, 8)), "clipped Gaussian": m.Clipped(mechanism=m.Gaussian(scale)),
        "Gaussian truncated to a rectangle": m.Clipped(mechanism=m.Gaussian(scale), clip="box", box=((0, 5),)),
        "Gaussian on the simplex, whole numbers": m.Clipped(mechanism=m.Gaussian(scale), clip="simplex",
        rank_deficient=True, integers=True),
    }  # fmt: skip
    for name, mechanism in tables.items():
        exact = partial(audit_laws, claim, [[(m.Gaussian(scale).law(0.0), m.Gaussian(scale).law(shift))]])
        yield _case(name, GaussianDP(1.0), mechanism, (here, there), exact, **_LOOSE)
    laplace = m.Clipped.calibrate(PureDP(1.0), PAIR, kind=m.Laplace)
    plain = m.Laplace(laplace.scale)
    exact = partial(audit_laws, laplace.profile(PAIR), [[(plain.law(a), plain.law(a + 1)) for a in (0, 1)]])
    yield _case("clipped Laplace", laplace.guarantee(PAIR), laplace, (here, there), exact, **_LOOSE)


def _structured() -> Iterator[Case]:
    moves = Sensitivity(moves=(0.1, 0.1), dimension=3)
    here = [Fraction(0), Fraction(1, 10), Fraction(9, 10)]
    there = [Fraction(1, 10), Fraction(0), Fraction(9, 10)]
    for method in ("rescale", "all_but_one", "universal_histogram", "simplex"):
        mechanism = m.BoundedProportions.calibrate(PureDP(1.0), moves, method=method)
        name = f"bounded proportions, {method}"
        exact = partial(_measured_exactly, mechanism, moves, here, there)
        yield _case(name, mechanism.guarantee(moves), mechanism, (here, there), exact, **_LOOSE)
    tied = Sensitivity(l1=0.4)
    pair = m.TiedPair.calibrate(PureDP(1.0), tied, bounds=((0, 1), (0.2, 1)), total=1.0)
    yield Case(
        "tied pair",
        pair.guarantee(tied),
        lambda n: pair.first_law([0.0, 1.0]).sample(n),
        lambda n: pair.first_law([0.2, 0.8]).sample(n),
        lambda: audit_laws(pair.profile(tied), [[(pair.first_law([0.0, 1.0]), pair.first_law([0.2, 0.8]))]]),
    )
    yield _covariance()


def _measured_exactly(mechanism: m.BoundedProportions, moves: Sensitivity, here: Any, there: Any) -> Audit:
    """The numbers that are measured are independent; the rest reads no data."""
    law: Any = {"bounded": m.BoundedLaplace, "inflated": m.BoundaryInflatedLaplace}.get(mechanism.noise)
    one = m.Laplace(mechanism.scale) if law is None else law(scale=mechanism.scale, bounds=(0, 1))
    queries = [mechanism._queries(truth) for truth in (here, there)]
    moved = [(a, b) for a, b in zip(*queries, strict=True) if a != b]
    return audit_laws(mechanism.profile(moves), [[(one.law(a), one.law(b)) for a, b in moved]])


def _covariance() -> Case:
    """Variances, then a covariance whose domain the noisy variances fix: densities multiply."""
    changes, bounds = (0.36, 0.81, 0.54), ((0.0, 9.1), (0.0, 20.5))
    mechanism = m.BoundedCovariance(budget=PureDP(1.0), changes=changes, variance_bounds=bounds)
    here, there = [0.0, 0.0, 0.0], [0.36, 0.81, 0.54]
    part = PureDP(1.0).split(3)[0]

    def logs(entry: int, outputs: Array, domain: tuple[float, float]) -> Array:
        own = Sensitivity(l1=min(changes[entry], domain[1] - domain[0]))
        laws = m.BoundedLaplace.calibrate(part, own, bounds=domain)
        clamped = [min(max(truth[entry], domain[0]), domain[1]) for truth in (here, there)]
        a, b = (np.asarray(laws.law(truth).pdf(outputs)) for truth in clamped)
        return np.asarray(np.abs(np.log(a / b)))

    def exact() -> Audit:
        variances = [logs(entry, np.linspace(0, bounds[entry][1], 201), bounds[entry]).max() for entry in (0, 1)]
        reaches = [0.01, 0.1, 0.5, 2.0, 10.0]
        covariances = [logs(2, np.linspace(-reach, reach, 201), (-reach, reach)).max() for reach in reaches]
        found = float(sum(variances) + max(covariances))
        return loss_audit(1.0, found, (), ())

    return _case("bounded covariance matrix", PureDP(1.0), mechanism, (here, there), exact, **_LOOSE, deep_only=True)


# ---- Shapes: every mechanism of several numbers, for every way in which a sensitivity can be stated.
#
# A sensitivity says little (a norm) or much (a change of each number). Whatever it leaves open, the worst change that
# it allows is tried: all on one number, spread over several, at the ends of domains and in their middle. The loss comes
# from the laws themselves, and the claim from what the mechanism was calibrated to.


_SHAPES: tuple[dict[str, Any], ...] = (
    *({"l1": 1.5, "dimension": dimension} for dimension in (1, 2, 3)),
    *({"l2": 1.5, "dimension": dimension} for dimension in (2, 3)),
    {"l1": 2.0, "l2": 1.5, "dimension": 3}, {"linf": 0.5, "dimension": 3}, {"moves": (1, 1), "dimension": 3},
    {"moves": (1.0, 0.5), "dimension": 2}, {"coordinates": (0.25, 1.0, 0.5)},
)  # fmt: skip


def audit_shapes() -> Audit:
    """Compare the loss of every mechanism with its claim, for every shape of a sensitivity."""
    return recomputed("Shapes of sensitivities", [partial(_shaped, facts) for facts in _SHAPES])


def _shaped(facts: dict[str, Any]) -> Iterator[Compared]:
    stated = Sensitivity(**facts)
    size = stated.dimension or len(stated.moves or (1,))
    for name, guarantee, make, (low, high) in _makers(stated, size):
        try:
            mechanism = make()
        except DiscreetError:  # what this shape leaves open, this mechanism has to know
            continue
        claim = mechanism.guarantee(stated)
        ends = np.array([np.broadcast_to(end, size) for end in (low, high)])
        starts = [ends[0], ends.mean(axis=0)]
        for change, start in product(_worst_changes(facts, size), starts):
            there = np.minimum(start + change, ends[1])  # no truth lies beyond its domain
            draws = [(Numbers(mechanism.law(truth)),) for truth in (start, there)]
            words = f"{name} at {guarantee}, {facts}"
            lost = loss_between(claim, *draws)
            yield (words if lost.passed else f"{words}: {lost.found} where {lost.claimed} is claimed"), lost.passed


def _makers(
    stated: Sensitivity, size: int
) -> Iterator[tuple[str, Guarantee, Callable[[], Mechanism], tuple[Any, Any]]]:
    """Mechanisms of several numbers, with the ends between which truths lie."""
    pure, normal = PureDP(2.0), GaussianDP(1.0)
    free = (-8.0, 8.0)
    yield "Laplace", pure, partial(m.Laplace.calibrate, pure, stated), free
    yield "box noise", pure, partial(m.BoxNoise.calibrate, pure, stated), free
    yield "Gaussian", normal, partial(m.Gaussian.calibrate, normal, stated), free
    if all(float(move).is_integer() for move in (stated.moves or (0.5,))):
        yield "geometric", pure, partial(m.Geometric.calibrate, pure, stated), free
    low, high = [0.0, -9.0, 0.0][:size], [0.5, 9.0, 4.0][:size]  # one is narrower than what it may move by
    every: list[Any] = [((0.0, 2.0), 0.0, 2.0), (tuple(zip(low, high, strict=True)), low, high)]
    for bounds, least, most in every:
        kept = partial(m.BoundedGaussian.calibrate, normal, stated, bounds=bounds)
        yield "BoundedGaussian", normal, kept, (least, most)
        for kind in (m.BoundedLaplace, m.BoundaryInflatedLaplace):
            yield kind.__name__, pure, partial(kind.calibrate, pure, stated, bounds=bounds), (least, most)


def _worst_changes(facts: dict[str, Any], size: int) -> Iterator[Array]:
    """Changes that a sensitivity just allows: on one number, evenly on some, and as each number's own are stated.

    From what is stated alone: the norms that follow from it are the package's, and may be wrong.
    """
    if "coordinates" in facts:
        yield np.array(facts["coordinates"])
        return
    if "moves" in facts:
        moves = [*facts["moves"], *[0.0] * (size - len(facts["moves"]))]
        yield from (np.array(order) for order in {*permutations(moves)})
        return
    roots = {"l1": 1.0, "l2": 0.5, "linf": 0.0}
    for some in range(1, size + 1):
        most = [facts[norm] / some**root for norm, root in roots.items() if norm in facts]
        for places in combinations(range(size), some):
            change = np.zeros(size)
            change[list(places)] = min(most) * (1 - 1e-12)  # rounding must not push it beyond what is stated
            yield change
