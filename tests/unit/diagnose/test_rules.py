"""The rules about nodes: from objects as the API returns them to what is said, and where nothing is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pytest

from harness.diagnosed import (
    FLANNEL,
    NETWORK,
    VENDORS,
    a_daemon_set,
    a_flannel_map,
    a_node,
    a_pod,
    a_vendor_node,
    an_event,
)
from harness.every import every
from unit.cli.test_audit_cluster import Server, forbidden
from winpool.cli import diagnose_reader
from winpool.cli.kubectl import NotAskedError
from winpool.cli.kubelet import FORBIDDEN
from winpool.cli.memory import choice
from winpool.features.diagnose.rules import RULES, Diagnosis, Severity, judge

Object = dict[str, Any]

LISTS: Final = {
    "nodes": "/api/v1/nodes",
    "pods": "/api/v1/pods",
    "events": "/api/v1/events",
    "sets": "/apis/apps/v1/daemonsets",
}
SANDBOX: Final = "FailedCreatePodSandBox"
HCS: Final = (
    "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to create containerd task: failed "
    "to create shim task: hcs::CreateComputeSystem 5f2c: {}: unknown"
)
FAILED_NETWORK: Final = 'Failed to create pod sandbox: failed to setup network for sandbox "9125": {}'
NEW: Final = "2999-01-01T00:00:00Z"
"""The time of what was created just now."""
NO_DNS: Final = (
    'kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy'
)
CHOWN: Final = (
    'MountVolume.SetUp failed for volume "kube-api-access-x" : chown '
    r"c:\var\lib\kubelet\pods\1\volumes\token: not supported by windows"
)
RANGE: Final = {"podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24"]}


def read(
    *, one: str = "", kubelet: Mapping[str, bytes] | None = None, answers: Object | None = None, **lists: Any
) -> diagnose_reader.Seen:
    """Read a cluster with these lists: all nodes, or the one of that name."""
    Server.asked, Server.queries = [], []
    Server.answers = {**{LISTS[name]: found for name, found in lists.items()}, **(answers or {})}
    given = kubelet

    @contextmanager
    def ask(_: Any, __: str, path: str) -> Iterator[Any]:
        if given is None:
            raise NotAskedError(FORBIDDEN)
        yield lambda query: given.get(path + query, b"")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diagnose_reader, "Kubectl", Server)
        patch.setattr(diagnose_reader, "asking_kubelet", ask)
        wanted = choice(f"node/{one}") if one else None
        return diagnose_reader.read_seen((), wanted, is_everywhere=not one)


def diagnosed(**cluster: Any) -> list[Diagnosis]:
    return [judge(each) for each in read(**cluster).evidence]


def codes(found: Sequence[Diagnosis]) -> list[str]:
    return [each.rule.code for one in found for each in one.findings]


STUCK: Final = a_pod(waits="ContainerCreating")
FLANNEL_RUNS: Final[Object] = {"sets": [a_daemon_set("kube-flannel-ds")]}
FLANNEL_MAP: Final = "/api/v1/namespaces/kube-flannel/configmaps/kube-flannel-cfg"
GOOD_BACKEND: Final = {FLANNEL_MAP: a_flannel_map('{"Type": "vxlan", "VNI": 4096, "Port": 4789}')}
OLD_BACKEND: Final = {**FLANNEL, "flannel.alpha.coreos.com/backend-data": '{"VNI":1}'}
A_FLANNEL_NODE: Final = a_node(annotations=FLANNEL, spec=RANGE)
AGENT_NAME: Final = "calico-node-windows"
AGENT: Final = a_daemon_set(AGENT_NAME, namespace="calico-system")
AN_AGENT: Final = {"daemon_set": "calico-node-windows", "namespace": "calico-system"}


def vxlan(backend: str) -> Object:
    return {"nodes": [A_FLANNEL_NODE], **FLANNEL_RUNS, "answers": {FLANNEL_MAP: a_flannel_map(backend)}}


def sandbox(message: str, **more: Any) -> Object:
    return {"nodes": [a_node()], "pods": [STUCK], "events": [an_event(SANDBOX, message, **more)]}


def pulled(message: str, **more: Any) -> Object:
    return {"nodes": [a_node()], "pods": [a_pod(waits="ErrImagePull", message=message, **more)]}


def dns(given: str, *addresses: str) -> Object:
    """Return one node whose kubelet gives pods this DNS; and the Service of the DNS."""
    services = [{"spec": {"clusterIP": each, "clusterIPs": [each]}} for each in addresses]
    return {
        "nodes": [a_node()],
        "one": "w1",
        "kubelet": {"/configz": f'{{"kubeletconfig": {{"clusterDomain": "cluster.local"{given}}}}}'.encode()},
        "answers": {"/api/v1/namespaces/kube-system/services": services},
    }


FOUND: Final[tuple[tuple[str, str, str, Object], ...]] = (
    ("N1", "Error", "reason:NetworkPluginNotReady", {"nodes": [a_node(ready=NETWORK)]}),
    (
        "N1",
        "Error",
        "It joined a few minutes ago",
        {"nodes": [a_node(ready=NETWORK, created=NEW)]},
    ),
    (
        "N1",
        "Error",
        "cni config uninitialized",
        {
            "nodes": [
                a_node(ready="[PLEG is not healthy, runtime network not ready: cni config uninitialized]")
            ]
        },
    ),
    ("N2", "Error", "0xc0370101", sandbox(HCS.format("Das Betriebssystem passt nicht. (0xc0370101)"))),
    (
        "N2",
        "Error",
        "The node has build 20348.",
        sandbox(HCS.format("The container operating system does not match the host operating system.")),
    ),
    (
        "N2",
        "Error",
        "pinned_images.sandbox in the configuration",
        {
            **sandbox(
                'failed to get sandbox image "registry.k8s.io/pause:3.5": no match for platform in manifest'
            ),
            "nodes": [a_node(runtime="containerd://2.1.4")],
        },
    ),
    (
        "N3",
        "Warning",
        "variant for build 26100, such as registry.k8s.io/pause:3.10.2",
        {
            "nodes": [
                a_node(
                    kernel="10.0.26100.2033", images=[["k8s.gcr.io/pause:3.9"]], runtime="containerd://1.7.2"
                )
            ]
        },
    ),
    (
        "N4",
        "Error",
        "no match for platform",
        pulled("failed to pull: no match for platform in manifest: not found"),
    ),
    (
        "N4",
        "Error",
        "does not match",
        pulled("The operating system of the container does not match the operating system of the host."),
    ),
    (
        "N4",
        "Error",
        "incompatible with a 10.0.17763 host",
        pulled("a Windows version 10.0.18363-based image is incompatible with a 10.0.17763 host"),
    ),
    (
        "N4",
        "Error",
        "cannot be used on this platform",
        pulled('image operating system "linux" cannot be used on this platform'),
    ),
    (
        "N4",
        "Error",
        "(0xc0370101)",
        {
            "nodes": [a_node()],
            "pods": [
                a_pod(
                    waits="CrashLoopBackOff",
                    last={"terminated": {"reason": "StartError", "message": HCS.format("(0xc0370101)")}},
                )
            ],
        },
    ),
    (
        "N4",
        "Error",
        "no matching manifest for windows/amd64",
        {
            "nodes": [a_node()],
            "pods": [a_pod(waits="ImagePullBackOff", message='Back-off pulling image "nginx"')],
            "events": [an_event("Failed", "no matching manifest for windows/amd64 10.0.20348 in the list")],
        },
    ),
    (
        "N5",
        "Error",
        "not supported by windows",
        {"nodes": [a_node()], "pods": [STUCK], "events": [an_event("FailedMount", CHOWN)]},
    ),
    (
        "N5",
        "Error",
        "The pod shop/web sets runAsUser.",
        {
            "nodes": [a_node()],
            "pods": [a_pod(waits="ContainerCreating", spec={"securityContext": {"runAsUser": 1000}})],
            "events": [an_event("FailedMount", CHOWN)],
        },
    ),
    (
        "N10",
        "Warning",
        "none is of the DaemonSet calico-system/calico-node-windows",
        {"nodes": [a_node()], "sets": [AGENT]},
    ),
    (
        "N10",
        "Warning",
        "CrashLoopBackOff",
        {
            "nodes": [a_node()],
            "sets": [AGENT],
            "pods": [a_pod("calico", waits="CrashLoopBackOff", **AN_AGENT)],
        },
    ),
    *(
        ("N10", "Error", "does not answer its CNI", sandbox(FAILED_NETWORK.format(each)))
        for each in (
            r'rpc error: desc = "transport: Error while dialing open \\.\pipe\cnisock: Nicht gefunden."',
            "CreateFile nodename: ?: check that the calico/node container is running and has mounted it",
        )
    ),
    (
        "N10",
        "Warning",
        "ContainerCreating BackOff pulling",
        {
            "nodes": [a_node()],
            "pods": [a_pod("calico", waits="ContainerCreating", **AN_AGENT)],
            "events": [
                {
                    **an_event("Failed", "BackOff pulling"),
                    "involvedObject": {"kind": "Pod", "namespace": "calico-system", "name": "calico"},
                }
            ],
        },
    ),
    ("N11", "Error", "VNI is not set, Port is not set", vxlan('{"Type": "vxlan"}')),
    ("N11", "Error", "VNI is 1, Port is 8472", vxlan('{"Type": "VXLAN", "VNI": 1, "Port": 8472}')),
    (
        "N11",
        "Error",
        "DirectRouting is true, GBP is true",
        vxlan('{"Type": "vxlan", "VNI": 4100, "Port": 4789, "DirectRouting": true, "GBP": true}'),
    ),
    (
        "N11",
        "Error",
        "annotation flannel.alpha.coreos.com/backend-data of the node l1: VNI is 1",
        {
            "nodes": [
                a_node(
                    "l1",
                    os="linux",
                    annotations=OLD_BACKEND,
                ),
                a_node("w1", spec=RANGE),
            ],
            **FLANNEL_RUNS,
        },
    ),
    (
        "N12",
        "Error",
        "spec.podCIDR is not set",
        {"nodes": [a_node()], **FLANNEL_RUNS, "answers": GOOD_BACKEND},
    ),
    (
        "N12",
        "Error",
        "other nodes of its pool (kubernetes.azure.com/agentpool=a) have one",
        {
            "nodes": [
                a_node("w1", labels={"kubernetes.azure.com/agentpool": "a"}),
                a_node("w2", labels={"kubernetes.azure.com/agentpool": "a"}, spec=RANGE),
            ]
        },
    ),
    (
        "N12",
        "Error",
        "subnet.env: The system cannot find the file",
        sandbox('plugin type="flannel" failed (add): open subnet.env: The system cannot find the file'),
    ),
    *(
        ("N13", "Error", each, sandbox(FAILED_NETWORK.format(each)))
        for each in (
            "error while GETHNSNewtorkByName(flannel.4096): Network flannel.4096 not found",
            r"error while GetNetworkByName(vxlan0): Network name \"vxlan0\" not found",
            "hcnOpenNetwork failed in Win32: Das Netzwerk wurde nicht gefunden. (0x803b0001)",
        )
    ),
    (
        "N15",
        "Error",
        "does not have ClusterDNS",
        {
            "nodes": [a_node()],
            "pods": [a_pod()],
            "events": [an_event("MissingClusterDNS", NO_DNS)],
        },
    ),
    (
        "N15",
        "Error",
        "does not have ClusterDNS",
        {
            "nodes": [a_node()],
            "events": [an_event("MissingClusterDNS", NO_DNS, node="w1")],
        },
    ),
    ("N15", "Error", "clusterDNS is not set", dns("")),
    (
        "N15",
        "Warning",
        "clusterDNS is 10.0.0.10, and the Service of the DNS has 10.96.0.10",
        dns(', "clusterDNS": ["10.0.0.10"]', "10.96.0.10"),
    ),
    (
        "N18",
        "Warning",
        "10.244.1.0/25 has 126 addresses, and status.capacity.pods is 250",
        {
            "nodes": [a_node(annotations=FLANNEL, pods="250", spec={"podCIDR": "10.244.1.0/25"})],
            **FLANNEL_RUNS,
            "answers": GOOD_BACKEND,
        },
    ),
)


@pytest.mark.parametrize(("code", "severity", "says", "cluster"), FOUND, ids=lambda value: str(value)[:40])
def test_a_rule_finds_its_case_and_quotes_it(code: str, severity: str, says: str, cluster: Object) -> None:
    found = [each for one in diagnosed(**cluster) for each in one.findings]
    [only] = found
    assert (only.rule.code, only.severity) == (code, severity)
    assert says in f"{only.found.by} {only.found.quote} {only.says} {only.fix}"


def test_every_rule_has_a_case() -> None:
    assert {code for code, *_ in FOUND} == {each.code for each in RULES}


def test_every_source_fits_a_line() -> None:
    sources = [source for each in RULES for source in each.sources]
    assert all(each.startswith("https://") and len(each) <= 76 for each in sources)
    assert all(each.sources for each in RULES)


def test_nodes_with_the_same_range_are_both_named() -> None:
    """The Windows node is not the only one that suffers, but it is the one that is diagnosed."""
    twin = a_node("w2", annotations=FLANNEL, spec=RANGE)
    found = diagnosed(
        nodes=[A_FLANNEL_NODE, twin], answers=GOOD_BACKEND, sets=[a_daemon_set("kube-flannel-ds")]
    )
    assert [each.found.by for one in found for each in one.findings] == [
        "spec.podCIDR is 10.244.1.0/24, as on w2",
        "spec.podCIDR is 10.244.1.0/24, as on w1",
    ]


def test_a_node_agent_that_is_missing_is_an_error_where_the_cni_is_not_ready() -> None:
    [found] = diagnosed(nodes=[a_node(ready=NETWORK)], sets=[AGENT])
    assert [(each.rule.code, each.severity) for each in found.findings] == [
        ("N1", Severity.ERROR),
        ("N10", Severity.ERROR),
    ]


SILENT: Final[tuple[tuple[str, Object], ...]] = (
    ("another reason", {"nodes": [a_node()], "events": [an_event(SANDBOX, HCS.format("0xc0370101"))]}),
    ("a pod that was started since", {**sandbox(HCS.format("0xc0370101")), "pods": [a_pod()]}),
    (
        "a pod of a Linux node",
        {**pulled("no match for platform in manifest", node="l1"), "nodes": [a_node()]},
    ),
    (
        "a pause image that the runtime runs as an older one",
        {
            "nodes": [
                a_node(
                    kernel="10.0.26100.2033",
                    images=[["registry.k8s.io/pause:3.9"]],
                    runtime="containerd://2.1.4",
                )
            ]
        },
    ),
    (
        "a pause image beside another with a variant",
        {
            "nodes": [
                a_node(
                    kernel="10.0.26100.2033",
                    images=[["registry.k8s.io/pause:3.9"], ["registry.k8s.io/pause:3.10.2"]],
                    runtime="containerd://1.7.2",
                )
            ]
        },
    ),
    (
        "a pause image of a mirror",
        {
            "nodes": [
                a_node(
                    kernel="10.0.26100.1", images=[["acme.example/pause:3.9"]], runtime="containerd://1.7.2"
                )
            ]
        },
    ),
    (
        "a pause image in whose sandboxes pods run",
        {
            "nodes": [
                a_node(
                    kernel="10.0.26100.1",
                    images=[["registry.k8s.io/pause:3.9"]],
                    runtime="containerd://1.7.2",
                )
            ],
            "pods": [a_pod()],
        },
    ),
    (
        "a volume that waits",
        {**sandbox("x"), "events": [an_event("FailedMount", "not registered")], "pods": [a_pod()]},
    ),
    (
        "an agent for other nodes",
        {"nodes": [a_node()], "sets": [a_daemon_set("calico-node-windows", nodeSelector={"a": "b"})]},
    ),
    (
        "a ConfigMap of flannel that does not run",
        {"nodes": [a_node()], "answers": {FLANNEL_MAP: a_flannel_map("{}")}},
    ),
    ("no podCIDR where no one has one", {"nodes": [a_node("w1"), a_node("w2")]}),
    (
        "no podCIDR beside another pool",
        {
            "nodes": [
                a_node("w1", labels={"kubernetes.azure.com/agentpool": "a"}),
                a_node("w2", labels={"kubernetes.azure.com/agentpool": "b"}, spec=RANGE),
            ]
        },
    ),
    ("a node agent that is not there yet", {"nodes": [a_node(created=NEW)], "sets": [AGENT]}),
    ("a small podCIDR with another CNI", {"nodes": [a_node(pods="500", spec=RANGE)]}),
    ("the DNS of the cluster", dns(', "clusterDNS": ["10.96.0.10"]', "10.96.0.10")),
    (
        "an event from before the kubelet had a DNS",
        {
            **dns(', "clusterDNS": ["10.96.0.10"]', "10.96.0.10"),
            "events": [an_event("MissingClusterDNS", NO_DNS, node="w1")],
        },
    ),
    (
        "a pod that no one wants to be scheduled",
        {
            "nodes": [a_node()],
            "pods": [
                a_pod(
                    node="",
                    waits="x",
                    spec={"os": {"name": "windows"}},
                    conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
                )
            ],
        },
    ),
    (
        "what a container that ran wrote as its last words",
        {
            "nodes": [a_node()],
            "pods": [
                a_pod(
                    waits="CrashLoopBackOff",
                    last={"terminated": {"reason": "Error", "message": "no match for platform"}},
                )
            ],
        },
    ),
    (
        "a backend of flannel by one node, and another by the others",
        {
            "nodes": [
                a_node("l1", os="linux", annotations=OLD_BACKEND),
                a_node("w1", annotations=FLANNEL, spec=RANGE),
            ],
            **FLANNEL_RUNS,
        },
    ),
    (
        "DaemonSets of others with such names",
        {
            "nodes": [a_node()],
            "sets": [
                a_daemon_set("my-flannel", namespace="shop"),
                a_daemon_set(AGENT_NAME, namespace="shop"),
            ],
        },
    ),
    ("a headless Service of the DNS", dns(', "clusterDNS": ["10.96.0.10"]', "None")),
    ("a DNS of another label", dns(', "clusterDNS": ["10.0.0.10"]')),
    ("a cache on the node", dns(', "clusterDNS": ["169.254.20.10"]', "10.96.0.10")),
)


@pytest.mark.parametrize("cluster", [each for _, each in SILENT], ids=[name for name, _ in SILENT])
def test_what_is_near_a_case_is_none(cluster: Object) -> None:
    found = diagnosed(**cluster)
    assert codes(found) == []
    assert [each for one in found for each in one.unexplained] == []


def test_a_pause_image_is_judged_only_where_all_pods_are_known() -> None:
    """One that runs would show that it works."""
    node = a_node(kernel="10.0.26100.1", images=[["registry.k8s.io/pause:3.9"]], runtime="containerd://1.7.2")
    assert codes(diagnosed(nodes=[node])) == ["N3"]
    assert codes(diagnosed(nodes=[node], pods=forbidden("pods"))) == []


@pytest.mark.parametrize(
    "given",
    [
        '"10.0.0.10"',
        "7",
        '{"a": 1}',
        "[7]",
        '["fe80::1%so it is"]',
        r'["\u001b[2J"]',
        '["' + "no address " * 9999 + '"]',
    ],
)
def test_a_dns_of_a_kubelet_that_is_no_address_is_unknown_and_not_quoted(given: str) -> None:
    [found] = diagnosed(**dns(f', "clusterDNS": {given}', "10.96.0.10"))
    assert codes([found]) == []
    assert {rule.code for rule, _ in found.unknown} == {"N15"}


def test_another_dns_may_be_on_purpose() -> None:
    [seen] = diagnosed(**dns(', "clusterDNS": ["10.0.0.10"]', "10.96.0.10"))
    [found] = seen.findings
    assert "That may be on purpose" in found.says
    assert found.fix.startswith("If it is not on purpose, ")


def test_events_of_an_earlier_pod_of_that_name_do_not_count() -> None:
    assert codes(diagnosed(**sandbox(HCS.format("0xc0370101"), uid="another"))) == []


@every("vendor", VENDORS)
def test_200_healthy_nodes_of_a_vendor_have_nothing(vendor: str) -> None:
    nodes = [a_vendor_node(vendor, number) for number in range(200)]
    names = [each["metadata"]["name"] for each in nodes]
    agent = VENDORS[vendor]["agent"]
    pods = [a_pod(f"p{each}", node=each) for each in names]
    pods += [a_pod(f"agent-{each}", node=each, daemon_set=agent, namespace="kube-system") for each in names]
    found = diagnosed(
        nodes=nodes, pods=pods, answers=GOOD_BACKEND, sets=[a_daemon_set(agent, namespace="kube-system")]
    )
    assert len(found) == 200
    assert codes(found) == []
    assert not any(each.unexplained for each in found)
    assert {rule.code for each in found for rule, _ in each.unknown} == {"N15"}, "of one node alone"


def test_a_runtime_that_is_down_is_not_a_matter_of_the_cni() -> None:
    message = f"[container runtime is down, PLEG is not healthy, {NETWORK}]"
    [found] = diagnosed(nodes=[a_node(ready=message)])
    assert codes([found]) == []
    assert found.unexplained[0].quote.startswith("[container runtime is down")


def test_what_no_rule_knows_is_shown_with_what_is_said_of_it() -> None:
    pods = [a_pod(waits="ContainerCreating", node="w2")]
    events = [
        an_event("FailedMount", "old", at="2026-11-29T09:00:00Z"),
        an_event("FailedAttachVolume", "Multi-Attach error", at="2026-11-29T10:00:00Z"),
    ]
    down = a_node("w1", ready="Kubelet stopped posting node status.", reason="NodeStatusUnknown")
    found = diagnosed(nodes=[down, a_node("w2")], pods=pods, events=events)
    assert codes(found) == []
    assert [each[:4] for one in found for each in one.unexplained] == [
        ("w1", "", "NodeStatusUnknown", "Kubelet stopped posting node status."),
        ("w2", "shop/web", "ContainerCreating", "Multi-Attach error"),
    ]


@pytest.mark.parametrize(
    ("pod", "is_shown"),
    [
        (a_pod(waits="ContainerCreating", created=NEW), False),
        (a_pod(waits="ContainerCreating"), True),
        (a_pod(waits="CreateContainerConfigError", created=NEW), True),
        (a_pod(waits="CrashLoopBackOff"), False),
    ],
)
def test_a_pod_is_stuck_that_takes_minutes_or_fails(pod: Object, is_shown: bool) -> None:
    [found] = diagnosed(nodes=[a_node()], pods=[pod])
    assert bool(found.unexplained) is is_shown


@pytest.mark.parametrize(
    ("service", "line", "cause"),
    [
        ("kubelet", b"hns network vxlan0 not found", "an HNS network is missing"),
        ("kube-proxy", b'"Unable to find HNS Network specified"', "an HNS network is missing"),
        ("containerd", b'ByName(a): Network name \\"a\\" not found', "an HNS network is missing"),
        (
            "kubelet",
            b"Failed to create endpoint: hnsCall failed in Win32: Nicht gefunden. (0x490)",
            "HNS does not find a network, an endpoint or an adapter (0x490)",
        ),
        (
            "kube-proxy",
            b"unable to create proxier: source-vip flag not set",
            "kube-proxy has no --source-vip, which an overlay needs",
        ),
    ],
)
def test_logs_only_hint_at_causes_and_no_line_is_kept(service: str, line: bytes, cause: str) -> None:
    lines = b"E1129 secret-token " + line + b"\nnothing\xff\n"
    lines += b"chown " * 50_000 + b"not supported by windows\n"
    down = a_node(ready="kubelet is sick")
    kubelet = {"/configz": b"{}", f"/logs/?query={service}&tailLines=1000": lines}
    [found] = diagnosed(nodes=[down], one="w1", kubelet=kubelet)
    assert [each.log for each in found.unexplained] == [{cause: 1}]
    assert "secret-token" not in repr(found)


def test_a_network_that_docker_has_not_is_not_that_of_the_cni() -> None:
    """Docker has no network of the host on Windows: mostly the pod is for Linux."""
    [found] = diagnosed(**sandbox("Error response from daemon: network host not found"))
    assert codes([found]) == []
    assert [each.quote for each in found.unexplained] == [
        "Error response from daemon: network host not found"
    ]


def test_a_node_agent_that_does_not_start_is_not_explained_by_that() -> None:
    agent = a_pod("calico", waits="ContainerCreating", **AN_AGENT)
    [found] = diagnosed(nodes=[a_node()], pods=[agent], sets=forbidden("daemonsets", group="apps"))
    assert codes([found]) == ["N10"]
    assert [each.pod for each in found.unexplained] == ["calico-system/calico"]


@pytest.mark.parametrize(
    ("lists", "unknown"),
    [
        ({"pods": forbidden("pods")}, {"N2", "N3", "N4", "N5", "N10", "N13", "N15"}),
        ({"events": forbidden("events")}, {"N2", "N4", "N5", "N10", "N12", "N13", "N15"}),
        ({"sets": forbidden("daemonsets", group="apps")}, {"N10", "N11", "N12", "N18", "N15"}),
        (
            {
                "sets": [a_daemon_set("kube-flannel-ds")],
                "nodes": [A_FLANNEL_NODE],
                "answers": {FLANNEL_MAP: forbidden("configmaps", namespace="kube-flannel")},
            },
            {"N11", "N15"},
        ),
    ],
)
def test_a_rule_whose_source_is_missing_is_unknown(lists: Object, unknown: set[str]) -> None:
    [found] = diagnosed(**{"nodes": [a_node()], **lists})
    assert {rule.code for rule, _ in found.unknown} == unknown
    assert codes([found]) == []


ESCAPES: Final = "\x1b[2J\r\n\t\u202e " + "x" * 5000


@pytest.mark.parametrize(
    "cluster",
    [
        {"nodes": [a_node(ready=f"{ESCAPES} cni plugin not initialized {ESCAPES}")]},
        {"nodes": [a_node(ready="y " * 800 + NETWORK + " z" * 100_000)]},
        sandbox(f"{ESCAPES[:40]} 0xc0370101 {ESCAPES * 100}"),
        {"nodes": [a_node(ready=ESCAPES, reason=ESCAPES)]},
    ],
)
def test_a_quote_is_short_and_has_no_letter_that_a_terminal_obeys(cluster: Object) -> None:
    [found] = diagnosed(**cluster)
    quotes = [each.found.quote for each in found.findings] or [
        text for each in found.unexplained for text in (each.reason, each.quote)
    ]
    assert quotes
    for each in quotes:
        assert each.isprintable()
        assert len(each) <= 320
        assert max(map(len, each.split())) <= 61


@pytest.mark.parametrize("broken", [None, 7, "text", [], [None, 3, "x", []], {"a": 1}, {}])
def test_fields_of_any_type_are_read_as_absent(broken: Any) -> None:
    node, pod, event, daemon_set = a_node(), dict(STUCK), an_event(SANDBOX, "0xc0370101"), dict(AGENT)
    for content in (node, pod, event, daemon_set):
        for key in content:
            if key != "metadata":
                one = {**content, key: broken}
                diagnosed(nodes=[a_node(), one], pods=[one], events=[one], sets=[one])
    for key in ("conditions", "images", "nodeInfo", "capacity"):
        diagnosed(nodes=[{**node, "status": {**node["status"], key: broken}}])
    for key in ("labels", "annotations", "creationTimestamp", "ownerReferences", "uid"):
        diagnosed(
            nodes=[{**node, "metadata": {**node["metadata"], key: broken}}],
            pods=[{**pod, "metadata": {**pod["metadata"], key: broken}}],
        )
    for key in ("containerStatuses", "conditions", "phase"):
        diagnosed(nodes=[node], pods=[{**pod, "status": {**pod["status"], key: broken}}])


def test_of_thousands_of_events_the_latest_of_a_reason_counts() -> None:
    events = [
        an_event(SANDBOX, f"other {n}", at=f"2026-11-29T10:{n // 60 % 60:02}:{n % 60:02}Z")
        for n in range(3000)
    ]
    events.append(an_event(SANDBOX, HCS.format("0xc0370101"), at="2026-11-29T11:00:00Z"))
    [found] = diagnosed(nodes=[a_node()], pods=[STUCK], events=events)
    assert codes([found]) == ["N2"]
