"""Profiles: cells against plain Python, bounds and intervals against the data, codebooks, plan files and commands."""

import itertools
import json
import math
import os
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest

from discreet import (
    ApproxDP,
    Bounds,
    Categories,
    Contribution,
    Formula,
    GaussianDP,
    Neighbours,
    PrivacyUnit,
    PrivateBounds,
    PrivateLabels,
    PrivateLimit,
    PureDP,
    Schema,
    Session,
)
from discreet.cli.main import main
from discreet.core.errors import InsufficientBudget, InvalidParameter, NoConversion, SourceError
from discreet.mechanisms import Gaussian, Laplace, PoissonSample
from discreet.plans.declarations import schema_from_dict
from discreet.plans.job import Job
from discreet.plans.plan_file import PlanFile
from discreet.plans.profile import plan_profile, run_profile
from discreet.plans.review import review
from discreet.publish.pages import _chart
from discreet.questions.distinct import DistinctLabels
from discreet.questions.profile.columns import UNIT_SIZES, CellCounts, even_edges, octave_quarters, tidy_bounds
from discreet.questions.profile.question import ProfileQuestion, UnitSizes, counted_units

NOTHING = Schema(columns={})
PEOPLE = Schema(columns={}, unit=PrivacyUnit("person"))


def people(n, seed=3):
    rng = np.random.default_rng(seed)
    income = np.where(rng.random(n) < 0.3, 0, np.round(np.exp(rng.normal(10.2, 0.7, n))))
    days = rng.integers(0, 12000, n)
    return {
        "age": rng.integers(0, 96, n),
        "income": income.astype(int),
        "height": np.round(rng.normal(171, 9, n), 1),
        "born": np.array([str(np.datetime64("1970-01-01") + np.timedelta64(int(day), "D")) for day in days]),
        "city": rng.choice(["Oslo", "Bergen", ""], n, p=[0.6, 0.3, 0.1]),
        "note": np.array([f"note {k}" for k in range(n)]),
    }


@pytest.fixture(scope="module")
def table():
    return pa.table({name: [str(one) for one in values.tolist()] for name, values in people(4000).items()})


@pytest.fixture(scope="module")
def sharp(table):
    """A profile with hardly any noise."""
    return Session(table, NOTHING, ledger=":memory:", budget=PureDP(60.0)).profile(epsilon=60.0)


def test_without_noise_everything_is_found(sharp):
    data, columns = people(4000), sharp.columns
    kinds = {name: one.kind for name, one in columns.items()}
    assert kinds == {
        "age": "whole number", "income": "whole number", "height": "number", "born": "date", "city": "label",
        "note": "text",
    }  # fmt: skip
    for name in ("age", "income", "height"):
        one, values = columns[name], data[name]
        inside = float(np.mean((values >= one.low) & (values <= one.high)))
        assert inside >= 0.95
        assert one.held.interval.low - 1e-6 <= inside
        spread = np.subtract(*np.quantile(values, [0.95, 0.05]))
        assert one.high - one.low <= 2 * spread
        for q, quartile in zip((0.25, 0.5, 0.75), one.quartiles, strict=True):
            assert quartile.interval.contains(np.quantile(values, q, method="inverted_cdf"))
    assert columns["city"].missing.value == pytest.approx(np.mean(data["city"] == ""), abs=0.002)
    assert columns["city"].distinct.value == 2
    assert columns["note"].distinct.value == 4000
    assert abs(sharp.units.value - 4000) < 2


def test_a_narrow_range_far_from_zero_is_divided_once_more(sharp):
    assert "height" in sharp.narrower
    assert sharp.columns["height"].high - sharp.columns["height"].low < 60


