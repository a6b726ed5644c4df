"""Conformance: what any ledger must do, as checks that a third party can run on theirs."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any

from discreet.core.errors import DiscreetError, InsufficientBudget, InvalidParameter, LedgerMismatch, NoConversion
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.ledger.account import Reservation
from discreet.core.protection import Neighbours, Protection, Unit
from discreet.results.ledger import Ledger
from discreet.testing.mechanisms import NotConformant, require

_RELEASE: dict[str, Any] = {
    "question": {"ask": "count"},
    "mechanism": {"name": "laplace", "scale": 1.0},
    "sensitivity": {"l1": 1.0},
    "protection": Protection(),
}


def check_ledger(open_ledger: Callable[[Guarantee], Ledger]) -> None:
    """Check that ledgers keep their budget; raises `NotConformant` with what went wrong.

    Parameters
    ----------
    open_ledger
        Makes a new, empty ledger with the budget it gets.

    Examples
    --------
    >>> check_ledger(lambda budget: Ledger(":memory:", budget))
    """
    for check in (
        _adds_exactly,
        _never_overspends,
        _refuses_without_a_trace,
        _repeats_a_request_once,
        _keeps_the_first_answer,
        _charges_disjoint_groups_in_parallel,
        _survives_a_race,
    ):
        check(open_ledger)


def _spend(ledger: Ledger, guarantee: Any, **changes: Any) -> Reservation:
    return ledger.reserve(guarantee, **{**_RELEASE, **changes})


def _refused(kind: type[DiscreetError], what: str, call: Callable[[], object]) -> None:
    try:
        call()
    except kind:
        return
    raise NotConformant(f"{what} was not refused with {kind.__name__}")


def _adds_exactly(open_ledger: Callable[[Guarantee], Ledger]) -> None:
    cases: list[tuple[Guarantee, Guarantee, int]] = [
        (PureDP(1.0), PureDP(0.1), 10),
        (ApproxDP(1.0, 1e-6), ApproxDP(0.1, 1e-7), 10),
        (ZeroConcentratedDP(0.3), ZeroConcentratedDP(0.1), 3),
        (GaussianDP(0.3), GaussianDP(0.1), 9),
    ]
    for budget, guarantee, times in cases:
        with closing(open_ledger(budget)) as ledger:
            for _ in range(times):
                _spend(ledger, guarantee)
            require(ledger.spent() == budget, f"{times} × {guarantee} add up to {ledger.spent()}, not to {budget}")
            _refused(InsufficientBudget, "one release too many", partial(_spend, ledger, guarantee))
            report = ledger.verify()
            require(report.spends == times, f"{report.spends} spends were kept of {times}")


def _never_overspends(open_ledger: Callable[[Guarantee], Ledger]) -> None:
    """Whatever is left can be spent, and the next float above it cannot."""
    with closing(open_ledger(PureDP(1.0))) as ledger:
        _spend(ledger, PureDP(1 / 3))
        left = ledger.remaining()
        if not isinstance(left, PureDP):
            raise NotConformant(f"what is left of a PureDP budget is {left}")
        above = PureDP(math.nextafter(left.epsilon, 2))
        _refused(InsufficientBudget, f"{above} of {left}", lambda: _spend(ledger, above))
        _spend(ledger, left)
        _refused(InsufficientBudget, "a spend on an empty ledger", lambda: _spend(ledger, PureDP(1e-300)))


def _refuses_without_a_trace(open_ledger: Callable[[Guarantee], Ledger]) -> None:
    with closing(open_ledger(PureDP(1.0))) as ledger:
        _spend(ledger, PureDP(0.5))
        before = ledger.head
        refusals: list[tuple[type[DiscreetError], dict[str, Any]]] = [
            (InsufficientBudget, {"guarantee": PureDP(0.6)}),
            (NoConversion, {"guarantee": GaussianDP(0.1)}),
            (LedgerMismatch, {"guarantee": PureDP(0.1), "protection": Protection(neighbours=Neighbours.REPLACE_ONE)}),
            (LedgerMismatch, {"guarantee": PureDP(0.1), "protection": Protection(Unit("household"))}),
            (InvalidParameter, {"guarantee": 0.1}),
            (InvalidParameter, {"guarantee": PureDP(0.1), "mechanism": {"scale": math.nan}}),
            (InvalidParameter, {"guarantee": PureDP(0.1), "partition": "nowhere"}),
        ]
        for kind, changes in refusals:
            _refused(kind, str(changes), partial(_spend, ledger, **changes))
            require(ledger.head == before, f"a refused spend left a trace: {changes}")


def _repeats_a_request_once(open_ledger: Callable[[Guarantee], Ledger]) -> None:
    with closing(open_ledger(PureDP(1.0))) as ledger:
        first = _spend(ledger, PureDP(0.4), request="r")
        again = _spend(ledger, PureDP(0.4), request="r")
        require((first.seq, first.release_id) == (again.seq, again.release_id), "a repeated request was charged twice")
        require(not again.answered, "a request without an answer must not be answered")
        _refused(InvalidParameter, "one request, two releases", lambda: _spend(ledger, PureDP(0.1), request="r"))


def _keeps_the_first_answer(open_ledger: Callable[[Guarantee], Ledger]) -> None:
    with closing(open_ledger(PureDP(1.0))) as ledger:
        reservation = _spend(ledger, PureDP(0.5), request="r")
        answers = [ledger.record_answer(reservation, answer) for answer in ({"value": 1.5}, {"value": 2.5})]
        again = _spend(ledger, PureDP(0.5), request="r")
        require([*answers, again.answer] == [{"value": 1.5}] * 3, "the first answer must stay")


def _charges_disjoint_groups_in_parallel(open_ledger: Callable[[Guarantee], Ledger]) -> None:
    with closing(open_ledger(PureDP(1.0))) as ledger:
        region = ledger.partition("region", ["north", "south"])
        _spend(ledger, PureDP(0.5), partition=region)
        _spend(ledger, PureDP(0.25), partition=region, parts="north")
        _spend(ledger, {"north": PureDP(0.125), "south": PureDP(0.25)}, partition=region)
        require(ledger.spent() == PureDP(0.875), f"the largest part spent 0.875, the ledger says {ledger.spent()}")
    with closing(open_ledger(PureDP(1.0))) as ledger:
        region = ledger.partition("region", ["north", "south"])
        replaced = {"partition": region, "protection": Protection(neighbours=Neighbours.REPLACE_ONE)}
        _refused(InvalidParameter, "moving between parts", lambda: _spend(ledger, PureDP(0.5), **replaced))


def _survives_a_race(open_ledger: Callable[[Guarantee], Ledger]) -> None:
    with closing(open_ledger(PureDP(1.0))) as ledger, ThreadPoolExecutor(8) as pool:

        def attempt(_: int) -> bool:
            try:
                _spend(ledger, PureDP(0.1))
            except InsufficientBudget:
                return False
            return True

        succeeded = sum(pool.map(attempt, range(24)))
        require(succeeded == 10, f"{succeeded} of 24 racing releases succeeded, the budget allows 10")
