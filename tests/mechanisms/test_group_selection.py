"""Groups that are not public: exact losses, exact draws, what units keep, and what a session does with the list."""

import itertools

import mpmath
import numpy as np
import pandas as pd
import pytest

from discreet import (
    ApproxDP,
    Categories,
    Contribution,
    Ledger,
    Neighbours,
    PrivacyUnit,
    PrivateLabels,
    PureDP,
    Schema,
    Session,
    ZeroConcentratedDP,
)
from discreet.core.errors import DiscreetError, InvalidParameter, NoConversion, SourceError, WrongType
from discreet.core.rows import take, unit_counts
from discreet.core.rows.source import open_source
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms import GaussianThreshold, OptimalSelection, PoissonSample
from discreet.mechanisms.mechanism import mechanism_from_dict
from discreet.questions.common_labels import ReleasedGroups

WHOLE = 2**256


def moves(count):
    return Sensitivity(moves=(1.0,) * count)


# ---- losses ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", ["0.05", "1.0", "4.0"])
@pytest.mark.parametrize("delta", ["1e-3", "1e-8"])
def test_optimal_selection_loses_what_it_claims_and_no_less(epsilon, delta):
    """Every pair of sizes n, n + 1 and all four events of a bit, in 120 digits; each n is within 1e-30 of its bound."""
    rule = OptimalSelection(epsilon=float(epsilon), delta=float(delta))
    with mpmath.workdps(120):
        growth, claim = mpmath.exp(mpmath.mpf(epsilon)), mpmath.mpf(delta)
        chances = [mpmath.mpf(number) / WHOLE for number in rule.numerators()]
        assert chances[-1] == 1
        assert chances == sorted(chances)
        for low, high in itertools.pairwise(chances):
            losses = [high - growth * low, (1 - low) - growth * (1 - high), low - growth * high]
            losses.append((1 - high) - growth * (1 - low))
            assert max(losses) <= claim
            assert high == 1 or max(losses) >= claim * (1 - mpmath.mpf(10) ** -30)


def test_optimal_selection_agrees_with_the_closed_form():
    """desfontaines2022, Theorem 1: three pieces around n* = 1 + ⌊ln((e^ε + 2δ − 1)/((e^ε + 1)δ))/ε⌋."""
    epsilon, delta = 0.5, 1e-5
    rule = OptimalSelection(epsilon=epsilon, delta=delta)
    growth = np.exp(epsilon)
    turn = 1 + int(np.log((growth + 2 * delta - 1) / ((growth + 1) * delta)) / epsilon)
    sizes = np.arange(1, 2 * turn)
    first = (growth**sizes - 1) / (growth - 1) * delta
    at_turn = (growth**turn - 1) / (growth - 1) * delta
    after = sizes - turn
    second = (1 - np.exp(-after * epsilon)) * (1 + delta / (growth - 1)) + np.exp(-after * epsilon) * at_turn
    expected = np.where(sizes <= turn, first, np.minimum(second, 1.0))
    np.testing.assert_allclose(rule.chance(sizes), expected, rtol=1e-9)


