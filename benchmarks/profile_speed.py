"""Speed of profiles: seconds and processor time, beside DuckDB's own minimum, maximum and count of all columns.

    python benchmarks/profile_speed.py parquet 1000000 200    # one source; also: table, csv, units
    python benchmarks/profile_speed.py                         # all of them, stored

Parquet files hold minimum, maximum and count in their footer, so DuckDB would answer without reading a row. The plain
pass is told not to; both figures are printed. Each source is taken in a process of its own.
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
RUNS = (("parquet", 1_000_000, 200), ("table", 1_000_000, 200), ("csv", 200_000, 50), ("units", 50_000, 50))


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
        return f"{mixed[k % 5] if kind == 'csv' else amount} AS x{k}"

    wanted = [*(["i // 2 AS person"] if kind == "units" else []), *(column(k) for k in range(columns))]
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
        path = Path(folder, "wide.csv" if kind == "csv" else "wide.parquet")
        make(path, rows, columns, kind)
        connection = duckdb.connect()
        source: dict[str, Any] = {"source": path}
        name = f"'{path}'"
        if kind == "table":
            connection.execute(f"CREATE TABLE wide AS SELECT * FROM '{path}'")
            source, name = {"source": connection, "table": "wide"}, "wide"
        schema = Schema(columns={}, unit=PrivacyUnit("person" if kind == "units" else None))

        def plain() -> None:
            connection.execute(f"SELECT {asked} FROM {name}").fetchall()

        def profile() -> None:
            session = Session(**source, schema=schema, ledger=":memory:", budget=PureDP(1.0))
            session.profile(PureDP(1.0), columns=names)

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
    """A row of the table in ``docs/howto/profile.md``."""
    plain, took = found["plain, processor (s)"], found["profile, processor (s)"]
    size = f"{found['rows']:,} | {found['columns']}"
    return f"| {found['source']} | {size} | {plain:.2f} s | {took:.2f} s | {took / plain:.1f} |"


def main(words: list[str]) -> None:
    """One source printed, or all of them stored."""
    if words:
        print(json.dumps(run(words[0], int(words[1]), int(words[2]))))
        return
    found = []
    for kind, rows, columns in RUNS:
        told = subprocess.run(
            [sys.executable, __file__, kind, str(rows), str(columns)], check=True, capture_output=True, text=True
        ).stdout
        found.append(json.loads(told))
        print(told, end="", flush=True)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
