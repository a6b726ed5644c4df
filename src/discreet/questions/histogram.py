"""Histogram: how many rows fall into each public bin of a number, or have each label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.schema import Bounds, Contribution, stability
from discreet.mechanisms.additive import additive_noise
from discreet.questions import form
from discreet.questions.design import design_measurement, in_bins, no_design_for
from discreet.questions.grouped import Bins, public_bins
from discreet.questions.question import DeclaredColumns, Histograms, MeasuredQuestion, Measurement, first_of
from discreet.questions.tables.table import ContingencyTable, TableRelease, table_measurement


@dataclass(frozen=True)
class HistogramQuestion(MeasuredQuestion[TableRelease]):
    """Counts by the labels of a column, or by public bins of a number.

    Guarantee
    ---------
    A unit that keeps m rows moves the counts by at most m in ℓ₁ and in ℓ₂, and by twice as much when it is replaced.

    Examples
    --------
    >>> from discreet import Bounds, Schema
    >>> schema = Schema(columns={"age": Bounds(0, 120, grid=1)})
    >>> HistogramQuestion(schema, "age", epsilon=1.0, edges=[0, 18, 65, 120]).measurement.statistic.cells
    3
    >>> HistogramQuestion(schema, "age", epsilon=1.0, bins=4).measurement.statistic.columns["age"].edges
    (0.0, 30.0, 60.0, 90.0, 120.0)
    """

    topic: ClassVar[str] = "Counts and shares"
    answers: ClassVar[str] = "How are the values of one column distributed?"
    ask: ClassVar[str] = "histogram"
    under_design: ClassVar[bool] = True
    heading: ClassVar[str] = "Distribution of {subject}"
    meaning: ClassVar[str] = "How many {noun} fall into each bin."
    forms: ClassVar[form.Forms] = {"column": form.COLUMN, "edges": form.EDGES, "bins": form.WHOLE}
    column: str
    _: KW_ONLY
    edges: Sequence[float] | None = None
    bins: int | None = None
    contribution: Contribution | None = None
    _counted: str | None = field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return {"column": columns.numbers[0], "bins": 10} if columns.numbers else {"column": first_of(columns.listed)}

    def _bins(self, bounds: Bounds) -> Bins:
        if (self.edges is None) == (self.bins is None):
            raise InvalidParameter(
                "edges", self.edges, "a number needs either edges or bins", "Pass edges=[0, 10, 20], or bins=10."
            )
        if self.edges is not None:
            return public_bins("edges", bounds, self.edges)
        return public_bins("bins", bounds, requirements.positive_integer("bins", self.bins))

    def __post_init__(self, epsilon: float | None, delta: float | None, rho: float | None, mu: float | None) -> None:
        if self.schema.design is not None and isinstance(self.schema.column(self.column), Bounds):
            bins = self._bins(self.schema.bounds(self.column))
            schema, counted = in_bins(self.schema, self.column, bins.edges)
            object.__setattr__(self, "schema", schema)
            object.__setattr__(self, "_counted", counted)
        super().__post_init__(epsilon, delta, rho, mu)

    def _measured(self) -> Measurement:
        if self.schema.design is not None:
            no_design_for(self, "contribution")
            return design_measurement(
                self, "estimated count", (self._counted or self.column,), read="the number in the population"
            )
        if not isinstance(self.schema.column(self.column), Bounds):
            return table_measurement(self, (self.column,), self.contribution)
        bounds = self.schema.bounds(self.column)
        bins = self._bins(bounds)
        statistic = ContingencyTable({self.column: bins})
        # A limit per group is one in all here: rows are not grouped before they are binned.
        rows = Contribution(total=self.schema.contribution(self.contribution).most_rows(1))
        sensitivity = stability(rows, cells=statistic.cells, neighbours=self.schema.neighbours)
        size = self.public_size(self.column)

        def counts(found: Histograms) -> NDArray[np.int64]:
            steps, rows_at = found[0]
            places = bins.codes(np.array([float(int(step) * bounds.step) for step in steps]))
            return np.bincount(places, weights=rows_at, minlength=statistic.cells).astype(np.int64)

        return Measurement(
            statistic=statistic,
            sensitivity=sensitivity,
            mechanism=additive_noise(self.guarantee, sensitivity, whole=True),
            columns=(self.column,),
            contribution=self.contribution,
            public={} if size is None else {"n": size},
            from_histograms=counts,
            read="rows of a bin",
        )
