"""Plans that repeat: approved once for all periods, verified by outsiders, shared by several accounts."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from discreet.core.errors import DiscreetError, PlanFileError
from discreet.plans import bundle as bundle_room
from discreet.plans.bundle import verify_bundle, write_bundle
from discreet.plans.job import Job
from discreet.plans.review import KeyPair, new_key, review, signer
from discreet.publish.ledger_statement import grouped_text, ledger_page, spending_by
from discreet.results.ledger import Ledger

MONTHS = ("2026-01", "2026-02", "2026-03")
PLAN = """
title = "Register"
period = "{month}"
times = TIMES
[source]
path = "register.csv"
[ledger]
path = "register.ledger"
[ledger.approvals]
need = 1
[ledger.approvals.keys]
officer = "OFFICER"
[budget]
KIND = 0.5
[schema.columns.month]
categories = ["2026-01", "2026-02", "2026-03"]
source = "The calendar."
[schema.columns.age]
low = 0
high = 120
grid = 1
source = "Nobody is older."
[[release]]
name = "entries"
ask = "running_total"
over = "month"
KIND = 0.3
[[release]]
name = "age"
ask = "mean"
column = "age"
KIND = 0.05
"""


class Office:
    """A register that grows, its plan, and an officer who approved it once."""

    def __init__(self, folder: Path, kind: str = "mu", times: int = 3) -> None:
        self.folder, self.plan = folder, folder / "register.toml"
        self.key: KeyPair = new_key("officer", "a long secret", folder / "home")
        self.plan.write_text(
            PLAN.replace("OFFICER", self.key.public).replace("KIND", kind).replace("TIMES", str(times))
        )
        self.grow(MONTHS[0])
        job = Job(self.plan, period=MONTHS[0])
        with job.ledger(write=True) as ledger:
            ledger.approve(job.meaning(ledger), by="officer", sign=self.sign())

    def sign(self) -> Callable[[bytes], bytes]:
        return signer(self.key.path, "a long secret")

    def grow(self, month: str) -> None:
        rows = [f"{one},{20 + place % 60}" for one in MONTHS if one <= month for place in range(200)]
        (self.folder / "register.csv").write_text("\n".join(["month,age", *rows]) + "\n")

    def run(self, month: str) -> int:
        self.grow(month)
        return Job(self.plan, period=month).run().drawn

    def bundle(self, month: str) -> Path:
        out = self.folder / f"{month}.bundle"
        return write_bundle(self.plan, out, by="officer", public=self.key.public, sign=self.sign(), period=month)


@pytest.mark.parametrize("kind", ["mu", "rho"])
def test_one_approval_covers_all_periods_and_each_can_be_verified(tmp_path: Path, kind: str) -> None:
    office = Office(tmp_path, kind)
    for month in MONTHS:
        assert office.run(month) == 2
    for month in MONTHS:
        found = verify_bundle(office.bundle(month))
        assert found.passed, found.refused
    told = json.loads(office.bundle(MONTHS[2]).read_text())["results"]["facts"]["releases"][0]["readings"]
    before = json.loads(office.bundle(MONTHS[1]).read_text())["results"]["facts"]["releases"][0]["readings"]
    assert [one for one in told if one["label"] < MONTHS[2]] == before


def test_an_earlier_measurement_that_the_ledger_does_not_hold_is_refused(tmp_path: Path) -> None:
    """A ledger that was written by a program which made the earlier months up."""
    office = Office(tmp_path)
    office.run(MONTHS[0])
    office.run(MONTHS[1])
    bundle = office.bundle(MONTHS[1])
    content = json.loads(bundle.read_text())
    case = bundle_room._Case(content, None, None)
    (question,) = [one for one in case.file.questions if one.name == "entries"]
    stored = json.loads(json.dumps(content["results"]["releases"]["entries"]))
    case._continues(question, stored)
    stored["public"]["earlier"][0] += 1.0
    with pytest.raises(bundle_room._Refused, match="earlier periods 1"):
        case._continues(question, stored)


def test_what_was_approved_too_seldom_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    office = Office(tmp_path, times=1)
    office.run(MONTHS[0])
    with Ledger(tmp_path / "register.ledger", read_only=True) as ledger:
        spent = ledger.spent()
    with pytest.raises(PlanFileError, match=r"release 'age': the approved plan allows this release 1 times"):
        office.run(MONTHS[1])
    with Ledger(tmp_path / "register.ledger", read_only=True) as ledger:
        assert ledger.spent() == spent


def test_a_running_total_is_not_released_again(tmp_path: Path) -> None:
    office = Office(tmp_path)
    office.run(MONTHS[0])
    with pytest.raises(DiscreetError, match="once per period"):
        Job(office.plan, period=MONTHS[0]).run(again=True)
    with Ledger(tmp_path / "register.ledger", read_only=True) as ledger:
        assert len(ledger.events()) == 2


def test_the_planner_says_what_all_periods_cost(tmp_path: Path) -> None:
    office = Office(tmp_path)
    planned = Job(office.plan, period=MONTHS[0]).plan()
    assert planned.in_all is not None
    assert planned.in_all.parameters()["mu"] == pytest.approx((0.3**2 + 3 * 0.05**2) ** 0.5)
    assert f"{planned.in_all} in all periods together" in " ".join(str(planned).split())
    assert f"{planned.in_all} in all periods together" in review(office.plan, period=MONTHS[0]).cost
    assert planned.to_dict()["in_all"] == planned.in_all.to_dict()


def test_spending_adds_up_by_release_and_by_period(tmp_path: Path) -> None:
    office = Office(tmp_path)
    for month in MONTHS:
        office.run(month)
    with Ledger(tmp_path / "register.ledger", read_only=True) as ledger:
        statement = ledger.statement()
    whole = statement.spent.parameters()["mu"]
    for key, names in (("release", ["entries", "age"]), ("period", list(MONTHS)), ("team", ["(no team)"])):
        rows = spending_by(statement, key)
        assert [row.name for row in rows] == names
        assert sum(row.charge.parameters()["mu"] ** 2 for row in rows) ** 0.5 == pytest.approx(whole)
        assert all(name in grouped_text(statement, key) for name in names)
    with pytest.raises(DiscreetError, match="is not what spending adds up by"):
        spending_by(statement, "colour")


@pytest.mark.skipif(not hasattr(os, "fchmod"), reason="this system has no groups")
@pytest.mark.parametrize(("mode", "shared"), [(0o2770, True), (0o770, False), (0o2750, False)])
def test_a_ledger_in_a_shared_directory_is_writable_for_the_group(tmp_path: Path, mode: int, shared: bool) -> None:
    directory = tmp_path / "shared"
    directory.mkdir()
    directory.chmod(mode)
    if directory.stat().st_mode & 0o7777 != mode:
        pytest.skip("this file system has no setgid")
    before = os.umask(0o077)
    try:
        office = Office(directory)
    finally:
        os.umask(before)
    assert office.plan.exists()
    for name in ("register.ledger", "register.ledger-head"):
        assert bool((directory / name).stat().st_mode & 0o020) is shared


def test_the_page_of_a_ledger_fits_a_phone(tmp_path: Path) -> None:
    """No column of the page is wider than a phone: releases are folded, tables may scroll, charts shrink."""
    office = Office(tmp_path)
    for month in MONTHS:
        office.run(month)
    with Ledger(tmp_path / "register.ledger", read_only=True) as ledger:
        page = ledger_page(ledger.statement())
    assert 'content="width=device-width' in page
    assert page.count("<details>") == 6
    assert page.count("<svg") == 3  # over time, by release, by period; nobody spends for a team
    assert all(f"By {key}" in page for key in ("release", "period"))
    assert "By team" not in page
    widths = [float(width) for width in re.findall(r'<svg[^>]* width="([\d.]+)"', page)]
    assert max(widths) <= 390
    assert "<script" not in page
