"""The ledger: exact sums, refusals, requests, partitions, and what it shows."""

import dataclasses
import json
import math
import pickle
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.core.errors import (
    InsufficientBudget,
    InvalidParameter,
    LedgerMismatch,
    LedgerUnavailable,
    NoConversion,
    WrongType,
)
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.ledger.account import Reservation
from discreet.core.numbers import decimal
from discreet.core.protection import ROW, Fact, Neighbours, Protection, Unit
from discreet.publish.ledger_statement import ledger_page
from discreet.results.ledger import Ledger, accounting_of
from discreet.testing.ledgers import check_ledger

RELEASE: dict[str, Any] = {
    "question": {"ask": "count"},
    "mechanism": {"name": "laplace", "scale": 10.0},
    "sensitivity": {"l1": 1.0},
    "protection": Protection(),
}


REPLACED = Protection(neighbours=Neighbours.REPLACE_ONE)


def spend(ledger: Ledger, guarantee: Any, **changes: Any) -> Reservation:
    return ledger.reserve(guarantee, **{**RELEASE, **changes})


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(":memory:", budget=PureDP(1.0))


# -- conformance ---------------------------------------------------------------------------------------------


def test_in_memory_conforms() -> None:
    check_ledger(lambda budget: Ledger(":memory:", budget))


def test_in_a_file_conforms(tmp_path: Path) -> None:
    names = iter(range(100))
    check_ledger(lambda budget: Ledger(tmp_path / f"{next(names)}.db", budget))


class Forgetful(Ledger):
    """Lets the last reservation through without writing it."""

    def reserve(self, guarantee: Any, **options: Any) -> Reservation:
        try:
            return super().reserve(guarantee, **options)
        except InsufficientBudget:
            return Reservation(seq=1, hash="", release_id="", request=None)


class Sloppy(Ledger):
    """Counts a request twice."""

    def reserve(self, guarantee: Any, **options: Any) -> Reservation:
        return super().reserve(guarantee, **{**options, "request": None})


class Fickle(Ledger):
    """Lets the last answer win."""

    def record_answer(self, reservation: Reservation, answer: Any) -> Any:
        super().record_answer(reservation, answer)
        return answer


@pytest.mark.parametrize("faulty", [Forgetful, Sloppy, Fickle])
def test_conformance_finds_faults(faulty: type[Ledger]) -> None:
    with pytest.raises(AssertionError):
        check_ledger(lambda budget: faulty(":memory:", budget))


# -- sums ----------------------------------------------------------------------------------------------------


@given(
    epsilons=st.lists(st.floats(1e-9, 2.0), min_size=1, max_size=12),
    budget=st.floats(1e-3, 10.0),
)
def test_pure_spending_is_an_exact_sum(epsilons: list[float], budget: float) -> None:
    with Ledger(":memory:", budget=PureDP(budget)) as ledger:
        total = Fraction(0)
        for epsilon in epsilons:
            fits = total + decimal(epsilon) <= decimal(budget)
            assert ledger.preview(PureDP(epsilon)).affordable == fits
            try:
                spend(ledger, PureDP(epsilon))
                assert fits
                total += decimal(epsilon)
            except InsufficientBudget:
                assert not fits
            spent, left = ledger.spent(), ledger.remaining()
            assert isinstance(spent, PureDP)
            assert isinstance(left, PureDP)
            assert decimal(spent.epsilon) >= total
            assert decimal(left.epsilon) <= decimal(budget) - total
            assert math.isclose(left.epsilon, float(decimal(budget) - total), rel_tol=1e-15, abs_tol=1e-300)


@given(mus=st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=12))
def test_gaussian_spending_is_a_root_of_squares(mus: list[float]) -> None:
    with Ledger(":memory:", budget=GaussianDP(1.0)) as ledger:
        total = Fraction(0)
        for mu in mus:
            square = decimal(mu) ** 2
            if total + square <= 1:
                spend(ledger, GaussianDP(mu))
                total += square
            else:
                with pytest.raises(InsufficientBudget):
                    spend(ledger, GaussianDP(mu))
        left = ledger.remaining()
        assert isinstance(left, GaussianDP)
        assert decimal(left.mu) ** 2 <= 1 - total
        assert decimal(math.nextafter(left.mu, 2)) ** 2 > 1 - total
        spend(ledger, left)


