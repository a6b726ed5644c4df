"""Plain data: schemas as a plan file writes them. Unknown settings are refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import Any

from discreet.core import requirements
from discreet.core.columns import Bands, Bounds, Categories, Column, Dates, PrivateLabels
from discreet.core.errors import InvalidParameter, WrongType, spelling
from discreet.core.protection import Neighbours
from discreet.core.requirements import one_of
from discreet.core.schema import Contribution, Design, Feature, PrivacyUnit, Related, Schema
from discreet.mechanisms.omission.step import (
    AbsoluteDistance,
    FixedSample,
    Omission,
    OutlierSuppression,
    PoissonSample,
    SampleByLabel,
)
from discreet.questions.formulas import Formula
from discreet.questions.profile.released_first import PrivateBounds, PrivateLimit


def read_omission(table: Mapping[str, Any], schema: Schema) -> Omission:
    """The step that a release writes as ``omit``; distances lie within the declared bounds of its column.

    Examples
    --------
    >>> read_omission({"poisson": 0.2}, Schema(columns={}))
    PoissonSample(rate=0.2)
    """
    if "poisson" in table:
        return PoissonSample(table["poisson"])
    if "sample" in table:
        if schema.size is None:
            rule = "needs the public number of rows"
            raise InvalidParameter("omit", table, rule, 'Declare neighbours = "replace_one" and size, or use poisson.')
        return FixedSample(table["sample"], schema.size)
    column = table["column"]
    declared = schema.of_rows.column(column)
    if "rates" in table:
        labels = getattr(declared, "labels", ())
        if not isinstance(declared, Categories) or declared.value is not None or not {*table["rates"]} <= {*labels}:
            rule = "must be a column of the source with labels, and rates those of its labels"
            raise InvalidParameter("omit", column, rule, f"Its labels: {', '.join(map(str, labels)) or 'none'}.")
        return SampleByLabel(column, table["rates"], table.get("others", 0.0))
    if isinstance(declared, Bounds) and not isinstance(declared, Dates | PrivateBounds) and declared.value is None:
        low, high = table["outliers"]
        return OutlierSuppression(low, high, AbsoluteDistance((declared.low, declared.high)), columns=(column,))
    raise InvalidParameter("omit", column, "must be a number of the source, with bounds", "Name such a column.")


def narrowed(schema: Schema, condition: str) -> Schema:
    """The same declarations, over the rows for which a condition holds as well."""
    text = requirements.instance("where", condition, str, 'a condition such as "age >= 18"')
    alone = Formula(text)  # its brackets must close by themselves
    return replace(schema, where=alone if schema.where is None else Formula(f"({schema.where.text}) and ({text})"))


def narrows(schema: Schema, whole: Schema) -> bool:
    """True where a schema has the same declarations as the whole, over fewer rows of it."""
    if schema.where is None or replace(schema, where=None) != replace(whole, where=None):
        return False
    if whole.where is None:
        return True
    both, begins = schema.where.term, f"({whole.where.text}) and ("
    return schema.where.text.startswith(begins) and both.op == "and" and both.parts[0] == whole.where.term


def computes_more(schema: Schema, whole: Schema) -> bool:
    """True where a schema has the same declarations as the whole, and columns more that formulas compute of them."""
    added = [column for name, column in schema.columns.items() if name not in whole.columns]
    if not added or any(type(one) not in (Bands, Bounds, Categories) or one.value is None for one in added):
        return False
    kept = {name: schema.columns[name] for name in whole.columns if name in schema.columns}
    return replace(schema, columns=kept) == whole


# ---- Plain data: schemas as a plan file writes them. Unknown settings are refused by name.


_NAMED = {"label", "measured_in"}
_LABELS = {"nulls", "unknown", "value", *_NAMED}
_SPELLED = {"missing", "aliases", "ignore_case"}
_NUMBERS = {"low", "high", "grid", "nulls", "value", "missing", *_NAMED}
_PERIODS = ("day", "month", "year")
_SCHEMA = {"neighbours", "size", "unit", "columns", "where", "related", "features", "per_unit", "design", "noun"}
_FEATURE = {"of", "take", "low", "high", "grid", "nulls", "order", *_NAMED}


def schema_from_dict(data: Mapping[str, Any]) -> Schema:
    """Read what `Schema.to_dict` wrote, or the ``[schema]`` part of a plan file; unknown keys are refused.

    Examples
    --------
    >>> schema = schema_from_dict({"columns": {"age": {"low": 0, "high": 120, "grid": 1}}, "where": "age >= 18"})
    >>> schema_from_dict(schema.to_dict()) == schema
    True
    """
    fields = known_settings("schema", data, _SCHEMA)
    neighbours = fields.get("neighbours", Neighbours.ADD_REMOVE.value)
    one_of("schema.neighbours", neighbours, [one.value for one in Neighbours], "Most data sets want add_remove.")
    columns = known_settings("schema.columns", fields.get("columns", {}))
    declared = {name: read_column(f"schema.columns.{name}", column) for name, column in columns.items()}
    schema = Schema(
        columns=declared,
        unit=_unit(fields.get("unit", {})),
        neighbours=Neighbours(neighbours),
        size=fields.get("size"),
        where=_formula("where", fields.get("where")),
        related={
            name: _related(f"schema.related.{name}", one)
            for name, one in known_settings("schema.related", fields.get("related", {})).items()
        },
        features={
            name: read_feature(f"schema.features.{name}", one)
            for name, one in known_settings("schema.features", fields.get("features", {})).items()
        },
        design=_design(fields.get("design"), declared),
        noun=fields.get("noun", ""),
    )
    per_unit = fields.get("per_unit", False)
    if isinstance(per_unit, bool):
        return schema.per_unit() if per_unit else schema
    where = known_settings("schema.per_unit", per_unit, {"where"}).get("where")
    return replace(schema.per_unit(), where=_formula("per_unit.where", where))


_DESIGN = {"weight", "weight_high", "strata", "population", "cluster", "expected", *_NAMED}


def _design(data: Any, columns: Mapping[str, Column]) -> Design | None:
    """How the rows were sampled; replicate weights are refused with what serves in their place."""
    if data is None:
        return None
    if isinstance(data, Mapping) and "replicates" in data:
        raise InvalidParameter(
            "schema.design.replicates", data["replicates"], "are not read: 80 weights of a row would need 80 times as "
            "much noise", "Leave them out, and name strata and cluster: intervals are linearised from the weights.",
        )  # fmt: skip
    fields = known_settings("schema.design", data, _DESIGN)
    for key, example in (("weight", '"PWGTP"'), ("weight_high", "300")):
        if key not in fields:
            raise InvalidParameter(f"schema.design.{key}", None, "is missing", f"Write {key} = {example}, for example.")
    strata = columns.get(fields.get("strata", ""))
    written = (
        {str(one): one for one in strata.labels} if isinstance(strata, Categories) else {}
    )  # keys of TOML are text
    population = known_settings("schema.design.population", fields.pop("population", {}))
    return Design(**fields, population={written.get(name, name): one for name, one in population.items()})


def read_feature(name: str, data: Any) -> Feature:
    """The declaration of a feature, from its settings."""
    fields = known_settings(name, data, _FEATURE)
    if "take" not in fields:
        raise InvalidParameter(f"{name}.take", None, "is missing", 'Write take = "sum", for example.')
    return Feature(**fields)


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
    fields = known_settings("schema.unit", data, {"column", "groups", "rows", "total", "nulls", "private", "label"})
    limits = {name: fields.pop(name) for name in ("groups", "rows", "total") if name in fields}
    if "private" in fields:
        private = known_settings("schema.unit.private", fields.pop("private"), {"epsilon"})
        return PrivacyUnit(contribution=PrivateLimit(**limits, **private), **fields)
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
        fields = known_settings(name, table, {"unlisted", *_NAMED})
        if fields.pop("unlisted") is not True:
            raise WrongType(f"{name}.unlisted", table["unlisted"], "must be true", "Write unlisted = true.")
        return PrivateLabels(**fields)
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
