"""Asking again: without a name it is drawn and paid again, and that is said; with one it is free."""

import warnings

import pyarrow as pa
import pytest

from discreet import Bounds, Schema, Session

ROWS = pa.table({"age": [30, 40, 50] * 100, "pay": [1, 2, 3] * 100})
SCHEMA = Schema(columns={"age": Bounds(0, 100, grid=1), "pay": Bounds(0, 5, grid=1)})


def asked(session, **given):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        session.mean("age", epsilon=0.1, **given)
    return [(str(one.message), one.filename) for one in caught if one.category is UserWarning]


def test_a_question_without_a_name_says_that_it_is_paid_for_again(tmp_path):
    session = Session(ROWS, SCHEMA, ledger=tmp_path / "a.ledger", epsilon=1.0)
    assert asked(session) == []
    ((said, where),) = asked(session)
    assert "drawn again and paid again (ε = 0.1)" in said
    assert 'name="…"' in said
    assert where == __file__  # the line that asks, not one of discreet
    session.ledger.close()
    later = Session(ROWS, SCHEMA, ledger=tmp_path / "a.ledger")  # a notebook that is run again
    assert len(asked(later)) == 1
    assert later.where("age > 30").mean("age", epsilon=0.1).guarantee.epsilon == 0.1
    assert later.ledger.remaining().epsilon == pytest.approx(0.6)


def test_nothing_is_said_of_other_questions_names_and_ledgers_in_memory(tmp_path):
    session = Session(ROWS, SCHEMA, ledger=tmp_path / "a.ledger", epsilon=1.0)
    assert asked(session) == asked(session, name="age") == asked(session, name="age") == []
    session.mean("pay", epsilon=0.1)
    study = Session(ROWS, SCHEMA, ledger=":memory:", epsilon=1.0)
    assert asked(study) == asked(study) == []


def test_made_an_error_it_spends_nothing(tmp_path):
    session = Session(ROWS, SCHEMA, ledger=tmp_path / "a.ledger", epsilon=1.0)
    session.mean("age", epsilon=0.1)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=UserWarning)
        with pytest.raises(UserWarning, match="asked before"):
            session.mean("age", epsilon=0.1)
    assert session.ledger.remaining().epsilon == pytest.approx(0.9)
