"""Guard: who may speak to the studio. One browser of this machine that was given the link, from the studio's pages.

Any page of the web can make a browser send requests to 127.0.0.1, and any program of this machine can send them itself.
So every request needs a cookie that only the printed link sets, a Host and an Origin that are the studio's own, and,
where it changes anything, a token that only the studio's pages hold.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from hmac import compare_digest
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, parse_qsl

__all__ = ["HEADERS", "PAGE_POLICY", "PUBLISHED_POLICY", "Guard", "Message", "Receive", "Send"]

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
_MOST_FORM = 2_000_000
_UPLOAD = "/upload"
_SAFE = ("GET", "HEAD")


class Guard:
    """ASGI middleware that refuses whatever does not come from the studio's own pages in the browser it opened.

    Parameters
    ----------
    app
        The application behind it.
    token
        What the printed link carries; it works once.
    most_upload
        Most bytes of an uploaded file.

    Attributes
    ----------
    csrf
        What forms and scripts of the studio's own pages send along with each change.
    first
        The page that the link leads to.
    """

    def __init__(self, app: Any, *, token: str, most_upload: int) -> None:
        self.app, self.most_upload = app, most_upload
        self.csrf = secrets.token_urlsafe(32)
        self.hosts: tuple[str, ...] = ()
        self.first = "/"
        self._token: str | None = token
        self._cookie = secrets.token_urlsafe(32)

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
        refused = self._refused_address(headers)
        if refused is not None:
            await _say(send, *refused)
        elif self._brings_token(scope):
            await self._let_in(send)
        elif not self._knows(headers):
            await _say(
                send,
                403,
                "This studio was opened by another browser. Use the link that `discreet open` printed; it works once.",
            )
        else:
            await self._checked(scope, headers, receive, _with_headers(send))

    def _refused_address(self, headers: dict[str, str]) -> tuple[int, str] | None:
        if headers.get("host") not in self.hosts:
            return 421, "Unknown host. Use the address that `discreet open` printed."
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        if origin is not None and origin != f"http://{headers['host']}":
            return 403, "Requests from other pages are refused."
        if site not in ("same-origin", "none"):
            return 403, "Requests from other pages are refused."
        return None

    def _brings_token(self, scope: Message) -> bool:
        if scope["path"] != "/" or scope["method"] != "GET" or self._token is None:
            return False
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        return compare_digest(given.encode(), self._token.encode())

    async def _let_in(self, send: Send) -> None:
        self._token = None  # it may be in a history or a log by now
        cookie = f"{self.cookie_name}={self._cookie}; Path=/; HttpOnly; SameSite=Strict"
        headers = [(b"location", self.first.encode()), (b"set-cookie", cookie.encode())]
        await _say(_with_headers(send), 303, "", headers)

    def _knows(self, headers: dict[str, str]) -> bool:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self.cookie_name)
        except CookieError:
            return False
        return found is not None and compare_digest(found.value.encode(), self._cookie.encode())

    async def _checked(self, scope: Message, headers: dict[str, str], receive: Receive, send: Send) -> None:
        if scope["method"] in _SAFE:
            await self.app(scope, receive, send)
            return
        most = self.most_upload if scope["path"] == _UPLOAD else _MOST_FORM
        length = headers.get("content-length", "")
        if not length.isdigit() or int(length) > most:
            await _say(send, 413, f"The request is larger than {most:,} bytes, or does not say how large it is.")
            return
        if scope["path"] == _UPLOAD:  # a stream: its token is in a header, which other pages cannot set
            if not self._is_ours(headers.get("x-csrf", "")):
                await _say(send, 403, "The page is out of date. Load it again.")
                return
            await self.app(scope, receive, send)
            return
        body = await _body(receive)
        form = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)
        if not self._is_ours(dict(form).get("csrf", "")):
            await _say(send, 403, "The page is out of date. Load it again.")
            return
        scope["form"] = [(name, value) for name, value in form if name != "csrf"]
        await self.app(scope, receive, send)

    def _is_ours(self, given: str) -> bool:
        return compare_digest(given.encode(), self.csrf.encode())


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
    told = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    secured = _with_headers(send)
    await secured({"type": "http.response.start", "status": status, "headers": [*told, *(headers or [])]})
    await secured({"type": "http.response.body", "body": text.encode()})
