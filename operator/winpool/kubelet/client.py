"""Polling kubelets, straight at the address of their node, with a token that can only read statistics.

Not through the API server: that needs the right nodes/proxy, which is a right to run commands in pods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self, TypeVar

from yarl import URL

from winpool.kubelet import configz, summary
from winpool.kubelet.acceptance import Acceptance
from winpool.kubelet.exchange import BEARER, Line, OtherNameError, header_of, within
from winpool.kubelet.limits import MAX_KEPT
from winpool.kubelet.outcome import Outcome, PollError

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

ReadT = TypeVar("ReadT")


@dataclass(frozen=True, slots=True)
class _Kept:
    """A line that is kept, and for what it was made."""

    line: Line
    target: Target
    context: ssl.SSLContext


class KubeletClient:
    """Reads statistics from kubelets. Make it inside a running event loop, and use it as a context manager.

    Everything it raises is a PollError. It never repeats a request: the schedule does, later.
    """

    def __init__(
        self,
        *,
        token: Token,
        context: Callable[[], ssl.SSLContext],
        on_refused: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Make a client. ``context`` returns the TLS context for a new connection, see ``trust``.

        ``on_refused`` gets the token that a kubelet has refused, while most others refuse theirs too. It may
        be called with every poll.
        """
        self._token = token
        self._context = context
        self._on_refused = on_refused
        self._acceptance = Acceptance()
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

    async def summary(
        self, target: Target, *, deadline: float, pods: bool = False, keep: bool = False
    ) -> KubeletSample:
        """Return the memory of a node, with its pods if asked, within ``deadline`` seconds.

        With ``keep`` the connection stays for the next poll, if fewer than MAX_KEPT are. Raises PollError.
        """

        def parse(body: bytes | bytearray) -> KubeletSample:
            return summary.parse_summary(body, node=target.node, pods=pods)

        return await self._read(target, summary.PATH, parse, deadline=deadline, keep=keep)

    async def eviction(self, target: Target, *, deadline: float) -> KubeletEviction:
        """Return whether the kubelet itself evicts pods, within ``deadline`` seconds. Raises PollError."""
        keep = target.node in self._kept
        return await self._read(target, configz.PATH, configz.parse_configz, deadline=deadline, keep=keep)

    async def forget(self, node: str) -> None:
        """Close the connection of a node that is polled no more."""
        self._named.discard(node)
        self._acceptance.forget(node)
        await self._drop(node)

    async def _read(
        self,
        target: Target,
        path: str,
        parse: Callable[[bytes | bytearray], ReadT],
        *,
        deadline: float,
        keep: bool,
    ) -> ReadT:
        """Return what ``parse`` makes of the answer. After any failure, no connection to the node is kept."""
        line: Line | None = None
        stays = False
        try:
            async with within(deadline):
                authorization = await header_of(self._token)
                context = self._context()
                line = await self._line(target, context, keep=keep)
                body = await self._get(line, path, target, context, authorization=authorization)
            self._acceptance.accepts(target.node)
            found = parse(body)
            stays = target.node in self._kept and self._kept[target.node].line is line
            return found
        finally:
            if not stays:
                await self._drop(target.node)
                if line is not None:
                    await line.close()

    async def _get(
        self, line: Line, path: str, target: Target, context: ssl.SSLContext, *, authorization: str
    ) -> bytes | bytearray:
        """Ask a server whose certificate is for the address, or for the name of the node.

        OpenSSL checks one of them for each handshake. Which one it was is remembered, so that a
        kubelet costs a second handshake once only.
        """
        url = URL.build(scheme="https", host=target.host, port=target.port, path=path)

        async def ask(*, by_name: bool) -> bytes | bytearray:
            name = target.node if by_name else None
            try:
                return await line.get(
                    url, authorization=authorization, context=context, name=name, limit=MAX_BODY_BYTES
                )
            except PollError as error:
                if error.outcome is Outcome.UNAUTHORIZED:
                    self._refused(target.node, authorization)
                raise

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

    def _refused(self, node: str, authorization: str) -> None:
        self._acceptance.refuses(node)
        if self._acceptance.is_refused:
            self._on_refused(authorization.removeprefix(BEARER))

    async def _line(self, target: Target, context: ssl.SSLContext, *, keep: bool) -> Line:
        """Return the line that is kept, if it may serve this poll, or a new one."""
        kept = self._kept.get(target.node)
        if kept is not None:
            is_same = kept.target == target and kept.context is context
            if keep and is_same and kept.line.is_quiet:
                return kept.line
            await self._drop(target.node)
        line = Line(limit=1, keep_alive=KEEP_ALIVE_SECONDS)
        if keep and len(self._kept) < MAX_KEPT:
            self._kept[target.node] = _Kept(line, target, context)
        return line

    async def _drop(self, node: str) -> None:
        kept = self._kept.pop(node, None)
        if kept is not None:
            await kept.line.close()
