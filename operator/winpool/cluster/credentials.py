"""Who we are and where the API server is: a kubeconfig, or the ServiceAccount of our pod.

The official client reads the files (its configuration module only: importing one of its
typed APIs costs 580 ms and 26 MB). This module does what the client does not: it reads token
files and certificates again, runs exec plugins again, obeys impersonation and proxies, and
raises an error for missing credentials instead of sending requests as system:anonymous.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException, incluster_config, kube_config
from yarl import URL

from winpool.cluster.errors import CredentialsError
from winpool.cluster.kubeconfig import Clocks, take_user
from winpool.cluster.proxies import Proxy, find_proxy
from winpool.cluster.tls import Tls, TlsFiles
from winpool.cluster.tokens import Authorization, FixedHeader, TokenFile, bearer

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

    from winpool.cluster.kubeconfig import Headers

log = logging.getLogger(__name__)

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
