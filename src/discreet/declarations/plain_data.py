"""Plain data: schemas as a plan file writes them. Unknown settings are refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from discreet.core.columns import Bands, Bounds, Categories, Column, Dates, Unlisted
from discreet.core.errors import InvalidParameter, WrongType, spelling
from discreet.core.protection import Neighbours
from discreet.core.requirements import one_of
from discreet.core.schema import Contribution, PrivacyUnit, Related, Schema
from discreet.declarations.language import Formula
from discreet.questions.profiles.released_first import PrivateBounds, PrivateContribution

__all__ = ["read_column", "schema_from_dict"]

_LABELS = {"nulls", "unknown", "value"}
_SPELLED = {"missing", "aliases", "ignore_case"}
_NUMBERS = {"low", "high", "grid", "nulls", "value", "missing"}
_PERIODS = ("day", "month", "year")


def schema_from_dict(data: Mapping[str, Any]) -> Schema:
    """Read what `Schema.to_dict` wrote, or the ``[schema]`` part of a plan file; unknown keys are refused.

    Examples
    --------
    >>> schema = schema_from_dict({"columns": {"age": {"low": 0, "high": 120, "grid": 1}}, "where": "age >= 18"})
    >>> schema_from_dict(schema.to_dict()) == schema
    True
    """
    fields = known_settings("schema", data, {"neighbours", "size", "unit", "columns", "where", "related"})
    neighbours = fields.get("neighbours", Neighbours.ADD_REMOVE.value)
    one_of("schema.neighbours", neighbours, [one.value for one in Neighbours], "Most data sets want add_remove.")
    columns = known_settings("schema.columns", fields.get("columns", {}))
    return Schema(
        columns={name: read_column(f"schema.columns.{name}", column) for name, column in columns.items()},
        unit=_unit(fields.get("unit", {})),
        neighbours=Neighbours(neighbours),
        size=fields.get("size"),
        where=_formula("where", fields.get("where")),
        related={
            name: _related(f"schema.related.{name}", one)
            for name, one in known_settings("schema.related", fields.get("related", {})).items()
        },
    )


def _related(name: str, data: Any) -> Related:
    fields = known_settings(name, data, {"id", "rows", "counted", "where", "columns"})
    for key in ("id", "rows"):
        if key not in fields:
            raise InvalidParameter(
                f"{name}.{key}", None, "is missing", 'Write id = "person" and rows = 3, for example.'
            )
    columns = known_settings(f"{name}.columns", fields.pop("columns", {}))
    return Related(
        columns={column: read_column(f"{name}.columns.{column}", one) for column, one in columns.items()},
        where=_formula(f"{name}.where", fields.pop("where", None)),
        **fields,
    )


def _formula(name: str, text: Any) -> Formula | None:
    try:
        return None if text is None else Formula(text)
    except InvalidParameter as failure:
        raise InvalidParameter(name, text, failure.rule, failure.fix) from None


def _unit(data: Any) -> PrivacyUnit:
    fields = known_settings("schema.unit", data, {"column", "groups", "rows", "total", "nulls", "private"})
    limits = {name: fields.pop(name) for name in ("groups", "rows", "total") if name in fields}
    if "private" in fields:
        private = known_settings("schema.unit.private", fields.pop("private"), {"epsilon"})
        return PrivacyUnit(contribution=PrivateContribution(**limits, **private), **fields)
    return PrivacyUnit(contribution=Contribution(**limits) if limits else None, **fields)


def known_settings(name: str, data: Any, allowed: set[str] | None = None) -> dict[str, Any]:
    """The settings of a table, or an error that names the first unknown one."""
    if not isinstance(data, Mapping):
        raise WrongType(name, data, "must be a table of settings", f"Write [{name}] and its keys below.")
    for key in data:
        if allowed is not None and key not in allowed:
            raise InvalidParameter(f"{name}.{key}", data[key], "is not a setting", spelling(key, sorted(allowed)))
    return dict(data)


def read_column(name: str, data: Any) -> Column:
    """The declaration of a column, from its settings."""
    table = known_settings(name, data)
    if "value" in table:
        table["value"] = _formula(f"{name}.value", table["value"])
    if "bands" in table:
        fields = known_settings(name, table, {"bands", "categories", *_LABELS})
        labels = _list(f"{name}.categories", fields.pop("categories", ()))
        return Bands(edges=fields.pop("bands"), labels=labels, **fields)
    if "labels" in table:
        fields = known_settings(name, table, {"labels", *_LABELS, *_SPELLED})
        return Categories.coded(known_settings(f"{name}.labels", fields.pop("labels")), **fields)
    if "categories" in table:
        fields = known_settings(name, table, {"categories", *_LABELS, *_SPELLED})
        return Categories(_list(f"{name}.categories", fields.pop("categories")), **fields)
    if "unlisted" in table:
        if known_settings(name, table, {"unlisted"})["unlisted"] is not True:
            raise WrongType(f"{name}.unlisted", table["unlisted"], "must be true", "Write unlisted = true.")
        return Unlisted()
    if "private" in table:
        fields = known_settings(name, table, {*_NUMBERS, "private"} - {"value"})
        private = known_settings(f"{name}.private", fields.pop("private"), {"proportion", "epsilon"})
        return PrivateBounds(**fields, **private)
    dates = isinstance(table.get("low"), date) or table.get("grid") in _PERIODS
    fields = known_settings(name, table, {*_NUMBERS, "order"} if dates else _NUMBERS)
    for key in ("low", "high"):
        if key not in fields:
            raise InvalidParameter(
                f"{name}.{key}", None, "is missing",
                "Give low and high for a number or date; categories, labels, bands or unlisted = true for labels.",
            )  # fmt: skip
    return Dates(**fields) if dates else Bounds(**fields)


def _list(name: str, labels: Any) -> tuple[Any, ...]:
    if not isinstance(labels, list | tuple):
        raise WrongType(name, labels, "must be a list of labels", 'Write ["north", "south"].')
    return tuple(labels)
