"""App: which handler answers which address. Handlers are plain functions of the desk and a request."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from discreet.core.errors import DiscreetError
from discreet.studio import plan_pages, profile_pages, publish_pages, start_pages
from discreet.studio.desk import HERE, Desk, from_script
from discreet.studio.folder import Folder
from discreet.studio.guard import Guard, Message, Receive, Send

__all__ = ["FAILED", "MOST_UPLOAD", "Turns", "studio_app"]


# ---- Turns: a page about a plan waits for the changes of that plan that were sent before it
#
# Without turns, a slow machine shows the price of a plan while its last change is still being written. The page then
# refuses what is about to be right, or shows a price that is out of date before anybody can accept it.


class Turns:
    """ASGI middleware behind the guard, which has read the forms.

    Parameters
    ----------
    app
        The application behind it.
    at_once
        Addresses that never wait.
    """

    def __init__(self, app: Any, *, at_once: tuple[str, ...] = ()) -> None:
        self.app, self.at_once = app, at_once
        self._under_way: set[tuple[str, asyncio.Event]] = set()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Note a change until it is answered; let anything else wait for the changes noted so far."""
        about = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("plan")
        if about is None or scope["path"] in self.at_once:
            await self.app(scope, receive, send)
            return
        plan = about[-1]
        if scope["method"] != "POST":
            for answered in [answered for changed, answered in self._under_way if changed == plan]:
                await answered.wait()
            await self.app(scope, receive, send)
            return
        change = (plan, asyncio.Event())
        self._under_way.add(change)
        try:
            await self.app(scope, receive, send)
        finally:
            self._under_way.discard(change)
            change[1].set()


MOST_UPLOAD = 500_000_000
FAILED = "The studio could not answer this"
Handler = Callable[[Desk, Request], Any]
_SEEN: dict[str, Handler] = {
    "/": start_pages.start_page,
    "/new": start_pages.new_page,
    "/plan": plan_pages.plan_page,
    "/pulse": plan_pages.pulse,
    "/text": plan_pages.show_text,
    "/profile": profile_pages.profile_page,
    "/review": publish_pages.review_page,
    "/run": publish_pages.run_page,
    "/progress": publish_pages.progress,
    "/download": publish_pages.download,
    "/ledger": publish_pages.ledger_page,
    "/learn": publish_pages.learn_page,
}
_DONE: dict[str, Handler] = {
    "/new": start_pages.make_plan,
    "/connect": start_pages.new_page,
    "/upload": start_pages.upload,
    "/change": plan_pages.change,
    "/declare": plan_pages.declare,
    "/add": plan_pages.add_question,
    "/remove": plan_pages.remove,
    "/undo": plan_pages.undo,
    "/text": plan_pages.write_text,
    "/profile": profile_pages.run_profile_page,
    "/approve": publish_pages.approve,
    "/run": publish_pages.start_run,
    "/bundle": publish_pages.bundle,
    "/anchor": publish_pages.anchor,
}


def studio_app(folder: Path, *, token: str, most_upload: int = MOST_UPLOAD) -> Guard:
    """The studio for the plans and data of a folder, behind its guard.

    Parameters
    ----------
    folder
        Nothing outside of it is opened.
    token
        What the first link carries.
    most_upload
        Most bytes of a dropped file.
    """
    guard = Guard(None, token=token, most_upload=most_upload)
    desk = Desk(folder=Folder(folder.resolve()), csrf=lambda: guard.csrf, most_upload=most_upload)
    routes = [
        *(Route(path, _answering(desk, handler), methods=["GET"]) for path, handler in _SEEN.items()),
        *(Route(path, _answering(desk, handler), methods=["POST"]) for path, handler in _DONE.items()),
        Mount("/static", StaticFiles(directory=HERE / "static")),
    ]
    app = Starlette(routes=routes, exception_handlers={DiscreetError: partial(_refused, desk)})
    guard.app = Turns(app, at_once=("/pulse",))  # the pulse asks for the file as it is
    return guard


def _answering(desk: Desk, handler: Handler) -> Callable[[Request], Any]:
    if inspect.iscoroutinefunction(handler):

        async def awaited(request: Request) -> Response:
            with _told():
                return await handler(desk, request)  # type: ignore[no-any-return]

        return awaited

    def answered(request: Request) -> Response:
        with _told():
            return handler(desk, request)  # type: ignore[no-any-return]

    return answered


@contextmanager
def _told() -> Iterator[None]:
    """Turn a failure that nobody foresaw into a refusal: a traceback in the terminal may quote a row."""
    try:
        yield
    except DiscreetError:
        raise
    except Exception as failure:
        raise DiscreetError(f"{FAILED} ({type(failure).__name__}). What was spent is in the ledger.") from None


def _refused(desk: Desk, request: Request, refusal: Exception) -> Response:
    """Say what was refused, on a page or in the notice of the page that asked."""
    if from_script(request):
        return PlainTextResponse(
            str(refusal), status_code=400, headers={"hx-retarget": "#notice", "hx-reswap": "textContent"}
        )
    typed = [(name, value) for name, value in request.scope.get("form", []) if not _hidden(name)]
    try:
        plan = desk.name_of(desk.document(request))
    except DiscreetError:
        plan = None
    return desk.page("refused.html", status=400, title="Refused", refusal=str(refusal), typed=typed, plan=plan)


def _hidden(name: str) -> bool:
    return name.startswith("was:") or name in ("seen", "password")
