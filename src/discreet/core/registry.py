"""Registry: classes by the name under which releases and ledgers store them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, Generic, TypeVar

from discreet.core.errors import InvalidParameter

__all__ = ["Registry"]

Kind = TypeVar("Kind")


class Registry(Generic[Kind]):
    """Classes of one kind: those of some packages, which are imported when first asked for, and those that users write.

    Parameters
    ----------
    kind
        What they are, for refusals.
    packages
        Where the library keeps its own, one module each.
    """

    def __init__(self, kind: str, *packages: str) -> None:
        self.kind, self.packages = kind, packages
        self._known: dict[str, type[Kind]] = {}

    def add(self, cls: type[Kind]) -> None:
        """Remember a class under its own ``name``; one without a name of its own is a base for others."""
        if "name" in cls.__dict__:
            self._known[cls.__dict__["name"]] = cls

    def classes(self) -> dict[str, type[Kind]]:
        """All of them by name."""
        for package in self.packages:
            for module in walk_packages(import_module(package).__path__, f"{package}."):
                import_module(module.name)
        return dict(self._known)

    def read(self, data: Mapping[str, Any]) -> Kind:
        """The object that its name and parameters describe; unknown names are refused."""
        parameters = dict(data)
        name = str(parameters.pop("name", None))
        found = self._known.get(name) or self.classes().get(name)
        if found is None:
            raise InvalidParameter(self.kind, name, f"must be one of {sorted(self._known)}", "Check the file.")
        return found(**parameters)
