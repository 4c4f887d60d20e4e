"""Reads from the cluster what ``diagnose`` judges, with the rights of the person.

A list for each kind, and a call for each page. What cannot be read is noted, and judged as unknown. Where the
pods of all namespaces cannot be read, those of one namespace are.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from winpool.api.keys import HOLD_ANNOTATION, POOL_LABEL, UPGRADE_STATE_LABEL
from winpool.api.selector import selects
from winpool.api.text import grouped
from winpool.cli.audit_reader import namespace_of
from winpool.cli.kubectl import Kubectl, KubectlError, NoSuchPoolError, NotAskedError, decoded
from winpool.cli.kubelet import asking_kubelet
from winpool.cli.lenient import Fields
from winpool.cli.parsing import RefusedError
from winpool.cli.reader import PAGE, Asking, Page, pool_selector
from winpool.features.audit.cluster import Host, RuntimeClass, Selection
from winpool.features.audit.workloads import PodOS, below, os_of_labels, workload_of
from winpool.features.diagnose.evidence import TEXT_READ, Agent, Event, Evidence, Flannel, Node, Pod, Source
from winpool.features.diagnose.rules import LOG_CAUSES
from winpool.kube.wire import BROKEN, ListOf
from winpool.model.node import Taint
from winpool.support.versions import parse_windows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from winpool.cli.memory import Choice

T = TypeVar("T")
Object = dict[str, Any]

MOST_EVENT_PAGES: Final = 20
"""Of events, of which a cluster in trouble has any number."""

NEW: Final = timedelta(minutes=5)
"""How long a node may take to join, and a pod to start."""

LOG_LINES: Final = 1000
"""Of a log, the last of which are read."""

_POOL_LABELS: Final = (
    POOL_LABEL,
    "kubernetes.azure.com/agentpool",
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
)
"""Nodes with the same value of the first of them that they have get their addresses in the same way."""

_DAEMON_SETS: Final = "/apis/apps/v1/daemonsets"
_DNS_SERVICES: Final = "/api/v1/namespaces/kube-system/services"
_FLANNEL: Final = "flannel.alpha.coreos.com/"
_FLANNEL_MAPS: Final = ("kube-flannel", "kube-system")
"""Namespaces of ``kube-flannel-cfg``: that of flannel's own manifest, that of older ones and of RKE2."""
_FLANNEL_NAME: Final = re.compile("flannel|canal")
_AGENT_NAME: Final = re.compile(
    "calico-node-windows|kube-flannel-ds-windows|antrea-agent-windows|azure-cns-win", re.IGNORECASE
)
"""DaemonSets of the node agents of CNIs, by the manifests of their projects."""
_OF_NETWORKS: Final = ("kube-", "calico-")
"""How their namespaces begin. In another one, anyone may give a DaemonSet such a name."""

ONE_NODE: Final = "it is read of one node alone: name it"

_STATUSES: Final = ("initContainerStatuses", "containerStatuses")
_STATES: Final = (("state", "waiting"), ("state", "terminated"), ("lastState", "terminated"))
_BY_CONTAINER: Final = ("Completed", "Error", "OOMKilled")
"""Reasons of a container that ran: its message is its own, with lines of its log, and not of the runtime."""
_DIGITS: Final = 7
"""More are no number of pods."""
_UNSCHEDULABLE: Final = "Unschedulable"
"""Why a pod has no node; others wait because someone wants it."""

_objects: Final = msgspec.json.Decoder(ListOf[Object])
_object: Final = msgspec.json.Decoder(Object)


class _Listed(NamedTuple):
    """A node of the list, as it is diagnosed, and as it is for what selects nodes."""

    node: Node
    host: Host
    is_windows: bool


class _DaemonSet(NamedTuple):
    name: str
    selection: Selection


