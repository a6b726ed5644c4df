"""Written facts: whatever a run prints, warns, logs and writes, byte by byte, on data sets of many sizes.

A script gives every draw the same outcome on all data sets and the clock stands still, so what is released is the same
everywhere. Then everything else must be, too: plans before and after a run, refusals, warnings, logs, standard output
and error, reports, results, workbooks, bundles, ledgers and what is shown of them. A note "fewer than 30 rows" or
"1,001 rows were read" is a difference. Data sets hold 0 to 1,001 rows or people, on both sides of the thresholds that
people think of, with values beyond bounds, gaps, unknown labels, late dates and people over their limits.
"""

from __future__ import annotations

import csv
import io
import logging
import os
import re
import sys
import time
import uuid
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from importlib.resources import files
from itertools import count, permutations
from pathlib import Path
from pkgutil import walk_packages
from runpy import run_module
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np

from discreet.audit.pipeline import Draw, Script, arrow_table, scripted, shown
from discreet.audit.report import Audit, Compared, recomputed
from discreet.audit.session_pipelines import COLUMNS, LIMITS, corner_world, every_question, opened, table_of
from discreet.core.errors import DiscreetError, InvalidParameter, SourceError
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP
from discreet.core.rows import Selected, take, totals
from discreet.core.rows.read import Dataset
from discreet.core.rows.source import open_source
from discreet.core.schema import Bounds, Categories, Column, Contribution, Dates, PrivacyUnit, PrivateLabels, Schema
from discreet.mechanisms.choices.group_selection import GaussianThreshold, OptimalSelection
from discreet.plans.plan_file import PlanFile
from discreet.plans.review import new_key
from discreet.publish.export import FORMATS, read_facts
from discreet.questions import Question
from discreet.results.ledger import Ledger
from discreet.session import Session

Texts = dict[str, bytes]
"""What was told: where, and every byte of it."""
_NOW = datetime(2026, 3, 4, 5, 6, 7, 891011, tzinfo=UTC)
_SECOND = b"05:06:07"
"""Moments are told to the minute."""
_SIZES = {"rows": (0, 30, 100, 1001), "people": (1, 29, 99, 1000)}
"""Rows and people in sessions: every threshold up to 1,001 lies between two of them."""
_RUN_SIZES = {"rows": (29, 1000), "people": (30, 99)}
_MORE = (2, 5, 10, 11, 20, 50, 101, 200, 500, 999)
"""Of a deep run, too."""


def audit_written(kind: str, runs: bool, deep: bool = False) -> Audit:
    """Compare everything that is told of data sets that differ, under chosen noise.

    Parameters
    ----------
    kind
        ``rows`` or ``people``: what is added.
    runs
        Whether to run plans through the command line, or to ask sessions.
    deep
        Try more sizes.
    """
    sizes = (*(_RUN_SIZES if runs else _SIZES)[kind], *(_MORE if deep else ()))
    parts: list[Callable[[], Iterator[Compared]]] = [partial(_runs if runs else _sessions, kind, sizes)]
    if runs and kind == "rows":
        parts += [_first_records, _one_ledger]
    if not runs and kind == "rows":
        parts += [_refusals, _odd_values, _one_more]
    return recomputed(f"what {'plans' if runs else 'sessions'} tell of {kind}", parts, "told")


# ---- the same for all data -------------------------------------------------------------------------------------------


def _same(told: Sequence[tuple[str, Texts]]) -> Iterator[Compared]:
    """Comparisons of every text over all data sets; a finding names the text, the data sets and the first line."""
    (first, expected), *others = told
    for name, text in expected.items():  # how long a release took depends on rows
        yield (name if _SECOND not in text else f"{name}: tells the second of a moment"), _SECOND not in text
    for data, texts in others:
        for name in dict.fromkeys((*expected, *texts)):
            here, there = expected.get(name), texts.get(name)
            same = here == there
            yield (name if same else f"{name}: {_difference(here, there)} ({first}, {data})"), same


