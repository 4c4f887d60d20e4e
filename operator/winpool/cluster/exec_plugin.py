"""Tokens from a kubeconfig's exec plugin (client.authentication.k8s.io), run again by expiry.

The loader of the client library runs a plugin once and has no time limit. It only logs when the
plugin fails, so that requests have no credentials. This module has the same protocol, with errors.

A run is a task of its own that all requests share: a request waits for it within its own limit, and
gives up without ending it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from winpool.cluster import plugin_run
from winpool.cluster.errors import CredentialsError
from winpool.cluster.tokens import bearer
from winpool.cluster.wire import BROKEN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

RENEW_BEFORE: Final = timedelta(seconds=60)
"""A token is renewed this long before its expiry, so that no request has a token that expires on the way."""

PAUSE_SECONDS: Final = 10.0
"""At most one run in this time, even when the server keeps answering 401 or the plugin keeps failing."""

log = logging.getLogger(__name__)

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
    env: Mapping[str, str] = field(default_factory=dict, repr=False)

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
    """The Authorization header from an exec plugin, kept until it is about to expire."""

    __slots__ = (
        "_command",
        "_context",
        "_error",
        "_expires",
        "_header",
        "_monotonic",
        "_now",
        "_run",
        "_run_at",
    )

    def __init__(
        self, command: PluginCommand, *, monotonic: Callable[[], float], now: Callable[[], datetime]
    ) -> None:
        self._command = command
        self._monotonic = monotonic
        self._now = now
        # The run must not belong to the first that asks: Kopf cancels all tasks that were started for it.
        self._context = copy_context()
        self._header: str | None = None
        self._expires: datetime | None = None
        self._error: CredentialsError | None = None
        self._run: asyncio.Task[None] | None = None
        self._run_at = float("-inf")

    async def header(self, *, within: float | None = None) -> str:
        """Return the token that is known, or run the plugin (one run for all that wait).

        A token that will expire soon is returned while the run for the next one continues. The end
        of the wait, by ``within`` or by being cancelled, does not end the run. Raises
        CredentialsError where the plugin fails, with its own words.
        """
        if self._header is None or self._expires_within(RENEW_BEFORE):
            run = self._running()
            if run is not None and (self._header is None or self._expires_within(timedelta(0))):
                _, going_on = await asyncio.wait({run}, timeout=within)
                if going_on:
                    raise CredentialsError(
                        f"exec plugin {self._command.argv[0]} has not answered within {within:.0f} s"
                        " and is waited for"
                    )
        if self._header is None:
            raise self._error or CredentialsError(f"exec plugin {self._command.argv[0]} has not run")
        return self._header

    def reject(self, header: str | None) -> None:
        """Run the plugin at the next request, unless it ran just now."""
        if header == self._header:
            self._expires = datetime.min.replace(tzinfo=UTC)

    async def close(self) -> None:
        """End the current run, with all processes that it started."""
        if self._run is not None:
            self._run.cancel()
            await asyncio.wait({self._run})

    def _expires_within(self, time: timedelta) -> bool:
        return self._expires is not None and self._expires <= self._now() + time

    def _running(self) -> asyncio.Task[None] | None:
        """Return the current run, or begin one; None where the last ended just now."""
        if self._run is None and self._monotonic() - self._run_at >= PAUSE_SECONDS:
            self._run_at = self._monotonic()
            self._run = asyncio.create_task(self._renew(), name="exec plugin", context=self._context)
            self._run.add_done_callback(self._ended)
        return self._run

    def _ended(self, run: asyncio.Task[None]) -> None:
        self._run = None
        self._run_at = self._monotonic()
        if not run.cancelled() and (error := run.exception()) is not None:
            # An unexpected error: those that wait get an error, and a later request tries again.
            log.error(
                "exec plugin %s: an unexpected error; a later request runs the plugin again",
                self._command.argv[0],
                exc_info=error,
            )
            self._fail(CredentialsError(f"exec plugin {self._command.argv[0]}: {type(error).__name__}"))

    async def _renew(self) -> None:
        try:
            status = await run_plugin(self._command)
            self._header = bearer(status.token or "", source=f"token of exec plugin {self._command.argv[0]}")
        except CredentialsError as error:
            self._fail(error)
        else:
            self._expires = status.expiration_timestamp

    def _fail(self, error: CredentialsError) -> None:
        self._error = error
        if self._expires_within(timedelta(0)):
            self._header = None  # it has expired, or the server has refused it


async def run_plugin(command: PluginCommand) -> _Status:
    """Run the plugin once. Raises CredentialsError; never quotes what it wrote to stdout."""
    info = {"apiVersion": command.api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
    env = {**os.environ, **command.env, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
    outcome = await plugin_run.run(command.argv, env=env)
    if outcome.exit_code != 0:
        words = " ".join(outcome.stderr.decode(errors="replace").split())[-_STDERR_LIMIT:]
        raise CredentialsError(
            f"exec plugin {command.argv[0]} failed with exit code {outcome.exit_code}: {words}"
        )
    return _parse(outcome.stdout, command=command)


def _parse(stdout: bytes, *, command: PluginCommand) -> _Status:
    name = command.argv[0]
    try:
        credential = msgspec.json.decode(stdout, type=_ExecCredential)
    except BROKEN:
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
