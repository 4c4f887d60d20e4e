"""Who we are and where the API server is: a kubeconfig, or the ServiceAccount of our pod.

The official client reads the files (its configuration module only: importing one of its
typed APIs costs 580 ms and 26 MB). This module does what the client does not: it reads token
files and certificates again, runs exec plugins again, obeys impersonation and proxies, and
raises an error for missing credentials instead of sending requests as system:anonymous.

The TLS context of a connection, made again when its files change, as CAs and certificates are rotated.

What is loaded into a context stays in it. So a change makes a new context. Connections that were made
with the old one are not used for new requests, since aiohttp distinguishes them by their context.

Where the Authorization header comes from, and how it is renewed.

The client library reads a kubeconfig's ``tokenFile`` only once, so a token that is renewed on
disk (as every projected ServiceAccount token is) would expire after its hour. So this module
reads the file again. No token is ever part of a message or of a repr.

Runs an exec plugin once: limits its time and its output, and leaves none of its processes.

Tokens from a kubeconfig's exec plugin (client.authentication.k8s.io), run again by expiry.

The loader of the client library runs a plugin once and has no time limit. It only logs when the
plugin fails, so that requests have no credentials. This module has the same protocol, with errors.

A run is a task of its own that all requests share: a request waits for it within its own limit, and
gives up without ending it.

Which proxy to use for the API server: that of the kubeconfig, or of the environment, as in client-go.

The rules for HTTPS_PROXY and NO_PROXY are those of golang.org/x/net/http/httpproxy. Python's own
(urllib, and aiohttp with it) know no address ranges and no ports in NO_PROXY.

A kubeconfig's user and cluster, as far as the client library does not read them, or reads them once.

Tokens that are renewed are removed from the user's entry before the loader sees it. Impersonation
(``as``) is read here: the loader ignores it, and requests would be sent with more rights than they
should have.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import logging
import os
import signal
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote

import msgspec
import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException, incluster_config, kube_config
from yarl import URL

from winpool.kube.errors import CredentialsError
from winpool.kube.wire import BROKEN

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 10.0
"""How often the files are checked, as often as a token file. An old CA or certificate is valid for hours
beside the new one in any rotation that is done with care."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of PEM files: the CAs to trust (None: those of the system), our certificate and its key."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    verified: bool = True
    """False: the server's certificate is not verified."""


class Tls:
    """Makes the context for a new connection.

    If a file is unreadable, or a certificate does not match its key (they are written one after the
    other), the context from before stays; without one it is a CredentialsError.
    """

    __slots__ = ("_complained", "_context", "_files", "_looked_at", "_monotonic", "_seen")

    def __init__(self, files: TlsFiles, *, monotonic: Callable[[], float]) -> None:
        """Read the files. Raises CredentialsError."""
        self._files = files
        self._monotonic = monotonic
        self._complained = False
        self._looked_at = monotonic()
        self._seen = _look(files)
        self._context = _load(files)

    def context(self) -> ssl.SSLContext:
        """Return the context, a new one after a change of a file. Files are checked every LOOK_SECONDS."""
        now = self._monotonic()
        if now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            self._look_again()
        return self._context

    def _look_again(self) -> None:
        # A few stats, and after a change a few milliseconds of parsing: this needs no thread.
        seen = _look(self._files)  # before they are read: a change in between is then found the next time
        if seen == self._seen:
            return
        try:
            self._context = _load(self._files)
        except CredentialsError as error:
            if not self._complained:
                log.warning("%s; winpool continues with the files as read before", error.message)
            self._complained = True
            return
        self._seen = seen
        self._complained = False
        log.info("the files for TLS to the API server have changed; new connections use the new ones")


def _look(files: TlsFiles) -> tuple[tuple[int, int, int] | None, ...]:
    """Return what changes when a file does; None for one that does not exist."""
    return tuple(_stat(path) for path in (files.ca, files.certificate, files.key) if path)


