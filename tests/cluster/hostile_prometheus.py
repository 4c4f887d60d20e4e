"""Data sources with which something is wrong, one of each kind, for an operator on a control plane."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from harness.hostile_server import (
    Answer,
    HostileServer,
    a_server,
    answering,
    endless,
    never,
    response,
    tls_for,
)
from harness.listener import an_authority
from winpool.kubelet.samples import Outcome

TOKEN: Final = "s3cret-t0ken-of-prometheus"
HOME: Final = "127.0.0.1"
ELSEWHERE: Final = "127.0.0.2"


def _vector(*nodes: str) -> bytes:
    series = [{"metric": {"job": "windows-exporter", "node": node}, "value": [1, "1"]} for node in nodes]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": series}}).encode()


@dataclass(frozen=True)
class Kind:
    """What such a server answers, and what is to be reported of it.

    ``address`` is what its certificate is for, ``authority`` who has signed that, ``token`` the token file.
    """

    outcome: Outcome
    answer: Answer
    address: str = HOME
    authority: str = "trusted"
    token: str = TOKEN


KINDS: Final[Mapping[str, Kind]] = {
    "rejecting": Kind(Outcome.UNAUTHORIZED, answering(response(TOKEN.encode(), status="401 Unauthorized"))),
    "forbidding": Kind(Outcome.FORBIDDEN, answering(response(TOKEN.encode(), status="403 Forbidden"))),
    "breaking": Kind(Outcome.SERVER_ERROR, answering(response(b"{}", status="503 Service Unavailable"))),
    "redirecting": Kind(
        Outcome.REDIRECTED, answering(response(b"", status="302 Found", Location="https://127.0.0.1:1/"))
    ),
    "misnamed": Kind(Outcome.CERTIFICATE, answering(response(_vector())), address=ELSEWHERE),
    "untrusted": Kind(Outcome.CERTIFICATE, answering(response(_vector())), authority="unknown"),
    "hanging": Kind(Outcome.TIMEOUT, never),
    "endless": Kind(Outcome.TOO_LARGE, endless),
    "crowded": Kind(Outcome.TOO_LARGE, answering(response(_vector(*map(str, range(100_000)))))),
    "unreadable": Kind(Outcome.UNREADABLE, answering(response(b"<html>it works</html>"))),
    "empty": Kind(Outcome.NO_SERIES, answering(response(_vector()))),
    "tokenless": Kind(Outcome.NO_TOKEN, answering(response(_vector())), token=""),
}
"""Servers, by the names of data sources."""

UNREACHABLE: Final = "unreachable"
"""The name of a data source at whose port nothing listens."""

OUTCOMES: Final = {UNREACHABLE: Outcome.NO_CONNECTION} | {name: kind.outcome for name, kind in KINDS.items()}


@dataclass(frozen=True)
class HostileSources:
    """The servers, which run in another thread, and the file that names them to the operator."""

    file: Path
    _servers: dict[str, HostileServer] = field(default_factory=dict)

    def asked(self) -> dict[str, int]:
        """Return how many requests each server got."""
        return {name: len(server.heads) for name, server in self._servers.items()}

    def connections(self) -> dict[str, int]:
        """Return how many connections each server had, also those that ended in the handshake."""
        return {name: server.connections for name, server in self._servers.items()}


@contextmanager
def hostile_sources(directory: Path) -> Iterator[HostileSources]:
    """Run a server of each kind, and yield them once they listen."""
    authorities = {name: an_authority(directory, name) for name in ("trusted", "unknown")}
    sources = HostileSources(directory / "data-sources.yaml")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(step: Any) -> None:
        asyncio.run_coroutine_threadsafe(step, loop).result()

    async def listen(stack: AsyncExitStack) -> None:
        for name, kind in KINDS.items():
            tls = tls_for(authorities[kind.authority], directory, addresses=[kind.address])
            sources._servers[name] = await stack.enter_async_context(a_server(tls, kind.answer))

    servers = AsyncExitStack()
    with ExitStack() as ending:
        ending.callback(loop.close)
        ending.callback(thread.join)
        ending.callback(loop.call_soon_threadsafe, loop.stop)
        ending.callback(lambda: run(servers.aclose()))
        run(listen(servers))
        closed = ending.enter_context(socket.socket())
        closed.bind((HOME, 0))  # taken, and without listen() every connection is refused
        ports = {name: server.port for name, server in sources._servers.items()}
        ports[UNREACHABLE] = closed.getsockname()[1]
        _write(sources.file, ports, ca=authorities["trusted"].paths.certificate)
        yield sources


def _write(file: Path, ports: Mapping[str, int], *, ca: Path) -> None:
    told = []
    for name, port in ports.items():
        token = file.with_name(f"{name}.token")
        token.write_text(KINDS[name].token if name in KINDS else TOKEN)
        told.append(
            {
                "name": name,
                "url": f"https://{HOME}:{port}",
                "caFile": str(ca),
                "tokenFile": str(token),
                "scrapeIntervalSeconds": 1,
            }
        )
    file.write_text(yaml.safe_dump({"dataSources": told}))
