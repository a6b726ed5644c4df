"""Rows at scale: limits per person beside the engine's own two-level group-by, on DuckDB and Spark, in one run.

    python benchmarks/rows.py                         # 1 and 16 million rows, CSV, weights and Spark; stored
    python benchmarks/rows.py --rows 64000000         # one more size, stored beside the others
    python benchmarks/rows.py --only csv              # or: weights, spark

About four rows a person in groups of unequal size; limits of 2 groups with 2 rows each. Ten questions of one session
have six different groupings. Each figure is taken in a process of its own, after a question of a few rows that imports
what is needed; up to four million rows the fastest of five counts. Figures are processor time (`seconds`) and resident
memory at its peak, so that others at work on the machine weigh little.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import timing

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "rows.json"
SIZES, SPARK_ROWS, WEIGHTED_ROWS, CSV_ROWS = (1_000_000, 16_000_000), 2_000_000, 20_000_000, 1_000_000
FEW = 4_000_000
TWO_LEVELS = (
    "SELECT g, count(*), sum(n), sum(s) FROM (SELECT u, g, count(*) AS n, sum(x) AS s FROM {rows} GROUP BY u, g) "
    "GROUP BY g"
)
MOST = {
    "1,000,000 rows: first question / plain": 3.0,
    "16,000,000 rows: first question / plain": 2.0,
    "64,000,000 rows: first question / plain": 2.0,
    "1,000,000 rows: ten questions / first": 1.5,
    "16,000,000 rows: ten questions / first": 1.5,
    "64,000,000 rows: ten questions / first": 1.5,
    "64,000,000 rows: peak memory (GB)": 3.0,
    "CSV: first mean with a limit / DuckDB's mean": 4.0,
    "weights: mean / unweighted mean": 1.3,
    "Spark: first question / plain": 2.5,
    "Spark: other groups / plain": 0.5,
}
Step = Callable[[Path], dict[str, float]]


def make_rows(path: Path, rows: int) -> None:
    """Persons, 12 groups, 5 kinds, yes or no, numbers, and weights for samples."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute(
            f"COPY (SELECT (hash(i) % {rows // 4})::BIGINT AS u, "
            "'g' || least(floor(-ln(1 - (hash(i * 7 + 1) % 1000003) / 1000003.0) * 3), 11)::INT AS g, "
            "'k' || (hash(i * 11 + 3) % 5)::INT AS k, hash(i * 17 + 9) % 3 = 0 AS yes, "
            "round((hash(i * 13 + 5) % 100003) / 1000.0, 2) AS x, (1 + hash(i * 19 + 7) % 100)::INT AS w "
            f"FROM range({rows}) t(i)) TO '{path}'"
        )


def processor() -> float:
    """Processor seconds of this process and of those that it started and still has, a Spark among them."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    seconds = own.ru_utime + own.ru_stime
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(stat.parent.name)] = int(fields[1]), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    for process in parents:
        above = process
        while (above := parents.get(above, (0, 0.0))[0]) > 1:
            if above == os.getpid():
                seconds += parents[process][1]
                break
    return seconds


def took(call: Callable[[], object]) -> float:
    """Processor seconds of a call."""
    start = processor()
    call()
    return processor() - start


def schema_of(**options: Any) -> Any:
    """What is declared of the rows."""
    from discreet import Bounds, Categories, Contribution, PrivacyUnit, Schema

    columns: dict[str, Bounds | Categories] = {
        "x": Bounds(0, 50, grid=0.01),
        "g": Categories([f"g{i}" for i in range(12)]),
        "k": Categories([f"k{i}" for i in range(5)]),
        "yes": Categories([True, False]),
    }
    return Schema(columns=columns, unit=PrivacyUnit("u", contribution=Contribution(groups=2, rows=2)), **options)


def ten_questions(session: Any) -> Iterator[Callable[[], object]]:
    """Questions of one session, by six groupings."""
    yield lambda: session.mean("x", by="g", epsilon=1.0)
    yield lambda: session.median("x", by="g", epsilon=1.0)
    yield lambda: session.count(by="k", epsilon=1.0)
    yield lambda: session.mean("x", by="k", epsilon=1.0)
    yield lambda: session.proportion("yes", True, by="g", epsilon=1.0)
    yield lambda: session.mean("x", epsilon=1.0)
    yield lambda: session.median("x", epsilon=1.0)
    yield lambda: session.table(["g", "k"], epsilon=1.0)
    yield lambda: session.mean("x", by="yes", epsilon=1.0)
    yield lambda: session.count(epsilon=1.0)


def opened(source: Any, schema: Any, **options: Any) -> Any:
    """A session with budget for everything."""
    from discreet import PureDP, Session

    return Session(source, schema, ledger=":memory:", budget=PureDP(99.0), **options)


def few_rows() -> Any:
    """Enough rows to ask every question once."""
    import pyarrow as pa

    return pa.table({"u": [1, 2], "g": ["g1", "g1"], "k": ["k1", "k1"], "yes": [True, False], "x": [1.0, 2.0]})


def plain(path: Path) -> dict[str, float]:
    """DuckDB's own two-level group-by, without limits."""
    import duckdb

    with duckdb.connect() as connection:
        return {"plain": took(lambda: connection.sql(TWO_LEVELS.format(rows=f"'{path}'")).fetchall())}


