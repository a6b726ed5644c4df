"""Several tables about the same people: a join by id never mixes the rows of two people."""

import hashlib
import json
import shutil
from dataclasses import replace

import ibis
import numpy as np
import pyarrow as pa
import pytest

from discreet import (
    Bounds,
    Categories,
    Contribution,
    Formula,
    Ledger,
    Neighbours,
    PrivacyUnit,
    PrivateLabels,
    PureDP,
    Related,
    Schema,
    Session,
)
from discreet.core.errors import DiscreetError, InvalidParameter, PlanFileError, SourceError
from discreet.core.rows import Selected, totals
from discreet.core.rows.keep import take_joined
from discreet.core.rows.source import open_source
from discreet.mechanisms import PoissonSample
from discreet.plans.declarations import schema_from_dict
from discreet.plans.job import Job
from discreet.questions.count import CountQuestion

needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")
ENGINES = ["duckdb", pytest.param("spark", marks=[pytest.mark.spark, needs_java])]
UNIT = PrivacyUnit("person", contribution=Contribution(total=4))
ARM = Categories(["A", "B"])
COST = Bounds(0, 9, grid=1)
VISITS = Related(id="who", rows=2, columns={"cost": COST})
JOINED = Schema(columns={"arm": ARM}, unit=UNIT, related={"visits": VISITS})
COUNTED = replace(JOINED, columns={"arm": ARM}, related={"visits": Related(id="who", rows=2, counted="visits")})
SALT = "5a" * 16


def tables(people, visits, text_ids=False):
    """Arrow tables of (person, arm) and (who, cost)."""
    ids = pa.array([None if who is None else str(who) for who, _ in visits] if text_ids else [who for who, _ in visits])
    ids = ids.cast(pa.string() if text_ids else pa.int64())
    first = pa.table({
        "person": pa.array([who for who, _ in people], pa.int64()),
        "arm": pa.array([arm for _, arm in people], pa.string()),
    })  # fmt: skip
    return first, pa.table({"who": ids, "cost": pa.array([cost for _, cost in visits], pa.float64())})


def snapshot(people, visits, schema, *, engine=None, text_ids=False):
    first, second = tables(people, visits, text_ids)
    related = {"visits": open_source(second, engine=engine)}
    return take_joined(open_source(first, engine=engine), schema, related, salt=SALT)


def kept(rows, who, limit):
    """The documented choice, in plain Python."""
    ordered = sorted(rows, key=lambda cost: (cost is None, cost))
    count, start = len(ordered), int(hashlib.sha256(f"{SALT}|j|{who}".encode()).hexdigest()[:12], 16)
    if count <= limit:
        return ordered
    return [cost for place, cost in enumerate(ordered) if (place + start) % count * limit % count < limit]


