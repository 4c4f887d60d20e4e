"""Runs an exec plugin once: limits its time and its output, and leaves none of its processes."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.cluster.errors import CredentialsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RUN_SECONDS: Final = 60.0
"""A plugin may call a cloud, which answers in seconds; one that hangs must not block the operator."""

LAST_WORDS_SECONDS: Final = 1.0
"""How long the pipes are still read after the plugin has ended. Its output is there at once; a child process
that it left may keep them open for ever."""

END_SECONDS: Final = 1.0
"""How long a killed plugin may take to end. The kernel needs milliseconds, unless the process hangs in a
system call; after a SIGTERM the operator has 2 s in all."""

OUTPUT_LIMIT: Final = 1024 * 1024
"""Bytes that are read of each of stdout and stderr. An ExecCredential has a few kB, a token with many
groups some tens of them."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: the exit code (negative: the signal), and what was written."""

    exit_code: int
    stdout: bytes
    stderr: bytes


async def run(argv: Sequence[str], *, env: Mapping[str, str]) -> Outcome:
    """Run ``argv`` in a process group of its own, whose processes are all killed when this ends in any way.

    Raises CredentialsError where it cannot be started, takes longer than RUN_SECONDS or writes more
    than OUTPUT_LIMIT.
    """
    name = argv[0]
    with _Pipe() as stdout, _Pipe() as stderr:
        try:
            # The pipes are ours and not those of asyncio, whose wait() waits for their end too.
            process = await asyncio.create_subprocess_exec(
                *argv,
                env=env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=stdout.write_end,
                stderr=stderr.write_end,
                start_new_session=True,
            )
        except OSError as error:
            raise CredentialsError(f"exec plugin {name} cannot be started: {error.strerror}") from None
        except ValueError as error:  # a NUL or half a character in an argument
            raise CredentialsError(f"exec plugin {name} cannot be started: {error}") from None
        try:
            async with asyncio.timeout(RUN_SECONDS):
                await asyncio.gather(stdout.open(), stderr.open())
                exit_code = await process.wait()
        except TimeoutError:
            raise CredentialsError(f"exec plugin {name} gave no answer within {RUN_SECONDS:.0f} s") from None
        finally:
            await _end(process)
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                await asyncio.gather(stdout.ended.wait(), stderr.ended.wait())
        if stdout.overflown or stderr.overflown:
            raise CredentialsError(f"exec plugin {name} wrote more than {OUTPUT_LIMIT} bytes")
        return Outcome(exit_code, bytes(stdout.content), bytes(stderr.content))


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill the whole group, also after a plugin that succeeded: processes that it left would accumulate."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.returncode is None:
        with suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await process.wait()


class _Pipe(asyncio.Protocol):
    """A pipe that is read up to the limit, and then closed."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.overflown = False
        self.ended = asyncio.Event()
        self._transport: asyncio.ReadTransport | None = None
        read_end, self.write_end = os.pipe()
        self._file = os.fdopen(read_end, "rb", buffering=0)

    def __enter__(self) -> _Pipe:
        return self

    def __exit__(self, *_: object) -> None:
        self._close_write_end()
        if self._transport is not None:
            self._transport.close()
        else:
            self._file.close()

    async def open(self) -> None:
        """Begin to read. The process has been started, and holds the other end by itself."""
        self._close_write_end()
        await asyncio.get_running_loop().connect_read_pipe(lambda: self, self._file)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.ReadTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.content += data
        if len(self.content) > OUTPUT_LIMIT:
            self.overflown = True
            assert self._transport is not None
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio names it
        self.ended.set()

    def _close_write_end(self) -> None:
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1
