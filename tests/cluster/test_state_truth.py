"""STATE is the worst that is true: every state on a real control plane, and what a gate makes of it.

Issue 15, §1: "STATE is the worst that is true, in this order, printed in the reference".
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from cluster.forging import NOBODY, a_record
from cluster.kstatus import Status, compute
from cluster.pods import NAMESPACE, OFTEN, await_passes, pods_in, tainted
from cluster.told import expect, facts
from cluster.truth import (
    CONTROL_PLANE,
    LABELS,
    OF_MEMORY,
    OF_ROLLOUTS,
    OS_UNSUPPORTED,
    STATES,
    WIDTH,
    a_machine,
    annotate,
    columns,
    denying,
    expect_state,
    read,
    ready_status,
)
from gen.condition_table import rows_of
from harness.faulty import through_proxy
from harness.operator import USER
from harness.waiting import eventually
from harness.world import World
from testbed.faults import answer, on
from winpool.api.conditions import ConditionType

Object = dict[str, Any]
Scene = Callable[[World], AbstractContextManager[str]]

ROOT: Final = Path(__file__).parents[2]
STARTUP: Final[Object] = {
    "key": "startup-taint.cluster-autoscaler.kubernetes.io/agents",
    "effect": "NoSchedule",
}
NO_EXECUTE: Final[Object] = {"key": "os", "value": "windows", "effect": "NoExecute"}
NEVER_THERE: Final[Object] = {
    "namespace": NAMESPACE,
    "podSelector": {"matchLabels": {"example.com/no": "pod"}},
}
TOO_MUCH: Final[Object] = {"systemReserved": "3Gi", "onMismatch": "Taint"}
"""Memory that no simulated kubelet reserves, of which a node has enough."""
NO_SUCH_ROW: Final[Object] = {"supportMatrix": [{"osVersion": "1809", "verdict": "Allow"}]}
"""The CRD takes it and the operator does not: nodes of 1809 are judged as 2019."""
BY_RBAC: Final = (
    f'nodes "w" is forbidden: User "{USER}" cannot patch resource "nodes" in API group "" '
    "at the cluster scope"
)
PODS: Final = on("list", "pods")
GATES: Final = {
    "Deleting": Status.TERMINATING,
    "SpecRejected": Status.FAILED,
    "MissingPermission": Status.FAILED,
    "PoolOverlap": Status.FAILED,
    "OwnerUnknown": Status.IN_PROGRESS,
    "TooFewAvailable": Status.IN_PROGRESS,
    "WriteRefused": Status.FAILED,
    "TaintsHeld": Status.FAILED,
    "ValidationTimedOut": Status.FAILED,
    "PodListFailing": Status.IN_PROGRESS,
    "RolloutInProgress": Status.IN_PROGRESS,
    "ValidatingNodes": Status.IN_PROGRESS,
}
"""What a gate makes of a state. Of the others it is Current: a person's turn fails no rollout."""


def a_pool(world: World, **spec: Any) -> str:
    """Apply a pool, start the operator, and return the name of the pool."""
    pool = world.apply(world.pool(**{"labels": LABELS, **spec}))
    world.operator.start()
    return pool


# One scene for each state. Each yields the pool while the state lasts.


@contextmanager
def deleting(world: World) -> Iterator[str]:
    world.fleet(windows=2)
    with through_proxy(world) as proxy:
        pool = a_pool(world)
        world.wait_up_to_date(pool, nodes=2)
        with proxy.add(on("patch", "nodes"), answer(503)):
            world.delete(pool, wait=False)
            yield pool


@contextmanager
def spec_rejected(world: World) -> Iterator[str]:
    world.fleet(windows=1)
    yield a_pool(world, **NO_SUCH_ROW)


@contextmanager
def missing_permission(world: World) -> Iterator[str]:
    world.fleet(windows=1)
    with through_proxy(world) as proxy, proxy.add(on("patch", "nodes"), answer(403, message=BY_RBAC)):
        yield a_pool(world)


@contextmanager
def pool_overlap(world: World) -> Iterator[str]:
    world.fleet(windows=2)
    older = a_pool(world)
    world.wait_up_to_date(older, nodes=2)
    yield world.apply(world.pool("younger", labels={"example.com/tier": "web"}))


@contextmanager
def owner_unknown(world: World) -> Iterator[str]:
    for name in world.fleet(windows=2):
        annotate(world, name, a_record(NOBODY))
    yield a_pool(world)


@contextmanager
def too_few_nodes_ready(world: World) -> Iterator[str]:
    names = world.fleet(windows=3)
    pool = a_pool(world)
    world.wait_up_to_date(pool, nodes=3)
    world.kubectl("cordon", *names[:2])
    yield pool


