"""Count: how many rows there are, or have a property."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.numbers import MAX_ROWS, column
from discreet.core.protection import Neighbours
from discreet.core.schema import Contribution, stability
from discreet.core.sensitivity import Sensitivity
from discreet.inference.moments import whole_count, whole_interval
from discreet.mechanisms.additive import additive_noise
from discreet.questions import form
from discreet.questions.bounded import BoundedStatistic, Domain
from discreet.questions.design import design_measurement, no_design_for
from discreet.questions.question import MeasuredQuestion, Measurement, column_names
from discreet.questions.tables.table import table_measurement
from discreet.results.release import Release


def labelled(data: Any) -> NDArray[Any]:
    """A column of labels as an array; refuses rows of unlike length."""
    try:
        return np.asarray(data)
    except ValueError:
        raise WrongType("data", "…", "must be one column", "Pass a list, an array or a series.") from None


def flags(data: Any) -> NDArray[np.bool_]:
    """A column of yes and no: booleans, or numbers that are all 0 or 1."""
    array = labelled(data)
    if array.dtype == bool:
        if array.ndim != 1:
            raise WrongType("data", f"shape {array.shape}", "must have one dimension", "Pass one column.")
        if array.size > MAX_ROWS:
            raise InvalidParameter("data", f"{array.size} rows", "has more than 2³⁰ rows", "Count in parts.")
        return array
    numbers = column("data", data)
    if not np.all((numbers == 0) | (numbers == 1)):
        raise InvalidParameter("data", "…", "must be True/False or 0/1", "Pass a condition, such as x > 3.")
    return np.asarray(numbers == 1)


@dataclass(frozen=True, kw_only=True)
class Count(BoundedStatistic):
    """The number of rows for which the data is true.

    **Guarantee.** One row changes it by at most 1, under both neighbour relations.

    Parameters
    ----------
    n
        The public number of rows, where it is public; it bounds the domain.

    Examples
    --------
    >>> Count().sensitivity(neighbours=Neighbours.ADD_REMOVE).l1
    1.0
    >>> Count().value([True, False, True])
    2

    A release is whole and not negative; ``measured`` is the noisy measurement behind it.

    >>> from discreet import release
    >>> from discreet.mechanisms import Geometric
    >>> few = release(Count().exact([True, False], neighbours=Neighbours.ADD_REMOVE), Geometric(5.0), rng=0)
    >>> few.measured, few.value, tuple(few.noise_interval())
    (-1.0, 0.0, (0.0, 15.0))
    """

    name: ClassVar[str] = "count"
    n: int | None = None

    shown_value = staticmethod(whole_count)
    shown_interval = staticmethod(whole_interval)

    def domain(self, n: int | None = None) -> Domain:
        public = self.n if n is None else requirements.positive_integer("n", n)
        return 0.0, math.inf if public is None else float(public)

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Sensitivity:
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        return Sensitivity(moves=(1.0,))

    def value(self, data: Any) -> int:
        return int(np.count_nonzero(flags(data)))


@dataclass(frozen=True)
class CountQuestion(MeasuredQuestion[Release]):
    """Number of rows, in all or by group.

    Guarantee
    ---------
    A unit that keeps m rows moves the count by m, and by group at most m of the counts: see `stability`.

    Examples
    --------
    >>> from discreet import Categories, Schema
    >>> schema = Schema(columns={"arm": Categories(["A", "B"])})
    >>> CountQuestion(schema, epsilon=0.5, by="arm").measurement.mechanism.scale
    2.0
    """

    topic: ClassVar[str] = "Counts and shares"
    answers: ClassVar[str] = "How many rows are there, in all or in each group?"
    ask: ClassVar[str] = "count"
    also: ClassVar[tuple[str, ...]] = ("number_of_rows", "n")
    heading: ClassVar[str] = "Number of {noun}"
    meaning: ClassVar[str] = "How many {noun} there are."
    forms: ClassVar[form.Forms] = {"by": form.COLUMNS}
    under_design: ClassVar[bool] = True
    _: KW_ONLY
    by: str | Sequence[str] = ()
    contribution: Contribution | None = None

    def _measured(self) -> Measurement:
        names = column_names(self.by)
        if self.schema.design is not None:
            no_design_for(self, "contribution")
            return design_measurement(self, "estimated count", names, read="the number in the population")
        if names:
            return table_measurement(self, names, self.contribution)
        limits = self.schema.contribution(self.contribution)
        sensitivity = stability(limits, cells=1, neighbours=self.schema.neighbours)
        return Measurement(
            statistic=Count(),
            sensitivity=sensitivity,
            mechanism=additive_noise(self.guarantee, sensitivity, whole=True),
            contribution=self.contribution,
            public={},
            value=lambda counts, sums: int(counts[0]),
            read="rows",
        )

    def meaning_words(self, words: Mapping[str, str]) -> str:
        if self.schema.design is not None:
            return "How many there are in the population, as the weights of respondents estimate."
        unit = self.schema.unit
        limits = self.contribution or unit.contribution
        limited = limits is not None and limits.most_rows_in_a_group() == 1
        if unit.column is not None and (limited or self.schema.unit_is_row):
            return f"How many there are, each {words.get(unit.name, unit.name)} counted once."
        return f"How many {self.noun_words(words)} there are{' in each group' if self.by else ''}."
