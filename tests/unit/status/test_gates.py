"""What a gate that reads kstatus makes of every world: it must neither pass too early nor wait for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from cluster.kstatus import Status, compute
from harness.builders import a_node, a_snapshot, a_survey, by_name
from harness.writes import settled
from unit.status.test_conditions import (
    HARSH,
    WORLDS,
    held,
    rejected,
    too_large,
    validating,
    without_permission,
)
from winpool.decide import decide
from winpool.model.snapshot import Snapshot

PASSES = {"up to date", "paused", "dry run", "no nodes", "another release", "behind"}
"""A person's turn keeps no gate waiting where the operator itself has nothing to do."""
WORKS = {"rollout", "validating"}
FAILS = {
    "all taken",
    "rejected",
    "refused",
    "without permission",
    "held",
    "validation timed out",
    "too much reserved",
}


def read(snapshot: Snapshot) -> Status:
    """Return what the gate makes of the pool once the status of this look is written."""
    pool = snapshot.pool
    deleted = {"deletionTimestamp": "2026-11-01T12:00:00Z"} if pool.deleting else {}
    metadata: dict[str, Any] = {"name": pool.name, "generation": pool.generation, **deleted}
    return compute({"metadata": metadata, "status": decide(snapshot).status.to_object()})


@pytest.mark.parametrize(
    ("worlds", "expected"),
    [(PASSES, Status.CURRENT), (WORKS, Status.IN_PROGRESS), (FAILS, Status.FAILED)],
    ids=["passes", "works", "fails"],
)
def test_a_gate_passes_waits_or_fails_as_the_pool_is(worlds: set[str], expected: Status) -> None:
    assert {name: read(WORLDS[name]()) for name in worlds} == dict.fromkeys(worlds, expected)


def test_a_pool_that_goes_is_terminating() -> None:
    assert read(WORLDS["releasing"]()) is Status.TERMINATING


def test_a_spec_that_nobody_has_looked_at_yet_is_in_progress() -> None:
    snapshot = WORLDS["up to date"]()
    newer = {"metadata": {"generation": snapshot.pool.generation + 1}}
    assert compute({**newer, "status": decide(snapshot).status.to_object()}) is Status.IN_PROGRESS


@pytest.mark.parametrize("world", [held, rejected, too_large, without_permission])
def test_who_has_to_wait_for_a_person_is_not_told_to_wait_for_us(world: Callable[[], Snapshot]) -> None:
    conditions = {each.type: each.status for each in decide(world()).status.conditions}
    assert (conditions["Reconciling"], conditions["Stalled"]) == ("False", "True")


def test_a_held_node_is_a_failure_also_while_others_are_being_validated() -> None:
    """Where nodes join all the time the failure would never surface."""
    young, stuck = validating(), held()
    assert young.pool.spec is not None
    taint = {"taints": [{"key": "os", "value": "windows", "effect": "NoExecute"}]}
    spec = type(young.pool.spec).model_validate({**young.pool.spec.model_dump(by_alias=True), **taint})
    pool = replace(young.pool, spec=spec)
    nodes = by_name(*young.nodes, a_node("old", taints=["os=mine:NoSchedule"]))
    survey = a_survey(pool, nodes.values(), intolerant={HARSH: ["old/default/web"]})
    pool, nodes = settled(pool, nodes, survey=survey)
    snapshot = a_snapshot(pool, nodes, survey=survey)
    assert decide(snapshot).status.condition("Stalled") is not None
    assert read(snapshot) is Status.FAILED
    assert read(stuck) is Status.FAILED
