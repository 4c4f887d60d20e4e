"""Reads what kubelets say, by the API server's proxy of nodes and the rights of the person.

A kubelet may answer with anything, a redirect among it, and the API server passes that on. kubectl would
follow it, and send the token of the person to wherever it leads. ``kubectl proxy`` passes it on too, and
here it is not followed. No word of an answer is shown, since it may be the kubelet's.
"""

from __future__ import annotations

import http.client
import socket
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from winpool.cli.kubectl import Kubectl, NotAskedError
from winpool.kubelet.samples import MAX_BODY_BYTES, SUMMARY_PATH, PollError, parse_summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from winpool.model.pressure import PodUsage

ANSWER_SECONDS: Final = 30
"""How long a kubelet may take: the API server sets no limit, and a node without memory may never answer."""

FORBIDDEN: Final = "you may not get nodes/proxy, by which a kubelet is asked: ask someone who may"

NO_SOCKETS: Final = (
    "Python has no Unix sockets on this system, and kubelets are asked by one of kubectl proxy"
)

_REDIRECTS: Final = range(300, 400)


@contextmanager
def asking_kubelet(kubectl: Kubectl, node: str, below: str) -> Iterator[Callable[[str], bytes]]:
    """Give what returns the kubelet's answer at a path, with a query. Both raise NotAskedError."""
    if not hasattr(socket, "AF_UNIX"):
        raise NotAskedError(NO_SOCKETS)
    path = f"/api/v1/nodes/{quote(node, safe='')}/proxy{below}"
    with kubectl.proxied(path) as address:
        yield lambda query: _answer(address, path + query, node)


@contextmanager
def sampling(kubectl: Kubectl, node: str) -> Iterator[Callable[[], tuple[float, dict[str, PodUsage]]]]:
    """Give what returns the kubelet's numbers of its pods, and its time of them. Both raise NotAskedError."""
    with asking_kubelet(kubectl, node, SUMMARY_PATH) as ask:
        yield partial(_sample, ask, node)


def _sample(ask: Callable[[str], bytes], node: str) -> tuple[float, dict[str, PodUsage]]:
    try:
        sample, usage = parse_summary(ask(""), node=node, pods=True)
    except PollError as error:
        raise NotAskedError(f"the kubelet cannot be understood: {error}") from None
    if sample.taken_at is None or usage is None:
        raise NotAskedError("the kubelet does not say of when its numbers are")
    return sample.taken_at, usage


def _answer(address: str, path: str, node: str) -> bytes:
    connection = _Connection(address)
    try:
        connection.request("GET", path, headers={"Accept": "application/json"})
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise NotAskedError(_why(answer.status, node))
        return _body(answer, node)
    except TimeoutError:
        raise NotAskedError(f"the kubelet of {node} has not answered within {ANSWER_SECONDS} s") from None
    except (OSError, ValueError, http.client.HTTPException):
        raise NotAskedError(f"the answer of the kubelet of {node} cannot be read to its end") from None
    finally:
        connection.close()


def _body(answer: http.client.HTTPResponse, node: str) -> bytes:
    body, until = b"", time.monotonic() + ANSWER_SECONDS
    while part := answer.read1(MAX_BODY_BYTES):
        body += part
        if len(body) > MAX_BODY_BYTES:
            raise NotAskedError(f"the kubelet of {node} answers with more than {MAX_BODY_BYTES} bytes")
        if time.monotonic() > until:
            raise TimeoutError
    return body


def _why(status: int, node: str) -> str:
    """Return why there are no numbers. Each of these answers may be the kubelet's own, a refusal too."""
    if status == http.client.FORBIDDEN:
        return FORBIDDEN
    if status in _REDIRECTS:
        return f"the kubelet of {node} answers with a redirect, which is not followed"
    return f"the API server, or the kubelet of {node}, answers with the status {status}"


class _Connection(http.client.HTTPConnection):
    """A connection to a Unix socket. To kubectl proxy it is one of this host, as it demands."""

    def __init__(self, address: str) -> None:
        super().__init__("localhost", timeout=ANSWER_SECONDS)
        self._address = address

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(ANSWER_SECONDS)
        self.sock.connect(self._address)
