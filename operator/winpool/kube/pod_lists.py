"""Lists pods, of the whole cluster or of one node, and PodDisruptionBudgets.

Lists all pods of the cluster, page by page: each is passed on once and not kept.

A part of a list means nothing. Neither does a list with a pod whose node cannot be read: it may be on any
node.

Lists the pods of one node, in one answer: a part of a list means nothing.

The request has no ``limit`` and no ``resourceVersion``. The API server answers it from its watch cache, which
has an index of ``spec.nodeName``, once the cache has caught up with etcd (KEP-2340, on by default from 1.31).
Such an answer is as fresh as a read of etcd, and reads no other pod. With a limit, servers before 1.34 read
all pods from etcd. With ``resourceVersion=0`` the answer may be of any age, while evidence has to be younger
than what it permits. https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list

The shapes that are read of the pods of a node under memory pressure, and of PodDisruptionBudgets.

For pods in general, see ``pod_wire``: of those here other fields are needed, and of few pods.

Lists the pods of a node under memory pressure, with what decides which of them may be evicted.

It is the request of ``node_pods``, without failed pods: one answer, as fresh as a read of etcd.

Lists all PodDisruptionBudgets of the cluster.

One list of all: the namespaces of the pods of a node are up to a hundred, and a cluster has fewer budgets
than Deployments.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote, urlencode

import msgspec

from winpool.api.quantity import bytes_of
from winpool.api.text import read_moment
from winpool.kube.errors import StreamGarbled, Unavailable
from winpool.kube.lists import Listing, ListReader, Pager
from winpool.kube.pods import Owner, PodPage, UnreadablePod, decode_pod_page
from winpool.kube.request import Request
from winpool.kube.wire import Bounded, ListOf
from winpool.model.budgets import Budget, Requirement
from winpool.model.node_pods import NodePod
from winpool.model.pods import Pod

log = logging.getLogger(__name__)

PODS_PATH: Final = "/api/v1/pods"

BOUND: Final = "spec.nodeName!=,status.phase!=Succeeded"
"""Pods that are on a node and have not succeeded. Failed ones are needed: a kubelet that refuses a pod for
its operating system sets it to Failed."""

PAGE_LIMIT: Final = 500
"""Pods per page: what client-go and kubectl ask for. A page takes the event loop some 10 ms."""

POD_PAGE_BYTES: Final = 16 * 1024 * 1024
"""In memory at once. Real pods have 5 to 20 kB, so a page of 500 fits; where it does not, the next list asks
for smaller pages."""

UNREADABLE_MOST: Final = 1000
"""Nodes with pods that cannot be read. With more, the server that answers is not an API server that we
know."""


@dataclass(frozen=True, slots=True)
class ListedPods:
    """A complete list: how many pods, on how many pages.

    ``unreadable_nodes`` are the nodes with a pod that could not be read, and was not passed on.
    """

    count: int
    pages: int
    unreadable_nodes: frozenset[str] = frozenset()


class PodLister:
    """Lists all pods that are on nodes. After a page that was too large it asks for smaller ones.

    ``request`` sends a request to the API server and returns its answer, as ``Transport.request`` does.
    """

    def __init__(self, request: Callable[[Request], Awaitable[bytes | bytearray]]) -> None:
        self._with_work: Collection[str] = ()
        self._pager = Pager(request, replace(POD_LISTING, decode=self._decode))

    def _decode(self, body: bytes | bytearray) -> PodPage:
        return decode_pod_page(body, with_work=self._with_work)

    async def list(self, *, see: Callable[[Pod], None], with_work: Collection[str] = ()) -> ListedPods:
        """Call ``see`` with every pod that exists, once each, all as of one moment.

        ``with_work`` names the nodes whose pods are read with their work. One list at a time.
        Raises ApiErrors, at any page: the pods until then do not count. Gone is among them: the list took
        longer than the API server keeps its version, and the rest would be as of another moment. After
        TooLarge a new list, of smaller pages, may succeed.
        """
        self._with_work = with_work
        count = pages = 0
        unreadable: dict[str, UnreadablePod] = {}

        def take(page: PodPage) -> None:
            nonlocal count, pages
            for pod in page.pods:
                see(pod)
            for lost in page.unreadable:
                _note(lost, unreadable)
            pages += 1
            count += page.size

        await self._pager.show(take)
        if unreadable:
            example = next(iter(unreadable.values()))
            log.warning("list pods: %s; the pods of %d nodes count as unknown", example, len(unreadable))
        return ListedPods(count, pages, frozenset(unreadable))


def list_request(*, limit: int = PAGE_LIMIT, token: str = "") -> Request:
    """Return the request of one page; ``token`` is that of the page before."""
    query = {"fieldSelector": BOUND, "limit": str(limit), **({"continue": token} if token else {})}
    path = f"{PODS_PATH}?{urlencode(query, quote_via=quote)}"
    return Request(verb="list", resource="pods", path=path, reply_limit=POD_PAGE_BYTES)


POD_LISTING: Final = Listing(
    resource="pods",
    request=lambda limit, token: list_request(limit=limit, token=token),
    decode=decode_pod_page,
    page_limit=PAGE_LIMIT,
    page_bytes=POD_PAGE_BYTES,
)


def _note(lost: UnreadablePod, unreadable: dict[str, UnreadablePod]) -> None:
    """Note ``lost`` under its node; raise StreamGarbled where the list means nothing because of it."""
    if not lost.node:
        raise StreamGarbled(f"list pods: {lost}")
    unreadable.setdefault(lost.node, lost)
    if len(unreadable) > UNREADABLE_MOST:
        raise StreamGarbled(f"list pods: {lost}, and the same on {UNREADABLE_MOST} other nodes")


ANSWER_BYTES: Final = 8 * 1024 * 1024
"""A kubelet runs 110 pods by default, of 5 to 20 kB each. Eight answers are in memory at once."""

ANSWER_SECONDS: Final = 10.0
"""For the whole answer, including retries of the transport: a later one is too old to decide a write on."""


async def list_node_pods(
    request: Callable[[Request], Awaitable[bytes | bytearray]], node: str, *, see: Callable[[Pod], None]
) -> bool:
    """Call ``see`` with every pod on ``node``; return whether all of them could be read.

    ``request`` sends a request to the API server and returns its answer. Raises ApiErrors, TooLarge among
    them; the pods seen until then mean nothing.
    """
    asked = node_request(node)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            answer = await request(asked)
    except TimeoutError:
        raise Unavailable(f"{asked.label}: no answer within {ANSWER_SECONDS:g} s", reason="Timeout") from None
    page = decode_pod_page(answer)
    if page.continue_token:
        raise StreamGarbled(f"{asked.label}: half a list, though all of it was asked for")
    for pod in page.pods:
        see(pod)
    if page.unreadable:
        log.warning("%s: %s; the pods of the node count as unknown", asked.label, page.unreadable[0])
    return not page.unreadable


def node_request(node: str, *, with_failed: bool = True) -> Request:
    """Return the request for the pods on ``node`` that have not succeeded; failed ones may be left out."""
    phases = ["Succeeded"] if with_failed else ["Succeeded", "Failed"]
    selected = [f"spec.nodeName={node}", *(f"status.phase!={each}" for each in phases)]
    query = {"fieldSelector": ",".join(selected)}
    path = f"{PODS_PATH}?{urlencode(query, quote_via=quote)}"
    return Request(verb="list", resource="pods", path=path, name=f"of node {node}", reply_limit=ANSWER_BYTES)


class _Base(msgspec.Struct, rename="camel", gc=False):
    """Names as in JSON. The records live for microseconds, without cycles, so ``gc`` is off."""


class VictimAnnotations(_Base):
    """The two annotations that are read.

    The kubelet sets the first on the mirror pods of static pods. The second may be any text.
    """

    mirror: str | None = msgspec.field(default=None, name="kubernetes.io/config.mirror")
    deletion_cost: str | None = msgspec.field(default=None, name="controller.kubernetes.io/pod-deletion-cost")


class VictimMetadata(_Base):
    """The part of meta/v1 ObjectMeta that is read of a pod."""

    namespace: Bounded = ""
    name: Bounded = ""
    uid: Bounded = ""
    labels: dict[str, str] | None = None
    annotations: VictimAnnotations | None = None
    owner_references: list[Owner] | None = None
    creation_timestamp: Bounded | None = None
    deletion_timestamp: Bounded | None = None


class WindowsOptions(_Base):
    """The part of core/v1 WindowsSecurityContextOptions that is read."""

    host_process: bool | None = None


class SecurityContext(_Base):
    """The part of core/v1 SecurityContext, and of PodSecurityContext, that is read."""

    windows_options: WindowsOptions | None = None


class Requests(_Base):
    """The part of the requests of core/v1 ResourceRequirements that is read."""

    memory: Bounded | int | None = None


class Resources(_Base):
    """The part of core/v1 ResourceRequirements that is read."""

    requests: Requests | None = None


class VictimContainer(_Base):
    """The part of core/v1 Container that is read. ``restart_policy`` is that of a sidecar."""

    name: Bounded = ""
    resources: Resources | None = None
    security_context: SecurityContext | None = None
    restart_policy: str | None = None


class VictimSpec(_Base):
    """The part of core/v1 PodSpec that is read."""

    node_name: Bounded = ""
    priority: int | None = None
    termination_grace_period_seconds: int | None = None
    security_context: SecurityContext | None = None
    resources: Resources | None = None
    containers: list[VictimContainer] | None = None
    init_containers: list[VictimContainer] | None = None
    ephemeral_containers: list[VictimContainer] | None = None


class ContainerStatus(_Base):
    """The part of core/v1 ContainerStatus that is read. ``resources`` are those that the node has granted."""

    name: Bounded = ""
    resources: Resources | None = None


class VictimStatus(_Base):
    """The part of core/v1 PodStatus that is read."""

    phase: Bounded | None = None
    resources: Resources | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class VictimPod(_Base):
    """core/v1 Pod."""

    metadata: VictimMetadata
    spec: VictimSpec
    status: VictimStatus | None = None


class SelectorRequirementObject(_Base):
    """meta/v1 LabelSelectorRequirement."""

    key: Bounded = ""
    operator: Bounded = ""
    values: list[str] | None = None


class LabelSelectorObject(_Base):
    """meta/v1 LabelSelector."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[SelectorRequirementObject] | None = None


