"""Serve: the studio on this machine's own address, opened in the browser by a link that works once."""

from __future__ import annotations

import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import uvicorn

from discreet.core.errors import DiscreetError
from discreet.publish.whole_file import why
from discreet.studio.app import studio_app

__all__ = ["StudioServer", "open_studio", "studio_server"]

_HOST = "127.0.0.1"


class StudioServer(uvicorn.Server):
    """A server on a socket that is taken already."""

    def __init__(self, config: uvicorn.Config, listening: socket.socket) -> None:
        super().__init__(config)
        self.listening = listening

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until ``should_exit`` is set or the process is interrupted."""
        super().run(sockets=sockets or [self.listening])


def studio_server(plan: Path | None, *, port: int = 0) -> tuple[StudioServer, str]:
    """A server for a plan, a data file or a folder, and the link that opens it once."""
    folder, first = _folder(plan)
    listening = _listening(port)
    number = listening.getsockname()[1]
    token = secrets.token_urlsafe(32)
    app = studio_app(folder, token=token)
    app.serve_on(number)
    app.first = first
    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, ws="none", lifespan="off")
    return StudioServer(config, listening), f"http://{_HOST}:{number}/?token={token}"


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
    server, address = studio_server(plan, port=port)
    say(f"The studio is open at {address}")
    say("The link works once, in one browser of this machine. Stop with Ctrl+C; everything is in the plan file.")
    if browser:  # beside the server, which it needs, and which it may wait for
        threading.Timer(0.3, webbrowser.open, [address]).start()
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
