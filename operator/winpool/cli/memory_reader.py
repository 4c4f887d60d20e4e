"""Reads /memory of the operator that leads: through a forwarded port of its Pod, or at a URL."""

from __future__ import annotations

import asyncio
import ssl
import time
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import msgspec

from winpool.api.keys import NAMESPACE
from winpool.cli.forward import command, forwarded
from winpool.cli.operator_pod import leading_pod
from winpool.cli.reader_token import READER, ReaderToken
from winpool.cli.reasons import NotAskedError
from winpool.kube.client import Transport
from winpool.kube.credentials import Connection, FixedHeader, Tls, TlsFiles, TokenFile, load_connection
from winpool.kube.errors import ApiError, CredentialsError, Forbidden, NotFound, TooLarge, Unauthorized
from winpool.kube.request import Request
from winpool.kube.wire import BROKEN
from winpool.model.memory_report import VERSION, MemoryReport

if TYPE_CHECKING:
    from winpool.kube.credentials import Authorization

PORT_NAME: Final = "metrics"
"""Of the port in the Pod, as ``deploy/operator`` names it."""

SERVER_NAME: Final = f"winpool-metrics.{NAMESPACE}.svc"
"""The name in the operator's certificate (``docs/operator.md``). A forwarded port has another."""

PROBE_SECONDS: Final = 10.0
"""For one handshake through the forwarded port."""

REPLY_BYTES: Final = 16 * 1024 * 1024
"""Of the report of 10,000 nodes, with long names, uncompressed."""

_REQUEST: Final = Request(
    verb="get", resource="memory", path="/memory", gzipped=True, reply_limit=REPLY_BYTES
)
_OF_OURS: Final = "get memory: "
_LOCAL: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How to reach the operator. Without ``url``, by a forwarded port of the Pod that leads.

    ``ca_file`` has the CAs of its certificate, ``token_file`` the token to send.
    """

    kubeconfig: str | None = None
    context: str | None = None
    url: str | None = None
    ca_file: str | None = None
    token_file: str | None = None


class _Versioned(msgspec.Struct):
    v: int


class MemoryReader:
    """Reads the report, again and again. Where a read fails, the next one begins with who leads.

    Use it as an async context manager.
    """

    def __init__(self, way: Way) -> None:
        self._way = way
        self._stack = AsyncExitStack()
        self._operator: Transport | None = None

    async def __aenter__(self) -> Self:
        """Do nothing: connections are made when they are needed."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the connections, and kubectl."""
        await self._leave()

    async def read(self) -> MemoryReport:
        """Return the report as it is now. Raises NotAskedError."""
        try:
            if self._operator is None:
                self._operator = await self._reached()
            return report_in(await self._operator.request(_REQUEST))
        except CredentialsError as error:
            await self._leave()
            raise NotAskedError(error.message) from error
        except ApiError as error:
            await self._leave()
            raise NotAskedError(why(error)) from error
        except NotAskedError:
            await self._leave()
            raise

    async def _leave(self) -> None:
        self._operator = None
        await self._stack.aclose()

    async def _reached(self) -> Transport:
        """Connect, and keep what has to be closed."""
        way = self._way
        given = None if way.token_file is None else TokenFile(Path(way.token_file), monotonic=time.monotonic)
        if way.url is not None:
            return await self._transport(way.url, authorization=given or FixedHeader(None))
        connection = await load_connection(kubeconfig=way.kubeconfig, context=way.context)
        server = await self._stack.enter_async_context(Transport(connection))
        pod = await leading_pod(server)
        argv = command(
            pod, namespace=NAMESPACE, port=PORT_NAME, kubeconfig=way.kubeconfig, context=way.context
        )
        port = await self._stack.enter_async_context(forwarded(argv))
        scheme = "https" if way.ca_file is not None or await speaks_tls(port) else "http"
        return await self._transport(
            f"{scheme}://{_LOCAL}:{port}", authorization=given or ReaderToken(server), name=SERVER_NAME
        )

    async def _transport(
        self, server: str, *, authorization: Authorization, name: str | None = None
    ) -> Transport:
        # A forwarded port ends in the Pod that the API server has named: without --ca-file nothing more is
        # to be verified. Whoever names a URL gets the checks of HTTPS.
        verified = self._way.ca_file is not None or name is None
        try:
            tls = Tls(TlsFiles(ca=self._way.ca_file, verified=verified), monotonic=time.monotonic)
        except CredentialsError:
            raise NotAskedError(f"--ca-file {self._way.ca_file} cannot be read as PEM") from None
        connection = Connection(
            server=server, tls=tls, authorization=authorization, server_hostname=name if verified else None
        )
        return await self._stack.enter_async_context(Transport(connection))


async def speaks_tls(port: int) -> bool:
    """Whether the server behind a port of this host answers a TLS handshake. Nothing else is sent to it.

    Raises NotAskedError where it does not answer at all.
    """
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            _, writer = await asyncio.open_connection(_LOCAL, port, ssl=context, server_hostname=SERVER_NAME)
    except ssl.SSLError:
        return False
    except (OSError, TimeoutError) as error:
        said = getattr(error, "strerror", None) or f"no answer within {PROBE_SECONDS:.0f} s"
        raise NotAskedError(f"the operator cannot be reached through kubectl port-forward: {said}") from None
    writer.close()
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(PROBE_SECONDS):
            await writer.wait_closed()
    return True


def report_in(body: bytes | bytearray) -> MemoryReport:
    """Read an answer. Raises NotAskedError for one of another version, and for what is no report."""
    try:
        version = msgspec.json.decode(body, type=_Versioned).v
        if version == VERSION:
            return msgspec.json.decode(body, type=MemoryReport)
    except BROKEN as error:
        raise NotAskedError(f"the answer is not a report of an operator's /memory: {error}") from error
    older, newer = ("plugin", "operator") if version > VERSION else ("operator", "plugin")
    raise NotAskedError(
        f"the operator answers in version {version} of the report, and this plugin reads version {VERSION}: "
        f"the {older} is older than the {newer}, so update it"
    )


def why(error: ApiError) -> str:
    """Return why the operator did not give its report."""
    said = error.message.removeprefix(_OF_OURS)
    if isinstance(error, TooLarge):
        return f"the server gives {said}, so it is not an operator"
    if error.status is None:
        # The transport names the server that it was made for.
        return f"the operator cannot be reached: {said.replace('the API server', 'the operator')}"
    said = said.removeprefix(f"{error.status} ")
    match error:
        case NotFound():
            return (
                "the server has no /memory: the operator is older than this plugin, or --url names another "
                "server"
            )
        case Unauthorized():
            return (
                f"the operator requires a token, or does not accept this one: {said}; give one with "
                f"--token-file, from kubectl -n {NAMESPACE} create token {READER}"
            )
        case Forbidden():
            return f"the operator refuses: {said}"
        case _:
            return f"the operator answers {error.status}: {said}"
