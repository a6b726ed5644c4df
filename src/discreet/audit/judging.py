"""Judging: what neighbours' answers to one question tell apart, beside what was charged and declared."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np

from discreet.audit.pipeline import largest_loss, loss_between, number_laws
from discreet.audit.statistical import audit_draws
from discreet.audit.transcript import Choice, Draw, Numbers
from discreet.core.guarantee import ApproxDP, Guarantee, PureDP
from discreet.core.sensitivity import Sensitivity

__all__ = ["Answer", "QuestionAudit", "judged"]

_SLACK = 1 + 1e-9
"""Exact changes are compared as floats."""


@dataclass(frozen=True)
class QuestionAudit:
    """One question in one world.

    Attributes
    ----------
    question
        Its name.
    charged
        What the ledger recorded.
    reached
        The largest loss, as a share of the charge; for choices by exponential weights, the range by which their scores
        move, which is lost on some data if not on these.
    change, declared
        The largest ℓ₁ change of the exact value between neighbours, and the ℓ₁ sensitivity on record; None for
        choices.
    certified
        What draws on the worst pair certify, as a share of the charge; None where none were made.
    findings
        What is wrong.
    """

    question: str
    charged: Guarantee | None
    reached: float
    change: float | None
    declared: float | None
    certified: float | None
    findings: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        charged = None if self.charged is None else self.charged.to_dict()
        reached = self.reached if math.isfinite(self.reached) else None
        return {**vars(self), "charged": charged, "reached": reached, "findings": list(self.findings)}


@dataclass(frozen=True)
class Answer:
    """A question's answer on one table: what was told, with which draws, what it cost, and what went wrong."""

    told: str
    draws: tuple[Draw, ...]
    charged: Guarantee | None
    sensitivity: Sensitivity | None
    findings: tuple[str, ...]


def judged(
    name: str,
    answers: Sequence[Answer],
    pairs: Sequence[tuple[int, int]],
    *,
    expected: Mapping[int, Sequence[Fraction]] = MappingProxyType({}),
    draws: int = 0,
    confidence: float = 0.999,
) -> QuestionAudit:
    """Everything that tells neighbours apart by more than what was charged.

    Parameters
    ----------
    name
        The question.
    answers
        Its answers, one for each table.
    pairs
        Positions of neighbouring tables.
    expected
        By position: the exact value that the rows of a table give, where it is known.
    draws, confidence
        Real draws on each side of the worst pair, and the level of the bound from them.
    """
    first = answers[0]
    findings = dict.fromkeys(finding for answer in answers for finding in answer.findings)
    findings |= dict.fromkeys(_differences(answers))
    if findings or first.charged is None or first.sensitivity is None:
        return QuestionAudit(name, first.charged, math.inf, None, None, None, tuple(findings))
    if any(_places(answers[place].draws) != list(value) for place, value in expected.items()):
        findings["the exact value is not the one that its rows give"] = None
    changes = [_changes(answers[a].draws, answers[b].draws) for a, b in pairs]
    findings |= dict.fromkeys(_excesses(changes, first.sensitivity))
    worst = _worst_pairs(pairs, changes, first.draws, first.charged)
    losses = largest_loss([loss_between(first.charged, answers[a].draws, answers[b].draws) for a, b in worst])
    if not losses.passed:
        findings[f"{100 * losses.tightness:.4g} % of the charge is lost"] = None
    reached = losses.tightness
    if isinstance(first.charged, PureDP):
        scores = max((_scores(answers[a], answers[b]) for a, b in pairs), default=0.0) / first.charged.epsilon
        reached = max(reached, scores)
        if scores > 1 + 1e-6:
            findings[f"scores move by {100 * scores:.4g} % of the charge"] = None
    certified = None
    if draws and _only_numbers(first.draws):
        a, b = worst[0]
        certified = _certified(first.charged, answers[a].draws, answers[b].draws, draws, confidence)
        if certified > 1:
            findings[f"draws certify {100 * certified:.4g} % of the charge"] = None
    measured = float(max((sum(change) for change in changes), default=Fraction(0))) if changes[0] else None
    declared = first.sensitivity.l1 if measured is not None else None
    return QuestionAudit(name, first.charged, reached, measured, declared, certified, tuple(findings))


