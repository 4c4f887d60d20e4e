"""What tests of the operator's workers begin with: a way to the API server, and a pod."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cluster.door import a_transport
from cluster.pods import NAMESPACE, Pods
from harness.world import World
from winpool.kube.writer import Writer
from winpool.model.node import Eviction

RULES = (
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["nodes", "nodes/status"], "verbs": ["patch"]},
)
"""All that the workers need."""


def user_of(world: World) -> str:
    """Return the name of the user that the workers of this test are."""
    return f"workers-{world.suffix}"


@asynccontextmanager
async def a_writer(world: World) -> AsyncIterator[Writer]:
    """Open the operator's own way to the API server, as a user who may do what the workers do and no more."""
    name = user_of(world)
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}}
    world.kubectl("create", "-f", "-", stdin=json.dumps({**role, "rules": RULES}))
    world.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", f"--user={name}")
    try:
        async with a_transport(world.testbed.user_kubeconfig(name)) as transport:
            yield Writer(transport)
    finally:
        world.kubectl("delete", "clusterrole,clusterrolebinding", name)


def a_running_pod(world: World, pods: Pods) -> Eviction:
    """Run a pod on a node, and return the eviction of it."""
    (node,) = world.fleet(windows=1)
    name = pods.bind("web", node)
    pods.wait_running(count=1)
    uid = pods.uids()[name]
    return Eviction(namespace=NAMESPACE, name=name, uid=uid, node=node, why="a test")
