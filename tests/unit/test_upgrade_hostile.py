"""What kubelets, pod authors and clocks may report: no pass of a pool with ``spec.upgrade`` fails of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Final

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.builders import NOON, a_survey
from harness.strategies import NASTY, extreme_times
from harness.upgrade_feature import settled_node, upgrade_pool, upgrade_snapshot
from winpool.api.keys import (
    HOLD_ANNOTATION,
    OS_VERSION_LABEL,
    UPGRADE_REQUESTED_ANNOTATION,
    UPGRADE_STATE_LABEL,
)
from winpool.api.status import ControlPlaneSeen
from winpool.api.upgrade import Trigger
from winpool.decide import decide
from winpool.features.feature import AllowedActions
from winpool.features.upgrade.due import surprise_of
from winpool.features.upgrade.feature import upgrade
from winpool.features.upgrade.plan import upgrade_plan
from winpool.model.node import Allocatable, Node, NodeMemory, NodeVersions
from winpool.model.pods import Block, BlockedBy, DeclaredBuild, PodShape, Requests, Toleration, Workload
from winpool.model.pool import KnownUpgrades, Surprise, SurpriseKind
from winpool.model.snapshot import Snapshot
from winpool.ownership.members import divide

MOST: Final = 2**63 - 1
LONG: Final = "x" * 5_000

numbers = st.sampled_from((None, 0, 1, -1, 4000, MOST, -MOST, 10**30))
amounts = st.sampled_from((0, 1, 100, MOST, 2**80))
texts = NASTY | st.sampled_from(
    ("", LONG, "10.0.20348.4052", "10.0.20348.99999999999999999999", "NaN", "\ud800")
)
moments = st.none() | extreme_times() | st.just(NOON)
NOWS: Final = (datetime(2000, 1, 1, tzinfo=UTC), NOON - timedelta(days=1), datetime(2999, 1, 1, tzinfo=UTC))
values = st.sampled_from(
    ("Required", "Gated", "UpToDate", "Failed", "Quarantined", "DrainBlocked", "", "2022")
)


@st.composite
def odd_nodes(draw: st.DrawFn, name: str) -> Node:
    node = settled_node(name, unschedulable=draw(st.booleans()), ready=draw(texts | st.just("True")))
    labels = draw(st.dictionaries(st.sampled_from((UPGRADE_STATE_LABEL, OS_VERSION_LABEL)), values))
    keys = st.sampled_from((UPGRADE_REQUESTED_ANNOTATION, HOLD_ANNOTATION))
    return replace(
        node,
        labels={**node.labels, **labels},
        annotations=draw(st.dictionaries(keys, texts)),
        versions=draw(st.just(node.versions) | st.builds(NodeVersions, texts, texts, texts)),
        created=draw(moments),
        ready_since=draw(moments),
        memory=NodeMemory(draw(numbers), draw(numbers)),
        allocatable=Allocatable(draw(numbers), draw(numbers)),
        boot_id=draw(texts),
    )


shapes = st.builds(
    PodShape,
    st.builds(Requests, amounts, amounts, st.just(1)),
    selector=st.sampled_from(((), (("a", "b"),), tuple((f"k{n}", "v" * 63) for n in range(40)))),
    tolerations=st.lists(
        st.builds(
            lambda key, operator, value, effect: Toleration(key, operator, value, effect, None),
            texts, st.sampled_from(("", "Exists", "Equal", "Lt")), texts, texts,
        ),
        max_size=2,
    ).map(tuple),
    unclear=st.sampled_from(("", "its volumes")),
)  # fmt: skip
workloads = st.none() | st.builds(
    Workload,
    used=st.builds(Requests, amounts, amounts, amounts),
    moving=st.lists(st.tuples(shapes, st.sampled_from((1, 3, 100_000))), max_size=3).map(tuple),
    declared=st.lists(st.builds(DeclaredBuild, texts, st.booleans()), max_size=3).map(tuple),
    undeclared=amounts,
    blocks=st.lists(st.builds(Block, texts, st.sampled_from(BlockedBy), st.just(("b",))), max_size=2).map(
        tuple
    ),
    blocked=amounts,
    budgets_known=st.booleans(),
    unmanaged=amounts,
    local=amounts,
    longest_grace=st.sampled_from((0, 30, 30 * 86400)),
    is_complete=st.booleans(),
)
blocks = st.fixed_dictionaries(
    {},
    optional={
        "method": st.sampled_from(("InPlace", "Replace")),
        "triggers": st.just([each.value for each in Trigger]),
        "maxUnavailable": st.sampled_from((0, 1, "100%")),
        "maintenanceWindows": st.just(
            [{"schedule": "0 0 29 2 */7", "durationSeconds": 60, "timeZone": "America/Sao_Paulo"}]
        ),
        "overrides": st.just(
            [{"gate": "PoolHealth", "until": "2999-12-31T23:59:59Z", "reason": "\u202e" * 256}]
        ),
        "pauseRequests": st.just([{"owner": f"o{n}", "reason": "r" * 256} for n in range(16)]),
    },
)
seen = st.builds(
    KnownUpgrades,
    control_plane_since=moments,
    control_plane_is_first=st.booleans(),
    surprises=st.lists(
        st.builds(
            Surprise,
            st.sampled_from(SurpriseKind),
            st.just("w1"),
            st.just("uid-of-w1"),
            extreme_times(),
            st.just("It changed."),
        ),
        max_size=3,
    ).map(tuple),
)


class Shown:
    """A snapshot, of which a test that fails shows only what differs from world to world."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def __repr__(self) -> str:
        of = self.snapshot
        return f"{of.now=} {of.pool.spec=} {of.nodes=} {of.upgrades=} {of.pods.survey=}"[:20_000]


