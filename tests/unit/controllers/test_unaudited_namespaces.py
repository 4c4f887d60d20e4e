"""The namespaces of ``--unaudited-namespaces``, on their way from the flag to the issues of a pool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import cast
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from harness.builders import NOON, a_node, a_pool, a_snapshot
from harness.virtual_time import in_virtual_time, running
from unit.pods.test_pod_templates import a_pod_object, pods_of
from unit.test_settings import by_flags
from winpool.api.issues import IssueReason
from winpool.controllers.controller import Controller
from winpool.controllers.pod_pass import Questions
from winpool.decide import decide
from winpool.kube.client import Transport
from winpool.kube.leader_election import LeaderElector
from winpool.kube.pods import ListedPods
from winpool.loops import Clock
from winpool.model.pods import Pod
from winpool.model.survey import KnownPods

PODS = pods_of(
    *(a_pod_object(namespace=name, node="w1", limits=[None]) for name in ("legacy", "kube-system", "shop"))
)


async def _list_pods(*, see: Callable[[Pod], None], with_work: Collection[str]) -> ListedPods:
    for pod in PODS:
        see(pod)
    return ListedPods(len(PODS))


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ((), "Deployment legacy/web, Deployment shop/web."),
        (("--unaudited-namespaces=old,legacy",), "Deployment shop/web."),
        (("--unaudited-namespaces=shop,legacy",), ""),
    ],
)
@in_virtual_time
async def test_issues_about_workloads_leave_out_the_namespaces_of_the_flag(
    flags: tuple[str, ...], named: str
) -> None:
    loop = asyncio.get_running_loop()
    controller = Controller(
        cast(Transport, Mock()),
        by_flags(*flags),
        elector=cast(LeaderElector, Mock()),
        clock=Clock(now=lambda: NOON, monotonic=loop.time),
    )
    pool, node, pod_pass = a_pool(), a_node("w1"), controller.services.pod_pass
    pod_pass.list_pods = _list_pods
    pod_pass.questions = lambda: Questions().of([pool], [node], now=NOON)
    async with running(pod_pass.run()):
        await asyncio.sleep(1)
    survey = pod_pass.survey_of(pool.uid)
    assert survey is not None
    found = decide(replace(a_snapshot(pool, [node]), pods=KnownPods(survey=survey)))
    about = {IssueReason.UNSELECTED_WORKLOADS, IssueReason.MEMORY_LIMITS_MISSING}
    said = {each.reason: each.message for each in found.status.issues if each.reason in about}
    assert said.keys() == (about if named else set())
    assert all(message.endswith(f": {named}") for message in said.values())
