"""Who we are and where the API server is: a kubeconfig, or the ServiceAccount of our pod.

The official client reads the files (its configuration module only: importing one of its
typed APIs costs 580 ms and 26 MB). What it does not do is done here: a token file is read
again, an exec plugin is run again, and missing credentials are an error instead of
requests in the name of system:anonymous.
"""

from __future__ import annotations

import logging
import os
import ssl
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException, incluster_config, kube_config

from winpool.cluster.errors import CredentialsError
from winpool.cluster.exec_plugin import ExecPlugin, PluginCommand
from winpool.cluster.tokens import Authorization, FixedHeader, TokenFile, bearer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
    # The loader trusts the shape of the file and falls over whatever is not of it.
    AttributeError,
    KeyError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True, slots=True)
class Connection:
    """Where the API server is and how to be believed there.

    ``server`` is a URL without a trailing slash. ``server_hostname`` is the name to expect
    in its certificate where that is not the URL's. ``proxy`` is a URL or None.
    """

    server: str
    ssl: ssl.SSLContext = field(repr=False)
    authorization: Authorization = field(repr=False)
    server_hostname: str | None = None
    proxy: str | None = None


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class _Clocks:
    monotonic: Callable[[], float]
    now: Callable[[], datetime]


async def load_connection(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    environ: Mapping[str, str] = os.environ,
    service_account_folder: Path = SERVICE_ACCOUNT_FOLDER,
    monotonic: Callable[[], float] = time.monotonic,
    now: Callable[[], datetime] = _utc_now,
) -> Connection:
    """Find the credentials where an operator's are looked for (the order of controller-runtime).

    ``kubeconfig`` (one or more paths, as in $KUBECONFIG), then $KUBECONFIG, then the pod's
    ServiceAccount, then ~/.kube/config. ``context`` chooses one of a kubeconfig's contexts.

    Raises CredentialsError, naming file and fault, where there are none or they are unusable.
    """
    clocks = _Clocks(monotonic=monotonic, now=now)
    paths = kubeconfig or environ.get("KUBECONFIG")
    if paths:
        return await _from_kubeconfig(paths, context=context, clocks=clocks)
    if environ.get(incluster_config.SERVICE_HOST_ENV_NAME):
        return _from_pod(service_account_folder, environ=environ, clocks=clocks)
    home = Path(environ.get("HOME", "/")) / ".kube" / "config"
    if home.is_file():
        return await _from_kubeconfig(str(home), context=context, clocks=clocks)
    raise CredentialsError(
        "no credentials for the API server: give --kubeconfig, set KUBECONFIG,"
        " or run in a pod with a ServiceAccount"
    )


def _from_pod(folder: Path, *, environ: Mapping[str, str], clocks: _Clocks) -> Connection:
    configuration = Configuration()
    loader = _InClusterConfigLoader(
        token_filename=str(folder / "token"), cert_filename=str(folder / "ca.crt"), environ=environ
    )
    try:
        loader.load_and_set(configuration)
    except (ConfigException, OSError) as error:
        raise CredentialsError(f"the ServiceAccount of this pod in {folder} is unusable: {error}") from None
    return _connection(configuration, authorization=TokenFile(folder / "token", monotonic=clocks.monotonic))


async def _from_kubeconfig(paths: str, *, context: str | None, clocks: _Clocks) -> Connection:
    configuration = Configuration()
    try:
        merged = _KubeConfigMerger(paths).config
        if merged is None:
            raise CredentialsError(f"kubeconfig {paths} does not exist or is empty")
        # What expires is taken out before the loader sees it, which would read or run it only once.
        renewed = _take_renewed(merged, context=context, clocks=clocks)
        loader = _KubeConfigLoader(config_dict=merged, active_context=context, config_base_path=None)
        await loader.load_and_set(configuration)
    except _LOADER_FAULTS as error:
        raise CredentialsError(f"kubeconfig {paths} is unusable: {_fault(error)}") from None
    header = _fixed(configuration.api_key.get("BearerToken", ""), source=f"the token in kubeconfig {paths}")
    if renewed is None and header is None and configuration.cert_file is None:
        raise CredentialsError(
            f"kubeconfig {paths} has no credentials for its user: a token, tokenFile, exec plugin,"
            " username and password, or client certificate is needed"
        )
    return _connection(
        configuration, authorization=renewed or FixedHeader(header.strip() if header else None)
    )


def _fixed(header: str, *, source: str) -> str | None:
    """Check the header that the loader made of a token, or of name and password; None where it has none."""
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


def _take_renewed(merged: Any, *, context: str | None, clocks: _Clocks) -> Authorization | None:
    """Remove the credentials that have to be renewed from the user's entry and return them."""
    chosen = merged["contexts"].get_with_name(context or merged["current-context"])["context"]
    user_name = chosen.safe_get("user")
    entry = merged["users"].get_with_name(user_name, safe=True) if user_name else None
    if entry is None:
        raise CredentialsError(f"kubeconfig has no user named {user_name!r} for its context")
    user = entry["user"]
    settings: dict[str, Any] = user.value
    base = Path(user.path).absolute().parent
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
        # Above an inline token, which it is meant to replace (client-go: clientcmd/api AuthInfo.TokenFile).
        return TokenFile(base / token_file, monotonic=clocks.monotonic)
    return None


def _connection(configuration: Configuration, *, authorization: Authorization) -> Connection:
    server = configuration.host.rstrip("/")
    if not server.startswith("https://"):
        raise CredentialsError(
            f"the API server's address {server} must begin with https://: a token goes there"
        )
    return Connection(
        server=server,
        ssl=_tls(configuration),
        authorization=authorization,
        server_hostname=configuration.tls_server_name,
        proxy=configuration.proxy,
    )


def _tls(configuration: Configuration) -> ssl.SSLContext:
    try:
        tls = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
        if configuration.cert_file:
            tls.load_cert_chain(configuration.cert_file, configuration.key_file)
    except OSError as error:  # ssl.SSLError is one
        raise CredentialsError(f"a certificate or key for the API server cannot be read: {error}") from None
    # Python 3.13 demands extensions of RFC 5280 that CAs of clusters in the field lack; client-go does not.
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not configuration.verify_ssl:
        log.warning("insecure-skip-tls-verify: whoever answers at %s is believed", configuration.host)
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    return tls
