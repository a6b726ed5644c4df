"""Failures: what somebody gets who asks again after an error, and what an error tells.

Every kind of error is raised at every draw of a question, and at every read of rows before, between and after them:

- the caller is told the same words, whatever the error was: a word about a value would cost nothing;
- the same request, asked again, is refused or answered without new noise once anything was drawn: whether a run fails
  may depend on the noise, so it must not get other noise for the same money;
- what was paid stays paid, and is paid once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

from discreet.audit.every_question import every_question
from discreet.audit.pipeline import shown
from discreet.audit.question_pipelines import corner_world
from discreet.audit.recomputed import Compared, Recomputed, recomputed
from discreet.audit.session_pipelines import COLUMNS, LIMITS, table_of
from discreet.audit.transcript import Draw, Script, scripted
from discreet.core.errors import InvalidParameter, SourceError
from discreet.core.guarantee import ApproxDP, GaussianDP, PureDP
from discreet.core.rows.read import Dataset
from discreet.core.schema import PrivacyUnit, Schema
from discreet.ledgers import Ledger
from discreet.questions import Question
from discreet.session import Session

__all__ = ["audit_failures"]

_SECRET = "4711 of row 17"
_ERRORS: tuple[Callable[[], Exception], ...] = (
    lambda: ValueError(_SECRET),
    lambda: SourceError(f"value = {_SECRET}: cannot be used. Nothing was spent."),
    lambda: InvalidParameter("value", _SECRET, "is wrong", "Change it."),
    lambda: MemoryError(_SECRET),
    lambda: OSError(_SECRET),
    lambda: OverflowError(_SECRET),
    lambda: UnicodeDecodeError("utf-8", _SECRET.encode(), 0, 1, "bad"),
    lambda: KeyError(_SECRET),
    lambda: StopIteration(_SECRET),
    lambda: RecursionError(_SECRET),
    lambda: AssertionError(_SECRET),
)
"""Raised by engines, by Python, by discreet itself, and by whoever extends it."""
_ENOUGH = {GaussianDP: GaussianDP(50.0), PureDP: PureDP(500.0), ApproxDP: ApproxDP(500.0, 0.9)}


def audit_failures(deep: bool = False, *, asks: Collection[str] | None = None) -> Recomputed:
    """Let every draw and every read of every question fail, and ask again.

    Examples
    --------
    >>> audit_failures(asks=("mean",)).findings
    ()
    """
    schema = Schema(columns=COLUMNS, unit=PrivacyUnit("person", contribution=LIMITS))
    asked = every_question(schema)
    some = {name: question for name, question in asked.items() if asks is None or name in asks}
    parts = [partial(_failing, name, question, deep) for name, question in some.items()]
    return recomputed("errors at every draw and read", parts)


@contextmanager
def _failing_draw(number: int, error: Callable[[], Exception]) -> Iterator[Script]:
    """The draw with this number fails: its noise is drawn, and never arrives."""

    class Failing(Script):
        def _note(self, draw: Draw, answer: Any) -> None:
            super()._note(draw, answer)
            if len(self.draws) == number + 1:
                raise error()

    with scripted(Failing()) as script:
        yield script


@contextmanager
def _failing_read(number: int, error: Callable[[], Exception]) -> Iterator[Script]:
    """The read of rows with this number fails, whether it brings rows here or stores them on the engine."""
    with _reading(number, error), scripted(Script()) as script:
        yield script


@contextmanager
def _reading(number: int | None = None, error: Callable[[], Exception] = Exception) -> Iterator[list[str]]:
    """Note every read of rows; one of them may fail."""
    reads: list[str] = []

    def noted(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def read(self: Any, *arguments: Any, **options: Any) -> Any:
            reads.append(name)
            if len(reads) - 1 == number:
                raise error()
            return original(self, *arguments, **options)

        return read

    with ExitStack() as stack:
        for name in ("fetch", "store", "scan"):
            stack.enter_context(patch.object(Dataset, name, noted(name, getattr(Dataset, name))))
        yield reads


def _failing(name: str, question: Question[Any], deep: bool) -> Iterator[Compared]:
    """Failures of one question: at the first and last of its draws and reads; in a deep run at all, with all errors."""
    draws, reads = _counted(question)
    for what, failing, count in (("draw", _failing_draw, draws), ("read", _failing_read, reads)):
        places = range(count) if deep else sorted({0, count - 1} & set(range(count)))
        words = dict[str, str]()
        for place in places:
            for error in _ERRORS if deep else (_ERRORS[(place + len(name)) % len(_ERRORS)],):
                at = f"{name}, {what} {place + 1}"
                for finding, right in _one(question, partial(failing, place, error), words):
                    yield (at if right else f"{at}, {type(error()).__name__}: {finding}"), right
        yield (f"{name}: errors of a {what} are told apart: {list(words)[:2]}"), len(words) <= 1


def _one(question: Question[Any], failing: Callable[[], Any], words: dict[str, str]) -> Iterator[tuple[str, bool]]:
    session = _session(question)
    with failing() as script:
        try:
            session.ask(question, "r")
            yield "an answer was given though its run failed", False
            return
        except Exception as error:
            told, kind = str(error), type(error).__name__
            carried = [error, error.__cause__, None if error.__suppress_context__ else error.__context__]
        drawn = len(script.draws)
    words[f"{kind}: {told}"] = kind
    yield "the error tells a value", not any(_SECRET in f"{one!s} {one!r}" for one in carried if one is not None)
    spent = session.ledger.spent()
    yield "nothing was charged", spent != _session(question).ledger.spent()
    with scripted(Script()) as script:
        try:
            answers = [shown(session.ask(question, "r")) for _ in range(2)]
        except Exception:
            answers = []
        again = len(script.draws)
    if drawn:
        yield "asking again drew other noise for the same money", not again
    yield "asking again got two answers", len(answers) < 2 or answers[0] == answers[1]
    yield "asking again was charged again", session.ledger.spent() == spent


def _counted(question: Question[Any]) -> tuple[int, int]:
    """How often a question draws and reads."""
    with scripted(Script()) as script, _reading() as reads:
        _session(question).ask(question, "r")
    return len(script.draws), len(reads)


def _session(question: Question[Any]) -> Session:
    schema = question.schema
    table = table_of(corner_world().tables[3], schema)
    budget = _ENOUGH[type(question.guarantee)]
    ledger = Ledger(":memory:", budget, neighbours=schema.neighbours, unit=schema.unit.unit)
    return Session(table, schema, ledger=ledger)
