"""Queries that are compiled once for all of their shape read as if each were compiled by itself."""

from dataclasses import replace

import duckdb
import ibis
import numpy as np
import pyarrow as pa
import pytest

from discreet import Bounds, Categories, Contribution, PrivacyUnit, PureDP, Schema, Session
from discreet.core.rows import engines
from tests.questions.test_every_question import ASKED, SCHEMA, budget, guarantee, rows

PEOPLE = replace(SCHEMA, unit=PrivacyUnit("who", contribution=Contribution(groups=1, rows=2)))


@pytest.mark.parametrize("schema", [SCHEMA, PEOPLE], ids=["rows", "people"])
@pytest.mark.parametrize("name", ["count", "mean", "regression", "quantile", "tables", "distinct", "compare_means"])
def test_queries_of_one_shape_are_compiled_as_each_would_be(name, schema, monkeypatch):
    seen = []
    once = engines.compiled

    def compared(connection, expression):
        query = once(connection, expression)
        assert query == connection.compile(expression)
        seen.append(query)
        return query

    monkeypatch.setattr(engines, "compiled", compared)
    for _ in range(2):
        table = rows().append_column("who", pa.array(np.arange(400) // 5))
        session = Session(table, schema, ledger=":memory:", budget=budget(name))
        getattr(session.where("age > 20"), name)(**ASKED[name], guarantee=guarantee(name))
    assert seen


def test_values_that_python_takes_for_one_another_are_told_apart():
    connection = ibis.duckdb.connect()
    queries = [
        engines.compiled(connection, ibis.memtable(pa.table({"x": [1]})).select(y=ibis.literal(one)))
        for one in (1, 1.0, True, 0.0, -0.0)
    ]
    assert len({query.split("FROM")[0] for query in queries}) == len(queries)


def test_tables_are_told_apart_where_a_query_reads_one_or_two():
    connection = ibis.duckdb.connect()
    made = [ibis.memtable(pa.table({"x": [place]})) for place in range(4)]
    queries = [
        engines.compiled(connection, ibis.union(first.select("x"), second.filter(second.x > 0)))
        for first, second in (made[:2], made[2:], (made[1], made[0]), (made[3], made[3]))
    ]
    names = [one.op().name for one in made]
    told = [tuple(place for place, name in enumerate(names) if name in query) for query in queries]
    assert told == [(0, 1), (2, 3), (0, 1), (3,)]
    assert queries[0].index(names[0]) < queries[0].index(names[1])
    assert queries[2].index(names[1]) < queries[2].index(names[0])


def test_a_query_may_be_as_deep_as_it_is_long():
    value = ibis.memtable(pa.table({"x": [1]})).x
    for _ in range(3000):
        value = value + 1
    told, _ = engines._shape(value.op())
    assert len(told) > 3000


def test_what_only_ibis_can_compare_is_compiled_each_time():
    connection = ibis.duckdb.connect()
    connection.raw_sql("CREATE TABLE people AS SELECT 1 AS x")
    connection.raw_sql("CREATE TABLE others AS SELECT 2 AS x")
    for made in (lambda t: t.alias("own").distinct(), lambda t: t.alias("own"), lambda t: t.view()):
        queries = [engines.compiled(connection, made(connection.table(name))) for name in ("people", "others")]
        assert ["people" in query for query in queries] == [True, False]
    sql = [engines.compiled(connection, connection.sql(f"SELECT {n} AS x")) for n in (1, 2)]
    assert sql[0] != sql[1]


def test_texts_that_look_like_drawn_names_stay_as_they_are():
    """Tables of the caller, and labels and columns that are called like them or like those that discreet draws."""
    connection, names = (
        duckdb.connect(),
        ["discreet_participants", "discreet_" + "a1" * 8, "discreet_source_" + "b" * 12],
    )
    schema = Schema(columns={f"{names[0]}_y": Bounds(0, 1, grid=1), "g": Categories(names)})
    for name in names:
        connection.execute(f"CREATE TABLE {name} AS SELECT 1 AS {names[0]}_y, '{names[1]}' AS g")
        session = Session(connection, schema, table=name, ledger=":memory:", budget=PureDP(200.0))
        assert session.count(by="g", epsilon=50.0).value.tolist() == [0, 1, 0]
        assert session.sum(f"{names[0]}_y", epsilon=50.0).value == pytest.approx(1, abs=0.9)
