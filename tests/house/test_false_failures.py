"""How often the suite fails although nothing is wrong: the stated rates of all tests that draw real noise, added up."""

import pytest
from conftest import OTHER_NOISE, rate, reproducible

from discreet import Session
from discreet.questions import asked
from tests.questions.test_every_question import ASKED, SCHEMA, budget, guarantee, rows

ALLOWED = 1e-4
LARGEST = 1e-7


def test_stated_rates_add_up(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> None:
    stated = {item.nodeid: rate(item) for item in request.session.items}
    rates = {name: one for name, one in stated.items() if one is not None}
    with capsys.disabled():
        print(f"\n{len(rates)} tests draw real noise; by chance one fails in {sum(rates.values()):.1e} of all runs")
    assert sum(rates.values()) < ALLOWED
    assert max(rates.values(), default=0.0) <= LARGEST


@pytest.mark.skipif(OTHER_NOISE != "", reason="OTHER_NOISE asks for other noise")
def test_other_tests_draw_the_same_noise_again() -> None:
    from discreet.mechanisms import Laplace

    first = Laplace(1.0).draw([0.0] * 3).tolist()
    assert first == FIRST


@pytest.mark.parametrize("name", ASKED)
def test_every_answer_repeats_with_its_seed(name: str) -> None:
    """Releases, their simulated tests and their intervals: nothing random is left to luck."""
    question = asked()[name](schema=SCHEMA, guarantee=guarantee(name), **ASKED[name])
    found = []
    for _ in range(2):
        with reproducible(name):
            answer = Session(rows(), SCHEMA, ledger=":memory:", budget=budget(name)).ask(question)
            found.append((answer.readings(question.columns_read()), answer.verdict()))
    assert repr(found[0]) == repr(found[1])


@pytest.mark.false_failure(1e-18, "three values in a row are equal with probability (2.4e-7)³")
def test_marked_tests_draw_real_noise() -> None:
    from discreet.mechanisms import Laplace

    assert Laplace(1.0).draw([0.0] * 3).tolist() != FIRST


FIRST = [0.9032535552978516, 2.9340133666992188, 2.3534603118896484]
