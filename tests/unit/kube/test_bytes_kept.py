"""Whoever fills whatever the API server accepts: of an object little is kept (P7).

Each field that is read is filled in turn. The fields are found in the declaration of the wire type, so a new
one is tried too.
"""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec import inspect

from gen.rights import RIGHTS
from harness.kept import FILL, Filler, measured, merged
from winpool.kube import budgets, listers, wire
from winpool.kube.errors import StreamGarbled
from winpool.kube.nodes import decode_page
from winpool.kube.pods import decode_pod_page
from winpool.kube.request import Request
from winpool.kubelet.samples import PollError, _Configz, _SummaryWithPods, parse_configz, parse_summary

Object = dict[str, Any]
Found = TypeVar("Found")

KEPT: Final = 2 * 16 * 1024
"""Bytes of an object: the 16 KiB of it, and as much for what Python needs to hold them."""

PAGES: Final = 6
"""Of 500 budgets of 12 kB each: more than what is kept."""


@dataclass(frozen=True, slots=True)
class Kind:
    """``wire`` declares an object, ``least`` is what it needs to be read, ``read`` returns what is kept.

    ``accepted`` has, by the path of a field, how many characters the API server takes there, where it has a
    limit. ``later`` has the types of what is raw at first, ``more`` what may be kept of a field, and
    ``beside`` what else is there where a field is filled, so that it matters.
    """

    wire: type
    least: Object
    read: Callable[[bytes], object]
    accepted: dict[str, int] = field(default_factory=dict)
    later: dict[str, Any] = field(default_factory=dict)
    more: dict[str, int] = field(default_factory=dict)
    beside: dict[str, Object] = field(default_factory=dict)


def a_list(item: Object, *, kind: str, version: str = "v1") -> bytes:
    found = {"kind": kind, "apiVersion": version, "metadata": {"resourceVersion": "9"}, "items": [item]}
    return json.dumps(found).encode()


LABEL: Final = {"{key}": 317, "{}": 63}
"""Characters of the key, with its prefix, and of the value (apimachinery, pkg/util/validation)."""

POD: Final = partial(
    Kind,
    wire=wire.PodObject,
    least={"metadata": {"namespace": "shop", "name": "web", "uid": "uid"}, "spec": {"nodeName": "w1"}},
    accepted={
        ".metadata.namespace": 63,
        ".metadata.name": 253,
        ".metadata.uid": 36,
        ".spec.nodeName": 253,
        ".spec.os.name": 7,
        ".spec.tolerations[].key": 317,
        ".spec.tolerations[].value": 63,
        ".spec.tolerations[].operator": 6,
        ".spec.tolerations[].effect": 16,
        **{f".metadata.labels{part}": most for part, most in LABEL.items()},
        **{f".spec.nodeSelector{part}": most for part, most in LABEL.items()},
    },
    later={
        ".metadata.finalizers": list[str],
        ".spec.nodeSelector": dict[str, str],
        ".spec.affinity": wire.Affinity,
        ".spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[]": dict[str, str],
        ".spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[]": dict[str, str],
        ".spec.topologySpreadConstraints": list[wire.SpreadConstraint],
        ".spec.volumes": list[dict[str, dict[str, str]]],
        ".spec.containers": list[wire.MountingContainer],
        ".spec.initContainers": list[wire.MountingContainer],
        ".spec.ephemeralContainers": list[wire.Container],
        ".spec.overhead": wire.Amounts,
        ".spec.resourceClaims": list[dict[str, str]],
        ".spec.schedulingGroup": wire.SchedulingGroup,
        ".spec.schedulerName": str,
        ".status.conditions[].lastTransitionTime": str,
        ".spec.runtimeClassName": str,
        ".spec.securityContext": wire.SecurityContext,
        ".spec.terminationGracePeriodSeconds": int,
        ".spec.resources": wire.ContainerResources,
        ".status.resources": wire.ContainerResources,
        ".status.containerStatuses[].resources": wire.ContainerResources,
        ".status.initContainerStatuses[].resources": wire.ContainerResources,
    },
    beside={
        ".metadata.ownerReferences[]": {"controller": True, "kind": "ReplicaSet", "name": "web"},
        ".status": {"phase": "Failed", "reason": "PodOSNotSupported"},
    },
)


