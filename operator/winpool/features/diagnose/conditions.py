"""The conditions of the rules: from the evidence about a node to what is found on it.

A condition finds something only where it was read. What was not is for ``rules.judge`` to report.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from ipaddress import IPv4Network, ip_network
from typing import Final, TypeAlias

from winpool.api.text import enumerate_names
from winpool.features.diagnose.evidence import Evidence, Found, Node, Pod, Source, quoted
from winpool.support.compat import NO_VARIANT, OTHER_BUILD, runs_build, sandbox_key
from winpool.support.matrix import built_in
from winpool.support.versions import containerd_of

Find: TypeAlias = Callable[[Evidence], Iterator[Found]]

NO_NETWORK: Final = re.compile(
    "NetworkPluginNotReady|container runtime network not ready|network plugin is not ready"
    "|cni (plugin not initialized|config uninitialized)",
    re.IGNORECASE,
)
"""The kubelet's word, that of containerd, and those of Docker's time. None of them is localized."""

_RUNTIME_DOWN: Final = re.compile("container runtime is down|RuntimeReady=false", re.IGNORECASE)
"""Then it reports no network either, and the CNI is not the cause."""

CHOWN: Final = re.compile(r"\bchown\b(?:(?!\bchown\b).)*?not supported by windows", re.IGNORECASE | re.DOTALL)
"""From the last chown on: from each of many, a search takes minutes."""
SUBNET_FILE: Final = re.compile(r"subnet\.env", re.IGNORECASE)

NO_HNS_NETWORK: Final = re.compile(
    r"""ByName\([^)]{1,80}\): network .{1,80} not found|network (?:name|id) \\?"[^"]{1,80}" not found"""
    r"|0x803b0001\b",
    re.IGNORECASE,
)
"""By the plugins of CNI for Windows, by hcsshim, and as HCN_E_NETWORK_NOT_FOUND, which no language changes.
Docker has networks of its own, and other words."""

_NO_AGENT: Final = re.compile(
    r"network for (?:sandbox|pod)\b.{1,400}\bdial.{1,40}\\pipe\\"
    "|check that the calico/node container is running",
    re.IGNORECASE | re.DOTALL,
)
"""A plugin of a CNI that asks its node agent by a named pipe, and that of Calico."""

_OF_WINDOWS: Final = (OTHER_BUILD, CHOWN, NO_HNS_NETWORK)
"""What no other OS says."""

_SANDBOX: Final = ("FailedCreatePodSandBox",)
_FAILED: Final = ("Failed", "BackOff")

_FIRST_VNI: Final = 4096
_PORT: Final = 4789
"""Of VXLAN on Windows. https://github.com/flannel-io/flannel/blob/v0.28.9/Documentation/backends.md"""

_OLD_REGISTRY: Final = "k8s.gcr.io/"
_REGISTRY: Final = "registry.k8s.io/"
"""The same images under another name. https://kubernetes.io/blog/2023/03/10/image-registry-redirect/"""


def no_network(seen: Evidence) -> Iterator[Found]:
    """Find a node that is not Ready because its CNI is not, or pods that wait for that."""
    node = seen.node
    if node is None:
        yield from _warned(seen, ("NetworkNotReady",), NO_NETWORK)
    elif node.ready == "True" or _RUNTIME_DOWN.search(node.message):
        return
    elif found := NO_NETWORK.search(node.message):
        yield Found("condition Ready", quoted(node.message, found), more=_joined(node))


def pause_image(seen: Evidence) -> Iterator[Found]:
    """Find sandboxes that are not created because their image is not for this Windows."""
    for pattern in (OTHER_BUILD, NO_VARIANT):
        for each in _warned(seen, _SANDBOX, pattern):
            yield each._replace(more=_build(seen.node), fix=_pause_fix(seen.node))
            return


def old_pause_image(seen: Evidence) -> Iterator[Found]:
    """Find a node whose only pause images have no variant that it runs, as far as is known of them.

    A pod that runs in a sandbox of the node shows that its pause image works. With process isolation alone:
    the pods with hostNetwork may be HostProcess pods.
    """
    node, matrix = seen.node, built_in()
    build, containerd = (node.build, containerd_of(node.runtime)) if node else (None, None)
    if node is None or build is None or build not in matrix.builds or containerd is None:
        return
    if Source.PODS in seen.unknown or any(each.is_up and not each.has_host_network for each in seen.pods):
        return
    known = {each.image: each for each in matrix.file.pause_images}
    images = [
        next(
            (known[name] for each in names if (name := each.replace(_OLD_REGISTRY, _REGISTRY)) in known), None
        )
        for names in node.images
    ]
    read = [each for each in images if each is not None and each.complete]
    if not read or len(read) < len(images):
        return
    builds = {each for one in read for each in one.builds}
    if not any(runs_build(build, each, containerd=containerd, matrix=matrix) for each in builds):
        said = f"status.images has {enumerate_names([each.image for each in read])}"
        yield Found(said, more=_build(node), fix=_pause_fix(node))


