"""Logistic regression from noisy moments: coefficients, intervals and tests that account for noise and sampling.

Rows lie in cells (combinations of labels) with a number of rows of each outcome. Every polynomial of the numbers that
stays within the degrees is a weighted sum of the totals, and it is known by its values at as many nodes as there are
parts. So the totals become weights, of either sign, of the nodes of each cell, and a fit is that of few weighted rows.
An interval covers every value that the score test does not reject: the score at the best coefficients with that value
has mean zero but for a known bias, and a variance of sampling, noise and nothing else. Proof:
``docs/proofs/logistic_regression.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from statistics import NormalDist

import numpy as np
import scipy
from numpy.typing import NDArray

from discreet.inference.least_squares import JointTest, Linear
from discreet.inference.noise import NoisyTotals

# ---- Polynomials in the log-odds that stand for the score of a logistic regression
#
# The score of a row is z·(y − σ(η)), with η = β·z. Noisy moments know polynomials only. So a row with y = 1 counts
# z·D(η) and one with y = 0 counts −z·N(η), where D is near 1 − σ and N near σ, and D·σ − N·(1 − σ) is next to nothing:
# that is the mean of a row under the model, hence the bias. N/D is a rational approximation of exp, which converges
# much
# faster than any polynomial does to σ. Derivation and figures: ``docs/proofs/logistic_regression.md``.


Array = NDArray[np.float64]
_POINTS = np.cos((2 * np.arange(24) + 1) * np.pi / 48)
_CLOSER = np.linspace(-1.0, 1.0, 97)
"""Places in a range at which a polynomial is fitted (those of Chebyshev), and at which its bias is measured."""
_UNBIASED = 300.0
"""The weight of the bias against the distance to the efficient score: 1e-4 at a loss of 1 to 3 % in variance."""
_FAITHFUL = 100.0
"""The same for squares: their mean under the model counts more than each of them."""


@cache
def _basis(degree: int) -> tuple[Array, Array]:
    """All powers of the points up to a degree, and squares of two such polynomials added up over the points."""
    basis = np.vander(_POINTS, degree + 1, increasing=True)
    return np.asarray(basis), np.asarray(np.kron(np.eye(2), basis.T @ basis))


@dataclass(frozen=True)
class ScorePolynomials:
    """Polynomials for ranges of log-odds, each from ``middle − half`` to ``middle + half``.

    Parameters
    ----------
    middle, half
        The ranges, in arrays of one shape.
    degree
        Highest power of z·D(η) in a row, so that of D is one less; squares (w·z)²·D² stay within it too.

    Examples
    --------
    >>> score = ScorePolynomials(np.array([0.0]), np.array([2.0]), 4)
    >>> bool(score.bias[0] < 2e-4)
    True
    """

    middle: Array
    half: Array
    degree: int

    def _shares(self, places: Array) -> Array:
        """σ at places from −1 to 1 of every range, along the last axis."""
        return np.asarray(scipy.special.expit(self.middle[..., None] + self.half[..., None] * places))

    @cached_property
    def _share(self) -> Array:
        return self._shares(_POINTS)

    def _fitted(self, degree: int, weight: float, sign: int, yes: Array, no: Array) -> Array:
        """Coefficients of two polynomials near ``yes`` and ``no``, whose mean under the model counts most."""
        basis, near = _basis(degree)
        of_no = sign * (1 - self._share)
        both = np.concatenate([self._share[..., None] * basis, of_no[..., None] * basis], axis=-1)
        transposed = weight**2 * np.swapaxes(both, -1, -2)
        mean = self._share * yes + of_no * no
        right = transposed @ mean[..., None] + np.concatenate([yes @ basis, no @ basis], axis=-1)[..., None]
        found = np.linalg.solve(transposed @ both + near, right)
        return np.moveaxis(found.reshape(*found.shape[:-2], 2, degree + 1), (-1, -2), (0, 1))

    @cached_property
    def _score(self) -> Array:
        return self._fitted(max(self.degree - 1, 0), _UNBIASED, -1, 1 - self._share, self._share)

    @cached_property
    def _sides(self) -> Array:
        """D and N at the points of every range."""
        return _polynomials(self._score[..., None], _POINTS)

    def score(self, log_odds: Array) -> Array:
        """D and N at log-odds that broadcast against the ranges."""
        return self._at(self._score, log_odds)

    def squares(self, log_odds: Array) -> Array:
        """The polynomials that stand for D² and N², so that a square of terms can be a factor of them."""
        return self._at(self._fitted(max(self.degree - 2, 0), _FAITHFUL, 1, *self._sides**2), log_odds)

    def slopes(self, log_odds: Array) -> Array:
        """The rate at which the score falls with the log-odds, in rows with y = 1 and y = 0."""
        # As D·σ is N·(1 − σ), the mean of the score falls with the log-odds at the rate D·σ, half of it from each side.
        return self._at(self._fitted(max(self.degree - 2, 0), _FAITHFUL, 1, *self._sides / 2), log_odds)

    @cached_property
    def bias(self) -> Array:
        """The largest distance of D·σ − N·(1 − σ) from 0, in every range."""
        (yes, no) = _polynomials(self._score[..., None], _CLOSER)
        share = self._shares(_CLOSER)
        return np.asarray(np.abs(yes * share - no * (1 - share)).max(axis=-1))

    def _at(self, coefficients: Array, log_odds: Array) -> Array:
        return _polynomials(coefficients, (log_odds - self.middle) / np.where(self.half > 0, self.half, 1.0))


def _polynomials(coefficients: Array, places: Array) -> Array:
    """Polynomials at places, from the coefficients of all powers, the lowest first along the first axis."""
    found = coefficients[-1] + 0.0 * places
    for one in coefficients[-2::-1]:
        found = found * places + one
    return np.asarray(found)


# ---- Score ratio: a score over its standard deviation, what it may be under a hypothesis, and where that ends


_END = 1e-3
"""Ends of intervals are found to this accuracy, in standard errors."""


@dataclass(frozen=True)
class ScoreRatio:
    """A score over its standard deviation, the largest bias over the same, and the excess kurtosis of the score."""

    distance: float
    bias: float
    kurtosis: float

    def _critical(self, z: float) -> float:
        """The quantile of |x + bias| for a normal x, widened by heavier tails (Cornish and Fisher)."""
        level = 2 * NormalDist().cdf(z) - 1
        if self.bias > 8:  # one side is out of reach
            reach = self.bias + NormalDist().inv_cdf(max(level, 1e-12))
        else:
            reach = math.sqrt(float(scipy.special.chndtrix(level, 1, self.bias**2))) if self.bias > 1e-9 else z
        return reach + max(z**3 - 3 * z, 0.0) / 24 * self.kurtosis

    def beyond(self, level: float) -> float:
        """By how much the distance exceeds what the level allows."""
        return self.distance - self._critical(NormalDist().inv_cdf((1 + level) / 2))

    def pvalue(self) -> float:
        """Below 1 − level exactly where the level rejects."""
        low, high = 0.0, min(self.distance, 8.0)
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if self._critical(middle) < self.distance else (low, middle)
        return 2 * NormalDist().cdf(-high)


def crossing(beyond: Callable[[float], float], guess: float, reach: float) -> float:
    """Where a function that is below 0 at 0 becomes positive, rounded outwards; infinity beyond the reach.

    It is nearly a straight line, so secants find it in few steps (the rule of Illinois halves the end that stays).
    """
    (inside, low), (outside, high) = (0.0, -guess), (guess, beyond(guess))
    while high < 0:
        if outside > reach:
            return math.inf
        (inside, low), outside = (outside, high), 1.5 * outside
        high = beyond(outside)
    moved = 0
    while outside - inside > _END:
        middle = inside + low / (low - high) * (outside - inside)
        value = beyond(middle)
        if abs(value) < _END:
            return middle + _END
        if value < 0:
            inside, low, high, moved = middle, value, high / 2 if moved < 0 else high, -1
        else:
            outside, high, low, moved = middle, value, low / 2 if moved > 0 else low, 1
    return outside


_STEPS = 40
_LONGEST = 2.0
"""No step of the search changes log-odds by more."""
_FURTHEST = 25.0
"""Log-odds beyond this are no result: the data, or its noise, separate the outcomes."""
_FEWEST = 3.0
"""Rows of either outcome without which nothing is said; labels need two standard deviations of noise more."""
_EXPECTED = 5.0
"""The same for rows that are expected where a label makes no difference, to test whether it does."""
_SETTLED = 1e-5
"""Log-odds are found to this accuracy."""
_NEAR = 1e-4
"""The same in a test, on which the other coefficients have no effect of first order."""
_SIGNS = np.array([[1.0], [-1.0]])
_CAUTION = 0.5
"""The number of standard deviations of its noise that are added to a measured square."""


@cache
def _nodes(degree: int) -> Array:
    """Points between 0 and 1: those of Chebyshev, or both ends for a number of two values."""
    if degree == 1:
        return np.array([0.0, 1.0])
    return np.asarray((1 - np.cos((2 * np.arange(degree + 1) + 1) * np.pi / (2 * degree + 2))) / 2)


@cache
def _to_parts(degree: int) -> Array:
    """Takes the values of a polynomial at the nodes to its weights on the parts."""
    nodes, k = _nodes(degree)[:, None], np.arange(degree + 1)
    binomials = np.array([math.comb(degree, j) for j in k])
    return np.asarray(np.linalg.inv(binomials * nodes**k * (1 - nodes) ** (degree - k)))


_Place = tuple[Array, Array]
"""Coefficients that are best for some value of a combination, and how they move with it."""


@dataclass(frozen=True)
class _Local:
    """The parts of the score at some coefficients: D and −N, which rows with y = 1 and y = 0 count, at all nodes."""

    polynomials: ScorePolynomials
    log_odds: Array
    score: Array


@dataclass(frozen=True)
class LogisticFit:
    """A logistic regression of a yes/no outcome on some terms.

    Attributes
    ----------
    moments
        What was released: totals by cell, then outcome (no, yes), then parts.
    cells, degrees
        Combinations of labels, and highest power of every number. A number of degree 1 is 0 or 1.
    terms
        Linear functions of a row, with a constant in each cell. The first is the constant.
    tested
        Places of terms that are only tested for making no difference: labels with one outcome have no estimate.
    weights
        Where the last number is the weight of a row, which no term depends on, what it counts in each cell: a row for
        every stratum whose weights were made to add up to its population, or one for all.
    """

    moments: NoisyTotals
    cells: int
    degrees: tuple[int, ...]
    terms: tuple[Linear, ...]
    tested: tuple[int, ...] = ()
    weights: Array = field(default_factory=lambda: np.zeros((0, 1)))

    @cached_property
    def _strata(self) -> Array:
        """The weight of a row at all nodes, by stratum."""
        nodes = np.broadcast_to(_nodes(self.degrees[-1]), self._shape).reshape(self.cells, -1)
        return np.asarray((self.weights[..., None] * nodes).reshape(len(self.weights), -1))

    @cached_property
    def _each(self) -> Array:
        """The weight of a row at all nodes; 1 where rows have none."""
        return np.asarray(self._strata.sum(axis=0)) if len(self.weights) else np.ones(1)

    def _moved(self, values: Array, local: _Local) -> Array:
        """Weights of the noise in a combination of the score.

        Where weights add up to the population of a stratum, noise in its weights moves only what differs from its mean.
        """
        found = self._on_parts(values * self._each, local.score)
        (no, yes), (for_yes, for_no) = self._weights, local.score
        for own in self._strata if len(self.weights) > 1 else ():
            each = self._on_parts(own, np.ones((2, own.size)))
            total = float((own * values * (yes * for_yes + no * for_no)).sum())
            least = math.sqrt(float(self.moments.noise_of(each)[0]))
            found = found - total / max(float(self.moments.total(each)), least) * each
        return found

    @property
    def _shape(self) -> tuple[int, ...]:
        return (self.cells, *(degree + 1 for degree in self.degrees))

    @cached_property
    def _counts(self) -> Array:
        """Rows of both outcomes with each term that is a label, and the standard deviation of their noise."""
        found = np.full((len(self.terms), 3), math.inf)
        for place, term in enumerate(self.terms[1:], start=1):
            if not term.slopes.any():
                alone = np.zeros((self.cells, 2, math.prod(self._shape[1:])))
                alone[term.constants != 0, 0] = 1.0
                no, yes = alone.ravel(), alone[:, ::-1].ravel()
                spread = math.sqrt(float(self.moments.noise_of(no)[0]))
                found[place] = float(self.moments.total(no)), float(self.moments.total(yes)), spread
        return found

    @cached_property
    def _rare(self) -> NDArray[np.bool_]:
        """Labels with too few rows of an outcome. They are left out with their rows, so the others are as they are."""
        no, yes, spread = self._counts.T
        few = np.minimum(no, yes) < 2 * spread + _FEWEST
        chosen, share = list(self.tested), self._rarer
        few[chosen] = (no + yes)[chosen] * share < (2 * spread + _EXPECTED)[chosen]
        return np.asarray(few & (np.arange(len(self.terms)) > 0))

    @cached_property
    def _rarer(self) -> float:
        """The share of the rarer outcome among all rows, above 0."""
        no, yes = (max(float(one), 0.0) for one in self.moments.parts.reshape(self.cells, 2, -1).sum(axis=(0, 2)))
        return max(min(no, yes) / max(no + yes, 1.0), 1e-300)

    @cached_property
    def _cells(self) -> Array:
        """1 for the cells that are used, 0 for those of labels that are left out."""
        out = [one.constants != 0 for one, rare in zip(self.terms, self._rare, strict=True) if rare]
        used = np.ones(self.cells) - np.any(out, axis=0) if out else np.ones(self.cells)
        return np.asarray(used).reshape(-1, *(1,) * len(self.degrees))

    @cached_property
    def _points(self) -> Array:
        """The terms, by the nodes of all cells; 0 in cells that are left out."""
        at = [_nodes(degree) for degree in self.degrees]
        return np.stack([(self._values(one, at) * self._cells).ravel() for one in self.terms])

    @cached_property
    def _middles(self) -> Array:
        """The terms, by the middles of all ranges: one in each cell and at each value of two-valued numbers."""
        at = [_nodes(1) if degree == 1 else np.array([0.5]) for degree in self.degrees]
        return np.stack([self._values(one, at) * self._cells for one in self.terms], axis=-1)

    @cached_property
    def _halves(self) -> Array:
        """Half the way of each number that has a range, by terms."""
        wide = np.array(self.degrees, dtype=int) > 1
        return np.array([one.slopes[wide] / 2 for one in self.terms])

    def _values(self, function: Linear, at: list[Array]) -> Array:
        found = function.constants.reshape(-1, *(1,) * len(at))
        for slope, values in zip(function.slopes.tolist(), np.ix_(*at), strict=True):
            found = found + slope * values
        return np.asarray(found)

    def _range(self, coefficients: Array) -> tuple[Array, Array]:
        """Middle and half width of a combination of terms, in every range."""
        return self._middles @ coefficients, np.abs(coefficients @ self._halves).sum() * self._used

    @cached_property
    def _used(self) -> Array:
        """1 for the ranges that are used."""
        return np.asarray(np.broadcast_to(self._cells, self._middles.shape[:-1]))

    @cached_property
    def _weights(self) -> tuple[Array, Array]:
        """The totals as weights of the nodes, for both outcomes."""
        totals = self._each_number(self.moments.parts, [_to_parts(degree).T for degree in self.degrees])
        no, yes = np.moveaxis(totals.reshape(self.cells, 2, -1), 1, 0) * self._cells.reshape(-1, 1)
        return no.ravel(), yes.ravel()

    def _each_number(self, values: Array, matrices: list[Array]) -> Array:
        """Apply a matrix along the axis of each number."""
        for place, matrix in enumerate(matrices):
            after = math.prod(self._shape[place + 2 :])
            values = matrix @ values.reshape(-1, len(matrix), after)
        return values

    def _on_parts(self, values: Array, sides: Array) -> Array:
        """Weights of the totals that add up, over rows with y = 1 and y = 0, polynomials with these values at nodes."""
        yes, no = values * sides.reshape(2, -1)
        both = np.stack([no.reshape(self.cells, -1), yes.reshape(self.cells, -1)], axis=1)
        return self._each_number(both, [_to_parts(degree) for degree in self.degrees]).ravel()

    def _local(self, coefficients: Array) -> _Local:
        own = self.degrees[:-1] if len(self.weights) else self.degrees
        polynomials = ScorePolynomials(*self._range(coefficients), max(own, default=1))
        log_odds = (coefficients @ self._points).reshape(self._shape)
        return _Local(polynomials, log_odds, polynomials.score(log_odds).reshape(2, -1) * _SIGNS)

    def _score(self, local: _Local) -> Array:
        """The sum of all rows' scores."""
        (no, yes), (for_yes, for_no) = self._weights, local.score
        return np.asarray(self._points @ (self._each * (yes * for_yes + no * for_no)))

    def _information(self, local: _Local) -> Array:
        """The rate at which the score falls with the coefficients, under the model."""
        (no, yes) = self._weights
        (for_yes, for_no) = local.polynomials.slopes(local.log_odds).reshape(2, -1)
        return np.asarray((self._points * (self._each * (yes * for_yes + no * for_no))) @ self._points.T)

    def _solved(self, start: Array, free: Array, near: float) -> tuple[Array, bool]:
        """Coefficients at which the score is 0 along the columns of ``free``, and whether there are any."""
        found, longest, last = start, _LONGEST, np.zeros_like(start)
        for _ in range(_STEPS):
            local = self._local(found)
            if np.abs(local.log_odds).max() > _FURTHEST:
                return found, False
            step = free @ _inverse(free.T @ self._information(local) @ free) @ (free.T @ self._score(local))
            moved = float(np.abs(step @ self._points).max())
            if moved < near:
                return found, True
            if step @ last < 0:  # it goes to and fro
                longest = min(longest, 0.7 * moved)
            last = step * min(1.0, longest / moved)
            found = found + last
        return found, False

    @cached_property
    def _outcomes(self) -> tuple[float, float]:
        """Rows of both outcomes, at least one of each."""
        no, yes = (max(float(one.sum()), 1.0) for one in self._weights)
        return no, yes

    @property
    def _unrelated(self) -> Array:
        """Coefficients where no term goes with the outcome."""
        no, yes = self._outcomes
        return np.append(math.log(yes / no), np.zeros(len(self.terms) - 1))

    @cached_property
    def _best(self) -> tuple[Array, bool]:
        no, yes = self._outcomes
        found, settled = self._solved(self._unrelated, np.eye(len(self.terms)), _SETTLED)
        settled = settled and min(no, yes) >= _FEWEST
        for place in np.flatnonzero(self._rare):  # against all others: no more than an indication
            rare, others = (np.maximum(one, 0.5) for one in (self._counts[place, :2], np.array([no, yes])))
            found[place] = math.log(rare[1] / rare[0] * others[0] / others[1])
        return found, settled

    @property
    def coefficients(self) -> Array:
        """One per term; the last of the search where it found nothing."""
        return self._best[0]

    @property
    def found(self) -> bool:
        """True where the search settled; otherwise nothing can be said."""
        return self._best[1]

    @property
    def rows(self) -> float:
        """Number of rows, known or estimated."""
        return float(self.moments.rows if self.moments.size is None else self.moments.size)

    @cached_property
    def likelihood_gain(self) -> float:
        """McFadden's R²: by how much the terms reduce the deviance, from 0 to 1; 0 where noise leaves none."""
        if not self.found:
            return 0.0
        no, yes = (one * self._each for one in self._weights)
        rows = max(float(yes.sum() + no.sum()), 2.0)
        rate = min(max(float(yes.sum()) / rows, 1 / rows), 1 - 1 / rows)
        alone = rows * (rate * math.log(rate) + (1 - rate) * math.log1p(-rate))
        log_odds = self._local(self.coefficients).log_odds.ravel()
        found = -float((yes * np.logaddexp(0, -log_odds) + no * np.logaddexp(0, log_odds)).sum())
        return min(max(1 - found / alone, 0.0), 1.0)

    def _directed(self, local: _Local, pulls: Array) -> tuple[Array, Array, Array, Array]:
        """Of combinations of the score: their values, covariance, fourth cumulants and largest biases."""
        values = pulls @ self._points
        used = np.array([self._moved(one, local) for one in values])
        squares = local.polynomials.squares(local.log_odds)
        covariance = np.zeros((len(pulls), len(pulls)))
        fourth = np.zeros(len(pulls))
        # Squared scores are mostly those of the rarer outcome, so its rows are what the terms use up.
        rarer = min(self._outcomes)
        sampled = self.moments.rows_per_unit * rarer / max(rarer - len(self.terms), 1.0)
        for j, one in enumerate(values):
            for k, other in enumerate(values[: j + 1]):
                square = self._on_parts(one * other * self._each**2, squares)
                both, difference = (self.moments.noise_of(used[j] + sign * used[k]) for sign in (1, -1))
                total = float(self.moments.total(square))
                if j == k:
                    total = max(total, 0.0) + _CAUTION * math.sqrt(float(self.moments.noise_of(square)[0]))
                    fourth[j] = float(self.moments.noise_of(used[j])[1])
                covariance[j, k] = covariance[k, j] = float(both[0] - difference[0]) / 4 + sampled * total
        return pulls @ self._score(local), covariance, fourth, np.array([self._bias(local, pull) for pull in pulls])

    def _bias(self, local: _Local, pull: Array) -> float:
        """The most by which a combination of the score may be off 0 at the true coefficients of the model."""
        if not self.moments.rows_per_unit:  # what the data would say without noise is defined by the same polynomials
            return 0.0
        middle, half = self._range(pull)
        no, yes = self._weights
        rows = max(float(((no + yes) * self._each).sum()), 0.0) if len(self.weights) else self.rows
        return rows * float(((np.abs(middle) + half) * local.polynomials.bias).max())

    def _tested(self, along: Array, value: float, place: _Place) -> tuple[ScoreRatio | None, _Place]:
        """The score test of a value of ``along``·β, searched from a place nearby, and the place where it was decided.

        There is no ratio where no coefficients fit the value.
        """
        start = _moved(place, along, value)
        found, settled = self._solved(start, _across(along[None]), _NEAR)
        if not settled:
            return None, place
        local = self._local(found)
        pull = _inverse(self._information(local)) @ along
        score, covariance, fourth, bias = (float(one.ravel()[0]) for one in self._directed(local, pull[None]))
        if covariance <= 0:
            return None, place
        spread = math.sqrt(covariance)
        return ScoreRatio(abs(score) / spread, bias / spread, fourth / covariance**2), (found, pull)

    def _estimated(self, along: Array) -> _Place:
        """Where the coefficients are best."""
        pull = _inverse(self._information(self._local(self._begin))) @ along
        return self._begin, pull

    def noise_weights(self, along: Array) -> Array:
        """The move of the estimate of ``along``·β by a unit of noise in each total."""
        local = self._local(self.coefficients)
        pull = _inverse(self._information(local)) @ along
        return self._moved(pull @ self._points, local)

    def standard_error(self, along: Array) -> float:
        """Of the estimate of ``along``·β: noise and sampling together."""
        return math.sqrt(max(float(along @ self.covariance() @ along), 0.0))

    @cached_property
    def _covariance(self) -> Array:
        if not self.found:  # as uncertain as log-odds can be
            return np.asarray(_FURTHEST**2 * np.eye(len(self.terms)))
        local = self._local(self.coefficients)
        known = np.where(self._rare, 0.0, 1.0)
        found = self._directed(local, _inverse(self._information(local)) * known)[1] * np.outer(known, known)
        for place in np.flatnonzero(self._rare):
            no, yes, spread = self._counts[place]
            found[place, place] = sum((max(one, 1.0) + spread**2) / max(one, 1.0) ** 2 for one in (no, yes))
        return np.asarray(found)

    def _unknown(self, along: Array) -> bool:
        """True where nothing can be said about ``along``·β."""
        return not self.found or self._untested(along)

    def _untested(self, along: Array) -> bool:
        """True where there are too few rows of an outcome even to test a value of ``along``·β."""
        return min(self._outcomes) < _FEWEST or bool(np.any(along[self._rare] != 0))

    @property
    def _begin(self) -> Array:
        """Where searches under a hypothesis begin. Outcomes that are separated have no estimate, and can be tested."""
        return self.coefficients if not self.tested and self.found else self._unrelated

    def covariance(self) -> Array:
        """Covariance matrix of the coefficients: noise and sampling together."""
        return self._covariance

    def interval(self, along: Array, level: float) -> tuple[float, float]:
        """All values of ``along``·β that are not rejected; without an end where nothing can be said."""
        estimate = float(along @ self.coefficients)
        unit = self.standard_error(along)
        if self._unknown(along):
            return -math.inf, math.inf
        if unit == 0:  # all of the population was counted, without noise
            return estimate, estimate

        reach = 2 * _FURTHEST / (unit * float(np.abs(along).max()))

        def end(sign: int) -> float:
            place = self._estimated(along)

            def beyond(steps: float) -> float:
                """By how much the test exceeds its quantile; below 0 where no coefficients fit the value."""
                nonlocal place
                ratio, place = self._tested(along, estimate + sign * steps * unit, place)
                return -1.0 if ratio is None else ratio.beyond(level)

            return estimate + sign * crossing(beyond, NormalDist().inv_cdf((1 + level) / 2), reach) * unit

        return end(-1), end(1)

    def pvalue(self, along: Array, value: float = 0.0) -> float:
        """Of the hypothesis that ``along``·β has this value; 1 where nothing can be said."""
        if self._untested(along):
            return self.wald(along[None], np.array([value])).pvalue
        ratio, _ = self._tested(along, value, self._estimated(along))
        return 1.0 if ratio is None else ratio.pvalue()

    def wald(self, restrictions: Array, values: Array) -> JointTest:
        """Test that several combinations of coefficients have given values, by the score under the hypothesis.

        Combinations about which nothing can be said are not tested.
        """
        named = tuple(np.flatnonzero(np.any(restrictions != 0, axis=0)).tolist())
        if not self.tested and not np.any(values) and np.any(self._rare[list(named)]):
            return replace(self, tested=named).wald(restrictions, values)
        known = np.array([not self._untested(row) for row in restrictions])
        restrictions, values = restrictions[known], values[known]
        if not known.any():
            return JointTest(0.0, 0, 1.0)
        start = np.linalg.lstsq(restrictions, values, rcond=None)[0]
        free = _across(restrictions)
        found, settled = self._solved(start + free @ (free.T @ self._begin), free, _NEAR)
        local = self._local(found)
        pulls = restrictions @ _inverse(self._information(local))
        score, covariance, _, bias = self._directed(local, pulls)
        if not settled or np.linalg.eigvalsh(covariance).min() <= 0:
            return JointTest(0.0, len(values), 1.0)
        distance = math.sqrt(float(score @ np.linalg.solve(covariance, score)))
        statistic = max(distance - float(np.linalg.norm(bias / np.sqrt(np.diag(covariance)))), 0.0) ** 2
        return JointTest(statistic, len(values), float(scipy.special.chdtrc(len(values), statistic)))


def _moved(place: _Place, along: Array, value: float) -> Array:
    """About the best coefficients for another value."""
    coefficients, pull = place
    return np.asarray(coefficients + (value - along @ coefficients) / (along @ pull) * pull)


def _inverse(matrix: Array) -> Array:
    """The inverse of a symmetric matrix; directions in which noise left no information get next to none."""
    if not matrix.size:
        return matrix
    values, vectors = np.linalg.eigh(matrix)
    least = max(1e-9 * float(np.abs(values).max()), 1e-12)
    return np.asarray((vectors / np.where(np.abs(values) > least, values, least)) @ vectors.T)


def _across(rows: Array) -> Array:
    """A basis of all directions in which combinations of coefficients stay as they are."""
    return np.asarray(np.linalg.svd(rows)[2][len(rows) :].T)
