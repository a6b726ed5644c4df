"""In use: which threads use something that a fork must not cut in half.

A child of a fork has one thread. What another thread of its parent was doing stays half done there for ever: its locks
are never released, and an engine's own threads are gone. The child is refused in words instead of waiting.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from weakref import WeakSet

from discreet.core.errors import DiscreetError

__all__ = ["InUse"]


class InUse:
    """A context in which a thread uses something, named in the refusal.

    Examples
    --------
    >>> with InUse("session"):
    ...     pass
    """

    def __init__(self, what: str) -> None:
        self.what, self.cut = what, False
        self.threads: Counter[int] = Counter()
        _ALL.add(self)

    def __enter__(self) -> None:
        if self.cut:
            raise DiscreetError(
                f"the process was forked while another thread used this {self.what}, so the child cannot use it. Open "
                f"the {self.what} again in the child. Nothing was spent."
            )
        self.threads[threading.get_ident()] += 1

    def __exit__(self, *_: object) -> None:
        self.threads[threading.get_ident()] -= 1


_ALL: WeakSet[InUse] = WeakSet()


def _after_fork() -> None:
    me = threading.get_ident()
    for one in list(_ALL):
        one.cut = one.cut or any(count > 0 for thread, count in one.threads.items() if thread != me)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
