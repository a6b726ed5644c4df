"""Mode: the most frequent of a public list of categories, chosen without publishing any count."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from math import floor
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, NoPopulationInterval, WrongType
from discreet.core.guarantee import PureDP
from discreet.core.protection import ROW, Neighbours, Protection, Unit
from discreet.core.schema import Contribution
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms.choices.selection import ExponentialMechanism, PermuteAndFlip, Selection
from discreet.questions import form
from discreet.questions.count import labelled
from discreet.questions.question import DEFAULT_ROWS, DeclaredColumns, Forecast, MeasuredQuestion, Measurement, first_of
from discreet.questions.tables.table import table_measurement
from discreet.results.display import Facts, Interval
from discreet.results.frames import Reading
from discreet.results.release import Release, Statistic

_DRAWS = 400


@dataclass(frozen=True, kw_only=True)
class Mode(Statistic):
    """Which category most rows have; protect it with a mechanism that chooses.

    The exact value is the count of every category. Rows outside the list count nowhere.

    Guarantee
    ---------
    Add/remove: one row moves one count by 1. Replace-one: one count up and another down by 1, so the same choice costs
    twice the ε.

    Parameters
    ----------
    categories
        The public list of categories; numbers or texts.

    Examples
    --------
    >>> from discreet import Ledger, PureDP, release
    >>> from discreet.mechanisms import ExponentialMechanism
    >>> mode = Mode(categories=("red", "green", "blue"))
    >>> colours = ["red"] * 90 + ["green"] * 10
    >>> exact = mode.exact(colours, neighbours=Neighbours.ADD_REMOVE)
    >>> mechanism = ExponentialMechanism.calibrate(PureDP(1.0), exact.sensitivity)
    >>> release(exact, mechanism, ledger=Ledger(":memory:", budget=PureDP(1.0))).mode
    'red'
    """

    name: ClassVar[str] = "mode"
    categories: tuple[Any, ...]

    def __post_init__(self) -> None:
        if np.ndim(np.asarray(self.categories, dtype=object)) != 1:
            raise WrongType("categories", self.categories, "must be a list", 'Pass categories=("a", "b").')
        clean = tuple(value.item() if isinstance(value, np.generic) else value for value in self.categories)
        if not all(isinstance(value, Hashable) and value == value for value in clean):
            raise WrongType("categories", clean, "must be plain labels", 'Pass texts or numbers: ("a", "b").')
        if len(clean) < 2 or len(set(clean)) != len(clean):
            raise InvalidParameter(
                "categories", clean, "must hold at least two different values", "List each public category once."
            )
        object.__setattr__(self, "categories", clean)

    @classmethod
    def release_type(cls) -> type[Release]:
        return ModeRelease

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Sensitivity:
        """One count by one, or two of them."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        return Sensitivity(moves=(1.0,) if neighbours is Neighbours.ADD_REMOVE else (1.0, 1.0))

    def value(self, data: Any) -> NDArray[np.int64]:
        """Counts of the categories. Private."""
        array = labelled(data)
        if array.ndim != 1:
            raise InvalidParameter("data", array.shape, "must be one column", "Select the column.")
        if array.size == 0:
            return np.zeros(len(self.categories), dtype=np.int64)
        found, counts = np.unique(array if array.dtype != object else array.astype(str), return_counts=True)
        known = {
            str(value) if array.dtype == object else value: count for value, count in zip(found, counts, strict=True)
        }
        keys = (str(value) if array.dtype == object else value for value in self.categories)
        return np.array([known.get(key, 0) for key in keys], dtype=np.int64)

    def exact(self, data: Any, *, neighbours: Neighbours, unit: Unit = ROW) -> Exact:
        """The counts, still private, ready for `discreet.release`."""
        return Exact(
            self.value(data),
            self.sensitivity(neighbours=neighbours),
            Protection(unit, neighbours),
            statistic=self,
        )


