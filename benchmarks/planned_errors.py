"""How well rehearsals hold: every question rehearsed on a scenario, and answered through the door on other rows of it.

Run ``python benchmarks/planned_errors.py``; it stores ``results/planned_errors.json``. A question takes up to a
minute.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from discreet import Bounds, Categories, ExpectedLabels, ExpectedNumbers, PureDP, Scenario, Schema, Session
from discreet.questions import MeasuredQuestion, asked

ROOT = Path(__file__).parents[1]
STORED = ROOT / "benchmarks" / "results" / "planned_errors.json"
SCHEMA = Schema(
    columns={
        "arm": Categories(["old", "new"]),
        "band": Categories(["young", "old"]),
        "spend": Bounds(0, 50, grid=0.5),
        "age": Bounds(10, 90, grid=1),
        "shop": Categories(["east", "west", "north"]),
        "pay": Bounds(
            0, 1000, grid=0.1
        ),  # so fine that intervals of quantiles do not depend on which rows share a point
    }
)
EXPECTED = Scenario(
    rows=4000,
    columns={
        "spend": ExpectedNumbers(by="arm", means=[8.0, 8.6], sd=8.0),
        "age": ExpectedNumbers(mean=40.0, sd=14.0),
        "band": ExpectedLabels(by="arm", shares=[[0.7, 0.3], [0.66, 0.34]]),
    },
)
ASKED: dict[str, dict[str, Any]] = {
    "usable_values": {"columns": ["age", "arm"]},
    "dropped_rows": {"columns": ["age"], "by": ["arm"]},
    "count": {"by": ["arm"]},
    "sum": {"column": "spend", "by": ["arm"]},
    "mean": {"column": "spend", "by": ["arm"]},
    "proportion": {"column": "band", "label": "old", "by": ["arm"]},
    "variance": {"column": "age"},
    "std": {"column": "age"},
    "covariance_matrix": {"columns": ["spend", "age"]},
    "regression": {"column": "spend", "on": ["age", "arm"]},
    "logistic_regression": {"column": "band", "on": ["age", "arm"]},
    "quantile": {"column": "pay", "probabilities": [0.25, 0.5], "by": ["arm"]},
    "histogram": {"column": "age", "edges": [10, 30, 90]},
    "table": {"columns": ["arm", "band"]},
    "tables": {"tables": [["arm"], ["arm", "band"]]},
    "mode": {"column": "shop"},
    "goodness_of_fit": {"column": "band", "probabilities": [0.7, 0.3]},
    "homogeneity": {"column": "band", "by": "arm"},
    "independence": {"columns": ["arm", "band"]},
    "compare_means": {"column": "spend", "by": "arm"},
    "compare_arms": {"column": "spend", "by": "shop"},
}
GUARANTEE = PureDP(1.0)


def rehearsed(name: str, repeats: int, seed: int = 1) -> Any:
    """The rehearsal of a question."""
    session = Session("none.csv", SCHEMA, ledger=":memory:", budget=GUARANTEE)
    return getattr(session.rehearsing(EXPECTED, repeats=repeats, seed=seed), name)(guarantee=GUARANTEE, **ASKED[name])


def realised(name: str, repeats: int, seed: int = 1000) -> Any:
    """What a session's own answers are like, on other rows of the scenario and with noise of the operating system.

    Errors are against the same rows without noise; those of comparisons against the scenario's own difference.
    """
    kind: Any = asked()[name]
    question, sharp = (kind(schema=SCHEMA, guarantee=of, **ASKED[name]) for of in (GUARANTEE, PureDP(200.0)))
    rng = np.random.default_rng(seed)
    each = 40 if isinstance(question, MeasuredQuestion) else 1  # tests and comparisons: new rows for every answer
    errors: dict[str, list[float]] = {}
    widths: dict[tuple[str, str], list[float]] = {}
    pvalues = []
    truths = {"compare_means": {"difference of means": 0.6}, "compare_arms": {"difference of means": 0.0}}.get(name)
    for _ in range(math.ceil(repeats / each)):
        session = Session(EXPECTED.table(SCHEMA, rng), SCHEMA, ledger=":memory:", budget=PureDP(1000.0))
        exact = session.ask(sharp).readings()
        for _ in range(each):
            answer = session.ask(question)
            verdict = answer.verdict() if hasattr(answer, "verdict") else None
            if verdict is not None:
                pvalues.append(float(verdict["pvalue"]))
            for own, true in zip(answer.readings(), exact, strict=True):
                truth = true.estimate if truths is None else truths.get(own.measure, true.estimate)
                off = float(own.estimate != truth) if isinstance(truth, str) else abs(float(own.estimate) - truth)
                errors.setdefault(own.measure, []).append(off)
                for kind in ("noise", "population"):
                    if getattr(own, kind) is not None:
                        widths.setdefault((own.measure, kind), []).append(getattr(own, kind).width)
    return errors, {place: float(np.mean(found)) for place, found in widths.items()}, pvalues


def compared(name: str, repeats: int) -> list[dict[str, Any]]:
    """One row per measure of a question: planned, realised, and the standard error of their ratio from both runs."""
    plan, (errors, widths, pvalues) = rehearsed(name, repeats), realised(name, repeats)
    rows = []
    for one in plan.measures:
        own = np.array(errors[one.measure])
        chosen = name == "mode"
        found = float(own.mean() if chosen else np.quantile(own, 0.95, method="higher"))
        # The error of a 95 % quantile by the spread of its neighbours: 1.96 standard errors of a share to either side.
        reach = 1.96 * math.sqrt(0.95 * 0.05 / own.size)
        low, high = np.quantile(own, [0.95 - reach, min(0.95 + reach, 1.0)])
        spread = 0.0 if chosen or found == 0 else float(high - low) / 3.92 / found
        rows.append(
            {
                "ask": name,
                "measure": one.measure,
                "planned": one.error,
                "realised": found,
                "ratio_error": math.sqrt(2) * spread,
                "noise_width": [one.noise_width, widths.get((one.measure, "noise"))],
                "population_width": [one.population_width, widths.get((one.measure, "population"))],
                "power": [plan.power, float(np.mean(np.array(pvalues) <= 0.05))] if pvalues else None,
                "answers": len(own),
                "repeats": repeats,
            }
        )
    return rows


def main() -> None:
    """Measure, store and show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("questions", nargs="*")
    parser.add_argument("--repeats", type=int, default=600)
    given = parser.parse_args()
    names = given.questions or [name for name in ASKED if asked()[name].rehearsed]
    stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else []
    for name in names:
        stored = [row for row in stored if row["ask"] != name] + compared(name, given.repeats)
        ordered = sorted(stored, key=lambda row: list(ASKED).index(row["ask"]))
        STORED.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(name, flush=True)


if __name__ == "__main__":
    main()
