"""Finds the API server and our credentials, in a kubeconfig or the ServiceAccount of our pod.

The official client reads the files (its configuration module only: importing one of its typed APIs costs 580
ms and 26 MB). It reads tokens and certificates once, and ignores impersonation, with which requests would be
sent with more rights than they should have. So this module takes from a user's entry what the client must not
see. A projected ServiceAccount token would expire after its hour, so its file is read again. What is loaded
into a TLS context stays in it, so files that change make a new context, which connections from then on use.
Exec plugins are refused, and missing credentials are an error: a request is never sent as system:anonymous.
No token is ever part of a message or of a repr.

A proxy is that of the kubeconfig, or of the environment. ``NO_PROXY`` has addresses, and names with their
subdomains, with a port or without, but no ranges. So in a Pod, where the API server is a service of the
cluster, the environment has no effect.
"""

from __future__ import annotations

import base64
import ipaddress
import logging
import os
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote

import msgspec
import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException, incluster_config, kube_config
from yarl import URL

from winpool.api.keys import NAMESPACE
from winpool.kube.errors import CredentialsError

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 10.0
"""How often the files are checked, as often as a token file. An old CA or certificate is valid for hours
beside the new one in any rotation that is done with care."""


class TlsFiles(msgspec.Struct, frozen=True):
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

    async def header(self) -> str | None:
        """Return the value to send now; None where a TLS client certificate authenticates us.

        Raises CredentialsError where there is none: a request is never sent as anonymous.
        """

    def reject(self, header: str | None) -> None:
        """Note that the server answered 401 to ``header``, so that a new value is obtained at once.

        The value is an argument so that late answers to requests in flight do not reject a newer one.
        """


class FixedHeader:
    """A header that cannot be renewed: a token or password written into the kubeconfig, or none."""

    def __init__(self, header: str | None) -> None:
        self._header = header

    async def header(self) -> str | None:
        """Return the value; None for TLS client certificates."""
        return self._header

    def reject(self, header: str | None) -> None:
        """Do nothing: there is no other value."""


class TokenFile:
    """A bearer token in a file that someone else renews.

    If the file is unreadable or empty for a moment (a renewal that is not atomic), the token
    that was read before stays; without one it is a CredentialsError.
    """

    def __init__(self, path: Path, *, monotonic: Callable[[], float]) -> None:
        self._path = path
        self._monotonic = monotonic
        self._header: str | None = None
        self._read_at = float("-inf")
        self._complained = False

    async def header(self) -> str:
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


_SCHEMES: Final = ("http", "https")


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
    no_proxy = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if name is None or _is_excluded(server, no_proxy):
        return None
    proxy = _parse(environ[name], source=name)
    log.info("winpool sends its requests to the API server through the proxy %s, from %s", proxy.url, name)
    return proxy


def _is_excluded(server: URL, no_proxy: str) -> bool:
    """Whether ``server`` is this host, or NO_PROXY names it."""
    host = (server.host or "").lower()
    try:
        is_here = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_here = host == "localhost"
    places = (host, f"{host}:{server.port}")
    names = [each.strip().lower().removeprefix("*.").removeprefix(".") for each in no_proxy.split(",")]
    return is_here or any(
        name == "*" or place == name or place.endswith(f".{name}")
        for name in names
        if name
        for place in places
    )


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

TAKEN: Final = "a token, a tokenFile or a client certificate, or the ServiceAccount of its Pod"
"""What the operator logs in by."""

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


def take_user(
    merged: Any, *, context: str | None, monotonic: Callable[[], float]
) -> tuple[Authorization | None, Headers]:
    """Read the entry of the context's user, and remove from it what the loader must not see.

    Return what the loader does not read: the credentials, None where there is nothing to renew, and the
    headers with which the API server treats us as another user.

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
    renewed = _take_renewed(settings, user_name=user_name, base=base, monotonic=monotonic)
    return renewed, tuple(_impersonation(settings, user_name=user_name))


def _tell_unknown(settings: Mapping[str, Any], *, known: frozenset[str], of: str) -> None:
    for name in sorted(str(name) for name in settings if name not in known):
        log.warning("kubeconfig %s: winpool does not know the field %r and ignores it", of, name)


def _take_renewed(
    settings: dict[str, Any], *, user_name: str, base: Path, monotonic: Callable[[], float]
) -> Authorization | None:
    """Remove the credentials that have to be renewed from the user's entry and return them."""
    refused = {"exec": "an exec plugin", "auth-provider": "an auth provider", "username": "a password"}
    for name, what in refused.items():
        if settings.get(name) is not None:
            raise CredentialsError(
                f"kubeconfig user {user_name!r} has {what}, which the operator does not log in by: give it"
                f" {TAKEN}"
            )
    token_file = settings.pop("tokenFile", None)
    if token_file is None:
        return None
    # It has precedence over an inline token, as in client-go (clientcmd/api AuthInfo.TokenFile).
    return TokenFile(base / token_file, monotonic=monotonic)


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


