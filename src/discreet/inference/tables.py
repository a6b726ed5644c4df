"""χ² tests on released tables: goodness of fit, homogeneity, independence.

They use nothing but releases, so they are post-processing and cost no privacy. The default statistic measures the
departure from the null, shrunk by James-Stein, in units of sampling error plus noise; its null distribution is
simulated through the same noise. See ``docs/proofs/tests.md`` for what is exact and what is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType
from discreet.inference.noise import (
    Asymptotic,
    MonteCarlo,
    NoiseSum,
    coarse,
    excess_kurtosis,
    moves_with_truth,
    solved,
    sum_quantile,
)
from discreet.mechanisms.tables.james_stein import trend
from discreet.mechanisms.tables.post_processed import onto_simplex, onto_total
from discreet.results.display import DerivedNumber, Facts, Result
from discreet.results.release import Release

if TYPE_CHECKING:
    from discreet.mechanisms.mechanism import Law, Mechanism
    from discreet.results.release import Release


# ---- Measured table: what a release of a table says, as inference needs it.


Array = NDArray[np.float64]
_MANY = 8
"""The sum of more noises than this is taken to have the tails of so many, which are wider than its own."""


@dataclass(frozen=True)
class MeasuredTable:
    """A noisy table with the distribution of its noise.

    Attributes
    ----------
    cells
        The measurement, flattened; with the exact total where that is public.
    shape
        Its shape as a table.
    value
        What was published: the measurement after shrinkage, clipping and rounding.
    n
        The public number of rows, or None.
    noise
        The distribution of the noise on one cell.
    mechanism
        The mechanism of the release.
    rows_per_unit
        At most this many rows are one unit's. Units are independent; the rows of one of them need not be.
    """

    cells: Array
    shape: tuple[int, ...]
    value: Array
    n: int | None
    noise: Law
    mechanism: Mechanism
    rows_per_unit: int = 1

    @property
    def variance(self) -> float:
        """Noise variance of one cell, before the projection on a public total."""
        return float(np.max(self.noise.variance))

    @property
    def size(self) -> float:
        """The number of rows, known or estimated; at least 1, so that a table of pure noise can be treated."""
        return float(self.n) if self.n is not None else max(float(self.cells.sum()), 1.0)

    @property
    def rows(self) -> int:
        """The number of rows as a whole number, for simulations."""
        return self.n if self.n is not None else max(round(float(self.cells.sum())), 1)

    def shares(self, cells: Array | None = None) -> Array:
        """A probability vector near the measurement."""
        wanted = self.cells if cells is None else cells
        projected = onto_simplex(wanted, 1.0 if cells is not None else self.size)
        return np.asarray(projected / projected.sum())

    def remeasured(self, counts: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """Measurements of simulated tables (last axis), with the same noise and the same public facts."""
        noisy = self._noisy(counts, rng)
        return noisy if self.n is None else onto_total(noisy, float(self.n))

    def released(self, counts: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """Published values for simulated tables (last axis): through the same mechanism, to the end."""
        noisy = self._noisy(counts, rng)
        if getattr(self.mechanism, "keeps_total", False):
            noisy = onto_total(noisy, counts.sum(axis=-1))
        process = getattr(self.mechanism, "process", None)
        return noisy if process is None else np.asarray(process(noisy, rng=rng))

    def _noisy(self, counts: NDArray[np.int64], rng: np.random.Generator) -> Array:
        return np.asarray(self.noise.sample(counts.shape, rng=rng) + counts)

    # ---- sums of ``merged`` cells: how far noise reaches, and intervals for shares of the population ----------------

    def count_variance(self, merged: int) -> float:
        """Noise variance of a count; a public total takes its share away."""
        kept = merged * (1 - merged / self.cells.size) if self.n is not None else merged
        return self.variance * kept

    def share_variance(self, merged: int, share: Array) -> Array:
        """Noise variance of count − share·total."""
        if self.n is not None:
            return np.full(share.shape, self.count_variance(merged))
        return np.asarray(self.variance * (merged * (1 - share) ** 2 + (self.cells.size - merged) * share**2))

    def share_error(self, merged: int, measured: Array) -> Array:
        """Standard error of shares: that of sampling and noise together."""
        share = np.clip(measured, 0.0, 1.0)
        sampling = self.rows_per_unit * share * (1 - share) / self.size
        return np.sqrt(sampling + self.share_variance(merged, share) / self.size**2)

    def reach(self, merged: int, level: float) -> float:
        """The standard deviations that the noise of a count stays below in size, by probability."""
        tail = (1 - level) / 2
        # Cells and a public total weigh in at most `merged` noises; fewer of them have the heavier tails.
        count = min(merged, _MANY)
        if coarse(self.noise):
            variance = max(count * self.variance, 1e-300)  # next to no noise is still some
            return sum_quantile(self.noise, count, 1 - tail) / math.sqrt(variance)
        if merged == 1 and self.n is None:
            return float(np.max(self.noise.quantile(1 - tail))) / math.sqrt(self.variance)
        noise = NoiseSum.of(self.noise, np.ones(count))
        return float(noise.quantile(1 - tail)) / float(noise.standard_deviation)

    def share_ends(self, merged: int, measured: Array, level: float) -> tuple[Array, Array]:
        """Intervals for the population's shares, by inverting a score test with sampling and noise."""
        x = measured * self.size
        # Noise that is nearly always 0 has a quantile of 0, sampling has not: never less than the normal score.
        reach = max(self.reach(merged, level), -float(scipy.special.ndtri((1 - level) / 2)))
        # Rare rows make counts skewed to the right, and rare absences to the left: by Cornish and Fisher the limit on
        # the side of the short tail moves out by (z² − 1)/6·(1 − 2π), as far as sampling is what varies.
        share = np.clip(measured, 0.0, 1.0)
        sampling = self.rows_per_unit * (self.size * share * (1 - share) + 1)
        skew = (reach**2 - 1) / 6 * self.rows_per_unit * sampling / (sampling + self.share_variance(merged, share))
        below = np.minimum(x, np.maximum(x - skew * np.maximum(1 - 2 * share, 0.0), 0.0))
        above = np.maximum(x, np.minimum(x + skew * np.maximum(2 * share - 1, 0.0), self.size))
        return self._score_ends(merged, below, reach**2)[0], self._score_ends(merged, above, reach**2)[1]

    def _score_ends(self, merged: int, x: Array, z2: float) -> tuple[Array, Array]:
        # (x − πS)² ≤ z²·(kNπ(1−π) + noise(π)): a quadratic inequality in π for known and for estimated N. By Cauchy and
        # Schwarz, the squared deviation of a unit's k rows together is at most k times those of its rows.
        size, spread = self.size, self.rows_per_unit * self.size
        if self.n is not None:
            a = size**2 + z2 * spread
            b = 2 * x * size + z2 * spread
            c = x**2 - z2 * self.count_variance(merged)
        else:
            own = merged * self.variance
            a = size**2 + z2 * (spread - self.cells.size * self.variance)
            b, c = 2 * x * size + z2 * (spread - 2 * own), x**2 - z2 * own
        if a <= 0:
            return np.zeros(x.shape), np.ones(x.shape)  # the total is lost in noise: nothing is excluded
        root = np.sqrt(np.maximum(b**2 - 4 * a * c, 0.0))
        return np.clip((b - root) / (2 * a), 0.0, 1.0), np.clip((b + root) / (2 * a), 0.0, 1.0)


