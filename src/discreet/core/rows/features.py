"""Features: one value of each unit, made of the encoded rows of that unit alone.

Everything is a whole number of grid steps or the code of a label, so a value is the same on every engine and in any
order of the rows. Nothing overflows and nothing is divided by zero, so every table has its features. Proof:
``docs/proofs/rows.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from discreet.core.columns import Bounds
from discreet.core.rows.expressions import LIMB, TOO_MANY, exact_sum, quotient
from discreet.core.schema import Feature, Schema

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["features_of"]


def features_of(table: ir.Table, unit: str, schema: Schema, made: Sequence[str], names: Mapping[str, str]) -> ir.Table:
    """One row per unit: its id, and ``x0, x1, …`` for the features of a schema that are ``made``, before clipping.

    Parameters
    ----------
    table, names
        The encoded rows, and where their declared columns are.
    """
    rows = schema.of_rows
    features = [rows.features[name] for name in made]
    table = _with_ends(table, unit, features, names)
    values = {f"x{place}": _taken(table, place, feature, rows, names) for place, feature in enumerate(features)}
    finer = {place: one.finer(rows.bounds(str(one.of)), schema.bounds(made[place])) for place, one in _means(features)}
    sums: dict[str, Any] = {}
    for place, feature in _means(features):
        sums |= _halves(place, table[names[str(feature.of)]], rows.bounds(str(feature.of)), finer[place])
    units = table.group_by(unit).aggregate(**values, **sums)
    means = {
        f"x{place}": _mean(units, place) + finer[place] * rows.bounds(str(feature.of)).lowest
        for place, feature in _means(features)
    }
    return units.mutate(**means)


def _means(features: Sequence[Feature]) -> list[tuple[int, Feature]]:
    return [(place, feature) for place, feature in enumerate(features) if feature.take == "mean"]


def _with_ends(table: ir.Table, unit: str, features: Sequence[Feature], names: Mapping[str, str]) -> ir.Table:
    """The rows with ``at``, their place in the order where they have a value, and ``end``, that of their unit's end."""
    ordered = [(place, one) for place, one in enumerate(features) if one.order is not None]
    at = {
        f"at{place}": table[names[str(one.of)]].notnull().ifelse(table[names[str(one.order)]], None)
        for place, one in ordered
    }
    table = table.mutate(**at)
    own = {
        f"end{place}": (table[f"at{place}"].min() if one.take == "first" else table[f"at{place}"].max())
        for place, one in ordered
    }
    return table.mutate(**{name: end.over(group_by=unit) for name, end in own.items()})


def _taken(table: ir.Table, place: int, feature: Feature, rows: Schema, names: Mapping[str, str]) -> Any:
    """The value made of a unit's rows: a grid step, a count or a code; for a mean the number of its rows."""
    if feature.of is None:
        return table.count()
    value = table[names[feature.of]]
    if feature.take in ("count", "mean"):
        return value.count()
    if feature.take == "sum":
        return exact_sum([value.cast("int64")], [rows.bounds(feature.of).reach])
    if feature.take in ("any", "all"):
        true = (value == list(rows.categories(feature.of).labels).index(True)).cast("int8")
        return true.max() if feature.take == "any" else true.min()
    if feature.order is not None:  # of rows at the same place the smallest value, so that no engine chooses
        return value.min(where=table[f"at{place}"] == table[f"end{place}"])
    return value.min() if feature.take == "min" else value.max()


def _halves(place: int, value: Any, bounds: Bounds, finer: int) -> dict[str, Any]:
    """Sums of the upper and lower halves of a value's fine steps above the lower bound: each below 2²¹ a row."""
    steps = (value.cast("int64") - bounds.lowest) * finer
    upper = quotient(steps, LIMB)
    return {f"upper{place}": exact_sum([upper], [LIMB * 2]), f"lower{place}": exact_sum([steps % LIMB], [LIMB])}


def _mean(units: ir.Table, place: int) -> Any:
    """The sum over the number of rows, rounded to the nearest whole number, halves up.

    With less than `TOO_MANY` rows both sums and ``rest`` are below 2⁵³, where every quotient is exact.
    """
    count = units[f"x{place}"]
    count = ((count > 0) & (count < TOO_MANY)).ifelse(count, None)
    upper, lower = units[f"upper{place}"], units[f"lower{place}"]
    rest = upper % count * LIMB + lower
    return quotient(upper, count) * LIMB + quotient(rest, count) + (rest % count * 2 >= count).cast("int64")
