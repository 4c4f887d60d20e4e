"""Every condition with every reason of the table, from a world that calls for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from gen.condition_table import rows_of
from harness.builders import (
    MINUTE,
    NOON,
    SUPPORTED,
    Nodes,
    a_node,
    a_pool,
    a_record,
    a_snapshot,
    a_survey,
    by_name,
    deleted,
    edited,
    unreadable,
    with_status,
)
from harness.every import every
from harness.memory_worlds import MEMORY_WORLDS
from harness.rollout_scenes import SCENES, seen_in
from harness.sentences import faults_of, faults_of_texts
from harness.upgrade_views import UPGRADE_WORLDS, decided
from harness.writes import acted, relabelled, retainted, settled
from winpool.api.conditions import ConditionType
from winpool.api.keys import HOLD_ANNOTATION as HOLD
from winpool.api.keys import RELEASE_FINALIZER
from winpool.api.spec import Mode
from winpool.api.status import Condition
from winpool.decide import decide
from winpool.model.node import Node, NodeMemory, NodeVersions
from winpool.model.pool import Pool
from winpool.model.snapshot import Snapshot
from winpool.model.survey import Readiness

LABELS = {"team": "a"}
HARSH = "os=windows:NoExecute"
WHY = 'patch nodes w1: 403 admission webhook "no.example.com" denied the request'


def three() -> Nodes:
    return by_name(*(a_node(f"w{number}") for number in range(3)))


def up_to_date() -> Snapshot:
    return a_snapshot(*settled(a_pool(labels=LABELS), three()))


def rollout() -> Snapshot:
    return a_snapshot(a_pool(labels=LABELS), three())


def in_mode(mode: str) -> Snapshot:
    return a_snapshot(a_pool(labels=LABELS, mode=mode), three())


def without_nodes() -> Snapshot:
    return a_snapshot(a_pool(labels=LABELS))


def rejected() -> Snapshot:
    pool, nodes = settled(a_pool(labels=LABELS), three())
    return a_snapshot(unreadable(pool), nodes)


def without_permission() -> Snapshot:
    rule = "system:me may not patch nodes. Add the rule {resources: [nodes], verbs: [patch]}."
    return a_snapshot(a_pool(labels=LABELS), three(), missing_permission=rule)


def all_taken() -> Snapshot:
    rival = a_pool("rival")
    nodes = [a_node(f"w{number}", annotations=a_record(rival.uid)) for number in range(3)]
    return a_snapshot(a_pool(labels=LABELS), nodes, rivals=[rival])


def nobody_knows_whose() -> Snapshot:
    nodes = [a_node(f"w{number}", annotations=a_record("stranger")) for number in range(3)]
    return a_snapshot(a_pool(labels=LABELS), nodes)


def owner_is_none() -> Snapshot:
    """Two lists of all pools lack the owner, and nothing vouches for the record."""
    nodes = [a_node("w0", annotations=a_record("stranger"))]
    return a_snapshot(a_pool(labels=LABELS), nodes, guard="", vanished=("stranger",))


def refused(*names: str) -> Snapshot:
    nodes = three()
    return a_snapshot(a_pool(labels=LABELS), nodes, refused={nodes[name].uid: WHY for name in names})


def too_few_ready() -> Snapshot:
    sick = [a_node("sick1", ready="False"), a_node("sick2", ready="Unknown")]
    return a_snapshot(*settled(a_pool(labels=LABELS), three() | by_name(*sick)))


def releasing() -> Snapshot:
    pool, nodes = settled(a_pool(labels=LABELS, finalizers=(RELEASE_FINALIZER,)), three())
    return a_snapshot(deleted(pool), nodes)


def standing(pool: Pool, *nodes: Node, **seen: Any) -> Snapshot:
    """The nodes carry all that they are to carry."""
    return a_snapshot(*settled(pool, by_name(*nodes)), **seen)


def running(kernel: str = "10.0.20348.4052", **versions: str) -> Snapshot:
    """Two nodes without fault, and one that runs this."""
    other = replace(SUPPORTED, kernel=kernel, **versions)
    return standing(a_pool(), a_node("w0"), a_node("w1"), a_node("w2", versions=other))


def below_floor() -> Snapshot:
    return standing(a_pool(more={"os": {"version": "2022", "minRevision": 5000}}), a_node())


def behind() -> Snapshot:
    return standing(a_pool(more={"os": {"version": "2022", "targetRevision": 5000}}), *three().values())


def warned() -> Snapshot:
    old = NodeVersions(kernel="10.0.17763.8000", kubelet="v1.34.1", runtime="containerd://1.7.28")
    pool = a_pool(more={"os": {"version": "2019"}})
    return standing(pool, a_node(versions=old), control_plane="v1.34.1")


def unreadable_pods() -> Snapshot:
    pool, nodes = settled(a_pool(taints=["os=windows:NoSchedule"]), three())
    return a_snapshot(
        pool, nodes, survey=a_survey(pool, nodes.values(), unreadable=frozenset({"w1"})), looks=()
    )


def mismatched() -> Snapshot:
    """A node reserves less memory than is declared, and carries the taint for it."""
    pool = a_pool(more={"reservedMemory": {"systemReserved": "2Gi", "onMismatch": "Taint"}})
    return standing(pool, replace(a_node(), memory=NodeMemory(16 * 2**30, 15 * 2**30)))


def held() -> Snapshot:
    """A NoExecute taint is on all nodes but one, where a pod does not tolerate it."""
    pool, nodes = a_pool(taints=[HARSH]), three()
    survey = a_survey(pool, nodes.values(), intolerant={HARSH: ["w1/default/web"]})
    pool, nodes = settled(pool, nodes, survey=survey)
    return a_snapshot(pool, nodes, survey=survey)


def held_by_a_person() -> Snapshot:
    """A node lacks a label, and someone holds it."""
    pool, nodes = settled(a_pool(labels=LABELS), three())
    lacking = relabelled(nodes["w1"], team=None)
    return a_snapshot(pool, nodes | by_name(replace(lacking, annotations={**lacking.annotations, HOLD: ""})))


def validating(*, minutes: float = 1) -> Snapshot:
    """A node that has just joined, so many minutes later."""
    more = {"startupTaints": [{"key": "example.com/starting", "effect": "NoSchedule"}]}
    young = {name: replace(node, created=NOON, ready_since=NOON) for name, node in three().items()}
    pool, nodes = settled(a_pool(more=more), young)
    now = NOON + minutes * MINUTE
    lacking = {name: Readiness(unready=1, unready_agents=("kube-system/cni",)) for name in nodes}
    return a_snapshot(pool, nodes, survey=a_survey(pool, nodes.values(), now=now, readiness=lacking), now=now)


def too_large() -> Snapshot:
    pool = a_pool(more={"reservedMemory": {"systemReserved": "9Gi"}})
    return a_snapshot(pool, [replace(a_node(), memory=NodeMemory(16 * 2**30, 14 * 2**30))])


def without_pods(*, minutes: float = 0) -> Snapshot:
    """A taint that was taken off waits for a look at all pods, which has been failing for so many minutes."""
    pool, nodes = settled(a_pool(taints=[HARSH]), three())
    survey = a_survey(pool, nodes.values())
    bare = by_name(*(retainted(node) for node in nodes.values()))
    now = NOON + 10 * MINUTE

    def seen(nodes: Nodes) -> Snapshot:
        return a_snapshot(pool, nodes, survey=survey, looks=(), pods_problem="list pods: 503", now=now)

    blind = seen(acted(decide(seen(bare)), bare))  # what is gone and may not be put back is claimed no more
    return replace(blind, pool=with_status(pool, decide(blind).status), now=now + minutes * MINUTE)


WORLDS: dict[str, Callable[[], Snapshot]] = {
    "up to date": up_to_date,
    "rollout": rollout,
    "paused": lambda: in_mode("Paused"),
    "dry run": lambda: in_mode("DryRun"),
    "no nodes": without_nodes,
    "rejected": rejected,
    "without permission": without_permission,
    "all taken": all_taken,
    "nobody knows whose": nobody_knows_whose,
    "nobody's": owner_is_none,
    "refused": lambda: refused(*three()),
    "too few ready": too_few_ready,
    "releasing": releasing,
    "a build that is not listed": lambda: running("10.0.14393.8000"),
    "a build that is not known": lambda: running("10.0.22631.5335"),
    "an old kubelet": lambda: running(kubelet="v1.30.0", runtime="containerd://1.7.28"),
    "an old runtime": lambda: running(runtime="containerd://1.5.9"),
    "below the floor": below_floor,
    "another release": lambda: running("10.0.17763.8000"),
    "behind": behind,
    "unreadable pods": unreadable_pods,
    "memory mismatch": mismatched,
    "warned": warned,
    "held": held,
    "validating": validating,
    "validation timed out": lambda: validating(minutes=10),
    "pods not listed": without_pods,
    "pods not listed for long": lambda: without_pods(minutes=5),
    "too much reserved": too_large,
    "support ended": lambda: replace(up_to_date(), now=datetime(2031, 10, 15, tzinfo=UTC)),
    "support ends soon": lambda: replace(up_to_date(), now=datetime(2031, 10, 14, tzinfo=UTC)),
    "held by a person": held_by_a_person,
    **MEMORY_WORLDS,
    "without the guard": lambda: a_snapshot(
        a_pool(more={"upgrade": {"strategy": "RollingUpdate"}}), three(), guard=""
    ),
    **{scene: partial(seen_in, scene) for scene in SCENES},
}


@dataclass(frozen=True)
class Case:
    """What a world is to be reported as: the reason of each condition, and which are True."""

    world: str
    reasons: dict[str, str]
    true: set[str] = field(default_factory=set)


HEALTHY = {
    "Ready": "UpToDate",
    "Accepted": "Accepted",
    "Available": "NodesAvailable",
    "NodesUpToDate": "UpToDate",
    "OSSupported": "NodesSupported",
    "Reconciling": "Settled",
    "Stalled": "NotStalled",
    "Paused": "NotPaused",
    "Deleting": "NotDeleting",
}
GOOD = {"Ready", "Accepted", "Available", "NodesUpToDate", "OSSupported"}
CASES = [
    Case("up to date", HEALTHY, GOOD),
    Case(
        "rollout",
        HEALTHY
        | {
            "Ready": "RolloutInProgress",
            "NodesUpToDate": "RolloutInProgress",
            "Reconciling": "RolloutInProgress",
        },
        (GOOD - {"NodesUpToDate"}) | {"Reconciling"},
    ),
    Case(
        "paused",
        HEALTHY | {"Ready": "Paused", "NodesUpToDate": "Paused", "Paused": "PausedBySpec"},
        (GOOD - {"NodesUpToDate"}) | {"Paused"},
    ),
    Case(
        "dry run",
        HEALTHY | {"Ready": "DryRun", "NodesUpToDate": "DryRun"},
        GOOD - {"NodesUpToDate"},
    ),
    Case(
        "no nodes",
        HEALTHY | dict.fromkeys(("Ready", "Available", "NodesUpToDate", "OSSupported"), "NoNodesSelected"),
        GOOD,
    ),
    Case(
        "rejected",
        HEALTHY
        | dict.fromkeys(("Ready", "Accepted", "NodesUpToDate", "OSSupported", "Stalled"), "SpecRejected"),
        {"Available", "Stalled"},
    ),
    Case(
        "refused",
        HEALTHY | dict.fromkeys(("Ready", "NodesUpToDate", "Stalled"), "WriteRefused"),
        {"Accepted", "Available", "OSSupported", "Stalled"},
    ),
    Case(
        "all taken",
        HEALTHY
        | dict.fromkeys(("Ready", "Available", "NodesUpToDate", "OSSupported", "Stalled"), "PoolOverlap"),
        {"Accepted", "Available", "OSSupported", "Stalled"},
    ),
    Case(
        "behind",
        HEALTHY | {"Ready": "UpgradeDue", "NodesUpToDate": "WaitingForActor"},
        GOOD - {"NodesUpToDate"},
    ),
    Case(
        "another release",
        HEALTHY | {"Ready": "UpgradeDue", "NodesUpToDate": "WaitingForActor", "OSSupported": "BuildWarned"},
        GOOD - {"NodesUpToDate"},
    ),
    Case(
        "a build that is not known",
        HEALTHY | dict.fromkeys(("Ready", "NodesUpToDate", "OSSupported"), "BuildUnknown"),
        GOOD - {"NodesUpToDate", "OSSupported"},
    ),
    Case(
        "a build that is not listed",
        HEALTHY
        | dict.fromkeys(("Ready", "OSSupported"), "BuildUnsupported")
        | {"NodesUpToDate": "WaitingForActor"},
        GOOD - {"NodesUpToDate", "OSSupported"},
    ),
    Case("unreadable pods", HEALTHY | {"Ready": "PodsUnreadable"}, GOOD),
    Case("memory mismatch", HEALTHY | {"Ready": "MemoryMismatch"}, GOOD),
    Case(
        "too much reserved",
        HEALTHY
        | dict.fromkeys(("Accepted", "Stalled"), "ReservedMemoryTooLarge")
        | dict.fromkeys(("Ready", "NodesUpToDate", "OSSupported"), "SpecRejected"),
        {"Available", "Stalled"},
    ),
    Case("memory healthy", HEALTHY | {"MemoryHealthy": "NoPressure"}, GOOD | {"MemoryHealthy"}),
    Case("memory silent", HEALTHY | {"MemoryHealthy": "SamplesMissing"}, GOOD),
    Case(
        "memory pressure",
        HEALTHY | dict.fromkeys(("Ready", "MemoryHealthy"), "NodesUnderPressure"),
        GOOD,
    ),
    Case(
        "systemic pressure",
        HEALTHY | dict.fromkeys(("Ready", "MemoryHealthy"), "SystemicPressure"),
        GOOD,
    ),
    Case(
        "held by a person",
        HEALTHY | dict.fromkeys(("Ready", "NodesUpToDate"), "NodesHeld"),
        GOOD - {"NodesUpToDate"},
    ),
    Case(
        "too few ready",
        HEALTHY | dict.fromkeys(("Ready", "Available"), "TooFewAvailable"),
        {"Accepted", "NodesUpToDate", "OSSupported"},
    ),
]


def reported(snapshot: Snapshot) -> dict[str, Condition]:
    return {condition.type: condition for condition in decide(snapshot).status.conditions}


@every("case", CASES, ids=lambda case: case.world)
def test_a_pool_is_reported_as_it_is(case: Case) -> None:
    found = reported(WORLDS[case.world]())
    assert {kind: condition.reason for kind, condition in found.items()} == case.reasons
    assert {kind for kind, condition in found.items() if condition.status == "True"} == case.true
    unknown = {kind for kind, condition in found.items() if condition.status == "Unknown"}
    assert unknown <= {"OSSupported", "NodesUpToDate", "MemoryHealthy"}


@pytest.mark.slow
@every("world", [*WORLDS, *UPGRADE_WORLDS])
def test_each_pool_is_told_of_in_sentences_and_none_is_told_twice(world: str) -> None:
    decision = decide(WORLDS[world]()) if world in WORLDS else decided(world)
    assert list(faults_of(decision.status)) == []
    assert list(faults_of_texts(each.note for each in decision.pool_events)) == []


def test_a_missing_permission_says_the_exact_rule() -> None:
    snapshot = without_permission()
    found = reported(snapshot)
    assert found["Accepted"].reason == found["Ready"].reason == "MissingPermission"
    assert found["Accepted"].status == found["Ready"].status == "False"
    assert snapshot.missing_permission in found["Accepted"].message
    assert (found["Reconciling"].status, found["Reconciling"].reason) == ("False", "Settled")


def test_a_pool_that_owns_none_of_the_nodes_it_selects_says_so() -> None:
    found = reported(all_taken())
    assert (found["Ready"].status, found["Ready"].reason) == ("False", "PoolOverlap")
    assert "3 nodes" in found["Ready"].message
    assert (found["Accepted"].status, found["Reconciling"].status) == ("True", "False")


def test_nodes_of_which_nobody_knows_whose_they_are_make_the_pool_unknown_and_not_ready() -> None:
    """They may be ours within ten minutes, or another pool's: neither is known (P4)."""
    found = reported(nobody_knows_whose())
    for kind in ("Available", "NodesUpToDate"):
        assert (found[kind].status, found[kind].reason) == ("Unknown", "OwnerUnknown")
    assert (found["Ready"].status, found["Ready"].reason) == ("False", "OwnerUnknown")
    assert "3 nodes" in found["Ready"].message


