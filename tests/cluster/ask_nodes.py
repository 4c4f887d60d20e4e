"""Asks every simulated node something through the API server, and prints who answered.

Run as a program by ``test_testbed_netns.py``, inside a private network namespace and outside of one. The
one listener stands for the kubelets of all nodes; it answers with the address that it was asked at.
"""

from __future__ import annotations

import json
import ssl
import sys
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from testbed.cluster import Testbed
from testbed.pki import Pki
from testbed.winsim.machines import KUBELET_PORT

if TYPE_CHECKING:
    from collections.abc import Iterator


class Kubelets(BaseHTTPRequestHandler):
    """Every kubelet of the network at once."""

    def do_GET(self) -> None:
        asked_at, _ = self.connection.getsockname()
        body = f"{asked_at} {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def listening(pki: Pki) -> Iterator[None]:
    """Serve HTTPS on the kubelet's port of all addresses; clients must come with a certificate of ours."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pki.serving.certificate, pki.serving.key)
    tls.load_verify_locations(pki.ca.certificate)
    tls.verify_mode = ssl.CERT_REQUIRED
    with ThreadingHTTPServer(("0.0.0.0", KUBELET_PORT), Kubelets) as server:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        serving = Thread(target=server.serve_forever)
        serving.start()
        try:
            yield
        finally:
            server.shutdown()
            serving.join()


def ask_all(testbed: Testbed) -> dict[str, dict[str, str]]:
    """Return the address of every node and what came back when its proxy was asked."""
    nodes = json.loads(testbed.kubectl("get", "nodes", "-o", "json").stdout)["items"]
    found = {}
    for node in nodes:
        name = node["metadata"]["name"]
        answer = testbed.kubectl("get", "--raw", f"/api/v1/nodes/{name}/proxy/stats/summary", check=False)
        found[name] = {
            "address": node["status"]["addresses"][0]["address"],
            "answer": answer.stdout or answer.stderr,
        }
    return found


def main(directory: Path) -> None:
    """Bring up two nodes and print what ``ask_all`` found as JSON."""
    with Testbed.up(directory=directory, windows=2) as testbed, listening(Pki(testbed.layout.pki)):
        json.dump(ask_all(testbed), sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
