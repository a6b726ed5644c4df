"""Study: a paper's experiment as a grid of seeded cells that can be stopped and taken up again.

A study has named parts (its figures and tables). A part is a grid of cells; a cell is a pure function of its
parameters and a seed that returns rows. Finished cells are appended to one CSV file per part, whole or not at
all, and skipped the next time; a complete run can be stored compressed (``.csv.gz``). A cell's seed depends on the
study's seed, the part and the cell's parameters only, so results do not depend on the order, on the number of workers
or on where a run was interrupted.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import math
import os
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field, replace
from importlib.resources import files
from itertools import product
from pathlib import Path
from time import monotonic
from typing import Any

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.papers.figure import Figure, HeatMap
from discreet.results.display import Facts, Result

# ---- Claim: a sentence of a paper as data, with the statistic that decides it and the range in which it is true.


HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot tell at this precision"
DEPENDS = "depends on what the paper leaves open"
VERDICTS = (HOLDS, FAILS, DEPENDS, OPEN)
_SURE = 3.0
"""Standard errors of the simulation on either side: a verdict is wrong by chance about once in 700 times."""
_ROUNDING = 1e-12
"""Relative room for floating point where a statistic is exact."""
_ONE_NUMBER = 1e-6
"""A narrower range stands for one number and the rounding around it."""

Row = dict[str, Any]
"""One line of results: column name to a plain string, number, bool or None."""
Rows = list[Row]


@dataclass(frozen=True)
class MeasuredRange:
    """A statistic, and the range in which its true value lies as far as the simulation can tell."""

    value: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> MeasuredRange:
        """A statistic without Monte-Carlo error."""
        return cls(float(value), float(value), float(value))

    @classmethod
    def of(cls, value: float, error: float) -> MeasuredRange:
        """A statistic with its Monte-Carlo standard error."""
        return cls(float(value), float(value - _SURE * error), float(value + _SURE * error))

    @classmethod
    def proportion(cls, value: float, repeats: int) -> MeasuredRange:
        """A proportion of ``repeats`` independent runs, by Wilson's interval."""
        square = _SURE**2
        middle = (value + square / (2 * repeats)) / (1 + square / repeats)
        half = _SURE / (1 + square / repeats) * math.sqrt(value * (1 - value) / repeats + square / (4 * repeats**2))
        low, high = min(middle - half, value), max(middle + half, value)  # rounding must not exclude 0 or 1
        return cls(float(value), max(0.0, low), min(1.0, high))

    def __str__(self) -> str:
        value = _number(self.value)
        if self.low == self.high:
            return value
        return f"{value} ({_number(self.low)} to {_number(self.high)})"


def compared(one: MeasuredRange, other: MeasuredRange) -> MeasuredRange:
    """``one`` minus ``other``, for two measurements from separate or from shared runs: errors are added."""
    return MeasuredRange(one.value - other.value, one.low - other.high, one.high - other.low)


def votes(settings: Iterable[MeasuredRange], *, low: float = -math.inf, high: float = math.inf) -> MeasuredRange:
    """The share of settings whose value lies in [low, high].

    Its range runs from the share of settings that surely do to the share that may.
    """
    all_of_them = list(settings)
    if not all_of_them:
        raise InvalidParameter("settings", [], "must not be empty", "Check which rows the claim selects.")
    inside = sum(low <= one.value <= high for one in all_of_them)
    surely = sum(low <= one.low and one.high <= high for one in all_of_them)
    may = sum(one.high >= low and one.low <= high for one in all_of_them)
    return MeasuredRange(inside / len(all_of_them), surely / len(all_of_them), may / len(all_of_them))


