"""Slopes of one number on another: by pairs, by moments, by a published mechanism, and without privacy.

    python benchmarks/slopes.py    # draws, prints the table, and keeps it in results/slopes.json

Points lie about y = 0.3 + 0.4x with errors of 0.05, both columns within 0 and 1. Every figure is the median of the
absolute error at ε = 1 under add/remove; the published mechanism has replace-one and slopes known within ± 2.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from numpy.typing import NDArray

from discreet import Bounds, PureDP, Schema, Session
from discreet.questions import SlopeQuestion
from discreet.questions.slope import PairSlopes

Array = NDArray[np.float64]
STORED = Path(__file__).parent / "results" / "slopes.json"
DESIGNS = ((300, 0.05), (300, 0.2), (3000, 0.05))
REPEATS = 1000
SCHEMA = Schema(columns={"x": Bounds(0, 1, grid=1e-6), "y": Bounds(0, 1, grid=1e-6)})
SLOPE, KNOWN, MATCHINGS = 0.4, 2.0, 10


def points(n: int, spread: float, rng: np.random.Generator) -> Array:
    """So many points, with this standard deviation of x."""
    x = np.clip(rng.normal(0.5, spread, n), 0, 1)
    return np.column_stack([x, np.clip(0.3 + SLOPE * x + rng.normal(0, 0.05, n), 0, 1)])


def published(data: Array, epsilon: float, rng: np.random.Generator) -> float:
    """Theil-Sen by the exponential mechanism on matchings (alabi2022), slopes clipped to what is known of them."""
    slopes = []
    for _ in range(MATCHINGS):
        mixed = data[rng.permutation(len(data))]
        half = len(data) // 2
        run, rise = (mixed[:half] - mixed[half : 2 * half]).T
        slopes.append(rise / np.where(run == 0, 1e-12, run))
    known = np.sort(np.clip(np.concatenate(slopes), -KNOWN, KNOWN))
    edges = np.concatenate([[-KNOWN], known, [KNOWN]])
    ranks = np.abs(np.arange(edges.size - 1) - (edges.size - 2) / 2)
    with np.errstate(divide="ignore"):
        weights = np.log(np.diff(edges)) - epsilon / (2 * MATCHINGS) * ranks
    place = int(np.argmax(weights + rng.gumbel(size=weights.size)))
    return float(rng.uniform(edges[place], edges[place + 1]))


def measured(n: int, spread: float) -> dict[str, Any]:
    """Median absolute errors on one design, and of the population interval of pairs how often it held and its width."""
    rng = np.random.default_rng(11)
    question = SlopeQuestion(SCHEMA, "y", on="x", epsilon=1.0)
    of, mechanism = question.measurement.statistic, question.measurement.mechanism
    sampled = question.changed(rows_at_least=n).measurement
    assert isinstance(of, PairSlopes)
    errors: dict[str, list[float]] = {}
    held, widths = [], []
    for repeat in range(REPEATS):
        data = points(n, spread, rng)
        drawn = mechanism.draw(of.histogram(data, str(repeat)), rng=rng)
        wide: Any = sampled.statistic
        low, high = wide.ends(sampled.mechanism.draw(wide.histogram(data, str(repeat)), rng=rng))
        held.append(low <= SLOPE <= high)
        widths.append(high - low)
        table = pyarrow.table({"x": data[:, 0], "y": data[:, 1]})
        session = Session(table, SCHEMA, ledger=":memory:", budget=PureDP(1.0))
        found = {
            "slope": of.shown_value(drawn),
            "regression": session.regression("y", on=["x"], epsilon=1.0).params["x"],
            "alabi2022": published(data, 1.0, rng),
            "least squares without privacy": float(np.polyfit(data[:, 0], data[:, 1], 1)[0]),
        }
        for name, value in found.items():
            errors.setdefault(name, []).append(abs(value - SLOPE))
    medians = {name: float(np.nanmedian(ones)) for name, ones in errors.items()}
    return {
        "people": n,
        "spread": spread,
        "errors": medians,
        "held": float(np.mean(held)),
        "width": float(np.median(widths)),
    }


def stored() -> list[dict[str, Any]]:
    """What was measured."""
    found: list[dict[str, Any]] = json.loads(STORED.read_text(encoding="utf-8"))
    return found


def table(rows: list[dict[str, Any]]) -> str:
    """Errors by design."""
    names = list(rows[0]["errors"])
    shown = [f"`{name}`" if name in ("slope", "regression") else name for name in names]
    lines = [f"| rows | deviation of x | {' | '.join(shown)} |", "|---" * (len(names) + 2) + "|"]
    for row in rows:
        errors = [format(row["errors"][name], ".2g") for name in names]
        lines.append(f"| {row['people']:,} | {row['spread']:g} | {' | '.join(errors)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    found = [measured(*design) for design in DESIGNS]
    STORED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(table(found))
    for one in found:
        print(
            f"{one['people']}, {one['spread']}: held the slope in {100 * one['held']:.1f} %, width {one['width']:.3g}"
        )
