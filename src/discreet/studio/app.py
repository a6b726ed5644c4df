"""App: which handler answers which address. Handlers are plain functions of the desk and a request."""

from __future__ import annotations

import asyncio
import inspect
import os
import secrets
import socket
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from uvicorn.protocols.http.h11_impl import H11Protocol

from discreet.core.errors import DiscreetError
from discreet.results.charts import PAGES, PALETTE
from discreet.studio import plan_pages, publish_pages, start_pages
from discreet.studio.desk import HERE, Desk, Folder, from_script
from discreet.studio.guard import ENTER, Guard, Message, Receive, Send

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
_LOOK = PALETTE + (PAGES[0] / "look.css").read_text(encoding="utf-8")
FAILED = "The studio could not answer this"
Handler = Callable[[Desk, Request], Any]
_SEEN: dict[str, Handler] = {
    "/": start_pages.start_page,
    "/new": start_pages.new_page,
    "/plan": plan_pages.plan_page,
    "/pulse": plan_pages.pulse,
    "/text": plan_pages.show_text,
    "/profile": plan_pages.profile_page,
    "/preview": publish_pages.preview_page,
    "/review": publish_pages.review_page,
    "/run": publish_pages.run_page,
    "/progress": publish_pages.progress,
    "/download": publish_pages.download,
    "/ledger": publish_pages.ledger_page,
    "/learn": publish_pages.learn_page,
}
_DONE: dict[str, Handler] = {
    "/new": start_pages.make_plan,
    "/tour": start_pages.make_tour,
    "/connect": start_pages.new_page,
    "/upload": start_pages.upload,
    "/change": plan_pages.change,
    "/declare": plan_pages.declare,
    "/add": plan_pages.add_question,
    "/remove": plan_pages.remove,
    "/undo": plan_pages.undo,
    "/text": plan_pages.write_text,
    "/profile": plan_pages.run_profile_page,
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
        Route("/look.css", lambda _: Response(_LOOK, media_type="text/css")),
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


# ---- Serve: the studio on this machine's own address, opened in the browser by a file that works once.


_HOST = "127.0.0.1"
_PATIENCE = 20.0
"""Seconds until a connection must have brought a whole request; browsers open some that they never use."""
_ENTRANCE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>discreet</title><meta name="referrer" content="no-referrer">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; script-src 'unsafe-inline'; form-action {address}"></head>
<body><form action="{address}{path}" method="post"><input type="hidden" name="token" value="{token}">
<button>Open the studio</button></form><script>document.forms[0].submit()</script></body></html>
"""


class StudioServer(uvicorn.Server):
    """A server on a socket that is taken already.

    Attributes
    ----------
    address
        Where it listens.
    entrance
        A page that only this user can read; the first browser that opens it is let in. It goes away with its use.
    """

    def __init__(self, config: uvicorn.Config, listening: socket.socket, token: str) -> None:
        super().__init__(config)
        self.listening = listening
        self.address = f"http://{_HOST}:{listening.getsockname()[1]}"
        self.entrance = _entrance(self.address, token)

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until ``should_exit`` is set or the process is interrupted."""
        try:
            super().run(sockets=sockets or [self.listening])
        finally:
            self.close_entrance()

    def close_entrance(self) -> None:
        """Remove the page with the token."""
        self.entrance.unlink(missing_ok=True)


def _entrance(address: str, token: str) -> Path:
    """Write the page into the home folder: browsers in a sandbox see no hidden folders, nor those of other programs."""
    page = _ENTRANCE.format(address=address, path=ENTER, token=token)
    for folder in (os.path.expanduser("~"), tempfile.gettempdir()):
        with suppress(OSError):
            handle, name = tempfile.mkstemp(prefix="discreet-", suffix=".html", dir=folder)  # for this user alone
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(page)
            return Path(name)
    raise DiscreetError("The studio cannot write into your home folder, nor into the one for temporary files.")


class _Impatient(H11Protocol):
    """A connection that is closed where it brings no whole request in time."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(_PATIENCE, self._give_up)

    def _give_up(self) -> None:
        cycle: Any = self.cycle  # None before the first request
        if cycle is None or cycle.response_complete:  # else it is being answered, which takes its time
            self.transport.close()


def studio_server(plan: Path | None, *, port: int = 0) -> StudioServer:
    """A server for a plan, a data file or a folder."""
    folder, first = _folder(plan)
    listening = _listening(port)
    token = secrets.token_urlsafe(32)
    app = studio_app(folder, token=token)
    app.serve_on(listening.getsockname()[1])
    app.first = first
    config = uvicorn.Config(
        app, http=_Impatient, log_level="warning", access_log=False, server_header=False, ws="none", lifespan="off"
    )
    server = StudioServer(config, listening, token)
    app.entered = server.close_entrance
    return server


def open_studio(plan: Path | None, *, port: int = 0, browser: bool = True, say: Callable[[str], None]) -> None:
    """Serve the studio until it is stopped.

    Parameters
    ----------
    plan
        A plan file, a data file, or a folder; the current folder by default. Only this folder is served.
    port
        The port; a free one by default.
    browser
        Whether to open the browser.
    say
        Tells the address.
    """
    server = studio_server(plan, port=port)
    say(f"The studio is open at {server.address}, for the browser that opens {server.entrance}")
    say("Only you can read this file, and it works once. Stop with Ctrl+C; everything is in the plan file.")
    if browser:  # beside the server, which it needs, and which it may wait for
        threading.Timer(0.3, webbrowser.open, [server.entrance.as_uri()]).start()
    server.run()


def _folder(plan: Path | None) -> tuple[Path, str]:
    """The folder to serve, and the page to begin with."""
    place = Path.cwd() if plan is None else plan
    if place.is_dir():
        return place, "/"
    if not place.is_file():
        raise DiscreetError(
            f"file = {str(place)!r}: there is no such plan. Give a plan file or a folder, or leave it out."
        )
    if place.suffix.lower() == ".toml":
        return place.resolve().parent, f"/plan?plan={quote(place.name, safe='')}"
    return place.resolve().parent, f"/new?file={quote(place.name, safe='')}"


def _listening(port: int) -> socket.socket:
    """A socket on this machine's own address, taken before the browser is told where."""
    taken = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((_HOST, port))
    except (OSError, OverflowError) as failure:
        taken.close()
        raise DiscreetError(
            f"port = {port}: cannot be used ({type(failure).__name__}). Choose another, or none."
        ) from None
    taken.listen()
    return taken
