"""The one door between private and public."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from discreet import ApproxDP, GaussianDP, Ledger, Neighbours, PureDP, Release, ZeroConcentratedDP, plan, release
from discreet.core.errors import (
    InsufficientBudget,
    InvalidParameter,
    LedgerError,
    NoConversion,
    NotCertified,
    WrongType,
)
from discreet.core.protection import Protection, Unit
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms import Gaussian, Laplace

UNIT = Sensitivity(l1=1.0)
SECRET = 987654.25


@pytest.fixture
def ledger():
    return Ledger(":memory:", budget=PureDP(2.0))


def test_the_contract(ledger):
    mechanism = Laplace.calibrate(PureDP(1.0), UNIT)
    released = release(Exact(10.0, UNIT), mechanism, ledger=ledger)
    assert isinstance(released.value, float)
    assert released.guarantee == PureDP(1.0)
    assert ledger.remaining() == PureDP(1.0)
    low, high = released.noise_interval(0.95)
    assert high - low == pytest.approx(2 * math.log(20), rel=1e-5)
    assert not released.simulated


def test_no_view_of_an_exact_value_shows_it():
    exact = Exact(SECRET, UNIT)
    assert "987654" not in f"{exact!r} {exact} {[exact]} { ({'x': exact}) }"


@pytest.mark.parametrize("value", [10.0, 3, Fraction(1, 3), [1, 2, 3], np.zeros((2, 2))])
def test_json_goes_there_and_back(ledger, value):
    released = release(Exact(value, UNIT), Laplace(2.0), ledger=ledger)
    back = Release.from_json(released.to_json())
    assert np.array_equal(back.value, released.value)
    assert back.to_json() == released.to_json()
    assert np.shape(back.value) == np.shape(value)


def test_text_and_html_show_the_facts_and_fit_the_screen(ledger):
    released = release(Exact(10.0, UNIT), Laplace(2.0), ledger=ledger)
    assert all(fact in str(released) for fact in ("noise interval, 95 %", "ε = 0.5", "adding or removing one row"))
    assert "laplace" in str(released.details())
    assert max(map(len, str(released).splitlines())) <= 100
    assert released._repr_html_().startswith("<table>")
    hostile = release(
        Exact(10.0, UNIT, Protection(Unit("<script>"))), Laplace(2.0), ledger=Ledger(":memory:", budget=PureDP(1.0))
    )
    assert "<script>" not in hostile._repr_html_()


def test_the_charge_is_the_tightest_of_the_ledgers_kind():
    for budget, charge in (
        (GaussianDP(2.0), Laplace(1.0).guarantee(UNIT, GaussianDP)),
        (ZeroConcentratedDP(2.0), Laplace(1.0).guarantee(UNIT, ZeroConcentratedDP)),
        (ApproxDP(2.0, 1e-6), PureDP(1.0)),
    ):
        ledger = Ledger(":memory:", budget=budget)
        assert release(Exact(0.0, UNIT), Laplace(1.0), ledger=ledger).guarantee == charge


def test_a_claim_is_verified_before_it_is_charged(ledger):
    mine = Ledger(":memory:", budget=ApproxDP(2.0, 1e-4))
    gaussian = Gaussian.calibrate(ApproxDP(1.0, 1e-5), UNIT)
    assert release(Exact(0.0, UNIT), gaussian, ledger=mine, guarantee=ApproxDP(1.0, 1e-5)).guarantee == ApproxDP(
        1.0, 1e-5
    )
    before = mine.remaining()
    with pytest.raises(InvalidParameter, match="guarantee"):
        release(Exact(0.0, UNIT), gaussian, ledger=mine, guarantee=ApproxDP(0.9, 1e-5))
    assert mine.remaining() == before


def test_a_repeated_request_returns_the_stored_answer(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", budget=PureDP(2.0))
    first = release(Exact([1.0, 2.0], UNIT), Laplace(1.0), ledger=ledger, name="counts")
    again = release(Exact([1.0, 2.0], UNIT), Laplace(1.0), ledger=ledger, name="counts")
    assert again.to_json() == first.to_json()
    assert ledger.remaining() == PureDP(1.0)
    with pytest.raises(InvalidParameter, match="name"):
        release(Exact([1.0, 2.0], UNIT), Laplace(2.0), ledger=ledger, name="counts")


def test_a_seed_stamps_and_a_ledger_on_disk_refuses_it(tmp_path, ledger):
    simulated = release(Exact(0.0, UNIT), Laplace(1.0), rng=5)
    assert simulated.simulated
    assert simulated.value == release(Exact(0.0, UNIT), Laplace(1.0), rng=5).value
    assert "protects nobody" in str(simulated)
    assert release(Exact(0.0, UNIT), Laplace(1.0), ledger=ledger, rng=5).simulated
    durable = Ledger(tmp_path / "ledger.sqlite", budget=PureDP(2.0))
    with pytest.raises(InvalidParameter, match="rng"):
        release(Exact(0.0, UNIT), Laplace(1.0), ledger=durable, rng=5)
    assert durable.remaining() == PureDP(2.0)


class Unproved(Laplace):
    name = "unproved"

    def guarantee(self, sensitivity, kind=None, *, delta=None):
        return None


def test_without_a_guarantee_nothing_real_is_released(ledger):
    with pytest.raises(NotCertified):
        release(Exact(0.0, UNIT), Unproved(1.0), ledger=ledger)
    assert ledger.remaining() == PureDP(2.0)
    assert release(Exact(0.0, UNIT), Unproved(1.0), rng=1).guarantee is None


def test_intervals_hold_the_truth_as_often_as_they_say():
    """4,000 intervals at 90 %: five standard errors are 0.024."""
    for mechanism in (Laplace(3.0), Gaussian(3.0)):
        released = release(Exact(np.full(4000, 7.0), Sensitivity(l1=1.0, l2=1.0)), mechanism, rng=11)
        assert abs(np.mean(released.noise_interval(0.9).contains(7.0)) - 0.9) < 0.024


def test_a_plan_tells_the_future_and_spends_nothing(ledger):
    mechanism = Laplace(1.0)
    planned = plan(UNIT, mechanism, ledger=ledger)
    assert (planned.remaining, planned.remaining_after) == (PureDP(2.0), PureDP(1.0))
    assert planned.error_95 == pytest.approx(math.log(20))
    assert planned.scale == 1.0
    released = release(Exact(0.0, UNIT), mechanism, ledger=ledger)
    assert released.guarantee == planned.guarantee
    assert ledger.remaining() == planned.remaining_after
    assert "error, 95 %" in str(planned)
    assert json.dumps(planned.to_dict())
    with pytest.raises(InsufficientBudget):
        plan(UNIT, Laplace(0.5), ledger=ledger)


REFUSED = {
    "exact": (lambda book: release(10.0, Laplace(1.0), ledger=book), WrongType),
    "mechanism": (lambda book: release(Exact(1.0, UNIT), "laplace", ledger=book), WrongType),
    "ledger": (lambda book: release(Exact(1.0, UNIT), Laplace(1.0)), InvalidParameter),
    "budget": (lambda book: release(Exact(1.0, UNIT), Laplace(0.1), ledger=book), InsufficientBudget),
    "no pure": (lambda book: release(Exact(1.0, UNIT), Gaussian(9.0), ledger=book), NoConversion),
    "no l1": (lambda book: release(Exact(1.0, Sensitivity(l2=1.0)), Laplace(1.0), ledger=book), InvalidParameter),
    "guarantee": (lambda book: release(Exact(1.0, UNIT), Laplace(1.0), ledger=book, guarantee=1.0), WrongType),
    "nan": (lambda book: release(Exact(math.nan, UNIT), Laplace(1.0), ledger=book), InvalidParameter),
    "infinite": (lambda book: release(Exact([1.0, -math.inf], UNIT), Laplace(1.0), ledger=book), InvalidParameter),
    "empty": (lambda book: release(Exact([], UNIT), Laplace(1.0), ledger=book), InvalidParameter),
    "text": (lambda book: release(Exact("ten", UNIT), Laplace(1.0), ledger=book), WrongType),
    "sensitivity": (lambda book: release(Exact(1.0, 1.0), Laplace(1.0), ledger=book), WrongType),
    "neighbours": (lambda book: release(Exact(1.0, UNIT, "replace"), Laplace(1.0), ledger=book), WrongType),
    "unit": (lambda book: release(Exact(1.0, UNIT, Protection(unit="row")), Laplace(1.0), ledger=book), WrongType),
    "level": (lambda book: plan(UNIT, Laplace(1.0), ledger=book, level=95), InvalidParameter),
    "plan": (lambda book: plan(1.0, Laplace(1.0), ledger=book), WrongType),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_spend_nothing(name, ledger):
    call, error = REFUSED[name]
    with pytest.raises(error):
        call(ledger)
    assert ledger.remaining() == PureDP(2.0)
    assert ledger.events() == ()


def test_neighbours_do_not_mix_in_one_ledger(ledger):
    release(Exact(0.0, UNIT), Laplace(2.0), ledger=ledger)
    with pytest.raises(LedgerError):
        release(Exact(0.0, UNIT, Protection(neighbours=Neighbours.REPLACE_ONE)), Laplace(2.0), ledger=ledger)
    assert ledger.remaining() == PureDP(1.5)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"discreet": "release", "format": 99}', '{"discreet": "release", "format": 1}', 7]
)
def test_malformed_files_are_refused(text):
    with pytest.raises(InvalidParameter):
        Release.from_json(text)