@contextmanager
def write_refused(world: World) -> Iterator[str]:
    names = world.fleet(windows=2)
    with denying(world, names[:1], why="on Fridays"):
        yield a_pool(world)


def in_mode(mode: str) -> Scene:
    @contextmanager
    def scene(world: World) -> Iterator[str]:
        world.fleet(windows=1)
        yield a_pool(world, mode=mode)

    return scene


@contextmanager
def taints_held(world: World) -> Iterator[str]:
    [name] = world.fleet(windows=1)
    with pods_in(world) as pods:
        pods.bind("web", name)
        pods.wait_running(count=1)
        yield a_pool(world, taints=[NO_EXECUTE])


def validating(*, seconds: int) -> Scene:
    @contextmanager
    def scene(world: World) -> Iterator[str]:
        rules = {"readySeconds": 0, "timeoutSeconds": seconds, "requiredPods": [NEVER_THERE]}
        with pods_in(world):
            pool = a_pool(world, startupTaints=[STARTUP], validation=rules)
            # Only now: a node that is older than the timeout when the operator sees it has not just joined.
            world.fleet(windows=1)
            yield pool

    return scene


@contextmanager
def pod_list_failing(world: World) -> Iterator[str]:
    world.fleet(windows=1)
    with through_proxy(world, environment=OFTEN) as proxy, proxy.add(PODS, answer(500)):
        yield a_pool(world, taints=[NO_EXECUTE])


@contextmanager
def rollout_in_progress(world: World) -> Iterator[str]:
    world.fleet(windows=1)
    with through_proxy(world) as proxy, proxy.add(on("patch", "nodes"), answer(503)):
        yield a_pool(world)


def over(nodes: Sequence[str] = ("2022@", "2022@"), **spec: Any) -> Scene:
    """Return the scene of a pool over copies of these real nodes; ``NAME@`` has the newest kubelet."""

    @contextmanager
    def scene(world: World) -> Iterator[str]:
        if nodes:
            world.fleet(samples=[f"{each}{CONTROL_PLANE}" if each.endswith("@") else each for each in nodes])
        yield a_pool(world, **spec)

    return scene


@contextmanager
def nodes_held(world: World) -> Iterator[str]:
    [name] = world.fleet(windows=1)
    world.kubectl("annotate", "node", name, "winpool.dev/hold=")
    yield a_pool(world, labels=LABELS)


@contextmanager
def runtime_too_old(world: World) -> Iterator[str]:
    a_machine(world, f"old-{world.suffix}", runtime="containerd://1.5.7")
    yield a_pool(world)


@contextmanager
def pods_unreadable(world: World) -> Iterator[str]:
    [name] = world.fleet(windows=1)
    # No API server stores such a pod; one of a later version may send what this operator cannot read.
    odd = {"metadata": {"namespace": NAMESPACE, "name": "odd"}, "spec": {"nodeName": name, "tolerations": 5}}
    body = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [odd]}
    listed = answer(200, body=json.dumps(body).encode())
    with through_proxy(world, environment=OFTEN) as proxy, proxy.add(PODS, listed):
        yield a_pool(world)


OLD: Final = [{"osVersion": "2022", "endOfSupport": "2022-01-01"}]
DENIED: Final = [{"osVersion": "2022", "kubernetesVersions": {"max": "1.22"}}]
SCENES: Final[dict[str, Scene]] = {
    "Deleting": deleting,
    "SpecRejected": spec_rejected,
    "MissingPermission": missing_permission,
    "PoolOverlap": pool_overlap,
    "OwnerUnknown": owner_unknown,
    "TooFewAvailable": too_few_nodes_ready,
    "WriteRefused": write_refused,
    "Paused": in_mode("Paused"),
    "DryRun": in_mode("DryRun"),
    "TaintsHeld": taints_held,
    "ValidationTimedOut": validating(seconds=10),
    "PodListFailing": pod_list_failing,
    "RolloutInProgress": rollout_in_progress,
    "ValidatingNodes": validating(seconds=3600),
    "NodesHeld": nodes_held,
    "BuildUnsupported": over(supportMatrix=DENIED),
    "SupportEnded": over(supportMatrix=OLD),
    "RevisionBelowFloor": over(os={"version": "2022", "minRevision": 4000}),
    "VersionSkew": over(["2022"]),
    "RuntimeTooOld": runtime_too_old,
    "PodsUnreadable": pods_unreadable,
    "MemoryMismatch": over(reservedMemory=TOO_MUCH),
    "UpgradeDue": over(os={"version": "2025"}),
    "BuildUnknown": over(["2022@", "garbage"]),
    "NoNodesSelected": over([]),
    "UpToDate": over(),
}