class BudgetMetadata(_Base):
    """The part of meta/v1 ObjectMeta that is read of a budget."""

    namespace: Bounded = ""
    name: Bounded = ""
    generation: int = 0


class BudgetSpec(_Base):
    """The part of policy/v1 PodDisruptionBudgetSpec that is read."""

    selector: LabelSelectorObject | None = None
    unhealthy_pod_eviction_policy: Bounded | None = None


class BudgetStatus(_Base):
    """The part of policy/v1 PodDisruptionBudgetStatus that is read."""

    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0


class BudgetObject(_Base):
    """policy/v1 PodDisruptionBudget."""

    metadata: BudgetMetadata
    spec: BudgetSpec | None = None
    status: BudgetStatus | None = None


victim_list: Final = msgspec.json.Decoder(ListOf[VictimPod])
budget_list: Final = msgspec.json.Decoder(ListOf[BudgetObject])


MOST_VICTIMS: Final = 1000
"""Pods of a node. A kubelet runs 110 by default, and 250 at most on managed clusters; the rest has ended."""

DEFAULT_GRACE_SECONDS: Final = 30
"""What the API server sets where a pod sets none."""

_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_STATIC_OWNER: Final = "Node"
"""The kind of the owner of a mirror pod."""
_SIDECAR: Final = "Always"
_COST: Final = re.compile(r"[+-]?\d{1,10}", re.ASCII)
"""A deletion cost is an int32."""

