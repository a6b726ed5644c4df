"""Schemas declare public facts once, refuse what cannot hold, and survive a round trip."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.core.errors import DiscreetError, InvalidParameter
from discreet.core.protection import Neighbours
from discreet.core.schema import Bounds, Categories, Contribution, Feature, PrivacyUnit, PrivateLabels, Schema
from discreet.plans.declarations import schema_from_dict


@pytest.mark.parametrize(
    ("build", "names"),
    [
        (lambda: Bounds(1, 0, grid=1), "bounds"),
        (lambda: Bounds(0, math.inf, grid=1), "high"),
        (lambda: Bounds(math.nan, 1, grid=1), "low"),
        (lambda: Bounds(0, 1, grid=0), "grid"),
        (lambda: Bounds(0, 1, grid=0.3), "high"),
        (lambda: Bounds(0, 1e308, grid=1), "grid"),
        (lambda: Bounds(0, 1, grid=0.1, nulls="ignore"), "nulls"),
        (lambda: Bounds(0, 1, grid=0.1, nulls=2), "nulls"),
        (lambda: Bounds("0", 1, grid=1), "low"),
        (lambda: Categories("ab"), "labels"),
        (lambda: Categories([]), "labels"),
        (lambda: Categories(["a", "a"]), "labels"),
        (lambda: Categories(["a", 1]), "labels"),
        (lambda: Categories([0.5, 1.5]), "labels"),
        (lambda: Categories(["a"], unknown="=b"), "unknown"),
        (lambda: Categories(["a"], nulls="a"), "nulls"),
        (lambda: Contribution(), "contribution"),
        (lambda: Contribution(rows=0), "rows"),
        (lambda: Contribution(rows=True), "rows"),
        (lambda: Contribution(rows=1, total=1), "total"),
        (lambda: PrivacyUnit(""), "column"),
        (lambda: PrivacyUnit(contribution=Contribution(rows=1)), "contribution"),
        (lambda: PrivacyUnit("u", nulls="keep"), "nulls"),
        (lambda: Schema(columns={"x": "number"}), "columns"),
        (lambda: Schema(columns={"u": Categories(["a"])}, unit=PrivacyUnit("u")), "unit"),
        (lambda: Schema(columns={}, size=5), "size"),
        (lambda: Schema(columns={}, neighbours=Neighbours.REPLACE_ONE), "size"),
        (lambda: Schema(columns={}).column("x"), "column"),
        (lambda: Schema(columns={"x": Bounds(0, 1, 1)}).categories("x"), "column"),
        (lambda: Schema(columns={}).contribution(Contribution(rows=1)), "contribution"),
        (lambda: Schema(columns={}, unit=PrivacyUnit("u")).contribution(), "contribution"),
        (lambda: schema_from_dict({"colums": {}}), "schema.colums"),
        (lambda: schema_from_dict({"columns": {"x": {"low": 0, "grid": 1}}}), "schema.columns.x.high"),
        (lambda: schema_from_dict({"columns": {"x": 5}}), "schema.columns.x"),
        (lambda: schema_from_dict({"neighbours": "nearby"}), "schema.neighbours"),
    ],
)
def test_refusals_name_the_parameter(build, names):
    with pytest.raises(DiscreetError) as refusal:
        build()
    assert refusal.value.name.startswith(names)


def test_round_trip():
    schema = Schema(
        columns={
            "spend": Bounds(-5, 99.99, grid=0.01, nulls=0),
            "arm": Categories(["A", "B"], unknown="=B"),
            "year": Categories([2024, 2025], nulls=2025),
            "member": Categories([True, False], nulls="refuse", unknown="refuse"),
        },
        unit=PrivacyUnit("device", contribution=Contribution(groups=2, rows=3), nulls="refuse"),
        neighbours=Neighbours.REPLACE_ONE,
        size=10,
    )
    assert schema_from_dict(schema.to_dict()) == schema
    assert schema.columns["member"].keeps_every_row
    assert not schema.columns["arm"].keeps_every_row


@given(st.floats(allow_nan=False), st.integers(1, 400), st.integers(-50, 50))
def test_every_value_lands_on_the_grid_inside_the_bounds(value, width, low):
    bounds = Bounds(low / 4, (low + width) / 4, grid=0.25)
    index = bounds.index(value)
    assert bounds.lowest <= index <= bounds.highest
    if bounds.low <= value <= bounds.high:
        assert abs(index * 0.25 - value) <= 0.125


@pytest.mark.parametrize(
    ("limits", "groups", "rows", "in_a_group"),
    [
        (Contribution(groups=2, rows=3), 2, 6, 3),
        (Contribution(rows=3), 12, 36, 3),
        (Contribution(total=5), 5, 5, 5),
        (Contribution(groups=50, rows=1), 12, 12, 1),
    ],
)
def test_limits_of_a_unit(limits, groups, rows, in_a_group):
    assert (limits.most_groups(12), limits.most_rows(12), limits.most_rows_in_a_group()) == (groups, rows, in_a_group)


def test_what_readers_are_told_changes_no_declaration_and_is_kept():
    def declared(**said):
        columns = {"INC": Bounds(0, 10, **said), "P": PrivateLabels(label=said.get("label", ""))}
        spend = Feature(of="INC", take="sum", low=0, high=20, label="Spending")
        unit = PrivacyUnit("id", contribution=Contribution(total=2), label="person")
        return Schema(columns=columns, unit=unit, features={"spend": spend}, noun="visit")

    schema = declared(label="Income", measured_in="€")
    assert schema == declared()
    assert hash(schema.columns["INC"]) == hash(Bounds(0, 10))
    assert schema.facts_of(["INC"]) == declared().facts_of(["INC"])  # a stored answer is found again
    told = {"spend": "Spending", "id": "person", "row": "visit"}
    assert schema.names_for_readers() == {"INC": "Income in €", "P": "Income", **told}
    assert declared(measured_in="€").names_for_readers() == {"INC": "INC in €", **told}
    assert schema.per_unit().names_for_readers() == schema.names_for_readers()
    for one in (schema, schema.per_unit()):
        assert schema_from_dict(one.to_dict()).names_for_readers() == one.names_for_readers()
        assert schema_from_dict(one.to_dict(named=False)).names_for_readers() == {}
    assert schema.declaring(INC=Bounds(0, 9)).names_for_readers()["INC"] == "Income in €"
    two = Schema(columns={"a": Bounds(0, 1, label="Age"), "b": Bounds(0, 1, label="Age")})
    assert two.names_for_readers() == {}  # readers could not tell them apart
    with pytest.raises(InvalidParameter, match="names rows, as a column is called row"):
        Schema(columns={"row": Bounds(0, 1)}, noun="person")
    for wrong in (3, None, " ", "\0"):
        with pytest.raises(InvalidParameter, match="must be text"):
            Bounds(0, 1, label=wrong)
