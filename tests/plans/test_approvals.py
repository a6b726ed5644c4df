"""Approvals, windows, teams and renewals: what a ledger pays for, when, and for whom."""

from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet import Ledger, PureDP
from discreet.core.errors import (
    DiscreetError,
    InsufficientBudget,
    InvalidParameter,
    LedgerCorrupted,
    LedgerMismatch,
    NotApproved,
)
from discreet.core.ledger import balance as written
from discreet.core.ledger.balance import Approvals, fingerprint
from discreet.core.protection import Protection
from discreet.plans.job import refusal_of

SPEND = {
    "question": {"ask": "count"},
    "mechanism": {"name": "laplace", "scale": 10.0},
    "sensitivity": {"l1": 1.0},
    "protection": Protection(),
}
OTHER = SPEND | {"question": {"ask": "sum"}}


def identity(spend: dict, guarantee: PureDP) -> str:
    told = spend | {"protection": spend["protection"].to_dict(), "guarantee": guarantee.to_dict()}
    return fingerprint(told | {"partition": None, "parts": None})


@pytest.fixture
def people() -> dict[str, Ed25519PrivateKey]:
    return {name: Ed25519PrivateKey.generate() for name in ("officer", "owner", "deputy")}


@pytest.fixture
def rule(people: dict[str, Ed25519PrivateKey]) -> Approvals:
    return Approvals(2, {name: key.public_key().public_bytes_raw().hex() for name, key in people.items()})


def meaning(times: int = 1) -> dict:
    return {"discreet": "plan", "releases": {identity(SPEND, PureDP(0.1)): times}}


def test_only_an_approved_release_is_paid_and_only_as_often_as_it_says(tmp_path: Path, people, rule) -> None:
    ledger = Ledger(tmp_path / "a.ledger", PureDP(1.0), approvals=rule)
    with pytest.raises(NotApproved, match="2 more of"):
        ledger.reserve(PureDP(0.1), **SPEND)
    plan = ledger.approve(meaning(times=2), by="officer", sign=people["officer"].sign)
    ledger.under(plan)
    with pytest.raises(NotApproved, match="1 more of"):
        ledger.reserve(PureDP(0.1), **SPEND)
    ledger.approve(meaning(times=2), by="officer", sign=people["officer"].sign)  # the same person twice is one person
    assert not ledger.agreed(plan)
    assert ledger.approve(meaning(times=2), by="owner", sign=people["owner"].sign) == plan
    assert ledger.approving(plan) == ("officer", "owner")
    ledger.reserve(PureDP(0.1), **SPEND)
    for refused in (OTHER, SPEND | {"mechanism": {"name": "laplace", "scale": 1.0}}):
        with pytest.raises(NotApproved, match="0 times"):
            ledger.reserve(PureDP(0.1), **refused)
    with pytest.raises(NotApproved, match="0 times"):
        ledger.reserve(PureDP(0.2), **SPEND)
    ledger.reserve(PureDP(0.1), **SPEND)
    with pytest.raises(NotApproved, match="2 times"):
        ledger.reserve(PureDP(0.1), **SPEND)
    assert ledger.spent() == PureDP(0.2)
    assert Ledger(tmp_path / "a.ledger").verify().spent == PureDP(0.2)


def test_a_withdrawn_approval_stops_what_is_not_yet_paid(tmp_path: Path, people, rule) -> None:
    ledger = Ledger(tmp_path / "a.ledger", PureDP(1.0), approvals=rule)
    plan = ledger.approve(meaning(times=2), by="officer", sign=people["officer"].sign)
    ledger.approve(meaning(times=2), by="owner", sign=people["owner"].sign)
    ledger.under(plan)
    first = ledger.reserve(PureDP(0.1), request="monthly", **SPEND)
    ledger.withdraw(plan, by="owner", sign=people["owner"].sign)
    with pytest.raises(NotApproved):
        ledger.reserve(PureDP(0.1), **SPEND)
    assert ledger.reserve(PureDP(0.1), request="monthly", **SPEND).seq == first.seq  # it is paid already


