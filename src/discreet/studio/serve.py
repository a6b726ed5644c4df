"""Serve: the studio on this machine's own address, opened in the browser by a file that works once."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import tempfile
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from discreet.core.errors import DiscreetError
from discreet.publish.whole_file import why
from discreet.studio.app import studio_app
from discreet.studio.guard import ENTER

__all__ = ["StudioServer", "open_studio", "studio_server"]

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
        raise DiscreetError(f"port = {port}: cannot be used ({why(failure)}). Choose another, or none.") from None
    taken.listen()
    return taken
