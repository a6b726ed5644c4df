"""Omission of rows before a mechanism: Poisson samples and outlier-score suppression, with their guarantees.

A step has three parts: `apply` chooses the rows with secret, exact randomness; `amplify` tells what a mechanism's
guarantee becomes behind it; `before` tells what the mechanism may spend to meet a target. Who is kept must stay
secret: the guarantee is lost when the kept rows are shown.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from flint import arb
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import ApproxDP, PureDP
from discreet.core.noise.choice import exact_events
from discreet.core.noise.entropy import SYSTEM_ENTROPY, Entropy
from discreet.core.noise.truth import generator
from discreet.core.protection import ROW, Neighbours, Unit
from discreet.core.rounding import ball, decimal
from discreet.omission import amplification  # a module: it imports this room's bounds in turn
from discreet.omission.outliers import Distance, distance_from_dict, outlier_scores

__all__ = ["Omission", "OutlierSuppression", "PoissonSample", "omission_from_dict"]

G = TypeVar("G", PureDP, ApproxDP)


class Omission(ABC):
    """A step that leaves out rows."""

    name: ClassVar[str]
    columns: tuple[str, ...] | None = None
    """Columns of the source that decide which rows stay."""

    @abstractmethod
    def kept(
        self, data: Any, *, rng: int | np.random.Generator | None = None, entropy: Entropy = SYSTEM_ENTROPY
    ) -> NDArray[np.bool_]:
        """Which rows stay: one true or false per row."""

    @abstractmethod
    def amplify(self, guarantee: G) -> G:
        """The guarantee of a mechanism behind this step."""

    @abstractmethod
    def before(self, guarantee: G) -> G:
        """What a mechanism behind this step may spend to meet ``guarantee``."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The step as JSON-ready data, for the ledger."""

    def apply(self, data: Any, rng: int | np.random.Generator | None = None) -> Any:
        """The rows that stay, in the container they came in (array, frame, table or list)."""
        mask = self.kept(data, rng=rng)
        if hasattr(data, "filter") and hasattr(data, "schema"):  # polars and pyarrow
            return data.filter(mask)
        if hasattr(data, "loc"):  # pandas
            return data.loc[mask]
        if isinstance(data, list | tuple):
            return type(data)(row for row, stays in zip(data, mask, strict=True) if stays)
        return np.asarray(data)[mask]

    def require(self, neighbours: Neighbours, unit: Unit = ROW) -> None:
        """Refuse the settings for which there is no theorem."""
        if neighbours is not Neighbours.ADD_REMOVE:
            raise InvalidParameter(
                "neighbours",
                neighbours,
                f"{type(self).__name__} is proved for added and removed rows only",
                "Use Neighbours.ADD_REMOVE, or do not omit rows.",
            )
        if unit != ROW:
            raise InvalidParameter(
                "unit",
                str(unit),
                f"{type(self).__name__} omits rows one by one, which protects no unit with several rows",
                "Bound each unit to one row first, or do not omit rows.",
            )


def _columns(data: Any, names: tuple[str, ...]) -> NDArray[Any]:
    """The named columns of a pandas, polars or pyarrow table: one row per record, or one value where there is one."""
    known = list(getattr(data, "column_names", None) or getattr(data, "columns", []))
    missing = [name for name in names if name not in known]
    if missing or not names:
        raise InvalidParameter("columns", names, "must be columns of the data", "Check their names.")
    parts = [np.asarray(data[name]) for name in names]
    return parts[0] if len(parts) == 1 else np.column_stack(parts)


def _length(data: Any) -> int:
    try:
        return len(data)
    except TypeError:
        raise InvalidParameter("data", type(data).__name__, "must have rows", "Pass an array or a frame.") from None