def test_as_long_as_other_nodes_can_be_written_it_goes_on_and_says_what_is_refused() -> None:
    found = reported(refused("w1"))
    assert (found["Reconciling"].status, found["Stalled"].status) == ("True", "False")
    for kind in ("Ready", "NodesUpToDate"):
        assert (found[kind].status, found[kind].reason) == ("False", "WriteRefused")


def test_when_only_refused_nodes_are_left_nobody_waits_for_us() -> None:
    """Who waits for Reconciling to end would wait for ever."""
    found = reported(refused(*three()))
    assert (found["Reconciling"].status, found["Reconciling"].reason) == ("False", "Settled")
    assert "w0, w1, w2" in found["Ready"].message


def test_a_refusal_is_over_when_nothing_is_to_be_written_any_more() -> None:
    pool, nodes = settled(a_pool(labels=LABELS), three())
    found = reported(a_snapshot(pool, nodes, refused={node.uid: WHY for node in nodes.values()}))
    assert found["Ready"].reason == "UpToDate"


def test_a_deletion_that_the_api_server_does_not_allow_says_so() -> None:
    pool, nodes = settled(a_pool(labels=LABELS, finalizers=(RELEASE_FINALIZER,)), three())
    found = reported(a_snapshot(deleted(pool), nodes, refused={nodes["w1"].uid: WHY}))
    assert (found["Deleting"].status, found["Reconciling"].status) == ("True", "True")
    assert "refuses to change 1 node (w1). See the issue WriteRefused." in found["Deleting"].message