@pytest.mark.parametrize("name", ["zcdp", "gdp"])
@pytest.mark.parametrize("budget", [ApproxDP(1.0, 1e-6), ApproxDP(0.1, 1e-9), ApproxDP(8.0, 1e-5), ApproxDP(0, 1e-3)])
def test_converted_budget_is_the_largest_that_is_implied(name: str, budget: ApproxDP) -> None:
    accounting = accounting_of(budget, name)
    allowed = accounting.at_most(accounting.allowance)
    (parameter,) = allowed.parameters().values()
    assert allowed.delta_at(budget.epsilon) <= budget.delta
    assert type(allowed)(parameter * (1 + 1e-6)).delta_at(budget.epsilon) > budget.delta
    assert accounting.kept()
    assert not dataclasses.replace(accounting, allowance=tuple(2 * part for part in accounting.allowance)).kept()


@pytest.mark.parametrize(
    ("accounting", "guarantee", "times"),
    [
        ("basic", PureDP(0.02), 50),
        ("zcdp", PureDP(0.02), 121),  # ρ = ε·tanh(ε/2) = 0.0002 of 0.024356
        ("gdp", PureDP(0.02), 89),  # μ = 0.0250661 of 0.236704
        ("zcdp", GaussianDP(0.02), 121),
        ("gdp", GaussianDP(0.02), 140),
    ],
)
def test_how_many_releases_fit(accounting: str, guarantee: Guarantee, times: int) -> None:
    with Ledger(":memory:", budget=ApproxDP(1.0, 1e-6), accounting=accounting) as ledger:
        for _ in range(times):
            spend(ledger, guarantee)
        with pytest.raises(InsufficientBudget):
            spend(ledger, guarantee)
        assert ledger.verify().spends == times
        assert ledger.currency is {"basic": ApproxDP, "zcdp": ZeroConcentratedDP, "gdp": GaussianDP}[accounting]


def test_basic_accounting_adds_epsilon_and_delta() -> None:
    ledger = Ledger(":memory:", budget=ApproxDP(1.0, 3e-6))
    for _ in range(3):
        spend(ledger, ApproxDP(0.1, 1e-6))
    spend(ledger, PureDP(0.1))
    assert ledger.remaining() == ApproxDP(0.6, 0.0)
    with pytest.raises(InsufficientBudget):
        spend(ledger, ApproxDP(0.1, 1e-12))


def test_nothing_costs_nothing(ledger: Ledger) -> None:
    spend(ledger, PureDP(1.0))
    spend(ledger, PureDP(0.0))
    assert str(ledger.remaining()) == "ε = 0"


def test_preview_writes_nothing(ledger: Ledger) -> None:
    head = ledger.head
    preview = ledger.preview(PureDP(0.3))
    assert (preview.charge, preview.remaining, preview.after) == (PureDP(0.3), PureDP(1.0), PureDP(0.7))
    assert str(preview).splitlines()[1:] == [
        "  charge     ε = 0.3",
        "  remaining  ε = 1",
        "  after      ε = 0.7",
    ]
    refused = ledger.preview(PureDP(1.5))
    assert not refused.affordable
    assert json.loads(json.dumps(refused.to_dict()))["after"] is None
    assert ledger.head == head


# -- partitions ----------------------------------------------------------------------------------------------

PARTS = ["a", "b", "c"]
STEP = st.one_of(
    st.none(),
    st.lists(st.sampled_from(PARTS), min_size=1, unique=True),
    st.dictionaries(st.sampled_from(PARTS), st.sampled_from([0.1, 0.2, 0.3]), min_size=1),
)


@given(steps=st.lists(STEP, max_size=10))
def test_partition_charges_the_largest_part(steps: list[Any]) -> None:
    with Ledger(":memory:", budget=PureDP(1000.0)) as ledger:
        region = ledger.partition("region", PARTS)
        totals = dict.fromkeys(PARTS, Fraction(0))
        for step in steps:
            if isinstance(step, dict):
                spend(ledger, {part: PureDP(epsilon) for part, epsilon in step.items()}, partition=region)
                costs = {part: decimal(epsilon) for part, epsilon in step.items()}
            else:
                spend(ledger, PureDP(0.1), partition="region", parts=step)
                costs = dict.fromkeys(PARTS if step is None else step, Fraction(1, 10))
            for part, cost in costs.items():
                totals[part] += cost
        spent = ledger.spent()
        assert isinstance(spent, PureDP)
        assert decimal(spent.epsilon) == max(totals.values())
        assert ledger.verify().spends == len(steps)


