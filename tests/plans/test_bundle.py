"""Review, approval and bundle of a plan: what is signed, and that every change of a bundle is refused at its place."""

import copy
import hashlib
import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from discreet.cli.main import main
from discreet.core.errors import NotApproved
from discreet.core.ledger.journal import ROOT, chained
from discreet.plans.bundle import signed_content, verify_bundle, write_bundle
from discreet.plans.job import Job
from discreet.plans.plan_file import differences
from discreet.plans.review import KeyPair, new_key, review, signer

PLAN = """
title = "Ages"
period = "{month}"
times = 12

[source]
path = "people.csv"

[ledger]
path = "people.ledger"

[ledger.approvals]
need = 2
[ledger.approvals.keys]
officer = "OFFICER"
owner = "OWNER"

[budget]
epsilon = 50.0

[schema.columns.age]
low = 0
high = 120
nulls = "drop"
source = "Nobody is older than 120."

[schema.columns.region]
categories = ["north", "south"]
nulls = "drop"
unknown = "drop"
source = "The list of regions is law."

[[release]]
name = "people"
ask = "count"
by = ["region"]
epsilon = 1.0

[[release]]
name = "age"
title = "Mean age"
ask = "mean"
column = "age"
variance = true
epsilon = 1.0

[[release]]
name = "median"
ask = "median"
column = "age"
epsilon = 1.0

[[release]]
name = "shares"
ask = "goodness_of_fit"
column = "region"
probabilities = [0.5, 0.5]
epsilon = 1.0
"""
PERIOD = "2026-11"


