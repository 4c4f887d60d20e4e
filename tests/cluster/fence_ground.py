"""What the tests of the fence write to: nodes of each kind and a pool, with the operator's own identity."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import yaml

from cluster.fenced import (
    BEFORE,
    CONTROL_PLANE,
    HARMS,
    SCALE_DOWN_DISABLED,
    THEIRS,
    Object,
    Write,
)
from cluster.forging import NOBODY, a_record
from harness.identity import Caller
from harness.operator import USER
from harness.waiting import eventually
from testbed.cluster import Testbed
from winpool.api.fence import SERVED_ANNOTATIONS
from winpool.api.keys import (
    APPLIED_ANNOTATION,
    BORROWED_ANNOTATIONS,
    CONDITIONS,
    OS_LABEL,
    OS_WINDOWS,
    POOL_LABEL,
    RESERVED_MEMORY_TAINT,
)

NODES: Final = "/api/v1/nodes"
POOLS: Final = "/apis/winpool.dev/v1alpha1/windowsnodepools"
RBAC: Final = "rbac.authorization.k8s.io"
KINDS: Final = ("windows", "linux", "plane", "stray", "bare", "bare-linux", "pool")
HARD: Final = "example.com/hard"
"""A NoExecute taint that the Windows node has from the start."""


@dataclass(frozen=True)
class Ground:
    """Nodes and a pool, by the names of the writes, the operator's identity and that of an admin.

    ``linux`` is a Linux node, ``plane`` one of the control plane with all that a Linux node may have, and
    ``stray`` one that was a Windows node in a pool. What is ``bare`` has no more than it must have.
    """

    testbed: Testbed
    operator: Caller
    admin: Caller
    paths: dict[str, str]

    def read(self, kind: str) -> Object:
        """Return an object. One that is to be bare is made so: a controller annotates all nodes."""
        path = self.paths[kind]
        if kind.startswith("bare"):
            status, found = self.admin.patch(f"{path}/status", {"status": {"conditions": None}})
            assert status == HTTPStatus.OK, found
            nothing = {"metadata": {"annotations": None}, "spec": {"taints": None, "unschedulable": None}}
            status, found = self.admin.patch(path, nothing)
        else:
            status, found = self.operator.ask("GET", path)
        assert status == HTTPStatus.OK, found
        return found

    def send(self, write: Write) -> tuple[int, Object]:
        """Send the object back with its change, as often as another writer is first; return the answer."""
        path = self.paths[write.on]

        def answer() -> tuple[int, Object] | None:
            found = self.read(write.on)
            if write.on.startswith("bare") and not is_bare(found):
                return None
            changed = deepcopy(found)
            write.change(changed)
            said = self.operator.ask("PUT", f"{path}{write.subresource}?dryRun=All", changed)
            return said if said[0] != HTTPStatus.CONFLICT else None

        answered = eventually(answer, what=f"nobody else writes {path} meanwhile")
        assert answered
        return answered


@contextmanager
def standing(testbed: Testbed, *, directory: Path) -> Iterator[Ground]:
    """Create the nodes and the pool; take them away again."""
    suffix = secrets.token_hex(3)
    owner = json.loads(testbed.kubectl("get", "namespace", "default", "-o", "json").stdout)
    uid = owner["metadata"]["uid"]
    named = {kind: f"fenced-{kind}-{suffix}" for kind in KINDS}
    file = directory / "ground.yaml"
    file.write_text(
        yaml.safe_dump_all(
            [
                *rights(f"fence-test-{suffix}"),
                *the_nodes(named, owner=namespace_reference(uid)),
                a_pool(named["pool"], only=suffix),
            ]
        )
    )
    testbed.kubectl("apply", "-f", str(file))
    paths = {kind: f"{POOLS if kind == 'pool' else NODES}/{name}" for kind, name in named.items()}
    try:
        with Caller.named(testbed, "witness", "system:masters") as witness:
            for kind in ("windows", "linux", "plane", "stray"):
                more = () if kind in ("windows", "linux") else CONDITIONS
                status, said = witness.patch(f"{paths[kind]}/status", {"status": reported(*more)})
                assert status == HTTPStatus.OK, said
            with Caller.named(testbed, USER, "system:authenticated") as operator:
                mine = Ground(testbed, operator, witness, paths)
                eventually(lambda: is_refused(mine.send(HARMS["annotate it"])), what="rights and fence")
                yield mine
            witness.patch(paths["windows"], {"metadata": {"finalizers": None}})
            witness.patch(paths["pool"], {"metadata": {"finalizers": None}})
    finally:
        testbed.kubectl("delete", "-f", str(file), "--wait=false")


def rights(name: str) -> list[Object]:
    """Return all rights on nodes, pods, pools and events for the operator, to evict and to get tokens."""
    verbs = ["get", "create", "update", "patch", "delete"]
    rules = [
        {"apiGroups": [""], "resources": ["nodes", "nodes/status"], "verbs": verbs},
        {
            "apiGroups": ["winpool.dev"],
            "resources": ["windowsnodepools", "windowsnodepools/status"],
            "verbs": verbs,
        },
        {"apiGroups": [""], "resources": ["pods/eviction", "serviceaccounts/token"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": [*verbs, "deletecollection"]},
        {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": verbs},
    ]
    about = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": name}}
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    user = {"apiGroup": RBAC, "kind": "User", "name": USER}
    return [
        {**about, "kind": "ClusterRole", "rules": rules},
        {**about, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [user]},
    ]


def the_nodes(named: dict[str, str], *, owner: Object) -> list[Object]:
    """Return the manifests of all nodes, by the names of the writes."""
    borrowed = {THEIRS: "theirs", SCALE_DOWN_DISABLED: "true"}
    found_there = {
        THEIRS: "theirs",
        **dict.fromkeys(BORROWED_ANNOTATIONS, "false"),
        **dict.fromkeys(SERVED_ANNOTATIONS, "claim-1"),
    }
    hard = {"key": HARD, "effect": "NoExecute"}
    plane = {"key": CONTROL_PLANE, "effect": "NoSchedule"}
    ours = {"key": RESERVED_MEMORY_TAINT, "effect": "NoSchedule"}
    found = {
        "windows": a_node(
            named["windows"],
            system="windows",
            taints=[hard],
            unschedulable=True,
            finalizers=[THEIRS],
            annotations=found_there,
        ),
        "linux": a_node(named["linux"], system="linux", ownerReferences=[owner]),
        "plane": a_node(
            named["plane"],
            system="linux",
            labels={CONTROL_PLANE: ""},
            taints=[plane],
            unschedulable=True,
            annotations=borrowed,
        ),
        "stray": a_node(
            named["stray"],
            system="linux",
            labels={POOL_LABEL: "p"},
            taints=[ours],
            unschedulable=True,
            annotations={**borrowed, APPLIED_ANNOTATION: a_record(NOBODY)},  # operators leave it alone
        ),
        "bare": a_bare_node(named["bare"], labels={OS_LABEL: OS_WINDOWS}),
        "bare-linux": a_bare_node(named["bare-linux"]),
    }
    return list(found.values())


def a_node(
    name: str,
    *,
    system: str,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Object] = (),
    unschedulable: bool = False,
    **metadata: Any,
) -> Object:
    """Return a node with these and with what every node has here."""
    all_labels = {
        "kubernetes.io/os": system,
        "kubernetes.io/hostname": name,
        "node.kubernetes.io/windows-build": "10.0.20348",
        "node.kubernetes.io/instance-type": "small",
        BEFORE: "x",
        **(labels or {}),
    }
    all_taints = [
        {"key": BEFORE, "effect": "NoSchedule"},
        {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule", "value": "1"},
        *taints,
    ]
    about = {"name": name, "labels": all_labels, "annotations": {THEIRS: "theirs"}, **metadata}
    spec = {"taints": all_taints, **({"unschedulable": True} if unschedulable else {})}
    return {"apiVersion": "v1", "kind": "Node", "metadata": about, "spec": spec}


def a_bare_node(name: str, **metadata: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **metadata}}


def is_bare(found: Object) -> bool:
    """Whether a node has no annotations, taints, cordon and conditions, and no label but its system's."""
    has = {
        *found["metadata"].keys() & {"annotations"},
        *found["spec"].keys() & {"taints", "unschedulable"},
        *found["status"].keys() & {"conditions"},
        *found["metadata"].get("labels", {}).keys() - {OS_LABEL, f"beta.{OS_LABEL}"},
    }
    return not has


