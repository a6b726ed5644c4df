"""Gaussian naive Bayes with private class counts, means and variances (holohan2018 Example 1.3)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.contract import Mechanism
from discreet.core.errors import InsufficientBudget, InvalidParameter, WrongType
from discreet.core.exact import Exact
from discreet.core.grid import Grid, product_total, total
from discreet.core.guarantee import Guarantee
from discreet.core.protection import Neighbours, Protection
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.bounded.bounded_laplace import BoundedLaplace
from discreet.mechanisms.laplace import Laplace
from discreet.questions.bounded import fractions
from discreet.questions.count import labelled
from discreet.questions.covariance import bounds_of_columns
from discreet.releases import Release, release

if TYPE_CHECKING:
    from fractions import Fraction

    from discreet.core.ledger import Ledger

__all__ = ["GaussianNaiveBayes"]

Array = NDArray[np.float64]


class GaussianNaiveBayes:
    """Classify by independent normal features, fitted under differential privacy.

    Three things are released, each a vector over the classes: the class counts, for every feature the centred
    sums, and for every feature the sums of squares around the *released* means. Means and variances are quotients
    of these by the released counts. The sums of squares go through a bounded mechanism, because a variance at or
    below zero makes the normal density singular and the classifier useless (holohan2018 Example 1.3).

    Guarantee
    ---------
    ``guarantee`` for the whole fit, split over 1 + 2d releases. A record belongs to one class, so under add/remove
    one coordinate of each vector moves by at most 1 (in units of the release); under replace-one a record may also
    change its class, so counts and squares move by at most (1, 1) and sums by at most 2 in total. Class counts are
    protected like everything else, under both relations. Later releases use earlier ones only after these were
    noised, so the guarantees compose.

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
        Mechanism class for the sums of squares: `BoundedLaplace`, or `BoundaryInflatedLaplace` to compare.
    weights
        Shares of the guarantee: (counts, means, variances); the last two are split over the features.
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
        variance_mechanism: type[Mechanism] = BoundedLaplace,
        weights: tuple[float, float, float] = (1.0, 2.0, 2.0),
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
        """What scikit-learn asks an estimator about itself."""
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
        parts = self._parts(len(grids))
        if ledger is not None:
            preview = ledger.preview(self.guarantee)
            if not preview.affordable:  # refuse before the first release, not half-way
                raise InsufficientBudget(self.guarantee, preview.remaining)
        rng = None if self.rng is None else np.random.default_rng(self.rng)
        self.releases_: list[Release] = []

        def draw(value: Any, sensitivity: Sensitivity, mechanism: Mechanism) -> Array:
            exact = Exact(value, sensitivity, Protection(neighbours=self.neighbours))
            self.releases_.append(release(exact, mechanism, ledger=ledger, rng=rng))
            return np.asarray(self.releases_[-1].value, dtype=float)

        changes = self._sensitivities(len(labels))
        counts = fractions([int(mine.sum()) for mine in member])  # type: ignore[misc]
        noisy = draw(counts, changes["counts"], Laplace.calibrate(parts["counts"], changes["counts"]))
        rows = np.maximum(noisy, 1.0)
        means, variances = np.empty((2, len(labels), len(grids)))
        for column, grid in enumerate(grids):
            cells = [offsets[column][mine] for mine in member]
            sums = draw(
                fractions([_centred_sum(cell, grid) for cell in cells]),
                changes["sums"],
                Laplace.calibrate(parts["sums"], changes["sums"]),
            )
            means[:, column] = _means(sums, rows, grid)
            squares, largest = _squares(cells, means[:, column], grid)
            mechanism = self.variance_mechanism.calibrate(  # type: ignore[call-arg]
                parts["squares"], changes["squares"], bounds=tuple((0.0, float(end)) for end in rows)
            )
            noisy_squares = draw(squares, changes["squares"], mechanism)
            floor = self.least_variance * float(grid.width) ** 2
            variances[:, column] = np.maximum(noisy_squares * largest / rows, floor)
        self.classes_ = np.asarray(labels)
        self.class_count_ = rows
        self.class_prior_ = rows / rows.sum()
        self.theta_, self.var_ = means, variances
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

    def _parts(self, features: int) -> dict[str, Guarantee]:
        """The guarantee of one release of each kind."""
        requirements.instance("weights", self.weights, (tuple, list), "weights=(1.0, 2.0, 2.0)")
        if len(self.weights) != 3:
            raise InvalidParameter("weights", self.weights, "must be (counts, means, variances)", "Pass three numbers.")
        counts, means, variances = (requirements.positive("weights", weight) for weight in self.weights)
        shares = [counts, *[means / features] * features, *[variances / features] * features]
        split = self.guarantee.split(shares)
        return {"counts": split[0], "sums": split[1], "squares": split[-1]}

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


def _centred_sum(cell: NDArray[np.int64], grid: Grid) -> Fraction:
    """Σ(x − middle)/half-width: every row contributes between −1 and 1."""
    middle = grid.width / 2
    start = grid.origin - requirements.rational("low", grid.bounds[0])
    return (int(cell.size) * (start - middle) + total(cell) * grid.exact_step) / middle


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
