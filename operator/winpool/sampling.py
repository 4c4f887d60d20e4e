"""Connects the settings with what reads samples of memory: CA files, ranges, and the file of data sources.

.. code-block:: yaml

    dataSources:
    - name: main
      url: https://prometheus.monitoring.svc:9090
      caFile: /etc/prometheus-ca/ca.crt
      tokenFile: /var/run/secrets/prometheus/token
      scrapeIntervalSeconds: 30
      matchers: {job: windows-exporter, namespace: monitoring}
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from yarl import URL

from winpool.api.fields import is_pool_name
from winpool.api.text import printable
from winpool.controllers.memory_polls import Connections, DataSource
from winpool.features.memory.victims import namespaces_of
from winpool.kube.backoff import Outage
from winpool.kube.credentials import TokenFile
from winpool.kube.errors import CredentialsError, without_passwords
from winpool.kube.tokens import ReaderToken
from winpool.kubelet.addresses import Address, AddressRules, ranges_of
from winpool.kubelet.client import KubeletClient
from winpool.kubelet.connection import BEARER, Token, Trust, TrustError, insecure_context
from winpool.kubelet.exporter import DEFAULT_MATCHERS, faults_of
from winpool.kubelet.prometheus import PrometheusClient, parse_url
from winpool.kubelet.schedule import Intervals
from winpool.settings import Settings
from winpool.support.data import DataError, read

log = logging.getLogger(__name__)

DEFAULT_SCRAPE_SECONDS: Final = 60
"""The ``scrape_interval`` of a Prometheus that sets none.
https://prometheus.io/docs/prometheus/latest/configuration/configuration/"""

LONGEST_SCRAPE_SECONDS: Final = 120
"""No sample is used that is older than two minutes, so one that comes more rarely is never used."""

MAX_DATA_SOURCES: Final = 16
"""A cluster has one Prometheus, or one for each team. Each is asked by itself, in nine queries."""


_USER: Final = re.compile("[ -9;-~]{1,256}")
_HEADER: Final = re.compile("[A-Za-z0-9-]{1,128}")
_VALUE: Final = re.compile("[ -~]{1,1024}")
_OURS: Final = frozenset(
    {
        *("accept", "accept-encoding", "authorization", "connection", "content-length", "cookie", "expect"),
        "host",
        *("proxy-authorization", "range", "te", "trailer", "transfer-encoding", "upgrade", "user-agent"),
    }
)
"""Headers that every request has, that carry credentials by a standard, or change how an answer is read."""


Places: TypeAlias = frozenset[tuple[Address, int]]
"""The addresses and ports of the API server."""

Connect: TypeAlias = Callable[[ReaderToken, Places], Connections]
"""Returns what samples come through."""


class SamplingError(Exception):
    """A setting cannot be used; the message names the flag and the file, and says why."""