@pytest.mark.parametrize(
    "spent", [PureDP(1.0), PureDP(1000.0), ApproxDP(1.0, 1e-6), GaussianDP(0.3), ApproxDP(1.0, 0.0)]
)
def test_every_kind_of_guarantee_is_spent_within_its_claim(table, spent):
    session = Session(table, NOTHING, ledger=":memory:", budget=spent)
    found = session.profile(guarantee=spent, columns=["age", "city"])
    assert found.columns["age"].kind == "whole number"
    assert found.columns["age"].high <= 200
    assert "age" in str(found)
    assert max(map(len, str(found).splitlines())) <= 80


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 1000.0])
def test_a_plan_says_how_many_are_needed(epsilon):
    assert "need about" in ProfileQuestion(NOTHING, epsilon=epsilon, columns=["x"]).plan().notes[0]


def test_many_columns_take_normal_noise_and_one_does_not():
    many = ProfileQuestion(NOTHING, epsilon=1.0, delta=1e-6, columns=[f"x{k}" for k in range(60)])
    assert (many.first.name, many.claim(None).counted.name) == ("gaussian", "gdp")
    one = ProfileQuestion(NOTHING, epsilon=1.0, delta=1e-6, columns=["x"])
    assert one.first.name == "geometric"


def test_intervals_hold_although_bounds_are_chosen_by_the_noise():
    """300 noisy histograms of one column: quartiles and the proportion inside lie in their intervals."""
    rng = np.random.default_rng(8)
    values = np.sort(np.exp(rng.normal(3, 0.6, 2000)))
    edges = octave_quarters(4.0, 128.0, whole=False)
    truth = np.diff(np.r_[0, np.searchsorted(values, edges), values.size])
    mechanism = Gaussian(scale=15.0)
    missed = np.zeros(2)
    for _ in range(300):
        counts = CellCounts(edges, truth + rng.normal(0, 15, truth.size), mechanism)
        chosen = counts.bounds(0.95)
        outside = np.sum((values < chosen.low) | (values >= chosen.high))
        _, least, most = counts.outside(chosen, 0.95)
        _, low, high = counts.quantile(0.5, 0.95)
        missed += [not least <= outside <= most, not low <= np.median(values) <= high]
    assert (missed <= 0.05 * 300 + 3 * math.sqrt(0.05 * 0.95 * 300)).all()


def test_counts_of_two_grids_are_combined_by_least_squares():
    first = CellCounts((0.0, 8.0), np.array([0.0, 100.0, 0.0]), Gaussian(scale=2.0))
    second = CellCounts((0.0, 2.0, 4.0, 8.0), np.array([0.0, 30.0, 30.0, 30.0, 0.0]), Gaussian(scale=2.0))
    assert second.adjusted(first) == pytest.approx([0, 32.5, 32.5, 32.5, 0])  # 10 too few, a fourth of it to each


def test_a_clear_spike_far_out_stays_where_it_is():
    """Six in a hundred values lie behind empty cells: smoothing must not spread them inwards."""
    edges = tuple(float(2**power) for power in range(8))
    spike = CellCounts(edges, np.array([0, 500, 440, 0, 0, 0, 0, 0, 60.0]), Gaussian(scale=5.0))
    assert spike.bounds(0.95).high == 128.0
    faint = CellCounts(edges, np.array([0, 500, 500, -6, 8, -5, 9, -7, 8.0]), Gaussian(scale=5.0))
    assert faint.bounds(0.95).high == 4.0


@pytest.mark.parametrize("names", [["age", "city"], ["city"], ["age"]])
def test_units_are_counted_by_every_histogram(table, names):
    found = Session(table, NOTHING, ledger=":memory:", budget=PureDP(3.0)).profile(epsilon=3.0, columns=names)
    assert found.units.interval.contains(4000)
    assert (found.units.interval.high - found.units.interval.low) < 120
    assert found.columns[names[0]].missing.interval.low < 0.15


def test_the_number_of_units_lies_in_its_interval_as_often_as_is_said():
    rng = np.random.default_rng(6)
    by, sizes, missed = (Laplace(4.0), Laplace(9.0)), (1, 12), 0
    for _ in range(2000):
        drawn = [rng.laplace(100 / size, one.scale, size) for one, size in zip(by, sizes, strict=True)]
        missed += not counted_units(zip(by, drawn, strict=True), 0.9).interval.contains(100)
    assert abs(missed / 2000 - 0.1) < 4 * math.sqrt(0.09 / 2000)


