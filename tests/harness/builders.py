"""Nodes, pools and snapshots for tests of the pure features, and what the API server makes of a patch."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from types import EllipsisType
from typing import Any

from msgspec.structs import replace

from winpool.api.keys import APPLIED_ANNOTATION, OS_LABEL, OS_WINDOWS
from winpool.api.spec import WindowsNodePoolSpec
from winpool.api.status import WindowsNodePoolStatus
from winpool.features.contract.taints import taints_of as taints_of_spec
from winpool.model.node import Keys, Node, NodeVersions, Taint
from winpool.model.pool import Attempts, GuardState, OtherPools, Pool
from winpool.model.snapshot import Snapshot
from winpool.model.survey import IntolerantPods, KnownPods, OnNode, PodListProblem, Survey, taint_key
from winpool.ownership.members import Selections
from winpool.ownership.record import Owned, Record, TaintIdentity, parse, render
from winpool.ownership.trust import RecordTrust
from winpool.status.pods import written
from winpool.support.judge import Basis
from winpool.support.rows import Row

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
WINDOWS = {OS_LABEL: OS_WINDOWS}
RED = {"agentpool": "red"}

Nodes = dict[str, Node]
Object = dict[str, Any]

CONTROL_PLANE = "v1.36.3"
SUPPORTED = NodeVersions(kernel="10.0.20348.4052", kubelet=CONTROL_PLANE, runtime="containerd://2.3.0")
"""What a node says that the support matrix has nothing against."""

GUARD = "a-guard"
"""The identity of the guard that is in force, where a test does not say otherwise."""
GUARDED = RecordTrust(guard=GUARD)
"""By what records count that were written under it."""

A_SPEC: Object = {"nodeSelector": {"matchLabels": RED}, "os": {"version": "2022"}}
"""The spec of ``a_pool`` as it stands in a manifest."""


def a_taint(text: str, *, time_added: str | None = None) -> Taint:
    """Read a taint as kubectl writes it: ``key=value:Effect`` or ``key:Effect``."""
    rest, _, effect = text.rpartition(":")
    key, _, value = rest.partition("=")
    return Taint(key=key, effect=effect, value=value, time_added=time_added)


def taints_of(*texts: str) -> tuple[Taint, ...]:
    """Read several taints as kubectl writes them."""
    return tuple(a_taint(text) for text in texts)


def a_node(
    name: str = "w1",
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Iterable[Taint | str] = (),
    ready: str = "True",
    unschedulable: bool = False,
    deleting: bool = False,
    os: str | None = OS_WINDOWS,
    versions: NodeVersions = SUPPORTED,
) -> Node:
    """Return a Ready Windows node that a pool of ``a_pool`` selects; ``os=None``: without that label."""
    system = {} if os is None else {OS_LABEL: os}
    return Node(
        name=name,
        uid=f"uid-of-{name}",
        resource_version="1",
        labels={**system, **RED, **(labels or {})},
        annotations=dict(annotations or {}),
        taints=tuple(a_taint(taint) if isinstance(taint, str) else taint for taint in taints),
        unschedulable=unschedulable,
        ready=ready,
        deleting=deleting,
        versions=versions,
    )


def by_name(*nodes: Node) -> Nodes:
    """Return the nodes by name."""
    return {node.name: node for node in nodes}


def a_spec(
    *,
    selector: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Iterable[str] = (),
    mode: str = "Active",
    more: Mapping[str, Any] | None = None,
) -> WindowsNodePoolSpec:
    """Return a spec that selects the nodes of ``a_node``; ``selector`` and ``more`` are as in a manifest."""
    return WindowsNodePoolSpec.model_validate(
        {
            "nodeSelector": selector or {"matchLabels": RED},
            "mode": mode,
            "os": {"version": "2022"},
            "labels": dict(labels or {}),
            "taints": [
                {"key": taint.key, "value": taint.value, "effect": taint.effect}
                for taint in map(a_taint, taints)
            ],
            **(more or {}),
        }
    )


def a_pool(
    name: str = "pool",
    *,
    selector: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Iterable[str] = (),
    mode: str = "Active",
    more: Mapping[str, Any] | None = None,
    refusal: str = "",
    age: timedelta = timedelta(hours=1),
    uid: str | None = None,
    generation: int = 1,
    deleting: bool = False,
    finalizers: tuple[str, ...] = (),
    status: WindowsNodePoolStatus | None = None,
) -> Pool:
    """Return a pool that selects the nodes of ``a_node``; with a ``refusal`` its spec is unreadable."""
    spec = a_spec(selector=selector, labels=labels, taints=taints, mode=mode, more=more)
    return with_status(
        Pool(
            name=name,
            uid=f"uid-of-{name}" if uid is None else uid,
            resource_version="1",
            generation=generation,
            created=NOON - age,
            deleting=deleting,
            finalizers=finalizers,
            spec=None if refusal else spec,
            refusal=refusal,
            status=WindowsNodePoolStatus(),
            written_status={},
        ),
        status or WindowsNodePoolStatus(),
    )


def a_body(
    name: str = "pool", *, uid: str | None = None, version: int = 1, generation: int = 1, **more: Any
) -> Object:
    """Return a pool as the API server gives it; ``more`` goes into its metadata."""
    return {
        "apiVersion": "winpool.dev/v1alpha1",
        "kind": "WindowsNodePool",
        "metadata": {
            "name": name,
            "uid": uid or f"uid-of-{name}",
            "resourceVersion": str(version),
            "generation": generation,
            "creationTimestamp": "2026-11-01T12:00:00Z",
            **more,
        },
        "spec": A_SPEC,
    }


def edited(pool: Pool, spec: WindowsNodePoolSpec) -> Pool:
    """Return the pool after ``kubectl apply`` of another spec."""
    return replace(pool, spec=spec, refusal="", generation=pool.generation + 1)


def unreadable(pool: Pool, refusal: str = "spec.os: must be given.") -> Pool:
    """Return the pool after an edit that the operator cannot read."""
    return replace(pool, spec=None, refusal=refusal, generation=pool.generation + 1)


def deleted(pool: Pool) -> Pool:
    """Return the pool after ``kubectl delete``, held by its finalizers."""
    return replace(pool, deleting=True, generation=pool.generation + 1)


def with_status(pool: Pool, status: WindowsNodePoolStatus) -> Pool:
    """Return the pool with ``status`` standing on it."""
    return replace(pool, status=status, written_status=status.to_object())


def with_nodes(snapshot: Snapshot, *nodes: Node) -> Snapshot:
    """Return the snapshot with these nodes in place of its own."""
    pools = (*snapshot.others.rivals, snapshot.pool)
    return replace(snapshot, nodes=nodes, selected_by=Selections().of_all(nodes, pools))


def a_snapshot(
    pool: Pool,
    nodes: Iterable[Node] | Mapping[str, Node] = (),
    *,
    rivals: Iterable[Pool] = (),
    vanished: Iterable[str] = (),
    held_back: Iterable[str] = (),
    refused: Mapping[str, str] | None = None,
    missing_permission: str = "",
    written_generation: int = 0,
    control_plane: str = CONTROL_PLANE,
    survey: Survey | EllipsisType | None = ...,
    pods_problem: str = "",
    pods_forbidden: str = "",
    looks: Iterable[Survey | None] | None = None,
    pod_list_problems: Mapping[str, PodListProblem] | None = None,
    taint_absent_since: Mapping[str, float] | None = None,
    contested: Mapping[str, tuple[str, ...]] | None = None,
    guard: str = GUARD,
    seen: Mapping[str, Keys] | None = None,
    now: datetime = NOON,
) -> Snapshot:
    """Return what a pass of ``pool`` sees.

    If nothing else is given, all pods have just been looked at, and nothing was found against them.
    ``held_back`` are nodes that are not to be written whatever the goal. ``looks``
    are the own looks; if they are not given, each node has one that found what ``survey`` found there. They
    all were made after the nodes had lost what taints they lack, but for those in ``taint_absent_since``.
    """
    rivals = tuple(rivals)
    listed = tuple(nodes.values() if isinstance(nodes, Mapping) else nodes)
    if isinstance(survey, EllipsisType):
        survey = a_survey(pool, listed, now=now)
    if looks is None and survey is not None:
        looks = [dataclasses.replace(survey, nodes={name: uid}) for name, uid in survey.nodes.items()]
    own = [look for look in looks or () if look is not None]
    return Snapshot(
        pool=pool,
        nodes=listed,
        now=now,
        selected_by=Selections().of_all(listed, (*rivals, pool)),
        others=OtherPools(rivals=rivals, vanished=frozenset(vanished), seen=seen or {}),
        pods=KnownPods(
            survey=survey,
            problem=pods_problem,
            forbidden=pods_forbidden,
            node_surveys={name: look for look in own for name in look.nodes},
            pod_list_problems=pod_list_problems or {},
            taint_absent_since={**{node.uid: -1.0 for node in listed}, **(taint_absent_since or {})},
        ),
        support=Basis(control_plane=control_plane),
        guard=GuardState(identity=guard),
        attempts=Attempts(
            waiting_nodes=frozenset(held_back),
            refused=refused or {},
            contested=contested or {},
            written_generation=written_generation,
        ),
        missing_permission=missing_permission,
    )


def with_pods(snapshot: Snapshot, **changes: Any) -> Snapshot:
    """Return the snapshot with other knowledge of pods."""
    return replace(snapshot, pods=replace(snapshot.pods, **changes))


def with_guard(snapshot: Snapshot, **changes: Any) -> Snapshot:
    """Return the snapshot with another state of the guard."""
    return replace(snapshot, guard=replace(snapshot.guard, **changes))


def with_cluster_rows(snapshot: Snapshot, *rows: Row) -> Snapshot:
    """Return the snapshot with these rows in the operator's settings."""
    return replace(snapshot, support=replace(snapshot.support, cluster_rows=rows))


