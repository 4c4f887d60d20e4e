"""Records that name an unknown pool, with no guard in force: such nodes are neither released nor taken (P3).

A stray is a node that is no Windows node and carries the label of a pool; the pool of an orphan is gone.
"""

from __future__ import annotations

import os
import signal
from typing import Any, Final

import pytest

from cluster.forging import DEDICATED, NOBODY, a_record, a_taint, as_kubelet, await_told, forge, uid_of
from harness.nodes import labels_of, taints_of
from harness.operator import Operator
from harness.waiting import eventually, holds
from harness.world import World
from winpool.api.keys import APPLIED_ANNOTATION, OS_LABEL, POOL_LABEL

Object = dict[str, Any]

CONTROL_PLANE: Final = "node-role.kubernetes.io/control-plane"
CONTROL_PLANE_TAINT: Final = f"{CONTROL_PLANE}=:NoSchedule"
OS_TAINT: Final = "os=windows:NoSchedule"
SPEC: Final[Object] = {"labels": {"example.com/team": "payments"}, "taints": [a_taint(OS_TAINT)]}
CLAIM: Final[Object] = {
    "labels": {CONTROL_PLANE: ("", "gone"), "example.com/owner": ("them", None)},
    "taints": {CONTROL_PLANE_TAINT: None, DEDICATED: None},
}
"""All that ``own_by_others`` puts on, and as if it were ours."""


@pytest.mark.nightly
def test_a_linux_node_with_a_forged_record_is_not_touched(unguarded: World) -> None:
    """Looked for at the start; a genuine stray in the same look loses a label, so there was one."""
    unguarded.fleet(windows=1)
    (odd,) = unguarded.fleet(windows=1)
    (invented,) = unguarded.fleet(linux=1, windows=0)
    (borrowed,) = unguarded.fleet(linux=1, windows=0)
    own_by_others(unguarded, invented, borrowed)
    pool = unguarded.apply(unguarded.pool(**SPEC))
    unguarded.operator.start()
    unguarded.wait_up_to_date(pool, nodes=2)
    unguarded.operator.kill()
    forge(unguarded, invented, a_record(NOBODY, **CLAIM), pool=pool)
    forge(unguarded, borrowed, a_record(uid_of(unguarded, pool), **CLAIM), pool=pool)
    unguarded.kill_kubelets(odd)  # it would make a Windows node of it again
    unguarded.kubectl("label", "node", odd, f"{OS_LABEL}=linux", "--overwrite")
    before = unguarded.carried()

    start = unguarded.now()
    unguarded.operator.start()
    eventually(
        lambda: "example.com/team" not in labels_of(unguarded.node(odd)), what="the genuine stray written"
    )
    holds(lambda: unguarded.operator.running, seconds=2)
    after = unguarded.carried()
    assert after[invented] == before[invented]
    assert [each.uri for each in unguarded.node_patches(since=start) if each.name == invented] == []
    assert after[borrowed] == before[borrowed]
    assert OS_TAINT in taints_of(unguarded.node(odd)), "its kubelet may not remove it"
    # The pool is known, so its own keys come off with it; what it never set does not.
    unguarded.delete(pool)
    eventually(lambda: OS_TAINT not in taints_of(unguarded.node(odd)), what="the genuine stray released")
    eventually(lambda: POOL_LABEL not in labels_of(unguarded.node(borrowed)), what="the other one swept")
    after = unguarded.carried()
    assert after[invented] == before[invented]
    assert without_ours(after[borrowed]) == without_ours(before[borrowed])