@st.composite
def worlds(draw: st.DrawFn) -> Shown:
    pool = upgrade_pool(draw(blocks), mode=draw(st.sampled_from(("Active", "Paused", "DryRun"))))
    if (since := draw(moments)) is not None:
        known = ControlPlaneSeen(version=draw(st.sampled_from(("v1.36.3", "v9"))), since=since)
        pool = replace(pool, status=pool.status.model_copy(update={"control_plane": known}))
    nodes = [draw(odd_nodes("w1")), draw(odd_nodes("w2"))]
    there = {node.name: found for node in nodes if (found := draw(workloads)) is not None}
    survey = a_survey(pool, nodes, now=draw(st.just(NOON) | extreme_times()), workloads=there)
    snapshot = upgrade_snapshot(pool, nodes)
    now = draw(st.just(NOON) | st.sampled_from(NOWS))
    odd = replace(
        snapshot,
        now=now,
        pods=replace(snapshot.pods, survey=survey),
        support=replace(snapshot.support, control_plane=draw(st.just("v1.36.3") | texts)),
        upgrades=draw(seen),
    )
    return Shown(odd)


@given(worlds())
def test_no_pass_fails_whatever_is_reported_and_its_status_stays_small(world: Shown) -> None:
    snapshot = world.snapshot
    decision = decide(snapshot)
    text = json.dumps(decision.status.to_object())
    assert len(text) < 100_000
    assert decision.look_again is None or decision.look_again > snapshot.now
    assert len(decision.pool_events) < 40


@given(worlds())
def test_no_plan_fails_whatever_is_reported(world: Shown) -> None:
    snapshot = world.snapshot
    found = upgrade(snapshot, divide(snapshot), AllowedActions.NOTHING).overview
    assert found is not None
    assert snapshot.pool.spec is not None
    plan = upgrade_plan(found, spec=snapshot.pool.spec, nodes_of_pool=list(snapshot.nodes))
    assert len(plan.nodes) == len(found.due)


@given(odd_nodes("w1"), odd_nodes("w1"), extreme_times())
def test_no_rule_of_surprises_fails_whatever_is_reported(before: Node, after: Node, now: datetime) -> None:
    for first, then in ((before, after), (after, after)):
        found = surprise_of(first, then, now=now)
        assert found is None or len(found.said) < 300
