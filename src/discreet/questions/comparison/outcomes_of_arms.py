"""Outcomes of arms: what questions about two arms and about several have in common."""

from __future__ import annotations

from typing import TypeVar

from discreet.core import requirements
from discreet.core.door import Claim
from discreet.core.protection import Neighbours
from discreet.core.rows import Selected
from discreet.core.schema import Bounds, Contribution
from discreet.display import number
from discreet.ledgers import Ledger
from discreet.questions.comparison.compare import Terms, method_named, public_facts
from discreet.questions.comparison.methods import Method
from discreet.questions.mean_difference import MeanDifference
from discreet.questions.question import Question

__all__ = ["OutcomesOfArms"]

A = TypeVar("A")


class OutcomesOfArms(Question[A]):
    """A column, the column of its arms, and how outcomes are bounded, protected and added up.

    The fields are those of the questions: their order is that of the methods of a session.
    """

    column: str
    by: str
    censor: tuple[float, float]
    method: str | Method
    arm: str
    unit_sum: Bounds | None
    spread: float | None
    statistic: MeanDifference

    @property
    def _by_id(self) -> bool:
        return self.schema.unit.column is not None

    @property
    def outcome(self) -> Bounds:
        """Bounds of one unit's outcome."""
        return self.unit_sum or self.schema.bounds(self.column)

    @property
    def _method(self) -> Method:
        return method_named(self.method, spread=self.spread)

    @property
    def _guess(self) -> float:
        """The standard deviation that a plan expects."""
        return (self.outcome.high - self.outcome.low) / 100 if self.spread is None else self.spread

    def _scenario(self, rows: int) -> str:
        """What a plan takes the data to be."""
        guessed = "" if self.spread is not None else ", a hundredth of the bounds' width"
        spread = f"a standard deviation of {number(self._guess)}{guessed}"
        return f"{rows:,} rows per arm, most at the lower bound, with {spread}"

    def _measured(self, *, arms: int, partitions: int | None) -> MeanDifference:
        """What is measured. Sizes of arms are public only where rows are the units and no row can drop out."""
        self.schema.bounds(self.column)  # refuses labels
        fixed = not self._by_id and self.schema.keeps_every_row([self.by, self.column])
        replaced = self.schema.neighbours is Neighbours.REPLACE_ONE
        return MeanDifference(
            bounds=(self.outcome.low, self.outcome.high),
            arms=arms,
            partitions=partitions,
            censor=requirements.listed("censor", self.censor, "censor=(0.1, 0.1)"),
            arm="private" if replaced and not fixed else self.arm,
        )

    def _selected(self, *within: str) -> Selected:
        """What has to be added up, by arm and by the columns ``within`` them."""
        return Selected(
            by=(self.by, *within),
            columns=(self.column,),
            contribution=Contribution(groups=1, rows=1) if self._by_id else None,
            unit_sum=self.outcome if self._by_id else None,
        )

    def _terms(self) -> Terms:
        """Validated arguments of the comparison itself."""
        facts = public_facts(self.schema.neighbours, self.statistic.arm)
        return Terms.of(
            self.guarantee, self.statistic, self.schema.protection(*facts), method=self._method,
            question=self.content(),
        )  # fmt: skip

    def claim(self, ledger: Ledger | None) -> Claim:
        return self._terms().certified_claim(self.statistic)
