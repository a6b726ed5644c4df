"""Every planted fault is caught by an audit; prints the table with what each audit found."""

import pytest

import tests.planted_known_bugs
import tests.planted_session_faults  # noqa: F401  (plants its own)
from tests.planted_faults import FAULTS


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_fault_is_caught(name):
    finding = FAULTS[name]()
    print(f"{name:<58} {finding.audit:<12} claimed {finding.claimed}, found {finding.found}")
    assert finding.caught


def test_there_are_many():
    assert len(FAULTS) >= 80