def test_partition_under_basic_accounting_takes_the_largest_of_each() -> None:
    ledger = Ledger(":memory:", budget=ApproxDP(1.0, 1e-6))
    ledger.partition("p", ["a", "b"])
    spend(ledger, {"a": ApproxDP(0.5, 1e-7), "b": ApproxDP(0.1, 2e-7)}, partition="p")
    assert ledger.spent() == ApproxDP(0.5, 2e-7)


def test_replaced_units_may_move_between_parts() -> None:
    ledger = Ledger(":memory:", budget=PureDP(1.0), neighbours=Neighbours.REPLACE_ONE)
    with pytest.raises(InvalidParameter, match="may leave one part of 'p' and enter another"):
        ledger.partition("p", ["a", "b"])
    ledger.partition("p", ["a", "b"], membership_public=True)
    spend(ledger, PureDP(1.0), partition="p", protection=REPLACED)
    assert ledger.remaining() == PureDP(0.0)


def test_grouped_release_is_one_entry() -> None:
    ledger = Ledger(":memory:", budget=PureDP(1.0))
    cells = ledger.partition("cells", [f"cell {i}" for i in range(10_000)])
    spend(ledger, PureDP(0.25), partition=cells)
    spend(ledger, {part: PureDP(0.25) for part in cells.parts[:5000]}, partition=cells)
    assert ledger.spent() == PureDP(0.5)
    first, second = ledger.events()
    assert first.parts is None
    assert second.parts is not None
    assert len(second.parts) == 5000


def test_partition_is_declared_once(ledger: Ledger) -> None:
    assert ledger.partition("p", ["a", "b"]) == ledger.partition("p", ("a", "b"))
    assert ledger.verify().entries == 2
    with pytest.raises(InvalidParameter, match="names another partition"):
        ledger.partition("p", ["a"])


# -- requests and answers ------------------------------------------------------------------------------------


def test_request_is_content_not_identity(ledger: Ledger) -> None:
    first = spend(ledger, PureDP(0.4), request="r", release_id="one")
    again = spend(ledger, PureDP(0.4), request="r", release_id="two")
    assert again == first
    for change in (
        {"mechanism": {"name": "laplace", "scale": 11.0}},
        {"sensitivity": {"l1": 2.0}},
        {"question": "sum"},
        {"protection": Protection(Unit("user"))},
        {"protection": Protection(public=[Fact.ARM])},
    ):
        with pytest.raises(InvalidParameter, match="was used for a different release"):
            spend(ledger, PureDP(0.4), request="r", **change)
    assert ledger.spent() == PureDP(0.4)


def test_answers_round_trip(ledger: Ledger) -> None:
    answer = {"value": [1.5, -0.0, 1e300], "text": "ε “quoted” \ud800", "nothing": None}
    reservation = spend(ledger, PureDP(0.1), request="r")
    assert ledger.answer(reservation.release_id) is None
    assert ledger.record_answer(reservation, answer) == answer
    assert ledger.answer(reservation.release_id) == answer
    assert spend(ledger, PureDP(0.1), request="r").answer == answer
    assert ledger.answer("unknown") is None


def test_answer_may_be_text_or_null(ledger: Ledger) -> None:
    for request, answer in (("text", '{"a": 1}'), ("null", None)):
        reservation = spend(ledger, PureDP(0.1), request=request)
        assert ledger.record_answer(reservation, answer) == answer
        again = spend(ledger, PureDP(0.1), request=request)
        assert again.answered
        assert again.answer == answer


def test_reservation_of_another_ledger_is_refused(ledger: Ledger) -> None:
    other = Ledger(":memory:", budget=PureDP(1.0))
    with pytest.raises(LedgerMismatch, match="belongs to another ledger"):
        ledger.record_answer(spend(other, PureDP(0.1)), 1)


# -- opening -------------------------------------------------------------------------------------------------