def _difference(here: bytes | None, there: bytes | None) -> str:
    """The first line that differs, as it reads for the second data set."""
    if here is None or there is None:
        return "is not always written"
    before, after = (text.decode("utf-8", "replace").splitlines() for text in (here, there))
    differing = [line for line, other in zip(after, before, strict=False) if line != other] or after[len(before) :]
    return f"differs: {' '.join(differing[:1])[:90]!r}" if differing else "differs in length"


@contextmanager
def standing_clock() -> Iterator[None]:
    """Let no time pass and number all ids, so that two runs tell the same moments and names."""
    numbers = count(1)
    for room in ("core", "ledgers", "plans", "publish"):  # a module that is imported later would have its own clock
        for found in walk_packages([str(Path(__file__).parents[1] / room)], f"discreet.{room}."):
            import_module(found.name)

    class Standing(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return _NOW if tz is None else _NOW.astimezone(tz)

    class Kind(type(Standing)):  # type: ignore[misc]
        def __instancecheck__(cls, one: Any) -> bool:
            return isinstance(one, datetime)

    clock = Kind("datetime", (Standing,), {})
    with ExitStack() as stack:
        for name, module in [*sys.modules.items()]:
            if name.startswith("discreet.") and getattr(module, "datetime", None) is datetime and name != __name__:
                stack.enter_context(patch.object(module, "datetime", clock))
        stack.enter_context(patch.object(time, "time", lambda: _NOW.timestamp()))
        stack.enter_context(patch.object(uuid, "uuid4", lambda: uuid.UUID(int=next(numbers))))
        yield


@contextmanager
def _overheard(told: Texts) -> Iterator[None]:
    """Write down all that is printed, warned or logged meanwhile."""
    out = io.StringIO()
    errors = io.StringIO()
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with redirect_stdout(out), redirect_stderr(errors), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        own = [str(one.message) for one in warned if "discreet" in str(one.filename) or "discreet" in str(one.message)]
        texts = {"output": out, "errors": errors, "log": log}
        told |= {name: text.getvalue().encode() for name, text in texts.items()}
        told["warnings"] = "\n".join(own).encode()


def _shown(found: Any) -> dict[str, str]:
    """An object in every way in which it shows itself."""
    ways: dict[str, Callable[[], Any]] = {"str": lambda: str(found), "repr": lambda: repr(found)}
    for name in ("to_dict", "rows", "_repr_html_", "facts", "heading"):
        if hasattr(found, name):
            ways[name] = getattr(found, name)
    return {name: str(_or_refusal(way)) for name, way in ways.items()}


def _or_refusal(call: Callable[[], Any]) -> Any:
    """The result of a call, or its error with everything that the error carries."""
    try:
        return call()
    except Exception as error:
        return _told(error)


def _told(error: BaseException | None) -> str:
    if error is None:
        return ""
    notes = " ".join(getattr(error, "__notes__", ()))
    own = f"{type(error).__name__}: {error} {notes} {sorted(vars(error))}"
    # What an error came from is shown to the reader, too, unless it was suppressed.
    earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return f"{own}\n{_told(earlier)}"


# ---- data ------------------------------------------------------------------------------------------------------------

_COLUMNS: dict[str, Any] = {
    "arm": Categories(["A", "B", "C"], nulls="drop", unknown="drop"), "half": Categories(["L", "R"], nulls="=L",
    unknown="=L"), "x": Bounds(0, 2, grid=1), "y": Bounds(-1, 1, grid=0.5, nulls=0), "day": Dates("2024-01-01",
    "2024-12-31"), "city": PrivateLabels(),
}  # fmt: skip
_LIMITS = Contribution(groups=2, rows=2)
_SCHEMAS = {
    "rows": Schema(columns=_COLUMNS),
    "people": Schema(columns=_COLUMNS, unit=PrivacyUnit("person", contribution=_LIMITS)),
}
_TEXTS = ("arm", "half", "day", "city")


def _rows(kind: str, size: int) -> list[dict[str, Any]]:
    """So many rows, or people with one to nine rows; larger data sets begin with the rows of smaller ones."""
    rng, rows = np.random.default_rng(5), []
    for number in range(size):
        for _ in range(1 if kind == "rows" else int(rng.choice([1, 1, 2, 9]))):
            rows.append({"person": number, **_row(rng)})
    return rows


def _row(rng: np.random.Generator) -> dict[str, Any]:
    def one_of(*values: Any) -> Any:
        return values[int(rng.integers(0, len(values)))]

    return {
        "arm": one_of("A", "B", "C", "A", None, "Z"), "half": one_of("L", "R", None, "?"), "x": one_of(0.0, 1.0, 2.0,
        1.25, 99.0, -7.0, None), "y": one_of(-1.0, 0.5, 1.0, 8.0, None), "day": one_of("2024-02-03", "2024-11-30",
        "1999-01-01", None), "city": one_of("A", "B", "C", None),
    }  # fmt: skip


def _table(rows: Sequence[Mapping[str, Any]]) -> Any:
    kinds = {"person": "int64", "x": "float64", "y": "float64", **dict.fromkeys(_TEXTS, "string")}
    return arrow_table(rows, kinds)


# ---- sessions --------------------------------------------------------------------------------------------------------

_ENOUGH = ApproxDP(1000.0, 0.5)


def _sessions(kind: str, sizes: Sequence[int]) -> Iterator[Compared]:
    """Every question planned, asked, asked again and planned again in one session, and what is refused after it."""
    return _same([(f"{size} {kind}", _session_told(kind, size)) for size in sizes])


def _session_told(kind: str, size: int) -> Texts:
    told: Texts = {}
    schema = _SCHEMAS[kind]
    with standing_clock(), scripted(Script()), _no_labels(), _overheard(told):
        found = dict[str, dict[str, str]]()
        sessions = dict[Any, Session]()

        def session(unit: PrivacyUnit, guarantee: Guarantee) -> Session:
            """One for each ledger: units and currencies that are not counted together have their own."""
            key = unit, isinstance(guarantee, GaussianDP)
            if key not in sessions:
                own = Schema(columns=_COLUMNS, unit=unit)
                budget = GaussianDP(50.0) if key[1] else _ENOUGH
                ledger = Ledger(":memory:", budget, neighbours=own.neighbours, unit=unit.unit)
                sessions[key] = Session(_table(_rows(kind, size)), own, ledger=ledger)
            return sessions[key]

        for ask, question in every_question(schema).items():
            asked = session(question.schema.unit, question.guarantee)
            own = question.changed(schema=asked.schema)
            found[f"{ask}, planned"] = _shown(_or_refusal(lambda: asked.plan(own)))  # noqa: B023
            found[ask] = _shown(_or_refusal(lambda: asked.ask(own, "r " + ask)))  # noqa: B023
            found[f"{ask}, again"] = _shown(_or_refusal(lambda: asked.ask(own, "r " + ask)))  # noqa: B023
            found[f"{ask}, planned again"] = _shown(_or_refusal(lambda: asked.plan(own)))  # noqa: B023
        first = next(iter(sessions.values()))
        found |= {name: _shown(_or_refusal(partial(call, first))) for name, call in _AFTERWARDS.items()}
        found["ledgers"] = {str(key): str(one.ledger.statement().to_dict()) for key, one in sessions.items()}
        found["sessions"] = {str(key): repr(one) for key, one in sessions.items()}
    return told | {f"{name} ({way})": text.encode() for name, ways in found.items() for way, text in ways.items()}


@contextmanager
def _no_labels() -> Iterator[None]:
    """Lists of labels come out empty: the one outcome that has a chance on all data sets."""
    with ExitStack() as stack:
        for kind in (OptimalSelection, GaussianThreshold):
            stack.enter_context(patch.object(kind, "shown", lambda self, counts, rng=None: np.zeros(len(counts), bool)))
        yield


_AFTERWARDS: dict[str, Callable[[Session], Any]] = {
    "more than is left": lambda s: s.count(epsilon=5000.0, delta=0.01),
    "a request of another question": lambda s: s.sum("y", epsilon=1.0, name="r sum"),
    "a column that is not there": lambda s: s.sum("nothing", epsilon=1.0),
    "a label that is not there": lambda s: s.proportion("arm", "Q", epsilon=1.0),
    "a column that the data lacks": lambda s: s.declaring(z=Bounds(0, 1, grid=1)).sum("z", epsilon=1.0),
    "types": lambda s: s.dataset.types(),
    "dataset": lambda s: repr(s.dataset),
    "names": lambda s: s.source_names(),
    "required": lambda s: s.require("arm", "x"),
    "ledger": lambda s: s.ledger,
    "spent": lambda s: [s.ledger.spent(), s.ledger.remaining(), s.ledger.head],
    "verified": lambda s: s.ledger.verify(),
}
"""What somebody may do after answers: refused or told alike, whatever the data was."""


# ---- refusals --------------------------------------------------------------------------------------------------------


def _refusals() -> Iterator[Compared]:
    """A schema that refuses gaps or labels says so in the same words, whatever and however much it refuses."""
    refusing = {
        "gaps": Schema(columns={"x": Bounds(0, 2, grid=1, nulls="refuse")}),
        "labels": Schema(columns={"arm": Categories(["A", "B", "C"], nulls="drop", unknown="refuse")}),
        "gaps of labels": Schema(columns={"arm": Categories(["A", "B", "C"], nulls="refuse", unknown="drop")}),
    }
    bad: dict[str, dict[str, Any]] = {"gaps": {"x": None}, "labels": {"arm": "Z"}, "gaps of labels": {"arm": None}}
    good = {**_row(np.random.default_rng(1)), "person": 1, "arm": "A", "x": 1.0}
    for name, schema in refusing.items():
        told = []
        for size, wrong in ((3, 1), (3, 2), (40, 31), (1, 1), (0, 1)):
            rows = [good] * size + [{**good, **bad[name]}] * wrong
            told.append((f"{wrong} of {size + wrong} rows", _refused(schema, rows, "x" if name == "gaps" else "arm")))
        yield from _same(told)


def _refused(schema: Schema, rows: Sequence[Mapping[str, Any]], column: str) -> Texts:
    told: Texts = {}
    with standing_clock(), scripted(Script()), _overheard(told):
        session = Session(_table(rows), schema, ledger=":memory:", budget=PureDP(9.0))
        ask = partial(session.sum, column) if column == "x" else partial(session.mode, column)
        found = [str(_or_refusal(partial(ask, PureDP(1.0), name=name))) for name in ("r", "r", "s")]
        found += [str(session.ledger.statement().to_dict())]
    return told | {f"refusal {place}": text.encode() for place, text in enumerate(found)}


# ---- odd values ------------------------------------------------------------------------------------------------------

_ODD_TEXTS = (b"a\rb", b"\xff\xfe", b'"a\rb"', b"1e999", b"9" * 400, b"9999999-12-31", b"")
_ODD: tuple[tuple[Any, ...], ...] = (
    (), (2**64,), (2.5, float("nan")), ("n/a",),
    ([3], {"a": 1}, -(10**400), b"\xff", "1e999", None, datetime(9999, 12, 31, tzinfo=UTC), object),
)  # fmt: skip
"""What rows may hold beside plain numbers: together, and what alone changes the type of a frame's column."""


def _odd_values() -> Iterator[Compared]:
    """Odd values on every kind of source, or none: an answer for the same charge, in the same words."""
    with TemporaryDirectory() as folder:
        for header in (True, False):
            told = []
            for odd, rows in (((), 3), (_ODD_TEXTS, 3), ((), 0)):
                path = _file_with(Path(folder), odd, header, rows)
                told.append((f"{len(odd)} odd values and {rows} others in a file", _odd_told(path, header=header)))
            yield from _same(told)
    for kind, frame_with in _FRAMES.items():
        frames = [(odd, _made(frame_with, odd)) for odd in _ODD]
        yield from _same([(f"{odd!r:.40} in {kind}", _odd_told(one)) for odd, one in frames if one is not None])


def _file_with(folder: Path, odd: Sequence[bytes], header: bool, rows: int) -> str:
    """A file of rows that hold one value in every column; the odd ones come first."""
    values = [*odd, *(b"%d" % row for row in range(rows))]
    lines = [",".join(_NAMES).encode()] if header else []
    lines += [b",".join([one] * len(_NAMES)) for one in values]
    (folder / "rows.csv").write_bytes(b"".join(line + b"\n" for line in lines))
    return str(folder / "rows.csv")


def _made(
    frame_with: Callable[[dict[str, list[Any]]], Any], odd: Sequence[Any], others: Sequence[Any] = (0, 1, 2)
) -> Any:
    """A frame with odd values beside others; None where its kind cannot hold them."""
    try:
        return frame_with({name: [*others, *odd] for name in _NAMES})
    except Exception:
        return None


def _pandas(columns: dict[str, list[Any]]) -> Any:
    import pandas

    return pandas.DataFrame({name: pandas.Series(values) for name, values in columns.items()})


def _polars(columns: dict[str, list[Any]], strict: bool = False) -> Any:
    import polars

    return polars.DataFrame(columns, strict=strict)


def _ibis(columns: dict[str, list[Any]]) -> Any:
    import ibis

    return ibis.memtable(_pandas(columns))


_NAMES = ("column1", "column2", "column3", "column4", "column5")
_FRAMES: dict[str, Callable[[dict[str, list[Any]]], Any]] = {"pandas": _pandas, "polars": _polars, "ibis": _ibis}


def _odd_told(source: Any, **options: Any) -> Texts:
    """All that a session tells that reads the same values as numbers, dates, labels, other labels and ids."""
    told: Texts = {}
    declared = (Bounds(0, 2, grid=1), Dates("2024-01-01", "2024-12-31"), Categories(["1", "2"]), PrivateLabels())
    columns: dict[str, Column] = dict(zip(_NAMES, declared, strict=False))
    schema = Schema(columns=columns, unit=PrivacyUnit(_NAMES[4], contribution=_LIMITS))
    with standing_clock(), scripted(Script()), _no_labels(), _overheard(told):
        session = Session(source, schema, ledger=":memory:", budget=_ENOUGH, **options)
        calls: dict[str, Callable[[], Any]] = {
            "required": lambda: session.require(*_NAMES[:4]),
            "number": lambda: session.sum(_NAMES[0], epsilon=1.0, name="number"),
            "date": lambda: session.sum(_NAMES[1], epsilon=1.0, name="date"),
            "label": lambda: session.mode(_NAMES[2], epsilon=1.0, name="label"),
            "groups": lambda: session.common_labels(_NAMES[3], epsilon=1.0, delta=1e-6, name="groups"),
            "profile": lambda: session.profile(epsilon=1.0, columns=_NAMES[:1], name="profile"),
            "ledger": lambda: session.ledger.statement().to_dict(),
        }
        found = {name: _shown(_or_refusal(call)) for name, call in calls.items()}
    return told | {f"{name} ({way})": text.encode() for name, ways in found.items() for way, text in ways.items()}


_HELD: dict[str, list[Any]] = {
    "large numbers": [2**60 + place for place in range(8)],
    "numbers": [0, 1, 2, 3, 2**53 - 1, 2**53 + 1, -7],
    "fractions": [0.5, 1.0, 2.0, -1.25, 1e300],
    "texts": ["0", "1", "1.0", "01", " 1", "1e0", "nan", "True"],
    "truths": [True, False, True],
}
"""Values of everybody else."""
_LAST: tuple[Any, ...] = (None, 2.5, "n/a", 10**30)
"""One value more, each of which gives a column of a frame another type."""


def _one_more() -> Iterator[Compared]:
    """One row more moves totals by no more than a row, though it may change the type of everybody's values."""
    columns: dict[str, Column] = {_NAMES[0]: Bounds(-4, 4, grid=0.5), _NAMES[1]: Categories(["0", "1", "True"])}
    schema = Schema(columns=columns, unit=PrivacyUnit(_NAMES[2], contribution=Contribution(total=1)))
    counted = Selected(contribution=Contribution(total=1))
    asked = (counted, replace(counted, by=(_NAMES[1],)), replace(counted, columns=(_NAMES[0],)))

    def added_up(frame: Any) -> list[Any]:
        snapshot = take(open_source(frame), schema, salt="5a" * 32)
        found = [totals(snapshot, one, [one.columns] if one.columns else []) for one in asked]
        return [[*one.counts, *(sum_ / 8 for sums in one.sums.values() for sum_ in sums)] for one in found]

    # polars mixes types only for those who ask for it, and ibis takes what pandas makes.
    kinds: dict[str, Callable[..., Any]] = {"pandas": _pandas, "polars": partial(_polars, strict=True)}
    for kind, frame_with in kinds.items():
        for words, values in _HELD.items():
            before = added_up(frame_with(dict.fromkeys(_NAMES[:3], values)))
            for last in _LAST:
                frame = _made(frame_with, (last,), values)
                if frame is None:
                    continue
                both = zip(before, added_up(frame), strict=True)
                moved = [[abs(a - b) for a, b in zip(*pair, strict=True)] for pair in both]
                # A count, a row of one of three labels, and a sum whose steps of 0.5 reach to 8 on either side.
                alike = all(max(one) <= 1 and sum(one) <= 2 for one in moved)
                name = f"{words} in {kind}, and {last!r}"
                yield (name if alike else f"{name}: one row more moves {moved}"), alike


# ---- whole runs ------------------------------------------------------------------------------------------------------

_UNIT = """
[schema.unit]
column = "person"
groups = 2
rows = 2
"""
_RELEASES: dict[str, str] = {
    "usable_values": 'columns = ["x", "arm"]', "dropped_rows": 'columns = ["x"]\nby = ["arm"]',
    "count": 'by = ["arm"]', "mean": 'column = "x"\nby = ["half"]\nvariance = true\nexpected_rows = 50',
    "sum": 'column = "y"', "quantile": 'column = "x"\nprobabilities = [0.5]', "histogram": 'column = "y"\nbins = 2',
    "table": 'columns = ["arm", "half"]', "regression": 'column = "y"\non = ["x"]',
    "compare_means": 'column = "x"\nby = "half"',
}  # fmt: skip
_REFUSED = {"poor.toml": 3, "wrong.toml": 4}
"""Plans that end with a status of their own."""
_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("plan", "told.toml"),
    ("run", "told.toml", "--log", "run.log"),
    ("plan", "told.toml"),
    ("run", "told.toml", "--json", "--log", "run.log"),
    ("run", "told.toml", "--dry-run"),
    ("review", "told.toml", "--out", "review.html"),
    ("ledger", "show", "told.ledger", "--out", "ledger.html"),
    ("ledger", "show", "told.ledger", "--by", "release", "--json"),
    ("ledger", "explain", "told.ledger", "mean"),
    ("ledger", "verify", "told.ledger"),
    *(("export", "told-report", "--format", kind) for kind in FORMATS),
    ("bundle", "told.toml", "--as", "officer", "--key", "keys/officer.key"),
    ("verify", "told.bundle"),
    ("run", "poor.toml", "--log", "run.log"),
    ("run", "wrong.toml", "--log", "run.log"),
)
"""A plan from the first look to the bundle, one that costs too much, and one that asks for a missing column."""
_GROWN = 4
"""The command before which the source may grow: stored answers are all that is told from here on."""
_UNSEEN = re.compile(r"(^rows\.csv|-sources|\.sources|^keys/.*|\.lock)$")
"""The data, a keyed record of its state that stays beside the ledger, and the signer's key."""


