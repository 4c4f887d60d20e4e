"""Answers of kubelets on Windows, after what real ones send."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

GIB = 2**30
MIB = 2**20
TIME = "2026-11-23T06:00:00Z"
AT = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)


def a_memory(**changes: Any) -> dict[str, Any]:
    """Return ``node.memory`` of a machine of 16 GiB that has committed more than that."""
    memory = {
        "time": TIME,
        "availableBytes": 12 * GIB,
        "usageBytes": 17 * GIB,
        "workingSetBytes": 4 * GIB,
        "rssBytes": 0,
        "pageFaults": 0,
        "majorPageFaults": 0,
    }
    return memory | changes


def a_commit_container(**changes: Any) -> dict[str, Any]:
    """Return the system container that kubelets from 1.31 on send: no working set, no CPU."""
    memory = {"time": TIME, "availableBytes": 7 * GIB, "usageBytes": 17 * GIB} | changes
    return {"name": "windows-global-commit-memory", "startTime": None, "memory": memory}


def a_pod(uid: str = "u1", **changes: Any) -> dict[str, Any]:
    """Return an ordinary pod: a working set, and zeros that mean missing."""
    memory = {"time": TIME, "availableBytes": 0, "usageBytes": 0, "workingSetBytes": GIB, "rssBytes": 0}
    return {
        "podRef": {"name": f"pod-{uid}", "namespace": "shop", "uid": uid},
        "startTime": TIME,
        "containers": [{"name": "web", "memory": memory, "logs": {"usedBytes": 0}}],
        "memory": memory | changes,
    }


def a_summary(node: str = "w1", **parts: Any) -> bytes:
    """Return ``/stats/summary`` of a node; ``parts`` replace those of ``node``, and ``pods`` the pods."""
    pods = parts.pop("pods", [a_pod()])
    of_node = {
        "nodeName": node,
        "systemContainers": [
            {"name": "pods", "startTime": TIME, "cpu": {"time": TIME}, "memory": a_memory()},
            a_commit_container(),
        ],
        "startTime": TIME,
        "cpu": {"time": TIME, "usageNanoCores": 5, "usageCoreNanoSeconds": 6},
        "memory": a_memory(),
        "fs": {"time": TIME, "availableBytes": 1},
    }
    return json.dumps({"node": of_node | parts, "pods": pods}).encode()