PEOPLE = [(1, "A"), (1, "B"), (2, "A"), (3, "B"), (4, "A"), (None, "A"), (5, None)]
ROWS = [(1, 1), (1, 2), (1, 3), (1, 9), (2, 5), (4, None), (4, 7), (4, 7), (8, 3), (None, 4), (3, 99), (5, 0)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("text_ids", [False, True])
def test_pairs_are_those_of_one_person(engine, text_ids):
    taken = snapshot(PEOPLE, ROWS, JOINED, engine=engine, text_ids=text_ids)
    found = taken.dataset.fetch(taken.table).to_pylist()
    expected = []
    for who, arm in PEOPLE:
        own = kept([None if cost is None else min(cost, 9) for one, cost in ROWS if one == who], who, 2)
        expected += [(who, arm, cost) for cost in own or [None] if who is not None]
    names = taken.names
    pairs = [(row["u"], {0: "A", 1: "B"}.get(row[names["arm"]]), row[names["cost"]]) for row in found]
    assert sorted(map(str, pairs)) == sorted(map(str, expected))


@pytest.mark.parametrize("engine", ENGINES)
def test_events_are_counted_without_multiplying_rows(engine):
    taken = snapshot(PEOPLE, ROWS, COUNTED, engine=engine)
    found = taken.dataset.fetch(taken.table).to_pylist()
    counts = sorted((row["u"], row[taken.names["visits"]]) for row in found)
    assert counts == [(1, 2), (1, 2), (2, 1), (3, 1), (4, 2), (5, 1)]


def test_tables_of_one_connection_are_joined_there():
    first, second = tables(PEOPLE, ROWS)
    connection = ibis.duckdb.connect()
    connection.create_table("people", first)
    connection.create_table("visits", second)
    datasets = [open_source(connection, table=name) for name in ("people", "visits")]
    assert datasets[0].connection is datasets[1].connection
    taken = take_joined(datasets[0], JOINED, {"visits": datasets[1]}, salt=SALT)
    other = snapshot(PEOPLE, ROWS, JOINED)
    selected = Selected(by=("arm",), columns=("cost",))
    ours, theirs = (totals(one, selected, [("cost",)]) for one in (taken, other))
    assert (ours.counts == theirs.counts).all()
    assert (ours.sums["cost",] == theirs.sums["cost",]).all()


def test_a_missing_partner_is_a_missing_value():
    filled = replace(
        JOINED,
        columns={"arm": ARM},
        related={"visits": replace(VISITS, columns={"cost": Bounds(0, 9, grid=1, nulls=4)})},
    )
    taken = snapshot([(1, "A"), (2, "A")], [(1, 3)], filled)
    assert sorted(row[taken.names["cost"]] for row in taken.dataset.fetch(taken.table).to_pylist()) == [3, 4]


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("schema", [JOINED, COUNTED], ids=["joined", "counted"])
def test_sensitivities_cover_every_neighbour(neighbours, schema):
    """What one person moves, by brute force over rows in both tables, at the limits and beyond."""
    replaced = neighbours is Neighbours.REPLACE_ONE
    schema = replace(schema, neighbours=neighbours, size=2 if replaced else None)
    column = "cost" if "cost" in schema.columns else "visits"
    own = [([], [9, 9]), (["A"] * 2, [0, 9]), (["B"], []), (["A"] * 3 + ["B"] * 3, [9] * 3), (["A"] * 6, [])]
    own = own[1:] if replaced else own

    def measured(units):
        people = [(who, arm) for who, (arms, _) in enumerate(units) for arm in arms]
        visits = [(who, cost) for who, (_, costs) in enumerate(units) for cost in costs]
        found = totals(snapshot(people, visits, schema), Selected(by=("arm",), columns=(column,)), [(column,)])
        return np.array([*found.counts, *found.sums[column,]], dtype=int)

    fixed = (["B", "A"], [5])
    values = [measured([fixed, one]) for one in own]
    pairs = [(p, q) for p in values for q in values] if replaced else [(measured([fixed]), value) for value in values]
    counts = max(np.abs((p - q)[:2]).sum() for p, q in pairs)
    sums = max(np.abs((p - q)[2:]).sum() for p, q in pairs)
    declared = CountQuestion(schema, epsilon=1.0, by="arm").measurement.sensitivity.l1
    assert counts <= declared == (8 if replaced else 4)
    assert sums <= declared * schema.bounds(column).high
    assert counts == declared or schema is not JOINED


def test_nobody_changes_what_others_keep():
    """Adding a person adds exactly that person's pairs."""
    others = [(who, cost) for who, cost in ROWS if who != 1]
    selected = Selected(by=("arm",), columns=("cost",))
    whole = totals(snapshot(PEOPLE, ROWS, JOINED), selected, [("cost",)])
    without = totals(snapshot([one for one in PEOPLE if one[0] != 1], others, JOINED), selected, [("cost",)])
    alone = totals(
        snapshot([one for one in PEOPLE if one[0] == 1], [one for one in ROWS if one[0] == 1], JOINED),
        selected,
        [("cost",)],
    )
    assert (whole.counts == without.counts + alone.counts).all()
    assert (whole.sums["cost",] == without.sums["cost",] + alone.sums["cost",]).all()


def test_one_ledger_and_one_unit():
    first, second = tables(PEOPLE, ROWS)
    session = Session(first, JOINED, ledger=":memory:", budget=PureDP(3.0), related={"visits": second})
    released = session.sum("cost", epsilon=1.0)
    assert released.protection.unit.column == "person"
    plain = Session(first, Schema(columns={"arm": ARM}, unit=UNIT), ledger=session.ledger)
    plain.count(epsilon=1.0)
    assert session.ledger.remaining() == PureDP(1.0)


def test_answers_belong_to_their_tables():
    """A stored answer of joined rows is not one of the first table alone."""
    first, second = tables(PEOPLE, ROWS)
    session = Session(first, JOINED, ledger=":memory:", budget=PureDP(3.0), related={"visits": second})
    session.count(epsilon=1.0, name="r")
    alone = Session(first, Schema(columns={"arm": ARM}, unit=UNIT), ledger=session.ledger)
    with pytest.raises(DiscreetError):
        alone.count(epsilon=1.0, name="r")


def test_formulas_read_several_tables():
    schema = Schema(
        columns={"age": Bounds(0, 99, grid=1), "ratio": Bounds(0, 99, grid=1, value=Formula("cost + age"))},
        unit=UNIT,
        related={
            "visits": replace(VISITS, columns={"cost": COST, "twice": Bounds(0, 18, grid=1, value=Formula("cost * 2"))})
        },
        where=Formula("twice >= 4 and age > 1"),
    )
    first = open_source(pa.table({"person": [1, 2, 3], "age": [10, 20, 1]}))
    second = open_source(pa.table({"who": [1, 1, 2, 3], "cost": [1, 2, 3, 4]}))
    taken = take_joined(first, schema, {"visits": second}, salt=SALT)
    found = [{name: row[x] for name, x in taken.names.items()} for row in first.fetch(taken.table).to_pylist()]
    assert sorted(row["ratio"] for row in found) == [12, 23]
    assert schema_from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    assert replace(schema, where=None).columns == schema.columns


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Schema(columns={}, related={"v": VISITS}), "needs an id column"),
        (lambda: Schema(columns={"cost": ARM}, unit=UNIT, related={"v": VISITS}), "is a column of two tables"),
        (lambda: Schema(columns={}, unit=UNIT, related={"v": VISITS, "w": VISITS}), "is a column of two tables"),
        (lambda: Schema(columns={}, unit=UNIT, related={"v": Related(id="w", rows=1, counted="person")}), "two tables"),
        (lambda: Related(id="who", rows=0, counted="n"), "rows"),
        (lambda: Related(id="who", rows=1), "must not be empty"),
        (lambda: Schema(columns={}, unit=UNIT, related={"v": replace(VISITS, where=Formula("arm == 'A'"))}), "'arm'"),
        (lambda: Schema(columns={}, unit=UNIT, related={"v": "visits.csv"}), "Related"),
    ],
)
def test_what_cannot_be_joined_is_refused(make, words):
    with pytest.raises(InvalidParameter) as refused:
        make()
    assert words in str(refused.value)


