"""The last check before a request is sent: whether what it was decided on is still so.

A request may wait half a minute for credentials and for a connection, and a process may be frozen for hours.
So a check is made when the connection is there, and again where head and body are written (``route``). It is
of the task that sends, so that no layer in between has to pass it on.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from winpool.cluster.errors import NotWanted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NONE: Final[tuple[Callable[[], str], ...]] = ()
_objections: Final[ContextVar[tuple[Callable[[], str], ...]]] = ContextVar("objections", default=_NONE)


@contextmanager
def unless(objection: Callable[[], str]) -> Iterator[None]:
    """Send requests of this block, and of tasks that it starts, only while ``objection`` returns nothing.

    Otherwise they raise NotWanted with what it returns. Blocks in blocks add up.
    """
    token = _objections.set((*_objections.get(), objection))
    try:
        yield
    finally:
        _objections.reset(token)


def last_check() -> Callable[[str], None]:
    """Return the check of a request that is made now. It raises NotWanted; its argument is the request."""
    found = _objections.get()

    def check(label: str) -> None:
        for objection in found:
            if said := objection():
                raise NotWanted(f"{label}: not sent: {said}")

    return check