def test_nodes_that_belong_to_others_are_not_reported_as_no_nodes() -> None:
    """They have the labels that the selector asks for: it is not the selector that misses them."""
    found = reported(all_taken())
    assert "NoNodesSelected" not in {condition.reason for condition in found.values()}


def test_a_pool_that_owns_one_of_the_nodes_it_selects_is_ready() -> None:
    """One shared node is an issue and freezes nobody."""
    rival = a_pool("rival")
    shared = [a_node(f"w{number}", annotations=a_record(rival.uid)) for number in range(3)]
    pool, nodes = settled(a_pool(labels=LABELS), by_name(a_node("mine")))
    found = reported(a_snapshot(pool, [*nodes.values(), *shared], rivals=[rival]))
    assert (found["Ready"].status, found["Ready"].reason) == ("True", "UpToDate")


def test_a_pool_under_deletion_is_not_ready_and_says_how_many_nodes_are_left() -> None:
    found = reported(releasing())
    assert (found["Ready"].status, found["Ready"].reason) == ("False", "Deleting")
    for kind in ("Deleting", "Reconciling"):
        assert (found[kind].status, found[kind].reason) == ("True", "ReleasingNodes")
    assert "3 nodes" in found["Deleting"].message


def test_ready_shows_one_reason_for_every_spec_that_is_not_accepted_and_names_that_of_accepted() -> None:
    """The column STATE has room for 19 characters."""
    found = reported(too_large())
    assert found["Ready"].reason == "SpecRejected"
    assert "(ReservedMemoryTooLarge)" in found["Ready"].message
    assert found["Ready"].message.endswith("See the condition Accepted.")
    found = reported(rejected())
    assert found["Ready"].message == "The operator cannot act on the spec. See the condition Accepted."