def test_there_is_a_scene_for_every_state() -> None:
    assert tuple(SCENES) == tuple(each for each in STATES if each not in (*OF_MEMORY, *OF_ROLLOUTS))
    assert [name for name in STATES if len(name) > 19] == [], "the column STATE has room for 19 characters"


@pytest.mark.parametrize("wanted", SCENES)
def test_every_state_is_the_reason_of_ready_and_a_gate_goes_by_it(world: World, wanted: str) -> None:
    """To be shown: "kstatus' rules for each STATE"; Ready stays True from Paused on."""
    with SCENES[wanted](world) as pool:
        expect_state(world, pool, wanted)
        eventually(
            lambda: read(world, pool) is GATES.get(wanted, Status.CURRENT),
            what=f"kstatus: {GATES.get(wanted, Status.CURRENT)}",
        )
        assert columns(world, pool)["STATE"] == wanted

        def shown() -> dict[str, str]:
            # What pods are like is known later than the state: an issue may come between the two reads.
            wide, status = columns(world, pool, "-o", "wide"), world.status(pool)
            told = (facts(status)["OSSupported"][0], str(status["issueCount"]))
            assert (wide["SUPPORTED"], wide["ISSUES"]) == told
            return wide

        wide = eventually(shown, what="the columns as the status")
        lines = world.kubectl("get", "wnp", pool).splitlines()
        assert [line for line in lines if len(line) > WIDTH] == []
        if wanted in OS_UNSUPPORTED:
            assert wide["SUPPORTED"] == "False"


# Two at once: the worse one shows


@pytest.mark.nightly
def test_a_worse_trouble_hides_a_milder_one_which_shows_again_when_it_is_over(world: World) -> None:
    """§1: "STATE is the worst that is true, in this order": up one step after the other, and down again."""
    current, behind = world.fleet(windows=2)  # 10.0.20348.4052 and .1607
    with pods_in(world) as pods:
        pods.bind("web", behind)
        pods.wait_running(count=1)
        spec: Object = {"labels": LABELS, "os": {"version": "2022"}}
        steps: list[tuple[str, Object]] = [
            ("UpToDate", {}),
            ("UpgradeDue", {"os": {"version": "2022", "targetRevision": 4052}}),
            ("MemoryMismatch", {"reservedMemory": TOO_MUCH}),
            ("RevisionBelowFloor", {"os": {"version": "2022", "targetRevision": 4052, "minRevision": 2000}}),
            ("TaintsHeld", {"taints": [NO_EXECUTE]}),
            ("Paused", {"mode": "Paused"}),
        ]
        grown = [spec := {**spec, **more} for _, more in steps]
        pool = world.apply(world.pool(**grown[0]))
        world.operator.start()
        for (wanted, _), asked in zip(steps, grown, strict=True):
            world.apply(world.pool(**asked))
            expect_state(world, pool, wanted)
        world.kubectl("cordon", current, behind)
        expect_state(world, pool, "TooFewAvailable")
        world.apply(world.pool(**{**grown[-1], **NO_SUCH_ROW}))
        expect_state(world, pool, "SpecRejected")

        world.apply(world.pool(**grown[-1]))
        expect_state(world, pool, "TooFewAvailable")
        world.kubectl("uncordon", current, behind)
        for (wanted, _), asked in reversed(list(zip(steps, grown, strict=True))):
            world.apply(world.pool(**asked))
            expect_state(world, pool, wanted)
        assert read(world, pool) is Status.CURRENT


@pytest.mark.nightly
def test_of_nodes_that_are_refused_held_validated_and_behind_the_worst_shows(world: World) -> None:
    """The same for what happens to nodes: WriteRefused, TaintsHeld, ValidatingNodes, UpgradeDue."""
    refused, held = world.fleet(windows=2)
    with pods_in(world) as pods, ExitStack() as policy:
        web = pods.bind("web", held)
        pods.bind("web-too", refused)
        pods.wait_running(count=2)
        spec: Object = {
            "labels": LABELS,
            "os": {"version": "2025"},
            "taints": [NO_EXECUTE],
            "startupTaints": [STARTUP],
            "validation": {"readySeconds": 0, "timeoutSeconds": 3600, "requiredPods": [NEVER_THERE]},
        }
        policy.enter_context(denying(world, [refused], why="on Fridays"))
        # That a node has pods counts where it is known: so they are looked at before anything is written.
        world.apply(world.pool(mode="DryRun", **spec))
        world.operator.start()
        await_passes(world)
        pool = world.apply(world.pool(**spec))
        expect_state(world, pool, "WriteRefused")
        policy.close()
        expect_state(world, pool, "TaintsHeld")
        [joined] = world.fleet(windows=1)
        key = f"{STARTUP['key']}=:NoSchedule"
        eventually(lambda: tainted(world, key) == {joined}, what="the startup taint on the new node")
        assert expect_state(world, pool, "TaintsHeld")
        pods.delete(web, f"web-too-{world.suffix}")
        expect_state(world, pool, "ValidatingNodes")
        world.kubectl("taint", "node", joined, f"{STARTUP['key']}:NoSchedule-")
        expect_state(world, pool, "UpgradeDue")


