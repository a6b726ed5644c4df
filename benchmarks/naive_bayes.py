"""Naive Bayes: everything released at once with box noise, beside one release after another as in holohan2018.

``python benchmarks/naive_bayes.py`` keeps errors of means and variances, and the share of new rows classified right, in
`results/naive_bayes.json`.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from discreet import PureDP
from discreet.mechanisms import BoundedLaplace
from discreet.questions import GaussianNaiveBayes

RESULTS = Path(__file__).parent / "results" / "naive_bayes.json"
FEATURES, CLASSES = (1, 2, 4, 8), (2, 3, 10)
ROWS, NEW, REPEATS = 500, 2000, 20
WAYS: dict[str, Any] = {"at_once": None, "one_by_one": BoundedLaplace}


def main() -> None:
    """Fit both ways to the same rows."""
    found = [cell(features, classes) for features, classes in product(FEATURES, CLASSES)]
    stored = {"rows_per_class": ROWS, "epsilon": 1.0, "repeats": REPEATS, "cells": found}
    RESULTS.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def cell(features: int, classes: int) -> dict[str, Any]:
    """Root mean squared errors in half-widths and their squares, and accuracies, of one setting."""
    kept: dict[str, list[tuple[float, float, float]]] = {way: [] for way in WAYS}
    for repeat in range(REPEATS):
        rng = np.random.default_rng([features, classes, repeat])
        centres, spreads = rng.uniform(-0.5, 0.5, (classes, features)), rng.uniform(0.1, 0.3, (classes, features))
        labels, new = np.repeat(np.arange(classes), ROWS), rng.integers(classes, size=NEW)
        rows, others = (np.clip(rng.normal(centres[one], spreads[one]), -1, 1) for one in (labels, new))
        means, variances = (np.array([f(rows[labels == c], axis=0) for c in range(classes)]) for f in (np.mean, np.var))
        for way, mechanism in WAYS.items():
            model = GaussianNaiveBayes(
                guarantee=PureDP(1.0), bounds=[(-1, 1)] * features, classes=list(range(classes)),
                variance_mechanism=mechanism, rng=repeat,
            ).fit(rows, labels)  # fmt: skip
            errors = (np.mean((model.theta_ - means) ** 2), np.mean((model.var_ - variances) ** 2))
            kept[way].append((*errors, model.score(others, new)))
    told: dict[str, Any] = {"features": features, "classes": classes}
    for way, each in kept.items():
        mean, variance, right = np.mean(each, axis=0)
        told[way] = {"mean": round(mean**0.5, 4), "variance": round(variance**0.5, 4), "right": round(right, 3)}
    print(told, flush=True)
    return told


if __name__ == "__main__":
    main()