@pytest.mark.parametrize(
    "sign",
    [
        pytest.param(lambda people: people["owner"].sign, id="somebody else's key"),
        pytest.param(lambda people: lambda text: people["officer"].sign(text + b" "), id="another text"),
        pytest.param(lambda people: lambda text: b"", id="no signature"),
    ],
)
def test_a_wrong_signature_writes_nothing(tmp_path: Path, people, rule, sign: Callable) -> None:
    ledger = Ledger(tmp_path / "a.ledger", PureDP(1.0), approvals=rule)
    before = ledger.head
    with pytest.raises(InvalidParameter, match="key of 'officer'"):
        ledger.approve(meaning(), by="officer", sign=sign(people))
    with pytest.raises(InvalidParameter, match="is none of"):
        ledger.approve(meaning(), by="stranger", sign=people["officer"].sign)
    assert ledger.head == before


def test_a_signature_belongs_to_one_place_of_one_ledger(tmp_path: Path, people, rule) -> None:
    """An old approval, copied behind its withdrawal or into another ledger, is refused."""
    ledger, other = (Ledger(tmp_path / f"{name}.ledger", PureDP(1.0), approvals=rule) for name in "ab")
    signed: list[bytes] = []

    def keep(text: bytes) -> bytes:
        signed.append(people["officer"].sign(text))
        return signed[-1]

    plan = ledger.approve(meaning(), by="officer", sign=keep)
    ledger.withdraw(plan, by="officer", sign=people["officer"].sign)
    for again in (ledger, other):
        with pytest.raises(InvalidParameter, match="key of 'officer'"):
            again.approve(meaning(), by="officer", sign=lambda text: signed[0])


def test_a_ledger_without_a_rule_takes_no_approvals(people) -> None:
    ledger = Ledger(":memory:", PureDP(1.0))
    with pytest.raises(InvalidParameter, match="without a rule"):
        ledger.approve(meaning(), by="officer", sign=people["officer"].sign)
    with pytest.raises(InvalidParameter, match="never approved"):
        Ledger(":memory:", PureDP(1.0), approvals=Approvals(1, _keys(people))).withdraw(
            "0" * 64, by="officer", sign=people["officer"].sign
        )
    assert ledger.reserve(PureDP(0.1), **SPEND).seq == 2


def _keys(people: dict[str, Ed25519PrivateKey]) -> dict[str, str]:
    return {name: key.public_key().public_bytes_raw().hex() for name, key in people.items()}


@pytest.mark.parametrize(
    ("need", "keys"),
    [(0, {"a": "00" * 32}), (2, {"a": "00" * 32}), (True, {"a": "00" * 32}), (1, {"a": "xyz"}), (1, {}),
     (1, {"a": "00" * 31}), (2, {"a": "00" * 32, "b": "00" * 32}), (1, ["a"])],
)  # fmt: skip
def test_a_rule_that_nobody_can_keep_is_refused(need, keys) -> None:
    with pytest.raises(DiscreetError):
        Approvals(need, keys)


def test_the_rule_cannot_be_changed_later(tmp_path: Path, people, rule) -> None:
    Ledger(tmp_path / "a.ledger", PureDP(1.0), approvals=rule).close()
    with pytest.raises(LedgerMismatch, match="approvals"):
        Ledger(tmp_path / "a.ledger", approvals=Approvals(1, rule.keys))
    assert Ledger(tmp_path / "a.ledger").approvals == rule


# -- windows ------------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def at(day: str) -> None:
        monkeypatch.setattr(written, "now", lambda: f"{day}T12:00:00.000000+00:00")

    return at