def exact_delta(rule, before, after, epsilon):
    """Hockey-stick of the shown sets on two vectors of sizes, in 60 digits; size 0 is never shown."""

    def chance(size):
        if size == 0:
            return mpmath.mpf(0)
        bar, grid = rule._bar()
        return mpmath.ncdf((mpmath.mpf(size) - mpmath.mpf(bar) - mpmath.mpf(grid) / 2) / mpmath.mpf(rule.scale))

    total = mpmath.mpf(0)
    for shown in itertools.product([True, False], repeat=len(before)):
        p, q = (
            mpmath.fprod(chance(n) if one else 1 - chance(n) for n, one in zip(sizes, shown, strict=True))
            for sizes in (after, before)
        )
        total += max(p - mpmath.exp(mpmath.mpf(epsilon)) * q, mpmath.mpf(0))
    return total


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_gaussian_threshold_loses_at_most_what_it_claims(groups):
    """All neighbours with sizes around 0, around the threshold and far beyond it; alone in all its groups a unit is
    shown with at least 99 % of δ."""
    epsilon, delta = 1.0, 1e-4
    rule = GaussianThreshold.calibrate(ApproxDP(epsilon, delta), moves(groups))
    assert rule.profile(moves(groups)).within(ApproxDP(epsilon, delta))
    around = int(rule.threshold)
    sizes = [0, 1, 2, around - 3, around, around + 6, around + 20]
    with mpmath.workdps(60):
        found = {}
        for before in itertools.combinations_with_replacement(sizes, groups):
            after = tuple(size + 1 for size in before)
            found[before] = max(exact_delta(rule, before, after, epsilon), exact_delta(rule, after, before, epsilon))
        assert max(found.values()) <= mpmath.mpf("1e-4")
        assert found[(0,) * groups] >= mpmath.mpf("0.99e-4")
        replaced = [((1, around), (0, around + 1)), ((1, 0), (0, 1))] if groups == 2 else []
        assert all(exact_delta(rule, *pair, epsilon) <= mpmath.mpf("1e-4") for pair in replaced)


@pytest.mark.parametrize("kind", [OptimalSelection, GaussianThreshold])
@pytest.mark.parametrize("groups", [1, 2, 7, 40])
def test_calibrated_rules_meet_the_guarantee(kind, groups):
    target = ApproxDP(0.7, 1e-7)
    rule = kind.calibrate(target, moves(groups))
    assert rule.profile(moves(groups)).within(target)
    assert not rule.profile(moves(groups + 1)).within(target)
    assert rule.chance([1])[0] * groups <= 1.0001e-7
    size = rule.size_shown(0.9)
    assert rule.chance([size])[0] >= 0.9 > rule.chance([size - 1])[0]
    assert mechanism_from_dict(rule.to_dict()) == rule
    with pytest.raises(NoConversion):
        rule.guarantee(moves(groups), ZeroConcentratedDP)


def test_the_better_rule_is_taken():
    def rule(groups):
        unit = PrivacyUnit("id", contribution=Contribution(groups=groups, rows=1))
        schema = Schema(columns={"c": PrivateLabels()}, unit=unit)
        session = Session("none.csv", schema, ledger=":memory:", budget=ApproxDP(1.0, 1e-6))
        best, *others = (
            session.plan.common_labels("c", epsilon=1.0, delta=1e-6, method=method).error_95
            for method in ("best", "optimal", "gaussian")
        )
        assert best == min(others)
        return session.plan.common_labels("c", epsilon=1.0, delta=1e-6).mechanism

    assert rule(1) == "optimal_selection"
    assert rule(20) == "gaussian_threshold"


# ---- draws -------------------------------------------------------------------------------------------------------