_NAME: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)
"""A DNS subdomain (RFC 1123), as the API server requires of the names of pods and namespaces."""

_UID: Final = re.compile(r"[A-Za-z0-9-]{1,64}", re.ASCII)
"""What an intent on a node may have (``memory.intent_text``). The API server makes a UUID for each pod."""

_list: Final = ListReader(victim_list, resource="pods", kind="PodList", api_version="v1")


async def list_victim_pods(
    request: Callable[[Request], Awaitable[bytes | bytearray]], node: str
) -> tuple[NodePod, ...]:
    """Return all pods on ``node`` that have not ended.

    Those that failed are not asked for: where a kubelet has evicted pods itself, it leaves thousands of them.

    ``request`` sends a request to the API server and returns its answer. Raises ApiErrors, TooLarge among
    them, and StreamGarbled where one pod cannot be read: it could be the one that is looked for (P4).
    """
    asked = node_request(node, with_failed=False)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            answer = await request(asked)
    except TimeoutError:
        raise Unavailable(f"{asked.label}: no answer within {ANSWER_SECONDS:g} s", reason="Timeout") from None
    return decode_victims(answer, node=node, label=asked.label)


def decode_victims(body: bytes | bytearray, *, node: str, label: str) -> tuple[NodePod, ...]:
    """Read the whole list of the pods of ``node``. Raises StreamGarbled for anything else."""
    page = _list.read(body)
    if page.metadata.continue_:
        raise StreamGarbled(f"{label}: half a list, though all of it was asked for")
    items = page.items or ()
    if len(items) > MOST_VICTIMS:
        raise StreamGarbled(f"{label}: more than {MOST_VICTIMS} pods, which no node has")
    found: list[NodePod] = []
    for item in items:
        if not isinstance(item, VictimPod):
            raise StreamGarbled(f"{label}: a pod that cannot be read")
        metadata = item.metadata
        if not _is_named(metadata) or item.spec.node_name != node:
            raise StreamGarbled(
                f"{label}: a pod of another node, or with a namespace, name or UID that no pod has"
            )
        found.append(_pod(item))
    if len({each.uid for each in found}) < len(found):
        raise StreamGarbled(f"{label}: two pods with one UID")
    return tuple(found)


