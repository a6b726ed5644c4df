"""Post-processed noise: an exact noisy measurement, then functions that read no data."""

from __future__ import annotations

import math
import secrets
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self, cast, get_args

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.door import Rng
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee, Profile
from discreet.core.noise.sampler import Truth, float_truth, generator
from discreet.core.protection import Fact
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace
from discreet.mechanisms.mechanism import AdditiveNoise, Kind, Law, Mechanism, SampledLaw, mechanism_from_dict

# ---- Clipping: moving a noisy table to the nearest possible one, which is post-processing and never costs accuracy.
#
# Proof that each of them dominates what it is given: ``docs/proofs/table_noise.md``.


Clip = Literal["none", "nonnegative", "simplex", "box"]
"""The tables allowed: any; no negative cell; no negative cell and the known total; cells within ends."""

Box = tuple[tuple[float | None, float | None], ...]
"""The smallest and the largest value of every cell, None where there is none; one pair stands for all cells."""

Array = NDArray[np.float64]


def clip_choice(value: Any) -> Clip:
    """Return one of the clipping rules; refuse everything else."""
    if not isinstance(value, str) or value not in get_args(Clip):
        raise InvalidParameter("clip", value, f"must be one of {list(get_args(Clip))}", 'Pass clip="simplex".')
    return cast(Clip, value)


def checked_box(value: Any, whole: bool) -> Box:
    """The ends of a rectangle (lee2022, section 2.4) as floats; whole numbers where cells will be rounded to them."""
    fix = "Pass box=((0, 100), (0, None)): one pair of ends per cell, or one pair for all."
    if not isinstance(value, list | tuple) or not value:
        raise InvalidParameter("box", value, "must be pairs of ends", fix)
    pairs = [value] if not isinstance(value[0], list | tuple) else list(value)
    done = []
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise InvalidParameter("box", value, "must be pairs of ends", fix)
        low, high = (None if end is None else requirements.finite("box", end) for end in pair)
        if low is not None and high is not None and low > high:
            raise InvalidParameter("box", value, "has a lower end above its upper end", fix)
        if whole and any(end is not None and end != round(end) for end in (low, high)):
            raise InvalidParameter("box", value, "must have whole ends where cells are whole", "Leave integers out.")
        done.append((low, high))
    return tuple(done)


def box_ends(box: Box, cells: int) -> tuple[Array, Array]:
    """Lower and upper ends of every cell, infinite where there is none."""
    if len(box) not in (1, cells):
        raise InvalidParameter("box", f"{len(box)} pairs", f"must be one pair, or one for each of {cells} cells",
                               "Give one pair per cell, in the order of the flattened table.")  # fmt: skip
    low = [-np.inf if pair[0] is None else pair[0] for pair in box]
    high = [np.inf if pair[1] is None else pair[1] for pair in box]
    return np.broadcast_to(np.array(low, float), cells), np.broadcast_to(np.array(high, float), cells)


def onto_total(table: Array, total: float | Array) -> Array:
    """The nearest table with this total: every cell moves by the same amount."""
    wanted = np.asarray(total, dtype=float)
    return np.asarray(table + ((wanted - table.sum(axis=-1)) / table.shape[-1])[..., None])


def onto_simplex(table: Array, total: float | Array) -> Array:
    """The nearest table with non-negative cells and this total (held1974), along the last axis.

    Examples
    --------
    >>> onto_simplex(np.array([5.0, -1.0, 3.0]), 6.0)
    array([4., 0., 2.])
    """
    wanted = np.broadcast_to(np.asarray(total, dtype=float), table.shape[:-1])
    # The nearest table is max(x − t, 0) with one threshold t; sorted cells give it by running sums. Centring
    # first keeps the sums small, so that no digits are lost beside a large total.
    centred = onto_total(table, wanted)
    descending = np.sort(centred, axis=-1)[..., ::-1]
    excess = np.cumsum(descending, axis=-1) - wanted[..., None]
    count = np.arange(1, table.shape[-1] + 1)
    kept = np.maximum((descending * count > excess).sum(axis=-1), 1)
    threshold = np.take_along_axis(excess, kept[..., None] - 1, axis=-1) / kept[..., None]
    return np.asarray(np.maximum(centred - threshold, 0.0))