class _BasicAuth(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    username: str
    password_file: str


class _Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    name: str
    url: str
    ca_file: str = ""
    token_file: str = ""
    basic_auth: _BasicAuth | None = None
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    scrape_interval_seconds: int = DEFAULT_SCRAPE_SECONDS
    matchers: dict[str, str] = msgspec.field(default_factory=lambda: dict(DEFAULT_MATCHERS))


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    data_sources: tuple[_Source, ...]


def make_sampling(settings: Settings, *, monotonic: Callable[[], float]) -> Connect:
    """Read the files that the settings name; return what connects to kubelets and data sources by them.

    Kubelets are shown the token that it gets, and never at the addresses of the API server. A pool names a
    data source, and never a URL. Raises SamplingError.
    """
    context = kubelet_context(settings, monotonic=monotonic)
    data_sources = _data_sources(settings.data_sources_file, monotonic=monotonic)

    def connect(token: ReaderToken, api_server: Places) -> Connections:
        allowed = ranges_of(settings.kubelet_address_ranges or "")
        return Connections(
            kubelets=lambda: KubeletClient(token=token, context=context, on_refused=token.refused),
            rules=AddressRules(api_server=api_server, allowed=allowed),
            data_sources=data_sources,
            intervals=Intervals(
                base=float(settings.memory_poll_seconds), hot=float(settings.memory_hot_poll_seconds)
            ),
            missing=lambda: token.problem,
            close=token.close,
            protected_namespaces=namespaces_of(settings.protected_namespaces or ""),
        )

    return connect


async def addresses_of(*servers: str) -> Places:
    """Return the addresses and ports of the API server at these URLs, none for a name that is not resolved.

    A name can be one that only a proxy resolves. The token for kubelets is no secret to the API server, so
    an address that is missing here costs a poll that fails, and nothing else.
    """
    found: set[tuple[Address, int]] = set()
    for url in map(URL, servers):
        with suppress(OSError):
            told = await asyncio.get_running_loop().getaddrinfo(url.host, url.port)
            found |= {(ip_address(str(each[4][0])), int(each[4][1])) for each in told}
    return frozenset(found)


def service_of(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the URL of the Service ``kubernetes``, which every Pod has in its environment; none elsewhere.

    It is another address of the API server where the operator in a Pod uses a kubeconfig.
    """
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "")
    if not (host and port.isdecimal()):
        return ()
    return (str(URL.build(scheme="https", host=host, port=int(port))),)


def kubelet_context(settings: Settings, *, monotonic: Callable[[], float]) -> Callable[[], ssl.SSLContext]:
    """Return what makes the TLS context for a new connection to a kubelet. Raises SamplingError."""
    if settings.kubelet_insecure_tls:
        log.warning(
            "--kubelet-insecure-tls is set: kubelets prove nothing, so everyone on the network path to a "
            "kubelet can read the token that is sent to it, and make up its samples"
        )
        context = insecure_context()
        return lambda: context
    try:
        return Trust(settings.kubelet_ca_file, monotonic=monotonic).context
    except TrustError as error:
        raise SamplingError(f"--kubelet-ca-file: {error}") from None


def _data_sources(path: Path | None, *, monotonic: Callable[[], float]) -> dict[str, DataSource]:
    if path is None:
        return {}
    try:
        return read_data_sources(path.read_text(encoding="utf-8"), monotonic=monotonic)
    except OSError as error:
        raise SamplingError(f"--data-sources-file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SamplingError(f"--data-sources-file {path}: it is not text in UTF-8") from None
    except DataError as error:
        # What cannot be read may be a URL with a password that is written at another place.
        raise SamplingError(f"--data-sources-file {path}: {without_passwords(str(error))}") from None


def read_data_sources(text: str, *, monotonic: Callable[[], float]) -> dict[str, DataSource]:
    """Read the file of data sources, by their names, and the CA files and token files that it names.

    Raises DataError with a sentence for each fault, which never has the URL. Half a file is never used.
    """
    told = read(text, _File).data_sources
    problems: list[str] = []
    if len(told) > MAX_DATA_SOURCES:
        problems.append(f"dataSources: there are {len(told)}, and at most {MAX_DATA_SOURCES} are possible")
    found: dict[str, DataSource] = {}
    for index, each in enumerate(told[:MAX_DATA_SOURCES]):
        at = f"dataSources[{index}]"
        faults = _faults_of_name(each.name, [other.name for other in told[:index]])
        try:
            client = _client(each, monotonic=monotonic)
        except DataError as error:
            problems.extend(f"{at}.{fault}" for fault in (*faults, *error.problems))
            continue
        problems.extend(f"{at}.{fault}" for fault in faults)
        found[each.name] = DataSource(client, float(each.scrape_interval_seconds))
    if problems:
        raise DataError(tuple(problems))
    return found


def _faults_of_name(name: str, before: list[str]) -> list[str]:
    if not is_pool_name(name):
        return ["name: it must be at most 63 lowercase letters, digits and '-', as pools write it"]
    return (
        [f"name: there is a data source {name} before it; give each its own name"] if name in before else []
    )


def _client(told: _Source, *, monotonic: Callable[[], float]) -> PrometheusClient:
    """Return the client of a data source. Raises DataError."""
    problems: list[str] = []
    basic = told.basic_auth
    secret, field_ = (
        (basic.password_file, "basicAuth.passwordFile") if basic else (told.token_file, "tokenFile")
    )
    token = token_of(Path(secret), monotonic=monotonic) if secret else None
    if basic and not basic.password_file:
        problems.append("basicAuth.passwordFile: name the file that has the password")
    if basic and told.token_file:
        problems.append("basicAuth: there is a tokenFile, too; only one of them can be sent")
    if basic and not _USER.fullmatch(basic.username):
        problems.append("basicAuth.username: it must be printable ASCII without ':'")
    problems.extend(f"headers: {fault}" for fault in _faults_of_headers(told.headers))
    if not 1 <= told.scrape_interval_seconds <= LONGEST_SCRAPE_SECONDS:
        problems.append(f"scrapeIntervalSeconds: it must be from 1 to {LONGEST_SCRAPE_SECONDS}")
    problems.extend(f"matchers: {fault}" for fault in faults_of(told.matchers))
    if secret and (problem := _unreadable(Path(secret))):
        problems.append(f"{field_}: the file {secret} cannot be read: {problem}")
    try:
        url = parse_url(told.url, has_token=token is not None)
        if told.ca_file and url.scheme != "https":
            problems.append("caFile: it is for HTTPS only; write https:// in url, or remove caFile")
    except ValueError as error:
        problems.append(f"url: {error}")
    try:
        trust = Trust(Path(told.ca_file) if told.ca_file else None, monotonic=monotonic)
    except TrustError as error:
        problems.append(f"caFile: {error}")
    if problems:
        raise DataError(tuple(problems))
    return PrometheusClient(
        url,
        matchers=told.matchers,
        token=token,
        context=trust.context,
        user=basic.username if basic else None,
        headers=told.headers,
    )


def _faults_of_headers(headers: Mapping[str, str]) -> Iterator[str]:
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or name.lower() in _OURS:
            yield f"{printable(name)!r} cannot be set; a header of a tenant is one like X-Scope-OrgID"
        elif not _VALUE.fullmatch(value):
            yield f"{name}: it must be 1 to 1024 characters of printable ASCII"


def token_of(path: Path, *, monotonic: Callable[[], float]) -> Token:
    """Return what reads the token in a file; while that cannot be read, the one from before is used."""
    tokens = TokenFile(path, monotonic=monotonic)
    outage = Outage("the token for Prometheus", log, monotonic, "the data source is not queried without it")

    async def token() -> str | None:
        try:
            header = await tokens.header()
        except CredentialsError as error:
            outage.failed(error)
            return None
        outage.ended()
        return header.removeprefix(BEARER)

    return token


def _unreadable(token_file: Path) -> str | None:
    """Return why a token file cannot be read; None where it can."""
    try:
        with token_file.open("rb"):
            return None
    except OSError as error:
        return error.strerror