def _is_named(pod: VictimMetadata) -> bool:
    """Whether the pod can be named in a path, in a log and in an annotation."""
    names = (pod.namespace, pod.name)
    return all(_NAME.fullmatch(each) for each in names) and _UID.fullmatch(pod.uid) is not None


def _pod(found: VictimPod) -> NodePod:
    metadata, spec, annotations = found.metadata, found.spec, found.metadata.annotations
    owner = next((each.kind for each in metadata.owner_references or () if each.controller), "")
    grace = spec.termination_grace_period_seconds
    return NodePod(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        labels=metadata.labels or {},
        owner_kind=owner,
        priority=spec.priority or 0,
        is_static=owner == _STATIC_OWNER or (annotations is not None and annotations.mirror is not None),
        is_host_process=_is_host_process(spec),
        is_finished=found.status is not None and found.status.phase in _FINISHED,
        is_terminating=metadata.deletion_timestamp is not None,
        created=read_moment(metadata.creation_timestamp),
        grace_seconds=DEFAULT_GRACE_SECONDS if grace is None else max(0, grace),
        requests=_requests(spec, found.status or VictimStatus()),
        deletion_cost=_cost(annotations.deletion_cost if annotations else None),
    )


def _is_host_process(spec: VictimSpec) -> bool:
    """Whether the pod, or any container of it, is a HostProcess one."""
    containers = (*_all(spec.containers), *_all(spec.init_containers), *_all(spec.ephemeral_containers))
    contexts = (spec.security_context, *(each.security_context for each in containers))
    return any(
        each is not None and each.windows_options is not None and bool(each.windows_options.host_process)
        for each in contexts
    )


def _requests(spec: VictimSpec, status: VictimStatus) -> int:
    """Return the memory that the pod requests and its node has granted, as the scheduler counts it.

    Requests of the pod as a whole come first (KEP-2837). Otherwise it is the sum of its containers and
    sidecars, or what its largest init container requests, if that is more. The spec of a running pod has what
    its author wishes now (KEP-1287): who writes a large number there, and gets it not, would not be evicted.
    """
    whole = _granted(_memory(spec.resources), _memory(status.resources))
    if whole is not None:
        return whole
    statuses = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    granted = {each.name: _memory(each.resources) for each in statuses}

    def of(container: VictimContainer) -> int:
        return _granted(_memory(container.resources), granted.get(container.name)) or 0

    inits = _all(spec.init_containers)
    sidecars = [each for each in inits if each.restart_policy == _SIDECAR]
    running = sum(of(each) for each in (*_all(spec.containers), *sidecars))
    return max(running, *(of(each) for each in inits), 0)


def _granted(wished: int | None, granted: int | None) -> int | None:
    """Return the smaller one; what is wished where the node reports nothing, as kubelets before 1.33 do."""
    return wished if wished is None or granted is None else min(wished, granted)


def _all(containers: Iterable[VictimContainer] | None) -> tuple[VictimContainer, ...]:
    return tuple(containers or ())


def _memory(resources: Resources | None) -> int | None:
    """Return the memory that is requested; None where none is, or it is no amount."""
    if resources is None or resources.requests is None or resources.requests.memory is None:
        return None
    try:
        return max(0, bytes_of(resources.requests.memory))
    except ValueError:
        return None


