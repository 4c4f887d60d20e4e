"""The fence, attacked with the operator's own identity: what is not winpool's to write is refused.

The test gives the operator's account more rights than RBAC ships, or RBAC would refuse before the fence.
All writes are dry runs on real objects: admission decides them like any other.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from cluster.truth import await_issue
from harness.identity import Caller
from harness.nodes import taints_of
from harness.operator import USER
from harness.waiting import eventually
from harness.world import World
from testbed.cluster import Testbed
from winpool.api.fence import ALLOW_NO_EXECUTE, NO_EXECUTE_FENCE, NODE_FENCE, PARAMETERS, POOL_FENCE
from winpool.api.keys import APPLIED_ANNOTATION, HOLD_ANNOTATION, POOL_LABEL, RELEASE_FINALIZER
from winpool.api.node_keys import BORROWED_ANNOTATIONS, CONDITIONS, OWN_TAINTS

Object = dict[str, Any]
Change = Callable[[Object], None]

NODES: Final = "/api/v1/nodes"
POOLS: Final = "/apis/winpool.dev/v1alpha1/windowsnodepools"
RBAC: Final = "rbac.authorization.k8s.io"
THEIRS: Final = "example.com/theirs"
SENTENCE: Final = {
    "metadata": "of metadata the operator writes only labels, annotations",
    "spec": "of spec the operator writes only taints, unschedulable",
    "status": "of status the operator writes only conditions",
    "labels": "of labels the operator writes its own and those that a WindowsNodePool may set",
    "annotations": "of annotations the operator writes only winpool.dev/applied",
    "taints": "of taints the operator writes its own and those that a WindowsNodePool may set",
    "conditions": "of conditions the operator writes only WindowsMemoryPressure",
    "linux": "on a node without the label kubernetes.io/os=windows the operator adds nothing",
    "nodes": "the operator neither creates nor deletes nodes",
    "pools": "the operator neither creates nor deletes WindowsNodePools",
    "pool metadata": "of metadata the operator writes only finalizers",
    "pool spec": "the operator does not change the spec of a pool",
    "finalizers": "of finalizers the operator writes only winpool.dev/release-nodes",
}


@dataclass(frozen=True)
class Write:
    """A write with the operator's identity: what it changes of an object that it has read."""

    change: Change
    sentence: str = ""
    """A key of ``SENTENCE``: what the refusal says; empty where nothing is refused."""
    on: str = "windows"
    subresource: str = ""


# What is written


def label(key: str, value: str | None) -> Change:
    return lambda found: put(found["metadata"]["labels"], key, value)


def annotation(key: str, value: str | None) -> Change:
    return lambda found: put(found["metadata"]["annotations"], key, value)


def put(where: Object, key: str, value: Any) -> None:
    """Set an entry; remove it where ``value`` is None."""
    if value is None:
        del where[key]
    else:
        where[key] = value


def taint(key: str, effect: str = "NoSchedule", value: str = "") -> Change:
    added = {"key": key, "effect": effect, **({"value": value} if value else {})}
    return lambda found: found["spec"].setdefault("taints", []).append(added)


def no_taint(key: str) -> Change:
    def change(found: Object) -> None:
        kept = [each for each in found["spec"]["taints"] if each["key"] != key]
        assert len(kept) < len(found["spec"]["taints"])
        found["spec"]["taints"] = kept

    return change


def other_value(key: str) -> Change:
    def change(found: Object) -> None:
        [mine] = [each for each in found["spec"]["taints"] if each["key"] == key]
        mine["value"] = "other"

    return change


def condition(type_: str, status: str | None) -> Change:
    """Set a condition, or remove it where ``status`` is None."""

    def change(found: Object) -> None:
        others = [each for each in found["status"]["conditions"] if each["type"] != type_]
        mine = [{"type": type_, "status": status, "reason": "Ours"}] if status else []
        assert status or len(others) < len(found["status"]["conditions"])
        found["status"]["conditions"] = [*others, *mine]

    return change


