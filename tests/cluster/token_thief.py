"""A machine that keeps the token which it is shown: a Node whose kubelet endpoint is a server of the test."""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from cluster.everything import SPECIAL, Tried, let_through, may
from cluster.memory_pods import NAMESPACE
from cluster.memory_world import READER_USER
from harness.identity import Caller
from harness.listener import a_pair
from harness.serving import serving
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
    with serving(server):
        yield heard, server.server_address[1]


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
    with nobodys(testbed) as nobody:
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


@contextmanager
def nobodys(testbed: Testbed) -> Iterator[str]:
    """Yield the token of a ServiceAccount that nobody has given anything."""
    name = f"nobody-{secrets.token_hex(3)}"
    testbed.kubectl("create", "serviceaccount", name)
    try:
        yield testbed.kubectl("create", "token", name).stdout.strip()
    finally:
        testbed.kubectl("delete", "serviceaccount", name)


def beyond_nobody(testbed: Testbed, token: str) -> set[Tried]:
    """Send every request that the API server knows; return what only nobody's token is refused."""
    with (
        nobodys(testbed) as nobody,
        Caller.bearer(testbed, token) as thief,
        Caller.bearer(testbed, nobody) as other,
    ):
        found: set[Tried] = set()
        for namespace in (NAMESPACE, "winpool-system"):
            everyones = let_through(other, namespace=namespace)
            # Whoever asks what he may do is answered; without that, nothing has been tried.
            assert any(each.resource == "selfsubjectrulesreviews" for each in everyones)
            found |= let_through(thief, namespace=namespace) - everyones
        return found


def special_rights(testbed: Testbed, token: str) -> set[tuple[str, str, str]]:
    """Return which of the rights that no discovery lists the token has."""
    with Caller.bearer(testbed, token) as thief:
        return {each for each in SPECIAL if may(thief, *each)}


def as_others(testbed: Testbed, token: str) -> dict[str, int]:
    """Read all Secrets with the names of others on the request; return what was not refused."""
    others: dict[str, dict[str, str]] = {
        "an admin": {"User": "admin", "Group": "system:masters"},
        "the operator": {"User": "system:serviceaccount:winpool-system:winpool"},
        "its own group": {"User": READER_USER, "Group": "system:masters"},
        "a UID": {"User": READER_USER, "Uid": "0"},
    }
    codes: dict[str, int] = {}
    for who, named in others.items():
        headers = {f"Impersonate-{kind}": value for kind, value in named.items()}
        with Caller(testbed, {"Authorization": f"{BEARER}{token}", **headers}) as caller:
            codes[who] = caller.status("GET", "/api/v1/secrets")
    return {who: code for who, code in codes.items() if code != 403}


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
