"""Describes a request to the API server, who can send it, and when it must not be sent any more."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, Protocol
from urllib.parse import unquote

import msgspec

from winpool.kube.errors import NotWanted

NO_ANSWER: Final = "error"
"""Instead of an HTTP status where no answer came (connection refused, broken, cut)."""
TIMED_OUT: Final = "timeout"
"""Instead of an HTTP status where no answer came in time."""


class RequestStats(msgspec.Struct):
    """Requests by verb, resource and code.

    Verbs and resources are those of RBAC ("patch", "nodes", "windowsnodepools/status");
    codes are HTTP statuses as text, or ``NO_ANSWER``, or ``TIMED_OUT``. Every attempt
    counts, also one that is repeated. The keys are few: all three come from our own code
    or from HTTP.
    """

    requests: Counter[tuple[str, str, str]] = msgspec.field(default_factory=Counter)
    in_flight: int = 0
    retries: int = 0

    def count(self, *, verb: str, resource: str, code: str) -> None:
        """Count one attempt that has ended (for a watch: one that was answered)."""
        self.requests[verb, resource, code] += 1


_objections: Final[ContextVar[tuple[Callable[[], str], ...]]] = ContextVar("objections", default=())


@contextmanager
def unless(objection: Callable[[], str]) -> Iterator[None]:
    """Send requests of this block, and of tasks that it starts, only while ``objection`` returns nothing.

    Otherwise they raise NotWanted with what it returns. Blocks in blocks add up. A request may wait half a
    minute for credentials and for a connection, and a process may be frozen for hours. So the check is made
    when the connection is there, and again where head and body are written. It is of the task that sends, so
    that no layer in between has to pass it on.
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


JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
"""Server-side apply. The body is JSON, which is YAML."""

OBJECT_LIMIT: Final = 10 * 1024 * 1024
"""Bytes of one object as JSON. etcd accepts 1.5 MiB for each by default, and the API server writes some
characters that are one byte in etcd as six (``<`` as ``\\u003c``). The rest is for what it adds."""

REPLY_LIMIT: Final = OBJECT_LIMIT
"""Bytes of an answer that is not a list."""

_NAMESPACE: Final = re.compile(r"/namespaces/([^/?]+)/")

_GROUP: Final = re.compile(r"/apis/([^/?]+)/")

_METHODS: Final = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "patch": "PATCH",
    "delete": "DELETE",
}


def namespace_of(path: str) -> str | None:
    """Return the namespace in the path of a request; None for a request in no namespace, or in all."""
    found = _NAMESPACE.search(path.partition("?")[0])
    return unquote(found[1]) if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to the API server.

    ``verb`` and ``resource`` are RBAC's, with the subresource ("nodes", "windowsnodepools/status").
    ``path`` is the URL's path and query, already encoded. ``name`` is only for messages.
    ``guarded`` says of a write that it has the resourceVersion it was decided on (see
    ``ATTEMPTS``). ``reply_limit`` is in bytes.
    """

    verb: str
    resource: str
    path: str
    name: str = ""
    body: bytes | None = field(default=None, repr=False)
    """Not part of the repr: that of a TokenReview is a token."""
    content_type: str = JSON
    accept: str = JSON
    guarded: bool = False
    reply_limit: int = REPLY_LIMIT

    @property
    def method(self) -> str:
        """The HTTP method of the verb (Kubernetes: "Authorization Overview", request verbs)."""
        return _METHODS[self.verb]

    @property
    def namespace(self) -> str | None:
        """The namespace of the request; None where it is in none, or in all."""
        return namespace_of(self.path)

    @property
    def group(self) -> str:
        """The API group that it is in, as RBAC names it: empty for the core group."""
        found = _GROUP.match(self.path)
        return unquote(found[1]) if found else ""

    @property
    def label(self) -> str:
        """The beginning of an error message: "patch nodes w1"."""
        return f"{self.verb} {self.resource} {self.name}".rstrip()

    @property
    def is_repeatable(self) -> bool:
        """Whether the transport may send it again by itself."""
        return self.guarded or self.verb in {"get", "list"}


Send = Callable[[Request], Awaitable[bytes | bytearray]]
"""Sends a request to the API server and returns its answer, as ``Transport.request`` does."""


class ApiServer(Protocol):
    """Who sends requests to the API server: ``client.Transport`` does."""

    async def request(self, request: Request) -> bytes | bytearray:
        """Send ``request`` and return the body of its answer. Raises ApiErrors."""

    def stream(
        self, request: Request, *, silence_seconds: float, is_calm: Callable[[], bool]
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a watch; inside the ``with`` its lines can be iterated. Raises ApiErrors.

        ``is_calm`` says whether nothing of what came was of interest, so that the next may wait a little.
        """