def test_edges_cover_what_was_found():
    assert octave_quarters(0.0, 1024.0, whole=True)[:2] == (0.0, 1.0)
    assert octave_quarters(-4.0, 4.0, whole=False)[0] == -8.0
    for low, high in ((0.0, 3.0), (1.0, 1.5), (-7.25, 1000.0)):
        moved = tidy_bounds(low, high, whole=False)
        assert moved[0] <= low < high <= moved[1]
        assert moved[1] - moved[0] <= 1.03 * (high - low)
    assert even_edges(0.0, 5.0, whole=True)[-1] >= 5.0


def test_units_count_once_and_their_sizes_say_which_limit_loses_least():
    rng = np.random.default_rng(5)
    sizes = rng.choice([1, 2, 3, 40], 3000, p=[0.5, 0.3, 0.19, 0.01])
    ids = np.repeat(np.arange(3000), sizes)
    table = pa.table({"person": ids, "age": rng.integers(0, 90, ids.size)})
    found = Session(table, PEOPLE, ledger=":memory:", budget=PureDP(5.0)).profile(epsilon=5.0)
    assert found.names == ("age",)
    assert abs(found.units.value - 3000) < 30
    assert found.unit_sizes.best_limit in (2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
    assert found.unit_sizes.dropped(3) < found.unit_sizes.dropped(1)
    assert "loses least" in str(found)


def test_a_source_without_values_is_answered_not_refused():
    empty = pa.table({"a": pa.array([], "string"), "b": pa.array([], "float64")})
    found = Session(empty, NOTHING, ledger=":memory:", budget=PureDP(1.0)).profile(epsilon=1.0)
    assert all(one.declared() is None for one in found.columns.values())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"columns": ["person"]}, "must name columns other than the id"),
        ({"columns": ["age"], "proportion": 0.2}, "between 0.5 and 0.999"),
        ({"columns": ["age"], "order": "ydm"}, "must be one of"),
        ({"columns": ["age", "age"]}, "must not repeat"),
    ],
)
def test_what_cannot_be_answered_is_refused_before_anything_is_read(settings, words):
    with pytest.raises(InvalidParameter, match=words):
        ProfileQuestion(PEOPLE, epsilon=1.0, **settings)


def test_a_profile_of_nothing_is_refused():
    with pytest.raises(InvalidParameter, match="must name columns"):
        ProfileQuestion(NOTHING, epsilon=1.0, columns=())


def test_a_profile_of_no_column_counts_units_and_their_rows():
    session = Session(visits(), PEOPLE, ledger=":memory:", budget=PureDP(1.0))
    found = session.ask(ProfileQuestion(PEOPLE, epsilon=1.0, columns=()))
    assert found.stages[0].mechanism.scale == 1.0
    assert found.units.interval.contains(3000)
    assert "loses least" in str(found)
    assert len(found.readings()) == 3
    assert type(found).from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_a_missing_column_spends_nothing(table):
    session = Session(table, NOTHING, ledger=":memory:", budget=PureDP(1.0))
    with pytest.raises(SourceError, match="agee"):
        session.profile(epsilon=1.0, columns=["agee"])
    assert session.ledger.remaining() == PureDP(1.0)


@pytest.fixture
def csv_file(tmp_path, table, monkeypatch):
    import pyarrow.csv

    monkeypatch.chdir(tmp_path)
    pyarrow.csv.write_csv(table, tmp_path / "people.csv")
    return tmp_path / "people.csv"