class Office:
    """A plan, its data, and the keys of two people."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.plan = folder, folder / "plan.toml"
        self.keys = {name: new_key(name, f"secret of {name}", folder / "home") for name in ("officer", "owner")}
        self.stranger = new_key("stranger", "secret of stranger", folder / "home")
        text = PLAN.replace("OFFICER", self.keys["officer"].public).replace("OWNER", self.keys["owner"].public)
        self.plan.write_text(text)
        rows = [f"{'north' if number % 3 else 'south'},{20 + number % 60}" for number in range(900)]
        (folder / "people.csv").write_text("\n".join(["region,age", *rows]) + "\n")

    def approve(self, *names: str) -> None:
        job = Job(self.plan, period=PERIOD)
        with job.ledger(write=True) as ledger:
            for name in names:
                ledger.approve(job.meaning(ledger), by=name, sign=self.sign(self.keys[name]))

    def sign(self, key: KeyPair) -> Callable[[bytes], bytes]:
        return signer(key.path, f"secret of {key.name}")

    def bundle(self, name: str = "ages.bundle") -> Path:
        owner = self.keys["owner"]
        return write_bundle(
            self.plan, self.folder / name, by="owner", public=owner.public, sign=self.sign(owner), period=PERIOD
        )


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Office:
    made = Office(tmp_path_factory.mktemp("office"))
    made.approve("officer", "owner")
    Job(made.plan, period=PERIOD).run()
    return made


@pytest.fixture(scope="module")
def whole(office: Office) -> dict[str, Any]:
    return json.loads(office.bundle().read_text())


def test_a_plan_runs_only_when_enough_people_approved_exactly_it(tmp_path: Path) -> None:
    office = Office(tmp_path)
    office.approve("officer")
    (tmp_path / "people.csv").rename(tmp_path / "away.csv")  # it is refused before any data is read
    with pytest.raises(NotApproved, match="1 of the 2"):
        Job(office.plan, period=PERIOD).run()
    (tmp_path / "away.csv").rename(tmp_path / "people.csv")
    office.approve("owner")
    text = office.plan.read_text()
    office.plan.write_text(text.replace("high = 120", "high = 110"))
    with pytest.raises(NotApproved, match=r"high: 120\.0 is now 110\.0"):
        Job(office.plan, period=PERIOD).run()
    office.plan.write_text(text.replace('"Ages"', '"Ages of people"') + "\n# words are no part of the meaning\n")
    assert Job(office.plan, period=PERIOD).run().drawn == 4
    assert Job(office.plan, period=PERIOD).run().drawn == 0
    assert Job(office.plan, period="2026-12").run().drawn == 4  # the same plan in the next month is a new release


def test_whether_a_source_changed_is_told_to_its_owner_alone(tmp_path: Path, capsys) -> None:
    """A run that repeats stored answers costs nothing, so it must not tell anything about the rows either."""
    office = Office(tmp_path)
    office.approve("officer", "owner")

    def told(period: str) -> str:
        main(["run", str(office.plan), "--period", period, "--check-source", "--log", str(tmp_path / "log")])
        return capsys.readouterr().out

    assert Job(office.plan, period="2026-10").run().warnings == ()
    assert "the one of 2026-10: nothing in it changed" in told(PERIOD)
    first = Job(office.plan, period=PERIOD).run()
    assert "the one that the releases were made of" in told(PERIOD)
    before = first.results.read_bytes()
    (tmp_path / "people.csv").write_text((tmp_path / "people.csv").read_text() + "north,50\n")
    again = Job(office.plan, period=PERIOD).run()
    assert again.warnings == first.warnings == ()
    assert again.results.read_bytes() == before  # dated as it was released, whenever it is printed
    assert "changed after these answers were released" in told(PERIOD)
    (tmp_path / "people.csv").write_text((tmp_path / "people.csv").read_text() + "north,50,1\n")
    with pytest.raises(SystemExit):
        told(PERIOD)
    assert "has 3 fields, not 2" in capsys.readouterr().err
    assert not (tmp_path / "log").exists()


def test_a_review_says_what_changed_and_what_has_no_source(office: Office, tmp_path: Path) -> None:
    found = review(office.plan, period=PERIOD)
    assert found.changes == ()
    assert found.unsourced == ()
    assert "given by officer, owner" in found.approvals
    assert [one for one, answer in found.checklist if answer is None]
    assert "<script" not in found.to_html()
    text = (
        office.plan.read_text()
        .replace('source = "Nobody is older than 120."', "")
        .replace("epsilon = 50.0", "rho = 1.0")
    )
    other = tmp_path / "plan.toml"
    other.write_text(text.replace("epsilon = 1.0", "rho = 0.1").replace("people.ledger", "other.ledger"))
    changed = review(other, period=PERIOD)
    assert changed.unsourced == ("age",)
    assert changed.changes is None  # this ledger never had an approved plan


def test_differences_are_told_by_meaning() -> None:
    before = {
        "schema": {"size": None},
        "questions": {"a": {"question": {"ask": "count"}, "guarantee": {"kind": "pure", "epsilon": 1.0}}},
    }
    after = copy.deepcopy(before)
    after["questions"]["b"] = after["questions"].pop("a")
    after["schema"]["size"] = 10
    assert differences(before, after) == [
        "schema.size: 10 is new.",
        "release 'b' is new: count for ε = 1.",
        "release 'a' is gone.",
    ]


def test_a_whole_bundle_passes(office: Office) -> None:
    found = verify_bundle(office.bundle("again.bundle"))
    assert found.refused == ()
    assert len(found.checked) == 9
    assert found.unknown


def test_answers_of_other_plans_are_kept_back(tmp_path: Path) -> None:
    office = Office(tmp_path)
    office.approve("officer", "owner")
    Job(office.plan, period="2026-10").run()
    Job(office.plan, period=PERIOD).run()
    bundle = office.bundle()
    content = json.loads(bundle.read_text())
    assert sum("digest" in entry for entry in content["ledger"]) == 4
    assert verify_bundle(bundle).passed


# -- tampering ----------------------------------------------------------------------------------------------

Change = Callable[[dict[str, Any]], None]


def at(*path: str | int, value: Any) -> Change:
    """Put another value at a place."""

    def change(bundle: dict[str, Any]) -> None:
        target: Any = bundle
        for step in path[:-1]:
            target = target[step]
        assert target[path[-1]] != value
        target[path[-1]] = value

    return change


def moved(*path: str | int, by: float = 1.0) -> Change:
    """Add to a number at a place."""

    def change(bundle: dict[str, Any]) -> None:
        target: Any = bundle
        for step in path[:-1]:
            target = target[step]
        target[path[-1]] += by

    return change


def worded(*path: str | int, old: str, new: str) -> Change:
    """Write other words in a text."""

    def change(bundle: dict[str, Any]) -> None:
        target: Any = bundle
        for step in path[:-1]:
            target = target[step]
        assert old in target[path[-1]]
        target[path[-1]] = target[path[-1]].replace(old, new)

    return change


def entry(kind: str, which: int = 0) -> Callable[[dict[str, Any]], int]:
    return lambda bundle: [n for n, one in enumerate(bundle["ledger"]) if one["kind"] == kind][which]


def in_body(kind: str, old: str, new: str, *, rehash: bool, which: int = 0) -> Change:
    """Change an entry of the ledger, perhaps with all later hashes and the report's head computed anew."""

    def change(bundle: dict[str, Any]) -> None:
        place = entry(kind, which)(bundle)
        assert old in bundle["ledger"][place]["body"]
        bundle["ledger"][place]["body"] = bundle["ledger"][place]["body"].replace(old, new)
        if rehash:
            rehashed(bundle)

    return change