def _cost(text: str | None) -> int:
    """Return the deletion cost; 0 for what is none, as the controller of ReplicaSets does."""
    return int(text) if text is not None and _COST.fullmatch(text) else 0


ALWAYS_ALLOW: Final = "AlwaysAllow"
"""The value of ``unhealthyPodEvictionPolicy`` that lets pods go that are not Ready (KEP-3017)."""

BUDGETS_PATH: Final = "/apis/policy/v1/poddisruptionbudgets"


BUDGET_PAGE_BYTES: Final = 8 * 1024 * 1024
"""A budget has 1 to 3 kB."""

LIST_SECONDS: Final = 15.0
"""For the whole list, with all its pages. The pods of a node are listed before, in at most 10 s, and both
together permit nothing after 30 s (``memory.evicting``)."""

_budget_list: Final = ListReader(
    budget_list,
    resource="poddisruptionbudgets",
    kind="PodDisruptionBudgetList",
    api_version="policy/v1",
)


@dataclass(frozen=True, slots=True)
class BudgetPage:
    """One page of a list."""

    budgets: tuple[Budget, ...]
    resource_version: str
    continue_token: str

    @property
    def size(self) -> int:
        """How many budgets are on it."""
        return len(self.budgets)


class BudgetLister:
    """Lists the budgets of the cluster. ``request`` is as ``Transport.request``."""

    def __init__(self, request: Callable[[Request], Awaitable[bytes | bytearray]]) -> None:
        self._pager = Pager(request, BUDGET_LISTING)

    async def list(self) -> tuple[Budget, ...]:
        """Return all budgets, as of one moment, within LIST_SECONDS. Raises ApiErrors."""
        try:
            async with asyncio.timeout(LIST_SECONDS):
                found, _ = await self._pager.collect(lambda page: page.budgets)
        except TimeoutError:
            said = f"list poddisruptionbudgets: not all of them within {LIST_SECONDS:g} s"
            raise Unavailable(said, reason="Timeout") from None
        return found


def budget_request(*, limit: int = PAGE_LIMIT, token: str = "") -> Request:
    """Return the request of one page; ``token`` is that of the page before."""
    query = {"limit": str(limit), **({"continue": token} if token else {})}
    path = f"{BUDGETS_PATH}?{urlencode(query, quote_via=quote)}"
    return Request(verb="list", resource="poddisruptionbudgets", path=path, reply_limit=BUDGET_PAGE_BYTES)


def decode_budgets(body: bytes | bytearray) -> BudgetPage:
    """Read one page. Raises StreamGarbled where one cannot be read: it may forbid the eviction (P4)."""
    page = _budget_list.read(body)
    found: list[Budget] = []
    for item in page.items or ():
        if not isinstance(item, BudgetObject) or not item.metadata.namespace:
            raise StreamGarbled("list poddisruptionbudgets: one that cannot be read")
        found.append(_budget(item))
    return BudgetPage(tuple(found), page.metadata.resource_version, page.metadata.continue_)


def _budget(found: BudgetObject) -> Budget:
    metadata, status = found.metadata, found.status
    selector = found.spec.selector if found.spec else None
    is_current = status is not None and status.observed_generation >= metadata.generation
    policy = found.spec.unhealthy_pod_eviction_policy if found.spec else None
    return Budget(
        namespace=metadata.namespace,
        name=metadata.name,
        selects=selector is not None,
        labels=(selector.match_labels if selector else None) or {},
        requirements=tuple(
            Requirement(each.key, each.operator, frozenset(each.values or ()))
            for each in (selector.match_expressions if selector else None) or ()
        ),
        allowed=status.disruptions_allowed if status is not None and is_current else 0,
        lets_unready_go=policy == ALWAYS_ALLOW or (status is not None and _is_healthy(status)),
    )


def _is_healthy(status: BudgetStatus) -> bool:
    """Whether the API server lets pods go that are not Ready, by any policy.

    As it does, this goes by the status also where that is older than the spec (``EvictionREST.Create`` in
    k8s.io/kubernetes, pkg/registry/core/pod/storage).
    """
    return status.current_healthy >= status.desired_healthy > 0


BUDGET_LISTING: Final = Listing(
    resource="poddisruptionbudgets",
    request=lambda limit, token: budget_request(limit=limit, token=token),
    decode=decode_budgets,
    page_limit=PAGE_LIMIT,
    page_bytes=BUDGET_PAGE_BYTES,
)
