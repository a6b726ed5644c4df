"""Speed of profiles: seconds and processor time, beside DuckDB's own minimum, maximum and count of all columns.

    python benchmarks/profile_speed.py parquet 1000000 200    # one source; also: table, csv, units, "csv units"
    python benchmarks/profile_speed.py                         # all of them, stored

Parquet files hold minimum, maximum and count in their footer, so DuckDB would answer without reading a row. The plain
pass is told not to; both figures are printed. Each source is taken in a process of its own, on two threads. A figure
that is printed for one source also takes its place among the stored ones.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "profile_speed.json"
RUNS = (
    ("parquet", 1_000_000, 200), ("table", 1_000_000, 200), ("units", 50_000, 50), ("csv", 200_000, 50),
    ("csv", 1_000_000, 20), ("csv units", 200_000, 50), ("csv units", 1_000_000, 20),
)  # fmt: skip


TEXT, UNITS = ("csv", "csv units"), ("units", "csv units")


def make(path: Path, rows: int, columns: int, kind: str) -> None:
    """Amounts with two decimals; in a CSV file also ages, dates, labels and numbers with gaps."""
    import duckdb

    def column(k: int) -> str:
        share = f"((hash(i * {columns} + {k}) % 1000003 + 0.5) / 1000003)"
        amount = f"round(exp({3 + k % 5} + ln({share} / (1 - {share})) / 1.7), 2)"
        mixed = (
            f"floor({share} * 90 + 10)::INT",
            amount,
            f"DATE '1950-01-01' + ({share} * 20000)::INT",
            f"['north', 'south', 'east', 'west'][1 + floor({share} * 4)::INT]",
            f"CASE WHEN {share} < 0.1 THEN NULL ELSE round({share} * 1000 - 300, 3) END",
        )
        return f"{mixed[k % 5] if kind in TEXT else amount} AS x{k}"

    wanted = [*(["i // 2 AS person"] if kind in UNITS else []), *(column(k) for k in range(columns))]
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT {', '.join(wanted)} FROM range({rows}) t(i)) TO '{path}'")


def timed(call: Callable[[], Any], repeats: int = 3) -> tuple[float, float]:
    """Least seconds and least processor seconds."""
    best = [float("inf"), float("inf")]
    for _ in range(repeats):
        wall, processor = time.perf_counter(), time.process_time()
        call()
        best = [min(best[0], time.perf_counter() - wall), min(best[1], time.process_time() - processor)]
    return best[0], best[1]


def run(kind: str, rows: int, columns: int) -> dict[str, Any]:
    """Figures of one source."""
    import duckdb

    from discreet import PrivacyUnit, PureDP, Schema, Session

    names = [f"x{k}" for k in range(columns)]
    asked = ", ".join(f"min({name}), max({name}), count({name})" for name in names)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "wide.csv" if kind in TEXT else "wide.parquet")
        make(path, rows, columns, kind)
        connection = duckdb.connect(config={"threads": 2})
        source: dict[str, Any] = {"source": path}
        name = f"'{path}'"
        if kind == "table":
            connection.execute(f"CREATE TABLE wide AS SELECT * FROM '{path}'")
            source, name = {"source": connection, "table": "wide"}, "wide"
        schema = Schema(columns={}, unit=PrivacyUnit("person" if kind in UNITS else None))

        def plain() -> None:
            connection.execute(f"SELECT {asked} FROM {name}").fetchall()

        def profile() -> None:
            session = Session(**source, schema=schema, ledger=":memory:", budget=PureDP(1.0))
            session.profile(epsilon=1.0, columns=names)

        footer = timed(plain)[0]
        connection.execute("SET disabled_optimizers = 'statistics_propagation'")
        passed = timed(plain)
        connection.execute("SET disabled_optimizers = ''")
        took = timed(profile, 2)
    return {
        "source": kind, "rows": rows, "columns": columns, "plain (s)": passed[0], "plain, processor (s)": passed[1],
        "plain from statistics (s)": footer, "profile (s)": took[0], "profile, processor (s)": took[1],
        "profile / plain": took[0] / passed[0], "profile / plain (processor)": took[1] / passed[1],
    }  # fmt: skip


def table_row(found: dict[str, Any]) -> str:
    """A row of the table that is printed."""
    plain, size = found["plain, processor (s)"], f"{found['rows']:,} | {found['columns']}"
    took = found["profile, processor (s)"]
    return f"| {found['source']} | {size} | {plain:.2f} s | {took:.2f} s | {took / plain:.1f} |"


def store(found: dict[str, Any]) -> None:
    """Put figures among the stored ones, in the order of `RUNS`."""
    stored = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    by_run = {(one["source"], one["rows"], one["columns"]): one for one in (*stored, found)}
    kept = [by_run[one] for one in RUNS if one in by_run]
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def main(words: list[str]) -> None:
    """One source printed and stored, or all of them."""
    if words:
        kind, rows, columns = words[0], int(words[1]), int(words[2])
        found = run(kind, rows, columns)
        print(json.dumps(found))
        print(table_row(found))
        store(found)
        return
    for one in RUNS:
        subprocess.run([sys.executable, __file__, *map(str, one)], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
