"""Turns: a page about a plan waits for the changes of that plan that were sent before it.

Without turns, a slow machine shows the price of a plan while its last change is still being written. The page then
refuses what is about to be right, or shows a price that is out of date before anybody can accept it.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import parse_qs

from discreet.studio.guard import Message, Receive, Send

__all__ = ["Turns"]


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
