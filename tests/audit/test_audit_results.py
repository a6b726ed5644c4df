"""Published results of the audit: they add up, every survivor is explained, and the pages show what the files hold."""

import csv
import json
from collections import Counter
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
MUTANTS = json.loads((DOCS / "audit" / "mutants.json").read_text(encoding="utf-8"))
ALARMS = json.loads((DOCS / "audit" / "false_alarms.json").read_text(encoding="utf-8"))
PAGE = (DOCS / "audit.md").read_text(encoding="utf-8")


def test_mutants_add_up():
    states = Counter(one["state"] for one in MUTANTS["list"])
    killed = states["killed by the audit"] + states["killed by tests"]
    assert states.total() == MUTANTS["sampled"] == len({one["name"] for one in MUTANTS["list"]})
    assert (killed, states["killed by the audit"]) == (MUTANTS["killed"], MUTANTS["killed_by_audit"])
    assert (states["survived"], states["equivalent"]) == (MUTANTS["survived"], MUTANTS["equivalent"])
    assert MUTANTS["controls_noticed"] == 0
    assert MUTANTS["sampled"] >= 520
    assert MUTANTS["undecided"] == 0
    assert MUTANTS["rate"] >= 0.98
    assert MUTANTS["audit_rate"] >= 0.85


def test_survivors_are_explained():
    silent = [
        one["name"] for one in MUTANTS["list"] if one["state"] in ("survived", "equivalent") and not one["reason"]
    ]
    assert not silent


def stored(name):
    with (DOCS / "audit" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_page_tells_what_the_files_hold():
    words = " ".join(PAGE.split())
    assert (
        f"{MUTANTS['killed']:,} of {MUTANTS['sampled']:,} were killed, {MUTANTS['killed_by_audit']:,} of them" in words
    )
    assert f"{MUTANTS['mutants']:,} mutants in scope" in words
    assert f"{MUTANTS['rate']:.1%} and {MUTANTS['audit_rate']:.1%}".replace("%", " %") in words
    assert f"{MUTANTS['equivalent']} are equivalent" in words
    assert f"{MUTANTS['survived']} survived" in words
    assert ALARMS["alarms"] == 0
    assert {row["audits"] for row in ALARMS["families"]} == {1000}
    assert f"at most {max(row['at_99_percent'] for row in ALARMS['families'])} of the 10" in words
    assert f"Each of {len(stored('planted_faults'))} known faults" in words
    libraries = stored("other_libraries")
    assert f"runs {len(libraries)} functions" in words
    assert f"{sum(row['verdict'].startswith('refuted') for row in libraries)} functions are refuted" in words
    assert {row["verdict"] for row in stored("deep_run")} == {"holds"}
