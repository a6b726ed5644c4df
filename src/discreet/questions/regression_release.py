"""Regression release: noisy moments, and the regressions that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from discreet.contract.mechanism import mechanism_from_dict
from discreet.core.errors import NoPopulationInterval
from discreet.display import Facts
from discreet.inference.least_squares import LeastSquares
from discreet.questions.coefficients_release import CoefficientsRelease
from discreet.questions.linear_fit import Design, LinearFit, SubModel
from discreet.questions.regression_moments import Moments, first_fit, fit_on, knows_squares
from discreet.questions.regression_squares import measured_squares

__all__ = ["RegressionRelease"]


@dataclass(frozen=True)
class RegressionRelease(CoefficientsRelease[LeastSquares], LinearFit):
    """Noisy moments, and the regressions that follow from them: on all columns, or on any of them (`model`)."""

    @property
    def _of(self) -> Moments:
        return cast(Moments, self.statistic)

    @property
    def _rows_per_unit(self) -> int:
        """All rows of a unit may move together, in whatever cells they are."""
        one = self._of.sensitivity(neighbours=self.neighbours)
        return max(1, round(self.sensitivity.require_l1() / one.require_l1()))

    def _fitted(self, on: Sequence[str]) -> Design[LeastSquares]:
        sampled, observed = (self._fit(on, rows) for rows in (self._rows_per_unit, 0))
        return Design(self._of.explained, self._of.terms(on), self._of.labels, sampled, observed)

    def _fit(self, on: Sequence[str], rows_per_unit: int) -> LeastSquares:
        drawn, products = [(self.mechanism, self.value)], self.public.get("products")
        if products is not None:
            drawn.append((mechanism_from_dict(products["mechanism"]), products["value"]))
        stored = self.public.get("centred_squares")
        if stored is None and not knows_squares(self._of):
            raise NoPopulationInterval(
                "release", self._of.title, "lacks the last step, which intervals need", "Ask a session for it."
            )
        whole = first_fit(self._of, drawn, self.public.get("n"), rows_per_unit)
        found = fit_on(self._of, on, whole)
        if stored is None:
            return found
        around, before = self._measured_around(on, stored)
        terms = self._of.terms(around)
        squares = measured_squares(fit_on(self._of, around, whole), stored, before)
        return replace(found, squares=squares, places=tuple(map(terms.index, self._of.terms(on))))

    def _measured_around(self, on: Sequence[str], stored: dict[str, Any]) -> tuple[Sequence[str], int]:
        """The model with the same columns whose squares were measured, or the whole; and what is stored before it."""
        before = len(self._of.terms(self.on))
        for one in stored.get("models", ()):
            if set(one) == set(on):
                return one, before
            before += len(self._of.terms(one))
        return self.on, 0

    def model(self, *on: str) -> SubModel:
        """The regression on some of the columns, from the same release: it costs nothing more.

        Its intervals rest on bounds where the release took several steps and the model was not named among ``models``.
        """
        return SubModel(self._fitted_on(on))

    def heading(self) -> str:
        return f"Regression of {self._of.explained.name}"

    def fit_facts(self) -> Facts:
        return [("R²", f"{self.rsquared:.3f}")]