def distance(rule, other, draws=40_000):
    """χ² of exact draws of ``rule``, over ten sizes where it is undecided, against the chances of ``other``."""
    sizes = np.arange(rule.size_shown(0.3), rule.size_shown(0.3) + 10)
    counts = np.repeat(sizes, draws // 10)
    shown = rule.shown(counts).reshape(10, -1).mean(axis=1)
    chance = np.clip(other.chance(sizes), 1e-12, 1 - 1e-12)
    return float(np.sum((shown - chance) ** 2 / (chance * (1 - chance))) * draws / 10)


@pytest.mark.parametrize(
    ("rule", "others"),
    [
        (
            OptimalSelection(epsilon=0.2, delta=1e-4),
            [OptimalSelection(epsilon=0.21, delta=1e-4), OptimalSelection(epsilon=0.19, delta=1e-4)],
        ),
        (
            GaussianThreshold(scale=10.0, threshold=50.0),
            [GaussianThreshold(scale=10.0, threshold=52.5), GaussianThreshold(scale=10.0, threshold=47.5)],
        ),
    ],
    ids=["optimal", "gaussian"],
)
def test_draws_follow_the_law_and_no_other(rule, others):
    """χ² with 10 degrees of freedom: 46 is exceeded by chance once in a million runs; five per cent off is in the
    hundreds."""
    assert distance(rule, rule) < 46
    assert all(distance(rule, other) > 100 for other in others)


def test_ties_of_the_first_word_are_decided_by_the_rest(monkeypatch):
    """Words are fed by hand: equal first words, then a rest just below and just above the numerator's."""
    from discreet.mechanisms.choices import group_selection

    rule = OptimalSelection(epsilon=1.0, delta=1e-3)
    number = rule.numerators()[3]
    first, rest = number >> 192, number % (1 << 192)

    class Fed:
        def __init__(self, tail):
            self.given = [[first], [(tail >> (64 * i)) % 2**64 for i in range(3)]]

        def words(self, count):
            return np.array(self.given.pop(0), dtype=np.uint64)

    for tail, shown in ((rest - 1, True), (rest, False)):
        monkeypatch.setattr(group_selection, "SYSTEM_ENTROPY", Fed(tail))
        assert rule.shown(np.array([3])).tolist() == [shown]


# ---- what units keep ---------------------------------------------------------------------------------------------


def visits(units=300, rows=2000, seed=1):
    rng = np.random.default_rng(seed)
    place = rng.zipf(1.6, rows) % 60
    return pd.DataFrame({"person": rng.integers(0, units, rows), "place": [f"p{one}" for one in place]})


def counts(rows, groups, salt="ab" * 32, unit="person"):
    schema = Schema(columns={"place": PrivateLabels()}, unit=PrivacyUnit(unit))
    labels, sizes = unit_counts(take(open_source(rows), schema, salt=salt), "place", groups=groups)
    return dict(zip(labels, sizes.tolist(), strict=True))


def test_rows_are_counted_one_by_one():
    rows = visits()
    rows.loc[3, "place"] = None
    assert counts(rows, 1, unit=None) == rows["place"].value_counts().to_dict()


def test_units_count_once_in_each_label_they_keep():
    rows = visits()
    held = rows.groupby("person")["place"].nunique()
    assert counts(rows, 60) == rows.drop_duplicates()["place"].value_counts().to_dict()
    for groups in (1, 3):
        assert sum(counts(rows, groups).values()) == held.clip(upper=groups).sum()
    assert counts(rows, 2, salt="00") != counts(rows, 2)


def test_a_removed_unit_changes_nothing_but_its_own_labels():
    rows = visits()
    for person in (3, 77):
        with_it, without = counts(rows, 2), counts(rows[rows["person"] != person], 2)
        changed = {label: size - without.get(label, 0) for label, size in with_it.items()}
        assert set(without) <= set(with_it)
        assert all(change in (0, 1) for change in changed.values())
        assert sum(changed.values()) == min(2, rows.loc[rows["person"] == person, "place"].nunique())


def test_labels_may_be_numbers_or_hold_the_separator():
    numbers = pd.DataFrame({"person": [1, 1, 2], "place": [5, 6, 5]})
    assert counts(numbers, 2) == {"5": 2, "6": 1}  # whatever the column's type is, which others decide
    odd = pd.DataFrame({"person": ["a|b", "b"], "place": ["x", "x|a"]})
    assert counts(odd, 1) == {"x": 1, "x|a": 1}


# ---- sessions ----------------------------------------------------------------------------------------------------

BUDGET = ApproxDP(4.0, 4e-6)
ASKED = ApproxDP(1.0, 1e-6)


def session(rows, schema, budget=BUDGET):
    return Session(rows, schema, ledger=":memory:", budget=budget)


def test_common_groups_are_shown_and_then_used():
    rows = visits(units=2000, rows=12_000)
    unit = PrivacyUnit("person", contribution=Contribution(groups=2, rows=1))
    schema = Schema(columns={"place": PrivateLabels()}, unit=unit)
    mine = session(rows, schema)
    found = mine.common_labels("place", guarantee=ASKED)
    kept = counts(rows, 2, salt=mine.ledger.salt.hex())
    surely = {label for label, size in kept.items() if size >= found.size_shown(1 - 1e-9)}
    assert surely <= set(found)
    assert all(kept[label] > 5 for label in found)  # sizes up to five are shown with a chance below 1e-4
    assert list(found.labels) == sorted(found.labels)
    listed = mine.declaring(place=found.categories())
    table = listed.count(guarantee=ASKED, by="place")
    assert table.value.shape == (len(found),)
    assert mine.ledger.spent() == ApproxDP(2.0, 2e-6)
    assert ReleasedGroups.from_dict(found.to_dict()) == found
    assert "place" in str(found)


def test_an_empty_column_and_rare_labels_show_nothing():
    schema = Schema(columns={"place": PrivateLabels()})
    none = pd.DataFrame({"place": pd.Series([], dtype="string")})
    rare = pd.DataFrame({"place": [f"only {i}" for i in range(3000)]})
    for rows in (none, rare):
        found = session(rows, schema).common_labels("place", guarantee=ASKED)
        assert len(found) == 0  # 3,000 groups of one: any is shown with probability 0.3 %
        with pytest.raises(InvalidParameter, match="large enough"):
            found.categories()


def test_replacing_a_unit_can_change_twice_as_many_groups():
    schema = Schema(columns={"place": PrivateLabels()}, neighbours=Neighbours.REPLACE_ONE, size=500)
    rows = pd.DataFrame({"place": ["a"] * 400 + ["b"] * 100})
    mine = session(rows, schema)
    found = mine.common_labels("place", guarantee=ASKED)
    assert found.sensitivity == moves(2)
    assert found.labels == ("a", "b")


ROWS = pd.DataFrame({"place": ["a", "b"], "listed": ["x", "y"], "flag": [True, False], "person": [1, 2]})
SCHEMA = Schema(columns={"place": PrivateLabels(), "listed": Categories(["x", "y"]), "gone": PrivateLabels()})
PEOPLE = Schema(columns={"place": PrivateLabels()}, unit=PrivacyUnit("person", contribution=Contribution(rows=2)))


@pytest.mark.parametrize(
    ("schema", "ask", "error"),
    [
        (SCHEMA, lambda s: s.common_labels("place", epsilon=1.0), InvalidParameter),
        (SCHEMA, lambda s: s.common_labels("place", epsilon=1.0, delta=0.0), InvalidParameter),
        (SCHEMA, lambda s: s.common_labels("place", rho=0.1), NoConversion),
        (SCHEMA, lambda s: s.common_labels("place", 1.0), WrongType),
        (SCHEMA, lambda s: s.common_labels("listed", guarantee=ASKED), WrongType),
        (SCHEMA, lambda s: s.common_labels("nowhere", guarantee=ASKED), InvalidParameter),
        (SCHEMA, lambda s: s.common_labels("gone", guarantee=ASKED), SourceError),
        (SCHEMA, lambda s: s.common_labels("place", guarantee=ASKED, method="luck"), InvalidParameter),
        (SCHEMA, lambda s: s.common_labels("place", epsilon=1e-9, delta=1e-12), InvalidParameter),
        (SCHEMA, lambda s: s.count(guarantee=ASKED, by="place"), WrongType),
        (SCHEMA, lambda s: s.mean("place", guarantee=ASKED), WrongType),
        (SCHEMA, lambda s: s.declaring(other=Categories(["a"])), InvalidParameter),
        (SCHEMA, lambda s: s.omitting(PoissonSample(0.5)).common_labels("place", guarantee=ASKED), InvalidParameter),
        (PEOPLE, lambda s: s.common_labels("place", guarantee=ASKED), InvalidParameter),
    ],
)
def test_refusals_spend_nothing(schema, ask, error):
    mine = session(ROWS, schema)
    with pytest.raises(error):
        ask(mine)
    assert mine.ledger.remaining() == BUDGET


def test_a_ledger_without_delta_refuses_groups():
    with pytest.raises(DiscreetError):
        Session(ROWS, SCHEMA, ledger=Ledger(":memory:", PureDP(5.0))).common_labels("place", guarantee=ASKED)


@pytest.mark.parametrize("truth", [[0, 3], [1.5], [[1, 2]], [-1]])
def test_sizes_that_no_group_has_are_refused(truth):
    with pytest.raises(InvalidParameter):
        OptimalSelection(epsilon=1.0, delta=1e-6).draw(np.array(truth))