def test_a_pool_that_owns_nothing_says_so_also_where_it_is_paused_or_tried_out(world: World) -> None:
    """PoolOverlap stands before Paused / DryRun, and Deleting before all."""
    world.fleet(windows=2)
    older = a_pool(world)
    world.wait_up_to_date(older, nodes=2)
    for mode in ("Paused", "DryRun", "Active"):
        younger = world.apply(world.pool("younger", mode=mode))
        expect_state(world, younger, "PoolOverlap")


@pytest.mark.nightly
def test_a_pool_under_deletion_says_nothing_else(world: World) -> None:
    """Deleting stands before WriteRefused and TooFewAvailable."""
    names = world.fleet(windows=2)
    pool = a_pool(world)
    world.wait_up_to_date(pool, nodes=2)
    with denying(world, names, why="on Fridays"):
        world.kubectl("cordon", *names)
        expect_state(world, pool, "TooFewAvailable")
        world.delete(pool, wait=False)
        expect_state(world, pool, "Deleting")
        expect(world, pool, Stalled=("True", "WriteRefused"))
        assert read(world, pool) is Status.TERMINATING
    eventually(lambda: pool not in world.pools(), what="the pool is gone")


def test_a_state_never_passes_for_better_than_it_is_on_the_way(world: World) -> None:
    """No status that was ever stored says UpToDate over nodes that were behind at that moment."""
    world.fleet(windows=2)
    pool = world.apply(world.pool(labels=LABELS, os={"version": "2025"}))
    with world.watch_pool(pool) as witness:
        world.operator.start()
        expect_state(world, pool, "UpgradeDue")
        world.operator.kill()
        world.operator.start()
        world.apply(world.pool(labels=LABELS, os={"version": "2022", "targetRevision": 4052}))
        expect_state(world, pool, "UpgradeDue")
        witness.catch_up([world.get("wnp", pool)])
    seen = [facts(each.get("status", {})).get("Ready", ("", ""))[1] for each in witness.states[pool]]
    assert "UpgradeDue" in seen
    assert "UpToDate" not in seen
    gates = {compute(each) for each in witness.states[pool] if each.get("status", {}).get("conditions")}
    assert Status.FAILED not in gates, "a person's turn is no failure"


# Where it is written down


def test_the_reference_prints_the_states_in_their_order() -> None:
    """§1: "in this order, printed in the reference"."""
    text = (ROOT / "docs" / "reference" / "api.md").read_text()
    printed = [each for each in STATES if each not in OS_UNSUPPORTED]
    reach = "".join(rf".{{0,400}}?\b{re.escape(each)}\b" for each in printed)
    found = re.search(reach.removeprefix(".{0,400}?"), text, re.DOTALL)
    assert found, f"no list of {' > '.join(printed)}"


def test_the_states_are_those_that_the_table_of_conditions_has_for_ready() -> None:
    """To be shown: "Alerts, runbooks and reference use the same names"."""
    listed = {str(reason): status for status, reason, _ in rows_of(ConditionType.READY)}
    assert set(listed) == set(STATES)
    assert {name: ready_status(name) for name in STATES} == listed


def test_pages_about_gitops_say_that_a_person_s_turn_stays_green() -> None:
    """§1: "GitOps stays green while a person's turn lasts, and the docs say so"."""
    pages = [each.read_text() for each in (ROOT / "docs").rglob("*.md")]
    assert [
        text
        for text in pages
        if "UpgradeDue" in text and "WaitingForActor" in text and re.search(r"Argo|Flux|GitOps|kstatus", text)
    ]


def test_the_docs_name_every_state() -> None:
    """To be shown: "Alerts, runbooks and reference use the same names"."""
    pages = "\n".join(each.read_text() for each in (ROOT / "docs").rglob("*.md"))
    for name in itertools.chain(STATES, ("WaitingForActor", "OSVersionMismatch", "OSRevisionBehind")):
        assert name in pages, name
