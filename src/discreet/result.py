"""Result: what a user is handed, readable in a terminal and in a notebook, and ready to be kept."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from discreet.display import Facts, as_html, as_text

__all__ = ["Result"]


class Result(ABC):
    """Everything that discreet reports: text of 80 columns, a table for notebooks, plain data and JSON."""

    @abstractmethod
    def heading(self) -> str:
        """One line above the facts."""

    @abstractmethod
    def facts(self) -> Facts:
        """What to show: pairs of a name and a text."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""

    def to_json(self, *, indent: int | None = None) -> str:
        """JSON text; numbers that are not finite become null."""
        return json.dumps(_finite(self.to_dict()), indent=indent, ensure_ascii=False, allow_nan=False, default=str)

    def __str__(self) -> str:
        return as_text(self.heading(), self.facts())

    def _repr_html_(self) -> str:
        return as_html(self.heading(), self.facts())


def _finite(data: Any) -> Any:
    """The same data with null for what JSON cannot say."""
    if isinstance(data, Mapping):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
