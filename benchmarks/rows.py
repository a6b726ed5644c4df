"""Rows at scale: bounded totals beside the engine's plain group-by, Spark for the record, and a first count.

Each figure is taken in a fresh process, in turns, so that all of them see the same machine.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

GROUPS, VALUES_HIGH = 12, 50
LIMIT_GROUPS, LIMIT_ROWS = 2, 2
PEERS = Path(__file__).parent / "peers"
TARGETS = {
    "first question / plain (processor)": 4.0,
    "ten questions / first (processor)": 2.0,
    "total = 1 / groups = 2, rows = 2 (processor)": 1.5,
    "peak memory (GB)": 4.0,
    "Spark local: first question / plain": 3.0,
}
FIRST_COUNT = 5.0


def make_rows(path: Path, rows: int) -> None:
    """About four rows a unit, in groups of unequal size."""
    import duckdb

    duckdb.sql(
        f"COPY (SELECT (hash(i) % {rows // 4})::BIGINT AS u, "
        f"'g' || least(floor(-ln(1 - (hash(i * 7 + 1) % 1000003) / 1000003.0) * 3), {GROUPS - 1})::INT AS g, "
        f"round((hash(i * 13 + 5) % 100003) / 1000.0, 2) AS x FROM range({rows}) t(i)) TO '{path}'"
    )


def plain(path: Path) -> float:
    """DuckDB's own two-level group-by, without bounding."""
    import duckdb

    connection = duckdb.connect()
    start = time.perf_counter()
    connection.sql(
        "SELECT g, count(*), sum(n), sum(s) FROM (SELECT u, g, count(*) AS n, sum(x) AS s "
        f"FROM '{path}' GROUP BY u, g) GROUP BY g"
    ).fetchall()
    return time.perf_counter() - start


def plain_spark(path: Path) -> float:
    """Spark's own two-level group-by."""
    from discreet.core.rows.source import open_source

    spark = open_source(str(path), engine="spark").connection._session
    start = time.perf_counter()
    spark.sql(
        "SELECT g, count(*), sum(n), sum(s) FROM (SELECT u, g, count(*) AS n, sum(x) AS s "
        f"FROM parquet.`{path}` GROUP BY u, g) GROUP BY g"
    ).collect()
    return time.perf_counter() - start


def questions(path: Path, *, count: int = 1, engine: str | None = None, total: int | None = None) -> float:
    """Questions of one session, by groups: per unit at most 2 groups and 2 rows in each, or ``total`` rows in all."""
    from discreet.core.rows import Selected, histograms, take, totals
    from discreet.core.rows.source import open_source
    from discreet.core.schema import Bounds, Categories, Contribution, PrivacyUnit, Schema

    limits = Contribution(groups=LIMIT_GROUPS, rows=LIMIT_ROWS) if total is None else Contribution(total=total)
    schema = Schema(
        columns={"x": Bounds(0, VALUES_HIGH, grid=0.01), "g": Categories([f"g{i}" for i in range(GROUPS)])},
        unit=PrivacyUnit("u", contribution=limits),
    )
    data = open_source(str(path), engine=engine)
    start = time.perf_counter()
    snapshot, selected = take(data, schema, salt="ab" * 32), Selected(by=("g",), columns=("x",))
    for place in range(count):
        if place % 3 == 1:
            histograms(snapshot, selected)
        else:
            totals(snapshot, selected, [("x",), ("x", "x")][: 1 + place % 2])
    return time.perf_counter() - start


def first_count(_: Path) -> float:
    """A count of 1,000 rows; the time of interest is that of the whole process."""
    import pyarrow as pa

    from discreet import PureDP, Schema, Session

    start = time.perf_counter()
    rows = pa.table({"x": range(1000)})
    Session(rows, Schema(columns={}), ledger=":memory:", budget=PureDP(1.0)).count(epsilon=1.0)
    return time.perf_counter() - start


STEPS: dict[str, Callable[[Path], float]] = {
    "plain": plain,
    "first": questions,
    "ten": lambda path: questions(path, count=10),
    "total": lambda path: questions(path, total=1),
    "spark plain": plain_spark,
    "spark": lambda path: questions(path, engine="spark"),
    "first count": first_count,
}


