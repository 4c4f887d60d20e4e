"""Polls of kubelets over real TLS, and how they end."""

from __future__ import annotations

import ssl
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from cluster.door import until
from harness.hostile_server import Answer, HostileServer, a_server
from testbed.pki import Authority
from winpool.kubelet.addresses import Target
from winpool.kubelet.client import KubeletClient
from winpool.kubelet.connection import Trust
from winpool.kubelet.samples import Outcome, PollError

TOKEN = "eyJhbGciOi.s3cret-t0ken.c2ln"
AMPLE = 30.0
"""Seconds that no test waits for."""

SOON = 0.5
"""A deadline for what never comes. The handshake has to end before it where a test is about what follows."""


async def the_token() -> str | None:
    return TOKEN


def trusted(authority: Authority) -> Callable[[], ssl.SSLContext]:
    return Trust(authority.paths.certificate, monotonic=lambda: 0.0).context


@asynccontextmanager
async def a_client(
    authority: Authority, *, token: Callable[[], Awaitable[str | None]] = the_token
) -> AsyncIterator[KubeletClient]:
    async with KubeletClient(token=token, context=trusted(authority)) as client:
        yield client


def at(server: HostileServer, *, node: str = "w1", host: str = "127.0.0.1") -> Target:
    return Target(node=node, host=host, port=server.port)


async def refused(poll: Awaitable[object]) -> Outcome:
    """Return how a poll ends that gives no sample. Nothing of its error has the token in it."""
    with pytest.raises(PollError) as raised:
        await poll
    shown = "".join(traceback.format_exception(raised.value)) + repr(raised.value)
    assert TOKEN not in shown
    assert "s3cret" not in shown
    return raised.value.outcome


async def poll_once(
    authority: Authority, tls: ssl.SSLContext | None, answer: Answer, *, deadline: float = AMPLE
) -> Outcome:
    """Return how one poll of a kubelet with this answer ends. No connection to it stays open."""
    async with a_server(tls, answer) as server, a_client(authority) as client:
        outcome = await refused(client.summary(at(server), deadline=deadline, keep=True))
        await until(lambda: server.open == 0, what="the connection is closed")
        return outcome