def test_a_rejected_spec_is_quoted_with_the_reason() -> None:
    found = reported(rejected())
    assert "spec.os: must be given" in found["Accepted"].message


@pytest.mark.slow
def test_the_worlds_above_show_every_meaning_of_the_table() -> None:
    decisions = [*(decide(world()) for world in WORLDS.values()), *map(decided, UPGRADE_WORLDS)]
    seen = {(each.type, each.status, each.reason) for found in decisions for each in found.status.conditions}
    table = {(kind, status, reason) for kind in ConditionType for status, reason, _ in rows_of(kind)}
    assert table - seen == set()


# Each condition by itself


@every(("sick", "available"), [(0, "True"), (1, "True"), (2, "False"), (3, "False")])
@every("how", [{"ready": "False"}, {"ready": "Unknown"}, {"unschedulable": True}, {"deleting": True}])
def test_all_but_one_node_must_be_available(how: dict[str, Any], sick: int, available: str) -> None:
    nodes = [a_node(f"w{n}", **(how if n < sick else {})) for n in range(4)]
    found = reported(a_snapshot(*settled(a_pool(labels=LABELS), by_name(*nodes))))
    assert (found["Available"].status, found["Ready"].status) == (available, available)


@every(("sick", "available"), [(2, "True"), (3, "False")])
def test_a_tenth_of_a_large_pool_may_be_missing_where_the_spec_says_nothing(
    sick: int, available: str
) -> None:
    nodes = [a_node(f"w{n}", unschedulable=n < sick) for n in range(29)]
    found = reported(a_snapshot(*settled(a_pool(labels=LABELS), by_name(*nodes))))
    assert (found["Available"].status, found["Ready"].status) == (available, available)