def test_reopening_reads_everything_back(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with Ledger(path, ApproxDP(1.0, 1e-6), dataset="survey", accounting="gdp") as ledger:
        spend(ledger, GaussianDP(0.1), release_id="one")
        ledger.partition("p", ["a"])
        salt, head, left = ledger.salt, ledger.head, ledger.remaining()
    with Ledger(path) as ledger:
        assert (ledger.salt, ledger.head, ledger.remaining()) == (salt, head, left)
        assert (ledger.dataset, ledger.accounting, ledger.budget) == ("survey", "gdp", ApproxDP(1.0, 1e-6))
        assert (ledger.neighbours, ledger.unit) == (Neighbours.ADD_REMOVE, ROW)
        assert len(salt) == 32
        with pytest.raises(InvalidParameter, match="was used before"):
            spend(ledger, GaussianDP(0.1), release_id="one")
    with Ledger(path, ApproxDP(1.0, 1e-6), dataset="survey") as ledger:
        spend(ledger, GaussianDP(0.1), partition="p")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"budget": PureDP(2.0)}, "was opened with budget ε = 1, not ε = 2. A ledger keeps its budget"),
        ({"budget": ApproxDP(1.0, 0.0)}, "was opened with budget"),
        ({"dataset": "other"}, "was opened with dataset 'survey', not 'other'"),
        ({"accounting": "gdp"}, "was opened with accounting 'pure'"),
        ({"neighbours": Neighbours.REPLACE_ONE}, "counts guarantees for neighbours = ADD_REMOVE, not REPLACE_ONE"),
        ({"unit": "person"}, "counts guarantees for unit = 'row', not 'person'"),
    ],
)
def test_other_terms_are_refused(tmp_path: Path, options: dict[str, Any], text: str) -> None:
    path = tmp_path / "ledger.db"
    with Ledger(path, PureDP(1.0), dataset="survey", neighbours=Neighbours.ADD_REMOVE) as ledger:
        spend(ledger, PureDP(0.5))
        head = ledger.head
    with pytest.raises(LedgerMismatch, match=re.escape(text)):
        Ledger(path, **options)
    with Ledger(path) as ledger:
        assert ledger.head == head


def test_first_release_fixes_neighbours_and_unit(ledger: Ledger) -> None:
    assert (ledger.neighbours, ledger.unit) == (None, None)
    spend(ledger, PureDP(0.1), protection=Protection(Unit("row"), Neighbours.REPLACE_ONE))
    for other in (Protection(Unit("row")), REPLACED):  # a column called "row" is not a row
        with pytest.raises(LedgerMismatch, match="do not add up"):
            spend(ledger, PureDP(0.1), protection=other)


def test_terms_of_the_opening_are_kept(tmp_path: Path) -> None:
    Ledger(tmp_path / "ledger.db", PureDP(1.0), unit="person").close()
    with Ledger(tmp_path / "ledger.db", unit="person") as ledger:
        assert (ledger.unit, ledger.neighbours, ledger.verify().entries) == (Unit("person"), None, 1)
        with pytest.raises(LedgerMismatch, match="unit = 'person', not 'row'"):
            spend(ledger, PureDP(0.1))


