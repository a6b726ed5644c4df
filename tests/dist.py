"""The built wheel: sizes, and a fresh environment for each extra in which a small program must work.

``make dist`` builds and weighs, ``make dist-test`` tries all; ``make dist-test EXTRAS="tables cli"`` tries some.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
LARGEST = 3_000_000
"""Bytes of the wheel."""
ASK = """
from discreet import Bounds, Schema, Session
survey = Session({source}, Schema(columns={{"age": Bounds(18, 100, grid=1)}}), ledger="a.ledger", epsilon=1.0)
print(survey.mean("age", epsilon=0.5))
"""
PLAN = """
from discreet import plan
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms import Laplace
planned = plan(Sensitivity(l1=1.0), Laplace(scale=2.0))
"""
RUN = "import subprocess; subprocess.run(['discreet', {!r}, 'survey.toml'], check=True)\n"
PROGRAMS = {
    "base": """
from discreet import Ledger, PureDP, release
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms import Laplace
with Ledger("a.ledger", PureDP(1.0)) as ledger:
    print(release(Exact(10.0, Sensitivity(l1=1.0)), Laplace(scale=2.0), ledger=ledger), ledger.verify())
""",
    "tables": ASK.format(source="'survey.csv'"),
    "spark": """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", False).getOrCreate()
rows = spark.read.csv("survey.csv", header=True, inferSchema=True)
"""
    + ASK.format(source="rows"),
    "report": PLAN + "from discreet.results.charts import drawing; print(drawing(planned.plot())[:5])",
    "frames": PLAN + "print(planned.to_pandas(), planned.to_polars(), planned.to_arrow())",
    "formats": """
from pathlib import Path
from pyreadstat import write_sav
import pandas
from discreet.plans.convert import convert
write_sav(pandas.DataFrame({"age": [30.0]}), "a.sav")
Path("a.parquet").write_bytes(convert(Path("a.sav")))
"""
    + ASK.format(source="'a.parquet'"),
    "formulas": ASK.format(source="'survey.csv'").replace('mean("age"', 'regression(formula="age ~ I(age > 40)"'),
    "cli": RUN.format("plan"),
    "team": """
from discreet import Ledger, PureDP
from discreet.core.errors import LedgerUnavailable
try:
    Ledger("postgresql://127.0.0.1:1/none", PureDP(1.0))
except LedgerUnavailable as refused:
    print(refused)
else:
    raise SystemExit("there is no such server")
""",
    "tables,report,cli": RUN.format("run"),
    "studio": RUN.format("run")
    + "from pathlib import Path; from discreet.studio.app import studio_server\n"
    + "studio_server(Path('survey.toml')).close_entrance()",
    "all": RUN.format("run"),
}
"""What each line of the README's installation must be able to do, and each extra alone."""


def wheel() -> Path:
    """The wheel of `make dist`."""
    found = sorted((ROOT / "dist").glob("*.whl"))
    if len(found) != 1:
        raise SystemExit("dist/ holds no wheel, or several. Run make dist.")
    return found[0]


def weigh() -> None:
    for file in sorted((ROOT / "dist").iterdir()):
        print(f"{file.name:<45}{file.stat().st_size / 1e6:8.2f} MB")
    if wheel().stat().st_size > LARGEST:
        raise SystemExit(f"the wheel has more than {LARGEST / 1e6:g} MB")


def attempt(extra: str) -> bool:
    """Install the wheel with an extra and nothing else, in a place of its own; run the program of the extra there."""
    with tempfile.TemporaryDirectory() as place:
        start = time.monotonic()
        venv.create(f"{place}/venv", with_pip=True)
        wanted = f"{wheel()}" if extra == "base" else f"{wheel()}[{extra}]"
        pip = [f"{place}/venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, wanted], check=True)
        seconds = time.monotonic() - start
        size = sum(file.stat().st_size for file in Path(place).rglob("*") if file.is_file() and not file.is_symlink())
        for name in ("survey.csv", "survey.toml"):
            shutil.copy(ROOT / "examples" / name, place)
        search = f"{place}/venv/bin{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            [f"{place}/venv/bin/python", "-c", PROGRAMS[extra]], cwd=place, env={**os.environ, "PATH": search},
            check=False, capture_output=True, text=True,
        )  # fmt: skip
        verdict = "works" if done.returncode == 0 else f"FAILED\n{done.stdout}{done.stderr}"
        print(f"{extra:<20}{size / 1e6:6.0f} MB, installed in {seconds:4.0f} s: {verdict}", flush=True)
        return done.returncode == 0


def main() -> None:
    if sys.argv[1:] == ["sizes"]:
        return weigh()
    tried = [attempt(extra) for extra in sys.argv[1:] or PROGRAMS]
    raise SystemExit(not all(tried))


if __name__ == "__main__":
    main()
