"""The door to the API server as tests hold it open: a transport, and a reflector that runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from harness.waiting import GUARD_SECONDS
from winpool.kube.client import Transport
from winpool.kube.credentials import load_connection
from winpool.kube.nodes import WINDOWS_NODES
from winpool.kube.watch import SILENCE_SECONDS, ListWatch
from winpool.model.node import Node

T = TypeVar("T")

Object = dict[str, Any]


async def until(check: Callable[[], T], *, what: str, seconds: float = GUARD_SECONDS) -> T:
    """Return the first true value of ``check``, while the loop goes on."""
    last: T | None = None
    try:
        async with asyncio.timeout(seconds):
            while not (last := check()):  # noqa: ASYNC110 - a cluster sets no asyncio.Event
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"{what}: not within {seconds:.0f} s; last seen: {last!r}") from None
    return last


@asynccontextmanager
async def a_transport(kubeconfig: Path) -> AsyncIterator[Transport]:
    """Open a transport with the credentials of a kubeconfig."""
    async with Transport(await load_connection(kubeconfig=str(kubeconfig))) as transport:
        yield transport


class Reflected:
    """A running reflector and every change it told of, oldest first."""

    def __init__(self, transport: Transport, *, silence_seconds: float, contacts_failing: int = 0) -> None:
        self.contacts = 0
        self.contacts_failing = contacts_failing
        self.changes: list[tuple[Node | None, Node | None]] = []
        self.reflector = ListWatch(
            transport,
            WINDOWS_NODES,
            on_change=lambda old, new: self.changes.append((old, new)),
            on_contact=self._note_contact,
            silence_seconds=silence_seconds,
        )

    async def _note_contact(self) -> bool:
        self.contacts += 1
        return self.contacts > self.contacts_failing

    def about(self, name: str) -> list[tuple[Node | None, Node | None]]:
        """The changes of one node."""
        return [(old, new) for old, new in self.changes if name in {old and old.name, new and new.name}]

    def node(self, name: str) -> Node:
        """The node as it is known now."""
        return self.reflector.objects[name]

    def version(self, name: str) -> str:
        """The resourceVersion known of a node, "" for an unknown one."""
        node = self.reflector.objects.get(name)
        return node.resource_version if node else ""


@asynccontextmanager
async def a_reflector(
    transport: Transport,
    *,
    silence_seconds: float = SILENCE_SECONDS,
    sync: bool = True,
    contacts_failing: int = 0,
) -> AsyncIterator[Reflected]:
    """Run a reflector; with ``sync``, begin when its first list is complete and its watch open.

    The first ``contacts_failing`` times that it makes contact come to nothing.
    """
    reflected = Reflected(transport, silence_seconds=silence_seconds, contacts_failing=contacts_failing)
    task = asyncio.create_task(reflected.reflector.run())
    try:
        if sync:
            await until(lambda: reflected.reflector.stats.watches, what="the first watch")
        yield reflected
        assert not task.done(), "the reflector never ends by itself"
    finally:
        task.cancel()
        async with asyncio.timeout(2):  # what a SIGTERM may take, whatever state this is in
            await asyncio.gather(task, return_exceptions=True)


def a_node_manifest(name: str, *, labels: dict[str, str], os: str = "windows") -> str:
    """Return a node without a kubelet, as JSON for kubectl."""
    labels = {"kubernetes.io/os": os, **labels}
    return json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