def _differences(answers: Sequence[Answer]) -> Iterator[str]:
    """What is not the same on all tables, though every draw gave the same."""
    if len({answer.told for answer in answers}) > 1:
        yield "published or recorded facts differ"
    if len({tuple(draw.shape for draw in answer.draws) for answer in answers}) > 1:
        yield "draws differ in kind or number"
    elif len({tuple(_scales(answer.draws)) for answer in answers}) > 1:
        yield "the noise depends on the data"


def _scales(draws: Sequence[Draw]) -> Iterator[tuple[Any, ...]]:
    for draw in draws:
        if isinstance(draw, Numbers):
            yield from ((kind, scale, *bounds) for kind, scale, _, *bounds in number_laws(draw.law))


def _places(draws: Sequence[Draw]) -> list[Fraction]:
    """Exact values, one by one."""
    return [law[2] for draw in draws if isinstance(draw, Numbers) for law in number_laws(draw.law)]


def _changes(first: Sequence[Draw], second: Sequence[Draw]) -> list[Fraction]:
    """How far each number moves between neighbours, largest first."""
    return sorted((abs(a - b) for a, b in zip(_places(first), _places(second), strict=True)), reverse=True)


def _excesses(changes: Sequence[Sequence[Fraction]], declared: Sensitivity) -> Iterator[str]:
    """Changes that the declared sensitivity does not cover."""
    for change in changes:
        l1, l2 = float(sum(change)), math.sqrt(float(sum(one**2 for one in change)))
        if declared.l1 is not None and l1 > declared.l1 * _SLACK:
            yield f"ℓ₁ moves by {l1:.6g}, declared {declared.l1:.6g}"
        if declared.l2 is not None and l2 > declared.l2 * _SLACK:
            yield f"ℓ₂ moves by {l2:.6g}, declared {declared.l2:.6g}"
        if declared.moves is not None:
            moves = [*declared.moves, *[0.0] * (len(change) - len(declared.moves))]
            if any(float(one) > most * _SLACK for one, most in zip(change, moves, strict=False)):
                yield "a number moves further than declared"


def _worst_pairs(
    pairs: Sequence[tuple[int, int]], changes: Sequence[Sequence[Fraction]], draws: Sequence[Draw], charged: Guarantee
) -> list[tuple[int, int]]:
    """Those that move numbers most, in either norm; all of them where there are choices.

    An (ε, δ) claim costs a convolution per number, so one pair has to do.
    """
    if not _only_numbers(draws):
        return list(pairs)
    by_l1 = max(range(len(pairs)), key=lambda place: sum(changes[place]))
    by_l2 = max(range(len(pairs)), key=lambda place: sum(one**2 for one in changes[place]))
    return [pairs[by_l1]] if isinstance(charged, ApproxDP) else list(dict.fromkeys([pairs[by_l1], pairs[by_l2]]))


def _only_numbers(draws: Sequence[Draw]) -> bool:
    return all(isinstance(draw, Numbers) for draw in draws)


def _scores(first: Answer, second: Answer) -> float:
    """Exponential choices lose up to the range of their scores' change, on some data if not on these."""
    both = zip(first.draws, second.draws, strict=True)
    return sum(_range(here, there) for here, there in both if isinstance(here, Choice) and isinstance(there, Choice))


def _range(first: Choice, second: Choice) -> float:
    if not first.exponential:
        return 0.0
    starts = np.union1d(first.starts, second.starts)
    here, there = (one.logs[np.searchsorted(one.starts, starts, side="right") - 1] for one in (first, second))
    return float(np.ptp(here - there))


def _certified(charged: Guarantee, here: Sequence[Draw], there: Sequence[Draw], draws: int, confidence: float) -> float:
    """What real noise of the two tables' laws certifies, as a share of the charge."""
    sides = []
    for side in (here, there):
        columns = [np.asarray(draw.law.sample(draws)).reshape(draws, -1) for draw in side if isinstance(draw, Numbers)]
        sides.append(np.concatenate(columns, axis=1))
    audit = audit_draws(sides[0], sides[1], charged, confidence=confidence)
    return audit.reached if audit.passed else max(audit.reached, 1 + 1e-9)