class _Warning(NamedTuple):
    event: Event
    uid: str
    node: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was read. ``problems`` are what could not be read, by why.

    ``nodes`` counts the Windows nodes that are diagnosed, None where nodes cannot be read. ``scope`` is the
    namespace whose pods alone were read, empty for all. ``unknown`` is that of the evidence.
    """

    evidence: tuple[Evidence, ...]
    nodes: int | None
    scope: str
    problems: Mapping[str, Sequence[str]]
    unknown: Mapping[Source, str]


def read_seen(flags: Sequence[str], wanted: Choice | None, *, is_everywhere: bool) -> Seen:
    """Return what is known of the nodes that are ``wanted``, of all for None.

    Without a name and ``is_everywhere``, the pods of one namespace alone are read. Raises NotAskedError where
    the API server cannot be asked at all, RefusedError where there is no such node or pool.
    """
    with Kubectl(flags) as kubectl:
        return _Reader(kubectl, flags, wanted).read(is_everywhere=is_everywhere)


class _Reader:
    """Reads for one diagnosis; the nodes at once.

    ``_listed`` are all nodes by name, and ``_chosen`` the names of the Windows nodes that are wanted; both
    None where nodes are forbidden. ``_one`` is the name of the node, where it is one alone.
    """

    def __init__(self, kubectl: Kubectl, flags: Sequence[str], wanted: Choice | None) -> None:
        self._kubectl, self._flags, self._now = kubectl, flags, datetime.now(UTC)
        self._asking = Asking(kubectl, namespaced=())
        self._wanted, self._listed = wanted, self._nodes()
        self._chosen = self._windows()
        is_one = wanted is not None and (self._chosen is None or self._chosen == [wanted.name])
        self._one = wanted.name if wanted and is_one else ""

    def read(self, *, is_everywhere: bool) -> Seen:
        one, chosen, listed = self._one, self._chosen, self._listed
        scope = "" if self._wanted or is_everywhere else namespace_of(self._kubectl, self._flags)
        sets_of = self._asking.listed(Source.DAEMON_SETS, _DAEMON_SETS, partial(_page, _daemon_sets))
        pods, events, read_of = self._pods_and_events(scope)
        sets = sets_of()
        shared = self._with_flannel(Evidence(name=""), sets)
        if one and chosen:
            shared = self._with_kubelet(shared, one)
        unknown = {} if one else {Source.CONFIGZ: ONE_NODE}
        if scope:
            why = f"those of {scope} alone were read; -A reads those of all namespaces"
            unknown |= dict.fromkeys((Source.PODS, Source.EVENTS), why)
        unknown |= {Source(each): why for why, found in self._asking.problems.items() for each in found}
        shared = replace(shared, unknown=unknown)
        names = chosen if chosen is not None else [one] if one else sorted({each.node for each in pods})
        if not one and any(not each.node for each in pods):
            names = list(dict.fromkeys((*names, "")))
        return Seen(
            evidence=tuple(_evidence(shared, names, listed or {}, pods, events, sets or ())),
            nodes=None if chosen is None else len(chosen),
            scope=read_of,
            problems=self._asking.problems,
            unknown=unknown,
        )

    def _nodes(self) -> dict[str, _Listed] | None:
        """Return all nodes by name, None where they are forbidden.

        It runs alone, so that an exec plugin prompts once. Raises NotAskedError.
        """
        page = partial(_page, lambda each: [_listed(Fields(each), self._now)])
        try:
            pages = self._kubectl.whole("/api/v1/nodes", page, limit=str(PAGE))
        except KubectlError as error:
            if error.reason != "Forbidden":
                raise
            self._asking.note(self._asking.why(error), Source.NODES)
            return None
        return {each.node.name: each for found in pages for each in found.items}

    def _windows(self) -> list[str] | None:
        """Return the names of the Windows nodes that are wanted. Raises RefusedError and NotAskedError."""
        wanted, listed = self._wanted, self._listed
        if listed is None:
            if wanted is not None and wanted.kind == "pool":
                why = next(iter(self._asking.problems))
                raise NotAskedError(f"which nodes the pool {wanted.name} has is not known: {why}")
            return None
        windows = sorted(name for name, each in listed.items() if each.is_windows)
        if wanted is None:
            return windows
        if wanted.kind != "pool" and wanted.name in listed:
            if wanted.name not in windows:
                raise RefusedError(f'the node "{wanted.name}" does not run Windows')
            return [wanted.name]
        if wanted.kind == "node":
            raise RefusedError(f'there is no node "{wanted.name}" in this cluster')
        try:
            selector = pool_selector(self._kubectl, wanted.name)
        except NoSuchPoolError as error:
            if wanted.kind:
                raise
            raise RefusedError(f'there is no node and no pool "{wanted.name}" in this cluster') from error
        return [each for each in windows if selects(selector, listed[each].host.labels)]

    def _pods_and_events(self, scope: str) -> tuple[list[Pod], list[_Warning], str]:
        """Return pods and warnings, and the namespace that both or one of them are of; empty for all."""
        found = self._of_namespace(scope)
        if not scope and None in found:
            try:
                scope = namespace_of(self._kubectl, self._flags)
            except NotAskedError as error:
                self._asking.note(str(error), Source.PODS)
            else:
                pods, events = self._of_namespace(scope)
                found = (pods if found[0] is None else found[0], events if found[1] is None else found[1])
        return found[0] or [], found[1] or [], scope

    def _of_namespace(self, namespace: str) -> tuple[list[Pod] | None, list[_Warning] | None]:
        place = f"/api/v1/namespaces/{namespace}" if namespace else "/api/v1"
        which = "status.phase!=Succeeded,status.phase!=Failed"
        which += f",spec.nodeName={self._one}" if self._one else ""
        pods_page = partial(_page, partial(_pods, listed=self._listed, now=self._now))
        pods_of = self._asking.listed(Source.PODS, f"{place}/pods", pods_page, fieldSelector=which)
        what = Source.EVENTS, f"{place}/events", partial(_page, _warnings), MOST_EVENT_PAGES
        events_of = self._asking.listed(*what, fieldSelector="type=Warning")
        self._asking.wait()
        return pods_of(), events_of()

    def _with_flannel(self, shared: Evidence, sets: list[_DaemonSet] | None) -> Evidence:
        """Add whether the cluster runs flannel, and its backend, from its ConfigMap or from what it wrote."""
        uses = None if sets is None else any(_is_flannel(each.name) for each in sets)
        if not uses:
            return replace(shared, uses_flannel=uses)
        found = None
        for namespace in _FLANNEL_MAPS:
            path = f"/api/v1/namespaces/{namespace}/configmaps/kube-flannel-cfg"
            found = found or self._asking.begin(Source.FLANNEL, partial(self._flannel_map, path))()
        return replace(shared, uses_flannel=uses, flannel=found or _annotated((self._listed or {}).values()))

    def _flannel_map(self, path: str) -> Flannel | None:
        try:
            answer = self._kubectl.get(path)
        except KubectlError as error:
            if error.reason != "NotFound":
                raise
            return None
        written = Fields(decoded(_object.decode, answer)).one("data").content.get("net-conf.json")
        return _flannel(written, by="net-conf.json in the ConfigMap kube-flannel-cfg")

    def _with_kubelet(self, shared: Evidence, node: str) -> Evidence:
        """Add what the kubelet of one node says, where the person may ask it."""
        dns_of = self._asking.begin(Source.CONFIGZ, partial(self._cluster_dns, node))
        log_of = self._asking.begin(Source.LOGS, partial(self._log, node))
        self._asking.wait()
        given, dns = dns_of(), None
        if given:
            what = Source.DNS, _DNS_SERVICES, partial(_page, _addresses)
            dns = self._asking.listed(*what, labelSelector="k8s-app=kube-dns")()
        return replace(shared, cluster_dns=given, dns=tuple(dns or ()), log=log_of() or {})

    def _cluster_dns(self, node: str) -> tuple[str, ...]:
        with asking_kubelet(self._kubectl, node, "/configz") as ask:
            answer = ask("")
        try:
            found = Fields.of(_object.decode(answer).get("kubeletconfig"))
        except BROKEN:
            found = Fields({})
        if not found.content:
            raise NotAskedError(f"the answer of the kubelet of {node} is not its configuration")
        given = found.items("clusterDNS")
        if found.content.get("clusterDNS") not in (None, given) or not all(map(_is_address, given)):
            raise NotAskedError(f"clusterDNS in the answer of the kubelet of {node} is no list of addresses")
        return tuple(given)

    def _log(self, node: str) -> Mapping[str, int]:
        """Count lines by their cause; no line is kept."""
        with asking_kubelet(self._kubectl, node, "/logs/") as ask:
            answers = [ask(f"?query=kubelet&tailLines={LOG_LINES}")]
            for each in ("containerd", "kube-proxy"):
                with suppress(NotAskedError):
                    answers.append(ask(f"?query={each}&tailLines={LOG_LINES}"))
        lines = (line[:TEXT_READ] for each in answers for line in each.decode(errors="replace").splitlines())
        return Counter(cause for line in lines for pattern, cause in LOG_CAUSES if pattern.search(line))


def _is_address(value: Any) -> bool:
    """Whether a kubelet, which may write anything, has written an IP address."""
    try:
        return isinstance(value, str) and "%" not in value and bool(ip_address(value))  # no zone
    except ValueError:
        return False


def _page(keep: Callable[[Object], Iterable[T]], body: bytes) -> Page[T]:
    """Read a page, of whose objects only what ``keep`` returns stays in memory."""
    found = _objects.decode(body)
    return Page(tuple([each for item in found.items or () for each in keep(item)]), found.metadata.continue_)


def _raw(fields: Fields, name: str) -> str:
    """Return a text as it is, which ``quoted`` makes printable."""
    value = fields.content.get(name)
    return value[:TEXT_READ] if isinstance(value, str) else ""


def _listed(item: Fields, now: datetime) -> _Listed:
    metadata, spec, status = (item.one(each) for each in ("metadata", "spec", "status"))
    labels = metadata.one("labels").content
    info, name = status.one("nodeInfo"), metadata.text("name")
    ready = next((each for each in status.all("conditions") if each.text("type") == "Ready"), Fields({}))
    version = parse_windows(info.text("kernelVersion"))
    images = [each.texts("names") for each in status.all("images")]
    pods, annotations = status.one("capacity").text("pods"), metadata.one("annotations")
    node = Node(
        name=name,
        ready=ready.text("status"),
        reason=_raw(ready, "reason"),
        message=_raw(ready, "message"),
        build=version.build if version else None,
        runtime=info.text("containerRuntimeVersion"),
        images=tuple(names for names in images if any("pause" in each for each in names)),
        pod_cidrs=spec.texts("podCIDRs") or tuple(filter(None, (spec.text("podCIDR"),))),
        max_pods=int(pods) if pods.isdecimal() and len(pods) < _DIGITS else None,
        backend=annotations.text(f"{_FLANNEL}backend-type"),
        backend_data=_raw(annotations, f"{_FLANNEL}backend-data"),
        pool=next((f"{each}={labels[each]}" for each in _POOL_LABELS if labels.get(each)), ""),
        is_new=_is_young(metadata, now),
        upgrade=metadata.one("labels").text(UPGRADE_STATE_LABEL),
        is_held=HOLD_ANNOTATION in annotations.content,
    )
    taints = [Taint(each.text("key"), each.text("effect"), each.text("value")) for each in spec.all("taints")]
    host = Host(labels=labels, taints=tuple(taints), names=(name,))
    is_windows = info.text("operatingSystem") == PodOS.WINDOWS or os_of_labels(labels) is PodOS.WINDOWS
    return _Listed(node, host, is_windows)


def _is_young(metadata: Fields, now: datetime) -> bool:
    created = metadata.moment("creationTimestamp")
    return created is not None and now - created < NEW


def _pods(item: Object, *, listed: Mapping[str, _Listed] | None, now: datetime) -> Iterator[Pod]:
    """Yield a pod that is on a Windows node, or may be; or that is for Windows and on none."""
    fields = Fields(item)
    spec, status = fields.one("spec"), fields.one("status")
    at = spec.text("nodeName")
    if listed is not None and at and not (at in listed and listed[at].is_windows):
        return
    states = [each for name in _STATUSES for each in status.all(name)]
    waiting = [each for each in states if "running" not in each.one("state").content]
    is_known_there = bool(listed is not None and at)
    workload = workload_of({**item, "kind": "Pod"}) if waiting or not is_known_there else None
    os = workload.os if workload else PodOS.UNKNOWN
    if not is_known_there and (os is PodOS.LINUX or (not at and os is not PodOS.WINDOWS)):
        return
    conditions = {each.text("type"): each for each in status.all("conditions")}
    waits = [each.one("state", "waiting").text("reason") for each in waiting]
    said = [each.one(*where) for each in waiting for where in _STATES]
    messages = [_raw(each, "message") for each in said if each.text("reason") not in _BY_CONTAINER]
    scheduled = conditions.get("PodScheduled", Fields({}))
    if not at:
        is_waiting = scheduled.text("reason") == _UNSCHEDULABLE
        waits, messages = [_UNSCHEDULABLE] * is_waiting, [_raw(scheduled, "message")]
    elif not states and status.text("phase") == "Pending":
        waits = ["ContainerCreating"]
    metadata = fields.one("metadata")
    yield Pod(
        name=f"{metadata.text('namespace')}/{metadata.text('name')}",
        node=at,
        uid=metadata.text("uid"),
        os=os,
        daemon_set=_daemon_set_of(metadata),
        waits=tuple(waits),
        messages=tuple(filter(None, messages)),
        has_host_network=spec.content.get("hostNetwork") is True,
        is_ready=conditions.get("Ready", Fields({})).text("status") == "True",
        is_up=any("running" in each.one("state").content for each in states),
        is_late=not _is_young(metadata, now),
        runs_as_user=bool(workload and next(_users(spec), None)),
    )


def _users(spec: Fields) -> Iterator[Any]:
    for field in ("securityContext.runAsUser", "containers[*].securityContext.runAsUser"):
        yield from below(spec.content, field)


def _daemon_set_of(metadata: Fields) -> str:
    owners = metadata.all("ownerReferences")
    names = [each.text("name") for each in owners if each.text("kind") == "DaemonSet"]
    return f"{metadata.text('namespace')}/{names[0]}" if names else ""


def _warnings(item: Object) -> Iterator[_Warning]:
    fields = Fields(item)
    about, reason = fields.one("involvedObject"), fields.text("reason")
    kind, name = about.text("kind"), about.text("name")
    at = fields.text("lastTimestamp") or fields.one("series").text("lastObservedTime")
    at = at or fields.text("eventTime")
    if kind in ("Pod", "Node"):
        pod = f"{about.text('namespace')}/{name}" if kind == "Pod" else ""
        event = Event(reason, _raw(fields, "message"), pod)
        yield _Warning(event, about.text("uid"), "" if pod else name, at)


def _daemon_sets(item: Object) -> Iterator[_DaemonSet]:
    """Yield a DaemonSet that has to do with the network of pods."""
    fields = Fields(item)
    metadata, spec = fields.one("metadata"), fields.one("spec", "template", "spec")
    namespace, name = metadata.text("namespace"), metadata.text("name")
    if namespace.startswith(_OF_NETWORKS) and (_AGENT_NAME.search(name) or _is_flannel(name)):
        yield _DaemonSet(f"{namespace}/{name}", Selection.of(spec.content, RuntimeClass()))


def _is_flannel(name: str) -> bool:
    """Whether a DaemonSet is one of flannel, by its name without the namespace."""
    return _FLANNEL_NAME.search(name.rpartition("/")[2]) is not None


def _addresses(item: Object) -> tuple[str, ...]:
    spec = Fields(item).one("spec")
    given = spec.texts("clusterIPs") or (spec.text("clusterIP"),)
    return tuple(filter(_is_address, given))  # not the None of a headless Service


def _annotated(listed: Iterable[_Listed]) -> Flannel | None:
    """Return the backend as flannel writes it into annotations of nodes; None where they differ.

    A kubelet can write those of its node, and one is not believed about the others.
    """
    found = None
    for each in listed:
        if each.node.backend:
            written = _flannel(f'{{"Backend": {each.node.backend_data or "{}"}}}', by="")
            by = f"annotation {_FLANNEL}backend-data of the node {each.node.name}"
            new = Flannel(each.node.backend, written.vni if written else None, by)
            if found and (found.type, found.vni) != (new.type, new.vni):
                return None
            found = found or new
    return found


def _flannel(written: Any, *, by: str) -> Flannel | None:
    try:
        found = Fields.of(msgspec.json.decode(written if isinstance(written, str) else "")).one("Backend")
    except BROKEN:
        return None
    return Flannel(
        found.text("Type"),
        found.number("VNI"),
        by,
        is_whole=True,
        port=found.number("Port"),
        has_direct_routing=found.content.get("DirectRouting") is True,
        has_gbp=found.content.get("GBP") is True,
    )


def _evidence(
    shared: Evidence,
    names: Iterable[str],
    listed: Mapping[str, _Listed],
    pods: Sequence[Pod],
    warnings: Sequence[_Warning],
    sets: Sequence[_DaemonSet],
) -> Iterator[Evidence]:
    """Yield what is known of each node of ``names``."""
    with_cidrs = [each for each in listed.values() if each.node.pod_cidrs]
    by_cidr = grouped((cidr, each.node.name) for each in with_cidrs for cidr in each.node.pod_cidrs)
    by_pool = Counter(each.node.pool for each in with_cidrs if each.is_windows)
    by_node = grouped((each.node, each) for each in pods)
    events = _latest(warnings, {each.name: each.uid for each in pods})
    for name in names:
        there, here = listed.get(name), tuple(by_node.get(name, ()))
        node = there.node if there else None
        ours = [each for pod in here for each in events.get(pod.name, ())]
        twins = {each for cidr in (node.pod_cidrs if node else ()) for each in by_cidr[cidr]} - {name}
        are_pods_known = Source.PODS not in shared.unknown
        yield replace(
            shared,
            name=name,
            node=node,
            pods=here,
            events=(*ours, *(each.event for each in warnings if name and each.node == name)),
            agents=tuple(_agents(sets, there.host, here)) if there and are_pods_known else (),
            twins=tuple(sorted(twins)),
            peers=by_pool[node.pool] if node else 0,
        )


def _latest(warnings: Iterable[_Warning], pods: Mapping[str, str]) -> dict[str, list[Event]]:
    """Return by pod the latest warning of each reason, the newest first; none of an earlier pod."""
    found: dict[tuple[str, str], _Warning] = {}
    for each in warnings:
        pod, key = each.event.pod, (each.event.pod, each.event.reason)
        is_ours = pod in pods and (not each.uid or not pods[pod] or each.uid == pods[pod])
        if is_ours and (key not in found or found[key].at <= each.at):
            found[key] = each
    newest = sorted(found.values(), key=lambda each: each.at, reverse=True)
    return grouped((each.event.pod, each.event) for each in newest)


def _agents(sets: Iterable[_DaemonSet], host: Host, pods: Iterable[Pod]) -> Iterator[Agent]:
    """Yield the node agents that are on a node, or have to be; those that are, by the owner of their pod."""
    by_set = {each.daemon_set: each for each in pods}
    missing = [name for name, selection in sets if name not in by_set and selection.is_taken_by(host)]
    for name in (*by_set, *missing):
        if _AGENT_NAME.search(name):
            yield Agent(name, by_set.get(name))