def _stat(path: str) -> tuple[int, int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _load(files: TlsFiles) -> ssl.SSLContext:
    try:
        tls = ssl.create_default_context(cafile=files.ca)
        if files.certificate:
            # With the empty password, OpenSSL does not ask for one on a terminal if the key is encrypted.
            tls.load_cert_chain(files.certificate, files.key, password="")
    except OSError as error:  # ssl.SSLError is one
        paths = ", ".join(path for path in (files.ca, files.certificate, files.key) if path)
        raise CredentialsError(
            f"a certificate or key for the API server cannot be read ({paths}): {error.strerror or error}"
        ) from None
    # Python 3.13 demands extensions of RFC 5280 that the CAs of real clusters lack; client-go does not.
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not files.verified:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    return tls


REREAD_SECONDS: Final = 10.0
"""How long a token from disk is used before the file is read again. The kubelet renews a projected
token at 80 % of its life (an hour by default), so ten seconds are soon enough. After a 401 the file
is read at once."""


class Authorization(Protocol):
    """Where the value of the Authorization header comes from."""

    async def header(self, *, within: float | None = None) -> str | None:
        """Return the value to send now; None where a TLS client certificate authenticates us.

        Raises CredentialsError where there is none ``within`` that many seconds (None: without a limit):
        a request is never sent as anonymous.
        """

    def reject(self, header: str | None) -> None:
        """Note that the server answered 401 to ``header``, so that a new value is obtained at once.

        The value is an argument so that late answers to requests in flight do not reject a newer one.
        """

    async def close(self) -> None:
        """End any work that is under way to get a value."""


class FixedHeader:
    """A header that cannot be renewed: a token or password written into the kubeconfig, or none."""

    __slots__ = ("_header",)

    def __init__(self, header: str | None) -> None:
        self._header = header

    async def header(self, *, within: float | None = None) -> str | None:  # noqa: ARG002 - it is at hand
        """Return the value; None for TLS client certificates."""
        return self._header

    def reject(self, header: str | None) -> None:
        """Do nothing: there is no other value."""

    async def close(self) -> None:
        """Do nothing."""


class TokenFile:
    """A bearer token in a file that someone else renews.

    If the file is unreadable or empty for a moment (a renewal that is not atomic), the token
    that was read before stays; without one it is a CredentialsError.
    """

    __slots__ = ("_complained", "_header", "_monotonic", "_path", "_read_at")

    def __init__(self, path: Path, *, monotonic: Callable[[], float]) -> None:
        self._path = path
        self._monotonic = monotonic
        self._header: str | None = None
        self._read_at = float("-inf")
        self._complained = False

    async def header(self, *, within: float | None = None) -> str:  # noqa: ARG002 - a file does not wait
        """Return "Bearer <token>", from the file if it was last read REREAD_SECONDS ago."""
        now = self._monotonic()
        if self._header is not None and now - self._read_at < REREAD_SECONDS:
            return self._header
        try:
            self._header = bearer(self._read(), source=f"token file {self._path}")
        except CredentialsError as error:
            if self._header is None:
                raise
            if not self._complained:
                log.warning("%s; winpool continues with the token read before", error.message)
            self._complained = True
        else:
            self._complained = False
        self._read_at = now
        return self._header

    def reject(self, header: str | None) -> None:
        """Have the next request read the file, whenever it was last read."""
        if header == self._header:
            self._read_at = float("-inf")

    async def close(self) -> None:
        """Do nothing: the file is closed after each read."""

    def _read(self) -> str:
        # A kilobyte from tmpfs or a local disk, at most every ten seconds: this needs no thread.
        try:
            return self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not text"
            raise CredentialsError(f"token file {self._path} cannot be read: {reason}") from None


def bearer(token: str, *, source: str) -> str:
    """Make the header of a token, without the newline that files end with (HTTP refuses it).

    Raises CredentialsError, naming ``source`` and not the token, for what cannot be one.
    """
    stripped = token.strip()
    if not stripped:
        raise CredentialsError(f"{source} is empty")
    if not (stripped.isascii() and stripped.isprintable()) or " " in stripped:
        raise CredentialsError(f"{source} does not hold a token: it has characters that no token has")
    return f"Bearer {stripped}"


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


async def run_command(argv: Sequence[str], *, env: Mapping[str, str]) -> Outcome:
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


RENEW_BEFORE: Final = timedelta(seconds=60)
"""A token is renewed this long before its expiry, so that no request has a token that expires on the way."""

PAUSE_SECONDS: Final = 10.0
"""At most one run in this time, even when the server keeps answering 401 or the plugin keeps failing."""


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
    outcome = await run_command(command.argv, env=env)
    if outcome.exit_code != 0:
        words = " ".join(outcome.stderr.decode(errors="replace").split())[-_STDERR_LIMIT:]
        raise CredentialsError(
            f"exec plugin {command.argv[0]} failed with exit code {outcome.exit_code}: {words}"
        )
    return _parse_credential(outcome.stdout, command=command)


def _parse_credential(stdout: bytes, *, command: PluginCommand) -> _Status:
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


_SCHEMES: Final = ("http", "https")

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy. ``authorization`` is the value of the Proxy-Authorization header, or None."""

    url: URL
    authorization: str | None = field(default=None, repr=False)


def find_proxy(server: URL, *, configured: object, environ: Mapping[str, str]) -> Proxy | None:
    """Return the proxy for ``server``: the kubeconfig's ``proxy-url`` if it has one, or the environment's.

    NO_PROXY does not apply to the former. Raises CredentialsError for a proxy that cannot be used.
    """
    if configured:
        return _parse(configured, source="proxy-url of the kubeconfig")
    name = next((name for name in ("HTTPS_PROXY", "https_proxy") if environ.get(name)), None)
    if name is None or is_excluded(server, environ.get("NO_PROXY") or environ.get("no_proxy") or ""):
        return None
    proxy = _parse(environ[name], source=name)
    log.info("winpool sends its requests to the API server through the proxy %s, from %s", proxy.url, name)
    return proxy


def is_excluded(server: URL, no_proxy: str) -> bool:
    """Whether requests to ``server`` are sent without a proxy: on loopback, or where NO_PROXY names it.

    ``no_proxy`` has names (each includes its subdomains; only these, if it begins with a dot or
    "*."), addresses and ranges, names and addresses with a port or without, or a "*".
    """
    host, port = (server.host or "").lower(), str(server.port)
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    entries = (entry.strip().lower() for entry in no_proxy.split(","))
    return any(_names(entry, host=host, address=address, port=port) for entry in entries if entry)


def _names(entry: str, *, host: str, address: _Address | None, port: str) -> bool:
    if entry == "*":
        return True
    if "/" in entry:
        return address is not None and _is_within(address, entry)
    name, entry_port = _split_port(entry)
    if not name or entry_port not in {"", port}:
        return False
    entry_address = _address(name)
    if entry_address is not None or address is not None:
        return entry_address == address
    name = name.removeprefix("*")
    return host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")


def _is_within(address: _Address, entry: str) -> bool:
    try:
        return address in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False


def _split_port(entry: str) -> tuple[str, str]:
    """Split "name:port", "[address]:port", or either without a port."""
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    if entry.count(":") == 1:
        name, _, port = entry.partition(":")
        return name, port
    return entry, ""


def _address(host: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    # As in Go, where ::ffff:10.0.0.1 and 10.0.0.1 are the same.
    return getattr(address, "ipv4_mapped", None) or address


def _parse(text: object, *, source: str) -> Proxy:
    """Read a proxy's address, with or without user and password. No error quotes it: it may contain them."""
    try:
        if not isinstance(text, str):
            raise TypeError
        url = URL(text if "://" in text else f"http://{text}")
        if url.scheme.startswith("socks"):
            raise CredentialsError(
                f"{source} asks for a SOCKS proxy, which is not supported: use an HTTP proxy"
            )
        if url.scheme not in _SCHEMES or not url.host or not url.port:
            raise ValueError
    except (TypeError, ValueError):
        raise CredentialsError(f"{source} is not the address of a proxy, such as http://HOST:PORT") from None
    authorization = None
    if url.user is not None or url.password is not None:
        pair = f"{url.user or ''}:{url.password or ''}".encode()
        authorization = f"Basic {base64.b64encode(pair).decode()}"
    return Proxy(url=url.origin(), authorization=authorization)


Headers = tuple[tuple[str, str], ...]

_USER_FIELDS: Final = frozenset(
    {
        *("token", "tokenFile", "exec", "auth-provider", "username", "password", "extensions"),
        *("client-certificate", "client-certificate-data", "client-key", "client-key-data"),
        *("as", "as-uid", "as-groups", "as-user-extra"),
    }
)
_CLUSTER_FIELDS: Final = frozenset(
    {
        *("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url"),
        *("certificate-authority", "certificate-authority-data"),
        # These have no effect here: no answer is requested compressed.
        *("disable-compression", "extensions"),
    }
)

_KEY_CHARACTERS: Final = "!#$&'*+-.^_`|~"
"""Characters of a key of ``as-user-extra`` that are not escaped, beside letters and digits: those that a
header's name may have, without the percent sign (client-go: transport/round_trippers.go, headerKeyEscape)."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks for credentials that expire."""

    monotonic: Callable[[], float]
    now: Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class User:
    """What a user's entry has beyond what the loader reads.

    ``authorization`` is None where there is nothing to renew. ``impersonation`` are the headers with which
    the API server treats us as another user.
    """

    authorization: Authorization | None = field(repr=False)
    impersonation: Headers


def take_user(merged: Any, *, context: str | None, clocks: Clocks) -> User:
    """Read the entry of the context's user, and remove from it what the loader must not see.

    Raises CredentialsError, and any Python error for a file of another shape.
    """
    chosen = merged["contexts"].get_with_name(context or merged["current-context"])["context"]
    user_name = chosen.safe_get("user")
    entry = merged["users"].get_with_name(user_name, safe=True) if user_name else None
    if entry is None:
        raise CredentialsError(f"kubeconfig has no user named {user_name!r} for its context")
    user = entry["user"]
    settings: dict[str, Any] = user.value
    base = Path(user.path).absolute().parent
    cluster = merged["clusters"].get_with_name(chosen["cluster"])["cluster"].value
    _tell_unknown(settings, known=_USER_FIELDS, of=f"user {user_name!r}")
    _tell_unknown(cluster, known=_CLUSTER_FIELDS, of=f"cluster {chosen['cluster']!r}")
    for name in ("client-certificate", "client-key"):
        if name in settings:  # the loader looks for them in the folder of the cluster's file
            settings[name] = str(base / settings[name])
    return User(
        authorization=_take_renewed(settings, user_name=user_name, base=base, clocks=clocks),
        impersonation=tuple(_impersonation(settings, user_name=user_name)),
    )


def _tell_unknown(settings: Mapping[str, Any], *, known: frozenset[str], of: str) -> None:
    for name in sorted(str(name) for name in settings if name not in known):
        log.warning("kubeconfig %s: winpool does not know the field %r and ignores it", of, name)


def _take_renewed(
    settings: dict[str, Any], *, user_name: str, base: Path, clocks: Clocks
) -> Authorization | None:
    """Remove the credentials that have to be renewed from the user's entry and return them."""
    provider = settings.get("auth-provider")
    if provider is not None:
        raise CredentialsError(
            f"kubeconfig user {user_name!r} has the auth-provider {provider.get('name')!r},"
            " a form that Kubernetes removed in 1.26: use an exec plugin"
        )
    token_file, plugin = settings.pop("tokenFile", None), settings.pop("exec", None)
    if plugin is not None:
        command = PluginCommand.parse(plugin, base=base)
        return ExecPlugin(command, monotonic=clocks.monotonic, now=clocks.now)
    if token_file is not None:
        # It has precedence over an inline token, as in client-go (clientcmd/api AuthInfo.TokenFile).
        return TokenFile(base / token_file, monotonic=clocks.monotonic)
    return None


def _impersonation(settings: Mapping[str, Any], *, user_name: str) -> Iterator[tuple[str, str]]:
    """Yield the headers for ``as`` and the related fields (Kubernetes: "User impersonation").

    Raises CredentialsError for what client-go refuses too: the related fields without ``as``.
    """
    name, uid = settings.get("as"), settings.get("as-uid")
    groups, extra = settings.get("as-groups") or [], settings.get("as-user-extra") or {}
    if not name:
        if uid or groups or extra:
            raise CredentialsError(
                f"kubeconfig user {user_name!r} has as-uid, as-groups or as-user-extra, but no `as`:"
                " name the user to act as"
            )
        return
    fits = isinstance(groups, list) and isinstance(extra, dict)
    if not fits or not all(isinstance(values, list) for values in extra.values()):
        raise CredentialsError(
            f"kubeconfig user {user_name!r}: as-groups is a list of names,"
            " as-user-extra has a list for each key"
        )
    asked = [("Impersonate-User", name), *(("Impersonate-Group", group) for group in groups)]
    if uid:
        asked.append(("Impersonate-Uid", uid))
    for key, values in extra.items():
        header = f"Impersonate-Extra-{quote(str(key), safe=_KEY_CHARACTERS)}"
        asked.extend((header, value) for value in values)
    for header, value in asked:
        if not isinstance(value, str) or not value.isprintable():
            raise CredentialsError(
                f"kubeconfig user {user_name!r}: what is to be sent as {header} is not a line of text"
            )
        yield header, value


# The client's configuration package is not annotated.
_InClusterConfigLoader: Final[Any] = incluster_config.InClusterConfigLoader
_KubeConfigLoader: Final[Any] = kube_config.KubeConfigLoader
_KubeConfigMerger: Final[Any] = kube_config.KubeConfigMerger

SERVICE_ACCOUNT_FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where every pod finds its token and the cluster's CA."""


_LOADER_FAULTS: Final = (
    ConfigException,
    OSError,
    yaml.YAMLError,
    # The loader expects the right shape of the file, and raises any of these for another one.
    AttributeError,
    KeyError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True, slots=True)
class Connection:
    """Where the API server is and how to authenticate there.

    ``server`` is a URL without a trailing slash. ``impersonation`` are headers that are sent with each
    request. ``server_hostname`` is the name to expect in its certificate where that is not the URL's.
    """

    server: str
    tls: Tls = field(repr=False)
    authorization: Authorization = field(repr=False)
    impersonation: Headers = ()
    server_hostname: str | None = None
    proxy: Proxy | None = None

    @property
    def ssl(self) -> ssl.SSLContext:
        """The context for a new connection, as the files are now."""
        return self.tls.context()


def _utc_now() -> datetime:
    return datetime.now(UTC)


async def load_connection(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    environ: Mapping[str, str] = os.environ,
    service_account_folder: Path = SERVICE_ACCOUNT_FOLDER,
    monotonic: Callable[[], float] = time.monotonic,
    now: Callable[[], datetime] = _utc_now,
) -> Connection:
    """Find the credentials in the order of controller-runtime.

    ``kubeconfig`` (one or more paths, as in $KUBECONFIG), then $KUBECONFIG, then the pod's
    ServiceAccount, then ~/.kube/config. ``context`` chooses one of a kubeconfig's contexts.

    Raises CredentialsError, with the file and the fault, where there are none or they are unusable.
    """
    clocks = Clocks(monotonic=monotonic, now=now)
    paths = kubeconfig or environ.get("KUBECONFIG")
    if paths:
        return await _from_kubeconfig(paths, context=context, environ=environ, clocks=clocks)
    if environ.get(incluster_config.SERVICE_HOST_ENV_NAME):
        return _from_pod(service_account_folder, environ=environ, clocks=clocks)
    home = Path(environ.get("HOME", "/")) / ".kube" / "config"
    if home.is_file():
        return await _from_kubeconfig(str(home), context=context, environ=environ, clocks=clocks)
    raise CredentialsError(
        "no credentials for the API server: give --kubeconfig, set KUBECONFIG,"
        " or run in a pod with a ServiceAccount"
    )


def _from_pod(folder: Path, *, environ: Mapping[str, str], clocks: Clocks) -> Connection:
    configuration = Configuration()
    loader = _InClusterConfigLoader(
        token_filename=str(folder / "token"), cert_filename=str(folder / "ca.crt"), environ=environ
    )
    try:
        loader.load_and_set(configuration)
    except (ConfigException, OSError) as error:
        raise CredentialsError(f"the ServiceAccount of this pod in {folder} is unusable: {error}") from None
    token = TokenFile(folder / "token", monotonic=clocks.monotonic)
    return _connection(configuration, authorization=token, environ=environ, clocks=clocks)


async def _from_kubeconfig(
    paths: str, *, context: str | None, environ: Mapping[str, str], clocks: Clocks
) -> Connection:
    configuration = Configuration()
    try:
        merged = _KubeConfigMerger(paths).config
        if merged is None:
            raise CredentialsError(f"kubeconfig {paths} does not exist or is empty")
        # What expires is removed before the loader sees it: the loader would read or run it only once.
        user = take_user(merged, context=context, clocks=clocks)
        loader = _KubeConfigLoader(config_dict=merged, active_context=context, config_base_path=None)
        await loader.load_and_set(configuration)
    except _LOADER_FAULTS as error:
        raise CredentialsError(f"kubeconfig {paths} is unusable: {_fault(error)}") from None
    header = _fixed(configuration.api_key.get("BearerToken", ""), source=f"the token in kubeconfig {paths}")
    if user.authorization is None and header is None and configuration.cert_file is None:
        raise CredentialsError(
            f"kubeconfig {paths} has no credentials for its user: a token, tokenFile, exec plugin,"
            " username and password, or client certificate is needed"
        )
    return _connection(
        configuration,
        authorization=user.authorization or FixedHeader(header.strip() if header else None),
        environ=environ,
        clocks=clocks,
        impersonation=user.impersonation,
    )


def _fixed(header: str, *, source: str) -> str | None:
    """Check the header that the loader made from a token, or name and password; None where it has none."""
    scheme, _, value = header.partition(" ")
    if scheme == "Bearer" and value.strip():
        return bearer(value, source=source)
    return header if value.strip() else None


def _fault(error: Exception) -> str:
    """Say what is wrong without quoting the file: the loader's own texts may hold a user's whole entry."""
    if isinstance(error, ConfigException):
        return str(error).partition("/{")[0]
    if isinstance(error, OSError):
        return f"{error.filename or 'a file it names'}: {error.strerror}"
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"not YAML at line {error.problem_mark.line + 1}: {error.problem}"
    return "it has not the shape of a kubeconfig"


def _connection(
    configuration: Configuration,
    *,
    authorization: Authorization,
    environ: Mapping[str, str],
    clocks: Clocks,
    impersonation: Headers = (),
) -> Connection:
    server = _server_url(configuration.host)
    if not configuration.verify_ssl:
        log.warning("insecure-skip-tls-verify is set: winpool does not verify the certificate of %s", server)
    files = TlsFiles(
        ca=configuration.ssl_ca_cert,
        certificate=configuration.cert_file,
        key=configuration.key_file,
        verified=configuration.verify_ssl,
    )
    return Connection(
        server=configuration.host.rstrip("/"),
        tls=Tls(files, monotonic=clocks.monotonic),
        authorization=authorization,
        impersonation=impersonation,
        server_hostname=configuration.tls_server_name,
        proxy=find_proxy(server, configured=configuration.proxy, environ=environ),
    )


def _server_url(text: str) -> URL:
    """Check the API server's address. Never quotes a user and password in it."""
    if not text.startswith("https://"):
        raise CredentialsError(
            f"the API server's address {text} must begin with https://: a token goes there"
        )
    try:
        url = URL(text)
        if not url.host or not url.port:
            raise ValueError
    except ValueError:
        raise CredentialsError(f"the API server's address {text} is not a URL") from None
    if url.user is not None or url.password is not None:
        raise CredentialsError(
            f"the API server's address {text} names a user: put it and its password into the kubeconfig's"
            " user, where they are not shown"
        )
    return url
