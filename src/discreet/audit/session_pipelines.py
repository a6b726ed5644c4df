"""Session pipelines: every question of a session, from rows to what is published, on worlds of a few rows or units."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from discreet.audit.pipeline import Pipeline
from discreet.audit.worlds import World, row_world, unit_world
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.protection import Neighbours
from discreet.core.schema import Bounds, Categories, Contribution, PrivacyUnit, Schema, Unlisted
from discreet.declarations.language import Formula
from discreet.ledgers import Ledger
from discreet.omission import Omission, OutlierSuppression, PoissonSample
from discreet.omission.outliers import AbsoluteDistance
from discreet.session import Session

__all__ = ["session_pipelines", "table_of"]

Ask = Callable[[Session, Guarantee], Any]
ONE = PureDP(1.0)

COLUMNS: dict[str, Bounds | Categories] = {
    "arm": Categories(["A", "B", "C"], nulls="=A", unknown="=A"),
    "x": Bounds(0, 2, grid=1, nulls=0),
    "y": Bounds(-1, 1, grid=0.5, nulls=0),
    "half": Categories(["L", "R"], nulls="=L", unknown="=L"),
}


def _row(arm: Any, x: Any, y: Any) -> dict[str, Any]:
    return {"arm": arm, "x": x, "y": y, "half": "R" if arm == "A" else "L"}


RECORDS = [_row("A", 2.0, 1.0), _row("B", 0.0, -1.0), _row("C", 99.0, 7.0), _row(None, None, None)]
"""Rows at and beyond the bounds; the first one moves most."""
UNITS = [
    [_row("A", 2.0, 1.0)] * 2 + [_row("B", 2.0, 1.0)] * 2,
    [_row("A", 99.0, 9.0)] * 3,
    [_row(arm, 99.0, 9.0) for arm in ("A", "B", "C") for _ in range(3)],
    [_row("C", 0.0, -1.0)],
    [_row(None, None, None)] * 2 + [_row("Z", 1.0, 0.0)],
]
"""Units up to their limits and beyond; the first two move most."""
LIMITS = Contribution(groups=2, rows=2)

ROWS = Schema(columns=COLUMNS)
PEOPLE = Schema(columns=COLUMNS, unit=PrivacyUnit("person", contribution=LIMITS))


def table_of(rows: Sequence[dict[str, Any]], schema: Schema) -> Any:
    """Rows as a table; its columns have the same types where it is empty."""
    import pyarrow

    kinds = {
        name: pyarrow.string() if isinstance(kind, Categories) else pyarrow.float64() for name, kind in COLUMNS.items()
    }
    if schema.unit.column is not None:
        kinds = {schema.unit.column: pyarrow.int64(), **kinds}
    return pyarrow.table({name: pyarrow.array([row[name] for row in rows], kind) for name, kind in kinds.items()})


def session_pipelines() -> Iterator[Pipeline]:
    """Questions about rows and about people, under both neighbour relations, in every currency."""
    rows, people = row_world(RECORDS, most=2), unit_world(UNITS, most=2)
    for name, ask in {**_questions(), **_tests(), **_comparisons()}.items():
        yield _asked(f"{name}, one row", ask, ROWS, rows, quick=name in _QUICK_ROWS)
    for name, ask in {**_questions(), **_of_units(), **_comparisons(partitions=10)}.items():
        yield _asked(f"{name}, one person", ask, PEOPLE, people, quick=name in _QUICK)
    yield from _clusters(rows)
    yield from _groups(rows, people)
    yield from _left_out(rows, people)
    yield from _margins(rows, people)
    yield from _running_totals(rows, people)
    yield from _regressions(rows, people)
    yield from _replaced()
    yield from _currencies(people)
    yield from _omitting()


_LOOSE = ("quantile", "median", "mode", "compare_means", "compare_arms")
"""Methods whose charge no neighbours reach: choices have a normaliser, partitions need more units than a world has."""


_QUICK_ROWS = ("count by arm", "sum", "proportion", "quantile", "histogram", "mode", "goodness_of_fit", "compare_means")
_QUICK = (
    "sum by arm", "mean by arm, with spread", "mean by arm, weighted", "quantile by arm", "sum of units",
    "compare_means, noise_aware",
)  # fmt: skip
"""Questions about rows and about units that are asked in short audits too."""


def _asked(
    name: str, ask: Ask, schema: Schema, world: World, spent: Guarantee = ONE, *, tight: bool = True, **options: Any
) -> Pipeline:
    def run(table: Any, ledger: Ledger) -> Any:
        return ask(Session(table_of(table, schema), schema, ledger=ledger), spent)

    method = name.split(",")[0].split(" ")[0]
    close = tight and method not in _LOOSE
    covers = (f"Session.{method}", *_ALSO.get(method, ()))
    return Pipeline(f"session.{name}", run, world, spent, covers, tight=close, repeats=True, **options)


_ALSO = {
    "covariance_matrix": ("CovariancesInParts",),
    "regression": ("RegressionMoments", "MomentBoxes", "MomentProducts"),
    "logistic_regression": ("LogisticMoments",),
}
"""Statistics that only these questions measure."""


def _clusters(rows: World) -> Iterator[Pipeline]:
    """Means, and medians among public positions."""

    def means(session: Session, spent: Guarantee) -> Any:
        model = session.clusters(["x", "y"], 2, spent, iterations=2, request="r")
        return [model.cluster_centers_, model.counts_]

    def medians(session: Session, spent: Guarantee) -> Any:
        corners = [[0.0, 0.0], [2.0, 1.0], [2.0, -1.0]]
        return session.clusters(["x", "y"], 1, spent, universe=corners, iterations=2, request="r").cluster_centers_

    yield _asked("clusters, one row", means, ROWS, rows)
    yield _asked("clusters among positions, one row", medians, ROWS, rows, tight=False, all_paths=True, quick=False)


def _groups(rows: World, people: World) -> Iterator[Pipeline]:
    """Lists of labels that are not public, of rows and of people with two of them each."""
    spent = ApproxDP(1.0, 0.01)
    for method, rule in (("optimal", "OptimalSelection"), ("gaussian", "GaussianThreshold")):
        for unit, world, name in ((PrivacyUnit(), rows, "row"), (PEOPLE.unit, people, "person")):
            facts = Schema(columns={"arm": Unlisted()}, unit=unit)

            def ask(session: Session, spent: Guarantee, method: str = method) -> Any:
                return session.groups("arm", spent, method=method, request="r")

            asked = _asked(f"groups, {method}, one {name}", ask, facts, world, spent, tight=name == "row")
            yield replace(asked, covers=("Session.groups", rule))


def _left_out(rows: World, people: World) -> Iterator[Pipeline]:
    """Rows that limits and missing values leave out; the one without values is dropped here."""
    columns: dict[str, Bounds | Categories] = {"arm": Categories(["A", "B", "C"]), "x": Bounds(0, 2, grid=1)}

    def ask(session: Session, spent: Guarantee) -> Any:
        return session.left_out(spent, columns="x", by="arm", request="r")

    def most_two(session: Session, spent: Guarantee) -> Any:
        return session.left_out(spent, columns="x", contribution=Contribution(total=2), most_rows=2, request="r")

    dropping = Schema(columns=columns, unit=PEOPLE.unit)
    yield _asked("left_out, one row", ask, Schema(columns=columns), rows)
    yield _asked("left_out, one person", ask, dropping, people, quick=False)
    yield _asked("left_out, two rows of a person", most_two, dropping, people)
    replaced = Schema(columns=columns, unit=PEOPLE.unit, neighbours=Neighbours.REPLACE_ONE, size=2)
    world = unit_world(UNITS, most=2, neighbours=Neighbours.REPLACE_ONE)
    yield _asked("left_out, a person replaced", most_two, replaced, world, GaussianDP(1.0), tight=False, quick=False)


def _margins(rows: World, people: World) -> Iterator[Pipeline]:
    """Several tables at once, and means by cell; the number of rows is public where one is replaced."""
    spent, one = GaussianDP(1.0), Neighbours.REPLACE_ONE

    def tables(session: Session, spent: Guarantee, mean_of: str | None = None) -> Any:
        return session.tables([["arm"], ["arm", "half"]], spent, mean_of=mean_of, request="r")

    def means(session: Session, spent: Guarantee) -> Any:
        return tables(session, spent, "y")

    schema = Schema(columns=COLUMNS, neighbours=one, size=3)
    replaced = row_world(RECORDS, most=3, neighbours=one)
    yield _asked("tables, pure, one row", tables, ROWS, rows)
    yield _asked("tables with means, pure, a row replaced", means, schema, replaced, tight=False, quick=False)
    for name, ask in (("tables", tables), ("tables with means", means)):
        yield _asked(f"{name}, one row", ask, ROWS, rows, spent)
        yield _asked(f"{name}, one person", ask, PEOPLE, people, spent, tight=False, quick=False)
        yield _asked(f"{name}, a row replaced", ask, schema, replaced, spent, quick=False)


def _running_totals(rows: World, people: World) -> Iterator[Pipeline]:
    """Sequences of three releases, in which the arms stand for periods: all of them cost the guarantee once."""

    def counts(session: Session, spent: Guarantee) -> Any:
        return [session.running_total("arm", spent, period=arm) for arm in ("A", "B", "C")]

    def sums(session: Session, spent: Guarantee) -> Any:
        return [session.running_total("arm", spent, period=arm, column="y", request=arm) for arm in ("A", "B", "C")]

    for spent in (GaussianDP(1.0), ZeroConcentratedDP(0.5)):
        kind = type(spent).__name__
        tight = kind == "GaussianDP"  # ρ allows more than the curve of normal noise
        yield _asked(f"running_total, one row, {kind}", counts, ROWS, rows, spent, tight=tight)
        yield _asked(f"running_total, one person, {kind}", sums, PEOPLE, people, spent, tight=tight, quick=False)


def _regressions(rows: World, people: World) -> Iterator[Pipeline]:
    """Moments, then squares around them: in parts, in boxes and under weighed normal noise."""
    texts = {"a": "2 - x", "b": "x * x", "c": "y + 1"}
    more = {name: Bounds(0, 2, grid=1, value=Formula(text)) for name, text in texts.items()}
    columns: dict[str, Any] = {**COLUMNS, **more}
    replaced = Schema(columns=columns, neighbours=Neighbours.REPLACE_ONE, size=3)
    world = row_world(RECORDS, most=3, neighbours=Neighbours.REPLACE_ONE)
    asked: dict[str, Ask] = {
        "parts": lambda s, g: s.regression("y", ["x", "a"], g, request="r"),
        "boxes": lambda s, g: s.regression("y", ["x", "a", "b", "c", "arm"], g, request="r"),
    }
    for name, ask in asked.items():
        yield _asked(f"regression, {name}, one row", ask, Schema(columns=columns), rows, tight=name == "boxes")
        own = Schema(columns=columns, unit=PEOPLE.unit)
        yield _asked(f"regression, {name}, one person", ask, own, people, tight=False, quick=False)
        for spent in (ONE, GaussianDP(1.0)):
            kind = type(spent).__name__
            yield _asked(f"regression, {name}, a row replaced, {kind}", ask, replaced, world, spent, tight=False)

    def smaller(session: Session, guarantee: Guarantee) -> Any:
        return session.regression("y", ["x", "a"], guarantee, models=["x", "a"], request="r")

    yield _asked("regression, smaller models, a row replaced", smaller, replaced, world, tight=False)


def _questions(request: str | None = "r") -> dict[str, Ask]:
    """By the name of the method, and what else it is given."""
    return {
        "count": lambda s, g: s.count(g, request=request),
        "count by arm": lambda s, g: s.count(g, by="arm", request=request),
        "sum": lambda s, g: s.sum("x", g, request=request),
        "sum by arm": lambda s, g: s.sum("y", g, by="arm", request=request),
        "mean": lambda s, g: s.mean("x", g, request=request),
        "mean by arm, with spread": lambda s, g: s.mean("x", g, by="arm", spread=True, request=request),
        "proportion": lambda s, g: s.proportion("arm", "A", g, request=request),
        "proportion by half": lambda s, g: s.proportion("arm", "A", g, by="half", request=request),
        "variance": lambda s, g: s.variance("y", g, request=request),
        "std": lambda s, g: s.std("y", g, request=request),
        "share": lambda s, g: s.share("arm", "A", g, request=request),
        "median": lambda s, g: s.median("x", g, request=request),
        "covariance_matrix": lambda s, g: s.covariance_matrix(["x", "y"], g, request=request),
        "regression": lambda s, g: s.regression("y", ["x", "arm"], g, request=request),
        "logistic_regression": lambda s, g: s.logistic_regression("half", ["x", "arm"], g, request=request),
        "logistic_regression, labels": lambda s, g: s.logistic_regression("half", "arm", g, request=request),
        "quantile": lambda s, g: s.quantile("x", 0.5, g, request=request),
        "quantile by arm": lambda s, g: s.quantile("x", [0.25, 0.75], g, by="arm", request=request),
        "quantile, recursive": lambda s, g: s.quantile("y", [0.2, 0.5, 0.8], g, recursive=True, request=request),
        "quantile, with interval": lambda s, g: s.quantile("x", 0.5, g, interval=0.9, request=request),
        "histogram": lambda s, g: s.histogram("x", g, edges=[0, 1, 2], request=request),
        "table": lambda s, g: s.table(["arm"], g, request=request),
        "mode": lambda s, g: s.mode("arm", g, request=request),
    }


def _of_units() -> dict[str, Ask]:
    """Sums per unit in place of rows, all rows with weights, and other limits."""
    sums, three = Bounds(0, 3, grid=1), Contribution(total=3)
    return {
        "sum of units": lambda s, g: s.sum("x", g, unit_sum=sums, request="r"),
        "sum of units by arm": lambda s, g: s.sum("x", g, by="arm", unit_sum=sums, request="r"),
        "mean of units": lambda s, g: s.mean("x", g, unit_sum=sums, spread=True, request="r"),
        "mean, weighted": lambda s, g: s.mean("x", g, weighted=True, contribution=three, request="r"),
        "mean by arm, weighted": lambda s, g: s.mean("x", g, by="arm", spread=True, weighted=True, request="r"),
        "proportion, weighted": lambda s, g: s.proportion("arm", "A", g, weighted=True, request="r"),
        "quantile of units": lambda s, g: s.quantile("x", 0.5, g, unit_sum=sums, request="r"),
        "count by arm, three rows in all": lambda s, g: s.count(g, by="arm", contribution=three, request="r"),
    }


def _tests() -> dict[str, Ask]:
    """Tests: a table, and conclusions from it."""
    return {
        "goodness_of_fit": lambda s, g: s.goodness_of_fit("arm", [0.2, 0.3, 0.5], g, request="r"),
        "homogeneity": lambda s, g: s.homogeneity("arm", "half", g, request="r"),
        "independence": lambda s, g: s.independence(["arm", "half"], g, request="r"),
        "rank_test": lambda s, g: s.rank_test("x", "arm", g, edges=[0, 1, 2], request="r"),
        "kolmogorov_smirnov": lambda s, g: s.kolmogorov_smirnov("y", "half", g, bins=2, request="r"),
        "rank_correlation": lambda s, g: s.rank_correlation(["x", "half"], g, bins={"x": [0, 1, 2]}, request="r"),
        "signed_rank": lambda s, g: s.signed_rank("x", 1, g, request="r"),
        "signed_rank, signs": lambda s, g: s.signed_rank("x", "y", g, method="signs", request="r"),
    }


def _comparisons(**options: Any) -> dict[str, Ask]:
    """Means of two arms: directly, and (for units that an id tells apart) from partitions."""
    asked: dict[str, Ask] = {
        "compare_means": lambda s, g: s.compare_means("x", by="half", guarantee=g, request="r"),
        "compare_arms": lambda s, g: s.compare_arms("x", by="arm", guarantee=g, request="r"),
    }
    if options:
        asked["compare_means, noise_aware"] = lambda s, g: s.compare_means(
            "x", by="half", guarantee=g, method="noise_aware", request="r", **options
        )
    return asked


def _replaced() -> Iterator[Pipeline]:
    """One of three rows, or of two people, replaced: sizes are public."""
    one = Neighbours.REPLACE_ONE
    schema = Schema(columns=COLUMNS, neighbours=one, size=3)
    world = row_world(RECORDS, most=3, neighbours=one)
    asked = {
        **_questions(),
        "compare_means": lambda s, g: s.compare_means("x", by="half", guarantee=g, arm="private", request="r"),
    }
    for name, ask in asked.items():  # the number of rows is public, so that nothing moves their count
        quick = name in ("mean", "covariance_matrix")
        yield _asked(f"{name}, a row replaced", ask, schema, world, tight=name != "count", quick=quick)
    schema = Schema(columns=COLUMNS, neighbours=one, size=2, unit=PEOPLE.unit)
    world = unit_world(UNITS, most=2, neighbours=one)
    for name in ("count", "sum by arm", "mean", "table", "quantile"):
        yield _asked(f"{name}, a person replaced", _questions()[name], schema, world, tight=False, quick=False)
    weighted = _of_units()["mean by arm, weighted"]
    yield _asked("mean, weighted, a person replaced", weighted, schema, world, GaussianDP(1.0), tight=False)


def _currencies(people: World) -> Iterator[Pipeline]:
    """The same in guarantees that are met by normal noise, and a session that asks several things."""
    for spent in (GaussianDP(1.0), ApproxDP(1.0, 0.01), ZeroConcentratedDP(0.5)):
        for name in ("sum by arm", "mode"):
            kind = type(spent).__name__
            yield _asked(
                f"{name}, one person, {kind}", _questions()[name], PEOPLE, people, spent, tight=False, quick=False
            )

    def several(session: Session, whole: Guarantee) -> Any:
        shares = whole.split(4)
        asked = ("count", "sum by arm", "quantile", "table")
        return [_questions(None)[name](session, share) for name, share in zip(asked, shares, strict=True)]

    def run(table: Any, ledger: Ledger) -> Any:
        return several(Session(table_of(table, PEOPLE), PEOPLE, ledger=ledger), ONE)

    yield Pipeline(
        "session, four questions, one person", run, people, ONE, ("Session", "Ledger"), tight=False, quick=False
    )


def _omitting() -> Iterator[Pipeline]:
    """Questions behind a step that leaves out rows: outputs are mixtures over what is kept."""
    world = row_world(RECORDS[:3], most=2)
    wide = AbsoluteDistance((-8, 8))  # wider than any two rows are apart: a distance must not scale with the data
    steps: dict[str, Omission] = {
        "one in ten": PoissonSample(0.1),
        "eight in ten": PoissonSample(0.8),
        "suppressed": OutlierSuppression(0.4, 0.5, AbsoluteDistance((0, 2)), columns=("x",)),
        "suppressed by far": OutlierSuppression(0.3, 0.45, wide, columns=("x",)),
    }
    asked: dict[str, Ask] = {"count": _questions()["count"], "sum": _questions()["sum"], "mode": _questions()["mode"]}
    for (how, step), (name, ask) in product(steps.items(), asked.items()):
        behind = lambda s, g, step=step, ask=ask: ask(s.omitting(step), g)  # noqa: E731
        tight = isinstance(step, PoissonSample) and name != "mode"
        made = _asked(f"{name}, {how}", behind, ROWS, world, tight=tight, omits=1, quick=name == "count")
        yield replace(made, covers=("Session.omitting", type(step).__name__))
    yield _two_samples()


def _two_samples() -> Pipeline:
    """Two questions to one session behind a step: each must get rows of its own choice."""

    def ask(session: Session, whole: Guarantee) -> Any:
        sampled = session.omitting(PoissonSample(0.3))
        return [sampled.count(one, request=f"r{place}") for place, one in enumerate(whole.split(2))]

    made = _asked("count, sampled twice", ask, ROWS, row_world(RECORDS[:2], most=1), tight=False, omits=2)
    return replace(made, covers=("Session.omitting", "PoissonSample"))
