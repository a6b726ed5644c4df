"""What a person waits for: first answers, plans, the studio, intervals and ledgers, beside the least they could take.

    python benchmarks/waits.py        # all of them, printed and stored

Seconds, the best of several, so that others at work on the machine weigh little. Processes are timed from their start
to their end. OpenDP is left out where it is not installed; the comparison page has the command that installs it.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import compare
import timing

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "waits.json"
PLAN = HERE.parent / "examples" / "survey.toml"
ENTRIES, TIMES = 100_000, 9
BESIDE = "import duckdb, numpy; print(duckdb.sql(\"SELECT count(*) FROM read_csv('{}')\").fetchone()[0] + numpy.e)"
MOST = {
    "first count of a CSV": 0.35,
    "discreet plan": 0.35,
    "plan of a median at a new ε": 0.03,
    "ten questions in the studio": 0.1,
    "logistic regression's interval": 0.03,
    f"opening a ledger of {ENTRIES:,} entries": 0.5,
    f"verifying {ENTRIES:,} entries": 0.5,
}


def of_process(*command: str) -> float:
    """Seconds of a program, from its start to its end."""
    taken = []
    for _ in range(TIMES):
        with tempfile.TemporaryDirectory() as empty:
            start = time.perf_counter()
            subprocess.run(command, cwd=empty, check=True, stdout=subprocess.DEVNULL)
            taken.append(time.perf_counter() - start)
    return min(taken)


def of_call(call: Callable[[int], object], times: int = TIMES) -> float:
    """Seconds of a call, which is told how often it was called before."""
    taken = []
    for number in range(times):
        start = time.perf_counter()
        call(number)
        taken.append(time.perf_counter() - start)
    return min(taken)


def programs() -> Iterator[tuple[str, float]]:
    """Programs that start, answer and end."""
    survey = str(compare.SURVEY)
    yield "first count of a CSV", of_process(sys.executable, "-c", compare.OURS, survey)
    yield "the same: numpy and DuckDB, without privacy", of_process(sys.executable, "-c", BESIDE.format(survey))
    opendp = compare.ENVIRONMENTS / "opendp"
    if (opendp / ".installed").exists():
        script = str(HERE / "peers" / "first_count_opendp.py")
        yield "the same: OpenDP", of_process(str(opendp / "bin" / "python"), script, survey)
    own = str(Path(sys.executable).with_name("discreet"))
    yield "discreet plan", of_process(own, "plan", str(PLAN))
    yield "the same: discreet --help", of_process(own, "--help")


def medians() -> Callable[[int], object]:
    """Plans of a median, each at an ε that was not planned before."""
    from discreet import Bounds, PureDP, Schema, Session

    session = Session(
        {"age": [40]}, Schema(columns={"age": Bounds(18, 100, grid=1)}), ledger=":memory:", budget=PureDP(1)
    )
    session.plan.median("age", epsilon=0.5, expected_rows=4000)
    return lambda number: session.plan.median("age", epsilon=0.1 + number / 97, expected_rows=4000)


def studio(folder: Path) -> Callable[[int], object]:
    """A draft of ten questions, five medians among them, of which one gets another ε."""
    from discreet.studio.desk import drafted
    from discreet.studio.plan_pages import live_view

    head = (
        f"[source]\npath = {json.dumps(str(compare.SURVEY))}\n[budget]\nepsilon = 9.0\n"
        "[schema.columns.age]\nlow = 18\nhigh = 100\ngrid = 1\n"
    )
    asks = ["mean", "sum", "variance", "std", "median", "median", "median", "median", "median"]

    def text(number: int) -> str:
        lines = [head, "[[release]]", "name = 'r'", "ask = 'count'", f"epsilon = {0.1 + number / 97}"]
        for place, ask in enumerate(asks):
            epsilon = 0.1 + place / 89 + number / 97
            lines += ["[[release]]", f"name = 'r{place}'", f"ask = '{ask}'", "column = 'age'"]
            lines += [f"epsilon = {epsilon}", *(["expected_rows = 4000"] if ask == "median" else [])]
        return "\n".join(lines)

    def replanned(number: int) -> object:
        view = live_view(drafted(text(number), folder / "plan.toml"))
        if not view["sound"]:
            raise RuntimeError(view)
        return view

    replanned(-1)
    return replanned


def ledger(folder: Path) -> Iterator[tuple[str, float]]:
    """A ledger of many entries, opened and verified, beside the hash of its bytes."""
    from discreet import PureDP
    from discreet.core.protection import Protection
    from discreet.results.ledger import Ledger

    path = folder / "many.ledger"
    with patch("os.fsync"), Ledger(path, PureDP(1000.0)) as many:  # 100,000 flushes take minutes
        for _ in range(ENTRIES - 1):
            many.reserve(
                PureDP(0.001), question={"ask": "count"}, mechanism={"name": "laplace", "scale": 1000.0},
                sensitivity={"l1": 1.0}, protection=Protection(),
            )  # fmt: skip
    Ledger(path).close()
    with Ledger(path) as many:
        yield f"opening a ledger of {ENTRIES:,} entries", of_call(lambda _: Ledger(path).close())
        yield f"verifying {ENTRIES:,} entries", of_call(lambda _: many.verify(), 3)
    yield "the same: SHA-256 of its bytes", of_call(lambda _: hashlib.sha256(path.read_bytes()).digest())


def intervals() -> float:
    """The population interval of a logistic regression of 5,000 made-up people; each regression has one."""
    import numpy as np
    import pandas as pd

    from discreet import Bounds, Categories, PureDP, Schema, Session

    rng = np.random.default_rng(1)
    age = rng.integers(18, 101, 5000)
    rows = pd.DataFrame({"age": age, "yes": rng.random(5000) < 1 / (1 + np.exp(2 - age / 30))})
    schema = Schema(columns={"age": Bounds(18, 100, grid=1), "yes": Categories([False, True])})
    session = Session(rows, schema, ledger=":memory:", budget=PureDP(99))
    fits = [session.logistic_regression("yes", "age", epsilon=1.0, name=f"{n}") for n in range(TIMES)]
    return of_call(lambda number: fits[number].conf_int())


def measure() -> Iterator[tuple[str, float]]:
    """Everything, in one run."""
    yield from programs()
    with tempfile.TemporaryDirectory() as folder:
        yield "plan of a median at a new ε", of_call(medians())
        yield "ten questions in the studio", of_call(studio(Path(folder)))
        yield "logistic regression's interval", intervals()
        yield from ledger(Path(folder))


def table(stored: dict[str, float]) -> str:
    """The page's table."""
    rows = [f"| {name} | {seconds:.2g} s |" for name, seconds in stored.items()]
    return "\n".join(["| | time |", "|---|---:|", *rows])


def main() -> None:
    """Measure, print and store."""
    found = {}
    for name, seconds in measure():
        found[name] = seconds
        print(f"{name:<50}{seconds:>9.3f} s{timing.verdict(seconds, MOST.get(name))}", flush=True)
    RESULTS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
