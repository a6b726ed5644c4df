"""Session: data, schema and ledger in one object."""

from __future__ import annotations

import os
import threading
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from threading import RLock
from typing import Any, TypeVar, cast
from weakref import WeakSet

from discreet.core import requirements
from discreet.core.door import Claim, pass_through, recall
from discreet.core.errors import DiscreetError, InsufficientBudget, InvalidParameter, SourceError
from discreet.core.guarantee import Guarantee
from discreet.core.ledger.balance import digest_of, text
from discreet.core.rows import Snapshot, take
from discreet.core.rows.keep import take_joined
from discreet.core.rows.read import Dataset
from discreet.core.rows.source import open_declared, open_source, source_identity, source_of
from discreet.core.schema import Column, Schema, related_schema
from discreet.core.sensitivity import Exact
from discreet.mechanisms.composition import compose
from discreet.mechanisms.omission.step import Omission
from discreet.plans.declarations import computes_more, narrowed, narrows
from discreet.plans.planner import Planner, Rehearsing, Scenario, grouped
from discreet.questions import MeasuredQuestion, Question
from discreet.questions.facade import Questions
from discreet.questions.grouped import GroupedRelease
from discreet.questions.profile.question import ProfileQuestion, undeclared
from discreet.questions.profile.released_first import (
    PrivateLimit,
    Settled,
    between_edges,
    check_approvable,
    first_request,
    has_private_facts,
    released_first,
    settled,
)
from discreet.questions.question import guarantee_of
from discreet.results.display import as_html
from discreet.results.ledger import Ledger

# ---- In use: which threads use something that a fork must not cut in half.
#
# A child of a fork has one thread. What another thread of its parent was doing stays half done there for ever: its
# locks are never released, and an engine's own threads are gone. The child is refused in words instead of waiting.


class InUse(AbstractContextManager[None]):
    """A context in which a thread uses something, named in the refusal.

    Examples
    --------
    >>> with InUse("session"):
    ...     pass
    """

    def __init__(self, what: str) -> None:
        self.what, self.cut = what, False
        self.threads: Counter[int] = Counter()
        _ALL.add(self)

    def __enter__(self) -> None:
        if self.cut:
            raise DiscreetError(
                f"the process was forked while another thread used this {self.what}, so the child cannot use it. Open "
                f"the {self.what} again in the child. Nothing was spent."
            )
        self.threads[threading.get_ident()] += 1

    def __exit__(self, *_: object) -> None:
        self.threads[threading.get_ident()] -= 1


_ALL: WeakSet[InUse] = WeakSet()


def _after_fork() -> None:
    me = threading.get_ident()
    for one in list(_ALL):
        one.cut = one.cut or any(count > 0 for thread, count in one.threads.items() if thread != me)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# ---- Session: data, schema and ledger in one object.


A = TypeVar("A")


