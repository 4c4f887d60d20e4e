"""``kubectl winpool version`` on a real API server, with a Pod of the operator, its Lease and the CRD."""

from __future__ import annotations

import json
from typing import Any, Final

import yaml

from cluster.test_cli_status import winpool
from harness.world import World
from winpool import __version__

SPACE: Final = "winpool-system"
NAME: Final = "winpool-7d9cbb6f4-abcde"

POD: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": NAME,
        "namespace": SPACE,
        "labels": {"app.kubernetes.io/name": "winpool", "app.kubernetes.io/component": "operator"},
    },
    "spec": {
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "operator",
                "image": f"registry.example/winpool:{__version__}",
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
    },
}
LEASE: Final = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "winpool", "namespace": SPACE},
    "spec": {"holderIdentity": f"{NAME}_1a2b3c4d", "leaseDurationSeconds": 15},
}


def test_the_versions_of_an_installation_are_known_and_fit(world: World) -> None:
    admin = world.testbed.kubeconfig("admin")
    before = winpool(admin, "version")
    assert before.returncode == 1
    assert before.stdout.splitlines()[:2] == [f"Client:    {__version__}", "Operator:  not known"]
    assert f"no Pod of an operator is in the namespace {SPACE}" in before.stderr
    world.kubectl("create", "-f", "-", stdin=yaml.safe_dump_all([POD, LEASE]))
    try:
        done = winpool(admin, "version", "-o", "json")
        assert (done.returncode, done.stderr) == (0, "")
        found = json.loads(done.stdout)
        assert found["client"]["version"] == found["operator"]["version"] == __version__
        assert [each["leads"] for each in found["operator"]["pods"]] == [True]
        crd = json.loads(world.kubectl("get", "crd", "windowsnodepools.winpool.dev", "-o", "json"))
        assert found["crd"] == {
            "versions": ["v1alpha1"],
            "generation": crd["metadata"]["generation"],
            "lackingFields": [],
        }
        assert found["misfits"] == found["problems"] == []
    finally:
        world.kubectl("-n", SPACE, "delete", "--now", f"pod/{NAME}", "lease/winpool")
