"""Put the stored figures into the README and the documentation: every table between its two marks.

`python benchmarks/page.py` rewrites the pages from `results/`; nothing is measured. Sentences that quote a figure are
written by hand, and a test compares them with `quoted`.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import accuracy
import beside_published
import compare
import features
import generated
import peer
import private_bounds
import regression
import regression_coverage
import rows
import scale
import slopes
import waits
import which_mechanism

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
RESULTS = Path(__file__).parent / "results"
ERRORS = ("count", "mean", "variance")
"""Errors that the README shows."""
GUIDES = {
    name: DOCS / "howto" / f"{name}.md" for name in ("regression", "number_tests", "profile", "tables", "mechanisms")
}
PAGES = (
    ROOT / "README.md",
    DOCS / "comparison.md",
    DOCS / "explanation" / "intervals.md",
    DOCS / "explanation" / "scale.md",
    *GUIDES.values(),
)
SIZES = {"two groups": 200, "two numbers": 1000, "pairs": 200}
"""Numbers of rows at which the guide shows the power of tests."""


def tables() -> dict[str, str]:
    """Every table by the name in its mark."""
    found = peer.stored("features")
    return {
        "speed": compare.table(peer.stored("compare")["figures"]),
        "accuracy": accuracy.table(peer.stored("accuracy"), accuracy.SHOWN),
        "beside": beside(),
        "features": features.table(
            found, {k: v for rows in features.ROWS.values() for k, v in rows.items()}, brief=True
        ),
        "regression": regression.table(results("regression"), people=(5_000,)),
        "power": power(),
        "bounds": private_bounds.table(),
        "generated": generated.table(generated.stored()),
        "generated, worst": generated.worst(generated.stored()),
        "published": beside_published.table(beside_published.stored()),
        "rows": rows.table(results("rows")),
        "scale": scale.table(results("scale")),
        "slopes": slopes.table(slopes.stored()),
        "waits": waits.table(results("waits")),
        "which": which_mechanism.table(which_mechanism.stored()),
    }


def results(name: str) -> Any:
    """Stored figures of a benchmark."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def power() -> str:
    """How often tests detect an effect, beside published tests, at one number of rows for each effect."""
    lines = ["| effect | rows | test | detected |", "|---|---|---|---|"]
    for one in results("number_tests")["power"]:
        if one["rows"] == SIZES.get(one["setting"].partition(",")[0].partition(" with")[0]):
            rates = {name: rate for name, rate in one.items() if name not in ("setting", "rows")}
            for name, rate in sorted(rates.items(), key=lambda item: -item[1])[:4]:
                ours, comma, edges = name.partition(",")
                shown = name if re.search(r"\d{4}$", name) else f"`{ours}`{comma}{edges}"
                lines.append(f"| {one['setting']} | {one['rows']:,} | {shown} | {100 * rate:.0f} % |")
    return "\n".join(lines)


def quoted() -> Iterator[tuple[Path, str]]:
    """Sentences of the guides that quote stored figures."""
    yield from ((GUIDES["regression"], words) for words in _of_regressions())
    yield from ((GUIDES["number_tests"], words) for words in _of_tests())
    yield from ((GUIDES["tables"], words) for words in _of_tables())
    means = {(row["part"], row["held"]): row["times"] for row in private_bounds.stored()["mean"]["rows"]}
    yield GUIDES["profile"], f"has {means[0.15, 0.999]:.2f} times the error that the best bounds would give"
    yield GUIDES["profile"], f"bounds at 99 % give {means[0.15, 0.99]:.2f} times"