def test_a_kubelet_that_calls_its_node_a_linux_node_is_not_rid_of_its_taints(world: World) -> None:
    """With the guard in force: it lets a kubelet write the label of the system, as NodeRestriction does."""
    hostile, honest = world.fleet(windows=2)
    role = "node-role.kubernetes.io/windows"
    pool = world.apply(
        world.pool(labels={"example.com/team": "payments", role: ""}, taints=[a_taint(OS_TAINT)])
    )
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    as_kubelet(world.testbed, hostile, "label", "node", hostile, f"{OS_LABEL}=linux", "--overwrite")
    for key in (role, POOL_LABEL, APPLIED_ANNOTATION):
        await_told(world, pool, node=hostile, key=key)
    command = await_told(world, pool, node=hostile, key="os:NoSchedule")
    assert command[:3] == ["taint", "node", hostile]
    labels = labels_of(world.node(hostile))
    assert (labels[role], labels[POOL_LABEL]) == ("", pool)
    assert OS_TAINT in taints_of(world.node(hostile))
    assert OS_TAINT in taints_of(world.node(honest))
    world.delete(pool)
    eventually(lambda: POOL_LABEL not in labels_of(world.node(hostile)), what="the node released")
    assert role not in labels_of(world.node(hostile))
    assert taints_of(world.node(hostile)) == set()


@pytest.mark.nightly
def test_a_windows_node_with_an_invented_owner_is_left_alone_and_told_and_joins_on_the_command(
    unguarded: World,
) -> None:
    forger, honest = unguarded.fleet(windows=2)
    own_by_others(unguarded, forger)
    forge(unguarded, forger, a_record(NOBODY, **CLAIM))
    before = unguarded.carried()
    pool = unguarded.apply(unguarded.pool(**SPEC))
    start = unguarded.now()
    unguarded.operator = impatient(unguarded)
    unguarded.operator.start()
    eventually(lambda: labels_of(unguarded.node(honest)).get(POOL_LABEL) == pool, what="the other one taken")
    await_pool_lists(unguarded)
    assert unguarded.carried()[forger] == before[forger]
    assert {each.name for each in unguarded.node_patches(since=start)} == {honest}
    unguarded.operator.kill()
    unguarded.operator.start()
    await_pool_lists(unguarded)
    assert unguarded.carried()[forger] == before[forger], "a restart makes nothing known"

    unguarded.kubectl(*await_told(unguarded, pool, node=forger, key=APPLIED_ANNOTATION))
    unguarded.wait_up_to_date(pool, nodes=2)
    assert labels_of(unguarded.node(forger))["example.com/team"] == "payments"
    assert carries_what_others_own(unguarded, forger)
    unguarded.delete(pool)
    after = unguarded.carried()[forger]
    assert without_ours(after) == without_ours(before[forger])


@pytest.mark.nightly
def test_a_node_outside_every_pool_with_an_invented_owner_is_not_swept(unguarded: World) -> None:
    (name,) = unguarded.fleet(windows=1)
    own_by_others(unguarded, name)
    forge(unguarded, name, a_record(NOBODY, **CLAIM), pool="vanished")
    before = unguarded.carried()
    start = unguarded.now()
    unguarded.operator = impatient(unguarded)
    unguarded.operator.start()
    await_pool_lists(unguarded)
    assert unguarded.carried() == before
    assert unguarded.node_patches(since=start) == []


@pytest.mark.nightly
def test_what_a_pool_that_was_seen_here_left_behind_is_swept_and_no_more(unguarded: World) -> None:
    """The process that knew the pool sees it go without having released anything."""
    forger, honest = unguarded.fleet(windows=2)
    own_by_others(unguarded, forger)
    before = unguarded.carried()
    pool = unguarded.apply(unguarded.pool(**SPEC))
    unguarded.operator = impatient(unguarded)
    unguarded.operator.start()
    unguarded.wait_up_to_date(pool, nodes=2)
    claim: Object = {
        "labels": {**CLAIM["labels"], "example.com/team": ("payments", None)},
        "taints": {**CLAIM["taints"], OS_TAINT: None},
    }
    forge(unguarded, forger, a_record(uid_of(unguarded, pool), **claim))
    vanish_under(unguarded, pool)
    eventually(lambda: unguarded.carried()[honest] == before[honest], what="the honest node swept")
    eventually(lambda: POOL_LABEL not in labels_of(unguarded.node(forger)), what="the other one swept")
    assert without_ours(unguarded.carried()[forger]) == without_ours(before[forger])


