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
LIMIT_GROUPS, LIMIT_ROWS = 3, 2
ROUNDS = 3
PEERS = Path(__file__).parent / "peers"
TARGETS = {"bounded / plain": 4.0, "peak memory (GB)": 4.0}
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


def bounded(path: Path, engine: str = "duckdb") -> float:
    """The table and the sums behind the means, per unit at most 3 groups and 2 rows in each."""
    from discreet.core.rows import Selected, take, totals
    from discreet.core.rows.read import open_source
    from discreet.core.schema import Bounds, Categories, Contribution, PrivacyUnit, Schema

    schema = Schema(
        columns={"x": Bounds(0, VALUES_HIGH, grid=0.01), "g": Categories([f"g{i}" for i in range(GROUPS)])},
        unit=PrivacyUnit("u", contribution=Contribution(groups=LIMIT_GROUPS, rows=LIMIT_ROWS)),
    )
    data = open_source(str(path), engine=engine, memory="3GB" if engine == "duckdb" else None)
    start = time.perf_counter()
    totals(take(data, schema, salt="benchmark"), Selected(by=("g",), columns=("x",)), [("x",)])
    return time.perf_counter() - start


def first_count(_: Path) -> float:
    """A count of 1,000 rows; the time of interest is that of the whole process."""
    import pyarrow as pa

    from discreet import PureDP, Schema, Session

    start = time.perf_counter()
    rows = pa.table({"x": range(1000)})
    Session(rows, Schema(columns={}), ledger=":memory:", budget=PureDP(1.0)).count(PureDP(1.0))
    return time.perf_counter() - start


STEPS: dict[str, Callable[[Path], float]] = {
    "plain": plain,
    "bounded": bounded,
    "spark": lambda path: bounded(path, "spark"),
    "first count": first_count,
}


def in_process(step: str, path: Path) -> dict[str, float]:
    """Seconds of a step, seconds of its process, and gigabytes at its peak."""
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


def measure(rows: int, spark_rows: int) -> dict[str, Any]:
    """All figures, in turns."""
    with tempfile.TemporaryDirectory() as directory:
        large, small = Path(directory) / "large.parquet", Path(directory) / "small.parquet"
        make_rows(large, rows)
        make_rows(small, spark_rows)
        runs = [{step: in_process(step, large) for step in ("plain", "bounded")} for _ in range(ROUNDS)]
        spark = in_process("spark", small) if shutil.which("java") else None
        duckdb_small = in_process("bounded", small)
        counts = [in_process("first count", small)["process"] for _ in range(ROUNDS)]
    peers = {name: peer_first_count(name) for name in ("opendp", "tumult-analytics")}
    plain_seconds = statistics.median(run["plain"]["seconds"] for run in runs)
    seconds = statistics.median(run["bounded"]["seconds"] for run in runs)
    return {
        "rows": rows,
        "plain group-by (s)": plain_seconds,
        "bounded totals (s)": seconds,
        "bounded / plain": statistics.median(run["bounded"]["seconds"] / run["plain"]["seconds"] for run in runs),
        "peak memory (GB)": max(run["bounded"]["gigabytes"] for run in runs),
        f"bounded, {spark_rows:,} rows, DuckDB (s)": duckdb_small["seconds"],
        f"bounded, {spark_rows:,} rows, Spark local (s)": None if spark is None else spark["seconds"],
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
        verdict = "" if target is None else f"  at most {target:g}: {'met' if value <= target else 'MISSED'}"
        if name.startswith("first count, ") and value is not None:
            met = "met" if value / own >= FIRST_COUNT else "MISSED"
            verdict = f"  {value / own:.1f} × ours, at least {FIRST_COUNT:g}: {met}"
        table.append(f"{name:<45}{shown:>15}{verdict}")
    return table


def main() -> None:
    """Measure, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--spark-rows", type=int, default=2_000_000)
    parser.add_argument("--step", choices=list(STEPS))
    parser.add_argument("--path", type=Path)
    options = parser.parse_args()
    if options.step:
        seconds = STEPS[options.step](options.path)
        used = resource.getrusage(resource.RUSAGE_SELF)
        print(json.dumps({"seconds": seconds, "gigabytes": used.ru_maxrss / 1e6}))
        return
    figures = measure(options.rows, options.spark_rows)
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "rows.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print("\n".join(lines(figures)))


if __name__ == "__main__":
    main()
