"""Errors of SmartNoise SQL: each statistic released many times, with the call that its documentation recommends.

Its ε is per column of a query, and an average or a variance is made of several columns. Each reader therefore gets the
largest ε for which the library itself says that the query costs at most the guarantee.
"""

from __future__ import annotations

import json
import sys
import warnings
from importlib.metadata import version
from typing import Any

warnings.filterwarnings("ignore")

import pandas as pd  # noqa: E402
import snsql  # noqa: E402

TABLE = "people.people"


def metadata(columns: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Public facts, as the library has them; one row is one person."""
    rows = {"row_privacy": True, "rows": 1000, "censor_dims": False, "clamp_counts": False}
    return {"": {"people": {"people": rows | columns}}}


def reader(frame: pd.DataFrame, columns: dict[str, Any], epsilon: float, delta: float) -> Any:
    """A reader whose columns get this ε."""
    privacy = snsql.Privacy(epsilon=epsilon, delta=delta)
    return snsql.from_df(frame, privacy=privacy, metadata=metadata(columns))


def affordable(frame: pd.DataFrame, columns: dict[str, Any], query: str, delta: float) -> Any:
    """The reader with the largest ε per column for which the query costs at most 1."""
    low, high = 0.0, 1.0
    if reader(frame, columns, high, delta).get_privacy_cost(query)[0] <= 1 + 1e-9:
        return reader(frame, columns, high, delta)
    for _ in range(25):
        middle = (low + high) / 2
        cost = reader(frame, columns, middle, delta).get_privacy_cost(query)[0]
        low, high = (middle, high) if cost <= 1 else (low, middle)
    return reader(frame, columns, low, delta)


def main() -> None:
    """Answer the question on standard input."""
    asked = json.load(sys.stdin)
    low, high = asked["bounds"]
    edges = asked["edges"]
    ages = pd.Series(asked["ages"])
    frame = pd.DataFrame(
        {
            "age": ages,
            "bin": pd.cut(ages, edges, right=False, labels=False).fillna(len(edges) - 2).astype(int).astype(str),
            "cell": [f"{5 * a + b}" for a, b in zip(asked["rows"], asked["columns"], strict=True)],
        }
    )
    age = {"age": {"type": "int", "lower": low, "upper": high}}
    bins = {"bin": {"type": "string"}}
    cells = {"cell": {"type": "string"}}
    answers: dict[str, Any] = {}

    def note(key: str, query: str, columns: dict[str, Any], read: Any, delta: float = 0.0) -> None:
        source = affordable(frame, columns, query, delta)
        answers[key] = {"call": query, "values": [read(source.execute(query)) for _ in range(asked["repeats"])]}

    def single(rows: Any) -> float:
        return float(rows[1][0])

    def by_label(size: int) -> Any:
        def read(rows: Any) -> list[float]:
            found = {str(label): float(count) for label, count in rows[1:]}
            return [found.get(str(place), 0.0) for place in range(size)]

        return read

    note("count", f"SELECT COUNT(*) FROM {TABLE} WHERE age >= 65", age, single)
    note("sum", f"SELECT SUM(age) FROM {TABLE}", age, single)
    note("mean", f"SELECT AVG(age) FROM {TABLE}", age, single)
    note("variance", f"SELECT VAR(age) FROM {TABLE}", age, single)
    note("histogram", f"SELECT bin, COUNT(*) AS n FROM {TABLE} GROUP BY bin", bins, by_label(len(edges) - 1))
    note("table", f"SELECT cell, COUNT(*) AS n FROM {TABLE} GROUP BY cell", cells, by_label(20))
    json.dump({"version": version("smartnoise-sql"), "answers": answers}, sys.stdout)


if __name__ == "__main__":
    main()
