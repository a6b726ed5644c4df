"""Statistic: what is measured. A public description that holds no data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from discreet.errors import InvalidParameter

if TYPE_CHECKING:
    from discreet.releases import Release

__all__ = ["Statistic", "statistic_from_dict"]

_REGISTRY: dict[str, type[Statistic]] = {}


class Statistic(ABC):
    """How to aggregate, and what is publicly known of the result.

    A subclass is a frozen dataclass with a ``name``, under which it registers itself so that releases can be read
    back. Its ``sensitivity`` and ``exact`` methods take what that statistic needs (the public n, the data).
    """

    name: ClassVar[str]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" in cls.__dict__:
            _REGISTRY[cls.name] = cls

    @classmethod
    def release_type(cls) -> type[Release]:
        """The class of a release of this statistic; it adds what can be concluded from one."""
        from discreet.releases import Release

        return Release

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """The public parameters as JSON-ready data; the constructor takes them back."""

    def to_dict(self) -> dict[str, Any]:
        """Name and parameters; `statistic_from_dict` reads them back."""
        return {"name": self.name, **self.parameters()}


def statistic_from_dict(data: dict[str, Any]) -> Statistic:
    """Read what `Statistic.to_dict` wrote; unknown names are refused."""
    import discreet.statistics  # noqa: F401  (fills the registry)

    parameters = dict(data)
    name = str(parameters.pop("name", None))
    if name not in _REGISTRY:
        raise InvalidParameter("statistic", name, f"must be one of {sorted(_REGISTRY)}", "Check the file.")
    return _REGISTRY[name](**parameters)
