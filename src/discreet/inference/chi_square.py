"""χ² tests on released tables: goodness of fit, homogeneity, independence.

They use nothing but releases, so they are post-processing and cost no privacy. The default statistic measures the
departure from the null, shrunk by James-Stein, in units of sampling error plus noise; its null distribution is
simulated through the same noise. See ``docs/proofs/tests.md`` for what is exact and what is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType
from discreet.display import Facts, number
from discreet.inference.measured_table import MeasuredTable, independent_table
from discreet.inference.monte_carlo import Asymptotic, MonteCarlo
from discreet.inference.noise_sum import excess_kurtosis
from discreet.mechanisms.tables.clipping import onto_simplex
from discreet.mechanisms.tables.helmert import trend
from discreet.releases import Release
from discreet.result import Result

__all__ = [
    "ChiSquareResult", "Departure", "StatisticName", "goodness_form", "goodness_of_fit", "homogeneity",
    "homogeneity_form", "independence", "independence_form", "pearson_goodness", "pearson_homogeneity",
    "pearson_independence", "shrunken_goodness", "shrunken_homogeneity", "shrunken_independence", "simulated_test",
]  # fmt: skip


Array = NDArray[np.float64]
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
        """What to show of a result."""
        resamples = 0 if self.null_distribution is None else self.null_distribution.size
        source = f"{resamples:,} simulated releases" if resamples else f"χ² with {self.df} degrees of freedom"
        return [
            ("statistic", f"{number(self.statistic)} ({self.method})"),
            ("p-value", f"{self.pvalue:.4g}, by {source}"),
            ("rows", ", ".join(number(n) for n in self.n)),
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
        ``"pearson"``, lee2022's Algorithm 2 on the published value.

    Notes
    -----
    Where N is public the simulated null is the true one, so the size is exact for any N and any noise. Where N is
    private it is estimated by the table's total, rounded, and at least 1.

    Examples
    --------
    >>> from discreet import ContingencyTable, Gaussian, Neighbours, release
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

    rng = chosen.generator()
    null_values = _simulated(
        lambda size: observe(_again(table, name, shares, size, rng)), chosen.n_resamples, table.cells.size
    )
    observed, df = float(observe(_seen(table, name))), table.cells.size - 1
    return _simulated_result("goodness of fit", name, observed, null_values, chosen, df, [table])


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
    >>> from discreet import ContingencyTable, Gaussian, Neighbours, release
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

    observed = observe([_seen(table, name) for table in tables])
    null_values = _simulated(draw, chosen.n_resamples, p * r)
    df = (p - 1) * (r - 1)
    return _simulated_result("homogeneity", name, float(observed), null_values, chosen, df, tables)


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
    >>> from discreet import ContingencyTable, Gaussian, Neighbours, release
    >>> table = ContingencyTable({"arm": ["a", "b"], "outcome": ["no", "yes"]})
    >>> exact = table.exact_counts(np.array([[60, 40], [35, 65]]), neighbours=Neighbours.REPLACE_ONE)
    >>> independence(release(exact, Gaussian(2.0), rng=1), null=MonteCarlo(rng=1)).pvalue < 0.01
    True
    """
    table = independent_table(release)
    if len(table.shape) != 2 or min(table.shape) < 2:
        raise InvalidParameter(
            "release", f"shape {table.shape}", "must have two axes of at least two cells", "Release such a table."
        )
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

    null_values = _simulated(draw, chosen.n_resamples, rows * columns)
    df = (rows - 1) * (columns - 1)
    return _simulated_result("independence", name, float(observe(base)), null_values, chosen, df, [table])


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
    default: StatisticName = "quadratic" if isinstance(chosen, Asymptotic) else "shrunken"
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
    """What a statistic looks at: Pearson's at the published value, as in the paper, the others at the measurement."""
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


def _simulated(draw: Callable[[int], Array], count: int, cells: int) -> Array:
    """Simulated statistics, in chunks that fit in memory."""
    chunk = max(_CHUNK // cells, 1)
    parts = [draw(min(chunk, count - done)) for done in range(0, count, chunk)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _simulated_result(
    test: str,
    name: str,
    observed: float,
    null_values: Array,
    chosen: MonteCarlo,
    df: int,
    tables: Sequence[MeasuredTable],
) -> ChiSquareResult:
    sizes = tuple(table.size for table in tables)
    return ChiSquareResult(test, name, observed, chosen.pvalue(observed, null_values), df, null_values, sizes)


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
    by_row, by_column = table.shares(square.sum(axis=1)), table.shares(square.sum(axis=0))
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
_SIMULATED_CELLS = 4_000_000


def simulated_test(
    test: str,
    method: str,
    observed: Array,
    expected: Array,
    df: int,
    departure: Departure,
    *,
    rows: int,
    public: int | None,
    noise_variance: float,
    noise: Callable[[int, np.random.Generator], Array],
    null: MonteCarlo,
) -> ChiSquareResult:
    """Compare the departure of an observed table with those of simulated ones.

    Parameters
    ----------
    test, method
        What is tested, and by which statistic.
    observed, expected
        The measured table, and the cell probabilities under the null.
    df
        Degrees of freedom of the hypothesis.
    departure
        The statistic.
    rows, public
        Rows to simulate, and their number where it is public.
    noise_variance, noise
        Of a cell; and the noise of whole tables, so many at a time.
    null
        How many tables to simulate, and from which seed.
    """
    rng = null.generator()
    statistic = float(departure(observed, public, noise_variance))
    found = []
    for size in _chunks(null.n_resamples, expected.size):
        tables = rng.multinomial(rows, expected.ravel(), size=size).reshape(size, *expected.shape)
        found.append(np.asarray(departure(tables + noise(size, rng), public, noise_variance)))
    simulated = np.concatenate(found)
    pvalue = null.pvalue(statistic, simulated)
    return ChiSquareResult(test, method, statistic, pvalue, df, simulated, (float(rows),))


def _chunks(resamples: int, cells: int) -> list[int]:
    most = max(_SIMULATED_CELLS // cells, 1)
    return [min(most, resamples - start) for start in range(0, resamples, most)]
