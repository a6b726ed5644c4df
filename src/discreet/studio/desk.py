"""Desk: what the handlers share. The folder, its open documents, runs, and how a page is answered."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from discreet.core.errors import DiscreetError
from discreet.display import held
from discreet.plans.job import Job
from discreet.plans.job_results import JobResult, Progress
from discreet.plans.plan_file import PlanFile
from discreet.publish.review_page import coded
from discreet.studio.draft import Draft, drafted
from discreet.studio.folder import Folder
from discreet.studio.toml_document import TomlDocument, digest_of

__all__ = ["Desk", "FormData", "Run", "Running", "form_of", "from_script"]


# ---- Running: one run per plan at a time, beside the requests that ask how far it is


@dataclass
class Run:
    """How far a run is; its refusal or its result once it has ended."""

    total: int
    done: int = 0
    name: str = ""
    refusal: str | None = None
    result: JobResult | None = None
    thread: threading.Thread | None = field(default=None, repr=False)

    @property
    def ended(self) -> bool:
        """Whether there is nothing more to wait for."""
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
    def progress(step: Progress) -> None:
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
    """What the handlers of one studio share.

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
            loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
            lstrip_blocks=True, finalize=held,
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
    """Whether a script of the page asks for a part of it."""
    return request.headers.get("hx-request") == "true" and request.headers.get("hx-boosted") != "true"
