"""χ² tests on released tables: goodness of fit, homogeneity, independence.

They use nothing but releases, so they are post-processing and cost no privacy. The default statistic measures the
departure from the null, shrunk by James-Stein, in units of sampling error plus noise; its null distribution is
simulated through the same noise. See ``docs/proofs/chi_square.md`` for what is exact and what is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import scipy  # whose submodules load when first used
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType
from discreet.display import Facts, number
from discreet.inference import departures, quadratic_form
from discreet.inference.measured_table import MeasuredTable, independent_table
from discreet.inference.monte_carlo import Asymptotic, MonteCarlo
from discreet.inference.noise_sum import excess_kurtosis
from discreet.releases import Release
from discreet.result import Result

__all__ = ["ChiSquareResult", "StatisticName", "goodness_of_fit", "homogeneity", "independence"]

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
        return _asymptotic("goodness of fit", *quadratic_form.goodness_form(table, shares), [table])
    n = None if table.n is None else float(table.n)

    def observe(cells: Array) -> Array:
        if name == "pearson":
            return departures.pearson_goodness(cells, shares)
        return departures.shrunken_goodness(cells, shares, n, table.variance)

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
        return _asymptotic("homogeneity", *quadratic_form.homogeneity_form(tables), tables)
    sizes = [None if table.n is None else float(table.n) for table in tables]
    noises = [table.variance for table in tables]

    def observe(samples: Sequence[Array]) -> Array:
        if name == "pearson":
            return departures.pearson_homogeneity(samples)
        return departures.shrunken_homogeneity(samples, sizes, noises)

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
        return _asymptotic("independence", *quadratic_form.independence_form(table), [table])

    def observe(cells: Array) -> Array:
        square = cells.reshape(*cells.shape[:-1], rows, columns)
        if name == "pearson":
            return departures.pearson_independence(square)
        return departures.shrunken_independence(square, None if table.n is None else float(table.n), table.variance)

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