def _runs(kind: str, sizes: Sequence[int]) -> Iterator[Compared]:
    """Plans through the command line: all that it prints, and all files that it leaves behind."""
    with TemporaryDirectory() as folder:
        place = Path(folder) / "study"
        keys = Path(folder) / "keys"
        new_key("officer", "a password", keys)
        told = []
        for size, grows in ((sizes[0], 0), (sizes[0], 1), *((size, 0) for size in sizes[1:])):
            rmtree(place, ignore_errors=True)
            place.mkdir()
            (place / "keys").symlink_to(keys)
            data = f"{size} {kind}{', one more after the run' if grows else ''}"
            told.append((data, _run_told(place, kind, size, grows)))
        for words, status in ((name, status) for name, status in told[0][1].items() if name.endswith("(status)")):
            wanted = next((str(code) for plan, code in _REFUSED.items() if plan in words), "None")
            yield f"{words}: ended with {status.decode()}", status.decode() == wanted  # a refusal tells too little
        yield from _same(told)
        with Ledger(place / "told.ledger", read_only=True) as ledger:  # which decides the rows that units keep
            secret, spent = ledger.salt.hex().encode(), ledger.spent()
        shown = {name: text for name, text in told[-1][1].items() if not name.endswith(".ledger")}
        yield from ((f"{name}: shows the secret of the ledger", secret not in text) for name, text in shown.items())
        yield from _stated(place, spent, shown)