def clipped(table: Array, clip: Clip, total: float | Array | None, box: Box | None = None) -> Array:
    """Apply a clipping rule along the last axis."""
    if clip == "none":
        return table
    if box is not None:
        return np.asarray(np.clip(table, *box_ends(box, table.shape[-1])))
    if clip == "nonnegative":
        return np.asarray(np.maximum(table, 0.0))
    if total is None:
        raise InvalidParameter("total", None, "the simplex needs it", "Pass the public total of the table.")
    return onto_simplex(table, np.maximum(total, 0.0))


def rounded(table: Array, *, rng: np.random.Generator | None = None) -> Array:
    """Whole cells whose expectation is the table and whose total is that of the table (if it is whole).

    Each cell becomes one of its two neighbouring integers. One uniform number decides all cells: cell i goes up
    if a tick of the grid U, U + 1, … falls into its share of the running sum of the fractional parts.

    Examples
    --------
    >>> rounded(np.array([0.5, 0.25, 1.25]), rng=np.random.default_rng(1)).sum()
    np.float64(2.0)
    """
    floor = np.floor(table)
    shares = np.cumsum(table - floor, axis=-1)
    near = np.round(shares[..., -1])
    # Running sums of floats miss a whole total by rounding; snap it so that the total is kept exactly.
    whole = np.abs(shares[..., -1] - near) <= 1e-9 * table.shape[-1]
    shares[..., -1] = np.where(whole, near, shares[..., -1])
    start = _uniform(table.shape[:-1], rng)[..., None]
    ticks = np.floor(np.minimum(shares, shares[..., -1:]) + start)
    return np.asarray(floor + np.diff(ticks, axis=-1, prepend=0.0))


def _uniform(shape: tuple[int, ...], rng: np.random.Generator | None) -> Array:
    if rng is not None:
        return np.asarray(rng.random(shape))
    count = int(np.prod(shape, dtype=int))
    return np.array([secrets.randbits(53) * 2.0**-53 for _ in range(count)]).reshape(shape)


# ---- Post-processed noise: an exact noisy measurement, then functions that read no data.


_SIMULATED_CELLS = 4_000_000


@dataclass(frozen=True, kw_only=True)
class PostProcessed(Mechanism):
    """The common base of table mechanisms: independent noise, a known total, shrinkage, clipping, whole numbers.

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
            fix = "Use a rank-deficient mechanism, or pass total=…."
            raise InvalidParameter("clip", self.clip, "needs a known total", fix)

    @property
    @abstractmethod
    def noise(self) -> AdditiveNoise:
        """The noise behind the measurement."""

    @property
    def keeps_total(self) -> bool:
        """True where the measurement has the table's exact total."""
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
        rule = f"{self.name} publishes the exact total, which is not a public fact of this table"
        fix = "Use Neighbours.REPLACE_ONE with one row a unit, declare the total public with total=…, or use Gaussian."
        raise InvalidParameter("total", None, rule, fix)

    def _check_size(self, cells: int) -> None:
        """Refuse public declarations that do not fit a table of so many cells."""
        if self.box is not None:
            box_ends(self.box, cells)

    def profile(self, sensitivity: Sensitivity) -> Profile:
        """The exact privacy curve of the measurement; the rest is post-processing."""
        return self.noise.profile(sensitivity)

    def guarantee(self, sensitivity: Sensitivity, kind: Kind = None, *, delta: float | None = None) -> Guarantee:
        """The guarantee of the measurement."""
        return self.noise.guarantee(sensitivity, kind, delta=delta)

    def measure(self, truth: Truth, *, rng: Rng = None) -> Array:
        """Exact noise on every cell; then, where something is public, the nearest table that agrees with it."""
        noisy = np.asarray(self.noise.draw(truth, rng=rng), dtype=float)
        if noisy.size == 0:
            raise InvalidParameter("truth", "no cells", "must have a cell at least", "Pass the counts of a table.")
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
        high = float(self.total) if self.clip == "simplex" and self.total is not None else np.inf
        return SampledLaw(self, truth, (-np.inf if self.clip == "none" else 0.0, high))

    def noise_interval(self, value: Any, level: float) -> tuple[Any, Any]:
        """Interval for the truth behind a *measurement*, cell by cell."""
        return self.noise.noise_interval(value, level)

    def error(self, level: float = 0.95) -> Any:
        """The error that a cell of the measurement stays within with probability ``level``."""
        return self.noise.error(level)

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


