"""Speed of answers over a file: the first and the second of a session, beside DuckDB's own query of the same column.

    python benchmarks/answer_speed.py csv        # one kind of file; also: parquet
    python benchmarks/answer_speed.py            # both, stored

A million rows of eleven columns, two rows per person. The first answer opens the file, and checks and copies it where
it is text; the second one, of other columns, reads what the first one stored. Answers with a limit keep one row of each
person. So does the query beside the last of them, by a hash of the row: the least that a limit costs DuckDB itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "answer_speed.json"
ROWS, COLUMNS = 1_000_000, 10
FILES = ("csv", "parquet")
ONE_ROW = "(SELECT *, row_number() OVER (PARTITION BY person ORDER BY hash(x0, x1, x3)) AS place FROM {rows})"

Ask = Callable[[Any, Any], object]
MEANS: tuple[Ask, Ask] = (
    lambda one, cost: one.mean("x1", guarantee=cost),
    lambda one, cost: one.mean("x0", guarantee=cost),
)
QUESTIONS: dict[str, tuple[bool, str, Ask, Ask]] = {
    "mean": (False, "SELECT avg(x1) FROM {rows}", *MEANS),
    "count by label": (
        False, "SELECT x3, count(*) FROM {rows} GROUP BY x3",
        lambda one, cost: one.count(guarantee=cost, by="x3"), lambda one, cost: one.count(guarantee=cost, by="x8"),
    ),
    "table": (
        False, "SELECT x3, x8, count(*) FROM {rows} GROUP BY x3, x8",
        lambda one, cost: one.table(["x3", "x8"], guarantee=cost),
        lambda one, cost: one.table(["x8", "x3"], guarantee=cost),
    ),
    "regression": (
        False, "SELECT regr_slope(x1, x0), regr_intercept(x1, x0), regr_r2(x1, x0) FROM {rows}",
        lambda one, cost: one.regression("x1", "x0", guarantee=cost),
        lambda one, cost: one.regression("x0", "x1", guarantee=cost),
    ),
    "mean, limit of one row": (True, "SELECT avg(x1) FROM {rows}", *MEANS),
    "mean, limit of one row in both": (True, f"SELECT avg(x1) FROM {ONE_ROW} WHERE place = 1", *MEANS),
}  # fmt: skip


def measured(kind: str) -> list[dict[str, Any]]:
    """Figures of all questions about one kind of file, in processor seconds."""
    import duckdb

    from discreet import Bounds, Categories, Contribution, PrivacyUnit, PureDP, Schema, Session
    from profile_speed import make, timed

    labels = Categories(["north", "south", "east", "west"])
    declared: dict[str, Bounds | Categories] = {
        "x0": Bounds(0, 100, grid=1), "x1": Bounds(0, 1000), "x3": labels, "x8": labels,
    }  # fmt: skip
    cost, found = PureDP(1.0), []
    with tempfile.TemporaryDirectory() as folder:
        text, path = Path(folder, "rows.csv"), Path(folder, f"rows.{kind}")
        make(text, ROWS, COLUMNS, "csv units")
        connection = duckdb.connect(config={"threads": 2})
        if path != text:
            connection.execute(f"COPY (SELECT * FROM '{text}') TO '{path}'")
        connection.execute("SET disabled_optimizers = 'statistics_propagation'")
        for name, (limited, query, first, second) in QUESTIONS.items():
            unit = PrivacyUnit("person", contribution=Contribution(total=1)) if limited else PrivacyUnit(None)
            schema = Schema(columns=declared, unit=unit)
            sessions: list[Session] = []

            def opened(first: Ask = first, schema: Schema = schema, sessions: list[Session] = sessions) -> None:
                sessions[:] = [Session(path, schema, ledger=":memory:", budget=PureDP(99.0))]
                first(sessions[0], cost)

            def again(second: Ask = second, sessions: list[Session] = sessions) -> None:
                second(sessions[0], cost)

            def asked(sql: str = query.format(rows=f"'{path}'")) -> None:
                connection.execute(sql).fetchall()

            plain = timed(asked)[1]
            took, repeated = timed(opened, 2)[1], timed(again)[1]
            found.append(
                {
                    "file": kind, "question": name, "plain (s)": plain, "first (s)": took, "second (s)": repeated,
                    "first / plain": took / plain, "second / plain": repeated / plain,
                }
            )  # fmt: skip
            print(table_row(found[-1]), flush=True)
    return found


def table_row(found: dict[str, Any]) -> str:
    """A row of the table that is printed."""
    times = f"{found['plain (s)']:.2f} s | {found['first (s)']:.2f} s | {found['first / plain']:.1f}"
    return f"| {found['file']} | {found['question']} | {times} | {found['second (s)']:.2f} s |"


def main(words: list[str]) -> None:
    """One kind of file, printed and stored, or both."""
    if not words:
        for kind in FILES:
            subprocess.run([sys.executable, __file__, kind], check=True)
        return
    stored = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    found = [*(one for one in stored if one["file"] != words[0]), *measured(words[0])]
    found.sort(key=lambda one: FILES.index(one["file"]))
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
