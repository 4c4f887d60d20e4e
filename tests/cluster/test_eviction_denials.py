"""What a real API server says of an eviction that admission denies: it is about the pod."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cluster.evictions import PROBE, evict_nothing
from cluster.pods import Pods
from cluster.workers import a_running_pod, a_writer, user_of
from harness.waiting import eventually
from harness.webhook import Webhook
from harness.world import World
from winpool.kube.errors import Forbidden
from winpool.kube.writer import Writer

Object = dict[str, Any]


@pytest.fixture
async def writer(world: World) -> AsyncIterator[Writer]:
    async with a_writer(world) as found:
        yield found


@pytest.fixture
def pods(world: World) -> Iterator[Pods]:
    mine = Pods(world)
    try:
        yield mine
    finally:
        mine.close()


@contextmanager
def a_policy(world: World, *, reason: str) -> Iterator[None]:
    """Have a policy deny every eviction by the workers of this test, and the probe, with this reason."""
    name, user = f"keep-{world.suffix}", user_of(world)
    kind: Object = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods/eviction"],
    }
    expression = f"object.metadata.name != '{PROBE}' && request.userInfo.username != '{user}'"
    validation = {"expression": expression, "reason": reason, "message": "not on Fridays"}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [validation]}
    policy = {**kind, "kind": "ValidatingAdmissionPolicy", "spec": spec}
    binding = {
        **kind,
        "kind": "ValidatingAdmissionPolicyBinding",
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    for each in (policy, binding):
        world.kubectl("create", "-f", "-", stdin=json.dumps(each))
    try:
        # By its name: that of the test before says the same, and may be in force for a moment still.
        eventually(
            lambda: f"'{name}'" in evict_nothing(world.testbed), what="the policy is in force", every=0.2
        )
        yield
    finally:
        for each in (binding, policy):
            world.kubectl("delete", str(each["kind"]), name)


@pytest.fixture
def denying(world: World) -> Iterator[Webhook]:
    """A webhook that denies each eviction by the workers of this test."""
    webhook = Webhook(
        world.testbed,
        name="keep",
        operation="CREATE",
        resource="pods/eviction",
        admit=lambda _: False,
        probe=lambda: evict_nothing(world.testbed),
        user=user_of(world),
    )
    with webhook:
        yield webhook


async def test_a_webhook_denies_the_pod_whatever_status_it_chooses(
    world: World, writer: Writer, pods: Pods, denying: Webhook
) -> None:
    eviction = await asyncio.to_thread(a_running_pod, world, pods)
    for code in (400, 401, 403, 404, 409, 422, 429, 500, 503):
        denying.denial = {"code": code, "message": "rpc error: the UID in the precondition is another"}
        with pytest.raises(Forbidden, match='admission webhook "keep') as caught:
            await writer.evict(eviction)
        assert (caught.value.status, caught.value.permission) == (code, None)
    assert await asyncio.to_thread(pods.uids) == {eviction.name: eviction.uid}


@pytest.mark.parametrize(
    ("reason", "status"), [("Forbidden", 403), ("Invalid", 422), ("RequestEntityTooLarge", 413)]
)
async def test_a_policy_denies_the_pod_whatever_reason_it_chooses(
    world: World, writer: Writer, pods: Pods, reason: str, status: int
) -> None:
    """These are all that a policy may choose."""
    eviction = await asyncio.to_thread(a_running_pod, world, pods)
    policy = a_policy(world, reason=reason)
    await asyncio.to_thread(policy.__enter__)
    try:
        with pytest.raises(Forbidden, match="ValidatingAdmissionPolicy 'keep-") as caught:
            await writer.evict(eviction)
    finally:
        await asyncio.to_thread(policy.__exit__, None, None, None)
    assert (caught.value.status, caught.value.permission) == (status, None)
    assert await asyncio.to_thread(pods.uids) == {eviction.name: eviction.uid}