def exact_total(truth: Truth) -> float:
    """The sum of all cells, exact and then rounded once: it depends on the data through the exact total alone."""
    array = np.asarray(truth)
    if array.dtype == object:
        return float(sum((Fraction(cell) for cell in array.ravel()), Fraction(0)))
    if array.dtype.kind in "iu":
        low = int(array.min(initial=0))
        high = int(array.max(initial=0))
        if max(-low, high) * max(array.size, 1) < 2**63:
            return float(int(array.sum()))
        return float(sum(int(cell) for cell in array.ravel()))
    return math.fsum(float_truth(array).ravel())


# ---- Clipped noise: a Laplace or Gaussian table, moved to the nearest possible one.


@dataclass(frozen=True, kw_only=True)
class Clipped(PostProcessed):
    """M^c of lee2022, section 2.4, for plain noise: `Laplace` or `Gaussian`, then clipping and rounding.

    Guarantee
    ---------
    That of the mechanism inside: clipping is post-processing, and never takes the output away from the truth
    (lee2022, Proposition 8). Proof: ``docs/proofs/table_noise.md``.

    Parameters
    ----------
    mechanism
        `Laplace` or `Gaussian` with its parameters.
    rank_deficient
        Move the noisy table to the nearest one with the exact total before it is clipped.
    total, clip, box, integers
        See `PostProcessed`.

    Examples
    --------
    >>> from discreet import GaussianDP
    >>> from discreet.core.sensitivity import Sensitivity
    >>> from discreet.mechanisms import Laplace
    >>> Clipped.calibrate(GaussianDP(1.0), Sensitivity(moves=(1, 1)), kind=Laplace).mechanism.scale < 1.36
    True
    >>> ages = Clipped(mechanism=Laplace(2.0), clip="box", box=((18, 100),))  # truncation to a rectangle
    >>> ages.process(np.array([12.5, 40.0, 131.0]))
    array([ 18.,  40., 100.])
    """

    mechanism: AdditiveNoise
    clip: Clip = "nonnegative"
    rank_deficient: bool = False
    name: ClassVar[str] = "clipped"

    def __post_init__(self) -> None:
        inner: Any = self.mechanism
        if isinstance(inner, dict):
            inner = mechanism_from_dict(inner)
        requirements.instance("mechanism", inner, (Laplace, Gaussian), "Laplace(scale=1.0), for example")
        object.__setattr__(self, "mechanism", inner)
        requirements.instance("rank_deficient", self.rank_deficient, bool, "rank_deficient=True or False")
        super().__post_init__()

    @classmethod
    def calibrate(
        cls, guarantee: Guarantee, sensitivity: Sensitivity, *, kind: type[AdditiveNoise] = Gaussian, **settings: Any
    ) -> Self:
        """The least noise of that kind that meets ``guarantee``; ``settings`` are the other fields of the mechanism."""
        return cls(mechanism=kind.calibrate(guarantee, sensitivity), **settings)

    @property
    def noise(self) -> AdditiveNoise:
        """The mechanism inside."""
        return self.mechanism

    @property
    def keeps_total(self) -> bool:
        """True where the measurement has the table's exact total."""
        return self.rank_deficient

    @property
    def scale(self) -> float:
        """Scale of the noise."""
        return self.mechanism.scale

    def _closed_cost(self, cells: Array) -> float:
        # lee2022, Theorem 1 and Lemma 13: one variance a cell; the projection on the total takes one away.
        variance = float(np.asarray(self.mechanism.law(0.0).variance))
        if not self.rank_deficient:
            return cells.size * variance
        offset = 0.0 if self.total is None else (self.total - exact_total(cells)) ** 2 / cells.size
        return (cells.size - 1) * variance + offset