@dataclass(frozen=True)
class PaperClaim:
    """A claim of a paper, with the statistic that decides it.

    Parameters
    ----------
    paper
        The paper's key.
    place
        Section, figure, table or theorem.
    claim
        The paper's words, quoted or fairly shortened.
    statistic
        What is computed, in words.
    measure
        The statistic from the stored rows of ``part``, or from nothing where there is none; a plain number is exact.
    low, high
        The claim is true where the statistic lies in this range: the tolerance.
    part
        The part of the study whose rows decide; None where the claim is computed directly.
    beside
        Another part that it is compared with: ``measure`` takes its rows second.
    depends
        What the paper leaves open and was chosen here, and how the verdict turns with it; empty where it does not.
    """

    paper: str
    place: str
    claim: str
    statistic: str
    measure: Callable[..., MeasuredRange | float]
    low: float = -math.inf
    high: float = math.inf
    part: str | None = field(default=None, kw_only=True)
    beside: str | None = field(default=None, kw_only=True)
    depends: str = field(default="", kw_only=True)

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts whose rows decide."""
        return tuple(name for name in (self.part, self.beside) if name is not None)

    def decide(self, *rows: Rows) -> Decision:
        """The verdict from the rows of a full run, of one part or of two; a claim without a part takes none."""
        found = self.measure(*rows[: len(self.parts)])
        return Decision(self, found if isinstance(found, MeasuredRange) else MeasuredRange.exact(found))

    def needs(self) -> str:
        """The range in which the claim is true, in words."""
        if self.high - self.low < _ONE_NUMBER:
            return f"exactly {_number((self.low + self.high) / 2)}"
        if math.isinf(self.high):
            return f"at least {_number(self.low)}"
        if math.isinf(self.low):
            return f"at most {_number(self.high)}"
        return f"{_number(self.low)} to {_number(self.high)}"


@dataclass(frozen=True)
class Decision:
    """A claim with its measured statistic and the verdict that follows."""

    claim: PaperClaim
    measured: MeasuredRange

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`: sure where the whole range of the statistic lies inside, or outside, the claim's."""
        found, room = self.measured, _ROUNDING * abs(self.measured.value)
        if self.claim.depends:
            return DEPENDS
        if self.claim.low - room <= found.low and found.high <= self.claim.high + room:
            return HOLDS
        if found.high < self.claim.low or found.low > self.claim.high:
            return FAILS
        return OPEN

    def figures(self) -> str:
        """The statistic, what was found and what the claim needs."""
        depends = f". {self.claim.depends}" if self.claim.depends else ""
        return f"{self.claim.statistic}: {self.measured}; the claim needs {self.claim.needs()}{depends}"

    def to_dict(self) -> dict[str, Any]:
        """The decision as JSON-ready data."""
        return {
            "paper": self.claim.paper,
            "place": self.claim.place,
            "claim": self.claim.claim,
            "verdict": self.verdict,
            "statistic": self.claim.statistic,
            "value": self.measured.value,
            "range": [self.measured.low, self.measured.high],
            "needs": self.claim.needs(),
            "part": self.claim.part,
            "depends": self.claim.depends or None,
        }


def _number(value: float) -> str:
    if value and abs(value) < 1e-9:
        return "0"  # what is left of a sum that cancels
    return f"{value:.4g}"


# ---- Stored rows: picking them, and the largest and smallest of what was measured in them


def pick(rows: Rows, **where: Any) -> Rows:
    """Rows whose columns have these values, or one of a tuple of them; there must be some."""

    def fits(row: dict[str, Any]) -> bool:
        return all(row[k] in v if isinstance(v, tuple) else row[k] == v for k, v in where.items())

    found = [row for row in rows if fits(row)]
    if not found:
        raise InvalidParameter("where", where, "selects no stored row", "Check the grid of the study.")
    return found


def grid(**axes: Any) -> list[dict[str, Any]]:
    """Cells with every combination of some parameters, the last fastest; what is not a tuple is the same in all.

    Examples
    --------
    >>> grid(n=(10, 20), law="ZINB")
    [{'n': 10, 'law': 'ZINB'}, {'n': 20, 'law': 'ZINB'}]
    """
    values = [axis if isinstance(axis, tuple) else (axis,) for axis in axes.values()]
    return [dict(zip(axes, chosen, strict=True)) for chosen in product(*values)]


def side_by_side(rows: Rows, names: Sequence[str], column: Callable[[Row], str], cell: Callable[[Row], str]) -> Rows:
    """One line per setting of ``names``, and in it a text for each row that has this setting."""
    lines: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = tuple(row[name] for name in names)
        lines.setdefault(key, dict(zip(names, key, strict=True)))[column(row)] = cell(row)
    return list(lines.values())


