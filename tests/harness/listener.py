"""A TLS server on loopback that answers what a test says: for HTTP, TLS and proxies, never for Kubernetes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml

from testbed.pki import Authority, Pair

EMPTY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
SHUTDOWN_SECONDS: Final = 5.0
"""For what the client has not read yet, and the last words of TLS, on a machine that has much else to do."""


def an_authority(folder: Path, name: str) -> Authority:
    """Make a certificate authority whose files begin with ``name``."""
    return Authority.create(a_pair(folder, name), common_name=name, now=datetime.now(UTC))


def a_pair(folder: Path, name: str) -> Pair:
    """Return where a certificate and its key are to lie."""
    return Pair(folder / f"{name}.crt", folder / f"{name}.key")


def server_tls(authority: Authority, folder: Path) -> ssl.SSLContext:
    """Return the context of a server on loopback whose certificate ``authority`` has signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serve_as(context, authority, folder)
    return context


def serve_as(context: ssl.SSLContext, authority: Authority, folder: Path) -> None:
    """Show a certificate of ``authority`` to those who connect from now on."""
    name = f"serving-{authority.paths.certificate.stem}"
    pair = authority.issue_serving(a_pair(folder, name), common_name=name, now=datetime.now(UTC))
    context.load_cert_chain(pair.certificate, pair.key)


class Listener:
    """What is listening, and what it has heard."""

    def __init__(self, answer: Callable[[str], bytes]) -> None:
        self.answer = answer
        self.port = 0
        self.heads: list[str] = []
        """Each request up to its empty line, oldest first."""
        self.users: list[str] = []
        """The name in the client certificate of each connection, "" for none."""
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"https://127.0.0.1:{self.port}"

    async def drop(self) -> None:
        """Close every connection."""
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection. A request's body, if any, is taken for the next request."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        certificate: Any = writer.get_extra_info("peercert") or {"subject": [[("commonName", "")]]}
        self.users.append(certificate["subject"][-1][0][1])
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head.decode("latin-1"))
                answer = self.answer(self.heads[-1])
                writer.write(answer)
                await writer.drain()
                if answer is not EMPTY:
                    return
        except (asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            return
        finally:
            writer.close()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()


@asynccontextmanager
async def listening(
    tls: ssl.SSLContext | None, *, answer: Callable[[str], bytes] = lambda _: EMPTY
) -> AsyncIterator[Listener]:
    """Listen on a free port. A connection ends after any answer but EMPTY."""
    listener = Listener(answer)
    # A client that does not read does not say goodbye either, and asyncio would wait for that for 30 s.
    backoff = None if tls is None else SHUTDOWN_SECONDS
    server = await asyncio.start_server(listener.serve, "127.0.0.1", 0, ssl=tls, ssl_shutdown_timeout=backoff)
    listener.port = server.sockets[0].getsockname()[1]
    try:
        yield listener
    finally:
        server.close()
        await listener.drop()
        await server.wait_closed()


def a_kubeconfig_for(folder: Path, server: str, *, ca: Path, user: dict[str, Any], **cluster: Any) -> str:
    """Write a kubeconfig and return its path."""
    entry = {"server": server, "certificate-authority": str(ca), **cluster}
    config = {
        "clusters": [{"name": "c", "cluster": entry}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return str(path)