def measured_table(release: Release) -> MeasuredTable:
    """The part of a released table that inference may use; refuses releases whose noise it does not know."""
    requirements.instance("release", release, Release, "a release of a ContingencyTable")
    mechanism = release.mechanism
    noise = getattr(mechanism, "noise", mechanism)  # that of the measurement, where the value was processed further
    if getattr(mechanism, "projects", False) or not moves_with_truth(noise):
        raise InvalidParameter(
            "release", mechanism.name, "must carry the same unbounded noise on every cell", "Release it with Laplace."
        )
    value = np.asarray(release.value, dtype=float)
    if value.ndim == 0 or value.size < 2:
        raise InvalidParameter("release", f"shape {value.shape}", "must be a table", "Release a ContingencyTable.")
    n = _public_size(release)
    cells = np.asarray(release.measured, dtype=float).ravel()
    if n is not None:
        cells = onto_total(cells, float(n))
    return MeasuredTable(cells, value.shape, value.ravel(), n, noise.law(0.0), mechanism, _rows_per_unit(release))


def independent_table(release: Release) -> MeasuredTable:
    """The same for a test, which takes rows as independent: refuses tables with several rows of a unit."""
    table = measured_table(release)
    if table.rows_per_unit > 1:
        raise InvalidParameter(
            "release",
            f"at most {table.rows_per_unit} rows of each {release.unit}",
            "a test needs independent rows, so at most one of each unit",
            "Release the table with contribution=Contribution(total=1).",
        )
    return table


def _rows_per_unit(release: Release) -> int:
    """The rows of one unit are what it can move in a table: Δ₁, or half of it where a unit is replaced."""
    moved = release.sensitivity.l1 if hasattr(release.statistic, "axes") else None
    if moved is None:
        return 1
    return max(1, math.ceil(moved / release.neighbours.sides))


def _public_size(release: Release) -> int | None:
    declared = getattr(release.mechanism, "total", None)
    public = release.public.get("n")
    size = public if declared is None else declared
    if size is None and getattr(release.mechanism, "keeps_total", False):
        # Exact integer total, kept by the mechanism; floats add up to it within rounding.
        size = round(float(np.sum(release.measured)))
    return None if size is None else int(size)


# ---- χ² tests on released tables: goodness of fit, homogeneity, independence.


Null = MonteCarlo | Asymptotic
StatisticName = Literal["shrunken", "quadratic", "pearson"]
_CHUNK = 4_000_000
_NORMAL = 1e-6
"""An excess kurtosis below this is that of a normal law, up to rounding."""


