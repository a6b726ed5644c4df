"""Any data: every question has an answer on empty, missing, extreme and unlisted values; an error would tell them."""

import pyarrow as pa
import pytest

from discreet import Session
from tests.questions.test_every_question import ASKED, SCHEMA, budget, guarantee

NUMBERS, LABELS = ("spend", "age"), ("arm", "band", "shop", "city")


def table(numbers, labels):
    columns = {name: pa.array(numbers, pa.float64()) for name in NUMBERS}
    return pa.table(columns | {name: pa.array(labels, pa.string()) for name in LABELS})


TABLES = {
    "empty": table([], []),
    "missing": table([None] * 3, [None] * 3),
    "extreme": table([1e300, float("-inf"), float("nan")], ["", "\0", "new"]),
    "alike": table([50.0] * 4, ["old"] * 4),
}


@pytest.mark.deep
@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("data", TABLES)
def test_every_question_has_an_answer(name, data):
    session = Session(TABLES[data], SCHEMA, ledger=":memory:", budget=budget(name))
    answer = getattr(session, name)(guarantee=guarantee(name), **ASKED[name])
    assert str(answer)
