"""Reads from the cluster what ``audit`` judges: workloads, and what decides about them.

A list for each kind, and a call for each page. What cannot be read is noted, and the rest is audited.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from winpool.api.keys import OS_LABEL, OS_WINDOWS
from winpool.api.selector import selects
from winpool.cli.audit_report import Read
from winpool.cli.kubectl import Kubectl, KubectlError, NotAskedError, decoded
from winpool.cli.lenient import Fields
from winpool.cli.reader import Asking, Page, pool_selector, read_version
from winpool.features.audit.cluster import Host, Limits
from winpool.features.audit.workloads import RUNTIME_CLASS
from winpool.kube.wire import Base, ListOf, NodeInfo, NodeSpec, PodCondition
from winpool.model.node import Taint

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from winpool.api.selector import NodeSelector


T = TypeVar("T")
Object = dict[str, Any]

_ENFORCE: Final = "pod-security.kubernetes.io/enforce"
_MIRROR: Final = "kubernetes.io/config.mirror"
_FINISHED: Final = ("Succeeded", "Failed")
_ENDED: Final = ("Complete", "Failed")
"""Conditions of a Job that has finished."""


class Kind(NamedTuple):
    """A kind of workloads: where its objects are, and how kubectl names it."""

    kind: str
    api: str
    resource: str
    names: tuple[str, ...] = ()

    def path(self, namespace: str) -> str:
        """Return where the objects of a namespace are, or those of all for an empty one."""
        place = f"/namespaces/{namespace}" if namespace else ""
        return f"{self.api}{place}/{self.resource}"


KINDS: Final = (
    Kind("Deployment", "/apis/apps/v1", "deployments", ("deploy",)),
    Kind("StatefulSet", "/apis/apps/v1", "statefulsets", ("sts",)),
    Kind("DaemonSet", "/apis/apps/v1", "daemonsets", ("ds",)),
    Kind("CronJob", "/apis/batch/v1", "cronjobs", ("cj",)),
    Kind("Job", "/apis/batch/v1", "jobs"),
    Kind("ReplicaSet", "/apis/apps/v1", "replicasets", ("rs",)),
    Kind("ReplicationController", "/api/v1", "replicationcontrollers", ("rc",)),
    Kind("Pod", "/api/v1", "pods", ("po",)),
)
"""Controllers before what they make."""

_LIMIT_RANGES: Final = Kind("LimitRange", "/api/v1", "limitranges")

_NAMESPACED: Final = (_LIMIT_RANGES.resource, *(each.resource for each in KINDS))
"""What can be read in one namespace."""

_BY_NAME: Final = {name: each for each in KINDS for name in (each.kind.lower(), each.resource, *each.names)}
_MAKERS: Final[Mapping[str, Collection[tuple[str, str]]]] = {
    "Pod": (
        ("apps/v1", "ReplicaSet"),
        ("v1", "ReplicationController"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "DaemonSet"),
        ("batch/v1", "Job"),
    ),
    "ReplicaSet": (("apps/v1", "Deployment"),),
    "Job": (("batch/v1", "CronJob"),),
}
"""By what the controllers of Kubernetes make, which of them do: these are judged themselves."""
_WITH_TEMPLATE: Final = "ReplicaSet"
"""What the content of a controller is read as that Kubernetes does not know."""
_MADE: Final = ("Job", "ReplicaSet", "ReplicationController", "Pod")
"""Kinds that controllers make many of: of each controller they are judged once for each template."""
_OF_ONE: Final = ("nodeName", "hostname", "subdomain")
_NAMES_OF_ONE: Final = re.compile(rb'"kube-api-access-[a-z0-9]{5}"|"claimName":\s*"[^"]*"')
"""What differs between pods of one template: fields of the pod, and names of volumes and claims."""


class Named(NamedTuple):
    """A workload that the command line names."""

    kind: Kind
    name: str


def workload_name(text: str) -> Named:
    """Read KIND/NAME, as kubectl does. Raises ValueError."""
    resource, slash, name = text.partition("/")
    kind = _BY_NAME.get(resource.lower().partition(".")[0])
    if kind is None or not slash or not name or "/" in name:
        kinds = ", ".join(each.kind.lower() for each in KINDS)
        raise ValueError(f"{text!r} is not KIND/NAME: kinds are {kinds}")
    return Named(kind, name)


class _Owner(Base):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    controller: bool | None = None


class _Metadata(Base):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None


class _Status(Base):
    """The part of the status of a Pod or a Job that is read."""

    phase: str | None = None
    conditions: list[PodCondition] | None = None


class _Item(Base):
    metadata: _Metadata
    spec: msgspec.Raw = msgspec.Raw(b"null")
    status: _Status | None = None


class _Template(Base):
    spec: dict[str, msgspec.Raw] | None = None


class _Spec(Base):
    template: _Template | None = None


class _Features(Base):
    recursive_read_only_mounts: bool | None = None


class _Handler(Base):
    name: str | None = None
    features: _Features | None = None


class _NodeStatus(Base):
    node_info: NodeInfo | None = None
    runtime_handlers: list[_Handler] | None = None


class _Node(Base):
    """The part of core/v1 Node that is read."""

    metadata: _Metadata
    spec: NodeSpec | None = None
    status: _NodeStatus | None = None


_items: Final = msgspec.json.Decoder(ListOf[_Item])
_pod_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)
_spec: Final = msgspec.json.Decoder(_Spec | None)
_item: Final = msgspec.json.Decoder(_Item)
_nodes: Final = msgspec.json.Decoder(ListOf[_Node])
_objects: Final = msgspec.json.Decoder(ListOf[Object])
_object: Final = msgspec.json.Decoder(Object)


def read_for_files(flags: Sequence[str], pool: str) -> Read:
    """Return what is known of the cluster for manifests: the nodes of a pool, and RuntimeClasses.

    Raises NotAskedError where the pool cannot be read, and NoSuchPoolError.
    """
    with Kubectl(flags) as kubectl:
        selector = pool_selector(kubectl, pool)
        asking = Asking(kubectl, namespaced=_NAMESPACED)
        nodes_of, classes_of = _nodes_of(asking), _classes_of(asking)
        asking.wait()
        windows, linux = _split(nodes_of(), selector)
        return Read(windows=windows, linux=linux, classes=classes_of(), problems=asking.problems)


def read_cluster(
    flags: Sequence[str], *, names: Sequence[Named], is_everywhere: bool, pool: str | None, has_hosts: bool
) -> Read:
    """Return the workloads of a namespace or of all, or those that are named, and what is known besides.

    With ``has_hosts`` without nodes. Raises NotAskedError where the API server cannot be asked at all, and
    NoSuchPoolError.
    """
    with Kubectl(flags) as kubectl:
        version = read_version(kubectl)  # alone, so that an exec plugin prompts once
        selector = None if pool is None else pool_selector(kubectl, pool)
        namespace = "" if is_everywhere else namespace_of(kubectl, flags)
        asking = Asking(kubectl, namespaced=_NAMESPACED)
        reads = [_one(asking, each, namespace) for each in names]
        reads = reads or [_all(asking, each, namespace) for each in KINDS]
        nodes_of = _nodes_of(asking) if not has_hosts else lambda: None
        classes_of = _classes_of(asking)
        limits_of = asking.listed("LimitRanges", _LIMIT_RANGES.path(namespace), _page_of_objects)
        namespaces_of = _namespaces(asking, namespace)
        asking.wait()
        windows, linux = _split(nodes_of(), selector)
        workloads = [each for read in reads for each in read() or ()]
        limits, namespaces = limits_of(), namespaces_of()
        return Read(
            version=version,
            contents=tuple([(each.content, each.kind) for each in _once(workloads)]),
            windows=windows,
            linux=linux,
            classes=classes_of(),
            limits=None if limits is None else _limits(limits),
            enforced=None if namespaces is None else dict(map(_enforced, namespaces)),
            problems=asking.problems,
        )


def namespace_of(kubectl: Kubectl, flags: Sequence[str]) -> str:
    """Return the namespace as kubectl has it. Raises NotAskedError."""
    given = [each.partition("=")[2] for each in flags if each.startswith("--namespace=")]
    if given:
        return given[-1]
    try:
        found = kubectl.run("config", "view", "--minify", "--output=jsonpath={..namespace}")
    except KubectlError as error:
        raise NotAskedError(f"{error.said}: name the namespace with -n") from error
    return found.decode(errors="replace").strip() or "default"


# Workloads.


@dataclass(frozen=True, slots=True)
class _Workload:
    """An object as a manifest has it, and its kind for people.

    ``made_by`` is a controller that Kubernetes does not know, if any. It may be of any kind, so its kind says
    nothing about where the content has the pod. What it made from one ``template`` is alike.
    """

    content: Object
    kind: str
    made_by: tuple[str, ...] = ()
    template: bytes = b""

    @property
    def is_old(self) -> bool:
        """Whether it is a ReplicaSet of an earlier template, as far as can be seen."""
        spec = self.content["spec"]
        return isinstance(spec, dict) and spec.get("replicas") == 0


def _all(asking: Asking, kind: Kind, namespace: str) -> Callable[[], list[_Workload] | None]:
    query = {}
    if kind.kind == "Pod":
        query["fieldSelector"] = ",".join(f"status.phase!={each}" for each in _FINISHED)

    def page(body: bytes) -> Page[_Workload]:
        found = _items.decode(body)
        items = [each for each in found.items or () if not (_is_made(kind, each) or _is_over(kind, each))]
        if kind.kind == "Pod":  # of one template they are alike, so one is decoded
            alike = {(*_made_by(kind, each), _template(kind, each) or _key(each)): each for each in items}
            items = list(alike.values())
        read = _once(_workload(kind, each) for each in items)
        return Page(tuple(read), found.metadata.continue_)

    return asking.listed(kind.resource, kind.path(namespace), page, **query)


def _one(asking: Asking, named: Named, namespace: str) -> Callable[[], list[_Workload] | None]:
    kind, name = named
    path = f"{kind.path(namespace)}/{quote(name, safe='')}"

    def read() -> list[_Workload]:
        item = decoded(_item.decode, asking.kubectl.get(path))
        item.metadata.owner_references = None  # who names it means it, also if it has finished
        return [_workload(kind, item)]

    return asking.begin(f"{kind.resource}/{name}", read)


def _controller(item: _Item) -> _Owner | None:
    return next((each for each in item.metadata.owner_references or () if each.controller), None)


def _is_made(kind: Kind, item: _Item) -> bool:
    """Whether a built-in controller has made it: that one is judged itself."""
    owner = _controller(item)
    return owner is not None and (owner.api_version, owner.kind) in _MAKERS.get(kind.kind, ())


def _is_over(kind: Kind, item: _Item) -> bool:
    """Whether it is a Pod or a Job that has finished, or a mirror pod, which only its kubelet can change."""
    status = item.status or _Status()
    if kind.kind == "Pod":
        return status.phase in _FINISHED or _MIRROR in (item.metadata.annotations or {})
    conditions = (status.conditions or ()) if kind.kind == "Job" else ()
    return any(each.type in _ENDED and each.status == "True" for each in conditions)


def _key(item: _Item) -> tuple[str, ...]:
    return item.metadata.namespace, item.metadata.name


def _made_by(kind: Kind, item: _Item) -> tuple[str, ...]:
    """Return the namespace and the identity of the controller of what many are made of; empty without one."""
    owner = _controller(item) if kind.kind in _MADE else None
    return (item.metadata.namespace, owner.api_version, owner.kind, owner.name) if owner else ()


def _template(kind: Kind, item: _Item) -> bytes:
    """Return what is the same for all that a controller has made from one template; empty without one."""
    if not _made_by(kind, item):
        return b""
    if kind.kind == "Pod":
        fields = _pod_fields.decode(item.spec)
    else:
        spec = _spec.decode(item.spec)
        fields = spec.template.spec if spec and spec.template else None
    kept = [key.encode() + value for key, value in (fields or {}).items() if key not in _OF_ONE]
    return sha256(_NAMES_OF_ONE.sub(b"", b"\0".join(kept))).digest()


def _workload(kind: Kind, item: _Item) -> _Workload:
    metadata, spec = item.metadata, msgspec.json.decode(item.spec)
    annotations = {"annotations": metadata.annotations or {}}
    made_by = _made_by(kind, item)
    if not made_by:
        named = {"name": metadata.name, "namespace": metadata.namespace, **annotations}
        return _Workload({"kind": kind.kind, "metadata": named, "spec": spec}, kind.kind)
    if kind.kind == "Pod":
        of_pod = {key: value for key, value in (spec or {}).items() if key != "nodeName"}
        spec = {"template": {"metadata": annotations, "spec": of_pod}}
    *_, owner_kind, name = made_by
    of_owner = {"name": name, "namespace": metadata.namespace}
    content = {"kind": _WITH_TEMPLATE, "metadata": of_owner, "spec": spec}
    return _Workload(content, owner_kind, made_by, _template(kind, item))


def _once(found: Iterable[_Workload]) -> Iterator[_Workload]:
    """Yield of what a controller has made one for each template, and one that is old if there is no other."""
    by_controller: dict[tuple[str, ...], dict[bytes, _Workload]] = {}
    for each in found:
        if each.made_by:
            template = b"" if each.is_old else each.template
            by_controller.setdefault(each.made_by, {}).setdefault(template, each)
        else:
            yield each
    for alike in by_controller.values():
        yield from [each for each in alike.values() if len(alike) == 1 or not each.is_old]


# What decides about them.


def _nodes_of(asking: Asking) -> Callable[[], list[_Node] | None]:
    return asking.listed("nodes", "/api/v1/nodes", page_of_nodes)


def _classes_of(asking: Asking) -> Callable[[], list[Object] | None]:
    def page(body: bytes) -> Page[Object]:
        found = _page_of_objects(body)
        return Page(tuple({**each, "kind": RUNTIME_CLASS} for each in found.items), found.continue_token)

    return asking.listed("RuntimeClasses", "/apis/node.k8s.io/v1/runtimeclasses", page)


def _namespaces(asking: Asking, namespace: str) -> Callable[[], list[Object] | None]:
    what, path = "Pod Security of namespaces", "/api/v1/namespaces"
    if not namespace:
        return asking.listed(what, path, _page_of_objects)
    one = f"{path}/{quote(namespace, safe='')}"
    return asking.begin(what, lambda: [decoded(_object.decode, asking.kubectl.get(one))])


def page_of_nodes(body: bytes) -> Page[_Node]:
    """Read a page of nodes."""
    page = _nodes.decode(body)
    return Page(tuple(page.items or ()), page.metadata.continue_)


def _page_of_objects(body: bytes) -> Page[Object]:
    page = _objects.decode(body)
    return Page(tuple(page.items or ()), page.metadata.continue_)


def _split(
    nodes: Sequence[_Node] | None, selector: NodeSelector | None
) -> tuple[Sequence[Host] | None, Sequence[Host] | None]:
    """Return the Windows nodes, of a pool those that it selects, and the others."""
    if nodes is None:
        return None, None
    hosts = list(map(host_of, nodes))
    windows = [each for each in hosts if each.labels.get(OS_LABEL) == OS_WINDOWS]
    linux = [each for each in hosts if each.labels.get(OS_LABEL) != OS_WINDOWS]
    return [each for each in windows if selector is None or selects(selector, each.labels)], linux


def host_of(node: _Node) -> Host:
    """Return what decides which pods a node takes and runs."""
    status, spec = node.status or _NodeStatus(), node.spec or NodeSpec()
    info = status.node_info or NodeInfo()
    handlers = {
        each.name or "": bool(each.features and each.features.recursive_read_only_mounts)
        for each in status.runtime_handlers or ()
    }
    return Host(
        kernel=info.kernel_version,
        runtime=info.container_runtime_version,
        labels=node.metadata.labels or {},
        taints=tuple([Taint(each.key, each.effect, each.value or "") for each in spec.taints or ()]),
        handlers=handlers or None,
        names=(node.metadata.name,),
    )


def _limits(found: Iterable[Object]) -> Mapping[str, Limits]:
    """Return what LimitRanges give to containers, by namespace. The first that gives something counts."""
    limits: dict[str, Limits] = {}
    for each in map(Fields, found):
        namespace = each.one("metadata").text("namespace")
        for item in each.one("spec").all("limits"):
            if item.text("type") == "Container":
                before = limits.get(namespace, Limits())
                default, request = (
                    item.one(name).content.get("memory") for name in ("default", "defaultRequest")
                )
                limits[namespace] = Limits(before.limit or default, before.request or request)
    return limits


def _enforced(found: Object) -> tuple[str, str]:
    metadata = Fields(found).one("metadata")
    return metadata.text("name"), metadata.one("labels").text(_ENFORCE)
