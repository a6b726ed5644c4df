"""Power of χ² tests on private tables: what N or what μ detects a given alternative, before any data is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy  # whose submodules load when first used
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.guarantee import GaussianDP, Guarantee
from discreet.core.protection import Neighbours
from discreet.core.sensitivity import Sensitivity
from discreet.inference.tables import positive_probability
from discreet.mechanisms.gaussian import Gaussian

Array = NDArray[np.float64]


def _shares(name: str, values: ArrayLike) -> Array:
    try:
        shares = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise WrongType(name, values, "must be numbers", "Pass one probability a cell.") from None
    if shares.size < 2 or not np.all(np.isfinite(shares)) or shares.min() < 0 or abs(shares.sum() - 1) > 1e-6:
        raise InvalidParameter(name, shares, "must be probabilities that add up to 1", "Divide them by their sum.")
    return np.asarray(shares / shares.sum())


@dataclass(frozen=True)
class TestDesign:
    """A test against a fixed alternative, with Gaussian noise on every cell of every table.

    Power is that of the quadratic form, by its noncentral χ² limit (``docs/proofs/tests.md``).

    Attributes
    ----------
    df
        Degrees of freedom.
    """

    __test__: ClassVar[bool] = False  # not a test class of pytest
    df: int
    _noncentrality: Callable[[float, float], float] = field(repr=False)
    """Squared distance of the alternative, in the metric of sampling plus noise; n is the size of every table."""

    @classmethod
    def goodness_of_fit(cls, null: ArrayLike, alternative: ArrayLike) -> TestDesign:
        """Testing shares ``null`` where the truth is ``alternative``.

        Examples
        --------
        >>> design = TestDesign.goodness_of_fit([0.25] * 4, [0.3, 0.25, 0.25, 0.2])
        >>> design.sample_size(guarantee=GaussianDP(0.3))
        623
        """
        shares = _shares("null", null).ravel()
        truth = _shares("alternative", alternative).ravel()
        if shares.size != truth.size:
            raise InvalidParameter("alternative", truth, f"must have {shares.size} cells", "Check its length.")
        return cls(shares.size - 1, lambda n, variance: _distance(n * (truth - shares), shares, n, variance))

    @classmethod
    def homogeneity(cls, populations: Sequence[Any]) -> TestDesign:
        """Comparing samples of equal size from populations with these shares, each released as its own table.

        Examples
        --------
        >>> design = TestDesign.homogeneity([[0.25] * 4, [0.3, 0.25, 0.25, 0.2]])
        >>> round(design.power(n=2000, guarantee=GaussianDP(0.3)), 3)
        0.971
        """
        given: Any = populations
        if not isinstance(given, Sequence | np.ndarray) or len(given) < 2:
            raise WrongType("populations", given, "must be two or more lists of shares", "Pass [p1, p2].")
        every = [_shares("populations", population).ravel() for population in given]
        if len({shares.size for shares in every}) != 1:
            raise InvalidParameter("populations", given, "must have the same cells", "Check their lengths.")
        pooled = np.mean(every, axis=0)
        return cls(
            (len(every) - 1) * (pooled.size - 1),
            lambda n, variance: sum(_distance(n * (shares - pooled), pooled, n, variance) for shares in every),
        )

    @classmethod
    def independence(cls, joint: ArrayLike) -> TestDesign:
        """Testing independence of rows and columns where the shares of the table are ``joint``.

        Examples
        --------
        >>> design = TestDesign.independence([[0.3, 0.2], [0.2, 0.3]])
        >>> design.mu(n=500)
        GaussianDP(mu=0.101662)
        """
        shares = _shares("joint", joint)
        if shares.ndim != 2 or min(shares.shape) < 2:
            raise InvalidParameter("joint", shares, "must be a two-way table of shares", "Pass a list of rows.")
        rows, columns = shares.shape
        return cls((rows - 1) * (columns - 1), lambda n, variance: _dependence(shares, n, variance))

    def power(
        self,
        *,
        n: int,
        guarantee: Guarantee,
        neighbours: Neighbours = Neighbours.REPLACE_ONE,
        alpha: float = 0.05,
    ) -> float:
        """Probability of detecting the alternative with ``n`` rows a table, each table under ``guarantee``."""
        rows = requirements.positive_integer("n", n)
        return self._power(rows, _scale(guarantee, neighbours) ** 2, positive_probability("alpha", alpha))

    def _power(self, n: float, variance: float, alpha: float) -> float:
        critical = float(scipy.special.chdtri(self.df, alpha))
        return float(1 - scipy.special.chndtr(critical, self.df, self._noncentrality(n, variance)))

    def sample_size(
        self,
        *,
        guarantee: Guarantee,
        power: float = 0.8,
        neighbours: Neighbours = Neighbours.REPLACE_ONE,
        alpha: float = 0.05,
    ) -> int:
        """The smallest number of rows a table that detects the alternative with this power."""
        variance = _scale(guarantee, neighbours) ** 2
        wanted = positive_probability("power", power)
        level = positive_probability("alpha", alpha)
        self._check_reachable(wanted, level)
        low, high = 0, 1
        while self._power(high, variance, level) < wanted:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._power(middle, variance, level) >= wanted else (middle, high)
        return high

    def mu(
        self,
        *,
        n: int,
        power: float = 0.8,
        neighbours: Neighbours = Neighbours.REPLACE_ONE,
        alpha: float = 0.05,
    ) -> GaussianDP:
        """The strongest μ-GDP guarantee a table under which the alternative is still detected with this power."""
        rows = requirements.positive_integer("n", n)
        wanted = positive_probability("power", power)
        level = positive_probability("alpha", alpha)
        self._check_reachable(wanted, level)
        if self._power(rows, 0.0, level) <= wanted:
            raise InvalidParameter(
                "n", n, f"is too small for power {wanted:g} even without noise", "Collect more rows, or ask for less."
            )
        delta = _delta(neighbours)

        def excess(log_scale: float) -> float:
            return self._power(rows, math.exp(2 * log_scale), level) - wanted

        scale = math.exp(float(scipy.optimize.brentq(excess, -20.0, 20.0 + math.log(rows), xtol=1e-12)))
        return GaussianDP(math.ceil(delta / scale * 1e6) / 1e6)

    def _check_reachable(self, wanted: float, alpha: float) -> None:
        if wanted <= alpha:
            raise InvalidParameter("power", wanted, "must exceed alpha", "Ask for a power such as 0.8.")
        if self._noncentrality(1e6, 1.0) <= 0:
            raise InvalidParameter("alternative", "…", "must differ from the null", "Pass another alternative.")


def _delta(neighbours: Neighbours) -> float:
    requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.REPLACE_ONE")
    return math.sqrt(2) if neighbours is Neighbours.REPLACE_ONE else 1.0


def _scale(guarantee: Guarantee, neighbours: Neighbours) -> float:
    requirements.instance("guarantee", guarantee, Guarantee, "a guarantee such as GaussianDP(0.3)")
    moves = (1.0, 1.0) if _delta(neighbours) > 1 else (1.0,)
    return Gaussian.calibrate(guarantee, Sensitivity(moves=moves)).scale


def _distance(difference: Array, shares: Array, n: float, variance: float) -> float:
    """δ'(diag(Nπ + σ²) − Nππ')⁻¹δ for counts that differ by δ with total zero."""
    diagonal = n * shares + variance
    used = diagonal > 0
    weighted = np.divide(shares, diagonal, out=np.zeros_like(shares), where=used)
    square = float(np.sum(np.divide(difference**2, diagonal, out=np.zeros_like(shares), where=used)))
    rest = 1 - n * float(weighted @ shares)
    return square if rest <= 1e-12 else square + n * float(weighted @ difference) ** 2 / rest


def _dependence(joint: Array, n: float, variance: float) -> float:
    """Squared distance of a two-way table of shares from independence."""
    by_row, by_column = joint.sum(axis=1), joint.sum(axis=0)
    null = np.outer(by_row, by_column)
    difference = n * (joint - null)
    # Both margins of the departure are zero, so it is orthogonal to the nuisance directions but for noise.
    covariance = np.diag(n * null.ravel() + variance) - n * np.outer(null, null)
    covariance += 1e-12 * max(n, 1.0) * np.eye(null.size)
    moves = [np.outer(move, by_column).ravel() for move in np.eye(by_row.size)[1:] - np.eye(by_row.size)[:1]]
    moves += [np.outer(by_row, move).ravel() for move in np.eye(by_column.size)[1:] - np.eye(by_column.size)[:1]]
    jacobian = np.column_stack(moves)
    solved = np.linalg.solve(covariance, np.column_stack([difference.ravel(), jacobian]))
    own, tangent = solved[:, 0], solved[:, 1:]
    lost = (jacobian.T @ own) @ np.linalg.pinv(jacobian.T @ tangent, hermitian=True) @ (jacobian.T @ own)
    return float(difference.ravel() @ own - lost)