@dataclass(frozen=True)
class ModeRelease(Release):
    """A released mode: its category, and how far behind the true mode it can be."""

    @property
    def mode(self) -> Any:
        """The chosen category."""
        return self._of.categories[int(self.value)]

    @property
    def _of(self) -> Mode:
        return cast(Mode, self.statistic)

    def noise_interval(self, level: float = 0.95) -> Interval:
        """Refused: a label has no interval."""
        raise InvalidParameter("noise_interval", "mode", "is of numbers, and a mode is a label", "Use count_gap().")

    def population_interval(self, level: float = 0.95) -> Interval:
        """Refused: a label has no interval."""
        raise NoPopulationInterval(
            "release", "mode", "is a label, chosen from this data", "Ask for shares of the labels: proportion or table."
        )

    def count_gap(self, level: float = 0.95) -> float:
        """With probability ``level`` no category has more than this many rows more than the chosen one.

        It holds for all data and is decided by the noise alone.
        """
        chooser = getattr(self.mechanism, "inner", self.mechanism)  # behind an omission step, among the kept rows
        return cast(Selection, chooser).score_loss(len(self._of.categories), level)

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """The label."""
        return [Reading("", str(self.mode), labels={columns[0] if columns else "mode": self.mode}, measure="mode")]

    def facts(self) -> Facts:
        """The facts to show."""
        gap = f"no category has over {floor(self.count_gap()):,} rows more, with probability 95 %"
        return [("mode", str(self.mode)), ("at most", gap), *self.protection_facts()]


@dataclass(frozen=True)
class ModeQuestion(MeasuredQuestion[ModeRelease]):
    """The most frequent label of a column; only the choice is published, no count.

    Guarantee
    ---------
    Permute-and-flip for ε, the exponential mechanism otherwise, on counts that a unit moves as in a table. Proof:
    ``docs/proofs/selection.md``.
    """

    topic: ClassVar[str] = "Counts and shares"
    answers: ClassVar[str] = "Which label is the most frequent one? Publishes the label and no count."
    ask: ClassVar[str] = "mode"
    also: ClassVar[tuple[str, ...]] = ("most_frequent",)
    heading: ClassVar[str] = "Most frequent {subject}"
    meaning: ClassVar[str] = "The most frequent label of {subject}."
    forms: ClassVar[form.Forms] = {"column": form.COLUMN}
    column: str
    _: KW_ONLY
    contribution: Contribution | None = None

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return {"column": first_of(columns.listed)}

    def _measured(self) -> Measurement:
        labels = tuple(self.schema.categories(self.column).labels)
        counts = table_measurement(self, (self.column,), self.contribution)
        kind = PermuteAndFlip if isinstance(self.guarantee, PureDP) else ExponentialMechanism
        # A unit that comes or goes moves all of its counts one way.
        one_way = self.schema.neighbours is Neighbours.ADD_REMOVE
        chooser = kind.calibrate(self.guarantee, counts.sensitivity, monotone=one_way)
        rows = self.schema.size or DEFAULT_ROWS
        return replace(
            counts,
            statistic=Mode(categories=labels),
            mechanism=chooser,
            public={},
            read="rows behind",
            forecast=lambda: Forecast(
                error=partial(typical_loss, chooser, len(labels), rows),
                bound=partial(chooser.score_loss, len(labels)),
                scenario=f"{rows:,} rows with equally likely labels",
            ),
        )


def typical_loss(chooser: Selection, labels: int, rows: int, level: float = 0.95) -> float:
    """The most rows that the chosen label is behind the most frequent one, where all labels are equally likely.

    Counts are drawn; the chance of each choice given them is exact.
    """
    rng = np.random.default_rng(1)  # no data is read: a plan says the same each time
    drawn = rng.multinomial(rows, np.full(labels, 1 / labels), size=_DRAWS)
    behind = drawn.max(axis=1, keepdims=True) - drawn
    chances = np.array([chooser.probabilities(counts) for counts in drawn]) / _DRAWS
    order = np.argsort(behind, axis=None, kind="stable")
    place = int(np.searchsorted(np.cumsum(np.ravel(chances)[order]), level - 1e-12))
    return float(np.ravel(behind)[order][min(place, order.size - 1)])
