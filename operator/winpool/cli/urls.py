"""The address of a server that a person names on the command line."""

from __future__ import annotations

import argparse
import ipaddress
from typing import Final
from urllib.parse import urlsplit

_PATH: Final = "/memory"


def server_url(text: str) -> str:
    """Return the address without ``/memory`` and without a slash at its end, as an argument.

    It is HTTPS, since a token may go there, but for this host itself.
    """
    try:
        url = urlsplit(text)
        host, port = url.hostname or "", url.port
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a URL") from None
    if "@" in url.netloc:
        raise argparse.ArgumentTypeError("the URL has a user or a password: give a token with --token-file")
    if not host or url.scheme not in ("http", "https") or url.query or url.fragment or port == 0:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the address of an operator, as https://HOST:PORT is"
        )
    if url.scheme == "http" and not _is_this_host(host):
        raise argparse.ArgumentTypeError(f"{text!r} has to begin with https://: a token may be sent there")
    return f"{url.scheme}://{url.netloc}{url.path.rstrip('/').removesuffix(_PATH).rstrip('/')}"


def _is_this_host(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
