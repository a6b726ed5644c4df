"""Known faults between the data and the ledger, in sessions, fits and comparisons, each a small mutation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from discreet import ApproxDP, Contribution, GaussianDP, Ledger, Neighbours, PureDP, Schema, Session, release
from discreet.audit.pipeline import Pipeline, World, audit_pipeline, row_world, unit_world
from discreet.audit.session_pipelines import COLUMNS, PEOPLE, RECORDS, ROWS, UNITS, table_of
from discreet.core.door import Allowance, Claim
from discreet.core.protection import Protection
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms import Gaussian, Laplace, PermuteAndFlip, PoissonSample
from discreet.questions import MeasuredQuestion
from discreet.questions.clusters import DPLloyd, KMedian
from discreet.questions.comparison.methods import Spending
from tests.planted_faults import Finding, fault

ONE, UNIT = PureDP(1.0), Sensitivity(l1=1.0)
Run = Callable[[Any, Ledger], Any]


def piped(run: Run, world: World, spent: Any = ONE, **options: Any) -> Finding:
    """The pipeline audit in one line."""
    audit = audit_pipeline(Pipeline("fault", run, world, spent, **options), scripts=1, pairs=4)
    found = next((one for one in audit.findings if "lost" not in one), f"{100 * audit.reached:.3g} % of the charge")
    return Finding("pipeline", audit.claimed, found, not audit.passed)


def charge(ledger: Ledger, guarantee: Any, **scope: Any) -> None:
    """What a release would record."""
    facts: dict[str, Any] = {
        "question": {"ask": "value"},
        "mechanism": {"name": "laplace"},
        "sensitivity": UNIT.to_dict(),
    }
    ledger.reserve(guarantee, **facts, protection=Protection(), **scope)


def asked(session: type[Session], ask: Callable[[Session], Any], schema: Schema = PEOPLE, **options: Any) -> Finding:
    """A question to a faulty session."""
    if schema.unit.column is not None:
        world = unit_world(UNITS, most=1)
    elif schema.neighbours is Neighbours.REPLACE_ONE:
        world = row_world(RECORDS, most=schema.size, neighbours=Neighbours.REPLACE_ONE)
    else:
        world = row_world(RECORDS, most=1)

    def run(table: Any, ledger: Ledger) -> Any:
        return ask(session(table_of(table, schema), schema, ledger=ledger))

    return piped(run, world, **options)


def bounded_by(change: Callable[[Contribution], Contribution]) -> type[Session]:
    """A session that bounds units otherwise than it says."""

    class Faulty(Session):
        def ask(self, question: Any, request: str | None = None) -> Any:
            limits = question.measurement.contribution or self.schema.unit.contribution
            return super().ask(_ReadOtherwise(question, contribution=change(limits)), request)

    return Faulty


class _Otherwise(MeasuredQuestion[Any]):
    """A question that is measured otherwise than it should be."""

    def __init__(self, question: Any, **changed: Any) -> None:
        self.question, self.changed = question, changed
        self.schema, self.guarantee = question.schema, question.guarantee
        self.ask = question.ask  # type: ignore[misc]

    def _measured(self) -> Any:
        return replace(self.question.measurement, **self.changed)


class _ReadOtherwise(_Otherwise):
    """A question that reads other rows than it says."""

    def content(self) -> dict[str, Any]:
        return self.question.content()


class _Claimed(_Otherwise):
    """A question whose exact value is changed on the way."""

    def __init__(self, question: Any, change: Callable[[Exact], Exact]) -> None:
        super().__init__(question)
        self.change = change

    def exact(self, rows: Any) -> Exact:
        return self.change(super().exact(rows))


def changing(change: Callable[[Session, Exact], Exact]) -> type[Session]:
    """A session that changes exact values before they pass the door."""

    class Faulty(Session):
        def ask(self, question: Any, request: str | None = None) -> Any:
            return super().ask(_Claimed(question, lambda exact: change(self, exact)), request)

    return Faulty


@fault("a session that forgets to bound contributions")
def _() -> Finding:
    return asked(
        bounded_by(lambda limits: Contribution(groups=99, rows=99)), lambda s: s.sum("x", guarantee=ONE, by="arm")
    )


@fault("a session that keeps a row more than it says")
def _() -> Finding:
    return asked(bounded_by(lambda limits: replace(limits, rows=limits.rows + 1)), lambda s: s.count(guarantee=ONE))


@fault("a session that keeps a group more than it says")
def _() -> Finding:
    return asked(bounded_by(lambda limits: replace(limits, groups=3)), lambda s: s.table(["arm"], guarantee=ONE))


@fault("a session that clips the total instead of the values")
def _() -> Finding:
    def change(session: Session, exact: Exact) -> Exact:
        values = [row["x"] or 0.0 for row in session._source.to_pylist()]
        return replace(exact, value=Fraction(min(sum(values), 10**6)))

    return asked(changing(change), lambda s: s.sum("x", guarantee=ONE), ROWS)


@fault("overlapping groups charged as if they were disjoint")
def _() -> Finding:
    def run(table: Any, ledger: Ledger) -> Any:
        parts = ledger.partition("p", ["A or B", "A or C"])
        for name in ("A or B", "A or C"):
            charge(ledger, ONE, partition=parts.name, parts=[name])
        return [Laplace(1.0).draw(sum(row["arm"] in arms for row in table)) for arms in ("AB", "AC")]

    return piped(run, row_world(RECORDS[:3], most=1))


@fault("a ledger that is charged after the release")
def _() -> Finding:
    class Faulty(Session):
        def ask(self, question: Any, request: str | None = None) -> Any:
            noisy = question.measurement.mechanism.draw(self.exact(question).value)
            super().ask(question, request)
            return noisy

    return asked(Faulty, lambda s: s.count(guarantee=ONE), ROWS)


@fault("a session that draws again when asked again")
def _() -> Finding:
    class Faulty(Session):
        def ask(self, question: Any, request: str | None = None) -> Any:
            return super().ask(question.changed(name=None))

    return asked(Faulty, lambda s: s.count(epsilon=0.5, name="r"), ROWS, repeats=True)


@fault("a session that returns another answer to a request, without a charge")
def _() -> Finding:
    class Faulty(Session):
        def ask(self, question: Any, request: str | None = None) -> Any:
            answer = super().ask(question, request)
            return replace(answer, value=question.measurement.mechanism.draw(self.exact(question).value))

    return asked(Faulty, lambda s: s.count(epsilon=0.5, name="r"), ROWS, repeats=True)


THREE = Schema(columns=COLUMNS, neighbours=Neighbours.REPLACE_ONE, size=3)


@fault("noise of a mean for one row more than there are")
def _() -> Finding:
    class Faulty(Session):
        def ask(self, question: Any, request: str | None = None) -> Any:
            moved = Sensitivity(moves=(2 / 4,))
            return super().ask(_Otherwise(question, sensitivity=moved, mechanism=Laplace(0.5)), request)

    return asked(Faulty, lambda s: s.mean("x", guarantee=ONE), THREE)


@fault("a δ that is dropped on the way to the ledger")
def _() -> Finding:
    def run(rows: Any, ledger: Ledger) -> Any:
        charge(ledger, ONE)
        return Gaussian.calibrate(ApproxDP(1.0, 0.01), UNIT).draw(len(rows))

    return piped(run, row_world(["a"], most=1))


@fault("a session that publishes its number of rows")
def _() -> Finding:
    def change(session: Session, exact: Exact) -> Exact:
        return replace(exact, public={"n": len(session._source)})

    return asked(changing(change), lambda s: s.mean("x", guarantee=ONE), ROWS)


@fault("groups that nobody is in are left out")
def _() -> Finding:
    def change(session: Session, exact: Exact) -> Exact:
        value = np.asarray(exact.value)
        return replace(exact, value=np.append(value[value > 0], 0))

    return asked(changing(change), lambda s: s.table(["arm"], guarantee=ONE).value, ROWS)


@fault("a scale from the data")
def _() -> Finding:
    class Faulty(Session):
        def ask(self, question: Any, request: str | None = None) -> Any:
            largest = max((abs(row["y"] or 0.0) for row in self._source.to_pylist()), default=1.0)
            moved = Sensitivity(moves=(largest or 1.0,))
            return super().ask(_Otherwise(question, sensitivity=moved, mechanism=Laplace(largest or 1.0)), request)

    return asked(Faulty, lambda s: s.sum("y", guarantee=ONE), ROWS)


@fault("an empty table is refused")
def _() -> Finding:
    def run(rows: Any, ledger: Ledger) -> Any:
        if not rows:
            return "nobody is in the data"
        return release(Exact(len(rows), UNIT), Laplace(1.0), ledger=ledger)

    return piped(run, row_world(["a"], most=1))


@fault("a grouped mean whose counts are published as they are")
def _() -> Finding:
    def run(rows: Any, ledger: Ledger) -> Any:
        noisy = release(Exact(sum(rows), UNIT), Laplace(1.0), ledger=ledger)
        return noisy.value / max(len(rows), 1)

    return piped(run, row_world([1.0, 0.0], most=2))


@fault("two questions for the price of one")
def _() -> Finding:
    class Faulty(Session):
        def ask(self, question: Any, request: str | None = None) -> Any:
            return [super().ask(question, request), question.measurement.mechanism.draw(self.exact(question).value)]

    return asked(Faulty, lambda s: s.count(guarantee=ONE), ROWS)


@fault("a mode of several rows at the price of one")
def _() -> Finding:
    class Faulty(Session):
        def ask(self, question: Any, request: str | None = None) -> Any:
            moved = Sensitivity(moves=(1.0,))
            return super().ask(_Otherwise(question, sensitivity=moved, mechanism=PermuteAndFlip(1.0)), request)

    return asked(Faulty, lambda s: s.mode("arm", guarantee=ONE))


@fault("a sample that is charged at its rate")
def _() -> Finding:
    def run(rows: Any, ledger: Ledger) -> Any:
        kept = PoissonSample(0.5).apply(list(rows))
        charge(ledger, PureDP(0.5))
        return Laplace(1.0).draw(len(kept))

    return piped(run, row_world(["a"], most=2), omits=1)


# ---- fits and comparisons -------------------------------------------------------------------------------------------

POINTS = row_world([(1.0, 1.0), (0.0, 0.0)], most=2)


@fault("clusters that pay for one iteration of two")
def _() -> Finding:
    class Faulty(DPLloyd):
        def _fitted(self, data: Any, allowance: Any, steps: Any) -> None:
            allowance.take = lambda step: None
            super()._fitted(data, allowance, steps * 2)

    def run(rows: Any, ledger: Ledger) -> Any:
        model = Faulty(2, guarantee=ONE, bounds=((0, 1), (0, 1)), iterations=1)
        return model.fit(np.reshape(rows, (-1, 2)), ledger=ledger).cluster_centers_

    return piped(run, POINTS)


@fault("clusters whose empty ones keep no noise")
def _() -> Finding:
    def run(rows: Any, ledger: Ledger) -> Any:
        charge(ledger, PureDP(2.0))
        counts = [sum(row < 0 for row in rows), sum(row >= 0 for row in rows)]
        return [Laplace(1.0).draw(count) if count else 0.0 for count in counts]

    return piped(run, row_world([1.0, -1.0], most=2), PureDP(2.0))


@fault("k-median that pays for one choice of two")
def _() -> Finding:
    def run(rows: Any, ledger: Ledger) -> Any:
        model = KMedian(1, guarantee=PureDP(8.0), universe=[[0.0], [1.0], [0.5]], swaps=2)
        charge(ledger, PureDP(2.0))
        return model.fit(np.reshape(rows, (-1, 1)), ledger=Ledger(":memory:", PureDP(8.0))).center_indices_

    return piped(run, row_world([(1.0,), (0.0,)], most=2), PureDP(2.0), all_paths=True)


@fault("a comparison that opens its allowance twice")
def _() -> Finding:
    claim = Claim(guarantee=ONE, protection=Protection(), question={}, mechanism={}, sensitivity=UNIT)

    def run(rows: Any, ledger: Ledger) -> Any:
        charge(ledger, ONE)
        return [Spending(ONE, None, Allowance(claim)).measure(value, UNIT).value for value in (sum(rows), len(rows))]

    return piped(run, row_world([1.0, 0.0], most=2))


@fault("normal noise charged with half its μ")
def _() -> Finding:
    def run(rows: Any, ledger: Ledger) -> Any:
        charge(ledger, GaussianDP(0.5))
        return Gaussian(1.0).draw(len(rows))

    return piped(run, row_world(["a"], most=1), GaussianDP(0.5))