def _of_regressions() -> Iterator[str]:
    slopes = results("regression")
    libraries = ("OpenDP 0.16.0: hours on age", "diffprivlib 0.6.6: hours on age", "hours on age")
    opendp, diffprivlib, ours = (slopes[f"{one}, 5,000 people, ε = 1"]["RMSE of the noise"][0] for one in libraries)
    yield f"has {opendp:.4f} hours per year of noise, diffprivlib's {diffprivlib:.4f}, and discreet's {ours:.4f}"
    cells = results("regression_coverage").values()
    whole = len(regression_coverage.OUTCOMES) * len(regression_coverage.NUMBERS) * len(regression_coverage.PEOPLE)
    yield f"On {whole * len(regression_coverage.GUARANTEES)} settings"
    yield f"was covered {100 * min(min(one['held']) / one['repeats'] for one in cells):.1f} % of the time"
    age, both = (one for one in results("logistic_regression")["methods"] if one["people"] == 5000)
    yield f"have {age['moments']:.2f} (age) and {both['moments']:.2f} (age and education) of the sampling error"
    yield f"objective perturbation has {age['objective perturbation']:.2f} and {both['objective perturbation']:.2f}"
    with gzip.open(DOCS / "studies" / "coverage" / "logistic.csv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    least = min(float(row["coverage"]) for row in rows)
    yield f"In {len(rows)} settings of the"
    yield f"coefficient is covered at least {100 * least:.1f} % of the time"
    rare = [row for row in rows if (row["population"], row["n"]) == ("3 %, number", "300")]
    silent = {row["budget"]: float(row["nothing_said"]) for row in rare}
    yield f"in {100 * silent['5.0']:.0f} % of releases at ε = 5, and in {100 * silent['0.3']:.0f} % at ε = 0.3"


def _of_tests() -> Iterator[str]:
    found = results("number_tests")
    rates = [one["rejected"] for one in found["size"] if "rejected" in one]
    pairs = [one["rejected"] for one in results("paired_tests")["size"]]
    yield f"reject {100 * np.mean(rates):.1f} % of true hypotheses on average over {len(rates)} settings"
    yield f"`signed_rank` {100 * np.mean(pairs):.1f} % over {len(pairs)}"
    cautious = [one["rejected"] for one in found["size"] if one["test"] == "covariance_matrix"]
    yield f"it rejects {100 * np.mean(cautious):.1f} %"
    unrelated = found["tables"][::2]
    worst = max(unrelated, key=lambda one: one["DPrivStats 2026"])
    yield f"A {worst['table']} table of {worst['rows']} rows at ε = {worst['epsilon']:g} is called related"
    yield f"in {100 * worst['independence']:.1f} % of cases by `independence`"
    yield f"says so in {100 * worst['DPrivStats 2026']:.1f} %"


def _of_tables() -> Iterator[str]:
    margins = results("margins")
    covered = {name: one for name, one in margins.items() if name.startswith("coverage from synthetic rows")}
    few = covered.pop("coverage from synthetic rows, 300 rows, μ = 0.3")
    others = [round(100 * share) for one in covered.values() for share in one.values()]
    yield f"only {round(100 * few['slope'])} of 100 intervals of a slope"
    yield f"{min(others)} to {max(others)} of 100 intervals"
    cells = [margins[f"26 margins of five columns, {rows} rows, μ = 1"] for rows in ("500", "100,000")]
    first, last = (100 * one["coverage"] for one in cells)
    yield f"cover {first:.1f} % of the cells with 500 rows and {last:.1f} % with 100,000"
    ours, theirs = results("three_ways").values()
    for name, digits in (("RMSE of a cell", 1), ("absolute error of a table, per row", 3)):
        yield f"{ours[name]:.{digits}f} against {theirs[name]:.{digits}f}"


def beside() -> str:
    """Six facts in which libraries differ, or are alike, for the README."""
    speeds, known, errors = peer.stored("compare")["figures"], peer.stored("features"), peer.stored("accuracy")
    rows = {f"error of a {name}": [_error(errors[one], errors["discreet"], name) for one in speeds] for name in ERRORS}
    rows["a million rows counted in 100 groups (s)"] = [f"{one['grouped count']:.2g}" for one in speeds.values()]
    rows["ε of 100 Gaussian releases, σ = 10, δ = 10⁻⁶"] = [
        known[one]["features"]["composition"]["verdict"] for one in speeds
    ]
    rows["regression with standard errors"] = [known[one]["features"]["regression"]["verdict"] for one in speeds]
    lines = ["| | " + " | ".join(speeds) + " |", "|---|" + "---:|" * len(speeds)]
    return "\n".join([*lines, *(f"| {words} | " + " | ".join(cells) + " |" for words, cells in rows.items())])


def _error(found: Any, ours: Any, name: str) -> str:
    """An error over discreet's; a dash where the library has no such release."""
    return f"{found['tasks'][name]['rmse'] / ours['tasks'][name]['rmse']:.2g}" if name in found["tasks"] else "–"


def filled(text: str) -> str:
    """A page with its tables replaced by what is stored."""

    def table(mark: re.Match[str]) -> str:
        return f"<!-- table: {mark[1]} -->\n\n{tables()[mark[1]]}\n\n<!-- end -->"

    return re.sub(r"<!-- table: ([^>]+) -->.*?<!-- end -->", table, text, flags=re.DOTALL)


def main() -> None:
    """Rewrite the pages."""
    for path in PAGES:
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