def test_sessions_need_the_tables_that_the_schema_names():
    first, second = tables(PEOPLE, ROWS)
    for related in (None, {"visit": second}, {"visits": second, "more": second}):
        session = Session(first, JOINED, ledger=":memory:", budget=PureDP(1.0), related=related)
        with pytest.raises(SourceError, match="Nothing was spent"):
            session.count(epsilon=1.0)
        assert session.ledger.spent().epsilon == 0
    session = Session(
        first, JOINED, ledger=":memory:", budget=PureDP(1.0), related={"visits": second.rename_columns(["w", "cost"])}
    )
    with pytest.raises(SourceError, match="has no column 'who'"):
        session.count(epsilon=1.0)
    with pytest.raises(InvalidParameter, match="several tables"):
        session.omitting(PoissonSample(0.5))


def test_lookups_in_public_tables():
    """From listed labels and from unlisted ones; what the public table does not know is unknown."""
    counties = {"0301": "Oslo", "1103": "Rogaland", "1108": "Rogaland"}
    rows = pa.table({"place": ["0301", "1103", "1108", "9999", None, ""]})
    for declared in (PrivateLabels(), Categories(["0301", "1103", "1108", "9999"])):
        schema = Schema(columns={"place": declared, "county": Categories.coded(counties, value=Formula("place"))})
        found = totals(take_joined(open_source(rows), schema, {}, salt=SALT), Selected(by=("county",)))
        assert found.counts.tolist() == [1, 2]