def a_survey(
    pool: Pool,
    nodes: Iterable[Node] = (),
    *,
    now: datetime = NOON,
    intolerant: Mapping[str, Iterable[str]] | None = None,
    **more: Any,
) -> Survey | None:
    """Return what a look at all pods has just found; ``intolerant``: by taint, "node/namespace/pod"."""
    if pool.spec is None:
        return None
    asked = taints_of_spec(pool.spec)
    found = {text: tuple(pods) for text, pods in (intolerant or {}).items()}
    return Survey(
        pool_uid=pool.uid,
        generation=pool.generation,
        started=now,
        nodes={node.name: node.uid for node in nodes},
        intolerant={taint_key(taint): _intolerant(found.get(written(taint), ())) for taint in asked},
        **{"finished": now, **more},
    )


def _intolerant(pods: tuple[str, ...]) -> IntolerantPods:
    return IntolerantPods(
        nodes=frozenset(pod.partition("/")[0] for pod in pods),
        examples=tuple(pod.partition("/")[2] for pod in pods[:3]),
        on_nodes={
            node: OnNode(len(there), there[0].partition("/")[2])
            for node in {pod.partition("/")[0] for pod in pods}
            if (there := [pod for pod in pods if pod.startswith(f"{node}/")])
        },
    )


def a_record(
    uid: str = "uid-of-pool",
    *,
    labels: Mapping[str, Owned] | None = None,
    taints: Mapping[TaintIdentity, Owned] | None = None,
    guard: str = GUARD,
) -> dict[str, str]:
    """Return the annotations of a node with this ownership record."""
    record = Record(pool_uid=uid, labels=labels or {}, taints=taints or {}, guard=guard)
    return {APPLIED_ANNOTATION: render(record)}


def record_on(node: Node) -> Record:
    """Return the record on ``node``, which must be there and readable."""
    record = parse(node.annotations[APPLIED_ANNOTATION])
    assert isinstance(record, Record), record
    return record