def with_ends(rows: Rows, errors: Callable[[Row], Mapping[str, float]]) -> Rows:
    """Rows with two Monte-Carlo standard errors below and above every number that has one."""
    return [
        {**row, **{f"{name} {end}": row[name] + sign * error for name, error in errors(row).items()
                   for end, sign in (("low", -2), ("high", 2))}}
        for row in rows
    ]  # fmt: skip


def most(found: Iterable[MeasuredRange]) -> MeasuredRange:
    """The largest of some measurements."""
    listed = list(found)
    return MeasuredRange(*(max(getattr(one, name) for one in listed) for name in ("value", "low", "high")))


def least(found: Iterable[MeasuredRange]) -> MeasuredRange:
    """The smallest of some measurements."""
    listed = list(found)
    return MeasuredRange(*(min(getattr(one, name) for one in listed) for name in ("value", "low", "high")))


def average(found: Iterable[MeasuredRange]) -> MeasuredRange:
    """The mean of measurements from separate runs: their errors average out."""
    listed = list(found)
    value = sum(one.value for one in listed) / len(listed)
    below = math.sqrt(sum((one.value - one.low) ** 2 for one in listed)) / len(listed)
    above = math.sqrt(sum((one.high - one.value) ** 2 for one in listed)) / len(listed)
    return MeasuredRange(value, value - below, value + above)


def size_of(one: MeasuredRange) -> MeasuredRange:
    """|x| of a measurement."""
    ends = sorted((abs(one.low), abs(one.high)))
    return MeasuredRange(abs(one.value), 0.0 if one.low <= 0 <= one.high else ends[0], ends[1])


# ---- Study: a paper's experiment as a grid of seeded cells that can be stopped and taken up again.


Scalar = str | int | float | bool | None
Parameters = Mapping[str, Any]
"""What a cell is computed from: plain strings, numbers and bools by name."""
Summary = Callable[[list[Row]], list[Row]]
Finding = Callable[[list[Row]], str]

_BOOKKEEPING = ("cell", "row", "rows")


@dataclass(frozen=True)
class Part:
    """One figure or table of a paper.

    Parameters
    ----------
    name
        File name of its results, for example ``"figure-2"``.
    cells
        ``cells(quick)`` gives the grid: one mapping of plain parameters a cell. Everything that changes the
        result belongs in it (the number of repeats too), because a cell is recognised by its parameters.
    compute
        ``compute(parameters, seed)`` gives the rows of one cell; a pure, module-level function. Every row of
        a part has the same columns.
    title
        Heading on the page.
    reported
        What is asked or what other papers report, as markdown; what the study's own paper says is a claim.
    summary
        The rows of the page's table and figures; all rows where it is not given.
    finding
        Markdown computed from the rows: what was found, and what changes against the paper.
    figures
        Charts of the summary rows.
    shown
        Which of the summary rows the page's table shows; all where it is not given.
    """

    name: str
    cells: Callable[[bool], Sequence[Parameters]]
    compute: Callable[[Parameters, int], Iterable[Row]]
    title: str = ""
    reported: str = ""
    summary: Summary | None = None
    finding: Finding | None = None
    figures: tuple[Figure, ...] = ()
    shown: Summary | None = None


@dataclass(frozen=True, kw_only=True)
class Study:
    """A paper's experiments.

    Parameters
    ----------
    paper
        The paper's key, for example ``"liu2019"``.
    title
        Heading of the page.
    introduction
        Markdown at the top of the page: what is re-run, and what "as published" and "certified" mean in it.
    parts
        Its figures and tables, in the paper's order.
    claims
        What the paper says, each with the statistic that decides it.
    """

    paper: str
    title: str
    introduction: str
    parts: tuple[Part, ...]
    claims: tuple[PaperClaim, ...] = ()

    @classmethod
    def read(cls, paper: str, parts: Iterable[Part], claims: tuple[PaperClaim, ...], **facts: str) -> Study:
        """The study whose words and plain figures are in ``data/<paper>.toml``; ``facts`` fill its introduction."""
        page = tomllib.loads(files("discreet.papers").joinpath(f"data/{paper}.toml").read_text(encoding="utf-8"))
        made = tuple(_worded(part, page["parts"][part.name]) for part in parts)
        introduction = page["introduction"].format(**facts) if facts else page["introduction"]
        return cls(paper=paper, title=page["title"], introduction=introduction, parts=made, claims=claims)

    def part(self, name: str) -> Part:
        """The part of that name."""
        for part in self.parts:
            if part.name == name:
                return part
        names = [part.name for part in self.parts]
        raise InvalidParameter("part", name, f"must be one of {names}", "Check the spelling.")


