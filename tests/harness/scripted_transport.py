"""Stands in the place of the Transport: answers lists and brings watches as a test has written them down.

For what is about the loops above the transport: when they ask, from where they go on, how long they pause. It
keeps no objects and knows none of Kubernetes' rules: nothing that is about Kubernetes may be tested on it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs, urlsplit

from harness.builders import WINDOWS, Object
from winpool.api.keys import API_VERSION, KIND
from winpool.kube.errors import ApiError, StreamSilent
from winpool.kube.request import Request

T = TypeVar("T")

BOOKMARK_SECONDS: Final = 60.0
"""Between two bookmarks of a quiet watch."""

ENOUGH: Final = 10_000
"""Requests of a test. Who asks more often does so in a tight loop."""


class End(Enum):
    """How a watch ends by itself, other than by an error."""

    PROPER = "as the API server ends one"


Answer = bytes | ApiError
"""What a list is answered; an ApiError is raised, as what the transport raises after its own attempts."""

Step = Object | bytes | float | ApiError | End
"""An event, a line as it stands, seconds without a line, or how the watch ends."""

Watch = Sequence[Step] | ApiError
"""What a watch brings; an ApiError is the answer to opening it. One that no step ends is quiet from then on:
a bookmark a minute, until it has lasted as long as was asked for."""

QUIET: Final[Watch] = ()
SILENT: Final = float("inf")
"""As a step: nothing comes any more, not even a bookmark."""


@dataclass(frozen=True)
class Asked:
    """A request, and how many seconds after the beginning it came."""

    at: float
    verb: str
    query: dict[str, str]

    @property
    def position(self) -> str:
        """The resourceVersion that a watch goes on from."""
        return self.query["resourceVersion"]


@dataclass(kw_only=True)
class ScriptedTransport:
    """Make it inside a running event loop. ``asked`` are the requests that came.

    ``calm`` says of each event that was sent whether the reader found it of no interest.

    Each request uses up one of ``lists`` (page by page) or ``watches``; the last comes again and again.
    ``list_seconds`` and ``opening_seconds`` are how long an answer takes. A server that is not ``punctual``
    lets a quiet watch last for ever.
    """

    lists: list[Answer]
    watches: list[Watch] = field(default_factory=lambda: [QUIET])
    list_seconds: float = 0.0
    opening_seconds: float = 0.0
    punctual: bool = True
    asked: list[Asked] = field(default_factory=list)
    calm: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._begun = asyncio.get_running_loop().time()

    @property
    def time(self) -> float:
        """Seconds since the beginning."""
        return asyncio.get_running_loop().time() - self._begun

    @property
    def listed(self) -> list[float]:
        """When lists were asked for; each page counts."""
        return [each.at for each in self.asked if each.verb == "list"]

    @property
    def watched(self) -> list[float]:
        """When watches were asked for."""
        return [each.at for each in self.asked if each.verb == "watch"]

    @property
    def positions(self) -> list[str]:
        """Where the watches went on from."""
        return [each.position for each in self.asked if each.verb == "watch"]

    async def request(self, request: Request) -> bytes:
        """Answer a list, as ``Transport.request``."""
        assert request.verb == "list", request
        self._note(request)
        answer = _next_of(self.lists)
        await asyncio.sleep(self.list_seconds)
        if isinstance(answer, ApiError):
            raise answer
        return answer

    @asynccontextmanager
    async def stream(
        self, request: Request, *, silence_seconds: float, is_calm: Callable[[], bool]
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch, as ``Transport.stream``."""
        assert request.verb == "watch", request
        asked = self._note(request)
        watch = _next_of(self.watches)
        await asyncio.sleep(self.opening_seconds)
        if isinstance(watch, ApiError):
            raise watch
        async with aclosing(self._lines(watch, asked, silence_seconds, is_calm)) as lines:
            yield lines

    async def _lines(
        self, steps: Sequence[Step], asked: Asked, silence_seconds: float, is_calm: Callable[[], bool]
    ) -> AsyncGenerator[bytes, None]:
        ends_at = self.time + float(asked.query["timeoutSeconds"])
        version = int(asked.position)
        for step in steps:
            match step:
                case ApiError():
                    raise step
                case End():
                    return
                case bytes():
                    yield step
                case dict():
                    version = max(version, _version_of(step))
                    yield json.dumps(step).encode()
                    self.calm.append(is_calm())
                case seconds:
                    await asyncio.sleep(min(seconds, silence_seconds))
                    if seconds >= silence_seconds:
                        raise StreamSilent(f"watch: nothing came for {silence_seconds} s")
        while not self.punctual or ends_at - self.time > BOOKMARK_SECONDS:
            await asyncio.sleep(BOOKMARK_SECONDS)
            yield json.dumps(bookmark(version)).encode()
        await asyncio.sleep(ends_at - self.time)

    def _note(self, request: Request) -> Asked:
        query = {key: value for key, (value,) in parse_qs(urlsplit(request.path).query).items()}
        asked = Asked(self.time, request.verb, query)
        self.asked.append(asked)
        assert len(self.asked) <= ENOUGH, "a tight loop"
        return asked


def gaps(times: Sequence[float]) -> list[float]:
    """Return the seconds between each of ``times`` and the next."""
    return [after - before for before, after in pairwise(times)]


def node_object(name: str, version: int, **labels: str) -> Object:
    """Return a Windows node as the API server gives it."""
    metadata = {"name": name, "uid": f"uid-of-{name}", "resourceVersion": str(version)}
    return {"metadata": {**metadata, "labels": {**WINDOWS, **labels}}}


def modified(name: str, version: int, **labels: str) -> Object:
    """Return the event of a change of a node."""
    return {"type": "MODIFIED", "object": node_object(name, version, **labels)}


def deleted(name: str, version: int) -> Object:
    """Return the event of a node's deletion."""
    return {"type": "DELETED", "object": node_object(name, version)}


def bookmark(version: int) -> Object:
    """Return the event that only tells where the watch has come to."""
    return {"type": "BOOKMARK", "object": {"kind": "Node", "metadata": {"resourceVersion": str(version)}}}


def error_event(code: int) -> Object:
    """Return the event that an API server tells an error by."""
    status = {"kind": "Status", "metadata": {}, "code": code, "message": "as the test wants it"}
    return {"type": "ERROR", "object": status}


def node_list(*nodes: Object, version: int, goes_on: str = "") -> bytes:
    """Return a list of nodes; with ``goes_on`` a page of it, that is continued by this token."""
    return _list_of(nodes, kind="NodeList", api_version="v1", version=version, goes_on=goes_on)


def pool_list(*bodies: Object, version: int, goes_on: str = "") -> bytes:
    """Return a list of pools; with ``goes_on`` a page of it, that is continued by this token."""
    return _list_of(bodies, kind=f"{KIND}List", api_version=API_VERSION, version=version, goes_on=goes_on)


def _list_of(items: Sequence[Object], *, kind: str, api_version: str, version: int, goes_on: str) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": str(version), "continue": goes_on}
    body = {"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": list(items)}
    return json.dumps(body).encode()


def _version_of(event: Object) -> int:
    return int(event["object"]["metadata"].get("resourceVersion", 0))


def _next_of(script: list[T]) -> T:
    return script.pop(0) if len(script) > 1 else script[0]
