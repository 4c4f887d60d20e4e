"""Polling kubelets, straight at the address of their node, with a token that can only read statistics.

Not through the API server: that needs the right nodes/proxy, which is a right to run commands in pods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import aiohttp
from yarl import URL

from winpool.kubelet import configz, summary
from winpool.kubelet.exchange import OtherNameError, a_session, get, header_of, within
from winpool.kubelet.limits import MAX_IN_FLIGHT, MAX_KEPT

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from winpool.kubelet.addresses import Target
    from winpool.kubelet.configz import KubeletEviction
    from winpool.kubelet.exchange import Token
    from winpool.kubelet.samples import KubeletSample

MAX_BODY_BYTES: Final = 2**20
"""Bytes of an answer. The summary of a node with 15 pods has 18 kB, and the largest nodes have 250 pods."""

KEEP_ALIVE_SECONDS: Final = 80.0
"""How long an idle connection is kept: longer than the longest interval, and less than the 90 s after which
the kubelet closes it (k8s.io/kubernetes: pkg/kubelet/server/server.go)."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """A connection that is kept: a session of its own, so that closing it closes nothing else."""

    session: aiohttp.ClientSession
    target: Target
    context: ssl.SSLContext


class KubeletClient:
    """Reads statistics from kubelets. Make it inside a running event loop, and use it as a context manager.

    Everything it raises is a PollError. It never repeats a request: the schedule does, later.
    """

    def __init__(self, *, token: Token, context: Callable[[], ssl.SSLContext]) -> None:
        """Make a client. ``context`` returns the TLS context for a new connection, see ``trust``."""
        self._token = token
        self._context = context
        self._single = a_session(aiohttp.TCPConnector(limit=MAX_IN_FLIGHT, force_close=True))
        self._kept: dict[str, _Kept] = {}
        self._named: set[str] = set()
        """Nodes whose certificate is for their name and not for their address."""

    async def __aenter__(self) -> Self:
        """Do nothing: connections are made when they are needed."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close every connection."""
        for node in list(self._kept):
            await self._drop(node)
        await self._single.close()

    async def summary(
        self, target: Target, *, deadline: float, pods: bool = False, keep: bool = False
    ) -> KubeletSample:
        """Return the memory of a node, with its pods if asked, within ``deadline`` seconds.

        With ``keep`` the connection stays for the next poll, if fewer than MAX_KEPT are. Raises PollError.
        """
        body = await self._read(target, summary.PATH, deadline=deadline, keep=keep)
        return summary.parse_summary(body, node=target.node, pods=pods)

    async def eviction(self, target: Target, *, deadline: float) -> KubeletEviction:
        """Return whether the kubelet itself evicts pods, within ``deadline`` seconds. Raises PollError."""
        return configz.parse_configz(
            await self._read(target, configz.PATH, deadline=deadline, keep=target.node in self._kept)
        )

    async def forget(self, node: str) -> None:
        """Close the connection of a node that is polled no more."""
        self._named.discard(node)
        await self._drop(node)

    async def _read(self, target: Target, path: str, *, deadline: float, keep: bool) -> bytes | bytearray:
        done = False
        try:
            async with within(deadline):
                authorization = await header_of(self._token)
                context = self._context()
                session = await self._session(target, context, keep=keep)
                url = URL.build(scheme="https", host=target.host, port=target.port, path=path)
                body = await self._get(session, url, target, context, authorization=authorization)
            done = True
            return body
        finally:
            if not done:
                await self._drop(target.node)

    async def _get(
        self,
        session: aiohttp.ClientSession,
        url: URL,
        target: Target,
        context: ssl.SSLContext,
        *,
        authorization: str,
    ) -> bytes | bytearray:
        """Ask a server whose certificate is for the address, or for the name of the node.

        OpenSSL checks one of them for each handshake. Which one it was is remembered, so that a
        kubelet costs a second handshake once only.
        """

        async def ask(*, by_name: bool) -> bytes | bytearray:
            name = target.node if by_name else None
            return await get(
                session, url, authorization=authorization, context=context, name=name, limit=MAX_BODY_BYTES
            )

        by_name = target.node in self._named
        try:
            return await ask(by_name=by_name)
        except OtherNameError:
            body = await ask(by_name=not by_name)
        if by_name:
            self._named.discard(target.node)
        else:
            self._named.add(target.node)
        return body

    async def _session(self, target: Target, context: ssl.SSLContext, *, keep: bool) -> aiohttp.ClientSession:
        kept = self._kept.get(target.node)
        if kept is not None:
            if keep and kept.target == target and kept.context is context:
                return kept.session
            await self._drop(target.node)
        if not keep or len(self._kept) >= MAX_KEPT:
            return self._single
        session = a_session(aiohttp.TCPConnector(limit=1, keepalive_timeout=KEEP_ALIVE_SECONDS))
        self._kept[target.node] = _Kept(session, target, context)
        return session

    async def _drop(self, node: str) -> None:
        kept = self._kept.pop(node, None)
        if kept is not None:
            await kept.session.close()