def _stated(place: Path, spent: Guarantee, shown: Texts) -> Iterator[Compared]:
    """Every kind of file states as spent on all releases together what the ledger has spent on them."""
    stated = read_facts(place / "told-report")["privacy"]["spent"]
    own = {name: stated.get(name) for name in spent.parameters()}
    yield f"results: {own} is said to be spent, and the ledger says {spent}", own == spent.parameters()
    for kind in (".parquet", "report.html", "report.md", ".xlsx/"):
        found = b"".join(text for name, text in shown.items() if kind in name)
        yield f"{kind}: does not state what was spent", not found or stated["symbols"].encode() in found


def _first_records() -> Iterator[Compared]:
    """A file without names of columns: its first record is somebody's, and no command may tell a word of it."""
    fields = {"a word": "Quexley", "a number": "4711.25", "a date": "1987-06-05", "an address": "q.uex@ley.org"}
    for kinds in permutations(fields, 3):
        if "a word" not in kinds:
            continue
        with TemporaryDirectory() as folder, _within(Path(folder)):
            place, told = Path(folder), dict[str, bytes]()
            record = ",".join(fields[kind] for kind in kinds)
            (place / "rows.csv").write_text(f"{record}\nBlythe,1,2\n")
            with _overheard(told):
                _status(("describe", "rows.csv"))
            texts = [*told.values(), *(path.read_bytes() for path in place.iterdir() if path.name != "rows.csv")]
            silent = not any(fields[kind].encode() in text for kind in kinds for text in texts)
            yield f"a first record of {', '.join(kinds)} is told", silent


