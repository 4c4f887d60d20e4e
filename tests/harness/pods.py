"""Pods and questions about them for tests of the pure features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from harness.builders import taints_of
from winpool.model.pods import DAEMON_SET, Pod, PodShape, PodWork, Requests, Toleration
from winpool.model.survey import PoolQuestion, RequiredPods

EVERYTHING = (Toleration(operator="Exists"),)
"""Tolerates every taint."""


def a_pod(full_name: str = "shop/web-1", *, node: str = "w1", **changes: Any) -> Pod:
    """Return a running pod of a ReplicaSet that tolerates nothing."""
    namespace, _, name = full_name.partition("/")
    usual: dict[str, Any] = {"controller_kind": "ReplicaSet", "controller": "web", "is_ready": True}
    return Pod(namespace=namespace, name=name, node=node, **{**usual, **changes})


def an_agent(full_name: str = "kube-system/cni-1", *, node: str = "w1", **changes: Any) -> Pod:
    """Return a critical pod of the DaemonSet ``cni``, which is Ready and tolerates nothing."""
    mine: dict[str, Any] = {"controller_kind": DAEMON_SET, "controller": "cni", "is_critical": True}
    return a_pod(full_name, node=node, **{**mine, **changes})


def a_question(
    *taints: str,
    nodes: Iterable[str] = ("w1", "w2"),
    joining: Iterable[str] = (),
    required: Mapping[str, str] | None = None,
    **changes: Any,
) -> PoolQuestion:
    """Return the question of a pool; ``required`` maps namespaces to the app that has to be Ready there."""
    usual: dict[str, Any] = {
        "pool_uid": "uid-of-win",
        "generation": 7,
        "nodes": {name: f"uid-of-{name}" for name in nodes},
        "taints": taints_of(*taints),
        "joining": frozenset(joining),
        "required_pods": tuple(a_requirement(*each) for each in (required or {}).items()),
    }
    return PoolQuestion(**{**usual, **changes})


def a_requirement(namespace: str, app: str) -> RequiredPods:
    """Return the requirement of a Ready pod of ``app`` in that namespace."""
    return RequiredPods(namespace, lambda labels: labels.get("app") == app, f"{app} in {namespace}")


def some_work(
    cpu_milli: int = 250, memory: int = 2**30, *, shape: PodShape | None = None, **changes: Any
) -> PodWork:
    """Return what is read of a pod that requests that much, and whatever ``shape`` says beside it."""
    requests = Requests(cpu_milli, memory, pods=1)
    return PodWork(PodShape(requests) if shape is None else replace(shape, requests=requests), **changes)