def _build(node: Node | None) -> str:
    return f"The node has build {node.build}." if node and node.build else ""


def _pause_fix(node: Node | None) -> str:
    """Return where the pause image is set, and the newest that is known to have a variant for the build."""
    build, containerd = (node.build, containerd_of(node.runtime)) if node else (None, None)
    key = (
        sandbox_key(containerd)
        if containerd
        else "pinned_images.sandbox (before containerd 2: sandbox_image)"
    )
    fit = [each.image for each in built_in().file.pause_images if build in each.builds and each.complete]
    example = f", such as {fit[-1]}" if fit else ""
    variant = f" for build {build}" if build else " for the build of the node"
    return f"Set {key} in the configuration of containerd to a pause image with a variant{variant}{example}."


def other_build(seen: Evidence) -> Iterator[Found]:
    """Find containers whose image is not for this Windows, or for none.

    Where it is not known that the node runs Windows, only what no other OS says counts, or a pod for Windows.
    """
    pods: dict[str, tuple[str, re.Match[str], Pod]] = {}
    for pod in seen.pods:
        texts = [each.message for each in seen.events if each.pod == pod.name and each.reason in _FAILED]
        is_windows = seen.node is not None or pod.os == "windows"
        for text in (*pod.messages, *(texts if pod.waits else ())):
            found = OTHER_BUILD.search(text) or (NO_VARIANT.search(text) if is_windows else None)
            if found and pod.name not in pods:
                pods[pod.name] = text, found, pod
    if pods:
        text, found, pod = next(iter(pods.values()))
        yield Found(f"container of {pod.name}", quoted(text, found), more=_build(seen.node), pods=tuple(pods))


def owner_of_files(seen: Evidence) -> Iterator[Found]:
    """Find volumes whose files are to have an owner, which Windows does not know."""
    pods = {each.name: each for each in seen.pods}
    for each in _warned(seen, ("FailedMount",), CHOWN):
        sets = [name for name in each.pods if pods[name].runs_as_user]
        yield each._replace(more=f"The pod {sets[0]} sets runAsUser." if sets else "")


def node_agent(seen: Evidence) -> Iterator[Found]:
    """Find node agents of the CNI that are missing on the node, not Ready, or do not answer their CNI."""
    is_mild = not any(True for _ in no_network(seen))
    if seen.node is None or (seen.node.is_new and is_mild):
        return
    yield from _warned(seen, _SANDBOX, _NO_AGENT)
    for name, pod in seen.agents:
        if pod is None:
            yield Found(f"the pods of the node: none is of the DaemonSet {name}", is_mild=is_mild)
        elif not pod.is_ready:
            texts = [each.message for each in seen.events if each.pod == pod.name]
            said = quoted(" ".join((*pod.waits, *pod.messages, *texts[:1])))
            yield Found(f"the pod of the DaemonSet {name}", said, pods=(pod.name,), is_mild=is_mild)


def hns_network(seen: Evidence) -> Iterator[Found]:
    """Find sandboxes that are not created because HNS has no network of the CNI."""
    yield from _warned(seen, _SANDBOX, NO_HNS_NETWORK)


def vxlan(seen: Evidence) -> Iterator[Found]:
    """Find a backend of flannel that does not work with Windows nodes."""
    found = seen.flannel
    if seen.node is None or not seen.uses_flannel or found is None or found.type.lower() != "vxlan":
        return
    faults = []
    if (found.is_whole and found.vni is None) or (found.vni is not None and found.vni < _FIRST_VNI):
        faults.append(f"VNI is {'not set' if found.vni is None else found.vni}")
    if found.is_whole and found.port != _PORT:
        faults.append(f"Port is {'not set' if found.port is None else found.port}")
    faults += ["DirectRouting is true"] if found.has_direct_routing else []
    faults += ["GBP is true"] if found.has_gbp else []
    if faults:
        yield Found(f"{found.by}: {', '.join(faults)}")


