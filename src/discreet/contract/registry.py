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
        """Remember a class under its own ``name``; one without a name of its own is a base for others.

        A name keeps its meaning: stored releases are read by it. Only the same class may come again, as it does when a
        notebook cell or a module is run once more.
        """
        name = cls.__dict__.get("name")
        if name is None:
            return
        # The library's own names are taken before anybody else's, in whatever order modules are imported.
        known = self._known.get(name) if self._owns(cls) else self.classes().get(name)
        if known is not None and _full_name(known) != _full_name(cls):
            raise InvalidParameter(
                "name",
                name,
                f"already names the {self.kind} {_full_name(known)}",
                f"Give {_full_name(cls)} another name.",
            )
        self._known[name] = cls

    def _owns(self, cls: type[Kind]) -> bool:
        return any(cls.__module__.startswith(f"{package}.") for package in self.packages)

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


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