@pytest.mark.parametrize(
    ("window", "inside", "after"),
    [
        ("year", "2026-12-31", "2027-01-01"),
        ("quarter", "2026-12-31", "2027-01-01"),
        ("month", "2026-10-31", "2026-11-01"),
    ],
)
def test_a_window_has_its_own_budget(tmp_path: Path, clock, window: str, inside: str, after: str) -> None:
    ledger = Ledger(tmp_path / "a.ledger", PureDP(1.0), window=window)
    clock("2026-10-05")
    ledger.reserve(PureDP(0.7), **SPEND)
    clock(inside)
    with pytest.raises(InsufficientBudget):
        ledger.reserve(PureDP(0.4), **SPEND)
    clock(after)
    assert (ledger.spent(), ledger.remaining()) == (PureDP(0.0), PureDP(1.0))
    ledger.reserve(PureDP(0.4), **SPEND)
    clock("2026-10-05")  # a clock that goes back opens no earlier window again
    with pytest.raises(InsufficientBudget):
        ledger.reserve(PureDP(0.7), **SPEND)
    assert (ledger.spent(), ledger.spent_in_all()) == (PureDP(0.4), PureDP(1.1))
    again = Ledger(tmp_path / "a.ledger", window=window)
    assert again.verify().entries == 3
    assert again.spent_in_all() == PureDP(1.1)


def test_the_parts_of_a_partition_begin_anew_with_a_window(tmp_path: Path, clock) -> None:
    ledger = Ledger(tmp_path / "a.ledger", PureDP(1.0), window="year")
    ledger.partition("region", ["north", "south"])
    clock("2026-05-05")
    ledger.reserve(PureDP(0.9), partition="region", parts=["north"], **SPEND)
    assert ledger.preview(PureDP(0.9), partition="region", parts=["south"]).charge == PureDP(0.0)
    clock("2027-05-05")
    assert ledger.preview(PureDP(0.9), partition="region", parts=["south"]).charge == PureDP(0.9)
    ledger.reserve(PureDP(0.9), partition="region", parts=["south"], **SPEND)
    assert ledger.remaining() == PureDP(0.1)
    assert Ledger(tmp_path / "a.ledger").verify().entries == 4


def test_an_unknown_window_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="window"):
        Ledger(tmp_path / "a.ledger", PureDP(1.0), window="fortnight")
    assert not list(tmp_path.iterdir())


# -- teams and renewals --------------------------------------------------------------------------------------


def test_a_team_spends_its_part_and_no_other(tmp_path: Path) -> None:
    path, teams = tmp_path / "a.ledger", {"health": PureDP(0.6), "labour": PureDP(0.4)}
    health = Ledger(path, PureDP(1.0), teams=teams, team="health")
    labour = Ledger(path, team="labour")
    assert (health.remaining(), labour.remaining()) == (PureDP(0.6), PureDP(0.4))
    labour.reserve(PureDP(0.3), **SPEND)
    with pytest.raises(InsufficientBudget):
        labour.reserve(PureDP(0.2), **SPEND)
    health.reserve(PureDP(0.6), **SPEND)
    assert (health.remaining(), labour.remaining(), health.spent()) == (PureDP(0.0), PureDP(0.1), PureDP(0.9))
    with pytest.raises(InvalidParameter, match="team"):
        Ledger(path, team="sports").reserve(PureDP(0.1), **SPEND)
    with pytest.raises(InvalidParameter, match="team"):
        Ledger(path).reserve(PureDP(0.1), **SPEND)
    assert Ledger(path, team="health").verify().spent == PureDP(0.9)


def test_parts_are_not_more_than_the_whole(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="more than the budget"):
        Ledger(tmp_path / "a.ledger", PureDP(1.0), teams={"a": PureDP(0.6), "b": PureDP(0.5)})


