"""Published results of the audit: they add up, every survivor is explained, and the pages show what the files hold."""

import json
from collections import Counter
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
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


def test_the_page_shows_the_results():
    assert f"{MUTANTS['killed']:,} of {MUTANTS['sampled']:,}" in PAGE
    for row in ALARMS["families"]:
        assert f"| {row['family']} | {row['audits']:,} | {row['alarms']} | {row['at_99_percent']} |" in PAGE
    assert ALARMS["alarms"] == 0
