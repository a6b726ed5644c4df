"""What each library can do, found out by running it.

Every cell comes from a probe: a small program in `peers/features_….py` that runs in the library's own environment.
Prints the table of the comparison page and keeps the answers in `results/features.json`. A peer that is not installed
is left out; `python benchmarks/features.py OpenDP` asks one library again and keeps what is known of the others.
"""

from __future__ import annotations

from typing import Any

import peer

SCRIPTS = {
    "discreet": "features_discreet",
    "OpenDP": "features_opendp",
    "Tumult Analytics": "features_tumult_analytics",
    "diffprivlib": "features_diffprivlib",
    "PipelineDP": "features_pipelinedp",
}
ROWS = {
    "what can be released": {
        "quantiles": "quantiles",
        "variance": "variance, private number of people",
        "covariance": "covariance matrix",
        "distinct": "number of distinct values",
        "choice": "best of several candidates",
        "bounded": "outputs that stay in their bounds",
        "responses": "randomised response, before collection",
        "models": "machine-learning models",
        "running": "running totals of growing data",
        "synthetic": "synthetic rows",
    },
    "what the data may look like": {
        "many rows": "people with many rows",
        "groups": "groups that are not public",
        "bounds": "bounds found privately",
        "joins": "joins of private tables",
        "engines": "engines",
    },
    "what can be concluded": {
        "planning": "expected error before spending",
        "noise interval": "interval for the noise",
        "population interval": "interval for noise and sampling",
        "regression": "regression with standard errors",
        "tests": "χ² tests on private tables",
        "number tests": "tests of ranks, pairs and distributions",
        "experiments": "A/B tests",
    },
    "what is guaranteed": {
        "guarantees": "guarantees",
        "composition": "ε for 100 Gaussian releases, σ = 10, δ = 10⁻⁶",
        "bounded scale": "scale of bounded Laplace noise, (1, 0.01)",
        "impossible": "outputs whose last bits give a neighbour away, one Laplace draw",
        "awkward": "awkward inputs refused or answered privately",
        "overspending": "budget that stops at its end",
        "ledger": "budget that outlives a killed process",
        "audit": "attacks on its own guarantees",
    },
}

EVERY = {key: words for rows in ROWS.values() for key, words in rows.items()}


def measure() -> dict[str, dict[str, Any]]:
    """For each installed library its version and what its probes found."""
    asked = {name: peer.ask(name, SCRIPTS[name]) for name in peer.wanted(SCRIPTS)}
    found = peer.stored("features") | {name: answer for name, answer in asked.items() if answer is not None}
    return {name: found[name] for name in SCRIPTS if name in found}


def table(found: dict[str, dict[str, Any]], rows: dict[str, str], *, brief: bool = False) -> str:
    """Some of the features as markdown; ``brief`` leaves out what qualifies a verdict."""
    lines = ["| | " + " | ".join(found) + " |", "|---|" + "---|" * len(found)]
    for key, words in rows.items():
        lines.append(f"| {words} | " + " | ".join(cell(one["features"][key], brief) for one in found.values()) + " |")
    return "\n".join(lines)


def cell(answer: dict[str, str], brief: bool = False) -> str:
    """A verdict with its words."""
    verdict, words = answer["verdict"], answer["words"]
    if not words or brief:
        return verdict
    return f"{verdict}: {words}" if verdict in ("yes", "partly", "no") else f"{verdict} ({words})"


def page(found: dict[str, dict[str, Any]]) -> str:
    """All tables, under their headings."""
    return "\n\n".join(f"### {heading.capitalize()}\n\n{table(found, rows)}" for heading, rows in ROWS.items())


def main() -> None:
    """Probe, print and keep the answers."""
    found = measure()
    peer.keep("features", found)
    print(page(found) + "\n\n" + ", ".join(f"{name} {one['version']}" for name, one in found.items()))


if __name__ == "__main__":
    main()
