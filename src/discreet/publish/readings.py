"""Readings: the numbers that a reader takes from a release, each with its intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

import numpy as np

from discreet.core.errors import DiscreetError
from discreet.core.interval import Interval
from discreet.inference.choice_release import ModeRelease
from discreet.inference.grouped_release import GroupedRelease
from discreet.inference.mean_difference_release import MeanComparison
from discreet.inference.means_and_covariances_release import MeansAndCovariancesRelease
from discreet.inference.moments import MomentRelease
from discreet.inference.noisy_average_release import NoisyAverageRelease
from discreet.inference.parts_release import MeanInPartsRelease
from discreet.inference.quantile_release import QuantileRelease
from discreet.inference.table_release import TableRelease
from discreet.questions.clusters.model import ClusterModel
from discreet.questions.covariance_matrix import pairs
from discreet.questions.margin_table import MarginTable
from discreet.questions.margins import MarginsRelease
from discreet.questions.quantiles import Quantiles
from discreet.questions.released_groups import ReleasedGroups
from discreet.releases import Release

__all__ = ["Answered", "Reading", "readings"]


@dataclass(frozen=True)
class Reading:
    """One number with its 95 % intervals.

    Attributes
    ----------
    label
        Of what: group, cell or quantile; empty for a single number.
    estimate
        The number, or the label where a label was chosen.
    noise
        Interval for the number in the data: privacy noise alone.
    population
        Interval for the number in the population: noise and sampling; None where it is not known.
    """

    label: str
    estimate: float | str
    noise: Interval | None
    population: Interval | None = None

    def to_dict(self) -> dict[str, Any]:
        """The reading as JSON-ready data."""
        return {
            "label": self.label,
            "estimate": self.estimate,
            "noise": None if self.noise is None else self.noise.to_dict(),
            "population": None if self.population is None else self.population.to_dict(),
        }


Answered = Release | MeanComparison | ClusterModel | ReleasedGroups
"""What a question can be answered with."""


def readings(release: Answered, columns: Sequence[str] = ()) -> list[Reading]:
    """All numbers of an answer, in order; ``columns`` name the coordinates of centres and covariances."""
    if isinstance(release, MeanComparison):
        label = f"{release.treatment} − {release.against}"
        return [Reading(label, release.estimate, None, release.confidence_interval())]
    if isinstance(release, ClusterModel):
        return [
            Reading(f"centre {i + 1} · {_name(columns, j)}", float(value), None)
            for i, centre in enumerate(release.cluster_centers_)
            for j, value in enumerate(centre)
        ]
    if isinstance(release, ReleasedGroups):
        return [Reading(str(label), "shown", None) for label in release.labels]
    if isinstance(release, ModeRelease):
        return [Reading("", str(release.mode), None)]
    if isinstance(release, MeansAndCovariancesRelease):
        return _covariances(release, columns)
    if isinstance(release, GroupedRelease):
        return [
            Reading(_joined(label, part.label), part.estimate, part.noise, part.population)
            for label, one in release.items()
            for part in readings(one)
        ]
    if isinstance(release, TableRelease):
        return _cells(release)
    if isinstance(release, MarginsRelease):
        return [reading for table in release.tables() for reading in _margin_cells(table)]
    if isinstance(release, QuantileRelease):
        return _quantiles(release)
    if isinstance(release, MeanInPartsRelease):
        estimate = getattr(release, "estimate", release.mean)
        return [Reading("", estimate, release.confidence_interval(), release.population_interval())]
    if isinstance(release, NoisyAverageRelease):
        return [Reading("", release.mean, release.confidence_interval())]
    if isinstance(release, MomentRelease):
        return [Reading("", float(np.asarray(release.value)), release.confidence_interval(), _population(release))]
    return _plain(release)


def _name(columns: Sequence[str], position: int) -> str:
    return columns[position] if position < len(columns) else str(position + 1)


def _covariances(release: MeansAndCovariancesRelease, columns: Sequence[str]) -> list[Reading]:
    matrix, interval = release.matrix, release.confidence_interval()
    low, high = np.asarray(interval.low), np.asarray(interval.high)
    return [
        Reading(
            _name(columns, j) if j == k else f"{_name(columns, j)} · {_name(columns, k)}",
            float(matrix[j, k]),
            Interval(float(low[j, k]), float(high[j, k]), interval.level),
        )
        for j, k in pairs(len(matrix))
    ]


def _joined(label: Any, rest: str) -> str:
    first = " · ".join(str(part) for part in label) if isinstance(label, tuple) else str(label)
    return f"{first} · {rest}" if rest else first


def _population(release: MomentRelease) -> Interval | None:
    """Intervals for the population are for independent rows; a unit with several rows is not."""
    if release.unit.column is not None:
        return None
    try:
        return release.population_interval()
    except DiscreetError:
        return None


def _cells(release: TableRelease) -> list[Reading]:
    counts = release.counts()
    noise = counts.confidence_interval()
    labels = [" · ".join(str(one) for one in cell) for cell in product(*counts.labels)]
    estimates, low, high = (np.ravel(np.asarray(part, dtype=float)) for part in (counts, noise.low, noise.high))
    return [
        Reading(label, float(value), Interval(float(a), float(b), noise.level))
        for label, value, a, b in zip(labels, estimates, low, high, strict=True)
    ]


def _margin_cells(table: MarginTable) -> Iterator[Reading]:
    level = 0.95
    for row in table.rows(level):
        label = " · ".join(str(row[name]) for name in table.columns) or "total"
        noise = Interval(row["noise_low"], row["noise_high"], level)
        population = Interval(row["population_low"], row["population_high"], level)
        yield Reading(label, float(row["count"]), noise, population)


def _quantiles(release: QuantileRelease) -> list[Reading]:
    statistic = cast(Quantiles, release.statistic)
    values = np.atleast_1d(np.asarray(release.estimate, dtype=float))
    found: list[Reading] = []
    interval = release.confidence_interval() if statistic.interval is not None else None
    for position, (share, value) in enumerate(zip(statistic.shares, values, strict=True)):
        one = None
        if interval is not None:
            low, high = (float(np.atleast_1d(np.asarray(end))[position]) for end in (interval.low, interval.high))
            one = Interval(low, high, interval.level)
        of_data = one if statistic.rows_at_least is None else None
        found.append(Reading(f"{100 * share:g} %", float(value), of_data, None if of_data is one else one))
    return found


def _plain(release: Release) -> list[Reading]:
    values = np.ravel(np.asarray(release.value, dtype=float))
    interval = release.confidence_interval()
    low, high = (np.ravel(np.broadcast_to(np.asarray(end, dtype=float), values.shape)) for end in interval)
    labels = [""] if values.size == 1 else [str(position + 1) for position in range(values.size)]
    return [
        Reading(label, float(value), Interval(float(a), float(b), interval.level))
        for label, value, a, b in zip(labels, values, low, high, strict=True)
    ]