NAMED: dict[str, Any] = {"path": ":memory:", "budget": PureDP(1.0)}


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"path": None}, WrongType, "path = None: must be a path"),
        ({"path": b"x"}, WrongType, "path = b'x': must be a path"),
        ({"path": 3}, WrongType, "path = 3: must be a path"),
        ({"path": ""}, InvalidParameter, "path = '': must name a file"),
        ({"path": "a\0b"}, InvalidParameter, "must name a file"),
        ({"path": "/nowhere/at/all/x.db"}, LedgerUnavailable, "does not exist. Create it first"),
        ({"budget": None}, LedgerUnavailable, "ledger = ':memory:': there is no ledger, and a new one needs"),
        ({"budget": 1.0}, WrongType, "budget = 1.0: must be a Guarantee"),
        ({"budget": PureDP}, WrongType, "must be a Guarantee"),
        ({"budget": PureDP(0.0)}, InvalidParameter, "must allow something"),
        ({"budget": PureDP(1.0), "accounting": "gdp"}, InvalidParameter, "must be one of ['pure']"),
        ({"budget": ApproxDP(1.0, 0.0), "accounting": "gdp"}, InvalidParameter, "needs a budget with δ > 0"),
        ({"accounting": "renyi"}, InvalidParameter, "accounting = 'renyi'"),
        ({"dataset": ""}, InvalidParameter, "dataset = '': must not be empty"),
        ({"dataset": 7}, WrongType, "dataset = 7: must be text"),
        ({"unit": 7}, WrongType, "unit = 7: must be the name"),
        ({"neighbours": "add_remove"}, WrongType, "must be a Neighbours"),
        ({"timeout": 0}, InvalidParameter, "timeout = 0: must be positive"),
        ({"timeout": math.nan}, InvalidParameter, "must be finite"),
    ],
)
def test_refused_constructions(options: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        Ledger(**{**NAMED, **options})


@pytest.mark.parametrize(
    ("guarantee", "options", "kind", "text"),
    [
        (0.1, {}, WrongType, "guarantee = 0.1: must be a Guarantee"),
        (PureDP, {}, WrongType, "must be a Guarantee"),
        (PureDP(1.5), {}, InsufficientBudget, "costs ε = 1.5 but the ledger has ε = 1 left"),
        (GaussianDP(0.1), {}, NoConversion, "counts in PureDP and cannot charge μ = 0.1"),
        (ApproxDP(0.1, 1e-9), {}, NoConversion, "counts in PureDP and cannot charge"),
        (PureDP(0.1), {"mechanism": "laplace"}, WrongType, "mechanism = 'laplace': must be a dict"),
        (PureDP(0.1), {"sensitivity": 1.0}, WrongType, "sensitivity = 1.0: must be a dict"),
        (PureDP(0.1), {"mechanism": {"scale": math.inf}}, InvalidParameter, "must not contain NaN"),
        (PureDP(0.1), {"question": {1, 2}}, WrongType, "must be made of JSON values"),
        (PureDP(0.1), {"protection": None}, WrongType, "protection = None: must be a Protection"),
        (PureDP(0.1), {"request": ""}, InvalidParameter, "request = '': must not be empty"),
        (PureDP(0.1), {"request": 1}, WrongType, "request = 1: must be text"),
        (PureDP(0.1), {"release_id": 1}, WrongType, "release_id = 1: must be text"),
        (PureDP(0.1), {"parts": ["a"]}, InvalidParameter, "is needed where parts are named"),
        ({"a": PureDP(0.1)}, {}, InvalidParameter, "is needed where parts are named"),
        (PureDP(0.1), {"partition": "q"}, InvalidParameter, "partition = 'q': was not declared"),
        (PureDP(0.1), {"partition": "p", "parts": ["z"]}, InvalidParameter, "parts = ['z']: are not parts of 'p'"),
        (PureDP(0.1), {"partition": "p", "parts": []}, InvalidParameter, "must not be empty"),
        (PureDP(0.1), {"partition": "p", "parts": ["a", "a"]}, InvalidParameter, "must be distinct"),
        (PureDP(0.1), {"partition": "p", "parts": 1}, WrongType, "must be a collection of names"),
        (PureDP(0.1), {"partition": "p", "parts": [1]}, WrongType, "parts = 1: must be text"),
        ({"a": PureDP(0.1)}, {"partition": "p", "parts": "a"}, InvalidParameter, "already follow"),
        ({"a": 0.1}, {"partition": "p"}, WrongType, "must be a Guarantee"),
        ({"z": PureDP(0.1)}, {"partition": "p"}, InvalidParameter, "are not parts of 'p'"),
        ({}, {"partition": "p"}, InvalidParameter, "must not be empty"),
    ],
)
def test_refused_spends(
    ledger: Ledger, guarantee: Any, options: dict[str, Any], kind: type[Exception], text: str
) -> None:
    ledger.partition("p", ["a", "b"])
    head = ledger.head
    with pytest.raises(kind, match=re.escape(text)):
        spend(ledger, guarantee, **options)
    assert ledger.head == head
    spend(ledger, PureDP(1.0))


@pytest.mark.parametrize(
    ("budget", "guarantee", "text"),
    [
        (ApproxDP(1.0, 1e-6), GaussianDP(0.1), "delta = None: is needed to state μ = "),
        (GaussianDP(1.0), ZeroConcentratedDP(0.1), "cannot be stated as GaussianDP"),
        (GaussianDP(1.0), ApproxDP(0.1, 1e-6), "cannot be stated as GaussianDP"),
        (ZeroConcentratedDP(1.0), ApproxDP(0.1, 1e-6), "cannot be stated as ZeroConcentratedDP"),
    ],
)
def test_guarantees_without_conversion(budget: Guarantee, guarantee: Guarantee, text: str) -> None:
    with Ledger(":memory:", budget) as ledger, pytest.raises(NoConversion, match=re.escape(text)):
        spend(ledger, guarantee)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda one: one.partition("", ["a"]), InvalidParameter, "name = '': must not be empty"),
        (lambda one: one.partition("p", "ab"), WrongType, "must be a collection of names"),
        (lambda one: one.partition("p", []), InvalidParameter, "must not be empty"),
        (lambda one: one.partition("p", ["a"], membership_public=1), WrongType, "must be a bool"),
        (lambda one: one.record_answer("r", 1), WrongType, "must be a Reservation"),
        (lambda one: one.record_answer(spend(one, PureDP(0.1)), math.nan), InvalidParameter, "must not contain NaN"),
        (lambda one: one.preview(1.0), WrongType, "must be a Guarantee"),
        (lambda one: one.preview(GaussianDP(1.0)), NoConversion, "cannot charge"),
        (lambda one: one.verify(anchor=7), WrongType, "anchor = 7: must be text"),
        (pickle.dumps, LedgerUnavailable, "cannot be copied to another process"),
    ],
)
def test_other_refusals(ledger: Ledger, call: Callable[[Ledger], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        call(ledger)


# -- what it shows -------------------------------------------------------------------------------------------


def test_events_record_everything_but_data(ledger: Ledger) -> None:
    reservation = spend(ledger, PureDP(0.3), request="r")
    ledger.record_answer(reservation, {"value": 41.5})
    ledger.partition("p", ["a", "b"])
    spend(ledger, {"a": PureDP(0.1)}, partition="p")
    first, second = ledger.events()
    assert (first.seq, first.release_id, first.hash) == (reservation.seq, reservation.release_id, reservation.hash)
    assert (first.guarantee, first.charge, first.spent) == (PureDP(0.3), PureDP(0.3), PureDP(0.3))
    assert (first.answered, second.answered) == (True, False)
    assert second.guarantee == {"a": PureDP(0.1)}
    assert (second.partition, second.parts, second.spent) == ("p", ("a",), PureDP(0.4))
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.seq = 7  # type: ignore[misc]
    statement = json.loads(ledger.statement().to_json())
    assert statement["spends"][0]["mechanism"] == RELEASE["mechanism"]
    assert statement["spends"][1]["guarantee"] == {"a": {"kind": "pure", "epsilon": 0.1}}
    assert "41.5" not in json.dumps(statement)


def test_text_fits_a_terminal(ledger: Ledger) -> None:
    spend(ledger, PureDP(0.3))
    text = f"{ledger}\n{ledger.statement()}\n{ledger.verify()}"
    assert max(len(line) for line in text.splitlines()) <= 80
    for part in ("ε = 0.3", "releases    1", "ε = 0.7", "adding or removing one row", "count by laplace"):
        assert part in text
    assert repr(ledger) == "Ledger(':memory:', budget=PureDP(epsilon=1.0))"


def test_html_is_escaped() -> None:
    ledger = Ledger(":memory:", PureDP(1.0), dataset="<script>")
    spend(ledger, PureDP(0.3), question="<b>")
    page = ledger_page(ledger.statement())
    assert "<script>" not in ledger._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "&lt;b&gt; by laplace" in page


def test_anchor_proves_history(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db", PureDP(1.0)) as ledger:
        spend(ledger, PureDP(0.3))
        anchor = ledger.head
        spend(ledger, PureDP(0.3))
        report = ledger.verify(anchor=anchor)
        assert report.anchored
        assert report.head == ledger.head
        assert not ledger.verify().anchored
        assert report.to_dict()["spent"] == {"kind": "pure", "epsilon": 0.6}


def test_closed_ledger_is_refused(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db", PureDP(1.0))
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerUnavailable, match="is closed"):
        spend(ledger, PureDP(0.1))


def test_file_ledger_can_be_sent_to_another_process(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db", PureDP(1.0)) as ledger, pickle.loads(pickle.dumps(ledger)) as other:
        spend(other, PureDP(0.4))
        assert ledger.remaining() == PureDP(0.6)
