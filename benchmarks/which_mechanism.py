"""Which mechanism when: the errors of every way to answer at one guarantee, drawn again and again for the same people.

    python benchmarks/which_mechanism.py    # draws, prints the table, and keeps it in results/which_mechanism.json

Made-up people: wages with a long tail, hours that heap at 40, a rare yes, and a region. Their number is public, so that
every setting is allowed. A way is told by the root of its mean squared error over that of the default, and its bias.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow

from discreet import Bounds, Categories, GaussianDP, Neighbours, PureDP, Schema, Session, release
from discreet.core.guarantee import Guarantee
from discreet.questions import asked

STORED = Path(__file__).parent / "results" / "which_mechanism.json"
REPEATS = 400
REGIONS = ["north", "east", "south", "west", "islands"]
PEOPLE = (100, 2_000)
GUARANTEES: tuple[Guarantee, ...] = (PureDP(0.1), PureDP(1.0), GaussianDP(0.5))
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "mean wage": ("mean", {"column": "wage", "variance": False}),
    "variance of wages": ("variance", {"column": "wage"}),
    "deviation of wages": ("std", {"column": "wage"}),
    "share of a rare yes": ("proportion", {"column": "ill", "label": "yes"}),
    "shares of five regions": ("proportion", {"column": "region"}),
    "wages and hours together": ("covariance_matrix", {"columns": ["wage", "hours"]}),
    "table of regions": ("table", {"columns": "region"}),
}


def people(n: int) -> pyarrow.Table:
    """So many rows."""
    rng = np.random.default_rng(1)
    hours = np.where(rng.random(n) < 0.5, 40, np.clip(rng.normal(32, 11, n), 0, 80)).round()
    return pyarrow.table(
        {
            "wage": np.clip(np.exp(rng.normal(2.9, 0.6, n)), 0, 100).round(),
            "hours": hours,
            "ill": np.where(rng.random(n) < 0.02, "yes", "no"),
            "region": rng.choice(REGIONS, n, p=[0.5, 0.3, 0.15, 0.04, 0.01]),
        }
    )


def schema(n: int) -> Schema:
    """Their declarations, with a public number of rows."""
    return Schema(
        columns={
            "wage": Bounds(0, 100, grid=1, nulls=0),
            "hours": Bounds(0, 80, grid=1, nulls=0),
            "ill": Categories(["yes", "no"], nulls="=no", unknown="=no"),
            "region": Categories(REGIONS, nulls="=north", unknown="=north"),
        },
        neighbours=Neighbours.REPLACE_ONE,
        size=n,
    )


def numbers(released: Any) -> np.ndarray:
    """What is read from a release: of a matrix or a table every entry, of a protected variance its root if asked."""
    found = np.ravel(np.asarray(released.estimate, dtype=float))
    return np.sqrt(np.maximum(found, 0)) if getattr(released.statistic, "rooted", False) else found


def errors(n: int, guarantee: Guarantee, ask: str, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Root mean square error and bias of every way, on the people."""
    declared = schema(n)
    mine = Session(people(n), declared, ledger=":memory:", budget=guarantee)
    usual = asked()[ask](declared, guarantee=guarantee, **settings)
    # The same question at a guarantee that hardly disturbs it tells the truth that every way aims at.
    loose = usual.changed(guarantee=PureDP(1000.0))
    truth = numbers(release(mine.exact(loose), loose.measurement.mechanism, rng=1))
    found = []
    for row in usual.plan().alternatives().rows():
        name, _, value = row["setting"].partition(" = ")
        if not name and row["mechanism"] != usual.measurement.mechanism.name:
            continue
        question = usual.changed(**{name: json.loads(value.replace("'", '"').lower())}) if name else usual
        exact, mechanism = mine.exact(question), question.measurement.mechanism
        rng = np.random.default_rng(2)
        drawn = np.array([numbers(release(exact, mechanism, rng=rng)) for _ in range(REPEATS)])
        moved = drawn - truth
        found.append(
            {
                "way": row["setting"] or "default",
                "rmse": float(np.sqrt((moved**2).mean(axis=0)).max()),
                "bias": float(np.abs(moved.mean(axis=0)).max()),
            }
        )
    return found


def measured() -> list[dict[str, Any]]:
    """Every question at every size and guarantee."""
    found = []
    for title, (ask, settings) in ASKED.items():
        for n in PEOPLE:
            for guarantee in GUARANTEES:
                for row in errors(n, guarantee, ask, settings):
                    found.append({"question": title, "people": n, "guarantee": str(guarantee), **row})
                print(title, n, guarantee, found[-1], flush=True)
    return found


def table(rows: list[dict[str, Any]], people: int = PEOPLE[0]) -> str:
    """The errors of all ways over that of the default, by guarantee."""
    own = [row for row in rows if row["people"] == people]
    heads = list(dict.fromkeys(row["guarantee"] for row in own))
    lines = [f"| question | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|"]
    for title in dict.fromkeys(row["question"] for row in own):
        cells = []
        for head in heads:
            ways = {row["way"]: row["rmse"] for row in own if (row["question"], row["guarantee"]) == (title, head)}
            usual = ways.pop("default")
            cells.append(
                ", ".join(f"{_short(way)} {ways[way] / usual:.2g}" for way in sorted(ways, key=ways.__getitem__))
            )
        lines.append(f"| {title} | {' | '.join(cell or '–' for cell in cells)} |")
    return "\n".join(lines)


def _short(way: str) -> str:
    name, _, value = way.partition(" = ")
    return name if value == "True" else value.strip("'")


def stored() -> list[dict[str, Any]]:
    """What was measured."""
    found: list[dict[str, Any]] = json.loads(STORED.read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    STORED.write_text(json.dumps(measured(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for size in PEOPLE:
        print(f"{size:,} people", table(stored(), size), sep="\n")
