"""An API server that has one Lease, in memory, for tests of the loops on a loop of virtual time.

It has versions, conflicts and a watch, and fails as a test tells it. Nothing that is about Kubernetes may be
tested on it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from winpool.kube.errors import AlreadyExists, ApiError, Conflict, NoAnswer, NotFound
from winpool.kube.request import Request

Object = dict[str, Any]

ENOUGH = 10_000
"""Requests of a test. Who asks more often does so in a tight loop."""


@dataclass
class LeaseServer:
    """``lease`` is the object, None where there is none; ``version`` is that of the last change."""

    lease: Object | None = None
    version: int = 1
    uids: int = 0
    history: list[tuple[int, Object]] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def spec(self) -> Object:
        """The spec of the Lease; {} where there is none."""
        return dict(self.lease["spec"]) if self.lease else {}

    def put(self, spec: Object) -> Object:
        """Create the Lease, or merge ``spec`` into it, as anybody's write."""
        kind = "MODIFIED" if self.lease else "ADDED"
        if self.lease is None:
            self.uids += 1
            self.lease = {"metadata": {"name": "winpool", "uid": f"uid-{self.uids}"}, "spec": {}}
        self.version += 1
        metadata = {**self.lease["metadata"], "resourceVersion": str(self.version)}
        self.lease = {"metadata": metadata, "spec": {**self.lease["spec"], **spec}}
        self._tell(kind)
        return self.lease

    def delete(self) -> None:
        """Delete the Lease."""
        assert self.lease is not None
        self.version += 1
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        self._tell("DELETED")
        self.lease = None

    def _tell(self, kind: str) -> None:
        self.history.append((self.version, {"type": kind, "object": json.loads(json.dumps(self.lease))}))
        self.news.set()
        self.news = asyncio.Event()


@dataclass
class LeaseTransport:
    """The way of one process to the server. ``asked`` are the verbs of its requests and when they came.

    ``fault`` is called with each request but those of the watch; what it returns is raised before the server
    has seen it. ``loses`` are verbs whose next answer is lost after the write was carried out.
    ``watch_fault`` is the answer to lists and watches.
    """

    server: LeaseServer
    fault: Callable[[Request], ApiError | None] = lambda _: None
    watch_fault: ApiError | None = None
    loses: list[str] = field(default_factory=list)
    seconds: float = 0.001
    asked: list[tuple[float, str]] = field(default_factory=list)

    def times(self, verb: str) -> list[float]:
        """Return when requests of that verb came."""
        return [at for at, asked in self.asked if asked == verb]

    async def request(self, request: Request) -> bytes:
        """Answer, as ``Transport.request``."""
        self._note(request.verb)
        fault = self.watch_fault if request.verb == "list" else self.fault(request)
        if fault is not None:
            raise fault
        await asyncio.sleep(self.seconds)
        answer = json.dumps(self._carry_out(request)).encode()
        if request.verb in self.loses:
            self.loses.remove(request.verb)
            raise NoAnswer(f"{request.label}: lost")
        await asyncio.sleep(self.seconds)
        return answer

    def _carry_out(self, request: Request) -> Object:
        server, label = self.server, request.label
        body: Object = json.loads(request.body or b"{}")
        if request.verb == "list":
            items = [server.lease] if server.lease else []
            return {
                "kind": "LeaseList",
                "apiVersion": "coordination.k8s.io/v1",
                "metadata": {"resourceVersion": str(server.version)},
                "items": items,
            }
        if request.verb == "create":
            if server.lease is not None:
                raise AlreadyExists(f"{label}: 409", status=409)
            return server.put(body["spec"])
        if server.lease is None:
            raise NotFound(f"{label}: 404", status=404)
        if request.verb == "get":
            return server.lease
        assert request.verb == "patch", request
        if body["metadata"]["resourceVersion"] != server.lease["metadata"]["resourceVersion"]:
            raise Conflict(f"{label}: 409", status=409)
        return server.put(body["spec"])

    @asynccontextmanager
    async def stream(
        self,
        request: Request,
        *,
        silence_seconds: float,  # noqa: ARG002 - it is never silent
        is_calm: Callable[[], bool],  # noqa: ARG002 - nothing waits
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch, as ``Transport.stream``."""
        self._note(request.verb)
        if self.watch_fault is not None:
            raise self.watch_fault
        query = parse_qs(urlsplit(request.path).query)
        yield self._lines(int(query["resourceVersion"][0]))

    async def _lines(self, position: int) -> AsyncIterator[bytes]:
        while True:
            news = self.server.news
            for version, event in self.server.history:
                if version > position:
                    position = version
                    yield json.dumps(event).encode()
            await news.wait()

    def _note(self, verb: str) -> None:
        self.asked.append((asyncio.get_running_loop().time(), verb))
        assert len(self.asked) <= ENOUGH, "a tight loop"
