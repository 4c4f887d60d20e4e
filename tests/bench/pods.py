"""Pods on the nodes of a run: many, small, and of no interest to the operator, which is the point."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Iterator
from typing import Any, Final

import aiohttp

from bench.api import USER
from bench.errors import BenchError
from bench.fleet import read_fleet
from bench.ground import Ground

NAMESPACE: Final = "winpool-bench-pods"
IN_FLIGHT: Final = 32
SECONDS: Final = 60.0
"""For one answer: what the API server itself allows for a request."""

_CREATED: Final = 201


def create_pods(ground: Ground, *, count: int) -> float:
    """Create pods that are bound to the nodes in turn; return how many seconds it took."""
    ground.testbed.kubectl("create", "namespace", NAMESPACE)
    ground.testbed.kubectl("wait", "--for=create", "serviceaccount/default", "-n", NAMESPACE, "--timeout=60s")
    names = sorted(read_fleet(ground.api))
    started = time.monotonic()
    asyncio.run(_create_all(ground, names=names, count=count))
    return time.monotonic() - started


async def _create_all(ground: Ground, *, names: list[str], count: int) -> None:
    certificate, key = ground.testbed.front_proxy
    context = ssl.create_default_context(cafile=str(ground.testbed.ca_file))
    context.load_cert_chain(certificate, key)
    headers = {"X-Remote-User": USER, "X-Remote-Group": "system:masters", "Content-Type": "application/json"}
    async with aiohttp.ClientSession(
        ground.testbed.server,
        connector=aiohttp.TCPConnector(ssl=context, limit=IN_FLIGHT),
        headers=headers,
        timeout=aiohttp.ClientTimeout(total=SECONDS),
    ) as session:
        waiting = iter(range(count))
        async with asyncio.TaskGroup() as group:
            for _ in range(IN_FLIGHT):
                group.create_task(_work(session, waiting, names))


async def _work(session: aiohttp.ClientSession, waiting: Iterator[int], names: list[str]) -> None:
    for number in waiting:
        body = json.dumps(pod(number, node=names[number % len(names)]))
        async with session.post(f"/api/v1/namespaces/{NAMESPACE}/pods", data=body) as answer:
            if answer.status != _CREATED:
                raise BenchError(f"pod {number}: {answer.status} {(await answer.text())[:500]}")


def pod(number: int, *, node: str) -> dict[str, Any]:
    """Return a pod that tolerates everything and mounts nothing."""
    return {
        "metadata": {"name": f"pod-{number}", "labels": {"app": "bench"}},
        "spec": {
            "nodeName": node,
            "automountServiceAccountToken": False,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "registry.example/bench:1"}],
        },
    }
