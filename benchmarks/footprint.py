"""What discreet costs before it does anything: the time to import it and the size of a base installation."""

from __future__ import annotations

import statistics
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

import discreet

IMPORT = "import time; start = time.perf_counter(); {}; print(time.perf_counter() - start)"
LIMITS = {"import discreet (s)": 0.3, "base installation as pip leaves it (MiB)": 250}
_MEBIBYTE = 2**20 / 1e6


def measure() -> dict[str, float]:
    """Seconds of an import in a fresh process (median of five) and mebibytes on disk."""
    every_name = f"from discreet import {', '.join(discreet.__all__)}"
    return {
        "import discreet (s)": seconds("import discreet"),
        "import every public name (s)": seconds(every_name),
        "base installation as pip leaves it (MiB)": megabytes(bytecode=True) / _MEBIBYTE,
        "base installation without bytecode (MiB)": megabytes(bytecode=False) / _MEBIBYTE,
    }


def seconds(statement: str) -> float:
    """Median of five fresh processes."""
    command = [sys.executable, "-c", IMPORT.format(statement)]
    return statistics.median(float(subprocess.check_output(command)) for _ in range(5))


def megabytes(*, bytecode: bool) -> float:
    """discreet and all it requires without extras, with or without the bytecode pip compiles."""
    found, waiting = set(), ["discreet"]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            requirements = map(Requirement, distribution(name).requires or ())
            waiting += [r.name for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})]
    installed = [Path(str(file.locate())) for name in found for file in distribution(name).files or ()]
    own = Path(discreet.__file__).parent.rglob("*")  # an editable installation lists no sources
    files = {file for file in [*installed, *own] if file.is_file() and (bytecode or file.suffix != ".pyc")}
    return sum(file.stat().st_size for file in files) / 1e6


def lines(figures: dict[str, float]) -> list[str]:
    """The figures as a table."""
    table = []
    for name, value in figures.items():
        limit = LIMITS.get(name)
        verdict = "" if limit is None else f"  at most {limit:g}: {'met' if value <= limit else 'MISSED'}"
        table.append(f"{name:<55}{value:>12,.3g}{verdict}")
    return table