def field(part: str, name: str, value: Any) -> Change:
    return lambda found: put(found[part], name, value)


def reference(uid: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}


HARMS: Final = {
    "own it": Write(field("metadata", "ownerReferences", [reference("a")]), "metadata"),
    "disown it": Write(field("metadata", "ownerReferences", None), "metadata", on="linux"),
    "add a finalizer": Write(field("metadata", "finalizers", [THEIRS, "example.com/more"]), "metadata"),
    "remove a finalizer": Write(field("metadata", "finalizers", None), "metadata"),
    "say it is Linux": Write(label("kubernetes.io/os", "linux"), "labels"),
    "hide its system": Write(label("kubernetes.io/os", None), "labels"),
    "rename its host": Write(label("kubernetes.io/hostname", "other"), "labels"),
    "say another build": Write(label("node.kubernetes.io/windows-build", "10.0.1"), "labels"),
    "move it to another zone": Write(label("topology.kubernetes.io/zone", "z2"), "labels"),
    "remove its instance type": Write(label("node.kubernetes.io/instance-type", None), "labels"),
    "give it to Karpenter": Write(label("karpenter.sh/nodepool", "p"), "labels"),
    "label under k8s.io": Write(label("sub.k8s.io/some", "x"), "labels"),
    "label under our prefix": Write(label("winpool.dev/unknown", "x"), "labels"),
    "annotate it": Write(annotation("example.com/new", "x"), "annotations"),
    "change an annotation": Write(annotation(THEIRS, "x"), "annotations"),
    "remove an annotation": Write(annotation(THEIRS, None), "annotations"),
    "hold it": Write(annotation(HOLD_ANNOTATION, ""), "annotations"),
    "change the runtime": Write(annotation("kubeadm.alpha.kubernetes.io/cri-socket", "x"), "annotations"),
    "annotate under our prefix": Write(annotation("winpool.dev/unknown", "x"), "annotations"),
    "call it out of service": Write(taint("node.kubernetes.io/out-of-service", "NoExecute"), "taints"),
    "call it disrupted": Write(taint("karpenter.sh/disrupted"), "taints"),
    "taint under our prefix": Write(taint("winpool.dev/other"), "taints"),
    "call it uninitialized": Write(taint("node.cloudprovider.kubernetes.io/uninitialized"), "taints"),
    "keep the autoscaler away": Write(no_taint("ToBeDeletedByClusterAutoscaler"), "taints"),
    "tell the autoscaler another time": Write(other_value("ToBeDeletedByClusterAutoscaler"), "taints"),
    "name its machine": Write(field("spec", "providerID", "example://other"), "spec"),
    "say it has more memory": Write(
        lambda found: put(found["status"]["capacity"], "memory", "1Ti"), "status", subresource="/status"
    ),
    "say it may use more memory": Write(
        lambda found: put(found["status"]["allocatable"], "memory", "1Ti"), "status", subresource="/status"
    ),
    "say another address": Write(
        field("status", "addresses", [{"type": "InternalIP", "address": "127.0.0.9"}]),
        "status",
        subresource="/status",
    ),
    "say another kernel": Write(
        lambda found: put(found["status"]["nodeInfo"], "kernelVersion", "10.0.1.1"),
        "status",
        subresource="/status",
    ),
    "say a volume is attached": Write(
        field("status", "volumesAttached", [{"name": "v", "devicePath": "d"}]),
        "status",
        subresource="/status",
    ),
    "say it has an image": Write(
        field("status", "images", [{"names": ["example.com/i:1"], "sizeBytes": 1}]),
        "status",
        subresource="/status",
    ),
    "say it is not Ready": Write(condition("Ready", "False"), "conditions", subresource="/status"),
    "forget whether it is Ready": Write(condition("Ready", None), "conditions", subresource="/status"),
    "say it lacks memory": Write(condition("MemoryPressure", "True"), "conditions", subresource="/status"),
    "say something else of it": Write(condition("Other", "True"), "conditions", subresource="/status"),
    "label through the status": Write(
        label("kubernetes.io/hostname", "other"), "labels", subresource="/status"
    ),
    "label a Linux node": Write(label("example.com/team", "x"), "linux", on="linux"),
    "claim a Linux node": Write(label(POOL_LABEL, "p"), "linux", on="linux"),
    "record on a Linux node": Write(annotation(APPLIED_ANNOTATION, "{}"), "linux", on="linux"),
    "taint a Linux node": Write(taint("os", value="windows"), "linux", on="linux"),
    "cordon a Linux node": Write(field("spec", "unschedulable", True), "linux", on="linux"),
    "change a pool": Write(field("spec", "mode", "Paused"), "pool spec", on="pool"),
    "label a pool": Write(label("example.com/team", "x"), "pool metadata", on="pool"),
    "annotate a pool": Write(annotation("example.com/new", "x"), "pool metadata", on="pool"),
    "own a pool": Write(field("metadata", "ownerReferences", [reference("a")]), "pool metadata", on="pool"),
    "add another finalizer to a pool": Write(
        field("metadata", "finalizers", [THEIRS, "example.com/more"]), "finalizers", on="pool"
    ),
    "remove another finalizer of a pool": Write(
        field("metadata", "finalizers", [RELEASE_FINALIZER]), "finalizers", on="pool"
    ),
}
"""What a fault of the operator or a stolen token could write, if RBAC were all there is."""