def test_a_codebook_becomes_a_plan_that_runs(csv_file, tmp_path):
    planned = plan_profile("people.csv", ApproxDP(2.0, 1e-6))
    assert planned.session.ledger.remaining() == planned.session.ledger.budget == ApproxDP(4.0, 2e-6)
    assert planned.cost.within(ApproxDP(2.0, 1e-6))
    book = run_profile(planned)
    assert set(book.labels["city"].labels) == {"Oslo", "Bergen"}
    (tmp_path / "plan.toml").write_text(book.plan_text(), encoding="utf-8")
    plan = PlanFile.read(tmp_path / "plan.toml")
    assert plan.sources["age"] == f"released privately, release {book.profile.release_id[:8]}"
    assert plan.schema.categories("city").labels == ("Bergen", "Oslo")
    assert plan.schema.bounds("born").unit == "day"
    spent = planned.session.ledger.spent()
    again = run_profile(plan_profile("people.csv", ApproxDP(2.0, 1e-6)))
    assert again.profile == book.profile
    assert again.remaining == book.remaining
    assert planned.session.ledger.spent() == spent


def test_a_codebook_leaves_as_page_xml_csv_and_frame(csv_file):
    book = run_profile(plan_profile("people.csv", PureDP(5.0), ledger=":memory:", budget=PureDP(5.0)))
    page = book.html()
    assert "<script" not in page
    assert page.count("<svg") == 4
    root = ElementTree.fromstring(book.ddi())
    assert [one.get("name") for one in root.iter("{ddi:codebook:2_5}var")] == list(book.profile.names)
    assert book.csv().splitlines()[0].startswith("column,measure,estimate")
    assert json.loads(book.to_json())["columns"][0]["kind"] == "whole number"
    assert book.to_arrow().num_rows == len(book.rows())


def test_whole_numbers_beyond_what_a_grid_holds_become_a_plan_too():
    table = pa.table({"x": [str(10**k) for k in range(9, 16)] * 400})
    found = Session(table, NOTHING, ledger=":memory:", budget=PureDP(9.0)).profile(epsilon=9.0)
    assert found.columns["x"].declared().high > 2**40
    assert json.loads(json.dumps(found.columns["x"].to_dict()))["declared"]["high"] > 2**40


def test_declared_columns_are_left_alone(csv_file):
    schema = Schema(columns={"city": Categories(["Oslo", "Bergen"])})
    book = run_profile(plan_profile("people.csv", PureDP(1.0), schema=schema, ledger=":memory:", budget=PureDP(1.0)))
    assert "city" not in book.profile.names
    assert book.origin("city") == "declared"
    assert 'source = "declared"' in book.plan_text()


def test_money_and_percent_are_numbers_where_their_marks_are_declared(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f'"${1000 + 2 * k:,}.50",{k % 60}.5%,{k % 90:05d}' for k in range(2000)]
    Path("sales.csv").write_text("\n".join(["spent,rate,zip", *lines]) + "\n", encoding="utf-8")
    command = ["profile", "sales.csv", "--epsilon", "8", "--codes", "zip", "--ledger", "other.ledger", "--yes"]
    Path("plans").mkdir()
    main([*command, "--thousands", ",", "--symbols", "$ %", "--out", "plans/sales.toml"])
    plan = PlanFile.read(tmp_path / "plans" / "sales.toml")
    assert 4000 <= plan.schema.bounds("spent").high <= 8000
    assert 50 <= plan.schema.bounds("rate").high <= 80
    assert isinstance(plan.schema.columns["zip"], PrivateLabels)
    assert Job(plan).plan(rehearse=False).releases  # finds the ledger that the profile was paid from
    assert "sales.ledger" not in os.listdir()


def test_a_profile_that_is_only_planned_leaves_no_ledger(csv_file, tmp_path):
    planned = plan_profile("people.csv", PureDP(1.0))
    assert "numbers like 1234.5; dates like 2024-01-31" in str(planned).replace("\n" + " " * 14, " ")
    assert os.listdir(tmp_path) == ["people.csv"]
    assert not planned.released
    assert run_profile(planned).ledger == str(tmp_path / "people.ledger")
    again = plan_profile("people.csv", PureDP(1.0))
    assert again.released
    assert "costs nothing" in str(again)