def namespace_reference(uid: str) -> Object:
    """Return an owner that is there, or the garbage collector would delete what it owns."""
    return {"apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": uid}


def reported(*types: str) -> Object:
    """Return what a kubelet would say, and further conditions of these types."""
    further = [{"type": each, "status": "True", "reason": "Before"} for each in types]
    return {
        "capacity": {"memory": "8Gi", "cpu": "2", "pods": "110"},
        "allocatable": {"memory": "6Gi", "cpu": "2", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}, *further],
    }


def a_pool(name: str, *, only: str) -> Object:
    """Return a pool that selects no node."""
    return {
        "apiVersion": "winpool.dev/v1alpha1",
        "kind": "WindowsNodePool",
        "metadata": {
            "name": name,
            "labels": {"example.com/before": "x"},
            "annotations": {THEIRS: "theirs"},
            "finalizers": [THEIRS],
        },
        "spec": {
            "nodeSelector": {"matchLabels": {"example.com/run": f"fence-{only}"}},
            "os": {"version": "2022"},
        },
    }


def is_refused(answer: tuple[int, Object]) -> bool:
    status, said = answer
    return status == HTTPStatus.FORBIDDEN and "ValidatingAdmissionPolicy 'winpool-fence-" in said["message"]


@contextmanager
def standing_pods(
    admin: Caller, *namespaces: str, spec: Object | None = None, metadata: Object | None = None
) -> Iterator[dict[str, str]]:
    """Create a pod ``target`` in each of the namespaces; yield their UIDs; take them away again.

    ``spec`` and ``metadata`` have fields that are other than usual.
    """
    usual = {
        "containers": [
            {
                "name": "c",
                "image": "example.com/c:1",
                # Pod Security asks for it.
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
        ],
        "tolerations": [{"operator": "Exists"}],
        "nodeName": f"nowhere-{secrets.token_hex(3)}",
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    }
    paths = {each: f"/api/v1/namespaces/{each}/pods" for each in namespaces}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "target", **(metadata or {})},
        "spec": {**usual, **(spec or {})},
    }
    uids = {}
    for namespace, path in paths.items():
        status, said = admin.ask("POST", path, body)
        assert status == HTTPStatus.CREATED, said
        uids[namespace] = said["metadata"]["uid"]
    try:
        yield uids
    finally:
        for path in paths.values():
            admin.ask("DELETE", f"{path}/target", {"gracePeriodSeconds": 0})
