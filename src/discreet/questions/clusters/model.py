"""Cluster model: what k-means and k-median share, one entry in the ledger before any draw and a stored answer."""

from __future__ import annotations

from abc import abstractmethod
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.core.display import Facts, number
from discreet.core.door import check_simulation
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.result import Result
from discreet.core.sensitivity import Neighbours, Sensitivity

if TYPE_CHECKING:
    from discreet.core.ledger import Ledger, Reservation

__all__ = ["ClusterModel"]

FORMAT = 1


class ClusterModel(Result):
    """Centres under differential privacy, in scikit-learn's words.

    Attributes
    ----------
    cluster_centers_, n_iter_, guarantee_
        Centres in the units of the data, noisy steps done, and what holds for the whole fit.
    release_id_, created_
        Where the ledger has it, and when it was drawn.
    """

    name: ClassVar[str]
    _answered: ClassVar[tuple[str, ...]] = ("cluster_centers_",)
    """Fitted arrays that a stored answer holds."""
    n_clusters: int
    guarantee: Guarantee
    cluster_centers_: NDArray[np.float64]
    n_iter_: int
    guarantee_: Guarantee
    release_id_: str
    created_: str

    @abstractmethod
    def plan(self) -> Any:
        """What `fit` would do; reads no data."""

    @abstractmethod
    def description(self) -> dict[str, Any]:
        """Name and public parameters, for the ledger."""

    @property
    @abstractmethod
    def sensitivity(self) -> Sensitivity:
        """How far one row moves what is measured in one step."""

    @abstractmethod
    def fit(
        self,
        X: ArrayLike,
        *,
        ledger: Ledger | None = None,
        rng: int | np.random.Generator | None = None,
        request: str | None = None,
    ) -> Self:
        """Find the centres; spends the whole budget before anything is drawn."""

    @abstractmethod
    def predict(self, X: ArrayLike) -> NDArray[np.intp]:
        """Nearest centre of each row. Labels of private rows are private: do not publish them."""

    def recall(self, ledger: Ledger, request: str) -> Self | None:
        """The fit that is stored under a request, without any data; None where there is none."""
        if ledger.requested(request) is None:
            return None
        reservation = self._spend(ledger, None, request)
        return self._restored(reservation.answer) if reservation is not None and reservation.answered else None

    def _spend(self, ledger: Ledger | None, rng: Any, request: str | None) -> Reservation | None:
        """Reserve the whole cost; refuses real data without a ledger and simulations on a ledger that lasts."""
        check_simulation(ledger, rng)
        if ledger is None:
            return None
        return ledger.reserve(
            self.plan().guarantee,
            statistic={"name": self.name},
            mechanism=self.description(),
            sensitivity=self.sensitivity.to_dict(),
            neighbours=Neighbours.ADD_REMOVE,
            unit="row",
            request=request,
        )

    def _kept(self, ledger: Ledger | None, reservation: Reservation | None, request: str | None) -> Self:
        """The fit, once its answer is stored where it can be asked for again."""
        self.guarantee_ = self.plan().guarantee
        self.release_id_ = "" if reservation is None else reservation.release_id
        self.created_ = datetime.now(UTC).isoformat(timespec="seconds")
        if ledger is None or reservation is None or request is None:
            return self
        return self._restored(ledger.record_answer(reservation, self.to_dict()))

    def to_dict(self) -> dict[str, Any]:
        """The fit as JSON-ready data; it holds public numbers only."""
        self._require_fit()
        return {
            "discreet": "clusters",
            "format": FORMAT,
            "model": self.description(),
            "n_iter_": self.n_iter_,
            "guarantee": self.guarantee_.to_dict(),
            "release_id": self.release_id_,
            "created": self.created_,
            **{name: np.asarray(getattr(self, name)).tolist() for name in self._answered},
        }

    def _restored(self, data: Any) -> Self:
        for name in self._answered:
            setattr(self, name, np.asarray(data[name]))
        self.n_iter_, self.guarantee_ = data["n_iter_"], Guarantee.from_dict(data["guarantee"])
        self.release_id_, self.created_ = data["release_id"], data["created"]
        return self

    def _require_fit(self) -> None:
        if not hasattr(self, "cluster_centers_"):
            raise InvalidParameter("model", "not fitted", "has no centres yet", "Call fit first.")

    def heading(self) -> str:
        return f"Clusters ({self.name})"

    def facts(self) -> Facts:
        """What to show of a fit."""
        self._require_fit()
        centres = [(f"centre {i + 1}", number(centre)) for i, centre in enumerate(self.cluster_centers_)]
        return [*centres, ("guarantee", str(self.guarantee_)), ("noisy steps", str(self.n_iter_))]

    def __str__(self) -> str:
        return super().__str__() if hasattr(self, "cluster_centers_") else repr(self)