def of_template(of_pod: Mapping[str, Found]) -> dict[str, Found]:
    """Return what a table says of the spec of a pod, for the spec in a template."""
    return {f".spec.template{path}": each for path, each in of_pod.items() if path.startswith(".spec.")}


def of_workloads(resource: str) -> Kind:
    """Return how a controller that makes lost pods again is read."""
    [listing] = [each for each in listers.LISTINGS if each.resource == resource]
    return Kind(
        wire=listers._Controller,
        least={"metadata": {"namespace": "shop", "name": "web", "uid": "uid"}},
        read=listing.decode,
        beside={".metadata.ownerReferences[]": {"controller": True}},
    )


KINDS: Final = {
    "Node": Kind(
        wire=wire.NodeObject,
        least={"metadata": {"name": "w1", "uid": "uid", "resourceVersion": "1"}},
        read=decode_page,
        accepted={f".metadata.labels{part}": most for part, most in LABEL.items()},
        # Pools are chosen by the labels, and taints are sent back whole. A node of which these are not read
        # could not be released, and could keep a permission. A kubelet can fill those of its own node alone.
        more={".metadata.labels of many": 8 * FILL, ".spec.taints of many": 16 * FILL},
        beside={
            ".status.conditions[]": {"type": "Ready", "status": "True"},
            ".status.addresses[]": {"type": "InternalIP"},
        },
    ),
    # Of other pods a survey is kept, bounded by nodes and taints (tests/unit/contract/test_survey.py).
    "Pod of a node that may be upgraded": POD(
        read=lambda item: (
            (page := decode_pod_page(item, with_work={"w1"})).unreadable,
            [each.work for each in page.pods],
        )
    ),
    "Pod that may be evicted": POD(read=partial(decode_pod_page, for_eviction=True)),
    "DaemonSet": Kind(
        wire=listers._DaemonSet,
        least={
            "metadata": {"namespace": "shop", "name": "web"},
            "spec": {"template": {"spec": {"os": {"name": "windows"}}}},
        },
        read=listers.DAEMON_SETS.decode,
        accepted=of_template(POD.keywords["accepted"]),
        later=of_template(POD.keywords["later"]),
    ),
    "PodDisruptionBudget": Kind(
        wire=budgets._Budget,
        least={"metadata": {"namespace": "shop", "name": "web"}},
        read=budgets.BUDGETS.decode,
        accepted={f".spec.selector.matchLabels{part}": most for part, most in LABEL.items()},
        later={".status.disruptedPods{}": str},
    ),
    "Deployment": of_workloads("deployments"),
    "ReplicaSet": of_workloads("replicasets"),
    "StatefulSet": of_workloads("statefulsets"),
    "ReplicationController": of_workloads("replicationcontrollers"),
    "Job": of_workloads("jobs"),
    "VolumeAttachment": Kind(
        wire=listers._Attachment,
        least={"metadata": {"name": "csi-1"}, "spec": {"nodeName": "w1"}},
        read=listers.ATTACHMENTS.decode,
    ),
}
LISTS: Final = {
    "Node": ("NodeList", "v1"),
    "DaemonSet": ("DaemonSetList", "apps/v1"),
    "PodDisruptionBudget": ("PodDisruptionBudgetList", "policy/v1"),
    "Deployment": ("DeploymentList", "apps/v1"),
    "ReplicaSet": ("ReplicaSetList", "apps/v1"),
    "StatefulSet": ("StatefulSetList", "apps/v1"),
    "ReplicationController": ("ReplicationControllerList", "v1"),
    "Job": ("JobList", "batch/v1"),
    "VolumeAttachment": ("VolumeAttachmentList", "storage.k8s.io/v1"),
}
EXPRESSIONS: Final = {
    "keys": [{"key": f"{number:x}", "operator": "Exists"} for number in range(60)],
    "values": [
        {"key": f"{number:x}", "operator": "In", "values": [f"{each:x}" for each in range(5)]}
        for number in range(20)
    ],
}
"""Of budgets that are nearly as large as one may be. A character takes a hundred bytes in memory."""

