"""A port of this host that leads to a port of a Pod, by ``kubectl port-forward``.

The API server and the kubelet permit and encrypt it, and it ends inside the Pod, so no NetworkPolicy has to
admit anyone. By the other way through the API server, ``pods/proxy``, no token gets there, since the API
server removes the header Authorization. That right is also for every path and method of every port of a Pod.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from winpool.api.text import printable
from winpool.cli.reasons import NotAskedError

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator, Sequence

BEGIN_SECONDS: Final = 20.0
"""For kubectl to start, read the Pod and listen. A kubeconfig with an exec plugin may need ten of them."""

END_SECONDS: Final = 2.0
"""How long kubectl may take to end after SIGTERM; then it is killed."""

_LISTENS: Final = re.compile(rb"Forwarding from 127\.0\.0\.1:(\d{1,5}) ->")
_LINE_BYTES: Final = 64 * 1024
"""Of a line of kubectl, which quotes what servers answer."""
_QUOTED: Final = 300
"""Characters of kubectl's own words that a message shows."""


def command(
    pod: str, *, namespace: str, port: str, kubeconfig: str | None, context: str | None
) -> tuple[str, ...]:
    """Return the command that forwards a free port of this host to ``port``, by name, of ``pod``."""
    flags = {"--kubeconfig": kubeconfig, "--context": context}
    return (
        "kubectl",
        *(part for flag, value in flags.items() if value for part in (flag, value)),
        *("--namespace", namespace, "port-forward", "--address", "127.0.0.1", f"pod/{pod}", f":{port}"),
    )


@asynccontextmanager
async def forwarded(argv: Sequence[str]) -> AsyncIterator[int]:
    """Run ``argv``; give the port of 127.0.0.1 that it listens on. It ends with the ``with``.

    Raises NotAskedError with kubectl's own words where it does not listen.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_LINE_BYTES,
        )
    except OSError as error:
        raise NotAskedError(
            f"{argv[0]} cannot be started ({error.strerror}): install it, or name the address of the "
            "operator with --url"
        ) from None
    assert process.stdout is not None
    assert process.stderr is not None
    # Both pipes are read to their end: kubectl writes a line for each connection, and must not wait for us.
    words = bytearray()
    reading = asyncio.create_task(_read(process.stderr, into=words))
    draining: asyncio.Task[None] | None = None
    try:
        try:
            async with asyncio.timeout(BEGIN_SECONDS):
                port = await _port(process.stdout)
        except TimeoutError:
            port = None
            words += f"it did not listen within {BEGIN_SECONDS:.0f} s".encode()
        if port is None:
            await _end(process)
            await reading
            raise NotAskedError(f"{' '.join(argv)}: {_said(words)}")
        draining = asyncio.create_task(_read(process.stdout, into=bytearray()))
        yield port
    finally:
        await _end(process)
        tasks = [reading] if draining is None else [reading, draining]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _port(output: asyncio.StreamReader) -> int | None:
    """Return the port; None where kubectl ends before it says one."""
    with suppress(ValueError):  # a line without end
        while line := await output.readline():
            if found := _LISTENS.search(line):
                return int(found[1])
    return None


async def _read(stream: asyncio.StreamReader, *, into: bytearray) -> None:
    """Read to the end; keep the beginning."""
    while chunk := await stream.read(_LINE_BYTES):
        if len(into) < _LINE_BYTES:
            into += chunk


async def _end(process: Process) -> None:
    with suppress(ProcessLookupError):
        if process.returncode is None:
            process.terminate()
    try:
        async with asyncio.timeout(END_SECONDS):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _said(words: bytes | bytearray) -> str:
    text = " ".join(words.decode(errors="replace").split()).removeprefix("error: ")
    return printable(text[:_QUOTED]) or "it ended without a word"