NEEDED: Final = {
    "nothing": Write(lambda _: None),
    "a label of the spec": Write(label("example.com/team", "payments")),
    "a role": Write(label("node-role.kubernetes.io/windows", "")),
    "a restricted label": Write(label("example.com.node-restriction.kubernetes.io/tenant", "a")),
    "an exception": Write(label("node.kubernetes.io/exclude-from-external-load-balancers", "true")),
    "a label of ours": Write(label(POOL_LABEL, "p")),
    "a label of theirs, restored": Write(label("example.com/before", None)),
    "the record": Write(annotation(APPLIED_ANNOTATION, "{}")),
    **{f"borrowed {key}": Write(annotation(key, "true")) for key in BORROWED_ANNOTATIONS},
    "a taint of the spec": Write(taint("os", value="windows")),
    "a taint with a vendor's key": Write(taint("node.kubernetes.io/os", value="windows")),
    "a NoExecute taint": Write(taint("os", "NoExecute", "windows")),
    **{f"taint {key}": Write(taint(key, effect)) for key, effect in OWN_TAINTS},
    "no taint": Write(no_taint("example.com/before")),
    "a cordon": Write(field("spec", "unschedulable", True)),
    **{f"condition {each}": Write(condition(each, "True"), subresource="/status") for each in CONDITIONS},
    "a label off a Linux node": Write(label("example.com/before", None), on="linux"),
    "a taint off a Linux node": Write(no_taint("example.com/before"), on="linux"),
    "our finalizer": Write(field("metadata", "finalizers", [THEIRS, RELEASE_FINALIZER]), on="pool"),
    "a status": Write(field("status", "nodes", 3), on="pool", subresource="/status"),
}
"""What the operator has to write."""


@dataclass(frozen=True)
class Ground:
    """A Windows node, a Linux node and a pool, by the names of the writes, and the operator's identity."""

    testbed: Testbed
    operator: Caller
    paths: dict[str, str]

    def send(self, write: Write) -> tuple[int, Object]:
        """Send the object back with its change, as often as another writer is first; return the answer."""
        path = self.paths[write.on]

        def answer() -> tuple[int, Object] | None:
            status, found = self.operator.ask("GET", path)
            assert status == HTTPStatus.OK, found
            changed = deepcopy(found)
            write.change(changed)
            said = self.operator.ask("PUT", f"{path}{write.subresource}?dryRun=All", changed)
            return said if said[0] != HTTPStatus.CONFLICT else None

        answered = eventually(answer, what=f"nobody else writes {path} meanwhile")
        assert answered
        return answered


