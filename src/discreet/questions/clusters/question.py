"""The question of clusters: centres of numeric columns that a schema describes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from discreet.core.door import Allowance, Claim, Passed
from discreet.core.errors import InvalidParameter
from discreet.core.protection import Neighbours
from discreet.core.rows import Snapshot, matrix
from discreet.questions import form
from discreet.questions.clusters.kmedian import KMedian
from discreet.questions.clusters.lloyd import DPLloyd
from discreet.questions.question import DeclaredColumns, Question, column_names
from discreet.results.ledger import Ledger
from discreet.results.plan import EXPECTED_ROWS, Plan, affordable


@dataclass(frozen=True)
class ClustersQuestion(Question[DPLloyd | KMedian]):
    """Centres of clusters of numeric columns; rows are the units.

    k-means centres (`DPLloyd`), or with a public ``universe`` of positions the k-median centres among them (`KMedian`).
    ``expected_rows`` sets the number of iterations of k-means where ``iterations`` does not.

    Guarantee
    ---------
    That of the model: ``docs/proofs/clustering.md``, for added and removed rows.
    """

    topic: ClassVar[str] = "Relations"
    answers: ClassVar[str] = "Where do rows gather? Publishes the centres."
    rehearsed: ClassVar[bool] = False
    ask: ClassVar[str] = "clusters"
    also: ClassVar[tuple[str, ...]] = ("kmeans", "k_means", "clustering")
    heading: ClassVar[str] = "Centres of {columns}"
    meaning: ClassVar[str] = "Centres around which rows lie."
    forms: ClassVar[form.Forms] = {
        "columns": form.COLUMNS,
        "n_clusters": form.WHOLE,
        "universe": form.POSITIONS,
        "iterations": form.WHOLE,
        "expected_rows": form.WHOLE,
    }
    columns: Sequence[str]
    n_clusters: int
    _: KW_ONLY
    universe: Sequence[Sequence[float]] | None = None
    iterations: int | None = None
    expected_rows: int | None = None

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return {"columns": columns.numbers[:2], "n_clusters": 3}

    def _validate(self) -> None:
        self.model()

    def model(self) -> DPLloyd | KMedian:
        """A model to be fitted: k-means within the columns' bounds, or k-median among public positions."""
        if self.schema.neighbours is not Neighbours.ADD_REMOVE or not self.schema.unit_is_row:
            raise InvalidParameter(
                "unit",
                self.schema.unit.name,
                "clusters are proved for added and removed rows",
                "Declare add_remove neighbours, and rows as units or features per unit.",
            )
        bounds = [(self.schema.bounds(name).low, self.schema.bounds(name).high) for name in self._names]
        if self.universe is None:
            return DPLloyd(
                self.n_clusters,
                guarantee=self.guarantee,
                bounds=bounds,
                iterations=self.iterations,
                expected_rows=self.expected_rows,
            )
        model = KMedian(self.n_clusters, guarantee=self.guarantee, universe=self.universe, swaps=self.iterations)
        if model.universe.shape[1] != len(bounds):
            raise InvalidParameter(
                "universe",
                model.universe.shape,
                f"must have {len(bounds)} numbers per position",
                "Give one number per column.",
            )
        return model

    @property
    def _names(self) -> tuple[str, ...]:
        return column_names(self.columns, "columns")

    def content(self) -> dict[str, Any]:
        return {
            "ask": self.ask,
            "columns": list(self._names),
            "model": self.model().description(),
            "schema": self.schema.facts_of(self._names),
        }

    def claim(self, ledger: Ledger | None) -> Claim:
        return self.model().claim(self.content())

    def draw(self, rows: Snapshot, claim: Claim, allowance: Allowance, passed: Passed) -> DPLloyd | KMedian:
        model = self.model()
        return model.drawn(model.prepared(matrix(rows, self._names)), claim, allowance, passed)

    def read(self, stored: Any) -> DPLloyd | KMedian:
        return self.model().restored(stored)

    def plan(self, ledger: Ledger | None = None) -> Plan:
        model = self.model()
        planned = model.plan()
        remaining, after = affordable(ledger, planned.guarantee)
        return Plan(
            statistic=model.name,
            mechanism=planned.mechanism,
            scale=planned.scale,
            guarantee=planned.guarantee,
            read=planned.read,
            error_95=planned.error_95,
            scenario=planned.scenario if planned.error_95 is not None else "",
            standard_error=planned.standard_error,
            remaining=remaining,
            remaining_after=after,
            notes=() if planned.error_95 is not None else (EXPECTED_ROWS,),
            details=planned.to_dict(),
        )
