"""Polls kubelets, straight at the address of their node, with a token that can only read statistics.

Not through the API server: that needs the right nodes/proxy, which is a right to run commands in pods.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Self, TypeVar

import msgspec

from winpool.kubelet.addresses import Target
from winpool.kubelet.connection import (
    BEARER,
    OtherNameError,
    Token,
    Wire,
    connected,
    header_of,
    request_of,
    within,
)
from winpool.kubelet.samples import (
    CONFIGZ_PATH,
    MAX_BODY_BYTES,
    SUMMARY_PATH,
    KubeletEviction,
    Outcome,
    PollError,
    parse_configz,
    parse_summary,
)
from winpool.kubelet.schedule import MAX_KEPT
from winpool.model.pressure import MemorySample, PodUsage


class Acceptance:
    """Whether kubelets accept the token that they are shown, as each said last.

    A kubelet that refuses it (401) may be wrong, or lie. Where most refuse it, the token is no good any more:
    the API server has other keys, or the account was deleted and created again. A minority can neither have a
    token renewed nor prevent it.
    """

    def __init__(self) -> None:
        self._accepting: set[str] = set()
        self._refusing: set[str] = set()

    def accepts(self, node: str) -> None:
        """Note that the kubelet of ``node`` has given what it gives to no one without a token."""
        self._refusing.discard(node)
        self._accepting.add(node)

    def refuses(self, node: str) -> None:
        """Note that the kubelet of ``node`` does not accept the token."""
        self._accepting.discard(node)
        self._refusing.add(node)

    def forget(self, node: str) -> None:
        """Forget a node that is polled no more."""
        self._accepting.discard(node)
        self._refusing.discard(node)

    @property
    def is_refused(self) -> bool:
        """Whether more kubelets refuse it than accept it."""
        return len(self._refusing) > len(self._accepting)


KEEP_ALIVE_SECONDS: Final = 80.0
"""How long an idle connection is kept: longer than the longest interval, and less than the 90 s after which
the kubelet closes it (k8s.io/kubernetes: pkg/kubelet/server/server.go)."""

MORE_SECONDS: Final = 1.0
"""How long a connection waits for a further request of its poll, which follows as soon as the answer is read.
It is closed after that time also where it is neither asked nor released."""

ReadT = TypeVar("ReadT")


class _Kept(msgspec.Struct, frozen=True):
    """A wire that is kept, and for what it was made."""

    wire: Wire
    target: Target
    context: ssl.SSLContext


@dataclass(kw_only=True, eq=False)
class KubeletClient:
    """Reads statistics from kubelets. Make it inside a running event loop, and use it as a context manager.

    Everything it raises is a PollError. It never repeats a request: the schedule does, later. ``context``
    returns the TLS context for a new connection, see ``Trust``. ``on_refused`` gets the token that a kubelet
    has refused, while most others refuse theirs too; it may be called with every poll.
    """

    token: Token
    context: Callable[[], ssl.SSLContext]
    on_refused: Callable[[str], None] = lambda _: None
    _acceptance: Acceptance = field(default_factory=Acceptance, init=False)
    _kept: dict[str, _Kept] = field(default_factory=dict, init=False)
    """Wires for the next poll, by the names of nodes. A node has one here or in ``_brief``."""
    _brief: dict[str, _Kept] = field(default_factory=dict, init=False)
    """Wires for a further request of the poll in flight."""
    _named: set[str] = field(default_factory=set, init=False)
    """Nodes whose certificate is for their name and not for their address."""

    async def __aenter__(self) -> Self:
        """Do nothing: connections are made when they are needed."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close every connection."""
        for node in [*self._kept, *self._brief]:
            self._drop(node)

    async def summary(
        self, target: Target, *, deadline: float, pods: bool = False, keep: bool = False, more: bool = False
    ) -> tuple[MemorySample, dict[str, PodUsage] | None]:
        """Return the memory of a node, with its pods if asked, within ``deadline`` seconds.

        With ``keep`` the connection stays for the next poll, if fewer than MAX_KEPT are. With ``more`` it
        stays for another request that follows at once, which saves a handshake; where none does, call
        ``release``. Raises PollError.
        """
        parse = partial(parse_summary, node=target.node, pods=pods)
        return await self._read(target, SUMMARY_PATH, parse, deadline=deadline, keep=keep, more=more)

    async def eviction(self, target: Target, *, deadline: float) -> KubeletEviction:
        """Return whether the kubelet itself evicts pods, within ``deadline`` seconds. Raises PollError.

        Its connection stays where it was kept for the next poll.
        """
        keep = target.node in self._kept
        return await self._read(target, CONFIGZ_PATH, parse_configz, deadline=deadline, keep=keep)

    async def release(self, node: str) -> None:
        """Close the connection that waits for a further request of a poll, if one does."""
        if node in self._brief:
            self._drop(node)

    async def forget(self, node: str) -> None:
        """Close the connection of a node that is polled no more."""
        self._named.discard(node)
        self._acceptance.forget(node)
        self._drop(node)

    async def _read(
        self,
        target: Target,
        path: str,
        parse: Callable[[bytes | bytearray], ReadT],
        *,
        deadline: float,
        keep: bool,
        more: bool = False,
    ) -> ReadT:
        """Return what ``parse`` makes of the answer. After any failure, no connection to the node is kept."""
        context = self.context()
        wire = self._take(target, context, keep=keep)
        may_stay = False
        try:
            async with within(deadline):
                authorization = await header_of(self.token)
                if wire is None:
                    wire = await self._connect(target, context)
                body, may_stay = await self._ask(wire, path, target, authorization=authorization)
            self._acceptance.accepts(target.node)
            found = parse(body)
            if may_stay and (keep or more):
                self._keep(_Kept(wire, target, context), keep=keep, more=more)
                wire = None
            return found
        finally:
            if wire is not None:
                wire.close()

    async def _ask(
        self, wire: Wire, path: str, target: Target, *, authorization: str
    ) -> tuple[bytearray, bool]:
        request = request_of(target.host, target.port, path, authorization=authorization)
        try:
            return await wire.ask(request, limit=MAX_BODY_BYTES)
        except PollError as error:
            if error.outcome is Outcome.UNAUTHORIZED:
                self._acceptance.refuses(target.node)
                if self._acceptance.is_refused:
                    self.on_refused(authorization.removeprefix(BEARER))
            raise

    async def _connect(self, target: Target, context: ssl.SSLContext) -> Wire:
        """Connect to a server whose certificate is for the address, or for the name of the node.

        OpenSSL checks one of them for each handshake. Which one it was is remembered, so that a
        kubelet costs a second handshake once only.
        """
        by_name = target.node in self._named
        first, second = (target.node, target.host) if by_name else (target.host, target.node)
        try:
            return await connected(target.host, target.port, context=context, name=first)
        except OtherNameError:
            wire = await connected(target.host, target.port, context=context, name=second)
        self._named ^= {target.node}
        return wire

    def _take(self, target: Target, context: ssl.SSLContext, *, keep: bool) -> Wire | None:
        """Return the wire that is kept, if it may serve this poll."""
        is_brief = target.node in self._brief
        kept = (self._brief if is_brief else self._kept).pop(target.node, None)
        if kept is None:
            return None
        if (keep or is_brief) and kept.target == target and kept.context is context:
            kept.wire.wake()
            return kept.wire
        kept.wire.close()
        return None

    def _keep(self, kept: _Kept, *, keep: bool, more: bool) -> None:
        """Keep a wire for the next poll, if there is room, or for a further request of this one."""
        node = kept.target.node
        self._drop(node)
        end = partial(self._drop, node)
        if keep and len(self._kept) < MAX_KEPT:
            self._kept[node] = kept
            kept.wire.rest(seconds=KEEP_ALIVE_SECONDS, on_end=end)
        elif more:
            self._brief[node] = kept
            kept.wire.rest(seconds=MORE_SECONDS, on_end=end)
        else:
            kept.wire.close()

    def _drop(self, node: str) -> None:
        for each in (self._kept.pop(node, None), self._brief.pop(node, None)):
            if each is not None:
                each.wire.close()
