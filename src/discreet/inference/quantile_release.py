"""Released quantiles and their intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from discreet.core import requirements
from discreet.core.display import Facts, number
from discreet.core.errors import InvalidParameter, NoPopulationInterval
from discreet.core.interval import Interval
from discreet.core.noise.law import Floats
from discreet.questions.quantiles import Quantiles
from discreet.releases import Release

__all__ = ["QuantileRelease"]


@dataclass(frozen=True)
class QuantileRelease(Release):
    """Published quantiles; with intervals where they were asked for."""

    @property
    def _quantiles(self) -> Quantiles:
        return cast(Quantiles, self.statistic)

    def _parts(self) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        return np.atleast_1d(np.asarray(self.value, dtype=float)).reshape(len(self._quantiles.shares), -1)

    @property
    def estimate(self) -> Floats:
        """The quantiles, one per probability."""
        parts = self._parts()
        middle = parts[:, parts.shape[1] // 2]
        return middle if isinstance(self._quantiles.probabilities, tuple) else float(middle[0])

    def population_interval(self, level: float | None = None) -> Interval:
        """Interval for the population's quantiles, where one was asked for with a public number of rows."""
        if self._quantiles.rows_at_least is None:
            raise NoPopulationInterval(
                "release",
                "quantiles",
                "must be asked for the population, because an interval costs privacy of its own",
                "Ask with interval=0.95 and rows_at_least=…, a public lower bound of the number of rows.",
            )
        return self.confidence_interval(level)

    def confidence_interval(self, level: float | None = None) -> Interval:
        """The interval that was published, of the level it was planned for.

        It covers the quantile of the data, or of the population where ``rows_at_least`` was declared. Without a
        planned interval only the grid itself is certain.
        """
        planned = self._quantiles.interval
        parts = self._parts()
        if planned is None:
            low, high = self.mechanism.confidence_interval(parts[:, 0], requirements.level(level or 0.95))
            return Interval(self._shaped(low), self._shaped(high), level or 0.95)
        if level is not None and level != planned:
            raise InvalidParameter("level", level, f"the interval was published at {planned}", "Leave level out.")
        return Interval(self._shaped(parts[:, 0]), self._shaped(parts[:, 2]), planned)

    def _shaped(self, values: Floats) -> Floats:
        array = np.asarray(values)
        return array if isinstance(self._quantiles.probabilities, tuple) else float(array[0])

    def facts(self) -> Facts:
        """What to show of a release."""
        facts = [fact for fact in super().facts() if fact[0] not in ("value", "95 % interval")]
        shown: list[tuple[str, str]] = [("quantiles at", number(self._quantiles.probabilities))]
        shown.append(("value", number(self.estimate)))
        if self._quantiles.interval is not None:
            interval = self.confidence_interval()
            shown.append((f"{100 * interval.level:g} % interval", f"{number(interval.low)} to {number(interval.high)}"))
        return [*shown, *facts]
