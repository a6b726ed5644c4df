"""Put the stored figures into the README and the comparison page: every table between its two marks.

`python benchmarks/page.py` rewrites both files from `results/`; nothing is measured.
"""

from __future__ import annotations

import re
from pathlib import Path

import accuracy
import compare
import features
import peer

ROOT = Path(__file__).parents[1]
ALONE = ("regression", "tests", "number tests", "experiments", "running", "ledger")
"""What no other library in the comparison does."""
PAGES = (ROOT / "README.md", ROOT / "docs" / "comparison.md")


def tables() -> dict[str, str]:
    """Every table by the name in its mark."""
    found = peer.stored("features")
    return {
        "speed": compare.table(peer.stored("compare")["figures"]),
        "accuracy": accuracy.table(peer.stored("accuracy")),
        "reasons": "\n".join(reasons()),
        "short": features.table(found, features.SHORT),
        **{heading: features.table(found, rows) for heading, rows in features.ROWS.items()},
    }


def reasons() -> list[str]:
    """Three lines with figures that speak for discreet: they open the README."""
    return [noise(), speed(), conclusions()]


def noise() -> str:
    """Errors of a variance, and the cost of many releases."""
    errors = {name: one["tasks"] for name, one in peer.stored("accuracy").items()}
    ours = errors.pop("discreet")["variance"]["rmse"]
    times = {name: one["variance"]["rmse"] / ours for name, one in errors.items() if "variance" in one}
    names = list(times)
    costs = [one["features"]["composition"]["verdict"] for one in peer.stored("features").values()]
    least, *more = sorted(float(cost) for cost in costs if cost != "–")
    return (
        f"- **Less noise.** At the same guarantee, a variance has {min(times.values()):.1f} to "
        f"{max(times.values()):.1f} times the error in {', '.join(names[:-1])} and {names[-1]}.\n"
        f"  A hundred Gaussian releases cost ε = {least:g} together; "
        f"other libraries charge {more[0]:g} to {more[-1]:g}."
    )


def speed() -> str:
    """Seconds of a draw and of a count."""
    figures = peer.stored("compare")["figures"]
    ours, theirs = figures["discreet"], figures["OpenDP"]
    return (
        f"- **Exact and fast.** An exact Laplace draw takes {ours['draw']:.0f} ns in a vector "
        f"({theirs['draw']:,.0f} ns in OpenDP).\n"
        f"  A million rows are counted in 100 groups within {ours['grouped count']:.1g} s."
    )


def conclusions() -> str:
    """What no other library in the comparison does."""
    found = {name: one["features"] for name, one in peer.stored("features").items()}
    others = [one for name, one in found.items() if name != "discreet"]
    if any(one[key]["verdict"] == "yes" for one in others for key in ALONE):
        raise ValueError(f"reasons: another library now has one of {', '.join(ALONE)}. Rewrite the line.")
    return (
        f"- **Valid conclusions.** Of {len(found)} libraries [compared](docs/comparison.md), discreet alone has "
        "regressions with standard errors,\n  tests of tables and of ranks, A/B tests, running totals, and a "
        "budget that outlives a killed process."
    )


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
