"""Statistic: what is measured. A public description that holds no data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from discreet.contract.mechanism import Registry

__all__ = ["Statistic", "statistic_from_dict"]

REGISTRY: Registry[Statistic] = Registry("statistic", "discreet.questions")


class Statistic(ABC):
    """How to aggregate, and what is publicly known of the result.

    A subclass is a frozen dataclass with a ``name``, under which it registers itself so that releases can be read
    back. Its ``sensitivity`` and ``exact`` methods take what that statistic needs (the public n, the data).
    """

    name: ClassVar[str]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        REGISTRY.add(cls)

    @property
    def title(self) -> str:
        """The name in words, for people who read a release."""
        return self.name.replace("_", " ")

    @classmethod
    def release_type(cls) -> type[Any] | None:
        """The class of a release of this statistic, where it adds what can be concluded from one."""
        return None

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """The public parameters as JSON-ready data; the constructor takes them back."""

    def to_dict(self) -> dict[str, Any]:
        """Name and parameters; `statistic_from_dict` reads them back."""
        return {"name": self.name, **self.parameters()}


def statistic_from_dict(data: dict[str, Any]) -> Statistic:
    """Read what `Statistic.to_dict` wrote; unknown names are refused."""
    return REGISTRY.read(data)