@dataclass(frozen=True)
class ChiSquareResult(Result):
    """Outcome of a test on released tables.

    Attributes
    ----------
    test, method
        What was tested, and with which statistic.
    statistic, pvalue, df
        scipy's words; ``df`` belongs to the hypothesis.
    null_distribution
        The simulated statistics; None for an asymptotic null.
    n
        Number of rows of every table, known or estimated.
    """

    test: str
    method: str
    statistic: float
    pvalue: float
    df: int
    null_distribution: Array | None = field(repr=False)
    n: tuple[float, ...]

    @property
    def standard_error(self) -> float:
        """Monte-Carlo standard error of the p-value."""
        if self.null_distribution is None:
            return 0.0
        return float(np.sqrt(self.pvalue * (1 - self.pvalue) / self.null_distribution.size))

    def facts(self) -> Facts:
        """The facts to show of a result."""
        resamples = 0 if self.null_distribution is None else self.null_distribution.size
        source = f"{resamples:,} simulated releases" if resamples else f"χ² with {self.df} degrees of freedom"
        return [
            ("statistic", f"{self.statistic:.4g} ({self.method})"),
            ("p-value", f"{self.pvalue:.4g}, by {source}"),
            ("rows", "; ".join(f"{round(n):,}" for n in self.n)),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the simulated statistics, as JSON-ready data."""
        return {
            "test": self.test,
            "method": self.method,
            "statistic": self.statistic,
            "pvalue": self.pvalue,
            "df": self.df,
            "n": list(self.n),
            "n_resamples": None if self.null_distribution is None else int(self.null_distribution.size),
        }

    def heading(self) -> str:
        return f"Test of {self.test}"


def goodness_of_fit(
    release: Release,
    probabilities: ArrayLike,
    *,
    null: Null | None = None,
    statistic: StatisticName | None = None,
) -> ChiSquareResult:
    """Test whether a released table is a sample with the given cell probabilities.

    Parameters
    ----------
    release
        A release of a table.
    probabilities
        The null hypothesis π₀, in the shape of the table or flattened; it must add up to 1.
    null
        `MonteCarlo` (the default) or `Asymptotic`.
    statistic
        ``"shrunken"``, the default under `MonteCarlo`; ``"quadratic"``, the only one with an `Asymptotic` null;
        ``"pearson"``, the statistic of lee2022's Algorithm 2, of the published value: the default under
        ``MonteCarlo(as_published=True)``, which is that algorithm.

    Notes
    -----
    Where N is public the simulated null is the true one, so the size is exact for any N and any noise. Where N is
    private it is estimated by the table's total, rounded, and at least 1.

    Examples
    --------
    >>> from discreet import Neighbours, release
    >>> from discreet.mechanisms import Gaussian
    >>> from discreet.questions import ContingencyTable
    >>> table = ContingencyTable({"side": [1, 2, 3, 4, 5, 6]})
    >>> exact = table.exact_counts(np.array([19, 22, 17, 20, 23, 39]), neighbours=Neighbours.REPLACE_ONE)
    >>> noisy = release(exact, Gaussian(2.0), rng=1)
    >>> goodness_of_fit(noisy, [1 / 6] * 6, null=MonteCarlo(rng=1)).pvalue < 0.05
    True
    """
    table = independent_table(release)
    shares = cell_probabilities(probabilities, table.cells.size)
    chosen, name = _method(null, statistic, [table])
    if isinstance(chosen, Asymptotic):
        return _asymptotic("goodness of fit", *goodness_form(table, shares), [table])
    n = None if table.n is None else float(table.n)

    def observe(cells: Array) -> Array:
        if name == "pearson":
            return pearson_goodness(cells, shares)
        return shrunken_goodness(cells, shares, n, table.variance)

    rng, p = chosen.generator(), table.cells.size

    def draw(size: int) -> Array:
        return observe(_again(table, name, shares, size, rng))

    observed = float(observe(_seen(table, name)))
    return compared("goodness of fit", name, observed, draw, chosen, p - 1, p, [table.size])


def homogeneity(
    releases: Sequence[Release], *, null: Null | None = None, statistic: StatisticName | None = None
) -> ChiSquareResult:
    """Test whether several released tables are samples from one population.

    Parameters
    ----------
    releases
        Two or more releases of tables with the same cells; their mechanisms may differ.
    null, statistic
        As in `goodness_of_fit`; ``"pearson"`` is lee2022's Algorithm 3.

    Notes
    -----
    The common shares are estimated by the pooled measurement, projected on the simplex. The default statistic hardly
    depends on them, so its size stays near the level even where noise hides the shares (see the size study); the
    statistic of Algorithm 3 depends on them, and does not.

    Examples
    --------
    >>> from discreet import Neighbours, release
    >>> from discreet.mechanisms import Gaussian
    >>> from discreet.questions import ContingencyTable
    >>> table = ContingencyTable({"answer": ["no", "perhaps", "yes"]})
    >>> counts = np.array([30, 30, 40]), np.array([60, 30, 10])
    >>> noisy = [
    ...     release(table.exact_counts(c, neighbours=Neighbours.REPLACE_ONE), Gaussian(2.0), rng=seed)
    ...     for seed, c in enumerate(counts)
    ... ]
    >>> homogeneity(noisy, null=MonteCarlo(rng=1)).pvalue < 0.01
    True
    """
    tables = _tables(releases)
    chosen, name = _method(null, statistic, tables)
    p, r = tables[0].cells.size, len(tables)
    if isinstance(chosen, Asymptotic):
        return _asymptotic("homogeneity", *homogeneity_form(tables), tables)
    sizes = [None if table.n is None else float(table.n) for table in tables]
    noises = [table.variance for table in tables]

    def observe(samples: Sequence[Array]) -> Array:
        if name == "pearson":
            return pearson_homogeneity(samples)
        return shrunken_homogeneity(samples, sizes, noises)

    if name == "pearson":
        shares = _clean_shares(np.asarray(sum(table.value for table in tables)))
    else:
        pooled = np.asarray(sum(table.cells for table in tables)) / sum(table.size for table in tables)
        shares = tables[0].shares(pooled)
    rng = chosen.generator()

    def draw(size: int) -> Array:
        return observe([_again(table, name, shares, size, rng) for table in tables])

    observed = float(observe([_seen(table, name) for table in tables]))
    known = [table.size for table in tables]
    return compared("homogeneity", name, observed, draw, chosen, (p - 1) * (r - 1), p * r, known)


def independence(
    release: Release, *, null: Null | None = None, statistic: StatisticName | None = None
) -> ChiSquareResult:
    """Test whether the rows and columns of a released two-way table are independent.

    Parameters
    ----------
    release
        A release of a table with two axes.
    null, statistic
        As in `goodness_of_fit`.

    Examples
    --------
    >>> from discreet import Neighbours, release
    >>> from discreet.mechanisms import Gaussian
    >>> from discreet.questions import ContingencyTable
    >>> table = ContingencyTable({"arm": ["a", "b"], "outcome": ["no", "yes"]})
    >>> exact = table.exact_counts(np.array([[60, 40], [35, 65]]), neighbours=Neighbours.REPLACE_ONE)
    >>> independence(release(exact, Gaussian(2.0), rng=1), null=MonteCarlo(rng=1)).pvalue < 0.01
    True
    """
    table = _two_way(release)
    chosen, name = _method(null, statistic, [table])
    rows, columns = table.shape
    if isinstance(chosen, Asymptotic):
        return _asymptotic("independence", *independence_form(table), [table])

    def observe(cells: Array) -> Array:
        square = cells.reshape(*cells.shape[:-1], rows, columns)
        if name == "pearson":
            return pearson_independence(square)
        return shrunken_independence(square, None if table.n is None else float(table.n), table.variance)

    base = _seen(table, name)
    square = base.reshape(rows, columns)
    margins = (_clean_shares(square.sum(axis=1)), _clean_shares(square.sum(axis=0)))
    shares = np.outer(*margins).ravel()
    rng = chosen.generator()

    def draw(size: int) -> Array:
        return observe(_again(table, name, shares, size, rng))

    df = (rows - 1) * (columns - 1)
    return compared("independence", name, float(observe(base)), draw, chosen, df, rows * columns, [table.size])


def _tables(releases: Any) -> list[MeasuredTable]:
    if isinstance(releases, Release) or not isinstance(releases, Sequence) or len(releases) < 2:
        raise WrongType("releases", type(releases).__name__, "must be two or more releases", "Pass [r1, r2].")
    tables = [independent_table(release) for release in releases]
    if len({table.shape for table in tables}) != 1:
        shapes = [table.shape for table in tables]
        raise InvalidParameter("releases", shapes, "must have the same cells", "Release the same table twice.")
    return tables


def cell_probabilities(probabilities: ArrayLike, cells: int) -> Array:
    """The shares of a null hypothesis, checked: one a cell, adding up to 1."""
    try:
        shares = np.asarray(probabilities, dtype=float).ravel()
    except (TypeError, ValueError, OverflowError):
        raise WrongType("probabilities", probabilities, "must be numbers", "Pass one a cell.") from None
    if shares.size != cells:
        raise InvalidParameter(
            "probabilities", f"{shares.size} numbers", f"must be {cells}, one a cell", "Check the table."
        )
    if not np.all(np.isfinite(shares)) or shares.min() < 0 or abs(shares.sum() - 1) > 1e-6:
        raise InvalidParameter(
            "probabilities", shares, "must be non-negative and add up to 1", "Divide them by their sum."
        )
    return np.asarray(shares / shares.sum())


def _method(
    null: Null | None, statistic: StatisticName | None, tables: Sequence[MeasuredTable]
) -> tuple[Null, StatisticName]:
    chosen = MonteCarlo() if null is None else null
    requirements.instance("null", chosen, (MonteCarlo, Asymptotic), "null=MonteCarlo()")
    default: StatisticName = "shrunken"
    if isinstance(chosen, Asymptotic):
        default = "quadratic"
    elif chosen.as_published:  # Algorithms 2 and 3 whole: their statistic with their p-value
        default = "pearson"
    name = default if statistic is None else statistic
    requirements.one_of("statistic", name, get_args(StatisticName))
    if isinstance(chosen, Asymptotic) != (name == "quadratic"):
        raise InvalidParameter(
            "statistic", name, "quadratic goes with Asymptotic(), the others with MonteCarlo()", "Change one of them."
        )
    if isinstance(chosen, Asymptotic) and any(abs(excess_kurtosis(table.noise)) > _NORMAL for table in tables):
        raise InvalidParameter("null", "Asymptotic()", "needs normal noise", "Use MonteCarlo() for other noise.")
    return chosen, name


def _seen(table: MeasuredTable, name: StatisticName) -> Array:
    """The numbers a statistic uses: for Pearson's the published value, as in the paper, for others the measurement."""
    return table.value if name == "pearson" else table.cells


def _again(table: MeasuredTable, name: StatisticName, shares: Array, size: int, rng: np.random.Generator) -> Array:
    """The same for simulated tables; a private N is the estimate, rounded and kept possible."""
    if name == "pearson":
        rows = max(round(float(table.value.sum())), 0)
        return table.released(rng.multinomial(rows, shares, size=size), rng)
    return table.remeasured(rng.multinomial(table.rows, shares, size=size), rng)


def _clean_shares(values: Array) -> Array:
    """Shares of published values for simulation: negative ones count as 0; nothing at all as uniform."""
    kept = np.maximum(values, 0.0)
    total = float(kept.sum())
    return np.full(values.size, 1 / values.size) if total <= 0 else np.asarray(kept / total)


def compared(
    test: str,
    method: str,
    observed: float,
    draw: Callable[[int], Array],
    null: MonteCarlo,
    df: int,
    cells: int,
    sizes: Sequence[float],
) -> ChiSquareResult:
    """Compare an observed departure with so many drawn ones, in chunks that fit in memory."""
    count, chunk = null.n_resamples, max(_CHUNK // cells, 1)
    drawn = np.concatenate([draw(min(chunk, count - done)) for done in range(0, count, chunk)])
    return ChiSquareResult(test, method, observed, null.pvalue(observed, drawn), df, drawn, tuple(sizes))


def _asymptotic(test: str, statistic: float, df: int, tables: Sequence[MeasuredTable]) -> ChiSquareResult:
    pvalue = float(scipy.special.chdtrc(df, max(statistic, 0.0)))
    return ChiSquareResult(test, "quadratic", statistic, pvalue, df, None, tuple(table.size for table in tables))


# ---- Departures: how far noisy tables lie from a null hypothesis, for many tables at once
#
# Every function takes measurements along the last axis (or the last two) and works on stacks of simulated tables with
# a fixed number of passes over the data. Definitions and reasons: ``docs/proofs/tests.md``.


def _shrunken(departure: Array, variance: Array, direction: Array, df: int, level: Any) -> Array:
    """Squared length, in units of the variance, of the James-Stein estimate of a departure.

    ``level`` is the mean variance of a departure per degree of freedom. The component along ``direction`` (all Helmert
    coordinates alike, as in M_rJS) is kept; the rest shrinks towards no departure at all.
    """
    along = departure @ (direction / float(direction @ direction))
    rest = departure - along[..., None] * direction
    if df > 3:
        square = np.einsum("...i,...i->...", rest, rest)
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.maximum(1 - (df - 3) * level / square, 0.0)
        rest *= np.where(square > 0, factor, 0.0)[..., None]
    rest += along[..., None] * direction
    np.square(rest, out=rest)
    rest /= variance
    return np.asarray(rest.sum(axis=-1))


def _room(shares: Array) -> Array:
    """1 − Σπ², for estimates that may leave the simplex."""
    return np.asarray(np.clip(1 - np.einsum("...i,...i->...", shares, shares), 0.0, 1.0))


def shrunken_goodness(cells: Array, probabilities: Array, n: float | None, noise: float) -> Array:
    """Departures from N·π₀ of tables and of the nearest possible tables, added up.

    N is the table's own total where it is not public. The second departure uses that counts are not negative, which
    says much where noise exceeds the counts.
    """
    p = cells.shape[-1]
    total = np.asarray(cells.sum(axis=-1) if n is None else n, dtype=float)
    rows = np.maximum(total, 0.0)
    variance = rows[..., None] * probabilities + noise
    level = rows * _room(probabilities) / (p - 1) + noise
    direction = trend(p)
    measured = _shrunken(cells - total[..., None] * probabilities, variance, direction, p - 1, level)
    possible = onto_simplex(cells, rows) - rows[..., None] * probabilities
    return measured + _shrunken(possible, variance, direction, p - 1, level)


def shrunken_homogeneity(samples: Sequence[Array], sizes: Sequence[float | None], noises: Sequence[float]) -> Array:
    """Departures of several samples of tables from their common shares, added up."""
    p = samples[0].shape[-1]
    totals = [
        np.asarray(sample.sum(axis=-1) if size is None else size) for sample, size in zip(samples, sizes, strict=True)
    ]
    rows = [np.maximum(total, 0.0) for total in totals]
    everything = np.maximum(sum(rows), 1.0)
    pooled = sum(samples) / np.asarray(everything)[..., None]
    shares = np.maximum(pooled, 0.0)
    room, direction = _room(shares), trend(p)
    statistic: Any = 0.0
    for index, (sample, total) in enumerate(zip(samples, totals, strict=True)):
        own = rows[index] / everything
        noise = sum(((1.0 if other == index else 0.0) - own) ** 2 * amount for other, amount in enumerate(noises))
        sampling = rows[index] * (1 - own)
        variance = np.asarray(sampling)[..., None] * shares + np.asarray(noise)[..., None]
        departure = sample - np.asarray(total)[..., None] * pooled
        statistic = statistic + _shrunken(departure, variance, direction, p - 1, sampling * room / (p - 1) + noise)
    return np.asarray(statistic)


def shrunken_independence(tables: Array, n: float | None, noise: float) -> Array:
    """Departure of two-way tables (last two axes) from the product of their margins."""
    rows, columns = tables.shape[-2:]
    size = np.maximum(np.asarray(tables.sum(axis=(-2, -1)) if n is None else n), 1.0)
    by_row, by_column = tables.sum(axis=-1), tables.sum(axis=-2)
    expected = by_row[..., :, None] * (by_column / size[..., None])[..., None, :]
    df = (rows - 1) * (columns - 1)
    room = _room(np.maximum(by_row, 0.0) / size[..., None]) * _room(np.maximum(by_column, 0.0) / size[..., None])
    level = size * room / df + noise
    departure = (tables - expected).reshape(*tables.shape[:-2], rows * columns)
    variance = (np.maximum(expected, 0.0) + noise).reshape(departure.shape)
    direction = np.outer(trend(rows), trend(columns)).ravel()
    return _shrunken(departure, variance, direction, df, level)


def _pearson(observed: Array, expected: Array) -> Array:
    """Σ (O − E)²/E with 0/0 = 0, as lee2022 sets it; an impossible cell that is not empty counts as infinite."""
    difference = np.square(observed - expected)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = difference / expected
    return np.where(difference == 0, 0.0, share)


def pearson_goodness(cells: Array, probabilities: Array) -> Array:
    """T̃_GOF of lee2022, Algorithm 2, on published values."""
    return np.asarray(_pearson(cells, cells.sum(axis=-1)[..., None] * probabilities).sum(axis=-1))


def pearson_homogeneity(samples: Sequence[Array]) -> Array:
    """T̃_Hom of lee2022, Algorithm 3, on published values."""
    totals = [sample.sum(axis=-1)[..., None] for sample in samples]
    with np.errstate(divide="ignore", invalid="ignore"):
        pooled = np.nan_to_num(sum(samples) / sum(totals), nan=0.0, posinf=0.0, neginf=0.0)
    parts = [_pearson(sample, total * pooled).sum(axis=-1) for sample, total in zip(samples, totals, strict=True)]
    return np.asarray(sum(parts))


def pearson_independence(tables: Array) -> Array:
    """Pearson's statistic of published two-way tables (last two axes)."""
    total = tables.sum(axis=(-2, -1))[..., None, None]
    margins = tables.sum(axis=-1)[..., :, None] * tables.sum(axis=-2)[..., None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = np.nan_to_num(margins / total, nan=0.0, posinf=0.0, neginf=0.0)
    return np.asarray(_pearson(tables, expected).sum(axis=(-2, -1)))


# ---- Quadratic form: departures weighed by the inverse covariance of sampling error plus noise, with their χ² limit
#
# For a measurement x with mean m(η) under the null and covariance C, the statistic
# e'(C⁻¹ − C⁻¹J(J'C⁻¹J)⁻J'C⁻¹)e of the residual e = x − m(η̂) with Jacobian J does not depend, to first order, on how
# η was
# estimated, and tends to χ². Proof: ``docs/proofs/tests.md``.


_LARGEST = 4000


def goodness_form(table: MeasuredTable, probabilities: Array) -> tuple[float, int]:
    """Statistic and degrees of freedom, in O(p)."""
    diagonal = table.size * probabilities + table.variance
    residual = table.cells - table.size * probabilities
    weighted = probabilities / diagonal
    if table.n is None:
        # The estimated N is one nuisance direction, π₀ itself; it also absorbs −N·π₀π₀'.
        square = residual @ (residual / diagonal) - (weighted @ residual) ** 2 / (weighted @ probabilities)
    else:
        # C = diag(Nπ₀ + σ²) − N·π₀π₀' on the tables of total zero, inverted by Sherman and Morrison.
        gain = table.size / (1 - table.size * float(weighted @ probabilities))
        square = residual @ (residual / diagonal) + gain * (weighted @ residual) ** 2
    return float(square), table.cells.size - 1


def _covariance(table: MeasuredTable, shares: Array) -> Array:
    return np.diag(table.size * shares + table.variance) - table.size * np.outer(shares, shares)


def _projected_form(residual: Array, covariance: Array, jacobian: Array) -> float:
    solved = np.linalg.solve(covariance, np.column_stack([residual, jacobian]))
    own, tangent = solved[:, 0], solved[:, 1:]
    inner = jacobian.T @ tangent
    return float(residual @ own - (jacobian.T @ own) @ np.linalg.pinv(inner, hermitian=True) @ (tangent.T @ residual))


def _small_enough(cells: int) -> None:
    if cells > _LARGEST:
        raise InvalidParameter(
            "null", f"{cells} cells", f"the quadratic form takes at most {_LARGEST}", "Use null=MonteCarlo()."
        )


def homogeneity_form(tables: Sequence[MeasuredTable]) -> tuple[float, int]:
    """Statistic and degrees of freedom (r − 1)(p − 1)."""
    p, r = tables[0].cells.size, len(tables)
    _small_enough(p * r)
    together = np.asarray(sum(table.cells for table in tables))
    pooled = tables[0].shares(together / sum(table.size for table in tables))
    covariance = np.zeros((r * p, r * p))
    nuisance = 0 if all(table.n is not None for table in tables) else r
    jacobian = np.zeros((r * p, p - 1 + nuisance))
    contrasts = np.eye(p)[:, 1:] - np.eye(p)[:, :1]
    for index, table in enumerate(tables):
        part = slice(index * p, (index + 1) * p)
        covariance[part, part] = _covariance(table, pooled)
        jacobian[part, : p - 1] = table.size * contrasts
        if nuisance and table.n is None:
            jacobian[part, p - 1 + index] = pooled
    residual = np.concatenate([table.cells - table.size * pooled for table in tables])
    return _projected_form(residual, covariance, jacobian), (r - 1) * (p - 1)


def independence_form(table: MeasuredTable) -> tuple[float, int]:
    """Statistic and degrees of freedom (r − 1)(c − 1)."""
    rows, columns = table.shape
    _small_enough(rows * columns)
    square = table.cells.reshape(rows, columns) / table.size
    by_row = table.shares(square.sum(axis=1))
    by_column = table.shares(square.sum(axis=0))
    shares = np.outer(by_row, by_column).ravel()
    row_moves = [np.outer(move, by_column).ravel() for move in (np.eye(rows)[1:] - np.eye(rows)[:1])]
    column_moves = [np.outer(by_row, move).ravel() for move in (np.eye(columns)[1:] - np.eye(columns)[:1])]
    directions = [*row_moves, *column_moves, *([shares] if table.n is None else [])]
    residual = table.cells - table.size * shares
    statistic = _projected_form(residual, _covariance(table, shares), np.column_stack(directions))
    return statistic, (rows - 1) * (columns - 1)


# ---- Tests of one released margin among many: the null is simulated through the noise that this margin has


Departure = Callable[[Array, float | None, float], Array]
"""From tables, the public number of rows and the noise variance of a cell to how far they lie from the null."""


def simulated_test(
    test: str,
    method: str,
    observed: Array,
    nulls: Sequence[tuple[Array, int]],
    df: int,
    departure: Departure,
    *,
    public: int | None,
    noise_variance: float,
    noise: Callable[[int, np.random.Generator], Array],
    null: MonteCarlo,
) -> ChiSquareResult:
    """Compare the departure of an observed table with those of simulated ones; of several nulls, the likeliest counts.

    Parameters
    ----------
    test, method
        What is tested, and by which statistic.
    observed
        The measured table.
    nulls
        Cell probabilities under the null and the number of rows to simulate, as measured first.
    df
        Degrees of freedom of the hypothesis.
    departure
        The statistic.
    public
        The number of rows where it is public.
    noise_variance, noise
        Of a cell; and the noise of whole tables, so many at a time.
    null
        How many tables to simulate, and from which seed.
    """
    statistic = float(departure(observed, public, noise_variance))

    def under(expected: Array, rows: int) -> ChiSquareResult:
        rng = null.generator()

        def draw(size: int) -> Array:
            tables = rng.multinomial(rows, expected.ravel(), size=size).reshape(size, *expected.shape)
            return np.asarray(departure(tables + noise(size, rng), public, noise_variance))

        return compared(test, method, statistic, draw, null, df, expected.size, [float(nulls[0][1])])

    return max((under(*one) for one in nulls), key=lambda found: found.pvalue)


def positive_probability(name: str, value: Any) -> float:
    """A probability above 0 and below 1."""
    number = requirements.probability(name, value)
    if number == 0:
        raise InvalidParameter(name, value, "must be above 0", f"Pass {name}=0.05, for example.")
    return number


def smallest_departure(
    *, df: int, cells: int, n: int, noise_variance: float, alpha: float = 0.05, power: float = 0.8
) -> float:
    """Cohen's w that a χ² test of a noisy table finds with this power, where cells are of equal size.

    With shares 1/K the departure nw²/K per cell stands against n/K of sampling and σ² of noise, so the noncentrality
    is nw²/(1 + Kσ²/n).

    Examples
    --------
    >>> round(smallest_departure(df=3, cells=4, n=1000, noise_variance=0.0), 4)
    0.1044
    >>> round(smallest_departure(df=3, cells=4, n=1000, noise_variance=250.0), 4)  # as much noise as sampling
    0.1477
    """
    alpha, wanted = positive_probability("alpha", alpha), positive_probability("power", power)
    critical = solved(lambda x: -float(_chi_square_tails(x, df, 1)[0]), -alpha)

    def reached(noncentrality: float) -> float:
        """The power: χ² with df + 2J degrees of freedom, J ~ Poisson(λ/2)."""
        half = noncentrality / 2
        last = math.ceil(half + 10 * math.sqrt(half) + 30)
        logs = np.append(0.0, np.cumsum(np.log(np.arange(1.0, last))))
        weights = np.exp(np.arange(last) * math.log(max(half, 1e-300)) - half - logs)
        return float(weights @ _chi_square_tails(critical, df, last))

    found = 0.0 if reached(0.0) >= wanted else solved(reached, wanted)
    return math.sqrt(found * (1 + cells * noise_variance / n) / n)


# scipy has both functions below; a plan takes longer to import it than for all else.


def _chi_square_tails(x: float, df: int, count: int) -> Array:
    """P(χ² > x) for df, df + 2, … degrees of freedom: each is the one before and a term of the series."""
    half, start = x / 2, df % 2
    places = np.arange(start / 2, df / 2 + count - 1)  # the terms that lead to the largest
    first = math.erfc(math.sqrt(half)) if start else math.exp(-half)
    begin = math.lgamma(1 + start / 2)
    logs = begin + np.append(0.0, np.cumsum(np.log(places[1:])))[: places.size]
    if not start:
        places, logs = places[1:], logs[1:]
    terms = np.exp(places * math.log(max(half, 1e-300)) - half - logs)
    return np.append(first, first + np.cumsum(terms))[-count:]


# ---- Association in released two-way tables: odds ratio and Cramér's V, with intervals for sampling and noise.


_RATIOS = (1e-6, 1e6)
"""Odds ratios that are told from 0 and from infinity."""
_STRENGTHS = 33
"""Strengths of association that are simulated, finer near 0."""


def _ratio_ends(table: MeasuredTable, estimate: float, level: float) -> tuple[float, float]:
    """The ratios ψ whose simulated releases do not make ad − ψ·bc extreme: a test, inverted.

    It needs no logarithm of a noisy cell and holds for small cells. It is unbounded above where the data cannot exclude
    that: from 0 to infinity, noise or sampling error hide the association altogether.
    """
    ratios = np.geomspace(*_RATIOS, 41)
    if _RATIOS[0] < estimate < _RATIOS[1]:  # where the departure is 0: a narrow interval lies between others
        ratios = np.sort(np.append(ratios, estimate))
    held = np.flatnonzero(accepted_ratios(table, ratios, level))
    if held.size == 0:
        return 0.0, math.inf

    def edge(inner: int, outer: int) -> float:
        """Where acceptance ends between an accepted ratio and one that is not, rounded outwards."""
        finer = np.geomspace(float(ratios[inner]), float(ratios[outer]), 13)
        kept = np.flatnonzero(accepted_ratios(table, finer, level))
        return float(finer[min(int(kept[-1]) + 1 if kept.size else 1, 12)])

    first, last = int(held[0]), int(held[-1])
    low = 0.0 if first == 0 else edge(first, first - 1)
    high = math.inf if last == ratios.size - 1 else edge(last, last + 1)
    inside = estimate if not math.isnan(estimate) else low
    return min(low, inside), max(high, inside)


def accepted_ratios(table: MeasuredTable, ratios: Array, level: float = 0.95) -> NDArray[np.bool_]:
    """True where the test of each ψ does not reject it: ad − ψ·bc has mean 0 whatever the margins are."""
    tail = (1 - level) / 2
    rng = np.random.default_rng(0)  # the same release gives the same interval
    draws = max(399, math.ceil(15 / tail))
    shares = np.array([_with_ratio(*_margins(table), ratio) for ratio in ratios.tolist()])
    counts = rng.multinomial(table.rows, shares, (draws, ratios.size))
    drawn, found = (
        x[..., 0] * x[..., 3] - ratios * x[..., 1] * x[..., 2] for x in (table.remeasured(counts, rng), table.cells)
    )
    below, above = ((1 + (side * drawn <= side * found).sum(axis=0)) / (1 + draws) for side in (1, -1))
    return np.asarray(np.minimum(below, above) >= tail)


def _margins(table: MeasuredTable) -> tuple[float, float]:
    """Shares of the first row and the first column, kept off the ends by one row and by the noise of a margin."""
    square = table.cells.reshape(2, 2)
    least = 1 + math.sqrt(2 * table.variance)
    first, second = ((float(part) + least) / (table.size + 2 * least) for part in (square[0].sum(), square[:, 0].sum()))
    edge = least / (table.size + 2 * least)
    return min(max(first, edge), 1 - edge), min(max(second, edge), 1 - edge)


def _with_ratio(row: float, column: float, ratio: float) -> Array:
    """The 2 × 2 shares with these margins and this odds ratio (Plackett 1965)."""
    if abs(ratio - 1) < 1e-9:
        first = row * column
    else:
        s = 1 + (row + column) * (ratio - 1)
        first = (s - math.sqrt(max(s * s - 4 * row * column * ratio * (ratio - 1), 0.0))) / (2 * (ratio - 1))
    first = min(max(first, row + column - 1, 0.0), row, column)
    shares = np.maximum([first, row - first, column - first, 1 - row - column + first], 0.0)
    return np.asarray(shares / shares.sum())


def odds_ratio(release: Release) -> DerivedNumber:
    """Odds ratio of a released 2 × 2 table, ad/bc; infinite or NaN where noise leaves nothing to divide by."""
    table = _two_way(release)
    if table.shape != (2, 2):
        raise InvalidParameter("release", f"shape {table.shape}", "must be a 2 × 2 table", "Release such a table.")
    a, b, c, d = (float(cell) for cell in table.cells)
    upper = max(a, 0.0) * max(d, 0.0)
    lower = max(b, 0.0) * max(c, 0.0)
    estimate = upper / lower if lower > 0 else (math.inf if upper > 0 else math.nan)
    return DerivedNumber("Odds ratio", estimate, lambda level: _ratio_ends(table, estimate, level))


def cramers_v(release: Release, null: MonteCarlo | None = None) -> DerivedNumber:
    """Cramér's V of a released two-way table, with what noise adds to it taken away.

    Tables of every strength are simulated through the same noise: those between independence, with the measured
    margins, and the farthest table in the direction of the measured departure that has no negative cell. The interval
    has the strengths whose simulated releases do not make the released table extreme: a test, inverted. From 0 to 1,
    noise or sampling error hide the association altogether.
    """
    table = _two_way(release)
    method = null or MonteCarlo(n_resamples=499)
    rng = method.generator()
    independent, departure = _family(table)
    most = float(np.min(independent[departure < 0] / -departure[departure < 0]))
    observed = _squared(table.cells, table)
    tails, strengths = [], []
    for share in np.linspace(0.0, 1.0, _STRENGTHS) ** 2:
        shares = np.maximum(independent + share * most * departure, 0.0)
        counts = rng.multinomial(table.rows, shares / shares.sum(), size=method.n_resamples)
        drawn = _squared(table.remeasured(counts, rng), table)
        tails.append([method.pvalue(-float(observed), -drawn), method.pvalue(float(observed), drawn)])
        strengths.append(_strength(shares.reshape(table.shape)))
    rarer = np.array(tails).min(axis=1)
    estimate = float(np.sqrt(np.clip(observed, 0.0, 1.0)))

    def ends(level: float) -> tuple[float, float]:
        held = np.flatnonzero(rarer >= (1 - level) / 2)
        if held.size == 0:  # between two strengths of the grid
            held = np.array([np.argmax(rarer)])
        first, last = int(held[0]), int(held[-1])
        low = 0.0 if first == 0 else strengths[first - 1]
        high = 1.0 if last == len(strengths) - 1 else strengths[last + 1]
        return min(low, estimate), max(high, estimate)

    return DerivedNumber("Cramér's V", estimate, ends)


def _family(table: MeasuredTable) -> tuple[Array, Array]:
    """Shares under independence with the measured margins, and the measured departure from them."""
    square = table.shares().reshape(table.shape)
    by_row, by_column = (np.maximum(square.sum(axis=axis), 1e-9) for axis in (1, 0))
    independent = np.outer(by_row / by_row.sum(), by_column / by_column.sum())
    departure = square - independent
    if np.max(np.abs(departure)) < 1e-9:  # nothing was measured: any direction that keeps the margins
        slopes = [share * (place - share @ place) for share, place in _places(by_row, by_column)]
        departure = np.outer(*slopes)
    return independent.ravel(), departure.ravel()


def _places(*margins: Array) -> list[tuple[Array, Array]]:
    return [(margin / margin.sum(), np.arange(margin.size, dtype=float)) for margin in margins]


def _strength(shares: Array) -> float:
    """Cramér's V of a population."""
    expected = np.outer(shares.sum(axis=1), shares.sum(axis=0)) / shares.sum()
    squared = ((shares - expected) ** 2 / np.maximum(expected, 1e-300)).sum() / shares.sum()
    return math.sqrt(min(float(squared) / (min(shares.shape) - 1), 1.0))


def _squared(cells: Array, table: MeasuredTable) -> Array:
    """V² from measurements (last axis): Σ(x − E)²/E without what noise and sampling add on average.

    It is negative where they added less; simulated and released values are compared as they are.
    """
    rows, columns = table.shape
    square = cells.reshape(*cells.shape[:-1], rows, columns)
    size = np.maximum(square.sum(axis=(-2, -1)), 1.0)[..., None, None]
    by_row = np.maximum(square.sum(axis=-1), 0.5)[..., :, None]
    by_column = np.maximum(square.sum(axis=-2), 0.5)[..., None, :]
    expected = by_row * by_column / size
    excess = (square - expected) ** 2 / expected
    free_rows, free_columns = 1 - by_row / size, 1 - by_column / size
    share = (rows - 1) * (columns - 1) / (rows * columns)
    added = np.clip(free_rows * free_columns, 0.0, 1.0) + table.variance * share / expected
    return np.asarray((excess - added).sum(axis=(-2, -1)) / size[..., 0, 0] / (min(rows, columns) - 1))


def _two_way(release: Release) -> MeasuredTable:
    table = independent_table(release)
    if len(table.shape) != 2 or min(table.shape) < 2:
        raise InvalidParameter(
            "release", f"shape {table.shape}", "must have two axes of at least two cells", "Release such a table."
        )
    return table