def test_bars_of_a_codebook_are_as_wide_as_their_cells(csv_file):
    """Even values make a level histogram, although cells are wider where values are larger."""
    table = pa.table({"x": [str(k / 10) for k in range(10_240)]})
    found = Session(table, NOTHING, ledger=":memory:", budget=PureDP(40.0)).profile(epsilon=40.0)
    one = found.columns["x"]
    bars = _chart({**one.to_dict(), "range_words": one.range_words()})["bars"]
    assert len(bars) > 5
    assert all(float(bar["height"]) > 0.9 * 36 for bar in bars if float(bar["width"]) > 1)  # bounds end a bit later
    assert sum(float(bar["width"]) for bar in bars) > 0.9 * 170


def test_the_command_shows_the_cost_first_and_spends_once(csv_file, tmp_path, capsys):
    command = ["profile", "people.csv", "--epsilon", "2"]
    with pytest.raises(SystemExit):
        main(command)
    assert "Add --yes" in capsys.readouterr().err
    main([*command, "--yes", "--out", "plan.toml", "--html", "page.html"])
    shown = capsys.readouterr()
    assert "at most" in shown.err
    assert "whole number" in shown.out
    main(["plan", "plan.toml"])
    assert "ε = 2 left" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([*command, "--yes", "--out", "plan.toml"])
    assert "exists already" in capsys.readouterr().err


def test_distinct_labels_move_no_further_than_is_said():
    """Brute force: units with up to two labels in two groups, added and replaced."""
    pairs = [(group, label) for group in (0, 1) for label in "ab"]
    units = [one for size in range(3) for one in itertools.combinations(pairs, size)]

    def counted(held):
        return np.array([len({label for g, label in set(itertools.chain(*held)) if g == group}) for group in (0, 1)])

    added = replaced = alone = 0.0
    for rest in units:
        for one in units:
            added = max(added, np.abs(counted([rest, one]) - counted([rest])).sum())
            for other in units:
                change = counted([rest, one]) - counted([rest, other])
                replaced = max(replaced, np.abs(change).sum())
                alone = max(alone, np.abs(change).max())
    said = DistinctLabels(labels=2)
    assert said.sensitivity(neighbours=Neighbours.ADD_REMOVE, groups=2).l1 == added == 2
    assert said.sensitivity(neighbours=Neighbours.REPLACE_ONE, groups=2).l1 == replaced == 4
    assert said.sensitivity(neighbours=Neighbours.REPLACE_ONE).l1 == alone == 2


@pytest.mark.parametrize(("neighbours", "sides"), [(Neighbours.ADD_REMOVE, 1), (Neighbours.REPLACE_ONE, 2)])
def test_a_unit_moves_a_cell_of_each_histogram_or_two_where_it_is_replaced(neighbours, sides):
    size = 7 if neighbours is Neighbours.REPLACE_ONE else None
    for unit, histograms in ((PrivacyUnit(), 2), (PrivacyUnit("person"), 3)):  # of sizes, too
        schema = Schema(columns={}, unit=unit, neighbours=neighbours, size=size)
        asked = ProfileQuestion(schema, epsilon=1.0, columns=["age", "income"])
        assert asked.claim(None).sensitivity.moves == (1.0,) * histograms * sides
        assert asked._moved(2, 1).l1 == 2 * sides + 1  # distinct labels of one column move by one in either case


def test_distinct_counts_labels_units_and_groups():
    table = pa.table({"person": [1, 1, 2, 2, 3, None], "city": ["a", "b", "a", "", "c", "d"], "half": list("LRLLRR")})
    schema = Schema(
        columns={"city": PrivateLabels(), "half": Categories(["L", "R"])},
        unit=PrivacyUnit("person", contribution=Contribution(total=2)),
    )
    session = Session(table, schema, ledger=":memory:", budget=PureDP(1000.0))
    assert session.distinct("city", epsilon=200.0).value == 3
    assert session.distinct("person", epsilon=200.0).value == 3
    by = session.distinct("city", epsilon=200.0, by="half")
    assert [by["L"].value, by["R"].value] == [1, 2]
    once = session.distinct("city", epsilon=200.0, contribution=Contribution(total=1))
    assert once.value in (2, 3)  # person 1 keeps one of two