def questions(path: Path) -> dict[str, float]:
    """The first of ten questions, and all of them."""
    for ask in ten_questions(opened(few_rows(), schema_of())):
        ask()
    first, *others = ten_questions(opened(path, schema_of()))
    seconds = took(first)
    after_first = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    seconds_of_all = seconds + sum(map(took, others))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {"first": seconds, "ten": seconds_of_all, "memory after the first": after_first, "memory": memory}


def spark(path: Path) -> dict[str, float]:
    """Spark's own two-level group-by, the first question, and the mean of those with other groups; once warm."""
    from discreet.core.rows.source import open_source

    engine = open_source(str(path), engine="spark").connection._session
    query = TWO_LEVELS.format(rows=f"parquet.`{path}`")
    engine.sql(query).collect()
    alone = min(took(lambda: engine.sql(query).collect()) for _ in range(3))
    for ask in ten_questions(opened(path, schema_of(), engine="spark")):
        ask()
    first, same, *others = ten_questions(opened(path, schema_of(), engine="spark"))
    seconds = took(first)
    same()
    chosen = [others[place] for place in (0, 2, 3, 5, 6)]  # the first with each other grouping
    return {"plain": alone, "first": seconds, "other groups": sum(map(took, chosen)) / len(chosen)}


def csv(path: Path) -> dict[str, float]:
    """The first mean over a CSV file with one row a person, beside DuckDB's mean of the same column."""
    import duckdb

    from discreet import Bounds, Categories, Contribution, PrivacyUnit, Schema
    from profile_speed import make

    text = path.with_suffix(".csv")
    make(text, CSV_ROWS, 10, "csv units")
    labels = Categories(["north", "south", "east", "west"])
    columns: dict[str, Bounds | Categories] = {
        "x0": Bounds(0, 100, grid=1), "x1": Bounds(0, 1000), "x3": labels, "x8": labels,
    }  # fmt: skip
    schema = Schema(columns=columns, unit=PrivacyUnit("person", contribution=Contribution(total=1)))
    with duckdb.connect() as connection:
        alone = min(took(lambda: connection.sql(f"SELECT avg(x1) FROM '{text}'").fetchall()) for _ in range(3))
    for ask in ten_questions(opened(few_rows(), schema_of())):
        ask()
    return {"plain": alone, "first": min(took(lambda: opened(text, schema).mean("x1", epsilon=1.0)) for _ in range(2))}


def weights(path: Path) -> dict[str, float]:
    """The first mean of rows with weights, beside the mean without them."""
    from discreet import Bounds, Schema
    from discreet.core.schema import Design

    columns = {"x": Bounds(0, 50, grid=0.01), "w": Bounds(1, 100, grid=1)}
    few = few_rows().append_column("w", [[1, 2]])
    weighted = Schema(columns=columns, design=Design(weight="w", weight_high=100))
    seconds = {}
    for name, schema in (("plain", Schema(columns=columns)), ("weighted", weighted)):
        opened(few, schema).mean("x", epsilon=1.0)
        session = opened(path, schema)
        seconds[name] = took(partial(session.mean, "x", epsilon=1.0))
    return seconds


STEPS: dict[str, Step] = {
    "plain": plain, "questions": questions, "spark": spark, "csv": csv, "weights": weights,
}  # fmt: skip


