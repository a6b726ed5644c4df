"""Names for tables of several columns: lists of margins, hierarchies, and checks of columns and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from discreet.core import requirements
from discreet.core.errors import InvalidParameter

__all__ = ["all_margins", "distinct_columns", "hierarchy", "impossible_labels", "place_of", "positions"]


def all_margins(columns: Sequence[str], up_to: int | None = None) -> list[list[str]]:
    """Every table over some of the columns, from the total up to ``up_to`` columns.

    Examples
    --------
    >>> all_margins(["region", "age", "sex"], up_to=1)
    [[], ['region'], ['age'], ['sex']]
    """
    names = requirements.listed("columns", columns, '["region", "age"]')
    most = len(names) if up_to is None else requirements.positive_integer("up_to", up_to, at_least=0)
    return [list(table) for size in range(min(most, len(names)) + 1) for table in combinations(names, size)]


def hierarchy(column: str, within: str, groups: Mapping[Any, Sequence[Any]]) -> list[dict[str, Any]]:
    """What cannot occur where the labels of one column lie within those of another, such as districts within regions.

    Parameters
    ----------
    column, within
        The finer column, and the one it lies within.
    groups
        For each label of ``within``, the labels of ``column`` that belong to it.

    Examples
    --------
    >>> hierarchy("district", "region", {"north": ["n1", "n2"], "south": ["s1"]})
    [{'region': 'north', 'district': ['s1']}, {'region': 'south', 'district': ['n1', 'n2']}]
    """
    for name, value in (("column", column), ("within", within)):
        requirements.instance(name, value, str, "the name of a column")
    requirements.instance("groups", groups, Mapping, '{"north": ["n1", "n2"]}')
    every = [label for labels in groups.values() for label in requirements.listed("groups", labels, '["n1", "n2"]')]
    if len(set(every)) != len(every):
        raise InvalidParameter("groups", dict(groups), "must name each label once", "A district has one region.")
    return [
        {within: group, column: [label for label in every if label not in labels]} for group, labels in groups.items()
    ]


def impossible_labels(cell: Any, columns: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """A declaration of impossible cells, once its columns and labels are known."""
    requirements.instance("impossible", cell, Mapping, '[{"age": "child", "status": "married"}]')
    if not cell:
        raise InvalidParameter("impossible", {}, "must name at least one column", "Leave the empty cell out.")
    for name, labels in cell.items():
        if name not in columns:
            raise InvalidParameter("impossible", name, f"must be one of {list(columns)}", "Check the spelling.")
        positions(columns[name], labels)
    return dict(cell)


def positions(labels: Sequence[Any], wanted: Any) -> list[int]:
    """Places of one label, of several, or of all of them."""
    if wanted is None:
        return list(range(len(labels)))
    several = list(wanted) if isinstance(wanted, list | tuple) else [wanted]
    for label in several:
        if label not in labels:
            raise InvalidParameter("impossible", label, f"must be one of {list(labels)}", "Check the spelling.")
    return [labels.index(label) for label in several]


def place_of(cell: Mapping[str, Any], columns: Mapping[str, Sequence[Any]]) -> dict[int, int]:
    """A cell, given by its labels, as a position along each of its columns."""
    names, place = list(columns), {}
    for name, label in cell.items():
        labels = list(columns[name])
        if label not in labels:
            raise InvalidParameter(name, label, f"must be one of {labels}", "Check the spelling.")
        place[names.index(name)] = labels.index(label)
    return place


def distinct_columns(table: Any, columns: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns of one table, once each is known to be declared and named once."""
    names = (table,) if isinstance(table, str) else tuple(table)
    for name in names:
        if name not in columns:
            raise InvalidParameter("tables", name, f"must be one of {list(columns)}", "Check the spelling.")
    if len(set(names)) != len(names):
        raise InvalidParameter("tables", list(names), "must not repeat a column", "Name each column once.")
    return names