INCOMES = np.round(np.exp(np.random.default_rng(2).normal(10, 0.7, 5000)))


def private(**settings):
    return Schema(columns={"income": PrivateBounds(0, 50_000, proportion=0.99, **{"epsilon": 0.2, **settings})})


def test_private_bounds_are_paid_once_and_used_by_every_question():
    table = pa.table({"income": INCOMES})
    session = Session(table, private(), ledger=":memory:", budget=PureDP(2.0))
    planned = session.plan.mean("income", epsilon=0.5, expected_rows=5000)
    assert session.ledger.remaining() == PureDP(2.0)
    mean = session.mean("income", epsilon=0.5)
    assert session.ledger.remaining() == PureDP(1.3)
    assert planned.guarantee == mean.guarantee == PureDP(0.5)
    assert "do not account for values beyond" in str(mean)
    assert abs(mean.estimate - INCOMES.mean()) < 3000
    session.median("income", epsilon=0.5)
    assert session.ledger.remaining() == PureDP(0.8)
    session.count(epsilon=0.3)
    assert session.ledger.remaining() == PureDP(0.5)


def test_a_stored_answer_with_private_bounds_needs_no_data(tmp_path):
    table = pa.table({"income": INCOMES})
    first = Session(table, private(), ledger=tmp_path / "l.ledger", budget=PureDP(1.0))
    mean = first.mean("income", epsilon=0.5, name="mine")
    again = Session("no-such-file.csv", private(), ledger=first.ledger).mean("income", epsilon=0.5, name="mine")
    assert again.to_dict() == mean.to_dict()


def test_expected_bounds_hold_where_no_number_stands_out():
    table = pa.table({"income": ["x"] * 50})
    session = Session(table, private(), ledger=":memory:", budget=PureDP(1.0))
    assert session.sum("income", epsilon=0.5).sensitivity.l1 == 50_000


def test_private_bounds_refuse_what_they_cannot_keep():
    with pytest.raises(InvalidParameter, match="may lie outside"):
        private(nulls=50)
    with pytest.raises(InvalidParameter, match="epsilon"):
        PrivateBounds(0, 1, epsilon=0.0)


def test_private_bounds_behind_a_step_are_those_of_all_rows():
    session = Session(pa.table({"income": INCOMES}), private(), ledger=":memory:", budget=PureDP(2.0))
    sampled = session.omitting(PoissonSample(0.5))
    mean = sampled.mean("income", epsilon=0.5)
    assert session.ledger.remaining() == PureDP(1.3)
    assert mean.mechanism.name == "behind_omission"
    assert abs(mean.estimate - INCOMES.mean()) < 5000
    session.mean("income", epsilon=0.5)  # the bounds are paid for
    assert session.ledger.remaining() == PureDP(0.8)
    other = Session(pa.table({"income": INCOMES}), private(epsilon=0.3), ledger=session.ledger)
    with pytest.raises(NoConversion, match="The ledger counts in PureDP"):
        other.omitting(PoissonSample(0.5)).mean("income", rho=0.1)
    assert session.ledger.remaining() == PureDP(0.8)


def visits(n=3000, seed=5):
    rng = np.random.default_rng(seed)
    sizes = rng.choice([1, 2, 3, 40], n, p=[0.5, 0.3, 0.19, 0.01])
    ids = np.repeat(np.arange(n), sizes)
    return pa.table({"person": ids, "age": rng.integers(0, 90, ids.size)})


def limited(**settings):
    unit = PrivacyUnit("person", contribution=PrivateLimit(total=5, epsilon=0.5))
    return Schema(columns={"age": Bounds(0, 100, grid=1)}, unit=unit, **settings)