def rehashed(bundle: dict[str, Any]) -> None:
    head, printed = ROOT, bundle["results"]["facts"]["privacy"]["head"]
    for number, one in enumerate(bundle["ledger"], start=1):
        old, one["seq"] = one["hash"], number
        head = one["hash"] = chained(head, number, one["kind"], one["body"])
        if old == printed:
            bundle["results"]["facts"]["privacy"]["head"] = head


def without(kind: str, *, rehash: bool, which: int = 0) -> Change:
    def change(bundle: dict[str, Any]) -> None:
        del bundle["ledger"][entry(kind, which)(bundle)]
        if rehash:
            rehashed(bundle)

    return change


def swapped(bundle: dict[str, Any]) -> None:
    made = bundle["results"]["releases"]
    made["people"], made["age"] = made["age"], made["people"]


def older(bundle: dict[str, Any]) -> None:
    """Put the state of the ledger before the last answer in its place."""
    bundle["ledger"].pop()


def sealed_spend(bundle: dict[str, Any]) -> None:
    place = entry("spend")(bundle)
    bundle["ledger"][place]["digest"] = "0" * 64
    del bundle["ledger"][place]["body"]


F, R = ("results", "facts"), ("results", "releases")
TAMPERED: dict[str, tuple[Change, str]] = {
    "value of a count": (moved(*R, "people", "value", 0), "release 'people', value 1"),
    "value of a mean": (moved(*R, "age", "value", 0), "release 'age', value 1"),
    "swapped releases": (swapped, "release 'people'"),
    "noise scale": (at(*R, "age", "mechanism", "scale", value=0.5), "release 'age', mechanism, scale"),
    "claimed guarantee": (at(*R, "age", "guarantee", "epsilon", value=0.01), "release 'age', guarantee, epsilon"),
    "sensitivity": (at(*R, "age", "sensitivity", "l1", value=0.5), "release 'age', sensitivity, l1"),
    "release id": (at(*R, "age", "release_id", value="0" * 32), "release 'age', release_id"),
    "simulated stamp": (at(*R, "age", "simulated", value=True), "release 'age', simulated"),
    "protection": (at(*R, "age", "protection", "neighbours", value="replace_one"), "release 'age', protection"),
    "a release removed": (lambda b: b["results"]["releases"].pop("age"), "results"),
    "a release added": (lambda b: b["results"]["releases"].update(more=b["results"]["releases"]["age"]), "'more'"),
    "printed estimate": (
        moved(*F, "releases", 0, "readings", 0, "estimate"),
        "report, releases 1, readings 1, estimate",
    ),
    "moved interval, noise": (moved(*F, "releases", 0, "readings", 0, "noise", "low"), "readings 1, noise, low"),
    "moved interval, population": (
        moved(*F, "releases", 1, "readings", 0, "population", "high"),
        "report, releases 2, readings 1, population, high",
    ),
    "narrowed by a millionth": (moved(*F, "releases", 1, "readings", 0, "noise", "high", by=-1e-6), "noise, high"),
    "p-value": (moved(*F, "releases", 3, "test", "pvalue", by=-0.04), "report, releases 4, test, pvalue"),
    "label": (at(*F, "releases", 0, "readings", 0, "label", value="east"), "report, releases 1, readings 1, label"),
    "title of a release": (at(*F, "releases", 1, "title", value="Mean income"), "report, releases 2, title"),
    "printed budget": (at(*F, "privacy", "budget", "epsilon", value=0.1), "report, privacy, budget, epsilon"),
    "printed spending": (at(*F, "privacy", "spent", "epsilon", value=0.1), "report, privacy, spent, epsilon"),
    "what an attacker learns": (at(*F, "privacy", "protects", value="Nothing."), "report, privacy, protects"),
    "printed head": (at(*F, "privacy", "head", value="0" * 64), "head"),
    "plan in the report": (worded(*F, "plan", old="120", new="110"), "report, plan"),
    "bounds in the plan": (worded("plan", "text", old="high = 120", new="high = 110"), "no payment for this question"),
    "budget in the plan": (worded("plan", "text", old="epsilon = 50.0", new="epsilon = 5.0"), "plan: its budget"),
    "rule in the plan": (worded("plan", "text", old="need = 2", new="need = 1"), "plan: its rule on approvals"),
    "source sentence in the plan": (worded("plan", "text", old="is law", new="was guessed"), "approved meaning"),
    "epsilon of a release in the plan": (
        worded("plan", "text", old="variance = true\nepsilon = 1.0", new="variance = true\nepsilon = 2.0"),
        "release 'age'",
    ),
    "another period": (at("plan", "period", value="2026-12"), "no payment"),
    "another source": (at("plan", "source", "place", value="other.csv"), "approved meaning"),
    "the report's date": (at(*F, "created", value="2030-01-01T00:00:00+00:00"), "report, created"),
    "a cut ledger": (older, "head"),
    "a spend removed": (without("spend", rehash=False), "entry"),
    "a spend removed, hashes anew": (without("spend", rehash=True), "ledger"),
    "an approval removed, hashes anew": (without("approval", rehash=True), "entry"),
    "a spend made cheaper": (in_body("spend", '"epsilon":1.0', '"epsilon":0.1', rehash=False), "hash"),
    "a spend made cheaper, hashes anew": (in_body("spend", '"epsilon":1.0', '"epsilon":0.1', rehash=True), "entry"),
    "an answer changed in the ledger": (
        in_body("answer", '"simulated":false', '"simulated":true', rehash=False),
        "hash",
    ),
    "an approval moved to another plan": (in_body("approval", '"high":120.0', '"high":110.0', rehash=True), "entry"),
    "a rule made weaker, hashes anew": (in_body("open", '"need":2', '"need":1', rehash=True), "entry"),
    "a budget raised, hashes anew": (
        in_body("open", '"allowance":["50"]', '"allowance":["500"]', rehash=True),
        "entry",
    ),
    "a spend kept back": (sealed_spend, "only answers"),
    "report.md": (worded("files", "report.md", old="Mean age", new="Mean income"), "report.md"),
    "report.html": (worded("files", "report.html", old="Mean age", new="Mean income"), "report.html"),
    "a later date": (at("created", value="2030-01-01T00:00:00+00:00"), "signature"),
    "signer's name": (at("signed", "by", value="officer"), "signature"),
    "no signature": (at("signature", value=""), "signature"),
    "another format": (at("format", value=9), "format"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_changed_bundle_is_refused_at_its_place(whole: dict[str, Any], tmp_path: Path, name: str) -> None:
    change, place = TAMPERED[name]
    bundle = copy.deepcopy(whole)
    change(bundle)
    target = tmp_path / "changed.bundle"
    target.write_text(json.dumps(bundle))
    found = verify_bundle(target)
    assert not found.passed
    assert any(place in line for line in found.refused), found.refused


def test_enough_kinds_of_changes_are_tried() -> None:
    assert len(TAMPERED) >= 40


@pytest.mark.parametrize("name", [name for name in TAMPERED if name not in ("a later date", "another format")])
def test_a_signature_does_not_make_a_changed_bundle_right(office: Office, whole, tmp_path: Path, name: str) -> None:
    """Whoever may sign cannot change what the ledger holds; of what it holds, everything is compared."""
    bundle = copy.deepcopy(whole)
    TAMPERED[name][0](bundle)
    owner = office.keys["owner"]
    bundle["signed"] = {"by": "owner", "key": owner.public}
    bundle["signature"] = office.sign(owner)(signed_content(bundle)).hex()
    target = tmp_path / "changed.bundle"
    target.write_text(json.dumps(bundle))
    same = name in ("signer's name", "no signature")  # signed anew, these are whole again
    assert verify_bundle(target).passed == same


def test_a_stranger_cannot_sign(office: Office, whole: dict[str, Any], tmp_path: Path) -> None:
    for by in ("stranger", "owner"):
        bundle = copy.deepcopy(whole)
        bundle["signed"] = {"by": by, "key": office.stranger.public}
        bundle["signature"] = office.sign(office.stranger)(signed_content(bundle)).hex()
        target = tmp_path / "resigned.bundle"
        target.write_text(json.dumps(bundle))
        assert "signed by a stranger" in "".join(verify_bundle(target).refused)
        assert "another key" in "".join(verify_bundle(target, key=office.keys["owner"].public).refused)


def test_an_anchor_tells_another_ledger(office: Office) -> None:
    bundle = office.bundle("anchored.bundle")
    with Job(office.plan, period=PERIOD).ledger(write=False) as ledger:
        assert verify_bundle(bundle, anchor=ledger.head).passed
    assert "anchor" in "".join(verify_bundle(bundle, anchor="0" * 64).refused)


@pytest.mark.parametrize(
    "text",
    ["", "[" * 100_000, "null", "{}", '{"discreet": "bundle", "format": 1}', '{"a": NaN}', '{"a": 1, "a": 1}', "\x00"],
)
def test_anything_else_is_refused_in_words(tmp_path: Path, text: str) -> None:
    target = tmp_path / "x.bundle"
    target.write_text(text)
    assert not verify_bundle(target).passed
    assert not verify_bundle(tmp_path / "missing.bundle").passed


def test_the_whole_path_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    office = Office(tmp_path)

    def run(*words: str, password: str = "") -> int:
        monkeypatch.setenv("DISCREET_PASSWORD", password)
        try:
            main([word.replace("KEYS", str(tmp_path / "home")) for word in words])
        except SystemExit as left:
            return int(left.code or 0)
        return 0

    plan, period = str(office.plan), ("--period", PERIOD)
    assert run("review", plan, *period, "--out", str(tmp_path / "review.html")) == 0
    assert run("run", plan, *period) == 6
    assert (
        run("approve", plan, *period, "--as", "officer", "--key", "KEYS/officer.key", password="secret of officer") == 0
    )
    assert run("approve", plan, *period, "--as", "owner", "--key", "KEYS/owner.key", password="wrong password") == 1
    assert run("approve", plan, *period, "--as", "owner", "--key", "KEYS/owner.key", password="secret of owner") == 0
    assert run("run", plan, *period, "--quiet") == 0
    signed = ("--as", "owner", "--key", "KEYS/owner.key", "--out", str(tmp_path / "a.bundle"))
    assert run("bundle", plan, *period, *signed, password="secret of owner") == 0
    assert run("verify", str(tmp_path / "a.bundle")) == 0
    assert "everything that can be checked holds" in capsys.readouterr().out
    (tmp_path / "a.bundle").write_text((tmp_path / "a.bundle").read_text().replace("Mean age", "Mean"))
    assert run("verify", str(tmp_path / "a.bundle"), "--json") == 1
    assert run("withdraw", plan, *period, "--as", "owner", "--key", "KEYS/owner.key", password="secret of owner") == 0
    assert run("keys", "new", "clerk", "--out", "KEYS", password="secret of clerk") == 0
    assert run("keys", "new", "clerk", "--out", "KEYS", password="secret of clerk") == 1
    ledger = str(tmp_path / "people.ledger")
    capsys.readouterr()
    assert run("ledger", "explain", ledger, "age") == 0
    told = capsys.readouterr().out
    assert "age, 2026-11: entry" in told
    assert "released under the approved plan" in told
    assert run("ledger", "explain", ledger, "weight") == 2
    assert run("ledger", "show", ledger, "--out", str(tmp_path / "ledger.html")) == 0
    page = (tmp_path / "ledger.html").read_text()
    assert "<svg" in page
    assert 'fill="white"' not in page  # at night the page is dark, and so is the chart
    wanted = ("--reason", "second survey", "--epsilon", "10")
    for name in ("officer", "owner"):
        renewal = ("ledger", "renew", ledger, "--as", name, "--key", f"KEYS/{name}.key", *wanted)
        assert run(*renewal, password=f"secret of {name}") == 0
    assert capsys.readouterr().out.endswith("ε = 10 more. The ledger has ε = 56 left.\n")
    assert (tmp_path / "home" / "clerk.key").stat().st_mode & 0o077 == 0


def test_a_private_key_never_goes_into_a_project(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    with pytest.raises(ValueError, match="version control"):
        new_key("officer", "long enough", tmp_path / "keys")


def test_a_bundle_tells_neither_how_long_releases_took_nor_what_it_keeps_back(office: Office) -> None:
    with Job(office.plan, period=PERIOD).ledger(write=False) as ledger:
        secret = ledger.salt.hex()
        entries = {entry.seq: entry for entry in ledger.entries()}
    assert secret in entries[1].body  # the ledger itself holds it
    bundle = json.loads(office.bundle("told.bundle").read_text())
    assert secret not in json.dumps(bundle)
    assert hashlib.sha256(bytes.fromhex(secret)).hexdigest() in bundle["ledger"][0]["body"]
    bodies = [json.loads(one["body"]) for one in bundle["ledger"] if "body" in one]
    times = [body["created"] for body in bodies if "created" in body]
    assert times
    assert all(datetime.fromisoformat(one).second == datetime.fromisoformat(one).microsecond == 0 for one in times)
    answers = [entry.content for entry in entries.values() if entry.kind == "answer"]
    assert all("created" not in one and len(one["nonce"]) == 32 for one in answers)
    assert len({one["nonce"] for one in answers}) == len(answers)