class Session(Questions):
    """Ask questions of a data set; every answer is charged to its ledger.

    The named questions are short for `ask`: ``session.mean("age", epsilon=1.0)`` asks
    ``MeanQuestion(session.schema, "age", epsilon=1.0)``. With ``name``, a name of your choice, an answer is stored:
    the same question under the same name returns it again and spends nothing. The ``expected_…`` arguments affect
    plans only.

    Parameters
    ----------
    source
        Anything `open_source` reads: a frame, a path, a connection. Planning reads no data. The first question reads
        the source, after it was paid for, and the session answers from what it read then: what changes in the source
        later has no part in its answers.
    schema
        The public facts.
    ledger
        A `Ledger`, or the path of one; created with ``budget`` where there is none.
    budget
        The budget of a new ledger; or its parameters, as in ``epsilon=1.0``.
    table, engine, memory
        Passed on to `open_source`.
    delimiter, decimal, encoding, header, thousands, symbols
        How a CSV file is written: see `Dialect`. discreet never guesses it from the file.
    related
        The sources of the tables that the schema calls related, by name; or, for each, a dict of what `open_source`
        takes, such as ``{"source": "visits.csv", "delimiter": ";"}``.

    Examples
    --------
    >>> import pyarrow
    >>> from discreet import Categories, PureDP, Schema, Session
    >>> rows = pyarrow.table({"arm": ["A", "B"] * 500})
    >>> schema = Schema(columns={"arm": Categories(["A", "B"])})
    >>> session = Session(rows, schema, ledger=":memory:", budget=PureDP(1.0))
    >>> session.plan.count(epsilon=0.5).error_95 <= 6
    True
    >>> abs(session.count(epsilon=0.5).value - 1000) < 60, session.ledger.remaining()
    (True, PureDP(epsilon=0.5))
    """

    def __init__(
        self,
        source: Any,
        schema: Schema,
        *,
        ledger: Ledger | str | os.PathLike[str],
        budget: Guarantee | None = None,
        table: str | None = None,
        engine: Any = None,
        memory: str | None = None,
        delimiter: str | None = None,
        decimal: str = ".",
        encoding: str = "utf-8",
        header: bool = True,
        thousands: str | None = None,
        symbols: str = "",
        related: Mapping[str, Any] | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        mu: float | None = None,
    ) -> None:
        if (epsilon, delta, rho, mu) != (None,) * 4:
            budget = guarantee_of(budget, epsilon=epsilon, delta=delta, rho=rho, mu=mu)
        self.schema = requirements.instance("schema", schema, Schema, "a Schema")
        self._lock, self._use = RLock(), InUse("session")
        self._taken: dict[tuple[str, ...], Snapshot] = {}
        self._step: Omission | None = None
        self._private = has_private_facts(schema)
        self._after: dict[Any, Session] = {}
        self._narrows: Session | None = None
        self._asked: set[str] = set()
        written = {"delimiter": delimiter, "decimal": decimal, "encoding": encoding, "header": header,
                   "thousands": thousands, "symbols": symbols}  # fmt: skip
        self._source = source_of({"source": source, "table": table, "engine": engine, "memory": memory, **written})
        self._related = {name: source_of(one, engine=engine) for name, one in (related or {}).items()}
        if isinstance(ledger, Ledger):
            if budget is not None and budget != ledger.budget:
                raise InvalidParameter("budget", budget, f"the ledger has {ledger.budget}", "Leave budget out.")
            self.ledger = ledger
        else:
            self.ledger = Ledger(ledger, budget, neighbours=schema.neighbours, unit=schema.unit.unit)
            if isinstance(source, str | os.PathLike):  # so that plans notice a second ledger for the same data
                self.ledger.note(sources=[source_identity(source, table)])

    def ask(self, question: Question[A], name: str | None = None) -> A:
        """Answer a question, and charge the ledger for it.

        Parameters
        ----------
        question
            What to release.
        name
            A name for the answer, in place of the question's own: the same question under the same name returns the
            stored answer and spends nothing.
        """
        with self._use:
            own = self._own(question)
            given = question.name if name is None else name
            question = question if self._step is None else question.changed(omit=self._step)
            asked = question.of_source(self.source_names)
            answer = own._answer(asked, None if given is None else text("name", given))
            return cast(A, asked.titled(answer, self.schema.names_for_readers()))

    def where(self, condition: str) -> Session:
        """The same session over the rows for which a condition holds; see `Formula` for what can be written.

        A filter is part of what is asked: a stored answer belongs to it. Where the number of rows is public, the number
        of rows that a filter leaves is not.

        Examples
        --------
        >>> import pyarrow
        >>> from discreet import Bounds, Categories, PureDP, Schema, Session
        >>> rows = pyarrow.table({"age": [12, 30, 47] * 100, "sex": ["f", "m", "f"] * 100})
        >>> schema = Schema(columns={"age": Bounds(0, 120, grid=1), "sex": Categories(["f", "m"])})
        >>> session = Session(rows, schema, ledger=":memory:", budget=PureDP(20.0))
        >>> abs(session.where("age >= 18").count(epsilon=10.0).value - 200) < 20
        True
        >>> found = session.where("age >= 18").by("sex").mean("age", epsilon=9.0)
        >>> {sex: round(mean) for sex, mean in found.mean.items()}
        {'f': 47, 'm': 30}
        """
        with self._use:
            return self._narrowed(narrowed(self.schema, condition))

    def by(self, *columns: str) -> Groups:
        """The same session by groups: ``session.by("sex").mean("age", epsilon=0.5)``."""
        return Groups(self, columns)

    def _answer(self, question: Question[A], request: str | None) -> A:
        private = self._private or isinstance(getattr(question, "contribution", None), PrivateLimit)
        if private and ((first := released_first(question, self.schema)) or between_edges(question, self.schema)):
            self._check_both(question, request, first)
            everybody = self._omitting(None)
            found = {name: everybody._declaring(one.schema).ask(one, first_request(one)) for name, one in first.items()}
            then = settled(question, self.schema, found)
            return then.noted(self._with(then).ask(then.question, request))
        claim = question.claim(self.ledger)
        name = claim.request if request is None else request
        if name is not None and (stored := recall(claim, question.read, ledger=self.ledger, request=name)) is not None:
            return stored  # it needs no data
        others = self._check(question)
        if name is None:
            self._say_again(question.ask, claim)
        asked = question.following(self.ledger, name)
        return pass_through(
            claim, lambda allowance, passed: asked.draw(self._rows(asked, *others), claim, allowance, passed),
            write=asked.write, read=asked.read, ledger=self.ledger, request=name,
        )  # fmt: skip

    def _say_again(self, ask: str, claim: Claim) -> None:
        """Say that a question without a name, which was asked before, is drawn and paid for again.

        A ledger in memory is for studies, and forgets its spends; nothing is said of it.
        """
        if self.ledger.path == ":memory:":
            return
        if not self._asked:  # other sessions asked, too: a notebook that is run again is one
            spends = [entry.content for entry in self.ledger.entries() if entry.kind == "spend"]
            self._asked.update(digest_of(content["question"]) for content in spends)
        asked = digest_of(dict(claim.question))
        if asked in self._asked:
            warnings.warn(
                f"{ask}: this question was asked before, without a name. It is drawn again and paid again "
                f"({claim.guarantee}). With name=\"…\" the same question returns the stored answer and spends nothing; "
                "what several answers together tell is in docs/howto/repeated_looks.md.", stacklevel=5,
            )  # fmt: skip
        self._asked.add(asked)

    def _check(self, question: Question[Any]) -> tuple[str, ...]:
        """Refuse what declarations, headers and engines tell, before anything is paid for or read.

        Returns the columns that the question reads and the schema does not declare.
        """
        omitted_by = () if question.omit is None else question.omit.columns or ()
        declared = self.schema.source_columns(question.columns_read())
        others = question.source_columns_read()
        self._source.check(self.schema, [*declared, *others, *omitted_by])
        named = self.schema.of_rows.related
        if {*self._related} != {*named}:
            raise SourceError(
                f"related = {sorted(self._related)}: the schema names the tables {sorted(named)}. Pass "
                "each of them, and no other. Nothing was spent."
            )
        for name, one in named.items():
            facts = related_schema(one)
            self._related[name].check(facts, facts.source_columns([*one.columns]))
        return others

    def _check_both(self, question: Question[Any], request: str | None, first: Mapping[str, ProfileQuestion]) -> None:
        """Refuse a question that cannot be answered, or paid for after what must be released first."""
        question.claim(self.ledger)
        check_approvable(first, self.ledger)
        unpaid = [one.guarantee for one in first.values() if self.ledger.requested(first_request(one)) is None]
        if request is not None and self.ledger.requested(request) is not None:
            if unpaid:  # its answer would have needed them
                raise InvalidParameter(
                    "name", request, "was used for a different release", "Use a new name. Nothing was spent."
                )
            return
        costs = [*unpaid, question.charge_now(self.ledger)]
        if not self.ledger.affords(costs):
            raise InsufficientBudget(compose(*costs), self.ledger.remaining())

    def _with(self, then: Settled[Any]) -> Session:
        """The same session with released bounds and limits in place of private ones."""
        key = then.bounds, then.unit
        with self._use, self._lock:
            if key not in self._after:
                other = self._declaring(then.question.schema)
                other._private = False  # what this question needs is declared
                self._after[key] = other
            return self._after[key]

    @property
    def plan(self) -> Planner:
        """The results and costs to expect of questions, before asking: ``plan.mean(…)``, or ``plan(question)``."""
        return Planner(self.schema, self.ledger, self._step)

    def rehearsing(self, scenario: Scenario, *, repeats: int = 200, seed: int = 1) -> Rehearsing:
        """Answers to questions on simulated rows: ``rehearsing(scenario).mean(…)``. Reads and spends nothing.

        Every question is answered ``repeats`` times, with the estimator, intervals and test that a release would have.

        Examples
        --------
        >>> from discreet import Bounds, PureDP, Schema, Session
        >>> from discreet.plans.planner import ExpectedNumbers, Scenario
        >>> schema = Schema(columns={"age": Bounds(0, 100, grid=1)})
        >>> session = Session("no-such-file.csv", schema, ledger=":memory:", budget=PureDP(1.0))
        >>> people = Scenario(rows=2000, columns={"age": ExpectedNumbers(mean=41.0, sd=12.0)})
        >>> rehearsed = session.rehearsing(people, repeats=100).mean("age", epsilon=0.5)
        >>> 0.1 < rehearsed.error < 0.5
        True
        """
        return Rehearsing(self.schema, scenario, Session, repeats=repeats, seed=seed)

    def exact(self, question: MeasuredQuestion[Any]) -> Exact:
        """The true, still private value of a question, with its sensitivity, for the owner of the data.

        The rows are read at once and nothing is paid, so what it raises may depend on somebody's value.
        """
        if self._own(question) is not self:
            return self._own(question).exact(question)
        return question.exact(self._rows(question, *self._check(question)))

    def _own(self, question: Question[Any]) -> Session:
        """The session that reads rows as the question declares them: this one, or one that declares nothing of columns.

        Another question is refused: its sensitivity would not be that of the rows that are read here.
        """
        requirements.instance("question", question, Question, 'MeanQuestion(session.schema, "age", epsilon=1.0)')
        own, asked = self.schema, question.schema
        if asked is own or (type(asked) is Schema and asked == own):
            return self
        if type(asked) is Schema and asked == undeclared(own):
            return self._declaring(asked)
        if type(asked) is Schema and narrows(asked, own):
            return self._narrowed(asked)
        if type(asked) is Schema and computes_more(asked, own):
            return self._computing(asked)
        if type(asked) is Schema and own.features and asked.made_from == own:
            return self.per_unit()._own(question)
        raise InvalidParameter(
            "question", question.ask, "was made for other declarations than those of this session",
            "Make it with session.schema. Nothing was spent.",
        )  # fmt: skip

    def check_source(self) -> None:
        """Read the rows now and raise what is wrong with them, in full words, for the owner of the data alone.

        A release holds such words back because one person's value may decide them. Nothing is spent and nothing is
        released.
        """
        self._source.check(self.schema, self.schema.source_columns(()))
        for one in (self._source, *self._related.values()):
            one.check_texts()
        self._whole(self._dataset(()))

    def source_names(self) -> tuple[str, ...]:
        """Names of the source's columns but the id, for a profile of all of them; of a file only the header is read."""
        return tuple(name for name in self._source.names() if name != self.schema.unit.column)

    def require(self, *columns: str) -> None:
        """Refuse declared columns that the data lacks, or lacks something to make them of; reads no rows."""
        self._source.check(self.schema, self.schema.source_columns(columns))

    @property
    def dataset(self) -> Dataset:
        """The data, opened: for its owner alone."""
        with self._use:
            return self._source.rows()

    def _dataset(self, others: Sequence[str]) -> Dataset:
        """The source's rows, with the declared columns that it has and these ``others``."""
        return open_declared(self._source, self.schema, others)

    def _rows(self, question: Question[Any], *others: str) -> Snapshot:
        """The rows that a question is asked of, with ``others`` that are not declared; called inside the door.

        They are read once, or chosen afresh behind a step.
        """
        if question.omit is not None:
            read = [*(question.omit.columns or ()), *others]
            whole = self._dataset(read)
            known = {*self.schema.source_columns([*self.schema.columns]), *read}
            names = [name for name in whole.table.columns if name in known] or whole.table.columns[:1]
            kept = open_source(question.omit.apply(whole.fetch(whole.table.select(names))), **vars(whole.written))
            return take(kept, question.omit.inside(self.schema), salt=self.ledger.salt.hex())
        return self._snapshot(others)

    def _snapshot(self, others: tuple[str, ...]) -> Snapshot:
        """The rows, read once; those of a condition are some of the rows of the session that it narrows."""
        with self._use, self._lock:
            if others not in self._taken:
                whole = self._narrows
                self._taken[others] = (
                    self._whole(self._dataset(others))
                    if whole is None
                    else whole._snapshot(others).narrowed(self.schema)
                )
            return self._taken[others]

    def _whole(self, dataset: Dataset) -> Snapshot:
        salt = self.ledger.salt.hex()
        if not self.schema.of_rows.related:
            return take(dataset, self.schema, salt=salt)
        facts = {name: related_schema(one) for name, one in self.schema.of_rows.related.items()}
        others = {name: open_declared(self._related[name], one) for name, one in facts.items()}
        return take_joined(dataset, self.schema, others, salt=salt)

    def omitting(self, step: Omission) -> Session:
        """The same session, with rows dropped by ``step`` before each question; a fresh, secret choice every time.

        Guarantees given to its questions are those of the whole: the noise is calibrated to what may be spent behind
        the step (`discreet.mechanisms.omission`). Each release makes its own choice of rows, so their guarantees add
        up in the ledger as others do. Values and intervals are those of the rows that were kept. Private bounds and
        limits, which are released first, are those of all rows. The rows are brought to this machine to be chosen, so
        the data must fit its memory.

        Examples
        --------
        >>> import pyarrow
        >>> from discreet import Categories, PureDP, Schema, Session
        >>> from discreet.mechanisms import PoissonSample
        >>> rows = pyarrow.table({"arm": ["A", "B"] * 5000})
        >>> schema = Schema(columns={"arm": Categories(["A", "B"])})
        >>> session = Session(rows, schema, ledger=":memory:", budget=PureDP(1.0))
        >>> sampled = session.omitting(PoissonSample(0.5)).count(epsilon=0.5)
        >>> abs(sampled.value - 5000) < 400, round(sampled.guarantee.epsilon, 6), round(sampled.mechanism.scale, 4)
        (True, 0.5, 1.2022)
        """
        if self.schema.of_rows.related:
            raise InvalidParameter("step", step, "is not proved for several tables", "Ask without omitting rows.")
        chosen: Omission = requirements.instance("step", step, Omission, "a step such as PoissonSample(0.5)")
        chosen.require(self.schema.neighbours, self.schema.unit.unit)
        chosen.inside(self.schema)
        return self._omitting(chosen)

    def _omitting(self, step: Omission | None) -> Session:
        other = copy(self)
        other._step, other._after = step, {}
        return other

    def declaring(self, **columns: Column) -> Session:
        """The same data and ledger, with columns declared again; for groups that were released.

        Examples
        --------
        >>> import pyarrow
        >>> from discreet import ApproxDP, Schema, Session, PrivateLabels
        >>> rows = pyarrow.table({"city": ["Oslo"] * 600 + ["Bergen"] * 400 + ["a hamlet"]})
        >>> schema = Schema(columns={"city": PrivateLabels()})
        >>> session = Session(rows, schema, ledger=":memory:", budget=ApproxDP(2.0, 1e-6))
        >>> found = session.common_labels("city", epsilon=1.0, delta=5e-7)
        >>> found.labels, found.size_shown()
        (('Bergen', 'Oslo'), 17)
        >>> counts = session.declaring(city=found.categories()).count(epsilon=1.0, delta=5e-7, by="city")
        >>> bool(abs(counts.value[1] - 600) < 60)
        True
        """
        return self._declaring(self.schema.declaring(**columns))

    def per_unit(self) -> Session:
        """The same session over a table with one row per unit, whose columns are the features of the schema.

        Examples
        --------
        >>> import pyarrow
        >>> from discreet import Bounds, Feature, PrivacyUnit, PureDP, Schema, Session
        >>> rows = pyarrow.table({"person": [k // 3 for k in range(900)], "amount": [2.0] * 900})
        >>> schema = Schema(
        ...     columns={"amount": Bounds(0, 20, grid=0.5)},
        ...     unit=PrivacyUnit("person"),
        ...     features={"spend": Feature(of="amount", take="sum", low=0, high=60)},
        ... )
        >>> session = Session(rows, schema, ledger=":memory:", budget=PureDP(10.0))
        >>> abs(session.per_unit().mean("spend", epsilon=9.0).mean - 6) < 1
        True
        """
        return self._narrowed(self.schema.per_unit())

    def _narrowed(self, schema: Schema) -> Session:
        """The session over fewer of the same rows, or one row per unit: one for each, which reads them once."""
        if schema == self.schema:
            return self
        with self._lock:
            key = schema.where, schema.made_from is not None
            if key not in self._after:
                self._after[key] = other = self._declaring(schema)
                other._narrows = self if narrows(schema, self.schema) else None
            return self._after[key]

    def _computing(self, schema: Schema) -> Session:
        """The session with columns that a question computes of the declared ones: one for each set of them."""
        added = frozenset((name, one) for name, one in schema.columns.items() if name not in self.schema.columns)
        with self._lock:
            return self._after.setdefault(added, self._declaring(schema))

    def _declaring(self, schema: Schema) -> Session:
        other = copy(self)
        other.schema = requirements.instance("schema", schema, Schema, "a Schema")
        other._private = has_private_facts(schema)
        other._taken, other._after, other._narrows = {}, {}, None
        return other

    def _repr_html_(self) -> str:
        """For notebooks: the budget, who is protected, and the declared columns."""
        columns = [(name, column.words()) for name, column in self.schema.columns.items()]
        left = f"{self.ledger.remaining()} of {self.ledger.budget}"
        return as_html("Session", [("left to spend", left), ("protects", str(self.schema.protection())), *columns])

    def __repr__(self) -> str:
        step = "" if self._step is None else f".omitting({self._step!r})"
        return f"Session(unit={self.schema.unit.name!r}, ledger={self.ledger!r}){step}"


class Groups(Questions):
    """A session by groups: every question is answered for each of them."""

    def __init__(self, session: Session, columns: Sequence[str]) -> None:
        self.session, self.columns, self.schema = session, tuple(columns), session.schema
        self._use = session._use

    def ask(self, question: Question[A]) -> GroupedRelease[Any]:
        """Answer a question for each group, and charge the ledger for it."""
        return cast(GroupedRelease[Any], self.session.ask(grouped(question, self.columns)))

    def where(self, condition: str) -> Groups:
        """The same groups over the rows for which a condition holds."""
        return Groups(self.session.where(condition), self.columns)

    @property
    def plan(self) -> Planner:
        """The results and costs to expect of questions by these groups."""
        return Planner(self.schema, self.session.ledger, self.session._step, by=self.columns)