def in_process(step: str, path: Path) -> dict[str, float]:
    """What a step measures, in a process of its own."""
    printed = subprocess.check_output([sys.executable, __file__, "--step", step, "--path", str(path)], text=True)
    return dict(json.loads(printed.splitlines()[-1]))


def of_size(rows: int) -> dict[str, float]:
    """Questions beside the plain group-by."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.parquet")
        make_rows(path, rows)
        times = 5 if rows <= FEW else 1  # a second more or less weighs more where there are few
        alone, asked = (
            min((in_process(step, path) for _ in range(times)), key=lambda one: next(iter(one.values())))
            for step in ("plain", "questions")
        )
    name = f"{rows:,} rows"
    return {
        f"{name}: plain group-by (s)": alone["plain"],
        f"{name}: first question (s)": asked["first"],
        f"{name}: first question / plain": asked["first"] / alone["plain"],
        f"{name}: ten questions (s)": asked["ten"],
        f"{name}: ten questions / first": asked["ten"] / asked["first"],
        f"{name}: ten questions / plain": asked["ten"] / alone["plain"],
        f"{name}: peak memory (GB)": asked["memory"],
    }


def of_others(only: str | None) -> dict[str, float]:
    """CSV, weights and Spark."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        if only in (None, "csv"):
            asked = in_process("csv", Path(folder, "rows"))
            found["CSV: first mean with a limit / DuckDB's mean"] = asked["first"] / asked["plain"]
        if only in (None, "weights"):
            make_rows(Path(folder, "weights.parquet"), WEIGHTED_ROWS)
            asked = in_process("weights", Path(folder, "weights.parquet"))
            found["weights: mean / unweighted mean"] = asked["weighted"] / asked["plain"]
        if only in (None, "spark") and shutil.which("java"):
            make_rows(Path(folder, "spark.parquet"), SPARK_ROWS)
            asked = in_process("spark", Path(folder, "spark.parquet"))
            found["Spark: first question / plain"] = asked["first"] / asked["plain"]
            found["Spark: other groups / plain"] = asked["other groups"] / asked["plain"]
    return found


def lines(figures: dict[str, float]) -> list[str]:
    """The figures as a table with what they may be."""
    table = []
    for name, value in figures.items():
        table.append(f"{name:<55}{value:>10,.3g}{timing.verdict(value, MOST.get(name))}")
    return table


def table(stored: dict[str, float]) -> str:
    """The page's table: sizes in rows, what was measured in columns, and below them the other comparisons."""
    shown = ("first question / plain", "ten questions / first", "ten questions / plain", "peak memory (GB)")
    heads = "| rows | first question ÷ plain | ten questions ÷ first | ten questions ÷ plain | peak memory |"
    found = [heads, "|---:|---:|---:|---:|---:|"]
    for rows in sorted({int(name.split()[0].replace(",", "")) for name in stored if " rows: " in name}):
        first, ten, all_of_plain, memory = (stored[f"{rows:,} rows: {name}"] for name in shown)
        found.append(f"| {rows:,} | {first:.1f} | {ten:.1f} | {all_of_plain:.1f} | {memory:.1f} GB |")
    others = {
        "Spark: first question / plain": f"Spark, one machine, {SPARK_ROWS:,} rows: first question ÷ its group-by",
        "Spark: other groups / plain": "the same: a question with other groups ÷ its group-by",
        "CSV: first mean with a limit / DuckDB's mean": f"CSV, {CSV_ROWS:,} rows: first mean with a limit ÷ DuckDB's",
        "weights: mean / unweighted mean": f"{WEIGHTED_ROWS:,} rows with weights: mean ÷ mean without weights",
    }
    found += ["", "| | |", "|---|---:|"]
    return "\n".join(
        [*found, *(f"| {words} | {stored[name]:.1f} |" for name, words in others.items() if name in stored)]
    )


def main() -> None:
    """Measure, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, action="append")
    parser.add_argument("--only", choices=["csv", "weights", "spark"])
    parser.add_argument("--step", choices=list(STEPS))
    parser.add_argument("--path", type=Path)
    options = parser.parse_args()
    if options.step:
        print(json.dumps(STEPS[options.step](options.path)))
        return
    stored = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for rows in options.rows or (() if options.only else SIZES):
        stored |= of_size(rows)
    stored |= of_others(options.only) if options.only or not options.rows else {}
    RESULTS.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    print("\n".join(lines(stored)))


if __name__ == "__main__":
    main()
