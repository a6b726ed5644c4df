"""Regression release: noisy moments, and the regressions that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from discreet.core.contract import mechanism_from_dict
from discreet.core.display import Facts
from discreet.core.errors import NoPopulationInterval
from discreet.inference.least_squares import LeastSquares
from discreet.questions.coefficients_release import CoefficientsRelease
from discreet.questions.linear_fit import Design, LinearFit, SubModel
from discreet.questions.regression_moments import Moments, first_fit, knows_squares
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
        terms, outcome, every = self._of.terms(on), self._of.explained, self._of.terms(self.on)
        sampled, observed = (self._fit(rows) for rows in (self._rows_per_unit, 0))
        if terms != every:
            places = tuple(every.index(term) for term in terms)
            functions = tuple(map(self._of.linear, terms))
            sampled, observed = (replace(fit, terms=functions, places=places) for fit in (sampled, observed))
        return Design(outcome, terms, self._of.labels, sampled, observed)

    def _fit(self, rows_per_unit: int) -> LeastSquares:
        """The fit on all columns."""
        drawn, products = [(self.mechanism, self.value)], self.public.get("products")
        if products is not None:
            drawn.append((mechanism_from_dict(products["mechanism"]), products["value"]))
        stored = self.public.get("centred_squares")
        if stored is None and not knows_squares(self._of):
            raise NoPopulationInterval(
                "release", self._of.title, "lacks the last step, which intervals need", "Ask a session for it."
            )
        found = first_fit(self._of, drawn, self.public.get("n"), rows_per_unit)
        return found if stored is None else replace(found, squares=measured_squares(found, stored))

    def model(self, *on: str) -> SubModel:
        """The regression on some of the columns, from the same release: it costs nothing more."""
        return SubModel(self._fitted_on(on))

    def heading(self) -> str:
        return f"Regression of {self._of.explained.name}"

    def fit_facts(self) -> Facts:
        return [("R²", f"{self.rsquared:.3f}")]
