"""Desk: what the handlers share. The folder, its open documents, runs, and how a page is answered."""

from __future__ import annotations

import glob
import os
import re
import threading
import tomllib
from collections.abc import AsyncIterator, Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote

import tomlkit
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from discreet.core.errors import DiscreetError, PlanFileError
from discreet.core.files import reason
from discreet.plans.job import Job, JobPlan, JobResult, RunProgress
from discreet.plans.plan_file import PlanFile, lines_of
from discreet.publish.pages import coded
from discreet.results.charts import PAGES
from discreet.results.display import held
from discreet.results.plan import Plan
from discreet.studio.toml_document import Place, TomlDocument, digest_of, value_at

# ---- Folder: the plans and the data that the studio may open. Nothing outside of it is listed, read or written.
#
# Two files that a plan or a person names are elsewhere: the ledger, which teams keep together, and the keys of
# approvals.


DATA = (".csv", ".csv.gz", ".csv.zst", ".tsv", ".parquet")
DATABASES = (".duckdb", ".ddb", ".db")
_DEEP, _MOST = 3, 300
_LONGEST = 120  # bytes of a new file's name, which leaves room for numbers and endings
_PLAIN = re.compile(r"[^\w. -]+")
_FILES = ("duckdb", "sqlite", "file", "csv", "parquet", "polars", "datafusion", "deltalake", "delta", "json")
"""Kinds of addresses that lead to files; others lead to servers."""


