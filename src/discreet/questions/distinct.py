"""Distinct: how many different labels a column holds, or how many units there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from discreet.core import requirements
from discreet.core.protection import Neighbours
from discreet.core.rows import Snapshot
from discreet.core.rows.keep import distinct_labels
from discreet.core.schema import Contribution
from discreet.core.sensitivity import Sensitivity
from discreet.inference.moments import whole_count, whole_interval
from discreet.mechanisms.additive import additive_noise
from discreet.questions import form
from discreet.questions.question import DeclaredColumns, MeasuredQuestion, Measurement, column_names, first_of
from discreet.results.release import Release, Statistic


@dataclass(frozen=True, kw_only=True)
class DistinctLabels(Statistic):
    """The number of different labels, where a unit counts with at most ``labels`` of its own.

    **Guarantee.** A unit that comes brings at most k = ``labels`` labels that nobody else has, and one that goes takes
    at most k away: the number moves by at most k. A unit that is replaced takes up to k away and brings up to k, so
    one number still moves by at most k. Numbers of several groups move by k together under add/remove, and by 2k, or
    √2·k in ℓ₂, where the labels leave one group and come to another. Proof: ``docs/proofs/private_bounds.md``.

    Parameters
    ----------
    labels
        At most this many labels of one unit, in all groups together.

    Examples
    --------
    >>> DistinctLabels(labels=3).sensitivity(neighbours=Neighbours.REPLACE_ONE).l1
    3.0
    """

    name: ClassVar[str] = "distinct_labels"
    labels: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", requirements.positive_integer("labels", self.labels))

    shown_value = staticmethod(whole_count)
    shown_interval = staticmethod(whole_interval)

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours, groups: int = 1) -> Sensitivity:
        """The distance by which one unit moves the numbers of so many groups."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        most = float(self.labels)
        if groups == 1:
            return Sensitivity(moves=(most,))
        if neighbours is Neighbours.REPLACE_ONE:
            # A move of a in one group and b in another has a, b ≤ k: moves=(k, k) has its norms.
            norms = Sensitivity(moves=(most, most))
            return norms if self.labels == 1 else Sensitivity(l1=norms.l1, l2=norms.l2)
        return Sensitivity(moves=(1.0,)) if self.labels == 1 else Sensitivity(l1=most, l2=most)


@dataclass(frozen=True)
class DistinctQuestion(MeasuredQuestion[Release]):
    """The number of different labels in a column, in all or by group; for the id column, the number of units.

    Guarantee
    ---------
    A unit counts with at most as many labels as it may contribute rows: see `DistinctLabels`.

    Attributes
    ----------
    column
        A declared column, with or without a list of its labels, or the id column.
    by
        Columns of labels whose combinations are the groups.
    contribution
        Limits per unit.

    Examples
    --------
    >>> from discreet import PrivateLabels, Schema
    >>> asked = DistinctQuestion(Schema(columns={"city": PrivateLabels()}), "city", epsilon=0.5)
    >>> asked.measurement.mechanism.scale
    2.0
    """

    topic: ClassVar[str] = "Counts and shares"
    answers: ClassVar[str] = "How many different labels does a column hold?"
    ask: ClassVar[str] = "distinct"
    also: ClassVar[tuple[str, ...]] = ("unique", "nunique")
    heading: ClassVar[str] = "Different values of {subject}"
    meaning: ClassVar[str] = "How many different values of {subject} there are."
    forms: ClassVar[form.Forms] = {"column": form.COLUMN, "by": form.COLUMNS}
    column: str
    _: KW_ONLY
    by: str | Sequence[str] = ()
    contribution: Contribution | None = None

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return {"column": first_of(columns.listed)}

    def _measured(self) -> Measurement:
        by = column_names(self.by)
        units = self.schema.unit.column is not None and self.column == self.schema.unit.column
        if not units:
            self.schema.column(self.column)
        cells = self.schema.cells(by, "by")
        alone = units and not by and not self.schema.unit_is_row
        once = Contribution(total=1) if alone else self.contribution
        most = self.schema.contribution(once).most_rows(cells)
        statistic = DistinctLabels(labels=most)
        sensitivity = statistic.sensitivity(neighbours=self.schema.neighbours, groups=cells)

        def from_rows(rows: Snapshot) -> Any:
            found = distinct_labels(rows, self.column, by, groups=most)
            return found.astype(np.int64) if by else int(found[0])

        return Measurement(
            statistic=self.grouped(statistic, by),
            sensitivity=sensitivity,
            mechanism=additive_noise(self.guarantee, sensitivity, whole=True),
            by=by,
            columns=() if units else (self.column,),
            contribution=once,
            public={},
            from_rows=from_rows,
            read="labels",
        )

    def columns_read(self) -> tuple[str, ...]:
        found = self.measurement
        return (*found.columns, *found.by)

    def counted_words(self) -> str | None:
        unit = self.schema.unit
        if self.schema.unit_is_row or self.column == unit.column:
            return None
        limits = self.schema.contribution(self.measurement.contribution)
        return f"at most {limits.most_rows(self.schema.cells(self.measurement.by))} labels of each {unit.name}"
