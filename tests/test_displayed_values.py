"""What is printed of every answer: counts are whole and not negative, and an estimate lies in its own intervals."""

import pytest

from discreet import ApproxDP, PureDP, Session

from .test_every_question import ASKED, SCHEMA, rows

COUNTS = ("count", "number of rows left out")


def little(name):
    """So little budget that noise hides nearly everything."""
    return ApproxDP(0.02, 1e-7) if name == "groups" else PureDP(0.02)


@pytest.fixture(scope="module")
def session():
    return Session(rows(40), SCHEMA, ledger=":memory:", budget=ApproxDP(100.0, 1e-3))


@pytest.mark.parametrize("name", ASKED)
def test_displayed_values_are_possible(name, session):
    for _ in range(3):
        answer = getattr(session, name)(guarantee=little(name), **ASKED[name])
        for reading in answer.readings():
            if isinstance(reading.estimate, str):
                continue
            if reading.measure in COUNTS:
                assert reading.estimate == int(reading.estimate) >= 0, reading
            for interval in (reading.noise, reading.population):
                if interval is not None:
                    assert interval.low <= reading.estimate <= interval.high, reading
        assert "nan" not in str(answer)
