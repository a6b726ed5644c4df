"""In a notebook, sessions, schemas and budgets are tables, and what is declared is text and no markup."""

import pyarrow as pa

from discreet import Bands, Bounds, Categories, Dates, Formula, PrivateLabels, PureDP, Schema, Session

SCHEMA = Schema(
    columns={
        "age": Bounds(0, 120, grid=1), "born": Dates("1900-01-01", "2020-12-31"), "city": PrivateLabels(),
        "sex": Categories(["f", "<b>m</b>"]), "group": Bands(edges=[0, 18, 120], value=Formula("age")),
    },
    where=Formula("age >= 18"),
)  # fmt: skip


def test_a_schema_says_what_is_declared():
    table = SCHEMA._repr_html_()
    for words in (
        "numbers from 0 to 120, in steps of 1", "dates from 1900-01-01 to 2020-12-31, by day", "not public",
        "2 labels: f, &lt;b&gt;m&lt;/b&gt;", "age: 2 labels: 0–17, 18–120", "those where age &gt;= 18",
        "single rows; neighbours: add_remove",
    ):  # fmt: skip
        assert words in table, words
    assert "<b>" not in table


def test_a_session_and_a_budget_say_what_is_left():
    session = Session(pa.table({"age": [30]}), SCHEMA, ledger=":memory:", epsilon=1.0)
    table = session._repr_html_()
    assert "ε = 1 of ε = 1" in table
    assert "adding or removing one row" in table
    assert "numbers from 0 to 120" in table
    assert "2.72 times" in PureDP(1.0)._repr_html_()
