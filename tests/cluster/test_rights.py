"""What the operator's role lets it do, by the API server's own word: no more than it needs.

As long as winpool evicts nothing, P5 is a matter of rights and of the brake: pods can be listed and nothing
else, and what a taint may do to them is in ``test_brake``.
"""

from __future__ import annotations

import pytest

from harness.operator import USER
from harness.waiting import eventually
from testbed.cluster import Testbed

WAYS_TO_A_POD = [
    (verb, resource)
    for resource in ("pods", "pods/eviction", "pods/status", "pods/binding", "pods/exec")
    for verb in ("create", "update", "patch", "delete", "deletecollection")
]
"""Owners of pods are in ``OTHERS``: who scales a ReplicaSet down deletes pods too."""
OTHERS = [
    ("delete", "nodes"),
    ("deletecollection", "nodes"),
    ("patch", "nodes/status"),
    ("get", "nodes/proxy"),
    ("get", "pods"),
    ("watch", "pods"),
    ("get", "pods/log"),
    ("delete", "windowsnodepools.winpool.dev"),
    ("create", "windowsnodepools.winpool.dev"),
    ("get", "validatingadmissionpolicies.admissionregistration.k8s.io"),
    ("list", "validatingadmissionpolicies.admissionregistration.k8s.io"),
    ("patch", "validatingadmissionpolicies.admissionregistration.k8s.io"),
    ("delete", "validatingadmissionpolicybindings.admissionregistration.k8s.io"),
    ("get", "secrets"),
    ("list", "secrets"),
    ("delete", "namespaces"),
    ("patch", "replicasets.apps"),
    ("patch", "deployments.apps"),
    ("delete", "daemonsets.apps"),
    ("patch", "poddisruptionbudgets.policy"),
    ("create", "clusterrolebindings.rbac.authorization.k8s.io"),
    ("create", "serviceaccounts/token"),
    ("impersonate", "users"),
    ("create", "tokenreviews.authentication.k8s.io"),
    ("create", "subjectaccessreviews.authorization.k8s.io"),
]


def allowed(testbed: Testbed, verb: str, resource: str) -> str:
    """Return "yes" or "no" for all namespaces, as the API server answers."""
    kind, _, subresource = resource.partition("/")
    about = [kind, f"--subresource={subresource}"] if subresource else [kind]
    asked = testbed.kubectl("auth", "can-i", verb, *about, "-A", "--as", USER, check=False)
    return asked.stdout.strip().splitlines()[-1]


def test_there_is_no_way_to_a_pod(testbed: Testbed) -> None:
    answers = {f"{verb} {resource}": allowed(testbed, verb, resource) for verb, resource in WAYS_TO_A_POD}
    assert answers == dict.fromkeys(answers, "no")


@pytest.mark.parametrize(("verb", "resource"), OTHERS, ids=lambda text: text.replace("/", "."))
def test_it_may_not(testbed: Testbed, verb: str, resource: str) -> None:
    # Another test may have taken back the right a moment ago.
    eventually(lambda: allowed(testbed, verb, resource) == "no", what="no such right", seconds=30)


def test_it_may_do_what_it_does(testbed: Testbed) -> None:
    """Or the answers above would say nothing."""
    for verb in ("list", "watch", "patch"):
        assert allowed(testbed, verb, "nodes") == "yes"
        assert allowed(testbed, verb, "windowsnodepools.winpool.dev") == "yes"