def test_a_private_limit_is_paid_for_once_and_fits_each_question():
    session = Session(visits(), limited(), ledger=":memory:", budget=PureDP(4.0))
    assert session.plan.count(epsilon=1.0).scale == pytest.approx(5.0)  # the expected limit
    counted = session.count(epsilon=1.0)
    assert session.ledger.remaining() == PureDP(2.5)
    exact = session.count(epsilon=2.0)
    assert session.ledger.remaining() == PureDP(0.5)
    limits = [one.sensitivity.l1 for one in (counted, exact)]
    assert 3 <= limits[0] <= limits[1] <= 48
    assert f"at most {limits[0]:.0f} rows of each person, released privately" in counted.public["limit"]
    assert "do not account for rows beyond" in " ".join(str(counted).split())
    assert abs(counted.value - 6120) < 1500


def test_a_limit_of_its_own_or_none_at_all_needs_no_release():
    session = Session(visits(), limited(), ledger=":memory:", budget=PureDP(2.0))
    session.count(epsilon=0.5, contribution=Contribution(total=3))
    session.distinct("person", epsilon=0.5)
    assert session.ledger.remaining() == PureDP(1.0)
    found = session.count(epsilon=0.5, contribution=PrivateLimit(total=2, epsilon=0.25))
    assert "released privately" in found.public["limit"]
    assert session.ledger.remaining() == PureDP(0.25)


@pytest.mark.parametrize(
    "schema", [limited(neighbours=Neighbours.REPLACE_ONE, size=3000), limited(where=Formula("age > 50"))]
)
def test_private_limits_go_with_replaced_units_and_filters(schema):
    session = Session(visits(), schema, ledger=":memory:", budget=PureDP(2.0))
    assert "limit" in session.mean("age", epsilon=1.0).public
    assert session.ledger.remaining() == PureDP(0.5)


def test_nothing_is_spent_first_where_the_question_cannot_be_paid_for_or_answered():
    session = Session(visits(), limited(), ledger=":memory:", budget=PureDP(1.0))
    with pytest.raises(InsufficientBudget):
        session.count(epsilon=0.7)
    with pytest.raises(InvalidParameter, match="not declared"):
        session.mean("agee", epsilon=0.1)
    assert session.ledger.remaining() == PureDP(1.0)


@pytest.mark.parametrize("settings", [{"rows": 3}, {"total": 0}, {"total": 4, "epsilon": 0.0}, {}])
def test_private_limits_refuse_what_they_cannot_keep(settings):
    with pytest.raises(InvalidParameter):
        PrivateLimit(**settings)


def test_a_limit_leaves_as_many_units_whole_as_its_interval_says():
    rng = np.random.default_rng(3)
    truth = np.array([1500, 900, 570, *[0] * 12, 30, *[0] * 5])
    missed = 0
    for _ in range(300):
        found = UnitSizes(truth + rng.laplace(0, 8, truth.size), Laplace(8.0), PureDP(0.3))
        place = UNIT_SIZES.index(found.best_limit + 1)
        missed += not found.whole(0.95).interval.contains(truth[: place + 1].sum() / truth.sum())
    assert missed <= 0.05 * 300 + 3 * math.sqrt(0.05 * 0.95 * 300)


def test_a_plan_file_releases_a_limit_first(tmp_path):
    import pyarrow.csv

    pyarrow.csv.write_csv(visits(), tmp_path / "visits.csv")
    (tmp_path / "plan.toml").write_text(
        '[source]\npath = "visits.csv"\n[budget]\nepsilon = 1.0\n[schema.unit]\ncolumn = "person"\ntotal = 4\n'
        'private = { epsilon = 0.25 }\n[[release]]\nname = "rows"\nask = "count"\nepsilon = 0.5\n'
    )
    job = Job(tmp_path / "plan.toml")
    assert [name for name, _ in job.plan().releases] == ["limit-person", "rows"]
    assert job.plan().cost == PureDP(0.75)
    assert schema_from_dict(job.file.schema.to_dict()) == job.file.schema
    assert "a release for ε = 0.25 finds how many rows" in str(review(tmp_path / "plan.toml"))
    assert job.run().drawn == 2
    assert Job(tmp_path / "plan.toml").run().drawn == 0