@dataclass(frozen=True)
class PoissonSample(Omission):
    """Keep each row independently with probability ``rate``.

    Guarantee
    ---------
    See `amplification.poisson_sampling`. Sampling lowers ε for the same noise, but at equal privacy it
    costs accuracy (miranda2026 §3): use it to save time, not to gain precision.

    Examples
    --------
    >>> PoissonSample(0.5).amplify(PureDP(1.0))
    PureDP(epsilon=0.6201145069582776)
    >>> int(PoissonSample(0.5).kept(range(1000), rng=1).sum())
    507
    """

    rate: float
    name: ClassVar[str] = "poisson_sample"

    def __post_init__(self) -> None:
        rate = requirements.probability("rate", self.rate, below_one=False)
        if rate == 0:
            raise InvalidParameter("rate", self.rate, "must be positive", "Pass the probability of keeping a row.")
        object.__setattr__(self, "rate", rate)

    def kept(
        self, data: Any, *, rng: int | np.random.Generator | None = None, entropy: Entropy = SYSTEM_ENTROPY
    ) -> NDArray[np.bool_]:
        """Which rows stay; each exactly with the decimal probability ``rate``."""
        count = _length(data)
        if rng is not None:
            return generator(rng).random(count) < self.rate
        return exact_events(np.full(count, self.rate), 2.0**-52, lambda _: ball(decimal(self.rate)), entropy=entropy)

    def amplify(self, guarantee: G) -> G:
        """ln(1 + p(e^ε − 1)) and p·δ."""
        return amplification.poisson_sampling(guarantee, self.rate)

    def before(self, guarantee: G) -> G:
        """The inverse of `amplify`."""
        return amplification.before_poisson_sampling(guarantee, self.rate)

    def to_dict(self) -> dict[str, Any]:
        """Name and rate."""
        return {"name": self.name, "rate": self.rate}


@dataclass(frozen=True)
class OutlierSuppression(Omission):
    """Delete each row with a probability between m and M that grows with its mean distance to all rows.

    Parameters
    ----------
    m, M
        Smallest and largest probability of deletion, 0 < m ≤ M < 1.
    distance
        `AbsoluteDistance`, `DiscreteDistance` or `EuclideanDistance`, with public bounds.
    columns
        Which columns of a frame the distance is between; not needed for arrays.

    Guarantee
    ---------
    See `discreet.omission.amplification.outlier_suppression`; ε may grow.

    Examples
    --------
    >>> from discreet.omission.outliers import AbsoluteDistance
    >>> step = OutlierSuppression(0.4, 0.5, AbsoluteDistance((0, 125)))
    >>> round(step.amplify(PureDP(1.0)).epsilon, 6)
    0.871989
    """

    m: float
    M: float
    distance: Distance
    columns: tuple[str, ...] | None = None
    name: ClassVar[str] = "outlier_suppression"

    def __post_init__(self) -> None:
        requirements.instance("distance", self.distance, Distance, "AbsoluteDistance((0, 125))")
        amplification.outlier_suppression(PureDP(0.0), self.m, self.M)  # refuses what the theorem does not cover

    def kept(
        self, data: Any, *, rng: int | np.random.Generator | None = None, entropy: Entropy = SYSTEM_ENTROPY
    ) -> NDArray[np.bool_]:
        """Which rows stay; each is deleted exactly with probability out_D(x)."""
        values = data if self.columns is None else _columns(data, self.columns)
        rows = self.distance.prepare(values)
        scores = outlier_scores(values, self.m, self.M, self.distance)
        if rng is not None:
            return generator(rng).random(len(rows)) >= scores
        low, width = decimal(self.m), decimal(self.M) - decimal(self.m)

        def enclose(index: int) -> arb:
            return ball(low) + ball(width) * self.distance.mean_distance_ball(rows, index)

        return ~exact_events(scores, self.distance.error(len(rows)) + 2.0**-50, enclose, entropy=entropy)

    def amplify(self, guarantee: G) -> G:
        """ε^S and (1 − m)·δ."""
        return amplification.outlier_suppression(guarantee, self.m, self.M)

    def before(self, guarantee: G) -> G:
        """The inverse of `amplify`, where there is one."""
        return amplification.before_outlier_suppression(guarantee, self.m, self.M)

    def to_dict(self) -> dict[str, Any]:
        """Name, probabilities and distance."""
        columns = None if self.columns is None else list(self.columns)
        return {"name": self.name, "m": self.m, "M": self.M, "distance": self.distance.to_dict(), "columns": columns}


def omission_from_dict(data: Mapping[str, Any]) -> Omission:
    """Read what `Omission.to_dict` wrote; unknown steps are refused.

    Examples
    --------
    >>> omission_from_dict({"name": "poisson_sample", "rate": 0.5})
    PoissonSample(rate=0.5)
    """
    fields = dict(data)
    name = fields.pop("name", None)
    if name == PoissonSample.name:
        return PoissonSample(**fields)
    if name == OutlierSuppression.name:
        columns = fields.pop("columns", None)
        distance = distance_from_dict(fields.pop("distance"))
        return OutlierSuppression(distance=distance, columns=None if columns is None else tuple(columns), **fields)
    known = [PoissonSample.name, OutlierSuppression.name]
    raise InvalidParameter("step", name, f"must be one of {known}", "Check the file.")
