"""A proxy of its own for each test, and a client that goes through it."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import pytest

from cluster.faults.client import ROLE, Client, MakeClient
from testbed.cluster import Testbed
from testbed.faults import FaultProxy
from testbed.kubeconfig import by_token_file
from testbed.paths import write_atomically


@pytest.fixture(scope="session")
def tester(testbed: Testbed) -> str:
    """A token that may do everything, and a kubeconfig of ROLE with it, for one control plane."""
    testbed.kubectl("create", "namespace", "faults")
    testbed.kubectl("create", "serviceaccount", ROLE, "-n", "faults")
    grant = ["--clusterrole=cluster-admin", f"--serviceaccount=faults:{ROLE}"]
    testbed.kubectl("create", "clusterrolebinding", f"faults-{ROLE}", *grant)
    token = testbed.kubectl("create", "token", ROLE, "-n", "faults").stdout.strip()
    file = testbed.directory / f"{ROLE}.token"
    write_atomically(file, token)
    text = by_token_file(server=testbed.server, ca_file=testbed.ca_file, user=ROLE, token_file=file)
    write_atomically(testbed.layout.kubeconfig(ROLE), text)
    return token


@pytest.fixture
def proxy(testbed: Testbed) -> Iterator[FaultProxy]:
    with FaultProxy(testbed) as running:
        yield running


@pytest.fixture
def make_client(testbed: Testbed, proxy: FaultProxy, tester: str) -> Iterator[MakeClient]:
    tls = ssl.create_default_context(cafile=str(testbed.ca_file))
    made: list[Client] = []

    def make() -> Client:
        made.append(Client(proxy.server, tls=tls, token=tester))
        return made[-1]

    yield make
    for client in made:
        client.__exit__()


@pytest.fixture
def client(make_client: MakeClient) -> Client:
    return make_client()


@pytest.fixture
def name(testbed: Testbed, tester: str, request: pytest.FixtureRequest) -> str:
    """A config map of the test's own, with the value "old"."""
    name = request.node.name.replace("_", "-").replace("[", ".").replace("]", "")[:60].rstrip("-.")
    testbed.kubectl("create", "configmap", name, "-n", "faults", "--from-literal=value=old")
    return str(name)
