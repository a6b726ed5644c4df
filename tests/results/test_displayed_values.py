"""What is printed of every answer: counts are whole and not negative, and an estimate lies in its own intervals."""

import pytest

from discreet import ApproxDP, GaussianDP, PureDP, Session
from tests.questions.test_every_question import ASKED, SCHEMA, SEQUENCES, rows

COUNTS = ("count", "number of rows left out")


def little(name):
    """So little budget that noise hides nearly everything."""
    if name in SEQUENCES:
        return GaussianDP(0.02)
    return ApproxDP(0.02, 1e-7) if name == "common_labels" else PureDP(0.02)


def session(name):
    budget = GaussianDP(1.0) if name in SEQUENCES else ApproxDP(100.0, 1e-3)
    return Session(rows(40), SCHEMA, ledger=":memory:", budget=budget)


@pytest.mark.parametrize("name", ASKED)
def test_displayed_values_are_possible(name):
    for _ in range(3):
        answer = getattr(session(name), name)(guarantee=little(name), **ASKED[name])
        for reading in answer.readings():
            if isinstance(reading.estimate, str):
                continue
            if reading.measure in COUNTS:
                assert reading.estimate == int(reading.estimate) >= 0, reading
            for interval in (reading.noise, reading.population):
                if interval is not None:
                    assert interval.low <= reading.estimate <= interval.high, reading
        assert "nan" not in str(answer)