@dataclass(frozen=True)
class Folder:
    """The folder that the studio serves.

    Parameters
    ----------
    root
        The folder. Paths that lead out of it, also by links, are refused.
    """

    root: Path

    def inside(self, name: str) -> Path:
        """A path in the folder, from its name as seen from there."""
        if not name or Path(name).is_absolute() or not self._holds(self.root / name):
            raise _outside(name)
        return (self.root / name).resolve()

    def _holds(self, place: Path) -> bool:
        """True where a path, links followed, is in the folder; one that the system cannot look up is not."""
        try:
            found = place.resolve()
            found.lstat()
        except (FileNotFoundError, NotADirectoryError):
            pass
        except (OSError, ValueError):  # too long, or with a character that no path holds
            return False
        return found.is_relative_to(self.root.resolve())

    def refuse_outside(self, options: Mapping[str, Any]) -> None:
        """Refuse the source of a plan, as a session opens it, where any of its files is not in the folder."""
        source = str(options["source"])
        engine = str(options.get("engine") or "")
        for place in (source, *([engine] if "://" in engine else [])):
            kind, address, path = place.partition("://")
            if address and kind not in _FILES:
                continue  # a server
            if not all(map(self._holds, _meant(path if address else place))):
                raise DiscreetError(
                    f"source = {Path(place).name!r}: is outside of the folder that was opened. Open one that holds "
                    "both plan and data, or use the command line. Nothing was read."
                )
        for related in options.get("related", {}).values():
            self.refuse_outside(related)

    def refuse_output(self, directory: Path) -> None:
        """Refuse a plan whose results are not in the folder."""
        if not self._holds(directory):
            raise DiscreetError(
                f"output = {directory.name!r}: is outside of the folder that was opened. Open one that holds both plan "
                "and results, or use the command line."
            )

    def plan(self, name: str) -> Path:
        """A plan file in the folder."""
        place = self.inside(name)
        if place.suffix.lower() != ".toml" or not place.is_file():
            raise DiscreetError(f"plan = {name!r}: there is no such plan here. Choose one from the list.")
        return place

    def data(self, name: str) -> Path:
        """A data file or a database in the folder."""
        place = self.inside(name)
        if not place.name.lower().endswith(DATA + DATABASES) or not place.exists():
            raise DiscreetError(f"file = {name!r}: there is no such data here. Choose a file from the list.")
        return place

    def plans(self) -> list[str]:
        """The plans in the folder."""
        return self._listed((".toml",))

    def sources(self) -> list[str]:
        """The data files and databases in the folder."""
        return self._listed(DATA + DATABASES)

    def _listed(self, endings: tuple[str, ...]) -> list[str]:
        found: list[str] = []
        for here, folders, files in os.walk(self.root):
            place = Path(here).relative_to(self.root)
            hidden = len(place.parts) >= _DEEP
            folders[:] = [] if hidden else sorted(one for one in folders if not one.startswith((".", "node_modules")))
            own = sorted(one for one in files if one.lower().endswith(endings) and not one.startswith("."))
            if {"results.json", "report.md"} <= {*files}:
                own = []  # what was published is no data about people
            found += [str(place / one) for one in own if one != "pyproject.toml"]
            if len(found) > _MOST:
                break
        return found[:_MOST]

    def new(self, name: str) -> Path:
        """A path for a new file: plain letters, and a number where the name is taken."""
        plain = _PLAIN.sub("-", Path(name.replace("\\", "/")).name).strip(" .-") or "file"
        stem, dot, ending = plain.partition(".")
        if len(plain.encode()) > _LONGEST:
            kept = next((one for one in DATA + DATABASES if plain.lower().endswith(one)), f"{dot}{ending}"[:8])
            stem, dot, ending = stem.encode()[: _LONGEST - len(kept)].decode(errors="ignore"), "", kept
            plain = f"{stem}{ending}"
        number, place = 1, self.root / plain
        while place.exists():
            number += 1
            place = self.root / f"{stem}-{number}{dot}{ending}"
        return place

    async def keep(self, name: str, content: AsyncIterator[bytes], most: int) -> Path:
        """Store an uploaded data file; a part of one is never left behind."""
        if not name.lower().endswith(DATA + DATABASES):
            raise DiscreetError(f"file = {name!r}: must end in {', '.join(DATA + DATABASES)}.")
        place, size = self.new(name), 0
        part = place.with_name(f".{place.name}.part")
        try:
            # People are in it, so nobody else reads it, whatever is usual here.
            with open(part, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                async for piece in content:
                    size += len(piece)
                    if size > most:
                        raise DiscreetError(f"file = {name!r}: is larger than {most:,} bytes. Copy it into the folder.")
                    file.write(piece)
            part.rename(place)
        except FileExistsError:
            raise DiscreetError(f"file = {name!r}: is being copied already. Wait, or give it another name.") from None
        except OSError as failure:
            part.unlink(missing_ok=True)
            raise DiscreetError(f"file = {name!r}: cannot be written: {reason(failure)}") from None
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        return place


def _meant(path: str) -> list[Path]:
    """The files that a path stands for: itself and what is in it, or what a pattern matches."""
    found = [Path(path), *map(Path, glob.glob(path) if glob.has_magic(path) else ())]
    return [*found, *(folder / one for folder in found if os.path.isdir(folder) for one in os.listdir(folder))]


def _outside(name: str) -> DiscreetError:
    return DiscreetError(f"file = {name!r}: is outside of the folder that was opened. Open its own folder instead.")


# ---- Draft: a plan file that may have mistakes. What is right is planned; what is wrong is said at its place.


_GUARANTEE = ("weight", "epsilon", "delta", "rho", "mu")


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A plan file as it stands, with its problems.

    Attributes
    ----------
    data
        The file as plain data; empty where it is no TOML.
    problems
        What is wrong, by place; the empty place stands for the whole file.
    plans
        What each release that is right would give and cost, by its position.
    file, job
        The whole plan, with what is wrong left out; None where too little is right.
    """

    data: Mapping[str, Any]
    problems: Mapping[Place, str] = field(default_factory=dict)
    plans: Mapping[int, Plan] = field(default_factory=dict)
    file: PlanFile | None = None
    job: JobPlan | None = None

    @property
    def sound(self) -> bool:
        """True where the plan can be run as it stands."""
        return self.file is not None and not self.problems

    def below(self, *place: str | int) -> str | None:
        """The first problem at a place or below it."""
        return next((said for where, said in self.problems.items() if where[: len(place)] == place), None)


def drafted(text: str, path: Path) -> Draft:
    """Plan what can be planned of a plan file's text. Reads no data and spends nothing."""
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as failure:  # as for a number of thousands of digits
        return Draft(data={}, problems={(): f"This is not valid TOML: {failure}. Mend it in the text view."})
    kept = deepcopy(data)
    problems: dict[Place, str] = {}
    if not data.get("release"):
        problems[("release",)] = "Add a question: the plan asks nothing yet."
        kept["release"] = [{"ask": "count"}]
    for _ in range(len(tomlkit.dumps(kept).splitlines()) + 1):  # each round mends one place
        written = tomlkit.dumps(kept) if problems else text
        try:
            file = PlanFile.parse(written, path)
            job = Job(file).plan(rehearse=False)
        except PlanFileError as failure:
            place, said = _located(str(failure), written, path)
            if not _without(kept, place):
                return Draft(data=data, problems={**problems, (): said})
            problems.setdefault(_own(data, place), said)
            continue
        except DiscreetError as failure:
            return Draft(data=data, problems={**problems, (): str(failure)})
        looks = sum(one.look for one in file.questions)
        planned = [plan for _, plan in job.releases][looks:]
        wrong = {place[1] for place in problems if len(place) > 1 and place[0] == "release"}
        right = {position: plan for position, plan in enumerate(planned) if position not in wrong}
        if ("release",) in problems:
            right = {}
        return Draft(data=data, problems=problems, plans=right, file=file, job=job)
    return Draft(data=data, problems={**problems, (): "The plan has more mistakes than can be told apart."})


def _located(message: str, text: str, path: Path) -> tuple[Place, str]:
    """The place that a refusal is about, and its words without file and line."""
    rest = message.removeprefix(f"{path}:")
    line, colon, said = rest.partition(": ")
    if rest == message or not line.isdecimal() or not colon:
        return (), message.removeprefix(f"{path}: ")
    places = {number: _place(dotted, text) for dotted, number in lines_of(text)}
    return places.get(int(line), ()), said


def _place(dotted: str, text: str) -> Place:
    """A dotted path as a place; names of columns may hold dots themselves."""
    data: Any = tomllib.loads(text)
    place: list[str | int] = []
    parts = dotted.split(".")
    while parts:
        for size in range(len(parts), 0, -1):
            key: str | int = ".".join(parts[:size])
            if isinstance(data, list) and str(key).isdecimal():
                key = int(key)
            try:
                data = data[key]
            except (KeyError, IndexError, TypeError):
                continue
            place.append(key)
            parts = parts[size:]
            break
        else:
            break
    return tuple(place)


def _own(data: Mapping[str, Any], place: Place) -> Place:
    """The longest part of a place that the file itself has."""
    return next(
        place[:size] for size in range(len(place), -1, -1) if size == 0 or value_at(data, place[:size]) is not None
    )


def _without(data: dict[str, Any], place: Place) -> bool:
    """Take what is wrong out of the data, so that the rest can be planned; whether that was possible."""
    if len(place) > 1 and place[0] == "release" and isinstance(place[1], int):
        release = data["release"][place[1]]
        stand_in = {"ask": "count", "name": f"wrong {place[1]}"}
        if isinstance(release, dict):
            stand_in |= {key: release[key] for key in _GUARANTEE if key in release and place[2:] != (key,)}
        if release == stand_in:
            return False
        data["release"][place[1]] = stand_in
        return True
    if len(place) > 2 and place[:2] == ("schema", "columns"):
        del data["schema"]["columns"][place[2]]
        return True
    if len(place) > 1 and place[0] in ("output", "scenario"):
        del data[place[0]]
        return True
    return False


# ---- Desk: what the handlers share. The folder, its open documents, runs, and how a page is answered.


# ---- Running: one run per plan at a time, beside the requests that ask how far it is


@dataclass
class Run:
    """The progress of a run; its refusal or its result once it has ended."""

    total: int
    done: int = 0
    name: str = ""
    refusal: str | None = None
    result: JobResult | None = None
    thread: threading.Thread | None = field(default=None, repr=False)

    @property
    def ended(self) -> bool:
        """True where there is nothing more to wait for."""
        return self.refusal is not None or self.result is not None


class Running:
    """The runs of this studio, by plan. What was spent is in the ledger, so a run that is lost can be repeated free."""

    def __init__(self) -> None:
        self._runs: dict[Path, Run] = {}
        self._lock = threading.Lock()

    def of(self, path: Path) -> Run | None:
        """The last run of a plan."""
        return self._runs.get(path)

    def start(self, file: PlanFile) -> Run:
        """Run a plan as it was read; the run that is under way where there is one."""
        with self._lock:
            known = self._runs.get(file.path)
            if known is not None and not known.ended:
                return known
            run = self._runs[file.path] = Run(total=len(file.questions))
            run.thread = threading.Thread(target=_carry_out, args=(run, file), daemon=True)
            run.thread.start()
            return run

    def forget(self, path: Path) -> None:
        """Forget a run that has ended."""
        with self._lock:
            known = self._runs.get(path)
            if known is not None and known.ended:
                del self._runs[path]


def _carry_out(run: Run, file: PlanFile) -> None:
    def progress(step: RunProgress) -> None:
        run.done, run.name = step.done, step.name

    try:
        run.result = Job(file).run(progress=progress)
    except DiscreetError as refusal:
        run.refusal = str(refusal)
    except Exception as failure:  # a page must not wait for ever; an unknown failure may quote a row, so only its kind
        run.refusal = (
            f"The run failed ({type(failure).__name__}). What was spent is in the ledger; run again to resume."
        )


HERE = Path(__file__).parent
_STEPS = (
    ("plan", "Plan"),
    ("review", "Review"),
    ("run", "Run"),
    ("ledger", "Ledger"),
    ("learn", "Learn"),
    ("text", "File"),
)


@dataclass
class Desk:
    """The state that the handlers of one studio share.

    Attributes
    ----------
    folder
        What may be opened.
    csrf
        Gives what the forms of our pages carry.
    """

    folder: Folder
    csrf: Callable[[], str]
    most_upload: int
    runs: Running = field(default_factory=Running)
    _documents: dict[Path, TomlDocument] = field(default_factory=dict)
    _lock: Any = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self._pages = Environment(
            loader=FileSystemLoader([HERE / "templates", *PAGES]), autoescape=True, undefined=StrictUndefined,
            trim_blocks=True, lstrip_blocks=True, finalize=held,
        )  # fmt: skip
        self._pages.filters["coded"] = coded

    def document(self, request: Request) -> TomlDocument:
        """The plan that a request is about."""
        path = self.folder.plan(request.query_params.get("plan", ""))
        with self._lock:
            return self._documents.setdefault(path, TomlDocument(path))

    def draft(self, document: TomlDocument) -> tuple[str, Draft]:
        """The plan as it stands, with the digest of its text."""
        text = document.text()
        return digest_of(text), drafted(text, document.path)

    def page(
        self, template: str, *, status: int = 200, headers: Mapping[str, str] | None = None, **told: Any
    ) -> Response:
        """A page from its template; everything that came from outside is escaped there."""
        shared = {"csrf": self.csrf(), "steps": _STEPS, "plan": None, "step": None, "notice": None}
        text = self._pages.get_template(template).render({**shared, **told})
        return HTMLResponse(text, status_code=status, headers=dict(headers or {}))

    def name_of(self, document: TomlDocument) -> str:
        """The plan's name as seen from the folder."""
        return str(document.path.relative_to(self.folder.root.resolve()))

    def go_to(self, step: str, document: TomlDocument, fragment: str = "", **query: str) -> Response:
        """See another page of a plan."""
        more = "".join(f"&{name}={quote(value)}" for name, value in query.items())
        where = f"/{step}?plan={quote(self.name_of(document), safe='')}{more}"
        return RedirectResponse(f"{where}#{fragment}" if fragment else where, status_code=303)


class FormData:
    """The fields of a posted form, in their order; the guard has read and checked it."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self.pairs = [(name, value.replace("\r\n", "\n")) for name, value in pairs]

    def get(self, name: str, default: str = "") -> str:
        """The last value of a field."""
        return next((value for key, value in reversed(self.pairs) if key == name), default)

    def all(self, name: str) -> list[str]:
        """Every value of a field that is not empty."""
        return [value for key, value in self.pairs if key == name and value]

    def names(self) -> list[str]:
        """The fields, each once."""
        return list(dict.fromkeys(name for name, _ in self.pairs))

    def given(self) -> dict[str, str]:
        """The last value of every field."""
        return dict(self.pairs)


def form_of(request: Request) -> FormData:
    """The form that a request posts."""
    return FormData(request.scope.get("form", []))


def from_script(request: Request) -> bool:
    """True where a script of the page asks for a part of it."""
    return request.headers.get("hx-request") == "true" and request.headers.get("hx-boosted") != "true"