async def load_connection(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    environ: Mapping[str, str] = os.environ,
    service_account_folder: Path = SERVICE_ACCOUNT_FOLDER,
    monotonic: Callable[[], float] = time.monotonic,
) -> Connection:
    """Find the credentials in the order of controller-runtime.

    ``kubeconfig`` (one or more paths, as in $KUBECONFIG), then $KUBECONFIG, then the pod's
    ServiceAccount, then ~/.kube/config. ``context`` chooses one of a kubeconfig's contexts.

    Raises CredentialsError, with the file and the fault, where there are none or they are unusable.
    """
    paths = kubeconfig or environ.get("KUBECONFIG")
    if paths:
        return await _from_kubeconfig(paths, context=context, environ=environ, monotonic=monotonic)
    if environ.get(incluster_config.SERVICE_HOST_ENV_NAME):
        return _from_pod(service_account_folder, environ=environ, monotonic=monotonic)
    home = Path(environ.get("HOME", "/")) / ".kube" / "config"
    if home.is_file():
        return await _from_kubeconfig(str(home), context=context, environ=environ, monotonic=monotonic)
    raise CredentialsError(
        "no credentials for the API server: give --kubeconfig, set KUBECONFIG,"
        " or run in a pod with a ServiceAccount"
    )


def _from_pod(folder: Path, *, environ: Mapping[str, str], monotonic: Callable[[], float]) -> Connection:
    configuration = Configuration()
    loader = _InClusterConfigLoader(
        token_filename=str(folder / "token"), cert_filename=str(folder / "ca.crt"), environ=environ
    )
    try:
        loader.load_and_set(configuration)
        namespace = (folder / "namespace").read_text(encoding="utf-8").strip()
    except (ConfigException, OSError, UnicodeDecodeError) as error:
        raise CredentialsError(f"the ServiceAccount of this pod in {folder} is unusable: {error}") from None
    if namespace != NAMESPACE:
        # The Lease would be out of reach, and the fence would not concern this account.
        raise CredentialsError(
            f"this pod is in the namespace {namespace!r}, and the operator runs in {NAMESPACE} only: guard, "
            f"fence and Lease name its account there. Remove `namespace: {namespace}` from your "
            "kustomization, delete what it has installed, and install again"
        )
    token = TokenFile(folder / "token", monotonic=monotonic)
    return _connection(configuration, authorization=token, environ={}, monotonic=monotonic)


async def _from_kubeconfig(
    paths: str, *, context: str | None, environ: Mapping[str, str], monotonic: Callable[[], float]
) -> Connection:
    configuration = Configuration()
    try:
        merged = _KubeConfigMerger(paths).config
        if merged is None:
            raise CredentialsError(f"kubeconfig {paths} does not exist or is empty")
        # What expires is removed before the loader sees it: the loader would read or run it only once.
        renewed, impersonation = take_user(merged, context=context, monotonic=monotonic)
        loader = _KubeConfigLoader(config_dict=merged, active_context=context, config_base_path=None)
        await loader.load_and_set(configuration)
    except _LOADER_FAULTS as error:
        raise CredentialsError(f"kubeconfig {paths} is unusable: {_fault(error)}") from None
    token = configuration.api_key.get("BearerToken", "").removeprefix("Bearer ").strip()
    header = bearer(token, source=f"the token in kubeconfig {paths}") if token else None
    if renewed is None and header is None and configuration.cert_file is None:
        raise CredentialsError(f"kubeconfig {paths} has no credentials for its user: give it {TAKEN}")
    return _connection(
        configuration,
        authorization=renewed or FixedHeader(header),
        environ=environ,
        monotonic=monotonic,
        impersonation=impersonation,
    )


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
    monotonic: Callable[[], float],
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
        tls=Tls(files, monotonic=monotonic),
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
