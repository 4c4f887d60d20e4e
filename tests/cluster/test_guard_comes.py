"""A record gives the rights it had when it was written: the guard comes, goes, and comes anew (P3)."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Final

import pytest

from cluster.forging import (
    TENANT,
    a_record,
    a_taint,
    as_kubelet,
    await_guarded,
    await_told,
    claims_of_ours,
    forge,
    guard_of,
    is_restricted,
    restrict,
    rewrite,
)
from cluster.guarding import REFUSAL, Guard
from harness.nodes import labels_of, record_of, taints_of
from harness.waiting import eventually, holds
from harness.world import World
from testbed.kubectl import KubectlError
from winpool.api.keys import APPLIED_ANNOTATION, POOL_LABEL

Object = dict[str, Any]

TEAM_TAINT: Final = {**a_taint("example.com/team=blue:NoSchedule"), "timeAdded": "2026-01-02T03:04:05Z"}
"""A taint that gives way to one of the pool, and comes back where the record is to be trusted."""
TIER: Final[Object] = {"labels": {"example.com/tier": "gold"}}
SPEC: Final[Object] = {
    "labels": {"example.com/tier": "gold", TENANT: "ours"},
    "taints": [a_taint("os=windows:NoSchedule")],
}
WITH_TEAM: Final[Object] = {**SPEC, "taints": [*SPEC["taints"], a_taint("example.com/team=red:NoSchedule")]}
NAMES_OF_NO_GUARD: Final[tuple[object, ...]] = (None, "", "*", "true", True, 1, [], {})


def test_a_kubelet_may_not_write_our_keys_while_the_guard_is_there(world: World) -> None:
    (name,) = world.fleet(windows=1)

    def refusal() -> str:
        try:
            as_kubelet(world.testbed, name, "label", "node", name, f"{POOL_LABEL}=any", "--dry-run=server")
        except KubectlError as error:
            return str(error)
        return ""

    # The cluster may be new, and its API server enforces a policy seconds after it is there.
    eventually(lambda: REFUSAL in refusal(), what="the guard enforced")
    for command in (
        ("annotate", "node", name, f"{APPLIED_ANNOTATION}={a_record('any')}"),
        ("label", "node", name, f"{POOL_LABEL}=any"),
    ):
        with pytest.raises(KubectlError, match=REFUSAL):
            as_kubelet(world.testbed, name, *command)
    as_kubelet(world.testbed, name, "annotate", "node", name, "example.com/mine=yes")


def test_records_name_the_guard_and_what_gave_way_comes_back(world: World) -> None:
    names = world.fleet(windows=2)
    team_taint(world, names)
    restrict(world, names)
    before = world.carried()
    pool = world.apply(world.pool(**WITH_TEAM))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    [guard] = {guard_of(node) for node in world.nodes().values()}
    assert guard
    assert labels_of(world.node(names[0]))[TENANT] == "ours"
    world.delete(pool)
    assert world.carried() == before


@pytest.mark.nightly
def test_when_the_guard_comes_each_record_is_written_once_more_and_counts_from_then_on(
    guard: Guard, unguarded: World
) -> None:
    names = unguarded.fleet(windows=4)
    forger = names[0]
    restrict(unguarded, [forger])
    before = unguarded.carried()
    pool = unguarded.apply(unguarded.pool(**TIER))
    unguarded.operator.start()
    unguarded.wait_up_to_date(pool, nodes=4)
    assert {guard_of(node) for node in unguarded.nodes().values()} == {""}
    forge(unguarded, forger, claims_of_ours(unguarded, pool))
    await_told(unguarded, pool, node=forger, key="example.com/dedicated")
    quiet_for(unguarded, seconds=2)
    was = {name: without_record(each) for name, each in unguarded.carried().items()}

    start = unguarded.now()
    guard.install()
    guarded = await_guarded(unguarded)
    quiet_for(unguarded, seconds=2)
    assert Counter(unguarded.patched_nodes(since=start)) == dict.fromkeys(names, 1)
    assert {name: without_record(each) for name, each in unguarded.carried().items()} == was
    record = record_of(unguarded.node(forger))
    assert "example.com/dedicated" not in json.dumps([record["labels"], record["taints"]])
    await_told(unguarded, pool, node=forger, key="example.com/dedicated")

    # From now on what gives way is remembered, on every node and with all that belongs to it.
    team_taint(unguarded, names)
    unguarded.apply(unguarded.pool(**{**WITH_TEAM, **TIER}))
    unguarded.wait_up_to_date(pool, nodes=4)
    assert "example.com/team=red:NoSchedule" in taints_of(unguarded.node(forger))
    assert {guard_of(node) for node in unguarded.nodes().values()} == {guarded}
    unguarded.delete(pool)
    for name, each in unguarded.carried().items():
        assert TEAM_TAINT in each["taints"]
        assert [taint for taint in each["taints"] if taint != TEAM_TAINT] == before[name]["taints"]
        assert without_taints(each) == without_taints(before[name])


@pytest.mark.nightly
def test_records_that_name_no_guard_are_written_once_more_and_nothing_of_the_spec_is_lost(
    world: World,
) -> None:
    """Those of the version before are of this kind."""
    names = world.fleet(windows=3)
    before = world.carried()
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=3)
    world.operator.kill()
    for name, node in world.nodes().items():
        rewrite(world, name, json.dumps({k: v for k, v in record_of(node).items() if k != "guard"}))
    was = {name: without_record(each) for name, each in world.carried().items()}
    start = world.now()
    world.operator.start()
    await_guarded(world)
    quiet_for(world, seconds=2)
    assert Counter(world.patched_nodes(since=start)) == dict.fromkeys(names, 1)
    assert {name: without_record(each) for name, each in world.carried().items()} == was
    world.delete(pool)
    assert world.carried() == before


@pytest.mark.nightly
def test_a_record_with_a_guard_that_never_was_gives_no_right(world: World) -> None:
    names = world.fleet(windows=len(NAMES_OF_NO_GUARD))
    restrict(world, names)
    pool = world.apply(world.pool(**TIER))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=len(names))
    world.operator.kill()
    for name, named in zip(names, NAMES_OF_NO_GUARD, strict=True):
        rewrite(world, name, claims_of_ours(world, pool, guard=named))
    world.operator.start()
    world.apply(world.pool(labels={"example.com/tier": "silver"}))
    eventually(
        lambda: {labels_of(node).get("example.com/tier") for node in world.nodes().values()} == {"silver"},
        what="every record was acted on",
    )
    all_restricted = dict.fromkeys(names, True)
    assert {name: is_restricted(world, name) for name in names} == all_restricted
    world.delete(pool)
    assert {name: is_restricted(world, name) for name in names} == all_restricted


# Helpers


def team_taint(world: World, nodes: list[str]) -> None:
    """Have a cluster admin add a taint that has a time."""
    for name in nodes:
        taints = [*world.node(name)["spec"].get("taints", []), TEAM_TAINT]
        world.kubectl("patch", "node", name, "--type=merge", "-p", json.dumps({"spec": {"taints": taints}}))


def quiet_for(world: World, *, seconds: float) -> None:
    """Give the operator time to write once too often."""
    holds(lambda: world.operator.running, seconds=seconds)


def without_record(carried: Object) -> Object:
    kept = {key: value for key, value in carried["annotations"].items() if key != APPLIED_ANNOTATION}
    return {**carried, "annotations": kept}


def without_taints(carried: Object) -> Object:
    return {key: value for key, value in carried.items() if key != "taints"}
