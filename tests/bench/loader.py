"""The ceiling: the operator's node writes sent by raw aiohttp, with nothing else to do.

``python -m bench.loader`` does to every bare Windows node what the operator does to it (or takes it
off again), and prints what it did as JSON. All bodies are made before the first is sent, by the
operator's own functions: both sides send the same bytes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

import aiohttp
from aiohttp import hdrs
from yarl import URL

from bench import pool
from bench.errors import BenchError
from bench.tools import finish
from harness.wishes import conform, release
from testbed.tokens import subject
from winpool.api.keys import FIELD_MANAGER
from winpool.controllers.writes import PATCHES_IN_FLIGHT
from winpool.kube.client import MAX_CONNECTIONS
from winpool.kube.credentials import Connection, load_connection
from winpool.kube.lists import OBJECTS_A_PAGE
from winpool.kube.nodes import NODES_PATH, WINDOWS_SELECTOR, decode_page
from winpool.kube.request import JSON, MERGE_PATCH
from winpool.kube.wire import node_object
from winpool.kube.writer import METADATA_ONLY, encode_node_patch
from winpool.model.node import Node, NodePatch

USER: Final = subject(namespace="winpool-bench", name="loader")
"""Who the loader is in the audit log."""

POOL_UID: Final = str(uuid.UUID("5f6b1c5e-9a2d-4f1e-8a44-0c1d2e3f4a5b"))
"""No pool's; as long as one."""

ATTEMPTS: Final = 10
"""For one node. A second conflict in a row is rare: kubelets report every five minutes."""

_OK: Final = 200
_CONFLICT: Final = 409


@dataclass(slots=True)
class Done:
    """What was done."""

    written: int = 0
    conflicts: int = 0
    failures: list[str] = field(default_factory=list)


class Loader:
    """Sends one PATCH per node over one session, with PATCHES_IN_FLIGHT at once."""

    def __init__(self, session: aiohttp.ClientSession, *, server: str, undo: bool) -> None:
        self._session = session
        self._server = server
        self._undo = undo
        self.done = Done()

    async def prepare(self) -> list[tuple[str, bytes]]:
        """List the nodes and return the body for each that needs one, by name."""
        return [(patch.node.name, encode_node_patch(patch)) for patch in self._patches(await self._list())]

    async def send(self, bodies: list[tuple[str, bytes]]) -> None:
        """Send them all."""
        waiting = iter(bodies)
        async with asyncio.TaskGroup() as group:
            for _ in range(PATCHES_IN_FLIGHT):
                group.create_task(self._work(waiting))

    def _patches(self, nodes: list[Node]) -> Iterator[NodePatch]:
        wanted = pool.wanted(uid=POOL_UID)
        for node in nodes:
            patch = (
                release(node, pool_uid=POOL_UID, pool_name=pool.NAME, rights=pool.RIGHTS).patch
                if self._undo
                else conform(node, wanted=wanted).patch
            )
            if patch is not None:
                yield patch

    async def _list(self) -> list[Node]:
        nodes: list[Node] = []
        token = ""
        while True:
            query = {"labelSelector": WINDOWS_SELECTOR, "limit": str(OBJECTS_A_PAGE)}
            query |= {"continue": token} if token else {}
            status, body = await self._ask("GET", f"{NODES_PATH}?{urlencode(query, quote_via=quote)}")
            if status != _OK:
                raise BenchError(f"list nodes: {status} {body[:500]!r}")
            page = decode_page(body)
            nodes += page.items
            token = page.continue_token
            if not token:
                return nodes

    async def _work(self, waiting: Iterator[tuple[str, bytes]]) -> None:
        for name, body in waiting:
            await self._patch(name, body)

    async def _patch(self, name: str, body: bytes) -> None:
        path = f"{NODES_PATH}/{quote(name)}"
        for _ in range(ATTEMPTS):
            status, answer = await self._ask("PATCH", f"{path}?fieldManager={FIELD_MANAGER}", body=body)
            if status == _OK:
                self.done.written += 1
                return
            if status != _CONFLICT:
                break
            self.done.conflicts += 1
            body = self._again(body, version=await self._version(path))
        self.done.failures.append(f"{name}: {status} {answer[:200]!r}")

    async def _version(self, path: str) -> str:
        _, answer = await self._ask("GET", path)
        return node_object.decode(answer).metadata.resource_version

    @staticmethod
    def _again(body: bytes, *, version: str) -> bytes:
        """Return the body for the node as it is now: a heartbeat has changed nothing else that we ask for."""
        content = json.loads(body)
        content["metadata"]["resourceVersion"] = version
        return json.dumps(content, separators=(",", ":")).encode()

    async def _ask(self, method: str, path: str, *, body: bytes | None = None) -> tuple[int, bytes]:
        headers = {hdrs.ACCEPT: METADATA_ONLY if body else JSON}
        if body is not None:
            headers[hdrs.CONTENT_TYPE] = MERGE_PATCH
        url = URL(self._server + path, encoded=True)
        async with self._session.request(method, url, headers=headers, data=body) as answer:
            return answer.status, await answer.read()


async def _session(connection: Connection) -> aiohttp.ClientSession:
    header = await connection.authorization.header()
    assert header is not None
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=connection.tls.context(), limit=MAX_CONNECTIONS),
        headers={
            hdrs.AUTHORIZATION: header,
            hdrs.USER_AGENT: "winpool-bench-loader",
            hdrs.ACCEPT_ENCODING: "identity",
        },
        cookie_jar=aiohttp.DummyCookieJar(),
    )


async def run(*, kubeconfig: Path, undo: bool) -> dict[str, object]:
    """Write every node that needs it; return what was done."""
    connection = await load_connection(kubeconfig=str(kubeconfig))
    async with await _session(connection) as session:
        loader = Loader(session, server=connection.server, undo=undo)
        bodies = await loader.prepare()
        cpu, started = time.process_time(), time.monotonic()
        await loader.send(bodies)
        seconds, cpu = time.monotonic() - started, time.process_time() - cpu
    if loader.done.failures:
        raise BenchError(f"{len(loader.done.failures)} nodes refused: {loader.done.failures[0]}")
    return {
        "written": loader.done.written,
        "conflicts": loader.done.conflicts,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "body_bytes": sum(len(body) for _, body in bodies),
    }


def main() -> int:
    """Run; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.loader", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--undo", action="store_true", help="take off what it put on before")
    given = parser.parse_args()
    return finish(run(kubeconfig=given.kubeconfig, undo=given.undo))


if __name__ == "__main__":
    sys.exit(main())