@pytest.mark.parametrize("how", [{"ready": "False"}, {"unschedulable": True}, {"deleting": True}])
def test_the_only_node_must_be_available(how: dict[str, Any]) -> None:
    """One node may be missing, but a pool without an available node has none to run pods on."""
    found = reported(a_snapshot(a_pool(), [a_node(**how)]))
    assert (found["Available"].status, found["Available"].reason) == ("False", "TooFewAvailable")
    assert found["Ready"].status == "False"
    assert reported(a_snapshot(a_pool(), [a_node()]))["Available"].status == "True"


@pytest.mark.parametrize(("mode", "paused"), [("Paused", "True"), ("DryRun", "False"), ("Active", "False")])
def test_only_paused_is_paused(mode: str, paused: str) -> None:
    assert reported(in_mode(mode))["Paused"].status == paused


@pytest.mark.parametrize("mode", ["Paused", "DryRun"])
def test_a_pool_that_is_up_to_date_says_so_in_every_mode(mode: str) -> None:
    pool, nodes = settled(a_pool(labels=LABELS), three())
    assert pool.spec is not None
    held = edited(pool, pool.spec.model_copy(update={"mode": Mode(mode)}))
    found = reported(a_snapshot(held, nodes))
    assert (found["NodesUpToDate"].status, found["NodesUpToDate"].reason) == ("True", "UpToDate")
    assert (found["Ready"].status, found["Ready"].reason) == ("True", mode)


