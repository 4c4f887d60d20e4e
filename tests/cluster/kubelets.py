"""What the tests of kubelet endpoints share: accounts with some rights, and a client that shows tokens."""

from __future__ import annotations

import http.client
import json
import ssl
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cluster.simulated import Nodes, simulated
from testbed.cluster import Testbed
from testbed.waiting import wait_until
from testbed.winsim.control import FleetControl

GUARD_SECONDS: Final = 120.0
"""Against waiting for ever; answers come in milliseconds."""
SUMMARY: Final = "/stats/summary"
BEYOND: Final = (
    *("/metrics", "/metrics/resource", "/metrics/cadvisor", "/pods", "/runningpods/", "/spec/", "/logs/"),
    *("/exec/default/shop/app", "/run/default/shop/app", "/debug/pprof/", "/healthz", "/checkpoint/a/b/c"),
)
"""Paths of a kubelet that need other rights.
https://kubernetes.io/docs/reference/access-authn-authz/kubelet-authn-authz/"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back from an endpoint."""

    status: int
    body: bytes
    location: str | None

    @property
    def parsed(self) -> dict[str, Any]:
        """The body as JSON; what is no number of JSON is refused."""
        return dict(json.loads(self.body, parse_constant=_refuse))


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number of JSON")


@dataclass(frozen=True, slots=True)
class Kubelets:
    """Two Windows nodes whose endpoints are served, and a client of them."""

    testbed: Testbed
    nodes: Nodes
    fleet: FleetControl

    def __getitem__(self, name: str) -> tuple[str, int]:
        """Return address and port of a kubelet, as its Node names them."""
        status = self.nodes.get(name)["status"]
        (address,) = (each["address"] for each in status["addresses"] if each["type"] == "InternalIP")
        return address, status["daemonEndpoints"]["kubeletEndpoint"]["Port"]

    def name_of(self, name: str) -> str:
        return f"{self.nodes.prefix}-{name}"

    def exporters(self, *names: str) -> dict[str, str]:
        """Return where the exporters of these nodes listen, by the full names of the nodes."""
        port = self.fleet.summary().exporter_port
        return {self.name_of(name): f"{self[name][0]}:{port}" for name in names}

    def ask(
        self,
        name: str,
        path: str = SUMMARY,
        *,
        token: str | None,
        timeout_seconds: float = GUARD_SECONDS,
    ) -> Answer:
        """Ask a kubelet for something, trusting no CA but that of the kubelets."""
        address, port = self[name]
        return ask_kubelet(self.testbed, address, port, path, token=token, timeout_seconds=timeout_seconds)

    def ask_exporter(self, name: str, *, timeout_seconds: float = GUARD_SECONDS) -> Answer:
        address, _ = self[name]
        connection = http.client.HTTPConnection(
            address, self.fleet.summary().exporter_port, timeout=timeout_seconds
        )
        return _asked(connection, "/metrics", {})

    @contextmanager
    def account(self, *resources: str) -> Iterator[str]:
        """Make a ServiceAccount that may get these subresources of nodes; yield a token of it."""
        name, made = f"reader-{uuid.uuid4().hex[:8]}", ["serviceaccount"]
        kubectl = self.testbed.kubectl
        kubectl("create", "serviceaccount", name)
        try:
            if resources:
                made += ["clusterrole", "clusterrolebinding"]
                kubectl("create", "clusterrole", name, "--verb=get", f"--resource={','.join(resources)}")
                kubectl(
                    "create", "clusterrolebinding", name, f"--clusterrole={name}",
                    f"--serviceaccount=default:{name}",
                )  # fmt: skip
                wait_until(
                    lambda: all(self._may_get(name, resource) for resource in resources),
                    what=f"the API server to know the rights of {name}",
                    timeout_seconds=GUARD_SECONDS,
                )
            yield kubectl("create", "token", name).stdout.strip()
        finally:
            for kind in made:
                kubectl("delete", kind, name, "--ignore-not-found")

    def _may_get(self, account: str, resource: str) -> bool:
        """Tell whether the API server lets it, which learns of a binding a moment after its answer."""
        kind, _, subresource = resource.partition("/")
        about = (kind, f"--subresource={subresource}", f"--as=system:serviceaccount:default:{account}")
        return self.testbed.kubectl("auth", "can-i", "get", *about, check=False).returncode == 0


def ask_kubelet(
    testbed: Testbed,
    address: str,
    port: int,
    path: str,
    *,
    token: str | None,
    timeout_seconds: float = GUARD_SECONDS,
) -> Answer:
    """Ask a kubelet by its address, trusting no CA but that of the kubelets."""
    tls = ssl.create_default_context(cafile=str(testbed.kubelet_ca_file))
    connection = http.client.HTTPSConnection(address, port, context=tls, timeout=timeout_seconds)
    return _asked(connection, path, {} if token is None else {"Authorization": f"Bearer {token}"})


def _asked(connection: http.client.HTTPConnection, path: str, headers: dict[str, str]) -> Answer:
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return Answer(answer.status, answer.read(), answer.headers.get("Location"))
    finally:
        connection.close()


@contextmanager
def kubelets(testbed: Testbed, directory: Path, *extra: str) -> Iterator[Kubelets]:
    """Run two Windows nodes that serve their endpoints at free ports."""
    control = directory / "fleet.sock"
    arguments: Sequence[str] = (
        "--kubelet-port=0",
        "--exporter-port=0",
        f"--control-socket={control}",
        "--status-sync-seconds=1",
        "--windows-memory=16Gi",
        "--windows-page-file=1Gi",
        *extra,
    )
    with simulated(testbed, directory, *arguments, windows=2, linux=1) as nodes:
        yield Kubelets(testbed, nodes, FleetControl(control))
