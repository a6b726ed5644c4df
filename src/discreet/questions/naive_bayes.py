"""Gaussian naive Bayes with private class counts, means and variances."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.errors import InsufficientBudget, InvalidParameter, WrongType
from discreet.core.guarantee import ApproxDP, Guarantee, is_pure
from discreet.core.numbers import Grid, product_total, total
from discreet.core.protection import Neighbours, Protection
from discreet.core.sensitivity import Exact, Sensitivity, root_up
from discreet.inference.noise import largest_variance
from discreet.mechanisms.box_noise import BoxNoise
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace
from discreet.mechanisms.mechanism import Mechanism
from discreet.questions.count import labelled
from discreet.questions.question import bounds_of_columns, fractions
from discreet.results.release import Release, release

if TYPE_CHECKING:
    from discreet.results.ledger import Ledger


# ---- Class moments: rows, sums and squares of every class, released at once with the least noise
#
# A row belongs to one class, and moves each total of it by at most 1: the totals of a class are a box, and all boxes
# together move by 1. Under ε they get box noise (``docs/proofs/box_noise.md``, section 4), else what has less
# variance of
# that and Gaussian noise. Sensitivities: ``docs/proofs/sensitivities.md``, "Naive Bayes".


Array = NDArray[np.float64]

_FEATURE_REPLACED = Fraction(51447, 10000)
"""Above (71 + 8√2)/16, the largest squared distance of two points (z, 2z² − 1)."""
_FAR = 4.0
"""Standard errors by which an estimate may lie outside: one beyond counts as that far, where tails are still exact."""
_FLAT = 1e3
"""Widths of the interval; an estimate with a larger standard error says as little as one with this."""


@dataclass(frozen=True, kw_only=True)
class ClassMoments:
    """Totals of 1, zⱼ and 2zⱼ² − 1 over the rows of every class, with zⱼ a feature that bounds put between −1 and 1.

    Parameters
    ----------
    classes, features
        How many there are.
    neighbours
        Which data sets must be hard to tell apart.

    Examples
    --------
    >>> from discreet import PureDP
    >>> moments = ClassMoments(classes=3, features=4, neighbours=Neighbours.ADD_REMOVE)
    >>> moments.noise(PureDP(1.0))[0]
    BoxNoise(scale=1.0, dimension=9, grid=None, boxes=3)
    """

    classes: int
    features: int
    neighbours: Neighbours

    @property
    def together(self) -> int:
        """The number of totals of a class."""
        return 1 + 2 * self.features

    def sensitivities(self) -> tuple[Sensitivity, Sensitivity]:
        """The moves by one row: of the boxes, each of which counts as one coordinate; and of all totals."""
        size, replaced = self.classes * self.together, self.neighbours is Neighbours.REPLACE_ONE
        sides = self.neighbours.sides
        # A row that stays in its class moves the features alone, but each by more than two classes share.
        square = max(Fraction(sides * self.together), _FEATURE_REPLACED * self.features if replaced else Fraction(0))
        every = Sensitivity(
            l1=float(sides * self.together), l2=root_up(square), linf=float(sides), dimension=size
        )  # fmt: skip
        return Sensitivity(l1=float(sides), dimension=self.classes), every

    def noise(self, guarantee: Guarantee) -> tuple[Mechanism, Sensitivity]:
        """The noise of least variance, and the sensitivity that it is for."""
        boxes, every = self.sensitivities()
        box = BoxNoise.calibrate(guarantee, boxes, in_boxes_of=self.together)
        if is_pure(guarantee):
            return box, boxes
        normal = Gaussian.calibrate(guarantee, every)
        less = largest_variance(normal) < largest_variance(box)
        return (normal, every) if less else (box, boxes)

    def of(self, cells: list[list[NDArray[np.int64]]], grids: list[Grid]) -> Any:
        """The totals, class after class, from the offsets of every feature in every class."""
        totals: list[Fraction] = []
        for own in cells:
            rows = int(own[0].size)
            columns = list(zip(own, grids, strict=True))
            sums = [centred_sum(cell, grid) for cell, grid in columns]
            squares = [2 * _centred_squares(cell, grid) - rows for cell, grid in columns]
            totals += [Fraction(rows), *sums, *squares]
        return fractions(totals)

    def read(self, noisy: ArrayLike, mechanism: Mechanism) -> tuple[Array, Array, Array]:
        """Rows, means and variances of z for every class, from the noisy totals alone.

        Means and variances are averages over all that bounds allow, weighed by how likely the noise makes them. So
        they are never outside, and never at the end at which a variance would be of no use.
        """
        counts, sums, squares = np.split(
            np.reshape(np.asarray(noisy, dtype=float), (self.classes, self.together)), [1, 1 + self.features], axis=1
        )
        rows = np.maximum(counts, 1.0)
        error = math.sqrt(largest_variance(mechanism)) / rows
        raw = np.clip(sums / rows, -1.0, 1.0)
        means = mean_within(sums / rows, error * np.sqrt(1 + raw**2), -1.0, 1.0)
        found = (squares / rows + 1) / 2 - raw**2
        most = 1 - means**2
        inside = np.clip(found, 0.0, most)
        spread = error * np.sqrt(0.25 + (0.5 - inside + raw**2) ** 2 + 4 * raw**2)
        return rows[:, 0], means, mean_within(found, spread, 0.0, most)


def mean_within(estimate: ArrayLike, error: ArrayLike, low: ArrayLike, high: ArrayLike) -> Array:
    """The mean of a normal distribution that is cut to an interval.

    Examples
    --------
    >>> mean_within([0.3, -50.0, 7.0], [1e-6, 1.0, 1e9], 0.0, 1.0).round(2).tolist()
    [0.3, 0.22, 0.5]
    """
    value, spread, bottom, top = (np.asarray(one, dtype=float) for one in (estimate, error, low, high))
    width = top - bottom
    spread = np.minimum(spread, _FLAT * width)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # an interval of one point is its own mean
        centre = np.clip(value, bottom - _FAR * spread, top + _FAR * spread)
        start, end = (bottom - centre) / spread, (top - centre) / spread
        ends = np.exp(-(start**2) / 2) - np.exp(-(end**2) / 2)
        # Of the lower tail, so that no difference is one of two numbers near 1.
        start, end = np.where(start > 0, -end, start), np.where(start > 0, -start, end)
        mass = scipy.special.ndtr(end) - scipy.special.ndtr(start)
        moved = centre + spread * ends / (mass * math.sqrt(2 * math.pi))
    return np.asarray(np.clip(np.where(width > 0, moved, bottom), bottom, top))


def centred_sum(cell: NDArray[np.int64], grid: Grid) -> Fraction:
    """Σz with z = (x − middle)/half-width: every row contributes between −1 and 1."""
    start, step = _lowest(grid)
    return int(cell.size) * start + total(cell) * step


def _centred_squares(cell: NDArray[np.int64], grid: Grid) -> Fraction:
    """Σz²."""
    start, step = _lowest(grid)
    return int(cell.size) * start**2 + 2 * start * step * total(cell) + step**2 * product_total(cell, cell)


def _lowest(grid: Grid) -> tuple[Fraction, Fraction]:
    """z of the lowest grid point, and how far two of them lie apart."""
    half = grid.width / 2
    return (grid.origin - Fraction(grid.bounds[0]) - half) / half, grid.exact_step / half


Cells = list[list[NDArray[np.int64]]]
Draw = Callable[[Any, Sensitivity, Mechanism, Guarantee], Array]
Fit = tuple[Array, Array, Array]


class GaussianNaiveBayes:
    """Classify by independent normal features, fitted under differential privacy.

    All that is needed is released at once: for every class the rows, and for every feature the sums of z and of
    2z² − 1, with z the feature put between −1 and 1 by its bounds. The noise is what has the least variance: under ε
    box noise, under μ and ρ Gaussian noise. Means and variances are read from the noisy totals, as averages over what
    bounds allow and noise makes likely: a variance at zero would make the normal density singular and the classifier
    useless (holohan2018 Example 1.3).

    With a ``variance_mechanism`` the fit follows that paper: one release of the counts, for every feature one of the
    sums, and one of the squares around the *released* means, through a mechanism with bounded outputs.

    Guarantee
    ---------
    ``guarantee`` for the whole fit. A row belongs to one class and moves each total of it by at most 1, so that the
    totals of a class are a box and all boxes move by 1 together; by 2 under replace-one, whether the row changes its
    class or stays. Following the paper, the guarantee is split over 1 + 2d releases, of which a row moves each by at
    most 1, or by 2 in all; later ones use earlier ones only after these were noised, so the guarantees compose. Class
    counts are protected like everything else, under both relations. Proof: ``docs/proofs/sensitivities.md``.

    Parameters
    ----------
    guarantee
        What the whole fit may spend.
    bounds
        Public bounds of every feature, one pair a column; values outside are clipped.
    classes
        The public class labels.
    neighbours
        Which data sets must be hard to tell apart.
    variance_mechanism
        None releases everything at once, with the least noise. `BoundedLaplace` for the sums of squares follows
        holohan2018, `BoundaryInflatedLaplace` is what it compares with.
    weights
        Only with a ``variance_mechanism``: shares of the guarantee, (counts, means, variances), of which the last two
        are split over the features; (1, 2, 2) by default.
    least_variance
        Public floor of a variance, as a share of the squared width of the feature.
    rng
        A seed simulates; None draws from the operating system and then needs a ledger.

    Examples
    --------
    >>> from discreet import PureDP
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(2, 1, (500, 1)), rng.normal(8, 1, (500, 1))])
    >>> y = np.repeat(["low", "high"], 500)
    >>> model = GaussianNaiveBayes(guarantee=PureDP(1.0), bounds=[(0, 10)], classes=["low", "high"], rng=7)
    >>> model.fit(X, y).predict([[1.0], [9.0]]).tolist()
    ['low', 'high']
    """

    _estimator_type = "classifier"

    def __init__(
        self,
        *,
        guarantee: Guarantee,
        bounds: Sequence[tuple[float, float]],
        classes: Sequence[Any],
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
        variance_mechanism: type[Mechanism] | None = None,
        weights: tuple[float, float, float] | None = None,
        least_variance: float = 1e-9,
        rng: int | None = None,
    ) -> None:
        self.guarantee = guarantee
        self.bounds = bounds
        self.classes = classes
        self.neighbours = neighbours
        self.variance_mechanism = variance_mechanism
        self.weights = weights
        self.least_variance = least_variance
        self.rng = rng

    _names = (
        "guarantee",
        "bounds",
        "classes",
        "neighbours",
        "variance_mechanism",
        "weights",
        "least_variance",
        "rng",
    )

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's parameters."""
        return {name: getattr(self, name) for name in self._names}

    def set_params(self, **params: Any) -> Self:
        """Change constructor parameters; unknown names are refused."""
        for name, value in params.items():
            if name not in self._names:
                raise InvalidParameter("params", name, f"must be one of {list(self._names)}", "Check the spelling.")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._names)
        return f"GaussianNaiveBayes({shown})"

    def __sklearn_tags__(self) -> Any:
        """The tags by which scikit-learn knows an estimator."""
        from sklearn.utils import (  # type: ignore[import-untyped]
            ClassifierTags,
            InputTags,
            Tags,
            TargetTags,
        )

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(),
        )

    def fit(self, X: Any, y: Any, *, ledger: Ledger | None = None) -> Self:
        """Release what the model needs, and keep only that.

        Parameters
        ----------
        X, y
            Rows × features, and the class of every row.
        ledger
            Where the cost is recorded; required unless ``rng`` makes it a simulation.
        """
        grids, labels = self._checked()
        offsets, member = _table(X, y, grids, labels)
        shares = self._shares()
        if ledger is not None:
            preview = ledger.preview(self.guarantee)
            if not preview.affordable:  # refuse before the first release, not half-way
                raise InsufficientBudget(self.guarantee, preview.remaining)
        rng = None if self.rng is None else np.random.default_rng(self.rng)
        self.releases_: list[Release] = []

        def draw(value: Any, sensitivity: Sensitivity, mechanism: Mechanism, cost: Guarantee) -> Array:
            exact = Exact(value, sensitivity, Protection(neighbours=self.neighbours))
            named = cost if isinstance(cost, ApproxDP) else None  # an (ε, δ) pair is one of many that hold
            self.releases_.append(release(exact, mechanism, ledger=ledger, guarantee=named, rng=rng))
            return np.asarray(self.releases_[-1].value, dtype=float)

        cells = [[column[mine] for column in offsets] for mine in member]
        if self.variance_mechanism is None:
            rows, means, variances = self._at_once(draw, cells, grids)
        else:
            rows, means, variances = self._one_by_one(draw, cells, grids, self.variance_mechanism, shares)
        floors = [self.least_variance * float(grid.width) ** 2 for grid in grids]
        self.classes_ = np.asarray(labels)
        self.class_count_ = rows
        self.class_prior_ = rows / rows.sum()
        self.theta_, self.var_ = means, np.maximum(variances, floors)
        self.n_features_in_ = len(grids)
        return self

    def _checked(self) -> tuple[list[Grid], list[Any]]:
        requirements.instance("guarantee", self.guarantee, Guarantee, "a guarantee such as PureDP(1.0)")
        requirements.instance("neighbours", self.neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        requirements.positive("least_variance", self.least_variance)
        bounds = bounds_of_columns("bounds", self.bounds)
        classes: Any = self.classes
        classes = classes.tolist() if isinstance(classes, np.ndarray) else classes
        labels = list(requirements.instance("classes", classes, (list, tuple), '("a", "b")'))
        if not all(isinstance(label, Hashable) for label in labels):
            raise WrongType("classes", labels, "must be plain labels", 'Pass texts or numbers: ("a", "b").')
        if len(labels) < 2 or len(set(labels)) != len(labels):
            raise InvalidParameter("classes", labels, "must be at least two distinct labels", "List every class.")
        return [Grid(bounds=pair) for pair in bounds], labels

    def _shares(self) -> tuple[float, float, float]:
        """The weights of counts, means and variances."""
        if self.weights is None:
            return (1.0, 2.0, 2.0)
        requirements.instance("weights", self.weights, (tuple, list), "weights=(1.0, 2.0, 2.0)")
        if len(self.weights) != 3:
            raise InvalidParameter("weights", self.weights, "must be (counts, means, variances)", "Pass three numbers.")
        counts, means, variances = (requirements.positive("weights", weight) for weight in self.weights)
        if self.variance_mechanism is None:
            raise InvalidParameter(
                "weights", self.weights, "needs a variance_mechanism: without one, everything is released at once",
                "Leave weights out, or pass variance_mechanism=BoundedLaplace.",
            )  # fmt: skip
        return counts, means, variances

    def _at_once(self, draw: Draw, cells: Cells, grids: list[Grid]) -> Fit:
        """Rows, means and variances from one release of all totals."""
        moments = ClassMoments(classes=len(cells), features=len(grids), neighbours=self.neighbours)
        mechanism, sensitivity = moments.noise(self.guarantee)
        totals = draw(moments.of(cells, grids), sensitivity, mechanism, self.guarantee)
        rows, means, variances = moments.read(totals, mechanism)
        half = np.array([float(grid.width) / 2 for grid in grids])
        low = np.array([grid.bounds[0] for grid in grids])
        return rows, low + half * (1 + means), half**2 * variances

    def _one_by_one(
        self,
        draw: Draw,
        cells: Cells,
        grids: list[Grid],
        bounded: type[Mechanism],
        shares: tuple[float, float, float],
    ) -> Fit:
        """Counts, then sums and squares of one feature after another (holohan2018 Example 1.3)."""
        own = len(grids)
        split = self.guarantee.split([shares[0], *[shares[1] / own] * own, *[shares[2] / own] * own])
        parts = {"counts": split[0], "sums": split[1], "squares": split[-1]}
        changes = self._sensitivities(len(cells))
        counts = fractions([int(mine[0].size) for mine in cells])  # type: ignore[misc]
        noise = {name: Laplace.calibrate(parts[name], changes[name]) for name in ("counts", "sums")}
        noisy = draw(counts, changes["counts"], noise["counts"], parts["counts"])
        rows = np.maximum(noisy, 1.0)
        means, variances = np.empty((2, len(cells), own))
        for column, grid in enumerate(grids):
            mine = [cell[column] for cell in cells]
            centred = fractions([centred_sum(cell, grid) for cell in mine])
            sums = draw(centred, changes["sums"], noise["sums"], parts["sums"])
            means[:, column] = _means(sums, rows, grid)
            squares, largest = _squares(mine, means[:, column], grid)
            mechanism = bounded.calibrate(  # type: ignore[call-arg]
                parts["squares"], changes["squares"], bounds=tuple((0.0, float(end)) for end in rows)
            )
            variances[:, column] = draw(squares, changes["squares"], mechanism, parts["squares"]) * largest / rows
        return rows, means, variances

    def _sensitivities(self, classes: int) -> dict[str, Sensitivity]:
        if self.neighbours is Neighbours.ADD_REMOVE:
            one = Sensitivity(moves=(1.0,), dimension=classes)
            return {"counts": one, "sums": one, "squares": one}
        two = Sensitivity(moves=(1.0, 1.0), dimension=classes)
        return {"counts": two, "sums": Sensitivity(l1=2.0, l2=2.0, dimension=classes), "squares": two}

    def predict_log_proba(self, X: Any) -> Array:
        """Log-probability of every class for every row."""
        if not hasattr(self, "theta_"):
            raise InvalidParameter("self", "not fitted", "must be fitted first", "Call fit(X, y).")
        rows = np.asarray(X, dtype=float)
        if rows.ndim != 2 or rows.shape[1] != self.n_features_in_:
            raise WrongType(
                "X",
                f"shape {rows.shape}",
                f"must be rows × {self.n_features_in_}",
                "Pass the columns that fit was given.",
            )
        low, high = np.array(self.bounds, dtype=float).T
        inside = np.clip(rows, low, high)[:, None, :]
        density = -0.5 * np.sum(np.log(2 * np.pi * self.var_) + (inside - self.theta_) ** 2 / self.var_, axis=2)
        joint = density + np.log(self.class_prior_)
        top = joint.max(axis=1, keepdims=True)
        return np.asarray(joint - top - np.log(np.exp(joint - top).sum(axis=1, keepdims=True)))

    def predict_proba(self, X: Any) -> Array:
        """Probability of every class for every row."""
        return np.asarray(np.exp(self.predict_log_proba(X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of every row."""
        best = np.argmax(self.predict_log_proba(X), axis=1)
        return np.asarray(self.classes_[best])

    def score(self, X: Any, y: Any) -> float:
        """Share of rows that are classified right."""
        return float(np.mean(self.predict(X) == np.asarray(y)))


def _table(X: Any, y: Any, grids: list[Grid], labels: list[Any]) -> tuple[list[Any], list[NDArray[np.bool_]]]:
    """Offsets of every feature, and which rows belong to every class."""
    try:
        rows = np.asarray(X, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise WrongType("X", "…", "must be numbers", "Pass rows × features.") from None
    if rows.ndim != 2 or rows.shape[1] != len(grids):
        raise WrongType("X", f"shape {rows.shape}", f"must be rows × {len(grids)}", "Give bounds for every column.")
    target = labelled(y)
    if target.shape != (rows.shape[0],):
        raise WrongType("y", f"shape {target.shape}", "must be one class per row", "Align X and y.")
    offsets = [grid.offsets("X", rows[:, column]) for column, grid in enumerate(grids)]
    member = [np.asarray(target == label) for label in labels]
    if int(sum(mine.sum() for mine in member)) != target.size:
        raise InvalidParameter("y", "…", f"must hold only {labels}", "List every class in classes.")
    return offsets, member


def _means(sums: Array, rows: Array, grid: Grid) -> Array:
    low, high = grid.bounds
    middle, half = (low + high) / 2, (high - low) / 2
    return np.clip(middle + half * sums / rows, low, high)


def _squares(cells: list[Any], means: Array, grid: Grid) -> tuple[Any, Array]:
    """Σ(x − mean)²/D² for every class, with D the largest distance that bounds allow; and D² as floats."""
    values, largest = [], []
    for cell, mean in zip(cells, means, strict=True):
        centre = requirements.rational("mean", float(mean))
        low, high = (requirements.rational("bounds", end) for end in grid.bounds)
        reach = max(abs(high - centre), abs(low - centre)) ** 2
        start = grid.origin - centre
        step = grid.exact_step
        square = cell.size * start**2 + 2 * start * step * total(cell) + step**2 * product_total(cell, cell)
        values.append(square / reach)
        largest.append(float(reach))
    return fractions(values), np.array(largest)
