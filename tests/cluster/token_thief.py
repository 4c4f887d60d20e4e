"""A machine that keeps the token which it is shown: a Node whose kubelet endpoint is a server of the test."""

from __future__ import annotations

import secrets
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from cluster.memory_pods import NAMESPACE
from harness.identity import Caller
from harness.listener import a_pair
from harness.world import NODES, World
from testbed.cluster import Testbed
from testbed.pki import Authority, Pki
from winpool.api.keys import MEMORY_ANNOTATION

Object = dict[str, Any]

BEARER: Final = "Bearer "
RULES: Final = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"


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
    api, info = world.testbed.api(), node_info(world)
    about = {"name": name, "labels": {"kubernetes.io/os": "windows", **world.selector, **labels}}
    api.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": about})
    status: Object = {
        "capacity": {"memory": "16Gi", "cpu": "4", "pods": "110"},
        "allocatable": {"memory": "13Gi", "cpu": "4", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "nodeInfo": info,
    }
    if address is not None:
        status["addresses"] = [{"type": "InternalIP", "address": address}]
    api.merge(f"{NODES}/{name}/status", {"status": status})


def node_info(world: World) -> Object:
    """Return what a simulated node says about its system."""
    return dict(next(iter(world.nodes().values()))["status"]["nodeInfo"])


def worth(testbed: Testbed, token: str) -> set[tuple[str, str]]:
    """Return what the token may do beyond what a ServiceAccount may that nobody has given anything."""
    name = f"nobody-{secrets.token_hex(3)}"
    testbed.kubectl("create", "serviceaccount", name)
    try:
        nobody = testbed.kubectl("create", "token", name).stdout.strip()
        found = {who: set[tuple[str, str]]() for who in (token, nobody)}
        for who, rights in found.items():
            with Caller.bearer(testbed, who) as caller:
                for namespace in (NAMESPACE, "kube-system", "winpool-system"):
                    about = {
                        "apiVersion": "authorization.k8s.io/v1",
                        "kind": "SelfSubjectRulesReview",
                        "spec": {"namespace": namespace},
                    }
                    code, answer = caller.ask("POST", RULES, about)
                    assert code == 201, answer
                    status = answer["status"]
                    assert not status["incomplete"] or status["resourceRules"]
                    for kind, named in (
                        ("resourceRules", "resources"),
                        ("nonResourceRules", "nonResourceURLs"),
                    ):
                        rights |= {
                            (verb, what)
                            for rule in status[kind]
                            for verb in rule["verbs"]
                            for what in rule[named]
                        }
        return found[token] - found[nobody]
    finally:
        testbed.kubectl("delete", "serviceaccount", name)


def tried(testbed: Testbed, token: str, *, node: str, pod: str) -> dict[str, int]:
    """Try what a thief would like; return what was not refused."""
    pods, account = (
        f"/api/v1/namespaces/{NAMESPACE}/pods",
        "/api/v1/namespaces/winpool-system/serviceaccounts",
    )
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    change: Object = {"metadata": {"annotations": {MEMORY_ANNOTATION: "{}"}}}
    asks: list[tuple[str, str, Object | None]] = [
        ("GET", "/api/v1/nodes", None),
        ("GET", f"/api/v1/nodes/{node}", None),
        ("GET", f"/api/v1/nodes/{node}/proxy/stats/summary", None),
        ("GET", "/api/v1/secrets", None),
        ("GET", "/api/v1/pods", None),
        ("GET", "/apis/winpool.dev/v1alpha1/windowsnodepools", None),
        ("POST", f"{pods}/{pod}/eviction", eviction),
        ("DELETE", f"{pods}/{pod}", None),
        ("POST", f"{account}/winpool/token", request),
        ("POST", f"{account}/winpool-kubelet-reader/token", request),
    ]
    with Caller.bearer(testbed, token) as thief:
        codes = {f"{method} {path}": thief.ask(method, path, body)[0] for method, path, body in asks}
        for path in (f"/api/v1/nodes/{node}", f"/api/v1/nodes/{node}/status"):
            codes[f"PATCH {path}"] = thief.patch(path, change)[0]
    return {what: code for what, code in codes.items() if code != 403}
