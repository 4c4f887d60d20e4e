"""A machine that keeps the token which it is shown: a Node whose kubelet endpoint is a server of the test."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from harness.listener import a_pair
from harness.world import NODES, World
from testbed.cluster import Testbed
from testbed.pki import Authority, Pki

Object = dict[str, Any]

BEARER: Final = "Bearer "


@dataclass
class Heard:
    """What was asked at the server, oldest first."""

    paths: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)


@contextmanager
def listening(
    testbed: Testbed, directory: Path, *, address: str, name: str, location: str = ""
) -> Iterator[tuple[Heard, int]]:
    """Serve HTTPS at an address, with a certificate of the kubelets' CA; yield what is heard, and the port.

    Args:
        testbed: whose CA.
        directory: for the certificate.
        address: of loopback.
        name: of the node.
        location: where everybody is sent by a redirect; empty: every answer is 500.

    """
    heard = Heard()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.paths.append(self.path)
            heard.tokens.append(self.headers.get("Authorization", "").removeprefix(BEARER))
            self.send_response(302 if location else 500)
            if location:
                self.send_header("Location", location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Say nothing."""

    server = ThreadingHTTPServer((address, 0), Handler)
    authority = Authority.load(Pki(testbed.layout.pki).kubelet_ca)
    pair = authority.issue_serving(
        a_pair(directory, f"thief-{address}"),
        common_name=f"system:node:{name}",
        now=datetime.now(UTC),
        names=[name],
        addresses=[address],
    )
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pair.certificate, pair.key)
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield heard, server.server_address[1]
    finally:
        server.shutdown()
        thread.join(timeout=10)
        server.server_close()


def enrol(world: World, name: str, *, labels: Mapping[str, str], address: str | None, port: int) -> None:
    """Make a Node that says of itself that its kubelet is there; without an address it has none."""
    api = world.testbed.api()
    about = {"name": name, "labels": {"kubernetes.io/os": "windows", **world.selector, **labels}}
    api.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": about})
    status: Object = {
        "capacity": {"memory": "16Gi", "cpu": "4", "pods": "110"},
        "allocatable": {"memory": "13Gi", "cpu": "4", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "nodeInfo": node_info(world),
    }
    if address is not None:
        status["addresses"] = [{"type": "InternalIP", "address": address}]
    api.merge(f"{NODES}/{name}/status", {"status": status})


def node_info(world: World) -> Object:
    """Return what a simulated node says about its system."""
    return dict(next(iter(world.nodes().values()))["status"]["nodeInfo"])