def _worded(part: Part, words: Mapping[str, Any]) -> Part:
    """A part with the heading and the figures that its page gives it."""
    kinds = {"Figure": Figure, "HeatMap": HeatMap}
    made = [kinds[figure.pop("kind", "Figure")](**_tuples(figure)) for figure in words.get("figures", ())]
    return replace(part, **{**words, "figures": (*made, *part.figures)})


def _tuples(value: Any) -> Any:
    """Lists of a file as tuples."""
    if isinstance(value, dict):
        return {name: _tuples(one) for name, one in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


@dataclass(frozen=True)
class Progress:
    """Where a run stands: ``done`` of ``total`` cells; ``part`` and ``cell`` were finished last.

    ``left`` is about how many seconds the rest takes, from the cells computed so far; None before the first of them.
    """

    part: str
    cell: dict[str, Scalar]
    done: int
    total: int
    left: float | None = None


@dataclass(frozen=True)
class StudyResult(Result):
    """The files of a run: the page, the CSV file and rows of every part, the figures, and decided claims."""

    paper: str
    page: Path
    tables: dict[str, Path]
    figures: tuple[Path, ...]
    computed: int
    skipped: int
    rows: Mapping[str, list[Row]] = field(repr=False)
    decisions: tuple[Decision, ...] = field(repr=False, default=())

    def heading(self) -> str:
        return f"{self.paper}: {self.computed} cells computed, {self.skipped} taken from earlier runs"

    def facts(self) -> Facts:
        tables = [("table", str(path)) for path in self.tables.values()]
        return [("page", str(self.page)), *tables, *(("figure", str(path)) for path in self.figures)]

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON-ready data."""
        return {
            "paper": self.paper,
            "page": str(self.page),
            "tables": {name: str(path) for name, path in self.tables.items()},
            "figures": [str(path) for path in self.figures],
            "computed": self.computed,
            "skipped": self.skipped,
        }


def run(
    study: Study,
    out: Path,
    *,
    quick: bool = False,
    seed: int = 1,
    parts: Sequence[str] | None = None,
    workers: int = 1,
    progress: Callable[[Progress], None] | None = None,
    page: str | None = None,
) -> StudyResult:
    """Compute what is missing, then write the figures and the page.

    Parameters
    ----------
    study
        What to run; `discreet.papers.load` finds it by the paper's key.
    out
        Directory of the results; made if it does not exist.
    quick
        Run the small grid.
    seed
        Seed of the simulations.
    parts
        Names of the parts to run; all by default.
    workers
        Number of processes.
    progress
        Called after every finished cell, also for those found on disk.
    page
        Name of the page without its ending; the paper's key by default.
    """
    chosen = study.parts if parts is None else tuple(study.part(name) for name in parts)
    workers = requirements.positive_integer("workers", workers)
    seed = requirements.positive_integer("seed", seed, at_least=0)
    out.mkdir(parents=True, exist_ok=True)
    tables = {part.name: _Table(out / f"{part.name}.csv") for part in chosen}
    plans = {part.name: _plan(study, part, quick, seed) for part in chosen}
    total = sum(len(plan) for plan in plans.values())
    computed = 0
    report = _Counter(total, progress)
    for part in chosen:
        table, plan = tables[part.name], plans[part.name]
        missing = []
        for key, parameters in plan.items():
            if key in table.cells:
                report(part.name, parameters, fresh=False)
            else:
                missing.append((key, parameters))
        computed += len(missing)
        for key, parameters, cell in _compute(part, missing, workers):
            table.append(key, cell)
            report(part.name, parameters, fresh=True)
    from discreet.papers.gallery import write_page

    rows = {part.name: tables[part.name].rows(plans[part.name]) for part in chosen}
    written = out / f"{page or study.paper}.md"
    decisions = () if quick else tuple(decide(study.claims, rows))
    paths = {name: table.path for name, table in tables.items()}
    figures = write_page(study, chosen, rows, decisions, paths, written, quick=quick, seed=seed)
    return StudyResult(study.paper, written, paths, figures, computed, total - computed, rows, decisions)


def decide(claims: Sequence[PaperClaim], rows: Mapping[str, list[Row]]) -> list[Decision]:
    """Decide the claims whose part was run in full, and those that need no run."""
    return [claim.decide(*(rows[name] for name in claim.parts)) for claim in claims if rows.keys() >= {*claim.parts}]


def stored_rows(study: Study, part: Part, folder: Path, *, seed: int = 1) -> list[Row] | None:
    """The rows of a full run of a part; None where cells are missing. Nothing is computed or written."""
    plan = _plan(study, part, False, seed)
    table = _Table(folder / f"{part.name}.csv")
    return table.rows(plan) if table.cells.keys() >= plan.keys() else None


def pack(folder: Path) -> None:
    """Compress the tables of a run. The same rows give the same bytes, whenever and wherever they are packed."""
    for path in sorted(folder.glob("*.csv")):
        packed = gzip.compress(path.read_bytes(), mtime=0)
        path.with_name(f"{path.name}.gz").write_bytes(packed)
        path.unlink()


def run_one(study: Study, name: str, out: Path, **settings: Any) -> StudyResult:
    """Run one part, or the cells that one figure needs, and write them to a page of their own.

    Parameters
    ----------
    study
        The paper's study.
    name
        Name of a part or of a figure, for example ``"figure-9"``.
    out
        Directory of the results; cells found there are not computed again.
    settings
        As for `run`.
    """
    for part in study.parts:
        for figure in part.figures:
            if name in (figure.name, figure.name.removeprefix(f"{study.paper}-")):
                narrow = replace(part, cells=_needed_by(figure, part), figures=(figure,), finding=None)
                return run(replace(study, parts=(narrow,), claims=()), out, page=f"{study.paper}-{name}", **settings)
    return run(study, out, parts=[name], page=f"{study.paper}-{name}", **settings)


def _needed_by(figure: Figure, part: Part) -> Callable[[bool], Sequence[Parameters]]:
    def cells(quick: bool) -> Sequence[Parameters]:
        return [cell for cell in part.cells(quick) if all(cell[name] == value for name, value in figure.cells)]

    return cells


class _Counter:
    """Counts finished cells, and knows from the pace of those computed here how long the rest takes."""

    def __init__(self, total: int, progress: Callable[[Progress], None] | None) -> None:
        self.total, self.progress, self.done = total, progress, 0
        self.computed, self.begun = 0, monotonic()

    def __call__(self, part: str, parameters: Parameters, *, fresh: bool) -> None:
        self.done += 1
        self.computed += fresh
        pace = (monotonic() - self.begun) / self.computed if self.computed else None
        left = None if pace is None else pace * (self.total - self.done)
        if self.progress is not None:
            self.progress(Progress(part, dict(parameters), self.done, self.total, left))


def _plan(study: Study, part: Part, quick: bool, seed: int) -> dict[str, Parameters]:
    """Every cell of the grid by its key."""
    plan: dict[str, Parameters] = {}
    for parameters in part.cells(quick):
        key = _digest(study.paper, part.name, parameters, seed).hex()[:16]
        if key in plan:
            raise InvalidParameter(part.name, dict(parameters), "occurs twice in the grid", "Remove one.")
        plan[key] = parameters
    return plan


def _digest(paper: str, part: str, parameters: Parameters, seed: int) -> bytes:
    text = json.dumps([paper, part, sorted(parameters.items()), seed], ensure_ascii=False)
    return hashlib.sha256(text.encode()).digest()


def _compute(
    part: Part, missing: Sequence[tuple[str, Parameters]], workers: int
) -> Iterator[tuple[str, Parameters, list[Row]]]:
    if workers == 1 or len(missing) < 2:
        for key, parameters in missing:
            yield key, parameters, _cell(part.compute, key, parameters)
        return
    with ProcessPoolExecutor(workers) as pool:
        running: dict[Future[list[Row]], tuple[str, Parameters]] = {
            pool.submit(_cell, part.compute, *cell): cell for cell in missing
        }
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                key, parameters = running.pop(future)
                yield key, parameters, future.result()


def _cell(compute: Callable[[Parameters, int], Iterable[Row]], key: str, parameters: Parameters) -> list[Row]:
    return [dict(row) for row in compute(parameters, int(key, 16))]


class _Table:
    """The CSV file of a part: which cells it holds whole, and how to add one.

    A plain file comes before a compressed one of the same name, which is unpacked when a cell is added.
    """

    def __init__(self, path: Path) -> None:
        packed = path.with_name(f"{path.name}.gz")
        self.plain = path
        self.path = packed if packed.exists() and not path.exists() else path
        self.columns: list[str] | None = None
        self.cells: dict[str, list[Row]] = {}
        if self.path.exists():
            self._read()

    def _read(self) -> None:
        found: dict[str, list[Row]] = {}
        wanted: dict[str, int] = {}
        data = self.path.read_bytes()
        text = (data if self.path == self.plain else gzip.decompress(data)).decode("utf-8")
        whole = text[: text.rfind("\n") + 1]  # a last line without its end was cut off by a crash
        reader = csv.DictReader(io.StringIO(whole))
        if reader.fieldnames is None or tuple(reader.fieldnames[:3]) != _BOOKKEEPING:
            if whole:
                fix = "Choose another directory."
                raise InvalidParameter("out", str(self.path), "is not a table of study results", fix)
            return
        self.columns = list(reader.fieldnames[3:])
        for line in reader:
            key = line["cell"]
            wanted[key] = int(line["rows"])
            found.setdefault(key, []).append({name: _value(line[name]) for name in self.columns})
        self.cells = {key: rows for key, rows in found.items() if len(rows) == wanted[key]}
        if len(self.cells) < len(found) or whole != text:
            self._rewrite()

    def _rewrite(self) -> None:
        """Write the whole cells to the plain file: those that a crash cut off, or that were compressed, stay behind."""
        fresh = self.plain.with_suffix(".csv.new")
        text = self._header() + "".join(self._lines(key, rows) for key, rows in self.cells.items())
        fresh.write_text(text, encoding="utf-8")
        os.replace(fresh, self.plain)
        self.path = self.plain

    def append(self, key: str, rows: list[Row]) -> None:
        if not rows:
            raise InvalidParameter("rows", rows, "a cell must give at least one row", "Return its results.")
        text = ""
        if self.columns is None:
            self.columns = list(rows[0])
            text = self._header()
        for row in rows:
            if set(row) != set(self.columns):
                rule = f"must be {sorted(self.columns)}, as in {self.path.name}"
                fix = "Give every row the same columns; delete the file if the study has changed."
                raise InvalidParameter("columns", sorted(row), rule, fix)
        text += self._lines(key, rows)
        if self.path != self.plain:
            self._rewrite()
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        self.cells[key] = [{name: _value(_text(row[name])) for name in self.columns} for row in rows]

    def _header(self) -> str:
        return _line([*_BOOKKEEPING, *(self.columns or [])])

    def _lines(self, key: str, rows: list[Row]) -> str:
        columns = self.columns or []
        return "".join(
            _line([key, str(index), str(len(rows)), *(_text(row[name]) for name in columns)])
            for index, row in enumerate(rows)
        )

    def rows(self, plan: Mapping[str, Parameters]) -> list[Row]:
        """The rows of a grid, in its order."""
        return [row for key in plan for row in self.cells[key]]


def _line(fields: Sequence[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(fields)
    return buffer.getvalue()


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str | bool | int):
        return str(value)
    return repr(float(value))


def _value(text: str) -> Scalar:
    if text == "":
        return None
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