PLAN = """
title = "Injured people"

[source]
path = "people.csv"

[source.related.visits]
path = "visits.csv"
delimiter = ";"

[budget]
epsilon = 40.0

[schema]
where = "visits >= 1"

[schema.unit]
column = "person"
total = 1

[schema.columns.arm]
categories = ["A", "B"]

[schema.related.visits]
id = "who"
rows = 5
counted = "visits"
where = "reason == 'injury'"

[schema.related.visits.columns.reason]
categories = ["check", "injury"]

[[release]]
name = "injured"
ask = "count"
by = ["arm"]
"""


def written(folder, plan=PLAN):
    (folder / "people.csv").write_text("person,arm\n" + "".join(f"p{n},{'AB'[n % 2]}\n" for n in range(60)))
    visits = [f"p{n};{'injury' if n % 3 else 'check'}" for n in range(50)] + ["p1;injury", "nobody;injury"]
    (folder / "visits.csv").write_text("who;reason\n" + "\n".join(visits) + "\n")
    (folder / "plan.toml").write_text(plan)
    return Job(folder / "plan.toml")


def test_a_plan_of_two_tables(tmp_path):
    result = written(tmp_path).run()
    released = json.loads(result.results.read_text())
    expected = [sum(n % 3 != 0 and n % 2 == arm for n in range(50)) for arm in (0, 1)]
    assert released["releases"]["injured"]["value"] == expected
    assert any("visits" in said for said in released["facts"]["assumptions"])
    assert Job(tmp_path / "plan.toml").run().drawn == 0
    changed = written(tmp_path, PLAN.replace("rows = 5", "rows = 4"))
    assert not changed.finished()
    with Ledger(tmp_path / "people.ledger", read_only=True) as ledger:
        assert ledger.spent().epsilon == pytest.approx(40.0)


@pytest.mark.parametrize(
    ("line", "wrong", "words"),
    [
        ('id = "who"', 'ids = "who"', "is not a setting"),
        ("where = \"reason == 'injury'\"", "where = \"reason == 'ijury'\"", "Did you mean 'injury'"),
        ('delimiter = ";"', 'delimiter = "xx"', "delimiter"),
        ('counted = "visits"', 'counted = "arm"', "two tables"),
    ],
)
def test_mistakes_in_related_tables_are_located(tmp_path, line, wrong, words):
    text = PLAN.replace(line, wrong, 1)
    with pytest.raises(PlanFileError) as refused:
        written(tmp_path, text)
    assert words in str(refused.value)
    number = next(n for n, one in enumerate(text.splitlines(), start=1) if one == wrong)
    assert abs(int(str(refused.value).split("plan.toml:")[1].split(":")[0]) - number) <= 3


def test_a_related_source_that_is_not_named_is_refused(tmp_path):
    job = written(tmp_path, PLAN.replace("[source.related.visits]", "[source.related.visit]"))
    with pytest.raises(DiscreetError, match="Nothing was spent"):
        job.run()