def _one_ledger() -> Iterator[Compared]:
    """Plans about the same data share its ledger, wherever they lie and whatever they are called."""
    source = "title = 'a'\n[source]\npath = '{}'\n[budget]\nepsilon = 1\n[schema.columns.x]\nlow = 0\nhigh = 1\n"
    ask = "[[release]]\nname = 'n'\nask = 'count'\n"
    with TemporaryDirectory() as folder:
        place = Path(folder).resolve()
        for name in ("data/rows.csv", "data/other.csv", "a/one.toml", "a/two.toml", "b/c/one.toml"):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text("x\n1\n")
        ledgers = {}
        for plan, path in (
            ("a/one.toml", "../data/rows.csv"), ("a/two.toml", f"{place}/data/rows.csv"),
            ("b/c/one.toml", "../../data/rows.csv"), ("a/three.toml", "../data/other.csv"),
        ):  # fmt: skip
            (place / plan).write_text(source.format(path) + ask)
            ledgers[plan] = (place / plan).parent.joinpath(PlanFile.read(place / plan).ledger).resolve()
        other = ledgers.pop("a/three.toml")
        yield "plans about one file have ledgers of their own", len({*ledgers.values()}) == 1
        yield "plans about two files share a ledger", other not in ledgers.values()


def _run_told(place: Path, kind: str, size: int, grows: int = 0) -> Texts:
    stored = files("discreet.audit").joinpath("data/told.toml").read_text(encoding="utf-8")
    plan = stored.format(unit=_UNIT if kind == "people" else "")
    releases = "".join(f'\n[[release]]\nname = "{ask}"\nask = "{ask}"\n{text}\n' for ask, text in _RELEASES.items())
    (place / "told.toml").write_text(plan + releases)
    (place / "poor.toml").write_text(plan + '\n[[release]]\nname = "dear"\nask = "count"\n')
    wrong = '\n[schema.columns.z]\nlow = 0\nhigh = 1\ngrid = 1\n\n[[release]]\nname = "z"\nask = "sum"\ncolumn = "z"\n'
    (place / "wrong.toml").write_text(plan.replace("told.ledger", "other.ledger") + wrong)
    rows = _rows(kind, size + grows)
    _write(place, rows[: len(_rows(kind, size))])
    told: Texts = {}
    with standing_clock(), scripted(Script()), _within(place):
        for number, command in enumerate(_COMMANDS, start=1):
            if number == _GROWN and grows:
                _write(place, rows)
            heard: Texts = {}
            with _overheard(heard):
                status = _status(command)
            words = f"{number}. discreet {' '.join(command)}"
            told |= {f"{words} ({way})": text for way, text in heard.items()}
            told[f"{words} (status)"] = str(status).encode()
    for path in sorted(one for one in place.rglob("*") if one.is_file()):
        name = path.relative_to(place).as_posix()
        if _UNSEEN.search(name) is None:
            told |= _contents(name, path)
    return told


