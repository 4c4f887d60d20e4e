"""Writes with the operator's own identity: those that do harm, and those that winpool is for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from winpool.api.fence import SERVED_ANNOTATIONS
from winpool.api.keys import (
    APPLIED_ANNOTATION,
    BORROWED_ANNOTATIONS,
    CONDITIONS,
    HOLD_ANNOTATION,
    OWN_TAINTS,
    POOL_LABEL,
    RELEASE_FINALIZER,
    RESERVED_MEMORY_TAINT,
    UPGRADE_REQUESTED_ANNOTATION,
)

Object = dict[str, Any]
Change = Callable[[Object], None]

THEIRS: Final = "example.com/theirs"
BEFORE: Final = "example.com/before"
"""Key of a label and of a taint that every node has; a pool may set it too."""
CONTROL_PLANE: Final = "node-role.kubernetes.io/control-plane"
"""Key of a label and of a taint, which the rules of the CRD let a pool set."""
PRESSURE: Final = "WindowsMemoryPressure"
SCALE_DOWN_DISABLED: Final = BORROWED_ANNOTATIONS[0]
SENTENCE: Final = {
    "metadata": "of metadata the operator writes only labels, annotations",
    "spec": "of spec the operator writes only taints, unschedulable",
    "status": "of status the operator writes only conditions",
    "labels": "of labels the operator writes its own and those that a WindowsNodePool may set",
    "annotations": "of annotations the operator writes only winpool.dev/applied",
    "taints": "of taints the operator writes its own and those that a WindowsNodePool may set",
    "conditions": "of conditions the operator writes only WindowsMemoryPressure",
    "linux": "on a node without the label kubernetes.io/os=windows the operator adds nothing",
    "not ours": "on a node without the labels kubernetes.io/os=windows and winpool.dev/pool the operator"
    " changes nothing",
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
    return lambda found: put(found["metadata"].setdefault("labels", {}), key, value)


def annotation(key: str, value: str | None) -> Change:
    return lambda found: put(found["metadata"].setdefault("annotations", {}), key, value)


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
        standing = found["status"].get("conditions", [])
        others = [each for each in standing if each["type"] != type_]
        mine = [{"type": type_, "status": status, "reason": "Ours"}] if status else []
        assert status or len(others) < len(standing)
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
    **{f"change {key}": Write(annotation(key, "ours"), "annotations") for key in SERVED_ANNOTATIONS},
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
    "say that its maintenance is planned": Write(
        condition("MaintenancePlanned", "True"), "conditions", subresource="/status"
    ),
    "say something else of it": Write(condition("Other", "True"), "conditions", subresource="/status"),
    "label through the status": Write(
        label("kubernetes.io/hostname", "other"), "labels", subresource="/status"
    ),
    "label a Linux node": Write(label("example.com/team", "x"), "linux", on="linux"),
    "claim a Linux node": Write(label(POOL_LABEL, "p"), "linux", on="linux"),
    "record on a Linux node": Write(annotation(APPLIED_ANNOTATION, "{}"), "linux", on="linux"),
    "taint a Linux node": Write(taint("os", value="windows"), "linux", on="linux"),
    "cordon a Linux node": Write(field("spec", "unschedulable", True), "linux", on="linux"),
    **{
        f"condition {each} of a Linux node": Write(
            condition(each, "True"), "linux", on="linux", subresource="/status"
        )
        for each in CONDITIONS
    },
    **{
        f"another condition {each} of a Linux node": Write(
            condition(each, "False"), "linux", on="plane", subresource="/status"
        )
        for each in CONDITIONS
    },
    **{
        f"forget the condition {each} of a Linux node": Write(
            condition(each, None), "not ours", on="plane", subresource="/status"
        )
        for each in CONDITIONS
    },
    "change a label of a Linux node": Write(label(BEFORE, "y"), "not ours", on="plane"),
    "remove a label of a Linux node": Write(label(BEFORE, None), "not ours", on="plane"),
    "say it is no control plane": Write(label(CONTROL_PLANE, None), "not ours", on="plane"),
    "change a taint's value of a Linux node": Write(other_value(BEFORE), "not ours", on="plane"),
    "remove a taint of a Linux node": Write(no_taint(BEFORE), "not ours", on="plane"),
    "open the control plane to all pods": Write(no_taint(CONTROL_PLANE), "not ours", on="plane"),
    "uncordon a Linux node": Write(field("spec", "unschedulable", None), "not ours", on="plane"),
    "let the autoscaler have a Linux node": Write(
        annotation(SCALE_DOWN_DISABLED, None), "not ours", on="plane"
    ),
    "claim a stray for another pool": Write(label(POOL_LABEL, "other"), "linux", on="stray"),
    "change our taint on a stray": Write(other_value(RESERVED_MEMORY_TAINT), "linux", on="stray"),
    **{
        f"change the condition {each} on a stray": Write(
            condition(each, "False"), "linux", on="stray", subresource="/status"
        )
        for each in CONDITIONS
    },
    "label a stray": Write(label("example.com/team", "x"), "linux", on="stray"),
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
    "a label of a cloud provider": Write(label("eks.amazonaws.com/nodegroup", "other")),
    "the taint of a control plane": Write(taint(CONTROL_PLANE)),
    "a label of ours": Write(label(POOL_LABEL, "p")),
    "a label of theirs, restored": Write(label(BEFORE, None)),
    "the record": Write(annotation(APPLIED_ANNOTATION, "{}")),
    "a request of ours": Write(annotation(UPGRADE_REQUESTED_ANNOTATION, "x")),
    **{f"{key}, served": Write(annotation(key, None)) for key in SERVED_ANNOTATIONS},
    **{f"borrowed {key}": Write(annotation(key, "true")) for key in BORROWED_ANNOTATIONS},
    **{f"{key}, given back": Write(annotation(key, None)) for key in BORROWED_ANNOTATIONS},
    "a taint of the spec": Write(taint("os", value="windows")),
    "a taint with a vendor's key": Write(taint("node.kubernetes.io/os", value="windows")),
    "a NoExecute taint": Write(taint("os", "NoExecute", "windows")),
    **{f"taint {key}": Write(taint(key, effect)) for key, effect in OWN_TAINTS},
    "no taint": Write(no_taint(BEFORE)),
    "a cordon": Write(field("spec", "unschedulable", True), on="bare"),
    "no cordon": Write(field("spec", "unschedulable", None)),
    **{f"condition {each}": Write(condition(each, "True"), subresource="/status") for each in CONDITIONS},
    "nothing on a Linux node": Write(lambda _: None, on="plane"),
    "a label off a stray": Write(label(BEFORE, None), on="stray"),
    "a label of a stray, restored": Write(label(BEFORE, "y"), on="stray"),
    "an annotation of a stray, restored": Write(annotation(SCALE_DOWN_DISABLED, "y"), on="stray"),
    "a taint off a stray": Write(no_taint(BEFORE), on="stray"),
    "a taint of a stray, restored": Write(other_value(BEFORE), on="stray"),
    "our taint off a stray": Write(no_taint(RESERVED_MEMORY_TAINT), on="stray"),
    **{
        f"condition {each} off a stray": Write(condition(each, None), on="stray", subresource="/status")
        for each in CONDITIONS
    },
    "an uncordon of a stray": Write(field("spec", "unschedulable", None), on="stray"),
    "our label off a stray": Write(label(POOL_LABEL, None), on="stray"),
    "the rest of the record of a stray": Write(annotation(APPLIED_ANNOTATION, "{}"), on="stray"),
    "the record off a stray": Write(annotation(APPLIED_ANNOTATION, None), on="stray"),
    "our finalizer": Write(field("metadata", "finalizers", [THEIRS, RELEASE_FINALIZER]), on="pool"),
    "a status": Write(field("status", "nodes", 3), on="pool", subresource="/status"),
}
"""What the operator has to write."""