@pytest.mark.parametrize("mode", ["Paused", "DryRun"])
def test_tools_do_not_wait_for_an_operator_that_may_not_act(mode: str) -> None:
    assert reported(in_mode(mode))["Reconciling"].status == "False"


def test_a_node_that_is_held_back_is_still_at_work() -> None:
    """The operator will write it by itself, only later."""
    snapshot = a_snapshot(a_pool(labels=LABELS), three(), held_back=[node.uid for node in three().values()])
    found = reported(snapshot)
    assert (found["Reconciling"].status, found["NodesUpToDate"].status) == ("True", "False")


def test_a_node_that_has_left_is_at_work_until_it_is_released() -> None:
    pool, nodes = settled(a_pool(labels=LABELS), three())
    nodes["w0"] = a_node(
        "w0", labels={**nodes["w0"].labels, "agentpool": "blue"}, annotations=nodes["w0"].annotations
    )
    found = reported(a_snapshot(pool, nodes))
    assert (found["NodesUpToDate"].status, found["Reconciling"].status) == ("False", "True")


def test_a_spec_whose_record_would_not_fit_is_rejected_with_the_fix() -> None:
    long = {f"{'a' * 240}.{n:03d}/{'x' * 63}": "x" * 63 for n in range(32)}
    taints = [f"{key}={value}:NoSchedule" for key, value in list(long.items())[:16]]
    snapshot = a_snapshot(a_pool(labels=long, taints=taints), three())
    found = reported(snapshot)
    assert (found["Accepted"].status, found["Accepted"].reason) == ("False", "SpecRejected")
    assert "label" in found["Accepted"].message
    assert decide(snapshot).writes.patches == ()
