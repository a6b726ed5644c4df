"""Facts: everything a report says, as one dict. What is not in it is not said."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import discreet
from discreet.core.guarantee import Guarantee
from discreet.core.ledger import Ledger
from discreet.core.protection import Neighbours
from discreet.core.schema import Bounds, Schema, Unlisted
from discreet.inference.chi_square import ChiSquareResult
from discreet.inference.grouped_release import GroupedRelease
from discreet.inference.mean_difference_release import MeanComparison
from discreet.inference.parts_release import MeanAndVarianceInPartsRelease
from discreet.publish.readings import Answered, readings
from discreet.questions.clusters.model import ClusterModel

__all__ = ["Answer", "report_facts"]

Answer = tuple[Mapping[str, Any], Answered, ChiSquareResult | None]
"""A question as plain data (with its name, title and ask), its answer, and the test made of a table, if any."""

_MEANING = {
    "count": "How many rows there are, in all or in each group.",
    "sum": "The total.",
    "mean": "The mean.",
    "proportion": "The share of rows.",
    "variance": "How far values spread around their mean.",
    "covariance_matrix": "How columns vary together.",
    "quantile": "The value below which this share of rows lies.",
    "histogram": "How many rows fall into each bin.",
    "table": "How many rows fall into each cell.",
    "tables": "How many rows fall into each cell of several tables, which add up.",
    "goodness_of_fit": "Whether the shares are those expected.",
    "homogeneity": "Whether the groups are alike.",
    "independence": "Whether the two columns are independent.",
    "mode": "The most frequent label.",
    "compare_means": "Whether the means of the two arms differ, and by how much.",
    "clusters": "Centres around which rows lie.",
    "groups": "Labels that are common enough to be shown; those that are missing may be rare.",
}


def report_facts(*, title: str, plan: str, schema: Schema, ledger: Ledger, answers: Sequence[Answer]) -> dict[str, Any]:
    """Collect what a report says.

    Parameters
    ----------
    title, plan
        What the report is called, and the text of the plan.
    schema, ledger
        The public facts and the record of what was spent.
    answers
        What was released.
    """
    return {
        "discreet": "report",
        "version": discreet.__version__,
        "title": title,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "privacy": _privacy(schema, ledger),
        "assumptions": _assumptions(schema),
        "releases": [_released(*answer, schema) for answer in answers],
        "plan": plan,
    }


def _privacy(schema: Schema, ledger: Ledger) -> dict[str, Any]:
    unit = schema.unit.name
    meaning = {
        Neighbours.ADD_REMOVE: f"whether any one {unit} is in the data at all",
        Neighbours.REPLACE_ONE: f"what the data of any one {unit} is; the number of them is public",
    }[schema.neighbours]
    return {
        "unit": unit,
        "neighbours": schema.neighbours.value,
        "protects": f"An attacker who sees everything here cannot tell {meaning}, up to the guarantee below.",
        "budget": _guarantee(ledger.budget, unit),
        "spent": _guarantee(ledger.spent(), unit),
        "remaining": _guarantee(ledger.remaining(), unit),
        "head": ledger.head,
    }


def _guarantee(guarantee: Guarantee, unit: str) -> dict[str, Any]:
    words = guarantee.sentence().replace("one unit's", f"one {unit}'s")
    return {"symbols": str(guarantee), "words": words, **guarantee.to_dict()}


def _assumptions(schema: Schema) -> list[str]:
    unit = schema.unit
    said = [
        "Everything in the schema (bounds, categories, units) is public and was not taken from the data.",
        "Releases of other data about the same people are not counted here.",
    ]
    if unit.column is None:
        said.append("Every row is a different person or thing that is protected.")
    else:
        limits = (
            "" if unit.contribution is None else f" Limits per {unit.name}: {_limits(unit.contribution.to_dict())}."
        )
        said.append(
            f"Rows with the same {unit.column!r} belong to one protected unit; what is beyond its limits is left "
            f"out by a random choice.{limits}"
        )
    if schema.size is not None:
        said.append(f"The number of units, {schema.size:,}, is public.")
    for name, column in schema.columns.items():
        if isinstance(column, Bounds):
            said.append(
                f"{name}: clipped to {column.low:g} … {column.high:g}, rounded to {column.grid:g}; missing: "
                f"{_policy(column.nulls)}."
            )
        elif isinstance(column, Unlisted):
            said.append(f"{name}: labels that are not public; only common ones may be shown.")
        else:
            said.append(
                f"{name}: {column.cells} public categories; missing: {_policy(column.nulls)}; "
                f"others: {_policy(column.unknown)}."
            )
    return said


def _limits(limits: Mapping[str, int]) -> str:
    words = {"groups": ("group", ""), "rows": ("row", " per group"), "total": ("row", " in all")}
    return ", ".join(
        f"{value} {words[name][0]}{'' if value == 1 else 's'}{words[name][1]}" for name, value in limits.items()
    )


def _policy(policy: Any) -> str:
    words = {"drop": "left out", "refuse": "refused"}
    return words.get(policy, f"counted as {str(policy).removeprefix('=')}")


def _own_limits(question: Mapping[str, Any], schema: Schema) -> Mapping[str, int]:
    """What may count of one unit: the question's own limits, else the schema's."""
    limits = schema.unit.contribution
    return question.get("contribution") or (limits.to_dict() if limits else {})


def _counted(question: Mapping[str, Any], schema: Schema) -> str | None:
    """What one unit can count for, where units are not rows."""
    unit = schema.unit
    if unit.column is None:
        return None
    if question.get("unit_sum"):
        bounds = question["unit_sum"]
        return f"the total of each {unit.name}, clipped to {bounds['low']:g} … {bounds['high']:g}, once per group"
    own = _own_limits(question, schema)
    most = own.get("total", own.get("rows", 1))
    rows = f"at most {most} row{'s' if most > 1 else ''} of each {unit.name}"
    tabled = question["ask"] in ("table", "tables", "homogeneity", "independence", "goodness_of_fit")
    if "total" not in own and (tabled or "by" in question):
        part, groups = "cell" if tabled else "group", own.get("groups")
        reached = "" if groups is None else f", in at most {groups} {part}{'s' if groups > 1 else ''}"
        rows = f"{rows} in a {part}{reached}"
    return f"{rows}; others are left out by a random choice"


def _meaning(question: Mapping[str, Any], schema: Schema) -> str:
    """What a number is."""
    own = _own_limits(question, schema)
    once = own.get("total", own.get("rows")) == 1 and schema.unit.column is not None
    if question["ask"] == "count" and once:
        return f"How many there are, each {schema.unit.name} counted once."
    return _MEANING[question["ask"]]


def _spread(answer: Answered) -> str | None:
    """Standard deviations, where they were released with the mean."""
    if isinstance(answer, GroupedRelease):
        found = [(label, _spread(part)) for label, part in answer.items()]
        told = [f"{label} {spread}" for label, spread in found if spread is not None]
        return "; ".join(told) or None
    if isinstance(answer, MeanAndVarianceInPartsRelease):
        noise = answer.variance_interval()
        three = (answer.standard_deviation, math.sqrt(float(noise.low)), math.sqrt(float(noise.high)))
        value, low, high = (f"{float(f'{one:.3g}'):,g}" for one in three)
        return f"{value} ({low} to {high}, noise)"
    return None


def _released(
    question: Mapping[str, Any], answer: Answered, test: ChiSquareResult | None, schema: Schema
) -> dict[str, Any]:
    columns = question.get("columns", ())
    return {
        "name": question["name"],
        "title": question["title"],
        "ask": question["ask"],
        "meaning": _meaning(question, schema),
        "counted": _counted(question, schema),
        "spread": _spread(answer),
        "readings": [
            reading.to_dict() for reading in readings(answer, [columns] if isinstance(columns, str) else columns)
        ],
        "test": None if test is None else test.to_dict(),
        **_protection(answer),
    }


def _protection(answer: Answered) -> dict[str, Any]:
    """How an answer is protected, and where the ledger has it."""
    if isinstance(answer, ClusterModel):
        return {
            "guarantee": _guarantee(answer.guarantee_, "row"),
            "mechanism": answer.description(),
            "sensitivity": str(answer.sensitivity),
            "release_id": answer.release_id_,
            "created": answer.created_,
        }
    found = {
        "guarantee": None if answer.guarantee is None else _guarantee(answer.guarantee, str(answer.protection.unit)),
        "protects": str(answer.protection),
        "release_id": answer.release_id,
        "created": answer.created,
    }
    if isinstance(answer, MeanComparison):
        equal = {"test": "equal means", "pvalue": answer.pvalue}
        return found | {"mechanism": {"name": answer.method}, "sensitivity": None, "test": equal}
    return found | {"mechanism": answer.mechanism.to_dict(), "sensitivity": str(answer.sensitivity)}
