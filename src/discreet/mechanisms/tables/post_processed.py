"""Post-processed noise: an exact noisy measurement, then functions that read no data."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.contract.mechanism import Law, Mechanism
from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.noise.truth import Truth, float_truth, generator
from discreet.core.protection import Fact
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.tables.clipping import (
    Box,
    Clip,
    box_ends,
    checked_box,
    clip_choice,
    clipped,
    onto_total,
    rounded,
)
from discreet.omission.sampled_law import SampledLaw

if TYPE_CHECKING:
    from discreet.core.exact import Exact
    from discreet.core.privacy_profile import Profile
    from discreet.mechanisms.location_noise import AdditiveNoise

__all__ = ["PostProcessed", "exact_total"]

Array = NDArray[np.float64]
Rng = int | np.random.Generator | None

_SIMULATED_CELLS = 4_000_000


@dataclass(frozen=True, kw_only=True)
class PostProcessed(Mechanism):
    """What table mechanisms share: independent noise, a known total, shrinkage, clipping, whole numbers.

    A table may have any number of axes; the noise and what follows see its cells as one vector.

    Parameters
    ----------
    total
        The table's total where it is declared public. Under replace-one neighbours it need not be given: the exact
        total is public there, and read from the data where it is needed.
    clip
        ``"none"``; ``"nonnegative"``: negative cells become 0 (lee2022, section 2.4); ``"simplex"``: the nearest
        table with non-negative cells and the known total; ``"box"``: every cell between its ends, a rectangle
        (lee2022, section 2.4).
    box
        With ``clip="box"``: pairs of ends, one per cell in the order of the flattened table, or one pair for all cells.
        None is an open end. The ends must be known without the data.
    integers
        Round the cells to whole numbers, without bias and keeping the total.
    """

    total: int | None = None
    clip: Clip = "none"
    box: Box | None = None
    integers: bool = False

    def __post_init__(self) -> None:
        if self.total is not None:
            checked = requirements.positive_integer("total", self.total, at_least=0)
            object.__setattr__(self, "total", checked)
        object.__setattr__(self, "clip", clip_choice(self.clip))
        requirements.instance("integers", self.integers, bool, "integers=True or False")
        if (self.box is None) != (self.clip != "box"):
            raise InvalidParameter("box", self.box, 'goes with clip="box", and only with it', "Pass both, or neither.")
        if self.box is not None:
            object.__setattr__(self, "box", checked_box(self.box, self.integers))
        if self.clip == "simplex" and not self.keeps_total and self.total is None:
            raise InvalidParameter(
                "clip", self.clip, "needs a known total", "Use a rank-deficient mechanism, or pass total=…."
            )

    @property
    @abstractmethod
    def noise(self) -> AdditiveNoise:
        """The noise behind the measurement."""

    @property
    def keeps_total(self) -> bool:
        """Whether the measurement has the table's exact total."""
        return False

    def _shrunk(self, cells: Array) -> Array:
        """Shrink tables along the last axis; by default nothing is done."""
        return cells

    def check(self, exact: Exact) -> None:
        """Refuse to publish an exact total that is not public (lee2022, Examples 1 and 2, need replace-one)."""
        self._check_size(float_truth(exact.value).size)
        if not self.keeps_total or self.total is not None:
            return
        moves = exact.sensitivity.moves
        between_two = moves is not None and len(moves) == 2 and moves[0] == moves[1]
        if Fact.TOTAL in exact.protection.public and between_two:
            return
        raise InvalidParameter(
            "total",
            None,
            f"{self.name} publishes the exact total, which is not a public fact of this table",
            "Use Neighbours.REPLACE_ONE with one row a unit, declare the total public with total=…, or use Gaussian.",
        )

    def _check_size(self, cells: int) -> None:
        """Refuse public declarations that do not fit a table of so many cells."""
        if self.box is not None:
            box_ends(self.box, cells)

    def profile(self, sensitivity: Sensitivity) -> Profile:
        """The exact privacy curve of the measurement; the rest is post-processing."""
        return self.noise.profile(sensitivity)

    def guarantee(
        self, sensitivity: Sensitivity, kind: type[Guarantee] | None = None, *, delta: float | None = None
    ) -> Guarantee:
        """What the measurement guarantees."""
        return self.noise.guarantee(sensitivity, kind, delta=delta)

    def measure(self, truth: Truth, *, rng: Rng = None) -> Array:
        """Exact noise on every cell; then, where something is public, the nearest table that agrees with it."""
        noisy = np.asarray(self.noise.draw(truth, rng=rng), dtype=float)
        return self._constrained(noisy.ravel(), truth).reshape(noisy.shape)

    def _constrained(self, cells: Array, truth: Truth) -> Array:
        """The nearest tables (last axis) that agree with what is public."""
        if not self.keeps_total:
            return cells
        return onto_total(cells, exact_total(truth) if self.total is None else float(self.total))

    def present(self, measurement: Any, *, rng: Rng = None) -> Any:
        """Shrink, clip and round one measurement."""
        noisy = np.asarray(measurement, dtype=float)
        flat = noisy.ravel()
        cells = self.process(flat, rng=None if rng is None else generator(rng))
        return measurement if cells is flat else cells.reshape(noisy.shape)

    def process(self, cells: Array, *, rng: np.random.Generator | None = None) -> Array:
        """Shrink, clip and round measurements along the last axis: `present` for many tables at once."""
        done = self._shrunk(cells)
        if self.clip != "none":
            known = self._known_total(cells) if self.clip == "simplex" else None
            done = clipped(done, self.clip, known, self.box)
        return rounded(done, rng=rng) if self.integers else done

    def _known_total(self, cells: Array) -> float | Array:
        return float(self.total) if self.total is not None else np.asarray(cells.sum(axis=-1))

    def draw(self, truth: Truth, *, rng: Rng = None) -> Array:
        """One output."""
        source = None if rng is None else generator(rng)
        return np.asarray(self.present(self.measure(truth, rng=source), rng=source))

    def simulate(self, truth: Truth, size: int, rng: Rng) -> Array:
        """``size`` outputs for one truth, in floating point, for studies: an array of size × cells."""
        cells = float_truth(truth).ravel()
        source = generator(0 if rng is None else rng)
        noisy = np.asarray(self.noise.law(np.zeros_like(cells)).sample(size, rng=source)) + cells
        return self.process(self._constrained(noisy, truth), rng=source)

    def law(self, truth: Truth) -> Law:
        """The distribution of the output, known through draws."""
        return SampledLaw(self, truth)

    def confidence_interval(self, value: Any, level: float) -> tuple[Any, Any]:
        """Interval for the truth behind a *measurement*, cell by cell."""
        return self.noise.confidence_interval(value, level)

    def expected_error(self, level: float = 0.95) -> Any:
        """How far a cell of the measurement stays from the truth with probability ``level``."""
        return self.noise.expected_error(level)

    def l2_cost(self, truth: Truth) -> float:
        """Expected squared distance between output and truth, summed over cells (lee2022 (4)).

        In closed form where nothing is clipped or rounded; otherwise from at least a thousand draws with a fixed
        seed (fewer for tables of more than 4,000 cells), the same each time.
        """
        cells = float_truth(truth).ravel()
        if self.clip == "none" and not self.integers:
            return self._closed_cost(cells)
        size = min(max(_SIMULATED_CELLS // cells.size, 16), 20_000)
        return float(np.mean(np.sum((self.simulate(truth, size, rng=0) - cells) ** 2, axis=-1)))

    @abstractmethod
    def _closed_cost(self, cells: Array) -> float:
        """The cost without clipping."""

    def _common(self) -> dict[str, Any]:
        box = None if self.box is None else [list(pair) for pair in self.box]
        return {"total": self.total, "clip": self.clip, "box": box, "integers": self.integers}


def exact_total(truth: Truth) -> float:
    """The sum of all cells, exact and then rounded once: it depends on the data through the exact total alone."""
    array = np.asarray(truth)
    if array.dtype == object:
        return float(sum((Fraction(cell) for cell in array.ravel()), Fraction(0)))
    if array.dtype.kind in "iu":
        low, high = int(array.min(initial=0)), int(array.max(initial=0))
        if max(-low, high) * max(array.size, 1) < 2**63:
            return float(int(array.sum()))
        return float(sum(int(cell) for cell in array.ravel()))
    return math.fsum(float_truth(array).ravel())
