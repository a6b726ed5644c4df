"""Forecast: what a plan says of an error, and for which data, before any data is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["DEFAULT_ROWS", "Forecast"]

DEFAULT_ROWS = 1000
"""Rows per group in a plan that is told none."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What is known of an error before any data is read.

    Attributes
    ----------
    weights
        How far one unit of the noise on each number that it is read from moves what is read, in the scenario.
    worst
        The same for the least favourable data; None where the data does not matter or nothing bounds it.
    error, bound
        For what is no weighted sum of noises: its error in the scenario, and for any data, as functions of the level.
    scenario
        What the data is taken to be, in words; empty where the error does not depend on it.
    """

    weights: tuple[float, ...] = (1.0,)
    worst: tuple[float, ...] | None = None
    error: Callable[[float], float] | None = None
    bound: Callable[[float], float] | None = None
    scenario: str = ""
