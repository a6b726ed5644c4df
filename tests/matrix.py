"""The suite on every Python from 3.11 on, with locked and with newest dependencies, under settings that differ.

``make matrix`` runs all of it; ``make matrix PYTEST_ARGS="tests/core/test_ledger.py"`` runs part of the suite
everywhere.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACE = ROOT / ".venv-matrix"
VERSIONS = [f"3.{minor}" for minor in range(11, 20)]
SETTINGS: dict[str, tuple[list[str], dict[str, str]]] = {
    "as it is": ([], {}),
    "hash seed 1, LC_ALL=C": ([], {"PYTHONHASHSEED": "1", "LC_ALL": "C"}),
    "hash seed 2, Latin-1": ([], {"PYTHONHASHSEED": "2", "PYTHONIOENCODING": "latin-1"}),
    # Asserts in tests vanish, too: this finds code that relies on one, and tests that say so raise.
    "python -O": (["-O"], {}),
}


def interpreters() -> Iterator[tuple[str, str]]:
    """Version and path of every interpreter that works; a version manager's shim may not."""
    for version in VERSIONS:
        found = shutil.which(f"python{version}") or ""
        places = [found, *map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))]
        for place in filter(None, places):
            told = subprocess.run([place, "-c", "import sys; print(sys.version)"], capture_output=True, text=True)
            if told.returncode == 0 and told.stdout.startswith(version):
                yield version, place
                break


def environment(version: str, interpreter: str, dependencies: str) -> Path:
    """A virtual environment with locked or newest dependencies; made once."""
    place = PLACE / f"{version}-{dependencies}"
    python = place / "bin" / "python"
    if not (place / "ready").exists():
        subprocess.run([interpreter, "-m", "venv", "--clear", str(place)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--upgrade", "pip"], check=True)
        if dependencies == "locked":
            subprocess.run([*pip, "--requirement", "requirements/lock.txt"], check=True, cwd=ROOT)
            subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--editable", "."], check=True, cwd=ROOT)
        else:
            subprocess.run([*pip, "--upgrade", "--group", "dev", "--editable", ".[all]"], check=True, cwd=ROOT)
        (place / "ready").touch()
    return python


def main() -> None:
    failed = []
    for version, interpreter in interpreters():
        for dependencies in ("locked", "newest"):
            try:
                python = environment(version, interpreter, dependencies)
            except subprocess.CalledProcessError as failure:
                failed.append(f"{version}, {dependencies}: not installed ({failure.returncode})")
                continue
            for setting, (flags, variables) in SETTINGS.items():
                name = f"Python {version}, {dependencies} dependencies, {setting}"
                print(f"== {name}", flush=True)
                command = [str(python), *flags, "-m", "pytest", "-q", "-n", "auto", "--dist", "loadgroup"]
                quiet = ["-W", "ignore::pytest.PytestConfigWarning"] if flags else []  # asserts are off: we know
                done = subprocess.run(
                    [*command, *quiet, *sys.argv[1:]], cwd=ROOT, env={**os.environ, **variables}, check=False
                )
                if done.returncode:
                    failed.append(name)
    print("\n".join(["", *(f"failed: {name}" for name in failed)]) if failed else "\nall passed")
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