def in_process(step: str, path: Path) -> dict[str, float]:
    """Seconds of a step, processor seconds of its process, and gigabytes at its peak."""
    start = time.perf_counter()
    printed = subprocess.check_output([sys.executable, __file__, "--step", step, "--path", str(path)], text=True)
    whole = time.perf_counter() - start
    return {**json.loads(printed.splitlines()[-1]), "process": whole}


def peer_first_count(name: str) -> float | None:
    """Seconds of a peer's first count from process start; None where it is not installed."""
    python = Path(f".venv-peers/{name}/bin/python")
    script = PEERS / f"first_count_{name.replace('-', '_')}.py"
    if not python.exists():
        return None
    start = time.perf_counter()
    done = subprocess.run([str(python), str(script)], capture_output=True, check=False)
    return time.perf_counter() - start if done.returncode == 0 else None


def measure(rows: int, spark_rows: int, rounds: int) -> dict[str, Any]:
    """All figures, in turns. Processor time is what they are compared by: it does not depend on who else is at work."""
    with tempfile.TemporaryDirectory() as directory:
        large, small = Path(directory) / "large.parquet", Path(directory) / "small.parquet"
        make_rows(large, rows)
        make_rows(small, spark_rows)
        steps = ("plain", "first", "ten", "total")
        runs = [{step: in_process(step, large) for step in steps} for _ in range(rounds)]
        spark = {step: in_process(step, small) for step in ("spark plain", "spark")} if shutil.which("java") else None
        counts = [in_process("first count", small)["process"] for _ in range(3)]
    peers = {name: peer_first_count(name) for name in ("opendp", "tumult-analytics")}

    def middle(step: str, figure: str) -> float:
        return statistics.median(run[step][figure] for run in runs)

    def ratio(step: str, other: str) -> float:
        return statistics.median(run[step]["processor"] / run[other]["processor"] for run in runs)

    return {
        "rows": rows,
        "plain group-by (s)": middle("plain", "seconds"),
        "first question (s)": middle("first", "seconds"),
        "ten questions (s)": middle("ten", "seconds"),
        "first question / plain (processor)": ratio("first", "plain"),
        "ten questions / first (processor)": ratio("ten", "first"),
        "total = 1 / groups = 2, rows = 2 (processor)": ratio("total", "first"),
        "peak memory (GB)": max(run["ten"]["gigabytes"] for run in runs),
        f"Spark local, {spark_rows:,} rows: plain group-by (s)": spark and spark["spark plain"]["seconds"],
        f"Spark local, {spark_rows:,} rows: first question (s)": spark and spark["spark"]["seconds"],
        "Spark local: first question / plain": spark and spark["spark"]["seconds"] / spark["spark plain"]["seconds"],
        "first count from process start (s)": statistics.median(counts),
        **{f"first count, {name} (s)": value for name, value in peers.items()},
    }


def lines(figures: dict[str, Any]) -> list[str]:
    """The figures as a table with targets."""
    table = []
    own = figures["first count from process start (s)"]
    for name, value in figures.items():
        shown = "not installed" if value is None else f"{value:,.3g}"
        target = TARGETS.get(name)
        verdict = (
            "" if target is None or value is None else f"  at most {target:g}: {'met' if value <= target else 'MISSED'}"
        )
        if name.startswith("first count, ") and value is not None:
            met = "met" if value / own >= FIRST_COUNT else "MISSED"
            verdict = f"  {value / own:.1f} × ours, at least {FIRST_COUNT:g}: {met}"
        table.append(f"{name:<55}{shown:>15}{verdict}")
    return table


def main() -> None:
    """Measure, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=16_000_000)
    parser.add_argument("--spark-rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--step", choices=list(STEPS))
    parser.add_argument("--path", type=Path)
    options = parser.parse_args()
    if options.step:
        seconds = STEPS[options.step](options.path)
        used = resource.getrusage(resource.RUSAGE_SELF)
        processor = used.ru_utime + used.ru_stime
        print(json.dumps({"seconds": seconds, "processor": processor, "gigabytes": used.ru_maxrss / 1e6}))
        return
    figures = measure(options.rows, options.spark_rows, options.rounds)
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "rows.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print("\n".join(lines(figures)))


if __name__ == "__main__":
    main()
