"""Tokens from a kubeconfig's exec plugin (client.authentication.k8s.io), run again by expiry.

The loader of the client library runs a plugin once, only logs when it fails, which leaves
requests without credentials, and has no time limit. This is the same protocol with errors.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from winpool.cluster.errors import CredentialsError
from winpool.cluster.tokens import bearer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

RUN_SECONDS: Final = 60.0
"""A plugin may talk to a cloud, which answers in seconds; one that hangs must not hang us."""

RENEW_BEFORE: Final = timedelta(seconds=60)
"""Renewed this long before its expiry, so that no request carries a token that dies on the way."""

PAUSE_SECONDS: Final = 10.0
"""At most one run in this time, also when the server keeps answering 401 or the plugin keeps failing."""

_API_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_STDERR_LIMIT: Final = 300


class _Status(msgspec.Struct, rename="camel"):
    token: str | None = None
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    status: _Status | None = None


@dataclass(frozen=True, slots=True)
class PluginCommand:
    """What to run: the ``exec`` block of a kubeconfig user, checked."""

    api_version: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, block: Mapping[str, Any], *, base: Path) -> PluginCommand:
        """Read the block; a command with a slash is relative to the kubeconfig's folder ``base``.

        Raises CredentialsError for what cannot work in an operator.
        """
        command, api_version = block.get("command"), block.get("apiVersion")
        if not isinstance(command, str) or not command:
            raise CredentialsError("exec plugin: the kubeconfig names no command")
        if api_version not in _API_VERSIONS:
            raise CredentialsError(
                f"exec plugin {command}: apiVersion must be one of {', '.join(_API_VERSIONS)}"
            )
        if block.get("interactiveMode") == "Always":
            raise CredentialsError(f"exec plugin {command}: it wants a terminal, an operator has none")
        if block.get("provideClusterInfo"):
            raise CredentialsError(f"exec plugin {command}: provideClusterInfo is not supported")
        program = str(base / command) if "/" in command else command
        return cls(
            api_version=api_version,
            argv=(program, *(str(arg) for arg in block.get("args") or ())),
            env={str(item["name"]): str(item["value"]) for item in block.get("env") or ()},
        )


class ExecPlugin:
    """The Authorization header that an exec plugin answers, kept until it is about to expire."""

    __slots__ = ("_command", "_error", "_expires", "_header", "_lock", "_monotonic", "_now", "_ran_at")

    def __init__(
        self, command: PluginCommand, *, monotonic: Callable[[], float], now: Callable[[], datetime]
    ) -> None:
        self._command = command
        self._monotonic = monotonic
        self._now = now
        self._lock = asyncio.Lock()
        self._header: str | None = None
        self._expires: datetime | None = None
        self._error: CredentialsError | None = None
        self._ran_at = float("-inf")

    async def header(self) -> str:
        """Give the token held, or run the plugin (one run for all who wait).

        Raises CredentialsError where it fails, with the plugin's own words.
        """
        if self._header is None or self._is_expiring():
            async with self._lock:
                await self._renew()
        if self._header is None:
            raise self._error or CredentialsError(f"exec plugin {self._command.argv[0]} has not run")
        return self._header

    def reject(self, header: str | None) -> None:
        """Run the plugin at the next request, unless it ran just now."""
        if header == self._header:
            self._expires = datetime.min.replace(tzinfo=UTC)

    def _is_expiring(self) -> bool:
        return self._expires is not None and self._expires - self._now() < RENEW_BEFORE

    async def _renew(self) -> None:
        if self._monotonic() - self._ran_at < PAUSE_SECONDS:
            return  # somebody else has just run it, or it fails all the time
        self._ran_at = self._monotonic()
        try:
            status = await run_plugin(self._command)
            self._header = bearer(status.token or "", source=f"token of exec plugin {self._command.argv[0]}")
        except CredentialsError as error:
            self._error = error
            if self._expires is not None and self._expires <= self._now():
                self._header = None  # it has expired, or the server has refused it: of no use
            return
        self._expires = status.expiration_timestamp


async def run_plugin(command: PluginCommand) -> _Status:
    """Run the plugin once. Raises CredentialsError; never quotes what it wrote to stdout."""
    name = command.argv[0]
    info = {"apiVersion": command.api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
    env = {**os.environ, **command.env, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
    try:
        process = await asyncio.create_subprocess_exec(
            *command.argv,
            env=env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise CredentialsError(f"exec plugin {name} cannot be started: {error.strerror}") from None
    try:
        async with asyncio.timeout(RUN_SECONDS):
            stdout, stderr = await process.communicate()
    except TimeoutError:
        raise CredentialsError(f"exec plugin {name} gave no answer within {RUN_SECONDS:.0f} s") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode != 0:
        words = " ".join(stderr.decode(errors="replace").split())[-_STDERR_LIMIT:]
        raise CredentialsError(f"exec plugin {name} failed with exit code {process.returncode}: {words}")
    return _parse(stdout, command=command)


def _parse(stdout: bytes, *, command: PluginCommand) -> _Status:
    name = command.argv[0]
    try:
        credential = msgspec.json.decode(stdout, type=_ExecCredential)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise CredentialsError(f"exec plugin {name} did not answer with an ExecCredential") from None
    if credential.api_version != command.api_version:
        raise CredentialsError(
            f"exec plugin {name} answered in {credential.api_version},"
            f" the kubeconfig asks for {command.api_version}"
        )
    status = credential.status
    if status is None or not status.token:
        raise CredentialsError(f"exec plugin {name} gave no token (client certificates are not supported)")
    if status.expiration_timestamp is not None and status.expiration_timestamp.tzinfo is None:
        status.expiration_timestamp = status.expiration_timestamp.replace(tzinfo=UTC)
    return status