ANSWERS: Final = {
    "/stats/summary": Kind(
        wire=_SummaryWithPods,
        least={"node": {"nodeName": "w1"}},
        read=lambda body: parse_summary(body, node="w1", pods=True),
        # A list of pods: 250 bytes of each.
        more={".pods of many": 256 * 1024},
    ),
    "/configz": Kind(wire=_Configz, least={"kubeletconfig": {}}, read=parse_configz),
}
OF_ADMINS: Final = {
    "customresourcedefinitions": "one name, of an admin",
    "validatingadmissionpolicies": "one name, of an admin",
    "validatingadmissionpolicybindings": "one name, of an admin",
    "leases": "one name, in the namespace of the operator",
    "runtimeclasses": "of admins, and test_runtime_classes.py has that of a long one nothing is kept",
    "windowsnodepools": "the CRD bounds spec and status, test_pools.py has the bound of all specs; "
    "finalizers are kept whole, to be written back",
}
"""What else is read, and why it is not in the tables."""


def too_much(kind: Kind, body_of: Callable[[Object], bytes]) -> dict[str, int]:
    """Return the bytes that are kept of an object, by the field that fills it, where they are too many."""
    filler = Filler(accepted=kind.accepted, later=kind.later, beside=kind.beside)
    found = {}
    for path, value in filler.values(inspect.type_info(kind.wire)):
        body = body_of(merged(kind.least, value))
        with measured() as memory:
            try:
                kept: object = kind.read(body)
            except (StreamGarbled, PollError) as error:
                kept = str(error)
        del kept
        if memory.kept > kind.more.get(path, KEPT):
            found[path] = memory.kept
    assert filler.used >= {*kind.accepted, *kind.later, *kind.beside}
    return found


def test_every_kind_that_is_read_is_in_the_table() -> None:
    read = {
        resource
        for right in RIGHTS
        if {"get", "list", "watch"} & {*right.verbs}
        for resource in right.resources
    }
    kinds = {kind.partition(" ")[0].lower() + "s" for kind in KINDS}
    answers = {f"nodes/{path.split('/')[1]}" for path in ANSWERS}
    assert read == kinds | answers | {*OF_ADMINS}


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_little_is_kept_of_an_object_with_very_much_in_any_field(name: str) -> None:
    listed, version = LISTS.get(name, ("PodList", "v1"))
    body_of = partial(a_list, kind=listed, version=version)
    assert too_much(KINDS[name], body_of) == {}


@pytest.mark.slow
@pytest.mark.parametrize("of", EXPRESSIONS)
async def test_of_a_list_of_very_many_small_texts_as_much_is_kept_as_of_large_ones(of: str) -> None:
    selector = {"matchExpressions": EXPRESSIONS[of]}

    def page(number: int) -> bytes:
        items = [
            {
                "metadata": {"namespace": f"team-{each % 25}", "name": f"{number}-{each}"},
                "spec": {"selector": selector},
            }
            for each in range(500)
        ]
        more = {"continue": str(number + 1)} if number + 1 < PAGES else {}
        found = {"kind": "PodDisruptionBudgetList", "apiVersion": "policy/v1", "items": items}
        return json.dumps(found | {"metadata": {"resourceVersion": "9", **more}}).encode()

    pages = [page(number) for number in range(PAGES)]

    async def answer(request: Request) -> bytes:
        return pages[int(parse_qs(urlsplit(request.path).query).get("continue", ["0"])[0])]

    tracemalloc.start()
    try:
        found = await budgets.BudgetLister(answer).list()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    whole = sum(not each.is_too_large for each in found)
    assert 500 * PAGES // 2 < whole < 500 * PAGES
    assert kept < 2 * budgets.MOST_OF_ALL


@pytest.mark.slow
@pytest.mark.parametrize("path", ANSWERS)
def test_little_is_kept_of_an_answer_of_a_kubelet_with_very_much_in_any_field(path: str) -> None:
    assert too_much(ANSWERS[path], lambda found: json.dumps(found).encode()) == {}