def _write(place: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    with (place / "rows.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["person", *_row(np.random.default_rng(1))])
        writer.writeheader()
        writer.writerows(rows)


def _status(command: Sequence[str]) -> Any:
    """The status with which a command ends that is run as ``python -m discreet`` runs it."""
    try:
        return run_module("discreet", run_name="audited")["main"]([*command])
    except SystemExit as end:
        return end.code
    except DiscreetError as error:
        return _told(error)


@contextmanager
def _within(place: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(place)
    with patch.dict(os.environ, {"DISCREET_PASSWORD": "a password", "COLUMNS": "100"}):
        try:
            yield
        finally:
            os.chdir(before)


def _contents(name: str, path: Path) -> Texts:
    """A file's bytes; an archive's by its members, without the times that whoever wrote it noted."""
    if not zipfile.is_zipfile(path):
        return {name: path.read_bytes()}
    with zipfile.ZipFile(path) as archive:
        return {f"{name}/{one}": _TIMES.sub(b"", archive.read(one)) for one in archive.namelist()}


_TIMES = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


# ---- Failures: what somebody gets who asks again after an error, and what an error tells.
#
# Every kind of error is raised at every draw of a question, and at every read of rows before, between and after them:
#
# - the caller is told the same words, whatever the error was: a word about a value would cost nothing;
# - the same request, asked again, is refused or answered without new noise once anything was drawn: whether a run fails
#   may depend on the noise, so it must not get other noise for the same money;
# - what was paid stays paid, and is paid once.


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
_ENOUGH_OF_EACH = {GaussianDP: GaussianDP(50.0), PureDP: PureDP(500.0), ApproxDP: ApproxDP(500.0, 0.9)}


def audit_failures(deep: bool = False, *, asks: Collection[str] | None = None) -> Audit:
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
    return recomputed("errors at every draw and read", parts, "told")


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
    for what, failing, most in (("draw", _failing_draw, draws), ("read", _failing_read, reads)):
        places = range(most) if deep else sorted({0, most - 1} & set(range(most)))
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
    """The number of draws and reads of a question."""
    with scripted(Script()) as script, _reading() as reads:
        _session(question).ask(question, "r")
    return len(script.draws), len(reads)


def _session(question: Question[Any]) -> Session:
    schema = question.schema
    table = table_of(corner_world().tables[3], schema)
    budget = _ENOUGH_OF_EACH[type(question.guarantee)]
    ledger = Ledger(":memory:", budget, neighbours=schema.neighbours, unit=schema.unit.unit)
    return opened(table, schema, ledger)
