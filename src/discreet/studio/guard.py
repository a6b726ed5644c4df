"""Guard: who may speak to the studio. One browser of this user that brings the token, from the studio's pages.

Any page of the web can make a browser send requests to 127.0.0.1, and any user of this machine can send them, too. So
every request needs a cookie that only the token buys, a Host and an Origin that are the studio's own, and, where it
changes anything, a token that only the studio's pages hold. The first token comes in the body of a form, from a file
that only this user can read: an address would be in the browser's command line, which all users of a machine can read,
in its history, and in logs.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from hmac import compare_digest
from html import escape
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PUBLISHED_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'none'"
"""For reports, which bring their own style and run nothing."""
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with "no-referrer", browsers send no Origin either
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
ENTER = "/enter"
"""Where the token is handed over."""
_MOST_FORM = 2_000_000
_MOST_TOKEN = 1000
_MOST_FIELDS = 20_000
_PATIENCE = 30.0
"""Seconds for the body of a form; it comes from this machine."""
_UPLOAD = "/upload"
_SAFE = ("GET", "HEAD")


class Guard:
    """ASGI middleware that refuses whatever does not come from the studio's own pages in the browser it opened.

    Parameters
    ----------
    app
        The application behind it.
    token
        What lets a browser in; it works once.
    most_upload
        Most bytes of an uploaded file.

    Attributes
    ----------
    csrf
        What forms and scripts of the studio's own pages send along with each change.
    first
        The page to begin with.
    entered
        Is called once a browser was let in.
    """

    def __init__(self, app: Any, *, token: str, most_upload: int) -> None:
        self.app, self.most_upload = app, most_upload
        self.csrf = secrets.token_urlsafe(32)
        self.hosts: tuple[str, ...] = ()
        self.first = "/"
        self.entered: Callable[[], None] = lambda: None
        self._token: str | None = token
        self._cookie: str | None = None  # there is no session before the token was used

    def serve_on(self, port: int) -> None:
        """Name the addresses under which the studio is reached; other Host headers are refused."""
        self.hosts = (f"127.0.0.1:{port}", f"localhost:{port}")

    @property
    def cookie_name(self) -> str:
        """Cookies do not tell ports apart, so two studios need two names."""
        return f"discreet_{self.hosts[0].rpartition(':')[2]}" if self.hosts else "discreet"

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # no websockets
            await send({"type": "websocket.close"})
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refused = self._refused_address(scope, headers)
        if refused is not None:
            await _say(send, *refused)
        elif scope["path"] == ENTER and scope["method"] == "POST":
            await self._let_in(headers, receive, send)
        elif not self._knows(headers):
            await _say(send, 403, _STRANGER)
        else:
            await self._checked(scope, headers, receive, _with_headers(send))

    def _refused_address(self, scope: Message, headers: dict[str, str]) -> tuple[int, str] | None:
        if headers.get("host") not in self.hosts:
            return 421, "Unknown host. Use the address that `discreet open` printed."
        if scope["path"] == ENTER:  # the form comes from a file, which has no origin; what counts is its token
            return None
        origin = headers.get("origin")
        site = headers.get("sec-fetch-site", "none")
        if origin is not None and origin != f"http://{headers['host']}":
            return 403, "Requests from other pages are refused."
        if site not in ("same-origin", "none"):
            return 403, "Requests from other pages are refused."
        return None

    async def _let_in(self, headers: dict[str, str], receive: Receive, send: Send) -> None:
        """Exchange the token for a session. It works once, so whoever comes second is told so and gets nothing."""
        form = await _form(headers, receive, send, _MOST_TOKEN)
        if form is None:
            return
        given = dict(form).get("token", "")
        if self._token is None or not compare_digest(given.encode(), self._token.encode()):
            await _say(send, 403, _STRANGER)
            return
        self._token, self._cookie = None, secrets.token_urlsafe(32)
        self.entered()
        cookie = f"{self.cookie_name}={self._cookie}; Path=/; HttpOnly; SameSite=Strict"
        # A page and no redirect: that would count as sent by the file, and browsers would keep the new cookie from it.
        page = (
            '<!doctype html><title>discreet</title><link rel="icon" href="data:,">'
            f'<meta http-equiv="refresh" content="0;url={escape(self.first)}">'
        )
        kind = [(b"content-type", b"text/html; charset=utf-8"), (b"set-cookie", cookie.encode())]
        await _say(send, 200, page, kind)

    def _knows(self, headers: dict[str, str]) -> bool:
        if self._cookie is None:
            return False
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self.cookie_name)
        except CookieError:
            return False
        return found is not None and compare_digest(found.value.encode(), self._cookie.encode())

    async def _checked(self, scope: Message, headers: dict[str, str], receive: Receive, send: Send) -> None:
        if scope["method"] in _SAFE:
            await self.app(scope, receive, send)
            return
        if scope["path"] == _UPLOAD:  # a stream: its token is in a header, which other pages cannot set
            if not self._is_ours(headers.get("x-csrf", "")):
                await _say(send, 403, "The page is out of date. Load it again.")
            elif await _sized(headers, send, self.most_upload):
                await self.app(scope, _patient(receive), send)
            return
        form = await _form(headers, receive, send, _MOST_FORM)
        if form is None:
            return
        if not self._is_ours(dict(form).get("csrf", "")):
            await _say(send, 403, "The page is out of date. Load it again.")
            return
        scope["form"] = [(name, value) for name, value in form if name != "csrf"]
        await self.app(scope, receive, send)

    def _is_ours(self, given: str) -> bool:
        return compare_digest(given.encode(), self.csrf.encode())


_STRANGER = (
    "This studio is open in one browser. `discreet open` names a file that only you can read; it lets one browser in. "
    "If that was another browser, stop the studio and open it again."
)


async def _sized(headers: dict[str, str], send: Send, most: int) -> bool:
    """True where a request states its size, and is not too large; refused otherwise."""
    length = headers.get("content-length", "")
    if length.isascii() and length.isdigit() and len(length) < 16 and int(length) <= most:
        return True
    await _say(send, 413, f"The request is larger than {most:,} bytes, or does not say how large it is.")
    return False


async def _form(headers: dict[str, str], receive: Receive, send: Send, most: int) -> list[tuple[str, str]] | None:
    """The fields of a posted form, in their order; None where it is too large or did not come whole, which is told."""
    if not await _sized(headers, send, most):
        return None
    try:
        body = await asyncio.wait_for(_body(receive), _PATIENCE)
        return parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except TimeoutError:
        await _say(send, 408, "The request did not come whole. Send it again.")
    except ValueError:
        await _say(send, 413, f"The form has more than {_MOST_FIELDS:,} fields.")
    return None


def _patient(receive: Receive) -> Receive:
    """Take a sender that sends nothing more for one that has gone."""

    async def received() -> Message:
        try:
            return await asyncio.wait_for(receive(), _PATIENCE)
        except TimeoutError:
            return {"type": "http.disconnect"}

    return received


async def _body(receive: Receive) -> bytes:
    """All of a request; the server lets through no more than its stated length, which was checked."""
    parts, more = [], True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            break
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = {name.lower() for name, _ in message.get("headers", [])}
            added = {**HEADERS, "content-security-policy": PAGE_POLICY}
            message["headers"] = [
                *message.get("headers", []),
                *((name.encode(), value.encode()) for name, value in added.items() if name.encode() not in given),
            ]
        await send(message)

    return sent


async def _say(send: Send, status: int, text: str, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    told = headers or [(b"content-type", b"text/plain; charset=utf-8")]
    secured = _with_headers(send)
    await secured({"type": "http.response.start", "status": status, "headers": [*told, (b"connection", b"close")]})
    await secured({"type": "http.response.body", "body": text.encode()})
