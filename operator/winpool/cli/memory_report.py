"""Reads /memory of the operator that leads, through ``kubectl port-forward`` to its Pod, or at a URL.

The credentials of a person are never sent to the operator: it would get all rights of that person. Where it
requires a token, it gets one of a ServiceAccount that may do nothing else.
"""

from __future__ import annotations

import http.client
import ipaddress
import re
import socket
import ssl
import zlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import InitVar, dataclass
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import SplitResult, urlsplit

import msgspec

from winpool.api.keys import ADDRESS_ANNOTATION, LEASE, NAMESPACE, READER_MANIFEST
from winpool.api.text import printable
from winpool.cli.kubectl import Kubectl, KubectlError, NotAskedError, lease_object, record_in
from winpool.cli.lenient import Fields
from winpool.cli.parsing import Exit
from winpool.kube.errors import Forbidden, NotFound, Unauthorized, error_of
from winpool.kube.lease_rules import host_in_identity
from winpool.kube.wire import BROKEN
from winpool.model.memory_report import VERSION, MemoryReport

READER: Final = "winpool-memory-reader"
"""The ServiceAccount, and the ClusterRole that permits it to get /memory."""

TOKEN_SECONDS: Final = 600
"""The shortest life that the API server gives a token. A watch gets a new one when it is over."""

PORT_NAME: Final = "metrics"
"""Of the port in the Pod, as ``deploy/operator`` names it."""

SERVER_NAME: Final = f"winpool-metrics.{NAMESPACE}.svc"
"""The name in the operator's certificate (``docs/operator/metrics.md``). A forwarded port has another."""

REQUEST_SECONDS: Final = 30.0
"""For a connection to the operator, and then for each part of its answer."""

REPLY_BYTES: Final = 16 * 1024 * 1024
"""Of the report of 10,000 nodes, with long names, uncompressed."""

NO_LEADER: Final = (
    f"no operator holds the Lease {NAMESPACE}/{LEASE}: check that the operator runs with "
    f"kubectl -n {NAMESPACE} get pods, or name its address with --url"
)
_LOCAL: Final = "127.0.0.1"
_GZIP: Final = 31
"""The window of zlib that reads gzip."""
_POD: Final = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
"""A name that a Pod can have (RFC 1123). It becomes part of a command line, and comes from the Lease."""


class _Versioned(msgspec.Struct):
    v: int


class UnusableFileError(NotAskedError):
    """A file that a flag names is not what it has to be. The text is without its content."""

    code = Exit.USAGE


