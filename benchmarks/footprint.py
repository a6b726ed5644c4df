"""What discreet costs before it does anything: the time to import it and the size of an installation."""

from __future__ import annotations

import statistics
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

import discreet
import timing

IMPORT = "import time; start = time.perf_counter(); {}; print(time.perf_counter() - start)"
LIMITS = {"import discreet (s)": 0.3, "base installation as pip leaves it (MiB)": 250}
README = ("studio",)
"""The extras of the README's install line."""
_MEBIBYTE = 2**20 / 1e6


def measure() -> dict[str, float]:
    """Seconds of an import in a fresh process (median of five) and mebibytes on disk."""
    every_name = f"from discreet import {', '.join(discreet.__all__)}"
    return {
        "import discreet (s)": seconds("import discreet"),
        "import every public name (s)": seconds(every_name),
        "base installation as pip leaves it (MiB)": megabytes(bytecode=True) / _MEBIBYTE,
        "base installation without bytecode (MiB)": megabytes(bytecode=False) / _MEBIBYTE,
        "installation of the README, with bytecode (MB)": megabytes(bytecode=True, extras=README),
    }


def seconds(statement: str) -> float:
    """Median of five fresh processes."""
    command = [sys.executable, "-c", IMPORT.format(statement)]
    return statistics.median(float(subprocess.check_output(command)) for _ in range(5))


def megabytes(*, bytecode: bool, extras: tuple[str, ...] = ()) -> float:
    """discreet and all it requires with these extras, with or without the bytecode pip compiles."""
    found, waiting = set(), ["discreet"]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            requirements = map(Requirement, distribution(name).requires or ())
            chosen = ("", *extras) if name == "discreet" else ("",)
            waiting += [one.name for one in requirements if needed(one, chosen)]
    installed = [Path(str(file.locate())) for name in found for file in distribution(name).files or ()]
    own = Path(discreet.__file__).parent.rglob("*")  # an editable installation lists no sources
    files = {file for file in [*installed, *own] if file.is_file() and (bytecode or file.suffix != ".pyc")}
    return sum(file.stat().st_size for file in files) / 1e6


def needed(requirement: Requirement, extras: tuple[str, ...]) -> bool:
    """Whether one of the extras (or none, `""`) asks for it here."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)


def lines(figures: dict[str, float]) -> list[str]:
    """The figures as a table."""
    table = []
    for name, value in figures.items():
        table.append(f"{name:<55}{value:>12,.3g}{timing.verdict(value, LIMITS.get(name))}")
    return table
