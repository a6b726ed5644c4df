"""Privacy checks under ``python -O``: none of them may hang on an assert."""

import pytest

from tests.optimised import run_optimised

pytestmark = pytest.mark.optimised


def test_a_mechanism_that_claims_too_little_is_rejected() -> None:
    """Exact: the claim is compared with the computed loss, not with draws."""
    found = run_optimised("""
        from dataclasses import dataclass
        from typing import ClassVar
        from discreet import PureDP
        from discreet.core.sensitivity import Sensitivity
        from discreet.mechanisms import Laplace
        from discreet.mechanisms.laplace import LaplaceProfile
        from discreet.testing import NotConformant, check_mechanism

        @dataclass(frozen=True)
        class Careless(Laplace):
            name: ClassVar[str] = "careless"
            def profile(self, sensitivity):
                return LaplaceProfile([sensitivity.l1 / self.scale / 200])

        one = Sensitivity(l1=1.0)
        check_mechanism(Laplace(1.0), one, draws=1000)
        expect(NotConformant, lambda: check_mechanism(Careless(1.0), one))
    """)
    assert "more is lost than claimed" in found


def test_a_statistic_that_declares_too_little_is_rejected() -> None:
    found = run_optimised("""
        from dataclasses import dataclass
        from typing import ClassVar
        from discreet import Neighbours
        from discreet.core.sensitivity import Sensitivity
        from discreet.questions.bounded import Mean, SampleMoment
        from discreet.testing import NotConformant, check_statistic

        @dataclass(frozen=True, kw_only=True)
        class Careless(SampleMoment):
            name: ClassVar[str] = "careless_mean"
            def sensitivity(self, *, n=None, neighbours):
                return Sensitivity(l1=1 / n / 2)

        ask = {"n": 4, "neighbours": Neighbours.REPLACE_ONE}
        check_statistic(Mean(bounds=(0, 1)), [0.0, 1.0], **ask)
        expect(NotConformant, lambda: check_statistic(Careless(of="mean", bounds=(0, 1)), [0.0, 1.0], **ask))
    """)
    assert "more than the declared" in found


def test_the_door_refuses_a_claim_that_the_profile_does_not_give() -> None:
    found = run_optimised("""
        from discreet import Ledger, PureDP, release
        from discreet.core.sensitivity import Sensitivity
        from discreet.mechanisms import Laplace
        from discreet.core.sensitivity import Exact
        from discreet.core.errors import DiscreetError

        ledger = Ledger(":memory:", budget=PureDP(1.0))
        exact = Exact(10.0, Sensitivity(l1=1.0))
        expect(DiscreetError, lambda: release(exact, Laplace(1.0), ledger=ledger, guarantee=PureDP(0.5)))
        print(ledger.spent())
    """)
    assert found.strip().endswith("ε = 0")


def test_a_ledger_refuses_to_overspend() -> None:
    found = run_optimised("""
        from discreet import Ledger, PureDP, release
        from discreet.core.sensitivity import Sensitivity
        from discreet.mechanisms import Laplace
        from discreet.core.sensitivity import Exact
        from discreet.core.errors import InsufficientBudget

        ledger = Ledger(":memory:", budget=PureDP(1.0))
        exact = Exact(10.0, Sensitivity(l1=1.0))
        release(exact, Laplace(1.0), ledger=ledger)
        expect(InsufficientBudget, lambda: release(exact, Laplace(1.0), ledger=ledger))
    """)
    assert "Nothing was spent" in found