@dataclass
class MemoryReader:
    """Reads the report, again and again. Where a read fails, the next one begins with who leads.

    Without ``url`` it reads where the Lease says, or through a forwarded port of the Pod that leads.
    ``flags`` are those of kubectl, ``ca_file`` has the CAs of the operator's certificate, ``token_file`` the
    token to send. Use it as a context manager.
    """

    flags: InitVar[Sequence[str]] = ()
    url: str | None = None
    ca_file: str | None = None
    token_file: str | None = None

    def __post_init__(self, flags: Sequence[str]) -> None:
        self.kubectl = Kubectl(flags)
        self._forwarding = ExitStack()
        self._server = self.url
        self._token = ""
        self._is_by_lease = False

    def __enter__(self) -> Self:
        """Do nothing: kubectl is started when it is needed."""
        return self

    def __exit__(self, *_: object) -> None:
        """End kubectl."""
        self._forwarding.close()
        self.kubectl.__exit__()

    def read(self) -> MemoryReport:
        """Return the report as it is now. Raises NotAskedError."""
        try:
            if self._server is None:
                self._server = self._found()
            status, body = self._ask(self._server)
            if status == http.client.UNAUTHORIZED and self._may_get_token:
                self._token = self._new_token()
                status, body = self._ask(self._server)
            if status != http.client.OK:
                raise NotAskedError(_why(status, body))
        except NotAskedError:
            self._server = self.url
            self._forwarding.close()
            raise
        return report_in(body)

    @property
    def _may_get_token(self) -> bool:
        """Whether a token is got for the server: for a Pod that the API server leads to, if none is given."""
        return self.url is None and self.token_file is None and not self._is_by_lease

    def _found(self) -> str:
        """Return where the operator that leads is asked: on this machine, or through a port to its Pod."""
        lease = lease_object(self.kubectl)
        holder = record_in(lease).holder
        address = address_on(lease, holder=holder)
        self._is_by_lease = bool(address)
        if address and (self.ca_file is not None or self.token_file is not None):
            raise NotAskedError(
                f"the operator is at {address} by its Lease, and anyone who may write that can name any port "
                "of this machine: for --token-file and --ca-file name the address with --url"
            )
        return address or self._forwarded(pod_of(holder))

    def _forwarded(self, pod: str) -> str:
        """Forward a port to the Pod; return its address."""
        forwarding = self.kubectl.forwarded(pod, namespace=NAMESPACE, port=PORT_NAME)
        port = self._forwarding.enter_context(forwarding)
        scheme = "https" if self.ca_file is not None or speaks_tls(port) else "http"
        return f"{scheme}://{_LOCAL}:{port}"

    def _new_token(self) -> str:
        try:
            life = f"--duration={TOKEN_SECONDS}s"
            answer = self.kubectl.run("create", "token", READER, "--namespace", NAMESPACE, life)
        except KubectlError as error:
            raise NotAskedError(
                f"the operator requires a token: {error}; kubectl apply -f {READER_MANIFEST} creates "
                f"{READER}, and --token-file names another token"
            ) from error
        return _token(
            answer.decode(errors="replace"), NotAskedError("what kubectl create token prints is not a token")
        )

    def _ask(self, server: str) -> tuple[int, bytes]:
        """Return status and body of an answer. Raises NotAskedError where there is none."""
        url = urlsplit(server)
        headers = {"Accept": "application/json", "Accept-Encoding": "gzip"}
        if self.token_file is not None:
            headers["Authorization"] = f"Bearer {token_in(self.token_file)}"
        elif self._token and self._may_get_token:
            headers["Authorization"] = f"Bearer {self._token}"
        connection = self._connection(url)
        try:
            connection.request("GET", f"{url.path}/memory", headers=headers)
            answer = connection.getresponse()
            return answer.status, _body(answer)
        except ssl.SSLCertVerificationError as error:
            raise NotAskedError(
                f"the operator's certificate is not believed: {error.verify_message}"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            said = getattr(error, "strerror", None) or str(error) or type(error).__name__
            where = f"{connection.host}:{connection.port}"
            raise NotAskedError(
                f"the operator cannot be reached: cannot connect to {where}: {said}"
            ) from None
        finally:
            connection.close()

    def _connection(self, url: SplitResult) -> http.client.HTTPConnection:
        """Return a connection that is not made yet.

        A forwarded port ends in the Pod that the API server has named: without --ca-file nothing more is to
        be verified. Whoever names a URL gets the checks of HTTPS.
        """
        host = url.hostname or ""
        if url.scheme != "https":
            return http.client.HTTPConnection(host, url.port, timeout=REQUEST_SECONDS)
        tls = verifying(self.ca_file)
        if self.ca_file is None and self.url is None:
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        return _Connection(host, url.port, context=tls, name=SERVER_NAME if self.url is None else host)


class _Connection(http.client.HTTPSConnection):
    """A connection to a server whose certificate has the name ``name``."""

    def __init__(self, host: str, port: int | None, *, context: ssl.SSLContext, name: str) -> None:
        super().__init__(host, port, context=context, timeout=REQUEST_SECONDS)
        self._tls, self._name = context, name

    def connect(self) -> None:
        """Connect, and expect the name."""
        plain = socket.create_connection((self.host, self.port), self.timeout)
        self.sock = self._tls.wrap_socket(plain, server_hostname=self._name)


def verifying(ca_file: str | None) -> ssl.SSLContext:
    """Return how HTTPS verifies a certificate: by the CAs in a file, or by those of the system.

    Raises UnusableFileError.
    """
    try:
        tls = ssl.create_default_context(cafile=ca_file)
    except OSError:
        raise UnusableFileError(f"--ca-file {ca_file} cannot be read as PEM") from None
    # Python 3.13 demands extensions of RFC 5280 that the CAs of real clusters lack.
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return tls


def is_this_host(host: str) -> bool:
    """Whether what is sent there stays on this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def address_on(lease: Mapping[str, Any], *, holder: str) -> str:
    """Return the address on the Lease of a holder that runs on this machine; empty where there is none.

    It may be that of a holder before, such as of one that ran here until a Pod took over. An address
    elsewhere counts as none: what is sent there would depend on who may write the Lease. No token is sent
    here either, where any user of this machine may listen.
    """
    if holder.rpartition("_")[0] != host_in_identity(socket.gethostname()):
        return ""
    try:
        url = urlsplit(Fields(lease).one("metadata", "annotations").text(ADDRESS_ANNOTATION))
        is_here = url.scheme == "http" and is_this_host(url.hostname or "") and bool(url.port)
    except ValueError:
        return ""
    return f"http://{url.netloc}" if is_here and "@" not in url.netloc else ""


def pod_of(holder: str) -> str:
    """Return the Pod of a holder of the Lease: its host, before the part that tells its processes apart.

    Raises NotAskedError for what is not the identity of an operator in a Pod.
    """
    if not holder:
        raise NotAskedError(NO_LEADER)
    pod = holder.rpartition("_")[0]
    if not _POD.fullmatch(pod):
        raise NotAskedError(
            f"the Lease {NAMESPACE}/{LEASE} is held by {printable(holder[:100])!r}, which is not a Pod: name "
            "the address of the operator with --url"
        )
    return pod


def speaks_tls(port: int) -> bool:
    """Whether the server behind a port of this host answers a TLS handshake. Nothing else is sent to it.

    Raises NotAskedError where it does not answer at all.
    """
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((_LOCAL, port), REQUEST_SECONDS) as plain,
            tls.wrap_socket(plain, server_hostname=SERVER_NAME),
        ):
            return True
    except ssl.SSLError:
        return False
    except OSError as error:
        said = error.strerror or f"no answer within {REQUEST_SECONDS:.0f} s"
        raise NotAskedError(f"the operator cannot be reached through kubectl port-forward: {said}") from None


def report_in(body: bytes) -> MemoryReport:
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


def _body(answer: http.client.HTTPResponse) -> bytes:
    body = answer.read(REPLY_BYTES + 1)
    if answer.getheader("Content-Encoding") == "gzip":
        try:
            body = zlib.decompressobj(_GZIP).decompress(body, REPLY_BYTES + 1)
        except zlib.error:
            raise http.client.HTTPException("the answer cannot be unpacked") from None
    if len(body) > REPLY_BYTES:
        raise NotAskedError(
            f"the server gives an answer of more than {REPLY_BYTES} bytes, so it is not an operator"
        )
    return body


def token_in(name: str) -> str:
    """Return the token in the file that --token-file names. Raises UnusableFileError."""
    try:
        text = Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or "not text"
        raise UnusableFileError(f"--token-file {name} cannot be read: {said}") from None
    return _token(text, UnusableFileError(f"--token-file {name} is not a token"))


def _token(text: str, fault: NotAskedError) -> str:
    """Return the token without the newline that files end with. Raises ``fault`` for what is none."""
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise fault
    return token


def _why(status: int, body: bytes) -> str:
    """Return why the operator did not give its report."""
    error = error_of(status=status, body=body, request="")
    said = error.message.removeprefix(f": {status} ")
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
            return f"the operator answers {status}: {said}"
