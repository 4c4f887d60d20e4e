"""The rules about nodes: one row for each cause for which a Windows node does not work.

The conditions are functions of ``conditions.py``. The rows are in the order in which findings of one severity
are reported. What is not here, and why, is in ``tools/gen/node_rules_reference.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from winpool.api.keys import HOLD_ANNOTATION
from winpool.api.upgrade import UpgradeState
from winpool.features.diagnose import conditions
from winpool.features.diagnose.conditions import Find
from winpool.features.diagnose.evidence import Evidence, Found, Node, Source, quoted
from winpool.support.compat import OTHER_BUILD


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "Error"
    """The node does not work, or pods do not start on it."""
    WARNING = "Warning"
    """It works, and some pods will not, or it may be the cause of trouble."""


SEVERITIES: Final = tuple(Severity)
"""The worst first."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A row. ``about`` is what is read, ``needs`` the sources of it.

    ``finding`` is what is wrong, ``means`` what follows from it, ``fix`` what to do about it.
    """

    code: str
    about: str
    needs: tuple[Source, ...]
    finding: str
    means: str
    fix: str
    sources: tuple[str, ...]
    find: Find
    severity: Severity = Severity.ERROR


_DEBUG: Final = "https://kubernetes.io/docs/tasks/debug/debug-cluster/windows/"
_CONTAINERD: Final = "https://github.com/containerd/containerd/pull/7856"
_GITHUB: Final = "https://github.com"

RULES: Final = (
    Rule(
        code="N1",
        about="the condition Ready and its message; events NetworkNotReady where nodes cannot be read",
        needs=(Source.NODES,),
        finding="The node is not Ready, because its CNI is not.",
        means="The runtime finds no configuration of a CNI that it can load, so only pods with hostNetwork "
        "start. The node agent of the CNI writes it, or a script when the node starts, as on EKS and GKE.",
        fix="Check the pod of the node agent on this node and its log; on RKE2 the agent is a part of the "
        "service rke2. Without an agent, check the log of the script. If it has written the configuration, "
        "check that the runtime reads that folder.",
        sources=("https://github.com/kubernetes-sigs/sig-windows-tools/issues/285",),
        find=conditions.no_network,
    ),
    Rule(
        code="N2",
        about="events FailedCreatePodSandBox of pods that wait: 0xc0370101, its texts, no match for platform",
        needs=(Source.PODS, Source.EVENTS),
        finding="The pause image does not run on the Windows build of the node.",
        means="The runtime creates the sandbox of each pod from the pause image, so no pod starts.",
        fix="Set the pause image of containerd to one with a variant for the build of the node.",
        sources=(_DEBUG, _CONTAINERD),
        find=conditions.pause_image,
    ),
    Rule(
        code="N3",
        about="names of pause images in status.images, where no pod without hostNetwork runs",
        needs=(Source.NODES, Source.PODS),
        finding="The pause image on the node has no variant for its Windows build.",
        means="If containerd is configured with this image, no pod gets a sandbox. The builds of images are "
        "from the support matrix.",
        fix="Set the pause image of containerd to one with a variant for the build of the node.",
        severity=Severity.WARNING,
        sources=("https://github.com/kubernetes/kubernetes/blob/HEAD/build/pause/CHANGELOG.md",),
        find=conditions.old_pause_image,
    ),
    Rule(
        code="N4",
        about="messages of containers that do not run, and events Failed: 0xc0370101, its texts, or no match "
        "for platform",
        needs=(Source.PODS, Source.EVENTS),
        finding="The image of a container is not for the Windows build of the node, or not for Windows.",
        means="With process isolation an image runs on hosts of its own Windows build. An image for Linux "
        "does not run here at all.",
        fix="Use an image for the build of the node, or select nodes of the build of the image by "
        "node.kubernetes.io/windows-build. If the pod is for Linux, add the node selector "
        "kubernetes.io/os: linux.",
        sources=(_CONTAINERD, f"{_GITHUB}/MicrosoftDocs/Virtualization-Documentation/issues/765"),
        find=conditions.other_build,
    ),
    Rule(
        code="N5",
        about="events FailedMount of pods that wait: chown … not supported by windows",
        needs=(Source.PODS, Source.EVENTS),
        finding="A pod asks for files with an owner, and Windows cannot set it.",
        means="The kubelet does not mount the volume, and the pod does not start. Usually it is a pod for "
        "Linux that was placed on a Windows node; otherwise it has runAsUser, its own or that of an injected "
        "sidecar.",
        fix="If the pod is for Linux, add the node selector kubernetes.io/os: linux, or taint the Windows "
        "nodes. If it is for Windows, remove runAsUser from the pod and its containers, and set os.name: "
        "windows.",
        sources=(
            f"{_GITHUB}/kubernetes/kubernetes/issues/102849",
            f"{_GITHUB}/Azure/azure-workload-identity/issues/1016",
        ),
        find=conditions.owner_of_files,
    ),
    Rule(
        code="N10",
        about="pods of the DaemonSets calico-node-windows, kube-flannel-ds-windows, antrea-agent-windows, "
        "azure-cns-win; events FailedCreatePodSandBox: a named pipe that is not there, or calico/node",
        needs=(Source.DAEMON_SETS, Source.PODS, Source.EVENTS),
        finding="The node agent of the CNI is missing on the node, not Ready, or does not answer its CNI.",
        means="It writes the configuration of the CNI and keeps the network of the node. Without it new pods "
        "get no address, sooner or later. An Error with N1 or if pods wait for it, otherwise a Warning.",
        fix="Check its pod and log; where there is none, its tolerations and node selector.",
        sources=(
            f"{_GITHUB}/kubernetes-sigs/sig-windows-tools/tree/master/hostprocess",
            f"{_GITHUB}/kubernetes-sigs/sig-windows-dev-tools/issues/189",
        ),
        find=conditions.node_agent,
    ),
    Rule(
        code="N11",
        about="Backend in net-conf.json of the ConfigMap kube-flannel-cfg, or in the annotations of nodes, "
        "where flannel runs",
        needs=(Source.NODES, Source.DAEMON_SETS, Source.FLANNEL),
        finding="The VXLAN of flannel is not set up for Windows nodes.",
        means="Windows needs VNI 4096 or more and port 4789, and knows neither DirectRouting nor GBP. "
        "flannel does not start on Windows nodes, or their pods do not reach those of others.",
        fix="Set VNI 4096 or more and Port 4789 in the Backend, remove DirectRouting and GBP, and restart "
        "flannel on all nodes.",
        sources=(f"{_GITHUB}/flannel-io/flannel/blob/v0.28.9/Documentation/backends.md",),
        find=conditions.vxlan,
    ),
    Rule(
        code="N12",
        about="spec.podCIDR where flannel runs or other nodes of the pool have one; subnet.env in events "
        "FailedCreatePodSandBox",
        needs=(Source.NODES, Source.DAEMON_SETS, Source.EVENTS),
        finding="The node does not give pods addresses of a range of its own.",
        means="Pods get no address, or one that a pod of another node has.",
        fix="Check the log of flannel on the node. After a node has joined again, remove "
        "C:\\k\\SourceVip.json and C:\\k\\SourceVipRequest.json, and restart flanneld.",
        sources=(_DEBUG,),
        find=conditions.pod_cidr,
    ),
    Rule(
        code="N13",
        about="events FailedCreatePodSandBox of pods that wait: a network of HNS is not found",
        needs=(Source.PODS, Source.EVENTS),
        finding="The network of the CNI is missing in HNS.",
        means="The CNI connects pods to it, so no pod starts but those with hostNetwork. The node agent of "
        "the CNI creates it, with the name that is in the configuration of the CNI.",
        fix="Check the log of the node agent, and the adapter that it is to use. Compare the name with "
        "Get-HnsNetwork on the node, and restart the node agent.",
        sources=(_DEBUG, f"{_GITHUB}/containernetworking/plugins/tree/main/plugins/main"),
        find=conditions.hns_network,
    ),
    Rule(
        code="N15",
        about="events MissingClusterDNS; clusterDNS in /configz of one node, and the Services of the DNS",
        needs=(Source.EVENTS, Source.CONFIGZ, Source.DNS),
        finding="The kubelet does not give pods the DNS of the cluster.",
        means="Pods do not find Services by their names, unless the DNS that they get forwards to that of "
        "the cluster.",
        fix="Set clusterDNS of the kubelet to the address of the Service of the DNS, and restart it.",
        sources=("https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/",),
        find=conditions.cluster_dns,
    ),
    Rule(
        code="N18",
        about="spec.podCIDR and status.capacity.pods of nodes with flannel",
        needs=(Source.NODES, Source.DAEMON_SETS),
        finding="The node takes more pods than it has addresses for.",
        means="When the addresses are used up, further pods without hostNetwork do not start.",
        fix="Lower maxPods of the kubelet, or give nodes larger ranges (--node-cidr-mask-size of "
        "kube-controller-manager; it holds for nodes that join later).",
        severity=Severity.WARNING,
        sources=(_DEBUG,),
        find=conditions.few_addresses,
    ),
)


LOG_CAUSES: Final = (
    (OTHER_BUILD, "an image is for another build of Windows"),
    (conditions.NO_NETWORK, "the CNI has no configuration"),
    (conditions.SUBNET_FILE, "flannel has not written its range (subnet.env)"),
    (conditions.CHOWN, "files are to have an owner, which Windows cannot set"),
    (
        re.compile(
            f"hns network .{{0,80}}not found|(?:could not|unable to) find hns network"
            f"|{conditions.NO_HNS_NETWORK.pattern}",
            re.IGNORECASE,
        ),
        "an HNS network is missing",
    ),
    (
        re.compile(r"\bhns.{0,200}(?:element not found|0x(?:8007)?0?490\b)", re.IGNORECASE),
        "HNS does not find a network, an endpoint or an adapter (0x490)",
    ),
    (re.compile("source-vip flag not set"), "kube-proxy has no --source-vip, which an overlay needs"),
)
"""What lines of the logs of kubelet, containerd and kube-proxy say, by the texts that they have."""


class Finding(NamedTuple):
    """What a rule found on the node ``node``."""

    rule: Rule
    node: str
    found: Found

    @property
    def severity(self) -> Severity:
        """That of the rule, or less."""
        return Severity.WARNING if self.found.is_mild else self.rule.severity

    @property
    def says(self) -> str:
        """What is wrong, and what this case adds to it."""
        return " ".join(filter(None, (self.rule.finding, self.found.more)))

    @property
    def fix(self) -> str:
        """What to do."""
        return self.found.fix or self.rule.fix


class Unexplained(NamedTuple):
    """Something that does not work, and of which no rule knows the cause.

    ``pod`` is empty where it is the node that is not Ready. ``quote`` is what is said of it, ``log`` what the
    logs of the node have, by how many lines. ``work`` is who works on the node, which may be why; empty: no
    one is known to.
    """

    node: str
    pod: str
    reason: str
    quote: str
    log: Mapping[str, int]
    work: str = ""


class Diagnosis(NamedTuple):
    """All about one node. ``unknown`` are rules that found nothing in what is not known whole."""

    findings: tuple[Finding, ...]
    unexplained: tuple[Unexplained, ...]
    unknown: tuple[tuple[Rule, tuple[Source, ...]], ...]


def judge(seen: Evidence) -> Diagnosis:
    """Apply all rules to a node."""
    findings: list[Finding] = []
    unknown: list[tuple[Rule, tuple[Source, ...]]] = []
    for rule in RULES:
        found = [Finding(rule, seen.name, each) for each in rule.find(seen)]
        findings += found
        missing = tuple(each for each in rule.needs if each in seen.unknown)
        if missing and not found:
            unknown.append((rule, missing))
    return Diagnosis(tuple(findings), tuple(_unexplained(seen, findings)), tuple(unknown))


def _unexplained(seen: Evidence, findings: list[Finding]) -> Iterator[Unexplained]:
    node, codes = seen.node, {each.rule.code for each in findings}
    if "N1" in codes:
        return  # pods wait for the same
    if node is not None and node.ready != "True":
        reason = quoted(node.reason) or "the kubelet has not said whether it is"
        yield Unexplained(seen.name, "", reason, quoted(node.message), seen.log, _work(node))
        return
    explained = {
        pod for each in findings if each.severity is Severity.ERROR for pod in each.found.pods
    }  # a Warning says that a pod does not run, and not why
    for pod, reason in seen.stuck():
        if pod.name not in explained:
            said = [each.message for each in seen.events if each.pod == pod.name]
            quote = quoted((*said, *pod.messages, "")[0])
            yield Unexplained(seen.name, pod.name, quoted(reason), quote, seen.log)


_STOPPED: Final = (UpgradeState.FAILED, UpgradeState.QUARANTINED)
_IN_HAND: Final = frozenset(UpgradeState) - {
    UpgradeState.UP_TO_DATE,
    UpgradeState.REQUIRED,
    UpgradeState.GATED,
    *_STOPPED,
}


def _work(node: Node) -> str:
    """Return who works on a node, or may do so."""
    if node.upgrade in _IN_HAND:
        return f"its upgrade is under way ({node.upgrade})"
    if node.upgrade in _STOPPED:
        return f"its upgrade has stopped ({node.upgrade})"
    if node.is_held:
        return f"someone holds it ({HOLD_ANNOTATION})"
    return "someone may upgrade it now" if node.upgrade == UpgradeState.REQUIRED else ""