@pytest.mark.nightly
def test_what_a_pool_never_seen_here_left_behind_waits_for_a_person_who_is_told(unguarded: World) -> None:
    """Genuine as it is, nothing tells it from a forged one."""
    (name,) = unguarded.fleet(windows=1)
    first = unguarded.apply(unguarded.pool("first", **SPEC))
    unguarded.operator.start()
    unguarded.wait_up_to_date(first, nodes=1)
    unguarded.operator.kill()
    let_go_by_force(unguarded, first)
    before = unguarded.carried()
    second = unguarded.apply(unguarded.pool("second", labels={"example.com/tier": "web"}))
    unguarded.operator = impatient(unguarded)
    unguarded.operator.start()
    command = await_told(unguarded, second, node=name, key=APPLIED_ANNOTATION)
    await_pool_lists(unguarded)
    assert unguarded.carried() == before
    unguarded.kubectl(*command)
    unguarded.wait_up_to_date(second, nodes=1)
    labels = labels_of(unguarded.node(name))
    assert (labels[POOL_LABEL], labels["example.com/tier"]) == (second, "web")
    assert labels["example.com/team"] == "payments", "whose it is nobody knows any more"


# Helpers


def own_by_others(world: World, *nodes: str) -> None:
    """Have a cluster admin put things on nodes."""
    world.kubectl("label", "node", *nodes, f"{CONTROL_PLANE}=", "example.com/owner=them")
    world.kubectl("taint", "node", *nodes, f"{CONTROL_PLANE}:NoSchedule", DEDICATED)


def carries_what_others_own(world: World, node: str) -> bool:
    found = world.node(node)
    labelled = {CONTROL_PLANE: "", "example.com/owner": "them"}.items() <= labels_of(found).items()
    return labelled and {CONTROL_PLANE_TAINT, DEDICATED} <= taints_of(found)


def without_ours(carried: Object) -> Object:
    """Return what a node carries but the label and the record of a pool."""
    labels = {key: value for key, value in carried["labels"].items() if key != POOL_LABEL}
    annotations = {key: value for key, value in carried["annotations"].items() if key != APPLIED_ANNOTATION}
    return {**carried, "labels": labels, "annotations": annotations}


def vanish_under(world: World, pool: str) -> None:
    """Have a pool vanish while the operator's process stands still, so that it releases nothing in time."""
    os.kill(world.operator.pid, signal.SIGSTOP)
    try:
        let_go_by_force(world, pool)
    finally:
        os.kill(world.operator.pid, signal.SIGCONT)


def impatient(world: World) -> Operator:
    """An operator that knows within seconds that a pool has vanished."""
    return Operator(
        kubeconfig=world.testbed.kubeconfig("winpool"),
        log_file=world.operator.log_file,
        environment={"WINPOOL_POOL_RELIST_SECONDS": "1", "WINPOOL_ORPHAN_GRACE_SECONDS": "1"},
    )


def await_pool_lists(world: World, *, count: int = 5) -> None:
    """Return when the operator has listed all pools so often from now on: what has vanished is known then."""
    since = world.now()

    def listed() -> int:
        asked = world.requests(since=since)
        return sum((each.verb, each.resource) == ("list", "windowsnodepools") for each in asked)

    eventually(lambda: listed() >= count, what=f"{count} lists of pools", every=0.5)


def let_go_by_force(world: World, pool: str) -> None:
    """Delete a pool and take its finalizer off by hand, as people in a hurry do, while no operator acts."""
    world.delete(pool, wait=False)
    world.kubectl("patch", "wnp", pool, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    eventually(lambda: pool not in world.pools(), what="the pool is gone")