def test_a_renewal_needs_as_many_people_as_a_plan_and_counts_once(tmp_path: Path, people, rule) -> None:
    ledger = Ledger(tmp_path / "a.ledger", PureDP(1.0), approvals=rule)
    renewal = {"discreet": "renewal", "renew": PureDP(0.5).to_dict(), "reason": "a second survey"}
    digest = ledger.approve(renewal, by="officer", sign=people["officer"].sign)
    assert ledger.remaining() == PureDP(1.0)
    ledger.approve(renewal, by="owner", sign=people["owner"].sign)
    assert ledger.remaining() == PureDP(1.5)
    ledger.approve(renewal, by="deputy", sign=people["deputy"].sign)
    ledger.withdraw(digest, by="owner", sign=people["owner"].sign)
    ledger.withdraw(digest, by="deputy", sign=people["deputy"].sign)
    ledger.approve(renewal, by="owner", sign=people["owner"].sign)
    assert ledger.remaining() == PureDP(1.5)
    assert Ledger(tmp_path / "a.ledger").remaining() == PureDP(1.5)
    ledger.under(digest)
    with pytest.raises(NotApproved):  # a renewal pays for nothing by itself
        ledger.reserve(PureDP(0.1), **SPEND)


# -- one person is one person, whatever signs ----------------------------------------------------------------


def test_one_key_in_two_spellings_is_one_person(tmp_path: Path, people, rule) -> None:
    key = rule.keys["officer"]
    for other in (key.upper(), " ".join(key[place : place + 2] for place in range(0, 64, 2)), f" {key}"):
        with pytest.raises(InvalidParameter, match="give one key to two names"):
            Approvals(2, {"officer": key, "deputy": other})
    spelled = Approvals(2, {name: one.upper() for name, one in rule.keys.items()})
    assert spelled == rule
    Ledger(tmp_path / "a.ledger", PureDP(1.0), approvals=rule).close()
    Ledger(tmp_path / "a.ledger", PureDP(1.0), approvals=spelled).close()


def test_a_ledger_that_counts_one_key_twice_is_refused(tmp_path: Path, people, rule, monkeypatch) -> None:
    key = rule.keys["officer"]
    twice = {"need": 2, "keys": {"officer": key, "deputy": key.upper()}}
    monkeypatch.setattr(Approvals, "to_dict", lambda one: twice)
    with pytest.raises(LedgerCorrupted, match="give one key to two names"):
        Ledger(tmp_path / "a.ledger", PureDP(1.0), approvals=rule)


def test_what_signs_may_use_the_ledger_and_others_may_write_meanwhile(tmp_path: Path, people, rule) -> None:
    path, signed = tmp_path / "a.ledger", []
    with Ledger(path, PureDP(1.0), approvals=rule, timeout=5.0) as ledger, Ledger(path, timeout=1.0) as colleague:

        def sign(text: bytes) -> bytes:
            if len(signed) < 2:  # a colleague writes while this one signs, who looks at the ledger
                colleague.note(sources=[f"source {len(signed)}"])
            signed.append(ledger.remaining())
            return people["officer"].sign(text)

        plan = ledger.approve(meaning(), by="officer", sign=sign)
        assert (len(signed), ledger.approving(plan)) == (3, ("officer",))
        assert ledger.verify().entries == 4


def test_a_clock_that_was_ahead_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger(tmp_path / "a.ledger", PureDP(1.0), window="year") as ledger:
        monkeypatch.setattr(written, "now", lambda: "2031-01-01T00:00:00.000000+00:00")
        ledger.reserve(PureDP(1.0), **SPEND)
        assert ledger.clock_warning() == ""
        monkeypatch.setattr(written, "now", lambda: "2026-11-16T00:00:00.000000+00:00")
        assert "dated 2031, and the clock of this computer says 2026" in ledger.clock_warning()
        with pytest.raises(InsufficientBudget, match="dated 2031, and the clock of this computer says 2026"):
            ledger.reserve(PureDP(1.0), **SPEND)
        assert "says 2026" in str(refusal_of(ledger, 0, [PureDP(1.0)]))
