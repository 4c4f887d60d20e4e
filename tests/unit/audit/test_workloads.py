"""Where objects have pods, and for which OS these are, and by what."""

from __future__ import annotations

from typing import Any, Final

import pytest

from winpool.features.audit.cluster import Cluster, RuntimeClass
from winpool.features.audit.workloads import PodOS, workload_of

Object = dict[str, Any]

POD: Final[Object] = {"containers": [{"name": "c", "image": "acme/app"}]}
TEMPLATE: Final[Object] = {"template": {"spec": POD}}


OF_WINDOWS: Final[Object] = {"kubernetes.io/os": "windows"}


def judged(spec: Object, annotations: Object | None = None) -> tuple[PodOS, str]:
    content = {"kind": "Pod", "metadata": {"annotations": annotations or {}}, "spec": {**POD, **spec}}
    workload = workload_of(content, Cluster(runtime_classes={"win": RuntimeClass(node_selector=OF_WINDOWS)}))
    assert workload is not None
    return workload.os, workload.evidence


@pytest.mark.parametrize(
    ("content", "at"),
    [
        ({"kind": "Pod", "spec": POD}, ""),
        ({"kind": "PodTemplate", **TEMPLATE}, "template"),
        *(
            ({"kind": kind, "spec": TEMPLATE}, "spec.template")
            for kind in (
                *("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job"),
                *("Rollout", "DeploymentConfig", "CloneSet"),
            )
        ),
        ({"kind": "CronJob", "spec": {"jobTemplate": {"spec": TEMPLATE}}}, "spec.jobTemplate.spec.template"),
    ],
)
def test_pods_are_found_in_every_kind_that_has_them(content: Object, at: str) -> None:
    workload = workload_of(content)
    assert workload is not None
    assert (workload.at, workload.kind) == (at, content["kind"])
    prefix = f"{at}." if at else ""
    assert [each.path for each in workload.containers()] == [f"{prefix}spec.containers[0]"]


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        "text",
        {},
        {"kind": "Service", "spec": {"selector": {}}},
        {"kind": "Pod"},
        {"kind": "Job", "spec": {"tasks": [{"template": {"spec": POD}}]}},
        {"kind": "Machine", "spec": {"template": {"spec": {"providerID": "x"}}}},
        {"kind": "Deployment", "spec": {"template": {"spec": "x"}}},
        {"kind": ["Pod"], "spec": {"containers": "x"}},
    ],
)
def test_other_objects_have_none(content: Any) -> None:
    assert workload_of(content) is None


def test_the_containers_of_all_three_lists_are_meant() -> None:
    spec = {**POD, "initContainers": [{"image": "a"}, "x"], "ephemeralContainers": [{"image": "b"}]}
    workload = workload_of({"kind": "Pod", "spec": spec})
    assert workload is not None
    assert [(each.path, each.value) for each in workload.places("spec.containers[*].image")] == [
        ("spec.initContainers[0].image", "a"),
        ("spec.containers[0].image", "acme/app"),
        ("spec.ephemeralContainers[0].image", "b"),
    ]


def term(key: str, operator: str, *values: str) -> Object:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def affinity(*terms: Object) -> Object:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


WINDOWS, LINUX, UNKNOWN = PodOS
OS, BETA, BUILD = "kubernetes.io/os", "beta.kubernetes.io/os", "node.kubernetes.io/windows-build"
SKU = "kubernetes.azure.com/os-sku"


@pytest.mark.parametrize(
    ("spec", "os", "evidence"),
    [
        ({}, UNKNOWN, ""),
        ({"os": {"name": "windows"}, "nodeSelector": {OS: "linux"}}, WINDOWS, "spec.os.name"),
        ({"os": {"name": "linux"}}, LINUX, "spec.os.name"),
        ({"os": {"name": "beos"}, "nodeSelector": {OS: "linux"}}, LINUX, "spec.nodeSelector"),
        ({"nodeSelector": {OS: "windows"}}, WINDOWS, "spec.nodeSelector"),
        ({"nodeSelector": {BETA: "windows"}}, WINDOWS, "spec.nodeSelector"),
        ({"nodeSelector": {BUILD: "10.0.20348"}}, WINDOWS, "spec.nodeSelector"),
        ({"nodeSelector": {SKU: "Windows2022"}}, WINDOWS, "spec.nodeSelector"),
        ({"nodeSelector": {SKU: "AzureLinux"}}, UNKNOWN, ""),
        ({"nodeSelector": {SKU: 2022}}, UNKNOWN, ""),
        ({"nodeSelector": {OS: "linux"}, "runtimeClassName": "win"}, LINUX, "spec.nodeSelector"),
        ({"runtimeClassName": "win"}, WINDOWS, "the RuntimeClass win"),
        ({"runtimeClassName": "other"}, UNKNOWN, ""),
        (affinity(term(OS, "In", "windows")), WINDOWS, "spec.affinity.nodeAffinity"),
        (affinity(term(OS, "NotIn", "linux")), WINDOWS, "spec.affinity.nodeAffinity"),
        (affinity(term(OS, "NotIn", "windows")), LINUX, "spec.affinity.nodeAffinity"),
        (affinity(term(BUILD, "Exists")), WINDOWS, "spec.affinity.nodeAffinity"),
        (affinity(term(SKU, "In", "Windows2022", "WindowsAnnual")), WINDOWS, "spec.affinity.nodeAffinity"),
        (affinity(term(SKU, "In", "Windows2022", "Ubuntu")), UNKNOWN, ""),
        (affinity(term(SKU, "NotIn", "Windows2019")), UNKNOWN, ""),
        (affinity(term(SKU, "In")), UNKNOWN, ""),
        (affinity(term(OS, "In", "windows", "linux")), UNKNOWN, ""),
        (affinity(term(OS, "In", "windows"), term("disk", "Exists")), UNKNOWN, ""),
        (affinity(term(OS, "In", "windows"), term(OS, "In", "linux")), UNKNOWN, ""),
        (affinity(), UNKNOWN, ""),
        (
            {"securityContext": {"windowsOptions": {"runAsUserName": "a"}}},
            WINDOWS,
            "spec.securityContext.windowsOptions",
        ),
        (
            {"containers": [{"securityContext": {"windowsOptions": {}}}]},
            WINDOWS,
            "spec.containers[0].securityContext.windowsOptions",
        ),
        (
            {"containers": [{"image": "mcr.microsoft.com/windows/NanoServer:1809"}]},
            WINDOWS,
            '"nanoserver" in spec.containers[0].image',
        ),
        ({"containers": [{"image": "a:1-ltsc2022"}]}, WINDOWS, '"ltsc2022" in spec.containers[0].image'),
        ({"containers": [{"image": "acme/myservercore2"}]}, UNKNOWN, ""),
    ],
)
def test_the_first_evidence_decides(spec: Object, os: PodOS, evidence: str) -> None:
    assert judged(spec) == (os, evidence)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("winpool.dev/windows-build", "10.0.20348"),
        ("experimental.windows.kubernetes.io/isolation-type", "hyperv"),
    ],
)
def test_an_annotation_is_evidence(key: str, value: str) -> None:
    assert judged({}, {key: value}) == (WINDOWS, f"metadata.annotations[{key}]")
