"""Peers: run a script of `peers/` with the interpreter of its library, and keep what it tells."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results"
ENVIRONMENTS = {
    "OpenDP": "opendp-polars",
    "Tumult Analytics": "tumult-analytics",
    "diffprivlib": "diffprivlib",
    "PipelineDP": "pipelinedp",
    "SmartNoise SQL": "smartnoise-sql",
}


def interpreter(name: str) -> Path | None:
    """The interpreter that has a library; None where it is not installed."""
    if name == "discreet":
        return Path(sys.executable)
    environment = HERE.parent / ".venv-peers" / ENVIRONMENTS[name]
    return environment / "bin" / "python" if (environment / ".installed").exists() else None


def ask(name: str, script: str, question: Any = None) -> Any:
    """What the script prints as JSON when it reads the question as JSON; None where the library is not installed."""
    python = interpreter(name)
    if python is None:
        print(f"{name} is not installed and left out", file=sys.stderr)
        return None
    variables = os.environ | {"PYTHONPATH": str(HERE), "PYSPARK_PYTHON": str(python)}
    with tempfile.TemporaryDirectory() as elsewhere:  # some leave files behind
        done = subprocess.run(
            [python, HERE / "peers" / f"{script}.py"],
            input=json.dumps(question),
            env=variables,
            cwd=elsewhere,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return json.loads(done.stdout)


def stored(name: str) -> dict[str, Any]:
    """What an earlier run kept; nothing at first."""
    path = RESULTS / f"{name}.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def wanted(libraries: Iterable[str]) -> list[str]:
    """The libraries named on the command line, or all; what is kept of the others stays."""
    named = sys.argv[1:]
    unknown = [name for name in named if name not in libraries]
    if unknown:
        sys.exit(f"unknown library {unknown[0]!r}; choose from {', '.join(libraries)}")
    return named or list(libraries)


def keep(name: str, record: Any) -> None:
    """Store a record of figures."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