PLAN = """
[source]
path = "incomes.csv"
[budget]
epsilon = 1.0
[schema.columns.income]
low = 0
high = 50000
private = { proportion = 0.99, epsilon = 0.2 }
[[release]]
name = "income"
ask = "mean"
column = "income"
epsilon = 0.5
"""


def test_a_plan_file_releases_bounds_first(tmp_path):
    (tmp_path / "incomes.csv").write_text("income\n" + "\n".join(f"{one:.0f}" for one in INCOMES) + "\n")
    (tmp_path / "plan.toml").write_text(PLAN)
    job = Job(tmp_path / "plan.toml")
    planned = job.plan()
    assert [name for name, _ in planned.releases] == ["bounds-income", "income"]
    assert planned.cost == PureDP(0.7)
    done = job.run()
    assert done.drawn == 2
    with job.ledger(write=False) as ledger:
        assert ledger.remaining() == PureDP(0.3)
    assert Job(tmp_path / "plan.toml").run().drawn == 0


@pytest.mark.deep
@pytest.mark.parametrize(
    ("n", "spent", "held", "times", "span", "right"),
    [
        (10_000, PureDP(1.0), 0.95, 2.0, (0.05, 0.95), 19.0),
        (3_000, ApproxDP(1.0, 1e-6), 0.95, 2.0, (0.05, 0.95), 19.0),
        (100_000, PureDP(1.0), 0.99, 1.3, (0.005, 0.995), 19.0),
    ],
)
def test_bounds_of_twenty_census_columns(n, spent, held, times, span, right):
    """What ``docs/howto/profile.md`` says of made-up census columns, all for one budget."""
    from benchmarks.private_bounds import repeated

    _, results = repeated(n, spent, repeats=40, held=held, times=times, span=span)
    assert results.all(axis=2).sum(1).mean() >= right


# ---- few rows -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_too_few_rows_tell_nothing_wrong(seed: int, tmp_path: Path) -> None:
    """545 people and 11 columns at ε = 1: what noise hides is not known, and the plan keeps most of the budget."""
    rng = np.random.default_rng(seed)
    columns = {"year": rng.integers(1950, 2016, 545), "sex": rng.integers(1, 3, 545), "kids": rng.integers(0, 3, 545)}
    columns |= {f"q{place}": rng.integers(1, 6, 545) for place in range(8)}
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    found = run_profile(plan_profile(tmp_path / "people.csv", PureDP(1.0)))
    for one in found.profile.columns.values():
        values = [quartile.value for quartile in one.quartiles]
        assert values == sorted(values)
        assert all(one.low <= value <= one.high for value in values)
        if one.held is not None and one.held.interval.low < 0.5:
            assert one.declared() is None
            assert "how much it holds is not known" in one.words()
    plan = tomllib.loads(found.plan_text())
    assert plan["release"][0]["epsilon"] == pytest.approx(0.1)


def test_a_profile_of_some_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "d.csv").write_text("age,pay\n" + "30,100\n" * 300)
    main(["profile", str(tmp_path / "d.csv"), "--epsilon", "5", "--yes", "--columns", "age", "--json"])
    assert json.loads(capsys.readouterr().out)["profile"]["columns"] == ["age"]


def test_whole_numbers_with_few_values_are_proposed_as_labels():
    rng = np.random.default_rng(1)
    rows = pa.table({
        "two": rng.integers(1, 3, 9000), "three": rng.integers(0, 3, 9000), "many": rng.integers(0, 40, 9000),
        "half": rng.integers(0, 2, 9000) / 2,
    })  # fmt: skip
    session = Session(rows, Schema(columns={}), ledger=":memory:", budget=PureDP(9.0))
    found = session.profile(epsilon=8.0)
    assert found.columns["two"].codes == (1, 2)
    assert found.columns["three"].codes == (0, 1, 2)
    assert found.columns["many"].codes == found.columns["half"].codes == ()
