"""A reflector that runs, in virtual time, on what a test has written down, and all that it told of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from harness.scripted_transport import ScriptedTransport
from harness.virtual_time import running
from winpool.kube.client import Transport
from winpool.kube.nodes import WINDOWS_NODES
from winpool.kube.watch import ListWatch
from winpool.model.node import Node


class RunningReflector:
    """``changes`` are those that it told of, ``contacts`` when it made contact.

    The first ``failing`` contacts come to nothing. ``was_synced`` says of each whether nodes were synced.
    """

    def __init__(self, server: ScriptedTransport, *, failing: int) -> None:
        self.server = server
        self.changes: list[tuple[Node | None, Node | None]] = []
        self.contacts: list[float] = []
        self.was_synced: list[bool] = []
        self._failing = failing
        self.reflector = ListWatch(
            cast("Transport", server),
            WINDOWS_NODES,
            on_change=lambda old, new: self.changes.append((old, new)),
            on_contact=self._note_contact,
            monotonic=asyncio.get_running_loop().time,
        )

    @property
    def versions(self) -> dict[str, str]:
        """The resourceVersion of each node that is known."""
        return {name: node.resource_version for name, node in self.reflector.objects.items()}

    def label(self, name: str, key: str) -> str | None:
        """Return a label of a node that is known."""
        return self.reflector.objects[name].labels.get(key)

    async def _note_contact(self) -> bool:
        self.contacts.append(self.server.time)
        self.was_synced.append(self.reflector.synced)
        return len(self.contacts) > self._failing


@asynccontextmanager
async def a_reflector(server: ScriptedTransport, *, failing: int = 0) -> AsyncIterator[RunningReflector]:
    """Run a reflector as long as the context lasts."""
    reflecting = RunningReflector(server, failing=failing)
    async with running(reflecting.reflector.run()):
        yield reflecting
