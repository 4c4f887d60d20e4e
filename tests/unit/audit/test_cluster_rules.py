"""The rules that need to know the cluster: each finds its own cases and leaves those beside them alone."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.every import every
from harness.windows_pods import LINUX, WINDOWS, a_pod, in_a_deployment
from unit.audit.test_rules import JSON
from winpool.features.audit.audit import Finding, findings, knows
from winpool.features.audit.cluster import Cluster, Host, Limits, RuntimeClass, alike
from winpool.features.audit.conditions import unknown_images
from winpool.features.audit.rules import NEWEST, RULES, Needs, Severity
from winpool.features.audit.workloads import runtime_class_of, workload_of
from winpool.model.node import Taint
from winpool.model.pods import Toleration
from winpool.support.compat import Isolation

Object = dict[str, Any]

BUILD: Final = "node.kubernetes.io/windows-build"
TAINT: Final = Taint("os", "NoSchedule", "windows")
TOLERATION: Final = {"key": "os", "value": "windows", "effect": "NoSchedule"}
EVERYTHING: Final = {"operator": "Exists"}


def a_host(name: str = "w1", kernel: str = "10.0.20348.4052", *taints: Taint, **more: Any) -> Host:
    build = ".".join(kernel.split(".")[:3])
    labels = {"kubernetes.io/os": "windows", BUILD: build, **more.pop("labels", {})}
    given = {"runtime": "containerd://2.1.4", **more}
    return Host(kernel=kernel, labels=labels, taints=taints, names=(name,), **given)


def asked_about(kernel: str, runtime: str = "") -> Host:
    """Return a host that the command line names."""
    labels = {"kubernetes.io/os": "windows", BUILD: ".".join(kernel.split(".")[:3])}
    return Host(kernel=kernel, runtime=runtime, labels=labels)


def a_cluster(*hosts: Host, **more: Any) -> Cluster:
    return Cluster(
        hosts=hosts, **{"has_all_classes": True, "limits": {}, "enforced": {}, "linux": (), **more}
    )


def found_in(content: Object, cluster: Cluster) -> list[Finding]:
    workload = workload_of(content, cluster)
    assert workload is not None
    return findings(workload, NEWEST)


def codes(content: Object, cluster: Cluster) -> list[str]:
    return [each.rule.code for each in found_in(content, cluster)]


def only(code: str, content: Object, cluster: Cluster) -> Finding:
    [found] = [each for each in found_in(content, cluster) if each.rule.code == code]
    return found


def plain(spec: Object | None = None) -> Object:
    """Return a pod of which nothing says the OS."""
    return a_pod({"nodeSelector": {}, **(spec or {})}, {"image": "nginx"}, os_name=None)


def affinity(*expressions: Object) -> Object:
    required = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": list(expressions)}]
        }
    }
    return {"affinity": {"nodeAffinity": required}}


def test_the_cases_here_are_about_all_rules_that_need_a_cluster() -> None:
    here = {"P1", "P4", "P7", "P8", "P9", "P10", "P14", "W10", "W11", "W16", "W44"}
    assert {rule.code for rule in RULES if rule.needs is not Needs.MANIFEST} == here


@every("rule", RULES, ids=lambda rule: rule.code)
def test_where_nothing_is_known_no_rule_about_the_cluster_finds_anything(rule: Any) -> None:
    if rule.needs is Needs.MANIFEST:
        return
    nothing = Cluster()
    assert rule.needs not in knows(nothing)
    for content in (plain(), a_pod({"runtimeClassName": "gone"}), host_process()):
        assert rule.code not in codes(content, nothing)


# P1


def test_pods_of_which_nothing_says_the_os_land_on_nodes_whose_taints_they_tolerate() -> None:
    cluster = a_cluster(a_host("w2", "10.0.20348.4052", TAINT), a_host("w1"))
    found = only("P1", in_a_deployment(plain()), cluster)
    assert (found.severity, found.field) == (Severity.WARNING, "spec.template.spec.nodeSelector")
    assert found.says.endswith("Windows nodes that take them: w1.")
    tolerant = plain({"tolerations": [TOLERATION]})
    assert only("P1", tolerant, cluster).says.endswith(": w1, w2.")


@every(
    "spec",
    [
        {"nodeSelector": LINUX},
        {"nodeSelector": {"disk": "ssd"}},
        {"nodeName": "l1"},
        affinity({"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}),
        affinity({"key": "disk", "operator": "Exists"}),
    ],
    ids=str,
)
def test_pods_that_no_windows_node_takes_are_left_alone(spec: Object) -> None:
    assert "P1" not in codes(plain(spec), a_cluster(a_host()))


@every("effect", ["NoSchedule", "NoExecute"])
def test_a_taint_keeps_pods_away(effect: str) -> None:
    tainted = a_cluster(a_host("w1", "10.0.20348.1", Taint("os", effect, "windows")))
    assert "P1" not in codes(plain(), tainted)


@every(
    "taint",
    [Taint("os", "PreferNoSchedule"), Taint("node.kubernetes.io/unschedulable", "NoSchedule")],
    ids=str,
)
def test_a_taint_that_comes_and_goes_or_only_asks_keeps_no_pod_away(taint: Taint) -> None:
    assert "P1" in codes(plain(), a_cluster(a_host("w1", "10.0.20348.1", taint)))


def test_a_running_pod_is_where_it_is() -> None:
    cluster = a_cluster(a_host("w1", "10.0.20348.1", TAINT), a_host("w2"))
    assert "w1" in only("P1", plain({"nodeName": "w1"}), cluster).says


def test_a_daemon_set_that_tolerates_everything_is_an_error() -> None:
    content = in_a_deployment(plain({"tolerations": [EVERYTHING]}))
    cluster = a_cluster(a_host("w1", "10.0.20348.1", TAINT))
    assert only("P1", content, cluster).severity is Severity.WARNING
    assert only("P1", {**content, "kind": "DaemonSet"}, cluster).severity is Severity.ERROR
    some = in_a_deployment(plain({"tolerations": [{**EVERYTHING, "effect": "NoSchedule"}]}))
    assert only("P1", {**some, "kind": "DaemonSet"}, cluster).severity is Severity.WARNING


# P2


def test_pods_without_a_selection_are_an_error_only_where_a_linux_node_takes_them() -> None:
    pod = a_pod({"nodeSelector": {}})
    linux = Host(labels=LINUX, taints=(), names=("l1",))
    kept = replace(linux, taints=(Taint("for", "NoSchedule", "linux"),))
    assert only("P2", pod, a_cluster(a_host(), linux=(linux,))).severity is Severity.ERROR
    assert only("P2", pod, a_cluster(a_host(), linux=(kept,))).severity is Severity.WARNING
    assert only("P2", pod, a_cluster(a_host(), linux=None)).severity is Severity.ERROR
    assert only("P2", pod, Cluster()).severity is Severity.ERROR


# P4, P14


def test_pods_that_tolerate_no_selected_node_stay_pending() -> None:
    cluster = a_cluster(a_host("w1", "10.0.20348.1", TAINT), a_host("w2", "10.0.26100.1", TAINT))
    found = only("P4", a_pod(), cluster)
    assert (found.severity, found.field) == (Severity.ERROR, "spec.tolerations")
    assert found.says.endswith("Taints that they do not tolerate: os=windows:NoSchedule (on w1, w2).")
    assert "P4" not in codes(a_pod({"tolerations": [TOLERATION]}), cluster)
    assert "P4" not in codes(a_pod(), a_cluster(a_host("w1", "10.0.20348.1", TAINT), a_host("w2")))


def test_a_runtime_class_can_have_the_toleration() -> None:
    classes = {"win": RuntimeClass("h", WINDOWS, (Toleration("os", value="windows", effect="NoSchedule"),))}
    cluster = a_cluster(a_host("w1", "10.0.20348.1", TAINT), runtime_classes=classes)
    assert codes(a_pod({"runtimeClassName": "win"}), cluster) == []


def test_pods_that_select_what_no_node_has_stay_pending_until_one_joins() -> None:
    pod = a_pod({"nodeSelector": {**WINDOWS, BUILD: "10.0.17763"}})
    found = only("P14", pod, a_cluster(a_host(), a_host("w2", "10.0.26100.1")))
    assert found.severity is Severity.WARNING
    said = f"They select {BUILD}=10.0.17763, and the Windows hosts are 10.0.20348, 10.0.26100."
    assert found.says.endswith(said)
    assert only("P14", pod, a_cluster(a_host(), is_chosen=True)).severity is Severity.ERROR
    assert only("P14", a_pod(), a_cluster()).says.endswith("They select Windows nodes, and there is none.")
    assert "P14" not in codes(pod, a_cluster(a_host("w1", "10.0.17763.1")))


def test_of_a_host_that_is_only_asked_about_other_labels_and_taints_are_not_known() -> None:
    cluster = Cluster(hosts=(asked_about("10.0.20348"),), is_chosen=True)
    assert Needs.NODES not in knows(cluster)
    pods = (
        a_pod({"nodeSelector": {**WINDOWS, "disk": "ssd"}}),
        a_pod(affinity({"key": "disk", "operator": "In", "values": ["ssd"]})),
        plain(),
    )
    for pod in pods:
        assert codes(pod, cluster) == []
    assert codes(a_pod({"nodeSelector": {**WINDOWS, BUILD: "10.0.26100"}}), cluster) == ["P14"]


@every(
    "case",
    [
        ({"key": "rank", "operator": "In", "values": ["3", "4"]}, True),
        ({"key": "rank", "operator": "In", "values": ["4"]}, False),
        ({"key": "rank", "operator": "NotIn", "values": ["4"]}, True),
        ({"key": "rank", "operator": "NotIn", "values": ["3"]}, False),
        ({"key": "disk", "operator": "NotIn", "values": ["ssd"]}, True),
        ({"key": "rank", "operator": "Exists"}, True),
        ({"key": "disk", "operator": "Exists"}, False),
        ({"key": "rank", "operator": "DoesNotExist"}, False),
        ({"key": "disk", "operator": "DoesNotExist"}, True),
        ({"key": "rank", "operator": "Gt", "values": ["2"]}, True),
        ({"key": "rank", "operator": "Gt", "values": ["3"]}, False),
        ({"key": "rank", "operator": "Lt", "values": ["4"]}, True),
        ({"key": "rank", "operator": "Lt", "values": ["x"]}, False),
    ],
    ids=str,
)
def test_required_affinity_selects_nodes_as_the_scheduler_reads_it(case: tuple[Object, bool]) -> None:
    expression, is_selected = case
    cluster = a_cluster(a_host(labels={"rank": "3"}))
    assert ("P14" not in codes(a_pod(affinity(expression)), cluster)) is is_selected


def test_one_term_of_an_affinity_is_enough_and_an_empty_one_selects_nothing() -> None:
    pod = a_pod(affinity({"key": "disk", "operator": "Exists"}))
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    required["nodeSelectorTerms"].append({})
    assert "P14" in codes(pod, a_cluster(a_host()))
    names = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["w1"]}]}
    required["nodeSelectorTerms"].append(names)
    assert "P14" not in codes(pod, a_cluster(a_host("w1")))
    assert "P14" in codes(pod, a_cluster(a_host("w2")))


# P8, P9, P10, P13


def test_a_runtime_class_that_does_not_exist_is_an_error() -> None:
    pod, classes = a_pod({"runtimeClassName": "win"}), {"win": RuntimeClass("h")}
    assert only("P8", pod, a_cluster(a_host())).severity is Severity.ERROR
    assert "P8" not in codes(pod, a_cluster(a_host(), runtime_classes=classes))
    assert "P8" not in codes(a_pod(), a_cluster(a_host()))
    assert "P8" not in codes(pod, a_cluster(a_host(), has_all_classes=False))


def test_a_handler_that_no_node_has_is_an_error() -> None:
    pod, classes = a_pod({"runtimeClassName": "win"}), {"win": RuntimeClass("docker")}
    has, has_not = {"": False, "docker": False}, {"": False, "runhcs-wcow-process": False}

    def cluster(*handlers: Object | None) -> Cluster:
        hosts = (a_host(f"w{n}", handlers=each) for n, each in enumerate(handlers))
        return a_cluster(*hosts, runtime_classes=classes)

    found = only("P9", pod, cluster(has_not, has_not))
    assert found.says.endswith("Its handler is docker; handlers of the nodes: runhcs-wcow-process.")
    for handlers in ((has,), (has, has_not), (has_not, None), (None,)):
        assert "P9" not in codes(pod, cluster(*handlers))


def a_class(**scheduling: Any) -> Object:
    return {
        "kind": "RuntimeClass",
        "metadata": {"name": "win"},
        "handler": "runhcs-wcow-process",
        "scheduling": {"nodeSelector": WINDOWS, **scheduling},
    }


def of_class(content: Object, cluster: Cluster) -> list[tuple[str, str]]:
    found = findings(runtime_class_of(content, cluster), NEWEST)
    assert all(each.severity is Severity.WARNING for each in found)
    return [(each.rule.code, each.field) for each in found]


def test_a_runtime_class_that_sends_pods_where_no_node_takes_them_is_a_finding() -> None:
    tainted = a_cluster(a_host("w1", "10.0.20348.1", TAINT))
    old = a_class(nodeSelector={BUILD: "10.0.17763"}, tolerations=[TOLERATION])
    assert of_class(a_class(), tainted) == [("P10", "scheduling.tolerations")]
    assert of_class(old, tainted) == [("P10", "scheduling.nodeSelector")]
    assert of_class(a_class(tolerations=[TOLERATION]), tainted) == []
    assert of_class(a_class(), a_cluster(a_host())) == []
    assert of_class(a_class(nodeSelector=LINUX), tainted) == []
    assert of_class(a_class(nodeSelector={}), tainted) == []
    assert of_class(old, a_cluster(a_host(), is_chosen=True)) == [], "others may have that build"
    assert of_class(a_class(), Cluster()) == []


def test_labels_that_contradict_the_runtime_class_are_an_error() -> None:
    classes = {"win": RuntimeClass("h", {BUILD: "10.0.20348", "disk": "ssd"})}
    known = Cluster(runtime_classes=classes)
    spec = {"runtimeClassName": "win", "nodeSelector": {BUILD: "10.0.17763", "disk": "ssd"}}
    found = only("P13", a_pod(spec), known)
    assert (found.severity, found.field) == (Severity.ERROR, f"spec.nodeSelector[{BUILD}]")
    assert f"The pods select {BUILD}=10.0.17763, and the RuntimeClass win {BUILD}=10.0.20348." in found.says
    same = a_pod({**spec, "nodeSelector": {BUILD: "10.0.20348", "rack": "1"}})
    assert "P13" not in codes(same, known)
    assert "P13" not in codes(a_pod({"nodeSelector": {BUILD: "10.0.17763"}}), known)


# HostProcess containers


def host_process(namespace: str = "default", **container: Any) -> Object:
    options = {"windowsOptions": {"hostProcess": True, "runAsUserName": "NT AUTHORITY\\SYSTEM"}}
    pod = a_pod({"hostNetwork": True, "securityContext": options}, container)
    pod["metadata"]["namespace"] = namespace
    return pod


@pytest.mark.parametrize(
    ("level", "is_found"), [("baseline", 1), ("restricted", 1), ("privileged", 0), ("", 0)]
)
def test_a_namespace_may_refuse_host_process_containers(level: str, is_found: int) -> None:
    cluster = a_cluster(a_host(), enforced={"shop": level})
    assert codes(host_process("shop"), cluster).count("W10") == is_found
    assert "W10" not in codes(host_process("other"), cluster)
    assert "W10" not in codes({**a_pod(), "metadata": {"namespace": "shop"}}, cluster)


def test_host_process_containers_need_containerd_from_1_6_on() -> None:
    for runtime, is_found in (
        ("containerd://1.7.24", False),
        ("containerd://1.5.9", True),
        ("docker://20.10.0", True),
        ("", False),
    ):
        cluster = a_cluster(a_host(runtime=runtime))
        assert ("W11" in codes(host_process(), cluster)) is is_found, runtime
        assert "W11" not in codes(a_pod(), cluster)
    old = a_cluster(a_host("w1"), a_host("w2", runtime="containerd://1.5.9"))
    assert "(w2) is containerd://1.5.9." in only("W11", host_process(), old).says


def test_the_image_of_a_host_process_container_may_be_for_any_windows() -> None:
    content = host_process(image="mcr.microsoft.com/windows/nanoserver:ltsc2025")
    assert codes(content, a_cluster(a_host())) == []


# W16, W34


def test_a_recursive_read_only_mount_needs_a_handler_that_can() -> None:
    mount = {"name": "v", "mountPath": "/v", "readOnly": True, "recursiveReadOnly": "Enabled"}
    pod = a_pod({"volumes": [{"name": "v", "emptyDir": {}}]}, {"volumeMounts": [mount]})
    at = "spec.containers[0].volumeMounts[0].recursiveReadOnly"
    assert only("W16", pod, a_cluster(a_host(handlers={"": False}))).field == at
    assert "W16" not in codes(pod, a_cluster(a_host(handlers={"": True})))
    assert "W16" not in codes(pod, a_cluster(a_host(handlers=None)))
    mount["recursiveReadOnly"] = "IfPossible"
    assert "W16" not in codes(pod, a_cluster(a_host(handlers={"": False})))


@every(
    "case",
    [
        ({}, Limits("1Gi", "1024Mi"), ""),
        ({}, Limits("1Gi"), ""),
        ({}, Limits("1Gi", "512Mi"), "requests"),
        ({}, Limits(None, "512Mi"), "limits"),
        ({"requests": {"memory": "1Gi"}}, Limits("1Gi", "1Gi"), ""),
        ({"requests": {"memory": "512Mi"}}, Limits("1Gi", "1Gi"), "requests"),
        ({"limits": {"memory": "2Gi"}}, Limits("1Gi", "1Gi"), ""),
        ({"limits": {"memory": "0"}}, Limits("1Gi"), "limits"),
        ({"limits": {"memory": 0}}, None, "limits"),
        ({}, Limits("0"), "limits"),
        ({}, None, "limits"),
    ],
    ids=str,
)
def test_what_a_limit_range_gives_counts(case: tuple[Object, Limits | None, str]) -> None:
    resources, limits, found = case
    cluster = a_cluster(a_host(), limits={"default": limits} if limits else {})
    at = [each.field for each in found_in(a_pod(container={"resources": resources}), cluster)]
    assert at == ([f"spec.containers[0].resources.{found}.memory"] if found else [])


# Images


def of(image: str = "acme/app", *, annotation: str = "", spec: Object | None = None) -> Object:
    annotations = {"winpool.dev/windows-build": annotation} if annotation else {}
    return a_pod(spec, {"image": image}, annotations=annotations)


@pytest.mark.parametrize(
    ("host", "image", "severity"),
    [
        ("10.0.26100.32995", "10.0.20348", None),
        ("10.0.26100.32995", "10.0.17763", "Error"),
        ("10.0.20348.1607", "10.0.20348", None),
        ("10.0.20348.1607", "10.0.26100", "Error"),
        ("10.0.17763.2452", "10.0.17763.2452", None),
        ("10.0.17763.2452", "10.0.17763", None),
        ("10.0.26100.4000", "10.0.26100.4061", "Warning"),
        ("10.0.28000.1", "10.0.26100", None),
    ],
)
def test_what_a_pod_declares_is_judged_by_the_rules_for_hosts(
    host: str, image: str, severity: str | None
) -> None:
    found = found_in(of(annotation=image), a_cluster(a_host("w1", host)))
    assert [(each.rule.code, str(each.severity)) for each in found] == (
        [("W44", severity)] if severity else []
    )
    for each in found:
        assert (
            f"The image is for {image}, according to the annotation winpool.dev/windows-build." in each.says
        )


def test_a_pod_declares_by_what_it_asks_of_nodes_the_oldest_of_several() -> None:
    both = affinity({"key": BUILD, "operator": "In", "values": ["10.0.26100", "10.0.17763"]})
    found = only("W44", of(spec=both), a_cluster(a_host("w1", "10.0.26100.1")))
    assert (
        f"The image is for 10.0.17763, according to the build that the pod selects by {BUILD}." in found.says
    )
    classes = {"old": RuntimeClass("h", {BUILD: "10.0.26100"})}
    content = of(spec={"runtimeClassName": "old"})
    cluster = a_cluster(a_host("w1", "10.0.26100.1", runtime="containerd://1.6.22"), runtime_classes=classes)
    assert codes(content, cluster) == []


def test_a_term_without_a_build_lets_a_pod_go_anywhere() -> None:
    pod = of(spec=affinity({"key": BUILD, "operator": "In", "values": ["10.0.26100"]}))
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    required["nodeSelectorTerms"].append(
        {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "Exists"}]}
    )
    assert codes(pod, a_cluster(a_host("w1", "10.0.17763.1"))) == []


def test_an_image_that_some_of_the_nodes_run_is_a_warning() -> None:
    cluster = a_cluster(a_host("w1", "10.0.17763.1"), a_host("w2"), a_host("w3", "10.0.26100.1"))
    found = only("P7", of(annotation="10.0.20348"), cluster)
    assert (found.severity, found.field) == (Severity.WARNING, f"spec.nodeSelector[{BUILD}]")
    assert "On 10.0.17763.1 (w1): " in found.says
    bound = of(annotation="10.0.20348", spec={"nodeSelector": {**WINDOWS, BUILD: "10.0.20348"}})
    assert codes(bound, cluster) == []
    kept = a_cluster(a_host("w1", "10.0.17763.1", TAINT), a_host("w2"))
    assert codes(of(annotation="10.0.20348"), kept) == []


def test_a_build_that_is_given_is_taken_for_what_the_pod_declares() -> None:
    cluster = a_cluster(a_host("w1", "10.0.26100.1"), image_build="10.0.17763")
    found = only("W44", of(annotation="10.0.20348"), cluster)
    assert "The image is for 10.0.17763, according to --image-build." in found.says
    assert only("W44", plain(), cluster).severity is Severity.ERROR


def test_a_tag_is_a_guess_that_warns_and_never_refuses() -> None:
    cluster = a_cluster(a_host("w1", "10.0.26100.1"))
    found = only("W44", of("acme/app:1.0-ltsc2019"), cluster)
    assert found.severity is Severity.WARNING
    assert found.says.endswith("This is a guess: a tag can be wrong.")
    assert codes(of("acme/app:1.0-ltsc2022"), cluster) == []


def test_of_an_image_that_says_nothing_nothing_is_known() -> None:
    cluster = a_cluster(a_host())
    for content, why in (
        (of("acme/app:1.0"), "nothing says the Windows version of acme/app:1.0: use --image-build or"),
        (of(annotation="10.0.26100"), ""),
        (plain(), ""),
    ):
        workload = workload_of(content, cluster)
        assert workload is not None
        assert unknown_images(workload).startswith(why)
        assert bool(unknown_images(workload)) is bool(why)
    assert codes(of("acme/app:1.0"), cluster) == []


def test_the_runtime_and_the_isolation_count() -> None:
    old = a_cluster(a_host("w1", "10.0.26100.1", runtime="containerd://1.6.22"))
    assert "containerd 1.6.22 takes only images" in only("W44", of(annotation="10.0.20348"), old).says
    new = a_cluster(a_host("w1", "10.0.26100.1"), isolation=Isolation.HYPER_V)
    found = only("W44", of(annotation="10.0.17763"), new)
    assert found.severity is Severity.WARNING
    assert "does not support Hyper-V isolation" in found.says
    classes = {"hv": RuntimeClass("runhcs-wcow-hypervisor")}
    by_class = a_cluster(a_host("w1", "10.0.26100.1"), runtime_classes=classes)
    content = of(annotation="10.0.17763", spec={"runtimeClassName": "hv"})
    assert only("W44", content, by_class).severity is Severity.WARNING


def test_every_container_is_judged() -> None:
    init = {"initContainers": [{"name": "i", "image": "acme/first:ltsc2019"}]}
    found = found_in(of("acme/app:ltsc2022", spec=init), a_cluster(a_host()))
    assert [each.field for each in found if each.rule.code == "W44"] == ["spec.initContainers[0].image"]


# Records


def test_nodes_that_no_workload_tells_apart_are_one_host() -> None:
    nodes = [a_host(f"w{n}", labels={"name": str(n), "disk": "ssd" if n else "hdd"}) for n in range(4)]
    found = alike(nodes, {"disk"})
    assert [each.names for each in found] == [("w0",), ("w1", "w2", "w3")]
    assert found[0].labels == {"disk": "hdd"}
    assert alike([*nodes, a_host("w4", "10.0.26100.1")], ())[1].names == ("w4",)


@given(JSON, JSON, st.booleans())
def test_no_object_raises(spec: Any, other: Any, is_everything_known: bool) -> None:
    classes = {"win": RuntimeClass.of(other)}
    cluster = a_cluster(
        a_host(handlers={"": False}), runtime_classes=classes, enforced={"default": "baseline"}
    )
    if not is_everything_known:
        cluster = Cluster(hosts=(asked_about("10.0.20348"),), image_build="10.0.20348")
    spec = {**spec, "runtimeClassName": "win"} if isinstance(spec, dict) else {"affinity": spec}
    for content in (a_pod(spec), in_a_deployment(a_pod(spec, os_name=None)), plain(spec)):
        found_in(content, cluster)
    findings(runtime_class_of(other, cluster), NEWEST)
