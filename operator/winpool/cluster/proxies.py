"""Which proxy to use for the API server: that of the kubeconfig, or of the environment, as in client-go.

The rules for HTTPS_PROXY and NO_PROXY are those of golang.org/x/net/http/httpproxy. Python's own
(urllib, and aiohttp with it) know no address ranges and no ports in NO_PROXY.
"""

from __future__ import annotations

import base64
import ipaddress
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from yarl import URL

from winpool.cluster.errors import CredentialsError

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger(__name__)

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