def pod_cidr(seen: Evidence) -> Iterator[Found]:
    """Find a node without a podCIDR, or with that of another, where pods get their addresses from it.

    Many CNIs have ranges of their own, and no podCIDR means nothing. With flannel it does, and where other
    nodes of the pool have one.
    """
    for each in _warned(seen, _SANDBOX, SUBNET_FILE):
        yield each._replace(more="flannel has not written its range (subnet.env).")
        return
    node = seen.node
    if node is None:
        return
    if not node.pod_cidrs and (seen.uses_flannel or seen.peers):
        peers = f", and other nodes of its pool ({node.pool}) have one" if seen.peers and node.pool else ""
        yield Found(f"spec.podCIDR is not set{peers}", more=_joined(node), fix=_NO_RANGE)
    elif seen.uses_flannel and seen.twins:
        said = f"spec.podCIDR is {node.pod_cidrs[0]}, as on {enumerate_names(seen.twins)}"
        yield Found(said, more="Another node has the same.", fix=_SAME_RANGE)


_NO_RANGE: Final = (
    "Check that kube-controller-manager runs with --allocate-node-cidrs=true, and that --cluster-cidr has a "
    "range left."
)
_LINK_LOCAL: Final = "169.254."
"""Of caches on nodes (NodeLocal DNSCache is 169.254.20.10), and of the DNS of Google's cloud."""

_OWN_DNS: Final = (
    "If it is not on purpose, set clusterDNS of the kubelet to the address of the Service of the DNS, and "
    "restart it."
)

_SAME_RANGE: Final = (
    "Drain one of the nodes, delete its Node, and restart its kubelet, so that it gets another range. Then "
    "remove C:\\k\\SourceVip.json and C:\\k\\SourceVipRequest.json there, and restart flanneld."
)


def cluster_dns(seen: Evidence) -> Iterator[Found]:
    """Find a kubelet that gives pods no DNS, or another than that of the cluster.

    What it says of itself counts before events, which may be from before it was restarted.
    """
    given = seen.cluster_dns
    if any(each.startswith(_LINK_LOCAL) for each in given or ()):
        return
    for each in () if given else seen.events:
        if each.reason == "MissingClusterDNS":
            of = f" of {each.pod}" if each.pod else ""
            yield Found(f"event {each.reason}{of}", quoted(each.message))
            return
    if given == ():
        yield Found("/configz: clusterDNS is not set")
    elif given and seen.dns and not set(given) & set(seen.dns):
        ours, theirs = enumerate_names(given), enumerate_names(seen.dns)
        yield Found(
            f"/configz: clusterDNS is {ours}, and the Service of the DNS has {theirs}",
            more="It has another address than the Service (k8s-app=kube-dns in kube-system). That may be on "
            "purpose: a DNS of your own, such as a cache on the node.",
            fix=_OWN_DNS,
            is_mild=True,
        )


def few_addresses(seen: Evidence) -> Iterator[Found]:
    """Find a node that takes more pods than its podCIDR has addresses, where flannel gives them from it."""
    node = seen.node
    if node is None or not (seen.uses_flannel and node.backend) or node.max_pods is None:
        return
    for cidr in node.pod_cidrs:
        try:
            network = ip_network(cidr)
        except ValueError:
            continue
        room = network.num_addresses - 2
        if isinstance(network, IPv4Network) and room < node.max_pods:
            yield Found(
                f"spec.podCIDR {cidr} has {room} addresses, and status.capacity.pods is {node.max_pods}"
            )


def _joined(node: Node) -> str:
    return "It joined a few minutes ago, and may only need more time." if node.is_new else ""


def _warned(seen: Evidence, reasons: tuple[str, ...], pattern: re.Pattern[str]) -> Iterator[Found]:
    """Find events of such reasons about pods that the node has not started.

    Where it is not known that the node runs Windows, only what no other OS says counts, or a pod for Windows.
    """
    is_sure = seen.node is not None or pattern in _OF_WINDOWS
    stuck = {pod.name for pod, _ in seen.stuck() if is_sure or pod.os == "windows"}
    hits = [
        (each, found)
        for each in seen.events
        if each.reason in reasons and each.pod in stuck and (found := pattern.search(each.message))
    ]
    if hits:
        event, found = hits[0]
        pods = tuple(dict.fromkeys(each.pod for each, _ in hits))
        yield Found(f"event {event.reason} of {event.pod}", quoted(event.message, found), pods=pods)