@pytest.fixture(scope="module")
def ground(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    suffix = secrets.token_hex(3)
    owner = json.loads(testbed.kubectl("get", "namespace", "default", "-o", "json").stdout)
    uid = owner["metadata"]["uid"]
    named = {kind: f"fenced-{kind}-{suffix}" for kind in ("windows", "linux", "pool")}
    file = tmp_path_factory.mktemp("fence") / "ground.yaml"
    file.write_text(
        yaml.safe_dump_all(
            [
                *rights(f"fence-test-{suffix}"),
                a_node(named["windows"], system="windows", finalizers=[THEIRS]),
                a_node(named["linux"], system="linux", ownerReferences=[namespace_reference(uid)]),
                a_pool(named["pool"], only=suffix),
            ]
        )
    )
    testbed.kubectl("apply", "-f", str(file))
    paths = {kind: f"{POOLS if kind == 'pool' else NODES}/{name}" for kind, name in named.items()}
    try:
        with Caller.named(testbed, "witness", "system:masters") as witness:
            for kind in ("windows", "linux"):
                status, said = witness.patch(f"{paths[kind]}/status", {"status": reported()})
                assert status == HTTPStatus.OK, said
            with Caller.named(testbed, USER, "system:authenticated") as operator:
                mine = Ground(testbed, operator, paths)
                eventually(lambda: is_refused(mine.send(HARMS["annotate it"])), what="rights and fence")
                yield mine
            witness.patch(paths["windows"], {"metadata": {"finalizers": None}})
            witness.patch(paths["pool"], {"metadata": {"finalizers": None}})
    finally:
        testbed.kubectl("delete", "-f", str(file), "--wait=false")


def rights(name: str) -> list[Object]:
    """Return all rights on nodes and pools for the operator."""
    verbs = ["get", "create", "update", "patch", "delete"]
    rules = [
        {"apiGroups": [""], "resources": ["nodes", "nodes/status"], "verbs": verbs},
        {
            "apiGroups": ["winpool.dev"],
            "resources": ["windowsnodepools", "windowsnodepools/status"],
            "verbs": verbs,
        },
    ]
    about = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": name}}
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    user = {"apiGroup": RBAC, "kind": "User", "name": USER}
    return [
        {**about, "kind": "ClusterRole", "rules": rules},
        {**about, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [user]},
    ]


def a_node(name: str, *, system: str, **metadata: Any) -> Object:
    labels = {
        "kubernetes.io/os": system,
        "kubernetes.io/hostname": name,
        "node.kubernetes.io/windows-build": "10.0.20348",
        "node.kubernetes.io/instance-type": "small",
        "example.com/before": "x",
    }
    taints = [
        {"key": "example.com/before", "effect": "NoSchedule"},
        {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule", "value": "1"},
    ]
    about = {"name": name, "labels": labels, "annotations": {THEIRS: "theirs"}, **metadata}
    return {"apiVersion": "v1", "kind": "Node", "metadata": about, "spec": {"taints": taints}}


def namespace_reference(uid: str) -> Object:
    """Return an owner that is there, or the garbage collector would delete what it owns."""
    return {"apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": uid}


def reported() -> Object:
    """Return what a kubelet would say."""
    return {
        "capacity": {"memory": "8Gi", "cpu": "2", "pods": "110"},
        "allocatable": {"memory": "6Gi", "cpu": "2", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
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


@pytest.mark.parametrize("harm", HARMS)
def test_a_harmful_write_of_the_operator_is_refused_with_its_sentence(ground: Ground, harm: str) -> None:
    write = HARMS[harm]
    status, said = ground.send(write)
    assert status == HTTPStatus.FORBIDDEN, (harm, said)
    fence = POOL_FENCE if write.on == "pool" else NODE_FENCE
    assert f"ValidatingAdmissionPolicy '{fence}'" in said["message"]
    assert SENTENCE[write.sentence] in said["message"]


@pytest.mark.parametrize(
    ("kind", "sentence"), [("windows", "nodes"), ("linux", "nodes"), ("pool", "pools")], ids=str
)
def test_the_operator_neither_creates_nor_deletes(ground: Ground, kind: str, sentence: str) -> None:
    path = ground.paths[kind]
    created = {
        "windows": a_node("fenced-new", system="windows"),
        "linux": a_node("fenced-new", system="linux"),
        "pool": a_pool("fenced-new", only="new"),
    }[kind]
    for method, to, body in (("POST", path.rpartition("/")[0], created), ("DELETE", path, None)):
        status, said = ground.operator.ask(method, f"{to}?dryRun=All", body)
        assert (status, SENTENCE[sentence] in said["message"]) == (HTTPStatus.FORBIDDEN, True), said


@pytest.mark.parametrize("need", NEEDED)
def test_what_the_operator_has_to_write_passes(ground: Ground, need: str) -> None:
    assert ground.send(NEEDED[need])[0] == HTTPStatus.OK, need


@pytest.mark.parametrize("harm", HARMS)
def test_others_may_write_what_the_operator_may_not(ground: Ground, harm: str) -> None:
    """Or the refusal would not be of the fence."""
    write = HARMS[harm]
    with Caller.named(ground.testbed, "alice", "system:masters") as alice:
        assert Ground(ground.testbed, alice, ground.paths).send(write)[0] == HTTPStatus.OK


def allow_no_execute(testbed: Testbed, value: str) -> None:
    patch = json.dumps({"data": {ALLOW_NO_EXECUTE: value}})
    testbed.kubectl("patch", "configmap", PARAMETERS, "-n", "winpool-system", "--type=merge", "-p", patch)


def test_an_admin_forbids_noexecute_taints_and_allows_them_again(ground: Ground, world: World) -> None:
    hard = NEEDED["a NoExecute taint"]
    names = world.fleet(windows=2)
    taints = [{"key": "os", "value": "windows", "effect": "NoExecute"}]
    try:
        allow_no_execute(ground.testbed, "false")
        eventually(lambda: is_refused(ground.send(hard)), what="NoExecute taints are refused")
        assert f"ValidatingAdmissionPolicy '{NO_EXECUTE_FENCE}'" in ground.send(hard)[1]["message"]
        assert ground.send(NEEDED["a taint of the spec"])[0] == HTTPStatus.OK
        pool = world.apply(world.pool(taints=taints))
        world.operator.start()
        refused = await_issue(world, pool, "WriteRefused", nodes=2)
        assert (
            "winpool-system/winpool-fence forbids the operator to add NoExecute taints" in refused["message"]
        )
        assert {str(taints_of(world.node(name))) for name in names} == {"set()"}
    finally:
        allow_no_execute(ground.testbed, "true")
    eventually(lambda: ground.send(hard)[0] == HTTPStatus.OK, what="NoExecute taints are allowed")
    world.wait_up_to_date(pool, nodes=2)


def test_the_server_has_what_was_shipped_word_by_word_and_finds_no_fault(testbed: Testbed) -> None:
    shipped = list(yaml.safe_load_all((Path(__file__).parents[2] / "deploy/operator/fence.yaml").read_text()))
    assert len(shipped) == 7
    for document in shipped:
        if "spec" in document:
            name = document["metadata"]["name"]
            stored = json.loads(testbed.kubectl("get", document["kind"], name, "-o", "json").stdout)
            assert stored["spec"] == document["spec"]
            assert "expressionWarnings" not in stored.get("status", {}).get("typeChecking", {})
