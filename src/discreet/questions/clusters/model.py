"""Cluster model: what k-means and k-median share: one claim for all steps of a fit, and a stored answer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.core.door import Allowance, Claim, Passed, Step, check_simulation, pass_through
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.ledger.balance import Accounting
from discreet.core.protection import Protection
from discreet.core.sensitivity import Sensitivity
from discreet.results.answer import Readable, name_of
from discreet.results.display import Facts, number
from discreet.results.frames import Reading
from discreet.results.wording import guarantee_words

if TYPE_CHECKING:
    from discreet.results.ledger import Ledger


FORMAT = 1


class ClusterModel(Readable):
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
        """The settings and cost of `fit`; reads no data."""

    @abstractmethod
    def description(self) -> dict[str, Any]:
        """Name and public parameters, for the ledger."""

    @property
    @abstractmethod
    def sensitivity(self) -> Sensitivity:
        """The distance by which one row moves the measurements of one step."""

    @abstractmethod
    def predict(self, X: ArrayLike) -> NDArray[np.intp]:
        """Nearest centre of each row. Labels of private rows are private: do not publish them."""

    @property
    @abstractmethod
    def steps(self) -> list[Step]:
        """The draws of a fit, all of which are known in advance."""

    def claim(self, question: Mapping[str, Any] | None = None) -> Claim:
        """The claim of a fit before it happens."""
        return Claim(
            guarantee=self.plan().guarantee,
            protection=Protection(),
            question={"ask": "clusters"} if question is None else question,
            mechanism=self.description(),
            sensitivity=self.sensitivity,
            steps=self.steps,
            counted=self.counting(),
        )

    def counting(self) -> Accounting | None:
        """The accounting that adds up the costs of the steps; None where the guarantee's own does."""
        return None

    @abstractmethod
    def prepared(self, X: ArrayLike) -> Any:
        """The private data in the form that steps read; refuses what is not a table of numbers."""

    @abstractmethod
    def _fitted(self, data: Any, allowance: Allowance, steps: list[Step]) -> None:
        """Find the centres. Everything about the data comes from the allowance."""

    def fit(
        self,
        X: ArrayLike,
        *,
        ledger: Ledger | None = None,
        rng: int | np.random.Generator | None = None,
        name: str | None = None,
        question: Mapping[str, Any] | None = None,
    ) -> Self:
        """Find the centres; spends the whole budget before anything is drawn.

        Parameters
        ----------
        X
            Rows.
        ledger
            Where the cost is recorded; required unless ``rng`` makes it a simulation.
        rng
            A seed or generator simulates.
        request
            A name that makes the fit repeatable: asking again returns the stored one and spends nothing.
        question
            What is asked, as JSON-ready data, where more than the model tells one fit from another.
        """
        check_simulation(ledger, rng)
        claim, data = self.claim(question), self.prepared(X)
        return pass_through(
            claim, lambda allowance, passed: self.drawn(data, claim, allowance, passed),
            write=ClusterModel.to_dict, read=self.restored, ledger=ledger, rng=rng, request=name,
        )  # fmt: skip

    def drawn(self, data: Any, claim: Claim, allowance: Allowance, passed: Passed) -> Self:
        """Fit the model to prepared data that was paid for."""
        self._fitted(data, allowance, list(claim.steps))
        self.guarantee_, self.release_id_, self.created_ = claim.guarantee, passed.release_id, passed.created
        return self

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """Coordinates of the centres."""
        return [
            Reading(
                f"centre {i + 1} · {name_of(columns, j)}",
                float(value),
                labels={"centre": i + 1, "column": name_of(columns, j)},
                measure="centre",
            )
            for i, centre in enumerate(self.cluster_centers_)
            for j, value in enumerate(centre)
        ]

    def published(self) -> dict[str, Any]:
        return {
            "unit": "row",
            "guarantee": guarantee_words(self.guarantee_, "row"),
            "protects": str(Protection()),
            "mechanism": self.description(),
            "sensitivity": str(self.sensitivity),
            "release_id": self.release_id_,
            "created": self.created_,
        }

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

    def restored(self, data: Any) -> Self:
        for name in self._answered:
            setattr(self, name, np.asarray(data[name]))
        self.n_iter_ = data["n_iter_"]
        self.guarantee_ = Guarantee.from_dict(data["guarantee"])
        self.release_id_, self.created_ = data["release_id"], data["created"]
        return self

    def _require_fit(self) -> None:
        if not hasattr(self, "cluster_centers_"):
            raise InvalidParameter("model", "not fitted", "has no centres yet", "Call fit first.")

    def heading(self) -> str:
        return f"Clusters ({self.name})"

    def facts(self) -> Facts:
        """The facts to show of a fit."""
        self._require_fit()
        centres = [(f"centre {i + 1}", number(centre)) for i, centre in enumerate(self.cluster_centers_)]
        return [*centres, ("guarantee", str(self.guarantee_)), ("noisy steps", str(self.n_iter_))]

    def __str__(self) -> str:
        return super().__str__() if hasattr(self, "cluster_centers_") else repr(self)
