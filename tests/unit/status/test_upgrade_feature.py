"""What people read of what the feature itself has found: whole sentences, the same ones for hours."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest
from msgspec.structs import replace

from harness.builders import MINUTE, NOON, by_name, with_status
from harness.sentences import faults_of, faults_of_texts
from harness.upgrade_feature import HOUR, settled_nodes, upgrade_pool, upgrade_snapshot
from harness.writes import patched, settled
from winpool.api.keys import HOLD_ANNOTATION
from winpool.decide import Decision, decide
from winpool.features.upgrade.gates.table import POOL_GATES
from winpool.model.node import Node
from winpool.model.pods import Block, BlockedBy, Workload
from winpool.model.pool import Pool
from winpool.model.snapshot import Snapshot
from winpool.status.upgrade import OF_GATES

WINDOW: Final = {"schedule": "0 22 * * 6", "durationSeconds": 14400, "timeZone": "Europe/Berlin"}
BLOCKED: Final = Workload(
    moving=(),
    blocks=(Block("shop/web-1", BlockedBy.NONE_ALLOWED, ("web",)),),
    blocked=1,
)

WORLDS: Final[dict[str, dict[str, Any]]] = {
    "open": {},
    "no window": {"upgrade": {"maintenanceWindows": [WINDOW]}},
    "no budget": {"upgrade": {"maxUnavailable": 0}},
    "overridden": {
        "upgrade": {
            "maintenanceWindows": [WINDOW],
            "overrides": [
                {"gate": "MaintenanceWindow", "until": "2026-12-01T00:00:00Z", "reason": "incident 4711"},
                {"gate": "Images", "until": "2026-10-01T00:00:00Z", "reason": "incident 4700"},
            ],
        }
    },
    "another release": {"os": {"version": "2025"}},
    "an old release": {"os": {"version": "2019", "targetRevision": 1}},
    "blocked pods": {"workloads": {"w1": BLOCKED, "w2": BLOCKED, "w3": BLOCKED}},
    "pods not known": {"looked": None},
    "control plane not known": {"settled": None},
    "paused": {"mode": "Paused", "upgrade": {"maintenanceWindows": [WINDOW]}},
    "dry run": {"mode": "DryRun"},
}


def world(name: str, *, now: Any = NOON) -> Snapshot:
    """Return one of ``WORLDS`` as a pass sees it whose labels have been written."""
    more = {**WORLDS[name]}
    of_pool = {key: more.pop(key) for key in ("upgrade", "os", "mode") if key in more}
    pool, nodes = settled(upgrade_pool(**of_pool), by_name(*settled_nodes()))
    return seen(replace(pool, status=type(pool.status)()), list(nodes.values()), now=now, **more)


def seen(pool: Pool, nodes: list[Node], **more: Any) -> Snapshot:
    return upgrade_snapshot(pool, nodes, **more)


def reason_of(decision: Decision) -> str:
    found = decision.status.condition("UpgradeAllowed")
    assert found
    return found.reason


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("open", "UpgradeAllowed"),
        ("no window", "MaintenanceWindow"),
        ("no budget", "Budget"),
        ("overridden", "UpgradeAllowed"),
        ("another release", "NodesGated"),
        ("blocked pods", "NodesGated"),
        ("control plane not known", "ControlPlane"),
        ("paused", "PausedBySpec"),
        ("dry run", "DryRun"),
    ],
)
def test_the_reason_is_what_the_room_has_found(name: str, reason: str) -> None:
    assert reason_of(decide(world(name))) == reason


@pytest.mark.parametrize("name", WORLDS)
def test_it_is_told_in_sentences(name: str) -> None:
    decision = decide(world(name))
    assert list(faults_of(decision.status)) == []
    assert list(faults_of_texts(each.note for each in decision.pool_events)) == []


@pytest.mark.parametrize("name", WORLDS)
def test_it_stays_the_same_while_only_time_passes(name: str) -> None:
    """But for the issue that no one uses the permissions, which comes after half an hour."""
    more = {key: value for key, value in WORLDS[name].items() if key in ("workloads", "looked")}
    first = world(name)
    pool = with_status(first.pool, decide(first).status)
    labels = {each.node.name: each for each in decide(replace(first, pool=pool)).writes.patches}
    nodes = [patched(node, labels[node.name]) if node.name in labels else node for node in first.nodes]
    for minutes in (1, 2, 17, 61, 240):
        if minutes > 30 and reason_of(decide(first)) == "UpgradeAllowed":
            break
        now = NOON + minutes * MINUTE
        settled_for = None if "settled" in WORLDS[name] else HOUR + minutes * MINUTE
        later = seen(pool, nodes, now=now, settled=settled_for, **more)
        decision = decide(later)
        assert decision.status == pool.status
        assert decision.pool_events == ()


def test_a_held_node_is_named_with_what_ends_the_hold() -> None:
    held = [
        replace(node, annotations={**node.annotations, HOLD_ANNOTATION: "2026-11-02T00:00:00Z"})
        for node in world("open").nodes
    ]
    found = decide(replace(world("open"), nodes=tuple(held))).status.condition("UpgradeAllowed")
    assert found
    assert found.reason == "NodesGated"
    assert "Held, on 3 nodes (w1, w2, w3): " in found.message
    assert "2026-11-02T00:00:00Z" in found.message


def test_every_gate_that_is_judged_for_the_pool_has_its_reason() -> None:
    assert [each.gate for each in POOL_GATES] == list(OF_GATES)


def test_the_oldest_time_is_that_of_the_first_node_that_was_due() -> None:
    first = world("open")
    pool = with_status(first.pool, decide(first).status)
    later = seen(pool, list(first.nodes), now=NOON + timedelta(days=3), settled=timedelta(days=3))
    [entry] = decide(later).status.history
    assert (entry.target, entry.start_time, entry.end_time) == ("2022.5000", NOON, None)
